//! Which connections a pair of gateways accelerates, and which it leaves alone.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{End, Family, PATIENCE, Pair, echo_all, echoes, patient, pattern};
use gateway::doctor;
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use kernel::testing::{best_of_three, set_md5_key};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Runs `ip` with each of these arguments at the gateway of `end`.
fn ip(pair: &Pair, end: End, commands: &[&str]) {
    for command in commands {
        let status = pair.site(end).gateway.command("ip").args(command.split(' ')).status().unwrap();
        assert!(status.success(), "ip {command}");
    }
}

/// A host on a second network of the terminal's, which echoes: its addresses of both families.
fn printer(pair: &Pair) -> (Namespace, [SocketAddr; 2]) {
    let printer = Namespace::new().unwrap();
    kernel::network::set_sysctls(&printer, &[("ipv6/conf/all/accept_dad", "0")]).unwrap();
    IpBatch::new(&printer)
        .add_veth("eth0", &pair.client().gateway, "lan1")
        .add("link set lo up")
        .add("link set eth0 up")
        .add("address add 198.19.2.10/24 dev eth0")
        .add("address add 2001:db8:77::10/64 dev eth0 nodad")
        .run()
        .unwrap();
    ip(
        pair,
        End::Terminal,
        &["link set lan1 up", "address add 198.19.2.1/24 dev lan1", "address add 2001:db8:77::1/64 dev lan1 nodad"],
    );
    IpBatch::new(&printer)
        .add("route add default via 198.19.2.1")
        .add("route add ::/0 via 2001:db8:77::1")
        .run()
        .unwrap();
    let addresses = ["198.19.2.10:9100", "[2001:db8:77::10]:9100"].map(|address| address.parse().unwrap());
    for address in addresses {
        let listener: TcpListener = printer.run(|| TcpListener::bind::<SocketAddr>(address)).unwrap().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| echo_all(patient(stream.unwrap()))));
    }
    (printer, addresses)
}

/// How many connections have gone end to end at the terminal for this reason, once it is so many.
fn wait_for_bypassed(pair: &Pair, why: &str, count: u64) {
    pair.wait_for(|pair| pair.status(End::Terminal)["bypassed"][why] == count);
}

#[test]
fn a_host_on_a_second_network_is_reached_past_the_satellite() {
    best_of_three(reach_a_second_network);
}

fn reach_a_second_network() -> Result<(), String> {
    let Some(pair) = Pair::up("") else { return Ok(()) };
    let (_printer, addresses) = printer(&pair);
    for address in addresses {
        echoes(&mut pair.connect(address), b"print");
    }
    // Somebody looks once, a second after the status was last asked for.
    std::thread::sleep(Duration::from_millis(1100));
    let status = pair.status(End::Terminal);
    assert_eq!(status["connections"]["accepted"], 0);
    // An answer waits for the firewall's counters, but not for long.
    if status["bypassed"]["elsewhere"] != 2 {
        return Err(status["bypassed"].to_string());
    }
    for family in [Family::V4, Family::V6] {
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), b"across the satellite");
    }
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
    Ok(())
}

/// The transparent listeners are there for what the firewall hands to them.
#[test]
fn a_program_of_the_gateways_host_that_connects_to_the_listener_is_reset() {
    let Some(pair) = Pair::up("") else { return };
    for listener in ["127.0.0.1:4501", "[::1]:4501"] {
        let address: SocketAddr = listener.parse().unwrap();
        let mut client = patient(pair.client().gateway.run(|| TcpStream::connect(address)).unwrap().unwrap());
        let read = client.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset), "{listener}");
    }
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Hub, "denied")), (0, 0));
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"what is intercepted is relayed");
}

