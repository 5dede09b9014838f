//! The links of a case, and the least time in which they carry its data.

use super::cases::{Beside, Case, Nature, PAYLOAD, Queue, UDP_PART};
use super::starlink;
use crate::setup::loss;
use crate::{Error, setup};
use lab::Direction;
use link::{Link, LinkConfig, LossModel, Opportunities, Packet, QueueLimit, Reorder, Steps};
use units::{Bytes, Duration, Instant, Rate};

/// What an opportunity carries.
const FULL_PACKET: u64 = 1500;

/// The link in the data's direction, and the one back.
pub(super) struct Links {
    pub(super) data: LinkConfig,
    pub(super) back: LinkConfig,
    /// The one in the data's direction as it were without faults and queue limits, at the rate that is to be had.
    ideal: LinkConfig,
}

impl Links {
    pub(super) fn of(case: &Case, seed: u64) -> Result<Self, Error> {
        let queue = match case.queue {
            Queue::Products(products) => QueueLimit::bandwidth_delay_product(case.rate, case.rtt.mul_f64(products)),
            Queue::Packets(packets) => QueueLimit::Packets(packets),
        };
        let plain = LinkConfig { queue, seed, ..LinkConfig::new(case.rate, case.rtt / 2) };
        let lossy = LinkConfig { loss: LossModel::Bernoulli(loss(case.loss)?), ..plain.clone() };
        let back = LinkConfig { stream: 1, ..lossy.clone() };
        let ideal = LinkConfig { queue: QueueLimit::Unlimited, ..plain };
        let mut links = Self { data: lossy, back, ideal };
        links.take_nature(case)?;
        if case.beside == Beside::Udp {
            links.ideal.rate = Some(case.rate.saturating_sub(Rate::from_bps(case.rate.as_bps() / UDP_PART)));
        }
        Ok(links)
    }

    /// Gives the links what is particular about them.
    fn take_nature(&mut self, case: &Case) -> Result<(), Error> {
        match case.link {
            Nature::Plain => {}
            Nature::Turns { share, each } => {
                let low = Steps::new(vec![(each, case.rate.mul_f64(share))]);
                self.both(|link| link.rate_steps = Some(Steps { repeat: Some(each * 2), ..low.clone() }));
            }
            Nature::Fade { share, .. } => {
                let steps = between(case, case.rate.mul_f64(share), case.rate);
                self.both(|link| link.rate_steps = Some(steps.clone()));
            }
            Nature::Outage { .. } => {
                let mut steps = between(case, loss(1.0)?, loss(case.loss)?);
                steps.steps.insert(0, (Duration::ZERO, loss(case.loss)?));
                self.data.loss = LossModel::Steps(steps.clone());
                self.back.loss = LossModel::Steps(steps);
                self.ideal.rate_steps = Some(between(case, Rate::ZERO, case.rate));
            }
            Nature::Detour { rtt } => {
                let steps = Steps::new(vec![(since_start(case.changes()), rtt / 2)]);
                self.both(|link| link.delay_steps = Some(steps.clone()));
                self.back.delay_steps = Some(steps);
            }
            Nature::Reordering { probability, late } => {
                let probability = setup::loss(probability)?;
                self.data.reorder = Some(Reorder { probability, extra_delay: late });
            }
            Nature::Policed(policer) => {
                self.data.policer = Some(policer);
                self.ideal.rate = Some(policer.rate);
            }
            Nature::Frames { each } => {
                (self.data.rate, self.data.opportunities) = (None, Some(frames(case.rate, each)));
            }
            Nature::Bunches { each } => {
                (self.back.rate, self.back.opportunities) = (None, Some(frames(case.rate, each)));
            }
            Nature::Starlink => {
                let (opportunities, delays) = starlink::trace()?;
                self.both(|link| {
                    (link.rate, link.opportunities) = (None, Some(opportunities.clone()));
                    link.delay_steps = Some(delays.clone());
                });
                self.back.delay_steps = Some(delays);
            }
        }
        Ok(())
    }

    /// Changes the link in the data's direction, and what it ideally were.
    fn both(&mut self, change: impl Fn(&mut LinkConfig)) {
        change(&mut self.data);
        change(&mut self.ideal);
    }

