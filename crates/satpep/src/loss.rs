//! The measured loss process, of Gilbert-Elliott kind: how often packets are lost, how many in a row, for how long.
//!
//! Two states, of which one loses every packet (Gilbert, Bell System Technical Journal 39, 1960): bursts begin with a
//! probability `q` after a packet that arrived and end with `r` after one that was lost. Both are measured on the outcomes
//! of consecutive packets. The number lost of a block then follows a compound distribution: negative binomially many
//! bursts, since their rate is known only as far as it was measured, each of a geometric length.

use units::{Duration, Instant};

/// What is known of the way's losses.
#[derive(Debug, Clone)]
pub(crate) struct LossProcess {
    /// Packets after one that arrived, and bursts that began with them.
    after_arrival: f64,
    begun: f64,
    /// Packets lost, and bursts that ended.
    lost: f64,
    ended: f64,
    /// Seconds between packets lost one after the other.
    lost_seconds: f64,
    /// The newest packet: when it was sent and whether it arrived.
    newest: Option<(Instant, bool)>,
}

impl LossProcess {
    /// Packets that the estimate remembers, at most.
    const MEMORY: f64 = 8192.0;
    /// Two packets lost one after the other further apart than this tell nothing of what was between them.
    const LONGEST_STEP: Duration = Duration::from_millis(100);

    /// A first guess worth two hundred packets: one in a hundred is lost, in bursts of 1.25.
    pub(crate) fn new() -> Self {
        Self { after_arrival: 200.0, begun: 1.6, lost: 2.0, ended: 1.6, lost_seconds: 0.0, newest: None }
    }

    /// Takes in the outcome of the next packet, in the order in which they were sent.
    pub(crate) fn observe(&mut self, sent: Instant, arrived: bool) {
        let (before, after_arrival) = self.newest.replace((sent, arrived)).unwrap_or((sent, true));
        self.lost += f64::from(u8::from(!arrived));
        match (after_arrival, arrived) {
            (true, _) => {
                self.after_arrival += 1.0;
                self.begun += f64::from(u8::from(!arrived));
            }
            (false, true) => self.ended += 1.0,
            (false, false) => self.lost_seconds += sent.since(before).min(Self::LONGEST_STEP).as_secs_f64(),
        }
        if self.after_arrival + self.lost > Self::MEMORY {
            let counts = [&mut self.after_arrival, &mut self.begun, &mut self.lost, &mut self.ended];
            counts.into_iter().chain([&mut self.lost_seconds]).for_each(|count| *count /= 2.0);
        }
    }

    /// Whether more than a first guess is known.
    pub(crate) fn is_measured(&self) -> bool {
        self.after_arrival + self.lost >= 1000.0
    }

    /// How many packets are lost in a row in the mean.
    pub(crate) fn mean_burst(&self) -> f64 {
        (self.lost / self.ended.max(0.5)).max(1.0)
    }

    /// The probability that a packet is lost.
    pub(crate) fn probability(&self) -> f64 {
        let begins = self.begun / self.after_arrival;
        begins / (begins + 1.0 / self.mean_burst())
    }

    /// From the first to the last packet of a burst, in the mean.
    pub(crate) fn mean_burst_time(&self) -> Duration {
        Duration::from_secs_f64(self.lost_seconds / self.ended.max(0.5))
    }

    /// The least number of repair symbols, at least one and not above `most`, with which a block of `count` packets
    /// fails with a probability below `may_fail`; `most` if none is enough.
    pub(crate) fn repair_symbols_for(&self, count: usize, may_fail: f64, most: usize) -> usize {
        let sufficient =
            (1..most).find(|repair_symbols| self.more_lost_than(*repair_symbols, count + repair_symbols) < may_fail);
        sufficient.unwrap_or(most.max(1))
    }

