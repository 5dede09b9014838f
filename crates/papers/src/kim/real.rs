//! The sessions for real: the kernel's TCP over the emulated satellite, end to end or split by gateways.

use super::point::{Point, errors};
use crate::{Context, Error, Variants};
use lab::scenario::MeasuredRun;
use std::rc::Rc;

const TEXT: &str = include_str!("../../../../scenarios/papers/kim/lab.toml");
const FILE: &str = "scenarios/papers/kim/lab.toml";

/// Links beside one another: little work for two processors, and one point comes out as alone.
const SIDE_BY_SIDE: usize = 6;

/// A variant, and its window in segments against seconds.
pub(super) type Trace = (String, Vec<(f64, f64)>);

/// Whether `variant` can be measured here.
fn is_measured(variant: &str) -> bool {
    matches!(variant, "reno" | "cubic") || congestion::requirements::check().is_ok()
}

/// The variant whose windows are those of `variant` over the satellite; `None` where gateways hide them. Between the gateways
/// the proposed window is what it is for sessions over the satellite alone.
fn with_windows(variant: &str) -> Option<&str> {
    match variant {
        "reno" | "cubic" | "hybla" => Some(variant),
        "cross-layer" => Some("cross-layer-alone"),
        _ => None,
    }
}

/// What a reader must know of what was measured; nothing if nothing was.
pub(super) fn remark(context: &Context<'_>) -> Option<String> {
    context.lab()?;
    let missing = match congestion::requirements::check() {
        Ok(()) => String::new(),
        Err(error) => format!(". Hybla, split or not, and the proposed window are not measured: {error}"),
    };
    Some(format!(
        "Measured: {FILE}, this kernel's TCP over an emulated DVB-RCS carrier, each point once for 60 s, {SIDE_BY_SIDE} links \
         side by side; split Hybla and the proposed window through two gateways (satellite transport `tcp`, in clear), which receive \
         the allocation, count the sessions and let 20 ms wait at the link. It repairs by RACK-TLP, not as Linux of 2015, \
         segments carry timestamps (1448 bytes of payload), and its windows have no limit of 326 segments. Points at which the \
         emulator was too slow are left out. Hybla and the proposed window are loaded as eBPF (docs/congestion-control.md); the windows over \
         time of the latter are a host's, over the satellite alone{missing}"
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
            format!("tcp.cross-layer.capacity.connections={sessions}"),
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
    let shown = variants.iter().map(String::as_str).filter(|variant| is_measured(variant));
    let (variants, measured): (Vec<_>, Vec<_>) =
        shown.filter_map(|variant| Some((variant, with_windows(variant)?))).unzip();
    let runs = measure(context, &measured, &[vec!["record.interval=100ms".to_owned()]])?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::RealScenario;

    #[test]
    fn the_kernel_is_given_all_that_its_sessions_set() {
        let variants = Variants::load(TEXT, FILE, &[]).expect("sound");
        for scenario in variants.all().iter().filter(|scenario| scenario.variant.as_deref().is_some_and(is_measured)) {
            let refused = RealScenario::new(scenario).err().map(|error| error.to_string());
            assert_eq!(refused, None, "{:?}", scenario.variant);
        }
    }
}
