//! A return carrier on demand: what it carries is what was asked for a request loop before, by what was sent then.
//!
//! A pause in sending comes back as a dip of what the carrier carries, a request loop later. A dip makes a queue grow; were that
//! queue drained, by another pause, the next dip would follow, and less be asked for each time.

/// Dips of what the link carries that were over within about a round trip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// The estimate before the link carried much less, and when that was seen.
    dip: Option<(f64, f64)>,
    /// How many dips have followed one another, when the latest was over, and the highest estimate before any of them.
    dips: u32,
    over_at: f64,
    carried: f64,
}

impl Default for Demand {
    fn default() -> Self {
        Self { dip: None, dips: 0, over_at: f64::NEG_INFINITY, carried: 0.0 }
    }
}

impl Demand {
    /// A dip is as deep as this share of the estimate, and over when the link carries this share of it again.
    const DEEP: f64 = 0.5;
    const OVER: f64 = 0.8;
    /// It is over within a round trip and so many seconds, and the next one begins within so many round trips and seconds.
    const SHORT: f64 = 0.5;
    const NEXT_ROUNDS: f64 = 3.0;
    const NEXT: f64 = 1.0;
    /// So many dips that follow one another are those of a carrier on demand.
    const DIPS: u32 = 2;
    /// That is believed for so many seconds after the latest.
    const LASTS: f64 = 60.0;
    /// A request loop takes a round trip and this much longer, in seconds: the terminal's interval between requests, and superframes.
    const LOOP: f64 = 0.5;

    /// A stretch with a queue has shown that the link carries `carried`, where the estimate was `rate`. Returns what a carrier on demand
    /// carried before its dips, if one is over now.
    pub(super) fn on_carried(&mut self, now: f64, rtt: f64, rate: f64, carried: f64) -> Option<f64> {
        self.dip = self.dip.filter(|(_, at)| now - at < rtt + Self::SHORT);
        let Some((before, _)) = self.dip else {
            self.dip = (carried <= Self::DEEP * rate).then_some((rate, now));
            return None;
        };
        if carried < Self::OVER * before {
            return None;
        }
        self.dip = None;
        let follows = now - self.over_at < Self::NEXT_ROUNDS * rtt + Self::NEXT;
        if !follows && !self.is_assigned(now) {
            (self.dips, self.carried) = (0, 0.0);
        }
        (self.dips, self.over_at) = (self.dips.saturating_add(1), now);
        self.carried = self.carried.max(before);
        self.is_assigned(now).then_some(self.carried)
    }

    /// Whether the link is a carrier on demand.
    pub(super) fn is_assigned(&self, now: f64) -> bool {
        self.dips >= Self::DIPS && now - self.over_at < Self::LASTS
    }

    /// The link carries less for longer than a request loop takes: that it is on demand explains nothing.
    pub(super) fn end(&mut self, now: f64) {
        if self.is_assigned(now) {
            *self = Self::default();
        }
    }

    /// The longest queue that a request loop explains, on a path that takes `rtt` without it.
    pub(super) fn longest_queue(rtt: f64) -> f64 {
        rtt + Self::LOOP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: f64 = 0.55;

    /// What follows from dips of a link of 500 kB/s that begin at `times` and are over after 0.4 s.
    fn after_dips(times: &[f64]) -> Demand {
        let mut demand = Demand::default();
        for at in times {
            assert_eq!(demand.on_carried(*at, RTT, 500e3, 40e3), None);
            let carried = demand.on_carried(at + 0.4, RTT, 60e3, 450e3);
            assert_eq!(carried, demand.is_assigned(at + 0.4).then_some(500e3));
        }
        demand
    }

    #[test]
    fn dips_that_follow_one_another_are_those_of_a_carrier_on_demand() {
        assert!(!after_dips(&[10.0]).is_assigned(10.5), "one may be anything's");
        assert!(!after_dips(&[10.0, 15.0, 20.0]).is_assigned(20.5), "none of these follows from the one before");
        let demand = after_dips(&[10.0, 11.8]);
        assert!(demand.is_assigned(70.0) && !demand.is_assigned(73.0));
    }

    #[test]
    fn a_fade_is_no_dip_and_one_that_outlasts_a_request_loop_ends_the_belief() {
        let mut demand = Demand::default();
        for at in [10.0, 12.0, 14.0] {
            demand.on_carried(at, RTT, 500e3, 150e3);
            demand.on_carried(at + 1.2, RTT, 150e3, 500e3);
        }
        assert!(!demand.is_assigned(15.5));
        let mut demand = after_dips(&[10.0, 11.8]);
        demand.end(13.0);
        assert!(!demand.is_assigned(13.0));
    }
}
