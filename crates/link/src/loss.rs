//! The random processes that decide which packets are lost.

use crate::LossModel;
use crate::config::GilbertElliott;
use crate::steps::Timeline;
use units::{Bytes, CounterRandom, Duration, Probability};

/// A loss model with its draws and its state.
#[derive(Debug)]
pub(crate) enum LossProcess {
    None,
    Bernoulli { lost: Threshold, draws: CounterRandom },
    BitErrors { bit_error_rate: f64, draws: CounterRandom, size: Bytes, lost: Threshold },
    GilbertElliott { states: States, losses: [Threshold; 2], draws: CounterRandom },
    List { packets: Vec<u64>, next: usize },
    Steps { probability: Timeline, draws: CounterRandom },
}

impl LossProcess {
    /// `draws` decide on packets, `state_draws` on the states between which a process changes.
    pub(crate) fn new(model: &LossModel, draws: CounterRandom, state_draws: CounterRandom) -> Self {
        match model {
            LossModel::None | LossModel::DropFile(_) => LossProcess::None,
            LossModel::Bernoulli(probability) => LossProcess::Bernoulli { lost: (*probability).into(), draws },
            LossModel::BitErrorRate(rate) => LossProcess::BitErrors {
                bit_error_rate: rate.as_f64(),
                draws,
                size: Bytes::ZERO,
                lost: Probability::ZERO.into(),
            },
            LossModel::GilbertElliott(GilbertElliott { p, r, loss_good, loss_bad }) => LossProcess::GilbertElliott {
                states: States::ByPacket { is_bad: false, leaves: [(*p).into(), (*r).into()], draws: state_draws },
                losses: [(*loss_good).into(), (*loss_bad).into()],
                draws,
            },
            LossModel::TimedGilbertElliott(model) => LossProcess::GilbertElliott {
                states: States::ByTime {
                    means: [model.mean_good, model.mean_bad].map(Duration::as_secs_f64),
                    epoch: 0,
                    sojourns: 0,
                    until: Duration::ZERO,
                    draws: state_draws,
                },
                losses: [model.loss_good.into(), model.loss_bad.into()],
                draws,
            },
            LossModel::DropList(packets) => {
                let mut packets = packets.clone();
                packets.sort_unstable();
                LossProcess::List { packets, next: 0 }
            }
            LossModel::Steps(steps) => {
                let probability = steps.timeline(Probability::ZERO, |probability| Threshold::from(probability).0);
                LossProcess::Steps { probability, draws }
            }
        }
    }

    /// Whether the `k`-th packet sent, of `size`, is lost; its last bit is sent `elapsed` after the link's start. To be
    /// asked for each packet in turn.
    #[inline]
    pub(crate) fn loses(&mut self, k: u64, size: Bytes, elapsed: Duration) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Bernoulli { lost, draws } => lost.exceeds(draws, k),
            LossProcess::BitErrors { bit_error_rate, draws, size: latest, lost } => {
                if *latest != size {
                    (*latest, *lost) = (size, Threshold::of(packet_error_rate(*bit_error_rate, size)));
                }
                lost.exceeds(draws, k)
            }
            LossProcess::GilbertElliott { states, losses, draws } => {
                losses[usize::from(states.is_bad(k, elapsed))].exceeds(draws, k)
            }
            LossProcess::List { packets, next } => {
                while packets.get(*next).is_some_and(|listed| *listed < k) {
                    *next += 1;
                }
                packets.get(*next) == Some(&k)
            }
            LossProcess::Steps { probability, draws } => {
                Threshold(probability.at(elapsed.as_nanos()).value).exceeds(draws, k)
            }
        }
    }
}

/// A probability as a number of 53-bit draws: exactly those draws u with u < p are below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold(u64);

impl Threshold {
    fn of(probability: f64) -> Self {
        Self((probability * (1u64 << 53) as f64).ceil() as u64)
    }

    /// Whether draw `k` falls below it.
    #[inline]
    pub(crate) fn exceeds(self, draws: &CounterRandom, k: u64) -> bool {
        self.0 > 0 && draws.at(k) >> 11 < self.0
    }

