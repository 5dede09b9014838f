//! Peers that come, change and go while streams run, and a gateway that takes no more streams.

use crate::world::{Hop, World, address, key};
use satpep::{ConfigError, Endpoint, EndpointConfig, Event, OpenError, PeerConfig, PeerState, PublicKey, StreamId};
use units::{Duration, Instant, Rate};

fn connected(loss: f64, seed: u64, terminals: usize) -> World {
    let mut world = World::new(Hop::geo(loss, seed), terminals);
    world.connect();
    world
}

fn resets(world: &World, index: usize) -> usize {
    world.gateways[index].count(|event| matches!(event, Event::Reset(..)))
}

#[test]
fn the_streams_of_a_peer_that_is_removed_end_at_both_ends_and_no_others() {
    for seed in 1..=8 {
        let mut world = connected(0.1, seed, 2);
        let (gone, stays) = (world.send(0, 0, 2_000_000), world.send(0, 1, 2_000_000));
        world.run_for(Duration::from_secs(1));
        let removed = world.gateways[0].peers[0];
        let now = world.time.now();
        world.gateways[0].endpoint.remove_peer(now, removed);
        assert_eq!(world.gateways[0].state(0), PeerState::Connecting);
        assert_eq!(world.gateways[0].endpoint.open(now, removed), Err(OpenError::NotConnected));
        // The farewell is repeated: one datagram in ten is lost.
        world.run_for(Duration::from_secs(3));
        assert_eq!((resets(&world, 0), resets(&world, 1), resets(&world, 2)), (1, 1, 0), "seed {seed}");
        assert!(!world.is_finished(1, gone));
        assert!(world.run_until(Duration::from_secs(60), |world| world.is_finished(2, stays)));
        assert_eq!(world.gateways[1].state(0), PeerState::Connecting, "strangers get no answer");
    }
}

#[test]
fn a_peer_that_comes_back_is_served_under_the_same_name_or_another() {
    let mut world = connected(0.0, 1, 2);
    let removed = world.gateways[0].peers[0];
    let now = world.time.now();
    world.gateways[0].endpoint.remove_peer(now, removed);
    world.run_for(Duration::from_secs(5));
    let now = world.time.now();
    let config = || PeerConfig::new(key(1).public_key(), None);
    let again = world.gateways[0].endpoint.add_peer(now, config()).expect("its key is free");
    assert_eq!(again, removed, "the place was vacant");
    assert_eq!(world.gateways[0].endpoint.add_peer(now, config()), Err(ConfigError::DuplicatePeer), "its key is taken");
    let up = |world: &World| [0, 1].iter().all(|index| world.gateways[*index].state(0) == PeerState::Up);
    assert!(world.run_until(Duration::from_secs(20), up));
    let (down, up) = (world.send(0, 0, 300_000), world.send(1, 0, 300_000));
    let done = |world: &World| world.is_finished(1, down) && world.is_finished(0, up);
    assert!(world.run_until(Duration::from_secs(20), done));

    // Nor does one that never came up keep anything.
    let now = world.time.now();
    let hub = &mut world.gateways[0].endpoint;
    let never = hub.add_peer(now, PeerConfig::new(key(9).public_key(), Some(address(9)))).expect("free");
    hub.remove_peer(now, never);
    world.run_for(Duration::from_secs(5));
    let now = world.time.now();
    let hub = &mut world.gateways[0].endpoint;
    assert_eq!(hub.add_peer(now, PeerConfig::new(key(8).public_key(), None)), Ok(never));

    // A peer that is added before the other's farewell is over gets a place of its own.
    let other = world.gateways[0].peers[1];
    let now = world.time.now();
    world.gateways[0].endpoint.remove_peer(now, other);
    let fresh = world.gateways[0].endpoint.add_peer(now, PeerConfig::new(key(2).public_key(), None)).expect("free");
    assert_ne!(fresh, other);
    world.gateways[0].peers[1] = fresh;
    assert!(world.run_until(Duration::from_secs(20), |world| world.gateways[0].state(1) == PeerState::Up));
}

