//! Transfers in the background, which give way where others queue: LEDBAT (RFC 6817), and LEDBAT++
//! (draft-irtf-iccrg-ledbat-plus-plus) with a gain that depends on the path, multiplicative decrease and slowdowns, in which the path's own
//! delay can be seen.
//!
//! ```text
//!              3/4 target queued, or a loss             2 round trips                  2 round trips
//!  slow start ──────────────────────────────► avoidance ────────────► slowdown (held) ──────────────► slow start to ssthresh
//!                                               ▲   │ 9 times as long as the last slowdown took    ▲            │
//!                                               │   └──────────────────────────────────────────────┘            │
//!                                               └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! Both take round-trip times for delays, as LEDBAT++ does; RFC 6817 measures one way. A queue on the return path counts, too.

use super::reno::Growth;
use super::{Ack, Control, Loss, LossState, Start, Window};
use crate::config::Config;
use std::collections::VecDeque;
use units::{Duration, Instant};

/// Delays whose smallest is the current one (CURRENT_FILTER; section 4.2 of RFC 6817 wants at least one sample, the draft four).
const CURRENT_FILTER: usize = 4;
/// The base delay is the smallest of so many minutes (BASE_HISTORY: 2 to 10 in section 4.2 of RFC 6817).
const BASE_HISTORY: usize = 10;
/// How long one entry of the history collects.
const MINUTE: Duration = Duration::from_secs(60);
/// Segments that a window has at least (MIN_CWND), and with which it begins and slows down.
const LEAST: f64 = crate::kinds::LEDBAT_WINDOW;
/// Segments by which the window may exceed what is in flight (ALLOWED_INCREASE of RFC 6817).
const ALLOWED_INCREASE: f64 = 1.0;
/// The queueing delay that RFC 6817 allows at most, and that of the draft.
const TARGET_RFC: Duration = Duration::from_millis(100);
const TARGET: Duration = Duration::from_millis(60);
/// The part of the target at which the first slow start ends.
const SLOW_START_TARGET: f64 = 0.75;
/// Round trips from the end of the first slow start to the first slowdown, and of each slowdown at the smallest window.
const ROUNDS: u32 = 2;
/// So many times its own length passes from a slowdown to the next, which costs a tenth of the time at most.
const BETWEEN_SLOWDOWNS: u64 = 9;
/// How steeply the window falls beyond the target (Constant in the draft).
const DECREASE: f64 = 1.0;
/// Of a gain, the largest divisor.
const MOST_DIVISOR: f64 = 16.0;

/// Base and current delay (section 2.4.2 of RFC 6817).
#[derive(Debug, Default)]
struct Delays {
    /// The smallest of each minute, the newest last.
    history: VecDeque<Duration>,
    minute_ends: Option<Instant>,
    current: VecDeque<Duration>,
}

impl Delays {
    fn sample(&mut self, now: Instant, delay: Duration) {
        if self.minute_ends.is_none_or(|end| now >= end) {
            self.minute_ends = Some(now + MINUTE);
            self.history.push_back(delay);
            if self.history.len() > BASE_HISTORY {
                self.history.pop_front();
            }
        } else if let Some(newest) = self.history.back_mut() {
            *newest = delay.min(*newest);
        }
        self.current.push_back(delay);
        if self.current.len() > CURRENT_FILTER {
            self.current.pop_front();
        }
    }

    fn base(&self) -> Option<Duration> {
        self.history.iter().min().copied()
    }

    /// How long packets queue; `None` before the first sample.
    fn queueing(&self) -> Option<Duration> {
        let current = self.current.iter().min()?;
        Some(current.saturating_sub(self.base()?))
    }
}

/// The window of RFC 6817.
#[derive(Debug)]
pub(super) struct Ledbat {
    growth: Growth,
    delays: Delays,
}

impl Ledbat {
    pub(super) fn new(config: &Config) -> Self {
        Self { growth: Growth::new(config), delays: Delays::default() }
    }
}

