//! New connections that the gateway's rules intercept and that never come to it: a chain of another program drops what is delivered to
//! this host, as a firewall with a policy of `drop` for its `input` does.

use units::{Duration, Instant};

/// Compares what the rules have intercepted with what has come.
#[derive(Debug)]
pub(super) struct Undelivered {
    /// The count of those that had come, when it last changed.
    arrived: u64,
    /// How many had come when the rules' count was asked for that has not been read since.
    asked: Option<u64>,
    /// What the rules had intercepted when one had come last, or at the first look after that; `None` until that look.
    baseline: Option<u64>,
    /// An earlier look, and what the rules had intercepted by then.
    earlier: (Instant, u64),
    count: u64,
    /// When connections that do not arrive were last logged, and whether that still stands in the log.
    logged_at: Option<Instant>,
    is_logged: bool,
}

/// A gateway that begins has rules that have intercepted nothing.
impl Default for Undelivered {
    fn default() -> Self {
        Self {
            arrived: 0,
            asked: None,
            baseline: Some(0),
            earlier: (Instant::ZERO, 0),
            count: 0,
            logged_at: None,
            is_logged: false,
        }
    }
}

impl Undelivered {
    /// Fewer in a row mean nothing: clients that give up.
    const FEW: u64 = 3;
    /// What was under way at an earlier look has come after that: clients take a moment for their handshake.
    const MOMENT: Duration = Duration::from_secs(2);
    /// Clients that only scan, as monitoring does with half-open connections, are not to fill the log.
    const LOG_PERIOD: Duration = Duration::from_secs(3600);

    /// Notes how many connections have come to the gateway before it is asked how many the rules have intercepted. The first of several
    /// questions counts: the answer to it may be read after others are asked.
    pub(super) fn ask(&mut self, arrived: u64) {
        self.asked.get_or_insert(arrived);
    }

    /// Takes over how many connections the rules have intercepted, and how many have come to the gateway by `now`. What is marked with
    /// `mark` is delivered to it.
    pub(super) fn take(&mut self, now: Instant, intercepted: u64, arrived: u64, mark: u32) {
        let arrived_before = self.asked.take().unwrap_or(self.arrived);
        match self.baseline {
            // None has come; fewer than before have been intercepted by rules that have been set up again.
            Some(baseline) if arrived == self.arrived && intercepted >= baseline => {
                if now >= self.earlier.0 + Self::MOMENT {
                    self.count = self.earlier.1.saturating_sub(baseline);
                    self.earlier = (now, intercepted);
                }
            }
            _ => {
                // Those that have come since the question may have been intercepted after the answer.
                let baseline = intercepted + arrived.saturating_sub(arrived_before);
                (self.arrived, self.baseline, self.earlier, self.count) =
                    (arrived, Some(baseline), (now, intercepted), 0);
            }
        }
        self.log(now, mark);
    }

    /// Logs that connections do not arrive, at most once in a while, and that they do again.
    fn log(&mut self, now: Instant, mark: u32) {
        let is_missing = self.count() > 0;
        if is_missing && !self.is_logged && self.logged_at.is_none_or(|at| now >= at + Self::LOG_PERIOD) {
            (self.logged_at, self.is_logged) = (Some(now), true);
            tracing::warn!(
                count = self.count,
                "intercepted connections do not arrive at the gateway: unless clients only scan, a firewall drops them; let it accept their \
                 packets in each chain of hook input (meta mark {mark:#x} accept)"
            );
        } else if !is_missing && std::mem::take(&mut self.is_logged) {
            tracing::info!("intercepted connections arrive at the gateway again");
        }
    }

    /// Begins again: connections have been left to come once more, by a process that was not ready for them.
    pub(super) fn restart(&mut self) {
        (self.baseline, self.count) = (None, 0);
    }

    /// How many in a row have not come; 0 for a few.
    pub(super) fn count(&self) -> u64 {
        if self.count < Self::FEW { 0 } else { self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is counted at these looks: second, intercepted, arrived.
    fn counts<const N: usize>(looks: [(u64, u64, u64); N]) -> [u64; N] {
        let mut undelivered = Undelivered::default();
        looks.map(|(second, intercepted, arrived)| {
            undelivered.ask(arrived);
            undelivered.take(Instant::ZERO + Duration::from_secs(second), intercepted, arrived, 1);
            undelivered.count()
        })
    }

    #[test]
    fn some_in_a_row_count_until_one_comes() {
        let some = counts([(10, 2, 0), (11, 4, 0), (12, 5, 0), (14, 5, 0)]);
        assert_eq!(some, [0, 0, 0, 5], "those of a look may be under way");
        assert_eq!(
            counts([(10, 4, 0), (12, 4, 0), (20, 6, 3), (21, 9, 3), (23, 9, 3), (25, 9, 3)]),
            [0, 4, 0, 0, 0, 3]
        );
        let set_up_again = counts([(10, 6, 0), (12, 6, 0), (20, 9, 3), (30, 1, 3), (33, 4, 3), (35, 5, 3), (37, 5, 3)]);
        assert_eq!(set_up_again, [0, 6, 0, 0, 0, 3, 4]);
    }

    #[test]
    fn what_fails_between_two_looks_is_known_at_the_third() {
        assert_eq!(counts([(10, 4, 0), (20, 4, 0)]), [0, 4], "of a gateway to which none has come yet");
        assert_eq!(counts([(30, 6, 2), (40, 9, 2), (50, 9, 2)]), [0, 0, 3]);
    }

    #[test]
    fn those_that_come_between_two_questions_are_not_missing() {
        let mut undelivered = Undelivered::default();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        undelivered.ask(0);
        undelivered.ask(5);
        // The answer to the first question, after which five were intercepted and came.
        undelivered.take(at(10), 0, 5, 1);
        for second in [20, 30] {
            undelivered.ask(5);
            undelivered.take(at(second), 5, 5, 1);
        }
        assert_eq!(undelivered.count(), 0);
    }

    #[test]
    fn those_that_come_while_the_rules_are_asked_are_not_missing() {
        let mut undelivered = Undelivered::default();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        undelivered.take(at(10), 6, 9, 1);
        for second in [20, 30] {
            undelivered.take(at(second), 9, 9, 1);
        }
        assert_eq!(undelivered.count(), 0);
    }
}
