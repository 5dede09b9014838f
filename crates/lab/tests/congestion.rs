//! The controls that are loaded into the kernel beside their twins of the simulator: the same transfers over the same link
//! with the same packets lost. `-- --ignored --nocapture` runs longer ones; BENTPIPE_WINDOWS=FILE.svg draws the windows. Where
//! controls cannot be loaded, the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "a test: moves real traffic in real time")]

mod kernel_flow;

use congestion::{Control, LinkWord};
use kernel::testing::best_of_three;
use kernel_flow::{load, network, upload};
use lab::flows::{Plan, WindowSample, run_plans};
use lab::{Ends, Satellite};
use link::{LinkConfig, LossModel, QueueLimit};
use results::chart::{Axis, Chart, Series, Style, stacked};
use sim::{
    Application, FlowConfig, FlowSample, Limits, Network, Record, Settings, Simulation, Start, Stop, Traffic, Transfer,
};
use std::sync::Arc;
use tcp::{AckPolicy, Capacity, Config, Profile};
use units::{Bytes, Duration, Instant, Rate};

/// Payload of a full segment.
const MSS: f64 = 1448.0;
/// Bytes of headers for each byte of payload: 52 of IPv4, TCP and timestamps.
const HEADER_SHARE: f64 = 52.0 / MSS;

/// One file over one link.
struct Case {
    control: &'static str,
    rate: u64,
    rtt: u64,
    megabytes: u64,
    /// Numbers of the packets that are lost on the client's way, from 0 (the SYN).
    drops: Vec<u64>,
    /// Packets that may wait.
    queue: u64,
}

/// What came of it, and the window in segments against time.
struct Outcome {
    seconds: f64,
    retransmissions: u64,
    windows: Vec<(f64, f64)>,
}

impl Case {
    fn control(&self) -> &'static Control {
        Control::by_name(self.control).expect("a control")
    }

    fn link(&self) -> LinkConfig {
        let queue = QueueLimit::Packets(self.queue);
        LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(self.rate), Duration::from_millis(self.rtt) / 2) }
    }

    fn lossy(&self) -> LinkConfig {
        LinkConfig { loss: LossModel::DropList(self.drops.clone()), stream: 1, ..self.link() }
    }

    fn size(&self) -> Bytes {
        Bytes::new(self.megabytes * 1_000_000)
    }

    /// By the kernel; `None` where it takes no controls.
    fn measure(&self) -> Option<Outcome> {
        let held = load(self.control())?;
        if let Some(links) = held.links() {
            let capacity = Rate::from_bps(self.rate);
            links
                .set(0, LinkWord { capacity, header_share: HEADER_SHARE, sessions: None, expiry: None })
                .expect("there is room");
        }
        let satellite = Satellite { forward: self.link(), return_link: self.lossy() };
        let topology = network(satellite);
        let workload = upload(held.name(), self.size());
        let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
        let windows = Some(Duration::from_millis(10));
        let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows };
        let flow = run_plans(&[plan]).expect("the flow ends").remove(0);
        topology.stop().expect("it ran to the end");
        let sample = |sample: &WindowSample| (sample.at.as_secs_f64(), f64::from(sample.info.cwnd));
        Some(Outcome {
            seconds: flow.time().as_secs_f64(),
            retransmissions: flow.retransmitted_segments.into(),
            windows: flow.windows.iter().map(sample).collect(),
        })
    }

    /// By the twin. The receiving application reads each segment when it comes, upon which the kernel acknowledges.
    fn simulate(&self) -> Outcome {
        let mut network = Network::new();
        let client = network.add_node("client").expect("new");
        let server = network.add_node("server").expect("new");
        network.add_link("satellite", client, server, self.lossy(), self.link()).expect("valid");
        let linux = Config::new(Profile::Linux);
        let rtt = Duration::from_millis(self.rtt);
        let capacity = Capacity { rate: Rate::from_bps(self.rate), rtt, connections: 1 };
        let mut config = Config {
            control: tcp::ControlKind::by_name(self.control().twin).expect("a twin"),
            acks: AckPolicy { every: 1, ..linux.acks },
            // The kernel tells the others nothing of the link.
            capacity: (self.control == "bp_cross").then_some(capacity),
            ..linux
        };
        config.tuning.header_share = HEADER_SHARE;
        let config = Arc::new(config);
        let flow = FlowConfig {
            name: "transfer".to_owned(),
            from: client,
            to: server,
            start: Start::default(),
            stop: None,
            traffic: Traffic::Tcp {
                client: Arc::clone(&config),
                server: config,
                application: Application::Bulk { size: Some(self.size()), transfer: Transfer::Upload },
            },
            record: true,
        };
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(600)), when_complete: true };
        let limits = Limits { events: 3_000_000, ..Limits::default() };
        let record = Record { window_changes: true, ..Record::default() };
        let settings = Settings { stop, limits, record, ..Settings::default() };
        let mut simulation = Simulation::new(network, vec![flow], settings).expect("valid");
        simulation.run();
        let report = simulation.report().flows.remove(0);
        let sample = |sample: &FlowSample| (sample.at.as_secs_f64(), sample.cwnd.as_u64() as f64 / MSS);
        Outcome {
            seconds: report.end_s.expect("it ended") - report.start_s.expect("it began"),
            retransmissions: report.retransmissions,
            windows: simulation.take_flow_samples().iter().map(sample).collect(),
        }
    }

    fn chart(&self, real: Vec<(f64, f64)>, simulated: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: self.control.to_owned(),
            x: Axis::linear("time, s"),
            y: Axis::linear("congestion window, segments"),
            series: vec![Series::new("kernel", Style::Steps, real), Series::new("simulator", Style::Dashed, simulated)],
            caption: String::new(),
        }
    }

    /// Runs both; `None` where the kernel takes no controls.
    fn compare(&self) -> Option<Comparison> {
        let (real, simulated) = (self.measure()?, self.simulate());
        let percent = (simulated.seconds / real.seconds - 1.0) * 100.0;
        let window = window_deviation(&real.windows, &simulated.windows, real.seconds.min(simulated.seconds));
        println!(
            "{:12} {:>3} Mbit/s {:>4} ms {:>3} MB {:3} lost: kernel {:8.3} s {:4} again, twin {:8.3} s {:4} again, {percent:+6.2} %; \
             windows differ by {:5.2} %",
            self.control,
            self.rate / 1_000_000,
            self.rtt,
            self.megabytes,
            self.drops.len(),
            real.seconds,
            real.retransmissions,
            simulated.seconds,
            simulated.retransmissions,
            window * 100.0,
        );
        Some(Comparison { percent: percent.abs(), window, chart: self.chart(real.windows, simulated.windows) })
    }
}

