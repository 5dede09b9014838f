//! A hub and its terminals on one shared link.

use crate::world::{Hop, World, jain};
use satpep::{Cipher, PeerState};
use units::{Bytes, Duration, Instant, Rate};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Goodput to each terminal over `time`, in bytes a second, with two endless streams to each.
fn goodputs(world: &mut World, time: Duration) -> Vec<f64> {
    let terminals = world.gateways.len() - 1;
    for terminal in 0..terminals {
        for _ in 0..2 {
            world.send(0, terminal, 1 << 40);
        }
    }
    world.run_for(seconds(2));
    let totals = |world: &World| -> Vec<u64> {
        let terminals = world.gateways[1..].iter();
        terminals.map(|terminal| terminal.received.values().map(|received| received.bytes).sum()).collect()
    };
    let before = totals(world);
    world.run_for(time);
    let after = totals(world);
    after.iter().zip(before).map(|(after, before)| (after - before) as f64 / time.as_secs_f64()).collect()
}

/// Goodput of a link of this rate in full packets, in bytes a second.
fn limit(hop: &Hop) -> f64 {
    hop.rate.as_bps() as f64 / 8.0 * 1448.0 / 1500.0 * (1.0 - hop.loss)
}

#[test]
fn ten_terminals_with_two_streams_each_share_the_link_alike_and_fill_it() {
    let mut world = World::new(Hop::geo(1e-3, 41), 10);
    world.connect();
    let shares = goodputs(&mut world, seconds(40));
    assert!(jain(&shares) >= 0.98, "{shares:?}");
    let sum: f64 = shares.iter().sum();
    assert!(sum >= 0.95 * limit(&world.hop), "{sum} of {}", limit(&world.hop));
    // Both streams of a terminal get the same.
    for terminal in &world.gateways[1..] {
        let streams: Vec<f64> = terminal.received.values().map(|received| received.bytes as f64).collect();
        assert!(streams.len() == 2 && jain(&streams) >= 0.98, "{streams:?}");
    }
}

#[test]
fn weights_divide_the_link() {
    let weighted = |index, other, peer: &mut satpep::PeerConfig| {
        if index == 0 {
            peer.weight = other as u32;
        }
    };
    let mut world = World::with_each(Hop::geo(1e-3, 42), 3, |_, _| {}, weighted);
    world.connect();
    let shares = goodputs(&mut world, seconds(30));
    // Trains are as long to all: over ten seeds the least weight gets 1.03 to 1.07 times its share.
    let is_near = |share: f64, weight: f64| (share / shares[0] / weight - 1.0).abs() < 0.07;
    assert!(is_near(shares[1], 2.0) && is_near(shares[2], 3.0), "{shares:?}");
    assert!(shares.iter().sum::<f64>() >= 0.95 * limit(&world.hop));
}

#[test]
fn a_peers_cap_holds_and_the_others_get_the_rest() {
    let cap = Rate::from_bps(500_000);
    let capped = move |index, other, peer: &mut satpep::PeerConfig| {
        if index == 0 && other == 1 {
            peer.cap = Some(cap);
        }
    };
    let mut world = World::with_each(Hop::geo(1e-3, 43), 3, |_, _| {}, capped);
    world.connect();
    let shares = goodputs(&mut world, seconds(30));
    let capped_share = shares[0] * 8.0 / cap.as_bps() as f64;
    assert!(capped_share <= 1.0 && capped_share > 0.9, "{capped_share} of the cap");
    assert!(jain(&shares[1..]) > 0.99, "{shares:?}");
    assert!(shares.iter().sum::<f64>() >= 0.95 * limit(&world.hop), "{shares:?}");
}

#[test]
fn a_cap_below_the_fair_share_is_reached_though_others_take_turns() {
    let hop = Hop::geo(1e-3, 49);
    let cap = hop.rate.mul_f64(0.095);
    let capped = move |index, other, peer: &mut satpep::PeerConfig| {
        if index == 0 && other == 1 {
            peer.cap = Some(cap);
        }
    };
    let mut world = World::with_each(hop, 10, |_, _| {}, capped);
    world.connect();
    let shares = goodputs(&mut world, seconds(30));
    let capped_share = shares[0] * 8.0 / cap.as_bps() as f64;
    assert!(capped_share <= 1.0 && capped_share > 0.9, "{capped_share} of the cap");
    assert!(jain(&shares[1..]) > 0.99, "{shares:?}");
}

