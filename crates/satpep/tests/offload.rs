//! Packets that are sealed and opened outside of the endpoint: everything else stays as it is.

use crate::world::{Datagram, Hop, World};
use satpep::PeerState;
use std::cell::Cell;
use units::Duration;

const BYTES: u64 = 600_000;

/// Each way: what passed, and what the gateways counted.
fn both(hop: &Hop, terminals: usize, run: impl Fn(&mut World)) -> [World; 2] {
    [false, true].map(|elsewhere| {
        let mut world = World::new(hop.clone(), terminals);
        world.capture = Some(Vec::new());
        if elsewhere {
            world.seal_elsewhere();
        }
        run(&mut world);
        world
    })
}

fn assert_same([here, elsewhere]: &[World; 2]) {
    let passed = |world: &World| world.capture.clone().expect("captured");
    let (here_passed, elsewhere_passed) = (passed(here), passed(elsewhere));
    let differs = here_passed.iter().zip(&elsewhere_passed).position(|(one, other)| one.bytes != other.bytes);
    assert_eq!((differs, here_passed.len()), (None, elsewhere_passed.len()));
    for (one, other) in here.gateways.iter().zip(&elsewhere.gateways) {
        assert_eq!(one.endpoint.stats(), other.endpoint.stats());
        assert_eq!(one.events, other.events);
        let opened = (one.opened_elsewhere, other.opened_elsewhere);
        let received = other.endpoint.stats().received_packets;
        assert!(opened.0 == 0 && opened.1 > received * 9 / 10, "{opened:?} of {received}");
    }
}

#[test]
fn every_packet_is_the_same() {
    let worlds = both(&Hop::geo(1e-2, 3), 3, |world| {
        world.connect();
        let streams = [0, 1, 2].map(|terminal| world.send(0, terminal, BYTES));
        let back = world.send(2, 0, BYTES / 4);
        let done = world.run_until_about(Duration::from_secs(60), |world| {
            world.is_finished(0, back) && (0..3).all(|terminal| world.is_finished(terminal + 1, streams[terminal]))
        });
        assert!(done);
    });
    assert_same(&worlds);
}

#[test]
fn forged_and_repeated_packets_are_refused_alike() {
    let worlds = both(&Hop::geo(0.0, 5), 1, |world| {
        world.connect();
        let number = Cell::new(0u32);
        world.tamper = Some(Box::new(move |datagram: &Datagram| {
            number.set(number.get() + 1);
            let mut forged = datagram.clone();
            let at = number.get() as usize % forged.bytes.len();
            forged.bytes[at] ^= 1;
            match number.get() % 10 {
                0 => vec![forged, datagram.clone()],
                5 => vec![datagram.clone(), datagram.clone()],
                _ => vec![datagram.clone()],
            }
        }));
        let stream = world.send(0, 0, BYTES);
        assert!(world.run_until(Duration::from_secs(60), |world| world.is_finished(1, stream)));
    });
    let dropped = &worlds[1].gateways[1].endpoint.stats().dropped;
    assert!(dropped.not_authentic > 10 && dropped.replayed > 10, "{dropped:?}");
    assert_same(&worlds);
}

#[test]
fn keys_that_are_renewed_are_learnt_and_those_of_a_session_that_is_over_are_not_used() {
    let worlds = both(&Hop::geo(0.0, 7), 1, |world| {
        world.connect();
        // Keys are renewed after two minutes in which they are used.
        for _ in 0..20 {
            let stream = world.send(0, 0, BYTES / 10);
            world.run_for(Duration::from_secs(20));
            assert!(world.is_finished(1, stream));
        }
        assert!(world.gateways[0].endpoint.stats().handshakes >= 3);
        world.restart(1, 2);
        world.run_for(Duration::from_secs(30));
        assert_eq!(world.gateways[0].state(0), PeerState::Up);
    });
    let [here, elsewhere] = &worlds;
    assert_eq!(here.capture.as_ref().map(Vec::len), elsewhere.capture.as_ref().map(Vec::len));
    assert_eq!(here.gateways[0].endpoint.stats(), elsewhere.gateways[0].endpoint.stats());
}
