//! `--sweep`: a scenario with each combination of some settings.

use super::replicas::{SWEEP, remove_results};
use super::{Args, ScenarioFile, interrupted, scenario_name};
use crate::output::{Failure, Output};
use crate::text::Text;
use replicas::{Interrupt, Jobs, Pool, Recording, Replica};
use results::chart::{Axis, Chart, Series, Style};
use results::listing::{Cell, Listing, count, figure, text};
use results::{PictureFormat, Table, TableFile};
use scenario::Faults;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sweeps::{Grid, Interval, Key, PointSummary, RunKey, Store};
use units::{Bytes, Quantity, Rate};

/// More runs than anyone waits for.
const MAX_RUNS: usize = 1_000_000;
/// As often, finished runs are written.
const BETWEEN_SHARDS: Duration = Duration::from_secs(1);
/// As many runs are written at once at most, which bounds what waits in memory.
const RUNS_IN_SHARD: usize = 5_000;

/// A run of the sweep.
struct Planned {
    point: usize,
    key: Key,
    replica: Replica,
}

/// The JSON document of a sweep.
#[derive(Debug, Serialize)]
struct Document {
    scenario: String,
    /// What each point is.
    points: Vec<BTreeMap<String, String>>,
    /// What was found at each.
    summary: Vec<PointSummary>,
    /// How many runs were finished.
    runs: usize,
    /// How many of them were found in the results of earlier sweeps.
    kept: usize,
    cpu_s: f64,
    wall_s: f64,
}

/// Where results go: to shards of a folder, or to memory.
enum Sink {
    Folder(Store),
    Memory(Vec<(RunKey, Table)>),
}

/// Runs the grid and shows what was found.
///
/// # Errors
/// As [`super::run`].
pub fn run(args: &Args, file: &Path, output: &Output) -> Result<(), Failure> {
    let grid = Grid { axes: args.sweep.clone() };
    let (title, planned) = plan(args, file, &grid)?;
    check(&planned, &grid)?;
    if args.check {
        let variants: BTreeSet<_> = planned.iter().map(|run| run.replica.scenario.variant.as_deref()).collect();
        let checked = serde_json::json!({ "scenario": title, "variants": variants.len(), "runs": planned.len() });
        return output.result(&checked, |_| format!("{} is sound: {} runs", file.display(), planned.len()));
    }
    let mut sink = match &args.out {
        Some(out) => {
            crate::named_files::make_directory("--out", out)?;
            Sink::Folder(Store::open(&out.join("shards")).map_err(Failure::failed)?)
        }
        None => Sink::Memory(Vec::new()),
    };
    let kept = planned.iter().filter(|run| sink.has(run.name())).count();
    // What points have in common is run once.
    let mut made = BTreeSet::new();
    let missing: Vec<&Planned> =
        planned.iter().filter(|run| !sink.has(run.name()) && made.insert(run.name())).collect();
    let cost = make(&missing, &mut sink, args.jobs(), output)?;
    let wanted: Vec<RunKey> = planned.iter().map(Planned::name).collect();
    let (table, places) = sink.rows(&wanted)?;
    let points: Vec<usize> = places.iter().map(|place| planned[*place].point).collect();
    let summary = sweeps::summaries(&table, &points).unwrap_or_default();
    let limited = limited(&table, &places);
    let finished = places.iter().collect::<BTreeSet<_>>().len();
    let point =
        |point| grid.axes.iter().zip(grid.point(point)).map(|(axis, value)| (axis.key.clone(), value.to_owned()));
    let document = Document {
        scenario: title,
        points: (0..grid.len().unwrap_or(0)).map(|number| point(number).collect()).collect(),
        summary,
        runs: finished,
        kept,
        cpu_s: cost.cpu.as_secs_f64(),
        wall_s: cost.wall.as_secs_f64(),
    };
    let write = |out| write(args, file, &grid, out, with_settings(&grid, table, &points), &document);
    let written = args.out.as_deref().map(write);
    // Though the disk is full.
    output.result(&document, |columns| document.text(&grid, columns))?;
    written.transpose()?;
    let mut problems = Vec::new();
    if finished < planned.len() {
        problems.push(interrupted(finished, planned.len(), args.out.is_some()).to_string());
    }
    problems.extend(results::at_limits(limited.into_iter().map(|(place, limit)| (planned[place].title(&grid), limit))));
    if problems.is_empty() { Ok(()) } else { Err(Failure::failed(problems.join("; "))) }
}

