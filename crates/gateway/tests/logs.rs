//! The connection log and traces of sessions, as a running gateway writes them under its sandbox (docs/monitoring.md).

use crate::pair::{End, Family, OnThreads, Pair, echo_all, echoes};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// The lines of a log.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Both gateways, of which each logs to a directory of its own.
fn logging(pair: &mut Pair, more: &str) {
    for end in [End::Hub, End::Terminal] {
        let directory = pair.directory.path().join(format!("log{}", end as u8));
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("connections");
        pair.start(end, &format!("\n[connection_log]\nfile = \"{}\"\n{more}", file.display()));
    }
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
}

fn log(pair: &Pair, end: End) -> std::path::PathBuf {
    pair.directory.path().join(format!("log{}/connections", end as u8))
}

#[test]
fn both_gateways_log_how_a_connection_went() {
    let Some(mut pair) = Pair::new() else { return };
    logging(&mut pair, "");
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut client = pair.connect(server);
    let from = client.local_addr().unwrap();
    let ends = [End::Terminal, End::Hub];
    let mut bytes = 0;
    // The lines have the session's round-trip time as soon as it is measured, which one exchange between busy processes need not do.
    while bytes == 0 || !ends.iter().all(|end| pair.status(*end)["peers"][0]["rtt_s"].is_number()) {
        assert!(bytes < 1_000_000, "no round-trip time after {bytes} bytes");
        echoes(&mut client, &[7; 5000]);
        bytes += 5000;
    }
    drop(client);
    let closed = SocketAddr::new(server.ip(), 9);
    pair.assert_reset_at(closed);
    pair.wait_for(|pair| ends.iter().all(|end| lines(&log(pair, *end)).len() == 2));
    for (end, side) in ends.into_iter().zip(["near", "far"]) {
        let lines = lines(&log(&pair, end));
        let line = lines.iter().find(|line| line["server_port"] == 7).unwrap();
        assert_eq!(
            (&line["event"], &line["side"], &line["peer"]),
            (&"connection".into(), &side.into(), &"other".into())
        );
        let (client, port) = (from.ip().to_string(), from.port());
        assert_eq!((&line["client_address"], &line["client_port"]), (&client.into(), &port.into()), "{line}");
        assert_eq!((&line["from_tcp_bytes"], &line["to_tcp_bytes"]), (&bytes.into(), &bytes.into()), "{line}");
        assert_eq!(
            (&line["ended"], &line["reason"], &line["class"]),
            (&"finished".into(), &Value::Null, &"default".into())
        );
        for key in ["duration_s", "open_s", "rtt_s"] {
            assert!(line[key].as_f64().is_some_and(|time| (0.0..30.0).contains(&time)), "{key}: {line}");
        }
        assert!(line["start"].as_str() < line["end"].as_str(), "{line}");
        let refused = lines.iter().find(|line| line["server_port"] == 9).unwrap();
        assert_eq!((&refused["ended"], &refused["open_s"]), (&"not_connected".into(), &Value::Null), "{refused}");
        assert_eq!(refused["reason"], "connection refused by the server");
        // A line is counted once it is in the file.
        pair.wait_for(|pair| pair.status(end)["connection_log"]["written"] == 2);
    }
}

#[test]
fn a_gateway_that_ends_logs_the_connections_past_it_up_to_then() {
    let Some(mut pair) = Pair::new() else { return };
    logging(&mut pair, "\n[[bypass]]\nname = \"login\"\nports = [22]\n");
    echoes(&mut pair.connect(pair.serve(Family::V4, 22, echo_all)), b"end to end");
    pair.stop(End::Terminal);
    let lines = lines(&log(&pair, End::Terminal));
    let bypassed: Vec<_> = lines.iter().filter(|line| line["event"] == "bypassed").collect();
    assert_eq!(bypassed.len(), 1, "{lines:?}");
    assert_eq!((&bypassed[0]["reason"], &bypassed[0]["connections"]), (&"rule login".into(), &1.into()));
}

