//! `[[bypass]]`: which connections always go end to end.

use super::document::Document;
use super::{class, valid_name};
use relay::classes::Conditions;

/// Connections that are never intercepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bypass {
    /// Its name in status and metrics.
    pub name: String,
    /// What such connections are like.
    pub conditions: Conditions,
}

/// The rules, in the order of the file.
pub(super) fn read(document: &mut Document<'_>) -> Vec<Bypass> {
    let mut rules: Vec<Bypass> = Vec::new();
    for mut section in document.sections("bypass") {
        let line = section.line();
        let name: Option<String> =
            section.required("name", "letters, digits, - and _, at most 32", |name: &String| valid_name(name));
        let names_some = ["ports", "clients", "servers", "dscp"].iter().any(|key| section.has(key));
        let conditions = class::conditions(&mut section);
        section.end(document);
        let Some(name) = name else { continue };
        if rules.iter().any(|other| other.name == name) {
            document.fault(line, format!("[[bypass]] {name}: another bypass has the same name"));
        }
        // What is wrong has been said.
        let is_wrong = names_some && conditions.are_none() && !document.faults().is_empty();
        if conditions.are_none() && !is_wrong {
            document.fault(
                line,
                format!(
                    "[[bypass]] {name}: names no ports, clients, servers or dscp, which would leave nothing to accelerate"
                ),
            );
        }
        rules.push(Bypass { name, conditions });
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
            ("ports = [22]", "9: [[bypass]] name is missing: expected letters, digits"),
            ("name = \"a\"", "9: [[bypass]] a: names no ports, clients, servers or dscp"),
            ("name = \"a\"\nports = [0]", "11: [[bypass]] ports = 0: expected a list of ports from 1 to 65535"),
            ("name = \"a\"\nprefix = []\nports = [1]", "11: [[bypass]] prefix: unknown key; known are"),
            ("name = \"a\"\nports = [1]\n[[bypass]]\nname = \"a\"\nports = [2]", "12: [[bypass]] a: another bypass"),
        ] {
            let faults = faults(&(minimal() + "[[bypass]]\n" + rule + "\n"));
            assert!(faults[0].starts_with(&format!("gateway.toml:{expected}")), "{expected}\n{faults:#?}");
        }
    }
}
