//! How much of the link cross traffic takes, as the deployed gateway measures it: what enters the link, less what the session has sent.

use crate::DirectionId;
use crate::wire::Wire;
use relay::cross_traffic::{CrossTraffic, PERIOD, Reading};
use units::{Bytes, Instant, Rate};

/// Reads the counter of the first link towards the other gateway, whichever that is.
#[derive(Debug)]
pub(super) struct CrossTrafficMeter {
    link: DirectionId,
    at: Instant,
    traffic: CrossTraffic,
}

impl CrossTrafficMeter {
    /// Nothing has entered the link but what the session sent before the run began: `own` bytes, elsewhere.
    pub(super) fn new(link: DirectionId, own: u64) -> Self {
        let mut traffic = CrossTraffic::default();
        traffic.take(Reading { at: Instant::ZERO, link: 0, own });
        Self { link, at: Instant::ZERO, traffic }
    }

    /// IP bytes of cross traffic in all readings so far.
    pub(super) fn total(&self) -> Bytes {
        self.traffic.total()
    }

    /// When the next reading is due.
    pub(super) fn due(&self) -> Instant {
        self.at + PERIOD
    }

    /// Takes the reading that is due, of the link that is the first now (`None` while no way leads to the other gateway), with `own`
    /// bytes sent by the session in all. Returns the rate of all cross traffic.
    pub(super) fn update(&mut self, wire: &Wire, first: Option<DirectionId>, own: u64) -> Rate {
        self.at = wire.now;
        let Some(first) = first else {
            self.traffic.restart();
            return self.traffic.rate();
        };
        if std::mem::replace(&mut self.link, first) != first {
            self.traffic.restart();
        }
        let link = wire.offered_bytes(first);
        self.traffic.take(Reading { at: wire.now, link, own });
        self.traffic.rate()
    }
}
