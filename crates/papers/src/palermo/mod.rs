//! TCP variants over a satellite between Palermo and Houston, beside terrestrial connections and UDP.

mod charts;
mod claims;
mod delay;
mod low_load;
mod phase;
mod shares;
mod statements;
mod three_phases;
mod truth;
mod window;
mod worlds;

use crate::{Context, Error, Reproduction, Study, printed::Item};

/// The scenario of figures 2 to 8 and 11.
const PHASES: &str = include_str!("../../../../scenarios/papers/palermo/phases.toml");
const FILE: &str = "scenarios/papers/palermo/phases.toml";

/// Settings of it for packets of 1000 B with their headers.
const PACKETS_OF_1000_B: [&str; 2] = ["tcp.satellite.mss=960B", "tcp.terrestrial.mss=960B"];

/// The study.
pub struct Palermo;

impl Study for Palermo {
    fn name(&self) -> &'static str {
        "palermo"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/palermo/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "window-limit" => window::limit(context),
            "figure-2" => three_phases::figure("tahoe", item, context),
            "figure-3" => three_phases::figure("reno", item, context),
            "figure-4" => three_phases::figure("sack", item, context),
            "figure-5" => three_phases::figure("newreno", item, context),
            "figure-6" => three_phases::figure("vegas", item, context),
            "figure-7" => three_phases::figure("westwood", item, context),
            "figure-8" => three_phases::figure("tibet", item, context),
            "figure-9" => low_load::shares(item, context),
            "figure-10" => low_load::windows(item, context),
            "figure-11" => three_phases::figure("tibet-reno", item, context),
            "claims" => claims::judge(context),
            "phase" => phase::sweep(item, context),
            "ns-2" => three_phases::as_in_ns2(item, context),
            "delay" => delay::varying(item, context),
            name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
        }
    }
}
