//! The link beside models of a few lines each, which are right at sight and slow: a FIFO with a tail drop, CoDel's drop times as
//! RFC 8289 prints them, the byte-by-byte round robin that deficit round robin approximates, and a driver that carries packets itself.

use crate::packets::{Numbered, delivered, drain, dropped};
use link::{
    Codel, Discipline, DropReason, FqCodel, GilbertElliott, Link, LinkConfig, LoggedOutcome, LossModel, Opportunities,
    Outcome, Policer, QueueLimit, Steps, Tally, TimedGilbertElliott,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, Probability, Rate};

fn at_us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn probability(p: f64) -> Probability {
    Probability::new(p).expect("from 0 to 1")
}

/// Arrivals: microseconds since the one before, and a size.
fn arrivals(most: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((0u64..5_000, 20u64..2_000), 1..most)
}

/// The packets of `arrivals` with their times.
fn packets(arrivals: &[(u64, u64)]) -> Vec<(Instant, Numbered)> {
    let mut now = 0;
    let mut number = 0..;
    let mut packet = |&(gap, size): &(u64, u64)| {
        now += gap;
        (at_us(now), Numbered { number: number.next().expect("endless"), flow: 0, size })
    };
    arrivals.iter().map(&mut packet).collect()
}

/// When each packet is through (`None`: refused) in a FIFO that holds `limit` beside the packet being sent.
fn fifo(rate: u64, limit: QueueLimit, packets: &[(Instant, Numbered)]) -> Vec<Option<Instant>> {
    // Picoseconds are whole for the rates that follow: 8e12 / rate has no remainder.
    let per_byte = 8_000_000_000_000 / u128::from(rate);
    let (mut free_at, mut waiting) = (0u128, VecDeque::<(u128, u64)>::new());
    let mut send = |(now, packet): &(Instant, Numbered)| {
        let now = u128::from(now.as_nanos()) * 1_000;
        // What has begun to be sent no longer waits.
        while waiting.front().is_some_and(|(begins, _)| *begins <= now) {
            waiting.pop_front();
        }
        let bytes: u64 = waiting.iter().map(|(_, size)| size).sum();
        let has_room = match limit {
            QueueLimit::Packets(limit) => (waiting.len() as u64) < limit,
            QueueLimit::Bytes(limit) => bytes + packet.size <= limit.as_u64(),
            QueueLimit::Unlimited => true,
        };
        if free_at > now && !has_room {
            return None;
        }
        let begins = free_at.max(now);
        if begins > now {
            waiting.push_back((begins, packet.size));
        }
        free_at = begins + u128::from(packet.size) * per_byte;
        Some(Instant::from_nanos((free_at / 1_000) as u64))
    };
    packets.iter().map(&mut send).collect()
}

fn any_limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1u64..20).prop_map(QueueLimit::Packets),
        (1u64..20_000).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
        Just(QueueLimit::Unlimited),
    ]
}

/// A link that sends at once, at a rate that need not divide the time of a packet, at rates that change, or at opportunities.
fn any_pace() -> impl Strategy<Value = LinkConfig> {
    let rate = || (500_000u64..12_000_000).prop_map(Rate::from_bps);
    let plain = |rate| LinkConfig { rate, ..LinkConfig::new(Rate::from_bps(1_000_000), Duration::ZERO) };
    let changing = move |(rate, [first, last], outage, repeat): (_, [Rate; 2], u64, u64)| {
        let at = |millis| Duration::from_millis(50 + millis);
        let steps = vec![(at(0), first), (at(1), Rate::ZERO), (at(outage), last)];
        let repeat = (repeat > outage).then(|| at(repeat));
        LinkConfig { rate_steps: Some(Steps { repeat, ..Steps::new(steps) }), ..plain(Some(rate)) }
    };
    let opportunities = move |mut millis: Vec<u64>| {
        millis.sort_unstable();
        LinkConfig { opportunities: Some(Opportunities { millis, file: None }), ..plain(None) }
    };
    prop_oneof![
        Just(plain(None)),
        rate().prop_map(move |rate| plain(Some(rate))),
        (rate(), [rate(), rate()], 2u64..50, 1u64..100).prop_map(changing),
        proptest::collection::vec(1u64..60, 1..40).prop_map(opportunities),
    ]
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    let [never, seldom, often, always] = [0.0, 0.05, 0.5, 1.0].map(probability);
    let at = Duration::from_millis;
    prop::sample::select(vec![
        LossModel::None,
        LossModel::Bernoulli(probability(0.2)),
        LossModel::BitErrorRate(probability(1e-4)),
        LossModel::DropList(vec![1, 3, 4, 9, 30]),
        LossModel::GilbertElliott(GilbertElliott { p: seldom, r: often, loss_good: never, loss_bad: always }),
        LossModel::TimedGilbertElliott(TimedGilbertElliott {
            mean_good: at(50),
            mean_bad: at(20),
            loss_good: seldom,
            loss_bad: often,
        }),
        LossModel::Steps(Steps {
            repeat: Some(at(120)),
            ..Steps::new(vec![(at(40), often), (at(60), always), (at(70), never)])
        }),
    ])
}

