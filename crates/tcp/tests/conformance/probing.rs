//! Probes of a closed window, and what else waits behind one (RFC 9293, section 3.8.6.1; RFC 1122, section 4.2.2.17).

use super::lone::{Lone, bare, config, seg, syn};
use tcp::{Config, Event, Flags, Profile, ReceiveBuffer, RttRules, Segment};
use units::{Bytes, Duration};

const RECOVERIES: [&str; 6] = ["tahoe", "reno", "newreno", "sack", "rack", "nack"];

fn with_window(window: u32, ack: u64) -> Segment {
    Segment { window, ..bare(Flags::ACK, 1, ack) }
}

/// Two segments acknowledged, more to send, and a window that is closed since 200 ms.
fn closed(config: Config) -> Lone {
    let mut end = Lone::connected(config);
    end.give(with_window(2_000, 1));
    end.write(10_000);
    assert_eq!(end.data(), [0, 1].map(seg));
    end.at(200);
    end.give(with_window(0, seg(2)));
    assert_eq!(end.take(), []);
    end
}

fn usual(recovery: &str) -> Config {
    Config { recovery: tcp::RecoveryKind::by_name(recovery).expect("known"), ..config("sack") }
}

/// Intervals double from the retransmission timeout up to a minute, and the timer goes on for as long as it is answered.
#[test]
fn probes_back_off_to_a_minute_and_go_on() {
    for recovery in &RECOVERIES[..5] {
        let mut end = closed(usual(recovery));
        let mut at = Vec::new();
        while end.ms() < 600_000 {
            end.at(end.ms() + 1_000);
            for (sent_at, probe) in end.take_timed() {
                assert_eq!((probe.seq, probe.len), (seg(2) - 1, 0), "{recovery}");
                at.push(sent_at);
                end.give(with_window(0, seg(2)));
            }
        }
        let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(at[0], 1_200, "{recovery}: after a timeout");
        assert_eq!(waits[..6], [2_000, 4_000, 8_000, 16_000, 32_000, 60_000], "{recovery}");
        assert!(waits[6..].iter().all(|wait| *wait == 60_000) && waits.len() > 10, "{recovery}: {waits:?}");
        let counters = end.end.metrics().counters;
        assert_eq!((counters.window_probes, counters.timeouts), (at.len() as u64, 0), "{recovery}");
        assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))), "{recovery}");
    }
}

/// A probe is no data: it neither takes sequence numbers nor counts as in flight, and its answer is no sample and no duplicate.
#[test]
fn probes_and_their_answers_leave_window_and_timer_alone() {
    for recovery in &RECOVERIES[..5] {
        let mut end = closed(usual(recovery));
        let before = end.end.metrics();
        for second in 1..8 {
            end.at(200 + 1_000 * second);
            end.give(with_window(0, seg(2)));
            end.give(with_window(0, seg(2)));
        }
        let after = end.end.metrics();
        assert!(after.counters.window_probes >= 3, "{recovery}");
        assert_eq!((after.window, after.srtt, after.rto), (before.window, before.srtt, before.rto), "{recovery}");
        assert_eq!((after.flight, after.in_flight, after.counters.recoveries), (0, 0, 0), "{recovery}");
    }
}

/// Only the window's opening is awaited: what it allows leaves at once, and no probe follows.
#[test]
fn a_window_that_opens_stops_the_probes() {
    for recovery in &RECOVERIES[..5] {
        let mut end = closed(usual(recovery));
        end.at(3_500);
        end.take();
        end.give(with_window(1_000_000, seg(2)));
        assert_eq!(end.data().len(), 8, "{recovery}: the rest");
        end.at(3_600);
        end.ack(seg(10));
        end.at(600_000);
        assert!(end.take().is_empty(), "{recovery}");
        assert_eq!(end.end.next_timeout(), None, "{recovery}");
    }
}

/// The update that opened the window is lost: the next probe's answer tells.
#[test]
fn a_lost_window_update_is_made_up_for_by_the_answer_to_a_probe() {
    let buffer = ReceiveBuffer::plain(Bytes::new(4_000));
    let mut receiver = Lone::connected(Config { receive_buffer: buffer, ..config("sack") });
    for number in 0..4 {
        receiver.payload(seg(number), 1_000);
    }
    assert_eq!(receiver.take().last().map(|ack| ack.window), Some(0));
    receiver.read(u64::MAX);
    assert_eq!(receiver.take().len(), 1, "the update, which is lost");
    receiver.give(bare(Flags::ACK, seg(4) - 1, 1));
    let answer = receiver.take();
    assert_eq!(answer.iter().map(|ack| (ack.ack, ack.window)).collect::<Vec<_>>(), [(seg(4), 4_000)]);
}

