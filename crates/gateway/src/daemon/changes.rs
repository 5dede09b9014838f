//! What an operator asks of a running gateway: other settings, or to take no more connections.

use super::Daemon;
use crate::config::Settings;
use crate::drain::Drain;
use crate::reload::{self, ReloadError};
use crate::transport::SatelliteTransport;
use kernel::transparent;
use units::{Duration, Instant};

impl<T: SatelliteTransport> Daemon<T> {
    /// Takes other settings over, or leaves everything as it is.
    pub(super) fn reload(&mut self, now: Instant, mut settings: Settings) -> Result<Vec<String>, ReloadError> {
        let changes = reload::compare(&self.settings, &settings)?;
        settings.memory = self.settings.memory;
        if changes.is_empty() {
            return Ok(changes);
        }
        for place in self.relays.reconfigure(now, &settings) {
            self.trouble.forget(place);
        }
        for listener in &self.listeners {
            let bounded = transparent::bound_backlog(listener, settings.host_backlog());
            if let Err(error) =
                bounded.and_then(|()| transparent::set_keepalive(listener, settings.host_keepalive.into()))
            {
                tracing::warn!(%error, "host_buffer, host_keepalive: clients' connections keep what they had");
            }
        }
        self.updates.reconfigure(&settings);
        if let Some(steering) = self.steering.as_ref().filter(|_| self.settings.bypass != settings.bypass) {
            steering.exempt(settings.bypass.clone());
            self.relays.engine.decide_syns_again(now);
        }
        self.delays.retain(|name| settings.peers.iter().any(|peer| peer.name == name));
        self.settings = settings;
        if let Some(predecessor) = &mut self.predecessor {
            predecessor.keep_only(&self.settings.peers);
        }
        self.reloads += 1;
        self.intercept(now);
        Ok(changes)
    }

    /// No more connections: none are intercepted, and the peers are notified.
    pub(super) fn begin_drain(&mut self, now: Instant, within: Option<Duration>) {
        let limit = within.map_or("no limit".to_owned(), |within| within.to_string());
        if self.drain.is_none() {
            self.drains_late = self.joining.is_some();
            if !self.drains_late {
                self.relays.transport_mut().drain(now);
            }
        }
        let rtt = self.settings.link.rtt;
        self.drain.get_or_insert_with(|| Drain::new(now, rtt, None)).limit(now, within);
        tracing::info!(connections = self.relays.count(), limit, "draining: no new connections are taken");
        self.intercept(now);
    }

    /// Begins a drain that was asked for before this process had joined: clients waited in the listeners' queues then, whom a peer that is
    /// notified would not serve.
    pub(super) fn drain_late(&mut self, now: Instant) {
        let is_waited_for = self.joining.is_some()
            || self.accepting
            || self.clients_wait
            || self.syns_wait
            || self.relays.engine.clients_waiting() > 0;
        if is_waited_for || !std::mem::take(&mut self.drains_late) {
            return;
        }
        let rtt = self.settings.link.rtt;
        if let Some(drain) = &mut self.drain {
            drain.settle(now, rtt);
        }
        self.relays.transport_mut().drain(now);
    }
}
