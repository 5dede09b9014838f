//! Warnings of packets that the emulator drops though the link would not, or that go round: such an experiment measures something else.

use emulator::{DirectionReport, Monitor, Report};
use std::collections::BTreeSet;
use units::{Duration, Instant};

/// Warns once of each kind for each direction.
pub(super) struct DropWarnings {
    monitor: Monitor,
    next: Instant,
    given: [Given; 2],
}

/// What it has warned of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Given {
    kinds: BTreeSet<Kind>,
    /// How many frames of address resolution there were when it looked last.
    exempt_frames: u64,
}

/// Why packets are dropped though the link would not drop them, or that they go round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Oversize,
    Unsupported,
    NoTerminal,
    ComesBack,
    MemoryLimit,
    ReceiveOverrun,
    SendFailed,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Oversize,
        Self::Unsupported,
        Self::NoTerminal,
        Self::ComesBack,
        Self::MemoryLimit,
        Self::ReceiveOverrun,
        Self::SendFailed,
    ];
    /// More frames of address resolution than hosts send in [`DropWarnings::INTERVAL`].
    const MANY_EXEMPT: u64 = 3_000;

    /// Whether `direction`, in which so many frames of address resolution have come since the last look, has packets of this kind.
    fn is_found(self, direction: &DirectionReport, exempt: u64) -> bool {
        let dropped = &direction.dropped;
        match self {
            Self::Oversize => dropped.oversize.packets > 0,
            Self::Unsupported => dropped.unsupported > 0,
            Self::NoTerminal => dropped.no_terminal > 0,
            Self::ComesBack => exempt > Self::MANY_EXEMPT,
            Self::MemoryLimit => dropped.memory_limit.packets > 0,
            Self::ReceiveOverrun => dropped.receive_overrun > 0,
            Self::SendFailed => dropped.send_failed.packets > 0,
        }
    }

    /// The interface of `direction` that the warning is about.
    fn interface(self, direction: &DirectionReport) -> &str {
        match self {
            Self::Oversize | Self::SendFailed => &direction.to,
            _ => &direction.from,
        }
    }

    /// The warning.
    fn text(self) -> &'static str {
        match self {
            Self::Oversize => {
                "packets longer than the MTU of this interface are dropped, and counted as oversize: both interfaces need the \
                 MTU of the hosts behind them"
            }
            Self::Unsupported => {
                "packets that the emulator cannot carry are dropped, and counted as unsupported: TCP in a tunnel whose segments \
                 the host left to be cut later, and before Linux 6.2 UDP datagrams (QUIC) that leave in one batch (`ip link set \
                 INTERFACE gso_max_segs 1` has the host cut them), frames too long or too short, and, where terminals share a carrier, \
                 frames that are not IP, such as PPPoE, LLDP and spanning tree"
            }
            Self::NoTerminal => {
                "packets whose address is in no terminal's networks are dropped, and counted as no_terminal: add it to `networks` of \
                 its terminal in the link file"
            }
            Self::ComesBack => {
                "thousands of frames of address resolution come in each second: do both interfaces lead to one network, so that \
                 what leaves by the one comes back by the other?"
            }
            Self::MemoryLimit => {
                "more packets are on the link than the emulator has memory for: further ones are dropped, and counted as \
                 memory_limit; lower the rate, the delay or the queue"
            }
            Self::ReceiveOverrun => {
                "packets came faster than the emulator received them: some are dropped, and counted as receive_overrun; give it a \
                 processor of its own, or the hosts a lower rate"
            }
            Self::SendFailed => {
                "packets that this interface does not take are dropped, and counted as send_failed: is it up?"
            }
        }
    }
}

impl DropWarnings {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(monitor: Monitor) -> Self {
        Self { monitor, next: Instant::ZERO, given: Default::default() }
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
            let exempt = direction.exempt_frames.saturating_sub(given.exempt_frames);
            given.exempt_frames = direction.exempt_frames;
            for kind in Kind::ALL {
                if kind.is_found(direction, exempt) && given.kinds.insert(kind) {
                    tracing::warn!(interface = kind.interface(direction), "{}", kind.text());
                }
            }
        }
    }
}
