//! Whether the peer is there: when it is asked, and what is held back while it does not answer.
//!
//! | state | begins | what is sent |
//! | --- | --- | --- |
//! | answering | anything is heard | everything |
//! | stalled | an answer is overdue by a quarter | paced probes, no data |
//! | unresponsive | three round trips without an answer | probes, less often with time; the driver bypasses the peer |
//!
//! Anything that is heard ends both. A session without traffic asks seldom: as seldom as the mappings of NATs on the path
//! bear, which [`Keepalive`] finds out. With streams open, something may be waited for: it asks soon after the last traffic,
//! and each time after twice the time.

use super::Session;
use crate::event::Event;
use crate::payload::Payload;
use units::{Duration, Instant};

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
    pub(super) const LEAST: Duration = Duration::from_secs(10);

    /// Asks after `longest` without news at the latest, if this side has the peer's address: then NATs may be on its path. A side
    /// that only responds asks only if the other one has not done so for long.
    pub(super) fn new(longest: Duration, initiates: bool) -> Self {
        let interval = if initiates { Self::FIRST.min(longest) } else { longest * 2 };
        Self { interval, longest: longest.max(interval), grown_from: None, asked: false }
    }

    /// The peer is asked, after the whole interval.
    fn on_asked(&mut self) {
        (self.asked, self.grown_from) = (true, None);
    }

    fn on_heard(&mut self) {
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
            self.interval = (tried * 2 / 3).max(Self::LEAST.min(self.longest));
            self.longest = self.interval;
        }
    }
}

impl<P: Payload> Session<P> {
    /// Between probes of a unresponsive peer.
    pub(super) const OFTENEST_PROBE: Duration = Duration::from_millis(100);
    pub(super) const SELDOMEST_PROBE: Duration = Duration::from_millis(1000);
    /// A host that is busy keeps an answer back for so long; a shorter wait is no stall.
    pub(super) const LEAST_STALL: Duration = Duration::from_millis(100);
    /// Since the last traffic, until the peer is first asked while streams are open.
    pub(super) const FIRST_ASKED: Duration = Duration::from_secs(2);

    pub(crate) fn is_unresponsive(&self) -> bool {
        self.unresponsive_since.is_some()
    }

    /// Whether an answer is overdue, so that data waits.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Whether nothing was heard for `limit`. To ask in vain is part of it: a clock that jumped is no outage.
    pub(crate) fn is_lost(&self, now: Instant, limit: Duration) -> bool {
        let asked = self.unresponsive_since.is_some_and(|since| since + self.unresponsive_after() <= now);
        asked && self.last_heard + limit <= now
    }

    /// Time without an answer after which the peer is unresponsive: a few round trips.
    fn unresponsive_after(&self) -> Duration {
        (self.rtt.smoothed() * 3).max(Duration::from_secs(1))
    }

    /// Time without an answer after which data waits: what the answer may take, and as long again as a probe waits for the
    /// next, or as a thin return link spaces answers; and longer where answers have been rarer lately.
    fn stall(&self) -> Duration {
        let timeout = self.rtt.probe_timeout(self.ack_delay());
        let usual = timeout + (timeout / 4).max(self.ack_spacing);
        usual.max(self.answer_gap + self.answer_gap / 4).max(Self::LEAST_STALL)
    }

    /// Takes in how long an answer has been waited for, unless that was an outage: the longest wait of late counts.
    fn learn_answer_gap(&mut self, now: Instant) {
        let Some(since) = self.unanswered_since.filter(|_| !self.is_unresponsive()) else { return };
        self.answer_gap = now.since(since).max(self.answer_gap - self.answer_gap / 64);
    }

    /// When data will wait unless an answer comes. A peer that was sent little meanwhile takes no share that others could
    /// use, and its few answers may all be lost on a lossy return path: it may be sent that little more.
    fn stalls_at(&self) -> Option<Instant> {
        let since =
            self.unanswered_since.filter(|_| !self.is_stalled && self.unanswered_bytes > self.stall_allowance)?;
        Some(since + self.stall())
    }

