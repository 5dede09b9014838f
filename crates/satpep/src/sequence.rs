//! Positions in a sequence as types, so that the number of a packet is never the offset of a byte: positions are compared, moved by
//! counts and subtracted from one another, and nothing else. They become integers where frames are read and written.

/// Declares a position in a sequence.
macro_rules! position {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        #[allow(dead_code, reason = "positions of all kinds have the same arithmetic")]
        impl $name {
            /// The first one.
            pub(crate) const ZERO: Self = Self(0);

            /// The position as frames have it.
            #[inline]
            pub(crate) const fn new(position: u64) -> Self {
                Self(position)
            }

            /// The position as frames have it.
            #[inline]
            pub(crate) const fn get(self) -> u64 {
                self.0
            }

            /// The one that follows.
            #[inline]
            pub(crate) const fn next(self) -> Self {
                Self(self.0 + 1)
            }

            /// How many lie between an earlier one and this; `None` if `earlier` is later.
            #[inline]
            pub(crate) const fn checked_since(self, earlier: Self) -> Option<u64> {
                self.0.checked_sub(earlier.0)
            }

            /// How many lie between an earlier one and this; none if `earlier` is later.
            #[inline]
            pub(crate) const fn saturating_since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }

            /// The one `count` earlier; `None` if there is none.
            #[inline]
            pub(crate) const fn checked_before(self, count: u64) -> Option<Self> {
                match self.0.checked_sub(count) {
                    Some(position) => Some(Self(position)),
                    None => None,
                }
            }

            /// The one `count` earlier, or the first.
            #[inline]
            pub(crate) const fn saturating_before(self, count: u64) -> Self {
                Self(self.0.saturating_sub(count))
            }

            /// A range as frames have it.
            #[cfg(test)]
            pub(crate) const fn range(range: std::ops::Range<u64>) -> std::ops::Range<Self> {
                Self(range.start)..Self(range.end)
            }

            /// All of a range.
            #[inline]
            pub(crate) fn each(range: std::ops::Range<Self>) -> impl DoubleEndedIterator<Item = Self> {
                (range.start.0..range.end.0).map(Self)
            }
        }

        impl std::ops::Add<u64> for $name {
            type Output = Self;

            #[inline]
            fn add(self, count: u64) -> Self {
                Self(self.0 + count)
            }
        }

        impl std::ops::AddAssign<u64> for $name {
            #[inline]
            fn add_assign(&mut self, count: u64) {
                self.0 += count;
            }
        }

        impl std::ops::Sub for $name {
            type Output = u64;

            #[inline]
            fn sub(self, earlier: Self) -> u64 {
                self.0 - earlier.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

pub(crate) use position;

#[cfg(test)]
mod tests {
    position!(
        /// A position to try.
        Position
    );

    #[test]
    fn positions_are_compared_moved_and_subtracted() {
        let (early, late) = (Position::new(3), Position::new(5));
        assert_eq!((late - early, early + 2, early.next().next()), (2, late, late));
        assert_eq!((late.checked_since(early), early.checked_since(late)), (Some(2), None));
        assert_eq!((late.saturating_since(early), early.saturating_since(late)), (2, 0));
        assert_eq!((late.checked_before(5), late.checked_before(6)), (Some(Position::ZERO), None));
        assert_eq!((late.saturating_before(2), late.saturating_before(9)), (early, Position::ZERO));
        assert!(Position::each(early..late).rev().eq([Position::new(4), early]));
        assert_eq!(Position::each(late..early).count(), 0);
        assert_eq!(late.to_string(), "5");
    }
}
