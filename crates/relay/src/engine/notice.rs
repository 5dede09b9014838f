//! What happened to relayed connections and peers, for logs, counters and tests.

use super::Ended;
use crate::connect::{ConnectRequest, ConnectRequestError};
use crate::connection::{Event, State, Unexpected};
use crate::policy::Denial;
use ipnet::IpNet;
use peering::ResetReason;
use units::Duration;

/// What has happened so far, by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Connections accepted from clients.
    pub accepted: u64,
    /// Connections made to servers.
    pub connected: u64,
    /// Connections whose two directions both ended in order.
    pub finished: u64,
    /// Connections that were accepted or connected, and ended otherwise.
    pub reset: u64,
    /// Connections that ended before they were accepted or connected, for another reason than those below.
    #[serde(default)]
    pub abandoned: u64,
    /// Connections without a peer, or without a stream in time.
    pub unavailable: u64,
    /// Connections that a peer asked for and its policy denies.
    pub denied: u64,
    /// Connections that a server refused.
    pub refused: u64,
    /// Connections to servers that could not be reached, or not in time.
    pub unreachable: u64,
    /// Streams or connect requests of peers that broke the protocol.
    pub protocol_errors: u64,
    /// Bytes read from TCP.
    pub bytes_from_tcp: u64,
    /// Bytes written to TCP.
    pub bytes_to_tcp: u64,
}

/// Something that happened. Peers are named by their place in [`super::Engine::peers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A connection went from one state to another; reported only if [asked for](super::Engine::report_transitions).
    Transition {
        /// The connection's key.
        key: usize,
        /// Client and server, once known.
        request: Option<ConnectRequest>,
        /// The state before.
        from: State,
        /// What happened.
        event: Event,
        /// The state after.
        to: State,
    },
    /// A client was accepted.
    Accepted {
        /// Client and server.
        request: ConnectRequest,
        /// The peer behind which the server lies.
        peer: usize,
    },
    /// A client was reset, for there was no peer for its server, or no stream in time.
    Unavailable {
        /// Client and server.
        request: ConnectRequest,
        /// The peer behind which the server lies, if any.
        peer: Option<usize>,
        /// How long the client had waited.
        waited: Duration,
    },
    /// A connection is over.
    Closed(Ended),
    /// The other gateway has reset a stream.
    ResetByPeer {
        /// The stream's number.
        stream: u64,
        /// Its reason.
        reason: ResetReason,
    },
    /// A stream has failed at this gateway.
    StreamFailed(Option<ConnectRequest>, ResetReason),
    /// The far gateway has no connection to the server.
    NotConnected(Option<ConnectRequest>, ResetReason),
    /// A host has not acknowledged anything for too long.
    HostVanished(Option<ConnectRequest>),
    /// The adapter reported what cannot happen: the connection is reset.
    Defect(Unexpected),
    /// A peer sent something that is no connect request.
    BadRequest {
        /// The peer.
        peer: usize,
        /// What is wrong.
        error: ConnectRequestError,
    },
    /// A peer asked for a connection that it may not have.
    Denied {
        /// The peer.
        peer: usize,
        /// Client and server.
        request: ConnectRequest,
        /// Why.
        denial: Denial,
    },
    /// Nearly all streams of a peer are in use: new connections go end to end.
    StreamsShort {
        /// The peer.
        peer: usize,
        /// How many streams there may be.
        most: u64,
    },
    /// The peer has streams for new connections again.
    StreamsAgain(usize),
    /// Clients wait for streams of a peer: new connections go end to end.
    ClientsWait {
        /// The peer.
        peer: usize,
        /// How many wait.
        waiting: usize,
    },
    /// No client waits for the peer any more.
    ClientsServed(usize),
    /// Readers that stall hold the memory for what a peer sends: new connections go end to end.
    MemoryShort {
        /// The peer.
        peer: usize,
        /// Bytes left.
        left: u64,
    },
    /// There is memory again for what the peer sends.
    MemoryAgain(usize),
    /// Nearly all room for connections with hosts is in use, or the host refuses more: new connections go end to end.
    RoomShort {
        /// Whether this process has plenty left: what is short is the host's.
        is_host_wide: bool,
    },
    /// There is room for connections with hosts again.
    RoomAgain,
    /// A peer takes no connections, as it does while it lacks room or memory.
    PeerTakesNone(usize),
    /// A peer lets nothing through to these of its routes.
    RoutesClosed {
        /// The peer.
        peer: usize,
        /// The routes.
        destinations: Vec<IpNet>,
    },
    /// A peer for which one of the last two held lets something through to all of its routes.
    RoutesOpen(usize),
}
