//! The objects in the repository are made of the sources beside them.
#![allow(clippy::disallowed_methods, reason = "a test: runs a compiler")]

use ring::digest::{SHA256, digest};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where both are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
/// A compiler, and what strips its output.
const TOOLS: [(&str, &str); 2] = [("clang", "llvm-strip"), ("clang-14", "llvm-strip-14")];

fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(FOLDER).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn names(folder: &str, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(FOLDER).join(folder)).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name")).collect();
    names.retain(|name| name.ends_with(extension));
    names.sort();
    names
}

/// After a change of a source, the objects must be compiled again (`make bpf`), which records the checksums of both.
#[test]
fn sources_and_objects_are_those_that_were_made_together() {
    let sums = String::from_utf8(read("objects/SHA256SUMS")).expect("text");
    let mut known = Vec::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").expect("a sum and a name");
        let found: String = digest(&SHA256, &read(name)).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, sum, "{name} has changed since `make bpf`");
        known.push(name);
    }
    let sources = [names(".", ".c"), names(".", ".h")].concat();
    let objects = names("objects", ".o").into_iter().map(|name| format!("objects/{name}"));
    for name in sources.into_iter().chain(objects) {
        assert!(known.contains(&name.as_str()), "`make bpf` does not know {name}");
    }
}

/// The same compiler makes the same bytes. Where it is not installed, the test says so and passes.
#[test]
fn the_compiler_makes_these_objects() {
    let wanted = String::from_utf8(read("objects/COMPILER")).expect("text");
    let is_wanted = |compiler: &str| {
        let said = Command::new(compiler).arg("--version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).lines().next() == Some(wanted.trim_end()))
    };
    let Some((clang, strip)) = TOOLS.into_iter().find(|(clang, _)| is_wanted(clang)) else {
        eprintln!("SKIPPED: needs {}", wanted.trim_end());
        return;
    };
    let made = tempfile::tempdir().expect("a folder");
    let out = made.path().display();
    let status = Command::new("make")
        .args(["--silent", "-C", FOLDER, "objects"])
        .args([format!("CLANG={clang}"), format!("LLVM_STRIP={strip}"), format!("OUT={out}")])
        .status()
        .expect("make is there");
    assert!(status.success(), "{status}");
    for name in names("objects", ".o") {
        let object = fs::read(made.path().join(&name)).expect("it was made");
        assert!(object == read(&format!("objects/{name}")), "{name} is not what the sources give");
    }
}
