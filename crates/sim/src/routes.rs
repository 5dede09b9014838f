//! Routes that follow links which come and go, and delays that change: from each node the first link of the shortest way to each
//! destination, by delay, computed at each change or on schedule.

use crate::{DirectionId, Network, NodeId};
use scenario::{Routing, UnderWay, UpTimes};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Duration, Instant};

/// No way leads there.
const NOWHERE: u32 = u32::MAX;

/// The routes of a network.
#[derive(Debug)]
pub(crate) struct Routes {
    routing: Routing,
    /// The nodes to which packets go.
    destinations: Vec<NodeId>,
    /// The direction to take for each destination and, within, from each node.
    next: Vec<u32>,
    directions: Vec<Direction>,
    /// The directions that end in each node.
    incoming: Vec<Vec<u32>>,
    next_change: Instant,
    next_computation: Instant,
    /// Directions that have gone, and have yet to lose what they have.
    gone: Vec<u32>,
    /// Packets for which there was no way.
    pub(crate) no_route: u64,
}

#[derive(Debug)]
struct Direction {
    from: NodeId,
    is_up: bool,
    times: Option<UpTimes>,
}

/// What a packet does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is there.
    Arrived,
    /// It takes this direction.
    Over(u32),
    /// It is to take this direction, which is down.
    Down(u32),
    /// There is no way.
    Nowhere,
}

impl Routes {
    /// `None` where routes never change.
    pub(crate) fn new(network: &Network, routing: Routing) -> Option<Self> {
        if !network.has_routes_that_change(routing) {
            return None;
        }
        let mut incoming = vec![Vec::new(); network.nodes().len()];
        let mut directions = Vec::new();
        for (number, direction) in network.directions().iter().enumerate() {
            incoming[direction.to.index()].push(number as u32);
            let times = direction.up.clone();
            let is_up = times.as_ref().is_none_or(|times| times.is_up(Instant::ZERO));
            directions.push(Direction { from: direction.from, is_up, times });
        }
        let mut routes = Self {
            routing,
            destinations: Vec::new(),
            next: Vec::new(),
            directions,
            incoming,
            next_change: Instant::ZERO,
            next_computation: Instant::ZERO,
            gone: Vec::new(),
            no_route: 0,
        };
        routes.next_change = routes.find_next_change(Instant::ZERO);
        Some(routes)
    }

    fn find_next_change(&self, now: Instant) -> Instant {
        let changes = self.directions.iter().filter_map(|direction| direction.times.as_ref()?.next_change(now));
        changes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Whether a direction comes and goes, and loses what it has when it goes.
    pub(crate) fn may_lose(&self, direction: DirectionId) -> bool {
        self.routing.under_way == UnderWay::Lose && self.directions[direction.index()].times.is_some()
    }

    /// Whether a direction is up now.
    pub(crate) fn is_up(&self, direction: u32) -> bool {
        self.directions[direction as usize].is_up
    }

    /// The number of a destination. Its routes are there once they are computed.
    pub(crate) fn destination(&mut self, node: NodeId) -> u32 {
        let known = self.destinations.iter().position(|known| *known == node);
        known.unwrap_or_else(|| {
            self.destinations.push(node);
            self.next.extend(std::iter::repeat_n(NOWHERE, self.incoming.len()));
            self.destinations.len() - 1
        }) as u32
    }

    /// What a packet at `node` does next on its way to a destination.
    pub(crate) fn step(&self, destination: u32, node: NodeId) -> Step {
        if self.destinations[destination as usize] == node {
            return Step::Arrived;
        }
        match self.next[destination as usize * self.incoming.len() + node.index()] {
            NOWHERE => Step::Nowhere,
            direction if self.directions[direction as usize].is_up => Step::Over(direction),
            direction => Step::Down(direction),
        }
    }

    /// The direction that packets at `node` take to a destination, up or down; `None` where they are or if there is no way.
    pub(crate) fn next(&self, destination: u32, node: NodeId) -> Option<u32> {
        match self.step(destination, node) {
            Step::Over(direction) | Step::Down(direction) => Some(direction),
            Step::Arrived | Step::Nowhere => None,
        }
    }

    /// When [`Routes::advance`] has something to do.
    pub(crate) fn next_timeout(&self) -> Instant {
        self.next_change.min(self.next_computation)
    }

    /// Takes the directions that have gone since this was called last.
    pub(crate) fn take_gone(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone)
    }

    /// Lets links come and go until `now`, and computes routes if that is due; `delay` is that of a direction.
    pub(crate) fn advance(&mut self, now: Instant, delay: impl Fn(u32) -> Duration) {
        let mut is_due = self.next_computation <= now;
        if self.next_change <= now {
            for (number, direction) in self.directions.iter_mut().enumerate() {
                let Some(times) = &direction.times else { continue };
                let is_up = times.is_up(now);
                if direction.is_up && !is_up {
                    self.gone.push(number as u32);
                }
                direction.is_up = is_up;
            }
            is_due |= self.routing.every.is_none();
            self.next_change = self.find_next_change(now);
        }
        if is_due {
            self.next_computation = self.routing.every.map_or(Instant::FAR_FUTURE, |every| now + every);
            for destination in 0..self.destinations.len() {
                self.compute(destination, &delay);
            }
        }
    }

    /// The shortest ways to a destination over the links that are up: of least delay, among those of fewest links, among those over the
    /// link added first.
    fn compute(&mut self, destination: usize, delay: &impl Fn(u32) -> Duration) {
        let nodes = self.incoming.len();
        let next = &mut self.next[destination * nodes..(destination + 1) * nodes];
        next.fill(NOWHERE);
        let mut best = vec![(Duration::MAX, u32::MAX, u32::MAX); nodes];
        let end = self.destinations[destination];
        best[end.index()] = (Duration::ZERO, 0, 0);
        let mut frontier = BinaryHeap::from([Reverse((Duration::ZERO, 0, end))]);
        while let Some(Reverse((far, links, node))) = frontier.pop() {
            if (far, links) > (best[node.index()].0, best[node.index()].1) {
                continue;
            }
            for &direction in &self.incoming[node.index()] {
                let Direction { from, is_up, .. } = self.directions[direction as usize];
                let cost = (far + delay(direction), links + 1, direction);
                if is_up && cost < best[from.index()] {
                    best[from.index()] = cost;
                    next[from.index()] = direction;
                    frontier.push(Reverse((cost.0, cost.1, from)));
                }
            }
        }
    }
}
