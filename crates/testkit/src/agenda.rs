//! What is due when.

use std::collections::BTreeMap;
use units::Instant;

/// Items by the time at which they are due; those of one time in the order in which they came.
#[derive(Debug, Clone)]
pub struct Agenda<T> {
    items: BTreeMap<(Instant, u64), T>,
    count: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Agenda<T> {
    /// Without items.
    pub const fn new() -> Self {
        Self { items: BTreeMap::new(), count: 0 }
    }

    /// Puts `item` at `at`, behind what is due at the same time.
    pub fn insert(&mut self, at: Instant, item: T) {
        self.count += 1;
        self.items.insert((at, self.count), item);
    }

    /// The first item, if it is due at `now`.
    pub fn poll(&mut self, now: Instant) -> Option<T> {
        let entry = self.items.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the first item is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_by_time_and_those_of_one_time_in_the_order_they_went_in() {
        let at = Instant::from_nanos;
        let mut agenda = Agenda::new();
        for (nanos, item) in [(20, 'c'), (10, 'a'), (20, 'd'), (10, 'b')] {
            agenda.insert(at(nanos), item);
        }
        assert_eq!((agenda.len(), agenda.next_timeout()), (4, Some(at(10))));
        assert_eq!(agenda.poll(at(9)), None, "nothing is due yet");
        let due: String = std::iter::from_fn(|| agenda.poll(at(10))).collect();
        let later: String = std::iter::from_fn(|| agenda.poll(at(99))).collect();
        assert_eq!((due.as_str(), later.as_str(), agenda.is_empty()), ("ab", "cd", true));
        assert_eq!(agenda.next_timeout(), None);
    }
}
