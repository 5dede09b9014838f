//! `bentpipe emulate`: a satellite link in real time between two interfaces.

mod capacity_log;
mod link_file;

use crate::commands::modem::{End, Modems, Site};
use crate::output::{Failure, Output};
use capacity_log::CapacityLog;
use clap::{Args as ClapArgs, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use emulator::{Config, DirectionReport, Emulator, Monitor, Report, TerminalReport};
use indicatif::{ProgressBar, ProgressStyle};
use kernel::Namespace;
use kernel::packet::PacketSocket;
use link::{Codel, Discipline, FqCodel, GilbertElliott, Handover, LinkConfig, LossModel, Preset, QueueLimit, Reorder};
use link_file::{Links, Up};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time;
use units::{Bytes, Duration, Instant, Probability, Rate};

const LONG_ABOUT: &str = "\
Makes real packets between two network interfaces obey a satellite link.

The two interfaces become the ends of the link, like two ports of a bridge: hosts behind IF_A (the terminal's side) and
hosts behind IF_B (the hub's side) see each other on the link layer, but every packet meets the link's rate, queue,
delay and losses. Up is from IF_A to IF_B, down from IF_B to IF_A. The interfaces must not carry addresses of this host
or belong to a bridge; veth interfaces and network cards both do. Needs CAP_NET_RAW where the interfaces are.

It runs until interrupted, or for --duration, and then prints what became of every packet, and how much later than the
model packets left (lateness).";

const EXAMPLES: &str = "\
Examples:
  bentpipe emulate --between veth0 veth1                         6 Mbit/s both ways, 550 ms round trip
  bentpipe emulate --between veth0 veth1 --preset dvb-rcs --loss-down 1e-3
  bentpipe emulate --between terminal:eth0 hub:eth0 --rate-up 2Mbit/s --rate-down 20Mbit/s --rtt 600ms
  bentpipe emulate --between veth0 veth1 --rate unlimited --delay 10ms --queue 100packets --duration 60s --json
  bentpipe emulate --between veth0 veth1 --loss-down 1e-2 --burst-down 8 --discipline fq-codel
  bentpipe emulate --between veth0 veth1 --link rain.toml --arrival-log arrivals.csv
  bentpipe emulate --between veth0 veth1 --link rain.toml --dlep mgmt0     tell a router at mgmt0 each rate, by DLEP

A link file is TOML: [up] and [down], or [both], with everything that a link may be (docs/link.md):
  [both]
  rate = \"6Mbit/s\"
  delay = { geo = { satellite_longitude = -34.5, stations = [
    { latitude = 38.1157, longitude = 13.3615 }, { latitude = 29.7604, longitude = -95.3698 }] } }
  queue = { packets = 300 }
  rate_steps = { file = \"rain.trace\", repeat = \"10min\" }
  loss = { timed_gilbert_elliott = { mean_good = \"20s\", mean_bad = \"300ms\", loss_bad = 1.0 } }
Instead of [up], terminals may share a return carrier on demand (DAMA; docs/link.md), told apart by where packets come from:
  [carrier.return]
  rate = \"4Mbit/s\"
  [[terminal]]
  name = \"one\"
  networks = [\"198.18.1.0/24\"]
  up = { delay = \"260ms\", queue = { packets = 500 }, dama = { carrier = \"return\", rbdc = \"2Mbit/s\" } }
  dlep = \"mgmt0\"                                 its modem tells routers there what it is given

Presets:
  geo      6 Mbit/s both ways, 550 ms round trip
  acts-t1  1.536 Mbit/s both ways, 560 ms round trip
  dvb-rcs  8 Mbit/s down, 2 Mbit/s up, 500 ms round trip";

/// Make real packets between two interfaces obey a satellite link
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The interfaces at the ends of the link; NAMESPACE:IF for one in a named network namespace (`ip netns`)
    #[arg(long, num_args = 2, value_names = ["IF_A", "IF_B"], required = true)]
    between: Vec<Port>,
    /// The link to start from; the options below change it
    #[arg(long, default_value = "geo")]
    preset: Preset,
    /// A file (TOML) with the link to start from, instead of a preset
    #[arg(long = "link", value_name = "FILE", conflicts_with = "preset")]
    link_file: Option<PathBuf>,
    /// Seed of the random processes: equal seeds, equal fates [default: that of the link file, or 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Write what became of every packet to a file: `direction,number,arrived_ns,bytes,flow,fate,at_ns`
    #[arg(long, value_name = "FILE")]
    arrival_log: Option<PathBuf>,
    /// Write what each terminal of a carrier asked for, was given and used in each superframe to a file (CSV)
    #[arg(long, value_name = "FILE", requires = "link_file")]
    capacity_log: Option<PathBuf>,
    /// Stop after so long [default: run until interrupted]
    #[arg(long)]
    duration: Option<Duration>,
    /// Watch the clock instead of sleeping for so long before a departure: less lateness, more processor time
    #[arg(long, default_value = "0s")]
    spin: Duration,
    /// Be the terminal's modem, too: tell routers at this interface by DLEP (RFC 8175) what the link carries at each change;
    /// NAMESPACE:IF for one in a named namespace. It is none of the two of the link, and has an address
    #[arg(long, value_name = "IF")]
    dlep: Option<Port>,
    /// Be the hub's modem, too
    #[arg(long, value_name = "IF")]
    dlep_hub: Option<Port>,
    /// How often these modems tell that they are there, 100ms to 10min
    #[arg(long, default_value = "5s", value_name = "INTERVAL")]
    dlep_heartbeat: Duration,
    #[command(flatten)]
    link: LinkArgs,
}

/// Changes to the preset; each holds for both directions unless there is one for the direction.
#[derive(ClapArgs)]
#[command(next_help_heading = "Link (both ways, or with -up and -down one way)")]
struct LinkArgs {
    /// Rate of IP packets, or `unlimited`
    #[arg(long)]
    rate: Option<RateLimit>,
    #[arg(long, hide_short_help = true, value_name = "RATE")]
    rate_up: Option<RateLimit>,
    #[arg(long, hide_short_help = true, value_name = "RATE")]
    rate_down: Option<RateLimit>,
    /// Round-trip time without queues: half of it each way
    #[arg(long, conflicts_with_all = ["delay", "delay_up", "delay_down"])]
    rtt: Option<Duration>,
    /// Propagation delay one way
    #[arg(long)]
    delay: Option<Duration>,
    #[arg(long, hide_short_help = true, value_name = "DELAY")]
    delay_up: Option<Duration>,
    #[arg(long, hide_short_help = true, value_name = "DELAY")]
    delay_down: Option<Duration>,
    /// What may wait: 100packets, 320KiB, 2BDP (of the rate and the round trip), or `unlimited` [default: that of the link
    /// file, or 1BDP]
    #[arg(long)]
    queue: Option<QueueSize>,
    #[arg(long, hide_short_help = true, value_name = "QUEUE")]
    queue_up: Option<QueueSize>,
    #[arg(long, hide_short_help = true, value_name = "QUEUE")]
    queue_down: Option<QueueSize>,
    /// Which packets the queue gives up: the last to come, or those at its head once they have waited too long
    #[arg(long, value_enum)]
    discipline: Option<QueueDiscipline>,
    #[arg(long, hide_short_help = true, value_enum)]
    discipline_up: Option<QueueDiscipline>,
    #[arg(long, hide_short_help = true, value_enum)]
    discipline_down: Option<QueueDiscipline>,
    /// Probability that a packet is lost
    #[arg(long, conflicts_with = "ber", value_name = "P")]
    loss: Option<Probability>,
    #[arg(long, hide_short_help = true, conflicts_with = "ber_up", value_name = "P")]
    loss_up: Option<Probability>,
    #[arg(long, hide_short_help = true, conflicts_with = "ber_down", value_name = "P")]
    loss_down: Option<Probability>,
    /// Lose packets in bursts of so many in the mean, as many altogether as --loss says
    #[arg(long, requires = "loss", value_name = "PACKETS")]
    burst: Option<f64>,
    #[arg(long, hide_short_help = true, requires = "loss_up", value_name = "PACKETS")]
    burst_up: Option<f64>,
    #[arg(long, hide_short_help = true, requires = "loss_down", value_name = "PACKETS")]
    burst_down: Option<f64>,
    /// Lose these packets, by their number among those sent on the link, the first being 0
    #[arg(long, conflicts_with_all = ["loss", "ber"], value_delimiter = ',', value_name = "N,…")]
    drop: Vec<u64>,
    #[arg(long, hide_short_help = true, conflicts_with_all = ["loss_up", "ber_up"], value_delimiter = ',', value_name = "N,…")]
    drop_up: Vec<u64>,
    #[arg(long, hide_short_help = true, conflicts_with_all = ["loss_down", "ber_down"], value_delimiter = ',', value_name = "N,…")]
    drop_down: Vec<u64>,
    /// Bit error rate after correction: long packets are lost more often
    #[arg(long, value_name = "P")]
    ber: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    ber_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    ber_down: Option<Probability>,
    /// Fraction of packets that are held back, so that others overtake them
    #[arg(long, value_name = "P")]
    reorder: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    reorder_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    reorder_down: Option<Probability>,
    /// By how long those are held back
    #[arg(long, default_value = "10ms", value_name = "DELAY")]
    reorder_delay: Duration,
    /// Fraction of packets that arrive twice
    #[arg(long, value_name = "P")]
    duplicate: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    duplicate_up: Option<Probability>,
    #[arg(long, hide_short_help = true, value_name = "P")]
    duplicate_down: Option<Probability>,
}

/// An interface, perhaps in a named namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Port {
    namespace: Option<String>,
    interface: String,
}

impl FromStr for Port {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, interface) = match text.split_once(':') {
            Some((namespace, interface)) => (Some(namespace.to_owned()), interface),
            None => (None, text),
        };
        if interface.is_empty() || namespace.as_deref() == Some("") {
            return Err("write IF or NAMESPACE:IF".to_owned());
        }
        Ok(Self { namespace, interface: interface.to_owned() })
    }
}

impl TryFrom<String> for Port {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Port> for String {
    fn from(Port { namespace, interface }: Port) -> Self {
        namespace.map_or(interface.clone(), |namespace| format!("{namespace}:{interface}"))
    }
}

impl Port {
    fn open(&self) -> Result<PacketSocket, Failure> {
        let opened = match &self.namespace {
            None => emulator::open(&self.interface),
            Some(name) => {
                let namespace = Namespace::named(name)
                    .map_err(|error| Failure::usage(format!("network namespace {name}: {error}")))?;
                namespace.run(|| emulator::open(&self.interface)).map_err(lacking)?
            }
        };
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::usage(error),
            io::ErrorKind::PermissionDenied => {
                Failure::missing(format!("{error}: emulating a link needs CAP_NET_RAW (run it as root)"))
            }
            _ => Failure::failed(error),
        })
    }
}

fn lacking(error: kernel::Error) -> Failure {
    if error.is_missing() { Failure::missing(error) } else { Failure::failed(error) }
}

/// A rate, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateLimit(Option<Rate>);

impl FromStr for RateLimit {
    type Err = units::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unlimited" { Ok(Self(None)) } else { Rate::parse(text).map(|rate| Self(Some(rate))) }
    }
}

/// How the size of a queue is given.
#[derive(Debug, Clone, Copy, PartialEq)]
enum QueueSize {
    Limit(QueueLimit),
    /// So many bandwidth-delay products.
    BandwidthDelayProducts(f64),
}

impl FromStr for QueueSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unlimited" {
            return Ok(Self::Limit(QueueLimit::Unlimited));
        }
        if let Some(number) = text.strip_suffix("BDP") {
            let products: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
            return if products > 0.0 && products <= 1000.0 {
                Ok(Self::BandwidthDelayProducts(products))
            } else {
                Err("it is not above 0BDP and at most 1000BDP".to_owned())
            };
        }
        if let Some(number) = text.strip_suffix("packets") {
            let packets = number.trim().parse().map_err(|_| format!("`{number}` is not a number of packets"))?;
            return Ok(Self::Limit(QueueLimit::Packets(packets)));
        }
        let bytes = Bytes::parse(text).map_err(|_| "write for example 100packets, 320KiB, 1BDP or unlimited")?;
        Ok(Self::Limit(QueueLimit::Bytes(bytes)))
    }
}

