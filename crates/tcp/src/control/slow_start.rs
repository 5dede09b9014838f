//! When slow start ends before a loss ends it: HyStart as in Linux, and HyStart++ (RFC 9406).

use super::{Ack, Window};
use crate::config::{Config, SlowStartExit};
use crate::kinds::ControlId;
use units::{Duration, Instant};

/// Samples that a round needs before its delay is judged; both algorithms take eight.
const MIN_SAMPLES: u32 = 8;

/// By how much the smallest round-trip time of a round must exceed the earlier one: an eighth, from 4 to 16 ms.
fn delay_threshold(rtt: Duration) -> Duration {
    (rtt / 8).clamp(Duration::from_millis(4), Duration::from_millis(16))
}

/// The detector of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    /// Slow start goes on until a loss.
    None,
    /// Linux's.
    HyStart(HyStart),
    /// RFC 9406.
    HyStartPlusPlus(HyStartPlusPlus),
}

impl Exit {
    /// What ends slow start by `kind` for a connection with `config`.
    pub(crate) fn new(kind: SlowStartExit, config: &Config) -> Self {
        let is_paced = config.pacing || config.control.id == ControlId::Prague;
        match kind {
            SlowStartExit::None => Self::None,
            SlowStartExit::LinuxHyStart => Self::HyStart(HyStart { is_paced, ..HyStart::default() }),
            SlowStartExit::HyStartPlusPlus => {
                Self::HyStartPlusPlus(HyStartPlusPlus { is_paced, ..HyStartPlusPlus::default() })
            }
        }
    }

    /// For each acknowledgement, before the window grows: lowers `ssthresh` to the window when slow start is to end.
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        match self {
            Self::None => {}
            Self::HyStart(hystart) => hystart.on_ack(ack, window),
            Self::HyStartPlusPlus(hystart) => hystart.on_ack(ack, window),
        }
    }

    /// What part of its growth slow start is to have: a quarter in conservative slow start.
    pub(crate) fn growth(&self) -> f64 {
        match self {
            Self::HyStartPlusPlus(HyStartPlusPlus { conservative: Some(_), .. }) => 0.25,
            _ => 1.0,
        }
    }

    /// Segments by which an acknowledgement may open the window in slow start. HyStart++ limits only what is not paced (RFC 9406, section
    /// 4.2).
    pub(crate) fn slow_start_limit(&self, config: &Config) -> f64 {
        let of_profile = config.rules().growth.slow_start_limit;
        let default = match self {
            Self::HyStartPlusPlus(hystart) if hystart.is_paced => f64::INFINITY,
            Self::HyStartPlusPlus(_) => of_profile.max(8.0),
            _ => of_profile,
        };
        config.slow_start_limit.unwrap_or(default)
    }

    /// A loss: HyStart++ is for the first slow start only.
    pub(crate) fn on_loss(&mut self) {
        if let Self::HyStartPlusPlus(hystart) = self {
            hystart.is_done = true;
            hystart.conservative = None;
        }
    }

    /// A timeout: Linux watches the slow start after it as well.
    pub(crate) fn on_timeout(&mut self) {
        self.on_loss();
        if let Self::HyStart(hystart) = self {
            *hystart = HyStart { is_paced: hystart.is_paced, ..HyStart::default() };
        }
    }
}

/// HyStart as in Linux 6.14 and later, whose rounds are counted from the start of the connection (`tcp_cubic.c`; Ha and Rhee, Computer Networks 55(9), 2011): slow start ends when a train of
/// closely spaced acknowledgements lasts half the smallest round-trip time, or all of it where data are paced, or when the delay rises.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HyStart {
    /// Data leave paced.
    is_paced: bool,
    round_start: Instant,
    /// The round ends when this offset is acknowledged.
    round_end: u64,
    last_ack: Instant,
    round_min: Option<Duration>,
    samples: u32,
    delay_min: Option<Duration>,
    is_found: bool,
}

