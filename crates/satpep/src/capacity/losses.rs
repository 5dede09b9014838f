//! Where packets were lost: the shares of a stretch's eight slices.
//!
//! A policer and a full queue lose packets in all slices; bursts, whatever they amount to, in few. So the median of the slices tells
//! the one from the other, and what it has beyond the usual is the excess.

use super::trains::median;

/// Losses since a position on the link, in buckets that grow with the stretch.
#[derive(Debug)]
pub(super) struct Losses {
    from: f64,
    /// Bytes of each bucket.
    width: f64,
    lost: [f64; Self::BUCKETS],
}

/// What was lost of a stretch, as shares.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Lossiness {
    pub(super) mean: f64,
    /// The median of eight slices.
    pub(super) median: f64,
}

impl Losses {
    const BUCKETS: usize = 64;
    const SLICES: usize = 8;
    const NARROWEST: f64 = 1500.0;

    pub(super) fn new(from: f64) -> Self {
        Self { from, width: Self::NARROWEST, lost: [0.0; Self::BUCKETS] }
    }

    /// The packet of `ip_bytes` that ends at `position` was lost.
    pub(super) fn add(&mut self, position: f64, ip_bytes: f64) {
        if position <= self.from {
            return;
        }
        while position > self.from + self.width * Self::BUCKETS as f64 {
            self.widen();
        }
        let at = ((position - self.from) / self.width).ceil() as usize;
        self.lost[at.clamp(1, Self::BUCKETS) - 1] += ip_bytes;
    }

    fn widen(&mut self) {
        self.width *= 2.0;
        for k in 0..Self::BUCKETS {
            let pair = (2 * k < Self::BUCKETS).then(|| self.lost[2 * k] + self.lost[2 * k + 1]);
            self.lost[k] = pair.unwrap_or_default();
        }
    }

    /// Bytes that were lost in all.
    pub(super) fn total(&self) -> f64 {
        self.lost.iter().sum()
    }

    /// What was lost between two positions; the second is the newest that is reported.
    pub(super) fn between(&mut self, from: f64, to: f64) -> Lossiness {
        while to > self.from + self.width * Self::BUCKETS as f64 {
            self.widen();
        }
        let bucket = |position: f64| ((position - self.from).max(0.0) / self.width) as usize;
        let (first, end) = (bucket(from), ((to - self.from).max(0.0) / self.width).ceil() as usize);
        let (first, end) = (first.min(Self::BUCKETS - 1), end.clamp(first + 1, Self::BUCKETS));
        let buckets = &self.lost[first..end];
        let bytes = (to - from.max(self.from + first as f64 * self.width)).max(1.0);
        let mut slices = [0.0; Self::SLICES];
        for (k, slice) in slices.iter_mut().enumerate() {
            let from = k * buckets.len() / Self::SLICES;
            let to = ((k + 1) * buckets.len() / Self::SLICES).max(from + 1);
            *slice = buckets[from..to].iter().sum::<f64>() / (self.width * (to - from) as f64).min(bytes);
        }
        Lossiness { mean: (buckets.iter().sum::<f64>() / bytes).min(1.0), median: median(&mut slices).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossiness(packets: u32, is_lost: impl Fn(u32) -> bool) -> Lossiness {
        let mut losses = Losses::new(9000.0);
        for k in (0..packets).filter(|k| is_lost(*k)) {
            losses.add(9000.0 + 1500.0 * f64::from(k + 1), 1500.0);
        }
        losses.between(9000.0, 9000.0 + 1500.0 * f64::from(packets))
    }

    #[test]
    fn what_is_lost_everywhere_shows_in_the_median_and_a_burst_does_not() {
        for packets in [24, 160, 275, 3000] {
            let policed = lossiness(packets, |k| k % 4 == 1);
            assert!(
                (policed.mean - 0.25).abs() < 0.01 && (policed.median - 0.25).abs() < 0.1,
                "{packets}: {policed:?}"
            );
            let burst = lossiness(packets, |k| (packets / 2..packets / 2 + packets / 10).contains(&k));
            assert!((burst.mean - 0.1).abs() < 0.02 && burst.median == 0.0, "{packets}: {burst:?}");
        }
    }

    #[test]
    fn the_second_half_can_be_looked_at_alone() {
        let mut losses = Losses::new(0.0);
        (100..200).filter(|k| k % 2 == 0).for_each(|k| losses.add(1500.0 * f64::from(k), 1500.0));
        let (first, second) = (losses.between(0.0, 150_000.0), losses.between(150_000.0, 300_000.0));
        assert!(first.mean < 0.02 && (second.mean - 0.5).abs() < 0.03 && second.median > 0.4, "{first:?} {second:?}");
    }
}