/// A discipline with its usual parameters; a link file may set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QueueDiscipline {
    /// First in, first out; what finds the queue full is dropped
    DropTail,
    /// RFC 8289: target 5 ms, interval 100 ms
    Codel,
    /// RFC 8290: the same for each flow, and flows take turns
    FqCodel,
}

impl From<QueueDiscipline> for Discipline {
    fn from(discipline: QueueDiscipline) -> Self {
        match discipline {
            QueueDiscipline::DropTail => Discipline::DropTail,
            QueueDiscipline::Codel => Discipline::Codel(Codel::default()),
            QueueDiscipline::FqCodel => Discipline::FqCodel(FqCodel::default()),
        }
    }
}

/// The options of one direction, those for both ways included.
struct Overrides {
    rate: Option<RateLimit>,
    delay: Option<Duration>,
    queue: Option<QueueSize>,
    discipline: Option<QueueDiscipline>,
    loss: Option<LossModel>,
    reorder: Option<Probability>,
    duplicate: Option<Probability>,
}

impl LinkArgs {
    fn up(&self) -> Result<Overrides, Failure> {
        let own = loss(self.loss_up, self.burst_up, self.ber_up, &self.drop_up)?;
        Ok(Overrides {
            rate: self.rate_up.or(self.rate),
            delay: self.delay_up.or(self.one_way()),
            queue: self.queue_up.or(self.queue),
            discipline: self.discipline_up.or(self.discipline),
            loss: own.or(self.loss_both()?),
            reorder: self.reorder_up.or(self.reorder),
            duplicate: self.duplicate_up.or(self.duplicate),
        })
    }

