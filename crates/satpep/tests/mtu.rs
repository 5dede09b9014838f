//! Paths of other sizes, paths that change, and links that reorder and duplicate.

use crate::world::{Hop, World};
use satpep::Event;
use std::cell::Cell;
use std::rc::Rc;
use units::{Duration, Probability};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_smaller_path_is_found_and_filled() {
    for (path, loss) in [(1400, 0.0), (1300, 1e-2), (1280, 0.0), (1492, 1e-3), (1200, 1e-3), (1000, 0.0), (576, 1e-2)] {
        let mut hop = Hop::geo(loss, path as u64);
        hop.mtu = path;
        let mut world = World::new(hop, 1);
        world.connect();
        world.run_for(seconds(30));
        for gateway in &world.gateways {
            let found = usize::from(gateway.stats(world.time.now(), 0).mtu);
            assert!(found <= path && found + 8 >= path, "{found} on a path of {path}");
        }
        let start = world.time.now();
        let id = world.send(0, 0, 2_000_000);
        assert!(world.run_until(seconds(30), |world| world.is_finished(1, id)));
        // Headers are a larger part of small packets.
        let payload = (path as f64 - 80.0) / path as f64 * 1500.0 / 1420.0;
        let share = world.hop.limit_up(2_000_000) / world.time.now().since(start).as_secs_f64() / payload;
        assert!(share > 0.85, "{share} of the limit on a path of {path}");
    }
}

#[test]
fn data_passes_before_the_path_is_measured() {
    let mut hop = Hop::geo(0.0, 1);
    hop.mtu = 1300;
    let mut world = World::new(hop, 1);
    world.run_until(seconds(5), |world| world.gateways[0].state(0) == satpep::PeerState::Up);
    let start = world.time.now();
    let id = world.send(0, 0, 20_000);
    assert!(world.run_until(seconds(5), |world| world.is_finished(1, id)));
    assert!(world.time.now().since(start) < Duration::from_millis(700), "{}", world.time.now().since(start));
}

#[test]
fn a_path_that_shrinks_in_the_middle_of_a_transfer_stops_nothing() {
    for (path, loss) in [(1400, 1e-3), (1300, 0.0), (1000, 0.0), (600, 1e-3)] {
        let mut world = World::new(Hop::geo(loss, 3), 1);
        world.connect();
        let ids = [(1, world.send(0, 0, 6_000_000)), (0, world.send(1, 0, 6_000_000))];
        world.run_for(seconds(3));
        assert_eq!(world.gateways[0].stats(world.time.now(), 0).mtu, 1500);
        world.hop.mtu = path;
        let done = |world: &World| ids.iter().all(|(to, id)| world.is_finished(*to, *id));
        // 9 s at the link's rate are left to send.
        assert!(world.run_until(seconds(20), done), "stuck on a path of {path}");
        world.run_for(seconds(25));
        let found = usize::from(world.gateways[0].stats(world.time.now(), 0).mtu);
        assert!(found <= path, "{found} on a path of {path}");
        assert_eq!(world.gateways[0].count(|event| matches!(event, Event::Reset(..))), 0);
    }
}

#[test]
fn a_peer_is_up_once_the_path_is_known_to_carry_data() {
    for (path, attempts) in [(1500, 1), (1200, 2), (576, 2)] {
        let mut hop = Hop::geo(0.0, 1);
        hop.mtu = path;
        let mut world = World::new(hop, 1);
        let start = world.time.now();
        let up = |event: &Event| matches!(event, Event::PeerUp(_));
        assert!(world.run_until(seconds(5), |world| world.gateways[1].count(up) > 0), "not up on a path of {path}");
        // A padded handshake proves the path. Where it does not pass, the next attempt leaves two round trips later and takes
        // one, as do the first probes, whose acknowledgement may wait.
        let round_trips = if attempts == 1 { 1 } else { 4 };
        let took = world.time.now().since(start);
        let expected = world.hop.rtt * round_trips + Duration::from_millis(40);
        assert!(took < expected, "up after {took} on a path of {path}");
        let mtu = usize::from(world.gateways[1].stats(world.time.now(), 0).mtu);
        assert!(mtu <= path && (mtu == path || path == 1200), "{mtu} in use on a path of {path}");
    }
}

#[test]
fn on_a_path_that_is_too_small_nobody_is_up_and_both_sides_say_why() {
    let mut hop = Hop::geo(0.0, 1);
    hop.mtu = 500;
    let mut world = World::new(hop, 1);
    world.run_for(seconds(20));
    for gateway in &world.gateways {
        assert_eq!(gateway.state(0), satpep::PeerState::PathTooSmall);
        assert_eq!(gateway.count(|event| matches!(event, Event::PeerUp(_))), 0);
        assert_eq!(gateway.count(|event| matches!(event, Event::PathTooSmall(_))), 1);
    }
    world.hop.mtu = 1000;
    assert!(world.run_until(seconds(10), |world| {
        world.gateways.iter().all(|gateway| gateway.state(0) == satpep::PeerState::Up)
    }));
}

