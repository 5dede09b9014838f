//! The `tcp` transport when something fails: a path that drops SYNs which carry data or ask for Fast Open, readers that stall, a far
//! gateway that dies in mid-stream or is cut off; and 2,000 connections at once. Where the machine may not create network
//! namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{CLEAR, End, PATIENCE, Pair, TLS, assert_reset, echo_all, echoes, patient, pattern, stalls_alone};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The first two bytes of a tunnel (docs/protocol.md, section 14.1): its format, and that it carries a connection.
const TUNNEL: &str = "0x0302";

/// A SYN of Linux with the option of Fast Open and without data has 72 bytes: 20 of IP and 52 of TCP.
const WITH_DATA: &str = "ip length > 72";
/// The option of TCP Fast Open (RFC 7413), whether it asks for a cookie or shows one.
const WITH_OPTION: &str = "tcp option 34 exists";

/// With both gateways up behind a path that drops SYNs with `what`.
fn behind_a_path_that_drops(what: &str, sections: &'static str) -> Option<Pair> {
    let mut pair = Pair::with_tcp_transport(CLEAR)?;
    pair.sections = sections;
    let rule = format!("iifname sat tcp dport 4500 tcp flags & (syn | ack) == syn {what} counter drop");
    pair.nft(
        End::Hub,
        &format!("add table ip path {{ chain in {{ type filter hook prerouting priority -300; {rule}; }}; }}"),
    );
    Some(pair.start_both(""))
}

fn dropped(pair: &Pair) -> u64 {
    let list = pair.server().gateway.command("nft").args(["list", "table", "ip", "path"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let words: Vec<_> = list.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "packets").unwrap();
    words[at + 1].parse().unwrap()
}

#[test]
fn where_syns_with_data_or_fast_open_are_dropped_connections_work_and_do_without() {
    for what in [WITH_DATA, WITH_OPTION] {
        let Some(pair) = behind_a_path_that_drops(what, "[tcp]\nwarm_connections = 0") else { return };
        let server = pair.serve(Family::V4, 7, echo_all);
        // Each waits for its SYN to be sent again, without what was dropped; its bytes arrive once.
        let mut clients: Vec<_> = (0..6).map(|_| pair.connect(server)).collect();
        for client in &mut clients {
            echoes(client, &pattern(1, 1_000));
            echoes(client, &pattern(2, 100_000));
        }
        pair.wait_for(|pair| pair.opened("syn_data_refused") >= 4);
        assert_eq!(pair.opened("syn_data_taken"), 0, "{}", pair.status(End::Terminal));
        let seen = dropped(&pair);
        assert!(seen > 0, "{what}");
        // Fast Open is left alone now: nothing more is dropped, and so nobody waits.
        (0..3).for_each(|_| echoes(&mut pair.connect(server), b"at once"));
        assert!(pair.opened("handshake") >= 3, "{}", pair.status(End::Terminal));
        assert_eq!(dropped(&pair), seen, "{what}");
    }
}

#[test]
fn where_fast_open_fails_warm_connections_take_over() {
    for what in [WITH_DATA, WITH_OPTION] {
        let Some(pair) = behind_a_path_that_drops(what, "[tcp]\nwarm_connections = 4") else { return };
        let server = pair.serve(Family::V4, 7, echo_all);
        echoes(&mut pair.connect(server), b"first");
        pair.wait_for(|pair| pair.opened("syn_data_refused") >= 4);
        // Those that were opened ahead of need have made their handshake by then, as has the one for the gateways themselves.
        let established =
            |pair: &Pair| pair.output(End::Terminal, "ss", "-Htn state established dport = :4500").lines().count();
        pair.wait_for(|pair| established(pair) >= 5);
        let before = pair.opened("warm");
        (0..3).for_each(|seed| echoes(&mut pair.connect(server), &pattern(seed, 10_000)));
        assert!(pair.opened("warm") >= before + 3, "{}", pair.status(End::Terminal));
    }
}

#[test]
fn a_reader_that_stalls_holds_its_own_writer_only_and_loses_nothing() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        stalls_alone(&pair.start_both(""));
    }
}

