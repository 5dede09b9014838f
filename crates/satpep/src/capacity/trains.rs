//! Trains: now and then some packets leave at a multiple of the link's rate. Their spacing on arrival is the link's (Keshav, Proc. ACM
//! SIGCOMM 1991, over more than a pair), and what queue they build is gone when the pace has made up for them.
//!
//! A train's rate is the median over pairs of packets that are half a train apart, so that neither a packet that comes late nor a
//! stall of a host in the middle of it moves it.

use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What a train has told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrainResult {
    /// When it was known.
    pub(super) at: f64,
    /// Bytes per second at which it arrived, and at which it was sent.
    pub(super) found: f64,
    pub(super) offered: f64,
    /// Seconds of arrivals that each pair spans.
    pub(super) span: f64,
}

impl TrainResult {
    /// Whether the link spaced its packets out, so that what was found is the link's rate and no bound below it.
    pub(super) fn is_dispersed(&self) -> bool {
        self.found < Trains::DISPERSED * self.offered
    }
}

/// A train that is to leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Packets.
    pub(super) count: u32,
    /// Bytes per second.
    pub(super) rate: f64,
}

#[derive(Debug)]
struct Train {
    peer: PeerId,
    rate: f64,
    began: f64,
    first: PacketNumber,
    last: PacketNumber,
    count: u32,
    bytes: u64,
    /// Number, position and arrival of those that arrived.
    arrived: Vec<(PacketNumber, f64, f64)>,
}

/// How long trains may be: as long as a queue on the way has room for.
#[derive(Debug, Clone, Copy)]
struct Room {
    packets: u32,
    /// Trains in a row whose end was lost, or that arrived whole.
    cut: u32,
    whole: u32,
    /// How many times as long as usual to wait between trains: there is not even room for the shortest.
    apart: u32,
}

impl Default for Room {
    fn default() -> Self {
        Self { packets: u32::MAX, cut: 0, whole: 0, apart: 1 }
    }
}

impl Room {
    /// One train may have lost its last packet as any other is lost.
    const CUT: u32 = 2;
    /// After so many whole trains longer ones are tried: links whose queue is short now and then have room again.
    const WHOLE: u32 = 8;
    const LEAST: u32 = Trains::LEAST as u32;
    /// The longest wait: what such trains lose is nothing then.
    const FARTHEST: u32 = 64;

    /// Of a train of `count` packets `arrived` did, and the last one with most of the others or not.
    fn on_train(&mut self, count: u32, arrived: u32, has_end: bool) {
        if has_end {
            (self.cut, self.whole) = (0, self.whole + 1);
            self.apart = (self.apart / 2).max(1);
            if self.whole >= Self::WHOLE && self.packets != u32::MAX {
                (self.packets, self.whole) = (self.packets.saturating_add((self.packets / 4).max(1)), 0);
            }
            return;
        }
        (self.cut, self.whole) = (self.cut + 1, 0);
        if self.cut >= Self::CUT {
            if self.packets == Self::LEAST {
                self.apart = (self.apart * 2).min(Self::FARTHEST);
            }
            self.packets = arrived.min(count.saturating_sub(1)).max(Self::LEAST);
            self.cut = 0;
        }
    }
}

/// The train that is leaving, those under way, and what the latest have told.
#[derive(Debug, Default)]
pub(super) struct Trains {
    room: Room,
    leaving: Option<(Train, u32)>,
    under_way: VecDeque<Train>,
    results: VecDeque<TrainResult>,
    /// Lists to use again.
    spare: Vec<Vec<(PacketNumber, f64, f64)>>,
    /// Bytes that the latest train sent ahead of the pace.
    ahead: f64,
    /// Trains in a row that told nothing, since too few of their packets arrived.
    mute: u32,
}

