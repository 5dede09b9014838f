//! BBR version 1: sends at the measured bottleneck bandwidth, with twice the bandwidth-delay product in flight at most
//! (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, ACM Queue 14(5), 2016; constants of Linux 6.x, `tcp_bbr.c`).

use super::pacing::{self, Pacing};
use super::{Ack, Control, Loss, LossState, RateSample, Start, Window};
use crate::config::Config;
use crate::filter::WindowedMax;
use units::{CounterRandom, Duration, Instant, Rate};

/// `2 / ln 2`: the least gain that doubles the rate each round trip.
const HIGH_GAIN: f64 = 2.885;
/// Windows in a round trip before the bandwidth is known.
const START_GAIN: f64 = pacing::MARGIN * HIGH_GAIN;
/// The pacing gains of a cycle, each for about the smallest round-trip time.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Windows are never smaller, so that delayed acknowledgements do not stop the flow.
const MIN_WINDOW: f64 = 4.0;
/// Rounds over which the bandwidth is the largest sample.
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The model of BBR. Volumes are in bytes and rates in bytes per second.
#[derive(Debug)]
pub(crate) struct Bbr1 {
    mss: f64,
    initial_window: f64,
    mode: Mode,
    bandwidth: WindowedMax,
    /// In seconds; infinite before the first sample.
    min_rtt: f64,
    min_rtt_at: Instant,
    rounds: Rounds,
    full_pipe: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    recovery: Recovery,
    policer: Policer,
    aggregation: Aggregation,
    pacing_gain: f64,
    window_gain: f64,
    pacing: Pacing,
    restarts_from_idle: bool,
    random: CounterRandom,
}

/// Round trips counted by data: one ends when something is delivered that was sent after it began.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    count: u64,
    next_delivered: u64,
    is_start: bool,
}

