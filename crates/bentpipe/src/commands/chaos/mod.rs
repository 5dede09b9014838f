//! `bentpipe chaos`: gateways and their transfers under faults at random, every byte checked.

mod real;
mod simulated;

use crate::output::{Failure, Output};
use crate::text::Text;
use chaos::Report;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use units::Quantity;

const EXAMPLES: &str = "\
Examples:
  bentpipe chaos                                # 1,000 transfers under faults, in virtual time
  bentpipe chaos --transfers 100000 --json      # many more, for programs
  bentpipe chaos --seed 4711 --transfers 1      # only the case of this seed, which a failure names
  bentpipe chaos --real --minutes 30            # real gateways and sockets in private namespaces, for half an hour
  BENTPIPE_LOG=debug bentpipe chaos --real --seed 7 --transfers 1 --keep logs
                                                one case; keeps the gateways' logs if it fails

A case has a hub with terminals, their links, some dozens of transfers and faults, all drawn from the case's seed.
Faults are loss, bursts, reordering, duplicates, damage, outages, steps of rate, delay and MTU, new addresses, clock
jumps, gateways that pause, reload, drain, are killed, stop, restart and (--real) are upgraded, and attackers that
flood, replay, send garbage and forge cookies.
Exit code 1: a byte was wrong, or a transfer or gateway failed, hung or leaked.";

/// Run transfers through gateways under random faults, and check every byte
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Seed of the first case; each further case takes the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Least number of transfers; the last case is completed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    transfers: u64,
    /// Number of cases side by side [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Run real gateways in private namespaces, under SIGKILL, restarts, pauses, outages and floods
    #[arg(long, conflicts_with = "jobs")]
    real: bool,
    /// With --real, run for at least this many minutes
    #[arg(long, value_name = "N", requires = "real", value_parser = minutes)]
    minutes: Option<f64>,
    /// With --real, write the configuration, logs and failure of both gateways of each failed case below this directory
    #[arg(long, value_name = "DIR", requires = "real")]
    keep: Option<PathBuf>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("`{text}` is no number of minutes"))?;
    if (0.0..=10_000.0).contains(&minutes) { Ok(minutes) } else { Err("0 to 10000 minutes".into()) }
}

/// Runs the cases and prints their results.
///
/// # Errors
/// If anything went wrong in a case, or the command was interrupted.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let (report, interrupted) = if args.real { real::run(args, output)? } else { simulated::run(args, output)? };
    output.result(&report, |columns| text(&report, columns))?;
    if let Some(failure) = report.failures.first() {
        let more = report.failures.len() - 1;
        let more = if more > 0 { format!(" ({more} more)") } else { String::new() };
        let real = if args.real { "--real " } else { "" };
        let again = format!("repeat it with: bentpipe chaos {real}--seed {} --transfers 1", failure.seed);
        return Err(Failure::failed(format!("in the case of seed {}: {}{more}; {again}", failure.seed, failure.says)));
    }
    if interrupted {
        return Err(Failure::failed("interrupted before all transfers were made"));
    }
    Ok(())
}

/// The report for people.
fn text(report: &Report, columns: Option<usize>) -> Text {
    let Report { seed, cases, transfers, completed, ended_early, broken, wrong_bytes, hangs, leaks, .. } = report;
    let mut text = Text::new(columns);
    let delivered = Quantity::Bytes.text(report.delivered_bytes as f64);
    text.lines(format!("{transfers} transfers in {cases} cases from seed {seed} on, {delivered} delivered"));
    let faults: Vec<_> = report.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    for (name, says) in [
        ("complete", completed.to_string()),
        ("ended for a reason", ended_early.to_string()),
        ("ended for none", broken.to_string()),
        ("wrong bytes", wrong_bytes.to_string()),
        ("hung", hangs.to_string()),
        ("left over", leaks.to_string()),
        ("faults", faults.join(", ")),
    ] {
        text.indented(format!("  {name:<18}  {says}"), "    ");
    }
    let failures = report.failures.iter().take(10);
    text.each(failures.map(|failure| format!("seed {}: {}", failure.seed, failure.says)));
    text
}
