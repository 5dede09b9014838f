//! How late a packet may be without counting as lost: as late as was seen lately (RFC 8985, section 6.2, keeps its window
//! for a while and lets go of it when nothing was late).

use units::{Duration, Instant};

/// The reordering window. It widens with each packet that was taken for lost too soon, and narrows while none needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reordering {
    /// What is configured.
    least: Duration,
    window: Duration,
    /// The worst lateness since `since`.
    worst: Duration,
    since: Instant,
}

impl Reordering {
    /// Beyond this a late packet is as good as lost.
    pub(crate) const MAX: Duration = Duration::from_millis(150);
    /// Round trips, and a half of each, after which the window narrows if it was wider than needed.
    const PERIOD: u64 = 16;
    /// A window below this is none.
    const NONE: Duration = Duration::from_micros(100);

    pub(crate) fn new(least: Duration) -> Self {
        Self { least, window: least, worst: Duration::ZERO, since: Instant::ZERO }
    }

    /// How long a gap may be reordering.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// A packet that was taken for lost arrived `late`.
    pub(crate) fn on_taken_for_lost(&mut self, late: Duration) {
        self.window = (self.window + late).max(late * 2).min(Self::MAX).max(self.least);
        self.worst = self.worst.max(late);
    }

    /// A packet arrived `late`, and within the window.
    pub(crate) fn on_late(&mut self, late: Duration) {
        self.worst = self.worst.max(late);
    }

    /// An acknowledgement came; `round` is about how long one takes.
    pub(crate) fn on_ack(&mut self, now: Instant, round: Duration) {
        if self.window <= self.least || now.since(self.since) < round * Self::PERIOD {
            return;
        }
        if self.since > Instant::ZERO {
            let needed = (self.worst * 2).max(self.least);
            self.window = needed.max(self.window / 2).min(self.window);
            if self.window < Self::NONE {
                self.window = self.least;
            }
        }
        (self.since, self.worst) = (now, Duration::ZERO);
    }
}
