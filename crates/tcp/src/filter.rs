//! The largest value of a sliding window, in constant time and space.

/// A windowed maximum over a time that the caller counts (rounds, nanoseconds). It keeps the best, the second and the
/// third best value of staggered parts of the window, so that an old maximum is replaced by a recent one and never by
/// nothing (Kathleen Nichols' algorithm, also in Linux's `win_minmax`). The minimum of `x` is the maximum of `-x`, or of its [`std::cmp::Reverse`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowedMax<Value = f64, Time = u64> {
    /// The best first, and when each came: apart, so that short times take little memory.
    values: [Value; 3],
    times: [Time; 3],
}

impl<Value: Copy + PartialOrd, Time: Copy + Into<u64>> WindowedMax<Value, Time> {
    /// A filter whose value is `value` until a larger one comes or the window has passed.
    pub(crate) fn new(time: Time, value: Value) -> Self {
        Self { values: [value; 3], times: [time; 3] }
    }

    /// The maximum.
    pub(crate) fn get(&self) -> Value {
        self.values[0]
    }

    /// Takes `value` at `time`, forgets what is older than `window`, and gives the maximum.
    pub(crate) fn update(&mut self, time: Time, value: Value, window: u64) -> Value {
        if value >= self.values[0] || self.age(2, time) > window {
            *self = Self::new(time, value);
            return value;
        }
        if value >= self.values[1] {
            self.renew(1, time, value);
        } else if value >= self.values[2] {
            self.renew(2, time, value);
        }
        self.expire(time, value, window);
        self.get()
    }

    /// How long before `time` the value `index` came.
    fn age(&self, index: usize, time: Time) -> u64 {
        time.into() - self.times[index].into()
    }

    /// The values from `index` on are `value`.
    fn renew(&mut self, index: usize, time: Time, value: Value) {
        self.values[index..].fill(value);
        self.times[index..].fill(time);
    }

    /// The best value makes way for the second and the third, and that for `value`.
    fn advance(&mut self, time: Time, value: Value) {
        self.values = [self.values[1], self.values[2], value];
        self.times = [self.times[1], self.times[2], time];
    }

    /// Drops a best value that left the window; renews the second and third so that they lie in later parts of it.
    fn expire(&mut self, time: Time, value: Value, window: u64) {
        let ages = [0, 1, 2].map(|index| self.age(index, time));
        if ages[0] > window {
            self.advance(time, value);
            if self.age(0, time) > window {
                self.advance(time, value);
            }
        } else if ages[1] == ages[0] && ages[0] > window / 4 {
            self.renew(1, time, value);
        } else if ages[2] == ages[1] && ages[0] > window / 2 {
            self.renew(2, time, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::CounterRandom;

    #[test]
    fn a_maximum_holds_for_its_window_and_then_falls_to_a_recent_value() {
        let mut max = WindowedMax::new(0_u64, 0.0);
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
        let mut max = WindowedMax::new(0_u64, 0.0);
        for (time, &value) in values.iter().enumerate() {
            let found = max.update(time as u64, value, 10);
            let exact = values[time.saturating_sub(10)..=time].iter().copied().fold(0.0, f64::max);
            assert!(value <= found && found <= exact, "{time}: {value} {found} {exact}");
        }
    }
}
