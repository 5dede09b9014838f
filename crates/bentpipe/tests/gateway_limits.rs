//! What happens at the limits of a gateway's host: ports, descriptors, memory, the queue of connections that wait to be accepted. Where
//! the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use kernel::network::set_sysctls;
use lab::load::{Client, Order, Tally};
use lab::{Family, Satellite};
use link::LinkConfig;
use pair::{CLEAR, End, Pair, TLS, echoes, pattern};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::Rate;

/// Of both transports, in clear and encrypted.
const TRANSPORTS: [&str; 3] = ["", CLEAR, TLS];

fn with_transport(settings: &'static str) -> Option<Pair> {
    if settings.is_empty() { Pair::new() } else { Pair::with_tcp_transport(settings) }
}

/// A server for thousands, until the test ends.
fn serve_many(pair: &Pair) -> SocketAddr {
    let address = SocketAddr::new(pair.server().host_address(Family::V4), 7);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let serve = move || lab::load::serve(&[address], |_| ready.send(()).unwrap()).unwrap();
    drop(pair.server().host.spawn("server", serve).unwrap());
    is_ready.recv().unwrap();
    address
}

/// So many clients, begun at so many a second; each is gone when it has had its answer.
fn clients(pair: &Pair, server: SocketAddr, connections: u64, per_second: u32) -> JoinHandle<Option<Tally>> {
    kernel::process::raise_open_files().unwrap();
    let order = Order::Rate { connections, per_second, bytes: 100 };
    let run = move || Client::new(vec![server]).unwrap().carry_out(order).unwrap();
    pair.client().host.spawn("clients", run).unwrap()
}

fn assert_all_answered(pair: &Pair, clients: JoinHandle<Option<Tally>>) {
    let tally = clients.join().unwrap().unwrap();
    assert!(tally.is_complete(), "{tally:?}\n{}\n{}", brief(pair, End::Hub), brief(pair, End::Terminal));
}

/// What a gateway has counted.
fn brief(pair: &Pair, end: End) -> String {
    let status = pair.status(end);
    format!("{} {}", status["connections"], status["satellite"])
}

#[test]
fn where_the_ports_are_used_up_every_client_is_served_all_the_same() {
    for settings in [CLEAR, TLS] {
        let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
        set_sysctls(&pair.client().gateway, &[("ipv4/ip_local_port_range", "40000 40099")]).unwrap();
        // Each of the client's has a partner for the connection to the server.
        set_sysctls(&pair.client().host, &[("ipv4/ip_local_port_range", "32768 33791")]).unwrap();
        pair.sections = "[tcp]\nwarm_connections = 4";
        let pair = pair.start_both("");
        let server = serve_many(&pair);
        // Ports are taken once for each server: a connection that ended leaves its own to another at once.
        (0..300).for_each(|_| echoes(&mut pair.connect(server), b"served"));
        assert_eq!((pair.count(End::Terminal, "accepted"), pair.opened("direct")), (300, 0));
        let hold = |_| {
            let mut stream = pair.connect(server);
            echoes(&mut stream, b"served");
            stream
        };
        let mut held: Vec<_> = (0..200).map(hold).collect();
        held.iter_mut().for_each(|stream| echoes(stream, b"still there"));
        assert!(pair.opened("direct") > 0, "{}", brief(&pair, End::Terminal));
        pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
        let accepted = pair.count(End::Terminal, "accepted");
        echoes(&mut pair.connect(server), b"end to end");
        assert_eq!(pair.count(End::Terminal, "accepted"), accepted);
        assert_eq!((pair.count(End::Terminal, "unavailable"), pair.count(End::Terminal, "reset")), (0, 0));
    }
}

/// Of connections that came while the queue was full.
fn listen_overflows(pair: &Pair, end: End) -> u64 {
    let output = pair.site(end).gateway.command("cat").arg("/proc/net/netstat").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next().unwrap().split_whitespace();
    let value = names.zip(lines.next().unwrap().split_whitespace()).find(|(name, _)| *name == "ListenOverflows");
    value.unwrap().1.parse().unwrap()
}