#[test]
fn an_interface_that_is_renamed_is_missing_until_it_has_its_name_again() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "[metrics]\nlisten = \"127.0.0.1:9090\"";
    let pair = pair.start_both("");
    let wait_for_missing = |expected: serde_json::Value| {
        pair.wait_for(|pair| pair.status(End::Terminal)["missing_interfaces"] == expected);
    };
    wait_for_missing(serde_json::json!([]));
    ip(&pair, End::Terminal, &["link set lan down", "link set lan name lan7", "link set lan7 up"]);
    wait_for_missing(serde_json::json!([{"key": "intercept.interfaces", "name": "lan"}]));
    assert!(pair.http(End::Terminal, 9090, "GET /metrics", "").contains("bentpipe_missing_interfaces 1"));
    ip(&pair, End::Terminal, &["link set lan7 down", "link set lan7 name lan", "link set lan up"]);
    wait_for_missing(serde_json::json!([]));
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"accelerated again");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

/// The address of the terminal's gateway in the network of its client.
fn gateway_of_client(pair: &Pair) -> String {
    let IpAddr::V4(client) = pair.client().host_address(Family::V4) else { panic!("an IPv4 address") };
    let [first, second, third, _] = client.octets();
    format!("{first}.{second}.{third}.1")
}

#[test]
fn connections_of_a_bridge_that_iptables_filters_go_end_to_end() {
    const KEY: &str = "bridge/bridge-nf-call-iptables";
    let Some(pair) = Pair::new() else { return };
    let filters = |value: &str| set_sysctls(&pair.client().gateway, &[(KEY, value)]);
    if filters("0").is_err() {
        return eprintln!("skipped: this kernel does not filter the frames of bridges (br_netfilter)");
    }
    let address = format!("address add {}/24 dev lan", gateway_of_client(&pair));
    let commands = ["address flush dev lan", "link set lan down", "link set lan name port", "link add lan type bridge"];
    ip(
        &pair,
        End::Terminal,
        &[&commands[..], &["link set port master lan", "link set port up", "link set lan up", &address]].concat(),
    );
    set_sysctls(&pair.client().gateway, &[("bridge/bridge-nf-call-ip6tables", "0")]).unwrap();
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut open = pair.connect(server);
    echoes(&mut open, b"accelerated");
    for (value, accepted) in [("1", 1), ("0", 2)] {
        set_sysctls(&pair.client().gateway, &[(KEY, value)]).unwrap();
        pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements") == (value == "0"));
        echoes(&mut pair.connect(server), b"whether accelerated or not");
        assert_eq!(pair.count(End::Terminal, "accepted"), accepted, "{KEY} is {value}");
    }
    echoes(&mut open, b"all the while");
}

/// A host that the gateway sends another way, even for one ping, would take its connections along, and past the gateway's sockets.
#[test]
fn the_host_of_a_gateway_with_one_interface_redirects_nobody() {
    let Some(pair) = Pair::up("") else { return };
    let (gateway, client) = (gateway_of_client(&pair), pair.client());
    let another = gateway.trim_end_matches('1').to_owned() + "77";
    set_sysctls(&client.gateway, &[("ipv4/conf/all/send_redirects", "1"), ("ipv4/conf/lan/send_redirects", "1")])
        .unwrap();
    set_sysctls(&client.host, &[("ipv4/conf/all/accept_redirects", "1")]).unwrap();
    let neighbour = format!("neighbour add {another} lladdr 02:00:00:00:00:77 dev lan");
    ip(&pair, End::Terminal, &[&format!("route add 198.19.77.0/24 via {another}"), &neighbour]);
    // A redirect to somebody unknown waits for an answer of theirs.
    IpBatch::new(&client.host).add(neighbour.replace("dev lan", "dev eth0")).run().unwrap();
    let socket = client.host.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    for _ in 0..3 {
        socket.send_to(b"by the gateway's own interface", "198.19.77.1:9").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let route = client.host.command("ip").args(["route", "get", "198.19.77.1"]).output().unwrap();
    let route = String::from_utf8(route.stdout).unwrap();
    assert!(route.contains(&format!("via {gateway} ")) && !route.contains("redirected"), "{route}");
}

#[test]
fn what_other_programs_remove_is_set_up_again_and_connections_go_on() {
    let Some(pair) = Pair::up("") else { return };
    let servers = [Family::V4, Family::V6].map(|family| pair.serve(family, 7, echo_all));
    let mut open = servers.map(|server| pair.connect(server));
    let removals = ["-4 rule delete", "-6 rule delete", "-4 route flush", "-6 route flush"].map(|removal| {
        let of = if removal.contains("rule") { "priority 10" } else { "table 25200" };
        format!("{removal} {of}")
    });
    for removal in removals.iter().map(Some).chain([None]) {
        match removal {
            Some(command) => ip(&pair, End::Terminal, &[command]),
            None => pair.nft(End::Terminal, "flush ruleset"),
        }
        pair.wait_for(|pair| {
            let before = pair.count(End::Terminal, "accepted");
            servers.iter().for_each(|server| echoes(&mut pair.connect(*server), b"new"));
            pair.count(End::Terminal, "accepted") == before + 2
        });
        open.iter_mut().for_each(|stream| echoes(stream, b"still relayed"));
    }
}

/// While the routing rule is missing, what is to be delivered goes nowhere: past the gateways, it would meet another connection's numbers.
#[test]
fn packets_of_an_intercepted_connection_are_not_forwarded_while_the_routing_rule_is_missing() {
    let Some(pair) = Pair::up("") else { return };
    let mut open = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut open, b"relayed");
    pair.nft(
        End::Terminal,
        "table inet seen { chain forward { type filter hook forward priority filter; tcp dport 7 counter; }; }",
    );
    ip(&pair, End::Terminal, &["-4 rule delete priority 10"]);
    // Until the rule is back, the client repeats its segment.
    echoes(&mut open, b"while the rule is missing");
    let seen = pair.output(End::Terminal, "nft", "list chain inet seen forward");
    assert!(seen.contains("counter packets 0 "), "{seen}");
}

