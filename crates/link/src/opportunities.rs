//! Recorded delivery opportunities, in the format of mahimahi's link traces.

use crate::ConfigError;
use crate::trace::{self, TraceError};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Instant, Rate};

/// What one opportunity carries.
const OPPORTUNITY: u64 = 1500;

/// When the link could deliver: each time is an opportunity to deliver 1500 bytes (Netravali et al., Mahimahi, USENIX
/// ATC 2015). A packet may use parts of several, and several packets may share one; what nobody uses is lost. The whole
/// starts again after the last time. Written `{ millis = [1, 1, 3] }` or `{ file = "lte.trace" }`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opportunities {
    /// Milliseconds after the link's start; a time that stands n times is n opportunities. They do not fall.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub millis: Vec<u64>,
    /// The file that holds them, one a line or as in `22 x19`, until [`crate::LinkConfig::read_files`] has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Opportunities {
    /// Reads a trace: one time in whole milliseconds a line, or `22 x19` for a time that comes 19 times.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Ok(Self { millis: trace::repeated_numbers(text)?, file: None })
    }

    /// What the link carries on average over a repetition; zero if there are no opportunities.
    pub fn mean_rate(&self) -> Rate {
        let last = self.millis.last().copied().unwrap_or_default();
        let bits = u128::from(OPPORTUNITY * 8) * self.millis.len() as u128;
        Rate::from_bps(u64::try_from(bits * 1000 / u128::from(last.max(1))).unwrap_or(u64::MAX))
    }

    pub(crate) fn validate(&self, key: &'static str) -> Result<(), ConfigError> {
        if self.millis.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(ConfigError::new(key, "times must not fall"));
        }
        match self.millis.last() {
            None => Err(ConfigError::new(key, "there is none; write for example millis = [1, 2, 2, 5]")),
            Some(0) => Err(ConfigError::new(key, "the last time is 0, but after it everything starts again")),
            Some(last) if *last > 1 << 40 => Err(ConfigError::new(key, "the last time is more than 2^40 ms")),
            Some(_) => Ok(()),
        }
    }

    /// When the `index`-th opportunity of all repetitions comes, after the start.
    fn time(&self, index: u64) -> Duration {
        let count = self.millis.len() as u64;
        let last = self.millis.last().copied().unwrap_or_default();
        Duration::from_millis(
            (index / count).saturating_mul(last).saturating_add(self.millis[(index % count) as usize]),
        )
    }

    /// The first opportunity later than `elapsed`.
    fn first_after(&self, elapsed: Duration) -> u64 {
        let millis = elapsed.as_nanos() / 1_000_000;
        let period = self.millis.last().copied().unwrap_or_default();
        // The end of a repetition belongs to it: times are above 0 and at most the period.
        let (repetition, offset) = (millis / period, millis % period);
        let index = self.millis.partition_point(|time| *time <= offset) as u64;
        repetition * self.millis.len() as u64 + index
    }
}

/// Uses up opportunities, one packet after the other.
#[derive(Debug)]
pub(crate) struct OpportunityCursor {
    opportunities: Opportunities,
    start: Instant,
    next: u64,
    /// What the opportunity used last can still carry.
    left: u64,
}

impl OpportunityCursor {
    pub(crate) fn new(opportunities: Opportunities, start: Instant) -> Self {
        Self { opportunities, start, next: 0, left: 0 }
    }

    /// The packet finds the transmitter idle at `now`: opportunities until then have passed.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.left = 0;
        self.next = self.next.max(self.opportunities.first_after(now.since(self.start)));
    }

    /// What was to use opportunities after `now` is lost before.
    pub(crate) fn abort(&mut self, now: Instant) {
        self.left = 0;
        self.next = self.opportunities.first_after(now.since(self.start));
    }

    /// When a packet of `size` is through, if it was the turn of its first byte at `free_at`.
    pub(crate) fn send(&mut self, free_at: Instant, size: Bytes) -> Instant {
        let (mut unsent, mut sent_at) = (size.as_u64(), free_at);
        loop {
            let used = unsent.min(self.left);
            self.left -= used;
            unsent -= used;
            if unsent == 0 {
                return sent_at;
            }
            sent_at = self.start + self.opportunities.time(self.next);
            self.next += 1;
            self.left = OPPORTUNITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(text: &str) -> OpportunityCursor {
        let opportunities = Opportunities::parse(text).expect("valid");
        assert_eq!(opportunities.validate("opportunities"), Ok(()));
        OpportunityCursor::new(opportunities, Instant::ZERO)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_mean_rate_is_that_of_a_repetition() {
        let mean = |text| Opportunities::parse(text).expect("valid").mean_rate();
        assert_eq!(mean("1\n1\n4\n"), Rate::from_bps(9_000_000));
        assert_eq!(mean("20 x10\n"), Rate::from_bps(6_000_000));
        assert_eq!(Opportunities::default().mean_rate(), Rate::ZERO);
    }

    #[test]
    fn each_opportunity_carries_1500_bytes_and_the_trace_wraps_around() {
        let mut cursor = cursor("1\n1\n4\n");
        let times: Vec<_> = (0..7).map(|_| cursor.send(Instant::ZERO, Bytes::new(1500))).collect();
        assert_eq!(times, [1, 1, 4, 5, 5, 8, 9].map(at));
    }

    #[test]
    fn packets_share_opportunities_and_use_several() {
        let mut cursor = cursor("2\n");
        let mut free_at = Instant::ZERO;
        let times: Vec<_> = [500, 500, 501, 4_498]
            .into_iter()
            .map(|size| {
                free_at = cursor.send(free_at, Bytes::new(size));
                free_at
            })
            .collect();
        assert_eq!(times, [2, 2, 4, 8].map(at));
    }

    #[test]
    fn what_nobody_uses_is_lost() {
        let mut cursor = cursor("1\n2\n3\n10\n");
        for (now, sent_at) in [(2, 3), (10, 11), (25, 30), (30, 31), (999, 1_000)] {
            cursor.pass(at(now));
            assert_eq!(cursor.send(at(now), Bytes::new(40)), at(sent_at), "{now}");
        }
    }

    #[test]
    fn refuses_what_never_delivers() {
        for millis in [vec![], vec![0], vec![3, 2], vec![1 << 50]] {
            assert!(Opportunities { millis, file: None }.validate("opportunities").is_err());
        }
    }
}
