//! A session: everything that two gateways share between one pair of runs, streams above all.
//!
//! Packet numbers, streams and credits belong to the session and outlive its keys. It knows nothing of keys,
//! addresses or the link's pace: the endpoint opens packets and hands their frames in, and lends space for frames
//! when the link is free.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | what a session consists of, what the endpoint asks |
//! | `input.rs` | frames that arrived |
//! | `output.rs` | filling a packet |
//! | `table.rs` | the streams by number and place |
//! | `streams.rs` | what the driver does with streams |
//! | `classes.rs` | which stream of which class sends next |
//! | `credit.rs` | receive memory granted to the peer, send memory granted to the driver |
//! | `recovery.rs` | what was acknowledged and lost |
//! | `liveness.rs`, `keepalive.rs` | whether the peer is there |
//! | `path.rs` | whether the path carries packets of the size in use |
//! | `feedback.rs` | what the peer reports of arrivals, for the capacity estimator |
//! | `congestion.rs` | congestion marks that the peer reports |
//! | `start_probe.rs` | a train at the start of a session that has nothing to send |
//! | `dscps.rs` | how packets are marked |
//! | `repairs.rs` | when repair symbols are made and sent |
//! | `coding.rs` | making them, and recovering with the peer's, in steps |
//! | `drain.rs` | no more streams: waiting for those that are on their way |
//! | `farewell.rs` | leaving in good order |
//! | `trace.rs` | what is recorded of its packets, if it is traced |
//! | `timers.rs` | when each timer expires |
//! | `tests.rs` | tests: peers that break the protocol |
//! | `documented.rs` | tests: limits of sessions in docs/protocol.md |

mod classes;
mod coding;
mod congestion;
mod credit;
#[cfg(test)]
pub(crate) mod documented;
mod drain;
mod dscps;
mod farewell;
mod feedback;
mod input;
mod keepalive;
mod liveness;
mod output;
mod path;
mod recovery;
mod repairs;
mod start_probe;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod trace;

use crate::capacity::{ArrivalLog, Detail};
use crate::config::EndpointConfig;
use crate::event::{Event, PeerId, StreamId};
use crate::handshake::TransportParameters;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::received::Received;
use crate::repair::Decoder;
use crate::sent_packets::StreamKey;
use crate::stats::PeerStats;
use crate::stream::Stream;
use crate::trace::{TraceEvent, TracedSession};
use crate::wire::frame::PathFrame;
use peering::ResetReason;
use std::collections::VecDeque;
use std::net::SocketAddr;
use units::{Duration, Instant, Rate};

pub(crate) use credit::HandshakeCredits;
pub(crate) use drain::Drain;
pub(crate) use feedback::News;
pub(crate) use output::{Filled, Urgency};
use start_probe::StartProbe;

pub(crate) struct Session<P: Payload> {
    peer: PeerId,
    /// Tells this session's stream names from those of its predecessors.
    tag: u32,
    pub(crate) peer_epoch: u64,
    streams: table::StreamTable<P>,
    pool: P::Pool,
    classes: classes::Classes,
    pub(crate) credit: credit::FlowControl,
    pub(crate) received: Received,
    /// What is reported of arrivals, and in what detail.
    arrivals: ArrivalLog,
    pub(crate) detail: Detail,
    pub(crate) recovery: recovery::LossRecovery,
    liveness: liveness::Liveness,
    path: path::Path,
    pub(crate) feedback: feedback::ArrivalFeedback,
    pub(crate) congestion: congestion::Congestion,
    pub(crate) start_probe: StartProbe,
    dscps: dscps::Dscps,
    repairs: repairs::Repairs,
    decoder: Decoder<P>,
    drain: Drain,
    farewell: farewell::Farewell,
    events: VecDeque<Event>,
    trace: Option<Box<trace::Trace>>,
    initiates: bool,
    stats: PeerStats,
}

impl<P: Payload> Session<P> {
    /// Bytes that are remembered for repair at most: about as many as the blocks of one flight can span.
    const MOST_REMEMBERED: u64 = 96 << 20;

    /// After so long without a packet, what is remembered for repair has done what it could.
    const IDLE: Duration = Duration::from_secs(10);

