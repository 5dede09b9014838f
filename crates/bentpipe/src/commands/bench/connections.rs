//! Thousands of connections that are open at once, and then used.

use super::{Args, Findings, json, table};
use crate::output::Failure;
use lab::transfer::{Content, SocketOptions, TransferError, accept, connect, listen};
use lab::{Gateways, Topology};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;
use units::{Bytes, Duration, Rate};

const CONNECTIONS: usize = 5_000;
/// Bytes that each connection carries there and back.
const MESSAGE: usize = 1_000;
const PORT: u16 = 7;
const RATE: Rate = Rate::from_bps(1_000_000_000);
const RTT: Duration = Duration::from_millis(4);

#[derive(Serialize)]
struct Measured {
    connections: usize,
    open_s: f64,
    use_s: f64,
    verified: usize,
    hub_bytes_per_idle_stream: f64,
    terminal_bytes_per_idle_stream: f64,
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let measured = measure(args)?;
    let mut table = table(&["connections", "opened in", "used in", "verified", "hub, each", "terminal, each"]);
    table.add_row([
        measured.connections.to_string(),
        format!("{:.2} s", measured.open_s),
        format!("{:.2} s", measured.use_s),
        measured.verified.to_string(),
        Bytes::new(measured.hub_bytes_per_idle_stream as u64).to_string(),
        Bytes::new(measured.terminal_bytes_per_idle_stream as u64).to_string(),
    ]);
    let claim = "5,000 connections are open at once, then each carries 1 kB there and back, verified (measured once)";
    let complete = measured.verified == CONNECTIONS;
    let findings = Findings { claim, table, rows: json(&[measured])? };
    if complete { Ok(findings) } else { Err(Failure::failed(format!("not every echo was right\n{}", findings.table))) }
}

fn measure(args: &Args) -> Result<Measured, Failure> {
    let base = args.experiment()?;
    let topology = Topology::new(1, None)?;
    let gateways = Gateways::start(&base.program, &topology, [RATE; 2], RTT, &base.gateways)?;
    let (client, server) = (&topology.terminals[0].host, &topology.hub);
    let options = SocketOptions { timeout: Duration::from_secs(60), ..SocketOptions::default() };
    let address = SocketAddr::new(server.host_address(base.workload.family), PORT);
    let listener: TcpListener = server.host.run(|| listen(address, &options))??;
    socket2::SockRef::from(&listener).set_read_timeout(Some(options.timeout.into())).map_err(Failure::failed)?;

    let before = gateways.resident_memory()?;
    let start = Instant::now();
    let (clients, servers) = std::thread::scope(|scope| -> Result<_, Failure> {
        let accepting = scope.spawn(|| {
            (0..CONNECTIONS)
                .map(|_| accept(&listener, &options).map(|(stream, ..)| stream))
                .collect::<Result<Vec<_>, _>>()
        });
        let connect_one = || connect(address, &options).map(|(stream, _)| stream);
        let clients = client.run(|| (0..CONNECTIONS).map(|_| connect_one()).collect::<Result<Vec<_>, _>>())??;
        let servers = accepting.join().map_err(|_| Failure::failed("the accepting thread panicked"))??;
        Ok((clients, servers))
    })?;
    let open_s = start.elapsed().as_secs_f64();
    let after = gateways.resident_memory()?;

    let start = Instant::now();
    let verified = use_all(clients, servers)?;
    let each = |index: usize| after[index].saturating_sub(before[index]) as f64 / CONNECTIONS as f64;
    Ok(Measured {
        connections: CONNECTIONS,
        open_s,
        use_s: start.elapsed().as_secs_f64(),
        verified,
        hub_bytes_per_idle_stream: each(0),
        terminal_bytes_per_idle_stream: each(1),
    })
}

/// Sends a message of its own over every connection, has it echoed, and counts the echoes that are right.
fn use_all(mut clients: Vec<TcpStream>, mut servers: Vec<TcpStream>) -> Result<usize, Failure> {
    let broken = |source| TransferError::Broken { moment: "while it was used", bytes: Bytes::ZERO, source };
    std::thread::scope(|scope| {
        let echoing = scope.spawn(move || {
            servers.iter_mut().try_for_each(|stream| {
                let mut message = [0; MESSAGE];
                stream.read_exact(&mut message)?;
                stream.write_all(&message)
            })
        });
        for (index, stream) in clients.iter_mut().enumerate() {
            stream.write_all(&message(index)?).map_err(broken)?;
        }
        let mut verified = 0;
        for (index, stream) in clients.iter_mut().enumerate() {
            let mut echo = [0; MESSAGE];
            stream.read_exact(&mut echo).map_err(broken)?;
            verified += usize::from(echo == message(index)?);
        }
        echoing.join().map_err(|_| Failure::failed("the echoing thread panicked"))?.map_err(broken)?;
        Ok(verified)
    })
}

fn message(index: usize) -> Result<[u8; MESSAGE], TransferError> {
    let mut message = [0; MESSAGE];
    Content::random(Bytes::from(MESSAGE), index as u64).read(&mut message)?;
    Ok(message)
}
