//! Reno with timeouts and a receiver's window (Padhye, Firoiu, Towsley and Kurose, SIGCOMM 1998, IEEE/ACM ToN 8(2), 2000).

use crate::estimate::{Estimate, Invalid};
use crate::lossy_path::LossyPath;
use units::Rate;

/// Above this share of losses hardly a window is left to speak of, and measurements no longer follow the model.
pub const MAX_LOSS: f64 = 0.3;
const MANY_LOSSES: &str = "a connection of hardly more than one segment in flight is outside the model";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What the sender sends, that which is lost included: `B(p)`.
    Sent,
    /// What the receiver gets: `T(p)`.
    Received,
}

/// The approximation in one line: `min(Wmax/RTT, 1/(RTT sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1+32p^2)))`.
///
/// # Errors
/// If a parameter is outside what [`LossyPath`] says, or nothing is lost.
pub fn approximate(path: &LossyPath) -> Result<Estimate<Rate>, Invalid> {
    path.check()?;
    let (p, b, rtt, t0) = (path.p(), path.b(), path.rtt.as_secs_f64(), path.rto.as_secs_f64());
    let timeouts = t0 * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    let per_second = 1.0 / (rtt * (2.0 * b * p / 3.0).sqrt() + timeouts);
    let bound = path.window.map_or(f64::INFINITY, |window| window / rtt);
    Ok(path.valid_below(MAX_LOSS, path.rate(per_second.min(bound)), MANY_LOSSES))
}

/// The full model.
///
/// # Errors
/// If a parameter is outside what [`LossyPath`] says, or nothing is lost.
pub fn full(path: &LossyPath, counted: Counted) -> Result<Estimate<Rate>, Invalid> {
    path.check()?;
    Ok(path.valid_below(MAX_LOSS, path.rate(segments_per_second(path, counted)), MANY_LOSSES))
}

/// The full model in segments per second, for checked parameters.
pub(crate) fn segments_per_second(path: &LossyPath, counted: Counted) -> f64 {
    let (p, b, rtt) = (path.p(), path.b(), path.rtt.as_secs_f64());
    let unlimited = window_at_loss(p, b);
    let most = path.window.unwrap_or(f64::INFINITY);
    let window = unlimited.min(most);
    let timeout = timeout_probability(p, window);
    let (sent_after, sent_in_timeouts) = match counted {
        Counted::Sent => (window, timeout / (1.0 - p)),
        Counted::Received => (window / 2.0, timeout),
    };
    let segments = (1.0 - p) / p + sent_after + sent_in_timeouts;
    let rounds =
        if unlimited < most { b * window / 2.0 + 1.0 } else { b * window / 8.0 + (1.0 - p) / (p * window) + 2.0 };
    segments / (rtt * rounds + timeout * timeouts_length(p) * path.rto.as_secs_f64() / (1.0 - p))
}

/// The mean window when a loss is found, `W(p)`, in segments.
pub(crate) fn window_at_loss(p: f64, b: f64) -> f64 {
    let constant = (2.0 + b) / (3.0 * b);
    constant + (8.0 * (1.0 - p) / (3.0 * b * p) + constant * constant).sqrt()
}

/// The probability that a loss in a window of `w` segments ends in a timeout: `Q(p, w)`.
pub(crate) fn timeout_probability(p: f64, w: f64) -> f64 {
    let kept = 1.0 - p;
    let three = kept.powi(3);
    let few = (1.0 - three) * (1.0 + three * (1.0 - kept.powf(w - 3.0)));
    let any = 1.0 - kept.powf(w);
    if any > 0.0 { (few / any).clamp(0.0, 1.0) } else { 1.0 }
}

/// The mean length of a row of timeouts over `T0 / (1 - p)`: `G(p)`.
pub(crate) fn timeouts_length(p: f64) -> f64 {
    1.0 + (0..6).map(|power| 2f64.powi(power) * p.powi(power + 1)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_path::geostationary;
    use proptest::prelude::*;

    fn kbps(found: Result<Estimate<Rate>, Invalid>) -> f64 {
        found.unwrap().value.as_bps() as f64 / 1e3
    }

    #[test]
    fn check_values() {
        for (loss, approximation, received, sent) in
            [(1e-4, 1838.4, 1822.6, 1833.1), (1e-3, 579.2, 563.9, 574.2), (1e-2, 176.7, 163.4, 172.8)]
        {
            let path = geostationary(loss, 2);
            for (found, expected) in [
                (kbps(approximate(&path)), approximation),
                (kbps(full(&path, Counted::Received)), received),
                (kbps(full(&path, Counted::Sent)), sent),
            ] {
                assert!((found - expected).abs() < 0.06, "{loss}: {found}, not {expected}");
            }
        }
        let windowed = LossyPath { window: Some(44.0), ..geostationary(1e-4, 2) };
        assert!((kbps(full(&windowed, Counted::Received)) - 885.3).abs() < 0.06);
        assert!((kbps(full(&windowed, Counted::Sent)) - 887.3).abs() < 0.06);
        assert!((window_at_loss(1e-3, 2.0) - 37.17).abs() < 5e-3);
    }

    #[test]
    fn it_has_a_range() {
        assert!(!full(&geostationary(0.5, 1), Counted::Sent).unwrap().is_valid());
        assert!(full(&geostationary(0.0, 1), Counted::Sent).is_err());
        let none = LossyPath { window: Some(0.5), ..geostationary(0.1, 1) };
        assert!(approximate(&none).unwrap_err().to_string().contains("window = 0.5 segments"));
    }

    proptest! {
        #[test]
        fn more_loss_or_delay_or_a_smaller_window_never_helps(
            p in 1e-6f64..0.25, more in 1.01f64..2.0, millis in 5u64..800, window in 4.0f64..4000.0, b in 1u32..3,
        ) {
            let path = LossyPath {
                rtt: units::Duration::from_millis(millis), window: Some(window), ..geostationary(p, b)
            };
            let received = |path: &LossyPath| segments_per_second(path, Counted::Received);
            let now = received(&path);
            let close = now * 1.000_001;
            let lossier = LossyPath { loss: units::Probability::new((p * more).min(0.3)).unwrap(), ..path };
            let farther = LossyPath { rtt: path.rtt.mul_f64(more), ..path };
            let narrower = LossyPath { window: Some((window / more).max(2.0)), ..path };
            prop_assert!(received(&lossier) <= close);
            prop_assert!(received(&farther) <= close);
            prop_assert!(received(&narrower) <= now * 1.02);
            prop_assert!(now <= segments_per_second(&path, Counted::Sent));
            prop_assert!(now <= window / path.rtt.as_secs_f64() * 1.05);
        }

        #[test]
        fn without_timeouts_few_losses_follow_the_square_root_law(p in 1e-7f64..1e-5) {
            let path = geostationary(p, 1);
            let law = crate::mathis::throughput(&path).unwrap().value.as_bps() as f64;
            prop_assert!((kbps(full(&path, Counted::Sent)) * 1e3 / law - 1.0).abs() < 0.02);
        }
    }
}
