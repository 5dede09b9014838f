//! Tables of peers and streams: filtered, sorted and cut to a page before they are sent.

use crate::end_to_end::EndToEndEstimate;
use serde::{Deserialize, Serialize};
use status::{Peer, PeerState, Side, Snapshot, Stall, Stream};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Rows of one page.
const PAGE_ROWS: usize = 50;

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct View {
    /// The table.
    pub table: Table,
    /// The order of its rows.
    pub sort: Sort,
    /// The number of the page, from 0.
    pub page: usize,
    /// Rows whose names or addresses contain this text; all if empty.
    pub filter: String,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// None: the link.
    #[default]
    None,
    /// The peers.
    Peers,
    /// Relayed connections.
    Streams,
}

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// The highest rate of both directions together first.
    #[default]
    Rate,
    /// The highest rate sent (peers) or from TCP (streams) first.
    Sent,
    /// The highest rate received (peers) or to TCP (streams) first.
    Received,
    /// The highest loss rate first (peers).
    Loss,
    /// Peers that are not up first; streams by how long they have stalled.
    Trouble,
    /// The oldest first (streams).
    Age,
    /// By name (peers) or client (streams).
    Name,
}

/// One page of a table.
#[derive(Debug, Serialize)]
pub(crate) struct Page<R> {
    /// Rows that match the filter.
    pub(crate) matching: usize,
    /// All rows.
    pub(crate) total: usize,
    /// The number of this page, from 0.
    pub(crate) page: usize,
    /// The number of pages, at least 1.
    pub(crate) pages: usize,
    /// Rows of each page but the last.
    pub(crate) rows_per_page: usize,
    /// The rows of this page.
    pub(crate) rows: Vec<R>,
}

/// A peer's row.
#[derive(Debug, Serialize)]
pub(crate) struct PeerRow<'a> {
    pub(crate) name: &'a str,
    state: PeerState,
    reason: Option<&'a str>,
    trouble: Option<&'a str>,
    rtt_s: Option<f64>,
    mtu: u16,
    streams: u64,
    pub(crate) sent_bps: f64,
    received_bps: f64,
    pub(crate) loss: f64,
    repair_bps: f64,
    waiting_bytes: Option<u64>,
}

/// A stream's row.
#[derive(Debug, Serialize)]
pub(crate) struct StreamRow<'a> {
    pub(crate) stream: u64,
    peer: &'a str,
    side: Side,
    client: Option<String>,
    server: Option<String>,
    class: Option<&'a str>,
    state: &'a str,
    pub(crate) stall: Option<Stall>,
    /// In what time its bytes would have moved from end to end at least, if that can be estimated.
    without_s: Option<f64>,
    age_s: f64,
    pub(crate) sent_bps: f64,
    received_bps: f64,
    from_tcp_bytes: u64,
    to_tcp_bytes: u64,
}

fn bps(before: u64, now: u64, seconds: f64) -> f64 {
    (now.saturating_sub(before) as f64 * 8.0 / seconds).round()
}

/// The page of peers that `view` asks for; rates are those since `before`.
pub(crate) fn peers<'a>(view: &View, before: &Snapshot, now: &'a Snapshot, seconds: f64) -> Page<PeerRow<'a>> {
    let known: HashMap<&str, &Peer> = before.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
    let filter = view.filter.to_lowercase();
    let matches = |peer: &&Peer| filter.is_empty() || peer.name.to_lowercase().contains(&filter);
    let before = |peer: &Peer| known.get(peer.name.as_str()).copied();
    // The `tcp` transport counts none.
    let counts_packets = now.satellite.sent_packets > 0;
    let rows = now.peers.iter().filter(matches).map(|peer| peer_row(peer, before(peer), counts_packets, seconds));
    let order = |one: &PeerRow<'_>, other: &PeerRow<'_>| {
        let use_of = |row: &PeerRow<'_>| row.sent_bps + row.received_bps;
        let first = match view.sort {
            Sort::Loss => other.loss.total_cmp(&one.loss),
            Sort::Trouble => {
                let is_well = |row: &PeerRow<'_>| row.state == PeerState::Up && row.trouble.is_none();
                is_well(one).cmp(&is_well(other)).then(other.loss.total_cmp(&one.loss))
            }
            Sort::Name => Ordering::Equal,
            Sort::Sent => other.sent_bps.total_cmp(&one.sent_bps),
            Sort::Received => other.received_bps.total_cmp(&one.received_bps),
            Sort::Rate | Sort::Age => use_of(other).total_cmp(&use_of(one)),
        };
        first.then_with(|| one.name.cmp(other.name))
    };
    cut(view.page, now.peers.len(), rows.collect(), order)
}

