//! A survey: what the path to a peer carries, found by filling it for a moment with packets that say nothing else.
//!
//! It goes through phases. A few packets leave in batches and as many one by one: where only these arrive, batches (GSO) are
//! broken. Then the path is offered the rate that is thought right, for long enough to empty a policer's bucket: what
//! arrives in the last third is carried. Losses without a queue are a policer's or the link's noise, which offering half of
//! what was carried tells apart: noise stays. A path that carries all of it is offered twice as much and more in bursts,
//! as long as they arrive as fast as they were sent.
//!
//! The peer need not know of surveys: it acknowledges packets and reports when marked ones arrived.

use crate::packet_number::PacketNumber;
use units::{Bytes, Duration, Instant, Rate};

/// What a survey has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SurveyReport {
    /// Whether it is over.
    pub is_done: bool,
    /// What was offered at first: the rate that is thought right.
    pub offered: Rate,
    /// What the path carries as IP packets, or [`Self::has_more`]; `None` if too little arrived.
    pub carried: Option<Rate>,
    /// The path carried all that it was offered, so that it may carry more.
    pub has_more: bool,
    /// What is beyond `carried` is dropped at once instead of being queued: a policer limits packets.
    pub is_policed: bool,
    /// Packets that leave in batches (GSO) get lost, and single ones do not.
    pub are_batches_lost: bool,
    /// IP bytes sent for it.
    pub sent: Bytes,
}

/// The most that a survey sends to a peer when `rate` is thought right, and how long that takes beside some round trips.
pub fn survey_cost(rate: Rate) -> (Bytes, Duration) {
    let sustained = sustained(rate);
    // Each is twice the one before.
    let bursts = burst(rate).as_u64() * ((1 << Survey::MAX_DOUBLINGS) - 1);
    let bytes = Survey::FEW as u64 * 2 * 1500 + sustained.as_u64() * 3 / 2 + bursts;
    // The time has a reserve of as much as the bursts.
    (Bytes::new(bytes), rate.time_to_send(Bytes::new(bytes + bursts)))
}

/// What is offered at the rate that is thought right.
fn sustained(rate: Rate) -> Bytes {
    rate.bytes_in(Survey::SUSTAINED).clamp(Survey::MIN_BURST, Survey::MAX_SUSTAINED)
}

/// What is offered at twice that.
fn burst(rate: Rate) -> Bytes {
    rate.bytes_in(Survey::BURST).clamp(Survey::MIN_BURST, Survey::MAX_BURST)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batches,
    Singles,
    Sustained,
    /// Half of what was carried, after losses without a queue.
    Relief,
    /// So many times the double of what is thought right.
    Burst(u32),
}

#[derive(Debug)]
pub(crate) struct Survey {
    report: SurveyReport,
    kind: Kind,
    rate: Rate,
    /// Bytes of the phase that are still to be sent, and when the next may.
    left: u64,
    next_at: Instant,
    /// What has been sent has had the time to arrive then, and to be acknowledged.
    settled_at: Option<Instant>,
    samples: Vec<Sample>,
    /// Of samples by their place: when they arrived, by the peer's clock.
    arrivals: Vec<(usize, Duration)>,
    /// The share of the first phase's packets that arrived; and that of the sustained phase's that did not.
    batches_arrived: f64,
    losses: f64,
}

/// A packet of the current phase.
#[derive(Debug, Clone, Copy)]
struct Sample {
    number: PacketNumber,
    sent: Instant,
    ip_bytes: usize,
    has_arrived: bool,
}

