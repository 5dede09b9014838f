//! A running gateway takes over new settings, and drains, without touching a connection.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use crate::pair::{CLEAR, End, Family, OnThreads, Pair, TLS, assert_reset, echo_all, echoes, pattern};
use std::io::{Read, Write};
use std::net::Shutdown;

/// The prefixes of the site that the hub serves, as routes of the terminal's peer.
const EVERYTHING: &str = "routes = [\"0.0.0.0/0\", \"::/0\"]";
const ELSEWHERE: &str = "routes = [\"203.0.113.0/24\"]";

/// A pair whose terminal sends everything to the hub, by routes that stand in its file.
fn routed() -> Option<Pair> {
    Some(start_routed(Pair::new()?))
}

fn start_routed(mut pair: Pair) -> Pair {
    pair.start(End::Hub, "");
    pair.start(End::Terminal, EVERYTHING);
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    pair
}

#[test]
fn the_connections_of_a_peer_that_is_removed_are_reset_and_it_can_come_back() {
    if let Some(pair) = routed() {
        removes_and_adds(&pair);
    }
}

#[test]
fn so_with_the_tcp_transport() {
    for transport in [CLEAR, TLS] {
        if let Some(pair) = Pair::with_tcp_transport(transport) {
            removes_and_adds(&start_routed(pair));
        }
    }
}

fn removes_and_adds(pair: &Pair) {
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut client = pair.connect(server);
    echoes(&mut client, b"before");
    let good = std::fs::read_to_string(pair.config(End::Hub)).unwrap();
    let stranger = satpep::PrivateKey::from_random([9; 32]).public_key().to_string();
    let terminal = satpep::PrivateKey::from_random([2; 32]).public_key().to_string();
    pair.edit(End::Hub, |text| text.replace(&terminal, &stranger));
    pair.reload_changes(End::Hub, "[[peer]] other removed: its connections are reset");
    assert_reset(&mut client);
    pair.wait_until(End::Terminal, false);
    pair.edit(End::Hub, |_| good.clone());
    pair.reload_changes(End::Hub, "[[peer]] other added");
    pair.wait_until(End::Terminal, true);
    echoes(&mut pair.connect(server), b"again");
}

#[test]
fn the_estimate_begins_anew_at_another_rate_and_keeps_to_another_bound() {
    let Some(pair) = routed() else { return };
    let believed = || pair.status(End::Terminal)["capacity"].clone();
    assert_eq!(believed()["prior_bps"].as_u64(), Some(2_000_000_000));
    pair.edit(End::Terminal, |text| text.replacen("rate = \"2Gbit/s\"", "rate = \"1Gbit/s\"", 1));
    pair.reload_changes(End::Terminal, "[link] rate");
    assert_eq!(believed()["prior_bps"].as_u64(), Some(1_000_000_000));
    pair.edit(End::Terminal, |text| text.replacen("rate = \"1Gbit/s\"", "max_rate = \"300Mbit/s\"", 1));
    pair.reload_changes(End::Terminal, "[link] min_rate, max_rate");
    let last = believed();
    assert!(last["prior_bps"].is_null() && last["rate_bps"].as_u64() <= Some(300_000_000), "{last}");
}

/// Another peer comes, changes its address and goes, beside one whose connections go on.
#[test]
fn peers_of_the_tcp_transport_come_change_and_go_beside_others() {
    for transport in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(transport) else { return };
        let pair = start_routed(pair);
        let server = pair.serve(Family::V4, 7, echo_all);
        let mut stays = pair.connect(server);
        echoes(&mut stays, b"before");
        let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
        let other = satpep::PrivateKey::from_random([9; 32]).public_key();
        let another = |port: u16| {
            format!(
                "[[peer]]\nname = \"another\"\npublic_key = \"{other}\"\naddress = \"127.0.0.1:{port}\"\n\
                 routes = [\"203.0.113.0/24\"]\noverlap = true\n"
            )
        };
        let mut reload = |text: String, change: &str| {
            pair.edit(End::Terminal, |_| text.clone());
            pair.reload_changes(End::Terminal, change);
            echoes(&mut stays, b"after");
            echoes(&mut pair.connect(server), b"and a new one");
        };
        let trouble = |pair: &Pair| pair.status(End::Terminal)["peers"][1]["trouble"]["reason"].clone();
        reload(good.clone() + &another(4599), "[[peer]] another added");
        pair.wait_for(|pair| trouble(pair) == "port_closed");
        // This gateway's own port: it is called there, and is not who it should be.
        reload(good.clone() + &another(4500), "[[peer]] another: address changed");
        pair.wait_for(|pair| matches!(trouble(pair).as_str(), Some("not_accepted" | "wrong_key" | "tls")));
        reload(good.clone(), "[[peer]] another removed");
        assert_eq!(pair.status(End::Terminal)["peers"].as_array().unwrap().len(), 1);
        assert_eq!((pair.count(End::Hub, "reset"), pair.count(End::Terminal, "reset")), (0, 0));
    }
}

