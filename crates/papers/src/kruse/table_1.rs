//! Table 1: what a window allows in the long run.

use super::{judged, theory};
use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use results::Run;
use scenario::Scenario;
use std::sync::Arc;

const FILE: &str = "scenarios/papers/kruse/table-1.toml";
const TEXT: &str = include_str!("../../../../scenarios/papers/kruse/table-1.toml");

/// A row and column of the table, and what finds it again.
struct Cell {
    key: &'static str,
    variant: &'static str,
    window: u64,
    segment: u64,
    kbits: u64,
}

/// What is simulated, in the order of the printed entries.
const CELLS: [Cell; 12] = [
    cell("W=5,000 at 1.536 Mbit/s", "W5000", 5_000, 500, 1536),
    cell("W=25,000 at 1.536 Mbit/s", "W25000", 25_000, 500, 1536),
    cell("W=65,000 at 1.536 Mbit/s", "W65000", 65_000, 500, 1536),
    cell("W=95,000 at 1.536 Mbit/s", "W95000", 95_000, 500, 1536),
    cell("W=5,000 at 768 kbit/s", "W5000", 5_000, 500, 768),
    cell("W=25,000 at 768 kbit/s", "W25000", 25_000, 500, 768),
    cell("W=65,000 at 768 kbit/s", "W65000", 65_000, 500, 768),
    cell("W=95,000 at 768 kbit/s", "W95000", 95_000, 500, 768),
    cell("W=5,000 in segments of 512", "W5000-512", 5_000, 512, 1536),
    cell("W=25,000 in segments of 512", "W25000-512", 25_000, 512, 1536),
    cell("W=65,000 in segments of 512", "W65000-512", 65_000, 512, 1536),
    cell("W=95,000 in segments of 512", "W95000-512", 95_000, 512, 1536),
];

const fn cell(key: &'static str, variant: &'static str, window: u64, segment: u64, kbits: u64) -> Cell {
    Cell { key, variant, window, segment, kbits }
}

/// The table, its entries without a value, and whole segments of the paper's size.
pub(super) fn table_1(context: &Context<'_>) -> Result<Reproduction, Error> {
    let replicas = CELLS
        .iter()
        .map(|cell| Ok(Replica { scenario: cell.scenario()?, seed: 1 }))
        .collect::<Result<Vec<_>, Error>>()?;
    let runs = context.simulate(&replicas)?;
    let found = CELLS.iter().zip(&runs).map(|(cell, run)| cell.found(run)).collect::<Result<_, Error>>()?;
    let remarks = vec![
        "Model: equations 3.1 to 3.6 with a fractional number of segments in the window and r = 1, which is the only reading \
         that gives the printed digits."
            .to_owned(),
        "Simulated: segments of 500 bytes, of which every window of the table is a multiple, since TCP sends no fraction of \
         a segment; the last rows have the paper's 512 bytes. A window of an odd number of segments loses more than its \
         fraction: with an acknowledgement for every second segment, its last one waits for the timer of 200 ms."
            .to_owned(),
    ];
    Ok(Reproduction { found, remarks, ..Reproduction::default() })
}

impl Cell {
    fn scenario(&self) -> Result<Arc<Scenario>, Error> {
        Variants::load(TEXT, FILE, &[format!("link.line.rate={}kbit/s", self.kbits)])?.get(self.variant)
    }

    fn found(&self, run: &Run) -> Result<Found, Error> {
        let simulated = self.long_run(run);
        let found = Found::new(self.key).simulated(simulated);
        Ok(match theory::long_run(self.kbits, self.window)? {
            Some(model) if self.segment == 512 => found.model(model),
            Some(model) => found.model(model).note(format!("the model gives {model:.3}")),
            None => {
                let line = theory::line_rate(self.kbits);
                let note = format!("the model's wait is negative; the line carries {line:.1} kbit/s");
                let is_line = simulated.is_some_and(|value| (value / line - 1.0).abs() < 0.01);
                Found { simulated: found.simulated, ..judged(self.key, is_line, note) }
            }
        })
    }

    /// The rate of a hundred windows of whole segments after the first thirty, in kbit/s.
    fn long_run(&self, run: &Run) -> Option<f64> {
        let window = (self.window / self.segment * self.segment) as f64;
        let reached = |windows: f64| {
            let has_reached = |sample: &&sim::FlowSample| sample.delivered.as_u64() as f64 >= windows * window;
            run.flow_samples.iter().find(has_reached).map(|sample| sample.at.as_secs_f64())
        };
        Some(100.0 * window * 8.0 / (reached(130.0)? - reached(30.0)?) / 1e3)
    }
}