    /// Something authentic came from the peer.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.learn_answer_gap(now);
        self.last_heard = now;
        self.unanswered_since = None;
        self.unanswered_bytes = 0;
        self.keepalive.on_heard();
        self.is_returning = std::mem::take(&mut self.is_stalled);
        if self.unresponsive_since.take().is_some() {
            self.is_returning = true;
            if self.is_path_proven() {
                self.events.push_back(Event::PeerUp(self.peer));
            }
        }
        if self.is_returning {
            self.sent_packets.on_outage_over();
            // The answer tells what was lost meanwhile, so that it is sent again at once.
            self.ping();
        }
    }

    /// A packet of `ip_size` bytes left that asks for an answer.
    pub(super) fn on_asking(&mut self, now: Instant, ip_size: usize) {
        self.unanswered_since.get_or_insert(now);
        self.unanswered_bytes += ip_size as u64;
        self.probe_at = Some(self.probe_deadline(now));
    }

    /// The peer is unresponsive from now on.
    fn become_unresponsive(&mut self, now: Instant) {
        if self.unresponsive_since.is_none() {
            self.unresponsive_since = Some(now);
            self.is_stalled = true;
            self.events.push_back(Event::PeerUnresponsive(self.peer));
        }
    }

    /// When data of a stream was last sent or received.
    pub(crate) fn last_traffic(&self) -> Instant {
        self.last_traffic
    }

    /// When the peer is asked, unless something comes from it.
    fn keepalive_at(&self) -> Instant {
        let soon = match self.streams.is_empty() {
            true => Duration::MAX,
            false => self.last_heard.since(self.last_traffic).max(Self::FIRST_ASKED),
        };
        self.last_heard + self.keepalive.interval.min(soon)
    }

    /// When the peer is to be asked, or counts as stalled or unresponsive.
    pub(super) fn next_liveness_timeout(&self) -> Instant {
        // A ping that is not answered is repeated by the probe timer, not by the keepalive.
        let keepalive = match self.unanswered_since {
            None if !self.ping_due => Some(self.keepalive_at()),
            _ => None,
        };
        let unresponsive =
            self.unanswered_since.filter(|_| !self.is_unresponsive()).map(|since| since + self.unresponsive_after());
        let timers = [self.probe_at, self.stalls_at(), unresponsive, keepalive];
        timers.into_iter().flatten().fold(Instant::FAR_FUTURE, Instant::min)
    }

    /// Handles expired liveness timers.
    pub(super) fn on_liveness_timeout(&mut self, now: Instant) {
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            if self.sent_packets.awaits_ack() {
                self.probes += 1;
                self.ping_due = true;
            }
        }
        if self.unanswered_since.is_none() && self.keepalive_at() <= now {
            if self.last_heard + self.keepalive.interval <= now {
                self.keepalive.on_asked();
            }
            self.ping_due = true;
        }
        if self.stalls_at().is_some_and(|at| at <= now) {
            self.is_stalled = true;
            // Data that left all the time has put the probes off.
            self.probes += 1;
            self.ping_due = true;
        }
        if self.unanswered_since.is_some_and(|since| since + self.unresponsive_after() <= now) {
            self.become_unresponsive(now);
        }
    }

    /// When an unanswered packet calls for a probe: in a round trip and what the peer may add to it, then a few times
    /// in quick succession, so that a loss or two do not make the peer unresponsive; in an outage so often that its end is noticed
    /// within half a round trip, and after minutes of it within one.
    pub(super) fn probe_deadline(&self, now: Instant) -> Instant {
        let (rtt, timeout) = (self.rtt.smoothed(), self.rtt.probe_timeout(self.ack_delay()));
        let patience = |since: Instant| (rtt / 2 + now.since(since) / 1024).min(rtt.max(Self::OFTENEST_PROBE));
        now + match (self.unresponsive_since, self.probes) {
            (Some(since), _) => patience(since).clamp(Self::OFTENEST_PROBE, Self::SELDOMEST_PROBE),
            (None, 0) => timeout,
            (None, _) => timeout / 4,
        }
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn ping(&mut self) {
        self.ping_due = true;
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
