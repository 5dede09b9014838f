//! Pairs of gateways around a satellite link, between simulated hosts.

use link::{Discipline, FqCodel, LinkConfig, LossModel, QueueLimit};
use sim::{
    Application, Distribution, FlowConfig, GatewayConfig, Limits, Network, NodeId, Record, Report, SatpepSettings,
    Settings, Simulation, Start, Stop, Stopped, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// client - near - far - server, with the satellite in the middle.
#[derive(Clone, Copy)]
struct SatelliteLink {
    bps: u64,
    loss: f64,
    seed: u64,
}

const RTT: Duration = Duration::from_millis(550);
/// Each terrestrial link, one way: next to nothing, as in the transport's own tests.
const TERRESTRIAL: Duration = Duration::from_micros(50);

impl SatelliteLink {
    fn network(self) -> (Network, [NodeId; 4]) {
        let mut network = Network::new();
        let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
        let lan =
            LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1_000_000_000), TERRESTRIAL) };
        let rate = Rate::from_bps(self.bps);
        let satellite = |stream| LinkConfig {
            loss: LossModel::Bernoulli(Probability::new(self.loss).expect("probability")),
            queue: QueueLimit::bandwidth_delay_product(rate, RTT),
            seed: self.seed,
            stream,
            ..LinkConfig::new(rate, RTT / 2)
        };
        network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
        network.add_link("satellite", nodes[1], nodes[2], satellite(1), satellite(2)).expect("valid");
        network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
        (network, nodes)
    }

    /// The design's limit: `rounds` round trips and the bytes in full packets.
    fn limit(self, rounds: f64, bytes: u64) -> f64 {
        rounds * RTT.as_secs_f64() + bytes as f64 * 8.0 / (self.bps as f64 * 1448.0 / 1500.0 * (1.0 - self.loss))
    }

    /// Runs `flows` flows of `bytes` each, all at once.
    fn run(self, transport: Option<Transport>, transfer: Transfer, flows: usize, bytes: u64) -> Report {
        let (network, [client, near, far, server]) = self.network();
        let host = host();
        let flow = |number: usize| FlowConfig {
            name: format!("flow {number}"),
            from: client,
            to: server,
            start: Start { at: Instant::from_nanos(1_000_000_000), spread: Duration::ZERO },
            stop: None,
            traffic: Traffic::Tcp {
                client: host.clone(),
                server: host.clone(),
                application: Application::Bulk { size: Some(Bytes::new(bytes)), transfer },
            },
            record: false,
        };
        let pairs = transport.map(|transport| GatewayConfig::new("pep", [near, far], transport)).into_iter().collect();
        let settings = Settings {
            seed: self.seed,
            stop: Stop { at: Some(Instant::from_nanos(2_000_000_000_000)), when_complete: true },
            record: Record::default(),
            ..Settings::default()
        };
        let flows = (0..flows).map(flow).collect();
        let mut simulation = Simulation::with_gateways(network, flows, pairs, settings).expect("valid");
        assert_eq!(simulation.run(), Stopped::Complete);
        simulation.report()
    }
}

/// A host as Linux makes them.
fn host() -> Arc<tcp::Config> {
    Arc::new(tcp::Config {
        control: tcp::ControlKind::by_name("cubic").expect("CUBIC"),
        receive_buffer: tcp::ReceiveBuffer { size: Bytes::new(128 << 10), share: 1.0, most: Bytes::new(6 << 20) },
        ..tcp::Config::new(tcp::Profile::Linux)
    })
}

fn satpep() -> Option<Transport> {
    Some(Transport::Satpep(SatpepSettings::default()))
}

fn times(report: &Report) -> Vec<f64> {
    report.flows.iter().map(|flow| flow.end_s.expect("ended") - flow.start_s.expect("started")).collect()
}

