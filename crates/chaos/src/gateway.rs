//! A gateway: the transport's endpoint, and the relay's state machine for each connection, between it and hosts that
//! answer at once.

use crate::host::{CLIENT, Transfer};
use crate::plan::Plan;
use relay::connect::{CONNECTED, ConnectRequest, MAX_LENGTH, Parser};
use relay::connection::{Action, Event, State};
use satpep::{Endpoint, PeerId, PeerState, ResetReason, StreamId};
use std::collections::{BTreeMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use units::{Duration, Instant};

/// What a gateway asks its world for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To be given a turn for a transfer at this time.
    Turn { at: Instant, number: u32 },
    /// At this time, the outcome of the connection to a transfer's server is due.
    Connect { at: Instant, number: u32 },
    /// The note of something that a sound gateway does not see.
    Complain(&'static str),
}

/// A gateway while its process runs.
pub(crate) struct Gateway {
    side: usize,
    pub(crate) endpoint: Endpoint,
    pub(crate) peers: Vec<PeerId>,
    relays: BTreeMap<u32, Relay>,
    by_stream: BTreeMap<StreamId, u32>,
    opening: BTreeMap<StreamId, Parser>,
    work: VecDeque<u32>,
    is_confirmed: bool,
    /// It takes no more connections.
    is_draining: bool,
    /// Peers lost their streams so often.
    pub(crate) restarts_seen: u64,
    pub(crate) wishes: Vec<Wish>,
}

/// A connection that is relayed.
struct Relay {
    state: State,
    stream: StreamId,
}

/// The transfers of a case, by number.
pub(crate) type Transfers = Vec<Transfer>;

impl Gateway {
    pub(crate) fn new(plan: &Plan, side: usize, endpoint: Endpoint, peers: Vec<PeerId>) -> Self {
        Self {
            side,
            endpoint,
            peers,
            relays: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            opening: BTreeMap::new(),
            work: VecDeque::new(),
            is_confirmed: plan.settings.is_confirmed,
            is_draining: false,
            restarts_seen: 0,
            wishes: Vec::new(),
        }
    }

    /// What it holds of connections: relays, streams whose connect request is awaited, names of streams.
    pub(crate) fn held(&self) -> usize {
        self.relays.len() + self.by_stream.len() + self.opening.len()
    }

    /// Takes no more connections, and has the peers open none.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.is_draining = true;
        self.endpoint.drain(now);
    }

    /// Whether it has nothing left to do for the connections that there were.
    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        self.is_draining && self.held() == 0 && self.endpoint.is_drained(now)
    }

    /// Does what time and the transport's news ask for. `now` is by its own clock.
    pub(crate) fn run(&mut self, now: Instant, transfers: &mut Transfers) {
        self.endpoint.handle_timeout(now);
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.on_transport(now, event, transfers);
            }
            let Some(number) = self.work.pop_front() else { return };
            self.turn(now, number, transfers);
        }
    }

    /// A client connects. `false` if the peer does not answer now: the connection would go by another way.
    pub(crate) fn begin(&mut self, now: Instant, number: u32, peer: usize, transfers: &mut Transfers) -> bool {
        let peer = self.peers[peer];
        if self.is_draining || self.endpoint.peer_state(peer) != PeerState::Up {
            return false;
        }
        let mut encoded = [0; MAX_LENGTH];
        let length = open(number).encode(&mut encoded).expect("addresses of one family and ports above zero");
        let Ok(stream) = self.endpoint.open(now, peer) else { return false };
        if self.endpoint.write(now, stream, &encoded[..length]) < length {
            self.endpoint.reset(now, stream, ResetReason::StreamLimit);
            return false;
        }
        let state = if self.is_confirmed { State::Confirming } else { State::Requested };
        transfers[number as usize].has_begun = true;
        transfers[number as usize].hosts[CLIENT].is_connected = !self.is_confirmed;
        self.relays.insert(number, Relay { state, stream });
        self.by_stream.insert(stream, number);
        self.work.push_back(number);
        true
    }

    /// A host may read again, or wants to be read.
    pub(crate) fn wake(&mut self, number: u32) {
        self.work.push_back(number);
    }

    /// The server of a transfer answers, or refuses.
    pub(crate) fn on_server(&mut self, now: Instant, number: u32, transfers: &mut Transfers) {
        // The connection may have been given up meanwhile.
        if self.relays.get(&number).is_none_or(|relay| relay.state != State::Connecting) {
            return;
        }
        let accepts = transfers[number as usize].plan.accepts.is_some();
        let event = if accepts { Event::TcpConnected } else { Event::TcpFailed(ResetReason::Refused) };
        let role = transfers[number as usize].role(self.side);
        transfers[number as usize].hosts[role].is_connected = accepts;
        self.apply(now, number, event, transfers);
        self.work.push_back(number);
    }

    /// The process dies: the kernel resets what it had open.
    pub(crate) fn die(&mut self, transfers: &mut Transfers) {
        for number in std::mem::take(&mut self.relays).into_keys() {
            let role = transfers[number as usize].role(self.side);
            transfers[number as usize].hosts[role].was_reset = true;
        }
    }

    fn on_transport(&mut self, now: Instant, event: satpep::Event, transfers: &mut Transfers) {
        match event {
            satpep::Event::Opened(stream) => {
                self.opening.insert(stream, Parser::new());
            }
            satpep::Event::Readable(stream) | satpep::Event::Writable(stream) => {
                if self.opening.contains_key(&stream) {
                    self.read_request(now, stream, transfers);
                } else if let Some(number) = self.by_stream.get(&stream) {
                    self.work.push_back(*number);
                }
            }
            satpep::Event::Reset(stream, reason) => {
                self.opening.remove(&stream);
                if let Some(number) = self.by_stream.get(&stream).copied() {
                    self.excuse(number, reason, transfers);
                    self.apply(now, number, Event::StreamReset, transfers);
                }
            }
            satpep::Event::EndedBeforeReset(stream) => {
                let reads = |number: &u32| self.relays.get(number).is_some_and(|relay| relay.state.reads_stream());
                if let Some(number) = self.by_stream.get(&stream).copied().filter(reads) {
                    self.apply(now, number, Event::StreamFin, transfers);
                }
            }
            satpep::Event::Closed(stream) => {
                if let Some(number) = self.by_stream.get(&stream).copied() {
                    self.apply(now, number, Event::StreamFin, transfers);
                }
            }
            satpep::Event::PeerRestarted(_) => self.restarts_seen += 1,
            satpep::Event::PeerBroke(..) => {
                self.wishes.push(Wish::Complain("a gateway found that its peer broke the protocol"));
            }
            _ => {}
        }
    }

    /// What a reset shows of the peer, which the world judges.
    fn excuse(&mut self, number: u32, reason: ResetReason, transfers: &mut Transfers) {
        let transfer = &mut transfers[number as usize];
        transfer.resets[transfer.role(self.side)] = Some(reason);
        match reason {
            // Only the peer's own end brings these about; whether there was one that excuses them, its world knows.
            ResetReason::PeerRestarted | ResetReason::Shutdown => transfer.saw_gateway_end = true,
            ResetReason::Refused if transfer.plan.accepts.is_none() => transfer.is_excused = true,
            ResetReason::Protocol => {
                self.wishes.push(Wish::Complain("a stream was reset for a breach of the protocol"))
            }
            _ => {}
        }
    }

    fn read_request(&mut self, now: Instant, stream: StreamId, transfers: &mut Transfers) {
        loop {
            let mut slices = [IoSlice::new(&[]); 1];
            let Some(parser) =
                self.opening.get_mut(&stream).filter(|_| self.endpoint.readable(stream, &mut slices) > 0)
            else {
                return;
            };
            let named = match parser.push(&slices[0]) {
                Ok((used, None)) => {
                    self.endpoint.consume(now, stream, used);
                    continue;
                }
                Ok((used, Some(request))) => {
                    self.endpoint.consume(now, stream, used);
                    number_of(&request).filter(|number| (*number as usize) < transfers.len())
                }
                Err(_) => None,
            };
            self.opening.remove(&stream);
            match named {
                Some(number) => self.connect(now, number, stream, transfers),
                None => {
                    self.wishes.push(Wish::Complain("a connect request was not what the near gateway wrote"));
                    self.endpoint.reset(now, stream, ResetReason::Protocol);
                }
            }
            return;
        }
    }

    fn connect(&mut self, now: Instant, number: u32, stream: StreamId, transfers: &mut Transfers) {
        if self.relays.contains_key(&number) || transfers[number as usize].hosts[1].is_connected {
            self.wishes.push(Wish::Complain("a connection was opened twice"));
        }
        self.relays.insert(number, Relay { state: State::Opening, stream });
        self.by_stream.insert(stream, number);
        self.apply(now, number, Event::RequestValid, transfers);
    }

    /// Moves bytes both ways.
    fn turn(&mut self, now: Instant, number: u32, transfers: &mut Transfers) {
        let state = |side: &Self| side.relays.get(&number).map_or(State::Closed, |relay| relay.state);
        if state(self).awaits_answer() {
            self.read_answer(now, number, transfers);
        }
        if state(self).reads_tcp() && self.read_host(now, number, transfers) {
            self.host(number, transfers).has_ended = true;
            self.apply(now, number, Event::TcpFin, transfers);
        }
        if state(self).reads_stream() && self.write_host(now, number, transfers) {
            self.apply(now, number, Event::StreamFin, transfers);
        }
        // An end may wait for the other end's, which has just come.
        if state(self).reads_tcp() && self.read_host(now, number, transfers) {
            self.host(number, transfers).has_ended = true;
            self.apply(now, number, Event::TcpFin, transfers);
        }
        let host = self.host(number, transfers);
        let (has_aborted, wakes_at) = (host.has_aborted, host.wakes_at(now));
        if has_aborted && state(self) != State::Closed {
            // The other end may end in any way once one has given up.
            transfers[number as usize].is_excused = true;
            self.apply(now, number, Event::TcpReset, transfers);
        }
        if let Some(at) = wakes_at {
            self.wishes.push(Wish::Turn { at, number });
        }
    }

    fn host<'a>(&self, number: u32, transfers: &'a mut Transfers) -> &'a mut crate::host::Host {
        let transfer = &mut transfers[number as usize];
        let role = transfer.role(self.side);
        &mut transfer.hosts[role]
    }

    fn read_answer(&mut self, now: Instant, number: u32, transfers: &mut Transfers) {
        let Some(stream) = self.relays.get(&number).map(|relay| relay.stream) else { return };
        let mut slices = [IoSlice::new(&[]); 1];
        let event = if self.endpoint.readable(stream, &mut slices) == 0 {
            if !self.endpoint.is_read_finished(stream) {
                return;
            }
            Event::StreamFin
        } else if slices[0].first() == Some(&CONNECTED) {
            self.endpoint.consume(now, stream, 1);
            Event::Answered
        } else {
            Event::ProtocolError
        };
        self.apply(now, number, event, transfers);
    }

    /// From the host into the stream; returns whether the host has ended.
    fn read_host(&mut self, now: Instant, number: u32, transfers: &mut Transfers) -> bool {
        let Some(stream) = self.relays.get(&number).map(|relay| relay.stream) else { return false };
        let host = self.host(number, transfers);
        let mut offer = |spaces: &mut [IoSliceMut<'_>]| {
            let mut sum = 0;
            for space in spaces {
                let length = host.offer(space);
                sum += length;
                if length < space.len() {
                    break;
                }
            }
            Ok::<_, std::convert::Infallible>(sum)
        };
        while let Ok(1..) = self.endpoint.write_with(now, stream, &mut offer) {}
        let host = self.host(number, transfers);
        host.is_at_end() && !host.has_aborted
    }

    /// From the stream to the host; returns whether the stream has ended.
    fn write_host(&mut self, now: Instant, number: u32, transfers: &mut Transfers) -> bool {
        let Some(stream) = self.relays.get(&number).map(|relay| relay.stream) else { return false };
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = self.endpoint.readable(stream, &mut slices);
            let host = self.host(number, transfers);
            let mut taken = 0;
            for slice in &slices[..filled] {
                let length = host.take(now, slice);
                taken += length;
                if length < slice.len() {
                    break;
                }
            }
            if taken == 0 {
                break;
            }
            self.endpoint.consume(now, stream, taken);
        }
        self.endpoint.is_read_finished(stream)
    }

    /// Feeds `event` to the relay's state machine and carries out what it says.
    fn apply(&mut self, now: Instant, number: u32, event: Event, transfers: &mut Transfers) {
        let Some(relay) = self.relays.get_mut(&number) else { return };
        let stream = relay.stream;
        let step = relay.state.on(event).or_else(|_| {
            self.wishes.push(Wish::Complain("an event came that the relay's state machine does not know"));
            relay.state.on(Event::ProtocolError)
        });
        let step = step.expect("a protocol error is an event of every state");
        relay.state = step.next;
        if step.next == State::Closed {
            self.relays.remove(&number);
            self.by_stream.remove(&stream);
        }
        for action in step.actions.into_iter().flatten() {
            self.act(now, number, stream, action, transfers);
        }
    }

    fn act(&mut self, now: Instant, number: u32, stream: StreamId, action: Action, transfers: &mut Transfers) {
        let accepts = transfers[number as usize].plan.accepts;
        let host = self.host(number, transfers);
        match action {
            Action::Connect => {
                let at = now + accepts.unwrap_or(Duration::from_millis(1));
                self.wishes.push(Wish::Connect { at, number });
            }
            Action::Reply => {
                if self.endpoint.write(now, stream, &[CONNECTED]) != 1 {
                    self.wishes.push(Wish::Complain("a new stream had no room for the answer"));
                }
            }
            Action::FinishStream => self.endpoint.finish(now, stream),
            Action::ResetStream(reason) => self.endpoint.reset(now, stream, reason),
            Action::ResetStreamBehindData => self.endpoint.reset_behind_data(now, stream, ResetReason::Aborted),
            Action::ShutdownTcp | Action::CloseTcp => host.saw_end = true,
            Action::ResetTcp | Action::RefuseSyn => host.was_reset = true,
            Action::ReleaseSyn => {
                host.is_connected = true;
                self.apply(now, number, Event::Accepted, transfers);
                self.work.push_back(number);
            }
        }
    }
}

/// The connect request of a transfer: the client's address carries its number.
fn open(number: u32) -> ConnectRequest {
    let [_, a, b, c] = number.to_be_bytes();
    let socket = |ip, port| SocketAddr::new(IpAddr::V4(ip), port);
    ConnectRequest::new(socket(Ipv4Addr::new(10, a, b, c), 1024), socket(Ipv4Addr::new(198, 18, 1, 1), 80))
}

/// The transfer that a connect request names.
fn number_of(request: &ConnectRequest) -> Option<u32> {
    match request.source.ip() {
        IpAddr::V4(ip) => {
            let [_, a, b, c] = ip.octets();
            Some(u32::from_be_bytes([0, a, b, c]))
        }
        IpAddr::V6(_) => None,
    }
}
