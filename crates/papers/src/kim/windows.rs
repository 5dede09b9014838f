//! Congestion windows over time, and the wait for capacity.

use super::figures::throughput;
use super::{models, real};
use crate::sweep::sweep;
use crate::{Context, Error, Found, Reproduction, Variants, Verdict};
use results::Run;
use results::chart::{Axis, Chart, Series, Style};

/// Table I.
pub fn maximum_segments() -> Result<Reproduction, Error> {
    let note = "K, the share of headers, is not printed: 326 segments of 1460 bytes follow from every K between 0.0473 and \
                0.0505, that is from 70 to 73 bytes of headers a segment";
    let found = vec![Found::new("sessions=1").model(models::window(1)).note(note)];
    Ok(Reproduction { found, ..Reproduction::default() })
}

/// Windows against time.
pub fn traces(context: &Context<'_>) -> Result<Reproduction, Error> {
    let text = include_str!("../../../../scenarios/papers/kim/windows.toml");
    let variants = Variants::load(text, "scenarios/papers/kim/windows.toml", &[])?;
    let runs = sweep(context, variants.all(), context.seeds(5))?;
    let names: Vec<_> = variants.all().iter().filter_map(|scenario| scenario.variant.clone()).collect();
    let measured = real::windows(context, &names)?;
    let mut found = Vec::new();
    let expected = models::window(1);
    let mut below = Vec::new();
    for (scenario, runs) in variants.all().iter().zip(&runs) {
        let name = scenario.variant.clone().unwrap_or_default();
        let windows = runs.iter().map(|run| least_and_mean(&trace(run)));
        let (least, means): (Vec<_>, Vec<_>) = windows.unzip();
        let model = if name == PROPOSED { Some(models::window(1)) } else { None };
        let kernel = measured.iter().find(|(of, _)| *of == name).map(|(_, trace)| least_and_mean(trace));
        found.push(
            Found { model, ..Found::new(format!("{name}, mean")) }.simulated(means).measured(kernel.map(|both| both.1)),
        );
        if name == PROPOSED {
            below.extend(runs.iter().map(|run| share_below(&trace(run), expected)));
        }
        found.push(Found::new(format!("{name}, least")).simulated(least).measured(kernel.map(|both| both.0)));
    }
    let below = below.iter().sum::<f64>() / below.len().max(1) as f64;
    let verdict = match below {
        0.0 => Verdict::Holds,
        below if below <= SELDOM => Verdict::DependsOn,
        _ => Verdict::DoesNotHold,
    };
    let note = format!(
        "from the second second on, {:.1} % of the samples are below equation 1's {expected} segments: the window is 2 segments \
         from an RTO, which follows the loss of a retransmission, to the next ACK",
        below * 100.0
    );
    found.push(Found::new("unreduced").verdict(verdict).note(note));
    let simulated = names.iter().zip(&runs).enumerate().filter_map(|(colour, (name, runs))| {
        Some(Series::new(name.clone(), Style::Steps, trace(runs.first()?)).with_colour(colour))
    });
    let kernel = measured.iter().map(|(name, trace)| {
        let colour = names.iter().position(|of| of == name).unwrap_or_default();
        Series::new(format!("{name}, kernel"), Style::Dashed, trace.clone()).with_colour(colour)
    });
    let chart = Chart {
        title: "Congestion windows over the satellite, bit error rate 1e-6".to_owned(),
        x: Axis::linear("time, s").within(0.0, 60.0),
        y: Axis::linear("congestion window, segments").within(0.0, 350.0),
        series: simulated.chain(kernel).collect(),
        caption: format!("Seed 1. {}", context.command()),
    };
    Ok(Reproduction {
        found,
        remarks: [Some(TRACED.to_owned()), real::remark(context)].into_iter().flatten().collect(),
        charts: vec![chart],
    })
}

const PROPOSED: &str = "cross-layer";
const TRACED: &str = "Of split connections the one over the satellite is traced, fed by a file at the terminal";
/// When all are connected and the proposed window is set, in seconds.
const SETTLED: f64 = 2.0;

/// At most this share of a run's samples is below the proposed window if only RTOs reduce it.
const SELDOM: f64 = 0.05;

/// The share of the settled samples that are below `window`.
fn share_below(trace: &[(f64, f64)], window: f64) -> f64 {
    let settled = trace.iter().filter(|(time, _)| *time >= SETTLED);
    let (mut samples, mut below) = (0_u32, 0_u32);
    for (_, cwnd) in settled {
        samples += 1;
        below += u32::from(*cwnd < window);
    }
    f64::from(below) / f64::from(samples.max(1))
}

/// The windows of a run in segments, against seconds.
fn trace(run: &Run) -> Vec<(f64, f64)> {
    let samples = run.flow_samples.iter();
    samples.map(|sample| (sample.at.as_secs_f64(), sample.cwnd.as_u64() as f64 / models::SEGMENT as f64)).collect()
}

fn least_and_mean(trace: &[(f64, f64)]) -> (f64, f64) {
    let settled: Vec<_> = trace.iter().filter(|(time, _)| *time >= SETTLED).map(|(_, window)| *window).collect();
    let least = settled.iter().copied().fold(f64::INFINITY, f64::min);
    (least, settled.iter().sum::<f64>() / settled.len() as f64)
}

/// The first seconds with and without the wait for capacity.
pub fn allocation(context: &Context<'_>) -> Result<Reproduction, Error> {
    let text = include_str!("../../../../scenarios/papers/kim/allocation.toml");
    let variants = Variants::load(text, "scenarios/papers/kim/allocation.toml", &[])?;
    // Nothing is random.
    let runs = sweep(context, variants.all(), 1..=1)?;
    let found = variants.all().iter().zip(&runs).map(|(scenario, runs)| {
        Found::new(scenario.variant.clone().unwrap_or_default()).simulated(runs.iter().map(throughput))
    });
    let remark = "The request for capacity is a rate of 64 kbit/s until the answer comes, 600 ms after the SYN: allocation on \
                  demand itself is not simulated. The proposed window is known from the start, as the answer comes with \
                  the SYN's or one superframe later";
    Ok(Reproduction { found: found.collect(), remarks: vec![remark.to_owned()], charts: Vec::new() })
}
