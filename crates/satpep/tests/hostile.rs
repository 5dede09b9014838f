//! What strangers and liars send: counted by reason, dropped, never answered with more than they sent, and no state.

use crate::world::{Datagram, Hop, World, address, clear, key};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use satpep::{Drops, Endpoint, EndpointConfig, Event, Mode, PeerState};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use units::{Duration, Instant, Rate};

/// Kinds of datagram, by their first byte.
const INIT: u8 = 1;
const RESPONSE: u8 = 2;
const DATA: u8 = 4;

fn stranger() -> SocketAddr {
    "203.0.113.9:4500".parse().expect("address")
}

fn total(drops: &Drops) -> u64 {
    drops.by_reason().iter().map(|(_, count)| count).sum()
}

/// Everything that an endpoint has to send at once: where to, and how many bytes.
fn answers(endpoint: &mut Endpoint, now: Instant) -> Vec<(SocketAddr, usize)> {
    let mut buffer = vec![0; 65_536];
    let mut sent = Vec::new();
    endpoint.handle_timeout(now);
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer) {
        sent.push((transmit.to, transmit.size));
    }
    sent
}

/// A hub that waits to be called by the gateway of key 1, at the time that it returns.
fn hub(mode: Mode) -> (Endpoint, Instant) {
    let now = Instant::from_nanos(1_000_000_000);
    let rate = Rate::from_bps(6_000_000);
    let mut config = EndpointConfig::new(key(0), rate, rate, Duration::from_millis(550));
    config.mode = mode;
    let mut endpoint = Endpoint::new(config, now, 1 << 60, [7; 32]);
    endpoint.add_peer(now, satpep::PeerConfig::new(key(1).public_key(), None)).expect("peer");
    (endpoint, now)
}

/// All datagrams of a connection's first seconds with a transfer each way, and the world after them.
fn conversation(mode: Mode) -> (Vec<Datagram>, World) {
    let mut world = World::with(Hop::geo(0.0, 1), 1, move |config| config.mode = mode);
    world.capture = Some(Vec::new());
    world.connect();
    world.send(0, 0, 50_000);
    world.send(1, 0, 50_000);
    world.run_for(Duration::from_secs(4));
    let captured = world.capture.take().expect("capturing");
    assert!(captured.iter().any(|datagram| datagram.bytes[0] == DATA));
    (captured, world)
}

/// Hands `bytes` from `from` to the gateway and checks that it was dropped, without an answer to it and without events.
fn must_drop(world: &mut World, index: usize, from: SocketAddr, bytes: &[u8]) -> &'static str {
    let now = world.time.now();
    let gateway = &mut world.gateways[index];
    let (before, peer) = (gateway.endpoint.stats().clone(), gateway.peers[0]);
    let (streams, home) = (gateway.stats(now, 0).streams, gateway.endpoint.peer_address(peer));
    gateway.endpoint.handle_datagram(now, from, &mut bytes.to_vec());
    let after = gateway.endpoint.stats().clone();
    assert_eq!(after.received_packets, before.received_packets);
    assert_eq!(total(&after.dropped), total(&before.dropped) + 1, "every datagram counts once");
    assert_eq!(gateway.endpoint.poll_event(), None);
    assert_eq!(gateway.stats(now, 0).streams, streams);
    assert_eq!(gateway.endpoint.peer_address(peer), home, "a forgery moves nobody");
    let to_sender = answers(&mut gateway.endpoint, now).into_iter().filter(|(to, _)| *to == from).count();
    assert_eq!(to_sender, 0, "an answer to {:?}", &bytes[..bytes.len().min(12)]);
    let reasons = after.dropped.by_reason().into_iter().zip(before.dropped.by_reason());
    reasons.into_iter().find(|((_, after), (_, before))| after != before).expect("counted").0.0
}

