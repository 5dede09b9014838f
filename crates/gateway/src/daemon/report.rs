//! The state of a running gateway, for whoever asks.

use crate::drain::Drain;
use crate::host_sockets::HostSockets;
use crate::leg::Leg;
use crate::privileges::Privileges;
use crate::relays::Relays;
use crate::snapshot::{Snapshot, Stream};
use crate::told::{Counts, ModemReport, Report, Told};
use relay::engine::Relayed;
use std::collections::BTreeMap;
use units::Instant;

/// What the daemon knows beside its relays.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) public_key: String,
    pub(super) started: Instant,
    pub(super) predecessor: Option<u32>,
    pub(super) drain: Option<Drain>,
    pub(super) told: Told,
    pub(super) words: [Counts; 2],
    pub(super) modem: Option<ModemReport>,
    pub(super) bypassed: &'a BTreeMap<String, u64>,
    pub(super) privileges: &'a Privileges,
}

/// The state of the gateway at `now`.
pub(super) fn snapshot<L: Leg>(now: Instant, facts: &Facts<'_>, relays: &Relays<L>) -> Snapshot {
    let (leg, engine) = (relays.leg(), &relays.engine);
    Snapshot {
        name: facts.name.to_owned(),
        pid: std::process::id(),
        predecessor: facts.predecessor,
        draining: facts.drain.map(|drain| drain.report(now, relays.count())),
        uptime_s: now.since(facts.started).as_secs_f64(),
        public_key: facts.public_key.clone(),
        leg: L::NAME,
        rate_bps: leg.capacity().as_bps(),
        told: Report::new(&facts.told, now),
        words: facts.words,
        modem: facts.modem.clone(),
        outside_bps: leg.outside_bps(),
        privileges: facts.privileges.clone(),
        connections: engine.counters.clone(),
        bypassed: facts.bypassed.clone(),
        transport: leg.transport(),
        peers: relays.peers().iter().map(|(at, peer)| leg.peer(now, at, peer)).collect(),
        streams: engine.connections().map(|(_, connection)| stream(now, connection, relays)).collect(),
    }
}
/// One relayed connection.
fn stream<L: Leg>(now: Instant, connection: &Relayed<L::Stream, HostSockets>, relays: &Relays<L>) -> Stream {
    Stream {
        stream: relays.leg().number(connection.stream()),
        peer: relays.peers()[connection.peer()].name.clone(),
        side: if connection.is_near() { "near" } else { "far" },
        client: connection.open().map(|open| open.source),
        server: connection.open().map(|open| open.destination),
        class: connection.open().map(|open| relays.class_name(open).to_owned()),
        state: connection.state().to_string(),
        age_s: now.since(connection.started()).as_secs_f64(),
        from_tcp_bytes: connection.from_tcp(),
        to_tcp_bytes: connection.to_tcp(),
    }
}
