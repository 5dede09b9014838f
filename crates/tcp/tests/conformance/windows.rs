//! The two windows: the receiver's, with its probes (RFC 9293, section 3.8.6), and the sender's (RFC 5681).

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{AckPolicy, Config, ControlKind, Event, Failure, Flags, HostDelays, Profile, ReceiveBuffer, Segment};
use units::{Bytes, Duration};

fn small_buffer(bytes: u64) -> Config {
    Config { receive_buffer: ReceiveBuffer::plain(Bytes::new(bytes)), ..config("sack") }
}

fn with_window(window: u32, ack: u64) -> Segment {
    Segment { window, ..bare(Flags::ACK, 1, ack) }
}

#[test]
fn no_byte_leaves_beyond_the_window() {
    let mut end = Lone::connected(config("sack"));
    end.give(with_window(3_500, 1));
    end.write(100_000);
    assert_eq!(end.data(), [0, 1, 2].map(seg), "the last 500 bytes wait: silly window avoidance");
}

/// A window of less than a unit of the scale is advertised as one unit, and only once: the peer gets no more until something is read.
#[test]
fn a_growing_buffer_that_is_full_closes_a_window_of_coarse_units() {
    let buffer = ReceiveBuffer { size: Bytes::new(16 << 10), share: 1.0, most: Bytes::new(1 << 30) };
    let mut end = Lone::connected(Config { receive_buffer: buffer, ..config("sack") });
    let mut edge = 0;
    for number in 0..100 {
        end.payload(seg(number), MSS);
        end.at(10 * (number + 1));
        edge = end.take().iter().map(|segment| segment.ack + u64::from(segment.window)).max().unwrap_or(edge).max(edge);
    }
    assert!((16 << 10..=2 * (16 << 10)).contains(&edge), "{edge}");
}

/// RFC 9293, 3.8.6.1: the first probe after a timeout, then at growing intervals.
#[test]
fn a_closed_window_is_probed_and_an_update_opens_it() {
    let mut end = Lone::connected(config("sack"));
    end.write(3_000);
    end.write(10_000);
    end.take();
    end.at(200);
    end.give(with_window(0, seg(10)));
    end.at(12_000);
    let probes = end.take_timed();
    assert!(probes.iter().all(|(_, probe)| probe.len == 0 && probe.seq == seg(10) - 1), "{probes:?}");
    let at: Vec<u64> = probes.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [1_200, 3_200, 7_200]);
    end.give(with_window(10_000, seg(10)));
    assert_eq!(end.data(), [10, 11, 12].map(seg));
    assert_eq!(end.end.metrics().counters.timeouts, 0);
}

/// RFC 1122, 4.2.2.17: the connection lives for as long as probes are answered.
#[test]
fn answered_probes_keep_the_connection_for_ever_and_unanswered_ones_end_it() {
    let mut end = Lone::connected(config("sack"));
    end.write(1_000);
    end.at(200);
    end.give(with_window(0, seg(1)));
    end.write(1_000);
    for minute in 1..120 {
        end.at(minute * 60_000);
        end.give(with_window(0, seg(1)));
    }
    assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))));
    end.at(4 * 3_600_000);
    assert!(end.events().contains(&Event::Failed(Failure::RetransmissionTimedOut)));
}

#[test]
fn a_window_that_opens_by_less_than_a_segment_is_not_used_at_once() {
    let mut end = Lone::connected(config("sack"));
    end.give(with_window(4_000, 1));
    end.write(20_000);
    end.take();
    end.at(200);
    end.give(with_window(0, seg(4)));
    end.give(with_window(300, seg(4)));
    assert!(end.data().is_empty(), "300 bytes are a silly window");
    end.at(10_000);
    let sent = end.take_timed();
    assert!(!sent.is_empty(), "but something leaves in the end, or both would wait for ever");
    assert!(sent[0].0 >= 1_000);
}