impl Control for Ledbat {
    fn on_connected(&mut self, _: &Start, window: &mut Window) {
        begin(window);
        // Slow start is left out (section 2.4.2): the ramp begins with what LEDBAT itself does.
        window.ssthresh = LEAST;
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.delays.sample(ack.now, rtt);
        }
        let is_its_own = ack.acked > 0 && ack.state != LossState::Recovery && !window.in_slow_start();
        let Some(queueing) = self.delays.queueing().filter(|_| is_its_own) else { return };
        let off_target = 1.0 - queueing.as_secs_f64() / TARGET_RFC.as_secs_f64();
        let most = ack.prior_in_flight as f64 / f64::from(ack.mss) + ALLOWED_INCREASE;
        let wanted = window.cwnd + off_target * ack.acked_segments() / window.cwnd;
        window.cwnd = wanted.min(most).max(LEAST);
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    /// What is left to it is slow start after a timeout; all else [`Control::on_ack`] has done, up or down.
    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.slow_start(ack, window);
    }

    fn on_loss(&mut self, _: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = (window.cwnd / 2.0).max(LEAST);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
    }

    fn phase(&self, _: &Window) -> &'static str {
        "background"
    }
}

/// The window of LEDBAT++.
#[derive(Debug)]
pub(super) struct LedbatPlusPlus {
    growth: Growth,
    delays: Delays,
    phase: Phase,
    /// When the latest slowdown began, to tell how long it took.
    slowed_at: Instant,
}

/// Where LEDBAT++ stands between slowdowns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The first slow start, which also ends when packets queue.
    First,
    /// Avoidance, until the next slowdown.
    Until(Instant),
    /// The window is as small as can be, so that queues drain and the base delay shows.
    Held(Instant),
    /// Slow start back to `ssthresh`.
    Returns,
}

impl LedbatPlusPlus {
    pub(super) fn new(config: &Config) -> Self {
        Self { growth: Growth::new(config), delays: Delays::default(), phase: Phase::First, slowed_at: Instant::ZERO }
    }

    /// By how much the window grows in a round trip: less on short paths, where a target's worth of queue is many round trips.
    fn gain(&self) -> f64 {
        let base = self.delays.base().unwrap_or_default().as_secs_f64().max(1e-9);
        1.0 / (2.0 * TARGET.as_secs_f64() / base).ceil().clamp(1.0, MOST_DIVISOR)
    }

    fn queueing(&self) -> f64 {
        self.delays.queueing().unwrap_or_default().as_secs_f64()
    }

    /// Moves on where it is time to.
    fn advance(&mut self, ack: &Ack, window: &mut Window) {
        match self.phase {
            Phase::First if self.queueing() > SLOW_START_TARGET * TARGET.as_secs_f64() => {
                window.ssthresh = window.cwnd;
                self.end_first(ack.now, ack.srtt);
            }
            Phase::First if !window.in_slow_start() => self.end_first(ack.now, ack.srtt),
            Phase::Until(at) if ack.now >= at && ack.state == LossState::Open => {
                window.ssthresh = window.cwnd.max(LEAST);
                window.cwnd = LEAST.min(window.cwnd);
                self.slowed_at = ack.now;
                self.phase = Phase::Held(ack.now + ack.srtt * u64::from(ROUNDS));
            }
            Phase::Held(until) if ack.now >= until => self.phase = Phase::Returns,
            Phase::Returns if !window.in_slow_start() => {
                let took = ack.now.since(self.slowed_at);
                self.phase = Phase::Until(ack.now + took * BETWEEN_SLOWDOWNS);
            }
            _ => {}
        }
    }

    fn end_first(&mut self, now: Instant, srtt: Duration) {
        self.phase = Phase::Until(now + srtt * u64::from(ROUNDS));
    }

    /// The change of the window that one round trip brings (section 4.2 of the draft).
    fn step(&self, window: &Window) -> f64 {
        let (gain, excess) = (self.gain(), self.queueing() / TARGET.as_secs_f64() - 1.0);
        if excess < 0.0 { gain } else { (gain - DECREASE * window.cwnd * excess).max(-window.cwnd / 2.0) }
    }
}