impl HyStart {
    /// Windows below this many segments are left alone.
    const LOW_WINDOW: f64 = 16.0;
    /// Acknowledgements so close together belong to one train.
    const TRAIN_GAP: Duration = Duration::from_millis(2);

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt) = ack.rtt else { return };
        let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(delay_min);
        if self.is_found || !window.in_slow_start() {
            return;
        }
        if ack.una > self.round_end {
            self.start_round(ack);
        }
        if window.cwnd < Self::LOW_WINDOW {
            return;
        }
        self.is_found = self.is_train_long(ack, delay_min, window) | self.is_delay_raised(rtt, delay_min);
        if self.is_found {
            window.ssthresh = window.cwnd;
        }
    }

    fn start_round(&mut self, ack: &Ack) {
        self.round_start = ack.now;
        self.round_end = ack.nxt;
        self.last_ack = ack.now;
        self.round_min = None;
        self.samples = 0;
    }

    fn is_train_long(&mut self, ack: &Ack, delay_min: Duration, window: &Window) -> bool {
        // The kernel takes 2 ms exactly for close, but segments of 1,500 bytes at 6 Mbit/s, whose acknowledgements are that
        // far apart to the nanosecond in virtual time, never are for long on a real clock: its trains break there.
        if ack.now.since(self.last_ack) >= Self::TRAIN_GAP {
            return false;
        }
        self.last_ack = ack.now;
        // A sender that batches (four times 64 KiB at the pacing rate of slow start) delays acknowledgements by up to 1 ms.
        let rate = 2.0 * window.cwnd * f64::from(ack.mss) / ack.srtt.as_secs_f64().max(1e-9);
        let batch = Duration::from_secs_f64(262_144.0 / rate).min(Duration::from_millis(1));
        // Pacing spreads the window of slow start over half a round trip, whatever the link's rate.
        let threshold = if self.is_paced { delay_min + batch } else { (delay_min + batch) / 2 };
        ack.now.since(self.round_start) > threshold
    }

    fn is_delay_raised(&mut self, rtt: Duration, delay_min: Duration) -> bool {
        let round_min = self.round_min.map_or(rtt, |min| min.min(rtt));
        self.round_min = Some(round_min);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        round_min > delay_min + delay_threshold(delay_min)
    }
}

/// HyStart++ (RFC 9406): a raised delay first slows slow start down to a quarter, for at most five rounds; if the delay
/// falls again it was noise, and slow start resumes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HyStartPlusPlus {
    /// Data leave paced.
    is_paced: bool,
    /// The round ends when this offset is acknowledged.
    round_end: Option<u64>,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
    is_done: bool,
}

/// Conservative slow start.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    baseline: Duration,
    rounds_left: u32,
}

impl HyStartPlusPlus {
    /// Rounds of conservative slow start, the one in which it began included.
    const ROUNDS: u32 = 5;

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if self.is_done || !window.in_slow_start() {
            return;
        }
        if let Some(rtt) = ack.rtt {
            self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= MIN_SAMPLES {
            self.judge_delay();
        }
        let round_end = *self.round_end.get_or_insert(ack.nxt);
        if ack.una >= round_end {
            self.end_round(ack, window);
        }
    }

    fn judge_delay(&mut self) {
        let (Some(current), Some(last)) = (self.current_min, self.last_min) else { return };
        match self.conservative {
            None if current >= last + delay_threshold(last) => {
                self.conservative = Some(Conservative { baseline: current, rounds_left: Self::ROUNDS });
            }
            Some(conservative) if current < conservative.baseline => self.conservative = None,
            _ => {}
        }
    }

