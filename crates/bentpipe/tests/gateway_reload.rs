//! `bentpipe gateway reload` and `drain`, and the signal that reloads.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{End, Pair, echo_all, echoes};

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
fn a_reload_changes_what_is_intercepted_and_touches_no_connection() {
    let Some(pair) = routed() else { return };
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    pair.edit(End::Terminal, |text| text.replace(EVERYTHING, ELSEWHERE).replace("\"3s\"\n", "\"4s\"\n"));
    let (code, said, _) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 0);
    for change in ["[gateway] connect_timeout changed", "[[peer]] other: routes changed"] {
        assert!(said.contains(change), "{said}");
    }
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("198.18."));
    assert!(pair.sets(End::Terminal).contains("203.0.113.0/24"));
    let before = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), before, "the server lies behind no peer now");
    echoes(&mut stays, b"after");

    // A signal does the same.
    pair.edit(End::Terminal, |text| text.replace(ELSEWHERE, EVERYTHING));
    pair.signal(End::Terminal, "-HUP");
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("198.18."));
    echoes(&mut pair.connect(server), b"relayed again");
    assert_eq!(pair.count(End::Terminal, "accepted"), before + 1);
    echoes(&mut stays, b"and on");
    assert_eq!(pair.count(End::Terminal, "reset"), 0);
}

#[test]
fn a_reload_that_cannot_be_done_changes_nothing_and_says_why() {
    let Some(pair) = routed() else { return };
    let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
    let both = format!("wieght = 2\n{ELSEWHERE}");
    pair.edit(End::Terminal, |text| text.replace(EVERYTHING, &both));
    let (code, _, faults) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 2, "{faults}");
    assert!(faults.contains("peer.other.wieght: unknown key; did you mean weight?"), "{faults}");

    pair.edit(End::Terminal, |_| good.replace("4500\"\nconnect", "4600\"\nconnect").replace(EVERYTHING, ELSEWHERE));
    let (code, _, refused) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 1, "{refused}");
    assert!(refused.contains("[gateway] listen cannot change while the gateway runs"), "{refused}");
    pair.signal(End::Terminal, "-HUP");
    assert_eq!(pair.status(End::Terminal)["peers"][0]["state"], "up");
    pair.wait_for(|pair| pair.sets(End::Terminal).contains("elements"));
    assert!(pair.sets(End::Terminal).contains("198.18."), "nothing of either was applied");

    pair.edit(End::Terminal, |_| good.clone());
    let (code, said, _) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!((code, said.as_str()), (0, "nothing has changed\n"));
}

fn drains(mut pair: Pair) {
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut stays = pair.connect(server);
    echoes(&mut stays, b"before");
    assert_eq!(pair.ask(End::Hub, &["drain"]).0, 0);
    // The far side opens none through the hub any more.
    pair.wait_for(|pair| pair.status(End::Terminal)["peers"][0]["state"] == "draining");
    pair.wait_for(|pair| !pair.sets(End::Terminal).contains("elements"));
    let accepted = pair.count(End::Terminal, "accepted");
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), accepted);
    let draining = pair.status(End::Hub)["draining"].clone();
    assert_eq!(draining, serde_json::json!({"connections": 1, "ends_within_s": null}));
    assert!(pair.ask(End::Hub, &["status"]).1.contains("draining: ends with the last of 1 connections"));
    echoes(&mut stays, b"still");
    drop(stays);
    pair.wait_for_end(End::Hub);
    let tables = pair.site(End::Hub).gateway.command("nft").args(["list", "tables"]).output().unwrap();
    assert!(!String::from_utf8(tables.stdout).unwrap().contains("bentpipe"), "the table is gone");
}

#[test]
fn a_gateway_that_drains_ends_with_its_last_connection() {
    if let Some(pair) = routed() {
        drains(pair);
    }
}
