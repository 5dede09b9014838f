//! Pacing: packets leave at the link's rate, whatever the load.

use units::{Bytes, Duration, Instant, Rate};

/// Spaces packets so that the long-run rate is exact and bursts stay small.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    rate: Rate,
    /// Whether nothing waited to be sent when it was last looked for.
    idle: bool,
    /// When the link will have sent everything handed to it.
    next: Instant,
}

impl Pacer {
    /// The longest burst while the pace is kept.
    const BURST: Duration = Duration::from_micros(250);
    /// How much missed time may be made up for while there is something to send: a busy host comes late now and then. What
    /// is made up for waits at the link, at most this long, and keeps it busy the next time. More than the least is made up for
    /// only where that is no more than a small queue holds.
    const LATENESS: Duration = Duration::from_millis(4);
    const MOST_LATENESS: Duration = Duration::from_millis(12);
    const SMALL_QUEUE: Bytes = Bytes::new(32_000);
    const PACKET: Bytes = Bytes::new(1500);

    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, idle: true, next: Instant::ZERO }
    }

    /// The missed time that may be made up for: that of a full packet, if that is longer than a host is late.
    fn makes_up_for(&self) -> Duration {
        let lateness = || self.rate.time_to_send(Self::SMALL_QUEUE).clamp(Self::LATENESS, Self::MOST_LATENESS);
        self.rate.time_to_send(Self::PACKET).max(if self.idle { Self::BURST } else { lateness() })
    }

    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        if rate != self.rate {
            // What was handed over at the old rate takes as long as it takes at the new one.
            let backlog = self.rate.bytes_in(self.next.since(now));
            self.rate = rate;
            if backlog.as_u64() > 0 {
                self.next = now + rate.time_to_send(backlog);
            }
        }
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// When the next packet may leave.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Whether a batch that began at `now` may go on: packets due a little later may leave with it, so that on fast
    /// links one system call carries many.
    pub(crate) fn may_go_on(&self, now: Instant) -> bool {
        self.next <= now + Self::BURST
    }

    /// Nothing waits to be sent: no time is missed until something does.
    pub(crate) fn on_idle(&mut self) {
        self.idle = true;
    }

    /// Holds data back until `until` at least.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.next = self.next.max(until);
    }

    /// Makes up for `bytes` that left ahead of the pace.
    pub(crate) fn make_up(&mut self, now: Instant, bytes: Bytes) {
        self.next = self.next.max(now) + self.rate.time_to_send(bytes);
    }

    /// A train has ended: goes on at `rate`, and makes up for the `ahead` bytes by which it left ahead of that. They hold all of the
    /// train: what was handed over at its rate takes no longer at the new one.
    pub(crate) fn end_train(&mut self, now: Instant, rate: Rate, ahead: Bytes) {
        self.rate = rate;
        self.make_up(now, ahead);
    }

    /// A packet left. One that could not wait its turn pushes the next further out.
    pub(crate) fn on_sent(&mut self, now: Instant, ip_bytes: usize) {
        let from = self.next.max(now.before(self.makes_up_for()));
        self.idle = false;
        self.next = from + self.rate.time_to_send(Bytes::from(ip_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_timer_costs_nothing_and_idleness_earns_no_burst() {
        let mut pacer = Pacer::new(Rate::from_bps(6_000_000));
        let mut now = Instant::from_nanos(1_000_000_000);
        let start = now;
        for k in 0..1000u64 {
            assert!(pacer.is_ready(now));
            pacer.on_sent(now, 1500);
            now = pacer.next() + Duration::from_micros(k % 2000);
        }
        let lag = now.since(start + Duration::from_millis(2000));
        assert!(lag < Duration::from_millis(4), "{lag}");
        now += Duration::from_millis(20);
        assert_eq!(burst(&mut pacer, now), 7, "one packet, and what may be missed by a host that is late");
        now += Duration::from_secs(5);
        pacer.on_idle();
        assert_eq!(burst(&mut pacer, now), 2, "one packet, and one for a timer's lateness");
    }

    #[test]
    fn trains_leave_the_long_run_rate_exact() {
        let (pace, train) = (Rate::from_bps(6_000_000), Rate::from_bps(48_000_000));
        let mut pacer = Pacer::new(pace);
        let start = Instant::from_nanos(1_000_000_000);
        let mut now = start;
        for k in 1..=2400u64 {
            now = now.max(pacer.next().before(Pacer::BURST));
            let of_train = k % 24;
            if of_train == 1 {
                pacer.set_rate(now, train);
            }
            pacer.on_sent(now, 1500);
            if of_train == 12 {
                pacer.end_train(now, pace, Bytes::new(12 * 1500 * 7 / 8));
            }
        }
        let lag = pacer.next().since(start + Duration::from_millis(4800));
        let lead = (start + Duration::from_millis(4800)).since(pacer.next());
        assert!(lag.max(lead) < Duration::from_millis(48), "{lag} {lead}");
    }

    /// Packets that leave at once.
    fn burst(pacer: &mut Pacer, now: Instant) -> usize {
        let ready = (0..10).take_while(|_| {
            let ready = pacer.is_ready(now);
            if ready {
                pacer.on_sent(now, 1500);
            }
            ready
        });
        ready.count()
    }
}
