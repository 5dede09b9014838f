//! What the log says of sessions. A peer can begin and end them as often as it likes: of the sessions that it begins, each kind of line is
//! written once a minute, and of those that this gateway begins, which end in outages, too, some.

use super::TcpPeer;
use crate::relays::log_limit::LineLimit;
use ::satpep::ResetReason;
use std::net::IpAddr;
use units::Instant;

/// Lines of each kind in a minute about the sessions that this gateway begins with a peer.
const OWN_SESSIONS: u32 = 8;

/// What the log says of the sessions that a peer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLine {
    /// One has begun, from this address.
    Begun(IpAddr),
    /// There is none any more.
    Ended,
}

impl SessionLine {
    /// Writes the line about `peer`. Before it, `not_logged` lines were left out.
    fn say(self, peer: &str, not_logged: Option<u64>) {
        match self {
            Self::Begun(from) => {
                tracing::info!(peer, %from, not_logged, "the peer has begun a session: its connections are accelerated");
            }
            Self::Ended => tracing::warn!(peer, not_logged, "the peer's session has ended"),
        }
    }
}

/// What the log says of the sessions that this gateway begins with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnSessionLine {
    /// One has begun.
    Up,
    /// The process at its other end takes no more connections.
    Drains,
    /// Another process takes over from the one at its other end.
    Succeeded,
    /// Connections are reset for this reason.
    Reset(ResetReason),
    /// It has ended for this reason.
    Down(&'static str),
}

impl OwnSessionLine {
    /// Writes the line about `peer`. Before it, `not_logged` lines were left out.
    fn say(self, peer: &str, not_logged: Option<u64>) {
        match self {
            Self::Up => tracing::info!(peer, not_logged, "peer is up"),
            Self::Drains => tracing::info!(peer, not_logged, "peer drains: it takes no more connections"),
            Self::Succeeded => {
                tracing::info!(peer, not_logged, "another process of the peer takes over: a session with it begins");
            }
            Self::Reset(reason) => tracing::warn!(peer, %reason, not_logged, "the peer's connections are reset"),
            Self::Down(why) => tracing::warn!(peer, not_logged, "peer is not up: {why}"),
        }
    }
}

/// What the log has had of the sessions with a peer.
#[derive(Debug)]
pub(super) struct SessionLines {
    begun_by_peer: LineLimit<SessionLine>,
    own: LineLimit<OwnSessionLine>,
}

impl Default for SessionLines {
    fn default() -> Self {
        Self { begun_by_peer: LineLimit::default(), own: LineLimit::of(OWN_SESSIONS) }
    }
}

impl TcpPeer {
    /// Logs what has happened to the sessions that the peer begins, unless the log has had much of that.
    pub(super) fn log_session(&mut self, now: Instant, line: SessionLine) {
        let lines = &mut self.session_lines.begun_by_peer;
        if let Some((line, not_logged)) = lines.admit(now, line, matches!(line, SessionLine::Begun(_))) {
            line.say(&self.settings.name, not_logged);
        }
    }

    /// The same of the sessions that this gateway begins with it.
    pub(super) fn log_own_session(&mut self, now: Instant, line: OwnSessionLine) {
        let lines = &mut self.session_lines.own;
        if let Some((line, not_logged)) = lines.admit(now, line, line == OwnSessionLine::Up) {
            line.say(&self.settings.name, not_logged);
        }
    }

    /// Logs what was left out of that and holds still, once it is time.
    pub(super) fn log_overdue_sessions(&mut self, now: Instant) {
        if let Some((line, not_logged)) = self.session_lines.begun_by_peer.overdue(now) {
            line.say(&self.settings.name, not_logged);
        }
        if let Some((line, not_logged)) = self.session_lines.own.overdue(now) {
            line.say(&self.settings.name, not_logged);
        }
    }
}
