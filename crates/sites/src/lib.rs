//! Hosts behind gateways, each in a network namespace of its own:
//!
//! ```text
//!  host ── gateway ══ … ══ gateway ── host          a terminal (left) and the hub (right)
//! ```
//!
//! A [`Site`] is a host and its gateway. What is between the gateways is the caller's: [`wire`] joins two of them by a wire, the
//! laboratory puts an emulated satellite there. [`route`] then gives them their addresses and routes. Site 0 is the hub.

use ipnet::IpNet;
use kernel::network::{IpBatch, set_sysctls};
use kernel::{Error, Namespace};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Interface of a host towards its gateway.
const HOST_INTERFACE: &str = "eth0";
/// Interface of a gateway towards its host.
pub const LAN_INTERFACE: &str = "lan";
/// Interface of a gateway towards the satellite.
pub const SATELLITE_INTERFACE: &str = "sat";

/// Version of the Internet Protocol that an experiment's traffic uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// 198.18.0.0/15 (RFC 2544).
    #[default]
    V4,
    /// 2001:db8::/32 (RFC 3849).
    V6,
}

/// What connections take from a host's route; the kernel's own where nothing is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteSettings {
    /// Segments of data with which they begin.
    pub initial_window: Option<u32>,
    /// The largest packet, in bytes.
    pub mtu: Option<u32>,
    /// The largest window that the host advertises, in bytes; it holds where the receive buffer is set, too, and has room for
    /// more.
    pub window: Option<u32>,
}

/// A host behind its gateway.
#[derive(Debug, Clone)]
pub struct Site {
    number: u8,
    /// Where the application runs.
    pub host: Namespace,
    /// Where `bentpipe gateway` runs, if it does; else a router.
    pub gateway: Namespace,
    has_ipv6: bool,
}

