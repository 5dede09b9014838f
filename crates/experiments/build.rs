//! Compresses the recorded link, to a third of its 432 kB.
#![allow(clippy::unwrap_used, reason = "what fails here ends the build")]

use flate2::{Compression, write::DeflateEncoder};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

fn main() {
    let directory = std::env::var_os("OUT_DIR").unwrap();
    for name in ["starlink.opportunities", "starlink.delays"] {
        let source = Path::new("data").join(name);
        println!("cargo::rerun-if-changed={}", source.display());
        let file = File::create(Path::new(&directory).join(format!("{name}.deflate"))).unwrap();
        let mut encoder = DeflateEncoder::new(file, Compression::best());
        encoder.write_all(&fs::read(source).unwrap()).unwrap();
        encoder.finish().unwrap();
    }
}
