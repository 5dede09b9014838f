//! The link itself.

use crate::aqm::{Fairness, Law, ManagedQueue, Overflow, codel, dual_pi2, pie, red};
use crate::dama::{Backlog, Burst, Granted};
use crate::drop_tail::DropTail;
use crate::in_transit::InTransit;
use crate::loss::{LossProcess, Threshold};
use crate::opportunities::OpportunityCursor;
use crate::policer::TokenBucket;
use crate::propagation::Propagation;
use crate::steps::Timeline;
use crate::transmitter::{Pace, Transmitter, VaryingRate};
use crate::{
    Codel, ConfigError, Counters, Discipline, DropReason, DualPi2, FqCodel, FqPie, Handover, LinkConfig, LoggedOutcome,
    Outcome, Packet, Pie, QueueLimit, Red,
};
use units::{Bytes, CounterRandom, Duration, Instant, Rate};

/// One direction of a link. See the crate's documentation for what happens to a packet, and in which order.
///
/// A driver calls [`Link::enqueue`] for each packet, then [`Link::poll`] until it gives nothing, and again at
/// [`Link::next_timeout`]. Time must not run backwards; where it does, the latest time seen counts.
#[derive(Debug)]
pub struct Link<P> {
    policer: Option<TokenBucket>,
    queue: Queue<P>,
    transmitter: Transmitter,
    propagation: Propagation,
    loss: LossProcess,
    reorder: Option<(Chance, Duration)>,
    duplicate: Chance,
    in_transit: InTransit<P>,
    /// Whether all that is sent arrives once and in order.
    is_faithful: bool,
    /// How many packets were sent: the number of the next one in each random process.
    sent: u64,
    start: Instant,
    now: Instant,
    counters: Counters,
}

/// Who waits for the transmitter.
#[derive(Debug)]
enum Queue<P> {
    /// Decides on arrival: a packet that finds room is as good as sent.
    DropTail(DropTail),
    /// Decides when the transmitter is free.
    Aqm(Box<ManagedQueue<P>>),
    /// Decides when the transmitter is free, over two queues.
    Dual(Box<dual_pi2::Queue<P>>),
    /// Sends in the bursts of a shared carrier.
    Granted(Box<Granted<P>>),
}

