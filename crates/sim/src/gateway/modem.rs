//! The reports of the modems of a gateway's links: their rates, at each change of a rate or of the route.

use super::half::Route;
use crate::wire::Wire;
use units::{Instant, Rate};

/// The modems between one gateway and the other.
#[derive(Debug)]
pub(super) struct Modem {
    due: Instant,
}

impl Modem {
    /// None reports anything before the run begins, and none at all unless they report changes.
    pub(super) fn new(is_reporting: bool) -> Self {
        Self { due: if is_reporting { Instant::ZERO } else { Instant::FAR_FUTURE } }
    }

    /// When the next change comes.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes the change that is due: the rate from now on of the slowest link on `route`. In an outage, when that is zero or there is
    /// no way, nothing is told.
    pub(super) fn take_change(&mut self, wire: &mut Wire, route: Route) -> Option<Rate> {
        if wire.now < self.due {
            return None;
        }
        let links = wire.links_of(route.node, route.path);
        let rates = || links.iter().filter_map(|link| wire.rate(*link));
        let slowest = rates().map(|(rate, _)| rate).min();
        let until = rates().map(|(_, until)| until).min();
        self.due = until.unwrap_or(Instant::FAR_FUTURE).min(wire.routes_change_at());
        slowest.filter(|rate| *rate > Rate::ZERO)
    }
}
