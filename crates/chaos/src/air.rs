//! The satellite link of a case: a link each way, and what happens to datagrams before they enter it.

use crate::fault::Fault;
use crate::plan::Plan;
use link::{Link, LinkConfig, Outcome, QueueLimit, Steps};
use std::collections::BTreeSet;
use testkit::{Agenda, Datagram, Dice, HEADERS};
use units::{Bytes, Duration, Instant, Rate};

/// Both directions: 0 is what the hub sends, 1 what the terminals send.
pub(crate) struct Air {
    paths: [Path; 2],
}

impl Air {
    /// The link of a case that begins at `start`.
    pub(crate) fn new(plan: &Plan, start: Instant) -> Self {
        Self { paths: [0, 1].map(|way| Path::new(plan, way, start)) }
    }

    /// A fault begins.
    pub(crate) fn befall(&mut self, now: Instant, fault: Fault) {
        let until = now + fault.lasts();
        match fault {
            Fault::Loss { way, probability, .. } => self.paths[way].loss = (until, probability),
            Fault::Bursts { way, mean_well, mean_lost, .. } => {
                self.paths[way].bursts = (until, [1.0 / mean_well, 1.0 / mean_lost]);
            }
            Fault::Reorder { way, probability, delay, .. } => self.paths[way].reorder = (until, (probability, delay)),
            Fault::Duplicate { way, probability, .. } => self.paths[way].duplicate = (until, probability),
            Fault::Corrupt { way, probability, .. } => self.paths[way].corrupt = (until, probability),
            Fault::Truncate { way, probability, .. } => self.paths[way].truncate = (until, probability),
            Fault::Mtu { way, bytes, .. } => self.paths[way].mtu = (until, bytes),
            Fault::Outage { way, .. } => {
                for (_, cut) in
                    self.paths.iter_mut().enumerate().filter(|(index, _)| way.is_none_or(|way| way == *index))
                {
                    cut.cut_until = cut.cut_until.max(until);
                }
            }
            // Rates and delays are the link's own: it knows them from the start. All other faults are those of gateways.
            _ => {}
        }
    }

    /// A datagram enters the link.
    pub(crate) fn send(&mut self, now: Instant, way: usize, datagram: Datagram) {
        self.paths[way].send(now, datagram);
    }

    /// The next datagram that has arrived.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Datagram> {
        self.paths.iter_mut().find_map(|way| way.poll(now))
    }

    /// When something arrives next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.paths.iter().filter_map(Path::next_timeout).min()
    }
}

/// One direction. Each trouble holds until its time.
struct Path {
    link: Link<Datagram>,
    dice: Dice,
    loss: (Instant, f64),
    /// Probabilities that a burst begins, and ends, with a datagram.
    bursts: (Instant, [f64; 2]),
    is_in_burst: bool,
    reorder: (Instant, (f64, Duration)),
    duplicate: (Instant, f64),
    corrupt: (Instant, f64),
    truncate: (Instant, f64),
    mtu: (Instant, usize),
    cut_until: Instant,
    /// Datagrams that others overtake, by when they enter the link.
    held: Agenda<Datagram>,
}

impl Path {
    fn new(plan: &Plan, way: usize, start: Instant) -> Self {
        let never = Instant::ZERO;
        Self {
            link: link(plan, way, start),
            dice: Dice::new(plan.seed, 10 + way as u64),
            loss: (never, 0.0),
            bursts: (never, [0.0; 2]),
            is_in_burst: false,
            reorder: (never, (0.0, Duration::ZERO)),
            duplicate: (never, 0.0),
            corrupt: (never, 0.0),
            truncate: (never, 0.0),
            mtu: (never, usize::MAX),
            cut_until: never,
            held: Agenda::new(),
        }
    }

