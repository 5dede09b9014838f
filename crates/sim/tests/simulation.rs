//! Whole simulations: what goes in comes out, on time, in order, and the same each time.

use link::{GilbertElliott, LinkConfig, LossModel, Opportunities, Policer, QueueLimit, Steps};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sim::{
    Application, Body, Distribution, FlowConfig, Limits, Network, NodeId, OnOff, Random, Record, Report, Settings,
    Simulation, Start, Stop, Stopped, Traffic, Transfer,
};
use std::sync::Arc;
use tcp::{Config, Profile};
use units::{Bytes, Duration, Instant, Probability, Rate};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn mbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// Nodes in a row, joined by these links, the same both ways but for the stream of their losses.
fn row(links: &[LinkConfig]) -> (Network, Vec<NodeId>) {
    let mut network = Network::new();
    let nodes: Vec<_> = (0..=links.len()).map(|i| network.add_node(&format!("n{i}")).expect("new")).collect();
    for (i, link) in links.iter().enumerate() {
        let stream = 2 * i as u64;
        let (there, back) = (LinkConfig { stream, ..link.clone() }, LinkConfig { stream: stream + 1, ..link.clone() });
        network.add_link(&format!("l{i}"), nodes[i], nodes[i + 1], there, back).expect("valid");
    }
    (network, nodes)
}

/// The path of the ns-2 scripts: 10 Mbit/s and 1 ms, 6 Mbit/s and 275 ms, 10 Mbit/s and 1 ms, queues of 600 packets.
fn satellite_path() -> (Network, Vec<NodeId>) {
    let queue = QueueLimit::Packets(600);
    let lan = LinkConfig { queue, ..LinkConfig::new(mbit(10), MS(1)) };
    let satellite = LinkConfig { queue, ..LinkConfig::new(mbit(6), MS(275)) };
    row(&[lan.clone(), satellite, lan])
}

fn flow(name: &str, from: NodeId, to: NodeId, traffic: Traffic) -> FlowConfig {
    let name = name.to_owned();
    FlowConfig { name, from, to, start: Start::default(), stop: None, traffic, record: true }
}

fn tcp(config: Config, application: Application) -> Traffic {
    let config = Arc::new(config);
    Traffic::Tcp { client: config.clone(), server: config, application }
}

fn upload(size: u64) -> Application {
    Application::Bulk { size: Some(Bytes::new(size)), transfer: Transfer::Upload }
}

fn complete() -> Settings {
    Settings { stop: Stop { at: Some(at(100_000)), when_complete: true }, ..Settings::default() }
}

fn until(seconds: u64) -> Settings {
    Settings { stop: Stop { at: Some(at(seconds)), when_complete: false }, ..Settings::default() }
}

fn run(network: Network, flows: Vec<FlowConfig>, settings: Settings) -> Report {
    let mut simulation = Simulation::new(network, flows, settings).expect("valid");
    simulation.run();
    simulation.report()
}

#[test]
fn a_megabyte_over_the_satellite_takes_as_long_as_in_ns2() {
    let (network, nodes) = satellite_path();
    let mut config = Config::new(Profile::Ns2);
    config.receive_buffer = tcp::ReceiveBuffer::plain(Bytes::new(500 * 1460));
    config.initial_ssthresh = 500.0;
    let report = run(network, vec![flow("file", nodes[0], nodes[3], tcp(config, upload(1_000_000)))], complete());
    assert_eq!(report.stopped, Stopped::Complete);
    let flow = &report.flows[0];
    assert_eq!((flow.bytes, flow.complete, flow.retransmissions, flow.rtos), (1_000_000, true, 0, 0));
    // ns-2 2.35: 1415 kbit/s.
    let goodput = flow.goodput_bps.expect("complete");
    assert!((goodput / 1_415e3 - 1.0).abs() < 0.005, "{goodput}");
}

#[test]
fn a_download_takes_a_round_trip_more_than_an_upload() {
    let time = |transfer| {
        let (network, nodes) = satellite_path();
        let file = Application::Bulk { size: Some(Bytes::new(100_000)), transfer };
        let report =
            run(network, vec![flow("file", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), file))], complete());
        assert!(report.flows[0].complete && report.flows[0].bytes == 100_000, "{report:?}");
        report.flows[0].end_s.expect("complete") - report.flows[0].start_s.expect("started")
    };
    let difference = time(Transfer::Download { request: Bytes::new(100) }) - time(Transfer::Upload);
    assert!((0.27..0.30).contains(&difference), "half a round trip for the request: {difference}");
}