fn peer_row<'a>(peer: &'a Peer, before: Option<&Peer>, counts_packets: bool, seconds: f64) -> PeerRow<'a> {
    let before = before.unwrap_or(peer);
    let since = |of: fn(&Peer) -> u64| of(peer).saturating_sub(of(before)) as f64;
    let (sent, lost) = (since(|peer| peer.sent_packets), since(|peer| peer.lost_packets));
    PeerRow {
        name: &peer.name,
        state: peer.state,
        reason: peer.trouble.as_ref().map(|trouble| &*trouble.reason),
        trouble: peer.trouble.as_ref().map(|trouble| &*trouble.says),
        rtt_s: peer.rtt_s,
        mtu: peer.mtu,
        streams: peer.streams,
        sent_bps: bps(before.sent_bytes, peer.sent_bytes, seconds),
        received_bps: bps(before.received_bytes, peer.received_bytes, seconds),
        loss: match (counts_packets, sent > 0.0) {
            (false, _) => f64::NAN,
            (true, false) => 0.0,
            (true, true) => (lost / sent).min(1.0),
        },
        repair_bps: if counts_packets { bps(before.repair_bytes, peer.repair_bytes, seconds) } else { f64::NAN },
        waiting_bytes: counts_packets.then_some(peer.send_buffered_bytes),
    }
}

/// Bytes from and to TCP.
type Bytes = (u64, u64);

/// What streams had moved a sample ago, by peer, and by number and side.
#[derive(Debug, Default)]
pub(crate) struct Moved(HashMap<String, HashMap<(u64, Side), Bytes>>);

impl Moved {
    pub(crate) fn of(streams: Vec<Stream>) -> Self {
        let mut moved = Self::default();
        for stream in streams {
            let bytes = (stream.from_tcp_bytes, stream.to_tcp_bytes);
            moved.0.entry(stream.peer).or_default().insert((stream.stream, stream.side), bytes);
        }
        moved
    }

    /// Rates from and to TCP, in bit/s. Those of a stream that is new are not known: zero.
    fn rates(&self, stream: &Stream, seconds: f64) -> (f64, f64) {
        let before = self.0.get(&stream.peer).and_then(|streams| streams.get(&(stream.stream, stream.side)));
        let (from, to) = before.copied().unwrap_or((stream.from_tcp_bytes, stream.to_tcp_bytes));
        (bps(from, stream.from_tcp_bytes, seconds), bps(to, stream.to_tcp_bytes, seconds))
    }
}

/// The page of streams that `view` asks for; rates are those since `before`.
pub(crate) fn streams<'a>(
    view: &View,
    before: &Moved,
    now: &'a Snapshot,
    seconds: f64,
    without: Option<EndToEndEstimate>,
) -> Page<StreamRow<'a>> {
    let filter = view.filter.to_lowercase();
    let matches = |stream: &&Stream| {
        let has = |address: Option<std::net::SocketAddr>| address.is_some_and(|a| a.to_string().contains(&filter));
        filter.is_empty() || stream.peer.to_lowercase().contains(&filter) || has(stream.client) || has(stream.server)
    };
    let rated = now.streams.iter().filter(matches).map(|stream| (stream, before.rates(stream, seconds)));
    let order = |(one, one_rates): &(&Stream, (f64, f64)), (other, other_rates): &(&Stream, (f64, f64))| {
        let (one_rate, other_rate) = (one_rates.0 + one_rates.1, other_rates.0 + other_rates.1);
        let first = match view.sort {
            Sort::Trouble | Sort::Loss => stalled_s(other).total_cmp(&stalled_s(one)),
            Sort::Age => Ordering::Equal,
            Sort::Name => one.client.cmp(&other.client),
            Sort::Sent => other_rates.0.total_cmp(&one_rates.0),
            Sort::Received => other_rates.1.total_cmp(&one_rates.1),
            Sort::Rate => other_rate.total_cmp(&one_rate),
        };
        first.then_with(|| other.age_s.total_cmp(&one.age_s)).then_with(|| key(one).cmp(&key(other)))
    };
    let page = cut(view.page, now.streams.len(), rated.collect(), order);
    let row = |(stream, (sent_bps, received_bps)): (&'a Stream, (f64, f64))| StreamRow {
        stream: stream.stream,
        peer: &stream.peer,
        side: stream.side,
        client: stream.client.map(|address| address.to_string()),
        server: stream.server.map(|address| address.to_string()),
        class: stream.class.as_deref(),
        state: &stream.state,
        stall: stream.stall,
        without_s: without.map(|without| without.time_s(stream.from_tcp_bytes.max(stream.to_tcp_bytes)).round()),
        age_s: stream.age_s.round(),
        sent_bps,
        received_bps,
        from_tcp_bytes: stream.from_tcp_bytes,
        to_tcp_bytes: stream.to_tcp_bytes,
    };
    let Page { matching, total, page, pages, rows_per_page, rows } = page;
    Page { matching, total, page, pages, rows_per_page, rows: rows.into_iter().map(row).collect() }
}

