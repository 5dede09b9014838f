//! Two gateways under random operations on a random hop, beside a reference: the bytes that each user wrote. Used by
//! a property test and by the fuzzer.
//!
//! What must hold, whatever happens:
//! - readers get the bytes that were written, in order, each once, and the end only after the last;
//! - no stream is given up but by its users, and no session ends while the outage limit is not reached;
//! - once the hop is well again, everything arrives, everything ends, and no memory is held;
//! - nobody can draw a session away from where its peer is, nor be sent more than three times what they sent.

mod operation;

pub use operation::Operation;
use satpep::{Endpoint, EndpointConfig, Event, Mode, PeerConfig, PeerId, PeerState, PrivateKey, ResetReason, StreamId};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use testkit::{Channel, Datagram, LocalClock, VirtualTime, pattern};
use units::{Bytes, Duration, Instant, Rate};

/// The gateways and the hop, as four bytes.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub seed: u8,
    pub rate: u8,
    pub rtt: u8,
    pub flags: u8,
}

impl Setting {
    fn rate(self) -> Rate {
        Rate::from_bps([2_000_000, 100_000, 10_000_000, 100_000_000][usize::from(self.rate % 4)])
    }

    fn rtt(self) -> Duration {
        Duration::from_millis([100, 2, 40, 550, 800][usize::from(self.rtt % 5)])
    }
}

/// One user's half of a stream, and what it should be.
#[derive(Debug, Default)]
struct User {
    id: Option<StreamId>,
    /// Bytes offered and not yet taken, and bytes taken.
    offered: u64,
    written: u64,
    finish: bool,
    finished: bool,
    read: u64,
    read_finished: bool,
    closed: bool,
}

struct Side {
    endpoint: Endpoint,
    peer: PeerId,
    address: SocketAddr,
    clock: LocalClock,
    stalled: bool,
    /// All users end their streams.
    ending: bool,
    /// By the streams' numbers.
    users: BTreeMap<u64, User>,
}

/// Everything at one time.
pub struct Model {
    time: VirtualTime,
    sides: [Side; 2],
    /// What each side sends.
    channels: [Channel; 2],
    /// Streams that a user gave up.
    given_up: Vec<u64>,
    moves: u16,
    /// Bytes that strangers sent and were sent.
    provoked: u64,
    answered: u64,
    buffer: Vec<u8>,
}

fn stranger() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], 7))
}

/// The key of the bytes that `side` writes on stream `number`.
fn pattern_of(side: usize, number: u64) -> u64 {
    number * 2 + side as u64
}

/// Runs `operations`, then lets the hop be well until everything is delivered.
pub fn run(setting: Setting, operations: impl IntoIterator<Item = Operation>) {
    let mut model = Model::new(setting);
    for operation in operations {
        model.apply(operation);
    }
    model.settle();
}

