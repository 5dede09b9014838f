//! The documentation against the repository: the table of crates in docs/architecture.md is that of the `Cargo.toml` files,
//! dependencies point one way, and every file and heading that a page names exists. It is here, below all other crates, so that it takes
//! seconds to run.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands in backticks in `text`.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A row of the table, or a crate as its `Cargo.toml` has it.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    is_sans_io: bool,
    depends_on: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

/// The crates of the page, in its order.
fn documented() -> Vec<(String, Crate)> {
    let page = read("docs/architecture.md");
    let table = page.split("<!-- crates -->").nth(1).unwrap().split("<!-- end of the crates -->").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let names = |cell: &str| quoted(cell).map(str::to_owned).collect();
        let row = Crate { is_sans_io: cells[1] == "yes", depends_on: names(cells[2]), tests_use: names(cells[3]) };
        (quoted(cells[0]).next().unwrap().to_owned(), row)
    })
    .collect()
}

/// The crates of the workspace.
fn built() -> BTreeMap<String, Crate> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = folders.map(|name| name.into_string().unwrap()).collect();
    let script = read(".ci/sans-io");
    let sans_io = script.split("protocol_crates=(").nth(1).unwrap().split(')').next().unwrap();
    let sans_io: BTreeSet<&str> = sans_io.split_whitespace().collect();
    let of = |name: &String| {
        let manifest: toml::Table = read(&format!("crates/{name}/Cargo.toml")).parse().unwrap();
        let ours = |section: &str| -> BTreeSet<String> {
            let keys = manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
            keys.filter(|key| names.contains(*key)).cloned().collect()
        };
        let depends_on = ours("dependencies");
        let tests_use = &ours("dev-dependencies") - &depends_on;
        (name.clone(), Crate { is_sans_io: sans_io.contains(&**name), depends_on, tests_use })
    };
    names.iter().map(of).collect()
}

#[test]
fn the_table_of_crates_is_that_of_the_cargo_toml_files() {
    let documented: BTreeMap<_, _> = documented().into_iter().collect();
    let built = built();
    let names = |crates: &BTreeMap<String, Crate>| crates.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&documented), names(&built), "docs/architecture.md and crates/");
    for (name, actual) in &built {
        assert_eq!(&documented[name], actual, "docs/architecture.md and crates/{name}/Cargo.toml");
    }
}

#[test]
fn dependencies_point_to_crates_above_in_the_table_and_cores_use_cores_only() {
    let rows = documented();
    for (at, (name, row)) in rows.iter().enumerate() {
        let above: BTreeMap<_, _> = rows[..at].iter().map(|(name, row)| (name, row.is_sans_io)).collect();
        for used in row.depends_on.iter().chain(&row.tests_use) {
            let is_sans_io =
                above.get(used).unwrap_or_else(|| panic!("{name} depends on {used}, which stands below it"));
            let is_of_tests = row.tests_use.contains(used);
            assert!(!row.is_sans_io || is_of_tests || *is_sans_io, "{name} is sans-IO and depends on {used}");
        }
    }
}

/// The arrows of the picture: each crate with those that it points to.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/architecture.md");
    let picture = page.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in picture.lines().filter_map(|line| line.trim().split_once(" --> ")) {
        drawn.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    drawn
}

#[test]
fn the_picture_has_every_dependency_as_an_arrow_or_a_path_of_arrows() {
    let drawn = drawn();
    for (name, row) in built() {
        let arrows = drawn.get(&name).cloned().unwrap_or_default();
        let wrong: Vec<_> = arrows.difference(&row.depends_on).collect();
        assert!(wrong.is_empty(), "the picture has {name} depend on {wrong:?}");
        let mut implied = arrows.clone();
        let mut next: Vec<_> = arrows.into_iter().collect();
        while let Some(above) = next.pop() {
            let more = drawn.get(&above).into_iter().flatten();
            next.extend(more.filter(|name| implied.insert((*name).clone())).cloned());
        }
        let missing: Vec<_> = row.depends_on.difference(&implied).collect();
        assert!(missing.is_empty(), "the picture lacks an arrow from {name} to {missing:?}");
    }
}

