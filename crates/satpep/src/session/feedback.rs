//! What the peer reports of arrivals (ARRIVALS): matched with what was sent, for the capacity estimator and for surveys.
//!
//! Contract: each ARRIVALS that is plausible and newer than those before becomes one [`Report`], completed by the outcomes that the
//! acknowledgement behind it brings and those since the report before. What cannot be true is counted ([`News::Implausible`]).
//! Memory: one report, which is used again, and as many losses as became known since the one before.

use crate::capacity::report::{LostPacket, Report, Stamp};
use crate::mtu::Suspicion;
use crate::packet_number::PacketNumber;
use crate::received::Received;
use crate::sent_packets::{PacketOutcome, SentPackets};
use crate::survey::Survey;
use crate::wire::arrivals::{ArrivalsFrame, Counters, TURN};
use smallvec::SmallVec;
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

/// Losses that count only if the path still carries packets as long as theirs.
struct DoubtedLosses {
    suspicion: Suspicion,
    /// The first packet that was sent after the suspicion.
    before: PacketNumber,
    lost: SmallVec<[LostPacket; 8]>,
}

impl DoubtedLosses {
    /// Whether the packet, which has arrived, could not have if the path had shrunk.
    fn is_refuted_by(&self, packet: &PacketOutcome) -> bool {
        (self.suspicion.first..self.before).contains(&packet.number) && packet.ip_size >= self.suspicion.smallest
    }
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
    /// Losses of packets that may have been too long for the path.
    doubted: Option<DoubtedLosses>,
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
            if self.doubted.as_ref().is_some_and(|doubted| doubted.is_refuted_by(packet)) {
                self.restore_doubted();
            }
            return;
        }
        let PacketOutcome { number, sent, position, ip_size, is_train, .. } = *packet;
        let doubted = self.doubted.as_mut().filter(|doubted| number < doubted.before);
        let lost = doubted.map_or(&mut self.report.lost, |doubted| &mut doubted.lost);
        if lost.len() < Self::MAX_LOST {
            lost.push(LostPacket { number, sent, position, ip_size, is_train });
        }
    }

    /// The path may have come to drop long packets, those before `next` among them: what is lost of them then says nothing of the rate.
    pub(super) fn on_path_suspected(&mut self, suspicion: Suspicion, next: PacketNumber) {
        let lost = std::mem::take(&mut self.report.lost);
        self.doubted = Some(DoubtedLosses { suspicion, before: next, lost });
    }

    /// Packets as long as the lost ones pass: they were lost for another reason.
    fn restore_doubted(&mut self) {
        if let Some(doubted) = self.doubted.take() {
            let room = Self::MAX_LOST.saturating_sub(self.report.lost.len());
            self.report.lost.extend(doubted.lost.into_iter().take(room));
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
            self.report.late_bytes = sent_packets.late_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{AcceptedPacket, ArrivalLog, Detail, Mark};
    use crate::sent_packets::{Outcome, SentFrame, SentFrames};
    use crate::wire::frame::{Frame, Reader, Writer};
    use peering::dscp::Dscp;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    fn number(number: u64) -> PacketNumber {
        PacketNumber::new(number)
    }

    /// A sender, and the frames that it is handed.
    struct Sender {
        packets: SentPackets,
        feedback: ArrivalFeedback,
        carrier: u64,
    }

    impl Sender {
        fn new() -> Self {
            let (packets, feedback) = (SentPackets::new(Duration::ZERO), ArrivalFeedback::default());
            Self { packets, feedback, carrier: 0 }
        }

        /// Sends `count` packets of 1500 bytes, one each `every` microseconds from `from` on.
        fn send(&mut self, from: u64, every: u64, count: u64) {
            for k in 0..count {
                let (position, frames) = (self.packets.sent_bytes(), SentFrames::from_slice(&[SentFrame::Ping]));
                self.packets.record(at(from + k * every), position, 1500, Dscp::default(), frames);
            }
        }

        /// Takes in an ARRIVALS in packet `carrier`. Whether it was plausible, and the report that it makes.
        fn take(
            &mut self,
            now: Instant,
            carrier: u64,
            counters: &Counters,
            stamps: &[(u64, u64)],
        ) -> Option<Result<Report, ()>> {
            let stamps: Vec<_> = stamps.iter().map(|(packet, micros)| (number(*packet), *micros)).collect();
            let mut buffer = [0; 500];
            let mut writer = Writer::new(&mut buffer);
            assert!(writer.arrivals(counters, &stamps));
            let length = writer.len();
            let Ok(Some(Frame::Arrivals(frame))) = Reader::new(&buffer[..length]).next() else { panic!("no frame") };
            self.feedback.on_arrivals(now, number(carrier), &frame, &mut self.packets);
            self.feedback.on_packet_end(&self.packets);
            self.feedback.deliver(|news| match news {
                News::Report(report) => Ok(report.clone()),
                News::Implausible => Err(()),
            })
        }

        /// The same in the next packet.
        fn next(&mut self, now: Instant, counters: &Counters, stamps: &[(u64, u64)]) -> Option<Result<Report, ()>> {
            self.carrier += 1;
            self.take(now, self.carrier, counters, stamps)
        }
    }

    fn counters(packets: u64) -> Counters {
        Counters { packets, bytes: 1500 * packets, ce: Some(0) }
    }

    fn outcome(packet: u64, outcome: Outcome) -> PacketOutcome {
        let (sent, position) = (at(packet), 1500 * (packet + 1));
        let frames = SentFrames::new();
        PacketOutcome { number: number(packet), frames, sent, position, is_train: false, ip_size: 1500, outcome }
    }

    #[test]
    fn stamps_are_matched_with_what_was_sent_and_outcomes_are_reported_once() {
        let mut sender = Sender::new();
        sender.send(0, 1000, 10);
        sender.packets.mark_train();
        (0..3).for_each(|packet| sender.feedback.on_outcome(&outcome(packet, Outcome::Acknowledged)));
        sender.feedback.on_outcome(&outcome(3, Outcome::Lost));
        sender.feedback.on_outcome(&outcome(4, Outcome::Recovered));
        let report = sender.next(at(300_000), &counters(5), &[(2, 7000), (1, 7500), (9, 8100)]).unwrap().unwrap();
        assert_eq!((report.received_packets, report.received_bytes, report.ce), (5, 7500, Some(0)));
        assert_eq!((report.acknowledged, report.settled), (3, number(0)));
        assert_eq!(report.lost.iter().map(|lost| lost.number.get()).collect::<Vec<_>>(), [3, 4]);
        let stamps: Vec<_> = report.stamps.iter().map(|s| (s.number.get(), s.sent, s.position, s.is_train)).collect();
        assert_eq!(stamps, [(2, at(2000), 4500, false), (1, at(1000), 3000, false), (9, at(9000), 15_000, true)]);
        let spaced: Vec<_> = report.stamps.windows(2).map(|pair| pair[1].arrived - pair[0].arrived).collect();
        // Differences count in 8 us.
        assert_eq!(spaced, [496, 600].map(Duration::from_micros));
        let report = sender.next(at(310_000), &counters(6), &[(9, 8100), (5, 9000)]).unwrap().unwrap();
        assert_eq!((report.acknowledged, report.lost.len()), (0, 0), "once");
        assert_eq!(report.stamps.iter().map(|stamp| stamp.number.get()).collect::<Vec<_>>(), [5], "once");
    }

    #[test]
    fn reports_that_are_lost_or_overtaken_leave_the_counters_right() {
        let mut sender = Sender::new();
        sender.send(0, 1000, 1000);
        sender.take(at(1_000_000), 10, &counters(100), &[(99, 100)]).unwrap().unwrap();
        let report = sender.take(at(2_000_000), 40, &counters(900), &[(899, 900)]).unwrap().unwrap();
        assert_eq!((report.received_packets, report.received_bytes), (900, 900 * 1500));
        assert!(sender.take(at(2_010_000), 30, &counters(500), &[(499, 500)]).is_none(), "overtaken");
        assert_eq!(sender.feedback.implausible(), 0, "that is no lie");
        let report = sender.take(at(2_020_000), 41, &counters(901), &[(900, 1000)]).unwrap().unwrap();
        assert_eq!(report.received_packets, 901);
    }

    #[test]
    fn counters_turn_over_many_times() {
        let mut sender = Sender::new();
        let mut received = 0;
        for round in 0..200 {
            // 30,000 packets of 60,000 bytes: more than one turn in each round of reports.
            for _ in 0..10_000u64 {
                let (position, frames) = (sender.packets.sent_bytes(), SentFrames::new());
                sender.packets.record(at(round), position, 60_000, Dscp::default(), frames);
                received += 1;
            }
            let counters = Counters { packets: received, bytes: 60_000 * received, ce: Some(received / 2) };
            let report = sender.next(at(round), &counters, &[]).unwrap().unwrap();
            assert_eq!((report.received_packets, report.received_bytes), (received, 60_000 * received));
        }
        assert!(received * 60_000 > 100 * TURN);
    }

    #[test]
    fn delays_are_right_whatever_the_peers_clock_does() {
        // Seconds that it is ahead, parts per million that it is fast, and a step in the middle.
        for (ahead, drift, step) in [
            (0.0, 0.0, 0.0),
            (1e5, 100e-6, 0.08),
            (1e5, -100e-6, -0.08),
            (1073.0, 100e-6, -0.08),
            (3.0, -100e-6, 300.0),
            (1e6, 0.0, -300.0),
        ] {
            let mut sender = Sender::new();
            let shows = |micros: u64| {
                let seconds = micros as f64 / 1e6;
                let steps = if seconds > 2000.0 { step } else { 0.0 };
                ((1e4 + ahead + seconds * (1.0 + drift) + steps) * 1e6) as u64
            };
            let mut first = None;
            // More than an hour, so that the 30 bits turn over several times, with silences of up to seven minutes.
            let mut now = 0;
            for packet in 0..300 {
                now += [1_000_000, 5000, 100_000, 60_000_000, 420_000_000][packet as usize % 5] / 10;
                sender.send(now, 0, 1);
                let arrives = now + 275_000;
                let stamps = [(packet, shows(arrives))];
                let report = sender.next(at(arrives + 275_000), &counters(packet + 1), &stamps).unwrap().unwrap();
                let arrived = report.stamps[0].arrived.as_nanos() as f64 / 1e9;
                let expected = shows(arrives) as f64 / 1e6;
                let offset = *first.get_or_insert(arrived - expected);
                assert!((arrived - expected - offset).abs() < 1e-4, "{ahead} {drift} {step}: {arrived} {expected}");
            }
        }
    }

    #[test]
    fn what_cannot_be_true_is_counted_and_ignored() {
        let mut sender = Sender::new();
        sender.send(0, 1000, 1000);
        sender.next(at(1_000_000), &Counters { ce: Some(7), ..counters(500) }, &[(499, 600)]).unwrap().unwrap();
        let good = Counters { ce: Some(7), ..counters(501) };
        let lies: [(Counters, &[(u64, u64)]); 9] = [
            (Counters { packets: 1001, ..good }, &[]),
            (Counters { bytes: 1_540_000, ..good }, &[]),
            (Counters { packets: 499, ..good }, &[]),
            (Counters { bytes: good.bytes - 1501, ..good }, &[]),
            (Counters { bytes: good.bytes + 1500, ..good }, &[]),
            (Counters { ce: Some(6), ..good }, &[]),
            (Counters { ce: Some(502), ..good }, &[]),
            (good, &[(1000, 700)]),
            (good, &[(1 << 61, 700)]),
        ];
        for (count, (counters, stamps)) in lies.iter().enumerate() {
            assert_eq!(
                sender.next(at(1_100_000), counters, stamps).map(|told| told.is_err()),
                Some(true),
                "lie {count}"
            );
            assert_eq!(sender.feedback.implausible(), count as u64 + 1);
        }
        let report = sender.next(at(1_200_000), &good, &[(500, 700)]).unwrap().unwrap();
        assert_eq!((report.received_packets, report.stamps.len()), (501, 1), "what is true counts again");
    }

    #[test]
    fn packets_that_a_translator_made_longer_are_no_lie() {
        let mut sender = Sender::new();
        sender.send(0, 1000, 10);
        let counters = Counters { packets: 10, bytes: 1520 * 10, ce: None };
        assert!(sender.next(at(20_000), &counters, &[]).unwrap().is_ok());
    }

    #[test]
    fn memory_is_bounded_while_a_peer_reports_nothing() {
        let mut sender = Sender::new();
        (0..100_000).for_each(|packet| sender.feedback.on_outcome(&outcome(packet, Outcome::Lost)));
        assert_eq!(sender.feedback.report.lost.len(), ArrivalFeedback::MAX_LOST);
    }

    /// A receiver's log, packet by packet, and the sender that it reports to.
    #[test]
    fn a_log_of_reordered_packets_and_the_sender_agree() {
        let mut sender = Sender::new();
        let mut log = ArrivalLog::new();
        sender.send(0, 1000, 2000);
        let (mut known, mut arrived) = (std::collections::BTreeMap::new(), 0u64);
        for k in 0..2000u64 {
            // Each seventh packet comes 20 packets late, each eleventh not at all.
            let late = if k % 7 == 0 { 20_000 } else { 0 };
            known.insert((k * 1000 + 275_000 + late, k), k % 11 != 0);
        }
        let mut matched = 0;
        for ((micros, packet), arrives) in known {
            if arrives {
                let (arrived_at, mark) = (at(micros + 5_000_000_000), Mark::NotCe);
                let packet = AcceptedPacket { number: number(packet), arrived: arrived_at, ip_size: 1500, mark };
                log.on_packet(&packet, true, packet.number.get() % 200 < 12);
                arrived += 1;
            }
            if arrived % 17 == 16 {
                let stamps: Vec<_> = log.stamps(Detail::Full).iter().map(|(n, at)| (n.get(), *at)).collect();
                log.on_stamped();
                let report = sender.next(at(micros + 275_000), &log.counters(), &stamps).unwrap().unwrap();
                assert_eq!(report.received_packets, arrived);
                for stamp in &report.stamps {
                    let delay = stamp.arrived.as_nanos() / 1000 % TURN + TURN - stamp.sent.as_nanos() / 1000;
                    let late = if stamp.number.get() % 7 == 0 { 20_000 } else { 0 };
                    let expected = (275_000 + late + 5_000_000_000) % TURN;
                    assert!((delay % TURN).abs_diff(expected) <= 8, "{delay} {expected}");
                    matched += 1;
                }
            }
        }
        assert!(matched > 400, "{matched}");
    }
}
