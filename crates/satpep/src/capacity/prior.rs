//! What is believed of the capacity before anything is measured.

use units::{Duration, Rate};

/// What is known of the link's capacity before the session measures it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prior {
    /// Configured, or reported by the modem or a program: it is used at once.
    Configured(Rate),
    /// Configured as a guess: half of it is used until the link has answered.
    Guess(Rate),
    /// Measured before, with a round-trip time as given, so long ago.
    Remembered {
        /// The capacity as it was.
        rate: Rate,
        /// The round-trip time as it was.
        rtt: Duration,
        /// How long ago.
        age: Duration,
    },
    /// Nothing: the first packets find out.
    None,
}

/// A prior, and how far it is trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    /// Bytes per second.
    pub(super) rate: f64,
    /// The share of it that is used before the link has answered.
    pub(super) confidence: f64,
    /// The estimate stays below this, in bytes per second.
    pub(super) ceiling: f64,
    /// It stays above this share of `rate`.
    pub(super) least: f64,
}

impl Belief {
    /// How far a guess is trusted: a guess twice too high does no harm then.
    pub(super) const DOUBT: f64 = 0.5;
}

impl Prior {
    /// A link of which nothing is known is thought this slow: what the first round trip sends fills no modem's queue.
    pub const UNKNOWN: Rate = Rate::from_bps(4_000_000);
    /// The estimate stays below this multiple of the prior unless a ceiling is configured: a link that is sixteen times as fast as
    /// somebody thought is another link, but what a peer may claim has to end somewhere.
    pub(super) const CEILING: f64 = 16.0;
    /// Without a prior there is nothing to multiply.
    pub(super) const UNKNOWN_CEILING: Rate = Rate::from_bps(10_000_000_000);
    /// The estimate stays above this share of the prior; without a prior, above 3.9 kbit/s.
    const LEAST: f64 = 1.0 / 64.0;
    const UNKNOWN_LEAST: f64 = 1.0 / 1024.0;
    /// How long a measured rate is as good as one of this session, and how far the round-trip time may be from what it was.
    const FRESH: Duration = Duration::from_secs(3600);
    const SAME_PATH: f64 = 0.25;
    /// The belief that follows, on a path with the round-trip time `rtt`.
    pub(super) fn belief(self, rtt: Duration, ceiling: Option<Rate>) -> Belief {
        let (rate, confidence) = match self {
            Self::Configured(rate) => (rate, 1.0),
            Self::Guess(rate) => (rate, Belief::DOUBT),
            Self::Remembered { rate, rtt: before, age } => {
                let ratio = rtt.as_secs_f64() / before.as_secs_f64().max(1e-6);
                let is_same = age < Self::FRESH && (ratio - 1.0).abs() <= Self::SAME_PATH;
                (rate, if is_same { 1.0 } else { Belief::DOUBT })
            }
            Self::None => (Self::UNKNOWN, Belief::DOUBT),
        };
        let default = if self == Self::None { Self::UNKNOWN_CEILING } else { rate.mul_f64(Self::CEILING) };
        let least = if self == Self::None { Self::UNKNOWN_LEAST } else { Self::LEAST };
        let bytes = |rate: Rate| rate.as_bps() as f64 / 8.0;
        let ceiling = bytes(ceiling.unwrap_or(default)).max(1.0);
        Belief { rate: bytes(rate).clamp(1.0, ceiling), confidence, ceiling, least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(550);
    const RATE: Rate = Rate::from_bps(8_000_000);

    #[test]
    fn what_was_measured_long_ago_or_elsewhere_is_a_guess() {
        let confidence = |rtt, age| Prior::Remembered { rate: RATE, rtt, age }.belief(RTT, None).confidence;
        assert_eq!(confidence(Duration::from_millis(600), Duration::from_secs(60)), 1.0);
        assert_eq!(confidence(Duration::from_millis(40), Duration::from_secs(60)), 0.5);
        assert_eq!(confidence(RTT, Duration::from_secs(7200)), 0.5);
    }

    #[test]
    fn the_ceiling_is_configured_or_follows_from_the_prior() {
        let belief = Prior::Configured(RATE).belief(RTT, None);
        assert_eq!((belief.rate, belief.confidence, belief.ceiling), (1e6, 1.0, 16e6));
        assert_eq!(Prior::Guess(RATE).belief(RTT, Some(RATE.mul_f64(2.0))).ceiling, 2e6);
        assert_eq!(Prior::Guess(RATE).belief(RTT, Some(RATE.mul_f64(0.5))).rate, 0.5e6, "the prior is no higher");
        assert_eq!(Prior::None.belief(RTT, None).ceiling, 1.25e9);
        let lowest = |prior: Prior| prior.belief(RTT, None).rate * prior.belief(RTT, None).least;
        assert!(lowest(Prior::None) < 1200.0 && lowest(Prior::Configured(RATE)) > 12_000.0);
    }
}
