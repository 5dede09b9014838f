//! A file of what the terminals of a carrier asked for, were given and used, superframe by superframe.

use crate::output::Failure;
use emulator::Monitor;
use scenario::link_file::UpLink;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Rate};

/// The log, which is open.
pub(super) struct CapacityLog {
    path: PathBuf,
    file: BufWriter<File>,
    monitor: Monitor,
    superframe: Duration,
    names: Vec<String>,
}

impl CapacityLog {
    const COLUMNS: &str =
        "time_s,terminal,requested_bps,allocated_bps,cra_bps,rbdc_bps,vbdc_bps,fca_bps,used_bps,queued_bytes";

    /// Begins the log of what goes `up`.
    pub(super) fn create(path: &Path, up: &UpLink, monitor: Monitor) -> Result<Self, Failure> {
        let usage = |problem: String| Failure::usage(format!("--capacity-log {}: {problem}", path.display()));
        let UpLink::Carrier { carrier, terminal } = up else {
            return Err(usage("there is no carrier that terminals share; --link can have one".into()));
        };
        let file = File::create(path).map_err(|error| usage(error.to_string()))?;
        let names = terminal.iter().map(|terminal| terminal.name.clone()).collect();
        let (path, superframe) = (path.to_owned(), carrier.superframe);
        let mut log = Self { path, file: BufWriter::new(file), monitor, superframe, names };
        writeln!(log.file, "{}", Self::COLUMNS).map_err(|error| log.failure(&error))?;
        Ok(log)
    }

    /// Writes what has been measured since the last time.
    pub(super) fn write(&mut self) -> Result<(), Failure> {
        let [samples, _] = self.monitor.take_samples();
        for sample in samples {
            let rate = |bytes: u64| Rate::from_transfer(Bytes::new(bytes), self.superframe).as_bps();
            let given = sample.allocated;
            let row = [sample.requested.as_u64(), given.total(), given.cra, given.rbdc, given.vbdc, given.fca];
            let row: Vec<_> = row.map(|bytes| rate(bytes).to_string()).into();
            let time = sample.at.since(self.monitor.start()).as_secs_f64();
            let (name, used, queued) =
                (&self.names[sample.terminal as usize], rate(sample.used.as_u64()), sample.queued);
            let row = row.join(",");
            writeln!(self.file, "{time:.6},{name},{row},{used},{}", queued.as_u64())
                .map_err(|error| self.failure(&error))?;
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.write()?;
        self.file.flush().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        Failure::failed(format!("--capacity-log {}: {error}", self.path.display()))
    }
}
