//! What both roles do: messages in and out, heartbeats, termination (§7.2 to §7.5).

use crate::{Framer, Item, Message, MessageKind, Status, printable};
use std::collections::VecDeque;
use units::{Duration, Instant};

/// The settings of a participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often it sends heartbeats: whole milliseconds, at least one.
    pub heartbeat: Duration,
    /// What it is, for people.
    pub name: String,
}

/// What the peer has said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// What it is, for people.
    pub name: String,
    /// How often it sends heartbeats.
    pub heartbeat: Duration,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The peer ended it, for this reason.
    ByPeer(Status),
    /// This side ended it, for this reason and in words.
    ByUs(Status, String),
    /// The connection was lost.
    Lost,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ByPeer(status) => write!(f, "ended by the peer: {status}"),
            Self::ByUs(status, why) => write!(f, "ended from here: {status}: {why}"),
            Self::Lost => f.write_str("the connection was lost"),
        }
    }
}

/// Why a message ends the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) Status, pub(crate) String);

impl Fault {
    pub(crate) fn unexpected(message: &Message) -> Self {
        Self(Status::UNEXPECTED_MESSAGE, format!("{:?} may not come now", message.kind))
    }

    pub(crate) fn no_destination(message: &Message) -> Self {
        Self(Status::INVALID_DESTINATION, format!("{:?} of a destination that is not up", message.kind))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first messages are exchanged.
    Initialization,
    InSession,
    /// Our Session Termination waits for its response, or our refusal of a session for the peer's.
    Terminating,
    Over,
}

/// One session, without what the roles make of it.
#[derive(Debug)]
pub(crate) struct Session {
    settings: Settings,
    framer: Framer,
    phase: Phase,
    /// Whether it may say something while the session is being initialized, as a router may.
    speaks_first: bool,
    out: VecDeque<Vec<u8>>,
    out_bytes: usize,
    next_heartbeat: Instant,
    /// The peer's, once it is known.
    peer_heartbeat: Option<Duration>,
    /// By when something must have been heard, or what is left to be said must have been read.
    deadline: Instant,
    end: Option<End>,
    is_end_told: bool,
}

impl Session {
    /// A peer that does not read is given up when so many bytes wait for it.
    const MAX_OUT: usize = 256 * 1024;
    /// With a peer's heartbeats rarer than this, its end would be noticed too late.
    const RAREST: Duration = Duration::from_secs(600);
    /// The least time after which silence means anything.
    const PATIENCE: Duration = Duration::from_millis(500);

    /// How long the peer that speaks first may take until it does.
    const INTRODUCTION: Duration = Duration::from_secs(3);

    /// A session that begins with what this side says.
    pub(crate) fn opening(now: Instant, settings: Settings) -> Self {
        let deadline = now + Self::silence(settings.heartbeat);
        Self::new(settings, deadline, true)
    }

    /// A session that begins with what the peer says.
    pub(crate) fn awaiting(now: Instant, settings: Settings) -> Self {
        Self::new(settings, now + Self::INTRODUCTION, false)
    }

    fn new(settings: Settings, deadline: Instant, speaks_first: bool) -> Self {
        Self {
            settings,
            framer: Framer::default(),
            phase: Phase::Initialization,
            speaks_first,
            out: VecDeque::new(),
            out_bytes: 0,
            next_heartbeat: Instant::FAR_FUTURE,
            peer_heartbeat: None,
            deadline,
            end: None,
            is_end_told: false,
        }
    }

    /// How long a participant may be silent that sends heartbeats so often: for two intervals (§7.3.1).
    fn silence(heartbeat: Duration) -> Duration {
        (heartbeat * 2).max(Self::PATIENCE)
    }

    /// What every first message says of its sender.
    pub(crate) fn introduction(&self) -> Vec<Item> {
        let ms = self.settings.heartbeat.as_nanos() / 1_000_000;
        vec![
            Item::HeartbeatInterval(u32::try_from(ms).unwrap_or(u32::MAX).max(1)),
            Item::PeerType(false, self.settings.name.clone()),
        ]
    }

