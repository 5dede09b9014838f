//! Managed queues: CoDel (RFC 8289) and FQ-CoDel (RFC 8290).

use crate::packets::{Numbered, at_ms, delivered, drain, dropped};
use link::{
    Acks, Codel, Discipline, DropReason, DualPi2, FqCodel, FqPie, Link, LinkConfig, Outcome, Pie, QueueLimit, Red,
};
use units::{Bytes, Duration, Instant, Rate};

/// 1500 bytes each millisecond.
fn link(discipline: Discipline, queue: QueueLimit) -> Link<Numbered> {
    let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
    Link::new(LinkConfig { discipline, queue, ..config }).expect("valid")
}

fn codel() -> Link<Numbered> {
    link(Discipline::Codel(Codel::default()), QueueLimit::Unlimited)
}

fn fq_codel(queue: QueueLimit) -> Link<Numbered> {
    link(Discipline::FqCodel(FqCodel::default()), queue)
}

fn times_of_drops(outcomes: &[Outcome<Numbered>]) -> Vec<Instant> {
    let times = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Drop { reason: DropReason::QueueDelay, at, .. } => Some(*at),
        _ => None,
    });
    times.collect()
}

#[test]
fn codel_leaves_short_queues_alone() {
    let mut link = codel();
    // Bursts of five packets drain within the target of 5 ms.
    for burst in 0..100 {
        (0..5).for_each(|number| link.enqueue(at_ms(10 * burst), Numbered::full(5 * burst + number)));
    }
    let outcomes = drain(&mut link);
    assert_eq!(delivered(&outcomes).len(), 500);
}

#[test]
fn codel_drops_ever_more_often_while_packets_wait_too_long() {
    let mut link = codel();
    (0..2_000).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let outcomes = drain(&mut link);
    let drops = times_of_drops(&outcomes);
    // Packet 5 is the first to have waited 5 ms; an interval later the first is dropped, the next an interval after it.
    assert_eq!(drops[..2], [at_ms(105), at_ms(205)]);
    for (count, pair) in (2..).zip(drops[1..].windows(2)).take(20) {
        let expected = 100.0 / f64::from(count).sqrt();
        // Drops happen when a packet is due, at most one packet late; the law counts from when they should have.
        assert!((pair[1].since(pair[0]).as_millis_f64() - expected).abs() <= 1.0, "{count}: {pair:?}");
    }
    assert_eq!(delivered(&outcomes).len() + drops.len(), 2_000);
    let counters = link.counters();
    assert_eq!(counters.dropped_queue_delay.packets, drops.len() as u64);
}

#[test]
fn codel_stops_dropping_when_the_queue_is_short_again() {
    let mut link = codel();
    (0..150).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    let before = times_of_drops(&drain(&mut link));
    // The queue is empty before the next drop is due.
    assert_eq!(before, [at_ms(105)]);
    (0..100).for_each(|number| link.enqueue(at_ms(1_000 + 2 * number), Numbered::full(number)));
    assert_eq!(delivered(&drain(&mut link)).len(), 100);
}

#[test]
fn a_full_codel_queue_refuses_what_comes() {
    let mut link = link(Discipline::Codel(Codel::default()), QueueLimit::Packets(2));
    (0..5).for_each(|number| link.enqueue(Instant::ZERO, Numbered::full(number)));
    assert_eq!(link.queued_packets(Instant::ZERO), 2);
    assert_eq!(dropped(&drain(&mut link), DropReason::QueueFull), [3, 4]);
}

#[test]
fn a_sparse_flow_passes_a_bulk_one() {
    let mut link = fq_codel(QueueLimit::Unlimited);
    for number in 0..1_000 {
        link.enqueue(at_ms(number / 2), Numbered { number, flow: 1, size: 1500 });
        if number % 20 == 0 {
            link.enqueue(at_ms(number / 2), Numbered { number: 10_000 + number, flow: 2, size: 100 });
        }
    }
    let outcomes = drain(&mut link);
    let sparse: Vec<_> = delivered(&outcomes).into_iter().filter(|(number, _)| *number >= 10_000).collect();
    assert_eq!(sparse.len(), 50);
    for (number, at) in sparse {
        let waited = at.since(at_ms((number - 10_000) / 2));
        // At most the packet being sent and a quantum of the other flow are before it.
        assert!(waited <= Duration::from_micros(12_100), "{number}: {waited}");
    }
}

#[test]
fn flows_share_bytes_whatever_the_sizes_of_their_packets() {
    let mut link = fq_codel(QueueLimit::Unlimited);
    (0..3_000).for_each(|number| link.enqueue(Instant::ZERO, Numbered { number, flow: 1, size: 300 }));
    (0..600).for_each(|number| link.enqueue(Instant::ZERO, Numbered { number: 10_000 + number, flow: 2, size: 1500 }));
    let bytes = |from: u64, outcomes: &[Outcome<Numbered>]| -> u64 {
        let first_half = delivered(outcomes).into_iter().filter(|(_, at)| *at <= at_ms(260));
        first_half
            .filter(|(number, _)| number / 10_000 == from)
            .map(|(number, _)| if number < 10_000 { 300 } else { 1500 })
            .sum()
    };
    let outcomes = drain(&mut link);
    let (small, large) = (bytes(0, &outcomes), bytes(1, &outcomes));
    assert!(small.abs_diff(large) <= 2 * 1514 + 1500, "{small} {large}");
}

#[test]
fn a_full_fair_queue_drops_from_the_head_of_the_longest_flow() {
    let mut link = fq_codel(QueueLimit::Bytes(Bytes::new(15_000)));
    (0..10).for_each(|number| link.enqueue(Instant::ZERO, Numbered { number, flow: 1, size: 1500 }));
    (10..13).for_each(|number| link.enqueue(Instant::ZERO, Numbered { number, flow: 2, size: 1500 }));
    // Packet 0 is being sent; 9 of flow 1 and 1 of flow 2 fill the queue, and the next takes half of the 9.
    assert_eq!(dropped(&drain(&mut link), DropReason::QueueFull), [1, 2, 3, 4, 5]);
}

#[test]
fn a_packet_larger_than_the_queue_passes_an_idle_link() {
    let disciplines = [
        Discipline::DropTail,
        Discipline::Codel(Codel::default()),
        Discipline::FqCodel(FqCodel::default()),
        Discipline::Pie(Pie::default()),
        Discipline::FqPie(FqPie::default()),
        Discipline::Red(Red::new(Bytes::new(15_000), Bytes::new(45_000))),
        Discipline::DualPi2(DualPi2::default()),
    ];
    let limit = QueueLimit::Bytes(Bytes::new(1_000));
    let plain = || link(Discipline::DropTail, limit);
    let config = LinkConfig::new(Rate::from_bps(12_000_000), Duration::from_millis(10));
    let filter = Link::new(LinkConfig { acks: Acks::Filter, queue: limit, ..config }).expect("valid");
    let all = disciplines.into_iter().map(|discipline| link(discipline, limit));
    for mut link in all.chain([filter, plain().into_fallible(limit)]) {
        // The second finds the first in transmission, and no room.
        [0, 0, 1].into_iter().zip(0..).for_each(|(ms, number)| link.enqueue(at_ms(ms), Numbered::full(number)));
        let outcomes = drain(&mut link);
        let arrived: Vec<_> = delivered(&outcomes).into_iter().map(|(number, _)| number).collect();
        assert_eq!((arrived, dropped(&outcomes, DropReason::QueueFull)), (vec![0, 2], vec![1]));
    }
}