/// RFC 9293, 3.8.6: the peer should not shrink its window, but may; what was sent stays sent.
#[test]
fn a_window_that_shrinks_is_obeyed() {
    let mut end = Lone::connected(config("sack"));
    end.give(with_window(10_000, 1));
    end.write(100_000);
    assert_eq!(end.data().len(), 10);
    end.at(200);
    end.give(with_window(2_000, seg(2)));
    assert!(end.data().is_empty(), "8 segments are out, 2 are allowed");
    end.at(210);
    end.give(with_window(5_000, seg(7)));
    assert_eq!(end.data(), [10, 11].map(seg), "12 is the new edge");
    end.at(220);
    end.give(with_window(0, seg(12)));
    assert!(end.data().is_empty());
    end.at(2_000);
    assert!(end.take().iter().all(|segment| segment.len == 0), "probes of the closed window");
}

/// RFC 9293, 3.8.6: data that were sent before the window shrank to nothing are sent again, and the connection stays up
/// for as long as the peer answers.
#[test]
fn a_peer_that_closes_its_window_on_outstanding_data_does_not_lose_the_connection() {
    let mut end = Lone::connected(config("sack"));
    end.give(with_window(3_000, 1));
    end.write(10_000);
    end.at(200);
    end.give(with_window(0, 1));
    for second in 1..1_800 {
        end.at(1_000 * second);
        if second % 2 == 0 {
            end.give(with_window(0, 1));
        }
    }
    assert!(end.events().iter().all(|event| !matches!(event, Event::Failed(_))));
    end.take();
    end.give(with_window(10_000, 1));
    end.at(2_000_000);
    assert!(end.data().contains(&seg(0)));
}

/// RFC 5681, section 2 with RFC 9293, 3.10.7.4 (SND.WL1, SND.WL2): an old acknowledgement that arrives late says
/// nothing.
#[test]
fn an_older_acknowledgement_does_not_move_the_window() {
    let mut end = Lone::connected(config("sack"));
    end.give(with_window(5_000, 1));
    end.write(100_000);
    end.at(200);
    end.give(with_window(8_000, seg(3)));
    end.take();
    end.give(with_window(0, seg(1)));
    end.at(210);
    end.give(with_window(8_000, seg(4)));
    assert_eq!(end.data(), [seg(11)]);
}

#[test]
fn the_window_shrinks_with_what_is_not_read_and_its_edge_never_moves_back() {
    let mut end = Lone::connected(small_buffer(10_000));
    let mut edge = 0;
    for number in 0..10 {
        end.payload(seg(number), MSS);
        let ack = end.take()[0];
        assert_eq!(u64::from(ack.window), 10_000 - (number + 1) * 1_000);
        assert!(ack.ack + u64::from(ack.window) >= edge);
        edge = ack.ack + u64::from(ack.window);
    }
    end.payload(seg(10), MSS);
    let refused = end.take()[0];
    assert_eq!((refused.ack, refused.window), (seg(10), 0), "nothing is taken beyond a closed window");
}

/// RFC 9293, 3.8.6.2.2: the right edge moves by a segment or half of the buffer at least.
#[test]
fn the_receiver_does_not_open_its_window_by_crumbs() {
    let mut end = Lone::connected(small_buffer(10_000));
    for number in 0..10 {
        end.payload(seg(number), MSS);
    }
    end.take();
    assert_eq!(end.read(300), 300);
    assert!(end.take().is_empty());
    end.give(bare(Flags::ACK, seg(10) - 1, 1));
    assert_eq!(end.take()[0].window, 0, "the answer to a probe tells no silly window");
    end.read(5_000);
    let update = end.take();
    assert_eq!((update.len(), update[0].window), (1, 5_300));
}

/// Slow start: with an acknowledgement for each segment the window doubles each round trip, with one for two segments
/// it grows by half, and where bytes are counted up to two segments (RFC 3465) it doubles again.
#[test]
fn slow_start_grows_by_acknowledgements_or_by_bytes() {
    for (every, limit, growth) in [(1, 1.0, 2.0), (2, 1.0, 1.5), (2, 2.0, 2.0)] {
        let config = Config { slow_start_limit: Some(limit), initial_window: 16.0, ..config("sack") };
        let mut end = Lone::connected(config);
        end.write(10_000_000);
        let mut una = 0;
        for round in 0..3 {
            let flight = end.data().len() as u64;
            end.at(200 + round * 100);
            for number in (every..=flight).step_by(every as usize) {
                end.ack(seg(una + number));
            }
            una += flight / every * every;
            let next = end.end.metrics().flight / u64::from(MSS);
            assert!((next as f64 / flight as f64 - growth).abs() < 0.05, "{every} {limit}: {flight} {next}");
        }
    }
}

