//! The control socket of a running gateway: questions, silence, nonsense, impatience; and what its state tells (docs/monitoring.md).

use crate::pair::{End, Family, OnThreads, PATIENCE, Pair, Running, echo_all, echoes, run};
use gateway::{Gateway, StartError};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A hub without a terminal.
fn alone() -> Option<Pair> {
    let mut pair = Pair::new()?;
    pair.start(End::Hub, "");
    Some(pair)
}

/// What the hub answers to these bytes.
fn answer(pair: &Pair, question: &[u8]) -> Value {
    answer_of(pair, End::Hub, question)
}

fn answer_of(pair: &Pair, end: End, question: &[u8]) -> Value {
    let mut stream = UnixStream::connect(pair.socket(end)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(question).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn who_asks_nothing_or_hangs_up_receives_the_state() {
    let Some(pair) = alone() else { return };
    for question in [&b""[..], b"\n", b"status\n", b"status", b"  status  \n"] {
        assert_eq!(answer(&pair, question)["peers"][0]["name"], "other", "{question:?}");
    }
    // `socat - UNIX-CONNECT:…` closes its direction at once.
    let mut stream = UnixStream::connect(pair.socket(End::Hub)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn a_question_that_it_does_not_know_is_refused_with_those_it_knows() {
    let Some(pair) = alone() else { return };
    let endless = [b'x'; 100_000];
    let questions: [&[u8]; 7] =
        [b"stop\n", b"status now\n", b"reload twice\n", b"drain 1 2\n", b"survey\n", b"\xff\xfe\n", &endless[..64]];
    for question in questions {
        let answer = answer(&pair, question);
        assert_eq!(answer["done"], false);
        let refused = answer["refused"][0].as_str().unwrap();
        assert_eq!(refused, "the question is none of: status, reload, survey, drain", "{question:?}");
    }
    // Nothing is read beyond the longest question: the connection of a client that goes on writing is closed, and the next is served.
    let mut stream = UnixStream::connect(pair.socket(End::Hub)).unwrap();
    let _ = stream.write_all(&endless);
    assert_eq!(answer(&pair, b"status\n")["name"], pair.status(End::Hub)["name"]);
}

#[test]
fn a_drain_whose_limit_is_no_number_does_not_begin() {
    let Some(pair) = alone() else { return };
    for limit in ["soon", "-1", "1.5", "18446744073709551616"] {
        let answer = answer(&pair, format!("drain {limit}\n").as_bytes());
        assert_eq!(answer["refused"][0], "the limit of drain is not a number of nanoseconds", "{limit}");
    }
    assert_eq!(pair.status(End::Hub)["draining"], Value::Null);
}

#[test]
fn a_survey_needs_a_peer_that_is_up() {
    let Some(pair) = alone() else { return };
    for (question, expected) in [("survey nobody\n", "there is no such peer"), ("survey other\n", "")] {
        let answer = answer(&pair, question.as_bytes());
        assert_eq!(answer["done"], false, "{question}");
        assert!(answer["refused"][0].as_str().unwrap().contains(expected), "{answer}");
    }
}

/// What `doctor` prints before as the largest volume follows from that rate.
#[test]
fn a_survey_offers_the_configured_rate_whatever_the_estimate_is() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "min_rate = \"1Mbit/s\"\n[updates]\nhttp = \"127.0.0.1:9091\"";
    let pair = pair.start_both("");
    pair.http(End::Terminal, 9091, "PUT /link", r#"{"rate": "8Mbit/s"}"#);
    pair.wait_for(|pair| pair.status(End::Terminal)["rate_bps"] == 8_000_000);
    assert_eq!(answer_of(&pair, End::Terminal, b"survey other\n")["done"], true);
    let survey = pair.status(End::Terminal)["peers"][0]["survey"].clone();
    assert_eq!(survey["offered_bps"], 2_000_000_000_u64, "{survey}");
}

#[test]
fn a_client_that_neither_asks_nor_reads_does_not_hold_the_gateway_up() {
    let Some(pair) = Pair::up("") else { return };
    let idle: Vec<_> = (0..5).map(|_| UnixStream::connect(pair.socket(End::Terminal)).unwrap()).collect();
    // Connections are relayed meanwhile.
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), b"not held up");
    // Each is given a second to ask.
    let asked = Instant::now();
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    drop(idle);
}

/// A gateway beside the hub, called `name`, with all else of its own that several gateways on one host need.
fn start_beside(pair: &Pair, name: &str) -> Result<Running, StartError> {
    start_beside_with(pair, name, |text| text)
}

/// The private keys of the hub and of a gateway beside it.
fn private_keys() -> [String; 2] {
    [1, 7].map(|seed| satpep::PrivateKey::from_random([seed; 32]).to_base64())
}

/// The same with a file that `changed` has changed.
fn start_beside_with(pair: &Pair, name: &str, changed: impl FnOnce(String) -> String) -> Result<Running, StartError> {
    let socket = pair.directory.path().join(format!("{name}.sock"));
    let text = std::fs::read_to_string(pair.config(End::Hub)).unwrap();
    let own = format!("name = \"{name}\"\nlisten = \"127.0.0.1:4600\"\n");
    let [hub_key, own_key] = private_keys();
    let text = text
        .replace(&hub_key, &own_key)
        .replace(&format!("listen = \"{}\"\n", pair.listen), &own)
        .replace("interfaces = [\"lan\"]", "port = 4601\nmark = 0x63000000\ntable = 25300\nrule_priority = 20")
        .replace(pair.socket(End::Hub).to_str().unwrap(), socket.to_str().unwrap());
    let file = pair.directory.path().join(format!("{name}.toml"));
    std::fs::write(&file, changed(text)).unwrap();
    run(pair.site(End::Hub), gateway::config::load(&file).unwrap(), Gateway::start)
}

/// What each of them has set up would be a leftover for the other, to be removed; and a peer knows a gateway by its key.
#[test]
fn a_gateway_does_not_start_beside_another_with_its_routing_table_mark_priority_or_key() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    let routing = |pair: &Pair| pair.output(End::Hub, "ip", "rule");
    let before = routing(&pair);
    assert!(before.contains("25200"), "{before}");
    let [hub_key, own_key] = private_keys();
    for (from, to, said) in [
        ("table = 25300", "table = 25200", "the same [intercept] table already"),
        ("mark = 0x63000000", "mark = 0x62700000", "the same [intercept] mark already"),
        ("rule_priority = 20", "rule_priority = 10", "the same [intercept] rule_priority already"),
        (&own_key, &hub_key, "has the private key of this one already"),
    ] {
        let refused = start_beside_with(&pair, "other", |text| text.replace(from, to)).map(drop).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains(said) && refused.starts_with("gateway bentpipe (pid "), "{refused}");
        assert_eq!(routing(&pair), before);
    }
    drop(start_beside(&pair, "other").unwrap());
    pair.stop(End::Hub);
    drop(start_beside_with(&pair, "other", |text| text.replace("table = 25300", "table = 25200")).unwrap());
}

