//! The cases: links, transfers and the least share of the limit that is claimed.

use crate::setup::loss;
use crate::{Error, Setup};
use lab::{CapacityMode, Direction, Experiment, LinkParameters, Satellite, Workload};
use link::{LinkConfig, LossModel, Steps, TimedGilbertElliott};
use units::{Bytes, Duration, Instant, Probability, Rate};

/// Payload of a full packet over its length.
pub(super) const PAYLOAD: f64 = 1448.0 / 1500.0;
/// How much of a latecomer is looked at.
pub(super) const FIRST: Duration = Duration::from_secs(5);
/// How long a link that varies keeps each of its rates.
pub(super) const HOLDS: Duration = Duration::from_secs(15);
/// Over how long its share is taken: whole periods, so that it does not matter where in one a transfer begins.
pub(super) const WATCHED: Duration = Duration::from_secs(60);

/// One transfer, or several at once, over a link.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) target: f64,
    pub(super) direction: Direction,
    /// Each flow's.
    pub(super) size: u64,
    pub(super) flows: usize,
    pub(super) kind: Kind,
    mbit: u64,
    back_mbit: u64,
    rtt_ms: u64,
    losses: Losses,
}

/// What is particular about a case.
pub(super) enum Kind {
    Plain,
    /// One more flow begins when the others have gone on for a while.
    Latecomer {
        after: Duration,
    },
    /// The link has its rate and half of it in turns.
    Varying(Knowledge),
}

/// How gateways learn of a rate that varies.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Knowledge {
    Estimated,
    Reported,
}

enum Losses {
    Random(f64),
    /// Every packet of a bad state is lost; mean sojourns in milliseconds, good and bad.
    Bursts([u64; 2]),
}

/// All cases, in the order in which they are measured.
pub(super) fn all() -> Vec<Case> {
    use Direction::{Down, Up};
    let ge = || Losses::Bursts([637, 17]);
    let late = || Kind::Latecomer { after: Duration::from_secs(5) };
    vec![
        case("1 MB", 0.97, Up, 1_000_000, Losses::Random(0.0)),
        case("1 MB, 1e-4", 0.97, Up, 1_000_000, Losses::Random(1e-4)),
        case("1 MB, 1e-3", 0.965, Up, 1_000_000, Losses::Random(1e-3)),
        case("1 MB, 1e-2", 0.95, Up, 1_000_000, Losses::Random(1e-2)),
        case("100 kB", 0.96, Up, 100_000, Losses::Random(0.0)),
        case("100 kB, 1e-3", 0.95, Up, 100_000, Losses::Random(1e-3)),
        case("100 kB, 1e-2", 0.93, Up, 100_000, Losses::Random(1e-2)),
        case("10 MB, 1e-2", 0.97, Up, 10_000_000, Losses::Random(1e-2)),
        case("50 Mbit/s, 20 MB, 1e-2", 0.97, Up, 20_000_000, Losses::Random(1e-2)).over([50, 50], 550),
        case("250/3 Mbit/s, 100 MB up", 3.614 / 3.75, Up, 100_000_000, Losses::Random(0.0)).over([250, 3], 600),
        case("250/3 Mbit/s, 100 MB up, 1.6e-2", 3.668 / 3.9, Up, 100_000_000, Losses::Random(1.6e-2))
            .over([250, 3], 600),
        case("250/3 Mbit/s, 100 MB down", 3.914 / 4.05, Down, 100_000_000, Losses::Random(0.0)).over([250, 3], 600),
        case("250/3 Mbit/s, 100 MB down, 1.6e-2", 3.968 / 4.2, Down, 100_000_000, Losses::Random(1.6e-2))
            .over([250, 3], 600),
        case("12/3 Mbit/s, bursts, 20 MB", 0.95, Up, 20_000_000, ge()).over([12, 3], 600),
        Case { flows: 5, ..case("12/3 Mbit/s, bursts, 5 x 20 MB", 0.95, Up, 20_000_000, ge()).over([12, 3], 600) },
        Case { flows: 20, kind: late(), ..case("20 + 1 flows", 0.96, Up, 600_000, Losses::Random(0.0)) },
        Case { flows: 20, kind: late(), ..case("20 + 1 flows, 1e-4", 0.96, Up, 600_000, Losses::Random(1e-4)) },
        Case { flows: 20, kind: late(), ..case("20 + 1 flows, 1e-3", 0.96, Up, 600_000, Losses::Random(1e-3)) },
        Case { flows: 20, kind: late(), ..case("20 + 1 flows, 1e-2", 0.96, Up, 600_000, Losses::Random(1e-2)) },
        steps("rate in steps, 40 ms, estimated", 0.93, Knowledge::Estimated).over([6, 6], 40),
        steps("rate in steps, 40 ms, reported", 0.95, Knowledge::Reported).over([6, 6], 40),
        steps("rate in steps, 550 ms, estimated", 0.88, Knowledge::Estimated),
        steps("rate in steps, 550 ms, reported", 0.95, Knowledge::Reported),
    ]
}

