//! Real gateways in private namespaces, ordinary sockets, and faults of both.

mod disturber;
mod pair;
mod talk;

use super::Args;
use crate::commands::private_lab::{start_in_private, this_program};
use crate::named_files::open_directory;
use crate::output::{Failure, Output};
use chaos::{Dice, Report};
use disturber::Disturber;
use kernel::directory::OpenDirectory;
use lab::{Family, Satellite, Topology};
use link::{GilbertElliott, LinkConfig, LossModel, QueueLimit, Reorder, Steps};
use pair::{CARRIERS, Pair, wait_until};
use replicas::Interrupt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use talk::{PATIENCE, Plan, Seen};
use units::{Probability, Rate};

/// How long faults are injected into a case.
const DISTURBED: Duration = Duration::from_secs(20);
/// Clients at work at the same time.
const CLIENTS: u64 = 24;
/// Where the servers listen.
const SERVER_PORT: u16 = 8000;
/// Memory that a gateway may keep, whatever was done to it.
const MAX_MEMORY: u64 = 400 << 20;
/// How long the gateways' connections may last once their clients have ended. A lone FIN in a TCP tunnel leaves the bad state of a
/// bursty link by its own retransmissions only, which TCP doubles the distance of: six of them take 20 s.
const UNTIL_ENDED: Duration = Duration::from_secs(60);
/// Descriptors that a gateway may have more than at its start: connections opened ahead of need.
const MORE_DESCRIPTORS: u64 = 80;

/// Where a kept directory says what went wrong.
const FAILURES: &str = "failures.txt";

/// What clients and servers share.
pub struct Shared {
    seed: u64,
    next: AtomicU64,
    /// No transfer is begun any more.
    is_ending: AtomicBool,
    /// Times in which connections may be cut: a gateway was away.
    away: Mutex<Vec<(Instant, Option<Instant>)>>,
    report: Mutex<Report>,
}

/// Runs cases until there were enough transfers, and for as long as asked. Also returns whether an interrupt ended it.
pub fn run(args: &Args, output: &Output) -> Result<(Report, bool), Failure> {
    let keep = args.keep.as_deref().map(|directory| open_directory("--keep", directory)).transpose()?;
    start_in_private()?;
    // Gateways write there, too: processes that reach it by its path only.
    if let Some(hidden) = keep.filter(OpenDirectory::is_hidden) {
        let (path, private) = (hidden.path().display(), kernel::namespace::PRIVATE_DIRECTORY);
        return Err(Failure::usage(format!(
            "--keep {path}: gateways of the lab have {private} of their own; name a directory elsewhere"
        )));
    }
    kernel::process::raise_open_files()?;
    let interrupt = Interrupt::on_signals()?;
    let program = this_program()?;
    let begun = Instant::now();
    let least = Duration::from_secs_f64(args.minutes.unwrap_or(0.0) * 60.0);
    let mut all = Report { seed: args.seed, ..Report::default() };
    let mut seed = args.seed;
    while (all.transfers < args.transfers || begun.elapsed() < least) && !interrupt.is_set() {
        let report = case(args, seed, &program, &interrupt)?;
        let sound = if report.is_sound() { "sound" } else { "NOT SOUND" };
        if output.shows_progress() {
            eprintln!("case {seed}: {} transfers, {sound}", report.transfers);
        }
        all.add(report);
        seed = seed.wrapping_add(1);
    }
    Ok((all, interrupt.is_set()))
}

impl Args {
    /// How long faults are injected into a case: less where less is asked for altogether.
    fn case_time(&self) -> Duration {
        let all = self.minutes.map_or(DISTURBED, |minutes| Duration::from_secs_f64(minutes * 60.0));
        all.clamp(Duration::from_secs(2), DISTURBED)
    }

    /// Where the gateways of the case `seed` have their settings and logs.
    fn directory(&self, seed: u64) -> PathBuf {
        match &self.keep {
            Some(keep) => keep.join(format!("seed-{seed}")),
            None => std::env::temp_dir().join(format!("bentpipe-chaos-{}-{seed}", std::process::id())),
        }
    }
}

