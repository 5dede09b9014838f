//! Every study's data, and reports as files.

use papers::printed::Item;
use papers::report::{self, Document};
use papers::{Context, Error, Found, Options, PaperReport, Reproduction, STUDIES, Study, Verdict};
use replicas::{Interrupt, Jobs, Pool};
use results::PictureFormat;
use results::chart::{Axis, Chart, Series, Style};
use std::fs;

fn options() -> Options {
    let pool = Pool { jobs: Jobs::new(2), interrupt: Interrupt::default(), shows_progress: false, huge_pages: false };
    Options { pool, seeds: None, full: false, lab: None }
}

/// Two entries, a claim and a figure, without simulations.
struct Small;

impl Study for Small {
    fn name(&self) -> &'static str {
        "small"
    }

    fn printed(&self) -> &'static str {
        r#"
        paper = "A & B, Title"
        [[item]]
        name = "figure-1"
        title = "Figure 1: <time>"
        unit = "s"
        entries = [
            { key = "near", printed = 2.0 },
            { key = "far", printed = 4.0 },
            { key = "sentence", claim = "it | grows", section = "2" },
            { key = "left out", printed = 1.0 },
        ]
        "#
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        if item.name != "figure-1" {
            return Err(Error::Input(format!("no item {}", item.name)));
        }
        let chart = Chart {
            title: item.title.clone(),
            x: Axis::linear("distance, m"),
            y: Axis::linear("time, s"),
            series: vec![Series::new("found", Style::Line, vec![(1.0, 2.0), (2.0, 4.5)])],
            caption: context.command(),
        };
        let found = vec![
            Found::new("far").simulated([4.4, 4.6]).note("it rains"),
            Found::new("near").model(2.01),
            Found::new("sentence").verdict(Verdict::Holds),
        ];
        Ok(Reproduction { found, charts: vec![chart.clone(), chart], remarks: vec!["all is well".into()] })
    }
}

fn small() -> PaperReport {
    papers::run(&Small, &[], &options()).expect("it runs")
}

/// Of its two items one cannot be run, as when a transfer of the laboratory fails.
struct HalfBroken;

impl Study for HalfBroken {
    fn name(&self) -> &'static str {
        "half-broken"
    }

    fn printed(&self) -> &'static str {
        r#"
        paper = "C, Title"
        [[item]]
        name = "figure-2"
        title = "Figure 2"
        unit = "s"
        entries = [{ key = "one", printed = 1.0 }]
        [[item]]
        name = "figure-1"
        title = "Figure 1"
        unit = "s"
        entries = [{ key = "near", printed = 2.0 }, { key = "far", printed = 4.0 }, { key = "sentence", claim = "it grows" }]
        "#
    }

    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
        Small.reproduce(item, context)
    }
}

#[test]
fn an_item_that_fails_leaves_the_others() {
    let of = |names: &[&str]| (&HalfBroken as &dyn Study, names.iter().map(ToString::to_string).collect());
    let reproduced = papers::run_all(&[of(&[])], &options()).expect("an item is reproduced");
    let items: Vec<_> = reproduced.reports[0].items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!((items, reproduced.items, reproduced.wanted), (vec!["figure-1"], 1, 2));
    let failures: Vec<_> = reproduced.failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, ["half-broken figure-2: no item figure-2"]);
    let error = papers::run_all(&[of(&["figure-2"])], &options()).unwrap_err();
    assert!(matches!(error, Error::Input(_)), "{error}");
}

#[test]
fn the_data_of_every_study_are_sound() {
    for study in STUDIES.iter().copied() {
        let printed = papers::printed(study).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(!printed.paper.is_empty() && !printed.items.is_empty(), "{}", study.name());
    }
    let mut names: Vec<_> = STUDIES.iter().map(|study| study.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), STUDIES.len());
}

