//! The place of a pair of gateways in the network.

use crate::Network;
use crate::wire::{PathTable, Wire};

/// What a pair needs to make itself a place in the network.
pub(crate) struct Site<'a> {
    pub(crate) wire: &'a mut Wire,
    pub(crate) paths: &'a mut PathTable,
    pub(crate) network: &'a Network,
    /// The number by which packets address it, and its first timer.
    pub(crate) agent: u32,
    pub(crate) timer: u32,
    pub(crate) seed: u64,
}
