//! CUBIC: the window is a cubic function of the time since the last loss (RFC 9438).

use super::reno::Growth;
use super::{Ack, Control, Loss, Window};
use crate::config::{Config, SlowStartExit};
use crate::profile::Reading;
use units::{Duration, Instant};

/// What differs between RFC 9438 and Linux 6.x (`tcp_cubic.c`).
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Segments per cubed second.
    scale: f64,
    /// What a loss leaves of the window.
    beta: f64,
    /// Segments by which the Reno-friendly estimate grows each round trip.
    friendly_gain: f64,
    /// What ends slow start before a loss.
    exit: SlowStartExit,
    /// The window moves in whole segments, and a loss reduces it rather than what is in flight.
    moves_whole_segments: bool,
    /// A response that turns out to be needless leaves no trace in what is known of the last loss.
    restores_state: bool,
    /// Time in which the application or the receiver limits the flow is no time of growth. Linux leaves out idle times alone.
    excludes_unused: bool,
}

impl Rules {
    fn of(reading: Reading) -> Self {
        match reading {
            Reading::Specification => Self::rfc(),
            Reading::Linux => Self::linux(),
        }
    }

    fn rfc() -> Self {
        let beta = 0.7;
        Self {
            scale: 0.4,
            beta,
            friendly_gain: 3.0 * (1.0 - beta) / (1.0 + beta),
            exit: SlowStartExit::HyStartPlusPlus,
            moves_whole_segments: false,
            restores_state: true,
            excludes_unused: true,
        }
    }

    /// 717/1024, 410/1024, and 8/15 for `3 (1 - beta) / (1 + beta)`.
    fn linux() -> Self {
        Self {
            scale: 410.0 / 1024.0,
            beta: 717.0 / 1024.0,
            friendly_gain: 8.0 / 15.0,
            exit: SlowStartExit::LinuxHyStart,
            moves_whole_segments: true,
            restores_state: false,
            excludes_unused: false,
        }
    }
}

/// The window of CUBIC.
#[derive(Debug)]
pub(crate) struct Cubic {
    rules: Rules,
    growth: Growth,
    state: State,
    /// The state before the latest loss, for when that was none.
    before_loss: Option<State>,
    /// The smallest round-trip time since the latest timeout, however long ago (`delay_min` of Linux); zero before the first.
    min_rtt: Duration,
    /// The latest acknowledgement.
    acked_at: Instant,
    /// Since when the window is not in use, and does not grow.
    unused_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The window at the last loss (`W_max`), lowered by fast convergence; zero when none is known.
    w_max: f64,
    /// The window at the last loss (`cwnd_prior`).
    prior: f64,
    epoch: Option<Epoch>,
}

/// Congestion avoidance since a loss.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Instant,
    /// Seconds until the window reaches `origin`.
    k: f64,
    origin: f64,
    /// What Reno's window would be (`W_est`).
    friendly: f64,
    /// How Linux gets there.
    steps: LinuxSteps,
}

/// Linux moves whole segments: one for each `count` acknowledged. It looks at `count` again when the window has moved, and
/// after 1/32 s or a round trip, whichever is shorter (a choice by measurement: Linux 6.18 grows over 10 ms as this does).
#[derive(Debug, Clone, Copy)]
struct LinuxSteps {
    count: f64,
    /// Segments acknowledged and not yet turned into window (`snd_cwnd_cnt`).
    credit: f64,
    /// Segments acknowledged and not yet turned into the Reno-friendly estimate (`ack_cnt`).
    friendly_credit: f64,
    /// When `count` was found, and for which window.
    found: Option<(Instant, f64)>,
}

impl LinuxSteps {
    const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 32);

    fn is_stale(&self, now: Instant, cwnd: f64, min_rtt: Duration) -> bool {
        self.found.is_none_or(|(at, window)| window != cwnd || now.since(at) > Self::INTERVAL.min(min_rtt))
    }

    /// Segments by which `acked` more open the window (`tcp_cong_avoid_ai`).
    fn growth(&mut self, acked: f64) -> f64 {
        let mut growth = 0.0;
        // What was saved up at a higher count is not spent at once.
        if self.credit >= self.count {
            self.credit = 0.0;
            growth = 1.0;
        }
        self.credit += acked;
        let more = (self.credit / self.count).floor();
        self.credit -= more * self.count;
        growth + more
    }
}

