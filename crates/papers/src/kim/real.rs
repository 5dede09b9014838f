//! The sessions for real: the kernel's TCP over the emulated satellite.

use super::figures::{Point, errors};
use crate::{Context, Error, Variants};
use lab::scenario::MeasuredRun;
use std::rc::Rc;

const TEXT: &str = include_str!("../../../../scenarios/papers/kim/lab.toml");
const FILE: &str = "scenarios/papers/kim/lab.toml";

/// Links beside one another: with six, sessions that fill queues crawl without losing packets (150 kbit/s for 3 Mbit/s), as
/// they do not with two.
const SIDE_BY_SIDE: usize = 2;

/// A variant, and its window in segments against seconds.
pub(super) type Trace = (String, Vec<(f64, f64)>);

/// Whether `variant` can be measured here. Between two gateways nothing is: the terrestrial links have no delay to speak of
/// and only the satellite has losses, so that the proposed window is that of sessions over the satellite alone.
fn is_measured(variant: &str) -> bool {
    match variant {
        "reno" | "cubic" => true,
        "hybla" | "cross-layer" => congestion::requirements::check().is_ok(),
        _ => false,
    }
}

/// What a reader must know of what was measured; nothing if nothing was.
pub(super) fn remark(context: &Context<'_>) -> Option<String> {
    context.lab()?;
    let missing = match congestion::requirements::check() {
        Ok(()) => String::new(),
        Err(error) => format!(". Hybla and the proposed window are not measured: {error}"),
    };
    Some(format!(
        "Measured: {FILE}, this kernel's TCP over the emulated satellite, each point once for 60 s, {SIDE_BY_SIDE} links side by \
         side. It repairs by RACK-TLP, not as Linux of 2015, and its windows have no limit of 326 segments. Points at which the \
         emulator was too slow are left out. Hybla and the proposed window are loaded as eBPF (docs/cc.md). \
         The proposed window is that of sessions over the satellite alone, as after the split: terrestrial links without delay \
         or losses add nothing. Split Hybla is not measured{missing}"
    ))
}

/// The throughput of all sessions together, in Mbit/s, for each of `points` and each of `variants`; `None` where nothing is
/// measured, and everywhere if the user wants nothing measured.
///
/// # Errors
/// If the machine lacks something, or a session fails.
pub(super) fn throughputs(
    context: &Context<'_>,
    points: &[Point],
    variants: &[&str],
) -> Result<Vec<Vec<Option<f64>>>, Error> {
    if context.lab().is_none() {
        return Ok(vec![vec![None; variants.len()]; points.len()]);
    }
    let mut settings = Vec::new();
    for point in points {
        let sessions = point.sessions;
        settings.push(vec![
            errors(point.error_rate_text),
            format!("flow.session.count={sessions}"),
            format!("tcp.hosts.capacity.connections={sessions}"),
        ]);
    }
    let mut runs = measure(context, variants, &settings)?.into_iter();
    let mut next =
        |variant: &&str| if is_measured(variant) { runs.next().and_then(|run| throughput(&run)) } else { None };
    Ok(points.iter().map(|_| variants.iter().map(&mut next).collect()).collect())
}

/// The windows of one session in segments, against seconds, of each of `variants` that is measured, with its name.
///
/// # Errors
/// As [`throughputs`].
pub(super) fn windows(context: &Context<'_>, variants: &[String]) -> Result<Vec<Trace>, Error> {
    let variants: Vec<_> = variants.iter().map(String::as_str).filter(|variant| is_measured(variant)).collect();
    let runs = measure(context, &variants, &[vec!["record.interval=100ms".to_owned()]])?;
    let trace = |run: &Rc<MeasuredRun>| {
        let samples = run.flows.first().map_or(&[][..], |flow| &flow.windows);
        samples.iter().map(|sample| (sample.at.as_secs_f64(), f64::from(sample.info.cwnd))).collect()
    };
    Ok(variants.iter().zip(&runs).map(|(variant, run)| ((*variant).to_owned(), trace(run))).collect())
}

/// Measures those of `variants` that can be, with each of `settings`; nothing if the user wants nothing measured.
fn measure(context: &Context<'_>, variants: &[&str], settings: &[Vec<String>]) -> Result<Vec<Rc<MeasuredRun>>, Error> {
    let Some(lab) = context.lab() else { return Ok(Vec::new()) };
    let mut scenarios = Vec::new();
    for settings in settings {
        let loaded = Variants::load(TEXT, FILE, settings)?;
        for variant in variants.iter().filter(|variant| is_measured(variant)) {
            scenarios.push((format!("kim, {variant}, {}", settings.join(", ")), loaded.get(variant)?));
        }
    }
    lab.run_all(&scenarios, 1, SIDE_BY_SIDE)
}

/// As iperf counts: what arrived over the time since the sessions began. Nothing where the emulator was too slow for what came
/// and lost packets of its own.
fn throughput(run: &MeasuredRun) -> Option<f64> {
    if run.links.iter().any(|link| link.dropped.receive_overrun > 0) {
        return None;
    }
    let bytes: u64 = run.flows.iter().map(|flow| flow.bytes).sum();
    let end = run.flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
    Some(bytes as f64 * 8.0 / end / 1e6)
}
