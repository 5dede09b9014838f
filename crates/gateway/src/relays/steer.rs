//! Which connections are intercepted now: those whose peer is up, lets them through and has room for them.

use super::Relays;
use crate::leg::Leg;
use crate::rules::Accelerated;
use ipnet::IpNet;
use relay::reach::{Reach, intersection};
use units::Instant;

/// Of all streams, one part in so many is kept back for connections that are on their way when interception ends.
const KEPT_BACK: u64 = 16;
impl<L: Leg> Relays<L> {
    /// Tells every peer what it may use here.
    pub(crate) fn tell_reach(&mut self, now: Instant) {
        self.is_told_short = self.is_short();
        self.places().into_iter().for_each(|at| self.tell_reach_to(now, at));
    }

    /// Tells peer `at` what it may use here: nothing while there are no descriptors, or no memory for what it sends, so that its new
    /// connections go end to end.
    pub(super) fn tell_reach_to(&mut self, now: Instant, at: usize) {
        let peer = &self.peers[at];
        let reach = if self.is_told_short || peer.is_out_of_memory { Reach::default() } else { peer.policy.reach() };
        self.leg.tell_reach(now, at, &reach);
    }

    /// The connections to intercept.
    pub(crate) fn intercepted(&mut self) -> Vec<Accelerated> {
        self.intercepted_by(|leg, at| leg.invites(at))
    }

    /// The connections to intercept, were the peers for which (by place) `invites` holds those that take connections.
    pub(crate) fn intercepted_by(&mut self, invites: impl Fn(&L, usize) -> bool) -> Vec<Accelerated> {
        let mut groups: Vec<Accelerated> = Vec::new();
        if self.is_short() {
            return groups;
        }
        for at in self.places() {
            let peer = &self.peers[at];
            if !invites(&self.leg, at) || peer.is_full || peer.is_late || peer.is_out_of_memory {
                continue;
            }
            let servers = self.routes.intercepted(|peer| peer == at);
            let (clients, servers) = match self.leg.allows(at) {
                None => (Some(Vec::new()), servers),
                Some(reach) => (clients(reach), intersection(&servers, &reach.destinations.prefixes())),
            };
            self.warn_of_limits(at);
            let (Some(clients), false) = (clients, servers.is_empty()) else { continue };
            match groups.iter_mut().find(|group| group.clients == clients) {
                Some(group) => group.servers.extend(servers),
                None => groups.push(Accelerated { clients, servers }),
            }
        }
        for group in &mut groups {
            group.servers = IpNet::aggregate(&group.servers);
        }
        groups
    }

    /// The places of all peers.
    pub(super) fn places(&self) -> Vec<usize> {
        self.peers.iter().map(|(at, _)| at).collect()
    }

    /// Says once which of a peer's routes it does not let through.
    fn warn_of_limits(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let Some(reach) = self.leg.allows(at) else { return };
        if peer.warned_of.as_ref() == Some(reach) {
            return;
        }
        if *reach == Reach::default() {
            tracing::warn!(
                peer = peer.settings.name,
                "the peer takes no connections, as it may for want of descriptors or memory: new ones go end to end until it does"
            );
            peer.warned_of = Some(reach.clone());
            return;
        }
        let allowed = reach.destinations.prefixes();
        let sources = reach.sources.prefixes();
        let is_of = |prefix: &IpNet, other: &IpNet| matches!(prefix, IpNet::V4(_)) == matches!(other, IpNet::V4(_));
        let is_closed = |route: &&IpNet| {
            !sources.iter().any(|source| is_of(source, route)) || intersection(&[route.trunc()], &allowed).is_empty()
        };
        let closed: Vec<_> = peer.settings.routes.iter().filter(is_closed).map(ToString::to_string).collect();
        if !closed.is_empty() {
            tracing::warn!(
                peer = peer.settings.name,
                destinations = closed.join(", "),
                "the peer lets nothing through to some of its routes, so that connections there go end to end: its \
                 allow_sources and allow_destinations for this gateway say what it lets through"
            );
        }
        peer.warned_of = Some(reach.clone());
    }

    /// Whether what is intercepted has to be looked at again.
    pub(crate) fn must_steer(&mut self) -> bool {
        std::mem::take(&mut self.must_steer)
    }

    /// The streams through peer `at` have become more or fewer: without room for more, new connections go end to end.
    pub(super) fn look_at_room(&mut self, at: usize) {
        // The last connections of a peer that is removed go first.
        if !self.peers.contains(at) {
            return;
        }
        let (free, most) = self.leg.room(at);
        // Where there are few, one for the client that comes before the firewall knows; where there is one, none.
        let kept_back = (most / KEPT_BACK).max(u64::from(most > 3));
        let peer = &mut self.peers[at];
        let is_full = if peer.is_full { free <= 2 * kept_back } else { free <= kept_back };
        if is_full == peer.is_full || most == 0 {
            return;
        }
        peer.is_full = is_full;
        self.must_steer = true;
        let peer = &peer.settings.name;
        if is_full {
            tracing::warn!(peer, most, "nearly as many connections as may be: new ones go end to end");
        } else {
            tracing::info!(peer, "there is room for connections again");
        }
    }

    /// Looks again at what is full, and who waits: the leg has streams of its own, too.
    pub(crate) fn look_at_limits(&mut self, now: Instant) {
        self.wake_waiting();
        for at in self.places() {
            self.look_at_queue(now, at);
            self.look_at_memory(now, at);
            if self.peers[at].is_full {
                self.look_at_room(at);
            }
        }
    }
}

/// Where clients may be: an empty list stands for everywhere, none for nowhere.
fn clients(reach: &Reach) -> Option<Vec<IpNet>> {
    let prefixes = reach.sources.prefixes();
    let is_everything = |prefix: &&IpNet| prefix.prefix_len() == 0;
    match prefixes.iter().filter(is_everything).count() {
        2 => Some(Vec::new()),
        _ => Some(prefixes).filter(|prefixes| !prefixes.is_empty()),
    }
}
