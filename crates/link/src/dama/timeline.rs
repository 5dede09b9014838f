//! What was asked for, given and used, superframe by superframe.

use super::Grant;
use serde::Serialize;
use units::{Bytes, Instant};

/// A superframe of a terminal that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The terminal, by its number on the carrier.
    pub terminal: u32,
    /// When the superframe began at the terminal.
    pub at: Instant,
    /// What the terminal's requests, as the NCC had them, asked for in this superframe: its rate for the length of
    /// the superframe, and all of its volume.
    pub requested: Bytes,
    /// What it was given, in bytes.
    pub allocated: Grant,
    /// What it sent, the link layer's own bytes included.
    pub used: Bytes,
    /// What waited when the superframe was over, in IP bytes.
    pub queued: Bytes,
}

/// All of a terminal's superframes together. `used` is at most `allocated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Requests sent.
    pub requests: u64,
    /// Bytes given as constant rate.
    pub cra_bytes: u64,
    /// Bytes given for requested rate.
    pub rbdc_bytes: u64,
    /// Bytes given for requested volume.
    pub vbdc_bytes: u64,
    /// Bytes given without a request.
    pub fca_bytes: u64,
    /// Bytes sent.
    pub used_bytes: u64,
}

impl Totals {
    pub(super) fn count(&mut self, sample: &Sample) {
        let Grant { cra, rbdc, vbdc, fca } = sample.allocated;
        self.cra_bytes += cra;
        self.rbdc_bytes += rbdc;
        self.vbdc_bytes += vbdc;
        self.fca_bytes += fca;
        self.used_bytes += sample.used.as_u64();
    }

    /// Bytes given, whatever for.
    pub fn allocated_bytes(&self) -> u64 {
        self.cra_bytes + self.rbdc_bytes + self.vbdc_bytes + self.fca_bytes
    }
}
