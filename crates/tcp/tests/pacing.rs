//! Data that leave at the rate of the window, as by Linux's fq and TCP's internal pacing.

use crate::path::Path;
use link::{LinkConfig, QueueLimit};
use std::cell::RefCell;
use std::rc::Rc;
use tcp::{Config, ControlKind, Fault, Profile};
use units::{Duration, Instant, Rate};

const RTT: Duration = Duration::from_millis(100);

fn config(profile: Profile, pacing: bool) -> Config {
    Config { control: ControlKind::by_name("cubic").expect("known"), pacing, ..Config::new(profile) }
}

/// When data segments left of 300 kB over 100 ms and so much queue, and how many were sent again.
fn departures(config: Config, queue: u64) -> (Vec<Instant>, u64) {
    departures_of(300_000, config, 50_000_000, queue)
}

fn departures_of(bytes: u64, config: Config, rate: u64, queue: u64) -> (Vec<Instant>, u64) {
    let link = LinkConfig { queue: QueueLimit::Packets(queue), ..LinkConfig::new(Rate::from_bps(rate), RTT / 2) };
    let mut path = Path::new(config, vec![link.clone()], vec![link]);
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&times);
    path.set_tap(move |now, from_client, segment| {
        if from_client && segment.len > 0 {
            seen.borrow_mut().push(now);
        }
    });
    path.transfer(bytes).expect("it arrives");
    let times = times.borrow().clone();
    (times, path.metrics().counters.retransmissions)
}

/// The most segments that left within a millisecond.
fn burst(times: &[Instant]) -> usize {
    let within =
        |from: usize| times[from..].iter().take_while(|at| at.since(times[from]) < Duration::from_millis(1)).count();
    (0..times.len()).map(within).max().unwrap_or(0)
}

#[test]
fn slow_start_spreads_a_window_over_half_of_a_round_trip() {
    let (paced, _) = departures(config(Profile::Rfc, true), 10_000);
    // The initial window of ten at twice itself in a round trip: one each 5 ms. The handshake has measured the round-trip time.
    let gaps: Vec<_> = paced[..10].windows(2).map(|pair| pair[1].since(pair[0]).as_millis_f64()).collect();
    assert!(gaps.iter().all(|gap| (gap - 5.0).abs() < 0.1), "{gaps:?}");
    let (plain, _) = departures(config(Profile::Rfc, false), 10_000);
    assert!(plain[..10].iter().all(|at| *at == plain[0]));
}

#[test]
fn in_linux_the_first_ten_segments_leave_at_once() {
    let (paced, _) = departures(config(Profile::Linux, true), 10_000);
    assert!(paced[..10].iter().all(|at| *at == paced[0]));
    assert!(burst(&paced[11..]) < 12, "{}", burst(&paced[11..]));
}

#[test]
fn a_queue_of_ten_packets_refuses_bursts_but_no_paced_data() {
    // The windows are far below the 416 segments that the path holds.
    let [(paced, kept), (_, again)] = [true, false].map(|pacing| departures(config(Profile::Rfc, pacing), 10));
    assert!(again > 0 && kept == 0, "{again} and {kept}");
    assert!(burst(&paced) <= 6, "{}", burst(&paced));
}

/// Acknowledgements of paced data arrive over half a round trip however empty the path is: they are no sign that it is full.
#[test]
fn in_linux_pacing_does_not_end_slow_start_early() {
    let ends = [false, true].map(|pacing| {
        let (times, again) = departures_of(10_000_000, config(Profile::Linux, pacing), 200_000_000, 10_000);
        assert_eq!(again, 0);
        times.last().expect("data left").since(Instant::ZERO).as_secs_f64()
    });
    assert!(ends[1] < 1.1 * ends[0], "{ends:?}");
}

#[test]
fn agents_of_ns2_have_none() {
    let agent = Config { pacing: true, ..Config::new(Profile::Ns2) };
    assert_eq!(agent.validate().expect_err("refused").faults, [Fault::PacedNs2]);
}
