//! A peer: its keys, its session, and when handshakes with it are due.

use super::path::Candidates;
use crate::config::PeerConfig;
use crate::handshake::{Agreement, Hello, Pending};
use crate::pacer::Pacer;
use crate::payload::Payload;
use crate::scheduler::Place;
use crate::session::Session;
use crate::wire::packet::COOKIE_BYTES;
use std::net::SocketAddr;
use units::{Duration, Instant};

pub(super) struct Peer<P: Payload> {
    pub(super) config: PeerConfig,
    /// Where it last answered from, or is configured to be.
    pub(super) address: Option<SocketAddr>,
    /// Where it may be instead.
    pub(super) candidates: Candidates,
    pub(super) session: Option<Session<P>>,
    /// Names our side of the session; another one after each session that we gave up.
    pub(super) epoch: u64,
    pub(super) keys: Keys<P::Key>,
    /// Our handshake under way, and where it went.
    pub(super) attempt: Option<(Pending, SocketAddr)>,
    /// When the next handshake begins, if one is wanted.
    pub(super) attempt_at: Instant,
    pub(super) attempts: u32,
    pub(super) cookie: Option<([u8; COOKIE_BYTES], Instant)>,
    /// The latest timestamp of its handshakes; older ones are replays.
    pub(super) last_timestamp: u64,
    pub(super) cap: Option<Pacer>,
    pub(super) place: Place,
    pub(super) urgent_queued: bool,
    pub(super) ack_queued: bool,
    pub(super) idle_queued: bool,
    pub(super) working_queued: bool,
    pub(super) timer: Option<Instant>,
    /// The peer was removed, and is told so until then.
    pub(super) leaves_at: Option<Instant>,
    /// It has left; another peer may have its place.
    pub(super) is_vacant: bool,
}

/// The keys that datagrams may be sealed with: the current ones; those before, for datagrams still under way; and those
/// of a handshake that we answered, until the peer uses them.
pub(super) struct Keys<K> {
    pub(super) current: Option<KeyPair<K>>,
    pub(super) previous: Option<KeyPair<K>>,
    pub(super) unconfirmed: Option<Unconfirmed<K>>,
}

/// Keys of a handshake that we answered.
pub(super) struct Unconfirmed<K> {
    pub(super) pair: KeyPair<K>,
    pub(super) hello: Hello,
    /// Where the answer went: if the peer uses the keys, there it was.
    pub(super) answered_to: SocketAddr,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { current: None, previous: None, unconfirmed: None }
    }
}

pub(super) struct KeyPair<K> {
    pub(super) local_index: u32,
    pub(super) peer_index: u32,
    pub(super) send: K,
    pub(super) receive: K,
    pub(super) since: Instant,
    /// The number of the first datagram that may have been sealed with it.
    pub(super) first_number: u64,
    /// We began the handshake, so renewing the keys is up to us.
    pub(super) ours: bool,
}

impl<K> KeyPair<K> {
    /// Keys are renewed after this time, as WireGuard does.
    const REKEY_AFTER: Duration = Duration::from_secs(120);
    /// Keys that only keepalives and their answers were sealed with are kept so long.
    const REKEY_UNUSED_AFTER: Duration = Duration::from_secs(900);
    /// Keys are renewed after this many datagrams: half of AES-GCM's bound for full-size packets (RFC 9001, B.1.1).
    const REKEY_AFTER_DATAGRAMS: u64 = 1 << 22;
    /// Keys are not used for more datagrams than this, renewed or not.
    const MAX_DATAGRAMS: u64 = 1 << 24;

    pub(super) fn new(agreement: Agreement<K>, local_index: u32, ours: bool, now: Instant) -> (Self, Hello) {
        let Agreement { send, receive, peer_index, hello } = agreement;
        (Self { local_index, peer_index, send, receive, since: now, first_number: 0, ours }, hello)
    }

    /// Whether the pair has sealed as many datagrams as it may, with `next` the number of the next.
    pub(super) fn is_spent(&self, next: u64) -> bool {
        next - self.first_number.min(next) >= Self::MAX_DATAGRAMS
    }
}

impl<P: Payload> Peer<P> {
    /// Handshakes are repeated after this time, and later each time up to five times as late.
    const RETRY: Duration = Duration::from_millis(1000);

    pub(super) fn new(config: PeerConfig, epoch: u64, now: Instant) -> Self {
        Self {
            address: config.address,
            candidates: Candidates::default(),
            cap: config.cap.map(Pacer::new),
            config,
            session: None,
            epoch,
            keys: Keys::default(),
            attempt: None,
            attempt_at: now,
            attempts: 0,
            cookie: None,
            last_timestamp: 0,
            place: Place::default(),
            urgent_queued: false,
            ack_queued: false,
            idle_queued: false,
            working_queued: false,
            timer: None,
            leaves_at: None,
            is_vacant: false,
        }
    }

    /// When a handshake should begin; never if the peer can't be called or need not be.
    pub(super) fn handshake_at(&self) -> Instant {
        if self.address.is_none() || self.leaves_at.is_some() {
            return Instant::FAR_FUTURE;
        }
        let wanted = match (&self.keys.current, &self.session) {
            (Some(keys), Some(session)) if !session.is_silent() => {
                let sealed = session.ledger.next_number().saturating_sub(keys.first_number);
                let is_used = session.last_traffic() >= keys.since;
                let life = if is_used { KeyPair::<P::Key>::REKEY_AFTER } else { KeyPair::<P::Key>::REKEY_UNUSED_AFTER };
                match keys.ours {
                    true if sealed >= KeyPair::<P::Key>::REKEY_AFTER_DATAGRAMS => Instant::ZERO,
                    true => keys.since + life,
                    // The peer renews them; if it does not, we do.
                    false => keys.since + life * 3 / 2,
                }
            }
            // A peer that was never called waits for a call; one that fell silent may have restarted.
            _ if self.config.address.is_some() || self.session.is_some() => Instant::ZERO,
            _ => Instant::FAR_FUTURE,
        };
        wanted.max(self.attempt_at)
    }

    /// Notes that a handshake began.
    pub(super) fn on_attempt(&mut self, now: Instant, rtt: Duration) {
        let interval = Self::RETRY.max(rtt * 2);
        self.attempt_at = now + interval * u64::from((self.attempts + 2).min(10)) / 2;
        self.attempts += 1;
    }

    /// When the peer has something to do by time.
    pub(super) fn next_timeout(&self, now: Instant) -> Instant {
        if let Some(at) = self.leaves_at {
            return if self.is_vacant { Instant::FAR_FUTURE } else { at.min(self.attempt_at) };
        }
        let session = self.session.as_ref();
        let timers = session.map_or(Instant::FAR_FUTURE, |session| session.next_timeout(now));
        let waits = |session: &Session<P>| session.has_paced(now) || session.has_idle(now);
        let capped = match (&self.cap, session) {
            (Some(cap), Some(session)) if waits(session) && !cap.is_ready(now) => cap.next(),
            _ => Instant::FAR_FUTURE,
        };
        let challenge = self.candidates.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        timers.min(capped).min(challenge).min(self.handshake_at())
    }

    /// The pair that a datagram names.
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
