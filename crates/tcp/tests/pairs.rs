//! Every recovery with every congestion control over random losses.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tcp::control::CONTROLS;
use tcp::recovery::RECOVERIES;
use tcp::{Allocation, Capacity, Config, Profile, SavedPath};
use units::{Bytes, Duration, Probability, Rate};

const RATE: Rate = Rate::from_bps(5_000_000);

#[derive(Debug, Clone)]
struct Case {
    rtt: u64,
    loss: f64,
    queue: u64,
    bytes: u64,
    seed: u64,
    resumes: bool,
}

prop_compose! {
    fn any_case()(
        rtt in prop::sample::select(vec![4u64, 60, 550]),
        loss in prop_oneof![Just(0.0), 1e-4..1e-2, 0.01..0.3],
        queue in 3_000u64..500_000,
        bytes in 1u64..600_000,
        seed in any::<u64>(),
        resumes in any::<bool>(),
    ) -> Case {
        Case { rtt, loss, queue, bytes, seed, resumes }
    }
}

/// Every valid configuration of the profiles' pairs.
fn configs(case: &Case) -> impl Iterator<Item = (String, Config)> {
    let rtt = Duration::from_millis(case.rtt);
    let resume = case.resumes.then_some(SavedPath { cwnd: Bytes::new(300_000), rtt });
    let capacity = Some(Capacity::new(Allocation::new(RATE, 1), rtt));
    let seed = case.seed;
    RECOVERIES.iter().flat_map(move |recovery| {
        CONTROLS.iter().flat_map(move |control| {
            [Profile::Rfc, Profile::Linux].into_iter().filter_map(move |profile| {
                let config = Config { recovery, control, resume, capacity, seed, ..Config::new(profile) };
                let name = format!("{} {} {profile:?}", recovery.name, control.name);
                config.validate().is_ok().then_some((name, config))
            })
        })
    })
}

fn path(case: &Case, config: Config) -> Path {
    let loss = LossModel::Bernoulli(Probability::new(case.loss).expect("valid"));
    let queue = QueueLimit::Bytes(Bytes::new(case.queue));
    let link = LinkConfig { queue, seed: case.seed, ..LinkConfig::new(RATE, Duration::from_millis(case.rtt) / 2) };
    Path::new(config, vec![LinkConfig { loss, ..link.clone() }], vec![link])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, rng_seed: RngSeed::Fixed(21), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_transfer_completes_or_fails_by_name_and_its_window_stays_in_bounds(case in any_case()) {
        for (name, config) in configs(&case) {
            let mut path = path(&case, config);
            path.client().write(case.bytes);
            path.client().finish();
            let mut steps = 0;
            while path.received() < case.bytes && path.failure().is_none() {
                prop_assert!(path.step().is_some(), "{}: nothing is left to happen", name);
                let window = path.metrics().window;
                prop_assert!(window.cwnd.is_finite() && window.cwnd >= 1.0, "{} {:?}", name, window);
                prop_assert!(window.ssthresh >= 2.0, "{} {:?}", name, window);
                steps += 1;
                prop_assert!(steps < 2_000_000, "{}: no end in sight at {:?}", name, path.now());
            }
            let metrics = path.metrics();
            let sent = metrics.counters.data_segments - metrics.counters.retransmissions;
            prop_assert!(path.received() <= case.bytes && metrics.acknowledged <= case.bytes, "{} {:?}", name, metrics);
            prop_assert!(path.failure().is_some() || sent * 1448 >= case.bytes, "{} {:?}", name, metrics);
        }
    }
}