/// Sysctls of hosts and gateways: windows that a fast GEO link can fill, no memory of earlier runs, addresses that work
/// at once, and routing that accepts what transparent proxies do.
const HOST_SYSCTLS: &[(&str, &str)] = &[
    ("ipv4/tcp_rmem", "4096 131072 134217728"),
    ("ipv4/tcp_wmem", "4096 65536 134217728"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_local_port_range", "10000 65535"),
    ("ipv4/conf/all/rp_filter", "2"),
    ("ipv4/conf/default/rp_filter", "2"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
];

/// What a gateway needs on top.
const ROUTER_SYSCTLS: &[(&str, &str)] = &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

/// Interfaces that only carry other hosts' frames say nothing themselves.
pub const SILENT_SYSCTLS: &[(&str, &str)] =
    &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

impl Site {
    /// Site `number`, whose hosts speak IPv4, and IPv6 if it `has_ipv6`; its gateway is not yet part of a link.
    ///
    /// # Errors
    /// If the machine has no namespaces, or one cannot be set up.
    pub fn new(number: u8, has_ipv6: bool) -> Result<Self, Error> {
        let site = Self { number, host: Namespace::new()?, gateway: Namespace::new()?, has_ipv6 };
        for namespace in [&site.host, &site.gateway] {
            set_sysctls(namespace, HOST_SYSCTLS)?;
        }
        set_sysctls(&site.gateway, ROUTER_SYSCTLS)?;
        if !has_ipv6 {
            for namespace in [&site.host, &site.gateway] {
                set_sysctls(namespace, SILENT_SYSCTLS)?;
            }
        }
        IpBatch::new(&site.host)
            .add_veth(HOST_INTERFACE, &site.gateway, LAN_INTERFACE)
            .add("link set lo up")
            .add(format!("link set {HOST_INTERFACE} up"))
            .add(format!("address add {}/24 dev {HOST_INTERFACE}", site.host_address(Family::V4)))
            .add_all(
                site.for_ipv6(format!("address add {}/64 dev {HOST_INTERFACE} nodad", site.host_address(Family::V6))),
            )
            .run()?;
        IpBatch::new(&site.gateway)
            .add("link set lo up")
            .add(format!("link set {LAN_INTERFACE} up"))
            .add(format!("address add {}/24 dev {LAN_INTERFACE}", site.lan_address(Family::V4, 1)))
            .add_all(
                site.for_ipv6(format!("address add {}/64 dev {LAN_INTERFACE} nodad", site.lan_address(Family::V6, 1))),
            )
            .run()?;
        IpBatch::new(&site.host)
            .add(format!("route add default via {}", site.lan_address(Family::V4, 1)))
            .add_all(site.for_ipv6(format!("route add ::/0 via {}", site.lan_address(Family::V6, 1))))
            .run()?;
        Ok(site)
    }

    /// Sets what connections of the host take from its route.
    ///
    /// # Errors
    /// If the route cannot be changed.
    pub fn set_route(&self, route: RouteSettings) -> Result<(), Error> {
        let settings = [("initcwnd", route.initial_window), ("mtu", route.mtu), ("window", route.window)];
        let settings: String =
            settings.iter().filter_map(|(name, value)| value.map(|value| format!(" {name} {value}"))).collect();
        let gateway = |family| self.lan_address(family, 1);
        IpBatch::new(&self.host)
            .add(format!("route change default via {}{settings}", gateway(Family::V4)))
            .add_all(self.for_ipv6(format!("route change ::/0 via {}{settings}", gateway(Family::V6))))
            .run()
    }

    /// The command, if the site speaks IPv6.
    fn for_ipv6(&self, command: String) -> Option<String> {
        self.has_ipv6.then_some(command)
    }

    /// Its number: 0 is the hub's.
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// The host's address.
    pub fn host_address(&self, family: Family) -> IpAddr {
        self.lan_address(family, 2)
    }

    /// The gateway's address towards the satellite.
    pub fn satellite_address(&self, family: Family) -> IpAddr {
        address(family, 0, self.number + 1)
    }

    /// The networks behind the gateway, as prefixes.
    pub fn networks(&self) -> [String; 2] {
        [format!("{}/24", self.lan_address(Family::V4, 0)), format!("{}/64", self.lan_address(Family::V6, 0))]
    }

    fn lan_address(&self, family: Family, host: u8) -> IpAddr {
        address(family, self.number + 1, host)
    }

    /// Gives the gateway its addresses on the satellite link.
    fn join_satellite(&self) -> Result<(), Error> {
        IpBatch::new(&self.gateway)
            .add(format!("link set {SATELLITE_INTERFACE} up"))
            .add(format!("address add {}/24 dev {SATELLITE_INTERFACE}", self.satellite_address(Family::V4)))
            .add_all(self.for_ipv6(format!(
                "address add {}/64 dev {SATELLITE_INTERFACE} nodad",
                self.satellite_address(Family::V6)
            )))
            .run()
    }

    /// Routes what is for `others`' networks to their gateways.
    fn route_to_networks(&self, others: &[Site]) -> Result<(), Error> {
        let mut batch = IpBatch::new(&self.gateway);
        for other in others {
            let [v4, v6] = other.networks();
            batch
                .add(format!("route add {v4} via {}", other.satellite_address(Family::V4)))
                .add_all(self.for_ipv6(format!("route add {v6} via {}", other.satellite_address(Family::V6))));
        }
        batch.run()
    }

    /// Routes everything else to `other`'s gateway.
    fn route_everything(&self, other: &Site) -> Result<(), Error> {
        IpBatch::new(&self.gateway)
            .add(format!("route add default via {}", other.satellite_address(Family::V4)))
            .add_all(self.for_ipv6(format!("route add ::/0 via {}", other.satellite_address(Family::V6))))
            .run()
    }
}

/// Joins the gateways of two sites by a wire.
///
/// # Errors
/// If the interfaces cannot be made.
pub fn wire(hub: &Site, terminal: &Site) -> Result<(), Error> {
    IpBatch::new(&hub.gateway).add_veth(SATELLITE_INTERFACE, &terminal.gateway, SATELLITE_INTERFACE).run()
}

/// Gives the gateways their addresses on the link that joins them, and routes: the hub's to the networks of each terminal, a
/// terminal's to everything through the hub.
///
/// # Errors
/// If an address or a route cannot be set.
pub fn route(hub: &Site, terminals: &[Site]) -> Result<(), Error> {
    hub.join_satellite()?;
    for terminal in terminals {
        terminal.join_satellite()?;
        terminal.route_everything(hub)?;
    }
    hub.route_to_networks(terminals)
}

/// The networks of site `number`: that behind its gateway, and its gateway's address towards the satellite.
pub fn networks(number: u8) -> Vec<IpNet> {
    let networks = [(Family::V4, 24), (Family::V6, 64)].map(|(family, prefix)| {
        [IpNet::new_assert(address(family, number + 1, 0), prefix), IpNet::from(address(family, 0, number + 1))]
    });
    networks.into_iter().flatten().collect()
}

/// Address `host` of network `network`.
fn address(family: Family, network: u8, host: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 18, network, host).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, host.into()).into(),
    }
}
