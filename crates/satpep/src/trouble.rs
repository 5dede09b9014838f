//! Why a peer is not up, as far as it shows in the handshakes, and who else initiates.

use crate::seal::Mode;
use peering::PublicKey;
use peering::Versions;
use std::net::SocketAddr;
use units::{Duration, Instant};

/// Why a peer is not up, by what was seen of it so far ([`Endpoint::peer_trouble`](crate::Endpoint::peer_trouble)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// It has no configured address, so that it must initiate, and no handshake of it that authenticates has arrived. If it
    /// does initiate: does it have this gateway's public key, address and port, and is its own public key the configured one
    /// ([`Endpoint::strangers`](crate::Endpoint::strangers) says who else initiated)?
    NotInitiated,
    /// It was sent inits `attempts` times in the last `since`, to no answer at all. A gateway does not answer inits for
    /// a wrong public key, or whose own key it does not know; nor does it if address, port or a firewall is wrong, or it is
    /// not running.
    NoAnswer {
        /// Handshakes sent.
        attempts: u32,
        /// Time since the first of them.
        since: Duration,
    },
    /// The only answers were cookies: it is flooded with handshakes, or an attacker on the path forges them.
    OnlyCookies {
        /// Handshakes sent.
        attempts: u32,
        /// Time since the first of them.
        since: Duration,
    },
    /// It uses the other mode, and said so under authentication: `mode` must be the same on both sides.
    OtherMode {
        /// The mode of this gateway.
        ours: Mode,
    },
    /// It speaks no version that this gateway speaks.
    OtherVersions {
        /// The versions of this gateway.
        ours: Versions,
        /// The versions that the peer speaks.
        theirs: Versions,
        /// Whether the peer has said so under authentication; otherwise anyone who knows its public key can have said so.
        is_proven: bool,
    },
}

/// An initiator that is none of its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// What is wrong with it.
    pub fault: StrangerFault,
    /// Where its latest handshake came from. Addresses can be forged.
    pub from: SocketAddr,
    /// When the first arrived.
    pub first: Instant,
    /// When the latest arrived.
    pub latest: Instant,
    /// How many arrived.
    pub handshakes: u64,
    reported: Option<Instant>,
}

/// Why a handshake is a stranger's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrangerFault {
    /// It knows this gateway's public key and has this key itself, which is no peer's. Anyone can repeat the handshake of
    /// another, so `from` need not be where the holder of the key is.
    UnknownKey(PublicKey),
    /// Its init is for a public key that is not this gateway's.
    OtherResponderKey,
    /// It speaks these versions, in which its key cannot be read.
    OtherVersions(Versions),
}

/// The latest strangers: a short list, however many there are.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    list: Vec<Stranger>,
    /// When all allowance for new ones would be back.
    allowed_at: Instant,
}

impl Strangers {
    /// Strangers that are remembered.
    const MAX: usize = 16;
    /// New ones are noted at this pace, a few at once: what is noted is logged.
    const PACE: Duration = Duration::from_secs(10);
    const AT_ONCE: u64 = 4;
    /// One that goes on is reported again after this time.
    const REPORT_AGAIN: Duration = Duration::from_secs(600);

    /// A handshake of a stranger arrived.
    pub(crate) fn note(&mut self, now: Instant, from: SocketAddr, fault: StrangerFault) {
        let same = |known: &&mut Stranger| {
            known.fault == fault && (matches!(fault, StrangerFault::UnknownKey(_)) || known.from.ip() == from.ip())
        };
        if let Some(known) = self.list.iter_mut().find(same) {
            (known.from, known.latest) = (from, now);
            known.handshakes += 1;
            return;
        }
        if self.allowed_at > now + Self::PACE * (Self::AT_ONCE - 1) {
            return;
        }
        self.allowed_at = self.allowed_at.max(now) + Self::PACE;
        if self.list.len() == Self::MAX {
            let oldest = (0..self.list.len()).min_by_key(|at| self.list[*at].latest).unwrap_or(0);
            self.list.swap_remove(oldest);
        }
        self.list.push(Stranger { fault, from, first: now, latest: now, handshakes: 1, reported: None });
    }

    /// One that has not been reported for a while.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Stranger> {
        let due = |stranger: &&mut Stranger| {
            stranger.reported.is_none_or(|at| at + Self::REPORT_AGAIN <= now && stranger.latest > at)
        };
        let stranger = self.list.iter_mut().find(due)?;
        stranger.reported = Some(now);
        Some(*stranger)
    }

    pub(crate) fn list(&self) -> &[Stranger] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn from(host: u64) -> SocketAddr {
        SocketAddr::from(([203, 0, (host >> 8) as u8, host as u8], 4500))
    }

    #[test]
    fn a_stranger_is_reported_once_in_a_while_with_what_it_did() {
        let mut strangers = Strangers::default();
        let fault = StrangerFault::UnknownKey(PublicKey::from_bytes([1; 32]));
        (0..599).for_each(|second| strangers.note(at(second), from(second), fault));
        let first = strangers.poll(at(599)).expect("new");
        assert_eq!((first.handshakes, first.from, first.first, first.latest), (599, from(598), at(0), at(598)));
        assert_eq!(strangers.poll(at(600)), None);
        strangers.note(at(700), from(1), fault);
        assert_eq!(strangers.poll(at(1198)), None);
        assert_eq!(strangers.poll(at(1199)).map(|stranger| stranger.handshakes), Some(600));
        assert_eq!(strangers.poll(at(9000)), None, "it has sent no other init");
    }

    #[test]
    fn a_thousand_strangers_a_second_cost_a_short_list_and_few_reports() {
        let mut strangers = Strangers::default();
        let mut reports = 0;
        for second in 0..1000 {
            (0..1000).for_each(|host| strangers.note(at(second), from(host), StrangerFault::OtherResponderKey));
            reports += std::iter::from_fn(|| strangers.poll(at(second))).count();
            assert!(strangers.list().len() <= Strangers::MAX);
        }
        assert!(reports <= 125, "{reports} reports");
    }
}
