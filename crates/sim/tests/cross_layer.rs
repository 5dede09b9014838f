//! Windows that the link dictates, of connections that come and go.

use sim::scenario;

/// A file each second, a little more than the link carries, beside ten at first. Slots are short, so that little waits for them.
const GENERATIONS: &str = r#"
version = 1
nodes = ["client", "one", "hub", "server"]
[[carrier]]
name = "return"
rate = "8Mbit/s"
superframe = "10ms"
[[link]]
name = "lan"
between = ["client", "one"]
rate = "100Mbit/s"
delay = "1ms"
queue = "unlimited"
[[link]]
name = "one"
between = ["one", "hub"]
delay = "50ms"
forward = { dama = { carrier = "return", cra = "8Mbit/s" }, queue = "unlimited" }
reverse = { rate = "20Mbit/s", queue = "1BDP" }
[[link]]
name = "wan"
between = ["hub", "server"]
rate = "100Mbit/s"
delay = "1ms"
queue = "unlimited"
[[flow]]
name = "first"
from = "client"
to = "server"
tcp = "cubic"
count = 10
start = { spread = "1s" }
bulk = { size = "1MB" }
[[flow]]
name = "next"
from = "client"
to = "server"
tcp = "cubic"
count = 200
start = { at = "1s", every = "1s" }
bulk = { size = "1MB" }
[tcp.told]
profile = "linux"
control = "cross-layer"
mss = "1448B"
receive_buffer = "4MiB"
receive_buffer_max = "4MiB"
send_buffer = "4MiB"
capacity = { rate = "8Mbit/s", rtt = "100ms", connections = 1, queue = "20ms" }
[[gateway]]
name = "pep"
nodes = ["one", "hub"]
protocol = "tcp"
tcp = "told"
told = true
[stop]
time = "200s"
[record]
capacity = true
"#;

/// What waits for the carrier in the last 50 s, as the mean of the least in each second, in bytes; and what it has carried in all.
fn standing_queue(changes: &[&str]) -> (u64, u64) {
    let changes: Vec<_> = changes.iter().map(|&change| change.to_owned()).collect();
    let loaded = scenario::load(GENERATIONS, "generations.toml", &changes, &|_| Err("no files".into())).expect("sound");
    let mut simulation = loaded.scenarios[0].simulation(1, true).expect("valid");
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
        let (without, carried_without) = standing_queue(&[delay, "tcp.told.capacity.queue=1us"]);
        let (with, carried) = standing_queue(&[delay]);
        println!("{delay}: {without} {with} B wait, {carried_without} {carried} B carried");
        assert!(with <= without + 20_000 && with < 50_000, "20 ms of 8 Mbit/s: {with} {without}");
        assert!(carried > carried_without);
    }
}