#[test]
fn a_cap_and_a_weight_that_change_count_at_once_and_end_no_stream() {
    let mut world = connected(0.0, 1, 2);
    for peer in 0..2 {
        world.send(0, peer, 40_000_000);
    }
    world.run_for(Duration::from_secs(4));
    let at = |world: &World| [1, 2].map(|index| world.gateways[index].received.values().map(|r| r.bytes).sum::<u64>());
    let shares = |world: &mut World, config: PeerConfig| {
        let (now, id) = (world.time.now(), world.gateways[0].peers[0]);
        world.gateways[0].endpoint.change_peer(now, id, config).expect("the same key");
        // What was sent before has arrived by then.
        world.run_for(Duration::from_secs(2));
        let before = at(world);
        world.run_for(Duration::from_secs(4));
        let after = at(world);
        [0, 1].map(|peer| (after[peer] - before[peer]) as f64 * 8.0 / 4.0 / 1e6)
    };
    let config = || PeerConfig::new(key(1).public_key(), None);
    let [first, second] = shares(&mut world, PeerConfig { weight: 3, ..config() });
    assert!((2.6..3.4).contains(&(first / second)), "{first} {second}");
    let [first, second] = shares(&mut world, PeerConfig { cap: Some(Rate::from_bps(1_000_000)), ..config() });
    assert!(first < 1.05 && second > 4.4, "{first} {second}");
    let [first, second] = shares(&mut world, config());
    assert!((0.9..1.1).contains(&(first / second)), "{first} {second}");
    assert_eq!(world.gateways.iter().map(|gateway| gateway.count(|e| matches!(e, Event::Reset(..)))).sum::<usize>(), 0);
    let (now, id) = (world.time.now(), world.gateways[0].peers[0]);
    let other = PeerConfig::new(key(9).public_key(), Some(address(9)));
    let refused = world.gateways[0].endpoint.change_peer(now, id, other);
    assert_eq!(refused, Err(ConfigError::OtherKey), "another key is another peer");
}

#[test]
fn a_gateway_is_no_peer_of_itself() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    let now = world.time.now();
    let own = PeerConfig::new(key(0).public_key(), Some(address(3)));
    assert_eq!(world.gateways[0].endpoint.add_peer(now, own), Err(ConfigError::OwnKey));
    world.connect();
    assert_eq!(world.gateways[0].state(0), PeerState::Up, "the other peers are there");
}

