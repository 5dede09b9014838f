//! Tests of the capacity: what bounds it here, and the estimator over modelled paths.

mod model;
mod table;

use super::*;
use peering::PrivateKey;

const RATE: Rate = Rate::from_bps(20_000_000);

fn capacity() -> Capacity {
    let key = PrivateKey::from_random([1; 32]);
    Capacity::new(&EndpointConfig::new(key, RATE, RATE, Duration::from_millis(550)), Instant::ZERO)
}

/// The bound of the estimate, as a multiple of the configured rate.
fn bound(capacity: &Capacity) -> f64 {
    capacity.estimator.belief.ceiling * 8.0 / RATE.as_bps() as f64
}

#[test]
fn the_last_report_of_a_fade_does_not_bound_the_estimate_when_reports_end() {
    let mut capacity = capacity();
    assert_eq!(bound(&capacity), Prior::CEILING);
    capacity.set_reported(RATE.mul_f64(0.01));
    assert_eq!((capacity.rate(), bound(&capacity)), (RATE.mul_f64(0.01), Prior::CEILING));
    capacity.set_reported(RATE.mul_f64(3.0));
    assert_eq!(bound(&capacity), 3.0 * Prior::CEILING, "a faster link than was configured");
    capacity.configure(RATE.mul_f64(2.0), Prior::Configured(RATE.mul_f64(2.0)));
    assert_eq!(bound(&capacity), 2.0 * Prior::CEILING);
}

#[test]
fn what_was_measured_in_a_fade_does_not_bound_the_next_run() {
    let key = PrivateKey::from_random([1; 32]);
    let (rtt, age) = (Duration::from_millis(550), Duration::from_secs(60));
    let remembered = Some(Prior::Remembered { rate: RATE.mul_f64(0.02), rtt, age });
    let begin = |prior| {
        let config = EndpointConfig { remembered, prior, ..EndpointConfig::new(key.clone(), RATE, RATE, rtt) };
        Capacity::new(&config, Instant::ZERO)
    };
    let configured = begin(None);
    assert_eq!((configured.rate(), bound(&configured)), (RATE.mul_f64(0.02), Prior::CEILING));
    let unconfigured = begin(Some(Prior::None));
    assert_eq!((unconfigured.rate(), bound(&unconfigured)), (RATE.mul_f64(0.02), 500.0), "10 Gbit/s");
}

#[test]
fn a_process_that_is_taken_over_leaves_half_of_the_link_to_the_next() {
    let share = |one: &Capacity, now| one.pace(now).as_bps() as f64 / RATE.as_bps() as f64;
    // The old one has the link when the new one begins, which may not know that at first.
    for first in [Rate::ZERO, RATE] {
        let (mut old, mut new) = (capacity(), capacity());
        old.leave_half();
        for tenth in 0..50 {
            let now = Instant::ZERO + Duration::from_millis(100) * tenth;
            let theirs = if tenth == 0 { [Rate::ZERO, first] } else { [&new, &old].map(|other| other.pace(now)) };
            old.on_cross_traffic(now, theirs[0], Bytes::ZERO, 3);
            new.on_cross_traffic(now, theirs[1], Bytes::ZERO, 3);
        }
        let now = Instant::ZERO + Duration::from_secs(5);
        let [old, new] = [share(&old, now), share(&new, now)];
        assert!((0.45..0.58).contains(&old) && (0.42..0.55).contains(&new), "{old}, {new}");
    }
}

#[test]
fn a_process_that_is_taken_over_takes_nothing_from_others() {
    let mut capacity = capacity();
    let share_from = |capacity: &mut Capacity, second: u64| {
        let at = |tenth: u64| Instant::ZERO + Duration::from_millis(1000 * second + 100 * tenth);
        (0..30).for_each(|tenth| capacity.on_cross_traffic(at(tenth), RATE.mul_f64(0.7), Bytes::ZERO, 3));
        capacity.pace(at(30)).as_bps() as f64 / RATE.as_bps() as f64
    };
    let before = share_from(&mut capacity, 0);
    assert_eq!(capacity.share(), RATE.saturating_sub(RATE.mul_f64(0.7)), "the pace, but for what the estimate tries");
    capacity.leave_half();
    let draining = share_from(&mut capacity, 3);
    assert!((0.28..0.31).contains(&before) && (draining - before).abs() < 0.001, "{before}, {draining}");
}

#[test]
fn what_was_under_way_to_the_only_peer_holds_nothing_back_in_its_next_session() {
    let (mut capacity, peer) = (capacity(), PeerId(0));
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    (0..100).for_each(|millis| capacity.on_sent(at(millis), Some(peer), 1500));
    assert!(capacity.estimator.is_silent(at(5000).as_secs_f64()));
    capacity.forget(peer);
    assert!(!capacity.estimator.is_silent(at(5000).as_secs_f64()));
}

#[test]
fn a_report_that_was_withdrawn_is_news_when_it_comes_again() {
    let mut capacity = capacity();
    capacity.set_reported(RATE);
    capacity.estimator.set(1e6, EstimateSource::Queue);
    capacity.set_reported(RATE);
    assert_eq!(capacity.rate(), Rate::from_bps(8_000_000), "the link has answered since");
    capacity.withdraw();
    assert_eq!(capacity.rate(), Rate::from_bps(8_000_000));
    capacity.set_reported(RATE);
    assert_eq!(capacity.rate(), RATE);
}

#[test]
fn another_prior_bounds_the_estimate_while_a_report_counts_and_afterwards() {
    let mut capacity = capacity();
    capacity.set_reported(RATE.mul_f64(1.5));
    capacity.set_prior(Prior::Configured(RATE.mul_f64(50.0)));
    assert_eq!((capacity.rate(), bound(&capacity)), (RATE.mul_f64(1.5), 50.0 * Prior::CEILING));
    capacity.withdraw();
    capacity.set_reported(RATE);
    assert_eq!((capacity.rate(), bound(&capacity)), (RATE, 50.0 * Prior::CEILING));
    capacity.set_prior(Prior::None);
    assert_eq!((capacity.rate(), bound(&capacity)), (RATE, 500.0), "10 Gbit/s");
}

#[test]
fn a_configured_bound_counts_whatever_is_reported() {
    let mut capacity = capacity();
    capacity.set_reported(RATE.mul_f64(0.5));
    capacity.set_ceiling(Some(RATE.mul_f64(2.0)));
    assert_eq!(bound(&capacity), 2.0);
    capacity.set_reported(RATE.mul_f64(3.0));
    assert_eq!((capacity.rate(), bound(&capacity)), (RATE.mul_f64(2.0), 2.0));
    capacity.set_ceiling(None);
    assert_eq!(bound(&capacity), 3.0 * Prior::CEILING);
}

#[test]
fn a_peer_that_returns_to_an_address_is_on_the_path_that_it_had_there() {
    let (satellite, other) = (IpAddr::from([198, 18, 0, 2]), IpAddr::from([198, 18, 7, 7]));
    let (peer, now) = (PeerId(1), Instant::ZERO + Duration::from_secs(60));
    for has_others in [false, true] {
        let mut capacity = capacity();
        capacity.on_moved(now, peer, satellite, other);
        assert_eq!(capacity.rate(), RATE, "that path is not known");
        capacity.estimator.set(40e6, EstimateSource::Trial);
        capacity.lone.on_report(peer, has_others, 40e6);
        capacity.on_moved(now, peer, other, satellite);
        let after = if has_others { Rate::from_bps(320_000_000) } else { RATE };
        assert_eq!(capacity.rate(), after, "others have seen it too: {has_others}");
    }
}