/// Of any of these lengths some is at the near gateway only when the server has long been quiet and the client has done.
fn arrives_though_its_reader_stalls(settings: &'static str) {
    let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
    pair.sections = "[tcp]\nsend_buffer = \"64KiB\"\nreceive_buffer = \"64KiB\"";
    let pair = pair.start_both("");
    let (report, reported) = mpsc::channel();
    let server = pair.serve(Family::V4, 7, move |mut stream| {
        let report = report.clone();
        std::thread::spawn(move || {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            std::thread::sleep(Duration::from_secs(4));
            let mut received = Vec::new();
            let outcome = stream.read_to_end(&mut received).map_err(|error| error.kind());
            report.send((received.len(), outcome.is_ok())).unwrap();
        });
    });
    let lengths: Vec<usize> = (1..=20).map(|step| step * 40_000).collect();
    let clients: Vec<_> = lengths
        .iter()
        .map(|length| {
            let (mut client, bytes) = (pair.connect(server), pattern(1, *length));
            std::thread::spawn(move || {
                client.write_all(&bytes).unwrap();
                client.shutdown(std::net::Shutdown::Write).unwrap();
                assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server's end");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let mut seen: Vec<_> = lengths.iter().map(|_| reported.recv_timeout(PATIENCE).unwrap()).collect();
    seen.sort_unstable();
    assert!(seen.iter().all(|(_, is_ended)| *is_ended), "{seen:?}");
    assert_eq!(seen.into_iter().map(|(length, _)| length).collect::<Vec<_>>(), lengths);
}

const SMALL_CLEAR: &str = "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true\nhost_buffer = \"64KiB\"";
const SMALL_TLS: &str = "transport = \"tcp\"\nhost_buffer = \"64KiB\"";

#[test]
fn what_a_client_has_sent_and_ended_arrives_though_its_reader_stalls() {
    arrives_though_its_reader_stalls(SMALL_CLEAR);
}

#[test]
fn what_a_client_has_sent_and_ended_arrives_with_tls_though_its_reader_stalls() {
    arrives_though_its_reader_stalls(SMALL_TLS);
}

#[test]
fn many_clients_that_stop_reading_cost_the_others_nothing() {
    for settings in [
        "transport = \"tcp\"\nmode = \"clear\"\nsecured_externally = true\nhost_buffer = \"256KiB\"",
        "transport = \"tcp\"\nmode = \"encrypted\"\nhost_buffer = \"256KiB\"",
    ] {
        cost_nothing_who_stop_reading(settings);
    }
}

fn cost_nothing_who_stop_reading(settings: &'static str) {
    const STALLED: usize = 60;
    let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
    // The gateways' own hosts would let a socket have 128 MB.
    for site in [pair.client(), pair.server()] {
        let buffers = ["ipv4/tcp_rmem", "ipv4/tcp_wmem"].map(|key| (key, "4096 131072 524288"));
        kernel::network::set_sysctls(&site.host, &buffers).unwrap();
    }
    pair.sections = "[tcp]\nsend_buffer = \"256KiB\"\nreceive_buffer = \"256KiB\"";
    let pair = pair.start_both("");
    let (report, sent) = mpsc::channel();
    // Answers with more than there is room for, until it is cut off.
    let talks = pair.serve(Family::V4, 7, move |mut stream| {
        let report = report.clone();
        // On a busy host, who still reads may be held up for long.
        stream.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
        let talk = move || {
            let mut bytes = 0;
            while let Ok(count) = stream.write(&[7; 65_536]) {
                bytes += count;
            }
            report.send((bytes, stream)).unwrap();
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(talk).unwrap();
    });
    let stalled: Vec<_> = (0..STALLED).map(|_| pair.connect(talks)).collect();
    let held: Vec<(usize, TcpStream)> = (0..STALLED).map(|_| sent.recv_timeout(PATIENCE).unwrap()).collect();
    let most = held.iter().map(|(bytes, _)| *bytes).max().unwrap();
    println!("at most {most} bytes for a stalled reader");
    assert!(most < 4_000_000, "the servers are held back: {most}");
    for child in pair.running.iter().flatten() {
        let memory = kernel::process::resident_memory(child.id()).unwrap();
        assert!(memory < 64_000_000, "{memory}");
    }
    let echo = pair.serve(Family::V4, 8, echo_all);
    let asked = Instant::now();
    let mut client = pair.connect(echo);
    (0..100).for_each(|seed| echoes(&mut client, &pattern(seed, 100_000)));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    // Longer than an outage may be: who stalls is there.
    std::thread::sleep(Duration::from_secs(5));
    // What a stalled client reads after all is right.
    for mut client in stalled.into_iter().take(10) {
        let mut bytes = vec![0; 1_000_000];
        client.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}

/// What both gateways say of connections that have not come to their server.
fn unserved(pair: &Pair, servers: &HashMap<SocketAddr, TcpStream>) -> String {
    let is_unserved = |stream: &&serde_json::Value| {
        let client = stream["client"].as_str().and_then(|client| client.parse().ok());
        client.is_none_or(|client: SocketAddr| !servers.contains_key(&client))
    };
    let [terminal, hub] = [End::Terminal, End::Hub].map(|end| {
        let status = pair.status(end);
        let streams = status["streams"].as_array().map(Vec::as_slice).unwrap_or_default();
        let unserved: Vec<_> = streams.iter().filter(is_unserved).take(3).collect();
        format!("{} streams, unserved {unserved:?}, {}, {}", streams.len(), status["connections"], status["satellite"])
    });
    format!("{} arrived; terminal: {terminal}; hub: {hub}", servers.len())
}

#[test]
fn two_thousand_connections_are_open_at_once_and_each_has_its_own_bytes() {
    const MANY: usize = 2_000;
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    if kernel::process::raise_open_files().unwrap() < 3 * MANY as u64 {
        eprintln!("SKIPPED: this process may not open {} files", 3 * MANY);
        return;
    }
    let pair = pair.start_both("");
    let (report, accepted) = mpsc::channel();
    let server = pair.serve(Family::V4, 7, move |stream| report.send(stream).unwrap());
    let connect =
        || (0..MANY).map(|_| TcpStream::connect_timeout(&server, PATIENCE).map(patient)).collect::<Result<_, _>>();
    let mut clients: Vec<TcpStream> = pair.client().host.run(connect).unwrap().unwrap();
    let mut servers = HashMap::new();
    for _ in 0..MANY {
        let stream = accepted.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{}", unserved(&pair, &servers)));
        servers.insert(stream.peer_addr().unwrap(), stream);
    }
    assert_eq!(servers.len(), MANY, "each client has an address of its own at the server");
    let mut servers: Vec<TcpStream> =
        clients.iter().map(|client| servers.remove(&client.local_addr().unwrap()).unwrap()).collect();
    for round in 0..2 {
        let word = |index: usize| pattern(round + index as u32, 2_000);
        let reads = |index: usize, end: &mut TcpStream| {
            let mut read = vec![0; 2_000];
            end.read_exact(&mut read).unwrap();
            assert_eq!(read, word(index));
        };
        clients.iter_mut().enumerate().for_each(|(index, end)| end.write_all(&word(index)).unwrap());
        for (index, end) in servers.iter_mut().enumerate() {
            reads(index, end);
            end.write_all(&word(index)).unwrap();
        }
        clients.iter_mut().enumerate().for_each(|(index, end)| reads(index, end));
        let open = pair.status(End::Terminal)["streams"].as_array().map(Vec::len);
        assert_eq!(open, Some(MANY));
    }
    for child in pair.running.iter().flatten() {
        let memory = kernel::process::resident_memory(child.id()).unwrap();
        assert!(memory < 100_000_000, "{memory}");
    }
    drop((clients, servers));
    pair.wait_for(|pair| {
        [End::Hub, End::Terminal].iter().all(|end| pair.status(*end)["streams"] == serde_json::json!([]))
    });
    assert_eq!(pair.count(End::Terminal, "accepted"), MANY as u64);
}

/// Reads until something ends the connection.
fn read_to_the_end(stream: &mut TcpStream) -> std::io::Result<usize> {
    let (mut buffer, mut bytes) = (vec![0; 65_536], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes += count,
            Err(error) => return Err(error),
        }
    }
}

/// Servers that talk and that listen until they are cut off, and how that was; the one that listens says when it has begun.
fn busy_servers(pair: &Pair, begun: mpsc::Sender<()>) -> ([SocketAddr; 2], mpsc::Receiver<ErrorKind>) {
    let (report, ends) = mpsc::channel();
    let other = report.clone();
    let talks = pair.serve(Family::V4, 7, move |mut stream| {
        let error = std::iter::repeat_with(|| stream.write_all(&[7; 65_536])).find_map(Result::err).unwrap();
        report.send(error.kind()).unwrap();
    });
    let listens = pair.serve(Family::V4, 8, move |mut stream| {
        stream.read_exact(&mut [0; 1_000_000]).unwrap();
        begun.send(()).unwrap();
        let end = read_to_the_end(&mut stream).map_or_else(|error| error.kind(), |_| ErrorKind::UnexpectedEof);
        other.send(end).unwrap();
    });
    ([talks, listens], ends)
}

/// One client that reads and one that writes, both in mid-stream, lose the hub's gateway by `cut`: nobody takes that for an end
/// in order.
fn ends_in_resets(pair: &mut Pair, cut: impl FnOnce(&mut Pair)) {
    let (begun, has_begun) = mpsc::channel();
    let ([talks, listens], ends) = busy_servers(pair, begun.clone());
    let (mut reader, mut writer) = (pair.connect(talks), pair.connect(listens));
    let reading = std::thread::spawn(move || {
        reader.read_exact(&mut [0; 1_000_000]).unwrap();
        begun.send(()).unwrap();
        read_to_the_end(&mut reader)
    });
    let writing = std::thread::spawn(move || {
        std::iter::repeat_with(|| writer.write_all(&[7; 65_536])).find_map(Result::err).unwrap().kind()
    });
    (0..2).for_each(|_| has_begun.recv_timeout(PATIENCE).unwrap());
    cut(pair);
    let is_reset = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    let read = reading.join().unwrap().map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset), "no clean end of what was cut off");
    assert!(is_reset(writing.join().unwrap()));
    for _ in 0..2 {
        let end = ends.recv_timeout(PATIENCE).unwrap();
        assert!(is_reset(end), "the servers learn it, too: {end}");
    }
}

#[test]
fn a_far_gateway_that_dies_in_mid_stream_resets_what_it_carried_and_is_called_again() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        let mut pair = pair.start_both("");
        ends_in_resets(&mut pair, |pair| pair.kill(End::Hub));
        pair.wait_until(End::Terminal, false);
        pair.start(End::Hub, "");
        pair.wait_until(End::Terminal, true);
        pair.wait_until(End::Hub, true);
        let before = pair.count(End::Terminal, "accepted");
        echoes(&mut pair.connect(pair.serve(Family::V4, 9, echo_all)), &pattern(5, 100_000));
        assert_eq!(pair.count(End::Terminal, "accepted"), before + 1);
    }
}

#[test]
fn an_outage_beyond_the_limit_resets_what_was_in_mid_stream() {
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let mut pair = pair.start_both("");
    let cut = Instant::now();
    ends_in_resets(&mut pair, |pair| {
        let rule = "iifname sat tcp dport 4500 drop; iifname sat tcp sport 4500 drop";
        for end in [End::Hub, End::Terminal] {
            pair.nft(
                end,
                &format!("add table inet cut {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"),
            );
        }
    });
    // The limit is 3 s. A socket that sends looks when it would send again; for one that only receives, probes count.
    assert!(cut.elapsed() < Duration::from_secs(20), "{:?}", cut.elapsed());
    pair.wait_until(End::Terminal, false);
    let server = pair.serve(Family::V4, 9, echo_all);
    echoes(&mut pair.connect(server), b"end to end");
    for end in [End::Hub, End::Terminal] {
        pair.nft(end, "delete table inet cut");
    }
    pair.wait_until(End::Terminal, true);
    pair.wait_until(End::Hub, true);
    let mut again = pair.connect(server);
    echoes(&mut again, b"accelerated");
    pair.kill(End::Hub);
    assert_reset(&mut again);
}

/// Rules that cut the satellite link at both ends.
fn cut(pair: &Pair) {
    let rule = "iifname sat tcp dport 4500 drop; iifname sat tcp sport 4500 drop";
    for end in [End::Hub, End::Terminal] {
        pair.nft(end, &format!("add table inet cut {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}"));
    }
}

fn mend(pair: &Pair) {
    for end in [End::Hub, End::Terminal] {
        pair.nft(end, "delete table inet cut");
    }
}

#[test]
fn a_reset_that_an_outage_has_swallowed_arrives_soon_after_it() {
    // One that the session survives, and one that it does not.
    for (settings, outage) in [(CLEAR, 500), (TLS, 500), (CLEAR, 4_000)] {
        let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
        pair.outage_limit = "60s";
        let pair = pair.start_both("");
        let (report, accepted) = mpsc::channel();
        let server = pair.serve(Family::V4, 7, move |stream| report.send(stream).unwrap());
        // Both are quiet when they end: one by its client, the other by its server.
        let open = || {
            let mut client = pair.connect(server);
            client.write_all(b"x").unwrap();
            let mut stream = accepted.recv_timeout(PATIENCE).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            (client, stream)
        };
        let (by_client, by_server) = (open(), open());
        std::thread::sleep(Duration::from_millis(200));
        cut(&pair);
        let [mut server_of_client, mut client_of_server] = [(by_client.0, by_client.1), (by_server.1, by_server.0)]
            .map(|(ends, other)| {
                socket2::SockRef::from(&ends).set_linger(Some(Duration::ZERO)).unwrap();
                drop(ends);
                other
            });
        std::thread::sleep(Duration::from_millis(outage));
        mend(&pair);
        let restored = Instant::now();
        assert_reset(&mut server_of_client);
        assert_reset(&mut client_of_server);
        println!("{outage} ms: {:?}", restored.elapsed());
        // Retransmissions and calls are a second apart; without more than TCP, it would be a minute.
        assert!(restored.elapsed() < Duration::from_secs(6), "{:?}", restored.elapsed());
    }
}

/// What leaves is what a link would carry: packets, not bunches of them.
fn send_packets_alone(pair: &Pair) {
    for end in [End::Hub, End::Terminal] {
        let arguments = ["link", "set", "sat", "gso_max_segs", "1"];
        assert!(pair.site(end).gateway.command("ip").args(arguments).status().unwrap().success());
    }
}

/// From now on the path carries packets of at most `most` bytes, and does not say so.
fn drop_packets_above(pair: &Pair, most: u16) {
    for end in [End::Hub, End::Terminal] {
        let rule = format!("iifname sat meta length > {most} counter drop");
        let hook = "type filter hook prerouting priority -300";
        pair.nft(end, &format!("add table inet path {{ chain in {{ {hook}; {rule}; }}; }}"));
    }
}

#[test]
fn a_path_that_drops_large_packets_without_a_word_carries_everything_in_smaller_ones() {
    for (settings, most, family) in [(CLEAR, 1_400, Family::V4), (TLS, 1_300, Family::V6)] {
        let Some(mut pair) = Pair::with_tcp_transport(settings) else { return };
        pair.outside = family;
        send_packets_alone(&pair);
        drop_packets_above(&pair, most);
        let pair = pair.start_both("");
        let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
        for seed in 0..3 {
            echoes(&mut client, &pattern(seed, 20_000));
        }
        assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Terminal, "reset")), (1, 0));
    }
}

