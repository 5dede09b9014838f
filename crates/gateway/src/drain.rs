//! A gateway that takes no more connections and ends with the last.

use status::Draining;
use units::{Duration, Instant};

/// How long a gateway that drains goes on at least: for connections that were on their way when it began.
const GRACE: Duration = Duration::from_secs(1);

/// Since when, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// Connections that were on their way may have arrived by then.
    settled_at: Instant,
    /// It ends then whether or not there are connections.
    until: Option<Instant>,
}

impl Drain {
    /// Begins at `now`; `rtt` is the link's round-trip time.
    pub(crate) fn new(now: Instant, rtt: Duration, within: Option<Duration>) -> Self {
        Self { settled_at: settled_at(now, rtt), until: within.map(|within| now + within) }
    }

    /// Only now are no more connections taken.
    pub(crate) fn settle(&mut self, now: Instant, rtt: Duration) {
        self.settled_at = settled_at(now, rtt);
    }

    /// Sets another limit.
    pub(crate) fn limit(&mut self, now: Instant, within: Option<Duration>) {
        self.until = within.map(|within| now + within);
    }

    /// Whether the gateway ends now, with so many connections left.
    pub(crate) fn is_over(&self, now: Instant, connections: usize) -> bool {
        self.until.is_some_and(|until| until <= now) || (connections == 0 && self.settled_at <= now)
    }

    /// For status.
    pub(crate) fn report(&self, now: Instant, connections: usize) -> Draining {
        let ends_within_s = self.until.map(|until| until.since(now).as_secs_f64());
        Draining { connections: connections as u64, ends_within_s }
    }
}

/// When what was on its way at `now` has arrived.
fn settled_at(now: Instant, rtt: Duration) -> Instant {
    now + GRACE.max(rtt * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_last_connection_or_after_the_limit() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let rtt = Duration::from_millis(600);
        let mut drain = Drain::new(at(10), rtt, None);
        assert!(!drain.is_over(at(11), 0), "a connection may be on its way");
        assert!(drain.is_over(at(12), 0) && !drain.is_over(at(1_000_000), 1));
        assert_eq!(drain.report(at(12), 3), Draining { connections: 3, ends_within_s: None });
        drain.limit(at(20), Some(Duration::from_secs(5)));
        assert!(!drain.is_over(at(24), 1) && drain.is_over(at(25), 1));
        assert_eq!(drain.report(at(22), 1).ends_within_s, Some(3.0));
        assert!(Drain::new(at(1), rtt, Some(Duration::ZERO)).is_over(at(1), 9), "a limit of nothing ends at once");
    }
}