/// Streams end, and ends that are lost are sent again, without being data.
#[test]
fn flows_and_the_run_count_the_same_data_packets() {
    for seed in 1..=20 {
        let loss = LossModel::Bernoulli(Probability::new(0.1).expect("a probability"));
        let (network, nodes) = row(&[LinkConfig { loss, seed, ..LinkConfig::new(mbit(2), MS(50)) }]);
        let traffic = tcp(Config::new(Profile::Rfc), upload(50_000));
        let report = run(network, vec![flow("file", nodes[0], nodes[1], traffic)], complete());
        let flow = &report.flows[0];
        assert_eq!((flow.data_packets, flow.complete), (report.data_packets, true), "{flow:?}");
        assert_eq!(flow.data_packets - flow.retransmissions, 50_000_u64.div_ceil(1448));
    }
}

#[test]
fn a_request_that_is_larger_than_the_send_buffer_is_sent_whole() {
    let (network, nodes) = satellite_path();
    let config = Config { send_buffer: Bytes::new(64_000), ..Config::new(Profile::Linux) };
    let transfer = Transfer::Download { request: Bytes::new(100_000) };
    let file = Application::Bulk { size: Some(Bytes::new(30_000)), transfer };
    let report = run(network, vec![flow("file", nodes[0], nodes[3], tcp(config, file))], complete());
    assert!(report.flows[0].complete && report.flows[0].bytes == 30_000, "{report:?}");
}

#[test]
fn pings_measure_the_path() {
    let (network, nodes) = satellite_path();
    let ping = Traffic::Ping { interval: MS(100), packet_size: Bytes::new(84), count: Some(5) };
    let report = run(network, vec![flow("ping", nodes[0], nodes[3], ping)], complete());
    assert_eq!(report.stopped, Stopped::Complete);
    let (flow, rtt) = (&report.flows[0], report.flows[0].rtt.expect("answers"));
    assert!(flow.complete && flow.received_packets == 5 && flow.data_packets == 5);
    let exact = 2.0 * (0.277 + 84.0 * 8.0 * (2.0 / 10e6 + 1.0 / 6e6));
    assert!((rtt.min_s - exact).abs() < 1e-8 && rtt.max_s == rtt.min_s && rtt.stddev_s < 1e-12, "{rtt:?} {exact}");
    // The last request left at 0.4 s.
    assert!((report.end_s - 0.4 - exact).abs() < 1e-8);
}

#[test]
fn pings_that_are_lost_are_not_awaited_for_ever() {
    let (network, nodes) = row(&[LinkConfig {
        loss: LossModel::Bernoulli(Probability::new(1.0).expect("valid")),
        ..LinkConfig::new(mbit(1), MS(10))
    }]);
    let ping = Traffic::Ping { interval: MS(100), packet_size: Bytes::new(84), count: Some(5) };
    let cbr = Traffic::Udp { rate: mbit(1), packet_size: Bytes::new(1000), on_off: None };
    let flows = vec![flow("ping", nodes[0], nodes[1], ping), flow("udp", nodes[0], nodes[1], cbr)];
    let report = run(network, flows, complete());
    assert_eq!(report.stopped, Stopped::Complete);
    assert!(!report.flows[0].complete && report.flows[0].rtt.is_none());
    assert!((report.end_s - 10.4).abs() < 1e-9, "{}", report.end_s);
}

#[test]
fn a_fair_queue_keeps_flows_apart() {
    let worst_ping = |discipline| {
        let queue = QueueLimit::Packets(1000);
        let link = LinkConfig { queue, discipline, ..LinkConfig::new(mbit(6), MS(20)) };
        let (network, nodes) = row(&[link]);
        let flood = Traffic::Udp { rate: mbit(12), packet_size: Bytes::new(1500), on_off: None };
        let ping = Traffic::Ping { interval: MS(100), packet_size: Bytes::new(84), count: Some(50) };
        let flows = vec![flow("flood", nodes[0], nodes[1], flood), flow("ping", nodes[0], nodes[1], ping)];
        let report = run(network, flows, until(10));
        report.flows[1].rtt.as_ref().expect("answered").max_s
    };
    // Beside a flood that fills the queue, a ping waits for the whole queue, or for its turn.
    assert!(worst_ping(link::Discipline::DropTail) > 1.0);
    assert!(worst_ping(link::Discipline::FqCodel(link::FqCodel::default())) < 0.045);
}

