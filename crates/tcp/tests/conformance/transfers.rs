//! Whole transfers over random networks: what must hold whatever is lost, reordered or duplicated.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tcp::recovery::RECOVERIES;
use tcp::{Config, Flags, Profile, RecoveryKind};
use units::{Duration, Probability, Rate};

const PROFILES: [Profile; 3] = [Profile::Rfc, Profile::Linux, Profile::Ns2];

fn hop(loss: f64, seed: u64) -> LinkConfig {
    LinkConfig {
        queue: QueueLimit::Packets(200),
        loss: LossModel::Bernoulli(Probability::new(loss).expect("valid")),
        seed,
        ..LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(50))
    }
}

#[derive(Debug, Clone)]
struct Network {
    losses: (f64, f64),
    reordering: f64,
    duplication: f64,
    seed: u64,
    bytes: u64,
}

fn networks() -> impl Strategy<Value = Network> {
    let loss = || prop_oneof![Just(0.0), 0.0..0.05, 0.0..0.3];
    (loss(), loss(), prop_oneof![Just(0.0), 0.0..0.5], prop_oneof![Just(0.0), 0.0..0.3], any::<u64>(), 1u64..400_000)
        .prop_map(|(forth, back, reordering, duplication, seed, bytes)| Network {
            losses: (forth, back),
            reordering,
            duplication,
            seed,
            bytes,
        })
}

fn links(network: &Network) -> (Vec<LinkConfig>, Vec<LinkConfig>) {
    let probability = |share: f64| Probability::new(share).expect("valid");
    let disturbed = |loss, seed| LinkConfig {
        reorder: Some(link::Reorder {
            probability: probability(network.reordering),
            extra_delay: Duration::from_millis(20),
        }),
        duplicate: probability(network.duplication),
        ..hop(loss, seed)
    };
    (vec![disturbed(network.losses.0, network.seed)], vec![disturbed(network.losses.1, network.seed ^ 1)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(9293), failure_persistence: None, ..ProptestConfig::default() })]

    /// Every recovery with every profile delivers every byte once and in order, or says why not; without a busy loop,
    /// and with no more kept than the window holds.
    #[test]
    fn a_transfer_completes_or_fails_by_name(network in networks()) {
        for recovery in RECOVERIES {
            for profile in PROFILES {
                let config = Config { recovery, ..Config::new(profile) };
                let (forward, backward) = links(&network);
                let mut path = Path::new(config, forward, backward);
                path.client().write(network.bytes);
                path.client().finish();
                let mut events = 0;
                while path.received() < network.bytes && path.failure().is_none() && path.step().is_some() {
                    events += 1;
                }
                let what = format!("{} {profile:?}, {events} events: {:?}", recovery.name, path.metrics());
                let is_named = path.failure().is_some();
                prop_assert!(is_named || path.received() == network.bytes, "neither complete nor failed: {}", what);
                let sent = path.metrics().counters.data_segments;
                prop_assert!(sent < 40 * (network.bytes / 1_000 + 40), "{}", what);
                // Each segment and its answer enter and leave a link, perhaps twice, and may set a timer.
                prop_assert!(events < 12 * sent + 20 * path.now().as_secs_f64() as u64 + 100, "{}", what);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, rng_seed: RngSeed::Fixed(5681), failure_persistence: None, ..ProptestConfig::default() })]

    /// The same for every congestion control, paced ones and those that govern the window included.
    #[test]
    fn every_control_completes_as_well(network in networks()) {
        for control in tcp::control::CONTROLS {
            for name in ["newreno", "sack", "rack"] {
                let recovery = RecoveryKind::by_name(name).expect("known");
                let allocation = tcp::Allocation::new(Rate::from_bps(6_000_000), 1);
                let capacity = Some(tcp::Capacity::new(allocation, Duration::from_millis(100)));
                let config = Config { recovery, control, capacity, ..Config::new(Profile::Linux) };
                let (forward, backward) = links(&network);
                let mut path = Path::new(config, forward, backward);
                let end = path.transfer(network.bytes);
                let what = format!("{} {name}: {:?}", control.name, path.metrics());
                prop_assert!(end.is_some() || path.failure().is_some(), "neither complete nor failed: {}", what);
                prop_assert!(end.is_none() || path.received() == network.bytes, "{}", what);
                prop_assert!(path.metrics().window.cwnd >= 1.0, "{}", what);
            }
        }
    }
}

