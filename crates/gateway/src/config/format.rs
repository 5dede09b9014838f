//! What a gateway's configuration file may say: the types whose documentation is the schema's (docs/configuration.md).

pub use super::text::{
    Address, ClassName, CodePoint, ControlName, DscpPolicyText, Interface, Listen, Mac, ModemAddress, Path, PortRange,
    Prefix, Private, Public, ShortName, SocketPath,
};

use document::{Format, Interval, PositiveRate, Section, Size, Time};
use satpep::{CapacityMode, Cipher, CrossTrafficPolicy, Mode, Priority, RateConfidence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The format of configuration files.
pub(super) fn format() -> &'static Format {
    static FORMAT: LazyLock<Format> = LazyLock::new(|| {
        let names = Format::of::<File>().with::<ShortName>().with::<ClassName>().with::<ControlName>();
        let places = names.with::<Interface>().with::<Listen>().with::<Address>().with::<ModemAddress>().with::<Mac>();
        let files = places.with::<Prefix>().with::<Private>().with::<Public>().with::<Path>().with::<SocketPath>();
        files.with::<PortRange>().with::<CodePoint>().with::<DscpPolicyText>()
    });
    &FORMAT
}

/// The JSON Schema (draft 2020-12) of a configuration file.
pub fn json_schema() -> serde_json::Value {
    format().json().clone()
}

/// The sections of the reference.
const SECTIONS: &[Section] = &[
    Section { heading: "The file", of: None },
    Section::new("gateway", "Gateway"),
    Section::new("link", "Link"),
    Section::new("tcp", "Tcp"),
    Section::new("intercept", "Intercept"),
    Section::new("peer", "Peer"),
    Section::new("class", "Class"),
    Section::new("bypass", "Bypass"),
    Section::new("updates", "Updates"),
    Section::new("dlep", "Dlep"),
    Section::new("metrics", "Metrics"),
    Section::new("web", "Web"),
    Section::new("connection_log", "ConnectionLog"),
    Section::new("control", "Control"),
    Section::new("debug", "Debugging"),
];

/// The reference of the format as Markdown: a table of keys for each section.
pub fn reference() -> String {
    document::reference(format(), SECTIONS)
}

/// The settings of a gateway.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[schemars(title = "bentpipe gateway")]
pub struct File {
    /// The gateway itself.
    #[serde(default)]
    pub gateway: Gateway,
    /// The satellite link.
    pub link: Link,
    /// The `tcp` transport.
    pub tcp: Option<Tcp>,
    /// Which connections are intercepted.
    #[serde(default)]
    pub intercept: Intercept,
    /// The peers.
    #[schemars(length(min = 1))]
    pub peer: Vec<Peer>,
    /// Classes of connections. A connection belongs to the first class that it matches, else to `default`.
    #[serde(default)]
    pub class: Vec<Class>,
    /// Connections that always go end to end.
    #[serde(default)]
    pub bypass: Vec<Bypass>,
    /// Where programs report link updates.
    pub updates: Option<Updates>,
    /// The modem that reports link updates by DLEP (RFC 8175).
    pub dlep: Option<Dlep>,
    /// Metrics.
    #[serde(default)]
    pub metrics: Metrics,
    /// The live page.
    #[serde(default)]
    pub web: Web,
    /// The log of connections that have ended.
    #[serde(default)]
    pub connection_log: ConnectionLog,
    /// The control socket.
    #[serde(default)]
    pub control: Control,
    /// Debugging aids.
    #[serde(default)]
    pub debug: Debugging,
}

impl File {
    /// The settings of a gateway on this link, without peers.
    pub fn new(link: Link) -> Self {
        Self {
            gateway: Gateway::default(),
            link,
            tcp: None,
            intercept: Intercept::default(),
            peer: Vec::new(),
            class: Vec::new(),
            bypass: Vec::new(),
            updates: None,
            dlep: None,
            metrics: Metrics::default(),
            web: Web::default(),
            connection_log: ConnectionLog::default(),
            control: Control::default(),
            debug: Debugging::default(),
        }
    }
}

