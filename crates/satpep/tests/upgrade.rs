//! Gateways that are upgraded: a new process takes new streams, the old one finishes its own.

use crate::world::{Datagram, Hop, World, address};
use satpep::{Event, PeerState};
use std::collections::BTreeMap;
use units::{Duration, Instant};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn lost(event: &Event) -> bool {
    matches!(event, Event::Reset(..) | Event::PeerRestarted(_) | Event::PeerBroke(..))
}

fn losses(world: &World) -> usize {
    world.gateways.iter().map(|gateway| gateway.count(lost)).sum()
}

fn opened(world: &World, index: usize) -> usize {
    world.gateways[index].count(|event| matches!(event, Event::Opened(_)))
}

/// Streams of so many bytes each, and where they go.
struct Traffic {
    begun: Instant,
    bytes: u64,
    /// How many each gateway receives.
    receivers: BTreeMap<usize, usize>,
}

impl Traffic {
    /// Whether all of them are finished, each with all of its bytes.
    fn is_finished(&self, world: &World) -> bool {
        self.receivers.iter().all(|(index, count)| {
            let received = world.gateways[*index].received.values();
            let of_these = received.filter(|received| received.opened_at >= self.begun && received.finished);
            of_these.filter(|received| received.bytes == self.bytes).count() == *count
        })
    }
}

/// Streams in both directions between the hub and each terminal.
fn traffic(world: &mut World, hub: usize, terminals: &[usize], bytes: u64) -> Traffic {
    let mut receivers = BTreeMap::new();
    for (place, terminal) in terminals.iter().enumerate() {
        world.send(hub, place, bytes);
        world.send(*terminal, 0, bytes);
        *receivers.entry(*terminal).or_default() += 1;
        *receivers.entry(hub).or_default() += 1;
    }
    Traffic { begun: world.time.now(), bytes, receivers }
}

/// The rest of a hand-over: once the peers have had time, the old process says that it drains.
fn drain(world: &mut World, index: usize) {
    let now = world.time.now();
    world.gateways[index].endpoint.drain(now);
}

fn leave(world: &mut World, index: usize) {
    // Both sides have to know that the last streams have ended.
    world.run_for(seconds(5));
    let now = world.time.now();
    world.gateways[index].endpoint.close(now);
    world.run_for(seconds(3));
    world.gateways[index].is_dead = true;
}

/// A hub with so many terminals is upgraded twice, with streams in both directions of each.
fn hub_is_upgraded(mut world: World, terminals_count: usize) {
    world.connect();
    // A hub answers so many handshakes of strangers' addresses in a second.
    let are_up = |world: &World| (0..terminals_count).all(|peer| world.gateways[0].state(peer) == PeerState::Up);
    for _ in 0..60 {
        if !are_up(&world) {
            world.run_for(seconds(1));
        }
    }
    assert!(are_up(&world), "all terminals connect");
    let terminals: Vec<usize> = (1..=terminals_count).collect();
    let before = traffic(&mut world, 0, &terminals, 200_000);
    world.run_for(seconds(2));
    let new = world.upgrade(0, terminals_count);
    let is_up = move |world: &World| (0..terminals_count).all(|peer| world.gateways[new].state(peer) == PeerState::Up);
    assert!(world.run_until_about(seconds(10), is_up), "the new process calls the peers of the old one");
    // The terminals use the new keys half a round trip later, or after a probe if that is lost.
    world.run_for(seconds(3));
    let opened_at_old = opened(&world, 0);
    let after = traffic(&mut world, new, &terminals, 20_000);
    world.run_for(seconds(2));
    assert_eq!(
        (opened(&world, 0), opened(&world, new)),
        (opened_at_old, terminals_count),
        "new streams go to the new process"
    );
    drain(&mut world, 0);
    let done = move |world: &World| before.is_finished(world) && after.is_finished(world);
    assert!(world.run_until_about(seconds(120), done));
    assert_eq!(losses(&world), 0);
    assert!((1..=terminals_count).all(|terminal| world.gateways[terminal].state(0) == PeerState::Up));
    leave(&mut world, 0);
    assert!(
        (1..=terminals_count).all(|terminal| world.gateways[terminal].state(0) == PeerState::Up),
        "the new one goes on"
    );
    assert_eq!(losses(&world), 0);

    // And once more: the third process has the generation of the first.
    let third = world.upgrade(new, terminals_count);
    let is_up =
        move |world: &World| (0..terminals_count).all(|peer| world.gateways[third].state(peer) == PeerState::Up);
    assert!(world.run_until_about(seconds(10), is_up));
    world.run_for(seconds(3));
    let again = traffic(&mut world, third, &terminals, 20_000);
    assert!(world.run_until_about(seconds(60), move |world| again.is_finished(world)));
    assert_eq!(losses(&world), 0);
}

