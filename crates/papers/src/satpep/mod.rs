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
            "newcomer" => crowd::newcomer(context),
            "equations" => equations::check(),
            name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::{mean, rows, verdict};

    #[test]
    fn equation_1_shares_out_what_is_available() {
        let rows = rows(&Satpep, "equations", 1);
        assert!(rows.iter().all(|row| row.verdict == Some(Verdict::Holds)), "{rows:?}");
    }

    #[test]
    fn figure_2_is_found_whole_and_the_deployed_transport_is_ahead_everywhere() {
        let rows = rows(&Satpep, "figure-2", 6);
        assert!(rows.iter().all(|row| row.verdict.is_some()), "{rows:?}");
        for claim in
            ["better than TCP", "full link after one round trip", "no congestion of TCP", "no congestion of SaTPEP"]
        {
            assert_eq!(verdict(&rows, claim), Some(Verdict::Holds), "{claim}");
        }
        for loss in ["1e-6", "1e-3", "1e-2"] {
            let [tcp, paper, deployed] =
                ["sack-500", "satpep-2003", "satpep"].map(|variant| mean(&rows, &format!("{variant}, P={loss}")));
            assert!(tcp < 0.5 * paper && paper < 0.8 * deployed, "{loss}: {tcp} {paper} {deployed}");
            let ratio = mean(&rows, &format!("satpep/sack-500, P={loss}"));
            assert!((ratio / (deployed / tcp) - 1.0).abs() < 1e-9);
        }
    }

    /// The constant of equation 2 decides whether equation 1 has anything to give to a newcomer.
    #[test]
    fn a_newcomer_has_its_share_where_the_others_windows_do_not_exceed_the_link() {
        let rows = rows(&Satpep, "newcomer", 4);
        assert!(mean(&rows, "c=1") < 0.4 && mean(&rows, "c=0") > 0.65, "{rows:?}");
        assert_eq!(verdict(&rows, "newcomer"), Some(Verdict::DependsOn));
    }

    #[test]
    fn the_twenty_first_waits_by_the_paper_and_has_its_share_at_once_by_the_deployed_transport() {
        let rows = rows(&Satpep, "figure-4-both-ways", 1);
        let of = |variant: &str, what: &str| mean(&rows, &format!("{variant}, P=1e-3, {what}"));
        assert!(of("satpep-2003", "the 21st") < 0.4 * of("satpep-2003", "mean of 20"));
        assert!(of("satpep", "the 21st") > 0.9 * of("satpep", "mean of 20"));
        assert!(of("satpep", "Jain's index") > 0.9999);
    }
}
