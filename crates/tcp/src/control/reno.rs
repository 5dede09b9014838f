//! Reno's window: slow start and congestion avoidance (RFC 5681), halved at a loss.

use super::slow_start::Exit;
use super::{Ack, Control, Loss, LossState, Window};
use crate::config::{Config, SlowStartExit};
use crate::profile::GrowthRules;

/// The window of RFC 5681.
#[derive(Debug)]
pub(crate) struct Reno {
    growth: Growth,
}

/// How acknowledgements make the window grow and what a loss leaves of it; other controls share it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    /// Segments by which one acknowledgement may open the window in slow start (the L of RFC 3465).
    slow_start_limit: f64,
    /// After a timeout it opens the window by one (RFC 3465, section 2.3), unless slow start has no limit by configuration or profile.
    has_limit_after_timeout: bool,
    /// Whether congestion avoidance counts acknowledgements (ns-2) rather than bytes.
    counts_acks: bool,
    rules: &'static GrowthRules,
    /// Segments acknowledged and not yet turned into window, where that moves in whole segments (`snd_cwnd_cnt` of Linux).
    credit: f64,
    /// What ends slow start before a loss does.
    exit: Exit,
}

impl Growth {
    pub(crate) fn new(config: &Config) -> Self {
        Self::with_exit(config, SlowStartExit::None)
    }

    /// Growth whose slow start ends by `exit` unless the configuration says otherwise.
    pub(crate) fn with_exit(config: &Config, exit: SlowStartExit) -> Self {
        let exit = Exit::new(config.tuning.slow_start_exit.unwrap_or(exit), config);
        let rules = &config.rules().growth;
        Self {
            slow_start_limit: exit.slow_start_limit(config),
            has_limit_after_timeout: config.slow_start_limit.unwrap_or(rules.slow_start_limit).is_finite(),
            counts_acks: config.growth_counts_acks,
            rules,
            credit: 0.0,
            exit,
        }
    }

    /// For each acknowledgement: whether slow start is to end.
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.exit.on_ack(ack, window);
    }

    /// A loss was found.
    pub(crate) fn on_loss(&mut self) {
        self.credit = 0.0;
        self.exit.on_loss();
    }

    /// The retransmission timer expired.
    pub(crate) fn on_timeout(&mut self) {
        self.credit = 0.0;
        self.exit.on_timeout();
    }

    /// What counts as acknowledged, in segments.
    pub(crate) fn acked(&self, ack: &Ack) -> f64 {
        if self.counts_acks { 1.0 } else { ack.acked_segments() }
    }

    /// Slow start below `ssthresh`; what an acknowledgement brings beyond it is returned for congestion avoidance.
    pub(crate) fn slow_start(&self, ack: &Ack, window: &mut Window) -> f64 {
        let acked = self.acked(ack);
        if !window.in_slow_start() {
            return acked;
        }
        let is_after_timeout = ack.state == LossState::Timeout && self.has_limit_after_timeout;
        let limit = if is_after_timeout { 1.0 } else { self.slow_start_limit };
        let wanted = acked.min(limit) * self.exit.growth();
        if self.counts_acks {
            window.cwnd += wanted;
            return 0.0;
        }
        let taken = wanted.min(window.ssthresh - window.cwnd);
        window.cwnd += taken;
        wanted - taken
    }

    /// Slow start, and congestion avoidance with what is left of the acknowledgement.
    pub(crate) fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.slow_start(ack, window);
        if beyond > 0.0 {
            self.avoid_congestion(beyond, window);
        }
    }

    /// One segment more for each window acknowledged.
    pub(crate) fn avoid_congestion(&mut self, acked: f64, window: &mut Window) {
        if !self.rules.grows_by_whole_segments {
            window.cwnd += acked / window.cwnd;
            return;
        }
        let each = window.cwnd.floor().max(1.0);
        self.credit += acked;
        let steps = (self.credit / each).floor();
        self.credit -= steps * each;
        window.cwnd += steps;
    }

    /// A loss was found, and halves the window.
    pub(crate) fn halve(&mut self, loss: &Loss, window: &mut Window) {
        self.on_loss();
        window.ssthresh = self.half(loss, window);
    }

    /// The retransmission timer expired: slow start from one segment to half of the window.
    pub(crate) fn collapse(&mut self, timeout: &Loss, window: &mut Window) {
        self.on_timeout();
        if self.lowers_at(timeout) {
            window.ssthresh = Self::after_timeout(timeout, self.half(timeout, window), window);
        }
        window.cwnd = 1.0;
    }

    /// The `ssthresh` after a timeout that leaves `reduced` of what was in flight: what is sent for the duplicate acknowledgements of a
    /// recovery makes that larger than any window was.
    pub(crate) fn after_timeout(timeout: &Loss, reduced: f64, window: &Window) -> f64 {
        if timeout.state == LossState::Recovery { reduced.min(window.ssthresh) } else { reduced }
    }

    /// What a loss leaves, at least two segments.
    pub(crate) fn half(&self, loss: &Loss, window: &Window) -> f64 {
        let half =
            if self.rules.halves_window { (window.cwnd.floor() / 2.0).floor() } else { loss.flight_segments() / 2.0 };
        half.max(2.0)
    }

    /// Whether a timeout lowers `ssthresh`: not again for the same segment (RFC 5681, section 3.1).
    pub(crate) fn lowers_at(&self, timeout: &Loss) -> bool {
        timeout.expiries == 1 && (self.rules.lowers_again_at_timeout || timeout.state != LossState::Recovery)
    }
}

