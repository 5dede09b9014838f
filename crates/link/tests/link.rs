//! What a link promises, checked from outside.

use crate::packets::{Numbered, at_ms, delivered, drain, dropped};
use link::{
    Codel, Discipline, DropReason, FqCodel, GilbertElliott, Handover, Link, LinkConfig, LossModel, Opportunities,
    Outcome, QueueLimit, Reorder, Steps, Tally, TimedGilbertElliott,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use units::{Bytes, Duration, Instant, Probability, Rate};

const MBIT: u64 = 1_000_000;

fn full(number: u64) -> Numbered {
    Numbered::full(number)
}

fn probability(p: f64) -> Probability {
    Probability::new(p).expect("from 0 to 1")
}

fn geo() -> LinkConfig {
    LinkConfig::new(Rate::from_bps(6 * MBIT), Duration::from_millis(275))
}

#[test]
fn packets_arrive_one_transmission_apart_and_a_delay_later() {
    let mut link = Link::new(geo()).expect("valid");
    (0..3).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
    assert_eq!(delivered(&drain(&mut link)), [(0, at_ms(277)), (1, at_ms(279)), (2, at_ms(281))]);
}

#[test]
fn a_driver_may_wait_for_several() {
    let mut link = Link::new(geo()).expect("valid");
    assert_eq!(link.last_timeout_by(at_ms(1000)), None);
    (0..3).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
    let last_by = |end| link.last_timeout_by(at_ms(end));
    assert_eq!(
        [276, 277, 280, 281, 1000].map(last_by),
        [None, Some(277), Some(279), Some(281), Some(281)].map(|at| at.map(at_ms))
    );
}

#[test]
fn who_is_overtaken_is_waited_for_too() {
    let reorder = Some(Reorder { probability: probability(1.0), extra_delay: Duration::from_millis(10) });
    let mut link = Link::new(LinkConfig { reorder, ..geo() }).expect("valid");
    link.enqueue(Instant::ZERO, full(0));
    assert_eq!(link.last_timeout_by(at_ms(286)), None);
    assert_eq!(link.last_timeout_by(at_ms(300)), Some(at_ms(287)));
}

#[test]
fn nothing_departs_early() {
    let mut link = Link::new(geo()).expect("valid");
    link.enqueue(Instant::ZERO, full(0));
    assert_eq!(link.poll(Instant::from_nanos(276_999_999)), None);
    assert!(link.poll(at_ms(277)).is_some());
    assert_eq!(link.next_timeout(), None);
}

#[test]
fn an_unlimited_rate_only_delays() {
    let config = LinkConfig { rate: None, queue: QueueLimit::Packets(1), ..geo() };
    let mut link = Link::new(config).expect("valid");
    (0..100).for_each(|number| link.enqueue(at_ms(1), full(number)));
    assert_eq!(delivered(&drain(&mut link)), (0..100).map(|number| (number, at_ms(276))).collect::<Vec<_>>());
}

#[test]
fn the_queue_holds_its_limit_besides_the_packet_being_sent() {
    for queue in [QueueLimit::Packets(2), QueueLimit::Bytes(Bytes::new(3_000)), QueueLimit::Bytes(Bytes::new(4_499))] {
        let mut link = Link::new(LinkConfig { queue, ..geo() }).expect("valid");
        (0..5).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
        assert_eq!(link.queued_bytes(Instant::ZERO), Bytes::new(3_000));
        assert_eq!(link.queued_packets(Instant::ZERO), 2);
        assert_eq!(link.queued_packets(Instant::from_nanos(1_999_999)), 2);
        // Two milliseconds later one has moved on from the queue to the transmitter, and there is room for one.
        (5..7).for_each(|number| link.enqueue(at_ms(2), full(number)));
        let outcomes = drain(&mut link);
        assert_eq!(dropped(&outcomes, DropReason::QueueFull), [3, 4, 6]);
        assert_eq!(delivered(&outcomes).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 5]);
        assert_eq!(link.counters().dropped_queue_full.bytes, 4_500);
        assert_eq!(link.queued_bytes(at_ms(1_000)), Bytes::ZERO);
    }
}

#[test]
fn a_lost_packet_has_used_its_transmission_time() {
    let mut link =
        Link::new(LinkConfig { loss: LossModel::Bernoulli(probability(0.3)), seed: 1, ..geo() }).expect("valid");
    (0..100).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
    let outcomes = drain(&mut link);
    let lost = dropped(&outcomes, DropReason::Loss);
    assert!((10..60).contains(&lost.len()), "{lost:?}");
    for (number, at) in delivered(&outcomes) {
        assert_eq!(at, at_ms(277 + 2 * number));
        assert!(!lost.contains(&number));
    }
}

