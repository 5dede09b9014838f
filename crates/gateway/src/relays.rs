//! The relayed connections of the daemon: the relay engine between its sockets and its transport, and what it logs of them.

pub(crate) mod log_limit;
mod notices;
mod unanswered;

use crate::config::{Peer, Settings};
use crate::connection_log::ConnectionLog;
use crate::hold::HeldSyns;
use crate::host_sockets::{self, HostSockets};
use crate::takeover::offer::TransportOffer;
use crate::tcp_socket::Tcp;
use crate::transport::SatelliteTransport;
use crate::watch::Watch;
use ipnet::IpNet;
use kernel::nfqueue::Held;
use kernel::transparent::Accepted;
use notices::LogLimits;
use relay::connect::ConnectRequest;
use relay::connection::State;
use relay::dscp::Dscp;
use relay::engine::{self, DEFAULT_CLASS, Engine, PeerSettings};
use relay::routes::Routes;
use slab::Slab;
use std::io;
use unanswered::Unanswered;
use units::Instant;

/// All relayed connections, and the transport that carries them.
pub(crate) struct Relays<T: SatelliteTransport> {
    pub(crate) engine: Engine<T, HostSockets>,
    /// The peers' settings, by place.
    peers: Slab<Peer>,
    /// Where connections that have ended are logged.
    pub(crate) connection_log: Option<ConnectionLog>,
    log_limits: LogLimits,
    /// Whether the gateway intercepts connections at all.
    intercepts: bool,
    unanswered: Unanswered,
    /// Clients that have come.
    arrived: u64,
}

impl<T: SatelliteTransport> Relays<T> {
    /// No connections yet. `own` are the gateway's own addresses; `descriptors` the process may have.
    pub(crate) fn new(transport: T, settings: &Settings, own: &[IpNet], watch: Watch, descriptors: u64) -> Self {
        let hosts = HostSockets::new(settings, watch, descriptors);
        let peers = settings.peers.iter().map(of_engine);
        let mut engine = Engine::new(transport, hosts, engine_settings(settings, settings.routes.clone()), peers, own);
        if tracing::enabled!(tracing::Level::TRACE) {
            engine.report_transitions();
        }
        let peers = settings.peers.iter().cloned().enumerate().collect();
        Self {
            engine,
            peers,
            connection_log: None,
            log_limits: LogLimits::default(),
            intercepts: !settings.rules.interfaces.is_empty(),
            unanswered: Unanswered::default(),
            arrived: 0,
        }
    }

    /// How the bytes cross the satellite.
    pub(crate) fn transport(&self) -> &T {
        &self.engine.transport
    }

    /// How the bytes cross the satellite.
    pub(crate) fn transport_mut(&mut self) -> &mut T {
        &mut self.engine.transport
    }

    /// The queue of held SYNs, with `accept = "confirmed"`.
    pub(crate) fn held_syns(&mut self) -> Option<&mut HeldSyns> {
        self.engine.hosts.held_syns.as_mut()
    }

    /// SYNs are held in `syns` until the server has answered.
    pub(crate) fn hold_syns(&mut self, syns: HeldSyns) {
        self.engine.hosts.held_syns = Some(syns);
        self.engine.set_holds_syns(true);
    }

    /// How many connections are relayed.
    pub(crate) fn count(&self) -> usize {
        self.engine.connections().len()
    }

    /// How many clients have come, accepted or with a SYN that is held.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The peers' settings, by place.
    pub(crate) fn peers(&self) -> &Slab<Peer> {
        &self.peers
    }

    /// The name of the class of a connection.
    pub(crate) fn class_name(&self, request: &ConnectRequest) -> &str {
        self.engine.class_of(request).map_or(DEFAULT_CLASS, |class| &class.name)
    }

    /// A client has connected.
    pub(crate) fn accept(&mut self, now: Instant, accepted: Accepted) {
        let Accepted { socket, client, called, traffic_class } = accepted;
        let request =
            ConnectRequest { dscp: Dscp::of_traffic_class(traffic_class), ..ConnectRequest::new(client, called) };
        self.arrived += 1;
        self.engine.accept(now, Tcp::accepted(socket), request);
    }

    /// A client wants to connect; its SYN is held until the server has answered.
    pub(crate) fn hold(&mut self, now: Instant, held: Held, request: ConnectRequest) {
        self.arrived += 1;
        self.engine.hold(now, held, request);
    }

    /// Leaves clients whose SYN is held to another process, which can serve the queue then.
    pub(crate) fn leave_held_syns(&mut self, now: Instant) {
        self.engine.leave_held_syns(now);
        self.engine.hosts.held_syns = None;
    }

    /// Goes on with what another process has left.
    ///
    /// # Errors
    /// If the transport does not understand it.
    pub(crate) fn inherit(&mut self, estate: &[u8]) -> io::Result<()> {
        self.transport_mut().inherit(estate)
    }

    /// The socket of connection `key` is ready for something.
    pub(crate) fn on_socket_event(&mut self, now: Instant, key: usize, event: &mio::event::Event) {
        // The event may be about a socket that is closed by now; what follows asks the socket itself.
        let Some(state) = self.engine.connection(key).map(engine::Relayed::state) else { return };
        let Some(tcp) = self.engine.tcp_mut(key) else { return };
        tcp.on_event(event);
        if state == State::Connecting {
            self.on_connect_progress(now, key);
        } else if event.is_error() && state.has_answer() && state.reads_tcp() {
            self.engine.on_tcp_failing(now, key);
        } else if event.is_error() && tcp.has_failed() {
            self.engine.on_tcp_failed(now, key);
        } else {
            self.engine.on_ready(key);
        }
    }

