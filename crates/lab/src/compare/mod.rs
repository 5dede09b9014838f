//! The kernel's TCP beside the simulator's: the same transfer over the same random link, in both worlds.

mod draw;
mod parting;

pub use draw::{CONTROLS, RandomLink};
pub use parting::{Parting, State};

use crate::Error;
use crate::measure::median;
use crate::scenario::{MeasuredLink, RealScenario};
use ::scenario::Scenario;
use serde::Serialize;
use sim::{Simulation, Traffic};
use std::sync::Arc;
use tcp::HostDelays;
use units::Duration;

/// A link beyond this deviation of the transfer's time is measured again, as often as this: the kernel scatters, too.
const CLOSE: f64 = 0.05;
const MEASUREMENTS: usize = 3;
/// Payload of a segment in both worlds.
const MSS: u64 = 1448;
/// The lab's host, as measured on it: from the handshake's last segment to the first data 0.2 to 0.8 ms pass, what an
/// acknowledgement lets go reaches the emulator up to 0.1 ms sooner or later than the one before did, and the first after a
/// rest is 60 us later than the others against the bottleneck's pace (medians of ten links: 90 and 30 us).
const FIRST_WRITE: Duration = Duration::from_micros(500);
const WAKE: Duration = Duration::from_micros(100);
const IDLE_WAKE: Duration = Duration::from_micros(50);
/// So many series of that chance are simulated, and the median counts, as with the kernel's.
const DRAWS: u64 = 9;
/// Events between two looks at what the simulator has recorded.
const EVENTS_AT_ONCE: u64 = 1 << 16;

/// A transfer in both worlds.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The link and what crosses it.
    #[serde(flatten)]
    pub link: RandomLink,
    /// Times of the transfer by the kernel, in seconds: one, or three where the first was far from the simulator's.
    pub kernel_s: Vec<f64>,
    /// Their median.
    pub kernel_median_s: f64,
    /// The median of the times by the simulator, each with other delays of the host; null if it did not end.
    pub simulated_s: Option<f64>,
    /// The simulator's time over the kernel's, less one; null if it did not end.
    pub deviation: Option<f64>,
    /// Packets that the emulator dropped in the measurements though the link would not: with any, their times are not the link's.
    pub emulator_drops: u64,
    /// Segments that the kernel sent again, in the first measurement.
    pub kernel_retransmissions: u32,
    /// Segments that the simulator sent again.
    pub simulated_retransmissions: u64,
    /// Where the first measurement and the simulation part; null if they do not.
    pub parts: Option<Parting>,
}

impl Comparison {
    /// Runs the transfer over `link` in both worlds.
    ///
    /// # Errors
    /// If the machine lacks something or the transfer fails.
    pub fn run(link: RandomLink) -> Result<Self, Error> {
        let scenario = link.scenario()?;
        let simulated = simulate(&scenario, link.seed)?;
        let real = RealScenario::new(&scenario)?;
        let mut kernel = vec![measure(&real, link.seed)?];
        let is_far = |time: f64| simulated.time.is_none_or(|simulated| (simulated / time - 1.0).abs() > CLOSE);
        if is_far(kernel[0].time.unwrap_or(f64::INFINITY)) {
            for _ in 1..MEASUREMENTS {
                kernel.push(measure(&real, link.seed)?);
            }
        }
        let kernel_s: Vec<_> = kernel.iter().filter_map(|world| world.time).collect();
        let kernel_median_s = median(&kernel_s).ok_or_else(|| Error::failed("nothing was measured"))?;
        Ok(Self {
            parts: Parting::of(&kernel[0].states, &simulated.states),
            deviation: simulated.time.map(|time| time / kernel_median_s - 1.0),
            kernel_s,
            kernel_median_s,
            emulator_drops: kernel.iter().map(|world| world.emulator_drops).sum(),
            simulated_s: simulated.time,
            kernel_retransmissions: kernel[0].retransmissions as u32,
            simulated_retransmissions: simulated.retransmissions,
            link,
        })
    }

