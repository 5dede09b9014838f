//! What a survey finds of a path: its rate, a policer, batches that get lost.

use crate::world::{Hop, World, address};
use satpep::{SurveyReport, survey_cost};
use units::{Duration, Instant, Rate};

/// What the hub finds, which thinks that the link carries `thought` Mbit/s, and in how long.
fn survey(world: &mut World, thought: f64) -> (SurveyReport, Duration) {
    let (hub, begun) = (0, world.time.now());
    let rate = Rate::from_bps((thought * 1e6) as u64);
    let peer = world.gateways[hub].peers[0];
    assert!(world.gateways[hub].endpoint.survey(world.time.now(), peer, rate));
    let report = |world: &World| world.gateways[hub].endpoint.survey_report(peer).expect("a survey");
    assert!(world.run_until(Duration::from_secs(60), |world| report(world).is_done));
    let (report, took) = (report(world), world.time.now().since(begun));
    let (bytes, time) = survey_cost(rate);
    assert!(report.sent <= bytes, "{} of {bytes}", report.sent);
    assert!(took <= time + Duration::from_secs(12), "{took:?}");
    (report, took)
}

fn world(loss: f64) -> World {
    let mut world = World::new(Hop::geo(loss, 7), 1);
    world.connect();
    world
}

fn assert_carried(report: &SurveyReport, mbit: f64) {
    let carried = report.carried.expect("a rate").as_bps() as f64 / 1e6;
    assert!((carried / mbit - 1.0).abs() < 0.06, "{carried} of {mbit}: {report:?}");
}

#[test]
fn a_link_of_more_or_less_than_thought_tells_its_rate() {
    for (loss, thought, has_more) in
        [(0.0, 1.0, false), (0.0, 3.0, false), (1e-2, 5.9, false), (0.0, 9.0, false), (0.0, 0.2, true)]
    {
        let (report, _) = survey(&mut world(loss), thought);
        assert_eq!(
            (report.has_more, report.is_policed, report.are_batches_lost),
            (has_more, false, false),
            "{report:?}"
        );
        assert_carried(&report, if has_more { 3.2 } else { 6.0 });
    }
}

#[test]
fn noise_is_no_policer_and_a_policer_is_no_noise() {
    let (noisy, _) = survey(&mut world(0.15), 5.0);
    assert!(!noisy.is_policed, "{noisy:?}");
    let mut world = world(1e-2);
    // A bucket of 64 kB that fills at 2 Mbit/s.
    let (mut level, mut at) = (64_000.0, Instant::ZERO);
    let clock = std::rc::Rc::new(std::cell::Cell::new(world.time.now()));
    let time = std::rc::Rc::clone(&clock);
    world.tamper = Some(Box::new(move |datagram| {
        let size = datagram.bytes.len() as f64 + 28.0;
        level = f64::min(64_000.0, level + time.get().since(at).as_secs_f64() * 250_000.0);
        at = time.get();
        if datagram.to != address(1) || level >= size {
            level -= if datagram.to == address(1) { size } else { 0.0 };
            vec![datagram.clone()]
        } else {
            Vec::new()
        }
    }));
    let peer = world.gateways[0].peers[0];
    assert!(world.gateways[0].endpoint.survey(world.time.now(), peer, Rate::from_bps(6_000_000)));
    let report = |world: &World| world.gateways[0].endpoint.survey_report(peer).expect("a survey");
    while !report(&world).is_done {
        clock.set(world.time.now());
        assert!(world.step(Instant::FAR_FUTURE));
    }
    let report = report(&world);
    assert!(report.is_policed, "{report:?}");
    assert_carried(&report, 2.0);
}

#[test]
fn batches_that_get_lost_are_told_from_single_datagrams_that_do() {
    let mut world = world(0.0);
    world.lose_batches = true;
    let (report, _) = survey(&mut world, 6.0);
    assert!(report.are_batches_lost, "{report:?}");
    assert_carried(&report, 6.0);
}

#[test]
fn connections_go_on_beside_a_survey_and_a_second_one_waits() {
    let mut world = world(0.0);
    let stream = world.send(0, 0, 1_000_000);
    let peer = world.gateways[0].peers[0];
    let rate = Rate::from_bps(6_000_000);
    assert!(world.gateways[0].endpoint.survey(world.time.now(), peer, rate));
    assert!(!world.gateways[0].endpoint.survey(world.time.now(), peer, rate));
    assert!(world.run_until(Duration::from_secs(20), |world| world.is_finished(1, stream)));
    assert!(world.run_until(Duration::from_secs(20), |world| {
        world.gateways[0].endpoint.survey_report(peer).is_some_and(|report| report.is_done)
    }));
    assert!(world.gateways[0].endpoint.survey(world.time.now(), peer, rate));
}