struct Comparison {
    /// How far the twin's time is from the kernel's.
    percent: f64,
    /// How far the windows are from each other.
    window: f64,
    /// Both windows.
    chart: Chart,
}

/// The mean distance of two windows over the mean of the second, until `end`.
fn window_deviation(real: &[(f64, f64)], simulated: &[(f64, f64)], end: f64) -> f64 {
    let of = |time: f64| {
        let after = simulated.partition_point(|(at, _)| *at <= time);
        simulated.get(after.wrapping_sub(1)).map(|(_, cwnd)| *cwnd)
    };
    let pairs: Vec<_> = real
        .iter()
        .filter(|(at, _)| *at <= end)
        .filter_map(|(at, cwnd)| of(*at).map(|simulated| ((cwnd - simulated).abs(), simulated)))
        .collect();
    pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.iter().map(|pair| pair.1).sum::<f64>()
}

fn case(control: &'static str, rate: u64, rtt: u64, megabytes: u64, drops: &[u64]) -> Case {
    Case { control, rate: rate * 1_000_000, rtt, megabytes, drops: drops.to_vec(), queue: 10_000 }
}

/// Every control beside its twin; draws the windows where that is asked for.
fn each_beside_its_twin() -> Result<(), String> {
    // The first loss ends slow starts before queues do.
    let drops = [40, 400, 401, 1500];
    let compare = |control: &'static Control| case(control.name, 10, 100, 4, &drops).compare();
    let comparisons: Vec<Option<Comparison>> = std::thread::scope(|scope| {
        let runs: Vec<_> = congestion::CONTROLS.iter().map(|control| scope.spawn(move || compare(control))).collect();
        runs.into_iter().map(|run| run.join().expect("it ended")).collect()
    });
    let Some(comparisons) = comparisons.into_iter().collect::<Option<Vec<_>>>() else { return Ok(()) };
    if let Some(file) = std::env::var_os("BENTPIPE_WINDOWS") {
        let charts: Vec<_> = comparisons.iter().map(|comparison| comparison.chart.clone()).collect();
        let title = "Windows of the kernel and of the simulator: 10 Mbit/s, 100 ms, 4 MB, four packets lost";
        std::fs::write(file, stacked(title, &charts).expect("charts")).expect("the file can be written");
    }
    for (control, Comparison { percent, window, .. }) in congestion::CONTROLS.iter().zip(comparisons) {
        if percent > 5.0 || window > 0.1 {
            return Err(format!("{}: times differ by {percent} %, windows by {window}", control.name));
        }
    }
    Ok(())
}

#[test]
fn each_control_takes_the_time_of_its_twin() {
    best_of_three(each_beside_its_twin);
}

#[test]
#[ignore = "three minutes of real transfers"]
fn long_paths_and_many_losses() {
    let every = |n: u64| (1..60_000).filter(|k| k % n == n / 2).collect::<Vec<_>>();
    let mut misses = Vec::new();
    for control in congestion::CONTROLS {
        for (rate, rtt, megabytes, drops) in [
            (10, 100, 4, vec![]),
            (10, 100, 4, every(500)),
            (10, 100, 4, every(100)),
            (6, 550, 5, vec![]),
            (6, 550, 5, vec![700]),
            (6, 550, 5, every(500)),
            (8, 500, 8, every(84)),
        ] {
            let Some(comparison) = case(control.name, rate, rtt, megabytes, &drops).compare() else { return };
            if comparison.percent > 5.0 {
                misses.push(format!("{} {rtt} ms {} lost: {:.1} %", control.name, drops.len(), comparison.percent));
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}