impl Model {
    pub fn new(setting: Setting) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let time = VirtualTime::starting_at(now);
        let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
        let address = |index: usize| SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500));
        let sides = [0, 1].map(|index| {
            let mut config = EndpointConfig::new(key(index), setting.rate(), setting.rate(), setting.rtt());
            let flag = |bit: u8| setting.flags >> bit & 1 == 1;
            config.mode = if flag(0) { Mode::Clear } else { Mode::Encrypted };
            config.repair = !flag(1);
            config.receive_memory = Some(Bytes::new(if flag(2) { 70_000 } else { 4 << 20 }));
            config.reordering = if flag(3) { setting.rtt() } else { Duration::ZERO };
            config.max_streams = if flag(4) { 3 } else { 50 };
            config.outage_limit = Duration::from_secs(100_000);
            let mut endpoint = Endpoint::new(config, now, 1 << 60, [index as u8 ^ setting.seed; 32]);
            let call = (index == 1).then(|| address(0));
            let peer = endpoint.add_peer(now, PeerConfig::new(key(1 - index).public_key(), call)).expect("peer");
            let (address, users) = (address(index), BTreeMap::new());
            Side { endpoint, peer, address, clock: LocalClock::default(), stalled: false, ending: false, users }
        });
        let channels = [1, 2].map(|stream| Channel::new(setting.rtt() / 2, u64::from(setting.seed), stream));
        let buffer = vec![0; if setting.flags & 0x20 == 0 { 64 * 1024 } else { 1500 }];
        let mut model =
            Self { time, sides, channels, given_up: Vec::new(), moves: 0, provoked: 0, answered: 0, buffer };
        model.pass(setting.rtt() * 3);
        assert!(model.sides.iter().all(|side| side.endpoint.peer_state(side.peer) == PeerState::Up));
        model
    }

    pub fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Wait(millis) => self.pass(Duration::from_millis(millis)),
            Operation::Open { side } => self.sides[side].open(self.time.now()),
            Operation::Write { side, pick, bytes } => {
                if let Some(user) = self.sides[side].pick(pick).filter(|user| !user.finish) {
                    user.offered += bytes;
                }
            }
            Operation::Finish { side, pick } => {
                if let Some(user) = self.sides[side].pick(pick) {
                    user.finish = true;
                }
            }
            Operation::Reset { side, pick } => {
                let now = self.sides[side].clock.read(self.time.now());
                if let Some(id) = self.sides[side].pick(pick).and_then(|user| user.id) {
                    self.given_up.push(id.number());
                    self.sides[side].endpoint.reset(now, id, ResetReason::Aborted);
                }
            }
            Operation::Stall { side } => self.sides[side].stalled = !self.sides[side].stalled,
            Operation::Weather { side, fault, per_cent } => self.channels[side].set(fault, per_cent),
            Operation::Cut { side } => self.channels[side].toggle_cut(),
            Operation::Move => {
                self.moves += 1;
                self.sides[1].address = SocketAddr::from(([198, 18, 1, 1], 5000 + self.moves));
            }
            Operation::Jump { side, millis } => self.sides[side].clock.jump(Duration::from_millis(millis)),
            Operation::Freeze(millis) => self.time.skip(Duration::from_millis(millis)),
            Operation::Replay { side, pick } => {
                let seen = self.channels[1 - side].seen();
                if let Some(datagram) = (!seen.is_empty()).then(|| seen[pick % seen.len()].clone()) {
                    let to = self.sides[side].address;
                    self.receive(side, Datagram { from: stranger(), to, ..datagram });
                }
            }
            Operation::Divert { side } => self.channels[1 - side].divert(stranger()),
        }
        self.step();
    }

    /// Lets the hop be well and the users do what they meant to, until nothing is left to do.
    pub fn settle(&mut self) {
        self.channels.iter_mut().for_each(Channel::calm);
        self.sides.iter_mut().for_each(|side| side.stalled = false);
        self.settle_until("the bytes did not arrive", Self::is_delivered);
        self.sides.iter_mut().for_each(|side| side.ending = true);
        self.settle_until("the streams did not end", |model| {
            let ended = |user: &User| user.closed || user.id.is_none();
            model.sides.iter().all(|side| side.users.values().all(ended) && side.is_empty(model.time.now()))
        });
        self.settle_until("the hub does not send to where the terminal is", |model| {
            model.sides[0].endpoint.peer_address(model.sides[0].peer) == Some(model.sides[1].address)
        });
    }

    fn settle_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if done(self) {
                return;
            }
            self.pass(Duration::from_millis(500));
        }
        let users = self.sides.iter().map(|side| format!("{:?} {:?}", side.users, side.endpoint.stats()));
        panic!("{what} in 300 s: {}", users.collect::<Vec<_>>().join("\n"));
    }

    /// Whether everything that was offered and not given up has been read, ends included.
    fn is_delivered(&self) -> bool {
        (0..2).all(|side| {
            self.sides[side].users.iter().filter(|(number, _)| !self.given_up.contains(number)).all(|(number, user)| {
                let nothing = user.written == 0 && !user.finish;
                let far = self.sides[1 - side].users.get(number);
                user.offered == 0
                    && user.finish == user.finished
                    && far.map_or(nothing, |far| far.read == user.written && far.read_finished == user.finish)
            })
        })
    }

    fn pass(&mut self, time: Duration) {
        let end = self.time.now() + time;
        loop {
            self.step();
            let timers =
                self.sides.iter().filter_map(|side| side.endpoint.next_timeout().map(|at| side.clock.time_of(at)));
            let next = timers.chain(self.channels.iter().filter_map(Channel::next_timeout)).min();
            match next {
                Some(next) if next <= end => self.time.advance(next),
                _ => break,
            }
        }
        self.time.skip(end.since(self.time.now()));
    }

    /// Everything that is due now.
    fn step(&mut self) {
        for from in 0..2 {
            while let Some(datagram) = self.channels[from].poll(self.time.now()) {
                self.receive(1 - from, datagram);
            }
        }
        for index in 0..2 {
            self.sides[index].run(self.time.now(), index, &self.given_up);
            self.transmit(index);
        }
    }

    fn receive(&mut self, index: usize, mut datagram: Datagram) {
        let side = &mut self.sides[index];
        if datagram.to == side.address {
            self.provoked += if datagram.from == stranger() { datagram.bytes.len() as u64 } else { 0 };
            side.endpoint.handle_datagram(side.clock.read(self.time.now()), datagram.from, &mut datagram.bytes);
        }
    }

    fn transmit(&mut self, index: usize) {
        let side = &mut self.sides[index];
        let now = side.clock.read(self.time.now());
        while let Some(transmit) = side.endpoint.poll_transmit(now, &mut self.buffer) {
            for bytes in self.buffer[..transmit.size].chunks(transmit.segment_size) {
                let datagram = Datagram { from: side.address, to: transmit.to, bytes: bytes.to_vec() };
                if transmit.to == stranger() {
                    self.answered += bytes.len() as u64;
                    assert!(self.answered <= 3 * self.provoked, "amplification");
                } else {
                    self.channels[index].send(self.time.now(), datagram);
                }
            }
        }
    }
}