    /// The peer has introduced itself: the session begins.
    pub(crate) fn begin(&mut self, now: Instant, introduction: &[Item]) -> Result<PeerInfo, Fault> {
        let mut peer = PeerInfo { name: String::new(), heartbeat: Duration::ZERO };
        for item in introduction {
            match item {
                Item::PeerType(_, text) => peer.name = printable(text),
                Item::HeartbeatInterval(ms) => peer.heartbeat = Duration::from_millis(u64::from(*ms)),
                _ => {}
            }
        }
        if peer.heartbeat > Self::RAREST {
            let why = format!("a heartbeat each {} is too rare: {} at most", peer.heartbeat, Self::RAREST);
            return Err(Fault(Status::INVALID_DATA, why));
        }
        self.phase = Phase::InSession;
        self.peer_heartbeat = Some(peer.heartbeat);
        self.deadline = now + Self::silence(peer.heartbeat);
        self.next_heartbeat = now + self.settings.heartbeat;
        Ok(peer)
    }

    /// Until when a request that is made now may remain unanswered.
    pub(crate) fn answer_due(&self, now: Instant) -> Instant {
        now + Self::silence(self.peer_heartbeat.unwrap_or_default().max(self.settings.heartbeat))
    }

    pub(crate) fn is_initializing(&self) -> bool {
        self.phase == Phase::Initialization
    }

    /// Whether the peer has not introduced itself: it may be anything, so it gets no answer (§7.2).
    fn awaits_introduction(&self) -> bool {
        self.is_initializing() && !self.speaks_first
    }

    pub(crate) fn is_in_session(&self) -> bool {
        self.phase == Phase::InSession
    }

    /// Whether nothing remains to be done, and the connection is to be closed.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over && self.out.is_empty()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.phase != Phase::Over {
            self.framer.push(bytes);
        }
    }

    /// The next message that the role has to see.
    pub(crate) fn next_message(&mut self, now: Instant) -> Option<Message> {
        loop {
            if self.phase == Phase::Over {
                return None;
            }
            let message = match self.framer.next_message()? {
                Ok(message) => message,
                // What a peer still says once the session is being ended does not matter.
                Err(_) if self.phase == Phase::Terminating => continue,
                Err(error) => {
                    self.terminate(now, Fault(error.status(), error.to_string()));
                    continue;
                }
            };
            match (self.phase, message.kind) {
                (Phase::Terminating, MessageKind::SessionTerminationResponse) => self.phase = Phase::Over,
                (_, MessageKind::SessionTermination) if !self.awaits_introduction() => {
                    self.deadline = now + Self::silence(self.settings.heartbeat);
                    self.send(&Message::new(MessageKind::SessionTerminationResponse, Vec::new()));
                    let status = message.status().unwrap_or(Status::SUCCESS);
                    self.finish(End::ByPeer(status));
                }
                (Phase::Terminating, _) => {}
                (Phase::InSession, kind) => {
                    self.deadline = now + Self::silence(self.peer_heartbeat.unwrap_or(Self::RAREST));
                    if kind != MessageKind::Heartbeat {
                        return Some(message);
                    }
                }
                (Phase::Initialization | Phase::Over, _) => return Some(message),
            }
        }
    }

    pub(crate) fn send(&mut self, message: &Message) {
        let bytes = message.encode();
        self.out_bytes += bytes.len();
        self.out.push_back(bytes);
        if self.out_bytes > Self::MAX_OUT {
            self.out.clear();
            let why = format!("more than {} bytes wait to be read", Self::MAX_OUT);
            self.finish(End::ByUs(Status::TIMED_OUT, why));
        }
    }

    /// Ends the session and notifies the peer, if it has introduced itself.
    pub(crate) fn terminate(&mut self, now: Instant, Fault(status, why): Fault) {
        if self.awaits_introduction() {
            return self.finish(End::ByUs(status, why));
        }
        if !matches!(self.phase, Phase::Initialization | Phase::InSession) {
            return;
        }
        let status_item = Item::Status(status, why.clone());
        self.end_by(now, Fault(status, why));
        self.send(&Message::new(MessageKind::SessionTermination, vec![status_item]));
    }

    /// The session is over for this side; only what ends it counts of what the peer still says.
    pub(crate) fn end_by(&mut self, now: Instant, Fault(status, why): Fault) {
        self.phase = Phase::Terminating;
        self.deadline = now + Self::silence(self.settings.heartbeat);
        self.end.get_or_insert(End::ByUs(status, why));
    }

    /// The connection is gone.
    pub(crate) fn lost(&mut self) {
        self.out.clear();
        self.finish(End::Lost);
    }

    fn finish(&mut self, end: End) {
        self.phase = Phase::Over;
        self.end.get_or_insert(end);
    }

    /// How the session ended; reported once.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        if std::mem::replace(&mut self.is_end_told, self.end.is_some()) {
            return None;
        }
        self.end.clone()
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::InSession => Some(self.deadline.min(self.next_heartbeat)),
            Phase::Initialization | Phase::Terminating => Some(self.deadline),
            Phase::Over => (!self.out.is_empty()).then_some(self.deadline),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::InSession && self.next_heartbeat <= now {
            self.send(&Message::new(MessageKind::Heartbeat, Vec::new()));
            self.next_heartbeat = now + self.settings.heartbeat;
        }
        if now < self.deadline {
            return;
        }
        match self.phase {
            Phase::Initialization | Phase::InSession => {
                let why = if self.awaits_introduction() {
                    format!("no Session Initialization within {}", Self::INTRODUCTION)
                } else {
                    "nothing was heard for two heartbeat intervals".to_owned()
                };
                self.terminate(now, Fault(Status::TIMED_OUT, why));
            }
            // A peer that does not read, either, must not hold the connection open.
            Phase::Terminating | Phase::Over => {
                self.phase = Phase::Over;
                self.out.clear();
            }
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let bytes = self.out.pop_front()?;
        self.out_bytes -= bytes.len();
        Some(bytes)
    }
}

