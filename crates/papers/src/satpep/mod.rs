//! Velenis, Kalogeras and Maglaris: SaTPEP, a proxy that makes TCP faster over satellite links.
//!
//! Its figures have no numbers that a text could hold, so that what the paper says in words is checked, and the curves are
//! drawn again. SACK-TCP end to end is beside the paper's protocol (`satpep-2003`) and the transport that bentpipe's
//! gateways speak (`satpep`).

mod crowd;
mod equations;
mod file;
mod grid;
mod models;

use crate::{Context, Error, Reproduction, Study, printed::Item};

/// The study.
pub struct Satpep;

impl Study for Satpep {
    fn name(&self) -> &'static str {
        "satpep"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/satpep/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "figure-2" => file::against_loss(&file::WAY_THERE, context),
            "figure-2-both-ways" => file::against_loss(&file::BOTH_WAYS, context),
            "figure-2-terrestrial-return" => file::against_loss(&file::TERRESTRIAL_RETURN, context),
            "figure-3" => file::against_size_and_capacity(context),
            "figure-4" => crowd::figure_4(&crowd::WAY_THERE, context),
            "figure-4-both-ways" => crowd::figure_4(&crowd::BOTH_WAYS, context),
            "equations" => equations::check(),
            name => Err(Error::Input(format!("item `{name}` is printed, but nobody reproduces it"))),
        }
    }
}

/// The protocols that stand beside SACK-TCP: the paper's and the deployed one.
const SPLIT: [&str; 2] = ["satpep-2003", "satpep"];

/// Why something is drawn that the paper does not show.
const OURS: &str = "satpep is the transport of bentpipe's gateways in a session that is up before, the paper has none; \
                    SACK-TCP sends packets of 1500 bytes, two at first, and each is acknowledged";

/// The setting that makes the satellite lose packets on the way there.
fn loss_there(loss: &str) -> String {
    format!("link.satellite.forward.loss={loss}")
}

/// And the one for the way back.
fn loss_back(loss: &str) -> String {
    format!("link.satellite.loss={loss}")
}

/// How many runs each point has by default.
fn seeds(context: &Context<'_>) -> u64 {
    if context.full() { 400 } else { 50 }
}

/// Below charts.
fn caption(context: &Context<'_>) -> String {
    let seeds = context.seeds(seeds(context)).count();
    format!("Means of {seeds} seeds with their 95 % confidence intervals. {}", context.command())
}
