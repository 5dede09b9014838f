//! How an endpoint behaves, as data.

use crate::packet::{HEADERS, PROTECTION, STREAM_HEADER};
use std::sync::Arc;
use tcp::{ControlKind, Profile, RecoveryKind, Tuning};
use units::{Bytes, Duration, Ecn};

/// One end of a connection. Shared by the connections that behave alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What sizes the window. `reno` is NewReno of RFC 9002.
    pub control: &'static ControlKind,
    /// Constants of single controls.
    pub tuning: Tuning,
    /// IP bytes of a full packet, from [`SMALLEST_PACKET`]: headers of IP and UDP, header and tag of QUIC and the frame's header
    /// ([`MAX_DATAGRAM_OVERHEAD`]), and payload.
    pub packet_size: u16,
    /// The window at the start, in full packets; at least two.
    pub initial_window: f64,
    /// The window that each end gives its peer for the stream.
    pub stream_window: FlowWindow,
    /// The window that each end gives its peer for the connection, which has no other stream.
    pub connection_window: FlowWindow,
    /// Bytes that may wait in the send buffer, unacknowledged ones included.
    pub send_buffer: Bytes,
    /// How long a receiver may keep an acknowledgement back (RFC 9000, section 13.2.1).
    pub max_ack_delay: Duration,
    /// After so many packets that ask for one, an acknowledgement leaves at once (RFC 9000, section 13.2.2).
    pub ack_every: u32,
    /// A packet is lost when one sent so many numbers later is acknowledged (kPacketThreshold).
    pub packet_threshold: u64,
    /// A packet is lost when a later one is acknowledged and so many round trips have passed (kTimeThreshold).
    pub time_threshold: f64,
    /// Data leave paced (RFC 9002, section 7.7). A control that paces does so in any case.
    pub pacing: bool,
    /// The client sends data with its first packets, as to a server that it knows.
    pub zero_rtt: bool,
    /// The codepoint of packets; [`Ecn::NotCapable`] offers none.
    pub ecn: Ecn,
    /// The connection fails when for so long nothing answers what asks for an answer; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// The seed of what a control draws at random.
    pub seed: u64,
}

/// What a receiver lets its peer send beyond what the application has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowWindow {
    /// At the start.
    pub size: Bytes,
    /// It doubles, up to this, while half of it is read in less than two round trips; equal to `size`: it stays.
    pub most: Bytes,
}

/// The least packet size: datagrams of 1,200 bytes, which every path of QUIC carries (RFC 9000, section 14), with the headers of IPv4
/// and UDP.
pub const SMALLEST_PACKET: u16 = 1200 + HEADERS as u16;

/// Bytes of a full packet that are no payload: IPv4 (20) and UDP (8), a short header with a connection identifier of 8 bytes and a
/// packet number of 4 (13), the tag of the AEAD (16), and the header of a STREAM frame (12). Where the packet also carries an
/// acknowledgement, its payload is shorter by that.
pub const MAX_DATAGRAM_OVERHEAD: u16 = (HEADERS + PROTECTION + STREAM_HEADER) as u16;

/// What is wrong with a configuration, and how to mend it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The control takes its window from a layer below that QUIC does not hear.
    #[error(
        "control `{control}` takes its window from the layer below, which QUIC does not hear: take another control"
    )]
    NeedsCapacity {
        /// The control's name.
        control: &'static str,
    },
    /// The control answers to marks, which nobody sets.
    #[error("control `{control}` answers to marks: give `ecn`{}", if *.needs_l4s { " as `ect1`" } else { "" })]
    NeedsEcn {
        /// The control's name.
        control: &'static str,
        /// Whether it answers to early marks.
        needs_l4s: bool,
    },
    /// A value is out of its range.
    #[error("`{key}` must be {range}, not {value}")]
    Range {
        /// The field.
        key: &'static str,
        /// What it may be.
        range: &'static str,
        /// What it is.
        value: String,
    },
}

impl Default for Config {
    /// NewReno with the constants of RFC 9002, packets of 1,500 bytes, and windows of flow control that do not matter.
    fn default() -> Self {
        let control = ControlKind::by_name("reno").expect("the control of RFC 9002");
        let window = FlowWindow::fixed(Bytes::new(1 << 30));
        let mut config = Self {
            control,
            tuning: Tuning::default(),
            packet_size: 1500,
            initial_window: 0.0,
            stream_window: window,
            connection_window: window,
            send_buffer: Bytes::new(u64::MAX / 4),
            max_ack_delay: Duration::from_millis(25),
            ack_every: 2,
            packet_threshold: 3,
            time_threshold: 9.0 / 8.0,
            pacing: true,
            zero_rtt: false,
            ecn: Ecn::NotCapable,
            idle_timeout: Some(Duration::from_secs(30)),
            seed: 0,
        };
        config.initial_window = config.recommended_window();
        config
    }
}

impl FlowWindow {
    /// A window that stays as it is.
    pub const fn fixed(size: Bytes) -> Self {
        Self { size, most: size }
    }
}

