//! `bentpipe papers`: the studies that bentpipe descends from, reproduced number by number.

use crate::destination::PictureArg;
use crate::output::{Failure, Output};
use crate::text::Text;
use ::papers::report::{self, Document};
use ::papers::{Error, Lab, Options, Reproduced, STUDIES, Study};
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use replicas::{Interrupt, Jobs, Pool};
use results::listing::{self, Listing, count};
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const LONG_ABOUT: &str = "\
Reproduces five papers on TCP over satellites, table by table and figure by figure: by closed form, in simulation and,
with --lab, with this kernel's TCP over the emulated link. Each printed value is shown beside the reproduced one, with
the deviation and a verdict (docs/papers.md).

With --out, the report is written to report.html (self-contained), report.md, entries.csv and a file for each figure.
Some values and claims cannot be reproduced and are documented as such; the exit code is 1 if a verdict differs from
the documented one.";

const EXAMPLES: &str = "\
Examples:
  bentpipe papers --list                           # the papers and their items
  bentpipe papers marchese --item table-3          # one table, in seconds
  bentpipe papers --out report                     # all five, with figures
  bentpipe papers kruse --lab --json               # this kernel's TCP, too (needs root or user namespaces)
  bentpipe papers kim --lab --out report           # with eBPF congestion controls in the kernel (root); 20 minutes";

/// Reproduce the printed tables and figures of five papers on TCP over satellites
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Papers to reproduce [default: all]
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(STUDIES.iter().map(|study| study.name())))]
    names: Vec<String>,
    /// Reproduce only these items (--list names them)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    item: Vec<String>,
    /// Measure with this kernel's TCP over the emulated link, too: in real time, in private namespaces
    #[arg(long)]
    lab: bool,
    /// Run items that take long, too
    #[arg(long)]
    full: bool,
    /// Number of seeds of random runs [default: as each item needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Number of runs side by side [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = crate::jobs::parse)]
    jobs: Option<NonZeroUsize>,
    /// Write the report to files in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Format of figures
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, requires = "out")]
    pictures: PictureArg,
    /// List papers and items, and run nothing
    #[arg(long)]
    list: bool,
}

/// A study and the items of it that are wanted; all if there are none.
type Wanted = (&'static dyn Study, Vec<String>);

/// Reproduces the papers and shows what was found.
///
/// # Errors
/// If a name is unknown (2), the machine lacks what --lab needs (3), a verdict is not as documented, or the user
/// interrupted (1).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let wanted = args.wanted()?;
    if args.list {
        let list = List::new(&wanted)?;
        return output.result(&list, |columns| list.table().render(columns));
    }
    // A refusal comes now, not after half an hour; and the lab's private file system would hide a directory below it.
    let out = args.out.as_deref().map(report::prepare).transpose()?;
    // Threads come later: a process with several cannot move to a namespace of its own.
    let interrupt = Interrupt::on_signals()?;
    let lab = if args.lab { Some(Lab::enter(interrupt.clone())?) } else { None };
    let jobs = crate::jobs::or_processors(args.jobs);
    let pool = Pool { jobs: Jobs::new(jobs), interrupt, shows_progress: output.shows_progress(), huge_pages: true };
    let options = Options { pool, seeds: args.seeds, full: args.full, lab };
    let Reproduced { reports, items, wanted, failures } = ::papers::run_all(&wanted, &options)?;
    if items == 0 && wanted > 0 {
        return Err(Error::Interrupted.into());
    }
    let written = out.as_ref().map(|directory| report::write(&reports, directory, args.pictures.into()));
    if let Some(Ok(files)) = &written {
        output.wrote(files);
    }
    // Though the disk is full.
    output.result(&Document::new(&reports), |columns| text(&reports, columns))?;
    written.transpose()?;
    if !failures.is_empty() {
        return Err(Error::of_items(&failures).into());
    }
    if items < wanted {
        return Err(Failure::failed(format!("interrupted: {items} of {wanted} items were reproduced")));
    }
    let changes = report::changes(&reports);
    if changes.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!("{} verdicts are not as documented:\n{}", changes.len(), changes.join("\n"))))
}

impl Args {
    /// What is to be run, in the order of [`STUDIES`].
    fn wanted(&self) -> Result<Vec<Wanted>, Failure> {
        let mut unknown: BTreeSet<&String> = self.item.iter().collect();
        let mut wanted = Vec::new();
        for study in STUDIES.iter().copied() {
            if !self.names.is_empty() && !self.names.iter().any(|name| name == study.name()) {
                continue;
            }
            let printed = ::papers::printed(study)?;
            let items: Vec<_> = printed.items.into_iter().map(|item| item.name).collect();
            let chosen: Vec<_> = self.item.iter().filter(|item| items.contains(item)).cloned().collect();
            unknown.retain(|item| !chosen.contains(item));
            if self.item.is_empty() || !chosen.is_empty() {
                wanted.push((study, chosen));
            }
        }
        match unknown.first() {
            None => Ok(wanted),
            Some(item) => {
                let which = if self.names.is_empty() { "any paper".to_owned() } else { self.names.join(", ") };
                Err(Failure::usage(format!("--item {item}: there is no such item in {which} (--list shows all)")))
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input(_) => Self::usage(error),
            Error::Missing(_) => Self::missing(error),
            Error::Failed(_) | Error::Interrupted => Self::failed(error),
        }
    }
}

fn text(reports: &[::papers::PaperReport], columns: Option<usize>) -> Text {
    let mut text = Text::new(columns);
    for report in reports {
        text.lines(&report.paper).blank();
        for item in &report.items {
            text.lines(format!("{} ({})", item.heading(), item.name)).listing(&report::item_table(item));
            for remark in &item.remarks {
                text.indented(format!("  {remark}"), "  ");
            }
            text.blank();
        }
    }
    text.listing(&report::summary_table(reports));
    text
}

/// The papers and their items.
#[derive(Serialize)]
struct List {
    papers: Vec<ListedPaper>,
}

#[derive(Serialize)]
struct ListedPaper {
    name: &'static str,
    paper: String,
    items: Vec<ListedItem>,
}

#[derive(Serialize)]
struct ListedItem {
    item: String,
    title: String,
    entries: usize,
}

impl List {
    fn new(wanted: &[Wanted]) -> Result<Self, Failure> {
        let listed = |(study, chosen): &Wanted| -> Result<ListedPaper, Failure> {
            let printed = ::papers::printed(*study)?;
            let items = printed.items.into_iter().filter(|item| chosen.is_empty() || chosen.contains(&item.name));
            let items =
                items.map(|item| ListedItem { entries: item.entries.len(), item: item.name, title: item.title });
            Ok(ListedPaper { name: study.name(), paper: printed.paper, items: items.collect() })
        };
        Ok(Self { papers: wanted.iter().map(listed).collect::<Result<_, _>>()? })
    }

    fn table(&self) -> Listing {
        let names = ["paper", "item"].map(listing::text).into_iter();
        let mut listing = Listing::new(names.chain([count("entries"), listing::text("what it shows")]));
        for paper in &self.papers {
            for item in &paper.items {
                let names = [paper.name.into(), item.item.as_str().into()].into_iter();
                listing.add(names.chain([item.entries.to_string().into(), item.title.as_str().into()]));
            }
        }
        listing
    }
}
