//! The `satpep` transport: one session of the satellite transport for each peer, over UDP.

mod datagrams;
mod notices;
mod qlog;

use super::{
    Buffered, ConnectReply, Membership, PathDelay, Progress, ReceivedRequest, Reports, SatelliteTransport, StreamEvent,
    Succession,
};
use crate::config::{CapacityMode, Class, DscpPolicy, Link, Peer, Settings};
use crate::cross_traffic::CrossTrafficMeter;
use crate::entropy::seed;
use crate::error::{StartError, while_doing};
use crate::host_sockets::HostSockets;
use crate::link_state::LinkState;
use crate::privileges::Plan;
use crate::relays::log_limit::{LineLimit, LogLimit};
use crate::takeover::Heir;
use crate::takeover::beside::Beside;
use crate::takeover::offer::TransportOffer;
use crate::tcp_socket::Tcp;
use crate::transport::capacity::CapacityWatch;
use crate::transport::key_log::KeyLog;
use crate::transport::remembered::Remembered;
use crate::udp::Udp;
use crate::udp::batches::Batches;
use crate::udp::knock::Knock;
use crate::watch::Watch;
use datagrams::Datagrams;
use kernel::clock;
use qlog::Traces;
use relay::connect::ConnectRequest;
use relay::dscp::Dscp;
use relay::engine::Transport;
use relay::reach::Reach;
use satpep::{
    Endpoint, EndpointConfig, Event, MemoryStats, PeerConfig, PeerId, PeerState, Prior, ResetReason, Run, Stored,
    StrangerFault, StreamId, Versions,
};
use status::Trouble;
use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use streams::{Reported, Streams};
use units::{Duration, Instant, Rate};

/// How long peers' answers to the news that this gateway stops are waited for, at most.
const LONGEST_FAREWELL: Duration = Duration::from_secs(2);
/// A time-out that is so late is not taken for one before what has arrived is read.
const HELD_UP: Duration = Duration::from_millis(20);
/// How often losses are looked at.
const JUDGEMENT_PERIOD: Duration = Duration::from_secs(1);
const NANOS_OF_A_SECOND: u64 = 1_000_000_000;
/// Pieces of the receive buffer that one system call writes.
const SLICES: usize = 64;

/// The transport and its socket.
pub(crate) struct Satpep {
    run: Run,
    /// Its place, if another process had the port at the start.
    place: Option<Beside>,
    streams: Streams<Stored>,
    datagrams: Datagrams,
    /// The peers, by place.
    peers: Vec<PeerRecord>,
    next_judgement: Instant,
    cross_traffic: Option<CrossTrafficMeter>,
    cross_traffic_bps: u64,
    key_log: Option<KeyLog>,
    traces: Option<Traces>,
    /// The configured rate, if any, and whether it is kept by force.
    rate: Option<Rate>,
    is_fixed: bool,
    ceiling: Option<Rate>,
    /// A link update says what the rate is.
    rate_is_reported: bool,
    capacity: CapacityWatch,
    remembered: Remembered,
}

impl std::fmt::Debug for Satpep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Satpep").field("udp", &self.datagrams.udp).finish_non_exhaustive()
    }
}

/// What is known of one peer, and of the path to it.
#[derive(Debug)]
struct PeerRecord {
    name: String,
    /// Its public key, as text.
    key: String,
    /// Where handshakes go.
    address: Option<SocketAddr>,
    knock: Knock,
    batches: Batches,
    /// Reports of the peer that could not be true, as of the last look.
    implausible: u64,
    /// How often the log says that an announcement of the peer is not understood.
    bad_announcements: LogLimit,
    /// How often it has what happens to the peer's sessions.
    sessions: LineLimit<Event>,
    /// The same of when the peer does not answer, each of which counts to an operator.
    outages: LineLimit<Event>,
}

impl PeerRecord {
    fn new(now: Instant, peer: &Peer) -> Self {
        Self {
            name: peer.name.clone(),
            key: key_of(peer),
            address: peer.address,
            knock: Knock::default(),
            batches: Batches::new(now),
            implausible: 0,
            bad_announcements: LogLimit::default(),
            sessions: LineLimit::default(),
            outages: LineLimit::of(notices::OUTAGES),
        }
    }
}

