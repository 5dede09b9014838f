//! Peers that die, restart, move, renew keys, or are cut off for a while.

use crate::world::{Hop, World};
use satpep::{EndpointConfig, Event, PeerState, ResetReason, StreamId};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Duration, Instant, Rate};

/// Kinds of datagram, by their first byte.
const INIT: u8 = 1;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn connected(loss: f64, seed: u64) -> World {
    connected_with(loss, seed, |_| {})
}

fn connected_with(loss: f64, seed: u64, adjust: impl Fn(&mut EndpointConfig) + 'static) -> World {
    let mut world = World::with(Hop::geo(loss, seed), 1, adjust);
    world.connect();
    for gateway in &world.gateways {
        assert_eq!(gateway.state(0), PeerState::Up);
    }
    world
}

fn is_unresponsive(event: &Event) -> bool {
    matches!(event, Event::PeerUnresponsive(_))
}

fn has_left(event: &Event) -> bool {
    matches!(event, Event::PeerLeft(_))
}

fn is_up(event: &Event) -> bool {
    matches!(event, Event::PeerUp(_))
}

fn resets(world: &World, index: usize) -> Vec<(StreamId, ResetReason)> {
    let events = world.gateways[index].events.iter();
    events
        .filter_map(|(_, event)| if let Event::Reset(id, reason) = event { Some((*id, *reason)) } else { None })
        .collect()
}

#[test]
fn a_dead_peer_is_noticed_within_a_keepalive_and_a_few_round_trips() {
    for busy in [false, true] {
        let mut world = connected_with(0.0, 1, |config| config.keepalive = seconds(2));
        if busy {
            world.send(0, 0, 20_000_000);
            world.run_for(seconds(3));
        }
        let died = world.time.now();
        world.unreachable.push(1);
        assert!(world.run_until(seconds(20), |world| world.gateways[0].state(0) == PeerState::Unresponsive));
        let noticed = world.gateways[0].first(is_unresponsive).expect("unresponsive").since(died);
        // Busy: three round trips after the last datagram that was answered. Idle: after the keepalive (4 s on the side that
        // is called) as well.
        let most = if busy { millis(550 + 1650 + 200) } else { millis(4000 + 550 + 1650 + 200) };
        assert!(noticed >= millis(1650) && noticed <= most, "noticed after {noticed}, busy: {busy}");
    }
}

#[test]
fn an_idle_session_stays_up_for_hours_and_costs_a_packet_in_twenty_seconds_at_most() {
    let mut world = connected(1e-2, 3);
    world.run_for(seconds(10));
    let packets = |world: &World| [0, 1].map(|at| world.gateways[at].endpoint.stats().sent_packets);
    for (time, most) in [(200, 10), (7000, 350)] {
        let before = packets(&world);
        world.run_for(seconds(time));
        let sent = [0, 1].map(|at| packets(&world)[at] - before[at]);
        assert!(sent.iter().all(|sent| (2..=most).contains(sent)), "{sent:?} packets in {time} s");
        for gateway in &world.gateways {
            assert_eq!(gateway.count(is_unresponsive), 0);
            assert_eq!(gateway.state(0), PeerState::Up);
        }
    }
}

#[test]
fn an_idle_terminal_asks_as_often_as_its_nat_forgets() {
    let mut world = connected(0.0, 3);
    // A NAT that forgets after 30 s: the terminal seems to move each time that it was idle for longer.
    let last = Rc::new(RefCell::new((Instant::ZERO, 0)));
    let mut sent = 0;
    for second in 0..1200 {
        let before = world.gateways[1].endpoint.stats().sent_packets;
        let arrived = world.gateways[1].endpoint.stats().received_packets;
        world.run_for(seconds(1));
        let count = world.gateways[1].endpoint.stats().sent_packets - before;
        let (active_at, mapping) = &mut *last.borrow_mut();
        if count > 0 || world.gateways[1].endpoint.stats().received_packets > arrived {
            *active_at = world.time.now();
        } else if world.time.now().since(*active_at) > seconds(30) {
            (*active_at, *mapping) = (world.time.now(), *mapping + 1);
            let address = std::net::SocketAddr::from(([198, 18, 0, 2], 10_000 + *mapping as u16));
            world.gateways[1].address = address;
        }
        if second >= 600 {
            sent += count;
        }
    }
    assert!(last.borrow().1 <= 2, "the mapping was lost {} times", last.borrow().1);
    assert!((15..=40).contains(&sent), "{sent} packets in 600 s");
}

