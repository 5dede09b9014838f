//! How one end of a connection behaves, as data.

use crate::control;
use crate::kinds::{self, ControlKind, Ns2Agent, RecoveryKind};
use crate::profile::{Profile, Rules};
use crate::rtt::RttRules;
use crate::segment::{BARE_HEADER, TIMESTAMPS_OPTION};
use units::{Bytes, Duration, Ecn, Rate};

/// One end of a connection. Shared by the connections that behave alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where the constants come from.
    pub profile: Profile,
    /// Payload of a full segment, in bytes: the MSS less the options that every segment carries.
    pub mss: u32,
    /// What finds losses and repairs them.
    pub recovery: &'static RecoveryKind,
    /// What sizes the window.
    pub control: &'static ControlKind,
    /// The window at the start, in segments.
    pub initial_window: f64,
    /// Slow-start threshold at the start, in segments; infinite by default. In the profile `ns2` at most the receiver's
    /// window, which is where ns-2 starts.
    pub initial_ssthresh: f64,
    /// Segments that the window never exceeds, as Linux's route option `cwnd` sets them; infinite by default.
    pub max_window: f64,
    /// Segments by which one acknowledgement may open the window in slow start: the L of RFC 3465. `None` for that of the profile: 2, for
    /// `linux` unlimited, for `ns2` 1; with HyStart++ at least 8, and paced unlimited (RFC 9406, section 4.2).
    pub slow_start_limit: Option<f64>,
    /// The window grows by acknowledgements rather than by bytes acknowledged (ns-2).
    pub growth_counts_acks: bool,
    /// The window grows also while it is not what limits the sender (ns-2).
    pub grow_when_not_limited: bool,
    /// Up to two segments of new data leave on the first two duplicates (RFC 3042).
    pub limited_transmit: bool,
    /// The window falls in proportion during a recovery (RFC 6937) rather than at once.
    pub proportional_rate_reduction: bool,
    /// After an idle time longer than the RTO the window falls back to the initial one (RFC 5681, section 4.1).
    pub restart_after_idle: bool,
    /// Options offered.
    pub options: Options,
    /// The codepoint of data segments where both ends use explicit congestion notification; [`Ecn::NotCapable`] offers none.
    pub ecn: Ecn,
    /// With ECN, receivers count marked packets and report the count (AccECN, RFC 9768) rather than that there were some.
    pub accurate_ecn: bool,
    /// With the counts, receivers report marked bytes in the AccECN option (RFC 9768, section 3.2.3).
    pub accurate_ecn_option: bool,
    /// Data leave at a rate that follows the window, as by Linux's `fq` and TCP's internal pacing, unless the control sets one.
    pub pacing: bool,
    /// Ranges that a SACK option reports at most: 4, or 3 beside timestamps (RFC 2018, section 3).
    pub sack_blocks: u8,
    /// When data are acknowledged.
    pub acks: AckPolicy,
    /// Round-trip times and the retransmission timer.
    pub rtt: RttRules,
    /// Bytes that may wait in the send buffer, unacknowledged ones included.
    pub send_buffer: Bytes,
    /// The receive buffer, and how much of it is advertised.
    pub receive_buffer: ReceiveBuffer,
    /// Whether the FIN and the handshake's last segment exist (ns-2's one-way agents have neither).
    pub bare: bool,
    /// Both ends are gateways of SaTPEP: windows count segments, are granted from outside
    /// ([`crate::Connection::set_granted_window`]) and may shrink; every arrival is acknowledged, and holes are reported by
    /// NACKs.
    pub satpep: bool,
    /// Expiries in a row of the timers of retransmissions and of probes of a closed window that the connection survives; ns-2's survive all. SYNs
    /// have limits of their own.
    pub max_expiries: u32,
    /// The network's capacity and the connections that share it, if a layer below reports them (cross-layer window, assigned
    /// window).
    pub capacity: Option<Capacity>,
    /// A window and round-trip time of an earlier connection over the same path (Careful Resume, RFC 9959).
    pub resume: Option<SavedPath>,
    /// What this end's host takes; nothing by default.
    pub host: HostDelays,
    /// The seed of what a connection draws at random: BBR's probing, the phase of the clock of ns-2's agents.
    pub seed: u64,
    /// Constants of single algorithms.
    pub tuning: Tuning,
}

/// Times that a host takes for its part of a connection, besides what the network takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDelays {
    /// From the end of the handshake to the first data: what the application takes to learn of it and to write.
    pub first_write: Duration,
    /// At most from the arrival of an acknowledgement to what it lets leave, at random. Acknowledgements come at the pace at
    /// which the bottleneck sends: without such a delay every segment arrives at its queue just when another leaves (phase
    /// effects: Floyd and Jacobson, Internetworking 3(3), 1992; `overhead_` of ns-2).
    pub wake: Duration,
    /// More of it for an acknowledgement before which nothing came for [`HostDelays::IDLE`]: the host's processor sleeps.
    pub idle_wake: Duration,
    /// Tells series of random delays apart under one seed.
    pub stream: u64,
}

