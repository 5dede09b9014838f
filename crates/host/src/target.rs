//! The route that is tuned.

use crate::Error;
use kernel::route::Route;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
pub struct Network {
    address: IpAddr,
    length: u8,
}

impl Network {
    /// The host, or the lowest address.
    pub fn address(self) -> IpAddr {
        self.address
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
        Ok(Self { address: first_of(address, length), length })
    }
}

/// The address with all but its first `length` bits 0.
fn first_of(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_host = self.length == if self.address.is_ipv4() { 32 } else { 128 };
        if is_host { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.length) }
    }
}

/// The route to a target as it is. Serves [`Present::read`](crate::Present::read).
#[derive(Debug, Clone)]
pub struct TargetRoute {
    /// The route that packets take, to this target alone: if others take it as well, one that leads the same way.
    pub route: Route,
    /// Whether the target has that route to itself already.
    pub exists: bool,
}

/// Types of routes that lead nowhere, or to this host.
const DEAD_ENDS: [&str; 8] =
    ["local", "broadcast", "multicast", "anycast", "unreachable", "blackhole", "prohibit", "throw"];

impl Target {
    /// Its route in this network namespace.
    ///
    /// # Errors
    /// If there is none, or it leads to this host itself; if `ip` is not installed.
    pub fn route(self) -> Result<TargetRoute, Error> {
        let (exact, found) = match self {
            Self::Default { is_ipv6 } => (Route::exactly("default", is_ipv6)?, None),
            Self::Network(network) => {
                let exact = Route::exactly(&network.to_string(), network.address.is_ipv6())?;
                let general = if exact.is_some() { None } else { Route::towards(network.address)? };
                (exact, general)
            }
        };
        let exists = exact.is_some();
        let Some(route) = exact.or(found) else {
            return Err(Error::NoRoute(self.to_string()));
        };
        if DEAD_ENDS.contains(&route.destination()) {
            return Err(Error::DeadEnd { target: self.to_string(), route: route.to_string() });
        }
        let route = if exists { route } else { route.leading_to(&self.to_string()) };
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
