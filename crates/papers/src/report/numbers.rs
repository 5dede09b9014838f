//! Numbers as people read them.

use crate::Estimate;
use units::significant;

/// With four significant digits, as papers print at most.
pub fn number(value: f64) -> String {
    significant(value, 4)
}

/// Like [`number`], `-` if there is none.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// As many digits as the paper prints.
pub fn printed(value: f64) -> String {
    value.to_string()
}

/// The mean, and half the width of its interval.
pub fn estimate(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "-".to_owned(),
        Some(Estimate { mean, interval: None, .. }) => number(mean),
        Some(Estimate { mean, interval: Some((low, high)), .. }) => {
            format!("{} ± {}", number(mean), number((high - low) / 2.0))
        }
    }
}

/// In percent with a sign.
pub fn percent(deviation: Option<f64>) -> String {
    deviation.map_or_else(|| "-".to_owned(), |deviation| format!("{:+.1} %", deviation * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 4.4213, 49.214, 191.09, 1234.5, 0.0312, 2e-7, -3.0].map(number);
        assert_eq!(shown, ["0", "4.421", "49.21", "191.1", "1234", "0.03120", "2.000e-7", "-3.000"]);
        assert_eq!(percent(Some(-0.0321)), "-3.2 %");
        assert_eq!(estimate(Some(Estimate { mean: 10.0, interval: Some((9.0, 11.0)), runs: 3 })), "10.00 ± 1.000");
    }
}
