//! `bentpipe gateway`: one end of a pair of gateways around a satellite link.

mod doctor;
mod requests;
mod running;
mod service;
pub mod status;

pub use running::Running;

use crate::logging;
use crate::output::{Failure, Output, is_terminal_dumb};
use clap::Args as ClapArgs;
use gateway::Intercepted;
use gateway::config::{self, ConfigError, Settings};
use gateway::{Gateway, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  bentpipe gateway --config /etc/bentpipe/gateway.toml             # run until SIGTERM or Ctrl-C
  bentpipe gateway --config /etc/bentpipe/gateway.toml --check     # report every fault of the file
  bentpipe gateway --config gateway.toml --check --elsewhere       # report every fault of another machine's file
  bentpipe gateway --config /etc/bentpipe/gateway.toml --dry-run   # print the firewall script and routes of a start
  bentpipe gateway doctor --config /etc/bentpipe/gateway.toml      # find faults of host, network and peers
  bentpipe gateway doctor --config gateway.toml --measure-rate     # also measure the capacity of the path to each peer
  bentpipe gateway status                                          # peers, and one row for each connection
  bentpipe gateway status --name terminal-1 --json
  bentpipe gateway status --watch 5s                               # the same again every 5 s
  bentpipe gateway --config /etc/bentpipe/gateway.toml --take-over # replace the running gateway without resets
  bentpipe gateway reload                                          # apply changes of the file
  bentpipe gateway drain --within 10min                            # take no new connections, exit after the last";

/// Run one of the two gateways around a satellite link, or control a running one
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// Configuration file of the gateway (docs/configuration.md)
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Only check the file
    #[arg(long)]
    check: bool,
    /// With --check: the file is for another machine; do not look for its interfaces and its key's file here
    #[arg(long, requires = "check", conflicts_with_all = ["without_interfaces", "dry_run", "take_over"])]
    elsewhere: bool,
    /// With --check: do not look for the interfaces, which may come later
    #[arg(long, requires = "check", conflicts_with_all = ["dry_run", "take_over"])]
    without_interfaces: bool,
    /// Print the commands of a start, and run nothing
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Take over new connections from the running gateway of this name, which exits after its last connection
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    #[arg(conflicts_with_all = ["check", "dry_run"])]
    take_over: Option<TakeOver>,
    #[command(subcommand)]
    command: Option<GatewayCommand>,
}

/// When to take over from a running gateway.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum TakeOver {
    /// A gateway of this name must run
    Always,
    /// If no gateway of this name runs, start as without --take-over
    IfRunning,
}

/// What a running gateway can be asked.
#[derive(clap::Subcommand)]
enum GatewayCommand {
    Status(StatusArgs),
    Reload(ReloadArgs),
    Drain(DrainArgs),
    Doctor(doctor::Args),
}

/// Show a running gateway's peers and connections
#[derive(ClapArgs)]
struct StatusArgs {
    /// Show the state again after this time, until Ctrl-C
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s")]
    watch: Option<Duration>,
    #[command(flatten)]
    gateway: Running,
}

/// Make a running gateway read its file again, without resetting connections
#[derive(ClapArgs)]
struct ReloadArgs {
    #[command(flatten)]
    gateway: Running,
}

/// Make a running gateway take no new connections and exit after the last
#[derive(ClapArgs)]
struct DrainArgs {
    /// Exit after this time, even if connections are left
    #[arg(long, value_name = "DURATION")]
    within: Option<Duration>,
    #[command(flatten)]
    gateway: Running,
}

/// Runs a gateway, or asks one.
///
/// # Errors
/// If the settings are wrong, the machine lacks something, or the gateway fails.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(GatewayCommand::Status(status)), _) => show_status(status, output),
        (Some(GatewayCommand::Reload(reload)), _) => requests::reload(&reload.gateway.socket()?, output),
        (Some(GatewayCommand::Drain(drain)), _) => requests::drain(&drain.gateway.socket()?, drain.within, output),
        (Some(GatewayCommand::Doctor(doctor)), _) => doctor::run(doctor, output),
        (None, Some(path)) if args.check => check(args, path, output),
        (None, Some(path)) => {
            let mut settings = load(path)?;
            settings.build = crate::version::BUILD;
            if args.dry_run {
                return dry_run(&settings, output);
            }
            relay(settings, args.take_over)
        }
        (None, None) => Err(Failure::usage("--config FILE is missing")),
    }
}

