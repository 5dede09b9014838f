//! Whose handshakes are worth a Diffie-Hellman when there are many.
//!
//! Up to [`BUSY`] in a second anybody's are. Beyond that an init must have one of two proofs:
//! - It is an acquaintance's, by its `mac2` and its time ([`crate::handshake::Acquaintance`]): it is admitted whatever
//!   strangers do, be it from its own address. Whose secret may fit is guessed by the address, else by order.
//! - It has a cookie. Those share [`STRANGERS`] in a second: half of it goes to who comes first, and the rest by source
//!   prefix, so that one flooding prefix leaves the others room.
//!
//! Prefixes are counted in slots that a secret chooses: memory does not grow with their number, no one can aim at another's
//! slot, and two that share one by chance part when the secret changes.

use crate::random::SecureRandom;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};
use units::{Duration, Instant};

/// Handshakes in a second above which a proof is asked for.
pub(super) const BUSY: u32 = 20;
/// Handshakes by cookie, and answers to inits without, in a second.
pub(super) const STRANGERS: u32 = 200;
/// Those that one prefix may have of the second half of that.
pub(super) const BY_PREFIX: u16 = 10;
/// Slots for prefixes.
const SLOTS: usize = 1024;

/// What handshakes asked of this gateway in the current second.
pub(super) struct Admission {
    since: Instant,
    handshakes: u32,
    by_cookie: Quota,
    replies: Quota,
    secret: [u8; 32],
}

/// A number that strangers may have of something in a second.
struct Quota {
    total: u32,
    by_prefix: Box<[u16; SLOTS]>,
}

impl Quota {
    fn new() -> Self {
        Self { total: 0, by_prefix: Box::new([0; SLOTS]) }
    }

    fn clear(&mut self) {
        if self.total > 0 {
            (self.total, *self.by_prefix) = (0, [0; SLOTS]);
        }
    }

    fn take(&mut self, slot: usize) -> bool {
        let count = &mut self.by_prefix[slot];
        let may = self.total < STRANGERS / 2 || self.total < STRANGERS && *count < BY_PREFIX;
        if may {
            *count += 1;
            self.total += 1;
        }
        may
    }
}

impl Admission {
    pub(super) fn new(random: &mut SecureRandom) -> Self {
        Self {
            since: Instant::ZERO,
            handshakes: 0,
            by_cookie: Quota::new(),
            replies: Quota::new(),
            secret: random.block(),
        }
    }

    /// Lets prefixes that shared a slot part.
    pub(super) fn rotate(&mut self, random: &mut SecureRandom) {
        self.secret = random.block();
    }

    fn begin(&mut self, now: Instant) {
        if now.since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.handshakes = 0;
            self.by_cookie.clear();
            self.replies.clear();
        }
    }

    /// Whether anybody's init is admitted now; if so, it counts.
    pub(super) fn admits_all(&mut self, now: Instant) -> bool {
        self.begin(now);
        let quiet = self.handshakes < BUSY;
        self.handshakes += u32::from(quiet);
        quiet
    }

    /// Whether an init with a cookie for `from` is admitted; if so, it counts.
    pub(super) fn admits_cookie_of(&mut self, from: &SocketAddr) -> bool {
        let slot = self.slot(from);
        self.by_cookie.take(slot)
    }

    /// Whether a stranger may be sent an answer that is no handshake; if so, it counts.
    pub(super) fn may_reply(&mut self, now: Instant, to: &SocketAddr) -> bool {
        self.begin(now);
        let slot = self.slot(to);
        self.replies.take(slot)
    }

    fn slot(&self, address: &SocketAddr) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.secret, prefix(address.ip())).hash(&mut hasher);
        hasher.finish() as usize % SLOTS
    }
}

/// The network that an address counts with. IPv4: a /24, the least that is routed by itself. IPv6: a /48, the most that one
/// site is given (RFC 6177): counted by longer prefixes, one site could be hundreds of strangers.
fn prefix(address: IpAddr) -> (bool, [u8; 6]) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            (true, [a, b, c, 0, 0, 0])
        }
        IpAddr::V6(address) => (false, *address.octets().first_chunk().expect("an address has 16 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        format!("{text}:4500").parse().expect("address")
    }

    fn admission() -> Admission {
        Admission::new(&mut SecureRandom::new([1; 32]))
    }

    #[test]
    fn one_prefix_leaves_others_room_in_every_second() {
        let mut admission = admission();
        for second in 1..4 {
            let now = Instant::from_nanos(second * 1_000_000_000);
            assert_eq!((0..1000).filter(|_| admission.admits_all(now)).count(), BUSY as usize);
            let flood =
                (0..10_000).filter(|host| admission.admits_cookie_of(&at(&format!("203.0.113.{}", host % 250))));
            assert_eq!(flood.count(), STRANGERS as usize / 2);
            let other = (0..100).filter(|_| admission.admits_cookie_of(&at("198.51.100.7"))).count();
            assert_eq!(other, usize::from(BY_PREFIX));
        }
    }

    #[test]
    fn addresses_count_by_their_network() {
        let same = |a: &str, b: &str| prefix(a.parse().expect("address")) == prefix(b.parse().expect("address"));
        assert!(same("192.0.2.1", "192.0.2.200") && same("192.0.2.1", "::ffff:192.0.2.9"));
        assert!(!same("192.0.2.1", "192.0.3.1"));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:ff::1") && !same("2001:db8:1::1", "2001:db8:2::1"));
    }

    #[test]
    fn forged_addresses_from_everywhere_use_up_no_more_than_the_limit() {
        let mut admission = admission();
        let now = Instant::from_nanos(1_000_000_000);
        let everywhere = (0..50_000u32).map(|n| SocketAddr::from((n.wrapping_mul(2_654_435_761).to_be_bytes(), 9)));
        assert_eq!(everywhere.filter(|from| admission.may_reply(now, from)).count(), STRANGERS as usize);
    }
}
