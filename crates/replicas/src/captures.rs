//! The packets of a run as files.

use crate::Recording;
use results::{Capture, Error, Label, PartialFile};
use scenario::Scenario;
use sim::{NodeId, PacketRecord, Simulation};
use std::path::{Path, PathBuf};

/// A file for each node whose packets are recorded: one conversation seen from two places looks like retransmissions. None is left
/// if it is dropped before [`Captures::finish`], or if one cannot be written.
#[derive(Default)]
pub struct Captures {
    files: Vec<CaptureFile>,
    /// Why there are none.
    problem: Option<String>,
}

struct CaptureFile {
    path: PathBuf,
    capture: Capture<PartialFile>,
}

impl Captures {
    /// Of `simulation`, which is that of `scenario`, if `recording` wants packets.
    pub fn begin(recording: &Recording, label: &Label, simulation: &Simulation, scenario: &Scenario) -> Self {
        let Recording::Packets(directory) = recording else { return Self::default() };
        let begin = |node: &NodeId| {
            let name = simulation.network().node_name(*node);
            let path = directory.join(format!("packets-{}-{name}.pcapng", label.file_stem()));
            CaptureFile::begin(path, simulation, scenario, *node)
        };
        let files: Result<_, _> = scenario.settings.record.packets_at.iter().map(begin).collect();
        let mut captures = Self::default();
        match files {
            Ok(files) => captures.files = files,
            Err(problem) => captures.give_up(problem),
        }
        captures
    }

    /// Whether nothing is captured.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Writes the packets recorded since the last call.
    pub fn append(&mut self, simulation: &mut Simulation) {
        let packets = simulation.take_packets();
        if let Err(problem) = self.files.iter_mut().try_for_each(|file| file.append(&packets)) {
            self.give_up(problem);
        }
    }

    /// Completes the files. Returns why there are none, if there were to be.
    pub fn finish(mut self) -> Option<String> {
        let finished = self.files.drain(..).try_for_each(|file| file.capture.into_inner().finish());
        self.problem.or_else(|| finished.err().map(|error| error.to_string()))
    }

    /// A disk that is full costs the files and not the run.
    fn give_up(&mut self, problem: String) {
        self.files.clear();
        self.problem = Some(problem);
    }
}

impl CaptureFile {
    fn begin(path: PathBuf, simulation: &Simulation, scenario: &Scenario, node: NodeId) -> Result<Self, String> {
        let file = PartialFile::create(&path).map_err(|error| error.to_string())?;
        let capture = Capture::new(file, simulation, &scenario.gateways, &[node]);
        let capture = capture.map_err(|error| named(&path, &error))?;
        Ok(Self { path, capture })
    }

    fn append(&mut self, packets: &[PacketRecord]) -> Result<(), String> {
        let appended = packets.iter().try_for_each(|packet| self.capture.append(packet));
        appended.map_err(|error| named(&self.path, &error))
    }
}

fn named(path: &Path, error: &Error) -> String {
    format!("{}: {error}", path.display())
}
