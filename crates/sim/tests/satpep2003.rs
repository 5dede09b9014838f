//! The claims of the SaTPEP paper, in its own scenario: hosts on 10 Mbit/s links of 1 ms, a satellite link of 6 Mbit/s and
//! 275 ms between the gateways, queues of 600 packets.

use link::{LinkConfig, LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sim::satpep2003::{Opening, Profile, Satpep2003};
use sim::{
    Application, FlowConfig, GatewayPair, GatewayProtocol, Network, Report, Settings, Simulation, Start, Stop, Traffic,
    Transfer,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

const SATELLITE: Rate = Rate::from_bps(6_000_000);

#[derive(Debug, Clone)]
struct Scenario {
    /// Of the gateways; `None` is end-to-end TCP.
    protocol: Option<Satpep2003>,
    /// Size and start of each flow's file, each from a host of its own to a host of its own.
    files: Vec<(u64, u64)>,
    rate: Rate,
    loss: f64,
    /// Windows of the hosts, in segments.
    rwnd: u64,
    seed: u64,
    /// The reverse path is not the satellite but this link.
    terrestrial: Option<(Rate, Duration)>,
}

impl Scenario {
    fn new(protocol: Option<Satpep2003>, files: &[(u64, u64)]) -> Self {
        Self { protocol, files: files.to_vec(), rate: SATELLITE, loss: 0.0, rwnd: 500, seed: 1, terrestrial: None }
    }

    fn run(&self) -> Report {
        let (network, hosts) = self.network();
        let flows = self.files.iter().zip(hosts).enumerate().map(|(number, (&(size, start), [from, to]))| {
            let tcp = tcp::Config {
                receive_buffer: tcp::ReceiveBuffer::plain(Bytes::new(self.rwnd * 1448)),
                ..tcp::Config::new(tcp::Profile::Rfc)
            };
            let tcp = Arc::new(tcp);
            FlowConfig {
                name: format!("file-{number}"),
                from,
                to,
                start: Start { at: Instant::ZERO + Duration::from_secs(start), spread: Duration::ZERO },
                stop: None,
                traffic: Traffic::Tcp {
                    client: tcp.clone(),
                    server: tcp,
                    application: Application::Bulk { size: Some(Bytes::new(size)), transfer: Transfer::Upload },
                },
                record: false,
            }
        });
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(20_000)), when_complete: true };
        let settings = Settings { seed: self.seed, stop, ..Settings::default() };
        let mut simulation = Simulation::new(network, flows.collect(), settings).expect("a valid scenario");
        simulation.run();
        simulation.report()
    }

    fn network(&self) -> (Network, Vec<[sim::NodeId; 2]>) {
        let mut network = Network::new();
        let queue = QueueLimit::Packets(600);
        let link = |rate, delay| LinkConfig { queue, ..LinkConfig::new(rate, delay) };
        let [ug, dg] = ["uplink gateway", "downlink gateway"].map(|name| network.add_node(name).expect("new"));
        let loss = LossModel::Bernoulli(Probability::new(self.loss).expect("valid"));
        let seed = self.seed;
        let there = LinkConfig { loss: loss.clone(), seed, ..link(self.rate, Duration::from_millis(275)) };
        let back = LinkConfig { loss, seed, stream: 1, ..link(self.rate, Duration::from_millis(275)) };
        let satellite = network.add_link("satellite", ug, dg, there, back).expect("valid");
        let mut via = [None, None];
        if let Some((rate, delay)) = self.terrestrial {
            network.add_link("terrestrial", ug, dg, link(rate, delay), link(rate, delay)).expect("valid");
            via[0] = Some(satellite);
        }
        if let Some(protocol) = self.protocol.clone() {
            let protocol = GatewayProtocol::Satpep2003(protocol);
            let pair = GatewayPair { name: "pair".to_owned(), nodes: [ug, dg], via, protocol };
            network.add_gateways(pair).expect("valid");
        }
        let access = link(Rate::from_bps(10_000_000), Duration::from_millis(1));
        let hosts = (0..self.files.len()).map(|number| {
            [("sender", ug), ("receiver", dg)].map(|(kind, gateway)| {
                let host = network.add_node(&format!("{kind} {number}")).expect("new");
                let name = format!("access {kind} {number}");
                network.add_link(&name, host, gateway, access.clone(), access.clone()).expect("valid");
                host
            })
        });
        let hosts = hosts.collect();
        (network, hosts)
    }
}

fn satpep() -> Option<Satpep2003> {
    Some(Satpep2003::default())
}

/// Mean goodput in bit/s over seeds.
fn goodput(scenario: &Scenario, seeds: u64) -> f64 {
    let one = |seed| Scenario { seed, ..scenario.clone() }.run().flows[0].goodput_bps.expect("complete");
    (1..=seeds).map(one).sum::<f64>() / seeds as f64
}

fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    sum * sum / (values.len() as f64 * squares)
}

#[test]
fn explore() {
    for opening in [Opening::Transparent, Opening::Spoof] {
        let s = Satpep2003 { opening, ..Satpep2003::default() };
        let report = Scenario::new(Some(s), &[(1_000_000, 0)]).run();
        println!("{:?} {:?}", report.flows, report.gateways);
    }
    println!("tcp {:?}", Scenario::new(None, &[(1_000_000, 0)]).run().flows);
    for loss in [1e-6, 1e-5, 1e-4, 1e-3, 1e-2] {
        let split = goodput(&Scenario { loss, ..Scenario::new(satpep(), &[(1_000_000, 0)]) }, 20);
        let whole = goodput(&Scenario { loss, ..Scenario::new(None, &[(1_000_000, 0)]) }, 20);
        println!("{loss}: {split} {whole} {}", split / whole);
    }
    let mut files = vec![(2_000_000, 1); 20];
    files.push((500_000, 10));
    for (name, protocol, rwnd) in [
        ("paper", satpep(), 500),
        ("deploy", Some(Satpep2003 { profile: Profile::Deploy, ..Satpep2003::default() }), 500),
        ("tcp", None, 25),
    ] {
        for loss in [0.0, 1e-4, 1e-3, 1e-2] {
            let report = Scenario { loss, rwnd, ..Scenario::new(protocol.clone(), &files) }.run();
            let rates: Vec<f64> = report.flows.iter().map(|flow| flow.goodput_bps.expect("complete")).collect();
            println!(
                "{name} {loss} mean {} jain {} 21st {} {:?}",
                rates[..20].iter().sum::<f64>() / 20.0,
                jain(&rates[..20]),
                rates[20],
                report.gateways
            );
        }
    }
    let t = Scenario {
        terrestrial: Some((Rate::from_bps(1_000_000), Duration::from_millis(30))),
        ..Scenario::new(satpep(), &[(1_000_000, 0)])
    };
    let r = t.run();
    println!(
        "{:?} {:?} {:?}",
        r.flows,
        r.gateways,
        r.links.iter().map(|l| (l.name.clone(), l.counters.delivered)).collect::<Vec<_>>()
    );
}
