//! Random lives of streams: opened, written, ended, aborted, stalled and read again by both sides over a lossy link.
//! Whatever happens, every stream ends once at each side, as an end or as an abort and never as both, and leaves nothing.

use crate::world::{Hop, Sending, World};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use satpep::{Event, ResetReason, StreamId};
use std::collections::BTreeMap;
use units::Duration;

#[derive(Debug, Clone)]
enum Act {
    Open { bytes: u64, finish: bool },
    More { stream: usize, bytes: u64, finish: bool },
    Reset { stream: usize, behind_data: bool },
    Stall { stream: usize },
    Read { stream: usize },
    Outage { millis: u64 },
    Wait { millis: u64 },
}

fn any_act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        4 => (0u64..60_000, any::<bool>()).prop_map(|(bytes, finish)| Act::Open { bytes, finish }),
        3 => (0usize..20, 0u64..60_000, any::<bool>())
            .prop_map(|(stream, bytes, finish)| Act::More { stream, bytes, finish }),
        2 => (0usize..20, any::<bool>()).prop_map(|(stream, behind_data)| Act::Reset { stream, behind_data }),
        1 => (0usize..20).prop_map(|stream| Act::Stall { stream }),
        1 => (0usize..20).prop_map(|stream| Act::Read { stream }),
        1 => (1u64..2500).prop_map(|millis| Act::Outage { millis }),
        4 => (1u64..900).prop_map(|millis| Act::Wait { millis }),
    ];
    (0usize..2, act)
}

/// The streams that a gateway knows of: those it opened and those it accepted.
fn known(world: &World, index: usize) -> Vec<StreamId> {
    let gateway = &world.gateways[index];
    let accepted = gateway.events.iter().filter_map(|(_, event)| match event {
        Event::Opened(id) => Some(*id),
        _ => None,
    });
    let mut known: Vec<StreamId> = gateway.sending.keys().copied().chain(accepted).collect();
    known.sort();
    known.dedup();
    known
}

/// Writes more to a stream, in step with what was written before; the world's readers check it.
fn write_more(world: &mut World, index: usize, id: StreamId, bytes: u64, finish: bool) {
    let gateway = &mut world.gateways[index];
    let Some(stats) = gateway.endpoint.stream_stats(id) else { return };
    let fresh = Sending { left: 0, written: stats.written, finish: false, finished: false };
    let sending = gateway.sending.entry(id).or_insert(fresh);
    if !sending.finish {
        sending.left += bytes;
        sending.finish = finish;
    }
    gateway.users(world.time.now());
}

fn act(world: &mut World, index: usize, act: Act, aborted: &mut Vec<(usize, StreamId)>) {
    let streams = known(world, index);
    let chosen = |stream: usize| streams.get(stream % streams.len().max(1)).copied();
    match act {
        Act::Open { bytes, finish } => {
            let id = world.write(index, 0, bytes);
            write_more(world, index, id, 0, finish);
        }
        Act::More { stream, bytes, finish } => {
            if let Some(id) = chosen(stream) {
                write_more(world, index, id, bytes, finish);
            }
        }
        Act::Reset { stream, behind_data } => {
            let live = chosen(stream).filter(|id| world.gateways[index].endpoint.stream_stats(*id).is_some());
            if let Some(id) = live {
                let ended = world.gateways[index].count(|event| matches!(event, Event::Reset(own, _) if *own == id));
                world.gateways[index].sending.remove(&id);
                let (now, endpoint) = (world.time.now(), &mut world.gateways[index].endpoint);
                if behind_data {
                    endpoint.reset_behind_data(now, id, ResetReason::Aborted);
                } else {
                    endpoint.reset(now, id, ResetReason::Aborted);
                }
                if ended == 0 {
                    aborted.push((index, id));
                }
            }
        }
        Act::Stall { stream } => {
            if let Some(id) = chosen(stream) {
                world.gateways[index].stalled.push(id.number());
            }
        }
        Act::Read { stream } => {
            if let Some(id) = chosen(stream) {
                world.gateways[index].stalled.retain(|number| *number != id.number());
                let now = world.time.now();
                world.gateways[index].read(now, id);
            }
        }
        Act::Outage { millis } => {
            world.outage = true;
            world.run_for(Duration::from_millis(millis));
            world.outage = false;
        }
        Act::Wait { millis } => world.run_for(Duration::from_millis(millis)),
    }
}

/// Lets all readers read, and ends what is still open.
fn wind_up(world: &mut World) {
    for _ in 0..3 {
        for index in 0..2 {
            world.gateways[index].stalled.clear();
            for id in known(world, index) {
                let now = world.time.now();
                world.gateways[index].read(now, id);
                write_more(world, index, id, 0, true);
            }
        }
        world.run_for(Duration::from_secs(8));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 64,
        rng_seed: RngSeed::Fixed(5),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_stream_ends_once_and_leaves_nothing(
        acts in proptest::collection::vec(any_act(), 1..50), seed in any::<u64>(), loss in 0.0f64..0.05
    ) {
        let mut world = World::new(Hop::geo(loss, seed), 1);
        world.connect();
        let mut aborted = Vec::new();
        for (index, next) in acts {
            act(&mut world, index, next, &mut aborted);
        }
        wind_up(&mut world);
        for (index, gateway) in world.gateways.iter().enumerate() {
            let stats = gateway.stats(world.time.now(), 0);
            prop_assert_eq!((stats.streams, stats.send_buffered, stats.receive_buffered), (0, 0, 0), "gateway {}", index);
            let mut ends = BTreeMap::<StreamId, usize>::new();
            for (_, event) in &gateway.events {
                if let Event::Closed(id) | Event::Reset(id, _) = event {
                    *ends.entry(*id).or_default() += 1;
                }
            }
            let twice: Vec<_> = ends.iter().filter(|(_, count)| **count > 1).collect();
            prop_assert!(twice.is_empty(), "ended twice: {:?}", twice);
            for (_, id) in aborted.iter().filter(|(by, _)| *by == index) {
                prop_assert!(!ends.contains_key(id), "an end after the abort of {:?}", id);
            }
        }
    }
}
