//! A terminal whose address changes, and others who would like it to look so: data follows the peer once it has answered
//! from where it seems to be (RFC 9000, sections 8.2 and 9.3), and nobody else is sent more than three times what they sent.

use crate::world::{Datagram, Hop, World, address};
use satpep::Event;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use units::{Duration, Instant, Rate};

const INIT: u8 = 1;
const RESPONSE: u8 = 2;
/// A datagram with nothing but a challenge, or an answer to one: head, frame, tag.
const PATH_DATAGRAM: usize = 9 + 9 + 16;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The same host behind another port, as a NAT that forgot gives it.
fn rebound() -> SocketAddr {
    "198.18.0.2:61000".parse().expect("address")
}

/// Another access network.
fn elsewhere() -> SocketAddr {
    "198.18.7.7:9999".parse().expect("address")
}

fn victim() -> SocketAddr {
    "203.0.113.5:53".parse().expect("address")
}

fn connected(loss: f64, seed: u64) -> World {
    let mut world = World::new(Hop::geo(loss, seed), 1);
    world.connect();
    world
}

fn hub_sends_to(world: &World) -> Option<SocketAddr> {
    world.gateways[0].endpoint.peer_address(world.gateways[0].peers[0])
}

fn no_stream_was_lost(world: &World) -> bool {
    let lost = |event: &Event| matches!(event, Event::Reset(..) | Event::PeerRestarted(_));
    world.gateways.iter().all(|gateway| gateway.count(lost) == 0)
}

/// Sends both ways, moves the terminal after two seconds; when the hub followed, and when all had arrived.
fn moved(to: SocketAddr, loss: f64, seed: u64, bytes: u64) -> (World, Instant, Instant) {
    let mut world = connected(loss, seed);
    let (down, up) = (world.send(0, 0, bytes), world.send(1, 0, bytes));
    world.run_for(millis(2000));
    world.capture = Some(Vec::new());
    let start = world.time.now();
    world.gateways[1].address = to;
    assert!(world.run_until(millis(5000), |world| hub_sends_to(world) == Some(to)), "the hub does not follow");
    let followed = world.time.now();
    let done = |world: &World| world.is_finished(1, down) && world.is_finished(0, up);
    assert!(world.run_until(Duration::from_secs(30), done));
    assert!(no_stream_was_lost(&world));
    // One of the three datagrams that it takes may be lost.
    let most = if loss > 0.0 { millis(1600) } else { millis(1000) };
    assert!(followed.since(start) < most, "{}", followed.since(start));
    (world, start, followed)
}

#[test]
fn data_goes_to_the_old_address_until_the_peer_has_answered_from_the_new() {
    for to in [rebound(), elsewhere()] {
        // A datagram there, a challenge back, the answer there: one and a half round trips of 550 ms.
        let (mut world, start, followed) = moved(to, 0.0, 2, 3_000_000);
        let took = followed.since(start);
        assert!(took >= millis(825) && took < millis(860), "{took}");
        let captured = world.capture.take().expect("capturing");
        let follows = captured.iter().position(|datagram| datagram.to == to && datagram.bytes.len() != PATH_DATAGRAM);
        let (before, after) = captured.split_at(follows.expect("data follows"));
        let to_new: Vec<_> = before.iter().filter(|datagram| datagram.to == to).collect();
        assert_eq!(to_new.len(), 1, "one challenge was enough");
        assert!(before.iter().any(|datagram| datagram.to == address(1) && datagram.bytes.len() > 1000));
        assert!(after.iter().all(|datagram| datagram.to != address(1)), "the old address is sent nothing any more");
        let stats = world.gateways[0].stats(world.time.now(), 0);
        assert_eq!((stats.migrations, stats.mtu), (1, 1500));
    }
}

#[test]
fn a_move_costs_what_was_under_way_and_little_more_even_if_challenges_are_lost() {
    for seed in 0..6 {
        let (world, start, _) = moved(elsewhere(), 0.05, seed, 3_000_000);
        let took = world.time.now().since(start);
        // About 2.1 s of the transfers were left, and a second and a half went to where nobody was.
        assert!(took < millis(6500), "{took} with seed {seed}");
    }
}

