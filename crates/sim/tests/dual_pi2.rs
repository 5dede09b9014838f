//! DualPI2 beside the algorithm of Linux's qdisc `dualpi2`: rates, delays, drops and marks. The recorded figures, and how they were
//! made, are in `tests/data/dual_pi2`.

use link::{Discipline, DualPi2, LinkConfig, QueueLimit};
use sim::{Application, FlowConfig, Network, Record, Settings, Simulation, Start, Stop, Traffic, Transfer};
use std::path::Path;
use std::sync::Arc;
use tcp::{Config, ControlKind, Profile, RecoveryKind};
use testkit::table::{self, Row};
use units::{Bytes, Duration, Ecn, Instant, Rate};

/// The first direction of the only link.
const BOTTLENECK: usize = 0;
/// The seeds of each case, as many as are recorded.
const SEEDS: u64 = 5;

/// A case of the table.
#[derive(Debug, Clone, PartialEq)]
struct Case {
    /// Flows of each kind.
    prague: u32,
    cubic: u32,
    /// CUBIC with ECN of RFC 3168.
    cubic_ecn: u32,
    /// UDP without ECN, as a rate.
    udp: Rate,
    rate: Rate,
    rtt: Duration,
    /// The step of the L4S queue.
    threshold: Duration,
    seconds: u64,
    warm_up: u64,
}

impl Case {
    fn of(row: &Row) -> Self {
        let number = |name: &str| number(row, name) as u64;
        Self {
            prague: number("prague") as u32,
            cubic: number("cubic") as u32,
            cubic_ecn: number("cubic_ecn") as u32,
            udp: Rate::from_bps(number("udp_mbps") * 1_000_000),
            rate: Rate::from_bps(number("mbps") * 1_000_000),
            rtt: Duration::from_millis(number("rtt_ms")),
            threshold: Duration::from_millis(number("threshold_ms")),
            seconds: number("seconds"),
            warm_up: number("warm_up_s"),
        }
    }

    /// Whether each flow of TCP is Prague's.
    fn kinds(&self) -> impl Iterator<Item = bool> {
        let classic = (self.cubic + self.cubic_ecn) as usize;
        std::iter::repeat_n(true, self.prague as usize).chain(std::iter::repeat_n(false, classic))
    }

    fn endpoint(&self, number: u32) -> Arc<Config> {
        let is_prague = number < self.prague;
        let ecn = match number {
            _ if is_prague => Ecn::Ect1,
            number if number < self.prague + self.cubic => Ecn::NotCapable,
            _ => Ecn::Ect0,
        };
        Arc::new(Config {
            control: ControlKind::by_name(if is_prague { "prague" } else { "cubic" }).expect("known"),
            recovery: RecoveryKind::by_name("rack").expect("known"),
            ecn,
            accurate_ecn: is_prague,
            ..Config::new(Profile::Linux)
        })
    }

