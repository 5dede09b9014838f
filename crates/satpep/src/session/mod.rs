//! A session: everything that two gateways share between one pair of runs, streams above all.
//!
//! Packet numbers, streams and credits belong to the session and outlive its keys. It knows nothing of keys,
//! addresses or the link's pace: the endpoint opens packets and hands their frames in, and lends space for frames
//! when the link is free.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | state, timers, what the endpoint asks |
//! | `input.rs` | frames that arrived |
//! | `output.rs` | filling a packet |
//! | `repairs.rs` | when repair symbols are made and sent |
//! | `coding.rs` | making them, and recovering with the peer's, in steps |
//! | `classes.rs` | which stream of which class sends next |
//! | `streams.rs` | what the driver does with streams |
//! | `liveness.rs` | whether the peer is there |
//! | `drain.rs` | no more streams: waiting for those that are on their way |
//! | `farewell.rs` | leaving in good order |
//! | `congestion.rs` | congestion marks |
//! | `credit.rs` | receive memory granted to the peer, send memory granted to the driver |

mod classes;
mod coding;
mod congestion;
mod credit;
#[cfg(test)]
pub(crate) mod documented;
mod drain;
mod farewell;
mod input;
mod liveness;
mod output;
mod repairs;
mod streams;
#[cfg(test)]
mod violations;

use crate::capacity::{ArrivalRequests, Arrivals, Feedback};
use crate::config::EndpointConfig;
use crate::dscp::Dscp;
use crate::event::{Event, PeerId, ResetReason, StreamId};
use crate::handshake::TransportParameters;
use crate::mtu::{self, MtuSearch};
use crate::payload::Payload;
use crate::received::Received;
use crate::repair::Decoder;
use crate::rtt::RttEstimator;
use crate::sent_packets::{PacketOutcome, SentPackets, StreamKey};
use crate::stats::PeerStats;
use crate::stream::Stream;
use crate::survey::Survey;
use crate::wire::frame::PathFrame;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use units::RangeSet;
use units::{Duration, Instant};

pub(crate) use drain::Drain;
pub(crate) use output::{Filled, Urgency};

/// What a peer told of the arrival of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum News {
    /// When a packet arrived, by the peer's clock.
    Arrival(u64, Duration),
    /// How the largest acknowledged packet fared.
    Feedback(Feedback),
}

/// Whether the path carries what is sent through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Unknown,
    Proven,
    /// Not even packets of the least size pass.
    TooSmall,
}

pub(crate) struct Session<P: Payload> {
    peer: PeerId,
    /// Tells this session's stream names from those of its predecessors.
    tag: u32,
    pub(crate) peer_epoch: u64,
    keepalive: liveness::Keepalive,
    repair: bool,
    repair_overhead: f64,

    pub(crate) sent_packets: SentPackets,
    pub(crate) received: Received,
    rtt: RttEstimator,
    mtu: MtuSearch,
    path: Path,
    outcomes: Vec<PacketOutcome>,

    streams: Slab<Stream<P>>,
    slots: BTreeMap<u64, u32>,
    /// The parity of the numbers of streams that we open.
    own_parity: u64,
    next_own: u64,
    own_open: u32,
    peer_max_streams: u32,
    /// Numbers (halved) of streams that the peer opened so far.
    seen: RangeSet,
    peer_open: u32,
    max_streams: u32,
    pool: P::Pool,
    classes: classes::Classes,
    /// Whether any stream has been marked, how the latest data sent were, and how the most urgent are that arrived since the last
    /// acknowledgement.
    is_marked: bool,
    marking: Dscp,
    marking_received: Option<Dscp>,
    /// Streams with credits or resets to send.
    control: VecDeque<StreamKey>,
    pub(crate) credit: credit::Credit,
    /// Writers that wait for send memory.
    waiting_writers: VecDeque<StreamKey>,

    pub(crate) last_heard: Instant,
    /// When data of a stream was last sent or received.
    last_traffic: Instant,
    /// Since when something has been in flight that asks for an answer, with nothing heard since.
    unanswered_since: Option<Instant>,
    /// IP bytes that ask for an answer, sent since then.
    unanswered_bytes: u64,
    /// How many of them are sent although an answer is overdue.
    stall_allowance: u64,
    /// How far apart a thin return link may space answers, and the longest that one has been waited for of late.
    ack_spacing: Duration,
    answer_gap: Duration,
    /// An answer is overdue: data waits.
    is_stalled: bool,
    /// Since when the peer has been unresponsive.
    unresponsive_since: Option<Instant>,
    /// What is taken in now is the first after an outage.
    is_returning: bool,
    /// The peer said that it stops.
    pub(crate) closed: bool,
    probe_at: Option<Instant>,
    probes: u32,
    ping_due: bool,
    farewell: farewell::Farewell,
    drain: Drain,
    /// The peer takes no more streams.
    pub(crate) peer_drains: bool,
    /// The peer knows the frame that says so.
    knows_drain: bool,
    stop_waiting_sent: u64,
    /// The latest that the peer said of a path, for the endpoint.
    path_news: Option<PathFrame>,
    /// When the current round trip ends, by which active streams are counted.
    round_ends: Instant,
    repairs: repairs::Repairs,
    decoder: Decoder<P>,
    /// Since when the decoder has had work.
    decoding_since: Option<Instant>,

