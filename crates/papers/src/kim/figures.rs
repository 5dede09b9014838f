//! Figures 3 to 5: throughput against the bit error rate, and against the number of sessions.

use super::point::{Point, errors};
use super::{models, real};
use crate::curves::curve;
use crate::evidence::{Case, judge, judge_never_below, judge_readings, ratio};
use crate::sweep::sweep;
use crate::{Context, Error, Estimate, Found, Reproduction, Variants};
use results::Run;
use results::chart::{Axis, Chart, Series, Style};

const TEXT: &str = include_str!("../../../../scenarios/papers/kim/sessions.toml");
const FILE: &str = "scenarios/papers/kim/sessions.toml";

/// End to end.
const WHOLE: [&str; 3] = ["reno", "cubic", "hybla"];
const SPLIT: &str = "split-hybla";
const PROPOSED: &str = "cross-layer";
const VARIANTS: [&str; 5] = [WHOLE[0], WHOLE[1], WHOLE[2], SPLIT, PROPOSED];

/// As settings have them, and their values.
const ERROR_RATES: [(&str, f64); 8] = [
    ("0", 0.0),
    ("1e-8", 1e-8),
    ("3e-8", 3e-8),
    ("1e-7", 1e-7),
    ("3e-7", 3e-7),
    ("1e-6", 1e-6),
    ("3e-6", 3e-6),
    ("1e-5", 1e-5),
];
const SESSIONS: [u32; 6] = [1, 2, 3, 5, 7, 10];
/// The proposed window is nowhere to be below these.
const OTHERS: [&str; 3] = [WHOLE[1], WHOLE[2], SPLIT];
/// What is not above by more than this is no more than level.
const MARGIN: f64 = 0.01;
/// What cases are, for notes.
const BEST: &str = "throughput of cross-layer over that of the others";
const NEVER_BELOW: &str = "throughput of cross-layer over that of cubic, hybla and split-hybla";
/// Readings of the satellite's queue, as settings have them; the first is Dummynet's default.
const QUEUES: [(&str, &str); 5] = [
    ("50 packets", "50packets"),
    ("10 packets", "10packets"),
    ("20 packets", "20packets"),
    ("50 kB", "50kB"),
    ("500 kB", "500kB"),
];
/// How many runs each point has with another queue than the first: what differs is the queue, hardly the seed.
const SEEDS_OF_OTHER_QUEUES: u64 = 6;
/// What the link carries of payload: 1460 of 1500 bytes of 8 Mbit/s.
const LINK_MBPS: f64 = 8.0 * 1460.0 / 1500.0;
/// Shares of that which count as most of it, and as much of it.
const MAX: f64 = 0.75;
const MUCH: f64 = 0.5;

/// Throughputs of all variants at some points.
struct Grid {
    points: Vec<Point>,
    /// For each point and variant, in Mbit/s of payload of all sessions together.
    throughputs: Vec<Vec<Estimate>>,
    /// The same for real, where it was measured.
    measured: Vec<Vec<Option<f64>>>,
}

impl Grid {
    fn run(context: &Context<'_>, points: Vec<Point>) -> Result<Self, Error> {
        Self::with_seeds(context, points, seeds(context))
    }

    fn with_seeds(context: &Context<'_>, points: Vec<Point>, seeds: u64) -> Result<Self, Error> {
        let mut scenarios = Vec::new();
        for point in &points {
            let loaded = Variants::load(TEXT, FILE, &point.settings)?;
            for variant in VARIANTS {
                scenarios.push(loaded.get(variant)?);
            }
        }
        let runs = sweep(context, &scenarios, context.seeds(seeds))?;
        let estimates: Vec<_> = runs.iter().filter_map(|runs| Estimate::of(runs.iter().map(throughput))).collect();
        let throughputs = estimates.chunks(VARIANTS.len()).map(<[_]>::to_vec).collect();
        let measured = vec![vec![None; VARIANTS.len()]; points.len()];
        Ok(Self { points, throughputs, measured })
    }

