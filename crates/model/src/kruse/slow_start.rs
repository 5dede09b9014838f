//! Kruse's slow start: windows of 1, 2, 4 ... segments (3.7), the waits between them (3.8) and what they come to (3.9).
//!
//! The paper's sums disagree: (3.8) counts cycles from 0 to n, (3.9) from 1 to n, where n is the number of cycles needed;
//! and waits of long windows come out negative. [`Reading`] names the ways to take them.

use super::Channel;
use crate::estimate::{Estimate, Invalid, rate_of};
use units::{Bytes, Duration, Rate};

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// The first window in segments: `M_0`, 1 in the paper.
    pub initial: f64,
    /// By what the window grows in a cycle: 2 in the paper, 1.5 where every second segment is acknowledged and
    /// acknowledgements are counted.
    pub growth: f64,
    /// Whether a handshake of one round trip comes first; not in the paper.
    pub handshake: bool,
}

impl Start {
    /// As in (3.7).
    pub const PAPER: Start = Start { initial: 1.0, growth: 2.0, handshake: false };
}

/// How the sums of (3.8) and (3.9) are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Waits from 0 to n, windows from 1 to n, as printed; n is the number of the last cycle needed, the first being 0.
    Literal,
    /// As printed; n is how many cycles are needed, so that one more is counted than there is.
    LiteralCount,
    /// Both sums from 0 to n, the last cycle needed.
    BothFromZero,
    /// What is sent, and the waits between the cycles needed: none after the last, none negative, the last window as far
    /// as it is filled. The time ends at one of three points.
    Cycles(End),
}

/// When a transfer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The sender has sent the last bit.
    SenderDone,
    /// The receiver has the last bit.
    ReceiverDone,
    /// The sender has the last acknowledgement.
    AllAcked,
}

/// A file with slow start.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowStart {
    /// How many windows it takes.
    pub cycles: u64,
    /// The file over the time: `8 l_d / t'_v` (3.9) in the literal readings, doubted where a wait is negative there.
    pub throughput: Estimate<Rate>,
    /// The time; in the literal readings that of the file at `throughput`.
    pub time: Duration,
}

impl Channel {
    /// How long a file of `size` takes within a window of `window` bytes.
    ///
    /// # Errors
    /// As [`Channel::steady`], and if the file is empty, the first window below a segment or the growth not above 1.
    pub fn slow_start(&self, window: Bytes, size: Bytes, start: Start, reading: Reading) -> Result<SlowStart, Invalid> {
        self.check(window)?;
        Invalid::unless(size > Bytes::ZERO, "size", size, "above 0B")?;
        Invalid::unless(
            start.initial >= 1.0,
            "initial window",
            format!("{} segments", start.initial),
            "1 segment or more",
        )?;
        Invalid::unless(start.growth > 1.0 && start.growth.is_finite(), "growth", start.growth, "above 1")?;
        let needed = size.as_u64() as f64 / self.payload.as_u64() as f64;
        let sums = self.sums(self.segments(window), needed, start);
        let handshake = if start.handshake { 2.0 * self.one_way.as_secs_f64() } else { 0.0 };
        let (throughput, time_s) = match reading {
            Reading::Cycles(end) => {
                let sent = needed * self.segment_s() + sums.waits_between;
                let time_s = handshake + sent + self.after_sending(end);
                (Estimate::sound(rate_of(size.bits() as f64 / time_s)), time_s)
            }
            literal => {
                let per_segment = self.segment_s() + sums.waits(literal) / sums.windows(literal, start.initial);
                let time_s = handshake + needed * per_segment;
                let rate = rate_of(size.bits() as f64 / time_s);
                let reason =
                    || "a window leaves nothing to wait for: the printed sum of waits takes that off".to_owned();
                (Estimate::unless(rate, sums.last_gap <= 0.0, reason), time_s)
            }
        };
        Ok(SlowStart { cycles: sums.cycles, throughput, time: Duration::from_secs_f64(time_s) })
    }

