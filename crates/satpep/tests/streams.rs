//! Streams: each direction ends alone, an abort never looks like an end, many share a session fairly, and readers that
//! stall cost the others nothing.

use crate::world::{Hop, World, jain};
use satpep::{Event, OpenError, PeerState, ResetReason, StreamId};
use units::{Bytes, Duration, Instant};

fn connected(hop: Hop) -> World {
    let mut world = World::new(hop, 1);
    world.connect();
    assert_eq!(world.gateways[0].state(0), PeerState::Up);
    assert_eq!(world.gateways[1].state(0), PeerState::Up);
    world
}

const RTT: Duration = Duration::from_millis(550);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The name that gateway `index` has for the stream which the other calls `id`.
fn counterpart(world: &World, index: usize, id: StreamId) -> StreamId {
    let mut streams = world.gateways[index].received.keys();
    *streams.find(|own| own.number() == id.number()).expect("the stream was opened here")
}

fn resets(world: &World, index: usize) -> Vec<(u64, ResetReason)> {
    let events = world.gateways[index].events.iter();
    events
        .filter_map(|(_, event)| if let Event::Reset(id, reason) = event { Some((id.number(), *reason)) } else { None })
        .collect()
}

fn closed(world: &World, index: usize, id: StreamId) -> usize {
    world.gateways[index].count(|event| matches!(event, Event::Closed(own) if own.number() == id.number()))
}

#[test]
fn each_direction_ends_alone_and_bytes_still_arrive_after_the_other_ended() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut world = connected(Hop::geo(1e-2, 3));
        world.gateways.iter_mut().for_each(|gateway| gateway.keep_open = true);
        // The hub opens; `first` ends its direction long before `second` writes.
        let id = world.write(0, 0, 10_000);
        world.run_for(seconds(3));
        let names = [id, counterpart(&world, 1, id)];
        let now = world.time.now();
        world.gateways[first].endpoint.finish(now, names[first]);
        world.run_for(seconds(3));
        assert!(world.is_finished(second, id), "the end arrived");
        assert!(!world.is_finished(first, id), "the other direction is still open");
        assert_eq!(closed(&world, 0, id) + closed(&world, 1, id), 0);

        let gateway = &mut world.gateways[second];
        let before = if second == 0 { 10_000 } else { 0 };
        let sending = crate::world::Sending { left: 300_000, written: before, finish: true, finished: false };
        gateway.sending.insert(names[second], sending);
        gateway.users(now);
        assert!(world.run_until(seconds(20), |world| world.is_finished(first, id)));
        world.run_for(seconds(3));
        assert_eq!(world.received(first, id).map(|received| received.bytes), Some(300_000 + before));
        for index in 0..2 {
            assert_eq!(closed(&world, index, id), 1, "closed once at gateway {index}");
            assert_eq!(resets(&world, index), []);
        }
    }
}

#[test]
fn a_reset_arrives_with_its_reason_and_never_as_an_end() {
    for reason in [ResetReason::Refused, ResetReason::Unreachable, ResetReason::Aborted, ResetReason::Shutdown] {
        for aborter in [0, 1] {
            let mut world = connected(Hop::geo(1e-2, reason.code()));
            let id = world.send(0, 0, 2_000_000);
            world.run_for(seconds(2));
            let name = if aborter == 0 { id } else { counterpart(&world, 1, id) };
            let now = world.time.now();
            world.gateways[aborter].sending.clear();
            world.gateways[aborter].endpoint.reset(now, name, reason);
            world.run_for(seconds(5));
            assert_eq!(resets(&world, 1 - aborter), [(id.number(), reason)]);
            assert_eq!(resets(&world, aborter), []);
            assert!(!world.is_finished(1, id), "an abort is not an end");
            assert_eq!(closed(&world, 0, id) + closed(&world, 1, id), 0);
            for gateway in &world.gateways {
                let stats = gateway.stats(world.time.now(), 0);
                assert_eq!((stats.streams, stats.send_buffered, stats.receive_buffered), (0, 0, 0));
            }
        }
    }
}

