//! What a run is known by.

use scenario::Scenario;
use sim::Record;
use std::fmt::{self, Display, Write};
use twox_hash::XxHash3_128;

/// Goes up with each change of what is kept of a run: runs that were kept before are not mixed with those of now.
const LAYOUT: u32 = 2;

/// A hash of the sources that decide results, as they were when this was built, committed or not (`build.rs`).
const SOURCES: &str = env!("BENTPIPE_SOURCES");

/// What decides the results of a scenario with a given seed: the scenario as it is understood, and the sources of the simulator. How
/// its file is written, which seeds it asks for and what it records change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u128);

/// A scenario's key and a seed: one run.
pub type RunKey = (Key, u64);

impl Key {
    /// That of `scenario` run by this build.
    pub fn of(scenario: &Scenario) -> Self {
        Self::of_build(scenario, SOURCES)
    }

    /// That of `scenario` run by a build from `sources`.
    fn of_build(scenario: &Scenario, sources: &str) -> Self {
        let mut plain = scenario.clone();
        plain.seeds = 0..=0;
        plain.settings.record = Record::default();
        plain.flows.iter_mut().for_each(|flow| flow.record = true);
        let mut hash = Hash(XxHash3_128::new());
        // A hash takes whatever is written to it.
        let _ = write!(hash, "{} {sources} {LAYOUT} {plain:?}", env!("CARGO_PKG_VERSION"));
        Self(hash.0.finish_128())
    }

    /// Reads what `to_string` makes.
    pub fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(Self)
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

struct Hash(XxHash3_128);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The checksum of a file, as 32 hexadecimal digits. It finds damage, and does not defend against forgery.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// The name of what holds these runs.
pub(crate) fn name_of(runs: &[RunKey]) -> String {
    let mut hash = Hash(XxHash3_128::new());
    for (key, seed) in runs {
        // As above.
        let _ = write!(hash, "{key} {seed};");
    }
    format!("{:032x}", hash.0.finish_128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_one_version_may_have_other_results() {
        let text = r#"
            version = 1
            nodes = ["earth", "moon"]
            link = [{ name = "laser", between = ["earth", "moon"], rate = "1Mbit/s", delay = "20ms", queue = "1BDP" }]
            flow = [{ name = "photos", from = "moon", to = "earth", tcp = "cubic", bulk = { size = "100kB" } }]
        "#;
        let experiment = scenario::load(text, "moon.toml", &[], &|_| Err("none".into())).expect("sound");
        let scenario = &experiment.scenarios[0];
        assert_ne!(Key::of_build(scenario, "0123456789abcdef"), Key::of_build(scenario, "fedcba9876543210"));
        assert_eq!(Key::of(scenario), Key::of_build(scenario, SOURCES));
    }
}
