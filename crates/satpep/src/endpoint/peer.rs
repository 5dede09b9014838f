//! A peer: its keys, its session, and when handshakes with it are due.

use super::brake::Brake;
use super::cookies::Cookies;
use super::path::{Candidates, Way};
use crate::config::PeerConfig;
use crate::event::ClockSkew;
use crate::handshake::{Acquaintance, Agreement, Echo, Pending, TransportParameters};
use crate::pacer::Pacer;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::scheduler::Place;
use crate::seal::Cipher;
use crate::session::{HandshakeCredits, Session};
use crate::stats::PeerStats;
use crate::wire::packet::MAC;
use peering::Versions;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use units::{Duration, Instant};

pub(super) struct Peer<P: Payload> {
    pub(super) config: PeerConfig,
    /// Where it last answered from, or is configured to be.
    pub(super) address: Option<SocketAddr>,
    /// The address of this host that it calls, from which it is answered; `None` if the host chooses.
    pub(super) called: Option<IpAddr>,
    /// Where it may be instead.
    pub(super) candidates: Candidates,
    pub(super) session: Option<Session<P>>,
    /// One that is over, of which something has arrived that is yet to be read.
    pub(super) unread: Option<Box<Session<P>>>,
    /// What its sessions that are over have counted.
    pub(super) past: PeerStats,
    /// Names our side of the session; another one after each session that we gave up.
    pub(super) epoch: u64,
    pub(super) keys: Keys<P::Key>,
    /// Our init that waits for its response, and where it went.
    pub(super) attempt: Option<(Pending, SocketAddr)>,
    /// When the next handshake begins, if one is wanted.
    pub(super) attempt_at: Instant,
    pub(super) attempts: u32,
    /// A challenge asks for the next handshake; one asked for the latest.
    pub(super) prompt: bool,
    pub(super) prompted: bool,
    /// The host takes no datagram as large as a padded handshake's: the next session is begun without.
    pub(super) refuses_padding: bool,
    pub(super) cookies: Cookies,
    /// What our secret with it gives; `None` if its key is no key.
    pub(super) acquaintance: Option<Box<Acquaintance>>,
    /// The outcome of our handshakes since it was last up.
    pub(super) handshakes: Handshakes,
    /// The latest time in its inits, and `mac1` of the latest that was answered: others may be replays.
    pub(super) latest_timestamp: u64,
    pub(super) latest_init: [u8; MAC],
    /// What an init must repeat that may be a replay: the same for all of them until one does.
    pub(super) challenge: Option<Echo>,
    /// What the peer wants repeated.
    pub(super) echo: Echo,
    /// Its clock against ours.
    pub(super) clock: Option<ClockSkew>,
    /// When the peer's clock, and our own, may be reported to the driver again.
    pub(super) clock_news_at: Instant,
    pub(super) own_clock_news_at: Instant,
    /// Inits that were admitted by the secret in the second since.
    answered: (Instant, u32),
    pub(super) limits: KeyLimits,
    /// What our handshakes advertised since the last session began.
    pub(super) advertised: HandshakeCredits,
    pub(super) cap: Option<Pacer>,
    /// What its own way over the link carries, where that is less than the link does; and until when its queue drains.
    pub(super) way: Option<Pacer>,
    pub(super) held_until: Instant,
    pub(super) brake: Brake,
    pub(super) place: Place,
    pub(super) urgent_queued: bool,
    pub(super) ack_queued: bool,
    pub(super) idle_queued: bool,
    pub(super) working_queued: bool,
    pub(super) timer: Option<Instant>,
    /// Attempts left to where a process before this one had it.
    pub(super) attempts_left: u32,
    /// The peer was removed, and is notified of that until then.
    pub(super) leaves_at: Option<Instant>,
    /// When a start probe was last sent to it.
    pub(super) start_probe_at: Option<Instant>,
    /// Whether what that has told may call for a longer one.
    pub(super) awaits_start_probe: bool,
    /// It has left; another peer may have its place.
    pub(super) is_vacant: bool,
}

/// The keys that packets may be sealed with: the current ones; those before, for packets still in flight; and those
/// of a handshake that we answered, until the peer uses them.
pub(super) struct Keys<K> {
    pub(super) current: Option<KeyPair<K>>,
    pub(super) previous: Option<KeyPair<K>>,
    pub(super) unconfirmed: Option<Unconfirmed<K>>,
}

