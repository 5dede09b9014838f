//! How far a flow has come.

use crate::{FlowReport, RttReport};
use units::Instant;

/// Whether a flow has just come to its end, complete or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    GoesOn,
    Ended,
}

impl Progress {
    /// This, and what came after it.
    pub(super) fn and(self, later: Self) -> Self {
        if self == Progress::Ended { self } else { later }
    }
}

/// What an agent reports of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) start: Option<Instant>,
    pub(crate) end: Option<Instant>,
    pub(crate) bytes: u64,
    pub(crate) complete: bool,
    pub(crate) failure: Option<String>,
    pub(crate) data_packets: u64,
    pub(crate) retransmissions: u64,
    pub(crate) rtos: u64,
    pub(crate) received_packets: u64,
    pub(crate) responses: u64,
    pub(crate) rtt: Option<RttReport>,
}

impl Outcome {
    pub(crate) fn report(self, name: String) -> FlowReport {
        let seconds = self.start.zip(self.end).map(|(start, end)| end.since(start).as_secs_f64());
        FlowReport {
            name,
            bytes: self.bytes,
            start_s: self.start.map(Instant::as_secs_f64),
            end_s: self.end.map(Instant::as_secs_f64),
            goodput_bps: seconds.filter(|&seconds| seconds > 0.0).map(|seconds| self.bytes as f64 * 8.0 / seconds),
            complete: self.complete,
            failure: self.failure,
            data_packets: self.data_packets,
            retransmissions: self.retransmissions,
            rtos: self.rtos,
            received_packets: self.received_packets,
            responses: self.responses,
            rtt: self.rtt,
        }
    }
}