#[test]
fn both_directions_run_at_the_links_rate_at_the_same_time() {
    let mut world = World::new(Hop::geo(1e-3, 44), 4);
    world.connect();
    let back: Vec<_> = (1..=4).map(|terminal| world.send(terminal, 0, 1 << 40)).collect();
    let shares = goodputs(&mut world, seconds(20));
    assert!(shares.iter().sum::<f64>() >= 0.93 * limit(&world.hop), "{shares:?}");
    // Each terminal sends at its quarter of the return link, for 22 s less half a round trip.
    for (index, id) in back.iter().enumerate() {
        let received = world.gateways[0].received.iter();
        let bytes: u64 = received
            .filter(|(own, _)| own.number() == id.number() && own.peer() == world.gateways[0].peers[index])
            .map(|(_, received)| received.bytes)
            .sum();
        let share = bytes as f64 / 21.7 / (limit(&world.hop) / 4.0);
        assert!(share > 0.9, "terminal {index} sends at {share} of its rate");
    }
}

#[test]
fn a_terminal_out_of_reach_harms_no_other() {
    let mut world = World::new(Hop::geo(1e-3, 45), 5);
    world.connect();
    world.unreachable.push(5);
    let shares = goodputs(&mut world, seconds(30));
    assert_eq!(world.gateways[0].state(4), PeerState::Unresponsive);
    assert_eq!(shares[4], 0.0);
    assert!(jain(&shares[..4]) > 0.98, "{shares:?}");
    // What was sent into the void before it became unresponsive is bounded by the credits of its two streams.
    assert!(shares.iter().sum::<f64>() >= 0.9 * limit(&world.hop), "{shares:?}");
    world.unreachable.clear();
    assert!(world.run_until(seconds(10), |world| world.gateways[0].state(4) == PeerState::Up));
}

#[test]
fn a_dead_terminals_share_goes_to_the_other_and_comes_back_at_once() {
    let hop = Hop { rate: Rate::from_bps(10_000_000), ..Hop::geo(1e-3, 47) };
    let (rtt, whole) = (hop.rtt, limit(&hop));
    let mut world = World::new(hop, 2);
    world.connect();
    let shares = goodputs(&mut world, seconds(5));
    assert!(shares.iter().all(|share| (0.45..0.52).contains(&(share / whole))), "before: {shares:?}");
    let bytes = |world: &World, terminal: usize| -> u64 {
        world.gateways[terminal].received.values().map(|received| received.bytes).sum()
    };
    let share = |world: &mut World, terminal: usize, time: Duration| {
        let before = bytes(world, terminal);
        world.run_for(time);
        (bytes(world, terminal) - before) as f64 / time.as_secs_f64() / whole
    };
    world.unreachable.push(2);
    // What the hub sends from two round trips on arrives half a round trip later.
    world.run_for(rtt * 5 / 2);
    let during = share(&mut world, 1, seconds(10));
    assert!(during >= 0.97, "{during} of the link while the other terminal is dead");
    let sent = world.gateways[0].stats(world.time.now(), 1).sent_packets;
    world.run_for(seconds(10));
    assert!(world.gateways[0].stats(world.time.now(), 1).sent_packets - sent < 50, "probes");
    world.unreachable.clear();
    world.run_for(rtt * 3);
    let after = share(&mut world, 2, seconds(5));
    assert!((0.45..0.55).contains(&after), "{after} of the link after its return");
    assert!(share(&mut world, 1, seconds(5)) >= 0.45);
}

