//! The satellite leg: how the bytes of relayed connections cross the satellite.
//!
//! [`crate::relays`] and [`crate::daemon`] are the same for every leg: what is intercepted, who may reach what, how
//! connections open and end. A leg carries *streams*, one for each relayed connection: two directions that end each
//! alone, and a reset that ends both.

pub(crate) mod satpep;
pub(crate) mod tcp;

use crate::config::{Peer, Settings};
use crate::relays::HostSockets;
use crate::snapshot;
use crate::told::Told;
use crate::trouble::Trouble;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use relay::engine::Transport;
pub(crate) use relay::engine::{Answer, Opening, Progress, StreamEvent};
use socket2::Socket;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use units::{Duration, Instant, Rate};

/// How the satellite side works.
pub(crate) trait Leg: Transport<HostSockets> + Debug {
    /// What the settings call it.
    const NAME: &'static str;

    /// A descriptor of the leg's, registered under the leg's number `at`, is ready for something.
    fn on_descriptor(&mut self, now: Instant, at: usize, event: &mio::event::Event);
    /// Whether something was left undone for the sake of the budget.
    fn has_more(&self) -> bool;
    /// Takes in what has arrived, and serves what is due; of connections that peers make for each stream, accepts `accepts` at most.
    fn take_in(&mut self, now: Instant, accepts: usize);
    /// The link is told to carry something else, or told no longer.
    fn follow(&mut self, now: Instant, told: &Told);
    /// What the relays should know.
    fn poll_event(&mut self, now: Instant) -> Option<StreamEvent<Self::Stream>>;
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

    /// Begins to find out what the path to `peer`, whose settings are `settings`, carries; [`Leg::peer`] tells of it.
    ///
    /// # Errors
    /// Why not.
    fn survey(&mut self, _: Instant, _: usize, _: &Peer) -> Result<(), &'static str> {
        Err(
            "with leg = \"tcp\" its congestion control finds what the path carries: `bentpipe send` through the gateways shows it",
        )
    }
    /// Connections that the relays know no longer, and of which the other end has yet to acknowledge the last bytes; no
    /// fewer than one if there are any.
    fn unfinished(&self, now: Instant) -> usize;
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
    /// A client's connection, which may have brought data with it.
    pub(crate) fn accepted(socket: Socket) -> Self {
        Self { socket: Some(socket), readable: true, ..Self::new() }
    }

    /// A connection to a server that is being made.
    pub(crate) fn connecting(socket: Socket) -> Self {
        Self { socket: Some(socket), ..Self::new() }
    }

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