impl Epoch {
    fn new(now: Instant, cwnd: f64, w_max: f64, rules: &Rules) -> Self {
        let origin = w_max.max(cwnd);
        let steps = LinuxSteps { count: f64::INFINITY, credit: 0.0, friendly_credit: 0.0, found: None };
        Self { start: now, k: ((origin - cwnd) / rules.scale).cbrt(), origin, friendly: cwnd, steps }
    }

    /// The cubic function, `seconds` after the start of the epoch.
    fn window(&self, seconds: f64, rules: &Rules) -> f64 {
        let offset = seconds - self.k;
        rules.scale * offset * offset * offset + self.origin
    }
}

/// What ends the slow start of this control unless the configuration says otherwise.
pub(super) fn slow_start_exit(config: &Config) -> SlowStartExit {
    Rules::of(config.rules().reading).exit
}

impl Cubic {
    pub(crate) fn new(config: &Config) -> Self {
        let rules = Rules::of(config.rules().reading);
        let rules = Rules { excludes_unused: rules.excludes_unused && !config.grow_when_not_limited, ..rules };
        Self {
            growth: Growth::with_exit(config, rules.exit),
            rules,
            state: State::default(),
            before_loss: None,
            min_rtt: Duration::ZERO,
            acked_at: Instant::ZERO,
            unused_since: None,
        }
    }

    /// What has passed from `since` to `now` is no part of the time since the start of the epoch (RFC 9438, sections 4.2 and 5.8).
    fn exclude(&mut self, since: Instant, now: Instant) {
        if let Some(epoch) = &mut self.state.epoch {
            epoch.start = (epoch.start + now.since(since)).min(now);
        }
        (self.unused_since, self.acked_at) = (None, now);
    }

    fn avoid_congestion(&mut self, ack: &Ack, acked: f64, window: &mut Window) {
        let rules = &self.rules;
        let State { w_max, prior, .. } = self.state;
        let epoch = self.state.epoch.get_or_insert_with(|| Epoch::new(ack.now, window.cwnd, w_max, rules));
        let elapsed = ack.now.since(epoch.start).as_secs_f64();
        if rules.moves_whole_segments {
            window.cwnd += Self::linux_growth(epoch, ack, acked, self.min_rtt, w_max, rules, window.cwnd.floor());
            return;
        }
        let gain = if epoch.friendly >= prior { 1.0 } else { rules.friendly_gain };
        epoch.friendly += gain * acked / window.cwnd;
        if epoch.window(elapsed, rules) < epoch.friendly {
            window.cwnd = window.cwnd.max(epoch.friendly);
        } else {
            let target = epoch.window(elapsed + ack.srtt.as_secs_f64(), rules);
            let target = target.clamp(window.cwnd, 1.5 * window.cwnd);
            window.cwnd += acked * (target - window.cwnd) / window.cwnd;
        }
    }

    /// Segments by which `acked` more open a window of `cwnd`: towards the function or Reno's estimate, whichever is
    /// further, at most one for two acknowledged; and slowly where the window is above both.
    fn linux_growth(
        epoch: &mut Epoch,
        ack: &Ack,
        acked: f64,
        min_rtt: Duration,
        w_max: f64,
        rules: &Rules,
        cwnd: f64,
    ) -> f64 {
        epoch.steps.friendly_credit += acked;
        if epoch.steps.is_stale(ack.now, cwnd, min_rtt) {
            let at = (ack.now.since(epoch.start) + min_rtt).as_secs_f64();
            let offset = (epoch.window(at, rules) - epoch.origin).trunc();
            let ahead = epoch.origin.floor() + offset - cwnd;
            let mut count = if ahead > 0.0 { cwnd / ahead } else { 100.0 * cwnd };
            if w_max == 0.0 {
                count = count.min(20.0);
            }
            let friendly_step = cwnd / rules.friendly_gain;
            let steps = (epoch.steps.friendly_credit / friendly_step).floor();
            epoch.steps.friendly_credit -= steps * friendly_step;
            epoch.friendly += steps;
            if epoch.friendly > cwnd {
                count = count.min(cwnd / (epoch.friendly - cwnd));
            }
            epoch.steps.count = count.floor().max(2.0);
            epoch.steps.found = Some((ack.now, cwnd));
        }
        epoch.steps.growth(acked)
    }