impl Satpep {
    /// Binds the socket and begins handshakes with the peers.
    pub(crate) fn start(
        settings: &Settings,
        now: Instant,
        watch: &Watch,
        heir: Option<&mut Heir>,
    ) -> Result<Self, StartError> {
        let heir = heir.map(|heir| &*heir);
        let place = Beside::find(settings, heir).map_err(while_doing("sharing the UDP port"))?;
        let run = place.as_ref().map_or(Run::Fresh, Beside::run);
        let udp = Udp::bind(settings.listen, place.is_some())
            .map_err(while_doing(format!("UDP socket {}", settings.listen)))?;
        let remembered = Remembered::read(&settings.state_directory, &settings.name, settings.link.rate);
        let records: Vec<_> = settings.peers.iter().map(|peer| PeerRecord::new(now, peer)).collect();
        let keys = records.iter().map(|peer| &*peer.key);
        let before = remembered.prior(keys, clock::unix_time() / NANOS_OF_A_SECOND);
        let (mut endpoint, peers) = endpoint(settings, run, now, before)?;
        if let Some(place) = &place {
            udp.take_share(run.generation()).map_err(while_doing("sharing the UDP port"))?;
            initiate(&mut endpoint, now, settings, &peers, &place.peers);
        }
        let watched = watch.try_clone().and_then(|watch| Datagrams::new(settings, udp, watch));
        let datagrams = watched.map_err(while_doing("watching the UDP socket"))?;
        let cross_traffic = match &settings.link.interface {
            None => None,
            Some(name) => Some(CrossTrafficMeter::new(name)?),
        };
        let key_log = KeyLog::of(settings)?;
        let traces = settings.debug.qlog.as_ref().map(|qlog| {
            let doing = format!("[debug] qlog {}", qlog.directory.display());
            Traces::new(&settings.name, qlog).map_err(while_doing(doing))
        });
        Ok(Self {
            run,
            place,
            streams: Streams::new(endpoint, peers, settings.link.dscp == DscpPolicy::Copy),
            datagrams,
            peers: records,
            next_judgement: now,
            cross_traffic,
            cross_traffic_bps: 0,
            key_log,
            traces: traces.transpose()?,
            rate: settings.link.rate,
            is_fixed: settings.link.capacity == CapacityMode::Fixed,
            ceiling: settings.link.ceiling,
            rate_is_reported: false,
            capacity: CapacityWatch::new(before.is_some()),
            remembered,
        })
    }

    /// Leaves the file of the remembered capacity as it is: another process, or the next run of the gateway, answers for it.
    pub(crate) fn leave_remembered(&mut self) {
        self.remembered.leave();
    }

    /// Logs and remembers what the capacity is believed to be, where that is news.
    fn look_at_capacity(&mut self, now: Instant) {
        let estimate = self.streams.endpoint.capacity_estimate(now);
        self.capacity.look(&estimate);
        let streams = &self.streams;
        let up = self.peers.iter().enumerate().filter_map(|(at, peer)| {
            let id = streams.id(at);
            let rtt = streams.endpoint.peer_stats(now, id).min_rtt?;
            (streams.endpoint.peer_state(id) == PeerState::Up).then_some((&*peer.key, rtt))
        });
        self.remembered.note(now, clock::unix_time() / NANOS_OF_A_SECOND, &estimate, up);
    }

    /// The estimate starts again from a changed rate, unless a link update says more, or no rate is configured any more: then only its
    /// bound changes.
    fn reconfigure_capacity(&mut self, now: Instant, link: &Link) {
        let endpoint = &mut self.streams.endpoint;
        if self.ceiling != link.ceiling {
            endpoint.set_capacity_ceiling(now, link.ceiling);
        }
        if self.rate != link.rate {
            let prior = prior_of(link);
            if let (Some(rate), false) = (link.rate, self.rate_is_reported) {
                endpoint.configure_capacity(now, rate, prior);
                self.capacity.on_configured();
            } else {
                endpoint.set_capacity_prior(now, prior);
            }
        }
        (self.rate, self.ceiling) = (link.rate, link.ceiling);
        self.remembered.configure(link.rate);
    }

