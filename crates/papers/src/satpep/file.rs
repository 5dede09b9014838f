//! Figures 2 and 3: one file.

use super::grid::{Grid, Point};
use super::models::Path;
use super::{OURS, SPLIT, caption, loss_back, loss_there};
use crate::curves::curve;
use crate::evidence::{Case, judge, number, ratio};
use crate::{Context, Error, Estimate, Found, Reproduction, Verdict};
use results::chart::{Axis, Chart};

/// How figure 2 is drawn.
#[derive(Debug)]
pub struct Figure {
    text: &'static str,
    file: &'static str,
    /// Packets are lost on the way back, too.
    both_ways: bool,
    /// Where losses are, for titles.
    losses: &'static str,
    /// The round-trip time between the gateways, in seconds.
    rtt: f64,
    /// The part of it on the way there.
    one_way: f64,
    /// Whether the claims of section 3 that need no comparison are checked here.
    is_the_papers: bool,
}

const FILE: &str = include_str!("../../../../scenarios/papers/satpep/file.toml");
const FILE_NAME: &str = "scenarios/papers/satpep/file.toml";

/// As the paper has it.
pub const WAY_THERE: Figure = Figure {
    text: FILE,
    file: FILE_NAME,
    both_ways: false,
    losses: "losses on the way there",
    rtt: 0.55,
    one_way: 0.275,
    is_the_papers: true,
};
/// Acknowledgements are lost, too.
pub const BOTH_WAYS: Figure = Figure { both_ways: true, losses: "losses both ways", is_the_papers: false, ..WAY_THERE };
/// Acknowledgements return by ground.
pub const TERRESTRIAL_RETURN: Figure = Figure {
    text: include_str!("../../../../scenarios/papers/satpep/terrestrial-return.toml"),
    file: "scenarios/papers/satpep/terrestrial-return.toml",
    both_ways: false,
    losses: "way back by ground",
    rtt: 0.305,
    one_way: 0.275,
    is_the_papers: false,
};

impl Figure {
    /// The way of a file of 1 MB between hosts, without losses.
    fn path(&self) -> Path {
        Path { size: 1.0, rate: 6.0, rtt: self.rtt + HOSTS_RTT, one_way: self.one_way + HOSTS_RTT / 2.0, loss: 0.0 }
    }
}

/// End to end, by the receiver's window.
const TCP: [&str; 3] = ["sack-100", "sack-300", "sack-500"];
/// The one that ratios are to.
const BEST_TCP: &str = "sack-500";
const LOSSES: [Point; 7] =
    [("1e-6", 1e-6), ("1e-5", 1e-5), ("1e-4", 1e-4), ("3e-4", 3e-4), ("1e-3", 1e-3), ("3e-3", 3e-3), ("1e-2", 1e-2)];
/// In MB.
const SIZES: [Point; 7] =
    [("100kB", 0.1), ("200kB", 0.2), ("500kB", 0.5), ("1MB", 1.0), ("2MB", 2.0), ("5MB", 5.0), ("10MB", 10.0)];
/// In Mbit/s.
const CAPACITIES: [Point; 5] =
    [("2Mbit/s", 2.0), ("4Mbit/s", 4.0), ("6Mbit/s", 6.0), ("8Mbit/s", 8.0), ("10Mbit/s", 10.0)];
/// What the links of hosts add to the round-trip time, in seconds.
const HOSTS_RTT: f64 = 0.004;
/// What is not above by more than this is no more than level.
const MARGIN: f64 = 0.01;
/// A ratio that rises by less does not rise clearly.
const CLEARLY: f64 = 1.2;

/// Figure 2.
pub fn against_loss(figure: &Figure, context: &Context<'_>) -> Result<Reproduction, Error> {
    let variants = [&TCP[..], &SPLIT[..]].concat();
    let settings = |loss: &str| {
        let back = figure.both_ways.then(|| loss_back(loss));
        [loss_there(loss)].into_iter().chain(back).collect()
    };
    let grid = Grid::run(context, (figure.text, figure.file), &variants, ("P", &LOSSES), settings)?;
    let mut found = grid.found(|loss| Path { loss, ..figure.path() })?;
    let tcp = grid.all(BEST_TCP)?;
    let mut ratios = Vec::new();
    for variant in SPLIT {
        let all: Vec<_> = grid.all(variant)?.iter().zip(&tcp).map(|(split, tcp)| ratio(split, tcp)).collect();
        for ((loss, _), ratio) in LOSSES.iter().zip(&all) {
            found.push(Found { simulated: Some(*ratio), ..Found::new(format!("{variant}/{BEST_TCP}, P={loss}")) });
        }
        ratios.push(all);
    }
    found.extend(compare(&ratios[0]));
    if figure.is_the_papers {
        found.extend(alone(&grid, figure)?);
    }
    let xs = || LOSSES.iter().map(|(_, loss)| *loss);
    let ratios = SPLIT.iter().zip(ratios);
    let axis = || Axis::log("probability of packet loss").within(1e-6, 1e-2);
    let goodputs = Chart {
        title: format!("Goodput of a file of 1 MB over 6 Mbit/s, {}", figure.losses),
        x: axis(),
        y: Axis::linear("goodput, Mbit/s").within(0.0, 6.0),
        series: grid.curves()?,
        caption: caption(context),
    };
    let ratios = Chart {
        title: format!("Goodput over that of {BEST_TCP}, {}", figure.losses),
        x: axis(),
        y: Axis::linear("ratio of goodputs").within(0.0, 12.0),
        series: ratios.map(|(name, all)| curve(format!("{name} / {BEST_TCP}"), xs().zip(all))).collect(),
        caption: caption(context),
    };
    Ok(Reproduction { found, remarks: vec![OURS.to_owned()], charts: vec![goodputs, ratios] })
}

