//! What the engine asks of its two sides.

use crate::classes::Class;
use crate::connect::{ConnectRequest, ConnectRequestError};
use crate::reach::Reach;
use peering::ResetReason;
use std::fmt::Debug;
use std::hash::Hash;
use units::{Duration, Instant};

/// TCP towards clients and servers.
pub trait Hosts {
    /// A TCP connection with a host.
    type Connection: Debug;
    /// A SYN that is held until the server has answered.
    type Syn: Debug;

    /// Begins to connect to the server `request.destination` for connection `key`; from the client's address if `as_client`.
    /// [`super::Engine::on_connected`] or [`super::Engine::on_connect_failed`] says how that ends.
    ///
    /// # Errors
    /// If the host refuses at once.
    fn connect(
        &mut self,
        now: Instant,
        key: usize,
        request: &ConnectRequest,
        as_client: bool,
    ) -> Result<Self::Connection, ConnectError>;
    /// Connection `key` has this accepted TCP connection: the host reports under that key from now on.
    ///
    /// # Errors
    /// If the host refuses.
    fn adopt(&mut self, key: usize, tcp: &Self::Connection) -> Result<(), ConnectError>;
    /// Sends FIN behind everything written, and goes on reading.
    fn finish(&mut self, now: Instant, tcp: &mut Self::Connection);
    /// Closes in order: both FINs have been passed on.
    fn close(&mut self, now: Instant, tcp: Self::Connection);
    /// Closes so that the host sees a reset.
    fn abort(&mut self, now: Instant, tcp: Self::Connection);
    /// Whether the host of `tcp` has acknowledged nothing for more than `limit`, neither data nor probes. Asked each `period`.
    fn is_gone(&mut self, now: Instant, tcp: &mut Self::Connection, period: Duration, limit: Duration) -> bool;

    /// Whether `tcp` may have data that nobody has read.
    fn has_data(&self, _tcp: &Self::Connection) -> bool {
        false
    }
    /// Whether the host of `tcp` takes no data for now.
    fn is_full(&self, _tcp: &Self::Connection) -> bool {
        false
    }

    /// Whether a read of `tcp` that finds no more has met a reset, and no FIN.
    fn is_cut_off(&self, _tcp: &Self::Connection) -> bool {
        false
    }
    /// Whether `tcp`, whose FIN has been read, was reset behind that.
    fn has_failed(&self, _tcp: &Self::Connection) -> bool {
        false
    }
    /// How many of the bytes written to `tcp` its host has not acknowledged, about.
    fn unacknowledged(&self, _tcp: &Self::Connection) -> u64 {
        0
    }
    /// Reads a bounded amount of what the host of `tcp` has sent, which is for nobody.
    fn discard_received(&mut self, _tcp: &mut Self::Connection) -> Progress {
        Progress::Blocked
    }

    /// Whether there is room for another connection. Asked only after one was [scarce](Hosts::is_scarce).
    fn has_room(&self) -> bool;
    /// Whether little room is left now that `tcp`, the newest connection, has some.
    fn is_scarce(&self, tcp: &Self::Connection) -> bool;
    /// Whether far more room is left than when it is scarce, as far as the host knows.
    fn has_plenty(&self) -> bool {
        false
    }

    /// Lets the held SYN go on to the listener.
    fn release_syn(&mut self, syn: Self::Syn);
    /// Answers the held SYN with a reset.
    fn refuse_syn(&mut self, syn: Self::Syn);
    /// Drops the held SYN: another is held, or the client is to send another.
    fn forget_syn(&mut self, syn: Self::Syn);
}

/// Why there is no TCP connection with a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There is no room for another connection.
    #[error("no room for another connection")]
    NoRoom,
    /// The server cannot be reached, or refuses.
    #[error("{0}")]
    Failed(ResetReason),
}

/// The satellite transport: streams through peers, one for each relayed connection. Peers are named by their place in
/// [`super::Engine::peers`].
pub trait Transport<H: Hosts> {
    /// Names a stream.
    type Stream: Copy + Eq + Hash + Debug;

    /// Whether streams may be opened through `peer`.
    fn is_up(&self, peer: usize) -> bool;
    /// Whether connections that begin now had better go through `peer`, which is up then.
    fn invites(&self, peer: usize) -> bool {
        self.is_up(peer)
    }
    /// How many more streams may be opened through `peer`, and how many there may be in all.
    fn room(&self, peer: usize) -> (u64, u64);
    /// Of the memory for data that `peer` sends: bytes left and bytes in all, if that is limited here.
    fn memory_left(&self, _: usize) -> Option<(u64, u64)> {
        None
    }
    /// Peer `peer` is to know that it may use `reach` here, now and whenever it comes up.
    fn tell_reach(&mut self, now: Instant, peer: usize, reach: &Reach);
    /// The addresses that `peer` lets this gateway use, if it has announced them.
    fn allows(&self, peer: usize) -> Option<&Reach>;