    fn name(&self, id: PeerId) -> &str {
        self.streams.place(id).map_or("unknown", |at| &self.peers[at].name)
    }

    /// Why `peer`, which is not up, is not.
    fn trouble_of(&self, peer: usize) -> Trouble {
        let PeerRecord { address, knock, .. } = &self.peers[peer];
        if let Some(of_way) = &knock.seen {
            return of_way.clone();
        }
        if let Some(trouble) = self.trouble_of_session(peer) {
            return trouble;
        }
        match self.streams.endpoint.peer_trouble(clock::now(), self.streams.id(peer)) {
            Some(satpep::Trouble::OtherMode { .. }) => {
                return Trouble::new("other_mode", "it uses the other mode: `mode` must be the same on both sides");
            }
            Some(satpep::Trouble::OtherVersions { ours, theirs, is_proven }) => {
                return crate::trouble::other_versions(ours, theirs, is_proven);
            }
            Some(satpep::Trouble::OnlyCookies { .. }) => {
                return Trouble::new(
                    "only_cookies",
                    "it answers with cookies alone: it is flooded with handshakes, or an attacker on the path forges its answers",
                );
            }
            _ => {}
        }
        if address.is_none() {
            return Trouble::new(
                "not_initiated",
                "it has no address here, so that it must initiate the session, and no handshake of it has arrived: check that its gateway runs, and \
                 its address, port, public_key and transport for this one; its own key must be the public_key here",
            );
        }
        Trouble::new(
            "no_answer",
            "nothing replies: check address and port, that UDP passes the firewalls on the path, that its gateway runs with \
             transport = \"satpep\", and each side's public_key for the other (a gateway does not answer strangers)",
        )
    }

    /// What is wrong with `peer` although there is a session with it: its keys and its address are right.
    fn trouble_of_session(&self, peer: usize) -> Option<Trouble> {
        match self.streams.endpoint.peer_state(self.streams.id(peer)) {
            PeerState::Unresponsive => Some(Trouble::new(
                "no_answer",
                "its session was up, and now nothing comes from it: an outage of the link, or its gateway or its host does not run",
            )),
            PeerState::PathTooSmall => Some(Trouble::new(
                "path_too_small",
                "it answers, but not even packets of the least size arrive, there or back: look for a smaller MTU on the path to it \
                 and from it",
            )),
            _ => None,
        }
    }

    /// Asks the network about the peers that do not answer handshakes.
    fn look_at_paths(&mut self, now: Instant) {
        for (at, PeerRecord { address, knock, .. }) in self.peers.iter_mut().enumerate() {
            let is_there = self.streams.place(self.streams.id(at)) == Some(at);
            match address {
                Some(address) if is_there && !self.streams.is_up(at) => {
                    knock.look(now, *address, self.datagrams.dscp.of(Dscp::default()))
                }
                _ => knock.forget(),
            }
        }
    }

    /// Says of a peer that its reports cannot be true: at the 1st, 2nd, 4th, 8th ….
    fn look_at_reports(&mut self, now: Instant) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            let id = self.streams.id(at);
            if self.streams.place(id) != Some(at) {
                continue;
            }
            let reports = self.streams.endpoint.peer_stats(now, id).implausible_reports;
            let before = std::mem::replace(&mut peer.implausible, reports);
            if reports.checked_ilog2() > before.checked_ilog2() {
                tracing::warn!(
                    peer = peer.name,
                    reports,
                    "peer reports arrivals that cannot be true: they are ignored; its gateway is faulty or lies"
                );
            }
        }
    }

    /// Looks whether batches arrive at each peer.
    fn judge_batches(&mut self, now: Instant) {
        if !self.datagrams.udp.takes_batches() {
            return;
        }
        self.datagrams.singly.clear();
        for (at, PeerRecord { name, batches, .. }) in self.peers.iter_mut().enumerate() {
            let id = self.streams.id(at);
            if self.streams.place(id) != Some(at) {
                continue;
            }
            let stats = self.streams.endpoint.peer_stats(now, id);
            let rtt = stats.rtt.unwrap_or_default();
            if !self.streams.is_up(at) {
                batches.on_outage(now, rtt);
            } else if batches.update(now, rtt, stats.sent_packets, stats.lost_packets) {
                tracing::warn!(
                    peer = *name,
                    "batches of datagrams (GSO) are lost on the path, single ones are not: they are sent one by one from \
                     now on; check the offloads of the interface (ethtool -k)"
                );
            }
            if !batches.are_sent() {
                self.datagrams.singly.extend(self.streams.endpoint.peer_address(id));
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.streams.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.streams.endpoint.handle_timeout(now);
        }
    }
}

