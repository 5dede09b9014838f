//! `bentpipe gateway doctor`: what is wrong with the host, its network or its peers, and how to mend it.

use super::load;
use crate::output::{Failure, Output};
use crate::text::Text;
use clap::Args as ClapArgs;
use gateway::doctor::{self, Check};
use std::io::Write as _;
use std::path::PathBuf;

const LONG_ABOUT: &str = "\
Examines the needs of a gateway with this configuration: programs, firewall, interfaces, forwarding, reverse-path filter, routes, clock; and \
for each peer whether it answers, and if not why, the largest packet that passes, and losses. Each fault is printed with its remedy.

If the gateway runs, doctor queries it over its control socket, which root and the group of [control] group may use. If not, doctor begins \
sessions with the peers with the gateway's key: do not start the gateway meanwhile. With --measure-rate, it sends to each peer at [link] rate (without it at the estimate), or the peer's \
cap, for three seconds, then in short bursts at up to sixteen times the rate, as long as they arrive; it prints the largest volume before. \
Meanwhile, connections have less of the link. Only the transmit direction is measured: run doctor at the far gateway for the other.

Exit codes: 0 no fault, 1 a fault of host, network or peers, 2 the configuration has faults, 3 the machine lacks something.";

/// Find faults of host, network and peers, and their remedies
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT)]
pub struct Args {
    /// Configuration file of the gateway (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Fill the path to each peer for a moment to measure its capacity and detect policers
    #[arg(long)]
    measure_rate: bool,
}

/// Examines and reports.
///
/// # Errors
/// If something is wrong (1), the settings are (2), or the machine lacks something (3).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let settings = load(&args.config)?;
    // With TCP nothing is measured.
    if args.measure_rate && settings.tcp.is_none() {
        let (bytes, time) = doctor::cost(&settings);
        let peers = settings.peers.len();
        let _ = writeln!(
            std::io::stderr(),
            "bentpipe: measuring sends at most {bytes} to each of {peers} peers, for about {time} each; Ctrl-C ends it"
        );
    }
    let checks = doctor::examine(&settings, args.measure_rate);
    output.result(&serde_json::json!({ "checks": checks }), |columns| render(&checks, columns))?;
    let wrong: Vec<_> = checks.iter().filter(|check| !check.ok).collect();
    let names = || wrong.iter().map(|check| check.check.as_str()).collect::<Vec<_>>().join(", ");
    if wrong.is_empty() {
        Ok(())
    } else if wrong.iter().any(|check| check.lacks) {
        Err(Failure::missing(format!("faults found: {}", names())))
    } else {
        Err(Failure::failed(format!("faults found: {}", names())))
    }
}

fn render(checks: &[Check], columns: Option<usize>) -> Text {
    const INDENT: &str = "      ";
    let mut text = Text::new(columns);
    for check in checks {
        let mark = if check.ok { "ok   " } else { "WRONG" };
        text.indented(format!("{mark} {}: {}", check.check, check.says), INDENT);
        if let Some(remedy) = &check.remedy {
            text.indented(format!("{INDENT}remedy: {remedy}"), INDENT);
        }
    }
    text
}