#[test]
fn a_reset_of_bytes_that_wait_unread_drops_them() {
    let mut world = connected(Hop::geo(0.0, 1));
    let id = world.write(0, 0, 100_000);
    world.gateways[1].stalled.push(id.number());
    world.run_for(seconds(3));
    let name = counterpart(&world, 1, id);
    assert_eq!(world.gateways[1].stats(world.time.now(), 0).receive_buffered, 100_000);
    world.gateways[0].endpoint.reset(world.time.now(), id, ResetReason::Aborted);
    world.run_for(seconds(3));
    let mut slices = [std::io::IoSlice::new(&[]); 4];
    assert_eq!(world.gateways[1].endpoint.readable(name, &mut slices), 0);
    assert!(!world.gateways[1].endpoint.is_read_finished(name));
    assert_eq!(world.gateways[1].stats(world.time.now(), 0).receive_buffered, 0);
}

/// Has gateway `index` write so much more, of which everything has room.
fn more(world: &mut World, index: usize, name: StreamId, bytes: u64) {
    let (now, gateway) = (world.time.now(), &mut world.gateways[index]);
    let sending = gateway.sending.entry(name).or_insert(crate::world::Sending {
        left: 0,
        written: 0,
        finish: false,
        finished: false,
    });
    sending.left += bytes;
    gateway.writable.insert(name);
    gateway.users(now);
    assert_eq!(gateway.sending[&name].left, 0);
}

/// A stream that gateway 1 has answered, as the far gateway answers a connect request, with so much written by gateway 0.
fn answered(world: &mut World, bytes: u64) -> (StreamId, StreamId) {
    let id = world.write(0, 0, 100);
    world.run_for(seconds(3));
    let name = counterpart(world, 1, id);
    more(world, 1, name, 1);
    world.run_for(seconds(3));
    more(world, 0, id, bytes);
    (id, name)
}

fn assert_nothing_is_left(world: &World) {
    for gateway in &world.gateways {
        let stats = gateway.stats(world.time.now(), 0);
        assert_eq!((stats.streams, stats.send_buffered, stats.receive_buffered), (0, 0, 0));
    }
}

#[test]
fn a_reset_behind_data_arrives_after_all_of_them() {
    for (ends_in_order, seed) in [(false, 1), (true, 2), (false, 3), (true, 4)] {
        let mut world = connected(Hop::geo(1e-2, seed));
        let (id, _) = answered(&mut world, 100_000);
        let now = world.time.now();
        if ends_in_order {
            world.gateways[0].endpoint.finish(now, id);
        }
        world.gateways[0].endpoint.reset_behind_data(now, id, ResetReason::Aborted);
        assert_eq!(world.gateways[0].endpoint.write(now, id, b"late"), 0);
        world.run_for(seconds(6));
        assert_eq!(world.received(1, id).map(|received| received.bytes), Some(100_100));
        assert_eq!(resets(&world, 1), [(id.number(), ResetReason::Aborted)]);
        let ends = world.gateways[1].count(|event| matches!(event, Event::EndedBeforeReset(_)));
        let reader_knows = world.is_finished(1, id);
        assert_eq!(ends_in_order, ends == 1 || reader_knows, "a reset behind the end is not met before it");
        assert_eq!((closed(&world, 1, id), resets(&world, 0)), (0, vec![]));
        assert_nothing_is_left(&world);
    }
}

#[test]
fn a_reader_that_stalls_finds_everything_before_the_reset() {
    for drops in [false, true] {
        let mut world = connected(Hop::geo(0.0, 1));
        let (id, name) = answered(&mut world, 50_000);
        world.gateways[1].stalled.push(id.number());
        // What the other side sends meanwhile is for nobody.
        more(&mut world, 1, name, 3000);
        let now = world.time.now();
        world.gateways[0].endpoint.reset_behind_data(now, id, ResetReason::Aborted);
        world.run_for(seconds(5));
        let reader = &mut world.gateways[1].endpoint;
        assert_eq!((reader.readable_len(name), reader.is_read_finished(name)), (50_000, false));
        assert_eq!(resets(&world, 1), []);
        let now = world.time.now();
        let reader = &mut world.gateways[1].endpoint;
        assert_eq!(reader.write(now, name, b"late"), 0);
        match drops {
            false => reader.consume(now, name, 50_000),
            true => reader.reset(now, name, ResetReason::TimedOut),
        }
        world.run_for(seconds(3));
        assert_eq!(resets(&world, 1).len(), usize::from(!drops), "who gave up needs no news of it");
        assert_eq!((resets(&world, 0), closed(&world, 1, id)), (vec![], 0));
        assert_nothing_is_left(&world);
    }
}

