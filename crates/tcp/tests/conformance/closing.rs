//! Ending a connection (RFC 9293, sections 3.6 and 3.10).

use super::lone::{Lone, bare, config, seg};
use tcp::{Event, Failure, Flags, Segment};

const FIN: Flags = Flags::FIN.with(Flags::ACK);

#[test]
fn this_end_closes_first() {
    let mut end = Lone::connected(config("sack"));
    end.write(500);
    end.take();
    end.finish();
    let sent = end.take();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].flags, sent[0].seq, sent[0].len), (FIN, 501, 0));
    end.at(200);
    end.ack(502);
    assert!(!end.events().contains(&Event::Closed), "the peer may still send");
    end.give(bare(FIN, 1, 502));
    let events = end.events();
    assert!(events.contains(&Event::PeerFinished) && events.contains(&Event::Closed), "{events:?}");
    assert_eq!(end.take()[0].ack, 2);
}

#[test]
fn a_fin_rides_on_the_last_data() {
    let mut end = Lone::connected(config("sack"));
    end.end.write(1_500);
    end.finish();
    let sent = end.take();
    assert_eq!(
        sent.iter().map(|segment| (segment.seq, segment.len, segment.has(Flags::FIN))).collect::<Vec<_>>(),
        [(seg(0), 1_000, false), (seg(1), 500, true)]
    );
}

/// RFC 9293, section 3.9.1.2 (MUST-61); what is sent again is pushed, too.
#[test]
fn the_last_segment_of_what_was_written_is_pushed() {
    let mut end = Lone::connected(config("sack"));
    let pushed =
        |sent: &[Segment]| sent.iter().map(|segment| (segment.seq, segment.has(Flags::PSH))).collect::<Vec<_>>();
    end.write(2_500);
    assert_eq!(pushed(&end.take()), [(seg(0), false), (seg(1), false), (seg(2), true)]);
    end.at(200);
    end.ack(seg(2));
    end.at(10_000);
    assert!(pushed(&end.take()).iter().all(|segment| *segment == (seg(2), true)), "the timeout's");
    end.ack(2_501);
    end.finish();
    assert_eq!(pushed(&end.take()), [(2_501, false)], "a FIN alone");
}

#[test]
fn the_peer_closes_first() {
    let mut end = Lone::connected(config("sack"));
    end.give(Segment { len: 300, ..bare(FIN, 1, 1) });
    assert!(end.events().contains(&Event::PeerFinished));
    assert_eq!(end.take()[0].ack, 302);
    assert_eq!(end.read(1_000), 300);
    // Half-closed: this end still sends.
    end.write(700);
    assert_eq!(end.data(), [1]);
    end.at(200);
    end.give(bare(Flags::ACK, 302, 701));
    end.finish();
    let sent = end.take();
    assert_eq!((sent[0].flags, sent[0].seq, sent[0].ack), (FIN, 701, 302));
    end.give(bare(Flags::ACK, 302, 702));
    assert!(end.events().contains(&Event::Closed));
}

#[test]
fn both_close_at_once() {
    let mut end = Lone::connected(config("sack"));
    end.finish();
    assert!(end.take()[0].has(Flags::FIN));
    end.give(bare(FIN, 1, 1));
    assert_eq!(end.take()[0].ack, 2);
    assert!(!end.events().contains(&Event::Closed), "the FIN of this end is not acknowledged");
    end.give(bare(Flags::ACK, 2, 2));
    assert!(end.events().contains(&Event::Closed));
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut end = Lone::connected(config("sack"));
    end.finish();
    end.take();
    end.at(1_200);
    let sent = end.take_timed();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, sent[0].1.flags, sent[0].1.seq), (1_100, FIN, 1));
}

#[test]
fn the_peers_fin_that_comes_again_is_acknowledged_again() {
    let mut end = Lone::connected(config("sack"));
    end.finish();
    end.give(bare(FIN, 1, 2));
    assert!(end.events().contains(&Event::Closed));
    end.take();
    end.at(5_000);
    end.give(bare(FIN, 1, 2));
    let sent = end.take();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].ack, 2);
    assert!(end.events().is_empty(), "nothing is told twice");
}

#[test]
fn a_fin_before_its_data_counts_only_when_they_have_come() {
    let mut end = Lone::connected(config("sack"));
    end.give(bare(FIN, 1_001, 1));
    assert!(!end.events().contains(&Event::PeerFinished));
    assert_eq!(end.take()[0].ack, 1);
    end.payload(1, 1_000);
    assert!(end.events().contains(&Event::PeerFinished));
    assert_eq!(end.take()[0].ack, 1_002);
    assert_eq!(end.read(u64::MAX), 1_000);
}

/// RFC 9293, section 3.10.7.4: what follows the FIN is ignored.
#[test]
fn data_beyond_the_peers_fin_are_ignored() {
    let mut end = Lone::connected(config("sack"));
    end.give(Segment { len: 100, ..bare(FIN, 1, 1) });
    end.events();
    end.payload(102, 500);
    assert_eq!(end.end.received(), 100);
    assert_eq!(end.read(u64::MAX), 100);
    assert!(end.take().iter().all(|segment| segment.ack == 102));
    let mut early = Lone::connected(config("sack"));
    early.give(bare(FIN, 501, 1));
    early.payload(1, 1_000);
    assert_eq!(early.read(u64::MAX), 500);
    assert_eq!(early.end.received(), 500);
}

#[test]
fn nothing_is_written_after_finish() {
    let mut end = Lone::connected(config("sack"));
    end.finish();
    assert_eq!(end.end.write(10), 0);
    assert_eq!(end.end.write_space(), 0);
}

#[test]
fn abort_sends_a_reset_and_answers_what_still_comes_with_one() {
    let mut end = Lone::connected(config("sack"));
    end.write(500);
    end.take();
    end.end.abort();
    end.at(101);
    let sent = end.take();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].has(Flags::RST));
    assert_eq!(sent[0].seq, 501);
    assert_eq!(end.events().last(), Some(&Event::Failed(Failure::Aborted)));
    end.payload(1, 100);
    let sent = end.take();
    assert!(sent.len() == 1 && sent[0].has(Flags::RST), "{sent:?}");
    end.give(bare(Flags::RST, 1, 501));
    end.at(100_000);
    assert!(end.take().is_empty(), "a reset is not answered, and nothing is sent again");
}

/// RFC 9293, section 3.5.3, with the stricter check of RFC 5961: a reset counts where the next byte is expected.
#[test]
fn a_reset_in_sequence_ends_the_connection_and_one_beside_it_does_not() {
    for (seq, ends) in [(1, true), (0, false), (2_000_000_000, false)] {
        let mut end = Lone::connected(config("sack"));
        end.write(5_000);
        end.give(bare(Flags::RST, seq, 1));
        assert_eq!(end.events().contains(&Event::Failed(Failure::Reset)), ends, "reset at {seq}");
    }
}
