//! Losses that were none: an acknowledgement of the original, or reports that every retransmission was a duplicate, undo
//! the response (RFC 3522 and RFC 4015 by timestamps, RFC 3708 by DSACK, as Linux 6.x does).

use crate::control::Window;
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use crate::timestamp::is_older;
use units::Instant;

/// What is remembered from the beginning of a response to that of the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// The window before.
    window: Window,
    /// The first byte outstanding when it began: duplicates below are of an earlier response (`undo_marker` of Linux).
    from: u64,
    /// The timestamp of the first retransmission, in milliseconds.
    first: Option<u32>,
    /// Retransmissions that were not reported as duplicates.
    unreported: u32,
}

impl Undo {
    /// A response to a loss begins; `first` is the timestamp of the first retransmission where some of an earlier response are still
    /// under way (`retrans_stamp` of Linux): an answer to those shows nothing, but they may be reported as duplicates, too
    /// (`tcp_init_undo`).
    pub(super) fn new(out: &Outstanding, first: Option<u32>) -> Self {
        let under_way = out.board.retransmitted().div_ceil(out.mss());
        Self { window: out.window, from: out.board.una(), first, unreported: under_way as u32 }
    }

    /// A segment leaves again, with this timestamp.
    pub(super) fn on_retransmission(&mut self, timestamp: u32) {
        self.first.get_or_insert(timestamp);
        self.unreported += 1;
    }

    /// Whether an acknowledgement answers a segment that left before the first retransmission (`tcp_packet_delayed` of Linux).
    pub(super) fn answers_original(&self, change: &Change) -> bool {
        let first = self.first.filter(|_| change.acked > 0);
        first.zip(change.echo).is_some_and(|(first, echo)| is_older(echo, first))
    }

    /// Takes what an acknowledgement reports as a duplicate: of what was outstanding before it, if it was sent again (`tcp_sacktag_one`), of
    /// what was not, always (`tcp_check_dsack`). Whether every retransmission has been reported then.
    pub(super) fn completes_reports(&mut self, change: &Change) -> bool {
        let is_of_response = !change.repeats_original && change.duplicate.is_some_and(|(_, end)| end > self.from);
        if self.first.is_none() || !is_of_response {
            return false;
        }
        self.unreported = self.unreported.saturating_sub(1);
        self.unreported == 0
    }

    /// The window is what it was, or what it has become if that is more; what counts as lost is in flight again.
    pub(super) fn apply(self, now: Instant, out: &mut Outstanding) {
        self.restore_window(now, out);
        out.rtt.end_backoff();
        out.board.unmark_lost();
    }

    /// The same where the recovery has ended, and the window alone is left of the response.
    pub(super) fn restore_window(self, now: Instant, out: &mut Outstanding) {
        if !out.control.governs_window() {
            out.window.cwnd = out.window.cwnd.max(self.window.cwnd);
            out.window.ssthresh = out.window.ssthresh.max(self.window.ssthresh);
        }
        out.marks.withdraw();
        out.control.on_spurious(now, &mut out.window);
    }
}
