//! Pairs of gateways that split the TCP connections whose way passes both, as data.

use crate::{FlowConfig, Network, NodeId, Satpep2003, Traffic, Ways};
use satpep::{CapacityMode, Class, CrossTrafficPolicy, EstimatorParts, RateConfidence};
use std::sync::Arc;
use units::{Bytes, Duration, Rate};

/// A pair of gateways. Each TCP flow whose way passes through both nodes (without beginning or ending there) is split: the
/// first gateway on its way answers the client in the server's place, the second connects to the server.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// What reports call it; unique.
    pub name: String,
    /// Where the two are.
    pub nodes: [NodeId; 2],
    /// How their TCP towards hosts behaves.
    pub terrestrial: Arc<tcp::Config>,
    /// What they speak to one another.
    pub transport: Transport,
    /// Whether the windows of TCP between them follow the allocation of a carrier on the path (see [`link::dama`]), and ask it for
    /// all that they may have while there are connections: for controls that go by the capacity.
    pub follow_allocation: bool,
}

/// What a pair of gateways speaks.
#[derive(Debug, Clone)]
pub enum Transport {
    /// bentpipe's own transport, run by the code of its gateways in one session that is up when the simulation begins.
    Satpep(SatpepSettings),
    /// SaTPEP as its paper has it: a connection for each that is split, with windows that the receiving gateway assigns.
    Satpep2003(Box<Satpep2003>),
    /// TCP: a connection for each that is split.
    Tcp(Arc<tcp::Config>),
}

/// Settings of the satellite transport, as an operator makes them.
#[derive(Debug, Clone, PartialEq)]
pub struct SatpepSettings {
    /// The rate at which each gateway begins its estimate of the link to the other; `None` is that of the slowest link between them.
    pub rate: [Option<Rate>; 2],
    /// How far they trust these rates.
    pub rate_confidence: RateConfidence,
    /// What they do with these rates.
    pub capacity: CapacityMode,
    /// Whether a modem reports each change of the link's rate.
    pub link_updates: bool,
    /// The round-trip time; `None` is that of propagation.
    pub rtt: Option<Duration>,
    /// The share of a fixed capacity that is used.
    pub pacing_gain: f64,
    /// Receive memory; `None` is four bandwidth-delay products, at least 32 MiB.
    pub receive_memory: Option<Bytes>,
    /// How long connections survive an outage; `None` is the transport's default.
    pub outage_limit: Option<Duration>,
    /// Whether FEC repair symbols are sent, above all in capacity that would idle.
    pub repair: bool,
    /// What repair may take of a full link beyond the share of what is lost, where that pays.
    pub repair_overhead: f64,
    /// What room cross traffic, which does not pass the pair, is given.
    pub cross_traffic: CrossTrafficPolicy,
    /// Classes of flows, with identities of their own from 1 on. Flows of no class are together in the default one.
    pub classes: Vec<FlowClass>,
    /// Flows that go end to end past the pair by rule, by their numbers among the simulation's flows.
    pub bypass: Vec<usize>,
    /// How long a connection to a server, or a client's wait for a stream, may take.
    pub connect_timeout: Duration,
    /// Streams that there may be at a time; `None` is the transport's default. New connections go end to end beyond.
    pub max_streams: Option<u32>,
    /// Whether each transition of a relayed connection is reported.
    pub report_transitions: bool,
    /// TCP connections with hosts that a gateway may have at a time, as its descriptors allow; `None` is no limit. New connections
    /// go end to end beyond.
    pub max_connections: Option<u64>,
    /// The longest of the times at random for which each gateway does nothing, its processor being busy with something else: a third of
    /// all time. Zero is never.
    pub longest_stall: Duration,
    /// The parts of the capacity's estimator that are in use: all but in experiments that show what one brings.
    pub estimator_parts: EstimatorParts,
}

/// Flows that are of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowClass {
    /// Their numbers among the simulation's flows.
    pub flows: Vec<usize>,
    /// How they share the link with others.
    pub settings: Class,
}

impl Default for SatpepSettings {
    fn default() -> Self {
        Self {
            rate: [None; 2],
            rate_confidence: RateConfidence::default(),
            capacity: CapacityMode::default(),
            link_updates: false,
            rtt: None,
            pacing_gain: 0.99,
            receive_memory: None,
            outage_limit: None,
            repair: true,
            repair_overhead: 0.02,
            cross_traffic: CrossTrafficPolicy::default(),
            classes: Vec::new(),
            bypass: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            max_streams: None,
            report_transitions: false,
            max_connections: None,
            longest_stall: Duration::ZERO,
            estimator_parts: EstimatorParts::ALL,
        }
    }
}

/// Why a pair of gateways cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("gateway `{gateway}`: {problem}")]
pub struct GatewayError {
    /// The pair's name.
    pub gateway: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl GatewayConfig {
    /// A pair that speaks `transport`, whose TCP towards hosts is Linux's: CUBIC, buffers of up to 6 MiB for receiving and
    /// 4 MiB for sending.
    pub fn new(name: &str, nodes: [NodeId; 2], transport: Transport) -> Self {
        let (size, most) = (Bytes::new(128 << 10), Bytes::new(6 << 20));
        let terrestrial = tcp::Config {
            control: tcp::ControlKind::by_name("cubic").expect("tcp has CUBIC"),
            receive_buffer: tcp::ReceiveBuffer { size, share: 1.0, most },
            send_buffer: Bytes::new(4 << 20),
            ..tcp::Config::new(tcp::Profile::Linux)
        };
        Self { name: name.to_owned(), nodes, terrestrial: Arc::new(terrestrial), transport, follow_allocation: false }
    }

    /// The fault `problem` of this pair.
    pub fn error(&self, problem: impl Into<String>) -> GatewayError {
        GatewayError { gateway: self.name.clone(), problem: problem.into() }
    }

    /// Whether it splits a flow; if so, which of its nodes is the first on the flow's way.
    pub fn splits(&self, network: &Network, ways: &mut Ways, flow: &FlowConfig) -> Option<usize> {
        if !matches!(flow.traffic, Traffic::Tcp { .. })
            || [flow.from, flow.to].iter().any(|end| self.nodes.contains(end))
        {
            return None;
        }
        let way = ways.find(network, flow.from, flow.to)?;
        let place = |node| way.iter().position(|passed| *passed == node);
        let [a, b] = self.nodes.map(place);
        Some(usize::from(b? < a?))
    }
}
