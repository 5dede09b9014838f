//! Results as JSON.

use super::{ItemReport, PaperReport, Row};
use crate::printed::Content;
use crate::study::{Readings, Verdict};
use serde::Serialize;

/// All studies that were run.
#[derive(Debug, Serialize)]
pub struct Document {
    /// In the order of [`crate::STUDIES`].
    pub papers: Vec<PaperDocument>,
}

/// A study.
#[derive(Debug, Serialize)]
pub struct PaperDocument {
    /// Its name on the command line.
    pub name: String,
    /// Author, title, where and when.
    pub paper: String,
    /// Its items.
    pub items: Vec<ItemDocument>,
}

/// A table, a figure or a set of claims.
#[derive(Debug, Serialize)]
pub struct ItemDocument {
    /// Its name on the command line.
    pub item: String,
    /// What it shows.
    pub title: String,
    /// The unit of its values.
    pub unit: String,
    /// Its entries.
    pub entries: Vec<EntryDocument>,
    /// What holds for all of them.
    pub remarks: Vec<String>,
}

/// An entry; what was not run is null.
#[derive(Debug, Serialize)]
pub struct EntryDocument {
    /// Tells it from the others of its item.
    pub key: String,
    /// The printed value.
    pub printed: Option<f64>,
    /// What the paper must have meant, where what it prints contradicts it.
    pub corrected: Option<f64>,
    /// The claim, in our words.
    pub claim: Option<String>,
    /// By closed form.
    pub model: Option<f64>,
    /// By simulation: the mean over seeds.
    pub simulated: Option<f64>,
    /// The interval of that mean, with 95 % confidence.
    pub interval: Option<(f64, f64)>,
    /// How many simulations there were.
    pub runs: Option<usize>,
    /// With the kernel's TCP.
    pub measured: Option<f64>,
    /// Relative deviation of what was found.
    pub deviation: Option<f64>,
    /// What follows.
    pub verdict: Option<Verdict>,
    /// In how many readings of what the paper leaves open a claim holds.
    pub readings: Option<Readings>,
    /// Whether the verdict is as documented.
    pub as_documented: bool,
    /// Why.
    pub note: Option<String>,
}

impl Document {
    /// Of `reports`.
    pub fn new(reports: &[PaperReport]) -> Self {
        Self { papers: reports.iter().map(PaperDocument::from).collect() }
    }
}

impl From<&PaperReport> for PaperDocument {
    fn from(report: &PaperReport) -> Self {
        let items = report.items.iter().map(ItemDocument::from).collect();
        Self { name: report.name.clone(), paper: report.paper.clone(), items }
    }
}

impl From<&ItemReport> for ItemDocument {
    fn from(report: &ItemReport) -> Self {
        Self {
            item: report.name.clone(),
            title: report.title.clone(),
            unit: report.unit.clone(),
            entries: report.rows.iter().map(EntryDocument::from).collect(),
            remarks: report.remarks.clone(),
        }
    }
}

impl From<&Row> for EntryDocument {
    fn from(row: &Row) -> Self {
        let (printed, corrected) = match &row.entry.content {
            Content::Value { printed, corrected, .. } => (Some(*printed), *corrected),
            Content::Claim { .. } | Content::Ours(_) => (None, None),
        };
        let claim = match &row.entry.content {
            Content::Claim { text, .. } => Some(text.clone()),
            Content::Value { .. } | Content::Ours(_) => None,
        };
        let simulated = row.found.simulated;
        Self {
            key: row.entry.key.clone(),
            printed,
            corrected,
            claim,
            model: row.found.model,
            simulated: simulated.map(|estimate| estimate.mean),
            interval: simulated.and_then(|estimate| estimate.interval),
            runs: simulated.map(|estimate| estimate.runs),
            measured: row.found.measured,
            deviation: row.deviation,
            verdict: row.verdict,
            readings: row.found.readings,
            as_documented: !row.has_changed(),
            note: row.note(),
        }
    }
}
