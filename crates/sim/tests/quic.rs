//! QUIC flows in whole simulations: beside TCP, past gateways, over queues that mark.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{Body, Report, Simulation, Stopped};

/// A satellite link between two routers that may be gateways, and the flows of `flows`.
fn run(flows: &str, sets: &[&str], seed: u64) -> (Report, Vec<sim::PacketRecord>) {
    let text = format!(
        r#"
version = 1
nodes = ["client", "near", "far", "server"]
[[link]]
name = "lan"
between = ["client", "near"]
rate = "1Gbit/s"
delay = "1ms"
queue = "1000packets"
[[link]]
name = "sat"
between = ["near", "far"]
rate = "10Mbit/s"
delay = "275ms"
queue = "1BDP"
[[link]]
name = "isp"
between = ["far", "server"]
rate = "1Gbit/s"
delay = "1ms"
queue = "1000packets"
{flows}
"#
    );
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    let scenario = load(&text, "quic.toml", &sets, &|_| Err(String::new())).unwrap().scenarios.remove(0);
    let mut simulation = Simulation::of(&scenario, seed, true).unwrap();
    simulation.run();
    let packets = simulation.take_packets();
    (simulation.report(), packets)
}

fn file(keys: &str) -> String {
    format!("[[flow]]\nname = \"file\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

fn seconds(report: &Report) -> f64 {
    let flow = &report.flows[0];
    assert!(flow.complete && flow.failure.is_none(), "{flow:?}");
    flow.end_s.unwrap() - flow.start_s.unwrap()
}

const RTT: f64 = 2.0 * 0.277;

#[test]
fn a_small_file_takes_the_round_trips_of_the_handshake_and_of_slow_start() {
    // Less than the initial window: one flight.
    let time = |zero: bool, way: &str| {
        let flow =
            format!("quic = \"q\"\nbulk = {{ size = \"5kB\", direction = \"{way}\" }}\n[quic.q]\nzero_rtt = {zero}");
        seconds(&run(&file(&flow), &[], 1).0) / RTT
    };
    for (zero, way, round_trips) in [(false, "up", 1.5), (true, "up", 0.5), (false, "down", 2.0), (true, "down", 1.0)] {
        let found = time(zero, way);
        assert!((round_trips..round_trips + 0.06).contains(&found), "{zero} {way}: {found}");
    }
}

#[test]
fn a_clean_link_is_used_and_results_have_the_columns_of_tcp() {
    let (report, _) = run(&file("quic = \"cubic\"\nbulk = { size = \"20MB\" }"), &[], 1);
    let flow = &report.flows[0];
    // 1,431 of 1,500 bytes are payload.
    assert!(flow.goodput_bps.unwrap() > 0.75 * 10e6 * 1431.0 / 1500.0, "{flow:?}");
    assert_eq!((flow.bytes, report.stopped), (20_000_000, Stopped::Complete));
    assert!(flow.data_packets >= 20_000_000 / 1431 + flow.retransmissions);
    assert_eq!(report.data_packets, flow.data_packets);
    // Nearly all that the client sends are full packets with data.
    let full = report.links[0].counters.offered.bytes / 1500;
    assert!(full.abs_diff(flow.data_packets) <= 3, "{full} {flow:?}");
}

#[test]
fn losses_are_repaired_and_counted_and_the_same_seed_gives_the_same_run() {
    let flow = file("quic = \"newreno\"\nbulk = { size = \"3MB\" }");
    let sets = ["link.sat.loss=0.02", "link.sat.duplicate=0.01", "record.packets=[\"near\"]"];
    let (report, packets) = run(&flow, &sets, 3);
    let (again, packets_again) = run(&flow, &sets, 3);
    assert_eq!(report, again);
    assert_eq!(format!("{packets:?}"), format!("{packets_again:?}"));
    let flow = &report.flows[0];
    assert!(flow.complete && flow.bytes == 3_000_000, "{flow:?}");
    let lost = flow.retransmissions as f64 / flow.data_packets as f64;
    assert!((0.01..0.04).contains(&lost), "{flow:?}");
    assert!(packets.iter().all(|packet| matches!(packet.body, Body::Quic { .. }) && packet.flow == 0));
    let (other, _) = run(&file("quic = \"newreno\"\nbulk = { size = \"3MB\" }"), &sets, 4);
    assert_ne!(report.flows, other.flows);
}

/// The virtual clock stands at zero when ends are made, and may stand anywhere when they send early data.
#[test]
fn early_data_take_as_long_whenever_the_flow_starts() {
    let names = tcp::control::CONTROLS.iter().map(|kind| if kind.name == "reno" { "newreno" } else { kind.name });
    // Those that other layers' knowledge sizes, QUIC does not have.
    let names = names.filter(|name| !["assigned", "cross-layer"].contains(name));
    for (control, way) in names.flat_map(|name| [(name, "up"), (name, "down")]) {
        let time = |start: &str| {
            let flow = format!(
                "quic = \"q\"\nstart = \"{start}\"\nbulk = {{ size = \"1MB\", direction = \"{way}\" }}\n\
                 [quic.q]\ncontrol = \"{control}\"\nzero_rtt = true"
            );
            seconds(&run(&file(&flow), &["link.sat.delay=50ms"], 1).0)
        };
        let [first, later] = ["0s", "50min"].map(time);
        assert!((first - later).abs() < 1e-6, "{control} {way}: {first} from the start on, {later} after 50 minutes");
    }
}

#[test]
fn requests_and_bursts_run_over_quic() {
    let keys = "quic = \"cubic\"\nrequest_response = { requests = 5, response = \"50kB\", think = \"1s\" }";
    let (report, _) = run(&file(keys), &[], 1);
    let flow = &report.flows[0];
    assert_eq!((flow.responses, flow.bytes, flow.complete), (5, 250_000, true));
    let times = flow.rtt.unwrap();
    assert!(times.min_s > RTT && times.max_s < 5.0 * RTT, "{times:?}");
    let keys = "quic = \"cubic\"\non_off = { rate = \"1Mbit/s\", on = \"1s\", off = \"1s\" }";
    let (report, _) = run(&file(keys), &["stop.time=20s"], 1);
    let rate = report.flows[0].bytes as f64 * 8.0 / 20.0;
    assert!((400e3..560e3).contains(&rate), "{rate}");
}

#[test]
fn gateways_split_tcp_and_let_quic_pass() {
    let flows = "[[flow]]\nname = \"quic\"\nfrom = \"client\"\nto = \"server\"\nquic = \"cubic\"\nbulk = { size = \"2MB\" }\n\
                 [[flow]]\nname = \"tcp\"\nfrom = \"client\"\nto = \"server\"\ntcp = \"cubic\"\nbulk = { size = \"2MB\" }\n\
                 [[gateway]]\nname = \"pep\"\nnodes = [\"near\", \"far\"]\n";
    let (report, packets) = run(flows, &["record.packets=[\"near\"]"], 1);
    assert!(report.flows.iter().all(|flow| flow.complete), "{:?}", report.flows);
    // A gateway opens a flow's way to the server by itself: what comes from there to the near gateway, no end of TCP has sent.
    let quic = packets.iter().filter(|packet| matches!(packet.body, Body::Quic { .. }));
    assert!(quic.filter(|packet| packet.to_server).count() as u64 >= report.flows[0].data_packets);
    assert!(packets.iter().any(|packet| matches!(packet.body, Body::Datagram(_))));
    let streams = &report.gateways[0].streams;
    assert_eq!(streams.len(), 1, "{streams:?}");
}

#[test]
fn a_control_that_answers_to_marks_keeps_a_queue_short_over_quic() {
    let flow = file("quic = \"prague\"\nbulk = {}\n[record]\nqueue_interval = \"50ms\"\n");
    let sets =
        ["link.sat.delay=10ms", "link.sat.discipline={ dual_pi2 = {} }", "link.sat.queue=2000packets", "stop.time=30s"];
    let (report, _) = run(&flow, &sets, 1);
    let link = &report.links[2].counters;
    let rate = report.flows[0].bytes as f64 * 8.0 / 30.0;
    assert!(rate > 0.8 * 10e6, "{rate}");
    assert!(link.marked.packets > 100, "{link:?}");
    assert!(report.flows[0].retransmissions < 50, "{:?}", report.flows[0]);
}

/// Bursts would be marked where single packets are not: each has its share, and both fill the link. A packet takes less than the millisecond
/// of delay from which packets are marked: at lower rates any two flows of Prague have unequal shares.
#[test]
fn prague_has_the_same_share_over_quic_and_tcp() {
    let other = file("tcp = \"prague\"\nbulk = {}").replace("\"file\"", "\"tcp\"");
    let flows = format!("{}{other}", file("quic = \"prague\"\nbulk = {}"));
    let sets = ["link.sat.delay=20ms", "link.sat.discipline={ dual_pi2 = {} }", "link.sat.queue=2000packets"];
    let rates = |rate: &str| {
        let over = |time: &str| {
            let [rate, time] = [format!("link.sat.rate={rate}"), format!("stop.time={time}")];
            let sets = [&sets[..], &[&rate, &time]].concat();
            run(&flows, &sets, 1).0.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>()
        };
        let (half, all) = (over("60s"), over("120s"));
        [0, 1].map(|flow| (all[flow] - half[flow]) as f64 * 8.0 / 60.0 / 1e6)
    };
    for mbps in [20.0, 50.0] {
        let [quic, tcp] = rates(&format!("{mbps}Mbit/s"));
        assert!((0.6..=1.7).contains(&(quic / tcp)), "{quic:.1} and {tcp:.1} of {mbps} Mbit/s");
        assert!(quic + tcp > 0.8 * mbps, "{quic:.1} and {tcp:.1} of {mbps} Mbit/s");
    }
}

#[test]
fn a_flow_that_is_stopped_ends_with_a_close_and_one_without_answer_fails() {
    let (report, packets) =
        run(&file("quic = \"cubic\"\nbulk = {}\nstop = \"5s\""), &["stop.time=20s", "record.packets=[\"server\"]"], 1);
    assert!(report.flows[0].bytes > 0 && report.flows[0].failure.is_none(), "{:?}", report.flows[0]);
    let last = packets.iter().map(|packet| packet.at.as_secs_f64()).fold(0.0, f64::max);
    assert!(last < 8.0, "{last}: nothing is sent after the close");
    let (report, _) = run(&file("quic = \"cubic\"\nbulk = { size = \"1MB\" }"), &["link.sat.loss=1.0"], 1);
    assert_eq!(report.flows[0].failure.as_deref(), Some("connection timed out: no answer to the handshake"));
}