/// The gateway itself.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Gateway {
    /// The gateway's name: that of the nftables table (bentpipe_NAME) and the control socket.
    #[schemars(extend("default" = "bentpipe"))]
    pub name: Option<ShortName>,
    /// The private key; or `private_key_file`.
    #[schemars(extend("x-secret" = true))]
    pub private_key: Option<Private>,
    /// The file of the private key, from `bentpipe keygen`.
    pub private_key_file: Option<Path>,
    /// The user after set-up, if root started the gateway. By default `bentpipe` if the host has that user.
    pub user: Option<ShortName>,
    /// Whether system calls and files that a gateway does not need are denied, if the kernel supports it (seccomp, Landlock).
    #[schemars(extend("default" = true))]
    pub sandbox: Option<bool>,
    /// UDP (tcp transport: TCP) address for peers. By default `[::]:4500`; without IPv6 `0.0.0.0:4500`.
    pub listen: Option<Listen>,
    /// Whether the payload is encrypted or only authenticated; the same at both gateways.
    #[schemars(extend("default" = "encrypted"))]
    pub mode: Option<Mode>,
    /// The satellite transport: bentpipe's own, or the kernel's TCP.
    #[schemars(extend("default" = "satpep"))]
    pub transport: Option<Transport>,
    /// With the tcp transport in clear: the satellite link is secured externally (a VPN, an encrypting modem).
    #[schemars(extend("default" = false))]
    pub secured_externally: Option<bool>,
    /// The cipher. With the satpep transport, the initiator's counts, by default aes-128-gcm where the processor has AES instructions, and
    /// chacha20-poly1305 where it has none. With the tcp transport, the same at both gateways, by default aes-128-gcm.
    pub cipher: Option<Cipher>,
    /// When a client's handshake is completed.
    #[schemars(extend("default" = "immediate"))]
    pub accept: Option<Accept>,
    /// Time limit for connecting to a server on behalf of a peer.
    #[schemars(extend("x-least" = "1s", "x-most" = "1h", "default" = "20s"))]
    pub connect_timeout: Option<Interval>,
    /// LAN-side socket buffer, per direction. By default the capacity of the link in 100 ms, 1 MiB to 16 MiB.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "1GiB", "x-example" = "2MiB"))]
    pub host_buffer: Option<Size>,
    /// Memory for the data of all sessions, half of it for each direction; at least 256 KiB for each peer. By default a
    /// quarter of the memory of the machine, or of its control group, if that may use less.
    #[schemars(extend("x-least" = "1MiB", "x-most" = "16384GiB", "x-example" = "2GiB"))]
    pub memory: Option<Size>,
    /// Threads that carry packets. 1: the event loop alone. 2: a second thread seals, opens, sends and receives. More: one receives, the others
    /// send, each to some of the peers. `auto`: 1, and up to 3 while a link of 500Mbit/s or more keeps the event loop busy.
    #[schemars(extend("default" = "auto"))]
    pub workers: Option<WorkersEntry>,
    /// Longest time for which a host may leave data unacknowledged; then its connection is reset.
    #[schemars(extend("x-least" = "1s", "x-most" = "24h", "default" = "15min"))]
    pub user_timeout: Option<Interval>,
    /// Idle time after which a host is probed.
    #[schemars(extend("x-least" = "10s", "x-most" = "9h", "default" = "2h"))]
    pub host_keepalive: Option<Interval>,
    /// Directory of what is remembered between runs: the capacity, as it was measured. Where it is missing, nothing is.
    #[schemars(extend("default" = "/var/lib/bentpipe/gateway"))]
    pub state_directory: Option<Path>,
}

/// The satellite transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// bentpipe's transport.
    #[default]
    Satpep,
    /// The kernel's own TCP.
    Tcp,
}

/// When a client's TCP handshake is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accept {
    /// At once.
    Immediate,
    /// When the server has answered.
    Confirmed,
}

