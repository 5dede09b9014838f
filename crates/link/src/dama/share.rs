//! Dividing slots among terminals that want more than there are.

use super::Sharing;

/// What each of `demands` gets of `budget` slots, never more than it wants; all of the budget if the demands reach it.
/// `turn` says whose turn it is to get a slot that cannot be divided.
pub(super) fn share(sharing: Sharing, demands: &[u64], budget: u64, turn: usize) -> Vec<u64> {
    match sharing {
        Sharing::MaxMin => max_min(demands, budget, turn),
        Sharing::Proportional => proportional(demands, budget, turn),
    }
}

/// Small demands are met, the others cut to one level.
pub(super) fn max_min(demands: &[u64], mut budget: u64, turn: usize) -> Vec<u64> {
    let mut gets = vec![0; demands.len()];
    // Of equal demands the last in the order gets what cannot be divided.
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|index| (demands[*index], (index + turn) % demands.len()));
    let mut left = demands.len() as u64;
    for index in order {
        gets[index] = demands[index].min(budget / left);
        budget -= gets[index];
        left -= 1;
    }
    gets
}

/// The same fraction of each demand.
fn proportional(demands: &[u64], budget: u64, turn: usize) -> Vec<u64> {
    let total: u128 = demands.iter().map(|demand| u128::from(*demand)).sum();
    let budget = u128::from(budget).min(total);
    let part = |demand: &u64| (u128::from(*demand) * budget / total.max(1)) as u64;
    let mut gets: Vec<u64> = demands.iter().map(part).collect();
    let mut rest = budget as u64 - gets.iter().sum::<u64>();
    for index in (0..demands.len()).map(|offset| (offset + turn) % demands.len()) {
        let more = rest.min(demands[index] - gets[index]).min(1);
        gets[index] += more;
        rest -= more;
    }
    gets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn small_demands_are_met_and_large_ones_cut_to_one_level() {
        assert_eq!(max_min(&[2, 10, 20], 15, 0), [2, 6, 7]);
        assert_eq!(max_min(&[2, 10, 20], 100, 0), [2, 10, 20]);
        assert_eq!(share(Sharing::Proportional, &[2, 10, 20], 16, 0), [1, 5, 10]);
    }

    #[test]
    fn in_turn_all_get_what_cannot_be_divided() {
        for sharing in [Sharing::MaxMin, Sharing::Proportional] {
            let mut sums = [0; 3];
            for turn in 0..3 {
                share(sharing, &[9; 3], 10, turn).iter().zip(&mut sums).for_each(|(gets, sum)| *sum += gets);
            }
            assert_eq!(sums, [10; 3], "{sharing:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), cases: 256, ..ProptestConfig::default() })]
        #[test]
        fn nobody_gets_more_than_wanted_and_nothing_wanted_is_left(
            demands in prop::collection::vec(0u64..2000, 0..12), budget in 0u64..5000, turn in 0usize..20,
        ) {
            for sharing in [Sharing::MaxMin, Sharing::Proportional] {
                let gets = share(sharing, &demands, budget, turn);
                prop_assert!(gets.iter().zip(&demands).all(|(gets, demand)| gets <= demand));
                prop_assert_eq!(gets.iter().sum::<u64>(), budget.min(demands.iter().sum()));
            }
        }
    }
}
