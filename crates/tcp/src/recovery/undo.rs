//! Losses that were none: an acknowledgement of the original, or reports that every retransmission was a duplicate, undo
//! the response (RFC 3522 and RFC 4015 by timestamps, RFC 3708 by DSACK, as Linux 6.x does).

use crate::control::Window;
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use crate::timestamp::is_older;
use units::Instant;

/// What is remembered from the beginning of a response to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// The window before.
    window: Window,
    /// The timestamp of the first retransmission, in milliseconds.
    first: Option<u32>,
    /// Retransmissions that were not reported as duplicates.
    unreported: u32,
}

impl Undo {
    /// A response to a loss begins; `window` is the one before it, `first` the timestamp of the first retransmission where
    /// some of an earlier response are still under way (`retrans_stamp` of Linux): an answer to those shows nothing.
    pub(super) fn new(window: Window, first: Option<u32>) -> Self {
        Self { window, first, unreported: 0 }
    }

    /// A segment leaves again, with this timestamp.
    pub(super) fn on_retransmission(&mut self, timestamp: u32) {
        self.first.get_or_insert(timestamp);
        self.unreported += 1;
    }

    /// Whether an acknowledgement shows that nothing was lost.
    pub(super) fn is_spurious(&mut self, change: &Change) -> bool {
        let Some(first) = self.first else { return false };
        let answers_original = change.acked > 0 && change.echo.is_some_and(|echo| is_older(echo, first));
        self.unreported -= u32::from(change.dsack && self.unreported > 0);
        answers_original || change.dsack && self.unreported == 0
    }

    /// The window is what it was, or what it has become if that is more; what counts as lost is in flight again.
    pub(super) fn apply(self, now: Instant, out: &mut Outstanding) {
        if !out.control.governs_window() {
            out.window.cwnd = out.window.cwnd.max(self.window.cwnd);
            out.window.ssthresh = out.window.ssthresh.max(self.window.ssthresh);
        }
        out.control.on_spurious(now, &mut out.window);
        out.rtt.end_backoff();
        out.board.unmark_lost();
    }
}