/// Marks travel with packets over all the links behind the queue that set them, and come back as echoes.
#[test]
fn a_queue_that_marks_replaces_losses_on_a_path_of_several_links() {
    let run_with = |ecn| {
        let discipline = link::Discipline::Codel(link::Codel { ecn: true, ..link::Codel::default() });
        let slow = LinkConfig { queue: QueueLimit::Packets(1000), discipline, ..LinkConfig::new(mbit(10), MS(20)) };
        let (network, nodes) = row(&[LinkConfig::new(mbit(100), MS(1)), slow, LinkConfig::new(mbit(100), MS(1))]);
        let config = tcp::Config { ecn, ..tcp::Config::new(tcp::Profile::Rfc) };
        let file = flow("file", nodes[0], nodes[3], tcp(config, upload(20_000_000)));
        run(network, vec![file], complete())
    };
    let marked = run_with(units::Ecn::Ect0);
    let dropped = run_with(units::Ecn::NotCapable);
    let slow = |report: &Report| report.links.iter().map(|link| link.counters.marked.packets).max();
    assert!(slow(&marked) > Some(5) && slow(&dropped) == Some(0), "{:?} {:?}", slow(&marked), slow(&dropped));
    let again = |report: &Report| report.flows[0].retransmissions;
    assert!(again(&marked) < again(&dropped), "{:?} {:?}", again(&marked), again(&dropped));
    assert!(marked.end_s <= dropped.end_s * 1.02, "{} s and {} s", marked.end_s, dropped.end_s);
}

#[test]
fn udp_keeps_its_rate_and_bursts_keep_their_share() {
    let (network, nodes) = row(&[LinkConfig::new(mbit(10), MS(10))]);
    let udp = |on_off| Traffic::Udp { rate: mbit(1), packet_size: Bytes::new(1000), on_off };
    let times = |ms| Distribution::Random(Random::Exponential { mean: MS(ms) });
    let bursts = OnOff { on: times(500), off: times(1500) };
    let mut stopped = flow("stopped", nodes[0], nodes[1], udp(None));
    stopped.stop = Some(at(10));
    let flows = vec![
        flow("steady", nodes[0], nodes[1], udp(None)),
        flow("bursts", nodes[0], nodes[1], udp(Some(bursts))),
        stopped,
    ];
    let report = run(network, flows, until(2000));
    assert_eq!(report.stopped, Stopped::Time);
    assert_eq!(report.flows[0].data_packets, 125 * 2000 + 1);
    let share = report.flows[1].data_packets as f64 / 250_000.0;
    // 1000 bursts of exponential length: the standard deviation of the share is about 0.25 * 2 / sqrt(1000).
    assert!((share - 0.25).abs() < 0.05, "{share}");
    assert_eq!(report.flows[2].data_packets, 1250);
}

#[test]
fn web_clients_get_every_response() {
    let (network, nodes) = satellite_path();
    let web = Application::Web {
        requests: Some(20),
        request: Distribution::Random(Random::Uniform { min: Bytes::new(200), max: Bytes::new(800) }),
        response: Distribution::Random(Random::Pareto {
            min: Bytes::new(2_000),
            shape: 1.2,
            max: Bytes::new(1_000_000),
        }),
        think: Distribution::Random(Random::Exponential { mean: Duration::from_secs(2) }),
    };
    let report = run(network, vec![flow("web", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), web))], complete());
    let flow = &report.flows[0];
    assert!(flow.complete && flow.responses == 20 && flow.bytes > 20 * 2_000, "{flow:?}");
    assert!(flow.rtt.expect("responses").min_s >= 0.554);
}

#[test]
fn bursts_over_tcp_keep_their_rate() {
    // The shorter ones are less than a full segment.
    for (on, off) in [(1_000, 3_000), (5, 15), (3, 17)] {
        let (network, nodes) = satellite_path();
        let times = |ms| Distribution::Constant(MS(ms));
        let bursts = Application::OnOff { rate: mbit(1), on_off: OnOff { on: times(on), off: times(off) } };
        let mut flow = flow("bursts", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), bursts));
        flow.stop = Some(at(80));
        let report = run(network, vec![flow], until(100));
        let (bytes, expected) = (report.flows[0].bytes as f64, 80.0 * 125_000.0 * on as f64 / (on + off) as f64);
        assert!((bytes / expected - 1.0).abs() < 0.02, "{on} and {off} ms: {bytes} of {expected}");
        assert!(report.flows[0].failure.is_none());
    }
}

