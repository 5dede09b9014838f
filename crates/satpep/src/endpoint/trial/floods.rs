//! Strangers with a cookie who begin ten thousand handshakes a second, and those whom the hub is there for.

use super::net::{Datagram, Net, address, elsewhere, init_to_hub, key};
use units::Duration;

const DELAY: Duration = Duration::from_millis(300);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Lets the flood go on until `done`, for `millis` at most, with ten of the inits in each millisecond.
fn flood(net: &mut Net, inits: &[Datagram], millis: usize, done: impl Fn(&Net) -> bool) -> bool {
    for step in 0..millis {
        for count in 0..10 {
            net.arrive(inits[(step * 10 + count) % inits.len()].clone());
        }
        if net.run_until(MILLISECOND, &done) {
            return true;
        }
    }
    false
}

/// A hub with forty peers, of whom the last three exist; two are up.
fn busy_hub() -> Net {
    let mut net = Net::new(40, 3, DELAY);
    net.between = Box::new(|datagram, _| match datagram.from == address(3) || datagram.to == address(3) {
        true => Vec::new(),
        false => vec![(Duration::ZERO, datagram.clone())],
    });
    assert!(net.run_until(Duration::from_secs(10), |net| net.is_up(1) && net.is_up(2)));
    net.run(Duration::from_secs(2));
    net
}

/// Rekeying, restarting and coming for the first time, each while the flood goes on.
fn all_get_through(net: &mut Net, inits: &[Datagram]) {
    let before = net.sides[0].endpoint.stats().clone();
    flood(net, inits, 1500, |_| false);
    assert!(net.sides[0].endpoint.stats().dropped.flood > 10_000);

    let handshakes = net.sides[0].endpoint.stats().handshakes;
    net.renew(1);
    let renewed = |net: &Net| net.sides[0].endpoint.stats().handshakes > handshakes;
    assert!(flood(net, inits, 1200, renewed), "a known peer's keys are not renewed");

    net.restart(2, 0);
    assert!(flood(net, inits, 2000, |net| net.agree(2)), "a known peer that restarted is not let in");

    net.between = Box::new(|datagram, _| vec![(Duration::ZERO, datagram.clone())]);
    net.restart(3, 0);
    assert!(flood(net, inits, 6000, |net| net.is_up(3)), "a new peer is not let in");
    let stats = net.sides[0].endpoint.stats();
    assert!(stats.dropped.stranger - before.dropped.stranger < 200 * 12, "too many were worth a Diffie-Hellman");
}

#[test]
fn one_stranger_with_a_cookie_keeps_nobody_out() {
    let mut net = busy_hub();
    let stranger = init_to_hub(&net, key(500), elsewhere(), true);
    all_get_through(&mut net, &[stranger]);
}

#[test]
fn nor_does_one_who_forges_the_addresses_of_those_who_are_known_and_sees_their_cookies() {
    let mut net = busy_hub();
    let forged = [1, 2].map(|index| init_to_hub(&net, key(500), address(index), true));
    all_get_through(&mut net, &forged);
}

#[test]
fn nor_does_one_who_repeats_what_those_who_are_known_once_sent() {
    let mut net = busy_hub();
    let recorded: Vec<_> =
        net.seen.iter().filter(|seen| [address(1), address(2)].contains(&seen.from)).cloned().collect();
    assert!(!recorded.is_empty());
    let stranger = init_to_hub(&net, key(500), elsewhere(), true);
    let inits = [recorded, vec![stranger]].concat();
    all_get_through(&mut net, &inits);
}
