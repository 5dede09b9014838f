//! `bentpipe emulate`: a satellite link in real time between two interfaces.

mod capacity_log;
mod drop_warnings;
mod link_file;
mod options;
mod port;
mod view;

use crate::commands::modem::{End, Modems, Site};
use crate::named_files;
use crate::output::{Failure, Output};
use capacity_log::CapacityLog;
use clap::Args as ClapArgs;
use drop_warnings::DropWarnings;
use emulator::{Config, Emulator, Report};
use link::{Discipline, LinkConfig, Preset, QueueLimit};
use options::{LinkArgs, Overrides, QueueSize};
use port::Port;
use scenario::link_file::{LinkFile, UpLink};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time;
use units::Duration;
use view::{StatusLine, describe, tables};

const LONG_ABOUT: &str = "\
Emulates a satellite link between two network interfaces, for real packets in real time.

The two interfaces become the ends of the link, like two ports of a bridge: hosts behind IF_A (the terminal's side) and
hosts behind IF_B (the hub's side) see each other on the link layer, but every packet meets the link's rate, queue,
delay and losses. Up is from IF_A to IF_B, down from IF_B to IF_A. The interfaces must not carry addresses of this host
or belong to a bridge; veth interfaces and network cards both work. Needs CAP_NET_RAW in their network namespaces.

The run ends at an interrupt or after --duration. It then prints how many packets met each outcome, and the lateness: how
much later than in the model packets left.";

const EXAMPLES: &str = "\
Examples:
  bentpipe emulate --between link0 link1                         # 6 Mbit/s in both directions, 550 ms round trip
  bentpipe emulate --between link0 link1 --preset dvb-rcs --loss-down 1e-3
  bentpipe emulate --between terminal:eth0 hub:eth0 --rate-up 2Mbit/s --rate-down 20Mbit/s --rtt 600ms
  bentpipe emulate --between link0 link1 --rate unlimited --delay 10ms --queue 100packets --duration 60s --json
  bentpipe emulate --between link0 link1 --loss-down 1e-2 --burst-down 8 --discipline fq-codel
  bentpipe emulate --between link0 link1 --link rain.toml --arrival-log arrivals.csv
  bentpipe emulate --between link0 link1 --link rain.toml --dlep mgmt0     # report each rate to routers at mgmt0, by DLEP

A link file is TOML: [up] and [down], or [both], with every key of link models (docs/links.md):
  [both]
  rate = \"6Mbit/s\"
  delay = { geo = { satellite_longitude = -34.5, stations = [
    { latitude = 38.1157, longitude = 13.3615 }, { latitude = 29.7604, longitude = -95.3698 }] } }
  queue = { packets = 300 }
  rate_steps = { file = \"rain.trace\", repeat = \"10min\" }
  loss = { timed_gilbert_elliott = { mean_good = \"20s\", mean_bad = \"300ms\", loss_bad = 1.0 } }
Instead of [up], terminals may share a return carrier on demand (DAMA; docs/emulate.md). A packet's source address names
its terminal:
  [carrier.return]
  rate = \"4Mbit/s\"
  [[terminal]]
  name = \"one\"
  networks = [\"198.18.1.0/24\"]
  up = { delay = \"260ms\", queue = { packets = 500 }, dama = { carrier = \"return\", rbdc = \"2Mbit/s\" } }
  dlep = \"mgmt0\"                                 its modem reports its allocation to routers there

Presets:
  geo      6 Mbit/s in both directions, 550 ms round trip
  acts-t1  1.536 Mbit/s in both directions, 560 ms round trip
  dvb-rcs  8 Mbit/s down, 2 Mbit/s up, 500 ms round trip";

/// Emulate a satellite link between two interfaces, for real packets
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The interfaces at the ends of the link; NAMESPACE:IF for one in a named network namespace (`ip netns`)
    #[arg(long, num_args = 2, value_names = ["IF_A", "IF_B"], required = true)]
    between: Vec<Port>,
    /// Link whose settings the options below change
    #[arg(long, default_value = "geo")]
    preset: Preset,
    /// Link file (TOML) to use instead of a preset
    #[arg(long = "link", value_name = "FILE", conflicts_with = "preset")]
    link_file: Option<PathBuf>,
    /// Seed of the random processes; the same seed gives the same outcomes [default: that of the link file, or 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Write the outcome of every packet to a file: `direction,number,arrived_ns,bytes,flow,ecn,outcome,at_ns`, and the terminal if
    /// terminals share a carrier
    #[arg(long, value_name = "FILE")]
    arrival_log: Option<PathBuf>,
    /// Write the capacity that each terminal of a carrier requested, received and used in each superframe to a file (CSV)
    #[arg(long, value_name = "FILE", requires = "link_file")]
    capacity_log: Option<PathBuf>,
    /// Stop after this time [default: run until interrupted]
    #[arg(long)]
    duration: Option<Duration>,
    /// Poll the clock for this time before each departure instead of sleeping: less lateness, more processor time
    #[arg(long, default_value = "0s")]
    spin: Duration,
    /// Act as the terminal's modem, too: report the link's capacity and each change of it to routers on this interface by DLEP
    /// (RFC 8175). NAMESPACE:IF names an interface in a named namespace. It has an address and is not one of --between
    #[arg(long, value_name = "IF")]
    dlep: Option<Port>,
    /// Act as the hub's modem, too
    #[arg(long, value_name = "IF")]
    dlep_hub: Option<Port>,
    /// Heartbeat interval of these modems, 100ms to 10min [default: 5s]
    #[arg(long, value_name = "INTERVAL")]
    dlep_heartbeat: Option<Duration>,
    #[command(flatten)]
    link: LinkArgs,
}

impl Args {
    /// Refuses a log that would overwrite the link's file, or the other log.
    fn refuse_overwriting(&self) -> Result<(), Failure> {
        let logs = [("--arrival-log", &self.arrival_log), ("--capacity-log", &self.capacity_log)];
        for (option, log) in logs.iter().filter_map(|(option, log)| Some((option, log.as_ref()?))) {
            if let Some(link) = &self.link_file {
                named_files::refuse_same(option, log, link, "the file of --link")?;
            }
        }
        match (&self.arrival_log, &self.capacity_log) {
            (Some(one), Some(other)) => named_files::refuse_same("--capacity-log", other, one, "the arrival log"),
            _ => Ok(()),
        }
    }

    /// The links up and down.
    fn links(&self) -> Result<LinkFile, Failure> {
        let (up, down) = (self.link.up()?, self.link.down()?);
        let mut links = match &self.link_file {
            Some(path) => link_file::read(path, [up.in_place(), down.in_place()])?,
            None => LinkFile { up: UpLink::Link(Box::new(self.preset.return_link())), down: self.preset.forward() },
        };
        let (delay_up, delay_down) = (links.up.delay(), links.down.nominal_delay());
        let rtt = up.delay.unwrap_or(delay_up) + down.delay.unwrap_or(delay_down);
        for link in links.up.links_mut() {
            *link = self.link_with(link.clone(), &up, rtt)?;
        }
        links.down = self.link_with(links.down, &down, rtt)?;
        let is_reordered = |link: &LinkConfig| link.reorder.is_some();
        if self.link.has_reorder_delay()
            && !is_reordered(&links.down)
            && !links.up.links_mut().any(|link| is_reordered(link))
        {
            return Err(Failure::usage("--reorder-delay delays nothing without --reorder"));
        }
        if let (UpLink::Carrier { carrier, .. }, Some(seed)) = (&mut links.up, self.seed) {
            carrier.seed = seed;
        }
        Ok(links)
    }

    fn link_with(&self, base: LinkConfig, overrides: &Overrides, rtt: Duration) -> Result<LinkConfig, Failure> {
        let rate = overrides.rate.map_or(base.rate, |limit| limit.0);
        let product = |products| rate.map(|rate| QueueLimit::bandwidth_delay_product(rate, rtt.mul_f64(products)));
        let queue = match overrides.queue {
            Some(QueueSize::Limit(limit)) => limit,
            Some(QueueSize::BandwidthDelayProducts(products)) => product(products).ok_or_else(|| {
                let problem = "a link of unlimited rate has no bandwidth-delay product";
                Failure::usage(format!("--queue {products}BDP: {problem}; give a size such as 320KiB or 100packets"))
            })?,
            None if self.link_file.is_some() => base.queue,
            None => product(1.0).unwrap_or(QueueLimit::Unlimited),
        };
        Ok(LinkConfig {
            rate,
            queue,
            delay: overrides.delay.unwrap_or(base.delay),
            discipline: overrides.discipline.map_or(base.discipline, Discipline::from),
            loss: overrides.loss.clone().unwrap_or(base.loss),
            reorder: self.link.reorder(overrides.reorder, base.reorder),
            duplicate: overrides.duplicate.unwrap_or(base.duplicate),
            seed: self.seed.unwrap_or(base.seed),
            ..base
        })
    }
}

/// The JSON document: the links, and what happened on them.
#[derive(Serialize)]
struct Document<'a> {
    links: &'a LinkFile,
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
    if first.is_same(second) {
        let (first, second) = (&first.interface, &second.interface);
        return Err(Failure::usage(format!(
            "--between {first} {second}: a link has two ends, and these are one interface"
        )));
    }
    if first.is_wired_to(second) {
        let (first, second) = (&first.interface, &second.interface);
        return Err(Failure::usage(format!(
            "--between {first} {second}: these are the two ends of one pair, which is a wire already, so that packets would go round for \
             ever; give one end each of two pairs, whose other ends are the hosts'"
        )));
    }
    args.refuse_overwriting()?;
    let links = args.links()?;
    let paths = [link_file::path_up(&links), links.down.clone().into()];
    for (direction, path) in ["up", "down"].into_iter().zip(&paths) {
        path.validate().map_err(|error| Failure::usage(format!("{direction}: {error}")))?;
    }
    let modems = modems(args, &links)?;
    let [up, down] = paths;
    let config = Config { spin: args.spin, ..Config::new(up, down) };
    let (first, second) = (first.open()?, second.open()?);
    let _claims = [first.claim, second.claim];
    let mut emulator = Emulator::new(config, first.socket, second.socket).map_err(Failure::usage)?;
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
        UpLink::Link(link) => tracing::info!("up: {}", describe(link)),
        UpLink::Carrier { carrier, terminal } => {
            tracing::info!("up: {} that {} terminals share on demand", carrier.rate, terminal.len());
        }
    }
    tracing::info!("down: {}", describe(&links.down));
    let modems = modems.start(emulator.monitor())?;
    let (report, end) = run_until_stopped(emulator, args.duration, capacity_log, output)?;
    drop(modems);
    // What was measured until an interface was removed is a result, too.
    output.result(&Document { links: &links, report: &report }, |columns| tables(&report, columns)).and(end)
}

/// The modems that are wanted, waiting for routers.
fn modems(args: &Args, links: &LinkFile) -> Result<Modems, Failure> {
    let allowed = Duration::from_millis(100)..=Duration::from_secs(600);
    let heartbeat = args.dlep_heartbeat.unwrap_or(Duration::from_secs(5));
    if !allowed.contains(&heartbeat) {
        return Err(Failure::usage(format!("--dlep-heartbeat {heartbeat}: expected 100ms to 10min")));
    }
    let mut modems = Modems::new(heartbeat);
    let mut none = true;
    let mut add = |option: &str, port: &Port, site: Site| {
        if args.between.iter().any(|end| end.is_same(port)) {
            let interface = &port.interface;
            return Err(Failure::usage(format!(
                "{option} {interface}: expected an interface that is none of the link's"
            )));
        }
        none = false;
        modems.add(option, port.namespace.as_deref(), &port.interface, site)
    };
    let down = links.down.highest_rate();
    let up = match &links.up {
        UpLink::Link(link) => link.highest_rate(),
        UpLink::Carrier { carrier, terminal } => {
            if args.dlep.is_some() {
                let problem = "terminals share a carrier: write dlep = \"IF\" with the terminal in the link file";
                return Err(Failure::usage(format!("--dlep: {problem}")));
            }
            for (number, terminal) in terminal.iter().enumerate() {
                let most = terminal.up.dama.as_ref().map(|dama| dama.highest_allocation(carrier));
                let site = Site { end: End::Terminal(number), highest: [most, down] };
                if let Some(port) = &terminal.dlep {
                    let option = format!("terminal {}: dlep", terminal.name);
                    let port = port.parse().map_err(|error| Failure::usage(format!("{option}: {error}")))?;
                    add(&option, &port, site)?;
                }
            }
            Some(carrier.highest_rate())
        }
    };
    let highest = [up, down];
    if let Some(port) = &args.dlep {
        add("--dlep", port, Site { end: End::Near, highest })?;
    }
    if let Some(port) = &args.dlep_hub {
        add("--dlep-hub", port, Site { end: End::Far, highest })?;
    }
    if none && args.dlep_heartbeat.is_some() {
        return Err(Failure::usage("--dlep-heartbeat needs a modem: --dlep, --dlep-hub, or one in the link file"));
    }
    Ok(modems)
}

/// Runs the emulator on a thread of its own until a signal, the end of `duration`, or its own end. Returns what it reports, and what it
/// failed of, if it did.
fn run_until_stopped(
    emulator: Emulator,
    duration: Option<Duration>,
    mut capacity_log: Option<CapacityLog>,
    output: &Output,
) -> Result<(Report, Result<(), Failure>), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal that is closed ends the run, too, unless `nohup` says otherwise.
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop)).map_err(Failure::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    let monitor = emulator.monitor();
    let mut drops = DropWarnings::new(monitor.clone());
    let stop_inside = Arc::clone(&stop);
    let thread = thread::Builder::new()
        .name("emulator".to_owned())
        .spawn(move || emulator.run(&stop_inside))
        .map_err(Failure::failed)?;
    let mut status = output.shows_progress().then(|| StatusLine::new(monitor.clone()));
    let deadline = duration.map(|duration| kernel::clock::now() + duration);
    while !stop.load(Ordering::Relaxed) && !thread.is_finished() {
        let now = kernel::clock::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        if let Some(status) = &mut status {
            status.show(now);
        }
        drops.look(now);
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
    let (report, end) = match thread.join() {
        Ok(Ok(report)) => (report, Ok(())),
        Ok(Err(error)) => (monitor.report(), Err(Failure::failed(error))),
        Err(panic) => std::panic::resume_unwind(panic),
    };
    drops.warn(&report);
    let logged = capacity_log.map_or(Ok(()), CapacityLog::finish);
    Ok((report, end.and(logged)))
}

/// Whether this process was started to outlive its terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (SIGHUP - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::link::Reorder;
    use clap::Parser;
    use link::{Codel, LossModel};
    use std::fs;
    use units::{Bytes, Probability};

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
        let LinkFile { up, down } = parse(options).unwrap_or_else(|error| panic!("{error}")).links().unwrap();
        let UpLink::Link(up) = up else { panic!("{up:?}") };
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
        let refused = parse("--rate-down unlimited --queue 1BDP").unwrap().links().expect_err("no product").to_string();
        assert!(refused.contains("--queue 1BDP: a link of unlimited rate has no"), "{refused}");
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

        let handover = "handover = { period = \"15s\", delay = [\"20ms\", \"40ms\"] }\n";
        fs::write(&path, format!("[both]\nrate = \"50Mbit/s\"\n{handover}")).unwrap();
        let (up, down) = links(&format!("{option} --queue 1BDP"));
        assert_eq!((&up.queue, &down.queue), (&QueueLimit::Bytes(Bytes::new(375_000)), &up.queue));
        fs::write(&path, format!("{both}rate_steps = {{ file = \"rain\" }}\n")).unwrap();

        let complaint = || parse(&option).unwrap().links().expect_err("broken").to_string();
        fs::write(folder.path().join("rain"), "10s 3Mbit/s\n20s\n").unwrap();
        assert!(complaint().contains("rain: line 2"), "{}", complaint());
        fs::write(&path, "[up]\ndelay = \"1ms\"\n").unwrap();
        assert!(complaint().contains("[both]"), "{}", complaint());
        fs::write(&path, "[both]\ndelay = \"1ms\"\nlatency = 3\n").unwrap();
        assert!(complaint().contains("latency"), "{}", complaint());
        assert!(parse("--link x --preset geo").is_err());
        let unused = parse("--reorder-delay 5ms").unwrap().links().expect_err("no --reorder").to_string();
        assert!(unused.contains("--reorder-delay delays nothing without --reorder"), "{unused}");
    }

    #[test]
    fn a_log_does_not_overwrite_the_links_file_or_the_other_log() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let check = |options: String| parse(&options).unwrap().refuse_overwriting();
        let both = |arrivals: &str, capacity: &str| {
            check(format!("--link {} --arrival-log {} --capacity-log {}", at("geo.toml"), at(arrivals), at(capacity)))
        };
        assert!(both("a.csv", "c.csv").is_ok());
        for (arrivals, capacity) in [("geo.toml", "c.csv"), ("a.csv", "./geo.toml"), ("a.csv", "a.csv")] {
            assert!(both(arrivals, capacity).is_err(), "{arrivals} {capacity}");
        }
    }

    #[test]
    fn packets_of_one_direction_may_be_late() {
        let delay = |link: LinkConfig| link.reorder.map(|reorder| reorder.extra_delay);
        let five = Some(Duration::from_millis(5));
        let (up, down) = links("--reorder-up 1e-2 --reorder-delay 5ms");
        assert_eq!((delay(up), delay(down)), (five, None));
        let (up, down) = links("--reorder-down 1e-2 --reorder-delay 5ms");
        assert_eq!((delay(up), delay(down)), (None, five));
    }

    #[test]
    fn the_rate_of_handovers_is_announced() {
        let rate = Some([50, 150].map(|mbps| units::Rate::from_bps(mbps * 1_000_000)));
        let delay = [20, 40].map(Duration::from_millis);
        let handover = link::Handover { period: Duration::from_secs(15), delay, rate, outage: Duration::ZERO };
        let text = view::describe(&LinkConfig { rate: None, handover: Some(handover), ..links("").0 });
        assert!(text.starts_with("50Mbit/s to 150Mbit/s, 20ms to 40ms one way"), "{text}");
    }

    #[test]
    fn a_modem_is_at_an_interface_of_its_own() {
        let refused = |options: &str| {
            let args = parse(options).unwrap();
            modems(&args, &args.links().unwrap()).err().expect("refused").to_string()
        };
        assert!(refused("--dlep a").contains("--dlep a: expected an interface that is none of the link's"));
        assert!(refused("--dlep x --dlep-heartbeat 99ms").contains("--dlep-heartbeat 99ms: expected 100ms to 10min"));
        assert!(refused("--dlep-heartbeat 1s").contains("--dlep-heartbeat needs a modem"));
        assert!(refused("--dlep-hub no-such-one").contains("--dlep-hub no-such-one"));
    }

    #[test]
    fn wrong_values_name_the_option_and_what_is_allowed() {
        for (options, culprit, allowed) in [
            ("--rate 6", "--rate", "6Mbit/s"),
            ("--rate 2Tbit/s", "--rate", "at most 1Tbit/s"),
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