fn median_share(loss: f64, transfer: Transfer, bytes: u64) -> f64 {
    let rounds = if transfer == Transfer::Upload { 0.5 } else { 1.0 };
    let share = |seed| {
        let link = SatelliteLink { bps: 6_000_000, loss, seed };
        link.limit(rounds, bytes) / times(&link.run(satpep(), transfer, 1, bytes))[0]
    };
    let mut shares: Vec<f64> = (0..9).map(share).collect();
    shares.sort_by(f64::total_cmp);
    println!("{transfer:?} of {bytes} bytes at {loss}: {shares:.3?}");
    shares[4]
}

#[test]
fn one_megabyte_runs_near_the_limit_at_every_loss() {
    let download = Transfer::Download { request: Bytes::new(100) };
    for (loss, least) in [(0.0, 0.97), (1e-3, 0.97), (1e-2, 0.96)] {
        assert!(median_share(loss, Transfer::Upload, 1_000_000) >= least);
        assert!(median_share(loss, download, 1_000_000) >= least);
    }
}

#[test]
fn short_and_long_transfers_run_near_the_limit() {
    assert!(median_share(0.0, Transfer::Upload, 100_000) >= 0.96);
    assert!(median_share(1e-2, Transfer::Upload, 10_000_000) >= 0.97);
}

/// A run of `flow` (and whatever `change` makes of it and of the network's links) to its end, at most 1,000 s.
fn run_with(
    transport: Transport,
    links: impl Fn(&str, &mut LinkConfig),
    change: impl Fn(&mut FlowConfig, [NodeId; 4]),
) -> (Report, Vec<sim::PacketRecord>) {
    let link = SatelliteLink { bps: 6_000_000, loss: 1e-3, seed: 5 };
    let (plain, nodes) = link.network();
    let mut network = Network::new();
    for name in plain.nodes() {
        network.add_node(name).expect("new");
    }
    for pair in plain.directions().chunks_exact(2) {
        let [mut there, mut back] = [0, 1].map(|way| pair[way].config.clone());
        links(&format!("{} there", pair[0].link), &mut there);
        links(&format!("{} back", pair[0].link), &mut back);
        network.add_link(&pair[0].link, pair[0].from, pair[0].to, there, back).expect("valid");
    }
    let mut flow = FlowConfig {
        name: "flow".to_owned(),
        from: nodes[0],
        to: nodes[3],
        start: Start::default(),
        stop: None,
        traffic: Traffic::Tcp {
            client: host(),
            server: host(),
            application: Application::Bulk { size: Some(Bytes::new(1_000_000)), transfer: Transfer::Upload },
        },
        record: true,
    };
    change(&mut flow, nodes);
    let settings = Settings {
        stop: Stop { at: Some(Instant::from_nanos(1_000_000_000_000)), when_complete: false },
        record: Record { packets_at: vec![nodes[1]], ..Record::default() },
        ..Settings::default()
    };
    let pair = GatewayConfig::new("pep", [nodes[1], nodes[2]], transport);
    let mut simulation = Simulation::with_gateways(network, vec![flow], vec![pair], settings).expect("valid");
    simulation.run();
    (simulation.report(), simulation.take_packets())
}

fn transports() -> [Transport; 2] {
    [Transport::Satpep(SatpepSettings::default()), split_tcp()]
}

/// Split TCP with Hybla over the satellite, as PEPsal does it.
fn split_tcp() -> Transport {
    let control = tcp::ControlKind::by_name("hybla").expect("Hybla");
    let receive_buffer = tcp::ReceiveBuffer::plain(Bytes::new(2 << 20));
    let send_buffer = Bytes::new(2 << 20);
    Transport::Tcp(Arc::new(tcp::Config {
        control,
        receive_buffer,
        send_buffer,
        ..tcp::Config::new(tcp::Profile::Linux)
    }))
}

