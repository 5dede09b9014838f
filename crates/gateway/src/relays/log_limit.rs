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
}
