//! Who sends what to whom: the flows of a simulation, as data.

use crate::routing::Routing;
use crate::{Distribution, Network, NodeId};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Rate};

/// A flow: two hosts, and what passes between them.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// What reports call it; unique.
    pub name: String,
    /// Where the client is: the end that connects, sends or asks.
    pub from: NodeId,
    /// Where the server is.
    pub to: NodeId,
    /// When it starts.
    pub start: Start,
    /// When its application sends no more (`None` is never): a file is cut short there with a reset, bursts and web
    /// traffic end after what was written.
    pub stop: Option<Instant>,
    /// What it sends.
    pub traffic: Traffic,
    /// Whether [`crate::Record`] applies to it.
    pub record: bool,
}

/// Why a flow cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}`: {problem}")]
pub struct FlowError {
    /// The flow's name.
    pub flow: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl FlowConfig {
    /// Checks what can be said of a flow by itself.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn validate(&self) -> Result<(), FlowError> {
        self.traffic.validate().map_err(|problem| self.error(problem))
    }

    /// Whether it comes to an end by itself.
    pub fn has_end(&self) -> bool {
        match &self.traffic {
            Traffic::Tcp { application, .. } | Traffic::Quic { application, .. } => application.has_end(),
            Traffic::Udp { .. } => false,
            Traffic::Ping { count, .. } => count.is_some(),
        }
    }

    /// The fault `problem` of this flow.
    pub fn error(&self, problem: impl Into<String>) -> FlowError {
        FlowError { flow: self.name.clone(), problem: problem.into() }
    }

    /// There is no way from `from` to `to`.
    pub fn unreachable(&self, network: &Network, from: NodeId, to: NodeId) -> FlowError {
        let (from_name, to_name) = (network.node_name(from), network.node_name(to));
        if from == to {
            return self.error(format!("it begins and ends at node `{to_name}`: it needs two nodes"));
        }
        self.error(format!("node `{to_name}` cannot be reached from node `{from_name}`: no links lead there"))
    }
}

impl Traffic {
    /// Whether it can be, apart from where it goes.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        match self {
            Traffic::Tcp { client, server, application } => {
                for (end, config) in [("client", client), ("server", server)] {
                    config.validate().map_err(|error| format!("`{end}`: {error}"))?;
                }
                application.validate()
            }
            Traffic::Quic { ends, application } => {
                ends.validate().map_err(|fault| fault.to_string())?;
                application.validate()
            }
            Traffic::Udp { rate, packet_size, on_off } => {
                if *rate == Rate::ZERO {
                    return Err("`rate` 0bit/s never sends: it must be above zero".to_owned());
                }
                on_off.as_ref().map_or(Ok(()), OnOff::validate)?;
                validate_packet_size(*packet_size)
            }
            Traffic::Ping { interval, packet_size, count } => {
                if interval.is_zero() {
                    return Err("`interval` must be above 0s".to_owned());
                }
                if *count == Some(0) {
                    return Err("`count` must be above 0".to_owned());
                }
                validate_packet_size(*packet_size)
            }
        }
    }
}

impl Application {
    /// Whether it comes to an end by itself.
    pub fn has_end(&self) -> bool {
        match self {
            Application::Bulk { size, .. } => size.is_some(),
            Application::OnOff { .. } => false,
            Application::Web { requests, .. } => requests.is_some(),
        }
    }

    fn validate(&self) -> Result<(), String> {
        match self {
            Application::Bulk { size: Some(Bytes::ZERO), .. } => Err("`size` must be above 0B".to_owned()),
            Application::Bulk { transfer: Transfer::Download { request: Bytes::ZERO }, .. } => {
                Err("`request` must be above 0B: it starts the download".to_owned())
            }
            Application::Bulk { .. } => Ok(()),
            Application::OnOff { rate: Rate::ZERO, .. } => {
                Err("`rate` 0bit/s never sends: it must be above zero".to_owned())
            }
            Application::OnOff { on_off, .. } => on_off.validate(),
            Application::Web { requests: Some(0), .. } => Err("`requests` must be above 0".to_owned()),
            Application::Web { request, response, think, .. } => {
                request.validate().map_err(|problem| format!("`request`: {problem}"))?;
                response.validate().map_err(|problem| format!("`response`: {problem}"))?;
                think.validate().map_err(|problem| format!("`think`: {problem}"))
            }
        }
    }
}

impl OnOff {
    fn validate(&self) -> Result<(), String> {
        self.on.validate().map_err(|problem| format!("`on`: {problem}"))?;
        self.off.validate().map_err(|problem| format!("`off`: {problem}"))
    }
}

