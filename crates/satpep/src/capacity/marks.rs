//! The receiver's side of the estimate: marked datagrams whose arrival the sender wants to know.

use smallvec::SmallVec;
use units::{Duration, Instant};

/// What is to be told.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Marked datagrams, and when they arrived.
    marked: SmallVec<[(u64, Instant); Self::MOST]>,
    /// Until when each acknowledgement tells of the newest datagram, too.
    until: Instant,
}

impl Marks {
    /// Marks that wait for the next acknowledgement at most; more would come from a peer that wants to fill the way back.
    pub(super) const MOST: usize = 4;
    /// How long a mark keeps arrivals being told.
    pub(super) const INTEREST: Duration = Duration::from_secs(10);

    /// A marked datagram arrived.
    pub(crate) fn mark(&mut self, now: Instant, number: u64) {
        if self.marked.len() == Self::MOST {
            self.marked.remove(0);
        }
        self.marked.push((number, now));
        self.until = now + Self::INTEREST;
    }

    /// Takes what is to be told beside an acknowledgement, whose newest datagram arrived as given: numbers, and the lowest
    /// 30 bits of the microseconds.
    pub(crate) fn take(&mut self, now: Instant, newest: (u64, Instant)) -> SmallVec<[(u64, u32); Self::MOST + 1]> {
        if self.until <= now {
            return SmallVec::new();
        }
        let micros = |at: Instant| ((at.as_nanos() / 1000) & ((1 << 30) - 1)) as u32;
        let told = self.marked.drain(..).filter(|(number, _)| *number != newest.0);
        let told: SmallVec<[_; Self::MOST + 1]> = told.collect();
        told.into_iter().chain([newest]).map(|(number, at)| (number, micros(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_told_for_a_while_after_a_mark_and_never_many() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut marks = Marks::default();
        assert!(marks.take(at(1), (3, at(1))).is_empty());
        (0..9).for_each(|number| marks.mark(at(number), number));
        let told: Vec<_> = marks.take(at(10), (8, at(8))).into_iter().collect();
        assert_eq!(told, [(5, 5000), (6, 6000), (7, 7000), (8, 8000)]);
        assert_eq!(marks.take(at(20), (12, at(19))).to_vec(), [(12, 19_000)]);
        assert!(marks.take(at(10_008), (900, at(10_000))).is_empty());
    }
}
