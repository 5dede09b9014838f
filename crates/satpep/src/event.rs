//! The events of an endpoint for its driver, and the names of peers and streams.

use crate::stream::number::StreamNumber;
use peering::ResetReason;
use units::Duration;

/// A peer of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) u32);

/// A stream of a session with a peer. Names are not used again: that of a closed stream stays harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub(crate) peer: PeerId,
    pub(crate) session: u32,
    pub(crate) slot: u32,
    pub(crate) number: StreamNumber,
}

impl PeerId {
    /// The bit in the name of a peer's twin, which is its process of generation 1.
    pub(crate) const TWIN: u32 = 1 << 15;

    /// The place of its entry in the endpoint.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The name that the driver knows.
    pub(crate) const fn own(self) -> Self {
        self.of_generation(0)
    }

    /// The name of the entry for the peer's process of `generation`.
    pub(crate) const fn of_generation(self, generation: u32) -> Self {
        Self(self.0 & !Self::TWIN | if generation & 1 == 1 { Self::TWIN } else { 0 })
    }

    /// The name of the entry for its other process.
    pub(crate) const fn sibling(self) -> Self {
        Self(self.0 ^ Self::TWIN)
    }

    /// The generation of the process that the entry is for.
    pub(crate) const fn generation(self) -> u32 {
        if self.0 & Self::TWIN == 0 { 0 } else { 1 }
    }
}

impl StreamId {
    /// The peer at its other end.
    pub const fn peer(self) -> PeerId {
        self.peer.own()
    }

    /// Its number in the session.
    pub const fn number(self) -> u64 {
        self.number.get()
    }
}

/// What a peer did that no gateway does which follows the protocol. It ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Violation {
    /// A frame that does not follow the grammar, or points to nowhere.
    Malformed,
    /// A frame of a type that this version does not know and that may not be skipped.
    UnknownFrame(u64),
    /// An acknowledgement of a packet that was never sent.
    AckOfUnsent,
    /// Several acknowledgements in one packet.
    RepeatedAck,
    /// More bytes than the stream's or the session's credit allows.
    BeyondCredit,
    /// A final size that contradicts what came before (RFC 9000, section 4.5).
    FinalSize,
    /// A stream that only this side may open and did not.
    UnopenedStream,
    /// More streams than were allowed.
    TooManyStreams,
    /// Pieces, or numbers of streams, further scattered than losses scatter them.
    Scattered,
    /// A repair symbol of no possible block, or one that decodes to something else than stream data.
    BadRepair,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Violation::Malformed => "a malformed frame",
            Violation::UnknownFrame(kind) => return write!(f, "a frame of the unknown type {kind:#04x}"),
            Violation::AckOfUnsent => "an acknowledgement of a packet that was never sent",
            Violation::RepeatedAck => "several acknowledgements in one packet",
            Violation::BeyondCredit => "more bytes than its credit allows",
            Violation::FinalSize => "a final size that contradicts what came before",
            Violation::UnopenedStream => "a stream that it may not open",
            Violation::TooManyStreams => "more streams than it was allowed",
            Violation::Scattered => "pieces scattered further than losses scatter them",
            Violation::BadRepair => "a repair symbol that repairs nothing",
        })
    }
}

/// News for the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Event {
    /// The peer answers, and the path to it carries packets of the size in use: connections to it can be accelerated.
    PeerUp(PeerId),
    /// The peer has not answered for a few round trips: new connections should bypass it.
    PeerUnresponsive(PeerId),
    /// The peer has not answered for as long as an outage may last ([`EndpointConfig::outage_limit`](crate::EndpointConfig::outage_limit)),
    /// which ends the session. An [`Event::Reset`] follows for each stream that was open.
    PeerGivenUp(PeerId),
    /// The peer said that it stops, which ends the session: new connections should bypass it. An [`Event::Reset`] follows for each
    /// stream that was open.
    PeerLeft(PeerId),
    /// The peer answers, but the path does not carry IP packets of 576 bytes over IPv4, or of 1280 over IPv6, there or back: connections
    /// should bypass it. [`Event::PeerUp`] follows when it does.
    PathTooSmall(PeerId),
    /// The peer does not have the session any more: its gateway restarted, or gave up the session in an outage. A [`Event::Reset`] follows
    /// for each stream that was open.
    PeerRestarted(PeerId),
    /// The peer takes no more streams: new connections should bypass it. Those that there are go on.
    PeerDrains(PeerId),
    /// The peer broke the protocol, which ends the session: new connections should bypass it. A [`Event::Reset`] follows for each stream
    /// that was open.
    PeerBroke(PeerId, Violation),
    /// The peer's clock says an earlier time than in a handshake before, by this much: it was set back, or was wrong then.
    /// The handshake succeeded all the same, a round trip later. Reported at most every ten minutes.
    PeerClockSetBack(PeerId, ClockSkew, Duration),
    /// The peer has seen handshakes of ours from later than our clock says now: it was set back, or was wrong then. The
    /// handshake goes on, a round trip later. Reported at most every ten minutes.
    OwnClockSetBack(PeerId, ClockSkew),
    /// Another process uses the peer's private key, too: each ends the other's session.
    PeerKeyShared(PeerId),
    /// Another process uses our private key, too, and the peer has had a session with it since ours: each ends the other's.
    OwnKeyShared(PeerId),
    /// The peer opened a stream.
    Opened(StreamId),
    /// There is something to read: data, or the end.
    Readable(StreamId),
    /// There is space again after a write found none.
    Writable(StreamId),
    /// The peer has ended its direction in order, and has reset the stream since. Everything before the end has been read;
    /// [`Event::Reset`] follows.
    EndedBeforeReset(StreamId),
    /// The stream was given up; nothing more comes, nothing more is sent.
    Reset(StreamId, ResetReason),
    /// Both directions ended in order, everything acknowledged and consumed.
    Closed(StreamId),
}

/// A peer's wall clock against ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSkew(i64);

impl ClockSkew {
    /// Of two times in nanoseconds since 1970.
    pub(crate) fn between(ours: u64, theirs: u64) -> Self {
        Self(i64::try_from(i128::from(theirs) - i128::from(ours)).unwrap_or(if theirs > ours {
            i64::MAX
        } else {
            i64::MIN
        }))
    }

    /// The peer's time less ours, in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// How far the two are apart.
    pub const fn magnitude(self) -> Duration {
        Duration::from_nanos(self.0.unsigned_abs())
    }
}

/// In words, to the second: `3 s ahead of ours`.
impl std::fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = (self.0.unsigned_abs() + 500_000_000) / 1_000_000_000;
        match (seconds, self.0 > 0) {
            (0, _) => f.pad("within a second of ours"),
            (_, true) => write!(f, "{seconds} s ahead of ours"),
            (_, false) => write!(f, "{seconds} s behind ours"),
        }
    }
}

/// How a peer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// There is no session yet, or none any more, or it is not known yet that the path carries data.
    Connecting,
    /// It answers.
    Up,
    /// There is a session, but it has not answered for a few round trips.
    Unresponsive,
    /// It answers, and takes no more streams.
    Draining,
    /// It answers, but the path does not carry packets of the least size that sessions work with.
    PathTooSmall,
}

/// A stream that could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no session with the peer.
    #[error("there is no session with the peer")]
    NotConnected,
    /// The peer finishes the streams that it has.
    #[error("the peer drains")]
    Draining,
    /// The peer takes no more streams.
    #[error("the peer takes no more streams")]
    TooManyStreams,
}
