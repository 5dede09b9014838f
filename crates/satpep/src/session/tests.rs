//! Tests: a peer that is who it says and breaks the protocol ends its session, and nothing else.

use super::*;
use crate::Violation;
use crate::capacity::{AcceptedPacket, Mark};
use crate::credit::Credit;
use crate::fuzzing::number_after;
use crate::packet_number::PacketNumber;
use crate::payload::Stored;
use crate::stream::{StreamNumber, StreamOffset};
use crate::wire::frame::{PathFrame, Writer};
use crate::wire::varint;
use crate::{Capabilities, EndpointConfig, PrivateKey};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use units::{Bytes, Rate};

const POOL: u64 = 400_000;
const STREAM_CREDIT: u64 = 200_000;
const MAX_STREAMS: u32 = 20;

fn now() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// A session whose peer opens the even streams.
fn session() -> Session<Stored> {
    session_with(1 << 20, Capabilities::NONE)
}

/// The same whose peer grants `session_credit` and can do what `capabilities` say.
fn session_with(session_credit: u64, capabilities: Capabilities) -> Session<Stored> {
    let rate = Rate::from_bps(6_000_000);
    let mut config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, Duration::from_millis(550));
    config.receive_memory = Some(Bytes::new(POOL));
    config.max_streams = MAX_STREAMS;
    assert_eq!((config.receive_pool(), config.stream_credit()), (POOL, STREAM_CREDIT));
    let parameters = TransportParameters {
        epoch: 1,
        timestamp: 1,
        session_credit: Credit::new(session_credit),
        stream_credit: Credit::new(1 << 16),
        max_streams: MAX_STREAMS,
        capabilities,
        session: None,
    };
    Session::new(&config, PeerId(0), 1, &parameters, (false, true), Default::default(), now())
}

fn accepted(arrived: Instant, number: PacketNumber) -> AcceptedPacket {
    AcceptedPacket { number, arrived, ip_size: 1000, mark: Mark::NotCe }
}

/// Hands in one packet of what `write` writes.
fn receive(session: &mut Session<Stored>, number: u64, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), Violation> {
    receive_at(session, now(), PacketNumber::new(number), write)
}

fn receive_at(
    session: &mut Session<Stored>,
    now: Instant,
    number: PacketNumber,
    write: impl FnOnce(&mut Writer<'_>),
) -> Result<(), Violation> {
    let mut buffer = [0; 1400];
    let mut writer = Writer::new(&mut buffer);
    write(&mut writer);
    let length = writer.len();
    session.on_frames(now, &accepted(now, number), &buffer[..length], 0)
}

fn data(stream: u64, offset: u64, length: usize, fin: bool) -> impl FnOnce(&mut Writer<'_>) {
    move |writer| writer.stream::<Stored>(StreamNumber::new(stream), StreamOffset::new(offset), length, fin).fill(7)
}

#[test]
fn bytes_beyond_a_streams_credit_break_the_session() {
    let mut session = session();
    assert_eq!(receive(&mut session, 0, data(0, STREAM_CREDIT - 10, 10, false)), Ok(()));
    assert_eq!(receive(&mut session, 1, data(2, STREAM_CREDIT - 10, 11, false)), Err(Violation::BeyondCredit));
}

#[test]
fn bytes_beyond_the_sessions_credit_break_it() {
    let mut session = session();
    assert_eq!(receive(&mut session, 0, data(0, STREAM_CREDIT - 1, 1, false)), Ok(()));
    assert_eq!(receive(&mut session, 1, data(2, STREAM_CREDIT - 1, 1, false)), Ok(()));
    assert_eq!(receive(&mut session, 2, data(4, 0, 1, false)), Err(Violation::BeyondCredit));
}

#[test]
fn a_reset_counts_what_its_sender_claims_to_have_sent() {
    let mut session = session();
    let reset = |stream, offset| {
        move |writer: &mut Writer<'_>| assert!(writer.reset(StreamNumber::new(stream), ResetReason::Aborted, offset))
    };
    assert_eq!(receive(&mut session, 0, reset(0, StreamOffset::new(STREAM_CREDIT))), Ok(()));
    assert_eq!(receive(&mut session, 1, reset(2, StreamOffset::new(STREAM_CREDIT + 1))), Err(Violation::BeyondCredit));
}

#[test]
fn copies_of_a_reset_behind_data_leave_what_waits_to_be_read() {
    let mut session = session();
    assert_eq!(receive(&mut session, 0, data(0, 0, 60, false)), Ok(()));
    let Some(Event::Opened(id)) = session.poll_event() else { panic!("a stream") };
    assert_eq!(session.write(id, b"!"), 1);
    let reset = |writer: &mut Writer<'_>| {
        assert!(writer.reset(StreamNumber::new(0), ResetReason::Aborted, StreamOffset::new(60)))
    };
    for copy in 1..4 {
        assert_eq!(receive(&mut session, copy, reset), Ok(()));
        assert_eq!((session.readable_len(id), session.is_read_finished(id)), (60, false), "copy {copy}");
        assert!(!session.takes_data(id) && session.write(id, b"late") == 0);
    }
    session.consume(now(), id, 60);
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    let resets = events.iter().filter(|event| matches!(event, Event::Reset(..))).count();
    assert_eq!((resets, events.last()), (1, Some(&Event::Reset(id, ResetReason::Aborted))));
    assert_eq!(session.credit.held(), 0);
}

