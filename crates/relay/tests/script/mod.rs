//! A transport and hosts that say what a test has them say, and record their calls.

use peering::ResetReason;
use relay::classes::Class;
use relay::connect::ConnectRequest;
use relay::engine::{ConnectError, ConnectReply, Hosts, PeerSettings, Progress, ReceivedRequest, Transport};
use relay::reach::Reach;
use std::collections::HashMap;
use std::net::SocketAddr;
use units::{Duration, Instant};

/// The calls of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Adopted(usize, u32),
    Connecting(usize, SocketAddr),
    Finished(u32),
    Closed(u32),
    Aborted(u32),
    Released(&'static str),
    Refused(&'static str),
    Forgotten(&'static str),
}

/// Connections are numbers; those that the engine makes begin with 1000.
#[derive(Debug)]
pub struct FakeHosts {
    pub heard: Vec<Heard>,
    /// Connections whose host has vanished.
    pub gone: Vec<u32>,
    /// Connections whose host has sent what nobody has read, and those whose host takes nothing.
    pub with_data: Vec<u32>,
    pub full: Vec<u32>,
    /// How much the host of a connection has not acknowledged.
    pub unacknowledged: HashMap<u32, u64>,
    /// Connections of which a read that finds no more has met a reset, and those that were reset behind their FIN.
    pub cut_off: Vec<u32>,
    pub failed: Vec<u32>,
    /// What the next reads for nobody come to.
    pub discarded: Vec<Progress>,
    /// How many connections there may be.
    pub most: usize,
    pub has_plenty: bool,
    /// What the next connections that the engine makes or hands over come to, if they fail.
    pub failures: Vec<ConnectError>,
    request: usize,
    made: u32,
}

impl Default for FakeHosts {
    fn default() -> Self {
        Self {
            heard: Vec::new(),
            gone: Vec::new(),
            with_data: Vec::new(),
            full: Vec::new(),
            unacknowledged: HashMap::new(),
            cut_off: Vec::new(),
            failed: Vec::new(),
            discarded: Vec::new(),
            most: usize::MAX,
            has_plenty: false,
            failures: Vec::new(),
            request: 0,
            made: 1000,
        }
    }
}

impl Hosts for FakeHosts {
    type Connection = u32;
    type Syn = &'static str;

    fn connect(&mut self, _: Instant, key: usize, request: &ConnectRequest, _: bool) -> Result<u32, ConnectError> {
        self.heard.push(Heard::Connecting(key, request.destination));
        self.failures.pop().map_or(Ok(()), Err)?;
        self.request += 1;
        self.made += 1;
        Ok(self.made)
    }

    fn adopt(&mut self, key: usize, tcp: &u32) -> Result<(), ConnectError> {
        self.heard.push(Heard::Adopted(key, *tcp));
        self.failures.pop().map_or(Ok(()), Err)?;
        self.request += 1;
        Ok(())
    }

    fn finish(&mut self, _: Instant, tcp: &mut u32) {
        self.heard.push(Heard::Finished(*tcp));
    }

    fn close(&mut self, _: Instant, tcp: u32) {
        self.heard.push(Heard::Closed(tcp));
        self.request = self.request.saturating_sub(1);
    }

    fn abort(&mut self, _: Instant, tcp: u32) {
        self.heard.push(Heard::Aborted(tcp));
        self.request = self.request.saturating_sub(1);
    }

    fn is_gone(&mut self, _: Instant, tcp: &mut u32, _: Duration, _: Duration) -> bool {
        self.gone.contains(tcp)
    }

    fn has_data(&self, tcp: &u32) -> bool {
        self.with_data.contains(tcp)
    }

    fn is_full(&self, tcp: &u32) -> bool {
        self.full.contains(tcp)
    }

    fn is_cut_off(&self, tcp: &u32) -> bool {
        self.cut_off.contains(tcp)
    }

    fn has_failed(&self, tcp: &u32) -> bool {
        self.failed.contains(tcp)
    }

    fn unacknowledged(&self, tcp: &u32) -> u64 {
        self.unacknowledged.get(tcp).copied().unwrap_or(0)
    }

    fn discard_received(&mut self, _: &mut u32) -> Progress {
        self.discarded.pop().unwrap_or(Progress::Blocked)
    }

    fn has_room(&self) -> bool {
        self.request < self.most
    }

    fn is_scarce(&self, _: &u32) -> bool {
        self.request + 1 >= self.most
    }

    fn has_plenty(&self) -> bool {
        self.has_plenty
    }

    fn release_syn(&mut self, syn: &'static str) {
        self.heard.push(Heard::Released(syn));
    }

    fn refuse_syn(&mut self, syn: &'static str) {
        self.heard.push(Heard::Refused(syn));
    }

    fn forget_syn(&mut self, syn: &'static str) {
        self.heard.push(Heard::Forgotten(syn));
    }
}

/// What the transport says of a peer, and its recorded calls.
#[derive(Debug)]
pub struct FakePeer {
    pub is_up: bool,
    pub free: u64,
    pub most: u64,
    pub memory: Option<(u64, u64)>,
    pub allows: Option<Reach>,
    pub told: Option<Reach>,
}

/// Streams are numbers; those that the engine opens begin with 0.
#[derive(Debug, Default)]
pub struct FakeTransport {
    pub peers: Vec<FakePeer>,
    pub requests: HashMap<u32, ReceivedRequest>,
    pub replies: Vec<ConnectReply>,
    /// What the next calls move; otherwise nothing.
    pub to_send: Vec<(u64, Progress)>,
    pub to_receive: Vec<(u64, Progress)>,
    /// What each call of `send` moves.
    pub always: Option<(u64, Progress)>,
    pub resets: Vec<(u32, ResetReason)>,
    /// Streams that were reset behind their data.
    pub reset_behind: Vec<u32>,
    /// How much of those has not arrived.
    pub undelivered: HashMap<u32, u64>,
    /// How much of what was sent on a stream is not acknowledged.
    pub unacknowledged: HashMap<u32, u64>,
    /// Streams that the peer has reset, with bytes to read.
    pub held: Vec<u32>,
    pub replied: Vec<u32>,
    pub forgotten: Vec<u32>,
    opened: u32,
}

impl FakeTransport {
    /// With so many peers that are up.
    pub fn up(peers: usize) -> Self {
        let peer = |_| FakePeer { is_up: true, free: 1000, most: 1000, memory: None, allows: None, told: None };
        Self { peers: (0..peers).map(peer).collect(), ..Self::default() }
    }
}

impl Transport<FakeHosts> for FakeTransport {
    type Stream = u32;

    fn is_up(&self, peer: usize) -> bool {
        self.peers[peer].is_up
    }

    fn room(&self, peer: usize) -> (u64, u64) {
        (self.peers[peer].free, self.peers[peer].most)
    }

    fn memory_left(&self, peer: usize) -> Option<(u64, u64)> {
        self.peers[peer].memory
    }

    fn tell_reach(&mut self, _: Instant, peer: usize, reach: &Reach) {
        self.peers[peer].told = Some(reach.clone());
    }

    fn allows(&self, peer: usize) -> Option<&Reach> {
        self.peers[peer].allows.as_ref()
    }

    fn open(&mut self, _: Instant, peer: usize, _: &ConnectRequest, _: Option<&Class>) -> Option<u32> {
        let peer = &mut self.peers[peer];
        peer.free = peer.free.checked_sub(1)?;
        self.opened += 1;
        Some(self.opened - 1)
    }

    fn classify(&mut self, _: Instant, _: u32, _: &Class) {}

    fn read_request(&mut self, _: Instant, stream: u32) -> ReceivedRequest {
        self.requests.remove(&stream).unwrap_or(ReceivedRequest::Waiting)
    }

    fn read_reply(&mut self, _: Instant, _: u32) -> ConnectReply {
        self.replies.pop().unwrap_or(ConnectReply::Waiting)
    }

    fn reply(&mut self, _: Instant, stream: u32) {
        self.replied.push(stream);
    }

    fn finish(&mut self, _: Instant, _: u32) {}

    fn reset(&mut self, _: Instant, stream: u32, reason: ResetReason) {
        self.resets.push((stream, reason));
    }

    fn reset_behind_data(&mut self, _: Instant, stream: u32) {
        self.reset_behind.push(stream);
    }

    fn undelivered(&self, stream: u32) -> Option<u64> {
        self.undelivered.get(&stream).copied()
    }

    fn unacknowledged(&self, stream: u32) -> u64 {
        self.unacknowledged.get(&stream).copied().unwrap_or(0)
    }

    fn takes_data(&self, stream: u32) -> bool {
        !self.held.contains(&stream)
    }

    fn forget(&mut self, stream: u32) {
        self.forgotten.push(stream);
    }

    fn send(&mut self, _: Instant, _: u32, _: &mut FakeHosts, _: &mut u32) -> (u64, Progress) {
        self.always.or_else(|| self.to_send.pop()).unwrap_or((0, Progress::Blocked))
    }

    fn receive(&mut self, _: Instant, _: u32, _: &mut FakeHosts, _: &mut u32) -> (u64, Progress) {
        self.to_receive.pop().unwrap_or((0, Progress::Blocked))
    }

    fn number(&self, stream: u32) -> u64 {
        stream.into()
    }
}

/// A peer that may use everything here that is public.
pub fn peer(name: &str, routes: &[&str]) -> PeerSettings {
    PeerSettings {
        name: name.to_owned(),
        routes: routes.iter().map(|route| route.parse().unwrap()).collect(),
        allow_sources: vec!["10.0.0.0/8".parse().unwrap()],
        allow_destinations: vec!["203.0.113.0/24".parse().unwrap()],
        connect_as_client: true,
        is_direct: false,
    }
}