#[test]
fn a_burst_waits_to_be_accepted_in_a_queue_as_long_as_the_host_allows() {
    const BURST: u64 = 6_000;
    let Some(pair) = Pair::up("") else { return };
    let server = serve_many(&pair);
    // Linux has 4,096.
    let host = &pair.client().gateway;
    let raised = host.command("cat").arg("/proc/sys/net/core/somaxconn").output().unwrap();
    assert_eq!(String::from_utf8(raised.stdout).unwrap().trim(), "32768");
    // What an operator changes counts while the gateway runs, which looks each second. The queue's length is the third figure.
    for value in ["4096", "8192"] {
        set_sysctls(host, &[("core/somaxconn", value)]).unwrap();
        pair.wait_for(|pair| {
            let listeners = pair.output(End::Terminal, "ss", "-Hltn sport = :4501");
            listeners.lines().all(|line| line.split_whitespace().nth(2) == Some(value)) && !listeners.is_empty()
        });
    }
    pair.signal(End::Terminal, "-STOP");
    let clients = clients(&pair, server, BURST, 100_000);
    std::thread::sleep(Duration::from_millis(800));
    pair.signal(End::Terminal, "-CONT");
    assert_all_answered(&pair, clients);
    assert_eq!(listen_overflows(&pair, End::Terminal), 0, "a SYN that finds no place is sent again after a second");
    assert_eq!(pair.count(End::Terminal, "accepted"), BURST);
}

/// What a gateway may have of descriptors in the tests that follow.
const FEW: usize = 640;
const WITH_FEW: &[&str] = &["prlimit", "--nofile=640"];

/// Has the gateway at `end` run with few descriptors, and the other one as ever.
fn with_few_at(end: End, settings: &'static str) -> Option<Pair> {
    let mut pair = with_transport(settings)?;
    for one in [End::Hub, End::Terminal] {
        pair.runner.within = if one == end { WITH_FEW } else { &[] };
        pair.start(one, "");
    }
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    Some(pair)
}

#[test]
fn beyond_its_descriptors_connections_go_end_to_end_at_either_gateway() {
    for end in [End::Terminal, End::Hub] {
        for settings in TRANSPORTS {
            let Some(pair) = with_few_at(end, settings) else { return };
            serves_beyond_descriptors(&pair, end, if settings.is_empty() { FEW } else { FEW / 2 });
        }
    }
}

/// Whether the gateway at `end`, which has few descriptors, uses so many that new connections are to go end to end.
fn is_short(pair: &Pair, end: End) -> bool {
    let pid = pair.running[end as usize].as_ref().unwrap().id();
    let numbers = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let numbers = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u64>().ok());
    numbers.max() >= Some(gateway::usable_descriptors(FEW as u64))
}

/// Serves more clients at once than the gateway at `end` has descriptors for, which is enough for `most`.
fn serves_beyond_descriptors(pair: &Pair, end: End, most: usize) {
    let server = serve_many(pair);
    let connect = |at: usize| -> TcpStream {
        let mut stream = pair.connect(server);
        echoes(&mut stream, b"served");
        // The firewall has to know in time.
        let begun = Instant::now();
        let is_late = || is_short(pair, end) && pair.sets(End::Terminal).contains("elements");
        while at > most * 7 / 8 && begun.elapsed() < Duration::from_secs(3) && is_late() {
            std::thread::sleep(Duration::from_millis(10));
        }
        stream
    };
    let mut held: Vec<_> = (0..most + 60).map(connect).collect();
    let accepted = pair.count(End::Terminal, "accepted");
    assert!(accepted < most as u64, "{accepted} of {most}");
    held.iter_mut().for_each(|stream| echoes(stream, b"still there"));
    for end in [End::Hub, End::Terminal] {
        assert_eq!((pair.count(end, "unavailable"), pair.count(end, "reset")), (0, 0), "{}", brief(pair, end));
    }
    drop(held);
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements"));
    echoes(&mut pair.connect(server), b"accelerated again");
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted + 1);
}

