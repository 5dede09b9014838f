//! Where a connection stands.

use tcp::Window;
use units::Duration;

/// A snapshot of one end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Congestion window and slow-start threshold, in full packets.
    pub window: Window,
    /// Bytes in flight: sent, neither acknowledged nor lost.
    pub in_flight: u64,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// The smallest round-trip time; zero before the first sample.
    pub min_rtt: Duration,
    /// The probe timeout, backed off.
    pub pto: Duration,
    /// What the control is doing.
    pub phase: &'static str,
    /// Bytes of the stream that are acknowledged from its beginning on.
    pub acknowledged: u64,
    /// Bytes of the peer's stream that arrived in order.
    pub received: u64,
    /// What it has done.
    pub counters: Counters,
}

/// What a sender has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets with payload.
    pub data_packets: u64,
    /// Those of them whose data were sent before.
    pub retransmissions: u64,
    /// Expiries of the probe timeout.
    pub ptos: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Packets found lost that were acknowledged later.
    pub spurious_losses: u64,
    /// Reductions of the window (recovery periods).
    pub recoveries: u64,
    /// Persistent congestion, established so often.
    pub persistent_congestions: u64,
}