/// Ports of the terminal's connections to the hub's gateway.
fn ports_to_hub(pair: &Pair) -> Vec<String> {
    let words = ["-Htn", "state", "established", "dport", "= :4500"];
    let list = pair.client().gateway.command("ss").args(words).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let port = |line: &str| Some(line.split_whitespace().nth(2)?.rsplit_once(':')?.1.to_owned());
    list.lines().filter_map(port).collect()
}

/// Ends the terminal's connections from `ports` to the hub's gateway, of which one is the session's, until there is another
/// session. What says who opens a connection goes on.
fn renew_session(pair: &Pair, ports: &[String]) {
    let sessions = || pair.status(End::Terminal)["satellite"]["handshakes"].as_u64().unwrap();
    let before = sessions();
    let ports = ports.join(", ");
    let ends = format!("iifname sat tcp dport 4500 tcp sport {{ {ports} }} @ih,0,16 != {TUNNEL} reject with tcp reset");
    let hook = "type filter hook input priority 0";
    pair.nft(End::Hub, &format!("add table ip renewal {{ chain in {{ {hook}; {ends}; }}; }}"));
    pair.wait_for(|_| sessions() > before);
    pair.nft(End::Hub, "delete table ip renewal");
}

#[test]
fn a_tunnel_request_that_is_late_counts_although_sessions_have_been_renewed_meanwhile() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.sections = "[tcp]\nwarm_connections = 0\nfast_open = false";
    // Longer than the test: a client that waits longer is given up.
    pair.outage_limit = "60s";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let hook = "type filter hook input priority 0";
    // Tunnel requests, by their first bytes, are lost until they have been sent again often enough.
    let loses = format!("iifname sat tcp dport 4500 @ih,0,16 {TUNNEL} counter drop");
    pair.nft(End::Hub, &format!("add table ip path {{ chain in {{ {hook}; {loses}; }}; }}"));
    let mut client = pair.connect(server);
    client.write_all(b"early").unwrap();
    pair.wait_for(|pair| dropped(pair) > 0);
    (0..3).for_each(|_| renew_session(&pair, &ports_to_hub(&pair)));
    pair.nft(End::Hub, "delete table ip path");
    client.read_exact(&mut [0; 5]).unwrap();
    echoes(&mut client, &pattern(1, 100_000));
}

