//! Two connections, and a network that loses, delays and repeats what a schedule says: what must hold with every recovery, every
//! congestion control and every profile, whatever the schedule.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::sync::Arc;
use tcp::control::{CONTROLS, LossState};
use tcp::recovery::RECOVERIES;
use tcp::{Allocation, Capacity, Config, Connection, Event, Failure, Flags, Profile, Segment};
use testkit::Agenda;
use units::{Duration, Instant, Rate};

/// The delay one way of what nothing happens to.
const DELAY: Duration = Duration::from_millis(40);

/// What happens to a segment.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Arrives,
    Lost,
    /// So many milliseconds later than others.
    Late(u64),
    /// As it should, and again so many milliseconds later.
    Repeated(u64),
}

/// What happens to the first segments of one direction; the later ones arrive.
fn schedule() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        5 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        2 => (1u64..300).prop_map(Fate::Late),
        1 => (0u64..900).prop_map(Fate::Repeated),
    ];
    let bursts = prop::collection::vec((fate, 1usize..5), 0..25);
    bursts.prop_map(|bursts| bursts.into_iter().flat_map(|(fate, times)| std::iter::repeat_n(fate, times)).collect())
}

/// One end: what it sent to whom, and what its user has read.
struct End {
    connection: Connection,
    fates: Vec<Fate>,
    sent: usize,
    read: u64,
    /// The end of what it has sent, and the right edge of the window that it was told.
    sent_to: u64,
    edge: u64,
    failure: Option<Failure>,
    has_closed: u32,
    has_peer_finished: u32,
}

struct Network {
    now: Instant,
    ends: [End; 2],
    on_the_way: Agenda<(usize, Segment)>,
    mss: f64,
    /// Duplicates open the window during a recovery (RFC 5681, section 3.2, step 4; all of ns-2's agents), by more than is told of it.
    inflates: bool,
    /// The least congestion window. ns-2's agents halve one of a packet, and Vegas deflates it to nothing after a timeout (`slowdown`
    /// in tcp.cc, `recv` in tcp-vegas.cc, ns-2 2.35).
    least_cwnd: f64,
    /// The tail of what was sent is probed.
    probes: bool,
}

impl Network {
    fn new(config: Config, fates: [Vec<Fate>; 2], bytes: [u64; 2]) -> Self {
        let (mss, inflates) = (f64::from(config.mss), config.bare || !config.recovery.needs_sack);
        let least_cwnd = if config.bare { 0.0 } else { 1.0 };
        let probes = config.recovery.by_time;
        let config = Arc::new(config);
        let connections = [Connection::connect(config.clone(), Instant::ZERO), Connection::listen(config.clone())];
        let mut fates = fates.into_iter();
        let mut ends = connections.map(|connection| End {
            connection,
            fates: fates.next().unwrap_or_default(),
            sent: 0,
            read: 0,
            sent_to: 0,
            edge: 0,
            failure: None,
            has_closed: 0,
            has_peer_finished: 0,
        });
        for (end, bytes) in ends.iter_mut().zip(bytes) {
            assert_eq!(end.connection.write(bytes), bytes);
            end.connection.finish();
        }
        Self { now: Instant::ZERO, ends, on_the_way: Agenda::new(), mss, inflates, least_cwnd, probes }
    }

    /// Until nothing is left to happen.
    fn run(&mut self) -> Result<(), String> {
        let mut at_this_instant = 0;
        loop {
            self.exchange()?;
            let timers = self.ends.iter().filter_map(|end| end.connection.next_timeout()).min();
            if timers.is_some_and(|at| at < self.now) {
                return Err(format!("a timer in the past: {timers:?} at {:?}", self.now));
            }
            let Some(next) = [timers, self.on_the_way.next_timeout()].into_iter().flatten().min() else {
                return Ok(());
            };
            at_this_instant = if next > self.now { 0 } else { at_this_instant + 1 };
            if at_this_instant > 300 {
                return Err(format!("time stands still at {next:?}"));
            }
            if next > Instant::ZERO + Duration::from_secs(7_200) {
                return Err(format!("no end in sight: {timers:?} {:?}", self.ends[0].connection.metrics()));
            }
            self.now = next;
            if let Some((to, segment)) = self.on_the_way.poll(next) {
                self.arrive(to, &segment);
            } else {
                let due = self.ends.iter_mut().filter(|end| end.connection.next_timeout().is_some_and(|at| at <= next));
                due.for_each(|end| end.connection.handle_timeout(next));
            }
        }
    }

