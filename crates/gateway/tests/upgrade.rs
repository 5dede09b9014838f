//! A gateway takes over from one that runs (docs/operations.md, "Upgrade"), and what keeps it from that.

use crate::pair::{
    CLEAR, End, Family, OnThreads, Pair, Running, TLS, assert_nothing_is_left, assert_reset, echo_all, echoes, patient,
};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn new_connections_find_the_new_gateway_and_old_ones_stay_with_the_old() {
    for transport in ["", CLEAR, TLS] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair.map(|pair| pair.start_both("")) else { return };
        let server = pair.serve(Family::V4, 7, echo_all);
        for end in [End::Terminal, End::Hub] {
            let mut stays = pair.connect(server);
            echoes(&mut stays, b"before");
            let old = pair.upgrade(end);
            echoes(&mut stays, b"by the old one");
            echoes(&mut pair.connect(server), b"by the new one");
            drop(stays);
            old.wait_for_end();
            pair.wait_for(|pair| pair.status(end)["predecessor"].is_null());
            echoes(&mut pair.connect(server), b"and after the old one has ended");
            assert_eq!(pair.count(end, "reset"), 0, "{transport}");
        }
    }
}

/// Whether a new connection reaches the server, which echoes.
fn is_served(pair: &Pair, server: SocketAddr) -> bool {
    let served = pair.try_connect(server).and_then(|stream| {
        let mut stream = patient(stream);
        stream.write_all(b"!")?;
        stream.read_exact(&mut [0])
    });
    served.is_ok()
}

/// Puts the key of a stranger in the place of the other gateway's.
fn remove_peer(pair: &Pair, end: End) {
    let [stranger, other] = [9, if end == End::Hub { 2 } else { 1 }]
        .map(|seed| satpep::PrivateKey::from_random([seed; 32]).public_key().to_string());
    pair.edit(end, |text| text.replace(&other, &stranger));
}

/// A terminal is lost while, or before, its hub is upgraded: none of its connections goes on.
#[test]
fn the_old_gateway_resets_the_connections_of_a_peer_that_the_new_one_does_not_have() {
    for transport in ["", CLEAR, TLS] {
        for (end, reloads) in [(End::Hub, true), (End::Terminal, false)] {
            let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
            let Some(mut pair) = pair.map(|pair| pair.start_both("")) else { return };
            let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
            echoes(&mut client, b"before");
            let old = if reloads {
                let old = pair.upgrade(end);
                echoes(&mut client, b"by the old one");
                remove_peer(&pair, end);
                pair.reload_changes(end, "[[peer]] other removed: its connections are reset");
                old
            } else {
                remove_peer(&pair, end);
                pair.take_over(end)
            };
            assert_reset(&mut client);
            old.wait_for_end();
        }
    }
}

/// A bad version is stopped again while the good one still runs.
#[test]
fn connections_stay_with_the_old_gateway_when_the_new_one_stops_first_and_nothing_is_left() {
    for transport in ["", CLEAR] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair.map(|pair| pair.start_both("")) else { return };
        let server = pair.serve(Family::V4, 7, echo_all);
        for end in [End::Terminal, End::Hub] {
            let mut stays = pair.connect(server);
            echoes(&mut stays, b"before");
            let old = pair.upgrade(end);
            pair.stop(end);
            echoes(&mut stays, b"by the old one");
            // Of a peer that has not noticed yet, one or the other is reset.
            pair.wait_for(|pair| is_served(pair, server));
            drop(stays);
            old.wait_for_end();
            pair.wait_for(|pair| is_served(pair, server));
            assert_nothing_is_left(&pair, end);
            pair.start(end, "");
            pair.wait_until(End::Hub, true);
            pair.wait_until(End::Terminal, true);
        }
    }
}

