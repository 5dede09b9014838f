//! What a connection reports about itself.

use crate::control::{LossState, Window};
use crate::sender::Counters;
use units::Duration;

/// Where a connection stands, for traces and results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// The congestion window and slow-start threshold, in segments.
    pub window: Window,
    /// Bytes in flight as the recovery counts them.
    pub in_flight: u64,
    /// Bytes sent and not acknowledged cumulatively.
    pub flight: u64,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// The smallest round-trip time of the last five minutes (of ns-2's agents, of the connection); zero before the first sample.
    pub min_rtt: Duration,
    /// The retransmission timeout.
    pub rto: Duration,
    /// What the recovery is doing.
    pub state: LossState,
    /// What the congestion control is doing.
    pub phase: &'static str,
    /// Bytes of this end's data that are acknowledged.
    pub acknowledged: u64,
    /// Bytes of the peer's data that have arrived in order.
    pub received: u64,
    /// Bytes of the peer's data that arrived more than once.
    pub duplicate_bytes: u64,
    /// What the sender has done.
    pub counters: Counters,
}
