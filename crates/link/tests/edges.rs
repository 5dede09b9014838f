//! Links at their edges: traces that end, repeat and give more than is used, handovers, copies and packets held back, and queues
//! that must not drop.

use crate::packets::{Numbered, at_ms, delivered, drain, dropped};
use link::{
    Codel, Discipline, DropReason, FqCodel, Handover, Link, LinkConfig, LossModel, Opportunities, QueueLimit, Reorder,
    Steps, Tally, TimedGilbertElliott, TraceError,
};
use units::{Bytes, Duration, Instant, Probability, Rate};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn probability(p: f64) -> Probability {
    Probability::new(p).expect("from 0 to 1")
}

/// 1500 bytes each millisecond, and 10 ms to arrive.
fn plain() -> LinkConfig {
    LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(12_000_000), ms(10)) }
}

fn link(config: LinkConfig) -> Link<Numbered> {
    Link::new(config).expect("valid")
}

/// Opportunities to deliver at these milliseconds, and no delay.
fn recorded(millis: &[u64]) -> Link<Numbered> {
    let opportunities = Some(Opportunities { millis: millis.to_vec(), file: None });
    link(LinkConfig { rate: None, opportunities, delay: Duration::ZERO, ..plain() })
}

fn sized(number: u64, size: u64) -> Numbered {
    Numbered { number, flow: 0, size }
}

/// Mahimahi (Netravali et al., USENIX ATC 2015): what nobody uses is lost, and the trace starts again after its last time.
#[test]
fn an_opportunity_that_nobody_uses_is_lost_and_the_trace_starts_again() {
    let mut link = recorded(&[2, 4, 5]);
    link.enqueue(at_ms(3), Numbered::full(0));
    link.enqueue(at_ms(4), Numbered::full(1));
    link.enqueue(at_ms(21), Numbered::full(2));
    link.enqueue(at_ms(1_000_003), Numbered::full(3));
    assert_eq!(delivered(&drain(&mut link)), [(0, 4), (1, 5), (2, 22), (3, 1_000_004)].map(|(k, at)| (k, at_ms(at))));
}

#[test]
fn a_packet_uses_several_opportunities_and_several_packets_share_one() {
    let mut link = recorded(&[1, 2, 3, 4]);
    link.enqueue(Instant::ZERO, sized(0, 3_000));
    (1..4).for_each(|number| link.enqueue(Instant::ZERO, sized(number, 500)));
    link.enqueue(Instant::ZERO, sized(4, 2_000));
    let expected = [(0, 2), (1, 3), (2, 3), (3, 3), (4, 5)].map(|(k, at)| (k, at_ms(at)));
    assert_eq!(delivered(&drain(&mut link)), expected);
}