#[test]
fn a_gateway_that_is_started_again_beside_the_old_one_of_an_upgrade_has_sessions() {
    for listen in ["[::]:4500", "0.0.0.0:4500"] {
        let Some(mut pair) = Pair::new() else { return };
        pair.listen = listen;
        let mut pair = pair.start_both("");
        let server = pair.serve(Family::V4, 7, echo_all);
        // Twice each, so that the old process is of either generation.
        for end in [End::Terminal, End::Hub, End::Terminal, End::Hub] {
            let mut stays = pair.connect(server);
            echoes(&mut stays, b"before");
            let old = pair.upgrade(end);
            pair.stop(end);
            pair.start(end, "");
            pair.wait_until(End::Hub, true);
            pair.wait_until(End::Terminal, true);
            echoes(&mut stays, b"by the old one");
            pair.wait_for(|pair| is_served(pair, server));
            drop(stays);
            old.wait_for_end();
            pair.wait_for(|pair| is_served(pair, server));
        }
    }
}

/// Binds a socket beside others of the same user at the gateways' UDP port, if they agree.
fn share_port(pair: &Pair, end: End) -> std::io::Result<socket2::Socket> {
    let bind = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
        kernel::reuseport::set_shared(&socket, true)?;
        socket.bind(&SocketAddr::from(([0, 0, 0, 0], 4500)).into()).map(|()| socket)
    };
    pair.site(end).gateway.run(bind).unwrap()
}

/// Another program stands for the old process: gateways of this test are threads, and have the same process number.
#[test]
fn a_gateway_that_is_started_beside_an_old_process_has_its_port_to_itself_when_that_has_ended() {
    let Some(mut pair) = Pair::new() else { return };
    pair.listen = "0.0.0.0:4500";
    pair.start(End::Hub, "");
    let mut old = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let port = share_port(&pair, End::Terminal).unwrap();
    let note = pair.socket(End::Terminal).with_extension("sock.upgrade");
    std::fs::write(note, format!(r#"{{"pid":{},"generation":1,"peers":[]}}"#, old.id())).unwrap();
    pair.start(End::Terminal, "");
    share_port(&pair, End::Terminal).expect("the port is shared with the old process");
    drop(port);
    old.kill().unwrap();
    old.wait().unwrap();
    pair.wait_for(|pair| share_port(pair, End::Terminal).is_err());
}

#[test]
fn two_processes_that_stop_at_once_leave_nothing() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    let old = pair.upgrade(End::Terminal);
    echoes(&mut stays, b"by the old one");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(old));
        scope.spawn(|| pair.stop(End::Terminal));
    });
    assert_nothing_is_left(&pair, End::Terminal);
}

#[test]
fn while_the_old_gateway_still_runs_a_further_one_is_refused() {
    let Some(mut pair) = Pair::up("") else { return };
    let mut stays = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut stays, b"keeps the old one");
    let _old = pair.take_over(End::Terminal);
    let refused = pair.fails_to_take_over(End::Terminal);
    assert!(refused.starts_with("--take-over: "), "{refused}");
    echoes(&mut stays, b"nothing has changed");
}

#[test]
fn without_a_gateway_to_take_over_from_there_is_an_error_that_names_the_socket() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    pair.stop(End::Hub);
    let refused = pair.fails_to_take_over(End::Hub);
    let socket = pair.socket(End::Hub).display().to_string();
    assert!(refused.starts_with(&format!("--take-over: no gateway serves {socket}: ")), "{refused}");
    assert!(!pair.socket(End::Hub).exists());
}

/// "What must stay the same": each is named, and the running gateway goes on as before.
#[test]
fn a_gateway_that_differs_in_what_must_stay_the_same_is_refused_by_name() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
    let other_key = satpep::PrivateKey::from_random([9; 32]).to_base64();
    let own_key = satpep::PrivateKey::from_random([2; 32]).to_base64();
    for (from, to, name) in [
        ("listen = \"[::]:4500\"", "listen = \"[::]:4501\"", "listen"),
        (own_key.as_str(), other_key.as_str(), "private_key"),
        ("[gateway]\n", "[gateway]\naccept = \"confirmed\"\n", "accept"),
        ("[gateway]\n", "[gateway]\ntransport = \"tcp\"\n", "transport"),
        ("interfaces = [\"lan\"]", "interfaces = [\"lan\"]\nport = 4700", "port"),
        ("interfaces = [\"lan\"]", "interfaces = [\"lan\"]\ntable = 77", "table"),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        pair.edit(End::Terminal, |_| changed.clone());
        let refused = pair.fails_to_take_over(End::Terminal);
        assert!(refused.starts_with("--take-over: ") && refused.contains(name), "{name}: {refused}");
        assert!(refused.contains("is not that of the running gateway: restart it"), "{refused}");
        echoes(&mut pair.connect(server), b"goes on");
    }
    pair.edit(End::Terminal, |_| good.clone());
    assert!(pair.status(End::Terminal)["predecessor"].is_null());
}

