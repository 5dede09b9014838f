//! Congestion marks on the way to one of two terminals.

use crate::world::{Hop, World, address};
use std::cell::Cell;
use std::rc::Rc;
use units::Duration;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Goodput to each of the terminals over `time`, as shares of the link's rate.
fn shares(world: &mut World, time: Duration) -> [f64; 2] {
    let bytes = |world: &World| {
        [1, 2].map(|terminal| world.gateways[terminal].received.values().map(|received| received.bytes).sum::<u64>())
    };
    let before = bytes(world);
    world.run_for(time);
    let after = bytes(world);
    let rate = world.hop.rate.as_bps() as f64 / 8.0 * 1448.0 / 1500.0;
    [0, 1].map(|at| (after[at] - before[at]) as f64 / time.as_secs_f64() / rate)
}

#[test]
fn marks_slow_down_what_goes_to_the_peer_that_reports_them_and_nothing_else() {
    let mut world = World::fixed(Hop::geo(1e-3, 5), 2);
    world.connect();
    let marks = Rc::new(Cell::new(false));
    let is_marking = Rc::clone(&marks);
    // The last mile to the first terminal marks whatever comes, and loses acknowledgements now and then.
    let mut count = 0;
    world.tamper = Some(Box::new(move |datagram| {
        count += 1;
        let marked = is_marking.get() && datagram.to == address(1);
        let lost = datagram.to == address(0) && count % 10 == 0;
        if lost { Vec::new() } else { vec![crate::world::Datagram { marked, ..datagram.clone() }] }
    }));
    for terminal in 0..2 {
        world.send(0, terminal, 1 << 40);
    }
    world.run_for(seconds(3));
    let before = shares(&mut world, seconds(5));
    assert!(before.iter().all(|share| (0.46..0.52).contains(share)), "{before:?}");
    marks.set(true);
    world.run_for(seconds(10));
    let during = shares(&mut world, seconds(5));
    assert!(during[0] < 0.25 && during[0] > 0.005, "{during:?}");
    assert!(during[1] > 0.7, "the other one gets what that leaves: {during:?}");
    marks.set(false);
    world.run_for(seconds(60));
    let after = shares(&mut world, seconds(5));
    assert!(after.iter().all(|share| (0.46..0.52).contains(share)), "{after:?}");
    let (hub, terminal) = (world.gateways[0].stats(world.time.now(), 0), world.gateways[1].stats(world.time.now(), 0));
    assert!(hub.congestion_reported > 500, "{hub:?}");
    assert!(hub.congestion_reported <= terminal.congestion_received, "{hub:?} {terminal:?}");
    assert_eq!(world.gateways[0].stats(world.time.now(), 1).congestion_reported, 0);
}

#[test]
fn a_few_marks_cost_a_few_percent_for_a_few_round_trips() {
    let mut world = World::new(Hop::geo(0.0, 5), 2);
    world.connect();
    world.send(0, 0, 1 << 40);
    world.run_for(seconds(3));
    let mut left = 3;
    world.tamper = Some(Box::new(move |datagram| {
        let marked = left > 0 && datagram.to == address(1);
        left -= i32::from(marked);
        vec![crate::world::Datagram { marked, ..datagram.clone() }]
    }));
    world.run_for(Duration::from_millis(900));
    let held = shares(&mut world, seconds(1))[0];
    assert!((0.8..0.93).contains(&held), "{held} right after the marks");
    world.run_for(seconds(4));
    assert!(shares(&mut world, seconds(2))[0] > 0.97);
}