#[test]
fn bursts_wait_for_room_in_the_send_buffer() {
    let (network, nodes) = satellite_path();
    let times = |seconds| Distribution::Constant(Duration::from_secs(seconds));
    let bursts = Application::OnOff { rate: mbit(1), on_off: OnOff { on: times(1), off: times(3) } };
    // 20 kB for each round trip of 0.55 s: a burst of 125 kB takes 3.5 s, and the pause follows it.
    let config = Config { send_buffer: Bytes::new(20_000), ..Config::new(Profile::Linux) };
    for (stop, bytes) in [(6, 125_000), (12, 250_000)] {
        let mut flow = flow("bursts", nodes[0], nodes[3], tcp(config.clone(), bursts.clone()));
        flow.stop = Some(at(stop));
        let report = run(network.clone(), vec![flow], until(20));
        assert_eq!(report.flows[0].bytes, bytes);
        assert!(report.flows[0].failure.is_none());
    }
    // What does not fit at the stop is not written any more.
    let mut stopped = flow("bursts", nodes[0], nodes[3], tcp(config, bursts));
    stopped.stop = Some(at(2));
    let report = run(network, vec![stopped], until(20));
    assert!((20_000..100_000).contains(&report.flows[0].bytes), "{}", report.flows[0].bytes);
}

#[test]
fn a_file_without_end_is_cut_short_where_the_flow_stops() {
    let (network, nodes) = satellite_path();
    let endless = Application::Bulk { size: None, transfer: Transfer::Upload };
    let mut flow = flow("endless", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), endless));
    flow.stop = Some(at(30));
    let report = run(network, vec![flow], until(60));
    let flow = &report.flows[0];
    assert_eq!(report.stopped, Stopped::Idle, "nothing happens after the reset");
    assert!(flow.failure.is_none() && !flow.complete && flow.bytes > 10_000_000, "{flow:?}");
    // What was in the queue of 600 packets arrives within 1.2 s, and 0.3 s of propagation.
    assert!(flow.end_s.expect("data") <= 31.5 && report.end_s < 33.0, "{:?} {}", flow.end_s, report.end_s);
}

/// A flow that has stalled has not the goodput of its better days, and one that fails or stops does not run on.
#[test]
fn goodput_counts_the_time_in_which_nothing_arrives() {
    let goes_dead = LinkConfig {
        loss: LossModel::Steps(link::Steps::new(vec![
            (Duration::ZERO, Probability::ZERO),
            (Duration::from_secs(2), Probability::new(1.0).expect("valid")),
        ])),
        ..LinkConfig::new(mbit(6), MS(50))
    };
    let (network, nodes) = row(&[goes_dead]);
    let endless = Application::Bulk { size: None, transfer: Transfer::Upload };
    let traffic = |max_expiries| tcp(Config { max_expiries, ..Config::new(Profile::Linux) }, endless.clone());
    let flows = vec![
        flow("stalls", nodes[0], nodes[1], traffic(u32::MAX)),
        flow("fails", nodes[0], nodes[1], traffic(3)),
        FlowConfig { stop: Some(at(10)), ..flow("stops", nodes[0], nodes[1], traffic(u32::MAX)) },
    ];
    let report = run(network, flows, until(60));
    let [stalls, fails, stops] = &report.flows[..] else { panic!("three flows") };
    assert!(report.flows.iter().all(|flow| flow.bytes > 0 && flow.end_s.is_some_and(|end| end < 2.2)));
    let ran = |flow: &sim::FlowReport| flow.until_s.expect("it ran") - flow.start_s.expect("it began");
    assert_eq!((ran(stalls), ran(stops)), (60.0, 10.0));
    assert!(fails.failure.is_some() && ran(fails) > 2.5 && ran(fails) < 20.0, "{}", ran(fails));
    for flow in [stalls, fails, stops] {
        let expected = flow.bytes as f64 * 8.0 / ran(flow);
        assert!((flow.goodput_bps.expect("it ran") / expected - 1.0).abs() < 1e-9, "{}", flow.name);
    }
}

/// Windows count the segments that leave: those that the peer takes, if it takes no longer ones.
#[test]
fn windows_in_bytes_are_of_the_segments_that_leave() {
    let (network, nodes) = satellite_path();
    let [own, peers] = [1448, 724].map(|mss| Arc::new(Config { mss, ..Config::new(Profile::Linux) }));
    let application = Application::Bulk { size: Some(Bytes::new(200_000)), transfer: Transfer::Upload };
    let traffic = Traffic::Tcp { client: own.clone(), server: peers, application };
    let record = Record { flow_interval: Some(MS(50)), ..Record::default() };
    let settings = Settings { record, ..complete() };
    let flows = vec![flow("file", nodes[0], nodes[3], traffic)];
    let mut simulation = Simulation::new(network, flows, settings).expect("valid");
    simulation.run();
    let samples = simulation.take_flow_samples();
    let first = samples.iter().find(|sample| sample.in_flight > Bytes::ZERO).expect("data");
    assert_eq!((first.cwnd, first.in_flight), (Bytes::new(7240), Bytes::new(7240)));
}