#[test]
fn a_new_stream_to_a_dead_idle_peer_is_noticed_within_a_few_round_trips() {
    let mut world = connected(0.0, 1);
    world.run_for(seconds(8));
    world.unreachable.push(1);
    world.run_for(seconds(5));
    assert_eq!(world.gateways[0].state(0), PeerState::Up, "nobody asked");
    let asked = world.time.now();
    world.write(0, 0, 100);
    assert!(world.run_until(seconds(20), |world| world.gateways[0].state(0) == PeerState::Unresponsive));
    assert!(world.time.now().since(asked) <= millis(1650 + 50), "{}", world.time.now().since(asked));
}

/// Bytes that gateway 0 puts on the link while both ways are cut for `outage`, and how long after its end new bytes arrive.
fn cut(outage: Duration) -> (u64, Duration) {
    let mut world = connected(0.0, 3);
    let id = world.send(0, 0, 1 << 30);
    world.run_for(seconds(5));
    world.outage = true;
    let before = world.gateways[0].endpoint.stats().sent_ip_bytes;
    world.run_for(outage);
    let sent = world.gateways[0].endpoint.stats().sent_ip_bytes - before;
    world.outage = false;
    let (end, bytes) = (world.time.now(), world.received(1, id).expect("receiving").bytes);
    assert!(world.run_until(seconds(5), |world| world.received(1, id).is_some_and(|it| it.bytes > bytes + 20_000)));
    (sent, world.time.now().since(end))
}

#[test]
fn in_an_outage_data_stops_within_one_and_a_half_round_trips_and_is_back_as_soon_after_it() {
    for outage in [millis(1500), seconds(4), seconds(20), seconds(120)] {
        let (sent, back) = cut(outage);
        // 6 Mbit/s for 1.5 round trips, and probes.
        assert!(sent < 620_000 + 400 * outage.as_nanos() / 1_000_000_000, "{sent} bytes into an outage of {outage}");
        // Half a round trip for the first data itself; after minutes the probes are rarer.
        let most = if outage < seconds(60) { 1100 } else { 1300 };
        assert!(back <= millis(most), "{back} after an outage of {outage}");
    }
}

#[test]
fn a_peer_that_is_heard_and_not_reached_is_unresponsive_until_it_is_reached() {
    for both_send in [true, false] {
        let mut world = connected(0.0, 3);
        let is_cut = Rc::new(RefCell::new(false));
        let cut = Rc::clone(&is_cut);
        world.tamper = Some(Box::new(move |datagram| {
            let is_lost = *cut.borrow() && datagram.to == crate::world::address(1);
            if is_lost { Vec::new() } else { vec![datagram.clone()] }
        }));
        let id = world.send(0, 0, 1 << 30);
        if both_send {
            world.send(1, 0, 1 << 30);
        }
        world.run_for(seconds(5));
        *is_cut.borrow_mut() = true;
        // Three round trips after the last packet that arrived was acknowledged; and the peer, which may have nothing to send, asks.
        assert!(world.run_until(millis(6 * 550), |world| world.gateways[0].state(0) == PeerState::Unresponsive));
        // Where the peer has nothing to send, it asks first without saying what has arrived.
        world.run_for(if both_send { millis(10) } else { seconds(4) });
        let sent = world.gateways[0].endpoint.stats().sent_ip_bytes;
        for _ in 0..200 {
            world.run_for(millis(100));
            assert_eq!(world.gateways[0].state(0), PeerState::Unresponsive);
        }
        let sent = world.gateways[0].endpoint.stats().sent_ip_bytes - sent;
        assert!(sent < 50_000, "{sent} bytes into the void in 20 s");
        *is_cut.borrow_mut() = false;
        assert!(world.run_until(millis(2 * 550), |world| world.gateways[0].state(0) == PeerState::Up));
        let bytes = world.received(1, id).expect("receiving").bytes;
        world.run_for(seconds(4));
        assert!(world.received(1, id).expect("receiving").bytes > bytes + 1_000_000);
        world.gateways.iter().for_each(|gateway| assert_eq!(gateway.state(0), PeerState::Up));
    }
}

