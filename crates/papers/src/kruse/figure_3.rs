//! Figure 3: throughput against the channel's rate.

use super::ftp::{self, Plan};
use super::judged;
use crate::{Context, Error, Found, Reproduction};
use results::chart::{Axis, Chart, Series, Style};

/// The channel's rates: 64 kbit/s to 1.536 Mbit/s, in kbit/s.
fn rates() -> impl Iterator<Item = u64> {
    (1..=24).map(|step| step * 64)
}

/// A line of the figure: the variant, what the figure calls it, and what entries do.
const LINES: [(&str, &str, &str); 4] = [
    ("45kB", "45 kB", "45 kB"),
    ("100kB", "100 kB", "100 kB"),
    ("2MB", "2 MB", "2 MB"),
    ("bypass", "2 MB terrestrial", "2 MB over the bypass"),
];

/// The figure, two of its rates as entries, and what the paper sees in it.
pub(super) fn figure_3(context: &Context<'_>) -> Result<Reproduction, Error> {
    let plans: Vec<_> = LINES.iter().flat_map(|line| rates().map(|kbits| Plan::new(line.0).at(kbits))).collect();
    let throughputs: Vec<f64> = ftp::run(&plans, context)?.iter().map(ftp::Transfer::throughput).collect();
    let lines: Vec<Vec<(f64, f64)>> = throughputs
        .chunks(rates().count())
        .map(|line| rates().map(|kbits| kbits as f64).zip(line.iter().copied()).collect())
        .collect();
    let at = |line: usize, kbits: u64| lines[line].iter().find(|(rate, _)| *rate == kbits as f64).map(|point| point.1);
    let mut found: Vec<Found> = [("1.536 Mbit/s", 1536), ("384 kbit/s", 384)]
        .iter()
        .flat_map(|(rate, kbits)| {
            let entry = move |(number, line): (usize, &(&str, &str, &str))| (number, format!("{} at {rate}", line.2));
            LINES.iter().enumerate().map(entry).map(|(number, key)| Found::new(key).simulated(at(number, *kbits)))
        })
        .collect();
    found.extend(claims(&lines));
    let chart = Chart {
        title: "Throughput against the channel's rate".into(),
        x: Axis::linear("channel data rate, kbit/s").within(0.0, 1600.0),
        y: Axis::linear("throughput, kbit/s").within(0.0, 1600.0),
        series: LINES
            .iter()
            .zip(&lines)
            .map(|(line, points)| Series::new(line.1, Style::Joined, points.clone()))
            .collect(),
        caption: format!("Simulated, until all is acknowledged; the handshake is not counted. {}", context.command()),
    };
    let remarks = vec![format!(
        "Each point is a run of {} at its rate (--set link.line.rate=…); the paper's own axes are not in its text: these show all \
         that it measured.",
        ftp::FILE
    )];
    Ok(Reproduction { found, charts: vec![chart], remarks })
}

/// What the paper sees in the figure.
fn claims(lines: &[Vec<(f64, f64)>]) -> Vec<Found> {
    let [small, _, large, bypass] = lines else { return Vec::new() };
    let most = large.iter().map(|point| point.1).fold(0.0, f64::max);
    let least_above = large.iter().filter(|point| point.0 >= 576.0).map(|point| point.1).fold(f64::INFINITY, f64::min);
    let shares: Vec<f64> = bypass.iter().map(|(rate, throughput)| throughput / rate).collect();
    let share = |pick: fn(f64, f64) -> f64| shares.iter().copied().reduce(pick).unwrap_or(f64::NAN);
    let (low, high) = (share(f64::min), share(f64::max));
    let last = |line: &[(f64, f64)]| line.last().map_or(f64::NAN, |point| point.1);
    let ratio = last(small) / last(large);
    vec![
        judged(
            "ceiling",
            (270.0..330.0).contains(&most) && least_above > 0.9 * most,
            format!("at most {most:.0} kbit/s; from 576 kbit/s on at least {least_above:.0}"),
        ),
        judged("file size", ratio < 0.5, format!("45 kB get {:.0} % of what 2 MB get at 1.536 Mbit/s", ratio * 100.0)),
        judged(
            "baseline",
            low > 0.8 && high < 512.0 / 558.0,
            format!("{:.0} to {:.0} % of the channel; frames leave 91.8 %", low * 100.0, high * 100.0),
        ),
    ]
}