    fn down(&self) -> Result<Overrides, Failure> {
        let own = loss(self.loss_down, self.burst_down, self.ber_down, &self.drop_down)?;
        Ok(Overrides {
            rate: self.rate_down.or(self.rate),
            delay: self.delay_down.or(self.one_way()),
            queue: self.queue_down.or(self.queue),
            discipline: self.discipline_down.or(self.discipline),
            loss: own.or(self.loss_both()?),
            reorder: self.reorder_down.or(self.reorder),
            duplicate: self.duplicate_down.or(self.duplicate),
        })
    }

    fn loss_both(&self) -> Result<Option<LossModel>, Failure> {
        loss(self.loss, self.burst, self.ber, &self.drop)
    }

    fn one_way(&self) -> Option<Duration> {
        self.delay.or(self.rtt.map(|rtt| rtt / 2))
    }
}

/// The model that the options for losses of one direction, or of both, stand for.
fn loss(
    probability: Option<Probability>,
    burst: Option<f64>,
    bit_error_rate: Option<Probability>,
    drop_list: &[u64],
) -> Result<Option<LossModel>, Failure> {
    if !drop_list.is_empty() {
        return Ok(Some(LossModel::DropList(drop_list.to_vec())));
    }
    match (probability, burst, bit_error_rate) {
        (Some(loss), Some(burst), _) => {
            let model = GilbertElliott::with_bursts(loss, burst).ok_or_else(|| {
                let problem = "a burst is at least one packet long, and between two there is another packet";
                Failure::usage(format!("--loss {loss} --burst {burst}: {problem}"))
            })?;
            Ok(Some(LossModel::GilbertElliott(model)))
        }
        (Some(loss), None, _) => Ok(Some(LossModel::Bernoulli(loss))),
        (None, _, rate) => Ok(rate.map(LossModel::BitErrorRate)),
    }
}

