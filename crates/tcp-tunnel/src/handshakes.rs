//! How many handshakes of strangers a gateway takes part in: each costs it a key agreement, and strangers next to nothing.
//!
//! Each prefix of addresses has a rate and a burst, as have all together. What one prefix uses up is not missing for others unless they are
//! many.

use crate::waiting::Prefix;
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{Duration, Instant};

/// A rate, and how much of it may be used at once.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The time after which one more may be had.
    period: Duration,
    burst: u64,
}

impl Bucket {
    const fn per_second(count: u64, burst: u64) -> Self {
        Self { period: Duration::from_nanos(1_000_000_000 / count), burst }
    }

    /// When the bucket is full again if one more is taken at `now`, where it is to be full at `full_at`; `None` if it is empty.
    fn take(self, now: Instant, full_at: Instant) -> Option<Instant> {
        let after = full_at.max(now) + self.period;
        (after <= now + self.period * self.burst).then_some(after)
    }
}

/// Of each prefix.
const EACH: Bucket = Bucket::per_second(50, 128);
/// Of all strangers.
const ALL: Bucket = Bucket::per_second(500, 2000);
/// More prefixes than this are looked through for buckets that are full again; of those that are not, there are no more.
const PREFIXES: usize = 2048;

/// What strangers have used of both.
#[derive(Debug, Clone, Default)]
pub struct Handshakes {
    full_at: Instant,
    by_prefix: BTreeMap<Prefix, Instant>,
}

impl Handshakes {
    /// Whether there may be one more at `now` with a stranger at `address`, which counts then.
    pub fn admit(&mut self, now: Instant, address: IpAddr) -> bool {
        let prefix = Prefix::of(address);
        let own = self.by_prefix.get(&prefix).copied().unwrap_or_default();
        let (Some(own), Some(all)) = (EACH.take(now, own), ALL.take(now, self.full_at)) else { return false };
        if self.by_prefix.len() >= PREFIXES {
            self.by_prefix.retain(|_, full_at| *full_at > now);
        }
        self.by_prefix.insert(prefix, own);
        self.full_at = all;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn start() -> Instant {
        Instant::ZERO + Duration::from_secs(1000)
    }

    #[test]
    fn a_prefix_has_a_burst_and_a_rate_and_leaves_the_others_theirs() {
        let mut handshakes = Handshakes::default();
        let mut admitted = |now, net: u8| {
            let hosts = (0..=255u8).chain(0..=255);
            hosts.filter(|host| handshakes.admit(now, [192, 0, net, *host].into())).count()
        };
        assert_eq!(admitted(start(), 2), 128);
        assert_eq!(admitted(start() + SECOND, 2), 50);
        assert_eq!(admitted(start() + SECOND, 3), 128);
        assert_eq!(admitted(start() + SECOND * 60, 2), 128, "no more is saved up");
    }

    #[test]
    fn any_number_of_prefixes_has_a_rate_together_and_takes_little_memory() {
        let mut handshakes = Handshakes::default();
        let mut count = 0;
        for second in 0..100 {
            let hosts = (0..5000u16).map(|host| [10, second, (host >> 8) as u8, host as u8].into());
            let hosts: Vec<IpAddr> = hosts.collect();
            count +=
                hosts.into_iter().filter(|host| handshakes.admit(start() + SECOND * u64::from(second), *host)).count();
            assert!(handshakes.by_prefix.len() <= PREFIXES);
        }
        assert_eq!(count, 2000 + 99 * 500);
    }
}
