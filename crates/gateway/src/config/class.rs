//! `[[class]]`: which connections share the link how.

use super::Choice;
use super::format::{self, DscpEntry, PortsEntry};
use super::text::Prefix;
use document::{Document, item_name};
use relay::classes::{Class, Conditions, Ports};
use satpep::dscp::Dscp;

/// The number of classes that the transport distinguishes, beside the one of all other connections.
const MAX: usize = 255;

/// The classes, in the order of the file.
pub(super) fn read(document: &mut Document<'_>, choice: Choice) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (at, section) in document.items("class").into_iter().enumerate() {
        let name = item_name(&section, at);
        let path = ["class", name.as_str()];
        choice.refuse_others(document, &path, &["weight", "cap"]);
        let Some(written) = document.typed_node::<format::Class>(&section, &path) else { continue };
        let class = class(written, classes.len());
        if classes.iter().any(|other| other.name == class.name) {
            document.fault_at(section.origin.clone(), &path, ": another class has the same name");
        }
        if let Some(above) = classes.iter().find(|above| above.conditions.are_none()) {
            let problem = format!(
                ": never reached: {} above it, which names no ports, clients, servers or dscp, takes all connections",
                above.name
            );
            document.fault_at(section.origin.clone(), &path, &problem);
        }
        if classes.len() == MAX {
            document.fault_at(section.origin, &path, &format!(": there are more than {MAX} classes"));
            break;
        }
        classes.push(class);
    }
    classes
}

/// The class number `at`, from 0.
fn class(written: format::Class, at: usize) -> Class {
    // The class of all other connections has number 0.
    let id = (at + 1) as u8;
    let (priority, weight) = (written.priority.unwrap_or_default(), written.weight.unwrap_or(1));
    let settings = satpep::Class { id, priority, weight, cap: written.cap.map(|cap| cap.0) };
    Class { name: written.name.0, conditions: written.conditions.into(), settings }
}

impl From<format::Conditions> for Conditions {
    fn from(written: format::Conditions) -> Self {
        let port = |entry| match entry {
            PortsEntry::Port(port) => Ports::from(port),
            PortsEntry::Range(range) => range.0,
        };
        let dscp = |entry| match entry {
            DscpEntry::Number(number) => Dscp::new(number).unwrap_or_default(),
            DscpEntry::Name(name) => name.0,
        };
        let prefixes = |list: Option<Vec<Prefix>>| list.into_iter().flatten().map(|prefix| prefix.0).collect();
        Self {
            ports: written.ports.into_iter().flatten().map(port).collect(),
            clients: prefixes(written.clients),
            servers: prefixes(written.servers),
            dscp: written.dscp.into_iter().flatten().map(dscp).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::*;
    use relay::connect::ConnectRequest;
    use satpep::Class as Settings;
    use satpep::Priority;
    use units::Rate;

    fn classes(text: &str) -> Vec<Class> {
        super::super::parse(&(minimal() + text), "gateway.toml").expect("no faults").classes
    }

    #[test]
    fn a_class_has_conditions_and_settings() {
        let classes = classes(
            "[[class]]\nname = \"voice\"\nports = [22, \"5060-5069\"]\nclients = [\"10.0.0.0/8\"]\nservers = [\"192.0.2.0/24\"]\n\
             dscp = [46, \"cs5\"]\npriority = \"interactive\"\nweight = 4\ncap = \"2Mbit/s\"\n[[class]]\nname = \"rest\"\n",
        );
        let Settings { id, priority, weight, cap } = classes[0].settings;
        assert_eq!((id, priority, weight), (1, Priority::Interactive, 4));
        assert_eq!(cap, Some(Rate::from_bps(2_000_000)));
        let request = ConnectRequest::new("10.1.1.1:5".parse().unwrap(), "192.0.2.1:5065".parse().unwrap());
        let marked = ConnectRequest { dscp: "ef".parse().unwrap(), ..request };
        assert_eq!([request, marked].map(|request| classes[0].conditions.hold_for(&request)), [false, true]);
        assert_eq!(classes[1].settings, Settings { id: 2, ..Settings::DEFAULT });
        assert!(classes[1].conditions.are_none());
    }

    #[test]
    fn wrong_classes_are_refused_with_line_key_and_what_is_allowed() {
        for (class, expected) in [
            ("name = \"default\"", "10:8: class.default.name = \"default\": expected letters, digits"),
            ("ports = [22]", "9:1: class.0.name is missing: expected letters, digits"),
            ("name = \"a\"\nports = [0]", "11:10: class.a.ports.0 = 0: expected an integer from 1 to 65535"),
            (
                "name = \"a\"\nports = [\"9-8\"]",
                "11:10: class.a.ports.0 = \"9-8\": expected a port from 1 to 65535 or a range",
            ),
            (
                "name = \"a\"\nports = 22",
                "11:9: class.a.ports = 22: expected a list of an integer from 1 to 65535, or a port",
            ),
            ("name = \"a\"\nservers = [\"host\"]", "11:12: class.a.servers.0 = \"host\": expected a prefix"),
            ("name = \"a\"\ndscp = [64]", "11:9: class.a.dscp.0 = 64: expected an integer from 0 to 63"),
            (
                "name = \"a\"\npriority = \"high\"",
                "11:12: class.a.priority = \"high\": expected \"bulk\", \"normal\", \"interactive\"",
            ),
            ("name = \"a\"\nweight = 0", "11:10: class.a.weight = 0: expected an integer from 1 to 100"),
            ("name = \"a\"\ncap = \"1bit/s\"", "11:7: class.a.cap = \"1bit/s\": expected a rate of at least 1kbit/s"),
            ("name = \"a\"\nport = [1]", "11:1: class.a.port: unknown key; did you mean ports?"),
            ("name = \"a\"\nports = [1]\n[[class]]\nname = \"a\"", "12:1: class.a: another class has the same name"),
            ("name = \"a\"\n[[class]]\nname = \"b\"", "11:1: class.b: never reached: a above it"),
        ] {
            let faults = faults(&(minimal() + "[[class]]\n" + class + "\n"));
            let expected = format!("gateway.toml:{expected}");
            assert!(faults[0].starts_with(&expected), "{expected}\n{faults:#?}");
            assert_eq!(faults.len(), 1, "{faults:#?}");
        }
        let many: String = (0..256).map(|n| format!("[[class]]\nname = \"c{n}\"\nports = [1]\n")).collect();
        assert!(faults(&(minimal() + &many))[0].contains("more than 255 classes"));
    }
}