    fn end_round(&mut self, ack: &Ack, window: &mut Window) {
        self.round_end = Some(ack.nxt);
        self.last_min = self.current_min.take();
        self.samples = 0;
        let Some(conservative) = &mut self.conservative else { return };
        conservative.rounds_left -= 1;
        if conservative.rounds_left == 0 {
            self.conservative = None;
            self.is_done = true;
            window.ssthresh = window.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::control::reno::Reno;
    use crate::control::testing::{Path, ack};
    use crate::profile::Profile;

    /// The detector after rounds of 20 acknowledgements, each round with the round-trip time given, in milliseconds.
    fn after_rounds(rtts: &[f64]) -> (Exit, Window) {
        let mut exit = Exit::new(SlowStartExit::HyStartPlusPlus, &Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
        for (round, rtt) in rtts.iter().enumerate() {
            for k in 1..=20 {
                let acked = (round as u64 * 20 + k) * 1000;
                let rtt = Some(Duration::from_secs_f64(rtt / 1e3));
                let ack = super::Ack { una: acked, nxt: (round as u64 + 1) * 20_000, rtt, ..ack(1) };
                let ack = if k == 20 { super::Ack { nxt: ack.nxt + 20_000, ..ack } } else { ack };
                exit.on_ack(&ack, &mut window);
            }
        }
        (exit, window)
    }

    #[test]
    fn at_550_ms_a_rise_of_17_ms_slows_slow_start_down_and_one_of_15_ms_does_not() {
        assert_eq!(after_rounds(&[550.0, 565.0]).0.growth(), 1.0);
        assert_eq!(after_rounds(&[550.0, 567.0]).0.growth(), 0.25);
    }

    #[test]
    fn slow_start_resumes_when_the_delay_falls_and_ends_after_five_rounds_when_it_does_not() {
        let (exit, window) = after_rounds(&[550.0, 567.0, 566.0]);
        assert_eq!((exit.growth(), window.ssthresh), (1.0, f64::INFINITY));
        let (_, window) = after_rounds(&[550.0, 567.0, 568.0, 568.0, 568.0]);
        assert_eq!(window.ssthresh, f64::INFINITY);
        let (exit, window) = after_rounds(&[550.0, 567.0, 568.0, 568.0, 568.0, 568.0]);
        assert_eq!((exit.growth(), window.ssthresh), (1.0, 20.0));
    }

    /// How long a train of acknowledgements, one each millisecond over 100 ms, lasts until slow start ends, in milliseconds.
    fn longest_train(pacing: bool) -> u64 {
        let mut exit = Exit::new(SlowStartExit::LinuxHyStart, &Config { pacing, ..Config::new(Profile::Linux) });
        let mut window = Window { cwnd: 100.0, ssthresh: f64::INFINITY };
        let rtt = Duration::from_millis(100);
        for millis in 0..200 {
            let now = Instant::ZERO + rtt + Duration::from_millis(millis);
            let ack = super::Ack { now, una: 1 + millis, nxt: 1000, rtt: Some(rtt), srtt: rtt, ..ack(1) };
            exit.on_ack(&ack, &mut window);
            if !window.in_slow_start() {
                return millis;
            }
        }
        200
    }

    #[test]
    fn a_train_of_paced_data_may_last_twice_as_long() {
        // 100 segments of 1,000 bytes at twice the window in a round trip: a batch of 256 KiB takes more than the millisecond that counts.
        assert_eq!((longest_train(false), longest_train(true)), (51, 102));
    }

    fn slow_start_end(exit: SlowStartExit) -> f64 {
        let mut config = Config::new(Profile::Linux);
        config.tuning.slow_start_exit = Some(exit);
        // 500 segments fill the path.
        let mut path = Path::new(Box::new(Reno::new(&config)), 10.0, Duration::from_millis(500), 1000.0);
        for _ in 0..30 {
            let window = path.round();
            if !window.in_slow_start() {
                return window.ssthresh;
            }
            if window.cwnd > 1e5 {
                break;
            }
        }
        f64::INFINITY
    }

    #[test]
    fn both_end_slow_start_without_a_loss() {
        assert_eq!(slow_start_end(SlowStartExit::None), f64::INFINITY);
        // A queue of 16 ms stands at the start of a round once the path is full.
        let hystart = slow_start_end(SlowStartExit::LinuxHyStart);
        assert!((500.0..=700.0).contains(&hystart), "{hystart}");
        let plus_plus = slow_start_end(SlowStartExit::HyStartPlusPlus);
        assert!((500.0..=4000.0).contains(&plus_plus), "{plus_plus}");
    }
}