/// Whether the bandwidth has stopped growing.
#[derive(Debug, Clone, Copy, Default)]
struct FullPipe {
    bandwidth: f64,
    rounds: u32,
    is_reached: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cycle {
    phase: usize,
    start: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProbeRtt {
    done_at: Option<Instant>,
    is_round_done: bool,
    /// Samples of data sent while this much, from and to, had been delivered are too low on purpose.
    slow: (u64, u64),
}

/// How the window answers losses: as many packets as leave for one round, then the window from before.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    state: LossState,
    conserves_packets: bool,
    /// Segments.
    prior_window: f64,
}

impl Bbr1 {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            mss: f64::from(config.mss),
            initial_window: config.initial_window * f64::from(config.mss),
            mode: Mode::Startup,
            bandwidth: WindowedMax::new(0, 0.0),
            min_rtt: f64::INFINITY,
            min_rtt_at: Instant::ZERO,
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            recovery: Recovery { state: LossState::Open, conserves_packets: false, prior_window: 0.0 },
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            pacing: Pacing::default(),
            restarts_from_idle: false,
            random: CounterRandom::new(config.seed, 0xbb1),
        }
    }

    fn estimate(&self) -> f64 {
        self.policer.rate.unwrap_or(self.bandwidth.get())
    }

    /// `gain` times the bandwidth-delay product, with room for segments that wait to be sent or acknowledged in batches.
    fn inflight(&self, bandwidth: f64, gain: f64) -> f64 {
        let product = if self.min_rtt.is_finite() { gain * bandwidth * self.min_rtt } else { self.initial_window };
        self.with_batches(product)
    }

    fn with_batches(&self, bytes: f64) -> f64 {
        let least = if self.pacing.rate < 150e3 { 1.0 } else { 2.0 };
        let batch = (self.pacing.rate * 1e-3).min(65_536.0) / self.mss;
        let segments = (bytes / self.mss).ceil() + 3.0 * batch.floor().max(least);
        let even = 2.0 * (segments / 2.0).ceil();
        let probe = if self.mode == Mode::ProbeBandwidth && self.cycle.phase == 0 { 2.0 } else { 0.0 };
        (even + probe) * self.mss
    }

    fn update_bandwidth(&mut self, ack: &Ack, sample: &RateSample) {
        self.rounds.is_start = sample.prior_delivered >= self.rounds.next_delivered;
        if self.rounds.is_start {
            self.rounds.next_delivered = sample.total_delivered;
            self.rounds.count += 1;
            self.recovery.conserves_packets = false;
        }
        if self.policer.on_sample(ack, sample, self.rounds.is_start, self.mode == Mode::ProbeBandwidth) {
            self.probe_bandwidth(ack.now);
        }
        let rate = sample.delivered as f64 / sample.interval.as_secs_f64();
        if !self.is_app_limited(sample) || rate >= self.bandwidth.get() {
            self.bandwidth.update(self.rounds.count, rate, BANDWIDTH_ROUNDS);
        }
    }

    fn is_app_limited(&self, sample: &RateSample) -> bool {
        let (from, to) = self.probe_rtt.slow;
        sample.is_app_limited || (from..to).contains(&sample.prior_delivered)
    }

    fn update_cycle(&mut self, ack: &Ack) {
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(ack) {
            self.cycle = Cycle { phase: (self.cycle.phase + 1) % CYCLE.len(), start: ack.now };
        }
    }

    /// The probing phase lasts until the probe is in flight or loses, the draining one no longer than there is a queue.
    fn is_phase_over(&self, ack: &Ack) -> bool {
        let is_full = ack.now.since(self.cycle.start).as_secs_f64() > self.min_rtt;
        let in_flight = ack.prior_in_flight as f64;
        let target = |gain| self.inflight(self.bandwidth.get(), gain);
        if self.pacing_gain > 1.0 {
            is_full && (ack.lost > 0 || in_flight >= target(self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            is_full || in_flight <= target(1.0)
        } else {
            is_full
        }
    }

    /// Starts the cycle at random, but not with the draining phase.
    fn probe_bandwidth(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        let draw = (self.random.next_u64() % (CYCLE.len() as u64 - 1)) as usize;
        self.cycle = Cycle { phase: (CYCLE.len() - draw) % CYCLE.len(), start: now };
    }

    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.full_pipe.is_reached || !self.rounds.is_start || self.is_app_limited(sample) {
            return;
        }
        if self.bandwidth.get() >= 1.25 * self.full_pipe.bandwidth {
            self.full_pipe = FullPipe { bandwidth: self.bandwidth.get(), ..FullPipe::default() };
            return;
        }
        self.full_pipe.rounds += 1;
        self.full_pipe.is_reached = self.full_pipe.rounds >= 3;
    }

    fn check_drain(&mut self, ack: &Ack, window: &mut Window) {
        if !matches!(self.mode, Mode::Startup | Mode::Drain) {
            return;
        }
        let product = self.inflight(self.bandwidth.get(), 1.0);
        if self.mode == Mode::Startup && self.full_pipe.is_reached {
            self.mode = Mode::Drain;
            window.ssthresh = product / self.mss;
        }
        if self.mode == Mode::Drain && ack.in_flight as f64 <= product {
            self.probe_bandwidth(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack, window: &mut Window) {
        let is_old = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt.map(Duration::as_secs_f64)
            && (rtt < self.min_rtt || is_old)
        {
            self.min_rtt = rtt;
            self.min_rtt_at = ack.now;
        }
        if is_old && !self.restarts_from_idle && self.mode != Mode::ProbeRtt {
            self.save_window(window);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt.done_at = None;
            self.probe_rtt.slow.0 = self.delivered(ack);
        }
        if self.mode == Mode::ProbeRtt {
            self.follow_probe_rtt(ack, window);
        }
        if ack.delivered > 0 {
            self.restarts_from_idle = false;
        }
    }

    fn delivered(&self, ack: &Ack) -> u64 {
        ack.rate.map_or(self.rounds.next_delivered, |sample| sample.total_delivered)
    }

    fn follow_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        self.probe_rtt.slow.1 = self.delivered(ack) + ack.in_flight;
        match self.probe_rtt.done_at {
            None if ack.in_flight as f64 <= MIN_WINDOW * self.mss => {
                self.probe_rtt.done_at = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt.is_round_done = false;
                self.rounds.next_delivered = self.delivered(ack);
            }
            None => {}
            Some(_) => {
                self.probe_rtt.is_round_done |= self.rounds.is_start;
                if self.probe_rtt.is_round_done {
                    self.check_probe_rtt_done(ack.now, window);
                }
            }
        }
    }

    fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.probe_rtt.done_at.is_some_and(|done_at| now > done_at) {
            self.leave_probe_rtt(now, window);
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant, window: &mut Window) {
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.recovery.prior_window);
        if self.full_pipe.is_reached {
            self.probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.rate.is_some() => (1.0, 2.0),
            Mode::ProbeBandwidth => (CYCLE[self.cycle.phase], 2.0),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    fn set_pacing(&mut self, ack: &Ack, window: &Window) {
        self.pacing.on_srtt(START_GAIN * window.cwnd * self.mss, ack.srtt);
        self.pacing.follow(self.pacing_gain, self.estimate(), self.full_pipe.is_reached);
    }

    fn set_window(&mut self, ack: &Ack, window: &mut Window) {
        if ack.delivered > 0 && !self.follow_recovery(ack, window) {
            let delivered = ack.delivered as f64 / self.mss;
            let extra = if self.full_pipe.is_reached { self.aggregation.extra(self.estimate()) } else { 0.0 };
            let product = self.window_gain * self.estimate() * self.min_rtt;
            let product = if self.min_rtt.is_finite() { product } else { self.initial_window };
            let target = self.with_batches(product + extra) / self.mss;
            if self.full_pipe.is_reached {
                window.cwnd = (window.cwnd + delivered).min(target);
            } else if window.cwnd < target || (self.delivered(ack) as f64) < self.initial_window {
                window.cwnd += delivered;
            }
            window.cwnd = window.cwnd.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_WINDOW);
        }
    }

    /// Moves the window for losses; whether that is all that is to be done to it.
    fn follow_recovery(&mut self, ack: &Ack, window: &mut Window) -> bool {
        let before = std::mem::replace(&mut self.recovery.state, ack.state);
        if ack.lost > 0 {
            window.cwnd = (window.cwnd - ack.lost as f64 / self.mss).max(1.0);
        }
        let kept = (ack.in_flight + ack.delivered) as f64 / self.mss;
        if ack.state == LossState::Recovery && before != LossState::Recovery {
            self.recovery.conserves_packets = true;
            self.rounds.next_delivered = self.delivered(ack);
            window.cwnd = kept;
        } else if before != LossState::Open && ack.state == LossState::Open {
            self.recovery.conserves_packets = false;
            window.cwnd = window.cwnd.max(self.recovery.prior_window);
        }
        if self.recovery.conserves_packets {
            window.cwnd = window.cwnd.max(kept).max(1.0);
        }
        self.recovery.conserves_packets
    }

    fn save_window(&mut self, window: &Window) {
        let is_good = self.recovery.state == LossState::Open && self.mode != Mode::ProbeRtt;
        self.recovery.prior_window = if is_good { window.cwnd } else { self.recovery.prior_window.max(window.cwnd) };
    }
}

impl Control for Bbr1 {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.min_rtt_at = start.now;
        self.aggregation.start = start.now;
        self.pacing.start(START_GAIN * window.cwnd * self.mss, start.rtt);
        self.min_rtt = start.rtt.map_or(f64::INFINITY, Duration::as_secs_f64);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.rounds.is_start = false;
        if let Some(sample) = ack.rate.as_ref().filter(|sample| sample.is_reliable) {
            self.update_bandwidth(ack, sample);
            self.aggregation.on_ack(ack, self.estimate(), self.rounds.is_start, window.cwnd * self.mss);
            self.update_cycle(ack);
            self.check_full_pipe(sample);
        } else {
            self.update_cycle(ack);
        }
        self.check_drain(ack, window);
        self.update_min_rtt(ack, window);
        self.update_gains();
        self.set_pacing(ack, window);
        self.set_window(ack, window);
    }

    fn grow(&mut self, _ack: &Ack, _window: &mut Window) {}

    fn on_loss(&mut self, _loss: &Loss, window: &mut Window) {
        self.save_window(window);
    }

    fn on_timeout(&mut self, _timeout: &Loss, window: &mut Window) {
        self.save_window(window);
        self.recovery.state = LossState::Timeout;
        self.recovery.conserves_packets = false;
        self.full_pipe.bandwidth = 0.0;
        window.cwnd = 1.0;
    }

    /// The bandwidth may grow again, and what looked like a policer was none.
    fn on_spurious(&mut self, _now: Instant, _window: &mut Window) {
        (self.full_pipe.bandwidth, self.full_pipe.rounds) = (0.0, 0);
        self.policer = Policer::default();
    }

    /// `CA_EVENT_TX_START` of `bbr_cwnd_event`.
    fn on_restart(&mut self, now: Instant, is_app_limited: bool, window: &mut Window) {
        if !is_app_limited {
            return;
        }
        self.restarts_from_idle = true;
        self.aggregation.restart(now);
        if self.mode == Mode::ProbeBandwidth {
            self.pacing.rate = pacing::MARGIN * self.estimate();
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(now, window);
        }
    }

    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        self.pacing.rate()
    }

    fn governs_window(&self) -> bool {
        true
    }

    fn phase(&self, _window: &Window) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBandwidth => "probe-bw",
            Mode::ProbeRtt => "probe-rtt",
        }
    }
}