/// Completion times without any loss are equal, and with several losses in a window better knowledge is not slower.
#[test]
fn more_knowledge_is_no_slower() {
    let time = |name: &str, drops: &[u64]| {
        let recovery = RecoveryKind::by_name(name).expect("known");
        let config = Config { recovery, initial_ssthresh: 40.0, ..Config::new(Profile::Rfc) };
        let loss = LossModel::DropList(drops.to_vec());
        let forward = LinkConfig { loss, ..hop(0.0, 1) };
        let mut path = Path::new(config, vec![forward], vec![hop(0.0, 2)]);
        path.transfer(500_000).expect("complete").as_secs_f64()
    };
    let none: Vec<f64> = ["tahoe", "reno", "newreno", "sack", "rack"].map(|name| time(name, &[])).to_vec();
    assert!(none.iter().all(|time| *time == none[0]), "{none:?}");
    let slack = 1.02;
    let mut rng = units::CounterRandom::new(6675, 1);
    for case in 0..60 {
        let count = 2 + case % 6;
        let first = 20 + rng.next_u64() % 150;
        let mut drops: Vec<u64> = (0..count).map(|_| first + rng.next_u64() % 30).collect();
        drops.sort_unstable();
        drops.dedup();
        let [reno, newreno, sack, rack] = ["reno", "newreno", "sack", "rack"].map(|name| time(name, &drops));
        assert!(sack <= newreno * slack && newreno <= reno * slack, "{drops:?}: {reno} {newreno} {sack}");
        assert!(rack <= sack * 1.1, "{drops:?}: {rack} {sack}");
    }
}

/// Every segment on the wire is one that TCP may send: data inside the peer's window, acknowledgements that never move
/// back, SACK blocks above them.
#[test]
fn what_is_on_the_wire_is_sound() {
    use std::sync::{Arc, Mutex};
    for recovery in RECOVERIES {
        for (profile, seed) in PROFILES.into_iter().zip(1..) {
            let network = Network { losses: (0.05, 0.05), reordering: 0.1, duplication: 0.05, seed, bytes: 300_000 };
            let (forward, backward) = links(&network);
            let mut path = Path::new(Config { recovery, ..Config::new(profile) }, forward, backward);
            let faults = Arc::new(Mutex::new(Vec::new()));
            let seen = faults.clone();
            let (mut edge, mut acks) = (u64::MAX, [0, 0]);
            path.set_tap(move |now, from_client, segment| {
                let mut faults = seen.lock().expect("one thread");
                let last = &mut acks[usize::from(from_client)];
                if segment.ack < *last && segment.has(Flags::ACK) {
                    faults.push(format!("{now:?}: the acknowledgement moves back: {segment:?}"));
                }
                *last = segment.ack.max(*last);
                if from_client && segment.seq + segment.span() > edge.saturating_add(1) {
                    faults.push(format!("{now:?}: beyond {edge}: {segment:?}"));
                }
                if !from_client {
                    edge = if edge == u64::MAX { 0 } else { edge }.max(segment.ack + u64::from(segment.window));
                }
                let blocks: Vec<_> = segment.sack_blocks().skip(usize::from(segment.has(Flags::DSACK))).collect();
                if blocks.iter().any(|block| block.is_empty() || block.start <= segment.ack) {
                    faults.push(format!("{now:?}: a block that says nothing: {segment:?}"));
                }
            });
            path.transfer(network.bytes).expect("complete");
            let faults = faults.lock().expect("one thread");
            assert!(faults.is_empty(), "{} {profile:?}: {:?}", recovery.name, &faults[..faults.len().min(3)]);
        }
    }
}

/// Dynamic right-sizing (Fisk and Feng, 2001): the window keeps ahead of slow start, so that a transfer with autotuning
/// takes hardly longer than one with the largest buffer from the start; and no advertised edge is taken back.
#[test]
fn the_autotuned_window_keeps_up_with_slow_start() {
    use std::sync::{Arc, Mutex};
    use tcp::ReceiveBuffer;
    use units::Bytes;
    let geo = |seed| LinkConfig { delay: Duration::from_millis(275), ..hop(0.0, seed) };
    let run = |receive_buffer: ReceiveBuffer| {
        let config = Config { receive_buffer, initial_ssthresh: 280.0, ..Config::new(Profile::Linux) };
        let mut path = Path::new(config, vec![geo(1)], vec![geo(2)]);
        let seen = Arc::new(Mutex::new((0, Vec::new())));
        let told = seen.clone();
        path.set_tap(move |_, from_client, segment| {
            if !from_client && !segment.has(Flags::SYN) {
                let (edge, windows) = &mut *told.lock().expect("one thread");
                let now = segment.ack + u64::from(segment.window);
                // Rounding to the unit of the scale may take back less than that.
                assert!(now + (1 << 7) > *edge, "an edge of {edge} taken back: {segment:?}");
                *edge = now.max(*edge);
                windows.push(segment.window);
            }
        });
        let end = path.transfer(6_000_000).expect("complete").as_secs_f64();
        let windows = seen.lock().expect("one thread").1.clone();
        (end, windows)
    };
    let most = Bytes::new(6 << 20);
    let (plain, _) = run(ReceiveBuffer::plain(most));
    let (tuned, windows) = run(ReceiveBuffer { size: Bytes::new(131_072), share: 0.5, most });
    assert!(windows[0] <= 65_536, "it starts small: {}", windows[0]);
    assert!(windows.iter().all(|window| u64::from(*window) <= most.as_u64() / 2));
    assert!(*windows.last().expect("some") > 800_000, "two round trips' worth: {:?}", windows.last());
    assert!(tuned <= plain + 0.6, "at most a round trip longer: {tuned} {plain}");
}
