//! A connection that is over: what became of it, for logs.

use crate::connect::ConnectRequest;
use crate::connection::{Event, State};
use peering::ResetReason;
use units::{Duration, Instant};

/// A relayed connection that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Client and server.
    pub request: ConnectRequest,
    /// The peer, by its place in [`super::Engine::peers`].
    pub peer: usize,
    /// The stream's number.
    pub stream: u64,
    /// Whether this gateway was the near one: the client's.
    pub is_near: bool,
    /// Its class, by its place in [`super::Engine::class_accounts`].
    pub class: usize,
    /// When its client connected; at the far gateway, when its stream arrived.
    pub asked: Instant,
    /// How long after that its server had accepted; `None` if it never did.
    pub opened_after: Option<Duration>,
    /// When it was over.
    pub at: Instant,
    /// Bytes from TCP to the stream.
    pub from_tcp: u64,
    /// Bytes from the stream to TCP.
    pub to_tcp: u64,
    /// How it ended.
    pub cause: EndCause,
}

impl Ended {
    /// Whether both directions ended in order.
    pub fn is_orderly(&self) -> bool {
        self.cause == EndCause::Finished
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// Both directions ended in order.
    Finished,
    /// The host here reset its TCP connection, or TCP failed.
    HostReset,
    /// The host here acknowledged nothing for too long.
    HostVanished,
    /// There was no connection to the server.
    NotConnected(ResetReason),
    /// The policy of this gateway denied it to the peer.
    Denied,
    /// The other gateway reset the stream, or the stream failed.
    StreamReset(ResetReason),
    /// A state lasted too long.
    TimedOut,
    /// The other gateway broke the protocol.
    ProtocolError,
    /// This gateway stopped, or the peer was removed.
    Shutdown,
}

impl EndCause {
    /// The cause that `event` implies where nothing more precise is known.
    pub(super) fn of(event: Event) -> Self {
        match event {
            Event::TcpReset => Self::HostReset,
            Event::TcpFailed(reason) => Self::NotConnected(reason),
            Event::RequestDenied(ResetReason::Denied) => Self::Denied,
            Event::Timeout => Self::TimedOut,
            Event::Shutdown => Self::Shutdown,
            Event::StreamReset => Self::StreamReset(ResetReason::Aborted),
            _ => Self::ProtocolError,
        }
    }

    /// The cause if the stream was reset, or failed, with `reason` in state `state`.
    pub(super) fn of_stream(state: State, reason: ResetReason) -> Self {
        if state.awaits_answer() { Self::NotConnected(reason) } else { Self::StreamReset(reason) }
    }

    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::HostReset => "host_reset",
            Self::HostVanished => "host_vanished",
            Self::NotConnected(_) => "not_connected",
            Self::Denied => "denied",
            Self::StreamReset(_) => "stream_reset",
            Self::TimedOut => "timed_out",
            Self::ProtocolError => "protocol_error",
            Self::Shutdown => "shutdown",
        }
    }

    /// What the gateway that reset the stream said.
    pub const fn reason(self) -> Option<ResetReason> {
        match self {
            Self::NotConnected(reason) | Self::StreamReset(reason) => Some(reason),
            _ => None,
        }
    }
}
