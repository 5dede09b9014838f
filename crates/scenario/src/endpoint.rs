//! How TCP endpoints behave, from the words of the format.

use crate::format::tcp::{self as format, AckPolicy, EcnName, ProfileName, SlowStartExit};
use crate::preset::{Preset, suit};
use crate::text::{Window, WindowSize};
use tcp::{Allocation, Config, ControlKind, MinRto, Profile, ReceiveBuffer, RecoveryKind, SavedPath};
use units::{Bytes, Ecn};

/// Whether the endpoint that `section` describes is a variant of the preset, whose name it has.
fn check_name(preset: &Preset, section: &format::Tcp, config: &Config) -> Result<(), Wrong> {
    // The variants with Reno's window differ in their recovery.
    let is_recovery_its_own = config.recovery.name == preset.recovery || preset.control != "reno";
    if config.control.name == preset.control && is_recovery_its_own {
        return Ok(());
    }
    let key = match section {
        format::Tcp { control: Some(_), .. } if config.control.name != preset.control => "control",
        format::Tcp { recovery: Some(_), .. } if config.control.name == preset.control => "recovery",
        _ => "preset",
    };
    let (recovery, control) = (config.recovery.name, config.control.name);
    let text =
        format!("{recovery} with {control} is not what the preset {0} is: call the table otherwise", preset.name);
    Err((key, text))
}

/// Whether the control begins with a window of so many segments.
pub(crate) fn check_initial_window(control: &ControlKind, segments: f64) -> Result<(), Wrong> {
    match control.own_initial_window() {
        Some(most) if segments > most => {
            Err(("initial_window", format!("{} begins with at most {most} segments", control.name)))
        }
        _ => Ok(()),
    }
}

/// The key of a section that `fault` is about.
fn wrong(fault: &tcp::Fault) -> Wrong {
    let key = match fault {
        tcp::Fault::NeedsSack { .. } => "sack",
        tcp::Fault::WindowRuledTwice { .. } | tcp::Fault::Nacks { .. } => "recovery",
        tcp::Fault::NeedsCapacity { .. } => "control",
        tcp::Fault::ResumeGoverned { .. } | tcp::Fault::ResumeWithTahoe => "resume",
        tcp::Fault::Ecn { .. } | tcp::Fault::NeedsEcn { .. } | tcp::Fault::NeedsL4s { .. } => "ecn",
        tcp::Fault::OptionWithoutCounts => "accurate_ecn_option",
        tcp::Fault::PacedNs2 => "pacing",
        tcp::Fault::IgnoredByNs2 { key } => key,
        tcp::Fault::Range { key, range, value } => {
            // A part of a setting is named behind it.
            let (key, part) = key.split_once(' ').unwrap_or((key, "it"));
            let written = match key {
                "receive_buffer.share" => "receive_buffer_share",
                "receive_buffer.size" => "receive_buffer",
                "receive_buffer.most" => "receive_buffer_max",
                "acks.every" => "delayed_ack.every",
                "resume.cwnd" => "resume.window",
                other => other,
            };
            return (written, format!("{part} must be {range}, not {value}"));
        }
    };
    (key, fault.to_string())
}

impl From<EcnName> for Ecn {
    fn from(name: EcnName) -> Self {
        match name {
            EcnName::Off => Self::NotCapable,
            EcnName::Ect0 => Self::Ect0,
            EcnName::Ect1 => Self::Ect1,
        }
    }
}

impl From<SlowStartExit> for tcp::SlowStartExit {
    fn from(exit: SlowStartExit) -> Self {
        match exit {
            SlowStartExit::None => Self::None,
            SlowStartExit::Hystart => Self::LinuxHyStart,
            SlowStartExit::HystartPlusPlus => Self::HyStartPlusPlus,
        }
    }
}

