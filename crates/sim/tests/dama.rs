//! Terminals on a shared carrier, in scenarios.

use scenario::Scenario;
use sim::{CapacitySample, FlowSample, Report, Simulation, Stopped};

const CARRIER: &str = r#"
version = 1
nodes = ["client", "one", "two", "hub", "server"]
[[carrier]]
name = "return"
rate = "8Mbit/s"
[[link]]
name = "lan"
between = ["client", "one"]
rate = "100Mbit/s"
delay = "1ms"
queue = "unlimited"
[[link]]
name = "one"
between = ["one", "hub"]
delay = "250ms"
forward = { dama = { carrier = "return", rbdc = "8Mbit/s" }, queue = "400packets" }
reverse = { rate = "20Mbit/s", queue = "1BDP" }
[[link]]
name = "two"
between = ["two", "hub"]
delay = "250ms"
forward = { dama = { carrier = "return", rbdc = "8Mbit/s" }, queue = "400packets" }
reverse = { rate = "20Mbit/s", queue = "1BDP" }
[[link]]
name = "wan"
between = ["hub", "server"]
rate = "100Mbit/s"
delay = "1ms"
queue = "unlimited"
[record]
capacity = true
interval = "100ms"
"#;

fn scenario(flows: &str) -> Scenario {
    let text = format!("{CARRIER}{flows}");
    let mut loaded = scenario::load(&text, "dama.toml", &[], &|_| Err("no files".into())).expect("sound");
    loaded.scenarios.remove(0)
}

struct Found {
    report: Report,
    capacity: Vec<CapacitySample>,
    flows: Vec<FlowSample>,
}

fn run(flows: &str) -> Found {
    let mut simulation = Simulation::of(&scenario(flows), 1, true).expect("valid");
    simulation.run();
    let (capacity, flows) = (simulation.take_capacity_samples(), simulation.take_flow_samples());
    Found { report: simulation.report(), capacity, flows }
}

#[test]
fn an_idle_terminal_asks_before_its_first_packet_leaves() {
    let ping = r#"
[[flow]]
name = "ping"
from = "one"
to = "hub"
start = "5s"
ping = { interval = "10s", requests = 3 }
"#;
    let Found { report, .. } = run(ping);
    assert_eq!(report.stopped, Stopped::Complete);
    let rtt = report.flows[0].rtt.expect("answered");
    // A round trip for the request and the plan, one of its own, up to two superframes of waiting and one of lead.
    assert!(rtt.min_s > 0.5 + 0.5 + 0.1 && rtt.max_s < 0.5 + 0.5 + 0.31, "{rtt:?}");
    let totals = &report.carriers[0].terminals[0].totals;
    assert!(totals.used_bytes == 3 * 84 && totals.requests > 0, "{totals:?}");
}

#[test]
fn files_of_two_terminals_share_the_carrier_and_no_superframe_is_given_twice() {
    let files = r#"
[[flow]]
name = "a"
from = "one"
to = "server"
tcp = "cubic"
bulk = {}
[[flow]]
name = "b"
from = "two"
to = "server"
tcp = "cubic"
bulk = {}
[stop]
time = "60s"
"#;
    let found = run(files);
    // Before that CUBIC, which takes the wait for capacity for a queue, has not filled the carrier.
    let begins = units::Instant::ZERO + units::Duration::from_secs(25);
    let by_then = |flow| {
        let samples = found.flows.iter().filter(|sample| sample.flow == flow && sample.at <= begins);
        samples.map(|sample| sample.delivered.as_u64()).max().unwrap_or_default()
    };
    let bytes = |flow: usize| found.report.flows[flow].bytes - by_then(flow as u32);
    let carried = (bytes(0) + bytes(1)) as f64 * 8.0 / 35.0;
    assert!(carried > 0.7 * 8e6, "{carried}");
    let mut superframes = std::collections::BTreeMap::<u64, u64>::new();
    for CapacitySample { sample, length, .. } in &found.capacity {
        assert!(sample.used.as_u64() <= sample.allocated.total());
        *superframes.entry(sample.at.as_nanos() / length.as_nanos()).or_default() += sample.allocated.total();
    }
    assert!(superframes.len() > 500 && superframes.values().all(|given| *given <= 100_000));
    for (terminal, link) in found.report.carriers[0].terminals.iter().zip([2, 4]) {
        let delivered = found.report.links[link].counters.delivered.bytes;
        let under_way = terminal.totals.used_bytes - delivered;
        assert!(under_way < 300_000, "what was sent and has not arrived: {under_way}");
    }
}

const FOLLOWING: &str = r#"
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "cubic"
count = 2
bulk = {}
[tcp.cross]
profile = "linux"
control = "cross-layer"
recovery = "sack"
mss = "1460B"
receive_buffer = "128KiB"
receive_buffer_max = "6MiB"
send_buffer = "4MiB"
capacity = { rate = "64kbit/s", rtt = "500ms", connections = 1 }
[[gateway]]
name = "pep"
nodes = ["one", "hub"]
transport = "tcp"
tcp = "cross"
follow_allocation = true
[stop]
time = "30s"
"#;

