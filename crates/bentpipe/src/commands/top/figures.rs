//! Figures with three significant digits, which keep their width while they change.

use units::Quantity;

/// `5.61Mbit/s`, `920kB`.
fn scaled(quantity: Quantity, value: f64) -> String {
    let unit = quantity.unit(value);
    format!("{}{}", unit.number(value), unit.name)
}

/// A rate in bit/s.
pub fn rate(bps: f64) -> String {
    // Below that a rate is no more than a rest of counting.
    scaled(Quantity::Rate, if bps < 1.0 { 0.0 } else { bps })
}

/// A volume.
pub fn bytes(bytes: u64) -> String {
    scaled(Quantity::Bytes, bytes as f64)
}

/// A share, in per cent.
pub fn percent(share: f64) -> String {
    Quantity::Share.text(share.min(9.99))
}

/// A short time.
pub fn delay(seconds: f64) -> String {
    scaled(Quantity::Time, seconds)
}

/// A long time: `12s`, `3m12s`, `2h05m`, `4d03h`.
pub fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s:02}s"),
        (0, h, m, _) => format!("{h}h{m:02}m"),
        (d, h, _, _) => format!("{d}d{h:02}h"),
    }
}

/// The latest of `values` as bars, one for each, the last at the right; `full` is a whole bar.
pub fn bars(values: impl ExactSizeIterator<Item = f64>, width: usize, full: f64) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: f64| match value / full {
        share if share > 0.0 => BARS[((share * 8.0).ceil() as usize).clamp(1, 8)],
        // Nothing, and nothing of nothing.
        _ => BARS[0],
    };
    let skipped = values.len().saturating_sub(width);
    let blank = width.saturating_sub(values.len());
    " ".repeat(blank) + &values.skip(skipped).map(bar).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_significant_digits_and_the_unit_that_fits() {
        let rates = [0.0, 0.4, 56.0, 999.6, 64_000.0, 5_614_000.0, 99_960_000.0, 1.5e9];
        assert_eq!(
            rates.map(rate),
            ["0bit/s", "0bit/s", "56.0bit/s", "1.00kbit/s", "64.0kbit/s", "5.61Mbit/s", "100Mbit/s", "1.50Gbit/s"]
        );
        assert_eq!([0.0, 0.0012, 0.5, 1.0].map(percent), ["0 %", "0.120 %", "50.0 %", "100 %"]);
        assert_eq!([0.0, 0.0125, 0.5624, 1.0].map(delay), ["0s", "12.5ms", "562ms", "1.00s"]);
        assert_eq!([4.9, 192.0, 7_500.0, 356_400.0].map(age), ["4s", "3m12s", "2h05m", "4d03h"]);
    }

    #[test]
    fn bars_end_at_the_right_and_show_that_something_is_more_than_nothing() {
        assert_eq!(bars([0.0, 0.001, 4.0, 8.0, 9.0].into_iter(), 7, 8.0), "   ▁▄██");
        assert_eq!(bars([1.0, 2.0, 8.0].into_iter(), 2, 8.0), "▂█");
        assert_eq!(bars([0.0, 0.0].into_iter(), 2, 0.0), "  ");
    }
}
