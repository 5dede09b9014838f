//! A hub and a terminal as processes, which die, stop, pause and come back.

use crate::output::Failure;
use chaos::Dice;
use document::{Interval, PositiveRate};
use gateway::config::format::{self, Address, Interface, Listen, Prefix, Private, Public, ShortName, SocketPath};
use lab::{Family, Site, Topology};
use satpep::{Mode, PrivateKey};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use units::Rate;

/// UDP and TCP port of the satellite link.
pub const PORT: u16 = 4500;

/// What crosses the satellite.
#[derive(Debug, Clone, Copy)]
pub struct Carrier {
    pub mode: Mode,
    pub is_tcp: bool,
}

/// The satellite transports in their modes.
pub const CARRIERS: [Carrier; 4] = [
    Carrier { mode: Mode::Encrypted, is_tcp: false },
    Carrier { mode: Mode::Clear, is_tcp: false },
    Carrier { mode: Mode::Encrypted, is_tcp: true },
    Carrier { mode: Mode::Clear, is_tcp: true },
];

/// Two gateways: 0 is the hub's, 1 the terminal's.
pub struct Pair<'a> {
    topology: &'a Topology,
    program: PathBuf,
    directory: PathBuf,
    running: [Option<Child>; 2],
    /// Processes that others have taken over from, by side, and that finish their connections.
    former: Vec<(usize, Child)>,
    /// Rules and tables that were there before the gateways.
    before: [BTreeSet<String>; 2],
}

impl<'a> Pair<'a> {
    /// Starts both and waits until their session is up.
    ///
    /// # Errors
    /// If they do not come up.
    pub fn start(
        topology: &'a Topology,
        program: &Path,
        directory: &Path,
        carrier: Carrier,
        (rates, rtt): ([Rate; 2], units::Duration),
        dice: &mut Dice,
    ) -> Result<Self, Failure> {
        let mut pair = Self {
            topology,
            program: program.to_owned(),
            directory: directory.to_owned(),
            running: [None, None],
            former: Vec::new(),
            before: Default::default(),
        };
        fs::create_dir_all(directory).map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
        let mut key = || PrivateKey::from_random(std::array::from_fn(|_| dice.word() as u8));
        let keys = [key(), key()];
        for side in 0..2 {
            let mut settings = settings(pair.site(side), pair.site(1 - side), side, &keys, carrier, rates, rtt);
            settings.control.socket = Some(SocketPath(pair.file(side, "sock").display().to_string()));
            let state = pair.file(side, "state");
            fs::create_dir_all(&state).map_err(Failure::failed)?;
            settings.gateway.state_directory = Some(format::Path(state.display().to_string()));
            let text = document::to_toml(&settings).map_err(Failure::failed)?;
            fs::write(pair.file(side, "toml"), text).map_err(Failure::failed)?;
            pair.before[side] = pair.rules(side)?;
            pair.spawn(side)?;
        }
        if pair.wait_until_up(Duration::from_secs(30)) {
            return Ok(pair);
        }
        Err(Failure::failed(format!("the gateways do not come up: {}", pair.last_words())))
    }