#[test]
fn a_far_gateway_without_descriptors_makes_the_connections_that_came_too_soon_when_others_end() {
    for settings in TRANSPORTS {
        let Some(pair) = with_few_at(End::Hub, settings) else { return };
        let server = serve_many(&pair);
        assert_all_answered(&pair, clients(&pair, server, 2_000, 100_000));
    }
}

#[test]
fn thousands_may_be_in_their_handshakes_at_once() {
    let way = LinkConfig::new(Rate::from_bps(500_000_000), units::Duration::from_millis(200));
    let Some(mut pair) = pair::across(Satellite { forward: way.clone(), return_link: way }) else { return };
    pair.settings = TLS;
    pair.hub_initiates = true;
    let pair = pair.start_both("");
    let server = serve_many(&pair);
    assert_all_answered(&pair, clients(&pair, server, 5_000, 100_000));
    assert_eq!(pair.rejected("too_many"), 0, "{}", brief(&pair, End::Hub));
}

#[test]
fn where_readers_that_stall_hold_the_memory_connections_go_end_to_end_until_they_read() {
    let Some(mut pair) = Pair::new() else { return };
    pair.settings = "memory = \"1MiB\"\nhost_buffer = \"64KiB\"";
    let pair = pair.start_both("");
    let talks = pair.serve(Family::V4, 8, |mut stream| {
        std::thread::spawn(move || while stream.write_all(&[7; 65_536]).is_ok() {});
    });
    let server = serve_many(&pair);
    let mut before = pair.connect(server);
    echoes(&mut before, b"accelerated");
    // How much readers that have stopped hold depends on what the others held when each last read: some eight hold little, the next do not.
    let bypasses = || [End::Hub, End::Terminal].iter().all(|end| !pair.sets(*end).contains("elements"));
    let mut stalled: Vec<TcpStream> = Vec::new();
    for _ in 0..8 {
        stalled.clear();
        stalled.extend((0..8).map(|_| pair.connect(talks)));
        let begun = Instant::now();
        while !bypasses() && begun.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if bypasses() {
            break;
        }
    }
    assert!(bypasses(), "{}\n{}", pair.status(End::Hub), pair.status(End::Terminal));
    let accepted = pair.count(End::Terminal, "accepted");
    (0..20).for_each(|_| echoes(&mut pair.connect(server), &pattern(1, 10_000)));
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted, "they go end to end");
    drop(stalled);
    for end in [End::Hub, End::Terminal] {
        pair.wait_for(|pair| pair.sets(end).contains("elements"));
    }
    echoes(&mut pair.connect(server), &pattern(1, 10_000));
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted + 1);
    echoes(&mut before, b"still there");
}

/// A pipe for the log of the terminal's gateway, from which nothing is read yet.
fn stalled_log(pair: &Pair) -> File {
    let path = pair.config(End::Terminal).with_extension("log");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Opened for both, so that neither end waits for the other.
    File::options().read(true).write(true).open(&path).unwrap()
}

/// A terminal after Ctrl-S, a log collector that hangs.
#[test]
fn a_reader_of_the_log_that_stalls_holds_nothing_up_and_learns_how_much_is_lost() {
    let Some(mut pair) = Pair::new() else { return };
    pair.runner.logged = Some("trace");
    let log = stalled_log(&pair);
    let pair = pair.start_both("");
    let server = serve_many(&pair);
    // Each logs some lines: together far more than wait.
    let tally = clients(&pair, server, 6_000, 1_000).join().unwrap().unwrap();
    assert_eq!(tally.answered, 6_000, "{tally:?}");
    assert!(!pair.status(End::Terminal).is_null());
    let mut lines = BufReader::new(log).lines().map(Result::unwrap);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lost = lines.find(|line| line.contains("log lines dropped")).unwrap();
        done.send(lost).unwrap();
    });
    let mut clients = std::iter::repeat_with(|| pair.connect(server));
    let lost = loop {
        // What is said next finds room.
        drop(clients.next());
        if let Ok(lost) = is_done.recv_timeout(Duration::from_millis(100)) {
            break lost;
        }
    };
    let line: serde_json::Value = serde_json::from_str(&lost).unwrap();
    assert!(line["level"] == "WARN" && line["fields"]["lines"].as_u64() > Some(0), "{lost}");
}
