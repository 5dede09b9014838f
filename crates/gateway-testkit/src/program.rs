//! Gateways as processes of a program.

use crate::programs::PATIENCE;
use crate::{End, Pair, Place, Runner, answer};
use serde_json::Value;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program.
pub trait Executable {
    /// Its file.
    const PATH: &'static str;
}

/// Runs gateways as processes of `E`.
#[derive(Debug)]
pub struct Program<E> {
    /// What of the log, as a filter, is written as JSON to [`Pair::log`].
    pub logged: Option<&'static str>,
    /// A command that runs the gateways' own: in a place that lacks something.
    pub within: &'static [&'static str],
    /// Variables of the environment of gateways that start from now on.
    pub environment: Vec<(&'static str, String)>,
    executable: PhantomData<E>,
}

impl<E> Default for Program<E> {
    fn default() -> Self {
        Self { logged: None, within: &[], environment: Vec::new(), executable: PhantomData }
    }
}

impl<E: Executable> Program<E> {
    /// The command of a gateway at `place`.
    fn command(&self, place: &Place<'_>) -> Command {
        let words = [self.within, &[E::PATH, "gateway", "--config"]].concat();
        let mut command = place.site.gateway.command(words[0]);
        command.args(&words[1..]).arg(place.config).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(filter) = self.logged {
            let log = std::fs::File::create(log_beside(place.config)).unwrap();
            command.args(["--log-format", "json"]).env("BENTPIPE_LOG", filter).stderr(log);
        }
        command
    }
}

fn log_beside(config: &Path) -> PathBuf {
    config.with_extension("log")
}

impl<E: Executable> Runner for Program<E> {
    type Running = Child;
    type Error = std::io::Error;

    fn start(&self, place: &Place<'_>) -> Result<Child, Self::Error> {
        self.command(place).spawn()
    }

    fn take_over(&self, place: &Place<'_>) -> Result<Child, Self::Error> {
        let new = self.command(place).arg("--take-over").spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while !answer(place.socket, "status").is_ok_and(|status| status["pid"] == new.id()) {
            assert!(Instant::now() < deadline, "the new process does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(new)
    }

    fn stop(mut running: Child) {
        signal(&running, "-TERM");
        let status = running.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    fn wait_for_end(mut running: Child) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match running.try_wait().unwrap() {
                Some(status) => return assert!(status.success(), "{status}"),
                None if Instant::now() > deadline => {
                    Self::abandon(running);
                    panic!("the gateway does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn abandon(mut running: Child) {
        running.kill().unwrap();
        running.wait().unwrap();
    }
}

/// Sends a signal by the number of the process, which nobody else can have before it has been waited for.
fn signal(process: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
}

impl<E: Executable, N> Pair<Program<E>, N> {
    /// The log of the gateway at `end`.
    pub fn log(&self, end: End) -> PathBuf {
        log_beside(&self.config(end))
    }

    /// What `bentpipe gateway doctor` says at `end`, whose settings are there: its exit code, and its checks.
    pub fn doctor(&self, end: End) -> (Option<i32>, Vec<Value>) {
        self.doctor_with(end, &[], None)
    }

    /// The same with `options`, and with `path` as the directory of programs.
    pub fn doctor_with(&self, end: End, options: &[&str], path: Option<&str>) -> (Option<i32>, Vec<Value>) {
        let mut command = self.site(end).gateway.command(E::PATH);
        command
            .args(["gateway", "doctor", "--json", "--config"])
            .arg(self.config(end))
            .args(options)
            .stdin(Stdio::null());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), document["checks"].as_array().unwrap().clone())
    }

    /// Starts the gateway at `end`, which must end because the machine lacks something; returns what it says of that.
    pub fn refusal(&mut self, end: End) -> String {
        self.start(end, "");
        assert!(self.lacks_something(end), "exit code 3");
        let stderr =
            String::from_utf8(self.at(end, |place| self.runner.command(place)).output().unwrap().stderr).unwrap();
        let lines: Vec<_> = stderr.lines().filter(|line| line.starts_with("bentpipe: ")).collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        lines[0].to_owned()
    }

    /// Starts both gateways so that a client is only accepted once its server is. `false` where the machine lacks something.
    pub fn start_confirming(&mut self) -> bool {
        self.terminal_settings = "accept = \"confirmed\"";
        self.start(End::Hub, "");
        self.start(End::Terminal, "");
        if self.lacks_something(End::Terminal) {
            return false;
        }
        self.wait_until(End::Hub, true);
        self.wait_until(End::Terminal, true);
        true
    }

    /// Whether the gateway at `end` has ended because the machine lacks something, rather than come up.
    pub fn lacks_something(&mut self, end: End) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.status(end).is_null() {
            assert!(Instant::now() < deadline);
            if let Some(status) = self.running[end as usize].as_mut().unwrap().try_wait().unwrap() {
                assert_eq!(status.code(), Some(3));
                eprintln!("skipped: see the gateway's last words");
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// What `bentpipe gateway` says when it is asked with `words` of the gateway at `end`: exit code, stdout and stderr.
    pub fn ask(&self, end: End, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(E::PATH);
        let output = command.arg("gateway").args(words).arg("--socket").arg(self.socket(end)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Sends a signal to the gateway at `end`: its name or number as kill(1) has them.
    pub fn signal(&self, end: End, name: &str) {
        signal(self.running[end as usize].as_ref().unwrap(), name);
    }

    /// Starts a process at `end` that does not succeed in taking over; returns what it says.
    pub fn fails_to_take_over(&self, end: End) -> String {
        let output = self.at(end, |place| self.runner.command(place)).arg("--take-over").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// SIGKILL.
    pub fn kill(&mut self, end: End) {
        Program::<E>::abandon(self.running[end as usize].take().unwrap());
    }
}
