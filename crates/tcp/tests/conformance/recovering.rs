//! Loss recovery: RFC 5681, 3042, 6582, 6675, 6937 and 8985.

use super::lone::{Lone, bare, config, seg};
use tcp::{Config, Flags, LossState, Profile, Segment};
use units::Duration;

/// A connection with ten segments outstanding since 100 ms, at 200 ms.
fn ten_out(config: Config) -> Lone {
    let mut end = Lone::connected(config);
    end.write(1_000_000);
    assert_eq!(end.data().len(), 10);
    end.at(200);
    end
}

fn retransmitted(data: &[u64], below: u64) -> Vec<u64> {
    data.iter().copied().filter(|at| *at < seg(below)).collect()
}

/// RFC 3042: a new segment on each of the first two duplicates; RFC 5681: the loss on the third.
#[test]
fn limited_transmit_and_the_third_duplicate() {
    for recovery in ["reno", "newreno", "tahoe"] {
        let mut end = ten_out(config(recovery));
        end.ack(seg(0));
        assert_eq!(end.data(), [seg(10)], "{recovery}");
        end.ack(seg(0));
        assert_eq!(end.data(), [seg(11)], "{recovery}");
        end.ack(seg(0));
        assert_eq!(end.data()[0], seg(0), "{recovery}");
        assert_eq!(end.end.metrics().window.ssthresh, 5.0, "{recovery}: half of ten, not of twelve");
        let mut without = ten_out(Config { limited_transmit: false, ..config(recovery) });
        without.ack(seg(0));
        without.ack(seg(0));
        assert!(without.data().is_empty(), "{recovery}");
    }
}

#[test]
fn limited_transmit_with_sack() {
    let mut end = ten_out(config("sack"));
    end.sack(seg(0), &[(seg(1), seg(2))]);
    assert_eq!(end.data(), [seg(10)]);
    end.sack(seg(0), &[(seg(1), seg(3))]);
    assert_eq!(end.data(), [seg(11)]);
    end.sack(seg(0), &[(seg(1), seg(4))]);
    assert_eq!(end.data(), [seg(0)], "the loss, and no more: 9 are in flight and the window is 5");
    assert_eq!((end.end.metrics().window.ssthresh, end.end.metrics().window.cwnd), (5.0, 5.0));
}

/// RFC 5681, section 3.1, equation 4: what limited transmit did not send for want of data is not taken off.
#[test]
fn ssthresh_is_half_of_what_was_out_where_limited_transmit_had_nothing_to_send() {
    for recovery in ["reno", "newreno", "sack"] {
        let mut end = Lone::connected(config(recovery));
        end.write(10_000);
        end.at(200);
        for number in 1..=3 {
            let blocks = [(seg(1), seg(1 + number))];
            end.sack(seg(0), if recovery == "sack" { &blocks } else { &[] });
        }
        assert_eq!(end.end.metrics().window.ssthresh, 5.0, "{recovery}");
    }
}

/// Fast recovery inflates the window by a segment for each duplicate, and any new data end it (RFC 5681, section 3.2).
#[test]
fn reno_inflates_and_leaves_at_the_first_new_acknowledgement() {
    let mut end = ten_out(config("reno"));
    for _ in 0..3 {
        end.ack(seg(0));
    }
    assert_eq!(end.data(), [seg(10), seg(11), seg(0)]);
    // 12 are out; cwnd is 5 + 3, and 9 duplicates in all make it 14: two new segments.
    for _ in 0..4 {
        end.ack(seg(0));
    }
    assert!(end.data().is_empty());
    end.ack(seg(0));
    end.ack(seg(0));
    assert_eq!(end.data(), [seg(12), seg(13)]);
    end.at(300);
    end.ack(seg(4));
    assert_eq!(end.end.metrics().state, LossState::Open);
    assert_eq!(end.end.metrics().window.cwnd, 5.0);
}