impl Args {
    /// The links up and down.
    fn links(&self) -> Result<Links, Failure> {
        let (up, down) = (self.link.up()?, self.link.down()?);
        let mut links = match &self.link_file {
            Some(path) => link_file::read(path)?,
            None => Links { up: Up::Link(Box::new(self.preset.return_link())), down: self.preset.forward() },
        };
        let (delay_up, delay_down) = (links.up.links_mut().next().map(|link| link.delay), links.down.delay);
        let rtt = up.delay.or(delay_up).unwrap_or_default() + down.delay.unwrap_or(delay_down);
        links.up.links_mut().for_each(|link| *link = self.link_with(link.clone(), &up, rtt));
        links.down = self.link_with(links.down, &down, rtt);
        if let (Up::Carrier { carrier, .. }, Some(seed)) = (&mut links.up, self.seed) {
            carrier.seed = seed;
        }
        Ok(links)
    }

    fn link_with(&self, base: LinkConfig, overrides: &Overrides, rtt: Duration) -> LinkConfig {
        let rate = overrides.rate.map_or(base.rate, |limit| limit.0);
        let product = |products| {
            rate.map_or(QueueLimit::Unlimited, |rate| QueueLimit::bandwidth_delay_product(rate, rtt.mul_f64(products)))
        };
        let queue = match overrides.queue {
            Some(QueueSize::Limit(limit)) => limit,
            Some(QueueSize::BandwidthDelayProducts(products)) => product(products),
            None if self.link_file.is_some() => base.queue,
            None => product(1.0),
        };
        let extra_delay = self.link.reorder_delay;
        let reorder = overrides.reorder.map(|probability| Reorder { probability, extra_delay });
        LinkConfig {
            rate,
            queue,
            delay: overrides.delay.unwrap_or(base.delay),
            discipline: overrides.discipline.map_or(base.discipline, Discipline::from),
            loss: overrides.loss.clone().unwrap_or(base.loss),
            reorder: reorder.or(base.reorder),
            duplicate: overrides.duplicate.unwrap_or(base.duplicate),
            seed: self.seed.unwrap_or(base.seed),
            ..base
        }
    }
}

/// The JSON document: the links, and what happened on them.
#[derive(Serialize)]
struct Document<'a> {
    links: &'a Links,
    #[serde(flatten)]
    report: &'a Report,
}