/// What two files through a pair of gateways, with `following`, do on a carrier whose rate falls from 8 to 4 Mbit/s after 15 s.
fn follow_the_allocation(following: &str) {
    let rain = CARRIER
        .replace("rate = \"8Mbit/s\"\n", "rate = \"8Mbit/s\"\nrate_steps = { steps = [[\"15s\", \"4Mbit/s\"]] }\n");
    let text = format!("{rain}{following}");
    let loaded = scenario::load(&text, "allocation.toml", &[], &|_| Err("no files".into())).expect("sound");
    let mut simulation = Simulation::of(&loaded.scenarios[0], 1, true).expect("valid");
    simulation.run();
    let samples = simulation.take_capacity_samples();
    let used = |from: f64, to: f64| {
        let within = samples.iter().filter(|row| row.direction.index() == 2);
        let within = within.filter(|row| (from..to).contains(&row.sample.at.as_secs_f64()));
        within.map(|row| row.sample.used.as_u64()).sum::<u64>() as f64 * 8.0 / (to - from)
    };
    assert!(used(3.0, 14.0) > 0.95 * 8e6, "{}", used(3.0, 14.0));
    assert!(used(17.0, 29.0) > 0.95 * 4e6, "{}", used(17.0, 29.0));
    let link = &simulation.report().links[2];
    assert_eq!((link.name.as_str(), link.counters.dropped_queue_full.packets), ("one", 0), "no burst of losses");
    // What was under way when the rate fell drains; after that little waits.
    let queued = samples.iter().filter(|row| row.direction.index() == 2 && row.sample.at.as_secs_f64() > 19.0);
    let longest = queued.map(|row| row.sample.queued.as_u64()).max().expect("samples");
    assert!(longest < 100_000, "{longest}");
}

#[test]
fn a_window_follows_the_allocation() {
    follow_the_allocation(FOLLOWING);
}

#[test]
fn the_transport_s_pace_follows_the_allocation() {
    let text = FOLLOWING
        .replace("transport = \"tcp\"\ntcp = \"cross\"\nfollow_allocation = true", "satpep = { link_updates = true }");
    assert!(text != FOLLOWING);
    follow_the_allocation(&text);
}

/// One file after the other, a little more than the carrier takes. Slots are short, so that little waits for them.
const GENERATIONS: [&str; 8] = [
    "carrier.return.superframe=10ms",
    "link.one.forward={ dama = { carrier = \"return\", cra = \"8Mbit/s\", every = \"10ms\" }, queue = \"unlimited\" }",
    "link.two.forward.dama.every=10ms",
    "flow.file.count=210",
    "flow.file.start={ every = \"950ms\" }",
    "flow.file.bulk={ size = \"1MB\" }",
    "stop.time=200s",
    "tcp.cross.receive_buffer_max=4MiB",
];

/// What waits for the carrier in the last 50 s, as the mean of the least in each second, in bytes; and what it has carried in all.
fn standing_queue(changes: [&str; 2]) -> (u64, u64) {
    let text = format!("{CARRIER}{FOLLOWING}");
    let changes: Vec<_> = GENERATIONS.into_iter().chain(changes).map(str::to_owned).collect();
    let loaded = scenario::load(&text, "generations.toml", &changes, &|_| Err("no files".into())).expect("sound");
    let mut simulation = Simulation::of(&loaded.scenarios[0], 1, true).expect("valid");
    simulation.run();
    let mut least = [u64::MAX; 50];
    for row in simulation.take_capacity_samples().iter().filter(|row| row.direction.index() == 2) {
        let second = (row.sample.at.as_secs_f64() as usize).checked_sub(150);
        if let Some(least) = second.and_then(|second| least.get_mut(second)) {
            *least = row.sample.queued.as_u64().min(*least);
        }
    }
    (least.iter().sum::<u64>() / 50, simulation.report().links[2].counters.delivered.bytes)
}

#[test]
fn what_may_wait_at_the_link_does_not_add_up_from_connection_to_connection() {
    for delay in ["link.one.delay=50ms", "link.one.delay=250ms"] {
        let (without, carried_without) = standing_queue([delay, "tcp.cross.capacity.target_queue=1us"]);
        let (with, carried) = standing_queue([delay, "tcp.cross.capacity.target_queue=20ms"]);
        println!("{delay}: {without} {with} B wait, {carried_without} {carried} B carried");
        assert!(with <= without + 20_000 && with < 50_000, "20 ms of 8 Mbit/s: {with} {without}");
        assert!(carried > carried_without);
    }
}

/// A file of 10 MB alone, and with requests of 20 kB beside it, over 6 Mbit/s and 550 ms.
const BESIDE_REQUESTS: [&str; 8] = [
    "carrier.return.rate=6Mbit/s",
    "link.one.delay=273ms",
    "link.one.forward={ dama = { carrier = \"return\", cra = \"6Mbit/s\", every = \"10ms\" }, queue = \"unlimited\" }",
    "link.two.forward={ rate = \"1Mbit/s\", queue = \"1BDP\" }",
    "carrier.return.superframe=10ms",
    "stop.time=60s",
    "tcp.cross.capacity.target_queue=20ms",
    "tcp.cross.receive_buffer_max=4MiB",
];
const FILE: [&str; 2] = ["flow.file.count=1", "flow.file.bulk={ size = \"10MB\" }"];

