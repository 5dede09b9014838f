//! The endpoint: all sessions that one gateway runs over one satellite link.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the driver's interface |
//! | `peer.rs` | a peer: its keys, its session, its handshakes' timing |
//! | `peers.rs` | a peer's entries: one for each of its processes while it is upgraded |
//! | `generations.rs` | which of a peer's processes is opened streams |
//! | `membership.rs` | peers that come, change and go |
//! | `path.rs` | where a peer is: new addresses are challenged first |
//! | `brake.rs` | what congestion marks do |
//! | `input.rs` | datagrams that arrived, and what time asks of a peer |
//! | `handshakes.rs` | handshakes begun and answered |
//! | `admission.rs` | whose handshakes are worth an answer when there are many |
//! | `cookies.rs` | which cookie a handshake is begun with |
//! | `unread.rs` | what is left to be read of a session that is over |
//! | `start_probe.rs` | when a session begins with a train of padding |
//! | `ack_load.rs` | what acknowledgements take of the link |
//! | `output.rs` | what is sent next, at the link's pace |
//! | `offload.rs` | for drivers that seal and open in other threads |
//! | `trace.rs` | traces of the sessions |
//! | `survey.rs` | what the path to a peer carries, on request |
//! | `overhead.rs` | the headers around a datagram |
//! | `tests.rs` | tests: peers that break the protocol, keys that were used enough |
//! | `trial/` | tests, and the fuzzer's: handshakes under attack |
//! | `documented.rs` | tests: limits of handshakes and paths in docs/protocol.md |

mod ack_load;
mod admission;
mod brake;
mod cookies;
#[cfg(test)]
pub(crate) mod documented;
mod generations;
mod handshakes;
mod input;
mod membership;
mod offload;
mod output;
mod overhead;
mod path;
mod peer;
mod peers;
mod start_probe;
mod survey;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;
mod unread;

pub use input::Arrival;

use crate::capacity::{Capacity, Estimate, Prior};
use crate::config::{ACK_SHARE, EndpointConfig};
use crate::event::{Event, OpenError, PeerId, PeerState, StreamId};
use crate::handshake::{CookieJar, Identity};
use crate::key_log::LoggedKey;
use crate::memory::Memory;
use crate::offload::{NamedKey, Sealer};
use crate::pacer::Pacer;
use crate::payload::{Elided, Payload, Stored};
use crate::random::SecureRandom;
use crate::scheduler::Scheduler;
use crate::seal::Unsealed;
use crate::session::Session;
use crate::stats::{EndpointStats, MemoryStats, PeerStats, StreamStats};
use crate::trace::TraceEvent;
use crate::trouble::Strangers;
use crate::wire::frame::PathFrame;
use crate::wire::packet::DATA;
use ack_load::AckLoad;
use admission::Admission;
use path::Way;
use peering::Class;
use peering::ResetReason;
use peering::dscp::Dscp;
use peers::Peers;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use units::{Bytes, Duration, Instant, Rate};

/// One or more datagrams to send, all to one address: `size` bytes of the buffer in pieces of `segment_size`, of which
/// the last may be shorter (the form that UDP segmentation offload takes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// The address of this host from which it should leave; `None` if the host chooses.
    pub from: Option<IpAddr>,
    /// Bytes in the buffer.
    pub size: usize,
    /// Bytes of each datagram.
    pub segment_size: usize,
    /// How to mark each: as the data in it, or the data whose arrival it reports.
    pub dscp: Dscp,
}

impl Transmit {
    /// The datagrams of an endpoint of [`Elided`] bytes, each with its head and its size, the bytes left out included.
    /// `buffer` is what [`Endpoint::poll_transmit`] was given.
    pub fn elided<'a>(&self, buffer: &'a [u8]) -> impl Iterator<Item = (&'a [u8], usize)> + use<'a> {
        buffer[..self.size].chunks(self.segment_size).map(|datagram| {
            let head = if datagram[0] == DATA { Unsealed::head(datagram) } else { datagram.len() };
            (&datagram[..head], datagram.len())
        })
    }
}

