//! Figure 4: twenty files at once, and one that comes later.

use super::{OURS, SPLIT, caption, loss_back, loss_there, seeds};
use crate::curves::curve;
use crate::evidence::{Case, judge, judge_readings, number, ratio};
use crate::sweep::sweep;
use crate::{Context, Error, Estimate, Found, Reproduction, Variants, Verdict};
use results::Run;
use results::chart::{Axis, Chart, Series, Style};

/// How figure 4 is drawn.
#[derive(Debug)]
pub struct Figure {
    /// Packets are lost on the way back, too.
    both_ways: bool,
    /// The probabilities of loss.
    losses: &'static [&'static str],
    /// Whether the claims of section 3 are checked here.
    is_the_papers: bool,
}

/// As the paper has it.
pub const WAY_THERE: Figure =
    Figure { both_ways: false, losses: &["1e-6", "3e-4", "1e-3", "3e-3", "1e-2"], is_the_papers: true };
/// Acknowledgements are lost, too.
pub const BOTH_WAYS: Figure = Figure { both_ways: true, losses: &["1e-3", "1e-2"], is_the_papers: false };

const TEXT: &str = include_str!("../../../../scenarios/papers/satpep/crowd.toml");
const FILE: &str = "scenarios/papers/satpep/crowd.toml";
const TCP: &str = "sack-25";
/// Where the left half of the figure is.
const PAPERS_LOSS: &str = "1e-3";
/// Files at once.
const TWENTY: usize = 20;
/// What is not above by more than this is no more than level.
const MARGIN: f64 = 0.01;
/// Jain's index from which a division is called remarkably fair.
const REMARKABLE: f64 = 0.99;
/// What the link carries of payload: 1460 of 1500 bytes of 6 Mbit/s.
const LINK_KBPS: f64 = 5840.0;

/// One protocol at one probability of loss.
struct Cell {
    variant: &'static str,
    loss: &'static str,
    /// Goodput in kbit/s of each file of each run, the late one last.
    goodputs: Vec<Vec<f64>>,
    /// Packets that queues dropped.
    dropped: u64,
}

/// Figure 4.
pub fn figure_4(figure: &Figure, context: &Context<'_>) -> Result<Reproduction, Error> {
    let cells = run(figure, context)?;
    let mut found = Vec::new();
    for cell in &cells {
        let found_of = |what: &str, value| Found {
            simulated: value,
            ..Found::new(format!("{}, P={}, {what}", cell.variant, cell.loss))
        };
        found.push(found_of("mean of 20", cell.mean()));
        found.push(found_of("the 21st", cell.late()));
        found.push(found_of("Jain's index", cell.jain()));
    }
    let of = |variant: &str, loss: &str| cells.iter().find(|cell| cell.variant == variant && cell.loss == loss);
    found.push(fairness(&cells));
    found.push(better_under_errors(of(SPLIT[0], "1e-2"), of(TCP, "1e-2")));
    if figure.is_the_papers {
        found.push(fairer_than_tcp(of(SPLIT[0], PAPERS_LOSS), of(TCP, PAPERS_LOSS)));
        found.extend(tcp_alone(of(TCP, "1e-6")));
    }
    Ok(Reproduction { found, remarks: remarks(), charts: charts(&cells, context) })
}

fn run(figure: &Figure, context: &Context<'_>) -> Result<Vec<Cell>, Error> {
    let mut scenarios = Vec::new();
    let mut labels = Vec::new();
    for loss in figure.losses {
        let back = figure.both_ways.then(|| loss_back(loss));
        let settings: Vec<_> = [loss_there(loss)].into_iter().chain(back).collect();
        let loaded = Variants::load(TEXT, FILE, &settings)?;
        for variant in [TCP, SPLIT[0], SPLIT[1]] {
            scenarios.push(loaded.get(variant)?);
            labels.push((variant, *loss));
        }
    }
    let runs = sweep(context, &scenarios, context.seeds(seeds(context)))?;
    labels.into_iter().zip(runs).map(|((variant, loss), runs)| Cell::of(variant, loss, &runs)).collect()
}

/// Readings of the constant c of equation (2), which the paper only says to be at most 1.
const HEADROOMS: [&str; 5] = ["1", "0.5", "0.25", "0.1", "0"];
/// With less of the others' mean a newcomer has not its share.
const SERVED: f64 = 0.5;

