//! Why a connection of a peer, or of who may be one, is rejected.

/// Why a connection is rejected, as `tunnels_rejected` counts it (docs/troubleshooting.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// From an address outside all `accept_from` of the peer, or of all peers.
    Address,
    /// Ended before it was answered.
    Gone,
    /// Silent about what it is for until its time was over.
    Late,
    /// This process ends, and another one takes sessions.
    Leaving,
    /// Nothing that a gateway says.
    Malformed,
    /// Without the proof of the key that it names.
    NotAuthentic,
    /// The system gave no random numbers.
    NoRandomness,
    /// Of a session that is not known.
    NoSession,
    /// Seen before.
    Replayed,
    /// Of a key that no peer has.
    Stranger,
    /// Beyond the rate of key agreements with strangers.
    TooFast,
    /// Beyond the number of connections that wait, or that a peer may have.
    TooMany,
    /// Of no version that both gateways speak.
    Version,
}

impl Rejection {
    /// What it is counted as.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Gone => "gone",
            Self::Late => "late",
            Self::Leaving => "leaving",
            Self::Malformed => "malformed",
            Self::NotAuthentic => "not_authentic",
            Self::NoRandomness => "no_randomness",
            Self::NoSession => "no_session",
            Self::Replayed => "replayed",
            Self::Stranger => "stranger",
            Self::TooFast => "too_fast",
            Self::TooMany => "too_many",
            Self::Version => "version",
        }
    }
}
