//! The retransmission timer (RFC 6298), with Karn's rule and limits.

use super::lone::{Lone, bare, config, seg};
use tcp::{Config, Event, Failure, Flags, Options, Segment, Timestamps};
use units::Duration;

fn times(end: &mut Lone) -> Vec<(u64, u64)> {
    end.take_timed().into_iter().filter(|(_, segment)| segment.len > 0).map(|(at, segment)| (at, segment.seq)).collect()
}

/// 5.1 and 5.4 to 5.6: the first segment again after the timeout, at twice the interval each time.
#[test]
fn the_earliest_segment_is_sent_again_and_the_timer_backs_off() {
    let mut end = Lone::connected(config("sack"));
    end.write(3_000);
    end.at(8_200);
    assert_eq!(
        times(&mut end),
        [(100, 0), (100, 1), (100, 2), (1_100, 0), (3_100, 0), (7_100, 0)].map(|(at, n)| (at, seg(n)))
    );
    assert_eq!(end.end.metrics().counters.timeouts, 3);
    assert_eq!(end.end.metrics().window.cwnd, 1.0);
}

/// 5.1: a segment that leaves while the timer runs does not restart it.
#[test]
fn sending_more_does_not_put_the_timer_off() {
    let mut end = Lone::connected(config("sack"));
    end.write(1_000);
    end.at(900);
    end.write(1_000);
    end.at(1_300);
    assert_eq!(times(&mut end), [(100, seg(0)), (900, seg(1)), (1_100, seg(0))]);
}

/// 5.2 and 5.3: off when all is acknowledged, again when some is.
#[test]
fn acknowledgements_of_new_data_restart_the_timer_and_the_last_one_stops_it() {
    let mut end = Lone::connected(config("sack"));
    end.write(2_000);
    end.at(1_000);
    end.ack(seg(1));
    let rto = end.end.metrics().rto.as_nanos() / 1_000_000;
    end.at(1_000 + rto - 1);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
    end.at(1_000 + rto);
    assert_eq!(end.end.metrics().counters.timeouts, 1);
    end.ack(seg(2));
    end.take();
    end.at(200_000);
    assert!(end.take().is_empty());
}

/// 5.3: a duplicate acknowledges nothing new.
#[test]
fn a_duplicate_does_not_restart_the_timer() {
    let mut end = Lone::connected(config("sack"));
    end.write(5_000);
    end.at(900);
    end.ack(seg(0));
    end.at(1_200);
    assert_eq!(end.end.metrics().counters.timeouts, 1);
}

/// Section 3 (Karn): what was sent twice is no sample, and the backed-off timeout stays until there is one.
#[test]
fn an_acknowledgement_of_a_retransmission_is_no_sample_and_keeps_the_backoff() {
    let mut end = Lone::connected(config("sack"));
    end.write(1_000);
    end.at(1_150);
    let srtt = end.end.metrics().srtt;
    end.ack(seg(1));
    assert_eq!(end.end.metrics().srtt, srtt);
    assert_eq!(end.end.metrics().rto, Duration::from_secs(2));
    end.write(1_000);
    end.at(1_250);
    end.ack(seg(2));
    assert_eq!(end.end.metrics().rto, Duration::from_secs(1), "a fresh sample ends the backoff");
}

/// Karn for cumulative acknowledgements: segments behind a hole waited for its retransmission, and say nothing of the
/// path.
#[test]
fn what_a_retransmission_freed_is_no_sample_either() {
    let mut end = Lone::connected(config("newreno"));
    end.write(6_000);
    end.at(200);
    for _ in 0..3 {
        end.ack(seg(0));
    }
    assert!(end.data().ends_with(&[seg(0)]));
    end.at(300);
    end.ack(seg(6));
    assert_eq!(end.end.metrics().srtt, Duration::from_millis(100));
}

/// RFC 7323, section 4: the echo shows which transmission arrived.
#[test]
fn timestamps_make_a_sample_of_a_retransmission() {
    let base = config("sack");
    let mut end = Lone::connected(Config { options: Options { timestamps: true, ..base.options }, ..base });
    end.write(1_000);
    end.at(1_300);
    let again = end.take().last().copied().expect("sent again");
    end.give(Segment {
        timestamps: Timestamps { value: 9, echo: again.timestamps.value },
        ..bare(Flags::ACK.with(Flags::TIMESTAMPS), 1, seg(1))
    });
    // 7/8 of 100 ms and 1/8 of 200 ms.
    assert_eq!(end.end.metrics().srtt, Duration::from_micros(112_500));
}

