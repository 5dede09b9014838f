//! Careful Resume: a new connection tries half the window of an earlier one over the same path (RFC 9959).

use super::{Ack, Control, Loss, LossState, LostSegment, Sent, Start, Window};
use crate::config::{Allocation, Config, SavedPath};
use units::{Duration, Instant, Rate};

/// Another control, whose start is helped.
#[derive(Debug)]
pub(crate) struct CarefulResume {
    control: Box<dyn Control>,
    saved: SavedPath,
    mss: f64,
    /// Segments.
    initial_window: f64,
    phase: Phase,
}

/// The phases of section 4. Volumes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The initial data are under way: is it the same path?
    Reconnaissance,
    /// The jump is sent, paced.
    Unvalidated(Jump),
    /// All that was sent without confirmation before `end` is being acknowledged.
    Validating { pipe: u64, end: u64 },
    /// The jump was too large; nothing grows until its last byte, before `end`, is acknowledged.
    SafeRetreat { pipe: u64, end: u64 },
    /// Done, for better or worse.
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Jump {
    /// What the path is known to hold (PipeSize).
    pipe: u64,
    /// The first byte sent without confirmation.
    first: u64,
    since: Instant,
    rtt: Duration,
    window: u64,
    is_spent: bool,
}

impl CarefulResume {
    /// What of the saved window is tried, and what a failed attempt leaves of the confirmed volume (Beta).
    const HALF: f64 = 0.5;

    /// `control` from a path remembered as `saved`.
    pub(crate) fn new(control: Box<dyn Control>, saved: SavedPath, config: &Config) -> Self {
        let (mss, initial_window) = (f64::from(config.mss), config.initial_window);
        Self { control, saved, mss, initial_window, phase: Phase::Reconnaissance }
    }

    /// Whether the path's round-trip time is that of the saved one: more than half of it, and not ten times as long.
    fn is_same_path(&self, min_rtt: Duration) -> bool {
        min_rtt * 2 > self.saved.rtt && min_rtt < self.saved.rtt * 10
    }

    fn reconnoitre(&mut self, ack: &Ack, window: &mut Window) {
        if ack.una <= (self.initial_window.floor() * self.mss) as u64 {
            return;
        }
        let jump = self.saved.cwnd.as_u64() as f64 * Self::HALF;
        if !self.is_same_path(ack.min_rtt) || jump <= window.cwnd * self.mss {
            self.phase = Phase::Normal;
            return;
        }
        window.cwnd = jump / self.mss;
        self.phase = Phase::Unvalidated(Jump {
            pipe: ack.nxt - ack.una,
            first: ack.nxt,
            since: ack.now,
            rtt: ack.srtt,
            window: jump as u64,
            is_spent: false,
        });
    }

    /// Ends the jump when it is sent, when its first byte has arrived, or after a round trip.
    fn jump(&mut self, ack: &Ack, mut jump: Jump, window: &mut Window) {
        jump.pipe += ack.acked;
        self.phase = Phase::Unvalidated(jump);
        if !self.is_same_path(ack.min_rtt) {
            self.retreat(jump.pipe, ack.nxt, window);
            window.cwnd = window.cwnd.min(window.ssthresh);
        } else if jump.is_spent || ack.una > jump.first || ack.now.since(jump.since) > jump.rtt {
            self.validate(ack, jump.pipe, window);
        }
    }

    fn validate(&mut self, ack: &Ack, pipe: u64, window: &mut Window) {
        let flight = ack.nxt - ack.una;
        let segments = flight as f64 / self.mss;
        if segments < self.initial_window || flight <= pipe {
            window.cwnd = (pipe as f64 / self.mss).max(self.initial_window);
            self.phase = Phase::Normal;
        } else {
            window.cwnd = segments;
            self.phase = Phase::Validating { pipe, end: ack.nxt };
        }
    }

    /// Congestion, a loss or a mark, while `nxt` is the next byte: a jump was too large, and none is tried after it.
    fn on_congestion(&mut self, nxt: u64, window: &mut Window) {
        match self.phase {
            Phase::Unvalidated(jump) => self.retreat(jump.pipe, nxt, window),
            Phase::Validating { pipe, end } => self.retreat(pipe, end, window),
            Phase::Reconnaissance => self.phase = Phase::Normal,
            Phase::SafeRetreat { .. } | Phase::Normal => {}
        }
    }

    fn retreat(&mut self, pipe: u64, end: u64, window: &mut Window) {
        window.ssthresh = (pipe as f64 * Self::HALF / self.mss).floor().max(self.initial_window);
        self.phase = Phase::SafeRetreat { pipe, end };
    }

    /// The last byte of the jump has been acknowledged: slow start goes on up to what the path was seen to hold.
    fn leave_retreat(&mut self, ack: &Ack, window: &mut Window) {
        if let Phase::SafeRetreat { pipe, end } = self.phase
            && ack.una >= end
        {
            window.ssthresh = (pipe as f64 * Self::HALF / self.mss).max(2.0);
            self.phase = Phase::Normal;
        }
    }
}

