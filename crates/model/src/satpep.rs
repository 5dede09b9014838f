//! SaTPEP's division of a link among connections (Velenis, Kalogeras and Maglaris 2003, equations 1 and 2). Windows are in
//! segments.

use crate::estimate::{Estimate, Invalid};

/// Equation (1): by how many segments the window of `window` segments of `packet` bytes grows, one of `n` that sum to
/// `sum` segments, where `available` bytes are shared out: `AW / MSS x (2S - n r) / (n S)`. The growths of all, in bytes,
/// sum to `available`. Windows above twice the mean shrink.
pub fn increment(available: f64, packet: f64, window: f64, sum: f64, n: usize) -> f64 {
    let n = n as f64;
    available / packet * (2.0 * sum - n * window) / (n * sum)
}

/// Equation (2): the greatest window in segments of `packet` bytes for one of `n` connections, at least one:
/// `(1 + c) / n x BDP / MSS` for a bandwidth-delay product of `product` bytes.
pub fn greatest_window(product: f64, headroom: f64, n: usize, packet: f64) -> f64 {
    ((1.0 + headroom) / n as f64 * product / packet).max(1.0)
}

/// Equation (1) for each of `windows` (segments, bytes of a segment's packet), for parameters that nobody has checked.
/// Doubted where the equation turns against its purpose: negative `available` takes most from the smallest windows, and
/// more than the windows' sum overshoots the mean.
///
/// # Errors
/// If a window or a packet is not above zero, or there are none.
pub fn increments(available: f64, windows: &[(f64, f64)]) -> Result<Estimate<Vec<f64>>, Invalid> {
    Invalid::unless(!windows.is_empty(), "windows", "none", "1 or more")?;
    for (window, packet) in windows {
        Invalid::unless(*window > 0.0, "window", format!("{window} segments"), "above 0 segments")?;
        Invalid::unless(*packet > 0.0, "mss", packet, "above 0B")?;
    }
    let sum: f64 = windows.iter().map(|(window, _)| window).sum();
    let held: f64 = windows.iter().map(|(window, packet)| window * packet).sum();
    let grown = windows.iter().map(|(window, packet)| increment(available, *packet, *window, sum, windows.len()));
    let doubt = if available < 0.0 {
        Some("the available bytes are negative: equation (1) takes most from the smallest windows".to_owned())
    } else if available > held {
        Some(format!("{available} available bytes are more than the {held} of the windows: equation (1) overshoots"))
    } else {
        None
    };
    Ok(Estimate { value: grown.collect(), doubt })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn check_values_of_equation_1() {
        for (available, windows, expected) in [
            (412_500.0, vec![(10.0, 1500.0), (90.0, 1500.0)], vec![247.5, 27.5]),
            (300_000.0, vec![(10.0, 1500.0), (20.0, 1500.0), (170.0, 1500.0)], vec![123.3333, 113.3333, -36.6667]),
            (300_000.0, vec![(10.0, 1460.0), (20.0, 536.0), (170.0, 1460.0)], vec![126.7123, 317.1642, -37.6712]),
        ] {
            let found = increments(available, &windows).unwrap().value;
            assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-4), "{found:?}");
        }
    }

    #[test]
    fn check_values_of_equation_2() {
        let product = 6e6 * 0.55 / 8.0;
        assert!((greatest_window(product, 1.0, 1, 1500.0) - 550.0).abs() < 1e-9);
        assert!((greatest_window(product, 1.0, 21, 1500.0) - 26.190).abs() < 1e-3);
        assert_eq!(greatest_window(product, 1.0, 10_000, 1500.0), 1.0);
    }

    #[test]
    fn outside_its_range_it_says_so() {
        assert!(increments(-300_000.0, &[(10.0, 1500.0)]).unwrap().doubt.unwrap().contains("negative"));
        assert!(increments(412_500.0, &[(1.0, 1500.0)]).unwrap().doubt.unwrap().contains("overshoots"));
        assert!(increments(15_000.0, &[(10.0, 1500.0)]).unwrap().is_valid());
        assert!(increments(1.0, &[]).is_err() && increments(1.0, &[(0.0, 1500.0)]).is_err());
    }

    proptest! {
        #[test]
        fn exactly_what_is_available_is_shared_out(
            available in -1e6f64..1e6,
            windows in prop::collection::vec((1.0f64..1e3, 100.0f64..9000.0), 1..40),
        ) {
            let found = increments(available, &windows).unwrap().value;
            let shared: f64 = found.iter().zip(&windows).map(|(grown, (_, packet))| grown * packet).sum();
            prop_assert!((shared - available).abs() < 1e-6 * available.abs().max(1.0));
        }
    }
}
