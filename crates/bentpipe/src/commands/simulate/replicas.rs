//! The runs of a scenario, and the files that their results go to.

use crate::output::{Failure, Output};
use ::replicas::{Interrupt, Jobs, Pool, Recording, Replica};
use results::{Comparison, Format, PictureFormat, Run, TABLES, Tables};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The results of runs.
#[derive(Debug)]
pub struct Outcome {
    /// The runs that ended, without their samples.
    pub runs: Vec<Run>,
    /// How long all took.
    pub wall: Duration,
    /// Processor time that the runs took together.
    pub cpu: units::Duration,
}

/// The files that results go to.
pub struct Traces {
    directory: PathBuf,
    tables: Tables,
    pictures: PictureFormat,
    comparison: Comparison,
    /// What was written beside the tables.
    written: Vec<PathBuf>,
}

impl Traces {
    /// In `directory`, which is made if it is not there.
    pub fn create(directory: &Path, format: Format, pictures: PictureFormat) -> Result<Self, Failure> {
        fs::create_dir_all(directory)
            .map_err(|error| Failure::unwritable(format!("--out {}", directory.display()), &error))?;
        let tables = Tables::create(directory, format).map_err(|error| Failure::usage(format!("--out {error}")))?;
        let written = TABLES.map(|table| directory.join(format!("{table}.{}", format.extension()))).to_vec();
        Ok(Self { directory: directory.to_owned(), tables, pictures, comparison: Comparison::default(), written })
    }

    fn take(&mut self, run: &Run, is_first: bool) -> Result<(), Failure> {
        self.tables.append(run).map_err(Failure::failed)?;
        self.comparison.take(run);
        if !is_first {
            return Ok(());
        }
        let title = match &run.label.variant {
            Some(variant) => format!("{variant}, seed {}", run.label.seed),
            None => format!("seed {}", run.label.seed),
        };
        let picture = results::plot::traces(run, &title).map_err(Failure::failed)?;
        picture.map_or(Ok(()), |picture| self.draw(&format!("traces-{}", run.label.file_stem()), picture))
    }

    fn draw(&mut self, name: &str, picture: String) -> Result<(), Failure> {
        let path = self.directory.join(format!("{name}.{}", self.pictures.extension()));
        self.pictures.write(picture, &path).map_err(Failure::failed)?;
        self.written.push(path);
        Ok(())
    }

    fn finish(mut self, output: &Output) -> Result<(), Failure> {
        for (name, picture) in self.comparison.pictures().map_err(Failure::failed)? {
            self.draw(name, picture)?;
        }
        self.tables.finish().map_err(Failure::failed)?;
        output.wrote(&self.written);
        Ok(())
    }
}

/// Makes all runs on `jobs` threads; `watch` sees each run, with its samples, when it has ended.
///
/// # Errors
/// If results cannot be written.
pub fn run(
    replicas: &[Replica],
    jobs: usize,
    mut traces: Option<Traces>,
    mut watch: Option<&mut dyn FnMut(&Run)>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let pool =
        Pool { jobs: Jobs::new(jobs), interrupt: Interrupt::on_signals()?, shows_progress: output.shows_progress() };
    let recording = match &traces {
        Some(traces) => Recording::Packets(traces.directory.clone()),
        None if watch.is_some() => Recording::Samples,
        None => Recording::Nothing,
    };
    let mut runs = Vec::new();
    // Variants whose first run is drawn.
    let mut drawn = BTreeSet::new();
    let finish = |mut run: Run| -> Result<(), Failure> {
        if let Some(traces) = &mut traces {
            traces.take(&run, drawn.insert(run.label.variant.clone()))?;
        }
        if let Some(watch) = &mut watch {
            watch(&run);
        }
        // Written, or wanted by nobody.
        (run.flow_samples, run.queue_samples, run.capacity_samples) = Default::default();
        runs.push(run);
        Ok(())
    };
    let cost = pool.run(&format!("{} runs", replicas.len()), replicas, &recording, finish)?;
    if let Some(traces) = traces {
        traces.finish(output)?;
    }
    Ok(Outcome { runs, wall: cost.wall, cpu: cost.cpu })
}