/// RFC 6582, section 3.2: a partial acknowledgement sends the next hole at once, takes what it acknowledges out of the
/// window and adds a segment; a full one ends the recovery.
#[test]
fn newreno_sends_a_hole_for_each_partial_acknowledgement() {
    let mut end = ten_out(config("newreno"));
    for _ in 0..3 {
        end.ack(seg(0));
    }
    assert_eq!(end.data(), [seg(10), seg(11), seg(0)]);
    for _ in 0..6 {
        end.ack(seg(0));
    }
    // cwnd 5 + 9 = 14 of which 12 are out.
    assert_eq!(end.data(), [seg(12), seg(13)]);
    end.at(300);
    end.ack(seg(4));
    // cwnd 14 - 4 + 1 = 11, 10 are out: the hole and one new segment.
    assert_eq!(end.data(), [seg(4), seg(14)]);
    assert_eq!(end.end.metrics().state, LossState::Recovery);
    end.at(400);
    end.ack(seg(12));
    assert_eq!(end.end.metrics().state, LossState::Open);
    // min(ssthresh, max(FlightSize, SMSS) + SMSS) = min(5, 3 + 1).
    assert_eq!(end.end.metrics().window.cwnd, 4.0);
}

/// RFC 6582, section 4 ("impatient"): only the first partial acknowledgement restarts the timer.
#[test]
fn newreno_is_impatient() {
    let mut end = ten_out(config("newreno"));
    for _ in 0..3 {
        end.ack(seg(0));
    }
    end.at(600);
    end.ack(seg(2));
    end.at(1_100);
    end.ack(seg(4));
    end.at(1_599);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
    end.at(1_601);
    assert_eq!(end.end.metrics().counters.timeouts, 1);
}

/// RFC 6582, section 3.2, step 2: duplicates that do not cover more than `recover` begin no second recovery.
#[test]
fn duplicates_after_a_recovery_or_timeout_begin_no_other() {
    for recovery in ["newreno", "reno", "tahoe"] {
        let mut end = Lone::connected(config(recovery));
        end.write(10_000);
        end.at(1_100);
        assert_eq!(end.end.metrics().counters.timeouts, 1, "{recovery}");
        end.data();
        end.at(1_200);
        for _ in 0..4 {
            end.ack(seg(0));
        }
        assert_eq!(end.end.metrics().counters.recoveries, 0, "{recovery}");
        assert_eq!(end.end.metrics().window.ssthresh, 5.0, "{recovery}");
    }
    let mut end = ten_out(config("newreno"));
    for _ in 0..3 {
        end.ack(seg(0));
    }
    end.at(300);
    end.ack(seg(12));
    end.data();
    for _ in 0..3 {
        end.ack(seg(12));
    }
    assert_eq!(end.end.metrics().counters.recoveries, 1, "the duplicates may be of what was sent in the recovery");
}

#[test]
fn tahoe_starts_slowly_from_the_loss() {
    let mut end = ten_out(Config { slow_start_limit: Some(1.0), ..config("tahoe") });
    for _ in 0..3 {
        end.ack(seg(0));
    }
    assert_eq!(end.data(), [seg(10), seg(11), seg(0)]);
    assert_eq!((end.end.metrics().window.cwnd, end.end.metrics().window.ssthresh), (1.0, 5.0));
    end.ack(seg(0));
    assert!(end.data().is_empty(), "further duplicates do nothing");
    end.at(300);
    end.ack(seg(12));
    assert_eq!(end.data(), [seg(12), seg(13)]);
}

/// RFC 6675, section 2: a duplicate is an acknowledgement whose blocks say something new.
#[test]
fn duplicates_that_report_nothing_new_mean_no_loss() {
    for recovery in ["sack", "rack"] {
        let mut end = Lone::connected(config(recovery));
        end.write(20_000);
        end.at(200);
        end.ack(seg(5));
        end.data();
        for number in 0..5 {
            end.sack(seg(5), &[(seg(number), seg(number + 1))]);
        }
        assert!(end.data().iter().all(|at| *at >= seg(10)), "{recovery}");
        assert_eq!(end.end.metrics().counters.recoveries, 0, "{recovery}");
    }
}