#[test]
fn every_byte_passes_and_both_ends_close_in_order_in_both_directions() {
    for transport in transports() {
        for (transfer, reversed) in [
            (Transfer::Upload, false),
            (Transfer::Upload, true),
            (Transfer::Download { request: Bytes::new(300) }, false),
        ] {
            let (report, _) = run_with(
                transport.clone(),
                |_, _| {},
                |flow, nodes| {
                    if reversed {
                        (flow.from, flow.to) = (nodes[3], nodes[0]);
                    }
                    let Traffic::Tcp { application, .. } = &mut flow.traffic else { return };
                    *application = Application::Bulk { size: Some(Bytes::new(1_000_000)), transfer };
                },
            );
            assert!(report.flows[0].complete, "{report:?}");
            let stream = &report.gateways[0].streams[0];
            let (up, down) = if transfer == Transfer::Upload { (1_000_000, 0) } else { (300, 1_000_000) };
            assert_eq!((stream.from_client, stream.to_server), (up, up));
            assert_eq!((stream.from_server, stream.to_client), (down, down));
            assert_eq!(stream.states, ["closed", "closed"]);
            assert!(stream.accepted_s < stream.connected_s);
        }
    }
}

#[test]
fn a_fair_queue_tells_flows_apart_that_gateways_split() {
    let (plain, nodes) = SatelliteLink { bps: 6_000_000, loss: 0.0, seed: 5 }.network();
    let mut network = Network::new();
    for name in plain.nodes() {
        network.add_node(name).expect("new");
    }
    for pair in plain.directions().chunks_exact(2) {
        let [mut there, back] = [0, 1].map(|way| pair[way].config.clone());
        if pair[0].link == "left" {
            // Nothing but the turns of the flows keeps their waits short.
            let patient = FqCodel { interval: Duration::from_secs(100), ..FqCodel::default() };
            (there.rate, there.discipline) = (Some(Rate::from_bps(2_000_000)), Discipline::FqCodel(patient));
        }
        network.add_link(&pair[0].link, pair[0].from, pair[0].to, there, back).expect("valid");
    }
    let constant = |bytes| Distribution::Constant(Bytes::new(bytes));
    let think = Distribution::Constant(Duration::from_secs(1));
    let web = Application::Web { requests: Some(20), request: constant(200), response: constant(200), think };
    let file = Application::Bulk { size: Some(Bytes::new(100_000_000)), transfer: Transfer::Upload };
    let flow = |(name, application): (&str, Application)| FlowConfig {
        name: name.to_owned(),
        from: nodes[0],
        to: nodes[3],
        start: Start::default(),
        stop: None,
        traffic: Traffic::Tcp { client: host(), server: host(), application },
        record: false,
    };
    let flows = [("web", web), ("file", file)].map(flow).to_vec();
    let pair = GatewayConfig::new("pep", [nodes[1], nodes[2]], split_tcp());
    let stop = Stop { at: Some(Instant::from_nanos(60_000_000_000)), when_complete: false };
    let settings = Settings { stop, ..Settings::default() };
    let mut simulation = Simulation::with_gateways(network, flows, vec![pair], settings).expect("valid");
    simulation.run();
    let report = simulation.report();
    let times = report.flows[0].rtt.expect("responses");
    // What a request waits for on the left is a packet of the file. Behind all of them it would be a second and more.
    assert!(report.flows[0].responses == 20 && times.p95_s < 0.65, "{times:?}");
}

#[test]
fn the_satellite_transport_is_faster_than_split_tcp_and_than_no_gateways() {
    let link = SatelliteLink { bps: 6_000_000, loss: 1e-3, seed: 3 };
    let time = |transport| times(&link.run(transport, Transfer::Upload, 1, 1_000_000))[0];
    let (satellite, split, plain) = (time(satpep()), time(Some(split_tcp())), time(None));
    assert!(satellite < split && satellite < plain, "{satellite} {split} {plain}");
}

