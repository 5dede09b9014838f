//! Two gateways around a wire: what ordinary TCP programs see, and what is left when a gateway stops, dies or comes back.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

use lab::{Family, Site, Topology};
use satpep::PrivateKey;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No test waits longer for anything; most wait a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

struct Pair {
    topology: Topology,
    directory: tempfile::TempDir,
    /// The hub's gateway and the terminal's.
    running: [Option<Child>; 2],
    /// Added to `[gateway]` of the terminal.
    terminal_settings: &'static str,
    /// Added to `[link]` of the terminal, and sections of its own after it.
    terminal_link: &'static str,
    /// Added to `[gateway]` of both.
    settings: &'static str,
    /// What the satellite session runs over.
    outside: Family,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Hub,
    Terminal,
}

impl Pair {
    /// Hosts and routers, without gateways yet.
    fn new() -> Option<Self> {
        let topology = match Topology::new(1, None) {
            Err(lab::Error::Missing(what)) => {
                assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{what}");
                eprintln!("skipped: {what}");
                return None;
            }
            other => other.unwrap(),
        };
        Some(Self {
            topology,
            directory: tempfile::tempdir().unwrap(),
            running: [None, None],
            terminal_settings: "",
            terminal_link: "",
            settings: "",
            outside: Family::V4,
        })
    }

    /// With both gateways up; `hub_settings` are added to what the hub is told about its peer.
    fn up(hub_settings: &str) -> Option<Self> {
        Some(Self::new()?.start_both(hub_settings))
    }

    fn start_both(mut self, hub_settings: &str) -> Self {
        self.start(End::Hub, hub_settings);
        self.start(End::Terminal, "");
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        self
    }

    fn client(&self) -> &Site {
        &self.topology.terminals[0]
    }

    fn server(&self) -> &Site {
        &self.topology.hub
    }

    fn site(&self, end: End) -> &Site {
        if end == End::Hub { self.server() } else { self.client() }
    }

