//! `bentpipe demo`: the same data over the same satellite link, end to end and through a pair of gateways.

use super::shell::exact;
use crate::curves::{self, Curve};
use crate::destination::Kind;
use crate::output::{Failure, Output};
use crate::picture;
use crate::replay;
use crate::text::Text;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::ProgressBar;
use kernel::namespace::{PRIVATE_DIRECTORY, enter_private};
use lab::transfer::{Checksum, has_congestion_control};
use lab::{CapacityMode, Experiment, Family, Flow, GatewayOptions, LinkParameters, Outcome, Path, Transport, Workload};
use results::listing::{Listing, count, figure, text};
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use units::{Bytes, Duration, Probability, Quantity, Rate};
use web::{Course, Replay};

const EXAMPLES: &str = "\
Examples:
  bentpipe demo                                                  # 1 MB over 6 Mbit/s, 550 ms, one packet in 1000 lost
  bentpipe demo --loss 1e-2 --direction down --out demo.html     # a download; also draw throughput against time
  bentpipe demo --rate 50Mbit/s --size 20MB --paths bentpipe,bbr
  bentpipe demo --flows 20 --size 2MB --json

Everything happens in private namespaces and ends with the command. It needs root or unprivileged user namespaces.
Time counts from the client's connect() to the receiver's last byte. The limit is what the link's physics leave to any
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

/// [`lab::Direction`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// The client sends
    Up,
    /// The client requests and the server sends
    Down,
}

impl From<DirectionArg> for lab::Direction {
    fn from(direction: DirectionArg) -> Self {
        match direction {
            DirectionArg::Up => Self::Up,
            DirectionArg::Down => Self::Down,
        }
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Self {
        match error {
            lab::Error::Missing(_) => Failure::missing(error),
            lab::Error::Input(_) => Failure::usage(error),
            lab::Error::Failed(_) => Failure::failed(error),
        }
    }
}

impl From<kernel::Error> for Failure {
    fn from(error: kernel::Error) -> Self {
        lab::Error::from(error).into()
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
    let out = args.out.as_deref().map(Destination::new).transpose()?;
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
            let drawn = match out.kind {
                Kind::Picture(format) => format.convert(picture::svg(&report.curves())?).map_err(Failure::failed)?,
                Kind::Page => report.replay().html().into_bytes(),
            };
            out.write(&drawn)?;
            output.wrote(&[out.path]);
        }
        output.result(&report, |columns| report.text(columns))?;
    }
    let unverified = report.paths.iter().filter(|path| !path.verified);
    failures.extend(unverified.map(|path| format!("{}: the data did not verify", path.path)));
    if failures.is_empty() { Ok(()) } else { Err(Failure::failed(failures.join("; "))) }
}

/// A file that is written when there is a result, and not touched before.
struct Destination<'a> {
    path: &'a std::path::Path,
    kind: Kind,
    /// Opened before the process moves into a mount namespace of its own, where the path may mean something else.
    directory: File,
}

impl<'a> Destination<'a> {
    /// Tells at once if `path` cannot be written, or ends with no known extension.
    fn new(path: &'a std::path::Path) -> Result<Self, Failure> {
        let kind = Kind::of(path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let open = || -> io::Result<File> {
            match File::options().append(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    File::create_new(path)?;
                    fs::remove_file(path)?;
                }
                other => drop(other?),
            }
            File::open(directory.unwrap_or(".".as_ref()))
        };
        let directory = open().map_err(|error| Failure::usage(format!("--out {}: {error}", path.display())))?;
        Ok(Self { path, kind, directory })
    }

    fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let directory = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        fs::write(directory.join(self.path.file_name().unwrap_or_default()), content)
            .map_err(|error| Failure::failed(format!("{}: {error}", self.path.display())))
    }
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
            answer.map_err(|error| Failure::missing(format!("cannot ask for the congestion control {name}: {error}")))
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

/// The Internet Protocol for `--ipv6` or its absence.
pub fn family(ipv6: bool) -> Family {
    if ipv6 { Family::V6 } else { Family::V4 }
}