    fn send(&mut self, now: Instant, mut datagram: Datagram) {
        if self.is_lost(now, &datagram) {
            return;
        }
        if self.happens(now, self.duplicate) {
            self.link.enqueue(now, datagram.clone());
        }
        if self.happens(now, self.corrupt) {
            let bit = self.dice.index(datagram.bytes.len() * 8);
            datagram.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if self.happens(now, self.truncate) {
            let length = self.dice.index(datagram.bytes.len());
            datagram.bytes.truncate(length);
        }
        let (until, (probability, delay)) = self.reorder;
        if self.happens(now, (until, probability)) {
            let at = now + Duration::from_nanos(self.dice.between(0, delay.as_nanos()));
            self.held.insert(at, datagram);
        } else {
            self.link.enqueue(now, datagram);
        }
    }

    fn is_lost(&mut self, now: Instant, datagram: &Datagram) -> bool {
        let too_long = now < self.mtu.0 && datagram.bytes.len() + HEADERS > self.mtu.1;
        let turns = self.bursts.1[usize::from(self.is_in_burst)];
        if self.happens(now, (self.bursts.0, turns)) {
            self.is_in_burst = !self.is_in_burst;
        }
        let in_burst = now < self.bursts.0 && self.is_in_burst;
        now < self.cut_until || too_long || in_burst || self.happens(now, self.loss)
    }

    fn happens(&mut self, now: Instant, (until, probability): (Instant, f64)) -> bool {
        now < until && self.dice.chance(probability)
    }

    fn poll(&mut self, now: Instant) -> Option<Datagram> {
        while let Some(datagram) = self.held.poll(now) {
            self.link.enqueue(now, datagram);
        }
        while let Some(outcome) = self.link.poll(now) {
            if let Outcome::Departure { packet, .. } = outcome
                && now >= self.cut_until
            {
                return Some(packet);
            }
        }
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.link.next_timeout().into_iter().chain(self.held.next_timeout()).min()
    }
}

/// The link, with the changes of its rate and delay that the case plans.
fn link(plan: &Plan, way: usize, start: Instant) -> Link<Datagram> {
    let (rate, delay) = (plan.rates[way], plan.rtt / 2);
    let mut config = LinkConfig::new(rate, delay);
    config.queue = QueueLimit::Bytes(rate.bytes_in(plan.rtt).max(Bytes::new(32_000)));
    config.keep_order = plan.seed & 1 == 0;
    config.seed = plan.seed;
    config.stream = way as u64;
    let of_this_way = |wanted: usize| (wanted == way).then_some(());
    let rates = changes(plan, |fault| match fault {
        Fault::Rate { way, share, .. } => of_this_way(*way).map(|()| *share),
        _ => None,
    });
    let delays = changes(plan, |fault| match fault {
        Fault::Delay { way, more, .. } => of_this_way(*way).map(|()| more.as_secs_f64()),
        _ => None,
    });
    let least = Rate::from_bps(20_000);
    let rates = rates.map(|(at, shares)| (at, rate.mul_f64(shares.iter().product()).max(least)));
    let delays = delays.map(|(at, more)| (at, delay + Duration::from_secs_f64(more.iter().sum())));
    let (rates, delays) = (rates.collect::<Vec<_>>(), delays.collect::<Vec<_>>());
    config.rate_steps = (!rates.is_empty()).then(|| Steps::new(rates));
    config.delay_steps = (!delays.is_empty()).then(|| Steps::new(delays));
    Link::starting_at(start, config).expect("rates above zero, delays of seconds, steps in order")
}

/// Each time at which a fault of a kind begins or ends, and what those of the kind say that hold then.
fn changes(plan: &Plan, says: impl Fn(&Fault) -> Option<f64>) -> impl Iterator<Item = (Duration, Vec<f64>)> {
    let spans: Vec<_> =
        plan.faults.iter().filter_map(|(at, fault)| Some((*at, *at + fault.lasts(), says(fault)?))).collect();
    let times: BTreeSet<_> = spans.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    times.into_iter().map(move |time| {
        let holding = spans.iter().filter(|(from, to, _)| (*from..*to).contains(&time));
        (time, holding.map(|(.., value)| *value).collect())
    })
}