/// Blocks count on segments with data too, when traffic flows both ways.
#[test]
fn blocks_on_data_segments_are_read() {
    let mut end = ten_out(config("sack"));
    for number in 0..3_u64 {
        let mut segment = Segment { len: 100, ..bare(Flags::ACK, 1 + number * 100, seg(0)) };
        segment.sack.push(seg(0), seg(1)..seg(2 + number));
        end.give(segment);
    }
    assert!(end.data().contains(&seg(0)));
}

/// RFC 6675, section 4, IsLost: three separate ranges above, or more than two segments' worth of bytes.
#[test]
fn a_hole_is_lost_by_three_ranges_or_by_bytes() {
    let mut end = ten_out(config("sack"));
    end.sack(seg(0), &[(seg(1), seg(1) + 10)]);
    end.sack(seg(0), &[(seg(3), seg(4)), (seg(5), seg(6))]);
    assert_eq!(end.end.metrics().counters.recoveries, 0, "two ranges, two segments");
    end.sack(seg(0), &[(seg(7), seg(8)), (seg(3), seg(4)), (seg(5), seg(6))]);
    let data = end.data();
    assert_eq!(retransmitted(&data, 10), [seg(0)]);
    assert_eq!(end.end.metrics().counters.recoveries, 1);
}

/// Section 5, NextSeg: lost holes in order (1), new data (2), holes that are not known to be lost (3), the last segment
/// once (4).
#[test]
fn what_to_send_next_in_recovery() {
    // 20 segments; 0, 4 and 17 are lost.
    let mut end = Lone::connected(Config { initial_window: 20.0, ..config("sack") });
    end.write(21_000);
    assert_eq!(end.data().len(), 20);
    end.at(200);
    end.sack(seg(0), &[(seg(1), seg(2))]);
    assert_eq!(end.data(), [seg(20)], "limited transmit takes the last new data");
    end.sack(seg(0), &[(seg(1), seg(4))]);
    assert_eq!(end.data(), [seg(0)]);
    let cwnd = end.end.metrics().window.cwnd;
    assert_eq!(cwnd, 10.0);
    // 5 to 16 arrive: pipe falls from 16 by one each, from 10 on there is room.
    let mut sent = Vec::new();
    for number in 5..=16 {
        end.sack(seg(0), &[(seg(5), seg(number + 1)), (seg(1), seg(4))]);
        sent.extend(end.data());
    }
    assert_eq!(sent[0], seg(4), "rule 1");
    // Rule 4, once: the highest that is not reported.
    assert_eq!(sent[1..], [seg(20)]);
    // 18 and 19 arrive: 17 is a hole, but not lost (rule 3).
    end.sack(seg(0), &[(seg(18), seg(19)), (seg(5), seg(17)), (seg(1), seg(4))]);
    assert_eq!(end.data(), [seg(17)]);
    end.at(300);
    end.ack(seg(17));
    assert_eq!(end.end.metrics().state, LossState::Recovery);
    end.ack(seg(21));
    assert_eq!(end.end.metrics().state, LossState::Open);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
}