    fn socket(&self, end: End) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.sock", end as u8))
    }

    fn start(&mut self, end: End, peer_settings: &str) {
        let keys = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let (own, other) = if end == End::Hub { (0, 1) } else { (1, 0) };
        let (settings, link, call) = match end {
            End::Hub => ("", "", String::new()),
            End::Terminal => {
                let hub = SocketAddr::new(self.server().satellite_address(self.outside), 4500);
                (self.terminal_settings, self.terminal_link, format!("address = \"{hub}\""))
            }
        };
        let text = format!(
            "[gateway]\nprivate_key = \"{}\"\nlisten = \"[::]:4500\"\nconnect_timeout = \"3s\"\n{settings}\n{}\n\
             [link]\ninterface = \"sat\"\nrate = \"2Gbit/s\"\nrtt = \"20ms\"\noutage_limit = \"3s\"\n{link}\n\
             [intercept]\ninterfaces = [\"lan\"]\n\
             [control]\nsocket = \"{}\"\n\
             [[peer]]\nname = \"other\"\npublic_key = \"{}\"\n{call}\n{peer_settings}\n",
            keys[own].to_base64(),
            self.settings,
            self.socket(end).display(),
            keys[other].public_key(),
        );
        let config = self.directory.path().join(format!("{}.toml", end as u8));
        std::fs::write(&config, text).unwrap();
        let child = self
            .site(end)
            .gateway
            .command(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["gateway", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .spawn();
        self.running[end as usize] = Some(child.unwrap());
    }

    /// Whether the gateway at `end` has ended because the machine lacks something, rather than come up.
    fn lacks_something(&mut self, end: End) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.status(end).is_null() {
            assert!(Instant::now() < deadline);
            if let Some(status) = self.running[end as usize].as_mut().unwrap().try_wait().unwrap() {
                assert_eq!(status.code(), Some(3));
                eprintln!("skipped: see the gateway's last words");
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// SIGTERM, and wait for the end.
    fn stop(&mut self, end: End) {
        let mut child = self.running[end as usize].take().unwrap();
        // By its number: the child has not been waited for, so that nobody else can have it.
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// SIGKILL.
    fn kill(&mut self, end: End) {
        let mut child = self.running[end as usize].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn status(&self, end: End) -> Value {
        gateway::status(&self.socket(end)).unwrap_or(Value::Null)
    }

    /// Waits until `end`'s peer answers, or does not, and its firewall has followed.
    fn wait_until(&self, end: End, up: bool) {
        let deadline = Instant::now() + PATIENCE;
        while (self.status(end)["peers"][0]["state"] == "up", self.sets(end).contains("elements")) != (up, up) {
            assert!(Instant::now() < deadline, "never {up}: {}", self.status(end));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The whole answer to a request to `port` of `end`'s own host.
    fn http(&self, end: End, port: u16, request: &str, body: &str) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = patient(self.site(end).gateway.run(|| TcpStream::connect(address)).unwrap().unwrap());
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn sets(&self, end: End) -> String {
        let list = self.site(end).gateway.command("nft").args(["list", "sets"]).output().unwrap();
        String::from_utf8(list.stdout).unwrap()
    }

    fn count(&self, end: End, outcome: &str) -> u64 {
        self.status(end)["connections"][outcome].as_u64().unwrap()
    }

    /// A server on `port` that handles one connection after the other until the test ends.
    fn serve(&self, family: Family, port: u16, handle: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
        let address = SocketAddr::new(self.server().host_address(family), port);
        let listener = self.server().host.run(|| TcpListener::bind(address)).unwrap().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| handle(patient(stream.unwrap()))));
        address
    }

    fn connect(&self, address: SocketAddr) -> TcpStream {
        patient(self.try_connect(address).unwrap())
    }

    fn try_connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        self.client().host.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap()
    }

    /// The client's connection to `address` ends with a reset, perhaps before the client has seen it made.
    fn assert_reset_at(&self, address: SocketAddr) {
        match self.try_connect(address) {
            Ok(stream) => assert_reset(&mut patient(stream)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Bytes whose order matters.
fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

fn echoes(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).unwrap();
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, word);
}

/// Each connection on a thread of its own.
fn echo_all(stream: TcpStream) {
    std::thread::spawn(move || echo(stream));
}

fn assert_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0; 16]).expect_err("a reset, not an end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[test]
fn both_directions_carry_their_bytes_and_end_each_alone() {
    if let Some(pair) = Pair::up("") {
        carries_both_directions(&pair);
    }
}

#[test]
fn the_session_may_run_in_clear_and_over_ipv6() {
    let Some(mut pair) = Pair::new() else { return };
    pair.settings = "mode = \"clear\"";
    pair.outside = Family::V6;
    let pair = pair.start_both("");
    carries_both_directions(&pair);
    let peer = pair.status(End::Hub)["peers"][0]["address"].as_str().unwrap().to_owned();
    assert!(peer.parse::<SocketAddr>().unwrap().is_ipv6(), "{peer}");
}

#[test]
fn a_second_gateway_of_the_same_name_leaves_the_first_alone() {
    let Some(pair) = Pair::up("") else { return };
    let config = std::fs::read_to_string(pair.directory.path().join("1.toml")).unwrap();
    let second = pair.directory.path().join("second.toml");
    let text = config.replace("[::]:4500", "[::]:4600").replace("interfaces", "port = 4600\ninterfaces");
    std::fs::write(&second, text).unwrap();
    let mut command = pair.client().gateway.command(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(["gateway", "--config"]).arg(&second).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("a gateway of this name is running"));
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), b"still accelerated");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

fn carries_both_directions(pair: &Pair) {
    for family in [Family::V4, Family::V6] {
        let (up, down) = (pattern(1, 3_000_000), pattern(2, 2_000_000));
        let (sent, answer) = (up.clone(), down.clone());
        let (report, seen) = std::sync::mpsc::channel();
        let server = pair.serve(family, 7, move |mut stream| {
            let mut received = Vec::new();
            // The client's FIN ends its direction only: the answer is sent after it.
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&answer).unwrap();
            report.send((stream.peer_addr().unwrap(), received == sent)).unwrap();
        });
        let mut client = pair.connect(server);
        client.write_all(&up).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(received == down, "{family:?}: {} of {} bytes arrived", received.len(), down.len());
        let (peer, intact) = seen.recv_timeout(PATIENCE).unwrap();
        assert!(intact, "{family:?}: the server received something else");
        assert_eq!(peer, client.local_addr().unwrap(), "the server sees the client's address and port");
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "connected")), (2, 2));
}

#[test]
fn a_gateway_sends_at_the_rate_that_it_is_told_and_at_the_configured_one_when_told_no_longer() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "knowledge = \"told\"\n[feed]\nhttp = \"127.0.0.1:9091\"\nleast = \"1Mbit/s\"\n\
                          [metrics]\nlisten = \"127.0.0.1:9090\"";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, |mut stream| {
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let time_to_send = |bytes: usize| {
        let start = Instant::now();
        let mut client = pair.connect(server);
        client.write_all(&vec![7; bytes]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        start.elapsed().as_secs_f64()
    };
    assert!(pair.http(End::Terminal, 9091, "PUT /told", r#"{"up": "1Tbit/s"}"#).contains("expected a rate"));
    for (word, seconds) in [(r#"{"up": "8Mbit/s"}"#, 0.5), (r#"{"up": "16Mbit/s"}"#, 0.25)] {
        let answer = pair.http(End::Terminal, 9091, "PUT /told", word);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let took = time_to_send(500_000);
        assert!((0.95 * seconds..seconds + 0.4).contains(&took), "{word}: {took} s instead of {seconds} s");
    }
    let status = pair.status(End::Terminal);
    assert_eq!((&status["rate_bps"], &status["told"]["source"]), (&16_000_000.into(), &"feed".into()));
    let metrics = pair.http(End::Terminal, 9090, "GET /metrics", "");
    for line in ["bentpipe_capacity_bps 16000000", "bentpipe_told_source{source=\"feed\"} 1"] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    pair.http(End::Terminal, 9091, "PUT /told", "null");
    let deadline = Instant::now() + PATIENCE;
    while pair.status(End::Terminal)["rate_bps"] != 2_000_000_000_u64 {
        assert!(Instant::now() < deadline, "{}", pair.status(End::Terminal));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_refused_connection_is_reset_and_not_an_empty_answer() {
    let Some(pair) = Pair::up("") else { return };
    for family in [Family::V4, Family::V6] {
        let closed = SocketAddr::new(pair.server().host_address(family), 9);
        pair.assert_reset_at(closed);
    }
    assert_eq!(pair.count(End::Hub, "refused"), 2);
}

#[test]
fn a_denied_destination_is_reset_and_counted() {
    let Some(pair) = Pair::up("allow_destinations = [\"192.0.2.0/24\"]") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    pair.assert_reset_at(server);
    assert_eq!(pair.count(End::Hub, "denied"), 1);
    assert_eq!(pair.count(End::Hub, "connected"), 0);
}

#[test]
fn an_address_that_the_gateway_gains_later_is_denied_too() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    let deadline = Instant::now() + PATIENCE;
    while pair.status(End::Hub).is_null() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    let gained = SocketAddr::from(([198, 19, 200, 1], 9));
    let arguments = ["address", "add", "198.19.200.1/32", "dev", "lo"];
    assert!(pair.server().gateway.command("ip").args(arguments).status().unwrap().success());
    pair.start(End::Terminal, "");
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    while pair.count(End::Hub, "denied") == 0 {
        assert!(Instant::now() < deadline, "{}", pair.status(End::Hub));
        pair.assert_reset_at(gained);
    }
}

#[test]
fn with_confirmed_acceptance_a_client_is_refused_by_its_server() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "accept = \"confirmed\"";
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    if pair.lacks_something(End::Terminal) {
        return;
    }
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    for family in [Family::V4, Family::V6] {
        let closed = SocketAddr::new(pair.server().host_address(family), 9);
        assert_eq!(pair.try_connect(closed).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let server = pair.serve(family, 7, echo_all);
        let mut client = pair.connect(server);
        echoes(&mut client, b"confirmed");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "refused")), (2, 2));
    pair.kill(End::Terminal);
    let server = pair.serve(Family::V4, 8, echo_all);
    echoes(&mut pair.connect(server), b"nothing is held when nobody decides");
}

/// Connects to `address` with packets of this traffic class.
fn connect_marked(pair: &Pair, address: SocketAddr, traffic_class: u32) -> TcpStream {
    let connect = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        match address {
            SocketAddr::V4(_) => socket.set_tos_v4(traffic_class)?,
            SocketAddr::V6(_) => socket.set_tclass_v6(traffic_class)?,
        }
        socket.connect_timeout(&address.into(), PATIENCE)?;
        Ok::<_, std::io::Error>(socket.into())
    };
    patient(pair.client().host.run(connect).unwrap().unwrap())
}

#[test]
fn both_gateways_find_a_connections_class_by_port_and_marking() {
    let Some(mut pair) = Pair::new() else { return };
    let classes = "[[class]]\nname = \"voice\"\ndscp = [\"ef\"]\npriority = \"interactive\"\n\
                   [[class]]\nname = \"login\"\nports = [22]\nweight = 4\n";
    pair.start(End::Hub, classes);
    pair.start(End::Terminal, classes);
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    for family in [Family::V4, Family::V6] {
        for (port, traffic_class, class) in [(22, 0, "login"), (23, 0xb8, "voice"), (24, 0x88, "default")] {
            let server = pair.serve(family, port, echo_all);
            let mut client = connect_marked(&pair, server, traffic_class);
            echoes(&mut client, b"class");
            let address = client.local_addr().unwrap().to_string();
            for end in [End::Hub, End::Terminal] {
                let status = pair.status(end);
                let stream = status["streams"].as_array().unwrap().iter().find(|stream| stream["client"] == *address);
                assert_eq!(stream.unwrap()["class"], class, "{family:?} {port} {status}");
            }
        }
    }
}

#[test]
fn the_servers_reset_reaches_the_client() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, |mut stream| {
        stream.read_exact(&mut [0]).unwrap();
        // Closing with unread data sends a reset.
        stream.peek(&mut [0]).unwrap();
    });
    let mut client = pair.connect(server);
    client.write_all(b"ab").unwrap();
    assert_reset(&mut client);
}

#[test]
fn flows_that_go_end_to_end_survive_start_and_stop_and_nothing_is_left() {
    let Some(mut pair) = Pair::new() else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut old = pair.connect(server);
    echoes(&mut old, b"before");
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    pair.wait_until(End::Hub, true);
    echoes(&mut old, b"while accelerated");
    assert_eq!(pair.count(End::Terminal, "accepted"), 0);
    let mut accelerated = pair.connect(server);
    echoes(&mut accelerated, b"accelerated");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);

    pair.stop(End::Terminal);
    assert_reset(&mut accelerated);
    echoes(&mut old, b"after one has stopped");
    echoes(&mut pair.connect(server), b"end to end again");
    pair.stop(End::Hub);
    echoes(&mut old, b"after both have stopped");
    for end in [End::Hub, End::Terminal] {
        let gateway = &pair.site(end).gateway;
        let tables = gateway.command("nft").args(["list", "tables"]).output().unwrap();
        assert_eq!(String::from_utf8(tables.stdout).unwrap(), "");
        let rules = gateway.command("ip").args(["rule", "show"]).output().unwrap();
        assert!(!String::from_utf8(rules.stdout).unwrap().contains("fwmark"));
    }
}

