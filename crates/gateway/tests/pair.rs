//! Pairs of gateways on threads of this process, each inside its own network namespace.

pub use gateway_testkit::{
    CLEAR, End, Family, PATIENCE, TLS, assert_reset, carries_both_directions, echo_all, echoes, patient, pattern,
};

use gateway::config::Settings;
use gateway::{Gateway, Handle, StartError};
use gateway_testkit::{Place, Runner, Site};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub type Pair = gateway_testkit::Pair<Threads>;

/// A gateway that runs, until it is dropped.
pub struct Running {
    pub handle: Handle,
    thread: Option<JoinHandle<Option<std::io::Result<()>>>>,
}

impl Running {
    /// Waits until it has ended by itself, in order.
    pub fn wait_for_end(mut self) {
        let thread = self.thread.take().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                self.thread = Some(thread);
                panic!("the gateway does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().unwrap().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.handle.stop();
        let ended = thread.join();
        assert!(std::thread::panicking() || matches!(ended, Ok(Some(Ok(())))), "{ended:?}");
    }
}

/// Runs gateways on threads.
#[derive(Debug, Default)]
pub struct Threads;

impl Runner for Threads {
    type Running = Running;
    type Error = StartError;

    fn start(&self, place: &Place<'_>) -> Result<Running, StartError> {
        run(place.site, gateway::config::load(place.config).unwrap(), Gateway::start)
    }

    fn take_over(&self, place: &Place<'_>) -> Result<Running, StartError> {
        run(place.site, gateway::config::load(place.config).unwrap(), Gateway::take_over)
    }

    fn stop(running: Running) {
        drop(running);
    }

    fn wait_for_end(running: Running) {
        running.wait_for_end();
    }

    fn abandon(running: Running) {
        drop(running);
    }
}

/// Asserts that nothing of the gateway at `end` is left in its namespace.
pub fn assert_nothing_is_left(pair: &Pair, end: End) {
    let said = |program: &str, arguments: &[&str]| {
        let output = pair.site(end).gateway.command(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said("nft", &["list", "tables"]), "");
    for family in ["-4", "-6"] {
        let rules = said("ip", &[family, "rule", "show"]);
        assert!(!rules.contains("fwmark"), "{rules}");
        assert_eq!(said("ip", &[family, "route", "show", "table", "25200"]), "");
    }
}

/// Runs the gateway that `begin` makes of `settings` at `site`.
pub fn run(
    site: &Site,
    settings: Settings,
    begin: impl FnOnce(Settings) -> Result<Gateway, StartError> + Send + 'static,
) -> Result<Running, StartError> {
    let (report, begun) = mpsc::channel();
    let run = move || {
        let gateway = match begin(settings) {
            Ok(gateway) => gateway,
            Err(error) => {
                report.send(Err(error)).unwrap();
                return Ok(());
            }
        };
        report.send(Ok(gateway.handle())).unwrap();
        gateway.run()
    };
    let thread = Some(site.gateway.spawn("gateway", run).unwrap());
    begun.recv().unwrap().map(|handle| Running { handle, thread })
}

/// What these pairs can do beside.
pub trait OnThreads {
    /// Why a gateway at `end` cannot take over.
    fn fails_to_take_over(&self, end: End) -> String;

    /// Has another gateway at `end` take over and waits until it has a session; returns the one before, which goes on with its connections.
    fn upgrade(&mut self, end: End) -> Running;

    /// Starts both gateways so that a client is only accepted once its server is. `false` where the machine lacks something.
    fn start_confirming(&mut self) -> bool;

    /// What the gateway at `end` answers to the wish to read its file again.
    fn reload(&self, end: End) -> gateway::Answer;

    /// Has the gateway at `end` read its file again, which changes something that `expected` names.
    fn reload_changes(&self, end: End, expected: &str);

    /// Has the gateway at `end` drain, `within` a time.
    fn drain(&self, end: End, within: Option<units::Duration>);
}

impl OnThreads for Pair {
    fn fails_to_take_over(&self, end: End) -> String {
        self.at(end, |place| self.runner.take_over(place)).map(drop).unwrap_err().to_string()
    }

    fn upgrade(&mut self, end: End) -> Running {
        let old = self.take_over(end);
        self.wait_for(|pair| pair.status(end)["predecessor"].is_u64());
        self.wait_until(end, true);
        old
    }

    fn start_confirming(&mut self) -> bool {
        self.terminal_settings = "accept = \"confirmed\"";
        self.start(End::Hub, "");
        match self.try_start(End::Terminal, "") {
            Err(error) if error.is_missing() => {
                // Not every kernel has packet queues, and no package brings them.
                eprintln!("skipped: {error}");
                return false;
            }
            started => started.unwrap(),
        }
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        true
    }

    fn reload(&self, end: End) -> gateway::Answer {
        gateway::reload(&self.socket(end)).unwrap()
    }

    fn reload_changes(&self, end: End, expected: &str) {
        let answer = self.reload(end);
        assert!(answer.done && answer.changes.iter().any(|change| change.contains(expected)), "{answer:?}");
    }

    fn drain(&self, end: End, within: Option<units::Duration>) {
        assert!(gateway::drain(&self.socket(end), within).unwrap().done);
    }
}