    fn arrive(&mut self, to: usize, segment: &Segment) {
        if segment.has(Flags::ACK) {
            self.ends[to].edge = self.ends[to].edge.max(segment.ack + u64::from(segment.window));
        } else if segment.has(Flags::SYN) {
            self.ends[to].edge = 1 + u64::from(segment.window);
        }
        self.ends[to].connection.handle_segment(self.now, segment);
    }

    /// The users read, and what may leave does.
    fn exchange(&mut self) -> Result<(), String> {
        for from in [0, 1] {
            self.serve_user(from);
            let mut burst = 0;
            while let Some(segment) = self.ends[from].connection.poll_transmit(self.now) {
                self.check(from, &segment, burst == 0)?;
                self.send(from, segment);
                burst += 1;
                if burst > 10_000 {
                    return Err(format!("it sends without end at {:?}", self.now));
                }
            }
        }
        Ok(())
    }

    fn serve_user(&mut self, number: usize) {
        let end = &mut self.ends[number];
        while let Some(event) = end.connection.poll_event() {
            match event {
                Event::Failed(failure) => end.failure = Some(failure),
                Event::Closed => end.has_closed += 1,
                Event::PeerFinished => end.has_peer_finished += 1,
                _ => {}
            }
        }
        end.read += end.connection.read(self.now, u64::MAX);
    }

    /// New data stay within the peer's window and the congestion window, which is a segment at least.
    fn check(&mut self, from: usize, segment: &Segment, is_first: bool) -> Result<(), String> {
        let end = &mut self.ends[from];
        let metrics = end.connection.metrics();
        let window = metrics.window;
        if !(window.cwnd >= self.least_cwnd && window.cwnd.is_finite() && window.ssthresh >= 1.0) {
            return Err(format!("{window:?}"));
        }
        if metrics.in_flight > metrics.flight {
            return Err(format!("more in flight than outstanding: {metrics:?}"));
        }
        let to = segment.seq + u64::from(segment.len);
        let is_new = segment.len > 0 && to > end.sent_to && end.edge > 0;
        end.sent_to = end.sent_to.max(to);
        if is_new && to > end.edge {
            return Err(format!("beyond the window that ends at {}: {segment:?}", end.edge));
        }
        // Limited Transmit sends two segments beyond the congestion window (RFC 3042), a tail loss probe one, alone and whatever the window
        // (RFC 8985, section 7.3).
        let most = (window.cwnd + 3.0) * self.mss + 1.0;
        let is_told = !self.inflates || metrics.state == LossState::Open;
        let may_probe = self.probes && is_first;
        if is_new && is_told && !may_probe && metrics.in_flight as f64 > most {
            return Err(format!("beyond the congestion window: {metrics:?}"));
        }
        Ok(())
    }

    fn send(&mut self, from: usize, segment: Segment) {
        let end = &mut self.ends[from];
        let fate = end.fates.get(end.sent).copied().unwrap_or(Fate::Arrives);
        end.sent += 1;
        let arrival = self.now + DELAY;
        let late = |millis| arrival + Duration::from_millis(millis);
        let (first, second) = match fate {
            Fate::Arrives => (Some(arrival), None),
            Fate::Lost => (None, None),
            Fate::Late(millis) => (Some(late(millis)), None),
            Fate::Repeated(millis) => (Some(arrival), Some(late(millis))),
        };
        for at in [first, second].into_iter().flatten() {
            self.on_the_way.insert(at, (1 - from, segment));
        }
    }
}

/// Every valid configuration of a recovery, a control and a profile.
fn configs() -> impl Iterator<Item = Config> {
    let capacity = Some(Capacity::new(Allocation::new(Rate::from_bps(5_000_000), 1), DELAY * 2));
    RECOVERIES.iter().flat_map(move |recovery| {
        CONTROLS.iter().flat_map(move |control| {
            [Profile::Rfc, Profile::Linux, Profile::Ns2].into_iter().filter_map(move |profile| {
                let config = Config { recovery, control, capacity, ..Config::new(profile) };
                config.validate().is_ok().then_some(config)
            })
        })
    })
}

/// What may end a connection where nobody resets or aborts.
fn is_lawful(failure: Failure) -> bool {
    matches!(failure, Failure::ConnectTimedOut | Failure::RetransmissionTimedOut)
}

