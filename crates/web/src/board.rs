//! What pages receive: history, events and the last samples, rendered once for all pages that show the same.

use crate::end_to_end::EndToEndEstimate;
use crate::events::{Event, Events};
use crate::history::{History, Span};
use crate::losses::Losses;
use crate::point::{Point, capacity_kind};
use crate::rows::{self, Moved, Table, View};
use crate::source::Detail;
use serde_json::{Value, json};
use status::{Modem, PeerState, Snapshot, Source};
use std::collections::HashMap;
use std::sync::Arc;

/// Different views that are rendered in one second; a page that shows another one waits.
const VIEWS: usize = 64;

/// The state of the page's data.
#[derive(Debug, Default)]
pub struct Board {
    history: History,
    events: Events,
    /// The last sample, and the one before it.
    last: Option<Sample>,
    before: Option<Sample>,
    moved: Moved,
    losses: Losses,
    /// What the host's clock was ahead of [`Sample::time`].
    clock_lead_s: Option<f64>,
    point: Option<Point>,
    /// Whether a page shows streams, since the last sample.
    wants_streams: bool,
    rendered: HashMap<(View, u64), Arc<str>>,
}

/// The state of the gateway at a time, in seconds since 1970.
#[derive(Debug)]
struct Sample {
    time: f64,
    detail: Detail,
    state: Snapshot,
}

impl Board {
    /// What the next sample has to hold. A page that shows streams asks for them each second.
    pub fn wanted(&mut self) -> Detail {
        if std::mem::take(&mut self.wants_streams) { Detail::Streams } else { Detail::Peers }
    }

    /// The host's clock shows `clock` at `time`: both in seconds since 1970, and `time` goes on evenly even if the clock is set.
    pub fn see_clock(&mut self, time: f64, clock: f64) {
        let lead = clock - time;
        if let Some(before) = self.clock_lead_s.replace(lead) {
            self.events.clock(time, lead - before);
        }
    }

    /// Takes the state of the gateway at `time`, in seconds since 1970, with as much as `detail` says.
    pub fn take(&mut self, time: f64, detail: Detail, state: Snapshot) {
        self.rendered.clear();
        if let Some(mut before) = self.last.take() {
            // A clock that was set back: no rate is known.
            let seconds = if time > before.time { time - before.time } else { f64::NAN };
            let point = Point::between(&before.state, &state, seconds);
            self.history.push(time, point);
            self.point = Some(point);
            self.events.compare(time, &before.state, &state);
            self.moved = Moved::of(std::mem::take(&mut before.state.streams));
            self.losses.take(&before.state, &state);
            self.before = Some(before);
        }
        self.last = Some(Sample { time, detail, state });
    }

    /// A span of the history, with all events in it.
    pub fn history(&self, span: Span) -> Value {
        let mut columns = self.history.columns(span, self.clock_lead_s.unwrap_or(0.0));
        columns["events"] = json!(self.events_after(0));
        columns
    }

    /// The events after that of number `known`, at the times of the host's clock as it is set now.
    fn events_after(&self, known: u64) -> Vec<Event> {
        let lead = self.clock_lead_s.unwrap_or(0.0);
        self.events.after(known).map(|event| Event { time: event.time + lead, ..event.clone() }).collect()
    }

    /// The number of the latest event.
    pub fn last_event(&self) -> u64 {
        self.events.last()
    }

    /// The document of this second for a page that shows `view` and knows the events up to number `known`. `None` before
    /// the first sample, or if pages show too many different views.
    pub fn document(&mut self, view: &View, known: u64) -> Option<Arc<str>> {
        self.wants_streams |= view.table == Table::Streams;
        let key = (view.clone(), known);
        if let Some(document) = self.rendered.get(&key) {
            return Some(Arc::clone(document));
        }
        if self.rendered.len() >= VIEWS {
            return None;
        }
        let document: Arc<str> = self.render(view, known)?.to_string().into();
        self.rendered.insert(key, Arc::clone(&document));
        Some(document)
    }

    fn render(&self, view: &View, known: u64) -> Option<Value> {
        let last = self.last.as_ref()?;
        let before = self.before.as_ref().unwrap_or(last);
        let (time, now) = (last.time, &last.state);
        let seconds = if time > before.time { time - before.time } else { 1.0 };
        let lead = self.clock_lead_s.unwrap_or(0.0);
        let without = EndToEndEstimate::estimate(now, &self.losses);
        let mut document = json!({
            "time": time + lead,
            "clock_lead_s": lead,
            "gateway": {
                "name": now.name, "transport": now.transport, "uptime_s": now.uptime_s,
                "is_draining": now.draining.is_some(),
            },
            "capacity_bps": now.rate_bps,
            "capacity_source": capacity_source(now),
            "capacity": now.capacity,
            "cross_traffic_bps": now.cross_traffic_bps,
            "sent_ip_bytes": now.satellite.sent_ip_bytes,
            "received_ip_bytes": now.satellite.received_ip_bytes,
            "link": now.link,
            "link_updates": now.link_updates,
            "modem": now.modem.as_ref().map(modem),
            "without": without,
            "peers": now.peers.len(),
            "peers_up": now.peers.iter().filter(|peer| peer.state == PeerState::Up).count(),
            "streams": now.peers.iter().map(|peer| peer.streams).sum::<u64>(),
            "point": self.point.as_ref().map(Point::named),
            "events": self.events_after(known),
            "last_event": self.events.last(),
        });
        match view.table {
            Table::None => {}
            Table::Peers => document["table"] = json!(rows::peers(view, &before.state, now, seconds)),
            // The first sample after the page was opened may still lack them.
            Table::Streams if last.detail == Detail::Peers => {}
            Table::Streams => document["table"] = json!(rows::streams(view, &self.moved, now, seconds, without)),
        }
        Some(document)
    }
}

