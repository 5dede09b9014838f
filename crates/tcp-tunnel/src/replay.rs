//! Numbers that may be used once.

/// Numbers further behind the highest one than this are refused unseen. Tunnel requests overtake one another only while one of
/// them is repeated; a gateway that opens a thousand connections in a second has a minute for that.
pub const REACH: u64 = 65_536;

/// Knows which numbers have been used: one bit for each of the last [`REACH`].
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// The next number above all that were used.
    next: u64,
    /// Number `n` is bit `n % REACH`.
    used: Vec<u64>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayWindow {
    /// A window in which no number has been used.
    pub fn new() -> Self {
        Self { next: 0, used: vec![0; REACH as usize / 64] }
    }

    /// Uses `number`; returns whether it may be: it has not been used before, and is not too far behind others.
    pub fn take(&mut self, number: u64) -> bool {
        if number == u64::MAX {
            // Nothing could be above it.
            return false;
        } else if number >= self.next {
            self.advance(number);
        } else if self.next - number > REACH || self.is_used(number) {
            return false;
        }
        let (word, bit) = place(number);
        self.used[word] |= bit;
        true
    }

    /// The number above all that were used, and those below it that may still be: for [`ReplayWindow::restore`]. If they are many,
    /// the newest 1024 are named; the others may not be used any more.
    pub fn state(&self) -> (u64, Vec<u64>) {
        const MAX: usize = 1024;
        let in_reach = (self.next.saturating_sub(REACH)..self.next).rev();
        let mut unused: Vec<u64> = in_reach.filter(|number| !self.is_used(*number)).take(MAX).collect();
        unused.reverse();
        (self.next, unused)
    }

    /// A window from the result of [`ReplayWindow::state`].
    pub fn restore(next: u64, unused: &[u64]) -> Self {
        let mut used = vec![u64::MAX; REACH as usize / 64];
        let is_in_reach = |number: &&u64| **number < next && next - **number <= REACH;
        for number in unused.iter().filter(is_in_reach) {
            let (word, bit) = place(*number);
            used[word] &= !bit;
        }
        Self { next, used }
    }

    fn is_used(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.used[word] & bit != 0
    }

    /// Makes `number` the highest one; the bits of the numbers between belong to others that are now out of reach.
    fn advance(&mut self, number: u64) {
        if number - self.next >= REACH {
            self.used.fill(0);
        } else {
            for skipped in self.next..=number {
                let (word, bit) = place(skipped);
                self.used[word] &= !bit;
            }
        }
        self.next = number + 1;
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % REACH;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_last_numbers_can_be_used_once_at_most() {
        let mut window = ReplayWindow::new();
        assert!(window.take(u64::MAX - 1) && !window.take(u64::MAX - 1) && !window.take(u64::MAX));
        assert!(!window.take(0), "far behind");
        assert!(window.take(u64::MAX - REACH));
    }

    #[test]
    fn a_window_is_told_of_and_restored() {
        let mut window = ReplayWindow::new();
        for number in [0, 1, 3, 7] {
            window.take(number);
        }
        let (next, unused) = window.state();
        assert_eq!((next, &unused[..]), (8, &[2, 4, 5, 6][..]));
        let mut restored = ReplayWindow::restore(next, &unused);
        let taken: Vec<u64> = (0..10).filter(|number| restored.take(*number)).collect();
        assert_eq!(taken, [2, 4, 5, 6, 8, 9]);
        window.take(50_000);
        let (next, unused) = window.state();
        assert_eq!((next, unused.len(), unused.first()), (50_001, 1024, Some(&(50_000 - 1024))), "the newest");
        for (number, may_be_used) in [(50_001, true), (49_999, true), (50_000 - 1024, true), (50_000 - 1025, false)] {
            assert_eq!(ReplayWindow::restore(next, &unused).take(number), may_be_used, "{number}");
        }
        ReplayWindow::restore(5, &[9, u64::MAX, 4]).take(4);
    }

    proptest! {
        /// Against a set of all numbers that were used.
        #[test]
        fn no_number_is_used_twice_and_none_in_reach_is_lost(
            steps in prop::collection::vec((0u64..3, 0u64..200_000, 0u64..70), 1..200)
        ) {
            let (mut window, mut used, mut highest) = (ReplayWindow::new(), BTreeSet::new(), 0u64);
            for (kind, far, near) in steps {
                let number = match kind {
                    0 => highest.saturating_add(near),
                    1 => highest.saturating_sub(far),
                    _ => highest.saturating_add(far),
                };
                let in_reach = number + REACH > highest || used.is_empty();
                let fresh = !used.contains(&number);
                prop_assert_eq!(window.take(number), fresh && in_reach, "{} after {}", number, highest);
                used.insert(number);
                highest = highest.max(number);
                let (next, unused) = window.state();
                // Those that are not named count as used.
                if far % 7 == 0 && (1..1024).contains(&unused.len()) {
                    window = ReplayWindow::restore(next, &unused);
                }
            }
        }
    }
}