#[test]
fn losses_depend_on_the_seed_and_the_stream_but_not_on_time() {
    let lost = |config: LinkConfig, spacing: Duration| {
        let loss = LossModel::Bernoulli(probability(0.1));
        let mut link = Link::new(LinkConfig { loss, queue: QueueLimit::Unlimited, ..config }).expect("valid");
        (0..1_000).for_each(|number| link.enqueue(Instant::ZERO + spacing * number, full(number)));
        dropped(&drain(&mut link), DropReason::Loss)
    };
    let slow = lost(geo(), Duration::ZERO);
    assert_eq!(slow, lost(LinkConfig { rate: None, ..geo() }, Duration::from_millis(3)));
    // Another random process does not disturb this one.
    let reorder = Some(Reorder { probability: probability(0.5), extra_delay: Duration::from_millis(9) });
    let disturbed = lost(LinkConfig { reorder, duplicate: probability(0.5), ..geo() }, Duration::ZERO);
    assert_eq!(slow, {
        let mut sorted = disturbed;
        sorted.sort_unstable();
        sorted
    });
    assert_ne!(slow, lost(LinkConfig { seed: 1, ..geo() }, Duration::ZERO));
    assert_ne!(slow, lost(LinkConfig { stream: 1, ..geo() }, Duration::ZERO));
}

#[test]
fn a_reordered_packet_is_overtaken_by_those_within_its_extra_delay() {
    let reorder = Some(Reorder { probability: probability(0.05), extra_delay: Duration::from_millis(5) });
    let mut link = Link::new(LinkConfig { reorder, ..geo() }).expect("valid");
    (0..200).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
    let outcomes = drain(&mut link);
    let arrivals = delivered(&outcomes);
    assert_eq!(arrivals.len(), 200);
    let mut late = 0;
    for (number, at) in &arrivals {
        let in_order = at_ms(277 + 2 * number);
        assert!(*at == in_order || *at == in_order + Duration::from_millis(5), "{number}");
        late += u64::from(*at != in_order);
    }
    assert!(arrivals.windows(2).all(|pair| pair[0].1 <= pair[1].1), "outcomes come in order of time");
    assert!(arrivals.windows(2).any(|pair| pair[0].0 > pair[1].0), "some packet was overtaken");
    assert_eq!(late, link.counters().reordered.packets);
}

#[test]
fn a_duplicate_arrives_with_its_original_and_uses_no_capacity() {
    let mut link = Link::new(LinkConfig { duplicate: probability(1.0), ..geo() }).expect("valid");
    (0..2).for_each(|number| link.enqueue(Instant::ZERO, full(number)));
    let arrivals = delivered(&drain(&mut link));
    assert_eq!(arrivals, [(0, at_ms(277)), (0, at_ms(277)), (1, at_ms(279)), (1, at_ms(279))]);
    assert_eq!(link.counters().duplicated.packets, 2);
    assert_eq!(link.counters().delivered.packets, 4);
}

#[test]
fn time_that_runs_backwards_does_no_harm() {
    let mut link = Link::new(geo()).expect("valid");
    link.enqueue(at_ms(10), full(0));
    link.enqueue(at_ms(5), full(1));
    assert_eq!(delivered(&drain(&mut link)), [(0, at_ms(287)), (1, at_ms(289))]);
}