#[test]
fn a_connection_of_a_peer_that_another_one_takes_the_place_of_is_logged_as_its_own() {
    let Some(mut pair) = Pair::new() else { return };
    logging(&mut pair, "");
    let mut client = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, b"before");
    let [terminal, stranger] = [2, 9].map(|byte| satpep::PrivateKey::from_random([byte; 32]).public_key().to_string());
    pair.edit(End::Hub, |text| text.replace(&terminal, &stranger).replace("\"other\"", "\"next\""));
    pair.reload_changes(End::Hub, "[[peer]] next added");
    pair.wait_for(|pair| lines(&log(pair, End::Hub)).len() == 1);
    assert_eq!(lines(&log(&pair, End::Hub))[0]["peer"], "other");
}

/// In the sandbox a file can be renamed only because its directory is among those that the gateway may write to.
#[test]
fn a_full_log_is_renamed_and_none_of_its_lines_is_lost() {
    let Some(mut pair) = Pair::new() else { return };
    logging(&mut pair, "max_size = \"64KiB\"\nmax_files = 3\n");
    let server = pair.serve(Family::V4, 7, echo_all);
    const COUNT: usize = 200;
    for _ in 0..COUNT {
        echoes(&mut pair.connect(server), b"short");
    }
    let files = |pair: &Pair| ["", ".1"].map(|suffix| format!("{}{suffix}", log(pair, End::Terminal).display()));
    let all = |pair: &Pair| files(pair).iter().flat_map(|file| lines(Path::new(file))).collect::<Vec<_>>();
    pair.wait_for(|pair| all(pair).len() == COUNT);
    let [new, old] = files(&pair).map(|file| std::fs::metadata(file).unwrap().len());
    assert!(new <= 65_536 && (60_000..=65_536).contains(&old), "{new}, {old}");
    let streams: BTreeSet<_> = all(&pair).iter().map(|line| line["stream"].as_u64()).collect();
    assert_eq!(streams.len(), COUNT, "each once");
}

#[test]
fn a_full_disk_costs_lines_and_no_connections() {
    let Some(mut pair) = Pair::new() else { return };
    // Every write to it fails as on a full disk (full(4)).
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "\n[connection_log]\nfile = \"/dev/full\"\n");
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    let server = pair.serve(Family::V4, 7, echo_all);
    for _ in 0..20 {
        echoes(&mut pair.connect(server), b"as ever");
    }
    pair.wait_for(|pair| pair.status(End::Terminal)["connection_log"]["dropped"] == 20);
    assert_eq!(pair.status(End::Terminal)["connection_log"]["written"], 0);
    assert_eq!(pair.count(End::Terminal, "finished"), 20);
    assert_eq!(pair.status(End::Hub)["connection_log"], Value::Null);
}

#[test]
fn a_log_that_cannot_be_opened_is_a_fault_of_the_start() {
    let Some(mut pair) = Pair::new() else { return };
    let error = pair.try_start(End::Hub, "\n[connection_log]\nfile = \"/proc/nonexistent/log\"\n").unwrap_err();
    assert!(error.to_string().starts_with("[connection_log] file /proc/nonexistent/log: "), "{error}");
}

#[test]
fn a_session_is_traced_where_that_is_asked_for() {
    let Some(mut pair) = Pair::new() else { return };
    let directory = pair.directory.path().join("traces");
    std::fs::create_dir(&directory).unwrap();
    pair.start(End::Hub, "");
    pair.start(End::Terminal, &format!("\n[debug]\nqlog = \"{}\"\n", directory.display()));
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    let mut client: TcpStream = pair.connect(pair.serve(Family::V4, 7, echo_all));
    echoes(&mut client, &[7; 50_000]);
    drop(client);
    pair.stop(End::Terminal);
    let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "one session: {files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let records: Vec<Value> =
        text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
    assert_eq!(
        (&records[0]["qlog_format"], &records[0]["trace"]["vantage_point"]["type"]),
        (&"JSON-SEQ".into(), &"client".into())
    );
    let bytes = |name: &str| {
        let of_kind = records.iter().filter(|record| record["name"] == name);
        let frames = of_kind.flat_map(|record| record["data"]["frames"].as_array().unwrap());
        let place = |frame: &Value| frame["offset"].as_u64().unwrap() + frame["length"].as_u64().unwrap();
        frames.map(place).max().unwrap_or(0)
    };
    for name in ["transport:packet_sent", "transport:packet_received"] {
        assert!(bytes(name) >= 50_000, "{name}: {}", bytes(name));
    }
    assert!(records.iter().any(|record| record["data"]["smoothed_rtt"].as_f64() > Some(0.0)));
}
