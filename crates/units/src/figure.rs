//! Figures for people: three or four significant digits, and a unit in which they are short.

/// A kind of figure, which has units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Seconds.
    Time,
    /// Bits per second.
    Rate,
    /// Bytes.
    Bytes,
    /// A share of 1, shown in per cent.
    Share,
    /// A number without a unit.
    Number,
    /// An index whose distance from 1 matters, as Jain's: four digits.
    Index,
}

/// A unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// As it is written; empty if the quantity has none.
    pub name: &'static str,
    /// What one of it is in the quantity's base unit.
    factor: f64,
    digits: i32,
}

const fn unit(name: &'static str, factor: f64) -> Unit {
    Unit { name, factor, digits: 3 }
}

impl Quantity {
    /// The largest first. The base unit, which zero has, is of factor 1, but for shares.
    fn units(self) -> &'static [Unit] {
        match self {
            Self::Time => const { &[unit("s", 1.0), unit("ms", 1e-3), unit("us", 1e-6)] },
            Self::Rate => {
                const { &[unit("Gbit/s", 1e9), unit("Mbit/s", 1e6), unit("kbit/s", 1e3), unit("bit/s", 1.0)] }
            }
            Self::Bytes => {
                const { &[unit("TB", 1e12), unit("GB", 1e9), unit("MB", 1e6), unit("kB", 1e3), unit("B", 1.0)] }
            }
            Self::Share => const { &[unit("%", 0.01)] },
            Self::Number => const { &[unit("", 1.0)] },
            Self::Index => const { &[Unit { name: "", factor: 1.0, digits: 4 }] },
        }
    }

    /// The unit in which a figure of this size is from 1 to below 1000, if there is one.
    pub fn unit(self, value: f64) -> Unit {
        let units = self.units();
        // Of what would be rounded up to 1000, the larger unit.
        let fits = |unit: &&Unit| value.abs() >= unit.factor * 0.9995;
        let is_base = |unit: &&Unit| unit.factor == 1.0;
        let found = if value == 0.0 { units.iter().find(is_base) } else { units.iter().find(fits) };
        found.copied().unwrap_or(units[units.len() - 1])
    }

    /// One unit for all figures of a column: that of the middle between the smallest and the largest, by their ratio. Zeros do
    /// not count.
    pub fn common_unit(self, values: impl Iterator<Item = f64>) -> Unit {
        let sizes = values.map(f64::abs).filter(|size| *size > 0.0 && size.is_finite());
        let range = sizes.fold(None, |range: Option<(f64, f64)>, size| {
            Some(range.map_or((size, size), |(low, high)| (low.min(size), high.max(size))))
        });
        self.unit(range.map_or(0.0, |(low, high)| (low * high).sqrt()))
    }

    /// One figure with its own unit: `1.68 s`, `38.0 %`.
    pub fn text(self, value: f64) -> String {
        self.unit(value).text(value)
    }
}

impl Unit {
    /// The figure in this unit, without the unit.
    pub fn number(self, value: f64) -> String {
        significant(value / self.factor, self.digits)
    }

    /// The figure and the unit.
    pub fn text(self, value: f64) -> String {
        format!("{}{}{}", self.number(value), if self.name.is_empty() { "" } else { " " }, self.name)
    }
}

/// `value` with so many significant digits. Whole digits are never rounded away; what is very small or very large has an exponent.
pub fn significant(value: f64, digits: i32) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.*e}", (digits - 1).max(0) as usize);
    }
    let decimals = |size: f64| (digits - 1 - size.log10().floor() as i32).max(0);
    let rounded_to = |decimals: i32| (size * 10f64.powi(decimals)).round() / 10f64.powi(decimals);
    // Rounding may have added a digit: 9.996 is 10.0.
    format!("{value:.*}", decimals(rounded_to(decimals(size))) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_asked_for_and_no_whole_digit_is_lost() {
        let three = [0.0, 1.684, 9.996, 13.84, 98.84, 99.96, 999.6, 12_345.4, 0.0312, 2e-7, -3.0];
        let shown = three.map(|value| significant(value, 3));
        assert_eq!(shown, ["0", "1.68", "10.0", "13.8", "98.8", "100", "1000", "12345", "0.0312", "2.00e-7", "-3.00"]);
        assert_eq!([0.99987, 1.0].map(|value| significant(value, 4)), ["0.9999", "1.000"]);
        assert_eq!(significant(f64::INFINITY, 3), "inf");
    }

    #[test]
    fn a_figure_alone_has_the_unit_that_fits() {
        let rates = [0.0, 56.0, 999.6, 64_000.0, 5_614_000.0, 99_960_000.0, 1.5e9];
        assert_eq!(
            rates.map(|rate| Quantity::Rate.text(rate)),
            ["0 bit/s", "56.0 bit/s", "1.00 kbit/s", "64.0 kbit/s", "5.61 Mbit/s", "100 Mbit/s", "1.50 Gbit/s"]
        );
        let times = [0.0, 1e-7, 0.0125, 0.5624, 1.0, 3600.0].map(|time| Quantity::Time.text(time));
        assert_eq!(times, ["0 s", "0.100 us", "12.5 ms", "562 ms", "1.00 s", "3600 s"]);
        assert_eq!(
            [0.0, 0.0012, 0.5, 1.0].map(|share| Quantity::Share.text(share)),
            ["0 %", "0.120 %", "50.0 %", "100 %"]
        );
        assert_eq!(Quantity::Index.text(0.9998), "0.9998");
    }

    #[test]
    fn a_column_has_one_unit() {
        let in_common = |quantity: Quantity, values: &[f64]| {
            let unit = quantity.common_unit(values.iter().copied());
            (unit.name, values.iter().map(|value| unit.number(*value)).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(in_common(Quantity::Time, &[0.56, 13.84]), ("s", "0.560 13.8".to_owned()));
        assert_eq!(in_common(Quantity::Rate, &[64e3, 0.0, 6e6]), ("kbit/s", "64.0 0 6000".to_owned()));
        assert_eq!(in_common(Quantity::Bytes, &[2e3, 1.5e9]), ("MB", "0.00200 1500".to_owned()));
        assert_eq!(in_common(Quantity::Time, &[0.0]), ("s", "0".to_owned()));
    }
}