    /// The least time from a client's connect to the receiver's last byte.
    pub(super) fn limit(&self, case: &Case, direction: Direction, payload: u64) -> Result<Duration, Error> {
        let asks = match direction {
            Direction::Up => Duration::ZERO,
            Direction::Down => self.back.delay,
        };
        let bytes = payload as f64 / PAYLOAD / (1.0 - case.loss);
        let mut link = Link::new(self.ideal.clone()).map_err(Error::failed)?;
        link.enqueue(case.begin + asks, Block(bytes as u64));
        let arrives = link.next_timeout().ok_or_else(|| Error::failed("an ideal link that carries nothing"))?;
        Ok(arrives.since(case.begin))
    }
}

/// What a link of `rate` carries, at the end of each frame at once.
fn frames(rate: Rate, each: Duration) -> Opportunities {
    let packets = rate.bytes_in(each).as_u64() / FULL_PACKET;
    Opportunities { millis: vec![each.as_millis_f64() as u64; packets as usize], file: None }
}

/// `bad` from the case's change on, and then `good`.
fn between<T: Copy>(case: &Case, bad: T, good: T) -> Steps<T> {
    let times = case.bad_times().unwrap_or([case.changes(); 2]).map(since_start);
    Steps::new(vec![(times[0], bad), (times[1], good)])
}

fn since_start(at: Instant) -> Duration {
    at.since(Instant::ZERO)
}

/// All that is to be carried, as if it were one packet.
#[derive(Clone)]
struct Block(u64);

impl Packet for Block {
    fn size(&self) -> Bytes {
        Bytes::new(self.0)
    }
}

impl Case {
    /// The rate that is to be had at `at`: none in an outage, and that of a policer.
    pub(super) fn rate_to_be_had_at(&self, at: Instant) -> Rate {
        let is_bad = self.bad_times().is_some_and(|[from, to]| (from..to).contains(&at));
        match self.link {
            Nature::Outage { .. } if is_bad => Rate::ZERO,
            Nature::Policed(policer) => self.rate.min(policer.rate),
            _ => self.rate_at(at),
        }
    }

    /// How long the link takes for what waits `at` that time.
    pub(super) fn time_to_send(&self, at: Instant, waiting: Bytes) -> Duration {
        match self.link {
            Nature::Starlink => starlink::time_to_send(at, waiting),
            _ => self.rate_at(at).time_to_send(waiting),
        }
    }

    /// The rate that the link has at `at`: of one that leaves at recorded opportunities, over a tenth of a second.
    fn rate_at(&self, at: Instant) -> Rate {
        match self.link {
            Nature::Turns { share, each } if at.as_nanos() / each.as_nanos() % 2 == 1 => self.rate.mul_f64(share),
            Nature::Fade { share, .. } if self.bad_times().is_some_and(|[from, to]| (from..to).contains(&at)) => {
                self.rate.mul_f64(share)
            }
            Nature::Starlink => starlink::rate_at(at),
            _ => self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::all;
    use super::*;

    fn limit(name: &str, direction: Direction) -> f64 {
        let case = all().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("{name}"));
        let links = Links::of(&case, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
        links.limit(&case, direction, case.payload()).unwrap_or_else(|error| panic!("{name}: {error}")).as_secs_f64()
    }

    #[test]
    fn the_limit_is_what_the_link_s_rate_adds_up_to() {
        let sent = 10e6 / PAYLOAD / 0.999 * 8.0 / 6e6;
        let policed = sent * 6.0 / 4.0;
        for (name, up) in [
            ("prior x 10", sent + 0.275),
            ("30 % for 10 s", sent + 0.275 + 7.0),
            ("outage of 5 s", sent + 0.275 + 5.0),
            ("RTT 40 to 550 ms", sent + 0.275),
            ("policer, 30 kB, prior right", policed + 0.275),
            ("fair beside UDP at a third", 2.0 * sent * 1.5 + 0.275),
        ] {
            assert!(
                (limit(name, Direction::Up) - up).abs() < 1e-3,
                "{name}: {} instead of {up}",
                limit(name, Direction::Up)
            );
        }
        let asks = limit("prior right", Direction::Down) - limit("prior right", Direction::Up);
        assert!((asks - 0.275).abs() < 1e-6, "{asks}");
    }

    #[test]
    fn every_case_has_links_of_which_each_can_be() {
        for case in all() {
            let links = Links::of(&case, 1).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            for link in [links.data, links.back, links.ideal] {
                assert_eq!(link.validate(), Ok(()), "{}", case.name);
            }
        }
    }
}
