//! A case in virtual time: the transport that gateways run, over simulated links, between simulated hosts.

use super::cases::{Beside, Case, Nature, UDP_PART};
use super::figures::Figures;
use super::left_out::LeftOut;
use super::links::Links;
use super::trace::Trace;
use super::watch::Watch;
use crate::Error;
use crate::hosts::linux;
use lab::Direction;
use link::{LinkConfig, QueueLimit};
use sim::{
    Application, CapacityMode, CrossTrafficPolicy, Distribution, FlowConfig, GatewayConfig, Network, NodeId,
    RateConfidence, Record, Report, SatpepSettings, Settings, Simulation, Start, Stop, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Rate};

/// What takes so many times the limit, and this beside, has failed.
const PATIENCE: (u64, Duration) = (20, Duration::from_secs(60));
/// A client's request for a download.
const REQUEST: Bytes = Bytes::new(100);
/// What a request beside the transfer is answered with.
const RESPONSE: Bytes = Bytes::new(20_000);
/// Requests on an idle link, to compare with.
const IDLE_REQUESTS: u64 = 30;
/// More often than the queue the estimate is not looked at: some packets pass between two looks.
const EVENTS_BETWEEN_LOOKS: u64 = 32;
/// The longest stall of a gateway that stalls.
const STALL: Duration = Duration::from_millis(10);

/// Runs `case` once; `without` says what its gateways lack, if anything.
pub(super) fn run(case: &Case, direction: Direction, without: Option<LeftOut>, seed: u64) -> Result<Figures, Error> {
    let world = World::new(case, direction, without, seed)?;
    let end = world.end()?;
    let (report, watch) = world.simulate(world.flows(true), end)?;
    let own = &report.flows[..case.flows];
    let carried = report.flows[..world.relayed()].iter().map(|flow| flow.bytes).sum::<u64>();
    let finish = own.iter().filter_map(|flow| flow.end_s).fold(0.0, f64::max);
    let start = own.iter().filter_map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let limit = world.links.limit(case, direction, carried)?;
    let is_complete = own.iter().all(|flow| flow.complete);
    let goodputs: Vec<_> = own.iter().map(|flow| flow.goodput_bps.unwrap_or(0.0)).collect();
    let data = world.data_link(&report).ok_or_else(|| Error::failed("there is no satellite link"))?;
    let offered = match case.beside {
        Beside::Nothing | Beside::Requests => data.offered.bytes,
        Beside::Tcp(_) | Beside::Udp => world.sent_by_gateway(&report),
    };
    Ok(Figures {
        share: if is_complete { limit.as_secs_f64() / (finish - start) } else { 0.0 },
        overhead: offered as f64 / carried as f64,
        queue_p95_s: Some(watch.queue_p95(start, finish)),
        jain_index: (case.flows > 1).then(|| lab::measure::jain_index(&goodputs)),
        back_rtt: watch.back_rtt(case),
        sent_into_outage: match case.link {
            Nature::Outage { .. } => watch.sent_while_bad(case).map(|bytes| bytes as f64 / carried as f64),
            _ => None,
        },
        requests_s: match case.beside {
            Beside::Requests => Some(world.requests_p95(&report)? - world.idle_requests_p95(end)?),
            _ => None,
        },
        policed: match case.link {
            Nature::Policed(_) => Some(data.dropped_policed.packets as f64 / data.offered.packets as f64),
            _ => None,
        },
        phase_shares: None,
    })
}

/// Runs `case` once, and looks at the estimate every [`Watch::INTERVAL`].
pub(super) fn trace(case: &Case, direction: Direction, without: Option<LeftOut>, seed: u64) -> Result<Trace, Error> {
    let world = World::new(case, direction, without, seed)?;
    let mut simulation = world.simulation(world.flows(true), world.end()?)?;
    let link = world.data_direction(&simulation)?;
    let (mut watch, mut estimates) = (Watch::default(), Vec::new());
    loop {
        let stopped = simulation.run_for(EVENTS_BETWEEN_LOOKS);
        let now = simulation.now();
        if estimates.last().is_none_or(|(at, _)| now >= *at + Watch::INTERVAL) {
            let both = simulation.capacity_estimates(0).ok_or_else(|| Error::failed("there is no estimate"))?;
            estimates.push((now, both[usize::from(direction == Direction::Down)].rate));
        }
        watch.take(case, simulation.take_queue_samples().iter().filter(|one| one.direction.index() == link));
        if stopped.is_some() {
            return Ok(Trace::new(case, direction, &watch, &estimates));
        }
    }
}

/// A network with a pair of gateways.
struct World<'c> {
    case: &'c Case,
    direction: Direction,
    links: Links,
    without: Option<LeftOut>,
    seed: u64,
    network: Network,
    /// The client, the gateway on its side, the other gateway and the server.
    nodes: [NodeId; 4],
    host: Arc<tcp::Config>,
}