#[test]
fn the_hub_of_fifty_terminals_is_upgraded_and_no_stream_ends() {
    hub_is_upgraded(World::new(Hop::geo(0.01, 1), 50), 50);
}

#[test]
fn the_hub_of_a_thousand_terminals_is_upgraded_and_no_stream_ends() {
    let rate = units::Rate::from_bps(120_000_000);
    // Both processes keep the rate: estimates of two senders on one link take longer to settle than the streams wait here.
    let hop = Hop { rate, return_rate: rate, ..Hop::geo(0.01, 1) };
    hub_is_upgraded(World::fixed(hop, 1000), 1000);
}

#[test]
fn both_ends_are_upgraded_at_once() {
    for seed in 1..=4 {
        let mut world = World::new(Hop::geo(0.02, seed), 1);
        world.connect();
        let before = traffic(&mut world, 0, &[1], 1_500_000);
        world.run_for(seconds(1));
        let (hub, terminal) = (world.upgrade(0, 1), world.upgrade(1, 1));
        let is_up = move |world: &World| [hub, terminal].iter().all(|at| world.gateways[*at].state(0) == PeerState::Up);
        assert!(world.run_until(seconds(15), is_up), "seed {seed}");
        // Calls that crossed have been settled by then.
        world.run_for(seconds(3));
        let after = traffic(&mut world, hub, &[terminal], 300_000);
        world.run_for(seconds(2));
        drain(&mut world, 0);
        drain(&mut world, 1);
        let done = move |world: &World| before.is_finished(world) && after.is_finished(world);
        assert!(world.run_until(seconds(60), done), "seed {seed}");
        assert_eq!(losses(&world), 0, "seed {seed}");
        leave(&mut world, 0);
        leave(&mut world, 1);
        world.run_for(seconds(200));
        assert!(is_up(&world), "seed {seed}: their keys are renewed");
        assert_eq!(losses(&world), 0, "seed {seed}");
    }
}

#[test]
fn keys_of_a_session_with_the_old_process_are_renewed_with_it() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.connect();
    let (down, up) = (world.write(0, 0, 1000), world.write(1, 0, 1000));
    world.run_for(seconds(1));
    let new = world.upgrade(0, 1);
    world.run_for(seconds(5));
    drain(&mut world, 0);
    let handshakes = world.gateways[0].endpoint.stats().handshakes;
    // Traffic now and then: keys are used, and renewed after two minutes.
    for _ in 0..30 {
        world.run_for(seconds(15));
        world.gateways[0].sending.get_mut(&down).expect("it goes on").left += 100;
        world.gateways[1].sending.get_mut(&up).expect("it goes on").left += 100;
    }
    world.run_for(seconds(5));
    assert!(world.gateways[0].endpoint.stats().handshakes > handshakes, "the old process has renewed its keys");
    assert_eq!(world.received(1, down).expect("open").bytes, 4000);
    assert_eq!(losses(&world), 0);
    assert_eq!(world.gateways[new].state(0), PeerState::Up);
}

#[test]
fn the_death_of_the_old_process_ends_its_streams_and_no_others() {
    let mut world = World::new(Hop::geo(0.01, 1), 2);
    world.connect();
    let _ = traffic(&mut world, 0, &[1, 2], 3_000_000);
    world.run_for(seconds(2));
    let new = world.upgrade(0, 2);
    world.run_for(seconds(3));
    let after = traffic(&mut world, new, &[1, 2], 500_000);
    world.run_for(seconds(1));
    world.gateways[0].is_dead = true;
    // Its peers notice: nobody answers for the old session, and a call for it finds the new process.
    let reset = |world: &World| {
        (1..=2)
            .all(|terminal| world.gateways[terminal].count(lost) == 2 + 1 || world.gateways[terminal].count(lost) == 2)
    };
    assert!(world.run_until(seconds(20), reset));
    assert!(world.run_until(seconds(60), move |world| after.is_finished(world)));
    assert_eq!(world.gateways[new].count(lost), 0);
    assert!((1..=2).all(|terminal| world.gateways[terminal].state(0) == PeerState::Up));
}

