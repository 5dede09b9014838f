//! The sender's record of packets (RFC 9002, A.1): in flight, acknowledged, lost.
//!
//! A number is looked at a bounded number of times, however often acknowledgements repeat it.

use crate::packet::{AckFrame, Message, Packet};
use std::collections::VecDeque;
use std::ops::Range;
use tcp::RateSample;
use tcp::control::LostSegment;
use units::{Duration, Instant, RangeSet};

/// What a packet carried, as far as its outcome matters to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Content {
    /// Bytes of the stream; its end counts as one more.
    pub(crate) stream: Option<Range<u64>>,
    pub(crate) message: Option<Message>,
    /// It carried flow-control limits.
    pub(crate) has_limits: bool,
    /// The largest packet number that it acknowledged.
    pub(crate) acknowledged: Option<u64>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    /// It requires no acknowledgement (RFC 9000, section 1.2).
    NotAckEliciting,
    Acked,
    Lost,
}

/// A packet sent.
#[derive(Debug, Clone)]
struct SentPacket {
    state: State,
    /// Bytes that count as in flight.
    size: u32,
    content: Content,
    snapshot: Snapshot,
}

/// The connection when a packet was sent, for the delivery rate (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
    /// Bytes sent in all, this packet included.
    pub(crate) end: u64,
    /// It carried data of the stream.
    pub(crate) has_data: bool,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost_before: u64,
    in_flight_after: u64,
    is_app_limited: bool,
}

/// The packets between the first that may still matter and the last one sent.
#[derive(Debug)]
pub(crate) struct SentPackets {
    records: VecDeque<SentPacket>,
    /// The number of the first record.
    base: u64,
    acked: RangeSet,
    /// No longer in flight: acknowledged, lost, or never to be acknowledged.
    outcome_known: RangeSet,
    largest_acked: Option<u64>,
    in_flight: u64,
    in_flight_packets: u64,
    sent: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    /// The sender ran out of data when so much had been delivered or was in flight.
    app_limited_until: u64,
    lost_run: Option<LostRun>,
}

/// Lost packets between which none was acknowledged.
#[derive(Debug, Clone, Copy)]
struct LostRun {
    first_sent_at: Instant,
    last: u64,
    last_sent_at: Instant,
}

/// What an acknowledgement reports as received that none before it did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// Those of them that were in flight, and were sent after the window was last reduced.
    pub(crate) after_reduction: u64,
    /// Packets that counted as lost.
    pub(crate) late: u64,
    /// The newest packet that arrived.
    pub(crate) newest: Option<Snapshot>,
    /// One of them asked for the acknowledgement.
    pub(crate) has_eliciting: bool,
}

/// What was found lost.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// The newest of them.
    pub(crate) newest: Option<u64>,
    /// The longest time over which everything sent was lost, of packets sent after the first sample of a round trip.
    pub(crate) longest: Duration,
    /// Each of them, for controls that follow losses.
    pub(crate) packets_lost: Vec<LostSegment>,
    /// When the next will be lost.
    pub(crate) next_at: Option<Instant>,
}

/// How packets are found lost (RFC 9002, section 6.1).
#[derive(Debug, Clone, Copy)]
pub(crate) struct LossRule {
    pub(crate) packet_threshold: u64,
    pub(crate) delay: Duration,
    /// When the first round-trip time was sampled.
    pub(crate) first_sample_at: Option<Instant>,
    /// Whether [`Losses::packets_lost`] is to list each of them.
    pub(crate) reports_each: bool,
}

impl SentPackets {
    pub(crate) fn new() -> Self {
        Self {
            records: VecDeque::new(),
            base: 0,
            acked: RangeSet::new(),
            outcome_known: RangeSet::new(),
            largest_acked: None,
            in_flight: 0,
            in_flight_packets: 0,
            sent: 0,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            lost: 0,
            app_limited_until: 0,
            lost_run: None,
        }
    }

    /// The number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// Bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether an acknowledgement is awaited.
    pub(crate) fn awaits(&self) -> bool {
        self.in_flight_packets > 0
    }

