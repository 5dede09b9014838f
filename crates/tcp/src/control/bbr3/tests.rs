//! What draft-ietf-ccwg-bbr demands (repository head of 2026-08-03), section by section, and its example test cases
//! (appendix A).

use super::probe_bw::AckPhase;
use super::*;
use crate::control::testing::{MSS, Path, ack};
use crate::profile::Profile;
use std::collections::BTreeSet;

fn control() -> Bbr3 {
    Bbr3::new(&Config { mss: MSS, ..Config::new(Profile::Linux) })
}

fn path(rtt: u64, segments_per_second: f64) -> Path {
    Path::new(Box::new(control()), 10.0, Duration::from_millis(rtt), segments_per_second)
}

fn window(cwnd: f64) -> Window {
    Window { cwnd, ssthresh: f64::INFINITY }
}

/// 1 MB/s over 100 ms, 100 kB in flight, of data sent when 500 kB had been delivered.
fn sample() -> RateSample {
    RateSample {
        delivered: 100_000,
        interval: Duration::from_millis(100),
        prior_delivered: 500_000,
        total_delivered: 600_000,
        total_lost: 0,
        lost: 0,
        in_flight_at_send: 100_000,
        is_app_limited: false,
        is_reliable: true,
    }
}

/// The segment `number`, of the 120 in flight when it was sent the one that makes `lost` bytes lost.
fn lost(number: u64, lost: u64) -> LostSegment {
    let mss = u64::from(MSS);
    LostSegment {
        seq: number * mss,
        end: (number + 1) * mss,
        in_flight_at_send: 120_000,
        lost,
        is_app_limited: false,
        total_delivered: 500_000,
    }
}

/// A control that fills 1 MB/s over 100 ms, in `state`.
fn filled(state: State) -> Bbr3 {
    let mut control = control();
    control.state = state;
    control.full_pipe.is_reached = true;
    control.cycle_max = [1e6, 0.0];
    control.bandwidth = 1e6;
    control.pacing.rate = 1e6;
    let at = Instant::ZERO;
    control.min_rtt = MinRtt { value: 0.1, at, probe_value: 0.1, probe_at: at, is_expired: false };
    control
}

/// An acknowledgement with `rate`, of a recovery that is at `state`.
fn answer(state: LossState, rate: RateSample) -> Ack {
    Ack { rate: Some(rate), state, in_flight: 250_000, ..ack(1) }
}

/// Section 5.3.1.1, and appendix A on the plateau.
#[test]
fn startup_doubles_each_round_and_its_queue_stays_within_one_and_a_half_products() {
    let mut path = path(100, 10_000.0);
    path.run(Duration::from_millis(200));
    let before = path.round().cwnd;
    let after = (0..4).map(|_| path.round().cwnd).last().expect("four");
    // Sixteen times, less what the pacing margin takes.
    assert!((11.0..=17.0).contains(&(after / before)), "{before} {after}");
    while path.control.phase(&path.window) == "startup" {
        assert!(path.flight() < 2_500_000, "{}", path.flight());
        path.round();
    }
}

/// Section 5.3.1.2.
#[test]
fn three_rounds_in_which_the_rate_grows_by_less_than_a_quarter_end_startup() {
    for (growth, app_limited, ends) in [(1.24, false, true), (1.26, false, false), (1.0, true, false)] {
        let mut control = control();
        let mut rate = 1e5;
        for round in 0..4 {
            let (prior_delivered, delivered) = (round * 100_000, rate as u64 / 10);
            let sample = RateSample { prior_delivered, delivered, is_app_limited: app_limited, ..sample() };
            let sample = RateSample { total_delivered: prior_delivered + 100_000, ..sample };
            control.on_ack(&answer(LossState::Open, sample), &mut window(100.0));
            // Compared with the baseline, not with the round before.
            rate = 1e5 * if growth > 1.25 { f64::powi(growth, round as i32 + 1) } else { growth };
        }
        assert_eq!(control.full_pipe.is_reached, ends, "{growth} {app_limited}");
        assert_eq!(control.state != State::Startup, ends);
    }
}

