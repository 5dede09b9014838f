//! Scenarios as the simulator runs them.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{Simulation, Stopped};
use std::path::{Path, PathBuf};

const SMALL: &str = r#"
version = 1
nodes = ["a", "b"]
link = [{ name = "ab", between = ["a", "b"], rate = "10Mbit/s", delay = "10ms", queue = "100packets" }]
flow = [{ name = "file", from = "a", to = "b", bulk = {} }]
"#;

#[test]
fn a_run_that_outgrows_its_limits_stops_there_and_says_which() {
    let scenario = load(SMALL, "small.toml", &["stop.max_events=1000".to_owned()], &|_| Err(String::new()))
        .unwrap()
        .scenarios
        .remove(0);
    let mut simulation = Simulation::of(&scenario, 1, true).unwrap();
    assert_eq!(simulation.run(), Stopped::EventLimit);
    assert_eq!(simulation.events(), 1000);
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_variants_of_every_example_run() {
    let mut examples = 0;
    for entry in std::fs::read_dir(repository().join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap().to_owned();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string());
        let short = ["stop.time=3s".to_owned()];
        let experiment = load(&text, "short", &short, &read).unwrap_or_else(|faults| panic!("{faults}"));
        for scenario in experiment.scenarios {
            let mut simulation = Simulation::of(&scenario, 1, false).unwrap();
            simulation.run();
            let report = simulation.report();
            assert!(report.flows.iter().any(|flow| flow.bytes > 0), "{}: nothing arrives", path.display());
        }
        examples += 1;
    }
    assert!(examples >= 5, "{examples} examples");
}
