//! Kim, Lee and Kim: a congestion window from the link layer's allocation and the number of sessions.
//!
//! Its figures have no numbers that a text could hold, so that what the paper says in words is checked, and the curves are
//! drawn again: Reno, CUBIC and Hybla end to end, split TCP with Hybla over the satellite, and the proposed window there.

mod figures;
mod models;
mod point;
mod real;
mod windows;

use crate::{Context, Error, Reproduction, Study, printed::Item};

/// The study.
pub struct Kim;

impl Study for Kim {
    fn name(&self) -> &'static str {
        "kim"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/kim/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "table-1" => windows::maximum_segments(),
            "figure-3" => figures::against_errors(context),
            "figure-4" => figures::against_sessions(("0", 0.0), context),
            "figure-5" => figures::against_sessions(("1e-6", 1e-6), context),
            "maximum-segments" => figures::readings(context),
            "windows" => windows::traces(context),
            "allocation" => windows::allocation(context),
            name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::{mean, rows, verdict};

    #[test]
    fn table_1_is_equation_1() {
        assert_eq!(verdict(&rows(&Kim, "table-1", 1), "sessions=1"), Some(Verdict::Within));
    }

    #[test]
    fn errors_reduce_the_proposed_window_by_timeouts_only_and_the_others_for_good() {
        let rows = rows(&Kim, "windows", 5);
        assert_eq!(verdict(&rows, "unreduced"), Some(Verdict::DependsOn));
        let window = mean(&rows, "cross-layer, mean");
        assert!((0.95 * 326.0..326.0).contains(&window), "{window}");
        assert!(
            ["reno", "cubic", "hybla"].iter().all(|name| mean(&rows, &format!("{name}, mean")) < 200.0),
            "{rows:?}"
        );
    }

    #[test]
    fn the_wait_for_capacity_costs_less_than_a_round_trip_of_it() {
        let rows = rows(&Kim, "allocation", 1);
        for name in ["split-hybla", "cross-layer"] {
            let lost = mean(&rows, &format!("{name}-at-once")) - mean(&rows, &format!("{name}-asks"));
            // Of ten seconds at 8 Mbit/s.
            assert!((0.0..0.5 * 0.8).contains(&lost), "{name}: {lost} Mbit/s");
        }
    }

    #[test]
    fn figure_5_is_found_whole() {
        let rows = rows(&Kim, "figure-5", 1);
        // Nothing was measured.
        assert!(rows.iter().all(|row| row.verdict.is_some() != row.entry.key.ends_with("kernel")), "{rows:?}");
        assert!(mean(&rows, "cross-layer, sessions=1") > 10.0 * mean(&rows, "reno, sessions=1"));
    }
}
