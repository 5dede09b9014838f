//! Two gateways around a wire: what ordinary TCP programs see, and what is left when a gateway stops, dies or comes back.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{
    End, Family, PATIENCE, Pair, assert_nothing_is_left, assert_reset, carries_both_directions, echo_all, echoes,
    pattern,
};
use kernel::testing::best_of_three;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

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
fn a_fixed_capacity_is_the_reported_rate_and_the_configured_one_without_reports() {
    best_of_three(follow_the_reported_rate);
}

fn follow_the_reported_rate() -> Result<(), String> {
    let Some(mut pair) = Pair::new() else { return Ok(()) };
    pair.terminal_link = "capacity = \"fixed\"\nmin_rate = \"1Mbit/s\"\n[updates]\nhttp = \"127.0.0.1:9091\"\n\
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
    assert!(pair.http(End::Terminal, 9091, "PUT /link", r#"{"rate": "1Tbit/s"}"#).contains("expected a rate"));
    // A page whose name resolves to this host has its browser send that.
    let of_a_page =
        pair.http_with(End::Terminal, 9091, "PUT /link", "Origin: http://evil.example\r\n", r#"{"rate": "9Mbit/s"}"#);
    assert!(of_a_page.starts_with("HTTP/1.1 403"), "{of_a_page}");
    for (update, seconds) in [(r#"{"rate": "8Mbit/s"}"#, 0.5), (r#"{"rate": "16Mbit/s"}"#, 0.25)] {
        let answer = pair.http(End::Terminal, 9091, "PUT /link", update);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let took = time_to_send(500_000);
        let says = format!("{update}: {took} s instead of {seconds} s");
        assert!(took >= 0.95 * seconds, "{says}");
        if took >= seconds + 0.4 {
            return Err(says);
        }
    }
    let status = pair.status(End::Terminal);
    assert_eq!((&status["rate_bps"], &status["link"]["source"]), (&16_000_000.into(), &"api".into()));
    let metrics = pair.http(End::Terminal, 9090, "GET /metrics", "");
    for line in ["bentpipe_capacity_bytes_per_second 2000000.0", "bentpipe_link_source{source=\"api\"} 1"] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    pair.http(End::Terminal, 9091, "PUT /link", "null");
    let deadline = Instant::now() + PATIENCE;
    while pair.status(End::Terminal)["rate_bps"] != 2_000_000_000_u64 {
        assert!(Instant::now() < deadline, "{}", pair.status(End::Terminal));
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
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
fn what_a_router_before_the_server_says_reaches_the_gateway_that_connects() {
    let Some(pair) = Pair::up("") else { return };
    // The server's host is the router that knows no way to the network behind it.
    let router = pair.server().host_address(Family::V4);
    let on_router = |program: &str, arguments: &str| {
        let output = pair.server().host.command(program).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{program} {arguments}: {output:?}");
    };
    on_router("sysctl", "-w net.ipv4.ip_forward=1");
    on_router("ip", "route add unreachable 198.19.88.0/24");
    pair.output(End::Hub, "ip", &format!("route add 198.19.88.0/24 via {router}"));
    let begun = Instant::now();
    pair.assert_reset_at("198.19.88.1:9".parse().unwrap());
    // Before the kernel sends the third SYN, after three seconds.
    assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}: the gateway had to wait", begun.elapsed());
    assert_eq!(pair.count(End::Hub, "unreachable"), 1);
}

/// A connection lives as long as the gateways' sockets, and conntrack forgets it before: when it is half-closed after a minute, and
/// earlier where an operator has set other times or has emptied the table.
#[test]
fn a_connection_that_conntrack_has_forgotten_goes_on() {
    let Some(pair) = Pair::up("") else { return };
    let set = |name: &str, value: &str| {
        for end in [End::Terminal, End::Hub] {
            let key = format!("netfilter/nf_conntrack_tcp_{name}");
            kernel::network::set_sysctls(&pair.site(end).gateway, &[(&key, value)]).unwrap();
        }
    };
    let forgotten = Duration::from_secs(3);
    for state in ["established", "close_wait", "fin_wait", "last_ack", "unacknowledged", "max_retrans"] {
        set(&format!("timeout_{state}"), "1");
    }
    let (ended, ends) = std::sync::mpsc::channel();
    let servers = [Family::V4, Family::V6].map(|family| {
        let late = move |mut stream: TcpStream| {
            let mut words = Vec::new();
            stream.read_to_end(&mut words).unwrap();
            std::thread::sleep(forgotten);
            stream.write_all(b"late").unwrap();
        };
        let first = move |mut stream: TcpStream| {
            stream.read_exact(&mut [0]).unwrap();
            std::thread::sleep(forgotten);
            stream.write_all(b"late").unwrap();
        };
        let ended = ended.clone();
        let last = move |mut stream: TcpStream| {
            let mut words = String::new();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_string(&mut words).unwrap();
            ended.send(words).unwrap();
        };
        (
            pair.serve(family, 7, echo_all),
            pair.serve(family, 8, late),
            pair.serve(family, 9, first),
            pair.serve(family, 10, last),
        )
    });
    // Whether conntrack picks connections up of which it has not seen the beginning (as it does by default), or takes them for invalid.
    for loose in ["1", "0"] {
        set("loose", loose);
        let mut clients =
            servers.map(|(echo, late, first, last)| [echo, late, first, last].map(|server| pair.connect(server)));
        for [echo, late, first, last] in &mut clients {
            echoes(echo, b"before");
            late.shutdown(Shutdown::Write).unwrap();
            first.write_all(b"x").unwrap();
            assert_eq!(last.read(&mut [0]).unwrap(), 0);
        }
        std::thread::sleep(forgotten);
        for [echo, late, first, last] in &mut clients {
            echoes(echo, b"after");
            for client in [late, first] {
                let mut word = [0; 4];
                client.read_exact(&mut word).unwrap();
                assert_eq!(&word, b"late");
            }
            last.write_all(b"late").unwrap();
            last.shutdown(Shutdown::Write).unwrap();
            assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), "late");
        }
    }
}

/// The kernel gives up asking for the address of a neighbour after three seconds, and says so in an ICMP error to the client, in whose
/// name the connection is made.
#[test]
fn a_server_that_is_switched_off_is_unreachable_within_seconds() {
    let Some(pair) = Pair::up("") else { return };
    for unused in ["198.18.1.77:9", "[2001:db8:0:1::77]:9"] {
        let begun = Instant::now();
        pair.assert_reset_at(unused.parse().unwrap());
        assert!(begun.elapsed() < Duration::from_secs(10), "{unused}: {:?}", begun.elapsed());
    }
    assert_eq!(pair.count(End::Hub, "unreachable"), 2);
}

#[test]
fn what_the_far_side_denies_goes_end_to_end() {
    // The terminal learns what the hub allows a round trip after it has begun to intercept.
    let Some(mut pair) = Pair::new() else { return };
    pair.start(
        End::Hub,
        "allow_destinations = [\"198.18.1.128/25\", \"192.0.2.0/24\"]\nallow_sources = [\"198.18.0.0/15\"]",
    );
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements = { 192.0.2.0/24"));
    assert!(!pair.sets(End::Terminal).contains("::"), "{}", pair.sets(End::Terminal));
    for family in [Family::V4, Family::V6] {
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), b"end to end");
    }
    assert_eq!((pair.count(End::Hub, "denied"), pair.count(End::Terminal, "accepted")), (0, 0));
}

#[test]
fn clients_that_the_far_side_denies_go_end_to_end() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "allow_sources = [\"2001:db8::/32\"]");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| {
        let sets = pair.sets(End::Terminal);
        sets.contains("2001:db8:") && !sets.contains("198.18.")
    });
    for (family, accepted) in [(Family::V4, 0), (Family::V6, 1)] {
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), b"as the hub allows");
        assert_eq!((pair.count(End::Hub, "denied"), pair.count(End::Terminal, "accepted")), (0, accepted));
    }
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
    // Denied at first, and no longer requested once the terminal has the announcement.
    let mut outcome = pair.try_connect(gained);
    while !outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        assert!(Instant::now() < deadline, "{outcome:?} {}", pair.status(End::Hub));
        outcome = pair.try_connect(gained);
    }
    assert_eq!(pair.count(End::Hub, "refused"), 0, "the gateway has not asked itself");
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
            let mut client = pair.connect_marked(server, traffic_class);
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
fn the_server_sees_the_clients_code_point() {
    let Some(pair) = Pair::up("") else { return };
    for (family, port) in [(Family::V4, 25), (Family::V6, 26)] {
        let server = pair.serve(family, port, move |mut stream| {
            let is_v6 = family == Family::V6;
            let socket = socket2::SockRef::from(&stream);
            if is_v6 { socket.set_recv_tclass_v6(true) } else { socket.set_recv_tos_v4(true) }.unwrap();
            let class = kernel::transparent::traffic_class(&socket, is_v6).unwrap();
            stream.write_all(&[class]).unwrap();
        });
        let mut class = [0];
        pair.connect_marked(server, 0xb8).read_exact(&mut class).unwrap();
        // The lower bits are for congestion notification.
        assert_eq!(class[0] & 0xfc, 0xb8, "{family:?}");
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
        assert_nothing_is_left(&pair, end);
    }
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
    best_of_three(go_on_at_once_after_an_outage);
}

