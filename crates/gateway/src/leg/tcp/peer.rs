//! What there is with one peer.

use super::calls::FastOpen;
use super::session::Call;
use crate::config::Peer;
use crate::trouble::Trouble;
use relay::reach::Reach;
use std::collections::VecDeque;
use units::Instant;

/// What there is with one peer.
#[derive(Debug)]
pub(super) struct PeerLeg {
    pub(super) settings: Peer,
    pub(super) call: Option<Call>,
    /// Sessions that it has begun, the newest last.
    pub(super) sessions: VecDeque<u64>,
    /// The connection of the newest.
    pub(super) called_by: Option<usize>,
    pub(super) has_been_up: bool,
    /// Why it is not up, as far as was seen.
    pub(super) trouble: Option<Trouble>,
    /// When it last answered or sent a probe.
    pub(super) heard_at: Instant,
    /// The run of the peer's process that the last session was with.
    pub(super) epoch: Option<u64>,
    pub(super) warm: VecDeque<usize>,
    pub(super) next_warm: Instant,
    pub(super) fast_open: FastOpen,
    /// What it may use here, as it is told.
    pub(super) reach: Vec<u8>,
    /// What it lets this gateway use, if it has told.
    pub(super) allows: Option<Reach>,
    pub(super) streams: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) retransmitted_segments: u64,
}

impl PeerLeg {
    pub(super) fn new(settings: &Peer, now: Instant) -> Self {
        let is_called = settings.public_key.is_some() && settings.address.is_some();
        Self {
            settings: settings.clone(),
            call: is_called.then_some(Call::Waits(now)),
            sessions: VecDeque::new(),
            called_by: None,
            has_been_up: false,
            trouble: None,
            heard_at: now,
            epoch: None,
            warm: VecDeque::new(),
            next_warm: now,
            fast_open: FastOpen::default(),
            reach: Vec::new(),
            allows: None,
            streams: 0,
            sent: 0,
            received: 0,
            retransmitted_segments: 0,
        }
    }

    /// Whether there is no gateway on the far side.
    pub(super) fn is_direct(&self) -> bool {
        self.settings.public_key.is_none()
    }
}
