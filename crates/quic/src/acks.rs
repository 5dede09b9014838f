//! What was received, and when to say so (RFC 9000, section 13.2).

use crate::config::Config;
use crate::packet::AckFrame;
use units::{Duration, Ecn, Instant, RangeSet};

/// Ranges that a receiver remembers and an acknowledgement names at most (section 13.2.3).
const MOST_RANGES: usize = 32;

/// The numbers of the peer's packets.
#[derive(Debug)]
pub(crate) struct Received {
    ranges: RangeSet,
    /// What is below counts as received: no acknowledgement names it any more.
    floor: u64,
    largest_at: Instant,
    /// Packets that ask for an acknowledgement, since the last one.
    unacknowledged: u32,
    ack_at: Option<Instant>,
    is_due: bool,
    /// Packets that arrived marked, if any was capable of ECN.
    marked: Option<u64>,
    pinged_at: Instant,
}

impl Received {
    pub(crate) fn new() -> Self {
        Self {
            ranges: RangeSet::new(),
            floor: 0,
            largest_at: Instant::ZERO,
            unacknowledged: 0,
            ack_at: None,
            is_due: false,
            marked: None,
            pinged_at: Instant::ZERO,
        }
    }

    /// Whether a packet of this number is a duplicate, or too old to tell.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.floor || self.ranges.contains(number)
    }

    /// A packet that is no duplicate has arrived.
    pub(crate) fn on_packet(&mut self, now: Instant, number: u64, is_eliciting: bool, ecn: Ecn, config: &Config) {
        let next = self.ranges.last().map_or(self.floor, |last| last.end);
        self.ranges.insert(number..number + 1);
        if number >= next {
            self.largest_at = now;
        }
        if ecn.is_capable() {
            *self.marked.get_or_insert(0) += u64::from(ecn.is_marked());
        }
        if self.ranges.len() > MOST_RANGES
            && let Some(lowest) = self.ranges.pop_first()
        {
            self.floor = lowest.end;
        }
        if !is_eliciting {
            return;
        }
        self.unacknowledged += 1;
        // What is out of order, leaves a gap or arrives marked is told at once (section 13.2.1).
        self.is_due |= number != next || ecn.is_marked() || self.unacknowledged >= config.ack_every;
        if self.ack_at.is_none() {
            self.ack_at = Some(now + config.max_ack_delay);
        }
    }

    /// A part of the handshake is acknowledged at once.
    pub(crate) fn hurry(&mut self) {
        self.is_due = true;
    }

    /// When an acknowledgement is to leave by itself.
    pub(crate) fn ack_at(&self) -> Instant {
        self.ack_at.unwrap_or(Instant::FAR_FUTURE)
    }

    /// Whether an acknowledgement is to leave now, alone if need be.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.unacknowledged > 0 && (self.is_due || self.ack_at() <= now)
    }

    /// The acknowledgement that a packet takes along, if there is something to acknowledge.
    pub(crate) fn frame(&self, now: Instant) -> Option<AckFrame> {
        if self.unacknowledged == 0 { None } else { self.known(now) }
    }

    /// What was received, be it acknowledged or not.
    pub(crate) fn known(&self, now: Instant) -> Option<AckFrame> {
        if self.ranges.is_empty() {
            return None;
        }
        let ranges = self.ranges.iter().rev().cloned().collect();
        Some(AckFrame { ranges, delay: now.since(self.largest_at), marked: self.marked })
    }

    /// The acknowledgement has left.
    pub(crate) fn on_acknowledged(&mut self) {
        (self.unacknowledged, self.is_due, self.ack_at) = (0, false, None);
    }

    /// Whether an acknowledgement that goes alone asks for one of its own, so that old ranges can be forgotten: once in a round trip, while
    /// there are several (section 13.2.4).
    pub(crate) fn takes_ping(&mut self, now: Instant, srtt: Duration) -> bool {
        let is_time = self.ranges.len() > 1 && now.since(self.pinged_at) >= srtt;
        if is_time {
            self.pinged_at = now;
        }
        is_time
    }

    /// The peer knows that everything up to `largest` is known here.
    pub(crate) fn forget(&mut self, largest: u64) {
        if let Some(range) = self.ranges.range_of(largest) {
            self.floor = self.floor.max(range.start);
            self.ranges.remove(0..self.floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn received(numbers: &[u64]) -> Received {
        let mut received = Received::new();
        for number in numbers {
            received.on_packet(after(*number), *number, true, Ecn::NotCapable, &Config::default());
        }
        received
    }

    #[test]
    fn every_second_packet_is_acknowledged_at_once_and_one_alone_within_25_ms() {
        let one = received(&[0]);
        assert!(!one.is_due(after(24)) && one.is_due(after(25)));
        assert_eq!(one.ack_at(), after(25));
        assert!(received(&[0, 1]).is_due(after(1)));
    }

    #[test]
    fn a_gap_a_late_packet_and_a_mark_are_told_at_once() {
        let mut ends = received(&[0, 1]);
        ends.on_acknowledged();
        ends.on_packet(after(3), 3, true, Ecn::NotCapable, &Config::default());
        assert!(ends.is_due(after(3)), "2 is missing");
        ends.on_acknowledged();
        ends.on_packet(after(4), 2, true, Ecn::NotCapable, &Config::default());
        assert!(ends.is_due(after(4)), "2 comes late");
        ends.on_acknowledged();
        ends.on_packet(after(5), 4, true, Ecn::CongestionExperienced, &Config::default());
        assert!(ends.is_due(after(5)) && ends.frame(after(5)).unwrap().marked == Some(1));
    }

    #[test]
    fn what_only_acknowledges_is_not_acknowledged() {
        let mut ends = Received::new();
        ends.on_packet(after(1), 0, false, Ecn::NotCapable, &Config::default());
        assert!(!ends.is_due(after(1_000)) && ends.frame(after(1_000)).is_none());
        assert_eq!(ends.ack_at(), Instant::FAR_FUTURE);
    }

    #[test]
    fn a_frame_names_ranges_from_the_highest_down_and_how_long_the_largest_waited() {
        let frame = received(&[0, 1, 4, 5, 6, 9]).frame(after(12)).unwrap();
        assert_eq!(frame.ranges[..], [9..10, 4..7, 0..2]);
        assert_eq!(frame.delay, Duration::from_millis(3));
        // A late packet is not the largest.
        let frame = received(&[9, 4]).frame(after(12)).unwrap();
        assert_eq!(frame.delay, Duration::from_millis(3));
    }

    #[test]
    fn no_more_ranges_are_kept_than_a_frame_names_and_what_is_forgotten_counts_as_received() {
        let odd: Vec<u64> = (0..50).map(|k| 2 * k + 1).collect();
        let mut many = received(&odd);
        assert_eq!(many.frame(after(200)).unwrap().ranges.len(), MOST_RANGES);
        assert!(many.has(0) && many.has(35) && !many.has(50) && many.has(99));
        many.forget(97);
        assert_eq!(many.frame(after(200)).unwrap().ranges[..], [99..100, 97..98]);
        assert!(many.has(50) && !many.has(98));
    }
}
