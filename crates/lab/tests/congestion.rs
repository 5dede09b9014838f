//! The controls that are loaded into the kernel beside their twins of the simulator: the same transfers over the same link
//! with the same packets lost. A busy host adds to the delay of the link: the twins get the round trip that was seen.
//! `-- --ignored --nocapture` runs longer ones; BENTPIPE_WINDOWS=FILE.svg draws the windows. Where controls cannot be loaded,
//! the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "a test: moves real traffic in real time")]

mod kernel_flow;

use congestion::{Control, LinkEntry};
use kernel::testing::best_of_three;
use kernel_flow::{load, network, upload};
use lab::flows::{Plan, WindowSample, run_plans};
use lab::{Ends, Satellite};
use link::{LinkConfig, LossModel, QueueLimit};
use results::chart::{Axis, Chart, Series, Style, stacked};
use sim::{
    Application, FlowConfig, FlowSample, Limits, Network, Record, Settings, Simulation, Start, Stop, Traffic, Transfer,
};
use std::cell::RefCell;
use std::sync::Arc;
use tcp::{AckPolicy, Allocation, Capacity, Config, Profile, ReceiveBuffer};
use units::{Bytes, Duration, Instant, Rate};

/// Payload of a full segment.
const MSS: f64 = 1448.0;
/// Bytes of headers for each byte of payload: 52 of IPv4, TCP and timestamps.
const HEADER_SHARE: f64 = 52.0 / MSS;
/// Between two looks at a connection.
const SAMPLES: Duration = Duration::from_millis(10);
/// The control that never builds a queue, so that its round trips are the path's.
const WITHOUT_QUEUE: &str = "bp_cross";

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

/// The result, and the window in segments against time.
struct Outcome {
    seconds: f64,
    retransmissions: u64,
    windows: Vec<(f64, f64)>,
    /// The median of the smoothed round-trip times.
    rtt: Duration,
}

