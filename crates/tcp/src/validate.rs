//! What a configuration must fulfil, and which recoveries and controls mean something together.

use crate::config::{Config, SlowStartExit};
use crate::segment::{BARE_HEADER, MAX_OPTIONS};
use units::Ecn;

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    /// At least one.
    pub faults: Vec<Fault>,
}

impl std::error::Error for ConfigError {}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (k, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if k > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// Why a connection does not take another congestion control.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ControlError {
    /// ns-2's agents are recovery and control in one.
    #[error("a sender of ns-2 brings its own congestion control: take the profile `rfc` or `linux`")]
    Ns2,
    /// The connection has begun with the control that it has.
    #[error("the connection has begun: give it another control before that")]
    HasBegun,
    /// The rest of the configuration does not fit it.
    #[error(transparent)]
    Config(ConfigError),
}

/// Something that is wrong with a configuration, and how to mend it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The recovery reads an option that is not offered.
    #[error("recovery `{recovery}` needs selective acknowledgements: offer them, or take `newreno`")]
    NeedsSack {
        /// Its name.
        recovery: &'static str,
    },
    /// The recovery is a rule of how the window moves, and the control moves the window itself.
    #[error(
        "recovery `{recovery}` is a rule for the window, and control `{control}` sets that itself: take `newreno`, \
         `sack` or `rack`"
    )]
    WindowRuledTwice {
        /// The recovery's name.
        recovery: &'static str,
        /// The control's name.
        control: &'static str,
    },
    /// Negative acknowledgements come from a hop of SaTPEP only, and such a hop sends no others.
    #[error("recovery `{recovery}` {}", if *.is_satpep { "cannot read the NACKs of a SaTPEP hop: take `nack`" } else { "needs a SaTPEP hop, whose receiver sends NACKs: take `sack`" })]
    Nacks {
        /// The recovery's name.
        recovery: &'static str,
        /// Whether the hop is one of SaTPEP.
        is_satpep: bool,
    },
    /// The control computes the window from the capacity, which is not given.
    #[error("control `{control}` needs the link's capacity: give `capacity`")]
    NeedsCapacity {
        /// The control's name.
        control: &'static str,
    },
    /// ECN is agreed on in a handshake with flags that this end does not have, or the codepoint is none of a sender.
    #[error("`ecn` needs a whole handshake between ordinary ends, and `ect0` or `ect1`: leave it out{}", if *.is_bare { ", or `bare`" } else { "" })]
    Ecn {
        /// Whether the end sends no options and no third segment of the handshake.
        is_bare: bool,
    },
    /// The control answers to marks, which nobody sets.
    #[error("control `{control}` answers to marks: give `ecn`")]
    NeedsEcn {
        /// The control's name.
        control: &'static str,
    },
    /// The control answers to counts of marked packets, which are not reported, or not of packets that queues mark early.
    #[error("control `{control}` answers to early marks, packet by packet: give `ecn` as `ect1` and `accurate_ecn`")]
    NeedsL4s {
        /// The control's name.
        control: &'static str,
    },
    /// Bytes are counted beside packets.
    #[error("`accurate_ecn_option` is part of `accurate_ecn`: give that, too, and `ecn`")]
    OptionWithoutCounts,
    /// ns-2's agents send when their windows let them.
    #[error("the agents of ns-2 have no `pacing`: take the profile `rfc` or `linux`")]
    PacedNs2,
    /// ns-2's agents have rules of their own where others have this setting.
    #[error("the agents of ns-2 do not read `{key}`: leave it out, or take the profile `rfc` or `linux`")]
    IgnoredByNs2 {
        /// The field.
        key: &'static str,
    },
    /// Careful Resume changes a window that the control would set back.
    #[error(
        "control `{control}` sets the window itself, so Careful Resume cannot: take `reno` or `cubic`, or no `resume`"
    )]
    ResumeGoverned {
        /// The control's name.
        control: &'static str,
    },
    /// After a loss Tahoe begins again with a window of one segment, which may not grow before all of the jump is acknowledged.
    #[error(
        "recovery `tahoe` begins again with one segment, and Careful Resume forbids growth until its jump is acknowledged: \
         take `newreno` or `sack`, or no `resume`"
    )]
    ResumeWithTahoe,
    /// A value is out of its range.
    #[error("`{key}` must be {range}, not {value}")]
    Range {
        /// The field.
        key: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        value: f64,
    },
}

