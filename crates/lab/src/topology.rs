//! Private networks: one hub and its terminals across an emulated satellite.
//!
//! ```text
//!  host ── gateway ══ satellite ══ gateway ── host          one terminal (left) and the hub (right)
//!
//!  host ── gateway ══╗
//!  host ── gateway ══╬ segment ══ satellite ══ gateway ── host     several terminals, one shared link
//!  host ── gateway ══╝
//! ```
//!
//! Every box is a network namespace of its own. Site 0 is the hub. The satellite's two interfaces are joined by an
//! emulator that is transparent on the link layer; where there is no satellite, the two gateways are wired together.

use crate::Error;
use emulator::{Config, Emulator, Monitor, PathModel, Report};
use ipnet::IpNet;
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use link::LinkConfig;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

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

/// The two directions of a satellite link, shared by all terminals.
#[derive(Debug, Clone, PartialEq)]
pub struct Satellite {
    /// From the hub to the terminals.
    pub forward: LinkConfig,
    /// From the terminals to the hub.
    pub return_link: LinkConfig,
}

impl Satellite {
    /// To the hub, and back.
    fn ways(self) -> [PathModel; 2] {
        [self.return_link.into(), self.forward.into()]
    }
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

/// A network that exists until it is dropped.
pub struct Topology {
    /// The site on the far side of the satellite.
    pub hub: Site,
    /// The sites on the near side.
    pub terminals: Vec<Site>,
    satellite: Option<RunningSatellite>,
}

struct RunningSatellite {
    stop: Arc<AtomicBool>,
    monitor: Monitor,
    thread: JoinHandle<Result<Report, emulator::Error>>,
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
const SILENT_SYSCTLS: &[(&str, &str)] = &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

impl Site {
    fn new(number: u8, has_ipv6: bool) -> Result<Self, Error> {
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
            .run()?;
        Ok(())
    }

    /// The command, if the site speaks IPv6.
    fn for_ipv6(&self, command: String) -> Option<String> {
        self.has_ipv6.then_some(command)
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
            .run()?;
        Ok(())
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
        Ok(batch.run()?)
    }

    /// Routes everything else to `other`'s gateway.
    fn route_everything(&self, other: &Site) -> Result<(), Error> {
        IpBatch::new(&self.gateway)
            .add(format!("route add default via {}", other.satellite_address(Family::V4)))
            .add_all(self.for_ipv6(format!("route add ::/0 via {}", other.satellite_address(Family::V6))))
            .run()?;
        Ok(())
    }
}

/// Address `host` of network `network`.
fn address(family: Family, network: u8, host: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 18, network, host).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, host.into()).into(),
    }
}

/// The addresses of terminal number `terminal`, from 0: of the network behind its gateway, and of its gateway towards the
/// satellite.
pub(crate) fn terminal_networks(terminal: usize) -> Vec<IpNet> {
    // There are no more than fit.
    let site = u8::try_from(terminal + 1).unwrap_or(u8::MAX - 1);
    let networks = [(Family::V4, 24), (Family::V6, 64)].map(|(family, prefix)| {
        [IpNet::new_assert(address(family, site + 1, 0), prefix), IpNet::from(address(family, 0, site + 1))]
    });
    networks.into_iter().flatten().collect()
}

impl Topology {
    /// The most terminals that one network may have.
    pub const MAX_TERMINALS: usize = 200;

    /// A hub with `terminals` terminals across `satellite`, or one terminal wired to the hub if that is `None`. What is
    /// started here runs until the topology is dropped.
    ///
    /// # Errors
    /// If the numbers make no network, the machine lacks something, or the links make no link.
    pub fn new(terminals: usize, satellite: Option<Satellite>) -> Result<Self, Error> {
        Self::with_families(terminals, satellite.map(Satellite::ways), true)
    }

