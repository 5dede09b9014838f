//! Marchese: tuning the initial window and the buffers of TCP over a geostationary satellite.

use crate::{Context, Error, Found, Reproduction, Study, Variants, printed::Item};
use replicas::Replica;
use results::Run;

/// The study.
pub struct Marchese;

impl Study for Marchese {
    fn name(&self) -> &'static str {
        "marchese"
    }

    fn printed(&self) -> &'static str {
        include_str!("../../../../scenarios/papers/marchese/printed.toml")
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        match item.name.as_str() {
            "table-3" => table_3(item, context),
            name => Err(Error::Input(format!("item `{name}` is printed, but nobody reproduces it"))),
        }
    }
}

fn table_3(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let text = include_str!("../../../../scenarios/papers/marchese/table-3.toml");
    let variants = Variants::load(text, "scenarios/papers/marchese/table-3.toml", &[])?;
    // Nothing is random.
    let replicas: Vec<_> =
        variants.all().iter().map(|scenario| Replica { scenario: scenario.clone(), seed: 1 }).collect();
    let runs = context.simulate(&replicas)?;
    let found =
        item.entries.iter().zip(&runs).map(|(entry, run)| Found::new(&entry.key).simulated(time(run))).collect();
    Ok(Reproduction { found, remarks: Vec::new() })
}

/// From connect to the receiver's last byte.
fn time(run: &Run) -> Option<f64> {
    let flow = run.report.flows.first()?;
    Some(flow.end_s? - flow.start_s?)
}