prop_compose! {
    /// A link that decides on arrival.
    fn any_deciding_link()(
        pace in any_pace(),
        overhead in prop_oneof![Just(0), 1u64..60],
        delay in 0u64..300,
        policer in prop::option::of((500_000u64..5_000_000, 1_500u64..10_000)),
        queue in any_limit(),
        loss in any_loss(),
        seed: u64,
    ) -> LinkConfig {
        let policer = policer.map(|(rate, burst)| Policer { rate: Rate::from_bps(rate), burst: Bytes::new(burst) });
        let (overhead, delay) = (Bytes::new(overhead), Duration::from_millis(delay));
        LinkConfig { overhead, delay, policer, queue, loss, seed, ..pace }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_drop_tail_queue_is_a_fifo(
        arrivals in arrivals(120),
        limit in any_limit(),
        // Those by which 8e12 can be divided.
        rate in prop::sample::select(vec![1_000_000u64, 6_400_000, 10_000_000]),
        delay in 0u64..300_000,
    ) {
        let config = LinkConfig {
            queue: limit,
            ..LinkConfig::new(Rate::from_bps(rate), Duration::from_micros(delay))
        };
        let mut link = Link::new(config).expect("valid");
        let packets = packets(&arrivals);
        let expected = fifo(rate, limit, &packets);
        for (now, packet) in &packets {
            link.enqueue(*now, *packet);
        }
        let outcomes = drain(&mut link);
        let of = |at: &Option<Instant>| at.map(|at| at + Duration::from_micros(delay));
        let arrive: Vec<_> = expected.iter().enumerate().filter_map(|(k, at)| Some((k as u64, of(at)?))).collect();
        for (told, expected) in delivered(&outcomes).iter().zip(&arrive) {
            prop_assert_eq!(told.0, expected.0);
            // Both round to whole nanoseconds.
            let (told, expected) = (told.1.as_nanos(), expected.1.as_nanos());
            prop_assert!(told.abs_diff(expected) <= 1, "{told} {expected}");
        }
        prop_assert_eq!(delivered(&outcomes).len(), arrive.len());
        let refused: Vec<_> = (0..).zip(&expected).filter(|(_, at)| at.is_none()).map(|(k, _)| k).collect::<Vec<u64>>();
        prop_assert_eq!(dropped(&outcomes, DropReason::QueueFull), refused);
    }

    /// "All others fare as if it had been given to `enqueue`": whichever packets the caller carries itself, each has the same outcome.
    #[test]
    fn what_the_caller_carries_fares_as_what_the_link_carries(
        arrivals in arrivals(150),
        carried in proptest::collection::vec(any::<bool>(), 150),
        config in any_deciding_link(),
    ) {
        let mut whole = Link::new(config.clone()).expect("valid");
        let mut mixed = Link::new(config).expect("valid");
        prop_assert!(mixed.decides_on_arrival());
        let mut outcomes = Vec::new();
        for ((now, packet), carries) in packets(&arrivals).into_iter().zip(carried) {
            whole.enqueue(now, packet);
            if carries {
                outcomes.push((packet.number, mixed.pass(now, Bytes::new(packet.size))));
            } else {
                mixed.enqueue(now, packet);
            }
        }
        let outcome = |told: &Outcome<Numbered>| match told {
            Outcome::Departure { packet, at } => (packet.number, LoggedOutcome::Arrives(*at)),
            Outcome::Drop { packet, reason: DropReason::Loss, at } => (packet.number, LoggedOutcome::Lost(*at)),
            Outcome::Drop { packet, reason, .. } => (packet.number, LoggedOutcome::Refused(*reason)),
        };
        let sorted = |mut outcomes: Vec<(u64, LoggedOutcome)>| {
            outcomes.sort_by_key(|(number, _)| *number);
            outcomes
        };
        let expected = sorted(drain(&mut whole).iter().map(outcome).collect());
        outcomes.extend(drain(&mut mixed).iter().map(outcome));
        prop_assert_eq!(sorted(outcomes), expected);
        prop_assert_eq!(mixed.counters(), whole.counters());
    }

    /// Bytes that were sent are the integral of the rate while something waited, whatever its steps.
    #[test]
    fn a_busy_link_sends_what_its_rate_amounts_to(
        steps in proptest::collection::vec((1u64..500, 0u64..20), 1..12),
        repeat in 1u64..500,
        packets in 20u64..200,
    ) {
        let mut at = 0;
        let mut steps: Vec<_> = steps
            .into_iter()
            .map(|(gap, mbit)| {
                at += gap;
                (Duration::from_millis(at), Rate::from_bps(mbit * 1_000_000))
            })
            .collect();
        // It must not stay at zero.
        steps.push((Duration::from_millis(at + 1), Rate::from_bps(1_000_000)));
        let period = at + 1 + repeat;
        let schedule = Steps { repeat: Some(Duration::from_millis(period)), ..Steps::new(steps.clone()) };
        let plain = Rate::from_bps(5_000_000);
        let config = LinkConfig {
            rate_steps: Some(schedule),
            queue: QueueLimit::Unlimited,
            ..LinkConfig::new(plain, Duration::ZERO)
        };
        let mut link = Link::new(config).expect("valid");
        (0..packets).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
        let rate_at = |milli: u64| {
            let within = Duration::from_millis(milli % period);
            steps.iter().rev().find(|(from, _)| *from <= within).map_or(plain, |(_, rate)| *rate).as_bps()
        };
        let end = delivered(&drain(&mut link)).last().expect("all arrive").1;
        // Bits in whole milliseconds before the end, and in the one that holds it.
        let nanos = end.as_nanos();
        let before: u64 = (0..nanos / 1_000_000).map(|milli| rate_at(milli) / 1_000).sum();
        let rest = u128::from(rate_at((nanos - 1) / 1_000_000)) * u128::from(nanos % 1_000_000) / 1_000_000_000;
        let (sent, offered) = (before + rest as u64, packets * 12_000);
        prop_assert!(sent.abs_diff(offered) <= 1 + packets / 10, "{sent} bits for {offered} by {end:?}");
    }

    /// Deficit round robin serves backlogged flows alike to within a quantum and a packet (RFC 8290, section 4.2; Shreedhar and
    /// Varghese, 1995), whatever the sizes of their packets and how many packets each had to begin with.
    #[test]
    fn fair_queues_serve_backlogged_flows_alike(
        sizes in proptest::collection::vec(60u64..1_514, 2..6),
        quantum in 256u64..3_000,
    ) {
        let fair = FqCodel { quantum: Bytes::new(quantum), interval: Duration::from_secs(3_600), ..FqCodel::default() };
        let config = LinkConfig {
            discipline: Discipline::FqCodel(fair),
            queue: QueueLimit::Unlimited,
            ..LinkConfig::new(Rate::from_bps(8_000_000), Duration::ZERO)
        };
        let mut link = Link::new(config).expect("valid");
        let mut number = 0;
        for (flow, size) in (0u64..).zip(&sizes) {
            for _ in 0..60_000 / size {
                // Flows that share a queue are one flow: these do not (checked below).
                link.enqueue(Instant::ZERO, Numbered { number, flow: flow * 7_919 + 1, size: *size });
                number += 1;
            }
        }
        let (mut served, mut order) = (std::collections::BTreeMap::<u64, u64>::new(), Vec::new());
        while let Some(now) = link.next_timeout() {
            while let Some(outcome) = link.poll(now) {
                let Outcome::Departure { packet, .. } = outcome else { continue };
                order.push(packet);
            }
        }
        prop_assert_eq!(order.len() as u64, number, "nothing waits for an interval of an hour");
        // The first packet found an idle transmitter.
        for packet in &order[1..] {
            *served.entry(packet.flow).or_default() += packet.size;
            if served.values().any(|bytes| *bytes > 40_000) {
                break;
            }
        }
        let (least, most) = (served.values().min(), served.values().max());
        let (least, most) = (*least.expect("a flow"), *most.expect("a flow"));
        let unfair = most - least;
        prop_assert_eq!(served.len(), sizes.len());
        prop_assert!(unfair <= 2 * (quantum + 1_514), "{unfair} of {served:?}");
    }
}

/// RFC 8289, section 5.4: once in the dropping state, drops are `interval / sqrt(count)` apart.
#[test]
fn codels_drops_are_where_the_control_law_puts_them() {
    let law = Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false };
    let config = LinkConfig {
        discipline: Discipline::Codel(law),
        queue: QueueLimit::Unlimited,
        ..LinkConfig::new(Rate::from_bps(12_000_000), Duration::ZERO)
    };
    let mut link = Link::new(config).expect("valid");
    // A millisecond each: the queue never empties within the second that is looked at.
    (0..3_000).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let mut times = Vec::new();
    while let Some(now) = link.next_timeout().filter(|now| *now < at_us(1_000_000)) {
        while let Some(outcome) = link.poll(now) {
            if let Outcome::Drop { at, reason, .. } = outcome {
                assert_eq!(reason, DropReason::QueueDelay);
                times.push(at);
            }
        }
    }
    assert!(times.len() > 20, "{}", times.len());
    let mut expected = times[0];
    for (count, drop) in (1..).zip(&times[1..]) {
        expected += law.interval.mul_f64(1.0 / f64::from(count).sqrt());
        // Packets begin a millisecond apart, and a drop waits for the next to begin.
        let late = drop.since(expected);
        assert!(late <= Duration::from_millis(1), "drop {count}: {late} after the law's");
        assert!(*drop >= expected, "drop {count} comes before the law's");
    }
    // The first: 5 ms until a packet has waited for the target, and an interval above it.
    assert!((at_us(104_000)..=at_us(107_000)).contains(&times[0]), "{:?}", times[0]);
}