fn validate_packet_size(size: Bytes) -> Result<(), String> {
    if (28..=65_535).contains(&size.as_u64()) {
        return Ok(());
    }
    Err(format!("`packet_size` {size} is not between 28B, the headers, and 65535B"))
}

/// When a flow starts: at `at` plus, if `spread` is not zero, a time drawn uniformly from [0, `spread`) with the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// The earliest start.
    pub at: Instant,
    /// By how much it may be later.
    pub spread: Duration,
}

/// What a flow sends.
#[derive(Debug, Clone)]
pub enum Traffic {
    /// A TCP connection, opened by the client.
    Tcp {
        /// How the client's end behaves.
        client: Arc<tcp::Config>,
        /// How the server's end behaves.
        server: Arc<tcp::Config>,
        /// What the two say to each other.
        application: Application,
    },
    /// A QUIC connection, opened by the client.
    Quic {
        /// How both ends behave.
        ends: Arc<quic::Config>,
        /// What the two say to each other.
        application: Application,
    },
    /// UDP at a constant rate, from the client to the server.
    Udp {
        /// IP bytes, headers included, each second.
        rate: Rate,
        /// The IP size of each packet, at least 28 bytes (the headers).
        packet_size: Bytes,
        /// Sends only in bursts, if given.
        on_off: Option<OnOff>,
    },
    /// ICMP echo requests from the client, each answered by the server.
    Ping {
        /// Between two requests.
        interval: Duration,
        /// The IP size of each packet, at least 28 bytes (the headers).
        packet_size: Bytes,
        /// How many requests; `None` is without end.
        count: Option<u64>,
    },
}

/// Bursts and pauses, in turn; a burst comes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnOff {
    /// How long it sends.
    pub on: Distribution<Duration>,
    /// How long it is silent.
    pub off: Distribution<Duration>,
}

/// What an application does over a connection of TCP or QUIC.
#[derive(Debug, Clone, PartialEq)]
pub enum Application {
    /// One file, after which the sender closes; complete when its last byte is at the receiver.
    Bulk {
        /// Its size; `None` is without end.
        size: Option<Bytes>,
        /// Who sends it.
        transfer: Transfer,
    },
    /// The client sends in bursts.
    OnOff {
        /// How fast the application writes while it is on, in payload.
        rate: Rate,
        /// For how long it is on and off.
        on_off: OnOff,
    },
    /// The client asks, the server answers, the client reads the whole answer and thinks, on one connection.
    Web {
        /// How many times; `None` is without end.
        requests: Option<u64>,
        /// The size of each request.
        request: Distribution<Bytes>,
        /// The size of each response.
        response: Distribution<Bytes>,
        /// Between a response's last byte and the next request.
        think: Distribution<Duration>,
    },
}

/// The direction of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the client, which sends once it is connected.
    Upload,
    /// From the server, which sends once it has the client's request of so many bytes.
    Download {
        /// The size of the request, above 0.
        request: Bytes,
    },
}

/// When a simulation ends, at the latest when nothing is left to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stop {
    /// At this time.
    pub at: Option<Instant>,
    /// Once every flow that has an end is complete or failed (if at least one has).
    pub when_complete: bool,
}

/// What a simulation may use. A run that reaches one stops there and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events: arrivals of packets and timers.
    pub events: u64,
    /// Events at one and the same instant.
    pub events_at_once: u64,
    /// Memory for packets, connections and records, as estimated every few thousand events.
    pub memory: Bytes,
}

impl Default for Limits {
    /// 10^10 events (some minutes), of which 2 * 10^7 at once (many gigabytes over a link with neither rate nor delay), and 2 GB.
    fn default() -> Self {
        Self { events: 10_000_000_000, events_at_once: 20_000_000, memory: Bytes::new(2_000_000_000) }
    }
}

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// A sample of each flow in such intervals. Goodput in windows is the difference of two samples.
    pub flow_interval: Option<Duration>,
    /// A sample whenever a sender's congestion window or slow-start threshold changes.
    pub window_changes: bool,
    /// A sample of each direction of each link in such intervals.
    pub queue_interval: Option<Duration>,
    /// Whether a sample is taken of each superframe of each terminal on a carrier.
    pub capacity: bool,
    /// A record of each packet that leaves an endpoint at these nodes, or reaches them over a link.
    pub packets_at: Vec<NodeId>,
}

/// All that a simulation needs beside its network and flows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Seeds what is random in applications and starts. Links have seeds of their own ([`link::LinkConfig::seed`]).
    pub seed: u64,
    /// When to end.
    pub stop: Stop,
    /// When to give up.
    pub limits: Limits,
    /// How routes follow links that come and go.
    pub routing: Routing,
    /// What to record.
    pub record: Record,
}