#[test]
fn lost_answers_alone_stop_no_data() {
    // Three answers of ten are lost, or they come in clumps.
    for clumps in [false, true] {
        let mut world = connected_with(0.0, 4, |config| config.capacity_is_fixed = true);
        let random = units::CounterRandom::new(7, 0);
        let held: RefCell<Vec<crate::world::Datagram>> = RefCell::default();
        let mut count = 0;
        world.tamper = Some(Box::new(move |datagram| {
            if datagram.to != crate::world::address(0) {
                return vec![datagram.clone()];
            }
            count += 1;
            if !clumps {
                return if random.unit_at(count) < 0.3 { Vec::new() } else { vec![datagram.clone()] };
            }
            held.borrow_mut().push(datagram.clone());
            if count % 12 == 0 { held.take() } else { Vec::new() }
        }));
        let start = world.time.now();
        let id = world.send(0, 0, 10_000_000);
        assert!(world.run_until(seconds(60), |world| world.is_finished(1, id)));
        let share =
            world.hop.limit_up(10_000_000) / world.received(1, id).expect("done").last_at.since(start).as_secs_f64();
        assert!(share > 0.97, "{share} of the limit, in clumps: {clumps}");
        assert_eq!(world.gateways[0].count(is_unresponsive), 0);
    }
}

#[test]
fn a_peer_learns_that_this_gateway_stops_although_the_news_is_lost_a_few_times() {
    let mut world = connected(0.0, 1);
    let lost = Rc::new(RefCell::new(0));
    let count = Rc::clone(&lost);
    world.tamper = Some(Box::new(move |datagram| {
        let lose = datagram.to == crate::world::address(1) && *count.borrow() < 3;
        *count.borrow_mut() += u32::from(lose);
        if lose { Vec::new() } else { vec![datagram.clone()] }
    }));
    let now = world.time.now();
    world.gateways[0].endpoint.close(now);
    world.run_for(millis(550));
    assert_eq!(*lost.borrow(), 3);
    assert_eq!(world.gateways[1].state(0), PeerState::Connecting);
    assert!(!world.gateways[0].endpoint.has_closed(), "the answer is in flight");
    world.run_for(millis(300));
    assert!(world.gateways[0].endpoint.has_closed());
    let said = world.gateways[0].endpoint.stats().sent_packets;
    world.run_for(seconds(5));
    assert_eq!(world.gateways[0].endpoint.stats().sent_packets, said, "it was answered");
}

/// Seconds that a transfer each way takes which an outage of that length interrupts after two seconds.
fn interrupted(world: &mut World, outage: Duration) -> f64 {
    let start = world.time.now();
    let ids = [(1, world.send(0, 0, 3_000_000)), (0, world.send(1, 0, 3_000_000))];
    world.run_for(seconds(2));
    world.outage = true;
    world.run_for(outage);
    world.outage = false;
    let done = |world: &World| ids.iter().all(|(to, id)| world.is_finished(*to, *id));
    assert!(world.run_until(seconds(30), done), "not resumed after {outage}");
    for (to, id) in ids {
        assert_eq!(world.received(to, id).map(|received| received.bytes), Some(3_000_000));
    }
    assert_eq!(resets(world, 0).len() + resets(world, 1).len(), 0);
    assert!(world.gateways.iter().all(|gateway| gateway.state(0) == PeerState::Up));
    world.time.now().since(start).as_secs_f64()
}