#[test]
fn every_replay_flip_and_truncation_of_a_conversation_is_dropped_by_reason() {
    for mode in [Mode::Encrypted, Mode::Clear] {
        let (captured, mut world) = conversation(mode);
        let index_of = |address: SocketAddr| usize::from(address != crate::world::address(0));
        for (at, datagram) in captured.iter().enumerate() {
            let index = index_of(datagram.to);
            let reason = must_drop(&mut world, index, stranger(), &datagram.bytes);
            let expected: &[&str] = match datagram.bytes[0] {
                INIT => &["replayed"],
                RESPONSE => &["unknown_session"],
                _ => &["replayed"],
            };
            assert!(expected.contains(&reason), "{reason} for a replay of kind {}", datagram.bytes[0]);

            let mut flipped = datagram.bytes.clone();
            let place = (at * 7919) % flipped.len();
            flipped[place] ^= 1 << (at % 8);
            must_drop(&mut world, index, stranger(), &flipped);

            let kept = (at * 6007) % datagram.bytes.len();
            must_drop(&mut world, index, stranger(), &datagram.bytes[..kept]);
            let longer = [&datagram.bytes[..], &[0]].concat();
            must_drop(&mut world, index, stranger(), &longer);
            // To the side that sent it.
            must_drop(&mut world, 1 - index, stranger(), &datagram.bytes);
        }
        // The session is none the worse.
        let id = world.send(0, 0, 20_000);
        assert!(world.run_until(Duration::from_secs(5), |world| world.is_finished(1, id)));
    }
}

#[test]
fn flips_at_every_place_of_the_handshake_are_dropped() {
    let (captured, _) = conversation(Mode::Encrypted);
    let init = captured.iter().find(|datagram| datagram.bytes[0] == INIT).expect("an init");
    let (mut hub, now) = hub(Mode::Encrypted);
    for place in 0..init.bytes.len() * 8 {
        let mut flipped = init.bytes.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        let before = total(&hub.stats().dropped);
        hub.handle_datagram(now, stranger(), &mut flipped);
        // The last field proves the address under load, and means nothing at other times.
        if place / 8 < init.bytes.len() - 16 {
            assert_eq!(total(&hub.stats().dropped), before + 1, "bit {place}");
            assert_eq!(answers(&mut hub, now), [], "bit {place}");
        }
        let _ = answers(&mut hub, now);
    }
}

#[test]
fn a_knock_is_not_malformed_and_not_answered() {
    let (mut hub, now) = hub(Mode::Encrypted);
    hub.handle_datagram(now, stranger(), &mut [0]);
    let dropped = &hub.stats().dropped;
    assert_eq!((dropped.knock, dropped.malformed), (1, 0));
    assert_eq!(answers(&mut hub, now), []);
}

#[test]
fn the_wrong_length_or_kind_is_malformed() {
    let (mut hub, now) = hub(Mode::Encrypted);
    for (count, bytes) in
        [vec![], vec![0, 0], vec![9; 300], vec![DATA; 5], vec![INIT; 195], vec![RESPONSE; 3], vec![3; 71]]
            .iter()
            .enumerate()
    {
        hub.handle_datagram(now, stranger(), &mut bytes.clone());
        assert_eq!(hub.stats().dropped.malformed, count as u64 + 1, "{bytes:?}");
    }
    assert_eq!(answers(&mut hub, now), []);
}

#[test]
fn a_gateway_with_an_unknown_key_gets_no_answer() {
    let (mut hub, now) = hub(Mode::Encrypted);
    let rate = Rate::from_bps(6_000_000);
    let config = EndpointConfig::new(key(5), rate, rate, Duration::from_millis(550));
    let mut unknown = Endpoint::new(config, now, 1 << 60, [8; 32]);
    unknown.add_peer(now, satpep::PeerConfig::new(key(0).public_key(), Some(address(0)))).expect("peer");
    unknown.handle_timeout(now);
    let mut buffer = vec![0; 1500];
    let transmit = unknown.poll_transmit(now, &mut buffer).expect("it calls");
    hub.handle_datagram(now, stranger(), &mut buffer[..transmit.size]);
    assert_eq!(hub.stats().dropped.stranger, 1);
    assert_eq!(answers(&mut hub, now), []);
}

