//! Which addresses a peer may use: the far gateway opens connections on its behalf, inside our network.

use crate::connect::ConnectRequest;
use crate::reach::{Ranges, Reach};
use ipnet::{IpNet, Ipv6Net};
use std::net::{IpAddr, Ipv6Addr};

/// Address ranges that are never used for a peer, neither a client's nor a server's, unless a prefix within the range names them. A
/// wider prefix (`0.0.0.0/0`) does not.
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    // An IPv6 socket would reach the IPv4 address within, past the IPv4 rules.
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    // Where clouds tell their machines what they are, with credentials: many; Azure; Alibaba; Oracle; Scaleway; Tencent; containers.
    ("169.254.169.254/32", METADATA),
    ("168.63.129.16/32", METADATA),
    ("100.100.100.200/32", METADATA),
    ("192.0.0.192/32", METADATA),
    ("169.254.42.42/32", METADATA),
    ("169.254.0.23/32", METADATA),
    ("169.254.170.2/32", METADATA),
    ("169.254.170.23/32", METADATA),
    // AWS; AWS's pods; Google; Oracle; Scaleway; Akamai; Alibaba; OpenStack.
    ("fd00:ec2::254/128", METADATA),
    ("fd00:ec2::23/128", METADATA),
    ("fd20:ce::254/128", METADATA),
    ("fd00:c1::a9fe:a9fe/128", METADATA),
    ("fd00:42::42/128", METADATA),
    ("fd00:a9fe:a9fe::1/128", METADATA),
    ("fd00:100::100:200/128", METADATA),
    ("fe80::a9fe:a9fe/128", METADATA),
];

const METADATA: &str = "cloud metadata";

/// Ranges that are not public, so that no server there is reached for a peer unless a prefix within the range names it: those of the
/// registries of special-purpose addresses (RFC 6890) that are not globally reachable, and of IPv6 what is no global unicast.
const NOT_PUBLIC: &[(&str, &str)] = &[
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "for protocols"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "of 6to4 relays"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("240.0.0.0/4", "reserved"),
    ("::/3", "no global unicast"),
    ("4000::/2", "no global unicast"),
    ("8000::/1", "no global unicast"),
    ("fc00::/7", "private"),
    ("2001::/23", "for protocols"),
    ("2001:db8::/32", "for documentation"),
    // It leads to the IPv4 address within, past the IPv4 rules.
    ("2002::/16", "of 6to4"),
    ("3fff::/20", "for documentation"),
];

/// Where translators to IPv4 listen (RFC 6052): as public as the IPv4 address within.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// Which servers `reach` lets through: whether public ones are among them, and the networks named that are not public.
pub fn servers(reach: &Reach) -> (bool, Vec<IpNet>) {
    let not_public: Vec<IpNet> = NOT_PUBLIC.iter().filter_map(|(range, _)| range.parse().ok()).collect();
    let is_public = |prefix: &IpNet| !not_public.iter().any(|range| range.contains(prefix));
    let translators = IpNet::V6(nat64(0, 0));
    let allowed = reach.destinations.allowed().filter(|prefix| *prefix != translators);
    let (public, mut others): (Vec<_>, Vec<_>) = allowed.partition(is_public);
    others.sort_unstable();
    (!public.is_empty(), others)
}

/// What one peer may do at this gateway.
#[derive(Debug, Clone)]
pub struct Policy {
    sources: Vec<IpNet>,
    destinations: Vec<IpNet>,
    /// Special ranges of clients, the longest first; of a range without a name nothing is special.
    special_sources: Vec<Special>,
    /// And of servers.
    special_destinations: Vec<Special>,
}

/// A range, and what it is called.
type Special = (IpNet, Option<&'static str>);

/// Why a peer's connection is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// The client's address is outside the peer's list.
    #[error("source {0} is not in the peer's allow_sources")]
    Source(IpAddr),
    /// The server's address is outside the peer's list.
    #[error("destination {0} is not in the peer's allow_destinations")]
    Destination(IpAddr),
    /// The address lies in a special range that no prefix of the list names.
    #[error("{address} is {range}: it is denied unless a prefix within that range is allowed")]
    Special {
        /// The address in question.
        address: IpAddr,
        /// The range's name.
        range: &'static str,
    },
}

