//! The results of studies, and the files that say so: `report.html` with everything in it, `report.md`, `entries.csv` and the
//! figures.

mod csv;
mod document;
mod html;
mod markdown;
mod numbers;

pub use document::{Document, EntryDocument, ItemDocument, PaperDocument};
pub use markdown::{item_table, summary_table};

use crate::printed::Entry;
use crate::study::{Found, Readings, Verdict};
use crate::{Error, STUDIES};
use kernel::directory::OpenDirectory;
use results::PictureFormat;
use results::chart::Chart;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A study's results.
#[derive(Debug, Clone)]
pub struct PaperReport {
    /// Its name on the command line.
    pub name: String,
    /// Author, title, where and when.
    pub paper: String,
    /// What was run of its items.
    pub items: Vec<ItemReport>,
}

/// An item's results.
#[derive(Debug, Clone)]
pub struct ItemReport {
    /// Its name on the command line.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The unit of its values.
    pub unit: String,
    /// The command that finds it again.
    pub command: String,
    /// Its entries, in the paper's order.
    pub rows: Vec<Row>,
    /// Its figures.
    pub charts: Vec<Chart>,
    /// What holds for all of them.
    pub remarks: Vec<String>,
}

/// An entry, what was found of it, and what follows.
#[derive(Debug, Clone)]
pub struct Row {
    /// What is printed.
    pub entry: Entry,
    /// What was found.
    pub found: Found,
    /// Relative, see [`crate::verdict::deviation`].
    pub deviation: Option<f64>,
    /// None if it was not run.
    pub verdict: Option<Verdict>,
}

impl Row {
    /// Whether the verdict is another than the documented one: `printed.toml` names what is not found again as the paper has it.
    pub fn has_changed(&self) -> bool {
        match (self.entry.documented, self.verdict) {
            (_, None) => false,
            (Some(documented), Some(verdict)) => documented != verdict,
            (None, Some(verdict)) => !verdict.is_expected(),
        }
    }

    /// The verdict in words.
    pub fn verdict_text(&self) -> String {
        match (self.verdict, self.found.readings) {
            (Some(Verdict::Open), Some(Readings { of, .. })) => format!("open: holds in none of {of} readings"),
            (Some(_), Some(Readings { holds, of })) => format!("holds in {holds} of {of} readings"),
            (Some(verdict), None) => verdict.text().to_owned(),
            (None, _) => "not run".to_owned(),
        }
    }
}

/// The entries of `reports` whose verdict is not as documented: paper, item, key, what is documented and what was found.
pub fn changes(reports: &[PaperReport]) -> Vec<String> {
    let items = reports.iter().flat_map(|report| report.items.iter().map(move |item| (report, item)));
    let changed = items.flat_map(|(report, item)| item.rows.iter().map(move |row| (report, item, row)));
    let changed = changed.filter(|(.., row)| row.has_changed());
    let text = |(report, item, row): (&PaperReport, &ItemReport, &Row)| {
        let documented = row.entry.documented.map_or("as printed", Verdict::text);
        format!(
            "{} {} `{}`: documented {documented}, found {}",
            report.name,
            item.name,
            row.entry.key,
            row.verdict_text()
        )
    };
    changed.map(text).collect()
}

/// The file of a figure: `NAME-ITEM.svg`, further ones `NAME-ITEM-2.svg` and so on.
fn figure_file(report: &PaperReport, item: &ItemReport, number: usize, format: PictureFormat) -> String {
    let extension = format.extension();
    match number {
        0 => format!("{}-{}.{extension}", report.name, item.name),
        _ => format!("{}-{}-{}.{extension}", report.name, item.name, number + 1),
    }
}

/// Makes and opens `directory`, to which a report is to be written later: also after [`crate::Lab::enter`], which hides what
/// is below [`kernel::namespace::PRIVATE_DIRECTORY`].
///
/// # Errors
/// If it cannot be made, or nothing may be written there.
pub fn prepare(directory: &Path) -> Result<OpenDirectory, Error> {
    let refuse = |error: io::Error| Error::Input(format!("{}: {error}", directory.display()));
    if directory.is_file() {
        return Err(Error::Input(format!("{}: this is a file, and a directory is needed", directory.display())));
    }
    let open = OpenDirectory::create(directory).map_err(refuse)?;
    access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|error| refuse(error.into()))?;
    Ok(open)
}

/// Removes the figures of an earlier report from `directory`: beside a new one they would be taken for its own.
fn remove_figures(directory: &OpenDirectory) -> Result<(), Error> {
    let items: Vec<String> = STUDIES
        .iter()
        .flat_map(|study| {
            crate::printed(*study)
                .into_iter()
                .flat_map(|printed| printed.items)
                .map(|item| format!("{}-{}", study.name(), item.name))
        })
        .collect();
    let is_number = |rest: &str| rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok());
    let is_figure = |stem: &str| {
        items.iter().any(|item| stem.strip_prefix(item.as_str()).is_some_and(|rest| rest.is_empty() || is_number(rest)))
    };
    let refuse = |error: io::Error| Error::Failed(format!("{}: {error}", directory.path().display()));
    let reachable = directory.reachable();
    for entry in fs::read_dir(&reachable).map_err(refuse)? {
        let name = entry.map_err(refuse)?.file_name();
        let Some((stem, extension)) = name.to_str().and_then(|name| name.rsplit_once('.')) else { continue };
        if PictureFormat::ALL.iter().any(|format| format.extension() == extension) && is_figure(stem) {
            fs::remove_file(reachable.join(&name)).map_err(refuse)?;
        }
    }
    Ok(())
}

/// Writes all files to `directory`; returns them.
///
/// # Errors
/// If a file cannot be written.
pub fn write(reports: &[PaperReport], directory: &OpenDirectory, format: PictureFormat) -> Result<Vec<PathBuf>, Error> {
    remove_figures(directory)?;
    let mut files = vec![
        ("report.html".to_owned(), html::report(reports)?.into_bytes()),
        ("report.md".to_owned(), markdown::page(reports, format).into_bytes()),
        ("entries.csv".to_owned(), csv::entries(reports).map_err(Error::failed)?.into_bytes()),
    ];
    for (report, item) in reports.iter().flat_map(|report| report.items.iter().map(move |item| (report, item))) {
        for (number, chart) in item.charts.iter().enumerate() {
            let figure = chart.svg().and_then(|svg| format.convert(svg)).map_err(Error::failed)?;
            files.push((figure_file(report, item, number, format), figure));
        }
    }
    let mut written = Vec::with_capacity(files.len());
    for (name, content) in files {
        let path = directory.path().join(&name);
        directory.write(name, content).map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
        written.push(path);
    }
    Ok(written)
}