    /// The next packet carries an ARRIVAL_REQUEST.
    arrival_request_due: bool,
    pub(crate) congestion: congestion::Congestion,
    /// ARRIVAL_REQUESTs of the peer.
    arrival_requests: ArrivalRequests,
    arrivals: Arrivals,
    /// Outcomes since the latest ARRIVAL_TIME, and how many of them are acknowledgements.
    outcomes_since: [u32; 2],
    /// The latest survey of the path.
    pub(crate) survey: Option<Box<Survey>>,
    /// News for the endpoint.
    news: VecDeque<News>,

    events: VecDeque<Event>,
    stats: PeerStats,
}

impl<P: Payload> Session<P> {
    /// A session with the peer whose transport parameters arrived. `even` says whether the streams that we open have even numbers,
    /// `initiates` whether we know the peer's address.
    pub(crate) fn new(
        config: &EndpointConfig,
        peer: PeerId,
        tag: u32,
        parameters: &TransportParameters,
        (even, initiates): (bool, bool),
        now: Instant,
    ) -> Self {
        Self {
            peer,
            tag,
            peer_epoch: parameters.epoch,
            keepalive: liveness::Keepalive::new(config.longest_keepalive(), initiates),
            repair: config.repair,
            repair_overhead: config.repair_overhead,
            sent_packets: SentPackets::new(config.reordering),
            received: Received::new(),
            rtt: RttEstimator::new(config.rtt),
            mtu: MtuSearch::new(mtu::LEAST, config.mtu, config.is_thin(), now),
            path: Path::Unknown,
            outcomes: Vec::new(),
            streams: Slab::new(),
            slots: BTreeMap::new(),
            own_parity: u64::from(!even),
            next_own: u64::from(!even),
            own_open: 0,
            peer_max_streams: parameters.max_streams,
            seen: RangeSet::new(),
            peer_open: 0,
            max_streams: config.max_streams,
            pool: P::Pool::default(),
            classes: classes::Classes::new(config.quantum()),
            is_marked: false,
            marking: Dscp::default(),
            marking_received: None,
            control: VecDeque::new(),
            credit: credit::Credit::new(config, parameters),
            waiting_writers: VecDeque::new(),
            last_heard: now,
            last_traffic: Instant::ZERO,
            unanswered_since: None,
            unanswered_bytes: 0,
            stall_allowance: config.stall_allowance(),
            ack_spacing: config.ack_spacing(),
            answer_gap: Duration::ZERO,
            is_stalled: false,
            unresponsive_since: None,
            is_returning: false,
            closed: false,
            probe_at: None,
            probes: 0,
            ping_due: false,
            farewell: farewell::Farewell::default(),
            drain: Drain::default(),
            peer_drains: false,
            knows_drain: crate::epoch::knows_of_runs(parameters.epoch),
            stop_waiting_sent: 0,
            path_news: None,
            round_ends: now,
            repairs: repairs::Repairs::default(),
            decoder: Decoder::new((2 * config.receive_bdp()).min(64 << 20)),
            decoding_since: None,
            arrival_request_due: false,
            congestion: congestion::Congestion::default(),
            arrival_requests: ArrivalRequests::default(),
            arrivals: Arrivals::default(),
            outcomes_since: [0; 2],
            survey: None,
            news: VecDeque::new(),
            events: VecDeque::new(),
            stats: PeerStats {
                capabilities: config.capabilities.common(parameters.capabilities),
                ..PeerStats::default()
            },
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Rises from one session of the endpoint to the next.
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// Streams that share the link now.
    pub(crate) fn busy_streams(&self) -> u32 {
        self.classes.busy_streams()
    }

    /// News of arrivals.
    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.sent_packets.next_number()
    }

    /// Asks when the next packet arrives.
    pub(crate) fn request_arrival_time(&mut self) {
        self.arrival_request_due = true;
    }

    fn id(&self, key: StreamKey) -> StreamId {
        StreamId { peer: self.peer, session: self.tag, slot: key.slot, number: key.number }
    }

    /// Whether a name of the driver's belongs to this session, and the stream's key if so.
    fn key(&self, id: StreamId) -> Option<StreamKey> {
        (id.session == self.tag).then_some(StreamKey { slot: id.slot, number: id.number })
    }

    fn stream(&self, key: StreamKey) -> Option<&Stream<P>> {
        self.streams.get(key.slot as usize).filter(|stream| stream.number == key.number)
    }

    fn stream_mut(&mut self, key: StreamKey) -> Option<&mut Stream<P>> {
        self.streams.get_mut(key.slot as usize).filter(|stream| stream.number == key.number)
    }

    /// How long the receiver may hold an acknowledgement back: at most 32 in a round trip.
    pub(crate) fn ack_delay(&self) -> Duration {
        (self.rtt.smoothed() / 32).max(Duration::from_millis(1)).min(Duration::from_millis(25))
    }

    /// When something will be due that is not due at `now` already (that stands in the endpoint's queues).
    pub(crate) fn next_timeout(&self, now: Instant) -> Instant {
        let queued_when_due = [self.ack_deadline(), self.repairs.next(), self.mtu.next_probe_at()];
        let queued_when_due = queued_when_due.into_iter().flatten().filter(|at| *at > now);
        let others = self.next_liveness_timeout().min(self.farewell.next_timeout()).min(self.drain.next_timeout());
        let others = others.min(self.classes.next_timeout(now));
        self.sent_packets.loss_deadline().into_iter().chain(queued_when_due).fold(others, Instant::min)
    }

    /// Handles expired timers.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.classes.on_timeout(now);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.sent_packets.on_timeout(now, &mut outcomes);
        self.on_outcomes(now, &mut outcomes);
        self.outcomes = outcomes;
        self.farewell.on_timeout(now);
        self.drain.on_timeout(now);
        self.on_liveness_timeout(now);
    }