impl SatelliteTransport for Satpep {
    const NAME: &'static str = "satpep";

    fn on_descriptor(&mut self, _: Instant, _: usize, event: &mio::event::Event) {
        self.datagrams.on_event(event);
    }

    fn has_more(&self) -> bool {
        self.datagrams.has_more()
    }

    fn take_in(&mut self, now: Instant, _: usize) {
        // Where this process was held up, what waits to be read says which peers are there.
        if self.streams.endpoint.next_timer().is_some_and(|at| at + HELD_UP <= now) {
            self.datagrams.receive(now, &mut self.streams.endpoint);
        }
        self.handle_timeout(now);
        self.datagrams.receive(now, &mut self.streams.endpoint);
    }

    fn follow(&mut self, now: Instant, link: &LinkState) {
        let was_reported = std::mem::replace(&mut self.rate_is_reported, link.rate_is_reported);
        if was_reported && !link.rate_is_reported {
            self.streams.endpoint.withdraw_capacity();
        }
        // An estimate is better than the configured rate, with which it has begun.
        if link.rate_is_reported || self.is_fixed {
            self.streams.endpoint.set_capacity(now, link.rate);
        }
    }

    fn poll_event(&mut self, now: Instant) -> Option<StreamEvent<StreamId>> {
        if let Some(key_log) = &self.key_log {
            while let Some(key) = self.streams.endpoint.poll_key() {
                key_log.write(key);
            }
        }
        self.write_traces();
        loop {
            let reported = self.streams.poll_event(now)?;
            match &reported {
                Reported::Stream(_) => {}
                Reported::Session(event) => self.log(now, event),
                Reported::BadAnnouncement(at, error) => {
                    let peer = &mut self.peers[*at];
                    if let Some(not_logged) = peer.bad_announcements.admit(now) {
                        tracing::warn!(
                            peer = peer.name,
                            %error,
                            not_logged,
                            "the peer's announcement of the addresses that it allows is not understood"
                        );
                    }
                }
            }
            if let Some(event) = reported.for_engine() {
                return Some(event);
            }
        }
    }

    fn send_out(&mut self, now: Instant) {
        self.datagrams.send(now, &mut self.streams.endpoint);
    }

    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        self.datagrams.next_timeout(now, self.streams.endpoint.next_timeout())
    }

    fn trim_memory(&mut self, now: Instant) {
        self.streams.endpoint.trim_memory(now);
    }

    fn give_back_memory(&mut self) {
        self.streams.endpoint.give_back_memory();
    }

    fn tick(&mut self, now: Instant) {
        self.streams.endpoint.set_unix_time(now, clock::unix_time());
        while let Some(stranger) = self.streams.endpoint.poll_stranger(now) {
            tell_of(&stranger);
        }
        self.streams.tick(now);
        if let Some(cross_traffic) = &mut self.cross_traffic {
            let rate = cross_traffic.update(now, self.streams.endpoint.stats().sent_ip_bytes);
            self.cross_traffic_bps = rate.as_bps();
            self.streams.endpoint.set_cross_traffic(now, rate, cross_traffic.total());
        }
        if self.next_judgement <= now {
            self.next_judgement = now + JUDGEMENT_PERIOD;
            self.judge_batches(now);
            self.look_at_paths(now);
            self.look_at_reports(now);
            self.log_overdue(now);
            self.look_at_capacity(now);
            self.datagrams.adjust_workers(now, &mut self.streams.endpoint);
        }
    }

    /// Sends what there is to say until half of the time is over, then that this gateway stops, until all peers have answered
    /// or could have.
    fn leave(&mut self, end: Instant) {
        let mut now = clock::now();
        let half_time = now + end.since(now) / 2;
        let mut closing = None;
        while closing.is_none_or(|until| now < until && !self.streams.endpoint.has_closed()) {
            self.take_in(now, 0);
            self.send_out(now);
            if closing.is_none() && now >= half_time {
                self.streams.endpoint.close(now);
                closing =
                    Some(now + self.streams.endpoint.close_timeout().clamp(end.since(half_time), LONGEST_FAREWELL));
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            now = clock::now();
            self.datagrams.retry();
        }
    }

    fn drain(&mut self, now: Instant) {
        self.streams.endpoint.drain(now);
    }

    fn unfinished(&self, now: Instant) -> usize {
        usize::from(!self.streams.endpoint.is_drained(now))
    }

    fn buffered(&self, stream: StreamId) -> Option<Buffered> {
        let stats = self.streams.endpoint.stream_stats(stream)?;
        Some(Buffered { send: stats.written - stats.acked, receive: stats.receive_buffered })
    }

    fn survey(&mut self, now: Instant, peer: usize, cap: Option<Rate>) -> Result<(), &'static str> {
        let rate = self.rate.unwrap_or_else(|| self.streams.endpoint.capacity());
        let rate = cap.map_or(rate, |cap| cap.min(rate));
        match self.streams.endpoint.survey(now, self.streams.id(peer), rate) {
            true => Ok(()),
            false => Err("the peer is not up, or another path is being measured"),
        }
    }
}

