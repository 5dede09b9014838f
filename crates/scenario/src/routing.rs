//! Links that come and go, and how routes follow.

use units::{Duration, Instant};

/// When a link is there: before the first step it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpTimes {
    steps: Vec<(Duration, bool)>,
    repeat: Option<Duration>,
}

impl UpTimes {
    /// Up or down from each of the rising times on; all begins again after `repeat`.
    ///
    /// # Errors
    /// Says what is wrong with the times.
    pub fn new(steps: Vec<(Duration, bool)>, repeat: Option<Duration>) -> Result<Self, String> {
        let Some((last, _)) = steps.last() else {
            return Err("it has no steps: write for example steps = [[\"10s\", false], [\"20s\", true]]".to_owned());
        };
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(format!("{} does not come after {}", pair[1].0, pair[0].0));
        }
        if let Some(repeat) = repeat.filter(|repeat| repeat <= last) {
            return Err(format!("it repeats after {repeat}, before its last step at {last}"));
        }
        Ok(Self { steps, repeat })
    }

    /// Whether the link is up at `now`.
    pub fn is_up(&self, now: Instant) -> bool {
        let elapsed = now.since(self.cycle(now));
        self.steps.iter().rev().find(|(at, _)| *at <= elapsed).is_none_or(|(_, is_up)| *is_up)
    }

    /// When that may change next after `now`; `None` if it does not any more.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let start = self.cycle(now);
        let next = self.steps.iter().map(|(at, _)| *at).chain(self.repeat).map(|at| start + at);
        next.filter(|at| *at > now).min()
    }

    /// When the repetition began that `now` is in.
    fn cycle(&self, now: Instant) -> Instant {
        let nanos = now.as_nanos();
        Instant::from_nanos(self.repeat.map_or(0, |repeat| nanos - nanos % repeat.as_nanos()))
    }
}

/// How routes follow links and delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Routing {
    /// Routes are computed again at this interval, rather than whenever a link comes or goes.
    pub every: Option<Duration>,
    /// What happens to packets on a link that goes down.
    pub under_way: UnderWay,
}

/// What happens to packets on a link that goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnderWay {
    /// What the link has is delivered; it takes no more.
    #[default]
    Keep,
    /// All is lost, what waits for the transmitter and what is on the way.
    Lose,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn seconds(steps: &[(u64, bool)], repeat: Option<u64>) -> Result<UpTimes, String> {
        let steps = steps.iter().map(|(at, is_up)| (Duration::from_secs(*at), *is_up)).collect();
        UpTimes::new(steps, repeat.map(Duration::from_secs))
    }

    #[test]
    fn a_link_is_up_until_the_first_step_and_again_at_each_repetition() {
        let times = seconds(&[(10, false), (20, true)], Some(30)).expect("valid");
        for (second, is_up, next) in
            [(0, true, 10), (9, true, 10), (10, false, 20), (20, true, 30), (30, true, 40), (45, false, 50)]
        {
            assert_eq!((times.is_up(at(second)), times.next_change(at(second))), (is_up, Some(at(next))), "{second}");
        }
        let once = seconds(&[(0, false), (5, true)], None).expect("valid");
        assert_eq!((once.is_up(at(0)), once.is_up(at(5)), once.next_change(at(5))), (false, true, None));
    }

    #[test]
    fn times_that_do_not_rise_are_refused() {
        for (steps, repeat, part) in [
            (&[][..], None, "no steps"),
            (&[(5, false), (5, true)][..], None, "5s does not come after 5s"),
            (&[(5, false)][..], Some(5), "repeats after 5s"),
        ] {
            let problem = seconds(steps, repeat).expect_err(part);
            assert!(problem.contains(part), "{problem}");
        }
    }
}