#[test]
fn unread_bytes_before_a_reset_survive_the_end_of_the_session() {
    let mut world = connected(Hop::geo(0.0, 1));
    let (id, name) = answered(&mut world, 50_000);
    world.gateways[1].stalled.push(id.number());
    let now = world.time.now();
    world.gateways[0].endpoint.reset_behind_data(now, id, ResetReason::Aborted);
    world.run_for(seconds(5));
    let now = world.time.now();
    world.gateways[0].endpoint.close(now);
    world.run_for(seconds(5));
    let now = world.time.now();
    assert_eq!(world.gateways[1].endpoint.readable_len(name), 50_000);
    world.gateways[1].endpoint.consume(now, name, 50_000);
    world.run_for(seconds(1));
    assert_eq!(resets(&world, 1), [(id.number(), ResetReason::Aborted)]);
}

#[test]
fn a_reset_before_the_answer_waits_for_no_reader() {
    let mut world = connected(Hop::geo(0.0, 1));
    let id = world.write(0, 0, 1000);
    world.gateways[1].stalled.push(id.number());
    let now = world.time.now();
    world.gateways[0].endpoint.reset_behind_data(now, id, ResetReason::Aborted);
    world.run_for(seconds(3));
    assert_eq!(resets(&world, 1), [(id.number(), ResetReason::Aborted)]);
    assert_nothing_is_left(&world);
}

#[test]
fn a_stream_aborted_before_anything_of_it_left_is_never_delivered() {
    let mut world = connected(Hop::geo(0.0, 1));
    let (now, peer) = (world.time.now(), world.gateways[0].peers[0]);
    let hub = &mut world.gateways[0].endpoint;
    for written in [&b""[..], b"never sent"] {
        let id = hub.open(now, peer).expect("open");
        hub.write(now, id, written);
        hub.reset(now, id, ResetReason::Aborted);
        assert_eq!(hub.write(now, id, b"late"), 0);
    }
    world.run_for(seconds(3));
    assert_eq!(world.gateways[1].count(|event| matches!(event, Event::Opened(_))), 0);
    assert_eq!(world.gateways[1].count(|event| matches!(event, Event::Readable(_) | Event::Closed(_))), 0);
    for gateway in &world.gateways {
        assert_eq!(gateway.stats(world.time.now(), 0).streams, 0);
    }
}

#[test]
fn both_sides_may_abort_at_once() {
    let mut world = connected(Hop::geo(1e-2, 5));
    let id = world.write(0, 0, 50_000);
    world.run_for(seconds(2));
    let name = counterpart(&world, 1, id);
    let now = world.time.now();
    world.gateways[0].endpoint.reset(now, id, ResetReason::Aborted);
    world.gateways[1].endpoint.reset(now, name, ResetReason::TimedOut);
    world.run_for(seconds(5));
    for (index, gateway) in world.gateways.iter().enumerate() {
        assert_eq!(resets(&world, index), [], "who aborted needs no news of it");
        assert_eq!(gateway.stats(world.time.now(), 0).streams, 0);
    }
}

#[test]
fn an_empty_stream_with_an_end_only_is_opened_and_closed() {
    let mut world = connected(Hop::geo(0.0, 1));
    let id = world.send(0, 0, 0);
    world.run_for(seconds(3));
    assert_eq!(world.gateways[1].count(|event| matches!(event, Event::Opened(_))), 1);
    assert!(world.is_finished(1, id));
    assert_eq!((closed(&world, 0, id), closed(&world, 1, id)), (1, 1));
}