impl<P: Packet> Link<P> {
    /// An idle link, whose schedules begin at [`Instant::ZERO`].
    ///
    /// # Errors
    /// If a value makes no link; see [`LinkConfig::validate`].
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        Self::starting_at(Instant::ZERO, config)
    }

    /// An idle link, whose schedules begin at `start`.
    ///
    /// # Errors
    /// If a value makes no link; see [`LinkConfig::validate`].
    pub fn starting_at(start: Instant, config: LinkConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let (seed, stream, overhead) = (config.seed, config.stream << 8, config.overhead);
        let draws = |process: RandomProcess| CounterRandom::new(seed, stream | process as u64);
        let chance = |probability, process| Chance { happens: Threshold::from(probability), draws: draws(process) };
        Ok(Self {
            is_faithful: config.is_faithful(),
            loss: LossProcess::new(&config.loss, draws(RandomProcess::Loss), draws(RandomProcess::LossState)),
            reorder: config
                .reorder
                .map(|reorder| (chance(reorder.probability, RandomProcess::Reorder), reorder.extra_delay)),
            duplicate: chance(config.duplicate, RandomProcess::Duplicate),
            propagation: Propagation::new(&config, start, draws(RandomProcess::Delay), draws(RandomProcess::Outage)),
            policer: config.policer.map(|policer| TokenBucket::new(policer, start)),
            queue: Queue::new(&config),
            transmitter: Transmitter::new(pace(config, start, draws(RandomProcess::Rate)), overhead, start),
            in_transit: InTransit::new(),
            sent: 0,
            start,
            now: start,
            counters: Counters::default(),
        })
    }

    /// The rate at `now`, as a modem would report it, and until when it holds. `None` where packets take no time or leave at
    /// recorded opportunities.
    pub fn rate(&self, now: Instant) -> Option<(Rate, Instant)> {
        self.transmitter.rate(now)
    }

    /// How long a packet sent at `now` is in transit, as a modem would report it.
    pub fn delay(&self, now: Instant) -> Duration {
        self.propagation.delay(now.since(self.start))
    }

    /// Gives the link a packet. Changes [`Link::next_timeout`].
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: P) {
        self.now = self.now.max(now);
        let size = packet.size();
        self.counters.offered += size;
        if !self.conforms(size) {
            return self.in_transit.discard(self.now, DropReason::Policed, packet);
        }
        let Queue::DropTail(queue) = &mut self.queue else {
            return self.enqueue_aqm(packet);
        };
        let free_at = self.transmitter.free_at();
        if free_at > self.now && !queue.admit(self.now, free_at, size) {
            return self.in_transit.discard(self.now, DropReason::QueueFull, packet);
        }
        self.transmit(self.now, packet, size);
    }

    /// The same link, which decides about a packet when its turn to be sent comes, so that [`Link::lose_all`] finds what waits. It must
    /// be empty.
    #[must_use]
    pub fn into_fallible(self, limit: QueueLimit) -> Self {
        match self.queue {
            Queue::DropTail(_) => Self { queue: Queue::Aqm(Box::new(ManagedQueue::plain(limit))), ..self },
            _ => self,
        }
    }

    /// The link went down at `now`: all that waits and all that is on the way is lost and given to `lost`, but for what is due. The link
    /// shares no carrier, and [`Link::into_fallible`] has made it.
    pub fn lose_all(&mut self, now: Instant, mut lost: impl FnMut(P)) {
        self.advance(now);
        let Self { queue, in_transit, counters, now, .. } = self;
        let mut count = |reason: DropReason, packet: P| {
            *counters.dropped_mut(reason) += packet.size();
            lost(packet);
        };
        while let Some(outcome) = in_transit.pop() {
            match outcome {
                Outcome::Departure { packet, .. } => count(DropReason::Down, packet),
                Outcome::Drop { packet, reason, .. } => count(reason, packet),
            }
        }
        match queue {
            Queue::Aqm(queue) => queue.drain(*now, |packet| count(DropReason::Down, packet)),
            Queue::Dual(queue) => queue.drain(*now, |packet| count(DropReason::Down, packet)),
            Queue::DropTail(_) | Queue::Granted(_) => {}
        }
        self.transmitter.abort(self.now);
        self.propagation.forget();
    }

    /// A packet of `size` comes while the link is down, and is lost.
    pub fn refuse(&mut self, size: Bytes) {
        self.counters.offered += size;
        self.counters.dropped_down += size;
    }

    /// Whether everything about a packet is decided as it enters, and those that arrive do so in order and once: then
    /// [`Link::pass`] may be used.
    pub fn decides_on_arrival(&self) -> bool {
        let is_single = self.reorder.is_none() && self.duplicate.happens.is_zero();
        matches!(self.queue, Queue::DropTail(_)) && is_single && self.propagation.is_constant()
    }

    /// What happens to a packet of `size` that enters at `now` and that the caller carries itself: all others fare as if
    /// it had been given to [`Link::enqueue`], but [`Link::poll`] does not give it, and it is counted at once as what it
    /// will be. It spares an event where what follows is known, too. Packets of a link must come in the order of their
    /// times, by whichever of the two.
    ///
    /// # Panics
    /// If the link does not decide on arrival.
    #[inline]
    pub fn pass(&mut self, now: Instant, size: Bytes) -> LoggedOutcome {
        self.now = self.now.max(now);
        self.counters.offered += size;
        if !self.conforms(size) {
            self.counters.dropped_policed += size;
            return LoggedOutcome::Refused(DropReason::Policed);
        }
        let Queue::DropTail(queue) = &mut self.queue else {
            panic!("a link that decides on arrival has a plain queue")
        };
        let free_at = self.transmitter.free_at();
        if free_at > self.now && !queue.admit(self.now, free_at, size) {
            self.counters.dropped_queue_full += size;
            return LoggedOutcome::Refused(DropReason::QueueFull);
        }
        let sent_at = self.transmitter.send(self.now, size);
        let (at, _) = self.propagation.arrival(sent_at);
        if !self.is_faithful && self.loses_next(sent_at, size) {
            self.counters.dropped_loss += size;
            return LoggedOutcome::Lost(at);
        }
        self.counters.delivered += size;
        LoggedOutcome::Arrives(at)
    }

    /// Whether the policer, if any, lets a packet of `size` pass now.
    #[inline]
    fn conforms(&mut self, size: Bytes) -> bool {
        self.policer.as_mut().is_none_or(|policer| policer.admit(self.now, size))
    }

    /// Whether the next packet is lost, whose last bit is sent at `sent_at`.
    fn loses_next(&mut self, sent_at: Instant, size: Bytes) -> bool {
        let k = self.sent;
        self.sent += 1;
        let elapsed = sent_at.since(self.start);
        self.loss.loses(k, size, elapsed) || self.propagation.is_out(elapsed)
    }

    /// The next departure or drop that is due by `now`, in order of time; `None` when there is no more.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<Outcome<P>> {
        self.now = self.now.max(now);
        if !matches!(self.queue, Queue::DropTail(_)) {
            self.send_waiting();
        }
        if self.in_transit.next() > self.now {
            return None;
        }
        let outcome = self.in_transit.pop()?;
        match &outcome {
            Outcome::Departure { packet, .. } => self.counters.delivered += packet.size(),
            Outcome::Drop { packet, reason, .. } => *self.counters.dropped_mut(*reason) += packet.size(),
        }
        Some(outcome)
    }

    /// Of the packets that have left the queue the one that probably comes out as the `n`-th after the next, for a caller that prepares
    /// for it.
    #[inline]
    pub fn upcoming(&self, n: usize) -> Option<&P> {
        self.in_transit.upcoming(n)
    }

    /// When [`Link::poll`] has something next (or, if the queue is a managed one, must be called to find out); `None`
    /// while the link is empty.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        Some(self.next_at()).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// [`Link::next_timeout`], with [`Instant::FAR_FUTURE`] for `None`.
    #[inline]
    pub fn next_at(&self) -> Instant {
        if let Queue::DropTail(_) = self.queue { self.in_transit.next() } else { self.next_of_managed() }
    }

    /// Until when a driver may wait, but not beyond `end`, to find all at once that is on its way and arrives by then: later than
    /// [`Link::next_timeout`] where several packets follow one another closely. `None` if nothing arrives by `end`.
    pub fn last_timeout_by(&self, end: Instant) -> Option<Instant> {
        self.in_transit.last_by(end)
    }

    fn next_of_managed(&self) -> Instant {
        let next = self.in_transit.next();
        match &self.queue {
            Queue::Aqm(queue) if queue.packets() > 0 => next.min(self.transmitter.free_at()),
            Queue::Dual(queue) if queue.packets() > 0 => next.min(self.transmitter.free_at()),
            Queue::Granted(queue) => next.min(queue.next_start()),
            _ => next,
        }
    }

    /// The outcome of every packet so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many packets wait for the transmitter at `now`. The one being sent has left the queue.
    pub fn queued_packets(&mut self, now: Instant) -> u64 {
        self.advance(now);
        match &self.queue {
            Queue::DropTail(queue) => queue.packets(),
            Queue::Aqm(queue) => queue.packets(),
            Queue::Dual(queue) => queue.packets(),
            Queue::Granted(queue) => queue.packets(),
        }
    }

    /// The bytes that wait for the transmitter at `now`.
    pub fn queued_bytes(&mut self, now: Instant) -> Bytes {
        self.advance(now);
        match &self.queue {
            Queue::DropTail(queue) => queue.bytes(),
            Queue::Aqm(queue) => queue.bytes(),
            Queue::Dual(queue) => queue.bytes(),
            Queue::Granted(queue) => queue.bytes(),
        }
    }

    /// How the queue stands at `now`, as a terminal's requests for capacity see it; empty where the link is none of a
    /// shared carrier.
    pub fn backlog(&mut self, now: Instant) -> Backlog {
        self.advance(now);
        if let Queue::Granted(queue) = &self.queue { queue.backlog() } else { Backlog::default() }
    }

    /// Gives a terminal of a shared carrier a burst, later than those before. Changes [`Link::next_timeout`].
    pub fn assign(&mut self, now: Instant, burst: Burst) {
        self.advance(now);
        if let Queue::Granted(queue) = &mut self.queue {
            queue.assign(burst);
        }
    }

    /// The bytes that a terminal used of its bursts in superframes up to `superframe`, since it was last asked.
    pub fn take_used(&mut self, now: Instant, superframe: u64) -> Bytes {
        self.advance(now);
        if let Queue::Granted(queue) = &mut self.queue { queue.take_used(superframe) } else { Bytes::ZERO }
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        match &mut self.queue {
            Queue::DropTail(queue) => queue.advance(self.now),
            Queue::Aqm(_) | Queue::Dual(_) | Queue::Granted(_) => self.send_waiting(),
        }
    }

    fn enqueue_aqm(&mut self, packet: P) {
        self.send_waiting();
        // What waited has been sent.
        let is_idle = self.transmitter.free_at() <= self.now;
        let Self { queue, in_transit, now, .. } = self;
        let mut discard = |overflow: Overflow, packet| in_transit.discard(*now, overflow.into(), packet);
        match queue {
            Queue::DropTail(_) => {}
            Queue::Aqm(queue) => {
                queue.push(*now, packet, is_idle, &mut discard);
                self.counters.marked = queue.marked;
                self.send_if_free();
            }
            Queue::Dual(queue) => {
                queue.push(*now, packet, is_idle, &mut discard);
                self.send_if_free();
            }
            Queue::Granted(queue) => {
                queue.push(*now, packet, &mut discard);
                self.counters.marked = queue.marked();
                self.send_waiting();
            }
        }
    }

    fn send_if_free(&mut self) {
        if self.transmitter.free_at() <= self.now {
            self.send_one(self.now);
        }
    }

    /// Sends those whose turn came by now.
    fn send_waiting(&mut self) {
        if matches!(self.queue, Queue::Granted(_)) {
            while self.send_granted() {}
        } else {
            while self.transmitter.free_at() <= self.now && self.send_one(self.transmitter.free_at()) {}
        }
    }

    /// Sends the next packet whose slots have begun by now, if any waits and has all its slots.
    fn send_granted(&mut self) -> bool {
        let Self { queue: Queue::Granted(queue), in_transit, now, .. } = self else { return false };
        let mut discard = |at, overflow: Overflow, packet| in_transit.discard(at, overflow.into(), packet);
        let sent = queue.send(*now, &mut discard);
        self.counters.marked = queue.marked();
        let Some((sent_at, packet)) = sent else {
            queue.advance(*now);
            return false;
        };
        let size = packet.size();
        self.propagate(sent_at, packet, size);
        true
    }

    /// Sends the packet whose turn it is at `at`, if any waits.
    fn send_one(&mut self, at: Instant) -> bool {
        let Self { queue, in_transit, counters, .. } = self;
        let mut discard = |overflow: Overflow, packet| in_transit.discard(at, overflow.into(), packet);
        let (popped, marked) = match queue {
            Queue::Aqm(queue) => (queue.pop(at, &mut discard), queue.marked),
            Queue::Dual(queue) => (queue.pop(at, &mut discard), queue.marked),
            Queue::DropTail(_) | Queue::Granted(_) => return false,
        };
        counters.marked = marked;
        let Some((arrived, packet)) = popped else { return false };
        let size = packet.size();
        self.transmit(arrived, packet, size);
        true
    }

    /// Sends a packet that has been there since `ready`.
    #[inline]
    fn transmit(&mut self, ready: Instant, packet: P, size: Bytes) {
        let sent_at = self.transmitter.send(ready, size);
        self.propagate(sent_at, packet, size);
    }

    /// Puts a packet on its way whose last bit is sent at `sent_at`.
    #[inline]
    fn propagate(&mut self, sent_at: Instant, packet: P, size: Bytes) {
        let (at, is_out_of_order) = self.propagation.arrival(sent_at);
        if self.is_faithful {
            self.in_transit.push(Outcome::Departure { packet, at });
        } else {
            self.decide(sent_at, at, is_out_of_order, packet, size);
        }
    }

    /// Decides what happens on the way to a packet whose last bit is sent at `sent_at`, and which would arrive at `at`.
    fn decide(&mut self, sent_at: Instant, at: Instant, is_out_of_order: bool, packet: P, size: Bytes) {
        let k = self.sent;
        if self.loses_next(sent_at, size) {
            self.put(k, is_out_of_order, Outcome::Drop { packet, reason: DropReason::Loss, at });
        } else if self.reorder.is_none() && self.duplicate.happens.is_zero() {
            self.put(k, is_out_of_order, Outcome::Departure { packet, at });
        } else {
            self.deviate(k, is_out_of_order, at, packet, size);
        }
    }

    /// Puts the `k`-th packet on the way.
    #[inline]
    fn put(&mut self, k: u64, is_out_of_order: bool, outcome: Outcome<P>) {
        if is_out_of_order {
            self.in_transit.push_out_of_order(2 * k, outcome);
        } else {
            self.in_transit.push(outcome);
        }
    }

    /// Duplicates and holds back a packet that would arrive at `arrival`, if it is its turn.
    fn deviate(&mut self, k: u64, is_out_of_order: bool, arrival: Instant, packet: P, size: Bytes) {
        let copy = self.duplicate.happens(k).then(|| packet.clone());
        if copy.is_some() {
            self.counters.duplicated += size;
        }
        let extra_delay = self.reorder.as_ref().filter(|(chance, _)| chance.happens(k)).map(|(_, extra)| *extra);
        for (copy_number, packet) in std::iter::once(packet).chain(copy).enumerate() {
            let at = arrival + extra_delay.unwrap_or_default();
            let outcome = Outcome::Departure { packet, at };
            if extra_delay.is_some() {
                self.counters.reordered += size;
            }
            if extra_delay.is_some() || is_out_of_order {
                self.in_transit.push_out_of_order(2 * k + copy_number as u64, outcome);
            } else {
                self.in_transit.push(outcome);
            }
        }
    }
}