#[test]
fn a_killed_gateway_resets_what_it_relayed_and_new_connections_go_end_to_end() {
    let Some(mut pair) = Pair::up("") else { return };
    let (report, seen) = std::sync::mpsc::channel();
    let server = pair.serve(Family::V4, 7, move |mut stream| {
        let report = report.clone();
        std::thread::spawn(move || {
            let mut word = [0; 4];
            stream.read_exact(&mut word).unwrap();
            stream.write_all(&word).unwrap();
            report.send(stream.read(&mut word).map_err(|error| error.kind())).unwrap();
        });
    });
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"ping");
    pair.kill(End::Terminal);
    assert_reset(&mut relayed);
    echoes(&mut pair.connect(server), b"next");
    // The server's side ends with a reset at the outage limit: never cleanly.
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Ok(0)), "the second client closed in order, end to end");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Err(ErrorKind::ConnectionReset)));

    // A successor cleans up and takes over.
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    echoes(&mut pair.connect(server), b"back");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn connections_bypass_a_silent_peer_and_acceleration_comes_back() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"accelerated");
    pair.kill(End::Hub);
    pair.wait_until(End::Terminal, false);
    let mut bypassing = pair.connect(server);
    echoes(&mut bypassing, b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);

    pair.start(End::Hub, "");
    pair.wait_until(End::Terminal, true);
    pair.wait_until(End::Hub, true);
    assert_reset(&mut relayed);
    echoes(&mut bypassing, b"still end to end");
    echoes(&mut pair.connect(server), b"accelerated again");
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
    echoes(&mut bypassing, b"and still");
}

