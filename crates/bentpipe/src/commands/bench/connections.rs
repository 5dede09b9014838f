//! As many connections open at once as the machine lets a gateway have, and then new ones at a rate, by each transport.

use super::{Args, Findings, json, table};
use crate::output::Failure;
use lab::load::{End, Order, Tally};
use lab::{GatewayOptions, Gateways, Topology, Transport};
use serde::Serialize;
use std::fmt::Display;
use std::net::SocketAddr;
use units::{Bytes, Duration, Rate};

/// The transports, whether they go in clear, and how many descriptors a gateway needs for a connection.
const TRANSPORTS: [(&str, Transport, bool, u64); 3] = [
    ("satpep", Transport::Satpep, false, 1),
    ("tcp, clear", Transport::Tcp, true, 2),
    ("tcp, TLS", Transport::Tcp, false, 2),
];
/// As many as are open at once where the machine allows it.
pub const MAX_OPEN: u64 = 19_000;
/// Descriptors that a gateway needs beside those of connections, with pipes that the `tcp` transport uses.
const BESIDE: u64 = 320;
/// Where the servers listen: a client has so many ports for each.
const PORTS: [u16; 2] = [7001, 7002];
/// Bytes that a connection carries there and back: when it is new, and when it has been open.
const GREETING: usize = 64;
const MESSAGE: usize = 1_000;
const RATE: Rate = Rate::from_bps(1_000_000_000);
const RTT: Duration = Duration::from_millis(4);
/// How long connections may take to end once their client has gone.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// What one transport has come to. Of two figures the first is the hub's, the second the terminal's.
#[derive(Serialize)]
struct Row {
    transport: &'static str,
    /// Connections that were opened and kept.
    open: Tally,
    /// Of those, how many went through the gateways rather than end to end.
    relayed: u64,
    /// The open ones, all used at once.
    used: Tally,
    /// New ones, each closed when it had its answer.
    new: Tally,
    /// Processor time of both gateways for each of these.
    cpu_us_per_connection: f64,
    /// Memory for each open connection.
    hub_bytes_per_idle_stream: f64,
    terminal_bytes_per_idle_stream: f64,
    /// Descriptors with all of them open.
    hub_descriptors: u64,
    terminal_descriptors: u64,
}

impl Row {
    fn is_complete(&self) -> bool {
        [&self.open, &self.used, &self.new].into_iter().all(Tally::is_complete) && self.relayed == self.open.connections
    }
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let mut rows = Vec::new();
    if !TRANSPORTS.iter().any(|(transport, ..)| transport.contains(&args.only)) {
        let names = TRANSPORTS.map(|(transport, ..)| transport).join("; ");
        return Err(Failure::usage(format!("--only {:?} names no row; there are: {names}", args.only)));
    }
    for (transport, kind, clear, descriptors) in
        TRANSPORTS.into_iter().filter(|(transport, ..)| transport.contains(&args.only))
    {
        let most = connections(args, descriptors)?;
        let options = GatewayOptions {
            transport: kind,
            clear,
            // Beyond a part of those, connections go end to end.
            max_streams: Some((2 * most.max(args.per_second.into())).min(1_000_000) as u32),
            ..args.experiment()?.gateways
        };
        rows.push(measure(args, transport, most, &options)?);
        tracing::info!(transport, "measured");
    }
    let header = ["transport", "open", "new, in a second", "answered", "refused, reset, none", "first answer", "p99"];
    let mut table = table(&[&header[..], &["processor, both", "hub, each", "terminal, each", "descriptors"]].concat());
    for row in &rows {
        table.add_row(cells(row));
    }
    let claim = "connections open at once, all used; then new ones at a rate: every one answered (measured once; times are those of new ones)";
    let is_complete = rows.iter().all(Row::is_complete);
    let findings = Findings { claim, table, rows: json(&rows)? };
    match is_complete {
        true => Ok(findings),
        false => Err(Failure::failed(format!("not every connection was relayed and answered\n{}", findings.table))),
    }
}

/// How many are to be open at once: as many as a gateway has descriptors for, unless `--open` says otherwise.
fn connections(args: &Args, descriptors_each: u64) -> Result<u64, Failure> {
    let limit = kernel::process::raise_open_files()?;
    let most = gateway::usable_descriptors(limit).saturating_sub(BESIDE) / descriptors_each;
    let wanted = args.open.unwrap_or(MAX_OPEN);
    if wanted > most {
        tracing::warn!(wanted, most, limit, "the limit on open files (ulimit -Hn) lets a gateway have fewer");
    }
    Ok(wanted.min(most))
}

fn cells(row: &Row) -> Vec<String> {
    let all = [&row.open, &row.used, &row.new];
    let sum = |of: fn(&Tally) -> u64| all.into_iter().map(of).sum::<u64>();
    let pair = |one: &dyn Display, other: &dyn Display| format!("{one}, {other}");
    vec![
        row.transport.to_owned(),
        row.relayed.to_string(),
        format!("{:.0}", row.new.begun_per_second),
        format!("{} of {}", sum(|tally| tally.answered), sum(|tally| tally.connections)),
        pair(
            &sum(|tally| tally.refused + tally.failed),
            &pair(&sum(|tally| tally.reset), &sum(|tally| tally.unanswered)),
        ),
        format!("{:.2} ms", row.new.median_ms),
        format!("{:.1} ms", row.new.p99_ms),
        format!("{:.0} us", row.cpu_us_per_connection),
        Bytes::new(row.hub_bytes_per_idle_stream as u64).to_string(),
        Bytes::new(row.terminal_bytes_per_idle_stream as u64).to_string(),
        pair(&row.hub_descriptors, &row.terminal_descriptors),
    ]
}

fn measure(args: &Args, transport: &'static str, most: u64, options: &GatewayOptions) -> Result<Row, Failure> {
    let base = args.experiment()?;
    let topology = Topology::new(1, None)?;
    let gateways = Gateways::start(&base.program, &topology, [RATE; 2], RTT, options)?;
    let server = topology.hub.host_address(base.workload.family);
    let addresses = PORTS.map(|port| SocketAddr::new(server, port));
    let _server = End::start(&topology.hub.host, &base.program, &["load", "--serve"], &addresses)?;
    let client = || End::start(&topology.terminals[0].host, &base.program, &["load"], &addresses);
    let give = |client: &mut End, order| client.order(order).and_then(|()| client.tally());

    let before = gateways.resident_memory()?;
    let mut keeper = client()?;
    let open = give(&mut keeper, Order::Open { connections: most, bytes: GREETING })?;
    let relayed = relayed(&gateways)?;
    let (after, descriptors) = (gateways.resident_memory()?, gateways.descriptors()?);
    let used = give(&mut keeper, Order::Use { bytes: MESSAGE })?;
    drop(keeper);
    wait_until_none_is_left(&gateways)?;
    let rate = Order::Rate {
        connections: u64::from(args.per_second) * u64::from(args.seconds),
        per_second: args.per_second,
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
fn relayed(gateways: &Gateways) -> Result<u64, Failure> {
    let status = gateways.status()?;
    Ok(status[1]["streams"].as_array().map_or(0, Vec::len) as u64)
}

fn wait_until_none_is_left(gateways: &Gateways) -> Result<(), Failure> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match relayed(gateways)? {
            0 => return Ok(()),
            left if std::time::Instant::now() > deadline => {
                return Err(Failure::failed(format!(
                    "{left} connections are left {} s after their client",
                    PATIENCE.as_secs()
                )));
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    }
}