#[test]
fn the_death_of_the_new_process_leaves_the_old_one_its_streams() {
    let mut world = World::new(Hop::geo(0.01, 1), 1);
    world.connect();
    let before = traffic(&mut world, 0, &[1], 2_000_000);
    world.run_for(seconds(1));
    let new = world.upgrade(0, 1);
    world.run_for(seconds(3));
    world.gateways[new].is_dead = true;
    world.run_for(seconds(5));
    assert_eq!(world.gateways[1].state(0), PeerState::Up, "the old one still answers");
    let again = world.send(1, 0, 10_000);
    let done = move |world: &World| before.is_finished(world) && world.is_finished(0, again);
    assert!(world.run_until(seconds(60), done));
    assert_eq!(world.gateways[0].count(lost), 0);
}

#[test]
fn counters_of_a_peer_are_those_of_all_sessions_with_it() {
    let mut world = World::new(Hop::geo(0.01, 1), 1);
    world.connect();
    let _ = (world.write(1, 0, 1_000_000), world.send(0, 0, 1_000_000));
    let mut before = world.gateways[1].stats(world.time.now(), 0);
    let mut watch = move |world: &mut World, time: Duration| {
        let end = world.time.now() + time;
        while world.time.now() < end {
            world.run_for(Duration::from_millis(100));
            let after = world.gateways[1].stats(world.time.now(), 0);
            let never_fall = [
                (before.sent_packets, after.sent_packets),
                (before.lost_packets, after.lost_packets),
                (before.sent_bytes, after.sent_bytes),
                (before.received_bytes, after.received_bytes),
            ];
            assert!(never_fall.iter().all(|(before, after)| before <= after), "{before:?} then {after:?}");
            assert!(after.sent_packets <= world.gateways[1].endpoint.stats().sent_packets, "no packet counts twice");
            before = after.clone();
        }
        before.clone()
    };
    watch(&mut world, seconds(2));
    let new = world.upgrade(0, 1);
    watch(&mut world, seconds(3));
    let _ = world.write(1, 0, 10_000);
    assert_eq!(watch(&mut world, seconds(20)).streams, 2, "one in each session");
    // The old session is the better one again, until that process ends, too.
    world.gateways[new].is_dead = true;
    watch(&mut world, seconds(60));
    leave(&mut world, 0);
    let at_the_end = watch(&mut world, seconds(1));
    assert_eq!(world.gateways[1].state(0), PeerState::Connecting);
    assert_eq!((at_the_end.sent_bytes, at_the_end.received_bytes), (1_010_000, 1_000_000), "{at_the_end:?}");
}

#[test]
fn the_death_of_the_second_process_leaves_the_third_its_streams() {
    for seed in 1..=4 {
        let mut world = World::new(Hop::geo(0.01, seed), 1);
        world.connect();
        let second = world.upgrade(0, 1);
        world.run_for(seconds(3));
        drain(&mut world, 0);
        leave(&mut world, 0);
        let third = world.upgrade(second, 1);
        world.run_for(seconds(3));
        drain(&mut world, second);
        let after = traffic(&mut world, third, &[1], 3_000_000);
        world.run_for(seconds(1));
        // Without a word: the terminal asks for it, and the third process answers.
        world.gateways[second].is_dead = true;
        assert!(world.run_until(seconds(120), move |world| after.is_finished(world)), "seed {seed}");
        world.run_for(seconds(200));
        assert_eq!(losses(&world), 0, "seed {seed}");
        assert_eq!(world.gateways[1].state(0), PeerState::Up);
    }
}

#[test]
fn a_fresh_process_after_both_ends_the_sessions_of_both() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.connect();
    let _ = world.write(1, 0, 1000);
    world.run_for(seconds(1));
    let new = world.upgrade(0, 1);
    world.run_for(seconds(3));
    let _ = world.write(1, 0, 1000);
    world.run_for(seconds(1));
    world.gateways[new].is_dead = true;
    world.restart(0, 3);
    // The hub waits to be called.
    assert!(world.run_until(seconds(60), |world| world.gateways[1].count(|e| matches!(e, Event::Reset(..))) == 2));
    assert!(world.run_until(seconds(20), |world| world.gateways[1].state(0) == PeerState::Up));
    let stream = world.send(1, 0, 10_000);
    assert!(world.run_until(seconds(20), |world| world.is_finished(0, stream)));
}

