//! The session with a peer: who it is, whether it answers, and the key of its tunnel requests.

use super::rejection::Rejection;
use tcp_tunnel::control::Reader;
use tcp_tunnel::replay::ReplayWindow;
use tcp_tunnel::{CHALLENGE, Challenge, Hello, SessionKey, TAG, Trial, TunnelRequest};
use units::{Duration, Instant};

/// The least time between two probes.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// How long to wait before a peer that could not be reached is tried again.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The longest time for which an initiator may leave its session without probes while nothing is in flight.
const LONGEST_KEEPALIVE: Duration = Duration::from_secs(3600);
/// How long a connection may take to say who makes it; on a long path four round trips.
const AUTHENTICATION: Duration = Duration::from_secs(10);
/// An initiator is gone if it has said nothing for so long beyond that.
const INITIATOR_SILENCE: Duration = Duration::from_secs(60);
/// How long interception waits at most for the first warm connection and for what packets the path
/// carries, beyond twenty round trips.
const SETTLING: Duration = Duration::from_secs(10);

/// How long things take on a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeTimers {
    pub(super) probe: Duration,
    /// How long a probe, or a hello, may remain unanswered.
    pub(super) unresponsive_after: Duration,
    pub(super) retry: Duration,
    pub(super) initiator_silence: Duration,
    /// The longest time without a message from here.
    pub(super) keepalive: Duration,
    /// The longest that the peer's settings may say.
    pub(super) longest_keepalive: Duration,
    /// Until when an initiator has to have proved its key.
    pub(super) authentication: Duration,
    pub(super) settling: Duration,
}

impl ProbeTimers {
    /// On a link whose round-trip time is expected to be `rtt`: a lost probe, and the one that goes in its place, are not
    /// yet silence. While nothing is under way, something is said each `keepalive`.
    pub(super) fn new(rtt: Duration, keepalive: Duration) -> Self {
        let probe = PROBE_PERIOD.max(rtt);
        Self {
            probe,
            unresponsive_after: probe * 2 + rtt * 4,
            retry: RETRY_PERIOD,
            initiator_silence: INITIATOR_SILENCE + LONGEST_KEEPALIVE + rtt * 4,
            keepalive: keepalive.max(probe),
            longest_keepalive: LONGEST_KEEPALIVE,
            authentication: AUTHENTICATION.max(rtt * 4),
            settling: SETTLING + rtt * 20,
        }
    }
}

/// The session with a peer of which this gateway is the initiator.
#[derive(Debug)]
pub(super) enum Initiator {
    /// It is made again at this time.
    Waits(Instant),
    /// Connection `tunnel` has said hello.
    HelloSent {
        /// Its place in the table.
        tunnel: usize,
        hello: Hello,
        challenge: Vec<u8>,
        until: Instant,
    },
    /// The peer has proved who it is.
    Up {
        tunnel: usize,
        key: SessionKey,
        /// Whether the proof has arrived: nothing is opened before, for the session may be lost with it.
        is_confirmed: bool,
        /// The number of the next tunnel request.
        next: u64,
        reader: Reader,
        /// When it is looked at next.
        next_look: Instant,
        /// When something was said last.
        said_at: Instant,
        /// When the peer counts as unresponsive, if it does not answer what it has been asked, or its host acknowledges nothing.
        unresponsive_at: Option<Instant>,
        /// Until when interception waits for what makes connections quick; none once that was there.
        settles_at: Option<Instant>,
        /// Whether the peer has room for more connections.
        has_room: bool,
        /// Whether the process at the other end takes no more.
        is_draining: bool,
        /// Whether it was notified that this one takes no more.
        is_told_leaving: bool,
    },
}

impl Initiator {
    /// When something is to be done.
    pub(super) fn due(&self) -> Instant {
        match self {
            Initiator::Waits(until) | Initiator::HelloSent { until, .. } => *until,
            Initiator::Up { next_look, unresponsive_at, .. } => {
                unresponsive_at.map_or(*next_look, |unresponsive_at| unresponsive_at.min(*next_look))
            }
        }
    }