impl Membership for Satpep {
    fn reconfigure(&mut self, now: Instant, settings: &Settings) {
        self.reconfigure_capacity(now, &settings.link);
        self.datagrams.configure(settings.workers);
        self.streams.endpoint.set_outage_limit(settings.link.outage_limit.unwrap_or(OUTAGE_LIMIT));
        self.streams.endpoint.set_keepalive(settings.link.keepalive);
        self.streams.endpoint.set_receive_capacity(settings.link.receive_rate);
    }

    fn add_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        let Some(config) = peer_config(peer) else { return };
        match self.streams.endpoint.add_peer(now, config) {
            Ok(id) => {
                self.streams.put_peer(at, id);
                // The relays give places in order, and those of peers that were removed again.
                let record = PeerRecord::new(now, peer);
                if at == self.peers.len() { self.peers.push(record) } else { self.peers[at] = record }
            }
            Err(error) => tracing::error!(peer = peer.name, %error, "a defect: the peer could not be added"),
        }
    }

    fn change_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        self.peers[at].name.clone_from(&peer.name);
        self.peers[at].address = peer.address;
        let Some(config) = peer_config(peer) else { return };
        if let Err(error) = self.streams.endpoint.change_peer(now, self.streams.id(at), config) {
            tracing::error!(peer = peer.name, %error, "a defect: the peer could not be changed");
        }
    }

    fn remove_peer(&mut self, now: Instant, at: usize) {
        self.streams.remove_peer(now, at);
    }
}

impl Succession for Satpep {
    fn offer(&mut self, settings: &[(usize, &Peer)]) -> Result<TransportOffer, String> {
        self.datagrams.udp.share().map_err(|error| format!("the UDP port cannot be shared: {error}"))?;
        // The other process begins with what is known of the link now.
        self.remembered.write();
        let up = |&(at, peer): &(usize, &Peer)| {
            let id = self.streams.id(at);
            let is_up = self.streams.endpoint.peer_state(id) == PeerState::Up;
            is_up.then(|| Some((peer.public_key?.to_string(), self.streams.endpoint.peer_address(id)?))).flatten()
        };
        let up = settings.iter().filter_map(up).collect();
        Ok(TransportOffer { generation: self.run.generation(), up, listener: None })
    }

    fn note(&self, settings: &Settings, plan: &Plan) -> io::Result<()> {
        self.place.as_ref().map_or(Ok(()), |place| place.note(settings, plan))
    }

    fn end_offer(&mut self) {
        if let Err(error) = self.datagrams.udp.unshare() {
            tracing::warn!(%error, "the UDP port stays shared");
        }
    }

    fn hand_over(&mut self, _: Instant) -> Vec<u8> {
        self.leave_remembered();
        self.streams.leave_announcements();
        Vec::new()
    }
}

impl Reports for Satpep {
    fn send_limit_bps(&self) -> Option<u64> {
        Some(self.streams.endpoint.send_limit().as_bps())
    }

