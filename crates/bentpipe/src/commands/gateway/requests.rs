//! What a running gateway is asked to do.

use super::running;
use crate::output::{Failure, Output};
use gateway::Answer;
use std::io;
use std::path::Path;
use units::Duration;

/// Has the gateway behind the control socket `path` read its settings again.
pub fn reload(path: &Path, output: &Output) -> Result<(), Failure> {
    let answer = settle(gateway::reload(path).map_err(|error| failure(path, &error))?)?;
    output.result(&answer, |_| match answer.changes.is_empty() {
        true => "nothing has changed".to_owned(),
        false => answer.changes.join("\n"),
    })
}

/// Has the gateway behind the control socket `path` take no more connections.
pub fn drain(path: &Path, within: Option<Duration>, output: &Output) -> Result<(), Failure> {
    let answer = settle(gateway::drain(path, within).map_err(|error| failure(path, &error))?)?;
    output.result(&answer, |_| "draining: see `bentpipe gateway status`")
}

/// Why a gateway could not be asked.
pub fn failure(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Failure::failed(format!("no gateway serves {}: {error}{}", path.display(), running::others(path)))
        }
        io::ErrorKind::PermissionDenied => {
            Failure::failed(format!("{}: {error} (run as root, or join the group of [control] group)", path.display()))
        }
        _ => Failure::failed(format!("{}: {error}", path.display())),
    }
}

/// The answer of a gateway that does what it was asked to.
fn settle(answer: Answer) -> Result<Answer, Failure> {
    match &answer {
        Answer { done: true, .. } => Ok(answer),
        Answer { faults, .. } if !faults.is_empty() => Err(Failure::usage(faults.join("\nbentpipe: "))),
        Answer { refused, .. } => Err(Failure::failed(refused.join("\nbentpipe: "))),
    }
}
