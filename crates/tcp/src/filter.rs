//! The largest value of a sliding window, in constant time and space.

/// A windowed maximum over a time that the caller counts (rounds, nanoseconds). It keeps the best, the second and the
/// third best value of staggered parts of the window, so that an old maximum is replaced by a recent one and never by
/// nothing (Kathleen Nichols' algorithm, also in Linux's `win_minmax`). The minimum of `x` is minus the maximum of `-x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowedMax {
    best: [Sample; 3],
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    time: u64,
    value: f64,
}

impl WindowedMax {
    /// A filter whose value is `value` until a larger one comes or the window has passed.
    pub(crate) fn new(time: u64, value: f64) -> Self {
        Self { best: [Sample { time, value }; 3] }
    }

    /// The maximum.
    pub(crate) fn get(&self) -> f64 {
        self.best[0].value
    }

    /// Takes `value` at `time`, forgets what is older than `window`, and gives the maximum.
    pub(crate) fn update(&mut self, time: u64, value: f64, window: u64) -> f64 {
        let sample = Sample { time, value };
        if value >= self.best[0].value || time - self.best[2].time > window {
            self.best = [sample; 3];
            return value;
        }
        if value >= self.best[1].value {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        self.expire(sample, window);
        self.get()
    }

    /// Drops a best value that left the window; renews the second and third so that they lie in later parts of it.
    fn expire(&mut self, sample: Sample, window: u64) {
        let age = sample.time - self.best[0].time;
        if age > window {
            self.best = [self.best[1], self.best[2], sample];
            if sample.time - self.best[0].time > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].time == self.best[0].time && age > window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].time == self.best[1].time && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::CounterRandom;

    #[test]
    fn a_maximum_holds_for_its_window_and_then_falls_to_a_recent_value() {
        let mut max = WindowedMax::new(0, 0.0);
        max.update(1, 100.0, 10);
        for time in 2..=11 {
            assert_eq!(max.update(time, 50.0, 10), 100.0, "{time}");
        }
        assert_eq!(max.update(12, 40.0, 10), 50.0);
    }

    #[test]
    fn it_is_never_above_the_true_maximum_of_the_window_and_never_below_the_newest_value() {
        let random = CounterRandom::new(5, 0);
        let values: Vec<f64> = (0..2_000).map(|k| random.unit_at(k)).collect();
        let mut max = WindowedMax::new(0, 0.0);
        for (time, &value) in values.iter().enumerate() {
            let found = max.update(time as u64, value, 10);
            let exact = values[time.saturating_sub(10)..=time].iter().copied().fold(0.0, f64::max);
            assert!(value <= found && found <= exact, "{time}: {value} {found} {exact}");
        }
    }
}
