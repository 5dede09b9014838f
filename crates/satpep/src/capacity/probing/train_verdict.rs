//! What follows from trains: they raise an estimate that is too low, at once or by a trial, and lower one that is too high while a queue
//! stands.

use super::super::estimate::EstimateSource;
use super::super::estimator::Estimator;
use super::super::parts::EstimatorPart;
use super::super::trains::{TrainResult, median};
use super::Trial;
use smallvec::SmallVec;

/// Trains that count together.
type Results = SmallVec<[TrainResult; 8]>;

/// The rates that trains found, in bytes per second.
fn found_by(results: &Results) -> SmallVec<[f64; 8]> {
    results.iter().map(|result| result.found).collect()
}

impl Estimator {
    /// A train raises the estimate by this at once; more is tried first.
    pub(super) const AT_ONCE: f64 = 1.25;
    /// Others that are not measured are left this share of what trains find, at most.
    pub(super) const LEAST_OURS: f64 = 0.2;
    /// Trains that were spaced out at up to this multiple of the estimate are believed to be the link's doing.
    const SURE: f64 = 12.0;
    /// The rate of a link of which nothing is known is tried up to this multiple at once, until one was too much: each trial takes a round trip.
    const UNKNOWN: f64 = 64.0;
    /// Where trains find a rate that differs by more from what they found before, the link has changed.
    const SAME: f64 = 0.1;
    /// Seconds for which a host stalls now and then.
    const STALL: f64 = 0.012;
    /// Packets of one frame arrive as fast as a host takes them: at so many times the rate of the link.
    const MUCH_FASTER: f64 = 16.0;
    /// A rate below this share of what was carried lately is much less.
    const FALLEN: f64 = 0.4;
    /// What trains find has to differ from the estimate by.
    const TOLERANCE: f64 = 0.06;
    /// Trains tell of the last two round trips, the last second, and the last so many packets of a slow link.
    const REMEMBERED_PACKETS: f64 = 48.0;

    /// Draws what follows from the latest trains.
    pub(in super::super) fn on_trains(&mut self, now: f64) {
        let Some(latest) = self.latest_trains(now) else { return };
        let (dispersed, others): (Results, Results) = latest.into_iter().partition(TrainResult::is_dispersed);
        self.push.is_on = dispersed.len() > others.len();
        if !self.push.is_on {
            return self.on_lower_bound(now, median(&mut found_by(&others)));
        }
        let mut found = found_by(&dispersed);
        // A stall makes a train look slow, and nothing makes it look much faster than the link.
        let found = if self.is_guess { found.iter().copied().fold(0.0, f64::max) } else { median(&mut found) };
        let mut spans: SmallVec<[f64; 8]> = dispersed.iter().map(|result| result.span).collect();
        let span = median(&mut spans);
        let noise = 1.2 * self.noise / span / (dispersed.len() as f64 / 2.0).sqrt();
        self.update_ours(found);
        if self.is_guess {
            self.on_first_trains(now, found, span, noise);
        } else {
            self.on_later_trains(now, found, noise, &dispersed);
        }
    }

    /// The latest trains, if they are enough to say something of the link.
    fn latest_trains(&self, now: f64) -> Option<Results> {
        let rtt = if self.queue > self.high() { self.rtt.smoothed.min(self.empty_rtt(now)) } else { self.rtt.smoothed };
        let since = now - (2.0 * rtt).max(1.0).max(self.packets(Self::REMEMBERED_PACKETS));
        let mut latest: Results = self.trains.results(since).copied().collect();
        // On a link that has become slow trains are rare, and it may be as fast again.
        let wanted = if self.is_guess {
            1
        } else if self.has_carried() {
            latest.drain(..latest.len().saturating_sub(2));
            // Of two the lesser counts: the other may have left before the link became slow.
            let least = latest.iter().map(|result| result.found).fold(f64::INFINITY, f64::min);
            latest.retain(|result| result.found <= Self::AT_ONCE * least);
            2
        } else {
            3
        };
        let may_count = self.is_guess || self.trains_tell();
        (latest.len() >= wanted && self.probing.experiment.is_none() && may_count).then_some(latest)
    }

    /// Trains find `found`. If that is the link's rate as before its queue grew, others have a part of it.
    fn update_ours(&mut self, found: f64) {
        if let Some(carried) = self.carried.take()
            && (found / carried.found - 1.0).abs() < Self::SAME
        {
            self.ours = (carried.rate / found).clamp(Self::LEAST_OURS, 1.0);
        }
    }

