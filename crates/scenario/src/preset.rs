//! TCP variants by name: presets of loss recovery and congestion control.

use tcp::{Config, ControlKind, Profile, RecoveryKind};
use units::Ecn;

/// A TCP variant by name: a recovery and a control.
pub(crate) struct Preset {
    /// What flows call it.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) about: &'static str,
    pub(crate) recovery: &'static str,
    pub(crate) control: &'static str,
}

/// The variants of the papers and of today.
const PRESETS: &[Preset] = &[
    preset("tahoe", "tahoe", "reno", "slow start after every loss (Jacobson 1988)"),
    preset("reno", "reno", "reno", "fast recovery, left at the first new acknowledgement (RFC 2581)"),
    preset("newreno", "newreno", "reno", "fast recovery of all losses of a window (RFC 6582)"),
    preset("sack", "sack", "reno", "recovery by selective acknowledgements (RFC 6675)"),
    preset("rack", "rack", "reno", "losses found by time, with tail loss probes (RFC 8985)"),
    preset("vegas", "newreno", "vegas", "the window follows the delay (Brakmo and Peterson 1995)"),
    preset(
        "westwood",
        "newreno",
        "westwood",
        "the window after a loss follows the estimated rate (Mascolo et al. 2001)",
    ),
    preset(
        "westwood-plus",
        "newreno",
        "westwood-plus",
        "Westwood with a sample for each round trip (Grieco and Mascolo 2004)",
    ),
    preset("tibet", "newreno", "tibet", "as Westwood, with time intervals in the estimate (Capone et al. 2004)"),
    preset("hybla", "sack", "hybla", "the window grows as over a short path (Caini and Firrincieli 2004)"),
    preset("cubic", "rack", "cubic", "RFC 9438"),
    preset("bbr", "rack", "bbr1", "model of rate and round-trip time, version 1 (Cardwell et al. 2016)"),
    preset("bbr3", "rack", "bbr3", "version 3 (draft-ietf-ccwg-bbr)"),
    preset(
        "prague",
        "rack",
        "prague",
        "for L4S: ECN with `ect1` and `accurate_ecn` (draft-briscoe-iccrg-prague-congestion-control)",
    ),
    preset("ledbat", "rack", "ledbat", "in the background, behind 100 ms of queue (RFC 6817)"),
    preset(
        "ledbat-plus-plus",
        "rack",
        "ledbat-plus-plus",
        "in the background, with slowdowns (draft-irtf-iccrg-ledbat-plus-plus)",
    ),
    preset("cross-layer", "sack", "cross-layer", "the window that the link's allocation allows (Kim et al.)"),
];

const fn preset(name: &'static str, recovery: &'static str, control: &'static str, about: &'static str) -> Preset {
    Preset { name, about, recovery, control }
}

impl Preset {
    /// The preset of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|preset| preset.name == name)
    }

    /// Its recovery and control.
    pub(crate) fn axes(&self) -> Option<(&'static RecoveryKind, &'static ControlKind)> {
        RecoveryKind::by_name(self.recovery).zip(ControlKind::by_name(self.control))
    }

    /// Every preset.
    pub(crate) fn all() -> impl Iterator<Item = &'static Preset> + Clone {
        PRESETS.iter()
    }

    /// The endpoints of a flow that names the preset.
    pub(crate) fn config(name: &str) -> Option<Config> {
        let preset = Self::named(name)?;
        let (recovery, control) = preset.axes()?;
        let mut config = Config { recovery, control, ..Config::new(Profile::Rfc) };
        suit(&mut config);
        Some(config)
    }
}

/// Sets what the control needs of the rest, as far as it does not depend on the path.
pub(crate) fn suit(config: &mut Config) {
    if config.control.needs_l4s() {
        (config.ecn, config.accurate_ecn) = (Ecn::Ect1, true);
    }
    if let Some(window) = config.control.own_initial_window() {
        // After an idle time, too, it begins with no more.
        config.initial_window = config.initial_window.min(window);
    }
}

/// The recoveries that a flow may have: NACKs are spoken between gateways only.
pub(crate) fn recoveries() -> impl Iterator<Item = &'static str> {
    tcp::recovery::RECOVERIES.iter().map(|kind| kind.name).filter(|name| *name != "nack")
}

/// The controls that a flow may have: windows are assigned between gateways only.
pub(crate) fn controls() -> impl Iterator<Item = &'static str> {
    tcp::control::CONTROLS.iter().map(|kind| kind.name).filter(|name| *name != "assigned")
}