/// A packet's size may change nothing for those behind it but their times.
#[test]
fn which_packets_a_bit_error_rate_loses_grows_with_their_size() {
    let lost = |size: u64| {
        let config = LinkConfig {
            loss: LossModel::BitErrorRate(probability(1e-5)),
            queue: QueueLimit::Unlimited,
            seed: 3,
            ..LinkConfig::new(Rate::from_bps(1_000_000_000), Duration::ZERO)
        };
        let mut link = Link::new(config).expect("valid");
        (0..50_000).for_each(|number| link.enqueue(Instant::ZERO, Numbered { number, flow: 0, size }));
        dropped(&drain(&mut link), DropReason::Loss)
    };
    let (small, large) = (lost(100), lost(1_500));
    // Whatever a small packet's draw loses, a large one's does.
    assert!(small.iter().all(|number| large.contains(number)));
    for (lost, size) in [(&small, 100), (&large, 1_500)] {
        let expected = 1.0 - (1.0 - 1e-5_f64).powi(8 * size);
        let deviation = (expected * (1.0 - expected) / 50_000.0).sqrt();
        let fraction = lost.len() as f64 / 50_000.0;
        assert!((fraction - expected).abs() < 4.0 * deviation, "{size} B: {fraction} of {expected}");
    }
}