#[test]
fn an_unreachable_server_resets_the_client_by_name() {
    for transport in transports() {
        let (report, _) = run_with(
            transport,
            |link, config| {
                if link == "right there" {
                    config.loss = LossModel::Bernoulli(Probability::new(1.0).expect("probability"));
                }
            },
            |_, _| {},
        );
        assert_eq!(report.flows[0].failure.as_deref(), Some("reset by the peer"), "{report:?}");
        let stream = &report.gateways[0].streams[0];
        assert_eq!((stream.connected_s, report.flows[0].bytes), (None, 0));
        assert!(stream.states.iter().all(|state| state == "closed" || state == "broken"), "{:?}", stream.states);
    }
}

#[test]
fn a_client_that_gives_up_is_seen_as_reset_by_the_server_and_not_as_ended() {
    for transport in transports() {
        let (report, _) = run_with(
            transport,
            |_, _| {},
            |flow, _| {
                flow.stop = Some(Instant::from_nanos(3_000_000_000));
                let Traffic::Tcp { application, .. } = &mut flow.traffic else { return };
                *application = Application::Bulk { size: None, transfer: Transfer::Upload };
            },
        );
        let stream = &report.gateways[0].streams[0];
        // Its reset overtakes nothing that it sent before.
        assert!(stream.to_server > 500_000 && stream.from_client >= stream.to_server, "{stream:?}");
        assert!(stream.states.iter().all(|state| state == "closed" || state == "broken"), "{:?}", stream.states);
        assert!(!report.flows[0].complete);
    }
}

#[test]
fn a_slow_way_to_the_server_holds_the_client_back_and_loses_nothing() {
    for transport in transports() {
        let (report, _) = run_with(
            transport,
            |link, config| {
                if link == "right there" {
                    config.rate = Some(Rate::from_bps(1_000_000));
                    config.queue = QueueLimit::Packets(50);
                }
            },
            |flow, _| {
                flow.stop = Some(Instant::from_nanos(300_000_000_000));
                let Traffic::Tcp { application, .. } = &mut flow.traffic else { return };
                *application = Application::Bulk { size: None, transfer: Transfer::Upload };
            },
        );
        // 1 Mbit/s for 300 s is 37.5 MB; the satellite link alone would have taken 220 MB.
        assert!(report.flows[0].bytes > 34_000_000, "{report:?}");
        let stream = &report.gateways[0].streams[0];
        let held = stream.from_client - report.flows[0].bytes;
        assert!(held < 80 << 20, "{held} bytes wait in the gateways");
        assert!(stream.from_client < 150_000_000, "{stream:?}");
    }
}

#[test]
fn other_traffic_on_the_link_is_left_its_room() {
    let link = SatelliteLink { bps: 6_000_000, loss: 0.0, seed: 1 };
    let (network, [client, near, far, server]) = link.network();
    let flow = |name: &str, traffic| FlowConfig {
        name: name.to_owned(),
        from: client,
        to: server,
        start: Start::default(),
        stop: None,
        traffic,
        record: false,
    };
    let udp = Traffic::Udp { rate: Rate::from_bps(2_000_000), packet_size: Bytes::new(1000), on_off: None };
    let application = Application::Bulk { size: None, transfer: Transfer::Upload };
    let file = Traffic::Tcp { client: host(), server: host(), application };
    let pair = GatewayConfig::new("pep", [near, far], Transport::Satpep(SatpepSettings::default()));
    let stop = Stop { at: Some(Instant::from_nanos(60_000_000_000)), when_complete: false };
    let flows = vec![flow("voice", udp), flow("file", file)];
    let settings = Settings { stop, ..Settings::default() };
    let mut simulation = Simulation::with_gateways(network, flows, vec![pair], settings).expect("valid");
    simulation.run();
    let report = simulation.report();
    let [voice, file] = [0, 1].map(|flow| report.flows[flow].bytes as f64 * 8.0 / 60.0);
    assert!(voice > 2_000_000.0 * 972.0 / 1000.0 * 0.98, "{voice} bit/s of UDP");
    assert!((3_500_000.0..4_000_000.0).contains(&file), "{file} bit/s of TCP");
    // Only what stood in the queue before the first readings was too much.
    let lost = report.links.iter().find(|link| link.from == "near" && link.to == "far").expect("the satellite");
    assert!(lost.counters.dropped_queue_full.packets < 20, "{:?}", lost.counters);
}

