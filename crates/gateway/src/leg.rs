//! The satellite leg: how the bytes of relayed connections cross the satellite.
//!
//! [`crate::relays`] and [`crate::daemon`] are the same for every leg: what is intercepted, who may reach what, how
//! connections open and end. A leg carries *streams*, one for each relayed connection: two directions that end each
//! alone, and a reset that ends both.

pub(crate) mod satpep;
pub(crate) mod tcp;

use crate::config::{Class, Peer, Settings};
use crate::snapshot;
use crate::told::Told;
use crate::trouble::Trouble;
use ::satpep::ResetReason;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use relay::preamble::{Open, PreambleError};
use relay::reach::Reach;
use socket2::Socket;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use units::{Duration, Instant, Rate};

/// How the satellite side works.
pub(crate) trait Leg: Debug {
    /// What the settings call it.
    const NAME: &'static str;
    /// Names a stream.
    type Stream: Copy + Eq + Hash + Debug;

    /// A descriptor of the leg's, registered under the leg's number `at`, is ready for something.
    fn on_descriptor(&mut self, now: Instant, at: usize, event: &mio::event::Event);
    /// Whether something was left undone for the sake of the budget.
    fn has_more(&self) -> bool;
    /// Takes in what has arrived, and serves what is due; of connections that peers make for each stream, accepts `accepts` at most.
    fn take_in(&mut self, now: Instant, accepts: usize);
    /// The link is told to carry something else, or told no longer.
    fn follow(&mut self, now: Instant, told: &Told);
    /// What the relays should know.
    fn poll_event(&mut self, now: Instant) -> Option<LegEvent<Self::Stream>>;
    /// Sends what waits to be sent.
    fn send_out(&mut self, now: Instant);
    /// When to call [`Leg::take_in`] if nothing happens before.
    fn next_timeout(&self, now: Instant) -> Option<Instant>;
    /// Called a few times in a second.
    fn tick(&mut self, now: Instant);
    /// The last words: takes until `end` at most, and ends what is left.
    fn leave(&mut self, end: Instant);

    /// Has all peers open no more connections through here. Those that there are go on.
    fn drain(&mut self, now: Instant);
    /// What another process may take over; it is let at the port then.
    ///
    /// # Errors
    /// Why the leg cannot be handed over.
    fn offer(&mut self, settings: &[(usize, &Peer)]) -> Result<LegOffer, String>;
    /// No other process has the port any more.
    fn end_offer(&mut self);
    /// Leaves to another process what there can be only once. Returns what [`Leg::inherit`] of that one is to be given.
    fn hand_over(&mut self, _: Instant) -> Vec<u8> {
        Vec::new()
    }
    /// Goes on with what another process has left.
    ///
    /// # Errors
    /// If it is not understood.
    fn inherit(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// Takes over what of `settings` may change while running, the peers apart.
    fn reconfigure(&mut self, now: Instant, settings: &Settings);
    /// There is another peer, at place `at`, where there was none.
    fn add_peer(&mut self, now: Instant, at: usize, peer: &Peer);
    /// The settings of peer `at` are others.
    fn change_peer(&mut self, now: Instant, at: usize, peer: &Peer);
    /// The peer at place `at` is none any more. None of its streams is known to the relays.
    fn remove_peer(&mut self, now: Instant, at: usize);

    /// Whether connections may be opened through peer `peer` (its place in the settings).
    fn is_up(&self, peer: usize) -> bool;
    /// How many more streams may be opened through `peer`, and how many there may be in all.
    fn room(&self, peer: usize) -> (u64, u64);
    /// Of the memory for what `peer` sends, how many bytes are left, and how many there are, if that is limited here.
    fn memory_left(&self, _: usize) -> Option<(u64, u64)> {
        None
    }
    /// Peer `peer` is to know that it may use `reach` here, now and whenever it comes up.
    fn tell_reach(&mut self, now: Instant, peer: usize, reach: &Reach);
    /// What peer `peer` lets this gateway use, if it has told.
    fn allows(&self, peer: usize) -> Option<&Reach>;
    /// Whether connections that begin now had better go through `peer`, which is up then.
    fn invites(&self, peer: usize) -> bool {
        self.is_up(peer)
    }
    /// Begins to find out what the path to `peer`, whose settings are `settings`, carries; [`Leg::peer`] tells of it.
    ///
    /// # Errors
    /// Why not.
    fn survey(&mut self, _: Instant, _: usize, _: &Peer) -> Result<(), &'static str> {
        Err(
            "with leg = \"tcp\" its congestion control finds what the path carries: `bentpipe send` through the gateways shows it",
        )
    }
    /// Opens a stream through `peer` that carries the connection `open`.
    fn open(&mut self, now: Instant, peer: usize, open: &Open, class: Option<&Class>) -> Option<Self::Stream>;
    /// Puts a stream that the peer has opened into the class of the connection that it carries.
    fn classify(&mut self, now: Instant, stream: Self::Stream, class: &Class);
    /// Reads on in which connection a stream carries that the peer has opened.
    fn read_opening(&mut self, now: Instant, stream: Self::Stream) -> Opening;
    /// Reads the far side's answer to a stream that was opened here.
    fn read_answer(&mut self, now: Instant, stream: Self::Stream) -> Answer;
    /// Tells the near side that the server has accepted.
    fn answer(&mut self, now: Instant, stream: Self::Stream);
    /// Ends the direction away from here, behind all that was sent.
    fn finish(&mut self, now: Instant, stream: Self::Stream);
    /// Ends both directions uncleanly.
    fn reset(&mut self, now: Instant, stream: Self::Stream, reason: ResetReason);
    /// The relays know the stream no longer. If it has not been reset, both of its directions have ended in order.
    fn forget(&mut self, stream: Self::Stream);
    /// Connections that the relays know no longer, and of which the other end has yet to acknowledge the last bytes; no
    /// fewer than one if there are any.
    fn unfinished(&self, now: Instant) -> usize;
    /// Moves bytes from TCP into the stream, a bounded amount.
    fn send(&mut self, now: Instant, stream: Self::Stream, tcp: &mut Tcp) -> (u64, Progress);
    /// Moves bytes from the stream to TCP, a bounded amount.
    fn receive(&mut self, now: Instant, stream: Self::Stream, tcp: &mut Tcp) -> (u64, Progress);