/// The satellite transport of one gateway over one link, without a socket or a clock of its own.
///
/// # Driving it
/// 1. Hand in what happens: [`handle_datagram`](Self::handle_datagram) for every UDP payload,
///    [`handle_timeout`](Self::handle_timeout) when [`next_timeout`](Self::next_timeout) has come, and what the streams'
///    users do.
/// 2. Empty [`poll_event`](Self::poll_event).
/// 3. Send what [`poll_transmit`](Self::poll_transmit) gives, until it gives nothing.
/// 4. Wait for input, or until [`next_timeout`](Self::next_timeout), which any of these calls may have changed.
///
/// `now` never goes back from one call to the next. Calls with the name of a stream that is gone do nothing.
///
/// An endpoint of [`Elided`] bytes is that of a simulation: the same protocol on lengths alone. It cannot take what comes
/// from a socket, and nothing that it sends is sealed.
pub struct Endpoint<P: Payload = Stored> {
    config: EndpointConfig,
    identity: Identity,
    random: SecureRandom,
    cookies: CookieJar,
    cookies_rotate_at: Instant,
    admission: Admission,
    strangers: Strangers,
    /// What the wall clock said, and when: nanoseconds since 1970.
    unix_time: (Instant, u64),
    peers: Peers<P>,
    by_key: BTreeMap<crate::PublicKey, PeerId>,
    /// Names of peers that were removed, for others.
    vacant: Vec<PeerId>,
    /// Where peers are.
    places: BTreeSet<(SocketAddr, PeerId)>,
    /// Memory granted to peers, and for what is written.
    receive_memory: Memory,
    send_memory: Memory,
    /// What streams have their bytes in.
    pool: P::Pool,
    pacer: Pacer,
    capacity: Capacity,
    scheduler: Scheduler<PeerId>,
    /// Peers with something that does not wait for the pace.
    urgent: VecDeque<PeerId>,
    /// Peers with nothing to send at once but an acknowledgement, and how often such may leave.
    acknowledging: VecDeque<PeerId>,
    ack_pacer: Pacer,
    ack_load: AckLoad,
    /// No other start probe begins before.
    start_probe_until: Instant,
    /// Peers that would use idle capacity.
    idle: VecDeque<PeerId>,
    /// Peers with something to code or decode, a little in each turn of the driver's loop.
    working: VecDeque<PeerId>,
    /// Handshake datagrams to send.
    outbox: VecDeque<(Way, Vec<u8>)>,
    /// Challenges and answers to challenges to send.
    path_outbox: VecDeque<(PeerId, Way, PathFrame)>,
    /// The address of this host to which the datagram that is being taken in was sent, if that is known.
    called: Option<IpAddr>,
    /// The peer to which the path is being surveyed.
    surveyed: Option<PeerId>,
    timers: BTreeSet<(Instant, PeerId)>,
    /// The peer to whose session something has happened, and when, if what follows is not worked out yet.
    touched: Option<(PeerId, Instant)>,
    events: VecDeque<Event>,
    sealer: Sealer<P::Key>,
    /// Whether the driver opens packets, and the keys that it is to learn.
    driver_opens: bool,
    opening_keys: VecDeque<NamedKey<P::Key>>,
    /// Keys to give away.
    logged_keys: VecDeque<LoggedKey>,
    /// What has happened to packets, for the driver.
    trace: VecDeque<TraceEvent>,
    sessions: u32,
    /// The peer, by place among all, whose streams are compacted next.
    compacted_next: usize,
    /// This gateway stops.
    closing: bool,
    /// It takes no more streams.
    draining: bool,
    stats: EndpointStats,
}

/// What has arrived waits for this part of a round trip at most, and no longer than a burst; for less than this it is not worth it.
const READING_PART: u64 = 16;
const LEAST_READING_STEP: Duration = Duration::from_millis(1);
/// Timers may expire so much later, with the burst that is due then.
const COARSE: Duration = Duration::from_millis(1);

impl Endpoint<Stored> {
    /// An endpoint without peers. `unix_time` is the wall clock in nanoseconds since 1970: handshakes carry it, for one that
    /// is newer than all before is no replay. A wrong clock costs a round trip in each handshake, and is reported.
    /// `seed` must be random and secret.
    pub fn new(config: EndpointConfig, now: Instant, unix_time: u64, seed: [u8; 32]) -> Self {
        if config.repair {
            crate::repair::prepare();
        }
        Self::start(config, now, unix_time, seed)
    }