    /// The probability that more than `limit` of `count` packets are lost. That so few bursts were seen is taken for what
    /// it is worth: the number of bursts to come is negative binomial, and that of losses follows by Panjer's recursion
    /// (ASTIN Bulletin 12, 1981), here in a form whose cost does not grow with the bursts' length.
    fn more_lost_than(&self, limit: usize, count: usize) -> f64 {
        let end = 1.0 / self.mean_burst();
        let stay = 1.0 - end;
        let chances = count as f64 * (1.0 - self.probability());
        let next = chances / (chances + self.after_arrival);
        let mut exactly = (1.0 - next).powf(self.begun);
        let (mut within, mut sum, mut weighted) = (exactly, 0.0, 0.0);
        for lost in 1..=limit {
            sum = exactly + stay * sum;
            weighted = sum + stay * weighted;
            exactly = end * next * (sum + (self.begun - 1.0) * weighted / lost as f64);
            within += exactly;
        }
        (1.0 - within).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::CounterRandom;

    /// The outcomes of `count` packets a millisecond apart on a Gilbert channel.
    fn gilbert(begins: f64, ends: f64, count: u64, seed: u64) -> impl Iterator<Item = (Instant, bool)> {
        let random = CounterRandom::new(seed, 0);
        let mut is_bad = false;
        (0..count).map(move |number| {
            is_bad ^= random.unit_at(number) < if is_bad { ends } else { begins };
            (Instant::from_nanos(number * 1_000_000), !is_bad)
        })
    }

    fn measured(begins: f64, ends: f64, seed: u64) -> LossProcess {
        let mut process = LossProcess::new();
        gilbert(begins, ends, 40_000, seed).for_each(|(sent, arrived)| process.observe(sent, arrived));
        process
    }

    #[test]
    fn on_a_cold_start_a_hundredth_is_expected_to_be_lost_almost_one_by_one() {
        let process = LossProcess::new();
        assert!((process.probability() - 0.01).abs() < 0.0002 && (process.mean_burst() - 1.25).abs() < 1e-9);
        let symbols = [7, 70, 275].map(|count| process.repair_symbols_for(count, 0.005, 100));
        assert_eq!(symbols, [2, 6, 15]);
    }

    #[test]
    fn a_clean_way_needs_one_symbol_and_a_lossy_one_what_poisson_says() {
        let symbols = |begins, count| measured(begins, 1.0 - begins, 1).repair_symbols_for(count, 0.005, 100);
        assert_eq!(symbols(0.0, 275), 1);
        // Poisson of mean 5.8 (P = 0.02): 13 suffice.
        assert!((11..=16).contains(&symbols(0.02, 275)), "{}", symbols(0.02, 275));
    }

    #[test]
    fn bursts_are_measured_in_packets_and_in_time() {
        let process = measured(1.0 / 637.0, 1.0 / 17.0, 3);
        assert!((10.0..25.0).contains(&process.mean_burst()), "{}", process.mean_burst());
        let time = process.mean_burst_time().as_millis_f64();
        assert!((9.0..24.0).contains(&time), "{time}");
        assert!(measured(0.01, 0.99, 3).mean_burst_time() < Duration::from_micros(100));
    }

    #[test]
    fn blocks_fail_as_seldom_on_a_gilbert_channel_as_they_may() {
        for (begins, ends, count) in [(0.01, 0.99, 100), (0.01, 0.3, 200), (0.003, 0.1, 500), (0.001, 0.5, 60)] {
            let process = measured(begins, ends, 5);
            let repair_symbols = process.repair_symbols_for(count, 0.02, 1000);
            let blocks = 4000;
            let mut outcomes =
                gilbert(begins, ends, blocks * (count + repair_symbols) as u64, 6).map(|(_, arrived)| arrived);
            let failed = (0..blocks)
                .filter(|_| {
                    outcomes.by_ref().take(count + repair_symbols).filter(|arrived| !arrived).count() > repair_symbols
                })
                .count();
            let share = failed as f64 / blocks as f64;
            assert!(share < 0.05, "{begins} {ends}: {share} of blocks fail with {repair_symbols} symbols");
        }
    }

    proptest! {
        #[test]
        fn more_loss_longer_bursts_and_larger_blocks_never_need_less(
            begins in 0.0f64..0.05, ends in 0.05f64..1.0, count in 1usize..600
        ) {
            let process = |begins: f64, ends: f64| LossProcess {
                after_arrival: 1000.0, begun: begins * 1000.0, lost: 1.0, ended: ends, ..LossProcess::new()
            };
            let needed = |process: &LossProcess, count| process.repair_symbols_for(count, 0.005, 400);
            let base = needed(&process(begins, ends), count);
            prop_assert!((1..=400).contains(&base));
            prop_assert!(needed(&process(begins * 1.5, ends), count) >= base);
            prop_assert!(needed(&process(begins, ends.max(0.5) * 0.8), count) + 1 >= needed(&process(begins, ends.max(0.5)), count));
            prop_assert!(needed(&process(begins, ends), count + 50) >= base);
        }

        #[test]
        fn probabilities_are_probabilities_whatever_happened(outcomes in proptest::collection::vec(any::<bool>(), 0..3000)) {
            let mut process = LossProcess::new();
            for (number, arrived) in outcomes.into_iter().enumerate() {
                process.observe(Instant::from_nanos(number as u64 * 1000), arrived);
                prop_assert!((0.0..=1.0).contains(&process.probability()) && process.mean_burst() >= 1.0);
            }
            for limit in [0, 1, 10, 200] {
                prop_assert!((0.0..=1.0).contains(&process.more_lost_than(limit, 300)));
            }
        }
    }
}
