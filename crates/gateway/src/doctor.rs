//! Examines what a gateway needs of its host, its network and its peers, and says how to mend what is wrong.

mod advertisements;
mod host;
mod peers;
mod rate;

use crate::config::Settings;
use crate::control;
use serde::Serialize;
use serde_json::Value;
use std::io;

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
    checks.extend(peers::examine(settings, measures_rate, status.ok()));
    checks
}

/// Whether the gateway runs. That it does not is no fault.
fn gateway(settings: &Settings, status: &io::Result<Value>) -> Check {
    let says = match status {
        Ok(status) => format!("it runs (pid {})", status["pid"]),
        Err(error) => {
            format!("it does not run, or cannot be asked (control socket {}: {error})", settings.control.display())
        }
    };
    Check::good("gateway", says)
}
