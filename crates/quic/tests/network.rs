//! Transfers over links: throughput, order, agreement with what models say.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit, Reorder};
use quic::{Config, FlowWindow};
use tcp::{ControlKind, SlowStartExit, Tuning};
use units::{Bytes, Duration, Probability, Rate};

const RTT: Duration = Duration::from_millis(100);

fn link(mbit: u64) -> LinkConfig {
    let rate = Rate::from_bps(mbit * 1_000_000);
    LinkConfig { queue: QueueLimit::bandwidth_delay_product(rate, RTT), ..LinkConfig::new(rate, RTT / 2) }
}

fn lossy(mbit: u64, loss: f64, seed: u64) -> LinkConfig {
    LinkConfig { loss: LossModel::Bernoulli(Probability::new(loss).expect("valid")), seed, ..link(mbit) }
}

fn path(config: Config, there: LinkConfig) -> Path {
    let back = LinkConfig { loss: LossModel::None, reorder: None, stream: 1, ..there.clone() };
    Path::new(config, vec![there], vec![back])
}

#[test]
fn every_control_moves_a_file_over_a_clean_and_a_lossy_link() {
    for kind in tcp::control::CONTROLS {
        let ecn = match (kind.needs_l4s(), kind.reads_share_of_marks()) {
            (true, _) => units::Ecn::Ect1,
            (_, true) => units::Ecn::Ect0,
            _ => units::Ecn::NotCapable,
        };
        let config = Config { control: kind, ecn, ..Config::default() };
        if config.validate().is_err() {
            continue;
        }
        for loss in [0.0, 0.01] {
            let mut path = path(config.clone(), lossy(10, loss, 3));
            let done = path.transfer(1_000_000);
            assert!(done.is_some(), "{kind:?} {loss} {:?} {:?}", path.failure(), path.metrics());
            assert!(path.close(), "{kind:?} {loss}: the connection does not close");
        }
    }
}

#[test]
fn a_clean_link_is_used_but_for_the_first_round_trips() {
    for control in ["reno", "cubic", "bbr3"] {
        let control = ControlKind::by_name(control).expect("known");
        let mut path = path(Config { control, ..Config::default() }, link(10));
        let time = path.transfer(20_000_000).expect("complete").as_secs_f64();
        let least = 20e6 * 8.0 / 10e6 * 1500.0 / f64::from(Config::default().payload());
        assert!(time < 1.12 * least, "{control:?}: {time} of {least}");
    }
}

/// A packet of the handshake takes less time on the line than any with data, and is no base for those.
#[test]
fn vegas_uses_a_slow_link_though_packets_of_the_handshake_are_short() {
    let control = ControlKind::by_name("vegas").expect("known");
    let there = LinkConfig { queue: QueueLimit::Bytes(Bytes::new(2_000_000)), ..link(5) };
    let mut path = path(Config { control, ..Config::default() }, there);
    let time = path.transfer(20_000_000).expect("complete").as_secs_f64();
    let least = 20e6 * 8.0 / 5e6 * 1500.0 / f64::from(Config::default().payload());
    assert!(time < 1.1 * least, "{time} of {least}");
}

/// TIBET averages the times between departures: the round trips of the handshake are none of them.
#[test]
fn tibet_knows_the_rate_at_the_first_loss() {
    let control = ControlKind::by_name("tibet").expect("known");
    let time = |seed| {
        let mut path = path(Config { control, ..Config::default() }, lossy(10, 1e-3, seed));
        path.transfer(20_000_000).expect("complete").as_secs_f64()
    };
    let mean = (1..=4).map(time).sum::<f64>() / 4.0;
    let least = 20e6 * 8.0 / 10e6 * 1500.0 / f64::from(Config::default().payload());
    assert!(mean < 1.15 * least, "{mean} of {least}");
}

/// QUIC paces: acknowledgements arrive over most of a round trip though the link is far from full.
#[test]
fn hystart_does_not_end_slow_start_because_data_are_paced() {
    let control = ControlKind::by_name("cubic").expect("known");
    let [none, hystart] = [SlowStartExit::None, SlowStartExit::LinuxHyStart].map(|exit| {
        let tuning = Tuning { slow_start_exit: Some(exit), ..Tuning::default() };
        let mut path = path(Config { control, tuning, ..Config::default() }, link(200));
        path.transfer(10_000_000).expect("complete").as_secs_f64()
    });
    assert!(hystart < 1.1 * none, "{hystart} and {none}");
}

