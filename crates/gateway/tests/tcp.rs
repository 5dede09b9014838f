//! Two gateways around a wire whose satellite transport is the kernel's own TCP: what ordinary TCP programs see, who may call,
//! and what is left when a gateway dies. Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{
    CLEAR, End, Family, OnThreads, PATIENCE, Pair, TLS, assert_reset, carries_both_directions, echo_all, echoes,
    patient, pattern,
};
use kernel::testing::best_of_three;
use relay::connect::{CONNECTED, ConnectRequest};
use satpep::{PrivateKey, Versions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tcp_tunnel::control::Message;
use tcp_tunnel::{CHALLENGE, Challenge, ChallengeError, Hello, Offer, SessionKey, TAG, TunnelRequest};

/// Without gateways yet.
fn clear() -> Option<Pair> {
    Pair::with_tcp_transport(CLEAR)
}

/// With both gateways up.
fn clear_up() -> Option<Pair> {
    Some(clear()?.start_both(""))
}

#[test]
fn both_directions_carry_their_bytes_and_end_each_alone() {
    for settings in [CLEAR, TLS, "transport = \"tcp\"\ncipher = \"chacha20-poly1305\""] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        let pair = pair.start_both("");
        carries_both_directions(&pair);
        assert_eq!(pair.status(End::Hub)["transport"], "tcp");
    }
}

#[test]
fn with_tls_a_stranger_is_refused_and_so_is_who_speaks_in_clear() {
    let Some(mut pair) = Pair::with_tcp_transport(TLS) else { return };
    pair.hub_initiates = false;
    pair.terminal_key = [3; 32];
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| pair.rejected("stranger") > 0);
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.status(End::Terminal)["peers"][0]["state"], "connecting");

    // A gateway that speaks in clear gets nowhere either.
    let hub = SocketAddr::new(pair.server().satellite_address(Family::V4), 4500);
    let hello = Hello::new(PrivateKey::from_random([2; 32]).public_key(), [7; 32]);
    let mut stream = patient(pair.client().gateway.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    stream.write_all(&hello.encode()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < CHALLENGE, "an alert at most: {answer:?}");
}

/// As where a firewall lets the terminal's connections out and the hub's not in.
#[test]
fn of_a_peer_that_can_be_reached_one_way_only_the_other_way_is_named() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        let pair = pair.start_both("");
        pair.edit(End::Hub, |text| {
            let address = SocketAddr::new(pair.client().satellite_address(Family::V4), 4500).to_string();
            assert!(text.contains(&address), "{text}");
            text.replace(&address, &address.replace(":4500", ":4599"))
        });
        pair.reload_changes(End::Hub, "[[peer]] other: address changed");
        // While it carries something, the peer is heard.
        let server = pair.serve(Family::V4, 7, echo_all);
        let client = pair.connect(server);
        let trouble = |pair: &Pair| pair.status(End::Hub)["peers"][0]["trouble"].clone();
        pair.wait_for(|pair| {
            echoes(&mut client.try_clone().unwrap(), b"of the terminal");
            trouble(pair)["reason"] == "port_closed"
        });
        let says = trouble(&pair)["says"].to_string();
        assert!(says.contains("its connections are relayed, but those of this site to it are not: its host"), "{says}");
        assert_eq!(
            (pair.count(End::Terminal, "accepted"), pair.status(End::Terminal)["peers"][0]["state"].as_str()),
            (1, Some("up"))
        );
    }
}

#[test]
fn the_servers_reset_and_refusal_reach_the_client() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        resets_and_refusals_pass(&pair.start_both(""));
    }
}

fn resets_and_refusals_pass(pair: &Pair) {
    let server = pair.serve(Family::V4, 7, |mut stream| {
        stream.read_exact(&mut [0]).unwrap();
        // Closing with unread data sends a reset.
        stream.peek(&mut [0]).unwrap();
    });
    let mut client = pair.connect(server);
    client.write_all(b"ab").unwrap();
    assert_reset(&mut client);
    for family in [Family::V4, Family::V6] {
        pair.assert_reset_at(SocketAddr::new(pair.server().host_address(family), 9));
    }
    pair.assert_reset_at("198.19.77.1:9".parse().unwrap());
    assert_eq!(pair.count(End::Hub, "refused"), 2);
    assert_eq!(pair.count(End::Hub, "unreachable"), 1);
}