/// What the connection that comes while the link is full has, by the constant c of equation (2).
pub fn newcomer(context: &Context<'_>) -> Result<Reproduction, Error> {
    let mut scenarios = Vec::new();
    for headroom in HEADROOMS {
        let settings = [loss_there(PAPERS_LOSS), format!("gateway.pair.satpep-2003.headroom={headroom}")];
        scenarios.push(Variants::load(TEXT, FILE, &settings)?.get(SPLIT[0])?);
    }
    scenarios.push(Variants::load(TEXT, FILE, &[loss_there(PAPERS_LOSS)])?.get(TCP)?);
    let runs = sweep(context, &scenarios, context.seeds(if context.full() { 100 } else { 10 }))?;
    let (mut found, mut readings, mut points) = (Vec::new(), Vec::new(), Vec::new());
    for (at, runs) in runs.iter().enumerate() {
        let headroom = HEADROOMS.get(at);
        let cell = Cell::of(if headroom.is_some() { SPLIT[0] } else { TCP }, PAPERS_LOSS, runs)?;
        let name = headroom.map_or(TCP.to_owned(), |headroom| format!("c={headroom}"));
        let share = cell.late_share();
        let note = cell.mean().map(|mean| format!("the twenty have {} kbit/s in the mean", number(mean.mean)));
        found.push(Found { simulated: share, note, ..Found::new(name) });
        if let (Some(headroom), Some(share)) = (headroom, share) {
            readings.push((*headroom, vec![Case::above("P=1e-3", share, SERVED)]));
            points.push((headroom.parse().unwrap_or(f64::NAN), share));
        }
    }
    let what = "goodput of the 21st over the mean of the twenty";
    let named: Vec<_> = readings.iter().map(|(headroom, cases)| (format!("c={headroom}"), cases.clone())).collect();
    let named: Vec<_> = named.iter().map(|(name, cases)| (name.as_str(), cases.clone())).collect();
    found.push(judge_readings("newcomer", &named, |key, cases| judge(key, what, cases, 0.0)));
    let chart = Chart {
        title: "Goodput of the 21st connection over the mean of twenty, loss 1e-3".to_owned(),
        x: Axis::linear("c of equation 2").within(0.0, 1.0),
        y: Axis::linear("ratio of goodputs").within(0.0, 1.2),
        series: vec![curve(SPLIT[0], points)],
        caption: caption(context),
    };
    let remark = "Equation 2 limits each window to (1 + c) / n of the bandwidth-delay product. With c = 1 the twenty may hold twice \
                  what the link carries, so that nothing is available when the 21st comes, and equation 1 gives it nothing; with c \
                  near 0 their limits fall as it joins, and what they give up is its own";
    Ok(Reproduction { found, remarks: vec![remark.to_owned()], charts: vec![chart] })
}

impl Cell {
    fn of(variant: &'static str, loss: &'static str, runs: &[Run]) -> Result<Self, Error> {
        let goodputs = |run: &Run| {
            let flows = run.report.flows.iter();
            flows.map(|flow| flow.goodput_bps.filter(|_| flow.complete).map(|bps| bps / 1e3)).collect()
        };
        let goodputs: Option<Vec<Vec<f64>>> = runs.iter().map(goodputs).collect();
        let goodputs = goodputs.ok_or_else(|| Error::failed(format!("{variant}, P={loss}: a file did not arrive")))?;
        let links = runs.iter().flat_map(|run| &run.report.links);
        let dropped = links.map(|link| link.counters.dropped_queue_full.packets).sum();
        Ok(Self { variant, loss, goodputs, dropped })
    }

    /// A value of each run's twenty.
    fn of_twenty(&self, value: impl Fn(&[f64]) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(self.goodputs.iter().filter_map(|all| value(all.get(..TWENTY)?)))
    }

    fn mean(&self) -> Option<Estimate> {
        self.of_twenty(|twenty| Some(twenty.iter().sum::<f64>() / TWENTY as f64))
    }

    fn late(&self) -> Option<Estimate> {
        Estimate::of(self.goodputs.iter().filter_map(|all| all.get(TWENTY).copied()))
    }

    /// What the late one has, in units of the twenty's mean.
    fn late_share(&self) -> Option<Estimate> {
        let share = |all: &Vec<f64>| Some(all.get(TWENTY)? * TWENTY as f64 / all.get(..TWENTY)?.iter().sum::<f64>());
        Estimate::of(self.goodputs.iter().filter_map(share))
    }

    fn jain(&self) -> Option<Estimate> {
        self.of_twenty(|twenty| results::jain(twenty.iter().copied()))
    }

    /// The standard deviation of the twenty's goodputs in units of their mean, leaving out the first `without`.
    fn spread(&self, without: usize) -> Option<Estimate> {
        self.of_twenty(|twenty| results::jain(twenty[without..].iter().copied()).map(|jain| (1.0 / jain - 1.0).sqrt()))
    }
}

