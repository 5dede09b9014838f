//! Which peer a destination lies behind (longest prefix), and which destinations are intercepted while some peers are
//! down.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

/// Prefixes and the peer behind each; the longest prefix that contains an address wins.
#[derive(Debug, Clone)]
pub struct Routes<P> {
    /// Longest prefix first.
    entries: Vec<(IpNet, P)>,
}

/// The prefixes of two peers overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap<P> {
    /// The longer prefix, and whose it is.
    pub inner: (IpNet, P),
    /// The prefix that contains it, and whose it is.
    pub outer: (IpNet, P),
}

/// Two peers claim the same prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{prefix} is claimed twice")]
pub struct DuplicateRoute {
    /// The prefix in question.
    pub prefix: IpNet,
}

impl<P: Copy + PartialEq> Routes<P> {
    /// The routing table of `entries` (host bits of a prefix are ignored).
    ///
    /// # Errors
    /// If one prefix leads to two peers.
    pub fn new(entries: impl IntoIterator<Item = (IpNet, P)>) -> Result<Self, DuplicateRoute> {
        let mut entries: Vec<_> = entries.into_iter().map(|(prefix, peer)| (prefix.trunc(), peer)).collect();
        entries.sort_by_key(|(prefix, _)| (std::cmp::Reverse(prefix.prefix_len()), *prefix));
        entries.dedup();
        match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(DuplicateRoute { prefix: pair[0].0 }),
            None => Ok(Self { entries }),
        }
    }

    /// The same prefixes with other names for the peers.
    pub fn map<Q>(&self, name: impl Fn(P) -> Q) -> Routes<Q> {
        self.filter_map(|peer| Some(name(peer)))
    }

    /// The same prefixes with other names for the peers, without those of peers that have none.
    pub fn filter_map<Q>(&self, name: impl Fn(P) -> Option<Q>) -> Routes<Q> {
        let named = |&(prefix, peer): &(IpNet, P)| Some((prefix, name(peer)?));
        Routes { entries: self.entries.iter().filter_map(named).collect() }
    }

    /// The prefixes that lie within one of another peer's.
    pub fn overlaps(&self) -> impl Iterator<Item = Overlap<P>> {
        self.entries.iter().enumerate().flat_map(move |(at, inner)| {
            let around = move |outer: &&(IpNet, P)| outer.1 != inner.1 && outer.0.contains(&inner.0);
            self.entries[at..].iter().filter(around).map(|outer| Overlap { inner: *inner, outer: *outer })
        })
    }

    /// The peer that `destination` lies behind.
    pub fn peer_of(&self, destination: IpAddr) -> Option<P> {
        self.entries.iter().find(|(prefix, _)| prefix.contains(&destination)).map(|&(_, peer)| peer)
    }

    /// The destinations to intercept: disjoint prefixes that hold exactly the addresses whose peer `is_up`. Everything
    /// else goes end to end (the bypass).
    pub fn intercepted(&self, is_up: impl Fn(P) -> bool) -> Vec<IpNet> {
        most_specific(&self.entries, |peer| is_up(*peer))
    }
}

/// Disjoint prefixes, in order, that hold exactly the addresses whose most specific entry `fits`.
pub(crate) fn most_specific<T>(entries: &[(IpNet, T)], fits: impl Fn(&T) -> bool) -> Vec<IpNet> {
    let mut result = Vec::new();
    for (prefix, _) in entries.iter().filter(|(_, value)| fits(value)) {
        let others = entries.iter().map(|(other, _)| *other);
        let inner: Vec<IpNet> = others.filter(|other| other != prefix && prefix.contains(other)).collect();
        subtract(*prefix, &inner, &mut result);
    }
    IpNet::aggregate(&result)
}

/// Adds to `result` the parts of `prefix` that lie outside every one of `holes` (all of which lie within it).
fn subtract(prefix: IpNet, holes: &[IpNet], result: &mut Vec<IpNet>) {
    if holes.is_empty() {
        result.push(prefix);
    } else if !holes.contains(&prefix) {
        for half in halves(prefix) {
            let inner: Vec<IpNet> = holes.iter().filter(|hole| half.contains(*hole)).copied().collect();
            subtract(half, &inner, result);
        }
    }
}

