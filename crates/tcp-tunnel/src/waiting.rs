//! Connections that have been accepted and have not said yet who makes them.
//!
//! Anybody may make such a connection. So there are so many places for all of them, and so many for each prefix of addresses;
//! who comes when they are taken gets the place of the one that has waited longest, in its own prefix if that has its share.
//! A gateway needs its place for a round trip or two; a stranger that keeps making connections drives out its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Addresses that count as one host's: IPv4 /24, IPv6 /56, what one customer of a network is given at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix(IpAddr);

impl Prefix {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & !0xff).into()),
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !((1 << 72) - 1)).into()),
        })
    }
}

/// How many places there are, at least one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// For all connections.
    pub total: usize,
    /// For those of one prefix.
    pub per_prefix: usize,
}

/// A place that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    prefix: Prefix,
    number: u64,
}

/// Who waits, `T` naming each.
#[derive(Debug, Clone)]
pub struct Waiting<T> {
    places: Places,
    next: u64,
    /// By the order in which they came.
    all: BTreeMap<u64, (T, Prefix)>,
    /// The numbers of those of a prefix, in the same order.
    by_prefix: BTreeMap<Prefix, BTreeSet<u64>>,
}

impl<T: Copy> Waiting<T> {
    /// With all `places` free.
    pub fn new(places: Places) -> Self {
        let places = Places { total: places.total.max(1), per_prefix: places.per_prefix.max(1) };
        Self { places, next: 0, all: BTreeMap::new(), by_prefix: BTreeMap::new() }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes a place for `who`, which comes from `address`; returns it, and whose place that was: that one has to go.
    pub fn enter(&mut self, who: T, address: IpAddr) -> (Ticket, Option<T>) {
        let prefix = Prefix::of(address);
        let own =
            self.by_prefix.get(&prefix).filter(|own| own.len() >= self.places.per_prefix).and_then(BTreeSet::first);
        let oldest = own.copied().or_else(|| {
            let (oldest, _) = self.all.first_key_value().filter(|_| self.all.len() >= self.places.total)?;
            Some(*oldest)
        });
        let driven_out = oldest.and_then(|number| {
            let (who, prefix) = *self.all.get(&number)?;
            self.leave(Ticket { prefix, number });
            Some(who)
        });
        let ticket = Ticket { prefix, number: self.next };
        self.next += 1;
        self.all.insert(ticket.number, (who, prefix));
        self.by_prefix.entry(prefix).or_default().insert(ticket.number);
        (ticket, driven_out)
    }

    /// Gives the place of `ticket` back; nothing happens if it is another's by now.
    pub fn leave(&mut self, ticket: Ticket) {
        self.all.remove(&ticket.number);
        if let Some(numbers) = self.by_prefix.get_mut(&ticket.prefix) {
            numbers.remove(&ticket.number);
            if numbers.is_empty() {
                self.by_prefix.remove(&ticket.prefix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_stranger_drives_out_its_own_and_leaves_the_others_alone() {
        let mut waiting = Waiting::new(Places { total: 100, per_prefix: 4 });
        let (honest, none) = waiting.enter(0, address("198.18.9.1"));
        assert_eq!(none, None);
        let out: Vec<_> =
            (1..1000).filter_map(|who| waiting.enter(who, address(&format!("192.0.2.{}", who % 256))).1).collect();
        assert_eq!(out, (1..996).collect::<Vec<_>>(), "the oldest first, all of one prefix");
        assert_eq!(waiting.len(), 5);
        waiting.leave(honest);
        assert_eq!(waiting.len(), 4);
        // The customer's prefix counts where addresses are plenty.
        for host in 0..10 {
            waiting.enter(2000, address(&format!("2001:db8:0:{host:x}::1")));
        }
        assert_eq!(waiting.len(), 8);
    }

    #[test]
    fn strangers_from_everywhere_drive_out_who_has_waited_longest() {
        let mut waiting = Waiting::new(Places { total: 10, per_prefix: 4 });
        for who in 0..10u8 {
            assert_eq!(waiting.enter(who, IpAddr::from([192, 0, who, 1])).1, None);
        }
        for who in 10..200u8 {
            assert_eq!(waiting.enter(who, IpAddr::from([192, 0, who, 1])).1, Some(who - 10));
        }
        assert_eq!((waiting.len(), waiting.by_prefix.len()), (10, 10));
    }

    proptest! {
        #[test]
        fn places_are_counted_right_whoever_comes_and_goes(steps in prop::collection::vec((0u8..6, any::<bool>()), 1..200)) {
            let (mut waiting, mut inside) = (Waiting::new(Places { total: 8, per_prefix: 3 }), BTreeMap::new());
            for (who, (net, enters)) in steps.into_iter().enumerate() {
                if enters {
                    let (ticket, out) = waiting.enter(who, IpAddr::from([10, 0, net, 1]));
                    if let Some(out) = out {
                        prop_assert!(inside.remove(&out).is_some());
                    }
                    inside.insert(who, ticket);
                } else if let Some((_, ticket)) = inside.pop_first() {
                    waiting.leave(ticket);
                    waiting.leave(ticket);
                }
                prop_assert_eq!(waiting.len(), inside.len());
                prop_assert_eq!(waiting.by_prefix.values().map(BTreeSet::len).sum::<usize>(), inside.len());
                prop_assert!(waiting.len() <= 8 && waiting.by_prefix.values().all(|own| (1..=3).contains(&own.len())));
            }
        }
    }
}
