//! PIE, FQ-PIE, RED and DualPI2, and marks instead of drops.

use crate::packets::{at_ms, drain};
use link::{Codel, Discipline, DropReason, DualPi2, FqPie, Link, LinkConfig, Outcome, Packet, Pie, QueueLimit, Red};
use proptest::prelude::*;
use units::{Bytes, Duration, Ecn, Instant, Probability, Rate};

/// A packet with an ECN field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marked {
    number: u64,
    flow: u64,
    ecn: Ecn,
}

impl Packet for Marked {
    fn size(&self) -> Bytes {
        Bytes::new(1500)
    }
    fn flow_hash(&self) -> u64 {
        self.flow
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark(&mut self) {
        self.ecn = Ecn::CongestionExperienced;
    }
}

/// 1500 bytes each millisecond.
fn link(discipline: Discipline) -> Link<Marked> {
    let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
    Link::new(LinkConfig { discipline, queue: QueueLimit::Unlimited, ..config }).expect("valid")
}

fn pie(ecn: bool) -> Discipline {
    Discipline::Pie(Pie { ecn, ..Pie::default() })
}

fn red(ecn: bool) -> Discipline {
    Discipline::Red(Red { ecn, ..Red::new(Bytes::new(15_000), Bytes::new(45_000)) })
}

/// Offers packets evenly, `per_second` of them from `from` to `to` ms.
fn offer(link: &mut Link<Marked>, [from, to]: [u64; 2], per_second: u64, flow: u64, ecn: Ecn) -> Vec<Outcome<Marked>> {
    let mut outcomes = Vec::new();
    for number in from * per_second / 1000..to * per_second / 1000 {
        let at = Instant::ZERO + Duration::from_secs_f64(number as f64 / per_second as f64);
        outcomes.extend(std::iter::from_fn(|| link.poll(at)));
        link.enqueue(at, Marked { number, flow, ecn });
    }
    outcomes
}

/// Floyd and Jacobson, figure 2: the average is computed for each arrival, also for those that find no room.
#[test]
fn red_averages_over_arrivals_at_a_full_queue() {
    let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
    let weight = Probability::new(0.1).expect("below 1");
    let red = Red { weight, max_probability: Probability::ZERO, ..Red::new(Bytes::new(3_000), Bytes::new(6_000)) };
    let mut link = Link::new(LinkConfig { discipline: Discipline::Red(red), queue: QueueLimit::Packets(10), ..config })
        .expect("valid");
    (0..100).for_each(|number| link.enqueue(Instant::ZERO, Marked { number, flow: 0, ecn: Ecn::NotCapable }));
    let later = Instant::ZERO + Duration::from_millis(3);
    let is_full = |outcome: &Outcome<_>| matches!(outcome, Outcome::Drop { reason: DropReason::QueueFull, .. });
    assert_eq!(std::iter::from_fn(|| link.poll(later)).filter(is_full).count(), 89);
    // There is room again, but the average is that of a full queue.
    link.enqueue(later, Marked { number: 100, flow: 0, ecn: Ecn::NotCapable });
    let reasons: Vec<_> = std::iter::from_fn(|| link.poll(later)).collect();
    assert!(matches!(reasons[..], [Outcome::Drop { reason: DropReason::QueueDelay, .. }]), "{reasons:?}");
}

fn tally(outcomes: &[Outcome<Marked>], count: impl Fn(&Outcome<Marked>) -> bool) -> usize {
    outcomes.iter().filter(|outcome| count(outcome)).count()
}

fn is_drop(outcome: &Outcome<Marked>) -> bool {
    matches!(outcome, Outcome::Drop { reason: DropReason::QueueDelay, .. })
}

fn is_marked(outcome: &Outcome<Marked>) -> bool {
    matches!(outcome, Outcome::Departure { packet, .. } if packet.ecn.is_marked())
}

#[test]
fn red_lets_packets_pass_where_nothing_waits_whatever_the_average_was() {
    let mut link = link(red(false));
    // Three times what the link carries, and nothing that answers: the average is beyond twice the maximum.
    let outcomes = offer(&mut link, [0, 5_000], 3_000, 1, Ecn::NotCapable);
    assert!(outcomes.iter().rev().take(100).any(is_drop));
    let empty = drain(&mut link).last().map(Outcome::at).expect("some wait");
    for (number, after) in [1, 2, 1_000, 10_000].into_iter().enumerate() {
        let packet = Marked { number: number as u64, flow: 1, ecn: Ecn::NotCapable };
        link.enqueue(empty + Duration::from_millis(after), packet);
        let outcomes = drain(&mut link);
        assert!(!outcomes.iter().any(is_drop), "{after} ms: {outcomes:?}");
    }
}

#[test]
fn pie_lets_a_burst_pass_and_then_holds_the_delay_at_its_target() {
    let mut link = link(pie(false));
    // Ten per cent more than the link carries, for 40 s.
    let outcomes = offer(&mut link, [0, 40_000], 1_100, 1, Ecn::NotCapable);
    let first = outcomes.iter().find(|outcome| is_drop(outcome)).map(Outcome::at).expect("it drops");
    assert!(first > at_ms(150), "a burst of 150 ms passes: {first:?}");
    let late = |outcome: &&Outcome<Marked>| outcome.at() > at_ms(20_000);
    let (mut drops, mut delays) = (0, Vec::new());
    for outcome in outcomes.iter().filter(late) {
        match outcome {
            Outcome::Drop { .. } => drops += 1,
            Outcome::Departure { packet, at } => {
                let sent = Instant::ZERO + Duration::from_secs_f64(packet.number as f64 / 1_100.0);
                delays.push(at.since(sent).as_millis_f64() - 11.0);
            }
        }
    }
    // One in eleven must go.
    let share = f64::from(drops) / (f64::from(drops) + delays.len() as f64);
    assert!((share - 1.0 / 11.0).abs() < 0.01, "{share}");
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!((mean - 15.0).abs() < 3.0, "{mean} ms");
}

#[test]
fn a_queue_marks_what_reads_marks_and_drops_the_rest() {
    let codel = Discipline::Codel(Codel { ecn: true, ..Codel::default() });
    for (name, discipline) in [("codel", codel), ("pie", pie(true)), ("red", red(true))] {
        let mut capable = link(discipline);
        let mut outcomes = offer(&mut capable, [0, 3_000], 1_030, 1, Ecn::Ect0);
        outcomes.extend(drain(&mut capable));
        let (marks, drops) = (tally(&outcomes, is_marked), tally(&outcomes, is_drop));
        let first_drop = outcomes.iter().position(is_drop).unwrap_or(outcomes.len());
        assert!(tally(&outcomes[..first_drop], is_marked) > 3, "{name}: {marks} marks");
        // Nobody answers the marks here: PIE's probability and RED's average rise until both drop. CoDel never does.
        assert!(drops == 0 || name != "codel", "{name}: {drops} drops");
        assert_eq!(capable.counters().marked.packets, marks as u64, "{name}");
        assert_eq!(capable.counters().marked.bytes, 1500 * marks as u64, "{name}");

        let mut incapable = link(discipline);
        let mut outcomes = offer(&mut incapable, [0, 3_000], 1_030, 1, Ecn::NotCapable);
        outcomes.extend(drain(&mut incapable));
        assert!(tally(&outcomes, is_drop) > 3, "{name}");
        assert_eq!((tally(&outcomes, is_marked), incapable.counters().marked.packets), (0, 0), "{name}");
    }
}

#[test]
fn pie_forgets_congestion_on_an_idle_link() {
    let mut link = link(pie(false));
    let congested = offer(&mut link, [0, 10_000], 1_200, 1, Ecn::NotCapable);
    assert!(tally(&congested, is_drop) > 500);
    drain(&mut link);
    // After a minute of rest a burst of 100 ms passes whole.
    let start = 80_000;
    (0..100)
        .for_each(|number| link.enqueue(at_ms(start + number / 2), Marked { number, flow: 1, ecn: Ecn::NotCapable }));
    assert_eq!(tally(&drain(&mut link), is_drop), 0);
}

#[test]
fn pie_forgets_congestion_on_a_link_that_went_down() {
    for discipline in [pie(false), Discipline::FqPie(FqPie::default())] {
        let mut link = link(discipline);
        let congested = offer(&mut link, [0, 10_000], 1_200, 1, Ecn::NotCapable);
        assert!(tally(&congested, is_drop) > 500);
        let mut lost = 0;
        link.lose_all(at_ms(10_000), |_| lost += 1);
        assert!(lost > 10, "{lost} packets waited or were on the way");
        // The queue was empty for a minute: a burst of 100 ms passes whole.
        let start = 70_000;
        (0..100).for_each(|number| {
            link.enqueue(at_ms(start + number / 2), Marked { number, flow: 1, ecn: Ecn::NotCapable })
        });
        assert_eq!(tally(&drain(&mut link), is_drop), 0);
    }
}

#[test]
fn red_forgets_its_average_on_a_link_that_went_down() {
    let weight = Probability::new(0.02).expect("below 1");
    let red = Red { weight, max_probability: Probability::ZERO, ..Red::new(Bytes::new(3_000), Bytes::new(6_000)) };
    let mut link = link(Discipline::Red(red));
    // The average becomes twice the maximum.
    let burst = |packets| (0..packets).map(|number| Marked { number, flow: 0, ecn: Ecn::NotCapable });
    burst(1_000).for_each(|packet| link.enqueue(Instant::ZERO, packet));
    link.lose_all(at_ms(3), |_| ());
    burst(5).for_each(|packet| link.enqueue(at_ms(60_000), packet));
    assert_eq!(tally(&drain(&mut link), is_drop), 0);
}

#[test]
fn fq_pie_drops_from_the_flow_that_is_too_fast_alone() {
    let mut link = link(Discipline::FqPie(FqPie::default()));
    let mut outcomes = Vec::new();
    for number in 0..20_000_u64 {
        let at = Instant::ZERO + Duration::from_micros(number * 500);
        outcomes.extend(std::iter::from_fn(|| link.poll(at)));
        link.enqueue(at, Marked { number, flow: 1, ecn: Ecn::NotCapable });
        if number % 20 == 0 {
            link.enqueue(at, Marked { number, flow: 2, ecn: Ecn::NotCapable });
        }
    }
    outcomes.extend(drain(&mut link));
    let dropped_of =
        |flow| tally(&outcomes, |outcome| matches!(outcome, Outcome::Drop { packet, .. } if packet.flow == flow));
    assert!(dropped_of(1) > 1_000, "{}", dropped_of(1));
    assert_eq!(dropped_of(2), 0);
}

#[test]
fn red_drops_as_often_as_the_average_queue_asks() {
    // The average stays where the queue stays: 30,000 bytes, half-way from 15,000 to 45,000, and so 5 % of what arrives.
    let mut link = link(red(false));
    (0..20).for_each(|number| link.enqueue(Instant::ZERO, Marked { number, flow: 1, ecn: Ecn::NotCapable }));
    let (mut drops, mut offered) = (0, 0);
    for number in 0..60_000_u64 {
        let at = Instant::ZERO + Duration::from_millis(number + 1);
        while let Some(outcome) = link.poll(at) {
            drops += u32::from(is_drop(&outcome) && number > 20_000);
        }
        // What was dropped is made up for, so that 20 packets wait at each arrival.
        while link.queued_packets(at) < 20 {
            link.enqueue(at, Marked { number, flow: 1, ecn: Ecn::NotCapable });
            offered += u32::from(number > 20_000);
        }
    }
    // Distances between drops are uniform from 1 to 1/p: twice as often as p in the mean.
    let share = f64::from(drops) / f64::from(offered);
    assert!((0.08..0.105).contains(&share), "{share}");
}

#[test]
fn red_drops_everything_above_twice_its_maximum() {
    let red = Red {
        weight: Probability::new(1.0).expect("valid"),
        ecn: true,
        ..Red::new(Bytes::new(3_000), Bytes::new(6_000))
    };
    let mut link = link(Discipline::Red(red));
    (0..50).for_each(|number| link.enqueue(Instant::ZERO, Marked { number, flow: 1, ecn: Ecn::Ect0 }));
    assert!(link.queued_bytes(Instant::ZERO) <= Bytes::new(12_000 + 1_500));
    assert!(tally(&drain(&mut link), is_drop) >= 40, "marks do not help any more");
}

#[test]
fn dual_pi2_keeps_low_latency_traffic_short_beside_classic_traffic() {
    let mut link = link(Discipline::DualPi2(DualPi2::default()));
    let mut delays = [Vec::new(), Vec::new()];
    let mut marks = 0;
    let mut sent = std::collections::BTreeMap::new();
    for number in 0..60_000_u64 {
        let at = Instant::ZERO + Duration::from_micros(number * 900);
        while let Some(outcome) = link.poll(at) {
            if let Outcome::Departure { packet, at } = outcome {
                let queued: f64 = at.since(sent[&packet.number]).as_millis_f64() - 11.0;
                delays[packet.flow as usize].push(queued);
                marks += u32::from(packet.flow == 1 && packet.ecn.is_marked());
            }
        }
        // One in four is L4S; together 11 % more than the link carries.
        let (flow, ecn) = if number % 4 == 0 { (1, Ecn::Ect1) } else { (0, Ecn::NotCapable) };
        sent.insert(number, at);
        link.enqueue(at, Marked { number, flow, ecn });
    }
    let late = |delays: &[f64]| delays[delays.len() / 2..].iter().sum::<f64>() / (delays.len() / 2) as f64;
    let (classic, low) = (late(&delays[0]), late(&delays[1]));
    assert!((classic - 15.0).abs() < 5.0, "classic {classic} ms");
    assert!(low < 2.0, "L4S {low} ms");
    // Coupled: marks come with twice the root of the drops' probability, here (0.11/0.75)^0.5.
    let share = f64::from(marks) / delays[1].len() as f64;
    assert!((0.55..0.95).contains(&share), "{share}");
}

#[test]
fn dual_pi2_drops_low_latency_traffic_that_answers_to_nothing() {
    let mut link = link(Discipline::DualPi2(DualPi2::default()));
    let mut outcomes = offer(&mut link, [0, 20_000], 1_500, 1, Ecn::Ect1);
    let waiting = link.queued_packets(at_ms(20_000));
    outcomes.extend(drain(&mut link));
    assert!(tally(&outcomes, is_drop) > 5_000, "marks alone would let the queue grow");
    assert!(waiting < 500, "{waiting} packets wait");
}

/// The probability of a long `rtt_max` takes minutes to fall.
#[test]
fn dual_pi2_lets_packets_pass_where_nothing_waits_whatever_its_probability() {
    for ecn in [Ecn::NotCapable, Ecn::Ect1] {
        let law = DualPi2 { rtt_max: Duration::from_millis(600), ..DualPi2::default() };
        let mut link = link(Discipline::DualPi2(law));
        let overloaded = offer(&mut link, [0, 20_000], 1_500, 1, ecn);
        assert!(tally(&overloaded, is_drop) > 1_000, "{ecn:?}");
        drain(&mut link);
        let idle = offer(&mut link, [60_000, 120_000], 10, 1, ecn);
        assert_eq!((tally(&idle, is_drop), tally(&idle, is_marked)), (0, 0), "{ecn:?}");
    }
}

/// Each packet takes longer than the target, so that the probability rises to 1.
#[test]
fn dual_pi2_carries_a_narrow_link_full() {
    let config = LinkConfig::new(Rate::from_bps(64_000), Duration::from_millis(10));
    let discipline = Discipline::DualPi2(DualPi2::default());
    let mut link = Link::new(LinkConfig { discipline, queue: QueueLimit::Unlimited, ..config }).expect("valid");
    // Ten per cent more than the link carries, for a minute: a packet takes 187.5 ms.
    let step = Duration::from_micros(170_000);
    let mut outcomes = Vec::new();
    for number in 0..350 {
        let at = Instant::ZERO + step * number;
        outcomes.extend(std::iter::from_fn(|| link.poll(at)));
        link.enqueue(at, Marked { number, flow: 1, ecn: Ecn::NotCapable });
    }
    let departures = tally(&outcomes, |outcome| matches!(outcome, Outcome::Departure { .. }));
    assert!(departures >= 310 && tally(&outcomes, is_drop) > 10, "{departures} leave");
}

#[test]
fn what_makes_no_discipline_is_refused_by_name() {
    let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
    let swapped = Discipline::Red(Red::new(Bytes::new(45_000), Bytes::new(15_000)));
    let hasty = Discipline::Pie(Pie { update: Duration::ZERO, ..Pie::default() });
    let short = Discipline::DualPi2(DualPi2 { rtt_max: Duration::ZERO, ..DualPi2::default() });
    let crowded = Discipline::FqPie(FqPie { flows: 100_000, ..FqPie::default() });
    for (discipline, key) in [
        (swapped, "discipline.red"),
        (hasty, "discipline"),
        (short, "discipline.dual_pi2.rtt_max"),
        (crowded, "discipline.fq_pie.flows"),
    ] {
        let error = LinkConfig { discipline, ..config.clone() }.validate().expect_err(key);
        assert_eq!(error.key(), key);
    }
    let endless = LinkConfig { rate: None, discipline: red(false), ..config };
    assert!(endless.validate().expect_err("red needs a rate").to_string().contains("rate"));
}

fn any_discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![
        any::<bool>().prop_map(|ecn| Discipline::Codel(Codel { ecn, ..Codel::default() })),
        any::<bool>().prop_map(pie),
        any::<bool>().prop_map(red),
        any::<bool>().prop_map(|ecn| Discipline::FqPie(FqPie { ecn, flows: 8, ..FqPie::default() })),
        Just(Discipline::DualPi2(DualPi2::default())),
    ]
}

