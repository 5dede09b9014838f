//! Options that a peer should not send so: each is taken for what it may mean, or ignored, and neither breaks the connection nor has
//! anything sent that is not missing (RFC 9293, section 3.1; RFC 2018; RFC 2883; RFC 7323).

use super::lone::{Lone, MSS, bare, config, seg, syn};
use tcp::{Config, Event, Flags, Options, Segment, Timestamps};

/// Ten segments out, of which none is acknowledged, at 200 ms.
fn ten_out(config: Config) -> Lone {
    let mut end = Lone::connected(config);
    end.write(10_000);
    assert_eq!(end.data().len(), 10);
    end.at(200);
    end
}

fn stamped(recovery: &str) -> Config {
    let base = config(recovery);
    Config { options: Options { timestamps: true, ..base.options }, ..base }
}

/// Blocks below the cumulative acknowledgement, beyond all that was sent, empty, reversed, or across a part of a segment report nothing.
#[test]
fn blocks_that_report_nothing_possible_are_ignored() {
    for recovery in ["sack", "rack"] {
        for blocks in [
            [(seg(20), seg(25))],
            [(seg(4), seg(4))],
            [(seg(6), seg(3))],
            [(seg(3) + 1, seg(4) - 1)],
            [(seg(3) + 500, seg(4) + 500)],
            [(1 << 30, (1 << 30) + 5_000)],
        ] {
            let mut end = ten_out(config(recovery));
            for _ in 0..5 {
                end.sack(seg(0), &blocks);
            }
            let metrics = end.end.metrics();
            assert_eq!(metrics.in_flight, 10_000, "{recovery} {blocks:?}");
            assert_eq!(metrics.counters.retransmissions, 0, "{recovery} {blocks:?}");
        }
    }
}

/// A block that reaches beyond what was sent counts as far as that.
#[test]
fn a_block_that_reaches_too_far_counts_as_far_as_something_was_sent() {
    for recovery in ["sack", "rack"] {
        let mut end = ten_out(config(recovery));
        end.sack(seg(0), &[(seg(7), seg(50))]);
        let sent = end.data();
        let metrics = end.end.metrics();
        assert_eq!(metrics.flight, 10_000, "{recovery}");
        assert_eq!(
            metrics.in_flight,
            7_000 - 7_000 * u64::from(metrics.counters.recoveries > 0) + metrics.counters.retransmissions * 1_000,
            "{recovery} {sent:?}"
        );
        end.at(300);
        end.ack(seg(10));
        assert_eq!(end.end.metrics().flight, 0, "{recovery}");
    }
}

/// Overlapping blocks and the same block several times count each byte once.
#[test]
fn blocks_that_overlap_count_each_byte_once() {
    for recovery in ["sack", "rack"] {
        let in_flight = |blocks: &[(u64, u64)]| {
            let mut end = ten_out(config(recovery));
            end.sack(seg(0), blocks);
            (end.end.metrics().in_flight, end.data())
        };
        let plain = in_flight(&[(seg(5), seg(7))]);
        assert_eq!(in_flight(&[(seg(5), seg(7)), (seg(5), seg(7)), (seg(6), seg(7))]), plain, "{recovery}");
        assert_eq!(in_flight(&[(seg(6), seg(7)), (seg(5), seg(6))]), plain, "{recovery}");
    }
}

/// Who was not offered SACK, and sends blocks all the same, is not believed: duplicates are counted.
#[test]
fn blocks_without_the_option_agreed_do_not_mislead() {
    for recovery in ["sack", "rack"] {
        let mut end = Lone::connecting(config(recovery));
        end.take();
        end.at(100);
        end.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
        end.write(10_000);
        end.take();
        end.at(200);
        end.sack(seg(0), &[(seg(8), seg(10))]);
        assert!(end.data().is_empty(), "{recovery}: one duplicate");
        end.at(250);
        end.ack(seg(10));
        let metrics = end.end.metrics();
        assert_eq!((metrics.flight, metrics.counters.retransmissions), (0, 0), "{recovery}");
    }
}

/// RFC 2883, section 4: a first block below the cumulative acknowledgement reports a duplicate and no data beyond; the others are as usual.
#[test]
fn a_reported_duplicate_is_no_report_of_new_data() {
    for recovery in ["sack", "rack"] {
        let mut end = ten_out(config(recovery));
        end.sack(seg(2), &[(seg(0), seg(1))]);
        end.take();
        let metrics = end.end.metrics();
        assert_eq!((metrics.flight, metrics.in_flight), (8_000, 8_000), "{recovery}");
        end.sack(seg(2), &[(seg(0), seg(1)), (seg(9), seg(10))]);
        assert_eq!(end.end.metrics().in_flight, 7_000, "{recovery}");
        assert_eq!(end.end.metrics().counters.retransmissions, 0, "{recovery}");
    }
}