#[test]
fn a_trace_with_a_mistake_is_refused_with_its_line() {
    for (text, line, hint) in [
        ("1\n2\nthree", 3, "whole number"),
        ("# ms\n\n5\n4", 4, ""),
        ("1\n-1", 2, "whole number"),
        ("1.5", 1, "whole number"),
    ] {
        match Opportunities::parse(text) {
            Err(TraceError::Line { line: found, problem }) => {
                assert!(found == line && problem.contains(hint), "{text:?}: {found} {problem}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
    for text in ["", "\n \n", "# nothing\n"] {
        assert_eq!(Opportunities::parse(text), Err(TraceError::Empty), "{text:?}");
        assert_eq!(Steps::<Rate>::parse(text), Err(TraceError::Empty), "{text:?}");
    }
    for (text, line) in [("1s 1Mbit/s\n1s 2Mbit/s", 2), ("1s", 1), ("1s fast", 1), ("soon 1Mbit/s", 1)] {
        let error = Steps::<Rate>::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(&format!("line {line}:")), "{text:?}: {error}");
    }
}

#[test]
fn steps_are_read_with_any_separator_and_with_comments() {
    let expected = Steps::new(vec![(ms(1_500), Rate::from_bps(3_000_000)), (ms(2_000), Rate::ZERO)]);
    for text in ["1.5s 3Mbit/s\n2s 0bit/s", "1.5s,3Mbit/s\n2s,0bit/s\n", "# rain\n1.5s\t3Mbit/s # light\n\n2s 0bit/s"] {
        assert_eq!(Steps::parse(text), Ok(expected.clone()), "{text:?}");
    }
}

/// What a modem reports: the rate at a time, and until when it holds.
#[test]
fn a_rate_in_steps_is_told_with_the_time_of_the_next_change() {
    let steps = Steps { repeat: Some(ms(100)), ..Steps::new(vec![(ms(40), Rate::from_bps(1_000_000))]) };
    let link = link(LinkConfig { rate_steps: Some(steps), ..plain() });
    let told = |at| link.rate(at_ms(at)).map(|(rate, until)| (rate.as_bps(), until));
    for repetition in [0, 100, 1_000_000] {
        assert_eq!(told(repetition), Some((12_000_000, at_ms(repetition + 40))));
        assert_eq!(told(repetition + 39), Some((12_000_000, at_ms(repetition + 40))));
        assert_eq!(told(repetition + 40), Some((1_000_000, at_ms(repetition + 100))));
        assert_eq!(told(repetition + 99), Some((1_000_000, at_ms(repetition + 100))));
    }
    assert_eq!(recorded(&[1]).rate(at_ms(0)), None);
}

fn handover(rate: Option<[Rate; 2]>, outage: Duration) -> LinkConfig {
    let handover = Some(Handover { period: ms(1_000), delay: [ms(10), ms(30)], rate, outage });
    LinkConfig { handover, rate: Some(Rate::from_bps(12_000_000)).filter(|_| rate.is_none()), ..plain() }
}

#[test]
fn each_handover_draws_a_rate_within_its_bounds_that_holds_for_the_period() {
    let bounds = [2_000_000, 8_000_000];
    let config = handover(Some(bounds.map(Rate::from_bps)), Duration::ZERO);
    let link = link(LinkConfig { seed: 5, ..config.clone() });
    let rates: Vec<u64> = (0..400)
        .map(|period| {
            let (rate, until) = link.rate(at_ms(1_000 * period)).expect("a rate");
            assert_eq!(until, at_ms(1_000 * (period + 1)));
            assert_eq!(link.rate(at_ms(1_000 * period + 999)), Some((rate, until)));
            rate.as_bps()
        })
        .collect();
    assert!(rates.iter().all(|rate| (bounds[0]..=bounds[1]).contains(rate)));
    let mean = rates.iter().sum::<u64>() as f64 / rates.len() as f64;
    // Of a uniform draw: 5 Mbit/s, and 1.73 Mbit/s over the root of 400.
    assert!((mean - 5e6).abs() < 4.0 * 1.73e6 / 20.0, "{mean}");
    let again = Link::<Numbered>::new(LinkConfig { seed: 5, ..config.clone() }).expect("valid");
    assert_eq!(again.rate(at_ms(7_500)), link.rate(at_ms(7_500)), "the seed decides");
    let other = Link::<Numbered>::new(LinkConfig { seed: 6, ..config }).expect("valid");
    assert_ne!(other.rate(at_ms(7_500)), link.rate(at_ms(7_500)));
}

#[test]
fn the_first_satellite_is_in_sight_and_each_outage_begins_with_its_period() {
    let mut link = link(handover(None, ms(500)));
    (0..20_000).for_each(|number| link.enqueue(at_ms(number), Numbered::full(number)));
    let lost = dropped(&drain(&mut link), DropReason::Loss);
    assert!(lost.iter().all(|number| *number >= 999 && (number + 1) % 1_000 < 500), "{lost:?}");
    for period in 1..20 {
        let in_period: Vec<u64> = lost.iter().copied().filter(|number| (number + 1) / 1_000 == period).collect();
        // A packet takes a millisecond to send, and its last bit decides.
        assert!(
            in_period.iter().zip(1_000 * period - 1..).all(|(number, expected)| *number == expected),
            "{in_period:?}"
        );
    }
    assert!(lost.len() > 1_000, "{}", lost.len());
}

#[test]
fn a_packet_held_back_is_overtaken_by_those_of_its_extra_delay_and_no_others() {
    let reorder = Some(Reorder { probability: probability(0.1), extra_delay: ms(7) });
    let mut link = link(LinkConfig { reorder, seed: 3, ..plain() });
    (0..5_000).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let order: Vec<u64> = delivered(&drain(&mut link)).into_iter().map(|(number, _)| number).collect();
    let mut farthest = 0;
    for (place, number) in order.iter().enumerate() {
        let overtaken_by = order[..place].iter().rev().take(20).filter(|other| *other > number).count();
        assert!(overtaken_by <= 7, "{number} by {overtaken_by}");
        farthest = farthest.max(overtaken_by);
    }
    assert!(farthest >= 6, "7 ms are seven packets: {farthest}");
    let held = link.counters().reordered;
    assert!((400..600).contains(&held.packets) && held.bytes == 1_500 * held.packets, "{held:?}");
}

#[test]
fn where_all_are_held_back_none_is_overtaken() {
    let reorder = Some(Reorder { probability: probability(1.0), extra_delay: ms(7) });
    let mut link = link(LinkConfig { reorder, ..plain() });
    (0..50).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    assert_eq!(delivered(&drain(&mut link)), (0..50).map(|k| (k, at_ms(18 + k))).collect::<Vec<_>>());
    assert_eq!(link.counters().reordered.packets, 50);
}

/// Bytes as well as packets: offered and duplicated are delivered, dropped or lost, whatever else happens.
#[test]
fn copies_losses_and_refusals_are_counted_in_packets_and_bytes() {
    let disciplines = [
        Discipline::DropTail,
        Discipline::Codel(Codel::default()),
        Discipline::FqCodel(FqCodel { flows: 8, ..FqCodel::default() }),
    ];
    for discipline in disciplines {
        let config = LinkConfig {
            discipline,
            queue: QueueLimit::Bytes(Bytes::new(40_000)),
            loss: LossModel::Bernoulli(probability(0.1)),
            duplicate: probability(0.2),
            reorder: Some(Reorder { probability: probability(0.1), extra_delay: ms(3) }),
            ..plain()
        };
        let mut link = link(config);
        let size = |number: u64| 100 + number * 37 % 1_400;
        for number in 0..3_000 {
            link.enqueue(at_ms(number / 3), Numbered { number, flow: number % 5, size: size(number) });
        }
        let outcomes = drain(&mut link);
        let counters = *link.counters();
        let arrived = delivered(&outcomes).iter().map(|(number, _)| size(*number)).sum::<u64>();
        assert_eq!(counters.delivered, Tally { packets: delivered(&outcomes).len() as u64, bytes: arrived });
        let lost: Tally = Tally {
            packets: dropped(&outcomes, DropReason::Loss).len() as u64,
            bytes: dropped(&outcomes, DropReason::Loss).iter().map(|number| size(*number)).sum(),
        };
        assert_eq!(counters.dropped_loss, lost);
        let dropped = counters.dropped_queue_full
            + counters.dropped_queue_delay
            + counters.dropped_acks
            + counters.dropped_down
            + counters.dropped_policed
            + counters.dropped_loss;
        assert_eq!(counters.offered + counters.duplicated, counters.delivered + dropped, "{discipline:?}");
        assert_eq!(counters.offered.bytes, (0..3_000).map(size).sum::<u64>());
        // Of those that were not lost, a fifth.
        let share = counters.duplicated.packets as f64 / (counters.delivered - counters.duplicated).packets as f64;
        assert!((share - 0.2).abs() < 0.04, "{discipline:?}: {share}");
        assert!(counters.dropped_queue_full.packets + counters.dropped_queue_delay.packets > 0, "{discipline:?}");
    }
}

/// RFC 8290, section 1: a flow that sends too much loses its own packets, and those of a modest one neither wait nor are lost.
#[test]
fn a_flow_that_sends_too_much_loses_its_own_packets_only() {
    let discipline = Discipline::FqCodel(FqCodel::default());
    let mut link = link(LinkConfig { discipline, queue: QueueLimit::Packets(200), ..plain() });
    for number in 0..20_000 {
        // Flow 1 sends at twice the link's rate, flow 2 at a quarter of it.
        link.enqueue(Instant::ZERO + Duration::from_micros(500 * number), Numbered { number, flow: 1, size: 1_500 });
        if number % 8 == 0 {
            let modest = Numbered { number: 100_000 + number, flow: 2, size: 1_500 };
            link.enqueue(Instant::ZERO + Duration::from_micros(500 * number), modest);
        }
    }
    let outcomes = drain(&mut link);
    let lost = [DropReason::QueueFull, DropReason::QueueDelay].map(|why| dropped(&outcomes, why)).concat();
    assert!(lost.len() > 5_000 && lost.iter().all(|number| *number < 100_000), "{}", lost.len());
    for (number, at) in delivered(&outcomes).into_iter().filter(|(number, _)| *number >= 100_000) {
        let waited = at.since(Instant::ZERO + Duration::from_micros(500 * (number - 100_000)));
        assert!(waited <= ms(10 + 4), "{number}: {waited}");
    }
}

/// RFC 8289, section 5.5: a single interval above the target is needed; a queue that falls below it in between begins anew.
#[test]
fn codel_waits_for_a_whole_interval_above_its_target() {
    let discipline = Discipline::Codel(Codel::default());
    // A burst of 90 packets drains within 90 ms; a pause, and the next.
    let mut link = link(LinkConfig { discipline, ..plain() });
    for burst in 0..50 {
        (0..90).for_each(|number| link.enqueue(at_ms(100 * burst), Numbered::full(90 * burst + number)));
    }
    assert_eq!(delivered(&drain(&mut link)).len(), 50 * 90);
    assert_eq!(link.counters().dropped_queue_delay, Tally::default());
}

#[test]
fn a_loss_in_steps_begins_and_ends_at_its_times() {
    let steps =
        Steps::new(vec![(ms(100), probability(1.0)), (ms(150), probability(0.5)), (ms(400), Probability::ZERO)]);
    let mut link = link(LinkConfig { loss: LossModel::Steps(steps), ..plain() });
    (0..1_000).for_each(|number| link.enqueue(at_ms(number), Numbered::full(number)));
    // The last bit of packet k is sent at k + 1 ms.
    let lost = dropped(&drain(&mut link), DropReason::Loss);
    assert_eq!(lost.first(), Some(&99), "none before the first step");
    assert!((99..149).all(|number| lost.contains(&number)), "all in the second");
    let half = lost.iter().filter(|number| (149..399).contains(*number)).count();
    assert!((90..160).contains(&half), "of 250: {half}");
    assert!(lost.iter().all(|number| *number < 399), "none after the last");
}

/// The timed Gilbert-Elliott channel is a process in time: packets that are sent at the same times meet the same states, whatever
/// else is sent.
#[test]
fn a_fade_is_the_same_for_dense_and_for_sparse_traffic() {
    let fades = TimedGilbertElliott {
        mean_good: ms(900),
        mean_bad: ms(100),
        loss_good: Probability::ZERO,
        loss_bad: probability(1.0),
    };
    let lost = |every: u64| {
        let loss = LossModel::TimedGilbertElliott(fades);
        let mut link = link(LinkConfig { loss, rate: None, seed: 11, ..plain() });
        (0..300_000).step_by(every as usize).for_each(|number| link.enqueue(at_ms(number), Numbered::full(number)));
        dropped(&drain(&mut link), DropReason::Loss)
    };
    let (dense, sparse) = (lost(1), lost(10));
    let every_tenth: Vec<u64> = dense.iter().copied().filter(|number| number % 10 == 0).collect();
    assert_eq!(sparse, every_tenth);
    // A tenth of the time, in some 300 fades: four standard deviations.
    let share = dense.len() as f64 / 300_000.0;
    assert!((share - 0.1).abs() < 0.035, "{share}");
}

/// A link that may go down, of this delay at first and another from 5 s on.
fn fallible(delay: Duration, later: Duration) -> Link<Numbered> {
    let steps = Steps { steps: vec![(Duration::from_secs(5), later)], file: None, repeat: None };
    let config = LinkConfig { delay, delay_steps: Some(steps), ..plain() };
    link(config).into_fallible(QueueLimit::Unlimited)
}

/// The link goes down; returns how many packets are lost.
fn lose_all(link: &mut Link<Numbered>, millis: u64) -> u32 {
    let mut lost = 0;
    link.lose_all(at_ms(millis), |_| lost += 1);
    lost
}

#[test]
fn nothing_waits_for_what_was_lost_when_the_link_went_down() {
    let mut link = fallible(ms(2_000), ms(20));
    link.enqueue(at_ms(4_900), Numbered::full(0));
    assert_eq!(lose_all(&mut link, 5_100), 1);
    link.enqueue(at_ms(5_200), Numbered::full(1));
    assert_eq!(delivered(&drain(&mut link)), [(1, at_ms(5_221))]);
}

#[test]
fn opportunities_that_lost_packets_would_have_used_are_there_for_others() {
    let mut link = recorded(&[1_000, 2_000, 3_000, 4_000]).into_fallible(QueueLimit::Unlimited);
    link.enqueue(at_ms(1_100), sized(0, 4_000));
    assert_eq!(lose_all(&mut link, 1_200), 1);
    (1..3).for_each(|number| link.enqueue(at_ms(1_300), sized(number, 100)));
    assert_eq!(delivered(&drain(&mut link)), [(1, at_ms(2_000)), (2, at_ms(2_000))]);
}

#[test]
fn the_transmitter_of_a_link_that_went_down_is_free() {
    let mut link = fallible(ms(20), ms(20));
    // The first of these takes 100 ms.
    (0..2).for_each(|number| link.enqueue(at_ms(1_000), sized(number, 150_000)));
    assert_eq!(lose_all(&mut link, 1_010), 2);
    link.enqueue(at_ms(1_015), Numbered::full(2));
    assert_eq!(delivered(&drain(&mut link)), [(2, at_ms(1_036))]);
}

/// Without a rate and a delay, a packet may come and arrive between another and its copy.
#[test]
fn a_copy_comes_right_behind_its_original_though_both_are_late() {
    let mut held_back = 0;
    for seed in 0..64 {
        let reorder = Some(Reorder { probability: probability(0.5), extra_delay: ms(5) });
        let config =
            LinkConfig { rate: None, delay: Duration::ZERO, reorder, duplicate: probability(1.0), seed, ..plain() };
        let mut link = link(config);
        link.enqueue(Instant::ZERO, Numbered::full(0));
        let Some(first) = link.poll(at_ms(5)).filter(|_| link.next_timeout() == Some(at_ms(5))) else { continue };
        held_back += 1;
        link.enqueue(at_ms(5), Numbered::full(1));
        let rest = drain(&mut link);
        let order: Vec<u64> = delivered(&[vec![first], rest].concat()).into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [0, 0, 1, 1], "seed {seed}");
    }
    assert!(held_back > 10, "{held_back}");
}
