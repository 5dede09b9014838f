//! The state of a running gateway, as `bentpipe gateway status` shows it.

use crate::connection_log::ConnectionLog;
use crate::drain::Drain;
use crate::handle::Extent;
use crate::host_sockets::HostSockets;
use crate::link_state::LinkState;
use crate::relays::Relays;
use crate::transport::SatelliteTransport;
use relay::engine::Relayed;
use status::{Link, MissingInterface, Modem, Privileges, Side, Snapshot, Stall, Stream, UpdateCounts};
use std::collections::BTreeMap;
use units::Instant;

/// What the daemon knows beside its relays.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) public_key: String,
    pub(super) started: Instant,
    pub(super) reloads: u64,
    pub(super) predecessor: Option<u32>,
    pub(super) drain: Option<Drain>,
    pub(super) link_state: LinkState,
    pub(super) link_updates: [UpdateCounts; 2],
    pub(super) modem: Option<Modem>,
    pub(super) bypassed: &'a BTreeMap<String, u64>,
    pub(super) undelivered: u64,
    pub(super) missing_interfaces: &'a [MissingInterface],
    pub(super) privileges: &'a Privileges,
}

/// The state of the gateway at `now`.
pub(super) fn snapshot<T: SatelliteTransport>(
    now: Instant,
    extent: Extent,
    facts: &Facts<'_>,
    relays: &Relays<T>,
) -> Snapshot {
    let (transport, engine) = (relays.transport(), &relays.engine);
    let capacity = transport.capacity(now);
    let streams = match extent {
        Extent::Sample { has_streams: false } => Vec::new(),
        _ => engine.connections().map(|(_, connection)| stream(now, connection, relays)).collect(),
    };
    Snapshot {
        name: facts.name.to_owned(),
        pid: std::process::id(),
        predecessor: facts.predecessor,
        draining: facts.drain.map(|drain| drain.report(now, relays.count())),
        uptime_s: now.since(facts.started).as_secs_f64(),
        reloads: facts.reloads,
        public_key: facts.public_key.clone(),
        transport: T::NAME.into(),
        rate_bps: capacity.rate_bps,
        capacity,
        send_limit_bps: transport.send_limit_bps(),
        link: Link::new(&facts.link_state, now),
        link_updates: facts.link_updates,
        modem: facts.modem.clone(),
        cross_traffic_bps: transport.cross_traffic_bps(),
        privileges: facts.privileges.clone(),
        connections: engine.counters.clone(),
        bypassed: facts.bypassed.clone(),
        undelivered: facts.undelivered,
        missing_interfaces: facts.missing_interfaces.to_vec(),
        satellite: transport.satellite(),
        peers: relays.peers().iter().map(|(at, peer)| transport.peer(now, at, peer)).collect(),
        connection_log: relays.connection_log.as_ref().map(ConnectionLog::counts),
        streams,
    }
}

/// One relayed connection.
fn stream<T: SatelliteTransport>(
    now: Instant,
    connection: &Relayed<T::Stream, HostSockets>,
    relays: &Relays<T>,
) -> Stream {
    let buffered = relays.transport().buffered(connection.stream());
    Stream {
        stream: relays.transport().number(connection.stream()),
        peer: relays.peers()[connection.peer()].name.clone(),
        side: if connection.is_near() { Side::Near } else { Side::Far },
        client: connection.request().map(|request| request.source),
        server: connection.request().map(|request| request.destination),
        class: connection.request().map(|request| relays.class_name(request).to_owned()),
        state: connection.state().to_string(),
        age_s: now.since(connection.started()).as_secs_f64(),
        from_tcp_bytes: connection.from_tcp(),
        to_tcp_bytes: connection.to_tcp(),
        send_buffered_bytes: buffered.map(|buffered| buffered.send),
        receive_buffered_bytes: buffered.map(|buffered| buffered.receive),
        stall: connection.stall(now).map(|(cause, time)| Stall { cause, time_s: time.as_secs_f64() }),
    }
}
