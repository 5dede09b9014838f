//! Two sites with a wire between their gateways; each box is a network namespace of its own:
//!
//! ```text
//!  client ── terminal ══ wire ══ hub ── server
//! ```

use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use kernel::testing::namespace;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// 198.18.0.0/15 (RFC 2544).
    V4,
    /// 2001:db8::/32 (RFC 3849).
    V6,
}

/// A host behind its gateway.
pub struct Site {
    number: u8,
    pub host: Namespace,
    pub gateway: Namespace,
}

/// Addresses that work at once, and routing that accepts what transparent proxies do.
const SYSCTLS: &[(&str, &str)] = &[
    ("ipv4/conf/all/rp_filter", "2"),
    ("ipv4/conf/default/rp_filter", "2"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
];
const ROUTER_SYSCTLS: &[(&str, &str)] = &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

impl Site {
    fn new(number: u8) -> Option<Self> {
        let site = Self { number, host: namespace()?, gateway: namespace()? };
        for namespace in [&site.host, &site.gateway] {
            set_sysctls(namespace, SYSCTLS).unwrap();
        }
        set_sysctls(&site.gateway, ROUTER_SYSCTLS).unwrap();
        IpBatch::new(&site.host).add_veth("eth0", &site.gateway, "lan").add("link set lo up").run().unwrap();
        IpBatch::new(&site.gateway).add("link set lo up").run().unwrap();
        for family in [Family::V4, Family::V6] {
            site.give_address(&site.gateway, "lan", family, site.lan_address(family, 1));
            site.give_address(&site.host, "eth0", family, site.host_address(family));
            let route = format!("route add default via {}", site.lan_address(family, 1));
            IpBatch::new(&site.host).add(route.replace("default", any(family))).run().unwrap();
        }
        Some(site)
    }

    fn give_address(&self, namespace: &Namespace, interface: &str, family: Family, address: IpAddr) {
        let rest = if family == Family::V4 { "/24" } else { "/64" };
        let nodad = if family == Family::V4 { "" } else { " nodad" };
        IpBatch::new(namespace)
            .add(format!("link set {interface} up"))
            .add(format!("address add {address}{rest} dev {interface}{nodad}"))
            .run()
            .unwrap();
    }

    pub fn host_address(&self, family: Family) -> IpAddr {
        self.lan_address(family, 2)
    }

    /// The gateway's address on the wire.
    pub fn satellite_address(&self, family: Family) -> IpAddr {
        address(family, 0, self.number + 1)
    }

    fn lan_address(&self, family: Family, host: u8) -> IpAddr {
        address(family, self.number + 1, host)
    }
}

/// Address `host` of network `network`.
fn address(family: Family, network: u8, host: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 18, network, host).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, host.into()).into(),
    }
}

/// All addresses.
fn any(family: Family) -> &'static str {
    if family == Family::V4 { "0.0.0.0/0" } else { "::/0" }
}

/// The hub's site and the terminal's. `None` where the machine has no namespaces.
pub fn wired() -> Option<[Site; 2]> {
    let (hub, terminal) = (Site::new(0)?, Site::new(1)?);
    IpBatch::new(&hub.gateway).add_veth("sat", &terminal.gateway, "sat").run().unwrap();
    for site in [&hub, &terminal] {
        for family in [Family::V4, Family::V6] {
            site.give_address(&site.gateway, "sat", family, site.satellite_address(family));
        }
    }
    for family in [Family::V4, Family::V6] {
        let everything = format!("route add {} via {}", any(family), hub.satellite_address(family));
        IpBatch::new(&terminal.gateway).add(everything).run().unwrap();
        let prefix = if family == Family::V4 { 24 } else { 64 };
        let back = format!(
            "route add {}/{prefix} via {}",
            terminal.lan_address(family, 0),
            terminal.satellite_address(family)
        );
        IpBatch::new(&hub.gateway).add(back).run().unwrap();
    }
    Some([hub, terminal])
}
