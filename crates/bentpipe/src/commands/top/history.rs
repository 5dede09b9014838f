//! What `bentpipe top` knows: the last state of a gateway, and what the states before it amount to: rates, histories, events.
//!
//! Rates are differences of counters over differences of the gateway's own uptime, so that they do not depend on when the answers were
//! read.

use super::events::{Event, Watcher};
use gateway::{Peer, PeerState, Side, Snapshot, Stream};
use std::collections::{BTreeMap, VecDeque};
use units::Duration;

/// As many points of the link are kept: five minutes at one a second.
const POINTS: usize = 300;
/// As many events are kept.
const EVENTS: usize = 200;

/// All that is shown of a gateway.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its last state; stays while it is away.
    pub latest: Option<Snapshot>,
    /// Since when it does not answer, by the clock of [`History::take`], and why.
    pub away: Option<(Duration, String)>,
    /// The link over time, the latest at the end.
    pub link: VecDeque<LinkPoint>,
    /// By name.
    pub peers: BTreeMap<String, PeerRates>,
    streams: BTreeMap<StreamKey, StreamRates>,
    /// The latest at the end.
    pub events: VecDeque<Event>,
    watcher: Watcher,
}

/// The link between two states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkPoint {
    /// Bit/s sent over the satellite: IP packets, or payload where the transport counts no packets.
    pub sent_bps: f64,
    /// Bit/s received.
    pub received_bps: f64,
    /// Share of the capacity that is in use, cross traffic included where it is measured.
    pub use_share: f64,
    /// Queueing delay: what the shortest round trip of a peer has beyond the link's.
    pub queue_s: Option<f64>,
    /// The shortest round trip of a peer.
    pub rtt_s: Option<f64>,
    /// Lost packets, as a share of those sent; like the next, only where the transport counts packets.
    pub loss: Option<f64>,
    /// Bytes sent for repair or again, as a share of stream bytes.
    pub repair: Option<f64>,
}

/// A peer between two states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PeerRates {
    /// Bit/s of stream bytes sent to it, repeated ones and repair included.
    pub sent_bps: f64,
    /// Bit/s of stream bytes received from it.
    pub received_bps: f64,
    /// Lost packets, as a share of those sent; like the next two, only where packets are counted.
    pub loss: Option<f64>,
    /// Bytes sent again, as a share of stream bytes sent.
    pub retransmitted: Option<f64>,
    /// Bytes of FEC repair symbols, as a share of stream bytes sent.
    pub repair: Option<f64>,
}

/// A stream's peer and number, and this gateway's side: each side numbers its own.
type StreamKey = (String, u64, Side);

/// A stream between two states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamRates {
    /// Bit/s taken from TCP.
    pub from_tcp_bps: f64,
    /// Bit/s given to TCP.
    pub to_tcp_bps: f64,
}

impl History {
    /// Takes what the gateway answered at `now`, or why it did not.
    pub fn take(&mut self, now: Duration, answer: Result<Snapshot, String>) {
        match answer {
            Err(why) => {
                if self.away.is_none() {
                    self.add(Event { at: now, text: format!("the gateway does not answer: {why}"), is_trouble: true });
                    self.away = Some((now, why));
                }
            }
            Ok(snapshot) => {
                if self.away.take().is_some() {
                    self.add(Event { at: now, text: "the gateway answers".into(), is_trouble: false });
                }
                self.compare(now, &snapshot);
                self.latest = Some(snapshot);
            }
        }
    }

    /// The rates of `stream`.
    pub fn rates(&self, stream: &Stream) -> StreamRates {
        self.streams.get(&key(stream)).copied().unwrap_or_default()
    }

