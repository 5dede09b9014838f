//! How the window moves during a recovery that knows what has arrived: at once, or in proportion (RFC 6937).

use crate::control::Ack;
use crate::outstanding::Outstanding;

/// Proportional rate reduction with the slow-start reduction bound. Counts bytes.
#[derive(Debug, Default)]
pub(super) struct RateReduction {
    delivered: u64,
    sent: u64,
    /// What was outstanding when the recovery began (RecoverFS).
    flight: u64,
}

impl RateReduction {
    pub(super) fn new(flight: u64) -> Self {
        Self { delivered: 0, sent: 0, flight: flight.max(1) }
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Sets `cwnd` for an acknowledgement during the recovery.
    pub(super) fn on_ack(&mut self, ack: &Ack, out: &mut Outstanding) {
        let (pipe, ssthresh) = (out.board.pipe(), out.segments(out.window.ssthresh));
        self.delivered += ack.delivered;
        let allowed = if pipe > ssthresh {
            let share = u128::from(self.delivered) * u128::from(ssthresh);
            (share.div_ceil(u128::from(self.flight)) as u64).saturating_sub(self.sent)
        } else {
            let catch_up = self.delivered.saturating_sub(self.sent).max(ack.delivered) + out.mss();
            (ssthresh - pipe).min(catch_up)
        };
        out.set_cwnd((pipe + allowed) as f64 / out.mss() as f64);
    }
}