/// The two halves of a prefix that is not a single address.
fn halves(prefix: IpNet) -> Vec<IpNet> {
    let length = prefix.prefix_len() + 1;
    match prefix {
        IpNet::V4(net) => net.subnets(length).into_iter().flatten().map(|half: Ipv4Net| IpNet::V4(half)).collect(),
        IpNet::V6(net) => net.subnets(length).into_iter().flatten().map(|half: Ipv6Net| IpNet::V6(half)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn routes(entries: &[(&str, u8)]) -> Routes<u8> {
        Routes::new(entries.iter().map(|(prefix, peer)| (prefix.parse().unwrap(), *peer))).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let table = routes(&[("0.0.0.0/0", 0), ("10.1.0.0/16", 1), ("10.1.2.0/24", 2), ("2001:db8::/32", 3)]);
        for (address, peer) in [
            ("9.9.9.9", Some(0)),
            ("10.1.1.1", Some(1)),
            ("10.1.2.3", Some(2)),
            ("2001:db8::5", Some(3)),
            ("2001:db9::5", None),
        ] {
            assert_eq!(table.peer_of(address.parse().unwrap()), peer, "{address}");
        }
    }

    #[test]
    fn a_prefix_leads_to_one_peer() {
        let twice = [("10.0.0.0/8", 0), ("10.3.0.0/8", 1)].map(|(p, n)| (p.parse().unwrap(), n));
        let error = Routes::new(twice).unwrap_err();
        assert_eq!(error.to_string(), "10.0.0.0/8 is claimed twice");
    }

    #[test]
    fn prefixes_within_another_peers_are_found() {
        let table = routes(&[("0.0.0.0/0", 0), ("10.1.0.0/16", 1), ("10.0.0.0/8", 1), ("10.1.2.0/24", 2), ("::/0", 2)]);
        let found: Vec<_> =
            table.overlaps().map(|o| (o.inner.1, o.outer.1, o.inner.0.to_string(), o.outer.0.to_string())).collect();
        let expected = [
            (2, 1, "10.1.2.0/24", "10.1.0.0/16"),
            (2, 1, "10.1.2.0/24", "10.0.0.0/8"),
            (2, 0, "10.1.2.0/24", "0.0.0.0/0"),
            (1, 0, "10.1.0.0/16", "0.0.0.0/0"),
            (1, 0, "10.0.0.0/8", "0.0.0.0/0"),
        ]
        .map(|(inner, outer, a, b)| (inner, outer, a.to_owned(), b.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_silent_peer_leaves_a_hole_and_a_silent_default_leaves_the_rest() {
        let table = routes(&[("0.0.0.0/0", 0), ("10.0.0.0/8", 1)]);
        let holds = |nets: &[IpNet], ip: &str| nets.iter().any(|n| n.contains(&ip.parse::<IpAddr>().unwrap()));
        let without_one = table.intercepted(|peer| peer == 0);
        assert!(holds(&without_one, "11.0.0.1") && !holds(&without_one, "10.0.0.1"));
        assert_eq!(table.intercepted(|peer| peer == 1), ["10.0.0.0/8".parse::<IpNet>().unwrap()]);
        assert_eq!(table.intercepted(|_| true), ["0.0.0.0/0".parse::<IpNet>().unwrap()]);
        assert!(table.intercepted(|_| false).is_empty());
    }

    proptest! {
        /// Interception and routing agree for every address, whichever peers are up.
        #[test]
        fn intercepted_exactly_where_the_peer_is_up(
            entries in prop::collection::vec((any::<u32>(), 0u8..=32, 0u8..4), 1..12),
            up: [bool; 4],
            probes: [u32; 16],
        ) {
            let mut seen = std::collections::BTreeMap::new();
            for (address, length, peer) in &entries {
                let net = IpNet::V4(Ipv4Net::new((*address).into(), *length).unwrap()).trunc();
                seen.entry(net).or_insert(*peer);
            }
            let table = Routes::new(seen).unwrap();
            let nets = table.intercepted(|peer| up[peer as usize]);
            for (i, a) in nets.iter().enumerate() {
                prop_assert!(nets[i + 1..].iter().all(|b| !a.contains(b) && !b.contains(a)));
            }
            // Random addresses and the edges of every prefix.
            let edges = entries.iter().flat_map(|(a, _, _)| [*a, a.wrapping_add(1), a.wrapping_sub(1)]);
            for probe in probes.into_iter().chain(edges) {
                let ip = IpAddr::V4(probe.into());
                let expected = table.peer_of(ip).is_some_and(|peer| up[peer as usize]);
                prop_assert_eq!(nets.iter().any(|net| net.contains(&ip)), expected);
            }
        }
    }
}
