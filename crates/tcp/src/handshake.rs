//! The SYN of one end: when it is sent again, and what its loss means for the data.

use crate::config::{Config, Profile};
use crate::segment::{Flags, Segment};
use units::{Duration, Instant};

/// The SYN of this end.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    pub(crate) is_due: bool,
    /// When it left last.
    sent_at: Instant,
    pub(crate) timeout: Option<Instant>,
    /// When it left first, as its timestamp has it.
    first_timestamp: u32,
    expiries: u16,
    /// How often the SYN has left.
    sent: u16,
    /// The handshake's last segment leaves next, without data.
    pub(crate) answers_alone: bool,
    /// What leaves before a SYN.
    pub(crate) first: Option<First>,
}

/// What leaves before all else.
#[derive(Debug)]
pub(crate) enum First {
    /// A reset with this sequence number.
    Reset(u64),
    /// The acknowledgement that was due before what has arrived since.
    Overdue(Box<Segment>),
}

/// What the handshake tells the sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The round-trip time, if it could be measured.
    pub(crate) rtt: Option<Duration>,
    /// The timer of the SYN expired: without a sample the timeout starts from 3 s (RFC 6298, section 5.7).
    pub(crate) syn_expired: bool,
    /// Data begin with one segment (RFC 5681, section 3.1).
    pub(crate) starts_from_one: bool,
}

impl Opening {
    /// A connection that waits for the handshake's last segment.
    pub(crate) const UNKNOWN: Self = Self { rtt: None, syn_expired: false, starts_from_one: false };
}

/// Linux's `tcp_syn_linear_timeouts`: so many expiries of a SYN's timer do not back it off.
const LINUX_LINEAR_TIMEOUTS: u16 = 4;
/// Linux's `tcp_synack_retries`.
const LINUX_SYN_ACK_EXPIRIES: u16 = 5;
/// Expiries of the SYN's timer that a connection survives (Linux's `tcp_syn_retries`).
const SYN_EXPIRIES: u16 = 6;

impl Handshake {
    /// Whether something leaves before all else.
    #[inline]
    pub(crate) fn has_segment(&self) -> bool {
        self.is_due || self.answers_alone || self.first.is_some()
    }

    /// The SYN is to leave for the first time.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.is_due, self.first_timestamp) = (true, ms(now));
    }

    /// The SYN leaves, as an answer to the peer's or first.
    pub(crate) fn on_sent(&mut self, now: Instant, is_answer: bool, config: &Config) {
        let is_linear = config.profile == Profile::Linux && !is_answer;
        let backoff = if is_linear { self.expiries.saturating_sub(LINUX_LINEAR_TIMEOUTS) } else { self.expiries };
        self.timeout = Some(now + (config.rtt.initial_rto * (1 << backoff)).min(config.rtt.max_rto));
        self.sent_at = now;
        self.sent += 1;
    }

    /// The timer may have expired: the SYN is due again. Returns `false` when it has been sent often enough.
    pub(crate) fn on_timer(&mut self, now: Instant, is_answer: bool, config: &Config) -> bool {
        if self.timeout.is_none_or(|at| at > now) {
            return true;
        }
        self.expiries += 1;
        let most = match (config.profile, is_answer) {
            (Profile::Linux, true) => LINUX_SYN_ACK_EXPIRIES,
            (Profile::Linux, false) => SYN_EXPIRIES + LINUX_LINEAR_TIMEOUTS,
            _ => SYN_EXPIRIES,
        };
        self.is_due = self.expiries <= most;
        self.timeout = None;
        self.is_due
    }

    /// The SYN is acknowledged by `segment`.
    pub(crate) fn opening(&self, now: Instant, segment: &Segment, config: &Config) -> Opening {
        let syn_expired = self.expiries > 0;
        // Of one that was sent more than once, only the timestamp tells which is acknowledged (Karn).
        let echo =
            (config.profile == Profile::Linux && segment.has(Flags::TIMESTAMPS)).then_some(segment.timestamps.echo);
        let by_echo = echo.map(|echo| Duration::from_millis(u64::from(ms(now).wrapping_sub(echo))));
        Opening {
            rtt: if self.sent == 1 { Some(now.since(self.sent_at)) } else { by_echo },
            syn_expired,
            starts_from_one: match config.profile {
                // Linux 6.18, `tcp_init_transfer`: the SYN was sent again more than once, and the timestamp does not show
                // that the first one had arrived (`tcp_try_undo_spurious_syn`).
                Profile::Linux => syn_expired && self.sent > 2 && echo != Some(self.first_timestamp),
                _ => syn_expired,
            },
        }
    }
}

/// The time as timestamps have it.
pub(crate) fn ms(at: Instant) -> u32 {
    (at.as_nanos() / 1_000_000) as u32
}
