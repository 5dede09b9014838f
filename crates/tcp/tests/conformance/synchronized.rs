//! Segments that a synchronised connection must not believe (RFC 9293, section 3.10.7; RFC 5961).

use super::lone::{Lone, MSS, bare, config, seg, syn};
use tcp::{Config, Event, Failure, Flags, ReceiveBuffer, Segment};
use units::Bytes;

const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);

/// A receive window of 10,000 bytes, of which the first 1,000 have arrived: 1,001 is expected, 11,001 is beyond.
fn expecting_1001() -> Lone {
    let buffer = ReceiveBuffer::plain(Bytes::new(10_000));
    let mut end = Lone::connected(Config { receive_buffer: buffer, ..config("sack") });
    end.payload(1, MSS);
    assert_eq!(end.read(u64::MAX), 1_000);
    end.take();
    end.events();
    end
}

fn has_failed(end: &mut Lone) -> bool {
    end.events().iter().any(|event| matches!(event, Event::Failed(_)))
}

/// RFC 5961, section 3.2: a reset elsewhere in the window is answered by an acknowledgement, with which a peer that means it
/// makes one that counts; beyond the window it is dropped.
#[test]
fn a_reset_in_the_window_is_challenged_and_one_outside_is_dropped() {
    for (seq, answers) in [(0, 0), (1_000, 0), (1_002, 1), (6_000, 1), (11_000, 1), (11_001, 0), (1 << 40, 0)] {
        let mut end = expecting_1001();
        end.give(bare(Flags::RST, seq, 0));
        let sent = end.take();
        assert_eq!(sent.len(), answers, "a reset at {seq}: {sent:?}");
        assert!(sent.iter().all(|challenge| (challenge.flags, challenge.ack) == (Flags::ACK, 1_001)), "{sent:?}");
        assert!(!has_failed(&mut end), "a reset at {seq}");
    }
}

#[test]
fn the_answer_to_a_challenge_ends_the_connection() {
    let mut end = expecting_1001();
    end.give(bare(Flags::RST, 5_000, 0));
    let challenge = end.take()[0];
    end.give(bare(Flags::RST, challenge.ack, 0));
    assert_eq!(end.events(), [Event::Failed(Failure::Reset)]);
    assert_eq!(end.end.write(1), 0, "nothing is taken any more");
}

/// RFC 9293, section 3.10.7.4, with RFC 5961, section 4.2: a SYN, wherever it is, is answered by an acknowledgement, whose
/// answer is a reset if the peer has restarted. It is not a new connection, and nothing that it carries is taken.
#[test]
fn a_syn_on_a_synchronised_connection_is_challenged_wherever_it_is() {
    for seq in [0, 1_001, 5_000, 50_000] {
        for flags in [Flags::SYN, SYN_ACK] {
            let mut end = expecting_1001();
            end.give(Segment { len: 100, ..bare(flags, seq, 1) });
            let sent = end.take();
            assert_eq!(sent.len(), 1, "{flags:?} at {seq}");
            assert_eq!((sent[0].flags, sent[0].ack), (Flags::ACK, 1_001), "{flags:?} at {seq}");
            assert!(end.events().is_empty() && end.end.received() == 1_000, "{flags:?} at {seq}");
        }
    }
}

/// RFC 9293, figure 9: the side that has restarted opens anew, is told what the other expects, and resets that.
#[test]
fn a_peer_that_has_restarted_finds_the_half_open_connection() {
    let mut old = expecting_1001();
    old.write(300);
    old.take();
    let mut new = Lone::connecting(config("sack"));
    old.give(new.take()[0]);
    let challenge = old.take()[0];
    assert_eq!((challenge.flags, challenge.seq), (Flags::ACK, 301));
    new.give(challenge);
    let reset = new.take();
    assert_eq!(reset.len(), 1, "{reset:?}");
    assert!(reset[0].has(Flags::RST) && reset[0].seq == challenge.ack, "{reset:?}");
    assert!(!has_failed(&mut new), "it goes on with its own SYN");
    old.give(reset[0]);
    assert_eq!(old.events(), [Event::Failed(Failure::Reset)]);
    new.at(1_000);
    assert!(new.take().iter().all(|again| again.has(Flags::SYN)), "the timer's");
}

