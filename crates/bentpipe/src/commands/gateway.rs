//! `bentpipe gateway`: one end of a pair of gateways around a satellite hop.

use crate::output::{Failure, Output};
use clap::Args as ClapArgs;
use comfy_table::{Table, presets};
use gateway::config::{self, ConfigError, Settings};
use gateway::rules::Accelerated;
use gateway::{Gateway, StartError};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Rate};

const EXAMPLES: &str = "\
Examples:
  bentpipe gateway --config /etc/bentpipe/gateway.toml             run until SIGTERM or Ctrl-C
  bentpipe gateway --config /etc/bentpipe/gateway.toml --check     read the file and report every fault in it
  bentpipe gateway --config /etc/bentpipe/gateway.toml --dry-run   print the firewall script and routes of a start
  bentpipe gateway status                                          peers, and one row for each connection
  bentpipe gateway status --name terminal-1 --json";

/// Run one of the two gateways around a satellite hop, or ask a running one
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// The gateway's settings (docs/gateway-config.md)
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Only check the settings
    #[arg(long)]
    check: bool,
    /// Print the commands that a start would run, and run nothing
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    #[command(subcommand)]
    command: Option<GatewayCommand>,
}

/// What a running gateway can be asked.
#[derive(clap::Subcommand)]
enum GatewayCommand {
    Status(StatusArgs),
}

/// Show a running gateway's peers and connections
#[derive(ClapArgs)]
struct StatusArgs {
    /// The gateway's name
    #[arg(long, default_value = "bentpipe")]
    name: String,
    /// The gateway's control socket [default: /run/bentpipe/NAME.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    socket: Option<PathBuf>,
}

/// Runs a gateway, or asks one.
///
/// # Errors
/// If the settings are wrong, the machine lacks something, or the gateway fails.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(GatewayCommand::Status(status)), _) => show_status(status, output),
        (None, Some(path)) => {
            let settings = load(path)?;
            if args.check {
                let answer = serde_json::json!({"config": path, "valid": true});
                return output.result(&answer, || format!("{}: no faults", path.display()));
            }
            if args.dry_run {
                return dry_run(&settings, output);
            }
            relay(settings)
        }
        (None, None) => Err(Failure::usage("--config FILE is missing")),
    }
}

fn load(path: &Path) -> Result<Settings, Failure> {
    config::load(path).map_err(|error| match error {
        ConfigError::Faults(faults) => Failure::usage(faults.join("\nbentpipe: ")),
        unreadable @ ConfigError::Unreadable { .. } => Failure::usage(unreadable),
    })
}

fn dry_run(settings: &Settings, output: &Output) -> Result<(), Failure> {
    let servers = settings.routes.intercepted(|_| true);
    let script = settings.rules.dry_run(&[Accelerated { clients: Vec::new(), servers }], &settings.bypass);
    output.result(&serde_json::json!({"script": script}), || script.clone())
}

fn relay(settings: Settings) -> Result<(), Failure> {
    // Signals are caught before anything is set up, so that whatever is set up is taken down again.
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    let gateway = Gateway::start(settings).map_err(start_failure)?;
    let handle = gateway.handle();
    let watch = move || {
        for _ in signals.forever() {
            handle.stop();
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    gateway.run().map_err(|error| Failure::failed(format!("the gateway failed: {error}")))
}

fn start_failure(error: StartError) -> Failure {
    match &error {
        StartError::Peer { .. } => Failure::usage(error),
        _ if error.is_missing() => Failure::missing(error),
        _ => Failure::failed(error),
    }
}

fn show_status(args: &StatusArgs, output: &Output) -> Result<(), Failure> {
    let path = args.socket.clone().unwrap_or_else(|| config::control_socket(&args.name));
    let status = gateway::status(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Failure::failed(format!("no gateway serves {}: {error}", path.display()))
        }
        _ => Failure::failed(format!("{}: {error}", path.display())),
    })?;
    output.result(&status, || render(&status))
}

/// The status for people: what stands first is what one looks for first.
fn render(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let seconds = |value: &Value| value.as_f64().map_or("-".into(), |s| Duration::from_secs_f64(s).to_string());
    let bytes = |value: &Value| Bytes::new(value.as_u64().unwrap_or(0)).to_string();
    let rows = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let mut peers = table(&["peer", "state", "address", "rtt", "streams", "sent", "sent again", "received"]);
    for peer in rows("peers") {
        let again = peer["retransmitted_bytes"].as_u64().unwrap_or(0) + peer["repair_bytes"].as_u64().unwrap_or(0);
        peers.add_row(vec![
            text(&peer["name"]),
            text(&peer["state"]),
            text(&peer["address"]),
            seconds(&peer["rtt_s"]),
            peer["streams"].to_string(),
            bytes(&peer["sent_bytes"]),
            Bytes::new(again).to_string(),
            bytes(&peer["received_bytes"]),
        ]);
    }
    let mut streams = table(&["stream", "peer", "side", "client", "server", "state", "age", "from TCP", "to TCP"]);
    for stream in rows("streams") {
        streams.add_row(vec![
            stream["stream"].to_string(),
            text(&stream["peer"]),
            text(&stream["side"]),
            text(&stream["client"]),
            text(&stream["server"]),
            text(&stream["state"]),
            seconds(&stream["age_s"]),
            bytes(&stream["from_tcp_bytes"]),
            bytes(&stream["to_tcp_bytes"]),
        ]);
    }
    let rate = |key: &str| Rate::from_bps(status[key].as_u64().unwrap_or(0));
    format!(
        "{}: up for {}, sends at {} at most, other traffic {}\n{}{peers}\n{streams}\n",
        text(&status["name"]),
        seconds(&status["uptime_s"]),
        rate("rate_bps"),
        rate("outside_bps"),
        told(&status["told"]) + &modem(&status["modem"]) + &cross_layer(&status["transport"]["cross_layer"]),
    )
}

/// How the cross-layer congestion control divides the link, where it does.
fn cross_layer(told: &Value) -> String {
    let (Some(control), Some(bps)) = (told["control"].as_str(), told["capacity_bps"].as_u64()) else {
        return String::new();
    };
    format!("{control} divides {} between {} with data\n", Rate::from_bps(bps), told["sessions"])
}

/// The session with the modem, if one is to be had.
fn modem(modem: &Value) -> String {
    let text = |key: &str| modem[key].as_str();
    match (modem.is_object(), text("address")) {
        (false, _) => String::new(),
        (true, None) => format!("no session with the modem: {}\n", text("last_end").unwrap_or("not found yet")),
        (true, Some(address)) => {
            let link = if modem["link_is_up"] == true { "up" } else { "down" };
            format!("session with modem {address} ({}), link {link}\n", text("name").unwrap_or("-"))
        }
    }
}

/// What the link is told to carry, if anybody tells it.
fn told(told: &Value) -> String {
    let rate = |key: &str| Rate::from_bps(told[key].as_u64().unwrap_or(0));
    let seconds = |key: &str| Duration::from_secs_f64(told[key].as_f64().unwrap_or(0.0));
    match told["source"].as_str() {
        None | Some("configured") => String::new(),
        Some(source) => format!(
            "told by {source} for {}: {} up, {} down, round trip {}\n",
            seconds("age_s"),
            rate("up_bps"),
            rate("down_bps"),
            seconds("rtt_s")
        ),
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}
