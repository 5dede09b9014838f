//! `[[class]]`: which connections share the link how.

use super::document::{Document, Section};
use super::{hop, valid_name};
use relay::classes::{Class, Conditions};
use satpep::Priority;
use units::Rate;

/// As many classes as the transport tells apart, beside the one of all other connections.
const MOST: usize = 255;

/// The classes, in the order of the file; `is_tcp` says which leg it is.
pub(super) fn read(document: &mut Document<'_>, is_tcp: bool) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for mut section in document.sections("class") {
        let line = section.line();
        let class = read_class(&mut section, classes.len());
        if is_tcp {
            hop::refuse_others(&mut section, &["weight", "cap"]);
        }
        section.end(document);
        let Some(class) = class else { continue };
        let name = &class.name;
        if classes.iter().any(|other| other.name == *name) {
            document.fault(line, format!("[[class]] {name}: another class has the same name"));
        }
        if let Some(above) = classes.iter().find(|above| above.conditions.are_none()) {
            let above = &above.name;
            document.fault(
                line,
                format!("[[class]] {name}: never reached: {above} above it, which names no ports, clients, servers or dscp, takes all connections"),
            );
        }
        if classes.len() == MOST {
            document.fault(line, format!("[[class]] {name}: there are more than {MOST} classes"));
            break;
        }
        classes.push(class);
    }
    classes
}

/// The class number `at`, from 0.
fn read_class(section: &mut Section<'_>, at: usize) -> Option<Class> {
    let name: Option<String> =
        section.required("name", "letters, digits, - and _, at most 32, and not \"default\"", |name: &String| {
            valid_name(name) && name != "default"
        });
    let conditions = conditions(section);
    let priority = section.choice("priority", &Priority::NAMES).unwrap_or_default();
    let most = u64::from(satpep::Class::MAX_WEIGHT);
    let weight = section.integer("weight", 1..=most).unwrap_or(1) as u32;
    let least = |rate: &Rate| rate.as_bps() >= 1000;
    let cap = section.checked("cap", "a rate of at least 1kbit/s, such as \"2Mbit/s\"", least);
    // The class of all other connections has number 0.
    let id = (at + 1) as u8;
    name.map(|name| Class { name, conditions, settings: satpep::Class { id, priority, weight, cap } })
}

/// What connections must be like, as `section` says.
pub(super) fn conditions(section: &mut Section<'_>) -> Conditions {
    let ports = "a list of ports from 1 to 65535 and ranges of them, such as [22, \"5060-5069\"]";
    let prefixes = "a list of prefixes such as [\"10.0.0.0/8\"]";
    let dscp = "a list of code points from 0 to 63 or their names, such as [46, \"af41\", \"cs6\", \"le\"]";
    Conditions {
        ports: section.list_or_numbers("ports", ports).unwrap_or_default(),
        clients: section.list("clients", prefixes).unwrap_or_default(),
        servers: section.list("servers", prefixes).unwrap_or_default(),
        dscp: section.list_or_numbers("dscp", dscp).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::*;
    use relay::preamble::Open;
    use satpep::Class as Settings;

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
        let open = Open::new("10.1.1.1:5".parse().unwrap(), "192.0.2.1:5065".parse().unwrap());
        let marked = Open { dscp: "ef".parse().unwrap(), ..open };
        assert_eq!([open, marked].map(|open| classes[0].conditions.hold_for(&open)), [false, true]);
        assert_eq!(classes[1].settings, Settings { id: 2, ..Settings::DEFAULT });
        assert!(classes[1].conditions.are_none());
    }

    #[test]
    fn wrong_classes_are_refused_with_line_key_and_what_is_allowed() {
        for (class, expected) in [
            ("name = \"default\"", "10: [[class]] name = \"default\": expected letters, digits"),
            ("ports = [22]", "9: [[class]] name is missing: expected letters, digits"),
            ("name = \"a\"\nports = [0]", "11: [[class]] ports = 0: expected a list of ports from 1 to 65535"),
            ("name = \"a\"\nports = [\"9-8\"]", "11: [[class]] ports = \"9-8\": expected a list of ports"),
            ("name = \"a\"\nports = 22", "11: [[class]] ports = 22: expected a list of ports"),
            ("name = \"a\"\nservers = [\"host\"]", "11: [[class]] servers = \"host\": expected a list of prefixes"),
            ("name = \"a\"\ndscp = [64]", "11: [[class]] dscp = 64: expected a list of code points from 0 to 63"),
            ("name = \"a\"\npriority = \"high\"", "11: [[class]] priority = \"high\": expected \"interactive\" or"),
            ("name = \"a\"\nweight = 0", "11: [[class]] weight = 0: expected an integer from 1 to 100"),
            ("name = \"a\"\ncap = \"1bit/s\"", "11: [[class]] cap = \"1bit/s\": expected a rate of at least 1kbit/s"),
            ("name = \"a\"\nport = [1]", "11: [[class]] port: unknown key; did you mean ports?"),
            ("name = \"a\"\nports = [1]\n[[class]]\nname = \"a\"", "12: [[class]] a: another class has the same name"),
            ("name = \"a\"\n[[class]]\nname = \"b\"", "11: [[class]] b: never reached: a above it"),
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
