//! Loss recovery (RFC 9002): which packets were acknowledged or lost, the round-trip time, and STOP_WAITING.
//!
//! Contract: each of [`LossRecovery::on_ack`], [`LossRecovery::on_recovered`] and [`LossRecovery::on_timeout`] returns the outcomes that
//! became known; the session draws what follows from them and gives the list back ([`LossRecovery::recycle`]), so that nothing is
//! allocated for each ACK.

use crate::config::EndpointConfig;
use crate::packet_number::PacketNumber;
use crate::rtt::RttEstimator;
use crate::sent_packets::{NeverSent, PacketOutcome, SentPackets};
use crate::wire::frame::{AckFrame, OlderRangesFrame, RecoveredFrame};
use units::{Duration, Instant};

pub(crate) struct LossRecovery {
    pub(crate) sent_packets: SentPackets,
    pub(super) rtt: RttEstimator,
    /// Where outcomes are collected.
    outcomes: Vec<PacketOutcome>,
    /// The number of the latest STOP_WAITING.
    stop_waiting: PacketNumber,
}

impl LossRecovery {
    /// STOP_WAITING is sent when the lowest number still tracked rose by this much.
    pub(super) const STOP_WAITING_STEP: u64 = 64;

    pub(super) fn new(config: &EndpointConfig) -> Self {
        Self {
            sent_packets: SentPackets::new(config.reordering),
            rtt: RttEstimator::new(config.rtt),
            outcomes: Vec::new(),
            stop_waiting: PacketNumber::ZERO,
        }
    }

    /// Takes in an ACK: a sample of the round-trip time, and outcomes. After an outage (`is_returning`) the peer's delay tells for how
    /// long nothing arrived, so that what was sent in that time is lost.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: &AckFrame<'_>,
        is_returning: bool,
    ) -> Result<Vec<PacketOutcome>, NeverSent> {
        let ack_delay = self.rtt.ack_delay();
        let horizon = self.rtt.smoothed() * 3 / 2 + ack_delay * 2;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let delay = Duration::from_micros(ack.delay_us);
        let sample = self.sent_packets.on_ack(now, ack, horizon, &mut outcomes)?;
        // Longer delays than the peer should add are those of an outage.
        if let Some(rtt) = sample.filter(|_| delay <= ack_delay * 2) {
            self.rtt.sample(rtt.saturating_sub(delay));
        }
        if is_returning {
            let quiet = delay.saturating_sub(self.rtt.smoothed() / 2);
            self.sent_packets.on_quiet(ack.largest, quiet, &mut outcomes);
        }
        Ok(outcomes)
    }

    /// Packets have arrived that acknowledgements do not reach.
    pub(super) fn on_older_ranges(
        &mut self,
        now: Instant,
        older: &OlderRangesFrame<'_>,
    ) -> Result<Vec<PacketOutcome>, NeverSent> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.sent_packets.on_older_ranges(now, older, &mut outcomes)?;
        Ok(outcomes)
    }

    /// The peer recovered packets that were lost.
    pub(super) fn on_recovered(
        &mut self,
        now: Instant,
        recovered: &RecoveredFrame<'_>,
    ) -> Result<Vec<PacketOutcome>, NeverSent> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.sent_packets.on_recovered(now, recovered, &mut outcomes)?;
        Ok(outcomes)
    }

    /// Handles an expired loss timer.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Vec<PacketOutcome> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.sent_packets.on_timeout(now, &mut outcomes);
        outcomes
    }

    /// Takes the list of outcomes back.
    pub(super) fn recycle(&mut self, mut outcomes: Vec<PacketOutcome>) {
        outcomes.clear();
        self.outcomes = outcomes;
    }

    /// The number that a STOP_WAITING is to be sent with, if one is due.
    pub(super) fn stop_waiting_due(&self) -> Option<PacketNumber> {
        let lowest = self.sent_packets.lowest_tracked();
        (lowest >= self.stop_waiting + Self::STOP_WAITING_STEP).then_some(lowest)
    }

    /// STOP_WAITING was written with this number.
    pub(super) fn on_stop_waiting_sent(&mut self, number: PacketNumber) {
        self.stop_waiting = number;
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "acknowledgements are lists of ranges, often of one")]
mod tests {
    use super::*;
    use crate::sent_packets::{Outcome, SentFrame, SentFrames};
    use crate::wire::frame::{Frame, Reader, Writer};
    use crate::{EndpointConfig, PrivateKey};
    use peering::dscp::Dscp;
    use std::ops::Range;
    use units::Rate;

