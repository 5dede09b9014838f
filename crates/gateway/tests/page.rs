//! The page of `[web]` of a running gateway: the numbers of its status, its peers' deaths, and its life across an upgrade.

use crate::pair::{End, Family, OnThreads, PATIENCE, Pair, echo_all, echoes};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

const WEB: &str = "[web]\nlisten = \"127.0.0.1:8080\"\n";

/// A pair that serves pages.
fn with_pages() -> Option<Pair> {
    let mut pair = Pair::new()?;
    pair.sections = WEB;
    Some(pair.start_both(""))
}

/// What a page of `end` with this view receives from now on.
fn documents(pair: &Pair, end: End, view: &str) -> impl Iterator<Item = Value> + use<> {
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    let mut stream = pair.site(end).gateway.run(|| TcpStream::connect(address)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events?{view} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
}

#[test]
fn the_page_has_the_numbers_of_the_status() {
    let Some(pair) = with_pages() else { return };
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, b"carried");
    let shown = documents(&pair, End::Terminal, "table=streams").find(|shown| shown["table"]["total"] == 1).unwrap();
    let status = pair.status(End::Terminal);
    assert_eq!(shown["capacity_bps"].as_f64(), status["rate_bps"].as_f64());
    assert_eq!(shown["gateway"]["name"], status["name"]);
    assert_eq!(shown["link"]["source"], status["link"]["source"]);
    let [row, stream] = [&shown["table"]["rows"][0], &status["streams"][0]];
    for key in ["stream", "peer", "side", "client", "server", "class", "state", "from_tcp_bytes", "to_tcp_bytes"] {
        assert_eq!(row[key], stream[key], "{key}");
    }
    let shown = documents(&pair, End::Terminal, "table=peers").next().unwrap();
    let [row, peer] = [&shown["table"]["rows"][0], &pair.status(End::Terminal)["peers"][0]];
    for key in ["name", "state", "mtu", "streams"] {
        assert_eq!(row[key], peer[key], "{key}");
    }
}

#[test]
fn a_far_gateway_that_dies_and_a_reload_are_events() {
    let Some(mut pair) = with_pages() else { return };
    let mut page = documents(&pair, End::Terminal, "table=peers");
    // The first sample may be older than the session.
    assert!(page.by_ref().take(5).any(|document| document["peers_up"] == 1));
    pair.edit(End::Terminal, |text| text.replace("rate = \"2Gbit/s\"", "rate = \"1Gbit/s\""));
    pair.reload_changes(End::Terminal, "[link] rate");
    let is_reported = |page: &mut dyn Iterator<Item = Value>, text: &str| {
        let has = |document: &Value| document["events"].to_string().contains(text);
        page.take(30).find(has).unwrap_or_else(|| panic!("{text}"))
    };
    let reloaded = is_reported(&mut page, "configuration reloaded");
    assert!(reloaded["events"].to_string().contains("link rate 1.00 Gbit/s instead of 2.00 Gbit/s"), "{reloaded}");
    pair.stop(End::Hub);
    let dead = is_reported(&mut page, "other is ");
    assert_eq!(dead["peers_up"], 0);
    assert_ne!(dead["table"]["rows"][0]["state"], "up");
}

#[test]
fn an_upgrade_leaves_the_page_to_the_new_process() {
    let Some(mut pair) = with_pages() else { return };
    let mut before = documents(&pair, End::Terminal, "");
    assert!(before.next().is_some());
    let old = pair.take_over(End::Terminal);
    assert!(before.take(30).count() < 30, "the old process ends its pages");
    let shown = documents(&pair, End::Terminal, "").next().unwrap();
    assert!(shown["gateway"]["uptime_s"].as_f64() < Some(PATIENCE.as_secs_f64()));
    drop(old);
}

#[test]
fn a_token_opens_the_page_and_a_short_one_is_no_token() {
    let Some(mut pair) = Pair::new() else { return };
    let token = pair.directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    pair.sections =
        Box::leak(format!("[web]\nlisten = \"0.0.0.0:8080\"\ntoken_file = \"{}\"\n", token.display()).into_boxed_str());
    pair.start(End::Hub, "");
    assert!(pair.http(End::Hub, 8080, "GET /", "").starts_with("HTTP/1.1 401"));
    let with_token = "GET / HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\nX-Rest:";
    assert!(pair.http(End::Hub, 8080, with_token, "").starts_with("HTTP/1.1 200"));
    pair.stop(End::Hub);
    std::fs::write(&token, "short\n").unwrap();
    let refused = pair.try_start(End::Hub, "").unwrap_err().to_string();
    assert!(refused.contains("[web] token_file") && refused.contains("shorter than 16 characters"), "{refused}");
}