impl Config {
    /// Payload of UDP in a full packet (max_datagram_size): what windows count.
    pub fn max_datagram_size(&self) -> u32 {
        u32::from(self.packet_size) - HEADERS
    }

    /// The initial window of RFC 9002, section 7.2, in packets: ten, but at most 14,720 bytes or two packets.
    pub fn recommended_window(&self) -> f64 {
        let size = self.max_datagram_size();
        f64::from((10 * size).min((2 * size).max(14_720))) / f64::from(size)
    }

    /// Payload of a packet that carries nothing else.
    pub fn payload(&self) -> u32 {
        u32::from(self.packet_size - MAX_DATAGRAM_OVERHEAD)
    }

    /// Whether a connection can run with this.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn validate(&self) -> Result<(), Fault> {
        let range = |key, range, value: String| Err(Fault::Range { key, range, value });
        if self.packet_size < SMALLEST_PACKET {
            return range("packet_size", "from 1228B to 65535B", format!("{}B", self.packet_size));
        }
        if !(2.0..=1e6).contains(&self.initial_window) {
            return range("initial_window", "from 2 packets to 1000000", format!("{} packets", self.initial_window));
        }
        for (key, window) in [("stream_window", self.stream_window), ("connection_window", self.connection_window)] {
            if window.size < Bytes::new(u64::from(self.packet_size)) || window.most < window.size {
                let value = format!("{} and at most {}", window.size, window.most);
                return range(key, "at least one packet, and not above its maximum", value);
            }
        }
        if self.ack_every == 0 || self.packet_threshold == 0 {
            let key = if self.ack_every == 0 { "ack_every" } else { "packet_threshold" };
            return range(key, "at least 1", "0".to_owned());
        }
        if !(1.0..=16.0).contains(&self.time_threshold) {
            return range("time_threshold", "from 1 to 16", self.time_threshold.to_string());
        }
        if self.max_ack_delay > Duration::from_secs(16) {
            return range("max_ack_delay", "at most 16s", self.max_ack_delay.to_string());
        }
        if ["assigned", "cross-layer"].contains(&self.control.name) {
            return Err(Fault::NeedsCapacity { control: self.control.name });
        }
        let (control, needs_l4s) = (self.control.name, self.control.needs_l4s());
        if needs_l4s && self.ecn != Ecn::Ect1 || self.control.reads_share_of_marks() && !self.ecn.is_capable() {
            return Err(Fault::NeedsEcn { control, needs_l4s });
        }
        Ok(())
    }

    /// What a control of the crate `tcp` reads, for segments that are full packets and growth by bytes, without a limit for each
    /// acknowledgement (RFC 9002, section 7.3).
    pub(crate) fn for_control(&self) -> tcp::Config {
        tcp::Config {
            mss: self.max_datagram_size(),
            control: self.control,
            recovery: RecoveryKind::by_name("rack").expect("the recovery of RFC 8985"),
            initial_window: self.initial_window,
            slow_start_limit: Some(f64::INFINITY),
            pacing: self.pacing,
            tuning: self.tuning,
            ecn: self.ecn,
            accurate_ecn: self.ecn.is_capable(),
            seed: self.seed,
            ..tcp::Config::new(Profile::Rfc)
        }
    }

    /// Whether connections of this configuration draw anything at random, and differ by their [seed](Config::seed).
    pub fn draws(&self) -> bool {
        self.for_control().draws()
    }

    /// The same with another seed, where that matters.
    pub fn seeded(self: &Arc<Self>, seed: u64) -> Arc<Self> {
        if self.draws() { Arc::new(Self { seed, ..Self::clone(self) }) } else { Arc::clone(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_is_that_of_rfc_9002() {
        for (packet_size, bytes) in [(1228, 12_000), (1500, 14_720), (1528, 14_720), (9_028, 18_000)] {
            let config = Config { packet_size, ..Config::default() };
            let window = config.recommended_window() * f64::from(config.max_datagram_size());
            assert_eq!(window.round() as u32, bytes, "{packet_size}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let control = |name| ControlKind::by_name(name).expect("known");
        let fault = |config: Config| config.validate().unwrap_err().to_string();
        assert_eq!(Config::default().validate(), Ok(()));
        assert!(fault(Config { packet_size: 1200, ..Config::default() }).contains("`packet_size`"));
        assert!(fault(Config { control: control("assigned"), ..Config::default() }).contains("layer below"));
        assert!(fault(Config { control: control("prague"), ecn: Ecn::Ect0, ..Config::default() }).contains("`ect1`"));
        assert!(fault(Config { control: control("dctcp"), ..Config::default() }).contains("give `ecn`"));
        assert!(fault(Config { initial_window: f64::NAN, ..Config::default() }).contains("`initial_window`"));
        assert!(fault(Config { time_threshold: 0.5, ..Config::default() }).contains("`time_threshold`"));
    }
}
