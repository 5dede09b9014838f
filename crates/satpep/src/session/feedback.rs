//! What the peer reports of arrivals (ARRIVALS): matched with what was sent, for the capacity estimator and for surveys.
//!
//! Contract: each ARRIVALS that is plausible and newer than those before becomes one [`Report`], completed by the outcomes that the
//! acknowledgement behind it brings and those since the report before. What cannot be true is counted ([`News::Implausible`]).
//! Memory: one report, which is used again, and as many losses as became known since the one before.

use crate::capacity::report::{LostPacket, Report, Stamp};
use crate::packet_number::PacketNumber;
use crate::received::Received;
use crate::sent_packets::{PacketOutcome, SentPackets};
use crate::survey::Survey;
use crate::wire::arrivals::{ArrivalsFrame, Counters, TURN};
use units::{Duration, Instant};

/// What an ARRIVALS of the peer has come to.
#[derive(Debug)]
pub(crate) enum News<'a> {
    Report(&'a Report),
    /// It claims what cannot be true: more than was sent, less than before, or packets never sent.
    Implausible,
}

/// The state of the current packet's ARRIVALS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pending {
    #[default]
    None,
    Report,
    Implausible,
}

#[derive(Default)]
pub(crate) struct ArrivalFeedback {
    /// The next packet belongs to a train.
    pub(super) is_train_due: bool,
    clock: PeerClock,
    counters: Option<Counters>,
    /// The newest acknowledged packet at the latest report, and the packet that brought this.
    largest: PacketNumber,
    carrier: Option<PacketNumber>,
    report: Report,
    pending: Pending,
    implausible: u64,
    /// The latest survey of the path.
    pub(crate) survey: Option<Box<Survey>>,
}

impl ArrivalFeedback {
    /// Where a translator on the path makes IPv6 of IPv4 (RFC 7915), packets arrive longer by this.
    const TRANSLATION: u64 = 20;
    /// Losses that one report names at most: more become known at once only after an outage, which they show as well.
    const MAX_LOST: usize = 4096;

    /// The outcome of a packet became known.
    pub(super) fn on_outcome(&mut self, packet: &PacketOutcome) {
        if packet.is_acknowledged() {
            self.report.acknowledged = self.report.acknowledged.saturating_add(1);
        } else if self.report.lost.len() < Self::MAX_LOST {
            let PacketOutcome { number, sent, position, ip_size, is_train, .. } = *packet;
            self.report.lost.push(LostPacket { number, sent, position, ip_size, is_train });
        }
    }

    /// An ARRIVALS came in packet `carrier`, before the acknowledgement that it belongs to. Returns how many packets have arrived with
    /// the mark CE, if it says so and can be believed.
    pub(super) fn on_arrivals(
        &mut self,
        now: Instant,
        carrier: PacketNumber,
        frame: &ArrivalsFrame<'_>,
        sent_packets: &mut SentPackets,
    ) -> Option<u64> {
        if self.carrier.is_some_and(|latest| carrier < latest) {
            // It was overtaken: a later one has said more.
            return None;
        }
        let Some(counters) = self.plausible(frame, sent_packets) else {
            self.implausible += 1;
            self.pending = Pending::Implausible;
            return None;
        };
        self.pending = Pending::Report;
        self.carrier = Some(carrier);
        self.counters = Some(counters);
        (self.report.received_packets, self.report.received_bytes) = (counters.packets, counters.bytes);
        self.report.ce = counters.ce;
        if frame.stamps().next().is_some() {
            self.match_stamps(now, frame, sent_packets);
        }
        counters.ce
    }

