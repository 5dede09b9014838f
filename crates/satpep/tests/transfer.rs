//! Transfers in virtual time: every byte in order, and near the link's limit.

mod world;

use units::Duration;
use world::{Hop, World};

/// Sends `bytes` up and returns the seconds until the last byte, the loss having been whatever `hop` says.
fn transfer(hop: Hop, bytes: u64) -> f64 {
    let mut world = World::new(hop, 1);
    world.connect();
    let start = world.now;
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