/// The satellite link.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct Link {
    /// The interface of the satellite link; satpep measures cross traffic there.
    pub interface: Option<Interface>,
    /// Transmit capacity, counted as IP packets, as far as it is known: the estimate begins there.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "6Mbit/s"))]
    pub rate: Option<PositiveRate>,
    /// How far `rate` is to be trusted: used at once (sure), half of it until the link has answered (guess), or only to size buffers
    /// (none).
    #[schemars(extend("default" = "sure"))]
    pub rate_confidence: Option<RateConfidence>,
    /// Whether the capacity is estimated, or is `rate`, or what link updates report, by force (fixed).
    #[schemars(extend("default" = "estimated"))]
    pub capacity: Option<CapacityMode>,
    /// Policy for cross traffic on the interface.
    #[schemars(extend("default" = "subtract"))]
    pub cross_traffic: Option<CrossTrafficPolicy>,
    /// Receive capacity: sizes the receive memory. By default `rate`, or 50Mbit/s without it.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "6Mbit/s"))]
    pub receive_rate: Option<PositiveRate>,
    /// Link updates of lower rates are rejected. By default a hundredth of the lower of rate and receive_rate, or 1kbit/s without
    /// rate.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "64kbit/s"))]
    pub min_rate: Option<PositiveRate>,
    /// Highest transmit rate: the estimate goes no higher, and a reported rate above it counts as this. By default the estimate goes up to
    /// sixteen times the highest of rate, what was measured in an earlier run, and the last report; without rate, to 10Gbit/s at least.
    /// Link updates of rates above ten times the highest of rate, receive_rate and max_rate are rejected; without rate, those above ten
    /// times max_rate and above 100Gbit/s.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "64kbit/s"))]
    pub max_rate: Option<PositiveRate>,
    /// Expected round-trip time.
    #[schemars(extend("x-least" = "10us", "x-most" = "1min", "x-example" = "550ms"))]
    pub rtt: Interval,
    /// Largest IP packet of the satellite transport; a smaller path MTU is found by probing. Over IPv6, it is 1280 at least.
    #[schemars(range(min = 576, max = 65_534), extend("default" = 1500))]
    pub mtu: Option<u16>,
    /// DSCP of packets between the gateways: that of the client whose data they carry, or one code point for all.
    #[schemars(extend("default" = "copy"))]
    pub dscp: Option<DscpPolicyEntry>,
    /// Receive memory for each peer. By default 4 x receive_rate x rtt, at least 32 MiB, and more as more arrives.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "64GiB", "x-example" = "4MB"))]
    pub receive_memory: Option<Size>,
    /// Longest interval between probes of an idle peer that has an address.
    #[schemars(extend("x-least" = "1s", "x-most" = "1h", "default" = "100s"))]
    pub keepalive: Option<Interval>,
    /// Longest outage that connections survive; then they are reset.
    #[schemars(extend("x-least" = "2s", "x-most" = "24h", "default" = "10min"))]
    pub outage_limit: Option<Interval>,
    /// Highest number of connections with each peer.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 16384))]
    pub max_streams: Option<u32>,
    /// Whether FEC repair symbols are sent, mainly while the link would idle.
    #[schemars(extend("default" = true))]
    pub repair: Option<bool>,
    /// Repair overhead: share of a busy link for repair symbols beyond the loss rate, if that pays.
    #[schemars(range(min = 0.0, max = 0.5), extend("default" = 0.02))]
    pub repair_overhead: Option<f64>,
}

impl Link {
    /// A link of this rate, as far as it is known, and round-trip time.
    pub fn new(rate: Option<PositiveRate>, rtt: Interval) -> Self {
        Self {
            interface: None,
            rate,
            rate_confidence: None,
            capacity: None,
            cross_traffic: None,
            receive_rate: None,
            min_rate: None,
            max_rate: None,
            rtt,
            mtu: None,
            dscp: None,
            receive_memory: None,
            keepalive: None,
            outage_limit: None,
            max_streams: None,
            repair: None,
            repair_overhead: None,
        }
    }
}

/// The tcp transport.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Tcp {
    /// Congestion control towards the satellite. By default the host's.
    pub congestion_control: Option<ControlName>,
    /// Whether TCP tunnels open with data in the SYN (TCP Fast Open).
    #[schemars(extend("default" = true))]
    pub fast_open: Option<bool>,
    /// Number of warm connections to each peer: TCP tunnels that are opened before they are needed.
    #[schemars(range(min = 0, max = 1024), extend("default" = 8))]
    pub warm_connections: Option<u16>,
    /// With `bp_cross` only: intended queueing delay at the link.
    #[schemars(extend("x-most" = "1s", "default" = "20ms"))]
    pub target_queue: Option<Time>,
    /// Send buffer of each connection. By default 3 x rate x rtt, 256 KiB to 256 MiB.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "1GiB", "x-example" = "4MB"))]
    pub send_buffer: Option<Size>,
    /// Receive buffer of each connection. By default 3 x receive_rate x rtt, 256 KiB to 256 MiB.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "1GiB", "x-example" = "4MB"))]
    pub receive_buffer: Option<Size>,
}

