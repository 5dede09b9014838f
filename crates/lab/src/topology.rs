//! Private networks: one hub and its terminals across an emulated satellite.
//!
//! ```text
//!  host ── gateway ══ satellite ══ gateway ── host          one terminal (left) and the hub (right)
//!
//!  host ── gateway ══╗
//!  host ── gateway ══╬ segment ══ satellite ══ gateway ── host     several terminals, one shared link
//!  host ── gateway ══╝
//!
//!  host ── gateway ══╗
//!  host ── gateway ══╬ segment ══ paths ══ satellite ══ gateway ── host     terminals with a path of their own each
//!  host ── gateway ══╝
//! ```
//!
//! Every box is a network namespace of its own. Site 0 is the hub. The satellite's two interfaces are joined by an
//! emulator that is transparent on the link layer, those of the paths by another; where there is no satellite, the two gateways are wired together.

use crate::Error;
use emulator::{Config, Emulator, Monitor, PathModel, Report, Terminal};
use ipnet::IpNet;
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use link::{LinkConfig, QueueLimit};
use sites::SILENT_SYSCTLS;
pub use sites::{Family, LAN_INTERFACE, RouteSettings, SATELLITE_INTERFACE, Site};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use units::{Duration, Rate};

/// The two directions of a satellite link, shared by all terminals.
#[derive(Debug, Clone, PartialEq)]
pub struct Satellite {
    /// From the hub to the terminals.
    pub forward: LinkConfig,
    /// From the terminals to the hub.
    pub return_link: LinkConfig,
}

impl Satellite {
    fn ways(self) -> Ways {
        Ways { paths: [self.return_link.into(), self.forward.into()], records_capacity: false }
    }
}

/// What one emulator does.
pub(crate) struct Ways {
    /// To the hub, and back.
    pub(crate) paths: [PathModel; 2],
    /// Whether it keeps what terminals of a carrier are given, for [`Monitor::take_samples`].
    pub(crate) records_capacity: bool,
}

/// A network that exists until it is dropped.
pub struct Topology {
    /// The site on the far side of the satellite.
    pub hub: Site,
    /// The sites on the near side.
    pub terminals: Vec<Site>,
    /// The satellite's is the first.
    emulators: Vec<RunningEmulator>,
}

struct RunningEmulator {
    stop: Arc<AtomicBool>,
    monitor: Monitor,
    thread: JoinHandle<(Result<Report, emulator::Error>, Held)>,
}

impl RunningEmulator {
    /// Has it end soon.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The namespaces of an emulator's interfaces and of the terminals' segment: interfaces exist as long as something holds theirs.
type Held = (Namespace, Option<Namespace>);

/// The addresses of terminal number `terminal`, from 0: of the network behind its gateway, and of its gateway towards the
/// satellite.
pub(crate) fn terminal_networks(terminal: usize) -> Vec<IpNet> {
    // There are no more than fit.
    let site = u8::try_from(terminal + 1).unwrap_or(u8::MAX - 1);
    sites::networks(site)
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
        Self::with_families(terminals, satellite.into_iter().map(Satellite::ways).collect(), true)
    }

