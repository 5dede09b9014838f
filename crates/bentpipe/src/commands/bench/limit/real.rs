//! A row over the emulated link, by gateways that run.

use super::rows::{FIRST, Kind, Row, WATCHED};
use super::{Figures, latecomer_share, varying_share};
use crate::output::Failure;
use lab::flows::{Plan, run_plans, time};
use lab::{Direction, Ends, Experiment, Flow, Path};
use units::{Bytes, Duration};

const FULL_PACKET: Bytes = Bytes::new(1500);

/// Runs `row` once.
pub(super) fn run(row: &Row, experiment: &Experiment, seed: u64) -> Result<Figures, Failure> {
    let mut experiment = experiment.clone();
    experiment.workload.seed = seed;
    if let Some(satellite) = &mut experiment.satellite {
        (satellite.forward.seed, satellite.return_link.seed) = (seed, seed);
    }
    let stage = experiment.start(&Path::Bentpipe)?;
    let report = || {
        let report = stage.topology.satellite_report().ok_or_else(|| Failure::failed("there is no satellite"))?;
        Ok::<_, Failure>(if row.direction == Direction::Up { report.up } else { report.down })
    };
    let before = report()?.offered.bytes;
    let ends = Ends { client: &stage.topology.terminals[0], server: &stage.topology.hub };
    let plan = |start| Plan { ends, workload: &experiment.workload, start, windows: None };
    let mut plans = vec![plan(Duration::ZERO); row.flows];
    if let Kind::Latecomer { after } = row.kind {
        plans.push(plan(after));
    }
    let flows = run_plans(&plans)?;
    let carried = report()?;
    if flows.iter().any(|flow| !flow.verified) {
        return Err(Failure::failed(format!("{}: the data did not verify", row.name)));
    }
    let bytes: Bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
    let goodputs: Vec<_> = flows[..row.flows].iter().map(|flow| flow.goodput().as_bps() as f64).collect();
    let late = matches!(row.kind, Kind::Latecomer { .. }).then(|| arrived(&flows[row.flows], row, FIRST));
    Ok(Figures {
        share: match row.kind {
            Kind::Varying(_) => varying_share(row, arrived(&flows[0], row, WATCHED)),
            _ => experiment.limit_of(bytes).as_secs_f64() / time(&flows).as_secs_f64(),
        },
        overhead: (carried.offered.bytes - before) as f64 / bytes.as_u64() as f64,
        jain_index: (row.flows > 1).then(|| lab::measure::jain_index(&goodputs)),
        latecomer: late.map(|bytes| latecomer_share(row, bytes)),
        queue_ms: matches!(row.kind, Kind::Varying(_)).then(|| {
            let empty = row.rtt() / 2 + row.rate().time_to_send(FULL_PACKET);
            carried.transit_us.p95 / 1e3 - empty.as_secs_f64() * 1e3
        }),
    })
}

/// Bytes that a flow brought in the first `span` in which it could.
fn arrived(flow: &Flow, row: &Row, span: Duration) -> f64 {
    flow.trace.bytes_at(row.rtt() / 2 + span)
}
