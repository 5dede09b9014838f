//! How often the log repeats what any request of a peer may cause.

use units::{Duration, Instant};

/// Lets a line through once a minute, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    next: Option<Instant>,
    not_logged: u64,
}

impl LogLimit {
    /// The shortest time between two lines.
    pub(super) const PERIOD: Duration = Duration::from_secs(60);

    /// Whether there may be a line at `now`: how many were left out since the last one.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.not_logged += 1;
            return None;
        }
        self.next = Some(now + Self::PERIOD);
        Some(std::mem::take(&mut self.not_logged))
    }
}

/// Lets a shortage through once a minute, with its end, and leaves out those that come and go in between. One that lasts is let through
/// when the minute is over.
#[derive(Debug)]
pub(crate) struct ShortageLimit<N> {
    next: Option<Instant>,
    is_logged: bool,
    withheld: Option<N>,
}

impl<N> Default for ShortageLimit<N> {
    fn default() -> Self {
        Self { next: None, is_logged: false, withheld: None }
    }
}

impl<N> ShortageLimit<N> {
    /// A shortage begins, as `notice` says: what is to be logged at `now`.
    pub(crate) fn begin(&mut self, now: Instant, notice: N) -> Option<N> {
        self.withheld = Some(notice);
        self.overdue(now)
    }

    /// It is over, as `notice` says.
    pub(crate) fn end(&mut self, notice: N) -> Option<N> {
        self.withheld = None;
        std::mem::take(&mut self.is_logged).then_some(notice)
    }

    /// What was withheld and still lasts, once it is time.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<N> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let notice = self.withheld.take()?;
        (self.next, self.is_logged) = (Some(now + LogLimit::PERIOD), true);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute_says_how_many_were_not_logged() {
        let mut limit = LogLimit::default();
        let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
        assert_eq!(limit.admit(at(0)), Some(0), "the first one goes at once");
        for milliseconds in 1..=500 {
            assert_eq!(limit.admit(at(milliseconds)), None);
        }
        assert_eq!(limit.admit(at(59_999)), None);
        assert_eq!(limit.admit(at(60_000)), Some(501));
        assert_eq!(limit.admit(at(200_000)), Some(0), "none was left out since");
    }

    #[test]
    fn a_shortage_that_comes_and_goes_is_logged_once_a_minute_and_one_that_lasts_all_the_same() {
        let mut limit = ShortageLimit::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!((limit.begin(at(0), "short"), limit.end("again")), (Some("short"), Some("again")));
        for second in 1..59 {
            assert_eq!((limit.begin(at(second), "short"), limit.end("again")), (None, None), "{second}");
        }
        assert_eq!(limit.overdue(at(60)), None, "it is over");
        assert_eq!((limit.begin(at(61), "short"), limit.end("again")), (Some("short"), Some("again")));
        assert_eq!((limit.begin(at(70), "it lasts"), limit.overdue(at(120))), (None, None));
        assert_eq!(limit.overdue(at(121)), Some("it lasts"));
        assert_eq!((limit.overdue(at(500)), limit.end("again"), limit.end("again")), (None, Some("again"), None));
    }
}