    /// What a loss does to the state; returns the new `ssthresh`.
    fn reduce(&mut self, loss: &Loss, window: &Window) -> f64 {
        if let Some(since) = self.unused_since {
            self.exclude(since, loss.now);
        }
        self.before_loss = Some(self.state);
        let cwnd = window.cwnd;
        let converges = cwnd < self.state.w_max;
        let w_max = if converges { cwnd * (1.0 + self.rules.beta) / 2.0 } else { cwnd };
        let w_max = if self.rules.moves_whole_segments { w_max.floor() } else { w_max };
        self.state = State { w_max, prior: cwnd, epoch: None };
        let in_use = if self.rules.moves_whole_segments { cwnd } else { loss.flight_segments() };
        let reduced = in_use * self.rules.beta;
        if self.rules.moves_whole_segments { reduced.floor().max(2.0) } else { reduced.max(2.0) }
    }
}

impl Control for Cubic {
    /// In the second after a recovery round-trip times are those of the recovery: HyStart does not look at them.
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        let is_settled = self.state.epoch.is_none_or(|epoch| ack.now.since(epoch.start) >= Duration::from_secs(1));
        if is_settled {
            let least = if self.min_rtt.is_zero() { Duration::MAX } else { self.min_rtt };
            self.min_rtt = ack.rtt.map_or(self.min_rtt, |rtt| rtt.min(least));
            self.growth.on_ack(ack, window);
        }
        self.acked_at = ack.now;
        if !ack.is_window_limited && self.rules.excludes_unused {
            self.unused_since.get_or_insert(ack.now);
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(since) = self.unused_since {
            self.exclude(since, ack.now);
        }
        let beyond = self.growth.slow_start(ack, window);
        if beyond > 0.0 {
            self.avoid_congestion(ack, beyond, window);
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = self.reduce(loss, window);
    }

    /// The next congestion avoidance starts at the plateau (RFC 9438, section 4.8).
    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.on_timeout();
        if self.growth.lowers_at(timeout) {
            let reduced = self.reduce(timeout, window);
            window.ssthresh = Growth::after_timeout(timeout, reduced, window);
        }
        self.state = State { w_max: 0.0, epoch: None, ..self.state };
        self.min_rtt = Duration::ZERO;
        window.cwnd = 1.0;
    }

    /// RFC 9438, section 4.9.2. Linux restores the window alone.
    fn on_spurious(&mut self, _now: Instant, _window: &mut Window) {
        if let Some(state) = self.before_loss.take().filter(|_| self.rules.restores_state) {
            self.state = state;
        }
    }

    /// Time without data does not count (`CA_EVENT_TX_START` of Linux). Where the application has more, data follow the
    /// acknowledgement at once.
    fn on_restart(&mut self, now: Instant, is_app_limited: bool, _window: &mut Window) {
        if is_app_limited {
            self.exclude(self.unused_since.unwrap_or(self.acked_at), now);
        }
    }

