//! A case over the emulated link, by gateways that run.

use super::cases::{Case, FIRST, Kind, WATCHED};
use super::figures::{Figures, latecomer_share, varying_share};
use crate::Error;
use lab::flows::{Plan, run_plans, time};
use lab::{Direction, Ends, Experiment, Flow, Path};
use units::{Bytes, Duration};

const FULL_PACKET: Bytes = Bytes::new(1500);

/// Runs `case` once.
pub(super) fn run(case: &Case, experiment: &Experiment, seed: u64) -> Result<Figures, Error> {
    let mut experiment = experiment.clone();
    experiment.workload.seed = seed;
    if let Some(satellite) = &mut experiment.satellite {
        (satellite.forward.seed, satellite.return_link.seed) = (seed, seed);
    }
    let stage = experiment.start(&Path::Bentpipe)?;
    let report = || {
        let report = stage.topology.satellite_report().ok_or_else(|| Error::failed("there is no satellite"))?;
        Ok::<_, Error>(if case.direction == Direction::Up { report.up } else { report.down })
    };
    let before = report()?.offered.bytes;
    let ends = Ends { client: &stage.topology.terminals[0], server: &stage.topology.hub };
    let plan = |start| Plan { ends, workload: &experiment.workload, start, windows: None };
    let mut plans = vec![plan(Duration::ZERO); case.flows];
    if let Kind::Latecomer { after } = case.kind {
        plans.push(plan(after));
    }
    let flows = run_plans(&plans)?;
    let carried = report()?;
    if flows.iter().any(|flow| !flow.verified) {
        return Err(Error::failed(format!("{}: the data did not verify", case.name)));
    }
    let bytes: Bytes = flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes);
    let goodputs: Vec<_> = flows[..case.flows].iter().map(|flow| flow.goodput().as_bps() as f64).collect();
    let late = matches!(case.kind, Kind::Latecomer { .. }).then(|| arrived(&flows[case.flows], case, FIRST));
    Ok(Figures {
        share: match case.kind {
            Kind::Varying(_) => varying_share(case, arrived(&flows[0], case, WATCHED)),
            _ => experiment.limit_of(bytes).as_secs_f64() / time(&flows).as_secs_f64(),
        },
        overhead: (carried.offered.bytes - before) as f64 / bytes.as_u64() as f64,
        jain_index: (case.flows > 1).then(|| lab::measure::jain_index(&goodputs)),
        latecomer: late.map(|bytes| latecomer_share(case, bytes)),
        queue_ms: matches!(case.kind, Kind::Varying(_)).then(|| {
            let empty = case.rtt() / 2 + case.rate().time_to_send(FULL_PACKET);
            carried.transit_us.p95 / 1e3 - empty.as_secs_f64() * 1e3
        }),
    })
}

/// Bytes that a flow brought in the first `span` in which it could.
fn arrived(flow: &Flow, case: &Case, span: Duration) -> f64 {
    flow.trace.bytes_at(case.rtt() / 2 + span)
}