    /// The place of its connection.
    pub(super) fn tunnel(&self) -> Option<usize> {
        match self {
            Initiator::Waits(_) => None,
            Initiator::HelloSent { tunnel, .. } | Initiator::Up { tunnel, .. } => Some(*tunnel),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self, Initiator::Up { .. })
    }

    /// Whether connections that begin now had better go through the peer.
    pub(super) fn invites(&self) -> bool {
        matches!(self, Initiator::Up { settles_at: None, has_room: true, is_draining: false, .. })
    }

    /// Whether no full packet has returned from it yet, and connections wait for that.
    pub(super) fn is_settling(&self) -> bool {
        matches!(self, Initiator::Up { settles_at: Some(_), .. })
    }

    /// Whether the process at the other end has said that it takes no more connections.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self, Initiator::Up { is_draining: true, .. })
    }

    /// How many bytes of the challenge are missing.
    pub(super) fn missing(&self) -> usize {
        match self {
            Initiator::HelloSent { challenge, .. } => CHALLENGE - challenge.len(),
            _ => 0,
        }
    }

    /// The challenge, once it is complete: none if the bytes are no challenge.
    pub(super) fn challenge(&self) -> Option<(Hello, Option<Challenge>)> {
        match self {
            Initiator::HelloSent { hello, challenge, .. } => {
                challenge.first_chunk().map(|bytes| (*hello, Challenge::decode(bytes)))
            }
            _ => None,
        }
    }
}

/// The responder's end of a control connection.
#[derive(Debug)]
pub(super) struct Responder {
    pub(super) peer: usize,
    pub(super) session: u64,
    key: SessionKey,
    /// What the session began with.
    hello: Hello,
    challenge: Challenge,
    proof: Vec<u8>,
    is_proved: bool,
    /// Whether the initiating process opens no more connections.
    pub(super) is_leaving: bool,
    /// Of what it says from then on.
    pub(super) reader: Reader,
}

impl Responder {
    pub(super) fn new(peer: usize, key: SessionKey, hello: Hello, challenge: Challenge) -> Self {
        let session = challenge.session;
        let (proof, reader) = (Vec::new(), Reader::new());
        Self { peer, session, key, hello, challenge, proof, is_proved: false, is_leaving: false, reader }
    }

    /// Whether the initiator has proved its key: what it sends from now on are messages.
    pub(super) fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// How many bytes of the proof are missing.
    pub(super) fn missing(&self) -> usize {
        TAG - self.proof.len()
    }

    /// Reads on in the proof. Returns the session, which begins at `now`, when it is complete and right.
    ///
    /// # Errors
    /// If it is wrong.
    pub(super) fn push(&mut self, now: Instant, bytes: &[u8]) -> Result<Option<Accepted>, NotAuthentic> {
        self.proof.extend_from_slice(bytes);
        let Some(proof) = self.proof.first_chunk() else { return Ok(None) };
        if !self.key.is_proof(proof) {
            return Err(NotAuthentic);
        }
        self.is_proved = true;
        let Self { peer, hello, challenge, .. } = *self;
        let (key, window) = (self.key.clone(), ReplayWindow::new());
        Ok(Some(Accepted { peer, begun_at: now, key, window, hello, challenge }))
    }
}

/// Not the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAuthentic;

/// A session that a peer has begun: it may open connections here.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) peer: usize,
    pub(super) begun_at: Instant,
    pub(super) key: SessionKey,
    pub(super) window: ReplayWindow,
    /// What it began with.
    pub(super) hello: Hello,
    pub(super) challenge: Challenge,
}

impl Accepted {
    /// Takes a trial of the path, once.
    pub(super) fn take_trial(&mut self, trial: &Trial) -> Result<(), Rejection> {
        self.take_once(self.key.is_tried_by_peer(trial), trial.number)
    }

    /// Takes a tunnel request, once.
    pub(super) fn take(&mut self, tunnel_request: &TunnelRequest) -> Result<(), Rejection> {
        self.take_once(self.key.is_made_by_peer(tunnel_request), tunnel_request.number)
    }

    fn take_once(&mut self, is_authentic: bool, number: u64) -> Result<(), Rejection> {
        if !is_authentic {
            Err(Rejection::NotAuthentic)
        } else if !self.window.take(number) {
            Err(Rejection::Replayed)
        } else {
            Ok(())
        }
    }
}
