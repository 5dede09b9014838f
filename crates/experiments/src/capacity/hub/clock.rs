//! Clocks that differ from the time of the run.

use units::{Duration, Instant};

/// A clock that is ahead, too fast or too slow, and perhaps false.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// In seconds, against the run.
    pub(super) ahead: f64,
    /// In parts of the time.
    pub(super) drift: f64,
    /// How far it sways, in seconds: it shows delays that come and go.
    pub(super) sways: f64,
}

/// How long a clock that sways takes from one side to the other.
const SWAY: f64 = 2.0;

impl Clock {
    /// What it shows at `now`.
    pub(super) fn read(&self, now: Instant) -> Instant {
        let seconds = now.as_secs_f64();
        let phase = seconds / SWAY % 2.0;
        let sway = self.sways * if phase < 1.0 { phase } else { 2.0 - phase };
        Instant::ZERO + Duration::from_secs_f64(self.ahead + seconds * (1.0 + self.drift) + sway)
    }

    /// A time at which it shows `local` or little less. It never goes back: sways are slower than time.
    pub(super) fn time_of(&self, local: Instant) -> Instant {
        let mut seconds = 0.0f64;
        for _ in 0..8 {
            let shown = self.read(Instant::ZERO + Duration::from_secs_f64(seconds.max(0.0))).as_secs_f64();
            seconds += local.as_secs_f64() - shown;
        }
        Instant::ZERO + Duration::from_secs_f64(seconds.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_again() {
        let clock = Clock { ahead: 1e5, drift: -1e-4, sways: 0.2 };
        for millis in [1, 999, 3_500, 60_000] {
            let now = Instant::ZERO + Duration::from_millis(millis);
            let found = clock.time_of(clock.read(now)).as_secs_f64();
            assert!((found - now.as_secs_f64()).abs() < 1e-6, "{found} {now:?}");
        }
    }
}
