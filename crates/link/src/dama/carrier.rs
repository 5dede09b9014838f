//! The carrier: when terminals look at their queues, when requests and plans arrive, and when superframes are over.

use super::ncc::Ncc;
use super::plan::lay_out;
use super::request::{Request, Requester, Timing};
use super::{Backlog, Burst, CarrierConfig, Grant, Sample, TerminalConfig, Totals};
use crate::ConfigError;
use crate::steps::{Segment, Timeline};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, CounterRandom, Duration, Instant, Rate};

/// A terminal and its delays to the NCC and back.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// What it has and may ask for.
    pub config: TerminalConfig,
    /// How long its requests are on their way, and what it sends in its bursts.
    pub to_ncc: Duration,
    /// How long plans are on their way to it.
    pub from_ncc: Duration,
}

/// The queues of a carrier's terminals, by their numbers: see [`crate::Link::backlog`] and its neighbours.
pub trait Terminals {
    /// How the queue stands at `now`.
    fn backlog(&mut self, terminal: usize, now: Instant) -> Backlog;
    /// Gives it a burst.
    fn assign(&mut self, terminal: usize, now: Instant, burst: Burst);
    /// The bytes that it used of the superframes up to `superframe` since it was last asked, and the IP bytes that wait.
    fn used(&mut self, terminal: usize, now: Instant, superframe: u64) -> (Bytes, Bytes);
}

/// A return carrier at work: the NCC, and what its terminals ask for.
#[derive(Debug)]
pub struct Carrier {
    config: CarrierConfig,
    /// Its rate, if that changes.
    rate: Option<Timeline>,
    start: Instant,
    ncc: Ncc,
    terminals: Vec<Terminal>,
    /// From a plan to the superframe that it is for, as the NCC receives it: all terminals' bursts meet there.
    ahead: Duration,
    /// How many superframes were planned before the start.
    past: u64,
    pending: BinaryHeap<Reverse<Event>>,
    /// How many requests were sent: the number of the next one among those that may be lost.
    sent: u64,
    losses: CounterRandom,
    is_recording: bool,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Terminal {
    member: Member,
    requester: Requester,
    allocated: Rate,
    totals: Totals,
}

/// What happens, and when. At one instant in the order of the kinds below.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Instant,
    kind: Kind,
    terminal: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A superframe is over at the terminal.
    Over { superframe: u64, asked: Bytes, grant: [u64; 4] },
    /// A plan has reached the terminal.
    Plan { superframe: u64, first: u64, count: u64, slots: u64 },
    /// The terminal looks at its queue.
    Look,
    /// A request has reached the NCC.
    Request { rate: Option<Rate>, volume: Bytes, whole_volume: Option<Bytes> },
    /// The NCC plans a superframe.
    Superframe(u64),
}

impl Carrier {
    /// A carrier on which all have been logged on for long and nobody has asked for anything.
    ///
    /// # Errors
    /// If a value makes no carrier or no terminal, or if the constant rates exceed the carrier.
    pub fn new(start: Instant, config: CarrierConfig, members: Vec<Member>) -> Result<Self, ConfigError> {
        config.validate()?;
        for member in &members {
            member.config.validate()?;
            let holds = config.superframe * u64::from(config.rbdc_timeout);
            if member.config.rbdc > Rate::ZERO && member.config.every > holds {
                let problem = format!("{}: a requested rate holds for {holds} only", member.config.every);
                return Err(ConfigError::new("dama.every", &problem));
            }
        }
        let constant = members.iter().fold(0u64, |sum, member| sum.saturating_add(member.config.cra.as_bps()));
        if constant > config.rate.as_bps() {
            let problem =
                format!("the terminals have {} together, the carrier {}", Rate::from_bps(constant), config.rate);
            return Err(ConfigError::new("dama.cra", &problem));
        }
        let ways = members.iter().map(|member| member.to_ncc + member.from_ncc);
        let ahead = ways.max().unwrap_or_default() + config.lead();
        let farthest = members.iter().map(|member| member.to_ncc).max().unwrap_or_default();
        let mut carrier = Self {
            rate: config.rate_steps.as_ref().map(|steps| steps.timeline(config.rate, Rate::as_bps)),
            ncc: Ncc::new(&config, members.iter().map(|member| &member.config)),
            losses: CounterRandom::new(config.seed, config.stream << 8 | REQUESTS),
            terminals: Vec::with_capacity(members.len()),
            pending: BinaryHeap::new(),
            sent: 0,
            is_recording: false,
            samples: Vec::new(),
            past: (ahead - farthest).as_nanos() / config.superframe.as_nanos(),
            ahead,
            start,
            config,
        };
        let count = members.len() as u64;
        for (number, member) in members.into_iter().enumerate() {
            // They ask one after the other, not all at once.
            let at = start + Duration::from_nanos(member.config.every.as_nanos() / count * number as u64);
            carrier.push(at, number, Kind::Look);
            carrier.admit(member);
        }
        carrier.plan_the_past();
        Ok(carrier)
    }

