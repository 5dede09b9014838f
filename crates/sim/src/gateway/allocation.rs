//! The allocation of a terminal's carrier, which the gateway beside it follows.

use super::half::SplitHalf;
use crate::wire::Wire;
use crate::{DirectionId, Network, NodeId};
use model::cross_layer::{self, Account, Claim, Use};
use units::{Duration, Rate};

/// A gateway's path onto a carrier.
#[derive(Debug)]
pub(crate) struct CarrierAllocation {
    /// The direction that shares the carrier.
    direction: DirectionId,
    /// What the terminal may have at most.
    most: Rate,
    /// The latest allocation: the rate, and how many shared it.
    latest: Option<(Rate, u32)>,
}

impl CarrierAllocation {
    /// Of the gateway at `from` that sends to `to`; `None` if no direction of the path there shares a carrier.
    pub(crate) fn on_path(network: &Network, from: NodeId, to: NodeId) -> Option<Self> {
        let on_carrier = |direction: &DirectionId| network.directions()[direction.index()].config.dama.is_some();
        let direction = network.path(from, to)?.into_iter().find(on_carrier)?;
        Some(Self { direction, most: network.highest_rate(direction)?, latest: None })
    }

    /// `connections` want capacity: the terminal asks for all that it may have, or for none if there are none. Returns what it
    /// has now, unless that and their number are unchanged.
    pub(crate) fn news(&mut self, wire: &mut Wire, connections: u32) -> Option<Rate> {
        if self.latest.is_none_or(|(_, before)| (before == 0) != (connections == 0)) {
            wire.demand(self.direction, if connections == 0 { Rate::ZERO } else { self.most });
        }
        let now = (wire.allocated(self.direction)?, connections);
        (self.latest.replace(now) != Some(now)).then_some(now.0)
    }
}

/// How the connections of a gateway share what its carrier gives: by what they use (the rule of `bp_cross`).
#[derive(Debug)]
pub(crate) struct AllocationShares {
    /// What all may have.
    rate: Rate,
    account: Account,
    /// What each connection, by its number, counts as, and its window.
    claims: Vec<(Option<Claim>, f64)>,
    allocations: Vec<Option<tcp::Allocation>>,
}

impl AllocationShares {
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            rate: Rate::ZERO,
            account: Account::default(),
            claims: vec![(None, cross_layer::MIN); connections],
            allocations: vec![None; connections],
        }
    }

    /// All may have `rate` from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Sets the part of connection `number`, if it has changed.
    pub(crate) fn follow(&mut self, wire: &Wire, number: usize, config: &tcp::Config, half: &mut SplitHalf) {
        let metrics = half.tcp.metrics();
        let (rtt, queue) = config.capacity.map_or((Duration::ZERO, Duration::ZERO), |is| (is.rtt, is.target_queue));
        let rtt = if metrics.min_rtt.is_zero() { rtt } else { metrics.min_rtt };
        let each = f64::from(config.mss) / (rtt + queue).as_secs_f64().max(1e-9);
        let (before, window_before) = self.claims[number];
        if let Some(claim) = before {
            self.account.remove(claim);
        }
        let flight = metrics.in_flight as f64 / f64::from(config.mss);
        let unsent = half.tcp.unsent();
        let kind = Use::of(unsent > 0, flight, window_before, before.map(|claim| claim.kind));
        let header_share = config.tuning.header_share;
        let all = cross_layer::bytes_per_second_each(self.rate, header_share, 1);
        let window = self.account.window(all, each, kind);
        let pace = Rate::from_bps((self.account.pace(all, kind) * 8.0) as u64);
        let counts = !half.tcp.is_closed() && (flight > 0.0 || unsent > 0);
        let claim = counts.then(|| self.account.claim(all, each, kind, flight));
        if let Some(claim) = claim {
            self.account.add(claim);
        }
        self.claims[number] = (claim, window);
        // The control makes a window of the rate again.
        let rate = Rate::from_bps(((window + 0.01) * each * (1.0 + header_share) * 8.0) as u64);
        let allocation = tcp::Allocation { pace, ..tcp::Allocation::new(rate, 1) };
        if self.allocations[number].replace(allocation) != Some(allocation) {
            half.tcp.set_capacity(wire.now, allocation);
        }
    }
}