#[test]
fn connections_open_on_warm_ones_and_without_those_with_data_in_the_syn() {
    for (sections, how) in [("[tcp]\nwarm_connections = 2", "warm"), ("[tcp]\nwarm_connections = 0", "fast_open")] {
        let Some(mut pair) = clear() else { return };
        pair.sections = sections;
        let pair = pair.start_both("");
        let server = pair.serve(Family::V4, 7, echo_all);
        // The first connection fetches the cookie, and so do those that are opened before it is there.
        pair.wait_for(|pair| pair.opened("syn_data_refused") > 0);
        let mut clients: Vec<_> = (0..6).map(|_| pair.connect(server)).collect();
        for client in &mut clients {
            echoes(client, b"first words");
            echoes(client, &pattern(4, 100_000));
        }
        assert!(pair.opened(how) > 0 && pair.opened("syn_data_taken") > 0, "{}", pair.status(End::Terminal));
        assert_eq!(pair.opened("warm") + pair.opened("fast_open"), 6);
    }
}

#[test]
fn a_server_that_speaks_first_need_not_wait_for_its_client() {
    let Some(mut pair) = clear() else { return };
    pair.sections = "[tcp]\nwarm_connections = 0";
    let pair = pair.start_both("");
    let server = pair.serve(Family::V6, 7, |mut stream| stream.write_all(b"welcome").unwrap());
    let mut word = [0; 7];
    pair.connect(server).read_exact(&mut word).unwrap();
    assert_eq!(&word, b"welcome");
}

#[test]
fn with_confirmed_acceptance_a_client_is_refused_by_its_server() {
    let Some(mut pair) = clear() else { return };
    if !pair.start_confirming() {
        return;
    }
    for family in [Family::V4, Family::V6] {
        pair.assert_refused(family);
        echoes(&mut pair.connect(pair.serve(family, 7, echo_all)), b"confirmed");
    }
}

#[test]
fn a_destination_that_the_far_side_denies_goes_end_to_end() {
    let Some(pair) = clear() else { return };
    let pair = pair.start_both("allow_destinations = [\"192.0.2.0/24\"]");
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("192.0.2.0/24"));
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"end to end");
    assert_eq!((pair.count(End::Hub, "denied"), pair.count(End::Terminal, "accepted")), (0, 0));
}

#[test]
fn a_stranger_and_a_peer_from_elsewhere_are_refused_and_connections_go_end_to_end() {
    let (anywhere, elsewhere) = ("accept_from = [\"198.18.0.0/15\"]", "accept_from = [\"192.0.2.0/24\"]");
    for (key, hub_settings, reason) in [([3; 32], anywhere, "stranger"), ([2; 32], elsewhere, "address")] {
        let Some(mut pair) = clear() else { return };
        (pair.hub_initiates, pair.terminal_key) = (false, key);
        pair.start(End::Hub, hub_settings);
        pair.start(End::Terminal, "");
        pair.wait_for(|pair| pair.rejected(reason) > 0);
        echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"end to end");
        assert_eq!(pair.status(End::Terminal)["peers"][0]["state"], "connecting");
        assert_eq!(pair.count(End::Hub, "connected"), 0);
    }
}

