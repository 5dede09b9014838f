//! The pending events: one time for each of a fixed set of slots, and the earliest of them at hand.

use units::Instant;

/// A tournament over slots 0..n in matches of eight: the winner of each plays in the match above, so that the last one gives
/// the earliest of all. Changing one slot replays its matches up to the first whose winner stays the same: at most log8(n)
/// of them. Ties go to the lower slot.
#[derive(Debug)]
pub(crate) struct EventQueue {
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

/// Later than anything that can be entered: after 73 years.
pub(crate) const NEVER: Instant = Instant::from_nanos((1 << (64 - PLACE_BITS)) - 1);

/// Players of a match.
const PLAYERS: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 3;
const PLACE: u64 = PLAYERS as u64 - 1;

/// Eight players. A key is a time and, in its lowest bits, the player's place in the match: the least key is that of the
/// earliest time, and among equals of the first place.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Match {
    keys: [u64; PLAYERS],
    slots: [u32; PLAYERS],
}

impl Match {
    /// The winner's key.
    #[inline]
    fn winner(&self) -> u64 {
        let [a, b, c, d, e, f, g, h] = self.keys;
        a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
    }

    /// Enters a player at `place`; returns whether that changes anything.
    #[inline]
    fn enter(&mut self, place: usize, at_bits: u64, slot: u32) -> bool {
        let key = at_bits | place as u64;
        let changes = self.keys[place] != key || self.slots[place] != slot;
        (self.keys[place], self.slots[place]) = (key, slot);
        changes
    }
}

impl EventQueue {
    /// With `slots` slots at which nothing ever happens.
    pub(crate) fn new(slots: usize) -> Self {
        let (mut width, mut last_round) = (1, 0);
        while width * PLAYERS < slots {
            last_round += width;
            width *= PLAYERS;
        }
        let never = [0, 1, 2, 3, 4, 5, 6, 7].map(|place| NEVER.as_nanos() << PLACE_BITS | place);
        let mut matches = vec![Match { keys: never, slots: [0; PLAYERS] }; last_round + width];
        for (slot, place) in matches[last_round..].iter_mut().flat_map(|round| &mut round.slots).enumerate() {
            *place = slot as u32;
        }
        for i in (1..matches.len()).rev() {
            matches[(i - 1) / PLAYERS].slots[(i - 1) % PLAYERS] = matches[i].slots[0];
        }
        Self { matches, last_round, first: Entry { at: NEVER, slot: 0 } }
    }

    /// The earliest time, and the lowest slot that has it; [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn first(&self) -> Entry {
        self.first
    }

    /// A slot's time.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Instant {
        let (round, place) = (self.last_round + slot as usize / PLAYERS, slot as usize % PLAYERS);
        Instant::from_nanos(self.matches[round].keys[place] >> PLACE_BITS)
    }

    /// Gives a slot a new time; what is later than [`NEVER`] becomes that.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, at: Instant) {
        let (mut i, mut place) = (self.last_round + slot as usize / PLAYERS, slot as usize % PLAYERS);
        let (mut at_bits, mut slot) = (at.min(NEVER).as_nanos() << PLACE_BITS, slot);
        loop {
            let round = &mut self.matches[i];
            if !round.enter(place, at_bits, slot) {
                return;
            }
            let winner = round.winner();
            (at_bits, slot) = (winner & !PLACE, round.slots[(winner & PLACE) as usize]);
            if i == 0 {
                break;
            }
            (i, place) = ((i - 1) / PLAYERS, (i - 1) % PLAYERS);
        }
        self.first = Entry { at: Instant::from_nanos(at_bits >> PLACE_BITS), slot };
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
            slots in 1usize..80,
            changes in prop::collection::vec((0usize..80, 0u64..12), 1..200),
        ) {
            let mut queue = EventQueue::new(slots);
            let mut model = vec![NEVER; slots];
            for (slot, nanos) in changes {
                let (slot, at) = (slot % slots, if nanos == 11 { NEVER } else { Instant::from_nanos(nanos) });
                queue.set(slot as u32, at);
                model[slot] = at;
                let expected = (0..slots).min_by_key(|&slot| model[slot]).expect("at least one");
                prop_assert_eq!(queue.first(), Entry { at: model[expected], slot: expected as u32 });
            }
        }
    }
}
