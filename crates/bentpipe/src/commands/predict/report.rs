//! What was predicted, for programs and for people.

use crate::text::Text;
use model::prediction::{Limit, Link, Prediction, Row, Transfer};
use results::listing::{Listing, figure, text};
use serde::Serialize;
use units::{Probability, Quantity, Rate};

/// A prediction as JSON. Names end in their units.
#[derive(Debug, Serialize)]
pub struct Document {
    throughput_bps: Option<u64>,
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
    throughput_bps: Option<u64>,
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
    /// The prediction for a transfer over a link, the rate of one without end and what limits that, and every model's own figures.
    pub fn new(
        (link, transfer): (&Link, &Transfer),
        prediction: &Prediction,
        (steady, limit): (Rate, Limit),
        rows: &[Row],
    ) -> Self {
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
            throughput_bps: known_bps(prediction.throughput),
            time_s: prediction.time.value.as_secs_f64(),
            binding: prediction.binding.to_string(),
            model: prediction.binding.model(transfer.control),
            valid: prediction.time.is_valid(),
            doubt: prediction.time.doubt.clone(),
            parts: parts.collect(),
            steady: Steady { throughput_bps: known_bps(steady), binding: limit.to_string() },
            models: rows.iter().skip(1).map(of).collect(),
            title: title(link, transfer),
        }
    }

    /// For people.
    pub fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        let (time, rate) = (|seconds| Quantity::Time.text(seconds), rate_text);
        text.lines(&self.title).blank();
        text.lines(format!(
            "{}, {}: limited by {} ({})",
            time(self.time_s),
            rate(self.throughput_bps),
            self.binding,
            self.model
        ));
        if let Some(doubt) = &self.doubt {
            text.lines(format!("doubtful: {doubt}"));
        }
        let parts: Vec<_> = self.parts.iter().map(|part| format!("{} {}", part.limit, time(part.time_s))).collect();
        text.lines(format!("the time: {}", parts.join(", ")));
        text.lines(format!("without end: {}, limited by {}", rate(self.steady.throughput_bps), self.steady.binding));
        text.blank().listing(&self.table());
        text
    }

    fn table(&self) -> Listing {
        let mut listing = Listing::new([
            text("model"),
            figure("throughput", Quantity::Rate),
            figure("time", Quantity::Time),
            figure("window, segments", Quantity::Number),
            text("holds here"),
        ]);
        for row in &self.models {
            listing.add([
                row.model.into(),
                row.throughput_bps.map(|bps| bps as f64).into(),
                row.time_s.into(),
                row.window_segments.into(),
                holds(row.doubt.as_deref()).into(),
            ]);
        }
        listing
    }
}

/// A rate in bits per second; `None` if it is below 1 bit/s, which [`Rate`] does not hold.
pub fn known_bps(rate: Rate) -> Option<u64> {
    Some(rate.as_bps()).filter(|bps| *bps > 0)
}

fn rate_text(bps: Option<u64>) -> String {
    bps.map_or_else(|| "below 1 bit/s".to_owned(), |bps| Quantity::Rate.text(bps as f64))
}

/// Whether a model holds, and if not why.
pub fn holds(doubt: Option<&str>) -> String {
    doubt.map_or_else(|| "yes".to_owned(), |doubt| format!("no: {doubt}"))
}

/// The case in one line.
pub fn title(link: &Link, transfer: &Transfer) -> String {
    let losses = if link.loss == Probability::ZERO { "no losses".to_owned() } else { format!("{} lost", link.loss) };
    format!("{} over {} and {}, {losses}", transfer.size, link.rate, link.rtt)
}
