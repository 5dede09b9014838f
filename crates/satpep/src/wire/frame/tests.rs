//! Frames that are written and read again.

use super::super::arrivals::{self, Counters};
use super::*;
use crate::Stored;
use proptest::prelude::*;

const COUNTERS: Counters = Counters { packets: 1000, bytes: 1_400_000, ce: Some(3) };

fn written(space: usize, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0xee; space];
    let mut writer = Writer::new(&mut buffer);
    write(&mut writer);
    let length = writer.len();
    buffer.truncate(length);
    buffer
}

#[test]
fn frames_round_trip() {
    let bytes = written(200, |writer| {
        assert!(writer.ping());
        assert!(writer.stop_waiting(PacketNumber::new(77)));
        assert!(writer.train());
        assert!(writer.arrivals(&COUNTERS, &[(PacketNumber::new(70_000), (1 << 30) - 1)]));
        assert!(writer.max_data(Credit::new(1 << 40)));
        assert!(writer.max_stream_data(StreamNumber::new(5), StreamOffset::new(9000)));
        assert!(writer.max_new_stream_data(Credit::new(30_000_000)));
        assert!(writer.path_too_small());
        assert!(writer.watch_stream(StreamNumber::new(5), StreamOffset::new(300_000)));
        assert!(writer.stream_read(StreamNumber::new(5), StreamOffset::new(9000)));
        assert!(writer.reset(StreamNumber::new(3), ResetReason::Refused, StreamOffset::new(100)));
        assert!(writer.path(PathFrame::Challenge(u64::MAX - 1)) && writer.path(PathFrame::Response(7)));
        assert!(writer.recovered([60..62, 7..8].into_iter().map(PacketNumber::range)));
        let older = writer.older_ranges([20..30, 2..4].into_iter().map(PacketNumber::range));
        assert_eq!(older, Some(PacketNumber::range(2..30)));
        assert!(writer.ack([90..100, 50..80, 5..6].into_iter().map(PacketNumber::range), 250, PacketNumber::new(3)));
        writer.stream::<Stored>(StreamNumber::new(9), StreamOffset::new(1000), 4, true).copy_from_slice(b"data");
        assert!(writer.close());
    });
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.next(), Ok(Some(Frame::Ping)));
    assert_eq!(reader.next(), Ok(Some(Frame::StopWaiting { lowest: PacketNumber::new(77) })));
    assert_eq!(reader.next(), Ok(Some(Frame::Train)));
    let Ok(Some(Frame::Arrivals(arrivals))) = reader.next() else { panic!("no arrivals") };
    assert_eq!((arrivals.counters, arrivals.first_micros), (COUNTERS, (1 << 30) - 1));
    assert_eq!(arrivals.stamps().collect::<Vec<_>>(), [(PacketNumber::new(70_000), units::Duration::ZERO)]);
    assert_eq!(reader.next(), Ok(Some(Frame::MaxData { limit: Credit::new(1 << 40) })));
    assert_eq!(
        reader.next(),
        Ok(Some(Frame::MaxStreamData { stream: StreamNumber::new(5), limit: StreamOffset::new(9000) }))
    );
    assert_eq!(reader.next(), Ok(Some(Frame::MaxNewStreamData { limit: Credit::new(30_000_000) })));
    assert_eq!(reader.next(), Ok(Some(Frame::PathTooSmall)));
    let (stream, to) = (StreamNumber::new(5), StreamOffset::new(300_000));
    assert_eq!(reader.next(), Ok(Some(Frame::WatchStream { stream, to })));
    assert_eq!(reader.next(), Ok(Some(Frame::StreamRead { stream, to: StreamOffset::new(9000) })));
    let reset =
        Frame::Reset { stream: StreamNumber::new(3), reason: ResetReason::Refused, final_size: StreamOffset::new(100) };
    assert_eq!(reader.next(), Ok(Some(reset)));
    assert_eq!(reader.next(), Ok(Some(Frame::Path(PathFrame::Challenge(u64::MAX - 1)))));
    assert_eq!(reader.next(), Ok(Some(Frame::Path(PathFrame::Response(7)))));
    let Ok(Some(Frame::Recovered(recovered))) = reader.next() else { panic!("nothing recovered") };
    assert_eq!(recovered.ranges().collect::<Vec<_>>(), [60..62, 7..8].map(PacketNumber::range));
    let Ok(Some(Frame::OlderRanges(older))) = reader.next() else { panic!("no older ranges") };
    assert_eq!(older.ranges().collect::<Vec<_>>(), [20..30, 2..4].map(PacketNumber::range));
    let Ok(Some(Frame::Ack(ack))) = reader.next() else { panic!("no ack") };
    assert_eq!((ack.largest.get(), ack.delay_us, ack.covered_from.get()), (99, 250, 3));
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [90..100, 50..80, 5..6].map(PacketNumber::range));
    assert_eq!(
        reader.next(),
        Ok(Some(Frame::Stream {
            stream: StreamNumber::new(9),
            offset: StreamOffset::new(1000),
            data: b"data",
            elided: 0,
            fin: true
        }))
    );
    assert_eq!(reader.next(), Ok(Some(Frame::Close)));
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn frames_that_may_be_skipped_are_and_others_are_named() {
    // A ping, types 0x3ffe and 0x3fff of 3 and 0 bytes, a ping.
    let bytes = [1, 0x7f, 0xfe, 3, 9, 9, 9, 0x7f, 0xff, 0, 1];
    let mut reader = Reader::new(&bytes);
    assert_eq!((reader.next(), reader.next(), reader.next()), (Ok(Some(Frame::Ping)), Ok(Some(Frame::Ping)), Ok(None)));
    assert_eq!(reader.skipped(), 2);
    let refused: [(&[u8], Malformed); 10] = [
        (&[0x40, 0x43, 1, 9, 9], Malformed::Fields),
        (&[0x3f], Malformed::Type(0x3f)),
        (&[0x30, 1, 2], Malformed::Type(0x30)),
        (&[0x80, 0, 0x40, 0, 0], Malformed::Type(0x4000)),
        (&[0x40, 1], Malformed::Type(1)),
        (&[0x40], Malformed::Fields),
        (&[0x40, 0x42, 2, 9], Malformed::Fields),
        // OLDER_RANGES whose second range lies beyond its length.
        (&[0x40, 0x42, 3, 9, 2, 0, 0, 0], Malformed::Fields),
        (&[0x40, 0x40, 0], Malformed::Fields),
        (&[0x40, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Malformed::Fields),
    ];
    for (bytes, why) in refused {
        assert_eq!(Reader::new(bytes).next(), Err(why), "{bytes:?}");
    }
}

#[test]
fn ranges_of_recovered_packets_leave_space_for_the_acknowledgement() {
    let ranges = || (0..400u64).rev().map(|k| PacketNumber::range(1_000_000 + 1_000 * k..1_000_001 + 1_000 * k));
    for space in [120, 480, 1_400] {
        let mut told = 0;
        let bytes = written(space, |writer| {
            assert!(writer.recovered(ranges()));
            assert!(writer.ack(ranges(), 5_000, PacketNumber::new(0)), "no acknowledgement fits into {space} bytes");
        });
        let mut reader = Reader::new(&bytes);
        while let Ok(Some(frame)) = reader.next() {
            if let Frame::Recovered(recovered) = frame {
                assert!(recovered.ranges().eq(ranges().take(recovered.ranges().count())), "the newest are told first");
                told = recovered.ranges().count();
            }
        }
        assert!(told > space / 20, "{told} ranges in {space} bytes");
    }
}

#[test]
fn an_acknowledgement_that_leaves_ranges_out_covers_only_what_it_names() {
    let ranges = (0..200).rev().map(|k| PacketNumber::range(10 * k..10 * k + 5));
    let bytes = written(1400, |writer| assert!(writer.ack(ranges.clone(), 0, PacketNumber::new(0))));
    let Ok(Some(Frame::Ack(ack))) = Reader::new(&bytes).next() else { panic!("no ack") };
    assert_eq!((ack.ranges().count(), ack.covered_from.get()), (MAX_ACK_RANGES, 10 * (200 - MAX_ACK_RANGES as u64)));
    let bytes = written(40, |writer| assert!(writer.ack(ranges, 0, PacketNumber::new(0))));
    let Ok(Some(Frame::Ack(ack))) = Reader::new(&bytes).next() else { panic!("no ack") };
    assert_eq!(ack.ranges().last().map(|range| range.start), Some(ack.covered_from));
}

#[test]
fn a_stream_frame_fills_any_space_it_is_given() {
    const ONE: StreamNumber = StreamNumber::new(1);
    for space in 3..300 {
        let room = Writer::new(&mut vec![0; space]).stream_room(ONE, StreamOffset::new(0)).expect("room");
        for length in room.saturating_sub(4)..=room {
            let bytes =
                written(space, |writer| writer.stream::<Stored>(ONE, StreamOffset::new(0), length, false).fill(7));
            let frame = Reader::new(&bytes).next();
            let data = vec![7; length];
            assert_eq!(
                frame,
                Ok(Some(Frame::Stream {
                    stream: ONE,
                    offset: StreamOffset::new(0),
                    data: &data,
                    elided: 0,
                    fin: false
                }))
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&bytes);
        while let Ok(Some(frame)) = reader.next() {
            if let Frame::Arrivals(arrivals) = &frame {
                prop_assert!(arrivals.stamps().count() <= arrivals::MAX_STAMPS);
            }
            if let Frame::Ack(ack) = frame {
                prop_assert!(ack.ranges().all(|range| !range.is_empty()));
            }
        }
    }
}
