//! Scenarios: their format (docs/scenarios.md), and what it describes. What runs one, in virtual time, in real time or from
//! another language, uses this crate.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Experiment`], [`Scenario`] | what a file describes, resolved: names are looked up, defaults filled in |
//! | [`Network`], [`FlowConfig`], [`GatewayConfig`], [`Settings`] | its parts: nodes and links, flows, pairs of gateways, the run |
//!
//! A file is read by [`load`], as a whole: every fault in it is reported at once, with its place, its key and what would fit.
//! The types in `format/` are the format; the JSON Schema, the checks and the documentation all come from them.
//!
//! | file | idea |
//! | --- | --- |
//! | `format/` | what a file may say |
//! | `schema.rs` | the format as JSON Schema and as a page of documentation |
//! | `reader.rs` | the files that a document names |
//! | `resolve.rs` | from the words of a file to what the simulator runs |
//! | `carrier.rs`, `class.rs`, `endpoint.rs`, `link.rs`, `quic_endpoint.rs`, `traffic.rs` | the same for one kind of section each |
//! | `text.rs`, `problem.rs` | texts that only scenarios have; why a section makes no link or carrier |
//! | `preset.rs` | TCP variants by name |
//! | `network.rs`, `flow.rs`, `gateway.rs`, `satpep2003.rs` | the parts of a scenario, as data |
//! | `distribution.rs` | random sizes and times |
//! | `routing.rs`, `ways.rs` | links that come and go, and how routes follow; paths through a network |
//! | `link_file.rs` | link files |

mod carrier;
mod class;
mod distribution;
mod endpoint;
mod flow;
mod format;
mod gateway;
mod link;
pub mod link_file;
mod network;
mod preset;
mod problem;
mod quic_endpoint;
mod reader;
mod resolve;
mod routing;
mod satpep2003;
mod schema;
mod text;
mod traffic;
mod ways;

pub use distribution::{Distribution, Quantity, Random};
pub use flow::{Application, FlowConfig, FlowError, Limits, OnOff, Record, Settings, Start, Stop, Traffic, Transfer};
pub use gateway::{FlowClass, GatewayConfig, GatewayError, SatpepSettings, Transport};
pub use network::{Direction, DirectionId, Network, NetworkError, NodeId};
pub use reader::Reader;
pub use resolve::Scenario;
pub use routing::{Routing, UnderWay, UpTimes};
pub use satpep::{CapacityMode, CrossTrafficPolicy, RateConfidence};
pub use satpep2003::{Accept, Profile, Satpep2003};
pub use schema::{json_schema, reference};
pub use text::QueueSize;
pub use ways::Ways;

pub use document::Faults;
use document::{Change, Fault, Found, Node, Origin, Schema};
use resolve::Sound;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The key under which variants stand.
const VARIANTS: &str = "variants";

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
/// let faults = scenario::load(text, "moon.toml", &[], &|_| Err("no files here".into())).expect_err("faults").0;
/// assert_eq!(faults.len(), 2);
/// assert_eq!(faults[0], "moon.toml:6:21: link.laser.between: there is no node called mooon; did you mean moon?");
/// assert!(faults[1].starts_with("moon.toml:7:8: link.laser.rate = \"0bit/s\": it is not above 0bit/s"));
/// ```
pub fn load(text: &str, file: &str, overrides: &[String], read: Reader<'_>) -> Result<Experiment, Faults> {
    let (schema, found) = (schema::format().schema(), Found::default());
    let mut loader = Loader { schema, read, found, variants: Vec::new(), unused: None };
    let loaded = loader.load(text, overrides);
    match loaded {
        Some(experiment) if loader.found.is_empty() => Ok(experiment),
        _ => Err(loader.found.say(text, file, overrides, &loader.variants)),
    }
}

/// The settings of the scenario `text`, which faults call `file`, with `overrides`, as they are written: unchecked, and without what
/// they have by default.
///
/// # Errors
/// If the text is no TOML, or an override names what is not there.
pub fn settings(text: &str, file: &str, overrides: &[String]) -> Result<Json, Faults> {
    let schema = schema::format().schema();
    let changed = document::parse(text).and_then(|mut root| {
        overrides.iter().enumerate().try_for_each(|(number, text)| change(number, text)?.apply(&mut root, &schema))?;
        root.typed(&[])
    });
    changed.map_err(|fault| {
        let mut found = Found::default();
        found.add([fault]);
        found.say(text, file, overrides, &[])
    })
}

/// Reads one text.
struct Loader<'a> {
    schema: Schema<'a>,
    read: Reader<'a>,
    found: Found,
    /// The names of the variants.
    variants: Vec<Arc<str>>,
    /// The settings that change nothing in any scenario so far; `None` before the first.
    unused: Option<BTreeSet<Fault>>,
}

