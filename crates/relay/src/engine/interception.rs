//! Which new connections are relayed now: those whose peer is up, lets them through and has room for them. All others go end to end.

use super::{Engine, Hosts, Notice, Transport};
use crate::connect::ConnectRequest;
use crate::reach::{Reach, intersection};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use units::Instant;

/// Connections to intercept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intercepted {
    /// Where the clients are; everywhere if empty.
    pub clients: Vec<IpNet>,
    /// Where the servers are.
    pub servers: Vec<IpNet>,
}

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// Tells every peer what it may use here.
    pub fn tell_reach(&mut self, now: Instant) {
        self.is_told_short = self.is_short();
        self.places().into_iter().for_each(|at| self.tell_reach_to(now, at));
    }

    /// Tells peer `at` what it may use here: nothing while there is no room, or no memory for what it sends, so that its new
    /// connections go end to end.
    pub(super) fn tell_reach_to(&mut self, now: Instant, at: usize) {
        let peer = &self.peers[at];
        let reach = if self.is_told_short || peer.is_out_of_memory { Reach::default() } else { peer.policy.reach() };
        self.transport.tell_reach(now, at, &reach);
    }

    /// Whether [`Engine::intercepted`] may have changed since the last call.
    pub fn interception_changed(&mut self) -> bool {
        std::mem::take(&mut self.interception_changed)
    }

    /// Whether the connection `request`, which begins now, is relayed. Agrees with [`Engine::intercepted`], the bypass rules apart,
    /// which an adapter with a packet filter gives to that.
    pub fn intercepts(&self, request: &ConnectRequest) -> bool {
        let is_bypassed = || self.settings.bypass.iter().any(|rule| rule.hold_for(request));
        if self.is_short() || !request.can_be_made() || is_bypassed() {
            return false;
        }
        let takes = |at: usize| self.transport.invites(at) && self.peers[at].has_room();
        let Some(at) = self.settings.routes.peer_of(request.destination.ip()).filter(|at| takes(*at)) else {
            return false;
        };
        let permit = |reach: &Reach| {
            reach.sources.permit(request.source.ip()) && reach.destinations.permit(request.destination.ip())
        };
        self.transport.allows(at).is_none_or(permit)
    }

    /// The connections to intercept.
    pub fn intercepted(&mut self) -> Vec<Intercepted> {
        self.intercepted_by(|transport, at| transport.invites(at))
    }

    /// The connections to intercept, were the peers for which (by place) `invites` holds those that take connections.
    pub fn intercepted_by(&mut self, invites: impl Fn(&T, usize) -> bool) -> Vec<Intercepted> {
        let mut groups: Vec<Intercepted> = Vec::new();
        if self.is_short() {
            return groups;
        }
        for at in self.places() {
            if !invites(&self.transport, at) || !self.peers[at].has_room() {
                continue;
            }
            self.notice_limits(at);
            let Open { clients: Some(clients), servers, .. } = self.open_to(at) else { continue };
            if servers.is_empty() {
                continue;
            }
            match groups.iter_mut().find(|group| group.clients == *clients) {
                Some(group) => group.servers.extend(servers),
                None => groups.push(Intercepted { clients: clients.clone(), servers: servers.clone() }),
            }
        }
        for group in &mut groups {
            group.servers = IpNet::aggregate(&group.servers);
        }
        groups
    }

    /// What peer `at` lets through of its routes: worked out when that or the routes change.
    fn open_to(&mut self, at: usize) -> &Open {
        let allows = self.transport.allows(at);
        let routes = &self.settings.routes;
        let open = self.peers[at].open.take().filter(|open| open.reach.as_ref() == allows);
        self.peers[at].open.insert(open.unwrap_or_else(|| {
            let servers = routes.intercepted(|peer| peer == at);
            let (clients, servers) = match allows {
                None => (Some(Vec::new()), servers),
                Some(reach) => (clients(reach), intersection(&servers, reach.destinations.prefixes())),
            };
            Open { reach: allows.cloned(), clients, servers }
        }))
    }

    /// Says once which of a peer's routes it does not let through.
    fn notice_limits(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let Some(reach) = self.transport.allows(at) else { return };
        if peer.noticed.as_ref() == Some(reach) {
            return;
        }
        peer.noticed = Some(reach.clone());
        if *reach == Reach::default() {
            peer.is_limited = true;
            self.notices.push_back(Notice::PeerTakesNone(at));
            return;
        }
        let (allowed, sources) = (reach.destinations.prefixes(), reach.sources.prefixes());
        let is_of = |prefix: &IpNet, other: &IpNet| matches!(prefix, IpNet::V4(_)) == matches!(other, IpNet::V4(_));
        let is_closed = |route: &&IpNet| {
            !sources.iter().any(|source| is_of(source, route)) || intersection(&[route.trunc()], allowed).is_empty()
        };
        let destinations: Vec<_> = peer.settings.routes.iter().filter(is_closed).copied().collect();
        let was_limited = std::mem::replace(&mut peer.is_limited, !destinations.is_empty());
        if !destinations.is_empty() {
            self.notices.push_back(Notice::RoutesClosed { peer: at, destinations });
        } else if was_limited {
            self.notices.push_back(Notice::RoutesOpen(at));
        }
    }
}

/// What a peer lets through of its routes.
#[derive(Debug)]
pub(super) struct Open {
    /// What it allows, from which this follows.
    reach: Option<Reach>,
    /// Where clients may be: an empty list stands for everywhere, none for nowhere.
    clients: Option<Vec<IpNet>>,
    servers: Vec<IpNet>,
}

impl<C> super::Peer<C> {
    /// Whether it has streams, memory and patience for new connections.
    fn has_room(&self) -> bool {
        !(self.is_full || self.is_late || self.is_out_of_memory)
    }
}

/// As [`Open::clients`].
fn clients(reach: &Reach) -> Option<Vec<IpNet>> {
    let prefixes = reach.sources.prefixes();
    let is_everything = |prefix: &&IpNet| prefix.prefix_len() == 0;
    match prefixes.iter().filter(is_everything).count() {
        2 => Some(Vec::new()),
        _ => Some(prefixes.to_vec()).filter(|prefixes| !prefixes.is_empty()),
    }
}
