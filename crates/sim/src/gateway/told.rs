//! What a terminal's carrier tells the gateway beside it: how much it has now.

use crate::wire::Wire;
use crate::{DirectionId, Network, NodeId};
use units::Rate;

/// A gateway's way onto a carrier.
#[derive(Debug)]
pub(crate) struct Told {
    /// The direction that shares the carrier.
    direction: DirectionId,
    /// What the terminal may have at most.
    most: Rate,
    /// The latest word: the rate, and how many shared it.
    latest: Option<(Rate, u32)>,
}

impl Told {
    /// Of the gateway at `from` that sends to `to`; `None` if no direction on the way there shares a carrier.
    pub(crate) fn on_way(network: &Network, from: NodeId, to: NodeId) -> Option<Self> {
        let on_carrier = |direction: &DirectionId| network.directions()[direction.index()].config.dama.is_some();
        let direction = network.path(from, to)?.into_iter().find(on_carrier)?;
        Some(Self { direction, most: network.highest_rate(direction)?, latest: None })
    }

    /// `connections` want capacity: the terminal asks for all that it may have, or for none if there are none. Returns what it
    /// has now, unless that and their number are as told before.
    pub(crate) fn news(&mut self, wire: &mut Wire, connections: u32) -> Option<Rate> {
        if self.latest.is_none_or(|(_, before)| (before == 0) != (connections == 0)) {
            wire.demand(self.direction, if connections == 0 { Rate::ZERO } else { self.most });
        }
        let now = (wire.allocated(self.direction)?, connections);
        (self.latest.replace(now) != Some(now)).then_some(now.0)
    }
}
