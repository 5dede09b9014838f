//! `bentpipe papers` end to end.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: runs programs")]

mod own_run;

use own_run::with_own_run;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn papers(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("papers").args(args).env_remove("BENTPIPE_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn an_item_is_reproduced_with_the_names_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = papers(&["marchese", "--item", "table-3", "--json", "--out", out, "--jobs", "1"]);
    assert!(output.status.success(), "{output:?}");
    let document = json(&output);
    let paper = &document["papers"][0];
    assert_eq!(paper["name"], "marchese");
    assert_eq!(paper["items"].as_array().unwrap().len(), 1);
    let entry = &paper["items"][0]["entries"][3];
    assert_eq!((&entry["key"], &entry["printed"]), (&"IW=6".into(), &2.7.into()));
    assert_eq!((&entry["verdict"], &entry["measured"]), (&"within".into(), &Value::Null));
    assert!(
        entry["deviation"].as_f64().unwrap().abs() <= 0.05 && entry["simulated"].is_f64() && entry["model"].is_f64()
    );
    for file in ["report.html", "report.md", "entries.csv"] {
        assert!(fs::read_to_string(folder.path().join(file)).unwrap().contains("IW=10"), "{file}");
    }
    let table = fs::read_to_string(folder.path().join("entries.csv")).unwrap();
    for column in table.lines().next().unwrap().split(',') {
        // The interval is a list of two, readings an object or null.
        let within = |field: &str| column.strip_prefix(field).is_some_and(|rest| rest.starts_with('_'));
        let holders = [paper, &paper["items"][0], entry];
        let is_field = |field: &str| holders.iter().any(|holder| holder.get(field).is_some());
        assert!(
            is_field(column) || ["interval", "readings"].iter().any(|field| within(field) && is_field(field)),
            "{column}"
        );
    }
    let again = papers(&["marchese", "--item", "table-3", "--json", "--jobs", "2"]);
    assert_eq!(again.stdout, output.stdout, "the same for any number of jobs");
}

#[test]
fn after_an_interrupt_the_report_has_what_was_reproduced_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    // One takes no time, the other minutes.
    let items = ["marchese", "palermo", "--item", "table-3,claims", "--jobs", "4"];
    command.arg("papers").args(items).args(["--json", "--out"]).arg(folder.path());
    command.env_remove("BENTPIPE_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(10));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("interrupted: 1 of 2 items were reproduced"),
        "{output:?}"
    );
    let document = json(&output);
    assert_eq!(document["papers"].as_array().unwrap().len(), 1);
    assert_eq!(document["papers"][0]["items"][0]["item"], "table-3");
    assert!(fs::read_to_string(folder.path().join("entries.csv")).unwrap().contains("IW=10"));
}

#[test]
fn papers_and_items_are_listed() {
    let document = json(&papers(&["--list", "--json"]));
    let marchese = document["papers"].as_array().unwrap().iter().find(|paper| paper["name"] == "marchese").unwrap();
    let items: Vec<_> = marchese["items"].as_array().unwrap().iter().map(|item| item["item"].clone()).collect();
    assert!(items.contains(&"table-8".into()) && items.contains(&"figure-6".into()));
}

#[test]
fn unknown_names_are_wrong_usage() {
    for (args, problem) in [
        (&["marchesi"][..], "bentpipe: invalid value 'marchesi' for '[NAME]...'"),
        (&["marchese", "--item", "table-9"], "bentpipe: --item table-9: there is no such item in marchese"),
        (&["--item", "table-99"], "bentpipe: --item table-99: there is no such item in any paper"),
        (&["--seeds", "0"], "bentpipe: invalid value '0' for '--seeds <N>'"),
    ] {
        let output = papers(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with(problem), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_lab_leaves_the_report_in_a_directory_below_run() {
    let script = "$0 papers kruse --item setting --lab --out /run/user/report && cat /run/user/report/entries.csv";
    let Some(output) = with_own_run(script) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("\nkruse,"), "{output:?}");
}