#[test]
fn two_thousand_streams_open_at_once_without_a_round_trip_and_close_once_each() {
    let mut world = connected(Hop::geo(1e-3, 7));
    let start = world.time.now();
    let ids: Vec<StreamId> = (0..2000).map(|_| world.send(0, 0, 300)).collect();
    let done = world.run_until(seconds(30), |world| world.gateways[1].received.len() == 2000);
    assert!(done, "{} streams opened", world.gateways[1].received.len());
    let last = world.gateways[1].received.values().map(|received| received.opened_at).max().expect("streams");
    // 2000 streams of 300 bytes take 0.86 s at 6 Mbit/s, and half a round trip to arrive.
    assert!(last.since(start) < Duration::from_millis(275 + 860 + 700), "{}", last.since(start));
    world.run_for(seconds(6));
    for id in ids {
        assert_eq!(world.received(1, id).map(|received| (received.bytes, received.finished)), Some((300, true)));
    }
    for gateway in &world.gateways {
        assert_eq!(gateway.count(|event| matches!(event, Event::Closed(_))), 2000);
        assert_eq!(gateway.stats(world.time.now(), 0).streams, 0);
    }
}

#[test]
fn the_peers_limit_of_streams_holds_and_a_closed_one_makes_room() {
    let mut world = World::with(Hop::geo(0.0, 1), 1, |config| config.max_streams = 5);
    world.connect();
    let ids: Vec<StreamId> = (0..5).map(|_| world.write(0, 0, 100)).collect();
    let (now, peer) = (world.time.now(), world.gateways[0].peers[0]);
    assert_eq!(world.gateways[0].endpoint.open(now, peer), Err(OpenError::TooManyStreams));
    world.run_for(seconds(2));
    let (now, back) = (world.time.now(), world.gateways[1].peers[0]);
    assert!(world.gateways[1].endpoint.open(now, back).is_ok(), "the other way is free");
    world.gateways[0].endpoint.finish(world.time.now(), ids[0]);
    world.run_for(seconds(3));
    assert!(world.gateways[0].endpoint.open(world.time.now(), peer).is_ok());
    assert_eq!(world.gateways[0].endpoint.open(world.time.now(), peer), Err(OpenError::TooManyStreams));
}

#[test]
fn the_name_of_a_stream_that_is_gone_does_nothing() {
    let mut world = connected(Hop::geo(0.0, 1));
    let gone = world.send(0, 0, 1000);
    world.run_for(seconds(4));
    assert_eq!(closed(&world, 0, gone), 1);
    // The next stream takes the place of the one before.
    let id = world.write(0, 0, 1000);
    let now = world.time.now();
    let hub = &mut world.gateways[0].endpoint;
    assert_eq!(hub.write_space(gone), 0);
    assert_eq!(hub.write(now, gone, b"late"), 0);
    assert_eq!(hub.write_with(now, gone, |space| Ok::<_, ()>(space.len())), Ok(0));
    hub.consume(now, gone, 5);
    hub.finish(now, gone);
    hub.reset(now, gone, ResetReason::Aborted);
    assert!(!hub.is_read_finished(gone) && hub.stream_stats(gone).is_none());
    assert!(hub.stream_stats(id).is_some());
    world.run_for(seconds(2));
    assert_eq!(world.received(1, id).map(|received| received.bytes), Some(1000));
    assert_eq!(resets(&world, 1), []);
}

#[test]
fn a_byte_is_echoed_on_a_new_stream_in_one_round_trip() {
    for loss in [0.0, 1e-2] {
        let mut world = connected(Hop::geo(loss, 11));
        world.gateways[1].echo = true;
        let mut times = Vec::new();
        for _ in 0..15 {
            let start = world.time.now();
            let id = world.write(0, 0, 1);
            assert!(world.run_until(seconds(5), |world| world.received(0, id).is_some_and(|got| got.bytes == 1)));
            times.push(world.time.now().since(start));
            world.run_for(Duration::from_millis(700));
        }
        times.sort();
        assert!(times[7] < RTT + Duration::from_millis(20), "{times:?} at {loss}");
    }
}