/// Finds token-bucket policers: two intervals in a row, each of 4 to 16 rounds and a fifth of it lost, with the same
/// throughput, which is then used for 48 rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Policer {
    /// The policed rate, while it is used.
    rate: Option<f64>,
    /// The throughput of the interval before.
    before: Option<f64>,
    interval: Option<PolicerInterval>,
    rounds: u32,
}

#[derive(Debug, Clone, Copy)]
struct PolicerInterval {
    start: Instant,
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// Takes a sample; whether the policed rate has just been given up.
    fn on_sample(&mut self, ack: &Ack, sample: &RateSample, is_round_start: bool, is_probing: bool) -> bool {
        if self.rate.is_some() {
            self.rounds += u32::from(is_probing && is_round_start);
            let is_over = self.rounds >= 48;
            if is_over {
                *self = Self::default();
            }
            return is_over;
        }
        let Some(interval) = self.interval else {
            if ack.lost > 0 {
                self.start(ack, sample);
            }
            return false;
        };
        self.rounds += u32::from(is_round_start);
        if sample.is_app_limited || self.rounds > 16 {
            *self = Self::default();
        } else if self.rounds >= 4 && ack.lost > 0 {
            self.judge(interval, ack, sample);
        }
        false
    }

    fn start(&mut self, ack: &Ack, sample: &RateSample) {
        let (delivered, lost) = (sample.total_delivered, sample.total_lost);
        self.interval = Some(PolicerInterval { start: ack.now, delivered, lost });
        self.rounds = 0;
    }