/// Emulates until interrupted or for the duration asked for, then reports.
///
/// # Errors
/// If an argument is wrong (2), a privilege is missing (3), or an interface was removed (1).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let [first, second] = args.between.as_slice() else {
        return Err(Failure::usage("--between takes two interfaces"));
    };
    if first == second {
        return Err(Failure::usage(format!("--between {0} {0}: a link has two ends", first.interface)));
    }
    let links = args.links()?;
    let ways = [links.way_up(), links.down.clone().into()];
    for (direction, way) in ["up", "down"].into_iter().zip(&ways) {
        way.validate().map_err(|error| Failure::usage(format!("{direction}: {error}")))?;
    }
    let modems = modems(args, &links)?;
    let [up, down] = ways;
    let config = Config { spin: args.spin, ..Config::new(up, down) };
    let mut emulator = Emulator::new(config, first.open()?, second.open()?).map_err(Failure::usage)?;
    if let Some(path) = &args.arrival_log {
        let file =
            File::create(path).map_err(|error| Failure::usage(format!("--arrival-log {}: {error}", path.display())))?;
        emulator.log_arrivals(file).map_err(Failure::usage)?;
    }
    let capacity_log = match &args.capacity_log {
        Some(path) => Some(CapacityLog::create(path, &links.up, emulator.monitor())?),
        None => None,
    };
    if capacity_log.is_some() {
        emulator.record_capacity();
    }
    match &links.up {
        Up::Link(link) => tracing::info!("up: {}", describe(link)),
        Up::Carrier { carrier, terminal } => {
            tracing::info!("up: {} that {} terminals share on demand", carrier.rate, terminal.len());
        }
    }
    tracing::info!("down: {}", describe(&links.down));
    let modems = modems.start(emulator.monitor())?;
    let report = run_until_told(emulator, args.duration, capacity_log, output)?;
    drop(modems);
    output.result(&Document { links: &links, report: &report }, || tables(&report))
}

/// The highest rate that `link` ever has; `None` if it has none.
fn highest_rate(link: &LinkConfig) -> Option<Rate> {
    let steps = link.rate_steps.iter().flat_map(|steps| steps.steps.iter().map(|(_, rate)| *rate));
    let handover = link.handover.and_then(|handover| handover.rate).map(|[_, highest]| highest);
    steps.chain(handover).chain(link.rate).max()
}

/// The modems that are wanted, waiting for routers.
fn modems(args: &Args, links: &Links) -> Result<Modems, Failure> {
    let allowed = Duration::from_millis(100)..=Duration::from_secs(600);
    if !allowed.contains(&args.dlep_heartbeat) {
        return Err(Failure::usage(format!("--dlep-heartbeat {}: expected 100ms to 10min", args.dlep_heartbeat)));
    }
    let mut modems = Modems::new(args.dlep_heartbeat);
    let mut add = |option: &str, port: &Port, site: Site| {
        if args.between.contains(port) {
            let interface = &port.interface;
            return Err(Failure::usage(format!(
                "{option} {interface}: expected an interface that is none of the link's"
            )));
        }
        modems.add(option, port.namespace.as_deref(), &port.interface, site)
    };
    let down = highest_rate(&links.down);
    let (up, delay) = match &links.up {
        Up::Link(link) => (highest_rate(link), link.delay),
        Up::Carrier { carrier, terminal } => {
            if args.dlep.is_some() {
                let problem = "terminals share a carrier: write dlep = \"IF\" with the terminal in the link file";
                return Err(Failure::usage(format!("--dlep: {problem}")));
            }
            for (number, terminal) in terminal.iter().enumerate() {
                let most = terminal.up.dama.as_ref().map(|dama| dama.most(carrier));
                let site = Site { end: End::Terminal(number), highest: [most, down], delay: terminal.up.delay };
                if let Some(port) = &terminal.dlep {
                    add(&format!("terminal {}: dlep", terminal.name), port, site)?;
                }
            }
            (Some(carrier.rate), terminal.first().map_or(Duration::ZERO, |terminal| terminal.up.delay))
        }
    };
    let highest = [up, down];
    if let Some(port) = &args.dlep {
        add("--dlep", port, Site { end: End::Near, highest, delay })?;
    }
    if let Some(port) = &args.dlep_hub {
        add("--dlep-hub", port, Site { end: End::Far, highest, delay: links.down.delay })?;
    }
    Ok(modems)
}

