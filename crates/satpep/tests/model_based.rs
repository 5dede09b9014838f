//! Random operations on two gateways over a random hop, beside reference byte streams.
//!
//! `SATPEP_MODEL_CASES=100000 cargo test --release -p bentpipe-satpep --test it model_based::` runs longer, with `SATPEP_MODEL_SEED` for
//! other operations than last time.

use crate::model::{Operation, Setting};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: number("SATPEP_MODEL_CASES", 60) as u32,
        rng_seed: RngSeed::Fixed(number("SATPEP_MODEL_SEED", 1)),
        max_shrink_time: 120_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_on_the_hop_every_byte_arrives_once_and_in_order(
        (seed, rate, rtt, flags) in any::<(u8, u8, u8, u8)>(),
        operations in proptest::collection::vec(any::<(u8, u8)>().prop_map(Operation::decode), 1..120)
    ) {
        crate::model::run(Setting { seed, rate, rtt, flags }, operations);
    }
}
