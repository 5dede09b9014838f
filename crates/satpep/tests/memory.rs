//! Memory follows what the link carries, not what was configured.

use crate::world::{Hop, World};
use satpep::EndpointConfig;
use units::{Bytes, Duration, Rate};

/// A fast link with a long round trip, and losses, which is configured with another rate and round trip.
fn world(rtt: Duration, adjust: impl Fn(&mut EndpointConfig) + 'static) -> World {
    let mut hop = Hop::geo(1e-3, 7);
    (hop.rate, hop.return_rate, hop.rtt) = (Rate::from_bps(200_000_000), Rate::from_bps(200_000_000), rtt);
    let mut world = World::with(hop, 1, adjust);
    world.connect();
    world
}

/// How much of the limit an upload takes that comes after another one.
fn share(world: &mut World) -> f64 {
    const SIZE: u64 = 100_000_000;
    let mut share = 0.0;
    for _ in 0..2 {
        let start = world.time.now();
        let id = world.send(0, 0, SIZE);
        while !world.is_finished(1, id) {
            assert!(world.step(start + Duration::from_secs(120)), "the transfer does not end");
        }
        share = world.hop.limit_up(SIZE) / world.time.now().since(start).as_secs_f64();
    }
    share
}

#[test]
fn a_link_that_was_configured_with_a_tenth_of_its_rate_is_filled() {
    let mut world = world(Duration::from_millis(600), |config| {
        (config.capacity, config.receive_capacity) = (Rate::from_bps(20_000_000), Rate::from_bps(20_000_000));
    });
    let share = share(&mut world);
    assert!(share > 0.95, "{share} of the limit");
}

#[test]
fn a_link_that_was_configured_with_a_tenth_of_its_round_trip_is_filled() {
    let mut world = world(Duration::from_millis(600), |config| config.rtt = Duration::from_millis(60));
    let share = share(&mut world);
    assert!(share > 0.95, "{share} of the limit");
}

#[test]
fn memory_that_was_configured_does_not_grow() {
    let mut world = world(Duration::from_millis(600), |config| config.receive_memory = Some(Bytes::new(8 << 20)));
    let share = share(&mut world);
    assert!(share < 0.6, "{share} of the limit with memory for half a BDP");
    assert!(world.gateways[1].endpoint.memory_stats().granted <= 8 << 20);
}

#[test]
fn a_session_that_begins_with_less_memory_than_the_one_before_is_served_to_its_end() {
    let mut world = world(Duration::from_millis(600), |config| config.receive_capacity = Rate::from_bps(1_000_000_000));
    world.gateways[0].endpoint.set_receive_capacity(Rate::from_bps(100_000_000));
    world.restart(1, 2);
    let up = |world: &World| world.gateways.iter().all(|gateway| gateway.state(0) == satpep::PeerState::Up);
    world.run_for(Duration::from_secs(2));
    assert!(world.run_until(Duration::from_secs(20), up));
    let id = world.send(1, 0, 100_000_000);
    assert!(world.run_until(Duration::from_secs(60), |world| world.is_finished(0, id)), "the sender waits for credit");
}

#[test]
fn what_is_remembered_for_repair_is_given_back_once_it_is_of_no_use() {
    let mut world = world(Duration::from_millis(600), |_| {});
    let id = world.send(0, 0, 100_000_000);
    let run = |world: &mut World, seconds: u64| {
        for _ in 0..seconds {
            world.run_for(Duration::from_secs(1));
            let now = world.time.now();
            world.gateways.iter_mut().for_each(|gateway| gateway.endpoint.trim_memory(now));
        }
        world.gateways[1].endpoint.memory_stats().repair
    };
    let busy = run(&mut world, 3);
    assert!(busy > 10_000_000, "a flight is remembered: {busy}");
    while !world.is_finished(1, id) {
        run(&mut world, 1);
    }
    assert_eq!(run(&mut world, 15), 0);
}
