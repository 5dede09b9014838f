//! How late a segment may be before it counts as lost (RACK, RFC 8985), and what a needless response leaves.

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{Config, Flags, Profile, Timestamps};

/// Two segments leave, the second arrives, and then the first as a retransmission; returns the milliseconds between the
/// report and the retransmission. `next` is the number of the first, and becomes that of the one after.
fn lateness(end: &mut Lone, next: &mut u64) -> u64 {
    end.take();
    let hole = *next;
    end.write(2 * u64::from(MSS));
    end.at(end.ms() + 100);
    let reported = end.ms();
    end.sack(seg(hole), &[(seg(hole + 1), seg(hole + 2))]);
    end.at(reported + 150);
    let again = end.take_timed().into_iter().filter(|(at, sent)| *at >= reported && sent.len > 0);
    let again: Vec<_> = again.map(|(at, sent)| (at - reported, sent.seq)).collect();
    assert!(again.len() == 1 && again[0].1 == seg(hole), "{again:?}");
    end.ack(seg(hole + 2));
    *next += 2;
    again[0].0
}

/// A segment leaves and is acknowledged, by `reports` acknowledgements that say it came twice.
fn twice(end: &mut Lone, next: &mut u64, reports: u32) {
    end.write(u64::from(MSS));
    end.at(end.ms() + 100);
    for _ in 0..reports {
        end.sack(seg(*next + 1), &[(seg(*next), seg(*next + 1))]);
    }
    *next += 1;
}

fn connected() -> (Lone, u64) {
    (Lone::connected(config("rack")), 0)
}

/// Section 6.2, step 4: a quarter of the smallest round-trip time, one more for each round trip in which a duplicate was
/// reported, up to the smoothed round-trip time. Here that is 100 ms.
#[test]
fn each_round_with_a_reported_duplicate_widens_the_reordering_window_up_to_a_round_trip() {
    for (rounds, expected) in [(0, 25), (1, 50), (2, 75), (3, 100), (4, 100), (9, 100)] {
        let (mut end, mut next) = connected();
        (0..rounds).for_each(|_| twice(&mut end, &mut next, 1));
        assert_eq!(lateness(&mut end, &mut next), expected, "after {rounds} rounds");
    }
}

/// Section 6.2, step 4: those reported before all that was outstanding at the first report is acknowledged count once.
#[test]
fn duplicates_of_one_round_trip_widen_the_window_once() {
    let (mut end, mut next) = connected();
    end.write(3 * u64::from(MSS));
    end.at(200);
    for number in 0..2 {
        end.sack(seg(number + 1), &[(seg(number), seg(number + 1))]);
    }
    end.ack(seg(3));
    next += 3;
    assert_eq!(lateness(&mut end, &mut next), 50);
}

/// Section 6.2, step 4: 16 recoveries later the window is what it was.
#[test]
fn the_wider_window_is_kept_for_sixteen_recoveries() {
    let (mut end, mut next) = connected();
    twice(&mut end, &mut next, 1);
    for recovery in 0..16 {
        assert_eq!(lateness(&mut end, &mut next), 50, "recovery {recovery}");
    }
    for _ in 0..3 {
        assert_eq!(lateness(&mut end, &mut next), 25);
    }
    assert_eq!(end.end.metrics().counters.recoveries, 19);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
}

/// Section 6.2, step 4: a timeout's recovery is one of the sixteen, too.
#[test]
fn recoveries_from_timeouts_count_towards_the_end_of_the_wider_window() {
    for (timeouts, expected) in [(11, 50), (12, 25)] {
        let (mut end, mut next) = connected();
        twice(&mut end, &mut next, 1);
        (0..4).for_each(|_| assert_eq!(lateness(&mut end, &mut next), 50));
        for _ in 0..timeouts {
            // The second is a round-trip sample, which ends the backoff.
            for wait in [2_000, 100] {
                end.write(u64::from(MSS));
                end.at(end.ms() + wait);
                end.ack(seg(next + 1));
                next += 1;
            }
        }
        assert_eq!(end.end.metrics().counters.timeouts, timeouts);
        assert_eq!(lateness(&mut end, &mut next), expected, "after {timeouts} timeouts");
    }
}