#[test]
fn a_terminal_whose_address_changes_keeps_its_connections() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"from the first address");
    let address = |pair: &Pair| pair.status(End::Hub)["peers"][0]["address"].as_str().unwrap_or_default().to_owned();
    let (before, hub) = (address(&pair), pair.server().satellite_address(Family::V4).to_string());
    // Another access network: the old address is gone, and whatever the hub sends there.
    let old = pair.client().satellite_address(Family::V4).to_string();
    let interface = pair.client().gateway.command("ip").args(["-o", "address", "show", "dev", "sat"]).output().unwrap();
    let interface = String::from_utf8(interface.stdout).unwrap();
    let old = interface.split_whitespace().find(|word| word.starts_with(&format!("{old}/"))).unwrap();
    for arguments in [
        "address add 198.18.0.77/32 dev sat".to_owned(),
        format!("route add {hub}/32 dev sat src 198.18.0.77"),
        format!("address delete {old} dev sat"),
    ] {
        let status = pair.client().gateway.command("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "{arguments}");
    }
    echoes(&mut relayed, b"from the second address");
    assert_ne!(before, address(&pair));
    assert_eq!(address(&pair), "198.18.0.77:4500");
    echoes(&mut relayed, &pattern(5, 1_000_000));
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn connections_survive_an_outage_and_go_on_at_once() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"before");
    let nft = |rule: &str| {
        let status = pair.client().gateway.command("nft").arg(rule).status().unwrap();
        assert!(status.success(), "{rule}");
    };
    nft("add table inet cut { chain out { type filter hook output priority 0; udp dport 4500 drop; }; \
         chain in { type filter hook input priority 0; udp dport 4500 drop; }; }");
    relayed.write_all(b"meanwhile").unwrap();
    pair.wait_until(End::Terminal, false);
    nft("delete table inet cut");
    let restored = Instant::now();
    relayed.read_exact(&mut [0; 9]).unwrap();
    let took = restored.elapsed();
    // The round trip is a fraction of a millisecond, and probes come every tenth of a second.
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn a_client_that_vanishes_frees_its_stream() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "tcp_timeout = \"1s\"";
    pair.start(End::Hub, "connect_from = \"own\"");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    let (report, seen) = std::sync::mpsc::channel();
    let server = pair.serve(Family::V4, 7, move |mut stream| {
        report.send(Ok(stream.peer_addr().unwrap().ip())).unwrap();
        let error = loop {
            if let Err(error) = stream.write_all(&[0; 100_000]) {
                break error.kind();
            }
        };
        report.send(Err(error)).unwrap();
    });
    let client = pair.connect(server);
    let hub: std::net::IpAddr = "198.18.1.1".parse().unwrap();
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Ok(hub)), "with connect_from = \"own\" the gateway's address is seen");
    let cut = pair.client().host.command("ip").args(["link", "set", "eth0", "down"]).status().unwrap();
    assert!(cut.success());
    let end = seen.recv_timeout(PATIENCE).unwrap();
    assert_eq!(end, Err(ErrorKind::ConnectionReset), "the server learns that its client has gone");
    for end in [End::Hub, End::Terminal] {
        assert_eq!(pair.status(end)["streams"].as_array().map(Vec::len), Some(0));
    }
    drop(client);
}