#[test]
fn recorded_handshakes_change_nothing() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.capture = Some(Vec::new());
    world.connect();
    let before = traffic(&mut world, 0, &[1], 2_000_000);
    world.run_for(seconds(1));
    let new = world.upgrade(0, 1);
    world.run_for(seconds(3));
    let after = traffic(&mut world, new, &[1], 300_000);
    let recorded: Vec<Datagram> = world.capture.take().expect("capturing");
    let recorded: Vec<Datagram> = recorded.into_iter().filter(|datagram| matches!(datagram.bytes[0], 1 | 2)).collect();
    assert!(recorded.len() >= 4);
    for _ in 0..5 {
        for datagram in &recorded {
            let from = if datagram.to == address(0) { 1 } else { 0 };
            world.put_on_link(from, datagram.to, &datagram.bytes);
        }
        world.run_for(seconds(1));
    }
    let done = move |world: &World| before.is_finished(world) && after.is_finished(world);
    assert!(world.run_until(seconds(60), done));
    assert_eq!(losses(&world), 0);
}

#[test]
fn what_the_host_refuses_to_send_counts_for_the_sessions_with_both_processes() {
    let mut world = World::new(Hop::geo(0.0, 1), 1);
    world.connect();
    world.upgrade(0, 1);
    world.run_for(seconds(30));
    let now = world.time.now();
    assert_eq!(world.gateways[1].stats(now, 0).mtu, 1500);
    world.gateways[1].endpoint.handle_refused(now, address(0), 1500 - 28);
    assert!(world.gateways[1].stats(now, 0).mtu < 1500, "the newest session is with the new process");
}

#[test]
fn the_room_for_streams_is_that_of_the_session_in_which_they_are_opened() {
    let mut world = World::with(Hop::geo(0.0, 1), 1, |config| config.max_streams = 8);
    world.connect();
    let room = |world: &World| world.gateways[1].endpoint.room(world.gateways[1].peers[0]);
    for _ in 0..6 {
        world.write(1, 0, 1000);
    }
    assert_eq!(room(&world), (2, 8));
    world.upgrade(0, 1);
    world.run_for(seconds(5));
    assert_eq!(room(&world), (8, 8), "the new process has none of them");
    drain(&mut world, 0);
    world.run_for(seconds(3));
    world.gateways[0].is_dead = true;
    world.run_for(seconds(20));
    assert_eq!(room(&world), (8, 8));
}

#[test]
fn what_has_arrived_can_be_read_though_the_process_that_sent_it_has_ended() {
    let mut world = World::new(Hop::geo(0.01, 3), 1);
    world.connect();
    world.gateways[1].stalled = (0..100).collect();
    let _ = traffic(&mut world, 0, &[1], 40_000);
    world.run_for(seconds(1));
    let new = world.upgrade(0, 1);
    world.run_for(seconds(3));
    drain(&mut world, 0);
    let has_drained = |world: &World| world.gateways[0].endpoint.is_drained(world.time.now());
    assert!(!has_drained(&world), "the terminal's user has not read to the end, so that the other direction is open");
    // The terminal's own stream ends, and so does what the hub sends, which nobody reads.
    world.gateways[1].keep_open = true;
    let streams: Vec<_> = world.gateways[1].received.keys().copied().collect();
    let now = world.time.now();
    streams.iter().for_each(|id| world.gateways[1].endpoint.finish(now, *id));
    assert!(world.run_until(seconds(20), has_drained), "all has arrived");
    leave(&mut world, 0);
    assert_eq!(losses(&world), 0, "it can still be read");
    world.gateways[1].stalled.clear();
    let now = world.time.now();
    streams.iter().for_each(|id| world.gateways[1].read(now, *id));
    world.run_for(seconds(1));
    let received: Vec<_> = world.gateways[1].received.values().map(|r| (r.bytes, r.finished)).collect();
    assert!(received.contains(&(40_000, true)), "{received:?}");
    assert_eq!(losses(&world), 0);
    assert_eq!(world.gateways[1].count(|event| matches!(event, Event::Closed(_))), 2);
    assert_eq!(world.gateways[new].state(0), PeerState::Up);
}

