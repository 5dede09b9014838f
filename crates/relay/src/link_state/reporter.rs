//! One reporter of link updates: which are accepted, and how long they are valid.

use std::collections::VecDeque;
use units::{Duration, Instant, Rate};

/// One report of the link (RFC 8175, section 13). What it leaves out is as configured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkUpdate {
    /// Transmit rate, counted as IP packets.
    pub rate: Option<Rate>,
    /// Receive rate.
    pub receive_rate: Option<Rate>,
    /// Round-trip time.
    pub rtt: Option<Duration>,
    /// How long it is valid; without limit if not given.
    pub valid_for: Option<Duration>,
}

/// The rates that are accepted, from any reporter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlausibleRange {
    /// The lowest.
    pub min: Rate,
    /// The highest.
    pub max: Rate,
}

/// What becomes of reported rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimits {
    /// Updates with others are rejected.
    pub plausible: PlausibleRange,
    /// A higher transmit rate counts as this.
    pub ceiling: Option<Rate>,
}

impl RateLimits {
    /// A transmit rate, or the ceiling if that is lower.
    pub fn capped(&self, rate: Rate) -> Rate {
        self.ceiling.map_or(rate, |ceiling| rate.min(ceiling))
    }
}

/// Round-trip times outside this range are rejected.
const MIN_RTT: Duration = Duration::from_micros(10);
const MAX_RTT: Duration = Duration::from_secs(60);

/// Why an update is rejected.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// It has neither rate nor round-trip time.
    #[error("the update is empty: expected rate, receive_rate or rtt")]
    Nothing,
    /// A rate that the link cannot have.
    #[error(
        "{which} = {rate} rejected: expected a rate from {} to {} (by [link] rate, receive_rate, min_rate and max_rate)",
        .range.min, .range.max
    )]
    Rate {
        /// `rate` or `receive_rate`.
        which: &'static str,
        /// The rate.
        rate: Rate,
        /// What is accepted.
        range: PlausibleRange,
    },
    /// A round-trip time that no link has.
    #[error("rtt = {0} rejected: expected a duration from {MIN_RTT} to {MAX_RTT}")]
    Rtt(Duration),
    /// The rates oscillate.
    #[error(
        "the rates oscillate: more than {} turns by a quarter or more within {}; updates rejected for {}",
        FlapDamping::MAX_TURNS,
        FlapDamping::WITHIN,
        Reporter::SUPPRESSION
    )]
    Flapping,
}

/// The latest update of one source. It is kept as it was reported, whether it is accepted or not: a modem reports changes only, so what is
/// rejected today may have to count later, when the rates no longer oscillate or another range is configured.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    latest: Option<LinkUpdate>,
    /// When its validity ends.
    until: Option<Instant>,
    damping: [FlapDamping; 2],
    suppressed_until: Option<Instant>,
}

impl Reporter {
    /// Updates are rejected for this long after rates that oscillate (flap damping, RFC 2439).
    pub(super) const SUPPRESSION: Duration = Duration::from_secs(30);

    /// Takes an update, which replaces the one before even if it is rejected.
    pub(super) fn report(&mut self, now: Instant, update: LinkUpdate, range: PlausibleRange) -> Result<(), Rejection> {
        self.advance(now);
        self.latest = Some(update);
        self.until = update.valid_for.map(|valid_for| now + valid_for);
        self.judge(&update, range)?;
        for (rate, damping) in [update.rate, update.receive_rate].into_iter().zip(&mut self.damping) {
            if rate.is_some_and(|rate| damping.is_excessive(now, rate)) {
                *damping = FlapDamping::default();
                self.suppressed_until = Some(now + Self::SUPPRESSION);
                return Err(Rejection::Flapping);
            }
        }
        Ok(())
    }

    /// Whether `update` is accepted, as of the last [`Reporter::advance`].
    fn judge(&self, update: &LinkUpdate, range: PlausibleRange) -> Result<(), Rejection> {
        if self.suppressed_until.is_some() {
            return Err(Rejection::Flapping);
        }
        let rates = [("rate", update.rate), ("receive_rate", update.receive_rate)];
        if rates.iter().all(|(_, rate)| rate.is_none()) && update.rtt.is_none() {
            return Err(Rejection::Nothing);
        }
        for (which, rate) in rates {
            if let Some(rate) = rate.filter(|rate| !(range.min..=range.max).contains(rate)) {
                return Err(Rejection::Rate { which, rate, range });
            }
        }
        update.rtt.filter(|rtt| !(MIN_RTT..=MAX_RTT).contains(rtt)).map_or(Ok(()), |rtt| Err(Rejection::Rtt(rtt)))
    }

    /// Drops the update.
    pub(super) fn withdraw(&mut self) {
        (self.latest, self.until) = (None, None);
    }

    /// Ends what is over at `now`: the update's validity, and the suppression.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.withdraw();
        }
        self.suppressed_until = self.suppressed_until.filter(|until| now < *until);
    }

    /// The update, if it is accepted, as of the last [`Reporter::advance`].
    pub(super) fn update(&self, range: PlausibleRange) -> Option<LinkUpdate> {
        self.latest.filter(|update| self.judge(update, range).is_ok())
    }

    /// When [`Reporter::update`] may change without another report.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.latest?;
        self.until.into_iter().chain(self.suppressed_until).min()
    }
}