/// The runs that stopped at a limit, by their places, and that limit.
fn limited(table: &Table, places: &[usize]) -> BTreeMap<usize, &'static str> {
    let limits = sweeps::limits(table).unwrap_or_default();
    places.iter().zip(limits).filter_map(|(place, limit)| Some((*place, limit?))).collect()
}

/// Every run of the grid, in the order of its points, and what the scenario is called.
fn plan(args: &Args, file: &Path, grid: &Grid) -> Result<(String, Vec<Planned>), Failure> {
    refuse_repeated_settings(grid)?;
    let source = ScenarioFile::read(file)?;
    let (mut planned, mut title) = (Vec::new(), String::new());
    let points = grid.len().filter(|points| *points <= MAX_RUNS).unwrap_or(usize::MAX);
    for point in 0..points.min(MAX_RUNS + 1) {
        let of_point = grid.settings(point);
        let settings: Vec<String> = args.set.iter().chain(&of_point).cloned().collect();
        let mut experiment = source.load(&settings).map_err(|faults| Failure::usage(of_sweep(faults, &of_point)))?;
        let scenarios = std::mem::take(&mut experiment.scenarios);
        title = scenario_name(&experiment, file);
        // Replicas of a scenario share it.
        let mut last: Option<(Arc<scenario::Scenario>, Key)> = None;
        for replica in args.replicas(scenarios)? {
            let known = last.take().filter(|(scenario, _)| Arc::ptr_eq(scenario, &replica.scenario));
            let (scenario, key) = known.unwrap_or_else(|| (Arc::clone(&replica.scenario), Key::of(&replica.scenario)));
            planned.push(Planned { point, key, replica });
            last = Some((scenario, key));
        }
        if planned.len() > MAX_RUNS {
            return Err(Failure::usage(format!("--sweep: the grid has more than {MAX_RUNS} runs")));
        }
    }
    refuse_repetition(&planned, grid)?;
    Ok((title, planned))
}

/// `faults`, with those of the point's `settings` under the option that they come from.
fn of_sweep(Faults(mut faults): Faults, settings: &[String]) -> Faults {
    for fault in &mut faults {
        let is_of_point = |text: &str| settings.iter().any(|setting| text.starts_with(&*document::cut(setting)));
        if let Some(text) = fault.strip_prefix("--set ").filter(|text| is_of_point(text)) {
            *fault = format!("--sweep {text}");
        }
    }
    Faults(faults)
}

/// Of two values of one setting, only the last would hold.
fn refuse_repeated_settings(grid: &Grid) -> Result<(), Failure> {
    let mut keys = BTreeSet::new();
    match grid.axes.iter().find(|axis| !keys.insert(&axis.key)) {
        Some(axis) => Err(Failure::usage(format!(
            "--sweep {0}: given twice; write all values behind one, as in --sweep {0}=VALUE,VALUE",
            axis.key
        ))),
        None => Ok(()),
    }
}

/// Asks the simulator about each scenario before the first run: a sweep may take hours to come to one that it refuses.
fn check(planned: &[Planned], grid: &Grid) -> Result<(), Failure> {
    let mut last: Option<&Planned> = None;
    for run in planned {
        if last.is_none_or(|last| !Arc::ptr_eq(&last.replica.scenario, &run.replica.scenario)) {
            let at_point = |error| Failure::usage(format!("--sweep {}: {error}", grid.settings(run.point).join(" ")));
            ::replicas::check(&run.replica).map_err(at_point)?;
        }
        last = Some(run);
    }
    Ok(())
}