    fn cross_traffic_bps(&self) -> Option<u64> {
        self.cross_traffic.is_some().then_some(self.cross_traffic_bps)
    }

    fn capacity(&self, now: Instant) -> status::Capacity {
        self.capacity.report(&self.streams.endpoint.capacity_estimate(now), self.rate)
    }

    fn satellite(&self) -> status::Satellite {
        let stats = self.streams.endpoint.stats();
        status::Satellite {
            sent_packets: stats.sent_packets,
            sent_ip_bytes: stats.sent_ip_bytes,
            received_packets: stats.received_packets,
            received_ip_bytes: stats.received_ip_bytes,
            handshakes: stats.handshakes,
            violations: stats.violations,
            send_errors: self.datagrams.send_errors,
            workers: Some(self.datagrams.workers() as u64),
            memory: Some(memory(&self.streams.endpoint.memory_stats())),
            dropped: stats.dropped.by_reason().into_iter().map(|(reason, count)| (reason.into(), count)).collect(),
            ..status::Satellite::default()
        }
    }

    fn trouble(&self, _: Instant, peer: usize) -> Option<Trouble> {
        // A peer that drains has a session: nothing is to be mended.
        let has_session = self.streams.endpoint.peer_state(self.streams.id(peer)) == PeerState::Draining;
        if self.is_up(peer) || has_session { None } else { Some(self.trouble_of(peer)) }
    }

    fn path_delay(&self, now: Instant, at: usize) -> Option<PathDelay> {
        let stats = self.streams.endpoint.peer_stats(now, self.streams.id(at));
        Some(PathDelay { smoothed: stats.rtt?, min: stats.min_rtt? })
    }

    fn peer(&self, now: Instant, at: usize, settings: &Peer) -> status::Peer {
        let id = self.streams.id(at);
        let stats = self.streams.endpoint.peer_stats(now, id);
        status::Peer {
            name: settings.name.clone(),
            state: match self.streams.endpoint.peer_state(id) {
                PeerState::Connecting => status::PeerState::Connecting,
                PeerState::Up => status::PeerState::Up,
                PeerState::Unresponsive => status::PeerState::Unresponsive,
                PeerState::Draining => status::PeerState::Draining,
                PeerState::PathTooSmall => status::PeerState::PathTooSmall,
            },
            address: self.streams.endpoint.peer_address(id),
            rtt_s: stats.rtt.map(Duration::as_secs_f64),
            clock_offset_s: stats.clock.map(|skew| skew.as_nanos() as f64 / 1e9),
            mtu: stats.mtu,
            version: stats.version,
            cipher: stats.cipher,
            batches: Some(self.datagrams.udp.takes_batches() && !self.peers[at].batches.are_off()),
            survey: self.streams.endpoint.survey_report(id).map(Into::into),
            trouble: self.trouble(now, at),
            permits: self.allows(at).map(super::permits),
            streams: self.streams.connections(now, at),
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            sent_bytes: stats.sent_bytes,
            retransmitted_bytes: stats.retransmitted_bytes,
            repair_bytes: stats.repair_bytes,
            received_bytes: stats.received_bytes,
            congestion_received_packets: stats.congestion_received,
            congestion_reported_packets: stats.congestion_reported,
            implausible_reports: stats.implausible_reports,
            receive_buffered_bytes: stats.receive_buffered,
            send_buffered_bytes: stats.send_buffered,
        }
    }
}

impl Transport<HostSockets> for Satpep {
    type Stream = StreamId;

    fn is_up(&self, peer: usize) -> bool {
        self.streams.is_up(peer)
    }

    fn room(&self, peer: usize) -> (u64, u64) {
        self.streams.room(peer)
    }

    fn memory_left(&self, peer: usize) -> Option<(u64, u64)> {
        self.streams.memory_left(peer)
    }

    fn tell_reach(&mut self, now: Instant, peer: usize, reach: &Reach) {
        self.streams.tell_reach(now, peer, reach);
    }

    fn allows(&self, peer: usize) -> Option<&Reach> {
        self.streams.allows(peer)
    }

