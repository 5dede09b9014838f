//! What several files measure in.

/// A full packet.
pub(super) const PACKET: f64 = 1500.0;

/// A packet: when it was sent, and how many bytes had entered the link with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: f64,
    pub(super) position: f64,
}

/// The round-trip time, smoothed, and how far it varies.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    pub(super) smoothed: f64,
    pub(super) variation: f64,
}

impl RoundTrip {
    pub(super) fn sample(&mut self, seconds: f64) {
        self.variation += 0.25 * ((seconds - self.smoothed).abs() - self.variation);
        self.smoothed += 0.125 * (seconds - self.smoothed);
    }
}

/// What a link carried, in bytes per second, when its queue grew just after trains had found more, and what they had found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    pub(super) rate: f64,
    pub(super) found: f64,
}