/// A point whose runs are all another's says nothing. Some variants may well not depend on a setting.
fn refuse_repetition(planned: &[Planned], grid: &Grid) -> Result<(), Failure> {
    let points: Vec<(usize, BTreeSet<RunKey>)> = planned
        .chunk_by(|run, next| run.point == next.point)
        .map(|runs| (runs[0].point, runs.iter().map(Planned::name).collect()))
        .collect();
    let mut sharing: BTreeMap<&RunKey, Vec<usize>> = BTreeMap::new();
    for (at, (_, runs)) in points.iter().enumerate() {
        runs.iter().for_each(|run| sharing.entry(run).or_default().push(at));
    }
    for (at, (point, runs)) in points.iter().enumerate() {
        // Another that has all of them has the one that the fewest have.
        let fewest = runs.iter().map(|run| &sharing[run]).min_by_key(|sharing| sharing.len());
        let mut others = fewest.into_iter().flatten().filter(|other| **other != at);
        if let Some(other) = others.find(|other| runs.is_subset(&points[**other].1)) {
            let [one, other] = [*point, points[*other].0].map(|point| grid.settings(point).join(" "));
            let problem = format!(
                "--sweep: `{one}` and `{other}` are the same simulation, or `{one}` is a part of it: leave one out"
            );
            return Err(Failure::usage(problem));
        }
    }
    Ok(())
}

/// Makes runs and gives them to `sink` as they end.
fn make(missing: &[&Planned], sink: &mut Sink, jobs: usize, output: &Output) -> Result<replicas::Cost, Failure> {
    let pool = Pool {
        jobs: Jobs::new(jobs),
        interrupt: Interrupt::on_signals()?,
        shows_progress: output.shows_progress(),
        huge_pages: true,
    };
    let replicas: Vec<Replica> = missing.iter().map(|planned| planned.replica.clone()).collect();
    let mut waiting: Vec<(RunKey, Table)> = Vec::new();
    let mut written = Instant::now();
    let cost =
        pool.run_unordered(&format!("{} runs", replicas.len()), &replicas, &Recording::Nothing, |number, run| {
            let (key, seed) = missing[number].name();
            waiting.push(((key, seed), sweeps::rows(key, &run)));
            if waiting.len() >= RUNS_IN_SHARD || written.elapsed() >= BETWEEN_SHARDS {
                sink.put(std::mem::take(&mut waiting))?;
                written = Instant::now();
            }
            Ok::<(), Failure>(())
        });
    sink.put(waiting)?;
    cost
}

impl Planned {
    /// Its point, variant and seed.
    fn title(&self, grid: &Grid) -> String {
        let variant = self.replica.scenario.variant.as_deref().map(Arc::from);
        let label = results::Label { variant, seed: self.replica.seed };
        format!("{}, {}", grid.settings(self.point).join(" "), label.title())
    }

    fn name(&self) -> RunKey {
        (self.key, self.replica.seed)
    }
}

impl Sink {
    fn has(&self, run: RunKey) -> bool {
        matches!(self, Self::Folder(store) if store.has(run))
    }

    fn put(&mut self, runs: Vec<(RunKey, Table)>) -> Result<(), Failure> {
        match self {
            Self::Memory(all) => all.extend(runs),
            Self::Folder(_) if runs.is_empty() => {}
            Self::Folder(store) => {
                let (names, tables): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
                let shard = sweeps::encoded(tables).map_err(Failure::failed)?;
                store.put(&names, &shard).map_err(Failure::failed)?;
            }
        }
        Ok(())
    }

    /// The rows of `wanted`, and for each the place of its run there.
    fn rows(self, wanted: &[RunKey]) -> Result<(Table, Vec<usize>), Failure> {
        let all = match self {
            Self::Folder(store) => return store.rows(wanted).map_err(Failure::failed),
            Self::Memory(all) => all,
        };
        let tables: BTreeMap<RunKey, Table> = all.into_iter().collect();
        let found: Vec<(usize, Table)> =
            wanted.iter().enumerate().filter_map(|(place, run)| Some((place, tables.get(run)?.clone()))).collect();
        let places = found.iter().flat_map(|(place, table)| std::iter::repeat_n(*place, table.rows())).collect();
        let tables = found.into_iter().map(|(_, table)| table).collect();
        Ok((sweeps::joined(tables).unwrap_or(Table { columns: Vec::new() }), places))
    }
}

/// `table` behind a column for each setting.
fn with_settings(grid: &Grid, mut table: Table, points: &[usize]) -> Table {
    for (number, axis) in grid.axes.iter().enumerate().rev() {
        let values: Vec<Arc<str>> = axis.values.iter().map(|value| Arc::from(value.as_str())).collect();
        let value = |point: &usize| {
            let value = grid.point(*point)[number];
            values.iter().find(|known| ***known == *value).cloned()
        };
        let values = results::Values::Text(points.iter().map(value).collect());
        table.columns.insert(0, results::Column { name: axis.key.clone().into(), values });
    }
    table
}

