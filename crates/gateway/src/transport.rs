//! The satellite transport: how the bytes of relayed connections cross the satellite.
//!
//! [`crate::relays`] and [`crate::daemon`] are the same for every transport: what is intercepted, who may reach what, how
//! connections open and end. A transport carries *streams*, one for each relayed connection: two directions that end each
//! alone, and a reset that ends both.

mod capacity;
mod key_log;
mod remembered;
pub(crate) mod satpep;
pub(crate) mod tcp;

use crate::config::{Peer, Settings};
use crate::host_sockets::HostSockets;
use crate::link_state::LinkState;
use crate::privileges::Plan;
use crate::takeover::offer::TransportOffer;
use ipnet::IpNet;
use relay::engine::Transport;
pub(crate) use relay::engine::{ConnectReply, Progress, ReceivedRequest, StreamEvent};
use relay::reach::Reach;
use status::{Permits, Trouble};
use std::fmt::Debug;
use std::io;
use units::{Duration, Instant, Rate};

/// Networks that a peer permits and that are shown at most, of clients and of servers.
pub(crate) const MAX_NAMED: usize = 16;

/// Which servers a peer permits that has announced `reach`, and for which clients.
fn permits(reach: &Reach) -> Permits {
    let (public, private) = relay::policy::servers(reach);
    let named = |nets: &[IpNet]| nets.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    Permits { clients: named(reach.sources.prefixes()), public, private: named(&private) }
}

/// A satellite transport: what the event loop needs of it.
pub(crate) trait SatelliteTransport: Transport<HostSockets> + Membership + Succession + Reports + Debug {
    /// What the settings call it.
    const NAME: &'static str;

    /// A descriptor of the transport's, registered under the transport's number `at`, is ready for something.
    fn on_descriptor(&mut self, now: Instant, at: usize, event: &mio::event::Event);
    /// Whether something was left undone for the sake of the budget.
    fn has_more(&self) -> bool;
    /// Takes in what has arrived, and serves what is due; of connections that peers make for each stream, accepts `accepts` at most.
    fn take_in(&mut self, now: Instant, accepts: usize);
    /// The link state has changed.
    fn follow(&mut self, now: Instant, link: &LinkState);
    /// What the relays should know.
    fn poll_event(&mut self, now: Instant) -> Option<StreamEvent<Self::Stream>>;
    /// Sends what waits to be sent.
    fn send_out(&mut self, now: Instant);
    /// When to call [`SatelliteTransport::take_in`] if nothing happens before.
    fn next_timeout(&self, now: Instant) -> Option<Instant>;
    /// Called a few times in a second.
    fn tick(&mut self, now: Instant);
    /// Gives memory that was not needed since the last call back to the allocator, but for some; called once a second.
    fn trim_memory(&mut self, _now: Instant) {}
    /// Gives memory that is kept for later back to the allocator.
    fn give_back_memory(&mut self) {}
    /// The last words: takes until `end` at most, and ends what is left.
    fn leave(&mut self, end: Instant);

    /// Has all peers open no more connections through here. Those that there are go on.
    fn drain(&mut self, now: Instant);

    /// Begins to measure the path to `peer`, which is offered the configured rate, or the estimate without one, and `cap` at most;
    /// [`Reports::peer`] has the result.
    ///
    /// # Errors
    /// Why not.
    fn survey(&mut self, _: Instant, _: usize, _cap: Option<Rate>) -> Result<(), &'static str> {
        Err(
            "with transport = \"tcp\" its congestion control finds what the path carries: `bentpipe send` through the gateways shows it",
        )
    }
    /// Connections that the relays know no longer, and of which the other end has yet to acknowledge the last bytes; no
    /// fewer than one if there are any.
    fn unfinished(&self, now: Instant) -> usize;

    /// What is held of a stream's data; `None` if the kernel holds it.
    fn buffered(&self, _: Self::Stream) -> Option<Buffered> {
        None
    }
}

/// Data of a stream that this gateway holds, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffered {
    /// Written and not acknowledged.
    pub(crate) send: u64,
    /// Received and not taken.
    pub(crate) receive: u64,
}

/// How a transport takes other settings over while it runs.
pub(crate) trait Membership {
    /// Takes over what of `settings` may change while running, the peers apart.
    fn reconfigure(&mut self, now: Instant, settings: &Settings);
    /// There is another peer, at place `at`, where there was none.
    fn add_peer(&mut self, now: Instant, at: usize, peer: &Peer);
    /// The settings of peer `at` are others.
    fn change_peer(&mut self, now: Instant, at: usize, peer: &Peer);
    /// The peer at place `at` is none any more. None of its streams is known to the relays.
    fn remove_peer(&mut self, now: Instant, at: usize);
}

/// How one process leaves a transport to another.
pub(crate) trait Succession {
    /// What another process may take over; it is let at the port then.
    ///
    /// # Errors
    /// Why the transport cannot be handed over.
    fn offer(&mut self, settings: &[(usize, &Peer)]) -> Result<TransportOffer, String>;
    /// Notes for processes that are started later what this one takes over.
    ///
    /// # Errors
    /// If the note cannot be written.
    fn note(&self, _: &Settings, _: &Plan) -> io::Result<()> {
        Ok(())
    }
    /// No other process has the port any more.
    fn end_offer(&mut self);
    /// Leaves to another process what there can be only once. Returns what [`Succession::inherit`] of that one is to be given.
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
}

/// The delay of the path to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathDelay {
    /// Smoothed round-trip time.
    pub(crate) smoothed: Duration,
    /// The least round-trip time: what is above it is queueing.
    pub(crate) min: Duration,
}

/// What a transport says of itself, for status, metrics and logs.
pub(crate) trait Reports {
    /// The estimate of the link's transmit capacity.
    fn capacity(&self, now: Instant) -> status::Capacity;
    /// The rate at which packets are sent at most, in bit/s; `None` if the transport paces none.
    fn send_limit_bps(&self) -> Option<u64> {
        None
    }
    /// Cross traffic on the satellite interface, in bit/s; `None` if it is not measured.
    fn cross_traffic_bps(&self) -> Option<u64> {
        None
    }
    /// The counters of the satellite link.
    fn satellite(&self) -> status::Satellite;
    /// Why `peer` (its place in the settings) is not up; `None` if it is.
    fn trouble(&self, now: Instant, peer: usize) -> Option<Trouble>;
    /// The delay of the path to peer `at`, if it was measured.
    fn path_delay(&self, now: Instant, at: usize) -> Option<PathDelay>;
    /// The state of peer `at`, whose settings are `settings`.
    fn peer(&self, now: Instant, at: usize, settings: &Peer) -> status::Peer;
}
