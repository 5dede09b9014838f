//! The route that is tuned.

use crate::Error;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::route::{self, Route};
use std::net::IpAddr;
use std::str::FromStr;

/// Where transfers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Wherever the default route leads.
    Default {
        /// Of IPv6 rather than IPv4.
        is_ipv6: bool,
    },
    /// A host or a network.
    Network(Network),
}

/// An address, or those that share its first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// The host, or the lowest address.
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// Addresses whose routes show whether one leads to all of it, from the lowest to the highest.
    pub fn samples(self) -> Vec<IpAddr> {
        route::samples(self.0)
    }

    /// How many first bits all addresses share.
    pub fn length(self) -> u8 {
        self.0.prefix_len()
    }

    /// How many bits an address has.
    pub fn bits(self) -> u8 {
        self.0.max_prefix_len()
    }

    /// Whether it is one address.
    pub fn is_host(self) -> bool {
        self.length() == self.bits()
    }
}

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| "write an address or a network: 192.0.2.7, 2001:db8::/32")?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(length) => length
                .parse()
                .ok()
                .filter(|length| *length <= most)
                .ok_or_else(|| format!("`/{length}` is not from /0 to /{most}"))?,
        };
        IpNet::new(address, length).map(|network| Self(network.trunc())).map_err(|error| error.to_string())
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_host() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

/// The route to a target as it is. Serves [`Present::read`](crate::Present::read).
#[derive(Debug, Clone)]
pub struct TargetRoute {
    /// The route that packets take, to this target alone: if others take it as well, one of the same table that leads the same way.
    pub route: Route,
    /// Whether the target has that route to itself already.
    pub exists: bool,
}

impl Target {
    /// Its route in this network namespace: the default route of the main table, or the route to all of a network.
    ///
    /// # Errors
    /// If there is none, or it leads to this host itself.
    pub fn route(self) -> Result<TargetRoute, Error> {
        let destination = match self {
            Self::Default { is_ipv6: false } => IpNet::from(Ipv4Net::default()),
            Self::Default { is_ipv6: true } => IpNet::from(Ipv6Net::default()),
            Self::Network(network) => network.0,
        };
        let found = match self {
            Self::Default { .. } => Route::exactly(destination)?,
            // The kernel does not report a route that refuses packets as the one that they take.
            Self::Network(_) => match Route::covering(destination)? {
                None => Route::exactly(destination)?.filter(|route| !route.is_unicast()),
                found => found,
            },
        };
        let Some(route) = found else {
            return Err(Error::NoRoute(self.to_string()));
        };
        if !route.is_unicast() {
            return Err(Error::DeadEnd { target: self.to_string(), route: route.to_string() });
        }
        let exists = route.destination() == destination;
        let route = if exists { route } else { route.leading_to(destination) };
        Ok(TargetRoute { route, exists })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default { .. } => f.write_str("default"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_addresses_or_prefixes() {
        for text in ["192.0.2.7", "192.0.2.0/24", "2001:db8::/32", "2001:db8::1"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("198.18.5.7/15".parse::<Network>().unwrap().to_string(), "198.18.0.0/15");
        assert_eq!("2001:db8::7/0".parse::<Network>().unwrap().to_string(), "::/0");
        for wrong in ["192.0.2.7/33", "2001:db8::/129", "satellite", "192.0.2.0/-1", ""] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