/// Keys of a handshake that we answered.
pub(super) struct Unconfirmed<K> {
    pub(super) pair: KeyPair<K>,
    pub(super) parameters: TransportParameters,
    /// Where the answer went: if the peer uses the keys, there it was.
    pub(super) answered_to: Way,
    /// The length of the answer, if it was padded.
    pub(super) padded: Option<usize>,
    pub(super) answered_at: Instant,
    /// Whether the answer lets the peer open streams.
    pub(super) takes_streams: bool,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { current: None, previous: None, unconfirmed: None }
    }
}

/// The outcome of the handshakes with a peer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handshakes {
    pub(super) attempts: u32,
    /// When the first went out.
    pub(super) first: Option<Instant>,
    pub(super) said: Option<Said>,
}

/// What a peer said instead of completing a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Cookie,
    OtherMode,
    /// It speaks these versions, and whether that is authenticated.
    OtherVersions(Versions, bool),
}

/// How many packets one key seals.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyLimits {
    /// The initiator renews the keys after this many packets; after 1.5 times as many, the responder does.
    pub(super) renew: u64,
    /// Keys are not used for more, renewed or not.
    pub(super) most: u64,
}

impl KeyLimits {
    /// Renewed after half of AES-GCM's bound for full-size packets (RFC 9001, B.1.1). From the responder's turn to the end
    /// there is time for several handshakes at any rate: ten million packets, 50 s at 200,000 a second.
    pub(super) const DEFAULT: Self = Self { renew: 1 << 22, most: 1 << 24 };

    /// Whether a key that sealed `count` packets is due for renewal by us.
    fn wants_renewal(self, count: u64, ours: bool) -> bool {
        count >= if ours { self.renew } else { self.renew * 3 / 2 }
    }
}

pub(super) struct KeyPair<K> {
    pub(super) local_index: u32,
    pub(super) peer_index: u32,
    pub(super) version: u8,
    pub(super) cipher: Cipher,
    /// Shared with a driver that seals and opens in other threads.
    pub(super) send: Arc<K>,
    pub(super) receive: Arc<K>,
    pub(super) since: Instant,
    /// The number of the first packet that may have been sealed with it.
    pub(super) first_number: PacketNumber,
    /// We began the handshake, so renewing the keys is up to us.
    pub(super) ours: bool,
}

impl<K> KeyPair<K> {
    /// Keys are renewed after this time, as WireGuard does.
    pub(super) const REKEY_AFTER: Duration = Duration::from_secs(120);
    /// Keys that only keepalives and their answers were sealed with are kept so long.
    pub(super) const REKEY_UNUSED_AFTER: Duration = Duration::from_secs(900);

    pub(super) fn new(
        agreement: Agreement<K>,
        local_index: u32,
        ours: bool,
        now: Instant,
    ) -> (Self, TransportParameters) {
        let Agreement { send, receive, version, secrets, peer_index, parameters } = agreement;
        (
            Self {
                local_index,
                peer_index,
                version,
                cipher: secrets.suite.cipher,
                send: Arc::new(send),
                receive: Arc::new(receive),
                since: now,
                first_number: PacketNumber::ZERO,
                ours,
            },
            parameters,
        )
    }

    /// How many packets the pair has sealed, with `next` the number of the next.
    fn sealed(&self, next: PacketNumber) -> u64 {
        next.saturating_since(self.first_number)
    }
}

impl<P: Payload> Peer<P> {
    /// Handshakes are repeated after this time, and later each time up to five times as late.
    pub(super) const RETRY: Duration = Duration::from_millis(1000);

    /// Handshakes that are answered in a second because the peer's secret vouches for them.
    pub(super) const MAX_ANSWERED: u32 = 4;

    pub(super) fn new(config: PeerConfig, acquaintance: Option<Acquaintance>, epoch: u64, now: Instant) -> Self {
        Self {
            address: config.address,
            called: None,
            candidates: Candidates::default(),
            cap: config.cap.map(Pacer::new),
            way: None,
            held_until: Instant::ZERO,
            brake: Brake::new(),
            config,
            session: None,
            unread: None,
            past: PeerStats::default(),
            epoch,
            keys: Keys::default(),
            attempt: None,
            attempt_at: now,
            attempts: 0,
            prompt: false,
            prompted: false,
            refuses_padding: false,
            cookies: Cookies::default(),
            acquaintance: acquaintance.map(Box::new),
            handshakes: Handshakes::default(),
            latest_timestamp: 0,
            latest_init: [0; MAC],
            challenge: None,
            echo: Echo::default(),
            clock: None,
            clock_news_at: now,
            own_clock_news_at: now,
            answered: (now, 0),
            limits: KeyLimits::DEFAULT,
            advertised: HandshakeCredits::default(),
            place: Place::default(),
            urgent_queued: false,
            ack_queued: false,
            idle_queued: false,
            working_queued: false,
            timer: None,
            attempts_left: 0,
            leaves_at: None,
            start_probe_at: None,
            awaits_start_probe: false,
            is_vacant: false,
        }
    }