impl HostDelays {
    /// A host to which nothing comes for so long sleeps.
    pub const IDLE: Duration = Duration::from_millis(10);
}

/// TCP options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Timestamps (RFC 7323), 12 bytes in every segment.
    pub timestamps: bool,
    /// Window scaling (RFC 7323); without it no more than 65,535 bytes are advertised.
    pub window_scaling: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Duplicate arrivals are reported in the first block (RFC 2883).
    pub dsack: bool,
}

/// When the receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// At the latest after so many full segments: 1 acknowledges each.
    pub every: u32,
    /// At the latest after this time.
    pub delay: Duration,
    /// So many segments at the start of a connection are acknowledged at once (Linux's quick acknowledgements), and each that
    /// opens the window of a receive buffer that grows (`tcp_grow_window`). With 0 and `every` = n it acknowledges as a host
    /// that receives n segments as one (GRO).
    pub quick: u32,
}

/// The receive buffer and the window made of it: `share` of what is free of `size`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceiveBuffer {
    /// Bytes at the start.
    pub size: Bytes,
    /// The part that is advertised: 1/2 in Linux 2.2, 3/4 in 2.4 to 3.x, about 5/8 in 6.x, 1 for a plain window.
    pub share: f64,
    /// With autotuning it grows up to this (dynamic right-sizing: Fisk and Feng 2001, Linux's `tcp_rmem[2]`), and the window
    /// from half of `size` with what arrives; without, equal to `size`.
    pub most: Bytes,
}

/// What a layer below knows of the link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// What the connections may use.
    pub allocation: Allocation,
    /// The round-trip time of propagation.
    pub rtt: Duration,
    /// The intended queueing delay (the target of RFC 6817): the window holds that much beyond one round trip.
    pub target_queue: Duration,
}

impl Capacity {
    /// Of `allocation` over a link of this round-trip time, on which nothing need wait.
    pub fn new(allocation: Allocation, rtt: Duration) -> Self {
        Self { allocation, rtt, target_queue: Duration::ZERO }
    }
}

/// What connections may use of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The capacity that they share.
    pub rate: Rate,
    /// How many they are.
    pub connections: u32,
    /// Payload a second with which this one may fill its window, if that is more than the window in a round trip.
    pub pace: Rate,
}

impl Allocation {
    /// `rate` for so many connections.
    pub fn new(rate: Rate, connections: u32) -> Self {
        Self { rate, connections, pace: Rate::ZERO }
    }
}

/// What an earlier connection learnt of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SavedPath {
    /// Bytes delivered in a round trip.
    pub cwnd: Bytes,
    /// The smallest round-trip time.
    pub rtt: Duration,
}

/// Constants of single algorithms, where a paper leaves them open or implementations differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Vegas: packets that a connection keeps queued, at least (alpha) and at most (beta), and the limit of slow start
    /// (gamma).
    pub vegas: [f64; 3],
    /// Vegas: over how long the propagation round-trip time is the smallest sample; `None` for the whole connection. Some
    /// seconds help where paths grow longer (LEO).
    pub vegas_base_window: Option<Duration>,
    /// Westwood: time constant of the bandwidth filter.
    pub westwood_tau: Duration,
    /// TIBET: the pole of the averages and the time constant of the filter.
    pub tibet: (f64, Duration),
    /// Hybla: the reference round-trip time.
    pub hybla_rtt0: Duration,
    /// SaTPEP: which NACKs are answered by retransmissions.
    pub nack: NackRule,
    /// Cross-layer window: bytes of headers for each byte of payload (K of the equation).
    pub header_share: f64,
    /// What ends slow start before a loss; `None` for what the control itself prescribes (CUBIC: HyStart in Linux,
    /// HyStart++ in RFC 9438; the others: nothing).
    pub slow_start_exit: Option<SlowStartExit>,
    /// ns-2's agents: how long before the start of time their clock of 10 ms last ticked; drawn with the seed if not given (a
    /// uniform `boot_time_` in tcp.cc).
    pub clock_phase: Option<Duration>,
}

/// What ends slow start before a loss does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowStartExit {
    /// Nothing.
    None,
    /// A train of acknowledgements, or a raised delay, as in Linux.
    LinuxHyStart,
    /// A raised delay that persists (RFC 9406).
    HyStartPlusPlus,
}