/// Says `request` at `hub` and returns whether the server's connection was made for it.
fn is_taken(pair: &Pair, hub: SocketAddr, tunnel_request: &[u8]) -> bool {
    let mut stream = patient(pair.client().gateway.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    stream.write_all(tunnel_request).unwrap();
    let mut answer = [0xff];
    matches!(stream.read(&mut answer), Ok(1)) && answer == [CONNECTED]
}

/// Waits until the hub has said `word` on its session.
fn hear(session: &mut TcpStream, word: &[u8]) {
    let mut said = Vec::new();
    while !said.ends_with(word) {
        let mut byte = [0];
        session.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
}

/// The test is the terminal: its session with the hub, and what the hub says on it from then on.
fn begin_session(pair: &Pair, hub: SocketAddr) -> (TcpStream, SessionKey) {
    let [hub_key, own] = [[1; 32], [2; 32]].map(PrivateKey::from_random);
    let hello = Hello::new(own.public_key(), [7; 32]);
    let mut session = patient(pair.client().gateway.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    session.write_all(&hello.encode()).unwrap();
    let mut challenge = [0; CHALLENGE];
    session.read_exact(&mut challenge).unwrap();
    let challenge = Challenge::decode(&challenge).unwrap();
    let (key, proof) = SessionKey::prove(&own, &hub_key.public_key(), &hello, &challenge).unwrap();
    session.write_all(&proof).unwrap();
    let (mut probe, mut answer) = (Vec::new(), Vec::new());
    Message::Probe(9).encode(&mut probe);
    Message::Answer(9).encode(&mut answer);
    session.write_all(&probe).unwrap();
    hear(&mut session, &answer);
    (session, key)
}

/// A hub alone, and where it is.
fn hub_alone() -> Option<(Pair, SocketAddr)> {
    let mut pair = clear()?;
    pair.hub_initiates = false;
    pair.start(End::Hub, "accept_from = [\"198.18.0.0/15\"]");
    pair.wait_for(|pair| !pair.status(End::Hub).is_null());
    let hub = SocketAddr::new(pair.server().satellite_address(Family::V4), 4500);
    Some((pair, hub))
}

/// A peer that has not heard yet that another process takes over goes on with its session.
#[test]
fn a_session_goes_on_with_the_process_that_takes_over() {
    let Some((mut pair, hub)) = hub_alone() else { return };
    let (mut session, key) = begin_session(&pair, hub);
    let request = ConnectRequest::new("198.18.2.2:4000".parse().unwrap(), pair.serve(Family::V4, 7, echo_all));
    let before = key.open(5, &request).unwrap();
    assert!(is_taken(&pair, hub, &before));
    // One that was opened ahead of need: the old process has it.
    let mut warm = patient(pair.client().gateway.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    warm.write_all(&TunnelRequest::PREFIX).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let _old = pair.take_over(End::Hub);
    let mut leaving = Vec::new();
    Message::Leaving { has_successor: true }.encode(&mut leaving);
    hear(&mut session, &leaving);
    assert!(is_taken(&pair, hub, &key.open(6, &request).unwrap()));
    assert!(!is_taken(&pair, hub, &before), "it was taken by the old process");
    assert!(!is_taken(&pair, hub, &key.open(6, &request).unwrap()));
    assert_eq!((pair.rejected("replayed"), pair.count(End::Hub, "connected")), (2, 1));
    warm.write_all(&key.open(4, &request).unwrap()[TunnelRequest::PREFIX.len()..]).unwrap();
    let mut answer = [0xff];
    warm.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [CONNECTED], "the old process takes it");
    assert_eq!(pair.count(End::Hub, "connected"), 1);
}

#[test]
fn a_gateway_without_a_common_version_learns_which_there_are() {
    let Some((pair, hub)) = hub_alone() else { return };
    let [hub_key, own] = [[1; 32], [2; 32]].map(PrivateKey::from_random);
    let versions = Versions::new(8, 9).unwrap();
    let hello = Hello { offer: Offer { versions, ..Offer::SPOKEN }, ..Hello::new(own.public_key(), [7; 32]) };
    let mut session = patient(pair.client().gateway.run(|| TcpStream::connect(hub)).unwrap().unwrap());
    session.write_all(&hello.encode()).unwrap();
    let mut challenge = [0; CHALLENGE];
    session.read_exact(&mut challenge).unwrap();
    let challenge = Challenge::decode(&challenge).unwrap();
    let answer = SessionKey::prove(&own, &hub_key.public_key(), &hello, &challenge);
    assert!(matches!(answer, Err(ChallengeError::Versions(theirs)) if theirs == Offer::SPOKEN.versions));
    session.write_all(&[0; TAG]).unwrap();
    assert_eq!(session.read(&mut [0]).unwrap_or_default(), 0, "no proof counts");
    let peer = &pair.status(End::Hub)["peers"][0];
    assert_eq!(peer["trouble"]["reason"], "other_version");
    let says = peer["trouble"]["says"].as_str().unwrap();
    assert!(says.contains("version 8 to 9") && says.ends_with("this gateway is older, upgrade it"), "{says}");
    assert_eq!(pair.rejected("version"), 1);
}

#[test]
fn a_tunnel_request_is_taken_once() {
    let Some((pair, hub)) = hub_alone() else { return };
    let (_session, key) = begin_session(&pair, hub);
    let request = ConnectRequest::new("198.18.2.2:4000".parse().unwrap(), pair.serve(Family::V4, 7, echo_all));
    let tunnel_request = key.open(5, &request).unwrap();
    assert!(is_taken(&pair, hub, &tunnel_request));
    assert!(!is_taken(&pair, hub, &tunnel_request), "what was recorded is sent again");
    assert_eq!(pair.rejected("replayed"), 1);
    assert!(is_taken(&pair, hub, &key.open(4, &request).unwrap()), "one that was overtaken is not a repeated one");
    let mut forged = key.open(6, &request).unwrap();
    *forged.last_mut().unwrap() ^= 1;
    assert!(!is_taken(&pair, hub, &forged));
    assert_eq!((pair.rejected("not_authentic"), pair.count(End::Hub, "connected")), (1, 2));
    assert!(!is_taken(&pair, hub, b"GET / HTTP/1.0\r\n\r\n"));
    assert_eq!(pair.rejected("malformed"), 1);
}

#[test]
fn without_a_far_gateway_tunnels_end_at_the_server() {
    let Some(mut pair) = clear() else { return };
    (pair.settings, pair.has_far_gateway, pair.sections) =
        ("transport = \"tcp\"", false, "[tcp]\ncongestion_control = \"reno\"");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    for family in [Family::V4, Family::V6] {
        let (report, seen) = std::sync::mpsc::channel();
        let server = pair.serve(family, 7, move |stream| {
            report.send(stream.peer_addr().unwrap()).unwrap();
            echo_all(stream);
        });
        let mut client = pair.connect(server);
        echoes(&mut client, &pattern(6, 1_000_000));
        let own = client.local_addr().unwrap();
        let peer = seen.recv_timeout(PATIENCE).unwrap();
        assert_eq!(peer.ip(), own.ip(), "the server sees the client's address");
        assert_ne!(peer.port(), own.port());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        pair.assert_reset_at(SocketAddr::new(pair.server().host_address(family), 9));
    }
    assert_eq!((pair.count(End::Terminal, "connected"), pair.count(End::Terminal, "refused")), (2, 2));
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused_with_those_it_has() {
    let Some(mut pair) = clear() else { return };
    pair.sections = "[tcp]\ncongestion_control = \"warp\"";
    let refusal = pair.try_start(End::Hub, "").unwrap_err().to_string();
    assert!(refusal.contains("[tcp] congestion_control \"warp\"") && refusal.contains("reno"), "{refusal}");
}

#[test]
fn connections_survive_an_outage_and_go_on_soon() {
    best_of_three(go_on_soon_after_an_outage);
}

fn go_on_soon_after_an_outage() -> Result<(), String> {
    let Some(pair) = clear_up() else { return Ok(()) };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"before");
    pair.nft(
        End::Terminal,
        "add table inet cut { chain out { type filter hook output priority 0; oifname sat tcp dport 4500 drop; }; \
         chain in { type filter hook input priority 0; iifname sat tcp sport 4500 drop; }; }",
    );
    relayed.write_all(b"meanwhile").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    pair.nft(End::Terminal, "delete table inet cut");
    let restored = Instant::now();
    relayed.read_exact(&mut [0; 9]).unwrap();
    let took = restored.elapsed();
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    // Retransmissions are a second apart at most.
    if took < Duration::from_millis(1500) { Ok(()) } else { Err(format!("{took:?}")) }
}
