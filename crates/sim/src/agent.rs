//! What sits at the ends of flows.

mod application;
mod connection;
mod endpoint;
mod ns2_clock;
mod outcome;
mod ping;
mod place;
mod rtt;
mod udp;

pub(crate) use self::outcome::Progress;
pub(crate) use self::place::{APPLICATION, Place, TIMERS};

use self::connection::{Connection, Setup};
use self::outcome::Outcome;
use self::ping::Ping;
use self::udp::Udp;
use crate::packet::{Body, Parcel, ParcelId};
use crate::wire::Wire;
use crate::{FlowConfig, FlowSample, Traffic};
use ::tcp::control::Control;
use std::sync::Arc;
use units::{Bytes, CounterRandom, Instant};

/// Both ends of a flow, with their application. A place in a list of thousands is small, so that to find one of them does
/// not wait for memory.
#[derive(Debug)]
pub(crate) enum Agent {
    Tcp(Box<Connection<::tcp::Connection>>),
    Quic(Box<Connection<quic::Connection>>),
    Udp(Box<Udp>),
    Ping(Box<Ping>),
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
                let setup = Setup { place, application, random, stop, records_changes };
                Agent::Tcp(Box::new(Connection::tcp(setup, seeded(client, server, seed))))
            }
            Traffic::Quic { ends, application } => {
                let records_changes = records_changes && flow.record;
                let setup = Setup { place, application, random, stop, records_changes };
                Agent::Quic(Box::new(Connection::quic(setup, &ends.seeded(seed))))
            }
            Traffic::Udp { rate, packet_size, on_off } => {
                Agent::Udp(Box::new(Udp::new(place, *rate, *packet_size, *on_off, random, stop)))
            }
            Traffic::Ping { interval, packet_size, count } => {
                Agent::Ping(Box::new(Ping::new(place, *interval, *packet_size, *count, stop)))
            }
        }
    }

    /// Puts `control` in the place of the one with which it sends its data.
    pub(crate) fn set_control(&mut self, control: Box<dyn Control>) -> Result<(), String> {
        match self {
            Agent::Tcp(tcp) => tcp.set_control(control).map_err(|error| error.to_string()),
            Agent::Quic(quic) => {
                quic.set_control(control);
                Ok(())
            }
            Agent::Udp(_) | Agent::Ping(_) => {
                Err("it is no flow of TCP or QUIC, and has no congestion control".to_owned())
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
            (Agent::Quic(quic), Body::Quic { id: packet, ecn }) => {
                let (port, packet, ecn) = (*port, *packet, *ecn);
                wire.parcels.release(id);
                let Some(packet) = wire.quic_packets.take(packet) else { return Progress::GoesOn };
                quic.take(wire.now, port, &(packet, ecn));
                quic.serve(wire, port)
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
            (Agent::Tcp(_) | Agent::Quic(_), _) => Progress::GoesOn,
        }
    }

    /// Starts to load what an event at one of its ends needs.
    #[inline]
    pub(crate) fn prefetch(&self, port: u32) {
        match self {
            Agent::Tcp(tcp) => tcp.prefetch(port),
            Agent::Quic(quic) => quic.prefetch(port),
            Agent::Udp(_) | Agent::Ping(_) => {}
        }
    }

    /// Starts to load what that end keeps elsewhere, once the end itself is loaded.
    #[inline]
    pub(crate) fn prefetch_parts(&self, port: u32) {
        match self {
            Agent::Tcp(tcp) => tcp.prefetch_parts(port),
            Agent::Quic(quic) => quic.prefetch_parts(port),
            Agent::Udp(_) | Agent::Ping(_) => {}
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
            Agent::Quic(quic) if timer == APPLICATION => quic.handle_application_timeout(wire),
            Agent::Quic(quic) => quic.handle_timeout(wire, timer),
            Agent::Udp(udp) => udp.handle_timeout(wire),
            Agent::Ping(ping) => ping.handle_timeout(wire),
        }
    }

    /// Its state now.
    pub(crate) fn sample(&self, flow: u32, at: Instant) -> FlowSample {
        match self {
            Agent::Tcp(tcp) => tcp.sample(at),
            Agent::Quic(quic) => quic.sample(at),
            _ => FlowSample { flow, at, delivered: Bytes::new(self.outcome().bytes), ..FlowSample::default() },
        }
    }

    /// Whether it is a connection that has delivered everything and is not closed.
    pub(crate) fn is_closing(&self) -> bool {
        match self {
            Agent::Tcp(tcp) => tcp.is_closing(),
            Agent::Quic(quic) => quic.is_closing(),
            Agent::Udp(_) | Agent::Ping(_) => false,
        }
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Agent::Tcp(tcp) => size_of_val(&**tcp),
                Agent::Quic(quic) => size_of_val(&**quic),
                Agent::Udp(udp) => size_of_val(&**udp),
                Agent::Ping(ping) => size_of_val(&**ping),
            }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Agent::Tcp(tcp) => tcp.outcome(),
            Agent::Quic(quic) => quic.outcome(),
            Agent::Udp(udp) => udp.outcome(),
            Agent::Ping(ping) => ping.outcome(),
        }
    }
}

/// Client and server with the seed of their connection: of BBR's probes, and of the clock of ns-2's agents. What is one
/// configuration stays one: thousands of connections that read their own wait for memory.
fn seeded(client: &Arc<::tcp::Config>, server: &Arc<::tcp::Config>, seed: u64) -> [Arc<::tcp::Config>; 2] {
    let with_seed = |config: &Arc<::tcp::Config>| {
        if config.draws() { Arc::new(::tcp::Config { seed, ..(**config).clone() }) } else { config.clone() }
    };
    let first = with_seed(client);
    let second = if Arc::ptr_eq(client, server) { first.clone() } else { with_seed(server) };
    [first, second]
}
