//! How the estimator fares alone: transfers over modelled paths, with few seeds each.

use super::super::prior::Prior;
use super::model::{Model, Outcome, Path};
use units::Rate;

const SEEDS: u64 = 3;

fn configured(bps: f64) -> Prior {
    Prior::Configured(Rate::from_bps(bps as u64))
}

fn guess(bps: f64) -> Prior {
    Prior::Guess(Rate::from_bps(bps as u64))
}

fn base() -> Path {
    Path::default()
}

/// Steps between two rates, in turns of so many seconds.
fn turns(first: f64, second: f64, seconds: f64) -> Vec<(f64, f64)> {
    (0..40).map(|k| (seconds * f64::from(k), if k % 2 == 0 { first } else { second })).collect()
}

/// The mean over seeds; each has to meet what is wanted within a hundredth.
fn mean(path: &Path) -> Outcome {
    let mut sum = Outcome { share: 0.0, overhead: 0.0, queue: 0.0, rate: 0.0 };
    for seed in 1..=SEEDS {
        let outcome = Model::new(Path { seed, ..path.clone() }).run();
        sum.share += outcome.share / SEEDS as f64;
        sum.overhead += outcome.overhead / SEEDS as f64;
        sum.queue = sum.queue.max(outcome.queue);
        sum.rate += outcome.rate / SEEDS as f64;
    }
    sum
}