#[test]
fn a_server_that_never_answers_is_a_named_failure() {
    let loss = LossModel::Bernoulli(Probability::new(1.0).expect("valid"));
    let (network, nodes) = row(&[LinkConfig { loss, ..LinkConfig::new(mbit(1), MS(10)) }]);
    let report =
        run(network, vec![flow("f", nodes[0], nodes[1], tcp(Config::new(Profile::Linux), upload(1)))], complete());
    let flow = &report.flows[0];
    assert_eq!(report.stopped, Stopped::Complete, "what has failed is over");
    assert!(!flow.complete && flow.end_s.is_none());
    assert_eq!(flow.failure.as_deref(), Some("connection timed out: no answer to the SYN"));
}

#[test]
fn runaways_stop_at_their_limits_and_say_so() {
    let endless = || {
        let (network, nodes) = row(&[LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(mbit(1), MS(10)) }]);
        let udp = Traffic::Udp { rate: mbit(1000), packet_size: Bytes::new(100), on_off: None };
        (network, vec![flow("flood", nodes[0], nodes[1], udp)])
    };
    let limited = |limits| {
        let (network, flows) = endless();
        run(network, flows, Settings { limits, ..Settings::default() })
    };
    let report = limited(Limits { events: 10_000, ..Limits::default() });
    assert_eq!((report.stopped, report.events), (Stopped::EventLimit, 10_000));
    let report = limited(Limits { memory: Bytes::new(20_000_000), ..Limits::default() });
    assert_eq!(report.stopped, Stopped::MemoryLimit);
    assert!(report.links[0].counters.in_transit().packets < 400_000);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refuse = |change: fn(&mut FlowConfig, &[NodeId])| {
        let (mut network, mut nodes) = satellite_path();
        nodes.push(network.add_node("island").expect("new"));
        let mut flow = flow("culprit", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), upload(1)));
        change(&mut flow, &nodes);
        let error = Simulation::new(network, vec![flow], Settings::default()).expect_err("refused").to_string();
        assert!(error.contains("`culprit`"), "{error}");
        error
    };
    let island = refuse(|flow, nodes| flow.to = nodes[4]);
    assert!(island.contains("`island`") && island.contains("`n0`"), "{island}");
    assert!(refuse(|flow, _| flow.to = flow.from).contains("`n0`"));
    let zero =
        refuse(|flow, _| flow.traffic = Traffic::Ping { interval: MS(0), packet_size: Bytes::new(84), count: None });
    assert!(zero.contains("`interval`"), "{zero}");
    assert!(
        refuse(|flow, _| {
            flow.traffic = Traffic::Udp { rate: Rate::ZERO, packet_size: Bytes::new(100), on_off: None };
        })
        .contains("`rate`")
    );
    assert!(
        refuse(|flow, _| {
            flow.traffic = Traffic::Udp { rate: mbit(1), packet_size: Bytes::new(27), on_off: None };
        })
        .contains("`packet_size`")
    );
    assert!(refuse(|flow, _| flow.traffic = tcp(Config::new(Profile::Linux), upload(0))).contains("`size`"));
}

#[test]
fn two_flows_of_one_name_are_refused() {
    let (network, nodes) = satellite_path();
    let twin = || flow("twin", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), upload(1)));
    let error = Simulation::new(network, vec![twin(), twin()], Settings::default()).expect_err("refused");
    assert!(error.to_string().contains("`twin`"));
}