#[test]
fn many_greedy_peers_hold_no_more_than_the_hubs_memory_and_share_it() {
    const MEMORY: u64 = 16 << 20;
    let rate = Rate::from_bps(400_000_000);
    let hop = Hop { rate, return_rate: rate, ..Hop::geo(1e-3, 48) };
    let mut world = World::with_each(
        hop,
        20,
        |index, config| config.memory = (index == 0).then_some(units::Bytes::new(MEMORY)),
        |_, _, _| {},
    );
    world.connect();
    world.gateways[0].stalled = (0..100).collect();
    // One alone may have far more than its part of what is reserved.
    let first: Vec<_> = (0..4).map(|_| world.send(1, 0, 1_200_000)).collect();
    world.run_for(seconds(8));
    let held = |world: &World| -> Vec<u64> {
        (0..20).map(|peer| world.gateways[0].stats(world.time.now(), peer).receive_buffered).collect()
    };
    let alone = held(&world)[0];
    assert!(alone >= MEMORY / 4 / 20 * 3 / 2, "{alone} bytes held of the only one that sends");
    for terminal in 2..=20 {
        for _ in 0..4 {
            world.send(terminal, 0, 1_200_000);
        }
    }
    world.run_for(seconds(8));
    let (held, stats) = (held(&world), world.gateways[0].endpoint.memory_stats());
    assert!(held.iter().sum::<u64>() <= MEMORY / 2 && stats.granted <= MEMORY / 2, "{held:?} {stats:?}");
    // Streams that nobody reads leave a fifth of the session's part to others.
    assert!(held.iter().all(|held| *held >= MEMORY / 4 / 20 * 3 / 4), "{held:?}");
    assert_eq!(world.gateways[0].endpoint.stats().violations, 0, "what was granted is not retracted");
    // And what is read makes room again.
    world.gateways[0].stalled.clear();
    let now = world.time.now();
    let streams: Vec<_> = world.gateways[0].received.keys().copied().collect();
    streams.into_iter().for_each(|id| world.gateways[0].read(now, id));
    assert!(world.run_until(seconds(200), |world| {
        let peer = world.gateways[0].peers[0];
        let done = |id: &satpep::StreamId| {
            let mut received = world.gateways[0].received.iter();
            received.any(|(own, received)| own.peer() == peer && own.number() == id.number() && received.finished)
        };
        first.iter().all(done)
    }));
}

#[test]
fn a_terminal_that_says_everything_was_lost_takes_no_more_than_its_share() {
    let mut world = World::new(Hop::geo(0.0, 43), 2);
    world.connect();
    // Whether it lies or not is all the same to the hub: every datagram of data is asked for again, without end.
    world.tamper = Some(Box::new(|datagram| {
        let dropped = datagram.to == crate::world::address(1) && datagram.bytes.len() > 300;
        if dropped { Vec::new() } else { vec![datagram.clone()] }
    }));
    let shares = goodputs(&mut world, seconds(30));
    assert_eq!(shares[0], 0.0);
    assert!(shares[1] >= 0.47 * limit(&world.hop), "{shares:?}");
    let stats = world.gateways[0].stats(world.time.now(), 0);
    assert!(stats.lost_packets > 1000 && stats.send_buffered <= 32 << 20, "{stats:?}");
}

#[test]
fn room_is_left_for_traffic_outside_the_sessions() {
    // There is no such traffic: an estimate would find out.
    let fixed = |_, config: &mut satpep::EndpointConfig| config.capacity_is_fixed = true;
    let mut world = World::with_each(Hop::geo(0.0, 46), 2, fixed, |_, _, _| {});
    world.connect();
    let now = world.time.now();
    world.gateways[0].endpoint.set_cross_traffic(now, Rate::from_bps(2_000_000), Bytes::ZERO);
    let shares = goodputs(&mut world, seconds(20));
    let sum: f64 = shares.iter().sum();
    let expected = limit(&world.hop) * 4.0 / 6.0;
    assert!(sum > 0.95 * expected && sum < expected, "{sum} of {expected}");
    world.gateways[0].endpoint.set_capacity(world.time.now(), Rate::from_bps(3_000_000));
    let sent = world.forward_bytes();
    world.run_for(seconds(10));
    let rate = (world.forward_bytes() - sent) as f64 * 8.0 / 10.0;
    assert!(rate < 1_000_000.0 && rate > 900_000.0, "{rate} bit/s");
}

/// A call, or what answers pings, is far from the share that the policy leaves it: it fills no queue, so that one that grows is ours.
#[test]
fn a_trickle_of_other_traffic_does_not_hide_that_the_link_has_faded() {
    let at = seconds(31);
    let faded = Rate::from_bps(2_000_000);
    let hop = Hop { change: Some((at, faded)), ..Hop::geo(0.0, 50) };
    let mut world = World::with(hop, 1, |config| config.cross_traffic = satpep::CrossTrafficPolicy::Fair);
    world.connect();
    world.send(0, 0, 1 << 40);
    let mut total = Bytes::ZERO;
    let mut run = |world: &mut World, periods: u32| {
        for _ in 0..periods {
            let now = world.time.now();
            world.gateways[0].endpoint.set_cross_traffic(now, Rate::from_bps(50_000), total);
            total += Bytes::new(625);
            world.run_for(Duration::from_millis(100));
        }
    };
    while world.time.now() < Instant::ZERO + at + seconds(2) {
        run(&mut world, 1);
    }
    let sent = world.forward_bytes();
    run(&mut world, 50);
    let share = (world.forward_bytes() - sent) as f64 * 8.0 / 5.0 / faded.as_bps() as f64;
    assert!((0.8..1.02).contains(&share), "{share} of what the link carries");
}

