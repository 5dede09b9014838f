//! A gateway whose process stands still for seconds, as that of a virtual machine that is paused: what has come meanwhile is taken in at
//! once, and says nothing of the link's rate.

use crate::world::{Hop, World};
use units::{Duration, Rate};

/// The most that the other gateway believes of a link of 10 Mbit/s afterwards, in Mbit/s, and the packets that it loses. Arrivals are known
/// by their time if they waited for no longer than `noted`.
fn after_a_freeze(rtt: u64, seconds: u64, room: usize, both_ways: bool, noted: Duration) -> (f64, u64) {
    let rate = Rate::from_bps(10_000_000);
    let hop = Hop { rate, return_rate: rate, rtt: Duration::from_millis(rtt), ..Hop::geo(0.0, 3) };
    let mut world = World::new(hop, 1);
    world.connect();
    world.send(0, 0, 1 << 30);
    if both_ways {
        world.send(1, 0, 1 << 30);
    }
    world.run_for(Duration::from_secs(5));
    world.frozen = Some((1, room));
    world.run_for(Duration::from_secs(seconds));
    let lost = |world: &World| world.gateways[0].stats(world.time.now(), 0).lost_packets;
    let before = lost(&world);
    let now = world.time.now();
    world.thaw(|came| if now.since(came) > noted { now } else { came });
    let mut most = 0.0_f64;
    for _ in 0..200 {
        world.run_for(Duration::from_millis(50));
        let estimate = world.gateways[0].endpoint.capacity_estimate(world.time.now());
        most = most.max(estimate.rate.as_bps() as f64 / 1e6);
    }
    (most, lost(&world) - before)
}

/// The kernel has noted when each datagram came.
#[test]
fn what_waited_for_a_frozen_process_is_no_evidence_of_a_fast_link() {
    for (rtt, seconds, both_ways) in [(40, 3, false), (40, 10, true), (100, 1, true), (100, 3, false), (550, 3, true)] {
        let (most, lost) = after_a_freeze(rtt, seconds, 4_000_000, both_ways, Duration::from_secs(100));
        assert!(
            most < 10.5 && lost == 0,
            "{rtt} ms, {seconds} s, both ways: {both_ways}: {most:.1} Mbit/s, {lost} lost"
        );
    }
}

/// Nobody has, as where a whole machine stood still: one trial may come of it, no more.
#[test]
fn what_seems_to_come_at_once_costs_one_trial_at_most() {
    for (rtt, seconds, both_ways) in [(40, 3, false), (40, 1, true), (100, 1, true), (100, 3, true), (550, 3, true)] {
        let (most, lost) = after_a_freeze(rtt, seconds, 4_000_000, both_ways, Duration::ZERO);
        assert!(
            most < 21.0 && lost < 400,
            "{rtt} ms, {seconds} s, both ways: {both_ways}: {most:.1} Mbit/s, {lost} lost"
        );
    }
}