impl<'c> World<'c> {
    fn new(case: &'c Case, direction: Direction, without: Option<LeftOut>, seed: u64) -> Result<Self, Error> {
        let links = Links::of(case, seed)?;
        let mut network = Network::new();
        let mut node = |name: &str| network.add_node(name).map_err(Error::failed);
        let nodes @ [client, near, far, server] = [node("client")?, node("near")?, node("far")?, node("server")?];
        let lan = LinkConfig {
            queue: QueueLimit::Unlimited,
            ..LinkConfig::new(Rate::from_bps(10_000_000_000), Duration::from_micros(10))
        };
        let (there, back) = match direction {
            Direction::Up => (links.data.clone(), links.back.clone()),
            Direction::Down => (links.back.clone(), links.data.clone()),
        };
        network.add_link("client's", client, near, lan.clone(), lan.clone()).map_err(Error::failed)?;
        network.add_link("satellite", near, far, there, back).map_err(Error::failed)?;
        network.add_link("server's", far, server, lan.clone(), lan).map_err(Error::failed)?;
        Ok(Self { case, direction, links, without, seed, network, nodes, host: Arc::new(linux()?) })
    }

    /// What has not ended by then has failed.
    fn end(&self) -> Result<Instant, Error> {
        let limit = self.links.limit(self.case, self.direction, self.case.payload())?;
        Ok(self.case.begin + Duration::from_nanos(limit.as_nanos().saturating_mul(PATIENCE.0)) + PATIENCE.1)
    }

    /// Flows that pass the gateways: those of the case first.
    fn relayed(&self) -> usize {
        self.case.flows + usize::from(self.case.beside == Beside::Requests)
    }

