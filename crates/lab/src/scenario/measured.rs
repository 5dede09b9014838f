//! The outcome of a scenario that ran for real.

use super::Emulated;
use crate::Flow;
use crate::flows::WindowSample;
use crate::transfer::Trace;
use emulator::{DirectionReport, Dropped, Lateness, TerminalReport};
use link::dama::Sample;
use serde::Serialize;
use sim::{CarrierReport, Network};
use std::time::Instant;
use units::{Bytes, Rate};

/// A run, with the names of `bentpipe simulate`; null is what the kernel does not report.
#[derive(Debug, Serialize)]
pub struct MeasuredRun {
    /// The scenario's variant.
    pub variant: Option<String>,
    /// The seed of the links' random processes.
    pub seed: u64,
    /// Whether the emulator ran with a real-time priority; if not, a busy host makes it late.
    pub has_priority: bool,
    /// Each flow.
    pub flows: Vec<MeasuredFlow>,
    /// Both directions of the emulated link; of several, all ways to the hub together and all ways back.
    pub links: Vec<MeasuredLink>,
    /// The carrier that terminals share, if there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carriers: Vec<CarrierReport>,
    /// Its superframes, where the scenario records capacity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<MeasuredCapacity>,
    /// Events of a simulation: none here.
    pub events: Option<u64>,
    /// Data packets that were sent: the kernel does not report them.
    pub data_packets: Option<u64>,
}

/// A flow that ended. Times are in seconds since the scenario's time 0, from which the `start` of flows counts.
#[derive(Debug, Serialize)]
pub struct MeasuredFlow {
    /// Its name.
    pub name: String,
    /// Bytes that arrived.
    pub bytes: u64,
    /// When the client connected.
    pub start_s: f64,
    /// When the receiver had the last byte, or the run ended.
    pub end_s: f64,
    /// Bytes over the time between.
    pub goodput_bps: f64,
    /// Whether all arrived as it was sent.
    pub complete: bool,
    /// The end of the run cut it off.
    #[serde(skip)]
    pub is_cut_off: bool,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Arrivals, counted from its start.
    #[serde(skip)]
    pub trace: Trace,
    /// The sender's windows, where the scenario records the flow.
    #[serde(skip)]
    pub windows: Vec<WindowSample>,
}

/// What a terminal asked for, was given and used in a superframe, as rates in bit/s.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredCapacity {
    /// When the superframe began at the terminal, in seconds since the scenario's time 0.
    pub time_s: f64,
    /// The terminal's link.
    pub link: String,
    /// What its requests asked for.
    pub requested_bps: u64,
    /// What it was given, for whatever reason.
    pub allocated_bps: u64,
    /// Of that, its constant rate.
    pub cra_bps: u64,
    /// Of that, for a requested rate.
    pub rbdc_bps: u64,
    /// Of that, for a requested volume.
    pub vbdc_bps: u64,
    /// Of that, without a request.
    pub fca_bps: u64,
    /// What it sent.
    pub used_bps: u64,
    /// Bytes that waited when the superframe was over.
    pub queued_bytes: u64,
}

/// A direction of the emulated link.
#[derive(Debug, Serialize)]
pub struct MeasuredLink {
    /// The link's name.
    pub name: String,
    /// Where it starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Packets that left at its end.
    pub delivered_packets: u64,
    /// Those that did not, by reason.
    pub dropped: Dropped,
    /// How much later than the model the packets left.
    pub lateness_us: Lateness,
}

impl MeasuredFlow {
    pub(super) fn new(name: &str, flow: &Flow, start: Instant) -> Self {
        let since = |at: Instant| at.duration_since(start).as_secs_f64();
        Self {
            name: name.to_owned(),
            bytes: flow.bytes.as_u64(),
            start_s: since(flow.start),
            end_s: since(flow.end),
            goodput_bps: flow.goodput().as_bps() as f64,
            complete: flow.verified && flow.bytes > Bytes::ZERO,
            is_cut_off: flow.is_cut_off,
            retransmissions: flow.retransmitted_segments,
            trace: flow.trace.clone(),
            windows: flow.windows.clone(),
        }
    }
}

