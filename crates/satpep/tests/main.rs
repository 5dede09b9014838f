//! The integration tests of the crate, as one program.

mod arrivals;
mod asymmetric;
mod batches;
mod claims;
mod classes;
mod congestion;
mod elided;
mod hostile;
mod hub;
mod idle;
mod lifecycle;
mod liveness;
mod marking;
mod membership;
mod model;
mod model_based;
mod mtu;
mod qlog;
mod roaming;
mod streams;
mod survey;
mod terminals;
mod transfer;
mod turns;
mod upgrade;
mod world;