impl Loader<'_> {
    fn load(&mut self, text: &str, overrides: &[String]) -> Option<Experiment> {
        let mut document = document::parse(text).map_err(|fault| self.found.add([fault])).ok()?;
        let changes = self.overrides(overrides);
        let [name, about] = ["name", "about"].map(|key| self.described(key, &document, &changes));
        // Apart, since each variant begins with a copy of the rest.
        let variants = document.remove(VARIANTS);
        let mut faults = Vec::new();
        let plain = self.load_one(document.clone(), None, &changes, None, &mut faults);
        let scenarios = match variants {
            Some(variants) if self.check_variants(&variants) > 0 => {
                let plain_faults = faults.into_iter().collect();
                self.load_variants(&document, &variants, &changes, plain.as_ref(), &plain_faults)
            }
            _ => {
                self.found.add(faults);
                plain.map(|sound| self.take(sound)).into_iter().collect()
            }
        };
        // A variant with faults may be the one that needs them.
        if self.found.is_empty() {
            self.found.add(self.unused.take().into_iter().flatten());
        }
        Some(Experiment { name, about, scenarios })
    }

    /// The text under `key`, which is one of the experiment's and not of its scenarios, as `changes` leave it.
    fn described(&self, key: &str, document: &Node, changes: &[Change]) -> Option<String> {
        let mut document = document.clone();
        for change in changes.iter().filter(|change| change.path()[0] == key) {
            // Its fault is found with the scenarios'.
            let _ = change.apply(&mut document, &self.schema);
        }
        document.get(key).and_then(Node::text).map(str::to_owned)
    }

    fn overrides(&mut self, overrides: &[String]) -> Vec<Change> {
        let mut changes = Vec::new();
        for (number, text) in overrides.iter().enumerate() {
            match change(number, text) {
                Ok(change) => changes.push(change),
                Err(fault) => self.found.add([fault]),
            }
        }
        changes
    }

    /// Checks the names of variants and that each has settings; returns how many there are.
    fn check_variants(&mut self, variants: &Node) -> usize {
        let mut faults = Vec::new();
        if let Some(schema) = self.schema.property(VARIANTS) {
            document::check(&schema, variants, None, &mut vec![VARIANTS.to_owned()], &mut faults);
        }
        self.found.add(faults);
        variants.entries().len()
    }

    /// Loads each variant of `document`, which is `plain` if it is sound by itself, and has `plain_faults`.
    fn load_variants(
        &mut self,
        document: &Node,
        variants: &Node,
        changes: &[Change],
        plain: Option<&Sound>,
        plain_faults: &BTreeSet<Fault>,
    ) -> Vec<Scenario> {
        let mut scenarios = Vec::with_capacity(variants.entries().len());
        for (number, variant) in variants.entries().iter().enumerate() {
            let mut faults = Vec::new();
            let mut all = Change::all_of(&self.schema, &variant.node, &mut faults);
            all.extend(changes.iter().cloned());
            let loaded = self.load_one(document.clone(), Some(&variant.key), &all, plain, &mut faults);
            scenarios.extend(loaded.map(|sound| self.take(sound)));
            self.variants.push(Arc::clone(&variant.key));
            self.found.add_of_variant(number, faults, plain_faults);
        }
        scenarios
    }

    /// The scenario of `sound`, whose unused settings are noted.
    fn take(&mut self, sound: Sound) -> Scenario {
        let unused: BTreeSet<Fault> = sound.unused.into_iter().collect();
        self.unused = Some(match self.unused.take() {
            Some(others) => &others & &unused,
            None => unused,
        });
        sound.scenario
    }

    /// Loads `document` with `changes`. Where it is the same as in `sound`, so is what comes of it.
    fn load_one(
        &self,
        mut document: Node,
        variant: Option<&str>,
        changes: &[Change],
        sound: Option<&Sound>,
        faults: &mut Vec<Fault>,
    ) -> Option<Sound> {
        faults.extend(changes.iter().filter_map(|change| change.apply(&mut document, &self.schema).err()));
        let mut found = Vec::new();
        document::check(&self.schema, &document, sound.map(|sound| &sound.document), &mut Vec::new(), &mut found);
        let resolved = resolve::resolve(document, variant, sound, self.read, &mut found);
        faults.append(&mut found);
        resolved.filter(|_| faults.is_empty())
    }
}

/// Reads override number `number`.
fn change(number: usize, text: &str) -> Result<Change, Fault> {
    let change = Change::parse(number, text)?;
    if change.path()[0] == VARIANTS {
        let text = "a setting holds for all variants: give its path without `variants` and the variant's name";
        return Err(Fault::new(Origin::Override(number), text));
    }
    Ok(change)
}
