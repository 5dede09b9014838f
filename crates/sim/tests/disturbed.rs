//! The `linux` profile beside Linux 6.18 over links that reorder or go out: the kernel ran the same scenarios in `bentpipe lab`.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{FlowReport, Simulation};

/// A file over a link of 10 Mbit/s.
struct Case {
    control: &'static str,
    /// The link's other settings, as TOML.
    link: String,
    file: &'static str,
}

impl Case {
    /// A long queue, and a link that delays the share `probability` of the packets by `extra_delay`.
    fn late(control: &'static str, delay: &str, (probability, extra_delay): (f64, &str), file: &'static str) -> Self {
        let link = format!(
            "delay = '{delay}'\nqueue = '1000packets'\n\
             forward.reorder = {{ probability = {probability}, extra_delay = '{extra_delay}' }}"
        );
        Self { control, link, file }
    }

    fn run(&self, seed: u64) -> FlowReport {
        let Self { control, link, file } = self;
        let text = format!(
            r#"
version = 1
nodes = ["client", "server"]
[[link]]
name = "sat"
between = ["client", "server"]
rate = "10Mbit/s"
{link}
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
        let scenario = load(&text, "disturbed.toml", &[], &|_| Err(String::new())).unwrap().scenarios.remove(0);
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
        println!("{} {}: {again:?} again, {times:.2?} s", self.control, self.link);
        (again[4], times[4])
    }
}

/// What came late in spite of its repair tells that the path reorders: repairs then wait for a quarter of a round trip
/// (`tcp_try_undo_partial`).
#[test]
fn reordering_that_was_taken_for_loss_is_waited_for() {
    let short = Case::late("cubic", "20ms", (0.02, "5ms"), "6MB");
    let satellite = Case::late("cubic", "275ms", (0.01, "20ms"), "3MB");
    // The kernel sent 1 and 1 again.
    for case in [short, satellite] {
        let (again, _) = case.medians();
        assert!(again <= 3, "{again}");
    }
    // And here 8.
    let long = Case::late("cubic", "20ms", (0.02, "40ms"), "6MB");
    let (again, _) = long.medians();
    assert!((3..=20).contains(&again), "{again}");
}

/// Segments that come later than a round trip: the recovery has ended when their duplicates are reported, and the window is restored
/// (`tcp_try_undo_dsack`).
#[test]
fn duplicates_reported_after_the_end_of_a_recovery_restore_the_window() {
    for (control, kernel) in [("cubic", 4.9), ("reno", 3.9)] {
        let (_, time) = Case::late(control, "30ms", (0.02, "80ms"), "4MB").medians();
        assert!(time < 1.3 * kernel, "{control}: {time} s, the kernel's {kernel} s");
    }
}

/// An outage of two seconds that begins in a recovery. What detection by time had found lost counts as in flight again once the first timeout
/// turns out to be needless, and only another one repairs it (`tcp_undo_cwnd_reduction`): the kernel stood still for six seconds.
#[test]
fn an_outage_during_a_recovery_costs_a_second_timeout() {
    let link = "delay = '30ms'\nqueue = '200packets'\nrate_steps.steps = [['1s', '0bit/s'], ['3s', '10Mbit/s']]";
    for (control, (kernel_s, kernel_again)) in [("reno", (11.7, 256)), ("cubic", (5.51, 2))] {
        let (again, time) = Case { control, link: link.to_owned(), file: "4MB" }.medians();
        assert_eq!(again, kernel_again, "{control}");
        assert!((time / kernel_s - 1.0).abs() < 0.03, "{control}: {time} s, the kernel's {kernel_s} s");
    }
}

/// Segments that come later than the next recovery: what was undone too soon, or forgotten of the last maximum, would be faster by half.
#[test]
fn segments_that_are_late_by_three_round_trips_slow_the_transfer_as_much() {
    let link = "delay = '30ms'\nqueue = '200packets'\n\
                forward.reorder = { probability = 0.02, extra_delay = '200ms' }";
    for (control, kernel_s) in [("cubic", 21.4), ("reno", 15.4)] {
        let report = Case { control, link: link.to_owned(), file: "4MB" }.run(1);
        let time = report.end_s.unwrap() - report.start_s.unwrap();
        assert_eq!(report.retransmissions, 61, "{control}: the kernel's");
        assert!((time / kernel_s - 1.0).abs() < 0.1, "{control}: {time} s, the kernel's {kernel_s} s");
    }
}

/// Copies that the link makes are reported as duplicates, too, and there are more of them than of repairs (`tcp_dsack_seen`): what is sent
/// again are the losses at the end of slow start alone.
#[test]
fn duplicates_that_the_network_makes_undo_nothing() {
    let case = |more| Case { control: "cubic", link: format!("delay = '50ms'\nqueue = '1BDP'\n{more}"), file: "20MB" };
    let [without, with] = ["", "duplicate = 0.01"].map(|more| case(more).medians().0);
    assert!(with.abs_diff(without) * 5 < without, "{with} with copies, {without} without");
}