/// Whether the index is as the conclusion says at every probability of loss.
fn fairness(cells: &[Cell]) -> Found {
    let paper = cells.iter().filter(|cell| cell.variant == SPLIT[0]);
    let cases: Vec<_> =
        paper.filter_map(|cell| Some(Case::above(format!("P={}", cell.loss), cell.jain()?, REMARKABLE))).collect();
    judge("fairness", "Jain's index", &cases, 0.0)
}

fn better_under_errors(paper: Option<&Cell>, tcp: Option<&Cell>) -> Found {
    let means = paper.and_then(Cell::mean).zip(tcp.and_then(Cell::mean));
    let case = means.map(|(paper, tcp)| Case::above("P=1e-2", ratio(&paper, &tcp), 1.0));
    judge("better under errors", "mean goodput of the twenty over TCP's at 1e-2", case.as_slice(), MARGIN)
}

fn fairer_than_tcp(paper: Option<&Cell>, tcp: Option<&Cell>) -> Found {
    let case = |name: &str, without| {
        let spreads = tcp?.spread(without).zip(paper?.spread(without))?;
        Some(Case::above(name, ratio(&spreads.0, &spreads.1), 1.0))
    };
    let cases: Vec<_> =
        [case("all twenty", 0), case("without the one that opens first", 1)].into_iter().flatten().collect();
    judge("fairer than TCP", "standard deviation of TCP's goodputs over SaTPEP's", &cases, MARGIN)
}

fn tcp_alone(tcp: Option<&Cell>) -> Vec<Found> {
    let used = tcp.and_then(Cell::mean).map(|mean| {
        let scale = |value: f64| value * TWENTY as f64 / LINK_KBPS;
        let interval = mean.interval.map(|(low, high)| (scale(low), scale(high)));
        Case::above("P=1e-6", Estimate { mean: scale(mean.mean), interval, runs: mean.runs }, 0.95)
    });
    let none_dropped = tcp.map(|tcp| {
        let verdict = if tcp.dropped == 0 { Verdict::Holds } else { Verdict::DoesNotHold };
        let note = format!("{} packets dropped by queues in {} runs", tcp.dropped, tcp.goodputs.len());
        Found::new("no congestion of TCP").verdict(verdict).note(note)
    });
    let fills = judge("TCP fills the link", "goodput of the twenty over the link's payload rate", used.as_slice(), 0.0);
    [fills].into_iter().chain(none_dropped).collect()
}

fn charts(cells: &[Cell], context: &Context<'_>) -> Vec<Chart> {
    let variants = [TCP, SPLIT[0], SPLIT[1]];
    let of = |variant: &'static str| cells.iter().filter(move |cell| cell.variant == variant);
    let each = variants.iter().filter_map(|variant| {
        let cell = of(variant).find(|cell| cell.loss == PAPERS_LOSS)?;
        let goodputs = (0..TWENTY).filter_map(|file| {
            let goodput = Estimate::of(cell.goodputs.iter().filter_map(|all| all.get(file).copied()))?;
            Some(((file + 1) as f64, goodput))
        });
        Some(curve(*variant, goodputs))
    });
    let each = Chart {
        title: format!("Goodput of 20 simultaneous connections, loss {PAPERS_LOSS}"),
        x: Axis::linear("connection").within(1.0, 20.0),
        y: Axis::linear("goodput, kbit/s").within(0.0, 400.0),
        series: each.collect(),
        caption: caption(context),
    };
    let against_loss = |variant: &'static str, value: fn(&Cell) -> Option<Estimate>| {
        of(variant).filter_map(move |cell| Some((cell.loss.parse().ok()?, value(cell)?)))
    };
    let both = variants.iter().enumerate().flat_map(|(colour, variant)| {
        let mean = curve(format!("{variant}, mean of 20"), against_loss(variant, Cell::mean));
        let late = curve(format!("{variant}, the 21st"), against_loss(variant, Cell::late));
        [mean.with_colour(colour), Series { style: Style::Dashed, ..late }.with_colour(colour)]
    });
    let both = Chart {
        title: "Mean goodput of 20 connections, and that of the 21st, nine seconds later".to_owned(),
        x: Axis::log("probability of packet loss").within(1e-6, 1e-2),
        y: Axis::linear("goodput, kbit/s").within(0.0, 400.0),
        series: both.collect(),
        caption: caption(context),
    };
    vec![each, both]
}

fn remarks() -> Vec<String> {
    vec![
        OURS.to_owned(),
        "In satpep-2003 the connection that opens first is told all of the free capacity, since no other is known yet, and ends \
         well before the rest: the paper is silent here, and without it the others' spread is far below TCP's"
            .to_owned(),
        "What the 21st gets depends on a rule that the paper does not have: equation 1 gives a newcomer nothing while the \
         link is full, so that satpep-2003 lets it in as connections end; satpep gives it its share at once, which the \
         twenty then have less"
            .to_owned(),
    ]
}
