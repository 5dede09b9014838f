//! How a host's TCP is set up, as far as it decides how fast a transfer is.

use crate::prediction::Control;
use units::Bytes;

/// Payload of a full segment in a packet of 1500 bytes, with timestamps.
pub const MSS: f64 = 1448.0;
/// A full packet.
pub const PACKET: f64 = 1500.0;
/// The most that a window without scaling, such as every SYN's, can say (RFC 7323, section 2.2).
pub(crate) const UNSCALED_WINDOW: Bytes = Bytes::new(65_535);
/// The largest window that can be said at all (RFC 7323, section 2.3).
pub const LARGEST_WINDOW: Bytes = Bytes::new(65_535 << 14);

impl Control {
    /// All of them.
    pub const ALL: [Control; 4] = [Control::Reno, Control::Cubic, Control::Bbr, Control::Hybla];

    /// Linux's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Control::Reno => "reno",
            Control::Cubic => "cubic",
            Control::Bbr => "bbr",
            Control::Hybla => "hybla",
        }
    }

    /// The one that Linux calls `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }

    /// Whether it takes no more than its share from Reno and CUBIC on the same path.
    pub fn is_fair(self) -> bool {
        matches!(self, Control::Reno | Control::Cubic)
    }
}

/// The sizes of a socket's buffer: the three values of `tcp_rmem` and of `tcp_wmem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// What it keeps when memory is short.
    pub least: Bytes,
    /// What a new connection has.
    pub start: Bytes,
    /// What it may grow to.
    pub most: Bytes,
}

impl Buffer {
    /// A buffer of these sizes.
    pub const fn new(least: u64, start: u64, most: u64) -> Self {
        Self { least: Bytes::new(least), start: Bytes::new(start), most: Bytes::new(most) }
    }
}

impl std::fmt::Display for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.least.as_u64(), self.start.as_u64(), self.most.as_u64())
    }
}

/// Settings of both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Segments that leave before the first acknowledgement (`initcwnd` of the route).
    pub initial_window: u32,
    /// The receive buffer (`tcp_rmem`).
    pub receive: Buffer,
    /// Whether it grows with what the application reads (`tcp_moderate_rcvbuf`).
    pub grows: bool,
    /// The part of the receive buffer that is advertised as window.
    pub share: f64,
    /// The window that is advertised at first is at most so many segments (`initrwnd` of the route).
    pub initial_receive_window: Option<u32>,
    /// What may wait to be sent or acknowledged (`tcp_wmem`).
    pub send: Buffer,
    /// Whether windows above 65,535 bytes can be said (`tcp_window_scaling`).
    pub scales_windows: bool,
    /// The congestion control.
    pub control: Control,
}

impl Host {
    /// Linux 6 as it comes: CUBIC, an initial window of 10 segments, buffers that grow to 6 MiB and 4 MiB. Half of a receive
    /// buffer is sure to be advertised; since 6.6 the kernel measures how much more of it can be.
    pub const LINUX: Host = Host {
        initial_window: 10,
        receive: Buffer::new(4096, 131_072, 6_291_456),
        grows: true,
        share: 0.5,
        initial_receive_window: None,
        send: Buffer::new(4096, 16_384, 4_194_304),
        scales_windows: true,
        control: Control::Cubic,
    };

    /// Linux 2.2, as in Marchese's measurements: buffers of 64 KiB that do not grow and of which half is advertised, an
    /// initial window of 2 segments (RFC 2581), NewReno.
    pub const LINUX_2_2: Host = Host {
        initial_window: 2,
        receive: Buffer::new(4096, 65_536, 65_536),
        grows: false,
        share: 0.5,
        initial_receive_window: None,
        send: Buffer::new(4096, 65_536, 65_536),
        scales_windows: true,
        control: Control::Reno,
    };

    /// The first window that is advertised to a new connection.
    pub fn first_window(&self) -> Bytes {
        let window = self.sayable(self.window_of(self.receive.start));
        let limit = self.initial_receive_window.map(|segments| Bytes::new(u64::from(segments) * MSS as u64));
        limit.map_or(window, |limit| window.min(limit))
    }

    /// The largest window that can be advertised.
    pub fn largest_window(&self) -> Bytes {
        self.sayable(self.window_of(if self.grows { self.receive.most } else { self.receive.start }))
    }

    /// The shift of the window scale option that Linux takes for the largest receive buffer (RFC 7323: at most 14).
    pub fn window_scale(&self) -> u32 {
        if !self.scales_windows {
            return 0;
        }
        let largest = self.receive.most.max(self.receive.start).as_u64();
        largest.checked_ilog2().map_or(0, |log| log.saturating_sub(15)).min(14)
    }

    fn window_of(&self, buffer: Bytes) -> Bytes {
        Bytes::new((buffer.as_u64() as f64 * self.share) as u64)
    }

    fn sayable(&self, window: Bytes) -> Bytes {
        window.min(if self.scales_windows { LARGEST_WINDOW } else { UNSCALED_WINDOW })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_todays_linux() {
        let host = Host::LINUX;
        assert_eq!(host.first_window(), Bytes::new(65_536));
        assert_eq!(host.largest_window(), Bytes::new(3_145_728));
        assert_eq!(host.window_scale(), 7);
        let unscaled = Host { scales_windows: false, ..host };
        assert_eq!((unscaled.largest_window(), unscaled.window_scale()), (UNSCALED_WINDOW, 0));
        let limited = Host { initial_receive_window: Some(10), ..host };
        assert_eq!(limited.first_window(), Bytes::new(14_480));
        let fixed = Host { grows: false, ..host };
        assert_eq!(fixed.largest_window(), Bytes::new(65_536));
    }

    #[test]
    fn linux_2_2_advertises_half_of_its_buffer() {
        assert_eq!(Host::LINUX_2_2.largest_window(), Bytes::new(32_768));
    }

    #[test]
    fn controls_go_by_their_names() {
        for control in Control::ALL {
            assert_eq!(Control::by_name(control.name()), Some(control));
        }
        assert_eq!(Control::by_name("moon"), None);
    }
}