#[test]
fn ends_that_contradict_one_another_break_the_session() {
    let contradictions: [(u64, usize, bool); 4] = [(0, 9, true), (0, 11, true), (10, 1, false), (5, 3, true)];
    for (offset, length, fin) in contradictions {
        let mut session = session();
        assert_eq!(receive(&mut session, 0, data(0, 0, 10, true)), Ok(()));
        assert_eq!(receive(&mut session, 1, data(0, 0, 10, true)), Ok(()), "the same again is no contradiction");
        assert_eq!(
            receive(&mut session, 2, data(0, offset, length, fin)),
            Err(Violation::FinalSize),
            "{offset} {length} {fin}"
        );
    }
    let mut session = session();
    assert_eq!(receive(&mut session, 0, data(0, 0, 10, false)), Ok(()));
    let shorter = |writer: &mut Writer<'_>| {
        assert!(writer.reset(StreamNumber::new(0), ResetReason::Aborted, StreamOffset::new(9)))
    };
    assert_eq!(receive(&mut session, 1, shorter), Err(Violation::FinalSize));
}

#[test]
fn acknowledgements_of_what_was_never_sent_break_the_session() {
    let mut session = session();
    session.ping();
    let mut buffer = [0; 100];
    session.fill(now(), 0, &mut buffer, 60, Urgency::Now).expect("a ping");
    let ack = |to| {
        move |writer: &mut Writer<'_>| {
            assert!(writer.ack(std::iter::once(PacketNumber::range(0..to)), 0, PacketNumber::new(0)))
        }
    };
    assert_eq!(receive(&mut session, 0, ack(1)), Ok(()));
    assert_eq!(receive(&mut session, 1, ack(2)), Err(Violation::AckOfUnsent));
    let recovered = |writer: &mut Writer<'_>| assert!(writer.recovered(std::iter::once(PacketNumber::range(0..2))));
    assert_eq!(receive(&mut session, 2, recovered), Err(Violation::AckOfUnsent));
    let older = |writer: &mut Writer<'_>| {
        assert!(writer.older_ranges(std::iter::once(PacketNumber::range(0..2))).is_some());
    };
    assert_eq!(receive(&mut session, 3, older), Err(Violation::AckOfUnsent));
}

