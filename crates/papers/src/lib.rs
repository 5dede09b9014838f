//! The studies that bentpipe descends from, reproduced number by number: what each paper prints is data
//! (`scenarios/papers/NAME/printed.toml`, see [`printed`]), and a [`Study`] finds it again by closed form, in simulation and,
//! where asked, with the kernel's TCP over the emulated link. [`run`] holds one against the other; [`report`] writes
//! the result.
//!
//! # Adding a study
//!
//! 1. `scenarios/papers/NAME/printed.toml` and the scenario files of its experiments beside it (each runs by
//!    `bentpipe simulate FILE`, too).
//! 2. A folder `papers/src/NAME/` whose `mod.rs` implements [`Study`].
//! 3. One line in [`STUDIES`].
//!
//! The report, the JSON document, `--list`, `--item` and the test that parses every `printed.toml` come by themselves.
//!
//! ```
//! use papers::printed::Item;
//! use papers::{Context, Error, Found, Reproduction, Study, Variants};
//! use replicas::Replica;
//!
//! struct Example;
//!
//! impl Study for Example {
//!     fn name(&self) -> &'static str {
//!         "example"
//!     }
//!
//!     fn printed(&self) -> &'static str {
//!         // include_str!("../../../../scenarios/papers/example/printed.toml")
//!         r#"
//!         paper = "A. Author, A file over a satellite, 2002"
//!         [[item]]
//!         name = "table-1"
//!         title = "Table 1: transmission time against the loss rate"
//!         unit = "s"
//!         entries = [{ key = "loss=0", printed = 2.4 }]
//!         "#
//!     }
//!
//!     fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
//!         match item.name.as_str() {
//!             "table-1" => table_1(context),
//!             name => Err(Error::Input(format!("item `{name}` is printed, but not reproduced"))),
//!         }
//!     }
//! }
//!
//! fn table_1(context: &Context<'_>) -> Result<Reproduction, Error> {
//!     // include_str!("../../../../scenarios/papers/example/table-1.toml")
//!     let text = r#"
//!         version = 1
//!         nodes = ["a", "b"]
//!         link = [{ name = "sat", between = ["a", "b"], rate = "1Mbit/s", delay = "275ms", queue = "1BDP" }]
//!         flow = [{ name = "file", from = "a", to = "b", bulk = { size = "100kB" } }]
//!         [variants]
//!         lossless = { "link.sat.loss" = 0 }
//!         "#;
//!     let variants = Variants::load(text, "scenarios/papers/example/table-1.toml", &[])?;
//!     let scenario = variants.get("lossless")?;
//!     let replica = |seed| Replica { scenario: scenario.clone(), seed };
//!     // Two seeds by default; `--seeds N` replaces that.
//!     let replicas: Vec<_> = context.seeds(2).map(replica).collect();
//!     let runs = context.simulate(&replicas)?;
//!     let time = |run: &results::Run| run.report.flows[0].end_s.unwrap_or(f64::NAN);
//!     let found = Found::new("loss=0").simulated(runs.iter().map(time)).note("three round trips of slow start");
//!     // A figure is a `results::chart::Chart` whose caption is `context.command()`.
//!     let remarks = vec!["TCP is SACK with an initial window of ...".to_owned()];
//!     Ok(Reproduction { found: vec![found], charts: Vec::new(), remarks })
//! }
//!
//! let pool = replicas::Pool { jobs: replicas::Jobs::new(2), interrupt: Default::default(), shows_progress: false, huge_pages: false };
//! let options = papers::Options { pool, seeds: None, full: false, lab: None };
//! let report = papers::run(&Example, &[], &options).expect("it runs");
//! let row = &report.items[0].rows[0];
//! assert_eq!(row.found.simulated.expect("it was simulated").runs, 2);
//! assert_eq!(row.verdict, Some(papers::Verdict::Within));
//! ```

mod context;
mod curves;
mod error;
mod evidence;
mod kim;
mod kruse;
mod marchese;
mod palermo;
pub mod printed;
pub mod report;
mod satpep;
mod study;
mod sweep;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use context::{Context, Lab, Options, Variants};
pub use error::Error;
pub use report::{ItemReport, PaperReport, Row};
pub use results::Estimate;
pub use study::{Found, Readings, Reproduction, Study, Verdict};

use printed::{Item, Printed};
use std::collections::{BTreeMap, VecDeque};

/// Every study, in the order of reports.
pub const STUDIES: &[&dyn Study] = &[&marchese::Marchese, &satpep::Satpep, &palermo::Palermo, &kruse::Kruse, &kim::Kim];

/// What `study` prints.
///
/// # Errors
/// With every fault of its `printed.toml`.
pub fn printed(study: &dyn Study) -> Result<Printed, Error> {
    printed::parse(study.printed(), &format!("scenarios/papers/{}/printed.toml", study.name()))
}