/// As firewalls are by default: only what is named may enter.
#[test]
fn connections_that_a_firewall_keeps_from_the_gateway_are_reported() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), b"relayed");
    assert_eq!(pair.status(End::Terminal)["undelivered"], 0);
    let firewall = "table inet firewall {
           chain input {
             type filter hook input priority filter; policy drop;
             iifname lo accept
             ct state established,related accept
             meta l4proto { icmp, ipv6-icmp, udp } accept
           }
         }";
    pair.nft(End::Terminal, firewall);
    let connect = || {
        let connect = move || TcpStream::connect_timeout(&server, Duration::from_millis(100)).is_ok();
        assert!(!pair.client().host.run(connect).unwrap());
    };
    let settings = gateway::config::load(&pair.config(End::Terminal)).unwrap();
    pair.wait_for(|pair| {
        connect();
        pair.status(End::Terminal)["undelivered"].as_u64() >= Some(3)
    });
    let checks = pair.site(End::Terminal).gateway.run(|| doctor::examine(&settings, false)).unwrap();
    let check = checks.iter().find(|check| check.check == "delivery").unwrap();
    assert!(!check.ok && check.remedy.as_deref().unwrap().contains("meta mark 0x62700001 accept"), "{check:?}");
    pair.nft(End::Terminal, "insert rule inet firewall input meta mark 0x62700001 accept");
    echoes(&mut pair.connect(server), b"relayed");
    pair.wait_for(|pair| pair.status(End::Terminal)["undelivered"] == 0);
}

/// As programs for several ways to the Internet do (mwan3): they keep the way of a connection in other bits of its mark.
#[test]
fn programs_with_bits_of_their_own_in_the_marks_of_connections_are_left_in_peace() {
    are_relayed(|pair| {
        for end in [End::Hub, End::Terminal] {
            pair.nft(
                end,
                "table inet ways {
                   chain arrive { type filter hook prerouting priority mangle - 20; ct mark set ct mark & 0xffffc0ff | 0x100; }
                   chain make { type route hook output priority mangle + 1; ct mark set ct mark & 0xffffc0ff | 0x100; }
                   chain leave { type filter hook postrouting priority mangle; ct mark set ct mark & 0xffffc0ff | 0x200; }
                 }",
            );
        }
    });
}

/// A second way from the terminal to the hub.
fn second_way(pair: &Pair) {
    IpBatch::new(&pair.client().gateway)
        .add_veth("wan", &pair.server().gateway, "wan")
        .add("link set wan up")
        .add("address add 198.19.3.1/24 dev wan")
        .run()
        .unwrap();
    ip(pair, End::Hub, &["link set wan up", "address add 198.19.3.2/24 dev wan"]);
}