    /// Lends space of the stream's buffer to `read`, which fills the slices in order and returns how many bytes it put there. There is
    /// none if there is no space now; [`Event::Writable`] follows then.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn write_with<E>(
        &mut self,
        now: Instant,
        id: StreamId,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.lend_memory(id.peer);
        match self.peers.get_mut(id.peer.index()).and_then(|peer| peer.session.as_mut()) {
            Some(session) => {
                let result = session.write_with(id, read);
                self.on_written(now, id.peer, *result.as_ref().unwrap_or(&0));
                result
            }
            None => read(&mut []),
        }
    }
}

impl Endpoint<Elided> {
    /// An endpoint without peers for a simulation. Whatever the mode and the cipher, nothing is sealed.
    pub fn simulated(config: EndpointConfig, now: Instant, seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Self::start(config, now, now.as_nanos() + 1, bytes)
    }

    /// Writes `length` bytes of which only the number counts, after the first of the stream those too that are kept: they
    /// are zeros. Returns how many it took. When it takes fewer than offered, [`Event::Writable`] follows.
    pub fn write_elided(&mut self, now: Instant, id: StreamId, length: usize) -> usize {
        self.with_writer(now, id, |session| session.write_elided(id, length))
    }
}

impl<P: Payload> Endpoint<P> {
    fn start(config: EndpointConfig, now: Instant, unix_time: u64, seed: [u8; 32]) -> Self {
        let mut random = SecureRandom::new(seed);
        let identity = Identity::new(config.private_key.clone(), config.mode, config.cipher, config.versions);
        let half = config.memory.map(|memory| memory.as_u64() / 2);
        let mut endpoint = Self {
            identity,
            cookies: CookieJar::new(&mut random),
            cookies_rotate_at: now + cookies::COOKIE_LIFE,
            admission: Admission::new(&mut random),
            strangers: Strangers::default(),
            random,
            unix_time: (now, unix_time),
            peers: Peers::new(),
            by_key: BTreeMap::new(),
            vacant: Vec::new(),
            places: BTreeSet::new(),
            receive_memory: Memory::new(half, config.receive_pool()),
            send_memory: Memory::new(half, config.send_pool()),
            pool: P::Pool::default(),
            pacer: Pacer::in_bursts(config.capacity),
            capacity: Capacity::new(&config, now),
            scheduler: Scheduler::new(config.quantum()),
            urgent: VecDeque::new(),
            acknowledging: VecDeque::new(),
            ack_pacer: Pacer::new(config.capacity),
            ack_load: AckLoad::default(),
            start_probe_until: Instant::ZERO,
            idle: VecDeque::new(),
            working: VecDeque::new(),
            outbox: VecDeque::new(),
            path_outbox: VecDeque::new(),
            called: None,
            surveyed: None,
            timers: BTreeSet::new(),
            touched: None,
            events: VecDeque::new(),
            sealer: Sealer::Endpoint,
            driver_opens: false,
            opening_keys: VecDeque::new(),
            logged_keys: VecDeque::new(),
            trace: VecDeque::new(),
            sessions: 0,
            compacted_next: 0,
            closing: false,
            draining: false,
            stats: EndpointStats::default(),
            config,
        };
        endpoint.set_pace(now);
        endpoint
    }

    /// Gives memory that streams have not needed since the last call back to the allocator, but for some, and that of packets which
    /// repair needs no longer; called once a second or so.
    pub fn trim_memory(&mut self, now: Instant) {
        self.compact_streams();
        P::trim(&self.pool);
        for id in self.peers.ids() {
            if let Some(session) = &mut self.peers[id.index()].session {
                session.trim_memory(now);
            }
        }
    }

    /// Places for streams that one call looks at, of each session of one peer: more would take longer than the packets of a fast link may wait.
    const COMPACTED_AT_ONCE: usize = 4096;

    /// Has what waits in the next streams take up little more memory than it needs.
    fn compact_streams(&mut self) {
        let ids = self.peers.ids();
        let mut visited = 0;
        for _ in 0..ids.len() {
            let peer = &mut self.peers[ids[self.compacted_next % ids.len()].index()];
            let mut all = true;
            for session in peer.session.iter_mut().chain(peer.unread.as_deref_mut()) {
                let (places, is_last) = session.compact_streams(Self::COMPACTED_AT_ONCE);
                (visited, all) = (visited + places, all && is_last);
            }
            if all {
                self.compacted_next = (self.compacted_next + 1) % ids.len();
            }
            if !all || visited >= Self::COMPACTED_AT_ONCE {
                return;
            }
        }
    }