    fn on_idle(&mut self, now: Instant, idle: Duration) {
        let since = now.before(idle);
        self.exclude(self.unused_since.map_or(since, |unused| unused.min(since)), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::LossState;
    use crate::control::testing::{MSS, Path, ack};
    use crate::profile::Profile;

    fn epoch(w_max: f64) -> Epoch {
        Epoch::new(Instant::ZERO, 0.7 * w_max, w_max, &Rules::rfc())
    }

    #[test]
    fn the_function_has_the_values_of_the_specification() {
        let rules = Rules::rfc();
        let of_400 = epoch(400.0);
        assert!((of_400.k - 6.694_33).abs() < 1e-4, "{of_400:?}");
        for (part, expected) in [(0.0, 280.0), (0.5, 385.0), (1.0, 400.0), (2.0, 520.0)] {
            let found = of_400.window(part * of_400.k, &rules);
            assert!((found - expected).abs() < 1e-6, "{part} {found}");
        }
        assert!((epoch(100.0).k - 4.217).abs() < 1e-3);
    }

    /// Seconds from a loss at a window of 400 until the window is 400 again.
    fn recovery_time(profile: Profile, rtt: u64) -> f64 {
        let config = Config { mss: MSS, ..Config::new(profile) };
        let mut path = Path::new(Box::new(Cubic::new(&config)), 400.0, Duration::from_millis(rtt), 1e6);
        path.window.ssthresh = 400.0;
        let loss = Loss { now: path.now, ..ack(1).loss(400) };
        path.control.on_loss(&loss, &mut path.window);
        path.window.cwnd = path.window.ssthresh;
        let start = path.now;
        while path.window.cwnd < 398.0 {
            path.step();
        }
        path.now.since(start).as_secs_f64()
    }

    #[test]
    fn a_long_path_recovers_in_the_time_k_whatever_its_round_trip_time() {
        for profile in [Profile::Rfc, Profile::Linux] {
            for rtt in [250, 550] {
                // 398 segments are reached 1.7 s before K; the epoch starts a round trip after the loss at the latest.
                let seconds = recovery_time(profile, rtt);
                assert!((4.2..=7.0).contains(&seconds), "{profile:?} {rtt} {seconds}");
            }
        }
    }

    #[test]
    fn a_short_path_grows_as_reno_would() {
        let config = Config { mss: MSS, ..Config::new(Profile::Rfc) };
        let mut path = Path::new(Box::new(Cubic::new(&config)), 20.0, Duration::from_millis(10), 1e6);
        path.window = Window { cwnd: 20.0, ssthresh: 20.0 };
        path.control.on_loss(&ack(1).loss(20), &mut path.window);
        path.window.cwnd = path.window.ssthresh;
        path.run(Duration::from_millis(100));
        // Ten round trips of 0.53 segments.
        assert!((path.window.cwnd - 14.0 - 5.3).abs() < 1.0, "{:?}", path.window);
    }

    #[test]
    fn a_loss_below_the_last_maximum_gives_way_to_others() {
        let mut control = Cubic::new(&Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 100.0, ssthresh: 50.0 };
        control.on_loss(&ack(1).loss(100), &mut window);
        assert_eq!((window.ssthresh, control.state.w_max), (70.0, 100.0));
        window.cwnd = 80.0;
        control.on_loss(&ack(1).loss(80), &mut window);
        assert_eq!((window.ssthresh, control.state.w_max), (56.0, 68.0));
        control.on_spurious(Instant::ZERO, &mut window);
        assert_eq!(control.state.w_max, 100.0);
    }

    /// `tcp_reno_undo_cwnd`, which Linux's CUBIC has for a needless response, knows nothing of the last maximum.
    #[test]
    fn linux_keeps_the_maximum_of_a_loss_that_was_none() {
        let mut control = Cubic::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 100.0, ssthresh: 50.0 };
        control.on_loss(&ack(1).loss(100), &mut window);
        control.on_spurious(Instant::ZERO, &mut window);
        assert_eq!(control.state.w_max, 100.0);
    }

    #[test]
    fn linux_leaves_717_of_1024() {
        let mut control = Cubic::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 1024.0, ssthresh: 50.0 };
        control.on_loss(&ack(1).loss(10), &mut window);
        assert_eq!(window.ssthresh, 717.0);
        control.on_timeout(&Loss { expiries: 1, ..ack(1).loss(10) }, &mut window);
        assert_eq!((window.cwnd, control.state.w_max), (1.0, 0.0));
    }

    #[test]
    fn a_timeout_within_a_recovery_does_not_raise_ssthresh_to_a_part_of_a_flight_that_has_grown_since() {
        let mut control = Cubic::new(&Config::new(Profile::Rfc));
        for (state, expected) in [(LossState::Open, 420.0), (LossState::Recovery, 30.0)] {
            let mut window = Window { cwnd: 50.0, ssthresh: 30.0 };
            control.on_timeout(&Loss { expiries: 1, state, ..ack(1).loss(600) }, &mut window);
            assert_eq!(window, Window { cwnd: 1.0, ssthresh: expected });
        }
    }

