//! A window of segments in round trips: slow start over a link without losses, segment by segment.
//!
//! It knows what a closed form of rounds leaves out (the segment at the end of a round, the line rate reached in the
//! middle of one) and nothing that needs a simulator: no queue that overflows, no timers.

use scenario::Scenario;
use sim::{Application, Traffic};
use units::{Bytes, Rate};

/// Headers of a segment with timestamps: IPv4 and TCP.
const HEADERS: u64 = 52;

/// A file over TCP over an idle link, every segment acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// What is sent.
    pub size: Bytes,
    /// Payload of a full segment, in bytes.
    pub mss: u64,
    /// What the link layer adds to a packet.
    pub overhead: Bytes,
    /// The congestion window at the start, in segments.
    pub initial_window: u64,
    /// The largest window.
    pub window: Bytes,
    /// Of the link.
    pub rate: Rate,
    /// Of an idle link without the time of transmission, in seconds.
    pub rtt: f64,
}

impl Transfer {
    /// The first flow of `scenario`, over its first link; none if that is not a file over TCP over a link with a rate.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let Traffic::Tcp { client, server, application } = &scenario.flows.first()?.traffic else { return None };
        let Application::Bulk { size: Some(size), .. } = application else { return None };
        let [there, back, ..] = scenario.network.directions() else { return None };
        let buffer = server.receive_buffer;
        Some(Self {
            size: *size,
            mss: client.mss.into(),
            overhead: there.config.overhead,
            initial_window: client.initial_window as u64,
            window: Bytes::new((buffer.size.as_u64() as f64 * buffer.share) as u64),
            rate: there.config.rate?,
            rtt: (there.config.delay + back.config.delay).as_secs_f64(),
        })
    }

    /// For each segment the time in seconds from the established connection to its acknowledgement at the sender. In slow
    /// start each acknowledgement opens the window by a segment, up to the largest.
    pub fn acknowledgements(&self) -> Vec<f64> {
        let transmission = (self.mss + HEADERS + self.overhead.as_u64()) as f64 * 8.0 / self.rate.as_bps() as f64;
        let most = (self.window.as_u64() / self.mss).max(1);
        let mut acknowledged: Vec<f64> = Vec::new();
        // Acknowledgements that the sender has seen, and when the link is idle again.
        let (mut seen, mut idle) = (0, 0.0_f64);
        for segment in 0..self.size.as_u64().div_ceil(self.mss) {
            while seen + most.min(self.initial_window + seen) <= segment {
                seen += 1;
            }
            let sent = seen.checked_sub(1).map_or(0.0, |last| acknowledged[last as usize]);
            idle = idle.max(sent) + transmission;
            acknowledged.push(idle + self.rtt);
        }
        acknowledged
    }

    /// From the established connection to the last acknowledgement at the sender, in seconds.
    pub fn time(&self) -> f64 {
        self.acknowledgements().last().copied().unwrap_or(0.0)
    }

    /// Bytes acknowledged at the sender by `time` (seconds since the connection was established).
    pub fn acknowledged_by(&self, time: f64) -> f64 {
        let segments = self.acknowledgements().iter().take_while(|at| **at <= time).count() as u64;
        (segments * self.mss).min(self.size.as_u64()) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Transfer = Transfer {
        size: Bytes::new(102_400),
        mss: 1448,
        overhead: Bytes::ZERO,
        initial_window: 1,
        window: Bytes::new(1 << 20),
        rate: Rate::from_bps(2_048_000),
        rtt: 0.57,
    };

    /// By hand: rounds of slow start, and before them the handshake; half a round trip less to the receiver's last byte.
    #[test]
    fn short_files_take_rounds() {
        for (initial_window, seconds) in [(1, 4.36), (2, 3.79), (4, 3.22), (6, 2.75), (8, 2.67), (10, 2.59)] {
            let time = Transfer { initial_window, ..FILE }.time() + FILE.rtt - FILE.rtt / 2.0;
            assert!((time - seconds).abs() < 0.01, "{initial_window}: {time}");
        }
    }

    #[test]
    fn long_files_take_windows_or_the_line_rate() {
        let long = Transfer { size: Bytes::new(11_000_000), ..FILE };
        let windowed = Transfer { window: Bytes::new(32 << 10), ..long }.time();
        assert!((windowed / (11e6 / (22.0 * 1448.0) * 0.576) - 1.0).abs() < 0.02, "{windowed}");
        let at_line_rate = long.time();
        let line = 11e6 * 1500.0 / 1448.0 * 8.0 / 2.048e6;
        assert!(at_line_rate > line && at_line_rate < line + 8.0 * 0.57 + 0.6, "{at_line_rate}");
    }

    #[test]
    fn what_is_acknowledged_grows_to_the_whole() {
        assert_eq!(FILE.acknowledged_by(0.57), 0.0);
        assert_eq!(FILE.acknowledged_by(0.58), 1448.0);
        assert_eq!(FILE.acknowledged_by(100.0), 102_400.0);
    }
}