/// RFC 7323, section 3.2: a segment that should have timestamps and has none. This end takes it: what it brings is good, and it does
/// not change the echo.
#[test]
fn a_segment_that_lacks_the_timestamps_agreed_on_is_taken_and_not_echoed() {
    let mut end = Lone::connected(stamped("sack"));
    let stamp = |value: u32| Timestamps { value, echo: 0 };
    let flags = Flags::ACK.with(Flags::TIMESTAMPS);
    end.give(Segment { timestamps: stamp(500), len: MSS, ..bare(flags, seg(0), 1) });
    assert_eq!(end.take()[0].timestamps.echo, 500);
    end.payload(seg(1), MSS);
    let [ack] = end.take()[..] else { panic!("one acknowledgement") };
    assert_eq!((ack.ack, ack.timestamps.echo), (seg(2), 500));
    end.give(Segment { timestamps: stamp(510), len: MSS, ..bare(flags, seg(2), 1) });
    assert_eq!(end.take()[0].timestamps.echo, 510);
}

/// Nothing is measured by an echo of nothing: a peer whose first echoes are empty gives no samples of decades.
#[test]
fn an_empty_echo_is_no_sample() {
    let mut end = Lone::connected(stamped("sack"));
    end.write(1_000);
    end.at(1_300);
    let before = end.end.metrics().srtt;
    end.give(Segment {
        timestamps: Timestamps { value: 9, echo: 0 },
        ..bare(Flags::ACK.with(Flags::TIMESTAMPS), 1, seg(1))
    });
    assert_eq!(end.end.metrics().srtt, before);
}

/// Timestamps that were not agreed on are neither sent nor echoed nor measured by.
#[test]
fn timestamps_that_were_not_agreed_on_are_ignored() {
    let mut end = Lone::connected(config("sack"));
    end.give(Segment {
        timestamps: Timestamps { value: 77, echo: 3 },
        len: MSS,
        ..bare(Flags::ACK.with(Flags::TIMESTAMPS), seg(0), 1)
    });
    let [ack] = end.take()[..] else { panic!("one acknowledgement") };
    assert!(!ack.has(Flags::TIMESTAMPS));
    assert_eq!((ack.timestamps, ack.header), (Timestamps::default(), 40));
}

/// Options come on the SYN alone (RFC 2018, section 2; RFC 7323, section 2.1): later ones agree to nothing.
#[test]
fn options_of_a_syn_on_a_later_segment_agree_to_nothing() {
    let mut end = Lone::connecting(stamped("sack"));
    end.take();
    end.at(100);
    end.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
    end.take();
    let late =
        [Flags::SACK_PERMITTED, Flags::WINDOW_SCALE, Flags::TIMESTAMPS].into_iter().fold(Flags::ACK, Flags::with);
    end.give(Segment { len: MSS, ..bare(late, seg(1), 1) });
    let [ack] = end.take()[..] else { panic!("one acknowledgement") };
    assert!(ack.sack.is_empty() && !ack.has(Flags::TIMESTAMPS) && ack.window <= 65_535, "{ack:?}");
}

/// A SYN that comes again, with other options, changes nothing of what was agreed on.
#[test]
fn a_syn_that_comes_again_with_other_options_agrees_to_nothing_else() {
    let mut end = Lone::listening(config("sack"));
    end.give(syn(&[Flags::SACK_PERMITTED]));
    assert!(end.take()[0].has(Flags::SACK_PERMITTED));
    end.give(syn(&[]));
    assert!(end.take()[0].has(Flags::SACK_PERMITTED), "as at first");
    end.give(bare(Flags::ACK, 1, 1));
    end.payload(seg(1), MSS);
    assert_eq!(end.take().last().map(|ack| ack.sack.len()), Some(1));
    assert!(end.events().contains(&Event::Connected));
}

/// SaTPEP's NACK means nothing to a connection that does not speak it.
#[test]
fn a_nack_means_nothing_elsewhere() {
    for recovery in ["newreno", "sack", "rack"] {
        let mut end = ten_out(config(recovery));
        let mut nack = bare(Flags::ACK.with(Flags::NACK), 1, seg(1));
        nack.sack.push(seg(1), seg(1)..seg(3));
        end.give(nack);
        end.give(nack);
        let metrics = end.end.metrics();
        assert_eq!((metrics.acknowledged, metrics.counters.retransmissions), (1_000, 0), "{recovery}");
        assert_eq!(metrics.flight, metrics.in_flight, "{recovery}: nothing counts as arrived");
    }
}