#[test]
fn rows_are_in_the_papers_order() {
    let report = small();
    let rows: Vec<_> = report.items[0].rows.iter().map(|row| (row.entry.key.as_str(), row.verdict)).collect();
    let expected = [
        ("near", Some(Verdict::Within)),
        ("far", Some(Verdict::Off)),
        ("sentence", Some(Verdict::Holds)),
        ("left out", None),
    ];
    assert_eq!(rows, expected);
    assert_eq!(report::changes(&[report]), ["small figure-1 `far`: documented as printed, found off"]);
}

#[test]
fn what_is_documented_is_no_change_and_what_differs_from_it_is() {
    let mut report = small();
    let far = &mut report.items[0].rows[1];
    far.entry.documented = Some(Verdict::Off);
    assert!(report::changes(std::slice::from_ref(&report)).is_empty());
    report.items[0].rows[0].entry.documented = Some(Verdict::Off);
    let changes = report::changes(&[report]);
    assert_eq!(changes, ["small figure-1 `near`: documented off, found within"]);
}

/// The notes are the last column; most are short beside the longest.
#[test]
fn tables_are_not_padded_to_the_longest_note() {
    let mut report = small();
    report.items[0].rows[0].found.note = Some("long ".repeat(200));
    let table = report::item_table(&report.items[0]).render(None);
    let lengths: Vec<_> = table.lines().map(str::len).collect();
    assert_eq!(lengths.iter().filter(|length| **length > 300).count(), 1, "{lengths:?}");
    assert!(table.lines().all(|line| line.starts_with('|') && line.ends_with('|')), "{table}");
    assert!(report::summary_table(&[report]).render(None).lines().all(|line| line.ends_with('|')));
}

#[test]
fn an_unknown_item_is_refused() {
    let error = papers::run(&Small, &["table-9".into()], &options()).expect_err("an error").to_string();
    assert_eq!(error, "small has no item `table-9`; it has figure-1");
}

#[test]
fn a_report_has_every_entry_and_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = report::prepare(&folder.path().join("out")).expect("it is made");
    let written = report::write(&[small()], &directory, PictureFormat::Svg).expect("it is written");
    assert_eq!(written.len(), 5);
    let read =
        |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for name in ["report.html", "report.md", "entries.csv"] {
        let text = read(name);
        for expected in ["near", "far", "sentence", "left out", "it rains", "4.5"] {
            assert!(text.contains(expected), "{expected} in {name}: {text}");
        }
    }
    let html = read("report.html");
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains("Figure 1: &lt;time&gt;") && html.contains("A &amp; B") && html.contains("all is well"));
    let markdown = read("report.md");
    for figure in ["small-figure-1.svg", "small-figure-1-2.svg"] {
        assert!(read(figure).contains("bentpipe papers small --item figure-1"), "{figure}");
        assert!(markdown.contains(figure));
    }
    assert!(markdown.contains("it \\| grows"));
    assert_eq!(read("entries.csv").lines().count(), 1 + 4);
    // Of an earlier report no figure stays, and nothing else goes.
    let folder = folder.path().join("out");
    for name in ["marchese-figure-6.svg", "kim-figure-4-2.png", "marchese-figure-6-draft.svg", "notes.svg"] {
        std::fs::write(folder.join(name), "").expect("written");
    }
    report::write(&[small()], &directory, PictureFormat::Svg).expect("it is written");
    let is_there = |name: &str| folder.join(name).exists();
    assert!(!is_there("marchese-figure-6.svg") && !is_there("kim-figure-4-2.png"));
    assert!(is_there("marchese-figure-6-draft.svg") && is_there("notes.svg"));
}

#[test]
fn the_document_has_null_for_what_was_not_run() {
    let document = Document::new(&[small()]);
    let entries = &document.papers[0].items[0].entries;
    assert_eq!(entries[1].simulated, Some(4.5));
    assert_eq!(entries[1].deviation, Some(0.125));
    assert_eq!((entries[3].simulated, entries[3].verdict), (None, None));
}