#[test]
fn a_captured_handshake_is_answered_once_with_no_more_and_opens_no_session() {
    let (captured, _) = conversation(Mode::Encrypted);
    let init = captured.iter().find(|datagram| datagram.bytes[0] == INIT).expect("an init");
    // A hub that restarted has forgotten the timestamp: it may answer, with no more than it was sent, and that is all.
    let (mut hub, now) = hub(Mode::Encrypted);
    hub.handle_datagram(now, stranger(), &mut init.bytes.clone());
    let sent = answers(&mut hub, now);
    assert!(sent.len() == 1 && sent[0].1 <= init.bytes.len(), "{sent:?}");
    assert_eq!(hub.poll_event(), None);
    assert_eq!(hub.stats().handshakes, 0);
    for datagram in captured.iter().filter(|datagram| datagram.to == address(0)) {
        hub.handle_datagram(now, stranger(), &mut datagram.bytes.clone());
    }
    assert_eq!(answers(&mut hub, now), []);
    assert_eq!(hub.poll_event(), None);
    assert_eq!((hub.stats().handshakes, hub.stats().received_packets), (0, 0));
}

#[test]
fn a_forged_response_does_not_spoil_the_handshake_under_way() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    let forged = Rc::new(RefCell::new(0));
    let count = Rc::clone(&forged);
    world.tamper = Some(Box::new(move |datagram| {
        let mut sent = vec![datagram.clone()];
        if datagram.bytes[0] == RESPONSE {
            for place in [20, datagram.bytes.len() - 40] {
                let mut forgery = datagram.clone();
                forgery.bytes[place] ^= 1;
                sent.insert(0, forgery);
                *count.borrow_mut() += 1;
            }
        }
        sent
    }));
    world.connect();
    assert!(*forged.borrow() > 0);
    assert_eq!(world.gateways[1].endpoint.stats().handshakes, 1);
    let at = world.gateways[1].first(|event| matches!(event, Event::PeerUp(_))).expect("up");
    // A round trip for the handshake and one for the first datagrams, from 1 s on.
    assert!(at.as_secs_f64() < 2.2, "{at:?}: the first response counted");
}

#[test]
fn clear_and_encrypted_gateways_never_talk() {
    let adjust = |index, config: &mut EndpointConfig| {
        if index == 1 {
            clear(config);
        }
    };
    let mut world = World::with_each(Hop::geo(0.0, 1), 1, adjust, |_, _, _| {});
    world.run_for(Duration::from_secs(20));
    for gateway in &world.gateways {
        assert_eq!(gateway.state(0), PeerState::Connecting);
        assert_eq!(gateway.endpoint.stats().received_packets, 0);
    }
    let stats = world.gateways[0].endpoint.stats();
    assert!(stats.dropped.mode_mismatch > 2);
    assert!(stats.sent_packets <= stats.dropped.mode_mismatch, "one notice for each init");
    for (gateway, ours) in world.gateways.iter().zip([Mode::Encrypted, Mode::Clear]) {
        let trouble = gateway.endpoint.peer_trouble(world.time.now(), gateway.peers[0]);
        assert_eq!(trouble, Some(satpep::Trouble::OtherMode { ours }));
    }
}

#[test]
fn someone_on_the_way_who_changes_the_mode_gets_no_session() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.tamper = Some(Box::new(|datagram| {
        let mut changed = datagram.clone();
        if changed.bytes[0] == INIT {
            changed.bytes[1] = 2;
        }
        vec![changed]
    }));
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.gateways[0].state(0), PeerState::Connecting);
    assert_eq!(world.gateways[0].endpoint.stats().sent_packets, 0);
}

