//! What `bentpipe gateway reload` and `drain` say, their exit codes, and the signal that reloads. What a reload and a drain do to
//! connections is tested in the crate `gateway`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;
mod published;

use pair::{End, Pair};

#[test]
fn a_reload_says_what_changes_and_a_signal_does_the_same() {
    let Some(pair) = Pair::up("") else { return };
    pair.edit(End::Terminal, |text| text.replace("connect_timeout = \"3s\"", "connect_timeout = \"4s\""));
    let (code, said, _) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 0);
    assert!(said.contains("[gateway] connect_timeout changed"), "{said}");
    let (code, said, _) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!((code, said.as_str()), (0, "nothing has changed\n"));
    pair.edit(End::Terminal, |text| text.replace("connect_timeout = \"4s\"", "connect_timeout = \"6s\""));
    let (code, said, _) = pair.ask(End::Terminal, &["reload", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    published::assert_as_published("gateway-answer", &answer);
    assert!(code == 0 && answer["changes"][0].as_str().unwrap().contains("connect_timeout"), "{said}");

    let before = pair.status(End::Terminal)["reloads"].as_u64().unwrap();
    pair.edit(End::Terminal, |text| text.replace("connect_timeout = \"6s\"", "connect_timeout = \"5s\""));
    // Others are sent to whatever logs, and change nothing.
    for signal in ["-USR1", "-USR2", "-HUP"] {
        pair.signal(End::Terminal, signal);
    }
    pair.wait_for(|pair| pair.status(End::Terminal)["reloads"] == before + 1);
}

#[test]
fn a_reload_that_cannot_be_done_says_why_by_its_exit_code_too() {
    let Some(pair) = Pair::up("") else { return };
    let good = std::fs::read_to_string(pair.config(End::Terminal)).unwrap();
    pair.edit(End::Terminal, |text| text.replace("name = \"other\"", "name = \"other\"\nwieght = 2"));
    let (code, _, faults) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 2, "{faults}");
    assert!(faults.contains("peer.other.wieght: unknown key; did you mean weight?"), "{faults}");

    pair.edit(End::Terminal, |_| good.replace("4500\"\nconnect", "4600\"\nconnect"));
    let (code, _, refused) = pair.ask(End::Terminal, &["reload"]);
    assert_eq!(code, 1, "{refused}");
    assert!(refused.contains("[gateway] listen cannot change while the gateway runs"), "{refused}");
    pair.signal(End::Terminal, "-HUP");
    assert_eq!(pair.ask(End::Terminal, &["status"]).0, 0, "a signal that cannot be obeyed does not end it");
}

#[test]
fn a_gateway_that_drains_shows_it_and_ends() {
    let Some(mut pair) = Pair::up("") else { return };
    assert_eq!(pair.ask(End::Hub, &["drain"]).0, 0);
    assert!(pair.ask(End::Hub, &["status"]).1.contains("draining: ends with the last of 0 connections"));
    pair.wait_for_end(End::Hub);
}
