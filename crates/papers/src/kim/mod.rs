//! Kim, Lee and Kim: a congestion window from the link layer's allocation and the number of sessions.
//!
//! Its figures have no numbers that a text could hold, so that what the paper says in words is checked, and the curves are
//! drawn again: Reno, CUBIC and Hybla end to end, split TCP with Hybla over the satellite, and the proposed window there.

mod figures;
mod models;
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
            name => Err(Error::Input(format!("item `{name}` is printed, but nobody reproduces it"))),
        }
    }
}