    /// Whether nothing falls below it.
    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Probability> for Threshold {
    fn from(probability: Probability) -> Self {
        Self::of(probability.as_f64())
    }
}

/// 1-(1-BER)^(8L), in a form that keeps its precision for the smallest rates.
fn packet_error_rate(bit_error_rate: f64, size: Bytes) -> f64 {
    -(size.bits() as f64 * (-bit_error_rate).ln_1p()).exp_m1()
}

/// The two states of a Gilbert-Elliott channel: good at first.
#[derive(Debug)]
pub(crate) enum States {
    /// Each packet may change the state: draw k is that of packet k.
    ByPacket { is_bad: bool, leaves: [Threshold; 2], draws: CounterRandom },
    /// Sojourns last exponentially distributed times: draw n gives the n-th of an epoch, even ones are good.
    ByTime { means: [f64; 2], epoch: u64, sojourns: u64, until: Duration, draws: CounterRandom },
}

impl States {
    fn is_bad(&mut self, k: u64, elapsed: Duration) -> bool {
        match self {
            States::ByPacket { is_bad, leaves, draws } => {
                *is_bad ^= leaves[usize::from(*is_bad)].exceeds(draws, k);
                *is_bad
            }
            States::ByTime { means, epoch, sojourns, until, draws } => {
                begin_epoch(means, epoch, sojourns, until, draws, elapsed);
                while *until <= elapsed {
                    let mean = means[(*sojourns % 2) as usize];
                    // At least a nanosecond, so that time always gets on.
                    let sojourn = Duration::from_secs_f64(-mean * (-draws.unit_at(*sojourns)).ln_1p());
                    *until += sojourn.max(Duration::from_nanos(1));
                    *sojourns += 1;
                }
                *sojourns % 2 == 0
            }
        }
    }
}

/// Mean cycles of an epoch. Each begins in a state that is drawn from the stationary distribution, whatever the one before was: so the state
/// depends on time alone, and after hours without a packet no more than an epoch is drawn, which would hold up a real-time thread.
const EPOCH_CYCLES: f64 = 65_536.0;
/// Draws that each epoch has to itself.
const EPOCH_DRAWS: u32 = 40;

/// Has the epoch of `elapsed` begin, if another one went on. The first begins in the good state. Sojourns have no memory: what is left of
/// one is distributed as a whole one.
fn begin_epoch(
    means: &[f64; 2],
    epoch: &mut u64,
    sojourns: &mut u64,
    until: &mut Duration,
    draws: &CounterRandom,
    elapsed: Duration,
) {
    let [good, bad] = means.map(|mean| mean.max(1e-9));
    let length = Duration::from_secs_f64(EPOCH_CYCLES * (good + bad));
    let now = elapsed.as_nanos() / length.as_nanos();
    if now == *epoch {
        return;
    }
    *epoch = now;
    let first = now << EPOCH_DRAWS;
    let is_bad = draws.unit_at(first) < bad / (good + bad);
    *sojourns = first + 2 + u64::from(is_bad);
    *until = length * now;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Steps;
    use crate::config::TimedGilbertElliott;

    const PACKETS: u64 = 1_000_000;

    #[test]
    fn packet_error_rates_follow_from_bit_error_rates() {
        for (bit_error_rate, size, expected, tolerance) in [
            (1e-6, 1500, 0.011_928_29, 5e-9),
            (1e-6, 576, 0.004_597, 5e-7),
            (1e-6, 40, 0.000_320, 5e-7),
            (1e-7, 1500, 0.001_199_28, 5e-9),
            (1e-5, 1500, 0.113_08, 5e-6),
            (0.0, 1500, 0.0, 0.0),
            (1.0, 1500, 1.0, 0.0),
        ] {
            let rate = packet_error_rate(bit_error_rate, Bytes::new(size));
            assert!((rate - expected).abs() <= tolerance, "{bit_error_rate} {size}: {rate}");
        }
    }

    fn probability(p: f64) -> Probability {
        Probability::new(p).expect("valid")
    }

    fn process(model: &LossModel, seed: u64) -> LossProcess {
        LossProcess::new(model, CounterRandom::new(seed, 0), CounterRandom::new(seed, 3))
    }

    /// The packets of 1500 bytes, one each millisecond, that are lost.
    fn lost(model: &LossModel, seed: u64) -> Vec<u64> {
        let mut process = process(model, seed);
        (0..PACKETS).filter(|&k| process.loses(k, Bytes::new(1500), Duration::from_millis(k))).collect()
    }

    #[test]
    fn the_fraction_lost_is_the_probability_within_four_sigma() {
        for (model, p) in [
            (LossModel::None, 0.0),
            (LossModel::Bernoulli(probability(0.01)), 0.01),
            (LossModel::BitErrorRate(probability(1e-6)), 0.011_928_29),
            (LossModel::Bernoulli(probability(1.0)), 1.0),
        ] {
            let sigma = (p * (1.0 - p) / PACKETS as f64).sqrt();
            let lost = lost(&model, 11).len() as f64 / PACKETS as f64;
            assert!((lost - p).abs() <= 4.0 * sigma, "{model:?}: {lost}");
        }
    }

    fn gilbert_elliott(p: f64, r: f64, loss_good: f64, loss_bad: f64) -> LossModel {
        let [p, r, loss_good, loss_bad] = [p, r, loss_good, loss_bad].map(probability);
        LossModel::GilbertElliott(GilbertElliott { p, r, loss_good, loss_bad })
    }

    #[test]
    fn gilbert_elliott_loses_its_mean_within_three_sigma() {
        let (p, r, bad, n) = (0.01f64, 0.2, 0.3, PACKETS as f64);
        let mean = 0.014_286_67;
        let lost = lost(&gilbert_elliott(p, r, 1e-6, bad), 5).len() as f64 / n;
        // Losses of a burst are correlated: lag by lag the correlation of the states falls by 1-p-r.
        let in_bad = p / (p + r);
        let memory = (1.0 - p - r) / (p + r);
        let variance = mean * (1.0 - mean) + 2.0 * bad * bad * in_bad * (1.0 - in_bad) * memory;
        assert!((lost - mean).abs() <= 3.0 * (variance / n).sqrt(), "{lost}");
    }

    #[test]
    fn bursts_of_gilbert_elliott_last_one_over_r() {
        let lost = lost(&gilbert_elliott(0.01, 0.2, 0.0, 1.0), 6);
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let mean = lost.len() as f64 / bursts as f64;
        // Bursts are geometric with mean 5 and standard deviation sqrt(20).
        assert!((mean - 5.0).abs() <= 3.0 * (20.0 / bursts as f64).sqrt(), "{mean}");
    }

    #[test]
    fn states_that_lose_alike_are_no_states() {
        let bernoulli = LossModel::Bernoulli(probability(0.02));
        assert_eq!(lost(&gilbert_elliott(0.3, 0.1, 0.02, 0.02), 9), lost(&bernoulli, 9));
    }

    fn timed(mean_good: u64, mean_bad: u64) -> LossModel {
        LossModel::TimedGilbertElliott(TimedGilbertElliott {
            mean_good: Duration::from_millis(mean_good),
            mean_bad: Duration::from_millis(mean_bad),
            loss_good: Probability::ZERO,
            loss_bad: probability(1.0),
        })
    }

    #[test]
    fn sojourns_by_time_have_their_means() {
        let lost = lost(&timed(900, 100), 12);
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        // 1000 s hold about 1000 bad sojourns of 100 ms; with as many good ones the share varies by 3 % each way.
        let share = lost.len() as f64 / PACKETS as f64;
        assert!((share - 0.1).abs() < 0.015, "{share}");
        assert!((850..1_150).contains(&bursts), "{bursts}");
    }

    #[test]
    fn the_state_by_time_does_not_depend_on_the_packets() {
        let mut dense = process(&timed(50, 20), 3);
        let mut sparse = process(&timed(50, 20), 3);
        let mut number = 0;
        for millis in 0..100_000 {
            let at = Duration::from_millis(millis);
            let is_lost = dense.loses(millis, Bytes::new(1500), at);
            if millis % 37 == 0 {
                assert_eq!(sparse.loses(number, Bytes::new(40), at), is_lost, "{millis} ms");
                number += 1;
            }
        }
    }

    /// Sojourns of microseconds in gaps of an hour: there are 10^13 of them.
    #[test]
    fn a_long_idle_time_takes_no_time_and_leaves_the_stationary_share() {
        let model = LossModel::TimedGilbertElliott(TimedGilbertElliott {
            mean_good: Duration::from_micros(3),
            mean_bad: Duration::from_micros(1),
            loss_good: Probability::ZERO,
            loss_bad: probability(1.0),
        });
        let mut process = process(&model, 4);
        let lost = (0..1_000).filter(|k| process.loses(*k, Bytes::new(40), Duration::from_secs(3600 * k))).count();
        // The share of 1,000 independent draws has a standard deviation of 0.014.
        assert!((lost as f64 / 1_000.0 - 0.25).abs() < 0.042, "{lost}");
    }

    /// Sojourns of milliseconds, of which there are 65,536 in eight minutes.
    #[test]
    fn a_long_idle_time_does_not_change_the_states_that_follow() {
        let mut dense = process(&timed(5, 2), 3);
        let mut sparse = process(&timed(5, 2), 3);
        let mut number = 0;
        for centis in 0..100_000 {
            let at = Duration::from_millis(10 * centis);
            let is_lost = dense.loses(centis, Bytes::new(1500), at);
            if at > Duration::from_secs(700) {
                assert_eq!(sparse.loses(number, Bytes::new(40), at), is_lost, "{at}");
                number += 1;
            }
        }
    }

    #[test]
    fn a_drop_list_loses_what_it_names_in_any_order() {
        assert_eq!(lost(&LossModel::DropList(vec![7, 0, 3, 7, PACKETS + 1]), 1), [0, 3, 7]);
    }

    #[test]
    fn loss_steps_lose_while_they_hold() {
        let steps = Steps::parse("1s 1.0\n1.5s 0").expect("valid");
        assert_eq!(lost(&LossModel::Steps(steps), 1), (1_000..1_500).collect::<Vec<_>>());
    }
}
