//! What a gateway reports of one moment. Counters start at zero with the process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// How much of a gateway's state is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The link and the peers.
    Peers,
    /// Relayed connections, too: with thousands of them, that takes time and memory.
    Streams,
}

/// Where samples come from: called once a second on a thread of its own. `None` if the gateway has stopped.
pub trait Source: Send + 'static {
    /// The state now.
    fn sample(&mut self, detail: Detail) -> Option<Sample>;
}

impl<F: FnMut(Detail) -> Option<Sample> + Send + 'static> Source for F {
    fn sample(&mut self, detail: Detail) -> Option<Sample> {
        self(detail)
    }
}

/// A gateway's state at one moment.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The gateway's name.
    pub name: String,
    /// Its satellite transport: `satpep` or `tcp`.
    pub transport: Cow<'static, str>,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Whether it takes no more connections.
    pub is_draining: bool,
    /// How often it has taken over changed settings.
    pub reloads: u64,
    /// Transmit capacity in use, in bit/s.
    pub capacity_bps: f64,
    /// Where it is from: `estimated`, or the link state's source.
    pub capacity_source: &'static str,
    /// The link state.
    pub link: Link,
    /// The session with the modem, if one is configured.
    pub modem: Option<Modem>,
    /// Cross traffic on the satellite interface, in bit/s.
    pub cross_traffic_bps: f64,
    /// IP bytes sent on the satellite link.
    pub sent_ip_bytes: u64,
    /// IP bytes received on the satellite link.
    pub received_ip_bytes: u64,
    /// Connections that went end to end, by reason.
    pub bypassed: BTreeMap<String, u64>,
    /// The peers.
    pub peers: Vec<Peer>,
    /// Relayed connections; `None` unless [`Detail::Streams`] was asked for.
    pub streams: Option<Vec<Stream>>,
}

/// The link state: reported or configured.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// Where it is from: `configured`, `api` or `dlep`.
    pub source: &'static str,
    /// Transmit rate in bit/s.
    pub rate_bps: f64,
    /// Receive rate in bit/s.
    pub receive_rate_bps: f64,
    /// Round-trip time.
    pub rtt_s: f64,
    /// For how long it has been so.
    pub age_s: f64,
}

/// The DLEP session with the modem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modem {
    /// Whether there is one.
    pub has_session: bool,
    /// Whether the modem reports the link's destination as up.
    pub link_is_up: bool,
}

/// A far gateway.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its state: `up`, `connecting`, `unresponsive`, `draining`, …
    pub state: &'static str,
    /// Why it is not up: a word, and a sentence with what to check.
    pub trouble: Option<(String, String)>,
    /// Smoothed round-trip time.
    pub rtt_s: Option<f64>,
    /// Largest IP packet known to reach it.
    pub mtu: u16,
    /// Streams in the session.
    pub streams: u64,
    /// Packets sent to it.
    pub sent_packets: u64,
    /// Packets that it did not receive.
    pub lost_packets: u64,
    /// Stream bytes, first transmissions.
    pub sent_bytes: u64,
    /// Stream bytes retransmitted.
    pub retransmitted_bytes: u64,
    /// Bytes of FEC repair symbols.
    pub repair_bytes: u64,
    /// Stream bytes received.
    pub received_bytes: u64,
    /// Bytes from TCP that wait for the peer's acknowledgement.
    pub send_buffered_bytes: u64,
}

/// A relayed connection.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// Its number in the session with the peer.
    pub stream: u64,
    /// The peer's place in [`Sample::peers`].
    pub peer: usize,
    /// Whether this gateway is the near one.
    pub is_near: bool,
    /// The client, once known.
    pub client: Option<SocketAddr>,
    /// The server, once known.
    pub server: Option<SocketAddr>,
    /// Its class, once known.
    pub class: Option<String>,
    /// Its state.
    pub state: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Bytes taken from TCP at this gateway.
    pub from_tcp_bytes: u64,
    /// Bytes given to TCP at this gateway.
    pub to_tcp_bytes: u64,
    /// Bytes from TCP that wait for the peer's acknowledgement; 0 if that is not known.
    pub send_buffered_bytes: u64,
    /// Received bytes that wait for TCP, or for bytes before them; 0 if that is not known.
    pub receive_buffered_bytes: u64,
}