    fn open(&mut self, now: Instant, peer: usize, request: &ConnectRequest, class: Option<&Class>) -> Option<StreamId> {
        self.streams.open(now, peer, request, class)
    }

    fn classify(&mut self, now: Instant, stream: StreamId, class: &Class) {
        self.streams.endpoint.set_class(now, stream, &class.settings);
    }

    fn read_request(&mut self, now: Instant, stream: StreamId) -> ReceivedRequest {
        self.streams.read_request(now, stream)
    }

    fn read_reply(&mut self, now: Instant, stream: StreamId) -> ConnectReply {
        self.streams.read_reply(now, stream)
    }

    fn reply(&mut self, now: Instant, stream: StreamId) {
        self.streams.reply(now, stream);
    }

    fn finish(&mut self, now: Instant, stream: StreamId) {
        self.streams.endpoint.finish(now, stream);
    }

    fn reset(&mut self, now: Instant, stream: StreamId, reason: ResetReason) {
        self.streams.endpoint.reset(now, stream, reason);
    }

    fn reset_behind_data(&mut self, now: Instant, stream: StreamId) {
        self.streams.endpoint.reset_behind_data(now, stream, ResetReason::Aborted);
    }

    fn undelivered(&self, stream: StreamId) -> Option<u64> {
        self.streams.endpoint.undelivered(stream)
    }

    fn unacknowledged(&self, stream: StreamId) -> u64 {
        self.streams.endpoint.unacknowledged(stream)
    }

    fn takes_data(&self, stream: StreamId) -> bool {
        self.streams.endpoint.takes_data(stream)
    }

    fn forget(&mut self, stream: StreamId) {
        self.streams.forget(stream);
    }

    /// One read from TCP straight into the stream's send buffer.
    fn send(&mut self, now: Instant, stream: StreamId, _: &mut HostSockets, tcp: &mut Tcp) -> (u64, Progress) {
        let (true, Some(mut socket)) = (tcp.readable, tcp.socket.as_ref()) else {
            return (0, Progress::Blocked);
        };
        let mut offered = 0;
        let result = self.streams.endpoint.write_with(now, stream, |spaces| {
            offered = spaces.iter().map(|space| space.len()).sum();
            if offered == 0 { Ok(0) } else { socket.read_vectored(spaces) }
        });
        match result {
            // No room: `Writable` will tell.
            Ok(0) if offered == 0 => (0, Progress::Blocked),
            Ok(0) => (0, Progress::Ended),
            Ok(count) => {
                // A short read has emptied the socket, unless it stopped at urgent data; what comes later, the end included,
                // raises a new event.
                tcp.readable = count == offered || tcp.read_closed || tcp.urgent;
                (count as u64, if tcp.readable { Progress::More } else { Progress::Blocked })
            }
            Err(error) => (0, tcp.read_failed(&error)),
        }
    }

    /// One write to TCP of what the stream offers.
    fn receive(&mut self, now: Instant, stream: StreamId, _: &mut HostSockets, tcp: &mut Tcp) -> (u64, Progress) {
        let (true, Some(mut socket)) = (tcp.writable, tcp.socket.as_ref()) else {
            return (0, Progress::Blocked);
        };
        let mut slices = [IoSlice::new(&[]); SLICES];
        let filled = self.streams.endpoint.readable(stream, &mut slices);
        if filled == 0 {
            let ended = self.streams.endpoint.is_read_finished(stream);
            return (0, if ended { Progress::Ended } else { Progress::Blocked });
        }
        let offered: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        match socket.write_vectored(&slices[..filled]) {
            Ok(count) => {
                self.streams.endpoint.consume(now, stream, count);
                // A short write has filled the socket.
                tcp.writable = count == offered;
                (count as u64, if tcp.writable { Progress::More } else { Progress::Blocked })
            }
            Err(error) => (0, tcp.write_failed(&error)),
        }
    }

    fn number(&self, stream: StreamId) -> u64 {
        stream.number()
    }
}

/// How long connections survive an outage by default.
const OUTAGE_LIMIT: Duration = Duration::from_secs(600);

/// The key by which a peer is remembered.
fn key_of(peer: &Peer) -> String {
    peer.public_key.map(|key| key.to_string()).unwrap_or_default()
}