/// Only checks the file.
fn check(args: &Args, path: &Path, output: &Output) -> Result<(), Failure> {
    let notes = if args.elsewhere {
        config::check_for_another_machine(path).map_err(faulty)?
    } else {
        let settings = load(path)?;
        if !args.without_interfaces {
            check_interfaces(&settings)?;
        }
        config::notes(&settings)
    };
    let answer = serde_json::json!({"config": path, "valid": true, "notes": notes});
    let lines = || notes.iter().map(|note| format!("\nnote: {note}")).collect::<String>();
    output.result(&answer, |_| format!("{}: no faults{}", path.display(), lines()))
}

fn load(path: &Path) -> Result<Settings, Failure> {
    config::load(path).map_err(faulty)
}

fn faulty(error: ConfigError) -> Failure {
    match error {
        ConfigError::Faults(faults) => Failure::usage(faults.0.join("\nbentpipe: ")),
        unreadable @ ConfigError::Unreadable { .. } => Failure::usage(unreadable),
    }
}

/// Whether this machine has the interfaces that the settings name.
fn check_interfaces(settings: &Settings) -> Result<(), Failure> {
    let missing = config::missing_interfaces(settings).map_err(Failure::failed)?;
    if missing.is_empty() { Ok(()) } else { Err(Failure::usage(missing.join("\nbentpipe: "))) }
}

fn dry_run(settings: &Settings, output: &Output) -> Result<(), Failure> {
    let servers = settings.routes.intercepted(|_| true);
    let script = settings.rules.dry_run(&[Intercepted { clients: Vec::new(), servers }], &settings.bypass);
    output.result(&serde_json::json!({"script": script}), |_| script.clone())
}

fn relay(settings: Settings, take_over: Option<TakeOver>) -> Result<(), Failure> {
    // Signals are caught before anything is set up, so that whatever is set up is taken down again.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    let start = match take_over {
        None => Gateway::start,
        Some(TakeOver::Always) => Gateway::take_over,
        Some(TakeOver::IfRunning) => Gateway::take_over_if_running,
    };
    let gateway = start(settings).map_err(start_failure)?;
    service::ready();
    let handle = gateway.handle();
    service::feed_watchdog(handle.clone())
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    let watch = move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => {
                    // What comes of it is logged.
                    let _ = handle.reload();
                }
                // Sent to many services after their logs were rotated.
                SIGUSR1 | SIGUSR2 => tracing::info!(signal, "a signal that means nothing to a gateway: it goes on"),
                _ => {
                    service::stopping();
                    handle.stop();
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    // By now the process has no more privileges than it needs.
    let _log = logging::in_background().map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    gateway.run().map_err(|error| Failure::failed(format!("the gateway failed: {error}")))
}

fn start_failure(error: StartError) -> Failure {
    match &error {
        StartError::Peer { .. } => Failure::usage(error),
        _ if error.is_missing() => Failure::missing(error),
        _ => Failure::failed(error),
    }
}

/// Shows the state once, or again and again.
fn show_status(args: &StatusArgs, output: &Output) -> Result<(), Failure> {
    let path = args.gateway.socket()?;
    if let Some(interval) = args.watch {
        return watch(&path, interval, output);
    }
    let failure = |error| requests::failure(&path, &error);
    if output.is_json() {
        // As the gateway answers, whatever its version.
        return output.result(&gateway::status(&path).map_err(failure)?, |_| "");
    }
    let snapshot = gateway::snapshot(&path).map_err(failure)?;
    output.result(&snapshot, |columns| status::render(&snapshot, columns))
}

/// The shortest time between two states: what asks more often keeps gateway and terminal busy.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the state again and again, over what it was on a terminal, until the reader has gone.
fn watch(path: &Path, interval: Duration, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return Err(Failure::usage("--watch prints text: call `bentpipe gateway status --json` again instead"));
    }
    loop {
        let size = output.size();
        let text = match gateway::snapshot(path) {
            Ok(snapshot) => status::render(&snapshot, output.columns()).to_string(),
            Err(error) => format!("{}\n", requests::failure(path, &error)),
        };
        let shown = match size.filter(|_| !is_terminal_dumb()) {
            // The cursor stays in the last row.
            Some((_, rows)) => format!("\x1b[H\x1b[J{}\n", text.lines().take(rows - 1).collect::<Vec<_>>().join("\n")),
            None => text + "\n",
        };
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            return Ok(());
        }
        drop(stdout);
        std::thread::sleep(interval.max(MIN_INTERVAL).into());
    }
}