    fn after_sending(&self, end: End) -> f64 {
        match end {
            End::SenderDone => 0.0,
            End::ReceiverDone => self.one_way.as_secs_f64(),
            End::AllAcked => self.ack_s(),
        }
    }

    fn sums(&self, most: f64, needed: f64, start: Start) -> Sums {
        let mut window = start.initial.min(most);
        let mut sums = Sums { cycles: 1, all: window, printed_waits: self.gap(window), ..Sums::default() };
        // A file of whole windows may miss them by rounding.
        let needed = needed * (1.0 - 1e-12);
        while sums.all < needed && window < most {
            sums.waits_between += self.gap(window).max(0.0);
            window = (window * start.growth).min(most);
            sums.add(1.0, window, self.gap(window));
        }
        if sums.all < needed {
            // All further windows are alike.
            let further = ((needed - sums.all) / window).ceil();
            sums.waits_between += further * self.gap(window).max(0.0);
            sums.add(further, window, self.gap(window));
        }
        sums.last_gap = self.gap(window);
        sums.next = (window * start.growth).min(most);
        sums.next_gap = self.gap(sums.next);
        sums
    }
}

/// Sums over the cycles needed.
#[derive(Debug, Default)]
struct Sums {
    cycles: u64,
    /// All windows, in segments.
    all: f64,
    /// All waits as printed, in seconds.
    printed_waits: f64,
    /// The waits before the last cycle, none negative.
    waits_between: f64,
    /// The wait after the longest window.
    last_gap: f64,
    /// The window after the last one needed, and the wait after it.
    next: f64,
    next_gap: f64,
}

impl Sums {
    fn add(&mut self, cycles: f64, window: f64, gap: f64) {
        self.cycles = self.cycles.saturating_add(cycles as u64);
        self.all += cycles * window;
        self.printed_waits += cycles * gap;
    }

    /// The sum of (3.8).
    fn waits(&self, reading: Reading) -> f64 {
        if reading == Reading::LiteralCount { self.printed_waits + self.next_gap } else { self.printed_waits }
    }