#[test]
fn a_reader_that_stalls_holds_its_own_writer_only_and_loses_nothing() {
    const LENGTH: usize = 200_000_000;
    let Some(pair) = Pair::up("") else { return };
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let (report, total) = std::sync::mpsc::channel();
    let stalled = pair.serve(Family::V4, 7, move |mut stream| {
        resumed.recv().unwrap();
        let (mut buffer, mut sum, mut length) = (vec![0; 1 << 20], 0u64, 0);
        while let count @ 1.. = stream.read(&mut buffer).unwrap() {
            sum += buffer[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
            length += count;
        }
        report.send((length, sum)).unwrap();
    });
    let other = pair.serve(Family::V4, 8, echo_all);
    let block = pattern(3, 1_000_000);
    let mut client = pair.connect(stalled);
    let written = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let progress = std::sync::Arc::clone(&written);
    let expected = block.iter().map(|byte| u64::from(*byte)).sum::<u64>() * (LENGTH / block.len()) as u64;
    let writer: JoinHandle<()> = std::thread::spawn(move || {
        for _ in 0..LENGTH / block.len() {
            client.write_all(&block).unwrap();
            progress.fetch_add(block.len(), std::sync::atomic::Ordering::Relaxed);
        }
    });
    // The writer comes to a stand, far from the end.
    let now = || written.load(std::sync::atomic::Ordering::Relaxed);
    let deadline = Instant::now() + PATIENCE;
    let mut last = usize::MAX;
    while last != now() {
        assert!(Instant::now() < deadline);
        last = now();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(last < LENGTH * 9 / 10, "back-pressure reaches the writer: {last}");
    echoes(&mut pair.connect(other), b"not held up");
    resume.send(()).unwrap();
    assert_eq!(total.recv_timeout(PATIENCE), Ok((LENGTH, expected)));
    writer.join().unwrap();
}