#[test]
fn a_window_of_flow_control_bounds_the_rate() {
    let window = FlowWindow::fixed(Bytes::new(50_000));
    let mut fixed = path(Config { stream_window: window, ..Config::default() }, link(20));
    let time = fixed.transfer(2_000_000).expect("complete").as_secs_f64();
    // At most 50 kB in a round trip, and at least the half that is granted at once when it was read.
    assert!((2e6 / 50e3 * 0.1..2e6 / 25e3 * 0.11).contains(&time), "{time}");
    let window = FlowWindow { size: Bytes::new(50_000), most: Bytes::new(4_000_000) };
    let mut grows = path(Config { stream_window: window, ..Config::default() }, link(20));
    let grown = grows.transfer(2_000_000).expect("complete").as_secs_f64();
    assert!(grown < 0.5 * time, "{grown} {time}");
}

#[test]
fn reordering_within_three_packets_costs_no_retransmission_and_more_of_it_is_survived() {
    let reorder = |extra: u64| {
        let probability = Probability::new(0.02).expect("valid");
        Some(Reorder { probability, extra_delay: Duration::from_micros(extra) })
    };
    // A packet takes 1.2 ms: one is overtaken by two at most.
    let unlimited = LinkConfig { queue: QueueLimit::Packets(1_000_000), ..link(10) };
    let mut little = path(Config::default(), LinkConfig { reorder: reorder(2_000), ..unlimited.clone() });
    little.transfer(3_000_000).expect("complete");
    let counters = little.metrics().counters;
    assert_eq!((counters.spurious_losses, counters.retransmissions), (0, 0), "{counters:?}");
    let mut much = path(Config::default(), LinkConfig { reorder: reorder(20_000), ..unlimited });
    much.transfer(3_000_000).expect("complete");
    let counters = much.metrics().counters;
    assert!(counters.spurious_losses > 10, "{counters:?}");
    assert!(counters.retransmissions <= counters.lost, "{counters:?}");
}

/// Bits a second of NewReno over a loss of one packet in a thousand, mean over seeds.
#[test]
fn newreno_loses_to_random_losses_what_the_square_root_law_says() {
    let loss = 1e-3;
    let rates: Vec<f64> = (1..=6)
        .map(|seed| {
            let time = |bytes| {
                let mut path = path(Config::default(), lossy(1_000, loss, seed));
                path.transfer(bytes).expect("complete").as_secs_f64()
            };
            // Without the beginning: slow start ends at the first loss, far above.
            40e6 * 8.0 / (time(60_000_000) - time(20_000_000))
        })
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    // Mathis et al. 1997: sqrt(3/2) / sqrt(p) packets in a round trip.
    let law = f64::from(Config::default().payload()) * 8.0 / 0.1 * (1.5 / loss).sqrt();
    assert!((0.75..1.35).contains(&(mean / law)), "{mean} of {law}: {rates:?}");
}

/// The same long, lossy path under QUIC and under TCP with SACK, NewReno's window in both.
#[test]
fn newreno_over_quic_is_as_fast_as_over_tcp_with_sack() {
    let (mut quic_total, mut tcp_total) = (0.0, 0.0);
    for seed in 1..=6 {
        let there = LinkConfig { delay: Duration::from_millis(275), ..lossy(50, 1e-3, seed) };
        let mut path = path(Config::default(), there.clone());
        quic_total += path.transfer(10_000_000).expect("complete").as_secs_f64();
        tcp_total += over_tcp(there, 10_000_000);
    }
    let ratio = tcp_total / quic_total;
    assert!((0.8..1.35).contains(&ratio), "QUIC takes {quic_total} s, TCP {tcp_total} s");
}

/// Seconds that TCP with SACK takes for so many bytes.
fn over_tcp(there: LinkConfig, bytes: u64) -> f64 {
    let config = std::sync::Arc::new(tcp::Config::new(tcp::Profile::Rfc));
    let back = LinkConfig { loss: LossModel::None, stream: 1, ..there.clone() };
    let mut links = [link::Link::new(there).expect("valid"), link::Link::new(back).expect("valid")];
    let mut now = units::Instant::ZERO;
    let mut ends = [tcp::Connection::connect(config.clone(), now), tcp::Connection::listen(config)];
    ends[0].write(bytes);
    ends[0].finish();
    let mut received = 0;
    while received < bytes {
        for (from, link) in links.iter_mut().enumerate() {
            while let Some(segment) = ends[from].poll_transmit(now) {
                link.enqueue(now, Segment(segment));
            }
        }
        let arrivals = links.iter().filter_map(link::Link::next_timeout);
        now =
            ends.iter().filter_map(tcp::Connection::next_timeout).chain(arrivals).min().expect("something is to come");
        for (from, link) in links.iter_mut().enumerate() {
            while let Some(outcome) = link.poll(now) {
                if let link::Outcome::Departure { packet, .. } = outcome {
                    ends[1 - from].handle_segment(now, &packet.0);
                }
            }
        }
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
        received += ends[1].read(now, u64::MAX);
    }
    now.as_secs_f64()
}

#[derive(Debug, Clone, Copy)]
struct Segment(tcp::Segment);

impl link::Packet for Segment {
    fn size(&self) -> Bytes {
        self.0.size()
    }
}