    /// Whether the times differ by at most `share` of the kernel's.
    pub fn is_within(&self, share: f64) -> bool {
        self.deviation.is_some_and(|deviation| deviation.abs() <= share)
    }
}

/// What one of the worlds made of the transfer.
struct World {
    /// In seconds; `None` if it did not end.
    time: Option<f64>,
    retransmissions: u64,
    /// None in the simulator.
    emulator_drops: u64,
    states: Vec<State>,
}

/// The median of some simulations.
fn simulate(scenario: &Scenario, seed: u64) -> Result<World, Error> {
    let draws = (0..DRAWS).map(|draw| simulate_once(&on_host(scenario, draw), seed));
    let mut worlds = draws.collect::<Result<Vec<_>, _>>()?;
    let time = |world: &World| world.time.unwrap_or(f64::INFINITY);
    worlds.sort_by(|one, other| time(one).total_cmp(&time(other)));
    Ok(worlds.swap_remove(worlds.len() / 2))
}

/// The scenario with a host that takes its time, by chance number `draw`.
fn on_host(scenario: &Scenario, draw: u64) -> Scenario {
    let mut scenario = scenario.clone();
    for flow in &mut scenario.flows {
        if let Traffic::Tcp { client, .. } = &mut flow.traffic {
            Arc::make_mut(client).host =
                HostDelays { first_write: FIRST_WRITE, wake: WAKE, idle_wake: IDLE_WAKE, stream: draw };
        }
    }
    scenario
}

fn simulate_once(scenario: &Scenario, seed: u64) -> Result<World, Error> {
    let mut simulation = Simulation::of(scenario, seed, true).map_err(Error::failed)?;
    let mut states = Vec::new();
    loop {
        let stopped = simulation.run_for(EVENTS_AT_ONCE);
        states.extend(simulation.take_flow_samples().iter().map(|sample| State {
            time_s: sample.at.as_nanos() as f64 / 1e9,
            delivered_bytes: sample.delivered.as_u64(),
            cwnd: sample.cwnd.as_u64() / MSS,
        }));
        if stopped.is_some() {
            break;
        }
    }
    let flow = simulation.report().flows.into_iter().next().ok_or_else(|| Error::failed("there was no flow"))?;
    let time = flow.end_s.zip(flow.start_s).filter(|_| flow.complete).map(|(end, start)| end - start);
    Ok(World { time, retransmissions: flow.retransmissions, emulator_drops: 0, states })
}

fn measure(real: &RealScenario, seed: u64) -> Result<World, Error> {
    let run = real.run(None, seed)?;
    let flow = run.flows.first().ok_or_else(|| Error::failed("there was no flow"))?;
    if flow.is_cut_off {
        return Err(Error::failed(format!("the transfer had not ended after {:.0} s", flow.end_s)));
    }
    if !flow.complete {
        return Err(Error::failed("what arrived is not what was sent"));
    }
    let states = flow.windows.iter().map(|sample| State {
        time_s: sample.at.as_secs_f64(),
        delivered_bytes: flow.trace.bytes_at(sample.at) as u64,
        cwnd: sample.info.cwnd.into(),
    });
    Ok(World {
        time: Some(flow.end_s - flow.start_s),
        retransmissions: flow.retransmissions.into(),
        emulator_drops: run.links.iter().flat_map(MeasuredLink::emulator_drops).map(|(_, packets)| packets).sum(),
        states: states.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the simulator makes of a link depends on nothing but its seed.
    #[test]
    fn a_link_is_simulated_alike_each_time() {
        let link = RandomLink::draw(7, CONTROLS).expect("controls");
        let times = [0, 1].map(|_| simulate(&link.scenario().expect("a scenario"), link.seed).expect("runs").time);
        assert!(times[0].is_some() && times[0] == times[1], "{times:?}");
    }
}
