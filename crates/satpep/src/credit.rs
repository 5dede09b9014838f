//! What a receiver lets its peer send.

/// A count of stream bytes that a receiver takes: over all streams of a session since it began (MAX_DATA; RFC 9000, section 4.1), on a
/// new stream, or what is left of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Credit(u64);

impl Credit {
    /// Credit for so many bytes.
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// How many bytes it allows.
    #[inline]
    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }

    /// What is left of it after `sent` bytes, which are not more than it allows.
    #[inline]
    pub(crate) const fn after(self, sent: u64) -> Self {
        Self(self.0 - sent)
    }

    /// How many bytes it allows beyond `taken`.
    #[inline]
    pub(crate) const fn beyond(self, taken: u64) -> u64 {
        self.0.saturating_sub(taken)
    }

    /// Half of it.
    pub(crate) const fn half(self) -> Self {
        Self(self.0 / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_used_up_and_never_falls_below_none() {
        let credit = Credit::new(1000);
        assert_eq!((credit.after(400), credit.after(1000)), (Credit::new(600), Credit::default()));
        assert_eq!((credit.beyond(400), credit.beyond(1200)), (600, 0));
        assert_eq!(Credit::new(9).half().bytes(), 4);
    }
}
