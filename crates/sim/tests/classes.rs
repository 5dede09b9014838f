//! Who goes first through a pair of gateways, and who gets how much of its link.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::{Scenario, load};
use sim::{Report, RttReport, Simulation};

const INTERACTIVE: &str = include_str!("../../../scenarios/interactive.toml");
const CLASSES: &str = include_str!("../../../scenarios/classes.toml");

fn scenarios(text: &str, overrides: &[&str]) -> Result<Vec<Scenario>, Vec<String>> {
    let overrides: Vec<_> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let no_files = |name: &str| Err(format!("{name}: there are no files here"));
    load(text, "test.toml", &overrides, &no_files).map(|experiment| experiment.scenarios).map_err(|faults| faults.0)
}

/// A run of the scenario's variant of that name; without one, of the scenario.
fn run(text: &str, variant: Option<&str>, overrides: &[&str]) -> Report {
    let scenarios = scenarios(text, overrides).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let scenario = scenarios.iter().find(|scenario| scenario.variant.as_deref() == variant).unwrap();
    let mut simulation = Simulation::of(scenario, 1, false).unwrap();
    simulation.run();
    simulation.report()
}

fn rtt(report: &Report, flow: &str) -> RttReport {
    report.flows.iter().find(|report| report.name == flow).unwrap().rtt.unwrap()
}

/// Rates of the flows of a name.
fn goodputs(report: &Report, name: &str) -> Vec<f64> {
    let flows = report.flows.iter().filter(|flow| flow.name.starts_with(name));
    flows.map(|flow| flow.goodput_bps.unwrap()).collect()
}

#[test]
fn requests_and_pings_pass_ten_bulk_flows() {
    let short = ["stop.time=23s"];
    let alone = run(INTERACTIVE, Some("alone"), &short);
    for variant in ["up", "down"] {
        let beside = run(INTERACTIVE, Some(variant), &short);
        for flow in ["requests", "ping"] {
            let (base, loaded) = (rtt(&alone, flow), rtt(&beside, flow));
            let [median, p99] = [loaded.median_s, loaded.p99_s].map(|time| (time - base.median_s) * 1e3);
            assert!(median <= 10.0 && p99 <= 30.0, "{variant}, {flow}: median +{median:.1} ms, p99 +{p99:.1} ms");
        }
        let bulk = goodputs(&beside, "bulk").iter().sum::<f64>();
        assert!(bulk > 5.4e6, "{variant}: {bulk}");
    }
}

#[test]
fn flows_of_one_class_share_equally() {
    let bulk = goodputs(&run(INTERACTIVE, Some("down"), &["stop.time=40s"]), "bulk");
    let sum: f64 = bulk.iter().sum();
    let jain = sum * sum / (10.0 * bulk.iter().map(|rate| rate * rate).sum::<f64>());
    assert!(jain >= 0.995, "{jain} {bulk:?}");
}

#[test]
fn classes_share_by_weight_however_many_flows_they_have_and_obey_their_caps() {
    let report = run(CLASSES, None, &[]);
    let [gold, bronze, backup] = ["gold", "bronze", "backup"].map(|name| goodputs(&report, name).iter().sum::<f64>());
    assert!((gold / bronze / 3.0 - 1.0).abs() < 0.05, "{gold} {bronze}");
    assert!((backup / 500e3 - 1.0).abs() < 0.05, "{backup}");
    assert!(gold + bronze + backup > 5.5e6, "the link is full");
}

#[test]
fn what_one_class_leaves_goes_to_the_others() {
    let report = run(CLASSES, None, &["flow.gold.bulk.size=1kB", "stop.time=30s"]);
    let rest: f64 = ["bronze", "backup"].map(|name| goodputs(&report, name).iter().sum::<f64>()).iter().sum();
    assert!(rest > 5.5e6, "{rest}");
}

#[test]
fn what_is_wrong_with_a_class_is_said_with_its_key() {
    let class = "gateway.pair.satpep.class";
    for (value, parts) in [
        ("[{ name = \"a\", flows = [\"golt\"] }]", ["class.a.flows", "did you mean gold?"]),
        ("[{ name = \"a\", flows = [\"gold\", \"gold\"] }]", ["class.a.flows", "gold is there already"]),
        ("[{ name = \"a\", flows = [] }]", ["class.a.flows", "list"]),
        ("[{ name = \"a\", flows = [\"gold\"], weight = 0 }]", ["class.a.weight", "from 1 to 100"]),
        ("[{ name = \"a\", flows = [\"gold\"], weight = 101 }]", ["class.a.weight", "from 1 to 100"]),
        ("[{ name = \"a\", flows = [\"gold\"], cap = \"0bit/s\" }]", ["class.a.cap", "above 0bit/s"]),
        ("[{ name = \"a\", flows = [\"gold\"], priority = \"high\" }]", ["class.a.priority", "interactive"]),
        ("[{ name = \"a\", flow = [\"gold\"] }]", ["class.a.flow", "did you mean flows?"]),
    ] {
        let faults = scenarios(CLASSES, &[&format!("{class}={value}")]).expect_err("a fault");
        assert!(faults.iter().any(|fault| parts.iter().all(|part| fault.contains(part))), "{value}: {faults:#?}");
    }
    let twice = format!("{class}=[{{ name = \"a\", flows = [\"gold\"] }}, {{ name = \"a\", flows = [\"bronze\"] }}]");
    assert!(scenarios(CLASSES, &[&twice]).expect_err("a fault")[0].contains("another class of this name"));
}
