//! `bentpipe demo`: the same data over the same satellite link, end to end and through a pair of gateways.

mod report;

use super::direction::DirectionArg;
use super::private_lab::{family, gateway_options, start_in_private, this_program};
use super::shell::exact;
use crate::destination::{Destination, Kind};
use crate::output::{Failure, Output};
use crate::picture;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::ProgressBar;
use lab::transfer::{Checksum, has_congestion_control};
use lab::{Experiment, LinkParameters, Path, Workload};
use report::{PathReport, Report};
use std::path::PathBuf;
use units::{Bytes, Duration, Probability, Rate};

const EXAMPLES: &str = "\
Examples:
  bentpipe demo                                                  # 1 MB over 6 Mbit/s, 550 ms, one packet in 1000 lost
  bentpipe demo --loss 1e-2 --direction down --out demo.html     # a download; also draw throughput against time
  bentpipe demo --rate 50Mbit/s --size 20MB --paths bentpipe,bbr
  bentpipe demo --flows 20 --size 2MB --json

Everything happens in private namespaces and ends with the command. It needs root or unprivileged user namespaces.
Time counts from the client's connect() to the receiver's last byte. The limit is the physical limit for any
protocol: rounds x RTT + size x 8 / (rate x 1448/1500 x (1 - loss)), with half a round if the client sends (up), and
one if the client requests and the server sends (down).";

/// Compare bentpipe with TCP end to end: the same transfer over an emulated satellite link
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Rate of the link in each direction
    #[arg(long, default_value = "6Mbit/s")]
    rate: Rate,
    /// Round-trip time of the link
    #[arg(long, value_name = "TIME", default_value = "550ms")]
    rtt: Duration,
    /// Probability that a packet is lost, in each direction
    #[arg(long, value_name = "PROBABILITY", default_value = "1e-3")]
    loss: Probability,
    /// Probability that a packet is delayed by 20ms, so that others overtake it, in each direction
    #[arg(long, value_name = "PROBABILITY", default_value = "0")]
    reorder: Probability,
    /// Probability that a packet arrives twice, in each direction
    #[arg(long, value_name = "PROBABILITY", default_value = "0")]
    duplicate: Probability,
    /// Bytes that each flow transfers
    #[arg(long, default_value = "1MB")]
    size: Bytes,
    /// Number of flows side by side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=500))]
    flows: u16,
    /// Who sends: the client (up), or the server after the client's request (down)
    #[arg(long, value_enum, default_value_t = DirectionArg::Up)]
    direction: DirectionArg,
    /// Seed of the losses: with the same seed, the same packets are lost on every path
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Paths to compare: bentpipe, or a congestion control of the kernel end to end [default: bentpipe, and cubic and
    /// bbr if the kernel has them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    paths: Option<Vec<String>>,
    /// Use IPv6 instead of IPv4
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Write the curves and the table to this file: as a page (.html), or the curves alone as a picture (.svg, .pdf, .png)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Fail a flow after this long without progress
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Duration,
    /// Show the gateways' logs on stderr
    #[arg(long)]
    gateway_logs: bool,
}

impl Args {
    /// The command that gives the same over `paths` again, but for the files that it writes.
    fn command(&self, paths: &[String]) -> String {
        let direction = self.direction.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        let mut command = format!(
            "bentpipe demo --rate {} --rtt {} --loss {} --size {} --flows {} --direction {direction} --seed {} --paths {} --timeout {}",
            exact(&self.rate),
            exact(&self.rtt),
            self.loss,
            exact(&self.size),
            self.flows,
            self.seed,
            paths.join(","),
            exact(&self.timeout),
        );
        for (option, probability) in [("reorder", self.reorder), ("duplicate", self.duplicate)] {
            if probability > Probability::ZERO {
                command.push_str(&format!(" --{option} {probability}"));
            }
        }
        if self.ipv6 {
            command.push_str(" --ipv6");
        }
        command
    }
}

/// What is compared if nothing else is asked for.
const DEFAULT_PATHS: [&str; 3] = ["bentpipe", "cubic", "bbr"];