/// The claims that hold the paper's protocol against TCP.
fn compare(ratios: &[Estimate]) -> Vec<Found> {
    let better: Vec<_> =
        LOSSES.iter().zip(ratios).map(|((loss, _), ratio)| Case::above(format!("P={loss}"), *ratio, 1.0)).collect();
    let at = |wanted: &str| LOSSES.iter().zip(ratios).find(|((loss, _), _)| *loss == wanted).map(|(_, ratio)| ratio);
    let rise = at("1e-2").zip(at("1e-3")).map(|(most, less)| Case::above("P=1e-2", ratio(most, less), CLEARLY));
    vec![
        judge("better than TCP", &format!("ratio of goodputs to {BEST_TCP}"), &better, MARGIN),
        judge("ratio at 1e-2", "that ratio at 1e-2 over that at 1e-3", rise.as_slice(), 0.0),
    ]
}

/// The claims of each protocol by itself.
fn alone(grid: &Grid, figure: &Figure) -> Result<Vec<Found>, Error> {
    let (paper, tcp) = (grid.all(SPLIT[0])?, grid.all(BEST_TCP)?);
    let (Some((first, last)), Some((tcp_first, tcp_last))) = (ends(&paper), ends(&tcp)) else { return Ok(Vec::new()) };
    // The opening's round trip, 685 packets at the link's rate, and half a round trip for the last of them.
    let filled = 8.0 / (1.5 * figure.rtt + 685.0 * 0.002);
    let full = [Case::above("P=1e-6", *first, 0.97 * filled)];
    let full_note = format!("goodput in Mbit/s, {} if the link is full from the second round trip on", number(filled));
    let under_losses = [
        Case::above("of what it has at 1e-6 SaTPEP keeps at 1e-2", ratio(last, first), 0.75),
        Case::above("times by which TCP is faster at 1e-6 than at 1e-2", ratio(tcp_first, tcp_last), 2.0),
    ];
    let none_dropped = |key: &str, variants: &[&str]| {
        let dropped: u64 = variants.iter().map(|variant| grid.dropped(variant)).sum();
        let verdict = if dropped == 0 { Verdict::Holds } else { Verdict::DoesNotHold };
        Found::new(key).verdict(verdict).note(format!("{dropped} packets dropped by queues in all runs"))
    };
    Ok(vec![
        judge("full link after one round trip", &full_note, &full, 0.0),
        judge("window under losses", "ratios of goodputs", &under_losses, 0.0),
        none_dropped("no congestion of TCP", &TCP),
        none_dropped("no congestion of SaTPEP", &SPLIT[..1]),
    ])
}

fn ends(values: &[Estimate]) -> Option<(&Estimate, &Estimate)> {
    values.first().zip(values.last())
}

/// Figure 3.
pub fn against_size_and_capacity(context: &Context<'_>) -> Result<Reproduction, Error> {
    let variants = [BEST_TCP, SPLIT[0], SPLIT[1]];
    let source = (FILE, FILE_NAME);
    let size = |size: &str| vec![loss_there("1e-3"), format!("flow.file.bulk.size={size}")];
    let by_size = Grid::run(context, source, &variants, ("file", &SIZES), size)?;
    let by_capacity = Grid::run(context, source, &variants, ("capacity", &CAPACITIES), capacity)?;
    let path = Path { loss: 1e-3, ..WAY_THERE.path() };
    let sizes = by_size.found(|size| Path { size, ..path })?;
    let capacities = by_capacity.found(|rate| Path { rate, ..path })?;
    let mut found = [sizes, capacities].concat();
    found.push(rises("rises with the file", &by_size)?);
    found.push(rises("rises with the capacity", &by_capacity)?);
    let sizes = Chart {
        title: "Goodput against the size of the file, 6 Mbit/s, loss 1e-3".to_owned(),
        x: Axis::log("size of the file, MB").within(0.1, 10.0),
        y: Axis::linear("goodput, Mbit/s").within(0.0, 6.0),
        series: by_size.curves()?,
        caption: caption(context),
    };
    let capacities = Chart {
        title: "Goodput of a file of 1 MB against the link's capacity, loss 1e-3".to_owned(),
        x: Axis::linear("capacity, Mbit/s").within(2.0, 10.0),
        y: Axis::linear("goodput, Mbit/s").within(0.0, 10.0),
        series: by_capacity.curves()?,
        caption: caption(context),
    };
    Ok(Reproduction { found, remarks: vec![OURS.to_owned()], charts: vec![sizes, capacities] })
}

/// With a satellite of 10 Mbit/s the links of hosts have ten times that.
fn capacity(capacity: &str) -> Vec<String> {
    let hosts = if capacity == "10Mbit/s" { "100Mbit/s" } else { "10Mbit/s" };
    let rates = [("sender", hosts), ("satellite", capacity), ("receiver", hosts)];
    let rates = rates.map(|(link, rate)| format!("link.{link}.rate={rate}"));
    rates.into_iter().chain([loss_there("1e-3")]).collect()
}

/// The claim that each point of the paper's protocol is above the one before.
fn rises(key: &str, grid: &Grid) -> Result<Found, Error> {
    let all = grid.all(SPLIT[0])?;
    let steps = all.windows(2).zip(grid.points.windows(2));
    let cases: Vec<_> =
        steps.map(|(values, names)| Case::above(names[1].0, ratio(&values[1], &values[0]), 1.0)).collect();
    Ok(judge(key, "goodput over that of the point before", &cases, MARGIN))
}
