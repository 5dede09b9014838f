//! The retransmission timer: one packet timed at a time, in ticks, with integer arithmetic.

use crate::rtt::{MinRto, RttRules};
use units::{Duration, Instant};

/// `tcpTick_`.
pub(super) const TICK: u64 = 10_000_000;

/// What bounds the timeout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// Before the first sample (`rtxcur_init_`).
    pub(super) initial: Duration,
    /// `minrto_`.
    pub(super) min: Duration,
    /// `maxrto_`.
    pub(super) max: Duration,
}

impl Bounds {
    pub(super) fn of(rules: &RttRules) -> Self {
        let (MinRto::Total(min) | MinRto::VarianceTerm(min)) = rules.min_rto;
        Self { initial: rules.initial_rto, min, max: rules.max_rto }
    }
}

/// Round-trip times and the timer that follows from them.
#[derive(Debug)]
pub(super) struct Clock {
    phase: u64,
    /// Smoothed round-trip time in eighths of a tick; 0 before the first sample.
    smoothed: i64,
    /// Its mean deviation in quarters of a tick.
    deviation: i64,
    /// The timeout in nanoseconds, not backed off.
    timeout: u64,
    /// The least and the longest timeout in nanoseconds.
    min: u64,
    max: u64,
    backoff: u64,
    /// A packet is being timed.
    timing: bool,
    /// The newest packet that was ever timed, and when it left. It may be older than the one for which `timing` was set: then the
    /// sample is taken from it.
    timed: Option<(u64, Instant)>,
    /// When the timer expires.
    expires: Option<Instant>,
    /// The smallest sample, not in ticks.
    least: Option<Duration>,
}

impl Clock {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            phase: 0,
            smoothed: 0,
            deviation: 1200 << 2,
            timeout: bounds.initial.as_nanos(),
            min: bounds.min.as_nanos(),
            max: bounds.max.as_nanos(),
            backoff: 1,
            timing: false,
            timed: None,
            expires: None,
            least: None,
        }
    }

    /// The clock ticked last so long before the start of time.
    pub(super) fn set_phase(&mut self, phase: Duration) {
        self.phase = phase.as_nanos();
    }

    /// A packet never sent before leaves.
    pub(super) fn on_new_packet(&mut self, packet: u64, now: Instant) {
        if self.timing {
            return;
        }
        self.timing = true;
        if self.timed.is_none_or(|(timed, _)| packet > timed) {
            self.timed = Some((packet, now));
        }
    }

    /// Packets before `una` have arrived: takes a sample if the timed one is among them.
    pub(super) fn on_new_ack(&mut self, una: u64, now: Instant) {
        if let Some(sent) = self.stop_timing(una) {
            self.sample(sent, now);
        }
    }

    /// As [`Clock::on_new_ack`], without taking the sample.
    pub(super) fn on_partial_ack(&mut self, una: u64) {
        let _ = self.stop_timing(una);
    }

    fn stop_timing(&mut self, una: u64) -> Option<Instant> {
        let (packet, sent) = self.timed.filter(|_| self.timing)?;
        if packet >= una {
            return None;
        }
        self.timing = false;
        self.backoff = 1;
        Some(sent)
    }

    fn sample(&mut self, sent: Instant, now: Instant) {
        let rtt = now.since(sent);
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let phase = (sent.as_nanos() + self.phase) % TICK;
        let ticks = (((rtt.as_nanos() + phase) / TICK) as i64).max(1);
        if self.smoothed == 0 {
            self.smoothed = ticks << 3;
            self.deviation = ticks << 1;
        } else {
            let error = ticks - (self.smoothed >> 3);
            self.smoothed = (self.smoothed + error).max(1);
            self.deviation = (self.deviation + error.abs() - (self.deviation >> 2)).max(1);
        }
        self.timeout = (((self.deviation << 3) + self.smoothed) >> 3) as u64 * TICK;
    }

    /// No packet is being timed any more (Karn).
    pub(super) fn forget_timing(&mut self) {
        self.timing = false;
    }

    fn value(&self) -> u64 {
        self.timeout.max(self.min).saturating_mul(self.backoff).min(self.max)
    }

    /// Doubles the timeout. Far backed off, the estimate is given up.
    pub(super) fn back_off(&mut self) {
        if self.backoff < 64 || self.value() < self.max {
            self.backoff *= 2;
        }
        if self.backoff > 8 {
            self.deviation += self.smoothed >> 3;
            self.smoothed = 0;
        }
    }

    pub(super) fn end_backoff(&mut self) {
        self.backoff = 1;
    }

    /// Starts the timer, whether or not it runs.
    pub(super) fn restart(&mut self, now: Instant) {
        self.expires = Some(now + Duration::from_nanos(self.value()));
    }

    pub(super) fn restart_if_idle(&mut self, now: Instant) {
        if self.expires.is_none() {
            self.restart(now);
        }
    }

    pub(super) fn stop(&mut self) {
        self.expires = None;
    }

    pub(super) fn expires(&self) -> Option<Instant> {
        self.expires
    }

    /// The smallest round-trip time; zero before the first sample.
    pub(super) fn least(&self) -> Duration {
        self.least.unwrap_or(Duration::ZERO)
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub(super) fn smoothed(&self) -> Duration {
        Duration::from_nanos((self.smoothed >> 3) as u64 * TICK)
    }

    /// The timeout, backed off.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.value())
    }
}
