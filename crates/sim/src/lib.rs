//! A packet-level discrete-event simulator of TCP and QUIC over satellite links, sans-IO: it runs the very links and endpoints
//! that the emulator and the gateway run, in virtual time.
//!
//! It runs what the crate `scenario` describes: a [`Network`] is nodes and duplex links; flows ([`FlowConfig`]) say who sends
//! what to whom.

mod ack_serials;
mod agent;
mod carriers;
mod event_queue;
mod fused_links;
mod gateway;
mod gateway_report;
mod heads;
mod lookahead;
mod ns2_times;
mod packet;
mod quic_packets;
mod report;
mod routes;
pub mod satpep2003;
mod simulation;
mod split;
mod wire;

pub use gateway_report::{GatewayReport, SessionReport, StreamReport, TransitionReport, TransportReport};
pub use heads::DatagramId;
pub use packet::{Body, PacketRecord, Part};
pub use quic_packets::QuicPacketId;
pub use report::{
    CapacitySample, CarrierReport, FlowReport, FlowSample, LinkReport, QueueSample, Report, RttReport, Stopped,
    TerminalReport,
};
pub use scenario::{
    Application, CapacityMode, CrossTrafficPolicy, Direction, DirectionId, Distribution, FlowClass, FlowConfig,
    FlowError, GatewayConfig, GatewayError, Limits, Network, NetworkError, NodeId, OnOff, Quantity, Random,
    RateConfidence, Record, Routing, SatpepSettings, Settings, Start, Stop, Traffic, Transfer, Transport, UnderWay,
    UpTimes, Ways,
};
pub use simulation::{SetupError, Simulation};