/// Which NACKs SaTPEP's sender answers: a receiver repeats them until the data are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NackRule {
    /// Figure 1 of Velenis et al. 2003 as printed. A lone hole whose retransmission is lost waits for the timer.
    Fig1Literal,
    /// Figure 1 with its errors resolved: all holes are repeated once a common count of duplicates has run out.
    Fig1,
    /// Each retransmission has a count of its own.
    PerSegment,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            vegas: [1.0, 3.0, 1.0],
            vegas_base_window: None,
            westwood_tau: Duration::from_millis(500),
            tibet: (0.99, Duration::from_secs(1)),
            hybla_rtt0: Duration::from_millis(25),
            nack: NackRule::Fig1,
            header_share: 0.0505,
            slow_start_exit: None,
            clock_phase: None,
        }
    }
}

impl Config {
    /// The constants of a profile, with SACK recovery and Reno's window over 1460-byte segments (1448 where timestamps take
    /// their 12 bytes).
    pub fn new(profile: Profile) -> Self {
        match profile {
            Profile::Rfc => Self::rfc(),
            Profile::Linux => Self::linux(),
            Profile::Ns2 => Self::ns2(),
        }
    }

    fn rfc() -> Self {
        let mss = 1448;
        Self {
            profile: Profile::Rfc,
            mss,
            recovery: &kinds::SACK,
            control: &kinds::RENO,
            initial_window: initial_window_rfc6928(mss),
            initial_ssthresh: f64::INFINITY,
            max_window: f64::INFINITY,
            slow_start_limit: None,
            growth_counts_acks: false,
            grow_when_not_limited: false,
            limited_transmit: true,
            proportional_rate_reduction: false,
            restart_after_idle: true,
            options: Options { timestamps: true, window_scaling: true, sack: true, dsack: true },
            ecn: Ecn::NotCapable,
            accurate_ecn: false,
            accurate_ecn_option: false,
            pacing: false,
            sack_blocks: 4,
            acks: AckPolicy { every: 2, delay: Duration::from_millis(200), quick: 0 },
            rtt: RttRules::rfc(),
            send_buffer: Bytes::new(u64::MAX / 4),
            receive_buffer: ReceiveBuffer::plain(Bytes::new(1 << 30)),
            bare: false,
            satpep: false,
            max_expiries: 15,
            capacity: None,
            resume: None,
            host: HostDelays::default(),
            seed: 0,
            tuning: Tuning::default(),
        }
    }

    fn linux() -> Self {
        Self {
            profile: Profile::Linux,
            recovery: &kinds::RACK,
            initial_window: 10.0,
            proportional_rate_reduction: true,
            acks: AckPolicy { every: 2, delay: Duration::from_millis(40), quick: 16 },
            rtt: RttRules::linux(),
            receive_buffer: ReceiveBuffer::linux(),
            tuning: Tuning { vegas: [2.0, 4.0, 1.0], ..Tuning::default() },
            ..Self::rfc()
        }
    }

    fn ns2() -> Self {
        Self {
            profile: Profile::Ns2,
            mss: 1460,
            initial_window: 2.0,
            growth_counts_acks: true,
            grow_when_not_limited: true,
            restart_after_idle: false,
            options: Options { timestamps: false, window_scaling: true, sack: true, dsack: false },
            sack_blocks: 3,
            acks: AckPolicy { every: 1, delay: Duration::from_millis(100), quick: 0 },
            rtt: RttRules::ns2(),
            bare: true,
            max_expiries: u32::MAX,
            receive_buffer: ReceiveBuffer::plain(Bytes::new(20 * 1460)),
            ..Self::rfc()
        }
    }

    /// Segments by which one acknowledgement may open the window in slow start: [`Config::slow_start_limit`], or what its `None` stands for.
    pub fn slow_start_limit_in_force(&self) -> f64 {
        control::slow_start_limit(self)
    }