impl<P: Packet> Queue<P> {
    fn new(config: &LinkConfig) -> Self {
        let managed = match config.discipline {
            Discipline::DropTail if config.dama.is_none() && config.acks.is_keep() => {
                return Queue::DropTail(DropTail::new(config.queue));
            }
            Discipline::DualPi2(DualPi2 { target, threshold, rtt_max }) => {
                let law = dual_pi2::Law { target, threshold, rtt_max };
                return Queue::Dual(Box::new(dual_pi2::Queue::new(law, config.queue)));
            }
            discipline => managed(discipline, config).with_acks(config.acks),
        };
        match config.dama {
            Some(_) => Queue::Granted(Box::new(Granted::new(managed, config.overhead))),
            None => Queue::Aqm(Box::new(managed)),
        }
    }
}

/// The queue of a discipline that governs each of its queues by itself.
fn managed<P: Packet>(discipline: Discipline, config: &LinkConfig) -> ManagedQueue<P> {
    let draws = |process: RandomProcess| CounterRandom::new(config.seed, config.stream << 8 | process as u64);
    let fairness = |flows, quantum| Fairness { flows, quantum, perturbation: draws(RandomProcess::Flows).at(0) };
    let (law, fairness) = match discipline {
        Discipline::DropTail | Discipline::DualPi2(_) => return ManagedQueue::plain(config.queue),
        Discipline::Codel(Codel { target, interval, ecn }) => (Law::Codel(codel::Law { target, interval, ecn }), None),
        Discipline::FqCodel(FqCodel { target, interval, ecn, quantum, flows }) => {
            (Law::Codel(codel::Law { target, interval, ecn }), Some(fairness(flows, quantum)))
        }
        Discipline::Pie(Pie { target, update, max_burst, ecn }) => {
            (Law::Pie(pie::Law { target, update, max_burst, ecn }), None)
        }
        Discipline::FqPie(FqPie { target, update, max_burst, ecn, quantum, flows }) => {
            (Law::Pie(pie::Law { target, update, max_burst, ecn }), Some(fairness(flows, quantum)))
        }
        Discipline::Red(Red { min, max, max_probability, weight, ecn }) => {
            let transmission = config.nominal_rate().unwrap_or_default().time_to_send(Bytes::new(1500));
            let (max_probability, weight) = (max_probability.as_f64(), weight.as_f64());
            (Law::Red(red::Law { min, max, max_probability, weight, transmission, ecn }), None)
        }
    };
    match fairness {
        Some(fairness) => ManagedQueue::fair(law, config.queue, fairness, draws(RandomProcess::Marks)),
        None => ManagedQueue::single(law, config.queue, draws(RandomProcess::Marks)),
    }
}

