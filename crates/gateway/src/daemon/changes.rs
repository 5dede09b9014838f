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
    pub(super) fn reload(&mut self, now: Instant, settings: Settings) -> Result<Vec<String>, ReloadError> {
        let changes = reload::compare(&self.settings, &settings)?;
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
            self.relays.engine.decide_syns_anew(now);
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
        match &mut self.drain {
            Some(drain) => drain.limit(now, within),
            None => {
                self.drain = Some(Drain::new(now, self.settings.link.rtt, within));
                self.relays.transport_mut().drain(now);
            }
        }
        tracing::info!(connections = self.relays.count(), limit, "draining: no new connections are taken");
        self.intercept(now);
    }
}