/// A key of a section under `[tcp]` that has a wrong value, with dots between keys, and what would be right.
pub(crate) type Wrong = (&'static str, String);

impl format::Tcp {
    /// The endpoint that the section `name` describes.
    ///
    /// # Errors
    /// What is wrong first.
    pub(crate) fn resolve(&self, name: &str) -> Result<Config, Wrong> {
        let profile = match self.profile.unwrap_or(ProfileName::Rfc) {
            ProfileName::Rfc => Profile::Rfc,
            ProfileName::Linux => Profile::Linux,
            ProfileName::Ns2 => Profile::Ns2,
        };
        let mut config = Config::new(profile);
        self.choose_axes(Preset::named(name), &mut config)?;
        self.choose_sizes(&mut config)?;
        self.check_start(&config)?;
        self.check_sack(&config)?;
        suit(&mut config);
        self.choose_rules(&mut config);
        self.check_timeouts(&config)?;
        self.choose_tuning(&mut config);
        match config.validate().map_err(|error| error.faults.into_iter().next()) {
            Err(Some(fault)) => Err(wrong(&fault)),
            _ => Ok(config),
        }
    }

    /// The recovery and the control. A section with the name of a preset, `own`, is that preset: under its name there is no
    /// other variant.
    fn choose_axes(&self, own: Option<&Preset>, config: &mut Config) -> Result<(), Wrong> {
        if let Some(name) = self.preset.as_deref().or(own.map(|preset| preset.name)) {
            let preset = Preset::config(name).ok_or_else(|| ("preset", format!("there is no preset {name}")))?;
            // Linux has one recovery for all its controls; the presets with Reno's window are about recoveries.
            if config.profile != Profile::Linux || preset.control.name == "reno" {
                config.recovery = preset.recovery;
            }
            config.control = preset.control;
        }
        if let Some(name) = &self.recovery {
            config.recovery =
                RecoveryKind::by_name(name).ok_or_else(|| ("recovery", format!("there is no recovery {name}")))?;
        }
        if let Some(name) = &self.control {
            config.control =
                ControlKind::by_name(name).ok_or_else(|| ("control", format!("there is no control {name}")))?;
        }
        own.map_or(Ok(()), |own| check_name(own, self, config))
    }

    fn choose_sizes(&self, config: &mut Config) -> Result<(), Wrong> {
        if let Some(mss) = self.mss {
            config.mss = u32::try_from(mss.0.as_u64())
                .ok()
                .filter(|mss| (64..=65_000).contains(mss))
                .ok_or_else(|| ("mss", format!("{} is not from 64B to 65000B", mss.0)))?;
            config.initial_window = match config.profile {
                Profile::Rfc => tcp::initial_window_rfc6928(config.mss),
                Profile::Linux | Profile::Ns2 => config.initial_window,
            };
        }
        let mss = config.mss;
        let segments = |window: Window| match window.0 {
            WindowSize::Segments(segments) => f64::from(segments),
            WindowSize::Bytes(bytes) => bytes.as_u64() as f64 / f64::from(mss),
        };
        let bytes = |window: Window| match window.0 {
            WindowSize::Segments(segments) => Bytes::new(u64::from(segments) * u64::from(mss)),
            WindowSize::Bytes(bytes) => bytes,
        };
        let least = Bytes::new(u64::from(mss));
        for (key, window) in [
            ("initial_window", self.initial_window),
            ("initial_ssthresh", self.initial_ssthresh),
            ("max_window", self.max_window),
            ("send_buffer", self.send_buffer),
            ("receive_buffer", self.receive_buffer),
            ("receive_buffer_max", self.receive_buffer_max),
        ] {
            if let Some(window) = window.map(bytes)
                && window < least
            {
                return Err((key, format!("{window} is less than one segment of {least}")));
            }
        }
        config.initial_window = self.initial_window.map_or(config.initial_window, segments);
        config.initial_ssthresh = self.initial_ssthresh.map_or(config.initial_ssthresh, segments);
        config.max_window = self.max_window.map_or(config.max_window, segments);
        config.send_buffer = self.send_buffer.map_or(config.send_buffer, bytes);
        let buffer = &mut config.receive_buffer;
        match (self.receive_buffer.map(bytes), self.receive_buffer_max.map(bytes)) {
            (Some(size), Some(most)) if most < size => {
                return Err(("receive_buffer_max", format!("{most} is less than receive_buffer, {size}")));
            }
            (Some(size), most) => *buffer = ReceiveBuffer { most: most.unwrap_or(size), ..ReceiveBuffer::plain(size) },
            (None, Some(most)) => (buffer.size, buffer.most) = (buffer.size.min(most), most),
            (None, None) => {}
        }
        buffer.share = self.receive_buffer_share.unwrap_or(buffer.share);
        Ok(())
    }

    /// Whether the control begins as this says.
    fn check_start(&self, config: &Config) -> Result<(), Wrong> {
        let control = config.control;
        if self.initial_window.is_some() {
            check_initial_window(control, config.initial_window)?;
        }
        if self.initial_ssthresh.is_some() && !control.begins_in_slow_start() {
            return Err(("initial_ssthresh", format!("{} begins without slow start: leave it out", control.name)));
        }
        Ok(())
    }

    /// Whether SACK, if it is asked for, is offered.
    fn check_sack(&self, config: &Config) -> Result<(), Wrong> {
        let recovery = config.recovery;
        if self.sack == Some(true) && !recovery.needs_sack {
            let text = format!(
                "recovery {} does not read it, so that no end offers it: take sack or rack, or leave it out",
                recovery.name
            );
            return Err(("sack", text));
        }
        Ok(())
    }

    /// Whether the longest timeout is above those that are set.
    fn check_timeouts(&self, config: &Config) -> Result<(), Wrong> {
        let (MinRto::Total(least) | MinRto::VarianceTerm(least)) = config.rtt.min_rto;
        let most = config.rtt.max_rto;
        if self.initial_rto.is_some() && config.rtt.initial_rto > most {
            return Err(("initial_rto", format!("{} is above max_rto, {most}", config.rtt.initial_rto)));
        }
        match self.max_rto {
            _ if least <= most => Ok(()),
            Some(_) if self.min_rto.is_none() => Err(("max_rto", format!("{most} is below min_rto, {least}"))),
            _ => Err(("min_rto", format!("{least} is above max_rto, {most}"))),
        }
    }

    fn choose_rules(&self, config: &mut Config) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut config.options.timestamps, self.timestamps);
        set(&mut config.options.window_scaling, self.window_scaling);
        set(&mut config.options.sack, self.sack);
        set(&mut config.ecn, self.ecn.map(Ecn::from));
        set(&mut config.accurate_ecn, self.accurate_ecn);
        set(&mut config.accurate_ecn_option, self.accurate_ecn_option);
        set(&mut config.pacing, self.pacing);
        set(&mut config.options.dsack, self.dsack);
        set(&mut config.limited_transmit, self.limited_transmit);
        set(&mut config.proportional_rate_reduction, self.proportional_rate_reduction);
        set(&mut config.restart_after_idle, self.restart_after_idle);
        config.slow_start_limit = self.slow_start_limit.or(config.slow_start_limit);
        set(&mut config.growth_counts_acks, self.growth_counts_acks);
        set(&mut config.grow_when_not_limited, self.grow_when_not_limited);
        set(&mut config.bare, self.bare);
        set(&mut config.max_expiries, self.max_expiries);
        set(&mut config.rtt.initial_rto, self.initial_rto.map(|time| time.0));
        set(&mut config.rtt.max_rto, self.max_rto.map(|time| time.0));
        if let Some(least) = self.min_rto {
            config.rtt.min_rto = match config.rtt.min_rto {
                MinRto::Total(_) => MinRto::Total(least.0),
                MinRto::VarianceTerm(_) => MinRto::VarianceTerm(least.0),
            };
        }
        if let Some(AckPolicy { every, delay, quick }) = &self.delayed_ack {
            set(&mut config.acks.every, *every);
            set(&mut config.acks.delay, delay.map(|time| time.0));
            set(&mut config.acks.quick, *quick);
        }
        config.resume = self.resume.as_ref().map(|path| SavedPath { cwnd: path.window.0, rtt: path.rtt.0 });
        config.capacity = self.capacity.as_ref().map(|capacity| tcp::Capacity {
            allocation: Allocation::new(capacity.rate.0, capacity.connections.unwrap_or(1)),
            rtt: capacity.rtt.0,
            target_queue: capacity.target_queue.as_ref().map_or(units::Duration::ZERO, |queue| queue.0),
        });
    }

    fn choose_tuning(&self, config: &mut Config) {
        let Some(given) = &self.tuning else { return };
        let tuning = &mut config.tuning;
        if let Some([alpha, beta, gamma]) = given.vegas.as_deref() {
            tuning.vegas = [*alpha, *beta, *gamma];
        }
        tuning.westwood_tau = given.westwood_tau.map_or(tuning.westwood_tau, |time| time.0);
        tuning.tibet.0 = given.tibet_pole.unwrap_or(tuning.tibet.0);
        tuning.tibet.1 = given.tibet_time.map_or(tuning.tibet.1, |time| time.0);
        tuning.hybla_rtt0 = given.hybla_rtt0.map_or(tuning.hybla_rtt0, |time| time.0);
        tuning.vegas_base_window = given.vegas_base_window.map(|time| time.0).or(tuning.vegas_base_window);
        tuning.slow_start_exit = given.slow_start_exit.map(tcp::SlowStartExit::from).or(tuning.slow_start_exit);
        tuning.clock_phase = given.clock_phase.map(|time| time.0).or(tuning.clock_phase);
        tuning.header_share = given.header_share.unwrap_or(tuning.header_share);
    }
}
