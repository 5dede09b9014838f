//! What follows the first loss: the window goes from where that loss left it to its mean in the long run.
//!
//! With a growth that does not depend on the window's history and losses that come with each segment alike, the square of
//! the window relaxes exponentially in the segments sent: `W^2(n) = a + (W0^2 - a) exp(-k n)`, `a` the square of the mean
//! window and `k = p (1 - beta^2)`. A transfer that is not much longer than `1 / p` segments never sees the mean that
//! models of long transfers speak of.

/// A window that relaxes, in segments, and what it may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relaxing {
    /// Where it begins: `W0`.
    pub from: f64,
    /// Its mean in the long run.
    pub to: f64,
    /// The window that fills the line or the receiver's buffer: more is of no use.
    pub full: f64,
    /// By how much the distance shrinks with a segment: `k`.
    pub rate: f64,
    /// The round-trip time in seconds.
    pub rtt_s: f64,
}

impl Relaxing {
    /// The seconds that `segments` segments take: while the window is full, and while it is not.
    pub(super) fn time_s(&self, segments: f64) -> (f64, f64) {
        let within = self.until_full().clamp(0.0, segments);
        let full_s = |segments: f64| segments * self.rtt_s / self.full;
        match (self.from >= self.full, self.to >= self.full) {
            (true, true) => (full_s(segments), 0.0),
            (true, false) => {
                let falling = Self { from: self.full, ..*self };
                (full_s(within), falling.below_s(segments - within))
            }
            (false, true) => (full_s(segments - within), self.below_s(within)),
            (false, false) => (0.0, self.below_s(segments)),
        }
    }

    /// Segments until the window passes `full`, if it does.
    fn until_full(&self) -> f64 {
        let a = self.to * self.to;
        ((self.from * self.from - a) / (self.full * self.full - a)).ln() / self.rate
    }

    /// The integral of `rtt / W(n)` over `segments`.
    fn below_s(&self, segments: f64) -> f64 {
        let a = self.to * self.to;
        let last = (a + (self.from * self.from - a) * (-self.rate * segments).exp()).sqrt();
        let turned = self.rate * segments + 2.0 * ((last + self.to) / (self.from + self.to)).ln();
        self.rtt_s * turned / (self.rate * self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENO: Relaxing = Relaxing { from: 300.0, to: 38.0, full: 275.0, rate: 7.5e-4, rtt_s: 0.55 };

    /// Segment by segment.
    fn summed(relaxing: Relaxing, segments: usize) -> f64 {
        let a = relaxing.to * relaxing.to;
        let window = |n: f64| (a + (relaxing.from * relaxing.from - a) * (-relaxing.rate * n).exp()).sqrt();
        (0..segments).map(|n| relaxing.rtt_s / window(n as f64 + 0.5).min(relaxing.full)).sum()
    }

    #[test]
    fn the_integral_is_the_sum() {
        for relaxing in [
            RENO,
            Relaxing { from: 20.0, ..RENO },
            Relaxing { from: 200.0, ..RENO },
            Relaxing { from: 20.0, to: 400.0, ..RENO },
            Relaxing { to: 400.0, ..RENO },
            Relaxing { from: 38.0, ..RENO },
        ] {
            for segments in [1, 100, 3_000, 40_000] {
                let (full, below) = relaxing.time_s(segments as f64);
                let expected = summed(relaxing, segments);
                assert!(((full + below) / expected - 1.0).abs() < 5e-3, "{relaxing:?} {segments}: {full} {below}");
            }
        }
    }

    #[test]
    fn only_a_long_transfer_comes_to_the_mean() {
        let per_segment = |segments: f64| (RENO.time_s(segments).0 + RENO.time_s(segments).1) / segments;
        assert!((per_segment(10.0) / (RENO.rtt_s / RENO.full) - 1.0).abs() < 1e-9);
        assert!((per_segment(1e7) / (RENO.rtt_s / RENO.to) - 1.0).abs() < 1e-2);
    }
}
