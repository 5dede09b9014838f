//! Someone who knows all public keys, sees, holds back, drops, repeats, alters and makes handshake datagrams, as bytes say.

use super::net::{Datagram, Net, address, elsewhere, forged_cookie, init_to_hub, key};
use crate::Versions;
use crate::handshake::unproven_versions;
use crate::random::SecureRandom;
use crate::wire::packet::INIT;
use std::cell::Cell;
use std::rc::Rc;
use units::Duration;

/// Longest that a terminal may take to be up once the attacker has gone: its retry timer's longest wait, twice.
const RECOVERY: Duration = Duration::from_secs(20);

/// Runs a hub and two terminals while two bytes after the other say what the attacker does, then without the attacker.
///
/// # Panics
/// If an answer is longer than what provoked it, inits are not paced, memory grows, or a terminal is not up in time.
pub(crate) fn attack(input: &[u8]) {
    let mut net = Net::new(2, 2, Duration::from_millis(50));
    let mut random = SecureRandom::new([9; 32]);
    let drops = Rc::new(Cell::new(0));
    let per_256 = Rc::clone(&drops);
    net.between = Box::new(move |datagram, random| {
        let [drop, late, again, wait] = random.bytes();
        let wait = Duration::from_millis(u64::from(wait));
        let mut out = vec![(if late < per_256.get() { wait } else { Duration::ZERO }, datagram.clone())];
        if again < per_256.get() / 2 {
            out.push((wait, datagram.clone()));
        }
        out.retain(|_| drop >= per_256.get());
        out
    });
    let begin = net.time.now();
    for operation in input.chunks_exact(2).take(200) {
        let (kind, argument) = (operation[0], usize::from(operation[1]));
        let side = 1 + argument % 2;
        let seen = (!net.seen.is_empty()).then(|| net.seen[argument % net.seen.len()].clone());
        match (kind % 12, seen) {
            (0..=2, _) => net.run(Duration::from_millis(argument as u64 * u64::from(1 + kind / 12))),
            (3, _) => drops.set(operation[1]),
            (4, Some(seen)) => {
                net.arrive(Datagram { from: elsewhere(), ..seen });
            }
            (5, Some(seen)) => net.send(Duration::from_millis(u64::from(kind)), seen),
            (6, Some(mut seen)) => {
                let at = usize::from(kind) * 7 % seen.bytes.len();
                seen.bytes[at] ^= 1 << (argument % 8);
                net.arrive(seen);
            }
            (7, Some(seen)) if seen.bytes[0] == INIT => {
                let forged = forged_cookie(&seen, random.bytes(), &key(0).public_key(), &mut random);
                net.arrive(forged);
            }
            (8, Some(seen)) if seen.bytes[0] == INIT => {
                let bytes = unproven_versions(&seen.bytes, &key(0).public_key(), Versions::SPOKEN, &mut random);
                net.arrive(Datagram { from: seen.to, to: seen.from, bytes });
            }
            (9, _) => {
                let from = if argument.is_multiple_of(3) { elsewhere() } else { address(side) };
                let init = init_to_hub(&net, key(500), from, argument.is_multiple_of(2));
                for _ in 0..argument {
                    net.arrive(init.clone());
                }
            }
            (10, _) => {
                net.restart(argument % 3, (i64::from(kind) - 128) * 1_000_000);
            }
            (11, _) => net.set_clock(argument % 3, (i64::from(kind) - 128) * 100_000),
            _ => {}
        }
        for side in &net.sides {
            assert!(side.endpoint.outbox.len() <= 1024 && side.endpoint.strangers().len() <= 16, "memory grows");
        }
    }
    // Two inits for each second at the most, and two for each start and for each renewal.
    let seconds = net.time.now().since(begin).as_secs_f64() as usize + 1;
    for side in &net.sides[1..] {
        assert!(side.inits.len() <= 4 + 2 * seconds, "{} inits in {seconds} s", side.inits.len());
    }
    drops.set(0);
    assert!(net.run_until(RECOVERY, |net| net.agree(1) && net.agree(2)), "not up again");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64, rng_seed: RngSeed::Fixed(1), failure_persistence: None, max_shrink_iters: 200,
            ..ProptestConfig::default()
        })]

        #[test]
        fn an_attacker_costs_little_and_leaves_nothing_behind(
            operations in proptest::collection::vec(any::<u8>(), 0..120)
        ) {
            super::attack(&operations);
        }
    }
}
