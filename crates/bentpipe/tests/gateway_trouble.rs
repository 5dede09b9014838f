//! A pair that does not come up says why, and `bentpipe gateway doctor` how to mend it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use pair::{CLEAR, End, Pair, TLS};
use serde_json::Value;

fn reason(pair: &Pair) -> Value {
    pair.status(End::Terminal)["peers"][0]["trouble"]["reason"].clone()
}

fn check<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name}: {checks:?}"))
}

#[test]
fn a_closed_port_is_told_until_the_peer_is_up() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "[metrics]\nlisten = \"127.0.0.1:9090\"";
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| reason(pair) == "port_closed");
    let troubled = |pair: &Pair| {
        let metrics = pair.http(End::Terminal, 9090, "GET /metrics", "");
        metrics.contains("bentpipe_peer_trouble{peer=\"other\",reason=\"port_closed\"} 1\n")
    };
    assert!(troubled(&pair));
    let (code, checks) = pair.doctor(End::Terminal);
    let peer = check(&checks, "peer other");
    assert_eq!((code, &peer["ok"]), (Some(1), &false.into()), "{checks:?}");
    assert!(peer["remedy"].as_str().unwrap().contains("listen"), "{peer}");
    assert_eq!(check(&checks, "interface sat")["ok"], true, "{checks:?}");
    assert_eq!(check(&checks, "firewall")["ok"], true, "{checks:?}");
    pair.start(End::Hub, "");
    pair.wait_until(End::Terminal, true);
    assert_eq!(reason(&pair), Value::Null);
    assert!(!troubled(&pair));
    assert_eq!(check(&pair.doctor(End::Terminal).1, "peer other")["ok"], true);
}

#[test]
fn a_key_that_the_hub_does_not_know_is_silence() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_key = [9; 32];
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| reason(pair) == "no_answer");
    pair.wait_for(|pair| pair.status(End::Hub)["peers"][0]["trouble"]["reason"] == "never_called");
}

#[test]
fn another_mode_is_told() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "mode = \"clear\"";
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| reason(pair) == "other_mode");
}

#[test]
fn without_a_gateway_doctor_calls_the_peers_itself() {
    let Some(mut pair) = Pair::up("") else { return };
    pair.stop(End::Terminal);
    let (_, checks) = pair.doctor(End::Terminal);
    let peer = check(&checks, "peer other");
    assert!(peer["ok"] == true && peer["says"].as_str().unwrap().contains("call with the gateway's key"), "{checks:?}");
    assert_eq!(check(&checks, "mtu other")["ok"], true, "{checks:?}");
    assert!(!pair.sets(End::Terminal).contains("bentpipe"), "nothing stays behind");
}

#[test]
fn the_leg_tcp_tells_a_closed_port_and_a_refusal() {
    for leg in [CLEAR, TLS] {
        let Some(mut pair) = Pair::with_leg_tcp(leg) else { return };
        pair.terminal_key = [9; 32];
        pair.start(End::Terminal, "");
        pair.wait_for(|pair| reason(pair) == "port_closed");
        pair.start(End::Hub, "");
        pair.wait_for(|pair| reason(pair) == "not_accepted" || reason(pair) == "tls");
    }
}
