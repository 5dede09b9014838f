//! A packet model of a transfer over one link, for tests of the estimator alone: a sender that always has the next bytes, or those that
//! its application has written, loss and repetition, and acknowledgements as the transport sends them.

use super::super::delays::Counts;
use super::super::estimate::{EstimateSource, EstimatorState};
use super::super::estimator::{Estimator, News};
use super::super::parts::{EstimatorPart, EstimatorParts};
use super::super::path_reports::{Account, PathReports};
use super::super::prior::Prior;
use super::super::report::{LostPacket, Report, Stamp};
use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use units::{CounterRandom, Duration, Instant, Rate};

const SIZE: f64 = 1500.0;
const DATA: f64 = 1448.0;
const PEER: PeerId = PeerId(0);

/// A path and what is sent over it; rates in bit/s, times in seconds.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) prior: Prior,
    /// When each rate begins.
    pub(super) steps: Vec<(f64, f64)>,
    /// The round-trip time at a time.
    pub(super) rtt: fn(f64) -> f64,
    pub(super) bytes: f64,
    /// The queue in BDPs.
    pub(super) queue: f64,
    pub(super) loss: f64,
    /// Loss in bursts: how often they begin, and end.
    pub(super) bursts: Option<(f64, f64)>,
    /// A token bucket instead of a queue, of so many bytes.
    pub(super) policer: Option<f64>,
    /// A share of packets is late by a time.
    pub(super) reordering: Option<(f64, f64)>,
    /// Acknowledgements leave at multiples of this time.
    pub(super) clumps: f64,
    /// A share of acknowledgements is lost.
    pub(super) lost_reports: f64,
    /// Each end's host is late by this much in the mean, now and then.
    pub(super) stalls: f64,
    /// The receiver's clock: how fast it is, and when it is set by how much.
    pub(super) skew: f64,
    pub(super) clock_step: Option<(f64, f64)>,
    /// Nothing passes in this time.
    pub(super) outage: Option<(f64, f64)>,
    /// A frame of the air interface.
    pub(super) frame: f64,
    /// Poisson traffic of others.
    pub(super) cross: f64,
    /// When the modem reports a rate, and which.
    pub(super) reported: Option<(f64, Rate)>,
    /// A part of the estimator that is left out.
    pub(super) without: Option<EstimatorPart>,
    /// What the application writes per second.
    pub(super) app: Option<f64>,
    /// In pieces of so many bytes.
    pub(super) pages: f64,
    pub(super) seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            prior: Prior::Configured(Rate::from_bps(6_000_000)),
            steps: vec![(0.0, 6e6)],
            rtt: |_| 0.55,
            bytes: 10e6,
            queue: 1.0,
            loss: 1e-3,
            bursts: None,
            policer: None,
            reordering: None,
            clumps: 0.0,
            lost_reports: 0.0,
            stalls: 0.0,
            skew: 0.0,
            clock_step: None,
            outage: None,
            frame: 0.0,
            cross: 0.0,
            reported: None,
            without: None,
            app: None,
            pages: DATA,
            seed: 1,
        }
    }
}

/// How a transfer went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    /// The time that the link needs at least, as a share of the time it took.
    pub(super) share: f64,
    /// Bytes sent beyond those of the data.
    pub(super) overhead: f64,
    /// The queue's 95th percentile, in seconds.
    pub(super) queue: f64,
    /// The estimate at the end, in bit/s.
    pub(super) rate: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Send(u32),
    Arrive(usize),
    Acknowledge(u32),
    Report(usize),
    Patience,
    Cross,
    Modem(Rate),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    at: f64,
    order: u64,
    kind: Kind,
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.order.cmp(&other.order))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    piece: usize,
    sent: f64,
    position: u64,
    is_train: bool,
}

/// The link's transmitter.
#[derive(Debug)]
struct Link {
    free: f64,
    tokens: f64,
    tokens_at: f64,
    is_bad: bool,
}

