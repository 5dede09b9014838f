//! Managed queues and ECN beside ns-3 3.37: the queue, what is dropped and marked, use and fairness. The data, and how they were made,
//! are in `tests/data/ns3`.

use link::{Discipline, FqPie, LinkConfig, Pie, QueueLimit, Red};
use sim::{Application, FlowConfig, Network, Record, Settings, Simulation, Start, Stop, Traffic, Transfer};
use std::path::Path;
use std::sync::Arc;
use tcp::{AckPolicy, Config, ControlKind, Profile};
use testkit::table::{self, Row};
use units::{Bytes, Duration, Ecn, Instant, Probability, Rate};

/// How many of ours are run for each case: not as many as ns-3's, for time.
const SEEDS: u64 = 6;
/// The first direction of the bottleneck, by the order of [`simulation`].
const BOTTLENECK: usize = 2;
const FULL: Bytes = Bytes::new(1500);

/// A case of the table.
#[derive(Debug, Clone, PartialEq)]
struct Case {
    discipline: String,
    flows: u32,
    rate: Rate,
    rtt: Duration,
    seconds: u64,
    warm_up: u64,
}

impl Case {
    fn of(row: &Row) -> Self {
        let number = |name: &str| number(row, name) as u64;
        Self {
            discipline: row["discipline"].clone(),
            flows: number("flows") as u32,
            rate: Rate::from_bps(number("mbps") * 1_000_000),
            rtt: Duration::from_millis(number("rtt_ms")),
            seconds: number("seconds"),
            warm_up: number("warm_up_s"),
        }
    }

    fn discipline(&self) -> Discipline {
        let ecn = self.discipline.ends_with("-ecn");
        let certain = Probability::new(1.0).expect("a probability");
        match &self.discipline[..] {
            "pie" | "pie-ecn" => Discipline::Pie(Pie { ecn, ..Pie::default() }),
            "fq-pie" => Discipline::FqPie(FqPie { ecn, ..FqPie::default() }),
            "red" | "red-ecn" => Discipline::Red(Red { ecn, ..Red::new(FULL * 10, FULL * 30) }),
            "dctcp" => Discipline::Red(Red {
                max_probability: certain,
                weight: certain,
                ecn: true,
                ..Red::new(FULL * 15, FULL * 15 + Bytes::new(1))
            }),
            other => panic!("{other}: unknown"),
        }
    }

    fn endpoint(&self) -> Arc<Config> {
        let is_dctcp = self.discipline == "dctcp";
        let profile = Config::new(Profile::Rfc);
        Arc::new(Config {
            control: ControlKind::by_name(if is_dctcp { "dctcp" } else { "reno" }).expect("known"),
            ecn: if is_dctcp || self.discipline.ends_with("-ecn") { Ecn::Ect0 } else { Ecn::NotCapable },
            acks: AckPolicy { every: 1, ..profile.acks },
            ..profile
        })
    }

    /// The path of `queues.cc`.
    fn simulation(&self, seed: u64) -> Simulation {
        let mut network = Network::new();
        let nodes = ["client", "left", "right", "server"].map(|name| network.add_node(name).expect("new"));
        let access = Duration::from_millis(1);
        let lan = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1_000_000_000), access) };
        let back = LinkConfig {
            // PPP's header.
            overhead: Bytes::new(2),
            queue: QueueLimit::Unlimited,
            seed,
            ..LinkConfig::new(self.rate, self.rtt / 2 - access * 2)
        };
        let queue = QueueLimit::Packets(1000);
        let there = LinkConfig { discipline: self.discipline(), queue, stream: 1, ..back.clone() };
        network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
        network.add_link("bottleneck", nodes[1], nodes[2], there, back).expect("valid");
        network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
        let flow = |number| FlowConfig {
            name: format!("flow-{number}"),
            from: nodes[0],
            to: nodes[3],
            start: Start { at: Instant::ZERO, spread: Duration::from_secs(5) },
            stop: None,
            traffic: Traffic::Tcp {
                client: self.endpoint(),
                server: self.endpoint(),
                application: Application::Bulk { size: None, transfer: Transfer::Upload },
            },
            record: true,
        };
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(self.seconds)), when_complete: false };
        let record = Record { queue_interval: Some(Duration::from_millis(10)), ..Record::default() };
        let settings = Settings { seed, stop, record, ..Settings::default() };
        Simulation::new(network, (0..self.flows).map(flow).collect(), settings).expect("valid")
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
        let mut queue: Vec<_> = simulation
            .take_queue_samples()
            .iter()
            .filter(|sample| sample.direction.index() == BOTTLENECK && sample.at >= begun)
            .map(|sample| self.rate.time_to_send(sample.bytes).as_millis_f64())
            .collect();
        queue.sort_by(f64::total_cmp);
        let counters = |report: &sim::Report| report.links[BOTTLENECK].counters;
        let (old, new) = (counters(&before), counters(&after));
        let offered = (new.offered.packets - old.offered.packets) as f64;
        let dropped =
            |counters: &link::Counters| counters.dropped_queue_delay.packets + counters.dropped_queue_full.packets;
        let rates: Vec<_> = after
            .flows
            .iter()
            .zip(&before.flows)
            .map(|(after, before)| (after.bytes - before.bytes) as f64 * 8.0 / elapsed)
            .collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        Figures {
            queue_mean: queue.iter().sum::<f64>() / queue.len() as f64,
            queue_p95: queue[queue.len() * 95 / 100],
            dropped: (dropped(&new) - dropped(&old)) as f64 / offered,
            marked: (new.marked.packets - old.marked.packets) as f64 / offered,
            used: sum / (self.rate.as_bps() as f64 * 1448.0 / 1502.0),
            fairness: sum * sum / (rates.len() as f64 * squares),
        }
    }
}