    /// The sum of (3.9); a file of one cycle has no other than the first.
    fn windows(&self, reading: Reading, initial: f64) -> f64 {
        match reading {
            Reading::LiteralCount => self.all - initial + self.next,
            Reading::Literal if self.cycles > 1 => self.all - initial,
            _ => self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Bytes = Bytes::new(24_576);

    fn run(bps: u64, window: Bytes, size: u64, reading: Reading) -> SlowStart {
        let channel = Channel::acts(Rate::from_bps(bps));
        channel.slow_start(window, Bytes::new(size), Start::PAPER, reading).unwrap()
    }

    #[test]
    fn check_values_of_every_reading() {
        for (size, cycles, fast, slow) in [
            (45_000, 7, [113.8, 114.7, 103.8, 96.0, 89.4], [110.5, 111.2, 94.9, 88.4, 82.7]),
            (100_000, 9, [165.7, 166.4, 172.6, 162.8, 154.0], [160.8, 161.3, 157.0, 148.8, 141.4]),
            (2_000_000, 87, [328.6, 328.6, 328.6, 326.7, 324.9], [318.4, 318.4, 318.2, 316.5, 314.7]),
        ] {
            let readings = [
                Reading::Literal,
                Reading::BothFromZero,
                Reading::Cycles(End::SenderDone),
                Reading::Cycles(End::ReceiverDone),
                Reading::Cycles(End::AllAcked),
            ];
            for (reading, (fast, slow)) in readings.into_iter().zip(fast.into_iter().zip(slow)) {
                for (bps, expected) in [(1_536_000, fast), (384_000, slow)] {
                    let found = run(bps, WINDOW, size, reading);
                    let kbps = found.throughput.value.as_bps() as f64 / 1e3;
                    assert!((kbps - expected).abs() < 0.06, "{size} {reading:?} {bps}: {kbps}, not {expected}");
                    assert_eq!(found.cycles, cycles);
                    assert!(found.throughput.is_valid());
                }
            }
        }
        for (size, bps) in [(45_000, 89_355), (100_000, 154_018), (2_000_000, 324_872)] {
            let found = run(1_536_000, WINDOW, size, Reading::Cycles(End::AllAcked)).throughput.value;
            assert!(found.as_bps().abs_diff(bps) <= 1, "{size}: {found}");
        }
    }

    #[test]
    fn larger_windows_help_only_large_files() {
        for (size, expected) in [(45_000, 89.4), (100_000, 169.5), (2_000_000, 757.1)] {
            let found = run(1_536_000, Bytes::new(65_535), size, Reading::Cycles(End::AllAcked)).throughput.value;
            assert!((found.as_bps() as f64 / 1e3 - expected).abs() < 0.06, "{size}: {found}");
        }
    }

    #[test]
    fn one_more_cycle_counted_is_slower_in_small_files_than_none() {
        let of = |size, reading| run(1_536_000, WINDOW, size, reading).throughput.value;
        assert!(of(45_000, Reading::LiteralCount) > of(45_000, Reading::Literal));
        let (count, last) = (of(20_000_000, Reading::LiteralCount), of(20_000_000, Reading::Literal));
        assert!(count.as_bps().abs_diff(last.as_bps()) < last.as_bps() / 500);
    }

    #[test]
    fn negative_waits_are_doubted_where_they_count() {
        let literal = run(384_000, Bytes::new(65_535), 2_000_000, Reading::Literal).throughput;
        assert!(literal.doubt.is_some());
        let cycles = run(384_000, Bytes::new(65_535), 2_000_000, Reading::Cycles(End::SenderDone)).throughput;
        assert!(cycles.is_valid() && cycles.value < Rate::from_bps(384_000 / 558 * 512));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let channel = Channel::acts(Rate::from_bps(1_536_000));
        let of = |size, initial, growth| {
            let start = Start { initial, growth, handshake: true };
            channel.slow_start(WINDOW, Bytes::new(size), start, Reading::Literal).map(|_| ()).unwrap_err().parameter
        };
        assert_eq!(of(0, 1.0, 2.0), "size");
        assert_eq!(of(1, 0.5, 2.0), "initial window");
        assert_eq!(of(1, 1.0, 1.0), "growth");
    }

    proptest! {
        #[test]
        fn time_grows_with_the_file_and_falls_with_windows(
            size in 1u64..5_000_000, more in 0u64..100_000, window in 512u64..200_000, wider in 0u64..100_000,
            kbps in 64u64..10_000, initial in 1.0f64..20.0,
        ) {
            let channel = Channel::acts(Rate::from_bps(kbps * 1000));
            let start = Start { initial, ..Start::PAPER };
            let time = |window, size| {
                let reading = Reading::Cycles(End::ReceiverDone);
                channel.slow_start(Bytes::new(window), Bytes::new(size), start, reading).unwrap().time
            };
            let now = time(window, size);
            prop_assert!(time(window, size + more) >= now);
            prop_assert!(time(window + wider, size) <= now + Duration::from_nanos(1));
        }

        #[test]
        fn large_files_come_to_the_steady_state(window in 1024u64..150_000, kbps in 64u64..5_000) {
            let channel = Channel::acts(Rate::from_bps(kbps * 1000));
            let steady = channel.steady(Bytes::new(window)).unwrap().throughput.value.as_bps() as f64;
            let found = run(kbps * 1000, Bytes::new(window), 1_000_000_000, Reading::Cycles(End::AllAcked));
            prop_assert!((found.throughput.value.as_bps() as f64 / steady - 1.0).abs() < 0.01);
        }
    }
}