#[derive(Debug, Default)]
struct Receiver {
    pending: Vec<(usize, f64)>,
    first: u32,
    packets: u64,
    bytes: u64,
    expected: usize,
    stalled_until: f64,
}

/// An acknowledgement: packets with when they arrived, and how many packets and bytes had.
type Sent = (Vec<(usize, f64)>, u64, u64);

struct Sender {
    estimator: Estimator,
    path: PathReports,
    totals: Counts,
    new: usize,
    again: VecDeque<usize>,
    packets: Vec<Packet>,
    position: u64,
    next: f64,
    wake: u32,
    wakes_at: Option<f64>,
    /// In flight, and since when they are missing.
    outstanding: BTreeMap<usize, Option<f64>>,
    lost_at: BTreeMap<usize, f64>,
    largest: usize,
    window: f64,
    heard: f64,
    asked: f64,
}

pub(super) struct Model {
    path: Path,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    random: CounterRandom,
    link: Link,
    buffer: f64,
    pieces: usize,
    tail: usize,
    got: Vec<bool>,
    missing: usize,
    finished: Option<f64>,
    receiver: Receiver,
    sender: Sender,
    reports: Vec<Sent>,
    queues: Vec<f64>,
    sampled: f64,
    pub(super) trace: Vec<String>,
    trace_state: Option<EstimatorState>,
}

impl Model {
    pub(super) fn new(path: Path) -> Self {
        let rtt = (path.rtt)(0.0);
        let bdp = path.steps[0].1 * rtt / 8.0;
        let pieces = (path.bytes / DATA).ceil() as usize;
        let belief = path.prior.belief(Duration::from_secs_f64(rtt), None);
        let parts = path.without.map_or(EstimatorParts::ALL, |part| EstimatorParts::ALL.without(part));
        Self {
            events: BinaryHeap::new(),
            order: 0,
            random: CounterRandom::new(path.seed, 0),
            link: Link { free: 0.0, tokens: path.policer.unwrap_or(0.0), tokens_at: 0.0, is_bad: false },
            buffer: (path.queue * bdp).max(3000.0),
            pieces,
            tail: (1.2 * bdp / SIZE).max(300.0) as usize,
            got: vec![false; pieces],
            missing: pieces,
            finished: None,
            receiver: Receiver::default(),
            sender: Sender {
                estimator: Estimator::new(belief, Duration::from_secs_f64(rtt)).with(parts),
                path: PathReports::default(),
                totals: Counts::default(),
                new: 0,
                again: VecDeque::new(),
                packets: Vec::new(),
                position: 0,
                next: 0.0,
                wake: 0,
                wakes_at: None,
                outstanding: BTreeMap::new(),
                lost_at: BTreeMap::new(),
                largest: 0,
                window: 0.0,
                heard: 0.0,
                asked: 0.0,
            },
            reports: Vec::new(),
            queues: Vec::new(),
            sampled: 0.0,
            path,
            trace: Vec::new(),
            trace_state: None,
        }
    }

    fn at(&mut self, at: f64, kind: Kind) {
        self.order += 1;
        self.events.push(Reverse(Event { at, order: self.order, kind }));
    }

    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// A host that is late now and then.
    fn lateness(&mut self) -> f64 {
        if self.path.stalls > 0.0 && self.unit() < 0.25 { self.exponential(self.path.stalls) } else { 0.0 }
    }

    fn rate(&self, now: f64) -> f64 {
        self.path.steps.iter().take_while(|(at, _)| *at <= now).last().map_or(self.path.steps[0].1, |(_, rate)| *rate)
    }

    /// When `bytes` begun at `now` have left.
    fn finish(steps: &[(f64, f64)], mut now: f64, bytes: f64) -> f64 {
        let mut bits = bytes * 8.0;
        let mut at = steps.iter().take_while(|(at, _)| *at <= now).count().max(1) - 1;
        loop {
            let (end, rate) = (steps.get(at + 1).map_or(f64::INFINITY, |(end, _)| *end), steps[at].1);
            if now + bits / rate <= end {
                return now + bits / rate;
            }
            bits -= (end - now) * rate;
            (now, at) = (end, at + 1);
        }
    }

