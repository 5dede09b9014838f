//! The driver's loop is never kept for long: to code or decode a whole flight takes many of its turns.

use crate::world::{Hop, World};
use units::{Duration, Instant, Rate};

/// A fast link with a long round trip, and losses.
fn fast(loss: f64) -> World {
    let mut hop = Hop::geo(loss, 7);
    hop.rate = Rate::from_bps(200_000_000);
    hop.return_rate = hop.rate;
    let mut world = World::new(hop, 1);
    world.connect();
    world
}

/// Runs until the terminal has all; returns in how many turns at most that followed one another at once each of the two
/// gateways had still something to work on.
fn turns_of_work(world: &mut World, bytes: u64) -> [u32; 2] {
    let id = world.send(0, 0, bytes);
    let end = world.time.now() + Duration::from_secs(30);
    let (mut longest, mut row) = ([0; 2], [0; 2]);
    while !world.is_finished(1, id) {
        let before = world.time.now();
        assert!(world.step(end), "the transfer does not end");
        for (index, gateway) in world.gateways.iter().enumerate() {
            let works = gateway.endpoint.next_timeout() == Some(Instant::ZERO);
            row[index] = if works && world.time.now() == before { row[index] + 1 } else { 0 };
            longest[index] = longest[index].max(row[index]);
        }
    }
    longest
}

#[test]
fn a_flight_is_coded_in_many_turns_of_the_loop_and_recovered_in_several() {
    let mut world = fast(2e-3);
    // One flight: all of it is in flight when the last byte has left.
    let start = world.time.now();
    let [coding, recovering] = turns_of_work(&mut world, 12_000_000);
    // Each byte is summed up and coded; a turn takes up a quarter of a megabyte, or little more.
    assert!((20..400).contains(&coding), "{coding} turns to code 12 MB");
    assert!((4..400).contains(&recovering), "{recovering} turns to recover what of 12 MB was lost");
    let stats = world.gateways[1].stats(world.time.now(), 0);
    assert!(stats.recovered_bytes > 0, "nothing was recovered");
    // What was lost in the middle came back with the repair, without another round trip.
    let share = world.hop.limit_up(12_000_000) / world.time.now().since(start).as_secs_f64();
    assert!(share > 0.9, "{share} of the limit");
}
