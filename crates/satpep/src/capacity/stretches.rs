//! What points tell in a row: a queue that grows or stays shows what the link carries, and one that does not grow though more is sent
//! than the estimate shows that there is more.

use super::delays::{Counts, Point};
use super::estimate::EstimateSource;
use super::estimator::Estimator;
use super::own_growth::OwnGrowth;
use super::parts::EstimatorPart;
use super::push::Push;
use super::quantities::{Carried, PACKET};
use super::trains::median;
use smallvec::SmallVec;

/// Two adjacent stretches over which the queue grew.
struct Growth {
    /// Bytes per second that the link carried over both, and over the second.
    carried: f64,
    latest: f64,
    took: f64,
    /// If one peer alone saw it.
    own: Option<OwnGrowth>,
}

/// A stretch over which there was always a queue.
struct Busy {
    from: Point,
    /// The least queue in it.
    least: f64,
}

impl Estimator {
    /// A queue is one if it grows over two adjacent stretches of this many seconds: a step of the path grows in one.
    const STRETCH: f64 = 0.03;
    const SHARED_STRETCH: f64 = 0.08;
    const STRETCH_PACKETS: f64 = 8.0;
    const STRETCH_NOISE: f64 = 12.0;
    const STRETCH_FRAMES: f64 = 3.0;
    /// What it has to grow by: seconds, packets, the noise, a share of the time that it took, and each stretch's share of that.
    const GROWTH: f64 = 0.008;
    const GROWTH_PACKETS: f64 = 4.0;
    const GROWTH_NOISE: f64 = 5.0;
    const GROWTH_FRAMES: f64 = 0.5;
    const GROWTH_SHARE: f64 = 0.06;
    const EACH: f64 = 0.25;
    /// On paths that are narrower than the link, where one packet more to each looks like a queue that grows: so many packets of a path,
    /// for a stretch and for growth.
    const SLOTS: f64 = 3.0;
    /// Between two points no more time may pass than what was sent takes, and this more: a share, and seconds.
    const PAUSE: [f64; 2] = [1.05, 0.005];
    /// How far below the estimate the link has to carry, over a short and over a long time.
    const LESS: [f64; 2] = [0.9, 0.95];
    const LONG: f64 = 0.2;
    /// The estimate falls to no less than this share at once.
    const DEEPEST: f64 = 0.125;
    /// A stretch with a queue, in seconds, packets and of the noise.
    const BUSY: f64 = 0.12;
    const BUSY_PACKETS: f64 = 48.0;
    const BUSY_NOISE: f64 = 24.0;
    const BUSY_FRAMES: f64 = 4.0;
    /// What is sent during it, as a share of the estimate, for less to be believed of the link.
    const LOADED: f64 = 0.9;
    /// Losses beyond the usual by this share are a burst's, unless the queue is long: then they are what overflows.
    const BURST: f64 = 0.1;
    const OVERFLOW: f64 = 0.02;
    /// Paths carry more than the estimate if they do so by this factor.
    const PATHS_CARRY: f64 = 1.05;
    /// A queue this many times what is high is long.
    const FULL: f64 = 5.0;

    /// Draws what follows from the newest point.
    pub(super) fn on_stretches(&mut self, now: f64, point: &Point) {
        self.push_on(now, point);
        if let Some(growth) = self.growth(point) {
            self.on_growth(now, &growth);
        } else if !self.follows
            && let Some(busy) = self.busy_stretch(point)
        {
            self.on_busy(now, point, &busy);
        }
    }