/// Its nftables table would take the place of the first one's, and that one's of it, for ever.
#[test]
fn a_gateway_whose_name_differs_in_hyphens_alone_does_not_start_beside_the_other() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    let first = start_beside(&pair, "site_1").unwrap();
    let refused = start_beside(&pair, "site-1").map(drop).unwrap_err().to_string();
    assert!(refused.contains("nftables table bentpipe_site_1") && refused.contains("gateway site_1"), "{refused}");
    assert_eq!(gateway::status(&pair.directory.path().join("site_1.sock")).unwrap()["name"], "site_1");
    drop(first);
    drop(start_beside(&pair, "site-1").unwrap());
}

/// In another network namespace, the table is another one.
#[test]
fn a_gateway_of_such_a_name_elsewhere_is_no_obstacle() {
    let Some(mut pair) = Pair::new() else { return };
    pair.start(End::Hub, "");
    let _first = start_beside(&pair, "site_1").unwrap();
    let text = std::fs::read_to_string(pair.config(End::Hub)).unwrap();
    let socket = pair.directory.path().join("site-1.sock");
    let text = text
        .replace("[gateway]\n", "[gateway]\nname = \"site-1\"\n")
        .replace(pair.socket(End::Hub).to_str().unwrap(), socket.to_str().unwrap());
    std::fs::write(pair.config(End::Terminal), text).unwrap();
    drop(
        run(pair.site(End::Terminal), gateway::config::load(&pair.config(End::Terminal)).unwrap(), Gateway::start)
            .unwrap(),
    );
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_gateway() {
    let Some(mut pair) = alone() else { return };
    let socket = pair.socket(End::Hub);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    pair.stop(End::Hub);
    assert!(!socket.exists());
    assert_eq!(gateway::status(&socket).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(gateway::reload(&socket).is_err() && gateway::drain(&socket, None).is_err());
}

#[test]
fn a_second_gateway_of_a_name_and_a_file_that_is_no_socket_are_refused() {
    let Some(mut pair) = alone() else { return };
    let first = pair.running[End::Hub as usize].take().unwrap();
    let error = pair.try_start(End::Hub, "").unwrap_err();
    assert!(!error.is_missing(), "{error}");
    let pid = std::process::id();
    assert!(error.to_string().starts_with(&format!("gateway bentpipe runs already (pid {pid}): ")), "{error}");
    assert_eq!(pair.status(End::Hub)["peers"][0]["name"], "other", "the first goes on");
    drop(first);
    std::fs::write(pair.socket(End::Hub), "precious").unwrap();
    let error = pair.try_start(End::Hub, "").unwrap_err().to_string();
    assert!(error.starts_with("control socket ") && error.ends_with("exists and is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(pair.socket(End::Hub)).unwrap(), "precious");
}

#[test]
fn handles_of_a_gateway_that_has_ended_say_so() {
    let Some(mut pair) = alone() else { return };
    let handle = pair.running[End::Hub as usize].as_ref().unwrap().handle.clone();
    assert_eq!(handle.snapshot().unwrap().peers.len(), 1);
    pair.stop(End::Hub);
    assert!(handle.snapshot().is_none());
    assert_eq!(handle.reload().unwrap_err(), gateway::ReloadError::Unavailable("the gateway has stopped"));
    // Neither does any harm.
    handle.drain(None);
    handle.stop();
}

#[test]
fn a_gateway_that_has_no_file_has_nothing_to_reload() {
    let Some(mut pair) = alone() else { return };
    pair.stop(End::Hub);
    let text = std::fs::read_to_string(pair.config(End::Hub)).unwrap();
    let settings = gateway::config::parse(&text, "from memory").unwrap();
    let running = crate::pair::run(pair.site(End::Hub), settings, gateway::Gateway::start).unwrap();
    let answer = pair.reload(End::Hub);
    assert_eq!((answer.done, answer.refused), (false, vec!["the gateway was started without a file".to_owned()]));
    drop(running);
}

/// The keys of the page's table, and those of what a row names in the second column of each given key.
fn documented(key: &str) -> BTreeSet<String> {
    let page = include_str!("../../../docs/monitoring.md");
    let table = page.split("\n| key | content |\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter_map(|row| row.strip_prefix("| `").map(|_| row.trim_matches('|').split(" | ").collect()))
        .collect();
    match key {
        "" => rows.iter().flat_map(|row| quoted(row[0])).collect(),
        key => quoted(rows.iter().find(|row| row[0].trim() == format!("`{key}`")).unwrap()[1]),
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_state_has_the_keys_that_the_page_lists() {
    let Some(pair) = Pair::up("") else { return };
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, b"a stream to tell of");
    let status = pair.status(End::Terminal);
    assert_eq!(keys(&status), documented(""), "docs/monitoring.md");
    for key in ["privileges", "link"] {
        let (reported, documented) = (keys(&status[key]), documented(key));
        assert!(reported.is_subset(&documented), "{key}: {:?}", reported.difference(&documented).collect::<Vec<_>>());
    }
    for key in ["peers", "streams"] {
        let (reported, documented) = (keys(&status[key][0]), documented(key));
        assert!(reported.is_subset(&documented), "{key}: {:?}", reported.difference(&documented).collect::<Vec<_>>());
    }
}

/// Programs that use the typed state lose nothing of the document.
#[test]
fn the_typed_state_is_the_document() {
    let Some(pair) = Pair::up("") else { return };
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, b"a stream to tell of");
    let document = answer(&pair, b"status\n");
    let typed: gateway::Snapshot = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), document);
    assert_eq!((typed.peers[0].state, typed.streams[0].side), (gateway::PeerState::Up, gateway::Side::Far));
    let asked = gateway::snapshot(&pair.socket(End::Terminal)).unwrap();
    assert_eq!((asked.name, asked.streams[0].side), ("bentpipe".to_owned(), gateway::Side::Near));
}

#[test]
fn the_state_tells_of_each_stream_what_its_ends_and_counts_are() {
    let Some(pair) = Pair::up("") else { return };
    let server = pair.serve(Family::V6, 7, echo_all);
    let mut client = pair.connect(server);
    echoes(&mut client, &[7; 1000]);
    let stream = |end| pair.status(end)["streams"][0].clone();
    let (near, far) = (stream(End::Terminal), stream(End::Hub));
    for (stream, side) in [(&near, "near"), (&far, "far")] {
        assert_eq!(stream["side"], side);
        assert_eq!(stream["client"], json!(client.local_addr().unwrap().to_string()));
        assert_eq!(stream["server"], json!(server.to_string()));
        assert_eq!((&stream["peer"], &stream["class"]), (&json!("other"), &json!("default")));
        assert_eq!((&stream["from_tcp_bytes"], &stream["to_tcp_bytes"]), (&json!(1000), &json!(1000)), "{side}");
    }
    assert_eq!(near["stream"], far["stream"], "both call it by one number");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    for end in [End::Hub, End::Terminal] {
        pair.wait_for(|pair| pair.status(end)["streams"].as_array().is_some_and(Vec::is_empty));
        let status = pair.status(end);
        assert_eq!(status["connections"]["finished"], 1);
        assert_eq!(status["connections"]["bytes_from_tcp"], 1000, "what has ended still counts");
    }
}

/// One Prometheus scrape and the state tell the same.
#[test]
fn metrics_count_what_the_state_counts() {
    let Some(mut pair) = Pair::new() else { return };
    pair.terminal_link = "[metrics]\nlisten = \"127.0.0.1:9090\"";
    let pair = pair.start_both("");
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, &[7; 5000]);
    pair.assert_reset_at((pair.server().host_address(Family::V4), 9).into());
    pair.wait_for(|pair| pair.count(End::Terminal, "reset") == 1);
    let plain = pair.http(End::Terminal, 9090, "GET /metrics", "");
    assert!(plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
    assert!(plain.contains("\n# TYPE bentpipe_connections_total counter\n") && !plain.contains("# EOF"), "{plain}");
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3\r\n";
    let metrics = pair.http_with(End::Terminal, 9090, "GET /metrics", accept, "");
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("application/openmetrics-text"), "{metrics}");
    for line in [
        "bentpipe_connections_total{outcome=\"accepted\"} 2",
        "bentpipe_connections_total{outcome=\"reset\"} 1",
        "bentpipe_connections_open 1",
        "bentpipe_tcp_bytes_total{direction=\"from_tcp\"} 5000",
        "bentpipe_tcp_bytes_total{direction=\"to_tcp\"} 5000",
        "bentpipe_peer_up{peer=\"other\"} 1",
        "bentpipe_capacity_prior_bytes_per_second 250000000.0",
        "bentpipe_class_connections_total{class=\"default\"} 2",
        "bentpipe_class_bytes_total{class=\"default\",direction=\"to_tcp\"} 5000",
        "bentpipe_open_time_seconds_count{class=\"default\"} 1",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|reported| reported == line), "{line}\n{metrics}");
    }
    assert!(pair.http(End::Terminal, 9090, "GET /", "").starts_with("HTTP/1.1 404"));
    assert!(pair.http(End::Terminal, 9090, "POST /metrics", "x").starts_with("HTTP/1.1 405"));
    drop(client);
}

#[test]
fn an_address_of_metrics_that_is_taken_is_named_and_leaves_nothing_behind() {
    let Some(mut pair) = Pair::new() else { return };
    let taken = || std::net::TcpListener::bind("127.0.0.1:9090");
    let _taken = pair.site(End::Hub).gateway.run(taken).unwrap().unwrap();
    pair.hub_link = "[metrics]\nlisten = \"127.0.0.1:9090\"";
    let error = pair.try_start(End::Hub, "").unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:9090"), "{error}");
    assert!(!pair.output(End::Hub, "nft", "list tables").contains("bentpipe"));
    assert!(!pair.output(End::Hub, "ip", "rule show").contains("fwmark"));
    assert!(!pair.socket(End::Hub).exists());
}
