//! CUBIC's mean window (RFC 9438, section 5.1).

use crate::estimate::{Estimate, Invalid};
use crate::lossy_path::LossyPath;
use crate::mathis;
use units::Rate;

/// How fast the window grows: segments for each cubed second (RFC 9438, section 5).
pub(crate) const C: f64 = 0.4;
/// What a loss leaves of the window.
pub const BETA: f64 = 0.7;
/// Segments by which the Reno-friendly estimate grows in a round trip, until it is where the loss was found (RFC 9438, section 4.3).
pub(crate) const FRIENDLY_GAIN: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The greater of CUBIC's own window, `(C (3 + beta) / (4 (1 - beta)))^(1/4) RTT^(3/4) / p^(3/4)`, and that of its
/// Reno-friendly region, `sqrt(3 / (2p))`, in a round trip. Growth counts segments, not acknowledgements, so `b` does not
/// enter; nor does the receiver's window.
///
/// # Errors
/// If a parameter is outside what [`LossyPath`] says, or nothing is lost.
pub fn throughput(path: &LossyPath) -> Result<Estimate<Rate>, Invalid> {
    path.check()?;
    let rtt = path.rtt.as_secs_f64();
    let own = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (rtt / path.p()).powf(0.75);
    let friendly = mathis::segments(&LossyPath { ack_every: 1, ..*path });
    let rate = path.rate(own.max(friendly) / rtt);
    Ok(path.valid_below(mathis::MAX_LOSS, rate, "timeouts, which the mean window leaves out, take over"))
}

/// The window from one loss to the next, in segments: the greater of the cubic function (RFC 9438, section 4.2) and of the
/// Reno-friendly estimate (section 4.3), with fast convergence (section 4.7).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Epoch {
    /// When the latest loss was found.
    at_loss: f64,
    /// To what the cubic function returns (`W_max`).
    highest: f64,
}

impl Epoch {
    /// A loss is found in a window of `at_loss`.
    pub(crate) fn reduce(&mut self, at_loss: f64) {
        let is_below = at_loss < self.highest;
        self.highest = if is_below { at_loss * (1.0 + BETA) / 2.0 } else { at_loss };
        self.at_loss = at_loss;
    }

    /// What the loss has left of the window.
    pub(crate) fn start(&self) -> f64 {
        (BETA * self.at_loss).max(2.0)
    }

    /// The window `rounds` round trips and `time_s` seconds after the recovery.
    pub(crate) fn window(&self, rounds: f64, time_s: f64) -> f64 {
        let k = ((self.highest - self.start()) / C).cbrt();
        (C * (time_s - k).powi(3) + self.highest).max(self.friendly(rounds))
    }

    /// The Reno-friendly estimate: beyond the window of the latest loss it grows as Reno's.
    fn friendly(&self, rounds: f64) -> f64 {
        let start = self.start();
        let below = ((self.at_loss - start) / FRIENDLY_GAIN).clamp(0.0, rounds);
        start + FRIENDLY_GAIN * below + (rounds - below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_path::geostationary;
    use units::Duration;

    #[test]
    fn windows_of_table_1_and_2() {
        // RFC 9438, section 5.1: mean windows for C = 0.4 at round trips of 0.1 s and 0.01 s.
        for (millis, loss, segments) in
            [(100, 1e-2, 12.0), (100, 1e-4, 187.0), (100, 1e-6, 5926.0), (10, 1e-4, 120.0), (10, 1e-6, 1200.0)]
        {
            let rtt = Duration::from_millis(millis);
            let found = throughput(&LossyPath { rtt, ..geostationary(loss, 2) }).unwrap().value;
            let found = found.as_bps() as f64 * rtt.as_secs_f64() / (8.0 * 1460.0);
            assert!((found / segments - 1.0).abs() < 0.03, "{millis} ms, {loss}: {found}, not {segments}");
        }
    }

    /// RFC 9438, section 4.3: from the window of the loss on, alpha is 1.
    #[test]
    fn beyond_the_window_of_the_loss_the_friendly_estimate_grows_as_renos() {
        let mut epoch = Epoch::default();
        epoch.reduce(10.0);
        let back = 3.0 / FRIENDLY_GAIN;
        for (rounds, expected) in [(0.0, 7.0), (back / 2.0, 8.5), (back, 10.0), (back + 10.0, 20.0)] {
            assert!((epoch.window(rounds, 0.0) - expected).abs() < 1e-9, "{rounds}");
        }
    }

    /// RFC 9438, section 4.7: a loss above what fast convergence lowered `W_max` to has its own window as `W_max`.
    #[test]
    fn fast_convergence_compares_with_the_window_that_it_lowered() {
        let mut epoch = Epoch::default();
        for (at_loss, highest) in [(100.0, 100.0), (80.0, 68.0), (75.0, 75.0), (70.0, 59.5)] {
            epoch.reduce(at_loss);
            assert!((epoch.highest - highest).abs() < 1e-9, "{at_loss}: {}", epoch.highest);
        }
    }

    #[test]
    fn it_is_never_below_reno() {
        for loss in [1e-6, 1e-4, 1e-2] {
            for millis in [1, 10, 100, 600] {
                let path = LossyPath { rtt: Duration::from_millis(millis), ..geostationary(loss, 1) };
                assert!(throughput(&path).unwrap().value >= mathis::throughput(&path).unwrap().value);
            }
        }
    }
}