#[test]
fn duplicates_and_packets_out_of_order_do_no_harm() {
    for transport in transports() {
        let (report, _) = run_with(
            transport,
            |link, config| {
                if link.starts_with("satellite") {
                    config.duplicate = Probability::new(0.05).expect("probability");
                    let probability = Probability::new(0.02).expect("probability");
                    config.reorder = Some(link::Reorder { probability, extra_delay: Duration::from_millis(5) });
                }
            },
            |_, _| {},
        );
        let stream = &report.gateways[0].streams[0];
        assert!(report.flows[0].complete && stream.to_server == 1_000_000, "{report:?}");
        assert_eq!(stream.states, ["closed", "closed"]);
    }
}

#[test]
fn records_at_a_gateway_show_the_client_its_server_and_the_datagrams_between() {
    let (_, packets) = run_with(Transport::Satpep(SatpepSettings::default()), |_, _| {}, |_, _| {});
    let tcp = packets.iter().filter(|packet| matches!(packet.body, sim::Body::Tcp(_)));
    let (up, down): (Vec<&sim::PacketRecord>, Vec<&sim::PacketRecord>) = tcp.partition(|packet| packet.to_server);
    assert!(up.iter().chain(&down).all(|packet| packet.flow == 0));
    let payload = |packet: &&sim::PacketRecord| if let sim::Body::Tcp(segment) = packet.body { segment.len } else { 0 };
    assert_eq!(up.iter().map(payload).sum::<u32>(), 1_000_000, "the client's bytes once each: its link loses nothing");
    assert!(down.len() > 300 && down.iter().map(payload).all(|len| len == 0));
    let datagrams = packets.iter().filter(|packet| matches!(packet.body, sim::Body::Datagram(_)));
    let (there, back): (Vec<&sim::PacketRecord>, Vec<&sim::PacketRecord>) =
        datagrams.partition(|packet| packet.to_server);
    assert!(there.iter().chain(&back).all(|packet| packet.flow == 1));
    assert!(there.iter().map(|packet| packet.size.as_u64()).sum::<u64>() > 1_000_000 && !back.is_empty());
}

#[test]
fn a_flow_that_does_not_pass_both_gateways_is_left_alone() {
    let (report, _) =
        run_with(Transport::Satpep(SatpepSettings::default()), |_, _| {}, |flow, nodes| flow.to = nodes[2]);
    assert!(report.flows[0].complete && report.gateways[0].streams.is_empty());
}