    /// A round trip of pushing without a queue: there is more.
    fn push_on(&mut self, now: f64, point: &Point) {
        if self.probing.suspects_policer(now) {
            self.push.share = self.push.share.min(Push::LEAST);
        }
        let pushes = self.pushes()
            && !self.is_crowded
            && !self.probing.is_limited
            && !self.probing.is_busy()
            && self.probing.excess == 0.0
            && point.queue <= self.busy()
            && now - self.lowered_at > self.rtt.smoothed;
        if !pushes {
            self.push.since = None;
            if point.queue > self.busy() {
                let may_recover = (self.is_alone || self.paths_carry_more())
                    && self.parts.has(EstimatorPart::Recovery)
                    && now - self.push.fell_at < Push::FALLEN_FOR;
                self.push.share = if may_recover { Push::FALLEN } else { Push::LEAST };
            }
            return;
        }
        let rtt = self.rtt.smoothed;
        let since = *self.push.since.get_or_insert(now);
        let is_long = self.points.front().is_some_and(|first| first.sent < point.sent - 0.2 * rtt);
        if !is_long || now - since <= 1.1 * rtt + 0.05 {
            return;
        }
        let mut earlier = self.points.iter().filter(|earlier| earlier.sent < point.sent);
        let is_recent = |earlier: &&Point| earlier.sent >= point.sent - (0.5 * rtt).max(0.1);
        // Where points are rare, none but the one before may be left.
        let Some(from) = earlier.clone().find(is_recent).or(earlier.next_back()) else { return };
        let sent = point.sent_since(from);
        self.push.since = Some(now);
        if sent > 1.005 * self.rate {
            let rate = sent.min(self.rate * (1.0 + self.push.share));
            self.set(rate, EstimateSource::Queue);
            let (times, most) =
                if self.trains_tell() { (Push::TIMES, Push::MOST) } else { (Push::ALONE_TIMES, Push::ALONE_MOST) };
            self.push.share = (times * self.push.share).min(most);
        }
    }

    /// Whether trains find paths that are narrower than the link, and in sum carry more than the estimate.
    pub(super) fn paths_carry_more(&self) -> bool {
        self.narrowest().is_some_and(|found| found * self.peers as f64 > Self::PATHS_CARRY * self.rate)
    }

    /// Whether the link may have been idle between two points: nothing was sent for longer than the queue before it lasted.
    fn may_have_idled(&self, earlier: &Point, later: &Point, [share, seconds]: [f64; 2]) -> bool {
        let took = (later.entered() - earlier.entered()) / self.rate;
        later.sent - earlier.sent > earlier.queue + took * share * self.slack + seconds
    }

    fn growth(&self, point: &Point) -> Option<Growth> {
        if !self.parts.has(EstimatorPart::Growth) {
            return None;
        }
        // What is left of the queues of several paths differs by their packets.
        let least = if self.is_shared { Self::SHARED_STRETCH } else { Self::STRETCH };
        let stretch = least
            .max(self.packets(Self::STRETCH_PACKETS))
            .max(Self::SLOTS * self.slot())
            .max(Self::STRETCH_NOISE * self.noise)
            .max(Self::STRETCH_FRAMES * self.frame);
        let end = self.points.len().checked_sub(1)?;
        let middle = (0..end).rev().find(|k| point.arrived_since(&self.points[*k]) >= stretch)?;
        let start = (0..middle).rev().find(|k| self.points[middle].arrived_since(&self.points[*k]) >= stretch)?;
        let paused = |k: usize| self.may_have_idled(&self.points[k], &self.points[k + 1], Self::PAUSE);
        if (start..end).any(paused) {
            return None;
        }
        let (first, second) = (&self.points[start], &self.points[middle]);
        let grown = [second.queue - first.queue, point.queue - second.queue];
        let (sum, least) = (grown[0] + grown[1], grown[0].min(grown[1]));
        let took = point.arrived_since(first);
        let wanted = Self::GROWTH
            .max(self.packets(Self::GROWTH_PACKETS))
            .max(Self::SLOTS * self.slot())
            .max(Self::GROWTH_NOISE * self.noise)
            .max(Self::GROWTH_FRAMES * self.frame)
            .max(Self::GROWTH_SHARE * took);
        // What was lost before is none of this stretch's.
        let kept = 1.0 - self.probing.excess.min(2.0 * lost_between(&first.counts, &point.counts));
        let carried = point.rate_since(first) * kept;
        let less = if took < Self::LONG { Self::LESS[0] } else { Self::LESS[1] };
        // Of one of several peers points are rare, so that one stretch may be much longer than the other.
        let each = if self.is_alone { Self::EACH * sum } else { wanted.min(Self::EACH * sum) };
        let grows = sum >= wanted && least >= each && carried < less * self.rate;
        grows.then(|| Growth {
            carried,
            latest: point.rate_since(second) * kept,
            took: point.arrived_since(second),
            own: self.own_growth_since(first, point),
        })
    }

