//! One TCP connection of a gateway, towards a host or towards the other gateway; and the two of a split flow.

use crate::NodeId;
use crate::gateway_report::{SplitStage, SplitState};
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

/// The two connections of a split flow at one gateway.
#[derive(Debug)]
pub(super) struct SplitHalves {
    /// That towards the client, which listens; and that towards the server, once the gateway makes it.
    pub(super) halves: [Option<SplitHalf>; 2],
    /// When each was connected.
    pub(super) connected: [Option<Instant>; 2],
    /// Bytes read from each half and written to the other.
    passed: [u64; 2],
    is_broken: bool,
}

impl SplitHalves {
    /// The first of them waits for a client.
    pub(super) fn new(listens: SplitHalf) -> Self {
        Self { halves: [Some(listens), None], connected: [None; 2], passed: [0; 2], is_broken: false }
    }

    /// The next event of one half.
    pub(super) fn poll_event(&mut self, number: usize) -> Option<tcp::Event> {
        self.halves[number].as_mut()?.tcp.poll_event()
    }

    /// The peer of one half has sent its FIN.
    pub(super) fn on_peer_finished(&mut self, number: usize) {
        if let Some(half) = &mut self.halves[number] {
            half.has_peer_finished = true;
        }
    }

    /// One half has failed; returns whether none had failed before.
    pub(super) fn is_first_failure(&mut self) -> bool {
        !std::mem::replace(&mut self.is_broken, true)
    }

    /// Aborts the half that has not failed: an unclean end of one never looks like a clean one to the other.
    pub(super) fn abort_other(&mut self, failed: usize) {
        if let Some(other) = &mut self.halves[1 - failed] {
            other.tcp.abort();
        }
    }

    /// Passes bytes on in both directions.
    pub(super) fn pass_on(&mut self, now: Instant) {
        for from in 0..2 {
            self.passed[from] += pass_on(&mut self.halves, now, from);
        }
    }

    /// Sends what there is to send.
    pub(super) fn transmit(&mut self, wire: &mut Wire) {
        for half in self.halves.iter_mut().flatten() {
            half.transmit(wire);
        }
    }

    /// When the timer of one half is due.
    pub(super) fn deadline(&self, number: usize) -> Instant {
        self.halves[number].as_ref().map_or(Instant::FAR_FUTURE, SplitHalf::deadline)
    }

    /// What reports say of it.
    pub(super) fn state(&self) -> SplitState {
        SplitState { connected: self.connected, passed: self.passed, stage: self.stage() }
    }

    fn stage(&self) -> SplitStage {
        let is_closed = |half: &Option<SplitHalf>| half.as_ref().is_some_and(|half| half.tcp.is_closed());
        match self.connected {
            _ if self.is_broken => SplitStage::Broken,
            _ if self.halves.iter().all(is_closed) => SplitStage::Closed,
            [Some(_), Some(_)] => SplitStage::Established,
            _ if self.halves[1].is_some() => SplitStage::Connecting,
            _ => SplitStage::Idle,
        }
    }
}

/// From one half's receive buffer into the send buffer of the other: what finds no space there stays, and closes the window.
/// An end is passed on after the last byte. Returns how many bytes passed.
fn pass_on(halves: &mut [Option<SplitHalf>; 2], now: Instant, from: usize) -> u64 {
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