#[test]
fn clients_that_connect_while_a_session_ends_wait_for_the_next() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.sections = "[tcp]\nwarm_connections = 0";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    for _ in 0..3 {
        pair.wait_until(End::Terminal, true);
        pair.wait_for(|pair| ports_to_hub(pair).len() == 1);
        let session = ports_to_hub(&pair);
        let is_over = AtomicBool::new(false);
        // One after the other, so that some meet the moment between the session's end and the firewall's change.
        let connect = || {
            while !is_over.load(Ordering::Relaxed) {
                echoes(&mut pair.connect(server), b"hello");
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(connect)));
            std::thread::sleep(Duration::from_millis(100));
            renew_session(&pair, &session);
            is_over.store(true, Ordering::Relaxed);
        });
    }
    assert_eq!(pair.count(End::Terminal, "unavailable"), 0);
}

/// Where retransmissions are a second apart at most, the kernel by itself gives up after 15 probes of a closed window, and after 11 SYNs.
#[test]
fn stalled_readers_and_new_clients_survive_an_outage_of_many_retransmissions() {
    const BYTES: usize = 4_000_000;
    let Some(mut pair) = Pair::with_tcp_transport(SMALL_CLEAR) else { return };
    pair.sections = "[tcp]\nsend_buffer = \"64KiB\"\nreceive_buffer = \"64KiB\"\nwarm_connections = 0";
    pair.outage_limit = "60s";
    let pair = pair.start_both("");
    let talks = pair.serve(Family::V4, 7, |mut stream| {
        std::thread::spawn(move || stream.write_all(&pattern(3, BYTES)));
    });
    let server = pair.serve(Family::V4, 8, echo_all);
    let mut stalled = pair.connect(talks);
    std::thread::sleep(Duration::from_secs(1));
    cut(&pair);
    let clients = [1, 2, 3].map(|seed| {
        let mut client = pair.connect(server);
        std::thread::spawn(move || echoes(&mut client, &pattern(seed, 10_000)))
    });
    std::thread::sleep(Duration::from_secs(20));
    mend(&pair);
    let mended = Instant::now();
    for client in clients {
        client.join().unwrap();
    }
    let mut received = vec![0; BYTES];
    stalled.read_exact(&mut received).unwrap();
    assert!(received == pattern(3, BYTES), "what a reader gets that stalled during the outage");
    assert!(mended.elapsed() < Duration::from_secs(15), "{:?}", mended.elapsed());
}

