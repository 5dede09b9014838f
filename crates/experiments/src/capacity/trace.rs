//! The estimate beside what is true of the link, over time.

use super::cases::Case;
use super::watch::Watch;
use lab::Direction;
use units::{Duration, Instant, Rate};

/// What one simulated run of a case showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The name of the case.
    pub case: String,
    /// The data's direction.
    pub direction: Direction,
    /// In the order of time, from the begin of the transfers to their end.
    pub points: Vec<TracePoint>,
}

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracePoint {
    /// Since the transfers began.
    pub at: Duration,
    /// The rate that is to be had of the link.
    pub capacity: Rate,
    /// What the sending gateway believes of it.
    pub estimate: Rate,
    /// At which rate packets have entered the link for the last tenth of a second.
    pub sent: Rate,
    /// How long a packet that comes now waits before the link at its rate of now; `None` if something waits and the link carries nothing.
    pub queue: Option<Duration>,
}

impl Trace {
    /// Over this time the rate of sending is a mean.
    const SENT_OVER: Duration = Duration::from_millis(100);

    /// Of the samples of the link's queue, and those of the estimate.
    pub(super) fn new(case: &Case, direction: Direction, watch: &Watch, estimates: &[(Instant, Rate)]) -> Self {
        let at = |(at, queue): (Instant, Duration)| {
            let known = estimates.partition_point(|(known, _)| *known <= at).saturating_sub(1);
            TracePoint {
                at: at.since(case.begin),
                capacity: case.rate_to_be_had_at(at),
                estimate: estimates.get(known).map_or(Rate::ZERO, |(_, rate)| *rate),
                sent: watch.offered_rate(at, Self::SENT_OVER),
                queue: (queue < Duration::MAX).then_some(queue),
            }
        };
        let points = watch.queues().filter(|(at, _)| *at >= case.begin).map(at).collect();
        Self { case: case.name.clone(), direction, points }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::all;
    use super::super::simulated;
    use super::*;

    fn trace(name: &str) -> Trace {
        let case = all().into_iter().find(|case| case.name == name).expect("a case");
        simulated::trace(&case, Direction::Up, None, 1).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[test]
    fn the_estimate_comes_from_its_prior_to_what_the_link_carries() {
        let Trace { points, .. } = trace("1 MB, prior x 2");
        let (first, last) = (points.first().expect("points"), points.last().expect("points"));
        assert!(first.at < Duration::from_millis(20) && last.at > Duration::from_millis(1500), "{first:?} {last:?}");
        assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(points.iter().all(|point| point.capacity == Rate::from_bps(6_000_000)));
        let ratio = last.estimate.as_bps() as f64 / 6e6;
        assert!((ratio - 1.0).abs() < 0.06, "{last:?}");
        let busiest = points.iter().map(|point| point.sent).max().expect("points");
        assert!(busiest > Rate::from_bps(5_000_000), "{busiest}");
    }

    #[test]
    fn an_outage_has_nothing_to_give_and_is_sent_next_to_nothing() {
        let Trace { points, .. } = trace("outage of 5 s");
        let during = |from: u64, to: u64| {
            let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
            points.iter().filter(move |point| (from..to).contains(&point.at))
        };
        assert!(during(4, 9).all(|point| point.capacity == Rate::ZERO));
        assert!(during(6, 9).all(|point| point.sent < Rate::from_bps(600_000)));
        assert!(during(1, 4).chain(during(10, 13)).all(|point| point.capacity == Rate::from_bps(6_000_000)));
    }
}
