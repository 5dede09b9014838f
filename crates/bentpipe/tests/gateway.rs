//! Two gateways around a wire: what ordinary TCP programs see, and what is left when a gateway stops, dies or comes back.
//! Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;
mod published;

use gateway_testkit::Runner as _;
use lab::Family;
use pair::{End, PATIENCE, Pair, assert_reset, echo_all, echoes, stalls_alone};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::process::Stdio;

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
    let said = String::from_utf8(output.stderr).unwrap();
    let pid = &pair.status(End::Terminal)["pid"];
    assert!(
        said.contains(&format!("gateway bentpipe runs already (pid {pid}): `bentpipe gateway reload` applies")),
        "{said}"
    );
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut client = pair.connect(server);
    echoes(&mut client, b"still accelerated");
    for end in [End::Hub, End::Terminal] {
        pair.wait_for(|pair| !pair.status(end)["streams"].as_array().unwrap().is_empty());
        published::assert_as_published("gateway-status", &pair.status(end));
    }
    drop(client);
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
}

#[test]
fn with_confirmed_acceptance_a_client_is_refused_by_its_server() {
    let Some(mut pair) = Pair::new() else { return };
    if !pair.start_confirming() {
        return;
    }
    for family in [Family::V4, Family::V6] {
        pair.assert_refused(family);
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
fn a_reader_that_stalls_holds_its_own_writer_only_and_loses_nothing() {
    if let Some(pair) = Pair::up("") {
        stalls_alone(&pair);
    }
}

#[test]
fn a_hub_whose_servers_never_answer_warns_of_the_path_of_their_replies() {
    let Some(mut pair) = Pair::new() else { return };
    pair.runner.logged = Some("warn");
    let pair = pair.start_both("");
    // Where they lead to a host that has none of these addresses.
    let [hub, host] = [pair.server().satellite_address(Family::V4), pair.server().host_address(Family::V4)];
    pair.output(End::Hub, "ip", &format!("route add 203.0.113.0/24 via {host}"));
    pair.output(End::Terminal, "ip", &format!("route add 203.0.113.0/24 via {hub}"));
    let _clients: Vec<_> = (1..=9).map(|n| pair.connect(([203, 0, 113, n], 80).into())).collect();
    let warns = |end| {
        let log = std::fs::read_to_string(pair.log(end)).unwrap();
        log.contains("servers do not answer connections from clients' addresses")
    };
    pair.wait_for(|_| warns(End::Hub));
    assert!(!warns(End::Terminal));
}

#[test]
fn routes_that_a_peer_does_not_permit_are_named_only_where_connections_are_intercepted() {
    let Some(mut pair) = Pair::new() else { return };
    pair.runner.logged = Some("warn");
    pair.start(End::Terminal, "allow_destinations = [\"10.0.0.0/8\"]");
    pair.start(End::Hub, "");
    let warns = |pair: &Pair| std::fs::read_to_string(pair.log(End::Hub)).unwrap().contains("lets nothing through");
    pair.wait_for(warns);
    pair.stop(End::Hub);
    pair.edit(End::Hub, |text| text.replace("interfaces = [\"lan\"]", "interfaces = []"));
    pair.running[End::Hub as usize] = Some(pair.at(End::Hub, |place| pair.runner.start(place).unwrap()));
    pair.wait_for(|pair| pair.status(End::Hub)["peers"][0]["permits"]["private"] == serde_json::json!(["10.0.0.0/8"]));
    pair.stop(End::Hub);
    assert!(!warns(&pair));
}

#[test]
fn a_start_beside_a_gateway_that_drains_says_how_far_that_is() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut client = pair.connect(server);
    echoes(&mut client, b"relayed");
    pair.control(End::Terminal, "drain").unwrap();
    pair.wait_for(|pair| !pair.status(End::Terminal)["draining"].is_null());
    let mut command = pair.client().gateway.command(env!("CARGO_BIN_EXE_bentpipe"));
    let second = command.args(["gateway", "--config"]).arg(pair.config(End::Terminal)).stdin(Stdio::null());
    let said = String::from_utf8(second.output().unwrap().stderr).unwrap();
    assert!(said.contains(", drains: 1 connection left): "), "{said}");
    echoes(&mut client, b"goes on");
}
