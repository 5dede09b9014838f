//! A hub and its terminals as gateways that run, over an emulated forward link and an emulated path to each terminal.

use super::super::figures::Figures;
use super::super::real::time_until;
use super::{HubCase, LOSS, PHASE, RATE, RTT, SETTLES, Trouble};
use crate::setup::loss;
use crate::{Error, Setup};
use emulator::Report;
use lab::flows::{Plan, Stop, run_plans_until};
use lab::{Direction, Ends, Flow, GatewayOptions, Gateways, Satellite, Topology, Workload};
use link::{LinkConfig, LossModel};
use units::{Bytes, Duration, Rate};

/// When data begin to flow, in the time of the emulators: by then the gateways of so many terminals are up.
fn begin(terminals: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_secs(3) * terminals.max(10) as u64
}

/// More than any terminal gets.
const SIZE: Bytes = Bytes::new(100_000_000);
const FULL_PACKET: Bytes = Bytes::new(1500);

/// Why a case cannot be run for real, if it cannot.
pub(in super::super) fn obstacle(case: &HubCase) -> Option<&'static str> {
    matches!(case.trouble, Trouble::OneLies).then_some("a terminal that reports falsely is simulated only")
}

/// Runs `case` once.
pub(in super::super) fn run(setup: &Setup, case: &HubCase, seed: u64) -> Result<Figures, Error> {
    let topology = Topology::with_own_paths(
        satellite(case, seed)?,
        (0..case.terminals).map(|terminal| case.own_path(terminal, begin(case.terminals), seed, true)).collect(),
    )?;
    let back = Rate::from_bps(RATE.as_bps() / case.terminals as u64);
    let gateways =
        GatewayOptions { configured_rates: Some([Some(back), case.prior.of(RATE)]), ..setup.gateways.clone() };
    let running = Gateways::start(&setup.program, &topology, [back, RATE], RTT, &gateways)?;
    let monitor = topology.satellite_monitor().ok_or_else(|| Error::failed("there is no satellite"))?;
    let before = monitor.report().down.offered.bytes;
    let workload = Workload { direction: Direction::Down, size: SIZE, seed, ..setup.experiment()?.workload };
    let flows = flows(case, &topology, &workload, time_until(begin(case.terminals), &monitor, &case.name)?)?;
    drop(running);
    // A monitor's view is older than the last packets.
    let reports = topology.stop_all()?;
    reports.iter().for_each(|report| warn_of_drops(case, report));
    let link = reports.into_iter().next().ok_or_else(|| Error::failed("there is no satellite"))?.down;
    let received: u64 = flows.iter().map(|flow| flow.bytes.as_u64()).sum();
    let empty = case.carrier_rtt() / 2 + RATE.time_to_send(FULL_PACKET);
    Ok(Figures {
        overhead: (link.offered.bytes - before) as f64 / received as f64,
        queue_p95_s: Some((link.transit_us.p95 / 1e6 - empty.as_secs_f64()).max(0.0)),
        ..case.shares(&[0, 1, 2].map(|phase| carried(&flows, phase)))
    })
}

/// The links would not have dropped them.
fn warn_of_drops(case: &HubCase, report: &Report) {
    for (reason, packets) in [&report.up, &report.down].into_iter().flat_map(|way| way.dropped.by_emulator()) {
        tracing::warn!(
            case = case.name,
            reason,
            packets,
            "the emulator dropped packets that the links would not: the figures are not the links' (an idle machine helps)"
        );
    }
}

/// The forward link, and the return link, which all terminals share.
fn satellite(case: &HubCase, seed: u64) -> Result<Satellite, Error> {
    let loss = LossModel::Bernoulli(loss(LOSS)?);
    let link =
        |stream| LinkConfig { loss: loss.clone(), seed, stream, ..LinkConfig::new(RATE, case.carrier_rtt() / 2) };
    Ok(Satellite { forward: link(0), return_link: link(1) })
}

/// Each terminal reads from the hub, after `wait`, until the last phase ends.
fn flows(case: &HubCase, topology: &Topology, workload: &Workload, wait: Duration) -> Result<Vec<Flow>, Error> {
    let plan = |(number, client)| {
        let later = if case.is_first && number > 0 { PHASE } else { Duration::ZERO };
        Plan { ends: Ends { client, server: &topology.hub }, workload, start: wait + later, windows: None }
    };
    let plans: Vec<_> = topology.terminals.iter().enumerate().map(plan).collect();
    let flows = run_plans_until(&plans, Some(Stop { at: wait + PHASE * 3, when_complete: false }), None)?;
    match flows.iter().position(|flow| !flow.is_cut_off) {
        Some(terminal) => Err(Error::failed(format!("{}: the flow of terminal {terminal} ended early", case.name))),
        None => Ok(flows),
    }
}

/// What each of `flows` brought in a phase from when it had settled. The first flow begins with the first phase.
fn carried(flows: &[Flow], phase: u64) -> Vec<u64> {
    let bytes = |flow: &Flow| {
        let late = Duration::from(flow.start.duration_since(flows[0].start));
        let by = |at: Duration| flow.trace.bytes_at(at.saturating_sub(late));
        (by(PHASE * (phase + 1)) - by(PHASE * phase + SETTLES)) as u64
    };
    flows.iter().map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_run_for_real_but_those_with_a_terminal_that_lies() {
        let only: Vec<_> = super::super::all().into_iter().filter(|case| obstacle(case).is_some()).collect();
        let names: Vec<_> = only.iter().map(|case| case.name.as_str()).collect();
        let expected = [
            "hub of 2, one lies",
            "hub of 10, one lies",
            "hub of 10, a near one lies",
            "hub of 10, 30 to 550 ms, one lies",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn paths_change_with_the_phases_as_in_simulations() {
        for case in super::super::all() {
            let steps = |begin| {
                let steps = case.own_path(0, begin, 1, true).rate_steps.map_or(Vec::new(), |steps| steps.steps);
                steps.into_iter().map(move |(at, rate)| (at.saturating_sub(begin), rate)).collect::<Vec<_>>()
            };
            assert_eq!(steps(begin(case.terminals)), steps(super::super::BEGIN), "{}", case.name);
        }
    }
}
