//! What commands print with `--json` is what docs/schemas says.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: it runs programs")]

mod published;

use published::{assert_as_published, folder};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bentpipe(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.args(arguments).arg("--json").current_dir(root).env_remove("BENTPIPE_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn documents_are_as_published() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("new/private.key").display().to_string();
    let link = ["--rate", "6Mbit/s", "--rtt", "550ms"];
    let with_link = |first: &[&'static str], more: &[&'static str]| [first, &link, more].concat();
    let cases = [
        ("predict", with_link(&["predict"], &[])),
        ("predict", with_link(&["predict"], &["--loss", "1%", "--window", "64kB"])),
        ("predict-plot", with_link(&["predict"], &["--plot", "loss=1e-6..1e-1"])),
        ("tune", with_link(&["tune"], &["--size", "1MB"])),
        ("tune", with_link(&["tune"], &["--size", "1MB", "--verify"])),
        ("papers-list", vec!["papers", "--list"]),
        ("papers", vec!["papers", "marchese", "--item", "table-3"]),
        ("simulate-check", vec!["simulate", "scenarios/geo-bulk.toml", "--check"]),
        ("simulate", vec!["simulate", "scenarios/geo-bulk.toml", "--seeds", "2", "--variants", "cubic,sack"]),
        ("simulate", vec!["simulate", "scenarios/dama.toml"]),
        ("simulate", vec!["simulate", "scenarios/interactive.toml"]),
        (
            "simulate-sweep",
            vec!["simulate", "scenarios/geo-bulk.toml", "--seeds", "2", "--sweep", "flow.file.bulk.size=10kB,20kB"],
        ),
        ("simulate-check", vec!["simulate", "scenarios/geo-bulk.toml", "--check", "--sweep", "link.sat.loss=0,1e-3"]),
        ("cc-list", vec!["cc", "list"]),
        ("chaos", vec!["chaos", "--transfers", "10"]),
        ("completions", vec!["completions", "bash"]),
        ("predict", vec!["predict", "--rate", "1bit/s", "--loss", "0.9"]),
        ("keygen", vec!["keygen"]),
        ("keygen", vec!["keygen", "--out", &key]),
    ];
    for (schema, arguments) in cases {
        let output = bentpipe(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_as_published(schema, &serde_json::from_slice(&output.stdout).unwrap());
    }
}

#[test]
fn faults_are_as_published() {
    for arguments in [
        &["simulate", "no-such-file.toml"][..],
        &["predict", "--loss", "x"],
        &["gateway", "status", "--socket", "/nonexistent.sock"],
        &["demo", "--out", "page.jpg"],
    ] {
        let output = bentpipe(arguments);
        let fault: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_as_published("error", &fault);
        assert_eq!(fault["exit_code"].as_i64(), output.status.code().map(i64::from), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn every_schema_is_sound_and_listed() {
    let list = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(schema) = name.strip_suffix(".json") else { continue };
        assert!(list.contains(&format!("]({name})")), "{name} is not in docs/schemas/README.md");
        let text = std::fs::read(folder().join(&name)).unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        assert!(!document.to_string().contains("`None`"), "{schema}: JSON has null");
        jsonschema::meta::validate(&document).unwrap_or_else(|fault| panic!("{schema}: {fault}"));
    }
}
