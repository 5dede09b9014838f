//! What the fuzz target `tunnel` does, with fixed seeds.

use crate::model::Model;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[test]
fn an_honest_tunnel_request_is_taken_once_and_one_that_was_altered_is_not() {
    let mut model = Model::default();
    // A hello, its challenge, the proof, a tunnel request.
    let taken: Vec<_> =
        [(0, 0), (3, 0), (7, 0), (9, 5)].map(|(operation, argument)| model.step(operation, argument)).into();
    assert_eq!(taken, [0, 0, 0, 1]);
    assert_eq!(model.step(10, 0), 1, "repeated");
    assert_eq!(model.step(11, 77), 1, "altered");
    assert_eq!(model.step(9, 6), 2);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn whoever_is_between_the_gateways_gets_nothing_taken_that_was_not_opened_or_twice(
        operations in proptest::collection::vec((0u8..12, any::<u8>()), 0..60)
    ) {
        let mut model = Model::default();
        for (operation, argument) in operations {
            model.step(operation, argument);
        }
    }
}