    /// The stream's number, for people.
    fn number(&self, stream: Self::Stream) -> u64;
    /// What the link is thought to carry away from here: configured, told or learnt.
    fn capacity(&self) -> Rate;
    /// Other traffic on the satellite interface, in bit/s.
    fn outside_bps(&self) -> u64;
    /// The counters of the satellite side.
    fn transport(&self) -> snapshot::Transport;
    /// Why `peer` (its place in the settings) is not up; `None` if it is.
    fn trouble(&self, now: Instant, peer: usize) -> Option<Trouble>;
    /// The state of peer `at`, whose settings are `settings`.
    fn peer(&self, now: Instant, at: usize, settings: &Peer) -> snapshot::Peer;
}

/// What another process may take over of a leg.
#[derive(Debug)]
pub(crate) struct LegOffer {
    /// This run's generation.
    pub(crate) generation: u32,
    /// The peers that are up, by public key, and where.
    pub(crate) up: Vec<(String, SocketAddr)>,
    /// Where it takes connections of peers.
    pub(crate) listener: Option<OwnedFd>,
}

/// What a leg has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegEvent<S> {
    /// Some peer has begun to answer, or ceased to, or allows something else.
    PeersChanged,
    /// The peer (by its place in the settings) has opened a stream.
    Opened(S, usize),
    /// The stream may be able to move bytes.
    Ready(S),
    /// The stream was reset by the other side, or has failed.
    Reset(S, ResetReason),
    /// Both directions of the stream have ended in order.
    Closed(S),
}

/// What has been read of a stream's opening.
#[derive(Debug)]
pub(crate) enum Opening {
    /// The rest has not arrived.
    Waiting,
    /// The connection that it carries.
    Open(Open),
    /// It carries no connection: it is the leg's own from now on.
    NoConnection,
    /// It has ended before it was complete.
    Ended,
    /// It is none.
    Malformed(PreambleError),
}

/// What the far side has said of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    Waiting,
    /// The server has accepted.
    Connected,
    /// The server has not accepted.
    Failed(ResetReason),
    /// The stream has ended without an answer.
    Ended,
    /// Something that is no answer.
    Malformed,
}