    /// What its profile makes it do.
    #[inline]
    pub(crate) fn rules(&self) -> &'static Rules {
        self.profile.rules()
    }

    /// Whether connections of this configuration draw anything at random, and differ by their [seed](Config::seed).
    pub fn draws(&self) -> bool {
        let draws_phase = self.ns2_agent().is_some() && self.tuning.clock_phase.is_none();
        draws_phase || !self.host.wake.is_zero() || !self.control.is_deterministic()
    }

    /// The agent of ns-2 that sends, if the profile has one for this recovery and this control.
    pub(crate) fn ns2_agent(&self) -> Option<Ns2Agent> {
        if !self.rules().has_ns2_agents || !self.bare {
            return None;
        }
        Ns2Agent::of(self.control, self.recovery)
    }

    /// Whether the SYN offers SACK: a recovery that does not use it must see duplicates only. The peer's recovery has to do without it then.
    pub(crate) fn offers_sack(&self) -> bool {
        self.options.sack && self.recovery.needs_sack
    }

    /// One end of the hop between two gateways of SaTPEP (Velenis et al. 2003): 1,500-byte packets, an acknowledgement for
    /// each segment, RFC 6298's timer. The paper does not say how fine its clock is; with one of 100 ms the timer keeps
    /// clear of a round-trip time that a growing queue makes longer, as without variance it would not.
    pub fn satpep() -> Self {
        Self {
            mss: 1460,
            recovery: &kinds::NACK,
            control: &kinds::ASSIGNED,
            initial_window: 1.0,
            options: Options { timestamps: false, window_scaling: false, sack: false, dsack: false },
            acks: AckPolicy { every: 1, delay: Duration::ZERO, quick: 0 },
            rtt: RttRules { granularity: Duration::from_millis(100), ..RttRules::rfc() },
            satpep: true,
            ..Self::rfc()
        }
    }

    /// Whether a receiver that echoes marks reports each change of them at once, so that the sender knows the share of marked bytes
    /// (RFC 8257, section 3.2), rather than one mark for each window. Prague has given way to Reno where marks are echoed.
    pub(crate) fn echoes_each_mark(&self) -> bool {
        self.control.reads_share_of_marks() && !self.control.needs_l4s()
    }

    /// Bytes of headers and options of a data segment.
    pub(crate) fn data_header(&self) -> u8 {
        BARE_HEADER + if self.options.timestamps && !self.bare { TIMESTAMPS_OPTION } else { 0 }
    }

    /// The largest window that this end advertises, in segments.
    pub(crate) fn window_packets(&self) -> f64 {
        (self.receive_buffer.most.as_u64() as f64 * self.receive_buffer.share / f64::from(self.mss)).floor()
    }

    /// The slow-start threshold at the start, in segments.
    pub(crate) fn start_ssthresh(&self) -> f64 {
        if self.rules().sending.starts_within_window {
            self.initial_ssthresh.min(self.window_packets())
        } else {
            self.initial_ssthresh
        }
    }

    /// The receive buffer as the receiver has it. ns-2's agents know the window as a parameter of the sender, and their
    /// receivers never hold it back: with twice as much, what the application has not read yet does not do so here.
    pub(crate) fn buffer(&self) -> ReceiveBuffer {
        let ReceiveBuffer { size, share, most } = self.receive_buffer;
        if self.ns2_agent().is_some() {
            ReceiveBuffer { size: size + size, share, most: most + most }
        } else {
            self.receive_buffer
        }
    }

    /// Whether the receiver delays acknowledgements by the rule of ns-2's `DelAckSink` (tcp-sink.cc, 2.35).
    pub fn delays_acks_as_ns2(&self) -> bool {
        self.rules().has_ns2_agents && self.bare && self.acks.every > 1
    }

    /// Shift of the advertised window: the smallest that can express the largest window (RFC 7323, section 2.2).
    pub fn window_shift(&self) -> u8 {
        let buffer = self.buffer();
        if self.rules().receiving.scales_for_largest_buffer && buffer.size < buffer.most {
            return buffer.most.as_u64().max(1).ilog2().saturating_sub(15).min(14) as u8;
        }
        let most = (buffer.most.as_u64() as f64 * buffer.share) as u64;
        (0..14).find(|shift| most >> shift <= 65_535).unwrap_or(14)
    }
}

impl ReceiveBuffer {
    /// A buffer that is advertised whole and stays as it is.
    pub const fn plain(size: Bytes) -> Self {
        Self { size, share: 1.0, most: size }
    }

    /// Linux's: it grows from 128 KiB (`tcp_rmem`) as far as a fast satellite link may need it. Segments of 1,448 bytes take
    /// 2,304 of it, so that 5/8 are advertised (`scaling_ratio` of Linux 6.x).
    pub const fn linux() -> Self {
        Self { size: Bytes::new(128 << 10), share: 0.625, most: Bytes::new(128 << 20) }
    }
}

/// The initial window of RFC 6928, in segments: ten, but at most 14,600 bytes or two segments.
pub fn initial_window_rfc6928(mss: u32) -> f64 {
    f64::from((10 * mss).min((2 * mss).max(14_600))) / f64::from(mss)
}

/// The initial window of RFC 3390, in segments: four, but at most 4,380 bytes or two segments.
pub fn initial_window_rfc3390(mss: u32) -> f64 {
    f64::from((4 * mss).min((2 * mss).max(4_380))) / f64::from(mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_windows_are_those_of_the_rfcs() {
        for (mss, rfc3390, rfc6928) in [(1460, 4_380, 14_600), (536, 2_144, 5_360), (9_000, 18_000, 18_000)] {
            assert_eq!((initial_window_rfc3390(mss) * f64::from(mss)).round() as u64, rfc3390);
            assert_eq!((initial_window_rfc6928(mss) * f64::from(mss)).round() as u64, rfc6928);
        }
    }
}