impl Trains {
    /// A train that arrives at less than this share of its own rate was spaced out.
    const DISPERSED: f64 = 0.8;
    /// Of a train, this share has to arrive for it to tell anything.
    const ARRIVED: f64 = 0.75;
    const MAX_UNDER_WAY: usize = 64;
    const RESULTS: usize = 5;
    const LEAST: usize = 4;
    /// So many in a row that told nothing do not arrive by chance.
    const NEVER: u32 = 12;
    /// Seconds after which the rest of a train does not come.
    const PATIENCE_ROUNDS: f64 = 2.5;

    /// The most packets of a train that no queue on the way cuts.
    pub(super) fn room(&self) -> u32 {
        self.room.packets
    }

    /// How many times as long as usual to wait between trains, where a queue on the way cuts the shortest.
    pub(super) fn apart(&self) -> f64 {
        f64::from(self.room.apart)
    }

    /// Whether trains tell nothing: two in a row, of which too few packets arrived.
    pub(super) fn are_mute(&self) -> bool {
        self.mute >= 2
    }

    /// Whether not even the shortest trains arrive, one after the other: a policer's bucket or a queue holds less.
    pub(super) fn never_arrive(&self) -> bool {
        self.mute >= Self::NEVER
    }

    /// Bytes per second at which a train is leaving.
    pub(super) fn leaving_at(&self) -> Option<f64> {
        self.leaving.as_ref().map(|(train, _)| train.rate)
    }

    /// To which peer a train is leaving.
    pub(super) fn leaving_to(&self) -> Option<PeerId> {
        self.leaving.as_ref().map(|(train, _)| train.peer)
    }

    /// A train begins with packet `number`.
    pub(super) fn begin(&mut self, now: f64, peer: PeerId, number: PacketNumber, plan: Plan) {
        let mut arrived = self.spare.pop().unwrap_or_default();
        arrived.clear();
        let train =
            Train { peer, rate: plan.rate, began: now, first: number, last: number, count: 0, bytes: 0, arrived };
        self.leaving = Some((train, plan.count));
    }

    /// A packet of `peer` is about to leave. Returns whether it is one of a train, and whether the train ends with it.
    pub(super) fn advance(&mut self, peer: PeerId, number: PacketNumber) -> bool {
        // The last one may have been due and not have left, for want of credit.
        let is_of_train = |(train, left): &&mut (Train, u32)| train.peer == peer && *left > 0;
        let Some((train, left)) = self.leaving.as_mut().filter(is_of_train) else { return false };
        train.last = number;
        train.count += 1;
        *left -= 1;
        true
    }

    /// A packet of `ip_bytes` left, at a pace of `pace` bytes per second but for the train.
    pub(super) fn on_sent(&mut self, ip_bytes: usize, pace: f64) {
        if let Some((train, left)) = &mut self.leaving {
            train.bytes += ip_bytes as u64;
            self.ahead = train.bytes as f64 * (1.0 - pace / train.rate).max(0.0);
            if *left == 0 {
                self.end();
            }
        }
    }

    /// The train that is leaving ends: there is nothing more to send, or it is complete.
    pub(super) fn end(&mut self) {
        let Some((train, _)) = self.leaving.take() else { return };
        if self.under_way.len() == Self::MAX_UNDER_WAY {
            let oldest = self.under_way.pop_front();
            self.spare.extend(oldest.map(|train| train.arrived));
        }
        self.under_way.push_back(train);
    }

    /// Whether a train has ended that sent ahead of the pace.
    pub(super) fn is_ahead(&self) -> bool {
        self.leaving.is_none() && self.ahead > 0.0
    }

    /// Bytes that the train which ended lately sent ahead of the pace.
    pub(super) fn take_ahead(&mut self) -> f64 {
        if self.leaving.is_some() { 0.0 } else { std::mem::take(&mut self.ahead) }
    }