/// A stateful firewall at the hub that forgets what was quiet for five seconds, and takes nothing up again that it has forgotten.
fn behind_a_forgetful_firewall(answer: &str) -> Option<Pair> {
    let mut pair = Pair::with_tcp_transport(CLEAR)?;
    pair.terminal_link = "keepalive = \"2s\"";
    let timeouts = [("netfilter/nf_conntrack_tcp_timeout_established", "5"), ("netfilter/nf_conntrack_tcp_loose", "0")];
    let rule = format!("iifname sat tcp dport 4500 ct state invalid {answer}");
    let chain = format!("add table ip path {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}");
    pair.nft(End::Hub, &chain);
    kernel::network::set_sysctls(&pair.server().gateway, &timeouts).unwrap();
    Some(pair.start_both(""))
}

#[test]
fn warm_and_idle_connections_survive_a_firewall_that_forgets_what_is_quiet_for_longer_than_keepalive() {
    let Some(pair) = behind_a_forgetful_firewall("drop") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut idle = pair.connect(server);
    echoes(&mut idle, b"before");
    std::thread::sleep(Duration::from_secs(12));
    echoes(&mut idle, b"after");
    let before = pair.opened("warm");
    (0..6).for_each(|seed| echoes(&mut pair.connect(server), &pattern(seed, 10_000)));
    assert!(pair.opened("warm") > before, "{}", pair.status(End::Terminal));
}