#[test]
fn one_packet_acknowledges_once() {
    let mut session = session();
    session.ping();
    let mut buffer = [0; 100];
    session.fill(now(), 0, &mut buffer, 60, Urgency::Now).expect("a ping");
    let twice = |writer: &mut Writer<'_>| {
        (0..2).for_each(|_| assert!(writer.ack(std::iter::once(PacketNumber::range(0..1)), 0, PacketNumber::new(0))))
    };
    assert_eq!(receive(&mut session, 0, twice), Err(Violation::RepeatedAck));
    let twice = |writer: &mut Writer<'_>| {
        (0..2).for_each(|_| assert!(writer.older_ranges(std::iter::once(PacketNumber::range(0..1))).is_some()))
    };
    assert_eq!(receive(&mut session, 1, twice), Err(Violation::RepeatedAck));
    let twice = |writer: &mut Writer<'_>| {
        (0..2).for_each(|_| assert!(writer.recovered(std::iter::once(PacketNumber::range(0..1)))))
    };
    assert_eq!(receive(&mut session, 1, twice), Err(Violation::RepeatedAck));
}

#[test]
fn streams_that_were_not_opened_or_are_too_many_break_the_session() {
    assert_eq!(receive(&mut session(), 0, data(1, 0, 1, false)), Err(Violation::UnopenedStream), "ours to open");
    let mut session = session();
    let outcomes: Vec<_> = (0..100).map(|k| receive(&mut session, k, data(2 * k, 0, 1, false))).collect();
    let accepted = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
    assert_eq!(accepted, 3 * MAX_STREAMS as usize);
    assert_eq!(outcomes[accepted], Err(Violation::TooManyStreams));
    let opened = std::iter::from_fn(|| session.poll_event()).filter(|event| matches!(event, Event::Opened(_)));
    assert_eq!(opened.count(), 2 * MAX_STREAMS as usize, "the others are refused");
}

#[test]
fn frames_that_do_not_parse_break_the_session() {
    for frames in [&[0x02][..], &[0x05, 0xff], &[0x0a, 0, 0, 5, 1], &[0x08, 0], &[0x40, 0x40, 2, 9]] {
        assert_eq!(
            session().on_frames(now(), &accepted(now(), PacketNumber::ZERO), frames, 0),
            Err(Violation::Malformed),
            "{frames:?}"
        );
    }
}

#[test]
fn reports_of_arrivals_that_are_none_or_two_break_the_session() {
    for frames in [&[0x0e, 1, 1][..], &[0x0e, 1, 1, 1, 41, 1, 1], &[0x0e, 1, 1, 1, 2, 0, 1, 1, 1]] {
        assert_eq!(
            session().on_frames(now(), &accepted(now(), PacketNumber::ZERO), frames, 0),
            Err(Violation::Malformed),
            "{frames:?}"
        );
    }
    let twice = [0x0e, 0, 0, 0, 0, 0x0e, 0, 0, 0, 0];
    assert_eq!(
        session().on_frames(now(), &accepted(now(), PacketNumber::ZERO), &twice, 0),
        Err(Violation::RepeatedAck)
    );
}

#[test]
fn a_peer_that_marks_all_packets_as_those_of_trains_gets_no_more_than_an_acknowledgement_for_each_32() {
    let mut session = session();
    let (mut space, mut count, mut bytes) = ([0; 1400], 0, 0);
    for number in 0..3200 {
        receive(&mut session, number, |writer| assert!(writer.train() && writer.ping())).expect("sound");
        if session.owes_ack(now()) {
            let filled = session.fill(now(), 0, &mut space, 53, Urgency::Now).expect("an acknowledgement");
            (count, bytes) = (count + 1, bytes + filled.length);
        }
    }
    assert_eq!(count, 100);
    assert!(bytes / count <= 250, "{bytes}");
}