#[test]
fn each_new_connection_goes_by_the_route_of_the_moment() {
    let Some(pair) = Pair::up("") else { return };
    second_way(&pair);
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut accelerated = pair.connect(server);
    echoes(&mut accelerated, b"by satellite");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    ip(&pair, End::Terminal, &["route add 198.18.1.0/24 via 198.19.3.2"]);
    let mut bypassing = pair.connect(server);
    echoes(&mut bypassing, b"past the satellite");
    echoes(&mut accelerated, b"still by satellite");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    ip(&pair, End::Terminal, &["route delete 198.18.1.0/24"]);
    echoes(&mut pair.connect(server), b"by satellite again");
    echoes(&mut bypassing, b"still end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
}

#[test]
fn routing_by_mark_is_followed() {
    let Some(pair) = Pair::up("") else { return };
    second_way(&pair);
    let server = pair.serve(Family::V4, 7, echo_all);
    let other = pair.serve(Family::V4, 8, echo_all);
    pair.nft(
        End::Terminal,
        "add table inet marking { chain pre { type filter hook prerouting priority mangle; tcp dport 8 meta mark set 77; }; }",
    );
    ip(&pair, End::Terminal, &["route add default via 198.19.3.2 table 77", "rule add fwmark 77 lookup 77"]);
    echoes(&mut pair.connect(server), b"by satellite");
    echoes(&mut pair.connect(other), b"by the other way");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn what_a_rule_names_goes_end_to_end_and_is_counted() {
    let Some(mut pair) = Pair::new() else { return };
    pair.sections = "[[bypass]]\nname = \"login\"\nports = [22, \"5060-5069\"]\n\
                     [[bypass]]\nname = \"voice\"\ndscp = [\"ef\"]\nservers = [\"198.18.0.0/15\"]\n";
    let pair = pair.start_both("");
    for family in [Family::V4, Family::V6] {
        for port in [22, 5069] {
            echoes(&mut pair.connect(pair.serve(family, port, echo_all)), b"end to end");
        }
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), b"accelerated");
    }
    let marked = pair.serve(Family::V4, 8, echo_all);
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tos_v4(0xb8)?;
        socket.connect_timeout(&marked.into(), PATIENCE)?;
        Ok::<_, std::io::Error>(TcpStream::from(socket))
    };
    echoes(&mut patient(pair.client().host.run(connect).unwrap().unwrap()), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
    wait_for_bypassed(&pair, "rule login", 4);
    wait_for_bypassed(&pair, "rule voice", 1);
}

#[test]
fn a_client_that_calls_port_0_is_refused_by_its_server_and_delays_no_other() {
    let Some(pair) = Pair::up("") else { return };
    for family in [Family::V4, Family::V6] {
        let server = SocketAddr::new(pair.server().host_address(family), 0);
        let connect = || TcpStream::connect_timeout(&server, PATIENCE).map(drop);
        let refused = pair.client().host.run(connect).unwrap().unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{refused}");
    }
    assert_eq!(pair.count(End::Terminal, "accepted"), 0);
    assert_eq!(pair.count(End::Terminal, "unavailable"), 0);
}

#[test]
fn a_connection_with_signed_segments_goes_end_to_end() {
    let Some(pair) = Pair::up("") else { return };
    for family in [Family::V4, Family::V6] {
        let key = b"between two routers";
        let client: IpAddr = pair.client().host_address(family);
        let server = SocketAddr::new(pair.server().host_address(family), 179);
        let listen = || {
            let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
            if set_md5_key(&socket, (client, 0).into(), key).is_err() {
                eprintln!("skipped: this kernel has no TCP-MD5");
                return None;
            }
            socket.bind(&server.into()).unwrap();
            socket.listen(5).unwrap();
            Some(socket)
        };
        let Some(listener) = pair.server().host.run(listen).unwrap() else { return };
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                echo_all(patient(socket.into()));
            }
        });
        let connect = || {
            let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
            set_md5_key(&socket, server, key).unwrap();
            socket.connect_timeout(&server.into(), PATIENCE).unwrap();
            TcpStream::from(socket)
        };
        echoes(&mut patient(pair.client().host.run(connect).unwrap()), b"open");
    }
    assert_eq!(pair.count(End::Terminal, "accepted"), 0);
    wait_for_bypassed(&pair, "signed", 2);
}

