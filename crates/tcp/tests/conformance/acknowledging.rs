//! When the receiver acknowledges, and what it reports (RFC 5681, section 4.2; RFC 2018; RFC 2883; RFC 7323).

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{AckPolicy, Config, Flags, Options, Segment, Timestamps};
use units::Duration;

fn delayed(every: u32) -> Config {
    Config { acks: AckPolicy { every, delay: Duration::from_millis(200), quick: 0 }, ..config("sack") }
}

#[test]
fn every_nth_full_segment_is_acknowledged_at_once() {
    for every in [1, 2, 3] {
        let mut end = Lone::connected(delayed(every));
        for number in 0..12 {
            end.payload(seg(number), MSS);
        }
        let acks: Vec<u64> = end.take().iter().map(|segment| segment.ack).collect();
        assert_eq!(acks, (1..=12).filter(|n| n % u64::from(every) == 0).map(seg).collect::<Vec<_>>());
    }
}

/// RFC 5681 counts full-sized segments of the peer, which may be smaller than this end's.
#[test]
fn every_second_segment_of_a_peer_with_a_smaller_mss_is_acknowledged() {
    let mut end = Lone::connected(delayed(2));
    for number in 0..10 {
        end.payload(1 + number * 536, 536);
    }
    assert_eq!(end.take().iter().map(|segment| segment.ack).collect::<Vec<_>>(), [1073, 2145, 3217, 4289, 5361]);
}

#[test]
fn a_single_segment_is_acknowledged_when_the_timer_says_so() {
    let mut end = Lone::connected(delayed(2));
    end.at(1_000);
    end.payload(seg(0), MSS);
    end.at(1_150);
    assert!(end.take().is_empty());
    end.at(2_000);
    let sent = end.take_timed();
    assert_eq!(sent.iter().map(|(at, segment)| (*at, segment.ack)).collect::<Vec<_>>(), [(1_200, seg(1))]);
}

#[test]
fn data_of_this_end_carry_the_acknowledgement() {
    let mut end = Lone::connected(delayed(2));
    end.payload(seg(0), MSS);
    end.write(100);
    assert_eq!(end.take().iter().map(|segment| (segment.len, segment.ack)).collect::<Vec<_>>(), [(100, seg(1))]);
    end.at(1_000);
    assert!(end.take().iter().all(|segment| segment.len > 0), "no acknowledgement of its own");
}

/// The window that opens as the application reads is advertised with those acknowledgements, not by segments of its own.
#[test]
fn an_application_that_reads_at_once_causes_no_further_acknowledgements() {
    let large = tcp::ReceiveBuffer::plain(units::Bytes::new(1 << 30));
    let mut end = Lone::connected(Config { receive_buffer: large, ..delayed(2) });
    for number in 0..12 {
        end.payload(seg(number), MSS);
        assert_eq!(end.read(u64::MAX), u64::from(MSS));
    }
    assert_eq!(end.take().iter().map(|segment| segment.ack).collect::<Vec<_>>(), [2, 4, 6, 8, 10, 12].map(seg));
}

#[test]
fn out_of_order_data_and_what_fills_a_hole_are_acknowledged_at_once() {
    let mut end = Lone::connected(delayed(2));
    end.payload(seg(1), MSS);
    end.payload(seg(3), MSS);
    end.payload(seg(0), MSS);
    end.payload(seg(2), MSS);
    let acks: Vec<u64> = end.take().iter().map(|segment| segment.ack).collect();
    assert_eq!(acks, [seg(0), seg(0), seg(2), seg(4)]);
    end.payload(seg(4), MSS);
    assert!(end.take().is_empty(), "in order again");
}

#[test]
fn the_first_segments_are_acknowledged_at_once_in_quick_mode() {
    let mut end = Lone::connected(Config { acks: AckPolicy { quick: 4, ..delayed(2).acks }, ..delayed(2) });
    for number in 0..8 {
        end.payload(seg(number), MSS);
    }
    let acks: Vec<u64> = end.take().iter().map(|segment| segment.ack).collect();
    assert_eq!(acks, [1, 2, 3, 4, 6, 8].map(seg));
}