/// Peers whose sessions, with both processes of each, hold all that they may, and that come and go.
#[test]
fn memory_is_shared_among_the_sessions_with_all_processes_of_all_peers() {
    const MEMORY: u64 = 8 << 20;
    let rate = units::Rate::from_bps(200_000_000);
    let hop = Hop { rate, return_rate: rate, ..Hop::geo(1e-3, 5) };
    let mut world = World::with_each(
        hop,
        4,
        |index, config| config.memory = (index == 0).then_some(units::Bytes::new(MEMORY)),
        |_, _, _| {},
    );
    world.connect();
    world.gateways[0].stalled = (0..100).collect();
    let greedy = |world: &mut World, terminals: &[usize]| {
        for terminal in terminals {
            for _ in 0..8 {
                world.send(*terminal, 0, 2_000_000);
            }
        }
        world.run_for(seconds(8));
    };
    let old = [1, 2, 3, 4];
    greedy(&mut world, &old);
    let held_by_old = world.gateways[0].endpoint.memory_stats().granted;
    let new = old.map(|terminal| world.upgrade(terminal, 4));
    world.run_for(seconds(5));
    greedy(&mut world, &new);
    let granted = |world: &World| world.gateways[0].endpoint.memory_stats().granted;
    assert!(granted(&world) > held_by_old, "the new processes' sessions are granted memory, too");
    // What the old ones were granted is theirs; the new ones may begin with what is reserved for each peer, half of it all.
    assert!(granted(&world) <= MEMORY / 2 * 3 / 2, "{held_by_old}, then {}", granted(&world));
    // Once they have used it, all share the same memory.
    world.gateways[0].stalled.clear();
    let now = world.time.now();
    let streams: Vec<_> = world.gateways[0].received.keys().copied().collect();
    streams.into_iter().for_each(|id| world.gateways[0].read(now, id));
    world.run_for(seconds(60));
    world.gateways[0].stalled = (0..200).collect();
    greedy(&mut world, &[old, new].concat());
    assert!(granted(&world) > MEMORY / 4, "they take what they get: {}", granted(&world));
    assert!(granted(&world) <= MEMORY / 2, "{}", granted(&world));
    assert_eq!(world.gateways[0].endpoint.stats().violations, 0, "what was granted is not retracted");
    for place in 0..4 {
        let (now, peer) = (world.time.now(), world.gateways[0].peers[place]);
        world.gateways[0].endpoint.remove_peer(now, peer);
    }
    world.run_for(seconds(5));
    assert_eq!(world.gateways[0].endpoint.memory_stats().granted, 0, "all sessions of a peer that is removed are over");
}

#[test]
fn a_process_that_is_called_by_its_peers_name_may_send_what_the_call_allowed() {
    let memory = |config: &mut satpep::EndpointConfig| config.memory = Some(units::Bytes::new(8 << 20));
    let mut world = World::with(Hop::geo(0.0, 1), 1, memory);
    world.connect();
    let hub = world.upgrade(0, 1);
    world.run_for(seconds(5));
    // The terminal's new process calls the hub, and the hub's new one answers.
    let terminal = world.upgrade(1, 1);
    let sessions = world.gateways[hub].endpoint.stats().handshakes;
    assert!(world.run_until(seconds(10), move |world| world.gateways[hub].endpoint.stats().handshakes > sessions));
    let stream = world.send(hub, 0, 1_000_000);
    assert!(world.run_until(seconds(30), move |world| world.is_finished(terminal, stream)));
    assert_eq!(world.gateways[terminal].endpoint.stats().violations, 0);
    assert_eq!(losses(&world), 0);
}

/// The old process ends after an outage, which the session with the new one has noticed, too. The terminal's next handshake is for
/// whichever process is there; in the name of a session that is over it would look like a restart of the terminal.
#[test]
fn an_old_process_that_closes_after_an_outage_takes_nothing_from_the_new_one() {
    for offset in 0..80 {
        let mut world = World::new(Hop::geo(0.0, 1), 1);
        world.connect();
        let _ = world.write(1, 0, 1000);
        let new = world.upgrade(0, 1);
        world.run_for(seconds(3));
        let during = traffic(&mut world, new, &[1], 2_000_000);
        world.run_for(seconds(1));
        world.outage = true;
        world.run_for(seconds(2) + Duration::from_millis(50) * offset);
        let now = world.time.now();
        world.gateways[0].endpoint.close(now);
        world.outage = false;
        assert!(world.run_until(seconds(60), move |world| during.is_finished(world)), "{offset}");
        world.run_for(seconds(10));
        assert_eq!(world.gateways[new].count(lost), 0, "{offset}");
        assert_eq!(world.gateways[1].state(0), PeerState::Up, "{offset}");
    }
}