/// A peer that is called at another address answers there; connections that were made to the one before go on.
#[test]
fn a_peer_of_the_tcp_transport_is_called_at_its_new_address_and_its_connections_go_on() {
    let Some(mut pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let anywhere = "accept_from = [\"0.0.0.0/0\", \"::/0\"]";
    pair.start(End::Hub, anywhere);
    pair.start(End::Terminal, &format!("{EVERYTHING}\n{anywhere}"));
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    let [from, to] = [Family::V4, Family::V6].map(|family| {
        format!("address = \"{}\"", std::net::SocketAddr::new(pair.server().satellite_address(family), 4500))
    });
    pair.edit(End::Terminal, |text| text.replace(&from, &to));
    pair.reload_changes(End::Terminal, "[[peer]] other: address changed");
    pair.wait_for(|pair| {
        pair.status(End::Terminal)["peers"][0]["address"].as_str().is_some_and(|a| a.starts_with('['))
    });
    pair.wait_until(End::Terminal, true);
    let before = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(server), b"by way of IPv6");
    assert_eq!(pair.count(End::Terminal, "accepted"), before + 1);
    echoes(&mut stays, b"after");
    assert_eq!((pair.count(End::Hub, "reset"), pair.count(End::Terminal, "reset")), (0, 0));
}

#[test]
fn a_reload_changes_what_is_intercepted_and_touches_no_connection() {
    let Some(pair) = routed() else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    pair.edit(End::Terminal, |text| text.replace(EVERYTHING, ELSEWHERE).replace("\"3s\"\n", "\"4s\"\n"));
    let changes = pair.reload(End::Terminal).changes.join("\n");
    for change in ["[gateway] connect_timeout changed", "[[peer]] other: routes changed"] {
        assert!(changes.contains(change), "{changes}");
    }
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("198.18."));
    assert!(pair.sets(End::Terminal).contains("203.0.113.0/24"));
    let before = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), before, "the server lies behind no peer now");
    echoes(&mut stays, b"after");
    assert_eq!(pair.count(End::Terminal, "reset"), 0);
}

#[test]
fn a_reload_that_cannot_be_done_changes_nothing_and_says_why() {
    let Some(pair) = routed() else { return };
    let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
    let with_fault = good.replace(EVERYTHING, &format!("wieght = 2\n{ELSEWHERE}"));
    let with_other_port = good.replace("4500\"\nconnect", "4600\"\nconnect").replace(EVERYTHING, ELSEWHERE);
    let expected = [
        (with_fault, "peer.other.wieght: unknown key; did you mean weight?"),
        (with_other_port, "[gateway] listen cannot change while the gateway runs"),
    ];
    for (text, why) in expected {
        pair.edit(End::Terminal, |_| text.clone());
        let answer = pair.reload(End::Terminal);
        assert!(!answer.done && format!("{answer:?}").contains(why), "{answer:?}");
        assert_eq!(pair.status(End::Terminal)["peers"][0]["state"], "up");
        assert!(pair.sets(End::Terminal).contains("198.18."), "nothing of it was applied");
    }
    pair.edit(End::Terminal, |_| good.clone());
    let answer = pair.reload(End::Terminal);
    assert!(answer.done && answer.changes.is_empty(), "{answer:?}");
}

fn drains(mut pair: Pair) {
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    pair.drain(End::Hub, None);
    // The far side opens none through the hub any more.
    pair.wait_for(|pair| pair.status(End::Terminal)["peers"][0]["state"] == "draining");
    assert_eq!(pair.status(End::Terminal)["peers"][0]["trouble"], serde_json::Value::Null, "nothing is to be mended");
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    let accepted = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted);
    let draining = pair.status(End::Hub)["draining"].clone();
    assert_eq!(draining, serde_json::json!({"connections": 1, "ends_within_s": null}));
    echoes(&mut stays, b"still");
    drop(stays);
    pair.wait_for_end(End::Hub);
    assert!(!pair.output(End::Hub, "nft", "list tables").contains("bentpipe"), "the table is gone");
}

#[test]
fn a_gateway_that_drains_tells_its_peers_and_ends_with_its_last_connection() {
    if let Some(pair) = routed() {
        drains(pair);
    }
    for transport in [CLEAR, TLS] {
        if let Some(pair) = Pair::with_tcp_transport(transport) {
            drains(start_routed(pair));
        }
    }
}

/// What was on its way when the last connection ended arrives at a client that reads late.
#[test]
fn the_last_bytes_arrive_though_the_gateway_that_sent_them_has_ended() {
    for transport in ["", CLEAR, TLS] {
        let pair = if transport.is_empty() { Pair::new() } else { Pair::with_tcp_transport(transport) };
        let Some(mut pair) = pair.map(start_routed) else { return };
        let answer = pattern(5, 2_000_000);
        let sent = answer.clone();
        let server = pair.serve(Family::V4, 7, move |mut stream| {
            stream.read_to_end(&mut Vec::new()).unwrap();
            stream.write_all(&sent).unwrap();
        });
        let mut client = pair.connect(server);
        client.write_all(b"a question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        pair.wait_for(|pair| {
            pair.status(End::Terminal)["streams"][0]["to_tcp_bytes"].as_u64().is_some_and(|bytes| bytes > 0)
        });
        pair.drain(End::Hub, None);
        pair.wait_for_end(End::Hub);
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(received == answer, "transport {transport:?}: {} of {} bytes", received.len(), answer.len());
    }
}

#[test]
fn a_limit_ends_a_gateway_that_drains_with_connections_left() {
    let Some(mut pair) = routed() else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut client = pair.connect(server);
    echoes(&mut client, b"before");
    pair.drain(End::Terminal, Some(units::Duration::from_secs(3600)));
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    echoes(&mut client, b"still");
    pair.drain(End::Terminal, Some(units::Duration::from_millis(10)));
    assert_reset(&mut client);
    pair.wait_for_end(End::Terminal);
}
