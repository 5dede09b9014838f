//! New settings for relays that run.

use super::{PeerEntry, Relays};
use crate::config::{Peer, Settings};
use crate::leg::Leg;
use relay::connection::Event;
use units::Instant;

impl<L: Leg> Relays<L> {
    /// Begins to find out what the path to the peer `name` carries.
    pub(crate) fn survey(&mut self, now: Instant, name: &str) -> Result<(), String> {
        let (at, peer) =
            self.peers.iter().find(|(_, peer)| peer.settings.name == name).ok_or("there is no such peer")?;
        self.leg.survey(now, at, &peer.settings).map_err(str::to_owned)
    }

    /// Takes `settings` over, which [`crate::reload::compare`] has found to be such as can change. Connections go on, but for
    /// those of peers that are none any more; what is settled when a connection opens stays as it was for those that there are.
    pub(crate) fn reconfigure(&mut self, now: Instant, settings: &Settings) {
        self.leg.reconfigure(now, settings);
        let gone: Vec<usize> = self
            .peers
            .iter()
            .filter(|(_, entry)| !settings.peers.iter().any(|peer| peer.is_same_gateway(&entry.settings)))
            .map(|(at, _)| at)
            .collect();
        for at in gone {
            self.remove_peer(now, at);
        }
        // By place in the settings, the place here.
        let places: Vec<usize> = settings.peers.iter().map(|peer| self.put_peer(now, peer)).collect();
        self.routes = settings.routes.map(|at| places[at]);
        self.classes.clone_from(&settings.classes);
        self.connect_timeout = settings.connect_timeout;
        self.host_backlog = crate::daemon::host_backlog(settings);
        self.host_keepalive = settings.host_keepalive.into();
        self.tcp_timeout = settings.tcp_timeout;
        self.tell_reach(now);
    }

    /// Adds the peer, or gives one that there is its new settings. Returns its place.
    fn put_peer(&mut self, now: Instant, peer: &Peer) -> usize {
        let entry = PeerEntry::new(peer, &self.own);
        let known = self.peers.iter().find(|(_, entry)| entry.settings.is_same_gateway(peer)).map(|(at, _)| at);
        match known {
            Some(at) if self.peers[at].settings == *peer => at,
            Some(at) => {
                let waiting = std::mem::take(&mut self.peers[at].waiting);
                self.peers[at] = PeerEntry { waiting, ..entry };
                self.leg.change_peer(now, at, peer);
                at
            }
            None => {
                let at = self.peers.insert(entry);
                self.leg.add_peer(now, at, peer);
                at
            }
        }
    }

    fn remove_peer(&mut self, now: Instant, at: usize) {
        let keys: Vec<usize> =
            self.connections.iter().filter(|(_, connection)| connection.peer == at).map(|(key, _)| key).collect();
        for key in keys {
            self.apply(now, key, Event::Shutdown);
        }
        self.leg.remove_peer(now, at);
        // Dropping their sockets resets the clients that wait.
        self.waiting -= self.peers.remove(at).waiting.len();
    }
}
