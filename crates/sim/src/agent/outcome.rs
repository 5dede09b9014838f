//! How far a flow has come.

use crate::{FlowConfig, FlowReport, RttReport};
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
    /// When the connection failed, and why.
    pub(crate) failure: Option<(Instant, String)>,
    pub(crate) data_packets: u64,
    pub(crate) retransmissions: u64,
    pub(crate) rtos: u64,
    pub(crate) received_packets: u64,
    pub(crate) responses: u64,
    pub(crate) rtt: Option<RttReport>,
}

impl Outcome {
    /// The report of the flow that has this outcome at `now`.
    pub(crate) fn report(self, flow: &FlowConfig, now: Instant) -> FlowReport {
        let until = self.start.map(|start| self.until(flow, now).max(start));
        let seconds = self.start.zip(until).map(|(start, until)| until.since(start).as_secs_f64());
        FlowReport {
            name: flow.name.clone(),
            bytes: self.bytes,
            start_s: self.start.map(Instant::as_secs_f64),
            end_s: self.end.map(Instant::as_secs_f64),
            until_s: until.map(Instant::as_secs_f64),
            goodput_bps: seconds.filter(|&seconds| seconds > 0.0).map(|seconds| self.bytes as f64 * 8.0 / seconds),
            complete: self.complete,
            failure: self.failure.map(|(_, reason)| reason),
            data_packets: self.data_packets,
            retransmissions: self.retransmissions,
            rtos: self.rtos,
            received_packets: self.received_packets,
            responses: self.responses,
            rtt: self.rtt,
        }
    }

    /// Until when the flow ran. One that stalls goes on running: its goodput is not that of its better days.
    fn until(&self, flow: &FlowConfig, now: Instant) -> Instant {
        let last = self.end.unwrap_or(Instant::ZERO);
        if self.complete {
            return last;
        }
        let failed = self.failure.as_ref().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        last.max(now.min(failed).min(flow.stop.unwrap_or(Instant::FAR_FUTURE)))
    }
}
