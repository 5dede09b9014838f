//! What the session learns of arrivals, for the capacity estimator and for surveys: ARRIVAL_TIMEs of the peer, and those that it
//! asked for.
//!
//! Contract: each ARRIVAL_TIME of a packet that was sent becomes news for the endpoint; with it goes how many outcomes became known
//! since the one before.

use crate::capacity::{ArrivalRequests, Arrivals, Feedback, Report};
use crate::packet_number::PacketNumber;
use crate::rtt::RttEstimator;
use crate::sent_packets::{PacketOutcome, SentPackets};
use crate::survey::Survey;
use std::collections::VecDeque;
use units::{Duration, Instant};

/// What a peer reports of the arrival of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum News {
    /// When a packet arrived, by the peer's clock.
    Arrival(PacketNumber, Duration),
    /// How the largest acknowledged packet fared.
    Feedback(Feedback),
}

#[derive(Default)]
pub(crate) struct ArrivalFeedback {
    /// ARRIVAL_REQUESTs of the peer.
    pub(super) requests: ArrivalRequests,
    /// The next packet carries an ARRIVAL_REQUEST.
    pub(super) is_request_due: bool,
    arrivals: Arrivals,
    /// Outcomes since the latest ARRIVAL_TIME, and how many of them are acknowledgements.
    outcomes: u32,
    acknowledged: u32,
    /// The latest survey of the path.
    pub(crate) survey: Option<Box<Survey>>,
    news: VecDeque<News>,
}

impl ArrivalFeedback {
    /// News that wait for the endpoint at most: beyond what a peer may report beside one acknowledgement nothing is kept.
    const MAX_NEWS: usize = 16;
    /// Reports further apart than this, or than three round trips, do not continue one another.
    const MIN_PATIENCE: Duration = Duration::from_secs(1);

    /// The outcome of a packet became known.
    pub(super) fn on_outcome(&mut self, packet: &PacketOutcome) {
        self.outcomes = self.outcomes.saturating_add(1);
        self.acknowledged = self.acknowledged.saturating_add(u32::from(packet.is_acknowledged()));
    }

    /// The peer reported when packet `number` arrived, just before it acknowledges it.
    pub(super) fn on_arrival_time(
        &mut self,
        now: Instant,
        (number, micros): (PacketNumber, u32),
        sent_packets: &SentPackets,
        rtt: &RttEstimator,
    ) {
        if number >= sent_packets.next_number() || self.news.len() >= Self::MAX_NEWS {
            return;
        }
        let Some((sent, after)) = sent_packets.departure(number) else {
            let arrived = self.arrivals.unwrap(micros);
            return self.note(number, arrived, None);
        };
        let [outcomes, acknowledged] = [&mut self.outcomes, &mut self.acknowledged].map(std::mem::take);
        let report = Report { sent, after, arrived_us: micros, outcomes, acknowledged };
        let patience = (rtt.smoothed() * 3).max(Self::MIN_PATIENCE);
        let feedback = self.arrivals.take(now, &report, patience);
        self.note(number, feedback.arrived, Some(feedback));
    }

    fn note(&mut self, number: PacketNumber, arrived: Duration, feedback: Option<Feedback>) {
        if let Some(survey) = &mut self.survey {
            survey.on_arrival(number, arrived);
        }
        self.news.push_back(News::Arrival(number, arrived));
        self.news.extend(feedback.map(News::Feedback));
    }

    pub(super) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent_packets::{Outcome, SentFrame, SentFrames};
    use peering::dscp::Dscp;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn sent(count: u64) -> SentPackets {
        let mut packets = SentPackets::new(Duration::ZERO);
        for number in 0..count {
            packets.record(
                at(number),
                1500 * number,
                1500,
                Dscp::default(),
                SentFrames::from_slice(&[SentFrame::Ping]),
            );
        }
        packets
    }

    fn outcome(number: u64, outcome: Outcome) -> PacketOutcome {
        PacketOutcome { number: PacketNumber::new(number), frames: SentFrames::new(), ip_size: 1500, outcome }
    }

    #[test]
    fn an_arrival_time_brings_what_became_of_packets_since_the_one_before() {
        let (packets, rtt) = (sent(10), RttEstimator::new(Duration::from_millis(500)));
        let mut feedback = ArrivalFeedback::default();
        (0..3).for_each(|number| feedback.on_outcome(&outcome(number, Outcome::Acknowledged)));
        feedback.on_outcome(&outcome(3, Outcome::Lost));
        feedback.on_arrival_time(at(300), (PacketNumber::new(4), 260_000), &packets, &rtt);
        assert!(matches!(feedback.poll_news(), Some(News::Arrival(number, _)) if number == PacketNumber::new(4)));
        let Some(News::Feedback(first)) = feedback.poll_news() else { panic!("no feedback") };
        assert_eq!((first.outcomes, first.acknowledged, first.sent), (4, 3, at(4)));
        feedback.on_arrival_time(at(310), (PacketNumber::new(5), 270_000), &packets, &rtt);
        assert!(matches!(feedback.poll_news(), Some(News::Arrival(number, _)) if number == PacketNumber::new(5)));
        let Some(News::Feedback(second)) = feedback.poll_news() else { panic!("no feedback") };
        assert_eq!((second.outcomes, second.acknowledged), (0, 0), "counted once");
    }

    #[test]
    fn arrival_times_of_packets_never_sent_and_floods_of_them_are_ignored() {
        let (packets, rtt) = (sent(40), RttEstimator::new(Duration::from_millis(500)));
        let mut feedback = ArrivalFeedback::default();
        feedback.on_arrival_time(at(300), (PacketNumber::new(40), 1000), &packets, &rtt);
        assert!(feedback.poll_news().is_none());
        (0..40).for_each(|number| feedback.on_arrival_time(at(300), (PacketNumber::new(number), 1000), &packets, &rtt));
        assert!(std::iter::from_fn(|| feedback.poll_news()).count() <= ArrivalFeedback::MAX_NEWS + 1);
    }
}
