//! Figures 4 and 5: data against time, from the trace of a transfer at 1.344 Mbit/s.

use super::ftp::{self, Plan, Transfer};
use super::{depending, judged};
use crate::{Context, Error, Found, Reproduction};
use results::chart::{Axis, Chart, Series, Style};

/// How much time each figure shows, in s.
const SPAN: f64 = 5.0;
/// When that of figure 5 begins here; the paper says "later".
const LATER: f64 = 20.0;
/// A silence of so many seconds is a waiting interval: segments of a window follow one another within 3.4 ms.
const SILENCE: f64 = 0.1;
/// A window of data.
const WINDOW: f64 = super::theory::WINDOW as f64;

/// The transfer as simulated with the windows of BSD's code, and with doubling ones.
struct Traces([Transfer; 2]);

impl Traces {
    fn new(context: &Context<'_>) -> Result<Self, Error> {
        let runs = ftp::run(&[Plan::new("trace"), Plan::new("trace-doubling")], context)?;
        <[Transfer; 2]>::try_from(runs).map(Self).map_err(|_| Error::failed("two transfers were to be made"))
    }

    /// kB that arrive between two times, of each.
    fn kilobytes(&self, from: f64, to: f64) -> [f64; 2] {
        self.0.each_ref().map(|trace| (trace.arrived(to) - trace.arrived(from)) / 1e3)
    }

    /// Bursts of arrivals in the 5 s from `from` on, of each; those that begin and end in it.
    fn bursts(&self, from: f64) -> [Vec<ftp::Burst>; 2] {
        self.0.each_ref().map(|trace| trace.bursts(from, from + SPAN, SILENCE))
    }

    fn chart(&self, title: &str, from: f64, context: &Context<'_>) -> Chart {
        let to = from + SPAN;
        let names = ["simulated, windows grow by acknowledgements", "simulated, windows double (eq. 3.7)"];
        let series = self.0.iter().zip(names).map(|(trace, name)| {
            let within = trace.arrivals.iter().filter(|(at, _)| (from..=to).contains(at));
            let points = std::iter::once((from, trace.arrived(from)))
                .chain(within.copied())
                .chain([(to, trace.arrived(to))])
                .map(|(at, bytes)| (at, bytes / 1e3));
            Series::new(name, Style::Steps, points.collect())
        });
        let (low, high) = if from == 0.0 { (0.0, 250.0) } else { (650.0, 1000.0) };
        Chart {
            title: title.into(),
            x: Axis::linear("time since the sender's first segment, s").within(from, to),
            y: Axis::linear("data that have arrived, kB").within(low, high),
            series: series.collect(),
            caption: format!("2 MB over 1.344 Mbit/s by satellite. {}", context.command()),
        }
    }
}

/// The first five seconds.
pub(super) fn figure_4(context: &Context<'_>) -> Result<Reproduction, Error> {
    let traces = Traces::new(context)?;
    let [sunos, doubling] = traces.kilobytes(0.0, SPAN);
    let early = traces.bursts(0.0);
    let waits = early.each_ref().map(|bursts| bursts.len().saturating_sub(1));
    let sizes =
        early.each_ref().map(|bursts| bursts.iter().map(|burst| burst.bytes).sum::<f64>() / bursts.len() as f64);
    let found = vec![
        Found::new("after 5 s").simulated([sunos]).note(format!("where windows double, {doubling:.0}")),
        depending(
            "waiting intervals",
            waits.map(|waits| waits >= 5),
            format!("{} of at least 0.1 s; where windows double, {}", waits[0], waits[1]),
        ),
        depending(
            "slow start",
            sizes.map(|size| size < 0.6 * WINDOW),
            format!(
                "{:.1} kB between them in the mean, a window being 24.6; where windows double, {:.1}",
                sizes[0] / 1e3,
                sizes[1] / 1e3
            ),
        ),
    ];
    let charts = vec![traces.chart("Data against time, the first 5 seconds", 0.0, context)];
    let remarks = vec!["Time counts from the sender's first segment; the handshake was before.".to_owned()];
    Ok(Reproduction { found, charts, remarks })
}

/// Five seconds later in the transfer.
pub(super) fn figure_5(context: &Context<'_>) -> Result<Reproduction, Error> {
    let traces = Traces::new(context)?;
    let (later, first) = (traces.kilobytes(LATER, LATER + SPAN), traces.kilobytes(0.0, SPAN));
    let ratios = [later[0] / first[0], later[1] / first[1]];
    // A clock that starts with FTP's dialogue shows so many seconds of it before the first segment.
    let dialogue = 3.0 * traces.0[1].handshake;
    let with_dialogue = later[1] / traces.kilobytes(0.0, SPAN - dialogue)[1];
    let waits = traces.bursts(LATER).map(|bursts| bursts.len().saturating_sub(1));
    let found = vec![
        Found::new("in 5 s").simulated([later[0]]).note(format!("where windows double, {:.0}", later[1])),
        depending(
            "more than five times",
            ratios.map(|ratio| ratio > 5.0),
            format!(
                "{:.1} times where windows grow by acknowledgements; {:.1} where they double, or {with_dialogue:.1} if time counts \
                 from the command, three round trips before the first segment",
                ratios[0], ratios[1]
            ),
        ),
        judged(
            "waiting intervals",
            waits.iter().all(|waits| *waits >= 5),
            format!("{} of at least 0.1 s; where windows double, {}", waits[0], waits[1]),
        ),
    ];
    let charts = vec![traces.chart("Data against time, later in the transfer", LATER, context)];
    let remarks = vec![
        format!("The paper does not say which 5 seconds its figure shows; here they begin at {LATER} s."),
        "What would make the paper's factor of five: windows that grow as in BSD's code, by a segment for each acknowledgement of \
         two; or doubling ones (its equation 3.7) and a clock that starts with FTP's dialogue. With doubling ones from the first \
         segment on it is two."
            .to_owned(),
    ];
    Ok(Reproduction { found, charts, remarks })
}