    /// Hands a packet to the link; when it has left, unless it was dropped.
    fn enter(&mut self, now: f64, size: f64) -> Option<f64> {
        let now = if self.path.frame > 0.0 { (now / self.path.frame).ceil() * self.path.frame } else { now };
        let rate = self.rate(now);
        if let Some(bucket) = self.path.policer {
            self.link.tokens = (self.link.tokens + (now - self.link.tokens_at) * rate / 8.0).min(bucket);
            self.link.tokens_at = now;
            if self.link.tokens < size {
                return None;
            }
            self.link.tokens -= size;
            self.link.free = self.link.free.max(now) + size * 8.0 / 100e6;
            return Some(self.link.free);
        }
        if (self.link.free - now).max(0.0) * rate / 8.0 + size > self.buffer {
            return None;
        }
        self.link.free = Self::finish(&self.path.steps, self.link.free.max(now), size);
        Some(self.link.free)
    }

    fn is_out(&self, at: f64) -> bool {
        self.path.outage.is_some_and(|(begins, ends)| begins <= at && at < ends)
    }

    fn written(&self, now: f64) -> usize {
        let pages = |app: f64| (now * app / 8.0 / self.path.pages).floor() * self.path.pages;
        self.path.app.map_or(self.pieces, |app| ((pages(app) / DATA) as usize + 1).min(self.pieces))
    }

    fn send(&mut self, now: f64) {
        loop {
            if now + 1e-9 < self.sender.next {
                break;
            }
            let backlog = self.written(now) - self.sender.new + self.sender.again.len();
            let piece = match self.sender.again.pop_front() {
                Some(piece) => piece,
                None if self.sender.new < self.written(now) => {
                    self.sender.new += 1;
                    self.sender.new - 1
                }
                None => {
                    self.sender.estimator.trains.end();
                    self.sender.wakes_at = None;
                    return;
                }
            };
            if self.got[piece] {
                continue;
            }
            self.send_piece(now, piece, backlog);
        }
        let at = self.sender.next + self.lateness();
        if self.sender.wakes_at.is_none_or(|wakes_at| wakes_at > at + 1e-9 || wakes_at <= now) {
            self.sender.wake += 1;
            self.sender.wakes_at = Some(at);
            self.at(at, Kind::Send(self.sender.wake));
        }
    }

    fn send_piece(&mut self, now: f64, piece: usize, backlog: usize) {
        let sender = &mut self.sender;
        let number = sender.packets.len();
        let estimator = &mut sender.estimator;
        let (next, waiting) = (PacketNumber::new(number as u64), (backlog as f64 * SIZE) as u64);
        if estimator.trains.leaving_at().is_none() {
            estimator.begin_train_if_due(now, PEER, next, |bytes| waiting >= bytes);
        }
        let is_train = estimator.trains.advance(PEER, next);
        sender.position += SIZE as u64;
        estimator.on_sent(now, SIZE as usize, sender.position as f64, None);
        let pace = estimator.pace(now);
        let gap = SIZE / estimator.trains.leaving_at().unwrap_or(pace);
        let ahead = (estimator.trains.take_ahead() / pace).min((estimator.rtt.smoothed / 4.0).max(0.04));
        sender.packets.push(Packet { piece, sent: now, position: sender.position, is_train });
        sender.outstanding.insert(number, None);
        sender.next = sender.next.max(now - 0.004) + gap + ahead;
        let late = now + self.lateness();
        let out = if self.is_out(late + (self.path.rtt)(late) / 4.0) { None } else { self.enter(late, SIZE) };
        let Some(out) = out else { return };
        let Path { reordering, bursts, loss, .. } = self.path;
        let lost = match bursts {
            Some((begins, ends)) => {
                let turn = self.unit();
                self.link.is_bad = if self.link.is_bad { turn >= ends } else { turn < begins };
                self.link.is_bad
            }
            None => self.unit() < loss,
        };
        // What is lost at the end costs a round trip, which is none of the estimator's business.
        let is_end = piece + self.tail > self.pieces || self.sender.new >= self.pieces;
        if lost && !is_end {
            return;
        }
        let late = match reordering {
            Some((share, by)) if self.unit() < share => by,
            _ => 0.0,
        };
        self.at(out + (self.path.rtt)(out) / 2.0 + late, Kind::Arrive(number));
    }

