//! The pending events: one time for each of a fixed set of slots, and the earliest of them at hand.

use units::Instant;

/// A tournament over slots 0..n in matches of four: the winner of each plays in the match above, so that the last one gives
/// the earliest of all. Changing one slot replays its matches up to the first whose winner stays the same: at most log4(n)
/// of them, one cache line each. Ties go to the lower slot.
#[derive(Debug)]
pub(crate) struct Tournament {
    /// The final first, then round before round; the last round has all slots.
    matches: Vec<Match>,
    /// The number of the first match of the last round.
    last_round: usize,
    first: Entry,
}

/// A slot and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) slot: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Match([Entry; 4]);

impl Match {
    #[inline]
    fn winner(&self) -> Entry {
        let earlier = |a: Entry, b: Entry| if b.at < a.at { b } else { a };
        let [a, b, c, d] = self.0;
        earlier(earlier(a, b), earlier(c, d))
    }
}

impl Tournament {
    /// With `slots` slots at which nothing ever happens.
    pub(crate) fn new(slots: usize) -> Self {
        let (mut rounds, mut last_round) = (1, 0);
        while rounds * 4 < slots {
            last_round += rounds;
            rounds *= 4;
        }
        let never = |slot| Entry { at: Instant::FAR_FUTURE, slot };
        let mut matches = vec![Match([never(0); 4]); last_round + rounds];
        for (number, entries) in matches[last_round..].iter_mut().enumerate() {
            entries.0 = [0, 1, 2, 3].map(|k| never((4 * number + k) as u32));
        }
        for i in (1..matches.len()).rev() {
            let winner = matches[i].winner();
            matches[(i - 1) / 4].0[(i - 1) % 4] = winner;
        }
        Self { first: matches[0].winner(), matches, last_round }
    }

    /// The earliest time, and the lowest slot that has it.
    #[inline]
    pub(crate) fn first(&self) -> Entry {
        self.first
    }

    /// A slot's time.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Instant {
        self.matches[self.last_round + slot as usize / 4].0[slot as usize % 4].at
    }

    /// Gives a slot a new time.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, at: Instant) {
        let mut i = self.last_round + slot as usize / 4;
        self.matches[i].0[slot as usize % 4].at = at;
        while i > 0 {
            let winner = self.matches[i].winner();
            let above = &mut self.matches[(i - 1) / 4].0[(i - 1) % 4];
            if *above == winner {
                return;
            }
            *above = winner;
            i = (i - 1) / 4;
        }
        self.first = self.matches[0].winner();
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