fn go_on_at_once_after_an_outage() -> Result<(), String> {
    let Some(pair) = Pair::up("") else { return Ok(()) };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"before");
    pair.nft(
        End::Terminal,
        "add table inet cut { chain out { type filter hook output priority 0; udp dport 4500 drop; }; \
         chain in { type filter hook input priority 0; udp dport 4500 drop; }; }",
    );
    relayed.write_all(b"meanwhile").unwrap();
    pair.wait_until(End::Terminal, false);
    pair.nft(End::Terminal, "delete table inet cut");
    let restored = Instant::now();
    relayed.read_exact(&mut [0; 9]).unwrap();
    let took = restored.elapsed();
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    // The round trip is a fraction of a millisecond, and probes come every tenth of a second.
    if took < Duration::from_secs(1) { Ok(()) } else { Err(format!("{took:?}")) }
}

/// Linux gives up a connection whose data nothing acknowledges after `net.ipv4.tcp_retries2` retransmissions: here after 6 s.
#[test]
fn a_client_that_is_away_for_less_than_user_timeout_keeps_its_connection_longer_than_the_kernel_would() {
    const BYTES: usize = 100;
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "user_timeout = \"10s\"";
    let limit = || kernel::sysctl::write("net.ipv4.tcp_retries2", "3");
    pair.site(End::Terminal).gateway.run(limit).unwrap().unwrap();
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, |mut stream| {
        for _ in 0..BYTES {
            stream.write_all(b"!").unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut client = pair.connect(server);
    client.read_exact(&mut [0]).unwrap();
    let hook = "type filter hook prerouting priority -400";
    pair.nft(End::Terminal, &format!("add table inet away {{ chain in {{ {hook}; iifname lan drop; }}; }}"));
    std::thread::sleep(Duration::from_secs(7));
    pair.nft(End::Terminal, "delete table inet away");
    client.write_all(b"here").unwrap();
    client.read_exact(&mut [0; BYTES - 1]).unwrap();
}

/// Sockets of the near gateway that are closed while the client has not acknowledged everything (`include/net/tcp_states.h`).
fn has_orphans(pair: &Pair) -> bool {
    const FIN_WAIT_1: &str = "04";
    const LAST_ACK: &str = "09";
    const CLOSING: &str = "0B";
    let sockets = pair.output(End::Terminal, "cat", "/proc/net/tcp /proc/net/tcp6");
    let mut states = sockets.lines().filter_map(|line| line.split_whitespace().nth(3));
    states.any(|state| [FIN_WAIT_1, LAST_ACK, CLOSING].contains(&state))
}

/// Linux gives up a closed connection whose last bytes nothing acknowledges after `net.ipv4.tcp_orphan_retries` retransmissions.
#[test]
fn the_last_bytes_to_a_client_that_has_vanished_are_given_up_as_soon_as_those_of_any_host() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "user_timeout = \"10s\"";
    let limit = || kernel::sysctl::write("net.ipv4.tcp_orphan_retries", "2");
    pair.site(End::Terminal).gateway.run(limit).unwrap().unwrap();
    let pair = pair.start_both("");
    let (ended, client_end) = std::sync::mpsc::channel();
    let (vanish, vanished) = std::sync::mpsc::channel::<()>();
    let server = pair.serve(Family::V4, 7, move |mut stream| {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        ended.send(()).unwrap();
        vanished.recv().unwrap();
        stream.write_all(b"last").unwrap();
        // Long enough that the gateway has seen the client acknowledge nothing, and outlasts the kernel.
        std::thread::sleep(Duration::from_secs(7));
    });
    let client = pair.connect(server);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client_end.recv_timeout(PATIENCE).unwrap();
    let hook = "type filter hook prerouting priority -400";
    pair.nft(End::Terminal, &format!("add table inet away {{ chain in {{ {hook}; iifname lan drop; }}; }}"));
    vanish.send(()).unwrap();
    pair.wait_for(has_orphans);
    pair.wait_for(|pair| !has_orphans(pair));
}

#[test]
fn a_client_that_vanishes_frees_its_stream() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "user_timeout = \"1s\"";
    pair.start(End::Hub, "connect_from = \"gateway\"");
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
    assert_eq!(
        seen.recv_timeout(PATIENCE),
        Ok(Ok(hub)),
        "with connect_from = \"gateway\" the gateway's address is seen"
    );
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
fn readers_that_stall_stop_no_connection_that_is_read() {
    const ALL: usize = 8_000_000;
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "receive_memory = \"1MiB\"";
    let pair = pair.start_both("");
    // What the first byte asks for: an echo, or bytes.
    let server = pair.serve(Family::V4, 7, |mut stream| {
        let mut wanted = [0];
        stream.read_exact(&mut wanted).unwrap();
        match wanted {
            [b'e'] => echo_all(stream),
            _ => drop(std::thread::spawn(move || stream.write_all(&vec![7; ALL]))),
        }
    });
    let ask = |what: &[u8]| {
        let mut client = pair.connect(server);
        client.write_all(what).unwrap();
        client
    };
    let mut echo = ask(b"e");
    echoes(&mut echo, b"before");
    let mut stalled: Vec<_> = (0..40).map(|_| ask(b"b")).collect();
    let held = || pair.status(End::Terminal)["peers"][0]["receive_buffered_bytes"].as_u64().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut before = 0;
    while before < 900_000 || held() != before {
        assert!(Instant::now() < deadline, "{before} bytes held");
        before = held();
        std::thread::sleep(Duration::from_secs(1));
    }
    for seed in 0..100 {
        echoes(&mut echo, &pattern(seed, 1000));
    }
    // Who reads again gets all.
    let mut bytes = Vec::new();
    stalled.swap_remove(0).read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() == ALL && bytes.iter().all(|byte| *byte == 7), "{} bytes", bytes.len());
}