    fn judge(&mut self, interval: PolicerInterval, ack: &Ack, sample: &RateSample) {
        let lost = (sample.total_lost - interval.lost) as f64;
        let delivered = (sample.total_delivered - interval.delivered) as f64;
        let seconds = ack.now.since(interval.start).as_secs_f64();
        if delivered == 0.0 || lost / delivered < 50.0 / 256.0 || seconds < 1e-3 {
            return;
        }
        let rate = delivered / seconds;
        match self.before {
            Some(before) if (rate - before).abs() <= (before / 8.0).max(500.0) => {
                self.rate = Some((rate + before) / 2.0);
                self.rounds = 0;
            }
            _ => {
                self.before = Some(rate);
                self.start(ack, sample);
            }
        }
    }
}

/// How much more is acknowledged at times than the bandwidth explains, over five to ten rounds: the window is larger by
/// it, so that the flow does not stop between acknowledgements that come in batches.
#[derive(Debug, Clone, Copy, Default)]
struct Aggregation {
    start: Instant,
    acked: f64,
    /// The largest excess of the current and of the former five rounds.
    excess: [f64; 2],
    rounds: u32,
}

impl Aggregation {
    fn restart(&mut self, now: Instant) {
        self.start = now;
        self.acked = 0.0;
    }

    fn on_ack(&mut self, ack: &Ack, bandwidth: f64, is_round_start: bool, window: f64) {
        self.rounds += u32::from(is_round_start);
        if self.rounds >= 5 {
            self.rounds = 0;
            self.excess = [0.0, self.excess[0]];
        }
        let mut expected = bandwidth * ack.now.since(self.start).as_secs_f64();
        if self.acked <= expected {
            self.restart(ack.now);
            expected = 0.0;
        }
        self.acked += ack.delivered as f64;
        self.excess[0] = self.excess[0].max((self.acked - expected).min(window));
    }