    /// Trains find `found`, with a relative error of `noise`, where nothing but the prior is known: the prior is confirmed or replaced, or a
    /// second train is waited for. Each pair of packets spans `span` seconds of arrivals.
    fn on_first_trains(&mut self, now: f64, found: f64, span: f64, noise: f64) {
        let rate = found * self.ours;
        let believed = self.rate * self.belief.confidence;
        let late_by = span * (1.0 - found / believed);
        if rate > Self::MUCH_FASTER * self.rate && self.lengthens_first_train() {
            return;
        }
        let is_doubtful = rate * Self::AT_ONCE < believed && late_by < Self::STALL;
        if is_doubtful && self.doubted.is_none_or(|(_, until)| now >= until) {
            self.doubted = Some((rate, now + 2.0 * self.rtt.smoothed + 1.0));
            return;
        }
        self.end_guess();
        self.points.clear();
        self.trains.forget_results();
        self.grown_at = now;
        if rate > Self::AT_ONCE * self.rate {
            self.rate *= self.belief.confidence;
        }
        // The first train is short, and on a fast link as long as its noise: what it finds near the prior confirms that.
        let is_longer = self.first_packets > Self::FIRST_PACKETS;
        let is_confirmed = (rate / self.rate - 1.0).abs() < noise.min(Self::AT_ONCE - 1.0)
            || is_longer && rate > Self::LONGER_TELLS * self.rate;
        let (rate, found) = if is_confirmed { (self.rate, None) } else { (rate, Some(found)) };
        self.raise_to(now, rate, found);
        if is_longer {
            // It has outlasted a frame: that there are frames is no reason to take it back.
            self.before_trains = None;
        }
    }

    /// Trains find `found`, with a relative error of `noise`. An estimate that differs by more follows if the last two of `dispersed` agree.
    fn on_later_trains(&mut self, now: f64, found: f64, noise: f64, dispersed: &Results) {
        let rate = found * self.ours;
        let tolerance = Self::TOLERANCE.max(noise);
        let both = |agrees: &dyn Fn(f64) -> bool| dispersed.iter().rev().take(2).all(|r| agrees(r.found * self.ours));
        if rate > self.rate * (1.0 + tolerance)
            && now - self.lowered_at > 1.2 * self.rtt.smoothed + 0.1
            && both(&|rate| rate > self.rate * (1.0 + tolerance / 2.0))
        {
            if self.probing.trial.is_none() {
                self.raise_to(now, rate, Some(found));
            }
        } else if rate < self.rate * (1.0 - tolerance)
            && now - self.raised_at > self.rtt.smoothed + 0.1
            && self.queue > self.busy()
            && !self.is_shared
            && !self.is_crowded
            && both(&|rate| rate < self.rate * (1.0 - tolerance / 2.0))
        {
            self.set(rate, EstimateSource::Trains);
            self.points.clear();
            self.trains.forget_results();
            self.probing.trial = None;
        }
    }

    /// Whether the link has carried much more of late, and neither a policer nor one of several paths is what limits it now.
    fn has_carried(&self) -> bool {
        self.is_alone && self.rate < Self::FALLEN * self.probing.carried && !self.probing.is_limited
    }

    /// Trains were not spaced out: the link carries `found` at least.
    fn on_lower_bound(&mut self, now: f64, found: f64) {
        if self.is_guess {
            if self.lengthens_first_train() {
                return;
            }
            self.end_guess();
            self.points.clear();
            self.rate *= self.belief.confidence;
            if self.belief.confidence == 1.0 {
                // There is no haste to try more than is believed: other trains follow, and the news of what was lost.
                return;
            }
        }
        let may = self.probing.trial.is_none()
            && now >= self.probing.next_trial
            && self.rate < self.belief.ceiling
            && (self.probing.excess == 0.0 || self.has_carried());
        if found > 1.1 * self.rate && may {
            self.raise_to(now, found, None);
        }
    }

    /// Trains say that the link carries `rate`: `found` if they were spaced out, more otherwise.
    fn raise_to(&mut self, now: f64, rate: f64, found: Option<f64>) {
        let rate = rate.min(self.belief.ceiling);
        let is_tried = self.parts.has(EstimatorPart::Trials);
        if !is_tried || rate <= Self::AT_ONCE * self.rate || rate <= 1.02 * self.probing.carried {
            self.raised_by = found.filter(|_| rate > self.rate);
            self.set(rate, EstimateSource::Trains);
        } else if now >= self.probing.next_trial {
            let most = match found {
                _ if self.probing.is_limited => Self::AT_ONCE,
                Some(_) if rate <= 4.0 * self.rate => 4.0,
                _ if self.belief.confidence < 1.0 && self.probing.overshot_at == f64::NEG_INFINITY => Self::UNKNOWN,
                Some(_) => 3.0,
                None => 2.0,
            };
            let rate = rate.min(most * self.rate);
            // Where trains were not spaced out the link may be a policer's: what is beyond its rate is lost, and has to be short.
            let is_sure = found.is_some_and(|found| found <= Self::SURE * self.rate)
                && most < Self::UNKNOWN
                && now > self.probing.suspected_until;
            let pulse = if is_sure { f64::INFINITY } else { self.trial_length(rate) };
            let has_to_be_sent = self.probing.is_limited || (!is_sure && most < Self::UNKNOWN);
            let trial = Trial { rate, before: self.rate, start: None, pulse, ended: None, has_to_be_sent };
            self.probing.trial = Some(trial);
            self.raised_by = found;
        } else {
            return;
        }
        self.raised_at = now;
        self.points.clear();
        self.trains.forget_results();
    }

