//! How much of the satellite link cross traffic takes: what enters the link, less what the session has sent.

use units::{Bytes, Duration, Instant, Rate};

/// How often the link's counter is to be read.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Weight of the newest reading: the estimate follows a change within about half a second.
const GAIN: f64 = 0.3;

/// A smoothed rate of cross traffic, from readings of the link's counter.
#[derive(Debug, Clone, Default)]
pub struct CrossTraffic {
    last: Option<Reading>,
    /// Bytes that the session had sent by the last reading and that the link had not counted yet.
    uncounted: u64,
    smoothed_bps: f64,
    /// Bytes that others have sent in all.
    total: u64,
}

/// Both counters at one time, in IP bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// What has entered the link in all.
    pub link: u64,
    /// What the session has sent in all.
    pub own: u64,
}

impl CrossTraffic {
    /// Takes the next reading.
    pub fn take(&mut self, now: Reading) {
        if let Some(last) = self.last.replace(now) {
            let (others, uncounted) = others(last, now, self.uncounted);
            self.uncounted = uncounted;
            self.total += others;
            let bps = Rate::from_transfer(Bytes::new(others), now.at.since(last.at)).as_bps() as f64;
            self.smoothed_bps += GAIN * (bps - self.smoothed_bps);
        }
    }

    /// The link's counter starts again: the next reading has none to be compared with.
    pub fn restart(&mut self) {
        (self.last, self.uncounted) = (None, 0);
    }

    /// IP bytes of cross traffic in all readings so far.
    pub fn total(&self) -> Bytes {
        Bytes::new(self.total)
    }

    /// The smoothed rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.smoothed_bps as u64)
    }
}

/// Bytes that others have sent between two readings, given those of the session that the link had yet to count at the first; and
/// those that it has yet to count at the second.
fn others(last: Reading, now: Reading, uncounted: u64) -> (u64, u64) {
    let all = now.link.saturating_sub(last.link);
    let own = now.own.saturating_sub(last.own);
    (all.saturating_sub(own + uncounted), own.saturating_sub(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ms: u64, link: u64, own: u64) -> Reading {
        Reading { at: Instant::ZERO + Duration::from_millis(ms), link, own }
    }

    #[test]
    fn what_the_session_sends_is_no_cross_traffic() {
        assert_eq!(others(reading(0, 1000, 700), reading(100, 16_000, 9_700), 0), (6_000, 0));
    }

    #[test]
    fn what_the_session_has_sent_is_not_taken_for_cross_traffic_when_it_is_counted_late() {
        let (first, uncounted) = others(reading(0, 0, 0), reading(0, 0, 1_500), 0);
        assert_eq!((first, uncounted), (0, 1_500));
        assert_eq!(others(reading(0, 0, 1_500), reading(0, 1_500, 1_500), uncounted), (0, 0));
    }

    #[test]
    fn the_rate_follows_a_step_within_half_a_second() {
        let mut traffic = CrossTraffic::default();
        for tick in 0..=5 {
            traffic.take(reading(100 * tick, 125_000 * tick, 0));
        }
        assert!((0.8..0.9).contains(&(traffic.rate().as_bps() as f64 / 10e6)), "{:?}", traffic.rate());
    }

    #[test]
    fn a_counter_that_begins_anew_keeps_the_rate() {
        let mut traffic = CrossTraffic::default();
        traffic.take(reading(0, 0, 0));
        traffic.take(reading(100, 125_000, 0));
        let before = traffic.rate();
        traffic.restart();
        traffic.take(reading(200, 0, 0));
        assert_eq!((before.as_bps(), traffic.rate()), (3_000_000, before));
    }
}