/// Gateways whose files live in the private file system of this process.
pub fn gateway_options(ipv6: bool, show_logs: bool) -> GatewayOptions {
    let directory = PathBuf::from(PRIVATE_DIRECTORY).join("bentpipe-lab");
    GatewayOptions {
        directory,
        family: family(ipv6),
        clear: false,
        show_logs,
        capacity: CapacityMode::default(),
        configured_rates: None,
        link_updates: false,
        transport: Transport::Satpep,
        congestion_control: None,
        target_queue: None,
        max_streams: None,
        repair: true,
        workers: None,
    }
}

/// Moves the process into private namespaces, and before the other load of the machine where that is allowed: packets
/// that leave late because another process has the processor would be measured as the link's fault.
///
/// # Errors
/// If the machine allows no private namespaces.
pub fn start_in_private() -> Result<(), Failure> {
    let before_others = kernel::process::run_before_others();
    tracing::debug!(before_others, "priority");
    Ok(enter_private()?)
}

/// The program that is running, to start it again as a gateway.
///
/// # Errors
/// If the system does not report it.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::missing(format!("cannot tell where this program is: {error}")))
}

/// The result of a demo.
#[derive(Debug, Serialize)]
struct Report {
    /// The command that gives it again.
    command: String,
    link: LinkReport,
    transfer: TransferReport,
    paths: Vec<PathReport>,
}

#[derive(Debug, Serialize)]
struct LinkReport {
    rate_bps: u64,
    rtt_s: f64,
    loss: Probability,
    reorder: Probability,
    duplicate: Probability,
    queue_bytes: u64,
    seed: u64,
}

#[derive(Debug, Serialize)]
struct TransferReport {
    size_bytes: u64,
    flows: usize,
    direction: lab::Direction,
}