impl Survey {
    /// Packets of the first two phases, and how many of them leave in a batch.
    const FEW: usize = 16;
    pub(crate) const BATCH: usize = 4;
    const SUSTAINED: Duration = Duration::from_secs(3);
    const MAX_SUSTAINED: Bytes = Bytes::new(24 << 20);
    const BURST: Duration = Duration::from_millis(24);
    const MAX_BURST: Bytes = Bytes::new(1 << 20);
    const MIN_BURST: Bytes = Bytes::new(24 * 1500);
    const MAX_DOUBLINGS: u32 = 4;
    /// Beside round trips, how long the news of what arrived may take.
    const SLACK: Duration = Duration::from_millis(300);
    /// A path that carries this share of what it was offered carries all of it.
    const ALL: f64 = 0.93;
    /// Losses beyond this are not few; half as many and less are another rate's.
    const LOSSES: f64 = 0.05;
    const MENDED: f64 = 0.4;
    /// A queue that grows by less is none.
    const QUEUE: Duration = Duration::from_millis(20);
    /// Sending that is late by less is made up for.
    const LATENESS: Duration = Duration::from_millis(5);

    /// A survey of a path that is thought to carry `rate`.
    pub(crate) fn new(now: Instant, rate: Rate) -> Self {
        let report = SurveyReport { offered: rate, ..SurveyReport::default() };
        let mut survey = Self {
            report,
            kind: Kind::Batches,
            rate,
            left: 0,
            next_at: now,
            settled_at: None,
            samples: Vec::new(),
            arrivals: Vec::new(),
            batches_arrived: 0.0,
            losses: 0.0,
        };
        survey.begin(now, Kind::Batches, rate.mul_f64(0.5), Bytes::new(Self::FEW as u64 * 1500));
        survey
    }

    pub(crate) fn report(&self) -> SurveyReport {
        self.report
    }

    fn begin(&mut self, now: Instant, kind: Kind, rate: Rate, bytes: Bytes) {
        (self.kind, self.rate, self.left, self.next_at, self.settled_at) = (kind, rate, bytes.as_u64(), now, None);
        self.samples.clear();
        self.arrivals.clear();
    }

    /// It is over, and only its report is kept.
    fn end(&mut self) {
        self.report.is_done = true;
        (self.samples, self.arrivals) = (Vec::new(), Vec::new());
    }