#[test]
fn a_frame_of_an_unknown_type_breaks_the_session_unless_it_may_be_skipped() {
    for (frames, kind) in [(&[0x3f][..], 0x3f), (&[0x30, 4, 1, 2, 3, 4], 0x30), (&[0x20], 0x20), (&[0x40, 1], 1)] {
        assert_eq!(
            session().on_frames(now(), &accepted(now(), PacketNumber::ZERO), frames, 0),
            Err(Violation::UnknownFrame(kind)),
            "{frames:?}"
        );
    }
    assert_eq!(Violation::UnknownFrame(0x30).to_string(), "a frame of the unknown type 0x30");
    let mut session = session();
    // Stream data, a frame of type 0x3ffe, stream data.
    let frames = [0x0a, 0, 0, 2, 7, 7, 0x7f, 0xfe, 3, 1, 2, 3, 0x0b, 0, 2, 1, 7];
    assert_eq!(session.on_frames(now(), &accepted(now(), PacketNumber::ZERO), &frames, 0), Ok(()));
    assert_eq!((session.stats(now()).skipped_frames, session.credit.held()), (1, 3));
}

#[test]
fn what_a_closed_stream_still_brings_is_ignored() {
    let mut session = session();
    assert_eq!(receive(&mut session, 0, data(0, 0, 3, true)), Ok(()));
    let mut opened = None;
    while let Some(event) = session.poll_event() {
        if let Event::Opened(id) = event {
            opened = Some(id);
        }
    }
    let id = opened.expect("opened");
    session.consume(now(), id, 3);
    session.finish(id);
    let mut buffer = [0; 100];
    let filled = session.fill(now(), 0, &mut buffer, 60, Urgency::Paced).expect("the end");
    let ack = |writer: &mut Writer<'_>| {
        assert!(writer.ack(std::iter::once(PacketNumber::ZERO..filled.number.next()), 0, PacketNumber::new(0)))
    };
    assert_eq!(receive(&mut session, 1, ack), Ok(()));
    assert_eq!(session.poll_event(), Some(Event::Closed(id)));
    assert_eq!(receive(&mut session, 2, data(0, 0, 3, true)), Ok(()));
    assert_eq!(
        receive(&mut session, 3, |writer| assert!(writer.reset(
            StreamNumber::new(0),
            ResetReason::Aborted,
            StreamOffset::new(3)
        ))),
        Ok(())
    );
    assert_eq!(
        receive(&mut session, 4, |writer| assert!(
            writer.max_stream_data(StreamNumber::new(0), StreamOffset::new(1 << 30))
        )),
        Ok(())
    );
    assert_eq!(session.poll_event(), None);
    assert_eq!(session.streams.len(), 0);
}

/// A session with two streams that have been sent 5000 bytes each and then all that may go unread: on the first of them.
fn session_with_streams_that_wait_for_readers() -> (Session<Stored>, [StreamId; 2]) {
    let mut session = session_with(60_000, Capabilities::READ_REPORTS);
    let ids = [(); 2].map(|()| session.open().expect("within the limit"));
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(session.write(id, &[7; 5000]), 5000);
        let stream = StreamNumber::new(id.number());
        let grant = |writer: &mut Writer<'_>| assert!(writer.max_stream_data(stream, StreamOffset::new(1 << 20)));
        assert_eq!(receive(&mut session, number as u64, grant), Ok(()));
    }
    session.write(ids[0], &[7; 60_000]);
    send_all(&mut session);
    assert_eq!(session.credit.available().free(), 0);
    (session, ids)
}

/// Sends what there is to send.
fn send_all(session: &mut Session<Stored>) {
    let mut buffer = [0; 1400];
    for _ in 0..100 {
        session.fill(now(), 0, &mut buffer, 60, Urgency::Paced);
    }
}

#[test]
fn a_stream_that_only_asks_whether_it_is_read_puts_off_no_repair() {
    let (mut session, [_, other]) = session_with_streams_that_wait_for_readers();
    let soon = now() + Duration::from_millis(4);
    assert!(session.has_idle(soon));
    assert_eq!(session.write(other, &[7; 100]), 100);
    assert!(session.has_paced(now()), "the question");
    assert!(session.has_idle(soon));
    send_all(&mut session);
    assert!(session.has_idle(soon));
}

