//! Every entry as a line of `entries.csv`.

use super::document::EntryDocument;
use super::{ItemReport, PaperReport, Row};
use serde::Serialize;

/// A line; the names of its fields are the columns', and those of [`super::Document`]. A field within a field has both names, joined by `_`.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    item: &'a str,
    unit: &'a str,
    key: String,
    claim: Option<String>,
    printed: Option<f64>,
    corrected: Option<f64>,
    model: Option<f64>,
    simulated: Option<f64>,
    interval_low: Option<f64>,
    interval_high: Option<f64>,
    runs: Option<usize>,
    measured: Option<f64>,
    deviation: Option<f64>,
    verdict: Option<crate::Verdict>,
    readings_holds: Option<usize>,
    readings_of: Option<usize>,
    as_documented: bool,
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
        name: &report.name,
        item: &item.name,
        unit: &item.unit,
        key: entry.key,
        claim: entry.claim,
        printed: entry.printed,
        corrected: entry.corrected,
        model: entry.model,
        simulated: entry.simulated,
        interval_low: entry.interval.map(|interval| interval.0),
        interval_high: entry.interval.map(|interval| interval.1),
        runs: entry.runs,
        measured: entry.measured,
        deviation: entry.deviation,
        verdict: entry.verdict,
        readings_holds: entry.readings.map(|readings| readings.holds),
        readings_of: entry.readings.map(|readings| readings.of),
        as_documented: entry.as_documented,
        note: entry.note,
    }
}
