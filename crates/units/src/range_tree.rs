//! A set of integers as [`RangeSet`](crate::RangeSet) is, for ranges of which a stranger chooses the order.

use std::collections::BTreeMap;
use std::ops::{Range, Sub};

/// Sorted, disjoint, non-adjacent half-open ranges, in a tree: an insertion takes O(log n) time wherever it is, for each range that it adds or
/// merges. [`RangeSet`](crate::RangeSet) takes O(n) in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTree<T = u64> {
    /// The end of each range but the highest, by its start.
    below: BTreeMap<T, T>,
    /// The highest range, which most insertions extend or follow: they need no search.
    highest: Option<Range<T>>,
}

impl<T> Default for RangeTree<T> {
    fn default() -> Self {
        Self { below: BTreeMap::new(), highest: None }
    }
}

impl<T: Copy + Ord + Sub<Output = u64>> RangeTree<T> {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.highest.is_none()
    }

    /// The number of separate ranges.
    pub fn len(&self) -> usize {
        self.below.len() + usize::from(self.highest.is_some())
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<Range<T>> {
        self.below.first_key_value().map(|(&start, &end)| start..end).or_else(|| self.highest.clone())
    }

    /// Takes the lowest range out.
    pub fn pop_first(&mut self) -> Option<Range<T>> {
        self.below.pop_first().map(|(start, end)| start..end).or_else(|| self.highest.take())
    }

    /// The range that holds `value`.
    pub fn range_of(&self, value: T) -> Option<Range<T>> {
        let highest = self.highest.clone()?;
        let range = if highest.start <= value { highest } else { self.below_up_to(value)? };
        Some(range).filter(|range| range.contains(&value))
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: T) -> bool {
        self.range_of(value).is_some()
    }

    /// Whether every member of `range` is in the set: of an empty one, all are.
    pub fn covers(&self, range: &Range<T>) -> bool {
        range.is_empty() || self.range_of(range.start).is_some_and(|known| known.end >= range.end)
    }

    /// Adds `new`; returns how many of its members were not there before.
    pub fn insert(&mut self, new: Range<T>) -> u64 {
        if new.is_empty() {
            return 0;
        }
        match &mut self.highest {
            Some(highest) if new.start >= highest.start => {
                let added = new.end.max(highest.end) - new.start.max(highest.end);
                if new.start <= highest.end {
                    highest.end = highest.end.max(new.end);
                } else {
                    let before = std::mem::replace(highest, new);
                    self.below.insert(before.start, before.end);
                }
                added
            }
            Some(_) => self.insert_below(new),
            None => {
                let added = new.end - new.start;
                self.highest = Some(new);
                added
            }
        }
    }

    /// The last range below the highest that starts at `value` or before.
    fn below_up_to(&self, value: T) -> Option<Range<T>> {
        self.below.range(..=value).next_back().map(|(&start, &end)| start..end)
    }

    /// Adds `new`, which starts below the highest range, as [`RangeTree::insert`] does.
    fn insert_below(&mut self, new: Range<T>) -> u64 {
        let mut merged = new.clone();
        let mut already = 0;
        // Those that start within `new`, or where it ends, and the one before it if that reaches so far.
        if let Some(before) = self.below_up_to(new.start).filter(|before| before.end >= new.start) {
            already += before.end.min(new.end) - new.start;
            merged = before.start..before.end.max(new.end);
        }
        while let Some((&start, &end)) = self.below.range(new.start..=new.end).next() {
            if start > new.start {
                already += end.min(new.end) - start;
                merged.end = merged.end.max(end);
            }
            self.below.remove(&start);
        }
        match &mut self.highest {
            Some(highest) if highest.start <= new.end => {
                already += highest.end.min(new.end) - highest.start;
                self.below.remove(&merged.start);
                *highest = merged.start..highest.end.max(merged.end);
            }
            _ => {
                self.below.insert(merged.start, merged.end);
            }
        }
        new.end - new.start - already
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RangeSet;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    thread_local!(static COMPARISONS: Cell<u64> = const { Cell::new(0) });

    /// A number that counts how often it is compared.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Counted(u64);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Sub for Counted {
        type Output = u64;

        fn sub(self, other: Self) -> u64 {
            self.0 - other.0
        }
    }

    /// Every second number, then the gaps from the middle on: no step goes through a part of the ranges.
    #[test]
    fn gaps_in_the_middle_of_many_ranges_are_filled_in_few_steps() {
        let mut tree = RangeTree::new();
        let mut insert = |number: u64| {
            COMPARISONS.set(0);
            assert_eq!(tree.insert(Counted(number)..Counted(number + 1)), 1);
            (tree.len(), COMPARISONS.get())
        };
        let most_added = (0..60_000).map(|at| insert(2 * at).1).max();
        let most_filled = (30_000..59_000).map(|at| insert(2 * at + 1).1).max();
        assert_eq!(insert(1).0, 60_000 - 29_000 - 1);
        assert!(most_added < Some(300) && most_filled < Some(300), "{most_added:?} and {most_filled:?} comparisons");
    }

    proptest! {
        /// Ranges are inserted, and the lowest taken out where the length is 0.
        #[test]
        fn behaves_as_a_range_set(operations in proptest::collection::vec((0u64..80, 0u64..12), 0..60)) {
            let (mut tree, mut ranges) = (RangeTree::new(), RangeSet::new());
            for (start, length) in operations {
                if length == 0 {
                    prop_assert_eq!(tree.pop_first(), ranges.pop_first());
                }
                prop_assert_eq!(tree.insert(start..start + length), ranges.insert(start..start + length));
                let all = tree.below.iter().map(|(&start, &end)| start..end).chain(tree.highest.clone());
                prop_assert_eq!(all.collect::<Vec<_>>(), ranges.iter().cloned().collect::<Vec<_>>());
                prop_assert_eq!((tree.len(), tree.is_empty(), tree.first()), (ranges.len(), ranges.is_empty(), ranges.first()));
                for value in 0..100 {
                    prop_assert_eq!(tree.range_of(value), ranges.range_of(value));
                    prop_assert_eq!(tree.contains(value), ranges.contains(value));
                    prop_assert_eq!(tree.covers(&(20..value)), ranges.covers(&(20..value)));
                }
            }
        }
    }
}
