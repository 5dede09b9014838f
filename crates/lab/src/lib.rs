//! Real experiments: the kernel's TCP across an emulated satellite, in private namespaces.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks, starts threads and waits")]

pub mod bulk;
pub mod compare;
mod controls;
mod cutoff;
mod error;
pub mod experiment;
pub mod flows;
pub mod gateways;
pub mod load;
pub mod measure;
pub mod pepsal;
mod reporter;
pub mod scenario;
pub mod topology;
pub mod transfer;

pub use error::Error;
pub use experiment::{Experiment, LinkParameters, Outcome, Path, Stage};
pub use flows::{Direction, Ends, Flow, Workload};
pub use gateways::{GatewayOptions, Gateways, Transport};
pub use pepsal::Pepsal;
pub use satpep::CapacityMode;
pub use topology::{Family, RouteSettings, Satellite, Site, Topology};
