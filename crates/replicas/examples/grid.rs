//! The satellite transport over a grid of links and workloads: 200 cells that span rate, round-trip time, loss at random
//! and in bursts, size and number of flows, 20 seeds each, as a table and one picture.
//!
//! `cargo run --release -p bentpipe-replicas --example grid [FOLDER [SEEDS [KEY=VALUE …]]]`, by default `scenarios/grid` and 20.
//! Further arguments are settings of the scenario, such as `gateway.pair.satpep.repair=false`.
//!
//! The cells are points of a low-discrepancy sequence (Roberts' R5, the additive recurrence of the generalised golden
//! ratio) on the levels of each axis, without those of more than [`MAX`] bytes in total, which take long to simulate.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads and writes files")]

use replicas::{Error, Interrupt, Jobs, Pool, Recording, Replica};
use results::chart::{self, Axis, Chart, Series, Style};
use results::{Run, Statistic};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs, thread};
use units::{Bytes, Duration, Probability, Rate};

const CELLS: usize = 200;
/// Bytes of all flows together.
const MAX: u64 = 100_000_000;
const RATES: [f64; 9] = [0.5, 1.0, 2.0, 6.0, 12.0, 25.0, 50.0, 100.0, 250.0];
const RTTS: [u64; 7] = [40, 80, 150, 250, 400, 550, 800];
/// The probability that a packet is lost, and how many are lost in a row in the mean.
const LOSSES: [(f64, f64); 7] =
    [(0.0, 1.0), (1e-4, 1.0), (1e-3, 1.0), (1e-2, 1.0), (3e-2, 1.0), (1e-2, 10.0), (3e-2, 10.0)];
const SIZES: [u64; 9] = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000];
const FLOWS: [u64; 7] = [1, 1, 3, 10, 21, 50, 100];

/// A link and what is sent over it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    mbps: f64,
    rtt_ms: u64,
    loss: f64,
    burst: f64,
    size: u64,
    flows: u64,
}

/// What was found in a cell, over all seeds.
struct Found {
    cell: Cell,
    /// Share of the limit: mean, and the lowest.
    share: f64,
    lowest: f64,
    /// Bytes on the link for each byte of payload, and how much of that was repair.
    overhead: f64,
    repair: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let folder = Path::new(arguments.first().map_or("scenarios/grid", String::as_str));
    let seeds = arguments.get(1).map_or(Ok(20), |text| text.parse::<u64>())?;
    let settings = arguments.get(2..).unwrap_or_default();
    let text = fs::read_to_string(folder.join("link.toml"))?;
    let cells = cells();
    let mut replicas = Vec::new();
    for cell in &cells {
        let scenario = Arc::new(cell.scenario(&text, settings)?);
        replicas.extend((1..=seeds).map(|seed| Replica { scenario: scenario.clone(), seed }));
    }
    let jobs = thread::available_parallelism().map_or(1, |jobs| jobs.get());
    let pool =
        Pool { jobs: Jobs::new(jobs), interrupt: Interrupt::on_signals()?, shows_progress: true, huge_pages: true };
    // Only what is needed of each run: its share of the limit, bytes on the link and of repair for each of payload.
    let mut figures = Vec::new();
    let cost = pool.run("grid", &replicas, &Recording::Nothing, |run| {
        figures.push(cells[figures.len() / seeds as usize].figures(&run));
        Ok::<(), Error>(())
    })?;
    let of_cell = figures.chunks_exact(seeds as usize).zip(&cells);
    let found: Vec<_> = of_cell.map(|(figures, cell)| Found::new(*cell, figures)).collect();
    fs::write(folder.join("cells.csv"), table(&found)?)?;
    let command = env::args()
        .skip(1)
        .fold("cargo run --release -p bentpipe-replicas --example grid".to_owned(), |all, one| all + " " + &one);
    fs::write(folder.join("grid.svg"), picture(&found, seeds, &command)?)?;
    println!("{} cells, {} runs, {} of processor time", found.len(), figures.len(), cost.cpu);
    Ok(())
}

/// The cells.
fn cells() -> Vec<Cell> {
    // The root of x^6 = x + 1: its powers are as independent of one another as can be.
    let golden = (0..64).fold(1.0f64, |x, _| (1.0 + x).powf(1.0 / 6.0));
    let level = |k: usize, axis: i32, levels: usize| {
        let place = (0.5 + k as f64 * golden.powi(-axis)).fract();
        (place * levels as f64) as usize
    };
    let cell = |k: usize| {
        let (loss, burst) = LOSSES[level(k, 3, LOSSES.len())];
        Cell {
            mbps: RATES[level(k, 1, RATES.len())],
            rtt_ms: RTTS[level(k, 2, RTTS.len())],
            loss,
            burst,
            size: SIZES[level(k, 4, SIZES.len())],
            flows: FLOWS[level(k, 5, FLOWS.len())],
        }
    };
    (1..).map(cell).filter(|cell| cell.size * cell.flows <= MAX).take(CELLS).collect()
}

impl Cell {
    fn scenario(&self, text: &str, settings: &[String]) -> Result<scenario::Scenario, String> {
        let Self { mbps, rtt_ms, loss, burst, size, flows } = *self;
        let loss = if burst > 1.0 {
            let (leave, enter) = (1.0 / burst, loss / (burst * (1.0 - loss)));
            format!("{{ gilbert_elliott = {{ p = {enter}, r = {leave}, loss_bad = 1 }} }}")
        } else {
            loss.to_string()
        };
        let mut overrides = vec![
            format!("link.satellite.rate={mbps}Mbit/s"),
            format!("link.satellite.delay={}us", rtt_ms * 500),
            format!("link.satellite.loss={loss}"),
            format!("flow.file.bulk.size={size}B"),
            format!("flow.file.count={flows}"),
        ];
        overrides.extend_from_slice(settings);
        let experiment = scenario::load(text, "link.toml", &overrides, &|name| Err(format!("no file {name}")));
        let scenarios = experiment.map_err(|faults| faults.to_string())?.scenarios;
        scenarios.into_iter().next().ok_or_else(|| "no scenario".to_owned())
    }

