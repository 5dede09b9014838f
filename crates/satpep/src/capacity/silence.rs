//! Reports that do not come: first less is sent, then a trickle that keeps asking.
//!
//! A report is due once what was sent could have been reported. On a link that is in use reports come in a steady stream, so that its
//! end shows long before a round trip has passed.

use super::quantities::RoundTrip;
use std::collections::VecDeque;

/// When reports came, and for what one is due.
#[derive(Debug, Clone)]
pub(super) struct Silence {
    latest: f64,
    /// The longest time between two reports of late.
    gap: f64,
    /// Of one packet in a while that is not reported yet.
    unreported: VecDeque<Unreported>,
    reported: Sum,
    sent: Sum,
    /// When a gap last ended that was long enough for an outage.
    odd_at: f64,
}

/// Bytes that have entered the link.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    all: f64,
    /// Those of packets that ask for a report: neither cross traffic nor acknowledgements.
    asking: f64,
}

impl Sum {
    /// The sum when `all` bytes had entered the link, between this and a later one.
    fn towards(self, later: Self, all: f64) -> Self {
        let between = later.all - self.all;
        let share = if between > 0.0 { ((all - self.all) / between).clamp(0.0, 1.0) } else { 0.0 };
        Self { all, asking: self.asking + share * (later.asking - self.asking) }
    }
}

/// A packet that is not reported yet.
#[derive(Debug, Clone, Copy)]
struct Unreported {
    /// When it left, and how many bytes had entered the link with it.
    sent: f64,
    position: Sum,
    /// The round-trip time of its peer, if that is one of several.
    rtt: Option<f64>,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            latest: f64::NEG_INFINITY,
            gap: 0.02,
            unreported: VecDeque::new(),
            reported: Sum::default(),
            sent: Sum::default(),
            odd_at: f64::NEG_INFINITY,
        }
    }
}

impl Silence {
    /// What is sent of the estimate while reports are overdue.
    pub(super) const QUIET_PACE: f64 = 0.25;
    /// And where the link is taken for cut, until the session notices and sends probes only: the search for a smaller MTU goes on.
    pub(super) const SILENT_PACE: f64 = 1.0 / 64.0;
    /// A report is overdue after this long, or so many of the longest gaps between reports. A cut link is sent little into then.
    const LEAST: f64 = 0.06;
    const GAPS: f64 = 3.0;
    /// Between probes, in seconds and in round trips.
    const PROBES: f64 = 0.1;
    const PROBES_ROUNDS: f64 = 0.25;
    /// Of so few bytes that ask for reports the last may have been lost, and nothing is to be concluded from that.
    const FEW: f64 = 24e3;
    /// A gap is forgotten in some thousand reports.
    const MEMORY: f64 = 0.998;
    const OUTAGE: f64 = 2.0;
    /// Gaps that long which follow one another within this time are no outages; none is longer than this.
    const OFTEN: f64 = 2.0;
    const LONGEST_GAP: f64 = 1.0;
    /// Between marks of what is not reported, and how many of them there are.
    const MARK: f64 = 0.01;
    const MARKS: usize = 128;

    /// A packet of `ip_bytes` left that asks for a report; `position` bytes had entered the link with it. `rtt` is that of its peer, if
    /// that is one of several.
    pub(super) fn on_sent(&mut self, now: f64, ip_bytes: f64, position: f64, rtt: Option<f64>) {
        self.sent = Sum { all: position, asking: self.sent.asking + ip_bytes };
        let mark = match self.unreported.back() {
            Some(latest) => now - latest.sent >= Self::MARK && self.unreported.len() < Self::MARKS,
            None => true,
        };
        if mark && position > self.reported.all {
            // What is due later than this tells nothing more: a peer with a queue of its own does not hide that reports are overdue.
            let is_due_later =
                |earlier: &Unreported| earlier.rtt.zip(rtt).is_some_and(|(its, rtt)| earlier.sent + its > now + rtt);
            while self.unreported.back().is_some_and(is_due_later) {
                self.unreported.pop_back();
            }
            self.unreported.push_back(Unreported { sent: now, position: self.sent, rtt });
        }
    }

    /// A report came, whose newest packet was sent at `sent` and ended at `position`.
    pub(super) fn on_report(&mut self, now: f64, sent: f64, position: f64) {
        let due = self.due(now - sent);
        let gap = if due.is_finite() { now - due } else { 0.0 };
        // What was long enough to be taken for an outage was one, unless there are many.
        let is_odd = gap > Self::OUTAGE * self.patience();
        if !is_odd || now - self.odd_at < Self::OFTEN {
            self.gap = (self.gap * Self::MEMORY).max(gap.min(Self::LONGEST_GAP));
        }
        if is_odd {
            self.odd_at = now;
        }
        self.latest = now;
        if position > self.reported.all {
            self.on_reported(position);
        }
    }

    /// All up to `position` is reported, or lost.
    fn on_reported(&mut self, position: f64) {
        while let Some(front) = self.unreported.front().filter(|front| front.position.all <= position) {
            self.reported = front.position;
            self.unreported.pop_front();
        }
        let next = self.unreported.front().map_or(self.sent, |front| front.position);
        self.reported = self.reported.towards(next, position);
    }

    /// A cut link carries again: what was sent into the cut is not going to be reported.
    pub(super) fn end(&mut self) {
        self.unreported.clear();
    }