/// Where the capacity in use is from: who has reported it, or has done so last.
fn capacity_source(now: &Snapshot) -> &'static str {
    match (capacity_kind(now), now.link.source) {
        ("reported", Source::Configured) => "last_reported",
        ("reported", source) => source.name(),
        (kind, _) => kind,
    }
}

/// What the modem says.
fn modem(modem: &Modem) -> Value {
    json!({
        "has_session": modem.has_session(), "name": modem.name, "link_is_up": modem.link_is_up,
        "quality": modem.quality, "resources": modem.resources, "mtu": modem.mtu, "last_end": modem.last_end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::{Peer, Satellite, Stream};

    fn state(second: u64, detail: Detail) -> Snapshot {
        let peer =
            Peer { name: "hub".into(), state: PeerState::Up, streams: 1, sent_bytes: second * 1000, ..Peer::default() };
        let stream = Stream { peer: "hub".into(), from_tcp_bytes: second * 1000, ..Stream::default() };
        Snapshot {
            name: "gw".into(),
            rate_bps: 6_000_000,
            satellite: Satellite { sent_ip_bytes: second * 2000, sent_packets: second * 2, ..Satellite::default() },
            peers: vec![peer],
            streams: if detail == Detail::Streams { vec![stream] } else { Vec::new() },
            ..Snapshot::default()
        }
    }

    fn read(document: Option<Arc<str>>) -> Value {
        serde_json::from_str(&document.unwrap()).unwrap()
    }

    #[test]
    fn streams_are_sampled_only_while_a_page_shows_them() {
        let mut board = Board::default();
        let view = View { table: Table::Streams, ..View::default() };
        assert_eq!(board.wanted(), Detail::Peers);
        board.take(1.0, Detail::Peers, state(1, Detail::Peers));
        assert_eq!(read(board.document(&view, 0))["table"], Value::Null);
        assert_eq!(board.wanted(), Detail::Streams);
        board.take(2.0, Detail::Streams, state(2, Detail::Streams));
        assert_eq!(read(board.document(&view, 0))["table"]["rows"][0]["sent_bps"], 0.0, "its rate is not known yet");
        board.take(3.0, Detail::Streams, state(3, Detail::Streams));
        assert_eq!(read(board.document(&view, 0))["table"]["rows"][0]["sent_bps"], 8000.0);
        assert_eq!(board.wanted(), Detail::Streams);
        assert_eq!(board.wanted(), Detail::Peers, "the page was closed");
    }

    #[test]
    fn a_document_has_the_numbers_of_the_last_sample_and_the_events_that_the_page_lacks() {
        let mut board = Board::default();
        assert!(board.document(&View::default(), 0).is_none());
        board.take(1.0, Detail::Peers, state(1, Detail::Peers));
        board.take(2.0, Detail::Peers, Snapshot { reloads: 1, ..state(2, Detail::Peers) });
        let document = read(board.document(&View::default(), 0));
        assert_eq!(document["capacity_bps"], 6_000_000);
        assert_eq!(document["point"]["sent_bps"], 16_000.0);
        assert_eq!((&document["peers_up"], &document["streams"]), (&json!(1), &json!(1)));
        assert_eq!(document["events"][0]["text"], "configuration reloaded");
        assert_eq!(read(board.document(&View::default(), 1))["events"], json!([]));
        assert_eq!(board.history(Span::Minutes)["times"], json!([2.0]));
    }

    #[test]
    fn a_capacity_that_is_reported_no_more_is_the_last_one_reported() {
        let mut now = Snapshot::default();
        now.capacity.basis = "reported".into();
        assert_eq!(capacity_source(&now), "last_reported");
        now.link.source = Source::Dlep;
        assert_eq!(capacity_source(&now), "dlep");
        now.capacity.basis = "prior".into();
        assert_eq!(capacity_source(&now), "configured", "an RTT alone is reported");
    }

    /// As at a host without a clock of its own, once NTP has set it.
    #[test]
    fn what_came_before_the_clock_was_set_is_shown_at_the_time_that_it_shows_now() {
        let mut board = Board::default();
        for (time, clock) in [(1.0, 1.0), (2.0, 2.0), (3.0, 1003.0)] {
            board.see_clock(time, clock);
            board.take(time, Detail::Peers, state(time as u64, Detail::Peers));
        }
        let document = read(board.document(&View::default(), 0));
        assert_eq!((&document["time"], &document["clock_lead_s"]), (&json!(1003.0), &json!(1000.0)));
        assert_eq!(document["events"][0]["time"], 1003.0);
        assert_eq!(board.history(Span::Minutes)["times"], json!([1002.0, 1003.0]));
    }

    #[test]
    fn pages_that_show_the_same_share_a_document_and_views_are_bounded() {
        let mut board = Board::default();
        board.take(1.0, Detail::Peers, state(1, Detail::Peers));
        let one = board.document(&View::default(), 0).unwrap();
        assert!(Arc::ptr_eq(&one, &board.document(&View::default(), 0).unwrap()));
        let views = (0..1000).filter(|n| board.document(&View { page: *n, ..View::default() }, 7).is_some()).count();
        assert_eq!(views, VIEWS - 1);
        board.take(2.0, Detail::Peers, state(2, Detail::Peers));
        assert!(board.document(&View { page: 999, ..View::default() }, 0).is_some());
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_rate() {
        let mut board = Board::default();
        board.take(2.0, Detail::Peers, state(1, Detail::Peers));
        board.take(1.0, Detail::Peers, state(2, Detail::Peers));
        assert_eq!(read(board.document(&View::default(), 0))["point"]["sent_bps"], Value::Null);
    }
}