    fn simulation(&self, seed: u64) -> Simulation {
        let mut network = Network::new();
        let nodes = ["client", "server"].map(|name| network.add_node(name).expect("new"));
        let there = LinkConfig {
            discipline: Discipline::DualPi2(DualPi2 { threshold: self.threshold, ..DualPi2::default() }),
            queue: QueueLimit::Packets(10_000),
            seed,
            ..LinkConfig::new(self.rate, self.rtt / 2)
        };
        let back = LinkConfig { discipline: Discipline::DropTail, stream: 1, ..there.clone() };
        network.add_link("bottleneck", nodes[0], nodes[1], there, back).expect("valid");
        let flow = |name: String, traffic| FlowConfig {
            name,
            from: nodes[0],
            to: nodes[1],
            start: Start { at: Instant::ZERO, spread: Duration::from_secs(2) },
            stop: None,
            traffic,
            record: true,
        };
        let tcp = |number| Traffic::Tcp {
            client: self.endpoint(number),
            server: self.endpoint(number),
            application: Application::Bulk { size: None, transfer: Transfer::Upload },
        };
        let mut flows: Vec<_> = (0..self.prague + self.cubic + self.cubic_ecn)
            .map(|number| flow(format!("tcp-{number}"), tcp(number)))
            .collect();
        if self.udp > Rate::ZERO {
            flows
                .push(flow("udp".into(), Traffic::Udp { rate: self.udp, packet_size: Bytes::new(1500), on_off: None }));
        }
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(self.seconds)), when_complete: false };
        let interval = Some(Duration::from_millis(10));
        let record = Record { queue_interval: interval, flow_interval: interval, ..Record::default() };
        Simulation::new(network, flows, Settings { seed, stop, record, ..Settings::default() }).expect("valid")
    }

    fn run(&self, seed: u64) -> Figures {
        let mut simulation = self.simulation(seed);
        let from = Instant::ZERO + Duration::from_secs(self.warm_up);
        while simulation.now() < from {
            assert_eq!(simulation.run_for(100), None);
        }
        let (before, begun) = (simulation.report(), simulation.now());
        simulation.run();
        let after = simulation.report();
        let elapsed = simulation.now().since(begun).as_secs_f64();
        let rates: Vec<_> = (after.flows.iter().zip(&before.flows))
            .map(|(after, before)| (after.bytes - before.bytes) as f64 * 8.0 / 1e6 / elapsed)
            .collect();
        let samples = simulation.take_flow_samples();
        let delay = |flow: u32| {
            let late = samples.iter().filter(|sample| sample.flow == flow && sample.at >= begun);
            mean(late.filter_map(|sample| sample.srtt).map(|srtt| srtt.as_millis_f64() - self.rtt.as_millis_f64()))
        };
        let of_kind = |is_prague: bool| (0u32..).zip(self.kinds()).filter(move |(_, kind)| *kind == is_prague);
        let rate_of = |is_prague| mean(of_kind(is_prague).map(|(flow, _)| rates[flow as usize]));
        let delay_of = |is_prague| mean(of_kind(is_prague).map(|(flow, _)| delay(flow)));
        let mut queue: Vec<_> = (simulation.take_queue_samples().iter())
            .filter(|sample| sample.direction.index() == BOTTLENECK && sample.at >= begun)
            .map(|sample| self.rate.time_to_send(sample.bytes).as_millis_f64())
            .collect();
        queue.sort_by(f64::total_cmp);
        let counters = |report: &sim::Report| report.links[BOTTLENECK].counters;
        let (old, new) = (counters(&before), counters(&after));
        let offered = (new.offered.packets - old.offered.packets) as f64;
        let dropped =
            |counters: &link::Counters| counters.dropped_queue_delay.packets + counters.dropped_queue_full.packets;
        Figures {
            prague: rate_of(true),
            classic: rate_of(false),
            prague_delay: delay_of(true),
            classic_delay: delay_of(false),
            queue_p95: queue[queue.len() * 95 / 100],
            dropped: (dropped(&new) - dropped(&old)) as f64 / offered,
            marked: (new.marked.packets - old.marked.packets) as f64 / offered,
            used: (new.delivered.bytes - old.delivered.bytes) as f64 * 8.0 / elapsed / self.rate.as_bps() as f64,
        }
    }
}

/// What is compared, over all the time but for the first seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    /// Mbit/s of payload, a flow's.
    prague: f64,
    classic: f64,
    /// Queueing and transmission, in ms, by the senders' smoothed round-trip times.
    prague_delay: f64,
    classic_delay: f64,
    /// Both queues together, in ms.
    queue_p95: f64,
    /// Shares of the packets offered.
    dropped: f64,
    marked: f64,
    /// What the link carried, as a share of its rate.
    used: f64,
}

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name} in {row:?}"))
}

/// Zero of no values.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

impl Figures {
    fn of(row: &Row) -> Self {
        Self {
            prague: number(row, "prague_mbps"),
            classic: number(row, "classic_mbps"),
            prague_delay: number(row, "prague_delay_ms"),
            classic_delay: number(row, "classic_delay_ms"),
            queue_p95: number(row, "queue_p95_ms"),
            dropped: number(row, "dropped"),
            marked: number(row, "marked"),
            used: number(row, "use"),
        }
    }

    fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| mean(all.iter().map(of));
        Self {
            prague: mean(|one| one.prague),
            classic: mean(|one| one.classic),
            prague_delay: mean(|one| one.prague_delay),
            classic_delay: mean(|one| one.classic_delay),
            queue_p95: mean(|one| one.queue_p95),
            dropped: mean(|one| one.dropped),
            marked: mean(|one| one.marked),
            used: mean(|one| one.used),
        }
    }

    /// Whether each figure is within `share` of the other's, or within so many units of its last digits that count.
    fn agrees(&self, other: &Self, share: f64) -> bool {
        let close = |of: fn(&Self) -> f64, least: f64| {
            let (ours, theirs) = (of(self), of(other));
            (ours - theirs).abs() <= (share * theirs).max(least)
        };
        close(|one| one.prague, 0.1)
            && close(|one| one.classic, 0.1)
            && close(|one| one.prague_delay, 0.1)
            && close(|one| one.classic_delay, 0.5)
            && close(|one| one.queue_p95, 0.5)
            && close(|one| one.dropped, 0.0001)
            && close(|one| one.marked, 0.0005)
            && close(|one| one.used, 0.001)
    }

    /// Whether an operator who has the one may expect the other: the same use of the link, delays within a millisecond of each other, drops
    /// and marks within a quarter, rates within a third of the faster.
    fn is_like(&self, other: &Self) -> bool {
        let close = |of: fn(&Self) -> f64, share: f64, least: f64| {
            let (ours, theirs) = (of(self), of(other));
            (ours - theirs).abs() <= (share * ours.max(theirs)).max(least)
        };
        close(|one| one.used, 0.0, 0.002)
            && close(|one| one.prague_delay, 0.0, 1.0)
            && close(|one| one.classic_delay, 0.0, 2.0)
            && close(|one| one.dropped, 0.25, 0.0001)
            && close(|one| one.marked, 0.25, 0.0005)
            && close(|one| one.prague, 0.33, 0.1)
            && close(|one| one.classic, 0.5, 0.1)
    }
}

/// The row of the documentation's table.
fn row(case: &Case, ours: &Figures, linux: &Figures) -> String {
    let kinds = [(case.prague, "Prague"), (case.cubic, "CUBIC"), (case.cubic_ecn, "CUBIC, ECN")];
    let flows: Vec<_> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    let udp =
        if case.udp > Rate::ZERO { format!(", UDP {:.0}", case.udp.as_bps() as f64 / 1e6) } else { String::new() };
    let pair = |of: fn(&Figures) -> f64, factor: f64, digits: usize| {
        let [ours, linux] = [ours, linux].map(|figures| of(figures) * factor);
        format!("{ours:.digits$}/{linux:.digits$}")
    };
    let columns = [
        format!("{}{udp}", flows.join(" + ")),
        format!("{:.0}", case.rate.as_bps() as f64 / 1e6),
        format!("{:.0}", case.rtt.as_millis_f64()),
        format!("{:.0}", case.threshold.as_millis_f64()),
        pair(|one| one.prague, 1.0, 2),
        pair(|one| one.classic, 1.0, 2),
        pair(|one| one.prague_delay, 1.0, 1),
        pair(|one| one.classic_delay, 1.0, 1),
        pair(|one| one.queue_p95, 1.0, 1),
        pair(|one| one.dropped, 100.0, 2),
        pair(|one| one.marked, 100.0, 2),
        pair(|one| one.used, 1.0, 3),
    ];
    format!("| {} |", columns.join(" | "))
}

/// The cases of the table, with the recorded figures of each seed.
fn cases(algorithm: &str) -> Vec<(Case, Vec<Figures>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dual_pi2/linux.csv");
    let mut cases: Vec<(Case, Vec<Figures>)> = Vec::new();
    for row in table::rows(&path).iter().filter(|row| row["algorithm"] == algorithm) {
        let (case, figures) = (Case::of(row), Figures::of(row));
        match cases.last_mut() {
            Some((last, all)) if *last == case => all.push(figures),
            _ => cases.push((case, vec![figures])),
        }
    }
    cases
}

#[test]
fn rates_delays_drops_and_marks_are_those_of_linux() {
    for ((case, linux), (same_case, aligned)) in cases("linux").into_iter().zip(cases("aligned")) {
        assert_eq!(case, same_case);
        let (linux, aligned) = (Figures::mean(&linux), Figures::mean(&aligned));
        let ours = Figures::mean(&(1..=SEEDS).map(|seed| case.run(seed)).collect::<Vec<_>>());
        println!("{}", row(&case, &ours, &linux));
        // Beside a flood TCP has a few packets in 40 s, and runs differ more.
        let share = if case.udp > case.rate { 0.1 } else { 0.05 };
        assert!(ours.agrees(&aligned, share), "{case:?}: {ours:?}, with the same rules {aligned:?}");
        // The serving of the queues shifts the rates, and evenly spread signals are fewer and keep the queue steadier. The step that
        // marks a packet alone is another law.
        let marks_each_packet = case.rate.time_to_send(Bytes::new(1500)) > case.threshold;
        assert!(marks_each_packet || ours.is_like(&linux), "{case:?}: {ours:?}, Linux {linux:?}");
    }
}