/// The table and the picture.
fn write(args: &Args, file: &Path, grid: &Grid, out: &Path, table: Table, document: &Document) -> Result<(), Failure> {
    let format = results::Format::from(args.format);
    remove_results(out)?;
    let path = out.join(format!("{SWEEP}.{}", format.extension()));
    let mut rows = TableFile::create(&path, format).map_err(Failure::failed)?;
    rows.append(&table).map_err(Failure::failed)?;
    rows.finish().map_err(Failure::failed)?;
    let Some(chart) = document.chart(grid, args.command(file)) else { return Ok(()) };
    let drawn = chart.svg().map_err(Failure::failed)?;
    let pictures = PictureFormat::from(args.pictures);
    pictures.write(drawn, &out.join(format!("{SWEEP}.{}", pictures.extension()))).map_err(Failure::failed)
}

impl Document {
    fn text(&self, grid: &Grid, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        text.lines(&self.scenario).blank().listing(&self.listing(grid)).blank();
        text.lines(format!(
            "{} runs, {} of them from earlier sweeps, in {}; figures are means and standard deviations over seeds.",
            self.runs,
            self.kept,
            Quantity::Time.text(self.wall_s)
        ));
        if self.summary.iter().any(|summary| summary.limited > 0) {
            text.lines("Figures are without the runs that stopped at a limit.");
        }
        text
    }

    fn listing(&self, grid: &Grid) -> Listing {
        let has_variants = self.summary.iter().any(|summary| summary.variant.is_some());
        let has_limited = self.summary.iter().any(|summary| summary.limited > 0);
        let settings = grid.axes.iter().map(|axis| text(axis.key.as_str()));
        let names = has_variants.then(|| text("variant")).into_iter().chain([text("flow"), count("complete")]);
        let names = names.chain(has_limited.then(|| count("at a limit")));
        let figures = [("goodput", Quantity::Rate), ("time", Quantity::Time), ("retransmitted", Quantity::Number)];
        let mut listing =
            Listing::new(settings.chain(names).chain(figures.map(|(name, quantity)| figure(name, quantity))));
        for summary in &self.summary {
            let settings = grid.point(summary.point).into_iter().map(Cell::from);
            let variant = has_variants.then(|| Cell::from(summary.variant.as_deref().unwrap_or_default()));
            let names = [Cell::from(summary.group.as_str()), format!("{}/{}", summary.complete, summary.flows).into()];
            let limited = has_limited.then(|| format!("{}/{}", summary.limited, summary.runs).into());
            let figures = [summary.goodput_bps, summary.time_s, summary.retransmissions].map(spread);
            listing.add(settings.chain(variant).chain(names).chain(limited).chain(figures));
        }
        listing
    }

    /// Goodput with bands against the first setting that is a number or a quantity, or against the names of the first one's values if none
    /// is; nothing without a setting.
    fn chart(&self, grid: &Grid, caption: String) -> Option<Chart> {
        let numbers = grid.axes.iter().enumerate().find_map(|(at, axis)| Some((at, base_units_of(&axis.values)?)));
        let (across, values, x) = match numbers {
            Some((at, (values, unit))) => {
                let x = axis_of(&grid.axes[at].key, unit, &values);
                (at, values, x)
            }
            None => {
                let axis = grid.axes.first()?;
                let places = (0..axis.values.len()).map(|number| number as f64 + 0.5).collect();
                (0, places, Axis::names(axis.key.as_str(), axis.values.clone()))
            }
        };
        type Curve = Vec<(f64, Interval)>;
        let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
        let groups = self.summary.iter().map(|summary| &summary.group).collect::<BTreeSet<_>>();
        for summary in &self.summary {
            let point = grid.point(summary.point);
            let value = grid.axes[across].values.iter().position(|value| value == point[across])?;
            let others = point.iter().enumerate().filter(|(at, _)| *at != across).map(|(_, value)| *value);
            let group = (groups.len() > 1).then_some(summary.group.as_str());
            let parts: Vec<&str> = summary.variant.as_deref().into_iter().chain(others).chain(group).collect();
            curves
                .entry(parts.join(", "))
                .or_default()
                .extend(summary.goodput_bps.map(|goodput| (values[value], goodput)));
        }
        let series = |(name, mut points): (String, Curve)| {
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let line = points.iter().map(|(x, goodput)| (*x, goodput.statistic.mean / 1e6)).collect();
            let band = points.iter().map(|(x, goodput)| {
                let (mean, half) = (goodput.statistic.mean, goodput.half_width_95.unwrap_or(0.0));
                (*x, (mean - half).max(0.0) / 1e6, (mean + half) / 1e6)
            });
            Series::new(name, Style::Joined, line).with_band(band.collect())
        };
        Some(Chart {
            title: self.scenario.clone(),
            x,
            y: Axis::linear("goodput, Mbit/s"),
            series: curves.into_iter().map(series).collect(),
            caption,
        })
    }
}