#[test]
fn a_gilbert_elliott_channel_loses_in_bursts_what_its_formula_says() {
    let channel = GilbertElliott::with_bursts(probability(0.02), 8.0).expect("a channel");
    assert!(
        GilbertElliott::with_bursts(probability(0.9), 1.0).is_none(),
        "bursts of one packet cannot lose nine in ten"
    );
    assert!(GilbertElliott::with_bursts(probability(0.1), 0.5).is_none(), "a burst has a packet at least");
    let config = LinkConfig {
        loss: LossModel::GilbertElliott(channel),
        queue: QueueLimit::Unlimited,
        ..LinkConfig::new(Rate::from_bps(1_000_000_000), Duration::ZERO)
    };
    let mut link = Link::new(config).expect("valid");
    const PACKETS: u64 = 400_000;
    (0..PACKETS).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let lost = dropped(&drain(&mut link), DropReason::Loss);
    let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let (fraction, length) = (lost.len() as f64 / PACKETS as f64, lost.len() as f64 / bursts as f64);
    assert!((fraction - 0.02).abs() < 0.002, "{fraction}");
    assert!((length - 8.0).abs() < 0.5, "{length} packets in a row");
}

/// The slowest link, the longest way and the latest time: what cannot be in time is never, and nothing overflows.
#[test]
fn the_limits_of_time_and_rate_neither_overflow_nor_lose_a_packet() {
    let config =
        LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1), Duration::from_secs(3_600)) };
    let mut link = Link::new(config.clone()).expect("valid");
    (0..4).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let arrivals = delivered(&drain(&mut link));
    let expected: Vec<_> =
        (1..=4).map(|n| Instant::ZERO + Duration::from_secs(12_000 * n) + Duration::from_secs(3_600)).collect();
    assert_eq!(arrivals.iter().map(|(_, at)| *at).collect::<Vec<_>>(), expected);

    // Nothing is later than the end of time.
    let mut link = Link::new(config).expect("valid");
    link.enqueue(Instant::FAR_FUTURE, Numbered::full(0));
    assert_eq!(link.next_timeout(), None);
    assert_eq!(link.counters().offered, Tally { packets: 1, bytes: 1_500 });
    let last = Outcome::Departure { packet: Numbered::full(0), at: Instant::FAR_FUTURE };
    assert_eq!(link.poll(Instant::ZERO), Some(last), "time does not run back from there");
}

