//! What a study is given to run with.

use crate::Error;
use lab::scenario::{MeasuredRun, RealScenario};
use replicas::{Interrupt, Pool, Recording, Replica};
use results::Run;
use scenario::Scenario;
use sim::Stopped;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;

/// How all studies are to be run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs simulations.
    pub pool: Pool,
    /// How many seeds, if the user says so.
    pub seeds: Option<u64>,
    /// Whether what takes long is run, too.
    pub full: bool,
    /// Real runs, if the user wants them.
    pub lab: Option<Lab>,
}

/// How an item is to be run: simulations on all processors, real runs, and what the user chose.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    options: &'a Options,
    study: &'a str,
    item: &'a str,
}

impl<'a> Context<'a> {
    /// For the item `item` of the study `study`.
    pub fn new(options: &'a Options, study: &'a str, item: &'a str) -> Self {
        Self { options, study, item }
    }

    /// Makes all runs, on all processors, and gives their results with samples in the order of `replicas`: the same
    /// for any number of processors. Give as many replicas at a time as are known, rather than one after the other.
    ///
    /// # Errors
    /// If the simulator refuses a scenario, a run stopped at a limit of its scenario, or the user interrupted.
    pub fn simulate(&self, replicas: &[Replica]) -> Result<Vec<Run>, Error> {
        let title = format!("{} {}, {} runs", self.study, self.item, replicas.len());
        let mut runs = Vec::with_capacity(replicas.len());
        self.options.pool.run(&title, replicas, &Recording::Samples, |run| -> Result<(), Error> {
            if let Stopped::EventLimit | Stopped::MemoryLimit | Stopped::StandingStill = run.report.stopped {
                let name = run.label.file_stem();
                return Err(Error::failed(format!("{title}: run {name} stopped at a limit of its scenario")));
            }
            runs.push(run);
            Ok(())
        })?;
        if runs.len() < replicas.len() { Err(Error::Interrupted) } else { Ok(runs) }
    }

    /// The seeds to run: as many as the user says, else `default` of them, from 1 on.
    pub fn seeds(&self, default: u64) -> RangeInclusive<u64> {
        1..=self.options.seeds.unwrap_or(default)
    }

    /// Whether what takes long is to be run, too (`--full`).
    pub fn full(&self) -> bool {
        self.options.full
    }

    /// Real runs, if the user wants them (`--lab`).
    pub fn lab(&self) -> Option<&'a Lab> {
        self.options.lab.as_ref()
    }

    /// The command that finds the item again: for captions.
    pub fn command(&self) -> String {
        let mut command = format!("bentpipe papers {} --item {}", self.study, self.item);
        if let Some(seeds) = self.options.seeds {
            command.push_str(&format!(" --seeds {seeds}"));
        }
        for (flag, is_set) in [(" --full", self.options.full), (" --lab", self.options.lab.is_some())] {
            command.push_str(if is_set { flag } else { "" });
        }
        command
    }
}

/// The variants of a scenario file of `scenarios/papers`.
#[derive(Debug, Clone)]
pub struct Variants {
    file: String,
    scenarios: Vec<Arc<Scenario>>,
}

impl Variants {
    /// Reads `text`, which errors call `file`. `overrides` are settings as for `bentpipe simulate --set`, such as
    /// `link.sat.loss=1e-3`; files that it names are not there.
    ///
    /// # Errors
    /// With every fault of the text.
    pub fn load(text: &str, file: &str, overrides: &[String]) -> Result<Self, Error> {
        let read = |name: &str| Err(format!("{name} is not built in: write its content into the scenario"));
        let experiment =
            scenario::load(text, file, overrides, &read).map_err(|faults| Error::Input(faults.0.join("\n")))?;
        Ok(Self { file: file.to_owned(), scenarios: experiment.scenarios.into_iter().map(Arc::new).collect() })
    }

    /// All of them, in the order of the file; the scenario itself if it has no variants.
    pub fn all(&self) -> &[Arc<Scenario>] {
        &self.scenarios
    }

    /// The variant `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, name: &str) -> Result<Arc<Scenario>, Error> {
        let found = self.scenarios.iter().find(|scenario| scenario.variant.as_deref() == Some(name));
        found.map(Arc::clone).ok_or_else(|| Error::Input(format!("{}: there is no variant `{name}`", self.file)))
    }
}

/// Real runs: this kernel's TCP over the emulated link, in namespaces that are gone afterwards.
#[derive(Debug, Clone)]
pub struct Lab {
    /// What was measured so far, by name.
    runs: RefCell<BTreeMap<String, Rc<MeasuredRun>>>,
    interrupt: Interrupt,
}

impl Lab {
    /// Moves the process, which must have one thread only, to where it may make namespaces, and has it run before others.
    /// After an interrupt nothing more is begun.
    ///
    /// # Errors
    /// If it lacks the privilege.
    pub fn enter(interrupt: Interrupt) -> Result<Self, Error> {
        let before_others = kernel::process::run_before_others();
        tracing::debug!(before_others, "priority");
        kernel::namespace::enter_private()?;
        Ok(Self { runs: RefCell::default(), interrupt })
    }

    /// Runs `scenario` in real time, once for each `name`: what tables and figures share is measured once.
    ///
    /// # Errors
    /// If it has no counterpart in the kernel, the machine lacks something, or a flow fails.
    pub fn run(&self, name: &str, scenario: &Scenario, seed: u64) -> Result<Rc<MeasuredRun>, Error> {
        if let Some(run) = self.runs.borrow().get(name) {
            return Ok(Rc::clone(run));
        }
        self.may_measure(name)?;
        self.keep(name, RealScenario::new(scenario)?.run(scenario.variant.clone(), seed)?)
    }

    fn may_measure(&self, what: &str) -> Result<(), Error> {
        if self.interrupt.is_set() {
            return Err(Error::Interrupted);
        }
        tracing::info!("measuring {what}");
        Ok(())
    }

    fn keep(&self, name: &str, run: MeasuredRun) -> Result<Rc<MeasuredRun>, Error> {
        if let Some(flow) = run.flows.iter().find(|flow| !flow.complete) {
            return Err(Error::failed(format!("flow `{}`: what arrived is not what was sent", flow.name)));
        }
        let run = Rc::new(run);
        self.runs.borrow_mut().insert(name.to_owned(), Rc::clone(&run));
        Ok(run)
    }

    /// Runs scenarios as [`Lab::run`] does, `side_by_side` of them at a time: for links that are slow beside the machine.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub fn run_all(
        &self,
        scenarios: &[(String, Arc<Scenario>)],
        seed: u64,
        side_by_side: usize,
    ) -> Result<Vec<Rc<MeasuredRun>>, Error> {
        let mut missing = BTreeMap::new();
        for (name, scenario) in scenarios.iter().filter(|(name, _)| !self.runs.borrow().contains_key(name)) {
            missing.insert(name, scenario.as_ref());
        }
        for group in Vec::from_iter(missing).chunks(side_by_side.max(1)) {
            self.may_measure(&format!("{} and {} more", group[0].0, group.len() - 1))?;
            let scenarios: Vec<_> = group.iter().map(|(_, scenario)| *scenario).collect();
            for ((name, _), run) in group.iter().zip(lab::scenario::run_side_by_side(&scenarios, seed)?) {
                self.keep(name, run)?;
            }
        }
        scenarios.iter().map(|(name, scenario)| self.run(name, scenario, seed)).collect()
    }
}