    fn on_connect_progress(&mut self, now: Instant, key: usize) {
        let Some(socket) = self.engine.tcp_mut(key).and_then(|tcp| tcp.socket.as_ref()) else { return };
        match socket.take_error() {
            // It had been accepted: a SYN is refused in other words. What came before the reset is still read.
            Ok(Some(error)) if error.raw_os_error() == Some(libc::ECONNRESET) => {
                if let Some(tcp) = self.engine.tcp_mut(key) {
                    tcp.note_failed_write();
                }
                self.engine.on_connected(now, key);
                self.engine.on_tcp_failing(now, key);
            }
            Ok(Some(error)) | Err(error) => {
                let reason = host_sockets::why_not_connected(&error);
                if let Some(request) = self.engine.connection(key).and_then(engine::Relayed::request) {
                    host_sockets::log_not_connected(request, &error);
                }
                self.engine.on_connect_failed(now, key, reason);
            }
            // Not connected and not failed: the event was about something else.
            Ok(None) if socket.peer_addr().is_err() => {}
            Ok(None) => self.engine.on_connected(now, key),
        }
    }

    /// What another process may take over of the transport.
    ///
    /// # Errors
    /// Why the transport cannot be handed over.
    pub(crate) fn offer(&mut self) -> Result<TransportOffer, String> {
        let peers: Vec<_> = self.peers.iter().collect();
        self.engine.transport.offer(&peers)
    }

    /// Begins to find out what the path to the peer `name` carries.
    pub(crate) fn survey(&mut self, now: Instant, name: &str) -> Result<(), String> {
        let (at, peer) = self.peers.iter().find(|(_, peer)| peer.name == name).ok_or("there is no such peer")?;
        self.engine.transport.survey(now, at, peer.cap).map_err(str::to_owned)
    }

    /// Takes `settings` over, which [`crate::reload::compare`] has found to be such as can change. Connections go on, but for
    /// those of peers that are none any more, whose places it returns; what is settled when a connection opens stays as it was for those
    /// that there are.
    pub(crate) fn reconfigure(&mut self, now: Instant, settings: &Settings) -> Vec<usize> {
        self.transport_mut().reconfigure(now, settings);
        self.engine.hosts.reconfigure(settings);
        let is_gone = |known: &Peer| !settings.peers.iter().any(|peer| peer.is_same_gateway(known));
        let gone: Vec<usize> = self.peers.iter().filter(|(_, peer)| is_gone(peer)).map(|(at, _)| at).collect();
        for &at in &gone {
            self.engine.set_waiting_aside(at);
            self.engine.remove_peer(now, at);
            // Its connections have ended: the log names it, and not the next peer at this place.
            self.log(now);
            self.log_limits.forget(at);
            self.transport_mut().remove_peer(now, at);
            self.peers.remove(at);
        }
        // By place in the settings, the place here.
        let places: Vec<usize> = settings.peers.iter().map(|peer| self.put_peer(now, peer)).collect();
        self.engine.reconfigure(now, engine_settings(settings, settings.routes.map(|at| places[at])));
        gone
    }

    /// Adds the peer, or gives one that there is its new settings. Returns its place.
    fn put_peer(&mut self, now: Instant, peer: &Peer) -> usize {
        let known = self.peers.iter().find(|(_, known)| known.is_same_gateway(peer)).map(|(at, _)| at);
        match known {
            Some(at) if self.peers[at] == *peer => at,
            Some(at) => {
                self.engine.change_peer(at, of_engine(peer));
                self.transport_mut().change_peer(now, at, peer);
                self.peers[at] = peer.clone();
                at
            }
            None => {
                let at = self.engine.add_peer(of_engine(peer));
                let place = self.peers.insert(peer.clone());
                debug_assert_eq!(at, place, "both tables fill the same gaps");
                self.transport_mut().add_peer(now, at, peer);
                at
            }
        }
    }
}

/// What of the settings is the engine's.
fn engine_settings(settings: &Settings, routes: Routes<usize>) -> engine::Settings {
    engine::Settings {
        routes,
        classes: settings.classes.clone(),
        bypass: settings.bypass.iter().map(|rule| rule.conditions.clone()).collect(),
        connect_timeout: settings.connect_timeout,
        user_timeout: settings.user_timeout,
    }
}

/// What of a peer's settings is the engine's.
fn of_engine(peer: &Peer) -> PeerSettings {
    PeerSettings {
        name: peer.name.clone(),
        routes: peer.routes.clone(),
        allow_sources: peer.allow_sources.clone(),
        allow_destinations: peer.allow_destinations.clone(),
        connect_as_client: peer.connect_as_client,
        is_direct: peer.public_key.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relayed_connection_is_small() {
        // The table has up to twice as many places as connections: `crates/relay/tests/idle.rs` counts what comes on top.
        let size = size_of::<engine::Relayed<satpep::StreamId, HostSockets>>();
        assert!(size <= 400, "{size} bytes");
    }
}
