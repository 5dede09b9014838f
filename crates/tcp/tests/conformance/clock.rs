//! Connections that live while the clock of the timestamps option wraps, after 49.7 days (RFC 7323, sections 5.2 and 5.4). Sequence
//! numbers of this implementation have 64 bits: those do not wrap, and no segment is taken for a newer one.

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{Config, Flags, Options, Profile, ReceiveBuffer, RttRules, Segment, Timestamps};
use units::Duration;

/// The clock wraps at this time in milliseconds.
const WRAP: u64 = 1 << 32;

fn stamped(recovery: &str) -> Config {
    let base = config(recovery);
    Config { options: Options { timestamps: true, ..base.options }, ..base }
}

fn linux() -> Config {
    Config { profile: Profile::Linux, rtt: RttRules::linux(), ..stamped("rack") }
}

/// An acknowledgement with timestamps.
fn echoing(ack: u64, value: u32, echo: u32) -> Segment {
    Segment { timestamps: Timestamps { value, echo }, ..bare(Flags::ACK.with(Flags::TIMESTAMPS), 1, ack) }
}

#[test]
fn the_timestamps_of_this_end_count_on_across_the_wrap() {
    let mut end = Lone::connected_from(WRAP - 150, stamped("sack"));
    let mut values = Vec::new();
    for number in 1..=3 {
        end.write(u64::from(MSS));
        values.extend(end.take().iter().map(|sent| sent.timestamps.value));
        end.at(end.ms() + 100);
        end.ack(seg(number));
    }
    assert_eq!(values, [u32::MAX - 49, 50, 150]);
}

/// What the acknowledgement of segment `number` of the peer echoes if that has the timestamp `value`.
fn echo_of(end: &mut Lone, number: u64, value: u32) -> u32 {
    let timestamps = Timestamps { value, echo: 0 };
    end.give(Segment { timestamps, len: MSS, ..bare(Flags::ACK.with(Flags::TIMESTAMPS), seg(number), 1) });
    let [ack] = end.take()[..] else { panic!("one acknowledgement") };
    ack.timestamps.echo
}

/// RFC 7323, section 5.2: timestamps are compared as sequence numbers are.
#[test]
fn the_echo_follows_the_peers_clock_across_its_wrap() {
    let mut end = Lone::connected(stamped("sack"));
    for (number, value) in (0..).zip([1 << 30, 1 << 31, 3 << 30, u32::MAX - 1, 0, 5]) {
        assert_eq!(echo_of(&mut end, number, value), value, "after {number} segments");
    }
}

#[test]
fn an_older_timestamp_is_not_echoed_on_either_side_of_the_wrap() {
    // From the SYN's, 7, in steps that are less than half of the clock's range.
    let steps = [1 << 30, 1 << 31, 3 << 30];
    for (before, newer, older) in [(&steps[..0], 1_000, 999), (&steps[..], 3, u32::MAX - 3)] {
        let mut end = Lone::connected(stamped("sack"));
        let values = before.iter().copied().chain([newer, older]);
        let echoes: Vec<u32> = (0..).zip(values).map(|(number, value)| echo_of(&mut end, number, value)).collect();
        assert_eq!(echoes, [before, &[newer, newer]].concat());
    }
}

/// RFC 7323, section 4: what left before the wrap and is answered after it took as long as it took.
#[test]
fn a_sample_across_the_wrap_is_the_time_between() {
    let mut end = Lone::connected_from(WRAP - 1_250, stamped("sack"));
    end.write(u64::from(MSS));
    // Sent again by the timer a second later: only the echo tells which of the two is answered.
    end.at(WRAP - 100);
    let again = end.take().last().copied().expect("sent again");
    assert_eq!(again.timestamps.value, u32::MAX - 149);
    end.at(WRAP + 50);
    end.give(echoing(seg(1), 9, again.timestamps.value));
    // 7/8 of 100 ms and 1/8 of 200 ms.
    assert_eq!(end.end.metrics().srtt, Duration::from_micros(112_500));
}

#[test]
fn an_echo_of_the_future_is_no_time_at_all() {
    let mut end = Lone::connected(stamped("sack"));
    end.write(u64::from(MSS));
    end.at(1_300);
    end.give(echoing(seg(1), 9, 50_000));
    let srtt = end.end.metrics().srtt;
    assert!(srtt <= Duration::from_millis(100), "{srtt}");
}

/// A retransmission that fills a hole after the wrap answers itself: nothing shows that the recovery was needless (RFC 3522).
#[test]
fn in_linux_a_recovery_after_the_wrap_is_not_undone_by_the_echo_of_its_retransmission() {
    for start in [0, WRAP - 150, WRAP, WRAP + 1_000_000] {
        let mut end = Lone::connected_from(start, linux());
        end.write(10_000);
        end.take();
        end.at(start + 200);
        for number in 1..10 {
            end.sack(seg(0), &[(seg(1), seg(number + 1))]);
        }
        let again = end.take().into_iter().find(|sent| sent.seq == seg(0)).expect("sent again");
        end.at(start + 300);
        end.give(echoing(seg(10), 9, again.timestamps.value));
        let metrics = end.end.metrics();
        assert_eq!((metrics.counters.recoveries, metrics.counters.timeouts), (1, 0), "{start}");
        assert!(metrics.window.ssthresh <= 7.0, "{start}: {metrics:?}");
    }
}

/// And the echo of an original that was only late shows it, on whichever side of the wrap it left.
#[test]
fn in_linux_the_echo_of_an_original_undoes_a_recovery_across_the_wrap() {
    for start in [0, WRAP - 150, WRAP - 101, WRAP] {
        let mut end = Lone::connected_from(start, linux());
        end.write(10_000);
        let original = end.take()[0];
        let before = end.end.metrics().window;
        end.at(start + 200);
        for number in 1..10 {
            end.sack(seg(0), &[(seg(1), seg(number + 1))]);
        }
        assert_eq!(end.end.metrics().counters.recoveries, 1, "{start}");
        end.at(start + 210);
        end.give(echoing(seg(10), 9, original.timestamps.value));
        let after = end.end.metrics().window;
        assert!(after.cwnd >= before.cwnd && after.ssthresh == before.ssthresh, "{start}: {before:?} {after:?}");
    }
}

/// A buffer that grows measures the round trip by the echo of its acknowledgements (`tcp_rcv_rtt_measure_ts` of Linux 6.x): its window
/// after the wrap is the one that it would have been.
#[test]
fn the_receive_buffer_grows_alike_on_both_sides_of_the_wrap() {
    let windows = |start: u64| {
        let mut end = Lone::connected_from(start, Config { receive_buffer: ReceiveBuffer::linux(), ..linux() });
        let (mut windows, mut next) = (Vec::new(), 0);
        for round in 1..8u64 {
            let now = start + 100 + 100 * round;
            end.at(now);
            for _ in 0..10 << round.min(4) {
                let echo = (now - 100) as u32;
                let flags = Flags::ACK.with(Flags::TIMESTAMPS);
                let timestamps = Timestamps { value: 9, echo };
                end.give(Segment { timestamps, len: MSS, ..bare(flags, seg(next), 1) });
                end.read(u64::MAX);
                next += 1;
            }
            windows.extend(end.take().last().map(|ack| ack.window));
        }
        windows
    };
    let usual = windows(1_000);
    assert!(usual.last() > usual.first(), "{usual:?}");
    assert_eq!(windows(WRAP - 450), usual);
    assert_eq!(windows(WRAP + 1_000), usual);
}
