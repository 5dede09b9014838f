//! Pure acknowledgements that a link filters or thins out (RFC 3449).

use crate::packets::{at_ms, drain};
use link::{AckSerial, Acks, Discipline, DropReason, FqCodel, Link, LinkConfig, Outcome, Packet, QueueLimit};
use units::{Bytes, Duration, Instant, Rate};

/// A packet of a flow, perhaps a pure acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered {
    number: u64,
    flow: u64,
    size: u64,
    ack: Option<AckSerial>,
    marks: u8,
}

impl Packet for Numbered {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow_hash(&self) -> u64 {
        self.flow
    }
    fn acknowledgement(&self) -> Option<AckSerial> {
        self.ack
    }
    fn acknowledged_marks(&self) -> u8 {
        self.marks
    }
}

/// The acknowledgement of `segments` segments.
fn ack(number: u64, flow: u64, segments: u64) -> Numbered {
    Numbered { number, flow, size: 50, ack: Some(AckSerial::of(segments)), marks: 0 }
}

fn data(number: u64, flow: u64) -> Numbered {
    Numbered { number, flow, size: 500, ack: None, marks: 0 }
}

/// 50 bytes each 10 ms.
fn config(acks: Acks) -> LinkConfig {
    let plain = LinkConfig::new(Rate::from_bps(40_000), Duration::from_millis(100));
    LinkConfig { acks, queue: QueueLimit::Unlimited, ..plain }
}

/// Numbers of the packets that arrive, and of those that were superseded, all offered at once behind one that is being sent.
fn fate(config: LinkConfig, packets: &[Numbered]) -> (Vec<u64>, Vec<u64>) {
    let mut link = Link::new(config).expect("valid");
    link.enqueue(Instant::ZERO, data(1000, 99));
    packets.iter().for_each(|packet| link.enqueue(Instant::ZERO, *packet));
    let (mut arrived, mut superseded) = (Vec::new(), Vec::new());
    for outcome in drain(&mut link) {
        match outcome {
            Outcome::Departure { packet, .. } if packet.number < 1000 => arrived.push(packet.number),
            Outcome::Drop { packet, reason: DropReason::Superseded, .. } => superseded.push(packet.number),
            Outcome::Departure { .. } => {}
            Outcome::Drop { reason, .. } => panic!("{reason:?}"),
        }
    }
    assert_eq!(link.counters().dropped_acks.packets, superseded.len() as u64);
    assert_eq!(link.counters().in_transit(), link::Tally::default());
    (arrived, superseded)
}

#[test]
fn the_newest_acknowledgement_leaves_in_the_place_of_the_oldest() {
    let packets = [ack(0, 1, 10), data(1, 2), ack(2, 1, 20), data(3, 2), ack(4, 1, 30)];
    assert_eq!(fate(config(Acks::Filter), &packets), (vec![4, 1, 3], vec![0, 2]));
    assert_eq!(fate(config(Acks::Keep), &packets), (vec![0, 1, 2, 3, 4], vec![]));
}

#[test]
fn flows_do_not_stand_for_one_another() {
    let packets = [ack(0, 1, 10), ack(1, 2, 20), ack(2, 1, 30), ack(3, 3, 40)];
    assert_eq!(fate(config(Acks::Filter), &packets), (vec![2, 1, 3], vec![0]));
}

#[test]
fn flows_whose_hashes_end_alike_do_not_disturb_one_another() {
    let duplicates = [ack(0, 1, 10), ack(1, 1025, 10), ack(2, 1, 10), ack(3, 1025, 20)];
    assert_eq!(fate(config(Acks::Filter), &duplicates), (vec![0, 3, 2], vec![1]));
    let both = |at: u64| [ack(2 * at, 1, at), ack(2 * at + 1, 1025, at)];
    let packets: Vec<_> = (0..7).flat_map(both).collect();
    assert_eq!(fate(config(Acks::Thin(3)), &packets), (vec![0, 1, 6, 7, 12, 13], vec![2, 3, 4, 5, 8, 9, 10, 11]));
}