/// The transport's settings of a peer; `None` if there is no far gateway.
fn peer_config(peer: &Peer) -> Option<PeerConfig> {
    let &Peer { public_key, address, weight, cap, .. } = peer;
    Some(PeerConfig { public_key: public_key?, address, weight, cap })
}

/// Logs handshakes by keys of no peer.
fn tell_of(stranger: &satpep::Stranger) {
    let satpep::Stranger { from, handshakes, .. } = stranger;
    match stranger.fault {
        StrangerFault::UnknownKey(key) => tracing::warn!(
            %from, handshakes, "handshake by the unknown key {key}: if it is a peer's, put it into that [[peer]]'s public_key"
        ),
        StrangerFault::OtherResponderKey => tracing::warn!(
            %from, handshakes, "handshake for another public key than this gateway's: check this gateway's public_key in its [[peer]]"
        ),
        StrangerFault::OtherVersions(theirs) => tracing::warn!(
            %from, handshakes, "handshake of version {theirs} of the protocol: {}",
            crate::trouble::remedy(Versions::SPOKEN, theirs)
        ),
        _ => tracing::warn!(%from, handshakes, "handshake of a stranger"),
    }
}

fn memory(stats: &MemoryStats) -> status::Memory {
    status::Memory {
        limit_bytes: stats.limit,
        granted_bytes: stats.granted,
        send_buffered_bytes: stats.send_buffered,
        repair_bytes: stats.repair,
    }
}

/// Between handshakes with peers that a process before this one had.
const HANDSHAKE_SPACING: Duration = Duration::from_millis(2);

/// Begins handshakes with the peers that were up with the process before this one, where they were.
fn initiate(
    endpoint: &mut Endpoint,
    now: Instant,
    settings: &Settings,
    ids: &[PeerId],
    places: &[(String, SocketAddr)],
) {
    let known: HashMap<String, PeerId> =
        settings.peers.iter().zip(ids).filter_map(|(peer, id)| Some((peer.public_key?.to_string(), *id))).collect();
    for (index, (key, address)) in places.iter().enumerate() {
        if let Some(id) = known.get(key) {
            endpoint.initiate(now + HANDSHAKE_SPACING * index as u64, *id, *address);
        }
    }
}

/// What the configuration says of the capacity.
fn prior_of(link: &Link) -> Prior {
    link.rate.map_or(Prior::None, |rate| link.rate_confidence.prior(rate))
}

fn endpoint(
    settings: &Settings,
    run: Run,
    now: Instant,
    before: Option<Prior>,
) -> Result<(Endpoint, Vec<PeerId>), StartError> {
    let link = &settings.link;
    let rate = link.nominal_rate();
    let mut config = EndpointConfig::new(settings.private_key.clone(), rate, link.receive_rate, link.rtt);
    config.run = run;
    config.mode = settings.mode;
    config.cipher = settings.cipher;
    config.export_keys = settings.debug.key_log.is_some();
    config.trace = settings.debug.qlog.is_some();
    config.mtu = link.mtu;
    config.capacity_is_fixed = link.capacity == CapacityMode::Fixed;
    config.prior = Some(prior_of(link));
    config.remembered = before;
    config.ceiling = link.ceiling;
    config.cross_traffic = link.cross_traffic;
    config.receive_memory = link.receive_memory;
    config.keepalive = link.keepalive;
    config.memory = Some(settings.memory);
    config.outage_limit = link.outage_limit.unwrap_or(OUTAGE_LIMIT);
    config.max_streams = link.max_streams.unwrap_or(config.max_streams);
    config.repair = link.repair.unwrap_or(config.repair);
    config.repair_overhead = link.repair_overhead.unwrap_or(config.repair_overhead);
    let mut endpoint = Endpoint::new(config, now, clock::unix_time(), seed()?);
    let mut peers = Vec::new();
    for peer in &settings.peers {
        let Some(config) = peer_config(peer) else {
            let name = &peer.name;
            return Err(while_doing(format!("peer {name}"))(io::Error::other("this transport needs a far gateway")));
        };
        let id =
            endpoint.add_peer(now, config).map_err(|source| StartError::Peer { name: peer.name.clone(), source })?;
        peers.push(id);
    }
    Ok((endpoint, peers))
}