/// What an IP packet holds beside the headers of IP and TCP, with as many options as there is room for.
const MAX_MSS: u32 = u16::MAX as u32 - (BARE_HEADER + MAX_OPTIONS) as u32;
/// Recoveries that consist in how the window moves.
const WINDOW_RULES: [&str; 2] = ["tahoe", "reno"];
/// Controls that follow the capacity that the layer below reports.
const CAPACITY_CONTROLS: [&str; 1] = ["cross-layer"];

impl Config {
    /// Whether a connection can run with this.
    ///
    /// # Errors
    /// All faults at once, each by the name of what is at fault.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut faults = Vec::new();
        self.check_ranges(&mut faults);
        self.check_tuning(&mut faults);
        if faults.is_empty() {
            self.check_pair(&mut faults);
        }
        if faults.is_empty() { Ok(()) } else { Err(ConfigError { faults }) }
    }

    fn check_pair(&self, faults: &mut Vec<Fault>) {
        let (recovery, control) = (self.recovery.name, self.control.name);
        if self.recovery.needs_sack && !self.options.sack {
            faults.push(Fault::NeedsSack { recovery });
        }
        if self.satpep != (recovery == "nack") {
            faults.push(Fault::Nacks { recovery, is_satpep: self.satpep });
        }
        if self.capacity.is_none() && CAPACITY_CONTROLS.contains(&control) {
            faults.push(Fault::NeedsCapacity { control });
        }
        if self.ecn.is_marked() || self.ecn.is_capable() && (self.bare || self.satpep) {
            faults.push(Fault::Ecn { is_bare: self.bare });
        }
        if self.control.reads_share_of_marks() && !self.control.needs_l4s() && !self.ecn.is_capable() {
            faults.push(Fault::NeedsEcn { control });
        }
        if self.control.needs_l4s() && !(self.ecn == Ecn::Ect1 && self.accurate_ecn) {
            faults.push(Fault::NeedsL4s { control });
        }
        if self.accurate_ecn_option && !(self.accurate_ecn && self.ecn.is_capable()) {
            faults.push(Fault::OptionWithoutCounts);
        }
        if self.resume.is_some() && recovery == "tahoe" && self.ns2_agent().is_none() {
            faults.push(Fault::ResumeWithTahoe);
        }
        if self.ns2_agent().is_some() {
            self.check_ns2(faults);
        }
        if self.control.build(self).governs_window() {
            self.check_governing(control, faults);
        }
    }

    /// What ns-2's agents would not read. What they do anyway may be said.
    fn check_ns2(&self, faults: &mut Vec<Fault>) {
        if self.pacing {
            faults.push(Fault::PacedNs2);
        }
        let exits_early = self.tuning.slow_start_exit.is_some_and(|exit| exit != SlowStartExit::None);
        let ignored = [
            ("limited_transmit", !self.limited_transmit),
            ("proportional_rate_reduction", self.proportional_rate_reduction),
            ("restart_after_idle", self.restart_after_idle),
            ("slow_start_limit", self.slow_start_limit.is_some_and(|limit| limit != 1.0)),
            ("growth_counts_acks", !self.growth_counts_acks),
            ("grow_when_not_limited", !self.grow_when_not_limited),
            ("resume", self.resume.is_some()),
            ("tuning.vegas_base_window", self.tuning.vegas_base_window.is_some()),
            ("tuning.slow_start_exit", exits_early),
        ];
        let ignored = ignored.into_iter().filter(|(_, is_given)| *is_given);
        faults.extend(ignored.map(|(key, _)| Fault::IgnoredByNs2 { key }));
    }

    /// What else moves the window, which a control of this name governs.
    pub(crate) fn check_governing(&self, control: &'static str, faults: &mut Vec<Fault>) {
        let recovery = self.recovery.name;
        if WINDOW_RULES.contains(&recovery) {
            faults.push(Fault::WindowRuledTwice { recovery, control });
        }
        if self.resume.is_some() {
            faults.push(Fault::ResumeGoverned { control });
        }
    }

    fn check_ranges(&self, faults: &mut Vec<Fault>) {
        let buffer = &self.receive_buffer;
        let mss = f64::from(self.mss);
        let (capacity, resume) = (self.capacity, self.resume);
        let mut check = |is_valid: bool, key, range, value| {
            if !is_valid {
                faults.push(Fault::Range { key, range, value });
            }
        };
        check((1..=MAX_MSS).contains(&self.mss), "mss", "from 1 to 65455 bytes", mss);
        let window = self.initial_window;
        check(window >= 1.0 && window.is_finite(), "initial_window", "1 segment or more", window);
        check(self.initial_ssthresh >= 2.0, "initial_ssthresh", "2 segments or more", self.initial_ssthresh);
        let most = self.max_window;
        check(most >= 1.0, "max_window", "1 segment or more", most);
        let is_open = self.rules().sending.has_window_limit || most == f64::INFINITY;
        check(is_open, "max_window", "infinite in the profile ns2, which has no such limit", most);
        if let Some(limit) = self.slow_start_limit {
            check(limit >= 1.0, "slow_start_limit", "1 segment or more", limit);
        }
        check(buffer.share > 0.0 && buffer.share <= 1.0, "receive_buffer.share", "above 0 and at most 1", buffer.share);
        let size = buffer.size.as_u64() as f64;
        check(size * buffer.share >= mss, "receive_buffer.size", "large enough to advertise one segment", size);
        check(buffer.most >= buffer.size, "receive_buffer.most", "`size` or more", buffer.most.as_u64() as f64);
        let send_buffer = self.send_buffer.as_u64() as f64;
        check(send_buffer >= mss, "send_buffer", "one segment or more", send_buffer);
        check(self.acks.every >= 1, "acks.every", "1 or more", 0.0);
        check(self.max_expiries >= 1, "max_expiries", "1 or more", 0.0);
        if let Some(capacity) = capacity {
            let rate = capacity.allocation.rate.as_bps() as f64;
            check(rate > 0.0, "capacity.rate", "above 0 bit/s", rate);
            check(!capacity.rtt.is_zero(), "capacity.rtt", "above 0 s", 0.0);
            let queue = capacity.target_queue.as_secs_f64();
            check(queue <= 1.0, "capacity.target_queue", "at most 1 s", queue);
            check(capacity.allocation.connections >= 1, "capacity.connections", "1 or more", 0.0);
        }
        if let Some(resume) = resume {
            let saved = resume.cwnd.as_u64() as f64;
            check(saved >= mss, "resume.cwnd", "one segment or more", saved);
            check(!resume.rtt.is_zero(), "resume.rtt", "above 0 s", 0.0);
        }
    }

    fn check_tuning(&self, faults: &mut Vec<Fault>) {
        let tuning = &self.tuning;
        let mut check = |is_valid: bool, key, range, value| {
            if !is_valid {
                faults.push(Fault::Range { key, range, value });
            }
        };
        let [alpha, beta, gamma] = tuning.vegas;
        check(alpha >= 0.0, "tuning.vegas alpha", "0 segments or more", alpha);
        check(beta >= alpha && beta.is_finite(), "tuning.vegas beta", "alpha or more", beta);
        check(gamma >= 0.0, "tuning.vegas gamma", "0 segments or more", gamma);
        check(
            tuning.vegas_base_window.is_none_or(|window| !window.is_zero()),
            "tuning.vegas_base_window",
            "above 0 s",
            0.0,
        );
        check(!tuning.westwood_tau.is_zero(), "tuning.westwood_tau", "above 0 s", 0.0);
        let (pole, time_constant) = tuning.tibet;
        check((0.0..1.0).contains(&pole), "tuning.tibet pole", "from 0 to below 1", pole);
        check(!time_constant.is_zero(), "tuning.tibet time constant", "above 0 s", 0.0);
        check(!tuning.hybla_rtt0.is_zero(), "tuning.hybla_rtt0", "above 0 s", 0.0);
        let share = tuning.header_share;
        check(share >= 0.0 && share.is_finite(), "tuning.header_share", "0 or more", share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Allocation, Capacity, SavedPath};
    use crate::control::CONTROLS;
    use crate::kinds::ControlKind;
    use crate::kinds::RecoveryKind;
    use crate::profile::Profile;
    use crate::recovery::RECOVERIES;
    use units::{Bytes, Duration, Rate};

    fn pair(recovery: &str, control: &str) -> Config {
        Config {
            recovery: RecoveryKind::by_name(recovery).expect("known"),
            control: ControlKind::by_name(control).expect("known"),
            ..Config::new(Profile::Rfc)
        }
    }

    #[test]
    fn the_profiles_and_the_hop_of_satpep_are_valid() {
        for profile in [Profile::Rfc, Profile::Linux, Profile::Ns2] {
            assert_eq!(Config::new(profile).validate(), Ok(()));
        }
        assert_eq!(Config::satpep().validate(), Ok(()));
    }

    #[test]
    fn pairs_that_mean_nothing_are_refused_by_name() {
        let capacity = Capacity::new(Allocation::new(Rate::from_bps(1), 1), Duration::from_millis(1));
        let refused = |config: Config| config.validate().map_err(|error| error.faults);
        for recovery in RECOVERIES {
            for control in CONTROLS {
                let satpep = recovery.name == "nack";
                let ecn = if satpep { Ecn::NotCapable } else { Ecn::Ect0 };
                let is_l4s = control.needs_l4s() && !satpep;
                let ecn = if is_l4s { Ecn::Ect1 } else { ecn };
                let accurate_ecn = is_l4s;
                let pair =
                    Config { capacity: Some(capacity), satpep, ecn, accurate_ecn, ..pair(recovery.name, control.name) };
                let governs = ["bbr1", "bbr3", "cross-layer", "assigned"].contains(&control.name);
                let is_refused =
                    governs && ["tahoe", "reno"].contains(&recovery.name) || satpep && control.reads_share_of_marks();
                assert_eq!(refused(pair).is_err(), is_refused, "{} {}", recovery.name, control.name);
            }
        }
        let ruled_twice = Fault::WindowRuledTwice { recovery: "tahoe", control: "bbr1" };
        assert_eq!(refused(pair("tahoe", "bbr1")), Err(vec![ruled_twice.clone()]));
        let text = ruled_twice.to_string();
        assert!(["`tahoe`", "`bbr1`", "take `newreno`"].iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(refused(pair("sack", "cross-layer")), Err(vec![Fault::NeedsCapacity { control: "cross-layer" }]));
        assert_eq!(refused(pair("nack", "reno")), Err(vec![Fault::Nacks { recovery: "nack", is_satpep: false }]));
        let satpep = Config { satpep: true, ..pair("sack", "assigned") };
        assert_eq!(refused(satpep), Err(vec![Fault::Nacks { recovery: "sack", is_satpep: true }]));
        let mut deaf = pair("rack", "cubic");
        deaf.options.sack = false;
        assert_eq!(refused(deaf), Err(vec![Fault::NeedsSack { recovery: "rack" }]));
        let resume = Some(SavedPath { cwnd: Bytes::new(1 << 20), rtt: Duration::from_millis(550) });
        // Over 2 Mbit/s and 550 ms, 1 MB took 147 s, and 12 s without Careful Resume.
        let crawling = Config { resume, ..pair("tahoe", "reno") };
        assert_eq!(refused(crawling), Err(vec![Fault::ResumeWithTahoe]));
        let resumed = Config { resume, ..pair("rack", "bbr3") };
        assert_eq!(refused(resumed), Err(vec![Fault::ResumeGoverned { control: "bbr3" }]));
        assert_eq!(Config { resume, ..pair("rack", "cubic") }.validate(), Ok(()));
    }

    #[test]
    fn all_values_out_of_range_are_named_at_once() {
        let mut config = pair("rack", "cubic");
        config.mss = 0;
        config.initial_window = f64::NAN;
        config.tuning.tibet.0 = 1.0;
        config.receive_buffer.share = 0.0;
        let capacity = Capacity::new(Allocation::new(Rate::from_bps(1), 1), Duration::from_millis(1));
        config.capacity = Some(Capacity { target_queue: Duration::from_secs(2), ..capacity });
        let error = config.validate().expect_err("faulty");
        let text = error.to_string();
        for key in
            ["`mss`", "`initial_window`", "`tuning.tibet pole`", "`receive_buffer.share`", "`capacity.target_queue`"]
        {
            assert!(text.contains(key), "{text}");
        }
    }

    #[test]
    fn each_value_out_of_its_range_is_named_with_the_range() {
        type Spoil = fn(&mut Config);
        let resume = |cwnd, rtt| Some(SavedPath { cwnd: Bytes::new(cwnd), rtt: Duration::from_millis(rtt) });
        let capacity = |bps, connections, rtt| {
            Some(Capacity::new(Allocation::new(Rate::from_bps(bps), connections), Duration::from_millis(rtt)))
        };
        let spoilt: [(Spoil, &str); 22] = [
            (|config| config.mss = 65_456, "`mss` must be from 1 to 65455 bytes, not 65456"),
            (|config| config.initial_window = 0.5, "`initial_window` must be 1 segment or more, not 0.5"),
            (|config| config.initial_ssthresh = 1.0, "`initial_ssthresh` must be 2 segments or more, not 1"),
            (|config| config.max_window = 0.0, "`max_window` must be 1 segment or more, not 0"),
            (|config| config.slow_start_limit = Some(0.0), "`slow_start_limit` must be 1 segment or more, not 0"),
            (
                |config| config.receive_buffer.share = 1.5,
                "`receive_buffer.share` must be above 0 and at most 1, not 1.5",
            ),
            (
                |config| config.receive_buffer.size = Bytes::new(100),
                "`receive_buffer.size` must be large enough to advertise one segment, not 100",
            ),
            (
                |config| config.receive_buffer.most = Bytes::new(9),
                "`receive_buffer.most` must be `size` or more, not 9",
            ),
            (|config| config.send_buffer = Bytes::new(1), "`send_buffer` must be one segment or more, not 1"),
            (|config| config.acks.every = 0, "`acks.every` must be 1 or more, not 0"),
            (|config| config.max_expiries = 0, "`max_expiries` must be 1 or more, not 0"),
            (
                |config| config.tuning.vegas = [-1.0, 3.0, 1.0],
                "`tuning.vegas alpha` must be 0 segments or more, not -1",
            ),
            (|config| config.tuning.vegas = [2.0, 1.0, 1.0], "`tuning.vegas beta` must be alpha or more, not 1"),
            (
                |config| config.tuning.vegas = [2.0, 4.0, -1.0],
                "`tuning.vegas gamma` must be 0 segments or more, not -1",
            ),
            (
                |config| config.tuning.vegas_base_window = Some(Duration::ZERO),
                "`tuning.vegas_base_window` must be above 0 s, not 0",
            ),
            (|config| config.tuning.westwood_tau = Duration::ZERO, "`tuning.westwood_tau` must be above 0 s, not 0"),
            (|config| config.tuning.tibet.0 = -0.1, "`tuning.tibet pole` must be from 0 to below 1, not -0.1"),
            (|config| config.tuning.tibet.1 = Duration::ZERO, "`tuning.tibet time constant` must be above 0 s, not 0"),
            (|config| config.tuning.hybla_rtt0 = Duration::ZERO, "`tuning.hybla_rtt0` must be above 0 s, not 0"),
            (|config| config.tuning.header_share = -1.0, "`tuning.header_share` must be 0 or more, not -1"),
            (
                |config| (config.profile, config.max_window) = (Profile::Ns2, 9.0),
                "`max_window` must be infinite in the profile ns2, which has no such limit, not 9",
            ),
            (|config| config.mss = 0, "`mss` must be from 1 to 65455 bytes, not 0"),
        ];
        for (spoil, expected) in spoilt {
            let mut config = pair("rack", "cubic");
            spoil(&mut config);
            assert_eq!(config.validate().expect_err(expected).to_string(), expected);
        }
        for (capacity, resume, expected) in [
            (capacity(0, 1, 1), None, "`capacity.rate` must be above 0 bit/s, not 0"),
            (capacity(1, 0, 1), None, "`capacity.connections` must be 1 or more, not 0"),
            (capacity(1, 1, 0), None, "`capacity.rtt` must be above 0 s, not 0"),
            (None, resume(1, 1), "`resume.cwnd` must be one segment or more, not 1"),
            (None, resume(1 << 20, 0), "`resume.rtt` must be above 0 s, not 0"),
        ] {
            let config = Config { capacity, resume, ..pair("rack", "cubic") };
            assert_eq!(config.validate().expect_err(expected).to_string(), expected);
        }
    }
}
