//! The hash of the sources, which the build script computes.

#[path = "../build/sources.rs"]
mod sources;

use std::fs;
use std::path::Path;

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// `sweeps` depends on `sim`, and that on `tcp`; only tests and fuzzing need `testkit`, and nothing needs `web`.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = [
        (
            "sweeps",
            "[dependencies]\n# Runs.\nsim.workspace = true\nserde = \"1\"\n[dev-dependencies]\ntestkit.workspace = true\n",
        ),
        ("sim", "[target.'cfg(unix)'.dependencies]\ntcp = { path = \"../tcp\" }\n"),
        ("tcp", "[features]\nweb = []\n[target.'cfg(fuzzing)'.dependencies]\ntestkit.workspace = true\n"),
        ("testkit", ""),
        ("web", ""),
    ];
    for (name, manifest) in manifests {
        write(folder.path(), &format!("{name}/Cargo.toml"), manifest);
        write(folder.path(), &format!("{name}/src/lib.rs"), "mod part;");
        write(folder.path(), &format!("{name}/src/part/mod.rs"), "");
    }
    folder
}

fn hash(folder: &Path) -> u64 {
    sources::hash(folder, &sources::crates(folder, &["replicas", "sweeps"])).expect("readable")
}

#[test]
fn the_sources_of_all_dependencies_decide_and_no_others() {
    let folder = workspace();
    let before = hash(folder.path());
    for (file, decides) in [
        ("sweeps/src/part/mod.rs", true),
        ("sim/src/lib.rs", true),
        ("tcp/src/part/mod.rs", true),
        ("tcp/src/part/new.rs", true),
        ("tcp/src/page.css", true),
        ("tcp/Cargo.toml", true),
        ("tcp/README.md", false),
        ("tcp/tests/main.rs", false),
        ("testkit/src/lib.rs", false),
        ("web/src/lib.rs", false),
    ] {
        let kept = fs::read(folder.path().join(file)).ok();
        write(folder.path(), file, "# changed");
        assert_eq!(hash(folder.path()) != before, decides, "{file}");
        match kept {
            Some(kept) => fs::write(folder.path().join(file), kept).expect("written"),
            None => fs::remove_file(folder.path().join(file)).expect("removed"),
        }
        assert_eq!(hash(folder.path()), before, "{file}");
    }
}

#[test]
fn what_editors_leave_beside_the_sources_decides_nothing() {
    let folder = workspace();
    let before = hash(folder.path());
    for file in [".lib.rs.swp", "lib.rs~", "#lib.rs#", "part/.new.rs", "part/mod.rs.orig"] {
        write(folder.path(), &format!("tcp/src/{file}"), "changed");
        assert_eq!(hash(folder.path()), before, "{file}");
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("user@host.1234:5678", folder.path().join("tcp/src/.#lib.rs")).expect("linked");
    assert_eq!(hash(folder.path()), before);
}

#[test]
fn all_that_stands_beside_the_sources_of_this_workspace_counts() {
    fn look(folder: &Path) {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("named").to_string_lossy().into_owned();
            if path.is_dir() {
                look(&path);
            } else if !name.starts_with('.') && !["~", "#", ".orig", ".rej"].iter().any(|left| name.ends_with(left)) {
                let is_known = [".rs", ".css", ".toml"].iter().any(|ending| name.ends_with(ending));
                assert!(is_known, "ENDINGS in build/sources.rs does not know that of {}", path.display());
            }
        }
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in sources::crates(&beside, &["replicas", "sweeps"]) {
        look(&beside.join(name).join("src"));
    }
}

#[test]
fn the_sources_of_this_workspace_are_those_of_the_simulator() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = sources::crates(&beside, &["replicas", "sweeps"]);
    for name in ["replicas", "sweeps", "results", "sim", "scenario", "tcp", "quic", "satpep", "relay", "link", "units"]
    {
        assert!(found.contains(name), "{name} is missing among {found:?}");
    }
    for name in ["bentpipe", "gateway", "lab", "testkit", "web"] {
        assert!(!found.contains(name), "{name} decides no results");
    }
}