impl MeasuredLink {
    /// Both directions, that to the hub first.
    pub(super) fn both(network: &Network, emulated: &Emulated, [up, down]: [&DirectionReport; 2]) -> Vec<Self> {
        let directions =
            (0..emulated.terminals()).map(|terminal| &network.directions()[emulated.to_hub(terminal).index()]);
        let (mut names, mut terminals, mut hub) = (Vec::new(), Vec::new(), "");
        for direction in directions {
            names.push(direction.link.as_str());
            terminals.push(network.node_name(direction.from));
            hub = network.node_name(direction.to);
        }
        let (name, terminals) = (names.join(", "), terminals.join(", "));
        let link = |from: &str, to: &str, report: &DirectionReport| Self {
            name: name.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            delivered_packets: report.delivered.packets,
            dropped: report.dropped,
            lateness_us: report.lateness_us,
        };
        vec![link(&terminals, hub, up), link(hub, &terminals, down)]
    }

    /// Packets that the emulator dropped though the link would not, by reason: with any, something else was measured.
    pub fn emulator_drops(&self) -> Vec<(&'static str, u64)> {
        self.dropped.by_emulator()
    }
}

/// What the carrier's terminals were given and used in all.
pub(super) fn carriers(network: &Network, emulated: &Emulated, reports: &[TerminalReport]) -> Vec<CarrierReport> {
    let terminal = |(number, report): (usize, &TerminalReport)| {
        let direction = &network.directions()[emulated.to_hub(number).index()];
        let name = |node| network.node_name(node).to_owned();
        let (link, from, to) = (direction.link.clone(), name(direction.from), name(direction.to));
        sim::TerminalReport { link, from, to, totals: report.totals }
    };
    let report = |(name, _): &(String, _)| CarrierReport {
        name: name.clone(),
        terminals: reports.iter().enumerate().map(terminal).collect(),
    };
    emulated.carrier(network).map(report).into_iter().collect()
}

/// The superframes of the carrier, if there is one, from `start` on.
pub(super) fn capacity(
    network: &Network,
    emulated: &Emulated,
    samples: &[Sample],
    start: units::Instant,
) -> Vec<MeasuredCapacity> {
    let Some((_, carrier)) = emulated.carrier(network) else { return Vec::new() };
    let rate = |bytes: u64| Rate::from_transfer(Bytes::new(bytes), carrier.superframe).as_bps();
    let row = |sample: &Sample| MeasuredCapacity {
        time_s: sample.at.since(start).as_secs_f64(),
        link: network.directions()[emulated.to_hub(sample.terminal as usize).index()].link.clone(),
        requested_bps: rate(sample.requested.as_u64()),
        allocated_bps: rate(sample.allocated.total()),
        cra_bps: rate(sample.allocated.cra),
        rbdc_bps: rate(sample.allocated.rbdc),
        vbdc_bps: rate(sample.allocated.vbdc),
        fca_bps: rate(sample.allocated.fca),
        used_bps: rate(sample.used.as_u64()),
        queued_bytes: sample.queued.as_u64(),
    };
    samples.iter().filter(|sample| sample.at >= start).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_link_drops_is_no_fault_of_the_emulators() {
        let lost = link::Tally { packets: 3, bytes: 4_500 };
        let link = |dropped| MeasuredLink {
            name: "sat".into(),
            from: "terminal".into(),
            to: "hub".into(),
            delivered_packets: 9,
            dropped,
            lateness_us: Lateness::default(),
        };
        let by_model = Dropped { queue_full: lost, queue_delay: lost, policed: lost, loss: lost, ..Dropped::default() };
        assert_eq!(link(by_model).emulator_drops(), []);
        let dropped = Dropped { receive_overrun: 2, oversize: lost, ..by_model };
        assert_eq!(link(dropped).emulator_drops(), [("receive_overrun", 2), ("oversize", 3)]);
    }
}