/// Reproduces the items `names` of `study`; all of them if there are none.
///
/// # Errors
/// If an item cannot be run, or there is none of such a name.
pub fn run(study: &dyn Study, names: &[String], options: &Options) -> Result<PaperReport, Error> {
    let reproduced = run_all(&[(study, names.to_vec())], options)?;
    if !reproduced.failures.is_empty() {
        return Err(Error::of_items(&reproduced.failures));
    }
    if reproduced.items < reproduced.wanted {
        return Err(Error::Interrupted);
    }
    reproduced.reports.into_iter().next().ok_or_else(|| Error::failed("a study without a report"))
}

/// What came of studies.
#[derive(Debug)]
pub struct Reproduced {
    /// Those of which an item was reproduced, with these items.
    pub reports: Vec<PaperReport>,
    /// How many items that are.
    pub items: usize,
    /// How many were wanted: more after an interrupt or a failure.
    pub wanted: usize,
    /// Why others were not reproduced.
    pub failures: Vec<Error>,
}

/// Reproduces the items of each study that are named beside it; all of them if none is. After an interrupt, what was reproduced before; an
/// item that fails leaves the others.
///
/// # Errors
/// If no item can be run, or there is none of such a name.
pub fn run_all(wanted: &[(&dyn Study, Vec<String>)], options: &Options) -> Result<Reproduced, Error> {
    let printed = wanted.iter().map(|(study, names)| wanted_of(*study, names)).collect::<Result<Vec<_>, _>>()?;
    let tasks: Vec<_> = wanted
        .iter()
        .zip(&printed)
        .flat_map(|((study, _), printed)| printed.items.iter().map(move |item| (*study, item)))
        .collect();
    let wanted_items = tasks.len();
    let outcomes = reproduce(&tasks, options)?;
    let mut failures = Vec::new();
    let mut of_item = |(outcome, (study, item)): (_, &(&dyn Study, &Item))| match outcome {
        Ok(report) => Some(report),
        Err(Error::Interrupted) => None,
        Err(error) => {
            failures.push(Error::within(error, &format!("{} {}", study.name(), item.name)));
            None
        }
    };
    let mut items: VecDeque<Option<ItemReport>> = outcomes.into_iter().zip(&tasks).map(&mut of_item).collect();
    let report = |((study, _), printed): (&(&dyn Study, Vec<String>), Printed)| PaperReport {
        name: study.name().to_owned(),
        items: items.drain(..printed.items.len()).flatten().collect(),
        paper: printed.paper,
    };
    let mut reports: Vec<PaperReport> = wanted.iter().zip(printed).map(report).collect();
    reports.retain(|report| !report.items.is_empty());
    let items = reports.iter().map(|report| report.items.len()).sum();
    if items == 0 && !failures.is_empty() {
        return Err(Error::of_items(&failures));
    }
    Ok(Reproduced { reports, items, wanted: wanted_items, failures })
}

/// Reproduces items of studies, side by side unless there are real runs: each of those needs the machine for itself.
fn reproduce(tasks: &[(&dyn Study, &Item)], options: &Options) -> Result<Vec<Result<ItemReport, Error>>, Error> {
    if options.lab.is_some() || tasks.len() == 1 {
        return Ok(tasks.iter().map(|(study, item)| run_item(*study, item, options)).collect());
    }
    let (seeds, full) = (options.seeds, options.full);
    options.pool.tasks("papers, items", tasks.len(), |number, pool| {
        let (study, item) = tasks[number];
        Ok(run_item(study, item, &Options { pool, seeds, full, lab: None }))
    })
}

/// What `study` prints, without the items that are not wanted.
fn wanted_of(study: &dyn Study, names: &[String]) -> Result<Printed, Error> {
    let mut printed = printed(study)?;
    let known = |name: &String| printed.items.iter().any(|item| item.name == *name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = printed.items.iter().map(|item| item.name.as_str()).collect();
        return Err(Error::Input(format!("{} has no item `{unknown}`; it has {}", study.name(), all.join(", "))));
    }
    printed.items.retain(|item| names.is_empty() || names.contains(&item.name));
    Ok(printed)
}

fn run_item(study: &dyn Study, item: &Item, options: &Options) -> Result<ItemReport, Error> {
    let context = Context::new(options, study.name(), &item.name);
    let mut reproduction = study.reproduce(item, &context)?;
    let mut found = BTreeMap::new();
    for one in std::mem::take(&mut reproduction.found) {
        if found.insert(one.key.clone(), one).is_some() {
            return Err(Error::failed(format!("{} {}: an entry was found twice", study.name(), item.name)));
        }
    }
    let row = |entry: &printed::Entry| {
        let found = found.remove(&entry.key).unwrap_or_else(|| Found::new(entry.key.clone()));
        let (deviation, verdict) = (verdict::deviation(entry, &found), verdict::verdict(entry, &found, item.tolerance));
        Row { entry: entry.clone(), found, deviation, verdict }
    };
    let rows = item.entries.iter().map(row).collect();
    if let Some(key) = found.keys().next() {
        return Err(Error::failed(format!("{} {}: `{key}` was found and is no entry", study.name(), item.name)));
    }
    let (name, title, unit) = (item.name.clone(), item.title.clone(), item.unit.clone());
    let Reproduction { charts, remarks, .. } = reproduction;
    Ok(ItemReport { name, title, unit, command: context.command(), rows, charts, remarks })
}
