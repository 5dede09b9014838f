//! A pair that does not come up says why, and `bentpipe gateway doctor` how to mend it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;
mod published;

use kernel::testing::best_of_three;
use pair::{CLEAR, End, Pair, TLS};
use serde_json::{Value, json};

fn reason(pair: &Pair) -> Value {
    pair.status(End::Terminal)["peers"][0]["trouble"]["reason"].clone()
}

fn check<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name}: {checks:?}"))
}

#[test]
fn a_closed_port_is_reported_until_the_peer_is_up() {
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
    published::assert_as_published("gateway-doctor", &json!({ "checks": checks }));
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
    pair.wait_for(|pair| pair.status(End::Hub)["peers"][0]["trouble"]["reason"] == "not_initiated");
}

#[test]
fn a_peer_that_was_up_is_not_asked_for_its_keys() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Hub, true);
    pair.kill(End::Terminal);
    let trouble = |pair: &Pair| pair.status(End::Hub)["peers"][0]["trouble"].clone();
    pair.wait_for(|pair| !trouble(pair).is_null());
    let trouble = trouble(&pair);
    assert_eq!(trouble["reason"], "no_answer", "{trouble}");
    assert!(trouble["says"].as_str().unwrap().contains("was up"), "{trouble}");
}

#[test]
fn another_mode_is_reported() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_settings = "mode = \"clear\"";
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| reason(pair) == "other_mode");
}

#[test]
fn without_a_gateway_doctor_begins_sessions_itself() {
    let Some(mut pair) = Pair::up("") else { return };
    pair.stop(End::Terminal);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    pair.edit(End::Terminal, |text| format!("{text}\n[debug]\nkey_log = \"{}\"\n", keys.display()));
    let (_, checks) = pair.doctor(End::Terminal);
    assert!(!keys.exists(), "a file of the user who runs doctor is in the gateway's way");
    let peer = check(&checks, "peer other");
    assert!(
        peer["ok"] == true && peer["says"].as_str().unwrap().contains("handshake with the gateway's key"),
        "{checks:?}"
    );
    assert_eq!(check(&checks, "mtu other")["ok"], true, "{checks:?}");
    assert!(!pair.sets(End::Terminal).contains("bentpipe"), "nothing stays behind");
}

#[test]
fn the_tcp_transport_tells_a_closed_port_and_a_refusal() {
    for transport in [CLEAR, TLS] {
        let Some(mut pair) = Pair::with_tcp_transport(transport) else { return };
        pair.terminal_key = [9; 32];
        pair.start(End::Terminal, "");
        pair.wait_for(|pair| reason(pair) == "port_closed");
        pair.start(End::Hub, "");
        pair.wait_for(|pair| reason(pair) == "not_accepted" || reason(pair) == "tls");
    }
}

/// As the terminal's gateway that has stopped, whose link is 8 Mbit/s, finds the path when the hub's host has these rules.
fn measured(rules: &str) -> Option<(Option<i32>, Vec<Value>)> {
    let mut pair = Pair::up("")?;
    pair.stop(End::Terminal);
    pair.edit(End::Terminal, |text| text.replace("2Gbit/s", "8Mbit/s"));
    pair.nft(
        End::Hub,
        &format!("add table inet path; add chain inet path pre {{ type filter hook prerouting priority 0; }}; {rules}"),
    );
    let state = pair.state_directory(End::Terminal);
    std::fs::create_dir(&state).unwrap();
    let found = pair.doctor_with(End::Terminal, &["--measure-rate"], None);
    assert_eq!(std::fs::read_dir(state).unwrap().count(), 0, "what the gateway remembers is not doctor's to write");
    Some(found)
}

fn carried(check: &Value) -> f64 {
    let says = check["says"].as_str().unwrap();
    let rate = says.split("carries ").nth(1).unwrap().trim_start_matches("at least ").split(' ').next().unwrap();
    units::Rate::parse(rate).unwrap().as_bps() as f64 / 1e6
}

#[test]
fn a_path_without_limits_carries_at_least_what_is_configured() {
    best_of_three(|| {
        let Some((code, checks)) = measured("") else { return Ok(()) };
        let rate = carried(check(&checks, "rate other"));
        let all_well = checks.iter().all(|check| check["ok"] == true);
        if rate > 7.4 && all_well && code == Some(0) { Ok(()) } else { Err(format!("{code:?}: {checks:?}")) }
    });
}

#[test]
fn a_policer_on_the_path_is_found_with_its_rate() {
    let rules = "add rule inet path pre udp dport 4500 limit rate over 500000 bytes/second burst 64000 bytes drop";
    best_of_three(|| {
        let Some((code, checks)) = measured(rules) else { return Ok(()) };
        let (rate, policer) = (check(&checks, "rate other"), check(&checks, "policer other"));
        assert_eq!((code, &rate["ok"]), (Some(1), &false.into()), "{checks:?}");
        let is_found = policer["ok"] == false && policer["remedy"].as_str().unwrap().contains("provider");
        if is_found && (3.6..4.4).contains(&carried(rate)) { Ok(()) } else { Err(format!("{rate} {policer}")) }
    });
}

