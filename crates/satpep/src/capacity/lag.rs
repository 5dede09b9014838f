//! How far the cross traffic in positions lags behind what entered the link. A position counts cross traffic at its smoothed rate up to the
//! last reading of the link's counter; how much there was when a packet left is known at the next reading.

use std::collections::VecDeque;
use units::{Bytes, Instant};

/// The lag at the latest readings.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// All that the last reading counted.
    total: u64,
    /// Bytes that had entered the link beyond those in positions, the newest last.
    readings: VecDeque<(Instant, f64)>,
}

impl Lag {
    /// Ten a second: they reach back for longer than a round trip.
    const READINGS: usize = 64;

    /// A reading says that others have sent `total`; positions have counted `counted` bytes since the one before. A counter that starts again
    /// says nothing of the time between.
    pub(super) fn on_reading(&mut self, now: Instant, total: Bytes, counted: u64) {
        let total = total.as_u64();
        let entered = total.saturating_sub(std::mem::replace(&mut self.total, total));
        let lag = self.at(now) + entered as f64 - counted as f64;
        if self.readings.len() == Self::READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back((now, lag));
    }

    /// The lag at `at`; between two readings it has grown evenly.
    pub(super) fn at(&self, at: Instant) -> f64 {
        let after = self.readings.partition_point(|(reading, _)| *reading < at);
        let before = after.checked_sub(1).and_then(|before| self.readings.get(before));
        match (before, self.readings.get(after)) {
            (Some((from, first)), Some((to, second))) => {
                let share = at.since(*from).as_secs_f64() / to.since(*from).as_secs_f64();
                first + (second - first) * share
            }
            (Some((_, lag)), None) | (None, Some((_, lag))) => *lag,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn it_grows_evenly_between_readings() {
        let mut lag = Lag::default();
        assert_eq!(lag.at(at(50)), 0.0);
        lag.on_reading(at(100), Bytes::new(1000), 1000);
        lag.on_reading(at(200), Bytes::new(9000), 2000);
        lag.on_reading(at(300), Bytes::new(9000), 7000);
        let lags = [50, 100, 150, 200, 250, 300, 350].map(|millis| lag.at(at(millis)));
        assert_eq!(lags, [0.0, 0.0, 3000.0, 6000.0, 2500.0, -1000.0, -1000.0]);
    }

    #[test]
    fn a_counter_that_starts_again_changes_nothing() {
        let mut lag = Lag::default();
        lag.on_reading(at(100), Bytes::new(500_000), 500_000);
        lag.on_reading(at(200), Bytes::ZERO, 0);
        lag.on_reading(at(300), Bytes::new(1000), 0);
        assert_eq!([100, 200, 300].map(|millis| lag.at(at(millis))), [0.0, 0.0, 1000.0]);
    }
}
