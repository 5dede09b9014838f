//! Interfaces, addresses and routes through the `ip` program, and sysctls through /proc, inside a namespace.

use crate::{Error, Namespace};
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Commands for one run of `ip` inside a namespace: either all of them succeed, or the run fails at the first that
/// does not.
#[derive(Debug)]
pub struct IpBatch<'a> {
    namespace: &'a Namespace,
    lines: String,
    others: Vec<&'a Namespace>,
}

impl<'a> IpBatch<'a> {
    /// No commands yet, to run inside `namespace`.
    pub fn new(namespace: &'a Namespace) -> Self {
        Self { namespace, lines: String::new(), others: Vec::new() }
    }

    /// Adds a command as `ip` takes it, without the word `ip`.
    pub fn add(&mut self, command: impl AsRef<str>) -> &mut Self {
        self.lines.push_str(command.as_ref());
        self.lines.push('\n');
        self
    }

    /// Adds commands.
    pub fn add_all(&mut self, commands: impl IntoIterator<Item = String>) -> &mut Self {
        for command in commands {
            self.add(command);
        }
        self
    }

    /// Adds a pair of virtual Ethernet interfaces: `name` here, `peer_name` in `peer`, both down.
    pub fn add_veth(&mut self, name: &str, peer: &'a Namespace, peer_name: &str) -> &mut Self {
        self.others.push(peer);
        // `ip` inherits the peer's descriptor under its own number.
        self.add(format!(
            "link add name {name} type veth peer name {peer_name} netns /proc/self/fd/{}",
            peer.fd().as_raw_fd()
        ))
    }

    /// Runs the commands in one `ip` process.
    ///
    /// # Errors
    /// If `ip` is not installed, or with the command that failed and what `ip` said about it.
    pub fn run(&self) -> Result<(), Error> {
        let inherited: Vec<_> = self.others.iter().map(|other| other.fd().as_raw_fd()).collect();
        let mut command = self.namespace.command("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // SAFETY: the closure runs between fork and exec and only makes the system call fcntl() on descriptors that
        // are open in the parent; fcntl() is async-signal-safe, and iterating the vector neither allocates nor locks.
        unsafe {
            command.pre_exec(move || {
                inherited.iter().try_for_each(|&fd| match libc::fcntl(fd, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                })
            });
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing("the program `ip` (package iproute2) is not installed".into()),
            _ => Error::Failed { doing: "starting `ip`".into(), source: error },
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // If `ip` ends early this fails, and its own message below says why.
            let _ = stdin.write_all(self.lines.as_bytes());
        }
        let output = child.wait_with_output().map_err(Error::while_doing("running `ip`"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        let line = said.rsplit("-:").next().and_then(|n| n.trim().parse::<usize>().ok());
        let command = line.and_then(|n| self.lines.lines().nth(n.saturating_sub(1))).unwrap_or("-batch");
        Err(Error::Failed { doing: format!("ip {command}"), source: io::Error::other(said) })
    }
}

/// Writes sysctls of the network kind inside `namespace`, each as a path below /proc/sys/net and a value.
///
/// # Errors
/// If one does not exist or may not be written.
pub fn set_sysctls(namespace: &Namespace, settings: &[(&str, &str)]) -> Result<(), Error> {
    // /proc/sys/net shows the namespace of the thread that looks.
    namespace.run(|| {
        settings.iter().try_for_each(|(key, value)| {
            let path = format!("/proc/sys/net/{key}");
            fs::write(&path, value).map_err(Error::while_doing(format!("writing {value} to {path}")))
        })
    })?
}
