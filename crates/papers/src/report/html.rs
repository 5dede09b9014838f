//! `report.html`: everything in one file that needs nothing else.

use super::markdown::{COLUMNS, SUMMARY_COLUMNS, summary_cells};
use super::{ItemReport, PaperReport};
use crate::Error;
use maud::{Markup, html};
use results::page;

/// The page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn report(reports: &[PaperReport]) -> Result<String, Error> {
    let body = html! {
        (summary(reports))
        @for report in reports {
            h2 id=(report.name) { (report.name) }
            p { (report.paper) }
            @for item in &report.items { (section(report, item)?) }
        }
    };
    Ok(page::page("five papers, number by number", &body))
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
        @for figure in &figures { (page::figure(figure)) }
        @if !item.remarks.is_empty() {
            ul { @for remark in &item.remarks { li { (remark) } } }
        }
        pre { (item.command) }
    })
}
