//! Readers that stall take no more of the session's credit than they are let have: streams that are read go on.

use crate::world::{Hop, Sending, World};
use satpep::{Capabilities, EndpointConfig, PeerState, StreamId};
use units::{Bytes, Duration, Rate};

const RTT: Duration = Duration::from_millis(550);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A hub and a terminal on a link of 20 Mbit/s, which is configured with `configured`.
fn world(configured: Rate, adjust: impl Fn(usize, &mut EndpointConfig) + 'static) -> World {
    let rate = Rate::from_bps(20_000_000);
    let hop = Hop { rate, return_rate: rate, ..Hop::geo(1e-3, 21) };
    let mut world = World::with_each(
        hop,
        1,
        move |index, config| {
            (config.capacity, config.receive_capacity) = (configured, configured);
            config.ceiling = None;
            adjust(index, config);
        },
        |_, _, _| {},
    );
    world.connect();
    world.gateways.iter_mut().for_each(|gateway| gateway.keep_open = true);
    world
}

/// Has gateway `index` write so much more.
fn more(world: &mut World, index: usize, id: StreamId, bytes: u64) {
    let (now, gateway) = (world.time.now(), &mut world.gateways[index]);
    let nothing = Sending { left: 0, written: 0, finish: false, finished: false };
    gateway.sending.entry(id).or_insert(nothing).left += bytes;
    gateway.writable.insert(id);
    gateway.users(now);
}

/// Has the hub write `bytes` on each of `count` streams, of which the beginning is read.
fn stall(world: &mut World, count: u64, bytes: u64) -> Vec<StreamId> {
    let ids: Vec<StreamId> = (0..count).map(|_| world.write(0, 0, bytes)).collect();
    // They are read until the buffers of their host are full.
    world.run_for(seconds(3));
    world.gateways[1].stalled.extend(ids.iter().map(|id| id.number()));
    world.run_for(seconds(60));
    ids
}

fn bytes(world: &World, index: usize, id: StreamId) -> u64 {
    world.received(index, id).map_or(0, |received| received.bytes)
}

/// How long it takes until gateway 1 has received `count` more bytes of a stream of the hub's, which the hub writes now.
fn time_of(world: &mut World, id: StreamId, count: u64) -> Option<Duration> {
    let (start, all) = (world.time.now(), bytes(world, 1, id) + count);
    more(world, 0, id, count);
    let is_done = world.run_until(seconds(60), |world| bytes(world, 1, id) == all);
    is_done.then(|| world.time.now().since(start))
}

/// Exchanges 100 bytes in each direction, `rounds` times: one time or another a packet is lost, or the far gateway is asked first whether
/// the stream is read.
fn exchange(world: &mut World, id: StreamId, rounds: usize) {
    let mut times = Vec::new();
    for round in 0..rounds {
        let there = time_of(world, id, 100).unwrap_or_else(|| panic!("round {round} of the echo stands still"));
        let name = world.theirs(1, id);
        let (start, all) = (world.time.now(), bytes(world, 0, id) + 100);
        more(world, 1, name, 100);
        assert!(world.run_until(seconds(10), |world| bytes(world, 0, id) == all), "the answer stands still");
        times.push(there + world.time.now().since(start));
        world.run_for(seconds(1));
    }
    times.sort();
    assert!(times[rounds * 9 / 10] < RTT + Duration::from_millis(50), "{times:?}");
    assert!(times[rounds - 1] < RTT * 3, "{times:?}");
}

/// Has all that stalled read again: every byte arrives.
fn resume(world: &mut World, ids: &[StreamId], each: u64) {
    world.gateways[1].stalled.clear();
    let names: Vec<StreamId> = ids.iter().map(|id| world.theirs(1, *id)).collect();
    let now = world.time.now();
    names.into_iter().for_each(|name| world.gateways[1].read(now, name));
    let is_done = |world: &World| ids.iter().all(|id| bytes(world, 1, *id) == each);
    assert!(world.run_until_about(seconds(300), is_done), "what was held back arrives");
    assert!(world.gateways.iter().all(|gateway| gateway.endpoint.stats().violations == 0));
}