    const RTT: Duration = Duration::from_millis(600);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Loss recovery with packets that were sent a millisecond apart.
    fn recovery(count: u64) -> LossRecovery {
        let rate = Rate::from_bps(6_000_000);
        let mut recovery = LossRecovery::new(&EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, RTT));
        for number in 0..count {
            let frames = SentFrames::from_slice(&[SentFrame::Ping]);
            recovery.sent_packets.record(at(number), 1500 * number, 1500, Dscp::default(), frames);
        }
        recovery
    }

    /// Hands in an ACK of `ranges` that the peer held back for `delay`; returns the outcomes.
    fn ack(
        recovery: &mut LossRecovery,
        now: Instant,
        ranges: &[Range<u64>],
        (delay, is_returning): (Duration, bool),
    ) -> Vec<(u64, Outcome)> {
        let mut buffer = [0; 300];
        let mut writer = Writer::new(&mut buffer);
        assert!(writer.ack(
            ranges.iter().cloned().map(PacketNumber::range),
            delay.as_nanos() / 1000,
            PacketNumber::new(0)
        ));
        let length = writer.len();
        let Ok(Some(Frame::Ack(ack))) = Reader::new(&buffer[..length]).next() else { panic!("no ACK") };
        let outcomes = recovery.on_ack(now, &ack, is_returning).expect("they were sent");
        let known = outcomes.iter().map(|packet| (packet.number.get(), packet.outcome)).collect();
        recovery.recycle(outcomes);
        known
    }

    #[test]
    fn an_ack_samples_the_round_trip_without_the_peers_delay() {
        let mut recovery = recovery(100);
        let delay = Duration::from_millis(10);
        ack(&mut recovery, at(510), &[0..1], (delay, false));
        assert_eq!(recovery.rtt.min(), Some(Duration::from_millis(500)));
        ack(&mut recovery, at(400), &[0..2], (Duration::from_millis(300), false));
        assert_eq!(recovery.rtt.min(), Some(Duration::from_millis(500)), "such delays are those of an outage");
    }

    #[test]
    fn after_an_outage_what_the_peer_should_have_heard_is_lost_at_once() {
        let mut recovery = recovery(1000);
        let reported = ack(&mut recovery, at(1500), &[0..10], (Duration::from_millis(800), true));
        let lost = reported.iter().filter(|(_, outcome)| *outcome == Outcome::Lost).map(|(number, _)| *number);
        assert_eq!(lost.collect::<Vec<_>>(), (10..509).collect::<Vec<_>>(), "500 ms after packet 9");
    }

    #[test]
    fn outcomes_are_reported_once() {
        let mut recovery = recovery(4);
        let first = ack(&mut recovery, at(600), &[2..3, 0..1], (Duration::ZERO, false));
        assert_eq!(first, [(2, Outcome::Acknowledged), (0, Outcome::Acknowledged), (1, Outcome::Lost)]);
        assert_eq!(ack(&mut recovery, at(610), &[2..3, 0..1], (Duration::ZERO, false)), []);
        assert!(recovery.on_timeout(at(10_000)).is_empty());
    }

    #[test]
    fn stop_waiting_follows_the_lowest_packet_in_flight_in_steps() {
        let mut recovery = recovery(200);
        let step = LossRecovery::STOP_WAITING_STEP;
        ack(&mut recovery, at(600), &[0..step - 1], (Duration::ZERO, false));
        assert_eq!(recovery.stop_waiting_due(), None);
        ack(&mut recovery, at(601), &[0..step + 3], (Duration::ZERO, false));
        assert_eq!(recovery.stop_waiting_due(), Some(PacketNumber::new(step + 3)));
        recovery.on_stop_waiting_sent(PacketNumber::new(step + 3));
        assert_eq!(recovery.stop_waiting_due(), None);
    }
}
