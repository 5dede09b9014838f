//! A set of integers, or of positions that are types of their own, kept as sorted, disjoint, non-adjacent half-open ranges.

use std::collections::VecDeque;
use std::ops::{Range, Sub};

/// Sorted ranges, cheapest where most work is: at the ends.
/// Used for bytes of a stream, or numbers of packets. Where a peer may have many ranges kept and change any of them,
/// [`RangeTree`](crate::RangeTree) is the form to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet<T = u64> {
    ranges: VecDeque<Range<T>>,
}

impl<T> Default for RangeSet<T> {
    fn default() -> Self {
        Self { ranges: VecDeque::new() }
    }
}

impl<T: Copy + Ord + Sub<Output = u64>> RangeSet<T> {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of separate ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The lowest range.
    pub fn first(&self) -> Option<Range<T>> {
        self.ranges.front().cloned()
    }

    /// The highest range.
    pub fn last(&self) -> Option<Range<T>> {
        self.ranges.back().cloned()
    }

    /// The range that holds `value`.
    pub fn range_of(&self, value: T) -> Option<Range<T>> {
        self.ranges.get(self.search(value)).filter(|range| range.contains(&value)).cloned()
    }

    /// Whether every member of `range` is in the set: of an empty one, all are.
    pub fn covers(&self, range: &Range<T>) -> bool {
        range.is_empty() || self.range_of(range.start).is_some_and(|known| known.end >= range.end)
    }

    /// Takes the lowest range out.
    pub fn pop_first(&mut self) -> Option<Range<T>> {
        self.ranges.pop_front()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<T>> {
        self.ranges.iter()
    }

    /// Index of the first range that ends after `value`.
    fn search(&self, value: T) -> usize {
        match self.ranges.back() {
            Some(last) if last.start <= value => {
                if value < last.end {
                    self.ranges.len() - 1
                } else {
                    self.ranges.len()
                }
            }
            _ => self.ranges.partition_point(|range| range.end <= value),
        }
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: T) -> bool {
        self.ranges.get(self.search(value)).is_some_and(|range| range.contains(&value))
    }

    /// Adds `new`; returns how many of its members were not there before.
    pub fn insert(&mut self, new: Range<T>) -> u64 {
        if new.is_empty() {
            return 0;
        }
        // The first range that `new` could touch, adjacency included.
        let first = if self.ranges.back().is_some_and(|last| last.end < new.start) {
            self.ranges.len()
        } else {
            self.ranges.partition_point(|range| range.end < new.start)
        };
        let mut merged = new.clone();
        let mut already = 0;
        let mut last = first;
        while let Some(range) = self.ranges.get(last).filter(|range| range.start <= new.end) {
            already += range.end.min(new.end) - range.start.max(new.start);
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            last += 1;
        }
        if last == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        new.end - new.start - already
    }

    /// Takes `gone` out.
    pub fn remove(&mut self, gone: Range<T>) {
        if gone.is_empty() {
            return;
        }
        let mut at = self.search(gone.start);
        while let Some(range) = self.ranges.get_mut(at).filter(|range| range.start < gone.end) {
            let (start, end) = (range.start, range.end);
            match (start < gone.start, end > gone.end) {
                (true, true) => {
                    range.end = gone.start;
                    self.ranges.insert(at + 1, gone.end..end);
                    return;
                }
                (true, false) => {
                    range.end = gone.start;
                    at += 1;
                }
                (false, true) => {
                    range.start = gone.end;
                    return;
                }
                (false, false) => {
                    self.ranges.remove(at);
                }
            }
        }
    }

    /// The parts of `within` that are not in the set, ascending.
    pub fn gaps(&self, within: Range<T>) -> impl Iterator<Item = Range<T>> + '_ {
        let mut at = within.start;
        let mut index = self.search(within.start);
        std::iter::from_fn(move || {
            while at < within.end {
                let next = self.ranges.get(index).filter(|range| range.start < within.end);
                let gap = at..next.map_or(within.end, |range| range.start.max(at));
                at = next.map_or(within.end, |range| range.end);
                index += 1;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_set(operations in proptest::collection::vec((any::<bool>(), 0u64..80, 0u64..12), 0..60)) {
            let (mut ranges, mut model) = (RangeSet::new(), BTreeSet::new());
            for (add, start, length) in operations {
                let range = start..start + length;
                if add {
                    let fresh = range.clone().filter(|value| model.insert(*value)).count() as u64;
                    prop_assert_eq!(ranges.insert(range), fresh);
                } else {
                    range.clone().for_each(|value| { model.remove(&value); });
                    ranges.remove(range);
                }
                prop_assert!(ranges.ranges.iter().all(|range| !range.is_empty()));
                prop_assert!(ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
            for value in 0..100 {
                prop_assert_eq!(ranges.contains(value), model.contains(&value));
            }
            for end in 20..60 {
                prop_assert_eq!(ranges.covers(&(20..end)), (20..end).all(|value| model.contains(&value)));
            }
            let gaps: Vec<u64> = ranges.gaps(5..70).flatten().collect();
            let absent: Vec<u64> = (5..70).filter(|value| !model.contains(value)).collect();
            prop_assert_eq!(gaps, absent);
        }
    }
}