/// Each case: its name, its path, and what is wanted: share, overhead, the queue's 95th percentile in milliseconds.
fn check(cases: &[(&str, Path, f64, f64, f64)]) {
    let mut missed = Vec::new();
    for (name, path, share, overhead, queue) in cases {
        let outcome = mean(path);
        let Outcome { share: got, overhead: extra, queue: queued, .. } = outcome;
        if got < *share || extra > *overhead || queued * 1e3 > *queue {
            missed.push(format!("{name}: share {got:.3}, overhead {extra:.3}, queue {:.0} ms", queued * 1e3));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_right_prior_stays_right_whatever_the_path_does_to_packets() {
    check(&[
        ("clean", base(), 0.98, 0.01, 50.0),
        ("short queue", Path { queue: 0.1, ..base() }, 0.98, 0.01, 50.0),
        ("long queue", Path { queue: 5.0, ..base() }, 0.98, 0.01, 50.0),
        ("late by 100 ms", Path { reordering: Some((0.05, 0.1)), ..base() }, 0.97, 0.01, 50.0),
        ("late by 20 ms", Path { reordering: Some((0.01, 0.02)), ..base() }, 0.98, 0.01, 50.0),
        ("clumps", Path { clumps: 0.06, ..base() }, 0.98, 0.01, 50.0),
        ("lost reports", Path { lost_reports: 0.3, ..base() }, 0.98, 0.01, 50.0),
        ("fast clock", Path { skew: 1e-4, ..base() }, 0.98, 0.01, 50.0),
        ("clock set forth", Path { clock_step: Some((5.0, 0.08)), ..base() }, 0.98, 0.01, 50.0),
        ("clock set back", Path { clock_step: Some((5.0, -0.08)), ..base() }, 0.98, 0.01, 50.0),
        ("frames", Path { frame: 0.026, ..base() }, 0.96, 0.01, 50.0),
        ("stalls", Path { stalls: 0.001, ..base() }, 0.95, 0.01, 50.0),
        ("longer stalls", Path { stalls: 0.003, ..base() }, 0.88, 0.01, 60.0),
    ]);
}

#[test]
fn a_wrong_prior_is_soon_right() {
    check(&[
        ("x 2", Path { prior: configured(12e6), ..base() }, 0.97, 0.06, 50.0),
        ("x 2, a guess", Path { prior: guess(12e6), ..base() }, 0.97, 0.06, 50.0),
        ("x 1.2", Path { prior: configured(7.2e6), ..base() }, 0.97, 0.02, 50.0),
        ("x 0.5", Path { prior: configured(3e6), ..base() }, 0.96, 0.02, 50.0),
        ("x 0.5, a guess", Path { prior: guess(3e6), ..base() }, 0.92, 0.02, 50.0),
        ("x 10", Path { prior: configured(60e6), ..base() }, 0.90, 0.10, 400.0),
        ("x 0.1", Path { prior: configured(0.6e6), ..base() }, 0.86, 0.02, 50.0),
        ("none", Path { prior: Prior::None, ..base() }, 0.90, 0.02, 50.0),
        ("none, 1 MB", Path { prior: Prior::None, bytes: 1e6, ..base() }, 0.70, 0.02, 50.0),
        ("x 2, short queue", Path { prior: configured(12e6), queue: 0.1, ..base() }, 0.94, 0.04, 60.0),
    ]);
}

#[test]
fn losses_alone_are_no_congestion() {
    let bursts = |share: f64| Some((share * 0.1 / (1.0 - share), 0.1));
    check(&[
        ("1 %", Path { loss: 0.01, ..base() }, 0.98, 0.02, 50.0),
        ("5 %", Path { loss: 0.05, ..base() }, 0.94, 0.065, 50.0),
        ("bursts, 1 %", Path { bursts: bursts(0.01), ..base() }, 0.97, 0.03, 50.0),
        ("bursts, 5 %", Path { bursts: bursts(0.05), ..base() }, 0.94, 0.075, 50.0),
    ]);
}

#[test]
fn what_changes_is_followed() {
    let fade = vec![(0.0, 6e6), (4.0, 1.8e6), (14.0, 6e6)];
    let longer = |now: f64| if now < 4.0 { 0.04 } else { 0.55 };
    let shorter = |now: f64| if now < 4.0 { 0.55 } else { 0.04 };
    let by_turns = |now: f64| if ((now / 5.0) as u32).is_multiple_of(2) { 0.04 } else { 0.06 };
    check(&[
        ("30 % for 10 s", Path { steps: fade, ..base() }, 0.94, 0.10, 1000.0),
        ("6 and 3 Mbit/s", Path { bytes: 40e6, steps: turns(6e6, 3e6, 15.0), ..base() }, 0.96, 0.01, 50.0),
        ("longer path", Path { rtt: longer, queue: 14.0, ..base() }, 0.96, 0.01, 50.0),
        ("shorter path", Path { rtt: shorter, ..base() }, 0.96, 0.02, 50.0),
        ("satellites in turns", Path { rtt: by_turns, queue: 10.0, ..base() }, 0.96, 0.01, 50.0),
        ("outage", Path { outage: Some((4.0, 9.0)), ..base() }, 0.95, 0.05, 50.0),
    ]);
}

#[test]
fn a_policer_is_found_and_not_fed() {
    let policer = |prior: f64, bucket: f64| Path {
        prior: configured(prior),
        steps: vec![(0.0, 4e6)],
        policer: Some(bucket),
        ..base()
    };
    check(&[
        ("right", policer(4e6, 30e3), 0.94, 0.05, 50.0),
        ("x 1.5", policer(6e6, 30e3), 0.94, 0.05, 50.0),
        ("x 1.5, large bucket", policer(6e6, 64e3), 0.94, 0.05, 50.0),
        ("x 0.75", policer(3e6, 30e3), 0.94, 0.05, 50.0),
        ("x 3", policer(12e6, 30e3), 0.94, 0.065, 50.0),
    ]);
}

#[test]
fn an_application_without_much_to_send_does_not_spoil_the_estimate() {
    for prior in [12e6, 3e6] {
        let path = Path { app: Some(2e6), bytes: 3e6, prior: configured(prior), ..base() };
        let outcome = mean(&path);
        // What is never used need not be found out: the prior stays, or the estimate is right.
        let is_known = [prior, 6e6].iter().any(|rate| (outcome.rate / rate - 1.0).abs() < 0.04);
        assert!(is_known && outcome.share > 0.98 && outcome.queue < 0.05, "{prior}: {outcome:?}");
    }
}

#[test]
fn a_reported_rise_over_a_policer_that_was_found_costs_little() {
    let policed = |of: f64, reported: u64, bucket: f64| Path {
        prior: configured(of),
        steps: vec![(0.0, of)],
        policer: Some(bucket),
        bytes: 3.0 * of,
        reported: Some((8.0, Rate::from_bps(reported))),
        ..base()
    };
    check(&[
        ("4 to 20 Mbit/s", policed(4e6, 20_000_000, 30e3), 0.90, 0.15, 50.0),
        ("20 to 40 Mbit/s", policed(20e6, 40_000_000, 64e3), 0.85, 0.15, 50.0),
        ("20 to 200 Mbit/s", policed(20e6, 200_000_000, 30e3), 0.85, 0.15, 50.0),
        ("10 to 160 Mbit/s", policed(10e6, 160_000_000, 30e3), 0.90, 0.25, 50.0),
        ("5 to 200 Mbit/s", policed(5e6, 200_000_000, 30e3), 0.90, 0.4, 50.0),
        ("2 to 80 Mbit/s", policed(2e6, 80_000_000, 30e3), 0.85, 0.45, 50.0),
        ("1 to 30 Mbit/s", policed(1e6, 30_000_000, 64e3), 0.90, 0.40, 50.0),
    ]);
}

#[test]
fn pages_that_pass_a_policers_bucket_do_not_raise_the_estimate() {
    // Three times a second.
    let path = Path {
        app: Some(1.1e6),
        pages: 45e3,
        bytes: 4e6,
        prior: configured(4e6),
        steps: vec![(0.0, 4e6)],
        policer: Some(64e3),
        ..base()
    };
    let outcome = mean(&path);
    assert!(outcome.rate < 1.3 * 4e6 && outcome.share > 0.98, "{outcome:?}");
}

#[test]
fn others_that_are_not_measured_are_left_their_part() {
    for prior in [6e6, 3e6] {
        let outcome = mean(&Path { cross: 2e6, prior: configured(prior), ..base() });
        assert!(outcome.share > 0.88 && outcome.overhead < 0.02 && outcome.queue < 0.5, "{prior}: {outcome:?}");
    }
}

#[test]
fn slow_and_fast_links_are_found_alike() {
    let path = |bps: f64, rtt: fn(f64) -> f64, bytes: f64, prior: f64| Path {
        steps: vec![(0.0, bps)],
        prior: configured(bps * prior),
        rtt,
        bytes,
        ..base()
    };
    let geo = |_: f64| 0.6;
    let leo = |_: f64| 0.04;
    check(&[
        ("1 Mbit/s", path(1e6, geo, 2e6, 1.0), 0.94, 0.02, 260.0),
        ("1 Mbit/s x 2", path(1e6, geo, 2e6, 2.0), 0.90, 0.02, 260.0),
        ("20 Mbit/s", path(20e6, geo, 20e6, 1.0), 0.93, 0.01, 50.0),
        ("6 Mbit/s, LEO", path(6e6, leo, 5e6, 1.0), 0.95, 0.02, 50.0),
        ("6 Mbit/s, LEO, x 2", path(6e6, leo, 5e6, 2.0), 0.95, 0.02, 50.0),
        ("6 Mbit/s, LEO, x 0.5", path(6e6, leo, 5e6, 0.5), 0.95, 0.02, 50.0),
        ("6 Mbit/s, LEO, x 0.1", path(6e6, leo, 5e6, 0.1), 0.80, 0.02, 50.0),
    ]);
}

/// What leaving out a part costs on the path that needs it.
enum Cost {
    /// At least so much of the share.
    Share(f64),
    /// At least so much more is sent, over the data.
    Overhead(f64),
    /// The queue's 95th percentile is longer by so many seconds.
    Queue(f64),
}

#[test]
fn parts_of_the_estimator_bring_what_they_are_there_for() {
    use super::super::parts::EstimatorPart::{
        Drain, Experiments, Growth, Losses, Pushes, Silence, StartLimit, Trains, Trials,
    };
    let policer =
        |prior: f64| Path { prior: configured(prior), steps: vec![(0.0, 4e6)], policer: Some(30e3), ..base() };
    let fade = vec![(0.0, 6e6), (4.0, 1.8e6), (14.0, 6e6)];
    let cases = [
        (Trains, Path { prior: Prior::None, ..base() }, Cost::Share(0.1)),
        (Trials, policer(3e6), Cost::Overhead(0.01)),
        (Pushes, Path { prior: configured(5.7e6), ..base() }, Cost::Share(0.005)),
        (Growth, Path { steps: fade.clone(), ..base() }, Cost::Queue(0.1)),
        (Drain, Path { steps: fade, ..base() }, Cost::Queue(0.1)),
        (Losses, policer(6e6), Cost::Overhead(0.05)),
        (Experiments, policer(6e6), Cost::Overhead(0.05)),
        (Silence, Path { outage: Some((4.0, 9.0)), ..base() }, Cost::Overhead(0.1)),
        (StartLimit, Path { prior: configured(60e6), ..base() }, Cost::Overhead(0.02)),
    ];
    let mut missed = Vec::new();
    for (part, path, cost) in cases {
        let (with, without) = (mean(&path), mean(&Path { without: Some(part), ..path }));
        let is_shown = match cost {
            Cost::Share(least) => with.share - without.share >= least,
            Cost::Overhead(least) => without.overhead - with.overhead >= least,
            Cost::Queue(least) => without.queue - with.queue >= least,
        };
        if !is_shown {
            missed.push(format!("{}: {with:?}, without it {without:?}", part.name()));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