    /// With the kernel's throughputs, if the user wants them.
    fn measured(self, context: &Context<'_>) -> Result<Self, Error> {
        let measured = real::throughputs(context, &self.points, &VARIANTS)?;
        Ok(Self { measured, ..self })
    }

    fn found(&self) -> Vec<Found> {
        let of = |(at, variant): (usize, &&str)| {
            let points = self.points.iter().zip(&self.throughputs).zip(&self.measured);
            let found = points.map(move |((point, all), measured)| Found {
                simulated: Some(all[at]),
                measured: measured[at],
                model: point.has_model.then(|| models::throughput(variant, point.error_rate, point.sessions)).flatten(),
                ..Found::new(format!("{variant}, {}", point.name))
            });
            found.collect::<Vec<_>>()
        };
        VARIANTS.iter().enumerate().flat_map(of).collect()
    }

    fn of(&self, variant: &str) -> Vec<Estimate> {
        let at = VARIANTS.iter().position(|name| *name == variant);
        self.throughputs.iter().filter_map(|all| at.map(|at| all[at])).collect()
    }

    /// The kernel's, each of one run; `None` where it was not measured.
    fn measured_of(&self, variant: &str) -> Vec<Option<Estimate>> {
        let at = VARIANTS.iter().position(|name| *name == variant);
        let estimate = |mean| Estimate { mean, interval: None, runs: 1 };
        self.measured.iter().map(|all| at.and_then(|at| all[at]).map(estimate)).collect()
    }

    /// `better` over each of `others` at each point.
    fn over(&self, better: &str, others: &[&str]) -> Vec<Case> {
        let some = |variant: &str| self.of(variant).into_iter().map(Some).collect::<Vec<_>>();
        self.cases(&some(better), others, some)
    }

    /// The same of what was measured.
    fn measured_over(&self, better: &str, others: &[&str]) -> Vec<Case> {
        self.cases(&self.measured_of(better), others, |variant| self.measured_of(variant))
    }

    fn cases(
        &self,
        better: &[Option<Estimate>],
        others: &[&str],
        of: impl Fn(&str) -> Vec<Option<Estimate>>,
    ) -> Vec<Case> {
        let cases = |other: &&str| {
            let pairs = better.iter().zip(of(other)).zip(&self.points);
            let cases = pairs.filter_map(|((better, lesser), point)| {
                let value = ratio(better.as_ref()?, &lesser?);
                Some(Case::above(format!("over {other} at {}", point.name), value, 1.0))
            });
            cases.collect::<Vec<_>>()
        };
        others.iter().flat_map(cases).collect()
    }

    /// Whether the proposed window is nowhere below the others, in simulation and, where it was measured, for real.
    fn never_below(&self) -> Vec<Found> {
        let simulated = judge_never_below("never below", NEVER_BELOW, &self.over(PROPOSED, &OTHERS), MARGIN);
        [simulated].into_iter().chain(self.never_below_measured()).collect()
    }

    fn never_below_measured(&self) -> Option<Found> {
        let measured = self.measured_over(PROPOSED, &OTHERS);
        (!measured.is_empty()).then(|| judge_never_below("never below, kernel", NEVER_BELOW, &measured, MARGIN))
    }
}

/// Estimates against numbers, and what was measured as points beside them.
fn curves(grid: &Grid, xs: impl Iterator<Item = f64> + Clone) -> Vec<Series> {
    let simulated = VARIANTS.iter().map(|variant| curve(*variant, xs.clone().zip(grid.of(variant))));
    let measured = VARIANTS.iter().enumerate().filter_map(|(at, variant)| {
        let points = xs.clone().zip(&grid.measured).filter_map(|(x, all)| Some((x, all[at]?)));
        let points: Vec<_> = points.collect();
        (!points.is_empty()).then(|| Series::new(format!("{variant}, kernel"), Style::Points, points))
    });
    simulated.chain(measured).collect()
}