#[test]
fn an_outage_costs_its_own_time_and_at_most_two_round_trips() {
    for loss in [0.0, 1e-3] {
        for outage in [millis(300), seconds(1), seconds(8), millis(60_123), seconds(590)] {
            // It depends on chance when the last probe in the outage was sent, and whether the first after it is lost.
            let costs = [3, 4, 5, 6].map(|seed| {
                let unbroken = interrupted(&mut connected(loss, seed), Duration::ZERO);
                interrupted(&mut connected(loss, seed), outage) - unbroken - outage.as_secs_f64()
            });
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            println!("loss {loss}, outage {outage}: {costs:.3?} s");
            assert!(mean <= 2.0 * 0.55, "{mean} s for the end of an outage of {outage}");
        }
    }
}

#[test]
fn streams_go_on_with_the_keys_that_they_had() {
    let mut world = connected(0.0, 3);
    let unbroken = interrupted(&mut connected(0.0, 3), Duration::ZERO);
    let handshakes = world.gateways[0].endpoint.stats().handshakes;
    world.tamper =
        Some(Box::new(|datagram| if datagram.bytes[0] == INIT { Vec::new() } else { vec![datagram.clone()] }));
    let took = interrupted(&mut world, seconds(300));
    assert_eq!(world.gateways[0].endpoint.stats().handshakes, handshakes, "every handshake was lost");
    assert!(took - unbroken <= 300.0 + 2.0 * 0.55 + 0.05, "{took} s");
}

#[test]
fn probes_in_an_outage_are_few_and_regular() {
    let mut world = connected(0.0, 3);
    world.write(0, 0, 1000);
    world.outage = true;
    world.run_for(seconds(10));
    let before = world.gateways[0].endpoint.stats().clone();
    world.run_for(seconds(100));
    let after = world.gateways[0].endpoint.stats();
    let packets = after.sent_packets - before.sent_packets;
    let bytes = after.sent_ip_bytes - before.sent_ip_bytes;
    assert!((300..450).contains(&packets) && bytes < 100 * packets, "{packets} packets, {bytes} bytes in 100 s");
}

#[test]
fn a_clock_that_jumps_beyond_the_limit_ends_nothing() {
    let mut world = connected(0.0, 3);
    let id = world.send(0, 0, 2_000_000);
    world.run_for(seconds(1));
    world.time.skip(seconds(3600));
    assert!(world.run_until(seconds(10), |world| world.is_finished(1, id)));
    assert_eq!(resets(&world, 0).len() + resets(&world, 1).len(), 0);
}

#[test]
fn an_outage_longer_than_the_limit_resets_the_streams_and_the_peer_comes_back_by_itself() {
    let mut world = connected_with(0.0, 1, |config| config.outage_limit = seconds(10));
    let id = world.send(0, 0, 20_000_000);
    world.run_for(seconds(2));
    let names: Vec<StreamId> = world.gateways[1].received.keys().copied().collect();
    let start = world.time.now();
    world.outage = true;
    world.run_for(seconds(12));
    assert_eq!(resets(&world, 0), [(id, ResetReason::Outage)]);
    assert_eq!(resets(&world, 1), [(names[0], ResetReason::Outage)]);
    let given_up = |event: &Event| matches!(event, Event::PeerGivenUp(_));
    assert!(world.gateways.iter().all(|gateway| gateway.count(given_up) == 1), "that is said");
    assert!(!world.is_finished(1, id));
    for gateway in &world.gateways {
        let at = gateway.first(|event| matches!(event, Event::Reset(..))).expect("reset").since(start);
        assert!(at >= seconds(9) && at < seconds(12), "{at}");
        assert_ne!(gateway.state(0), PeerState::Up);
    }
    world.run_for(seconds(30));
    world.outage = false;
    assert!(world.run_until(seconds(12), |world| world.gateways.iter().all(|g| g.state(0) == PeerState::Up)));
    let id = world.send(0, 0, 20_000);
    assert!(world.run_until(seconds(3), |world| world.is_finished(1, id)));
}