#[test]
fn records_show_the_run_and_change_nothing() {
    let plain = || {
        let (network, nodes) = satellite_path();
        (network, vec![flow("file", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), upload(3_000_000)))])
    };
    let (network, flows) = plain();
    let without = run(network, flows, complete());
    let (network, flows) = plain();
    let nodes = [flows[0].from, flows[0].to];
    let record = Record {
        flow_interval: Some(MS(100)),
        window_changes: true,
        queue_interval: Some(MS(50)),
        packets_at: nodes.to_vec(),
        capacity: false,
    };
    let mut simulation = Simulation::new(network, flows, Settings { record, ..complete() }).expect("valid");
    simulation.run();
    assert_eq!(Report { events: without.events, ..simulation.report() }, without);

    let samples = simulation.take_flow_samples();
    assert!(samples.is_sorted_by_key(|sample| (sample.at, sample.delivered)));
    let on_the_tick = samples.iter().filter(|sample| sample.at.as_nanos() % 100_000_000 == 0).count();
    assert!(on_the_tick >= (without.end_s * 10.0) as usize && samples.len() > 2 * on_the_tick);
    assert!(samples.iter().any(|sample| sample.cwnd > Bytes::new(200_000)), "slow start");
    assert_eq!(samples.last().map(|sample| sample.flow), Some(0));

    let queues = simulation.take_queue_samples();
    assert_eq!(queues.len(), 6 * (without.end_s * 20.0) as usize);
    assert!(queues.iter().any(|sample| sample.bytes > Bytes::new(10_000) && sample.packets > 10));

    let packets = simulation.take_packets();
    assert!(packets.is_sorted_by_key(|packet| packet.at));
    let len = |body: &Body| if let Body::Tcp(segment) = body { segment.len } else { 0 };
    let data = |node| packets.iter().filter(move |packet| packet.node == node && len(&packet.body) > 0);
    assert_eq!(data(nodes[0]).count() as u64, without.data_packets);
    assert!(data(nodes[1]).map(|packet| u64::from(len(&packet.body))).sum::<u64>() >= 3_000_000);
    assert!(data(nodes[0]).chain(data(nodes[1])).all(|packet| packet.to_server));
    assert!(packets.iter().any(|packet| packet.node == nodes[0] && !packet.to_server), "acknowledgements");
    assert_eq!(simulation.take_packets().len(), 0, "taken once");
}

/// Ten thousand samples between two packets.
#[test]
fn samples_that_are_taken_count_as_memory_however_few_the_events_are() {
    let limit = Bytes::new(20_000_000);
    let (network, nodes) = satellite_path();
    let ping = Traffic::Ping { interval: MS(1_000), packet_size: Bytes::new(84), count: None };
    let record = Record { flow_interval: Some(Duration::from_nanos(10_000)), ..Record::default() };
    let settings = Settings { record, limits: Limits { memory: limit, ..Limits::default() }, ..until(3_600) };
    let flows = vec![flow("ping", nodes[0], nodes[3], ping)];
    let mut simulation = Simulation::new(network, flows, settings).expect("valid");
    let mut taken = 0;
    let stopped = loop {
        let stopped = simulation.run_for(u64::MAX);
        let samples = simulation.take_flow_samples();
        assert!(samples.len() < 100_000, "{} samples at once", samples.len());
        taken += size_of_val(&samples[..]);
        if let Some(stopped) = stopped {
            break stopped;
        }
    };
    assert_eq!(stopped, Stopped::MemoryLimit);
    assert!((1_000_000..=limit.as_u64() as usize).contains(&taken), "{taken}");
}

/// A run ends with the last byte; what the ends say to each other afterwards takes a round trip.
/// BBR draws the times of its probes, so that flows do not probe all at once (draft-ietf-ccwg-bbr, section 5.3.3.8).
#[test]
fn each_connection_draws_from_a_seed_of_its_own_and_the_same_in_each_run() {
    let windows = || {
        let mut network = Network::new();
        let control = tcp::ControlKind::by_name("bbr3").expect("there is one");
        let flows = ["one", "other"].map(|name| {
            let ends = ["from", "to"].map(|end| network.add_node(&format!("{name}-{end}")).expect("new"));
            let link = LinkConfig::new(mbit(5), MS(20));
            network.add_link(name, ends[0], ends[1], link.clone(), link).expect("valid");
            let config = Config { control, ..Config::new(Profile::Linux) };
            let upload = Application::Bulk { size: None, transfer: Transfer::Upload };
            flow(name, ends[0], ends[1], tcp(config, upload))
        });
        let record = Record { flow_interval: Some(MS(100)), ..Record::default() };
        let mut simulation = Simulation::new(network, flows.into(), Settings { record, ..until(20) }).expect("valid");
        simulation.run();
        let samples = simulation.take_flow_samples();
        [0, 1].map(|flow| {
            let of_flow = samples.iter().filter(|sample| sample.flow == flow);
            of_flow.map(|sample| (sample.at, sample.cwnd)).collect::<Vec<_>>()
        })
    };
    let [one, other] = windows();
    assert_eq!(one[..5], other[..5], "until they draw");
    assert_ne!(one, other);
    assert_eq!([one, other], windows());
}