#[test]
fn congestion_avoidance_adds_one_segment_each_round_trip() {
    let config = Config { initial_window: 10.0, initial_ssthresh: 10.0, ..config("sack") };
    let mut end = Lone::connected(config);
    end.write(10_000_000);
    let mut una = 0;
    for round in 0..5 {
        let flight = end.data().len() as u64;
        let cwnd = end.end.metrics().window.cwnd;
        assert!((cwnd - (10 + round) as f64).abs() <= 0.1 * round as f64, "{round}: {cwnd}");
        end.at(200 + round * 100);
        for number in 1..=flight {
            end.ack(seg(una + number));
        }
        una += flight;
    }
}

/// RFC 5681, section 3.1 (and RFC 7661): a window that is not used does not grow.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut end = Lone::connected(config("sack"));
    for round in 0..20 {
        end.write(2_000);
        end.at(200 + 100 * round);
        end.ack(seg(2 * (round + 1)));
    }
    assert!(end.end.metrics().window.cwnd <= 11.0, "{:?}", end.end.metrics().window);
}

/// RFC 5681, section 4.1: after an idle time longer than the timeout the window is the initial one.
#[test]
fn after_idling_the_window_starts_again() {
    let mut end = Lone::connected(config("sack"));
    end.write(52_000);
    let mut una = 0;
    for round in 0..3 {
        una += end.data().len() as u64;
        end.at(200 + 100 * round);
        end.ack(seg(una));
    }
    una += end.data().len() as u64;
    end.at(600);
    end.ack(seg(una));
    assert!(end.end.metrics().window.cwnd > 14.0);
    end.at(10_000);
    end.write(100_000);
    assert_eq!(end.data().len(), 10);
}

/// Linux 6.x (tcp_cwnd_restart): half for each timeout of idle time, no further than the initial window, and ssthresh
/// remembers three quarters.
#[test]
fn linux_halves_the_window_for_each_timeout_of_idle_time() {
    let config = Config {
        profile: tcp::Profile::Linux,
        rtt: tcp::RttRules::linux(),
        slow_start_limit: Some(f64::INFINITY),
        ..config("sack")
    };
    let mut end = Lone::connected(config);
    end.write(350_000);
    let mut una = 0;
    for round in 0..5 {
        una += end.data().len() as u64;
        end.at(200 + 100 * round);
        end.ack(seg(una));
    }
    una += end.data().len() as u64;
    assert_eq!(una, 350);
    let before = end.end.metrics().window.cwnd;
    end.at(700);
    end.ack(seg(una));
    let rto = end.end.metrics().rto.as_nanos() / 1_000_000;
    // The latest data left at 600 ms.
    end.at(600 + rto + rto / 2);
    end.write(1_000_000);
    let window = end.end.metrics().window;
    assert!((window.cwnd - before / 2.0).abs() <= 1.0, "{window:?} was {before}");
    assert!(window.ssthresh >= 0.74 * before);
}

/// Linux, with segments of [`MSS`] bytes.
fn linux(control: &str) -> Config {
    let control = ControlKind::by_name(control).expect("known");
    Config { control, mss: MSS, ..Config::new(Profile::Linux) }
}

/// `tcp_tso_should_defer` and `tcp_cwnd_validate` of Linux 6.18: data that wait because the peer's window ends say nothing of
/// the congestion window, which stops when what it held back itself is acknowledged. Over `bentpipe lab` Hybla's stayed at 198.
#[test]
fn a_window_that_the_peer_limits_does_not_grow() {
    let mut end = Lone::connected(linux("reno"));
    end.window = 12_500;
    end.write(1_000_000);
    for number in 1..=120 {
        end.at(200 + number);
        end.ack(seg(number));
    }
    let cwnd = end.end.window().cwnd;
    assert!((20.0..=27.0).contains(&cwnd), "twice what the peer's window holds: {cwnd}");
}

