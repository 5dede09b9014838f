//! How many connections have gone end to end by the firewall's counters, and who waits for the counters to be read.

use crate::handle::Query;
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// How long a query waits for the counters. To read them takes milliseconds; if that fails, the last ones are shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// The latest counters, and the queries that are answered once others have come.
pub(super) struct Bypassed {
    /// Connections by the reason.
    counts: BTreeMap<String, u64>,
    /// When they were last asked for.
    asked: Instant,
    /// Whether those that were asked for are still to come.
    is_awaited: bool,
    waiting: Vec<Query>,
}

impl Bypassed {
    /// None counted; a gateway that begins at `now` has nothing to ask for yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { counts: BTreeMap::new(), asked: now, is_awaited: false, waiting: Vec::new() }
    }

    /// The latest counters.
    pub(super) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Whether the counters were last asked for `period` ago.
    pub(super) fn is_due(&self, now: Instant, period: Duration) -> bool {
        self.asked + period <= now
    }

    /// Notes that the counters are asked for.
    pub(super) fn ask(&mut self, now: Instant) {
        self.asked = now;
        self.is_awaited = true;
    }

    /// Keeps `query` until the counters have come; gives it back if it has nothing to wait for.
    pub(super) fn hold(&mut self, now: Instant, query: Query) -> Option<Query> {
        if !self.is_awaited || self.is_late(now) {
            return Some(query);
        }
        self.waiting.push(query);
        None
    }

    /// Takes the counters over. Returns the queries that can be answered now.
    pub(super) fn take(&mut self, counts: BTreeMap<String, u64>) -> Vec<Query> {
        self.counts = counts;
        self.is_awaited = false;
        std::mem::take(&mut self.waiting)
    }

    /// The queries that have waited for long enough.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Query> {
        if self.is_late(now) { std::mem::take(&mut self.waiting) } else { Vec::new() }
    }

    fn is_late(&self, now: Instant) -> bool {
        self.asked + PATIENCE <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Extent;
    use std::sync::mpsc;

    const START: Instant = Instant::ZERO;
    const SECOND: Duration = Duration::from_secs(1);

    fn query() -> Query {
        Query::Snapshot(Extent::Whole, mpsc::sync_channel(1).0)
    }

    #[test]
    fn a_query_is_answered_with_the_counters_that_it_had_read() {
        let mut bypassed = Bypassed::new(START);
        let now = START + SECOND;
        assert!(bypassed.is_due(now, SECOND));
        bypassed.ask(now);
        assert!(!bypassed.is_due(now, SECOND));
        let later = now + Duration::from_millis(5);
        assert!([now, later].into_iter().all(|at| bypassed.hold(at, query()).is_none()));
        let counts = BTreeMap::from([("unserved".to_owned(), 3)]);
        assert_eq!(bypassed.take(counts.clone()).len(), 2);
        assert_eq!(bypassed.counts(), &counts);
        assert!(bypassed.hold(later, query()).is_some(), "they are young");
    }

    #[test]
    fn counters_that_do_not_come_hold_no_query_up() {
        let mut bypassed = Bypassed::new(START);
        bypassed.ask(START);
        assert!(bypassed.hold(START, query()).is_none());
        assert!(bypassed.overdue(START + Duration::from_millis(100)).is_empty());
        assert_eq!(bypassed.overdue(START + PATIENCE).len(), 1);
        assert!(bypassed.hold(START + PATIENCE, query()).is_some());
    }
}