/// Where a firewall has forgotten a connection, nothing of it gets through, and what is sent beside it does.
#[test]
fn a_connection_that_the_path_has_forgotten_is_reset_long_before_the_limit_of_outages() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.outage_limit = "600s";
    pair.sections = "[tcp]\nwarm_connections = 0";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, |stream| {
        // It waits for longer than the gateways.
        stream.set_read_timeout(None).unwrap();
        echo_all(stream);
    });
    let others = ports_to_hub(&pair);
    let mut forgotten = pair.connect(server);
    echoes(&mut forgotten, b"before");
    let carriers: Vec<_> = ports_to_hub(&pair).into_iter().filter(|port| !others.contains(port)).collect();
    let hook = "type filter hook input priority 0";
    let drops = format!("iifname sat tcp dport 4500 tcp sport {{ {} }} counter drop", carriers.join(", "));
    pair.nft(End::Hub, &format!("add table ip path {{ chain in {{ {hook}; {drops}; }}; }}"));
    forgotten.write_all(b"lost").unwrap();
    let begun = Instant::now();
    forgotten.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    assert_reset(&mut forgotten);
    assert!(begun.elapsed() > Duration::from_secs(15), "a fade of some seconds is not yet that");
    echoes(&mut pair.connect(server), b"beside it");
}

