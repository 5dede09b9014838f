//! The link as it was measured: pings, and what is in transit.

use super::{judged, theory};
use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use units::{Duration, Rate};

const FILE: &str = "scenarios/papers/kruse/ping.toml";

/// Pings over the satellite and over the bypass.
pub(super) fn setting(context: &Context<'_>) -> Result<Reproduction, Error> {
    let variants = Variants::load(include_str!("../../../../scenarios/papers/kruse/ping.toml"), FILE, &[])?;
    let replicas: Vec<_> =
        variants.all().iter().map(|scenario| Replica { scenario: scenario.clone(), seed: 1 }).collect();
    let runs = context.simulate(&replicas)?;
    let ping = |number: usize| {
        let run = runs.get(number)?;
        Some(run.report.flows.first()?.rtt?.mean_s * 1e3)
    };
    let bytes = Rate::from_bps(1_536_000).bytes_in(Duration::from_millis(560)).as_u64() as f64;
    let found = vec![
        Found::new("ping over the satellite, least").model(theory::ping(theory::SATELLITE)).simulated(ping(0)),
        Found::new("ping over the satellite, most").model(theory::ping(theory::SATELLITE)).simulated(ping(0)),
        Found::new("ping over the bypass").model(theory::ping(theory::BYPASS)).simulated(ping(1)),
        judged("bytes in transit", (bytes / 1e3 - 107.5).abs() < 0.05, format!("{bytes} bytes")),
    ];
    let remarks = vec![
        "The propagation delay is the paper's 280 ms; that of the bypass, 1.5 ms, is ours, made from its ping of 4 ms with \
         packets of 84 bytes at 1.536 Mbit/s."
            .to_owned(),
    ];
    Ok(Reproduction { found, remarks, ..Reproduction::default() })
}