impl From<Overflow> for DropReason {
    fn from(overflow: Overflow) -> Self {
        match overflow {
            Overflow::Full => DropReason::QueueFull,
            Overflow::Delay => DropReason::QueueDelay,
            Overflow::Superseded => DropReason::Superseded,
        }
    }
}

/// What decides how long the packets of a link take.
fn pace(config: LinkConfig, start: Instant, draws: CounterRandom) -> Pace {
    if let Some(opportunities) = config.opportunities {
        return Pace::Opportunities(Box::new(OpportunityCursor::new(opportunities, start)));
    }
    let varying = |timeline| Pace::Varying(Box::new(VaryingRate::new(timeline, start)));
    if let Some(Handover { period, rate: Some([low, high]), .. }) = config.handover {
        let (period, low, high) = (period.as_nanos(), low.as_bps(), high.as_bps());
        return varying(Timeline::Drawn { period, low, high, draws });
    }
    match (config.rate_steps, config.rate) {
        (Some(steps), Some(rate)) => varying(steps.timeline(rate, Rate::as_bps)),
        (_, rate) => Pace::constant(rate),
    }
}

/// The random processes of a link, each with its own stream of draws. The numbers are part of what a seed means.
#[derive(Clone, Copy)]
enum RandomProcess {
    Loss = 0,
    Reorder = 1,
    Duplicate = 2,
    LossState = 3,
    Delay = 4,
    Rate = 5,
    Outage = 6,
    Flows = 7,
    Marks = 8,
}

/// Something that happens to each packet independently with one probability.
#[derive(Debug)]
struct Chance {
    happens: Threshold,
    draws: CounterRandom,
}

impl Chance {
    fn happens(&self, k: u64) -> bool {
        self.happens.exceeds(&self.draws, k)
    }
}