/// Runs the transfers and shows their results.
///
/// # Errors
/// If the input is wrong, the machine lacks something, or a transfer fails or does not verify.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let experiment = args.experiment()?;
    let paths = args.paths()?;
    let out = args.out.as_deref().map(Destination::create).transpose()?;
    start_in_private()?;
    let mut report = Report::new(args, &experiment, &paths);
    let mut failures = Vec::new();
    for name in &paths {
        let progress = spinner(output, name);
        let outcome = experiment.run(&path(name));
        progress.finish_and_clear();
        match outcome {
            Ok(outcome) => report.paths.push(PathReport::new(name, &experiment, &outcome)),
            Err(error @ lab::Error::Failed(_)) => failures.push(format!("{name}: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    if !report.paths.is_empty() {
        if let Some(out) = out {
            let drawn = match out.kind() {
                Kind::Picture(format) => format.convert(picture::svg(&report.curves())?).map_err(Failure::failed)?,
                Kind::Page => report.replay().html().into_bytes(),
            };
            out.write(&drawn)?;
            output.wrote(&[out.path()]);
        }
        output.result(&report, |columns| report.text(columns))?;
    }
    let unverified = report.paths.iter().filter(|path| !path.verified);
    failures.extend(unverified.map(|path| format!("{}: the data did not verify", path.path)));
    if failures.is_empty() { Ok(()) } else { Err(Failure::failed(failures.join("; "))) }
}

fn path(name: &str) -> Path {
    if name == "bentpipe" { Path::Bentpipe } else { Path::EndToEnd(name.to_owned()) }
}

fn spinner(output: &Output, name: &str) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(format!("measuring {name}"));
    spinner.enable_steady_tick(std::time::Duration::from_millis(100));
    spinner
}

impl Args {
    /// The paths to compare: of those that nobody asked for, the ones that the kernel has.
    fn paths(&self) -> Result<Vec<String>, Failure> {
        let known = |name: &str| {
            let answer = if name == "bentpipe" { Ok(true) } else { has_congestion_control(name) };
            answer.map_err(|error| {
                Failure::missing(format!("cannot query the kernel for the congestion control {name}: {error}"))
            })
        };
        if let Some(paths) = &self.paths {
            for name in paths {
                if !known(name)? {
                    return Err(Failure::usage(format!(
                        "--paths {name}: neither bentpipe nor a congestion control that this kernel has"
                    )));
                }
            }
            return Ok(paths.clone());
        }
        let mut paths = Vec::new();
        for name in DEFAULT_PATHS {
            if known(name)? {
                paths.push(name.to_owned());
            } else {
                tracing::warn!("this kernel has no congestion control {name}: left out");
            }
        }
        Ok(paths)
    }

    /// What is asked for, checked as far as types do not.
    fn experiment(&self) -> Result<Experiment, Failure> {
        // As of a gateway's configuration.
        let (shortest, longest) = (Duration::from_micros(10), Duration::from_secs(60));
        for (wrong, problem) in [
            (self.rate == Rate::ZERO, "--rate must be above 0bit/s"),
            (self.rtt < shortest || self.rtt > longest, "--rtt must be from 10us to 60s"),
            (self.size == Bytes::ZERO, "--size must be above 0B"),
            (self.loss.as_f64() > 0.5, "--loss must not be above 0.5"),
            (self.reorder.as_f64() > 0.5, "--reorder must not be above 0.5"),
            (self.duplicate.as_f64() > 0.5, "--duplicate must not be above 0.5"),
            (self.timeout.is_zero(), "--timeout must be longer than 0s"),
        ] {
            if wrong {
                return Err(Failure::usage(problem));
            }
        }
        Ok(Experiment {
            link: LinkParameters {
                rate: self.rate,
                rtt: self.rtt,
                loss: self.loss,
                reorder: self.reorder,
                duplicate: self.duplicate,
                seed: self.seed,
            },
            satellite: None,
            terminals: 1,
            flows: self.flows.into(),
            workload: Workload {
                direction: self.direction.into(),
                size: self.size,
                checksum: Checksum::Sha256,
                family: family(self.ipv6),
                congestion_control: None,
                send_buffer: None,
                receive_buffer: None,
                timeout: self.timeout,
                seed: self.seed,
            },
            program: this_program()?,
            gateways: gateway_options(self.ipv6, self.gateway_logs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shell::tests::words;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_command_gives_the_same_experiment_again() {
        let given = "demo --rate 2.0480004Mbit/s --rtt 550.1234ms --size 1234567B --reorder 0.015 --timeout 90s -6";
        let paths = ["bentpipe".to_owned(), "cubic".to_owned()];
        let args = Line::parse_from(given.split(' ')).args;
        let command = args.command(&paths);
        let again = Line::parse_from(&words(&command)[1..]).args;
        let of = |args: &Args| {
            let Args { rate, rtt, loss, reorder, duplicate, size, timeout, ipv6, .. } = *args;
            (rate, rtt, loss, reorder, duplicate, size, timeout, ipv6)
        };
        assert_eq!(of(&again), of(&args), "{command}");
        assert_eq!((again.paths.as_deref(), again.command(&paths)), (Some(&paths[..]), command));
    }
}
