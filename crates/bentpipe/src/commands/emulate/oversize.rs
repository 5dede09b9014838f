//! The warning of packets that are longer than an interface takes: an experiment over such a link measures something else.

use emulator::{DirectionReport, Monitor, Report};
use units::{Duration, Instant};

/// Warns once for each direction.
pub(super) struct OversizeWarning {
    monitor: Monitor,
    next: Instant,
    has_warned: [bool; 2],
}

impl OversizeWarning {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(monitor: Monitor) -> Self {
        Self { monitor, next: Instant::ZERO, has_warned: [false; 2] }
    }

    /// Looks every second what has been dropped.
    pub(super) fn look(&mut self, now: Instant) {
        if now >= self.next && self.has_warned != [true; 2] {
            self.next = now + Self::INTERVAL;
            self.warn(&self.monitor.report());
        }
    }

    /// Warns of what `report` says, unless it has.
    pub(super) fn warn(&mut self, report: &Report) {
        for (direction, has_warned) in [&report.up, &report.down].into_iter().zip(&mut self.has_warned) {
            let DirectionReport { to, dropped, .. } = direction;
            if dropped.oversize.packets > 0 && !*has_warned {
                *has_warned = true;
                tracing::warn!(
                    interface = to,
                    "packets longer than the MTU of this interface are dropped, and counted as oversize: both interfaces need the \
                     MTU of the hosts behind them"
                );
            }
        }
    }
}
