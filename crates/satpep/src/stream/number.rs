//! The numbers of streams.

/// A stream's number in its session (`docs/protocol.md`, section 7.3). One side opens the even numbers, the other one the odd ones, each
/// in order and none twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamNumber(u64);

impl StreamNumber {
    /// The number as frames have it.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The first number of the side that opens the even ones, or of the other.
    pub(crate) const fn first(even: bool) -> Self {
        Self(if even { 0 } else { 1 })
    }

    /// The number as frames have it.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// How many numbers the same side opens before this one.
    pub(crate) const fn index(self) -> u64 {
        self.0 / 2
    }

    /// The next number of the same side.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 2)
    }

    /// Whether the same side opens both.
    pub(crate) const fn is_of_side(self, other: Self) -> bool {
        self.0 % 2 == other.0 % 2
    }
}

impl std::fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_counts_its_own_numbers() {
        for (even, expected) in [(true, [0, 2, 4]), (false, [1, 3, 5])] {
            let first = StreamNumber::first(even);
            let numbers = [first, first.next(), first.next().next()];
            assert_eq!(numbers.map(StreamNumber::get), expected);
            assert_eq!(numbers.map(StreamNumber::index), [0, 1, 2]);
            assert!(numbers.iter().all(|number| number.is_of_side(first)));
            assert!(!first.is_of_side(StreamNumber::first(!even)));
        }
    }
}
