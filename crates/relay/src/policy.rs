//! Which addresses a peer may use: the far gateway opens connections on its behalf, inside our network.

use crate::preamble::Open;
use ipnet::IpNet;
use std::net::IpAddr;

/// Address ranges that are never used for a peer unless a prefix within the range names them. A wider prefix
/// (`0.0.0.0/0`) does not.
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("169.254.169.254/32", "cloud metadata"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    // An IPv6 socket would reach the IPv4 address within, past the IPv4 rules.
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("fe80::/10", "link-local"),
    ("fd00:ec2::254/128", "cloud metadata"),
    ("ff00::/8", "multicast"),
];

/// What one peer may do at this gateway.
#[derive(Debug, Clone)]
pub struct Policy {
    sources: Vec<IpNet>,
    destinations: Vec<IpNet>,
    special: Vec<(IpNet, &'static str)>,
}

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
    /// The policy of a peer that may use `sources` and reach `destinations`, at a gateway whose own addresses are `own`.
    pub fn new(sources: &[IpNet], destinations: &[IpNet], own: &[IpAddr]) -> Self {
        let built_in = SPECIAL
            .iter()
            .map(|(prefix, name)| (prefix.parse::<IpNet>().expect("the table holds valid prefixes"), *name));
        let own = own.iter().map(|address| (IpNet::from(*address), "this gateway's own address"));
        let mut special: Vec<_> = built_in.chain(own).collect();
        special.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.prefix_len()));
        Self { sources: sources.to_vec(), destinations: destinations.to_vec(), special }
    }

    /// Whether the connection `open` may be made.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, open: &Open) -> Result<(), Denial> {
        let (source, destination) = (open.source.ip(), open.destination.ip());
        if !self.sources.iter().any(|prefix| prefix.contains(&source)) {
            return Err(Denial::Source(source));
        }
        if !self.destinations.iter().any(|prefix| prefix.contains(&destination)) {
            return Err(Denial::Destination(destination));
        }
        self.check_special(source, &self.sources)?;
        self.check_special(destination, &self.destinations)
    }

    /// An address in a special range needs an allowed prefix inside the narrowest such range.
    fn check_special(&self, address: IpAddr, allowed: &[IpNet]) -> Result<(), Denial> {
        let Some(&(range, name)) = self.special.iter().find(|(range, _)| range.contains(&address)) else {
            return Ok(());
        };
        let named = allowed.iter().any(|prefix| range.contains(prefix) && prefix.contains(&address));
        if named { Ok(()) } else { Err(Denial::Special { address, range: name }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        let net = |text: &&str| text.parse().unwrap_or_else(|_| IpNet::from(text.parse::<IpAddr>().unwrap()));
        texts.iter().map(net).collect()
    }

    fn check(destinations: &[&str], destination: &str) -> Result<(), Denial> {
        let own = ["192.0.2.1".parse().unwrap(), "2001:db8:1::1".parse().unwrap()];
        let ip: IpAddr = destination.parse().unwrap();
        let source = if ip.is_ipv4() { "10.0.0.1:5" } else { "[2001:db8::1]:5" };
        Policy::new(&nets(&["10.0.0.0/8", "2001:db8::/48"]), &nets(destinations), &own)
            .check(&Open::new(source.parse().unwrap(), (ip, 80).into()))
    }

    #[test]
    fn lists_are_obeyed() {
        assert_eq!(check(&["198.51.100.0/24"], "198.51.100.7"), Ok(()));
        assert_eq!(
            check(&["198.51.100.0/24"], "198.51.101.7"),
            Err(Denial::Destination("198.51.101.7".parse().unwrap()))
        );
        let policy = Policy::new(&nets(&["10.0.0.0/8"]), &nets(&["0.0.0.0/0"]), &[]);
        let foreign = Open::new("11.0.0.1:1".parse().unwrap(), "192.0.2.1:1".parse().unwrap());
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
        for ordinary in ["192.0.2.2", "1.1.1.1", "10.0.0.1", "2001:db8:1::2", "fd00:ec2::253", "fec0::1"] {
            assert_eq!(check(&["0.0.0.0/0", "::/0"], ordinary), Ok(()), "{ordinary}");
        }
    }

    #[test]
    fn naming_a_range_does_not_name_the_metadata_address_within() {
        assert_eq!(check(&["169.254.0.0/16"], "169.254.7.7"), Ok(()));
        assert!(check(&["169.254.0.0/16"], "169.254.169.254").is_err());
    }

    #[test]
    fn a_client_may_not_pose_as_the_gateway_or_as_loopback() {
        let own = ["10.0.0.254".parse().unwrap()];
        let policy = Policy::new(&nets(&["0.0.0.0/0"]), &nets(&["0.0.0.0/0"]), &own);
        for source in ["127.0.0.1:1", "10.0.0.254:1", "224.0.0.1:1"] {
            let open = Open::new(source.parse().unwrap(), "1.1.1.1:1".parse().unwrap());
            assert!(policy.check(&open).is_err(), "{source}");
        }
    }
}