#[test]
fn faults_name_the_pair_and_say_what_would_be_right() {
    let link = SatelliteLink { bps: 6_000_000, loss: 0.0, seed: 1 };
    let pair = |name: &str, nodes| GatewayConfig::new(name, nodes, Transport::Satpep(SatpepSettings::default()));
    let error = |pairs: Vec<GatewayConfig>, network: Network| {
        let simulation = Simulation::with_gateways(network, Vec::new(), pairs, Settings::default());
        simulation.expect_err("a fault").to_string()
    };
    let (network, [_, near, far, _]) = link.network();
    let message = error(vec![pair("pep", [near, near])], network.clone());
    assert!(message.contains("`pep`") && message.contains("`near`"), "{message}");
    let message = error(vec![pair("pep", [near, far]), pair("pep", [near, far])], network.clone());
    assert!(message.contains("`pep`") && message.contains("names"), "{message}");
    let mut island = network.clone();
    let alone = island.add_node("island").expect("new");
    let message = error(vec![pair("pep", [near, alone])], island);
    assert!(message.contains("`island`"), "{message}");
    let mut endless = network;
    let other = endless.add_node("other").expect("new");
    let link = LinkConfig { rate: None, ..LinkConfig::new(Rate::from_bps(1), TERRESTRIAL) };
    endless.add_link("wire", near, other, link.clone(), link).expect("valid");
    let message = error(vec![pair("pep", [near, other])], endless);
    assert!(message.contains("`rate`"), "{message}");
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn twenty_parallel_transfers_are_served_alike_and_fill_the_link() {
    let link = SatelliteLink { bps: 6_000_000, loss: 1e-3, seed: 31 };
    let times = times(&link.run(satpep(), Transfer::Upload, 20, 2_000_000));
    assert!(jain(&times) >= 0.99, "{times:?}");
    let last = times.iter().copied().fold(0.0, f64::max);
    assert!(last <= link.limit(0.5, 40_000_000) / 0.96, "{last}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| SatelliteLink { bps: 6_000_000, loss: 1e-2, seed }.run(satpep(), Transfer::Upload, 5, 300_000);
    assert_eq!(run(1), run(1));
    assert_ne!(times(&run(1)), times(&run(2)));
}

#[test]
fn a_time_that_stands_still_is_told() {
    // A link of neither rate nor delay into a gateway that takes all it gets: a sender without end never ends its instant.
    let mut network = Network::new();
    let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
    let wire =
        LinkConfig { rate: None, queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1), Duration::ZERO) };
    let satellite = LinkConfig::new(Rate::from_bps(1_000_000), RTT / 2);
    network.add_link("left", nodes[0], nodes[1], wire.clone(), wire.clone()).expect("valid");
    network.add_link("satellite", nodes[1], nodes[2], satellite.clone(), satellite).expect("valid");
    network.add_link("right", nodes[2], nodes[3], wire.clone(), wire).expect("valid");
    let host = Arc::new(tcp::Config::new(tcp::Profile::Linux));
    let flow = FlowConfig {
        name: "endless".to_owned(),
        from: nodes[0],
        to: nodes[3],
        start: Start::default(),
        stop: None,
        traffic: Traffic::Tcp {
            client: host.clone(),
            server: host.clone(),
            application: Application::Bulk { size: None, transfer: Transfer::Upload },
        },
        record: false,
    };
    let pair = GatewayConfig::new("pair", [nodes[1], nodes[2]], Transport::Tcp(host));
    let limits = Limits { events_at_once: 1_000_000, ..Limits::default() };
    let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(1)), when_complete: false };
    let settings = Settings { limits, stop, ..Settings::default() };
    let mut simulation = Simulation::with_gateways(network, vec![flow], vec![pair], settings).expect("valid");
    assert_eq!(simulation.run(), Stopped::StandingStill);
}

/// Several flows of 200 kB at once, 10 ms apart, over a pair with these settings.
fn run_flows(transport: SatpepSettings, flows: usize) -> Report {
    let (network, [client, near, far, server]) = SatelliteLink { bps: 6_000_000, loss: 0.0, seed: 5 }.network();
    let flow = |number: usize| FlowConfig {
        name: format!("flow {number}"),
        from: client,
        to: server,
        start: Start { at: Instant::from_nanos(1_000_000_000 + 10_000_000 * number as u64), spread: Duration::ZERO },
        stop: None,
        traffic: Traffic::Tcp {
            client: host(),
            server: host(),
            application: Application::Bulk { size: Some(Bytes::new(200_000)), transfer: Transfer::Upload },
        },
        record: false,
    };
    let pair = GatewayConfig::new("pep", [near, far], Transport::Satpep(transport));
    let settings = Settings { stop: Stop { at: None, when_complete: true }, ..Settings::default() };
    let flows = (0..flows).map(flow).collect();
    let mut simulation = Simulation::with_gateways(network, flows, vec![pair], settings).expect("valid");
    simulation.run();
    simulation.report()
}

