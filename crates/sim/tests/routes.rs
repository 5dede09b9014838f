//! Links that come and go, and routes that follow.

use link::{Discipline, LinkConfig, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sim::{
    Application, FlowConfig, Network, NodeId, Report, Routing, Settings, Simulation, Start, Stop, Stopped, Traffic,
    Transfer, UnderWay, UpTimes,
};
use std::sync::Arc;
use tcp::{Config, Profile};
use units::{Bytes, Duration, Instant, Rate};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(ms: u64) -> Instant {
    Instant::ZERO + MS(ms)
}

fn link(delay: u64, stream: u64) -> LinkConfig {
    let config = LinkConfig::new(Rate::from_bps(1_000_000), MS(delay));
    LinkConfig { queue: QueueLimit::Unlimited, stream, ..config }
}

/// Up or down from each of these times (in ms) on.
fn times(steps: &[(u64, bool)], repeat: Option<u64>) -> UpTimes {
    UpTimes::new(steps.iter().map(|(at, is_up)| (MS(*at), *is_up)).collect(), repeat.map(MS)).expect("valid")
}

/// Two ways from `a` to `b`: over `near` (2 times 10 ms) and over `far` (2 times 30 ms). The second link of the near one comes and goes.
fn two_ways(near: &UpTimes) -> (Network, [NodeId; 4]) {
    let mut network = Network::new();
    let nodes @ [a, near_node, far_node, b] =
        ["a", "near", "far", "b"].map(|name| network.add_node(name).expect("new"));
    for (stream, name, from, to, delay) in [
        (0, "a-near", a, near_node, 10),
        (2, "near-b", near_node, b, 10),
        (4, "a-far", a, far_node, 30),
        (6, "far-b", far_node, b, 30),
    ] {
        network.add_link(name, from, to, link(delay, stream), link(delay, stream + 1)).expect("valid");
    }
    let comes_and_goes = network.link("near-b").expect("there");
    network.set_up_times(comes_and_goes, near).expect("on no carrier");
    (network, nodes)
}

fn flow(name: &str, from: NodeId, to: NodeId, stop: Option<u64>, traffic: Traffic) -> FlowConfig {
    let name = name.to_owned();
    FlowConfig { name, from, to, start: Start::default(), stop: stop.map(at), traffic, record: true }
}

/// A packet of 1000 bytes each 10 ms.
fn udp() -> Traffic {
    Traffic::Udp { rate: Rate::from_bps(800_000), packet_size: Bytes::new(1000), on_off: None }
}

fn run(network: Network, flows: Vec<FlowConfig>, routing: Routing, until: u64) -> Report {
    let stop = Stop { at: Some(at(until)), when_complete: false };
    let settings = Settings { stop, routing, ..Settings::default() };
    let mut simulation = Simulation::new(network, flows, settings).expect("valid");
    simulation.run();
    simulation.report()
}

fn offered(report: &Report, link: &str, from: &str) -> u64 {
    let found = report.links.iter().find(|one| one.name == link && one.from == from).expect("there");
    found.counters.offered.packets
}

#[test]
fn packets_take_the_other_way_while_a_link_is_down_and_come_back() {
    let (network, [a, _, _, b]) = two_ways(&times(&[(1_000, false), (2_000, true)], None));
    let flows = vec![flow("data", a, b, Some(3_000), udp())];
    let report = run(network, flows, Routing::default(), 10_000);
    // A packet each 10 ms: 2 s over the near way, 1 s over the far one; those between the nodes at the change still find the near link down.
    let (near, far) = (offered(&report, "a-near", "a"), offered(&report, "a-far", "a"));
    assert!((199..=202).contains(&near) && (99..=102).contains(&far), "{near} {far}");
    let lost = report.no_route_packets;
    assert_eq!(report.flows[0].received_packets + lost, 300, "what was kept arrives");
    // One or two were on their way to the node `near`, which sends them back: no way leads on but over `a`.
    assert!(lost == 0 && offered(&report, "a-near", "near") <= 3, "{lost}");
}

#[test]
fn a_link_is_up_or_down_from_the_very_instant_of_its_step_on() {
    // Packets leave at 0, 10, 20, ... ms: those of 100 to 140 ms find no way, the one of 150 ms has one again.
    for (until, arrive) in [(105, 10), (145, 10), (155, 11)] {
        for every in [None, Some(MS(50))] {
            let mut network = Network::new();
            let [a, b] = ["a", "b"].map(|name| network.add_node(name).expect("new"));
            let only = network.add_link("only", a, b, link(10, 0), link(10, 1)).expect("valid");
            network.set_up_times(only, &times(&[(100, false), (150, true)], None)).expect("on no carrier");
            let flows = vec![flow("data", a, b, Some(until), udp())];
            let report = run(network, flows, Routing { every, ..Routing::default() }, 1_000);
            assert_eq!(report.flows[0].received_packets, arrive, "{every:?} until {until} ms");
        }
    }
}

#[test]
fn packets_on_a_link_that_goes_down_are_kept_or_lost_as_configured() {
    // Twice the rate: the queue of near-b holds about half of what was sent.
    let traffic = Traffic::Udp { rate: Rate::from_bps(2_000_000), packet_size: Bytes::new(1000), on_off: None };
    let arrived = |under_way: UnderWay, discipline: Discipline| {
        let (network, [a, _, _, b]) = two_ways(&times(&[(500, false)], None));
        let mut fast = Network::new();
        for name in network.nodes() {
            fast.add_node(name).expect("new");
        }
        for pair in network.directions().chunks(2) {
            let rate = if pair[0].link == "near-b" { 1_000_000 } else { 100_000_000 };
            let configs = [&pair[0], &pair[1]].map(|direction| LinkConfig {
                rate: Some(Rate::from_bps(rate)),
                discipline,
                ..direction.config.clone()
            });
            let [there, back] = configs;
            let id = fast.add_link(&pair[0].link, pair[0].from, pair[0].to, there, back).expect("valid");
            if let Some(up) = &pair[0].up {
                fast.set_up_times(id, up).expect("on no carrier");
            }
        }
        let flows = vec![flow("data", a, b, Some(500), traffic.clone())];
        let report = run(fast, flows, Routing { under_way, ..Routing::default() }, 10_000);
        let down: u64 = report.links.iter().map(|link| link.counters.dropped_down.packets).sum();
        assert_eq!(report.flows[0].received_packets + down + report.no_route_packets, report.flows[0].data_packets);
        report.flows[0].received_packets as f64 / report.flows[0].data_packets as f64
    };
    for discipline in [
        Discipline::DropTail,
        Discipline::FqCodel(link::FqCodel { interval: MS(3_000_000), ..link::FqCodel::default() }),
    ] {
        assert_eq!(arrived(UnderWay::Keep, discipline), 1.0);
        let part = arrived(UnderWay::Lose, discipline);
        assert!((0.4..0.55).contains(&part), "{part}");
    }
}

#[test]
fn routes_on_schedule_follow_late_and_what_is_sent_meanwhile_is_lost() {
    let (network, [a, _, _, b]) = two_ways(&times(&[(1_200, false)], None));
    let flows = vec![flow("data", a, b, Some(3_000), udp())];
    let report = run(network, flows, Routing { every: Some(MS(1_000)), ..Routing::default() }, 10_000);
    // From 1.2 s on the link is down, and until 2 s the routes do not know.
    let lost: u64 = report.links.iter().map(|link| link.counters.dropped_down.packets).sum();
    assert!((78..=82).contains(&lost), "{lost}");
    assert_eq!(report.flows[0].received_packets + lost, 300);
}

#[test]
fn routes_on_schedule_follow_delays() {
    let (mut network, _) = two_ways(&times(&[(0, true)], None));
    // The same ways, but the near one becomes far after 1 s.
    let slow = link::Steps::new(vec![(MS(1_000), MS(100))]);
    let mut changed = Network::new();
    for name in network.nodes() {
        changed.add_node(name).expect("new");
    }
    for pair in network.directions().chunks(2) {
        let steps = (pair[0].link == "near-b").then(|| slow.clone());
        let [there, back] =
            [&pair[0], &pair[1]].map(|direction| LinkConfig { delay_steps: steps.clone(), ..direction.config.clone() });
        changed.add_link(&pair[0].link, pair[0].from, pair[0].to, there, back).expect("valid");
    }
    network = changed;
    let [a, b] = ["a", "b"].map(|name| network.node(name).expect("there"));
    let flows = vec![flow("data", a, b, Some(3_000), udp())];
    let report = run(network, flows, Routing { every: Some(MS(500)), ..Routing::default() }, 10_000);
    let far = offered(&report, "a-far", "a");
    assert!((195..=205).contains(&far), "{far}");
    assert_eq!(report.flows[0].received_packets, 300);
}

#[test]
fn a_connection_lives_through_a_time_without_any_way() {
    let (mut network, [a, _, _, b]) = two_ways(&times(&[(500, false), (4_000, true)], None));
    let far = network.link("far-b").expect("there");
    network.set_up_times(far, &times(&[(500, false), (4_000, true)], None)).expect("on no carrier");
    let config = Arc::new(Config::new(Profile::Rfc));
    let application = Application::Bulk { size: Some(Bytes::new(200_000)), transfer: Transfer::Upload };
    let traffic = Traffic::Tcp { client: config.clone(), server: config, application };
    let report = run(network, vec![flow("file", a, b, None, traffic)], Routing::default(), 60_000);
    assert!(report.flows[0].complete && report.flows[0].rtos >= 1, "{:?}", report.flows[0]);
    assert!(report.no_route_packets >= 1);
    assert!(report.flows[0].end_s.is_some_and(|end| (4.0..15.0).contains(&end)), "{:?}", report.flows[0]);
}

#[test]
fn a_link_that_is_always_up_changes_nothing() {
    let (network, [a, _, _, b]) = two_ways(&times(&[(0, true)], None));
    let mut plain = Network::new();
    for name in network.nodes() {
        plain.add_node(name).expect("new");
    }
    for pair in network.directions().chunks(2) {
        let [there, back] = [pair[0].config.clone(), pair[1].config.clone()];
        plain.add_link(&pair[0].link, pair[0].from, pair[0].to, there, back).expect("valid");
    }
    let config = Arc::new(Config::new(Profile::Rfc));
    let application = Application::Bulk { size: Some(Bytes::new(500_000)), transfer: Transfer::Upload };
    let traffic = Traffic::Tcp { client: config.clone(), server: config, application };
    let [routed, fixed] = [network, plain].map(|network| {
        let flows = vec![flow("file", a, b, None, traffic.clone()), flow("data", b, a, Some(5_000), udp())];
        let report = run(network, flows, Routing::default(), 60_000);
        (report.flows, report.links, report.no_route_packets)
    });
    assert_eq!(routed, fixed);
}

#[derive(Debug, Clone)]
struct Ring {
    /// Up or down times of each link, and when they repeat.
    links: Vec<Vec<u64>>,
    repeat: u64,
    loses: bool,
    every: Option<u64>,
}

fn rings() -> impl Strategy<Value = Ring> {
    let steps = prop::collection::btree_set(1u64..900, 0..6).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    (prop::collection::vec(steps, 5), 900u64..2_000, any::<bool>(), prop::option::of(20u64..500))
        .prop_map(|(links, repeat, loses, every)| Ring { links, repeat, loses, every })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets that are sent arrive, or are lost for one reason, whatever links do.
    #[test]
    fn packets_are_conserved_across_changes(ring in rings()) {
        let mut network = Network::new();
        let nodes: Vec<_> = (0..5).map(|n| network.add_node(&format!("n{n}")).expect("new")).collect();
        for (n, steps) in ring.links.iter().enumerate() {
            let (from, to, stream) = (nodes[n], nodes[(n + 1) % 5], 2 * n as u64);
            let config = |stream| LinkConfig { queue: QueueLimit::Packets(8), ..link(7 * (n as u64 + 1), stream) };
            let id = network.add_link(&format!("l{n}"), from, to, config(stream), config(stream + 1)).expect("valid");
            if !steps.is_empty() {
                let steps: Vec<_> = steps.iter().enumerate().map(|(k, at)| (*at, k % 2 == 1)).collect();
                network.set_up_times(id, &times(&steps, Some(ring.repeat))).expect("on no carrier");
            }
        }
        let flows = (0..5).map(|n| flow(&format!("f{n}"), nodes[n], nodes[(n + 2) % 5], Some(4_000), udp())).collect();
        let under_way = if ring.loses { UnderWay::Lose } else { UnderWay::Keep };
        let report = run(network, flows, Routing { every: ring.every.map(MS), under_way }, 10_000);
        prop_assert_eq!(report.stopped == Stopped::Time || report.stopped == Stopped::Idle, true);
        let sent: u64 = report.flows.iter().map(|flow| flow.data_packets).sum();
        let received: u64 = report.flows.iter().map(|flow| flow.received_packets).sum();
        let dropped: u64 = report
            .links
            .iter()
            .map(|link| {
                let counters = &link.counters;
                assert_eq!(counters.in_transit(), link::Tally::default(), "{}", link.name);
                (counters.dropped_down + counters.dropped_queue_full + counters.dropped_queue_delay).packets
            })
            .sum();
        prop_assert_eq!(sent, received + dropped + report.no_route_packets);
        prop_assert!(received > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Among ways of equal delay and length, too: a study that lets links come and go begins where one with fixed links is.
    #[test]
    fn routes_that_are_computed_anew_are_those_of_fixed_links_while_nothing_changes(
        links in prop::collection::vec((0usize..6, 0usize..6, 1u64..3), 5..16),
    ) {
        let mut network = Network::new();
        let nodes: Vec<_> = (0..6).map(|number| network.add_node(&format!("{number}")).expect("new")).collect();
        for (number, (from, to, delay)) in links.iter().enumerate().filter(|(_, (from, to, _))| from != to) {
            let [there, back] = [0, 1].map(|stream| link(10 * delay, 2 * number as u64 + stream));
            network.add_link(&format!("{number}"), nodes[*from], nodes[*to], there, back).expect("valid");
        }
        prop_assume!(network.path(nodes[0], nodes[5]).is_some());
        let used = |every: Option<Duration>| {
            let flows = vec![flow("there", nodes[0], nodes[5], None, udp()), flow("back", nodes[5], nodes[0], None, udp())];
            let report = run(network.clone(), flows, Routing { every, ..Routing::default() }, 300);
            report.links.iter().map(|link| link.counters.offered.packets > 0).collect::<Vec<_>>()
        };
        prop_assert_eq!(used(None), used(Some(MS(100))));
    }
}

/// A run of `scenarios/constellation.toml` until `stop`, with a pair of gateways around the satellites.
fn constellation(changes: impl Fn(&str) -> String, more: &str, stop: &str) -> Simulation {
    let text = changes(include_str!("../../../scenarios/constellation.toml"));
    let pair = "[[gateway]]\nname = \"pair\"\nnodes = [\"west\", \"east\"]\n";
    let overrides = [format!("stop.time={stop}")];
    let loaded = scenario::load(&format!("{text}{pair}{more}"), "test.toml", &overrides, &|_| Err(String::new()));
    let mut simulation = Simulation::of(&loaded.expect("valid").scenarios[0], 1, false).expect("valid");
    simulation.run();
    simulation
}

#[test]
fn gateways_leave_room_for_cross_traffic_on_the_link_that_is_the_first_now() {
    let udp = |name: &str, start: u32, stop: u32| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"west\"\nto = \"east\"\nstart = \"{start}s\"\nstop = \"{stop}s\"\n\
             udp = {{ rate = \"30Mbit/s\" }}\n"
        )
    };
    // The first link of the shortest way is `west-1`, and from 30 s on `west-2`.
    let flows = udp("before", 5, 25) + &udp("after", 35, 55);
    let report = constellation(str::to_owned, &flows, "60s").report();
    let loss = |name: &str| {
        let flow = report.flows.iter().find(|flow| flow.name == name).expect("there");
        1.0 - flow.received_packets as f64 / flow.data_packets as f64
    };
    let (before, after) = (loss("before"), loss("after"));
    assert!(before < 0.01 && after < 0.01, "{before} {after}");
}

#[test]
fn modems_report_the_rate_of_the_links_that_are_on_the_route_now() {
    let narrow = |text: &str| {
        let narrow = text.replace("rate = \"50Mbit/s\"\ndelay = \"7ms\"", "rate = \"20Mbit/s\"\ndelay = \"7ms\"");
        assert_ne!(narrow, text);
        narrow
    };
    // Without traffic the gateways learn of rates by reports alone.
    let idle = |text: &str| narrow(text).replace("tcp = \"cubic\"", "start = \"100s\"\ntcp = \"cubic\"");
    for (stop, rate) in [("25s", 50), ("45s", 20), ("75s", 50)] {
        let pair = "satpep = { link_updates = true }\n";
        for estimate in constellation(idle, pair, stop).capacity_estimates(0).expect("satpep") {
            assert_eq!(estimate.rate, Rate::from_bps(rate * 1_000_000), "{stop}: {estimate:?}");
        }
    }
}
