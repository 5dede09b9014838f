//! The two kinds of sending halves: the usual one, and those of ns-2.

use crate::config::{Allocation, Config};
use crate::control::{Control, Window};
use crate::handshake::Opening;
use crate::metrics::Metrics;
use crate::ns2;
use crate::segment::Segment;
use crate::sender::{Outgoing, Sender};
use crate::validate::{ConfigError, ControlError};
use std::sync::Arc;
use units::Instant;

/// The sending half of a connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a usual connection is what simulations have thousands of; a box costs it a look-up"
)]
pub(crate) enum Sending {
    /// Recovery and control as two axes.
    Usual(Sender),
    /// One of ns-2's agents, which also sends the SYN.
    Ns2(ns2::Sender),
}

impl Sending {
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        match ns2::Sender::new(config) {
            Some(sender) => Sending::Ns2(sender),
            None => Sending::Usual(Sender::new(config)),
        }
    }

    /// This end opens the connection. Returns whether the sending half sends the SYN.
    pub(crate) fn open(&mut self) -> bool {
        match self {
            Sending::Usual(_) => false,
            Sending::Ns2(sender) => {
                sender.open();
                true
            }
        }
    }

    /// Whether the sending half takes care of its SYN.
    #[inline]
    pub(crate) fn sends_syn(&self) -> bool {
        matches!(self, Sending::Ns2(_))
    }

    /// The timer of the handshake has expired.
    pub(crate) fn count_timeout(&mut self) {
        if let Sending::Usual(sender) = self {
            sender.counters.timeouts += 1;
        }
    }

    /// Whether both ends use SACK.
    pub(crate) fn agree(&mut self, has_sack: bool) {
        if let Sending::Usual(sender) = self {
            sender.agree(has_sack);
        }
    }

    /// The peer takes at most `mss` bytes of payload in a segment. ns-2's agents do not ask.
    pub(crate) fn limit_mss(&mut self, mss: u32) {
        if let Sending::Usual(sender) = self {
            sender.out.limit_mss(mss);
        }
    }

    /// The peer does not count marked packets, though it was asked to.
    pub(crate) fn give_up_counts(&mut self) {
        if let Sending::Usual(sender) = self {
            sender.out.give_up_counts();
        }
    }

    /// Starts to load what is kept outside `self`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Sending::Usual(sender) = self {
            sender.prefetch();
        }
    }

    /// The payload of a full segment.
    pub(crate) fn mss(&self) -> u32 {
        match self {
            Sending::Usual(sender) => sender.out.config.mss,
            Sending::Ns2(sender) => sender.mss(),
        }
    }

    /// The peer echoes marks.
    pub(crate) fn use_echoes(&mut self) {
        if let Sending::Usual(sender) = self {
            sender.out.marks.use_echoes();
        }
    }

    /// The peer counts marked packets.
    pub(crate) fn use_counts(&mut self) {
        if let Sending::Usual(sender) = self {
            sender.out.marks.use_counts();
        }
    }

    /// The handshake is over: the peer's window, and what the handshake has shown of the path.
    pub(crate) fn start(&mut self, now: Instant, window: u32, opening: Opening) {
        match self {
            Sending::Usual(sender) => sender.start(now, window, opening),
            Sending::Ns2(sender) => sender.start(window),
        }
    }

    /// Puts `control` in the place of the configured one.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) -> Result<(), ControlError> {
        let Sending::Usual(sender) = self else { return Err(ControlError::Ns2) };
        let mut faults = Vec::new();
        if control.governs_window() {
            sender.out.config.check_governing("given", &mut faults);
        }
        if !faults.is_empty() {
            return Err(ControlError::Config(ConfigError { faults }));
        }
        sender.out.set_control(control);
        Ok(())
    }

    /// Bytes that the application may write.
    pub(crate) fn write_space(&self) -> u64 {
        match self {
            Sending::Usual(sender) => sender.write_space(),
            Sending::Ns2(sender) => sender.write_space(),
        }
    }

    /// Bytes of the application's that have never been sent.
    pub(crate) fn unsent(&self) -> u64 {
        match self {
            Sending::Usual(sender) => sender.unsent(),
            Sending::Ns2(sender) => sender.unsent(),
        }
    }

    /// Whether the segment that left last, up to `end`, is to be pushed. ns-2's agents push nothing.
    #[inline]
    pub(crate) fn pushes(&self, end: u64) -> bool {
        match self {
            Sending::Usual(sender) => sender.pushes(end),
            Sending::Ns2(_) => false,
        }
    }

    /// Takes up to `bytes` of the application's data.
    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        match self {
            Sending::Usual(sender) => sender.write(bytes),
            Sending::Ns2(sender) => sender.write(bytes),
        }
    }

    /// No more data follow.
    pub(crate) fn finish(&mut self) {
        match self {
            Sending::Usual(sender) => sender.finish(),
            Sending::Ns2(sender) => sender.finish(),
        }
    }

    /// Whether everything, the FIN included, is acknowledged.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Sending::Usual(sender) => sender.is_done(),
            Sending::Ns2(sender) => sender.is_done(),
        }
    }

    /// The end of what was ever sent.
    #[inline]
    pub(crate) fn nxt(&self) -> u64 {
        match self {
            Sending::Usual(sender) => sender.out.board.nxt(),
            Sending::Ns2(sender) => sender.nxt(),
        }
    }

    /// Bytes of headers of the segments with data, where they are not the usual ones.
    #[inline]
    pub(crate) fn data_header(&self) -> Option<u8> {
        match self {
            Sending::Usual(_) => None,
            Sending::Ns2(sender) => sender.data_header(),
        }
    }

    /// An acknowledgement of the peer.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        match self {
            Sending::Usual(sender) => sender.on_ack(now, segment),
            Sending::Ns2(sender) => sender.on_ack(now, segment),
        }
    }

    /// When something is to be done though no segment comes.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        Some(self.next_at()).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// The same, with [`Instant::FAR_FUTURE`] for never.
    #[inline]
    pub(crate) fn next_at(&self) -> Instant {
        match self {
            Sending::Usual(sender) => sender.next_at(),
            Sending::Ns2(sender) => sender.next_at(),
        }
    }

    /// Acts on timers that have expired. Returns `false` when the peer has not answered for too long.
    pub(crate) fn on_timers(&mut self, now: Instant) -> bool {
        match self {
            Sending::Usual(sender) => sender.on_timers(now),
            Sending::Ns2(sender) => sender.on_timers(now),
        }
    }

    /// The next segment to leave, if one may.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        match self {
            Sending::Usual(sender) => sender.poll(now),
            Sending::Ns2(sender) => sender.poll(now),
        }
    }

    /// What the network layer says of the link's capacity.
    pub(crate) fn set_capacity(&mut self, now: Instant, allocation: Allocation) {
        if let Sending::Usual(sender) = self {
            sender.set_capacity(now, allocation);
        }
    }

    /// The congestion window and slow-start threshold.
    pub(crate) fn window(&self) -> Window {
        match self {
            Sending::Usual(sender) => sender.out.window,
            Sending::Ns2(sender) => sender.window(),
        }
    }

    /// Where this half stands; what the other half knows is left at zero.
    pub(crate) fn metrics(&self) -> Metrics {
        match self {
            Sending::Usual(sender) => Metrics {
                window: self.window(),
                in_flight: sender.recovery.in_flight(&sender.out),
                flight: sender.out.board.flight(),
                srtt: sender.out.rtt.srtt(),
                min_rtt: sender.out.rtt.min_rtt(),
                rto: sender.out.rto(),
                state: sender.recovery.state(),
                phase: sender.out.control.phase(&sender.out.window),
                acknowledged: sender.acknowledged(),
                received: 0,
                duplicate_bytes: 0,
                counters: sender.counters,
            },
            Sending::Ns2(sender) => Metrics {
                window: self.window(),
                in_flight: sender.flight(),
                flight: sender.flight(),
                srtt: sender.srtt(),
                min_rtt: sender.min_rtt(),
                rto: sender.rto(),
                state: sender.state(),
                phase: if sender.window().in_slow_start() { "slow-start" } else { "congestion-avoidance" },
                acknowledged: sender.acknowledged(),
                received: 0,
                duplicate_bytes: 0,
                counters: sender.counters(),
            },
        }
    }
}
