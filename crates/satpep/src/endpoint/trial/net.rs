//! A hub, terminals and someone between them, in virtual time: what tests of handshakes and their fuzzer share.

use crate::Capabilities;
use crate::event::{Event, PeerId, PeerState};
use crate::handshake::{Cookie, Identity, TransportParameters, seal_cookie};
use crate::random::SecureRandom;
use crate::seal::{Cipher, Mode};
use crate::wire::packet::{DATA, INIT};
use crate::{Endpoint, EndpointConfig, PeerConfig, PrivateKey, PublicKey, Versions};
use std::net::SocketAddr;
pub(crate) use testkit::Datagram;
use testkit::{Agenda, VirtualTime};
use units::{Duration, Instant, Rate};

/// A gateway, its clock and what happened to it.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    /// Its wall clock less the true time, in seconds.
    pub(crate) skew: i64,
    pub(crate) events: Vec<Event>,
    /// When it sent an init.
    pub(crate) inits: Vec<Instant>,
}

/// Side 0 is the hub, the responder; the others are terminals, which initiate.
pub(crate) struct Net {
    pub(crate) time: VirtualTime,
    pub(crate) sides: Vec<Side>,
    in_flight: Agenda<Datagram>,
    /// Datagrams that were ever in flight.
    sent: u64,
    /// What one direction of the link takes.
    pub(crate) delay: Duration,
    pub(crate) modes: Vec<Mode>,
    pub(crate) versions: Vec<Versions>,
    pub(crate) capabilities: Vec<Capabilities>,
    /// Handshake datagrams that crossed the link, of the latest few hundred.
    pub(crate) seen: Vec<Datagram>,
    /// What the someone makes of a datagram that has just left: what arrives instead, and how much later than usual.
    pub(crate) between: Between,
    random: SecureRandom,
}

pub(crate) type Between = Box<dyn FnMut(&Datagram, &mut SecureRandom) -> Vec<(Duration, Datagram)>>;

/// Nanoseconds since 1970 at the beginning.
const UNIX_START: u64 = 1_700_000_000_000_000_000;

pub(crate) fn key(index: usize) -> PrivateKey {
    let mut bytes = [3; 32];
    bytes[..8].copy_from_slice(&(index as u64 + 1).to_be_bytes());
    PrivateKey::from_random(bytes)
}

/// Terminals are in networks of their own.
pub(crate) fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, index as u8, 1], 4500))
}

/// Where the someone is.
pub(crate) fn elsewhere() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], 4500))
}

impl Net {
    /// A hub that knows `known` terminals, of which the last `terminals` exist, on a link of this one-way delay.
    pub(crate) fn new(known: usize, terminals: usize, delay: Duration) -> Self {
        let mut net = Self {
            time: VirtualTime::starting_at(Instant::from_nanos(1_000_000_000)),
            sides: Vec::new(),
            in_flight: Agenda::new(),
            sent: 0,
            delay,
            modes: vec![Mode::Encrypted; terminals + 1],
            versions: vec![Versions::SPOKEN; terminals + 1],
            capabilities: vec![Capabilities::NONE; terminals + 1],
            seen: Vec::new(),
            between: Box::new(|datagram, _| vec![(Duration::ZERO, datagram.clone())]),
            random: SecureRandom::new([5; 32]),
        };
        for index in 0..=terminals {
            let side = net.side(index, known - terminals, terminals, 0);
            net.sides.push(side);
        }
        net
    }

    /// The place of terminal number `terminal`, from 1, among the hub's peers.
    pub(crate) fn peer_of(&self, terminal: usize) -> PeerId {
        let peers = self.sides[0].endpoint.peers.len();
        PeerId((peers + terminal - self.sides.len()) as u32)
    }

    fn side(&self, index: usize, absent: usize, terminals: usize, skew: i64) -> Side {
        let rate = Rate::from_bps(50_000_000);
        let mut config = EndpointConfig::new(key(index), rate, rate, self.delay * 2);
        config.repair = false;
        config.keepalive = Duration::from_secs(2);
        config.mode = self.modes[index];
        config.versions = self.versions[index];
        config.capabilities = self.capabilities[index];
        let seed: [u8; 32] = SecureRandom::new([(self.sent % 251) as u8 ^ index as u8; 32]).block();
        let mut endpoint = Endpoint::new(config, self.time.now(), unix_time(self.time.now(), skew), seed);
        let mut add = |of: usize, address_of_peer| {
            endpoint.add_peer(self.time.now(), PeerConfig::new(key(of).public_key(), address_of_peer)).expect("a peer");
        };
        if index == 0 {
            (0..absent).for_each(|number| add(1000 + number, None));
            (1..=terminals).for_each(|terminal| add(terminal, None));
        } else {
            add(0, Some(address(0)));
        }
        Side { endpoint, address: address(index), skew, events: Vec::new(), inits: Vec::new() }
    }

    /// A gateway dies and comes back with its configuration alone and another clock.
    pub(crate) fn restart(&mut self, index: usize, skew: i64) {
        let terminals = self.sides.len() - 1;
        let absent = self.sides[0].endpoint.peers.len() - terminals;
        self.sides[index] = self.side(index, absent, terminals, skew);
    }

    /// A running gateway's clock is set.
    pub(crate) fn set_clock(&mut self, index: usize, skew: i64) {
        self.sides[index].skew = skew;
        self.sides[index].endpoint.set_unix_time(self.time.now(), unix_time(self.time.now(), skew));
    }

