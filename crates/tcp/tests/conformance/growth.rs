//! What acknowledgements, losses and timeouts make of the congestion window, by control (RFC 5681, 3465, 9438).

use super::lone::{Lone, MSS, config, seg};
use tcp::control::CONTROLS;
use tcp::{Config, ControlKind, RecoveryKind};

/// Controls whose window follows acknowledgements and losses, and no measured bandwidth or capacity.
const BY_LOSS: [&str; 7] = ["reno", "vegas", "westwood", "westwood-plus", "tibet", "hybla", "cubic"];

fn with(control: &str, config: Config) -> Config {
    Config { control: ControlKind::by_name(control).expect("known"), ..config }
}

/// So many segments are out for 100 ms.
fn out(segments: u64, config: Config) -> Lone {
    let mut end = Lone::connected(config);
    end.write(segments * u64::from(MSS));
    end.at(200);
    assert_eq!(end.data().len() as u64, segments);
    end
}

/// RFC 3465, section 2.3: one acknowledgement opens the window by what it covers, up to L segments.
#[test]
fn an_acknowledgement_opens_the_window_by_what_it_covers_up_to_the_limit() {
    for (limit, covered, gain) in
        [(1.0, 1, 1.0), (1.0, 4, 1.0), (2.0, 1, 1.0), (2.0, 2, 2.0), (2.0, 4, 2.0), (f64::INFINITY, 4, 4.0)]
    {
        let mut end = out(10, Config { slow_start_limit: Some(limit), ..config("sack") });
        end.ack(seg(covered));
        assert_eq!(end.end.window().cwnd, 10.0 + gain, "{limit} {covered}");
    }
}

/// A configured exit from slow start is every loss-based control's, and Vegas' too, beside its own.
#[test]
fn a_delay_that_rises_ends_slow_start_where_hystart_is_configured() {
    for name in ["reno", "cubic", "vegas", "westwood"] {
        let control = tcp::ControlKind::by_name(name).expect("known");
        let base = config("sack");
        for exit in [tcp::SlowStartExit::None, tcp::SlowStartExit::LinuxHyStart] {
            let tuning = tcp::Tuning { slow_start_exit: Some(exit), ..base.tuning };
            let mut end = Lone::connected(Config { control, tuning, initial_window: 32.0, ..base.clone() });
            end.write(1_000_000);
            end.at(200);
            (1..=32).for_each(|number| end.ack(seg(number)));
            end.at(330);
            (33..=48).for_each(|number| end.ack(seg(number)));
            let is_over = end.end.window().ssthresh.is_finite();
            assert_eq!(is_over, exit == tcp::SlowStartExit::LinuxHyStart, "{name} {exit:?}");
        }
    }
}

/// RFC 9406, section 4.2: HyStart++ has a limit of its own where data are not paced, unless the configuration has one.
#[test]
fn slow_start_with_hystart_opens_the_window_by_what_is_configured() {
    for (limit, pacing, gain) in [
        (None, false, 8.0),
        (None, true, 10.0),
        (Some(1.0), false, 1.0),
        (Some(2.0), false, 2.0),
        (Some(2.0), true, 2.0),
        (Some(16.0), false, 10.0),
    ] {
        let control = tcp::ControlKind::by_name("cubic").expect("known");
        let mut end = out(10, Config { slow_start_limit: limit, pacing, control, ..config("sack") });
        end.ack(seg(10));
        assert_eq!(end.end.window().cwnd, 10.0 + gain, "{limit:?} {pacing}");
    }
}

/// RFC 3465, section 2.1: in congestion avoidance a window of acknowledged bytes is a segment, however many
/// acknowledgements report it.
#[test]
fn congestion_avoidance_counts_bytes_not_acknowledgements() {
    for every in [1, 2, 5] {
        let mut end = Lone::connected(Config { initial_ssthresh: 10.0, ..config("sack") });
        end.write(100 * u64::from(MSS));
        end.at(200);
        for number in (every..=10).step_by(every as usize) {
            end.ack(seg(number));
        }
        let cwnd = end.end.window().cwnd;
        assert!((cwnd - 11.0).abs() < 0.06, "{every}: {cwnd}");
    }
}

/// RFC 5681, equation 4: half of what is outstanding, two segments at least; then slow start from one segment.
#[test]
fn a_timeout_leaves_half_of_what_is_outstanding_and_two_segments_at_least() {
    for (segments, ssthresh) in [(1, 2.0), (2, 2.0), (3, 2.0), (4, 2.0), (5, 2.5), (10, 5.0)] {
        let mut end = out(segments, config("sack"));
        end.at(1_101);
        let window = end.end.window();
        assert_eq!((window.cwnd, window.ssthresh), (1.0, ssthresh), "{segments}");
    }
}

/// RFC 9438, section 4.6: 0.7 of what is outstanding, two segments at least.
#[test]
fn cubic_leaves_seven_tenths_of_what_is_outstanding() {
    for (segments, ssthresh) in [(2, 2.0), (4, 2.8), (10, 7.0)] {
        let mut end = out(segments, with("cubic", config("sack")));
        end.at(1_101);
        let window = end.end.window();
        assert!(window.cwnd == 1.0 && (window.ssthresh - ssthresh).abs() < 1e-9, "{segments}: {window:?}");
    }
    let mut end = out(10, with("cubic", config("sack")));
    end.sack(seg(0), &[(seg(1), seg(5))]);
    assert!((end.end.window().ssthresh - 7.0).abs() < 1e-9, "{:?}", end.end.window());
}

/// RFC 5681, section 3.1: whatever a control makes of a loss, a timeout leaves one segment, and `ssthresh` two at least. Vegas begins
/// with two, so that it can compare round-trip times (Brakmo and Peterson, 1995).
#[test]
fn every_control_that_follows_losses_restarts_from_one_segment_and_vegas_from_two() {
    for control in BY_LOSS {
        for recovery in ["newreno", "sack", "rack"] {
            let recovery = RecoveryKind::by_name(recovery).expect("known");
            let mut end = Lone::connected(with(control, Config { recovery, ..config("sack") }));
            end.write(8 * u64::from(MSS));
            end.at(3_000);
            let window = end.end.window();
            let restart = if control == "vegas" { 2.0 } else { 1.0 };
            assert!(end.end.metrics().counters.timeouts >= 1, "{control} {recovery:?}");
            assert!(window.cwnd == restart && window.ssthresh >= 2.0, "{control} {recovery:?}: {window:?}");
        }
    }
    assert!(BY_LOSS.iter().all(|name| CONTROLS.iter().any(|kind| kind.name == *name)));
}

/// RFC 5681, section 3.2: duplicates are answered by at most one reduction in a window of data.
#[test]
fn losses_of_one_window_reduce_it_once() {
    for control in ["reno", "cubic"] {
        let mut end = out(10, with(control, config("sack")));
        end.sack(seg(0), &[(seg(1), seg(5))]);
        let reduced = end.end.window().ssthresh;
        end.sack(seg(0), &[(seg(6), seg(7)), (seg(1), seg(5))]);
        end.sack(seg(0), &[(seg(8), seg(10)), (seg(6), seg(7)), (seg(1), seg(5))]);
        end.at(300);
        end.sack(seg(5), &[(seg(8), seg(10)), (seg(6), seg(7))]);
        assert_eq!(end.end.window().ssthresh, reduced, "{control}");
        assert_eq!(end.end.metrics().counters.recoveries, 1, "{control}");
    }
}
