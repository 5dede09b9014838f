//! A terminal's requests for capacity.

use super::TerminalConfig;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, Rate};

/// What a terminal asks for at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Request {
    /// RBDC: the rate beyond the constant one from now on.
    pub(super) rate: Option<Rate>,
    /// VBDC: so many bytes more.
    pub(super) volume: Bytes,
    /// AVBDC: so many bytes in all, `volume` apart.
    pub(super) whole_volume: Option<Bytes>,
}

/// A terminal's queue as its requests see it. Both include what the link layer adds to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// All bytes that ever found room in the queue.
    pub entered: Bytes,
    /// The bytes that wait, the rest of a packet of which a part was sent included.
    pub waiting: Bytes,
}

/// When what a terminal asks for has an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// From a request's leaving to its arrival at the NCC.
    pub(super) to_ncc: Duration,
    /// From a request's leaving to the arrival of the plan that it may change.
    pub(super) round_trip: Duration,
    /// From a request's leaving to the superframe that it may change, if the NCC plans just then.
    pub(super) latency: Duration,
    /// The NCC plans once in this time,
    pub(super) superframe: Duration,
    /// first at this one.
    pub(super) start: Instant,
}

impl Timing {
    /// When the NCC last planned before it receives what leaves `now`; it receives before it plans.
    fn last_plan(&self, now: Instant) -> Option<Instant> {
        let since = (now + self.to_ncc).since(self.start).as_nanos();
        let plans = since.div_ceil(self.superframe.as_nanos());
        plans.checked_sub(1).map(|before| self.start + self.superframe * before)
    }
}

/// Decides what a terminal asks for.
#[derive(Debug)]
pub(super) struct Requester {
    config: TerminalConfig,
    slot: Bytes,
    timing: Timing,
    entered: Bytes,
    /// The requests that have not had an answer yet: when they left, their rate and their volume.
    unanswered: VecDeque<(Instant, Rate, Bytes)>,
    restate_at: Instant,
    /// Whether anything was asked for by volume since the whole was stated last.
    asked_volume: bool,
    /// What those above say that they will send.
    demand: Rate,
}

impl Requester {
    pub(super) fn new(config: TerminalConfig, slot: Bytes, timing: Timing) -> Self {
        Self {
            restate_at: timing.start + config.avbdc,
            config,
            slot,
            timing,
            entered: Bytes::ZERO,
            unanswered: VecDeque::new(),
            asked_volume: false,
            demand: Rate::ZERO,
        }
    }

    /// Those above will send at `rate`: at least that is asked for, whatever comes.
    pub(super) fn demand(&mut self, rate: Rate) {
        self.demand = rate;
    }

    /// What to ask for, if anything, as often as the configuration says.
    pub(super) fn evaluate(&mut self, now: Instant, backlog: Backlog) -> Option<Request> {
        let arrived = backlog.entered - self.entered;
        self.entered = backlog.entered;
        self.forget_answered(now);
        let rate = self.rate(now, arrived, backlog.waiting);
        let (volume, whole_volume) = self.volume(now, arrived, backlog.waiting, rate);
        self.unanswered.push_back((now, rate, volume + whole_volume.unwrap_or_default()));
        let had_rate = self.unanswered.iter().rev().nth(1).is_some_and(|(_, rate, _)| *rate > Rate::ZERO);
        let request = Request {
            // Once no rate is wanted any more, the NCC hears of it; after that it hears nothing.
            rate: (rate > Rate::ZERO || had_rate).then_some(rate),
            volume,
            whole_volume,
        };
        (request != Request::default()).then_some(request)
    }

    /// The superframe of the answer to what left before has begun.
    fn forget_answered(&mut self, now: Instant) {
        // The last of them says whether a rate was asked for just before.
        while self.unanswered.len() > 1 && self.unanswered[0].0 + self.timing.latency < now {
            self.unanswered.pop_front();
        }
    }

    /// The rate that traffic came in, and what empties the queue over two intervals, but for what was asked for and not
    /// yet given and for the constant rate.
    fn rate(&self, now: Instant, arrived: Bytes, waiting: Bytes) -> Rate {
        if self.config.rbdc == Rate::ZERO {
            return Rate::ZERO;
        }
        let every = self.config.every;
        let latest = self.unanswered.iter().rev().take((self.timing.round_trip.as_nanos() / every.as_nanos()) as usize);
        let pending =
            latest.filter(|(left, ..)| *left + self.timing.latency >= now).map(|(_, rate, _)| rate.bytes_in(every));
        let pending = pending.fold(Bytes::ZERO, |sum, bytes| sum + bytes);
        let standing = waiting - arrived - pending;
        let [coming, standing] = [Rate::from_transfer(arrived, every), Rate::from_transfer(standing, every * 2)];
        let wanted = Rate::from_bps(coming.as_bps().saturating_add(standing.as_bps()))
            .max(self.demand)
            .saturating_sub(self.config.cra);
        quantised(wanted).min(self.config.rbdc)
    }

    /// What came that no rate covers; or all that waits and nobody gives yet.
    fn volume(&mut self, now: Instant, arrived: Bytes, waiting: Bytes, rate: Rate) -> (Bytes, Option<Bytes>) {
        if self.config.vbdc == Bytes::ZERO {
            return (Bytes::ZERO, None);
        }
        let rates = Rate::from_bps(self.config.cra.as_bps().saturating_add(rate.as_bps()));
        if now >= self.restate_at && (waiting > Bytes::ZERO || self.asked_volume) {
            // Until the last whole is answered, how much of it is still to come is not known.
            self.restate_at = now + self.config.avbdc.max(self.timing.latency + self.timing.superframe);
            self.asked_volume = false;
            let whole = self.in_slots(waiting - self.planned(now) - rates.bytes_in(self.timing.latency));
            return (Bytes::ZERO, Some(whole));
        }
        let volume = self.in_slots(arrived - rates.bytes_in(self.config.every));
        self.asked_volume |= volume > Bytes::ZERO;
        (volume, None)
    }