#[test]
fn a_peer_that_restarts_resets_its_streams_and_serves_new_ones_within_seconds() {
    for restarted in [0, 1] {
        for cut_for in [0, 6] {
            let mut world = connected(1e-3, 9);
            let survivor = 1 - restarted;
            world.send(0, 0, 20_000_000);
            world.send(1, 0, 20_000_000);
            world.run_for(seconds(2));
            world.unreachable.push(restarted);
            world.run_for(seconds(cut_for));
            world.unreachable.clear();
            world.gateways[survivor].events.clear();
            let back = world.time.now();
            world.restart(restarted, 2);
            let up = |world: &World| {
                world.gateways[survivor].count(|event| matches!(event, Event::PeerRestarted(_))) == 1
                    && world.gateways.iter().all(|gateway| gateway.state(0) == PeerState::Up)
            };
            assert!(world.run_until(seconds(10), up), "gateway {restarted} is not back after {cut_for} s");
            let lost = resets(&world, survivor);
            assert!(
                lost.len() == 2 && lost.iter().all(|(_, reason)| *reason == ResetReason::PeerRestarted),
                "{lost:?}"
            );
            assert!(world.time.now().since(back) < seconds(8), "{}", world.time.now().since(back));
            assert!(world.gateways[0].received.values().all(|received| !received.finished));
            let start = world.time.now();
            for (from, to) in [(0, 1), (1, 0)] {
                let id = world.send(from, 0, 10_000);
                assert!(world.run_until(seconds(3), |world| world.is_finished(to, id)));
            }
            assert!(world.time.now().since(start) < seconds(3));
        }
    }
}

/// The survivor begins handshakes of its own after an outage, in the epoch of the session that CLOSE ends.
#[test]
fn a_peer_that_closes_and_restarts_during_a_handshake_keeps_its_new_session() {
    for offset in 0..150 {
        let mut world = connected(0.0, 9);
        world.send(0, 0, 50_000_000);
        world.outage = true;
        world.run_for(seconds(3) + millis(100 * offset));
        world.outage = false;
        let now = world.time.now();
        world.gateways[1].endpoint.close(now);
        world.run_for(millis(5));
        world.restart(1, 2);
        let up = |world: &World| world.gateways.iter().all(|gateway| gateway.state(0) == PeerState::Up);
        assert!(world.run_until(seconds(10), up), "not back, {offset}");
        world.run_for(seconds(10));
        assert_eq!(world.gateways[1].count(|event| matches!(event, Event::PeerRestarted(_))), 0, "{offset}");
    }
}

/// The path reorders: the init of the new process is answered before the CLOSE of the old one arrives.
#[test]
fn a_close_that_the_next_process_overtakes_leaves_the_session_of_that_one() {
    for offset in 0..100 {
        let mut world = connected(0.0, 9);
        world.send(0, 0, 50_000_000);
        world.run_for(seconds(3));
        let now = world.time.now();
        world.gateways[1].endpoint.close(now);
        let mut buffer = vec![0; 65_536];
        let old: Vec<_> = std::iter::from_fn(|| {
            let transmit = world.gateways[1].endpoint.poll_transmit(now, &mut buffer)?;
            Some(buffer[..transmit.size].to_vec())
        })
        .collect();
        assert!(!old.is_empty());
        world.restart(1, 2);
        world.run_for(millis(20 * offset));
        let (now, from) = (world.time.now(), world.gateways[1].address);
        for mut datagram in old {
            world.gateways[0].endpoint.handle_datagram(now, from, &mut datagram);
        }
        let up = |world: &World| world.gateways.iter().all(|gateway| gateway.state(0) == PeerState::Up);
        assert!(world.run_until(seconds(10), up), "not back, {offset}");
        world.run_for(seconds(10));
        assert_eq!(world.gateways[1].count(|event| matches!(event, Event::PeerRestarted(_))), 0, "{offset}");
    }
}

/// Bytes that arrive on the other side in each of `count` seconds.
fn bytes_by_second(world: &mut World, id: StreamId, count: usize) -> Vec<u64> {
    let total = |world: &World| world.received(1, id).map_or(0, |received| received.bytes);
    (0..count)
        .map(|_| {
            let before = total(world);
            world.run_for(seconds(1));
            total(world) - before
        })
        .collect()
}

