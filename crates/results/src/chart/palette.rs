//! What tells series apart: colours, then dashes and marks.

use super::{Chart, Series};
use plotters::style::RGBColor;
use std::collections::{BTreeMap, BTreeSet};

/// Colours that people with any colour vision can distinguish (Okabe and Ito), without yellow, which white hides.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(86, 86, 86),
];
/// Dash and gap in pixels, and the mark of points, once all colours are in use.
const ROUNDS: [(Option<(u32, u32)>, Mark); 3] =
    [(None, Mark::Disc), (Some((14, 5)), Mark::Ring), (Some((3, 4)), Mark::Triangle)];
/// The numbers of what a legend names by one of these words.
const CONTROLS: [(&str, usize); 17] = [
    ("bentpipe", 0),
    ("satpep", 0),
    ("cubic", 1),
    ("bbr", 2),
    ("hybla", 3),
    ("vegas", 4),
    ("westwood+", 5),
    ("westwood-plus", 5),
    ("reno", 6),
    ("newreno", 7),
    ("sack", 8),
    ("westwood", 9),
    ("tibet", 10),
    ("cross-layer", 11),
    ("tahoe", 12),
    ("bbr3", 13),
    ("rack", 14),
];

/// How a point is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Disc,
    Ring,
    Triangle,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: RGBColor,
    pub(super) dash: Option<(u32, u32)>,
    pub(super) mark: Mark,
}

impl Look {
    /// The look with this number; more than 21 repeat.
    pub(super) fn number(number: usize) -> Self {
        let (dash, mark) = ROUNDS[number / COLOURS.len() % ROUNDS.len()];
        Self { colour: COLOURS[number % COLOURS.len()], dash, mark }
    }
}

/// The looks of the series of `charts`, which are drawn together: one name looks the same in all of them, and a congestion control
/// looks the same in every picture.
pub(super) fn looks(charts: &[&Chart]) -> Vec<Vec<Look>> {
    let all = || charts.iter().flat_map(|chart| &chart.series).filter(|series| series.colour.is_none());
    let mut taken: BTreeSet<usize> = charts.iter().flat_map(|chart| &chart.series).filter_map(|s| s.colour).collect();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for series in all() {
        let number = control(&series.name).filter(|number| !taken.contains(number));
        if let Some(number) = number.filter(|_| !numbers.contains_key(series.name.as_str())) {
            taken.insert(number);
            numbers.insert(&series.name, number);
        }
    }
    for series in all().filter(|series| !series.name.is_empty()) {
        numbers.entry(&series.name).or_insert_with(|| {
            let free = (0..).find(|number| !taken.contains(number)).unwrap_or_default();
            taken.insert(free);
            free
        });
    }
    let look = |(at, series): (usize, &Series)| {
        Look::number(series.colour.or_else(|| numbers.get(series.name.as_str()).copied()).unwrap_or(at))
    };
    charts.iter().map(|chart| chart.series.iter().enumerate().map(look).collect()).collect()
}

/// The number of the control that `name` names.
pub(super) fn control(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    let mut words = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '-'));
    words.find_map(|word| CONTROLS.iter().find(|(control, _)| *control == word)).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Style};

    fn chart(names: &[&str]) -> Chart {
        let series = names.iter().map(|name| Series::new(*name, Style::Line, vec![])).collect();
        let [x, y] = ["x", "y"].map(Axis::linear);
        Chart { title: String::new(), x, y, series, caption: String::new() }
    }

    #[test]
    fn twelve_series_and_more_look_different() {
        let looks: Vec<_> = (0..21).map(Look::number).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "{at}");
        }
    }

    #[test]
    fn one_name_looks_the_same_in_every_panel() {
        let panels = [chart(&["a", "CUBIC", "b"]), chart(&["b", "cubic", "CUBIC"])];
        let looks = looks(&panels.iter().collect::<Vec<_>>());
        assert_eq!((looks[0][1], looks[0][2]), (looks[1][2], looks[1][0]));
        assert_ne!(looks[1][1], looks[1][2], "two names are two looks");
        assert_eq!(looks[0][1], Look::number(1));
    }

    #[test]
    fn a_control_looks_the_same_in_every_picture() {
        let first = |names: &[&str]| looks(&[&chart(names)])[0].clone();
        assert_eq!(first(&["other", "Westwood+, goodput"])[1], first(&["westwood+"])[0]);
        assert_ne!(first(&["westwood"])[0], first(&["westwood+"])[0]);
        let colours: BTreeSet<_> = CONTROLS.iter().map(|(name, _)| control(name)).collect();
        assert_eq!(colours.len(), CONTROLS.len() - 2, "bentpipe and satpep are one, and so are the names of Westwood+");
    }
}
