//! A case in virtual time: the same link, the same transport, simulated hosts.

use super::cases::{Case, FIRST, Kind, WATCHED};
use super::figures::{Figures, latecomer_share, varying_share};
use crate::Error;
use crate::hosts::linux;
use lab::{Direction, Experiment};
use link::{LinkConfig, QueueLimit};
use sim::{
    Application, CapacityMode, FlowConfig, FlowSample, GatewayConfig, Network, Record, SatpepSettings, Settings,
    Simulation, Start, Stop, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Rate};

/// When the first flows begin.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// A client's request for a download.
const REQUEST: Bytes = Bytes::new(100);

/// A mechanism of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// FEC repair symbols.
    Repair,
    /// The repair overhead: what repair takes of a full link beyond the losses.
    RepairOverhead,
    /// Following a capacity that varies.
    Estimation,
}

/// Runs `case` once, without a mechanism if one is named.
pub(super) fn run(
    case: &Case,
    experiment: &Experiment,
    without: Option<Mechanism>,
    seed: u64,
) -> Result<Figures, Error> {
    let (network, flows, pair) = scenario(case, experiment, without, seed)?;
    let watched = match case.kind {
        Kind::Varying(_) => Some(BEGIN + experiment.link.rtt / 2 + WATCHED),
        _ => None,
    };
    let settings = Settings {
        seed,
        stop: Stop { at: Some(watched.unwrap_or(BEGIN + PATIENCE)), when_complete: true },
        record: record(case),
        ..Settings::default()
    };
    let mut simulation = Simulation::with_gateways(network, flows, vec![pair], settings).map_err(Error::failed)?;
    simulation.run();
    let report = simulation.report();
    let bytes: u64 = report.flows.iter().map(|flow| flow.bytes).sum();
    if watched.is_none() && report.flows.iter().any(|flow| !flow.complete) {
        return Err(Error::failed(format!("{}, simulated with seed {seed}: a transfer failed", case.name)));
    }
    let start = report.flows.iter().filter_map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let end = report.flows.iter().filter_map(|flow| flow.end_s).fold(0.0, f64::max);
    let goodputs: Vec<_> = report.flows[..case.flows].iter().filter_map(|flow| flow.goodput_bps).collect();
    let sender = if case.direction == Direction::Up { "near" } else { "far" };
    let carried = report.links.iter().find(|link| link.name == "satellite" && link.from == sender);
    let limit = experiment.limit_of(Bytes::new(bytes));
    Ok(Figures {
        share: match case.kind {
            Kind::Varying(_) => varying_share(case, bytes as f64),
            _ => limit.as_secs_f64() / (end - start),
        },
        overhead: carried.map_or(f64::NAN, |link| link.counters.offered.bytes as f64 / bytes as f64),
        jain_index: (case.flows > 1).then(|| lab::measure::jain_index(&goodputs)),
        latecomer: match case.kind {
            Kind::Latecomer { after } => {
                let until = BEGIN + after + experiment.link.rtt / 2 + FIRST;
                let samples = simulation.take_flow_samples();
                Some(latecomer_share(case, delivered_by(&samples, case.flows as u32, until)))
            }
            _ => None,
        },
        queue_ms: matches!(case.kind, Kind::Varying(_)).then(|| queue_ms(case, &mut simulation, sender)),
    })
}

/// What is sampled of flows and queues, if anything is made of that.
fn record(case: &Case) -> Record {
    Record {
        flow_interval: matches!(case.kind, Kind::Latecomer { .. }).then_some(Duration::from_millis(25)),
        queue_interval: matches!(case.kind, Kind::Varying(_)).then_some(Duration::from_millis(10)),
        ..Record::default()
    }
}

/// The 95th percentile of the time that the satellite link's queue took to send, in milliseconds.
fn queue_ms(case: &Case, simulation: &mut Simulation, sender: &str) -> f64 {
    let links = simulation.report().links;
    let link = links.iter().position(|link| link.name == "satellite" && link.from == sender);
    let samples = simulation.take_queue_samples();
    let samples = samples.iter().filter(|sample| Some(sample.direction.index()) == link);
    let mut queues: Vec<_> = samples.map(|sample| case.rate_at(sample.at).time_to_send(sample.bytes)).collect();
    queues.sort();
    queues.get(queues.len() * 95 / 100).map_or(f64::NAN, |queue| queue.as_secs_f64() * 1e3)
}

fn delivered_by(samples: &[FlowSample], flow: u32, until: Instant) -> f64 {
    let of_flow = samples.iter().filter(|sample| sample.flow == flow && sample.at <= until);
    of_flow.map(|sample| sample.delivered.as_u64()).max().unwrap_or_default() as f64
}

fn scenario(
    case: &Case,
    experiment: &Experiment,
    without: Option<Mechanism>,
    seed: u64,
) -> Result<(Network, Vec<FlowConfig>, GatewayConfig), Error> {
    let mut network = Network::new();
    let mut node = |name: &str| network.add_node(name).map_err(Error::failed);
    let [client, near, far, server] = [node("client")?, node("near")?, node("far")?, node("server")?];
    let lan = LinkConfig {
        queue: QueueLimit::Unlimited,
        ..LinkConfig::new(Rate::from_bps(10_000_000_000), Duration::from_micros(10))
    };
    let satellite = experiment.satellite();
    let seeded = |link: LinkConfig| LinkConfig { seed, ..link };
    let (there, back) = (seeded(satellite.return_link), seeded(satellite.forward));
    network.add_link("client's", client, near, lan.clone(), lan.clone()).map_err(Error::failed)?;
    network.add_link("satellite", near, far, there, back).map_err(Error::failed)?;
    network.add_link("server's", far, server, lan.clone(), lan).map_err(Error::failed)?;
    let host = Arc::new(linux()?);
    let flow = |number: usize, at| FlowConfig {
        name: format!("flow {number}"),
        from: client,
        to: server,
        start: Start { at, spread: Duration::ZERO },
        stop: None,
        traffic: Traffic::Tcp {
            client: host.clone(),
            server: host.clone(),
            application: Application::Bulk {
                size: Some(Bytes::new(case.size)),
                transfer: match case.direction {
                    Direction::Up => Transfer::Upload,
                    Direction::Down => Transfer::Download { request: REQUEST },
                },
            },
        },
        record: true,
    };
    let mut flows: Vec<_> = (0..case.flows).map(|number| flow(number, BEGIN)).collect();
    if let Kind::Latecomer { after } = case.kind {
        flows.push(flow(case.flows, BEGIN + after));
    }
    let (capacity, link_updates) = (experiment.gateways.capacity, experiment.gateways.link_updates);
    let mut transport = SatpepSettings { capacity, link_updates, ..SatpepSettings::default() };
    match without {
        Some(Mechanism::Repair) => transport.repair = false,
        Some(Mechanism::RepairOverhead) => transport.repair_overhead = 0.0,
        Some(Mechanism::Estimation) => transport.capacity = CapacityMode::Fixed,
        None => {}
    }
    Ok((network, flows, GatewayConfig::new("pair", [near, far], Transport::Satpep(transport))))
}
