//! The pacing rate of BBR, versions 1 and 3.

use units::{Duration, Rate};

/// Paced below the estimate, so that queues drain.
pub(super) const MARGIN: f64 = 0.99;

/// At which rate payload leaves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pacing {
    /// Bytes per second; zero while unknown.
    pub(super) rate: f64,
    has_seen_rtt: bool,
}

impl Pacing {
    /// The connection is established: so many bytes leave in a round trip, which may be known by now.
    pub(super) fn start(&mut self, bytes: f64, rtt: Option<Duration>) {
        self.spread(bytes, rtt.unwrap_or(Duration::from_millis(1)));
        self.has_seen_rtt = rtt.is_some();
    }

    /// The first round-trip time replaces what the start supposed.
    pub(super) fn on_srtt(&mut self, bytes: f64, srtt: Duration) {
        if !self.has_seen_rtt && !srtt.is_zero() {
            self.spread(bytes, srtt);
            self.has_seen_rtt = true;
        }
    }

    fn spread(&mut self, bytes: f64, rtt: Duration) {
        self.rate = bytes / rtt.as_secs_f64().max(1e-6);
    }

    /// `gain` times the bandwidth, less a margin; until the pipe has been full only upwards.
    pub(super) fn follow(&mut self, gain: f64, bandwidth: f64, is_pipe_full: bool) {
        let rate = MARGIN * gain * bandwidth;
        if is_pipe_full || rate > self.rate {
            self.rate = rate;
        }
    }

    /// The rate, once it is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        (self.rate > 0.0).then(|| Rate::from_bps((self.rate * 8.0) as u64))
    }
}