impl Control for CarefulResume {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.control.on_connected(start, window);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.control.on_ack(ack, window);
        match &mut self.phase {
            Phase::Reconnaissance => self.reconnoitre(ack, window),
            Phase::Unvalidated(jump) => {
                let jump = *jump;
                self.jump(ack, jump, window);
            }
            Phase::Validating { end, .. } if ack.una >= *end => self.phase = Phase::Normal,
            Phase::Validating { pipe, .. } => *pipe += ack.acked,
            Phase::SafeRetreat { pipe, .. } => {
                *pipe += ack.acked;
                if ack.state == LossState::Open {
                    self.leave_retreat(ack, window);
                }
            }
            Phase::Normal => {}
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        if !matches!(self.phase, Phase::Unvalidated(_) | Phase::SafeRetreat { .. }) {
            self.control.grow(ack, window);
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.control.on_loss(loss, window);
        self.on_congestion(loss.nxt, window);
    }

    fn on_marks(&mut self, marks: &Loss, window: &mut Window) {
        self.control.on_marks(marks, window);
        if !self.control.governs_window() && self.phase != Phase::Normal {
            self.on_congestion(marks.nxt, window);
            window.cwnd = window.cwnd.min(window.ssthresh);
        }
    }

    fn answers_marks(&self, now: Instant) -> bool {
        self.control.answers_marks(now)
    }

    fn grows_beside_marks(&self) -> bool {
        self.control.grows_beside_marks()
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.control.on_timeout(timeout, window);
        if let Phase::Unvalidated(Jump { pipe, .. }) | Phase::Validating { pipe, .. } = self.phase {
            window.ssthresh = window.ssthresh.min((pipe as f64 * Self::HALF / self.mss).max(2.0));
        }
        self.phase = Phase::Normal;
    }

    fn follows_losses(&self) -> bool {
        self.control.follows_losses()
    }

    fn on_segment_lost(&mut self, now: Instant, lost: &LostSegment, window: &mut Window) {
        self.control.on_segment_lost(now, lost, window);
    }

    fn on_recovered(&mut self, ack: &Ack, window: &mut Window) {
        if matches!(self.phase, Phase::SafeRetreat { .. }) {
            self.leave_retreat(ack, window);
        } else {
            self.control.on_recovered(ack, window);
        }
    }

    fn on_spurious(&mut self, now: Instant, window: &mut Window) {
        self.control.on_spurious(now, window);
    }

    fn on_sent(&mut self, sent: &Sent) {
        if let Phase::Unvalidated(jump) = &mut self.phase {
            jump.is_spent |= sent.in_flight as f64 + self.mss > jump.window as f64;
        }
        self.control.on_sent(sent);
    }

    fn on_restart(&mut self, now: Instant, is_app_limited: bool, window: &mut Window) {
        self.control.on_restart(now, is_app_limited, window);
    }

    fn on_idle(&mut self, now: Instant, idle: Duration) {
        self.control.on_idle(now, idle);
    }

    fn on_cross_layer(&mut self, now: Instant, allocation: Allocation, window: &mut Window) {
        self.control.on_cross_layer(now, allocation, window);
    }

    /// The jump is spread over a round trip.
    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        match self.phase {
            Phase::Unvalidated(jump) => {
                Some(Rate::from_bps((jump.window as f64 * 8.0 / jump.rtt.as_secs_f64().max(1e-6)) as u64))
            }
            _ => self.control.pacing_rate(window),
        }
    }

    fn governs_window(&self) -> bool {
        self.control.governs_window()
    }