    /// A hub and, across `satellite`, a terminal for each of `paths`: what goes to a terminal crosses the forward link and then the
    /// terminal's path. What comes from the terminals crosses the return link alone.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn with_own_paths(satellite: Satellite, paths: Vec<LinkConfig>) -> Result<Self, Error> {
        let terminals = paths.len();
        let of_terminal = |(number, link)| Terminal {
            name: format!("terminal-{}", number + 1),
            networks: terminal_networks(number),
            link,
        };
        let apart = PathModel::Apart(paths.into_iter().enumerate().map(of_terminal).collect());
        let own_paths = Ways { paths: [wire().into(), apart], records_capacity: false };
        Self::with_families(terminals, vec![satellite.ways(), own_paths], true)
    }

    /// As [`Topology::new`], without IPv6: then only the packets of flows cross the satellite, and drop lists count those.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn without_ipv6(terminals: usize, satellite: Option<Satellite>) -> Result<Self, Error> {
        Self::with_families(terminals, satellite.into_iter().map(Satellite::ways).collect(), false)
    }

    /// A hub with `terminals` terminals across a satellite whose ways to the hub and back are these, as where terminals share a
    /// carrier; their networks are [`terminal_networks`].
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub(crate) fn over_ways(terminals: usize, ways: Ways, has_ipv6: bool) -> Result<Self, Error> {
        Self::with_families(terminals, vec![ways], has_ipv6)
    }

    fn with_families(terminals: usize, ways: Vec<Ways>, has_ipv6: bool) -> Result<Self, Error> {
        if terminals == 0 || terminals > Self::MAX_TERMINALS || (terminals > 1 && ways.is_empty()) {
            return Err(Error::Input(format!("a hub has 1 to {} terminals, not {terminals}", Self::MAX_TERMINALS)));
        }
        let hub = Site::new(0, has_ipv6)?;
        let terminals =
            (1..=terminals as u8).map(|number| Site::new(number, has_ipv6)).collect::<Result<Vec<_>, _>>()?;
        let emulators = if ways.is_empty() {
            sites::wire(&hub, &terminals[0])?;
            Vec::new()
        } else {
            start_emulators(ways, &hub, &terminals)?
        };
        sites::route(&hub, &terminals)?;
        Ok(Self { hub, terminals, emulators })
    }

    /// What the satellite has carried so far (`up` is the return link, `down` the forward link); `None` without one.
    pub fn satellite_report(&self) -> Option<Report> {
        self.emulators.first().map(|satellite| satellite.monitor.report())
    }

    /// A view of the satellite while it runs; `None` without one.
    pub fn satellite_monitor(&self) -> Option<Monitor> {
        self.emulators.first().map(|satellite| satellite.monitor.clone())
    }

    /// Writes sysctls (paths below /proc/sys/net, and values) at every host.
    ///
    /// # Errors
    /// If one does not exist or may not be written.
    pub fn set_host_sysctls(&self, settings: &[(&str, &str)]) -> Result<(), Error> {
        let sites = self.terminals.iter().chain([&self.hub]);
        Ok(sites.map(|site| &site.host).try_for_each(|host| set_sysctls(host, settings))?)
    }

    /// Has the gateways' kernels take batches of datagrams apart before they go towards the satellite (no segmentation offload).
    ///
    /// # Errors
    /// If an interface cannot be set.
    pub fn send_single_packets(&self) -> Result<(), Error> {
        for site in self.terminals.iter().chain([&self.hub]) {
            IpBatch::new(&site.gateway).add(format!("link set {SATELLITE_INTERFACE} gso_max_segs 1")).run()?;
        }
        Ok(())
    }

    /// Stops the satellite and returns what it carried.
    ///
    /// # Errors
    /// If the emulation ended early, so that what was measured means nothing.
    pub fn stop(self) -> Result<Option<Report>, Error> {
        Ok(self.stop_all()?.into_iter().next())
    }

    /// Stops the satellite, and the terminals' own paths where there are some, and returns what each carried, in this order.
    ///
    /// # Errors
    /// As [`Topology::stop`].
    pub fn stop_all(mut self) -> Result<Vec<Report>, Error> {
        let emulators = std::mem::take(&mut self.emulators);
        emulators.iter().for_each(RunningEmulator::end);
        let ends: Vec<_> = emulators.into_iter().map(|emulator| emulator.thread.join()).collect();
        // By now none of them can miss an interface that is wired to one that has gone.
        let reports = ends.into_iter().map(|end| {
            let (report, _held) = end.map_err(|_| Error::failed("the emulator's thread panicked"))?;
            Ok::<_, Error>(report?)
        });
        reports.collect()
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.emulators.iter().for_each(RunningEmulator::end);
    }
}

/// Interface of an emulator towards the hub.
const HUB_PORT: &str = "hub";
/// Interface of an emulator towards the terminals.
const TERMINALS_PORT: &str = "terminals";

/// A link that does nothing to packets.
fn wire() -> LinkConfig {
    LinkConfig { rate: None, queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::ZERO, Duration::ZERO) }
}

/// Wires the hub to emulators, one after the other, and the last one to the terminals, and starts them.
fn start_emulators(ways: Vec<Ways>, hub: &Site, terminals: &[Site]) -> Result<Vec<RunningEmulator>, Error> {
    let mut spaces = Vec::new();
    let (mut before, mut port) = (hub.gateway.clone(), SATELLITE_INTERFACE);
    for _ in &ways {
        let space = Namespace::new()?;
        set_sysctls(&space, SILENT_SYSCTLS)?;
        IpBatch::new(&space).add_veth(HUB_PORT, &before, port).run()?;
        spaces.push(space.clone());
        (before, port) = (space, TERMINALS_PORT);
    }
    let segment = wire_terminals(&before, terminals)?;
    for space in &spaces {
        IpBatch::new(space)
            .add(format!("link set {HUB_PORT} up"))
            .add(format!("link set {TERMINALS_PORT} up"))
            .run()?;
    }
    spaces.into_iter().zip(ways).map(|(space, ways)| start_emulator(ways, space, segment.clone())).collect()
}

/// Starts an emulator between the ports of `space`; it holds its namespace, and the terminals' segment.
fn start_emulator(ways: Ways, space: Namespace, segment: Option<Namespace>) -> Result<RunningEmulator, Error> {
    let open = |name: &str| emulator::open(name).map_err(|error| Error::failed(format!("interface {name}: {error}")));
    let (near, far) = space.run(|| Ok::<_, Error>((open(TERMINALS_PORT)?, open(HUB_PORT)?)))??;
    let [up, down] = ways.paths;
    let mut emulator = Emulator::new(Config::new(up, down), near, far)?;
    if ways.records_capacity {
        emulator.record_capacity();
    }
    let (stop, monitor) = (Arc::new(AtomicBool::new(false)), emulator.monitor());
    let flag = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("satellite".into())
        .spawn(move || {
            let held = (space, segment);
            (emulator.run(&flag), held)
        })
        .map_err(Error::failed)?;
    Ok(RunningEmulator { stop, monitor, thread })
}

/// Wires the last emulator's port to the only terminal, or to a segment (a bridge in a namespace of its own) that it shares
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
    let ports: Vec<_> = terminals.iter().map(|terminal| format!("t{}", terminal.number())).collect();
    for (port, terminal) in ports.iter().zip(terminals) {
        batch.add_veth(port, &terminal.gateway, SATELLITE_INTERFACE);
    }
    for port in ports.iter().map(String::as_str).chain(["space"]) {
        batch.add(format!("link set {port} master segment")).add(format!("link set {port} up"));
    }
    batch.run()?;
    Ok(Some(segment))
}