/// For how long a stream has stalled; 0 if it has not.
fn stalled_s(stream: &Stream) -> f64 {
    stream.stall.map_or(0.0, |stall| stall.time_s)
}

fn key(stream: &Stream) -> (&str, u64, Side) {
    (&stream.peer, stream.stream, stream.side)
}

/// Page `page` (the last one, if there are fewer) of `rows` in `order`: only its rows are sorted.
fn cut<R>(page: usize, total: usize, mut rows: Vec<R>, order: impl Fn(&R, &R) -> Ordering) -> Page<R> {
    let matching = rows.len();
    let pages = matching.div_ceil(PAGE_ROWS).max(1);
    let page = page.min(pages - 1);
    let (first, end) = (page * PAGE_ROWS, ((page + 1) * PAGE_ROWS).min(matching));
    if end < matching {
        rows.select_nth_unstable_by(end, &order);
        rows.truncate(end);
    }
    if first > 0 {
        rows.select_nth_unstable_by(first, &order);
        rows.drain(..first);
    }
    rows.sort_by(order);
    Page { matching, total, page, pages, rows_per_page: PAGE_ROWS, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::{Satellite, StallCause};

    fn view(table: Table, sort: Sort, page: usize, filter: &str) -> View {
        View { table, sort, page, filter: filter.into() }
    }

    /// Peer `n` sends n bit/s and loses n mod 7 of 100 packets; every hundredth is unresponsive.
    fn thousand(second: u64) -> Snapshot {
        let peer = |n: u64| Peer {
            name: format!("terminal-{n:04}"),
            state: if n.is_multiple_of(100) { PeerState::Unresponsive } else { PeerState::Up },
            sent_bytes: n * second,
            sent_packets: 100 * second,
            lost_packets: n % 7 * second,
            ..Peer::default()
        };
        let satellite = Satellite { sent_packets: 100_000 * second, ..Satellite::default() };
        Snapshot { peers: (0..1000).map(peer).collect(), satellite, ..Snapshot::default() }
    }

    #[test]
    fn pages_together_are_the_whole_order() {
        let (before, now) = (thousand(1), thousand(2));
        let page = |n| peers(&view(Table::Peers, Sort::Rate, n, ""), &before, &now, 1.0);
        let names: Vec<_> = (0..20).flat_map(|n| page(n).rows).map(|row| row.name.to_owned()).collect();
        let expected: Vec<_> = (0..1000).rev().map(|n| format!("terminal-{n:04}")).collect();
        assert_eq!(names, expected);
        assert_eq!((page(99).page, page(99).pages, page(99).rows.len()), (19, 20, PAGE_ROWS));
        assert_eq!(page(0).rows[0].sent_bps, 999.0 * 8.0);
    }

    #[test]
    fn peers_sort_by_loss_and_trouble() {
        let (before, now) = (thousand(1), thousand(2));
        let first = |sort| peers(&view(Table::Peers, sort, 0, ""), &before, &now, 1.0).rows.remove(0);
        assert!((first(Sort::Loss).loss - 0.06).abs() < 1e-9);
        let troubled = peers(&view(Table::Peers, Sort::Trouble, 0, ""), &before, &now, 1.0);
        assert!(troubled.rows[..10].iter().all(|row| row.state == PeerState::Unresponsive));
        assert_eq!(troubled.rows[10].state, PeerState::Up);
        assert_eq!(first(Sort::Name).name, "terminal-0000");
    }

    #[test]
    fn peers_sort_by_each_direction_and_by_both() {
        let peer = |name: &str, sent_bytes, received_bytes| Peer {
            name: name.into(),
            sent_bytes,
            received_bytes,
            ..Peer::default()
        };
        let before = Snapshot { peers: ["a", "b", "c"].map(|name| peer(name, 0, 0)).into(), ..Snapshot::default() };
        let now = Snapshot { peers: vec![peer("a", 10, 0), peer("b", 2, 90), peer("c", 9, 80)], ..Snapshot::default() };
        let names = |sort| {
            let page = peers(&view(Table::Peers, sort, 0, ""), &before, &now, 1.0);
            page.rows.iter().map(|row| row.name).collect::<String>()
        };
        assert_eq!([Sort::Sent, Sort::Received, Sort::Rate].map(names), ["acb", "bca", "bca"].map(String::from));
    }

    #[test]
    fn streams_sort_by_each_direction_and_by_both() {
        let stream =
            |stream, from_tcp_bytes, to_tcp_bytes| Stream { stream, from_tcp_bytes, to_tcp_bytes, ..Stream::default() };
        let before = Moved::of([1, 2, 3].map(|n| stream(n, 0, 0)).into());
        let streams_now = vec![stream(1, 10, 0), stream(2, 2, 90), stream(3, 9, 80)];
        let now = Snapshot { streams: streams_now, ..Snapshot::default() };
        let numbers = |sort| {
            let page = streams(&view(Table::Streams, sort, 0, ""), &before, &now, 1.0, None);
            page.rows.iter().map(|row| row.stream).collect::<Vec<_>>()
        };
        assert_eq!([Sort::Sent, Sort::Received, Sort::Rate].map(numbers), [[1, 3, 2], [2, 3, 1], [2, 3, 1]]);
    }

    #[test]
    fn what_the_transport_does_not_count_is_not_known() {
        let now = Snapshot { satellite: Satellite::default(), ..thousand(1) };
        let page = peers(&view(Table::Peers, Sort::Loss, 0, ""), &now, &now, 1.0);
        let row = serde_json::json!(page.rows[0]);
        assert!(["loss", "repair_bps", "waiting_bytes"].iter().all(|name| row[name].is_null()), "{row}");
    }

    #[test]
    fn the_longest_stall_is_the_first_trouble() {
        let stall = |cause, time_s| Some(Stall { cause, time_s });
        let stream = |stream, stall| Stream { stream, stall, ..Stream::default() };
        let (host, satellite) = (stall(StallCause::Host, 3.0), stall(StallCause::Satellite, 12.0));
        let now =
            Snapshot { streams: vec![stream(1, None), stream(2, host), stream(3, satellite)], ..Snapshot::default() };
        let page = streams(&view(Table::Streams, Sort::Trouble, 0, ""), &Moved::default(), &now, 1.0, None);
        assert_eq!(page.rows.iter().map(|row| row.stream).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(serde_json::json!(page.rows[0].stall), serde_json::json!({"cause": "satellite", "time_s": 12.0}));
    }

    #[test]
    fn a_filter_finds_names_and_addresses() {
        let mut now = thousand(1);
        let found = peers(&view(Table::Peers, Sort::Rate, 0, "-000"), &now, &now, 1.0);
        assert_eq!((found.matching, found.total, found.pages), (10, 1000, 1));
        let stream = |n: u16| Stream {
            stream: n.into(),
            peer: format!("terminal-{:04}", n % 10),
            client: Some(([10, 0, 0, 1], n).into()),
            age_s: n.into(),
            from_tcp_bytes: 100,
            ..Stream::default()
        };
        now.streams = (0..200).map(stream).collect();
        let before = Moved::of(now.streams.clone());
        now.streams[7].from_tcp_bytes += 10;
        let by = |sort, filter| streams(&view(Table::Streams, sort, 0, filter), &before, &now, 1.0, None);
        assert_eq!(by(Sort::Rate, "").rows[0].stream, 7);
        assert_eq!(by(Sort::Rate, "").rows[0].sent_bps, 80.0);
        assert_eq!(by(Sort::Age, "").rows[0].stream, 199);
        assert_eq!(by(Sort::Trouble, "").rows[0].stream, 199);
        assert_eq!(by(Sort::Name, ":117").rows.len(), 1);
        assert_eq!(by(Sort::Rate, "terminal-0003").matching, 20);
        assert_eq!(by(Sort::Rate, "nobody").rows.len(), 0);
    }
}
