//! The peers: what the operator says of each, and how it stands.

use super::interception::Open;
use super::{Engine, Hosts, Transport};
use crate::connect::ConnectRequest;
use crate::connection::Event;
use crate::policy::Policy;
use crate::reach::Reach;
use ipnet::IpNet;
use slab::Slab;
use std::collections::VecDeque;
use units::Instant;

/// What the operator says of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its name in logs and tables.
    pub name: String,
    /// What lies behind it.
    pub routes: Vec<IpNet>,
    /// Client addresses that it may use here.
    pub allow_sources: Vec<IpNet>,
    /// Servers that it may reach here.
    pub allow_destinations: Vec<IpNet>,
    /// Whether servers see the client's address, rather than this gateway's.
    pub connect_as_client: bool,
    /// Whether there is no far gateway: streams run to the servers themselves.
    pub is_direct: bool,
}

/// A peer and how it stands.
#[derive(Debug)]
pub struct Peer<C> {
    pub(super) settings: PeerSettings,
    pub(super) policy: Policy,
    /// New connections go past it, for nearly all streams are in use.
    pub(super) is_full: bool,
    /// New connections go past it, for clients wait for too long.
    pub(super) is_late: bool,
    /// New connections go past it, for readers that stall hold the memory for what it sends; and since when little is left.
    pub(super) is_out_of_memory: bool,
    pub(super) memory_is_little_since: Option<Instant>,
    /// Clients that wait for a stream.
    pub(super) waiting: VecDeque<WaitingClient<C>>,
    /// What it lets through as of the last notice about it.
    pub(super) noticed: Option<Reach>,
    /// Whether that was not all of its routes.
    pub(super) is_limited: bool,
    /// What of its routes it lets through, if that was asked for.
    pub(super) open: Option<Open>,
}

/// A client that waits for a stream.
#[derive(Debug)]
pub(super) struct WaitingClient<C> {
    pub(super) since: Instant,
    pub(super) tcp: C,
    pub(super) request: ConnectRequest,
}

impl<C> Peer<C> {
    pub(super) fn new(settings: PeerSettings, own: &[IpNet]) -> Self {
        Self {
            policy: Self::policy(&settings, own),
            settings,
            is_full: false,
            is_late: false,
            is_out_of_memory: false,
            memory_is_little_since: None,
            waiting: VecDeque::new(),
            noticed: None,
            is_limited: false,
            open: None,
        }
    }

    fn policy(settings: &PeerSettings, own: &[IpNet]) -> Policy {
        Policy::new(&settings.allow_sources, &settings.allow_destinations, own)
    }

    /// What the operator says of it.
    pub fn settings(&self) -> &PeerSettings {
        &self.settings
    }
}

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// The peers, by place.
    pub fn peers(&self) -> &Slab<Peer<H::Connection>> {
        &self.peers
    }

    /// The places of all peers.
    pub(super) fn places(&self) -> Vec<usize> {
        self.peers.iter().map(|(at, _)| at).collect()
    }

    /// The gateway's own addresses have become `own`: no peer may use those.
    pub fn set_own_addresses(&mut self, now: Instant, own: &[IpNet]) {
        self.own = own.to_vec();
        for (_, peer) in &mut self.peers {
            peer.policy = Peer::<H::Connection>::policy(&peer.settings, own);
        }
        self.tell_reach(now);
    }

    /// Adds a peer. Returns its place, at which the transport is to have it, too.
    pub fn add_peer(&mut self, settings: PeerSettings) -> usize {
        self.peers.insert(Peer::new(settings, &self.own))
    }

    /// Gives the peer at place `at` other settings. What was settled when a connection opened stays for that connection.
    pub fn change_peer(&mut self, at: usize, settings: PeerSettings) {
        let waiting = std::mem::take(&mut self.peers[at].waiting);
        self.peers[at] = Peer { waiting, ..Peer::new(settings, &self.own) };
    }

    /// Removes the peer at place `at`: resets its connections and the clients that wait. The transport is to remove it then.
    pub fn remove_peer(&mut self, now: Instant, at: usize) {
        let of_peer = self.connections.iter().filter(|(_, connection)| connection.peer == at);
        let keys: Vec<usize> = of_peer.map(|(key, _)| key).collect();
        for key in keys {
            self.apply(now, key, Event::Shutdown);
        }
        self.send_all_away(now, at);
        self.peers.remove(at);
    }

    /// Takes over other settings, and announces to the peers what they may use now.
    pub fn reconfigure(&mut self, now: Instant, settings: super::Settings) {
        self.accounts.add(settings.classes.iter().map(|class| &*class.name));
        self.settings = settings;
        self.peers.iter_mut().for_each(|(_, peer)| peer.open = None);
        self.requeue_waiting(now);
        self.tell_reach(now);
    }
}
