//! What the log says of relayed connections.

use super::Relays;
use super::log_limit::{LogLimit, ShortageLimit};
use crate::connection_log::{ConnectionEntry, Entry, Names};
use crate::transport::SatelliteTransport;
use relay::engine::{EndCause, Ended, Notice};
use std::collections::HashMap;
use std::time::SystemTime;
use units::Instant;

/// Limits of what peers may put in the log.
#[derive(Debug, Default)]
pub(super) struct LogLimits {
    /// Of each request, by place of the peer.
    requests: HashMap<usize, RequestLimits>,
    /// Of shortages that come and go, by their kind and peer.
    shortages: HashMap<(Shortage, Option<usize>), ShortageLimit<Notice>>,
}

impl LogLimits {
    /// The peer at place `at` is removed: what was withheld about it is not to be logged about the next one there.
    pub(super) fn forget(&mut self, at: usize) {
        self.requests.remove(&at);
        self.shortages.retain(|(_, peer), _| *peer != Some(at));
    }

    /// What is to be logged at `now` for `notice` of a shortage of this kind, with this peer, that begins or ends.
    fn shortage(
        &mut self,
        now: Instant,
        notice: Notice,
        (kind, peer, begins): (Shortage, Option<usize>, bool),
    ) -> Option<Notice> {
        let limit = self.shortages.entry((kind, peer)).or_default();
        if begins { limit.begin(now, notice) } else { limit.end(notice) }
    }

    /// Shortages that were withheld and still last, once it is time.
    fn overdue(&mut self, now: Instant) -> Vec<Notice> {
        self.shortages.values_mut().filter_map(|limit| limit.overdue(now)).collect()
    }
}

/// Limits of what each request of a peer may put in the log.
#[derive(Debug, Default)]
struct RequestLimits {
    denied: LogLimit,
    bad: LogLimit,
}

/// What may run short, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shortage {
    Streams,
    Turns,
    Memory,
    Room,
    Reach,
}

/// Of which kind the shortage is that `notice` is about, with which peer, and whether it begins.
fn shortage(notice: &Notice) -> Option<(Shortage, Option<usize>, bool)> {
    Some(match *notice {
        Notice::StreamsShort { peer, .. } => (Shortage::Streams, Some(peer), true),
        Notice::StreamsAgain(peer) => (Shortage::Streams, Some(peer), false),
        Notice::ClientsWait { peer, .. } => (Shortage::Turns, Some(peer), true),
        Notice::ClientsServed(peer) => (Shortage::Turns, Some(peer), false),
        Notice::MemoryShort { peer, .. } => (Shortage::Memory, Some(peer), true),
        Notice::MemoryAgain(peer) => (Shortage::Memory, Some(peer), false),
        Notice::PeerTakesNone(peer) | Notice::RoutesClosed { peer, .. } => (Shortage::Reach, Some(peer), true),
        Notice::RoutesOpen(peer) => (Shortage::Reach, Some(peer), false),
        Notice::RoomShort { .. } => (Shortage::Room, None, true),
        Notice::RoomAgain => (Shortage::Room, None, false),
        _ => return None,
    })
}

impl<T: SatelliteTransport> Relays<T> {
    /// Logs what has happened by `now`.
    pub(crate) fn log(&mut self, now: Instant) {
        while let Some(notice) = self.engine.poll_notice() {
            self.look_for_answers(now, &notice);
            match notice {
                Notice::BadRequest { .. } | Notice::Denied { .. } => self.log_request(now, notice),
                // Nobody's connections go there from here.
                Notice::RoutesClosed { .. } if !self.intercepts => {}
                _ => match shortage(&notice) {
                    Some(shortage) => {
                        tracing::debug!(?notice, "shortage");
                        let due = self.log_limits.shortage(now, notice, shortage);
                        due.into_iter().for_each(|notice| self.log_shortage(notice));
                    }
                    None => self.log_one(notice),
                },
            }
        }
        self.log_limits.overdue(now).into_iter().for_each(|notice| self.log_shortage(notice));
    }

