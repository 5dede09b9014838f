//! Warnings of packets that the emulator drops though the link would not, or that go round: such an experiment measures something else.

use emulator::{DirectionReport, Monitor, Report};
use units::{Duration, Instant};

/// Warns once of each kind for each direction.
pub(super) struct DropWarnings {
    monitor: Monitor,
    next: Instant,
    given: [Given; 2],
}

/// Of which kinds it has warned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Given {
    oversize: bool,
    unsupported: bool,
    no_terminal: bool,
    memory_limit: bool,
    receive_overrun: bool,
    send_failed: bool,
    comes_back: bool,
    /// How many frames of address resolution there were when it looked last.
    exempt_frames: u64,
}

impl DropWarnings {
    const INTERVAL: Duration = Duration::from_secs(1);
    /// More frames of address resolution than hosts send in that time.
    const MANY_EXEMPT: u64 = 3_000;

    pub(super) fn new(monitor: Monitor) -> Self {
        Self { monitor, next: Instant::ZERO, given: [Given::default(); 2] }
    }

    /// Looks every second what has been dropped.
    pub(super) fn look(&mut self, now: Instant) {
        if now >= self.next {
            self.next = now + Self::INTERVAL;
            self.warn(&self.monitor.report());
        }
    }

    /// Warns of what `report` says, unless it has.
    pub(super) fn warn(&mut self, report: &Report) {
        for (direction, given) in [&report.up, &report.down].into_iter().zip(&mut self.given) {
            let DirectionReport { from, to, dropped, .. } = direction;
            if dropped.oversize.packets > 0 && !std::mem::replace(&mut given.oversize, true) {
                tracing::warn!(
                    interface = to,
                    "packets longer than the MTU of this interface are dropped, and counted as oversize: both interfaces need the \
                     MTU of the hosts behind them"
                );
            }
            if dropped.unsupported > 0 && !std::mem::replace(&mut given.unsupported, true) {
                tracing::warn!(
                    interface = from,
                    "packets that the emulator cannot carry are dropped, and counted as unsupported: TCP in a tunnel whose segments \
                     the host left to be cut later, and before Linux 6.2 UDP datagrams (QUIC) that leave in one batch (`ip link set \
                     INTERFACE gso_max_segs 1` has the host cut them), frames too long or too short, and, where terminals share a carrier, \
                     frames that are not IP, such as PPPoE, LLDP and spanning tree"
                );
            }
            if dropped.no_terminal > 0 && !std::mem::replace(&mut given.no_terminal, true) {
                tracing::warn!(
                    interface = from,
                    "packets whose address is in no terminal's networks are dropped, and counted as no_terminal: add it to `networks` of \
                     its terminal in the link file"
                );
            }
            let exempt = direction.exempt_frames.saturating_sub(given.exempt_frames);
            given.exempt_frames = direction.exempt_frames;
            if exempt > Self::MANY_EXEMPT && !std::mem::replace(&mut given.comes_back, true) {
                tracing::warn!(
                    interface = from,
                    "thousands of frames of address resolution come in each second: do both interfaces lead to one network, so that \
                     what leaves by the one comes back by the other?"
                );
            }
            if dropped.memory_limit.packets > 0 && !std::mem::replace(&mut given.memory_limit, true) {
                tracing::warn!(
                    interface = from,
                    "more packets are on the link than the emulator has memory for: further ones are dropped, and counted as \
                     memory_limit; lower the rate, the delay or the queue"
                );
            }
            if dropped.receive_overrun > 0 && !std::mem::replace(&mut given.receive_overrun, true) {
                tracing::warn!(
                    interface = from,
                    "packets came faster than the emulator received them: some are dropped, and counted as receive_overrun; give it a \
                     processor of its own, or the hosts a lower rate"
                );
            }
            if dropped.send_failed.packets > 0 && !std::mem::replace(&mut given.send_failed, true) {
                tracing::warn!(
                    interface = to,
                    "packets that this interface does not take are dropped, and counted as send_failed: is it up?"
                );
            }
        }
    }
}