    /// When a handshake should begin; never if the peer has no address or need not be reached.
    pub(super) fn handshake_at(&self) -> Instant {
        if self.address.is_none() || self.leaves_at.is_some() {
            return Instant::FAR_FUTURE;
        }
        if self.prompt {
            return self.attempt_at;
        }
        let wanted = match (&self.keys.current, &self.session) {
            (Some(keys), Some(session)) if !session.is_unresponsive() => {
                let sealed = keys.sealed(session.next_number());
                let is_used = session.last_traffic() >= keys.since;
                let life = if is_used { KeyPair::<P::Key>::REKEY_AFTER } else { KeyPair::<P::Key>::REKEY_UNUSED_AFTER };
                match keys.ours {
                    ours if self.limits.wants_renewal(sealed, ours) => Instant::ZERO,
                    true => keys.since + life,
                    // The peer renews them; if it does not, we do.
                    false => keys.since + life * 3 / 2,
                }
            }
            // A peer without an address waits for an init; one that became unresponsive may have restarted.
            _ if self.config.address.is_some() || self.session.is_some() || self.attempts_left > 0 => Instant::ZERO,
            _ => Instant::FAR_FUTURE,
        };
        wanted.max(self.attempt_at)
    }

    /// Whether the current keys have sealed as many packets as they may, or there are none.
    pub(super) fn is_spent(&self) -> bool {
        let next = self.session.as_ref().map_or(PacketNumber::ZERO, |session| session.next_number());
        self.keys.current.as_ref().is_none_or(|keys| keys.sealed(next) >= self.limits.most)
    }

    /// Whether an init that the peer's secret vouches for is answered now; if so, it counts.
    pub(super) fn may_be_answered(&mut self, now: Instant) -> bool {
        if now.since(self.answered.0) >= Duration::from_secs(1) {
            self.answered = (now, 0);
        }
        self.answered.1 += 1;
        self.answered.1 <= Self::MAX_ANSWERED
    }

    /// Notes that a handshake began.
    pub(super) fn on_attempt(&mut self, now: Instant, rtt: Duration) {
        self.prompted = std::mem::take(&mut self.prompt);
        let interval = Self::RETRY.max(rtt * 2);
        self.attempt_at = now + interval * u64::from((self.attempts + 2).min(10)) / 2;
        self.attempts += 1;
    }

    /// Whether the init of this attempt fills the largest packet, so that its answer proves the path: the first one of a
    /// session does, and what follows a challenge to one that arrived. On a path that does not carry it the next attempts pass.
    pub(super) fn wants_padding(&self) -> bool {
        let is_due = self.prompted || matches!(self.attempts % 4, 0 | 1);
        self.session.is_none() && !self.refuses_padding && is_due
    }

    /// When the peer has something to do by time.
    pub(super) fn next_timeout(&self, now: Instant) -> Instant {
        if let Some(at) = self.leaves_at {
            return if self.is_vacant { Instant::FAR_FUTURE } else { at.min(self.attempt_at) };
        }
        let session = self.session.as_ref();
        let timers = session.map_or(Instant::FAR_FUTURE, |session| session.next_timeout(now));
        let waits = |session: &Session<P>| session.has_paced(now) || session.has_idle(now);
        let capped = match session {
            Some(session) if !self.is_within_cap(now) && waits(session) => {
                let next = |pacer: &Option<Pacer>| pacer.as_ref().map_or(Instant::ZERO, Pacer::next);
                next(&self.cap).max(next(&self.way)).max(self.held_until).max(self.brake.next())
            }
            _ => Instant::FAR_FUTURE,
        };
        let challenge = self.candidates.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        timers.min(capped).min(challenge).min(self.handshake_at())
    }

    /// The pair that a packet names.
    pub(super) fn key_pair(&self, local_index: u32) -> Option<&KeyPair<P::Key>> {
        if self.leaves_at.is_some() {
            return None;
        }
        let unconfirmed = self.keys.unconfirmed.as_ref().map(|unconfirmed| &unconfirmed.pair);
        [self.keys.current.as_ref(), self.keys.previous.as_ref(), unconfirmed]
            .into_iter()
            .flatten()
            .find(|pair| pair.local_index == local_index)
    }

    /// Whether the index is that of the keys which the peer has not used yet.
    pub(super) fn is_unconfirmed(&self, local_index: u32) -> bool {
        self.keys.unconfirmed.as_ref().is_some_and(|unconfirmed| unconfirmed.pair.local_index == local_index)
    }
}