/// RFC 6937: while more is in flight than ssthresh, segments leave in proportion to what arrives; and the window ends
/// at ssthresh.
#[test]
fn the_rate_is_reduced_in_proportion() {
    let config = Config { proportional_rate_reduction: true, initial_window: 20.0, ..config("sack") };
    let mut end = Lone::connected(config);
    end.write(1_000_000);
    end.data();
    end.at(200);
    let mut sent = Vec::new();
    for number in 1..20 {
        end.sack(seg(0), &[(seg(1), seg(number + 1))]);
        sent.push(end.data().len());
    }
    // RFC 6937, appendix: two by limited transmit, the fast retransmit, then one for two acknowledgements.
    assert_eq!(sent[..3], [1, 1, 1]);
    let during: usize = sent[3..].iter().sum();
    assert!((7..=9).contains(&during), "{sent:?}");
    assert!(sent[3..].iter().all(|count| *count <= 1), "no burst and no silence: {sent:?}");
    assert!(sent[3..].windows(4).all(|four| four.iter().sum::<usize>() >= 1), "{sent:?}");
    end.at(300);
    end.ack(seg(22));
    assert_eq!(end.end.metrics().window.cwnd, 10.0);
}

/// RFC 6675 knows no lost retransmission: the timer repairs it. RFC 8985 sees that something sent later has arrived.
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    let mut end = ten_out(config("rack"));
    for number in 1..10 {
        end.sack(seg(0), &[(seg(1), seg(number + 1))]);
    }
    let data = end.data();
    assert_eq!(retransmitted(&data, 10), [seg(0)]);
    // A round trip later what was sent after the retransmission arrives, but not that.
    end.at(300);
    let new: Vec<u64> = data.into_iter().filter(|at| *at >= seg(10)).collect();
    let last = new.last().copied().expect("new data") + 1_000;
    end.sack(seg(0), &[(seg(1), last)]);
    end.at(400);
    assert_eq!(retransmitted(&end.data(), 10), [seg(0)]);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
}

/// RFC 8985, section 6.2: reordering within a quarter of the smallest round-trip time is no loss.
#[test]
fn reordering_within_the_window_causes_no_retransmission() {
    let mut end = ten_out(config("rack"));
    end.sack(seg(0), &[(seg(1), seg(2))]);
    end.sack(seg(0), &[(seg(1), seg(3))]);
    end.at(220);
    end.ack(seg(3));
    end.at(230);
    end.ack(seg(12));
    let data = end.data();
    assert!(retransmitted(&data, 10).is_empty(), "{data:?}");
    assert_eq!(end.end.metrics().counters.recoveries, 0);
    // Reordering has been seen: from now on even many segments that came earlier mean no loss at once.
    end.at(340);
    end.sack(seg(15), &[(seg(16), seg(24))]);
    end.at(345);
    end.ack(seg(24));
    end.at(360);
    assert_eq!(end.end.metrics().counters.recoveries, 0);
    assert_eq!(end.end.metrics().counters.retransmissions, 0);
}

/// RFC 8985, section 6.2, step 3: blocks are looked at from the lowest, whatever their order in the option, so that the
/// loss of an acknowledgement does not look like reordering.
#[test]
fn two_new_blocks_in_one_acknowledgement_are_no_reordering() {
    let mut end = ten_out(config("rack"));
    // The acknowledgements that reported 1 and 2 are lost.
    end.sack(seg(0), &[(seg(4), seg(5)), (seg(1), seg(3))]);
    end.sack(seg(0), &[(seg(4), seg(6)), (seg(1), seg(3))]);
    assert_eq!(retransmitted(&end.data(), 10), [0, 3].map(seg)[..1].to_vec(), "three have arrived after segment 0");
}

/// RFC 8985, section 6.2, step 4: three segments that have arrived tell a loss at once, be the last one short.
#[test]
fn three_segments_beyond_a_hole_tell_a_loss_however_short_they_are() {
    for last in [1_000, 700, 1] {
        let mut end = Lone::connected(config("rack"));
        end.write(3_000 + last);
        end.at(200);
        end.take();
        end.sack(seg(0), &[(seg(1), seg(3) + last)]);
        assert_eq!(end.data(), [seg(0)], "{last}");
    }
}