/// A SYN with these options, which fill words of four bytes.
fn syn(client: SocketAddr, server: SocketAddr, options: &[u8]) -> Vec<u8> {
    let words = (20 + options.len()) / 4;
    let mut segment = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, (words << 4) as u8, 2, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(options);
    let addresses = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let pseudo_header = [addresses(client.ip()), addresses(server.ip()), vec![0, 6, 0, segment.len() as u8]].concat();
    let sum: u32 = [&pseudo_header[..], &segment]
        .iter()
        .flat_map(|bytes| bytes.chunks(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    segment
}

/// As by TCP-AO (RFC 5925), by an option of its length that nobody knows, and without options.
#[test]
fn a_connection_that_is_authenticated_as_a_whole_goes_end_to_end() {
    let Some(pair) = Pair::up("") else { return };
    let option = |kind: u8| [&[kind, 20, 1, 1][..], &[0x5a; 16]].concat();
    for (family, signed) in [(Family::V4, 1), (Family::V6, 2)] {
        let server = SocketAddr::new(pair.server().host_address(family), 179);
        let send = |port: u16, options: &[u8]| {
            let client = SocketAddr::new(pair.client().host_address(family), port);
            // The kernel puts the IP header before it.
            let socket = Socket::new(Domain::for_address(server), Type::RAW, Some(Protocol::TCP)).unwrap();
            socket.send_to(&syn(client, server, options), &SocketAddr::new(server.ip(), 0).into()).unwrap();
        };
        // The first two are intercepted: the gateway answers, and the host, which knows of nothing, resets.
        for (port, options) in [(50_000, vec![]), (50_001, option(77)), (50_002, option(29))] {
            pair.client().host.run(|| send(port, &options)).unwrap();
        }
        wait_for_bypassed(&pair, "signed", signed);
    }
    assert_eq!(pair.status(End::Terminal)["bypassed"]["unserved"], 0);
}

#[test]
fn beyond_the_most_streams_connections_go_end_to_end() {
    let Some(mut pair) = Pair::new() else { return };
    pair.hub_link = "max_streams = 5";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let served = |count: usize| -> Vec<TcpStream> {
        let serve = |_| {
            let mut stream = pair.connect(server);
            echoes(&mut stream, b"served");
            stream
        };
        (0..count).map(serve).collect()
    };
    let mut all = served(4);
    // A client that came before the firewall knows would wait for a stream.
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    all.extend(served(8));
    assert_eq!((pair.count(End::Terminal, "accepted"), pair.count(End::Terminal, "unavailable")), (4, 0));
    all.drain(..2);
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements"));
    echoes(&mut pair.connect(server), b"accelerated again");
    assert_eq!(pair.count(End::Terminal, "accepted"), 5);
    all.iter_mut().for_each(|stream| echoes(stream, b"still there"));
}

/// A connection of the client's from `port` to `server`, as if its last use of the port were forgotten.
fn connect_from(pair: &Pair, port: u16, server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    let family = if server.is_ipv4() { Family::V4 } else { Family::V6 };
    socket.bind(&SocketAddr::new(pair.client().host_address(family), port).into()).unwrap();
    socket.connect_timeout(&server.into(), PATIENCE)?;
    Ok(patient(socket.into()))
}

#[test]
fn a_port_that_was_relayed_a_moment_ago_can_be_used_past_the_gateways() {
    for family in [Family::V4, Family::V6] {
        let Some(pair) = Pair::up("") else { return };
        reuses_a_port(pair, family);
    }
}

fn reuses_a_port(mut pair: Pair, family: Family) {
    const PORT: u16 = 40_000;
    // The client is one that reuses its ports soon.
    let again = || kernel::sysctl::write("net.ipv4.tcp_tw_reuse", "1");
    pair.client().host.run(again).unwrap().unwrap();
    let server = pair.serve(family, 7, echo_all);
    let mut client = pair.client().host.run(|| connect_from(&pair, PORT, server)).unwrap().unwrap();
    echoes(&mut client, b"relayed");
    // The client ends first, and so does the hub's gateway on its behalf: it is there that the ports are remembered.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    pair.wait_for(|pair| pair.count(End::Hub, "finished") == 1);
    pair.stop(End::Terminal);
    // Timestamps tell a new connection from the old one after a second.
    std::thread::sleep(Duration::from_millis(1_500));
    let mut client = pair.client().host.run(|| connect_from(&pair, PORT, server)).unwrap().expect("end to end");
    echoes(&mut client, b"end to end");
}

/// Policy routing by source or destination, as hosts with two uplinks have it.
#[test]
fn what_is_intercepted_and_what_is_answered_meets_no_other_routing_rule() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let client = pair.client().host_address(Family::V4);
    for (end, rule) in [(End::Terminal, "from"), (End::Hub, "to")] {
        let ways = pair.output(end, "ip", &format!("route get {}", if rule == "from" { server.ip() } else { client }));
        let way = ways.split(" via ").nth(1).unwrap().split(' ').next().unwrap();
        ip(
            &pair,
            end,
            &[
                &format!("route add default via {way} table 78"),
                &format!("rule add {rule} {client} lookup 78 priority 500"),
            ],
        );
        echoes(&mut pair.connect(server), b"whatever the rules for the client");
    }
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
}

/// Connections of both families are relayed by a pair whose sites have been set up by `prepare`.
fn are_relayed(prepare: impl Fn(&Pair)) {
    let Some(pair) = Pair::new() else { return };
    prepare(&pair);
    let pair = pair.start_both("");
    for family in [Family::V4, Family::V6] {
        let mut stream = pair.connect(pair.serve(family, 7, echo_all));
        echoes(&mut stream, &pattern(1, 100_000));
    }
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
}

/// Reverse-path filters of firewalls use the packet's mark: firewalld (`IPv6_rpfilter`) and NixOS (`checkReversePath`).
#[test]
fn a_firewall_that_filters_by_the_way_back_and_the_mark_lets_relayed_connections_pass() {
    are_relayed(|pair| {
        for end in [End::Hub, End::Terminal] {
            pair.nft(
                end,
                "table inet firewall {
                   chain filter_prerouting {
                     type filter hook prerouting priority filter + 10; policy accept;
                     icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
                     meta nfproto { ipv4, ipv6 } fib saddr . mark . iif oif missing drop
                   }
                   chain rpfilter {
                     type filter hook prerouting priority mangle + 10; policy drop;
                     icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept
                     fib saddr . mark . iif oif exists accept
                   }
                 }",
            );
        }
    });
}

#[test]
fn servers_whose_packets_are_excepted_from_conntrack_are_served() {
    are_relayed(|pair| {
        let untracked = "table inet raw {
              chain in { type filter hook prerouting priority raw; meta l4proto tcp notrack; }
              chain out { type filter hook output priority raw; meta l4proto tcp notrack; }
            }";
        pair.nft(End::Hub, untracked);
    });
}

#[test]
fn sockets_that_take_over_the_mark_of_syns_are_served() {
    are_relayed(|pair| {
        for end in [End::Hub, End::Terminal] {
            set_sysctls(&pair.site(end).gateway, &[("ipv4/tcp_fwmark_accept", "1")]).unwrap();
        }
    });
}

#[test]
fn routes_that_others_have_in_the_gateways_table_stay() {
    let Some(mut pair) = Pair::new() else { return };
    ip(&pair, End::Terminal, &["route add 203.0.113.0/24 dev lo table 25200"]);
    pair.start(End::Terminal, "");
    pair.stop(End::Terminal);
    let left = pair.output(End::Terminal, "ip", "route show table 25200");
    assert!(left.contains("203.0.113.0/24") && !left.contains("local"), "{left}");
}