    /// At most what 100 ms bring.
    fn extra(&self, bandwidth: f64) -> f64 {
        self.excess[0].max(self.excess[1]).min(0.1 * bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{MSS, Path};
    use crate::profile::Profile;

    fn path(rtt: u64, segments_per_second: f64) -> Path {
        let config = Config { mss: MSS, ..Config::new(Profile::Linux) };
        Path::new(Box::new(Bbr1::new(&config)), 10.0, Duration::from_millis(rtt), segments_per_second)
    }

    #[test]
    fn startup_doubles_each_round_and_ends_with_the_pipe_full() {
        let mut path = path(100, 10_000.0);
        let mut before = path.round().cwnd;
        for _ in 0..5 {
            let window = path.round().cwnd;
            assert!((1.6..=2.2).contains(&(window / before)), "{before} {window}");
            before = window;
        }
        while path.control.phase(&path.window) == "startup" {
            // 1000 segments fill the path: the queue stays within twice that.
            assert!(path.flight() < 3_000_000, "{}", path.flight());
            path.round();
        }
        path.run(Duration::from_secs(1));
        assert_eq!(path.control.phase(&path.window), "probe-bw");
    }

    #[test]
    fn it_uses_the_bandwidth_at_every_round_trip_time_but_for_the_time_it_measures_that() {
        for rtt in [10, 100, 550] {
            let mut path = path(rtt, 1_000.0);
            path.run(Duration::from_secs(10));
            let share = path.run(Duration::from_secs(60)) / 60_000.0;
            // Six times four segments in flight, for 200 ms or a round trip and the time to get there and back.
            let silent = 6.0 * (0.2_f64.max(rtt as f64 / 1e3) + 2.0 * rtt as f64 / 1e3) / 60.0;
            assert!(share >= 0.95 * (1.0 - silent), "{rtt} {share} {silent}");
        }
    }

    #[test]
    fn a_slower_link_is_believed_after_ten_rounds() {
        let mut path = path(100, 1_000.0);
        path.run(Duration::from_secs(8));
        path.capacity = 250.0;
        path.run(Duration::from_secs(20));
        let rate = path.control.pacing_rate(&path.window).expect("paced").as_bps() as f64 / 8e3;
        assert!((150.0..=320.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_policer_is_found_by_two_like_intervals_of_heavy_loss() {
        let mut policer = Policer::default();
        let mut totals = (0, 0);
        for round in 0..20 {
            totals = (totals.0 + 100_000, totals.1 + 30_000);
            let sample = RateSample {
                is_reliable: true,
                delivered: 100_000,
                interval: Duration::from_millis(100),
                prior_delivered: 0,
                total_delivered: totals.0,
                total_lost: totals.1,
                lost: 30_000,
                in_flight_at_send: 100_000,
                is_app_limited: false,
            };
            let ack = Ack { lost: 30_000, ..crate::control::testing::ack(1) }.at_millis(f64::from(round) * 100.0);
            policer.on_sample(&ack, &sample, true, true);
        }
        let rate = policer.rate.expect("found");
        assert!((rate / 1e6 - 1.0).abs() < 0.01, "{rate}");
    }
}
