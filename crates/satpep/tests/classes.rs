//! Classes of streams: who goes first in a session, and who gets how much of it.

use crate::world::{Hop, World, jain};
use satpep::{Class, Priority, StreamId};
use units::{Duration, Rate};

const ENDLESS: u64 = 1 << 40;

fn connected(loss: f64, seed: u64) -> World {
    let mut world = World::fixed(Hop::geo(loss, seed), 1);
    world.connect();
    world
}

/// Endless streams of a class.
fn streams(world: &mut World, class: Class, count: usize) -> Vec<StreamId> {
    let open = |_| {
        let id = world.send(0, 0, ENDLESS);
        world.gateways[0].endpoint.set_class(world.time.now(), id, &class);
        id
    };
    (0..count).map(open).collect()
}

fn received(world: &World, streams: &[StreamId]) -> u64 {
    streams.iter().map(|id| world.received(1, *id).map_or(0, |received| received.bytes)).sum()
}

/// What arrives of each group in 20 s, after the time of a round trip.
fn shares(world: &mut World, groups: &[&[StreamId]]) -> Vec<f64> {
    world.run_for(Duration::from_secs(2));
    let before: Vec<_> = groups.iter().map(|group| received(world, group)).collect();
    world.run_for(Duration::from_secs(20));
    groups.iter().zip(before).map(|(group, before)| (received(world, group) - before) as f64).collect()
}

#[test]
fn classes_share_by_weight_and_their_streams_alike() {
    for priority in [Priority::Bulk, Priority::Normal, Priority::Interactive] {
        let mut world = connected(1e-3, 51);
        let gold = streams(&mut world, Class { id: 1, weight: 3, priority, ..Class::DEFAULT }, 2);
        let bronze = streams(&mut world, Class { id: 2, weight: 2, ..Class::DEFAULT }, 5);
        let others = streams(&mut world, Class::DEFAULT, 1);
        let sent = shares(&mut world, &[&gold, &bronze, &others]);
        assert!((sent[0] / sent[2] / 3.0 - 1.0).abs() < 0.05, "{priority} {sent:?}");
        assert!((sent[1] / sent[2] / 2.0 - 1.0).abs() < 0.05, "{priority} {sent:?}");
        for class in [gold, bronze] {
            let each: Vec<_> = class.iter().map(|id| received(&world, &[*id]) as f64).collect();
            assert!(jain(&each) > 0.99, "{priority} {each:?}");
        }
    }
}

#[test]
fn a_class_keeps_to_its_cap_and_the_others_get_the_rest() {
    let mut world = connected(0.0, 52);
    let cap = Rate::from_bps(500_000);
    let capped = streams(&mut world, Class { id: 1, weight: 5, cap: Some(cap), ..Class::DEFAULT }, 3);
    let others = streams(&mut world, Class::DEFAULT, 1);
    let sent = shares(&mut world, &[&capped, &others]);
    let of_cap = sent[0] * 8.0 / 20.0 / cap.as_bps() as f64;
    assert!(of_cap <= 1.0 && of_cap > 0.95, "{of_cap} of the cap");
    let rate = sent.iter().sum::<f64>() * 8.0 / 20.0;
    assert!(rate > 0.94 * world.hop.rate.as_bps() as f64, "{rate}");
}

#[test]
fn a_class_alone_gets_its_cap_and_more_when_that_is_lifted() {
    let mut world = connected(0.0, 53);
    let class = Class { id: 1, cap: Some(Rate::from_bps(1_000_000)), ..Class::DEFAULT };
    let ids = streams(&mut world, class, 1);
    let capped = shares(&mut world, &[&ids])[0] * 8.0 / 20.0;
    assert!(capped <= 1e6 && capped > 0.95e6, "{capped}");
    world.gateways[0].endpoint.set_class(world.time.now(), ids[0], &Class { cap: None, ..class });
    let free = shares(&mut world, &[&ids])[0] * 8.0 / 20.0;
    assert!(free > 5.5e6, "{free}");
}

#[test]
fn a_stream_may_change_its_class_while_it_sends() {
    let mut world = connected(1e-2, 54);
    let bulk = streams(&mut world, Class::DEFAULT, 4);
    world.run_for(Duration::from_secs(3));
    // Into a class of its own it gets half of the link instead of a quarter.
    world.gateways[0].endpoint.set_class(world.time.now(), bulk[0], &Class { id: 9, ..Class::DEFAULT });
    let sent = shares(&mut world, &[&bulk[..1], &bulk[1..]]);
    assert!((sent[0] / sent[1] - 1.0).abs() < 0.05, "{sent:?}");
    world.gateways[0].endpoint.set_class(world.time.now(), bulk[0], &Class::DEFAULT);
    let sent = shares(&mut world, &[&bulk[..1], &bulk[1..]]);
    assert!((3.0 * sent[0] / sent[1] - 1.0).abs() < 0.05, "{sent:?}");
}

/// How much longer than over the empty link each of 50 small messages takes, in the order of size.
fn extra_delays(world: &mut World, id: StreamId) -> Vec<Duration> {
    let packet = world.hop.rate.time_to_send(units::Bytes::new(200));
    let mut delays = Vec::new();
    for turn in 0..50u64 {
        world.run_for(Duration::from_millis(700) + Duration::from_micros(131 * turn));
        let sent = world.time.now();
        world.gateways[0].sending.get_mut(&id).expect("there").left += 100;
        world.run_for(Duration::from_millis(400));
        let received = world.received(1, id).expect("open");
        assert_eq!(received.bytes, 100 * (turn + 1));
        delays.push(received.last_at.since(sent + world.hop.rtt / 2).saturating_sub(packet));
    }
    delays.sort_unstable();
    delays
}

#[test]
fn small_messages_never_wait_for_more_than_a_few_packets() {
    // A packet lasts 2 ms. A class of its own would only help beside others that are of that priority, too.
    for class in [Class::DEFAULT, Class { id: 1, priority: Priority::Interactive, ..Class::DEFAULT }] {
        let mut world = connected(0.0, 55);
        streams(&mut world, Class::DEFAULT, 10);
        streams(&mut world, Class { id: 2, weight: 10, ..Class::DEFAULT }, 3);
        world.run_for(Duration::from_secs(5));
        let id = world.write(0, 0, 0);
        world.gateways[0].endpoint.set_class(world.time.now(), id, &class);
        let delays = extra_delays(&mut world, id);
        assert!(delays[49] <= Duration::from_millis(6), "{delays:?}");
    }
}

#[test]
fn in_a_bulk_class_messages_wait_for_their_turn() {
    let mut world = connected(0.0, 56);
    streams(&mut world, Class { weight: 20, ..Class::DEFAULT }, 1);
    let id = world.write(0, 0, 0);
    world.gateways[0].endpoint.set_class(
        world.time.now(),
        id,
        &Class { id: 1, priority: Priority::Bulk, ..Class::DEFAULT },
    );
    let delays = extra_delays(&mut world, id);
    assert!(delays[25] > Duration::from_millis(10), "a turn of the others lasts 40 ms: {delays:?}");
}