/// A startup whose round of losses ends: `losses` as numbers of segments, in fast recovery for a whole round or not.
fn startup_after(losses: &[u64], is_whole_round: bool) -> Bbr3 {
    let mut control = control();
    let mut window = window(120.0);
    let connected = Start {
        now: Instant::ZERO,
        mss: MSS,
        rtt: Some(Duration::from_millis(100)),
        receive_window: 1 << 30,
        has_sack: true,
    };
    control.on_connected(&connected, &mut window);
    control.on_loss(&ack(1).loss(120), &mut window);
    for (at, number) in losses.iter().enumerate() {
        control.on_segment_lost(Instant::ZERO, &lost(*number, 1_000 * (at as u64 + 1)), &mut window);
    }
    let (first, second) = if is_whole_round { (LossState::Recovery, 500_000) } else { (LossState::Open, 600_000) };
    let begun = RateSample { prior_delivered: 400_000, total_delivered: 500_000, ..sample() };
    control.on_ack(&answer(first, begun), &mut window);
    let total_lost = 1_000 * losses.len() as u64;
    let end =
        RateSample { prior_delivered: second - 100_000 * u64::from(!is_whole_round), lost: total_lost, ..sample() };
    control.on_ack(&answer(LossState::Recovery, end), &mut window);
    control
}

/// Section 5.3.1.3.
#[test]
fn six_ranges_of_a_whole_round_of_recovery_end_startup_where_more_than_two_hundredths_are_lost() {
    let apart: Vec<u64> = (0..6).map(|range| 10 * range).collect();
    let control = startup_after(&apart, true);
    assert_eq!((control.state, control.undo.state), (State::Drain, Some(State::Startup)));
    assert!(control.full_pipe.is_reached);
    assert_eq!(control.bounds.long_term, 100e3, "the largest volume that was delivered in a round");
    assert_eq!(startup_after(&apart[..5], true).state, State::Startup, "five ranges");
    let together: Vec<u64> = (0..12).collect();
    assert_eq!(startup_after(&together, true).state, State::Startup, "one range of twelve segments");
}

/// Section 5.3.1.3: the round must lie in the recovery.
#[test]
fn losses_of_a_round_that_began_before_the_recovery_do_not_end_startup() {
    let mut control = startup_after(&[0, 10, 20, 30, 40, 50], true);
    control.state = State::Startup;
    control.full_pipe.is_reached = false;
    control.bounds = Bounds::NONE;
    // A second recovery begins within a round of losses.
    control.loss = LossRound { ranges: 6, has_loss: true, delivered: 650_000, ..control.loss };
    control.rounds.delivered = 700_000;
    let window = &mut window(120.0);
    let late = RateSample { prior_delivered: 660_000, total_delivered: 760_000, lost: 6_000, ..sample() };
    control.on_ack(&answer(LossState::Open, RateSample { prior_delivered: 600_000, ..late }), window);
    control.loss.ranges = 6;
    control.on_ack(&answer(LossState::Recovery, late), window);
    assert_eq!(control.state, State::Startup);
}

/// Section 2.2 (`C.has_selective_acks`) and section 5.3.1.3: what counts is what both ends agreed on.
#[test]
fn without_sack_one_loss_in_recovery_ends_startup() {
    for (has_sack, state) in [(false, State::Drain), (true, State::Startup)] {
        let mut control = control();
        let mut window = window(120.0);
        let start = Start { now: Instant::ZERO, mss: MSS, rtt: None, receive_window: 1 << 30, has_sack };
        control.on_connected(&start, &mut window);
        control.on_segment_lost(Instant::ZERO, &lost(1, 1_000), &mut window);
        control.on_ack(&answer(LossState::Recovery, RateSample { lost: 1_000, ..sample() }), &mut window);
        assert_eq!(control.state, state, "{has_sack}");
    }
}

/// Section 5.3.2: by what is in flight, or by time.
#[test]
fn drain_ends_at_the_product_or_in_the_fourth_round() {
    let ends = |in_flight: u64, rounds: u64| {
        let mut control = filled(State::Drain);
        (control.rounds.count, control.drain_start) = (7 + rounds, 7);
        control.check_drain(&Ack { in_flight, ..ack(1) });
        control.state == State::Down
    };
    assert!(ends(100_000, 0) && ends(150_000, 4));
    assert!(!ends(101_000, 0) && !ends(150_000, 3));
}

