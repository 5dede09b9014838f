//! Pacing: packets leave at the link's rate, whatever the load.
//!
//! Each time that a packet is due, those that are due a little later leave with it, so that one system call carries many. A burst is
//! bounded in time and in bytes by what a small queue at the link holds, and by what latency leaves unnoticed.

use units::{Bytes, Duration, Instant, Rate};

/// Spaces packets so that the long-run rate is exact and bursts stay small.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    rate: Rate,
    /// Whether nothing waited to be sent when it was last looked for.
    idle: bool,
    /// When the link will have sent everything handed to it.
    next: Instant,
    /// Data wait until then, so that a queue drains.
    held_until: Instant,
    /// Whether packets may leave in bursts that a queue notices, and whether they do now.
    in_bursts: bool,
    is_even: bool,
    /// When the latest burst left, and what is due before which time belongs to it.
    burst_at: Instant,
    burst_to: Instant,
    /// No burst is longer.
    longest: Duration,
}

impl Pacer {
    /// The longest burst where packets leave evenly.
    const EVEN: Duration = Duration::from_micros(250);
    /// The longest one otherwise: as long as a busy host is late in any case, or a small part of a long round trip.
    const BURST: Duration = Self::LATENESS;
    const BURST_PART: u64 = 64;
    const LONGEST_BURST: Duration = Duration::from_millis(10);
    /// A fast link's queue holds more than a small one: what it sends in this time, up to this much.
    const SHORT: Duration = Duration::from_micros(2500);
    const LARGEST_BURST: Bytes = Bytes::new(64_000);
    /// Where fewer full packets are due in that time, each of them is long: they leave one by one.
    const WORTH: u64 = 3;
    /// How much missed time may be made up for while there is something to send: a busy host comes late now and then. What
    /// is made up for waits at the link, at most this long, and keeps it busy the next time. More than the least is made up for
    /// only where that is no more than a small queue holds.
    const LATENESS: Duration = Duration::from_millis(4);
    const MOST_LATENESS: Duration = Duration::from_millis(12);
    const SMALL_QUEUE: Bytes = Bytes::new(32_000);
    const PACKET: Bytes = Bytes::new(1500);

    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            idle: true,
            next: Instant::ZERO,
            held_until: Instant::ZERO,
            in_bursts: false,
            is_even: false,
            burst_at: Instant::FAR_FUTURE,
            burst_to: Instant::ZERO,
            longest: Self::BURST,
        }
    }

    /// One whose packets leave in bursts.
    pub(crate) fn in_bursts(rate: Rate) -> Self {
        Self { in_bursts: true, ..Self::new(rate) }
    }

    /// Packets leave evenly now, or not any more.
    pub(crate) fn set_even(&mut self, is_even: bool) {
        self.is_even = is_even;
    }

    /// Whether packets leave evenly because of what [`set_even`](Self::set_even) said last.
    pub(crate) fn is_even(&self) -> bool {
        self.is_even
    }

    /// How much of what is due leaves at once; `None` where packets leave evenly.
    fn burst(&self) -> Option<Duration> {
        let is_slow = || self.rate.time_to_send(Self::PACKET * Self::WORTH) > Self::BURST;
        let is_even = !self.in_bursts || self.is_even || is_slow();
        let fits = || {
            let in_short_time = self.rate.time_to_send(Self::LARGEST_BURST).min(Self::SHORT);
            self.rate.time_to_send(Self::SMALL_QUEUE).max(in_short_time)
        };
        (!is_even).then(|| fits().min(self.longest)).filter(|burst| *burst > Self::EVEN)
    }

    /// What leaves next goes where a round trip takes `rtt`.
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.longest = Self::longest_burst(rtt);
    }

    /// How long a burst is at most where a round trip takes `rtt`.
    pub(crate) fn longest_burst(rtt: Duration) -> Duration {
        (rtt / Self::BURST_PART).clamp(Self::BURST, Self::LONGEST_BURST)
    }

    /// Whether packets leave in bursts now.
    pub(crate) fn is_bursting(&self) -> bool {
        self.burst().is_some()
    }

    /// The missed time that may be made up for: that of a full packet, if that is longer than a host is late.
    fn makes_up_for(&self) -> Duration {
        let lateness = || self.rate.time_to_send(Self::SMALL_QUEUE).clamp(Self::LATENESS, Self::MOST_LATENESS);
        self.rate.time_to_send(Self::PACKET).max(if self.idle { Self::EVEN } else { lateness() })
    }

    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        if rate != self.rate {
            // What was handed over at the old rate takes as long as it takes at the new one.
            let backlog = self.rate.bytes_in(self.next.since(now));
            if rate > self.rate && self.held_until > now {
                // A queue drains sooner than was thought.
                let left = self.rate.bytes_in(self.held_until.since(now));
                self.held_until = now + rate.time_to_send(left);
            }
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
        self.next.max(self.held_until)
    }

    /// Whether a packet is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next() <= now
    }

    /// Whether a packet may leave now, being due or belonging to a burst that has begun now. It may not any more a moment later.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.is_due(now) || (self.burst_at == now && self.held_until <= now && self.next < self.burst_to)
    }

    /// Whether a batch that began at `now` may go on: on fast links packets due a little later leave with it even where packets
    /// leave evenly.
    pub(crate) fn may_go_on(&self, now: Instant) -> bool {
        self.is_ready(now) || self.next() <= now + Self::EVEN
    }

    /// Nothing waits to be sent: no time is missed until something does.
    pub(crate) fn on_idle(&mut self) {
        self.idle = true;
    }

    /// Holds data back until `until` at least, or sooner if the rate rises.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(until);
    }

    /// Data are not held back any more.
    pub(crate) fn release(&mut self) {
        self.held_until = Instant::ZERO;
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
        let from = self.next().max(now.before(self.makes_up_for()));
        if self.is_due(now) && self.burst_at != now {
            // A burst that is late goes no further for it.
            (self.burst_at, self.burst_to) = (now, from + self.burst().unwrap_or(Duration::ZERO));
        }
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
            now = now.max(pacer.next().before(Pacer::EVEN));
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

    #[test]
    fn bursts_are_short_and_small_and_leave_the_long_run_rate_exact() {
        let short =
            [(1, 1..=1), (6, 1..=1), (10, 4..=4), (50, 17..=17), (100, 22..=22), (200, 42..=42), (1_000, 40..=44)];
        let long = [(1, 1..=1), (6, 1..=1), (10, 8..=8), (50, 22..=22), (200, 42..=42), (1_000, 40..=44)];
        let rtts = [Duration::from_millis(60), Duration::from_millis(600)];
        for (rtt, (mbps, packets)) in
            short.map(|case| (rtts[0], case)).into_iter().chain(long.map(|case| (rtts[1], case)))
        {
            let mut pacer = Pacer::in_bursts(Rate::from_bps(mbps * 1_000_000));
            pacer.set_rtt(rtt);
            let start = Instant::from_nanos(1_000_000_000);
            let (mut now, mut sent) = (start, 0);
            let first = burst(&mut pacer, now);
            assert!(first <= packets.end() + 1, "{first} at {mbps} Mbit/s");
            for _ in 0..1_000 {
                now = pacer.next() + Duration::from_micros(20);
                let left = burst(&mut pacer, now);
                assert!(packets.contains(&left), "{left} at {mbps} Mbit/s");
                sent += left;
            }
            let took = Rate::from_bps(mbps * 1_000_000).time_to_send(Bytes::from((first + sent) * 1500));
            let error = pacer.next().since(start + took).max((start + took).since(pacer.next()));
            assert!(error < Pacer::LONGEST_BURST.max(took / 1_000), "{error} at {mbps} Mbit/s");
        }
    }

    #[test]
    fn a_hold_is_as_long_as_was_said_unless_the_rate_rises() {
        let mut pacer = Pacer::new(Rate::from_bps(6_000_000));
        let now = Instant::from_nanos(1_000_000_000);
        let (soon, later) = (now + Duration::from_millis(50), now + Duration::from_millis(100));
        pacer.hold(later);
        pacer.set_rate(now, Rate::from_bps(120_000));
        assert_eq!(pacer.next(), later, "at a lower rate");
        pacer.hold(soon);
        assert_eq!(pacer.next(), later, "a shorter hold");
        pacer.set_rate(now, Rate::from_bps(240_000));
        assert_eq!(pacer.next(), soon, "at twice the rate");
        pacer.release();
        assert!(pacer.is_ready(now));
    }

    #[test]
    fn no_burst_follows_a_hold_or_belongs_to_an_even_pace() {
        let mut pacer = Pacer::in_bursts(Rate::from_bps(50_000_000));
        let now = Instant::from_nanos(1_000_000_000);
        pacer.on_sent(now, 1500);
        assert!(pacer.is_ready(now));
        pacer.hold(now + Duration::from_millis(1));
        assert!(!pacer.is_ready(now));
        pacer.set_even(true);
        let now = pacer.next();
        assert_eq!(burst(&mut pacer, now), 1);
        assert!(pacer.may_go_on(now), "the next is due 240 us later");
    }

    /// Packets that leave at once.
    fn burst(pacer: &mut Pacer, now: Instant) -> usize {
        let ready = (0..100).take_while(|_| {
            let ready = pacer.is_ready(now);
            if ready {
                pacer.on_sent(now, 1500);
            }
            ready
        });
        ready.count()
    }
}