/// Ten segments are out, four are reported beyond the first, which leaves again; when the first `acknowledged` have been acknowledged, it
/// turns out that it came twice. Gives the window before, during and after that.
fn needless_recovery(profile: Profile, acknowledged: u64) -> [tcp::control::Window; 3] {
    let mut end = Lone::connected(Config { profile, ..config("rack") });
    end.write(10 * u64::from(MSS));
    end.at(200);
    let before = end.end.window();
    end.sack(seg(0), &[(seg(1), seg(5))]);
    assert_eq!(end.end.metrics().counters.retransmissions, 1);
    let during = end.end.window();
    end.at(210);
    end.ack(seg(acknowledged));
    end.at(300);
    end.sack(seg(acknowledged), &[(seg(0), seg(1))]);
    assert_eq!(end.end.metrics().counters.retransmissions, 1);
    [before, during, end.end.window()]
}

/// RFC 5681, equation 4: a recovery halves what is outstanding, and the standards that are followed have no way back.
#[test]
fn a_reported_duplicate_does_not_restore_the_window_of_the_standard() {
    let [_, during, after] = needless_recovery(Profile::Rfc, 5);
    assert_eq!((during.ssthresh, after.ssthresh), (5.0, 5.0));
}

/// RFC 3708, as `tcp_try_undo_dsack` of Linux 6.x: when each retransmission is reported as a duplicate, all is as before.
#[test]
fn in_linux_a_reported_duplicate_of_every_retransmission_undoes_the_recovery() {
    let [before, during, after] = needless_recovery(Profile::Linux, 5);
    assert_eq!(during.ssthresh, 5.0);
    assert!(after.ssthresh.is_infinite() && after.cwnd >= before.cwnd, "{before:?} {after:?}");
}

/// `tcp_try_undo_dsack` of Linux 6.18: the recovery may have ended before.
#[test]
fn in_linux_a_duplicate_that_is_reported_after_the_recovery_restores_the_window() {
    let [before, during, after] = needless_recovery(Profile::Linux, 10);
    assert_eq!(during.ssthresh, 5.0);
    assert!(after.ssthresh.is_infinite() && after.cwnd >= before.cwnd, "{before:?} {after:?}");
    let [_, _, after] = needless_recovery(Profile::Rfc, 10);
    assert_eq!(after.ssthresh, 5.0);
}

/// `tcp_dsack_seen` of Linux 6.18: more duplicates than segments were sent again are of copies that the network made. One is reported before
/// a repair, and one after it.
#[test]
fn in_linux_duplicates_of_what_was_sent_once_undo_nothing() {
    let mut end = Lone::connected(Config { profile: Profile::Linux, ..config("rack") });
    end.write(10 * u64::from(MSS));
    end.at(200);
    end.sack(seg(1), &[(seg(0), seg(1))]);
    end.sack(seg(1), &[(seg(2), seg(6))]);
    assert_eq!(end.end.metrics().counters.retransmissions, 1);
    let during = end.end.window().ssthresh;
    assert!(during.is_finite());
    end.at(210);
    end.ack(seg(6));
    end.at(300);
    end.sack(seg(6), &[(seg(2), seg(3))]);
    assert_eq!(end.end.window().ssthresh, during);
}

/// `tcp_sacktag_one` of Linux 6.18, which looks at the segments before `tcp_clean_rtx_queue` removes them: two segments were sent again, and
/// a duplicate of one that was not is none of a repair, even if the same acknowledgement takes it in.
#[test]
fn in_linux_a_duplicate_of_what_was_sent_once_counts_for_no_retransmission() {
    for (repeated, is_undone) in [(7, false), (1, true)] {
        let mut end = Lone::connected(Config { profile: Profile::Linux, ..config("rack") });
        end.write(10 * u64::from(MSS));
        end.at(200);
        end.sack(seg(0), &[(seg(2), seg(7))]);
        assert_eq!(end.end.metrics().counters.retransmissions, 2);
        let during = end.end.window().ssthresh;
        assert!(during.is_finite());
        end.at(210);
        end.sack(seg(8), &[(seg(repeated), seg(repeated + 1))]);
        assert_eq!(end.end.window().ssthresh, during, "one duplicate of two repairs");
        end.sack(seg(8), &[(seg(0), seg(1))]);
        assert_eq!(end.end.metrics().counters.retransmissions, 2);
        assert_eq!(end.end.window().ssthresh.is_infinite(), is_undone, "segment {repeated}");
    }
}