    fn phase(&self, window: &Window) -> &'static str {
        match self.phase {
            Phase::Reconnaissance => "reconnaissance",
            Phase::Unvalidated(_) => "unvalidated",
            Phase::Validating { .. } => "validating",
            Phase::SafeRetreat { .. } => "safe-retreat",
            Phase::Normal => self.control.phase(window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::prague::Prague;
    use crate::control::reno::Reno;
    use crate::control::testing::{MSS, Path, ack};
    use crate::profile::Profile;
    use units::Bytes;

    fn resumed() -> Box<CarefulResume> {
        let config = Config { mss: MSS, initial_window: 10.0, ..Config::new(Profile::Rfc) };
        let saved = SavedPath { cwnd: Bytes::new(300_000), rtt: Duration::from_millis(550) };
        Box::new(CarefulResume::new(Box::new(Reno::new(&config)), saved, &config))
    }

    /// Until the phase is `phase`, for a second at most.
    fn until(path: &mut Path, phase: &str) {
        let end = path.now + Duration::from_secs(2);
        while path.control.phase(&path.window) != phase {
            assert!(path.now < end, "never {phase}, but {}", path.control.phase(&path.window));
            path.step();
        }
    }

    #[test]
    fn the_jump_is_half_the_saved_window_spread_over_a_round_trip_and_saves_round_trips() {
        let mut path = Path::new(resumed(), 10.0, Duration::from_millis(550), 10_000.0);
        until(&mut path, "unvalidated");
        assert_eq!(path.window.cwnd, 150.0);
        let rate = path.control.pacing_rate(&path.window).expect("paced").as_bps() as f64;
        assert!((rate / (150.0 * 8.0e3 / 0.55) - 1.0).abs() < 0.01, "{rate}");
        until(&mut path, "validating");
        assert!((140.0..=150.0).contains(&path.window.cwnd), "{:?}", path.window);
        until(&mut path, "slow-start");
        let resumed_after = path.now;
        let mut config = Config { mss: MSS, initial_window: 10.0, ..Config::new(Profile::Rfc) };
        config.slow_start_limit = Some(1.0);
        let mut plain = Path::new(Box::new(Reno::new(&config)), 10.0, Duration::from_millis(550), 10_000.0);
        plain.run(resumed_after.since(plain.now));
        assert!(path.una as f64 > 2.5 * plain.una as f64, "{} {}", path.una, plain.una);
    }

    #[test]
    fn half_the_round_trip_time_or_ten_times_it_is_another_path() {
        for millis in [270, 6_000] {
            let mut path = Path::new(resumed(), 10.0, Duration::from_millis(millis), 10_000.0);
            path.round();
            path.step();
            assert_eq!(path.control.phase(&path.window), "slow-start", "{millis}");
        }
    }

    #[test]
    fn a_loss_while_validating_retreats_to_half_of_what_was_confirmed() {
        let mut control = resumed();
        let mut window = Window { cwnd: 140.0, ssthresh: f64::INFINITY };
        control.phase = Phase::Validating { pipe: 63_000, end: 200_001 };
        let at = |una| Ack { una, nxt: 250_001, ..ack(1) };
        control.on_loss(&Loss { nxt: 250_001, ..ack(1).loss(140) }, &mut window);
        assert_eq!(window.ssthresh, 31.0);
        window.cwnd = 31.0;
        control.on_ack(&Ack { state: LossState::Recovery, ..at(100_001) }, &mut window);
        control.grow(&at(100_001), &mut window);
        assert_eq!(window.cwnd, 31.0);
        // 64 segments were confirmed; slow start may go on to half of them.
        control.on_recovered(&at(200_001), &mut window);
        assert_eq!((window.cwnd, window.ssthresh, control.phase), (31.0, 32.0, Phase::Normal));
    }

    #[test]
    fn marks_are_answered_as_the_control_does_and_end_the_jump() {
        let config = Config { mss: MSS, initial_window: 10.0, ..Config::new(Profile::Rfc) };
        let saved = SavedPath { cwnd: Bytes::new(300_000), rtt: Duration::from_millis(550) };
        let [mut alone, control] = [(); 2].map(|()| Box::new(Prague::new(&config)) as Box<dyn Control>);
        let mut control = CarefulResume::new(control, saved, &config);
        assert!(control.grows_beside_marks());
        let marks = ack(1).loss(140);
        control.phase = Phase::Normal;
        let [mut window, mut expected] = [Window { cwnd: 140.0, ssthresh: 70.0 }; 2];
        control.on_marks(&marks, &mut window);
        alone.on_marks(&marks, &mut expected);
        assert_eq!(window, expected);
        control.phase = Phase::Validating { pipe: 63_000, end: 200_001 };
        control.on_marks(&marks, &mut window);
        assert_eq!((window.cwnd, control.phase), (31.0, Phase::SafeRetreat { pipe: 63_000, end: 200_001 }));
    }

    #[test]
    fn a_small_pipe_retreats_to_the_initial_window_and_a_loss_before_the_jump_forbids_it() {
        let mut control = resumed();
        let mut window = Window { cwnd: 150.0, ssthresh: f64::INFINITY };
        control.phase = Phase::Validating { pipe: 12_000, end: 200_001 };
        control.on_loss(&ack(1).loss(140), &mut window);
        assert_eq!(window.ssthresh, 10.0);
        let mut control = resumed();
        control.on_loss(&ack(1).loss(10), &mut window);
        control.on_ack(&Ack { una: 20_001, nxt: 30_001, min_rtt: Duration::from_millis(550), ..ack(1) }, &mut window);
        assert_eq!(control.phase, Phase::Normal);
    }

    #[test]
    fn a_sender_without_data_to_send_returns_to_what_was_confirmed() {
        let mut control = resumed();
        let mut window = Window { cwnd: 12.0, ssthresh: f64::INFINITY };
        let rtt = Duration::from_millis(550);
        let at = |una, millis| Ack { una, nxt: 20_001, srtt: rtt, min_rtt: rtt, ..ack(1) }.at_millis(millis);
        control.on_ack(&at(10_001, 1000.0), &mut window);
        assert_eq!(window.cwnd, 150.0);
        control.on_ack(&at(15_001, 1600.0), &mut window);
        assert_eq!((window.cwnd, control.phase), (11.0, Phase::Normal));
    }
}