    /// Warns if no server answers connections that are made in clients' names.
    fn look_for_answers(&mut self, now: Instant, notice: &Notice) {
        let Notice::Closed(ended) = notice else { return };
        let is_in_clients_name = self.peers.get(ended.peer).is_some_and(|peer| peer.connect_as_client);
        if ended.is_near || ended.cause != EndCause::TimedOut || !is_in_clients_name {
            return;
        }
        let connected = self.engine.counters.connected;
        if let Some(connections) = self.unanswered.count(now, connected, ended.request.destination.ip()) {
            tracing::warn!(
                connections,
                "servers do not answer connections from clients' addresses: return traffic must pass this gateway, or set \
                 connect_from = \"gateway\" for the peer"
            );
        }
    }

    /// Logs a request that is refused, but not each of a peer that sends many.
    fn log_request(&mut self, now: Instant, notice: Notice) {
        let name = |at: usize| self.peers.get(at).map_or("removed", |peer| &*peer.name);
        match notice {
            Notice::BadRequest { peer, error } => {
                match self.log_limits.requests.entry(peer).or_default().bad.admit(now) {
                    Some(not_logged) => tracing::warn!(peer = name(peer), %error, not_logged, "not a connect request"),
                    None => tracing::debug!(peer = name(peer), %error, "not a connect request"),
                }
            }
            Notice::Denied { peer, request, denial } => {
                let (peer, admitted) =
                    (name(peer), self.log_limits.requests.entry(peer).or_default().denied.admit(now));
                let (client, destination) = (request.source, request.destination);
                match admitted {
                    Some(not_logged) => tracing::warn!(peer, %client, %destination, %denial, not_logged, "denied"),
                    None => tracing::debug!(peer, %client, %destination, %denial, "denied"),
                }
            }
            // The others are no refusals.
            _ => {}
        }
    }

    fn log_one(&self, notice: Notice) {
        let name = |at: usize| self.peers.get(at).map_or("removed", |peer| &*peer.name);
        match notice {
            Notice::Transition { request, from, event, to, .. } => {
                let client = request.map(|request| request.source.to_string());
                tracing::trace!(client, %from, ?event, %to, "transition");
            }
            Notice::Accepted { request, peer } => {
                tracing::debug!(client = %request.source, destination = %request.destination, peer = name(peer), "accepted");
            }
            Notice::Unavailable { request, peer, waited } => {
                if let Some(log) = &self.connection_log {
                    let names = Names { peer: peer.map(name), class: self.class_name(&request) };
                    let entry = ConnectionEntry::unavailable(&request, waited, SystemTime::now(), names);
                    log.record(Entry::Connection(Box::new(entry)));
                }
                tracing::debug!(client = %request.source, destination = %request.destination, %waited, "unavailable: no peer, or no stream in time");
            }
            Notice::Closed(ended) => {
                if let Some(log) = &self.connection_log {
                    log.record(self.entry(&ended));
                }
                let Ended { request, from_tcp, to_tcp, cause, .. } = ended;
                let ended = cause.name();
                tracing::debug!(client = %request.source, destination = %request.destination, from_tcp, to_tcp, ended, "closed");
            }
            Notice::ResetByPeer { stream, reason } => tracing::debug!(stream, %reason, "reset by the peer"),
            Notice::StreamFailed(request, reason) => tracing::debug!(?request, %reason, "the stream has failed"),
            Notice::NotConnected(request, reason) => tracing::debug!(?request, %reason, "no connection to the server"),
            Notice::HostVanished(request) => tracing::debug!(?request, "the host has vanished"),
            Notice::Defect(unexpected) => tracing::error!(%unexpected, "a defect: the connection is reset"),
            shortage => self.log_shortage(shortage),
        }
    }