#[test]
fn data_of_a_clear_session_is_readable_and_that_of_an_encrypted_one_is_not() {
    for mode in [Mode::Encrypted, Mode::Clear] {
        let mut world = World::with(Hop::geo(0.0, 1), 1, move |config| config.mode = mode);
        world.connect();
        world.capture = Some(Vec::new());
        let (now, peer) = (world.time.now(), world.gateways[0].peers[0]);
        let id = world.gateways[0].endpoint.open(now, peer).expect("open");
        world.gateways[1].stalled.push(id.number());
        world.gateways[0].endpoint.write(now, id, b"a very recognisable text");
        world.run_for(Duration::from_secs(1));
        let captured = world.capture.take().expect("capturing");
        let seen = captured.iter().any(|datagram| datagram.bytes.windows(12).any(|window| window == b"recognisable"));
        assert_eq!(seen, mode == Mode::Clear);
    }
}

/// `count` handshakes a second from a peer of the hub's own, as a flood from forged addresses would look.
fn flooded_world(per_second: u64, seconds: u64) -> (World, u64, u64) {
    // An attacker who knows the hub's public key can make inits that cost it work, whatever their content.
    let (captured, _) = conversation(Mode::Encrypted);
    let init = captured.iter().find(|datagram| datagram.bytes[0] == INIT).expect("an init").bytes.clone();
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.unreachable.push(1);
    let (mut received, mut answered) = (0, 0);
    for tick in 0..per_second * seconds {
        // The legitimate peer appears when the flood runs.
        if tick == per_second * 2 {
            world.unreachable.clear();
        }
        let now = world.time.now();
        let from = SocketAddr::from(([203, 0, 113, (tick % 250) as u8], 1000 + (tick % 60_000) as u16));
        world.gateways[0].endpoint.handle_datagram(now, from, &mut init.clone());
        received += init.len() as u64;
        let mut buffer = vec![0; 1500];
        // Answers to others go on the link with the next step.
        while let Some(transmit) = world.gateways[0].endpoint.poll_transmit(now, &mut buffer) {
            if transmit.to == from {
                answered += transmit.size as u64;
                assert!(transmit.size <= init.len(), "an answer longer than what provoked it");
            } else {
                assert_eq!(transmit.to, address(1));
                world.put_on_link(0, transmit.to, &buffer[..transmit.size]);
            }
        }
        world.run_for(Duration::from_nanos(1_000_000_000 / per_second));
    }
    (world, received, answered)
}

#[test]
fn under_a_flood_cookies_are_asked_for_and_a_peer_with_one_still_connects() {
    for (per_second, seconds) in [(60, 8), (1000, 20)] {
        let (world, received, answered) = flooded_world(per_second, seconds);
        let stats = world.gateways[0].endpoint.stats();
        assert!(stats.cookies_sent > 0 && stats.dropped.flood > 0, "{stats:?}");
        assert!(answered < received / 2, "{answered} bytes to strangers for {received}");
        assert_eq!(world.gateways[0].state(0), PeerState::Up, "under {per_second} handshakes a second");
        assert_eq!(world.gateways[1].state(0), PeerState::Up);
    }
}