    /// When there will be something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        (!self.report.is_done).then(|| self.settled_at.unwrap_or(self.next_at))
    }

    /// How many packets are to leave now, with one call. `rtt` is how long news take.
    pub(crate) fn poll(&mut self, now: Instant, rtt: Duration) -> usize {
        if self.settled_at.is_some_and(|at| at <= now) {
            self.judge(now);
        }
        if self.report.is_done || self.settled_at.is_some() || self.next_at > now {
            return 0;
        }
        if self.left == 0 {
            self.settled_at = Some(now + rtt + Self::SLACK);
            return 0;
        }
        if self.kind == Kind::Batches { Self::BATCH } else { 1 }
    }

    /// Whether to request the arrival time of the next packet: that of the first and the last, and in between now and then, since
    /// the peer forgets.
    pub(crate) fn asks(&self, ip_bytes: usize) -> bool {
        self.samples.len().is_multiple_of(256) || self.left <= ip_bytes as u64
    }

    /// A packet has left.
    pub(crate) fn on_sent(&mut self, now: Instant, number: PacketNumber, ip_bytes: usize) {
        self.samples.push(Sample { number, sent: now, ip_bytes, has_arrived: false });
        self.report.sent += Bytes::from(ip_bytes);
        self.left = self.left.saturating_sub(ip_bytes as u64);
        let next = self.next_at + self.rate.time_to_send(Bytes::from(ip_bytes));
        // Sending that is far behind goes on from here.
        self.next_at = if next + Self::LATENESS < now { now } else { next };
    }

    fn place(&self, number: PacketNumber) -> Option<usize> {
        self.samples.binary_search_by_key(&number, |sample| sample.number).ok()
    }

    /// Packet `number` is known to have arrived.
    pub(crate) fn on_acknowledged(&mut self, number: PacketNumber) {
        if let Some(at) = self.place(number) {
            self.samples[at].has_arrived = true;
        }
    }

    /// The peer reported when packet `number` arrived.
    pub(crate) fn on_arrival(&mut self, number: PacketNumber, arrived: Duration) {
        // A peer may report the same arrival again and again.
        if self.arrivals.len() < self.samples.len()
            && let Some(at) = self.place(number)
        {
            self.arrivals.push((at, arrived));
        }
    }

    /// The share of the phase's packets that arrived.
    fn arrived(&self) -> f64 {
        let count = self.samples.iter().filter(|sample| sample.has_arrived).count();
        count as f64 / self.samples.len().max(1) as f64
    }

    /// What arrived from the packet at place `from` on, by the time that it took.
    fn carried(&self, from: usize) -> Option<Rate> {
        let mut told: Vec<_> = self.arrivals.iter().filter(|(at, _)| *at >= from).copied().collect();
        told.sort_unstable();
        let (&(first, began), &(last, ended)) = (told.first()?, told.last()?);
        let took = ended.saturating_sub(began);
        let bytes = self.samples[first + 1..=last].iter().filter(|sample| sample.has_arrived);
        let bytes = Bytes::from(bytes.map(|sample| sample.ip_bytes).sum::<usize>());
        (last >= first + 8 && !took.is_zero()).then(|| Rate::from_transfer(bytes, took))
    }

    /// What was offered: less than was meant where sending was late.
    fn offered(&self) -> Rate {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else { return Rate::default() };
        let bytes = Bytes::from(self.samples[1..].iter().map(|sample| sample.ip_bytes).sum::<usize>());
        Rate::from_transfer(bytes, last.sent.since(first.sent)).min(self.rate)
    }

    /// How much longer the last packets were in flight than the quickest.
    fn queue(&self) -> Duration {
        let delay = |(at, arrived): &(usize, Duration)| {
            arrived.as_nanos() as i128 - i128::from(self.samples[*at].sent.as_nanos())
        };
        let last = self.arrivals.iter().max_by_key(|(at, _)| *at).map(delay);
        let quickest = self.arrivals.iter().map(delay).min();
        let grown = last.zip(quickest).map_or(0, |(last, quickest)| last - quickest);
        Duration::from_nanos(u64::try_from(grown).unwrap_or(0))
    }

    /// Draws conclusions from the phase that is over, and begins the next.
    fn judge(&mut self, now: Instant) {
        let (rate, offered) = (self.offered(), self.report.offered);
        let few = Bytes::new(Self::FEW as u64 * 1500);
        match self.kind {
            Kind::Batches => {
                self.batches_arrived = self.arrived();
                self.begin(now, Kind::Singles, offered.mul_f64(0.5), few);
            }
            Kind::Singles => {
                self.report.are_batches_lost = self.batches_arrived < 0.25 * self.arrived();
                self.begin(now, Kind::Sustained, offered, sustained(offered));
            }
            Kind::Sustained => {
                self.losses = 1.0 - self.arrived();
                self.report.carried = self.carried(self.samples.len() * 2 / 3);
                match self.report.carried {
                    Some(carried) if self.losses > Self::LOSSES && self.queue() < Self::QUEUE => {
                        self.begin(now, Kind::Relief, carried.mul_f64(0.5), sustained(carried.mul_f64(0.5)));
                    }
                    Some(carried) if carried >= rate.mul_f64(Self::ALL) => {
                        self.report.has_more = true;
                        self.begin(now, Kind::Burst(1), offered.mul_f64(2.0), burst(offered));
                    }
                    _ => self.end(),
                }
            }
            Kind::Relief => {
                self.report.is_policed = 1.0 - self.arrived() < Self::MENDED * self.losses;
                self.end();
            }
            Kind::Burst(doublings) => {
                let carried = self.carried(0);
                self.report.carried = self.report.carried.max(carried);
                self.report.has_more = carried.is_some_and(|carried| carried >= rate.mul_f64(Self::ALL));
                if self.report.has_more && doublings < Self::MAX_DOUBLINGS {
                    let bytes = Bytes::new(burst(offered).as_u64() << doublings);
                    self.begin(now, Kind::Burst(doublings + 1), self.rate.mul_f64(2.0), bytes);
                } else {
                    self.end();
                }
            }
        }
    }
}
