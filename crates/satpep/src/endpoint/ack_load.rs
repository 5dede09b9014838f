//! What packets with nothing but acknowledgements take of the link: where that is too much, they report arrivals in less detail.

use crate::capacity::Detail;
use units::{Duration, Instant, Rate};

/// The share of the link that acknowledgements take.
#[derive(Debug, Default)]
pub(super) struct AckLoad {
    bytes: u64,
    ends: Instant,
    detail: Detail,
}

impl AckLoad {
    const INTERVAL: Duration = Duration::from_secs(1);
    /// From these shares on, they report in less detail; in more again below this part of the share.
    const SHARES: [(Detail, f64); 2] = [(Detail::Newest, 0.08), (Detail::Trains, 0.02)];
    const LIGHT: f64 = 0.6;

    /// An acknowledgement of `ip_bytes` left alone.
    pub(super) fn on_sent(&mut self, ip_bytes: usize) {
        self.bytes += ip_bytes as u64;
    }

    /// In what detail the next one on a link of the rate `link` may report arrivals.
    pub(super) fn detail(&mut self, now: Instant, link: Rate) -> Detail {
        let share = self.bytes as f64 / link.bytes_in(Self::INTERVAL).as_u64().max(1) as f64;
        let allowed =
            |share: f64| Self::SHARES.into_iter().find(|(_, from)| share > *from).map_or(Detail::Full, |found| found.0);
        self.detail = self.detail.min(allowed(share));
        if self.ends <= now {
            // What is older than an interval does not count.
            let is_over = self.ends + Self::INTERVAL <= now;
            self.detail = allowed(if is_over { 0.0 } else { share / Self::LIGHT }).max(self.detail);
            (self.bytes, self.ends) = (0, now + Self::INTERVAL);
        }
        self.detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// The detail after three seconds of acknowledgements of 100 bytes each `interval` ms on a link of so many kbit/s.
    fn detail(load: &mut AckLoad, from: u64, interval: u64, kbps: u64) -> Detail {
        let mut detail = Detail::Full;
        for millis in (from..from + 3000).step_by(interval as usize) {
            detail = load.detail(at(millis), Rate::from_bps(kbps * 1000));
            load.on_sent(100);
        }
        detail
    }

    #[test]
    fn the_thinner_the_link_the_less_is_reported() {
        let thin = [(6000, Detail::Full), (3000, Detail::Full), (2000, Detail::Trains), (256, Detail::Newest)];
        for (kbps, expected) in thin {
            assert_eq!(detail(&mut AckLoad::default(), 0, 17, kbps), expected, "{kbps} kbit/s");
        }
    }

    #[test]
    fn it_stays_so_until_acknowledgements_are_clearly_fewer_or_cease() {
        let mut load = AckLoad::default();
        assert_eq!(detail(&mut load, 0, 17, 2000), Detail::Trains);
        assert_eq!(detail(&mut load, 3000, 25, 2000), Detail::Trains, "1.6 %");
        assert_eq!(detail(&mut load, 6000, 50, 2000), Detail::Full, "0.8 %");
        assert_eq!(detail(&mut load, 9000, 17, 400), Detail::Newest);
        assert_eq!(load.detail(at(60_000), Rate::from_bps(400_000)), Detail::Full);
    }
}