    /// A packet of a train arrived.
    pub(super) fn on_stamp(&mut self, peer: PeerId, number: PacketNumber, position: f64, arrived: f64) -> bool {
        let leaving = self.leaving.iter_mut().map(|(train, _)| train);
        let mut trains = self.under_way.iter_mut().chain(leaving);
        let Some(train) = trains.find(|train| train.peer == peer && (train.first..=train.last).contains(&number))
        else {
            return false;
        };
        if !train.arrived.iter().any(|(known, ..)| *known == number) {
            train.arrived.push((number, position, arrived));
        }
        number == train.first
    }

    /// What of `peer` up to `largest` has arrived, has; takes in what complete trains tell. Returns whether any did. The path to `peer`
    /// takes `rtt`: other peers' trains are not given up by it.
    pub(super) fn conclude(&mut self, now: f64, peer: PeerId, largest: PacketNumber, rtt: f64) -> bool {
        let (before, mut at) = (self.results.len(), 0);
        let mut news = false;
        while let Some(train) = self.under_way.get_mut(at) {
            let is_over = train.peer == peer && largest >= train.last;
            let has_arrived = train.arrived.len() as f64 >= Self::ARRIVED * f64::from(train.count);
            let is_late = train.peer == peer && now - train.began > Self::PATIENCE_ROUNDS * rtt;
            if (is_over && has_arrived) || is_late {
                // Where a slot of a full queue becomes free in time, the last packet has it, and those before were dropped.
                let has_end = has_arrived && train.arrived.iter().any(|(number, ..)| *number == train.last);
                self.room.on_train(train.count, train.arrived.len() as u32, has_end);
                if is_over
                    && has_arrived
                    && let Some(result) = train.evaluate(now)
                {
                    self.results.push_back(result);
                    (news, self.mute) = (true, 0);
                } else {
                    self.mute += 1;
                }
                let train = self.under_way.remove(at);
                self.spare.extend(train.map(|train| train.arrived));
            } else {
                at += 1;
            }
        }
        debug_assert!(self.results.len() >= before);
        while self.results.len() > Self::RESULTS {
            self.results.pop_front();
        }
        news
    }

    /// What the latest trains have told since `since`.
    pub(super) fn results(&self, since: f64) -> impl DoubleEndedIterator<Item = &TrainResult> {
        self.results.iter().filter(move |result| result.at > since)
    }

    /// Nothing more arrives at `peer` of what was sent in its session, which is over.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.under_way.retain(|train| train.peer != peer);
    }

    /// What is under way was sent to a link that is another now.
    pub(super) fn forget_under_way(&mut self) {
        self.end();
        self.spare.extend(self.under_way.drain(..).map(|train| train.arrived));
    }

    /// What trains have told does not hold any more.
    pub(super) fn forget_results(&mut self) {
        self.results.clear();
    }
}

impl Train {
    fn evaluate(&mut self, now: f64) -> Option<TrainResult> {
        let arrived = &mut self.arrived;
        let half = arrived.len() / 2;
        if arrived.len() < Trains::LEAST {
            return None;
        }
        arrived.sort_unstable_by_key(|(number, ..)| *number);
        let pairs = (0..arrived.len() - half).map(|k| {
            let ((_, from, began), (_, to, ended)) = (arrived[k], arrived[k + half]);
            (ended - began) / (to - from).max(1.0)
        });
        let mut seconds_per_byte: SmallVec<[f64; 64]> = pairs.collect();
        let median = median(&mut seconds_per_byte);
        let found = if median > 0.0 { 1.0 / median } else { self.rate };
        let bytes = (arrived[half].1 - arrived[0].1).max(1.0);
        Some(TrainResult { at: now, found: found.min(self.rate), offered: self.rate, span: (median * bytes).max(1e-4) })
    }
}