#[test]
fn a_run_goes_on_until_connections_are_closed_and_both_have_sent_their_fin() {
    let (network, nodes) = satellite_path();
    let flows = vec![flow("file", nodes[0], nodes[3], tcp(Config::new(Profile::Linux), upload(300_000)))];
    let record = Record { packets_at: vec![nodes[0]], flow_interval: Some(MS(1)), ..Record::default() };
    let mut simulation = Simulation::new(network, flows, Settings { record, ..complete() }).expect("valid");
    assert_eq!(simulation.run(), Stopped::Complete);
    let fins = |packets: Vec<sim::PacketRecord>| {
        let is_fin = |body: &Body| matches!(body, Body::Tcp(segment) if segment.has(tcp::Flags::FIN));
        packets.iter().filter(|packet| is_fin(&packet.body)).map(|packet| packet.to_server).collect::<Vec<_>>()
    };
    assert_eq!(fins(simulation.take_packets()), [true]);
    let (end, samples) = (simulation.now(), simulation.take_flow_samples().len());
    while simulation.close_for(10) {}
    assert_eq!(fins(simulation.take_packets()), [false]);
    let closing = simulation.now().since(end);
    assert!(closing > MS(250) && closing < MS(900), "{closing}");
    assert!(samples > 0 && simulation.take_flow_samples().is_empty());
    assert!(!simulation.close_for(10), "once");
}

fn probability(most: f64) -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), 0.0..most].prop_map(|p| Probability::new(p).expect("valid"))
}

fn any_rate() -> impl Strategy<Value = Rate> {
    (100_000u64..20_000_000).prop_map(Rate::from_bps)
}

/// A link that sends at once, at one rate, at rates that change, or at opportunities.
fn any_pace() -> impl Strategy<Value = LinkConfig> {
    let plain = |rate| LinkConfig { rate, ..LinkConfig::new(mbit(1), MS(0)) };
    let changing = move |([rate, first, last], outage): ([Rate; 3], u64)| {
        let steps = vec![(MS(700), first), (MS(1900), Rate::ZERO), (MS(1900 + outage), last)];
        let repeat = (outage > 200).then(|| MS(3000));
        LinkConfig { rate_steps: Some(Steps { repeat, ..Steps::new(steps) }), ..plain(Some(rate)) }
    };
    let opportunities = move |mut millis: Vec<u64>| {
        millis.sort_unstable();
        LinkConfig { opportunities: Some(Opportunities { millis, file: None }), ..plain(None) }
    };
    prop_oneof![
        Just(plain(None)),
        any_rate().prop_map(move |rate| plain(Some(rate))),
        ([any_rate(), any_rate(), any_rate()], 1u64..500).prop_map(changing),
        prop::collection::vec(1u64..60, 3..40).prop_map(opportunities),
    ]
}

fn any_queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (3u64..200).prop_map(QueueLimit::Packets),
        (4_000u64..200_000).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
        Just(QueueLimit::Unlimited),
    ]
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    let often = Probability::new(0.3).expect("valid");
    let steps =
        move |p| Steps { repeat: Some(MS(2000)), ..Steps::new(vec![(MS(0), p), (MS(1000), often), (MS(1100), p)]) };
    let bursts = move |p| GilbertElliott { p, r: often, loss_good: Probability::ZERO, loss_bad: often };
    prop_oneof![
        2 => probability(0.05).prop_map(LossModel::Bernoulli),
        1 => probability(0.05).prop_map(move |p| LossModel::GilbertElliott(bursts(p))),
        1 => probability(0.05).prop_map(move |p| LossModel::Steps(steps(p))),
    ]
}

/// Fractions of the packets that are overtaken and that arrive twice: of most links none, so that packets go through several links without
/// an event at each.
fn any_disorder() -> impl Strategy<Value = [Probability; 2]> {
    prop_oneof![2 => Just([Probability::ZERO; 2]), 1 => [probability(0.05), probability(0.05)]]
}

prop_compose! {
    /// A link with all that can happen on one.
    fn any_link()(
        pace in any_pace(),
        overhead in prop_oneof![Just(0), 1u64..60],
        delay in (0u64..300).prop_map(MS),
        policer in prop::option::weighted(0.3, (any_rate(), 1_500u64..20_000)),
        queue in any_queue(),
        loss in any_loss(),
        [reorder, duplicate] in any_disorder(),
        seed in 0u64..1000,
    ) -> LinkConfig {
        LinkConfig {
            overhead: Bytes::new(overhead),
            delay,
            policer: policer.map(|(rate, burst)| Policer { rate, burst: Bytes::new(burst) }),
            queue,
            loss,
            reorder: (reorder > Probability::ZERO)
                .then(|| link::Reorder { probability: reorder, extra_delay: MS(20) }),
            duplicate,
            seed,
            ..pace
        }
    }
}

