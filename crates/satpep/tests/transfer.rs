//! Transfers in virtual time: every byte in order, and near the link's limit.

use crate::world::{Hop, World};
use units::{Duration, Rate};

/// Sends `bytes` up and returns the seconds until the last byte, the loss having been whatever `hop` says.
fn transfer(hop: Hop, bytes: u64) -> f64 {
    let mut world = World::new(hop, 1);
    world.connect();
    let start = world.time.now();
    world.send(0, 0, bytes);
    let done = world.run_until(Duration::from_secs(300), |world| {
        world.gateways[1].received.values().any(|received| received.finished)
    });
    assert!(done, "not finished");
    let received = world.gateways[1].received.values().next().expect("stream").clone();
    assert_eq!(received.bytes, bytes);
    received.last_at.since(start).as_secs_f64()
}

fn median_share(loss: f64, bytes: u64) -> f64 {
    let mut shares: Vec<f64> = (0..9)
        .map(|seed| {
            let hop = Hop::geo(loss, seed);
            hop.limit_up(bytes) / transfer(hop, bytes)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    println!("{bytes} bytes at {loss}: {shares:.3?}");
    shares[shares.len() / 2]
}

#[test]
fn one_megabyte_runs_near_the_limit_at_every_loss() {
    assert!(median_share(0.0, 1_000_000) >= 0.97);
    assert!(median_share(1e-3, 1_000_000) >= 0.97);
    assert!(median_share(1e-2, 1_000_000) >= 0.96);
}

#[test]
fn short_and_long_transfers_run_near_the_limit() {
    assert!(median_share(0.0, 100_000) >= 0.96);
    assert!(median_share(1e-2, 10_000_000) >= 0.97);
}

/// Of small requests beside bulk that fills a link with losses, how many arrive within a tenth of a second of the
/// delay of propagation, and how many bytes of repair that takes for each byte on the link.
fn requests_in_time(repair: bool, share: f64) -> (f64, f64) {
    let mut hop = Hop::geo(0.02, 7);
    hop.rate = units::Rate::from_bps(20_000_000);
    let mut world = World::with(hop, 1, move |config| {
        config.repair = repair;
        config.repair_overhead = share;
    });
    world.connect();
    world.send(0, 0, 100_000_000);
    world.run_for(Duration::from_millis(1500));
    let before = (world.gateways[0].stats(world.time.now(), 0).repair_bytes, world.forward_bytes());
    let sent: Vec<_> = (0..300)
        .map(|_| {
            let request = (world.time.now(), world.send(0, 0, 300));
            world.run_for(Duration::from_millis(57));
            request
        })
        .collect();
    let after = (world.gateways[0].stats(world.time.now(), 0).repair_bytes, world.forward_bytes());
    world.run_for(Duration::from_millis(2000));
    let late = world.hop.rtt / 2 + Duration::from_millis(100);
    let in_time = sent.iter().filter(|(at, id)| {
        world.received(1, *id).is_some_and(|received| received.finished && received.last_at.since(*at) < late)
    });
    let repair_overhead = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    (in_time.count() as f64 / sent.len() as f64, repair_overhead)
}

#[test]
fn what_is_lost_of_requests_beside_bulk_is_recovered_at_once() {
    let (without, nothing) = requests_in_time(false, 0.02);
    assert!(without < 0.995 && nothing == 0.0, "{without} without repair");
    let (with, spent) = requests_in_time(true, 0.02);
    assert!(with > 0.995 && spent > 0.0 && spent <= 0.04, "{with} for {spent}");
}

#[test]
fn no_lost_credit_makes_a_sender_wait_for_a_timer() {
    let rate = Rate::from_bps(2_000_000);
    let mut times: Vec<f64> = (0..200)
        .map(|seed| transfer(Hop { rate, return_rate: rate, ..Hop::geo(2e-2, 1000 + seed) }, 300_000))
        .collect();
    times.sort_by(f64::total_cmp);
    let (median, slowest) = (times[100], times[199]);
    println!("median {median:.3} s, slowest {slowest:.3} s, {:?}", &times[190..]);
    assert!(slowest < median + 1.3 * 0.55, "median {median}, slowest {slowest}");
}
