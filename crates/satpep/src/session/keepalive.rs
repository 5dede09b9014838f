//! Keep-alive: how seldom an idle peer may be asked for a sign of life.

use units::Duration;

/// When a session without traffic asks the peer for a sign of life.
///
/// The interval grows while mappings hold, up to the configured one. A peer that challenges our address in answer saw us
/// come from another one: the mapping was lost, and the interval goes back to the last that held (RFC 4787, section 4.3,
/// wants two minutes of NATs, and many have less).
#[derive(Debug, Clone, Copy)]
pub(super) struct Keepalive {
    interval: Duration,
    longest: Duration,
    /// What the interval was when it last grew, until it is asked again.
    grown_from: Option<Duration>,
    /// The peer was asked and has not answered.
    asked: bool,
}

impl Keepalive {
    /// Most NATs keep a mapping longer than this.
    pub(super) const FIRST: Duration = Duration::from_secs(25);
    /// No NAT in use forgets sooner.
    pub(super) const MIN: Duration = Duration::from_secs(10);

    /// Asks after `longest` without news at the latest, if this side has the peer's address: then NATs may be on its path. A side
    /// that only responds asks only if the other one has not done so for long.
    pub(super) fn new(longest: Duration, initiates: bool) -> Self {
        let interval = if initiates { Self::FIRST.min(longest) } else { longest * 2 };
        Self { interval, longest: longest.max(interval), grown_from: None, asked: false }
    }

    /// How long nothing may be heard before the peer is asked.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// The peer is asked, after the whole interval.
    pub(super) fn on_asked(&mut self) {
        (self.asked, self.grown_from) = (true, None);
    }

    /// Something was heard of the peer.
    pub(super) fn on_heard(&mut self) {
        if std::mem::take(&mut self.asked) && self.interval < self.longest {
            self.grown_from = Some(self.interval);
            self.interval = (self.interval * 3 / 2).min(self.longest);
        }
    }

    /// The peer saw us at another address.
    pub(super) fn on_challenged(&mut self) {
        let tried = if self.asked { Some(self.interval) } else { self.grown_from };
        if let Some(tried) = tried {
            self.asked = false;
            self.grown_from = None;
            self.interval = (tried * 2 / 3).max(Self::MIN.min(self.longest));
            self.longest = self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(100);

    fn seconds(keepalive: &Keepalive) -> f64 {
        keepalive.interval.as_secs_f64()
    }

    fn answered(keepalive: &mut Keepalive) {
        keepalive.on_asked();
        keepalive.on_heard();
    }

    #[test]
    fn the_interval_grows_while_mappings_hold_and_goes_back_to_what_held() {
        let mut keepalive = Keepalive::new(LONGEST, true);
        assert_eq!(seconds(&keepalive), 25.0);
        (0..10).for_each(|_| answered(&mut keepalive));
        assert_eq!(seconds(&keepalive), 100.0);

        let mut keepalive = Keepalive::new(LONGEST, true);
        answered(&mut keepalive);
        assert_eq!(seconds(&keepalive), 37.5);
        keepalive.on_asked();
        keepalive.on_heard();
        keepalive.on_challenged();
        (0..10).for_each(|_| answered(&mut keepalive));
        assert_eq!(seconds(&keepalive), 25.0, "37.5 s was too long");
    }

    #[test]
    fn a_challenge_counts_whether_it_comes_with_the_answer_or_after_it() {
        let mut keepalive = Keepalive::new(LONGEST, true);
        (0..2).for_each(|_| answered(&mut keepalive));
        keepalive.on_challenged();
        assert_eq!(seconds(&keepalive), 25.0, "37.5 s was the last that was tried");
        keepalive.on_challenged();
        assert_eq!(seconds(&keepalive), 25.0, "a move without a keepalive tells nothing of NATs");
    }

    #[test]
    fn no_nat_makes_it_ask_all_the_time_and_who_responds_waits_longer() {
        let mut keepalive = Keepalive::new(LONGEST, true);
        for _ in 0..10 {
            keepalive.on_asked();
            keepalive.on_challenged();
        }
        assert_eq!(seconds(&keepalive), 10.0);
        assert_eq!(seconds(&Keepalive::new(LONGEST, false)), 200.0);
        assert_eq!(seconds(&Keepalive::new(Duration::from_secs(2), true)), 2.0);
    }
}
