//! The retransmission timeout by its formulas (RFC 6298), and the window scale (RFC 7323).

use super::lone::{Lone, MSS, bare, config, seg};
use tcp::{Config, Event, Failure, Flags, MinRto, Profile, ReceiveBuffer, RttRules};
use units::{Bytes, Duration};

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A client whose handshake took so long.
fn connected_after(millis: u64, config: Config) -> Lone {
    let mut end = Lone::connecting(config);
    end.at(millis);
    end.give(bare(Flags::SYN.with(Flags::ACK), 0, 1));
    end.take();
    end
}

/// Sends a segment at a time, each of which is acknowledged after its round-trip time; calls `check` after each.
fn rounds(end: &mut Lone, times: &[u64], mut check: impl FnMut(&Lone, u64)) {
    for (number, rtt) in (1..).zip(times) {
        end.write(u64::from(MSS));
        end.at(end.ms() + rtt);
        end.ack(seg(number));
        check(end, *rtt);
    }
}

/// RFC 6298, rule 2.2: SRTT is the first sample, RTTVAR half of it, and so the timeout three times it.
#[test]
fn the_first_sample_gives_three_times_itself() {
    for rtt in [400, 600, 900] {
        let end = connected_after(rtt, config("sack"));
        let metrics = end.end.metrics();
        assert!((ms(metrics.srtt) - rtt as f64).abs() < 1e-3, "{metrics:?}");
        assert!((ms(metrics.rto) - 3.0 * rtt as f64).abs() < 1e-3, "{metrics:?}");
    }
}

/// RFC 6298, rule 2.3: alpha is 1/8 and beta 1/4, and RTTVAR is updated with the SRTT before this sample.
#[test]
fn later_samples_follow_the_filters_of_the_standard() {
    let mut end = connected_after(800, config("sack"));
    let (mut srtt, mut rttvar) = (800.0, 400.0);
    rounds(&mut end, &[800, 300, 1_100, 700, 700, 50, 900], |end, rtt| {
        let sample = rtt as f64;
        rttvar = 0.75 * rttvar + 0.25 * f64::abs(srtt - sample);
        srtt = 0.875 * srtt + 0.125 * sample;
        let metrics = end.end.metrics();
        assert!((ms(metrics.srtt) - srtt).abs() < 0.01, "{rtt}: {metrics:?} {srtt}");
        assert!((ms(metrics.rto) - (srtt + 4.0 * rttvar)).abs() < 0.01, "{rtt}: {metrics:?} {rttvar}");
    });
}

/// RFC 6298, rule 2.4: a timeout below one second is one second.
#[test]
fn the_timeout_is_a_second_at_least() {
    let mut end = Lone::connected(config("sack"));
    rounds(&mut end, &[10; 40], |end, _| assert_eq!(end.end.metrics().rto, Duration::from_secs(1)));
}

/// RFC 6298, rule 2.3: the variance term is the clock's granularity at least.
#[test]
fn a_constant_round_trip_time_leaves_the_granularity_of_the_clock() {
    let rtt =
        RttRules { granularity: Duration::from_millis(100), min_rto: MinRto::Total(Duration::ZERO), ..RttRules::rfc() };
    let mut end = connected_after(400, Config { rtt, ..config("sack") });
    rounds(&mut end, &[400; 40], |_, _| ());
    let rto = ms(end.end.metrics().rto);
    assert!((rto - 500.0).abs() < 1.0, "{rto}");
}

/// Linux 6.x (`tcp_rtt_estimator`, `__tcp_set_rto`): the lower bound is on the variance term, not on the whole.
#[test]
fn in_linux_the_timeout_is_200_ms_above_the_round_trip_time_at_least() {
    let mut end = connected_after(550, Config { rtt: RttRules::linux(), ..config("sack") });
    rounds(&mut end, &[550; 60], |end, _| assert!(ms(end.end.metrics().rto) >= 749.9));
    let rto = ms(end.end.metrics().rto);
    assert!((rto - 750.0).abs() < 1.0, "{rto}");
}

/// RFC 6298, rules 5.5 and 2.5: twice as long after each expiry, but no longer than the maximum.
#[test]
fn the_backoff_ends_at_the_longest_timeout() {
    for (rules, longest) in [(RttRules::rfc(), 60_000), (RttRules::linux(), 120_000)] {
        let mut end = Lone::connected(Config { rtt: rules, ..config("newreno") });
        end.write(u64::from(MSS));
        end.at(600_000);
        let at: Vec<u64> = end.take_timed().iter().filter(|(_, sent)| sent.len > 0).map(|(at, _)| *at).collect();
        let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let doubled = |pair: &[u64]| pair[1].abs_diff((2 * pair[0]).min(longest)) <= 2;
        assert!(waits.len() > 7 && waits.windows(2).all(doubled), "{waits:?}");
        assert_eq!(waits.last(), Some(&longest), "{waits:?}");
    }
}

#[test]
fn a_connection_survives_so_many_expiries_and_fails_at_the_next() {
    for survived in [1, 3] {
        let mut end = Lone::connected(Config { max_expiries: survived, ..config("newreno") });
        end.write(u64::from(MSS));
        end.at(60_000);
        let sent = end.take().iter().filter(|segment| segment.len > 0).count();
        assert_eq!(sent, 1 + survived as usize);
        assert!(end.events().contains(&Event::Failed(Failure::RetransmissionTimedOut)), "{survived}");
    }
}

/// RFC 6298, rule 5.1 to 5.3: no timer runs while nothing is outstanding.
#[test]
fn no_timer_runs_while_nothing_is_outstanding() {
    for recovery in ["newreno", "sack", "rack"] {
        let mut end = Lone::connected(config(recovery));
        assert_eq!(end.end.next_timeout(), None, "{recovery}");
        rounds(&mut end, &[100; 3], |end, _| assert_eq!(end.end.next_timeout(), None, "{recovery}"));
        end.write(10);
        assert!(end.end.next_timeout().is_some_and(|at| at > end.now), "{recovery}");
    }
}

/// RFC 7323, sections 2.2 and 2.3: the smallest shift that can say the window, and 14 at most.
#[test]
fn the_scale_is_the_smallest_that_can_say_the_window_and_14_at_most() {
    let cases = [(1_000, 0), (65_535, 0), (65_536, 1), (131_070, 1), (131_072, 2), (1 << 30, 14), (1 << 40, 14)];
    for (bytes, shift) in cases {
        let receive_buffer = ReceiveBuffer::plain(Bytes::new(bytes));
        assert_eq!(Config { receive_buffer, ..Config::new(Profile::Rfc) }.window_shift(), shift, "{bytes}");
    }
}

/// RFC 7323, section 2.2: a SYN's window is never scaled; after it at most 65,535 units are told, and without the option bytes.
#[test]
fn a_window_is_no_more_than_its_field_can_say() {
    for (scaling, most) in [(false, 65_535), (true, 65_535 << 14)] {
        let options = tcp::Options { window_scaling: scaling, ..config("sack").options };
        let receive_buffer = ReceiveBuffer::plain(Bytes::new(4 << 30));
        let mut end = Lone::connecting(Config { options, receive_buffer, ..config("sack") });
        assert_eq!(end.take()[0].window, 65_535);
        let answer = Flags::SYN.with(Flags::ACK);
        end.give(bare(if scaling { answer.with(Flags::WINDOW_SCALE) } else { answer }, 0, 1));
        assert_eq!(end.take().last().map(|ack| ack.window), Some(most));
        end.payload(1, MSS);
        assert_eq!(end.take()[0].window, most, "the room is larger than the field");
    }
}
