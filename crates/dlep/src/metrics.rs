//! What is reported of a link, or of all links of a modem.

use crate::Item;
use crate::item::RateKind;
use units::{Duration, Rate};

/// Metrics; those that are not reported are `None`. Transmitting and receiving are the modem's: it transmits over the air.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    /// The most that can be received.
    pub max_receive: Option<Rate>,
    /// The most that can be transmitted.
    pub max_transmit: Option<Rate>,
    /// What can be received now.
    pub receive: Option<Rate>,
    /// What can be transmitted now.
    pub transmit: Option<Rate>,
    /// From being transmitted until it is there, one way.
    pub latency: Option<Duration>,
    /// Resources that are left, in per cent; a modem that is out of them goes on for a while at most.
    pub resources: Option<u8>,
    /// Quality of what is received, in per cent.
    pub quality_receive: Option<u8>,
    /// Quality of what is transmitted, in per cent.
    pub quality_transmit: Option<u8>,
    /// Largest packet, in bytes.
    pub mtu: Option<u16>,
}

impl Metrics {
    /// The metrics in `items`.
    pub(crate) fn of(items: &[Item]) -> Self {
        let mut metrics = Self::default();
        for item in items {
            match item {
                Item::DataRate(kind, bps) => {
                    let rate = Some(Rate::from_bps(*bps));
                    match kind {
                        RateKind::MaximumReceive => metrics.max_receive = rate,
                        RateKind::MaximumTransmit => metrics.max_transmit = rate,
                        RateKind::CurrentReceive => metrics.receive = rate,
                        RateKind::CurrentTransmit => metrics.transmit = rate,
                    }
                }
                Item::Latency(us) => metrics.latency = Some(Duration::from_nanos(us.saturating_mul(1000))),
                Item::Resources(percent) => metrics.resources = Some(*percent),
                Item::RelativeLinkQualityReceive(percent) => metrics.quality_receive = Some(*percent),
                Item::RelativeLinkQualityTransmit(percent) => metrics.quality_transmit = Some(*percent),
                Item::MaximumTransmissionUnit(bytes) => metrics.mtu = Some(*bytes),
                _ => {}
            }
        }
        metrics
    }

    /// The data items that report it.
    pub(crate) fn items(&self) -> Vec<Item> {
        let rate = |kind, rate: Option<Rate>| rate.map(|rate| Item::DataRate(kind, rate.as_bps()));
        [
            rate(RateKind::MaximumReceive, self.max_receive),
            rate(RateKind::MaximumTransmit, self.max_transmit),
            rate(RateKind::CurrentReceive, self.receive),
            rate(RateKind::CurrentTransmit, self.transmit),
            self.latency.map(|latency| Item::Latency(latency.as_nanos() / 1000)),
            self.resources.map(|percent| Item::Resources(percent.min(100))),
            self.quality_receive.map(|percent| Item::RelativeLinkQualityReceive(percent.min(100))),
            self.quality_transmit.map(|percent| Item::RelativeLinkQualityTransmit(percent.min(100))),
            self.mtu.map(Item::MaximumTransmissionUnit),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// These, and what they leave out from `earlier`: metrics stay as they are until they are reported again.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self {
            max_receive: self.max_receive.or(earlier.max_receive),
            max_transmit: self.max_transmit.or(earlier.max_transmit),
            receive: self.receive.or(earlier.receive),
            transmit: self.transmit.or(earlier.transmit),
            latency: self.latency.or(earlier.latency),
            resources: self.resources.or(earlier.resources),
            quality_receive: self.quality_receive.or(earlier.quality_receive),
            quality_transmit: self.quality_transmit.or(earlier.quality_transmit),
            mtu: self.mtu.or(earlier.mtu),
        }
    }

    /// Of these, what is not as in `reported`; without metrics that were never reported.
    #[must_use]
    pub(crate) fn news(self, reported: Self) -> Self {
        fn news<T: PartialEq>(now: Option<T>, reported: Option<T>) -> Option<T> {
            now.filter(|now| reported.is_some_and(|reported| reported != *now))
        }
        Self {
            max_receive: news(self.max_receive, reported.max_receive),
            max_transmit: news(self.max_transmit, reported.max_transmit),
            receive: news(self.receive, reported.receive),
            transmit: news(self.transmit, reported.transmit),
            latency: news(self.latency, reported.latency),
            resources: news(self.resources, reported.resources),
            quality_receive: news(self.quality_receive, reported.quality_receive),
            quality_transmit: news(self.quality_transmit, reported.quality_transmit),
            mtu: news(self.mtu, reported.mtu),
        }
    }
}
