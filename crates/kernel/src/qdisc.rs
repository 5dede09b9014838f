//! The queue discipline at the root of an interface, through the program `tc`.

use crate::Error;
use crate::program;
use std::process::Output;

/// A root queue discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootQdisc {
    /// Its kind, such as `fq` or `pfifo_fast`; [`MULTI_QUEUE`] where each queue of the hardware has one of its own.
    pub kind: String,
    /// Whether the kernel put it there itself, so that it comes back when another is taken away.
    pub is_default: bool,
    /// The kinds of those of the hardware's queues.
    queues: Vec<String>,
}

/// The kind of a root that has a queue discipline for each queue of the hardware.
pub const MULTI_QUEUE: &str = "mq";

impl RootQdisc {
    /// The kind of queue discipline that all packets meet: that of all queues of the hardware, if these have the same.
    pub fn common_kind(&self) -> &str {
        match self.queues.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => first,
            _ => &self.kind,
        }
    }

    /// From what `tc qdisc show` prints: `qdisc fq 8001: root refcnt 2 limit 10000p ...`, and a line with `parent :1` for the first queue
    /// below a root whose handle is 0, as the kernel's own have.
    fn parse(text: &str) -> Self {
        let lines = || text.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>());
        let root = lines().find_map(|words| match words[..] {
            [kind, handle, "root", ..] => Some((kind.to_owned(), handle.to_owned())),
            _ => None,
        });
        let (kind, handle) = root.unwrap_or_else(|| ("none".to_owned(), "0:".to_owned()));
        let of_root = handle.trim_start_matches('0');
        let queues = lines().filter_map(|words| match words[..] {
            [queue, _, "parent", parent, ..] if kind == MULTI_QUEUE && parent.starts_with(of_root) => {
                Some(queue.to_owned())
            }
            _ => None,
        });
        Self { queues: queues.collect(), is_default: handle == "0:", kind }
    }
}

/// The root queue discipline of `device` in the network namespace of the calling thread.
///
/// # Errors
/// If `tc` is not installed or there is no such interface.
pub fn root(device: &str) -> Result<RootQdisc, Error> {
    let output = tc(&["qdisc", "show", "dev", device])?;
    Ok(RootQdisc::parse(&String::from_utf8_lossy(&output.stdout)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_that_packets_meet_is_that_of_the_root_or_of_all_queues_below_it() {
        let kinds = |text: &str| {
            let root = RootQdisc::parse(text);
            (root.kind.clone(), root.is_default, root.common_kind().to_owned())
        };
        let of = |kind: &str, is_default, common: &str| (kind.to_owned(), is_default, common.to_owned());
        assert_eq!(kinds("qdisc fq 8001: root refcnt 2 limit 10000p \n"), of("fq", false, "fq"));
        assert_eq!(kinds("qdisc noqueue 0: root refcnt 2 \n"), of("noqueue", true, "noqueue"));
        assert_eq!(kinds(""), of("none", true, "none"));
        let queues = "qdisc mq 0: root \nqdisc fq 0: parent :2 limit 10000p\nqdisc clsact ffff: parent ffff:fff1 \n";
        assert_eq!(kinds(&format!("{queues}qdisc fq 0: parent :1 limit 10000p\n")), of("mq", true, "fq"));
        assert_eq!(kinds(&format!("{queues}qdisc fq_codel 0: parent :1 limit 10240p\n")), of("mq", true, "mq"));
        assert_eq!(kinds("qdisc mq 8001: root \nqdisc fq 8002: parent 8001:1 \n"), of("mq", false, "fq"));
    }
}
