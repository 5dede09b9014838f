//! How the window moves during a recovery that knows what has arrived: at once, or in proportion (RFC 6937).

use crate::control::Ack;
use crate::outstanding::Outstanding;

/// Proportional rate reduction. Counts bytes; in Linux segments, of which a part counts as one.
#[derive(Debug, Default)]
pub(super) struct RateReduction {
    delivered: u64,
    sent: u64,
    /// What was outstanding when the recovery began (RecoverFS), or the window then.
    before: u64,
    bound: Bound,
    /// Bytes that count as one.
    unit: u64,
}

/// How fast a window below `ssthresh` comes back to it during the recovery.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// By a segment for each acknowledgement beyond what it delivers (PRR-SSRB, RFC 6937).
    #[default]
    SlowStart,
    /// By that segment only where data are acknowledged cumulatively and no further loss is found (Linux; RFC 9937).
    WhileSafe,
}

impl RateReduction {
    /// For a recovery that begins with `before` bytes outstanding, or with that window.
    pub(super) fn new(before: u64, bound: Bound, mss: u64) -> Self {
        let unit = if bound == Bound::WhileSafe { mss } else { 1 };
        Self { delivered: 0, sent: 0, before: before.div_ceil(unit).max(1), bound, unit }
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes.div_ceil(self.unit);
    }

    /// Sets `cwnd` for an acknowledgement during the recovery, upon which `lost` bytes were found lost.
    pub(super) fn on_ack(&mut self, ack: &Ack, lost: u64, out: &mut Outstanding) {
        match self.bound {
            Bound::SlowStart => self.update(ack.delivered, true, out),
            Bound::WhileSafe if ack.delivered == 0 => {}
            Bound::WhileSafe => self.update(ack.delivered, ack.acked > 0 && lost == 0, out),
        }
    }

    /// Sets `cwnd` for a recovery that time began: Linux takes it for the delivery of a segment (`tcp_rack_reo_timeout`).
    pub(super) fn on_timer(&mut self, out: &mut Outstanding) {
        if self.bound == Bound::WhileSafe {
            self.update(self.unit, false, out);
        }
    }

    fn update(&mut self, delivered: u64, grows: bool, out: &mut Outstanding) {
        let count = |bytes: u64| bytes.div_ceil(self.unit);
        let (pipe, ssthresh) = (count(out.pipe()), out.segments(out.window.ssthresh) / self.unit);
        let delivered = count(delivered);
        self.delivered += delivered;
        let allowed = if pipe > ssthresh {
            let share = u128::from(self.delivered) * u128::from(ssthresh);
            (share.div_ceil(u128::from(self.before)) as u64).saturating_sub(self.sent)
        } else {
            let more = if grows { count(out.mss()) } else { 0 };
            (ssthresh - pipe).min(self.delivered.saturating_sub(self.sent).max(delivered) + more)
        };
        // The first retransmission leaves whatever the window says (`tcp_cwnd_reduction`).
        let least = u64::from(self.bound == Bound::WhileSafe && self.sent == 0);
        let window = (pipe + allowed.max(least)) * self.unit;
        out.set_cwnd((window as f64 / out.mss() as f64).max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::control::Ack;
    use crate::profile::Profile;
    use std::sync::Arc;
    use units::Instant;

    const MSS: u64 = 1000;

    /// Five of twelve segments under way, `ssthresh` six: below it, as after a burst of losses.
    fn outstanding() -> Outstanding {
        let config = Config { mss: MSS as u32, ..Config::new(Profile::Linux) };
        let mut out = Outstanding::new(Arc::new(config), 0);
        out.window.ssthresh = 8.0;
        (0..5).for_each(|_| out.board.on_sent(Instant::ZERO, MSS as u32));
        out
    }

    fn window_after(bound: Bound, acked: u64, lost: u64) -> f64 {
        let mut out = outstanding();
        let ack = Ack { acked, delivered: MSS, ..crate::control::testing::ack(1) };
        RateReduction::new(12 * MSS, bound, MSS).on_ack(&ack, lost, &mut out);
        out.window.cwnd
    }

    #[test]
    fn the_window_comes_back_only_while_that_is_safe() {
        assert_eq!(window_after(Bound::WhileSafe, MSS, 0), 7.0, "what arrived, and one more");
        assert_eq!(window_after(Bound::WhileSafe, 0, 0), 6.0, "the hole is still there");
        assert_eq!(window_after(Bound::WhileSafe, MSS, MSS), 6.0, "another loss was found");
        assert_eq!(window_after(Bound::SlowStart, 0, MSS), 7.0, "RFC 6937 does not ask");
    }

    #[test]
    fn above_the_threshold_the_window_falls_in_proportion_to_what_arrives() {
        let mut out = outstanding();
        out.window.ssthresh = 3.0;
        let mut reduction = RateReduction::new(6 * MSS, Bound::WhileSafe, MSS);
        let ack = Ack { acked: 0, delivered: 2 * MSS, ..crate::control::testing::ack(1) };
        reduction.on_ack(&ack, 0, &mut out);
        assert_eq!(out.window.cwnd, 6.0, "one segment may leave for two that arrived");
        reduction.on_sent(MSS);
        reduction.on_ack(&Ack { delivered: 0, ..ack }, 0, &mut out);
        assert_eq!(out.window.cwnd, 6.0, "nothing arrived");
    }
}
