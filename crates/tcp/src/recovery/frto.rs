//! Whether a timeout was needless: forward RTO-recovery with SACK (RFC 5682, section 3.1, as `tcp_process_loss` of Linux 6.x).

use crate::control::Ack;
use crate::scoreboard::Change;

/// What is known since a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SpuriousTimeout {
    /// Nothing is to be found out: the timeout was needed, or came during a recovery.
    #[default]
    Settled,
    /// The first segment was sent again.
    Waiting,
    /// That was acknowledged and more is outstanding: new data leave.
    SendsNew,
    /// They have left.
    SentNew,
}

impl SpuriousTimeout {
    /// The timer has expired; `may_be` unless a recovery was under way.
    pub(super) fn begin(&mut self, may_be: bool) {
        *self = if may_be { Self::Waiting } else { Self::Settled };
    }

    /// Whether new data are to leave and nothing is to be sent again.
    pub(super) fn sends_new(self) -> bool {
        self == Self::SendsNew
    }

    /// Takes an acknowledgement; `end` is that of what was sent before the timeout. Whether that shows that something of it
    /// has arrived without being sent again.
    pub(super) fn on_ack(&mut self, ack: &Ack, change: &Change, end: u64, has_new_data: bool) -> bool {
        if *self == Self::Settled {
            return false;
        }
        if change.first_original.is_some_and(|original| original <= end) {
            *self = Self::Settled;
            return true;
        }
        *self = match *self {
            Self::SendsNew | Self::SentNew if ack.nxt > end => {
                if change.sacked > 0 || ack.is_duplicate {
                    Self::Settled
                } else {
                    Self::SentNew
                }
            }
            _ if ack.acked > 0 && ack.una < end && has_new_data => Self::SendsNew,
            _ if ack.acked > 0 => Self::Settled,
            known => known,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{ack, duplicate};

    const END: u64 = 10_000;

    fn after_the_first() -> SpuriousTimeout {
        let mut timeout = SpuriousTimeout::default();
        timeout.begin(true);
        let first = Ack { una: 2_000, nxt: END, ..ack(1) };
        assert!(!timeout.on_ack(&first, &Change::default(), END, true));
        timeout
    }

    #[test]
    fn new_data_leave_first_and_an_answer_to_an_original_segment_tells() {
        let mut timeout = after_the_first();
        assert!(timeout.sends_new());
        let original = Change { first_original: Some(4_000), ..Change::default() };
        assert!(timeout.on_ack(&Ack { nxt: 12_000, ..ack(1) }, &original, END, true));
        assert_eq!(timeout, SpuriousTimeout::Settled);
    }

    #[test]
    fn answers_to_the_new_data_alone_settle_that_the_timeout_was_needed() {
        let mut timeout = after_the_first();
        let new = Change { first_original: Some(11_000), sacked: 1_000, ..Change::default() };
        assert!(!timeout.on_ack(&Ack { nxt: 12_000, ..duplicate() }, &new, END, true));
        assert_eq!(timeout, SpuriousTimeout::Settled);
    }

    #[test]
    fn nothing_is_found_out_during_a_recovery_nor_without_new_data() {
        let mut timeout = SpuriousTimeout::default();
        timeout.begin(false);
        let original = Change { first_original: Some(4_000), ..Change::default() };
        assert!(!timeout.on_ack(&ack(1), &original, END, true));
        timeout.begin(true);
        assert!(!timeout.on_ack(&Ack { una: 2_000, nxt: END, ..ack(1) }, &Change::default(), END, false));
        assert_eq!(timeout, SpuriousTimeout::Settled);
    }
}
