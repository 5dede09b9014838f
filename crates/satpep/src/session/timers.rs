//! The timers of a session: [`Session::deadlines`] is the only place that says when each expires.

use super::Session;
use crate::payload::Payload;
use units::Instant;

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// An acknowledgement may be held back until then.
    Ack,
    /// Repair symbols are to be made or sent.
    Repair,
    /// A probe of the path's size may be sent.
    PathProbe,
    /// The earliest missing packet counts as lost.
    Loss,
    /// An unanswered packet calls for a PING.
    Probe,
    /// An answer is overdue: data waits.
    Stall,
    /// The peer becomes unresponsive.
    Unresponsive,
    /// An idle peer is asked for a sign of life.
    Keepalive,
    /// CLOSE is sent again.
    Close,
    /// OPENED is no longer waited for.
    Drain,
    /// The cap of a class lets it send.
    ClassCap,
}

impl Timer {
    /// Whether the session stands in one of the endpoint's queues from the deadline on, so that no timer is needed any more.
    const fn is_queued_when_due(self) -> bool {
        matches!(self, Timer::Ack | Timer::Repair | Timer::PathProbe)
    }
}

impl<P: Payload> Session<P> {
    /// When each timer expires, if it runs.
    #[inline]
    fn deadlines(&self, now: Instant) -> [(Timer, Option<Instant>); 11] {
        let (rtt, liveness) = (&self.recovery.rtt, &self.liveness);
        // While data waits there is no idle capacity for repair, and the data's packets take symbols along.
        let repair = self.repairs.next().filter(|_| self.classes.is_empty());
        [
            (Timer::Ack, self.ack_deadline()),
            (Timer::Repair, repair),
            (Timer::PathProbe, self.path.mtu.next_probe_at()),
            (Timer::Loss, self.recovery.sent_packets.loss_deadline()),
            (Timer::Probe, liveness.probe_at()),
            (Timer::Stall, liveness.stalls_at(rtt)),
            (Timer::Unresponsive, liveness.unresponsive_at(rtt)),
            (Timer::Keepalive, liveness.keepalive_at(!self.streams.is_empty())),
            (Timer::Close, self.farewell.next_timeout()),
            (Timer::Drain, self.drain.next_timeout()),
            (Timer::ClassCap, self.classes.next_timeout(now)),
        ]
    }

    /// When something will be due that is not due at `now` already (that stands in the endpoint's queues).
    pub(crate) fn next_timeout(&self, now: Instant) -> Instant {
        self.deadlines(now).into_iter().fold(Instant::FAR_FUTURE, |next, (timer, deadline)| match deadline {
            Some(deadline) if deadline > now || !timer.is_queued_when_due() => next.min(deadline),
            _ => next,
        })
    }

    /// Handles expired timers.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.classes.on_timeout(now);
        let outcomes = self.recovery.on_timeout(now);
        self.on_outcomes(now, outcomes);
        self.farewell.on_timeout(now);
        self.drain.on_timeout(now);
        self.on_liveness_timeout(now);
    }
}
