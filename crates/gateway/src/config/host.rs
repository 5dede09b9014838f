//! What settings name of the host that they are for.

use super::{Link, Settings, format};
use dlep_io::RouterSettings;
use document::{Document, suggestion};
use kernel::interfaces::Interfaces;
use std::io;

/// An interface that the settings name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The key that names it, such as `link.interface`.
    pub key: &'static str,
    /// Its line and column in the file.
    pub place: (usize, usize),
    /// The interface's name.
    pub name: String,
}

/// The interfaces that the sections name.
pub(super) fn named(
    document: &Document<'_>,
    link: &Link,
    intercept: &format::Intercept,
    dlep: Option<&RouterSettings>,
) -> Vec<Named> {
    let mut all = Vec::new();
    if let Some(name) = &link.interface {
        let place = document.place(&["link", "interface"]);
        all.push(Named { key: "link.interface", place, name: name.clone() });
    }
    for (key, last, list) in [
        ("intercept.interfaces", "interfaces", &intercept.interfaces),
        ("intercept.out_interfaces", "out_interfaces", &intercept.out_interfaces),
    ] {
        for (at, interface) in list.iter().flatten().enumerate() {
            let place = document.place(&["intercept", last, &at.to_string()]);
            all.push(Named { key, place, name: interface.0.clone() });
        }
    }
    // That of the link is named already.
    if let Some(dlep) = dlep.filter(|dlep| Some(&dlep.interface) != link.interface.as_ref()) {
        let place = document.place(&["dlep", "interface"]);
        all.push(Named { key: "dlep.interface", place, name: dlep.interface.clone() });
    }
    all
}

/// Compares the interfaces that `settings` name with those in the network namespace of the calling thread. Returns a line for
/// each that is missing.
///
/// # Errors
/// If the host's interfaces cannot be read.
pub fn missing_interfaces(settings: &Settings) -> io::Result<Vec<String>> {
    let found = Interfaces::new().map_err(io::Error::other)?.all()?;
    let names: Vec<String> = found.into_iter().map(|interface| interface.name).collect();
    let file = settings.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    let missing = settings.interfaces.iter().filter(|named| !names.contains(&named.name));
    let fault = |named: &Named| {
        let Named { key, place: (line, column), name } = named;
        let near = suggestion(name, names.iter().map(String::as_str));
        format!("{file}:{line}:{column}: {key} = {name:?}: this machine has no such interface{near}")
    };
    Ok(missing.map(fault).collect())
}

/// What is right at some gateways, and a mistake at others.
pub fn notes(settings: &Settings) -> Vec<String> {
    let link = settings.link.interface.iter().filter(|link| settings.rules.interfaces.contains(link));
    link.map(|link| {
        format!(
            "[intercept] interfaces names {link}, which is [link] interface, too: right if clients are on it (a gateway with one interface); \
             otherwise name the clients' interface"
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::minimal;
    use super::*;

    #[test]
    fn clients_on_the_satellite_interface_are_noted() {
        let text = minimal().replace("[link]", "[link]\ninterface = \"sat0\"");
        let notes = |lan: &str| notes(&parse(&format!("{text}[intercept]\ninterfaces = [\"{lan}\"]\n"), "x").unwrap());
        assert_eq!(notes("lan0"), [""; 0]);
        assert!(notes("sat0")[0].starts_with("[intercept] interfaces names sat0, which is [link] interface"));
    }

    #[test]
    fn interfaces_that_this_machine_has_not_are_told_with_their_places_and_the_nearest_name() {
        let text = minimal().replace("[link]", "[link]\ninterface = \"lo0\"")
            + "[intercept]\ninterfaces = [\"lo\", \"no-such-lan\"]\nout_interfaces = [\"lo\"]\n[dlep]\ninterface = \"usb7\"\n";
        let settings = Settings { file: Some("/etc/gateway.toml".into()), ..parse(&text, "x").unwrap() };
        let keys: Vec<_> = settings.interfaces.iter().map(|named| (named.key, named.place, &*named.name)).collect();
        let expected = [
            ("link.interface", (4, 13), "lo0"),
            ("intercept.interfaces", (11, 15), "lo"),
            ("intercept.interfaces", (11, 21), "no-such-lan"),
            ("intercept.out_interfaces", (12, 19), "lo"),
            ("dlep.interface", (14, 13), "usb7"),
        ];
        assert_eq!(keys, expected);
        let missing = missing_interfaces(&settings).unwrap();
        assert_eq!(missing.len(), 3, "every machine has lo: {missing:?}");
        let expected_line = "/etc/gateway.toml:4:13: link.interface = \"lo0\": this machine has no such interface";
        assert!(missing[0].starts_with(expected_line) && missing[0].contains("did you mean lo?"), "{missing:?}");
        assert!(
            missing[1].starts_with("/etc/gateway.toml:11:21: intercept.interfaces = \"no-such-lan\": "),
            "{missing:?}"
        );
        assert!(missing[2].starts_with("/etc/gateway.toml:14:13: dlep.interface = \"usb7\": "), "{missing:?}");
    }
}
