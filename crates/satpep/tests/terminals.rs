//! 200 terminals on one hub, of which one is hostile, one is dead and one has a thin link of its own.

use crate::world::{Datagram, Hop, World, address};
use std::collections::BTreeMap;
use units::{Duration, Rate};

const TERMINALS: usize = 200;
const HOSTILE: usize = 1;
const DEAD: usize = 2;
const THIN: usize = 3;

/// Of this many datagrams with data, one passes to the thin terminal.
const THINNING: u64 = 5;

/// Time over which goodput is measured.
const MEASURED: Duration = Duration::from_secs(10);

fn hop() -> Hop {
    Hop { rate: Rate::from_bps(30_000_000), return_rate: Rate::from_bps(30_000_000), ..Hop::geo(0.0, 51) }
}

/// What passes to the terminals: nothing with data to the hostile one, which so asks for everything again without end,
/// and little to the thin one.
fn trouble() -> crate::world::Tamper {
    let mut to_thin = 0;
    Box::new(move |datagram: &Datagram| {
        let has_data = datagram.bytes.len() > 300;
        let passes = if has_data && datagram.to == address(THIN) {
            to_thin += 1;
            to_thin % THINNING == 0
        } else {
            !(has_data && datagram.to == address(HOSTILE))
        };
        if passes { vec![datagram.clone()] } else { Vec::new() }
    })
}

/// Garbage from the hostile terminal's address: data that was damaged, calls cut short, noise.
fn flood(world: &mut World, tick: u64) {
    let now = world.time.now();
    for count in 0..10 {
        let word = units::mix(tick * 16 + count);
        let mut garbage: Vec<u8> = (0..60 + word % 900).map(|at| (units::mix(word ^ at) >> 7) as u8).collect();
        garbage[0] = (word % 5) as u8;
        world.gateways[0].endpoint.handle_datagram(now, address(HOSTILE), &mut garbage);
    }
}

/// Bytes that each terminal received in the measured time, by its index.
fn goodputs(is_troubled: bool) -> BTreeMap<usize, u64> {
    let mut world = World::new(hop(), TERMINALS);
    world.connect();
    for terminal in 0..TERMINALS {
        for _ in 0..2 {
            world.send(0, terminal, 1 << 40);
        }
    }
    if is_troubled {
        world.unreachable.push(DEAD);
        world.tamper = Some(trouble());
        // It also opens what streams it may, and ends none.
        (0..500).for_each(|_| {
            world.write(HOSTILE, 0, 20);
        });
    }
    let received = |world: &World| -> Vec<u64> {
        world.gateways.iter().map(|gateway| gateway.received.values().map(|received| received.bytes).sum()).collect()
    };
    world.run_for(Duration::from_secs(2));
    let before = received(&world);
    for tick in 0..100 {
        if is_troubled {
            flood(&mut world, tick);
        }
        world.run_for(MEASURED / 100);
    }
    received(&world).into_iter().zip(before).map(|(after, before)| after - before).enumerate().skip(1).collect()
}

#[test]
fn a_hostile_a_dead_and_a_thin_terminal_take_nothing_from_the_other_197() {
    let (well, troubled) = (goodputs(false), goodputs(true));
    for (terminal, bytes) in &well {
        let share = troubled[terminal] as f64 / *bytes as f64;
        match *terminal {
            HOSTILE | DEAD => assert_eq!(troubled[terminal], 0, "terminal {terminal}"),
            THIN => assert!(share > 0.05, "the thin terminal is at {share} of its share"),
            // A train of eight packets is a fifteenth of what a terminal gets in that time.
            _ => assert!(share >= 0.93, "terminal {terminal} is at {share} of its share"),
        }
    }
}
