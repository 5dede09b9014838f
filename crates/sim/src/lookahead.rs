//! Loads into the processor's cache what coming events need, while earlier events are handled. Of thousands of connections each has
//! left the cache when its next packet comes, and to wait for it takes longer than to handle the packet.

use crate::agent::{APPLICATION, Agent, TIMERS};
use crate::wire::Wire;

/// The fewest agents that do not stay in the cache by themselves.
const FEWEST_AGENTS: usize = 256;

/// Looks ahead of the events of one run.
#[derive(Debug)]
pub(crate) struct Lookahead {
    is_of_use: bool,
    /// The timer for which an end was loaded last.
    timer: u32,
}

impl Lookahead {
    /// Of a run with so many agents.
    pub(crate) fn new(agents: usize) -> Self {
        Self { is_of_use: agents >= FEWEST_AGENTS, timer: u32::MAX }
    }

    /// To be called before each event.
    #[inline]
    pub(crate) fn look(&mut self, wire: &Wire, agents: &[Agent]) {
        if self.is_of_use {
            self.prefetch(wire, agents);
        }
    }

    fn prefetch(&mut self, wire: &Wire, agents: &[Agent]) {
        let upcoming = wire.upcoming();
        if upcoming.timer != self.timer {
            self.timer = upcoming.timer;
            let (agent, port) = (upcoming.timer / TIMERS, upcoming.timer % TIMERS);
            if let Some(agent) = agents.get(agent as usize).filter(|_| port != APPLICATION) {
                agent.prefetch(port);
            }
        }
        if let Some(packet) = upcoming.later {
            wire.parcels.prefetch(packet.parcel);
            if let Some(agent) = agents.get(packet.agent()) {
                agent.prefetch(packet.port());
            }
        }
        if let Some((packet, agent)) = upcoming.soon.and_then(|packet| Some((packet, agents.get(packet.agent())?))) {
            agent.prefetch_parts(packet.port());
        }
    }
}