/// RFC 8985, section 7.2: what is a single segment is not a matter of bytes. A FIN makes a full one no two, and two may be short.
#[test]
fn the_delay_of_a_probe_depends_on_segments_not_on_bytes() {
    let single = |end: &mut Lone| {
        assert_eq!(end.end.write(1_000), 1_000);
        end.finish();
    };
    let two = |end: &mut Lone| {
        end.write(100);
        end.write(100);
    };
    for (writes, probe_at) in [(single as fn(&mut Lone), 500), (two, 300)] {
        let mut end = Lone::connected(config("rack"));
        writes(&mut end);
        end.take();
        end.at(800);
        let probe = end.take_timed().into_iter().find(|(_, segment)| segment.len > 0).map(|(at, _)| at);
        assert_eq!(probe, Some(probe_at));
    }
}

/// RFC 8985, section 7: the tail is probed after two round trips (with one segment out, 200 ms more for a delayed
/// acknowledgement), not after the timeout.
#[test]
fn a_lost_tail_is_found_after_two_round_trips() {
    let mut end = Lone::connected(config("rack"));
    end.write(10_000);
    end.at(200);
    for number in 1..=8 {
        end.ack(seg(number));
    }
    assert_eq!(end.data().len(), 10);
    end.at(399);
    assert!(end.data().is_empty());
    end.at(410);
    assert_eq!(end.data(), [seg(9)], "the last segment is the probe");
    end.at(500);
    end.sack(seg(8), &[(seg(9), seg(10))]);
    end.at(540);
    assert_eq!(end.data(), [seg(8)]);
    assert_eq!(end.end.metrics().counters.timeouts, 0);
    assert_eq!(end.end.metrics().counters.recoveries, 1);
}

/// RFC 8985, section 7.4.2: a probe that nobody needed says nothing of a loss. A receiver without D-SACK acknowledges it once more, whether
/// or not something is outstanding then; one that had lost the tail does not.
#[test]
fn a_needless_probe_of_the_tail_is_no_loss() {
    for (acknowledgements, is_idle, is_loss) in [(2, true, false), (2, false, false), (1, true, true)] {
        let rack = config("rack");
        let mut end = Lone::connected(Config { options: tcp::Options { dsack: false, ..rack.options }, ..rack });
        end.write(10_000);
        end.at(410);
        assert_eq!(end.data().last(), Some(&seg(9)), "the probe");
        end.ack(seg(10));
        if is_idle {
            (1..acknowledgements).for_each(|_| end.ack(seg(10)));
        }
        end.write(5_000);
        if !is_idle {
            (1..acknowledgements).for_each(|_| end.ack(seg(10)));
        }
        end.at(500);
        end.ack(seg(15));
        assert_eq!(end.end.window().ssthresh.is_finite(), is_loss, "{acknowledgements} {is_idle}");
    }
}

/// Linux 6.18, `tcp_rack_reo_timeout`: a recovery that time begins reduces the window at once, as if a segment had arrived,
/// and all that may be late is found lost together (`tcp_rack_detect_loss`): of ten lost segments one leaves again.
#[test]
fn in_linux_a_recovery_that_time_begins_sends_one_segment() {
    let linux = Config { profile: Profile::Linux, proportional_rate_reduction: true, ..config("rack") };
    let mut end = Lone::connected(Config { initial_window: 20.0, ..linux });
    end.write(20_000);
    end.take();
    end.at(200);
    end.sack(seg(0), &[(seg(10), seg(11))]);
    end.sack(seg(0), &[(seg(10), seg(12))]);
    assert!(end.data().is_empty(), "two may be reordering");
    end.at(230);
    assert_eq!(end.data(), [seg(0)]);
    // Ten are lost, two have arrived, eight are under way.
    assert_eq!(end.end.metrics().window.cwnd, 9.0);
    end.sack(seg(0), &[(seg(10), seg(13))]);
    assert_eq!(end.data(), [seg(1)]);
}