/// Any link, from modest to absurd.
fn any_config() -> impl Strategy<Value = LinkConfig> {
    let rate = prop_oneof![Just(None), (1_000u64..1_000_000_000).prop_map(|bps| Some(Rate::from_bps(bps)))];
    let queue = prop_oneof![
        Just(QueueLimit::Unlimited),
        (1u64..20).prop_map(QueueLimit::Packets),
        (1u64..20_000).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
    ];
    let discipline = prop_oneof![
        3 => Just(Discipline::DropTail),
        1 => Just(Discipline::Codel(Codel::default())),
        1 => Just(Discipline::FqCodel(FqCodel { flows: 4, ..FqCodel::default() })),
    ];
    let reorder = proptest::option::of(
        (0.0..1.0, 1u64..50_000_000)
            .prop_map(|(p, nanos)| Reorder { probability: probability(p), extra_delay: Duration::from_nanos(nanos) }),
    );
    let plain = (rate, 0u64..300_000_000, queue, any_loss(), reorder, 0.0..0.5, any::<u64>());
    let changes = (discipline, any_schedules(), any::<bool>());
    (plain, changes).prop_map(
        |((rate, delay, queue, loss, reorder, duplicate, seed), (discipline, schedules, keep_order))| LinkConfig {
            rate: rate.filter(|_| schedules.opportunities.is_none()),
            rate_steps: schedules.rate_steps.filter(|_| rate.is_some()),
            delay: Duration::from_nanos(delay),
            queue,
            discipline,
            loss,
            reorder,
            duplicate: probability(duplicate),
            seed,
            keep_order,
            overhead: Bytes::new(seed % 40),
            ..schedules
        },
    )
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    let gilbert_elliott = (0.0..1.0, 0.0..1.0, 0.0..0.2, 0.0..1.0).prop_map(|(p, r, good, bad)| {
        let [p, r, loss_good, loss_bad] = [p, r, good, bad].map(probability);
        LossModel::GilbertElliott(GilbertElliott { p, r, loss_good, loss_bad })
    });
    let timed = (1u64..100, 1u64..100, 0.0..1.0).prop_map(|(good, bad, loss_bad)| {
        LossModel::TimedGilbertElliott(TimedGilbertElliott {
            mean_good: Duration::from_millis(good),
            mean_bad: Duration::from_millis(bad),
            loss_good: Probability::ZERO,
            loss_bad: probability(loss_bad),
        })
    });
    prop_oneof![
        Just(LossModel::None),
        (0.0..1.0).prop_map(|p| LossModel::Bernoulli(probability(p))),
        (0.0..1e-4).prop_map(|p| LossModel::BitErrorRate(probability(p))),
        gilbert_elliott,
        timed,
        proptest::collection::vec(0u64..150, 0..20).prop_map(LossModel::DropList),
        any_steps(0u64..10).prop_map(|steps| {
            let steps = steps.steps.iter().map(|(at, tenths)| (*at, probability(*tenths as f64 / 10.0))).collect();
            LossModel::Steps(Steps::new(steps))
        }),
    ]
}

/// Steps within the first half second, perhaps repeated.
fn any_steps(values: std::ops::Range<u64>) -> impl Strategy<Value = Steps<u64>> {
    (proptest::collection::btree_map(0u64..500_000_000, values, 1..6), any::<bool>()).prop_map(|(steps, repeats)| {
        Steps {
            repeat: repeats.then_some(Duration::from_millis(500)),
            ..Steps::new(steps.into_iter().map(|(nanos, value)| (Duration::from_nanos(nanos), value)).collect())
        }
    })
}

