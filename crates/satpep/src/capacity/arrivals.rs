//! One peer's reports: when packets arrived by its clock, and so how long they queued on the way.

use units::{Duration, Instant};

/// What a report says of the newest packet that it names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// When it was sent.
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had.
    pub(crate) after: u64,
    /// When it arrived, by the peer's clock: the lowest 30 bits of its microseconds.
    pub(crate) arrived_us: u32,
    /// Packets whose outcome became known since the report before, and how many of them were acknowledged.
    pub(crate) outcomes: u32,
    pub(crate) acknowledged: u32,
}

/// A report in the light of those before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feedback {
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had.
    pub(crate) after: u64,
    /// When it arrived, by the peer's clock.
    pub(crate) arrived: Duration,
    /// How much longer it took than the fastest of late.
    pub(crate) queued: Duration,
    pub(crate) outcomes: u32,
    pub(crate) acknowledged: u32,
}

/// Unwraps a peer's clock and remembers the least delay of late.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals {
    latest: Option<(u32, u64)>,
    /// Least difference of arrival and sending in this period and the one before, in microseconds; the clocks' offset is in
    /// all of them.
    least: [Option<i64>; 2],
    period_ends: Instant,
    /// Since when every packet seemed to have queued, and the least of that.
    queued_since: Option<(Instant, i64)>,
}

impl Arrivals {
    const CLOCK_BITS: u32 = 30;
    /// The least delay is that of this and of twice this long: clocks drift apart, and satellites move.
    const PERIOD: Duration = Duration::from_secs(10);
    /// A queue of this length or less is none.
    const NO_QUEUE: i64 = 5_000;

    /// Takes a report. `patience` is how long a queue may take to drain at most once we make room: what stays longer is
    /// not ours to drain, or no queue at all but a longer way.
    pub(crate) fn take(&mut self, now: Instant, report: &Report, patience: Duration) -> Feedback {
        let arrived = self.unwrap(report.arrived_us);
        let delay = (arrived.as_nanos() / 1000) as i64 - (report.sent.as_nanos() / 1000) as i64;
        if self.period_ends <= now {
            self.period_ends = now + Self::PERIOD;
            self.least = [None, self.least[0]];
        }
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
        let least = self.least[1].map_or(delay, |least| least.min(delay)).min(self.least[0].unwrap_or(delay));
        let mut queued = delay - least;
        if queued <= Self::NO_QUEUE {
            self.queued_since = None;
        } else {
            let (since, shortest) = self.queued_since.get_or_insert((now, delay));
            *shortest = delay.min(*shortest);
            if *since + patience <= now {
                queued = delay - *shortest;
                self.least = [Some(*shortest), None];
                self.queued_since = None;
            }
        }
        let Report { sent, after, outcomes, acknowledged, .. } = *report;
        let queued = Duration::from_micros(queued.max(0) as u64);
        Feedback { sent, after, arrived, queued, outcomes, acknowledged }
    }

    /// The peer's microseconds in full, from its clock's first turn on.
    pub(crate) fn unwrap(&mut self, low: u32) -> Duration {
        const TURN: u64 = 1 << Arrivals::CLOCK_BITS;
        let full = match self.latest {
            None => TURN + u64::from(low),
            Some((before, full)) => {
                let step = u64::from(low.wrapping_sub(before)) % TURN;
                // Half a turn back rather than forth: an older packet.
                if step < TURN / 2 { full + step } else { (full + step).saturating_sub(TURN) }
            }
        };
        self.latest = Some((low, full));
        Duration::from_micros(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sent_us: u64, arrived_us: u64) -> Report {
        let sent = Instant::from_nanos(sent_us * 1000);
        let arrived_us = (arrived_us % (1 << Arrivals::CLOCK_BITS)) as u32;
        Report { sent, after: 0, arrived_us, outcomes: 1, acknowledged: 1 }
    }

    const PATIENCE: Duration = Duration::from_secs(2);

    #[test]
    fn delay_is_told_apart_from_the_offset_of_clocks_that_wrap() {
        let mut arrivals = Arrivals::default();
        let offset = (1 << 30) - 1_000_000;
        for k in 0..4000u64 {
            let (sent, queued) = (k * 1000, if k % 10 == 0 { 0 } else { 7000 });
            let now = Instant::from_nanos((sent + 500_000) * 1000);
            let feedback = arrivals.take(now, &report(sent, sent + 275_000 + queued + offset), PATIENCE);
            assert_eq!(feedback.queued, Duration::from_micros(queued), "{k}");
        }
    }

    #[test]
    fn a_delay_that_stays_is_a_longer_way() {
        let mut arrivals = Arrivals::default();
        let queued = |arrivals: &mut Arrivals, sent: u64, delay: u64| {
            arrivals.take(Instant::from_nanos(sent * 1000), &report(sent, sent + delay), PATIENCE).queued
        };
        assert_eq!(queued(&mut arrivals, 0, 20_000), Duration::ZERO);
        for k in 1..20 {
            assert_eq!(queued(&mut arrivals, k * 100_000, 50_000), Duration::from_millis(30));
        }
        queued(&mut arrivals, 2_200_000, 50_000);
        assert_eq!(queued(&mut arrivals, 2_300_000, 50_000), Duration::ZERO);
        assert_eq!(queued(&mut arrivals, 2_400_000, 20_000), Duration::ZERO);
        assert_eq!(queued(&mut arrivals, 2_500_000, 50_000), Duration::from_millis(30));
    }
}
