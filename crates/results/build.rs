//! Compresses the font of pictures, to half of its 757 kB.
#![allow(clippy::unwrap_used, reason = "what fails here ends the build")]

use flate2::{Compression, write::DeflateEncoder};
use std::fs::File;
use std::io::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let directory = std::env::var_os("OUT_DIR").unwrap();
    let file = File::create(Path::new(&directory).join("sans.deflate")).unwrap();
    let mut encoder = DeflateEncoder::new(file, Compression::best());
    encoder.write_all(dejavu::sans::regular()).unwrap();
    encoder.finish().unwrap();
}