#[test]
fn a_segment_that_came_before_is_acknowledged_at_once() {
    let mut end = Lone::connected(delayed(2));
    end.payload(seg(0), MSS);
    end.payload(seg(1), MSS);
    end.take();
    end.payload(seg(0), MSS);
    let sent = end.take();
    assert_eq!((sent.len(), sent[0].ack, sent[0].len), (1, seg(2), 0));
}

#[test]
fn a_keepalive_below_the_window_is_answered() {
    let mut end = Lone::connected(config("sack"));
    end.give(bare(Flags::ACK, 0, 1));
    assert_eq!(end.take().iter().map(|segment| segment.ack).collect::<Vec<_>>(), [1]);
}

fn blocks(segment: &Segment) -> Vec<(u64, u64)> {
    segment.sack_blocks().map(|block| (block.start, block.end)).collect()
}

/// RFC 2018, section 4: the first block holds the segment that brought the acknowledgement about, the others follow in
/// the order of their latest report.
#[test]
fn the_first_block_is_the_newest() {
    let mut end = Lone::connected(config("sack"));
    let report = |end: &mut Lone, number: u64| {
        end.payload(seg(number), MSS);
        blocks(&end.take()[0])
    };
    let range = |from: u64, to: u64| (seg(from), seg(to));
    assert_eq!(report(&mut end, 2), [range(2, 3)]);
    assert_eq!(report(&mut end, 4), [range(4, 5), range(2, 3)]);
    assert_eq!(report(&mut end, 8), [range(8, 9), range(4, 5), range(2, 3)]);
    assert_eq!(report(&mut end, 6), [range(6, 7), range(8, 9), range(4, 5), range(2, 3)]);
    assert_eq!(report(&mut end, 3), [range(2, 5), range(6, 7), range(8, 9)]);
    assert_eq!(report(&mut end, 9), [range(8, 10), range(2, 5), range(6, 7)]);
    assert_eq!(report(&mut end, 12), [range(12, 13), range(8, 10), range(2, 5), range(6, 7)]);
    assert_eq!(report(&mut end, 15), [range(15, 16), range(12, 13), range(8, 10), range(2, 5)]);
    assert_eq!(report(&mut end, 0), [range(15, 16), range(12, 13), range(8, 10), range(2, 5)]);
    assert_eq!(report(&mut end, 1), [range(15, 16), range(12, 13), range(8, 10)], "2..5 is acknowledged");
}

#[test]
fn timestamps_leave_room_for_three_blocks() {
    let base = config("sack");
    let mut end = Lone::connected(Config { options: Options { timestamps: true, ..base.options }, ..base });
    for number in [2, 4, 6, 8] {
        end.payload(seg(number), MSS);
    }
    let last = end.take()[3];
    assert_eq!(blocks(&last), [(8, 9), (6, 7), (4, 5)].map(|(from, to)| (seg(from), seg(to))));
    assert_eq!(last.header, 40 + 12 + 28);
}

#[test]
fn without_agreed_timestamps_there_are_four_blocks_whatever_was_offered() {
    let base = config("sack");
    let mut end = Lone::connecting(Config { options: Options { timestamps: true, ..base.options }, ..base });
    end.take();
    end.give(bare(Flags::SYN.with(Flags::ACK).with(Flags::SACK_PERMITTED), 0, 1));
    for number in [2, 4, 6, 8] {
        end.payload(seg(number), MSS);
    }
    let last = *end.take().last().expect("acknowledged");
    assert_eq!(last.sack.len(), 4);
}

/// RFC 2883, section 4: the first block reports the duplicate, once.
#[test]
fn duplicates_are_reported_once_in_the_first_block() {
    let mut end = Lone::connected(config("sack"));
    end.payload(seg(0), MSS);
    end.payload(seg(0), MSS);
    end.payload(seg(3), MSS);
    end.payload(seg(3), MSS);
    end.payload(seg(5), MSS);
    let sent = end.take();
    let range = |from: u64, to: u64| (seg(from), seg(to));
    assert_eq!(blocks(&sent[1]), [range(0, 1)]);
    assert!(sent[1].has(Flags::DSACK));
    assert_eq!(blocks(&sent[2]), [range(3, 4)]);
    assert!(!sent[2].has(Flags::DSACK));
    assert_eq!(blocks(&sent[3]), [range(3, 4), range(3, 4)], "the duplicate, then the block that holds it");
    assert!(sent[3].has(Flags::DSACK));
    assert_eq!(blocks(&sent[4]), [range(5, 6), range(3, 4)]);
    assert_eq!(end.end.metrics().duplicate_bytes, 2 * u64::from(MSS));
}