    fn site(&self, side: usize) -> &'a Site {
        if side == 0 { &self.topology.hub } else { &self.topology.terminals[0] }
    }

    fn file(&self, side: usize, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}.{suffix}", ["hub", "terminal"][side]))
    }

    /// Starts a gateway that does not run.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn spawn(&mut self, side: usize) -> Result<(), Failure> {
        self.running[side] = Some(self.begin(side, &[])?);
        Ok(())
    }

    fn begin(&self, side: usize, options: &[&str]) -> Result<Child, Failure> {
        let log = File::options().create(true).append(true).open(self.file(side, "log")).map_err(Failure::failed)?;
        let mut command = self.site(side).gateway.command(&self.program);
        command.args(["gateway", "--config"]).arg(self.file(side, "toml")).args(options);
        // Ctrl-C is for this program, which ends the gateways.
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0).spawn();
        child.map_err(Failure::failed)
    }

    /// A new process takes over from the one that runs, which finishes its connections. Returns how that has come out.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn take_over(&mut self, side: usize) -> Result<TakeOver, Failure> {
        self.forget_ended();
        // One at a time: the gateway refuses others.
        if self.former.iter().any(|(of, _)| *of == side) {
            return Ok(TakeOver::Busy);
        }
        let mut new = self.begin(side, &["--take-over"])?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if self.status(side)["pid"] == new.id() {
                if let Some(old) = self.running[side].replace(new) {
                    self.former.push((side, old));
                }
                return Ok(TakeOver::Done);
            }
            if let Ok(Some(status)) = new.try_wait() {
                return Ok(TakeOver::Failed(status.to_string()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        end(&mut new);
        Ok(TakeOver::Failed("it does not answer after 30 s".into()))
    }

    /// Waits for the processes that others have taken over from to end with their connections. Returns the sides of those that
    /// have not, or not in order; they are killed.
    pub fn finish_former(&mut self, patience: Duration) -> Vec<usize> {
        let deadline = Instant::now() + patience;
        let former = std::mem::take(&mut self.former);
        let outlasts = |child: &mut Child| !wait_for_end(child, deadline).is_some_and(|status| status.success());
        former.into_iter().filter_map(|(side, mut child)| outlasts(&mut child).then_some(side)).collect()
    }

    /// Forgets processes that have ended.
    fn forget_ended(&mut self) {
        self.former.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
    }

    /// SIGKILL, to all processes of a gateway.
    pub fn kill(&mut self, side: usize) {
        // They may have ended already, which is reported elsewhere.
        self.running[side].take().iter_mut().for_each(end);
        let of_side = |(of, _): &mut (usize, Child)| *of == side;
        self.former.extract_if(.., of_side).for_each(|(_, mut child)| end(&mut child));
    }

    /// SIGTERM, to all processes of a gateway; `None` if one has not ended after 15 s, and was killed then.
    pub fn stop(&mut self, side: usize) -> Option<ExitStatus> {
        let mut child = self.running[side].take()?;
        let of_side = |(of, _): &mut (usize, Child)| *of == side;
        let former: Vec<Child> = self.former.extract_if(.., of_side).map(|(_, child)| child).collect();
        let deadline = Instant::now() + Duration::from_secs(15);
        for mut child in former {
            self.signal_child(&child, "TERM");
            wait_for_end(&mut child, deadline)?;
        }
        if let Ok(Some(status)) = child.try_wait() {
            // Its number may be another process's by now.
            return Some(status);
        }
        self.signal_child(&child, "TERM");
        wait_for_end(&mut child, deadline)
    }

    /// Sends a signal to a gateway.
    pub fn signal(&self, side: usize, name: &str) {
        if let Some(child) = &self.running[side] {
            self.signal_child(child, name);
        }
    }

    /// By its number: the child has not been waited for, so that nobody else can have it.
    fn signal_child(&self, child: &Child, name: &str) {
        let pid = child.id().to_string();
        let _ = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status();
    }

    /// Gateways that ended without a request to.
    pub fn ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let status = |child: &mut Option<Child>| child.as_mut()?.try_wait().ok()?;
        (0..2).filter_map(|side| Some((side, status(&mut self.running[side])?))).collect()
    }

    /// What a gateway says of itself; null if it does not answer.
    pub fn status(&self, side: usize) -> Value {
        gateway::status(&self.file(side, "sock")).unwrap_or(Value::Null)
    }

    /// Whether both say that their peer answers, within `patience`.
    pub fn wait_until_up(&self, patience: Duration) -> bool {
        wait_until(patience, || (0..2).all(|side| self.status(side)["peers"][0]["state"] == "up"))
    }

    /// Connections that both gateways relay.
    pub fn connections(&self) -> u64 {
        (0..2).map(|side| self.status(side)["streams"].as_array().map_or(0, Vec::len) as u64).sum()
    }

    /// The connections that go through the gateways now, as the status of each gateway shows them.
    pub fn list_connections(&self) -> String {
        let of_side = |side| format!("gateway {side}: {}", self.status(side)["streams"]);
        [0, 1].map(of_side).join("; ")
    }

    /// Descriptors that a gateway has open, and bytes of memory that it keeps.
    pub fn holds(&self, side: usize) -> Option<(u64, u64)> {
        let pid = self.running[side].as_ref()?.id();
        Some((kernel::process::open_files(pid).ok()?, kernel::process::resident_memory(pid).ok()?))
    }

    /// Tables and rules at a gateway that were not there before it.
    ///
    /// # Errors
    /// If the kernel's programs cannot be run.
    pub fn left_behind(&self, side: usize) -> Result<Vec<String>, Failure> {
        Ok(self.rules(side)?.difference(&self.before[side]).cloned().collect())
    }

    fn rules(&self, side: usize) -> Result<BTreeSet<String>, Failure> {
        let mut lines = BTreeSet::new();
        for words in [&["nft", "list", "tables"][..], &["ip", "rule"], &["ip", "-6", "rule"]] {
            let output = self.site(side).gateway.command(words[0]).args(&words[1..]).output();
            let output = output.map_err(|error| Failure::missing(format!("{}: {error}", words[0])))?;
            let text = String::from_utf8_lossy(&output.stdout);
            lines.extend(text.lines().map(|line| format!("{}: {}", words.join(" "), line.trim())));
        }
        Ok(lines)
    }

    /// Changes the firewall at a gateway.
    pub fn nft(&self, side: usize, rules: &str) {
        let _ = self.site(side).gateway.command("nft").arg(rules).stderr(Stdio::null()).status();
    }

    /// The last lines of both logs.
    pub fn last_words(&self) -> String {
        let tail = |side| {
            let log = fs::read_to_string(self.file(side, "log")).unwrap_or_default();
            log.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
        };
        format!("hub: {}; terminal: {}", tail(0), tail(1))
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        (0..2).for_each(|side| self.kill(side));
    }
}