#[test]
fn without_a_flood_there_are_no_cookies() {
    let (_, world) = conversation(Mode::Encrypted);
    assert_eq!(world.gateways[0].endpoint.stats().cookies_sent, 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn random_datagrams_are_counted_once_and_never_answered(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..6
    ) {
        let (mut hub, now) = hub(Mode::Encrypted);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        hub.handle_datagram(now, stranger(), &mut bytes);
        prop_assert_eq!(total(&hub.stats().dropped), 1);
        prop_assert_eq!(hub.stats().received_packets, 0);
        prop_assert_eq!(hub.poll_event(), None);
        prop_assert_eq!(answers(&mut hub, now), []);
    }
}

/// Per cent of the datagrams that suffer each kind of mischief.
#[derive(Debug, Clone)]
struct Mischief {
    seed: u64,
    drop: u64,
    duplicate: u64,
    delay: u64,
    flip: u64,
    truncate: u64,
    replay: u64,
}

impl Mischief {
    /// Someone on the way who does all that while `active` says so.
    fn tamper(self, active: Rc<RefCell<bool>>) -> crate::world::Tamper {
        let (mut count, mut held, mut old) = (0u64, Vec::<Datagram>::new(), Vec::<Datagram>::new());
        Box::new(move |datagram| {
            let mut out = Vec::new();
            if !*active.borrow() {
                out.append(&mut held);
                out.push(datagram.clone());
                return out;
            }
            count += 1;
            let chance =
                |salt: u64, per_cent: u64| units::mix(self.seed ^ units::mix(count * 16 + salt)) % 100 < per_cent;
            if chance(1, self.drop) {
                return out;
            }
            let mut changed = datagram.clone();
            if chance(2, self.flip) {
                let at = (units::mix(count) as usize) % (changed.bytes.len() * 8);
                changed.bytes[at / 8] ^= 1 << (at % 8);
            }
            if chance(3, self.truncate) {
                let length = (units::mix(count + 1) as usize) % changed.bytes.len();
                changed.bytes.truncate(length);
            }
            if chance(4, self.delay) {
                held.push(changed);
            } else {
                out.push(changed);
                if chance(5, 30) {
                    // What was held back leaves late, newest first.
                    while let Some(late) = held.pop() {
                        // Links are one way: each goes out with its own direction's next.
                        if late.to == datagram.to { out.push(late) } else { old.push(late) }
                    }
                }
            }
            if chance(6, self.duplicate) {
                out.push(datagram.clone());
            }
            if chance(7, self.replay) && !old.is_empty() {
                out.push(old[units::mix(count) as usize % old.len()].clone());
            }
            old.push(datagram.clone());
            if old.len() > 300 {
                old.remove(units::mix(count) as usize % 300);
            }
            out
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 16,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The world's readers check every byte as it comes, so that what is delivered is always the right prefix.
    #[test]
    fn mischief_on_the_way_never_panics_never_delivers_wrong_bytes_and_ends_well(
        seed in any::<u64>(), drop in 0u64..30, duplicate in 0u64..30, delay in 0u64..30, flip in 0u64..20,
        truncate in 0u64..10, replay in 0u64..20, in_clear in any::<bool>(),
        sizes in proptest::collection::vec(0u64..120_000, 1..5)
    ) {
        let mischief = Mischief { seed, drop, duplicate, delay, flip, truncate, replay };
        let mut hop = Hop::geo(1e-3, seed);
        hop.reorder = Some(link::Reorder {
            probability: units::Probability::new(0.02).expect("probability"),
            extra_delay: Duration::from_millis(15),
        });
        let mut world = World::with(hop, 1, move |config| if in_clear { clear(config) });
        let active = Rc::new(RefCell::new(true));
        world.tamper = Some(mischief.tamper(Rc::clone(&active)));
        world.connect();
        let mut ids = Vec::new();
        for size in &sizes {
            for index in 0..2 {
                if world.gateways[index].state(0) == PeerState::Up {
                    ids.push((1 - index, *size, world.send(index, 0, *size)));
                }
            }
            world.run_for(Duration::from_millis(700));
        }
        world.run_for(Duration::from_secs(4));
        *active.borrow_mut() = false;
        let done = world.run_until(Duration::from_secs(60), |world| {
            ids.iter().all(|(to, size, id)| {
                world.received(*to, *id).is_some_and(|received| received.finished && received.bytes == *size)
            })
        });
        prop_assert!(done, "not all transfers ended");
        for gateway in &world.gateways {
            prop_assert_eq!(gateway.count(|event| matches!(event, Event::Reset(..))), 0);
        }
    }
}