    /// The growth since `first` if one peer alone saw it, and others share the link.
    fn own_growth_since(&self, first: &Point, point: &Point) -> Option<OwnGrowth> {
        let clock = point.counts.clock;
        let mut seen = self.points.iter().rev().take_while(|seen| seen.sent >= first.sent);
        let is_of_one = self.is_shared && seen.all(|seen| seen.counts.clock == clock);
        let own = (point.own - first.own) / point.arrived_since(first);
        is_of_one.then(|| OwnGrowth { clock, sent: point.sent, own, all: point.rate_since(first) })
    }

    fn on_growth(&mut self, now: f64, growth: &Growth) {
        let is_of_path = growth.own.zip(self.own_growth).is_some_and(|(own, before)| own.is_of_path(&before));
        if !is_of_path {
            self.own_growth = growth.own;
        }
        let was_raised = now - self.raised_at < 2.5 * self.rtt.smoothed + 0.5;
        self.carried = self.raised_by.filter(|_| was_raised).map(|found| Carried { rate: growth.carried, found });
        let rate = if growth.took > 0.1 { growth.latest } else { growth.carried };
        if !self.is_crowded && !is_of_path {
            if self.why != EstimateSource::Prior {
                self.push.fell_at = now;
            }
            self.set(rate.max(self.rate * Self::DEEPEST), EstimateSource::Queue);
        }
        (self.lowered_at, self.grown_at) = (now, now);
        self.probing.abandon();
        self.test = None;
        self.end_guess();
        self.restart_points();
        self.trains.forget_results();
    }

    fn busy_stretch(&self, point: &Point) -> Option<Busy> {
        let wanted = Self::BUSY.max(Self::BUSY_NOISE * self.noise).max(Self::BUSY_FRAMES * self.frame);
        if point.queue <= self.busy() || !self.parts.has(EstimatorPart::StandingQueue) {
            return None;
        }
        let mut least = point.queue;
        for k in (0..self.points.len().checked_sub(1)?).rev() {
            let (earlier, later) = (&self.points[k], &self.points[k + 1]);
            if earlier.queue <= self.busy() || self.may_have_idled(earlier, later, [1.0, 0.0]) {
                return None;
            }
            least = least.min(earlier.queue);
            let took = point.arrived_since(earlier);
            // What leaves faster than was thought is believed as soon.
            let bytes = point.entered() - earlier.entered();
            let is_many =
                (self.is_alone && bytes >= Self::BUSY_PACKETS * PACKET) || took >= self.packets(Self::BUSY_PACKETS);
            if took >= wanted && is_many {
                return Some(Busy { from: *earlier, least });
            }
        }
        None
    }

    fn on_busy(&mut self, now: f64, point: &Point, busy: &Busy) {
        if self.is_crowded {
            return self.restart_points();
        }
        let (before, after) = (&busy.from.counts, &point.counts);
        let (lost, received) = (lost_between(before, after), after.received - before.received);
        let lost = if self.parts.has(EstimatorPart::Losses) { lost } else { 0.0 };
        let is_full = busy.least >= Self::FULL * self.high();
        let mut carried = point.rate_since(&busy.from) * (1.0 - self.probing.excess.min(2.0 * lost));
        if lost > self.probing.usual + if is_full { Self::OVERFLOW } else { Self::BURST } {
            if !is_full {
                return self.restart_points();
            }
            let Some(took) = after.since(before) else { return self.restart_points() };
            // One receiver's clock says how long that took: it has no more arrive than left the queue.
            carried = (received / took / (1.0 - self.probing.usual)).min(point.rate_since(&busy.from));
        }
        let found: SmallVec<[f64; 8]> = self
            .trains
            .results(f64::NEG_INFINITY)
            .filter(|result| result.is_dispersed())
            .map(|result| result.found)
            .collect();
        let trains_find = (found.len() >= 3).then(|| median(&mut found.clone()) * self.ours);
        // Of a delay that is none of ours, what is sent below the estimate says nothing.
        let is_loaded = point.sent_since(&busy.from) > Self::LOADED * self.rate;
        let is_steady = (carried / point.sent_since(&busy.from) - 1.0).abs() < 0.02;
        if trains_find.is_some_and(|found| carried < 0.97 * found) && is_steady && self.may_test() {
            // The delay stays though we send less than trains find: a queue or a longer path? A pause tells.
            self.begin_test(now, (self.queue / 2.0).clamp(0.01, 0.1));
        } else if (carried / self.rate - 1.0).abs() > 0.003
            && (carried > self.rate || (is_loaded && point.queue - busy.from.queue > (0.001f64).max(self.noise)))
        {
            self.set(self.rate + 0.5 * (carried - self.rate), EstimateSource::Queue);
        }
        self.end_guess();
        if self.probing.trial_rate().is_some_and(|rate| carried < 0.95 * rate) {
            self.probing.end_trial();
        }
        self.restart_points();
    }
}