/// On a full link, a probe and the one in its place may be lost.
#[test]
fn a_peer_whose_answers_are_lost_while_connections_go_on_is_not_given_up() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.sections = "[tcp]\nwarm_connections = 0";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let session = ports_to_hub(&pair);
    let mut client = pair.connect(server);
    echoes(&mut client, b"before");
    let drops = format!("iifname sat tcp dport 4500 tcp sport {{ {} }} counter drop", session.join(", "));
    pair.nft(End::Hub, &format!("add table ip path {{ chain in {{ type filter hook input priority 0; {drops}; }}; }}"));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        echoes(&mut client, b"what goes on");
        std::thread::sleep(Duration::from_millis(50));
        let peer = &pair.status(End::Terminal)["peers"][0];
        assert_eq!(peer["state"], "up", "after {:?}: {peer}", begun.elapsed());
    }
    // Once nothing goes on any more, the session that does not answer is replaced.
    let sessions = |pair: &Pair| pair.status(End::Terminal)["satellite"]["handshakes"].as_u64().unwrap();
    let before = sessions(&pair);
    pair.wait_for(|pair| sessions(pair) > before);
}

/// The kernel of its host goes on, and acknowledges what connections begin with.
#[test]
fn a_peer_whose_process_stands_still_is_noticed_while_connections_begin() {
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), b"before");
    let hub = pair.running[End::Hub as usize].as_ref().unwrap().id().to_string();
    let signal =
        |name: &str| assert!(std::process::Command::new("kill").args([name, hub.as_str()]).status().unwrap().success());
    signal("-STOP");
    let (begun, mut clients, mut is_noticed) = (Instant::now(), Vec::new(), false);
    while !is_noticed && begun.elapsed() < Duration::from_secs(20) {
        if let Ok(mut client) = pair.try_connect(server) {
            let _ = client.write_all(b"is anybody there");
            clients.push(client);
        }
        std::thread::sleep(Duration::from_millis(300));
        is_noticed = pair.status(End::Terminal)["peers"][0]["state"] != "up";
    }
    signal("-CONT");
    assert!(is_noticed, "{} connections have begun", clients.len());
    pair.wait_until(End::Terminal, true);
    echoes(&mut pair.connect(server), b"after");
}