    /// The limit of the link, half a round trip included.
    fn limit(&self) -> f64 {
        let rate = Rate::from_bps((self.mbps * 1e6) as u64);
        let rtt = Duration::from_millis(self.rtt_ms);
        let loss = Probability::new(self.loss).unwrap_or(Probability::ZERO);
        model::limit::time(0.5, Bytes::new(self.size * self.flows), rate, rtt, loss).as_secs_f64()
    }

    /// Share of the limit (none if a file did not arrive), bytes on the link and of repair, for each byte of payload.
    fn figures(&self, run: &Run) -> [f64; 3] {
        let payload = (self.size * self.flows) as f64;
        let complete = run.report.flows.iter().all(|flow| flow.complete);
        let end = run.report.flows.iter().filter_map(|flow| flow.end_s).fold(0.0, f64::max);
        let forward = run.report.links.iter().find(|link| link.name == "satellite" && link.from == "near");
        let on_link = forward.map_or(0, |link| link.counters.offered.bytes) as f64;
        let sessions = run.report.gateways.iter().flat_map(|pair| &pair.sessions);
        let repair: u64 = sessions.filter(|end| end.node == "near").map(|end| end.repair_bytes).sum();
        [if complete { self.limit() / end } else { 0.0 }, on_link / payload, repair as f64 / payload]
    }

    /// The overhead that is meant to be enough: headers, half more than what is lost, and six packets for a transfer.
    fn allowed_overhead(&self) -> f64 {
        1.06 + 1.5 * self.loss + 6.0 * 1500.0 / (self.size * self.flows) as f64
    }
}

impl Found {
    fn new(cell: Cell, figures: &[[f64; 3]]) -> Self {
        let mean = |at: usize| Statistic::of(figures.iter().map(|figures| figures[at])).map_or(0.0, |all| all.mean);
        let lowest = figures.iter().map(|figures| figures[0]).fold(1.0, f64::min);
        Self { cell, share: mean(0), lowest, overhead: mean(1), repair: mean(2) }
    }
}

fn table(found: &[Found]) -> Result<String, std::fmt::Error> {
    let mut table =
        String::from("rate_mbps,rtt_ms,loss,mean_burst,size_bytes,flows,limit_s,share,lowest_share,overhead,repair\n");
    for Found { cell, share, lowest, overhead, repair } in found {
        let Cell { mbps, rtt_ms, loss, burst, size, flows } = cell;
        let limit = cell.limit();
        writeln!(
            table,
            "{mbps},{rtt_ms},{loss},{burst},{size},{flows},{limit:.3},{share:.4},{lowest:.4},{overhead:.4},{repair:.4}"
        )?;
    }
    Ok(table)
}

/// One point for each cell, coloured by its losses, over each axis in turn.
fn picture(found: &[Found], seeds: u64, command: &str) -> Result<String, results::Error> {
    let share = |found: &Found| found.share;
    // Beside one another what shares a level.
    let spread = |at: usize| 1.0 + 0.28 * ((at as f64 * 0.618_034).fract() - 0.5);
    let panel = |label: &str, x: &dyn Fn(&Cell) -> f64, y: (&str, &dyn Fn(&Found) -> f64)| {
        let series = LOSSES.iter().enumerate().map(|(colour, (loss, burst))| {
            let of = |cell: &Cell| (cell.loss, cell.burst) == (*loss, *burst);
            let points = found.iter().enumerate().filter(|(_, found)| of(&found.cell));
            let points = points.map(|(at, found)| (x(&found.cell) * spread(at), y.1(found))).collect();
            let kind = if *burst > 1.0 { format!(", bursts of {burst}") } else { String::new() };
            Series::new(format!("P = {loss}{kind}"), Style::Points, points).with_colour(colour)
        });
        let y = Axis::linear(y.0);
        Chart { title: String::new(), x: Axis::log(label), y, series: series.collect(), caption: String::new() }
    };
    let limit = "share of the limit";
    let mut charts = vec![
        panel(
            "time at the limit over the round-trip time",
            &|cell| cell.limit() * 1e3 / cell.rtt_ms as f64,
            (limit, &share),
        ),
        panel("rate, Mbit/s", &|cell| cell.mbps, (limit, &share)),
        panel("round-trip time, ms", &|cell| cell.rtt_ms as f64, (limit, &share)),
        panel("size of a file, kB", &|cell| cell.size as f64 / 1e3, (limit, &share)),
        panel("flows", &|cell| cell.flows as f64, (limit, &share)),
        panel(
            "bytes in all, kB",
            &|cell| (cell.size * cell.flows) as f64 / 1e3,
            ("overhead over what is allowed", &|found| found.overhead / found.cell.allowed_overhead()),
        ),
    ];
    for chart in &mut charts[1..] {
        chart.series.iter_mut().for_each(|series| series.name.clear());
    }
    charts[5].caption =
        format!("{} cells, means of {seeds} seeds; the colours are those of the first chart. {command}", found.len());
    chart::stacked("bentpipe's transport over the grid", &charts)
}