    #[test]
    fn an_idle_time_does_not_move_the_window_up_the_function() {
        let mut control = Cubic::new(&Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 280.0, ssthresh: 280.0 };
        control.state.w_max = 400.0;
        control.grow(&ack(1), &mut window);
        control.on_idle(Instant::ZERO + Duration::from_secs(20), Duration::from_secs(20));
        let before = window.cwnd;
        control.grow(&ack(1).at_millis(20_000.0), &mut window);
        assert!(window.cwnd - before < 0.02, "{window:?}");
    }

    /// A control that has grown for a second after a loss at 400 segments.
    fn after_a_second(profile: Profile) -> (Cubic, Window) {
        let mut control = Cubic::new(&Config::new(profile));
        let mut window = Window { cwnd: 280.0, ssthresh: 280.0 };
        control.state.w_max = 400.0;
        acknowledge(&mut control, &mut window, 0.0, true);
        (control, window)
    }

    /// A second of acknowledgements from `start` on, in ms, one each 50 ms.
    fn acknowledge(control: &mut Cubic, window: &mut Window, start: f64, is_window_limited: bool) {
        for number in 0..20 {
            let ack = Ack { is_window_limited, ..ack(1).at_millis(start + 50.0 * f64::from(number)) };
            control.on_ack(&ack, window);
            if is_window_limited {
                control.grow(&ack, window);
            }
        }
    }

    /// RFC 9438, sections 4.2 and 5.8: what the application or the receiver limits is no time of growth.
    #[test]
    fn time_in_which_the_window_is_not_in_use_does_not_count() {
        let (mut bulk, mut expected) = after_a_second(Profile::Rfc);
        acknowledge(&mut bulk, &mut expected, 1_000.0, true);
        let (mut unused, mut window) = after_a_second(Profile::Rfc);
        (1..=10).for_each(|second| acknowledge(&mut unused, &mut window, 1_000.0 * f64::from(second), false));
        acknowledge(&mut unused, &mut window, 11_000.0, true);
        assert!((window.cwnd - expected.cwnd).abs() < 1e-9, "{window:?} and {expected:?}");
    }

    /// Nothing tells of pauses shorter than the timeout but that sending begins again.
    #[test]
    fn a_short_pause_does_not_move_the_window_up_the_function() {
        for profile in [Profile::Rfc, Profile::Linux] {
            let (mut bulk, mut expected) = after_a_second(profile);
            acknowledge(&mut bulk, &mut expected, 1_000.0, true);
            let (mut paused, mut window) = after_a_second(profile);
            paused.on_restart(Instant::ZERO + Duration::from_millis(1_850), true, &mut window);
            acknowledge(&mut paused, &mut window, 1_900.0, true);
            assert!((window.cwnd - expected.cwnd).abs() < 1e-9, "{profile:?}: {window:?} and {expected:?}");
        }
    }

    #[test]
    fn an_idle_time_counts_once_however_it_is_noticed() {
        let (mut control, mut window) = after_a_second(Profile::Rfc);
        let start = control.state.epoch.expect("begun").start;
        acknowledge(&mut control, &mut window, 1_000.0, false);
        let now = Instant::ZERO + Duration::from_secs(30);
        control.on_idle(now, Duration::from_secs(28));
        control.on_restart(now, true, &mut window);
        control.grow(&ack(1).at_millis(30_000.0), &mut window);
        assert_eq!(control.state.epoch.expect("goes on").start.since(start), Duration::from_secs(29));
    }

    /// `delay_min` of `tcp_cubic.c`, which no window of time ends.
    #[test]
    fn the_smallest_round_trip_time_lasts_until_a_timeout() {
        let mut control = Cubic::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        let ms = Duration::from_millis;
        let mut least = |control: &mut Cubic, millis| {
            control.on_ack(&Ack { rtt: Some(ms(millis)), min_rtt: ms(millis), ..ack(1) }, &mut window);
            control.min_rtt
        };
        assert_eq!([100, 300].map(|millis| least(&mut control, millis)), [ms(100); 2]);
        control.on_timeout(&ack(1).loss(10), &mut Window { cwnd: 10.0, ssthresh: 5.0 });
        assert_eq!(least(&mut control, 300), ms(300));
    }
}
