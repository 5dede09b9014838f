//! An attacker who sees an init and knows the hub's public key can answer it with a cookie, faster than the hub.

use super::net::{Datagram, Net, address, elsewhere, forged_cookie, init_to_hub, key};
use crate::event::PeerState;
use crate::handshake::Cookie;
use crate::random::SecureRandom;
use crate::wire::packet::INIT;
use crate::{PeerId, Trouble};
use units::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(300);

/// Answers every init of a terminal with `count` forged cookies at once; `lost` says which datagrams are.
fn forge(net: &mut Net, count: usize, lost: impl Fn(&Datagram) -> bool + 'static) {
    let hub = key(0).public_key();
    net.between = Box::new(move |datagram, random| {
        let mut out = Vec::new();
        if datagram.bytes[0] == INIT && datagram.to == address(0) {
            for _ in 0..count {
                let cookie: Cookie = random.bytes();
                out.push((Duration::ZERO, forged_cookie(datagram, cookie, &hub, random)));
            }
        }
        if !lost(datagram) {
            out.push((Duration::from_millis(1), datagram.clone()));
        }
        out
    });
}

fn times(net: &Net) -> Vec<Instant> {
    net.sides[1].inits.clone()
}

#[test]
fn a_forged_cookie_costs_no_attempt() {
    let mut net = Net::new(1, 1, DELAY);
    forge(&mut net, 1, |_| false);
    let start = net.time.now();
    assert!(net.run_until(Duration::from_secs(20), |net| net.is_up(1)));
    assert!(net.time.now().since(start) < DELAY * 4, "the hub's response counts");
    assert_eq!(net.sides[1].inits.len(), 1);
}

#[test]
fn forged_cookies_hurry_no_init() {
    let inits = |forged| {
        let mut net = Net::new(1, 1, DELAY);
        forge(&mut net, forged, |datagram| datagram.from == address(0));
        net.run(Duration::from_secs(60));
        let trouble = net.sides[1].endpoint.peer_trouble(net.time.now(), PeerId(0));
        let (cookies, attempts) = (forged > 0, times(&net).len() as u32);
        let since = Duration::from_secs(60);
        let expected =
            if cookies { Trouble::OnlyCookies { attempts, since } } else { Trouble::NoAnswer { attempts, since } };
        assert_eq!(trouble, Some(expected));
        times(&net)
    };
    let undisturbed = inits(0);
    assert!((10..20).contains(&undisturbed.len()), "{undisturbed:?}");
    assert_eq!(inits(1), undisturbed);
    assert_eq!(inits(100), undisturbed);
}

#[test]
fn forged_cookies_do_not_lock_the_genuine_one_out() {
    // The hub is busy, and has so many peers that it can't know the terminal by its secret.
    for seed in 0..8 {
        let mut net = Net::new(40, 1, DELAY);
        forge(&mut net, 3, |_| false);
        for _ in 0..seed {
            net.sides[1].endpoint.random.u32();
        }
        let flood = init_to_hub(&net, key(500), elsewhere(), false);
        let mut up = false;
        for _ in 0..1200 {
            for _ in 0..5 {
                net.arrive(flood.clone());
            }
            up = net.run_until(Duration::from_millis(50), |net| net.is_up(1));
            if up {
                break;
            }
        }
        assert!(up, "not up in a minute with {:?}", net.sides[0].endpoint.stats());
        assert!(times(&net).len() > 1 && net.sides[0].endpoint.stats().cookies_sent > 0);
    }
}

#[test]
fn the_hub_is_not_made_to_hurry_either() {
    let mut net = Net::new(1, 1, DELAY);
    assert!(net.run_until(Duration::from_secs(5), |net| net.is_up(1)));
    let mut random = SecureRandom::new([1; 32]);
    let init = net.seen.iter().find(|datagram| datagram.bytes[0] == INIT).expect("an init").clone();
    // To an init that is answered already.
    let late = forged_cookie(&init, [1; 16], &key(0).public_key(), &mut random);
    net.arrive(late);
    net.run(Duration::from_secs(5));
    assert_eq!(net.sides[1].inits.len(), 1);
    assert_eq!(net.sides[1].endpoint.peer_state(PeerId(0)), PeerState::Up);
}