/// Time until 100 streams of 20 kB are delivered while the readers of some others stall.
fn time_of_100_streams(stalled: u64, pool: Option<Bytes>) -> Duration {
    let mut world = World::with(Hop::geo(1e-3, 21), 1, move |config| config.receive_memory = pool);
    world.connect();
    let blocked: Vec<StreamId> = (0..stalled)
        .map(|_| {
            let id = world.write(0, 0, 20_000_000);
            world.gateways[1].stalled.push(id.number());
            // Each stalls with all that it is let have.
            world.run_for(seconds(3));
            id
        })
        .collect();
    world.run_for(seconds(20));
    let start = world.time.now();
    let ids: Vec<StreamId> = (0..100).map(|_| world.send(0, 0, 20_000)).collect();
    let done = world.run_until(seconds(60), |world| ids.iter().all(|id| world.is_finished(1, *id)));
    assert!(done, "{stalled} stalled readers stop all others");
    let last = ids.iter().filter_map(|id| world.received(1, *id)).map(|got| got.last_at).max();
    let pool = pool.map_or(32 << 20, Bytes::as_u64);
    assert!(world.gateways[1].stats(world.time.now(), 0).receive_buffered <= pool);
    assert!(world.gateways[0].stats(world.time.now(), 0).send_buffered <= 33 << 20);
    for id in blocked {
        assert_eq!(world.received(1, id).map(|received| received.bytes), Some(0));
    }
    last.unwrap_or(Instant::FAR_FUTURE).since(start)
}

#[test]
fn one_stalled_reader_costs_100_streams_less_than_a_twentieth() {
    let free = time_of_100_streams(0, None);
    let beside = time_of_100_streams(1, None);
    assert!(beside < free.mul_f64(1.05), "{beside} beside a stalled reader, {free} without");
}

#[test]
fn several_stalled_readers_share_the_pool_and_stop_nobody() {
    let free = time_of_100_streams(0, None);
    let beside = time_of_100_streams(8, None);
    assert!(beside < free.mul_f64(1.05), "{beside} beside stalled readers, {free} without");
    // Even where memory is short: four bandwidth-delay products in all.
    let pool = Some(Bytes::new(1_650_000));
    let free = time_of_100_streams(0, pool);
    let beside = time_of_100_streams(3, pool);
    assert!(beside < free.mul_f64(2.5), "{beside} beside stalled readers, {free} without, in a small pool");
}

#[test]
fn readers_that_stall_together_after_a_while_stop_nobody() {
    for stalled in [2, 3, 5] {
        let mut world = connected(Hop::geo(1e-3, 21));
        let ids: Vec<StreamId> = (0..stalled).map(|_| world.write(0, 0, 30_000_000)).collect();
        // Each has been let have a large part of the pool while it was read.
        world.run_for(seconds(4));
        world.gateways[1].stalled.extend(ids.iter().map(|id| id.number()));
        world.run_for(seconds(90));
        let id = world.send(0, 0, 1_000_000);
        let done = world.run_until(seconds(20), |world| world.is_finished(1, id));
        assert!(done, "{stalled} readers that stall stop another one");
        assert!(world.gateways[1].stats(world.time.now(), 0).receive_buffered <= 64 << 20);
    }
}

#[test]
fn twenty_parallel_transfers_are_served_alike_and_fill_the_link() {
    let mut world = connected(Hop::geo(1e-3, 31));
    let start = world.time.now();
    let size = 2_000_000;
    let ids: Vec<StreamId> = (0..20).map(|_| world.send(0, 0, size)).collect();
    // Jain's index while all compete, and when the last is done.
    world.run_for(seconds(30));
    let halfway: Vec<f64> = ids.iter().filter_map(|id| world.received(1, *id)).map(|got| got.bytes as f64).collect();
    assert!(halfway.len() == 20 && jain(&halfway) >= 0.99, "{halfway:?}");
    assert!(world.run_until(seconds(60), |world| ids.iter().all(|id| world.is_finished(1, *id))));
    let times: Vec<f64> = ids
        .iter()
        .filter_map(|id| world.received(1, *id))
        .map(|received| received.last_at.since(start).as_secs_f64())
        .collect();
    assert!(jain(&times) >= 0.99, "{times:?}");
    let limit = world.hop.limit_up(20 * size);
    let last = times.iter().copied().fold(0.0, f64::max);
    assert!(last <= limit / 0.96, "{last} s for a limit of {limit} s");
}