    /// The name of the gateway that sends the data.
    fn sender(&self) -> &'static str {
        if self.direction == Direction::Up { "near" } else { "far" }
    }

    fn data_link<'r>(&self, report: &'r Report) -> Option<&'r link::Counters> {
        let link = report.links.iter().find(|link| link.name == "satellite" && link.from == self.sender());
        link.map(|link| &link.counters)
    }

    fn sent_by_gateway(&self, report: &Report) -> u64 {
        let sessions = report.gateways.iter().flat_map(|pair| &pair.sessions);
        sessions.filter(|session| session.node == self.sender()).map(|session| session.sent_bytes).sum()
    }

    /// All flows; without the transfers of the case if only what is beside them is wanted.
    fn flows(&self, with_transfers: bool) -> Vec<FlowConfig> {
        let transfers = if with_transfers { self.case.flows } else { 0 };
        let mut flows: Vec<_> = (0..transfers).map(|number| self.transfer(number)).collect();
        flows.extend(self.beside(with_transfers));
        flows
    }

    fn transfer(&self, number: usize) -> FlowConfig {
        let [client, .., server] = self.nodes;
        let transfer = match self.direction {
            Direction::Up => Transfer::Upload,
            Direction::Down => Transfer::Download { request: REQUEST },
        };
        let application = Application::Bulk { size: Some(Bytes::new(self.case.size)), transfer };
        self.flow(format!("flow {number}"), [client, server], self.case.begin, self.tcp(application))
    }

    fn tcp(&self, application: Application) -> Traffic {
        Traffic::Tcp { client: self.host.clone(), server: self.host.clone(), application }
    }

    fn flow(&self, name: String, [from, to]: [NodeId; 2], at: Instant, traffic: Traffic) -> FlowConfig {
        let start = Start { at, spread: Duration::ZERO };
        FlowConfig { name, from, to, start, stop: None, traffic, record: false }
    }

    /// What is beside the transfers, if anything is. Without end, but for requests on an idle link.
    fn beside(&self, without_end: bool) -> Option<FlowConfig> {
        let [client, near, far, server] = self.nodes;
        // In the direction of the data, from the gateway that sends them.
        let passing = if self.direction == Direction::Up { [near, server] } else { [far, client] };
        let (ends, at, traffic) = match self.case.beside {
            Beside::Nothing => return None,
            Beside::Requests => {
                let application = Application::Web {
                    requests: (!without_end).then_some(IDLE_REQUESTS),
                    request: Distribution::Constant(REQUEST),
                    response: Distribution::Constant(RESPONSE),
                    think: Distribution::Constant(Duration::ZERO),
                };
                // Responses go the way of the data.
                let ends = if self.direction == Direction::Up { [server, client] } else { [client, server] };
                (ends, self.case.begin, self.tcp(application))
            }
            Beside::Tcp(control) => {
                let control = tcp::ControlKind::by_name(control).expect("a control of the case's table");
                let host = Arc::new(tcp::Config { control, ..(*self.host).clone() });
                let application = Application::Bulk { size: None, transfer: Transfer::Upload };
                let traffic = Traffic::Tcp { client: host.clone(), server: host, application };
                (passing, Instant::ZERO, traffic)
            }
            Beside::Udp => {
                let rate = Rate::from_bps(self.case.rate.as_bps() / UDP_PART);
                let traffic = Traffic::Udp { rate, packet_size: Bytes::new(1000), on_off: None };
                (passing, Instant::ZERO, traffic)
            }
        };
        Some(self.flow("beside".to_owned(), ends, at, traffic))
    }

    fn gateways(&self) -> GatewayConfig {
        let configured = [self.case.configured(), Some(self.case.rate)];
        let transport = SatpepSettings {
            rate: if self.direction == Direction::Up { configured } else { [configured[1], configured[0]] },
            rate_confidence: if self.case.configured().is_some() { RateConfidence::Sure } else { RateConfidence::None },
            capacity: match self.without {
                Some(LeftOut::Estimation) => CapacityMode::Fixed,
                _ => CapacityMode::Estimated,
            },
            estimator_parts: LeftOut::rest(self.without),
            cross_traffic: match self.case.beside {
                Beside::Nothing | Beside::Requests => CrossTrafficPolicy::Subtract,
                Beside::Tcp(_) | Beside::Udp => CrossTrafficPolicy::Fair,
            },
            link_updates: self.case.modems,
            longest_stall: if self.case.stalls { STALL } else { Duration::ZERO },
            ..SatpepSettings::default()
        };
        GatewayConfig::new("pair", [self.nodes[1], self.nodes[2]], Transport::Satpep(transport))
    }

    /// The number of the link's direction that the data enter.
    fn data_direction(&self, simulation: &Simulation) -> Result<usize, Error> {
        let links = simulation.report().links;
        let link = links.iter().position(|link| link.name == "satellite" && link.from == self.sender());
        link.ok_or_else(|| Error::failed("there is no satellite link"))
    }

    /// `flows`, to run until they are complete, at most until `end`.
    fn simulation(&self, flows: Vec<FlowConfig>, end: Instant) -> Result<Simulation, Error> {
        let settings = Settings {
            seed: self.seed,
            stop: Stop { at: Some(end), when_complete: true },
            record: Record { queue_interval: Some(Watch::INTERVAL), ..Record::default() },
            ..Settings::default()
        };
        let network = self.network.clone();
        Simulation::with_gateways(network, flows, vec![self.gateways()], settings).map_err(Error::failed)
    }

    /// Runs `flows` until they are complete, at most until `end`.
    fn simulate(&self, flows: Vec<FlowConfig>, end: Instant) -> Result<(Report, Watch), Error> {
        let mut simulation = self.simulation(flows, end)?;
        let link = self.data_direction(&simulation)?;
        let mut watch = Watch::default();
        loop {
            let stopped = simulation.run_for(u64::MAX);
            watch.take(self.case, simulation.take_queue_samples().iter().filter(|one| one.direction.index() == link));
            if stopped.is_some() {
                return Ok((simulation.report(), watch));
            }
        }
    }

    fn requests_p95(&self, report: &Report) -> Result<f64, Error> {
        let requests = report.flows.iter().find(|flow| flow.name == "beside").and_then(|flow| flow.rtt);
        Ok(requests.ok_or_else(|| Error::failed("no request was answered"))?.p95_s)
    }

    fn idle_requests_p95(&self, end: Instant) -> Result<f64, Error> {
        self.requests_p95(&self.simulate(self.flows(false), end)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::all;
    use super::*;

    /// One run in each direction of every case whose name contains `name`, each with its name.
    fn runs(name: &str) -> Vec<(String, Figures)> {
        let cases: Vec<_> = all().into_iter().filter(|case| case.name.contains(name)).collect();
        assert!(!cases.is_empty(), "{name}");
        let both = cases.iter().flat_map(|case| [Direction::Up, Direction::Down].map(|direction| (case, direction)));
        both.map(|(case, direction)| {
            let name = format!("{}, {direction:?}", case.name);
            let figures = run(case, direction, None, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, figures)
        })
        .collect()
    }

    #[test]
    fn a_slow_link_has_no_more_to_queue_than_a_short_train() {
        // Trains followed one another before the first had left the link: eight seconds of queue.
        let eight_packets = 8.0 * 12_000.0 / 64_000.0;
        for (name, Figures { share, queue_p95_s, .. }) in runs("64 kbit/s, 600 ms") {
            let is_short = queue_p95_s.is_some_and(|queue| queue < eight_packets);
            assert!(share > 0.98 && is_short, "{name}: {share}, {queue_p95_s:?}");
        }
    }

    #[test]
    fn a_link_that_has_nearly_failed_is_used_again_soon() {
        // A pause that was to drain the queue grew with each fall of the estimate, and went on for twenty seconds after the fade.
        for (name, Figures { share, back_rtt, .. }) in runs("2 % for 10 s") {
            assert!(share > 0.94 && back_rtt.is_some_and(|back| back < 6.0), "{name}: {share}, {back_rtt:?}");
        }
    }

    #[test]
    fn frames_of_the_air_interface_are_no_queue_and_hide_none() {
        // Trains that arrived within one frame seemed to find any rate: a third of a link with long frames was used.
        for (name, Figures { share, overhead, .. }) in runs("frames of") {
            let (least, most) = match name {
                _ if name.contains("prior x 0.1") => (0.7, 1.06),
                _ if name.contains("prior x 0.5") => (0.93, 1.06),
                _ => (0.95, 1.06),
            };
            assert!(share > least && overhead < most, "{name}: {share}, {overhead}");
        }
    }
}
