//! `[[bypass]]`: which connections always go end to end.

use super::format;
use crate::rules::Bypass;
use document::{Document, item_name};

/// The rules, in the order of the file.
pub(super) fn read(document: &mut Document<'_>) -> Vec<Bypass> {
    let mut rules: Vec<Bypass> = Vec::new();
    for (at, section) in document.items("bypass").into_iter().enumerate() {
        let name = item_name(&section, at);
        let path = ["bypass", name.as_str()];
        let Some(written) = document.typed_node::<format::Bypass>(&section, &path) else { continue };
        let rule = Bypass { name: written.name.0, conditions: written.conditions.into() };
        if rules.iter().any(|other| other.name == rule.name) {
            document.fault_at(section.origin.clone(), &path, ": another bypass has the same name");
        }
        if rule.conditions.are_none() {
            let problem = ": names no ports, clients, servers or dscp, which would leave nothing to accelerate";
            document.fault_at(section.origin, &path, problem);
        }
        rules.push(rule);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};

    #[test]
    fn a_bypass_has_a_name_of_its_own_and_conditions() {
        let text =
            "[[bypass]]\nname = \"voice\"\nports = [\"5060-5069\"]\nclients = [\"10.1.0.0/16\"]\ndscp = [\"ef\"]\n";
        let settings = super::super::parse(&(minimal() + text), "gateway.toml").unwrap();
        assert_eq!(settings.bypass[0].name, "voice");
        assert_eq!(settings.bypass[0].conditions.ports[0].to_string(), "5060-5069");
        for (rule, expected) in [
            ("ports = [22]", "9:1: bypass.0.name is missing: expected letters, digits"),
            ("name = \"a\"", "9:1: bypass.a: names no ports, clients, servers or dscp"),
            ("name = \"a\"\nports = [0]", "11:10: bypass.a.ports.0 = 0: expected an integer from 1 to 65535"),
            ("name = \"a\"\nprefix = []\nports = [1]", "11:1: bypass.a.prefix: unknown key; known are"),
            ("name = \"a\"\nports = [1]\n[[bypass]]\nname = \"a\"\nports = [2]", "12:1: bypass.a: another bypass"),
        ] {
            let faults = faults(&(minimal() + "[[bypass]]\n" + rule + "\n"));
            assert!(faults[0].starts_with(&format!("gateway.toml:{expected}")), "{expected}\n{faults:#?}");
        }
    }
}
