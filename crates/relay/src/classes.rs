//! Which connections belong to a class.

use crate::connect::ConnectRequest;
use crate::dscp::Dscp;
use ipnet::IpNet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A class of connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its name in logs and status.
    pub name: String,
    /// What connections of it are like.
    pub conditions: Conditions,
    /// How its connections share a peer's part of the link with others.
    pub settings: peering::Class,
}

impl Class {
    /// The first of `classes` that the connection fits.
    pub fn find<'a>(classes: &'a [Self], request: &ConnectRequest) -> Option<&'a Self> {
        classes.iter().find(|class| class.conditions.hold_for(request))
    }
}

/// What a connection must be like. A list that is empty asks for nothing; of each of the others one entry must fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Ports of the server.
    pub ports: Vec<Ports>,
    /// Where the client is.
    pub clients: Vec<IpNet>,
    /// Where the server is.
    pub servers: Vec<IpNet>,
    /// DSCP of the client's packets.
    pub dscp: Vec<Dscp>,
}

/// A port, or several in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

/// A text that names no ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a port from 1 to 65535 nor two of them, the lower first, such as 5060-5069")]
pub struct NotPorts;

impl Conditions {
    /// Whether nothing is asked for.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the connection is as they ask.
    pub fn hold_for(&self, request: &ConnectRequest) -> bool {
        let lies_in = |prefixes: &[IpNet], address: IpAddr| any(prefixes, |prefix| prefix.contains(&address));
        any(&self.ports, |ports| ports.0.contains(&request.destination.port()))
            && lies_in(&self.clients, request.source.ip())
            && lies_in(&self.servers, request.destination.ip())
            && any(&self.dscp, |dscp| *dscp == request.dscp)
    }
}

impl Ports {
    /// The same ports as ranges in order that neither overlap nor touch.
    pub fn merged(list: &[Self]) -> Vec<Self> {
        let mut ranges: Vec<_> = list.iter().map(|ports| ports.0.clone()).collect();
        ranges.sort_unstable_by_key(|range| (*range.start(), *range.end()));
        let mut merged: Vec<Self> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(Self(last)) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(Self(range)),
            }
        }
        merged
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Self {
        Self(port..=port)
    }
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

fn any<T>(list: &[T], fits: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

impl FromStr for Ports {
    type Err = NotPorts;

    fn from_str(text: &str) -> Result<Self, NotPorts> {
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0).ok_or(NotPorts);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = port(first)?..=port(last)?;
        if range.is_empty() { Err(NotPorts) } else { Ok(Self(range)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(source: &str, destination: &str, dscp: &str) -> ConnectRequest {
        ConnectRequest {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            dscp: dscp.parse().unwrap(),
        }
    }

    #[test]
    fn one_entry_of_each_list_must_fit() {
        let conditions = Conditions {
            ports: ["22", "5060 - 5069"].map(|text| text.parse().unwrap()).to_vec(),
            clients: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()],
            servers: Vec::new(),
            dscp: vec!["ef".parse().unwrap(), "cs5".parse().unwrap()],
        };
        for (fits, source, destination, dscp) in [
            (true, "10.1.2.3:1000", "192.0.2.1:22", "ef"),
            (true, "10.1.2.3:1000", "192.0.2.1:5069", "40"),
            (true, "[2001:db8:1::5]:1000", "[2001:db8::1]:5060", "ef"),
            (false, "10.1.2.3:22", "192.0.2.1:23", "ef"),
            (false, "10.2.2.3:1000", "192.0.2.1:22", "ef"),
            (false, "10.1.2.3:1000", "192.0.2.1:22", "0"),
        ] {
            assert_eq!(conditions.hold_for(&open(source, destination, dscp)), fits, "{source} {destination} {dscp}");
        }
        let servers = Conditions { servers: vec!["192.0.2.0/24".parse().unwrap()], ..Conditions::default() };
        assert!(servers.hold_for(&open("192.0.3.1:1", "192.0.2.1:1", "0")));
        assert!(!servers.hold_for(&open("192.0.2.1:1", "192.0.3.1:1", "0")));
        assert!(!servers.are_none());
        let none = Conditions::default();
        assert!(none.are_none() && none.hold_for(&open("192.0.3.1:1", "192.0.2.1:1", "0")));
    }

    #[test]
    fn ports_are_from_1_to_65535_the_lower_first() {
        for wrong in ["0", "65536", "80-79", "", "-", "a", "1-2-3"] {
            assert_eq!(wrong.parse::<Ports>(), Err(NotPorts), "{wrong}");
        }
        assert_eq!("7-7".parse(), "7".parse::<Ports>());
    }

    #[test]
    fn merged_ports_are_in_order_and_apart() {
        let ports = ["90-99", "22", "80-89", "85", "65535", "1-3", "5"].map(|text| text.parse().unwrap());
        let merged: Vec<_> = Ports::merged(&ports).iter().map(ToString::to_string).collect();
        assert_eq!(merged, ["1-3", "5", "22", "80-99", "65535"]);
    }
}
