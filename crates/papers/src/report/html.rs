//! `report.html`: everything in one file that needs nothing else.

use super::markdown::{COLUMNS, SUMMARY_COLUMNS, summary_cells};
use super::{ItemReport, PaperReport};
use crate::Error;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = "
body { font-family: sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; line-height: 1.4 }
table { border-collapse: collapse; margin: 1em 0 }
figure { margin: 1em 0 }
svg { max-width: 100%; height: auto }
th, td { border-bottom: 1px solid #ccc; padding: 0.25em 0.7em; text-align: left; vertical-align: top }
td.number { text-align: right; white-space: nowrap }
.found { color: #00704f }
.contradicted { color: #b34700; font-weight: bold }
pre { background: #f4f4f4; padding: 0.5em; overflow-x: auto }
";

/// The page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(reports: &[PaperReport]) -> Result<String, Error> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "bentpipe: five papers, number by number" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Five papers, number by number" }
                (summary(reports))
                @for report in reports {
                    h2 id=(report.name) { (report.name) }
                    p { (report.paper) }
                    @for item in &report.items { (section(report, item)?) }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The table with a line for each item.
fn summary(reports: &[PaperReport]) -> Markup {
    html! {
        table {
            tr { @for column in SUMMARY_COLUMNS { th { (column) } } }
            @for report in reports {
                @for item in &report.items {
                    @let [paper, name, entries, found, not, which] = summary_cells(report, item);
                    tr {
                        td { (paper) }
                        td { a href=(format!("#{}-{}", report.name, item.name)) { (name) } }
                        @for count in [entries, found, not] { td.number { (count) } }
                        td { (which) }
                    }
                }
            }
        }
    }
}

fn section(report: &PaperReport, item: &ItemReport) -> Result<Markup, Error> {
    let figures = item.charts.iter().map(|chart| chart.svg().map_err(Error::failed)).collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        h3 id=(format!("{}-{}", report.name, item.name)) { (item.heading()) }
        table {
            tr { @for column in COLUMNS { th { (column) } } }
            @for row in &item.rows {
                @let [key, numbers @ .., verdict, note] = row.cells();
                tr {
                    td { (key) }
                    @for number in numbers { td.number { (number) } }
                    td class=[row.verdict.map(|verdict| verdict.class())] { (verdict) }
                    td { (note) }
                }
            }
        }
        @for figure in figures { figure { (PreEscaped(figure)) } }
        @if !item.remarks.is_empty() {
            ul { @for remark in &item.remarks { li { (remark) } } }
        }
        pre { (item.command) }
    })
}