impl Control for LedbatPlusPlus {
    fn on_connected(&mut self, _: &Start, window: &mut Window) {
        begin(window);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.delays.sample(ack.now, rtt);
        }
        self.advance(ack, window);
        let is_over = self.queueing() > TARGET.as_secs_f64() && ack.state == LossState::Open;
        if let (Phase::Until(_), true) = (self.phase, is_over) {
            let step = self.step(window) * ack.acked_segments() / window.cwnd;
            window.cwnd = (window.cwnd + step.min(0.0)).max(LEAST);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        match self.phase {
            Phase::Held(_) => {}
            // Slow start, slowed down by the gain as well.
            _ if window.in_slow_start() => {
                let taken = (self.growth.acked(ack) * self.gain()).min(window.ssthresh - window.cwnd);
                window.cwnd += taken;
            }
            _ => window.cwnd += self.step(window).max(0.0) * self.growth.acked(ack) / window.cwnd,
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
        if self.phase == Phase::First {
            self.end_first(loss.now, loss.srtt);
        }
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
        if matches!(self.phase, Phase::First | Phase::Held(_)) {
            self.end_first(timeout.now, timeout.srtt);
        }
    }

    fn phase(&self, window: &Window) -> &'static str {
        match self.phase {
            Phase::Held(_) => "slowdown",
            _ if window.in_slow_start() => "slow-start",
            _ => "congestion-avoidance",
        }
    }
}

