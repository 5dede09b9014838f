//! The queue discipline at the root of an interface, through the program `tc`.

use crate::Error;
use crate::program;
use std::process::Output;

/// A root queue discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootQdisc {
    /// Its kind, such as `fq` or `pfifo_fast`.
    pub kind: String,
    /// Whether the kernel put it there itself, so that it comes back when another is taken away.
    pub is_default: bool,
}

/// The root queue discipline of `device` in the network namespace of the calling thread.
///
/// # Errors
/// If `tc` is not installed or there is no such interface.
pub fn root(device: &str) -> Result<RootQdisc, Error> {
    let arguments = ["qdisc", "show", "dev", device, "root"];
    let output = tc(&arguments)?;
    // qdisc fq 8001: root refcnt 2 limit 10000p ...; the kernel's own have the handle 0
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    match (words.next(), words.next()) {
        (Some(kind), Some(handle)) => Ok(RootQdisc { kind: kind.to_owned(), is_default: handle == "0:" }),
        _ => Ok(RootQdisc { kind: "none".to_owned(), is_default: true }),
    }
}

/// Puts a queue discipline of `kind`, with its own defaults, at the root of `device`; false if this kernel has none of that
/// kind.
///
/// # Errors
/// [`Error::Missing`] if `tc` is not installed or the process may not change it; if there is no such interface.
pub fn set_root(device: &str, kind: &str) -> Result<bool, Error> {
    match tc(&["qdisc", "replace", "dev", device, "root", kind]) {
        Ok(_) => Ok(true),
        Err(error) if error.to_string().contains("qdisc kind is unknown") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes away what [`set_root`] put there: the kernel's own comes back.
///
/// # Errors
/// If the process may not change it, or there is nothing to take away.
pub fn reset_root(device: &str) -> Result<(), Error> {
    tc(&["qdisc", "delete", "dev", device, "root"]).map(drop)
}

fn tc(arguments: &[&str]) -> Result<Output, Error> {
    program::run("tc", "iproute2", arguments.iter().copied())
}