#[derive(Debug, Serialize)]
struct PathReport {
    path: String,
    time_s: f64,
    goodput_bps: u64,
    limit_s: f64,
    limit_share: f64,
    /// Bytes of IP packets sent into the link in the data's direction, over bytes of data.
    overhead: f64,
    verified: bool,
    jain_index: f64,
    flows: Vec<FlowReport>,
    /// Packets of the data's direction that the link's queue and the link itself lost.
    dropped: emulator::Dropped,
    /// How late the emulator was against its model.
    lateness_us: emulator::Lateness,
    curve: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct FlowReport {
    time_s: f64,
    goodput_bps: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Point {
    time_s: f64,
    throughput_bps: u64,
}

/// Intervals of the longest curve.
const CURVE_STEPS: u64 = 120;

impl Report {
    fn new(args: &Args, experiment: &Experiment, paths: &[String]) -> Self {
        let LinkParameters { rate, rtt, loss, reorder, duplicate, seed } = experiment.link;
        Self {
            command: args.command(paths),
            link: LinkReport {
                rate_bps: rate.as_bps(),
                rtt_s: rtt.as_secs_f64(),
                loss,
                reorder,
                duplicate,
                queue_bytes: rate.bytes_in(rtt).as_u64(),
                seed,
            },
            transfer: TransferReport {
                size_bytes: args.size.as_u64(),
                flows: experiment.flows,
                direction: experiment.workload.direction,
            },
            paths: Vec::new(),
        }
    }

    fn title(&self) -> String {
        let flows = match self.transfer.flows {
            1 => String::new(),
            flows => format!("{flows} x "),
        };
        let way = match self.transfer.direction {
            lab::Direction::Up => "from the client to the server",
            lab::Direction::Down => "from the server to the client",
        };
        let mut harm = format!("{} of the packets lost", self.link.loss);
        for (what, probability) in [("reordered", self.link.reorder), ("duplicated", self.link.duplicate)] {
            if probability > Probability::ZERO {
                harm.push_str(&format!(", {probability} {what}"));
            }
        }
        format!(
            "{flows}{} {way}, {} and {} round-trip time, {harm}",
            Bytes::new(self.transfer.size_bytes),
            Rate::from_bps(self.link.rate_bps),
            Duration::from_secs_f64(self.link.rtt_s),
        )
    }

    fn replay(&self) -> Replay {
        let mut fast = self.paths.iter().collect::<Vec<_>>();
        fast.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        let subject = fast.iter().find(|path| path.path == "bentpipe").or(fast.first());
        let headline = subject.map_or_else(String::new, |subject| {
            let others = self.paths.iter().filter(|path| path.path != subject.path);
            let others: Vec<_> = others.map(|path| (path.path.clone(), path.time_s)).collect();
            web::headline(&subject.path, subject.time_s, &others, Some(subject.limit_share))
        });
        Replay {
            title: self.title(),
            headline,
            courses: self.paths.iter().map(|path| path.course(self.transfer.bytes())).collect(),
            limit: self.paths.first().map(|path| self.limit(path.limit_s)),
            tables: vec![replay::table("Paths", &self.table(), 1)],
            note: "Time counts from the client's connect() to the receiver's last byte. Measured by".into(),
            command: self.command.clone(),
        }
    }

    /// What the link's physics allow: nothing until the first byte can have arrived, then the link's rate.
    fn limit(&self, end_s: f64) -> Course {
        let rounds = match self.transfer.direction {
            lab::Direction::Up => 0.5,
            lab::Direction::Down => 1.0,
        };
        let points = vec![(0.0, 0.0), (rounds * self.link.rtt_s, 0.0), (end_s, self.transfer.bytes())];
        Course { name: "limit of the link".into(), points }
    }

    /// For people.
    fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        text.lines(self.title()).blank().listing(&self.table()).blank();
        text.verbatim(curves::draw(&self.curves(), self.link.rate_bps as f64 / 1e6, columns));
        text
    }

    fn table(&self) -> Listing {
        let fair = (self.transfer.flows > 1).then(|| figure("Jain index", Quantity::Index));
        let columns = [
            text("path"),
            figure("time", Quantity::Time),
            figure("goodput", Quantity::Rate),
            figure("of the limit", Quantity::Share),
            figure("overhead", Quantity::Share),
            count("verified"),
        ];
        let has_fair = fair.is_some();
        let mut listing = Listing::new(columns.into_iter().chain(fair));
        for path in &self.paths {
            let row = [
                path.path.as_str().into(),
                path.time_s.into(),
                (path.goodput_bps as f64).into(),
                path.limit_share.into(),
                (path.overhead - 1.0).into(),
                if path.verified { "yes" } else { "NO" }.into(),
            ];
            listing.add(row.into_iter().chain(has_fair.then(|| path.jain_index.into())));
        }
        listing
    }

    fn curves(&self) -> Vec<Curve> {
        let of = |path: &PathReport| Curve {
            name: path.path.clone(),
            points: path.curve.iter().map(|point| (point.time_s, point.throughput_bps as f64 / 1e6)).collect(),
        };
        self.paths.iter().map(of).collect()
    }
}

impl TransferReport {
    /// Of all flows.
    fn bytes(&self) -> f64 {
        self.size_bytes as f64 * self.flows as f64
    }
}

impl PathReport {
    /// Its curve as bytes received.
    fn course(&self, whole: f64) -> Course {
        let (mut before, mut bytes) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for point in self.curve.iter().take_while(|point| point.time_s < self.time_s) {
            bytes += point.throughput_bps as f64 / 8.0 * (point.time_s - before);
            before = point.time_s;
            points.push((before, bytes.min(whole)));
        }
        points.push((self.time_s, whole));
        Course { name: self.path.clone(), points }
    }

    fn new(name: &str, experiment: &Experiment, outcome: &Outcome) -> Self {
        let (time, limit) = (outcome.time(), experiment.limit());
        let carried = match experiment.workload.direction {
            lab::Direction::Up => &outcome.satellite.up,
            lab::Direction::Down => &outcome.satellite.down,
        };
        let step = (time / CURVE_STEPS).max(Duration::from_millis(20));
        let curve = outcome.curve(step).into_iter();
        Self {
            path: name.to_owned(),
            time_s: time.as_secs_f64(),
            goodput_bps: Rate::from_transfer(outcome.bytes(), time).as_bps(),
            limit_s: limit.as_secs_f64(),
            limit_share: limit.as_secs_f64() / time.as_secs_f64(),
            overhead: outcome.link_bytes.as_u64() as f64 / experiment.total().as_u64() as f64,
            verified: outcome.verified(),
            jain_index: outcome.jain_index(),
            flows: outcome.flows.iter().map(FlowReport::new).collect(),
            dropped: carried.dropped,
            lateness_us: carried.lateness_us,
            curve: curve.map(|(time_s, bps)| Point { time_s, throughput_bps: bps.round() as u64 }).collect(),
        }
    }
}

impl FlowReport {
    fn new(flow: &Flow) -> Self {
        Self { time_s: flow.time().as_secs_f64(), goodput_bps: flow.goodput().as_bps() }
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
