//! Whose a packet is, by the address that it comes from or goes to.

use crate::terminal::{PathError, Terminal};
use ipnet::IpNet;
use std::cmp::Reverse;
use std::net::IpAddr;

/// Tells terminals apart.
pub(crate) struct Apart {
    names: Vec<String>,
    /// The networks of all terminals, the longest prefixes first.
    networks: Vec<(IpNet, usize)>,
    /// The address of a packet that counts.
    address: fn(&[u8]) -> Option<IpAddr>,
}

impl Apart {
    /// By the `address` of a packet.
    pub(crate) fn new(terminals: &[Terminal], address: fn(&[u8]) -> Option<IpAddr>) -> Result<Self, PathError> {
        if terminals.is_empty() {
            return Err(PathError::NoTerminal);
        }
        let (mut names, mut networks) = (Vec::new(), Vec::new());
        for (number, Terminal { name, networks: own, .. }) in terminals.iter().enumerate() {
            if own.is_empty() {
                return Err(PathError::NoNetwork(name.clone()));
            }
            if names.contains(name) || name.contains(|c: char| c == ',' || c == '"' || c.is_control()) {
                return Err(PathError::Name(name.clone()));
            }
            names.push(name.clone());
            networks.extend(own.iter().map(|network| (network.trunc(), number)));
        }
        networks.sort_by_key(|(network, _)| (Reverse(network.prefix_len()), *network));
        if let Some(pair) = networks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(PathError::Ambiguous(pair[0].0));
        }
        Ok(Self { names, networks, address })
    }

    /// Whose `frame` is; nobody's if its address is in no network.
    pub(crate) fn terminal_of(&self, frame: &[u8]) -> Option<usize> {
        self.owner((self.address)(frame)?)
    }

    /// Their names, by number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    fn owner(&self, address: IpAddr) -> Option<usize> {
        self.networks.iter().find(|(network, _)| network.contains(&address)).map(|(_, terminal)| *terminal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;
    use link::LinkConfig;
    use units::{Duration, Rate};

    #[test]
    fn the_longest_network_says_whose_a_packet_is() {
        let terminal = |(name, network): (&str, &str)| Terminal {
            name: name.to_owned(),
            networks: vec![network.parse().expect("a network")],
            link: LinkConfig::new(Rate::from_bps(1), Duration::ZERO),
        };
        let terminals = [("one", "198.18.1.7/24"), ("two", "198.18.0.0/16")].map(terminal);
        let apart = Apart::new(&terminals, headers::source).expect("apart");
        let owner = |address: &str| apart.owner(address.parse().expect("an address"));
        assert_eq!(["198.18.1.1", "198.18.2.1", "198.19.0.1"].map(owner), [Some(0), Some(1), None]);
    }
}
