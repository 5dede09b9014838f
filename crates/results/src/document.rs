//! A run as JSON, as the command line's contract has it.

use crate::run::Run;
use serde::Serialize;
use sim::{CarrierReport, FlowReport, GatewayReport, LinkReport, Stopped};
use std::collections::BTreeMap;

/// A run. Names end in their units.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDocument {
    /// The variant of the scenario, if it has any.
    pub variant: Option<String>,
    /// The seed.
    pub seed: u64,
    /// Why it ended.
    pub stopped: Stopped,
    /// When it ended.
    pub end_s: f64,
    /// Flows.
    pub flows: Vec<FlowDocument>,
    /// Directions of links.
    pub links: Vec<LinkDocument>,
    /// Carriers that terminals share on demand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carriers: Vec<CarrierReport>,
    /// Pairs of gateways.
    pub gateways: Vec<GatewayReport>,
    /// Events that the simulator handled.
    pub events: u64,
    /// Packets for which a node had no route.
    pub no_route_packets: u64,
    /// Packets with data that endpoints and gateways sent.
    pub data_packets: u64,
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowDocument {
    /// What the scenario calls it and those alike.
    pub group: String,
    /// Its result.
    #[serde(flatten)]
    pub report: FlowReport,
}

/// A direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkDocument {
    /// The link's name.
    pub name: String,
    /// Where the direction starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Packets given to it.
    pub offered_packets: u64,
    /// Packets that left it.
    pub delivered_packets: u64,
    /// IP bytes that left it.
    pub delivered_bytes: u64,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that its queue marked instead of dropping them (ECN).
    pub marked_packets: u64,
    /// Copies that it made.
    pub duplicated_packets: u64,
    /// Packets that it held back.
    pub reordered_packets: u64,
}

impl From<&Run> for RunDocument {
    fn from(run: &Run) -> Self {
        let flows = run.report.flows.iter().zip(run.groups.iter());
        Self {
            variant: run.label.variant.as_deref().map(str::to_owned),
            seed: run.label.seed,
            stopped: run.report.stopped,
            end_s: run.report.end_s,
            flows: flows.map(|(report, group)| FlowDocument { group: group.clone(), report: report.clone() }).collect(),
            links: run.report.links.iter().map(LinkDocument::from).collect(),
            carriers: run.report.carriers.clone(),
            gateways: run.report.gateways.clone(),
            events: run.report.events,
            no_route_packets: run.report.no_route_packets,
            data_packets: run.report.data_packets,
        }
    }
}

impl From<&LinkReport> for LinkDocument {
    fn from(link: &LinkReport) -> Self {
        let counters = &link.counters;
        Self {
            name: link.name.clone(),
            from: link.from.clone(),
            to: link.to.clone(),
            offered_packets: counters.offered.packets,
            delivered_packets: counters.delivered.packets,
            delivered_bytes: counters.delivered.bytes,
            dropped: BTreeMap::from([
                ("down", counters.dropped_down.packets),
                ("loss", counters.dropped_loss.packets),
                ("queue_delay", counters.dropped_queue_delay.packets),
                ("acks", counters.dropped_acks.packets),
                ("policed", counters.dropped_policed.packets),
                ("queue_full", counters.dropped_queue_full.packets),
            ]),
            marked_packets: counters.marked.packets,
            duplicated_packets: counters.duplicated.packets,
            reordered_packets: counters.reordered.packets,
        }
    }
}