/// RFC 8985, section 7.3: the probe takes the place of the timer, which restarts when it has left.
#[test]
fn a_probe_puts_the_timeout_off() {
    // At 550 ms the timeout of RFC 6298 (1 s) comes before two round trips.
    let mut end = Lone::connecting(config("rack"));
    end.at(550);
    end.give(bare(Flags::SYN.with(Flags::ACK).with(Flags::SACK_PERMITTED), 0, 1));
    let mut una = 0;
    for round in 1..10 {
        end.write(5_000);
        end.at(550 + 550 * round);
        una += 5;
        end.ack(seg(una));
    }
    assert_eq!(end.end.metrics().rto, Duration::from_secs(1));
    end.take();
    let start = end.ms();
    end.write(5_000);
    end.at(start + 1_500);
    let sent = end.take_timed();
    let again: Vec<u64> = sent[5..].iter().map(|(at, _)| at - start).collect();
    assert_eq!(end.end.metrics().counters.timeouts, 0, "{again:?}");
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0] <= 1_100, "{again:?}");
}

/// RFC 8985, section 7.4.2: a probe that was a copy of something that had arrived is reported, and costs nothing; one
/// that repaired a loss unseen is answered like a loss.
#[test]
fn a_probe_that_repaired_a_loss_halves_the_window_and_a_needless_one_does_not() {
    for needless in [false, true] {
        let mut end = Lone::connected(config("rack"));
        end.write(10_000);
        end.at(200);
        end.ack(seg(9));
        end.take();
        let before = end.end.metrics().window.cwnd;
        end.at(800);
        assert_eq!(end.data(), [seg(9)]);
        let dsack = [(seg(9), seg(10))];
        if needless {
            end.ack(seg(10));
        }
        end.sack(seg(10), if needless { &dsack } else { &[] });
        end.write(10_000);
        end.at(900);
        end.ack(seg(11));
        let after = end.end.metrics().window.cwnd;
        assert_eq!(after < before, !needless, "{before} {after}");
    }
}

/// Loss recovery of RFC 6675 takes up the retransmission of what a timeout left, and begins no fast retransmit before
/// all of that is acknowledged (section 5.1).
#[test]
fn after_a_timeout_reports_begin_no_recovery() {
    let mut end = ten_out(config("sack"));
    end.at(1_100);
    assert_eq!(end.end.metrics().counters.timeouts, 1);
    end.data();
    end.at(1_200);
    for number in 5..9 {
        end.sack(seg(0), &[(seg(5), seg(number + 1))]);
    }
    assert_eq!(end.end.metrics().counters.recoveries, 0);
    assert_eq!(end.end.metrics().window.ssthresh, 5.0);
    end.ack(seg(5));
    let data = end.data();
    assert!(data.iter().all(|at| *at >= seg(9)), "5 to 8 have arrived: {data:?}");
}

/// RFC 5681, section 4.3: the loss of a retransmission is another indication of congestion. Linux lowers the window once for a recovery.
#[test]
fn rack_lowers_the_window_again_for_a_retransmission_that_is_lost() {
    let ssthreshs = |profile| {
        let Config { mss, recovery, initial_window, options, acks, .. } = config("rack");
        let mut end = ten_out(Config { mss, recovery, initial_window, options, acks, ..Config::new(profile) });
        end.sack(seg(0), &[(seg(1), seg(10))]);
        let mut found = vec![end.end.metrics().window.ssthresh];
        for round in 1..=3 {
            let data = end.data();
            assert_eq!(data[0], seg(0), "{profile:?}: what was lost leaves first");
            // What left behind it arrives, and it does not.
            let arrived = data.iter().max().expect("new data leave as well") + seg(1) - seg(0);
            end.at(200 + 110 * round);
            end.sack(seg(0), &[(seg(1), arrived)]);
            found.push(end.end.metrics().window.ssthresh);
        }
        found
    };
    assert_eq!(ssthreshs(Profile::Rfc), [5.0, 2.5, 2.0, 2.0]);
    assert_eq!(ssthreshs(Profile::Linux), [5.0; 4]);
}
