//! The settings of a sweep.

use crate::Error;
use std::str::FromStr;

/// Settings that results have columns for: a column of a sweep's settings cannot have their names.
const COLUMNS: [&str; 2] = ["name", "version"];

/// A setting and the values that it takes, as `--set` of the command line takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// The setting's path, such as `link.sat.loss`.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// Axes: each combination of their values is a point. Without axes there is one point, the scenario itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grid {
    /// The axes; the last varies fastest.
    pub axes: Vec<Axis>,
}

impl FromStr for Axis {
    type Err = Error;

    /// Reads `KEY=VALUE,VALUE`. Commas within quotes, brackets and braces separate nothing.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            Error::Axis(format!("`{text}`: {problem}: expected KEY=VALUE,VALUE such as link.sat.loss=1e-4,1e-3"))
        };
        let (key, list) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let values: Vec<String> = items(list).into_iter().map(|value| value.trim().to_owned()).collect();
        let key = key.trim().to_owned();
        if key.is_empty() {
            return Err(wrong("there is no key"));
        }
        if COLUMNS.contains(&key.as_str()) {
            return Err(Error::Axis(format!("`{text}`: the results have a column `{key}`: leave it out")));
        }
        if values.iter().any(String::is_empty) {
            return Err(wrong("a value is empty"));
        }
        match values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            Some((_, twice)) => Err(wrong(&format!("{twice} stands there twice"))),
            None => Ok(Self { key, values }),
        }
    }
}

/// The parts of `list` between the commas outside quotes and brackets.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, character) in list.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                items.push(&list[begin..at]);
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    items.push(&list[begin..]);
    items
}

impl Grid {
    /// How many points it has; `None` if they are too many to count.
    pub fn len(&self) -> Option<usize> {
        self.axes.iter().try_fold(1_usize, |all, axis| all.checked_mul(axis.values.len()))
    }

    /// Whether it has no points: an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The value of each axis at point number `point`.
    pub fn point(&self, mut point: usize) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            values.push(&axis.values[point % axis.values.len()]);
            point /= axis.values.len();
        }
        values.reverse();
        values
    }

    /// The settings of point number `point`, as `--set` takes them.
    pub fn settings(&self, point: usize) -> Vec<String> {
        self.axes.iter().zip(self.point(point)).map(|(axis, value)| format!("{}={value}", axis.key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_a_point_and_the_last_axis_varies_fastest() {
        let axes = ["link.sat.loss=1e-4,1e-3", "flow.file.tcp=cubic, bbr ,\"reno\""]
            .map(|text| text.parse().expect("an axis"));
        let grid = Grid { axes: axes.into() };
        assert_eq!(grid.len(), Some(6));
        assert_eq!(grid.point(0), ["1e-4", "cubic"]);
        assert_eq!(grid.point(4), ["1e-3", "bbr"]);
        assert_eq!(grid.settings(5), ["link.sat.loss=1e-3", "flow.file.tcp=\"reno\""]);
        assert_eq!(Grid::default().settings(0), [""; 0]);
    }

    #[test]
    fn commas_within_values_separate_nothing() {
        let axis: Axis = "link.sat.loss={ a = 1, b = [1, 2] },\"x,y\"".parse().expect("an axis");
        assert_eq!(axis.values, ["{ a = 1, b = [1, 2] }", "\"x,y\""]);
    }

    #[test]
    fn what_is_no_axis_is_refused_with_the_form() {
        for wrong in ["link.sat.loss", "=1", "a=", "a=1,,2", "a=1,1"] {
            let error = wrong.parse::<Axis>().expect_err(wrong).to_string();
            assert!(error.contains("KEY=VALUE,VALUE"), "{error}");
        }
    }

    #[test]
    fn settings_that_results_have_a_column_for_are_refused() {
        for (text, key) in [("name=x,y", "name"), (" version =1", "version")] {
            let error = text.parse::<Axis>().expect_err(text).to_string();
            assert!(error.contains(&format!("the results have a column `{key}`")), "{error}");
        }
    }
}