/// A FIN is sent though the window is closed only when the data before it have left (RFC 9293, section 3.10.4): it waits with them.
#[test]
fn the_end_waits_behind_data_that_wait_for_the_window() {
    for recovery in &RECOVERIES[..5] {
        let mut end = closed(usual(recovery));
        end.finish();
        end.at(2_500);
        assert!(end.take().iter().all(|sent| !sent.has(Flags::FIN) && sent.len == 0), "{recovery}");
        end.give(with_window(8_000, seg(2)));
        let sent = end.take();
        assert_eq!(sent.iter().map(|sent| u64::from(sent.len)).sum::<u64>(), 8_000, "{recovery}");
        assert!(sent.last().is_some_and(|last| last.has(Flags::FIN)), "{recovery}: {sent:?}");
    }
}

/// A peer may open the connection with a window of nothing (RFC 9293, section 3.8.6): the first data wait for a probe's answer.
#[test]
fn a_window_that_is_closed_from_the_beginning_is_probed() {
    for recovery in &RECOVERIES[..5] {
        let mut end = Lone::connecting(usual(recovery));
        end.take();
        end.at(100);
        end.give(Segment { window: 0, ..bare(Flags::SYN.with(Flags::ACK), 0, 1) });
        end.write(3_000);
        assert!(end.take().iter().all(|sent| sent.len == 0), "{recovery}");
        end.at(5_000);
        let probes = end.take();
        assert!(
            !probes.is_empty() && probes.iter().all(|probe| (probe.seq, probe.len) == (0, 0)),
            "{recovery}: {probes:?}"
        );
        end.give(with_window(10_000, 1));
        assert_eq!(end.data(), [0, 1, 2].map(seg), "{recovery}");
    }
}

/// The server's side of it: its handshake ends with a segment whose window is closed.
#[test]
fn a_client_that_closes_its_window_in_the_handshake_is_probed() {
    let mut end = Lone::listening(config("sack"));
    end.give(syn(&[Flags::SACK_PERMITTED]));
    end.at(10);
    end.take();
    end.give(with_window(0, 1));
    end.write(2_000);
    end.at(10_000);
    assert!(end.end.metrics().counters.window_probes >= 1);
    assert!(end.data().is_empty());
    end.give(with_window(2_000, 1));
    assert_eq!(end.data(), [0, 1].map(seg));
}

/// The first probe waits for the timeout of the path, be that long or short.
#[test]
fn the_first_probe_waits_for_the_timeout_of_the_path() {
    for (rules, rto) in [(RttRules::rfc(), 1_000), (RttRules::linux(), 300)] {
        let end = &mut closed(Config { rtt: rules, ..config("sack") });
        let expected = end.end.metrics().rto;
        assert!(expected >= Duration::from_millis(rto), "{expected}");
        end.at(20_000);
        let probes = end.take_timed();
        let first = Duration::from_millis(probes[0].0 - 200);
        assert!(first >= expected && first <= expected + Duration::from_millis(1), "{first}, not {expected}");
    }
}

/// A window smaller than a segment that lasts is used after a probe's time rather than never (RFC 9293, section 3.8.6.2.1).
#[test]
fn a_small_window_that_lasts_is_filled_after_a_while() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let mut end = closed(Config { profile, rtt: Config::new(profile).rtt, ..config("sack") });
        end.give(with_window(300, seg(2)));
        assert_eq!(end.take(), [], "{profile:?}");
        end.at(5_000);
        let sent = end.take();
        let data: Vec<_> = sent.iter().filter(|sent| sent.len > 0).map(|sent| (sent.seq, sent.len)).collect();
        assert_eq!(data.first(), Some(&(seg(2), 300)), "{profile:?}");
        end.give(with_window(300, seg(2) + 300));
        end.at(10_000);
        let sent = end.take();
        assert!(sent.iter().any(|sent| (sent.seq, sent.len) == (seg(2) + 300, 300)), "{profile:?}: {sent:?}");
    }
}