    /// Opens a stream through `peer` that carries the connection `request`; `None` if there is none left.
    fn open(
        &mut self,
        now: Instant,
        peer: usize,
        request: &ConnectRequest,
        class: Option<&Class>,
    ) -> Option<Self::Stream>;
    /// Puts a stream that the peer has opened into the class of the connection that it carries.
    fn classify(&mut self, now: Instant, stream: Self::Stream, class: &Class);
    /// Reads on in the connect request of a stream that the peer has opened.
    fn read_request(&mut self, now: Instant, stream: Self::Stream) -> ReceivedRequest;
    /// Reads the far gateway's answer on a stream that was opened here.
    fn read_reply(&mut self, now: Instant, stream: Self::Stream) -> ConnectReply;
    /// Tells the near gateway that the server has accepted.
    fn reply(&mut self, now: Instant, stream: Self::Stream);
    /// Ends the direction away from here, behind all that was sent.
    fn finish(&mut self, now: Instant, stream: Self::Stream);
    /// Ends both directions uncleanly.
    fn reset(&mut self, now: Instant, stream: Self::Stream, reason: ResetReason);
    /// Ends both directions uncleanly, as [`ResetReason::Aborted`], once everything sent has arrived; the transport sees to that by
    /// itself.
    fn reset_behind_data(&mut self, now: Instant, stream: Self::Stream);
    /// How much has not arrived of what was sent on a stream that is being [reset behind it](Transport::reset_behind_data); `None` once
    /// that is over.
    fn undelivered(&self, _stream: Self::Stream) -> Option<u64> {
        None
    }
    /// How many of the bytes sent on the stream the other gateway has not acknowledged, about.
    fn unacknowledged(&self, _stream: Self::Stream) -> u64 {
        0
    }
    /// Whether what is sent on the stream can still arrive: not once the peer has reset it, though bytes from before wait to be read.
    fn takes_data(&self, _stream: Self::Stream) -> bool {
        true
    }
    /// The engine knows the stream no longer. If it has not been reset, both of its directions have ended in order.
    fn forget(&mut self, stream: Self::Stream);
    /// Moves bytes from TCP into the stream, a bounded amount. Returns how many.
    fn send(&mut self, now: Instant, stream: Self::Stream, hosts: &mut H, tcp: &mut H::Connection) -> (u64, Progress);
    /// Moves bytes from the stream to TCP, a bounded amount. Returns how many.
    fn receive(
        &mut self,
        now: Instant,
        stream: Self::Stream,
        hosts: &mut H,
        tcp: &mut H::Connection,
    ) -> (u64, Progress);

    /// The stream's number, for people.
    fn number(&self, stream: Self::Stream) -> u64;
}

/// What a transport reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent<S> {
    /// Some peer has begun to answer, or ceased to, or allows something else.
    PeersChanged,
    /// The peer (by its place) has opened a stream.
    Opened(S, usize),
    /// The stream may be able to move bytes.
    Ready(S),
    /// The peer's direction of the stream has ended in order, and everything before that has been read; a reset follows.
    EndedBeforeReset(S),
    /// The stream was reset by the peer, or has failed.
    Reset(S, ResetReason),
    /// Both directions of the stream have ended in order.
    Closed(S),
}

/// What has been read of a stream's connect request.
#[derive(Debug)]
pub enum ReceivedRequest {
    /// The rest has not arrived.
    Waiting,
    /// The connection that it carries.
    Complete(ConnectRequest),
    /// It carries no connection: it is the transport's own from now on.
    NoConnection,
    /// It has ended before it was complete.
    Ended,
    /// It is none.
    Malformed(ConnectRequestError),
}

/// What the far gateway has said of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectReply {
    /// Nothing yet.
    Waiting,
    /// The server has accepted.
    Connected,
    /// The server has not accepted.
    Failed(ResetReason),
    /// The stream has ended without an answer.
    Ended,
    /// Something that is no answer.
    Malformed,
}

/// How far a direction has come in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to move.
    More,
    /// Nothing can move until an event says so.
    Blocked,
    /// The last byte has passed, and the end has been seen.
    Ended,
    /// TCP has failed.
    TcpFailed,
    /// The stream has failed.
    StreamFailed(ResetReason),
}