#[test]
fn a_gateway_has_as_many_peers_as_there_are_names_for_and_no_more() {
    let now = Instant::from_nanos(1_000_000_000);
    let rate = Rate::from_bps(1_000_000);
    let config = EndpointConfig::new(key(0), rate, rate, Duration::from_millis(550));
    let mut endpoint = Endpoint::simulated(config, now, 1);
    // Any 32 bytes are a public key (RFC 7748, section 5).
    let peer = |number: u32| {
        let mut bytes = [9; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        PeerConfig::new(PublicKey::from_bytes(bytes), None)
    };
    for number in 0..32_768 {
        assert!(endpoint.add_peer(now, peer(number)).is_ok(), "{number}");
    }
    let one_more = endpoint.add_peer(now, peer(32_768)).expect_err("one too many");
    assert_eq!(
        (one_more.clone(), one_more.to_string()),
        (ConfigError::TooManyPeers, "more than 32,768 peers".to_owned())
    );
}

#[test]
fn a_gateway_that_drains_is_opened_no_streams_and_finishes_those_it_has() {
    for (drains, other) in [(0, 1), (1, 0)] {
        for seed in 1..=4 {
            let mut world = connected(0.2, seed, 1);
            let (down, up) = (world.send(0, 0, 1_000_000), world.send(1, 0, 1_000_000));
            world.run_for(Duration::from_millis(700));
            let now = world.time.now();
            world.gateways[drains].endpoint.drain(now);
            let told = |world: &World| world.gateways[other].state(0) == PeerState::Draining;
            assert!(world.run_until(Duration::from_secs(10), told), "seed {seed}");
            let (now, peer) = (world.time.now(), world.gateways[other].peers[0]);
            assert_eq!(world.gateways[other].endpoint.open(now, peer), Err(OpenError::Draining));
            assert_eq!(world.gateways[other].count(|event| matches!(event, Event::PeerDrains(_))), 1);
            let done = |world: &World| world.is_finished(1, down) && world.is_finished(0, up);
            assert!(world.run_until(Duration::from_secs(90), done), "seed {seed}");
            assert_eq!(resets(&world, 0) + resets(&world, 1), 0);
        }
    }
}

#[test]
fn a_peer_that_restarts_while_the_gateway_drains_learns_of_it() {
    let mut world = connected(0.0, 1, 1);
    let now = world.time.now();
    world.gateways[0].endpoint.drain(now);
    world.run_for(Duration::from_secs(2));
    world.restart(1, 2);
    assert!(world.run_until(Duration::from_secs(20), |world| world.gateways[1].state(0) == PeerState::Draining));
}

/// When a hub that begins to drain may end, if both ways have been cut for `outage` since the terminal opened streams.
fn drained_after(outage: Duration) -> (World, Duration, Vec<StreamId>) {
    let mut world = connected(0.0, 1, 1);
    world.outage = true;
    let lost: Vec<_> = (0..5).map(|_| world.send(1, 0, 3_000)).collect();
    world.run_for(Duration::from_millis(100));
    let begun = world.time.now();
    world.gateways[0].endpoint.drain(begun);
    assert!(!world.gateways[0].endpoint.is_drained(begun), "streams may be on their way");
    world.run_for(outage);
    world.outage = false;
    let is_drained = |world: &World| world.gateways[0].endpoint.is_drained(world.time.now());
    assert!(world.run_until(Duration::from_secs(60), is_drained));
    let after = world.time.now().since(begun);
    (world, after, lost)
}

#[test]
fn a_gateway_that_drains_waits_for_streams_that_are_on_their_way() {
    let (mut world, after, lost) = drained_after(Duration::from_secs(5));
    assert!((5.5..8.5).contains(&after.as_secs_f64()), "{after:?}");
    assert!(lost.iter().all(|id| world.is_finished(0, *id)));
    let now = world.time.now();
    world.gateways[0].endpoint.close(now);
    world.run_for(Duration::from_secs(3));
    assert_eq!(resets(&world, 1), 0);
}

#[test]
fn a_gateway_that_drains_does_not_wait_for_ever_for_a_peer_that_is_gone() {
    let (_, after, _) = drained_after(Duration::from_secs(60));
    assert!((25.0..61.0).contains(&after.as_secs_f64()), "{after:?}");
    // Nor for one that had been gone before, or has opened none.
    let mut world = connected(0.0, 1, 2);
    world.gateways[2].is_dead = true;
    world.run_for(Duration::from_secs(400));
    assert_ne!(world.gateways[0].state(1), PeerState::Up);
    let now = world.time.now();
    world.gateways[0].endpoint.drain(now);
    assert!(world.run_until(Duration::from_secs(2), |world| world.gateways[0].endpoint.is_drained(world.time.now())));
}

#[test]
fn a_session_that_begins_while_the_gateway_drains_has_no_streams() {
    // The hub has answered the terminal's call, and the answer or what the terminal sent since is on its way.
    for (answered_before, may_end) in [(Duration::from_millis(450), false), (Duration::ZERO, true)] {
        let mut world = World::new(Hop::geo(0.0, 1), 1);
        let drain = |world: &mut World| {
            let now = world.time.now();
            world.gateways[0].endpoint.drain(now);
        };
        if answered_before > Duration::ZERO {
            world.run_for(answered_before);
            drain(&mut world);
        } else {
            drain(&mut world);
            world.run_for(Duration::from_millis(450));
        }
        assert_eq!(world.gateways[0].endpoint.is_drained(world.time.now()), may_end);
        let is_up = |world: &World| world.gateways[1].state(0) == PeerState::Up;
        let was_up = world.run_until(Duration::from_secs(1), is_up);
        let (now, peer) = (world.time.now(), world.gateways[1].peers[0]);
        assert_eq!((was_up, world.gateways[1].endpoint.open(now, peer).is_ok()), (true, !may_end));
    }
}

#[test]
fn a_call_that_is_answered_while_the_caller_drains_begins_no_session() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.run_for(Duration::from_millis(100));
    let now = world.time.now();
    world.gateways[1].endpoint.drain(now);
    assert!(world.gateways[1].endpoint.is_drained(now));
    world.run_for(Duration::from_secs(5));
    assert_eq!(
        (world.gateways[0].state(0), world.gateways[1].state(0)),
        (PeerState::Connecting, PeerState::Connecting)
    );
}

#[test]
fn what_has_arrived_when_a_drained_gateway_ends_is_acknowledged_with_its_end() {
    for seed in 1..=60 {
        // The datagram that acknowledged it may be lost.
        let mut world = connected(0.2, seed, 1);
        let now = world.time.now();
        world.send(1, 0, 3_000);
        world.gateways[0].endpoint.drain(now);
        let is_drained = |world: &World| world.gateways[0].endpoint.is_drained(world.time.now());
        assert!(world.run_until(Duration::from_secs(20), is_drained));
        let now = world.time.now();
        world.gateways[0].endpoint.close(now);
        world.run_for(Duration::from_secs(3));
        assert_eq!((resets(&world, 0), resets(&world, 1)), (0, 0), "seed {seed}");
    }
}