/// What this host does not have for the new file is found out while the running gateway can go on.
#[test]
fn a_gateway_whose_file_asks_for_what_cannot_be_had_does_not_take_over() {
    for transport in ["", CLEAR] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(pair) = pair.map(|pair| pair.start_both("")) else { return };
        let server = pair.serve(Family::V4, 7, echo_all);
        let mut stays = pair.connect(server);
        let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
        for (section, named) in [
            ("[connection_log]\nfile = \"/nonexistent/x\"", "[connection_log] file /nonexistent/x: "),
            ("[updates]\nhttp = \"192.0.2.1:8099\"", "[updates] http 192.0.2.1:8099: "),
        ] {
            pair.edit(End::Terminal, |_| format!("{good}\n{section}\n"));
            let refused = pair.fails_to_take_over(End::Terminal);
            assert!(refused.starts_with(named), "{refused}");
            echoes(&mut stays, b"goes on");
            echoes(&mut pair.connect(server), b"and so do new ones");
            assert_eq!(pair.status(End::Terminal)["draining"], serde_json::Value::Null);
        }
    }
}

/// What may be the running gateway's until it lets go is found out too late to stay with that one.
#[test]
fn a_gateway_that_has_taken_over_relays_without_what_another_program_has() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let taken =
        pair.site(End::Terminal).gateway.run(|| std::net::TcpListener::bind("127.0.0.1:8099")).unwrap().unwrap();
    pair.edit(End::Terminal, |text| format!("{text}\n[updates]\nhttp = \"127.0.0.1:8099\"\n"));
    let old = pair.upgrade(End::Terminal);
    old.wait_for_end();
    echoes(&mut pair.connect(server), b"by the new one");
    drop(taken);
}

#[test]
fn an_upgrade_that_fails_leaves_the_listener_for_peers_as_it_was() {
    let Some(pair) = Pair::with_tcp_transport(TLS).map(|pair| pair.start_both("")) else { return };
    let before = listener_for_peers(&pair);
    let other = if before.contains("reno") { "cubic" } else { "reno" };
    pair.edit(End::Hub, |text| {
        format!("{text}\n[tcp]\ncongestion_control = \"{other}\"\n[debug]\nkey_log = \"/nonexistent/keys\"\n")
    });
    let refused = pair.fails_to_take_over(End::Hub);
    assert!(refused.contains("/nonexistent/keys"), "{refused}");
    assert_eq!(listener_for_peers(&pair), before);
}

/// The congestion control of the hub's listener for peers.
fn listener_for_peers(pair: &Pair) -> String {
    let said = pair.output(End::Hub, "ss", "-Hltni sport = :4500");
    let words = said.split_whitespace();
    let found: Vec<_> = words.filter(|word| ["cubic", "reno", "bbr"].contains(word)).collect();
    assert_eq!(found.len(), 1, "{said}");
    found[0].to_owned()
}

/// A pair whose terminal is upgraded while its packets do not arrive, so that the new process waits for the peer.
fn joining() -> Option<(Pair, Running)> {
    let mut pair = Pair::up("")?;
    let old = upgrade_alone(&mut pair);
    Some((pair, old))
}

/// Upgrades the terminal while its packets do not arrive; returns the old gateway.
fn upgrade_alone(pair: &mut Pair) -> Running {
    let hook = "type filter hook prerouting priority -300";
    pair.nft(End::Terminal, &format!("add table inet path {{ chain in {{ {hook}; iifname sat drop; }}; }}"));
    pair.take_over(End::Terminal)
}