/// What is written in a scenario comes back when the configuration is written again.
#[test]
fn every_setting_survives_its_text_form() {
    let text = r#"
        rate = "6Mbit/s"
        rate_steps = { steps = [["10s", "3Mbit/s"], ["20s", "6Mbit/s"]], repeat = "30s" }
        overhead = "8B"
        delay = "275ms"
        delay_steps = { steps = [["1s", "276ms"]] }
        keep_order = false
        queue = { packets = 100 }
        discipline = { fq_codel = { target = "15ms", interval = "600ms", quantum = "1514B", flows = 64 } }
        loss = { timed_gilbert_elliott = { mean_good = "10s", mean_bad = "200ms", loss_good = 0.001, loss_bad = 1.0 } }
        reorder = { probability = 0.01, extra_delay = "5ms" }
        duplicate = 0.001
        seed = 7
        stream = 3
    "#;
    let read: LinkConfig = toml::from_str(text).expect("valid");
    assert_eq!(read.validate(), Ok(()));
    let again: LinkConfig = toml::from_str(&toml::to_string(&read).expect("can be written")).expect("can be read");
    assert_eq!(again, read);
    for (from, to) in [("6Mbit/s", "7Mbit/s"), ("8B", "9B"), ("0.001\n", "0.002\n"), ("seed = 7", "seed = 8")] {
        let other: LinkConfig = toml::from_str(&text.replacen(from, to, 1)).expect("valid");
        assert_ne!(other, read, "{from} counts");
    }
}

