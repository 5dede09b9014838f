//! The claims of the SaTPEP paper, in its own scenario: hosts on 10 Mbit/s links of 1 ms, a satellite link of 6 Mbit/s and
//! 275 ms between the gateways, queues of 600 packets.

use link::{LinkConfig, LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sim::satpep2003::{Accept, Profile, Satpep2003};
use sim::{
    Application, FlowConfig, GatewayConfig, Network, Record, Report, Settings, Simulation, Start, Stop, Stopped,
    Traffic, Transfer, Transport, UpTimes,
};
use std::sync::Arc;
use tcp::{NackRule, Tuning};
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
    /// When the satellite link is up, if not always.
    up: Option<UpTimes>,
    transfer: Transfer,
    /// UDP over the satellite from the start on.
    udp: Option<Rate>,
    /// The rate of the receivers' own links.
    receivers: Rate,
}

impl Scenario {
    fn new(protocol: Option<Satpep2003>, files: &[(u64, u64)]) -> Self {
        Self {
            protocol,
            files: files.to_vec(),
            rate: SATELLITE,
            loss: 0.0,
            rwnd: 500,
            seed: 1,
            terrestrial: None,
            up: None,
            transfer: Transfer::Upload,
            udp: None,
            receivers: Rate::from_bps(10_000_000),
        }
    }

    fn run(&self) -> Report {
        let mut simulation = self.simulation(Record::default());
        simulation.run();
        simulation.report()
    }

