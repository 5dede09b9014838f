//! Vegas: a window that keeps a few segments queued at the bottleneck (Brakmo and Peterson, IEEE JSAC 13(8), 1995).

use super::reno::Growth;
use super::{Ack, Control, Loss, LossState, Window};
use crate::config::Config;
use crate::filter::WindowedMax;
use crate::profile::Reading;
use units::{Duration, Instant};

/// The window of Vegas, as in the paper or as in Linux (`tcp_vegas.c`), which differ in the round-trip time that they
/// take of a round (mean, minimum), in what the difference is divided by, and in slow start.
#[derive(Debug)]
pub(crate) struct Vegas {
    reading: Reading,
    alpha: f64,
    beta: f64,
    gamma: f64,
    growth: Growth,
    /// The propagation round-trip time, in seconds.
    base: BaseRtt,
    round: Round,
    /// The paper's slow start doubles every other round trip only, so that it can compare.
    grows_in_this_round: bool,
}

/// The samples of one round trip.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// It ends when this offset is acknowledged.
    end: u64,
    sum: f64,
    min: f64,
    count: u32,
}

impl Round {
    fn until(end: u64) -> Self {
        Self { end, sum: 0.0, min: f64::INFINITY, count: 0 }
    }
}

/// The smallest round-trip time: of the whole connection, or of the last while where paths grow longer (LEO).
#[derive(Debug, Clone, Copy)]
struct BaseRtt {
    /// Negated seconds.
    negated: Option<WindowedMax>,
    window: u64,
}

impl BaseRtt {
    fn new(window: Option<Duration>) -> Self {
        Self { negated: None, window: window.map_or(u64::MAX, Duration::as_nanos) }
    }

    fn sample(&mut self, now: Instant, rtt: f64) {
        match &mut self.negated {
            Some(filter) => {
                filter.update(now.as_nanos(), -rtt, self.window);
            }
            None => self.negated = Some(WindowedMax::new(now.as_nanos(), -rtt)),
        }
    }

    fn forget(&mut self) {
        self.negated = None;
    }

    fn get(&self) -> Option<f64> {
        self.negated.map(|filter| -filter.get())
    }
}

impl Vegas {
    pub(crate) fn new(config: &Config) -> Self {
        let [alpha, beta, gamma] = config.tuning.vegas;
        Self {
            reading: config.rules().reading,
            alpha,
            beta,
            gamma,
            growth: Growth::new(config),
            base: BaseRtt::new(config.tuning.vegas_base_window),
            round: Round::until(0),
            grows_in_this_round: false,
        }
    }

    /// Segments by which the window exceeds what the path holds without a queue: `W (1 - base/RTT)`; Linux divides by
    /// the base instead of the round-trip time, and counts whole segments (`diff` in `tcp_vegas_cong_avoid`).
    fn excess(&self, cwnd: f64, base: f64, rtt: f64) -> f64 {
        match self.reading {
            Reading::Specification => cwnd * (rtt - base) / rtt,
            Reading::Linux => {
                let micros = |seconds: f64| (seconds * 1e6).round() as u64;
                (cwnd as u64 * micros(rtt).saturating_sub(micros(base)) / micros(base).max(1)) as f64
            }
        }
    }

