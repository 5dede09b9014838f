//! What a running gateway hands over to a new process.

use crate::config::{Accept, Settings};
use crate::rules::Rules;
use relay::engine::Intercepted;
use satpep::Mode;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What both processes say, in this form.
pub(super) const VERSION: u32 = 3;

/// What a running gateway hands over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(super) version: u32,
    /// The process that hands over.
    pub(crate) pid: u32,
    /// Its generation.
    pub(crate) generation: u32,
    /// Whether the last of the listeners is that for peers.
    pub(super) has_satellite_listener: bool,
    /// What must be the same in both: rules and listeners serve the connections of both.
    pub(super) fixed: Fixed,
    /// Peers that are up, and where.
    pub(crate) peers: Vec<(String, SocketAddr)>,
    /// What is intercepted; `None` of a version that does not say.
    #[serde(default)]
    pub(crate) intercepted: Option<Vec<Intercepted>>,
    /// Whether the process that hands over removes the rules if it outlives the other.
    #[serde(default)]
    pub(crate) reclaims_rules: bool,
}

/// Settings that the two processes have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fixed {
    is_tcp: bool,
    is_clear: bool,
    is_confirmed: bool,
    public_key: String,
    listen: SocketAddr,
    port: u16,
    mark: u32,
    routing_table: u32,
    priority: u32,
    ipv6: bool,
    table: String,
    intercepts: bool,
}

impl Fixed {
    pub(super) fn new(settings: &Settings) -> Self {
        let Rules { table, interfaces, port, mark, routing_table, priority, ipv6, .. } = &settings.rules;
        Self {
            is_tcp: settings.tcp.is_some(),
            // The `tcp` transport has one listener for both processes.
            is_clear: settings.tcp.is_some() && settings.mode == Mode::Clear,
            is_confirmed: settings.accept == Accept::Confirmed,
            public_key: settings.private_key.public_key().to_string(),
            listen: settings.listen,
            port: *port,
            mark: *mark,
            routing_table: *routing_table,
            priority: *priority,
            ipv6: *ipv6,
            table: table.clone(),
            intercepts: !interfaces.is_empty(),
        }
    }

    /// The setting that differs from `other`'s.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            ("[gateway] transport", self.is_tcp != other.is_tcp),
            ("[gateway] mode", self.is_clear != other.is_clear),
            ("[gateway] accept", self.is_confirmed != other.is_confirmed),
            ("[gateway] private_key", self.public_key != other.public_key),
            ("[gateway] listen", self.listen != other.listen),
            ("[gateway] name", self.table != other.table),
            ("[intercept] interfaces (whether there are any)", self.intercepts != other.intercepts),
            ("[intercept] port", self.port != other.port),
            ("[intercept] mark", self.mark != other.mark),
            ("[intercept] table", self.routing_table != other.routing_table),
            ("[intercept] rule_priority", self.priority != other.priority),
            ("IPv6 of this host", self.ipv6 != other.ipv6),
        ]
        .into_iter()
        .find_map(|(name, differs)| differs.then_some(name))
    }
}

impl Offer {
    /// For a gateway with `settings` that intercepts `intercepted` and whose transport offers `transport`.
    pub(crate) fn new(settings: &Settings, intercepted: Vec<Intercepted>, transport: &TransportOffer) -> Self {
        let fixed = Fixed::new(settings);
        let TransportOffer { generation, up, listener } = transport;
        Self {
            version: VERSION,
            pid: std::process::id(),
            generation: *generation,
            has_satellite_listener: listener.is_some(),
            fixed,
            peers: up.clone(),
            intercepted: Some(intercepted),
            reclaims_rules: true,
        }
    }
}

/// What another process may take over of a transport.
#[derive(Debug)]
pub(crate) struct TransportOffer {
    /// This run's generation.
    pub(crate) generation: u32,
    /// The peers that are up, by public key, and where.
    pub(crate) up: Vec<(String, SocketAddr)>,
    /// Where it takes connections of peers.
    pub(crate) listener: Option<OwnedFd>,
}
