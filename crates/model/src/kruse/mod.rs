//! Windows over a satellite: send a window, wait for its first acknowledgement (Kruse, "Performance of Common Data
//! Communications Protocols over Long Delay Links", equations 3.1 to 3.9). Errorless links, no queue.

mod slow_start;

pub use slow_start::{End, Reading, SlowStart, Start};

use crate::estimate::{Estimate, Invalid, rate_of, require_rate, require_rtt};
use units::{Bytes, Duration, Rate};

/// A channel and what crosses it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Rate: `c`.
    pub rate: Rate,
    /// Propagation one way: `t_p`.
    pub one_way: Duration,
    /// Data in a segment: `l_d`.
    pub payload: Bytes,
    /// A segment's frame, all headers included: `l = l_d + l_ov` (3.1).
    pub frame: Bytes,
    /// An acknowledgement's frame: `l_s`.
    pub ack: Bytes,
    /// Segments that the receiver skips before it acknowledges, on average: `r`.
    pub skipped: f64,
    /// How a window is counted in segments.
    pub counting: Counting,
}

/// `M = W / l_d` (3.3), which the paper leaves fractional: only then does its table 1 come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Fractions of a segment count.
    #[default]
    Fractional,
    /// Whole segments that fit.
    Floor,
    /// Whole segments that are begun.
    Ceil,
}

/// One window after another.
#[derive(Debug, Clone, PartialEq)]
pub struct Steady {
    /// Payload that arrives. Without a wait the model does not apply: the channel's rate less headers, doubted.
    pub throughput: Estimate<Rate>,
    /// Segments in a window: `M` (3.3).
    pub segments: f64,
    /// What the sender waits after each window, in seconds: `t_w` (3.5). Negative where it need not wait.
    pub wait_s: f64,
}

impl Channel {
    /// The paper's: segments of 512 bytes in frames of 558, acknowledgements of 46, 280 ms one way, every second segment
    /// acknowledged.
    pub fn acts(rate: Rate) -> Self {
        Self {
            rate,
            one_way: Duration::from_millis(280),
            payload: Bytes::new(512),
            frame: Bytes::new(558),
            ack: Bytes::new(46),
            skipped: 1.0,
            counting: Counting::Fractional,
        }
    }

    /// What a window of `window` bytes comes to in the long run: `8 l_d / t_v` with `t_v = t_i + t_w / M` (3.6).
    ///
    /// # Errors
    /// If the rate or the delay is zero, the window is below a segment, or the sizes make no frame.
    pub fn steady(&self, window: Bytes) -> Result<Steady, Invalid> {
        self.check(window)?;
        let segments = self.segments(window);
        let wait_s = self.gap(segments);
        let per_segment = self.segment_s() + wait_s.max(0.0) / segments;
        let throughput = Estimate::unless(rate_of(self.payload.bits() as f64 / per_segment), wait_s <= 0.0, || {
            format!("a window of {window} leaves nothing to wait for: the channel's rate is what limits")
        });
        Ok(Steady { throughput, segments, wait_s })
    }

    /// From a window's first bit to the next window's, in seconds, where the sender waits: `M t_i + t_w` of (3.4) and (3.5), in which
    /// the window cancels out.
    pub(crate) fn cycle_s(&self) -> f64 {
        self.ack_s() + (1.0 + self.skipped) * self.segment_s()
    }

    fn check(&self, window: Bytes) -> Result<(), Invalid> {
        require_rate(self.rate)?;
        require_rtt(self.one_way)?;
        Invalid::unless(self.payload > Bytes::ZERO, "payload", self.payload, "above 0B")?;
        Invalid::unless(self.frame >= self.payload, "frame", self.frame, "the payload or more")?;
        Invalid::unless(self.skipped >= 0.0, "skipped", self.skipped, "0 or more")?;
        Invalid::unless(window >= self.payload, "window", window, "one segment's payload or more")
    }

    /// `M` (3.3).
    fn segments(&self, window: Bytes) -> f64 {
        let segments = window.as_u64() as f64 / self.payload.as_u64() as f64;
        match self.counting {
            Counting::Fractional => segments,
            Counting::Floor => segments.floor(),
            Counting::Ceil => segments.ceil(),
        }
    }

    /// `t_ack` (3.2), in seconds.
    fn ack_s(&self) -> f64 {
        2.0 * self.one_way.as_secs_f64() + self.ack.bits() as f64 / self.rate.as_bps() as f64
    }