#[test]
fn a_terminal_that_moves_while_idle_is_found_by_its_keepalive() {
    let mut world = connected(0.0, 3);
    world.run_for(millis(5000));
    world.gateways[1].address = elsewhere();
    assert!(world.run_until(millis(30_000), |world| hub_sends_to(world) == Some(elsewhere())));
    let id = world.send(0, 0, 10_000);
    assert!(world.run_until(millis(2000), |world| world.is_finished(1, id)));
}

#[test]
fn a_terminal_that_comes_back_elsewhere_by_a_handshake_is_sent_what_passes_there() {
    let mut world = connected(0.0, 3);
    world.run_for(millis(5000));
    let mtu = |world: &World| world.gateways[0].stats(world.time.now(), 0).mtu;
    assert_eq!(mtu(&world), 1500);
    // Fewer packets than a path that shrank is known by.
    world.write(0, 0, 1000);
    world.run_for(millis(1000));
    world.outage = true;
    world.run_for(millis(10_000));
    world.outage = false;
    (world.gateways[1].address, world.hop.mtu) = (elsewhere(), 1400);
    // Its handshake arrives before its packets do.
    let mut is_answered = false;
    world.tamper = Some(Box::new(move |datagram| {
        is_answered |= datagram.bytes[0] == RESPONSE && datagram.to == elsewhere();
        if is_answered || datagram.bytes[0] == INIT { vec![datagram.clone()] } else { Vec::new() }
    }));
    assert!(world.run_until(millis(10_000), |world| hub_sends_to(world) == Some(elsewhere())));
    assert!(mtu(&world) <= 1400, "{}", mtu(&world));
    let down = world.send(0, 0, 20_000);
    assert!(world.run_until(millis(3000), |world| world.is_finished(1, down)));
    world.run_for(millis(10_000));
    assert!((1380..=1400).contains(&mtu(&world)), "{}", mtu(&world));
    assert!(no_stream_was_lost(&world));
}

/// The other access network carries ten times as much.
#[test]
fn a_terminal_that_comes_back_is_sent_what_its_first_path_carried() {
    let change = Some((millis(9000), Rate::from_bps(60_000_000)));
    let mut world = World::new(Hop { change, ..Hop::geo(0.0, 7) }, 1);
    world.connect();
    let estimate = |world: &World| world.gateways[0].endpoint.capacity_estimate(world.time.now()).rate.as_bps() as f64;
    let moves = |world: &mut World, to| {
        world.gateways[1].address = to;
        world.write(1, 0, 1000);
        assert!(world.run_until(millis(5000), |world| hub_sends_to(world) == Some(to)), "the hub does not follow");
    };
    let first = world.send(0, 0, 1_000_000);
    assert!(world.run_until(millis(5000), |world| world.is_finished(1, first)));
    let before = estimate(&world);
    moves(&mut world, elsewhere());
    world.run_for(millis(4000));
    let second = world.send(0, 0, 20_000_000);
    assert!(world.run_until(millis(30_000), |world| world.is_finished(1, second)));
    let there = estimate(&world);
    assert!(there > 2.0 * before, "{before} and {there}");
    moves(&mut world, address(1));
    assert!((estimate(&world) / before - 1.0).abs() < 0.01, "{before} and {}", estimate(&world));
    moves(&mut world, elsewhere());
    assert!((estimate(&world) / there - 1.0).abs() < 0.01, "{there} and {}", estimate(&world));
}

