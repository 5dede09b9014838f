//! The pending events: one time for each of a fixed set of slots, and the earliest of them at hand.

use units::Instant;

/// A tournament over slots 0..n in matches of `PLAYERS`, a power of two up to eight: the winner of each plays in the match above, so
/// that the last one gives the earliest of all. Changing one slot replays its matches up to the first whose winner stays the
/// same: at most one of each round. Ties go to the lower slot. Matches of four suit few slots of which the earliest keeps
/// changing, matches of eight many slots that seldom are the earliest.
#[derive(Debug)]
pub(crate) struct EventQueue<const PLAYERS: usize> {
    /// The final first, then round before round; the last round has all slots.
    matches: Vec<Match<PLAYERS>>,
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
pub(crate) const NEVER: Instant = Instant::from_nanos((1 << (64 - MOST_PLACE_BITS)) - 1);

/// Bits of a place among eight.
const MOST_PLACE_BITS: u32 = 3;

/// Players. A key is a time and, in its lowest bits, the player's place in the match: the least key is that of the earliest
/// time, and among equals of the first place.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Match<const PLAYERS: usize> {
    keys: [u64; PLAYERS],
    slots: [u32; PLAYERS],
}

impl<const PLAYERS: usize> Match<PLAYERS> {
    /// The winner's key.
    #[inline]
    fn winner(&self) -> u64 {
        let mut keys = self.keys;
        let mut players = PLAYERS;
        while players > 1 {
            players /= 2;
            for pair in 0..players {
                keys[pair] = keys[pair].min(keys[pair + players]);
            }
        }
        keys[0]
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

impl<const PLAYERS: usize> EventQueue<PLAYERS> {
    const PLACE_BITS: u32 = {
        assert!(PLAYERS.is_power_of_two() && PLAYERS <= 1 << MOST_PLACE_BITS, "a place has so many bits");
        PLAYERS.trailing_zeros()
    };
    const PLACE: u64 = PLAYERS as u64 - 1;

    /// With `slots` slots at which nothing ever happens.
    pub(crate) fn new(slots: usize) -> Self {
        let (mut width, mut last_round) = (1, 0);
        while width * PLAYERS < slots {
            last_round += width;
            width *= PLAYERS;
        }
        let never = std::array::from_fn(|place| NEVER.as_nanos() << Self::PLACE_BITS | place as u64);
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

    /// The slot whose time comes after that of the first, if it has one.
    #[inline]
    pub(crate) fn second(&self) -> u32 {
        let mut slot = self.first.slot;
        let (mut i, mut place) = (self.last_round + slot as usize / PLAYERS, slot as usize % PLAYERS);
        let mut least = u64::MAX;
        // It lost to the first in one of the matches of the first.
        loop {
            let mut round = self.matches[i];
            round.keys[place] = u64::MAX;
            let winner = round.winner();
            if winner & !Self::PLACE < least {
                (least, slot) = (winner & !Self::PLACE, round.slots[(winner & Self::PLACE) as usize]);
            }
            if i == 0 {
                return slot;
            }
            (i, place) = ((i - 1) / PLAYERS, (i - 1) % PLAYERS);
        }
    }

    /// A slot's time.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Instant {
        let (round, place) = (self.last_round + slot as usize / PLAYERS, slot as usize % PLAYERS);
        Instant::from_nanos(self.matches[round].keys[place] >> Self::PLACE_BITS)
    }

    /// Gives the [first](Self::first) slot a new time: as [`Self::set`], with every match to be replayed.
    #[inline]
    pub(crate) fn set_first(&mut self, at: Instant) {
        self.play::<true>(self.first.slot, at);
    }

    /// Gives a slot a new time; what is later than [`NEVER`] becomes that.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, at: Instant) {
        self.play::<false>(slot, at);
    }

    /// Plays the matches of a slot that has a new time: `ALL`, or up to the first whose winner stays.
    #[inline]
    fn play<const ALL: bool>(&mut self, mut slot: u32, at: Instant) {
        let (mut i, mut place) = (self.last_round + slot as usize / PLAYERS, slot as usize % PLAYERS);
        let mut at_bits = at.min(NEVER).as_nanos() << Self::PLACE_BITS;
        loop {
            let round = &mut self.matches[i];
            if !round.enter(place, at_bits, slot) && !ALL {
                return;
            }
            let winner = round.winner();
            (at_bits, slot) = (winner & !Self::PLACE, round.slots[(winner & Self::PLACE) as usize]);
            if i == 0 {
                break;
            }
            (i, place) = ((i - 1) / PLAYERS, (i - 1) % PLAYERS);
        }
        self.first = Entry { at: Instant::from_nanos(at_bits >> Self::PLACE_BITS), slot };
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
            changes in prop::collection::vec((prop::option::weighted(0.7, 0usize..80), 0u64..12), 1..200),
        ) {
            let (mut fours, mut eights) = (EventQueue::<4>::new(slots), EventQueue::<8>::new(slots));
            let mut model = vec![NEVER; slots];
            for (slot, nanos) in changes {
                let at = if nanos == 11 { NEVER } else { Instant::from_nanos(nanos) };
                let slot = match slot {
                    Some(slot) => {
                        fours.set((slot % slots) as u32, at);
                        eights.set((slot % slots) as u32, at);
                        slot % slots
                    }
                    None => {
                        let first = fours.first().slot as usize;
                        fours.set_first(at);
                        eights.set_first(at);
                        first
                    }
                };
                model[slot] = at;
                let expected = (0..slots).min_by_key(|&slot| model[slot]).expect("at least one");
                let expected = Entry { at: model[expected], slot: expected as u32 };
                prop_assert_eq!([fours.first(), eights.first()], [expected; 2]);
                let others = model.iter().enumerate().filter(|(slot, _)| *slot != expected.slot as usize);
                // Where nothing else is pending, any other slot may be named, even one that is not used.
                if let Some(second) = others.map(|(_, at)| *at).min().filter(|second| *second < NEVER) {
                    prop_assert_eq!([fours.second(), eights.second()].map(|slot| model[slot as usize]), [second; 2]);
                    prop_assert!(fours.second() != expected.slot && eights.second() != expected.slot);
                }
                prop_assert_eq!([fours.at(slot as u32), eights.at(slot as u32)], [at; 2]);
            }
        }
    }
}