/// The Python package and the fuzz targets are workspaces of their own, which the version of this one does not reach.
#[test]
fn the_versions_of_all_workspaces_and_lock_files_agree() {
    let table = |path: &str| -> toml::Table { read(path).parse().unwrap() };
    let workspace = table("Cargo.toml");
    let version = workspace["workspace"]["package"]["version"].as_str().unwrap();
    assert_eq!(table("python/Cargo.toml")["package"]["version"].as_str(), Some(version), "python/Cargo.toml");
    for lock in ["Cargo.lock", "python/Cargo.lock", "fuzz/Cargo.lock"] {
        let table = table(lock);
        let of = |package: &toml::Value, key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let crates = table["package"].as_array().unwrap().iter().map(|package| (of(package, "name").unwrap(), package));
        let ours = crates.filter(|(name, _)| name.starts_with("bentpipe") && name != "bentpipe-fuzz");
        let others: Vec<_> = ours.filter(|(_, package)| of(package, "version").as_deref() != Some(version)).collect();
        assert!(others.is_empty(), "{lock} has other versions than {version} of {others:?}");
    }
}

/// A crate whose tests are one program does not find its tests by itself.
#[test]
fn every_file_of_tests_is_a_module_of_its_crates_test_program() {
    for name in built().keys() {
        let folder = root().join("crates").join(name).join("tests");
        let Ok(main) = fs::read_to_string(folder.join("main.rs")) else { continue };
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let missing: Vec<_> = files
            .filter_map(|file| file.strip_suffix(".rs").map(str::to_owned))
            .filter(|module| module != "main" && !main.contains(&format!("mod {module};\n")))
            .collect();
        assert!(missing.is_empty(), "crates/{name}/tests/main.rs does not name {missing:?}");
    }
}

/// The pages for readers: README, CONTRIBUTING, CHANGELOG, and the book.
fn pages() -> Vec<String> {
    let book =
        fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let book = book.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned).into_iter().chain(book).collect()
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_'].contains(letter)).collect()
}

/// Paths in backticks that begin at the root of the repository, and targets of links.
#[test]
fn every_file_that_the_pages_name_exists() {
    for page in pages() {
        let text = prose(&read(&page));
        let folder = root().join(&page).parent().unwrap().to_owned();
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let links = links.map(|target| target.split('#').next().unwrap()).filter(|target| !target.contains("://"));
        let missing_links = links.filter(|target| !folder.join(target).exists());
        let is_path = |text: &&str| ["crates/", "docs/", "fuzz/", ".ci/"].iter().any(|start| text.starts_with(start));
        let paths = text
            .lines()
            .flat_map(quoted)
            .filter(is_path)
            .filter(|path| !path.contains([' ', '*']) && !path.contains("NAME"));
        let missing_paths = paths.filter(|path| !root().join(path).exists());
        let missing: Vec<_> = missing_links.chain(missing_paths).collect();
        assert!(missing.is_empty(), "{page} names files that are not there: {missing:?}");
    }
}

/// Links into a page lead to one of its headings.
#[test]
fn every_heading_that_the_pages_link_to_exists() {
    let headings = |page: &Path| -> BTreeSet<String> {
        let text = fs::read_to_string(page).unwrap_or_default();
        let headings =
            text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
        headings.map(anchor).collect()
    };
    for page in pages() {
        let text = prose(&read(&page));
        let folder = root().join(&page).parent().unwrap().to_owned();
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let missing: Vec<_> = links
            .filter(|target| !target.contains("://"))
            .filter_map(|target| target.split_once('#').map(|(file, anchor)| (target, file, anchor)))
            .filter(|(_, file, anchor)| {
                let file = if file.is_empty() { root().join(&page) } else { folder.join(file) };
                file.extension().is_some_and(|extension| extension == "md") && !headings(&file).contains(*anchor)
            })
            .map(|(target, ..)| target)
            .collect();
        assert!(missing.is_empty(), "{page} links to headings that are not there: {missing:?}");
    }
}