impl Case {
    fn control(&self) -> &'static Control {
        Control::by_name(self.control).expect("a control")
    }

    fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt)
    }

    /// The satellite's two ways, forward and return; packets are lost on the return link.
    fn satellite(&self, rtt: Duration) -> Satellite {
        let queue = QueueLimit::Packets(self.queue);
        let forward = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(self.rate), rtt / 2) };
        let loss = LossModel::DropList(self.drops.clone());
        Satellite { return_link: LinkConfig { loss, stream: 1, ..forward.clone() }, forward }
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
                .set(
                    0,
                    LinkEntry {
                        capacity,
                        header_share: HEADER_SHARE,
                        connections: None,
                        target_queue: Duration::ZERO,
                        expiry: None,
                    },
                )
                .expect("there is room");
        }
        let topology = network(self.satellite(self.rtt()));
        let workload = upload(held.name(), self.size());
        let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
        let windows = Some(SAMPLES);
        let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows };
        let flow = run_plans(&[plan]).expect("the flow ends").remove(0);
        topology.stop().expect("it ran to the end");
        let sample = |sample: &WindowSample| (sample.at.as_secs_f64(), f64::from(sample.info.cwnd));
        Some(Outcome {
            seconds: flow.time().as_secs_f64(),
            retransmissions: flow.retransmitted_segments.into(),
            windows: flow.windows.iter().map(sample).collect(),
            rtt: median(flow.windows.iter().map(|sample| sample.info.srtt.into())),
        })
    }

    /// By the twin, over a path of this round trip. The receiving application reads each segment when it comes, upon which the
    /// kernel acknowledges.
    fn simulate(&self, path: Duration) -> Outcome {
        let mut network = Network::new();
        let client = network.add_node("client").expect("new");
        let server = network.add_node("server").expect("new");
        let Satellite { forward, return_link } = self.satellite(path);
        network.add_link("satellite", client, server, return_link, forward).expect("valid");
        let linux = Config::new(Profile::Linux);
        // The window of `bp_cross` goes by the shortest round trip, which is the link's for the kernel and the path's here.
        let rate = Rate::from_bps(self.rate * self.rtt().as_nanos() / path.as_nanos());
        let capacity = Capacity::new(Allocation::new(rate, 1), path);
        let mut config = Config {
            control: tcp::ControlKind::by_name(self.control().twin).expect("a twin"),
            acks: AckPolicy { every: 1, ..linux.acks },
            receive_buffer: ReceiveBuffer::plain(kernel_flow::RECEIVE_BUFFER),
            // The other controls know nothing of the link.
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
        let record = Record { window_changes: true, flow_interval: Some(SAMPLES), ..Record::default() };
        let settings = Settings { stop, limits, record, ..Settings::default() };
        let mut simulation = Simulation::new(network, vec![flow], settings).expect("valid");
        simulation.run();
        let report = simulation.report().flows.remove(0);
        let sample = |sample: &FlowSample| (sample.at.as_secs_f64(), sample.cwnd.as_u64() as f64 / MSS);
        let samples = simulation.take_flow_samples();
        Outcome {
            seconds: report.end_s.expect("it ended") - report.start_s.expect("it began"),
            retransmissions: report.retransmissions,
            windows: samples.iter().map(sample).collect(),
            rtt: median(samples.iter().filter_map(|sample| sample.srtt)),
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

    /// What the kernel did beside what its twin does over the path that was found.
    fn compare(&self, real: Outcome, path: Duration) -> Comparison {
        let simulated = self.simulate(path);
        let percent = (simulated.seconds / real.seconds - 1.0) * 100.0;
        let window = window_deviation(&real.windows, &simulated.windows, real.seconds.min(simulated.seconds));
        println!(
            "{:12} {:>3} Mbit/s {:>4} ms {:>3} MB {:3} lost: kernel {:8.3} s {:4} again, twin {:8.3} s {:4} again, {percent:+6.2} %; \
             windows differ by {:5.2} %; path {:.1} ms",
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
            path.as_secs_f64() * 1e3,
        );
        Comparison { percent: percent.abs(), window, chart: self.chart(real.windows, simulated.windows) }
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

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
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

/// The kernel's runs, all at once; `None` where it takes no controls.
fn measure(cases: &[Case]) -> Option<Vec<Outcome>> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = cases.iter().map(|case| scope.spawn(|| case.measure())).collect();
        runs.into_iter().map(|run| run.join().expect("it ended")).collect()
    })
}

/// Every control that is not yet `done` beside its twin, and those that are close to it are done. Draws the windows where
/// that is asked for.
fn each_beside_its_twin(done: &mut Vec<&'static str>) -> Result<(), String> {
    // The first loss ends slow starts before queues do.
    let drops = [40, 400, 401, 1500];
    let missing = |name: &str| name == WITHOUT_QUEUE || !done.contains(&name);
    let names = congestion::CONTROLS.iter().map(|control| control.name).filter(|name| missing(name));
    let cases: Vec<_> = names.map(|name| case(name, 10, 100, 4, &drops)).collect();
    let Some(outcomes) = measure(&cases) else { return Ok(()) };
    let probe = cases.iter().position(|case| case.control == WITHOUT_QUEUE).expect("always measured");
    let delay = outcomes[probe].rtt.saturating_sub(cases[probe].simulate(cases[probe].rtt()).rtt);
    let path = cases[probe].rtt() + delay;
    let comparisons: Vec<_> = cases.iter().zip(outcomes).map(|(case, outcome)| case.compare(outcome, path)).collect();
    if let Some(file) = std::env::var_os("BENTPIPE_WINDOWS") {
        let charts: Vec<_> = comparisons.iter().map(|comparison| comparison.chart.clone()).collect();
        let title = "Windows of the kernel and of the simulator: 10 Mbit/s, 100 ms, 4 MB, four packets lost";
        std::fs::write(file, stacked(title, &charts).expect("charts")).expect("the file can be written");
    }
    let mut wrong = Vec::new();
    for (case, Comparison { percent, window, .. }) in cases.iter().zip(comparisons) {
        if percent <= 5.0 && window <= 0.1 {
            done.push(case.control);
        } else if !done.contains(&case.control) {
            wrong.push(format!("{}: times differ by {percent:.2} %, windows by {window:.3}", case.control));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

#[test]
fn each_control_takes_the_time_of_its_twin() {
    let done = RefCell::new(Vec::new());
    best_of_three(|| each_beside_its_twin(&mut done.borrow_mut()));
}

#[test]
#[ignore = "three minutes of real transfers"]
fn long_paths_and_many_losses() {
    let every = |n: u64| (1..60_000).filter(|k| k % n == n / 2).collect::<Vec<_>>();
    let mut misses = Vec::new();
    for (rate, rtt, megabytes, drops) in [
        (10, 100, 4, vec![]),
        (10, 100, 4, every(500)),
        (10, 100, 4, every(100)),
        (6, 550, 5, vec![]),
        (6, 550, 5, vec![700]),
        (6, 550, 5, every(500)),
        (8, 500, 8, every(84)),
    ] {
        let cases: Vec<_> =
            congestion::CONTROLS.iter().map(|control| case(control.name, rate, rtt, megabytes, &drops)).collect();
        let Some(outcomes) = measure(&cases) else { return };
        for (case, outcome) in cases.iter().zip(outcomes) {
            let Comparison { percent, .. } = case.compare(outcome, case.rtt());
            if percent > 5.0 {
                misses.push(format!("{} {rtt} ms {} lost: {percent:.1} %", case.control, drops.len()));
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}