    /// The volume asked for that has no answer yet, but will have been planned when the NCC receives what leaves `now`. What will not
    /// have been is replaced by a whole.
    fn planned(&self, now: Instant) -> Bytes {
        let Some(last_plan) = self.timing.last_plan(now) else { return Bytes::ZERO };
        let planned = self.unanswered.iter().filter(|(left, ..)| *left + self.timing.to_ncc <= last_plan);
        planned.fold(Bytes::ZERO, |sum, (.., volume)| sum + *volume)
    }

    /// Rounded up to whole slots.
    fn in_slots(&self, bytes: Bytes) -> Bytes {
        self.slot * bytes.as_u64().div_ceil(self.slot.as_u64())
    }
}

/// The steps in which SNS3, after EN 301 790, states rates: 2 kbit/s up to 512 kbit/s, 32 kbit/s above. Rounded up.
fn quantised(rate: Rate) -> Rate {
    let bps = rate.as_bps();
    let step = if bps <= 512_000 { 2_000 } else { 32_000 };
    Rate::from_bps(bps.div_ceil(step).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(100);

    fn requester(config: TerminalConfig) -> Requester {
        let [to_ncc, round_trip, latency, superframe] = [260, 520, 620, 100].map(Duration::from_millis);
        let timing = Timing { to_ncc, round_trip, latency, superframe, start: Instant::ZERO };
        Requester::new(config, Bytes::new(100), timing)
    }

    fn mbps(rate: f64) -> Rate {
        Rate::from_bps((rate * 1e6) as u64)
    }

    fn at(evaluation: u64) -> Instant {
        Instant::ZERO + EVERY * evaluation
    }

    fn backlog(entered: u64, waiting: u64) -> Backlog {
        Backlog { entered: Bytes::new(entered), waiting: Bytes::new(waiting) }
    }

    #[test]
    fn rates_are_stated_in_steps_and_rounded_up() {
        for (bps, stated) in [(0, 0), (1, 2_000), (2_000, 2_000), (511_001, 512_000), (512_001, 544_000)] {
            assert_eq!(quantised(Rate::from_bps(bps)).as_bps(), stated);
        }
    }

    #[test]
    fn the_rate_is_that_of_arrivals_and_its_end_is_told_once() {
        let mut requester = requester(TerminalConfig { rbdc: mbps(4.0), cra: mbps(0.2), ..TerminalConfig::new("c") });
        assert_eq!(requester.evaluate(at(0), backlog(0, 0)), None);
        // 1 Mbit/s: 12,500 bytes in each interval, none of which leaves before the first answer.
        for n in 1..=6 {
            let request = requester.evaluate(at(n), backlog(12_500 * n, 12_500 * n)).expect("traffic");
            assert!(request.rate >= Some(mbps(0.8)) && request.rate <= Some(mbps(1.3)), "{n}: {request:?}");
        }
        let nothing = Request { rate: Some(Rate::ZERO), ..Request::default() };
        assert_eq!(requester.evaluate(at(7), backlog(75_000, 0)), Some(nothing));
        assert_eq!(requester.evaluate(at(8), backlog(75_000, 0)), None);
    }

    #[test]
    fn a_rate_stays_below_its_maximum_and_above_the_demand_of_those_above() {
        let mut requester = requester(TerminalConfig { rbdc: mbps(2.0), ..TerminalConfig::new("c") });
        requester.demand(mbps(1.5));
        assert_eq!(requester.evaluate(at(1), backlog(0, 0)).and_then(|request| request.rate), Some(mbps(1.504)));
        let flood = backlog(1_000_000, 1_000_000);
        assert_eq!(requester.evaluate(at(2), flood).and_then(|request| request.rate), Some(mbps(2.0)));
    }

    #[test]
    fn volumes_are_asked_for_once_in_whole_slots() {
        let config =
            TerminalConfig { vbdc: Bytes::new(1 << 20), avbdc: Duration::from_secs(60), ..TerminalConfig::new("c") };
        let mut requester = requester(config);
        let asked: Vec<_> = (1..=4)
            .map(|n| requester.evaluate(at(n), backlog(250 * n, 250 * n)).map_or(0, |request| request.volume.as_u64()))
            .collect();
        assert_eq!(asked, [300; 4]);
        assert_eq!(requester.evaluate(at(5), backlog(1_000, 1_000)), None);
    }

    #[test]
    fn the_whole_volume_leaves_out_what_is_on_its_way() {
        let config = TerminalConfig { vbdc: Bytes::new(1 << 20), ..TerminalConfig::new("c") };
        let mut requester = requester(config);
        assert_eq!(
            requester.evaluate(at(1), backlog(5_000, 5_000)).map(|request| request.volume),
            Some(Bytes::new(5_000))
        );
        (2..=8).for_each(|n| assert_eq!(requester.evaluate(at(n), backlog(5_000, 5_000)), None, "{n}"));
        requester.evaluate(at(9), backlog(7_000, 7_000)).expect("more came");
        // The first request should have been answered by now: its 5,000 bytes are asked for again.
        let request = requester.evaluate(at(10), backlog(7_000, 7_000)).expect("the time has come");
        assert_eq!(request, Request { whole_volume: Some(Bytes::new(5_000)), ..Request::default() });
    }
}