    /// Bytes that are remembered for repair where `bdp` are in flight.
    fn remembered(bdp: u64) -> u64 {
        bdp.saturating_mul(2).min(Self::MOST_REMEMBERED)
    }

    /// A session with the peer whose transport parameters arrived. `even` says whether the streams that we open have even numbers,
    /// `initiates` whether we know the peer's address.
    pub(crate) fn new(
        config: &EndpointConfig,
        peer: PeerId,
        tag: u32,
        parameters: &TransportParameters,
        (even, initiates): (bool, bool),
        pool: P::Pool,
        now: Instant,
    ) -> Self {
        Self {
            peer,
            tag,
            peer_epoch: parameters.epoch,
            streams: table::StreamTable::new(even, parameters.max_streams, config.max_streams),
            pool,
            classes: classes::Classes::new(config.stream_quanta()),
            credit: credit::FlowControl::new(config, parameters, now),
            received: Received::new(),
            arrivals: ArrivalLog::new(),
            detail: Detail::default(),
            recovery: recovery::LossRecovery::new(config),
            liveness: liveness::Liveness::new(config, initiates, now),
            path: path::Path::new(config.mtu, config.is_thin(), now),
            feedback: feedback::ArrivalFeedback::default(),
            congestion: congestion::Congestion::default(),
            start_probe: StartProbe::default(),
            dscps: dscps::Dscps::default(),
            repairs: repairs::Repairs::new(config),
            decoder: Decoder::new(Self::remembered(config.receive_bdp())),
            drain: Drain::new(crate::epoch::knows_of_runs(parameters.epoch)),
            farewell: farewell::Farewell::default(),
            events: VecDeque::new(),
            trace: config.trace.then(Box::default),
            initiates,
            stats: PeerStats {
                capabilities: config.capabilities.common(parameters.capabilities),
                ..PeerStats::default()
            },
        }
    }

    /// Gives memory of what is remembered for repair, and needed no longer, back to the allocator.
    pub(crate) fn trim_memory(&mut self, now: Instant) {
        let idle = now.since(self.liveness.last_heard());
        if idle >= Self::IDLE.max(self.rtt() * 4) && !self.decoder.is_working() {
            self.decoder.clear();
        } else {
            self.decoder.trim();
        }
    }

    /// Has what waits in its streams take up little more memory than it needs; goes on behind the streams of the last call, through at
    /// most `places` of the table, or to its end. Returns how many that were, and whether the end was reached.
    pub(crate) fn compact_streams(&mut self, places: usize) -> (usize, bool) {
        let pool = &mut self.pool;
        self.streams.visit_next(places, |stream| {
            stream.send.compact(pool);
            stream.receive.compact(pool);
        })
    }

