//! The `linux` profile beside Linux 6.18 over links that reorder: the kernel ran the same scenarios in `bentpipe lab`.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{FlowReport, Simulation};

/// A link of 10 Mbit/s that delays some of the packets, and a file over it.
struct Case {
    control: &'static str,
    /// One way.
    delay: &'static str,
    /// The share of packets that come later, and by how much.
    late: (f64, &'static str),
    file: &'static str,
}

impl Case {
    fn run(&self, seed: u64) -> FlowReport {
        let Self { control, delay, late: (probability, extra_delay), file } = self;
        let text = format!(
            r#"
version = 1
nodes = ["client", "server"]
[[link]]
name = "sat"
between = ["client", "server"]
rate = "10Mbit/s"
delay = "{delay}"
queue = "1000packets"
forward = {{ reorder = {{ probability = {probability}, extra_delay = "{extra_delay}" }} }}
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "host"
bulk = {{ size = "{file}" }}
[tcp.host]
profile = "linux"
control = "{control}"
[stop]
time = "100s"
"#
        );
        let scenario = load(&text, "reordering.toml", &[], &|_| Err(String::new())).unwrap().scenarios.remove(0);
        let mut simulation = Simulation::of(&scenario, seed, true).unwrap();
        simulation.run();
        let report = simulation.report().flows.remove(0);
        assert!(report.complete, "{report:?}");
        report
    }

    /// The medians of retransmissions and of seconds over some seeds.
    fn medians(&self) -> (u64, f64) {
        let reports: Vec<_> = (1..=9).map(|seed| self.run(seed)).collect();
        let mut again: Vec<_> = reports.iter().map(|report| report.retransmissions).collect();
        let mut times: Vec<_> = reports.iter().map(|report| report.end_s.unwrap() - report.start_s.unwrap()).collect();
        again.sort_unstable();
        times.sort_unstable_by(f64::total_cmp);
        println!("{} {} {:?}: {again:?} again, {times:.2?} s", self.control, self.delay, self.late);
        (again[4], times[4])
    }
}

/// What came late in spite of its repair tells that the path reorders: repairs then wait for a quarter of a round trip
/// (`tcp_try_undo_partial`).
#[test]
fn reordering_that_was_taken_for_loss_is_waited_for() {
    let short = Case { control: "cubic", delay: "20ms", late: (0.02, "5ms"), file: "6MB" };
    let satellite = Case { control: "cubic", delay: "275ms", late: (0.01, "20ms"), file: "3MB" };
    // The kernel sent 1 and 1 again.
    for case in [short, satellite] {
        let (again, _) = case.medians();
        assert!(again <= 3, "{again}");
    }
    // And here 8.
    let long = Case { control: "cubic", delay: "20ms", late: (0.02, "40ms"), file: "6MB" };
    let (again, _) = long.medians();
    assert!((3..=20).contains(&again), "{again}");
}

/// Segments that come later than a round trip: the recovery has ended when their duplicates are reported, and the window is restored
/// (`tcp_try_undo_dsack`).
#[test]
fn duplicates_reported_after_the_end_of_a_recovery_restore_the_window() {
    for (control, kernel) in [("cubic", 4.9), ("reno", 3.9)] {
        let (_, time) = Case { control, delay: "30ms", late: (0.02, "80ms"), file: "4MB" }.medians();
        assert!(time < 1.3 * kernel, "{control}: {time} s, the kernel's {kernel} s");
    }
}