    /// Bytes sent in all.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// `packet`, the next one, leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, packet: &Packet, content: Content) {
        let (number, size) = (self.next_number(), packet.in_flight());
        let state = if packet.is_ack_eliciting() { State::InFlight } else { State::NotAckEliciting };
        if state == State::InFlight {
            if self.in_flight_packets == 0 {
                (self.first_sent_at, self.delivered_at) = (now, now);
            }
            self.in_flight_packets += 1;
        } else {
            self.outcome_known.insert(number..number + 1);
        }
        self.in_flight += u64::from(size);
        self.sent += u64::from(size);
        let snapshot = Snapshot {
            number,
            sent_at: now,
            end: self.sent,
            has_data: packet.has_data(),
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost_before: self.lost,
            in_flight_after: self.in_flight,
            is_app_limited: self.app_limited_until > 0,
        };
        self.records.push_back(SentPacket { state, size, content, snapshot });
        self.forget(Instant::ZERO);
    }

    /// The peer has received what `frame` names. Calls `on_outcome` for each packet that it was not known to have. `reduced_at` is the number
    /// that was next when the window was last reduced.
    pub(crate) fn on_ack(
        &mut self,
        frame: &AckFrame,
        reduced_at: u64,
        on_outcome: &mut dyn FnMut(Outcome, &Content),
    ) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for range in frame.ranges.iter().rev() {
            let mut from = range.start.max(self.base);
            let until = range.end.min(self.next_number());
            while let Some(new) = first_gap(&self.acked, from..until) {
                from = new.end;
                new.clone().for_each(|number| self.arrive(number, reduced_at, &mut arrivals, on_outcome));
                self.acked.insert(new.clone());
                self.outcome_known.insert(new);
            }
        }
        self.largest_acked = self.largest_acked.max(arrivals.newest.map(|newest| newest.number));
        arrivals
    }

    fn arrive(
        &mut self,
        number: u64,
        reduced_at: u64,
        arrivals: &mut Arrivals,
        on_outcome: &mut dyn FnMut(Outcome, &Content),
    ) {
        let record = &mut self.records[(number - self.base) as usize];
        let (size, snapshot) = (u64::from(record.size), record.snapshot);
        match std::mem::replace(&mut record.state, State::Acked) {
            State::InFlight => {
                self.in_flight -= size;
                self.in_flight_packets -= 1;
                arrivals.has_eliciting = true;
                if number >= reduced_at {
                    arrivals.after_reduction += size;
                }
            }
            State::Lost => arrivals.late += 1,
            State::NotAckEliciting | State::Acked => {}
        }
        arrivals.bytes += size;
        if arrivals.newest.is_none_or(|newest| newest.number < number) {
            arrivals.newest = Some(snapshot);
        }
        on_outcome(Outcome::Acknowledged, &record.content);
    }

    /// Counts what arrived, and gives the delivery rate that follows.
    pub(crate) fn rate_sample(&mut self, now: Instant, arrivals: &Arrivals, min_rtt: Duration) -> Option<RateSample> {
        self.delivered += arrivals.bytes;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let newest = arrivals.newest?;
        (self.first_sent_at, self.delivered_at) = (newest.sent_at, now);
        let interval = newest.sent_at.since(newest.first_sent_at).max(now.since(newest.delivered_at));
        Some(RateSample {
            delivered: self.delivered - newest.delivered,
            interval,
            prior_delivered: newest.delivered,
            total_delivered: self.delivered,
            total_lost: self.lost,
            lost: self.lost - newest.lost_before,
            in_flight_at_send: newest.in_flight_after,
            is_app_limited: newest.is_app_limited,
            is_reliable: interval >= min_rtt && !interval.is_zero(),
        })
    }

    /// The sender has nothing more to send for now: rates sampled from here on may be too low.
    pub(crate) fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// Whether the sender had nothing to send, and what has been in flight then or since is not delivered yet.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Finds what is lost now (DetectAndRemoveLostPackets). Calls `on_outcome` for each.
    pub(crate) fn find_losses(
        &mut self,
        now: Instant,
        rule: LossRule,
        on_outcome: &mut dyn FnMut(Outcome, &Content),
    ) -> Losses {
        let mut losses = Losses::default();
        let Some(largest) = self.largest_acked else { return losses };
        let mut from = self.base;
        while let Some(number) = first_gap(&self.outcome_known, from..largest).map(|gap| gap.start) {
            let sent_at = self.records[(number - self.base) as usize].snapshot.sent_at;
            if sent_at + rule.delay > now && largest < number + rule.packet_threshold {
                losses.next_at = Some(sent_at + rule.delay);
                break;
            }
            self.lose(number, rule, &mut losses, on_outcome);
            from = number + 1;
        }
        losses
    }

    fn lose(
        &mut self,
        number: u64,
        rule: LossRule,
        losses: &mut Losses,
        on_outcome: &mut dyn FnMut(Outcome, &Content),
    ) {
        let record = &mut self.records[(number - self.base) as usize];
        let (size, snapshot) = (u64::from(record.size), record.snapshot);
        record.state = State::Lost;
        self.outcome_known.insert(number..number + 1);
        self.in_flight -= size;
        self.in_flight_packets -= 1;
        self.lost += size;
        losses.bytes += size;
        losses.packets += 1;
        losses.newest = Some(number);
        on_outcome(Outcome::Lost, &record.content);
        if rule.reports_each {
            losses.packets_lost.push(LostSegment {
                seq: snapshot.end - size,
                end: snapshot.end,
                in_flight_at_send: snapshot.in_flight_after,
                lost: self.lost - snapshot.lost_before,
                is_app_limited: snapshot.is_app_limited,
                total_delivered: self.delivered,
            });
        }
        if rule.first_sample_at.is_some_and(|at| snapshot.sent_at > at) {
            losses.longest = losses.longest.max(self.extend_run(&snapshot));
        }
    }

    /// A lost packet goes on from the one lost before it, unless one between them was acknowledged; returns how long everything has
    /// been lost (RFC 9002, section 7.6).
    fn extend_run(&mut self, snapshot: &Snapshot) -> Duration {
        let LostRun { mut first_sent_at, last, last_sent_at } = match self.lost_run {
            Some(run) if run.last < snapshot.number && !self.is_any_acked(run.last..snapshot.number) => run,
            _ => LostRun { first_sent_at: snapshot.sent_at, last: snapshot.number, last_sent_at: snapshot.sent_at },
        };
        first_sent_at = first_sent_at.min(snapshot.sent_at);
        let last_sent_at = last_sent_at.max(snapshot.sent_at);
        self.lost_run = Some(LostRun { first_sent_at, last: last.max(snapshot.number), last_sent_at });
        last_sent_at.since(first_sent_at)
    }

    /// Whether one of these was acknowledged, or may have been and is forgotten.
    fn is_any_acked(&self, numbers: Range<u64>) -> bool {
        numbers.start < self.base || first_gap(&self.acked, numbers.clone()) != Some(numbers)
    }

    /// Persistent congestion is established: what was lost until now counts no more.
    pub(crate) fn end_run(&mut self) {
        self.lost_run = None;
    }

    /// What the oldest packets in flight carried, `count` of them at most: for probes.
    pub(crate) fn oldest(&self, count: usize) -> Vec<Content> {
        let in_flight = self.records.iter().filter(|record| record.state == State::InFlight);
        in_flight.take(count).map(|record| record.content.clone()).collect()
    }

    /// Forgets the first packets whose outcome cannot change. A lost one sent at or after `stale` may still be acknowledged.
    pub(crate) fn forget(&mut self, stale: Instant) {
        while let Some(first) = self.records.front() {
            let may_go = match first.state {
                State::InFlight => false,
                State::NotAckEliciting | State::Acked => true,
                State::Lost => first.snapshot.sent_at < stale,
            };
            if !may_go {
                return;
            }
            self.records.pop_front();
            self.acked.remove(self.base..self.base + 1);
            self.outcome_known.remove(self.base..self.base + 1);
            self.base += 1;
        }
    }
}

/// The first numbers of `within` that are not in `set`.
fn first_gap(set: &RangeSet, within: Range<u64>) -> Option<Range<u64>> {
    set.gaps(within).next()
}