    fn simulation(&self, record: Record) -> Simulation {
        let (network, hosts, gateways) = self.network();
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
                    application: Application::Bulk { size: Some(Bytes::new(size)), transfer: self.transfer },
                },
                record: true,
            }
        });
        let flows = flows.chain(self.udp.map(|rate| self.udp_flow(&network, rate)));
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(20_000)), when_complete: true };
        let settings = Settings { seed: self.seed, stop, record, ..Settings::default() };
        Simulation::with_gateways(network, flows.collect(), gateways, settings).expect("a valid scenario")
    }

    fn udp_flow(&self, network: &Network, rate: Rate) -> FlowConfig {
        let node = |name| network.node(name).expect("a node");
        FlowConfig {
            name: "udp".to_owned(),
            from: node("uplink gateway"),
            to: node("downlink gateway"),
            start: Start::default(),
            stop: Some(Instant::ZERO + Duration::from_secs(100)),
            traffic: Traffic::Udp { rate, packet_size: Bytes::new(1500), on_off: None },
            record: false,
        }
    }

    fn network(&self) -> (Network, Vec<[sim::NodeId; 2]>, Vec<GatewayConfig>) {
        let mut network = Network::new();
        let queue = QueueLimit::Packets(600);
        let link = |rate, delay| LinkConfig { queue, ..LinkConfig::new(rate, delay) };
        let [ug, dg] = ["uplink gateway", "downlink gateway"].map(|name| network.add_node(name).expect("new"));
        let loss = LossModel::Bernoulli(Probability::new(self.loss).expect("valid"));
        let seed = self.seed;
        let there = LinkConfig { loss: loss.clone(), seed, ..link(self.rate, Duration::from_millis(275)) };
        let back = LinkConfig { loss, seed, stream: 1, ..link(self.rate, Duration::from_millis(275)) };
        let satellite = network.add_link("satellite", ug, dg, there, back).expect("valid");
        if let Some(up) = &self.up {
            network.set_up_times(satellite, up).expect("on no carrier");
        }
        let mut via = [None, None];
        if let Some((rate, delay)) = self.terrestrial {
            network.add_link("terrestrial", ug, dg, link(rate, delay), link(rate, delay)).expect("valid");
            via[0] = Some(satellite);
        }
        let protocol = self.protocol.clone().map(|protocol| Satpep2003 { via, ..protocol });
        let pair = |protocol| GatewayConfig::new("pair", [ug, dg], Transport::Satpep2003(Box::new(protocol)));
        let gateways = protocol.map(pair).into_iter().collect();
        let ends = [("sender", ug, Rate::from_bps(10_000_000)), ("receiver", dg, self.receivers)];
        let hosts = (0..self.files.len()).map(|number| {
            ends.map(|(kind, gateway, rate)| {
                let host = network.add_node(&format!("{kind} {number}")).expect("new");
                let access = link(rate, Duration::from_millis(1));
                let name = format!("access {kind} {number}");
                network.add_link(&name, host, gateway, access.clone(), access).expect("valid");
                host
            })
        });
        let hosts = hosts.collect();
        (network, hosts, gateways)
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

const MEGABYTE: (u64, u64) = (1_000_000, 0);

/// Twenty files of 2 MB at once, and one of 500 kB nine seconds later.
fn crowd() -> Vec<(u64, u64)> {
    let mut files = vec![(2_000_000, 1); 20];
    files.push((500_000, 10));
    files
}

fn rates(report: &Report) -> Vec<f64> {
    report.flows.iter().map(|flow| flow.goodput_bps.expect("complete")).collect()
}

#[test]
fn a_lone_connection_uses_the_whole_link_from_the_first_round_trip_on() {
    // 685 packets of 2 ms, half a round trip for the last, and a whole one to open.
    let (opening, transfer) = (0.55, 685.0 * 0.002 + 0.275);
    for (mode, protocol) in [
        ("transparent", Satpep2003::default()),
        ("immediate", Satpep2003 { accept: Accept::Immediate, ..Satpep2003::default() }),
        ("deploy", Satpep2003 { profile: Profile::Deploy, ..Satpep2003::default() }),
    ] {
        let report = Scenario::new(Some(protocol), &[MEGABYTE]).run();
        let took = report.flows[0].end_s.expect("complete");
        assert!((took - opening - transfer).abs() < 0.02, "{mode}: {took}");
        let transport = report.gateways[0].transport.expect("SaTPEP");
        assert_eq!((transport.retransmissions, transport.rtos), (0, 0), "{mode}");
    }
}

#[test]
fn a_connection_accepted_at_once_is_answered_before_the_satellite_is_crossed() {
    let opens = |accept| {
        let protocol = Satpep2003 { accept, ..Satpep2003::default() };
        let scenario = Scenario::new(Some(protocol), &[MEGABYTE]);
        let mut simulation =
            scenario.simulation(Record { flow_interval: Some(Duration::from_millis(10)), ..Record::default() });
        simulation.run();
        let samples = simulation.take_flow_samples();
        let connected = samples.iter().find(|sample| sample.srtt.is_some()).expect("connected");
        connected.at.as_secs_f64()
    };
    assert!(opens(Accept::Immediate) < 0.02);
    assert!((0.55..0.58).contains(&opens(Accept::Confirmed)));
}

#[test]
fn goodput_beside_tcp_rises_with_loss() {
    let ratio = |loss, seeds| {
        let [split, whole] =
            [satpep(), None].map(|protocol| goodput(&Scenario { loss, ..Scenario::new(protocol, &[MEGABYTE]) }, seeds));
        split / whole
    };
    let ratios = [ratio(1e-6, 1), ratio(1e-3, 20), ratio(1e-2, 20)];
    assert!(ratios[0] > 1.8 && ratios[1] > 1.8 && ratios[2] > 4.0, "{ratios:?}");
    assert!(ratios[2] > 2.0 * ratios[1], "{ratios:?}");
}

#[test]
fn goodput_rises_with_the_file_and_with_the_link() {
    let of = |size, mbps: u64| {
        let scenario = Scenario { loss: 1e-3, ..Scenario::new(satpep(), &[(size, 0)]) };
        goodput(&Scenario { rate: Rate::from_bps(mbps * 1_000_000), ..scenario }, 10)
    };
    let by_size = [100_000, 500_000, 1_000_000, 4_000_000].map(|size| of(size, 6));
    let by_rate = [2, 4, 6, 8].map(|mbps| of(1_000_000, mbps));
    assert!(by_size.is_sorted() && by_rate.is_sorted(), "{by_size:?} {by_rate:?}");
}

#[test]
fn twenty_connections_are_equal() {
    for (profile, loss) in
        [Profile::Paper, Profile::Deploy].into_iter().flat_map(|profile| [(profile, 1e-3), (profile, 1e-2)])
    {
        let protocol = Some(Satpep2003 { profile, ..Satpep2003::default() });
        let report = Scenario { loss, ..Scenario::new(protocol, &crowd()) }.run();
        let rates = rates(&report);
        assert!(jain(&rates[..20]) > 0.99, "{profile:?} {loss} {rates:?}");
        // The link's part of each, less opening and the headers.
        let mean = rates[..20].iter().sum::<f64>() / 20.0;
        assert!((0.26e6..0.30e6).contains(&mean), "{profile:?} {loss} {mean}");
        // 27,766 segments, of which so many are lost; a common count repeats some in vain, and the last of a file wait for
        // the timer.
        let transport = report.gateways[0].transport.expect("SaTPEP");
        assert!(
            transport.retransmissions < (1.6 * 27_766.0 * loss) as u64 && transport.rtos <= 5,
            "{profile:?} {loss} {transport:?}"
        );
    }
}

/// At full load equation (1) gives a newcomer nothing; only the headroom of equation (2) lets it in.
#[test]
fn a_connection_that_comes_late_is_let_in_slowly_by_the_paper_and_soon_with_kappa() {
    let share = |profile| {
        let protocol = Some(Satpep2003 { profile, ..Satpep2003::default() });
        let rates = rates(&Scenario { loss: 1e-3, ..Scenario::new(protocol, &crowd()) }.run());
        rates[20] / (rates[..20].iter().sum::<f64>() / 20.0)
    };
    let [paper, deploy] = [Profile::Paper, Profile::Deploy].map(share);
    assert!((0.2..0.4).contains(&paper) && (0.7..1.0).contains(&deploy), "{paper} {deploy}");
}

/// Without the headroom of equation (2) the limits of those that are there fall as a newcomer joins: what they give up is its
/// share.
#[test]
fn a_connection_that_comes_late_has_its_share_without_headroom() {
    let protocol = Some(Satpep2003 { headroom: Some(0.0), ..Satpep2003::default() });
    let rates = rates(&Scenario { loss: 1e-3, ..Scenario::new(protocol, &crowd()) }.run());
    let share = rates[20] / (rates[..20].iter().sum::<f64>() / 20.0);
    assert!((0.7..1.1).contains(&share), "{share}");
}

#[test]
fn packet_pairs_measure_bursts_as_full_use_and_still_carry_the_file() {
    let protocol = Satpep2003 { packet_pair: true, ..Satpep2003::default() };
    let report = Scenario { loss: 1e-3, ..Scenario::new(Some(protocol), &[MEGABYTE]) }.run();
    assert!(report.flows[0].complete, "{report:?}");
}

#[test]
fn a_download_is_divided_by_the_gateway_of_the_client() {
    let download = Transfer::Download { request: Bytes::new(100) };
    let report = Scenario { transfer: download, ..Scenario::new(satpep(), &[MEGABYTE]) }.run();
    // A round trip to open, half of one for the request, and the transfer.
    let took = report.flows[0].end_s.expect("complete");
    assert!((took - 0.55 - 0.275 - 685.0 * 0.002 - 0.275).abs() < 0.03, "{took}");
    let stream = &report.gateways[0].streams[0];
    assert_eq!((stream.from_server, stream.to_client, stream.to_server), (1_000_000, 1_000_000, 100));
}

#[test]
fn what_else_the_link_carries_counts_as_used() {
    let udp = Some(Rate::from_bps(3_000_000));
    let report = Scenario { udp, ..Scenario::new(satpep(), &[(8_000_000, 5)]) }.run();
    let satellite = report.links.iter().find(|link| link.from == "uplink gateway").expect("a link");
    assert_eq!(satellite.counters.dropped_queue_full.packets, 0, "{satellite:?}");
    let goodput = report.flows[0].goodput_bps.expect("complete");
    assert!((2.5e6..3.0e6).contains(&goodput), "half of the link, less the headers and the opening: {goodput}");
    assert_eq!(report.gateways[0].transport.expect("SaTPEP").retransmissions, 0);
}

#[test]
fn a_slow_receiver_closes_the_window_and_loses_nothing() {
    let protocol = Some(Satpep2003 { buffer: Some(Bytes::new(200_000)), ..Satpep2003::default() });
    let slow = Scenario { receivers: Rate::from_bps(1_000_000), ..Scenario::new(protocol, &[(12_000_000, 0)]) };
    let report = slow.run();
    let goodput = report.flows[0].goodput_bps.expect("complete");
    assert!((0.9e6..1.0e6).contains(&goodput), "{goodput}");
    let transport = report.gateways[0].transport.expect("SaTPEP");
    assert_eq!((transport.retransmissions, transport.rtos), (0, 0));
}

#[test]
fn acknowledgements_may_return_over_the_ground() {
    let ground = (Rate::from_bps(1_000_000), Duration::from_millis(30));
    for loss in [0.0, 1e-2] {
        let satellite = Scenario { loss, ..Scenario::new(satpep(), &[MEGABYTE]) };
        let over_ground = Scenario { terrestrial: Some(ground), ..satellite.clone() };
        let report = over_ground.run();
        let carried = |name: &str, from: &str| {
            let link = report.links.iter().find(|link| link.name == name && link.from == from).expect("a link");
            link.counters.offered.packets
        };
        assert!(carried("satellite", "uplink gateway") > 685);
        assert_eq!((carried("satellite", "downlink gateway"), carried("terrestrial", "uplink gateway")), (0, 0));
        assert!(carried("terrestrial", "downlink gateway") > 600);
        assert!(report.flows[0].end_s < satellite.run().flows[0].end_s, "a shorter round trip");
    }
}

#[test]
fn a_link_that_is_down_carries_nothing_between_gateways() {
    let ground = (Rate::from_bps(1_000_000), Duration::from_millis(30));
    for terrestrial in [None, Some(ground)] {
        let run = |steps: &[(u64, bool)]| {
            let steps = steps.iter().map(|(second, is_up)| (Duration::from_secs(*second), *is_up)).collect();
            let up = Some(UpTimes::new(steps, None).expect("valid"));
            Scenario { terrestrial, up, ..Scenario::new(satpep(), &[MEGABYTE]) }.run()
        };
        let never = run(&[(0, false)]);
        assert_eq!((never.flows[0].bytes, never.flows[0].complete), (0, false), "{terrestrial:?}");
        let [always, with_outage] = [run(&[(0, true)]), run(&[(0, true), (1, false), (6, true)])];
        assert!(with_outage.flows[0].end_s > always.flows[0].end_s.map(|end| end + 4.0), "{with_outage:?}");
    }
}

#[test]
fn what_the_server_does_not_answer_fails_by_name_and_what_ends_ends_everywhere() {
    // Nothing comes through: the gateways cannot open, and the client gives up.
    let dead = Scenario { loss: 1.0, ..Scenario::new(satpep(), &[MEGABYTE]) }.run();
    assert!(!dead.flows[0].complete && dead.flows[0].failure.is_some(), "{dead:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| Scenario { seed, loss: 1e-2, ..Scenario::new(satpep(), &crowd()) }.run();
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_way_that_leads_elsewhere_and_a_link_without_a_rate_are_refused_by_name() {
    let scenario = Scenario::new(satpep(), &[MEGABYTE]);
    let (network, ..) = scenario.network();
    let refusal = |network: Network, protocol: Satpep2003| {
        let nodes = ["uplink gateway", "downlink gateway"].map(|name| network.node(name).expect("a node"));
        let pair = GatewayConfig::new("pair", nodes, Transport::Satpep2003(Box::new(protocol)));
        let refused = Simulation::with_gateways(network, Vec::new(), vec![pair], Settings::default());
        refused.expect_err("a fault").to_string()
    };
    let astray = Satpep2003 { via: [network.link("access sender 0"), None], ..Satpep2003::default() };
    let message = refusal(network.clone(), astray);
    let plain = Satpep2003 { satellite: tcp::Config::new(tcp::Profile::Rfc), ..Satpep2003::default() };
    assert!(refusal(network, plain).contains("`satellite`"));
    assert!(
        ["`pair`", "`access sender 0`", "`downlink gateway`"].iter().all(|part| message.contains(part)),
        "{message}"
    );

    let mut endless = Network::new();
    let [ug, dg] = ["uplink gateway", "downlink gateway"].map(|name| endless.add_node(name).expect("new"));
    let link = LinkConfig { rate: None, ..LinkConfig::new(SATELLITE, Duration::from_millis(275)) };
    endless.add_link("satellite", ug, dg, link.clone(), link).expect("valid");
    let message = refusal(endless, Satpep2003::default());
    assert!(message.contains("`pair`") && message.contains("rate"), "{message}");
}

fn load(overrides: &[&str]) -> Result<scenario::Experiment, Vec<String>> {
    let text = include_str!("../../../scenarios/satpep-2003.toml");
    let overrides: Vec<_> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let no_files = |name: &str| Err(format!("{name}: there are no files here"));
    scenario::load(text, "satpep-2003.toml", &overrides, &no_files).map_err(|faults| faults.0)
}

#[test]
fn a_scenario_file_says_all_of_it() {
    let experiment = load(&["link.satellite.loss=0"]).expect("valid");
    let run = |variant: &str| {
        let is_meant = |scenario: &&scenario::Scenario| scenario.variant.as_deref() == Some(variant);
        let scenario = experiment.scenarios.iter().find(is_meant).expect("a variant");
        let mut simulation = Simulation::of(scenario, 1, false).expect("valid");
        simulation.run();
        simulation.report()
    };
    let took = |variant| run(variant).flows[0].end_s.expect("complete");
    assert!((took("paper") - 2.2055).abs() < 0.01 && (took("deploy") - 2.2055).abs() < 0.01, "{}", took("paper"));
    assert!(took("tcp") > 4.0 && took("immediate") < took("paper"));
    // The way back is 125 ms longer: a SYN's answer and nothing else waits for it.
    assert!((took("ground-return") - took("paper") - 0.125).abs() < 0.01);
    let printed = run("figure-as-printed");
    assert_eq!(printed.gateways[0].transport.expect("SaTPEP").retransmissions, 0);
}

/// Windows follow the round-trip time: with none, they would be of one segment.
#[test]
fn windows_follow_a_delay_that_steps_or_handovers_give() {
    let took = |delays: &str| {
        let text = format!(
            "version = 1\nnodes = [\"c\", \"t\", \"h\", \"s\"]\nstop = {{ time = \"100s\" }}\n\
            [[link]]\nname = \"lan\"\nbetween = [\"c\", \"t\"]\ndelay = \"1ms\"\n\
            [[link]]\nname = \"sat\"\nbetween = [\"t\", \"h\"]\nrate = \"50Mbit/s\"\nqueue = \"200packets\"\n{delays}\n\
            [[link]]\nname = \"inet\"\nbetween = [\"h\", \"s\"]\ndelay = \"5ms\"\n\
            [[flow]]\nname = \"f\"\nfrom = \"c\"\nto = \"s\"\nbulk = {{ size = \"5MB\" }}\n\
            [[gateway]]\nname = \"p\"\nnodes = [\"t\", \"h\"]\ntransport = \"satpep-2003\"\n"
        );
        let experiment = scenario::load(&text, "delays.toml", &[], &|_| Err(String::new())).expect("valid");
        let mut simulation = Simulation::of(&experiment.scenarios[0], 1, false).expect("valid");
        simulation.run();
        simulation.report().flows[0].end_s.expect("complete")
    };
    let constant = took("delay = \"30ms\"");
    assert_eq!(took("delay_steps = { steps = [[\"0s\", \"30ms\"]] }"), constant);
    let drawn = took("handover = { period = \"15s\", delay = [\"29ms\", \"31ms\"] }");
    assert!((drawn / constant - 1.0).abs() < 0.05, "{drawn}, not {constant}");
}

#[test]
fn faults_of_a_scenario_file_name_their_key() {
    for (change, parts) in [
        ("gateway.pair.satpep-2003.accept=\"at_once\"", ["satpep-2003.accept", "immediate"]),
        ("gateway.pair.satpep-2003.there=\"satelite\"", ["satpep-2003.there", "did you mean satellite?"]),
        ("gateway.pair.satpep-2003.back=\"sender\"", ["satpep-2003.back", "from downlink to uplink"]),
        ("gateway.pair.satpep-2003.kappa=1", ["satpep-2003.kappa", "unknown key"]),
        ("gateway.pair.transport=\"satpep-2002\"", ["gateway.pair.transport", "satpep-2003"]),
    ] {
        let faults = load(&[change]).expect_err("a fault");
        let is_named = faults.iter().any(|fault| parts.iter().all(|part| fault.contains(part)));
        assert!(is_named, "{change}: {faults:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is lost, each file arrives whole or its flow says why not, and the gateways keep nothing back.
    #[test]
    fn files_arrive_whole_or_fail_by_name(
        sizes in prop::collection::vec(1..300_000u64, 1..5),
        loss in 0.0..0.4f64,
        seed in 0..1000u64,
        is_immediate in any::<bool>(),
        deploy in any::<bool>(),
        rule in prop::sample::select(vec![NackRule::Fig1, NackRule::PerSegment, NackRule::Fig1Literal]),
        buffer in prop::option::of(20_000..500_000u64),
    ) {
        let satellite = tcp::Config::satpep();
        let protocol = Satpep2003 {
            accept: if is_immediate { Accept::Immediate } else { Accept::Confirmed },
            profile: if deploy { Profile::Deploy } else { Profile::Paper },
            satellite: tcp::Config { tuning: Tuning { nack: rule, ..satellite.tuning }, ..satellite },
            buffer: buffer.map(Bytes::new),
            ..Satpep2003::default()
        };
        let files: Vec<_> = sizes.iter().enumerate().map(|(start, size)| (*size, start as u64)).collect();
        let report = Scenario { loss, seed, ..Scenario::new(Some(protocol), &files) }.run();
        prop_assert_eq!(report.stopped, Stopped::Complete);
        for (flow, size) in report.flows.iter().zip(&sizes) {
            prop_assert!(flow.complete != flow.failure.is_some(), "{:?}", flow);
            prop_assert!(if flow.complete { flow.bytes == *size } else { flow.bytes <= *size }, "{:?}", flow);
        }
    }
}