/// The share of what was sent between two points that was lost, as far as is known: nothing, where the later one was reported first.
fn lost_between(before: &Counts, after: &Counts) -> f64 {
    let (lost, received) = (after.lost - before.lost, after.received - before.received);
    if lost > 0.0 && received >= 0.0 { lost / (lost + received) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::prior::Prior;
    use super::*;
    use units::{Duration, Rate};

    /// Of a link that has answered: its rate was configured right.
    fn estimator(bps: u64, rtt: f64) -> Estimator {
        let rtt = Duration::from_secs_f64(rtt);
        let mut estimator = Estimator::new(Prior::Configured(Rate::from_bps(bps)).belief(rtt, None), rtt);
        estimator.end_guess();
        estimator
    }

    /// A report after `rtt` seconds of a packet of `sent` and `position`, and of the queue that it saw.
    fn report(estimator: &mut Estimator, rtt: f64, (sent, position): (f64, f64), queue: f64, counts: Counts) {
        let point = Point { sent, position, own: position, lag: 0.0, queue, counts };
        estimator.points.push_back(point);
        estimator.on_stretches(sent + rtt, &point);
    }

    /// The estimate of a link of 6 Mbit/s on which a queue grows by a third of the time, for a second.
    fn estimate(is_crowded: bool) -> f64 {
        let mut estimator = estimator(6_000_000, 0.55);
        estimator.is_crowded = is_crowded;
        for k in 0..50u32 {
            let sent = 0.02 * f64::from(k);
            report(&mut estimator, 0.55, (sent, 750e3 * sent), sent / 3.0, Counts::default());
        }
        estimator.rate * 8.0
    }

    #[test]
    fn a_queue_of_a_narrow_path_is_seen_to_grow_behind_a_train() {
        // Of a train only the first packet makes a point: the first stretch is short, the second one long, and the queue is there already
        // when the next ones are seen. Seconds, bytes and queues of a path of 120 kbit/s that was sent 3 Mbit/s.
        let points = [(0.0, 2.7e3, 0.0), (0.001, 4.2e3, 0.101), (0.020, 31e3, 1.864), (0.069, 36.9e3, 2.198)];
        let has_grown = |follows| {
            let mut estimator = estimator(3_000_000, 0.55);
            (estimator.slack, estimator.is_alone, estimator.follows) = (2.0, false, follows);
            for (sent, position, queue) in points {
                report(&mut estimator, 0.55, (sent, position), queue, Counts::default());
            }
            estimator.grown_at > 0.0
        };
        assert!(has_grown(true));
        assert!(!has_grown(false), "each queue that stayed began the points again");
    }

    #[test]
    fn a_path_that_carries_as_much_when_others_are_sent_nothing_does_not_lower_the_link() {
        // Two peers share 6 Mbit/s; their queues grow, and then one is held back. What the other has of the link when it has it to itself.
        let estimate = |alone: f64| {
            let mut estimator = estimator(6_000_000, 0.55);
            (estimator.peers, estimator.is_shared, estimator.is_alone, estimator.slack) = (2, true, false, 2.0);
            let (mut own, mut all, mut queue) = (0.0, 0.0, 0.0);
            for k in 0..60u32 {
                let sent = 0.02 * f64::from(k);
                let (arrives, others) = if k < 30 { (1.5e6, 1.0) } else { (alone, 0.0) };
                let enters = 0.02 * 3e6 / 8.0;
                (own, all) = (own + enters, all + enters * (1.0 + others));
                queue += 0.02 * (3e6 / arrives - 1.0);
                let point = Point { sent, position: all, own, lag: 0.0, queue, counts: Counts::default() };
                estimator.points.push_back(point);
                estimator.on_stretches(sent + 0.55, &point);
            }
            estimator.rate * 8.0
        };
        assert!((estimate(1.5e6) / 3e6 - 1.0).abs() < 0.02, "its own path: {}", estimate(1.5e6));
        assert!(estimate(0.7e6) < 1.1e6, "the link has fallen once more: {}", estimate(0.7e6));
    }

    #[test]
    fn what_was_lost_before_a_queue_grew_does_not_lower_the_estimate() {
        // Of what overflowed a queue much was lost, and nothing since.
        for (lost_since, least, most) in [(0.0, 4.4e6, 4.6e6), (9.0, 0.4e6, 0.5e6)] {
            let mut estimator = estimator(6_000_000, 0.55);
            estimator.probing.excess = 0.9;
            for k in 0..50u32 {
                let sent = 0.02 * f64::from(k);
                let position = 750e3 * sent;
                let counts = Counts { received: position, lost: 1e6 + lost_since * position, ..Counts::default() };
                let point = Point { sent, position, own: position, lag: 0.0, queue: sent / 3.0, counts };
                estimator.points.push_back(point);
                let growth = estimator.growth(&point);
                let carried = growth.map_or(6e6, |growth| growth.carried * 8.0);
                assert!(k < 20 || (least..most).contains(&carried), "{lost_since} {k}: {carried}");
            }
        }
    }

    #[test]
    fn pushes_find_more_though_points_are_rarer_than_half_round_trips() {
        let mut estimator = estimator(1_500_000, 0.26);
        estimator.push.is_on = true;
        let mut position = 0.0;
        for k in 0..30u32 {
            let sent = 0.28 * f64::from(k);
            position += 0.28 * estimator.pace(sent);
            report(&mut estimator, 0.26, (sent, position), 0.0, Counts::default());
        }
        assert!(estimator.rate > 2.0 * 187_500.0, "{}", estimator.rate / 187_500.0);
    }

    #[test]
    fn counts_from_before_a_stretch_do_not_raise_the_estimate() {
        let mut estimator = estimator(6_000_000, 0.55);
        estimator.probing.excess = 0.05;
        for k in 0..40u32 {
            let sent = 0.02 * f64::from(k);
            let position = 750e3 * sent;
            // The newest of every five was reported before the others: by a near peer.
            let reported = if k % 5 == 4 { (position - 300e3).max(0.0) } else { position };
            let counts = Counts { received: reported, lost: reported * 0.05, ..Counts::default() };
            report(&mut estimator, 0.55, (sent, position), 0.03, counts);
            assert!((0.9..1.1).contains(&(estimator.rate / 750e3)), "{k}: {}", estimator.rate / 750e3);
        }
    }

    #[test]
    fn a_clock_that_hardly_goes_on_does_not_raise_the_estimate_of_a_full_link() {
        // A queue of a second overflows; the receiver's stamps say that all has arrived at about the same time.
        let mut estimator = estimator(6_000_000, 0.55);
        for k in 0..60u32 {
            let sent = 0.02 * f64::from(k);
            let position = 750e3 * sent;
            let counts =
                Counts { received: 0.9 * position, lost: 0.1 * position, newest: 1e-6 * sent, ..Counts::default() };
            report(&mut estimator, 0.55, (sent, position), 1.0, counts);
            assert!(estimator.rate < 1.5 * 750e3, "{k}: {}", estimator.rate / 750e3);
        }
    }

    #[test]
    fn a_queue_lowers_the_estimate_unless_it_may_be_that_of_others() {
        assert!((estimate(false) / 4.5e6 - 1.0).abs() < 0.02, "{}", estimate(false));
        assert_eq!(estimate(true), 6e6);
    }
}
