//! Examines what a gateway needs of its host, its network and its peers, and says how to mend what is wrong.

mod advertisements;
mod host;
mod peers;
mod rate;

use crate::config::Settings;
use crate::control;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, ErrorKind};

pub use rate::cost;

/// What was found about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing: a word, and the name of what it is about.
    pub check: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub says: String,
    /// How to mend it; none where nothing need be mended.
    pub remedy: Option<String>,
    /// Whether the machine lacks something, rather than that something is set wrongly.
    #[serde(skip)]
    pub lacks: bool,
}

impl Check {
    fn good(check: impl Into<String>, says: impl Into<String>) -> Self {
        Self { check: check.into(), ok: true, says: says.into(), remedy: None, lacks: false }
    }

    fn bad(check: impl Into<String>, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { ok: false, remedy: Some(remedy.into()), ..Self::good(check, says) }
    }

    /// One that fails for want of something on this machine.
    fn lacking(check: impl Into<String>, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { lacks: true, ..Self::bad(check, says, remedy) }
    }
}

/// Examines the host, in the network namespace of the calling thread, and the peers of `settings`: by the gateway of these
/// settings if it runs, or else by handshakes with its key. That takes up to about half a minute. With `measures_rate` it
/// fills the path to each peer for a moment as well, which costs [`cost`].
pub fn examine(settings: &Settings, measures_rate: bool) -> Vec<Check> {
    let status = control::status(&settings.control);
    let mut checks = vec![gateway(settings, &status)];
    checks.extend(host::examine(settings));
    match status {
        Ok(status) => checks.extend(peers::examine(settings, measures_rate, Some(status))),
        Err(error) if is_absent(&error) => checks.extend(peers::examine(settings, measures_rate, None)),
        // A handshake with its key would end the sessions of a gateway that runs.
        Err(_) => {}
    }
    checks
}

/// Whether no gateway serves the control socket.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// Whether the gateway runs. That it does not is no fault.
fn gateway(settings: &Settings, status: &io::Result<Value>) -> Check {
    const NAME: &str = "gateway";
    let socket = settings.control.display();
    match status {
        Ok(status) => Check::good(NAME, format!("it runs (pid {})", status["pid"])),
        Err(error) if is_absent(error) => {
            Check::good(NAME, format!("it does not run (control socket {socket}: {error})"))
        }
        Err(error) => {
            let says =
                format!("it may run, and cannot be queried (control socket {socket}: {error}): peers are not examined");
            match error.kind() {
                ErrorKind::PermissionDenied => {
                    Check::lacking(NAME, says, "run doctor as root, or as a member of the group of [control] group")
                }
                _ => Check::bad(NAME, says, "wait until it answers, or restart it"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::config::tests::minimal;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_gateway_that_cannot_be_queried_does_not_count_as_one_that_does_not_run() {
        let settings = parse(&minimal(), "x").unwrap();
        let report = |kind: ErrorKind| gateway(&settings, &Err(kind.into()));
        for kind in [ErrorKind::NotFound, ErrorKind::ConnectionRefused] {
            let check = report(kind);
            assert!(check.ok && check.says.starts_with("it does not run "), "{check:?}");
        }
        let denied = report(ErrorKind::PermissionDenied);
        assert!(!denied.ok && denied.lacks && denied.remedy.unwrap().starts_with("run doctor as root"));
        let silent = report(ErrorKind::TimedOut);
        assert!(!silent.ok && !silent.lacks && silent.says.contains("it may run"), "{silent:?}");
    }

    #[test]
    fn no_handshake_begins_beside_a_gateway_that_may_run() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { control: folder.path().join("socket"), ..parse(&minimal(), "x").unwrap() };
        let listener = UnixListener::bind(&settings.control).unwrap();
        // One that answers with something else.
        let answering = std::thread::spawn(move || drop(listener.accept()));
        let checks = examine(&settings, false);
        answering.join().unwrap();
        assert!(!checks[0].ok && checks[0].says.contains("peers are not examined"), "{:?}", checks[0]);
        assert!(!checks.iter().any(|check| check.check.starts_with("peer")), "{checks:?}");
    }
}