/// The peer acknowledges everything before segment `first`, reports others, and echoes a timestamp.
fn report(end: &mut Lone, first: u64, others: &[(u64, u64)], echo: u32) {
    let mut segment = bare(Flags::ACK.with(Flags::TIMESTAMPS), 1, seg(first));
    others.iter().for_each(|other| segment.sack.push(seg(first), seg(other.0)..seg(other.1)));
    if others.len() > 1 {
        segment.flags = segment.flags.with(Flags::DSACK);
    }
    segment.timestamps = Timestamps { value: end.ms() as u32, echo };
    end.give(segment);
}

/// Ten segments leave at 300 ms, of which four arrive beyond the first. Whether that is sent again at once.
fn is_sent_again_at_once(end: &mut Lone, first: u64) -> bool {
    end.at(300);
    end.write(10 * u64::from(MSS));
    end.at(400);
    end.take();
    report(end, first, &[(first + 1, first + 5)], 300);
    end.data().contains(&seg(first))
}

fn stamped(profile: Profile) -> Lone {
    let options = tcp::Options { timestamps: true, ..config("rack").options };
    let mut end = Lone::connected(Config { profile, options, ..config("rack") });
    end.write(10 * u64::from(MSS));
    end.at(200);
    end.take();
    end
}

/// `tcp_try_undo_partial` of Linux 6.18: the original came after its repair had left. RFC 8985 (section 6.2, step 3) looks at segments
/// that were sent once only.
#[test]
fn in_linux_an_answer_to_the_original_of_what_was_sent_again_shows_reordering() {
    for (profile, expected) in [(Profile::Linux, false), (Profile::Rfc, true)] {
        let mut end = stamped(profile);
        report(&mut end, 0, &[(1, 5)], 100);
        assert_eq!(end.data(), [seg(0)]);
        end.at(210);
        report(&mut end, 5, &[], 100);
        report(&mut end, 10, &[], 100);
        assert_eq!(is_sent_again_at_once(&mut end, 10), expected, "{profile:?}");
    }
}

/// `tcp_sacktag_one` of Linux 6.18: a repair that was reported, behind a hole, is reported as a duplicate.
#[test]
fn in_linux_a_reported_repair_that_is_a_duplicate_shows_reordering() {
    for (repeated, expected) in [(1, false), (5, true)] {
        let mut end = stamped(Profile::Linux);
        // The first two are sent again, and the second arrives.
        report(&mut end, 0, &[(2, 7)], 100);
        assert_eq!(end.data(), [seg(0), seg(1)]);
        end.at(250);
        report(&mut end, 0, &[(1, 7)], 200);
        report(&mut end, 0, &[(repeated, repeated + 1), (1, 7)], 200);
        report(&mut end, 10, &[], 200);
        assert_eq!(is_sent_again_at_once(&mut end, 10), expected, "segment {repeated}");
    }
}

/// Section 6.2, step 4: with as many reports as DupThresh there is no wait, as long as no reordering was seen.
#[test]
fn a_hole_below_three_reports_is_sent_again_at_once_where_no_reordering_was_seen() {
    let (mut end, _) = connected();
    end.write(5 * u64::from(MSS));
    end.at(200);
    end.take();
    end.sack(seg(0), &[(seg(1), seg(4))]);
    assert_eq!(end.data(), [seg(0)]);
}

/// Section 6.2, step 4: once it was seen, a hole below many reports waits, too.
#[test]
fn a_hole_below_many_reports_waits_where_reordering_was_seen() {
    let (mut end, _) = connected();
    end.write(2 * u64::from(MSS));
    end.at(200);
    end.sack(seg(0), &[(seg(1), seg(2))]);
    end.at(210);
    end.ack(seg(2));
    assert_eq!(end.end.metrics().counters.retransmissions, 0);
    end.write(6 * u64::from(MSS));
    end.at(310);
    end.take();
    end.sack(seg(2), &[(seg(3), seg(8))]);
    assert!(end.data().is_empty(), "it may still come");
    end.at(330);
    assert!(end.data().is_empty());
    end.at(340);
    assert_eq!(end.data(), [seg(2)], "a quarter of 100 ms later");
}