#[test]
fn keys_are_renewed_without_a_pause() {
    let mut world = connected(1e-3, 5);
    // Stand a few seconds before the keys' time is over, and watch while they are renewed.
    world.run_for(seconds(105));
    let id = world.send(0, 0, 60_000_000);
    world.run_for(seconds(4));
    let handshakes = world.gateways[0].endpoint.stats().handshakes;
    let rates = bytes_by_second(&mut world, id, 20);
    assert_eq!(world.gateways[0].endpoint.stats().handshakes, handshakes + 1, "renewed once");
    let mut sorted = rates.clone();
    sorted.sort();
    let (least, median) = (sorted[0] as f64, sorted[10] as f64);
    // A loss holds delivery back for a round trip and its bytes come in the next second, so look at three at a time.
    let worst = rates.windows(3).map(|three| three.iter().sum::<u64>()).min().expect("windows") as f64 / 3.0;
    assert!(worst > 0.8 * median, "{rates:?}, least {least}");
    assert_eq!(world.gateways.iter().map(|gateway| gateway.count(is_unresponsive)).sum::<usize>(), 0);
}

#[test]
fn keys_are_renewed_even_if_handshakes_are_lost_for_a_while() {
    let mut world = connected(0.0, 5);
    let lost = Rc::new(RefCell::new(0));
    let count = Rc::clone(&lost);
    world.tamper = Some(Box::new(move |datagram| {
        let lose = datagram.bytes[0] == INIT && *count.borrow() < 4;
        *count.borrow_mut() += u32::from(lose);
        if lose { Vec::new() } else { vec![datagram.clone()] }
    }));
    let handshakes = world.gateways[0].endpoint.stats().handshakes;
    let id = world.write(0, 0, 1000);
    world.send(0, 0, 200_000);
    world.run_for(seconds(150));
    assert_eq!(*lost.borrow(), 4);
    assert_eq!(world.gateways[0].endpoint.stats().handshakes, handshakes + 1);
    assert_eq!(world.gateways[0].count(|event| matches!(event, Event::Reset(..) | Event::PeerRestarted(_))), 0);
    assert_eq!(world.received(1, id).map(|received| received.bytes), Some(1000));
}

#[test]
fn gateways_that_call_each_other_at_the_same_time_end_up_with_one_session() {
    for seed in 0..8 {
        let call_each_other = |index, other, peer: &mut satpep::PeerConfig| {
            assert_ne!(index, other);
            peer.address = Some(crate::world::address(other));
        };
        let mut world =
            World::with_each(Hop::geo(0.02 * f64::from(seed as u32 % 2), seed), 1, |_, _| {}, call_each_other);
        world.connect();
        let ids = [(1, world.send(0, 0, 200_000)), (0, world.send(1, 0, 200_000))];
        let done = |world: &World| ids.iter().all(|(to, id)| world.is_finished(*to, *id));
        assert!(world.run_until(seconds(10), done), "seed {seed}");
        // Both renew their keys at about the same time, too.
        world.run_for(seconds(250));
        let ids = [(1, world.send(0, 0, 200_000)), (0, world.send(1, 0, 200_000))];
        let done = |world: &World| ids.iter().all(|(to, id)| world.is_finished(*to, *id));
        assert!(world.run_until(seconds(10), done), "seed {seed}, keys renewed");
        for gateway in &world.gateways {
            assert_eq!(gateway.count(|event| matches!(event, Event::Reset(..) | Event::PeerRestarted(_))), 0);
            assert_eq!(gateway.count(is_unresponsive), 0, "seed {seed}");
        }
    }
}

