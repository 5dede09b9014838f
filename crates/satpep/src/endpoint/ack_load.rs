//! What packets with nothing but acknowledgements take of the link: where that is too much, they report arrivals briefly.

use units::{Duration, Instant, Rate};

/// The share of the link that acknowledgements took in the latest interval.
#[derive(Debug, Default)]
pub(super) struct AckLoad {
    bytes: u64,
    ends: Instant,
    is_heavy: bool,
}

impl AckLoad {
    const INTERVAL: Duration = Duration::from_secs(1);
    /// More than this is too much, and it is until it is less than the other.
    const HEAVY: f64 = 0.02;
    const LIGHT: f64 = 0.012;

    /// An acknowledgement of `ip_bytes` left alone.
    pub(super) fn on_sent(&mut self, ip_bytes: usize) {
        self.bytes += ip_bytes as u64;
    }

    /// Whether acknowledgements take too much of a link of the rate `link`.
    pub(super) fn is_heavy(&mut self, now: Instant, link: Rate) -> bool {
        let carried = link.bytes_in(Self::INTERVAL).as_u64() as f64;
        let share = self.bytes as f64 / carried.max(1.0);
        if share > Self::HEAVY {
            self.is_heavy = true;
        }
        if self.ends <= now {
            let is_over = self.ends + Self::INTERVAL <= now;
            self.is_heavy &= share > Self::LIGHT && !is_over;
            (self.bytes, self.ends) = (0, now + Self::INTERVAL);
        }
        self.is_heavy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Whether acknowledgements of 100 bytes each `interval` ms are too much for the link after three seconds of them.
    fn is_heavy(load: &mut AckLoad, from: u64, interval: u64, kbps: u64) -> bool {
        let rate = Rate::from_bps(kbps * 1000);
        let mut is_heavy = false;
        for millis in (from..from + 3000).step_by(interval as usize) {
            is_heavy = load.is_heavy(at(millis), rate);
            load.on_sent(100);
        }
        is_heavy
    }

    #[test]
    fn acknowledgements_are_heavy_on_a_thin_link_only() {
        for (interval, kbps, expected) in [(17, 6000, false), (17, 3000, false), (17, 2000, true), (17, 256, true)] {
            assert_eq!(is_heavy(&mut AckLoad::default(), 0, interval, kbps), expected, "{kbps} kbit/s");
        }
    }

    #[test]
    fn they_are_so_until_they_are_clearly_fewer_or_cease() {
        let mut load = AckLoad::default();
        assert!(is_heavy(&mut load, 0, 17, 2000));
        assert!(is_heavy(&mut load, 3000, 25, 2000), "1.6 %");
        assert!(!is_heavy(&mut load, 6000, 50, 2000), "0.8 %");
        assert!(is_heavy(&mut load, 9000, 17, 2000));
        assert!(!load.is_heavy(at(60_000), Rate::from_bps(2_000_000)));
    }
}