/// An observer that is faster than the path sends packets of the terminal first, and passes on what it is sent: with all packets it takes
/// the session over, with some of them it cannot hold it.
#[test]
fn an_observer_holds_a_session_only_with_all_packets_of_the_peer() {
    let mut world = connected(0.0, 5);
    let (down, up) = (world.send(0, 0, 6_000_000), world.send(1, 0, 10_000_000));
    world.run_for(millis(1000));
    let every = Rc::new(RefCell::new(1));
    let (one_in, mut seen) = (Rc::clone(&every), 0);
    world.tamper = Some(Box::new(move |datagram| {
        let mut datagram = datagram.clone();
        if datagram.to == victim() {
            datagram.to = address(1);
            return vec![datagram];
        }
        if datagram.to == address(0) {
            seen += 1;
            datagram.from = if seen % *one_in.borrow() == 0 { victim() } else { datagram.from };
        }
        vec![datagram]
    }));
    assert!(world.run_until(millis(5000), |world| hub_sends_to(world) == Some(victim())), "it takes the session over");
    *every.borrow_mut() = 20;
    let is_back = |world: &World| hub_sends_to(world) == Some(address(1));
    assert!(world.run_until(millis(2500), is_back), "the session stays with the observer");
    assert!(world.run_until(Duration::from_secs(60), |world| world.is_finished(1, down) && world.is_finished(0, up)));
    assert!(no_stream_was_lost(&world));
    let migrations = world.gateways[0].stats(world.time.now(), 0).migrations;
    assert_eq!(migrations, 2, "to the observer and back");
}

/// Bytes that went to the victim, and to the terminal, of what the hub sent.
fn sent_to_victim(world: &mut World) -> (usize, usize) {
    let captured = world.capture.take().expect("capturing");
    let bytes = |to: SocketAddr| captured.iter().filter(|datagram| datagram.to == to).map(|d| d.bytes.len()).sum();
    (bytes(victim()), bytes(address(1)))
}

/// Runs a transfer to the terminal while `tamper` gets at its datagrams; what the victim was sent and seemed to send.
fn forged(mut forge: impl FnMut(&Datagram) -> Vec<Datagram> + 'static) -> (usize, usize) {
    let mut world = connected(0.0, 4);
    let provoked = Rc::new(RefCell::new(0));
    let count = Rc::clone(&provoked);
    world.tamper = Some(Box::new(move |datagram| {
        let out = if datagram.to == address(0) { forge(datagram) } else { vec![datagram.clone()] };
        let from_victim = out.iter().filter(|datagram| datagram.from == victim());
        *count.borrow_mut() += from_victim.map(|datagram| datagram.bytes.len()).sum::<usize>();
        out
    }));
    world.capture = Some(Vec::new());
    let (down, up) = (world.send(0, 0, 2_000_000), world.send(1, 0, 300_000));
    let start = world.time.now();
    let done = |world: &World| world.is_finished(1, down) && world.is_finished(0, up);
    assert!(world.run_until(Duration::from_secs(20), done));
    assert!(
        world.time.now().since(start) < millis(4500),
        "the forgeries held the transfer up: {}",
        world.time.now().since(start)
    );
    assert_eq!(hub_sends_to(&world), Some(address(1)));
    assert!(no_stream_was_lost(&world));
    let (to_victim, to_terminal) = sent_to_victim(&mut world);
    assert!(to_terminal > 2_000_000);
    let provoked = *provoked.borrow();
    assert!(provoked > 0 && to_victim <= 3 * provoked, "{to_victim} bytes for {provoked}");
    (to_victim, provoked)
}

#[test]
fn a_forged_source_diverts_nothing() {
    // Someone on the way puts the victim's address on one datagram in a hundred, or on all of them.
    for one_in in [100, 1] {
        let mut count = 0u64;
        let (to_victim, _) = forged(move |datagram| {
            count += 1;
            let from = if count.is_multiple_of(one_in) { victim() } else { datagram.from };
            vec![Datagram { from, ..datagram.clone() }]
        });
        assert!(to_victim.is_multiple_of(PATH_DATAGRAM) && to_victim < 50 * PATH_DATAGRAM, "{to_victim}");
    }
}

#[test]
fn a_copy_that_is_faster_than_the_original_diverts_nothing() {
    forged(|datagram| vec![Datagram { from: victim(), ..datagram.clone() }, datagram.clone()]);
}

