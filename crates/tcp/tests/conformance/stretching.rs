//! Acknowledgements of many segments at once, of parts of segments and of nothing new: what the sender makes of a receiver or a network
//! that thins, splits or repeats them (RFC 5681, sections 3.1 and 4.2; RFC 3465; RFC 6675; RFC 8985).

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{Config, ControlKind, Flags, Profile, Segment};

const RECOVERIES: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "rack"];

fn with(control: &str, config: Config) -> Config {
    Config { control: ControlKind::by_name(control).expect("known"), ..config }
}

/// The window in segments after the ten of the first window were acknowledged, `every` at a time.
fn window_after_ten(config: Config, every: u64) -> f64 {
    let mut end = Lone::connected(config);
    end.write(100_000);
    end.take();
    end.at(200);
    for number in (every..=10).step_by(every as usize) {
        end.ack(seg(number));
    }
    end.end.metrics().window.cwnd
}

/// RFC 3465, section 2.3: an acknowledgement opens the window by what it covers, and by no more than the limit.
#[test]
fn a_stretch_acknowledgement_opens_the_window_by_the_limit_at_most() {
    for (limit, every, window) in [
        (1.0, 1, 20.0),
        (1.0, 2, 15.0),
        (1.0, 5, 12.0),
        (1.0, 10, 11.0),
        (2.0, 2, 20.0),
        (2.0, 5, 14.0),
        (2.0, 10, 12.0),
        (10.0, 10, 20.0),
    ] {
        let config = Config { slow_start_limit: Some(limit), ..config("sack") };
        assert_eq!(window_after_ten(config, every), window, "{limit} {every}");
    }
}

/// Linux counts all that an acknowledgement covers (`tcp_slow_start`): thinning costs slow start nothing.
#[test]
fn in_linux_thinned_acknowledgements_leave_slow_start_as_it_is() {
    for control in ["reno", "cubic"] {
        let linux = with(control, Config { mss: MSS, initial_window: 10.0, ..Config::new(Profile::Linux) });
        for every in [1, 2, 5, 10] {
            assert_eq!(window_after_ten(linux.clone(), every), 20.0, "{control} {every}");
        }
    }
}

/// Congestion avoidance grows by a segment for each window, however that is acknowledged (RFC 5681, equation 3 and the paragraph
/// behind it).
#[test]
fn congestion_avoidance_does_not_depend_on_how_acknowledgements_are_cut() {
    for every in [1, 2, 5, 10] {
        let config = Config { initial_ssthresh: 5.0, ..config("sack") };
        let window = window_after_ten(config, every);
        assert!((window - 11.0).abs() < 0.06, "{every}: {window}");
    }
}

/// RFC 3465, section 1 (the attack of Savage et al. 1999): acknowledgements of parts of a segment open the window by bytes.
#[test]
fn splitting_acknowledgements_opens_the_window_no_faster() {
    let of = |parts: u64, config: Config| {
        let mut end = Lone::connected(config);
        end.write(100_000);
        end.take();
        end.at(200);
        for part in 1..=10 * parts {
            end.ack(1 + part * u64::from(MSS) / parts);
        }
        end.end.metrics().window.cwnd
    };
    for profile in [Profile::Rfc, Profile::Linux] {
        let config = Config { profile, ..config("sack") };
        let whole = of(1, config.clone());
        let split = of(20, config);
        assert!(split <= whole + 1e-9, "{profile:?}: {split}, not {whole}");
    }
}

/// An acknowledgement that covers a whole window lets as much leave at once as it has freed: nothing stays behind for want of further
/// ones, whatever the recovery.
#[test]
fn one_acknowledgement_for_a_window_lets_the_next_window_leave() {
    for recovery in RECOVERIES {
        let mut end = Lone::connected(Config { slow_start_limit: Some(1.0), ..config(recovery) });
        end.write(1_000_000);
        assert_eq!(end.data().len(), 10, "{recovery}");
        let mut una = 10;
        for round in 0..5 {
            end.at(200 + 100 * round);
            end.ack(seg(una));
            let sent = end.data();
            assert_eq!(sent.first(), Some(&seg(una)), "{recovery}");
            assert_eq!(end.end.metrics().in_flight, sent.len() as u64 * u64::from(MSS), "{recovery}");
            assert_eq!(sent.len() as u64, 11 + round, "{recovery}: one segment more for each acknowledgement");
            una += sent.len() as u64;
        }
        assert_eq!(end.end.metrics().counters.retransmissions, 0, "{recovery}");
    }
}

/// The sample of an acknowledgement that covers many is that of the first of them, which waited for the others (RFC 6298, section 3;
/// RFC 7323, section 4.3).
#[test]
fn the_round_trip_of_a_stretch_acknowledgement_is_that_of_the_oldest_segment() {
    let mut end = Lone::connected(config("sack"));
    end.write(1_000);
    end.at(150);
    end.write(1_000);
    end.at(180);
    end.write(1_000);
    end.at(300);
    end.ack(seg(3));
    let srtt = end.end.metrics().srtt.as_nanos() as f64 / 1e6;
    assert!((srtt - (0.875 * 100.0 + 0.125 * 200.0)).abs() < 1e-6, "{srtt}");
}

