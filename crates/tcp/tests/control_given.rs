//! A congestion control of the caller's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tcp::control::{Ack, Control, Loss};
use tcp::{Config, Connection, ControlError, Fault, Flags, Profile, RecoveryKind, SavedPath, Segment, Window};
use units::{Bytes, Duration, Instant, Rate};

/// A window of so many segments, whatever happens.
#[derive(Debug)]
struct Still(f64);

impl Control for Still {
    fn on_ack(&mut self, _: &Ack, window: &mut Window) {
        window.cwnd = self.0;
    }

    fn grow(&mut self, _: &Ack, _: &mut Window) {}

    fn on_loss(&mut self, _: &Loss, _: &mut Window) {}

    fn on_timeout(&mut self, _: &Loss, _: &mut Window) {}

    fn governs_window(&self) -> bool {
        true
    }
}

fn client(config: Config) -> Connection {
    Connection::connect(Arc::new(config), Instant::ZERO)
}

#[test]
fn a_connection_follows_the_control_that_it_is_given() {
    let config = Arc::new(Config::new(Profile::Rfc));
    let mut ends = [Connection::connect(Arc::clone(&config), Instant::ZERO), Connection::listen(config)];
    ends[0].set_control(Box::new(Still(3.0))).expect("it has not begun");
    ends[0].write(1_000_000);
    let mut now = Instant::ZERO;
    let mut most = 0;
    for _ in 0..10 {
        let follows = ends[0].window().cwnd == 3.0;
        let [flight, _] = [0, 1].map(|from| {
            let mut segments = Vec::new();
            while let Some(segment) = ends[from].poll_transmit(now) {
                segments.push(segment);
            }
            now += Duration::from_millis(250);
            segments.iter().for_each(|segment| ends[1 - from].handle_segment(now, segment));
            ends[1 - from].read(now, u64::MAX);
            segments.len()
        });
        if follows {
            most = most.max(flight);
        }
    }
    assert_eq!((ends[0].window().cwnd, most), (3.0, 3));
}

#[test]
fn a_control_that_cannot_be_is_refused_with_the_reason() {
    let rfc = || Config::new(Profile::Rfc);
    let refused = |mut connection: Connection| connection.set_control(Box::new(Still(3.0))).expect_err("it cannot be");
    assert_eq!(refused(client(Config::new(Profile::Ns2))), ControlError::Ns2);
    let fault = |config| match refused(client(config)) {
        ControlError::Config(error) => error.faults[0].clone(),
        other => panic!("{other}"),
    };
    let recovery = RecoveryKind::by_name("reno").expect("known");
    assert!(matches!(fault(Config { recovery, ..rfc() }), Fault::WindowRuledTwice { recovery: "reno", .. }));
    let resume = Some(SavedPath { cwnd: Bytes::new(100_000), rtt: Duration::from_millis(500) });
    assert!(matches!(fault(Config { resume, ..rfc() }), Fault::ResumeGoverned { .. }));

    let mut begun = client(rfc());
    let syn = begun.poll_transmit(Instant::ZERO).expect("a SYN");
    let answer = Segment { flags: Flags::SYN.with(Flags::ACK), ack: 1, seq: 0, ..syn };
    begun.handle_segment(Instant::ZERO + Duration::from_millis(500), &answer);
    assert_eq!(refused(begun), ControlError::HasBegun);
}

/// A control may set any window: the receiver's is what counts then.
#[test]
fn a_window_beyond_all_bounds_is_no_fault() {
    for (profile, window) in [(Profile::Linux, 1e10), (Profile::Linux, 1e30), (Profile::Rfc, f64::INFINITY)] {
        let config = Arc::new(Config { pacing: true, ..Config::new(profile) });
        let mut ends = [Connection::connect(Arc::clone(&config), Instant::ZERO), Connection::listen(config)];
        ends[0].set_control(Box::new(Still(window))).expect("it has not begun");
        ends[0].write(1_000_000);
        let mut now = Instant::ZERO;
        let mut sent = 0;
        for step in 0..1_000 {
            now += Duration::from_millis(25);
            let mut flying = Vec::new();
            for from in [0, 1] {
                ends[from].handle_timeout(now);
                while let Some(segment) = ends[from].poll_transmit(now) {
                    // Some are lost.
                    sent += 1;
                    flying.extend((step < 10 || sent % 50 > 0).then_some((from, segment)));
                }
            }
            flying.iter().for_each(|(from, segment)| ends[1 - from].handle_segment(now, segment));
            ends[1].read(now, u64::MAX);
        }
        assert_eq!(ends[1].received(), 1_000_000, "{profile:?} {window}");
    }
}

/// A window that paces: three segments for two round trips, and then far more than leave in one. Notes whether the window limits.
#[derive(Debug)]
struct Paced {
    acked: u64,
    is_limited: Arc<AtomicBool>,
}

impl Control for Paced {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.acked += ack.acked;
        window.cwnd = if self.acked <= 6_000 { 3.0 } else { 1_000.0 };
        self.is_limited.store(ack.is_window_limited, Relaxed);
    }

    fn grow(&mut self, _: &Ack, _: &mut Window) {}

    fn on_loss(&mut self, _: &Loss, _: &mut Window) {}

    fn on_timeout(&mut self, _: &Loss, _: &mut Window) {}

    fn pacing_rate(&self, _: &Window) -> Option<Rate> {
        Some(Rate::from_bps(400_000))
    }

    fn governs_window(&self) -> bool {
        true
    }
}

/// A sender that waits for its pacer is not limited by a window with room, though it was before.
#[test]
fn a_window_above_what_is_paced_does_not_limit_for_longer_than_a_round_trip() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let is_limited = Arc::new(AtomicBool::new(false));
        let mut end = client(Config { mss: 1_000, initial_window: 3.0, ..Config::new(profile) });
        end.set_control(Box::new(Paced { acked: 0, is_limited: Arc::clone(&is_limited) })).expect("it has not begun");
        end.write(1_000_000);
        let syn = end.poll_transmit(Instant::ZERO).expect("a SYN");
        let mut now = Instant::ZERO + Duration::from_millis(100);
        let answer = Segment { flags: Flags::SYN.with(Flags::ACK), ack: 1, seq: 0, ..syn };
        end.handle_segment(now, &answer);
        let mut found = Vec::new();
        for _ in 0..6 {
            let until = now + Duration::from_millis(100);
            let mut sent = Vec::new();
            loop {
                sent.extend(std::iter::from_fn(|| end.poll_transmit(now)));
                match end.next_timeout().filter(|at| *at < until) {
                    Some(at) => now = at,
                    None => break,
                }
                end.handle_timeout(now);
            }
            now = until;
            let ack = sent.iter().map(|segment| segment.seq + u64::from(segment.len)).max().expect("data");
            end.handle_segment(now, &Segment { flags: Flags::ACK, seq: 1, ack, len: 0, ..syn });
            found.push(is_limited.load(Relaxed));
        }
        assert_eq!(found[..2], [true; 2], "{profile:?}");
        assert_eq!(found[4..], [false; 2], "{profile:?}: {found:?}");
    }
}
