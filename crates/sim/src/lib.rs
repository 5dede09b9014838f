//! A packet-level discrete-event simulator of TCP over satellite links, sans-IO: it runs the very links and endpoints
//! that the emulator and the gateway run, in virtual time.
//!
//! A [`Network`] is nodes and duplex links; flows ([`FlowConfig`]) say who sends what to whom.

mod agent;
mod carriers;
mod distribution;
mod flow;
mod gateway;
mod heads;
mod network;
mod packet;
mod passing;
mod report;
pub mod satpep2003;
pub mod scenario;
mod simulation;
mod tournament;
mod wire;

pub use distribution::{Distribution, Quantity};
pub use flow::{Application, FlowConfig, FlowError, Limits, OnOff, Record, Settings, Start, Stop, Traffic, Transfer};
pub use gateway::{
    FlowClass, GatewayConfig, GatewayError, GatewayReport, HopReport, Knowledge, Protocol, SessionReport, Share,
    StreamReport, TransitionReport, Transport,
};
pub use heads::DatagramId;
pub use network::{Direction, DirectionId, Network, NetworkError, NodeId};
pub use packet::{Body, PacketRecord};
pub use report::{
    CapacitySample, CarrierReport, FlowReport, FlowSample, LinkReport, QueueSample, Report, RttReport, Stopped,
    TerminalReport,
};
pub use simulation::{SetupError, Simulation};