/// `tcp_select_window` and `__tcp_select_window` of Linux 6.18: in units of 2^scale, rounded up, so that the right edge never
/// moves back by the rounding. 65,160 bytes were advertised as 65,536, and 69,056 as 69,632 (`bentpipe lab`, 32 MB, scale 12).
#[test]
fn linux_tells_the_window_in_units_of_its_scale_rounded_up() {
    let buffer = ReceiveBuffer { most: Bytes::new(128 << 20), ..ReceiveBuffer::linux() };
    let mut end = Lone::connecting(Config { receive_buffer: buffer, mss: 1_448, ..linux("reno") });
    let options = [Flags::SACK_PERMITTED, Flags::WINDOW_SCALE, Flags::TIMESTAMPS];
    let answer = options.into_iter().fold(Flags::SYN.with(Flags::ACK), Flags::with);
    end.at(100);
    end.give(bare(answer, 0, 1));
    assert_eq!(end.take().last().map(|ack| ack.window), Some(65_536));
    let mut edge = 0;
    for number in 0..8 {
        end.payload(1 + number * 1_448, 1_448);
        end.read(u64::MAX);
        for ack in end.take() {
            assert_eq!(ack.window % 4_096, 0, "{ack:?}");
            assert!(ack.ack + u64::from(ack.window) >= edge, "the edge moves back: {ack:?}");
            edge = ack.ack + u64::from(ack.window);
        }
    }
    assert_eq!(edge, 1 + 8 * 1_448 + 81_920, "80,472 bytes");
}

/// Since 6.6 Linux acknowledges a full segment that is pushed, once it is read (`tcp_cleanup_rbuf`).
#[test]
fn a_full_segment_that_is_pushed_is_acknowledged_at_once() {
    let acks = AckPolicy { quick: 1, ..Config::new(Profile::Linux).acks };
    let plain = ReceiveBuffer::plain(Bytes::new(1 << 20));
    let mut end = Lone::connected(Config { acks, receive_buffer: plain, ..linux("reno") });
    end.payload(seg(0), MSS);
    assert_eq!(end.take().len(), 1, "the first ones at once");
    end.payload(seg(1), MSS);
    assert!(end.take().is_empty(), "the second may follow");
    end.payload(seg(2), MSS);
    assert_eq!(end.take().len(), 1);
    end.give(Segment { len: MSS, ..bare(Flags::ACK.with(Flags::PSH), seg(3), 1) });
    assert_eq!(end.take().len(), 1, "the sender may wait for it");
}

/// Linux 6.18 paces pieces of two segments and pushes the second (`tcp_tso_autosize`, `__tcp_transmit_skb`; BBR over `bentpipe
/// lab`).
#[test]
fn paced_segments_leave_in_pairs() {
    let mut end = Lone::connected(linux("bbr1"));
    end.write(1_000_000);
    end.take();
    for number in 1..=5 {
        end.at(199 + number);
        end.ack(seg(number));
    }
    end.at(290);
    let sent = end.take_timed();
    assert_eq!(sent.len(), 10);
    for pair in sent.chunks(2) {
        assert_eq!(pair[0].0, pair[1].0, "{sent:?}");
        assert_eq!(pair.iter().map(|(_, segment)| segment.has(Flags::PSH)).collect::<Vec<_>>(), [false, true]);
    }
    // 2.89 windows of 10,000 bytes in 100 ms.
    let at: Vec<_> = sent.iter().step_by(2).map(|(at, _)| at - 200).collect();
    assert_eq!(at, [0, 7, 14, 21, 28]);
}

#[test]
fn a_host_wakes_up_for_the_first_acknowledgement_after_a_rest() {
    let host = HostDelays { idle_wake: Duration::from_millis(2), ..HostDelays::default() };
    let mut end = Lone::connected(Config { host, ..linux("reno") });
    end.write(100_000);
    end.at(150);
    end.take();
    for (number, at) in [(2, 200), (4, 205)] {
        end.at(at);
        end.ack(seg(number));
    }
    end.at(210);
    let at: Vec<_> = end.take_timed().iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [202, 202, 202, 202, 205, 205, 205, 205]);
}
