//! `[dlep]`: the modem that reports the link's capacity to the gateway.

use super::format;
use dlep_io::RouterSettings;
use document::Document;
use units::Duration;

/// Reads `[dlep]`, if it is there; `link` is the link's interface, `name` the gateway's.
pub(super) fn read(document: &mut Document<'_>, link: Option<&str>, name: &str) -> Option<RouterSettings> {
    let written: format::Dlep = document.typed(&["dlep"])?;
    let Some(interface) = written.interface.map(|interface| interface.0).or_else(|| link.map(str::to_owned)) else {
        let problem = " is missing: expected an interface name, here or in [link]";
        document.fault(&["dlep", "interface"], problem);
        return None;
    };
    Some(RouterSettings {
        interface,
        modem: written.modem.map(|modem| modem.0),
        port: written.port.unwrap_or(dlep::PORT),
        destination: written.destination.map(|destination| destination.0),
        session: dlep::Settings {
            heartbeat: written.heartbeat.map_or(Duration::from_secs(10), |heartbeat| heartbeat.0),
            name: format!("bentpipe gateway {name}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};

    fn with(dlep: &str) -> String {
        minimal() + "[dlep]\n" + dlep
    }

    #[test]
    fn an_interface_is_enough_and_a_modem_needs_no_port() {
        let settings = parse(&with("interface = \"modem0\"\n"), "x").unwrap().dlep.unwrap();
        assert_eq!((settings.interface.as_str(), settings.modem, settings.port), ("modem0", None, 854));
        let text = with("modem = \"2001:db8::1\"\ndestination = \"02:00:5e:10:00:01\"\n")
            .replace("[link]", "[link]\ninterface = \"sat0\"");
        let settings = parse(&text, "x").unwrap().dlep.unwrap();
        assert_eq!(settings.modem, Some("[2001:db8::1]:854".parse().unwrap()));
        assert_eq!(settings.interface, "sat0");
        assert_eq!(parse(&minimal(), "x").unwrap().dlep, None);
    }

    #[test]
    fn wrong_values_are_faults() {
        for line in
            ["modem = \"modem\"", "port = 0", "destination = \"02:00\"", "heartbeat = \"100ms\"", "interface = \"\""]
        {
            let faults = faults(&with(&format!("{line}\n")));
            let expected = format!("dlep.{line}: expected a");
            assert!(faults.iter().any(|fault| fault.contains(&expected)), "{faults:?}");
        }
        assert!(faults(&with(""))[0].contains("dlep.interface is missing"));
    }
}