    /// A round trip has passed: what Vegas decides from it.
    fn end_round(&mut self, ack: &Ack, window: &mut Window) {
        let round = std::mem::replace(&mut self.round, Round::until(ack.nxt));
        self.grows_in_this_round = self.reading == Reading::Linux || !self.grows_in_this_round;
        let enough = if self.reading == Reading::Linux { round.count > 2 } else { round.count > 0 };
        let (Some(base), true) = (self.base.get(), enough) else {
            self.grow_as_reno(ack, window);
            return;
        };
        let rtt = if self.reading == Reading::Linux { round.min } else { round.sum / f64::from(round.count) };
        let excess = self.excess(window.cwnd, base, rtt);
        if window.in_slow_start() {
            self.end_slow_start_round(ack, excess, base / rtt, window);
        } else if excess > self.beta {
            window.cwnd = (window.cwnd - 1.0).max(2.0);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if excess < self.alpha {
            window.cwnd += 1.0;
        }
        if self.reading == Reading::Linux {
            window.ssthresh = window.ssthresh.max(window.cwnd * 0.75);
        }
    }

    fn end_slow_start_round(&mut self, ack: &Ack, excess: f64, unqueued: f64, window: &mut Window) {
        if excess <= self.gamma {
            if self.grows_in_this_round {
                self.growth.slow_start(ack, window);
            }
            return;
        }
        if self.reading == Reading::Linux {
            window.cwnd = window.cwnd.min((window.cwnd * unqueued).floor() + 1.0).max(2.0);
        }
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    fn grow_as_reno(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        self.growth.avoid_congestion(beyond, window);
    }
}

impl Control for Vegas {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
        let Some(rtt) = ack.rtt.map(Duration::as_secs_f64) else { return };
        self.base.sample(ack.now, rtt);
        if ack.state == LossState::Open {
            self.round.sum += rtt;
            self.round.min = self.round.min.min(rtt);
            self.round.count += 1;
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        if ack.state != LossState::Open {
            self.grow_as_reno(ack, window);
        } else if ack.una > self.round.end {
            self.end_round(ack, window);
        } else if window.in_slow_start() && self.grows_in_this_round {
            self.growth.slow_start(ack, window);
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = match self.reading {
            Reading::Specification => (window.cwnd * 0.75).max(2.0),
            Reading::Linux => self.growth.half(loss, window),
        };
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
        if self.reading == Reading::Specification {
            window.cwnd = 2.0;
        }
        self.round = Round::until(timeout.nxt);
    }

    fn on_recovered(&mut self, ack: &Ack, _window: &mut Window) {
        self.round = Round::until(ack.nxt);
    }

    /// After a pause, and after a timeout, Linux measures the path from the beginning (`tcp_vegas_cwnd_event`).
    fn on_restart(&mut self, _: Instant, _: bool, _: &mut Window) {
        if self.reading == Reading::Linux {
            self.base.forget();
            self.round = Round::until(self.round.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{Path, ack};
    use crate::profile::Profile;

    fn vegas(profile: Profile) -> Vegas {
        Vegas::new(&Config::new(profile))
    }

    #[test]
    fn the_excess_is_that_of_the_paper_and_of_linux() {
        let paper = vegas(Profile::Rfc);
        assert!((paper.excess(20.0, 0.5, 0.5263) - 1.0).abs() < 2e-3);
        assert!((paper.excess(20.0, 0.5, 0.6) - 3.333).abs() < 1e-3);
        let linux = vegas(Profile::Linux);
        assert_eq!(linux.excess(20.0, 0.5, 0.6), 4.0);
        // 190 segments over 68 ms of which 0.7 are queued (Linux 6.18 over `bentpipe lab`: slow start went on).
        assert_eq!(linux.excess(190.0, 0.068, 0.0687), 1.0, "1.96");
    }

    #[test]
    fn slow_start_doubles_every_other_round_trip_in_the_paper_and_each_in_linux() {
        for (profile, expected) in [(Profile::Rfc, [4.0, 4.0, 8.0, 8.0]), (Profile::Linux, [4.0, 8.0, 16.0, 32.0])] {
            let mut path = Path::new(Box::new(vegas(profile)), 2.0, Duration::from_millis(500), f64::INFINITY);
            let windows = [(); 4].map(|()| path.round().cwnd.round());
            assert_eq!(windows, expected, "{profile:?}");
        }
    }

    #[test]
    fn a_steady_state_keeps_alpha_to_beta_segments_queued() {
        for profile in [Profile::Rfc, Profile::Linux] {
            let control = vegas(profile);
            let (alpha, beta) = (control.alpha, control.beta);
            let mut path = Path::new(Box::new(control), 10.0, Duration::from_millis(500), 100.0);
            for _ in 0..400 {
                path.round();
            }
            for _ in 0..20 {
                let queued = path.round().cwnd - 50.0;
                assert!((alpha - 1.0..=beta + 1.0).contains(&queued), "{profile:?} {queued}");
            }
        }
    }

    #[test]
    fn a_longer_path_is_taken_for_a_queue_unless_the_base_is_windowed() {
        let mut config = Config::new(Profile::Rfc);
        let mut shrunk = [0.0; 2];
        for (k, window) in [None, Some(Duration::from_secs(10))].into_iter().enumerate() {
            config.tuning.vegas_base_window = window;
            let mut path = Path::new(Box::new(Vegas::new(&config)), 2.0, Duration::from_millis(50), 400.0);
            for _ in 0..100 {
                path.round();
            }
            path.propagation = Duration::from_millis(100);
            for _ in 0..300 {
                path.round();
            }
            shrunk[k] = path.window.cwnd;
        }
        assert!(shrunk[0] < 10.0 && shrunk[1] > 35.0, "{shrunk:?}");
    }

    /// A path that has become longer during a pause (`tcp_vegas_init` of Linux).
    #[test]
    fn in_linux_a_pause_ends_the_base() {
        for (profile, recovers) in [(Profile::Rfc, false), (Profile::Linux, true)] {
            let mut path = Path::new(Box::new(vegas(profile)), 2.0, Duration::from_millis(50), 400.0);
            let rounds = |path: &mut Path| {
                for _ in 0..300 {
                    path.round();
                }
            };
            rounds(&mut path);
            path.propagation = Duration::from_millis(100);
            rounds(&mut path);
            assert!(path.window.cwnd < 10.0, "{profile:?}: {}", path.window.cwnd);
            path.control.on_restart(path.now, true, &mut path.window);
            rounds(&mut path);
            assert_eq!(path.window.cwnd > 35.0, recovers, "{profile:?}: {}", path.window.cwnd);
        }
    }

    #[test]
    fn a_loss_costs_a_quarter_and_a_timeout_leaves_two_segments() {
        let mut control = vegas(Profile::Rfc);
        let mut window = Window { cwnd: 20.0, ssthresh: 10.0 };
        let loss = ack(1).loss(20);
        control.on_loss(&loss, &mut window);
        assert_eq!(window.ssthresh, 15.0);
        control.on_timeout(&Loss { expiries: 1, ..loss }, &mut window);
        assert_eq!(window, Window { cwnd: 2.0, ssthresh: 10.0 });
    }
}