prop_compose! {
    fn any_traffic()(
        kind in 0..4,
        size in 1u64..400_000,
        profile in prop::sample::select(vec![Profile::Rfc, Profile::Linux, Profile::Ns2]),
        // `nack` is for hops of SaTPEP.
        recovery in prop::sample::select(tcp::recovery::RECOVERIES.iter().filter(|kind| kind.name != "nack").collect::<Vec<_>>()),
    ) -> Traffic {
        // Ns2's agents have no FIN, and take the handshake for lossless: they would not know that a SYN was lost.
        let config = Config { recovery: if profile == Profile::Ns2 { Config::new(profile).recovery } else { recovery }, ..Config::new(profile) };
        match kind {
            0 => tcp(config, upload(size)),
            1 => tcp(config, Application::Bulk {
                size: Some(Bytes::new(size)),
                transfer: Transfer::Download { request: Bytes::new(300) },
            }),
            2 => Traffic::Udp { rate: Rate::from_bps(size * 4), packet_size: Bytes::new(500), on_off: None },
            _ => Traffic::Ping { interval: MS(50), packet_size: Bytes::new(84), count: Some(1 + size / 10_000) },
        }
    }
}

/// What must hold of any run over a row of links.
fn check(report: &Report, flows: &[FlowConfig]) -> Result<(), TestCaseError> {
    for link in &report.links {
        let counters = &link.counters;
        let dropped = counters.dropped_queue_full + counters.dropped_loss + counters.dropped_policed;
        prop_assert_eq!(
            counters.offered + counters.duplicated,
            counters.delivered + dropped + counters.in_transit(),
            "{}",
            link.name
        );
    }
    for (report, flow) in report.flows.iter().zip(flows) {
        if let Traffic::Tcp { application: Application::Bulk { size: Some(size), .. }, .. } = &flow.traffic {
            prop_assert!(report.bytes <= size.as_u64(), "{:?}", report);
            prop_assert_eq!(report.complete, report.bytes == size.as_u64(), "{:?}", report);
            prop_assert!(report.complete || report.failure.is_some(), "neither complete nor failed: {:?}", report);
            prop_assert!(report.retransmissions < report.data_packets || report.data_packets == 0);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(11), cases: 60, max_shrink_iters: 40, ..ProptestConfig::default()
    })]

    #[test]
    fn packets_and_bytes_are_conserved_whatever_happens(
        links in prop::collection::vec(any_link(), 1..4),
        traffic in prop::collection::vec((any_traffic(), any::<bool>(), 0u64..3000), 1..5),
        seed in 0u64..1000,
    ) {
        let build = || {
            let (network, nodes) = row(&links);
            let (first, last) = (nodes[0], nodes[links.len()]);
            let flows = traffic.iter().enumerate().map(|(i, (traffic, backwards, spread))| {
                let (from, to) = if *backwards { (last, first) } else { (first, last) };
                let start = Start { at: Instant::ZERO, spread: MS(*spread) };
                let stop = matches!(traffic, Traffic::Udp { .. }).then(|| at(5));
                FlowConfig { start, stop, ..flow(&format!("f{i}"), from, to, traffic.clone()) }
            });
            let flows: Vec<_> = flows.collect();
            (network, flows)
        };
        let settings = || Settings {
            seed,
            limits: Limits { events: 20_000_000, ..Limits::default() },
            ..Settings::default()
        };
        let (network, flows) = build();
        let report = run(network, flows.clone(), settings());
        prop_assert_eq!(report.stopped, Stopped::Idle);
        check(&report, &flows)?;
        for pair in report.links.chunks(2).collect::<Vec<_>>().windows(2) {
            prop_assert_eq!(report.links.iter().map(|link| link.counters.in_transit().packets).sum::<u64>(), 0);
            let ([near, _], [far, back]) = (pair[0], pair[1]) else { unreachable!("two directions") };
            prop_assert_eq!(near.counters.delivered, far.counters.offered, "a router loses nothing");
            prop_assert_eq!(back.counters.delivered, pair[0][1].counters.offered);
        }

        // With an event for each arrival at a node, which samples of queues need, it is the same at any time.
        for stop in [None, Some(Instant::ZERO + MS(seed * 7))] {
            let [plain, watched] = [None, Some(Duration::from_secs(1))].map(|queue_interval| {
                let (network, flows) = build();
                let record = Record { queue_interval, ..Record::default() };
                let stop = Stop { at: stop, when_complete: false };
                Report { events: 0, end_s: 0.0, ..run(network, flows, Settings { stop, record, ..settings() }) }
            });
            prop_assert_eq!(plain, watched);
        }

        // Step by step, it is the same.
        let (network, flows) = build();
        let mut steps = Simulation::new(network, flows, settings()).expect("valid");
        while steps.run_for(997).is_none() {}
        prop_assert_eq!(steps.report(), report);
    }
}