fn spread(interval: Option<Interval>) -> Cell {
    interval.map_or(Cell::Missing, |interval| Cell::spread(interval.statistic.mean, interval.statistic.stddev))
}

/// The axis of a setting of these values: logarithmic where they lie far apart.
fn axis_of(key: &str, unit: &str, values: &[f64]) -> Axis {
    let label = if unit.is_empty() { key.to_owned() } else { format!("{key}, {unit}") };
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), x| (least.min(*x), most.max(*x)));
    if least > 0.0 && most > 20.0 * least { Axis::log(label) } else { Axis::linear(label) }
}

/// What queues and windows may be counted in.
const COUNTED_IN: [&str; 3] = ["packets", "segments", "BDP"];

/// The numbers that the values of one setting are, in base units, and what they count; `None` if they are none, or count different things.
fn base_units_of(values: &[String]) -> Option<(Vec<f64>, &'static str)> {
    let bare = |value: &str| value.trim_matches('"').trim().to_owned();
    let first = bare(values.first()?);
    let unit = COUNTED_IN.into_iter().find(|unit| first.ends_with(unit)).unwrap_or_default();
    let number = |value: &String| base_units(bare(value).strip_suffix(unit)?.trim_end());
    // A number without its unit, beside others that have one, is of another kind.
    let are_alike =
        values.iter().all(|value| COUNTED_IN.iter().all(|other| bare(value).ends_with(other) == (*other == unit)));
    are_alike.then(|| values.iter().map(number).collect::<Option<_>>().map(|numbers| (numbers, unit))).flatten()
}

/// The number that a value of a setting is, in base units.
fn base_units(value: &str) -> Option<f64> {
    let value = value.trim_matches('"');
    let number = || value.parse::<f64>().ok();
    let rate = || Rate::parse(value).ok().map(|rate| rate.as_bps() as f64);
    let time = || units::Duration::parse(value).ok().map(units::Duration::as_secs_f64);
    let size = || Bytes::parse(value).ok().map(|size| size.as_u64() as f64);
    number().or_else(rate).or_else(time).or_else(size).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_are_numbers_in_base_units() {
        for (value, expected) in
            [("1e-3", 1e-3), ("6Mbit/s", 6e6), ("\"550ms\"", 0.55), ("320KiB", 327_680.0), ("7", 7.0)]
        {
            assert_eq!(base_units(value), Some(expected), "{value}");
        }
        assert_eq!(base_units("cubic"), None);
    }

    #[test]
    fn values_of_one_setting_count_the_same() {
        let of = |values: &[&str]| base_units_of(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["0.5BDP", "2 BDP"]), Some((vec![0.5, 2.0], "BDP")));
        assert_eq!(of(&["\"10packets\"", "100packets"]), Some((vec![10.0, 100.0], "packets")));
        assert_eq!(of(&["10segments", "4segments"]), Some((vec![10.0, 4.0], "segments")));
        assert_eq!(of(&["64KiB", "1MB"]), Some((vec![65_536.0, 1e6], "")));
        assert_eq!(of(&["1BDP", "100kB"]), None);
        assert_eq!(of(&["100kB", "1BDP"]), None);
        assert_eq!(of(&["1BDP", "unlimited"]), None);
        assert_eq!(of(&["sack", "bbr"]), None);
    }
}