fn bypassed(report: &Report) -> Vec<usize> {
    let streams = report.gateways[0].streams.iter().enumerate();
    streams.filter(|(_, stream)| stream.states == ["bypassed", "bypassed"]).map(|(number, _)| number).collect()
}

#[test]
fn a_flow_that_is_bypassed_by_rule_goes_end_to_end_beside_one_that_is_relayed() {
    let report = run_flows(SatpepSettings { bypass: vec![1], ..SatpepSettings::default() }, 2);
    assert_eq!(bypassed(&report), [1]);
    assert!(report.flows.iter().all(|flow| flow.complete), "{report:?}");
    let [relayed, plain] = &times(&report)[..] else { panic!("two flows") };
    assert!(plain > relayed, "its handshake and its slow start cross the satellite: {plain} {relayed}");
    assert_eq!(report.gateways[0].streams[1].from_client, 0);
}

#[test]
fn flows_beyond_the_streams_of_a_session_go_end_to_end_and_none_is_reset() {
    let report = run_flows(SatpepSettings { max_streams: Some(8), ..SatpepSettings::default() }, 12);
    assert!(report.flows.iter().all(|flow| flow.complete), "{report:?}");
    let past = bypassed(&report);
    assert!((3..=6).contains(&past.len()), "of 8 streams one is kept back, and one is the announcement's: {past:?}");
}

#[test]
fn flows_beyond_the_connections_of_a_gateway_go_end_to_end_and_none_is_reset() {
    let report = run_flows(SatpepSettings { max_connections: Some(4), ..SatpepSettings::default() }, 8);
    assert!(report.flows.iter().all(|flow| flow.complete), "{report:?}");
    assert!(!bypassed(&report).is_empty(), "{report:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_gateways_time_out() {
    let transport = SatpepSettings {
        connect_timeout: Duration::from_secs(3),
        report_transitions: true,
        ..SatpepSettings::default()
    };
    let (report, _) = run_with(
        Transport::Satpep(transport),
        |link, config| {
            if link == "right there" {
                config.loss = LossModel::Bernoulli(Probability::new(1.0).expect("probability"));
            }
        },
        |_, _| {},
    );
    let transitions = &report.gateways[0].transitions;
    let of = |node: &str| -> Vec<_> {
        let at = transitions.iter().filter(|one| one.node == node);
        at.map(|one| (one.event.as_str(), one.to.as_str())).collect()
    };
    assert_eq!(of("far"), [("RequestValid", "connecting"), ("Timeout", "closed")]);
    assert_eq!(of("near"), [("TcpFin", "requested-ended"), ("StreamReset", "closed")]);
    let far: Vec<f64> = transitions.iter().filter(|one| one.node == "far").map(|one| one.at_s).collect();
    let lasts = far[1] - far[0];
    assert!((2.999..3.001).contains(&lasts), "{transitions:?}");
    assert!(transitions.iter().all(|one| one.flow == "flow"));
}

#[test]
fn while_the_other_gateway_is_away_new_flows_go_end_to_end() {
    // The satellite carries nothing for two minutes; then the flow's own SYN passes, long before a session could.
    let away = Duration::from_secs(120);
    let (report, _) = run_with(
        Transport::Satpep(SatpepSettings::default()),
        |link, config| {
            if link.starts_with("satellite") {
                config.rate_steps = Some(link::Steps::new(vec![
                    (Duration::from_secs(1), Rate::ZERO),
                    (away, config.rate.expect("a rate")),
                ]));
            }
        },
        |flow, _| flow.start.at = Instant::from_nanos(100_000_000_000),
    );
    assert!(report.flows[0].complete, "{report:?}");
    assert_eq!(bypassed(&report), [0]);
}
