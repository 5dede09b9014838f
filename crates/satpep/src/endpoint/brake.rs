//! What congestion marks on the path to a peer do (RFC 3168; RFC 9331 calls for more, and this sends ECT(0)).
//!
//! The pace is that of a link whose capacity is known, so a mark says that the path to this peer is narrower somewhere, or
//! shared with others: what is sent to the peer is held to a share of what it was sent of late (that of RFC 8511), once in a
//! round trip while marks come, and released in small steps when they do not. Other peers are sent what that leaves, and a
//! peer that reports marks that there are not harms itself alone.

use crate::pacer::Pacer;
use units::{Bytes, Duration, Instant, Rate};

/// What a peer is sent, and what marks hold it to.
pub(super) struct Brake {
    pacer: Option<Pacer>,
    /// Since when bytes are counted, and how many were sent since then.
    since: Instant,
    bytes: u64,
    /// What was sent in the interval before.
    rate: Rate,
    /// No mark reduces the rate before, and it does not recover before.
    reduces_at: Instant,
    recovers_at: Instant,
}

impl Brake {
    const REDUCTION: f64 = 0.85;
    const RECOVERY: f64 = 1.05;
    /// Steps that lead from [`Self::MIN`] to the link's pace.
    const STEPS: f64 = 100.0;
    /// However many marks come, this share of the link is left.
    const MIN: f64 = 1.0 / 64.0;

    pub(super) fn new() -> Self {
        Self {
            pacer: None,
            since: Instant::ZERO,
            bytes: 0,
            rate: Rate::ZERO,
            reduces_at: Instant::ZERO,
            recovers_at: Instant::ZERO,
        }
    }

    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.pacer.as_ref().is_none_or(|pacer| pacer.is_due(now))
    }

    /// When it lets data go again.
    pub(super) fn next(&self) -> Instant {
        self.pacer.as_ref().map_or(Instant::ZERO, Pacer::next)
    }

    /// What the peer is held to, if it is.
    #[cfg(test)]
    pub(super) fn rate(&self) -> Option<Rate> {
        self.pacer.as_ref().map(Pacer::rate)
    }

    /// A packet left for the peer, whose round trip takes `rtt`; the link's pace is `pace`.
    pub(super) fn on_sent(&mut self, now: Instant, ip_bytes: usize, rtt: Duration, pace: Rate) {
        self.bytes += ip_bytes as u64;
        let elapsed = now.since(self.since);
        if elapsed >= rtt.max(Duration::from_millis(10)) {
            self.rate = Rate::from_bps((self.bytes as f64 * 8.0 / elapsed.as_secs_f64()) as u64);
            (self.since, self.bytes) = (now, 0);
        }
        let Some(pacer) = &mut self.pacer else { return };
        pacer.on_sent(now, ip_bytes);
        if self.recovers_at <= now {
            // Also those steps in which nothing was sent.
            let missed = now.since(self.recovers_at).as_secs_f64() / rtt.as_secs_f64().max(0.001);
            self.recovers_at = now + rtt;
            let recovered = Self::RECOVERY.powf(1.0 + missed.floor().min(Self::STEPS));
            pacer.set_rate(now, pacer.rate().mul_f64(recovered));
            if pacer.rate() >= pace {
                self.pacer = None;
            }
        }
    }

    /// The peer reports new marks.
    pub(super) fn on_marked(&mut self, now: Instant, rtt: Duration, pace: Rate) {
        self.recovers_at = now + rtt;
        if now < self.reduces_at {
            return;
        }
        // What left before this reduction is still reported in the next round trip.
        self.reduces_at = now + rtt * 3 / 2;
        let elapsed = now.since(self.since).max(Duration::from_millis(1));
        let current = Rate::from_bps((self.bytes as f64 * 8.0 / elapsed.as_secs_f64()) as u64);
        let held_to = self.pacer.as_ref().map_or(pace, Pacer::rate);
        let rate = self.rate.max(current).min(held_to).mul_f64(Self::REDUCTION).max(pace.mul_f64(Self::MIN));
        match &mut self.pacer {
            Some(pacer) => pacer.set_rate(now, rate),
            None => self.pacer = Some(Pacer::new(rate.max(Rate::from_bps(8 * Bytes::new(1500).as_u64())))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(550);
    const PACE: Rate = Rate::from_bps(10_000_000);

    /// Sends for `seconds` whenever it may at the link's pace, with a mark each `marks` or none; returns the rate in bit/s.
    fn send(brake: &mut Brake, now: &mut Instant, seconds: u64, marks: Option<Duration>) -> f64 {
        let (end, mut bytes, mut next_mark) = (*now + Duration::from_secs(seconds), 0, *now);
        while *now < end {
            if let Some(every) = marks.filter(|_| next_mark <= *now) {
                next_mark = *now + every;
                brake.on_marked(*now, RTT, PACE);
            }
            if brake.is_ready(*now) {
                brake.on_sent(*now, 1500, RTT, PACE);
                bytes += 1500;
            }
            *now += PACE.time_to_send(Bytes::new(1500));
        }
        bytes as f64 * 8.0 / seconds as f64
    }

    #[test]
    fn a_mark_costs_a_share_and_it_comes_back() {
        let (mut brake, mut now) = (Brake::new(), Instant::from_nanos(1_000_000_000));
        assert!(send(&mut brake, &mut now, 5, None) > 9_900_000.0);
        brake.on_marked(now, RTT, PACE);
        let held = send(&mut brake, &mut now, 1, None);
        assert!((8_000_000.0..9_000_000.0).contains(&held), "{held}");
        send(&mut brake, &mut now, 4, None);
        assert!(brake.rate().is_none() && send(&mut brake, &mut now, 2, None) > 9_900_000.0);
    }

    #[test]
    fn what_marks_held_is_free_again_after_a_pause() {
        let (mut brake, mut now) = (Brake::new(), Instant::from_nanos(1_000_000_000));
        send(&mut brake, &mut now, 100, Some(Duration::from_millis(10)));
        assert!(brake.rate().is_some());
        now += Duration::from_secs(3600);
        brake.on_sent(now, 1500, RTT, PACE);
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn marks_all_the_time_leave_a_little() {
        let (mut brake, mut now) = (Brake::new(), Instant::from_nanos(1_000_000_000));
        send(&mut brake, &mut now, 100, Some(Duration::from_millis(10)));
        let held = send(&mut brake, &mut now, 10, Some(Duration::from_millis(10)));
        assert!((100_000.0..400_000.0).contains(&held), "{held}");
    }
}
