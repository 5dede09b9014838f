//! What every scenario of the repository and of its documentation resolves to. `tests/data/resolved.txt` has a digest of each, so
//! that no change of this crate alters one unnoticed. `BENTPIPE_RESOLVED=DIR cargo test -p bentpipe-scenario --test it resolved`
//! writes the resolved scenarios to a directory, to be compared with those of another revision by `diff`;
//! `BENTPIPE_WRITE_DOCS=1` accepts them.

use ::scenario::load;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below `folder` that are scenarios.
fn scenario_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scenario_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("printed.toml") {
            found.push(path);
        }
    }
}

/// Each scenario's name and what it resolves to: the files, and the examples of the documentation that are whole.
fn resolved() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |name: String, text: &str, folder: &Path| {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).map_err(|error| error.to_string());
        let experiment = load(text, &name, &[], &read).unwrap_or_else(|faults| panic!("{faults}"));
        all.insert(name, format!("{experiment:#?}\n"));
    };
    let root = repository();
    let mut files = Vec::new();
    scenario_files(&root.join("scenarios"), &mut files);
    for path in files {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        add(name, &std::fs::read_to_string(&path).unwrap(), path.parent().unwrap());
    }
    for page in ["docs/scenarios.md", "docs/simulate.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
        for (number, block) in blocks.filter(|block| block.contains("version = 1")).enumerate() {
            add(format!("{page}#{}", number + 1), block, &root);
        }
    }
    all
}

/// FNV-1a, 64 bits: stable, and enough to notice a change.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_scenario_resolves_to_what_it_did() {
    let all = resolved();
    assert!(all.len() > 30, "{}", all.len());
    if let Some(folder) = std::env::var_os("BENTPIPE_RESOLVED") {
        for (name, text) in &all {
            let file = Path::new(&folder).join(name.replace(['/', '#'], "-"));
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(file, text)).unwrap();
        }
    }
    let found: String = all.iter().map(|(name, text)| format!("{:016x} {name}\n", digest(text))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/resolved.txt");
    let known = testkit::made::whole_file(&path, &found);
    let changed: Vec<_> = found.lines().filter(|line| !known.lines().any(|known| known == *line)).collect();
    let gone: Vec<_> = known.lines().filter(|line| !found.lines().any(|found| found == *line)).collect();
    assert!(
        changed.is_empty() && gone.is_empty(),
        "changed: {changed:#?}, were: {gone:#?}; BENTPIPE_RESOLVED=DIR writes what they are now"
    );
}