/// The median of `values`, which are put in order; zero of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId(0);

    /// A train of 16 packets of 1500 bytes at 6 MB/s that arrive as `arrives` says of their places; what it told.
    fn train(arrives: impl Fn(u32) -> Option<f64>) -> Option<TrainResult> {
        let mut trains = Trains::default();
        trains.begin(1.0, PEER, PacketNumber::new(100), Plan { count: 16, rate: 6e6 });
        for k in 0..16 {
            assert!(trains.advance(PEER, PacketNumber::new(100 + k)));
            trains.on_sent(1500, 750_000.0);
        }
        assert!(trains.leaving_at().is_none() && (trains.take_ahead() - 21_000.0).abs() < 1.0);
        for k in (0..16).filter(|k| arrives(*k).is_some()) {
            let position = f64::from(k + 1) * 1500.0;
            trains.on_stamp(PEER, PacketNumber::new(100 + u64::from(k)), position, arrives(k).unwrap_or_default());
        }
        trains.conclude(1.6, PEER, PacketNumber::new(120), 0.55);
        trains.results(0.0).last().copied()
    }

    #[test]
    fn a_train_tells_the_rate_of_the_link() {
        let result = train(|k| Some(-7.0 + 0.002 * f64::from(k))).unwrap();
        assert!((result.found - 750_000.0).abs() < 1.0 && result.is_dispersed() && (result.span - 0.016).abs() < 1e-6);
        let result = train(|k| Some(0.000_25 * f64::from(k))).unwrap();
        assert!(!result.is_dispersed(), "it was not spaced out: the link carries as much at least");
    }

    #[test]
    fn neither_losses_nor_a_late_packet_nor_a_stall_move_it() {
        let lost = train(|k| (k % 5 != 2).then_some(0.002 * f64::from(k))).unwrap();
        let late = train(|k| Some(0.002 * f64::from(k) + if k == 6 { 0.02 } else { 0.0 })).unwrap();
        let stall = train(|k| Some(if (3..6).contains(&k) { 0.012 } else { 0.002 * f64::from(k) })).unwrap();
        for result in [lost, late, stall] {
            assert!((result.found / 750_000.0 - 1.0).abs() < 0.15, "{result:?}");
        }
        assert_eq!(train(|k| (k % 3 == 0).then_some(0.002 * f64::from(k))), None, "too few arrived");
    }

    #[test]
    fn a_train_to_a_far_peer_is_waited_for_while_a_near_one_reports() {
        let mut trains = Trains::default();
        trains.begin(1.0, PEER, PacketNumber::ZERO, Plan { count: 8, rate: 6e6 });
        for k in 0..8 {
            trains.advance(PEER, PacketNumber::new(k));
            trains.on_sent(1500, 750_000.0);
        }
        assert!(!trains.conclude(1.3, PeerId(1), PacketNumber::new(900), 0.03));
        (0..8).for_each(|k| _ = trains.on_stamp(PEER, PacketNumber::new(k), 1500.0 * k as f64, 0.002 * k as f64));
        assert!(trains.conclude(1.6, PEER, PacketNumber::new(8), 0.55));
    }

    #[test]
    fn a_train_whose_last_packet_did_not_leave_does_not_go_on() {
        let mut trains = Trains::default();
        trains.begin(1.0, PEER, PacketNumber::ZERO, Plan { count: 1, rate: 6e6 });
        assert!(trains.advance(PEER, PacketNumber::ZERO));
        assert!(!trains.advance(PEER, PacketNumber::ZERO));
        trains.on_sent(1500, 750_000.0);
        assert_eq!(trains.leaving_at(), None);
    }

    #[test]
    fn a_train_that_runs_out_of_data_is_shorter_and_another_peers_packets_are_none_of_it() {
        let mut trains = Trains::default();
        trains.begin(0.0, PEER, PacketNumber::ZERO, Plan { count: 16, rate: 6e6 });
        assert!(!trains.advance(PeerId(1), PacketNumber::new(7)));
        for k in 0..6 {
            trains.advance(PEER, PacketNumber::new(k));
            trains.on_sent(1500, 750_000.0);
        }
        trains.end();
        (0..6).for_each(|k| _ = trains.on_stamp(PEER, PacketNumber::new(k), 1500.0 * k as f64, 0.002 * k as f64));
        assert!(trains.conclude(0.6, PEER, PacketNumber::new(6), 0.55));
    }
}