#[test]
fn on_a_path_that_is_too_small_one_way_both_sides_say_so_and_stay_down() {
    for blind in [0, 1] {
        let mut world = World::new(Hop::geo(1e-2, 1), 1);
        // Of what goes to this gateway.
        let mtu = Rc::new(Cell::new(500));
        let (limit, to) = (Rc::clone(&mtu), crate::world::address(blind));
        let passes =
            move |datagram: &crate::world::Datagram| datagram.to != to || datagram.bytes.len() + 28 <= limit.get();
        world.tamper =
            Some(Box::new(move |datagram| if passes(datagram) { vec![datagram.clone()] } else { Vec::new() }));
        world.run_for(seconds(10));
        let ups = |world: &World| world.gateways[blind].count(|event| matches!(event, Event::PeerUp(_)));
        let before = ups(&world);
        for _ in 0..40 {
            world.run_for(seconds(1));
            assert!(
                world.gateways.iter().all(|gateway| gateway.state(0) == satpep::PeerState::PathTooSmall),
                "to {blind}"
            );
        }
        assert_eq!(ups(&world), before);
        for gateway in &world.gateways {
            assert_eq!(gateway.count(|event| matches!(event, Event::PathTooSmall(_))), 1);
        }
        mtu.set(1000);
        assert!(world.run_until(seconds(10), |world| {
            world.gateways.iter().all(|gateway| gateway.state(0) == satpep::PeerState::Up)
        }));
        let id = world.send(1 - blind, 0, 200_000);
        assert!(world.run_until(seconds(10), |world| world.is_finished(blind, id)));
    }
}

#[test]
fn what_the_host_refuses_to_send_is_sent_smaller_at_once() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.connect();
    let id = world.send(0, 0, 3_000_000);
    world.run_for(seconds(2));
    assert_eq!(world.gateways[0].stats(world.time.now(), 0).mtu, 1500);
    world.hop.mtu = 1200;
    let (now, to) = (world.time.now(), world.gateways[1].address);
    world.gateways[0].endpoint.handle_refused(now, to, 1500 - 28);
    let at_once = world.gateways[0].stats(world.time.now(), 0).mtu;
    assert!(at_once <= 1200, "{at_once} after the host has refused 1500");
    assert!(world.run_until(seconds(10), |world| world.is_finished(1, id)));
}

#[test]
fn what_the_host_refuses_is_neither_waited_for_nor_lost() {
    for mtu in [1280, 1400, 1492] {
        let mut hop = Hop::geo(0.0, 1);
        let rate = units::Rate::from_bps(20_000_000);
        (hop.mtu, hop.rate, hop.return_rate) = (mtu, rate, rate);
        let mut world = World::new(hop, 1);
        world.refuses = true;
        world.connect();
        world.run_for(seconds(120));
        for gateway in &world.gateways {
            let stats = gateway.stats(world.time.now(), 0);
            let outages = gateway.count(|event| matches!(event, Event::PeerUnresponsive(_)));
            assert_eq!((outages, stats.lost_packets), (0, 0), "at {mtu}");
            assert!((mtu - 8..=mtu).contains(&usize::from(stats.mtu)), "{} at {mtu}", stats.mtu);
        }
    }
}

#[test]
fn reordering_and_duplication_with_loss_cost_little_and_change_nothing() {
    for (reordered, duplicated, loss) in [(0.01, 0.0, 0.0), (0.0, 0.02, 1e-3), (0.01, 0.01, 1e-3), (0.1, 0.05, 1e-2)] {
        let mut hop = Hop::geo(loss, 17);
        hop.reorder = Some(link::Reorder {
            probability: Probability::new(reordered).expect("probability"),
            extra_delay: Duration::from_millis(20),
        });
        hop.duplicate = duplicated;
        let mut world = World::new(hop, 1);
        world.connect();
        let start = world.time.now();
        let id = world.send(0, 0, 10_000_000);
        assert!(world.run_until(seconds(60), |world| world.is_finished(1, id)));
        let share = world.hop.limit_up(10_000_000) / world.time.now().since(start).as_secs_f64();
        let stats = world.gateways[0].stats(world.time.now(), 0);
        let again = stats.retransmitted_bytes as f64 / stats.sent_bytes as f64;
        println!("{reordered} {duplicated} {loss}: share {share:.3}, sent again {again:.4}");
        assert!(share > 0.7, "{share} of the limit");
        // Once lateness has been learnt, what is late is no longer sent again for nothing.
        assert!(again < 2.0 * loss + 0.03, "{again} of the bytes were sent again");
        assert_eq!(world.received(1, id).map(|received| received.bytes), Some(10_000_000));
    }
}

#[test]
fn a_call_that_the_host_does_not_take_for_its_size_goes_again_at_once() {
    let mut hop = Hop::geo(0.0, 1);
    hop.mtu = 1000;
    let mut world = World::new(hop, 1);
    world.refuses = true;
    let start = world.time.now();
    assert!(world.run_until(seconds(10), |world| world.gateways[1].state(0) == satpep::PeerState::Up));
    // A round trip for the handshake, and those that find the size.
    let took = world.time.now().since(start);
    assert!(took < Duration::from_millis(1_200), "{took}");
}

/// Both directions lose their data at once, and with the data the acknowledgements that ride on it.
#[test]
fn a_path_that_shrinks_is_taken_for_no_slower_link() {
    let rate = units::Rate::from_bps(20_000_000);
    for after in (8..19).map(|k| Duration::from_millis(3000 + 137 * k)) {
        let rtt = Duration::from_millis(200);
        let hop = Hop { rate, return_rate: rate, rtt, mtu: 1396, ..Hop::geo(1e-4, after.as_nanos()) };
        let mut world = World::new(hop, 1);
        world.connect();
        for from in [0, 1] {
            world.send(from, 0, 50_000_000);
        }
        world.run_for(after);
        world.hop.mtu = 1280;
        for _ in 0..60 {
            world.run_for(Duration::from_millis(100));
            let least = world.gateways.iter().map(|gateway| gateway.endpoint.capacity()).min();
            assert!(least >= Some(rate.mul_f64(0.9)), "{least:?} after the path shrank at {after}");
        }
        assert_eq!(world.gateways[0].stats(world.time.now(), 0).mtu, 1280);
    }
}
