//! Metrics, alert rules and alarms as Prometheus' own programs see them (Debian's package `prometheus`; without it, these tests are
//! skipped). The whole of it, with a real Prometheus over a scripted outage:
//! `cargo test -p bentpipe --test monitoring -- --ignored --nocapture`, three minutes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{End, PATIENCE, Pair, echo_all, echoes};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus")
}

/// Whether Prometheus' programs are here.
fn has_prometheus() -> bool {
    let found =
        ["promtool", "prometheus"].iter().all(|program| Command::new(program).arg("--version").output().is_ok());
    if !found {
        eprintln!("skipped: promtool and prometheus are missing (Debian: apt-get install prometheus)");
    }
    found
}

fn assert_succeeded(output: &Output) {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}\n{}", texts[0], texts[1]);
}

#[test]
fn promtool_finds_no_fault_in_the_rules_and_their_tests_pass() {
    if !has_prometheus() {
        return;
    }
    for arguments in [["check", "rules", "bentpipe.rules.yml"], ["test", "rules", "bentpipe.test.yml"]] {
        assert_succeeded(&Command::new("promtool").args(arguments).current_dir(rules()).output().unwrap());
    }
}

/// All expressions of a dashboard's panels, with values for Grafana's variables.
fn expressions(dashboard: &serde_json::Value, found: &mut Vec<String>) {
    match dashboard {
        serde_json::Value::Object(fields) => {
            if let Some(expression) = fields.get("expr").and_then(|value| value.as_str()) {
                let set = [("$__rate_interval", "5m"), ("$instance", ".*"), ("$peer", ".*")];
                found.push(set.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value)));
            }
            fields.values().for_each(|value| expressions(value, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn promtool_parses_every_expression_of_the_dashboard() {
    if !has_prometheus() {
        return;
    }
    let text = std::fs::read_to_string(rules().join("../grafana/bentpipe.json")).unwrap();
    let mut found = Vec::new();
    expressions(&serde_json::from_str(&text).unwrap(), &mut found);
    assert!(found.len() > 20 && found.iter().all(|expression| !expression.contains('$')), "{found:?}");
    let rules: Vec<_> = found
        .iter()
        .enumerate()
        .map(|(number, expression)| serde_json::json!({ "record": format!("panel:{number}"), "expr": expression }))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panels.json");
    std::fs::write(&file, serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string()).unwrap();
    assert_succeeded(&Command::new("promtool").args(["check", "rules"]).arg(&file).output().unwrap());
}

#[test]
fn promtool_finds_no_fault_in_what_a_gateway_exports() {
    if !has_prometheus() {
        return;
    }
    let Some(mut pair) = Pair::new() else { return };
    pair.sections = "[metrics]\nlisten = \"127.0.0.1:9090\"";
    let pair = pair.start_both("");
    echoes(&mut pair.connect(pair.serve(Family::V4, 7, echo_all)), &[7; 5000]);
    for end in [End::Hub, End::Terminal] {
        pair.wait_for(|pair| pair.http(end, 9090, "GET /metrics", "").contains("\nbentpipe_peer_rtt_seconds_count"));
        let answer = pair.http(end, 9090, "GET /metrics", "");
        let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
        assert!(metrics.contains(concat!("bentpipe_build_info{version=\"", env!("CARGO_PKG_VERSION"))), "{metrics}");
        let mut check = Command::new("promtool");
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().unwrap();
        check.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        assert_succeeded(&output);
        assert!(output.stderr.is_empty() && output.stdout.is_empty(), "no advice either: {output:?}");
    }
}

/// A Prometheus beside the terminal's gateway that scrapes both, each second.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The rules with a second or two for each minute, so that a script of minutes raises what an outage of hours would.
fn hurried(rules: &str) -> String {
    let times = [
        ("for: 1m", "for: 2s"),
        ("for: 5m", "for: 5s"),
        ("for: 10m", "for: 8s"),
        ("for: 15m", "for: 10s"),
        ("[5m]", "[10s]"),
        ("[10m]", "[15s]"),
        ("[15m]", "[30s]"),
        ("[1h]", "[60s]"),
        ("[1d]", "[600s]"),
    ];
    times.iter().fold(rules.to_owned(), |text, (minutes, seconds)| text.replace(minutes, seconds))
}

impl Prometheus {
    fn start(pair: &Pair) -> Self {
        let directory = pair.directory.path();
        let text = std::fs::read_to_string(rules().join("bentpipe.rules.yml")).unwrap();
        std::fs::write(directory.join("rules.yml"), hurried(&text)).unwrap();
        let hub = pair.server().satellite_address(Family::V4);
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: bentpipe\n    static_configs:\n\
             \x20     - {{targets: ['127.0.0.1:9090'], labels: {{instance: terminal}}}}\n\
             \x20     - {{targets: ['{hub}:9090'], labels: {{instance: hub}}}}\n"
        );
        std::fs::write(directory.join("prometheus.yml"), config).unwrap();
        let mut command = pair.site(End::Terminal).gateway.command("prometheus");
        command.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()));
        command.arg("--web.listen-address=127.0.0.1:9095").stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

/// The alarms that are raised, as `instance name`, and when each was raised and cleared.
struct Alarms<'a> {
    pair: &'a Pair,
    begun: Instant,
    since: BTreeMap<String, f64>,
    table: Vec<(String, f64, f64)>,
}

impl<'a> Alarms<'a> {
    fn new(pair: &'a Pair) -> Self {
        Self { pair, begun: Instant::now(), since: BTreeMap::new(), table: Vec::new() }
    }

    fn query(&self, expression: &str) -> String {
        let mut command = self.pair.site(End::Terminal).gateway.command("promtool");
        let output = command.args(["query", "instant", "http://127.0.0.1:9095", expression]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks which are raised now.
    fn look(&mut self) -> BTreeSet<String> {
        let text = self.query("ALERTS{alertstate=\"firing\"}");
        let label = |line: &str, name: &str| {
            let value = line.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
            value.unwrap_or_default().to_owned()
        };
        let raised: BTreeSet<String> = text
            .lines()
            .filter(|line| line.contains("alertname"))
            .map(|line| format!("{} {}", label(line, "instance"), label(line, "alertname")))
            .collect();
        let now = self.begun.elapsed().as_secs_f64();
        for alarm in &raised {
            self.since.entry(alarm.clone()).or_insert(now);
        }
        let cleared: Vec<_> = self.since.keys().filter(|alarm| !raised.contains(*alarm)).cloned().collect();
        for alarm in cleared {
            let since = self.since.remove(&alarm).unwrap();
            self.table.push((alarm, since, now));
        }
        raised
    }

    /// Does `step` again and again until `wanted` are raised, or none is if nothing is wanted.
    fn wait(&mut self, wanted: &[&str], step: impl Fn(&Pair)) {
        let deadline = Instant::now() + 2 * PATIENCE;
        loop {
            let raised = self.look();
            let is_so =
                if wanted.is_empty() { raised.is_empty() } else { wanted.iter().all(|one| raised.contains(*one)) };
            if is_so {
                return;
            }
            assert!(Instant::now() < deadline, "{wanted:?} wanted, raised: {raised:?}, before: {:?}", self.table);
            step(self.pair);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Watches for a while in which nothing may be raised.
    fn stay_clear(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            assert_eq!(self.look(), BTreeSet::new(), "nothing is wrong");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Rain, a program that reports no more, servers that are gone, a hub that ends: what is raised, and that it clears.
#[test]
#[ignore = "three minutes: run it alone"]
fn alarms_are_raised_and_clear_over_a_scripted_outage() {
    if !has_prometheus() {
        return;
    }
    let Some(mut pair) = Pair::new() else { return };
    pair.sections = "[metrics]\nlisten = \"[::]:9090\"";
    pair.terminal_link = "min_rate = \"1Mbit/s\"\n[updates]\nhttp = \"127.0.0.1:9091\"\nmax_validity = \"24h\"";
    let mut pair = pair.start_both("");
    let server = pair.serve(Family::V4, 7, echo_all);
    let report = |pair: &Pair, update: &str| pair.http(End::Terminal, 9091, "PUT /link", update);
    report(&pair, r#"{"rate": "50Mbit/s"}"#);
    let _prometheus = Prometheus::start(&pair);
    let mut alarms = Alarms::new(&pair);
    let deadline = Instant::now() + PATIENCE;
    while alarms.query("up").matches("=> 1").count() < 2 {
        assert!(Instant::now() < deadline, "Prometheus scrapes both: {}", alarms.query("up"));
        std::thread::sleep(Duration::from_millis(200));
    }
    let call = |pair: &Pair| drop(pair.try_connect(server));
    call(&pair);
    alarms.stay_clear(Duration::from_secs(10));

    // Rain: nothing of the session passes. Clients go end to end.
    pair.nft(End::Hub, "add table inet rain; add chain inet rain in { type filter hook input priority 0; }; add rule inet rain in udp dport 4500 drop");
    let rain = ["terminal BentpipePeerDown", "hub BentpipePeerDown", "terminal BentpipeBypass"];
    alarms.wait(&rain, call);
    pair.nft(End::Hub, "delete table inet rain");
    alarms.wait(&[], |_| {});

    // Nobody reports the link; then someone reports nonsense; then all is well.
    report(&pair, "null");
    alarms.wait(&["terminal BentpipeLinkStateStale"], |_| {});
    let lie = |pair: &Pair| drop(report(pair, r#"{"rate": "1Tbit/s"}"#));
    alarms.wait(&["terminal BentpipeLinkUpdatesRejected"], lie);
    report(&pair, r#"{"rate": "50Mbit/s"}"#);
    alarms.wait(&[], |_| {});

    // Servers that are gone.
    let closed = std::net::SocketAddr::new(pair.server().host_address(Family::V4), 9);
    let refused = |pair: &Pair| {
        (0..4).for_each(|_| drop(pair.try_connect(closed)));
    };
    alarms.wait(&["hub BentpipeConnectionsFail"], refused);
    alarms.wait(&[], |_| {});

    // The hub's gateway ends, and begins again and again.
    let (begun, since, table) = (alarms.begun, std::mem::take(&mut alarms.since), std::mem::take(&mut alarms.table));
    pair.stop(End::Hub);
    let mut alarms = Alarms { pair: &pair, begun, since, table };
    alarms.wait(&["hub BentpipeDown", "terminal BentpipePeerDown", "terminal BentpipePeerMisconfigured"], |_| {});
    let (since, table) = (std::mem::take(&mut alarms.since), std::mem::take(&mut alarms.table));
    for _ in 0..3 {
        pair.start(End::Hub, "");
        pair.wait_until(End::Hub, true);
        std::thread::sleep(Duration::from_secs(3));
        pair.stop(End::Hub);
    }
    pair.start(End::Hub, "");
    pair.wait_until(End::Hub, true);
    let mut alarms = Alarms { pair: &pair, begun, since, table };
    alarms.wait(&["hub BentpipeRestarts"], |_| {});
    alarms.wait(&[], |_| {});

    eprintln!("| alarm | raised (s) | cleared (s) |\n| --- | ---: | ---: |");
    for (alarm, raised, cleared) in &alarms.table {
        eprintln!("| {alarm} | {raised:.0} | {cleared:.0} |");
    }
}
