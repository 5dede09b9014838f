//! The initial window: Linux takes it from the route, so a transfer that asks for one gets a host route of its own for as
//! long as it lasts.

use crate::output::Failure;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// A host route with an initial window, taken away when this is dropped or the process ends in whatever way.
#[derive(Debug)]
pub struct InitialWindow {
    /// Waits for the end of its standard input, which is ours, and then deletes the route.
    guard: Child,
}

impl InitialWindow {
    /// Lets connections to `peer` begin with `segments` segments, each way (initcwnd and initrwnd).
    ///
    /// # Errors
    /// If `peer` is this host or has no route, there is such a route already, or the process may not change routes.
    pub fn set(peer: IpAddr, segments: u32) -> Result<Self, Failure> {
        let family = if peer.is_ipv4() { "-4" } else { "-6" };
        let found = ip(&[family, "-oneline", "route", "get", &peer.to_string()])?;
        let words: Vec<&str> = found.split_whitespace().collect();
        if words.first() == Some(&"local") {
            return Err(Failure::usage(format!("--initial-window: {peer} is this host, where routes do not apply")));
        }
        let after = |key| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1)).copied();
        let device = after("dev").ok_or_else(|| Failure::failed(format!("--initial-window: no route to {peer}")))?;
        let host = format!("{peer}/{}", if peer.is_ipv4() { 32 } else { 128 });
        let segments = segments.to_string();
        let mut add = vec![family, "route", "add", &host];
        // `ip route get` does not show `onlink`: a next hop outside of the host's networks needs it, for others it changes nothing.
        let next_hop = next_hop(&words);
        if !next_hop.is_empty() {
            add.extend(next_hop);
            add.push("onlink");
        }
        let mut delete = vec![family, "route", "del", &host, "dev", device];
        // Routing rules may have chosen another table than the main one.
        if let Some(table) = after("table") {
            add.extend(["table", table]);
            delete.extend(["table", table]);
        }
        add.extend(["dev", device, "initcwnd", &segments, "initrwnd", &segments]);
        ip(&add)?;
        let guard = Command::new("sh")
            .args(["-c", "read -r _; exec ip \"$@\"", "sh"])
            .args(&delete)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C is for us: the guard outlives it.
            .process_group(0)
            .spawn();
        match guard {
            Ok(guard) => Ok(Self { guard }),
            Err(error) => {
                ip(&delete)?;
                Err(Failure::missing(format!("--initial-window: sh: {error}")))
            }
        }
    }
}

/// The next hop among the words of a route: `via ADDRESS`, or `via inet6 ADDRESS` if it is of the other family; empty if there is none.
fn next_hop<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let Some(at) = words.iter().position(|word| *word == "via") else { return &[] };
    let length = if words.get(at + 1) == Some(&"inet6") { 3 } else { 2 };
    words.get(at..at + length).unwrap_or_default()
}

impl Drop for InitialWindow {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // Whether it could delete the route is its affair: there is nobody left to tell.
        let _ = self.guard.wait();
    }
}

/// Runs `ip` and returns what it prints.
fn ip(args: &[&str]) -> Result<String, Failure> {
    let output =
        kernel::program::command("ip").args(args).stdin(Stdio::null()).output().map_err(|error| {
            match error.kind() {
                ErrorKind::NotFound => Failure::missing("--initial-window needs the program `ip` (package iproute2)"),
                _ => Failure::failed(format!("ip: {error}")),
            }
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let problem =
        format!("--initial-window: ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if problem.contains("not permitted") {
        return Err(Failure::missing(format!("{problem} (changing a route needs CAP_NET_ADMIN)")));
    }
    Err(Failure::failed(problem))
}