/// Below charts.
fn caption(context: &Context<'_>) -> String {
    let seeds = context.seeds(seeds(context)).count();
    let measured = if context.lab().is_some() { "; this kernel once (points)" } else { "" };
    format!("Means of {seeds} seeds with their 95 % confidence intervals, 60 s each{measured}. {}", context.command())
}

/// Below the chart of all queues.
fn caption_of_queues(context: &Context<'_>) -> String {
    let [seeds, of_others] = [seeds(context), SEEDS_OF_OTHER_QUEUES].map(|count| context.seeds(count).count());
    let first = QUEUES[0].0;
    format!(
        "Smallest ratio of means of {seeds} seeds ({first}) or {of_others} (other queues), 60 s each. {}",
        context.command()
    )
}

/// How many runs each point has by default.
fn seeds(context: &Context<'_>) -> u64 {
    if context.full() { 100 } else { 10 }
}

/// Payload that arrived, of all sessions together, over the time of the run, in Mbit/s: as iperf counts.
pub fn throughput(run: &Run) -> f64 {
    let bytes: u64 = run.report.flows.iter().map(|flow| flow.bytes).sum();
    bytes as f64 * 8.0 / run.report.end_s / 1e6
}

/// Figure 3.
pub fn against_errors(context: &Context<'_>) -> Result<Reproduction, Error> {
    let points = ERROR_RATES.iter().map(|(name, error_rate)| Point {
        name: format!("BER={name}"),
        settings: vec![errors(name)],
        error_rate: *error_rate,
        error_rate_text: name,
        sessions: 1,
        has_model: true,
    });
    let grid = Grid::run(context, points.collect())?.measured(context)?;
    let mut found = grid.found();
    found.push(best(&grid));
    found.extend(grid.never_below());
    let gains: Vec<_> = grid.over(PROPOSED, &[SPLIT]).into_iter().map(|case| case.value).collect();
    let names = grid.points.windows(2).map(|points| format!("{} to {}", points[0].name, points[1].name));
    let rises = gains.windows(2).zip(names).map(|(gains, name)| Case::above(name, ratio(&gains[1], &gains[0]), 1.0));
    found.push(judge(
        "gain rises",
        "the gain over split-hybla over that at the rate before",
        &rises.collect::<Vec<_>>(),
        MARGIN,
    ));
    found.push(judge(
        "split helps",
        "throughput of split-hybla over that of the others",
        &grid.over(SPLIT, &WHOLE),
        MARGIN,
    ));
    // The axis is logarithmic: without errors there is no point on it.
    let rates = ERROR_RATES.iter().map(|(_, rate)| if *rate > 0.0 { *rate } else { f64::NAN });
    let chart = Chart {
        title: "Throughput of one session against the bit error rate".to_owned(),
        x: Axis::log("bit error rate").within(1e-8, 1e-5),
        y: Axis::linear("throughput, Mbit/s").within(0.0, 8.0),
        series: curves(&grid, rates),
        caption: caption(context),
    };
    Ok(Reproduction { found, remarks: remarks(context), charts: vec![chart] })
}