/// RFC 2883, section 4.1.2: of a segment that is partly old only the old part is a duplicate.
#[test]
fn the_old_part_of_a_segment_is_reported() {
    let mut end = Lone::connected(config("sack"));
    end.payload(seg(0), MSS);
    end.payload(seg(0) + 500, MSS);
    let last = end.take()[1];
    assert_eq!((last.ack, blocks(&last)), (seg(1) + 500, vec![(seg(0) + 500, seg(1))]));
    assert_eq!(end.end.metrics().duplicate_bytes, 500);
}

#[test]
fn data_beyond_the_window_are_refused_and_no_duplicates() {
    let window = tcp::ReceiveBuffer::plain(units::Bytes::new(10_000));
    let mut end = Lone::connected(Config { receive_buffer: window, ..config("sack") });
    end.payload(seg(20), MSS);
    let sent = end.take();
    assert_eq!((sent[0].ack, sent[0].sack.len()), (1, 0), "an acknowledgement without any block");
    assert_eq!(end.end.metrics().duplicate_bytes, 0);
    // Of a segment across the edge only what is inside is taken.
    end.payload(seg(9) + 500, MSS);
    assert_eq!(blocks(&end.take()[0]), [(seg(9) + 500, seg(10))]);
}

fn stamped(value: u32, segment: Segment) -> Segment {
    Segment { timestamps: Timestamps { value, echo: 0 }, flags: segment.flags.with(Flags::TIMESTAMPS), ..segment }
}

/// RFC 7323, section 4.3: the echo is the timestamp of the earliest segment not acknowledged yet, or of the last one in
/// order before a hole.
#[test]
fn the_echo_is_of_the_segment_that_moves_the_left_edge() {
    let base = delayed(2);
    let mut end = Lone::connected(Config { options: Options { timestamps: true, ..base.options }, ..base });
    let segment = |number: u64| Segment { len: MSS, ..bare(Flags::ACK, seg(number), 1) };
    end.give(stamped(100, segment(0)));
    end.give(stamped(110, segment(1)));
    assert_eq!(end.take()[0].timestamps.echo, 100, "with delayed acknowledgements the earliest");
    end.give(stamped(120, segment(3)));
    assert_eq!(end.take()[0].timestamps.echo, 100, "a segment after a hole is not echoed");
    end.give(stamped(130, segment(2)));
    assert_eq!(end.take()[0].timestamps.echo, 130, "the segment that fills the hole is");
}

#[test]
fn the_timestamp_of_a_bare_acknowledgement_is_echoed_in_the_next_data() {
    let base = config("sack");
    let mut end = Lone::connected(Config { options: Options { timestamps: true, ..base.options }, ..base });
    end.write(1_000);
    end.take();
    end.at(200);
    end.give(stamped(555, bare(Flags::ACK, 1, seg(1))));
    end.write(1_000);
    assert_eq!(end.take()[0].timestamps.echo, 555);
}

/// How many acknowledgements `segments` full segments bring in the profile `linux` with `acks`, read as they come.
fn linux_acknowledgements(acks: AckPolicy, segments: u64) -> usize {
    let linux = Config::new(tcp::Profile::Linux);
    let mut end = Lone::connected(Config { mss: 1000, acks, ..linux });
    for number in 0..segments {
        end.payload(seg(number), 1000);
        end.read(u64::MAX);
    }
    end.take().len()
}

/// Linux 6.18 (`tcp_grow_window`): what opens the window is acknowledged at once, 2,765 acknowledgements of 2,763 segments
/// over 550 ms. A host that receives several segments as one acknowledges these together.
#[test]
fn in_linux_each_segment_that_opens_the_window_is_acknowledged() {
    let acks = Config::new(tcp::Profile::Linux).acks;
    // The first buffer has room for 81,920 bytes of window, 8 segments' more than it begins with.
    assert_eq!(linux_acknowledgements(acks, 24), 24);
    assert_eq!(linux_acknowledgements(AckPolicy { every: 4, quick: 0, ..acks }, 24), 6);
}
