//! Whole transfers in virtual time.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit};
use tcp::{Config, ControlKind, HostDelays, Profile, ReceiveBuffer, RecoveryKind};
use units::{Bytes, Duration, Probability, Rate};

fn chain(loss: f64, seed: u64) -> (Vec<LinkConfig>, Vec<LinkConfig>) {
    let queue = QueueLimit::Packets(600);
    let access = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(10_000_000), Duration::from_millis(1)) };
    let hop = LinkConfig { queue, seed, ..LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275)) };
    let loss = LossModel::Bernoulli(Probability::new(loss).expect("valid"));
    let lossy = LinkConfig { loss, ..hop.clone() };
    (vec![access.clone(), lossy, access.clone()], vec![access.clone(), hop, access])
}

fn transfer(config: Config, bytes: u64, loss: f64, seed: u64) -> (Option<f64>, tcp::Counters) {
    let (forward, backward) = chain(loss, seed);
    let mut path = Path::new(config, forward, backward);
    let end = path.transfer(bytes);
    (end.map(|end| end.as_secs_f64()), path.metrics().counters)
}

#[test]
fn without_loss_the_profile_of_ns2_takes_as_long_as_ns2() {
    for name in ["tahoe", "reno", "newreno", "sack"] {
        let config = Config {
            recovery: RecoveryKind::by_name(name).expect("known"),
            receive_buffer: ReceiveBuffer::plain(Bytes::new(500 * 1460)),
            ..Config::new(Profile::Ns2)
        };
        let (end, counters) = transfer(Config { initial_ssthresh: 500.0, ..config }, 685 * 1460, 0.0, 1);
        let end = end.expect("complete");
        assert!((end / 5.651_773 - 1.0).abs() < 0.001, "{name}: {end}");
        assert_eq!((counters.retransmissions, counters.timeouts), (0, 0), "{name}");
    }
}

#[test]
fn every_recovery_completes_whatever_is_lost() {
    for recovery in tcp::recovery::RECOVERIES {
        for profile in [Profile::Rfc, Profile::Linux, Profile::Ns2] {
            for (loss, seed) in [(0.0, 1), (1e-3, 2), (1e-2, 3), (0.1, 4), (0.3, 5)] {
                let config = Config { recovery, ..Config::new(profile) };
                let (end, counters) = transfer(config, 300_000, loss, seed);
                println!("{} {profile:?} {loss}: {end:?} {counters:?}", recovery.name);
                assert!(end.is_some(), "{} {profile:?} {loss}", recovery.name);
            }
        }
    }
}

/// What a host takes comes on top, with every control and whatever else the sender waits for (BBR's pacer).
#[test]
fn a_host_that_takes_time_delays_a_transfer_by_little() {
    for control in ["reno", "cubic", "bbr1", "bbr3", "hybla", "vegas"] {
        let plain = Config { control: ControlKind::by_name(control).expect("known"), ..Config::new(Profile::Linux) };
        let times = [Duration::ZERO, Duration::from_micros(100)].map(|wake| {
            let first_write = wake * 5;
            let host = HostDelays { first_write, wake, idle_wake: wake, stream: 1 };
            transfer(Config { host, ..plain.clone() }, 300_000, 0.0, 1).0.expect("complete")
        });
        let later = times[1] - times[0];
        assert!((0.0004..0.03).contains(&later), "{control}: {times:?}");
    }
}

/// The scale is that of the largest buffer, and the window of the first one is less than a unit of it.
#[test]
fn a_buffer_whose_window_is_less_than_a_unit_of_its_scale_takes_a_transfer() {
    for (profile, size, most) in
        [(Profile::Rfc, 16 << 10, 1 << 30), (Profile::Rfc, 1448, 1 << 30), (Profile::Linux, 16 << 10, 1 << 30)]
    {
        let receive_buffer = ReceiveBuffer { size: Bytes::new(size), share: 1.0, most: Bytes::new(most) };
        let (end, counters) = transfer(Config { receive_buffer, ..Config::new(profile) }, 1_000_000, 0.0, 1);
        assert!(end.is_some_and(|end| end < 60.0), "{profile:?} {size}: {end:?} {counters:?}");
    }
}
