//! The packets of a run as files.

use crate::Recording;
use results::{Capture, Error, Label, PartialFile};
use scenario::Scenario;
use sim::{NodeId, PacketRecord, Simulation};
use std::fs;
use std::io::Write as _;
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
        let files = self.files.drain(..).map(|file| (file.path, file.capture.into_inner())).collect();
        self.problem.or_else(|| name_all(files).err())
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

/// Gives all files their names, or none.
fn name_all(mut files: Vec<(PathBuf, PartialFile)>) -> Result<(), String> {
    for (path, file) in &mut files {
        file.flush().map_err(|source| Error::File { file: path.display().to_string(), source }.to_string())?;
    }
    let mut finished = Vec::new();
    for (path, file) in files {
        if let Err(error) = file.finish() {
            for path in finished {
                // Whatever its fate: the problem is what is reported.
                let _ = fs::remove_file(path);
            }
            return Err(error.to_string());
        }
        finished.push(path);
    }
    Ok(())
}

fn named(path: &Path, error: &Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_get_their_names_or_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = ["one", "two", "three"].map(|name| directory.path().join(name));
        let finish = || {
            let file = |path: &PathBuf| {
                let mut file = PartialFile::create(path).expect("a file");
                file.write_all(b"packets").expect("written");
                (path.clone(), file)
            };
            name_all(paths.iter().map(file).collect())
        };
        // No file takes the name of a directory.
        fs::create_dir(&paths[1]).expect("a directory");
        let problem = finish().expect_err("a directory of that name");
        assert!(problem.starts_with(&paths[1].display().to_string()), "{problem}");
        let left: Vec<_> =
            fs::read_dir(directory.path()).expect("read").map(|entry| entry.expect("read").path()).collect();
        assert_eq!(left, [paths[1].clone()]);
        fs::remove_dir(&paths[1]).expect("removed");
        assert_eq!(finish(), Ok(()));
        assert!(paths.iter().all(|path| fs::read(path).is_ok_and(|bytes| bytes == b"packets")));
    }
}
