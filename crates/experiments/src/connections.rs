//! As many connections open at once as the machine lets a gateway have, and then new ones at a rate, by each transport.

use crate::{Error, Setup};
use lab::load::{End, Order, Tally};
use lab::{GatewayOptions, Gateways, Topology, Transport};
use serde::Serialize;
use std::net::SocketAddr;
use units::{Duration, Rate};

/// What is claimed.
pub const CLAIM: &str = "connections open at once, all used; then new ones at a rate: every one answered (measured once; times are those of new ones)";

/// The transports, whether they go in clear, and how many descriptors a gateway needs for a connection.
const TRANSPORTS: [(&str, Transport, bool, u64); 3] = [
    ("satpep", Transport::Satpep, false, 1),
    ("tcp, clear", Transport::Tcp, true, 2),
    ("tcp, TLS", Transport::Tcp, false, 2),
];
/// As many as are open at once where the machine allows it.
const MAX_OPEN: u64 = 19_000;
/// Descriptors that a gateway needs beside those of connections, with pipes that the `tcp` transport uses.
const BESIDE: u64 = 320;
/// Where the servers listen: a client has so many ports for each.
const PORTS: [u16; 2] = [7001, 7002];
/// Bytes that a connection carries there and back: when it is new, and when it has been open.
const GREETING: usize = 64;
const MESSAGE: usize = 1_000;
const RATE: Rate = Rate::from_bps(1_000_000_000);
const RTT: Duration = Duration::from_millis(4);
/// How long connections are idle before the gateways' memory is measured: a gateway gives freed memory back in its first second at rest.
const REST: std::time::Duration = std::time::Duration::from_secs(3);
/// How long connections may take to end once their client has gone.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// The connections of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many are open at once; `None` is 19,000, or as many as the limit on open files lets a gateway have.
    pub open: Option<u64>,
    /// How many new ones are opened in a second.
    pub per_second: u32,
    /// For how many seconds.
    pub seconds: u32,
}

/// The result of one transport.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub transport: &'static str,
    /// Connections that were opened and kept.
    pub open: Tally,
    /// Of those, how many went through the gateways rather than end to end.
    pub relayed: u64,
    /// The open ones, all used at once.
    pub used: Tally,
    /// New ones, each closed when it had its answer.
    pub new: Tally,
    /// Processor time of both gateways for each of these.
    pub cpu_us_per_connection: f64,
    /// Memory of the hub's gateway for each open connection.
    pub hub_bytes_per_idle_stream: f64,
    /// Memory of the terminal's gateway for each open connection.
    pub terminal_bytes_per_idle_stream: f64,
    /// Descriptors of the hub's gateway with all of them open.
    pub hub_descriptors: u64,
    /// Descriptors of the terminal's gateway with all of them open.
    pub terminal_descriptors: u64,
}

impl Row {
    /// Whether every connection was relayed and answered.
    pub fn is_complete(&self) -> bool {
        [&self.open, &self.used, &self.new].into_iter().all(Tally::is_complete) && self.relayed == self.open.connections
    }
}

/// The names of the rows.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRANSPORTS.into_iter().map(|(transport, ..)| transport)
}

/// Measures each row whose name contains `only`.
///
/// # Errors
/// If the machine lacks something, or the gateways or the ends of connections fail. Connections that fail are counted.
pub fn run(setup: &Setup, load: &Load, only: &str) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (transport, kind, clear, descriptors) in TRANSPORTS.into_iter().filter(|(name, ..)| name.contains(only)) {
        let most = connections(load, descriptors)?;
        let options = GatewayOptions {
            transport: kind,
            clear,
            // Beyond a part of those, connections go end to end.
            max_streams: Some((2 * most.max(load.per_second.into())).min(1_000_000) as u32),
            ..setup.gateways.clone()
        };
        rows.push(measure(setup, load, transport, most, &options)?);
        tracing::info!(transport, "measured");
    }
    Ok(rows)
}

/// Measures the row of `satpep`.
pub(crate) fn measure_satpep(setup: &Setup, load: &Load) -> Result<Row, Error> {
    let rows = run(setup, load, TRANSPORTS[0].0)?;
    rows.into_iter().next().ok_or_else(|| Error::failed("no connections were measured"))
}

/// How many are to be open at once: as many as a gateway has descriptors for, unless fewer are wanted.
fn connections(load: &Load, descriptors_each: u64) -> Result<u64, Error> {
    let limit = kernel::process::raise_open_files()?;
    let most = gateway::usable_descriptors(limit).saturating_sub(BESIDE) / descriptors_each;
    let wanted = load.open.unwrap_or(MAX_OPEN);
    if wanted > most {
        tracing::warn!(wanted, most, limit, "the limit on open files (ulimit -Hn) lets a gateway have fewer");
    }
    if most == 0 {
        return Err(Error::failed(format!(
            "the limit on open files (ulimit -Hn) of {limit} leaves a gateway none for connections"
        )));
    }
    Ok(wanted.min(most))
}

fn measure(
    setup: &Setup,
    load: &Load,
    transport: &'static str,
    most: u64,
    options: &GatewayOptions,
) -> Result<Row, Error> {
    let topology = Topology::new(1, None)?;
    let gateways = Gateways::start(&setup.program, &topology, [RATE; 2], RTT, options)?;
    let server = topology.hub.host_address(setup.gateways.family);
    let addresses = PORTS.map(|port| SocketAddr::new(server, port));
    let _server = End::start(&topology.hub.host, &setup.program, &["load", "--serve"], &addresses)?;
    let client = || End::start(&topology.terminals[0].host, &setup.program, &["load"], &addresses);
    let give = |client: &mut End, order| client.order(order).and_then(|()| client.tally());

    let before = gateways.resident_memory()?;
    let mut keeper = client()?;
    let open = give(&mut keeper, Order::Open { connections: most, bytes: GREETING })?;
    let relayed = relayed(&gateways)?;
    std::thread::sleep(REST);
    let (after, descriptors) = (gateways.resident_memory()?, gateways.descriptors()?);
    let used = give(&mut keeper, Order::Use { bytes: MESSAGE })?;
    drop(keeper);
    wait_until_none_is_left(&gateways)?;
    let rate = Order::Rate {
        connections: u64::from(load.per_second) * u64::from(load.seconds),
        per_second: load.per_second,
        bytes: GREETING,
    };
    let cpu = gateways.cpu_time()?;
    let new = give(&mut client()?, rate)?;
    let cpu = gateways.cpu_time()? - cpu;
    let each = |index: usize| after[index].saturating_sub(before[index]) as f64 / most as f64;
    Ok(Row {
        transport,
        open,
        relayed,
        used,
        cpu_us_per_connection: cpu.as_secs_f64() * 1e6 / new.connections.max(1) as f64,
        new,
        hub_bytes_per_idle_stream: each(0),
        terminal_bytes_per_idle_stream: each(1),
        hub_descriptors: descriptors[0],
        terminal_descriptors: descriptors[1],
    })
}

/// Connections that go through the terminal now.
fn relayed(gateways: &Gateways) -> Result<u64, Error> {
    let status = gateways.status()?;
    Ok(status[1]["streams"].as_array().map_or(0, Vec::len) as u64)
}

fn wait_until_none_is_left(gateways: &Gateways) -> Result<(), Error> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match relayed(gateways)? {
            0 => return Ok(()),
            left if std::time::Instant::now() > deadline => {
                return Err(Error::failed(format!(
                    "{left} connections are left {} s after their client",
                    PATIENCE.as_secs()
                )));
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    }
}