    /// Bytes that are remembered for repair.
    pub(crate) fn repair_memory(&self) -> u64 {
        self.decoder.memory()
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Records what is known of the path, if the session is traced.
    pub(crate) fn measure_for_trace(&mut self, now: Instant, pace: Rate, capacity: Rate) {
        if let Some(trace) = &mut self.trace {
            trace.measure(now, &self.recovery.rtt, pace, capacity);
        }
    }

    /// What has happened to packets, if the session is traced.
    pub(crate) fn poll_trace(&mut self) -> Option<TraceEvent> {
        let (at, kind) = self.trace.as_mut()?.poll()?;
        let session = TracedSession { peer: self.peer.own(), number: self.tag, initiates: self.initiates };
        Some(TraceEvent { at, session, kind })
    }

    /// Rises from one session of the endpoint to the next.
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// Streams that share the link now.
    pub(crate) fn busy_streams(&self) -> u32 {
        self.classes.busy_streams()
    }

    /// The number of the next packet.
    pub(crate) fn next_number(&self) -> PacketNumber {
        self.recovery.sent_packets.next_number()
    }

    /// The next packet belongs to a train.
    pub(crate) fn mark_next_as_train(&mut self) {
        self.feedback.is_train_due = true;
    }

    /// Whether so many bytes of streams, or of a start probe, wait to be sent.
    pub(crate) fn has_waiting(&self, bytes: u64) -> bool {
        let mut waiting = self.start_probe.waiting();
        // Most of thousands of streams have nothing to send: they are not gone through for that.
        if waiting + self.credit.send_buffered() < bytes {
            return false;
        }
        waiting >= bytes
            || self.streams.iter().any(|(_, stream)| {
                waiting += if stream.is_aborted() { 0 } else { stream.send.unsent() };
                waiting >= bytes
            })
    }

    /// Whether the latest packet asks to be acknowledged.
    pub(crate) fn asked_latest(&self) -> bool {
        self.recovery.sent_packets.asked_latest()
    }

    fn id(&self, key: StreamKey) -> StreamId {
        StreamId { peer: self.peer, session: self.tag, slot: key.slot, number: key.number }
    }

    /// Whether a name of the driver's belongs to this session, and the stream's key if so.
    fn key(&self, id: StreamId) -> Option<StreamKey> {
        (id.session == self.tag).then_some(StreamKey { slot: id.slot, number: id.number })
    }

    fn stream(&self, key: StreamKey) -> Option<&Stream<P>> {
        self.streams.get(key)
    }

    fn stream_mut(&mut self, key: StreamKey) -> Option<&mut Stream<P>> {
        self.streams.get_mut(key)
    }

    /// How long the receiver may hold an acknowledgement back: at most 32 in a round trip.
    pub(crate) fn ack_delay(&self) -> Duration {
        self.recovery.rtt.ack_delay()
    }

    /// Ends all streams with `reason`. The session is not used afterwards.
    pub(crate) fn abandon(&mut self, reason: ResetReason) -> impl Iterator<Item = Event> + use<'_, P> {
        let awaits_end = |stream: &Stream<P>| !stream.is_aborted() || stream.is_held();
        let open: Vec<_> = self.streams.iter().filter(|(_, stream)| awaits_end(stream)).map(|(key, _)| key).collect();
        let (peer, session) = (self.peer, self.tag);
        let reset = move |StreamKey { slot, number }| Event::Reset(StreamId { peer, session, slot, number }, reason);
        self.events.drain(..).chain(open.into_iter().map(reset))
    }

    /// Ends with `reason` all streams but those of which everything has arrived at both ends. The session is used for reading
    /// those only.
    pub(crate) fn abandon_unless_arrived(&mut self, reason: ResetReason) -> Vec<Event> {
        let lost: Vec<_> =
            self.streams.iter().filter(|(_, stream)| !stream.has_arrived()).map(|(key, _)| key).collect();
        let mut events: Vec<_> = self.events.drain(..).collect();
        for key in lost {
            if self.drop_stream(key).is_some_and(|stream| !stream.is_aborted()) {
                events.push(Event::Reset(self.id(key), reason));
            }
        }
        events
    }

    /// Forgets streams that were given up: there is no peer to notify.
    pub(crate) fn forget_aborted(&mut self) {
        let is_over = |stream: &Stream<P>| stream.is_aborted() && !stream.is_held();
        let aborted: Vec<_> = self.streams.iter().filter(|(_, stream)| is_over(stream)).map(|(key, _)| key).collect();
        for key in aborted {
            self.drop_stream(key);
        }
    }

    /// Removes a stream of a session that is over: nobody reads what is left of it.
    fn drop_stream(&mut self, key: StreamKey) -> Option<Stream<P>> {
        let stream = self.streams.remove(key)?;
        self.credit.on_consumed(stream.receive.held());
        Some(stream)
    }

    /// Forgets the packets that came and went: the session is over, and only what its streams have received is of use.
    pub(crate) fn forget_packets(&mut self) {
        self.decoder.clear();
        self.trace = None;
    }

    /// What the peer said of a path since this was last asked.
    pub(crate) fn take_path_news(&mut self) -> Option<PathFrame> {
        self.path.take_news()
    }

    /// The round-trip time, as measured or expected.
    pub(crate) fn rtt(&self) -> Duration {
        self.recovery.rtt.smoothed()
    }

