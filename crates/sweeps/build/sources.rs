//! Which crates of the workspace decide results, and a hash of their sources. It needs no repository, so that it is the same in a
//! source archive, and it finds what is not committed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the names of sources end with: code, the style sheet of pages, manifests.
const ENDINGS: [&str; 3] = ["rs", "css", "toml"];

/// `roots` and all crates in the directory `beside` on which they depend. Crates that are not there (those of a registry) are fixed by
/// their version.
pub fn crates(beside: &Path, roots: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left: Vec<String> = roots.iter().map(|name| (*name).to_owned()).collect();
    while let Some(name) = left.pop() {
        let Ok(manifest) = fs::read_to_string(beside.join(&name).join("Cargo.toml")) else { continue };
        if found.insert(name) {
            left.extend(dependencies(&manifest));
        }
    }
    found
}

/// The names of the dependencies in a manifest, those of tests, build scripts and fuzzing excepted.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let is_of_target = line.starts_with("[target.") && line.ends_with(".dependencies]");
            is_inside = line == "[dependencies]" || is_of_target && !line.contains("cfg(fuzzing)");
        } else if is_inside && !line.starts_with('#') {
            names.extend(line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    names
}

/// The files and directories of a crate that are hashed.
pub fn parts(beside: &Path, name: &str) -> Vec<PathBuf> {
    let parts = ["Cargo.toml", "src"].map(|part| beside.join(name).join(part));
    parts.into_iter().filter(|part| part.exists()).collect()
}

/// A hash of the names and the contents of all sources that make up `crates`.
///
/// # Errors
/// If one cannot be read.
pub fn hash(beside: &Path, crates: &BTreeSet<String>) -> io::Result<u64> {
    let mut files = BTreeSet::new();
    for part in crates.iter().flat_map(|name| parts(beside, name)) {
        collect(part, &mut files)?;
    }
    let mut hash = Fnv::new();
    for path in files {
        let content = fs::read(&path)?;
        let name = path.strip_prefix(beside).unwrap_or(&path);
        for field in [name.as_os_str().as_encoded_bytes(), &content] {
            hash.write(&(field.len() as u64).to_le_bytes());
            hash.write(field);
        }
    }
    Ok(hash.0)
}

/// `path`, if it is a source, or all sources in it. What editors leave beside them (`.lib.rs.swp`, `lib.rs~`, and `.#lib.rs`, a link to
/// nothing) is none.
fn collect(path: PathBuf, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
        return Ok(());
    }
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(entry?.path(), files)?;
        }
    } else if path.is_file() && path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
        files.insert(path);
    }
    Ok(())
}

/// FNV-1a (RFC 9923): a hash of a crate would have to be compiled before this one.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