    fn match_stamps(&mut self, now: Instant, frame: &ArrivalsFrame<'_>, sent_packets: &mut SentPackets) {
        let first = self.clock.unwrap(now, frame.first_micros);
        for (number, after) in frame.stamps() {
            let arrived = first + after;
            if let Some(survey) = &mut self.survey {
                survey.on_arrival(number, arrived);
            }
            if let Some(departure) = sent_packets.take_departure(number) {
                let (sent, position) = (departure.sent, departure.position);
                let (ip_size, is_train) = (departure.ip_size, departure.is_train);
                let own = departure.own;
                self.report.stamps.push(Stamp { number, sent, position, own, ip_size, is_train, arrived });
            }
        }
    }

    /// The counters in full, if they and the stamps can be true.
    fn plausible(&self, frame: &ArrivalsFrame<'_>, sent_packets: &SentPackets) -> Option<Counters> {
        let next = sent_packets.next_number();
        let before = self.counters.unwrap_or(Counters { packets: 0, bytes: 0, ce: None });
        let added = |low: u64, before: u64| low.wrapping_sub(before) % TURN;
        let (packets, bytes) =
            (added(frame.counters.packets, before.packets), added(frame.counters.bytes, before.bytes));
        let longest = u64::from(sent_packets.longest()) + Self::TRANSLATION;
        let counters =
            Counters { packets: before.packets + packets, bytes: before.bytes + bytes, ce: frame.counters.ce };
        // Packets older than a receiver accepts are not among those that it has accepted since. This bounds what counters may
        // rise by far below a turn, so that they are seen to fall.
        let recent = next - self.largest.saturating_before(Received::REPLAY_WINDOW);
        let is_plausible = packets <= recent
            && counters.packets <= next - PacketNumber::ZERO
            && bytes <= packets.saturating_mul(longest)
            && counters.bytes <= sent_packets.sent_bytes() + Self::TRANSLATION * counters.packets
            && counters.ce.unwrap_or(0) <= counters.packets
            && counters.ce.is_none_or(|ce| ce >= before.ce.unwrap_or(0))
            && frame.stamps().all(|(number, _)| number < next);
        is_plausible.then_some(counters)
    }

    /// The packet with the ARRIVALS has been taken in whole.
    pub(super) fn on_packet_end(&mut self, sent_packets: &SentPackets) {
        if self.pending == Pending::Report {
            self.largest = sent_packets.largest_acked().unwrap_or(PacketNumber::ZERO);
            self.report.largest = self.largest;
            self.report.settled = sent_packets.lowest_tracked();
        }
    }

    /// Hands what the latest packet's ARRIVALS has come to, if it had one, to `take`.
    pub(crate) fn deliver<R>(&mut self, take: impl FnOnce(News<'_>) -> R) -> Option<R> {
        match std::mem::take(&mut self.pending) {
            Pending::None => None,
            Pending::Implausible => Some(take(News::Implausible)),
            Pending::Report => {
                let result = take(News::Report(&self.report));
                self.report.stamps.clear();
                self.report.lost.clear();
                self.report.acknowledged = 0;
                Some(result)
            }
        }
    }

    /// How many ARRIVALS claimed what cannot be true.
    pub(crate) fn implausible(&self) -> u64 {
        self.implausible
    }
}

/// Unwraps a peer's clock: of the times that the low bits may mean, the one nearest to what the clock should show by ours. It may
/// run fast or slow, and step by less than half a turn (9 min) between two reports.
#[derive(Debug, Default)]
struct PeerClock {
    /// When a time was last read, and what it was in microseconds.
    latest: Option<(Instant, u64)>,
}

impl PeerClock {
    fn unwrap(&mut self, now: Instant, low: u64) -> Duration {
        let full = match self.latest {
            // From the first turn on, so that it has room to step back.
            None => TURN + low,
            Some((at, micros)) => {
                let expected = micros + now.since(at).as_nanos() / 1000;
                let ahead = low.wrapping_sub(expected) % TURN;
                let ahead_only = expected + ahead;
                if ahead <= TURN / 2 { ahead_only } else { ahead_only.checked_sub(TURN).unwrap_or(ahead_only) }
            }
        };
        self.latest = Some((now, full));
        Duration::from_micros(full)
    }
}