/// RFC 5681, section 2: what carries data, a FIN or another window, or acknowledges something new, is no duplicate.
#[test]
fn what_is_no_duplicate_begins_no_recovery() {
    for recovery in RECOVERIES {
        let mut end = Lone::connected(config(recovery));
        end.write(10_000);
        end.take();
        end.at(200);
        end.ack(seg(1));
        end.take();
        for number in 0..6u32 {
            // A window that moves by what has arrived, data, and the same window again.
            end.give(Segment { window: 900_000 - 1_000 * number, ..bare(Flags::ACK, 1, seg(1)) });
            end.give(Segment { len: 100, ..bare(Flags::ACK, 1 + 100 * u64::from(number), seg(1)) });
        }
        let counters = end.end.metrics().counters;
        assert_eq!((counters.recoveries, counters.retransmissions), (0, 0), "{recovery}");
    }
}

/// An acknowledgement that the network repeats or delays beyond newer ones moves nothing.
#[test]
fn acknowledgements_that_come_again_or_late_change_nothing() {
    for recovery in RECOVERIES {
        let mut end = Lone::connected(config(recovery));
        end.write(100_000);
        end.take();
        end.at(200);
        end.ack(seg(5));
        let (metrics, sent) = (end.end.metrics(), end.data().len());
        assert!(sent > 0);
        for late in [1, 3, 4] {
            end.ack(seg(late));
            end.ack(seg(late));
            end.ack(seg(late));
        }
        assert!(end.data().is_empty(), "{recovery}");
        let after = end.end.metrics();
        assert_eq!((after.window, after.counters), (metrics.window, metrics.counters), "{recovery}");
        assert_eq!(after.acknowledged, 5_000, "{recovery}");
    }
}

/// A third duplicate that is lost is made up for by a later one; what counts is how many arrive.
#[test]
fn one_duplicate_less_than_three_is_no_loss_and_a_new_acknowledgement_begins_the_count_again() {
    for recovery in ["tahoe", "reno", "newreno"] {
        let mut end = Lone::connected(config(recovery));
        end.write(100_000);
        end.take();
        end.at(200);
        for number in 1..5 {
            end.ack(seg(number));
            end.ack(seg(number));
            end.ack(seg(number));
        }
        assert_eq!(end.end.metrics().counters.recoveries + end.end.metrics().counters.retransmissions, 0, "{recovery}");
        end.ack(seg(4));
        assert_eq!(end.end.metrics().counters.retransmissions, 1, "{recovery}: the third of one number");
    }
}

/// RFC 6675, section 2: each acknowledgement that reports something new is a duplicate, also when the network has thinned them; the
/// bytes reported tell the loss, not how many reports came.
#[test]
fn one_report_of_much_tells_a_loss_as_many_of_little_do() {
    for recovery in ["sack", "rack"] {
        let again = |reports: &[u64]| {
            let mut end = Lone::connected(config(recovery));
            end.write(10_000);
            end.take();
            end.at(200);
            for to in reports {
                end.sack(seg(0), &[(seg(1), seg(*to))]);
            }
            let metrics = end.end.metrics();
            assert_eq!(metrics.counters.recoveries, 1, "{recovery} {reports:?}");
            assert_eq!(end.data().iter().filter(|at| **at == seg(0)).count(), 1, "{recovery} {reports:?}");
            metrics.window.ssthresh
        };
        let many: Vec<u64> = (2..=10).collect();
        let (one, many) = (again(&[10]), again(&many));
        assert!((one - many).abs() <= 1.0, "{recovery}: {one} {many}");
    }
}

/// A stretch acknowledgement that ends a recovery leaves the window at `ssthresh`, not at what was freed at once (RFC 5681, section 3.2,
/// step 6).
#[test]
fn a_recovery_that_one_acknowledgement_ends_leaves_ssthresh_as_the_window() {
    for recovery in ["reno", "newreno", "sack", "rack"] {
        let mut end = Lone::connected(config(recovery));
        end.write(10_000);
        end.take();
        end.at(200);
        let reports: &[_] = if matches!(recovery, "sack" | "rack") { &[(seg(1), seg(10))] } else { &[] };
        for number in 1..10 {
            end.sack(seg(0), reports);
            end.at(200 + number);
        }
        assert_eq!(end.end.metrics().counters.recoveries, 1, "{recovery}");
        end.at(300);
        end.ack(seg(10));
        let window = end.end.metrics().window;
        assert!(window.cwnd <= window.ssthresh + 1.0 && window.ssthresh == 5.0, "{recovery}: {window:?}");
    }
}