#[test]
fn the_last_data_of_a_stream_that_waits_for_its_reader_get_repair() {
    let (session, ids) = session_with_streams_that_wait_for_readers();
    for id in ids {
        let key = session.key(id).expect("an open stream");
        assert_eq!(session.streams[key].run_from, None);
    }
    assert_eq!(session.repairs.pauses.len(), 2);
}

/// A frame of any kind with numbers that are now small, now near a limit.
fn any_frame() -> impl Strategy<Value = (u8, u64, u64, u64, bool)> {
    let number = || {
        prop_oneof![
            6 => 0u64..12,
            2 => 0u64..3000,
            1 => (STREAM_CREDIT - 1500)..(STREAM_CREDIT + 3),
            1 => (varint::MAX - 3)..=varint::MAX,
        ]
    };
    (0u8..12, number(), number(), number(), any::<bool>())
}

fn write_frame(writer: &mut Writer<'_>, (kind, a, b, c, flag): (u8, u64, u64, u64, bool)) {
    match kind {
        0 => drop(writer.ping()),
        1 => {
            let start = a.min(1 << 60);
            writer.ack(std::iter::once(PacketNumber::range(start..start + 1 + b % 5)), c, PacketNumber::new(b % 3));
        }
        2 => drop(writer.stop_waiting(PacketNumber::new(a))),
        3 => drop(writer.max_data(Credit::new(a))),
        4 => drop(writer.max_stream_data(StreamNumber::new(a), StreamOffset::new(b))),
        5 => drop(writer.reset(StreamNumber::new(a), ResetReason::from_code(c), StreamOffset::new(b))),
        6 => drop(writer.path(if flag { PathFrame::Challenge(a) } else { PathFrame::Response(b) })),
        _ => {
            let length = (c % 40) as usize;
            if writer.stream_room(StreamNumber::new(a), StreamOffset::new(b)).is_some_and(|room| room >= length + 2)
                && b + 40 < varint::MAX
            {
                writer.stream::<Stored>(StreamNumber::new(a), StreamOffset::new(b), length, flag).fill(1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn packets_may_be_skipped_and_come_late(
        packets in proptest::collection::vec((any::<u8>(), 1u64..700, 0u64..3000), 1..60)
    ) {
        let mut session = session();
        let mut time = now();
        for (step, wait, offset) in packets {
            time += Duration::from_millis(wait);
            let number = number_after(session.received.expected(), step);
            if session.received.is_new(number) {
                prop_assert_eq!(receive_at(&mut session, time, number, data(0, offset, 100, false)), Ok(()));
            }
            session.on_timeout(time);
        }
    }

    #[test]
    fn whatever_frames_come_memory_is_bounded_and_nothing_panics(
        packets in proptest::collection::vec(
            (any::<u8>(), 1u64..700, proptest::collection::vec(any_frame(), 1..6)),
            1..60
        )
    ) {
        let mut session = session();
        let own = session.open().expect("a stream");
        session.write(own, &[5; 3000]);
        let mut buffer = [0; 1400];
        let mut time = now();
        for (step, wait, frames) in packets {
            time += Duration::from_millis(wait);
            let number = number_after(session.received.expected(), step);
            if !session.received.is_new(number) {
                continue;
            }
            let outcome = receive_at(&mut session, time, number, |writer| {
                frames.into_iter().for_each(|frame| write_frame(writer, frame));
            });
            if outcome.is_err() {
                // The endpoint drops the session with all it holds.
                session.abandon(ResetReason::Protocol).for_each(drop);
                return Ok(());
            }
            prop_assert!(session.credit.held() <= POOL);
            prop_assert!(session.streams.len() <= 1 + 4 * MAX_STREAMS as usize);
            let mut opened = Vec::new();
            while let Some(event) = session.poll_event() {
                if let Event::Readable(id) = event {
                    opened.push(id);
                }
            }
            for id in opened {
                session.consume(now(), id, 20);
                session.finish(id);
            }
            session.on_timeout(time);
            for urgency in [Urgency::Now, Urgency::Paced, Urgency::Idle] {
                session.fill(time, 0, &mut buffer, 60, urgency);
            }
        }
    }
}
