//! The reports of the modems of a gateway's links: their rates, at each change.

use crate::DirectionId;
use crate::wire::Wire;
use units::{Instant, Rate};

/// The modems between one gateway and the other.
#[derive(Debug, Default)]
pub(super) struct Modem {
    links: Vec<DirectionId>,
    due: Instant,
}

impl Modem {
    /// Those of `links`. None of them reports anything before the run begins.
    pub(super) fn new(links: Vec<DirectionId>) -> Self {
        let due = if links.is_empty() { Instant::FAR_FUTURE } else { Instant::ZERO };
        Self { links, due }
    }

    /// When the next change comes.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes the change that is due: the rate of the slowest link from now on. In an outage, when that is zero, nothing is
    /// told.
    pub(super) fn take_change(&mut self, wire: &Wire) -> Option<Rate> {
        if wire.now < self.due {
            return None;
        }
        let rates = || self.links.iter().filter_map(|link| wire.rate(*link));
        let slowest = rates().map(|(rate, _)| rate).min();
        let until = rates().map(|(_, until)| until).min();
        self.due = until.unwrap_or(Instant::FAR_FUTURE);
        slowest.filter(|rate| *rate > Rate::ZERO)
    }
}