#[test]
fn duplicates_and_what_says_more_keep_their_place() {
    // 1 and 2 repeat the number of 0; 4 is no pure acknowledgement, so what follows it does not overtake it.
    let packets =
        [ack(0, 1, 10), ack(1, 1, 10), ack(2, 1, 10), ack(3, 1, 20), data(4, 1), ack(5, 1, 30), ack(6, 1, 40)];
    assert_eq!(fate(config(Acks::Filter), &packets), (vec![0, 1, 2, 3, 4, 6], vec![5]));
}

#[test]
fn what_was_overtaken_takes_no_place() {
    // 2 was sent before 1: it says less, and takes the place of nothing; 3 is newer than both.
    let packets = [ack(0, 1, 10), ack(1, 1, 30), ack(2, 1, 20), ack(3, 1, 40), ack(4, 1, 50)];
    assert_eq!(fate(config(Acks::Filter), &packets[..3]), (vec![1, 2], vec![0]));
    assert_eq!(fate(config(Acks::Filter), &packets), (vec![1, 2, 4], vec![0, 3]));
    assert_eq!(fate(config(Acks::Thin(2)), &packets), (vec![0, 2, 3], vec![1, 4]));
}

#[test]
fn serial_numbers_begin_again() {
    let packets: Vec<_> = (0..1000).map(|number| ack(number, 1, 100 * number)).collect();
    assert_eq!(fate(config(Acks::Filter), &packets).0, [999]);
}

#[test]
fn after_a_long_gap_acknowledgements_count_as_overtaken_until_the_serial_numbers_have_passed() {
    let packets: Vec<_> = (0..=130).map(|number| ack(number, 1, if number == 0 { 0 } else { 127 + number })).collect();
    let (arrived, superseded) = fate(config(Acks::Filter), &packets);
    assert_eq!((arrived.len(), superseded), (130, vec![129]));
}

#[test]
fn a_full_queue_takes_an_acknowledgement_for_which_another_leaves() {
    let config = LinkConfig { queue: QueueLimit::Packets(1), ..config(Acks::Filter) };
    assert_eq!(fate(config, &[ack(0, 1, 10), ack(1, 1, 20)]), (vec![1], vec![0]));
}

#[test]
fn a_fair_queue_filters_each_flow() {
    let config = LinkConfig { discipline: Discipline::FqCodel(FqCodel::default()), ..config(Acks::Filter) };
    let (arrived, superseded) = fate(config, &[ack(0, 1, 10), data(1, 2), ack(2, 1, 20), data(3, 2), ack(4, 1, 30)]);
    assert_eq!((arrived.len(), superseded), (3, vec![0, 2]));
}

#[test]
fn thinning_passes_the_first_and_each_nth_after_it_of_each_flow_and_all_duplicates() {
    let mut packets: Vec<_> = (0..10).map(|number| ack(number, 1, number)).collect();
    packets.extend([ack(10, 1, 9), ack(11, 1, 9), ack(12, 2, 9), data(13, 1)]);
    let (arrived, superseded) = fate(config(Acks::Thin(3)), &packets);
    assert_eq!(arrived, [0, 3, 6, 9, 10, 11, 12, 13]);
    assert_eq!(superseded, [1, 2, 4, 5, 7, 8]);
}

#[test]
fn acknowledgements_that_keep_coming_do_not_wait_for_ever() {
    let mut link = Link::new(config(Acks::Filter)).expect("valid");
    let (mut outcomes, mut number) = (Vec::new(), 0);
    // An acknowledgement each 5 ms, and data that take 100 ms each at 95 % of the rate.
    for ms in (0..20_000).step_by(5) {
        outcomes.extend(std::iter::from_fn(|| link.poll(at_ms(ms))));
        if ms % 105 == 0 {
            link.enqueue(at_ms(ms), data(100_000 + ms, 2));
        }
        link.enqueue(at_ms(ms), ack(number, 1, number));
        number += 1;
    }
    let times: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Departure { packet, at } if packet.flow == 1 => Some(*at),
            _ => None,
        })
        .collect();
    let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max().expect("several");
    assert!(longest < Duration::from_secs(2), "{longest}");
}

#[test]
fn an_acknowledgement_of_other_marks_takes_no_place() {
    let marked = |number, newer, marks| Numbered { marks, ..ack(number, 1, newer) };
    let packets = [marked(0, 10, 5), marked(1, 11, 5), marked(2, 12, 6), marked(3, 13, 6)];
    assert_eq!(fate(config(Acks::Filter), &packets), (vec![1, 3], vec![0, 2]));
}
