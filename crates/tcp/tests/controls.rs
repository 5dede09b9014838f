//! What each congestion control makes of a path, as its paper or specification says.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit, Steps};
use tcp::{Allocation, Capacity, Config, ControlKind, Profile, ReceiveBuffer, RecoveryKind, SavedPath, SlowStartExit};
use units::{Bytes, Duration, Instant, Probability, Rate};

const RATE: Rate = Rate::from_bps(10_000_000);
/// The part of a packet that is payload.
const PAYLOAD: f64 = 1448.0 / 1500.0;

fn config(profile: Profile, control: &str) -> Config {
    let control = ControlKind::by_name(control).expect("known");
    let capacity = Some(Capacity::new(Allocation::new(RATE, 1), Duration::from_millis(550)));
    Config { control, capacity, ..Config::new(profile) }
}

fn random(loss: f64) -> LossModel {
    LossModel::Bernoulli(Probability::new(loss).expect("valid"))
}

/// A link of [`RATE`] both ways, with `queue` times the bandwidth-delay product as its queue.
fn path(config: Config, rtt: u64, loss: LossModel, queue: f64) -> Path {
    let delay = Duration::from_millis(rtt);
    let queue = QueueLimit::Bytes(Bytes::new((RATE.bytes_in(delay).as_u64() as f64 * queue) as u64 + 3_000));
    let link = LinkConfig { queue, seed: 7, ..LinkConfig::new(RATE, delay / 2) };
    let mut path = Path::new(config, vec![LinkConfig { loss, ..link.clone() }], vec![link]);
    path.client().write(1 << 40);
    path
}