impl Policy {
    /// The policy of a peer that may use `sources` and reach `destinations`, at a gateway that is itself reached by `own`.
    pub fn new(sources: &[IpNet], destinations: &[IpNet], own: &[IpNet]) -> Self {
        let table = |table: &[(&str, &'static str)]| -> Vec<Special> {
            let parsed = |prefix: &str| prefix.parse::<IpNet>().expect("the table holds valid prefixes");
            table.iter().map(|(prefix, name)| (parsed(prefix), Some(*name))).collect()
        };
        let mut special_sources = table(SPECIAL);
        special_sources.extend(own.iter().map(|prefix| (*prefix, Some("this gateway's own address"))));
        let mut special_destinations = [special_sources.clone(), table(NOT_PUBLIC)].concat();
        let translated: Vec<_> =
            special_destinations.iter().filter_map(|(prefix, name)| Some((translated(prefix)?, *name))).collect();
        special_destinations.push((IpNet::V6(nat64(0, 0)), None));
        special_destinations.extend(translated);
        for list in [&mut special_sources, &mut special_destinations] {
            list.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.prefix_len()));
        }
        Self { sources: sources.to_vec(), destinations: destinations.to_vec(), special_sources, special_destinations }
    }

    /// What may be used, for the peer to know. Special addresses of clients are not announced: they are never requested.
    pub fn reach(&self) -> Reach {
        let allowed = |prefixes: &[IpNet]| prefixes.iter().map(|prefix| (*prefix, true)).collect::<Vec<_>>();
        let special = self.special_destinations.iter().filter_map(|(prefix, name)| {
            // What nothing is special about is as what surrounds it is allowed.
            let is_allowed = name.is_none() && self.destinations.iter().any(|allowed| allowed.contains(prefix));
            (name.is_some() || is_allowed).then_some((*prefix, is_allowed))
        });
        // Addresses of this gateway come and go, most of them in ranges that are denied anyway: of those a peer hears nothing.
        let destinations = Ranges::concise(special.chain(allowed(&self.destinations)));
        Reach { sources: Ranges::new(allowed(&self.sources)), destinations }
    }

    /// Whether the connection `request` may be made.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, request: &ConnectRequest) -> Result<(), Denial> {
        let (source, destination) = (request.source.ip(), request.destination.ip());
        if !self.sources.iter().any(|prefix| prefix.contains(&source)) {
            return Err(Denial::Source(source));
        }
        if !self.destinations.iter().any(|prefix| prefix.contains(&destination)) {
            return Err(Denial::Destination(destination));
        }
        check_special(source, &self.special_sources, &self.sources)?;
        check_special(destination, &self.special_destinations, &self.destinations)
    }
}

/// An address in a special range needs an allowed prefix inside the narrowest such range.
fn check_special(address: IpAddr, special: &[Special], allowed: &[IpNet]) -> Result<(), Denial> {
    match special.iter().find(|(range, _)| range.contains(&address)) {
        None | Some((_, None)) => Ok(()),
        Some((range, Some(name))) => {
            let named = allowed.iter().any(|prefix| range.contains(prefix) && prefix.contains(&address));
            if named { Ok(()) } else { Err(Denial::Special { address, range: name }) }
        }
    }
}

/// Where translators make an IPv4 range of.
fn translated(prefix: &IpNet) -> Option<IpNet> {
    match prefix {
        IpNet::V4(net) => Some(IpNet::V6(nat64(u32::from(net.network()), net.prefix_len()))),
        IpNet::V6(_) => None,
    }
}

