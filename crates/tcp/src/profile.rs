//! What a profile makes an endpoint do that is no constant of a [`crate::Config`]: rules, as values, in one table each. An endpoint
//! follows its rules and does not ask for the profile.

use units::Duration;

/// Where a set of constants and rules comes from. A profile fills a [`crate::Config`]; each constant can then be changed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The standards track: RFC 5681, 6298, 6582, 6675, 6928, 7323.
    Rfc,
    /// Linux 6.x.
    Linux,
    /// The one-way TCP agents of ns-2 2.35: no options on the wire, no third segment of the handshake, no FIN, timers in
    /// ticks of 10 ms.
    Ns2,
}

impl Profile {
    /// The rules of its endpoints.
    #[inline]
    pub(crate) const fn rules(self) -> &'static Rules {
        match self {
            Self::Rfc => &Rules::RFC,
            Self::Linux => &Rules::LINUX,
            Self::Ns2 => &Rules::NS2,
        }
    }
}

/// What endpoints of one profile do.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) handshake: HandshakeRules,
    pub(crate) sending: SendingRules,
    pub(crate) receiving: ReceivingRules,
    pub(crate) growth: GrowthRules,
    pub(crate) rack: RackRules,
    /// Which text the congestion controls follow.
    pub(crate) reading: Reading,
    /// The sender is one of ns-2's agents where it has one for the recovery and the control, and receivers delay acknowledgements as
    /// its `DelAckSink` (tcp-sink.cc, 2.35).
    pub(crate) has_ns2_agents: bool,
}

/// The handshake.
#[derive(Debug)]
pub(crate) struct HandshakeRules {
    /// So many expiries of the timer of a SYN that opens do not back it off (`tcp_syn_linear_timeouts`).
    pub(crate) linear_timeouts: u16,
    /// Expiries of the timer that a SYN that opens survives (`tcp_syn_retries`), those without backoff included.
    pub(crate) syn_expiries: u16,
    /// Expiries that a SYN that answers survives (`tcp_synack_retries`).
    pub(crate) answer_expiries: u16,
    /// A SYN that was lost lets data begin with one segment if it has left more often than this (RFC 5681, section 3.1; in Linux 6.18,
    /// `tcp_init_transfer`, if it was sent again more than once).
    pub(crate) syns_with_full_window: u16,
    /// The handshake's last segment leaves before the application learns that it is connected, and so without data.
    pub(crate) answers_alone: bool,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct SendingRules {
    /// Windows and what is in flight count segments, a part of one as a whole, rather than bytes.
    pub(crate) counts_segments: bool,
    /// The window grows by what an acknowledgement newly reports by SACK, too (`tcp_cong_avoid` takes `acked_sacked`).
    pub(crate) grows_by_sacked: bool,
    /// What is left of the window after an idle time longer than the timeout.
    pub(crate) after_idle: AfterIdle,
    /// Each retransmission of the first outstanding segment has a whole timeout, so that the loss of one is found by RACK.
    pub(crate) restarts_timer_for_first: bool,
    /// The first data segment of a connection that pacing delays what follows (`tcp_update_skb_after_send`).
    pub(crate) paces_from: u64,
    /// New data waits a moment for room for more (`tcp_tso_should_defer`).
    pub(crate) defers: bool,
    /// The slow-start threshold begins at most at the receiver's window (ns-2).
    pub(crate) starts_within_window: bool,
    /// A limit of the window can be set (Linux's route option `cwnd`).
    pub(crate) has_window_limit: bool,
    /// Reports of more duplicates than segments were sent again are of copies that the network made, and say nothing (`tcp_dsack_seen`).
    pub(crate) ignores_copies: bool,
}

/// What an idle time longer than the retransmission timeout leaves of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterIdle {
    /// The initial window (RFC 5681, section 4.1).
    InitialWindow,
    /// Half for each timeout that has passed, and `ssthresh` remembers three quarters (`tcp_cwnd_restart` of Linux).
    HalfEachTimeout,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct ReceivingRules {
    /// The window is advertised in whole units of its scale, rounded up (`__tcp_select_window`), or down.
    pub(crate) rounds_up: bool,
    /// A buffer that grows scales the window for all of its largest size (`tcp_select_initial_window`), not for the part of it that is
    /// advertised.
    pub(crate) scales_for_largest_buffer: bool,
    /// Acknowledgements of data out of order wait for one another.
    pub(crate) compresses_sacks: bool,
    /// A full segment that is pushed is acknowledged when the application has read it: the sender may wait for that
    /// (`tcp_measure_rcv_mss` and `tcp_cleanup_rbuf`, since 6.6).
    pub(crate) acknowledges_pushed: bool,
    /// The first mark of a window and the segment after it are acknowledged at once, and so is the answer to the echo: the sender's window
    /// may be one segment (`__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr`).
    pub(crate) hastens_echoes: bool,
}

/// Growth by acknowledgements, and what a loss leaves, of Reno's window and those derived from it.
#[derive(Debug)]
pub(crate) struct GrowthRules {
    /// Segments by which one acknowledgement opens the window in slow start, unless the configuration says otherwise.
    pub(crate) slow_start_limit: f64,
    /// Congestion avoidance opens the window by whole segments, each when a window of whole segments has been acknowledged
    /// (`tcp_cong_avoid_ai`): over short windows that is some per cent sooner.
    pub(crate) grows_by_whole_segments: bool,
    /// A loss halves the window in whole segments (`tcp_reno_ssthresh`), rather than what is in flight (equation 4 of RFC 5681).
    pub(crate) halves_window: bool,
    /// A timeout during a recovery lowers `ssthresh` though the recovery of the same data has done so (not in `tcp_enter_loss`).
    pub(crate) lowers_again_at_timeout: bool,
}

/// Recovery by time (RFC 8985).
#[derive(Debug)]
pub(crate) struct RackRules {
    /// A response that turns out to be needless is undone, and a timeout asks first whether it is (F-RTO, RFC 5682).
    pub(crate) undoes: bool,
    /// An original that arrives in spite of its repair shows reordering, and duplicates widen the reordering window only where it was
    /// seen (`tcp_check_sack_reordering` and `tcp_dsack_seen`), rather than always (RFC 8985, section 6.2, step 4).
    pub(crate) reads_reordering: bool,
    /// A timeout leaves alone what was sent less than a round trip ago (`tcp_enter_loss`).
    pub(crate) spares_recent: bool,
    /// A retransmission that is lost after a timeout begins a recovery.
    pub(crate) recovers_after_timeout: bool,
    /// The loss of a retransmission is a congestion of its own, for which the window is lowered again (RFC 5681, section 4.3), once for what
    /// was in flight. Linux lowers it once for a recovery.
    pub(crate) lowers_again: bool,
    /// The acknowledgement that ends a recovery counts towards the window's growth.
    pub(crate) grows_at_end: bool,
    /// The retransmission timer restarts while what arrives was sent before the first missing segment was last sent: that one may be
    /// queued behind it.
    pub(crate) waits_behind_queue: bool,
    /// A proportional reduction begins at the window and is never faster than is safe (RFC 9937), rather than at what was outstanding,
    /// with slow start below the target.
    pub(crate) reduces_window: bool,
    /// Beyond two round trips the probe of several segments waits for so long.
    pub(crate) probe_delay: Duration,
}

/// Which text a congestion control follows where its specification and Linux differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Its RFC or paper.
    Specification,
    /// Its module in Linux.
    Linux,
}