#[test]
fn an_old_datagram_from_elsewhere_moves_nobody() {
    let mut world = connected_with(0.0, 2, |config| config.keepalive = seconds(2));
    let captured = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&captured);
    // Someone holds one datagram of the terminal's back and sends it later from another place.
    world.tamper = Some(Box::new(move |datagram| {
        let mut kept = keep.borrow_mut();
        if datagram.to == crate::world::address(0) && kept.is_none() {
            *kept = Some(datagram.clone());
            return Vec::new();
        }
        vec![datagram.clone()]
    }));
    world.run_for(seconds(8));
    let mut held = captured.borrow().clone().expect("a datagram");
    let now = world.time.now();
    let hub = &mut world.gateways[0].endpoint;
    hub.handle_datagram(now, "203.0.113.5:1".parse().expect("address"), &mut held.bytes);
    let peer = world.gateways[0].peers[0];
    assert_eq!(world.gateways[0].endpoint.peer_address(peer), Some(crate::world::address(1)));
}

#[test]
fn a_gateway_that_stops_in_order_is_bypassed_at_once() {
    for closer in [0, 1] {
        let mut world = connected(0.0, 1);
        let now = world.time.now();
        world.gateways[closer].endpoint.close(now);
        // Half a round trip for the news, and then it stays like that while the other still runs and says no more.
        world.run_for(millis(300));
        assert_eq!(world.gateways[1 - closer].count(has_left), 1);
        assert_eq!(world.gateways[1 - closer].count(is_unresponsive), 0, "it did answer");
        world.run_for(seconds(9));
        assert_ne!(world.gateways[1 - closer].state(0), PeerState::Up);
        let ups = world.gateways[1 - closer].count(is_up);
        assert_eq!(ups, 1, "it came back from a gateway that said it stops");
        // Its next run is welcome.
        world.restart(closer, 2);
        assert!(world.run_until(seconds(10), |world| world.gateways.iter().all(|g| g.state(0) == PeerState::Up)));
        let id = world.send(0, 0, 1000);
        assert!(world.run_until(seconds(3), |world| world.is_finished(1, id)));
    }
}

#[test]
fn a_gateway_whose_key_another_one_has_used_meanwhile_begins_anew_and_says_why() {
    let mut world = connected(0.0, 1);
    let is_own_shared = |event: &Event| matches!(event, Event::OwnKeyShared(_));
    let is_peers_shared = |event: &Event| matches!(event, Event::PeerKeyShared(_));
    let broke = |event: &Event| matches!(event, Event::PeerBroke(..));
    let old = world.send(1, 0, 20_000_000);
    world.run_for(seconds(3));
    // A standby with the same key takes over from a gateway that is cut off, which knows nothing of that.
    let standby = world.replacement(1, 2);
    let first = std::mem::replace(&mut world.gateways[1], standby);
    assert!(world.run_until(seconds(20), |world| world.gateways[1].state(0) == PeerState::Up));
    for size in [10_000, 300_000] {
        let id = world.send(1, 0, size);
        assert!(world.run_until(seconds(10), |world| world.is_finished(0, id)));
        assert_eq!(world.received(0, id).map(|received| received.bytes), Some(size));
    }
    assert_eq!(world.gateways[0].count(is_peers_shared), 0, "it might have restarted");
    // The standby goes without a word.
    world.gateways[1] = first;
    assert!(world.run_until(seconds(30), |world| world.gateways[1].count(is_own_shared) == 1));
    assert!(resets(&world, 1).contains(&(old, ResetReason::PeerRestarted)), "{:?}", resets(&world, 1));
    assert!(world.run_until(seconds(5), |world| world.gateways.iter().all(|g| g.state(0) == PeerState::Up)));
    assert_eq!(world.gateways[0].count(is_peers_shared), 1);
    let ids = [(0, world.send(1, 0, 300_000)), (1, world.send(0, 0, 300_000))];
    assert!(world.run_until(seconds(10), |world| ids.iter().all(|(to, id)| world.is_finished(*to, *id))));
    for (to, id) in ids {
        assert_eq!(world.received(to, id).map(|received| received.bytes), Some(300_000));
    }
    assert!(world.gateways.iter().all(|gateway| gateway.count(broke) == 0));
}