/// Flap damping (RFC 2439) by the turns of one rate: a rise by a quarter after a fall, or a fall by a quarter after a rise.
#[derive(Debug, Default)]
struct FlapDamping {
    /// The highest rate since it began to rise, or the lowest since it began to fall.
    extreme: Option<(Rate, Trend)>,
    turns: VecDeque<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Trend {
    Rising,
    Falling,
}

impl FlapDamping {
    /// A terminal whose allocation follows its queue turns twice for each request's latency (250 ms and more), so stays
    /// below this: more turns than these within this time mean that the reports are no use as a pace.
    const MAX_TURNS: usize = 100;
    const WITHIN: Duration = Duration::from_secs(10);

    fn is_excessive(&mut self, now: Instant, rate: Rate) -> bool {
        let Some((extreme, trend)) = self.extreme else {
            self.extreme = Some((rate, Trend::Rising));
            return false;
        };
        let goes_on = if trend == Trend::Rising { rate >= extreme } else { rate <= extreme };
        let has_turned = match trend {
            Trend::Rising => rate <= extreme.mul_f64(0.75),
            Trend::Falling => rate >= extreme.mul_f64(1.25),
        };
        if goes_on {
            self.extreme = Some((rate, trend));
        } else if has_turned {
            self.extreme = Some((rate, if trend == Trend::Rising { Trend::Falling } else { Trend::Rising }));
            self.turns.push_back(now);
        }
        while self.turns.front().is_some_and(|at| now.since(*at) > Self::WITHIN) {
            self.turns.pop_front();
        }
        self.turns.len() > Self::MAX_TURNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: PlausibleRange = PlausibleRange { min: Rate::from_bps(64_000), max: Rate::from_bps(60_000_000) };

    fn up(bps: u64) -> LinkUpdate {
        LinkUpdate { rate: Some(Rate::from_bps(bps)), ..LinkUpdate::default() }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn implausible_rates_withdraw_the_update_before() {
        let mut reporter = Reporter::default();
        for lie in [0, 63_999, 60_000_001, u64::MAX] {
            reporter.report(at(0), up(6_000_000), RANGE).unwrap();
            let refusal = reporter.report(at(1), up(lie), RANGE).unwrap_err();
            assert!(refusal.to_string().contains("from 64kbit/s to 60Mbit/s"), "{refusal}");
            assert_eq!(reporter.update(RANGE), None);
        }
        for honest in [64_000, 60_000_000] {
            reporter.report(at(2), up(honest), RANGE).unwrap();
        }
        let down = LinkUpdate { receive_rate: Some(Rate::ZERO), ..up(6_000_000) };
        assert!(reporter.report(at(3), down, RANGE).unwrap_err().to_string().starts_with("receive_rate = 0bit/s"));
        let rtt = LinkUpdate { rtt: Some(Duration::ZERO), ..up(6_000_000) };
        assert!(matches!(reporter.report(at(3), rtt, RANGE), Err(Rejection::Rtt(_))));
        assert_eq!(reporter.report(at(3), LinkUpdate::default(), RANGE), Err(Rejection::Nothing));
    }

    #[test]
    fn an_update_is_valid_as_long_as_it_says() {
        let mut reporter = Reporter::default();
        reporter.report(at(0), LinkUpdate { valid_for: Some(Duration::from_secs(1)), ..up(6_000_000) }, RANGE).unwrap();
        reporter.advance(at(999));
        assert!(reporter.update(RANGE).is_some());
        reporter.advance(at(1_000));
        assert_eq!(reporter.update(RANGE), None);
        reporter.report(at(2_000), up(6_000_000), RANGE).unwrap();
        reporter.advance(at(1_000_000_000));
        assert!(reporter.update(RANGE).is_some());
    }

    #[test]
    fn oscillating_rates_are_rejected_for_a_while() {
        let mut reporter = Reporter::default();
        let flap = |n: u64| up(if n.is_multiple_of(2) { 64_000 } else { 60_000_000 });
        let refused = (0..1_000).find(|n| reporter.report(at(n * 10), flap(*n), RANGE).is_err());
        assert!(refused.is_some_and(|n| (100..105).contains(&n)), "{refused:?}");
        assert_eq!(reporter.report(at(5_000), up(6_000_000), RANGE), Err(Rejection::Flapping));
        reporter.report(at(60_000), up(6_000_000), RANGE).unwrap();
    }

    #[test]
    fn an_allocation_that_follows_demand_is_accepted() {
        let mut reporter = Reporter::default();
        // Turns each 250 ms; and in small steps at every 10 ms.
        for n in 0..10_000_u64 {
            let base = if (n / 25).is_multiple_of(2) { 1_000_000 } else { 4_000_000 };
            reporter.report(at(n * 10), up(base + n % 7 * 20_000), RANGE).unwrap();
        }
    }
}