    /// The line of the connection log for a connection that has just ended.
    fn entry(&self, ended: &Ended) -> Entry {
        let peer = Some(self.peers.get(ended.peer).map_or("removed", |peer| &*peer.name));
        let class = &self.engine.class_accounts()[ended.class].name;
        let rtt = self.transport().path_delay(ended.at, ended.peer).map(|delay| delay.smoothed);
        Entry::Connection(Box::new(ConnectionEntry::new(ended, SystemTime::now(), Names { peer, class }, rtt)))
    }

    /// Logs what new connections go end to end for, and when they no longer do.
    fn log_shortage(&self, notice: Notice) {
        let name = |at: usize| self.peers.get(at).map_or("removed", |peer| &*peer.name);
        match notice {
            Notice::StreamsShort { peer, most } => {
                tracing::warn!(peer = name(peer), most, "nearly as many connections as may be: new ones go end to end");
            }
            Notice::StreamsAgain(peer) => tracing::info!(peer = name(peer), "there is room for connections again"),
            Notice::ClientsWait { peer, waiting } => tracing::warn!(
                peer = name(peer),
                waiting,
                "clients wait for a connection across the satellite: new ones go end to end until none does"
            ),
            Notice::ClientsServed(peer) => {
                tracing::info!(peer = name(peer), "no client waits any more: new connections are accelerated again");
            }
            Notice::MemoryShort { peer, left } => tracing::warn!(
                peer = name(peer),
                left,
                "readers that stall hold the memory for what the peer sends: new connections go end to end until they read"
            ),
            Notice::MemoryAgain(peer) => {
                tracing::info!(peer = name(peer), "there is memory again for what the peer sends");
            }
            Notice::RoomShort { is_host_wide: true } => tracing::warn!(
                "the host has no files or no memory for more sockets: new connections go end to end; fs.file-max and free memory say how \
                 much there is"
            ),
            Notice::RoomShort { is_host_wide: false } => tracing::warn!(
                most = self.engine.hosts.most_descriptors(),
                "nearly all descriptors are in use: new connections go end to end; LimitNOFILE (ulimit -n) says how many there are"
            ),
            Notice::RoomAgain => tracing::info!("there is room for sockets again"),
            Notice::PeerTakesNone(peer) => tracing::warn!(
                peer = name(peer),
                "the peer takes no connections, as it may for want of descriptors or memory: new ones go end to end until it does"
            ),
            Notice::RoutesClosed { peer, destinations } => {
                let destinations: Vec<_> = destinations.iter().map(ToString::to_string).collect();
                tracing::warn!(
                    peer = name(peer),
                    destinations = destinations.join(", "),
                    "the peer lets nothing through to some of its routes, so that connections there go end to end: its \
                     allow_sources and allow_destinations for this gateway say what it lets through"
                );
            }
            Notice::RoutesOpen(peer) => {
                tracing::info!(peer = name(peer), "the peer lets connections through to all of its routes again")
            }
            // The others are no shortages.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn nothing_of_a_removed_peer_is_logged_about_the_next_one_at_its_place() {
        let mut limits = LogLimits::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut notice = |second, notice: Notice| {
            let shortage = shortage(&notice).unwrap();
            limits.shortage(at(second), notice, shortage).is_some()
        };
        for peer in [0, 1] {
            assert!(notice(0, Notice::StreamsShort { peer, most: 8 }));
            assert!(notice(1, Notice::StreamsAgain(peer)));
            assert!(!notice(2, Notice::StreamsShort { peer, most: 8 }), "once a minute");
        }
        assert_eq!(limits.requests.entry(1).or_default().denied.admit(at(0)), Some(0));
        limits.forget(1);
        assert!(matches!(*limits.overdue(at(60)), [Notice::StreamsShort { peer: 0, .. }]));
        assert_eq!(
            limits.requests.entry(1).or_default().denied.admit(at(1)),
            Some(0),
            "the next peer has its own minute"
        );
    }
}