fn nat64(address: u32, length: u8) -> Ipv6Net {
    let address = Ipv6Addr::from(u128::from(NAT64) | u128::from(address));
    Ipv6Net::new(address, 96 + length).expect("an IPv4 prefix has 32 bits at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        let net = |text: &&str| text.parse().unwrap_or_else(|_| IpNet::from(text.parse::<IpAddr>().unwrap()));
        texts.iter().map(net).collect()
    }

    fn check(destinations: &[&str], destination: &str) -> Result<(), Denial> {
        let own = nets(&["192.0.2.1", "2001:db8:1::1", "198.51.100.64/26"]);
        let ip: IpAddr = destination.parse().unwrap();
        let source = if ip.is_ipv4() { "10.0.0.1:5" } else { "[2001:db8::1]:5" };
        Policy::new(&nets(&["10.0.0.0/8", "2001:db8::/48"]), &nets(destinations), &own)
            .check(&ConnectRequest::new(source.parse().unwrap(), (ip, 80).into()))
    }

    #[test]
    fn a_prefix_that_leads_to_the_gateway_itself_is_denied_unless_named_within() {
        assert!(check(&["198.51.100.0/24"], "198.51.100.77").is_err());
        assert_eq!(check(&["198.51.100.77/32"], "198.51.100.77"), Ok(()));
        assert_eq!(check(&["198.51.100.0/24"], "198.51.100.128"), Ok(()));
    }

    #[test]
    fn lists_are_obeyed() {
        assert_eq!(check(&["198.51.100.0/24"], "198.51.100.7"), Ok(()));
        assert_eq!(
            check(&["198.51.100.0/24"], "198.51.101.7"),
            Err(Denial::Destination("198.51.101.7".parse().unwrap()))
        );
        let policy = Policy::new(&nets(&["10.0.0.0/8"]), &nets(&["0.0.0.0/0"]), &[]);
        let foreign = ConnectRequest::new("11.0.0.1:1".parse().unwrap(), "192.0.2.1:1".parse().unwrap());
        assert_eq!(policy.check(&foreign), Err(Denial::Source("11.0.0.1".parse().unwrap())));
    }

    #[test]
    fn special_addresses_are_denied_unless_named() {
        for special in [
            "0.0.0.0",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.1.1",
            "169.254.169.254",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8:1::1",
        ] {
            let denied = check(&["0.0.0.0/0", "::/0"], special);
            assert!(matches!(denied, Err(Denial::Special { .. })), "{special}: {denied:?}");
            assert_eq!(check(&["0.0.0.0/0", "::/0", special], special), Ok(()), "{special} allowed by name");
        }
        for ordinary in ["1.1.1.1", "9.255.255.255", "172.32.0.1", "2a00::1", "64:ff9b::101:101"] {
            assert_eq!(check(&["0.0.0.0/0", "::/0"], ordinary), Ok(()), "{ordinary}");
        }
    }

    #[test]
    fn servers_that_are_not_public_are_denied_unless_named() {
        for (server, name) in [
            ("10.0.0.1", "10.0.0.0/24"),
            ("172.31.255.255", "172.16.0.0/12"),
            ("192.168.1.1", "192.168.1.0/24"),
            ("100.64.0.1", "100.64.0.0/10"),
            ("192.0.2.2", "192.0.2.0/24"),
            ("198.19.0.1", "198.19.0.0/16"),
            ("240.0.0.1", "240.0.0.0/8"),
            ("fd00:ec2::253", "fd00::/8"),
            ("fec0::1", "fec0::/10"),
            ("2001:db8:1::2", "2001:db8::/32"),
            ("2002:a00:1::1", "2002:a00:1::/48"),
            ("5f00::1", "5f00::/16"),
            ("64:ff9b::10.0.0.1", "64:ff9b::a00:0/120"),
            ("64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe/128"),
            ("168.63.129.16", "168.63.129.16/32"),
            ("100.100.100.200", "100.100.100.200/32"),
            ("fd20:ce::254", "fd20:ce::254/128"),
        ] {
            let denied = check(&["0.0.0.0/0", "::/0"], server);
            assert!(matches!(denied, Err(Denial::Special { .. })), "{server}: {denied:?}");
            assert_eq!(check(&["0.0.0.0/0", "::/0", name], server), Ok(()), "{server} named by {name}");
        }
        assert!(check(&["100.64.0.0/10"], "100.100.100.200").is_err(), "a metadata address needs its own name");
    }

    #[test]
    fn what_is_told_is_what_is_checked() {
        let lists: [&[&str]; 5] = [
            &["0.0.0.0/0", "::/0"],
            &["0.0.0.0/0", "10.92.0.0/16", "fd00::/8"],
            &["10.0.0.0/7", "192.0.2.0/24", "::/0", "64:ff9b::a00:0/104"],
            &["169.254.0.0/16", "192.0.2.1", "fe80::/10"],
            &[],
        ];
        let probes = [
            "1.1.1.1",
            "10.0.0.1",
            "11.0.0.1",
            "10.92.1.1",
            "192.0.2.1",
            "192.0.2.2",
            "169.254.1.1",
            "169.254.169.254",
            "168.63.129.16",
            "2a00::1",
            "fd00::1",
            "fd00:ec2::254",
            "fe80::1",
            "64:ff9b::1.1.1.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::192.168.0.1",
            "2001:db8:1::1",
            "ff02::1",
            "::1",
        ];
        for list in lists {
            let policy = Policy::new(&nets(&["0.0.0.0/0", "::/0"]), &nets(list), &nets(&["192.0.2.1"]));
            let reach = policy.reach();
            for probe in probes {
                let ip: IpAddr = probe.parse().unwrap();
                let source = if ip.is_ipv4() { "10.0.0.1:5" } else { "[2001:db8::1]:5" };
                let is_allowed = policy.check(&ConnectRequest::new(source.parse().unwrap(), (ip, 80).into())).is_ok();
                assert_eq!(reach.destinations.permit(ip), is_allowed, "{probe} with {list:?}");
            }
        }
    }

    #[test]
    fn own_addresses_in_ranges_that_are_denied_change_nothing_of_what_is_told() {
        let reach = |own: &[&str], destinations: &[&str]| {
            Policy::new(&nets(&["0.0.0.0/0", "::/0"]), &nets(destinations), &nets(own)).reach()
        };
        let everything = ["0.0.0.0/0", "::/0"];
        let before = reach(&["192.0.2.1", "2a00::1"], &everything);
        assert_eq!(reach(&["192.0.2.1", "2a00::1", "fe80::1234", "10.9.9.9", "127.0.0.0/8"], &everything), before);
        assert_ne!(reach(&["192.0.2.1", "2a00::1", "2a00::2"], &everything), before, "it could be asked for otherwise");
        let few = ["198.51.100.0/24", "10.0.0.0/8"];
        assert_eq!(reach(&["2a00::1", "8.8.8.8", "fe80::1"], &few), reach(&[], &few), "nothing around is allowed");
        assert_ne!(reach(&["10.9.9.9"], &few), reach(&[], &few), "a range that is named");
    }

    #[test]
    fn naming_a_range_does_not_name_the_metadata_address_within() {
        assert_eq!(check(&["169.254.0.0/16"], "169.254.7.7"), Ok(()));
        assert!(check(&["169.254.0.0/16"], "169.254.169.254").is_err());
    }

    #[test]
    fn a_client_may_not_pose_as_the_gateway_or_as_loopback() {
        let own = nets(&["10.0.0.254", "10.1.0.0/24"]);
        let policy = Policy::new(&nets(&["0.0.0.0/0"]), &nets(&["0.0.0.0/0"]), &own);
        for source in ["127.0.0.1:1", "10.0.0.254:1", "10.1.0.9:1", "224.0.0.1:1"] {
            let request = ConnectRequest::new(source.parse().unwrap(), "1.1.1.1:1".parse().unwrap());
            assert!(policy.check(&request).is_err(), "{source}");
        }
    }
}
