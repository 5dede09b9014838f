//! Carriers shared on demand: what they need of the links of their terminals.

use crate::event_queue::EventQueue;
use crate::packet::Packet;
use crate::{CapacitySample, CarrierReport, DirectionId, Network, NetworkError, TerminalReport};
use link::Link;
use link::dama::{Backlog, Burst, Carrier, Terminals};
use units::{Bytes, Instant, Rate};

/// The carriers of a network at work.
#[derive(Debug)]
pub(crate) struct Carriers {
    all: Vec<Carrier>,
    /// For each carrier the directions that are its terminals' ways to the hub.
    terminals: Vec<Vec<DirectionId>>,
    /// For each direction its carrier, and its number there.
    places: Vec<Option<(u32, u32)>>,
}

impl Carriers {
    pub(crate) fn new(network: &Network, recording: bool) -> Result<Self, NetworkError> {
        let mut places = vec![None; network.directions().len()];
        let (mut all, mut terminals) = (Vec::new(), Vec::new());
        for number in 0..network.carriers().len() {
            let (mut carrier, directions) = network.carrier(number, Instant::ZERO)?;
            if recording {
                carrier.record();
            }
            for (terminal, direction) in directions.iter().enumerate() {
                places[direction.index()] = Some((number as u32, terminal as u32));
            }
            all.push(carrier);
            terminals.push(directions);
        }
        Ok(Self { all, terminals, places })
    }

    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// When a carrier has something to do next.
    pub(crate) fn next_timeout(&self, number: u32) -> Instant {
        self.all[number as usize].next_timeout()
    }

    /// A carrier does what is due by `now`, with the links of its terminals.
    pub(crate) fn wake(&mut self, number: u32, now: Instant, links: &mut [Link<Packet>], arrivals: &mut EventQueue<4>) {
        let number = number as usize;
        let mut ways = Ways { directions: &self.terminals[number], links, arrivals };
        self.all[number].handle_timeout(now, &mut ways);
    }

    /// What the terminal whose way to the hub is `direction` has now, as its latest plan says; `None` if it is on no
    /// carrier.
    pub(crate) fn allocated(&self, direction: DirectionId) -> Option<Rate> {
        let (carrier, terminal) = self.places[direction.index()]?;
        Some(self.all[carrier as usize].allocated(terminal as usize))
    }

    /// Those above the terminal will send at `rate`.
    pub(crate) fn demand(&mut self, direction: DirectionId, rate: Rate) {
        if let Some((carrier, terminal)) = self.places[direction.index()] {
            self.all[carrier as usize].demand(terminal as usize, rate);
        }
    }

    /// Takes the samples of all carriers.
    pub(crate) fn take_samples(&mut self) -> Vec<CapacitySample> {
        let mut samples = Vec::new();
        for (carrier, directions) in self.all.iter_mut().zip(&self.terminals) {
            let length = carrier.config().superframe;
            let sample = |sample: link::dama::Sample| {
                let direction = directions[sample.terminal as usize];
                CapacitySample { direction, length, sample }
            };
            samples.extend(carrier.take_samples().into_iter().map(sample));
        }
        samples
    }

    pub(crate) fn memory(&self) -> usize {
        self.all.iter().map(Carrier::memory).sum()
    }

    pub(crate) fn report(&self, network: &Network) -> Vec<CarrierReport> {
        let name = |node| network.node_name(node).to_owned();
        let carrier = |(number, carrier): (usize, &Carrier)| {
            let terminals = self.terminals[number].iter().enumerate().map(|(terminal, direction)| {
                let direction = &network.directions()[direction.index()];
                TerminalReport {
                    link: direction.link.clone(),
                    from: name(direction.from),
                    to: name(direction.to),
                    totals: *carrier.totals(terminal),
                }
            });
            CarrierReport { name: network.carriers()[number].0.clone(), terminals: terminals.collect() }
        };
        self.all.iter().enumerate().map(carrier).collect()
    }
}

/// The links of one carrier's terminals.
struct Ways<'a> {
    directions: &'a [DirectionId],
    links: &'a mut [Link<Packet>],
    arrivals: &'a mut EventQueue<4>,
}

impl Ways<'_> {
    /// Does something with a terminal's link, and notes when it has something to say then.
    fn with<T>(&mut self, terminal: usize, then: impl FnOnce(&mut Link<Packet>) -> T) -> T {
        let direction = self.directions[terminal].index();
        let link = &mut self.links[direction];
        let result = then(link);
        self.arrivals.set(direction as u32, link.next_at());
        result
    }
}

impl Terminals for Ways<'_> {
    fn backlog(&mut self, terminal: usize, now: Instant) -> Backlog {
        self.with(terminal, |link| link.backlog(now))
    }

    fn assign(&mut self, terminal: usize, now: Instant, burst: Burst) {
        self.with(terminal, |link| link.assign(now, burst));
    }

    fn used(&mut self, terminal: usize, now: Instant, superframe: u64) -> (Bytes, Bytes) {
        self.with(terminal, |link| (link.take_used(now, superframe), link.queued_bytes(now)))
    }
}