    /// Gives memory that is kept for what streams may bring back to the allocator: for when there is little to do.
    pub fn give_back_memory(&mut self) {
        P::clear(&self.pool);
    }

    /// This gateway's public key.
    pub fn public_key(&self) -> crate::PublicKey {
        self.identity.public
    }

    /// The wall clock says `unix_time`, in nanoseconds since 1970. Called about once a second, the endpoint follows a clock
    /// that is set while it runs; in between, it counts on by itself.
    pub fn set_unix_time(&mut self, now: Instant, unix_time: u64) {
        self.unix_time = (now, unix_time);
    }

    /// The link's capacity has changed, for instance by a report of the modem.
    pub fn set_capacity(&mut self, now: Instant, capacity: Rate) {
        self.capacity.set_reported(capacity);
        self.set_pace(now);
        if self.config.trace {
            self.peers.ids().into_iter().for_each(|id| self.collect_trace(now, id));
        }
    }

    /// The capacity that was reported last is withdrawn, as when the modem's session ends: the estimate goes on, and starts again from the
    /// next report even if that says the same.
    pub fn withdraw_capacity(&mut self) {
        self.capacity.withdraw();
    }

    /// Another rate of the link is configured, with the prior that follows from it: the estimate of the capacity begins there.
    pub fn configure_capacity(&mut self, now: Instant, rate: Rate, prior: Prior) {
        self.capacity.configure(rate, prior);
        self.set_pace(now);
    }

    /// Another rate is configured, or none any more, and what is reported or measured says more: `prior` bounds the estimate, which
    /// goes on.
    pub fn set_capacity_prior(&mut self, now: Instant, prior: Prior) {
        self.capacity.set_prior(prior);
        self.set_pace(now);
    }

    /// Another bound of the estimate is configured; without one it follows from the prior, what is remembered and the last report.
    pub fn set_capacity_ceiling(&mut self, now: Instant, ceiling: Option<Rate>) {
        self.capacity.set_ceiling(ceiling);
        self.set_pace(now);
    }

    /// The estimated capacity of the link.
    pub fn capacity(&self) -> Rate {
        self.capacity.rate()
    }

    /// The estimate of the link's capacity, and its basis.
    pub fn capacity_estimate(&self, now: Instant) -> Estimate {
        self.capacity.estimate(now)
    }

    /// The rate at which packets are sent at most, but for what the estimate of the capacity tries: what cross traffic leaves of it.
    pub fn send_limit(&self) -> Rate {
        self.capacity.share()
    }

    /// Cross traffic was measured at this rate on the link, and `total` IP bytes of it in all so far: it is given room.
    pub fn set_cross_traffic(&mut self, now: Instant, rate: Rate, total: Bytes) {
        let busy = self.peers.iter().filter_map(|peer| Some(peer.session.as_ref()?.busy_streams())).sum();
        self.capacity.on_cross_traffic(now, rate, total, busy);
        self.set_pace(now);
    }

    fn set_pace(&mut self, now: Instant) {
        let pace = self.capacity.pace(now);
        // A train tells what the link carries by how far apart its packets arrive.
        self.pacer.set_even(self.capacity.train_leaves_to().is_some());
        self.ack_pacer.set_rate(now, self.capacity.rate().mul_f64(ACK_SHARE));
        match self.capacity.take_ahead() {
            Bytes::ZERO => self.pacer.set_rate(now, pace),
            ahead => self.pacer.end_train(now, pace, ahead),
        }
    }