    /// Has a terminal renew its keys with the hub.
    pub(crate) fn renew(&mut self, terminal: usize) {
        let endpoint = &mut self.sides[terminal].endpoint;
        let limits = std::mem::replace(&mut endpoint.peers[0].limits.renew, 0);
        endpoint.refresh(self.time.now(), PeerId(0));
        endpoint.handle_timeout(self.time.now());
        endpoint.peers[0].limits.renew = limits;
    }

    /// Lets a datagram arrive after `wait`.
    pub(crate) fn send(&mut self, wait: Duration, datagram: Datagram) {
        self.sent += 1;
        self.in_flight.insert(self.time.now() + wait, datagram);
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `done`, at most for `time`; whether it was done.
    pub(crate) fn run_until(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.time.now() + time;
        loop {
            self.serve();
            if done(self) {
                return true;
            }
            let timers = self.sides.iter().filter_map(|side| side.endpoint.next_timeout());
            let next = timers.chain(self.in_flight.next_timeout()).min().unwrap_or(Instant::FAR_FUTURE);
            if next > end {
                self.time.advance(end);
                return done(self);
            }
            self.time.advance(next);
            while let Some(datagram) = self.in_flight.poll(self.time.now()) {
                self.arrive(datagram);
            }
        }
    }

    /// Delivers a datagram to the gateway at its address; returns the bytes of the immediate answer.
    pub(crate) fn arrive(&mut self, mut datagram: Datagram) -> usize {
        let Some(index) = self.sides.iter().position(|side| side.address == datagram.to) else { return 0 };
        let side = &mut self.sides[index];
        let waiting = side.endpoint.outbox.len();
        side.endpoint.handle_datagram(self.time.now(), datagram.from, &mut datagram.bytes);
        let answers = side.endpoint.outbox.range(waiting.min(side.endpoint.outbox.len())..);
        let answered = answers.map(|(_, answer)| answer.len()).sum();
        assert!(answered <= datagram.bytes.len(), "{answered} bytes in answer to {}", datagram.bytes.len());
        answered
    }

    fn serve(&mut self) {
        let mut buffer = vec![0; 65_536];
        for index in 0..self.sides.len() {
            let side = &mut self.sides[index];
            side.endpoint.handle_timeout(self.time.now());
            side.events.extend(std::iter::from_fn(|| side.endpoint.poll_event()));
            while let Some(transmit) = self.sides[index].endpoint.poll_transmit(self.time.now(), &mut buffer) {
                for bytes in buffer[..transmit.size].chunks(transmit.segment_size) {
                    let from = self.sides[index].address;
                    self.leave(index, Datagram { from, to: transmit.to, bytes: bytes.to_vec() });
                }
            }
        }
    }

    fn leave(&mut self, index: usize, datagram: Datagram) {
        if datagram.bytes[0] == INIT {
            self.sides[index].inits.push(self.time.now());
        }
        for (late, datagram) in (self.between)(&datagram, &mut self.random) {
            self.send(self.delay + late, datagram);
        }
        if datagram.bytes[0] != DATA {
            if self.seen.len() == 512 {
                self.seen.remove(0);
            }
            self.seen.push(datagram);
        }
    }

    /// Whether terminal and hub are up for each other.
    pub(crate) fn is_up(&self, terminal: usize) -> bool {
        self.sides[0].endpoint.peer_state(self.peer_of(terminal)) == PeerState::Up
            && self.sides[terminal].endpoint.peer_state(PeerId(0)) == PeerState::Up
    }

    /// Whether a side has a session that knows the other's present run.
    pub(crate) fn agree(&self, terminal: usize) -> bool {
        let (hub, far) =
            (&self.sides[0].endpoint.peers[self.peer_of(terminal).index()], &self.sides[terminal].endpoint.peers[0]);
        let epochs = |session: &Option<crate::session::Session<_>>| session.as_ref().map(|session| session.peer_epoch);
        self.is_up(terminal) && epochs(&hub.session) == Some(far.epoch) && epochs(&far.session) == Some(hub.epoch)
    }
}

fn unix_time(now: Instant, skew: i64) -> u64 {
    (UNIX_START + now.as_nanos()).saturating_add_signed(skew.saturating_mul(1_000_000_000))
}

/// A forged cookie reply, by an attacker who sees the init and knows the public key of its receiver.
pub(crate) fn forged_cookie(
    init: &Datagram,
    cookie: Cookie,
    receiver: &PublicKey,
    random: &mut SecureRandom,
) -> Datagram {
    Datagram { from: init.to, to: init.from, bytes: seal_cookie(&cookie, &init.bytes, receiver, random) }
}

/// An init of the holder of `from` to the hub; with the cookie that the hub gives `at`, if so wanted.
pub(crate) fn init_to_hub(net: &Net, from: PrivateKey, at: SocketAddr, with_cookie: bool) -> Datagram {
    let mut random = SecureRandom::new([77; 32]);
    let (identity, hub) =
        (Identity::new(from, Mode::Encrypted, Cipher::default(), Versions::SPOKEN), key(0).public_key());
    let acquaintance = identity.acquaintance(&hub).expect("a secret");
    let parameters = TransportParameters::modest();
    let mut make = |cookie| {
        let extras = (cookie, Default::default());
        identity.initiate((&hub, &acquaintance), &parameters, (1, None, 0), extras, &mut random).expect("an init")
    };
    let (mut bytes, pending) = make(None);
    if with_cookie {
        let reply = net.sides[0].endpoint.cookies.reply(&bytes, &at, &hub, &mut SecureRandom::new([78; 32]));
        bytes = make(Some(pending.read_cookie(&hub, &reply).expect("a cookie"))).0;
    }
    Datagram { from: at, to: address(0), bytes }
}