#[test]
fn sixty_readers_that_stall_stop_no_stream_that_was_open_before() {
    for (memory, most) in [(None, 4), (Some(Bytes::new(8_000_000)), 15)] {
        let mut world = world(Rate::from_bps(20_000_000), move |_, config| config.receive_memory = memory);
        let echo = world.write(0, 0, 200_000);
        let download = world.write(0, 0, 100_000);
        world.run_for(seconds(5));
        let free = time_of(&mut world, download, 4_000_000).expect("nobody stalls");
        let stalled = stall(&mut world, 60, 3_000_000);
        exchange(&mut world, echo, 100);
        for _ in 0..3 {
            let (packets, start) = (world.return_packets(), world.time.now());
            let beside = time_of(&mut world, download, 4_000_000).expect("the download stands still");
            assert!(beside < free * most, "{beside} beside stalled readers, {free} without, of {memory:?}");
            let took = world.time.now().since(start);
            let rate = (world.return_packets() - packets) as f64 / took.as_secs_f64();
            // Acknowledgements are due 25 ms at the latest after data, 17 ms here.
            assert!(rate < 1.05 * 32.0 / RTT.as_secs_f64(), "{rate} packets a second on the return link");
        }
        let held = world.gateways[1].stats(world.time.now(), 0).receive_buffered;
        assert!(held <= memory.map_or(64 << 20, Bytes::as_u64), "{held} bytes held");
        resume(&mut world, &stalled, 3_000_000);
    }
}

#[test]
fn readers_that_stall_stop_no_stream_that_is_opened_after_the_link_turned_out_to_be_faster() {
    let memory = Some(Bytes::new(32 << 20));
    let mut world = world(Rate::from_bps(6_000_000), move |_, config| config.receive_memory = memory);
    let bulk = world.write(0, 0, 20_000_000);
    assert!(world.run_until_about(seconds(60), |world| bytes(world, 1, bulk) == 20_000_000));
    let stalled = stall(&mut world, 60, 3_000_000);
    let late: Vec<StreamId> = (0..3).map(|_| world.write(0, 0, 100)).collect();
    world.run_for(seconds(5));
    exchange(&mut world, late[0], 100);
    let took = time_of(&mut world, late[1], 4_000_000).expect("a download that began later stands still");
    assert!(took < seconds(10), "{took} for 4 MB");
    let took = time_of(&mut world, bulk, 4_000_000).expect("the transfer from before stands still");
    assert!(took < seconds(10), "{took} for 4 MB");
    resume(&mut world, &stalled, 3_000_000);
}

#[test]
fn transfers_go_on_though_unsent_data_of_stalled_streams_fill_the_memory_of_the_sender() {
    for (count, each) in [(250, 500_000), (400, 300_000)] {
        let mut world = world(Rate::from_bps(20_000_000), |_, _| {});
        let download = world.write(0, 0, 200_000);
        world.run_for(seconds(5));
        let stalled = stall(&mut world, count, each);
        assert!(world.gateways[0].stats(world.time.now(), 0).send_buffered > 31 << 20, "the memory is full");
        let took = time_of(&mut world, download, 1_000_000).expect("the transfer stands still");
        assert!(took < seconds(3), "{took} for 1 MB beside {count}");
        let late = world.write(0, 0, 100);
        world.run_for(seconds(5));
        let took = time_of(&mut world, late, 1_000_000).expect("the later transfer stands still");
        assert!(took < seconds(6), "{took} for 1 MB beside {count}");
        resume(&mut world, &stalled, each);
    }
}

#[test]
fn a_thousand_readers_that_stall_stop_no_echo() {
    let mut world = world(Rate::from_bps(20_000_000), |_, _| {});
    let echo = world.write(0, 0, 200_000);
    world.run_for(seconds(5));
    let stalled = stall(&mut world, 1000, 100_000);
    let late = world.write(0, 0, 100);
    exchange(&mut world, echo, 20);
    exchange(&mut world, late, 20);
    resume(&mut world, &stalled, 100_000);
}