/// Section 5.3.3 and appendix A: the cycle is gone through whole.
#[test]
fn it_goes_through_the_states_of_the_cycle() {
    let mut path = path(100, 1_000.0);
    let mut seen = BTreeSet::new();
    for _ in 0..40_000 {
        path.step();
        seen.insert(path.control.phase(&path.window));
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

/// Section 5.3.3.8: two to three seconds, or 62 to 63 rounds, or as many rounds as there are packets in flight.
#[test]
fn a_probe_comes_after_a_time_or_after_as_many_rounds_as_reno_would_take() {
    let mut seen = BTreeSet::new();
    let mut control = filled(State::Cruise);
    for _ in 0..100 {
        control.go_down(Instant::ZERO);
        let wait = control.probe.wait.as_secs_f64();
        assert!((2.0..3.0).contains(&wait), "{wait}");
        seen.insert(control.probe.rounds_since_up as u64);
    }
    assert_eq!(seen, BTreeSet::from([0, 1]));
    control.probe.wait = Duration::from_secs(2);
    let mut is_due = |rounds: f64, seconds: u64, cwnd: f64| {
        control.probe.rounds_since_up = rounds;
        control.is_time_to_probe(Instant::ZERO + Duration::from_millis(seconds * 1_000 + 1), &window(cwnd))
    };
    assert!(is_due(0.0, 2, 100.0) && !is_due(0.0, 1, 100.0));
    assert!(is_due(63.0, 0, 100.0) && !is_due(62.0, 0, 100.0));
    assert!(is_due(20.0, 0, 20.0) && !is_due(19.0, 0, 20.0));
}

/// Section 5.3.3.5 and appendix A (bandwidth increased tenfold): the bound grows by 1, 2, 4… segments in successive rounds.
#[test]
fn the_long_term_bound_grows_twice_as_fast_in_each_round_of_a_probe() {
    let mut control = filled(State::Refill);
    control.bounds.long_term = 100e3;
    control.go_up(1e6, &window(100.0));
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = control.bounds.long_term;
        let window_segments = (before / 1e3) as u64;
        for acked in 1..=window_segments {
            control.rounds.is_start = acked == window_segments;
            control
                .raise_long_term(&Ack { is_window_limited: true, ..ack(1) }, &window(control.bounds.long_term / 1e3));
        }
        grown.push((control.bounds.long_term - before) / 1e3);
    }
    // The window grows with the bound, and with it what a round acknowledges.
    assert_eq!(grown, [1.0, 2.0, 4.0, 8.0]);
}

/// Section 5.3.3.6: a probe that follows one that lost too much is brief, and a full one follows it at once.
#[test]
fn a_cautious_probe_ends_at_the_bound_and_is_followed_by_a_full_one() {
    let mut control = filled(State::Up);
    control.bounds.long_term = 100e3;
    control.probe.was_too_high = true;
    control.check_up(&Ack { in_flight: 99_999, ..ack(1) }, 1e6, &window(50.0));
    assert_eq!(control.state, State::Up);
    control.check_up(&Ack { in_flight: 100_000, ..ack(1) }, 1e6, &window(50.0));
    assert_eq!((control.state, control.probe.was_precautionary), (State::Down, true));
    control.rounds.is_start = true;
    assert!(control.adapt_long_term(&ack(1), &sample(), &window(50.0)));
    assert_eq!((control.state, control.probe.was_precautionary), (State::Refill, false));
}

/// Section 5.3.3.7 and appendix A: rounds that the application limits do not end a probe.
#[test]
fn a_probe_goes_on_while_the_application_limits_it_and_nothing_is_lost() {
    for (is_app_limited, state) in [(true, State::Up), (false, State::Down)] {
        let mut control = filled(State::Refill);
        control.go_up(1e6, &window(500.0));
        for round in 0..10 {
            let prior_delivered = round * 100_000;
            let total_delivered = prior_delivered + 100_000;
            let limited = RateSample { is_app_limited, prior_delivered, total_delivered, ..sample() };
            if control.state == State::Up {
                control.on_ack(&answer(LossState::Open, limited), &mut window(500.0));
            }
        }
        assert_eq!(control.state, state);
    }
}

/// Section 5.3.4 and appendix A: entered after five seconds without a smaller round-trip time.
#[test]
fn probe_rtt_halves_what_is_in_flight_for_two_hundred_milliseconds_and_a_round() {
    let mut path = path(100, 1_000.0);
    path.run(Duration::from_secs(4));
    while path.control.phase(&path.window) != "probe-rtt" {
        path.step();
        assert!(path.now < Instant::ZERO + Duration::from_secs(11), "{:?}", path.now);
    }
    while path.flight() > 55_000 {
        path.step();
    }
    let halved = path.now;
    while path.control.phase(&path.window) == "probe-rtt" {
        path.step();
    }
    assert!(path.now.since(halved) >= Duration::from_millis(200));
    assert_eq!(path.control.phase(&path.window), "probe-bw-cruise");
}

/// Appendix A: a probe of the round-trip time before the pipe is full leads back to Startup.
#[test]
fn probe_rtt_in_startup_leads_back_to_startup() {
    let mut control = filled(State::ProbeRtt);
    control.full_pipe.is_reached = false;
    control.probe_rtt.done_at = Some(Instant::ZERO);
    control.check_probe_rtt_done(Instant::ZERO + Duration::from_millis(1), &mut window(50.0));
    assert_eq!(control.state, State::Startup);
}

/// Section 5.3.4.3: `EnterProbeRTT` comes before `SaveCwnd`, which then keeps the larger window.
#[test]
fn the_window_after_probe_rtt_is_the_largest_that_was_known_to_be_good() {
    let mut control = filled(State::Cruise);
    control.prior_window = 150.0;
    control.min_rtt.is_expired = true;
    let mut window = window(60.0);
    control.check_probe_rtt(&Ack { in_flight: 0, ..ack(1) }, &mut window);
    assert_eq!((control.state, control.prior_window), (State::ProbeRtt, 150.0));
    let done = Instant::ZERO + Duration::from_millis(201);
    control.check_probe_rtt_done(done, &mut window);
    assert_eq!((control.state, window.cwnd), (State::Cruise, 150.0));
}

/// Section 5.3.4.3: low samples of ProbeRTT count as limited by the application until all of its data are delivered.
#[test]
fn samples_of_probe_rtt_do_not_lower_the_model() {
    let mut control = filled(State::Cruise);
    control.rounds.delivered = 500_000;
    control.min_rtt.is_expired = true;
    control.check_probe_rtt(&Ack { in_flight: 50_000, ..ack(1) }, &mut window(60.0));
    let is_limited = |at: u64| control.is_app_limited(&RateSample { prior_delivered: at, ..sample() });
    assert!(!is_limited(499_999) && is_limited(500_000) && is_limited(550_000) && !is_limited(550_001));
}

/// Section 5.4.
#[test]
fn a_restart_from_idle_paces_at_the_bandwidth_or_ends_probe_rtt() {
    let mut control = filled(State::Up);
    let rate = control.pacing.rate;
    control.on_restart(Instant::ZERO, false, &mut window(50.0));
    assert_eq!((control.pacing.rate, control.restarts_from_idle), (rate, false), "a timeout");
    control.on_restart(Instant::ZERO, true, &mut window(50.0));
    assert_eq!(control.pacing.rate, 0.99e6);
    let mut control = filled(State::ProbeRtt);
    control.prior_window = 150.0;
    control.probe_rtt.done_at = Some(Instant::ZERO + Duration::from_millis(200));
    let mut window = window(50.0);
    control.on_restart(Instant::ZERO + Duration::from_millis(200), true, &mut window);
    assert_eq!((control.state, window.cwnd), (State::ProbeRtt, 50.0));
    control.on_restart(Instant::ZERO + Duration::from_millis(201), true, &mut window);
    assert_eq!((control.state, window.cwnd), (State::Cruise, 150.0));
}

/// Section 5.4 and appendix A: idleness has drained the queue.
#[test]
fn after_a_restart_from_idle_no_probe_of_the_round_trip_time_is_due() {
    for (restarts, state) in [(true, State::Cruise), (false, State::ProbeRtt)] {
        let mut control = filled(State::Cruise);
        (control.probe.start, control.probe.wait) = (Instant::ZERO, Duration::from_secs(60));
        let later =
            Ack { rtt: Some(Duration::from_millis(120)), ..answer(LossState::Open, sample()) }.at_millis(6_000.0);
        if restarts {
            control.on_restart(later.now, true, &mut window(100.0));
        }
        control.on_ack(&later, &mut window(100.0));
        assert_eq!(control.state, state);
    }
}

/// Section 5.5.1 and section 4.1.2.3: an interval that is too short gives no rate, and a round passes all the same.
#[test]
fn a_round_passes_though_its_sample_gives_no_rate() {
    let mut control = filled(State::Cruise);
    control.on_ack(&answer(LossState::Open, RateSample { is_reliable: false, ..sample() }), &mut window(100.0));
    assert_eq!((control.rounds.count, control.cycle_max), (1, [1e6, 0.0]));
}

/// Section 5.5.4 and appendix A (application-limited sending during REFILL).
#[test]
fn samples_that_the_application_limits_raise_the_bandwidth_only() {
    let mut control = filled(State::Refill);
    for (delivered, bandwidth) in [(50_000, 0.0), (150_000, 1.5e6)] {
        control.cycle_max = [0.0, 1e6];
        let limited = RateSample { delivered, is_app_limited: true, ..sample() };
        control.on_ack(&answer(LossState::Open, limited), &mut window(100.0));
        assert_eq!(control.cycle_max[0], bandwidth);
    }
}

/// Section 5.5.6: the largest rate of this cycle and of the one before.
#[test]
fn the_bandwidth_is_forgotten_after_two_cycles() {
    let mut control = filled(State::Down);
    let mut seen = Vec::new();
    for rate in [1e5, 1e5] {
        control.probe.ack_phase = AckPhase::Stopping;
        control.rounds.is_start = true;
        control.adapt_long_term(&ack(1), &sample(), &window(100.0));
        control.cycle_max[0] = rate;
        seen.push(control.max_bandwidth());
    }
    assert_eq!(seen, [1e6, 1e5]);
}

/// Section 5.5.10.2: of 120 segments in flight the third that is lost, counted as part of those in flight before it.
#[test]
fn a_probe_that_loses_more_than_two_hundredths_bounds_the_volume_and_goes_down() {
    for (lost_bytes, state) in [(2_000, State::Up), (3_000, State::Down)] {
        let mut control = filled(State::Up);
        control.probe.is_sample = true;
        control.on_segment_lost(Instant::ZERO, &lost(7, lost_bytes), &mut window(100.0));
        let at_threshold = 119_000.0 + (0.02 * 119_000.0 - 2_000.0) / 0.98;
        let bound = if state == State::Up { f64::INFINITY } else { at_threshold };
        assert_eq!((control.bounds.long_term, control.state), (bound, state));
        assert_eq!(control.probe.was_too_high, state == State::Down);
    }
}

/// Section 5.5.10.2: once for each probe, and never below 0.7 of what is wanted in flight.
#[test]
fn a_probe_is_answered_once_and_by_three_tenths_at_most() {
    let mut control = filled(State::Up);
    control.probe.is_sample = true;
    let early = LostSegment { in_flight_at_send: 10_000, ..lost(7, 1_000) };
    control.on_segment_lost(Instant::ZERO, &early, &mut window(100.0));
    assert_eq!(control.bounds.long_term, 70e3);
    control.on_segment_lost(Instant::ZERO, &lost(8, 50_000), &mut window(10.0));
    assert_eq!(control.bounds.long_term, 70e3);
}

/// Section 5.5.10.2 and appendix A: losses end a probe that the application limits, and leave the bound as it is.
#[test]
fn losses_end_a_probe_that_the_application_limits() {
    let mut control = filled(State::Up);
    control.probe.is_sample = true;
    let limited = LostSegment { is_app_limited: true, ..lost(7, 3_000) };
    control.on_segment_lost(Instant::ZERO, &limited, &mut window(100.0));
    assert_eq!((control.bounds.long_term, control.state), (f64::INFINITY, State::Down));
}

/// Section 5.5.10.3.
#[test]
fn losses_lower_the_bounds_by_three_tenths_a_round_at_most_and_a_refill_forgets_them() {
    let mut control = control();
    control.state = State::Cruise;
    control.cycle_max = [100e3, 0.0];
    control.loss.has_loss = true;
    control.adapt_to_losses(&window(100.0));
    assert!((control.bounds.bandwidth - 70e3).abs() < 1.0 && (control.bounds.short_term - 70e3).abs() < 1.0);
    control.loss = LossRound { has_loss: true, bandwidth: 65e3, volume: 60e3, ..control.loss };
    control.adapt_to_losses(&window(100.0));
    assert_eq!((control.bounds.bandwidth, control.bounds.short_term), (65e3, 60e3));
    control.refill();
    assert!(control.bounds.bandwidth.is_infinite() && control.bounds.short_term.is_infinite());
}

/// Section 5.5.11.2 and appendix A on spurious recoveries.
#[test]
fn a_needless_response_is_taken_back() {
    for (left, found, state) in [
        (State::Up, State::Down, State::Refill),
        (State::Up, State::ProbeRtt, State::ProbeRtt),
        (State::Startup, State::Drain, State::Startup),
        (State::Startup, State::ProbeRtt, State::ProbeRtt),
    ] {
        let mut control = filled(left);
        let mut window = window(100.0);
        control.on_loss(&ack(1).loss(100), &mut window);
        control.undo.state = Some(left);
        control.bounds = Bounds { bandwidth: 0.5e6, short_term: 40e3, long_term: 50e3 };
        (control.state, window.cwnd) = (found, 50.0);
        control.on_spurious(Instant::ZERO, &mut window);
        assert_eq!((control.state, window.cwnd), (state, 100.0));
        assert!(control.bounds.long_term.is_infinite() && control.bounds.bandwidth.is_infinite());
        assert_eq!(control.full_pipe.is_reached, left == State::Up);
    }
}

/// Section 5.6.4.2: without a round-trip time the initial window is what may be in flight, whatever the gain.
#[test]
fn before_the_first_round_trip_time_the_initial_window_is_the_most() {
    let mut control = control();
    control.full_pipe.is_reached = true;
    let mut window = window(50.0);
    control.set_window(&ack(1), &mut window);
    assert_eq!(window.cwnd, 10.0);
}

/// Section 5.6.4.3 and appendix A on products below a packet.
#[test]
fn four_segments_are_the_least_window() {
    let mut path = path(10, 20.0);
    path.run(Duration::from_secs(30));
    for _ in 0..200 {
        path.step();
        assert!(path.window.cwnd >= 4.0, "{}", path.window.cwnd);
    }
    assert!(path.run(Duration::from_secs(30)) > 0.9 * 20.0 * 30.0);
}

/// Appendix A.
#[test]
fn it_finds_ten_times_the_bandwidth() {
    let mut path = path(50, 500.0);
    path.run(Duration::from_secs(10));
    path.capacity = 5_000.0;
    path.run(Duration::from_secs(15));
    let found = path.run(Duration::from_secs(5));
    assert!(found > 0.85 * 25_000.0, "{found}");
}

/// Section 5.3.4.2: what ProbeRTT costs.
#[test]
fn it_uses_the_bandwidth_at_every_round_trip_time_but_for_the_time_it_measures_that() {
    for rtt in [10, 100, 550] {
        let mut path = path(rtt, 1_000.0);
        path.run(Duration::from_secs(10));
        let share = path.run(Duration::from_secs(60)) / 60_000.0;
        // Twelve times half the window, for 200 ms or a round trip and the time to get there.
        let silent = 12.0 * 0.5 * (0.2_f64.max(rtt as f64 / 1e3) + rtt as f64 / 1e3) / 60.0;
        assert!(share >= 0.95 * (1.0 - silent), "{rtt} {share} {silent}");
    }
}