/// Runs the emulator on a thread of its own until a signal, the end of `duration`, or its own end.
fn run_until_told(
    emulator: Emulator,
    duration: Option<Duration>,
    mut capacity_log: Option<CapacityLog>,
    output: &Output,
) -> Result<Report, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop)).map_err(Failure::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    let monitor = emulator.monitor();
    let stop_inside = Arc::clone(&stop);
    let thread = thread::Builder::new()
        .name("emulator".to_owned())
        .spawn(move || emulator.run(&stop_inside))
        .map_err(Failure::failed)?;
    let mut status = output.shows_progress().then(|| StatusLine::new(monitor));
    let deadline = duration.map(|duration| kernel::clock::now() + duration);
    while !stop.load(Ordering::Relaxed) && !thread.is_finished() {
        let now = kernel::clock::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let Some(status) = &mut status {
            status.show(now);
        }
        // What could not be written is reported in the end.
        if capacity_log.as_mut().is_some_and(|log| log.write().is_err()) {
            break;
        }
        let rest = deadline.map_or(Duration::MAX, |deadline| deadline.since(now));
        thread::sleep(time::Duration::from(rest.min(Duration::from_millis(50))));
    }
    stop.store(true, Ordering::Relaxed);
    if let Some(status) = status {
        status.bar.finish_and_clear();
    }
    let report = match thread.join() {
        Ok(result) => result.map_err(Failure::failed)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    capacity_log.map_or(Ok(()), CapacityLog::finish)?;
    Ok(report)
}

/// One line on a terminal that says what is going through.
struct StatusLine {
    bar: ProgressBar,
    monitor: Monitor,
    /// When the line was last drawn, and the bytes delivered up and down until then.
    last: (Instant, [u64; 2]),
}

impl StatusLine {
    const INTERVAL: Duration = Duration::from_millis(500);

    fn new(monitor: Monitor) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, monitor, last: (Instant::ZERO, [0; 2]) }
    }

    fn show(&mut self, now: Instant) {
        let interval = now.since(self.last.0);
        if interval < Self::INTERVAL {
            return;
        }
        let report = self.monitor.report();
        let delivered = [report.up.delivered.bytes, report.down.delivered.bytes];
        let part = |name: &str, direction: &DirectionReport, index: usize| {
            let rate = Rate::from_transfer(Bytes::new(delivered[index] - self.last.1[index]), interval);
            let dropped = &direction.dropped;
            format!(
                "{name} {rate}, {} lost, {} queue full, late {:.0}/{:.0}/{:.0} us",
                dropped.loss.packets,
                dropped.queue_full.packets,
                direction.lateness_us.p50,
                direction.lateness_us.p99,
                direction.lateness_us.p999,
            )
        };
        let line = format!("{}  |  {}", part("up", &report.up, 0), part("down", &report.down, 1));
        self.last = (now, delivered);
        self.bar.set_message(line);
        self.bar.tick();
    }
}

/// A link in one line.
fn describe(link: &LinkConfig) -> String {
    let rate = match link {
        LinkConfig { opportunities: Some(_), .. } => "recorded opportunities".to_owned(),
        LinkConfig { rate_steps: Some(_), .. } => "rate in steps".to_owned(),
        LinkConfig { rate: Some(rate), .. } => rate.to_string(),
        LinkConfig { rate: None, .. } => "unlimited rate".to_owned(),
    };
    let queue = match link.queue {
        QueueLimit::Packets(packets) => format!("queue of {packets} packets"),
        QueueLimit::Bytes(bytes) => format!("queue of {bytes}"),
        QueueLimit::Unlimited => "no limit to the queue".to_owned(),
    };
    let loss = match &link.loss {
        LossModel::None => String::new(),
        LossModel::Bernoulli(probability) => format!(", loss {probability}"),
        LossModel::BitErrorRate(rate) => format!(", bit error rate {rate}"),
        LossModel::GilbertElliott(_) | LossModel::TimedGilbertElliott(_) => ", losses in bursts".to_owned(),
        LossModel::DropList(_) | LossModel::DropFile(_) => ", listed losses".to_owned(),
        LossModel::Steps(_) => ", losses by time".to_owned(),
    };
    let delay = match link {
        LinkConfig { handover: Some(Handover { period, delay: [low, high], .. }), .. } => {
            format!("{low} to {high} one way, another satellite every {period}")
        }
        LinkConfig { delay_steps: Some(_), .. } => "delay in steps".to_owned(),
        LinkConfig { delay, .. } => format!("{delay} one way"),
    };
    format!("{rate}, {delay}, {queue}{loss}")
}

