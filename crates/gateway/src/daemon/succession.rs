//! One process after the other: what the event loop does when it hands its work over, and when it takes over another's.

use super::Daemon;
use crate::config::Peer;
use crate::drain::Drain;
use crate::relays::Relays;
use crate::takeover;
use crate::takeover::beside::Beside;
use crate::takeover::offer::Offer;
use crate::takeover::successor::{PeerIdentity, Successor};
use crate::transport::SatelliteTransport;
use ipnet::IpNet;
use mio::unix::SourceFd;
use relay::engine::Intercepted;
use relay::reach::intersection;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use units::{Duration, Instant};

/// How long a process that has taken over waits for the peers, beside round trips.
const PATIENCE: Duration = Duration::from_secs(2);
/// Round trips that it waits: an init and its answer, once more after a loss.
const ROUND_TRIPS: u64 = 4;

/// A process that has taken over and waits for the peers that the other one had: clients wait in the listeners' queues.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) until: Instant,
    /// The places of the peers.
    peers: BTreeSet<usize>,
    /// What the other process intercepted, if it is of a version that says so.
    before: Option<Vec<Intercepted>>,
}

impl Joining {
    pub(super) fn new<T: SatelliteTransport>(now: Instant, rtt: Duration, offer: &Offer, relays: &Relays<T>) -> Self {
        let offered: BTreeSet<&str> = offer.peers.iter().map(|(key, _)| &**key).collect();
        let is_offered = |peer: &Peer| peer.public_key.is_some_and(|key| offered.contains(key.to_string().as_str()));
        let peers = relays.peers().iter().filter(|(_, peer)| is_offered(peer)).map(|(at, _)| at).collect();
        Self { until: now + patience(rtt), peers, before: offer.intercepted.clone() }
    }

    /// What is intercepted meanwhile: what the other process had, as far as it is still to be. What the peers allow is not known yet.
    pub(super) fn accelerated<T: SatelliteTransport>(&self, relays: &mut Relays<T>) -> Vec<Intercepted> {
        let invites = |transport: &T, at| self.peers.contains(&at) || transport.invites(at);
        let routes = relays.engine.intercepted_by(invites);
        match &self.before {
            None => routes,
            Some(before) => still_routed(before, &routes),
        }
    }
}

/// What of `before` is among `routes`.
fn still_routed(before: &[Intercepted], routes: &[Intercepted]) -> Vec<Intercepted> {
    let servers: Vec<IpNet> = routes.iter().flat_map(|group| &group.servers).copied().collect();
    let within = |group: &Intercepted| Intercepted {
        clients: group.clients.clone(),
        servers: intersection(&group.servers, &servers),
    };
    before.iter().map(within).filter(|group| !group.servers.is_empty()).collect()
}

fn patience(rtt: Duration) -> Duration {
    PATIENCE + rtt * ROUND_TRIPS
}

/// A process that has handed over.
#[derive(Debug)]
pub(super) struct HandedOver {
    /// The peers are then notified that this process takes no more connections: by then they have a session with the other.
    tell_at: Option<Instant>,
    successor: Successor,
}

impl<T: SatelliteTransport> Daemon<T> {
    /// What another process may take over.
    pub(super) fn offer(&mut self) -> Result<(Offer, Vec<OwnedFd>), String> {
        if self.drain.is_some() || self.handed_over.is_some() {
            return Err("the running gateway drains".into());
        }
        if self.joining.is_some() {
            return Err("the running gateway has only just begun: try again".into());
        }
        // Noticed after the offer, its end would end that.
        self.forget_ended_predecessor();
        let old = self.predecessor.as_ref().map(|predecessor| predecessor.pid);
        let old = old.or_else(|| self.old_process.as_ref().map(|old| old.pid));
        if let Some(pid) = old {
            return Err(format!(
                "process {pid}, which was before the running one, still finishes its connections: wait, or end it with SIGTERM"
            ));
        }
        let clone = |listener: &socket2::Socket| listener.try_clone().map(OwnedFd::from);
        let listeners = self.listeners.iter().map(clone).collect::<Result<Vec<_>, _>>();
        let listeners = listeners.map_err(|error| format!("the listeners cannot be handed over: {error}"))?;
        let transport = self.relays.offer()?;
        let offer = Offer::new(&self.settings, self.relays.engine.intercepted(), &transport);
        Ok((offer, listeners.into_iter().chain(transport.listener).collect()))
    }

