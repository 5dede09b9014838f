//! What holds on every path.

use crate::path::Path;
use link::{LinkConfig, LossModel, QueueLimit, Reorder};
use proptest::prelude::*;
use quic::Config;
use std::cell::RefCell;
use std::rc::Rc;
use units::{Duration, Probability, RangeSet, Rate};

/// A path that loses, reorders and duplicates both ways.
fn bad_path() -> impl Strategy<Value = (LinkConfig, LinkConfig)> {
    let link = (100_000..20_000_000u64, 1..300u64, 0.0..0.2f64, 0.0..0.1f64, 0.0..0.1f64, 3..60u64, any::<u64>());
    let make = |(rate, delay, loss, reorder, duplicate, queue, seed)| {
        let chance = |p| Probability::new(p).expect("valid");
        LinkConfig {
            loss: LossModel::Bernoulli(chance(loss)),
            reorder: Some(Reorder { probability: chance(reorder), extra_delay: Duration::from_millis(delay) }),
            duplicate: chance(duplicate),
            queue: QueueLimit::Packets(queue),
            seed,
            ..LinkConfig::new(Rate::from_bps(rate), Duration::from_millis(delay))
        }
    };
    (link.clone().prop_map(make), link.prop_map(make))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order((there, back) in bad_path(), bytes in 1..200_000u64, zero_rtt: bool, every in 1..5u32) {
        // Half of what is sent may be lost: a minute without an answer is possible.
        let config = Config { zero_rtt, ack_every: every, idle_timeout: None, ..Config::default() };
        let mut path = Path::new(config, vec![there], vec![back]);
        let sent = Rc::new(RefCell::new((RangeSet::new(), 0)));
        let seen = Rc::clone(&sent);
        path.set_tap(move |_, is_client, packet| {
            let mut seen = seen.borrow_mut();
            if is_client {
                assert_eq!(packet.number, seen.1, "numbers go up by one and are never used again");
                seen.1 += 1;
            }
            if let Some(stream) = packet.stream.filter(|_| is_client) {
                seen.0.insert(stream.offset..stream.offset + u64::from(stream.len));
            }
        });
        let done = path.transfer(bytes);
        prop_assert!(done.is_some(), "{:?} {:?}", path.failure(), path.metrics());
        prop_assert_eq!(path.received(), bytes);
        prop_assert!(path.close());
        let (ranges, _) = &*sent.borrow();
        prop_assert!(ranges.covers(&(0..bytes)) && ranges.last().map(|last| last.end) == Some(bytes));
    }

    #[test]
    fn the_same_path_gives_the_same_packets((there, back) in bad_path()) {
        let run = || {
            let config = Config { idle_timeout: None, ..Config::default() };
            let mut path = Path::new(config, vec![there.clone()], vec![back.clone()]);
            let log = Rc::new(RefCell::new(Vec::new()));
            let kept = Rc::clone(&log);
            path.set_tap(move |now, is_client, packet| kept.borrow_mut().push((now, is_client, packet.clone())));
            path.transfer(50_000);
            log.take()
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn a_packet_is_never_larger_than_configured() {
    for packet_size in [1228, 1500, 9_000, 65_535] {
        let config = Config { packet_size, initial_window: 10.0, ..Config::default() };
        let loss = LossModel::Bernoulli(Probability::new(0.05).expect("valid"));
        let link = LinkConfig { loss, ..LinkConfig::new(Rate::from_bps(50_000_000), Duration::from_millis(20)) };
        let mut path = Path::new(config, vec![link.clone()], vec![LinkConfig { stream: 1, ..link }]);
        let most = Rc::new(RefCell::new(0));
        let seen = Rc::clone(&most);
        path.set_tap(move |_, _, packet| {
            let mut most = seen.borrow_mut();
            *most = packet.size.max(*most);
        });
        path.transfer(2_000_000).expect("complete");
        assert_eq!(*most.borrow(), packet_size);
    }
}