#[test]
fn a_peer_that_never_answers_is_given_up_by_name() {
    for profile in [tcp::Profile::Rfc, tcp::Profile::Linux] {
        let mut end = Lone::connected(Config { rtt: Config::new(profile).rtt, ..config("sack") });
        end.write(1_000);
        end.at(3_600_000);
        assert!(end.events().contains(&Event::Failed(Failure::RetransmissionTimedOut)));
        end.take();
        end.at(7_200_000);
        assert!(end.take().is_empty());
    }
}

/// RFC 5681, section 3.1 (equation 4): ssthresh is halved at the first expiry for a segment and kept at the next ones.
#[test]
fn ssthresh_is_kept_when_the_same_segment_times_out_again() {
    let mut end = Lone::connected(config("sack"));
    end.write(10_000);
    end.at(1_200);
    assert_eq!(end.end.metrics().window.ssthresh, 5.0);
    end.at(3_200);
    assert_eq!(end.end.metrics().window.ssthresh, 5.0);
    assert_eq!(end.end.metrics().counters.timeouts, 2);
}

/// Progress between two expiries makes the second a new loss: ssthresh is halved again, and the connection lives on.
#[test]
fn a_timeout_after_progress_is_the_first_again() {
    let mut end = Lone::connected(config("sack"));
    end.write(1_000_000);
    let mut una = 0;
    for _ in 0..40 {
        let timeouts = end.end.metrics().counters.timeouts;
        while end.end.metrics().counters.timeouts == timeouts {
            end.at(end.ms() + 500);
        }
        assert!(end.end.metrics().window.ssthresh <= 5.0);
        end.at(end.ms() + 20);
        una += 1;
        end.ack(seg(una));
        end.take();
    }
    assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))));
    assert_eq!(end.end.metrics().window.ssthresh, 2.0);
}

/// After a timeout slow start sends the outstanding segments again, but what a cumulative or selective acknowledgement
/// shows to have arrived is left out.
#[test]
fn slow_start_after_a_timeout_skips_what_has_arrived() {
    for recovery in ["sack", "rack", "newreno", "reno", "tahoe"] {
        let mut end = Lone::connected(config(recovery));
        end.write(8_000);
        end.take();
        // The probe of RFC 8985 puts it off.
        end.at(if recovery == "rack" { 1_300 } else { 1_100 });
        assert_eq!(end.end.metrics().counters.timeouts, 1, "{recovery}");
        assert!(end.data().contains(&seg(0)), "{recovery}");
        end.at(1_400);
        end.ack(seg(5));
        let rest = end.data();
        assert!(rest.iter().all(|at| *at >= seg(5)), "{recovery}: {rest:?}");
        assert!(rest.contains(&seg(5)), "{recovery}");
    }
}

/// RFC 5682 (F-RTO) and RFC 3522 (Eifel): an expiry that the acknowledgements of the original transmissions show to be
/// needless costs nothing.
#[test]
fn a_spurious_timeout_is_undone_on_linux() {
    let base = config("rack");
    let linux = Config {
        profile: tcp::Profile::Linux,
        rtt: tcp::RttRules::linux(),
        options: Options { timestamps: true, ..base.options },
        ..base
    };
    let mut end = Lone::connected(linux);
    end.write(40_000);
    let before = end.end.metrics().window;
    let first = end.take();
    end.at(1_200);
    assert!(end.end.metrics().counters.timeouts > 0);
    assert_eq!(end.end.metrics().window.cwnd, 1.0);
    let sent = end.take().len();
    // The path was only slow: the originals are acknowledged, one after the other.
    for (number, original) in first.iter().enumerate() {
        end.give(Segment {
            timestamps: Timestamps { value: 9, echo: original.timestamps.value },
            ..bare(Flags::ACK.with(Flags::TIMESTAMPS), 1, seg(number as u64 + 1))
        });
    }
    let after = end.end.metrics().window;
    assert!(after.cwnd >= before.cwnd && after.ssthresh == before.ssthresh, "{before:?} {after:?}");
    assert!(sent <= 2);
    let again = end.data();
    assert!(again.iter().all(|at| *at >= seg(10)), "nothing that has arrived is sent again: {again:?}");
}
