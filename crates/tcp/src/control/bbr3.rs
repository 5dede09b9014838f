//! BBR version 3: like version 1, with bounds on rate and volume that losses lower, short probes for more, and probes of
//! the round-trip time at half the window (draft-ietf-ccwg-bbr, repository head of 2026-08-03).

use super::filter::WindowedMax;
use super::{Ack, Control, ControlKind, Loss, LossState, RateSample, Start, Window};
use crate::config::Config;
use units::{CounterRandom, Duration, Instant, Rate};

/// A model of the path, with losses as a sign of too much.
pub(crate) const KIND: ControlKind = ControlKind {
    name: "bbr3",
    about: "paces at the measured bandwidth within bounds that losses lower (BBR version 3, draft-ietf-ccwg-bbr)",
    new: |config| Box::new(Bbr3::new(config)),
};

const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
/// Acknowledgements with losses in a round that end Startup (`BBRStartupFullLossCnt`, which counts ranges).
const STARTUP_LOSS_EVENTS: u32 = 6;
const EXTRA_ACKED_ROUNDS: u64 = 10;
const MIN_PIPE_SEGMENTS: f64 = 4.0;
const PACING_MARGIN: f64 = 0.99;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Rounds after which a probe comes at the latest, so that Reno and CUBIC on a short path get their share.
const MOST_ROUNDS: f64 = 63.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn pacing_gain(self) -> f64 {
        match self {
            // 4 ln 2.
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    fn is_probe_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// What acknowledgements tell of a probe for bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The model. Volumes are in bytes, rates in bytes per second, bounds infinite while unknown.
#[derive(Debug)]
pub(crate) struct Bbr3 {
    mss: f64,
    initial_window: f64,
    has_sack: bool,
    state: State,
    rounds: Rounds,
    /// The largest rates of the current and of the former cycle.
    cycle_max: [f64; 2],
    bandwidth: f64,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    drain_start: u64,
    probe: Probe,
    loss: LossRound,
    bounds: Bounds,
    undo: Undo,
    probe_rtt: ProbeRtt,
    aggregation: Aggregation,
    pacing: f64,
    has_seen_rtt: bool,
    restarts_from_idle: bool,
    recovery: LossState,
    /// The window before the losses, in segments.
    prior_window: f64,
    random: CounterRandom,
}

/// Round trips counted by data.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    count: u64,
    next_delivered: u64,
    is_start: bool,
    delivered: u64,
}

impl Rounds {
    fn restart(&mut self) {
        self.next_delivered = self.delivered;
    }
}

/// The smallest round-trip time of ten seconds, in seconds, and that of five, which schedules its probes.
#[derive(Debug, Clone, Copy)]
struct MinRtt {
    value: f64,
    at: Instant,
    probe_value: f64,
    probe_at: Instant,
    is_expired: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct FullPipe {
    bandwidth: f64,
    rounds: u32,
    is_now: bool,
    is_reached: bool,
}

impl FullPipe {
    /// Starts to look again, from a baseline.
    fn restart(&mut self, bandwidth: f64) {
        *self = Self { bandwidth, rounds: 0, is_now: false, ..*self };
    }
}

/// The cycle of probes for bandwidth.
#[derive(Debug, Clone, Copy)]
struct Probe {
    ack_phase: AckPhase,
    /// Rate samples are of data sent while probing, and no loss has been answered yet.
    is_sample: bool,
    start: Instant,
    wait: Duration,
    rounds_since_up: f64,
    up_rounds: u32,
    up_acked: f64,
    acked_for_segment: f64,
    was_too_high: bool,
    was_precautionary: bool,
}

/// Losses and deliveries of the current round.
#[derive(Debug, Clone, Copy, Default)]
struct LossRound {
    is_start: bool,
    delivered: u64,
    has_loss: bool,
    events: u32,
    bandwidth: f64,
    volume: f64,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    bandwidth: f64,
    short_term: f64,
    long_term: f64,
}

/// What to go back to when a loss was none.
#[derive(Debug, Clone, Copy)]
struct Undo {
    state: Option<State>,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProbeRtt {
    done_at: Option<Instant>,
    is_round_done: bool,
    /// Samples of data sent while this much, from and to, had been delivered are too low on purpose.
    slow: (u64, u64),
}

/// By how much acknowledgements run ahead of the bandwidth at times.
#[derive(Debug, Clone, Copy)]
struct Aggregation {
    start: Instant,
    delivered: f64,
    excess: WindowedMax,
}

impl Bounds {
    const NONE: Self = Self { bandwidth: f64::INFINITY, short_term: f64::INFINITY, long_term: f64::INFINITY };

    fn forget_short_term(&mut self) {
        *self = Self { long_term: self.long_term, ..Self::NONE };
    }
}

impl Bbr3 {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = f64::from(config.mss);
        Self {
            mss,
            initial_window: config.initial_window * mss,
            has_sack: config.recovery.needs_sack,
            state: State::Startup,
            rounds: Rounds::default(),
            cycle_max: [0.0; 2],
            bandwidth: 0.0,
            min_rtt: MinRtt {
                value: f64::INFINITY,
                at: Instant::ZERO,
                probe_value: f64::INFINITY,
                probe_at: Instant::ZERO,
                is_expired: false,
            },
            full_pipe: FullPipe::default(),
            drain_start: 0,
            probe: Probe {
                ack_phase: AckPhase::Init,
                is_sample: false,
                start: Instant::ZERO,
                wait: Duration::ZERO,
                rounds_since_up: 0.0,
                up_rounds: 0,
                up_acked: 0.0,
                acked_for_segment: f64::INFINITY,
                was_too_high: false,
                was_precautionary: false,
            },
            loss: LossRound::default(),
            bounds: Bounds::NONE,
            undo: Undo { state: None, bounds: Bounds::NONE },
            probe_rtt: ProbeRtt::default(),
            aggregation: Aggregation { start: Instant::ZERO, delivered: 0.0, excess: WindowedMax::new(0, 0.0) },
            pacing: 0.0,
            has_seen_rtt: false,
            restarts_from_idle: false,
            recovery: LossState::Open,
            prior_window: 0.0,
            random: CounterRandom::new(config.seed, 0xbb3),
        }
    }

    fn max_bandwidth(&self) -> f64 {
        self.cycle_max[0].max(self.cycle_max[1])
    }

    fn least_pipe(&self) -> f64 {
        MIN_PIPE_SEGMENTS * self.mss
    }

    fn product(&self, bandwidth: f64) -> f64 {
        if self.min_rtt.value.is_finite() { bandwidth * self.min_rtt.value } else { self.initial_window }
    }

    /// At least what batches of segments need (`QuantizationBudget`).
    fn with_batches(&self, volume: f64) -> f64 {
        let quantum = (self.pacing * 1e-3).min(65_536.0).max(2.0 * self.mss);
        let probe = if self.state == State::Up { 2.0 * self.mss } else { 0.0 };
        volume.max(3.0 * quantum).max(self.least_pipe()) + probe
    }

    fn with_headroom(&self) -> f64 {
        let bound = self.bounds.long_term;
        if bound.is_infinite() {
            return bound;
        }
        (bound - self.mss.max(HEADROOM * bound)).max(self.least_pipe())
    }

    /// The volume wanted in flight, unless losses cut the window.
    fn target(&self, window: &Window) -> f64 {
        self.product(self.bandwidth).min(window.cwnd * self.mss)
    }

    fn is_app_limited(&self, sample: &RateSample) -> bool {
        let (from, to) = self.probe_rtt.slow;
        sample.is_app_limited || (from..to).contains(&sample.prior_delivered)
    }
}

/// Per sample: the model.
impl Bbr3 {
    fn update_model(&mut self, ack: &Ack, sample: &RateSample, window: &mut Window) {
        self.rounds.delivered = sample.total_delivered;
        let rate = sample.delivered as f64 / sample.interval.as_secs_f64();
        if ack.lost > 0 {
            self.note_loss(ack, sample, window);
        }
        self.update_latest(sample, rate);
        self.update_max_bandwidth(sample, rate);
        if self.loss.is_start {
            self.adapt_to_losses(window);
        }
        self.update_aggregation(ack, window);
        self.check_full_pipe(sample, rate);
        self.check_startup(ack, sample);
        self.check_drain(ack);
        if self.full_pipe.is_reached {
            self.update_cycle(ack, sample, rate, window);
        }
    }

    fn update_latest(&mut self, sample: &RateSample, rate: f64) {
        let loss = &mut self.loss;
        loss.bandwidth = loss.bandwidth.max(rate);
        loss.volume = loss.volume.max(sample.delivered as f64);
        loss.is_start = sample.prior_delivered >= loss.delivered;
        if loss.is_start {
            loss.delivered = sample.total_delivered;
        }
    }

    fn update_max_bandwidth(&mut self, sample: &RateSample, rate: f64) {
        self.rounds.is_start = sample.prior_delivered >= self.rounds.next_delivered;
        if self.rounds.is_start {
            self.rounds.restart();
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1.0;
        }
        if rate >= self.max_bandwidth() || !self.is_app_limited(sample) {
            self.cycle_max[0] = self.cycle_max[0].max(rate);
        }
    }

    /// Once a round with losses, unless it probes: down to what was delivered, by three tenths at most.
    fn adapt_to_losses(&mut self, window: &Window) {
        if self.loss.has_loss && !self.state.accelerates() {
            let bounds = &mut self.bounds;
            if bounds.bandwidth.is_infinite() {
                bounds.bandwidth = self.cycle_max[0].max(self.cycle_max[1]);
            }
            if bounds.short_term.is_infinite() {
                bounds.short_term = window.cwnd * self.mss;
            }
            bounds.bandwidth = self.loss.bandwidth.max(BETA * bounds.bandwidth);
            bounds.short_term = self.loss.volume.max(BETA * bounds.short_term);
        }
        self.loss.has_loss = false;
    }

    fn update_aggregation(&mut self, ack: &Ack, window: &Window) {
        let now = &mut self.aggregation;
        let mut expected = self.bandwidth * ack.now.since(now.start).as_secs_f64();
        if now.delivered <= expected {
            (now.start, now.delivered, expected) = (ack.now, 0.0, 0.0);
        }
        now.delivered += ack.delivered as f64;
        let excess = (now.delivered - expected).min(window.cwnd * self.mss);
        let rounds = if self.full_pipe.is_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        now.excess.update(self.rounds.count, excess, rounds);
    }

    fn check_full_pipe(&mut self, sample: &RateSample, rate: f64) {
        if self.full_pipe.is_now || !self.rounds.is_start || self.is_app_limited(sample) {
            return;
        }
        if rate >= 1.25 * self.full_pipe.bandwidth {
            self.full_pipe.restart(rate);
            return;
        }
        self.full_pipe.rounds += 1;
        self.full_pipe.is_now = self.full_pipe.rounds >= 3;
        self.full_pipe.is_reached |= self.full_pipe.is_now;
    }

    fn check_startup(&mut self, ack: &Ack, sample: &RateSample) {
        if !self.full_pipe.is_reached && self.is_startup_lossy(ack, sample) {
            self.undo.state = Some(State::Startup);
            self.full_pipe.is_reached = true;
            self.bounds.long_term = self.product(self.max_bandwidth()).max(self.loss.volume);
        }
        if self.loss.is_start {
            self.loss.events = 0;
        }
        if self.state == State::Startup && self.full_pipe.is_reached {
            self.state = State::Drain;
            self.drain_start = self.rounds.count;
        }
    }

    fn is_startup_lossy(&self, ack: &Ack, sample: &RateSample) -> bool {
        if ack.state != LossState::Recovery || !self.is_inflight_too_high(sample) {
            return false;
        }
        !self.has_sack || (self.loss.is_start && self.loss.events >= STARTUP_LOSS_EVENTS)
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let is_drained = ack.in_flight as f64 <= self.with_batches(self.product(self.bandwidth));
        if is_drained || self.rounds.count > self.drain_start + 3 {
            self.go_down(ack.now);
        }
    }

    fn is_inflight_too_high(&self, sample: &RateSample) -> bool {
        sample.lost as f64 > sample.in_flight_at_send as f64 * LOSS_THRESHOLD || (sample.lost > 0 && !self.has_sack)
    }

    fn note_loss(&mut self, ack: &Ack, sample: &RateSample, window: &Window) {
        if !self.loss.has_loss {
            self.loss.delivered = sample.total_delivered;
            self.save_before_loss(window);
        }
        self.loss.has_loss = true;
        self.loss.events += 1;
        if self.probe.is_sample && self.is_inflight_too_high(sample) {
            self.on_inflight_too_high(ack.now, sample, window);
        }
    }

    fn on_inflight_too_high(&mut self, now: Instant, sample: &RateSample, window: &Window) {
        self.probe.was_too_high = true;
        self.probe.is_sample = false;
        if !self.is_app_limited(sample) {
            self.bounds.long_term = (sample.in_flight_at_send as f64).max(self.target(window) * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.go_down(now);
        }
    }

    fn save_before_loss(&mut self, window: &Window) {
        self.save_window(window);
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    fn save_window(&mut self, window: &Window) {
        let is_good = self.recovery == LossState::Open && self.state != State::ProbeRtt;
        self.prior_window = if is_good { window.cwnd } else { self.prior_window.max(window.cwnd) };
    }
}

/// The cycle of probes for bandwidth.
impl Bbr3 {
    fn update_cycle(&mut self, ack: &Ack, sample: &RateSample, rate: f64, window: &Window) {
        if self.adapt_long_term(ack, sample, window) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now, window) => self.refill(),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Refill if self.rounds.is_start => {
                self.probe.is_sample = true;
                self.go_up(rate, window);
            }
            State::Up => self.check_up(ack, rate, window),
            _ => {}
        }
    }

    fn go_down(&mut self, now: Instant) {
        self.loss = LossRound { has_loss: false, bandwidth: 0.0, volume: 0.0, ..self.loss };
        self.probe.acked_for_segment = f64::INFINITY;
        self.probe.rounds_since_up = (self.random.next_u64() & 1) as f64;
        self.probe.wait = Duration::from_nanos(2_000_000_000 + self.random.next_u64() % 1_000_000_000);
        self.probe.start = now;
        self.probe.ack_phase = AckPhase::Stopping;
        self.rounds.restart();
        self.state = State::Down;
    }

    fn refill(&mut self) {
        self.bounds.forget_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0.0;
        self.probe.was_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.restart();
        self.state = State::Refill;
    }

    fn go_up(&mut self, rate: f64, window: &Window) {
        self.probe.ack_phase = AckPhase::Starting;
        self.rounds.restart();
        self.full_pipe.restart(rate);
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// The long-term bound grows by 1, 2, 4… segments in successive rounds.
    fn raise_slope(&mut self, window: &Window) {
        let growth = f64::from(1_u32 << self.probe.up_rounds);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_for_segment = (window.cwnd * self.mss / growth).max(self.mss);
    }

    fn is_time_to_probe(&self, now: Instant, window: &Window) -> bool {
        let rounds = (self.target(window) / self.mss).min(MOST_ROUNDS);
        now > self.probe.start + self.probe.wait || self.probe.rounds_since_up >= rounds
    }

    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        let in_flight = ack.in_flight as f64;
        in_flight <= self.with_headroom() && in_flight <= self.with_batches(self.product(self.max_bandwidth()))
    }

    /// Ends the probe: a cautious one at the long-term bound, another when the bandwidth no longer grows though that bound
    /// does not limit it.
    fn check_up(&mut self, ack: &Ack, rate: f64, window: &Window) {
        let bound = self.bounds.long_term;
        let is_risky = self.probe.was_too_high && ack.in_flight as f64 >= bound;
        self.probe.was_precautionary |= is_risky;
        let is_bounded = !is_risky && ack.is_window_limited && window.cwnd * self.mss >= bound;
        if is_bounded {
            self.full_pipe.restart(rate);
        } else if is_risky || self.full_pipe.is_now {
            self.probe.was_too_high = false;
            self.go_down(ack.now);
        }
    }

    /// Follows what the acknowledgements of a probe say; whether that changed the state.
    fn adapt_long_term(&mut self, ack: &Ack, sample: &RateSample, window: &Window) -> bool {
        if self.rounds.is_start && self.probe.ack_phase == AckPhase::Starting {
            self.probe.ack_phase = AckPhase::Feedback;
        }
        if self.rounds.is_start && self.probe.ack_phase == AckPhase::Stopping && self.end_of_feedback(sample) {
            return true;
        }
        if self.is_inflight_too_high(sample) || self.bounds.long_term.is_infinite() {
            return false;
        }
        self.bounds.long_term = self.bounds.long_term.max(sample.in_flight_at_send as f64);
        if self.state == State::Up {
            self.raise_long_term(ack, window);
        }
        false
    }

    /// A round after a probe: its samples are in. A cautious probe that lost nothing is followed by a full one.
    fn end_of_feedback(&mut self, sample: &RateSample) -> bool {
        self.probe.is_sample = false;
        self.probe.ack_phase = AckPhase::Init;
        if !self.state.is_probe_bandwidth() {
            return false;
        }
        if !self.is_app_limited(sample) && self.cycle_max[0] > 0.0 {
            self.cycle_max = [0.0, self.cycle_max[0]];
        }
        let goes_on = self.probe.was_precautionary && !self.probe.was_too_high;
        if goes_on {
            self.refill();
        }
        goes_on
    }

    fn raise_long_term(&mut self, ack: &Ack, window: &Window) {
        if !ack.is_window_limited || window.cwnd * self.mss < self.bounds.long_term {
            return;
        }
        self.probe.up_acked += ack.delivered as f64;
        let segments = (self.probe.up_acked / self.probe.acked_for_segment).floor();
        if segments > 0.0 {
            self.probe.up_acked -= segments * self.probe.acked_for_segment;
            self.bounds.long_term += segments * self.mss;
        }
        if self.rounds.is_start {
            self.raise_slope(window);
        }
    }
}

/// The round-trip time.
impl Bbr3 {
    fn update_min_rtt(&mut self, ack: &Ack) {
        let min = &mut self.min_rtt;
        min.is_expired = ack.now > min.probe_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt.map(Duration::as_secs_f64)
            && (rtt < min.probe_value || min.is_expired)
        {
            (min.probe_value, min.probe_at) = (rtt, ack.now);
        }
        if min.probe_value < min.value || ack.now > min.at + MIN_RTT_WINDOW {
            (min.value, min.at) = (min.probe_value, min.probe_at);
        }
    }

    fn check_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.restarts_from_idle {
            self.save_window(window);
            self.state = State::ProbeRtt;
            self.probe_rtt.done_at = None;
            self.probe_rtt.slow.0 = self.rounds.delivered;
            self.probe.ack_phase = AckPhase::Stopping;
            self.rounds.restart();
        }
        if self.state == State::ProbeRtt {
            self.follow_probe_rtt(ack, window);
        }
        if ack.delivered > 0 {
            self.restarts_from_idle = false;
        }
    }

    fn follow_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        self.probe_rtt.slow.1 = self.rounds.delivered + ack.in_flight;
        match self.probe_rtt.done_at {
            None if ack.in_flight as f64 <= self.probe_rtt_window() => {
                self.probe_rtt.done_at = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt.is_round_done = false;
                self.rounds.restart();
            }
            None => {}
            Some(done_at) => {
                self.probe_rtt.is_round_done |= self.rounds.is_start;
                if self.probe_rtt.is_round_done && ack.now > done_at {
                    self.leave_probe_rtt(ack.now, window);
                }
            }
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant, window: &mut Window) {
        self.min_rtt.probe_at = now;
        window.cwnd = window.cwnd.max(self.prior_window);
        self.bounds.forget_short_term();
        if self.full_pipe.is_reached {
            self.go_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn probe_rtt_window(&self) -> f64 {
        (State::ProbeRtt.window_gain() * self.product(self.bandwidth)).max(self.least_pipe())
    }
}

/// Rate and window.
impl Bbr3 {
    fn set_pacing(&mut self, ack: &Ack, window: &Window) {
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            self.start_pacing(ack.srtt, window);
        }
        let rate = PACING_MARGIN * self.state.pacing_gain() * self.bandwidth;
        if self.full_pipe.is_reached || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn start_pacing(&mut self, rtt: Duration, window: &Window) {
        self.has_seen_rtt = true;
        self.pacing = State::Startup.pacing_gain() * window.cwnd * self.mss / rtt.as_secs_f64().max(1e-6);
    }

    fn set_window(&mut self, ack: &Ack, window: &mut Window) {
        let product = self.state.window_gain() * self.product(self.bandwidth);
        let most = self.with_batches(product + self.aggregation.excess.get());
        let grown = window.cwnd * self.mss + ack.delivered as f64;
        let mut volume = window.cwnd * self.mss;
        if self.full_pipe.is_reached {
            volume = grown.min(most);
        } else if volume < most || (self.rounds.delivered as f64) < self.initial_window {
            volume = grown;
        }
        volume = volume.max(self.least_pipe());
        if self.state == State::ProbeRtt {
            volume = volume.min(self.probe_rtt_window());
        }
        window.cwnd = volume.min(self.volume_bound()) / self.mss;
    }

    fn volume_bound(&self) -> f64 {
        let bound = match self.state {
            State::Startup | State::Drain => f64::INFINITY,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.bounds.long_term,
        };
        bound.min(self.bounds.short_term).max(self.least_pipe())
    }
}

impl Control for Bbr3 {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.start_pacing(start.rtt.unwrap_or(Duration::from_millis(1)), window);
        self.has_seen_rtt = start.rtt.is_some();
        self.aggregation.start = start.now;
        let rtt = start.rtt.map_or(f64::INFINITY, Duration::as_secs_f64);
        self.min_rtt = MinRtt { value: rtt, at: start.now, probe_value: rtt, probe_at: start.now, ..self.min_rtt };
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.rounds.is_start = false;
        if self.recovery != LossState::Open && ack.state == LossState::Open {
            window.cwnd = window.cwnd.max(self.prior_window);
        }
        self.recovery = ack.state;
        if let Some(sample) = &ack.rate {
            self.update_model(ack, sample, window);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack, window);
        if let Some(sample) = ack.rate.filter(|_| self.loss.is_start) {
            self.loss.bandwidth = sample.delivered as f64 / sample.interval.as_secs_f64();
            self.loss.volume = sample.delivered as f64;
        }
        self.bandwidth = self.max_bandwidth().min(self.bounds.bandwidth);
        self.set_pacing(ack, window);
        self.set_window(ack, window);
    }

    fn grow(&mut self, _ack: &Ack, _window: &mut Window) {}

    fn on_loss(&mut self, _loss: &Loss, window: &mut Window) {
        self.save_before_loss(window);
    }

    fn on_timeout(&mut self, _timeout: &Loss, window: &mut Window) {
        self.save_before_loss(window);
        self.recovery = LossState::Timeout;
        window.cwnd = 1.0;
    }

    fn on_spurious(&mut self, _now: Instant, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_window);
        self.loss.has_loss = false;
        self.full_pipe.restart(0.0);
        let undo = self.undo.bounds;
        self.bounds = Bounds {
            bandwidth: self.bounds.bandwidth.max(undo.bandwidth),
            short_term: self.bounds.short_term.max(undo.short_term),
            long_term: self.bounds.long_term.max(undo.long_term),
        };
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.is_reached = false;
                self.state = if self.state == State::ProbeRtt { State::ProbeRtt } else { State::Startup };
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.refill(),
            _ => {}
        }
    }

    fn on_idle(&mut self, now: Instant, _idle: Duration) {
        self.restarts_from_idle = true;
        self.aggregation.start = now;
        if self.state.is_probe_bandwidth() {
            self.pacing = PACING_MARGIN * self.bandwidth;
        }
    }

    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        (self.pacing > 0.0).then(|| Rate::from_bps((self.pacing * 8.0) as u64))
    }

    fn governs_window(&self) -> bool {
        true
    }

    fn phase(&self, _window: &Window) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe-bw-down",
            State::Cruise => "probe-bw-cruise",
            State::Refill => "probe-bw-refill",
            State::Up => "probe-bw-up",
            State::ProbeRtt => "probe-rtt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;
    use crate::control::testing::{MSS, Path, ack};
    use std::collections::BTreeSet;

    fn control() -> Bbr3 {
        Bbr3::new(&Config { mss: MSS, ..Config::new(Profile::Linux) })
    }

    fn path(rtt: u64, segments_per_second: f64) -> Path {
        Path::new(Box::new(control()), 10.0, Duration::from_millis(rtt), segments_per_second)
    }

    #[test]
    fn startup_doubles_each_round_and_its_queue_stays_within_one_and_a_half_products() {
        let mut path = path(100, 10_000.0);
        path.run(Duration::from_millis(200));
        let before = path.round().cwnd;
        let after = (0..4).map(|_| path.round().cwnd).last().expect("four");
        // Sixteen times, less what the pacing margin takes.
        assert!((11.0..=17.0).contains(&(after / before)), "{before} {after}");
        while path.control.phase(&path.window) == "startup" {
            assert!(path.flight() < 2_500_000, "{}", path.flight());
            path.round();
        }
    }

    #[test]
    fn it_uses_the_bandwidth_at_every_round_trip_time_but_for_the_time_it_measures_that() {
        for rtt in [10, 100, 550] {
            let mut path = path(rtt, 1_000.0);
            path.run(Duration::from_secs(10));
            let share = path.run(Duration::from_secs(60)) / 60_000.0;
            // Twelve times half the window, for 200 ms or a round trip and the time to get there.
            let silent = 12.0 * 0.5 * (0.2_f64.max(rtt as f64 / 1e3) + rtt as f64 / 1e3) / 60.0;
            assert!(share >= 0.95 * (1.0 - silent), "{rtt} {share} {silent}");
        }
    }

    #[test]
    fn it_goes_through_the_states_of_the_cycle() {
        let mut path = path(100, 1_000.0);
        let mut seen = BTreeSet::new();
        for _ in 0..40_000 {
            path.step();
            seen.insert(path.control.phase(&path.window));
        }
        assert_eq!(seen.len(), 7, "{seen:?}");
    }

    #[test]
    fn losses_lower_the_bounds_by_three_tenths_a_round_at_most_and_a_refill_forgets_them() {
        let mut control = control();
        control.state = State::Cruise;
        control.cycle_max = [100e3, 0.0];
        control.loss.has_loss = true;
        let window = Window { cwnd: 100.0, ssthresh: f64::INFINITY };
        control.adapt_to_losses(&window);
        assert!((control.bounds.bandwidth - 70e3).abs() < 1.0 && (control.bounds.short_term - 70e3).abs() < 1.0);
        control.loss = LossRound { has_loss: true, bandwidth: 65e3, volume: 60e3, ..control.loss };
        control.adapt_to_losses(&window);
        assert_eq!((control.bounds.bandwidth, control.bounds.short_term), (65e3, 60e3));
        control.refill();
        assert!(control.bounds.bandwidth.is_infinite() && control.bounds.short_term.is_infinite());
    }

    #[test]
    fn a_probe_that_loses_more_than_two_hundredths_bounds_the_volume_and_goes_down() {
        let sample = RateSample {
            delivered: 100_000,
            interval: Duration::from_millis(100),
            prior_delivered: 0,
            total_delivered: 1_000_000,
            total_lost: 3_000,
            lost: 3_000,
            in_flight_at_send: 120_000,
            is_app_limited: false,
        };
        for (lost, bound, state) in [(2_000, f64::INFINITY, State::Up), (3_000, 120e3, State::Down)] {
            let mut control = control();
            (control.state, control.probe.is_sample) = (State::Up, true);
            let window = Window { cwnd: 100.0, ssthresh: f64::INFINITY };
            control.note_loss(&ack(1), &RateSample { lost, ..sample }, &window);
            assert_eq!((control.bounds.long_term, control.state), (bound, state));
        }
    }

    #[test]
    fn a_needless_response_is_taken_back() {
        let mut control = control();
        let mut window = Window { cwnd: 100.0, ssthresh: f64::INFINITY };
        control.state = State::Up;
        control.on_loss(&ack(1).loss(100), &mut window);
        control.undo.state = Some(State::Up);
        (control.state, control.bounds.long_term, window.cwnd) = (State::Down, 50e3, 50.0);
        control.on_spurious(Instant::ZERO, &mut window);
        assert_eq!((control.state, window.cwnd), (State::Refill, 100.0));
        assert!(control.bounds.long_term.is_infinite());
    }
}
