//! Pairs of gateways that split the TCP connections whose way passes both.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the pairs, whatever they speak |
//! | `site.rs` | what a pair needs to make itself a place in the network |
//! | `assigned.rs` | a pair that speaks SaTPEP as its paper has it |
//! | `half.rs` | one TCP connection of a gateway, and the two of a split flow |
//! | `relays/` | a pair that speaks the satellite transport |
//! | `modem.rs` | the reports of a link's modem |
//! | `cross_traffic.rs` | what cross traffic takes of its link |
//! | `session.rs` | the transport's two endpoints, connected before the run begins |
//! | `splices.rs` | a pair that speaks TCP |
//! | `stalls.rs` | a gateway whose processor is busy with something else at times |
//! | `allocation.rs` | what the carrier of a terminal allocates to the gateway beside it |

mod allocation;
mod assigned;
mod cross_traffic;
mod half;
mod modem;
mod relays;
mod session;
mod site;
mod splices;
mod stalls;

pub(crate) use site::Site;

use crate::packet::Parcel;
use crate::split::Split;
use crate::wire::Wire;
use crate::{FlowConfig, GatewayConfig, GatewayError, GatewayReport, StreamReport, Transport};
use assigned::Assigned;
use relays::Relays;
use splices::Splices;
use units::Instant;

/// A pair at work.
#[derive(Debug)]
pub(crate) enum Gateway {
    Relays(Box<Relays>),
    Assigned(Box<Assigned>),
    Splices(Box<Splices>),
}

impl Gateway {
    /// The pair, ready for its flows.
    pub(crate) fn new(config: &GatewayConfig, splits: Vec<Split>, site: Site<'_>) -> Result<Self, GatewayError> {
        match &config.transport {
            Transport::Satpep(transport) => {
                Relays::new(config, transport, splits, site).map(|relays| Gateway::Relays(Box::new(relays)))
            }
            Transport::Satpep2003(paper) => {
                Assigned::new(config, paper, splits, site).map(|pair| Gateway::Assigned(Box::new(pair)))
            }
            Transport::Tcp(satellite) => {
                Splices::new(config, satellite, splits, site).map(|splices| Gateway::Splices(Box::new(splices)))
            }
        }
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        match self {
            Gateway::Relays(relays) => relays.handle_packet(wire, parcel),
            Gateway::Assigned(pair) => pair.handle_packet(wire, parcel),
            Gateway::Splices(splices) => splices.handle_packet(wire, parcel),
        }
    }

    /// One of its timers was due, by its number among them.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        match self {
            Gateway::Relays(relays) => relays.handle_timeout(wire, timer),
            Gateway::Assigned(pair) => pair.handle_timeout(wire, timer),
            Gateway::Splices(splices) => splices.handle_timeout(wire, timer),
        }
    }

    /// A carrier may have sent its terminals new allocations: [`Wire::allocated`] says what.
    pub(crate) fn handle_allocation(&mut self, wire: &mut Wire) {
        match self {
            Gateway::Splices(splices) => splices.follow(wire),
            Gateway::Relays(relays) => relays.follow(wire),
            Gateway::Assigned(_) => {}
        }
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Gateway::Relays(relays) => relays.memory(),
            Gateway::Assigned(pair) => pair.memory(),
            Gateway::Splices(splices) => splices.memory(),
        }
    }

    pub(crate) fn capacity_estimates(&self, now: Instant) -> Option<[satpep::Estimate; 2]> {
        match self {
            Gateway::Relays(relays) => Some(relays.capacity_estimates(now)),
            Gateway::Assigned(_) | Gateway::Splices(_) => None,
        }
    }

    pub(crate) fn report(&self, config: &GatewayConfig, flows: &[FlowConfig]) -> GatewayReport {
        let (streams, sessions, transport) = match self {
            Gateway::Relays(relays) => (relays.streams(), relays.sessions(), None),
            Gateway::Assigned(pair) => (pair.streams(), Vec::new(), Some(pair.transport())),
            Gateway::Splices(splices) => (splices.streams(), Vec::new(), None),
        };
        let named =
            |(flow, stream): (u32, StreamReport)| StreamReport { flow: flows[flow as usize].name.clone(), ..stream };
        let transitions = match self {
            Gateway::Relays(relays) => relays.transitions(flows),
            Gateway::Assigned(_) | Gateway::Splices(_) => Vec::new(),
        };
        let streams = streams.into_iter().map(named).collect();
        GatewayReport { name: config.name.clone(), streams, sessions, transport, transitions }
    }
}