    fn arrive(&mut self, now: f64, number: usize) {
        self.receiver.packets += 1;
        self.receiver.bytes += SIZE as u64;
        if self.path.stalls > 0.0 && now > self.receiver.stalled_until && self.unit() < 0.05 {
            self.receiver.stalled_until = now + self.exponential(self.path.stalls);
        }
        let seen = now.max(self.receiver.stalled_until);
        let step = self.path.clock_step.filter(|(at, _)| now >= *at).map_or(0.0, |(_, by)| by);
        let stamp = (seen + 123.4) * (1.0 + self.path.skew) + step;
        let piece = self.sender.packets[number].piece;
        if !std::mem::replace(&mut self.got[piece], true) {
            self.missing -= 1;
        }
        if self.missing == 0 && self.finished.is_none() {
            self.finished = Some(now);
        }
        let is_gap = number > self.receiver.expected;
        self.receiver.expected = self.receiver.expected.max(number + 1);
        if self.receiver.pending.is_empty() {
            self.receiver.first += 1;
            let delay = ((self.path.rtt)(now) / 32.0).clamp(0.001, 0.025);
            self.at(seen + delay, Kind::Acknowledge(self.receiver.first));
        }
        self.receiver.pending.push((number, stamp));
        if is_gap || self.receiver.pending.len() >= 16 {
            self.acknowledge(seen);
        }
    }

    fn acknowledge(&mut self, now: f64) {
        if self.receiver.pending.is_empty() || (self.path.lost_reports > 0.0 && self.unit() < self.path.lost_reports) {
            if !self.receiver.pending.is_empty() {
                self.receiver.first += 1;
                self.at(now + 0.02, Kind::Acknowledge(self.receiver.first));
            }
            return;
        }
        let pending = std::mem::take(&mut self.receiver.pending);
        let mut at = now + (self.path.rtt)(now) / 2.0;
        if self.path.clumps > 0.0 {
            at = (at / self.path.clumps).ceil() * self.path.clumps;
        }
        if !self.is_out(now + (self.path.rtt)(now) / 4.0) {
            self.reports.push((pending, self.receiver.packets, self.receiver.bytes));
            self.at(at, Kind::Report(self.reports.len() - 1));
        }
    }

    /// What the transport stamps: the newest, four others, and those of trains.
    fn stamps(&self, arrived: &[(usize, f64)]) -> Vec<(usize, f64)> {
        let packets = &self.sender.packets;
        let newest = arrived.iter().copied().max_by_key(|(number, _)| *number);
        let plain: Vec<_> = arrived.iter().filter(|(number, _)| !packets[*number].is_train).copied().collect();
        let spread = plain.iter().step_by((plain.len() / 4).max(1)).copied();
        let trains = arrived.iter().filter(|(number, _)| packets[*number].is_train).copied();
        let mut all: Vec<_> = spread.chain(trains).chain(newest).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        all.dedup();
        all
    }

    fn report(&mut self, now: f64, index: usize) {
        let (arrived, received_packets, received_bytes) = std::mem::take(&mut self.reports[index]);
        self.sender.heard = now;
        let lost = self.detect_losses(now, &arrived);
        let report = self.make_report(&arrived, (received_packets, received_bytes), &lost);
        self.feed(now, &report);
    }