impl Rules {
    const RFC: Self = Self {
        handshake: HandshakeRules {
            linear_timeouts: 0,
            syn_expiries: 6,
            answer_expiries: 6,
            syns_with_full_window: 0,
            answers_alone: false,
        },
        sending: SendingRules {
            counts_segments: false,
            grows_by_sacked: false,
            after_idle: AfterIdle::InitialWindow,
            restarts_timer_for_first: false,
            paces_from: 0,
            defers: false,
            starts_within_window: false,
            has_window_limit: true,
            ignores_copies: false,
        },
        receiving: ReceivingRules {
            rounds_up: false,
            scales_for_largest_buffer: false,
            compresses_sacks: false,
            acknowledges_pushed: false,
            hastens_echoes: false,
        },
        growth: GrowthRules {
            slow_start_limit: 2.0,
            grows_by_whole_segments: false,
            halves_window: false,
            lowers_again_at_timeout: true,
        },
        rack: RackRules {
            undoes: false,
            reads_reordering: false,
            spares_recent: false,
            recovers_after_timeout: false,
            lowers_again: true,
            grows_at_end: false,
            waits_behind_queue: false,
            reduces_window: false,
            probe_delay: Duration::ZERO,
        },
        reading: Reading::Specification,
        has_ns2_agents: false,
    };

    const LINUX: Self = Self {
        handshake: HandshakeRules {
            linear_timeouts: 4,
            syn_expiries: 6 + 4,
            answer_expiries: 5,
            syns_with_full_window: 2,
            answers_alone: true,
        },
        sending: SendingRules {
            counts_segments: true,
            grows_by_sacked: true,
            after_idle: AfterIdle::HalfEachTimeout,
            restarts_timer_for_first: true,
            paces_from: 10,
            defers: true,
            starts_within_window: false,
            has_window_limit: true,
            ignores_copies: true,
        },
        receiving: ReceivingRules {
            rounds_up: true,
            scales_for_largest_buffer: true,
            compresses_sacks: true,
            acknowledges_pushed: true,
            hastens_echoes: true,
        },
        growth: GrowthRules {
            slow_start_limit: f64::INFINITY,
            grows_by_whole_segments: true,
            halves_window: true,
            lowers_again_at_timeout: false,
        },
        rack: RackRules {
            undoes: true,
            reads_reordering: true,
            spares_recent: true,
            recovers_after_timeout: true,
            lowers_again: false,
            grows_at_end: true,
            waits_behind_queue: true,
            reduces_window: true,
            probe_delay: Duration::from_millis(2),
        },
        reading: Reading::Linux,
        has_ns2_agents: false,
    };

    /// What is no agent of ns-2 follows the standards.
    const NS2: Self = Self {
        sending: SendingRules { starts_within_window: true, has_window_limit: false, ..Self::RFC.sending },
        growth: GrowthRules { slow_start_limit: 1.0, ..Self::RFC.growth },
        has_ns2_agents: true,
        ..Self::RFC
    };
}
