//! The clock and the timer of an end whose events run in ns-2's order.

use crate::ns2_times::{EventTime, ROUNDING};
use units::{Duration, Instant};

/// An end acts at the nanoseconds nearest to ns-2's times. Its timer goes off late enough for all that ns-2 runs before to
/// have come, and acts as of when it was due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ns2Clock {
    /// The latest time at which the end acted.
    now: Instant,
    deadline: Instant,
    /// The deadline as ns-2 has it.
    due: EventTime,
}

/// An end for which its timer is so far away takes it for not due (the receiver allows for rounding).
const BEFORE: Duration = Duration::from_nanos(10);

impl Ns2Clock {
    pub(super) fn new() -> Self {
        Self { now: Instant::ZERO, deadline: Instant::FAR_FUTURE, due: EventTime::default() }
    }

    /// When the timer is to go off.
    pub(super) fn alarm(&self) -> Instant {
        self.deadline + ROUNDING
    }

    /// The end has acted at `now`, which is `time` in ns-2, and has this deadline.
    pub(super) fn set(&mut self, now: Instant, time: f64, deadline: Instant) {
        self.now = now;
        if deadline != self.deadline {
            self.deadline = deadline;
            self.due = EventTime { at: time + deadline.since(now).as_secs_f64(), scheduled: time };
        }
    }

    /// Whether ns-2 runs the timer before a packet arrives.
    pub(super) fn is_due_before(&self, arrival: EventTime) -> bool {
        self.deadline <= arrival.nearest() + ROUNDING && self.due <= arrival
    }

    /// The end's time at an arrival: before the deadline, as the timer has not run.
    pub(super) fn arrive(&mut self, arrival: EventTime) -> Instant {
        let before = Instant::ZERO + self.deadline.since(Instant::ZERO + BEFORE);
        self.now = arrival.nearest().min(before).max(self.now);
        self.now
    }

    /// The timer runs: ns-2's time, and the end's.
    pub(super) fn run(&mut self) -> (f64, Instant) {
        self.now = self.deadline.max(self.now);
        (self.due.at, self.now)
    }
}