/// What a role does when a request of its own is not answered.
pub(crate) trait Requests {
    /// Until when it waits for an answer.
    fn overdue_at(&self) -> Option<Instant> {
        None
    }

    /// It goes on without one.
    fn give_up(&mut self) {}
}

/// A session in either role, as its driver sees it.
pub trait Participant {
    /// Takes bytes that the connection has brought.
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]);
    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);
    /// When to call [`Participant::handle_timeout`].
    fn next_timeout(&self) -> Option<Instant>;
    /// Bytes for the connection.
    #[must_use]
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;
    /// The connection is closed, or has failed.
    fn lost(&mut self);
    /// Ends the session in order, for `status` and in words.
    fn terminate(&mut self, now: Instant, status: Status, why: &str);
    /// Whether the session is up.
    fn is_in_session(&self) -> bool;
    /// Whether nothing remains to be done, and the connection is to be closed.
    fn is_over(&self) -> bool;
}

/// Implements [`Participant`] by a role's `session` and its way with a message.
macro_rules! participant {
    ($role:ty) => {
        impl crate::Participant for $role {
            fn handle_bytes(&mut self, now: units::Instant, bytes: &[u8]) {
                self.session.push(bytes);
                while let Some(message) = self.session.next_message(now) {
                    if let Err(fault) = self.on_message(now, &message) {
                        self.session.terminate(now, fault);
                    }
                }
            }

            fn handle_timeout(&mut self, now: units::Instant) {
                self.session.handle_timeout(now);
                if crate::session::Requests::overdue_at(self).is_some_and(|due| due <= now) {
                    crate::session::Requests::give_up(self);
                }
            }

            fn next_timeout(&self) -> Option<units::Instant> {
                let own = self.session.next_timeout()?;
                Some(crate::session::Requests::overdue_at(self).map_or(own, |due| due.min(own)))
            }

            fn poll_transmit(&mut self) -> Option<Vec<u8>> {
                self.session.poll_transmit()
            }

            fn lost(&mut self) {
                self.session.lost();
            }

            fn terminate(&mut self, now: units::Instant, status: crate::Status, why: &str) {
                self.session.terminate(now, crate::session::Fault(status, why.to_owned()));
            }

            fn is_in_session(&self) -> bool {
                self.session.is_in_session()
            }

            fn is_over(&self) -> bool {
                self.session.is_over()
            }
        }
    };
}
pub(crate) use participant;