/// Which connections are intercepted.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Intercept {
    /// TCP connections that enter by these interfaces are intercepted. By default none: the gateway only serves its peers.
    pub interfaces: Option<Vec<Interface>>,
    /// Of those, only the ones that the routing table sends out by these interfaces; with an empty list, all. By default the
    /// interface of `link`.
    pub out_interfaces: Option<Vec<Interface>>,
    /// Local port of the transparent listener (loopback only).
    #[schemars(range(min = 1, max = 65_535), extend("default" = 4501))]
    pub port: Option<u16>,
    /// fwmarks mark+1 to mark+8 are used, on packets and connections.
    #[schemars(range(min = 1, max = 4_294_967_279u32), extend("default" = 0x6270_0000))]
    pub mark: Option<u32>,
    /// Routing table that delivers intercepted packets locally; not 253 to 255, which are the system's.
    #[schemars(range(min = 1, max = 252_000_000), extend("default" = 25_200))]
    pub table: Option<u32>,
    /// Priority of the `ip rule`: what it delivers must meet no other rule before.
    #[schemars(range(min = 1, max = 32_765), extend("default" = 10))]
    pub rule_priority: Option<u32>,
}

/// A peer: the gateway at the other end of the satellite link.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct Peer {
    /// Its name in logs and tables.
    pub name: ShortName,
    /// With the tcp transport: whether there is a far gateway. Without one the TCP tunnels end at the servers.
    #[schemars(extend("default" = true))]
    pub far_gateway: Option<bool>,
    /// Its public key, which is its identity; required if there is a far gateway.
    pub public_key: Option<Public>,
    /// Its address; a link-local one with the number of its interface, such as "[fe80::1%2]:4500". If left out, the peer initiates the session; with `transport = "tcp"`, only its clients' connections are relayed then.
    pub address: Option<Address>,
    /// With the tcp transport: addresses from which it may connect. By default with mode clear its address, else any.
    pub accept_from: Option<Vec<Prefix>>,
    /// Networks behind it. By default everything.
    pub routes: Option<Vec<Prefix>>,
    /// Whether its routes may overlap with another peer's: the longest prefix wins.
    #[schemars(extend("default" = false))]
    pub overlap: Option<bool>,
    /// Client addresses that it may use here. By default its routes.
    pub allow_sources: Option<Vec<Prefix>>,
    /// Destinations that it may reach through this gateway. By default everything public.
    pub allow_destinations: Option<Vec<Prefix>>,
    /// The source address that servers see.
    #[schemars(extend("default" = "client"))]
    pub connect_from: Option<ConnectFrom>,
    /// Share of the link against other peers.
    #[schemars(range(min = 1, max = 1000), extend("default" = 1))]
    pub weight: Option<u32>,
    /// Upper limit for this peer. By default none.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "2Mbit/s"))]
    pub cap: Option<PositiveRate>,
}

impl Peer {
    /// A peer of this name.
    pub fn new(name: ShortName) -> Self {
        Self {
            name,
            far_gateway: None,
            public_key: None,
            address: None,
            accept_from: None,
            routes: None,
            overlap: None,
            allow_sources: None,
            allow_destinations: None,
            connect_from: None,
            weight: None,
            cap: None,
        }
    }
}

/// The source address that servers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectFrom {
    /// The client's.
    Client,
    /// This gateway's.
    Gateway,
}

/// A class of connections: those that match all conditions given.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct Class {
    /// Its name in logs and status.
    pub name: ClassName,
    /// What connections of it are like.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Precedence of its connections.
    #[schemars(extend("default" = "normal"))]
    pub priority: Option<Priority>,
    /// Share against other busy classes of the peer.
    #[schemars(range(min = 1, max = 100), extend("default" = 1))]
    pub weight: Option<u32>,
    /// Upper limit of the class to each peer. By default none.
    #[schemars(extend("x-least" = "1kbit/s", "x-example" = "2Mbit/s"))]
    pub cap: Option<PositiveRate>,
}

/// Connections that always go end to end.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct Bypass {
    /// Its name in status and metrics.
    pub name: ShortName,
    /// What such connections are like; at least one of them.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// What connections are like.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Conditions {
    /// Ports and port ranges of the server.
    pub ports: Option<Vec<PortsEntry>>,
    /// Networks of the client.
    pub clients: Option<Vec<Prefix>>,
    /// Networks of the server.
    pub servers: Option<Vec<Prefix>>,
    /// DSCP of the client's packets.
    pub dscp: Option<Vec<DscpEntry>>,
}

