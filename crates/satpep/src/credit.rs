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

/// What is left of a session's credit for new stream bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionCredit {
    pub(crate) left: Credit,
    /// So many of these bytes are for streams that are known to be read.
    pub(crate) kept_back: u64,
}

impl SessionCredit {
    /// Bytes that any stream may take, read or not.
    pub(crate) fn free(self) -> u64 {
        self.left.beyond(self.kept_back)
    }

    /// With so many bytes not reported as read, a stream still may send on, though nothing is free. If `n` streams are
    /// read for a while and then stall, each with its ration, `1 / (1 + n / 2)` of what is kept back is left.
    pub(crate) fn ration(self) -> u64 {
        let left = u128::from(self.left.bytes().min(self.kept_back));
        let ration = (left * left).checked_div(2 * u128::from(self.kept_back));
        ration.map_or(0, |ration| ration as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_stall_one_after_the_other_with_their_rations_leave_some() {
        const KEPT_BACK: u64 = 2 << 20;
        let mut credit = SessionCredit { left: Credit::new(KEPT_BACK), kept_back: KEPT_BACK };
        assert_eq!((credit.free(), credit.ration()), (0, KEPT_BACK / 2));
        for stalled in 1..=1000 {
            // Its ration shrinks as it takes it.
            let mut taken = 0;
            while taken < credit.ration() {
                let piece = (credit.ration() - taken).min(1400);
                (taken, credit.left) = (taken + piece, credit.left.after(piece));
            }
            let least = 2 * KEPT_BACK / (2 + stalled) * 9 / 10;
            assert!(credit.left.bytes() > least, "{credit:?} beside {stalled}");
        }
        assert!(credit.ration() > 0);
        assert_eq!(SessionCredit { kept_back: 0, ..credit }.ration(), 0);
        assert_eq!(SessionCredit { left: Credit::new(1 << 40), ..credit }.ration(), KEPT_BACK / 2);
    }

    #[test]
    fn credit_is_used_up_and_never_falls_below_none() {
        let credit = Credit::new(1000);
        assert_eq!((credit.after(400), credit.after(1000)), (Credit::new(600), Credit::default()));
        assert_eq!((credit.beyond(400), credit.beyond(1200)), (600, 0));
        assert_eq!(Credit::new(9).half().bytes(), 4);
    }
}
