//! The integration tests of the crate, as one program.

mod acks;
mod background;
mod capacity;
mod classes;
mod dama;
mod disturbed;
mod dual_pi2;
mod duplicates;
mod fused_links;
mod gateways;
mod kernel;
mod l4s;
mod ns2;
mod ns3_queues;
mod prediction;
mod quic;
mod quinn;
mod refusals;
mod routes;
mod satpep2003;
mod scenarios;
mod simulation;
mod stops;