    /// Takes packets as lost that were sent before one that arrived, and not reported in time.
    fn detect_losses(&mut self, now: f64, arrived: &[(usize, f64)]) -> Vec<usize> {
        for (number, _) in arrived {
            if self.sender.outstanding.remove(number).is_none()
                && let Some(lost_at) = self.sender.lost_at.remove(number)
            {
                let late = now - lost_at;
                self.sender.window = (2.0 * late).max(self.sender.window + late).min(0.15);
            }
            self.sender.largest = self.sender.largest.max(*number);
        }
        let (largest, window) = (self.sender.largest, self.sender.window);
        let mut lost = Vec::new();
        for (number, missing) in self.sender.outstanding.range_mut(..largest) {
            if *missing.get_or_insert(now) + window <= now {
                lost.push(*number);
            }
        }
        for number in &lost {
            self.sender.outstanding.remove(number);
            self.sender.lost_at.insert(*number, now);
            self.sender.again.push_back(self.sender.packets[*number].piece);
        }
        lost
    }

    fn make_report(
        &self,
        arrived: &[(usize, f64)],
        (received_packets, received_bytes): (u64, u64),
        lost: &[usize],
    ) -> Report {
        let instant = |at: f64| Instant::ZERO + Duration::from_secs_f64(at);
        let packets = &self.sender.packets;
        let stamps = self.stamps(arrived);
        let stamp = |(number, arrived): (usize, f64)| {
            let Packet { sent, position, is_train, .. } = packets[number];
            Stamp {
                number: PacketNumber::new(number as u64),
                sent: instant(sent),
                position,
                own: position,
                ip_size: SIZE as u16,
                is_train,
                arrived: Duration::from_secs_f64(arrived),
            }
        };
        let lost = lost.iter().map(|&number| LostPacket {
            number: PacketNumber::new(number as u64),
            sent: instant(packets[number].sent),
            position: packets[number].position,
            ip_size: SIZE as u16,
            is_train: packets[number].is_train,
        });
        let largest = PacketNumber::new(self.sender.largest as u64);
        Report {
            received_packets,
            received_bytes,
            ce: None,
            stamps: stamps.into_iter().map(stamp).collect(),
            largest,
            settled: largest,
            acknowledged: arrived.len() as u32,
            lost: lost.collect(),
            late_bytes: 0,
        }
    }

    /// Has the estimator take in a report, and sends what may be sent then.
    fn feed(&mut self, now: f64, report: &Report) {
        let Sender { estimator, path, totals, .. } = &mut self.sender;
        let was_silent = estimator.silence.is_silent(now, &estimator.rtt);
        if was_silent {
            estimator.restart(now);
            path.interrupt();
        }
        let before = estimator.rate;
        let rule = estimator.point_rule(now);
        let account = Account { totals, clock: 0, loses_alone: false };
        let trains = &mut estimator.trains;
        let is_first =
            |stamp: &Stamp| trains.on_stamp(PEER, stamp.number, stamp.position as f64, stamp.arrived.as_secs_f64());
        let Some(reading) = path.read(report, account, rule, is_first) else { return };
        let (lost, wander) = (&report.lost, path.wander());
        let news = News {
            newest: reading.newest,
            largest: report.largest,
            lost,
            point: reading.point,
            wander,
            counts: *totals,
            rtt: None,
        };
        let judgement = estimator.on_report(now, PEER, &news);
        if let Some(shift) = judgement.shift {
            path.shift(shift);
        }
        let hold = judgement.hold_until;
        self.trace_estimate(now, before);
        if let Some(until) = hold {
            self.sender.next = self.sender.next.max(until);
        } else if was_silent {
            self.sender.next = now;
        }
        self.send(now);
    }

    /// Writes a line if the estimate is no longer `before`, or its state is another.
    fn trace_estimate(&mut self, now: f64, before: f64) {
        let estimator = &self.sender.estimator;
        let state = estimator.state(now);
        if (estimator.rate / before - 1.0).abs() > 0.001 || self.trace_state != Some(state) {
            let queue = 1e3 * estimator.queue;
            self.trace.push(format!(
                "{now:.3} {state:?} {:?} {:.3} queue {queue:.0} ms",
                estimator.why,
                estimator.rate * 8e-6
            ));
            self.trace_state = Some(state);
        }
    }

