//! One TCP connection of a gateway: towards a host, or towards the other gateway.

use crate::NodeId;
use crate::packet::{Address, Body, Parcel};
use crate::wire::{Path, Wire};
use std::sync::Arc;
use tcp::Connection;
use units::Instant;

/// Where a half's packets start and where they go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) node: NodeId,
    pub(crate) path: Path,
    pub(crate) to: Address,
    /// The half's own timer.
    pub(crate) timer: u32,
}

/// A connection and its route.
#[derive(Debug)]
pub(crate) struct SplitHalf {
    pub(crate) tcp: Connection,
    route: Route,
    /// The peer's FIN has arrived.
    pub(crate) has_peer_finished: bool,
}

impl SplitHalf {
    /// Waits for a SYN.
    pub(crate) fn listen(config: &Arc<tcp::Config>, route: Route) -> Self {
        Self { tcp: Connection::listen(config.clone()), route, has_peer_finished: false }
    }

    /// Sends a SYN.
    pub(crate) fn connect(config: &Arc<tcp::Config>, route: Route, now: Instant) -> Self {
        Self { tcp: Connection::connect(config.clone(), now), route, has_peer_finished: false }
    }

    /// Whether everything that the peer sent has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.has_peer_finished && self.tcp.readable() == 0
    }

    /// Its timer was due; whether its deadline had come, too.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = self.deadline() <= now;
        if is_due {
            self.tcp.handle_timeout(now);
        }
        is_due
    }

    /// Sends what there is to send, and arms the timer.
    pub(crate) fn transmit(&mut self, wire: &mut Wire) {
        let Route { node, path, to, timer } = self.route;
        while let Some(segment) = self.tcp.poll_transmit(wire.now) {
            wire.data_packets += u64::from(segment.len > 0);
            let size = segment.len + u32::from(segment.header);
            wire.send(node, path, size, Parcel { agent: to.agent, port: to.port, body: Body::Tcp(segment) });
        }
        wire.arm(timer, self.deadline());
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.tcp.next_timeout().unwrap_or(Instant::FAR_FUTURE)
    }
}

/// From one half's receive buffer into the send buffer of the other: what finds no space there stays, and closes the window.
/// An end is passed on after the last byte. Returns how many bytes passed.
pub(super) fn pass_on(halves: &mut [Option<SplitHalf>; 2], now: Instant, from: usize) -> u64 {
    let [Some(first), Some(second)] = halves else { return 0 };
    let (source, sink) = if from == 0 { (first, second) } else { (second, first) };
    let waiting = source.tcp.readable();
    let taken = if waiting > 0 { sink.tcp.write(waiting) } else { 0 };
    if waiting > 0 {
        source.tcp.read(now, taken);
    }
    if source.is_at_end() {
        sink.tcp.finish();
    }
    taken
}
