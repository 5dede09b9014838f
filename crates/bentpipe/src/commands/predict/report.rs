//! What was predicted, for programs and for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use model::prediction::{Link, Prediction, Row, Transfer};
use serde::Serialize;
use std::fmt::{self, Display};
use units::Rate;

/// A prediction as JSON. Names end in their units.
#[derive(Debug, Serialize)]
pub struct Document {
    throughput_bps: u64,
    time_s: f64,
    binding: String,
    model: &'static str,
    valid: bool,
    doubt: Option<String>,
    parts: Vec<Part>,
    steady: Steady,
    models: Vec<ModelDocument>,
    #[serde(skip)]
    title: String,
}

/// The part of the time that a limit answers for.
#[derive(Debug, Serialize)]
struct Part {
    limit: String,
    time_s: f64,
}

/// A transfer without end.
#[derive(Debug, Serialize)]
struct Steady {
    throughput_bps: u64,
    binding: String,
}

/// One model.
#[derive(Debug, Serialize)]
struct ModelDocument {
    model: &'static str,
    throughput_bps: Option<u64>,
    time_s: Option<f64>,
    window_segments: Option<f64>,
    valid: bool,
    doubt: Option<String>,
}

impl Document {
    /// The prediction for `transfer` over `link`, and every model's own figures.
    pub fn new(link: &Link, transfer: &Transfer, prediction: &Prediction, rows: &[Row]) -> Self {
        let of = |row: &Row| ModelDocument {
            model: row.model,
            throughput_bps: row.throughput.map(Rate::as_bps),
            time_s: row.time.map(|time| time.as_secs_f64()),
            window_segments: row.window,
            valid: row.doubt.is_none(),
            doubt: row.doubt.clone(),
        };
        let parts = prediction.parts.iter().map(|(limit, time_s)| Part { limit: limit.to_string(), time_s: *time_s });
        Self {
            throughput_bps: prediction.throughput.as_bps(),
            time_s: prediction.time.value.as_secs_f64(),
            binding: prediction.binding.to_string(),
            model: prediction.binding.model(transfer.control),
            valid: prediction.time.is_valid(),
            doubt: prediction.time.doubt.clone(),
            parts: parts.collect(),
            steady: Steady { throughput_bps: prediction.steady.0.as_bps(), binding: prediction.steady.1.to_string() },
            models: rows.iter().skip(1).map(of).collect(),
            title: title(link, transfer),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["model", "throughput", "time", "window", "holds here"]);
        for row in &self.models {
            table.add_row([
                row.model.to_owned(),
                row.throughput_bps.map(rate).unwrap_or_default(),
                row.time_s.map(|time| format!("{time:.3} s")).unwrap_or_default(),
                row.window_segments.map(|segments| format!("{segments:.1}")).unwrap_or_default(),
                row.doubt.as_ref().map_or("yes".to_owned(), |doubt| format!("no: {doubt}")),
            ]);
        }
        table.column_iter_mut().skip(1).take(3).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table
    }
}

/// The case in one line.
pub fn title(link: &Link, transfer: &Transfer) -> String {
    format!("{} over {} and {}, {} lost", transfer.size, link.rate, link.rtt, link.loss)
}

/// A rate to three digits.
pub fn rate(bps: u64) -> String {
    match bps {
        0..10_000 => format!("{bps} bit/s"),
        10_000..1_000_000 => format!("{:.1} kbit/s", bps as f64 / 1e3),
        _ => format!("{:.3} Mbit/s", bps as f64 / 1e6),
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        writeln!(
            f,
            "{:.3} s, {}: limited by {} ({})",
            self.time_s,
            rate(self.throughput_bps),
            self.binding,
            self.model
        )?;
        if let Some(doubt) = &self.doubt {
            writeln!(f, "doubtful: {doubt}")?;
        }
        let parts: Vec<_> = self.parts.iter().map(|part| format!("{} {:.3} s", part.limit, part.time_s)).collect();
        writeln!(f, "the time: {}", parts.join(", "))?;
        writeln!(f, "without end: {}, limited by {}\n", rate(self.steady.throughput_bps), self.steady.binding)?;
        write!(f, "{}", self.table())
    }
}
