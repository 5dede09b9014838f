//! The pending events: one time for each of a fixed set of slots, and the earliest of them at hand.

use units::Instant;

/// A tournament over slots 0..n: each inner node holds the earlier of its two children, so that the root is the earliest
/// of all. Changing one slot replays its matches up to the first whose winner stays the same: at most log2(n) of them, each
/// over two neighbours in memory. Ties go to the lower slot.
#[derive(Debug)]
pub(crate) struct Tournament {
    /// Node 1 is the root, node `i` has children `2 i` and `2 i + 1`; the second half are the slots.
    nodes: Vec<Entry>,
    leaves: usize,
}

/// A slot and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) slot: u32,
}

impl Tournament {
    /// With `slots` slots at which nothing ever happens.
    pub(crate) fn new(slots: usize) -> Self {
        let leaves = slots.max(1).next_power_of_two();
        let mut nodes = vec![Entry { at: Instant::FAR_FUTURE, slot: 0 }; 2 * leaves];
        for (slot, node) in nodes[leaves..].iter_mut().enumerate() {
            node.slot = slot as u32;
        }
        for i in (1..leaves).rev() {
            nodes[i] = nodes[2 * i];
        }
        Self { nodes, leaves }
    }

    /// The earliest time, and the lowest slot that has it.
    #[inline]
    pub(crate) fn first(&self) -> Entry {
        self.nodes[1]
    }

    /// A slot's time.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Instant {
        self.nodes[self.leaves + slot as usize].at
    }

    /// Gives a slot a new time.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, at: Instant) {
        let mut i = self.leaves + slot as usize;
        self.nodes[i].at = at;
        while i > 1 {
            let (left, right) = (self.nodes[i & !1], self.nodes[i | 1]);
            let winner = if right.at < left.at { right } else { left };
            i /= 2;
            if self.nodes[i] == winner {
                return;
            }
            self.nodes[i] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

        #[test]
        fn the_first_is_the_least_time_then_the_lowest_slot(
            slots in 1usize..40,
            changes in prop::collection::vec((0usize..40, 0u64..12), 1..200),
        ) {
            let mut tournament = Tournament::new(slots);
            let mut model = vec![Instant::FAR_FUTURE; slots];
            for (slot, nanos) in changes {
                let (slot, at) = (slot % slots, if nanos == 11 { Instant::FAR_FUTURE } else { Instant::from_nanos(nanos) });
                tournament.set(slot as u32, at);
                model[slot] = at;
                let expected = (0..slots).min_by_key(|&slot| model[slot]).expect("at least one");
                prop_assert_eq!(tournament.first(), Entry { at: model[expected], slot: expected as u32 });
                prop_assert_eq!(tournament.at(slot as u32), at);
            }
        }
    }
}
