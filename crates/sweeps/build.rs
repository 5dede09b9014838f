//! Gives the crate a hash of the sources that decide the results of runs: what was built from others may have other results.
#![allow(clippy::unwrap_used, reason = "what fails here ends the build")]

#[path = "build/sources.rs"]
mod sources;

use std::path::Path;

/// The crates that make runs and say what is kept of them.
const ROOTS: [&str; 2] = ["replicas", "sweeps"];

fn main() {
    let crates = sources::crates(Path::new(".."), &ROOTS);
    for path in crates.iter().flat_map(|name| sources::parts(Path::new(".."), name)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=BENTPIPE_SOURCES={:016x}", sources::hash(Path::new(".."), &crates).unwrap());
}
