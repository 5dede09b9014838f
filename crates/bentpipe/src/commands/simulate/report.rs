//! The results of simulations, for people and for programs.

use super::replicas::Outcome;
use crate::replay;
use crate::text::Text;
use results::listing::{Cell, Column, Listing, count, figure, text};
use results::{FlowSummary, LinkSummary, RunDocument, Statistic, Summary};
use serde::Serialize;
use units::Quantity;

/// The JSON document of the command.
#[derive(Debug, Serialize)]
pub struct Document {
    /// What the scenario is called.
    scenario: String,
    /// What it shows.
    about: Option<String>,
    /// Every run.
    runs: Vec<RunDocument>,
    /// Means across seeds, for each variant.
    summary: Vec<Summary>,
    /// Processor time of the runs.
    cpu_s: f64,
    /// Time from the first to the last.
    wall_s: f64,
}

impl Document {
    /// Of all runs.
    pub fn new(scenario: String, about: Option<String>, outcome: &Outcome) -> Self {
        Self {
            scenario,
            about,
            runs: outcome.runs.iter().map(RunDocument::from).collect(),
            summary: Summary::of(&outcome.runs),
            cpu_s: outcome.cpu.as_secs_f64(),
            wall_s: outcome.wall.as_secs_f64(),
        }
    }

    /// The tables for people.
    pub fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        if self.runs.is_empty() {
            text.lines("No run was finished.");
            return text;
        }
        text.lines(self.title()).blank();
        text.listing(&self.flows()).blank().listing(&self.links()).blank();
        let packets: u64 = self.runs.iter().map(|run| run.data_packets).sum();
        let simulated: f64 = self.runs.iter().map(|run| run.end_s).sum();
        let seconds = |seconds| Quantity::Time.text(seconds);
        text.lines(format!(
            "{} run{}, {} simulated in {}; {packets} data packets in {} of processor time",
            self.runs.len(),
            if self.runs.len() == 1 { "" } else { "s" },
            seconds(simulated),
            seconds(self.wall_s),
            seconds(self.cpu_s),
        ));
        if self.summary.iter().any(|summary| summary.runs > 1) {
            text.lines("Figures are means and standard deviations over seeds.");
        }
        if self.summary.iter().any(|summary| summary.limited > 0) {
            text.lines("Figures are without the runs that stopped at a limit.");
        }
        text
    }

    /// What was run, in a line.
    pub fn title(&self) -> String {
        match &self.about {
            Some(about) => format!("{}: {}", self.scenario, about.trim()),
            None => self.scenario.clone(),
        }
    }

    /// The tables for a page.
    pub fn tables(&self) -> Vec<web::ReplayTable> {
        let variant = usize::from(self.has_variants());
        vec![replay::table("Flows", &self.flows(), 1 + variant), replay::table("Links", &self.links(), 3 + variant)]
    }

    fn has_variants(&self) -> bool {
        self.summary.iter().any(|summary| summary.variant.is_some())
    }

    fn flows(&self) -> Listing {
        // What no flow has is left out.
        let flows = || self.summary.iter().flat_map(|summary| &summary.flows);
        let has = |column: &FlowColumn| match column.name {
            "rtt" | "median" | "p99" => flows().any(|flow| flow.rtt_s.is_some()),
            "Jain index" => flows().any(|flow| flow.jain_index.is_some()),
            _ => true,
        };
        let shown: Vec<_> = FLOW_COLUMNS.iter().filter(|column| has(column)).collect();
        let columns = [text("flow"), count("complete")].into_iter();
        let columns = columns.chain(shown.iter().map(|column| figure(column.name, column.quantity)));
        self.listing(columns, |summary| {
            let row = |flow| {
                let cells = shown.iter().map(|column| spread((column.of)(flow)));
                [flow_name(flow), complete(flow, summary)].into_iter().chain(cells).collect()
            };
            summary.flows.iter().map(row).collect()
        })
    }

    fn links(&self) -> Listing {
        let shares = ["dropped by the queue", "lost"].map(|name| figure(name, Quantity::Share));
        let texts = ["link", "from", "to"].map(text);
        let columns = texts.into_iter().chain([figure("carried", Quantity::Rate)]).chain(shares);
        self.listing(columns, |summary| summary.links.iter().map(link_row).collect())
    }

    /// A listing with a row for each of `rows`, and the variant before it if there are any.
    fn listing(&self, columns: impl Iterator<Item = Column>, rows: impl Fn(&Summary) -> Vec<Vec<Cell>>) -> Listing {
        let has_variants = self.has_variants();
        let mut listing = Listing::new(has_variants.then(|| text("variant")).into_iter().chain(columns));
        for summary in &self.summary {
            let variant = || Cell::from(summary.variant.clone().unwrap_or_default());
            for row in rows(summary) {
                listing.add(has_variants.then(variant).into_iter().chain(row));
            }
        }
        listing
    }
}

/// A figure of a group of flows.
struct FlowColumn {
    name: &'static str,
    quantity: Quantity,
    of: fn(&FlowSummary) -> Option<Statistic>,
}

const FLOW_COLUMNS: [FlowColumn; 8] = [
    FlowColumn { name: "goodput", quantity: Quantity::Rate, of: |flow| flow.goodput_bps },
    FlowColumn { name: "time", quantity: Quantity::Time, of: |flow| flow.time_s },
    FlowColumn { name: "rtt", quantity: Quantity::Time, of: |flow| flow.rtt_s },
    FlowColumn { name: "median", quantity: Quantity::Time, of: |flow| flow.rtt_median_s },
    FlowColumn { name: "p99", quantity: Quantity::Time, of: |flow| flow.rtt_p99_s },
    FlowColumn { name: "Jain index", quantity: Quantity::Index, of: |flow| flow.jain_index },
    FlowColumn { name: "retransmitted", quantity: Quantity::Number, of: |flow| flow.retransmissions },
    FlowColumn { name: "RTOs", quantity: Quantity::Number, of: |flow| flow.rtos },
];

fn flow_name(flow: &FlowSummary) -> Cell {
    if flow.flows > 1 { format!("{} x {}", flow.flows, flow.group).into() } else { flow.group.as_str().into() }
}

fn complete(flow: &FlowSummary, summary: &Summary) -> Cell {
    match flow.failed {
        0 => format!("{}/{}", flow.complete, flow.flows * summary.runs).into(),
        failed => format!("{}, {failed} failed", flow.complete).into(),
    }
}

fn link_row(link: &LinkSummary) -> Vec<Cell> {
    let names = [&link.name, &link.from, &link.to].map(|name| Cell::from(name.as_str()));
    let figures = [link.delivered_bps, link.dropped_by_queue, link.lost].map(spread);
    names.into_iter().chain(figures).collect()
}

/// A mean, and a deviation if there are several seeds.
fn spread(statistic: Option<Statistic>) -> Cell {
    statistic.map_or(Cell::Missing, |Statistic { mean, stddev }| Cell::spread(mean, stddev))
}
