//! BBR version 3: like version 1, with bounds on rate and volume that losses lower, short probes for more, and probes of
//! the round-trip time at half the window (draft-ietf-ccwg-bbr, repository head of 2026-08-03).

mod loss;
mod model;
mod output;
mod probe_bw;
mod probe_rtt;
mod startup;

use super::filter::WindowedMax;
use super::{Ack, Control, ControlKind, Loss, LossState, RateSample, Start, Window};
use crate::config::Config;
use loss::{Bounds, LossRound, Undo};
use model::{Aggregation, Rounds};
use output::PACING_MARGIN;
use probe_bw::{AckPhase, Probe};
use probe_rtt::{MinRtt, ProbeRtt};
use startup::FullPipe;
use units::{CounterRandom, Duration, Instant, Rate};

/// A model of the path, with losses as a sign of too much.
pub(crate) const KIND: ControlKind = ControlKind {
    name: "bbr3",
    about: "paces at the measured bandwidth within bounds that losses lower (BBR version 3, draft-ietf-ccwg-bbr)",
    new: |config| Box::new(Bbr3::new(config)),
};

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