/// A port or a range.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PortsEntry {
    /// One.
    Port(#[schemars(range(min = 1, max = 65_535))] u16),
    /// Several in a row.
    Range(PortRange),
}

/// A code point.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DscpEntry {
    /// By its number.
    Number(#[schemars(range(min = 0, max = 63))] u8),
    /// By its name.
    Name(CodePoint),
}

/// DSCP of packets.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DscpPolicyEntry {
    /// All with the code point of this number.
    Number(#[schemars(range(min = 0, max = 63))] u8),
    /// As the text says.
    Text(DscpPolicyText),
}

/// Threads that carry packets.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkersEntry {
    /// So many.
    Number(#[schemars(range(min = 1, max = 16))] u8),
    /// As many as are of use.
    Auto(Auto),
}

/// The gateway chooses.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// By itself.
    Auto,
}

/// Where programs report link updates.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Updates {
    /// Unix socket that takes lines of JSON. By default none.
    pub socket: Option<SocketPath>,
    /// Address for HTTP, unauthenticated: PUT /link takes an update, GET /link shows the link state. By default none.
    pub http: Option<Address>,
    /// Longest validity of an update.
    #[schemars(extend("x-least" = "1s", "x-most" = "24h", "default" = "60s"))]
    pub max_validity: Option<Interval>,
}

/// The modem that reports link updates by DLEP (docs/link-capacity.md).
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Dlep {
    /// Interface to the modem. By default that of `link`.
    pub interface: Option<Interface>,
    /// Address of the modem, with a port if that is not 854. By default found by multicast.
    pub modem: Option<ModemAddress>,
    /// UDP port of the discovery.
    #[schemars(range(min = 1, max = 65_535), extend("default" = 854))]
    pub port: Option<u16>,
    /// Destination that is the link. By default the first that comes up.
    pub destination: Option<Mac>,
    /// Heartbeat interval of the gateway.
    #[schemars(extend("x-least" = "1s", "x-most" = "10min", "default" = "10s"))]
    pub heartbeat: Option<Interval>,
}

/// Metrics.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Metrics {
    /// Address of OpenMetrics by HTTP, under /metrics. By default none.
    pub listen: Option<Address>,
}

/// The live page (docs/monitoring.md).
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Web {
    /// Address of the page. By default none.
    pub listen: Option<Address>,
    /// File of a token of at least 16 characters: browsers ask for it as password, programs show it as bearer token. Required unless
    /// `listen` is a loopback address.
    pub token_file: Option<Path>,
    /// Whether anyone who reaches `listen` sees the page.
    #[schemars(extend("default" = false))]
    pub allow_unauthenticated: Option<bool>,
    /// PEM file of the certificate, and of those that signed it: with it and `key`, the page is served by HTTPS (TLS 1.3). By default
    /// HTTP.
    pub certificate: Option<Path>,
    /// PEM file of the certificate's private key.
    pub key: Option<Path>,
}

/// The log of connections that have ended (docs/monitoring.md).
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct ConnectionLog {
    /// File to which a line of JSON is appended for each connection that has ended, with the addresses of client and server. By default
    /// none.
    pub file: Option<Path>,
    /// Size at which the file is renamed to FILE.1, and that to FILE.2.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "64GiB", "default" = "16MiB"))]
    pub max_size: Option<Size>,
    /// Highest number of files; the oldest is deleted.
    #[schemars(range(min = 1, max = 1000), extend("default" = 8))]
    pub max_files: Option<u16>,
}

/// The control socket.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Control {
    /// Unix socket for `bentpipe gateway status` and other requests. By default /run/bentpipe/NAME.sock.
    pub socket: Option<SocketPath>,
    /// Group that may use it beside its owner. By default none.
    pub group: Option<ShortName>,
}

/// Debugging aids.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Debugging {
    /// File for the data keys of all sessions (mode 0600), for Wireshark: anyone who reads it can decrypt recorded traffic. By default
    /// none.
    pub key_log: Option<Path>,
    /// Directory for a qlog file of each session, for qvis: what happened to each packet, without contents. By default none. Only with the
    /// `satpep` transport.
    pub qlog: Option<Path>,
    /// Size that all qlog files of a process may have together; then no more is written.
    #[schemars(extend("x-least" = "64KiB", "x-most" = "1024GiB", "default" = "256MiB"))]
    pub qlog_size: Option<Size>,
}