fn case(args: &Args, seed: u64, program: &Path, interrupt: &Interrupt) -> Result<Report, Failure> {
    let lasts = args.case_time();
    let mut dice = Dice::new(seed, 2);
    let carrier = CARRIERS[(seed % CARRIERS.len() as u64) as usize];
    let rates = [Rate::from_bps(dice.spread(8e6, 80e6) as u64), Rate::from_bps(dice.spread(4e6, 40e6) as u64)];
    let rtt = dice.millis(10.0, 600.0);
    let topology = Topology::new(1, Some(satellite(&mut dice, rates, rtt, lasts))).map_err(lab_failure)?;
    let directory = args.directory(seed);
    let mut pair = Pair::start(&topology, program, &directory, carrier, (rates, rtt), &mut dice)?;
    let base = [0, 1].map(|side| pair.holds(side).map_or(0, |(descriptors, _)| descriptors));
    let shared = Arc::new(Shared {
        seed,
        next: AtomicU64::new(0),
        is_ending: AtomicBool::new(false),
        away: Mutex::new(Vec::new()),
        report: Mutex::new(Report { seed, cases: 1, ..Report::default() }),
    });
    let server = SocketAddr::new(topology.hub.host_address(Family::V4), SERVER_PORT);
    let listener = topology.hub.host.run(|| TcpListener::bind(server))?.map_err(Failure::failed)?;
    let accepting = serve(listener, &shared)?;
    let clients = (0..CLIENTS).map(|_| {
        let shared = Arc::clone(&shared);
        topology.terminals[0].host.spawn("client", move || be_client(&shared, server))
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    Disturber::new(&mut pair, &shared, &topology, carrier, dice).disturb(lasts, interrupt)?;
    let up_again = pair.wait_until_up(Duration::from_secs(40));
    shared.is_ending.store(true, Ordering::Relaxed);
    for client in clients {
        // A client that panicked is found below, by its unfinished transfer.
        let _ = client.join();
    }
    settle(&mut pair, &shared, up_again, base)?;
    // Wakes the server, which then sees that this is the end.
    let _ = topology.hub.host.run(|| TcpStream::connect(server));
    let _ = accepting.join();
    let report = shared.report.lock().map_or_else(|_| Report::default(), |report| report.clone());
    if report.is_sound() || args.keep.is_none() {
        std::fs::remove_dir_all(&directory).map_err(Failure::failed)?;
    } else {
        let lines: String = report.failures.iter().map(|failure| format!("{}\n", failure.says)).collect();
        std::fs::write(directory.join(FAILURES), lines).map_err(Failure::failed)?;
    }
    Ok(report)
}

fn lab_failure(error: lab::Error) -> Failure {
    match error {
        lab::Error::Missing(what) => Failure::missing(what),
        other => Failure::failed(other),
    }
}

/// A link with troubles of its own, which it has from the start to the end of the faults.
fn satellite(dice: &mut Dice, rates: [Rate; 2], rtt: units::Duration, lasts: Duration) -> Satellite {
    let mut way = |index: usize| {
        let rate = rates[index];
        let mut config = LinkConfig::new(rate, rtt / 2);
        config.queue = QueueLimit::bandwidth_delay_product(rate, rtt.max(units::Duration::from_millis(30)));
        config.seed = dice.word();
        config.stream = index as u64;
        let probability = |value: f64| Probability::new(value).unwrap_or(Probability::ZERO);
        let loss = probability(dice.spread(1e-4, 3e-2));
        config.loss = match dice.index(3) {
            0 => LossModel::None,
            1 => LossModel::Bernoulli(loss),
            _ => GilbertElliott::with_bursts(loss, 8.0).map_or(LossModel::None, LossModel::GilbertElliott),
        };
        config.reorder = dice.chance(0.3).then(|| Reorder {
            probability: probability(dice.spread(1e-3, 3e-2)),
            extra_delay: dice.millis(1.0, 30.0),
        });
        config.duplicate = probability(if dice.chance(0.3) { dice.spread(1e-3, 5e-2) } else { 0.0 });
        let middle = units::Duration::from(lasts / 3);
        let share = dice.spread(0.3, 0.9);
        config.rate_steps =
            dice.chance(0.4).then(|| Steps::new(vec![(middle, rate.mul_f64(share)), (middle * 2, rate)]));
        let longer = rtt.mul_f64(dice.spread(0.6, 1.0));
        config.delay_steps = dice.chance(0.3).then(|| Steps::new(vec![(middle, longer), (middle * 2, rtt / 2)]));
        config
    };
    Satellite { forward: way(0), return_link: way(1) }
}

fn serve(listener: TcpListener, shared: &Arc<Shared>) -> Result<thread::JoinHandle<()>, Failure> {
    let shared = Arc::clone(shared);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            if shared.is_ending.load(Ordering::Relaxed) && shared.unfinished() == 0 {
                return;
            }
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let begun = Instant::now();
                let client = stream.peer_addr().ok();
                if let Some((plan, seen)) = talk::server(stream) {
                    shared.note(&plan, 1, (begun, client), seen);
                }
            });
        }
    };
    thread::Builder::new().name("server".into()).spawn(accept).map_err(Failure::failed)
}