proptest! {
    /// Every packet leaves once or is dropped once, and what was not capable of ECN is never marked.
    #[test]
    fn packets_are_conserved(
        discipline in any_discipline(),
        arrivals in prop::collection::vec((0..3_u64, 0..4_u64, 0..4_u8), 1..600),
        limit in prop_oneof![Just(QueueLimit::Unlimited), (1..60_u64).prop_map(QueueLimit::Packets)],
    ) {
        let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
        let mut link = Link::new(LinkConfig { discipline, queue: limit, ..config }).expect("valid");
        let (mut at, mut seen) = (Instant::ZERO, Vec::new());
        for (number, (gap, flow, bits)) in arrivals.iter().enumerate() {
            at += Duration::from_millis(*gap);
            seen.extend(std::iter::from_fn(|| link.poll(at)));
            link.enqueue(at, Marked { number: number as u64, flow: *flow, ecn: Ecn::from_bits(*bits) });
        }
        seen.extend(drain(&mut link));
        let mut numbers: Vec<_> = seen.iter().map(|outcome| match outcome {
            Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. } => (packet.number, packet.ecn),
        }).collect();
        numbers.sort_by_key(|(number, _)| *number);
        prop_assert_eq!(numbers.len(), arrivals.len());
        for ((number, ecn), (_, _, bits)) in numbers.iter().zip(&arrivals) {
            let sent = Ecn::from_bits(*bits);
            prop_assert!(*ecn == sent || ecn.is_marked() && sent.is_capable(), "{}: {:?} {:?}", number, ecn, sent);
        }
        prop_assert_eq!(link.counters().in_transit().packets, 0);
    }
}
