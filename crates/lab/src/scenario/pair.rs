//! The gateways at the ends of the emulated link.

use super::Emulated;
use super::flow::kernel_control;
use super::settings::refuse_unapplied_of_gateways;
use crate::controls::Controls;
use crate::{CapacityMode, Error, Family, GatewayOptions, Gateways, Topology, Transport};
use ::scenario::Scenario;
use sim::{FlowConfig, GatewayConfig, Network};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Duration, Rate};

/// A pair that splits all flows.
#[derive(Debug)]
pub(super) struct Pair {
    congestion_control: String,
    /// What may wait at the link, for the cross-layer one.
    target_queue: Option<Duration>,
    /// What it knows of the link: its rates to the hub and back, and the round-trip time.
    rates: [Rate; 2],
    rtt: Duration,
    /// Whether its modems report the carrier's allocation to it.
    follow_allocation: bool,
}

/// As settings of gateways have it.
const CROSS_LAYER: &str = "bp_cross";

/// Pairs that this process has started so far: each has a directory of its own.
static STARTED: AtomicU32 = AtomicU32::new(0);

impl Pair {
    /// The pair that splits the flows of `scenario`, if one does.
    ///
    /// # Errors
    /// If it splits only some of them, is elsewhere than at the ends of the only emulated link, or speaks something else than TCP.
    pub(super) fn of(scenario: &Scenario, emulated: &Emulated, controls: &mut Controls) -> Result<Option<Self>, Error> {
        let network = &scenario.network;
        let splits = |gateway: &&GatewayConfig| scenario.flows.iter().any(|flow| passes(network, flow, gateway));
        let mut busy = scenario.gateways.iter().filter(splits);
        let (Some(gateway), other) = (busy.next(), busy.next()) else { return Ok(None) };
        let named = |error: Error| error.preceded_by(format!("gateway `{}`", gateway.name));
        let refused = |problem: &str| named(Error::Input(problem.to_owned()));
        if let Some(other) = other {
            return Err(refused(&format!("`{}` splits flows, too: for real, one pair does", other.name)));
        }
        let sim::Transport::Tcp(config) = &gateway.transport else {
            return Err(refused("only gateways that speak TCP (`transport = \"tcp\"`) run in a scenario for real"));
        };
        let untouched = GatewayConfig::new(&gateway.name, gateway.nodes, gateway.transport.clone()).terrestrial;
        refuse_unapplied_of_gateways(&gateway.terrestrial, config, &untouched).map_err(|problem| refused(&problem))?;
        let at_ends = |ends: [_; 2]| ends == gateway.nodes || ends == [gateway.nodes[1], gateway.nodes[0]];
        if !emulated.ends(network).is_some_and(at_ends) {
            return Err(refused("for real, gateways are at the two ends of the only emulated link"));
        }
        if let Some(flow) = scenario.flows.iter().find(|flow| !passes(network, flow, gateway)) {
            return Err(refused(&format!("it does not split flow `{}`: for real, it splits all", flow.name)));
        }
        let to_hub = emulated.to_hub(0);
        let directions = [to_hub, to_hub.reverse()];
        let [Some(up), Some(down)] = directions.map(|direction| network.highest_rate(direction)) else {
            return Err(refused("it has to know the rates of the emulated link: give the link some"));
        };
        let delays = directions.map(|direction| network.directions()[direction.index()].config.nominal_delay());
        let (congestion_control, target_queue) = match config.control.name {
            "cross-layer" => (CROSS_LAYER.to_owned(), config.capacity.map(|capacity| capacity.target_queue)),
            _ => (kernel_control(config, controls).map_err(named)?, None),
        };
        let (rtt, follow_allocation) = (delays[0] + delays[1], gateway.follow_allocation);
        let requested = network.directions()[to_hub.index()].config.dama.as_ref().map(|dama| dama.rbdc);
        if follow_allocation && requested.is_some_and(|rate| rate > Rate::ZERO) {
            return Err(refused(
                "follow_allocation beside the terminal's `dama.rbdc`: real gateways cannot request capacity; give the terminal a constant rate \
                 (`cra`) only",
            ));
        }
        Ok(Some(Self { congestion_control, target_queue, rates: [up, down], rtt, follow_allocation }))
    }

    /// Starts the program that is running, which is to be bentpipe, as the gateways.
    ///
    /// # Errors
    /// If it does not start, or they find no session.
    pub(super) fn start(&self, topology: &Topology) -> Result<Gateways, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Missing(format!("cannot tell where this program is: {error}")))?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let options = GatewayOptions {
            directory: Path::new(kernel::namespace::PRIVATE_DIRECTORY).join(format!("bentpipe-pair-{number}")),
            family: Family::V4,
            transport: Transport::Tcp,
            // As the simulated gateways: nothing beside the data.
            clear: true,
            show_logs: false,
            capacity: CapacityMode::default(),
            configured_rates: None,
            link_updates: self.follow_allocation,
            congestion_control: Some(self.congestion_control.clone()),
            target_queue: self.target_queue,
            max_streams: None,
            repair: true,
            workers: None,
        };
        Gateways::start(&program, topology, self.rates, self.rtt, &options)
    }
}

/// Whether both gateways are on the way of `flow`, between its ends.
fn passes(network: &Network, flow: &FlowConfig, gateway: &GatewayConfig) -> bool {
    let path = network.path(flow.from, flow.to).unwrap_or_default();
    let between = path.split_last().map_or(&[][..], |(_, between)| between);
    let passed = |node| between.iter().any(|way| network.directions()[way.index()].to == node);
    gateway.nodes.iter().all(|node| passed(*node))
}