#[test]
fn beside_a_gateway_that_reports_nothing_all_credit_is_used_as_it_comes() {
    for old in 0..2 {
        let mut world = world(Rate::from_bps(20_000_000), move |index, config| {
            if index == old {
                config.capabilities = Capabilities::NONE;
            }
        });
        let download = world.write(0, 0, 4_000_000);
        world.run_for(seconds(5));
        let stalled = stall(&mut world, 60, 3_000_000);
        world.run_for(seconds(60));
        let held = world.gateways[1].stats(world.time.now(), 0).receive_buffered;
        assert!(held > (64 << 20) - 10_000, "{held} bytes held");
        assert_eq!(time_of(&mut world, download, 1000), None);
        resume(&mut world, &stalled, 3_000_000);
        assert_eq!(bytes(&world, 1, download), 4_001_000);
    }
}

/// How long `count` transfers side by side take, of 30 MB in all.
fn time_of_transfers(count: u64, memory: Option<Bytes>, capabilities: Capabilities) -> Duration {
    let mut world = world(Rate::from_bps(20_000_000), move |_, config| {
        (config.receive_memory, config.capabilities) = (memory, capabilities);
    });
    let (start, each) = (world.time.now(), 30_000_000 / count);
    let ids: Vec<StreamId> = (0..count).map(|_| world.send(0, 0, each)).collect();
    assert!(world.run_until(seconds(200), |world| ids.iter().all(|id| world.is_finished(1, *id))));
    world.time.now().since(start)
}

#[test]
fn where_nobody_stalls_a_transfer_takes_as_long_as_without_credit_kept_back() {
    for memory in [None, Some(Bytes::new(1_400_000)), Some(Bytes::new(200_000))] {
        for count in [1, 20] {
            let before = time_of_transfers(count, memory, Capabilities::NONE);
            let now = time_of_transfers(count, memory, Capabilities::READ_REPORTS);
            if memory.is_none() || count == 1 {
                assert_eq!(now, before, "{count} transfers with {memory:?}");
            }
            assert!(now < before.mul_f64(1.07), "{now} instead of {before} for {count} with {memory:?}");
        }
    }
}

/// How many bytes of a terminal's stream have been read at the hub.
fn at_hub(world: &World, id: StreamId) -> u64 {
    world.received(0, id).map_or(0, |received| received.bytes)
}

/// Has terminal 1 write `rounds` times 10 kB on a stream that is read.
fn upload(world: &mut World, id: StreamId, rounds: usize) {
    for round in 0..rounds {
        let all = at_hub(world, id) + 10_000;
        more(world, 1, id, 10_000);
        assert!(world.run_until(seconds(10), |world| at_hub(world, id) == all), "round {round} stands still");
    }
}

#[test]
fn readers_that_stall_stop_no_stream_though_another_peer_takes_its_share_of_the_memory() {
    const MEMORY: u64 = 64 << 20;
    let rate = Rate::from_bps(20_000_000);
    let hop = Hop { rate, return_rate: Rate::from_bps(40_000_000), ..Hop::geo(1e-3, 21) };
    let adjust = |index: usize, config: &mut EndpointConfig| {
        (config.ceiling, config.outage_limit) = (None, seconds(20));
        config.memory = (index == 0).then(|| Bytes::new(MEMORY));
    };
    let mut world = World::with_each(hop, 2, adjust, |_, _, _| {});
    world.connect();
    world.gateways.iter_mut().for_each(|gateway| gateway.keep_open = true);
    world.gateways[2].is_dead = true;
    world.run_for(seconds(200));
    let read = world.write(1, 0, 200_000);
    world.run_for(seconds(10));
    let ids: Vec<StreamId> = (0..60).map(|_| world.write(1, 0, 3_000_000)).collect();
    world.run_for(seconds(3));
    world.gateways[0].stalled.extend(ids.iter().map(|id| id.number()));
    world.run_for(seconds(100));
    upload(&mut world, read, 20);
    let before = world.gateways[0].endpoint.memory_stats().granted;
    // The other terminal comes back: less is left for the first one than it was granted.
    world.restart(2, 2);
    world.run_for(seconds(30));
    assert_eq!(world.gateways[0].state(1), PeerState::Up);
    assert!(world.gateways[0].endpoint.memory_stats().granted > before);
    upload(&mut world, read, 200);
    assert!(world.gateways[0].endpoint.memory_stats().granted <= MEMORY / 2);
}
