//! One relayed connection in the engine's table.

use super::accounts::{Direction, MIN_STALL, StallCause};
use super::{EndCause, Hosts};
use crate::connect::ConnectRequest;
use crate::connection::State;
use units::{Duration, Instant};

/// A relayed connection: TCP with a host at this gateway, a stream towards the other gateway.
#[derive(Debug)]
pub struct Relayed<S, H: Hosts> {
    pub(super) state: State,
    pub(super) stream: S,
    pub(super) peer: usize,
    pub(super) is_near: bool,
    pub(super) request: Option<ConnectRequest>,
    pub(super) started: Instant,
    /// When its client connected: before it began if it had to wait.
    pub(super) asked: Instant,
    /// The place of its class's account.
    pub(super) account: usize,
    /// Since when bytes of each direction wait for room at its end.
    pub(super) stalled_since: [Option<Instant>; 2],
    pub(super) from_tcp: u64,
    pub(super) to_tcp: u64,
    pub(super) tcp: Option<H::Connection>,
    pub(super) syn: Option<H::Syn>,
    pub(super) deadline: Option<Instant>,
    /// When its server accepted.
    pub(super) opened: Option<Instant>,
    pub(super) counted: Counted,
    /// Why it ends, if the event that ends it does not say.
    pub(super) cause: Option<EndCause>,
    pub(super) is_queued: bool,
    /// A write to TCP has failed; what its host sent before is still read.
    pub(super) host_write_failed: bool,
    /// One of the hosts has reset its connection: how far what it sent before had come when that was looked at last.
    pub(super) before_end: Option<Moved>,
    /// In state [`State::Resetting`]: what the host had not acknowledged, which is to become less.
    pub(super) progress: Option<u64>,
    /// Since when that has not changed.
    pub(super) progress_at: Instant,
}

/// As what a connection has been counted, before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Not,
    /// Accepted from its client, or connected to its server.
    Open,
    /// Neither, and why.
    Failed,
}

/// How far the bytes of a connection have come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// Bytes moved both ways.
    pub(super) bytes: u64,
    /// Of those, how many the host and the other gateway have not acknowledged. A socket takes more bytes only once a large part of its buffer
    /// is free, which on a slow path takes long: until then, only these figures change.
    pub(super) unacknowledged: [u64; 2],
}

impl Moved {
    /// Whether anything has been moved or acknowledged since it was `before`.
    pub(super) fn goes_on_from(&self, before: &Self) -> bool {
        let is_less = |(now, before): (u64, u64)| now < before;
        self.bytes > before.bytes || self.unacknowledged.into_iter().zip(before.unacknowledged).any(is_less)
    }
}

impl<S: Copy, H: Hosts> Relayed<S, H> {
    pub(super) fn new(state: State, stream: S, peer: usize, is_near: bool, now: Instant) -> Self {
        Self {
            state,
            stream,
            peer,
            is_near,
            request: None,
            started: now,
            asked: now,
            account: 0,
            stalled_since: [None; 2],
            from_tcp: 0,
            to_tcp: 0,
            tcp: None,
            syn: None,
            deadline: None,
            opened: None,
            counted: Counted::Not,
            cause: None,
            is_queued: false,
            host_write_failed: false,
            before_end: None,
            progress: None,
            progress_at: now,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether bytes that the stream offers can be written to TCP.
    pub(super) fn writes_tcp(&self) -> bool {
        self.state.reads_stream() && !self.host_write_failed
    }

    /// Its stream.
    pub fn stream(&self) -> S {
        self.stream
    }

    /// The place of its peer.
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// Whether this gateway is the near one: the client's.
    pub fn is_near(&self) -> bool {
        self.is_near
    }

    /// Its client, server and DSCP, once known.
    pub fn request(&self) -> Option<&ConnectRequest> {
        self.request.as_ref()
    }

    /// When it began here.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Bytes read from TCP and taken by the stream.
    pub fn from_tcp(&self) -> u64 {
        self.from_tcp
    }

    /// Bytes read from the stream and taken by TCP.
    pub fn to_tcp(&self) -> u64 {
        self.to_tcp
    }

    /// What its bytes wait for at `now`, and for how long, if none have moved for a second: of both directions, the longer wait.
    pub fn stall(&self, now: Instant) -> Option<(StallCause, Duration)> {
        let wait = |direction: Direction| Some((direction.cause(), now.since(self.stalled_since[direction as usize]?)));
        let waits = [Direction::ToStream, Direction::ToTcp].into_iter().filter_map(wait);
        waits.filter(|(_, time)| *time >= MIN_STALL).max_by_key(|(_, time)| *time)
    }

    /// Its TCP connection with the host, if there is one.
    pub fn tcp(&self) -> Option<&H::Connection> {
        self.tcp.as_ref()
    }

    /// Whether the client waits for an answer to its SYN.
    pub(super) fn is_unaccepted(&self) -> bool {
        matches!(self.state, State::Confirming | State::Released)
    }
}