/// A transfer in the background begins with a window of two segments.
fn begin(window: &mut Window) {
    window.cwnd = window.cwnd.min(LEAST);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{Path, ack};
    use crate::profile::Profile;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn plus_plus() -> LedbatPlusPlus {
        LedbatPlusPlus::new(&Config::new(Profile::Rfc))
    }

    fn path(control: Box<dyn Control>, propagation: u64, capacity: f64) -> Path {
        Path::new(control, 10.0, MS(propagation), capacity)
    }

    /// The mean queueing delay of a greedy flow in the second half of so many round trips of acknowledgements, in ms.
    fn mean_queue(path: &mut Path, seconds: u64) -> f64 {
        path.run(Duration::from_secs(seconds));
        let (mut sum, mut count) = (0.0, 0);
        for _ in 0..200 {
            path.run(MS(100));
            sum += path.flight() as f64 / 1000.0 / path.capacity * 1e3 - path.propagation.as_millis_f64();
            count += 1;
        }
        sum / f64::from(count)
    }

    #[test]
    fn the_base_delay_is_the_smallest_of_ten_minutes_and_the_current_one_of_four_samples() {
        let mut delays = Delays::default();
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        delays.sample(at(0), MS(50));
        for (second, delay) in [(1, 90), (2, 80), (3, 95), (4, 99)] {
            delays.sample(at(second), MS(delay));
        }
        assert_eq!(delays.queueing(), Some(MS(30)));
        for minute in 1..=10 {
            delays.sample(at(60 * minute + 1), MS(70));
        }
        assert_eq!((delays.base(), delays.queueing()), (Some(MS(70)), Some(MS(0))), "50 ms is forgotten");
    }

    #[test]
    fn the_gain_falls_with_the_base_delay_to_a_sixteenth() {
        for (base, divisor) in [(1, 16.0), (10, 12.0), (40, 3.0), (60, 2.0), (120, 1.0), (600, 1.0)] {
            let mut control = plus_plus();
            control.delays.sample(Instant::ZERO, MS(base));
            assert!((control.gain() - 1.0 / divisor).abs() < 1e-9, "{base} ms: {}", control.gain());
        }
    }

    #[test]
    fn beyond_the_target_the_window_falls_in_proportion_and_by_half_at_most() {
        let mut control = plus_plus();
        control.delays.sample(Instant::ZERO, MS(200));
        let window = Window { cwnd: 100.0, ssthresh: 10.0 };
        let mut step_at = |queueing: u64| {
            control.delays.current.clear();
            control.delays.current.push_back(MS(200 + queueing));
            control.step(&window)
        };
        assert!((step_at(0) - 1.0).abs() < 1e-9 && (step_at(59) - 1.0).abs() < 1e-9);
        // A tenth beyond the target costs a tenth of the window.
        assert!((step_at(66) - (1.0 - 10.0)).abs() < 1e-6);
        assert!((step_at(120) + 50.0).abs() < 1e-9);
    }

    #[test]
    fn slow_start_begins_with_two_segments_grows_by_the_gain_and_ends_at_three_quarters_of_the_target() {
        // 40 ms: a gain of a third, and 45 ms of queue at 1000 segments/s are 45 segments beyond the 40 of the path. They are seen a round trip
        // later, in which the window has grown by another third.
        let mut path = path(Box::new(plus_plus()), 40, 1000.0);
        assert_eq!(path.window.cwnd, 2.0);
        let first = path.round().cwnd;
        assert!((first - (2.0 + 2.0 / 3.0)).abs() < 1e-6, "{first}");
        while path.window.in_slow_start() {
            path.step();
        }
        assert!((85.0..=120.0).contains(&path.window.cwnd), "{}", path.window.cwnd);
    }

    #[test]
    fn a_slowdown_follows_the_first_slow_start_and_then_each_nine_times_its_length() {
        let mut path = path(Box::new(plus_plus()), 120, 200.0);
        let (mut slowdowns, mut was_slow, mut held) = (Vec::new(), false, Vec::new());
        let mut left = None;
        while path.now < Instant::ZERO + Duration::from_secs(120) {
            path.step();
            let is_slow = path.control.phase(&path.window) == "slowdown";
            if is_slow && !was_slow {
                slowdowns.push(path.now);
                assert_eq!(path.window.cwnd, 2.0);
            }
            if was_slow && !is_slow {
                held.push(path.now.since(*slowdowns.last().expect("one")));
            }
            if !path.window.in_slow_start() && left.is_none() {
                left = Some(path.now);
            }
            was_slow = is_slow;
        }
        let first = slowdowns[0].since(left.expect("slow start ends"));
        assert!((MS(200)..=MS(500)).contains(&first), "two round trips of 120 to 170 ms: {first}");
        assert!(held.iter().all(|held| (MS(230)..=MS(600)).contains(held)), "{held:?}");
        assert!(slowdowns.len() >= 4, "{slowdowns:?}");
        // A slowdown and nine times as long: from one to the next it is ten times its length.
        for pair in slowdowns.windows(2) {
            let between = pair[1].since(pair[0]).as_secs_f64();
            assert!((5.0..=30.0).contains(&between), "{between}");
        }
    }

    #[test]
    fn both_keep_a_queue_below_their_targets() {
        let plus = mean_queue(&mut path(Box::new(plus_plus()), 100, 1000.0), 60);
        assert!((5.0..=62.0).contains(&plus), "{plus}");
        let rfc = mean_queue(&mut path(Box::new(Ledbat::new(&Config::new(Profile::Rfc))), 100, 1000.0), 60);
        assert!((90.0..=104.0).contains(&rfc), "{rfc}");
    }

    #[test]
    fn a_loss_halves_both_windows() {
        for mut control in [
            Box::new(plus_plus()) as Box<dyn Control>,
            Box::new(Ledbat::new(&Config::new(Profile::Rfc))) as Box<dyn Control>,
        ] {
            let mut window = Window { cwnd: 40.0, ssthresh: f64::INFINITY };
            control.on_loss(&ack(1).loss(40), &mut window);
            assert_eq!(window.ssthresh, 20.0);
        }
    }

    #[test]
    fn ledbat_grows_by_no_more_than_a_segment_beyond_what_is_in_flight() {
        let mut control = Ledbat::new(&Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 2.0, ssthresh: 2.0 };
        let idle = Ack { rtt: Some(MS(100)), prior_in_flight: 1000, ..ack(1) };
        (0..10).for_each(|_| control.on_ack(&idle, &mut window));
        assert_eq!(window.cwnd, 2.0, "one segment in flight");
        control.on_ack(&Ack { prior_in_flight: 2000, ..idle }, &mut window);
        assert!((window.cwnd - 2.5).abs() < 1e-9, "{window:?}");
    }

    /// Section 2.4.2 of RFC 6817: `cwnd` is at most what was in flight and ALLOWED_INCREASE, be it larger by then, and a loss halves it, whatever
    /// is in flight.
    #[test]
    fn ledbat_lowers_a_window_that_is_not_in_use_and_halves_all_of_it_at_a_loss() {
        let mut control = Ledbat::new(&Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 10.0, ssthresh: 2.0 };
        control.on_ack(&Ack { rtt: Some(MS(100)), prior_in_flight: 4000, ..ack(1) }, &mut window);
        assert_eq!(window.cwnd, 5.0);
        window.cwnd = 40.0;
        control.on_loss(&ack(1).loss(5), &mut window);
        assert_eq!(window.ssthresh, 20.0);
    }
}