fn be_client(shared: &Shared, server: SocketAddr) {
    while !shared.is_ending.load(Ordering::Relaxed) {
        let plan = Plan::draw(shared.seed, shared.next.fetch_add(1, Ordering::Relaxed));
        let begun = Instant::now();
        let mut client = None;
        let seen = match TcpStream::connect_timeout(&server, PATIENCE) {
            Ok(stream) => {
                client = stream.local_addr().ok();
                talk::client(&plan, stream)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Seen::Hung,
            Err(error) => Seen::Broken(error.kind()),
        };
        shared.note(&plan, 0, (begun, client), seen);
    }
}

impl Shared {
    /// Transfers that clients have begun and not ended.
    fn unfinished(&self) -> u64 {
        let ended = self.report.lock().map_or(0, |report| report.transfers);
        self.next.load(Ordering::Relaxed).saturating_sub(ended)
    }

    /// A gateway goes away, or is back.
    pub fn set_away(&self, is_away: bool) {
        let Ok(mut away) = self.away.lock() else { return };
        match away.last_mut() {
            Some((_, end @ None)) if !is_away => *end = Some(Instant::now()),
            _ if is_away => away.push((Instant::now(), None)),
            _ => {}
        }
    }

    /// Whether a gateway was away since then, or has just come back.
    fn was_cut(&self, since: Instant) -> bool {
        let grace = Duration::from_secs(5);
        self.away.lock().is_ok_and(|away| away.iter().any(|(_, end)| end.is_none_or(|end| end + grace > since)))
    }

    /// Counts a fault.
    pub fn count_fault(&self, kind: &'static str) {
        if let Ok(mut report) = self.report.lock() {
            *report.faults.entry(kind).or_default() += 1;
        }
    }

    /// Notes something that went wrong.
    fn fail(&self, change: impl FnOnce(&mut Report), says: String) {
        if let Ok(mut report) = self.report.lock() {
            change(&mut report);
            report.fail(says);
        }
    }

    /// Notes how one end saw the transfer of the client at that address, which it had begun at that time.
    fn note(&self, plan: &Plan, role: usize, (begun, client): (Instant, Option<SocketAddr>), seen: Seen) {
        let is_excused = self.was_cut(begun) || plan.abort.is_some();
        let Ok(mut report) = self.report.lock() else { return };
        let is_client = role == 0;
        report.transfers += u64::from(is_client);
        let end = if is_client { "client" } else { "server" };
        let from = client.map_or_else(|| "no connection".to_owned(), |client| format!("from {client}"));
        let lasted = begun.elapsed().as_secs_f64();
        let says = format!("{plan:?}, {from}, seen by its {end} after {lasted:.1} s: {seen:?}");
        match seen {
            Seen::Complete => {
                report.completed += u64::from(is_client);
                report.delivered_bytes += plan.bytes[1 - role];
            }
            Seen::Wrong(bytes) => {
                report.wrong_bytes += bytes;
                report.fail(says);
            }
            Seen::Hung => {
                report.hangs += 1;
                report.fail(says);
            }
            // A kernel ends the connections of a process that was killed in order, whatever they carried.
            Seen::GaveUp | Seen::ResetLost | Seen::Broken(_) | Seen::CutShort(_) if is_excused => {
                report.ended_early += u64::from(is_client);
            }
            Seen::CutShort(bytes) => {
                report.wrong_bytes += bytes;
                report.fail(says);
            }
            Seen::GaveUp | Seen::ResetLost | Seen::Broken(_) => {
                report.broken += u64::from(is_client);
                report.fail(says);
            }
        }
    }
}

/// Looks at what is left once all transfers are over, stops the gateways, and looks again.
fn settle(pair: &mut Pair<'_>, shared: &Shared, up_again: bool, base: [u64; 2]) -> Result<(), Failure> {
    if !up_again {
        shared.fail(|report| report.broken += 1, format!("never up again: {}", pair.last_words()));
    }
    for (side, status) in pair.ended() {
        shared.fail(|report| report.broken += 1, format!("gateway {side} ended: {status}; {}", pair.last_words()));
    }
    if !wait_until(UNTIL_ENDED, || pair.connections() == 0) {
        let left = pair.connections();
        let says = format!("{left} connections were left: {}", pair.list_connections());
        shared.fail(|report| report.leaks.connections += left, says);
    }
    for side in pair.finish_former(Duration::from_secs(30)) {
        let says = format!("a process of gateway {side} that was taken over from does not end: {}", pair.last_words());
        shared.fail(|report| report.leaks.processes += 1, says);
    }
    for (side, base) in base.into_iter().enumerate() {
        let held = || pair.holds(side).unwrap_or_default();
        let most = base + MORE_DESCRIPTORS;
        if !wait_until(Duration::from_secs(5), || held().0 <= most) {
            let more = held().0 - base;
            let says = format!("gateway {side} has {more} descriptors more than at its start");
            shared.fail(|report| report.leaks.descriptors += more, says);
        }
        let memory = held().1;
        if memory > MAX_MEMORY {
            let says = format!("gateway {side} keeps {memory} bytes of memory");
            shared.fail(|report| report.leaks.memory_bytes += memory - MAX_MEMORY, says);
        }
    }
    for side in 0..2 {
        if !pair.stop(side).is_some_and(|status| status.success()) {
            let says = format!("gateway {side} did not stop in order: {}", pair.last_words());
            shared.fail(|report| report.leaks.processes += 1, says);
        }
        let left = pair.left_behind(side)?;
        if !left.is_empty() {
            let says = format!("gateway {side} left behind: {}", left.join("; "));
            shared.fail(|report| report.leaks.rules += left.len() as u64, says);
        }
    }
    Ok(())
}