    fn admit(&mut self, member: Member) {
        let timing = Timing {
            to_ncc: member.to_ncc,
            round_trip: member.to_ncc + member.from_ncc,
            latency: self.ahead,
            superframe: self.config.superframe,
            start: self.start,
        };
        let requester = Requester::new(member.config.clone(), self.config.slot, timing);
        self.terminals.push(Terminal { member, requester, allocated: Rate::ZERO, totals: Totals::default() });
    }

    /// The superframes that were planned before the start, and the first that was not.
    fn plan_the_past(&mut self) {
        for superframe in 0..self.past {
            self.plan(self.start, superframe);
        }
        self.push(self.start, 0, Kind::Superframe(self.past));
    }

    /// Keeps a [`Sample`] of each terminal and superframe from now on.
    pub fn record(&mut self) {
        self.is_recording = true;
    }

    /// Whether [`Carrier::record`] was called.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// The samples since they were last taken, in the order of the superframes' ends.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// The samples that wait to be taken, in bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Sample>() * self.samples.capacity() + size_of::<Event>() * self.pending.len()
    }

    /// What the carrier is.
    pub fn config(&self) -> &CarrierConfig {
        &self.config
    }

    /// The rate that a superframe planned at `now` has, and until when that holds.
    pub fn rate(&self, now: Instant) -> (Rate, Instant) {
        let Some(rate) = &self.rate else { return (self.config.rate, Instant::FAR_FUTURE) };
        let Segment { value, until } = rate.at(now.since(self.start).as_nanos());
        let until = if until == u64::MAX { Instant::FAR_FUTURE } else { self.start + Duration::from_nanos(until) };
        (Rate::from_bps(value), until)
    }

    /// The rate that the latest plan which has reached `terminal` gives it, whatever for.
    pub fn allocated(&self, terminal: usize) -> Rate {
        self.terminals[terminal].allocated
    }

    /// All superframes of `terminal` that are over.
    pub fn totals(&self, terminal: usize) -> &Totals {
        &self.terminals[terminal].totals
    }

    /// Tells `terminal` at which rate those above it will send: it asks for at least that (with RBDC), before anything has
    /// come. A sender that keeps to [`Carrier::allocated`] must call this: otherwise it is never allocated more.
    pub fn demand(&mut self, terminal: usize, rate: Rate) {
        self.terminals[terminal].requester.demand(rate);
    }

    /// When [`Carrier::handle_timeout`] is to be called; there is always a next time.
    pub fn next_timeout(&self) -> Instant {
        self.pending.peek().map_or(Instant::FAR_FUTURE, |Reverse(event)| event.at)
    }

    /// Does what is due by `now`: asks for capacity, divides it and gives it. Until then nothing may have come to a
    /// terminal's queue that is later than [`Carrier::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant, terminals: &mut impl Terminals) {
        while self.next_timeout() <= now {
            let Some(Reverse(event)) = self.pending.pop() else { return };
            self.handle(event, terminals);
        }
    }

    fn handle(&mut self, Event { at, kind, terminal }: Event, terminals: &mut impl Terminals) {
        match kind {
            Kind::Look => self.look(at, terminal, terminals.backlog(terminal, at)),
            Kind::Request { rate, volume, whole_volume } => {
                self.ncc.apply(terminal, &Request { rate, volume, whole_volume });
            }
            Kind::Superframe(superframe) => {
                self.plan(at, superframe);
                self.push(at + self.config.superframe, 0, Kind::Superframe(superframe + 1));
            }
            Kind::Plan { superframe, first, count, slots } => {
                let (start, length, slot) =
                    (self.begins(terminal, superframe), self.config.superframe, self.config.slot);
                self.terminals[terminal].allocated = Rate::from_transfer(slot * count, length);
                terminals.assign(terminal, at, Burst { superframe, start, length, slots, first, count, slot });
            }
            Kind::Over { superframe, asked, grant: [cra, rbdc, vbdc, fca] } => {
                let (used, queued) = terminals.used(terminal, at, superframe);
                let sample = Sample {
                    terminal: terminal as u32,
                    at: self.begins(terminal, superframe),
                    requested: asked,
                    allocated: Grant { cra, rbdc, vbdc, fca },
                    used,
                    queued,
                };
                self.terminals[terminal].totals.count(&sample);
                if self.is_recording {
                    self.samples.push(sample);
                }
            }
        }
    }

    /// A terminal looks at its queue, and asks.
    fn look(&mut self, at: Instant, number: usize, backlog: Backlog) {
        let terminal = &mut self.terminals[number];
        let (every, way) = (terminal.member.config.every, terminal.member.to_ncc);
        let request = terminal.requester.evaluate(at, backlog);
        self.push(at + every, number, Kind::Look);
        let Some(Request { rate, volume, whole_volume }) = request else { return };
        self.terminals[number].totals.requests += 1;
        let is_lost = self.losses.unit_at(self.sent) < self.config.request_loss.as_f64();
        self.sent += 1;
        if !is_lost {
            self.push(at + way, number, Kind::Request { rate, volume, whole_volume });
        }
    }

    /// Divides a superframe, and sends the plan.
    fn plan(&mut self, at: Instant, superframe: u64) {
        let slots = self.config.slots_at(self.rate(at).0);
        let planned = self.ncc.plan(slots);
        let grants: Vec<_> = planned.iter().map(|(_, grant)| *grant).collect();
        let places: Vec<_> = lay_out(&grants).collect();
        for (terminal, ((asked, grant), (first, count))) in planned.into_iter().zip(places).enumerate() {
            // What was planned before the start has arrived before.
            let way = self.terminals[terminal].member.from_ncc;
            let arrives = if superframe < self.past { self.start } else { at + way };
            self.push(arrives, terminal, Kind::Plan { superframe, first, count, slots });
            let Grant { cra, rbdc, vbdc, fca } = grant.times(self.config.slot.as_u64());
            let over = self.begins(terminal, superframe) + self.config.superframe;
            self.push(over, terminal, Kind::Over { superframe, asked, grant: [cra, rbdc, vbdc, fca] });
        }
    }

    /// When a superframe begins at a terminal, so that all terminals' bursts reach the NCC in step.
    fn begins(&self, terminal: usize, superframe: u64) -> Instant {
        let way = self.terminals[terminal].member.to_ncc;
        self.start + (self.ahead - self.config.superframe * self.past - way) + self.config.superframe * superframe
    }

    fn push(&mut self, at: Instant, terminal: usize, kind: Kind) {
        self.pending.push(Reverse(Event { at, kind, terminal }));
    }
}

/// The stream of draws of lost requests.
const REQUESTS: u64 = 0xff;
