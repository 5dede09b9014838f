//! `[updates]`: where programs report link updates.

use super::{control_socket, format};
use document::Document;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use units::Duration;

/// `[updates]`: where programs report link updates.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateSettings {
    /// Unix socket that takes updates.
    pub socket: Option<PathBuf>,
    /// Address that takes updates by HTTP.
    pub http: Option<SocketAddr>,
    /// The longest validity of an update over the socket or HTTP.
    pub max_validity: Duration,
}

impl UpdateSettings {
    /// Whether programs can report anything.
    pub fn is_used(&self) -> bool {
        self.socket.is_some() || self.http.is_some()
    }
}

/// Reads `[updates]`.
pub(super) fn read(document: &mut Document<'_>) -> Option<UpdateSettings> {
    let written: format::Updates = document.section("updates")?;
    let socket = written.socket.map(|socket| PathBuf::from(socket.0));
    Some(UpdateSettings {
        socket,
        http: written.http.map(|http| http.0),
        max_validity: written.max_validity.map_or(Duration::from_secs(60), |validity| validity.0),
    })
}

/// Reports a socket that `bentpipe gateway` would take for the control socket of another gateway: it looks for those in the directory of the usual ones,
/// and beside one that is named.
pub(super) fn check(document: &mut Document<'_>, updates: &UpdateSettings, control: &Path) {
    let Some(socket) = &updates.socket else { return };
    let usual = control_socket("");
    let is_beside = [control, &usual].iter().any(|one| one.parent() == socket.parent());
    if is_beside && socket.extension().is_some_and(|extension| extension == "sock") {
        let problem = " ends in .sock, as the control sockets in its directory do, and would be taken for that of another gateway: end it in .updates";
        document.fault(&["updates", "socket"], problem);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};
    use super::*;
    use units::Rate;

    fn with(updates: &str) -> String {
        minimal() + "[updates]\n" + updates
    }

    #[test]
    fn rates_are_plausible_around_the_configured_ones() {
        let settings = parse(&with("socket = \"/run/updates\"\n"), "gateway.toml").unwrap();
        assert_eq!(settings.link.plausible.min, Rate::from_bps(60_000));
        assert_eq!(settings.link.plausible.max, Rate::from_bps(60_000_000));
        assert_eq!(settings.updates.max_validity, Duration::from_secs(60));
        let settings = parse(
            &with("http = \"127.0.0.1:1\"\nmax_validity = \"5s\"\n")
                .replace("[link]", "[link]\nmin_rate = \"1Mbit/s\""),
            "x",
        )
        .unwrap();
        assert_eq!(
            (settings.link.plausible.min, settings.updates.max_validity),
            (Rate::from_bps(1_000_000), Duration::from_secs(5))
        );
    }

    #[test]
    fn a_socket_that_would_be_taken_for_a_gateways_is_a_fault() {
        let control = "[control]\nsocket = \"/run/x/a.sock\"\n";
        for (socket, control) in
            [("/run/bentpipe/updates.sock", ""), ("/run/x/b.sock", control), ("/run/bentpipe/b.sock", control)]
        {
            let faults = faults(&with(&format!("socket = \"{socket}\"\n{control}")));
            assert!(faults[0].contains("updates.socket") && faults[0].contains("ends in .sock"), "{faults:?}");
        }
        for socket in ["/run/bentpipe/hub.updates", "/run/x/b.sock", "/run/updates"] {
            assert!(parse(&with(&format!("socket = \"{socket}\"\n")), "x").is_ok(), "{socket}");
        }
    }

    #[test]
    fn wrong_values_are_faults() {
        for line in ["socket = \"\"", "http = \"localhost\"", "max_validity = \"25h\""] {
            let faults = faults(&with(&format!("{line}\n")));
            let (start, end) = (format!("updates.{line}: "), "expected a");
            assert!(faults.iter().any(|fault| fault.contains(&start) && fault.contains(end)), "{faults:?}");
        }
        for line in ["min_rate = \"10bit/s\"", "max_rate = 5"] {
            let faults = faults(&minimal().replace("[link]", &format!("[link]\n{line}")));
            assert!(faults[0].contains(&format!("link.{line}: expected a rate")), "{faults:?}");
        }
        let odd = faults(&minimal().replace("[link]", "[link]\nmin_rate = \"2Mbit/s\"\nmax_rate = \"1Mbit/s\""));
        assert!(odd[0].contains("link.min_rate is at odds: min_rate is 2Mbit/s, max_rate is 1Mbit/s"), "{odd:?}");
    }
}