/// RFC 9293, section 3.10.7.4: an acknowledgement of what was never sent is answered by one, and its segment is dropped.
#[test]
fn a_segment_that_acknowledges_what_was_never_sent_is_dropped_and_answered() {
    let mut end = expecting_1001();
    end.write(500);
    end.take();
    for ack in [502, 100_000] {
        end.give(Segment { len: MSS, ..bare(Flags::ACK, 1_001, ack) });
        let sent = end.take();
        assert_eq!(sent.len(), 1, "{ack}: {sent:?}");
        assert_eq!((sent[0].ack, sent[0].len), (1_001, 0), "{ack}");
        assert_eq!((end.end.received(), end.end.metrics().acknowledged), (1_000, 0), "{ack}");
    }
    end.give(Segment { len: MSS, ..bare(Flags::ACK, 1_001, 501) });
    assert_eq!((end.end.received(), end.end.metrics().acknowledged), (2_000, 500));
}

/// RFC 9293, section 3.10.7.4: in SYN-RECEIVED only the acknowledgement of the SYN connects, and another one is reset.
#[test]
fn a_third_segment_that_acknowledges_something_else_is_reset_and_does_not_connect() {
    let mut server = Lone::listening(config("sack"));
    server.give(syn(&[]));
    assert!(server.take()[0].has(SYN_ACK));
    for ack in [2, 1_000] {
        server.give(bare(Flags::ACK, 1, ack));
        let sent = server.take();
        assert_eq!(sent.len(), 1, "{ack}: {sent:?}");
        assert!(sent[0].has(Flags::RST) && sent[0].seq == ack, "{ack}: {sent:?}");
        assert!(server.events().is_empty(), "{ack}");
    }
    server.give(bare(Flags::ACK, 1, 1));
    assert!(server.events().contains(&Event::Connected));
}

/// RFC 9293, section 3.10.7.3: what answers no SYN of this end is reset, and the connection is still being opened.
#[test]
fn an_answer_to_another_syn_is_reset() {
    for ack in [0, 2, 77] {
        let mut client = Lone::connecting(config("sack"));
        client.take();
        client.give(bare(SYN_ACK, 0, ack));
        let sent = client.take();
        assert_eq!(sent.len(), 1, "{ack}: {sent:?}");
        assert!(sent[0].has(Flags::RST) && sent[0].seq == ack, "{ack}: {sent:?}");
        client.give(bare(SYN_ACK, 0, 1));
        assert!(client.events().contains(&Event::Connected), "{ack}");
    }
}

/// RFC 9293, section 3.10.7.3: a reset in SYN-SENT counts only if it acknowledges the SYN; it is never answered by another.
#[test]
fn no_reset_is_answered_by_a_reset() {
    let mut client = Lone::connecting(config("sack"));
    client.take();
    for (flags, ack) in [(Flags::RST, 0), (Flags::RST.with(Flags::ACK), 5), (Flags::RST.with(SYN_ACK), 9)] {
        client.give(bare(flags, 0, ack));
        assert!(client.take().is_empty() && client.events().is_empty(), "{flags:?}");
    }
    client.give(bare(Flags::RST.with(Flags::ACK), 0, 1));
    assert_eq!(client.events(), [Event::Failed(Failure::Reset)]);
    client.at(100_000);
    assert!(client.take().is_empty());
}

/// RFC 9293, section 3.10.7.4: first the sequence number is checked. What is wholly outside the window is answered and dropped.
#[test]
fn data_outside_the_window_are_answered_and_dropped() {
    for seq in [0, 11_001, 60_000] {
        let mut end = expecting_1001();
        end.payload(seq, 900);
        let sent = end.take();
        assert_eq!(sent.len(), 1, "{seq}: {sent:?}");
        assert_eq!((sent[0].ack, end.end.received()), (1_001, 1_000), "{seq}");
        assert_eq!(end.end.readable(), 0);
    }
}

/// RFC 9293, section 3.10.7.4: of a segment that overlaps the window, the part inside it is taken.
#[test]
fn of_a_segment_across_an_edge_of_the_window_the_part_inside_is_taken() {
    let mut end = expecting_1001();
    end.payload(501, MSS);
    assert_eq!((end.end.received(), end.read(u64::MAX)), (1_500, 500), "the left edge");
    let mut end = expecting_1001();
    for number in 1..10 {
        end.payload(seg(number), MSS);
    }
    end.payload(10_001, 5_000);
    assert_eq!(end.end.received(), 11_000, "the right edge");
    assert_eq!(end.take().last().map(|ack| ack.window), Some(0));
}