/// What is compared, over all the time but for the first seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    /// In ms.
    queue_mean: f64,
    queue_p95: f64,
    /// Shares of the packets offered.
    dropped: f64,
    marked: f64,
    /// Payload delivered, as a share of what fits.
    used: f64,
    /// Jain's index.
    fairness: f64,
}

impl Figures {
    fn of(row: &Row) -> Self {
        Self {
            queue_mean: number(row, "queue_mean_ms"),
            queue_p95: number(row, "queue_p95_ms"),
            dropped: number(row, "dropped"),
            marked: number(row, "marked"),
            used: number(row, "use"),
            fairness: number(row, "fairness"),
        }
    }

    fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        Self {
            queue_mean: mean(|one| one.queue_mean),
            queue_p95: mean(|one| one.queue_p95),
            dropped: mean(|one| one.dropped),
            marked: mean(|one| one.marked),
            used: mean(|one| one.used),
            fairness: mean(|one| one.fairness),
        }
    }
}

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name} in {row:?}"))
}

/// The cases of the table, with ns-3's figures of each seed.
fn cases() -> Vec<(Case, Vec<Figures>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ns3/queues.csv");
    let mut cases: Vec<(Case, Vec<Figures>)> = Vec::new();
    for row in table::rows(&path) {
        let (case, figures) = (Case::of(&row), Figures::of(&row));
        match cases.last_mut() {
            Some((last, all)) if *last == case => all.push(figures),
            _ => cases.push((case, vec![figures])),
        }
    }
    cases
}

#[test]
fn queues_drops_and_marks_are_those_of_ns3() {
    for (case, theirs) in cases() {
        let theirs = Figures::mean(&theirs);
        let ours = Figures::mean(&(1..=SEEDS).map(|seed| case.run(seed)).collect::<Vec<_>>());
        let Case { discipline, flows, rate, rtt, .. } = &case;
        println!(
            "| {discipline} | {flows} | {:.0} | {:.0} | {:.1}/{:.1} | {:.1}/{:.1} | {:.2}/{:.2} | {:.2}/{:.2} | {:.3}/{:.3} | {:.3}/{:.3} |",
            rate.as_bps() as f64 / 1e6,
            rtt.as_millis_f64(),
            ours.queue_mean,
            theirs.queue_mean,
            ours.queue_p95,
            theirs.queue_p95,
            ours.dropped * 100.0,
            theirs.dropped * 100.0,
            ours.marked * 100.0,
            theirs.marked * 100.0,
            ours.used,
            theirs.used,
            ours.fairness,
            theirs.fairness,
        );
        let close =
            |ours: f64, theirs: f64, share: f64, least: f64| (ours - theirs).abs() <= (share * theirs).max(least);
        // PIE drops instead of marking where its probability is high.
        let signals = |figures: Figures| figures.dropped + figures.marked;
        // ns-3's marks keep no distances there: of two that are close, the second tells a sender nothing new.
        let excess = if discipline == "pie-ecn" { 0.3 } else { 0.2 };
        let agrees = close(ours.queue_mean, theirs.queue_mean, 0.1, 1.0)
            && close(ours.queue_p95, theirs.queue_p95, 0.2, 1.0)
            && close(signals(ours), signals(theirs), excess, 0.001)
            && close(ours.used, theirs.used, 0.03, 0.0)
            && close(ours.fairness, theirs.fairness, 0.03, 0.0);
        assert!(agrees, "{case:?}: {ours:?}, ns-3 {theirs:?}");
    }
}
