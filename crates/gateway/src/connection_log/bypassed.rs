//! Connections past the gateway: a line a minute for each reason, however often the firewall's counters are read.

use std::collections::BTreeMap;
use units::{Duration, Instant};

/// How often there is a line for each reason.
pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// What the log knows of connections past the gateway.
#[derive(Debug, Default)]
pub(super) struct Bypassed {
    /// The counters as they were last read, by reason.
    read: BTreeMap<String, u64>,
    /// Connections that no line has yet, by reason.
    unwritten: BTreeMap<String, u64>,
    /// No line is due before.
    next: Instant,
}

impl Bypassed {
    /// Takes over the firewall's counters. They begin again with its table.
    pub(super) fn take(&mut self, counts: &BTreeMap<String, u64>) {
        for (reason, count) in counts {
            let read = self.read.insert(reason.clone(), *count).unwrap_or(0);
            let more = count.checked_sub(read).unwrap_or(*count);
            if more > 0 {
                *self.unwritten.entry(reason.clone()).or_default() += more;
            }
        }
    }

    /// What lines are due for at `now`, by reason.
    pub(super) fn due(&mut self, now: Instant) -> BTreeMap<String, u64> {
        if now < self.next || self.unwritten.is_empty() {
            return BTreeMap::new();
        }
        self.next = now + PERIOD;
        self.rest()
    }

    /// What no line has yet, by reason.
    pub(super) fn rest(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.unwritten)
    }
}