#[test]
fn batches_that_the_path_loses_are_found() {
    best_of_three(|| {
        // The wire hands a batch over in one piece.
        let Some((code, checks)) = measured("add rule inet path pre udp dport 4500 meta length > 2000 drop") else {
            return Ok(());
        };
        let batches = check(&checks, "batches sent other");
        assert!(batches["ok"] == false && batches["remedy"].as_str().unwrap().contains("ethtool"), "{batches}");
        assert_eq!(code, Some(1));
        if carried(check(&checks, "rate other")) > 7.4 { Ok(()) } else { Err(format!("{checks:?}")) }
    });
}

#[test]
#[ignore = "takes 10 s: losses are judged over seconds"]
fn a_running_gateway_leaves_batches_off_that_the_path_loses() {
    let Some(pair) = Pair::up("") else { return };
    pair.nft(
        End::Hub,
        "add table inet path; add chain inet path pre { type filter hook prerouting priority 0; };\
         add rule inet path pre udp dport 4500 meta length > 2000 drop",
    );
    let mut client = pair.connect(pair.serve(lab::Family::V4, 7, pair::echo_all));
    let (word, mut reader) = (pair::pattern(1, 100_000), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        while client.write_all(&word).is_ok() {}
    });
    pair.wait_for(|pair| pair.status(End::Terminal)["peers"][0]["batches"] == false);
    let mut other = pair.connect(pair.serve(lab::Family::V4, 8, pair::echo_all));
    pair::echoes(&mut other, &pair::pattern(2, 1_000_000));
    drop(pair);
    writer.join().unwrap();
}

#[test]
fn a_running_gateway_measures_while_it_relays() {
    best_of_three(|| {
        let Some(pair) = Pair::up("") else { return Ok(()) };
        let server = pair.serve(lab::Family::V4, 7, pair::echo_all);
        let mut client = pair.connect(server);
        pair::echoes(&mut client, b"before");
        let (_, checks) = pair.doctor_with(End::Terminal, &["--measure-rate"], None);
        assert_eq!(pair.status(End::Terminal)["peers"][0]["survey"]["done"], true);
        pair::echoes(&mut client, b"after");
        if carried(check(&checks, "rate other")) > 20.0 { Ok(()) } else { Err(format!("{checks:?}")) }
    });
}

#[test]
fn the_tcp_transport_says_that_it_does_not_measure() {
    let Some(pair) = Pair::with_tcp_transport(CLEAR) else { return };
    let pair = pair.start_both("");
    let (code, checks) = pair.doctor_with(End::Terminal, &["--measure-rate"], None);
    let rate = check(&checks, "rate");
    assert!(rate["ok"] == true && rate["says"].as_str().unwrap().contains("congestion control"), "{checks:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_machine_without_the_programs_lacks_something() {
    let Some(pair) = Pair::up("") else { return };
    let (code, checks) = pair.doctor_with(End::Terminal, &[], Some("/nonexistent"));
    let nft = check(&checks, "program nft");
    assert!(nft["ok"] == false && nft["remedy"].as_str().unwrap().contains("nftables"), "{nft}");
    assert_eq!(code, Some(3));
}

/// How many lines of the log of the gateway at `end` begin so.
fn logged(pair: &Pair, end: End, line: &str) -> usize {
    let log = std::fs::read_to_string(pair.log(end)).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|one| one["fields"]["message"].as_str().is_some_and(|message| message.starts_with(line))).count()
}

#[test]
fn a_peer_whose_sessions_begin_again_and_again_does_not_fill_the_log() {
    let of_satpep = ["peer is up", "peer has restarted"];
    let of_tcp = ["the peer has begun a session", "the peer's session has ended"];
    for (settings, [begun, ended]) in [("", of_satpep), (CLEAR, of_tcp)] {
        let Some(mut pair) = (if settings.is_empty() { Pair::new() } else { Pair::with_tcp_transport(settings) })
        else {
            return;
        };
        pair.runner.logged = Some("gateway=info");
        let mut pair = pair.start_both("");
        for _ in 0..4 {
            pair.kill(End::Terminal);
            pair.start(End::Terminal, "");
            [End::Terminal, End::Hub].into_iter().for_each(|end| pair.wait_until(end, true));
        }
        assert_eq!(logged(&pair, End::Hub, ended), 1, "the first one at once");
        // An outage, as on a busy machine, and its end are logged each time.
        let most = 2 + logged(&pair, End::Hub, "peer does not answer");
        let count = logged(&pair, End::Hub, begun);
        assert!(count <= most, "{begun}: {count}");
    }
}

#[test]
fn a_program_that_reports_and_withdraws_the_link_does_not_fill_the_log() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "[updates]\nhttp = \"127.0.0.1:8099\"";
    pair.runner.logged = Some("gateway=info");
    pair.start(End::Terminal, "");
    pair.wait_for(|pair| pair.control(End::Terminal, "status").is_ok());
    for _ in 0..30 {
        for update in [r#"{"rtt": "90ms"}"#, "null"] {
            assert!(pair.http(End::Terminal, 8099, "PUT /link", update).starts_with("HTTP/1.1 200"));
            // A change waits for this long, so that several are one.
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
    }
    assert_eq!(logged(&pair, End::Terminal, "no link update is valid"), 1);
    assert_eq!(logged(&pair, End::Terminal, "link state from another source"), 2);
}
