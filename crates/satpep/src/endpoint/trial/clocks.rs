//! Clocks that are wrong, or were: initiators are let in all the same, and replays are not.

use super::net::{Net, address, elsewhere};
use crate::event::Event;
use crate::wire::packet::INIT;
use crate::{PeerId, Trouble};
use units::Duration;

const DELAY: Duration = Duration::from_millis(300);
const YEAR: i64 = 365 * 86_400;

fn up(net: &mut Net, within: Duration, what: &str) {
    let start = net.time.now();
    assert!(net.run_until(within, |net| net.agree(1)), "not up: {what}");
    assert!(net.time.now().since(start) <= within, "{what}");
    net.run(Duration::from_secs(1));
}

/// Renews the keys every two minutes.
fn renew(net: &mut Net, times: usize) {
    for _ in 0..times {
        net.renew(1);
        net.run(Duration::from_secs(120));
    }
}

#[test]
fn whatever_the_clocks_were_and_are_a_terminal_that_restarts_is_up_after_one_round_trip_more() {
    for hub in [0, YEAR, -50 * YEAR] {
        for (before, after) in [(YEAR, 0), (0, -60), (86_400, -YEAR), (-YEAR, -2 * YEAR), (0, 0), (-60, YEAR)] {
            let mut net = Net::new(1, 1, DELAY);
            net.set_clock(0, hub);
            net.restart(1, before);
            up(&mut net, Duration::from_millis(900), "at first");
            net.restart(1, after);
            let start = net.time.now();
            let what = format!("the terminal's clock {before} s, then {after} s, the hub's {hub} s");
            up(&mut net, Duration::from_millis(1600), &what);
            let told =
                |side: &super::net::Side, wanted: fn(&Event) -> bool| side.events.iter().filter(|e| wanted(e)).count();
            let at_hub = told(&net.sides[0], |event| matches!(event, Event::PeerClockSetBack(..)));
            let at_terminal = told(&net.sides[1], |event| matches!(event, Event::OwnClockSetBack(..)));
            let set_back = usize::from(after < before);
            assert_eq!((at_hub, at_terminal), (set_back, set_back), "{what}");
            if set_back == 0 {
                assert!(net.time.now().since(start) < Duration::from_millis(2000), "no challenge where none is needed");
            }
        }
    }
}

#[test]
fn both_sides_say_how_far_the_clocks_are_apart() {
    let mut net = Net::new(1, 1, DELAY);
    net.restart(1, YEAR);
    up(&mut net, Duration::from_secs(1), "at first");
    net.restart(1, -60);
    up(&mut net, Duration::from_secs(2), "again");
    let behind = net.sides[0].events.iter().find_map(|event| match event {
        Event::PeerClockSetBack(_, skew, behind) => Some((skew.to_string(), behind.as_secs_f64() as i64)),
        _ => None,
    });
    let (skew, behind) = behind.expect("told");
    // The init took some of the time.
    assert_eq!(skew, "60 s behind ours");
    assert!((YEAR + 50..YEAR + 60).contains(&behind), "{behind}");
    assert!(net.sides[1].events.iter().any(|event| match event {
        Event::OwnClockSetBack(_, skew) => skew.to_string() == "60 s ahead of ours",
        _ => false,
    }));
    let clock = net.sides[1].endpoint.peer_stats(net.time.now(), PeerId(0)).clock.expect("known");
    assert_eq!(clock.magnitude().as_secs_f64().round() as u64, 60);
}

#[test]
fn a_clock_that_is_set_back_while_running_costs_no_session_and_is_told_of_seldom() {
    let mut net = Net::new(1, 1, DELAY);
    up(&mut net, Duration::from_secs(1), "at first");
    net.set_clock(1, -YEAR);
    renew(&mut net, 12);
    assert!(net.agree(1));
    assert!(net.sides[0].endpoint.stats().handshakes > 10);
    for (side, events) in net.sides.iter().map(|side| (side, &side.events)) {
        assert!(!events.iter().any(|event| matches!(event, Event::PeerUnresponsive(_) | Event::PeerRestarted(_))));
        let told = events.iter().filter(|e| matches!(e, Event::PeerClockSetBack(..) | Event::OwnClockSetBack(..)));
        assert!((1..=3).contains(&told.count()), "{:?}", side.address);
    }
    // Once its clock is right again, its time is accepted without a challenge.
    net.set_clock(1, 0);
    let challenged = net.sides[0].endpoint.stats().dropped.challenged;
    renew(&mut net, 3);
    assert_eq!(net.sides[0].endpoint.stats().dropped.challenged, challenged);
}

#[test]
fn replays_open_and_end_nothing_and_are_answered_with_less() {
    let mut net = Net::new(1, 1, DELAY);
    // Among what is recorded are inits of a clock a year ahead.
    net.restart(1, YEAR);
    up(&mut net, Duration::from_secs(1), "at first");
    net.restart(1, 0);
    up(&mut net, Duration::from_secs(2), "again");
    renew(&mut net, 5);
    let recorded: Vec<_> = net.seen.iter().filter(|seen| seen.bytes[0] == INIT).cloned().collect();
    assert!(recorded.len() > 6);
    let before = (net.sides[0].endpoint.stats().handshakes, net.sides[0].events.len());
    for from in [elsewhere(), address(1)] {
        for init in &recorded {
            net.arrive(super::net::Datagram { from, ..init.clone() });
            net.run(Duration::from_millis(100));
        }
    }
    assert_eq!((net.sides[0].endpoint.stats().handshakes, net.sides[0].events.len()), before);
    assert!(net.agree(1));
    assert_eq!(net.sides[0].endpoint.peer_trouble(net.time.now(), PeerId(0)), None);
    // Nor do replays keep a terminal out that comes back meanwhile, its clock set back.
    net.restart(1, -60);
    let mut next = recorded.iter().cycle();
    let came = (0..40).any(|_| {
        net.arrive(next.next().expect("some").clone());
        net.run_until(Duration::from_millis(50), |net| net.agree(1))
    });
    assert!(came, "kept out by replays");
}

#[test]
fn a_hub_that_restarted_takes_a_replay_for_a_call_and_no_more() {
    let mut net = Net::new(1, 1, DELAY);
    net.restart(1, YEAR);
    up(&mut net, Duration::from_secs(1), "at first");
    let recorded: Vec<_> = net.seen.iter().filter(|seen| seen.bytes[0] == INIT).cloned().collect();
    net.restart(0, 0);
    net.restart(1, 0);
    for init in recorded {
        net.arrive(init);
    }
    assert_ne!(net.sides[0].endpoint.peer_trouble(net.time.now(), PeerId(0)), None::<Trouble>);
    up(&mut net, Duration::from_millis(2500), "the hub has believed a replay's time");
}
