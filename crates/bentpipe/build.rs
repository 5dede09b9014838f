//! Tells the program which commit it is built from, for `--version`. Outside a repository (a source archive), `BENTPIPE_COMMIT` and
//! `BENTPIPE_COMMIT_DATE` say so; nothing else of the machine or the time goes into the program, so that builds are reproducible.
#![allow(clippy::disallowed_methods, reason = "a build script")]

use std::process::Command;

/// What `git ARGUMENTS` prints, if this is a repository and git is there.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn main() {
    let described = [
        ("BENTPIPE_COMMIT", ["rev-parse", "--short=10", "HEAD"].as_slice()),
        ("BENTPIPE_COMMIT_DATE", &["show", "--no-patch", "--format=%cs", "HEAD"]),
    ];
    for (variable, arguments) in described {
        let value = std::env::var(variable).ok().or_else(|| git(arguments)).unwrap_or_else(|| "unknown".to_owned());
        println!("cargo::rustc-env={variable}={value}");
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with each commit.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}