    fn add(&mut self, event: Event) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// What has happened since the state before.
    fn compare(&mut self, now: Duration, new: &Snapshot) {
        let Some(old) = self.latest.take() else { return };
        for event in self.watcher.compare(now, &old, new) {
            self.add(event);
        }
        let seconds = new.uptime_s - old.uptime_s;
        if new.pid != old.pid || seconds <= 0.0 {
            self.peers.clear();
            self.streams.clear();
            return;
        }
        let before: BTreeMap<&str, &Peer> = old.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
        let both = new.peers.iter().filter_map(|peer| Some((*before.get(peer.name.as_str())?, peer)));
        let both: Vec<(&Peer, &Peer)> = both.collect();
        let rates = |(old, new): &(&Peer, &Peer)| (new.name.clone(), peer_rates(old, new, seconds));
        self.peers = both.iter().map(rates).collect();
        if self.link.len() == POINTS {
            self.link.pop_front();
        }
        self.link.push_back(link_point(&old, new, &both, seconds));
        let before: BTreeMap<StreamKey, &Stream> = old.streams.iter().map(|stream| (key(stream), stream)).collect();
        let rates = |stream: &Stream| {
            let key = key(stream);
            let rates = stream_rates(before.get(&key)?, stream, seconds);
            Some((key, rates))
        };
        self.streams = new.streams.iter().filter_map(rates).collect();
    }
}

fn key(stream: &Stream) -> StreamKey {
    (stream.peer.clone(), stream.stream, stream.side)
}

/// What a counter has grown by; that of a peer that was removed and added again starts at zero.
fn growth(old: u64, new: u64) -> f64 {
    new.saturating_sub(old) as f64
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The share of lost packets. Losses are known a round trip later than the packets, when fewer may have been sent.
fn loss(lost: f64, sent: f64) -> f64 {
    share(lost, sent).min(1.0)
}

fn peer_rates(old: &Peer, new: &Peer, seconds: f64) -> PeerRates {
    let fresh = growth(old.sent_bytes, new.sent_bytes);
    let again = growth(old.retransmitted_bytes, new.retransmitted_bytes);
    let repair = growth(old.repair_bytes, new.repair_bytes);
    let counts_packets = new.sent_packets > 0;
    let counted = |share: f64| counts_packets.then_some(share);
    PeerRates {
        sent_bps: 8.0 * (fresh + again + repair) / seconds,
        received_bps: 8.0 * growth(old.received_bytes, new.received_bytes) / seconds,
        loss: counted(loss(growth(old.lost_packets, new.lost_packets), growth(old.sent_packets, new.sent_packets))),
        retransmitted: counted(share(again, fresh)),
        repair: counted(share(repair, fresh)),
    }
}

/// The link between two states, in which `peers` have both been.
fn link_point(old: &Snapshot, new: &Snapshot, peers: &[(&Peer, &Peer)], seconds: f64) -> LinkPoint {
    let (was, is) = (&old.satellite, &new.satellite);
    let sum = |of: fn(&Peer) -> u64| peers.iter().map(|(old, new)| growth(of(old), of(new))).sum::<f64>();
    // The `tcp` transport counts no packets.
    let counts_packets = is.sent_packets > 0;
    let counted = |share: f64| counts_packets.then_some(share);
    let (sent_bps, received_bps) = if counts_packets {
        let rate = |was, is| 8.0 * growth(was, is) / seconds;
        (rate(was.sent_ip_bytes, is.sent_ip_bytes), rate(was.received_ip_bytes, is.received_ip_bytes))
    } else {
        let rates = peers.iter().map(|(old, new)| peer_rates(old, new, seconds));
        rates.fold((0.0, 0.0), |(sent, received), peer| (sent + peer.sent_bps, received + peer.received_bps))
    };
    let up = new.peers.iter().filter(|peer| peer.state == PeerState::Up);
    let rtt_s = up.filter_map(|peer| peer.rtt_s).min_by(f64::total_cmp);
    LinkPoint {
        sent_bps,
        received_bps,
        use_share: share(sent_bps + new.cross_traffic_bps.unwrap_or(0) as f64, new.rate_bps as f64),
        queue_s: rtt_s.map(|rtt| (rtt - new.link.rtt_s).max(0.0)),
        rtt_s,
        loss: counted(loss(sum(|peer| peer.lost_packets), sum(|peer| peer.sent_packets))),
        repair: counted(share(
            sum(|peer| peer.retransmitted_bytes) + sum(|peer| peer.repair_bytes),
            sum(|peer| peer.sent_bytes),
        )),
    }
}

fn stream_rates(old: &Stream, new: &Stream, seconds: f64) -> StreamRates {
    StreamRates {
        from_tcp_bps: 8.0 * growth(old.from_tcp_bytes, new.from_tcp_bytes) / seconds,
        to_tcp_bps: 8.0 * growth(old.to_tcp_bytes, new.to_tcp_bytes) / seconds,
    }
}