impl Side {
    fn open(&mut self, now: Instant) {
        if let Ok(id) = self.endpoint.open(self.clock.read(now), self.peer) {
            self.users.insert(id.number(), User { id: Some(id), ..User::default() });
        }
    }

    fn pick(&mut self, pick: usize) -> Option<&mut User> {
        let count = self.users.len().max(1);
        self.users.values_mut().nth(pick % count).filter(|user| user.id.is_some())
    }

    fn is_empty(&self, now: Instant) -> bool {
        let stats = self.endpoint.peer_stats(self.clock.read(now), self.peer);
        (stats.streams, stats.send_buffered, stats.receive_buffered) == (0, 0, 0)
    }

    /// What time and users do.
    fn run(&mut self, now: Instant, index: usize, given_up: &[u64]) {
        let now = self.clock.read(now);
        self.endpoint.handle_timeout(now);
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Opened(id) => {
                    let user = User { id: Some(id), ..User::default() };
                    assert!(self.users.insert(id.number(), user).is_none(), "opened twice");
                }
                Event::Closed(id) => {
                    let user = self.users.get_mut(&id.number()).expect("a stream that was open");
                    assert!(user.finished, "closed before it ended: {user:?}");
                    user.read_finished = true;
                    user.closed = true;
                    user.id = None;
                }
                Event::Reset(id, reason) => {
                    assert!(given_up.contains(&id.number()), "{reason:?} without its users' doing");
                    self.users.entry(id.number()).or_default().id = None;
                }
                Event::PeerRestarted(_) => panic!("a session was lost"),
                _ => {}
            }
        }
        let numbers: Vec<_> = self.users.keys().copied().collect();
        for number in numbers {
            if given_up.contains(&number)
                && self.users[&number].id.is_some_and(|id| self.endpoint.stream_stats(id).is_none())
            {
                self.users.entry(number).or_default().id = None;
            }
            self.read(now, 1 - index, number);
            self.write(now, index, number);
        }
    }

    fn read(&mut self, now: Instant, far: usize, number: u64) {
        let Some(user) = self.users.get_mut(&number) else { return };
        let Some(id) = user.id.filter(|_| !self.stalled) else { return };
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = self.endpoint.readable(id, &mut slices);
            let length = slices[..filled].iter().map(|slice| slice.len()).sum::<usize>();
            if length == 0 {
                break;
            }
            for slice in &slices[..filled] {
                let wrong = pattern::count_wrong(pattern_of(far, number), user.read, slice);
                assert_eq!(wrong, 0, "wrong bytes on stream {number} after {}", user.read);
                user.read += slice.len() as u64;
            }
            self.endpoint.consume(now, id, length);
        }
        user.read_finished |= self.endpoint.is_read_finished(id);
    }

    fn write(&mut self, now: Instant, own: usize, number: u64) {
        let Some(user) = self.users.get_mut(&number) else { return };
        let Some(id) = user.id else { return };
        user.finish |= self.ending;
        while user.offered > 0 {
            let length = user.offered.min(4096).min(self.endpoint.write_space(id) as u64);
            let mut bytes = vec![0; length as usize];
            pattern::fill(pattern_of(own, number), user.written, &mut bytes);
            let taken = self.endpoint.write(now, id, &bytes) as u64;
            if taken == 0 {
                break;
            }
            user.written += taken;
            user.offered -= taken;
        }
        if user.offered == 0 && user.finish && !user.finished {
            user.finished = true;
            self.endpoint.finish(now, id);
        }
    }
}
