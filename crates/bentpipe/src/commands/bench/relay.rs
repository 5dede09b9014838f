//! Both satellite legs side by side, without a satellite between: what a gateway pair can carry, and at what price.

use super::throughput::{self, Measured};
use super::{Args, Findings, json, table};
use crate::output::Failure;
use lab::{GatewayOptions, SatelliteLeg};
use serde::Serialize;

/// The legs, and whether they go in clear.
const LEGS: [(&str, SatelliteLeg, bool); 3] = [
    ("tcp, clear", SatelliteLeg::Tcp, true),
    ("tcp, TLS", SatelliteLeg::Tcp, false),
    ("satpep", SatelliteLeg::Satpep, false),
];

#[derive(Serialize)]
struct Row {
    leg: &'static str,
    #[serde(flatten)]
    measured: Measured,
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let base = args.experiment()?.gateways;
    let measure = |(name, leg, clear)| {
        let options = GatewayOptions { leg, clear, ..base.clone() };
        Ok(Row { leg: name, measured: throughput::measure(args, &options, 1)? })
    };
    let rows = LEGS.into_iter().map(measure).collect::<Result<Vec<_>, Failure>>()?;
    let mut table = table(&["leg", "throughput", "processor time, both gateways", "each gateway"]);
    for Row { leg, measured } in &rows {
        table.add_row([
            (*leg).to_owned(),
            format!("{:.2} Gbit/s", measured.throughput_bps as f64 / 1e9),
            format!("{:.2} s/GB", measured.cpu_s_per_gb),
            format!("{:.2} s/GB", measured.cpu_s_per_gb / 2.0),
        ]);
    }
    let claim = "one flow; the kernel's leg in clear: >= 5 Gbit/s at <= 1 s/GB for each gateway (PEPsal: 2.3 Gbit/s, 2.5 s/GB \
                 for both)";
    Ok(Findings { claim, table, rows: json(&rows)? })
}
