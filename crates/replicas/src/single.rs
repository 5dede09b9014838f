//! One run, from its scenario to what it found.

use crate::captures::Captures;
use crate::{Error, Recording, Replica};
use results::{Label, Run};
use scenario::FlowError;
use sim::Simulation;
use std::sync::Arc;

/// Events between two questions whether the run goes on: less than a tenth of a second, where each sends a gateway's datagrams,
/// too.
const EVENTS_AT_ONCE: u64 = 1 << 13;

/// Makes one run, on this thread. `prepare` may change the simulation before it begins. `goes_on` hears now and then which
/// share of the run's time has passed (zero if it has no end), and ends the run by `false`: then there is no result.
///
/// # Errors
/// If the simulator refuses the scenario, or `prepare` fails.
pub fn single(
    replica: &Replica,
    recording: &Recording,
    prepare: impl FnOnce(&mut Simulation) -> Result<(), FlowError>,
    mut goes_on: impl FnMut(f64) -> bool,
) -> Result<Option<Run>, Error> {
    let scenario = &replica.scenario;
    let label = label(replica);
    let mut simulation = set_up(replica, *recording != Recording::Nothing)?;
    prepare(&mut simulation).map_err(|error| refused(&label, &error))?;
    let mut captures = Captures::begin(recording, &label, &simulation, scenario);
    let mut run = Run {
        label,
        report: simulation.report(),
        groups: scenario.groups.clone(),
        network: Arc::clone(&scenario.network),
        flow_samples: Vec::new(),
        queue_samples: Vec::new(),
        capacity_samples: Vec::new(),
        not_captured: None,
    };
    let end = scenario.settings.stop.at.map_or(f64::INFINITY, |end| end.as_secs_f64());
    loop {
        let stopped = simulation.run_for(EVENTS_AT_ONCE);
        run.flow_samples.append(&mut simulation.take_flow_samples());
        run.queue_samples.append(&mut simulation.take_queue_samples());
        run.capacity_samples.append(&mut simulation.take_capacity_samples());
        captures.append(&mut simulation);
        let is_wanted = goes_on(simulation.now().as_secs_f64() / end);
        if stopped.is_some() {
            break;
        }
        if !is_wanted {
            return Ok(None);
        }
    }
    run.report = simulation.report();
    // A conversation ends with the FINs of both sides, which may come after the last byte.
    while !captures.is_empty() && simulation.close_for(EVENTS_AT_ONCE) && goes_on(1.0) {
        captures.append(&mut simulation);
    }
    captures.append(&mut simulation);
    run.not_captured = captures.finish();
    Ok(Some(run))
}

/// Sets a run up, and does not make it.
///
/// # Errors
/// If the simulator refuses the scenario.
pub fn check(replica: &Replica) -> Result<(), Error> {
    set_up(replica, false).map(drop)
}

fn set_up(replica: &Replica, recording: bool) -> Result<Simulation, Error> {
    Simulation::of(&replica.scenario, replica.seed, recording).map_err(|error| refused(&label(replica), &error))
}

fn label(replica: &Replica) -> Label {
    Label { variant: replica.scenario.variant.as_deref().map(Arc::from), seed: replica.seed }
}

fn refused(label: &Label, error: &dyn std::fmt::Display) -> Error {
    Error::Scenario(format!("run {}: {error}", label.file_stem()))
}
