//! How much room cross traffic is given.
//!
//! What is measured on the interface is left to others in any case. A TCP among them that finds the link full takes that
//! for congestion and backs off, so that a sender which fills whatever is left would never let it have its share: where
//! the policy is `fair`, others have room to grow until they have theirs.

use units::{Duration, Instant, Rate};

/// The rate of cross traffic, now and of late.
#[derive(Debug)]
pub(crate) struct CrossTraffic {
    measured: Rate,
    /// The most in this period and in the one before.
    most: [Rate; 2],
    /// And the least.
    least: [Rate; 2],
    period: Duration,
    period_ends: Instant,
    /// Streams of ours that had something to send.
    flows: u32,
}

impl CrossTraffic {
    /// Others that grow are given this much more than they had of late, so that they may double in a round trip, as slow
    /// start does; others that do not, this much.
    const GROWING: f64 = 2.0;
    const STEADY: f64 = 1.15;
    /// Where others send more than their share, what passes a full queue is divided by what is offered: ours is raised as
    /// theirs is, up to this.
    const MAX_PUSH: f64 = 1.15;
    /// Below this share of the capacity others are not worth the room.
    const NOTHING: f64 = 0.002;
    /// With less than this part of the capacity others fill no queue: a queue is ours.
    const TRICKLE: f64 = 0.05;

    pub(crate) fn new(rtt: Duration) -> Self {
        let period = (rtt * 2).max(Duration::from_millis(500));
        Self {
            measured: Rate::ZERO,
            most: [Rate::ZERO; 2],
            least: [Rate::ZERO; 2],
            period,
            period_ends: Instant::ZERO,
            flows: 1,
        }
    }

    pub(crate) fn on_measured(&mut self, now: Instant, rate: Rate, flows: u32) {
        (self.measured, self.flows) = (rate, flows.max(1));
        if self.period_ends <= now {
            self.period_ends = now + self.period;
            self.most = [Rate::ZERO, self.most[0]];
            self.least = [rate, self.least[0]];
        }
        self.most[0] = self.most[0].max(rate);
        self.least[0] = self.least[0].min(rate);
    }

    pub(crate) fn measured(&self) -> Rate {
        self.measured
    }

    /// The most that others sent of late.
    fn most(&self) -> Rate {
        self.most[0].max(self.most[1])
    }

    /// Whether there are others to share `capacity` with.
    fn has_others(&self, capacity: Rate) -> bool {
        self.most() >= capacity.mul_f64(Self::NOTHING)
    }

    /// Whether others may be the ones that fill a queue of a link of `capacity`.
    pub(crate) fn may_fill_queue(&self, capacity: Rate) -> bool {
        self.most() >= capacity.mul_f64(Self::TRICKLE)
    }

    /// The share of others: that of one flow.
    fn share_of(&self, capacity: Rate) -> Rate {
        capacity.mul_f64(1.0 / f64::from(self.flows + 1))
    }

    /// What is ours of `capacity`: what others leave, and our flows' share at least, others counting as one flow.
    pub(crate) fn ours(&self, capacity: Rate) -> Rate {
        if !self.has_others(capacity) {
            return capacity.saturating_sub(self.most());
        }
        let excess = self.measured.as_bps() as f64 / self.share_of(capacity).as_bps().max(1) as f64;
        capacity.saturating_sub(self.room(capacity)).mul_f64(excess.clamp(1.0, Self::MAX_PUSH))
    }

    /// What is left to others so that they have their share, and keep what they had without a break. Two processes that each leave the
    /// other what it sent last would take turns.
    pub(crate) fn room_or_least(&self, capacity: Rate) -> Rate {
        self.room(capacity).max(self.least[0].min(self.least[1]))
    }

    /// What others have of `capacity` to grow into, until they have their share.
    fn room(&self, capacity: Rate) -> Rate {
        let growing = self.most[0] > self.most[1].mul_f64(1.1);
        self.most().mul_f64(if growing { Self::GROWING } else { Self::STEADY }).min(self.share_of(capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Rate = Rate::from_bps(6_000_000);

    fn after(readings: impl Iterator<Item = u64>, flows: u32) -> CrossTraffic {
        let mut cross_traffic = CrossTraffic::new(Duration::from_millis(550));
        for (k, bps) in readings.enumerate() {
            cross_traffic.on_measured(
                Instant::ZERO + Duration::from_millis(100) * k as u64,
                Rate::from_bps(bps),
                flows,
            );
        }
        cross_traffic
    }

    fn ours_after(readings: impl Iterator<Item = u64>, flows: u32) -> Rate {
        after(readings, flows).ours(CAPACITY)
    }

    #[test]
    fn a_call_beside_a_transfer_fills_no_queue() {
        let may_fill_queue = |bps| after([bps; 50].into_iter(), 1).may_fill_queue(CAPACITY);
        assert!(!may_fill_queue(50_000) && !may_fill_queue(290_000));
        assert!(may_fill_queue(310_000) && may_fill_queue(3_000_000));
    }

    #[test]
    fn what_others_do_not_use_is_ours() {
        assert_eq!(ours_after([0; 50].into_iter(), 3), CAPACITY);
        let steady = ours_after([600_000; 50].into_iter(), 1).as_bps();
        assert!((5_300_000..5_400_000).contains(&steady), "{steady}");
    }

    #[test]
    fn others_that_grow_have_room_until_they_have_a_flow_s_share() {
        let growing = ours_after((0..20).map(|k| 100_000 + 30_000 * k), 1).as_bps();
        assert!(growing < 6_000_000 - 2 * 600_000, "{growing}");
        for (others, flows, share) in [(3_000_000, 1, 0.5), (1_500_000, 3, 0.75), (3_000_000, 0, 0.5)] {
            let ours = ours_after([others; 30].into_iter(), flows).as_bps() as f64;
            assert!((ours / 6e6 - share).abs() < 0.001, "{flows}: {ours}");
        }
    }

    #[test]
    fn others_that_send_more_than_their_share_are_met_half_way() {
        for (others, share) in [(3_300_000, 0.55), (4_500_000, 0.575), (9_000_000, 0.575)] {
            let ours = ours_after([others; 30].into_iter(), 1).as_bps() as f64;
            assert!((ours / 6e6 - share).abs() < 0.001, "{others}: {ours}");
        }
    }
}