    /// What trains find, if they are spaced out.
    pub(in super::super) fn trains_find(&self) -> Option<f64> {
        let all = self.trains.results(f64::NEG_INFINITY).count();
        let dispersed = self.trains.results(f64::NEG_INFINITY).filter(|result| result.is_dispersed());
        let mut found: SmallVec<[f64; 8]> = dispersed.map(|result| result.found).collect();
        (found.len() * 2 > all).then(|| median(&mut found))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::prior::Prior;
    use super::super::super::quantities::Carried;
    use super::super::super::trains::Plan;
    use super::*;
    use crate::event::PeerId;
    use crate::packet_number::PacketNumber;
    use units::{Duration, Rate};

    const PEER: PeerId = PeerId(0);

    /// A train of 16 packets that was sent at `offered` bytes per second has arrived at `found` by `now`.
    fn train_arrives(link: &mut Estimator, now: f64, first: PacketNumber, offered: f64, found: f64) {
        link.trains.begin(now - 0.6, PEER, first, Plan { count: 16, rate: offered });
        for k in 0..16 {
            assert!(link.trains.advance(PEER, first + k));
            link.trains.on_sent(1500, offered / 64.0);
            let position = 1500.0 * (k + 1) as f64;
            link.trains.on_stamp(PEER, first + k, position, now - 0.3 + position / found);
        }
        assert!(link.trains.conclude(now, PEER, first + 16, 0.6));
        link.on_trains(now);
    }

    /// What is believed of a link of `bps`, and the pace there, after first trains of 16 packets that arrived at `times` its rate.
    fn after_first_trains(bps: f64, times: &[f64]) -> [f64; 2] {
        let prior = Prior::Configured(Rate::from_bps(bps as u64));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(600), None), Duration::from_millis(600));
        let (rate, mut now) = (bps / 8.0, 1.6);
        for (train, times) in (0..).zip(times) {
            train_arrives(&mut link, now, PacketNumber::new(train * 16), 64.0 * rate, times * rate);
            now += 0.15;
        }
        [link.rate / rate, link.pace(now) / rate]
    }

    #[test]
    fn a_first_train_that_is_as_short_as_the_noise_confirms_a_prior_near_by() {
        // Sixteen packets take 1 ms at 200 Mbit/s: hosts that take in arrivals in clumps shorten that.
        assert_eq!(after_first_trains(200e6, &[1.2])[0], 1.0);
        assert!((after_first_trains(6e6, &[1.2])[0] - 1.2).abs() < 0.01, "there they take 32 ms");
    }

    #[test]
    fn a_train_in_which_a_host_stalls_does_not_undo_a_prior() {
        let [rate, pace] = after_first_trains(200e6, &[0.1]);
        assert!(rate == 1.0 && pace < 0.11, "{rate}, {pace}: it waits for a second train");
        assert_eq!(after_first_trains(200e6, &[0.1, 0.98])[0], 1.0);
        let [rate, _] = after_first_trains(200e6, &[0.5, 0.52]);
        assert!((rate - 0.52).abs() < 0.01, "{rate}: the prior was twice too much");
    }

    /// The share of what trains find that is ours, where the link carried 2 MB/s after trains had found 8, and now find `found`.
    fn ours_after(found: f64) -> f64 {
        let prior = Prior::Configured(Rate::from_bps(64_000_000));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(60), None), Duration::from_millis(60));
        link.end_guess();
        link.carried = Some(Carried { rate: 2e6, found: 8e6 });
        for train in 0..3 {
            train_arrives(&mut link, 1.0 + 0.1 * train as f64, PacketNumber::new(train * 16), 64e6, found);
        }
        link.ours
    }

    #[test]
    fn others_have_the_rest_of_a_link_whose_trains_find_as_much_as_before() {
        assert!((ours_after(8e6) - 0.25).abs() < 0.01, "{}", ours_after(8e6));
        for found in [6e6, 12e6] {
            assert_eq!(ours_after(found), 1.0, "the link has changed: {found}");
        }
    }
}
