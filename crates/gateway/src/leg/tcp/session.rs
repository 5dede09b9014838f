//! The session with a peer: who it is, whether it answers, and the key of its openings.

use relay::hop::once::Window;
use relay::hop::{CHALLENGE, Challenge, Hello, Opening, SessionKey, TAG};
use units::{Duration, Instant};

/// The least time between two probes.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// How long to wait before a peer that could not be reached is called again.
const REDIAL_PERIOD: Duration = Duration::from_secs(1);
/// A peer that calls is gone if it has sent no probe for so long.
const CALLER_SILENCE: Duration = Duration::from_secs(60);

/// How long things take on a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) probe: Duration,
    /// How long a probe, or a call, may remain unanswered.
    pub(super) silence: Duration,
    pub(super) redial: Duration,
    pub(super) caller_silence: Duration,
}

impl Pace {
    /// On a link whose round-trip time is expected to be `rtt`: a lost probe, and the one that goes in its place, are not
    /// yet silence.
    pub(super) fn new(rtt: Duration) -> Self {
        let probe = PROBE_PERIOD.max(rtt);
        Self { probe, silence: probe * 2 + rtt * 4, redial: REDIAL_PERIOD, caller_silence: CALLER_SILENCE + rtt * 4 }
    }
}

/// What this side's call of a peer has come to.
#[derive(Debug)]
pub(super) enum Call {
    /// It is made again at this time.
    Waits(Instant),
    /// Connection `hop` has said hello.
    Dialled {
        /// Its place in the table.
        hop: usize,
        hello: Hello,
        challenge: Vec<u8>,
        until: Instant,
    },
    /// The peer has proved who it is.
    Up {
        hop: usize,
        key: SessionKey,
        /// The number of the next opening.
        next: u64,
        next_probe: Instant,
        /// When the peer counts as silent: moved on by every answer.
        silent_at: Instant,
    },
}

impl Call {
    /// When something is to be done.
    pub(super) fn due(&self) -> Instant {
        match self {
            Call::Waits(until) | Call::Dialled { until, .. } => *until,
            Call::Up { next_probe, silent_at, .. } => *next_probe.min(silent_at),
        }
    }

    /// The place of its connection.
    pub(super) fn hop(&self) -> Option<usize> {
        match self {
            Call::Waits(_) => None,
            Call::Dialled { hop, .. } | Call::Up { hop, .. } => Some(*hop),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self, Call::Up { .. })
    }

    /// How many bytes of the challenge are missing.
    pub(super) fn missing(&self) -> usize {
        match self {
            Call::Dialled { challenge, .. } => CHALLENGE - challenge.len(),
            _ => 0,
        }
    }

    /// The challenge, once it is complete.
    pub(super) fn challenge(&self) -> Option<(Hello, Challenge)> {
        match self {
            Call::Dialled { hello, challenge, .. } => {
                challenge.first_chunk().map(|bytes| (*hello, Challenge::decode(bytes)))
            }
            _ => None,
        }
    }
}

/// The called side of a session's own connection.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) peer: usize,
    pub(super) session: u64,
    key: SessionKey,
    proof: Vec<u8>,
    is_proved: bool,
}

impl Called {
    pub(super) fn new(peer: usize, session: u64, key: SessionKey) -> Self {
        Self { peer, session, key, proof: Vec::new(), is_proved: false }
    }

    /// Whether the caller has proved who it is: what it sends from now on are probes.
    pub(super) fn is_proved(&self) -> bool {
        self.is_proved
    }

    /// How many bytes of the proof are missing.
    pub(super) fn missing(&self) -> usize {
        TAG - self.proof.len()
    }

    /// Reads on in the proof. Returns the session when it is complete and right.
    ///
    /// # Errors
    /// If it is wrong.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<Accepted>, NotAuthentic> {
        self.proof.extend_from_slice(bytes);
        let Some(proof) = self.proof.first_chunk() else { return Ok(None) };
        if !self.key.is_proof(proof) {
            return Err(NotAuthentic);
        }
        self.is_proved = true;
        Ok(Some(Accepted { peer: self.peer, key: self.key.clone(), window: Window::new() }))
    }
}

/// Somebody else than the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAuthentic;

/// A session that a peer has begun: it may open connections here.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) peer: usize,
    key: SessionKey,
    window: Window,
}

/// Why an opening is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    NotAuthentic,
    Replayed,
}

impl Accepted {
    /// Takes an opening, once.
    pub(super) fn take(&mut self, opening: &Opening) -> Result<(), Refusal> {
        if !self.key.is_made_by_peer(opening) {
            Err(Refusal::NotAuthentic)
        } else if !self.window.take(opening.number) {
            Err(Refusal::Replayed)
        } else {
            Ok(())
        }
    }
}
