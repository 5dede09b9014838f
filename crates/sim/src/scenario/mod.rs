//! Scenario files: one versioned, strict TOML format for `bentpipe simulate` and Python (docs/scenarios.md).
//!
//! A file is read as a whole: every fault in it is reported at once, with its place, its key and what would fit. The
//! types in `format` are the format; the JSON Schema, the checks and the documentation all come from them.

mod carrier;
mod change;
mod check;
mod class;
mod document;
mod endpoint;
mod fault;
mod format;
mod link;
mod resolve;
mod schema;
mod text;
mod traffic;

pub use fault::Faults;
pub use resolve::Scenario;
pub use schema::{json_schema, reference};
pub use text::QueueSize;

use change::Change;
use check::Schema;
use document::Node;
use fault::Fault;

/// An experiment as a file describes it: what to run, once for each of its variants and seeds.
#[derive(Debug)]
pub struct Experiment {
    /// What results call it.
    pub name: Option<String>,
    /// What it shows.
    pub about: Option<String>,
    /// The variants in the order of the file, or the scenario itself if it has none.
    pub scenarios: Vec<Scenario>,
}

/// Reads an experiment from TOML.
///
/// `file` is what faults call the text. `overrides` are settings that replace the file's, each `key=value` with a path
/// such as `link.sat.loss=1e-3`; they also replace what variants set. `read` gives the content of a file that the scenario
/// names, such as a trace; the error is said to the user.
///
/// # Errors
/// With every fault.
///
/// ```
/// let text = r#"
/// version = 1
/// nodes = ["earth", "moon"]
/// [[link]]
/// name = "laser"
/// between = ["earth", "mooon"]
/// rate = "0bit/s"
/// [[flow]]
/// name = "photos"
/// from = "moon"
/// to = "earth"
/// udp = { rate = "1Mbit/s" }
/// "#;
/// let faults = sim::scenario::load(text, "moon.toml", &[], &|_| Err("no files here".into())).expect_err("faults").0;
/// assert_eq!(faults.len(), 2);
/// assert_eq!(faults[0], "moon.toml:6:21: link.laser.between: there is no node called mooon; did you mean moon?");
/// assert!(faults[1].starts_with("moon.toml:7:8: link.laser.rate = \"0bit/s\": it is not above 0bit/s"));
/// ```
pub fn load(text: &str, file: &str, overrides: &[String], read: Reader<'_>) -> Result<Experiment, Faults> {
    let json = json_schema();
    let schema = Schema::new(&json);
    let mut faults = Vec::new();
    let loaded = load_all(text, overrides, &schema, read, &mut faults);
    match loaded {
        Some(experiment) if faults.is_empty() => Ok(experiment),
        _ => Err(Faults::new(faults, text, file, overrides)),
    }
}

/// Gives the content of a file that a scenario names.
pub type Reader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

fn load_all(
    text: &str,
    overrides: &[String],
    schema: &Schema<'_>,
    read: Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Experiment> {
    let document = document::parse(text).map_err(|fault| faults.push(fault)).ok()?;
    let mut changes = Vec::new();
    for (number, text) in overrides.iter().enumerate() {
        match change::parse(number, text) {
            Ok(change) => changes.push(change),
            Err(fault) => faults.push(fault),
        }
    }
    let variants: Vec<_> = document.get("variants").map_or(&[][..], Node::entries).iter().collect();
    let mut scenarios = Vec::new();
    if variants.is_empty() {
        scenarios.extend(load_one(document.clone(), None, &changes, schema, read, faults));
    }
    for variant in variants {
        let mut all = change::of_variant(schema, &variant.node);
        all.extend(changes.iter().cloned());
        scenarios.extend(load_one(document.clone(), Some(&variant.key), &all, schema, read, faults));
    }
    let of = |key| document.get(key).and_then(Node::text).map(str::to_owned);
    Some(Experiment { name: of("name"), about: of("about"), scenarios })
}

fn load_one(
    mut document: Node,
    variant: Option<&str>,
    changes: &[Change],
    schema: &Schema<'_>,
    read: Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Scenario> {
    for change in changes {
        if let Err(fault) = change.apply(&mut document, schema) {
            faults.push(fault);
        }
    }
    let mut found = Vec::new();
    check::check(schema, &document, &mut Vec::new(), &mut found);
    let scenario = resolve::resolve(&document, variant, read, &mut found);
    let sound = found.is_empty();
    faults.append(&mut found);
    scenario.filter(|_| sound)
}