#[test]
fn a_handshake_from_a_forged_source_diverts_nothing() {
    let mut world = connected(0.0, 4);
    world.tamper = Some(Box::new(|datagram| {
        let forge = datagram.bytes[0] == INIT;
        vec![Datagram { from: if forge { victim() } else { datagram.from }, ..datagram.clone() }]
    }));
    world.capture = Some(Vec::new());
    // The keys are due after two minutes, and the handshakes' answers go to the victim.
    world.send(0, 0, 200_000);
    world.run_for(Duration::from_secs(150));
    let id = world.send(0, 0, 100_000);
    assert!(world.run_until(millis(3000), |world| world.is_finished(1, id)));
    assert_eq!(hub_sends_to(&world), Some(address(1)));
    let inits = world.capture.as_ref().expect("capturing").iter().filter(|datagram| datagram.bytes[0] == INIT);
    let provoked: usize = inits.map(|datagram| datagram.bytes.len()).sum();
    assert!(provoked > 0 && sent_to_victim(&mut world).0 < provoked);
}

/// A hub with an address of its own before the one that its terminal calls, which a NAT lets answer alone.
fn called_elsewhere() -> (World, SocketAddr) {
    let second: SocketAddr = "198.18.9.9:4500".parse().expect("address");
    let mut world = World::with_each(
        Hop::geo(0.0, 5),
        1,
        |_, _| {},
        move |index, _, peer| peer.address = if index == 0 { None } else { Some(second) },
    );
    world.gateways[0].other_address = Some(second);
    world.tamper = Some(Box::new(move |datagram| {
        let is_of_hub = datagram.to.ip() == address(1).ip();
        if is_of_hub && datagram.from != second { Vec::new() } else { vec![datagram.clone()] }
    }));
    (world, second)
}

#[test]
fn a_hub_answers_from_the_address_that_was_called() {
    for elsewhere in [false, true] {
        let (mut world, second) = called_elsewhere();
        if elsewhere {
            world.seal_elsewhere();
        }
        world.connect();
        let (down, up) = (world.send(0, 0, 1_000_000), world.send(1, 0, 1_000_000));
        // Handshakes that the hub begins leave from there, too.
        let done = |world: &World| world.is_finished(1, down) && world.is_finished(0, up);
        assert!(world.run_until(Duration::from_secs(10), done), "{:?}", hub_sends_to(&world));
        world.capture = Some(Vec::new());
        world.run_for(Duration::from_secs(300));
        let captured = world.capture.take().expect("capturing");
        let (of_hub, of_terminal): (Vec<_>, Vec<_>) = captured.iter().partition(|datagram| datagram.to == address(1));
        let wrong: Vec<_> = of_hub.iter().filter(|datagram| datagram.from != second).collect();
        assert!(of_hub.len() > 5 && wrong.is_empty(), "{} of {}: {:?}", wrong.len(), of_hub.len(), wrong.first());
        assert!(of_terminal.iter().all(|datagram| (datagram.from, datagram.to) == (address(1), second)));
    }
}

#[test]
fn an_old_datagram_at_another_address_of_the_hub_changes_nothing() {
    let (mut world, second) = called_elsewhere();
    world.connect();
    world.capture = Some(Vec::new());
    world.send(1, 0, 100_000);
    world.run_for(Duration::from_secs(3));
    let captured = world.capture.take().expect("capturing");
    let old: Vec<Datagram> = captured.into_iter().filter(|datagram| datagram.to == second).collect();
    assert!(old.len() > 50);
    for datagram in old {
        world.put_on_link(1, address(0), &datagram.bytes);
    }
    world.capture = Some(Vec::new());
    let down = world.send(0, 0, 100_000);
    assert!(world.run_until(Duration::from_secs(3), |world| world.is_finished(1, down)));
    let captured = world.capture.take().expect("capturing");
    assert!(captured.iter().filter(|datagram| datagram.to == address(1)).all(|datagram| datagram.from == second));
}