    /// `t_i` (3.4), in seconds.
    fn segment_s(&self) -> f64 {
        self.frame.bits() as f64 / self.rate.as_bps() as f64
    }

    /// The wait after `segments` segments, in seconds (3.5); negative where there is none.
    fn gap(&self, segments: f64) -> f64 {
        self.ack_s() + self.skipped * self.segment_s() - (segments - 1.0) * self.segment_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T1: u64 = 1_536_000;

    fn steady(bps: u64, window: u64) -> Steady {
        Channel::acts(Rate::from_bps(bps)).steady(Bytes::new(window)).unwrap()
    }

    #[test]
    fn table_1() {
        // The last value is printed as 1343.0.
        for (window, bps, half) in [
            (5_000, 70_665, Some(69_917)),
            (25_000, 353_324, Some(349_587)),
            (65_000, 918_643, None),
            (95_000, 1_342_633, None),
        ] {
            let full = steady(T1, window).throughput;
            assert!(full.value.as_bps().abs_diff(bps) <= 1 && full.is_valid(), "{window}: {full:?}");
            let found = steady(T1 / 2, window);
            assert_eq!(found.throughput.is_valid(), half.is_some());
            if let Some(half) = half {
                assert!(found.throughput.value.as_bps().abs_diff(half) <= 1, "{window}: {found:?}");
            }
        }
        assert!((steady(T1 / 2, 65_000).wait_s + 0.166).abs() < 1e-3);
        assert!((steady(T1 / 2, 95_000).wait_s + 0.506).abs() < 1e-3);
        assert_eq!(steady(T1, 24_576).throughput.value.as_bps() / 100, 3473);
    }

    #[test]
    fn other_countings_and_other_receivers_do_not_make_table_1() {
        let of = |counting, skipped| {
            let channel = Channel { counting, skipped, ..Channel::acts(Rate::from_bps(T1)) };
            let kbps = |window| channel.steady(Bytes::new(window)).unwrap().throughput.value.as_bps() as f64 / 1e3;
            [kbps(5_000), kbps(25_000), kbps(65_000), kbps(95_000)].map(|kbps| (kbps * 10.0).round() / 10.0)
        };
        assert_eq!(of(Counting::Floor, 1.0), [65.1, 347.3, 911.7, 1338.7]);
        assert_eq!(of(Counting::Ceil, 1.0), [72.4, 354.6, 919.0, 1345.9]);
        assert_eq!(of(Counting::Fractional, 0.0)[..3], [71.0, 355.1, 923.4]);
        assert_eq!(of(Counting::Fractional, 2.0)[0], 70.3);
    }

    /// The window from which on nothing is waited for, in bytes: where `t_w = 0`.
    fn window_without_wait(channel: &Channel) -> f64 {
        channel.cycle_s() / channel.segment_s() * channel.payload.as_u64() as f64
    }

    #[test]
    fn without_a_wait_it_is_the_line_rate() {
        for (bps, crossover) in [(T1, 99_723.0), (T1 / 2, 50_394.0), (T1 / 4, 25_730.0)] {
            let found = window_without_wait(&Channel::acts(Rate::from_bps(bps)));
            assert!((found - crossover).abs() < 1.0, "{found}");
        }
        let fast = steady(T1, 200_000).throughput;
        assert!(fast.value.as_bps().abs_diff(1_409_376) <= 1 && !fast.is_valid(), "{fast:?}");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let channel = Channel::acts(Rate::from_bps(T1));
        assert_eq!(channel.steady(Bytes::new(511)).unwrap_err().parameter, "window");
        assert_eq!(Channel::acts(Rate::ZERO).steady(Bytes::new(5000)).unwrap_err().parameter, "rate");
        let shrunk = Channel { frame: Bytes::new(500), ..channel };
        assert_eq!(shrunk.steady(Bytes::new(5000)).unwrap_err().parameter, "frame");
    }

    proptest! {
        #[test]
        fn more_window_or_rate_never_harms(window in 512u64..400_000, more in 1u64..50_000, kbps in 16u64..5_000) {
            let channel = Channel::acts(Rate::from_bps(kbps * 1000));
            let of = |channel: Channel, window| channel.steady(Bytes::new(window)).unwrap().throughput.value;
            prop_assert!(of(channel, window + more) >= of(channel, window));
            let faster = Channel { rate: Rate::from_bps(kbps * 1000 + more), ..channel };
            prop_assert!(of(faster, window) >= of(channel, window));
        }
    }
}