    /// How many bytes had entered the link with the newest packet that is reported.
    pub(super) fn reported(&self) -> f64 {
        self.reported.all
    }

    /// Since when a report could have come, if paths take `rtt` as a rule. A far peer's takes longer.
    fn due(&self, rtt: f64) -> f64 {
        let front = self.unreported.front().filter(|_| self.sent.asking - self.reported.asking > Self::FEW);
        front.map_or(f64::INFINITY, |front| (front.sent + front.rtt.map_or(rtt, |own| own.max(rtt))).max(self.latest))
    }

    fn patience(&self) -> f64 {
        Self::LEAST.max(Self::GAPS * self.gap)
    }

    /// Between probes of a link that is cut: its end is noticed a quarter of a round trip late at most.
    pub(super) fn probe_interval(&self, rtt: &RoundTrip) -> f64 {
        (rtt.smoothed * Self::PROBES_ROUNDS).max(Self::PROBES)
    }

    /// Whether reports are overdue.
    pub(super) fn is_quiet(&self, now: f64, rtt: &RoundTrip) -> bool {
        now - self.due(rtt.smoothed) > self.patience()
    }

    /// Whether they are overdue by so much that the link is taken for cut.
    pub(super) fn is_silent(&self, now: f64, rtt: &RoundTrip) -> bool {
        now - self.due(rtt.smoothed) > Self::OUTAGE * self.patience() + 4.0 * rtt.variation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: RoundTrip = RoundTrip { smoothed: 0.55, variation: 0.005 };

    /// A packet each 2 ms until `end`, each reported after a round trip until `cut`.
    fn run(end: f64, cut: f64) -> Silence {
        let mut silence = Silence::default();
        for k in 0..(end / 0.002) as u32 {
            let now = f64::from(k) * 0.002;
            silence.on_sent(now, 1500.0, f64::from(k + 1) * 1500.0, None);
            let sent = now - RTT.smoothed;
            if sent >= 0.0 && now < cut && k % 8 == 0 {
                silence.on_report(now, sent, (sent / 0.002 + 1.0).floor() * 1500.0);
            }
        }
        silence
    }

    #[test]
    fn a_steady_stream_that_ends_is_noticed_within_half_a_round_trip() {
        let silence = run(3.0, 3.0);
        assert!(!silence.is_quiet(3.0, &RTT));
        let silence = run(3.12, 3.0);
        assert!(silence.is_quiet(3.12, &RTT) && !silence.is_silent(3.12, &RTT));
        assert!(run(3.25, 3.0).is_silent(3.25, &RTT));
    }

    #[test]
    fn nothing_is_overdue_that_could_not_have_come() {
        assert!(!run(0.5, 0.0).is_quiet(0.5, &RTT));
        let mut silence = run(3.0, 3.0);
        silence.on_report(3.6, 3.0, 1500.0 * 1500.0);
        assert!(!silence.is_quiet(100.0, &RTT), "there was nothing to report");
        silence.on_sent(100.0, 1500.0, 1501.0 * 1500.0, None);
        assert!(!silence.is_quiet(101.5, &RTT), "one packet may have been lost");
        silence.on_sent(100.0, 29.0 * 1500.0, 1530.0 * 1500.0, None);
        assert!(!silence.is_quiet(100.5, &RTT));
        assert!(silence.is_quiet(100.8, &RTT));
    }

    #[test]
    fn a_peer_with_a_queue_of_its_own_does_not_hide_that_reports_are_overdue() {
        let mut silence = Silence::default();
        silence.on_sent(1.0, 1500.0, 1500.0, Some(3.0));
        assert!(!silence.is_quiet(1.8, &RTT));
        silence.on_sent(1.02, 28.5e3, 30e3, Some(0.55));
        assert!(silence.is_quiet(1.8, &RTT));
    }

    #[test]
    fn a_lost_packet_is_no_outage_however_much_cross_traffic_there_is() {
        // Cross traffic of 2 Mbit/s, and a ping a second to a terminal that is switched off.
        let mut silence = Silence::default();
        let ping = |silence: &mut Silence, second: u32| {
            let now = f64::from(second);
            silence.on_sent(now, 100.0, 250e3 * now + 100.0, None);
        };
        (1..=60).for_each(|second| ping(&mut silence, second));
        assert!(!silence.is_quiet(61.0, &RTT));
        // Others report, and it goes on: what they were sent was hardly more.
        silence.on_report(61.0, 60.4, 250e3 * 60.4);
        (61..=120).for_each(|second| ping(&mut silence, second));
        assert!(!silence.is_quiet(121.0, &RTT));
        silence.on_sent(121.0, 24e3, 250e3 * 121.0 + 24e3, None);
        assert!(silence.is_silent(122.0, &RTT), "that is too much to be lost by chance");
    }

    #[test]
    fn where_reports_are_rare_they_are_waited_for() {
        let mut silence = Silence::default();
        // A packet each 2 ms; a report each 100 ms, of what was sent 50 ms before.
        for k in 0..10_000u32 {
            let now = f64::from(k) * 0.002;
            silence.on_sent(now, 1500.0, f64::from(k + 1) * 1500.0, None);
            if k % 50 == 49 {
                silence.on_report(now, now - 0.05, f64::from(k - 24) * 1500.0);
            }
        }
        let short = RoundTrip { smoothed: 0.05, ..RTT };
        assert!(!silence.is_quiet(20.15, &short) && silence.is_quiet(20.5, &short));
    }
}
