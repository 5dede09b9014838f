//! What the emulator says about a run.

use hdrhistogram::Histogram;
use link::Tally;
use link::dama::Totals;
use serde::Serialize;
use units::Rate;

/// Both directions of a run, so far or at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How long it has run, in seconds.
    pub wall_s: f64,
    /// Processor time that the emulator used for it, in seconds.
    pub cpu_s: f64,
    /// Whether it ran with a real-time priority; if not, a busy host makes it late.
    pub has_priority: bool,
    /// From the first interface to the second.
    pub up: DirectionReport,
    /// From the second interface to the first.
    pub down: DirectionReport,
}

/// The outcome of the packets of one direction. Sizes are those of IP packets.
/// `offered + duplicated = delivered + dropped (but for receive_overrun, unsupported, no_terminal and link_local) + in_transit`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionReport {
    /// The interface from which it takes packets.
    pub from: String,
    /// The interface to which it gives them.
    pub to: String,
    /// Packets of wire size that came.
    pub offered: Tally,
    /// Copies that the link made.
    pub duplicated: Tally,
    /// Packets that left, copies included.
    pub delivered: Tally,
    /// Those that were dropped.
    pub dropped: Dropped,
    /// Packets that the queue marked (CE), whether they left, were lost afterwards or are on their way.
    pub marked: Tally,
    /// Packets that the link held back for others to overtake.
    pub reordered: Tally,
    /// Packets still on their way.
    pub in_transit_packets: u64,
    /// Frames of address resolution, which cross at once and count nowhere else.
    pub exempt_frames: u64,
    /// How much later than the model the packets left.
    pub lateness_us: Lateness,
    /// How long packets were on the link, by the model.
    pub transit_us: Transit,
    /// The terminals that share the carrier, if that is what the direction goes through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<TerminalReport>,
}

/// What a terminal of a carrier was given, and what it used of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TerminalReport {
    /// What it is called.
    pub name: String,
    /// What its latest plan gives it, whatever for.
    pub allocated: Rate,
    /// All superframes that are over.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Why packets were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Dropped {
    /// The link's queue was full.
    pub queue_full: Tally,
    /// Packets had waited too long, as the queue's management found (CoDel).
    pub queue_delay: Tally,
    /// They exceeded the policer's rate.
    pub policed: Tally,
    /// The link lost it.
    pub loss: Tally,
    /// The emulator's bound on memory was reached.
    pub memory_limit: Tally,
    /// It is longer than the MTU of the interface that it was to leave by.
    pub oversize: Tally,
    /// The host refused to send it, for example because the interface is down.
    pub send_failed: Tally,
    /// Frames that came faster than they could be received: the emulator was too slow. Never offered to the link.
    pub receive_overrun: u64,
    /// Super-packets of a kind that cannot be cut, frames too long or too short, and, where terminals are distinguished, frames without
    /// an IP address. Never offered to the link.
    pub unsupported: u64,
    /// Where terminals are distinguished, packets of addresses in no terminal's networks. Never offered to the link.
    pub no_terminal: u64,
    /// The same, from link-local addresses or none yet, or to all or a multicast group. Never offered to the link.
    pub link_local: u64,
}

impl Dropped {
    /// Packets that the emulator dropped though the link would not, by reason: with any, something else was measured.
    pub fn by_emulator(&self) -> Vec<(&'static str, u64)> {
        let mut drops = vec![
            ("receive_overrun", self.receive_overrun),
            ("memory_limit", self.memory_limit.packets),
            ("unsupported", self.unsupported),
            ("oversize", self.oversize.packets),
            ("send_failed", self.send_failed.packets),
        ];
        drops.retain(|(_, packets)| *packets > 0);
        drops
    }
}

/// Percentiles of actual departure less the model's, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Lateness {
    /// Half of the packets were less late.
    pub p50: f64,
    /// 99 of 100 packets were less late.
    pub p99: f64,
    /// 999 of 1000 packets were less late.
    pub p999: f64,
    /// No packet was later.
    pub max: f64,
}

impl Lateness {
    /// From a histogram of nanoseconds.
    pub(crate) fn from_histogram(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Self {
            p50: micros(histogram.value_at_quantile(0.5)),
            p99: micros(histogram.value_at_quantile(0.99)),
            p999: micros(histogram.value_at_quantile(0.999)),
            max: micros(histogram.max()),
        }
    }
}

/// Percentiles of the time from a packet's arrival to its departure by the model, in microseconds: waiting in the queue, the
/// time that its bytes take, propagation, and what holds packets back.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Transit {
    /// Half of the packets were quicker.
    pub p50: f64,
    /// 95 of 100 packets were quicker.
    pub p95: f64,
    /// 99 of 100 packets were quicker.
    pub p99: f64,
    /// No packet was slower.
    pub max: f64,
}

impl Transit {
    /// From a histogram of microseconds.
    pub(crate) fn from_histogram(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64;
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: histogram.max() as f64 }
    }
}
