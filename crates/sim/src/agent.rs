//! What sits at the ends of flows.

mod application;
mod ns2_clock;
mod ping;
mod rtt;
mod tcp;
mod udp;

use self::ping::Ping;
use self::tcp::Tcp;
use self::udp::Udp;
use crate::gateway::Address;
use crate::packet::{Body, Parcel, ParcelId};
use crate::wire::{Path, Wire};
use crate::{FlowConfig, FlowReport, FlowSample, NodeId, RttReport, Traffic};
use std::sync::Arc;
use units::{Bytes, CounterRandom, Instant};

/// Both ends of a flow, with their application. A place in a list of thousands is small, so that to find one of them does
/// not wait for memory.
#[derive(Debug)]
pub(crate) enum Agent {
    Tcp(Box<Tcp>),
    Udp(Box<Udp>),
    Ping(Box<Ping>),
}

/// Whether a flow has just come to its end, complete or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    GoesOn,
    Ended,
}

impl Progress {
    /// This, and what came after it.
    fn and(self, later: Self) -> Self {
        if self == Progress::Ended { self } else { later }
    }
}

impl Agent {
    /// The agent of a flow, with what its application draws from and the seed of its connection.
    pub(crate) fn new(
        flow: &FlowConfig,
        place: Place,
        random: CounterRandom,
        seed: u64,
        records_changes: bool,
    ) -> Self {
        let stop = flow.stop.unwrap_or(Instant::FAR_FUTURE);
        match &flow.traffic {
            Traffic::Tcp { client, server, application } => {
                let records_changes = records_changes && flow.record;
                let configs = [client, server].map(|config| seeded(config, seed));
                Agent::Tcp(Box::new(Tcp::new(place, configs, application, random, stop, records_changes)))
            }
            Traffic::Udp { rate, packet_size, on_off } => {
                Agent::Udp(Box::new(Udp::new(place, *rate, *packet_size, *on_off, random, stop)))
            }
            Traffic::Ping { interval, packet_size, count } => {
                Agent::Ping(Box::new(Ping::new(place, *interval, *packet_size, *count, stop)))
            }
        }
    }

    /// A packet has come: reads its parcel, and releases it.
    #[inline]
    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, id: ParcelId) -> Progress {
        let Parcel { port, body, .. } = wire.parcels.get(id);
        match (self, body) {
            (Agent::Tcp(tcp), Body::Tcp(segment)) => {
                let port = *port;
                if let Some(arrival) = wire.ns2_arrival(id) {
                    let segment = *segment;
                    wire.parcels.release(id);
                    return tcp.handle_arrival(wire, port, &segment, arrival);
                }
                tcp.take(wire.now, port, segment);
                wire.parcels.release(id);
                tcp.serve(wire, port)
            }
            (Agent::Ping(ping), body) => {
                let body = *body;
                wire.parcels.release(id);
                ping.handle_packet(wire, body)
            }
            (Agent::Udp(udp), _) => {
                wire.parcels.release(id);
                udp.handle_packet(wire)
            }
            (Agent::Tcp(_), _) => Progress::GoesOn,
        }
    }

    /// Whether its events run in ns-2's order.
    pub(crate) fn has_ns2_order(&self) -> bool {
        if let Agent::Tcp(tcp) = self { tcp.has_ns2_order() } else { false }
    }

    /// One of its timers was due; perhaps its deadline has moved into the future since.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) -> Progress {
        match self {
            Agent::Tcp(tcp) if timer == APPLICATION => tcp.handle_application_timeout(wire),
            Agent::Tcp(tcp) => tcp.handle_timeout(wire, timer),
            Agent::Udp(udp) => udp.handle_timeout(wire),
            Agent::Ping(ping) => ping.handle_timeout(wire),
        }
    }

    /// Its state now.
    pub(crate) fn sample(&self, flow: u32, at: Instant) -> FlowSample {
        if let Agent::Tcp(tcp) = self {
            return tcp.sample(at);
        }
        FlowSample { flow, at, delivered: Bytes::new(self.outcome().bytes), ..FlowSample::default() }
    }

    /// Whether it is a connection that has delivered everything and is not closed.
    pub(crate) fn is_closing(&self) -> bool {
        if let Agent::Tcp(tcp) = self { tcp.is_closing() } else { false }
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Agent::Tcp(tcp) => size_of_val(&**tcp),
                Agent::Udp(udp) => size_of_val(&**udp),
                Agent::Ping(ping) => size_of_val(&**ping),
            }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Agent::Tcp(tcp) => tcp.outcome(),
            Agent::Udp(udp) => udp.outcome(),
            Agent::Ping(ping) => ping.outcome(),
        }
    }
}

/// Where an agent's ends are, and which timers are its own: `timer` to `timer + TIMERS - 1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) agent: u32,
    pub(crate) timer: u32,
    /// The nodes of client and server.
    pub(crate) nodes: [NodeId; 2],
    /// The paths that start at each.
    pub(crate) paths: [Path; 2],
    /// Who is at the end of each: the other end, or a gateway in its place.
    pub(crate) peers: [Address; 2],
}

/// Timers of an agent: one for each end, by its port, and one for the application.
pub(crate) const TIMERS: u32 = 3;
/// The application's timer.
pub(crate) const APPLICATION: u32 = 2;

impl Place {
    /// Sends a packet from the end `port` to its peer.
    #[inline(always)]
    pub(crate) fn send(&self, wire: &mut Wire, port: u32, size: u32, body: Body) {
        let to = self.peers[port as usize];
        let parcel = Parcel { agent: to.agent, port: to.port, body };
        wire.send(self.nodes[port as usize], self.paths[port as usize], size, parcel);
    }

    /// The application's timer goes off next at `at`.
    pub(crate) fn wake_application(&self, wire: &mut Wire, at: Instant) {
        wire.set_timer(self.timer + APPLICATION, at);
    }
}

/// The endpoint with the seed of its connection: of BBR's probes, and of the clock of ns-2's agents.
fn seeded(config: &Arc<::tcp::Config>, seed: u64) -> Arc<::tcp::Config> {
    Arc::new(::tcp::Config { seed, ..(**config).clone() })
}

/// What an agent reports of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) start: Option<Instant>,
    pub(crate) end: Option<Instant>,
    pub(crate) bytes: u64,
    pub(crate) complete: bool,
    pub(crate) failure: Option<String>,
    pub(crate) data_packets: u64,
    pub(crate) retransmissions: u64,
    pub(crate) rtos: u64,
    pub(crate) received_packets: u64,
    pub(crate) responses: u64,
    pub(crate) rtt: Option<RttReport>,
}

impl Outcome {
    pub(crate) fn report(self, name: String) -> FlowReport {
        let seconds = self.start.zip(self.end).map(|(start, end)| end.since(start).as_secs_f64());
        FlowReport {
            name,
            bytes: self.bytes,
            start_s: self.start.map(Instant::as_secs_f64),
            end_s: self.end.map(Instant::as_secs_f64),
            goodput_bps: seconds.filter(|&seconds| seconds > 0.0).map(|seconds| self.bytes as f64 * 8.0 / seconds),
            complete: self.complete,
            failure: self.failure,
            data_packets: self.data_packets,
            retransmissions: self.retransmissions,
            rtos: self.rtos,
            received_packets: self.received_packets,
            responses: self.responses,
            rtt: self.rtt,
        }
    }
}