    /// Ends all streams with `reason`. The session is not used afterwards.
    pub(crate) fn abandon(&mut self, reason: ResetReason) -> impl Iterator<Item = Event> + use<'_, P> {
        let keys: Vec<_> =
            self.streams.iter().map(|(slot, stream)| (slot, stream.number, stream.is_aborted())).collect();
        let open = keys.into_iter().filter(|(.., aborted)| !aborted);
        let (peer, session) = (self.peer, self.tag);
        self.events.drain(..).chain(
            open.map(move |(slot, number, _)| {
                Event::Reset(StreamId { peer, session, slot: slot as u32, number }, reason)
            }),
        )
    }

    /// Ends with `reason` all streams but those of which everything has arrived at both ends. The session is used for reading
    /// those only.
    pub(crate) fn abandon_unless_arrived(&mut self, reason: ResetReason) -> Vec<Event> {
        let (peer, session) = (self.peer, self.tag);
        let lost: Vec<_> =
            self.streams.iter().filter(|(_, stream)| !stream.has_arrived()).map(|(slot, _)| slot).collect();
        let lost: Vec<_> = lost.into_iter().map(|slot| (slot, self.streams.remove(slot))).collect();
        let resets = lost.iter().filter(|(_, stream)| !stream.is_aborted());
        let resets = resets.map(|(slot, stream)| {
            Event::Reset(StreamId { peer, session, slot: *slot as u32, number: stream.number }, reason)
        });
        self.events.drain(..).chain(resets).collect()
    }

    /// Forgets streams that were given up: there is nobody who could be told.
    pub(crate) fn forget_aborted(&mut self) {
        self.streams.retain(|_, stream| !stream.is_aborted());
    }

    /// What the peer said of a path since this was last asked.
    pub(crate) fn take_path_news(&mut self) -> Option<PathFrame> {
        self.path_news.take()
    }

    /// The round-trip time, as measured or expected.
    pub(crate) fn rtt(&self) -> Duration {
        self.rtt.smoothed()
    }

    /// How long the peer may take to answer what is sent to it now.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.rtt.probe_timeout(Duration::ZERO)
    }

    /// Packets take another path from now on, to `to`: it may carry less than the one before.
    pub(crate) fn on_path(&mut self, now: Instant, to: &SocketAddr) {
        self.mtu.restart(mtu::least(to), now);
    }

    /// A packet of `ip_size` bytes was seen to pass the path.
    pub(crate) fn on_size_arrived(&mut self, now: Instant, ip_size: u16) {
        self.mtu.on_probe_acked(now, ip_size);
        self.judge_path();
    }

    /// The peer is at another address.
    pub(crate) fn on_migrated(&mut self) {
        self.stats.migrations += 1;
        // What went to the old address is missed the sooner.
        self.ping();
    }

    /// Whether a packet of the size in use has arrived since the session began, so that it can carry data.
    pub(crate) fn is_path_proven(&self) -> bool {
        self.path == Path::Proven
    }

    /// Whether the path does not carry packets of the least size that sessions work with.
    pub(crate) fn is_path_too_small(&self) -> bool {
        self.path == Path::TooSmall
    }

    /// The host does not take packets of `ip_size` bytes for the path.
    pub(crate) fn on_refused(&mut self, now: Instant, ip_size: u16) {
        self.mtu.on_refused(now, ip_size);
    }

    /// The largest IP packet to send.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.current()
    }

    pub(crate) fn stats(&self, now: Instant) -> PeerStats {
        let [congestion_received, congestion_reported] = self.congestion.counts();
        PeerStats {
            congestion_received,
            congestion_reported,
            receive_buffered: self.credit.held(),
            send_buffered: self.credit.send_buffered(),
            streams: self.streams.len() as u64,
            rtt: self.rtt.min().map(|_| self.rtt.smoothed()),
            min_rtt: self.rtt.min(),
            mtu: self.mtu.current(),
            since_last_heard: Some(now.since(self.last_heard)),
            ..self.stats.clone()
        }
    }
}
