//! One connection, and a test that plays its peer.

use std::sync::Arc;
use tcp::{Config, Connection, EcnBytes, Event, Flags, Profile, SackBlocks, Segment, Timestamps};
use units::{Duration, Ecn, Instant};

/// Payload of a full segment.
pub const MSS: u32 = 1000;

/// The configuration of most tests: round numbers, no options but SACK where the recovery wants it, every segment
/// acknowledged.
pub fn config(recovery: &str) -> Config {
    let rfc = Config::new(Profile::Rfc);
    Config {
        mss: MSS,
        recovery: tcp::RecoveryKind::by_name(recovery).expect("known"),
        initial_window: 10.0,
        options: tcp::Options { timestamps: false, ..rfc.options },
        acks: tcp::AckPolicy { every: 1, ..rfc.acks },
        ..rfc
    }
}

/// The first byte of segment `number`, from 0.
pub fn seg(number: u64) -> u64 {
    1 + number * u64::from(MSS)
}

pub struct Lone {
    pub now: Instant,
    pub end: Connection,
    sent: Vec<(u64, Segment)>,
    /// What the peer advertises from now on.
    pub window: u32,
}

/// A segment without payload.
pub fn bare(flags: Flags, seq: u64, ack: u64) -> Segment {
    Segment {
        seq,
        ack,
        len: 0,
        window: 1_000_000,
        timestamps: Timestamps::default(),
        sack: SackBlocks::default(),
        flags,
        header: 40,
        ecn: Ecn::NotCapable,
        ecn_bytes: EcnBytes::default(),
    }
}

/// A SYN with the options.
pub fn syn(options: &[Flags]) -> Segment {
    options.iter().fold(bare(Flags::SYN, 0, 0), |syn, option| Segment { flags: syn.flags.with(*option), ..syn })
}

impl Lone {
    pub fn connecting(config: Config) -> Self {
        Self::connecting_at(0, config)
    }

    /// A client that sends its SYN at this time.
    pub fn connecting_at(ms: u64, config: Config) -> Self {
        let now = Instant::ZERO + Duration::from_millis(ms);
        let end = Connection::connect(Arc::new(config), now);
        let mut lone = Self { now, end, sent: Vec::new(), window: 1_000_000 };
        lone.drain();
        lone
    }

    pub fn listening(config: Config) -> Self {
        Self { now: Instant::ZERO, end: Connection::listen(Arc::new(config)), sent: Vec::new(), window: 1_000_000 }
    }

    /// A client whose handshake took 100 ms, with SACK agreed where it offers that, and nothing sent yet.
    pub fn connected(config: Config) -> Self {
        Self::connected_from(0, config)
    }

    /// The same with a SYN that was sent at this time.
    pub fn connected_from(ms: u64, config: Config) -> Self {
        let mut lone = Self::connecting_at(ms, config);
        let offer = lone.take()[0];
        lone.at(ms + 100);
        let agreed = [Flags::SACK_PERMITTED, Flags::WINDOW_SCALE, Flags::TIMESTAMPS];
        let answer =
            agreed.into_iter().filter(|option| offer.has(*option)).fold(Flags::SYN.with(Flags::ACK), Flags::with);
        lone.give(Segment { timestamps: Timestamps { value: 7, echo: 0 }, ..bare(answer, 0, 1) });
        assert_eq!(lone.take().len(), 1, "the handshake's last segment");
        assert!(lone.events().contains(&Event::Connected));
        lone
    }

    /// Lets time pass up to `ms`, with every timer in between.
    pub fn at(&mut self, ms: u64) {
        let until = Instant::ZERO + Duration::from_millis(ms);
        let mut events = 0;
        while let Some(next) = self.end.next_timeout().filter(|next| *next <= until) {
            assert!(next >= self.now, "a timer in the past: {next:?} at {:?}", self.now);
            self.now = next;
            self.end.handle_timeout(next);
            self.drain();
            events += 1;
            assert!(events < 10_000, "a busy loop at {next:?}");
        }
        self.now = self.now.max(until);
        self.drain();
    }

    pub fn ms(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    fn drain(&mut self) {
        let at = self.ms();
        while let Some(segment) = self.end.poll_transmit(self.now) {
            self.sent.push((at, segment));
            assert!(self.sent.len() < 100_000, "sends without end at {:?}", self.now);
        }
    }

    /// What was sent since the last call.
    pub fn take(&mut self) -> Vec<Segment> {
        self.take_timed().into_iter().map(|(_, segment)| segment).collect()
    }

    /// What was sent since the last call, with its milliseconds.
    pub fn take_timed(&mut self) -> Vec<(u64, Segment)> {
        std::mem::take(&mut self.sent)
    }

    /// First bytes of the data sent since the last call.
    pub fn data(&mut self) -> Vec<u64> {
        self.take().into_iter().filter(|segment| segment.len > 0).map(|segment| segment.seq).collect()
    }

    pub fn give(&mut self, segment: Segment) {
        self.end.handle_segment(self.now, &segment);
        self.drain();
    }

    pub fn write(&mut self, bytes: u64) {
        assert_eq!(self.end.write(bytes), bytes);
        self.drain();
    }

    pub fn read(&mut self, most: u64) -> u64 {
        let bytes = self.end.read(self.now, most);
        self.drain();
        bytes
    }

    pub fn finish(&mut self) {
        self.end.finish();
        self.drain();
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.end.poll_event()).collect()
    }

    /// The peer acknowledges everything before `ack`.
    pub fn ack(&mut self, ack: u64) {
        self.sack(ack, &[]);
    }

    /// The peer acknowledges everything before `ack`, and reports what it has beyond.
    pub fn sack(&mut self, ack: u64, blocks: &[(u64, u64)]) {
        let mut segment = Segment { window: self.window, ..bare(Flags::ACK, 1, ack) };
        for &(start, end) in blocks {
            segment.sack.push(ack, start..end);
        }
        if blocks.first().is_some_and(|&(start, _)| start < ack) {
            segment.flags = segment.flags.with(Flags::DSACK);
        }
        self.give(segment);
    }

    /// The peer sends `len` bytes from `seq`.
    pub fn payload(&mut self, seq: u64, len: u32) {
        self.give(Segment { len, window: self.window, ..bare(Flags::ACK, seq, 1) });
    }
}