    /// What is lost at the end is asked for.
    fn request_last(&mut self, now: f64) {
        let rtt = (self.path.rtt)(now);
        let is_over = self.sender.again.is_empty() && self.sender.new >= self.pieces;
        if is_over && now - self.sender.heard.max(self.sender.asked) > 1.3 * rtt + 0.05 {
            self.sender.asked = now;
            if let Some((number, _)) = self.sender.outstanding.first_key_value() {
                self.sender.again.push_back(self.sender.packets[*number].piece);
            }
            self.send(now);
        }
        if self.finished.is_none() {
            self.at(now + 0.1, Kind::Patience);
        }
    }

    /// Runs the transfer to its end.
    pub(super) fn run(&mut self) -> Outcome {
        self.at(0.0, Kind::Send(0));
        self.at(0.1, Kind::Patience);
        if self.path.cross > 0.0 {
            self.at(0.0, Kind::Cross);
        }
        if let Some((at, rate)) = self.path.reported {
            self.at(at, Kind::Modem(rate));
        }
        if let Some(app) = self.path.app {
            let end = self.pieces as f64 * DATA * 8.0 / app + 1.0;
            (0..(end / 0.02) as u32).for_each(|k| self.at(f64::from(k) * 0.02, Kind::Send(0)));
        }
        while let Some(Reverse(Event { at: now, kind, .. })) = self.events.pop() {
            if now > 300.0 || (self.finished.is_some() && self.sender.outstanding.is_empty()) {
                break;
            }
            while self.sampled <= now && self.finished.is_none() {
                self.queues.push((self.link.free - self.sampled).max(0.0));
                self.sampled += 0.05;
            }
            match kind {
                Kind::Send(wake) if wake == 0 || wake == self.sender.wake => {
                    self.sender.wakes_at = None;
                    self.send(now);
                }
                Kind::Send(_) => {}
                Kind::Arrive(number) => self.arrive(now, number),
                Kind::Acknowledge(first) if first == self.receiver.first => self.acknowledge(now),
                Kind::Acknowledge(_) => {}
                Kind::Report(index) => self.report(now, index),
                Kind::Patience => self.request_last(now),
                Kind::Modem(rate) => {
                    let belief = Prior::Configured(rate).belief(Duration::from_secs_f64((self.path.rtt)(now)), None);
                    self.sender.estimator.begin_at(belief, EstimateSource::Reported);
                }
                Kind::Cross => {
                    self.enter(now, 1000.0);
                    let gap = self.exponential(8000.0 / self.path.cross);
                    self.at(now + gap, Kind::Cross);
                }
            }
        }
        self.outcome()
    }

    fn outcome(&mut self) -> Outcome {
        let took = self.finished.unwrap_or(f64::INFINITY);
        let loss = self.path.bursts.map_or(self.path.loss, |(begins, ends)| begins / (begins + ends));
        let bytes = self.pieces as f64 * SIZE / (1.0 - loss);
        let steps: Vec<_> = self.path.steps.iter().map(|(at, rate)| (*at, rate - self.path.cross)).collect();
        let outage = self.path.outage.map_or(0.0, |(begins, ends)| ends - begins);
        let least = match self.path.app {
            Some(app) => self.pieces as f64 * DATA * 8.0 / app,
            None => Self::finish(&steps, 0.0, bytes) + outage,
        };
        self.queues.sort_by(f64::total_cmp);
        let at = (self.queues.len() as f64 * 0.95) as usize;
        Outcome {
            share: (least + (self.path.rtt)(13.0) / 2.0) / took,
            overhead: self.sender.position as f64 / (self.pieces as f64 * SIZE) - 1.0,
            queue: self.queues.get(at).copied().unwrap_or_default(),
            rate: self.sender.estimator.rate * 8.0,
        }
    }
}
