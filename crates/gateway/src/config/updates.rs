//! `[updates]`: where programs report link updates.

use super::format;
use document::Document;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    Some(UpdateSettings {
        socket: written.socket.map(|socket| PathBuf::from(socket.0)),
        http: written.http.map(|http| http.0),
        max_validity: written.max_validity.map_or(Duration::from_secs(60), |validity| validity.0),
    })
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
