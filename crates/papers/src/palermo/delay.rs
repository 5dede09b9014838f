//! Section 3: what a delay that varies does.

use super::shares::{Group, Shares};
use super::truth::{Truth, verdict};
use crate::printed::Item;
use crate::{Context, Error, Found, Reproduction, Variants, Verdict};
use replicas::Replica;
use results::Run;
use scenario::Scenario;

/// Patterns of the satellite's delay: the variant, and the mean of the delay in ms.
const PATTERNS: [(&str, f64); 4] = [("fixed", 263.73), ("mobile", 264.0), ("routes", 332.0), ("routes-fast", 332.0)];
/// The TCP variants.
const VARIANTS: [&str; 7] = ["tahoe", "reno", "newreno", "sack", "vegas", "westwood", "tibet"];
/// Packets in the windows of five connections.
const WINDOWS: f64 = 5.0 * 20.0;
/// What the round trip has beside the satellite's delay both ways, in ms: propagation, the hosts' mean jitter, and a packet
/// and its acknowledgement on every link.
const REST_MS: f64 = 40.0 + 4.0 + 5.2;
/// Seconds of a run.
const TIME_S: f64 = 1000.0;
/// What counts as less than the windows allow.
const LESS: f64 = 0.95;

/// What one TCP variant did under one pattern.
struct Case {
    variant: &'static str,
    pattern: &'static str,
    /// Per cent of the bottleneck that each run carried, and the windows allow.
    carried: Vec<f64>,
    allowed: f64,
    /// Packets sent again, and timeouts, in all runs.
    again: u64,
    timeouts: u64,
}

/// The goodput under each pattern, and the claims about it.
///
/// # Errors
/// If it cannot be run.
pub fn varying(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let cases = simulate(context)?;
    let of_case = |case: &Case| {
        let note = format!("sent again for nothing: {} packets, {} timeouts", case.again, case.timeouts);
        let key = format!("{}, {}", case.variant, case.pattern);
        Found::new(key).model(case.allowed).simulated(case.carried.iter().copied()).note(note)
    };
    let is_entry = |found: &Found| item.entries.iter().any(|entry| entry.key == found.key);
    let mut found: Vec<_> = cases.iter().map(of_case).filter(is_entry).collect();
    let changing = || cases.iter().filter(|case| case.pattern != "fixed");
    found.push(claim("premature timeouts", changing(), |case| case.again > 0));
    found.push(claim("efficiency", changing(), |case| mean(&case.carried) < LESS * case.allowed));
    found.push(claim("fixed users", cases.iter().filter(|case| case.pattern == "fixed"), |case| case.again == 0));
    let remarks = vec![
        "Patterns: `fixed` is constant; `mobile` is drawn from 259 to 269 ms each second; `routes` from 264 to 400 ms each \
         30 s, `routes-fast` each 3 s, as routes between satellites may change. The model is the windows' sum over the mean \
         round trip: what longer routes cost any TCP. A claim counts each of seven variants under each pattern."
            .to_owned(),
    ];
    Ok(Reproduction { found, charts: Vec::new(), remarks })
}

fn simulate(context: &Context<'_>) -> Result<Vec<Case>, Error> {
    let text = include_str!("../../../../scenarios/papers/palermo/delay.toml");
    let mut replicas = Vec::new();
    for variant in VARIANTS {
        let preset = format!("tcp.satellite.preset={variant}");
        let patterns = Variants::load(text, "scenarios/papers/palermo/delay.toml", &[preset])?;
        for (pattern, _) in PATTERNS {
            let scenario = patterns.get(pattern)?;
            replicas.extend(context.seeds(2).map(|seed| Replica { scenario: scenario.clone(), seed }));
        }
    }
    let runs = context.simulate(&replicas)?;
    let cases = VARIANTS.into_iter().flat_map(|variant| PATTERNS.map(|pattern| (variant, pattern)));
    let seeds = context.seeds(2).count();
    let of_cases = replicas.chunks(seeds).zip(runs.chunks(seeds));
    let case = |((variant, pattern), (replicas, runs)): ((_, _), (&[Replica], _))| {
        Case::of(variant, pattern, &replicas[0].scenario, runs)
    };
    Ok(cases.zip(of_cases).map(case).collect())
}

impl Case {
    fn of(variant: &'static str, (pattern, delay_ms): (&'static str, f64), scenario: &Scenario, runs: &[Run]) -> Self {
        // ns-2's Vegas sends packets without room for headers.
        let packet_bits = if variant == "vegas" { 7680.0 } else { 8000.0 };
        let sum = |count: fn(&sim::FlowReport) -> u64| runs.iter().flat_map(|run| &run.report.flows).map(count).sum();
        let carried = |run: &Run| Shares::of(run, scenario).between(Group::Satellite, 0.0, TIME_S);
        Self {
            variant,
            pattern,
            carried: runs.iter().map(carried).collect(),
            allowed: WINDOWS * packet_bits / (2.0 * delay_ms + REST_MS) * 1e3 / 2e6 * 100.0,
            again: sum(|flow| flow.retransmissions),
            timeouts: sum(|flow| flow.rtos),
        }
    }
}

/// A claim about each of `cases`: it holds, or does not, where they agree.
fn claim<'a>(key: &str, cases: impl Iterator<Item = &'a Case>, is_true: impl Fn(&Case) -> bool) -> Found {
    let (yes, no): (Vec<&Case>, Vec<&Case>) = cases.partition(|case| is_true(case));
    let truth = |holds: bool| if holds { Truth::Holds } else { Truth::Fails };
    let all = yes.iter().map(|_| true).chain(no.iter().map(|_| false)).map(truth);
    let verdict = verdict(truth(!yes.is_empty()), all);
    let names = |cases: &[&Case]| {
        cases.iter().map(|case| format!("{} with {}", case.variant, case.pattern)).collect::<Vec<_>>().join(", ")
    };
    let count = format!("true of {} of {}", yes.len(), yes.len() + no.len());
    let fewer = if yes.len() <= no.len() { ("those", &yes) } else { ("all but", &no) };
    let note = match verdict {
        Verdict::DependsOn => format!("{count}: {} {}", fewer.0, names(fewer.1)),
        _ => count,
    };
    Found::new(key).verdict(verdict).note(note)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