#[test]
fn disciplines_schedules_and_losses_that_make_no_link_are_refused_by_name() {
    let link = || LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275));
    let ms = Duration::from_millis;
    let codel = |target, interval| Discipline::Codel(Codel { target: ms(target), interval: ms(interval), ecn: false });
    let fair =
        |flows, quantum| Discipline::FqCodel(FqCodel { flows, quantum: Bytes::new(quantum), ..FqCodel::default() });
    let timed = |good, bad| {
        let mean = Duration::from_nanos;
        let states = link::TimedGilbertElliott {
            mean_good: mean(good),
            mean_bad: mean(bad),
            loss_good: Probability::ZERO,
            loss_bad: probability(1.0),
        };
        LossModel::TimedGilbertElliott(states)
    };
    let handover = |delay: [u64; 2], rate: Option<[u64; 2]>| {
        let rate = rate.map(|rates| rates.map(Rate::from_bps));
        Some(link::Handover { period: ms(15_000), delay: delay.map(ms), rate, outage: Duration::ZERO })
    };
    let at = |times: &[u64]| Steps::new(times.iter().map(|time| (ms(*time), Rate::from_bps(1_000))).collect());
    let unread = Steps { file: Some("rain.trace".to_owned()), ..at(&[1]) };
    let never = Steps { repeat: Some(ms(5)), ..at(&[5]) };
    let cases = [
        ("discipline", LinkConfig { discipline: codel(0, 100), ..link() }),
        ("discipline", LinkConfig { discipline: codel(5, 5), ..link() }),
        ("discipline", LinkConfig { discipline: codel(5, 3_600_001), ..link() }),
        ("discipline.fq_codel.flows", LinkConfig { discipline: fair(0, 1_514), ..link() }),
        ("discipline.fq_codel.flows", LinkConfig { discipline: fair(65_537, 1_514), ..link() }),
        ("discipline.fq_codel.quantum", LinkConfig { discipline: fair(1, 255), ..link() }),
        ("loss.timed_gilbert_elliott", LinkConfig { loss: timed(999, 1_000_000), ..link() }),
        ("loss.timed_gilbert_elliott", LinkConfig { loss: timed(1_000_000, 999), ..link() }),
        ("loss.steps", LinkConfig { loss: LossModel::Steps(Steps::new(Vec::new())), ..link() }),
        ("loss", LinkConfig { loss: LossModel::DropFile("drops.txt".to_owned()), ..link() }),
        ("rate_steps.file", LinkConfig { rate_steps: Some(unread), ..link() }),
        ("rate_steps", LinkConfig { rate_steps: Some(never), ..link() }),
        ("rate_steps", LinkConfig { rate_steps: Some(at(&[2, 2])), ..link() }),
        ("handover.delay", LinkConfig { handover: handover([2, 1], None), ..link() }),
        ("handover.delay", LinkConfig { handover: handover([1, 3_600_001], None), ..link() }),
        ("handover.rate", LinkConfig { handover: handover([1, 2], Some([2, 1])), ..link() }),
        ("handover.rate", LinkConfig { handover: handover([1, 2], Some([0, 1])), ..link() }),
        (
            "handover.rate",
            LinkConfig { handover: handover([1, 2], Some([1, 2])), rate_steps: Some(at(&[1])), ..link() },
        ),
        (
            "handover",
            LinkConfig {
                handover: handover([1, 2], None),
                delay_steps: Some(Steps::new(vec![(ms(1), ms(2))])),
                ..link()
            },
        ),
        ("stream", LinkConfig { stream: 1 << 56, ..link() }),
    ];
    for (key, config) in cases {
        let error = Link::<Numbered>::new(config).expect_err(key);
        assert_eq!(error.key(), key, "{error}");
        assert!(error.to_string().starts_with(&format!("link: `{key}`: ")), "{error}");
    }
    for edge in [
        LinkConfig { discipline: fair(65_536, 256), ..link() },
        LinkConfig { discipline: fair(1, 256), ..link() },
        LinkConfig { discipline: codel(1, 3_600_000), ..link() },
        LinkConfig { loss: timed(1_000, 1_000), ..link() },
        LinkConfig { handover: handover([1, 1], Some([1, 1])), ..link() },
        LinkConfig { stream: (1 << 56) - 1, overhead: Bytes::new(10_000), ..link() },
    ] {
        assert_eq!(edge.validate(), Ok(()));
    }
}