impl Reno {
    pub(crate) fn new(config: &Config) -> Self {
        Self { growth: Growth::new(config) }
    }
}

impl Control for Reno {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.grow(ack, window);
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;
    use crate::profile::Profile;

    fn window(cwnd: f64, ssthresh: f64) -> Window {
        Window { cwnd, ssthresh }
    }

    #[test]
    fn with_delayed_acknowledgements_slow_start_doubles_where_one_may_open_the_window_by_two() {
        let mut reno = Reno::new(&Config::new(Profile::Rfc));
        let mut open = window(10.0, f64::INFINITY);
        for _ in 0..5 {
            reno.grow(&ack(2), &mut open);
        }
        assert_eq!(open.cwnd, 20.0);
        reno.grow(&ack(7), &mut open);
        assert_eq!(open.cwnd, 22.0);
        reno.grow(&Ack { state: LossState::Timeout, ..ack(2) }, &mut open);
        assert_eq!(open.cwnd, 23.0);
    }

    #[test]
    fn slow_start_ends_at_ssthresh_and_the_rest_counts_for_congestion_avoidance() {
        let mut reno = Reno::new(&Config::new(Profile::Rfc));
        let mut open = window(9.0, 10.0);
        reno.grow(&ack(2), &mut open);
        assert_eq!(open.cwnd, 10.1);
    }

    #[test]
    fn in_linux_the_window_opens_by_a_whole_segment_when_a_window_is_acknowledged() {
        let mut reno = Reno::new(&Config::new(Profile::Linux));
        let mut open = window(4.0, 4.0);
        let windows = [(); 10].map(|()| {
            reno.grow(&ack(1), &mut open);
            open.cwnd
        });
        assert_eq!(windows, [4.0, 4.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0, 6.0]);
        // A loss forgets what was acknowledged towards the next segment.
        reno.on_loss(&ack(1).loss(6), &mut open);
        open.cwnd = open.ssthresh;
        reno.grow(&ack(2), &mut open);
        assert_eq!(open.cwnd, 3.0);
        reno.grow(&ack(1), &mut open);
        assert_eq!(open.cwnd, 4.0);
    }

    #[test]
    fn a_loss_halves_the_flight_and_in_linux_the_window() {
        for (profile, expected) in [(Profile::Rfc, 10.0), (Profile::Linux, 12.0)] {
            let mut open = window(25.5, 30.0);
            Reno::new(&Config::new(profile)).on_loss(&ack(1).loss(20), &mut open);
            assert_eq!(open, window(25.5, expected));
        }
    }

    #[test]
    fn a_timeout_lowers_ssthresh_once_and_in_linux_not_during_a_recovery() {
        for (profile, state, expected) in [
            (Profile::Rfc, LossState::Recovery, 10.0),
            (Profile::Linux, LossState::Recovery, 30.0),
            (Profile::Linux, LossState::Open, 10.0),
        ] {
            let mut reno = Reno::new(&Config::new(profile));
            let mut open = window(20.0, 30.0);
            let timeout = Loss { expiries: 1, state, ..ack(1).loss(20) };
            reno.on_timeout(&timeout, &mut open);
            assert_eq!(open, window(1.0, expected));
            reno.on_timeout(&Loss { expiries: 2, ..timeout }, &mut open);
            assert_eq!(open, window(1.0, expected));
        }
    }

    #[test]
    fn a_timeout_within_a_recovery_does_not_raise_ssthresh_to_half_of_a_flight_that_has_grown_since() {
        let mut reno = Reno::new(&Config::new(Profile::Rfc));
        let mut open = window(50.0, 30.0);
        reno.on_timeout(&Loss { expiries: 1, state: LossState::Recovery, ..ack(1).loss(600) }, &mut open);
        assert_eq!(open, window(1.0, 30.0));
    }
}