#[test]
fn each_terminal_that_begins_a_session_chooses_its_cipher() {
    let of = |terminal: usize| if terminal == 1 { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 };
    // The hub's own choice counts for nothing: it answers.
    let mut world =
        World::with_each(Hop::geo(0.0, 43), 2, move |index, config| config.cipher = of(index), |_, _, _| {});
    world.connect();
    let now = world.time.now();
    for terminal in 1..=2 {
        let [hub, its] = [(0, terminal - 1), (terminal, 0)].map(|(index, peer)| {
            let gateway = &world.gateways[index];
            gateway.endpoint.peer_stats(now, gateway.peers[peer]).cipher
        });
        assert_eq!((hub, its), (Some(of(terminal)), Some(of(terminal))), "{terminal}");
    }
}

/// As a modem reports it when the rain is over. What was sent before says how the link was.
#[test]
fn a_rise_that_is_reported_under_load_is_followed_within_a_round_trip() {
    const SLOW: Rate = Rate::from_bps(2_000_000);
    const FAST: Rate = Rate::from_bps(8_000_000);
    let at = seconds(31);
    for (before, after) in [(SLOW, FAST), (Rate::from_bps(5_000_000), FAST)] {
        let hop = Hop { rate: before, change: Some((at, after)), ..Hop::geo(0.0, 47) };
        let mut world = World::new(hop, 1);
        world.connect();
        world.send(0, 0, 100_000_000);
        let received = |world: &World| world.gateways[1].received.values().map(|stream| stream.bytes).sum::<u64>();
        world.run_for(at - world.time.now().since(Instant::ZERO));
        world.gateways[0].endpoint.set_capacity(world.time.now(), after);
        // Half a round trip later arrives what was sent then.
        world.run_for(Duration::from_millis(275));
        let rates: Vec<f64> = (0..6)
            .map(|_| {
                let start = received(&world);
                world.run_for(Duration::from_millis(550));
                (received(&world) - start) as f64 * 8.0 / 0.55e6
            })
            .collect();
        println!("{before} to {after}: {rates:.1?} Mbit/s");
        let share = |rate: &f64| rate / (after.as_bps() as f64 / 1e6 * 1448.0 / 1500.0);
        assert!(rates.iter().all(|rate| share(rate) > 0.85), "{before} to {after}: {rates:.1?} Mbit/s");
        assert!(rates[2..].iter().all(|rate| share(rate) > 0.97), "{before} to {after}: {rates:.1?} Mbit/s");
    }
}

/// A modem that is wrong by ten, or reports a rise that the link does not have, once or again and again.
#[test]
fn a_rise_that_is_no_rise_costs_little_and_the_next_ones_nothing() {
    for (link, said) in [(6, 60), (6, 12), (2, 8)] {
        let [rate, wrong] = [link, said].map(|mbit| Rate::from_bps(mbit * 1_000_000));
        let mut world = World::new(Hop { rate, ..Hop::geo(0.0, 48) }, 1);
        world.connect();
        world.send(0, 0, 100_000_000);
        world.run_for(seconds(25));
        let received = |world: &World| world.gateways[1].received.values().map(|stream| stream.bytes).sum::<u64>();
        let mut told = |times: usize| {
            let (sent, before) = (world.forward_bytes(), received(&world));
            for _ in 0..times {
                for said in [wrong, rate] {
                    world.gateways[0].endpoint.set_capacity(world.time.now(), said);
                    world.run_for(seconds(10) / (2 * times as u64));
                }
            }
            let arrived = (received(&world) - before) as f64;
            (arrived / (10.0 * limit(&world.hop)), (world.forward_bytes() - sent) as f64 / arrived)
        };
        let [(once, once_sent), (often, often_sent)] = [1, 4].map(&mut told);
        let found = format!("{said} of {link} Mbit/s: {once:.3} ({once_sent:.3}), often {often:.3} ({often_sent:.3})");
        println!("{found}");
        assert!(once > 0.85 && once_sent < 1.25 && often > 0.9 && often_sent < 1.2, "{found}");
    }
}