#[test]
fn a_writer_is_held_back_and_woken_when_the_reader_reads_again() {
    let mut world = connected(Hop::geo(0.0, 1));
    let id = world.send(0, 0, 60_000_000);
    world.gateways[1].stalled.push(id.number());
    world.run_for(seconds(60));
    let written = world.gateways[0].sending[&id].written;
    assert!(written < 60_000_000, "all was taken although nobody reads");
    assert!(world.gateways[0].stats(world.time.now(), 0).send_buffered <= 32 << 20);
    assert!(world.gateways[1].stats(world.time.now(), 0).receive_buffered <= 32 << 20);
    world.gateways[1].stalled.clear();
    let name = counterpart(&world, 1, id);
    let now = world.time.now();
    world.gateways[1].read(now, name);
    world.run_for(seconds(5));
    assert!(world.gateways[0].sending[&id].written > written);
}

#[test]
fn a_writer_that_found_no_space_hears_of_space() {
    let mut world = connected(Hop::geo(1e-3, 4));
    let (now, peer) = (world.time.now(), world.gateways[0].peers[0]);
    let hub = &mut world.gateways[0].endpoint;
    let id = hub.open(now, peer).expect("open");
    let offered = vec![7; 40 << 20];
    let taken = hub.write(now, id, &offered);
    assert!(taken > 0 && taken < offered.len());
    assert_eq!(hub.write_with(now, id, |space| Ok::<_, ()>(space.len())), Ok(0), "the space lent is empty");
    let wakes = |event: &Event| *event == Event::Writable(id);
    // The other end takes whatever comes.
    world.gateways[1].stalled.push(id.number());
    assert!(world.run_until(seconds(2), |world| world.gateways[0].count(wakes) > 0));
    assert!(world.gateways[0].endpoint.write_space(id) > 0);
}

#[test]
fn streams_that_have_ended_and_wait_for_their_readers_break_no_session() {
    // Servers answer, end their direction, and do not read the rest of the request.
    let mut world = World::with(Hop::geo(0.0, 3), 1, |config| config.max_streams = 4);
    world.connect();
    world.gateways[1].stalled = (0..200).collect();
    let now_open =
        |world: &World| world.gateways[0].endpoint.peer_stats(world.time.now(), world.gateways[0].peers[0]).streams;
    let mut refused = 0;
    for _ in 0..20 {
        let id = world.send(0, 0, 5000);
        world.run_for(Duration::from_secs(2));
        let now = world.time.now();
        let events = &world.gateways[1].events;
        let is_it = |event: &Event| matches!(event, Event::Opened(theirs) if theirs.number() == id.number());
        match events
            .iter()
            .find_map(|(_, event)| if let Event::Opened(id) = event { is_it(event).then_some(*id) } else { None })
        {
            Some(theirs) => world.gateways[1].endpoint.finish(now, theirs),
            None => refused += 1,
        }
        world.run_for(Duration::from_secs(2));
        assert_eq!(now_open(&world), 0, "the client's side is done");
    }
    let resets = world.gateways[0].count(|event| matches!(event, Event::Reset(_, ResetReason::StreamLimit)));
    // As many are held as may be open, and twice as many counted.
    assert_eq!((refused, resets), (8, 8));
    assert!(world.gateways.iter().all(|gateway| gateway.endpoint.stats().violations == 0));
    assert!(world.gateways.iter().all(|gateway| gateway.state(0) == satpep::PeerState::Up));
}
