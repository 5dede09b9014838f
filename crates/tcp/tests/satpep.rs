//! SaTPEP's hop by itself: NACKs over a satellite link of 500 packets a second and 550 ms, with a window of 275.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::cell::RefCell;
use std::rc::Rc;
use tcp::{Config, Failure, MinRto, NackRule, ReceiveBuffer, RttRules, Tuning};
use units::{Bytes, Duration, Probability, Rate};

const MSS: u64 = 1460;
const WINDOW: u64 = 275;
/// The handshake takes a round trip and 40-byte packets each way.
const HANDSHAKE: f64 = 0.55 + 2.0 * 56.0 * 8.0 / 6e6;

fn hop(loss: LossModel, seed: u64) -> LinkConfig {
    let queue = QueueLimit::Packets(600);
    LinkConfig { queue, loss, seed, ..LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275)) }
}

fn config(rule: NackRule) -> Config {
    let rto = Duration::from_millis(1650);
    Config {
        rtt: RttRules { initial_rto: rto, min_rto: MinRto::Total(rto), ..RttRules::rfc() },
        receive_buffer: ReceiveBuffer::plain(Bytes::new(1 << 28)),
        tuning: Tuning { nack: rule, ..Tuning::default() },
        ..Config::satpep()
    }
}

#[derive(Debug)]
struct Run {
    /// From the end of the handshake to the last byte's arrival; `None` if the connection failed.
    seconds: Option<f64>,
    failure: Option<Failure>,
    counters: tcp::Counters,
    /// The sequence number of each packet that entered the forward link.
    sent: Vec<Option<u64>>,
}

fn run(config: Config, segments: u64, forward: LinkConfig, backward: LinkConfig) -> Run {
    let mut path = Path::new(config, vec![forward], vec![backward]);
    path.server().set_granted_window(WINDOW * MSS);
    let sent = Rc::new(RefCell::new(Vec::new()));
    let log = sent.clone();
    path.set_tap(move |_, from_client, segment| {
        if from_client {
            log.borrow_mut().push((segment.len > 0).then_some(segment.seq));
        }
    });
    let end = path.transfer(segments * MSS);
    let metrics = path.metrics();
    Run {
        seconds: end.map(|end| end.as_secs_f64() - HANDSHAKE),
        failure: path.failure(),
        counters: metrics.counters,
        sent: sent.take(),
    }
}

/// Loses the first `times` transmissions of a segment, counted from 0.
fn losing(rule: NackRule, segments: u64, lost: u64, times: usize) -> Run {
    let mut drops = Vec::new();
    loop {
        let backward = hop(LossModel::None, 2);
        let result = run(config(rule), segments, hop(LossModel::DropList(drops.clone()), 1), backward);
        let of_segment = result.sent.iter().enumerate().filter(|(_, seq)| **seq == Some(1 + lost * MSS));
        let found: Vec<u64> = of_segment.map(|(packet, _)| packet as u64).take(times).collect();
        if found == drops {
            return result;
        }
        drops = found[..=drops.len()].to_vec();
    }
}

fn assert_takes(result: &Run, seconds: f64, retransmissions: u64, timeouts: u64) {
    let took = result.seconds.expect("complete");
    assert!((took / seconds - 1.0).abs() < 0.01, "{took} s, not {seconds} s");
    assert_eq!((result.counters.retransmissions, result.counters.timeouts), (retransmissions, timeouts));
}

/// Means over seeds: seconds, retransmissions and timeouts.
fn mean(rule: NackRule, segments: u64, seeds: u64) -> [f64; 3] {
    let loss = LossModel::Bernoulli(Probability::new(0.01).expect("valid"));
    let mut sums = [0.0; 3];
    for seed in 1..=seeds {
        let result = run(config(rule), segments, hop(loss.clone(), seed), hop(LossModel::None, 99));
        let counters = result.counters;
        let values = [result.seconds.expect("complete"), counters.retransmissions as f64, counters.timeouts as f64];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / seeds as f64);
    }
    sums
}

#[test]
fn a_lost_segment_costs_its_own_time_on_the_link() {
    for rule in [NackRule::Fig1, NackRule::PerSegment, NackRule::Fig1Literal] {
        let whole = run(config(rule), 667, hop(LossModel::None, 1), hop(LossModel::None, 2));
        assert_takes(&whole, 1.613, 0, 0);
        assert_takes(&losing(rule, 667, 50, 1), 1.619, 1, 0);
    }
}

#[test]
fn a_lost_retransmission_is_repeated_without_a_timeout_unless_the_figure_is_taken_literally() {
    assert_takes(&losing(NackRule::Fig1, 2000, 50, 2), 4.303, 2, 0);
    assert_takes(&losing(NackRule::PerSegment, 2000, 50, 2), 4.303, 2, 0);
    assert_takes(&losing(NackRule::Fig1Literal, 2000, 50, 2), 4.851, 3, 1);
}

#[test]
fn nothing_tells_of_the_last_segment_but_the_timer() {
    assert_takes(&losing(NackRule::Fig1, 667, 666, 1), 3.813, 1, 1);
}

#[test]
fn a_count_for_each_retransmission_repeats_hardly_any_in_vain() {
    let [literal, figure, each] =
        [NackRule::Fig1Literal, NackRule::Fig1, NackRule::PerSegment].map(|rule| mean(rule, 6000, 10));
    // 60 of 6,000 segments are lost at 1 %, and some of what replaces them.
    assert!((55.0..70.0).contains(&each[1]), "{each:?}");
    assert!((90.0..120.0).contains(&figure[1]) && literal[1] > figure[1], "{figure:?} {literal:?}");
    assert_eq!((figure[2], each[2]), (0.0, 0.0));
    assert!(literal[2] > 0.0, "{literal:?}");
    assert!(each[0] <= figure[0] && figure[0] <= literal[0], "{each:?} {figure:?} {literal:?}");
    for short in [NackRule::Fig1, NackRule::PerSegment].map(|rule| mean(rule, 667, 20)) {
        assert!((1.9..2.2).contains(&short[0]) && short[2] == 0.0, "{short:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is lost either way, every byte arrives once and in order, or the connection says why not.
    #[test]
    fn a_transfer_completes_or_fails_by_name(
        there in 0.0..0.6f64,
        back in 0.0..0.6f64,
        segments in 1..400u64,
        seed in 0..1000u64,
        rule in prop::sample::select(vec![NackRule::Fig1, NackRule::PerSegment, NackRule::Fig1Literal]),
        window in 1..300u64,
    ) {
        let loss = |probability| LossModel::Bernoulli(Probability::new(probability).expect("valid"));
        let buffer = ReceiveBuffer::plain(Bytes::new(window * MSS));
        let config = Config { receive_buffer: buffer, ..config(rule) };
        let result = run(config, segments, hop(loss(there), seed), hop(loss(back), seed + 1000));
        prop_assert!(result.seconds.is_some() != result.failure.is_some(), "{result:?}");
    }
}
