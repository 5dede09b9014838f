//! `[dlep]`: the modem that tells the gateway what its link carries.

use super::document::Document;
use super::valid_interface;
use dlep_io::RouterSettings;
use std::net::{IpAddr, SocketAddr};
use units::Duration;

/// A modem's address: the port may be left out.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

impl std::str::FromStr for Peer {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, dlep::PORT));
        address.or_else(|_| text.parse()).map(Self)
    }
}

/// Reads `[dlep]`, if it is there; `link` is the link's interface, `name` the gateway's.
pub(super) fn read(document: &mut Document<'_>, link: Option<&str>, name: &str) -> Option<RouterSettings> {
    let is_there = document.line_of_section("dlep") > 0;
    let mut section = document.section("dlep");
    let allowed = "an interface name";
    let interface = section.text("interface", allowed, valid_interface).or_else(|| link.map(str::to_owned));
    if is_there && interface.is_none() && !section.has("interface") {
        section.missing("interface", "an interface name, here or in [link]");
    }
    let peer: Option<Peer> = section.parsed("peer", "an address such as \"192.0.2.1\", with a port if it is not 854");
    let port = section.integer("port", 1..=65_535);
    let destination = section.parsed("destination", "a MAC address such as \"02:00:5e:10:00:01\"");
    let heartbeat = section.checked("heartbeat", "a duration from 1s to 10min, such as \"10s\"", super::within(1, 600));
    section.end(document);
    let interface = interface.filter(|_| is_there)?;
    Some(RouterSettings {
        interface,
        peer: peer.map(|Peer(address)| address),
        port: port.map_or(dlep::PORT, |port| port as u16),
        destination,
        session: dlep::Settings {
            heartbeat: heartbeat.unwrap_or(Duration::from_secs(10)),
            name: format!("bentpipe gateway {name}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};

    fn with(dlep: &str) -> String {
        minimal().replace("[link]", "[link]\nknowledge = \"told\"") + "[dlep]\n" + dlep
    }

    #[test]
    fn an_interface_is_enough_and_a_peer_needs_no_port() {
        let settings = parse(&with("interface = \"modem0\"\n"), "x").unwrap().dlep.unwrap();
        assert_eq!((settings.interface.as_str(), settings.peer, settings.port), ("modem0", None, 854));
        let text = with("peer = \"2001:db8::1\"\ndestination = \"02:00:5e:10:00:01\"\n")
            .replace("[link]", "[link]\ninterface = \"sat0\"");
        let settings = parse(&text, "x").unwrap().dlep.unwrap();
        assert_eq!(settings.peer, Some("[2001:db8::1]:854".parse().unwrap()));
        assert_eq!(settings.interface, "sat0");
        assert_eq!(parse(&minimal(), "x").unwrap().dlep, None);
    }

    #[test]
    fn wrong_values_are_faults() {
        for line in
            ["peer = \"modem\"", "port = 0", "destination = \"02:00\"", "heartbeat = \"100ms\"", "interface = \"\""]
        {
            let faults = faults(&with(&format!("{line}\n")));
            let expected = format!("[dlep] {line}: expected a");
            assert!(faults.iter().any(|fault| fault.contains(&expected)), "{faults:?}");
        }
        assert!(faults(&with(""))[0].contains("[dlep] interface is missing"));
        let unheard = minimal() + "[dlep]\ninterface = \"modem0\"\n";
        assert!(faults(&unheard)[0].contains("[dlep] has no effect"), "{:?}", faults(&unheard));
    }
}
