//! The results of simulations, for people and for programs.

use super::replicas::Outcome;
use crate::replay;
use comfy_table::{CellAlignment, Table, presets};
use results::{FlowSummary, LinkSummary, RunDocument, Statistic, Summary};
use serde::Serialize;
use sim::Stopped;
use units::Rate;

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

/// The limit at which a run stopped, if it was one, with the key that sets it.
pub fn limit(stopped: Stopped) -> Option<&'static str> {
    match stopped {
        Stopped::EventLimit => Some("its limit of events (stop.max_events)"),
        Stopped::MemoryLimit => Some("its limit of memory (stop.max_memory)"),
        Stopped::StandingStill => {
            Some("one instant without end (a flow's way has neither rate nor delay: give one, or bound `send_buffer`)")
        }
        Stopped::Time | Stopped::Complete | Stopped::Idle | Stopped::Unfinished => None,
    }
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
    pub fn text(&self) -> String {
        if self.runs.is_empty() {
            return "No run was finished.\n".to_owned();
        }
        let packets: u64 = self.runs.iter().map(|run| run.data_packets).sum();
        let simulated: f64 = self.runs.iter().map(|run| run.end_s).sum();
        let mut text = format!("{}\n\n", self.title());
        text.push_str(&format!("{}\n\n{}\n\n", self.flows(), self.links()));
        text.push_str(&format!(
            "{} run{}, {simulated:.0} s simulated in {:.2} s; {:.2} million data packets in {:.2} s of processor time\n",
            self.runs.len(),
            if self.runs.len() == 1 { "" } else { "s" },
            self.wall_s,
            packets as f64 / 1e6,
            self.cpu_s,
        ));
        if self.summary.iter().any(|summary| summary.runs > 1) {
            text.push_str("Figures are means and standard deviations over seeds.\n");
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

    fn flows(&self) -> Table {
        let mut columns =
            vec!["flow", "complete", "goodput", "time", "rtt", "median", "p99", "Jain index", "retransmitted", "RTOs"];
        // What no flow has is left out.
        let flows = || self.summary.iter().flat_map(|summary| &summary.flows);
        let has = |column: &&str| match *column {
            "rtt" | "median" | "p99" => flows().any(|flow| flow.rtt_s.is_some()),
            "Jain index" => flows().any(|flow| flow.jain_index.is_some()),
            _ => true,
        };
        columns.retain(has);
        self.table(&columns, |summary| {
            summary
                .flows
                .iter()
                .map(|flow| columns.iter().map(|column| flow_cell(column, flow, summary)).collect())
                .collect()
        })
    }

    fn links(&self) -> Table {
        self.table(&["link", "from", "to", "carried", "dropped by the queue", "lost"], |summary| {
            summary.links.iter().map(link_row).collect()
        })
    }

    /// A table with a row for each of `rows`, and the variant before it if there are any.
    fn table(&self, columns: &[&str], rows: impl Fn(&Summary) -> Vec<Vec<String>>) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        let variant = self.has_variants();
        let texts = if columns[0] == "link" { 3 } else { 1 } + usize::from(variant);
        table.set_header(variant.then_some("variant").into_iter().chain(columns.iter().copied()));
        for summary in &self.summary {
            let name = summary.variant.clone().unwrap_or_default();
            for row in rows(summary) {
                table.add_row(variant.then(|| name.clone()).into_iter().chain(row));
            }
        }
        table.column_iter_mut().skip(texts).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table
    }
}

fn flow_cell(column: &str, flow: &FlowSummary, summary: &Summary) -> String {
    match column {
        "flow" if flow.flows > 1 => format!("{} x {}", flow.flows, flow.group),
        "flow" => flow.group.clone(),
        "complete" if flow.failed > 0 => format!("{}, {} failed", flow.complete, flow.failed),
        "complete" => format!("{}/{}", flow.complete, flow.flows * summary.runs),
        "goodput" => rate(flow.goodput_bps),
        "time" => spread(flow.time_s, |value| format!("{value:.3}"), " s"),
        "rtt" => milliseconds(flow.rtt_s),
        "median" => milliseconds(flow.rtt_median_s),
        "p99" => milliseconds(flow.rtt_p99_s),
        "Jain index" => spread(flow.jain_index, |value| format!("{value:.3}"), ""),
        "retransmitted" => spread(flow.retransmissions, |value| format!("{value:.1}"), ""),
        _ => spread(flow.rtos, |value| format!("{value:.1}"), ""),
    }
}

fn milliseconds(seconds: Option<Statistic>) -> String {
    spread(seconds, |value| format!("{:.1}", value * 1e3), " ms")
}

fn link_row(link: &LinkSummary) -> Vec<String> {
    let percent = |statistic| spread(statistic, |value: f64| format!("{:.3}", value * 100.0), " %");
    vec![
        link.name.clone(),
        link.from.clone(),
        link.to.clone(),
        rate(link.delivered_bps),
        percent(link.dropped_by_queue),
        percent(link.lost),
    ]
}

/// A mean, and a deviation if there are several seeds, with the unit.
fn spread(statistic: Option<Statistic>, number: impl Fn(f64) -> String, unit: &str) -> String {
    match statistic {
        None => "-".to_owned(),
        Some(Statistic { mean, stddev: None }) => format!("{}{unit}", number(mean)),
        Some(Statistic { mean, stddev: Some(stddev) }) => format!("{} ± {}{unit}", number(mean), number(stddev)),
    }
}

/// A rate in the unit that suits its mean.
fn rate(statistic: Option<Statistic>) -> String {
    let Some(Statistic { mean, stddev }) = statistic else { return "-".to_owned() };
    let shown = Rate::from_bps(mean.round() as u64).to_string();
    match stddev {
        None => shown,
        Some(stddev) => format!("{shown} ± {}", Rate::from_bps(stddev.round() as u64)),
    }
}