/// The report for people: all packets, and the terminals of a carrier.
fn tables(report: &Report) -> String {
    let packets = packets(report);
    if report.up.terminals.is_empty() {
        return packets.to_string();
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["terminal", "requests", "given", "used", "constant", "by rate", "by volume", "free"]);
    for TerminalReport { name, totals, .. } in &report.up.terminals {
        let (given, used) = (totals.allocated_bytes(), totals.used_bytes);
        let share = if given == 0 { 0.0 } else { 100.0 * used as f64 / given as f64 };
        let bytes = [totals.cra_bytes, totals.rbdc_bytes, totals.vbdc_bytes, totals.fca_bytes];
        let kinds = bytes.map(|bytes| Bytes::new(bytes).to_string());
        let row = [name.clone(), totals.requests.to_string(), Bytes::new(given).to_string(), format!("{share:.1} %")];
        table.add_row(row.into_iter().chain(kinds));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{packets}\n{table}")
}

fn packets(report: &Report) -> Table {
    let (up, down) = (&report.up, &report.down);
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "packets".to_owned(),
        format!("up ({} to {})", up.from, up.to),
        format!("down ({} to {})", down.from, down.to),
    ]);
    let mut row = |name: &str, value: &dyn Fn(&DirectionReport) -> String| {
        table.add_row([name.to_owned(), value(up), value(down)]);
    };
    row("offered", &|direction| direction.offered.packets.to_string());
    row("delivered", &|direction| direction.delivered.packets.to_string());
    row("mean rate", &|direction| {
        let wall = Duration::from_secs_f64(report.wall_s);
        Rate::from_transfer(Bytes::new(direction.delivered.bytes), wall).to_string()
    });
    row("lost on the link", &|direction| direction.dropped.loss.packets.to_string());
    row("queue full", &|direction| direction.dropped.queue_full.packets.to_string());
    row("queue delay", &|direction| direction.dropped.queue_delay.packets.to_string());
    row("duplicated", &|direction| direction.duplicated.packets.to_string());
    row("held back", &|direction| direction.reordered.packets.to_string());
    row("in transit at the end", &|direction| direction.in_transit_packets.to_string());
    row("not carried by the emulator", &|direction| {
        let dropped = &direction.dropped;
        let packets = dropped.memory_limit.packets + dropped.send_failed.packets;
        (packets + dropped.receive_overrun + dropped.unsupported).to_string()
    });
    row("address resolution (exempt)", &|direction| direction.exempt_frames.to_string());
    row("lateness p50/p99/p99.9/max", &|direction| {
        let late = &direction.lateness_us;
        format!("{:.0}/{:.0}/{:.0}/{:.0} us", late.p50, late.p99, late.p999, late.max)
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(options: &str) -> Result<Args, clap::Error> {
        let words = ["emulate", "--between", "a", "ns:b"].into_iter().chain(options.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    fn links(options: &str) -> (LinkConfig, LinkConfig) {
        let Links { up, down } = parse(options).unwrap_or_else(|error| panic!("{error}")).links().unwrap();
        let Up::Link(up) = up else { panic!("{up:?}") };
        (*up, down)
    }

    #[test]
    fn the_default_is_the_geo_preset_up_and_down() {
        let preset: Preset = "geo".parse().unwrap();
        assert_eq!(links(""), (preset.return_link(), preset.forward()));
    }

    #[test]
    fn a_queue_of_one_product_follows_rate_and_round_trip() {
        let (up, down) = links("--rate-down 20Mbit/s --rtt 600ms");
        assert_eq!(down.queue, QueueLimit::Bytes(Bytes::new(1_500_000)));
        assert_eq!(up.queue, QueueLimit::Bytes(Bytes::new(450_000)));
        assert_eq!((up.delay, down.delay), (Duration::from_millis(300), Duration::from_millis(300)));
        assert_eq!(links("--queue 2BDP").0.queue, QueueLimit::Bytes(Bytes::new(825_000)));
        assert_eq!(links("--rate unlimited").0.queue, QueueLimit::Unlimited);
        assert_eq!(links("--queue 64packets --queue-up 9kB").0.queue, QueueLimit::Bytes(Bytes::new(9_000)));
        assert_eq!(links("--queue 64packets --queue-up 9kB").1.queue, QueueLimit::Packets(64));
    }

    #[test]
    fn each_direction_may_differ() {
        let (up, down) =
            links("--loss 1e-3 --ber-up 1e-6 --reorder-down 0.1 --duplicate 0.2 --delay 1ms --delay-up 2ms");
        let probability = |p| Probability::new(p).unwrap();
        assert_eq!(up.loss, LossModel::BitErrorRate(probability(1e-6)));
        assert_eq!(down.loss, LossModel::Bernoulli(probability(1e-3)));
        assert_eq!((up.reorder, up.duplicate, up.delay), (None, probability(0.2), Duration::from_millis(2)));
        let reorder = Reorder { probability: probability(0.1), extra_delay: Duration::from_millis(10) };
        assert_eq!((down.reorder, down.delay), (Some(reorder), Duration::from_millis(1)));
        assert_ne!(up.stream, down.stream);
    }

    #[test]
    fn losses_may_come_in_bursts_or_by_list() {
        let (up, down) = links("--loss 1e-2 --burst 5 --drop-down 3,17 --discipline-up codel");
        let LossModel::GilbertElliott(model) = up.loss else { panic!("{up:?}") };
        assert_eq!(model.r, Probability::new(0.2).unwrap());
        assert_eq!(up.discipline, Discipline::Codel(Codel::default()));
        assert_eq!((down.loss, down.discipline), (LossModel::DropList(vec![3, 17]), Discipline::DropTail));
        let error = parse("--loss 0.9 --burst 1").unwrap().links().expect_err("impossible").to_string();
        assert!(error.contains("--burst 1"), "{error}");
    }

    #[test]
    fn a_link_file_is_the_base_and_options_change_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.toml");
        fs::write(folder.path().join("rain"), "10s 3Mbit/s\n20s 6Mbit/s\n").unwrap();
        let both = "[both]\nrate = \"6Mbit/s\"\ndelay = \"275ms\"\nqueue = { packets = 50 }\nseed = 4\n";
        fs::write(&path, format!("{both}rate_steps = {{ file = \"rain\" }}\n")).unwrap();
        let option = format!("--link {}", path.display());
        let (up, down) = links(&option);
        assert_eq!(up.queue, QueueLimit::Packets(50));
        assert_eq!(up.rate_steps.as_ref().unwrap().steps.len(), 2);
        assert_ne!(up.stream, down.stream);
        assert_eq!(up.seed, 4);
        let (up, down) = links(&format!("{option} --seed 5 --delay-up 10ms --queue-down 1BDP"));
        assert_eq!((up.seed, up.delay, up.queue), (5, Duration::from_millis(10), QueueLimit::Packets(50)));
        assert_eq!(down.queue, QueueLimit::Bytes(Bytes::new(213_750)));

        let complaint = || parse(&option).unwrap().links().expect_err("broken").to_string();
        fs::write(folder.path().join("rain"), "10s 3Mbit/s\n20s\n").unwrap();
        assert!(complaint().contains("rain: line 2"), "{}", complaint());
        fs::write(&path, "[up]\ndelay = \"1ms\"\n").unwrap();
        assert!(complaint().contains("[both]"), "{}", complaint());
        fs::write(&path, "[both]\ndelay = \"1ms\"\nlatency = 3\n").unwrap();
        assert!(complaint().contains("latency"), "{}", complaint());
        assert!(parse("--link x --preset geo").is_err());
    }

    #[test]
    fn a_modem_is_at_an_interface_of_its_own() {
        let refused = |options: &str| {
            let args = parse(options).unwrap();
            modems(&args, &args.links().unwrap()).err().expect("refused").to_string()
        };
        assert!(refused("--dlep a").contains("--dlep a: expected an interface that is none of the link's"));
        assert!(refused("--dlep x --dlep-heartbeat 99ms").contains("--dlep-heartbeat 99ms: expected 100ms to 10min"));
        assert!(refused("--dlep-hub no-such-one").contains("--dlep-hub no-such-one"));
    }

    #[test]
    fn the_highest_rate_is_that_of_all_steps() {
        let (mut up, _) = links("--rate 2Mbit/s");
        assert_eq!(highest_rate(&up), Some(Rate::from_bps(2_000_000)));
        let steps = [1, 5, 3].map(|n| (Duration::from_secs(n), Rate::from_bps(n * 1_000_000)));
        up.rate_steps = Some(link::Steps { steps: steps.to_vec(), file: None, repeat: None });
        assert_eq!(highest_rate(&up), Some(Rate::from_bps(5_000_000)));
        assert_eq!(highest_rate(&links("--rate unlimited").0), None);
    }

    #[test]
    fn wrong_values_name_the_option_and_what_is_allowed() {
        for (options, culprit, allowed) in [
            ("--rate 6", "--rate", "6Mbit/s"),
            ("--queue 5", "--queue", "100packets"),
            ("--queue 0BDP", "--queue", "above 0BDP"),
            ("--loss 2", "--loss", "0 to 1"),
            ("--preset moon", "--preset", "acts-t1"),
            ("--rtt 1s --delay 1s", "--rtt", "--delay"),
            ("--loss 0 --ber 0", "--loss", "--ber"),
            ("--dlep ns:", "--dlep", "NAMESPACE:IF"),
        ] {
            let error = parse(options).err().unwrap_or_else(|| panic!("{options} was accepted")).to_string();
            assert!(error.contains(culprit) && error.contains(allowed), "{error}");
        }
        assert!("ns:".parse::<Port>().is_err() && ":eth0".parse::<Port>().is_err());
    }
}
