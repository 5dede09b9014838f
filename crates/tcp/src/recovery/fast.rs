//! What the recoveries that know only duplicates share: the point up to which a recovery lasts, and the inflation of the
//! window by the segments that have left the network.

use crate::control::LossState;
use crate::outstanding::Outstanding;

/// Duplicates that mean a loss.
pub(super) const DUPLICATES: u32 = 3;

/// Fast retransmit and fast recovery of RFC 5681, as far as Reno and NewReno agree.
#[derive(Debug)]
pub(super) struct FastRecovery {
    pub(super) state: LossState,
    /// The end of what was sent when the latest recovery or timeout began. No new recovery starts before it is
    /// acknowledged (RFC 6582, section 3.2).
    pub(super) recover: Option<u64>,
    /// Segments by which the window is larger than `cwnd`: those known to have left the network, less those that partial
    /// acknowledgements took out.
    pub(super) inflation: f64,
    /// The lost segment leaves whatever the window says.
    pub(super) is_due: bool,
}

impl FastRecovery {
    pub(super) fn new() -> Self {
        Self { state: LossState::Open, recover: None, inflation: 0.0, is_due: false }
    }

    /// Whether a third duplicate now begins a recovery: only where more than what an earlier one covers is acknowledged
    /// (RFC 6582, section 3.2, step 2).
    pub(super) fn may_begin(&self, out: &Outstanding) -> bool {
        out.duplicates == DUPLICATES && self.recover.is_none_or(|recover| out.board.una() > recover + 1)
    }

    /// Begins a recovery: the first outstanding segment is lost.
    pub(super) fn begin(&mut self, now: units::Instant, out: &mut Outstanding) {
        let flight = out.flight_without_limited_transmit();
        out.reduce(now, flight);
        out.set_cwnd(out.window.ssthresh);
        out.board.mark_first_lost();
        self.state = LossState::Recovery;
        self.recover = Some(out.board.nxt() - 1);
        self.inflation = f64::from(DUPLICATES);
        self.is_due = true;
    }

    pub(super) fn end(&mut self) {
        self.state = LossState::Open;
        self.inflation = 0.0;
        self.is_due = false;
    }

    pub(super) fn on_timeout(&mut self, now: units::Instant, out: &mut Outstanding) {
        out.collapse(now, self.state);
        self.end();
        self.state = LossState::Timeout;
        self.recover = Some(out.board.nxt() - 1);
    }

    /// After a timeout, until what was outstanding then is acknowledged.
    pub(super) fn leave_timeout(&mut self, out: &Outstanding) {
        if self.state == LossState::Timeout && self.recover.is_none_or(|recover| out.board.una() > recover) {
            self.state = LossState::Open;
        }
    }

    pub(super) fn in_flight(&self, out: &Outstanding) -> u64 {
        if self.state == LossState::Recovery { out.board.flight() } else { out.board.pipe() }
    }

    pub(super) fn retransmission(&mut self, out: &Outstanding) -> Option<(u64, u32)> {
        let (seq, span) = out.board.first_lost()?;
        let fits = self.state != LossState::Recovery && out.may_send_again(span);
        (std::mem::take(&mut self.is_due) || fits).then_some((seq, span))
    }

    pub(super) fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        let extra = match self.state {
            LossState::Recovery => self.inflation,
            LossState::Open if out.config.limited_transmit => f64::from(out.duplicates.min(2)),
            _ => 0.0,
        };
        self.in_flight(out) + bytes <= out.segments((out.window.cwnd + extra).max(0.0))
    }
}