    /// Follows what a peer's own way over the link carries.
    fn set_way(&mut self, now: Instant, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        let Some(rate) = self.capacity.peer_pace(now, id) else {
            peer.way = None;
            return;
        };
        let way = peer.way.get_or_insert_with(|| Pacer::new(rate));
        match self.capacity.take_peer_ahead(now, id) {
            [Bytes::ZERO, _] => way.set_rate(now, rate),
            [ahead, ahead_of_link] => {
                way.end_train(now, rate, ahead);
                self.pacer.make_up(now, ahead_of_link);
            }
        }
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.settle_touched();
        if self.cookies_rotate_at <= now {
            self.cookies_rotate_at = now + cookies::COOKIE_LIFE;
            self.cookies.rotate(&mut self.random);
            self.admission.rotate(&mut self.random);
        }
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.peers[id.index()].timer = None;
            self.on_peer_timeout(now, id);
            self.refresh(now, id);
        }
        self.work(now);
    }

    /// Codes and decodes for one peer, a fraction of a millisecond.
    fn work(&mut self, now: Instant) {
        let Some(id) = self.working.pop_front() else { return };
        let peer = &mut self.peers[id.index()];
        peer.working_queued = false;
        if let Some(Err(violation)) = peer.session.as_mut().map(|session| session.work(now)) {
            self.on_violation(now, id, violation);
        }
        self.refresh(now, id);
    }

    /// Puts a peer where its turn to code and decode comes, if it has something to.
    fn queue_work(&mut self, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        let has_work = peer.session.as_ref().is_some_and(Session::has_work);
        if has_work && !std::mem::replace(&mut peer.working_queued, true) {
            self.working.push_back(id);
        }
    }

    /// When the endpoint wants to be called, by [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_transmit`](Self::poll_transmit). A time in the past means at once.
    pub fn next_timeout(&self) -> Option<Instant> {
        let queues = [!self.outbox.is_empty(), !self.path_outbox.is_empty(), !self.urgent.is_empty()];
        if queues.contains(&true) || !self.working.is_empty() || self.touched.is_some() {
            return Some(Instant::ZERO);
        }
        let paced = (!self.scheduler.is_empty() || !self.idle.is_empty()).then(|| self.pacer.next());
        let timer = self.timers.first().map(|&(at, _)| match paced {
            // Of two calls with so little between them one is enough.
            Some(burst) if at < burst && burst <= at + COARSE && self.pacer.is_bursting() => burst,
            _ => at,
        });
        let acknowledgements = (!self.acknowledging.is_empty()).then(|| self.ack_pacer.next());
        timer.into_iter().chain(paced).chain(acknowledgements).chain(self.survey_timeout()).min()
    }

    /// When the next timer of a session expires: an acknowledgement that is due, a loss that is certain then, and the like. What leaves
    /// at the link's pace is not among them.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How long what has arrived may wait for what comes next, so that the driver takes in many datagrams at once while they keep
    /// coming: a small part of a round trip, and nothing where that is short. No session is harmed by as much.
    pub fn reading_step(&self) -> Duration {
        let sessions = self.peers.iter().filter_map(|peer| peer.session.as_ref());
        let rtt = sessions.map(|session| session.rtt()).min().unwrap_or(Duration::ZERO);
        let step = rtt / READING_PART;
        if step < LEAST_READING_STEP { Duration::ZERO } else { step.min(Pacer::longest_burst(rtt)) }
    }

    /// The next piece of news.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some((id, _)) = self.touched {
            // What is lent next depends on it; all else that follows waits until it is asked what is to be sent.
            self.charge(id);
        }
        while let Some(event) = self.events.pop_front() {
            if let Some(event) = self.for_driver(event) {
                return Some(event);
            }
        }
        None
    }

    /// The next of the data keys that handshakes have made, if [`EndpointConfig::export_keys`] says that they are to be had.
    pub fn poll_key(&mut self) -> Option<LoggedKey> {
        self.logged_keys.pop_front()
    }

    /// Opens a stream to `peer`. The peer learns of it with the first bytes.
    ///
    /// # Errors
    /// If there is no session, or the peer takes no more streams.
    pub fn open(&mut self, _now: Instant, peer: PeerId) -> Result<StreamId, OpenError> {
        let best = self.best(peer).ok_or(OpenError::NotConnected)?;
        self.peers[best.index()].session.as_mut().ok_or(OpenError::NotConnected)?.open()
    }

    /// Puts a stream into a class. What is settled of the class holds for all of its streams to this peer, from now on.
    pub fn set_class(&mut self, now: Instant, id: StreamId, class: &Class) {
        self.with_session(now, id, |session| session.set_class(now, id, class));
    }

    /// Sets the DSCP of a stream: packets with data of it are sent so from now on, and none holds data of streams that are marked
    /// otherwise.
    pub fn set_dscp(&mut self, now: Instant, id: StreamId, dscp: Dscp) {
        self.with_session(now, id, |session| session.set_dscp(id, dscp));
    }

    /// How many more streams can be opened to `peer`, and how many it lets be open in all; zero without a session.
    pub fn room(&self, peer: PeerId) -> (u64, u64) {
        self.best_session(peer).map_or((0, 0), Session::room)
    }

    /// Bytes that can be written to a stream now.
    pub fn write_space(&self, id: StreamId) -> usize {
        self.session(id).map_or(0, |session| session.write_space(id))
    }

    /// Writes to a stream; returns how many bytes it took. When it takes fewer than offered,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, now: Instant, id: StreamId, data: &[u8]) -> usize {
        self.with_writer(now, id, |session| session.write(id, data))
    }

    /// Ends this side's direction after the last byte written.
    pub fn finish(&mut self, now: Instant, id: StreamId) {
        self.with_session(now, id, |session| session.finish(id));
    }

    /// Gives up both directions. What was not yet delivered is dropped, here and at the peer.
    pub fn reset(&mut self, now: Instant, id: StreamId, reason: ResetReason) {
        self.with_session(now, id, |session| session.reset(id, reason));
    }

    /// Gives up both directions as soon as everything written has arrived, which the peer's reader then finds before the reset.
    /// Nothing can be read or written any more.
    pub fn reset_behind_data(&mut self, now: Instant, id: StreamId, reason: ResetReason) {
        self.with_session(now, id, |session| session.reset_behind_data(id, reason));
    }

    /// How much has not arrived of what was written to a stream that is being [reset behind it](Self::reset_behind_data); `None` once the
    /// reset has been sent.
    pub fn undelivered(&self, id: StreamId) -> Option<u64> {
        self.session(id).and_then(|session| session.undelivered(id))
    }

    /// Bytes written to the stream that the peer has not acknowledged in order; 0 if there is no such stream.
    pub fn unacknowledged(&self, id: StreamId) -> u64 {
        self.session(id).map_or(0, |session| session.unacknowledged(id))
    }

    /// Whether what is written to the stream can arrive, as far as is known here: not once the peer has reset it, while bytes from before
    /// wait for the reader.
    pub fn takes_data(&self, id: StreamId) -> bool {
        self.session(id).is_none_or(|session| session.takes_data(id))
    }

    /// Lends the bytes that can be read, in order; returns how many of `slices` it filled.
    pub fn readable<'a>(&'a self, id: StreamId, slices: &mut [IoSlice<'a>]) -> usize {
        self.session(id).map_or(0, |session| session.readable(id, slices))
    }

    /// How many bytes can be read. Of [`Elided`] ones that is more than [`readable`](Self::readable) lends.
    pub fn readable_len(&self, id: StreamId) -> u64 {
        self.session(id).map_or(0, |session| session.readable_len(id))
    }

    /// Drops `bytes` bytes that were read, so that the peer may send more.
    pub fn consume(&mut self, now: Instant, id: StreamId, bytes: usize) {
        self.with_session(now, id, |session| session.consume(now, id, bytes));
    }

    /// Whether the peer ended its direction and every byte of it was consumed. Once both directions have ended,
    /// [`Event::Closed`] says so instead, and the stream is gone.
    pub fn is_read_finished(&self, id: StreamId) -> bool {
        self.session(id).is_some_and(|session| session.is_read_finished(id))
    }

    /// Tells all peers that this gateway stops: they end what streams are left and bypass it at once. From now on no
    /// handshake is begun or answered.
    pub fn close(&mut self, now: Instant) {
        self.closing = true;
        for id in self.peers.ids() {
            if let Some(session) = self.peers[id.index()].session.as_mut() {
                session.close();
                self.refresh(now, id);
            }
        }
    }

    /// Whether all peers know that this gateway stops, after [`close`](Self::close).
    pub fn has_closed(&self) -> bool {
        self.closing && self.peers.iter().all(|peer| peer.session.is_none())
    }

    /// How long it takes until all peers that can answer [`close`](Self::close) have done so.
    pub fn close_timeout(&self) -> Duration {
        let sessions = self.peers.iter().filter_map(|peer| peer.session.as_ref());
        sessions
            .filter(|session| !session.is_unresponsive())
            .map(Session::answer_timeout)
            .max()
            .unwrap_or(Duration::ZERO)
    }

    /// How a peer stands.
    pub fn peer_state(&self, peer: PeerId) -> PeerState {
        match self.best_session(peer) {
            None => PeerState::Connecting,
            Some(session) if session.is_unresponsive() => PeerState::Unresponsive,
            Some(session) if session.is_path_too_small() => PeerState::PathTooSmall,
            Some(session) if session.peer_drains() => PeerState::Draining,
            Some(session) if session.is_path_proven() => PeerState::Up,
            Some(_) => PeerState::Connecting,
        }
    }

    /// The host does not take IP packets for `to` that are as large as one with a datagram of `size` bytes: smaller ones
    /// are sent from now on.
    pub fn handle_refused(&mut self, now: Instant, to: SocketAddr, size: usize) {
        let ip_size = u16::try_from(size + overhead::ip_overhead(&to)).unwrap_or(u16::MAX);
        for id in self.peers.ids() {
            let peer = &mut self.peers[id.index()];
            let is_attempted = peer.attempt.as_ref().is_some_and(|(_, at)| *at == to);
            match &mut peer.session {
                Some(session) if peer.address == Some(to) => session.on_refused(now, ip_size),
                // It was a padded init: another goes at once.
                None if is_attempted && !peer.refuses_padding => (peer.refuses_padding, peer.attempt_at) = (true, now),
                _ => continue,
            }
            self.refresh(now, id);
        }
    }

    /// Where datagrams to a peer go now: where it last answered from, or is configured to be.
    pub fn peer_address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(self.best(peer).unwrap_or(peer).index())?.address
    }

    /// A peer's counters and measurements.
    pub fn peer_stats(&self, now: Instant, peer: PeerId) -> PeerStats {
        let stats = self.stats_of_sessions(now, peer);
        let clock = self.peers.get(peer.index()).and_then(|peer| peer.clock);
        let keys = self.best(peer).and_then(|best| self.peers[best.index()].keys.current.as_ref());
        let (version, cipher) = keys.map(|keys| (keys.version, keys.cipher)).unzip();
        PeerStats { pacing_rate: self.pacer.rate(), clock, version, cipher, ..stats }
    }

    /// A stream's counters; `None` if it is gone.
    pub fn stream_stats(&self, id: StreamId) -> Option<StreamStats> {
        self.session(id)?.stream_stats(id)
    }

    /// The endpoint's counters.
    pub fn stats(&self) -> &EndpointStats {
        &self.stats
    }

    /// Of the memory for what `peer` sends, how many bytes are left while readers have yet to take what has arrived, and how many there
    /// are; `None` without a session.
    pub fn receive_memory_left(&self, peer: PeerId) -> Option<(u64, u64)> {
        self.best_session(peer).map(|session| session.credit.left())
    }

    /// The memory for the data of streams.
    pub fn memory_stats(&self) -> MemoryStats {
        let (granted, send_buffered) = (self.receive_memory.held(), self.send_memory.held());
        let sessions = self.peers.iter().filter_map(|peer| peer.session.as_ref());
        let repair = sessions.map(Session::repair_memory).sum();
        MemoryStats { limit: self.receive_memory.limit(), granted, send_buffered, repair }
    }

    fn with_session<T>(&mut self, now: Instant, id: StreamId, act: impl FnOnce(&mut Session<P>) -> T) -> Option<T> {
        if self.is_unread(id) {
            return self.with_unread(id, act);
        }
        self.lend_memory(id.peer);
        let session = self.peers.get_mut(id.peer.index())?.session.as_mut()?;
        let result = act(session);
        self.touch(now, id.peer);
        Some(result)
    }

    /// As [`with_session`](Self::with_session), for a write that says how many bytes it took.
    fn with_writer(&mut self, now: Instant, id: StreamId, write: impl FnOnce(&mut Session<P>) -> usize) -> usize {
        if self.is_unread(id) {
            return self.with_unread(id, write).unwrap_or(0);
        }
        self.lend_memory(id.peer);
        let session = self.peers.get_mut(id.peer.index()).and_then(|peer| peer.session.as_mut());
        let Some(taken) = session.map(write) else { return 0 };
        self.on_written(now, id.peer, taken);
        taken
    }

    /// A write took `taken` bytes. From none of them nothing follows, unless a timer is overdue, or the memory that was lent for the
    /// write lets the peer send more.
    fn on_written(&mut self, now: Instant, id: PeerId, taken: usize) {
        let peer = &self.peers[id.index()];
        let is_due = peer.timer.is_none_or(|at| at <= now);
        if taken > 0 || is_due || peer.session.as_ref().is_some_and(Session::has_urgent) {
            self.touch(now, id);
        }
    }

    /// Sets what the session with a peer may hold beside the others.
    fn lend_memory(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.index()) else { return };
        let kept = peer.unread_bytes();
        if let Some(session) = &mut peer.session {
            let capacity = self.capacity.rate();
            let (unread, most) = (session.credit.unread(), session.credit.most_in_round());
            let receive = self.config.receive_pool_beside(unread, most);
            let send = self.config.grown_send_pool(capacity, session.rtt());
            let least = self.receive_memory.reserve().min(receive);
            let receive = self.receive_memory.allowance(&session.credit.receive_holding, receive + kept);
            let receive = receive.saturating_sub(kept).max(least);
            let send = self.send_memory.allowance(&session.credit.send_holding, send);
            session.credit.set_pools(receive, send);
            session.credit.set_unsent_cap(capacity);
        }
    }

    /// Something has happened to a peer's session. Much may before the driver asks what follows: it is worked out once.
    fn touch(&mut self, now: Instant, id: PeerId) {
        if self.touched.is_some_and(|(touched, _)| touched != id) {
            self.settle_touched();
        }
        self.touched = Some((id, now));
        self.collect_events(now, id);
    }

    /// Takes over what a peer's session reports.
    fn collect_events(&mut self, now: Instant, id: PeerId) {
        let mut came_up = false;
        if let Some(session) = self.peers.get_mut(id.index()).and_then(|peer| peer.session.as_mut()) {
            while let Some(event) = session.poll_event() {
                came_up |= matches!(event, Event::PeerUp(_));
                self.events.push_back(event);
            }
        }
        if came_up {
            self.consider_start_probe(now, id);
        }
    }

    /// Works out what follows from what has happened to a peer's session.
    fn settle_touched(&mut self) {
        if let Some((id, at)) = self.touched.take()
            && self.peers.get(id.index()).is_some()
        {
            self.refresh(at, id);
        }
    }

    /// Takes a peer's news, and puts it where what it has to send and its next timer say.
    fn refresh(&mut self, now: Instant, id: PeerId) {
        if self.config.trace {
            self.collect_trace(now, id);
        }
        self.collect_events(now, id);
        self.charge(id);
        let peer = &mut self.peers[id.index()];
        let within_cap = peer.is_within_cap(now);
        if let Some(session) = &mut peer.session {
            if session.has_urgent() && !std::mem::replace(&mut peer.urgent_queued, true) {
                self.urgent.push_back(id);
            }
            if session.owes_ack(now) && !std::mem::replace(&mut peer.ack_queued, true) {
                self.acknowledging.push_back(id);
            }
            let leaves = peer.leaves_at.is_some();
            if session.has_idle(now) && within_cap && !leaves && !std::mem::replace(&mut peer.idle_queued, true) {
                self.idle.push_back(id);
            }
        }
        let peer = &mut self.peers[id.index()];
        if within_cap && peer.live_session().is_some_and(|session| session.has_paced(now)) {
            self.scheduler.activate(id, peer.scheduler_entry(now));
            if self.capacity.on_data(id) {
                self.pacer.release();
                self.set_pace(now);
            }
        }
        self.queue_work(id);
        let peer = &mut self.peers[id.index()];
        // A timer that is too early costs a call; one that is too late costs a round trip.
        let wanted = peer.next_timeout(now);
        if peer.timer.is_none_or(|timer| wanted < timer) {
            if let Some(timer) = peer.timer {
                self.timers.remove(&(timer, id));
            }
            peer.timer = Some(wanted);
            self.timers.insert((wanted, id));
        }
    }

    /// Nanoseconds since 1970, by what the driver said last and our own time since.
    fn unix_time(&self, now: Instant) -> u64 {
        let (at, unix_time) = self.unix_time;
        unix_time.saturating_add(now.since(at).as_nanos())
    }
}