/// Figures 4 and 5.
pub fn against_sessions(
    (error_rate_text, error_rate): (&'static str, f64),
    context: &Context<'_>,
) -> Result<Reproduction, Error> {
    let points = |queue: &str| {
        let point = |sessions: &u32| {
            let settings = vec![
                errors(error_rate_text),
                format!("link.satellite.queue={queue}"),
                format!("flow.session.count={sessions}"),
                format!("tcp.cross-layer.capacity.connections={sessions}"),
            ];
            let (name, sessions) = (format!("sessions={sessions}"), *sessions);
            Point { name, settings, error_rate, error_rate_text, sessions, has_model: true }
        };
        SESSIONS.iter().map(point).collect::<Vec<_>>()
    };
    let grid = Grid::run(context, points(QUEUES[0].1))?.measured(context)?;
    let mut found = grid.found();
    let mut others = Vec::new();
    for (_, queue) in &QUEUES[1..] {
        others.push(Grid::with_seeds(context, points(queue), SEEDS_OF_OTHER_QUEUES)?);
    }
    let grids = || QUEUES.iter().map(|(name, _)| *name).zip([&grid].into_iter().chain(&others));
    let of_best: Vec<_> = grids().map(|(name, grid)| (name, cases_of_best(grid))).collect();
    // Between readings, which are deterministic but for the starts, the interval alone decides.
    found.push(judge_readings("best", &of_best, |key, cases| judge(key, BEST, cases, 0.0)));
    let of_never: Vec<_> = grids().map(|(name, grid)| (name, grid.over(PROPOSED, &OTHERS))).collect();
    let never = |key: &str, cases: &[Case]| judge_never_below(key, NEVER_BELOW, cases, MARGIN);
    found.push(judge_readings("never below", &of_never, never));
    found.extend(grid.never_below_measured());
    if error_rate > 0.0 {
        found.extend(under_errors(&grid));
    }
    let gain = |grid: &Grid| {
        let lowest = |sessions: u32| {
            let name = format!("at sessions={sessions}");
            let cases = grid.over(PROPOSED, &[WHOLE[0], WHOLE[1], WHOLE[2], SPLIT]);
            let values = cases.iter().filter(|case| case.name.ends_with(&name)).map(|case| case.value.mean);
            (f64::from(sessions), values.fold(f64::INFINITY, f64::min))
        };
        SESSIONS.into_iter().map(lowest).collect::<Vec<_>>()
    };
    let where_it_holds = Chart {
        title: format!("The proposed window over the best of the others, bit error rate {error_rate_text}, by queue"),
        x: Axis::linear("sessions").within(1.0, 10.0),
        y: Axis::linear("ratio of throughputs"),
        series: grids().map(|(name, grid)| Series::new(name, Style::Joined, gain(grid))).collect(),
        caption: caption_of_queues(context),
    };
    let chart = Chart {
        title: format!("Throughput of all sessions together, bit error rate {error_rate_text}"),
        x: Axis::linear("sessions").within(1.0, 10.0),
        y: Axis::linear("throughput, Mbit/s").within(0.0, 8.0),
        series: curves(&grid, SESSIONS.iter().map(|sessions| f64::from(*sessions))),
        caption: caption(context),
    };
    Ok(Reproduction { found, remarks: remarks(context), charts: vec![chart, where_it_holds] })
}

fn best(grid: &Grid) -> Found {
    judge("best", BEST, &cases_of_best(grid), MARGIN)
}

/// The proposed window over each of the others, where the paper's text compares them.
fn cases_of_best(grid: &Grid) -> Vec<Case> {
    let error_free = grid.points.iter().all(|point| point.error_rate == 0.0);
    let others: Vec<_> = VARIANTS.into_iter().filter(|variant| *variant != PROPOSED).collect();
    let mut cases = grid.over(PROPOSED, &others);
    // Of figure 4 the text names 2 sessions and more.
    if error_free {
        cases.retain(|case| !case.name.ends_with("sessions=1"));
    }
    cases
}

/// What errors leave to several sessions.
fn under_errors(grid: &Grid) -> [Found; 2] {
    let share = |variant: &str| {
        let all = grid.of(variant).into_iter().zip(&grid.points);
        let link = Estimate { mean: LINK_MBPS, interval: Some((LINK_MBPS, LINK_MBPS)), runs: usize::MAX };
        let shares =
            all.map(move |(throughput, point)| (format!("{variant} at {}", point.name), ratio(&throughput, &link)));
        shares.collect::<Vec<_>>()
    };
    let kept: Vec<_> = share(PROPOSED).into_iter().map(|(name, share)| Case::above(name, share, MAX)).collect();
    let lost =
        ["reno", "cubic"].into_iter().flat_map(share).map(|(name, share)| Case::above(name, missing(&share), MUCH));
    [
        judge("tolerates errors", "throughput of cross-layer over the link's payload rate", &kept, 0.0),
        judge(
            "Reno and CUBIC suffer",
            "part of the link's payload rate that is missing",
            &lost.collect::<Vec<_>>(),
            0.0,
        ),
    ]
}

/// What a share leaves.
fn missing(share: &Estimate) -> Estimate {
    let interval = share.interval.map(|(low, high)| (1.0 - high, 1.0 - low));
    Estimate { mean: 1.0 - share.mean, interval, runs: share.runs }
}

/// What 326 may mean, by the settings that say so.
const READINGS: [(&str, &[&str]); 3] = [
    ("largest congestion window", &[]),
    (
        "receiver's window",
        &[
            "tcp.hosts.receive_buffer_max=326segments",
            "tcp.hop.receive_buffer_max=326segments",
            "tcp.cross-layer.receive_buffer_max=326segments",
        ],
    ),
    (
        "no limit",
        &[
            "tcp.hosts.max_window=65535segments",
            "tcp.hop.max_window=65535segments",
            "tcp.cross-layer.max_window=65535segments",
        ],
    ),
];

/// The proposed window beside the others under three readings of the "maximum number of segments".
pub fn readings(context: &Context<'_>) -> Result<Reproduction, Error> {
    let points = READINGS.iter().flat_map(|(reading, settings)| {
        [("0", 0.0), ("1e-6", 1e-6)].map(|(name, error_rate)| Point {
            name: format!("{reading}, BER={name}"),
            settings: settings.iter().map(|setting| (*setting).to_owned()).chain([errors(name)]).collect(),
            error_rate,
            error_rate_text: name,
            sessions: 1,
            has_model: false,
        })
    });
    let grid = Grid::run(context, points.collect())?;
    let mut found = grid.found();
    found.push(best(&grid));
    Ok(Reproduction { found, remarks: vec![setting()], charts: Vec::new() })
}

/// What holds for the figures.
fn remarks(context: &Context<'_>) -> Vec<String> {
    [Some(setting()), real::remark(context)].into_iter().flatten().collect()
}

fn setting() -> String {
    "The \"maximum number of segments\", 326, is taken for the largest congestion window of every protocol; the item \
         maximum-segments has other readings. Queue: 50 packets, Dummynet's default, since the printed 500 bytes hold no packet; \
         figures 4 and 5 are judged with 10 and 20 packets, 50 and 500 kB, too. Runs of 60 s, \
         since the paper gives no length. Sessions start within 100 ms of one another; Linux of 2015 (selective \
         acknowledgements, no RACK), 1460 bytes a segment. The curves of hybla and split-hybla all but coincide"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use replicas::{Interrupt, Jobs, Pool};

    #[test]
    fn captions_name_the_seeds_of_what_is_drawn() {
        let captions = |full| {
            let pool =
                Pool { jobs: Jobs::new(1), interrupt: Interrupt::default(), shows_progress: false, huge_pages: false };
            let options = Options { pool, seeds: None, full, lab: None };
            let context = Context::new(&options, "kim", "figure-4");
            (caption(&context), caption_of_queues(&context))
        };
        let (of_all, of_queues) = captions(true);
        assert!(of_all.starts_with("Means of 100 seeds with their 95 % confidence intervals, 60 s each. "), "{of_all}");
        let expected = "Smallest ratio of means of 100 seeds (50 packets) or 6 (other queues), 60 s each. ";
        assert!(of_queues.starts_with(expected), "{of_queues}");
        assert!(captions(false).1.contains("of 10 seeds (50 packets) or 6 (other queues)"));
    }
}
