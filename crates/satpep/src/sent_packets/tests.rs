//! Tests: outcomes of packets by acknowledgements, time and recovery, and what a peer that lies can make of the record.

use super::*;
use crate::wire::frame::{Frame, Reader, Writer};

const HORIZON: Duration = Duration::from_millis(800);

fn sent_packets(count: u64) -> SentPackets {
    let mut sent_packets = SentPackets::new(Duration::ZERO);
    for number in 0..count {
        let frame = SentFrame::Stream {
            key: StreamKey { slot: 0, number: StreamNumber::new(0) },
            offset: StreamOffset::new(number),
            length: 1,
            fin: false,
            repeat: false,
        };
        sent_packets.record(at(number), 1500 * number, 1500, Dscp::default(), SmallVec::from_slice(&[frame]));
    }
    sent_packets
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn offsets(outcomes: &[PacketOutcome], acknowledged: bool) -> Vec<u64> {
    let chosen = outcomes.iter().filter(|packet| packet.is_acknowledged() == acknowledged);
    chosen
        .flat_map(|entry| &entry.frames)
        .filter_map(|frame| if let SentFrame::Stream { offset, .. } = frame { Some(offset.get()) } else { None })
        .collect()
}

fn acknowledge(
    sent_packets: &mut SentPackets,
    now: Instant,
    ranges: &[Range<u64>],
) -> Result<(Vec<u64>, Vec<u64>), NeverSent> {
    acknowledge_from(sent_packets, now, ranges, 0)
}

fn acknowledge_from(
    sent_packets: &mut SentPackets,
    now: Instant,
    ranges: &[Range<u64>],
    floor: u64,
) -> Result<(Vec<u64>, Vec<u64>), NeverSent> {
    let mut buffer = [0; 300];
    let mut writer = Writer::new(&mut buffer);
    assert!(writer.ack(ranges.iter().cloned().map(PacketNumber::range), 0, PacketNumber::new(floor)));
    let length = writer.len();
    let Ok(Some(Frame::Ack(ack))) = Reader::new(&buffer[..length]).next() else { panic!("no ack") };
    let mut outcomes = Vec::new();
    sent_packets.on_ack(now, &ack, HORIZON, &mut outcomes)?;
    Ok((offsets(&outcomes, true), offsets(&outcomes, false)))
}

#[test]
fn how_a_packet_of_a_train_left_is_known_after_an_acknowledgement_has_settled_all() {
    let mut sent_packets = SentPackets::new(Duration::ZERO);
    let count = 3 * SentPackets::UNSTAMPED as u64 / 2;
    for number in 0..count {
        let frames = SmallVec::from_slice(&[SentFrame::Ping]);
        sent_packets.record(at(number), 1500 * number, 1500, Dscp::default(), frames);
        if number > 1 {
            sent_packets.mark_train();
        }
    }
    let number = PacketNumber::new;
    let first = sent_packets.take_departure(number(count - 2)).map(|departure| departure.sent);
    assert_eq!(first, Some(at(count - 2)));
    assert!(acknowledge(&mut sent_packets, at(count + 500), &[0..count]).is_ok());
    // One acknowledgement has no space to say of a whole train when it arrived: those that follow do.
    assert_eq!(sent_packets.take_departure(number(count - 1)).map(|departure| departure.sent), Some(at(count - 1)));
    assert_eq!(sent_packets.take_departure(number(count - 1)), None, "once");
    assert_eq!(sent_packets.take_departure(number(count - 2)), None, "it was stamped before");
    assert_eq!(sent_packets.take_departure(number(1)), None, "of no train");
    assert_eq!(sent_packets.take_departure(number(2)), None, "so many are not remembered");
    let known = (0..count).filter(|at| sent_packets.take_departure(number(*at)).is_some()).count();
    assert_eq!(known, SentPackets::UNSTAMPED - 1);
}

#[test]
fn a_gap_is_loss_at_once_and_only_once() {
    let mut sent_packets = sent_packets(6);
    assert_eq!(acknowledge(&mut sent_packets, at(500), &[3..4, 0..2]), Ok((vec![3, 0, 1], vec![2])));
    assert_eq!(acknowledge(&mut sent_packets, at(510), &[3..5, 0..2]), Ok((vec![4], vec![])));
    assert_eq!(sent_packets.lowest_tracked(), PacketNumber::new(5));
    assert!(sent_packets.awaits_ack());
    assert_eq!(acknowledge(&mut sent_packets, at(520), &[3..6, 0..2]), Ok((vec![5], vec![])));
    assert!(!sent_packets.awaits_ack());
}

#[test]
fn what_older_ranges_name_has_arrived_and_was_late_if_it_was_taken_for_lost() {
    let mut sent_packets = sent_packets(40);
    let ranges: Vec<_> = (10..20).rev().map(|number| 2 * number..2 * number + 1).collect();
    // Those that the acknowledgement covers are lost; it does not reach what lies below them.
    let (_, lost) = acknowledge_from(&mut sent_packets, at(500), &ranges, 20).unwrap();
    assert_eq!((lost.len(), sent_packets.late_bytes()), (9, 0));
    let mut older = |now, ranges: &[Range<u64>]| {
        let mut buffer = [0; 300];
        let mut writer = Writer::new(&mut buffer);
        assert!(writer.older_ranges(ranges.iter().cloned().map(PacketNumber::range)).is_some());
        let length = writer.len();
        let Ok(Some(Frame::OlderRanges(older))) = Reader::new(&buffer[..length]).next() else { panic!("no ranges") };
        let mut outcomes = Vec::new();
        sent_packets.on_older_ranges(now, &older, &mut outcomes).unwrap();
        (offsets(&outcomes, true), offsets(&outcomes, false), sent_packets.late_bytes())
    };
    assert_eq!(older(at(501), &[5..7, 2..3]), (vec![5, 6, 2], vec![], 0), "what is between may be under way");
    assert_eq!(older(at(510), &[21..24]), (vec![], vec![], 2 * 1500), "two were lost");
    assert_eq!(older(at(511), &[21..24]), (vec![], vec![], 2 * 1500), "once");
    assert_eq!(sent_packets.reordering.window(), Duration::from_millis(20));
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    assert_eq!(acknowledge(&mut sent_packets(3), at(500), &[0..4]), Err(NeverSent));
}

#[test]
fn once_reordering_was_seen_gaps_are_given_time() {
    let mut sent_packets = sent_packets(10);
    assert_eq!(acknowledge(&mut sent_packets, at(500), &[1..2]), Ok((vec![1], vec![0])));
    assert_eq!(acknowledge(&mut sent_packets, at(505), &[0..2]), Ok((vec![], vec![])));
    assert_eq!(acknowledge(&mut sent_packets, at(510), &[3..4, 0..2]), Ok((vec![3], vec![])));
    assert_eq!(acknowledge(&mut sent_packets, at(512), &[0..4]), Ok((vec![2], vec![])));
    assert_eq!(acknowledge(&mut sent_packets, at(520), &[5..6, 0..4]), Ok((vec![5], vec![])));
    let mut outcomes = Vec::new();
    sent_packets.on_timeout(at(700), &mut outcomes);
    assert_eq!(offsets(&outcomes, false), [4]);
}

#[test]
fn a_gap_is_loss_at_once_again_when_reordering_is_over() {
    let mut sent_packets = sent_packets(10_000);
    assert_eq!(acknowledge(&mut sent_packets, at(500), &[1..2]), Ok((vec![1], vec![0])));
    assert_eq!(acknowledge(&mut sent_packets, at(505), &[0..2]), Ok((vec![], vec![])));
    assert_eq!(acknowledge(&mut sent_packets, at(510), &[3..4, 0..2]), Ok((vec![3], vec![])));
    // What is late all the time keeps the window.
    for number in (4..4000).step_by(2) {
        let now = at(510 + 20 * number);
        let known = 0..number;
        assert_eq!(
            acknowledge(&mut sent_packets, now, &[number + 1..number + 2, known.clone()]).unwrap().1,
            Vec::<u64>::new()
        );
        acknowledge(&mut sent_packets, now + Duration::from_millis(5), &[0..number + 2]).unwrap();
    }
    // Without, it takes a few dozen round trips.
    for number in 4000..=9000 {
        acknowledge(&mut sent_packets, at(81_000 + 20 * (number - 4000)), &[0..number]).unwrap();
    }
    let outcomes = acknowledge(&mut sent_packets, at(200_000), &[9001..9002, 0..9000]);
    assert_eq!(outcomes, Ok((vec![9001], vec![9000])));
}

/// A record of `count` packets, every fifth of them marked `ef`.
fn sent_with_dscps(count: u64) -> SentPackets {
    let mut sent_packets = SentPackets::new(Duration::ZERO);
    for number in 0..count {
        let dscp = if number % 5 == 4 { "ef" } else { "default" }.parse().unwrap();
        sent_packets.record(at(number), 1500 * number, 1500, dscp, SmallVec::from_slice(&[SentFrame::Ping]));
    }
    sent_packets
}

#[test]
fn a_packet_that_others_of_another_marking_overtake_is_no_loss() {
    let mut sent_packets = sent_with_dscps(10);
    let mut lost = |ranges: &[Range<u64>], now| {
        let before = sent_packets.in_flight.packets;
        let (acknowledged, _) = acknowledge(&mut sent_packets, now, ranges).expect("they were sent");
        drop(acknowledged);
        let named: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        (before - sent_packets.in_flight.packets) as u64 - named
    };
    assert_eq!(lost(&[4..5], at(500)), 0, "it has overtaken four");
    assert_eq!(lost(&[0..2], at(505)), 0);
    assert_eq!(lost(&[3..4], at(510)), 1, "one of its own marking is missing behind them");
    assert_eq!(lost(&[9..10], at(520)), 0);
    let mut outcomes = Vec::new();
    sent_packets.on_timeout(at(640), &mut outcomes);
    assert!(outcomes.is_empty());
    sent_packets.on_timeout(at(660), &mut outcomes);
    assert_eq!(outcomes.len(), 4, "a quarter of a round trip is enough");
}

#[test]
fn what_overtakes_by_more_than_expected_widens_the_window_for_it_alone() {
    let mut sent_packets = sent_with_dscps(1000);
    sent_packets.least_overtaking = Duration::ZERO;
    sent_packets.overtaking.on_taken_for_lost(Duration::from_millis(100));
    assert!(sent_packets.overtaking.window() > Duration::from_millis(100));
    assert_eq!(sent_packets.reordering.window(), Duration::ZERO);
}

#[test]
fn an_outage_is_not_part_of_the_loss_process() {
    let mut sent_packets = sent_packets(500);
    let before = sent_packets.loss_process().probability();
    sent_packets.on_outage_over();
    sent_packets.record(at(500), 0, 100, Dscp::default(), SmallVec::from_slice(&[SentFrame::Ping]));
    let (acknowledged, lost) = acknowledge(&mut sent_packets, at(1100), &[500..501]).expect("it was sent");
    assert_eq!((acknowledged.len(), lost.len()), (0, 500));
    assert!(sent_packets.loss_process().probability() <= before);
}

#[test]
fn a_flood_of_acknowledgements_that_tell_little_is_looked_at_now_and_then() {
    let mut sent_packets = sent_packets(6000);
    let looked_at = |sent_packets: &mut SentPackets, from: u64| {
        let numbers = from..from + 1000;
        let tell = |number| acknowledge_from(sent_packets, at(500 + number / 100), &[number..number + 1], number);
        numbers.map(tell).filter(|told| told.as_ref().is_ok_and(|(acknowledged, _)| !acknowledged.is_empty())).count()
    };
    assert_eq!(looked_at(&mut sent_packets, 100), 5, "one in two milliseconds");
    let told = acknowledge_from(&mut sent_packets, at(600), &[0..3000], 0).expect("it was sent");
    assert_eq!(told.0.len(), 2995);
    let short = looked_at(&mut sent_packets, 4000);
    assert_eq!(short, 1000, "a short record costs little");
}

#[test]
fn what_is_in_flight_is_counted_by_what_it_carries() {
    let mut sent_packets = sent_packets(2);
    let record = |sent_packets: &mut SentPackets, frames: &[SentFrame]| {
        sent_packets.record(at(2), 0, 100, Dscp::default(), SmallVec::from_slice(frames));
    };
    record(&mut sent_packets, &[SentFrame::MaxData, SentFrame::Ping]);
    record(&mut sent_packets, &[SentFrame::Ping]);
    record(&mut sent_packets, &[]);
    assert_eq!(sent_packets.in_flight, InFlight { packets: 4, beyond_pings: 3, data_bytes: 2 });
    acknowledge(&mut sent_packets, at(500), &[0..2]).expect("they were sent");
    assert!(sent_packets.awaits_more_than_pings());
    acknowledge(&mut sent_packets, at(500), &[0..3]).expect("they were sent");
    assert!(sent_packets.awaits_ack() && !sent_packets.awaits_more_than_pings());
    acknowledge(&mut sent_packets, at(500), &[0..5]).expect("they were sent");
    assert_eq!(sent_packets.in_flight, InFlight::default());
}

#[test]
fn a_peer_that_never_acknowledges_one_packet_does_not_make_the_record_grow_without_bound() {
    // The packets behind it are acknowledged, or ask for nothing, or for more than they get.
    let later: [&[SentFrame]; 2] = [&[], &[SentFrame::Opened]];
    for frames in later {
        let mut sent_packets = sent_packets(1);
        let mut lost = Vec::new();
        for number in 0..SentPackets::MOST_WITHOUT_DATA as u64 + 1000 {
            sent_packets.record(at(number), 0, 60, Dscp::default(), SmallVec::from_slice(frames));
            if sent_packets.loss_deadline().is_some() {
                sent_packets.on_timeout(at(number), &mut lost);
            }
            assert!(sent_packets.entries.len() <= SentPackets::MOST_WITHOUT_DATA + 1);
        }
        assert_eq!(lost[0].number, PacketNumber::ZERO);
        assert_eq!(lost[0].outcome, Outcome::Lost);
        assert_eq!(lost.len(), if frames.is_empty() { 1 } else { 1001 });
    }
}

#[test]
fn a_long_record_of_missing_packets_is_not_looked_through_for_each_packet() {
    let most = SentPackets::MOST_WITHOUT_DATA as u64;
    let mut sent_packets = sent_packets(1);
    let record = |sent_packets: &mut SentPackets, now| {
        sent_packets.record(now, 0, 60, Dscp::default(), SmallVec::from_slice(&[SentFrame::Opened]));
    };
    (1..most).for_each(|_| record(&mut sent_packets, at(400)));
    let first = acknowledge_from(&mut sent_packets, at(500), &[most - 1..most], most - 1);
    assert_eq!(first, Ok((vec![], vec![])), "the others may yet arrive");
    record(&mut sent_packets, at(500));
    let early = acknowledge_from(&mut sent_packets, at(501), &[most..most + 1], most - 1);
    assert_eq!(early, Ok((vec![], vec![])));
    assert_eq!(sent_packets.in_flight.packets as u64, most, "an acknowledgement that comes so soon is passed over");
    let (mut looks, mut lost) = (0, Vec::new());
    for millis in 501..1201 {
        record(&mut sent_packets, at(millis));
        if sent_packets.loss_deadline().is_some_and(|deadline| deadline <= at(millis)) {
            sent_packets.on_timeout(at(millis), &mut lost);
            looks += 1;
        }
        assert!(sent_packets.entries.len() <= SentPackets::MOST_WITHOUT_DATA + 100);
    }
    assert!((5..=20).contains(&looks), "{looks} looks within 700 ms");
}

#[test]
fn data_in_flight_is_no_reason_to_shorten_the_record_unless_spread_over_many_packets() {
    for (length, is_reason) in [(256, false), (1, true)] {
        let mut sent_packets = SentPackets::new(Duration::ZERO);
        let frame = SentFrame::Stream {
            key: StreamKey { slot: 0, number: StreamNumber::new(0) },
            offset: StreamOffset::new(0),
            length,
            fin: false,
            repeat: false,
        };
        for number in 0..2 * SentPackets::MOST_WITHOUT_DATA as u64 {
            sent_packets.record(at(number), 0, 1500, Dscp::default(), SmallVec::from_slice(&[frame]));
        }
        assert_eq!(sent_packets.loss_deadline().is_some(), is_reason, "{length} bytes each");
    }
}

#[test]
fn ranges_that_are_protected_are_bounded_though_nothing_is_acknowledged() {
    let mut sent_packets = sent_packets(20_000);
    for number in (0..20_000).step_by(2) {
        let number = PacketNumber::new(number);
        sent_packets.protect(number..number.next(), 1, number + 1000);
    }
    assert_eq!(sent_packets.protected.len(), SentPackets::MOST_PROTECTED);
    let (acknowledged, lost) = acknowledge(&mut sent_packets, at(20_500), &[19_001..19_002]).expect("it was sent");
    assert_eq!(acknowledged, [19_001]);
    assert!(lost.contains(&9_000) && !lost.contains(&19_000), "what was protected of late may be recovered");
}

#[test]
fn what_a_quiet_peer_should_have_got_is_lost() {
    let mut sent_packets = sent_packets(10);
    assert_eq!(acknowledge(&mut sent_packets, at(500), &[0..4]), Ok((vec![0, 1, 2, 3], vec![])));
    sent_packets.record(at(60_000), 0, 100, Dscp::default(), SmallVec::from_slice(&[SentFrame::Ping]));
    let mut outcomes = Vec::new();
    sent_packets.on_quiet(PacketNumber::new(2), Duration::from_secs(59), &mut outcomes);
    assert!(outcomes.is_empty(), "of an old report nothing follows");
    sent_packets.on_quiet(PacketNumber::new(3), Duration::from_millis(4), &mut outcomes);
    assert_eq!(offsets(&outcomes, false), [4, 5, 6]);
    sent_packets.on_quiet(PacketNumber::new(3), Duration::from_secs(59), &mut outcomes);
    assert_eq!(offsets(&outcomes, false), [4, 5, 6, 7, 8, 9]);
    assert!(sent_packets.awaits_ack(), "the ping is in flight");
}

#[test]
fn what_acknowledgements_no_longer_reach_is_lost_after_the_horizon() {
    let mut sent_packets = sent_packets(10);
    let unknown_below = 5;
    assert_eq!(acknowledge_from(&mut sent_packets, at(500), &[5..6], unknown_below), Ok((vec![5], vec![])));
    let outcomes = acknowledge_from(&mut sent_packets, at(850), &[5..7], unknown_below);
    assert_eq!(outcomes, Ok((vec![6], vec![0, 1, 2, 3, 4])));
}

#[test]
fn what_acknowledgements_no_longer_reach_is_lost_though_no_other_comes() {
    let mut sent_packets = sent_packets(10);
    assert_eq!(acknowledge_from(&mut sent_packets, at(500), &[5..6], 5), Ok((vec![5], vec![])));
    let deadline = sent_packets.loss_deadline().expect("five are missing");
    let mut outcomes = Vec::new();
    // One is due after the other, as they left.
    for number in 0..5u64 {
        sent_packets.on_timeout(deadline + Duration::from_millis(number), &mut outcomes);
        assert_eq!(outcomes.len(), number as usize + 1);
    }
    assert_eq!(offsets(&outcomes, false), [0, 1, 2, 3, 4]);
    assert_eq!(sent_packets.loss_deadline(), None);
}