/// What the peer does not allow stays end to end; servers that are reached without a far gateway stay accelerated.
#[test]
fn while_the_new_gateway_waits_for_its_peers_the_same_connections_are_intercepted_as_before() {
    let routes = "routes = [\"192.0.2.0/24\", \"203.0.113.0/24\"]";
    let and_direct = "routes = [\"192.0.2.0/24\", \"203.0.113.0/24\"]\n\
                      [[peer]]\nname = \"direct\"\nfar_gateway = false\nroutes = [\"198.51.100.0/24\"]";
    for (transport, settings) in [("", routes), (CLEAR, and_direct)] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair else { return };
        pair.start(End::Hub, "allow_destinations = [\"203.0.113.0/24\"]");
        pair.start(End::Terminal, settings);
        pair.wait_for(|pair| pair.sets(End::Terminal).contains("203.0.113.0/24"));
        let accelerated = |pair: &Pair| pair.output(End::Terminal, "nft", "list set inet bentpipe near4");
        let before = accelerated(&pair);
        let _old = upgrade_alone(&mut pair);
        assert_eq!(accelerated(&pair), before, "{transport}");
    }
}

#[test]
fn a_reload_while_the_new_gateway_waits_for_its_peers_leaves_what_is_intercepted() {
    let Some((pair, _old)) = joining() else { return };
    pair.edit(End::Terminal, |text| text.replacen("[gateway]\n", "[gateway]\nhost_keepalive = \"1h\"\n", 1));
    pair.reload_changes(End::Terminal, "host_keepalive");
    std::thread::sleep(Duration::from_millis(300));
    assert!(pair.sets(End::Terminal).contains("elements"), "{}", pair.sets(End::Terminal));
    pair.nft(End::Terminal, "delete table inet path");
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"relayed");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn a_drain_while_the_new_gateway_waits_for_its_peers_serves_those_who_wait_in_the_queue() {
    let Some((mut pair, _old)) = joining() else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut waits = pair.connect(server);
    pair.drain(End::Terminal, None);
    // As long as a drain waits for connections that are on their way.
    std::thread::sleep(Duration::from_millis(1300));
    pair.nft(End::Terminal, "delete table inet path");
    echoes(&mut waits, b"served");
    drop(waits);
    pair.wait_for_end(End::Terminal);
}

#[test]
fn what_a_new_gateway_accepts_is_as_its_own_file_says() {
    let Some(mut pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    pair.edit(End::Terminal, |text| text.replacen("[gateway]\n", "[gateway]\nhost_keepalive = \"10min\"\n", 1));
    pair.upgrade(End::Terminal).wait_for_end();
    let mut client = pair.connect(server);
    echoes(&mut client, b"by the new one");
    let keepalive = || {
        let said = pair.output(End::Terminal, "ss", "-Htno state established sport = :7");
        said.split_once("(keepalive,").map(|(_, rest)| rest.split(',').next().unwrap().to_owned())
    };
    pair.wait_for(|_| keepalive().is_some());
    assert!(keepalive().unwrap().starts_with("9min"), "{:?}", keepalive());
}

/// Both in one process's life and back: what a file does not name any more is the host's again.
#[test]
fn the_listener_for_peers_is_as_the_new_gateways_file_says() {
    let Some(mut pair) = Pair::with_tcp_transport(TLS).map(|pair| pair.start_both("")) else { return };
    let before = listener_for_peers(&pair);
    let other = if before == "reno" { "cubic" } else { "reno" };
    let good = std::fs::read_to_string(pair.config(End::Hub)).unwrap();
    for (section, expected) in [(format!("[tcp]\ncongestion_control = \"{other}\"\n"), other), (String::new(), &before)]
    {
        pair.edit(End::Hub, |_| format!("{good}\n{section}"));
        pair.upgrade(End::Hub).wait_for_end();
        assert_eq!(listener_for_peers(&pair), expected);
    }
}