/// A link with none, one or several of the things that change with time; its rate is still to be set.
fn any_schedules() -> impl Strategy<Value = LinkConfig> {
    let rates = any_steps(0..50_000_000).prop_map(|mut steps| {
        // It ends in a rate that brings everything through.
        steps.steps.push((Duration::from_nanos(499_999_999 + 1_000 * u64::from(steps.repeat.is_none())), 1_000_000));
        let steps_of_rate = steps.steps.iter().map(|(at, bps)| (*at, Rate::from_bps(*bps))).collect();
        Steps { repeat: steps.repeat, ..Steps::new(steps_of_rate) }
    });
    let delays = any_steps(0..100_000_000).prop_map(|steps| {
        let steps_of_delay = steps.steps.iter().map(|(at, nanos)| (*at, Duration::from_nanos(*nanos))).collect();
        Steps { repeat: steps.repeat, ..Steps::new(steps_of_delay) }
    });
    let handover = Handover {
        period: Duration::from_millis(40),
        delay: [Duration::from_millis(10), Duration::from_millis(30)],
        rate: None,
        outage: Duration::from_millis(10),
    };
    let option = proptest::option::of::<proptest::strategy::BoxedStrategy<Steps<Duration>>>;
    let opportunities = proptest::collection::vec(1u64..50, 1..20).prop_map(|mut millis| {
        millis.sort_unstable();
        Opportunities { millis, file: None }
    });
    prop_oneof![
        (proptest::option::of(rates.boxed()), option(delays.boxed()))
            .prop_map(|(rate_steps, delay_steps)| LinkConfig { rate_steps, delay_steps, ..geo() }),
        Just(LinkConfig { handover: Some(handover), ..geo() }),
        opportunities.prop_map(|opportunities| LinkConfig { opportunities: Some(opportunities), ..geo() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

    /// Whatever the link and the traffic: every packet is accounted for, outcomes come in order of time and never
    /// early, a timeout always leads on, and without reordering no packet overtakes another.
    #[test]
    fn every_packet_is_accounted_for(
        config in any_config(),
        traffic in proptest::collection::vec((0u64..5_000_000, 20u64..9_000), 1..150),
    ) {
        let is_fair = matches!(config.discipline, Discipline::FqCodel(_));
        let ordered = config.reorder.is_none() && config.keep_order && !is_fair;
        let mut link = Link::new(config).expect("valid");
        let (mut now, mut outcomes) = (Instant::ZERO, Vec::new());
        for (number, (gap, size)) in traffic.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            link.enqueue(now, Numbered { number: number as u64, flow: number as u64 % 3, size: *size });
            while let Some(outcome) = link.poll(now) {
                let (Outcome::Departure { at, .. } | Outcome::Drop { at, .. }) = &outcome;
                prop_assert!(*at <= now);
                outcomes.push(outcome);
            }
            let counters = *link.counters();
            let dropped = counters.dropped_queue_full + counters.dropped_queue_delay + counters.dropped_policed + counters.dropped_loss;
            let reported = counters.delivered.packets + dropped.packets;
            prop_assert_eq!(reported, outcomes.len() as u64);
            prop_assert_eq!(counters.offered.packets + counters.duplicated.packets, reported + counters.in_transit().packets);
            prop_assert_eq!(link.next_timeout().is_some(), counters.in_transit().packets > 0);
            prop_assert!(link.next_timeout().is_none_or(|at| at > now));
        }
        outcomes.extend(drain(&mut link));
        prop_assert_eq!(link.counters().in_transit(), Tally::default());
        prop_assert_eq!(link.counters().offered.packets, traffic.len() as u64);

        let arrivals = delivered(&outcomes);
        prop_assert!(arrivals.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        if ordered {
            prop_assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
        let mut accounted: Vec<u64> = arrivals.iter().map(|(number, _)| *number).collect();
        accounted.extend([DropReason::Loss, DropReason::QueueFull, DropReason::QueueDelay].map(|why| dropped(&outcomes, why)).concat());
        accounted.sort_unstable();
        accounted.dedup();
        prop_assert_eq!(accounted, (0..traffic.len() as u64).collect::<Vec<_>>());
    }

    /// A saturated link delivers at its rate, to the nanosecond.
    #[test]
    fn the_long_run_rate_is_exact(bps in 1_000u64..10_000_000_000, sizes in proptest::collection::vec(20u64..9_000, 1..500)) {
        let config = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(bps), Duration::ZERO) };
        let mut link = Link::new(config).expect("valid");
        for (number, size) in sizes.iter().enumerate() {
            link.enqueue(Instant::ZERO, Numbered { number: number as u64, flow: number as u64 % 3, size: *size });
        }
        let last = delivered(&drain(&mut link)).last().map(|(_, at)| u128::from(at.as_nanos()));
        let bits = u128::from(sizes.iter().sum::<u64>()) * 8;
        prop_assert_eq!(last, Some(bits * 1_000_000_000 / u128::from(bps)));
    }

    /// What comes out does not depend on how often the driver polls in between.
    #[test]
    fn lazy_and_eager_drivers_see_the_same(
        config in any_config(),
        traffic in proptest::collection::vec((0u64..5_000_000, 20u64..9_000), 1..100),
    ) {
        let run = |is_eager: bool| {
            let mut link = Link::new(config.clone()).expect("valid");
            let (mut now, mut outcomes) = (Instant::ZERO, Vec::new());
            for (number, (gap, size)) in traffic.iter().enumerate() {
                now += Duration::from_nanos(*gap);
                while let Some(timeout) = link.next_timeout().filter(|at| is_eager && *at < now) {
                    outcomes.extend(std::iter::from_fn(|| link.poll(timeout)));
                }
                link.enqueue(now, Numbered { number: number as u64, flow: number as u64 % 3, size: *size });
            }
            outcomes.extend(drain(&mut link));
            let mut drops = [DropReason::Loss, DropReason::QueueFull, DropReason::QueueDelay].map(|why| dropped(&outcomes, why));
            drops.iter_mut().for_each(|numbers| numbers.sort_unstable());
            (delivered(&outcomes), drops)
        };
        let (mut eager, mut lazy) = (run(true), run(false));
        // Packets that arrive in the same nanosecond by different ways may change places.
        eager.0.sort_unstable_by_key(|(number, at)| (*at, *number));
        lazy.0.sort_unstable_by_key(|(number, at)| (*at, *number));
        prop_assert_eq!(eager, lazy);
    }
}