const REQUESTS: &str = r#"
[[flow]]
name = "request"
from = "client"
to = "server"
tcp = "cubic"
count = 20
start = { every = "650ms" }
bulk = { size = "20kB" }
"#;

/// How long the file and each request take; without a file only the requests.
fn times(has_file: bool, requests: &str) -> Vec<f64> {
    let (file, pair) = FOLLOWING.split_once("[tcp.cross]").expect("the file comes first");
    let file = if has_file { file } else { "" };
    let text = format!("{CARRIER}{file}{requests}[tcp.cross]{pair}");
    let changes: Vec<_> =
        BESIDE_REQUESTS.into_iter().chain(FILE.into_iter().filter(|_| has_file)).map(str::to_owned).collect();
    let loaded = scenario::load(&text, "requests.toml", &changes, &|_| Err("no files".into())).expect("sound");
    let mut simulation = Simulation::of(&loaded.scenarios[0], 1, true).expect("valid");
    simulation.run();
    let took = |flow: &sim::FlowReport| flow.end_s.expect("complete") - flow.start_s.expect("started");
    simulation.report().flows.iter().map(took).collect()
}

#[test]
fn what_requests_leave_of_their_shares_is_the_file_s() {
    let lone = REQUESTS.replace("count = 20", "count = 1");
    let idle = times(false, &lone)[0];
    let alone = times(true, &lone.replace("every = \"650ms\"", "at = \"40s\""))[0];
    let mut busy = times(true, REQUESTS);
    let file = busy.remove(0);
    busy.sort_by(f64::total_cmp);
    let median = busy[busy.len() / 2];
    println!("the file {file:.2} s, alone {alone:.2} s; a request {median:.3} s, with nothing else {idle:.3} s");
    assert!(file <= alone / 0.93, "{file} {alone}");
    // 20 ms may wait at the link, which has slots of 10 ms.
    assert!(median <= idle + 0.035, "{median} {idle}");
}

#[test]
fn a_pair_follows_no_allocation_without_a_carrier() {
    let text = format!("{CARRIER}{FOLLOWING}")
        .replace("nodes = [\"one\", \"hub\"]\n", "nodes = [\"hub\", \"server\"]\n")
        .replace("\"hub\", \"server\"]\n[[carrier]]", "\"hub\", \"server\", \"far\"]\n[[carrier]]")
        .replace("to = \"server\"", "to = \"far\"")
        .replace("[record]", "[[link]]\nname = \"beyond\"\nbetween = [\"server\", \"far\"]\n[record]");
    let loaded = scenario::load(&text, "allocation.toml", &[], &|_| Err("no files".into())).expect("sound");
    let error = Simulation::of(&loaded.scenarios[0], 1, false).expect_err("no carrier").to_string();
    assert!(error.contains("pep") && error.contains("dama"), "{error}");
}

#[test]
fn faults_name_the_carrier_and_what_is_wrong() {
    let ping = "[[flow]]\nname = \"ping\"\nfrom = \"one\"\nto = \"hub\"\nping = {}\n";
    let faults = |changes: &[&str]| {
        let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
        let loaded = scenario::load(&format!("{CARRIER}{ping}"), "dama.toml", &changes, &|_| Err("no files".into()));
        loaded.expect_err("a fault").0.join("\n")
    };
    for (changes, expected) in [
        (&["link.one.forward.dama.carrier=retrun"][..], "did you mean return?"),
        (&["link.one.forward.dama.cra=5Mbit/s", "link.two.forward.dama.cra=5Mbit/s"], "dama.cra"),
        (&["link.one.forward.dama.every=300ms"], "dama.every"),
        (&["link.one.forward.rate=1Mbit/s"], "dama"),
        (&["carrier.return.slot=4B"], "slot"),
        (&["carrier.return.superframe=1min"], "superframe"),
        (&["carrier.return.rbdc_timeout=0"], "from 1 to 1000"),
        (&["carrier.return.fcaa=true"], "did you mean fca?"),
        (&["gateway=[{name=\"g\",nodes=[\"one\",\"hub\"],follow_allocation=true}]"], "gateway.g.follow_allocation"),
    ] {
        let found = faults(changes);
        assert!(found.contains(expected), "{changes:?}: {found}");
    }
}

#[test]
fn recording_changes_nothing_and_equal_seeds_give_equal_results() {
    let lossy = FOLLOWING.replace("follow_allocation = true", "follow_allocation = true\n[seeds]\nfirst = 1");
    let runs = [true, true, false].map(|recording| {
        let mut simulation = Simulation::of(&scenario(&lossy), 3, recording).expect("valid");
        simulation.run();
        simulation.report()
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].carriers, runs[2].carriers);
    assert_eq!(runs[0].flows, runs[2].flows);
    let found = run(&lossy);
    assert!(!found.capacity.is_empty() && !found.flows.is_empty());
}