    /// How long the peer may take to answer what is sent to it now.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.recovery.rtt.probe_timeout(Duration::ZERO)
    }

    /// Packets take another path from now on, to `to`: it may carry less than the one before.
    pub(crate) fn on_path(&mut self, now: Instant, to: &SocketAddr) {
        self.path.restart(to, now);
    }

    /// A packet of `ip_size` bytes was seen to pass the path.
    pub(crate) fn on_size_arrived(&mut self, now: Instant, ip_size: u16) {
        self.path.mtu.on_probe_acked(now, ip_size);
        self.judge_path();
    }

    /// Whether a packet of the peer's has arrived in it.
    pub(crate) fn has_received(&self) -> bool {
        self.received.expected() > PacketNumber::ZERO
    }

    /// Whether the peer said that it stops.
    pub(crate) fn is_closed(&self) -> bool {
        self.farewell.is_said_by_peer()
    }

    /// Whether the peer takes no more streams.
    pub(crate) fn peer_drains(&self) -> bool {
        self.drain.is_peers()
    }

    /// Whether the peer is unresponsive.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.liveness.is_unresponsive()
    }

    /// Whether an answer is overdue, so that data waits.
    pub(crate) fn is_stalled(&self) -> bool {
        self.liveness.is_stalled()
    }

    /// Whether nothing was heard for `limit`.
    pub(crate) fn is_lost(&self, now: Instant, limit: Duration) -> bool {
        self.liveness.is_lost(now, limit, &self.recovery.rtt)
    }

    /// When data of a stream was last sent or received.
    pub(crate) fn last_traffic(&self) -> Instant {
        self.liveness.last_traffic()
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn ping(&mut self) {
        self.liveness.ping();
    }

    /// Something authentic came from the peer.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        let heard = self.liveness.on_heard(now);
        if heard.was_unresponsive && self.is_path_proven() {
            self.events.push_back(Event::PeerUp(self.peer));
        }
        if heard.is_returning {
            self.recovery.sent_packets.on_outage_over();
        }
    }

    /// Handles expired liveness timers.
    fn on_liveness_timeout(&mut self, now: Instant) {
        let waits = (self.recovery.sent_packets.awaits_ack(), !self.streams.is_empty());
        if self.liveness.on_timeout(now, waits, &self.recovery.rtt) {
            self.events.push_back(Event::PeerUnresponsive(self.peer));
        }
    }

    /// The peer is at another address.
    pub(crate) fn on_migrated(&mut self) {
        self.stats.migrations += 1;
        // What went to the old address is missed the sooner.
        self.ping();
    }

    /// Whether a packet of the size in use has arrived since the session began, so that it can carry data.
    pub(crate) fn is_path_proven(&self) -> bool {
        self.path.state() == path::PathState::Proven
    }

    /// Whether the path does not carry packets of the least size that sessions work with.
    pub(crate) fn is_path_too_small(&self) -> bool {
        self.path.state() == path::PathState::TooSmall
    }

    /// The host does not take packets of `ip_size` bytes for the path.
    pub(crate) fn on_refused(&mut self, now: Instant, ip_size: u16) {
        self.path.mtu.on_refused(now, ip_size);
        let is_known = self.path.mtu.is_beyond_least(ip_size) && self.recovery.sent_packets.on_refused_probe(ip_size);
        if is_known && !self.recovery.sent_packets.awaits_ack() {
            self.liveness.on_nothing_left();
        }
    }

    /// The largest IP packet to send.
    pub(crate) fn mtu(&self) -> u16 {
        self.path.mtu.current()
    }

    /// What the session has counted, without what it holds and measures now.
    pub(crate) fn counters(&self) -> PeerStats {
        PeerStats {
            congestion_received: self.arrivals.marked(),
            congestion_reported: self.congestion.reported(),
            implausible_reports: self.feedback.implausible(),
            ..self.stats.clone()
        }
    }

    pub(crate) fn stats(&self, now: Instant) -> PeerStats {
        PeerStats {
            receive_buffered: self.credit.held(),
            send_buffered: self.credit.send_buffered(),
            streams: self.streams.len() as u64,
            rtt: self.recovery.rtt.min().map(|_| self.recovery.rtt.smoothed()),
            min_rtt: self.recovery.rtt.min(),
            mtu: self.path.mtu.current(),
            since_last_heard: Some(now.since(self.liveness.last_heard())),
            ..self.counters()
        }
    }
}
