//! The recommendation put to the test: the same transfers in virtual time, with the settings as they are and as recommended.

use crate::output::{Failure, Output};
use model::tuning::{Control, Direction, Host, Link, Recommendation, Workload, gain_percent};
use replicas::{Interrupt, Jobs, Pool, Recording, Replica};
use serde::Serialize;
use std::sync::Arc;
use units::Duration;

/// What simulations found.
#[derive(Debug, Serialize)]
pub struct Verification {
    /// Mean time over the seeds with the settings as they are, from the first connect to the last byte.
    pub before_s: f64,
    /// The same as recommended.
    pub after_s: f64,
    /// Marchese's gain of the means.
    pub gain_percent: f64,
    /// Seeds.
    pub runs: u64,
    /// Whether the recommendation is not slower.
    pub holds: bool,
}

impl Verification {
    /// Whether the simulation confirms a predicted gain.
    pub fn confirms(&self, gain_percent: f64) -> bool {
        self.gain_percent >= gain_percent - SAME_GAIN_PERCENT
    }
}

/// Gains that differ by so little are the same: a table shows three digits.
const SAME_GAIN_PERCENT: f64 = 2.0;
/// A mean may be longer by this much and still count as the same: what losses do differs from seed to seed.
const SAME: f64 = 1.01;

/// Simulates both with `seeds` seeds each.
///
/// # Errors
/// If a simulation does not end, or the user interrupts.
pub fn run(
    link: &Link,
    workload: &Workload,
    before: &Host,
    found: &Recommendation,
    seeds: u64,
    output: &Output,
) -> Result<Verification, Failure> {
    let predicted = found.before.time().max(found.after.time());
    let text = scenario_text(link, workload, [before, &found.host], predicted);
    let none = |name: &str| Err(format!("there is no file {name}"));
    let experiment = scenario::load(&text, "tune", &[], &none).map_err(Failure::failed)?;
    let mut replicas = Vec::new();
    for scenario in experiment.scenarios {
        let scenario = Arc::new(scenario);
        replicas.extend((1..=seeds).map(|seed| Replica { scenario: Arc::clone(&scenario), seed }));
    }
    let jobs = Jobs::new(crate::jobs::or_processors(None));
    let pool =
        Pool { jobs, interrupt: Interrupt::on_signals()?, shows_progress: output.shows_progress(), huge_pages: false };
    let mut times = [Vec::new(), Vec::new()];
    let is_before = |run: &results::Run| run.label.variant.as_deref() == Some(BEFORE);
    pool.run("simulating", &replicas, &Recording::Nothing, |run| {
        let time = time(&run).ok_or_else(|| Failure::failed(unfinished(&run, predicted)))?;
        times[usize::from(!is_before(&run))].push(time);
        Ok::<_, Failure>(())
    })?;
    if times.iter().any(|times| times.len() as u64 != seeds) {
        return Err(Failure::failed("--verify: interrupted"));
    }
    let [before_s, after_s] = times.map(|times| times.iter().sum::<f64>() / times.len() as f64);
    let gain_percent = gain_percent(Duration::from_secs_f64(before_s), Duration::from_secs_f64(after_s));
    Ok(Verification { before_s, after_s, gain_percent, runs: seeds, holds: after_s <= before_s * SAME })
}

/// From the start to the last byte of all transfers; `None` if one is not complete.
fn time(run: &results::Run) -> Option<f64> {
    let ends = run.report.flows.iter().map(|flow| flow.end_s.filter(|_| flow.complete));
    ends.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

fn unfinished(run: &results::Run, predicted: Duration) -> String {
    let settings = run.label.variant.as_deref().unwrap_or_default();
    let failed = run.report.flows.iter().filter_map(|flow| flow.failure.as_ref()).collect::<Vec<_>>();
    let what = match failed.first() {
        Some(first) => format!("{} of {} transfers failed ({first})", failed.len(), run.report.flows.len()),
        None => format!("a transfer took more than {STOP} times what was predicted ({predicted})"),
    };
    format!(
        "simulated with the settings {settings}, {what}, so that the recommendation is not verified; --no-verify prints it with the \
         prediction alone"
    )
}

/// The variants.
const BEFORE: &str = "before";
/// A transfer that takes so many times longer than predicted is given up.
const STOP: u64 = 20;

/// The experiment as a scenario file has it.
pub fn scenario_text(link: &Link, workload: &Workload, hosts: [&Host; 2], predicted: Duration) -> String {
    let Link { rate, rtt, loss, queue, .. } = link;
    let Workload { size, flows, direction } = workload;
    let direction = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let stop = (predicted * STOP).max(Duration::from_secs(60));
    let [before, after] = hosts.map(endpoint);
    format!(
        r#"version = 1
nodes = ["client", "server"]
[[link]]
name = "satellite"
between = ["client", "server"]
rate = "{}bit/s"
delay = "{}ns"
queue = "{}B"
loss = {}
[[flow]]
name = "transfer"
from = "client"
to = "server"
count = {flows}
tcp = "{BEFORE}"
bulk = {{ size = "{}B", direction = "{direction}" }}
[tcp.{BEFORE}]
{before}
[tcp.after]
{after}
[stop]
time = "{}ns"
complete = true
[variants]
{BEFORE} = {{}}
after = {{ "flow.transfer.tcp" = "after" }}
"#,
        rate.as_bps(),
        rtt.as_nanos() / 2,
        queue.as_u64(),
        loss.as_f64(),
        size.as_u64(),
        stop.as_nanos(),
    )
}

fn endpoint(host: &Host) -> String {
    let control = match host.control {
        // The kernel's is version 1.
        Control::Bbr => "bbr1",
        control => control.name(),
    };
    // A limit of the first window is not known to scenarios: the buffer starts from what gives it.
    let first = host.first_window().as_u64();
    // A buffer that grows is advertised by half at first.
    let start = if host.grows { 2 * first } else { (first as f64 / host.share).ceil() as u64 };
    let most = if host.grows { host.receive.most.as_u64().max(start) } else { start };
    format!(
        r#"profile = "linux"
control = "{control}"
initial_window = "{}segments"
receive_buffer = "{start}B"
receive_buffer_max = "{most}B"
receive_buffer_share = {}
send_buffer = "{}B"
window_scaling = {}"#,
        host.initial_window,
        host.share,
        host.send.most.as_u64(),
        host.scales_windows,
    )
}
