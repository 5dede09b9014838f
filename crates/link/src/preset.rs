//! Links by name.

use crate::LinkConfig;
use units::{Duration, Rate};

/// A satellite link that many studies use. Its queues hold one bandwidth-delay product, and by default it loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What it is called on the command line and in scenarios.
    pub name: &'static str,
    /// What it stands for, in a line.
    pub about: &'static str,
    /// From the hub (the server's side) to the terminal.
    pub forward_rate: Rate,
    /// From the terminal (the client's side) to the hub.
    pub return_rate: Rate,
    /// Propagation one way.
    pub delay: Duration,
}

/// Every preset.
pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "geo",
        about: "geostationary bent pipe, 6 Mbit/s both ways, 550 ms round trip",
        forward_rate: Rate::from_bps(6_000_000),
        return_rate: Rate::from_bps(6_000_000),
        delay: Duration::from_millis(275),
    },
    Preset {
        name: "acts-t1",
        about: "NASA's ACTS, a T1 circuit: 1.536 Mbit/s both ways, 560 ms round trip",
        forward_rate: Rate::from_bps(1_536_000),
        return_rate: Rate::from_bps(1_536_000),
        delay: Duration::from_millis(280),
    },
    Preset {
        name: "dvb-rcs",
        about: "a DVB-RCS star network: 8 Mbit/s to the terminal, 2 Mbit/s back, 500 ms round trip",
        forward_rate: Rate::from_bps(8_000_000),
        return_rate: Rate::from_bps(2_000_000),
        delay: Duration::from_millis(250),
    },
];

/// A name that is no preset's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no preset; there are geo, acts-t1 and dvb-rcs")]
pub struct UnknownPreset(String);

impl Preset {
    /// The link from the hub to the terminal.
    pub fn forward(&self) -> LinkConfig {
        LinkConfig::new(self.forward_rate, self.delay)
    }

    /// The link from the terminal to the hub: another stream of the same seed.
    pub fn return_link(&self) -> LinkConfig {
        LinkConfig { stream: 1, ..LinkConfig::new(self.return_rate, self.delay) }
    }
}

impl std::str::FromStr for Preset {
    type Err = UnknownPreset;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        PRESETS.into_iter().find(|preset| preset.name == name).ok_or_else(|| UnknownPreset(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueLimit;
    use units::Bytes;

    #[test]
    fn presets_are_found_by_name_and_make_links() {
        for preset in PRESETS {
            assert_eq!(preset.name.parse(), Ok(preset));
            assert_eq!(preset.forward().validate(), Ok(()));
            assert_ne!(preset.forward().stream, preset.return_link().stream);
            let error = "moon".parse::<Preset>().expect_err("no preset").to_string();
            assert!(error.contains("moon") && error.contains(preset.name), "{error}");
        }
    }

    #[test]
    fn geo_is_the_issue_of_long_fat_pipes() {
        let geo: Preset = "geo".parse().expect("a preset");
        assert_eq!(geo.forward().delay * 2, Duration::from_millis(550));
        assert_eq!(geo.forward().queue, QueueLimit::Bytes(Bytes::new(412_500)));
    }
}
