//! The `linux` profile beside the kernel's TCP: the same transfers over the same links with the same drop lists. The
//! kernel's times were measured over the emulator, which runs the simulator's own link code: see `data/kernel`.

use link::{LinkConfig, LossModel, QueueLimit};
use sim::{Application, FlowConfig, FlowReport, Limits, Network, Settings, Simulation, Start, Stop, Traffic, Transfer};
use std::sync::Arc;
use tcp::{Config, Profile, ReceiveBuffer};
use units::{Bytes, Duration, Instant, Rate};

const MEASURED: &str = include_str!("data/kernel/measured.csv");

/// A transfer, and what the kernel made of it.
struct Case {
    control: String,
    rtt: Duration,
    rate: Rate,
    size: Bytes,
    queue: u64,
    drops: Vec<u64>,
    /// The fastest of the runs, the one that other programs disturbed least, in seconds.
    time: f64,
    retransmissions: u64,
}

impl Case {
    fn parse(line: &str) -> Self {
        let fields: Vec<_> = line.split(',').collect();
        let [control, rtt, rate, size, queue, drops, _median, fastest, _slowest, retransmissions] = fields[..] else {
            panic!("ten columns, not `{line}`")
        };
        Self {
            control: control.to_owned(),
            rtt: rtt.parse().expect("a duration"),
            rate: rate.parse().expect("a rate"),
            size: size.parse().expect("a size"),
            queue: queue.parse().expect("packets"),
            drops: drops.split_whitespace().map(|drop| drop.parse().expect("a number")).collect(),
            time: fastest.parse().expect("seconds"),
            retransmissions: retransmissions.parse().expect("a number"),
        }
    }

    fn simulate(&self) -> FlowReport {
        let mut network = Network::new();
        let client = network.add_node("client").expect("new");
        let server = network.add_node("server").expect("new");
        let queue = QueueLimit::Packets(self.queue);
        let back = LinkConfig { queue, ..LinkConfig::new(self.rate, self.rtt / 2) };
        let loss = LossModel::DropList(self.drops.clone());
        let there = LinkConfig { loss, stream: 1, ..back.clone() };
        network.add_link("satellite", client, server, there, back).expect("valid");
        // The kernel's BBR is version 1.
        let name = if self.control == "bbr" { "bbr1" } else { &self.control };
        let control = tcp::ControlKind::by_name(name).expect("a control");
        let linux = Config::new(Profile::Linux);
        // The measurements' `tcp_rmem`, of which windows are 5/8: they grow with each segment to the end.
        let receive_buffer = ReceiveBuffer { size: Bytes::new(64 << 20), ..ReceiveBuffer::linux() };
        let config = Arc::new(Config { control, receive_buffer, ..linux });
        let flow = FlowConfig {
            name: "transfer".to_owned(),
            from: client,
            to: server,
            start: Start::default(),
            stop: None,
            traffic: Traffic::Tcp {
                client: Arc::clone(&config),
                server: config,
                application: Application::Bulk { size: Some(self.size), transfer: Transfer::Upload },
            },
            record: false,
        };
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(600)), when_complete: true };
        let limits = Limits { events: 3_000_000, ..Limits::default() };
        let settings = Settings { stop, limits, ..Settings::default() };
        let mut simulation = Simulation::new(network, vec![flow], settings).expect("valid");
        simulation.run();
        simulation.report().flows.remove(0)
    }
}

impl Case {
    /// Ours beside the kernel's, and the deviation of our time in per cent.
    fn compare(&self) -> Comparison {
        let report = self.simulate();
        let time = report.end_s.unwrap_or(f64::INFINITY) - report.start_s.unwrap_or(0.0);
        let percent = (time / self.time - 1.0) * 100.0;
        println!(
            "{:5} {:>5} {:>8} {:>4} {:2} drops: kernel {:8.4} s {:3} again, ours {time:8.4} s {:3} again, {percent:+6.2} %",
            self.control,
            self.rtt.to_string(),
            self.rate.to_string(),
            self.size.to_string(),
            self.drops.len(),
            self.time,
            self.retransmissions,
            report.retransmissions,
        );
        Comparison { percent: percent.abs(), repeats_alike: self.retransmissions == report.retransmissions }
    }
}

struct Comparison {
    /// How far our time is from the kernel's.
    percent: f64,
    /// Whether both sent as many segments again.
    repeats_alike: bool,
}

/// The comparisons of a control at a round-trip time.
fn compare(control: &str, rtt: Duration) -> Vec<Comparison> {
    let lines = MEASURED.lines().skip(1).map(Case::parse);
    let comparisons: Vec<_> =
        lines.filter(|case| case.control == control && case.rtt == rtt).map(|case| case.compare()).collect();
    assert_eq!(comparisons.len(), 14, "{control} at {rtt}");
    comparisons
}

fn share(of: &[Comparison], which: impl Fn(&Comparison) -> bool) -> f64 {
    of.iter().filter(|comparison| which(comparison)).count() as f64 / of.len() as f64
}

#[test]
fn reno_and_cubic_take_the_kernels_time() {
    for rtt in [10, 100, 550].map(Duration::from_millis) {
        let all = [compare("reno", rtt), compare("cubic", rtt)].into_iter().flatten().collect::<Vec<_>>();
        assert!(share(&all, |comparison| comparison.percent <= 5.0) >= 1.0, "{rtt}");
        assert!(share(&all, |comparison| comparison.percent <= 1.0) >= 0.8, "{rtt}");
        assert!(share(&all, |comparison| comparison.repeats_alike) >= 0.9, "{rtt}");
    }
}

#[test]
fn bbr_takes_the_kernels_time() {
    for rtt in [10, 100, 550].map(Duration::from_millis) {
        let all = compare("bbr", rtt);
        assert!(share(&all, |comparison| comparison.percent <= 1.0) >= 0.9, "{rtt}");
        assert!(share(&all, |comparison| comparison.percent <= 2.0) >= 1.0, "{rtt}");
    }
}

/// Linux 6.18 over `bentpipe lab`, 550 ms, 50 Mbit/s: the SYN is lost once, twice, or six times in a row.
#[test]
fn lost_syns_cost_what_they_cost_the_kernel() {
    for (control, lost, time) in
        [("cubic", 1, 4.636), ("cubic", 2, 7.323), ("cubic", 6, 12.404), ("bbr", 1, 5.141), ("bbr", 2, 7.367)]
    {
        let case = Case {
            control: control.to_owned(),
            rtt: Duration::from_millis(550),
            rate: Rate::from_bps(50_000_000),
            size: Bytes::new(700_000),
            queue: 10_000,
            drops: (0..lost).collect(),
            time,
            retransmissions: lost,
        };
        assert!(case.compare().percent <= 2.0, "{control}, {lost} lost");
    }
}
