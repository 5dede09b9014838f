//! The SYN of one end: when it is sent again, and what its loss means for the data.

use crate::config::{Config, initial_window_rfc6928};
use crate::segment::{Flags, Segment};
use crate::timestamp::{ms, since};
use units::{Duration, Instant};

/// The largest initial window of RFC 5681 (section 3.1), in segments.
const INITIAL_WINDOW_RFC5681: f64 = 4.0;

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

/// The results of the handshake for the sending half.
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
        let linear = if is_answer { 0 } else { config.rules().handshake.linear_timeouts };
        let backoff = self.expiries.saturating_sub(linear);
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
        let rules = &config.rules().handshake;
        let most = if is_answer { rules.answer_expiries } else { rules.syn_expiries };
        self.is_due = self.expiries <= most;
        self.timeout = None;
        self.is_due
    }

    /// The SYN is acknowledged by `segment`.
    pub(crate) fn opening(&self, now: Instant, segment: &Segment, config: &Config) -> Opening {
        let rules = &config.rules().handshake;
        let syn_expired = self.expiries > 0;
        // Of one that was sent more than once, only the timestamp tells which is acknowledged (RFC 7323, section 4.1).
        let echo = segment.has(Flags::TIMESTAMPS).then_some(segment.timestamps.echo);
        let by_echo = echo.map(|echo| since(now, echo));
        Opening {
            rtt: if self.sent == 1 { Some(now.since(self.sent_at)) } else { by_echo },
            syn_expired,
            starts_from_one: syn_expired && self.sent > rules.syns_with_full_window && self.seems_lost(echo, config),
        }
    }

    /// Whether the first SYN that left is taken for lost, where the timer has expired and the answer has the timestamp `echo`, if any.
    fn seems_lost(&self, echo: Option<u32>, config: &Config) -> bool {
        match echo {
            // One that was only slow is echoed (`tcp_try_undo_spurious_syn` of Linux 6.18).
            Some(echo) => echo != self.first_timestamp,
            // The first may have been slow: with the initial window of RFC 6928, one more is no loss (section 2).
            None => self.sent > 2 || !begins_as_in_rfc6928(config),
        }
    }
}

/// Whether the initial window is that of RFC 6928, which is as small as RFC 5681's where segments are large, or larger than RFC 5681's.
fn begins_as_in_rfc6928(config: &Config) -> bool {
    config.initial_window > INITIAL_WINDOW_RFC5681 || config.initial_window == initial_window_rfc6928(config.mss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::segment::{SackBlocks, Timestamps};
    use units::Ecn;

    /// The echo is rounded down to a millisecond, the time of the answer is not.
    #[test]
    fn by_its_echo_no_round_trip_is_shorter_than_it_was() {
        let config = Config::new(Profile::Linux);
        let mut handshake = Handshake::default();
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        handshake.begin(at(200));
        [200, 1_000_200].into_iter().for_each(|micros| handshake.on_sent(at(micros), false, &config));
        let answer = Segment {
            seq: 0,
            ack: 1,
            len: 0,
            window: 1000,
            timestamps: Timestamps { value: 1, echo: ms(at(1_000_200)) },
            sack: SackBlocks::default(),
            flags: Flags::SYN.with(Flags::ACK).with(Flags::TIMESTAMPS),
            header: 40,
            ecn: Ecn::NotCapable,
            ecn_bytes: Default::default(),
        };
        let rtt = handshake.opening(at(1_000_600), &answer, &config).rtt;
        assert!(rtt >= Some(Duration::from_micros(400)) && rtt < Some(Duration::from_micros(1_400)), "{rtt:?}");
    }
}