fn judge(network: &Network, bytes: [u64; 2]) -> Result<(), String> {
    let failures = network.ends.iter().filter_map(|end| end.failure).collect::<Vec<_>>();
    for (end, bytes) in network.ends.iter().zip([bytes[1], bytes[0]]) {
        if end.read != end.connection.received() || end.read > bytes {
            return Err(format!("{} bytes were read of {} that were sent", end.read, bytes));
        }
        if failures.is_empty() && (end.read < bytes || end.has_closed != 1 || !end.connection.is_closed()) {
            return Err(format!("{} of {bytes} bytes arrived, closed {} times", end.read, end.has_closed));
        }
        if end.has_peer_finished > 1 {
            return Err("the end was told twice".to_owned());
        }
    }
    // The reset that follows a failure is the peer's reason.
    match failures.iter().find(|failure| !is_lawful(**failure) && **failure != Failure::Reset) {
        Some(failure) => Err(format!("{failure}")),
        None => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(793), failure_persistence: None, ..ProptestConfig::default() })]

    /// Both directions deliver every byte once and in order and close once, or the connection fails by name; no timer lies in the
    /// past, time does not stand still, and in the end nothing is left to happen.
    #[test]
    fn every_byte_arrives_once_whatever_is_lost_late_or_repeated(
        forth in schedule(),
        back in schedule(),
        bytes in 1u64..80_000,
        answer in 0u64..20_000,
    ) {
        // Those of ns-2 are one-way: the next test has them.
        for config in configs().filter(|config| !config.bare) {
            let name = format!("{} {} {:?}", config.recovery.name, config.control.name, config.profile);
            let mut network = Network::new(config, [forth.clone(), back.clone()], [bytes, answer]);
            let run = network.run();
            prop_assert!(run.is_ok(), "{}: {:?}", name, run);
            let verdict = judge(&network, [bytes, answer]);
            prop_assert!(verdict.is_ok(), "{}: {:?}", name, verdict);
        }
    }
}

#[test]
fn without_faults_every_byte_arrives_and_none_leaves_twice() {
    for config in configs() {
        let name = format!("{} {} {:?}", config.recovery.name, config.control.name, config.profile);
        let mut network = Network::new(config, [Vec::new(), Vec::new()], [30_000, 0]);
        assert_eq!(network.run(), Ok(()), "{name}");
        assert_eq!(network.ends[1].read, 30_000, "{name}");
        let counters = network.ends[0].connection.metrics().counters;
        assert_eq!((counters.retransmissions, counters.timeouts), (0, 0), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, rng_seed: RngSeed::Fixed(235), failure_persistence: None, ..ProptestConfig::default() })]

    /// In the profile of ns-2 connections are one-way, have no FIN and never give up: what is written arrives.
    #[test]
    fn in_the_profile_of_ns2_every_byte_arrives_whatever_is_lost_late_or_repeated(
        forth in schedule(),
        back in schedule(),
        bytes in prop_oneof![Just(1u64), 1u64..6_000, 1u64..80_000],
    ) {
        for config in configs().filter(|config| config.bare) {
            let name = format!("{} {}", config.recovery.name, config.control.name);
            let mut network = Network::new(config, [forth.clone(), back.clone()], [bytes, 0]);
            let run = network.run();
            prop_assert!(run.is_ok(), "{}: {:?}", name, run);
            let verdict = judge(&network, [bytes, 0]);
            prop_assert!(verdict.is_ok(), "{}: {:?}", name, verdict);
        }
    }
}

/// ns-2's Vegas has the first segment in the first packet, which here is the SYN. An end that writes nothing sends nothing (`sendmsg` in
/// tcp.cc of ns-2 2.35: no bytes are no packets).
#[test]
fn a_transfer_of_one_byte_is_over_for_both_ends_with_each_agent_of_ns2() {
    for config in configs().filter(|config| config.bare) {
        let name = format!("{} {}", config.recovery.name, config.control.name);
        let mut network = Network::new(config, [Vec::new(), Vec::new()], [1, 0]);
        assert_eq!(network.run(), Ok(()), "{name}");
        assert_eq!(judge(&network, [1, 0]), Ok(()), "{name}");
        assert!(network.now <= Instant::ZERO + DELAY * 4, "{name}: {:?}", network.now);
        assert_eq!(network.ends[1].connection.metrics().counters.data_segments, 0, "{name}");
    }
}
