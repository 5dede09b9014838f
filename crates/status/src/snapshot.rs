//! A gateway at one moment.

use crate::capacity::Capacity;
use crate::link::{Link, Modem, UpdateCounts};
use crate::peer::Peer;
use crate::satellite::Satellite;
use crate::stream::Stream;
use relay::engine::Counters;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The state of a gateway at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The gateway's name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The process that it has taken over from, while that finishes its connections.
    pub predecessor: Option<u32>,
    /// Whether it takes no more connections, and for how long it goes on at most.
    pub draining: Option<Draining>,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// How often it has taken over changed settings.
    #[serde(default)]
    pub reloads: u64,
    /// Its public key.
    pub public_key: String,
    /// `satpep` or `tcp`.
    pub transport: Cow<'static, str>,
    /// Estimated transmit capacity of the link.
    pub rate_bps: u64,
    /// The basis of this estimate.
    #[serde(default)]
    pub capacity: Capacity,
    /// The rate at which packets are sent at most: what cross traffic leaves of the capacity; null with `tcp`, which paces none.
    #[serde(default)]
    pub send_limit_bps: Option<u64>,
    /// The link state: reported or configured.
    pub link: Link,
    /// Outcomes of link updates, by source.
    pub link_updates: [UpdateCounts; 2],
    /// The session with the modem over DLEP, if one is to be had.
    pub modem: Option<Modem>,
    /// Cross traffic on the satellite interface; null if it is not measured: without an interface, and with `tcp`.
    pub cross_traffic_bps: Option<u64>,
    /// What the process may do, since it has been set up.
    pub privileges: Privileges,
    /// What has happened to connections, by outcome.
    pub connections: Counters,
    /// Connections that went end to end, by the reason, as of the last look at the firewall's counters.
    pub bypassed: BTreeMap<String, u64>,
    /// Connections in a row that were intercepted and did not arrive here, since the last one that did; 0 for fewer than three.
    #[serde(default)]
    pub undelivered: u64,
    /// Configured interfaces that the host does not have now.
    #[serde(default)]
    pub missing_interfaces: Vec<MissingInterface>,
    /// The satellite link.
    pub satellite: Satellite,
    /// The peers.
    pub peers: Vec<Peer>,
    /// Lines of the connection log; null without one.
    #[serde(default)]
    pub connection_log: Option<LogCounts>,
    /// Relayed connections, one row for each.
    pub streams: Vec<Stream>,
}

/// A configured interface that the host does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingInterface {
    /// The key that names it, such as `intercept.interfaces`.
    pub key: Cow<'static, str>,
    /// The interface's name.
    pub name: String,
}

/// What has become of the lines of the connection log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCounts {
    /// Lines written.
    pub written: u64,
    /// Lines that could not be written, because the disk was full or too slow.
    pub dropped: u64,
}

/// A gateway that takes no more connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draining {
    /// Connections that it still has.
    pub connections: u64,
    /// After how many seconds it ends whether or not there are any; null if it waits for them.
    pub ends_within_s: Option<f64>,
}

/// What the process may do since it has been set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// The number of the user that it runs as.
    pub uid: u32,
    /// The capabilities that it has left, by the names of capabilities(7).
    pub capabilities: Vec<String>,
    /// Whether neither it nor the programs that it starts can gain others.
    pub bounded: bool,
    /// Whether system calls are denied (seccomp).
    pub seccomp: bool,
    /// Whether files are out of its reach (Landlock): `full`, `partial` or `none`.
    pub landlock: Cow<'static, str>,
}
