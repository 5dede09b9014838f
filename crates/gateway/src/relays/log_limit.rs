//! How often the log repeats what any request of a peer may cause.

use units::{Duration, Instant};

/// Lets a line through once a minute, and counts the others.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    next: Option<Instant>,
    not_logged: u64,
}

impl LogLimit {
    /// The shortest time between two lines.
    pub(super) const PERIOD: Duration = Duration::from_secs(60);

    /// Whether there may be a line at `now`: how many were left out since the last one.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.not_logged += 1;
            return None;
        }
        self.next = Some(now + Self::PERIOD);
        Some(std::mem::take(&mut self.not_logged))
    }
}

/// Lets a shortage through once a minute, with its end, and leaves out those that come and go in between.
#[derive(Debug, Default)]
pub(super) struct ShortageLimit {
    limit: LogLimit,
    is_logged: bool,
}

impl ShortageLimit {
    /// Whether there may be a line that the shortage `begins`, or else that it is over.
    pub(super) fn admits(&mut self, now: Instant, begins: bool) -> bool {
        if begins {
            self.is_logged = self.limit.admit(now).is_some();
            return self.is_logged;
        }
        std::mem::take(&mut self.is_logged)
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
    fn a_shortage_that_comes_and_goes_is_logged_once_a_minute_with_its_end() {
        let mut limit = ShortageLimit::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let logged: Vec<bool> = (0..60)
            .flat_map(|second| [(second, true), (second, false)])
            .map(|(second, begins)| limit.admits(at(second), begins))
            .collect();
        assert!(logged[0] && logged[1] && !logged[2..].contains(&true));
        assert!(limit.admits(at(60), true), "it is the next minute");
        assert!(limit.admits(at(900), false), "however long it lasts");
        assert!(!limit.admits(at(901), false), "an end is an end of something");
    }
}