fn seconds(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Runs until `until`; gives the part of the rate that arrived as payload meanwhile.
fn run(path: &mut Path, until: f64) -> f64 {
    let (from, received) = (path.now(), path.received());
    while path.now() < seconds(until) {
        path.step().expect("endless");
    }
    (path.received() - received) as f64 * 8.0 / path.now().since(from).as_secs_f64() / RATE.as_bps() as f64
}

/// The share of the rate from the tenth second on, over 90 seconds.
fn steady_share(profile: Profile, control: &str, rtt: u64, loss: f64) -> f64 {
    let mut path = path(config(profile, control), rtt, random(loss), 1.0);
    run(&mut path, 10.0);
    run(&mut path, 100.0)
}

#[test]
fn bbr_fills_the_path_but_for_the_time_in_which_it_measures_the_round_trip_time() {
    for rtt in [10, 100, 550] {
        let trip = rtt as f64 / 1e3;
        let probe = trip.max(0.2) + trip;
        // Version 1 all but stops for it every 10 s, version 3 halves its window every 5 s.
        for (control, lost) in [("bbr1", probe / 10.0), ("bbr3", 0.5 * probe / 5.0)] {
            let share = steady_share(Profile::Linux, control, rtt, 0.0);
            assert!(share >= 0.95 * PAYLOAD * (1.0 - lost), "{control} {rtt} {share}");
        }
    }
}

#[test]
fn a_loss_of_one_in_twenty_leaves_bbr1_four_fifths_and_cubic_a_quarter_at_most() {
    for rtt in [25, 100] {
        let (bbr, cubic) =
            (steady_share(Profile::Linux, "bbr1", rtt, 0.05), steady_share(Profile::Linux, "cubic", rtt, 0.05));
        assert!(bbr > 0.8 && cubic < 0.25, "{rtt}: {bbr} {cubic}");
    }
}

#[test]
fn hybla_is_reno_at_its_reference_round_trip_time_and_beats_it_on_the_satellite() {
    let mut config = config(Profile::Rfc, "hybla");
    config.tuning.hybla_rtt0 = Duration::from_millis(60);
    config.initial_ssthresh = 64.0;
    let reno = Config { control: ControlKind::by_name("reno").expect("known"), ..config.clone() };
    let share = |config: Config| {
        let mut path = path(config, 25, random(1e-3), 1.0);
        run(&mut path, 60.0)
    };
    assert_eq!(share(config), share(reno));
    let (hybla, reno) = (steady_share(Profile::Rfc, "hybla", 550, 1e-3), steady_share(Profile::Rfc, "reno", 550, 1e-3));
    assert!(hybla > 3.0 * reno, "{hybla} {reno}");
}

#[test]
fn cubic_is_back_at_its_window_k_seconds_after_a_loss_whatever_the_round_trip_time() {
    for profile in [Profile::Rfc, Profile::Linux] {
        for rtt in [100, 300, 550] {
            // 400 segments, far from the bandwidth-delay product of the faster link: one is lost in congestion avoidance.
            let mut config = config(profile, "cubic");
            (config.initial_ssthresh, config.tuning.slow_start_exit) = (400.0, Some(SlowStartExit::None));
            let link = LinkConfig::new(Rate::from_bps(200_000_000), Duration::from_millis(rtt) / 2);
            let loss = LossModel::DropList(vec![2_000]);
            let mut path = Path::new(config, vec![LinkConfig { loss, ..link.clone() }], vec![link]);
            path.client().write(1 << 40);
            let mut highest = 0.0;
            while path.metrics().counters.recoveries == 0 {
                highest = path.metrics().window.cwnd;
                path.step().expect("endless");
            }
            let lost_at = path.now();
            while path.metrics().window.cwnd > 0.75 * highest {
                path.step().expect("endless");
            }
            let k = (0.3 * highest / 0.4_f64).cbrt();
            while path.metrics().window.cwnd < 0.99 * highest {
                path.step().expect("endless");
            }
            // A hundredth below the plateau is reached before K; the recovery itself takes a round trip or two.
            let early = (0.01 * highest / 0.4_f64).cbrt();
            let took = path.now().since(lost_at).as_secs_f64();
            let expected = k - early;
            assert!((expected - 1.0..=expected + 1.5).contains(&took), "{profile:?} {rtt}: {took} of {expected}");
        }
    }
}

#[test]
fn vegas_keeps_alpha_to_beta_segments_in_the_queue() {
    for (profile, [alpha, beta]) in [(Profile::Rfc, [1.0, 3.0]), (Profile::Linux, [2.0, 4.0])] {
        let mut path = path(config(profile, "vegas"), 100, random(0.0), 10.0);
        run(&mut path, 120.0);
        let metrics = path.metrics();
        let trip = metrics.min_rtt.as_secs_f64();
        let held = RATE.as_bps() as f64 / 8.0 * trip / 1500.0;
        // Up to two segments wait at the receiver for its delayed acknowledgement.
        let queued = metrics.window.cwnd - held;
        assert!((alpha - 1.0..=beta + 2.0).contains(&queued), "{profile:?} {queued} of {held}");
        assert_eq!(metrics.counters.retransmissions, 0);
    }
}

/// The round-trip time grows beyond the timeout, so that a retransmission leaves with nothing in flight (`tcp_vegas_cwnd_event` of Linux).
#[test]
fn in_linux_a_timeout_ends_the_base_of_vegas() {
    let rate = Rate::from_bps(1_000_000);
    for (profile, delay, recovers) in [(Profile::Rfc, 3_000, false), (Profile::Linux, 1_000, true)] {
        let delay = Duration::from_millis(delay);
        let longer = Some(Steps::new(vec![(Duration::from_secs(20), delay)]));
        let queue = QueueLimit::Packets(100);
        let link = LinkConfig { queue, ..LinkConfig::new(rate, Duration::from_millis(25)) };
        let growing = LinkConfig { delay_steps: longer, ..link.clone() };
        let mut path = Path::new(config(profile, "vegas"), vec![growing], vec![link]);
        path.client().write(1 << 40);
        run(&mut path, 20.0);
        assert_eq!(path.metrics().counters.timeouts, 0, "{profile:?}");
        run(&mut path, 200.0);
        let metrics = path.metrics();
        assert!(metrics.counters.timeouts > 0, "{profile:?}");
        let held = rate.bytes_in(delay).as_u64() as f64 / 1500.0;
        assert_eq!(metrics.window.cwnd > 0.9 * held, recovers, "{profile:?} {:?} of {held}", metrics.window);
    }
}

#[test]
fn westwood_and_tibet_keep_the_bandwidth_delay_product_after_a_random_loss() {
    let share = |control, loss| steady_share(Profile::Linux, control, 100, loss);
    let reno = share("reno", 2e-3);
    for control in ["westwood", "westwood-plus", "tibet"] {
        let found = share(control, 2e-3);
        assert!(found > 1.1 * reno, "{control} {found}, reno {reno}");
    }
    // At full use and without a queue, a loss sets ssthresh to the product.
    for control in ["westwood", "tibet"] {
        let mut config = config(Profile::Rfc, control);
        config.initial_ssthresh = 400.0;
        let loss = LossModel::DropList(vec![12_000]);
        let mut path = path(config, 550, loss, 1.0);
        while path.metrics().counters.recoveries == 0 {
            path.step().expect("endless");
        }
        let metrics = path.metrics();
        let product = RATE.as_bps() as f64 / 8.0 * metrics.min_rtt.as_secs_f64() / 1500.0;
        let used = metrics.window.cwnd.max(metrics.window.ssthresh) / product;
        assert!((0.85..=1.15).contains(&used), "{control} {:?} of {product}", metrics.window);
    }
}

#[test]
fn slow_start_that_ends_by_delay_loses_less_than_the_usual_one() {
    let losses = |exit| {
        let mut config = config(Profile::Linux, "reno");
        config.tuning.slow_start_exit = Some(exit);
        let mut path = path(config, 550, random(0.0), 1.5);
        run(&mut path, 15.0);
        path.metrics().counters.retransmissions
    };
    let (none, linux, plus_plus) =
        (losses(SlowStartExit::None), losses(SlowStartExit::LinuxHyStart), losses(SlowStartExit::HyStartPlusPlus));
    assert!(none > 300 && linux < none / 4 && plus_plus < none / 2, "{none} {linux} {plus_plus}");
}

#[test]
fn a_cross_layer_window_neither_queues_nor_heeds_losses() {
    for (loss, least) in [(0.0, 0.93), (1e-2, 0.9)] {
        let mut path = path(config(Profile::Linux, "cross-layer"), 550, random(loss), 1.0);
        run(&mut path, 10.0);
        let share = run(&mut path, 100.0);
        let metrics = path.metrics();
        assert!(share > least * PAYLOAD, "{loss}: {share}");
        assert!(metrics.srtt.as_secs_f64() < 1.1 * metrics.min_rtt.as_secs_f64(), "{metrics:?}");
    }
}

#[test]
fn two_connections_of_a_cross_layer_window_get_half_each() {
    let mut config = config(Profile::Linux, "cross-layer");
    config.capacity = config.capacity.map(|capacity| Capacity { allocation: Allocation::new(RATE, 2), ..capacity });
    let mut path = path(config, 550, random(0.0), 1.0);
    run(&mut path, 10.0);
    let share = run(&mut path, 60.0) / PAYLOAD;
    assert!((0.45..=0.5).contains(&share), "{share}");
    let now = path.now();
    path.client().set_capacity(now, Allocation::new(Rate::from_bps(5_000_000), 2));
    run(&mut path, 63.0);
    let share = run(&mut path, 100.0) / PAYLOAD;
    assert!((0.22..=0.25).contains(&share), "{share}");
}

/// Seconds that 2 MB take over 20 Mbit/s at 550 ms, and the segments sent again.
fn resumed(saved: Option<SavedPath>, rate: Rate) -> (f64, u64) {
    // A receiver whose window opened with what arrives would hold the jump back.
    let receive_buffer = ReceiveBuffer::plain(Bytes::new(1 << 30));
    let config = Config { resume: saved, receive_buffer, ..config(Profile::Linux, "cubic") };
    let queue = QueueLimit::Bytes(Bytes::new(200_000));
    let link = LinkConfig { queue, ..LinkConfig::new(rate, Duration::from_millis(275)) };
    let mut path = Path::new(config, vec![link.clone()], vec![link]);
    let end = path.transfer(2_000_000).expect("complete");
    (end.as_secs_f64(), path.metrics().counters.retransmissions)
}

#[test]
fn careful_resume_saves_round_trips_and_retreats_where_the_path_has_become_narrow() {
    let saved = |rtt| Some(SavedPath { cwnd: Bytes::new(1_375_000), rtt: Duration::from_millis(rtt) });
    let wide = Rate::from_bps(20_000_000);
    let (plain, again) = resumed(None, wide);
    let (helped, again_helped) = resumed(saved(550), wide);
    assert!(helped < plain - 1.0 && again_helped <= again, "{helped} {plain}");
    // Another path: the saved round-trip time is more than twice the measured one.
    assert_eq!(resumed(saved(1200), wide), (plain, again));
    let narrow = Rate::from_bps(2_000_000);
    let (plain, _) = resumed(None, narrow);
    let (misled, again) = resumed(saved(550), narrow);
    assert!(again > 0 && misled < 1.5 * plain, "{misled} {plain} {again}");
}

#[test]
fn a_largest_window_holds_whatever_the_control_and_bounds_the_rate() {
    // The path holds 458 packets.
    let most = 100.0;
    for control in tcp::control::CONTROLS.iter().filter(|control| control.name != "assigned") {
        for profile in [Profile::Rfc, Profile::Linux] {
            let limited = Config { max_window: most, ..config(profile, control.name) };
            let mut path = path(limited, 550, LossModel::None, 1.0);
            while path.now() < seconds(20.0) {
                path.step().expect("endless");
                let window = path.metrics().window.cwnd;
                assert!(window <= most, "{} {profile:?}: {window} segments", control.name);
            }
            let share = run(&mut path, 30.0);
            let bound = most / 458.0 * PAYLOAD;
            assert!(share > 0.3 * bound && share < 1.02 * bound, "{} {profile:?}: {share}", control.name);
        }
    }
}

#[test]
fn a_largest_window_of_no_segment_or_in_ns2_is_refused_by_name() {
    for (profile, most) in [(Profile::Rfc, 0.5), (Profile::Ns2, 100.0)] {
        let config = Config { max_window: most, ..Config::new(profile) };
        let refusal = config.validate().expect_err("a fault").to_string();
        assert!(refusal.contains("max_window"), "{refusal}");
    }
}

/// Over 10 Mbit/s and 550 ms: how long 1 MB takes (of the controls that begin faster, 3 MB), all of which is sent by the time
/// of 5 s, when half of the packets from 3.3 s on and all of them until 6.5 s are lost, and how often the timer expires.
fn through_an_outage(profile: Profile, recovery: &str, control: &str) -> (f64, u64) {
    let recovery = RecoveryKind::by_name(recovery).expect("known");
    let config = Config { recovery, ..config(profile, control) };
    let queue = QueueLimit::Bytes(Bytes::new(2 * 687_500));
    let link = LinkConfig { queue, seed: 7, ..LinkConfig::new(RATE, Duration::from_millis(275)) };
    let step = |at, loss| (Duration::from_secs_f64(at), Probability::new(loss).expect("valid"));
    let loss = LossModel::Steps(Steps::new(vec![step(3.3, 0.5), step(4.5, 1.0), step(6.5, 0.0)]));
    let mut path = Path::new(config, vec![LinkConfig { loss, ..link.clone() }], vec![link]);
    let is_fast = matches!(control, "hybla" | "cross-layer");
    let end = path.transfer(if is_fast { 3_000_000 } else { 1_000_000 }).expect("complete");
    (end.as_secs_f64(), path.metrics().counters.timeouts)
}

/// Behind a timeout hundreds of holes wait for a window of one segment, and nothing is new to send. Growth as in slow start
/// repairs them in some ten round trips, congestion avoidance after a low `ssthresh` (Vegas, Westwood) in some forty; one
/// segment each round trip would take 220 s.
#[test]
fn every_control_comes_back_after_a_timeout_with_hundreds_of_holes() {
    let recoveries = [
        (Profile::Rfc, "newreno"),
        (Profile::Rfc, "sack"),
        (Profile::Rfc, "rack"),
        (Profile::Linux, "sack"),
        (Profile::Linux, "rack"),
    ];
    for control in tcp::control::CONTROLS.iter().map(|kind| kind.name).filter(|name| *name != "assigned") {
        for (profile, recovery) in recoveries {
            let (took, timeouts) = through_an_outage(profile, recovery, control);
            assert!(took < 40.0 && timeouts >= 1, "{control} {profile:?} {recovery}: {took} s, {timeouts} timeouts");
        }
    }
}

/// 6 Mbit/s, 550 ms and a queue of one bandwidth-delay product, into which Hybla's slow start sends as much as the receiver's
/// window holds: 10 MB take the kernel's TCP 15.8 to 16.8 s over the emulator (Linux 6.18, the control of `bentpipe lab`).
#[test]
fn hybla_recovers_from_its_slow_start_in_the_kernels_time() {
    let control = ControlKind::by_name("hybla").expect("known");
    let rate = Rate::from_bps(6_000_000);
    let queue = QueueLimit::Bytes(rate.bytes_in(Duration::from_millis(550)));
    let link = LinkConfig { queue, ..LinkConfig::new(rate, Duration::from_millis(275)) };
    let mut path = Path::new(Config { control, ..Config::new(Profile::Linux) }, vec![link.clone()], vec![link]);
    let took = path.transfer(10_000_000).expect("complete").as_secs_f64();
    assert!((15.0..=17.6).contains(&took), "{took}");
    assert_eq!(path.metrics().counters.timeouts, 0);
}

/// BBR's start-up fills a queue of half a bandwidth-delay product and more, and the recovery sends no more than arrives:
/// 10 MB over 550 ms by Linux 6.18's bbr over `bentpipe lab`.
#[test]
fn bbr1_overshoots_and_recovers_as_the_kernel_does() {
    for (rate, time, retransmissions) in [(20_000_000, 8.522, 1992.0), (6_000_000, 18.129, 779.0)] {
        let control = ControlKind::by_name("bbr1").expect("known");
        let rate = Rate::from_bps(rate);
        let queue = QueueLimit::Bytes(rate.bytes_in(Duration::from_millis(275)));
        let link = LinkConfig { queue, ..LinkConfig::new(rate, Duration::from_millis(275)) };
        let mut path = Path::new(Config { control, ..Config::new(Profile::Linux) }, vec![link.clone()], vec![link]);
        let took = path.transfer(10_000_000).expect("complete").as_secs_f64();
        let again = path.metrics().counters.retransmissions as f64;
        assert!((took / time - 1.0).abs() < 0.02, "{rate}: {took} s, {time} s");
        assert!((again / retransmissions - 1.0).abs() < 0.03, "{rate}: {again}, {retransmissions}");
    }
}

/// A driver shares the configuration of connections that draw nothing: then the seed must make no difference.
#[test]
fn connections_that_draw_nothing_do_not_depend_on_the_seed() {
    for control in tcp::control::CONTROLS {
        let deterministic = |seed: u64| {
            let config = Config { seed, ..config(Profile::Linux, control.name) };
            let is_deterministic = !config.draws();
            let mut path = path(config, 100, random(5e-3), 0.5);
            run(&mut path, 20.0);
            is_deterministic.then(|| (path.now(), path.received(), path.metrics().counters))
        };
        assert_eq!(deterministic(1), deterministic(2), "{}", control.name);
    }
    assert!(config(Profile::Linux, "bbr1").draws() && !config(Profile::Linux, "cubic").draws());
}