/// TCP has nothing in flight then.
#[test]
fn a_peer_to_which_there_is_no_route_any_more_is_noticed_by_what_waits() {
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let pair = pair.start_both("");
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, b"before");
    // What is quiet is not looked at.
    std::thread::sleep(Duration::from_secs(3));
    let arguments = ["route", "add", "unreachable", "198.18.0.1/32"];
    assert!(pair.client().gateway.command("ip").args(arguments).status().unwrap().success());
    client.write_all(b"waits").unwrap();
    pair.wait_until(End::Terminal, false);
}

#[test]
fn a_path_that_carries_smaller_packets_from_now_on_slows_few_connections() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    pair.outage_limit = "60s";
    pair.sections = "[tcp]\nwarm_connections = 0";
    send_packets_alone(&pair);
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), &pattern(0, 20_000));
    // For the second in which the gateways begin a session with smaller packets, new connections go end to end: there their hosts find out what passes.
    for end in [End::Hub, End::Terminal] {
        let probe = || std::fs::write("/proc/sys/net/ipv4/tcp_mtu_probing", "1");
        pair.site(end).host.run(probe).unwrap().unwrap();
    }
    drop_packets_above(&pair, 1280);
    // Without the search, the kernel finds out by itself, and needs some timeouts for each connection.
    let echo_time = || {
        let begun = Instant::now();
        echoes(&mut pair.connect(server), &pattern(1, 20_000));
        begun.elapsed()
    };
    std::thread::scope(|scope| {
        let begun = Instant::now();
        for place in 0..16 {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(700) * place);
                echo_time();
            });
        }
        while echo_time() > Duration::from_secs(1) {
            assert!(begun.elapsed() < Duration::from_secs(45), "a connection still takes {:?}", echo_time());
        }
    });
}