#[test]
fn a_gateway_that_stops_resets_its_streams_at_the_other_side() {
    let mut world = connected(0.0, 1);
    let ids = [world.write(0, 0, 1000), world.write(0, 0, 1000)];
    world.run_for(seconds(2));
    let now = world.time.now();
    // One by name, with a reason of its own; the other because nothing more will come of it.
    world.gateways[0].endpoint.reset(now, ids[0], ResetReason::TimedOut);
    world.gateways[0].endpoint.close(now);
    world.run_for(seconds(1));
    let lost: Vec<_> = resets(&world, 1).into_iter().map(|(id, reason)| (id.number(), reason)).collect();
    assert_eq!(lost, [(ids[0].number(), ResetReason::TimedOut), (ids[1].number(), ResetReason::Shutdown)]);
    assert_eq!(world.gateways[1].count(has_left), 1);
}

#[test]
fn a_handshake_is_accepted_once_and_an_older_one_never() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.capture = Some(Vec::new());
    world.connect();
    world.send(1, 0, 200_000);
    world.run_for(seconds(130));
    let captured = world.capture.take().expect("capturing");
    let inits: Vec<_> = captured.iter().filter(|datagram| datagram.bytes[0] == INIT).collect();
    assert!(inits.len() >= 2, "connected, and renewed the keys");
    let now = world.time.now();
    // The latest is known again; older ones are asked for a nonce, which only who made them could repeat.
    let dropped = |world: &World| {
        let dropped = &world.gateways[0].endpoint.stats().dropped;
        (dropped.replayed, dropped.challenged)
    };
    let (replayed, challenged) = dropped(&world);
    for init in &inits {
        world.gateways[0].endpoint.handle_datagram(now, init.from, &mut init.bytes.clone());
    }
    assert_eq!(dropped(&world), (replayed + 1, challenged + inits.len() as u64 - 1));
    let id = world.send(0, 0, 1000);
    assert!(world.run_until(seconds(3), |world| world.is_finished(1, id)));
    assert!(world.time.now() > Instant::ZERO);
}

#[test]
fn a_peer_whose_clock_went_back_is_up_after_one_round_trip_more() {
    let mut world = connected_with(0.0, 1, |config| config.keepalive = seconds(2));
    // Runs are an age of the clock apart; run 0 lies before the one that is under way.
    world.restart(1, 0);
    assert!(world.run_until(seconds(2), |world| world.gateways[1].state(0) == PeerState::Up));
    assert_eq!(world.gateways[0].endpoint.stats().dropped.challenged, 1);
    let id = world.send(1, 0, 1000);
    assert!(world.run_until(seconds(3), |world| world.is_finished(0, id)));
}

#[test]
fn a_new_peer_is_called_until_it_answers() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.unreachable.push(0);
    world.run_for(seconds(60));
    assert_eq!(world.gateways[1].state(0), PeerState::Connecting);
    assert!(world.gateways[1].endpoint.stats().sent_packets < 40, "calls are spaced out");
    let peer = world.gateways[1].peers[0];
    let now = world.time.now();
    assert_eq!(world.gateways[1].endpoint.open(now, peer), Err(satpep::OpenError::NotConnected));
    world.unreachable.clear();
    assert!(world.run_until(seconds(10), |world| world.gateways.iter().all(|g| g.state(0) == PeerState::Up)));
}

#[test]
fn idle_gateways_are_quiet_where_a_thin_link_spaces_answers() {
    for (kbits, rtt) in (8..48).step_by(4).flat_map(|kbits| [2, 5, 8, 13, 20, 34].map(|rtt| (kbits, rtt))) {
        let rate = Rate::from_bps(kbits * 1_000);
        let hop = Hop { return_rate: rate, rtt: millis(rtt), ..Hop::geo(0.0, 1) };
        let mut world = World::new(hop, 3);
        world.run_for(seconds(20));
        for peer in 0..3 {
            world.send(0, peer, 20_000);
        }
        world.run_for(seconds(60));
        let packets = |world: &World| world.gateways.iter().map(|at| at.endpoint.stats().sent_packets).sum::<u64>();
        let before = packets(&world);
        world.run_for(seconds(60));
        let count = packets(&world) - before;
        assert!(count <= 60, "{kbits} kbit/s, {rtt} ms: {count} datagrams in a minute");
    }
}