/// How far a direction has come in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to move.
    More,
    /// Nothing can move until an event says so.
    Blocked,
    /// The last byte has passed, and the end has been seen.
    Ended,
    /// TCP has failed.
    TcpFailed,
    /// The stream has failed.
    StreamFailed(ResetReason),
}

/// A relayed connection's TCP socket on this side, watched edge-triggered: readiness is remembered until the kernel says
/// `WouldBlock`.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) socket: Option<Socket>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other end has sent urgent data: a read may end before what waits does.
    pub(crate) urgent: bool,
    /// The kernel has announced the end of what TCP will offer.
    pub(crate) read_closed: bool,
    /// Since when it has been found again and again that something waits for an acknowledgement and none comes.
    unacknowledged_since: Option<Instant>,
}

impl Tcp {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            readable: false,
            writable: true,
            urgent: false,
            read_closed: false,
            unacknowledged_since: None,
        }
    }

    /// Remembers what `event` says.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
        self.urgent |= event.is_priority();
        self.read_closed |= event.is_read_closed();
    }

    /// What an error of reading from the socket means.
    pub(crate) fn read_failed(&mut self, error: &io::Error) -> Progress {
        let (readable, progress) = failed(error);
        self.readable &= readable;
        self.urgent &= readable;
        progress
    }

    /// What an error of writing to the socket means.
    pub(crate) fn write_failed(&mut self, error: &io::Error) -> Progress {
        let (writable, progress) = failed(error);
        self.writable &= writable;
        progress
    }

    /// Whether the other end has acknowledged nothing for more than `limit`, neither data nor probes. To be asked each `period`.
    /// An end that keeps its window closed acknowledges probes.
    pub(crate) fn is_gone(&mut self, now: Instant, period: Duration, limit: Duration) -> bool {
        let info = self.socket.as_ref().and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        let is_unacknowledged = info.is_some_and(|info| {
            (info.unacknowledged_segments > 0 || info.unanswered_probes > 0)
                && Duration::from(info.since_last_ack) >= period
        });
        if !is_unacknowledged {
            self.unacknowledged_since = None;
            return false;
        }
        now.since(*self.unacknowledged_since.get_or_insert(now)) > limit
    }

    /// Whether [`Tcp::is_gone`] has found last that something waits for an acknowledgement.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.unacknowledged_since.is_some()
    }

    /// Whether the socket has failed; a failure is told once.
    pub(crate) fn has_failed(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| matches!(socket.take_error(), Ok(Some(_)) | Err(_)))
    }
}

/// Whether the socket is still ready after `error`, and how far the direction has come.
fn failed(error: &io::Error) -> (bool, Progress) {
    match error.kind() {
        io::ErrorKind::WouldBlock => (false, Progress::Blocked),
        io::ErrorKind::Interrupted => (true, Progress::More),
        _ => (true, Progress::TcpFailed),
    }
}

/// Where descriptors are watched: those of the relays and those of the leg have numbers of their own, from 0.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) registry: Registry,
    first_token: usize,
}

/// Whose descriptor a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Relays(usize),
    Leg(usize),
}

impl Watch {
    /// Tokens below `first_token` are others'.
    pub(crate) fn new(registry: &Registry, first_token: usize) -> io::Result<Self> {
        Ok(Self { registry: registry.try_clone()?, first_token })
    }

    /// Another hold of the same.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Self::new(&self.registry, self.first_token)
    }

    /// Whose token it is, which is not below the first.
    pub(crate) fn owner(token: Token, first_token: usize) -> Owner {
        let number = token.0 - first_token;
        if number.is_multiple_of(2) { Owner::Relays(number / 2) } else { Owner::Leg(number / 2) }
    }

    /// Watches `descriptor` for both directions, edge-triggered. Closing it ends that.
    pub(crate) fn add(&self, descriptor: &impl AsRawFd, owner: Owner) -> io::Result<()> {
        let number = match owner {
            Owner::Relays(number) => 2 * number,
            Owner::Leg(number) => 2 * number + 1,
        };
        let token = Token(self.first_token + number);
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        self.registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, interest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_and_leg_have_numbers_of_their_own() {
        let owners: Vec<_> = (7..11).map(|token| Watch::owner(Token(token), 7)).collect();
        assert_eq!(owners, [Owner::Relays(0), Owner::Leg(0), Owner::Relays(1), Owner::Leg(1)]);
    }
}