    /// Leaves to another process what there can be only once, and finishes the connections that there are. Returns what
    /// the transport leaves to it.
    pub(super) fn hand_over(&mut self, now: Instant, stream: UnixStream) -> Vec<u8> {
        // Those whose SYN was let go are theirs who hold the stream.
        self.accept(now);
        for listener in std::mem::take(&mut self.listeners) {
            // The other process has the same socket, so that closing it here would not end its watch.
            let _ = self.poll.registry().deregister(&mut SourceFd(&listener.as_raw_fd()));
        }
        self.accepting = false;
        self.relays.leave_held_syns(now);
        if let Some(steering) = &self.steering {
            // The counters begin again with the other process's rules.
            steering.count();
            steering.release();
        }
        if let Some(control) = &mut self.control {
            control.disown();
        }
        self.services.clear();
        self.updates.stop();
        let rtt = self.settings.link.rtt;
        self.drain = Some(Drain::new(now, patience(rtt), None));
        self.handed_over = Some(HandedOver { tell_at: Some(now + patience(rtt)), successor: Successor::new(stream) });
        tracing::info!(
            connections = self.relays.count(),
            "another process has taken over; this one ends with its last connection"
        );
        self.relays.transport_mut().hand_over(now)
    }

    /// Leaves the rules to the process that goes on, of two that one hand-over has made; takes them back, to remove them, if the other has
    /// ended and none has been started since.
    pub(super) fn settle_rules(&mut self) {
        let takes_back = match &mut self.handed_over {
            Some(handed_over) => handed_over.successor.has_ended_first() && !takeover::is_running(&self.settings),
            None => false,
        };
        let before = if self.handed_over.is_none() { self.process_before() } else { None };
        let Some(steering) = &self.steering else { return };
        if takes_back {
            steering.reclaim();
        }
        if let Some(pid) = before {
            tracing::info!(
                pid,
                "the process before this one still finishes its connections: it removes the rules when it ends"
            );
            steering.release();
        }
    }

    /// The process before this one, if it outlives this one and removes the rules.
    fn process_before(&mut self) -> Option<u32> {
        match &mut self.predecessor {
            Some(predecessor) => predecessor.outlives_this().then_some(predecessor.pid),
            None => self.old_process.as_ref().filter(|old| !old.has_ended()).map(|old| old.pid),
        }
    }

    /// Begins to take connections once the peers are up, or have had time for it.
    pub(super) fn join(&mut self, now: Instant) {
        let Some(joining) = &self.joining else { return };
        if now < joining.until && !joining.peers.iter().all(|at| self.relays.transport().invites(*at)) {
            return;
        }
        self.joining = None;
        self.accepting = true;
        self.intercept(now);
        tracing::info!("new connections are taken over");
    }

    /// Notices the end of the process before this one: the UDP port that the two shared is this one's alone.
    fn forget_ended_predecessor(&mut self) {
        let predecessor = self.predecessor.take_if(|predecessor| predecessor.has_ended());
        let old_process = self.old_process.take_if(|old| old.has_ended());
        if predecessor.is_some() || old_process.is_some() {
            tracing::info!("the process before this one has ended");
            Beside::forget(&self.settings);
            self.relays.transport_mut().end_offer();
        }
    }

    /// Does what the hand-over asks for by time.
    pub(super) fn look_at_other_process(&mut self, now: Instant) {
        self.forget_ended_predecessor();
        if let Some(predecessor) = &mut self.predecessor {
            predecessor.send_rest();
        }
        let Some(handed_over) = &mut self.handed_over else { return };
        if handed_over.tell_at.take_if(|at| *at <= now).is_some() {
            self.relays.transport_mut().drain(now);
        }
        if let Some(peers) = handed_over.successor.take_peers() {
            self.keep_peers(now, &peers.into_iter().collect());
        }
    }

    /// Resets the connections of peers that the process which has taken over does not have: an operator has removed them.
    fn keep_peers(&mut self, now: Instant, kept: &BTreeSet<PeerIdentity>) {
        let is_kept = |peer: &Peer| kept.contains(&PeerIdentity::of(peer));
        let removed: Vec<&Peer> = self.settings.peers.iter().filter(|peer| !is_kept(peer)).collect();
        if removed.is_empty() {
            return;
        }
        for peer in removed {
            tracing::info!(peer = peer.name, "the peer is removed: its connections are reset");
        }
        let mut settings = self.settings.clone();
        settings.retain_peers(is_kept);
        self.relays.reconfigure(now, &settings);
        self.settings = settings;
    }
}