/// How the upgrade of a gateway has come out.
pub enum TakeOver {
    /// The new process has new connections.
    Done,
    /// The process before the last one has not ended.
    Busy,
    /// The new process has ended, as this says.
    Failed(String),
}

/// SIGKILL.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// How `child` has ended by itself; `None` if it has not at `deadline`, and was killed then.
fn wait_for_end(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > deadline {
            end(child);
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asks until `done` or for `patience`.
pub fn wait_until(patience: Duration, done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(30));
    }
    true
}

fn settings(
    own: &Site,
    other: &Site,
    side: usize,
    keys: &[PrivateKey; 2],
    carrier: Carrier,
    rates: [Rate; 2],
    rtt: units::Duration,
) -> format::File {
    let address = |site: &Site| SocketAddr::new(site.satellite_address(Family::V4), PORT);
    let gateway = format::Gateway {
        private_key: Some(Private(keys[side].clone())),
        listen: Some(Listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT))),
        mode: Some(carrier.mode),
        transport: carrier.is_tcp.then_some(format::Transport::Tcp),
        secured_externally: (carrier.is_tcp && carrier.mode == Mode::Clear).then_some(true),
        ..format::Gateway::default()
    };
    let link = format::Link {
        interface: Some(Interface("sat".to_owned())),
        receive_rate: Some(PositiveRate(rates[1 - side])),
        ..format::Link::new(Some(PositiveRate(rates[side])), Interval(rtt))
    };
    let intercept =
        format::Intercept { interfaces: Some(vec![Interface("lan".to_owned())]), ..format::Intercept::default() };
    let network = own.networks()[0].to_string().parse().expect("a network of the topology is a prefix");
    let peer = format::Peer {
        public_key: Some(Public(keys[1 - side].public_key())),
        address: (side == 1 || carrier.is_tcp).then(|| Address(address(other))),
        allow_destinations: Some(vec![Prefix(network)]),
        ..format::Peer::new(ShortName("other".to_owned()))
    };
    format::File { gateway, intercept, peer: vec![peer], ..format::File::new(link) }
}
