//! How QUIC endpoints behave, from the words of the format.

use crate::endpoint::{Wrong, check_initial_window};
use crate::format::quic as format;
use crate::text::WindowSize;
use quic::{Config, FlowWindow};
use tcp::ControlKind;
use units::{Bytes, Ecn};

/// What QUIC calls the control of RFC 9002, which TCP's knows as Reno's.
const NEWRENO: &str = "newreno";
/// Controls that other layers' knowledge sizes.
const NOT_QUIC: [&str; 2] = ["assigned", "cross-layer"];

/// The name of a control in QUIC's tables.
fn name_of(kind: &ControlKind) -> &'static str {
    if kind.name == "reno" { NEWRENO } else { kind.name }
}

/// Controls that QUIC can have, which are also the endpoints that flows can name without a table.
pub(crate) fn controls() -> impl Iterator<Item = &'static str> + Clone {
    tcp::control::CONTROLS.iter().filter(|kind| !NOT_QUIC.contains(&kind.name)).map(name_of)
}

fn control(name: &str) -> Option<&'static ControlKind> {
    tcp::control::CONTROLS.iter().find(|kind| !NOT_QUIC.contains(&kind.name) && name_of(kind) == name)
}

/// The endpoints of a flow that names a control.
pub(crate) fn preset(name: &str) -> Option<Config> {
    let control = control(name)?;
    let ecn = match (control.needs_l4s(), control.reads_share_of_marks()) {
        (true, _) => Ecn::Ect1,
        (false, true) => Ecn::Ect0,
        (false, false) => Ecn::NotCapable,
    };
    Some(Config { control, ecn, ..Config::default() })
}

/// The key of a section that `fault` is about.
fn wrong(fault: &quic::Fault) -> Wrong {
    match fault {
        quic::Fault::NeedsCapacity { .. } => ("control", fault.to_string()),
        quic::Fault::NeedsEcn { .. } => ("ecn", fault.to_string()),
        quic::Fault::Range { key, range, value } => (key, format!("it must be {range}, not {value}")),
    }
}

impl format::Quic {
    /// The endpoints that the section `name` describes.
    ///
    /// # Errors
    /// What is wrong first.
    pub(crate) fn resolve(&self, name: &str) -> Result<Config, Wrong> {
        let own = preset(name).is_some().then_some(name);
        let chosen = self.control.as_deref().or(own).unwrap_or(NEWRENO);
        if let Some(own) = own.filter(|own| *own != chosen) {
            return Err(("control", format!("{chosen} is not what {own} is: call the table otherwise")));
        }
        let mut config = preset(chosen).ok_or_else(|| ("control", format!("there is no control {chosen}")))?;
        self.choose_sizes(&mut config)?;
        config.max_ack_delay = self.max_ack_delay.map_or(config.max_ack_delay, |time| time.0);
        config.ack_every = self.ack_every.unwrap_or(config.ack_every);
        config.packet_threshold = self.packet_threshold.unwrap_or(config.packet_threshold);
        config.time_threshold = self.time_threshold.unwrap_or(config.time_threshold);
        config.pacing = self.pacing.unwrap_or(config.pacing);
        config.zero_rtt = self.zero_rtt.unwrap_or(config.zero_rtt);
        config.ecn = self.ecn.map_or(config.ecn, Ecn::from);
        config.idle_timeout = self.idle_timeout.map(|time| time.0).or(config.idle_timeout);
        config.validate().map_err(|fault| wrong(&fault))?;
        Ok(config)
    }

    fn choose_sizes(&self, config: &mut Config) -> Result<(), Wrong> {
        if let Some(size) = self.packet_size {
            let fits = u16::try_from(size.0.as_u64()).ok().filter(|size| *size >= quic::SMALLEST_PACKET);
            config.packet_size =
                fits.ok_or_else(|| ("packet_size", format!("{} is not from 1228B to 65535B", size.0)))?;
            config.initial_window = config.recommended_window();
        }
        if let Some(window) = self.initial_window {
            config.initial_window = match window.0 {
                WindowSize::Segments(packets) => f64::from(packets),
                WindowSize::Bytes(bytes) => bytes.as_u64() as f64 / f64::from(config.max_datagram_size()),
            };
            check_initial_window(config.control, config.initial_window)?;
        }
        config.send_buffer = self.send_buffer.map_or(config.send_buffer, |size| size.0);
        let size = |size: Option<document::Size>| size.map(|size| size.0);
        config.stream_window =
            flow_window(config.stream_window, size(self.stream_window), size(self.stream_window_max));
        config.connection_window =
            flow_window(config.connection_window, size(self.connection_window), size(self.connection_window_max));
        Ok(())
    }
}

/// The window of flow control of this size and this most; a most alone leaves the size where it fits.
fn flow_window(default: FlowWindow, size: Option<Bytes>, most: Option<Bytes>) -> FlowWindow {
    let size = size.unwrap_or_else(|| most.map_or(default.size, |most| default.size.min(most)));
    FlowWindow { size, most: most.unwrap_or(size) }
}