    /// As [`Topology::new`], without IPv6: then only the packets of flows cross the satellite, and drop lists count those.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn without_ipv6(terminals: usize, satellite: Option<Satellite>) -> Result<Self, Error> {
        Self::with_families(terminals, satellite.map(Satellite::ways), false)
    }

    /// A hub with `terminals` terminals across a satellite whose ways to the hub and back are these, as where terminals share a
    /// carrier; their networks are [`terminal_networks`].
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub(crate) fn over_ways(terminals: usize, ways: [PathModel; 2], has_ipv6: bool) -> Result<Self, Error> {
        Self::with_families(terminals, Some(ways), has_ipv6)
    }

    fn with_families(terminals: usize, satellite: Option<[PathModel; 2]>, has_ipv6: bool) -> Result<Self, Error> {
        if terminals == 0 || terminals > Self::MAX_TERMINALS || (terminals > 1 && satellite.is_none()) {
            return Err(Error::Input(format!("a hub has 1 to {} terminals, not {terminals}", Self::MAX_TERMINALS)));
        }
        let hub = Site::new(0, has_ipv6)?;
        let terminals =
            (1..=terminals as u8).map(|number| Site::new(number, has_ipv6)).collect::<Result<Vec<_>, _>>()?;
        let satellite = match satellite {
            None => {
                IpBatch::new(&hub.gateway)
                    .add_veth(SATELLITE_INTERFACE, &terminals[0].gateway, SATELLITE_INTERFACE)
                    .run()?;
                None
            }
            Some(satellite) => Some(start_satellite(satellite, &hub, &terminals)?),
        };
        hub.join_satellite()?;
        for terminal in &terminals {
            terminal.join_satellite()?;
            terminal.route_everything(&hub)?;
        }
        hub.route_to_networks(&terminals)?;
        Ok(Self { hub, terminals, satellite })
    }

    /// What the satellite has carried so far (`up` is the return link, `down` the forward link); `None` without one.
    pub fn satellite_report(&self) -> Option<Report> {
        self.satellite.as_ref().map(|satellite| satellite.monitor.report())
    }

    /// A view of the satellite while it runs; `None` without one.
    pub(crate) fn satellite_monitor(&self) -> Option<Monitor> {
        self.satellite.as_ref().map(|satellite| satellite.monitor.clone())
    }

    /// Writes sysctls (paths below /proc/sys/net, and values) at every host.
    ///
    /// # Errors
    /// If one does not exist or may not be written.
    pub fn set_host_sysctls(&self, settings: &[(&str, &str)]) -> Result<(), Error> {
        let sites = self.terminals.iter().chain([&self.hub]);
        Ok(sites.map(|site| &site.host).try_for_each(|host| set_sysctls(host, settings))?)
    }

    /// Stops the satellite and returns what it carried.
    ///
    /// # Errors
    /// If the emulation ended early, so that what was measured means nothing.
    pub fn stop(mut self) -> Result<Option<Report>, Error> {
        let Some(satellite) = self.satellite.take() else { return Ok(None) };
        satellite.stop.store(true, Ordering::Relaxed);
        let report = satellite.thread.join().map_err(|_| Error::failed("the emulator's thread panicked"))?;
        Ok(Some(report?))
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        if let Some(satellite) = &self.satellite {
            satellite.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Interface of the satellite towards the hub.
const HUB_PORT: &str = "hub";
/// Interface of the satellite towards the terminals.
const TERMINALS_PORT: &str = "terminals";

/// Wires the sites to a satellite and starts its emulator.
fn start_satellite([up, down]: [PathModel; 2], hub: &Site, terminals: &[Site]) -> Result<RunningSatellite, Error> {
    let space = Namespace::new()?;
    set_sysctls(&space, SILENT_SYSCTLS)?;
    IpBatch::new(&space).add_veth(HUB_PORT, &hub.gateway, SATELLITE_INTERFACE).run()?;
    let segment = wire_terminals(&space, terminals)?;
    IpBatch::new(&space).add(format!("link set {HUB_PORT} up")).add(format!("link set {TERMINALS_PORT} up")).run()?;
    let open = |name: &str| emulator::open(name).map_err(|error| Error::failed(format!("interface {name}: {error}")));
    let (near, far) = space.run(|| Ok::<_, Error>((open(TERMINALS_PORT)?, open(HUB_PORT)?)))??;
    let mut emulator = Emulator::new(Config::new(up, down), near, far)?;
    emulator.record_capacity();
    let (stop, monitor) = (Arc::new(AtomicBool::new(false)), emulator.monitor());
    let flag = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("satellite".into())
        .spawn(move || {
            // The interfaces exist as long as something holds their namespaces.
            let _held = (space, segment);
            emulator.run(&flag)
        })
        .map_err(Error::failed)?;
    Ok(RunningSatellite { stop, monitor, thread })
}

/// Wires the satellite's port to the only terminal, or to a segment (a bridge in a namespace of its own) that it shares
/// with all of them.
fn wire_terminals(space: &Namespace, terminals: &[Site]) -> Result<Option<Namespace>, Error> {
    if let [terminal] = terminals {
        IpBatch::new(space).add_veth(TERMINALS_PORT, &terminal.gateway, SATELLITE_INTERFACE).run()?;
        return Ok(None);
    }
    let segment = Namespace::new()?;
    set_sysctls(&segment, SILENT_SYSCTLS)?;
    let mut batch = IpBatch::new(&segment);
    batch.add("link add segment type bridge").add("link set segment up").add_veth("space", space, TERMINALS_PORT);
    let ports: Vec<_> = terminals.iter().map(|terminal| format!("t{}", terminal.number)).collect();
    for (port, terminal) in ports.iter().zip(terminals) {
        batch.add_veth(port, &terminal.gateway, SATELLITE_INTERFACE);
    }
    for port in ports.iter().map(String::as_str).chain(["space"]) {
        batch.add(format!("link set {port} master segment")).add(format!("link set {port} up"));
    }
    batch.run()?;
    Ok(Some(segment))
}
