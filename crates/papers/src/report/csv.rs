//! Every entry as a line of `entries.csv`.

use super::document::EntryDocument;
use super::{ItemReport, PaperReport, Row};
use serde::Serialize;

/// A line; the names of its fields are the columns'.
#[derive(Serialize)]
struct Line<'a> {
    paper: &'a str,
    item: &'a str,
    unit: &'a str,
    key: String,
    claim: Option<String>,
    printed: Option<f64>,
    corrected: Option<f64>,
    model: Option<f64>,
    simulated: Option<f64>,
    simulated_low: Option<f64>,
    simulated_high: Option<f64>,
    runs: Option<usize>,
    measured: Option<f64>,
    deviation: Option<f64>,
    verdict: &'a str,
    readings_that_hold: Option<usize>,
    readings: Option<usize>,
    note: Option<String>,
}

/// The file's content.
pub fn entries(reports: &[PaperReport]) -> Result<String, ::csv::Error> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for report in reports {
        for item in &report.items {
            item.rows.iter().try_for_each(|row| writer.serialize(line(report, item, row)))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn line<'a>(report: &'a PaperReport, item: &'a ItemReport, row: &Row) -> Line<'a> {
    let entry = EntryDocument::from(row);
    Line {
        paper: &report.name,
        item: &item.name,
        unit: &item.unit,
        key: entry.key,
        claim: entry.claim,
        printed: entry.printed,
        corrected: entry.corrected,
        model: entry.model,
        simulated: entry.simulated,
        simulated_low: entry.interval.map(|interval| interval.0),
        simulated_high: entry.interval.map(|interval| interval.1),
        runs: entry.runs,
        measured: entry.measured,
        deviation: entry.deviation,
        verdict: entry.verdict.map_or("", crate::Verdict::text),
        readings_that_hold: entry.readings.map(|readings| readings.holds),
        readings: entry.readings.map(|readings| readings.of),
        note: entry.note,
    }
}