fn case(name: &'static str, target: f64, direction: Direction, size: u64, losses: Losses) -> Case {
    let kind = Kind::Plain;
    Case { name, target, direction, size, flows: 1, kind, mbit: 6, back_mbit: 6, rtt_ms: 550, losses }
}

fn steps(name: &'static str, target: f64, knowledge: Knowledge) -> Case {
    Case { kind: Kind::Varying(knowledge), ..case(name, target, Direction::Up, 36_000_000, Losses::Random(0.0)) }
}

impl Case {
    fn over(self, [mbit, back_mbit]: [u64; 2], rtt_ms: u64) -> Self {
        Self { mbit, back_mbit, rtt_ms, ..self }
    }

    /// The link's, in the direction of the data; the higher of two.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.mbit * 1_000_000)
    }

    /// The rate that the link has at `at` in a simulation.
    pub(super) fn rate_at(&self, at: Instant) -> Rate {
        let is_halved = matches!(self.kind, Kind::Varying(_)) && at.as_nanos() / HOLDS.as_nanos() % 2 == 1;
        if is_halved { Rate::from_bps(self.rate().as_bps() / 2) } else { self.rate() }
    }

    pub(super) fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms)
    }

    /// The mean share of packets that the link loses.
    pub(super) fn loss(&self) -> f64 {
        match self.losses {
            Losses::Random(probability) => probability,
            Losses::Bursts([good, bad]) => bad as f64 / (good + bad) as f64,
        }
    }

    fn satellite(&self) -> Result<Satellite, Error> {
        let loss = match self.losses {
            Losses::Random(probability) => LossModel::Bernoulli(loss(probability)?),
            Losses::Bursts([good, bad]) => LossModel::TimedGilbertElliott(TimedGilbertElliott {
                mean_good: Duration::from_millis(good),
                mean_bad: Duration::from_millis(bad),
                loss_good: Probability::ZERO,
                loss_bad: loss(1.0)?,
            }),
        };
        let half = Steps::new(vec![(HOLDS, Rate::from_bps(self.rate().as_bps() / 2))]);
        let steps = Steps { repeat: Some(HOLDS * 2), ..half };
        let data = LinkConfig {
            loss: loss.clone(),
            rate_steps: matches!(self.kind, Kind::Varying(_)).then_some(steps),
            stream: 0,
            ..LinkConfig::new(self.rate(), self.rtt() / 2)
        };
        let back = LinkConfig {
            loss,
            stream: 1,
            ..LinkConfig::new(Rate::from_bps(self.back_mbit * 1_000_000), self.rtt() / 2)
        };
        Ok(match self.direction {
            Direction::Up => Satellite { return_link: data, forward: back },
            Direction::Down => Satellite { return_link: back, forward: data },
        })
    }

    /// The case as an experiment with one terminal; the limit is that of all its flows.
    pub(super) fn experiment(&self, setup: &Setup) -> Result<Experiment, Error> {
        let base = setup.experiment()?;
        let link = LinkParameters { rate: self.rate(), rtt: self.rtt(), loss: loss(self.loss())?, ..base.link };
        let workload = Workload { direction: self.direction, size: Bytes::new(self.size), ..base.workload.clone() };
        let mut gateways = base.gateways.clone();
        // The estimate begins with what is reported: what is reported is to be seen here alone.
        if let Kind::Varying(Knowledge::Reported) = self.kind {
            (gateways.capacity, gateways.link_updates) = (CapacityMode::Fixed, true);
        }
        Ok(Experiment { link, satellite: Some(self.satellite()?), flows: self.flows, workload, gateways, ..base })
    }
}
