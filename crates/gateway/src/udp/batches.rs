//! Whether batches of datagrams (UDP_SEGMENT, udp(7)) arrive at a peer. Some drivers and paths, PPPoE among them, lose every
//! datagram of a batch without a word and carry the same ones sent one by one.

use units::{Duration, Instant};

/// Losses are judged over so long at least, and over as many round trips.
const WINDOW: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u64 = 4;
/// As many lost datagrams say something.
const ENOUGH: u64 = 20;
/// Sending one by one has mended it if less than this part of the former share of losses is left.
const MENDED: f64 = 0.25;
/// How long batches are not suspected again after they were not to blame.
const ACQUITTED: Duration = Duration::from_secs(600);

/// So often they have to get lost, and single datagrams not, for them to be to blame: losses may end by chance when they are tried.
const TRIALS: u32 = 2;

/// What is known of batches to one peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    state: State,
    window: Window,
    /// Trials in a row in which single datagrams arrived where batches had not.
    trials: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Batches are sent, and not suspected before this time.
    Sent(Instant),
    /// None is sent, to see whether the share of losses, which was this, gets better; not judged before this time.
    Tried(f64, Instant),
    /// They are to blame: none is sent any more.
    Off,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    sent: u64,
    lost: u64,
}

impl Batches {
    /// They are sent.
    pub(crate) fn new(now: Instant) -> Self {
        Self { state: State::Sent(now), window: Window { began: now, sent: 0, lost: 0 }, trials: 0 }
    }

    /// Whether to send batches.
    pub(crate) fn are_sent(&self) -> bool {
        matches!(self.state, State::Sent(_))
    }

    /// Whether they have been found to get lost.
    pub(crate) fn are_off(&self) -> bool {
        self.state == State::Off
    }

    /// The peer does not answer: of what was sent in that time, and shortly before, losses say nothing.
    pub(crate) fn on_outage(&mut self, now: Instant, rtt: Duration) {
        if self.state != State::Off {
            (self.state, self.trials) = (State::Sent(now + period(rtt) * 2), 0);
        }
    }

    /// Takes in how many datagrams were `sent` to the peer and `lost` so far, in all sessions with it. Returns whether batches have just been found to
    /// get lost where single datagrams do not.
    pub(crate) fn update(&mut self, now: Instant, rtt: Duration, sent: u64, lost: u64) -> bool {
        let period = period(rtt);
        let passed = now.since(self.window.began);
        let (new_sent, new_lost) = (sent.saturating_sub(self.window.sent), lost.saturating_sub(self.window.lost));
        if passed < period || (new_sent < ENOUGH && self.state != State::Off) {
            return false;
        }
        self.window = Window { began: now, sent, lost };
        let share = new_lost as f64 / new_sent.max(1) as f64;
        match self.state {
            State::Sent(from) if now < from => {}
            State::Sent(_) if new_lost >= ENOUGH && share >= 0.5 => {
                // What is under way now is still reported as lost: the window after the next is judged.
                self.state = State::Tried(share, now + period * 2);
            }
            State::Sent(_) => self.trials = 0,
            State::Tried(before, from) if now >= from => self.judge_trial(now, share < MENDED * before),
            State::Tried(..) | State::Off => {}
        }
        self.trials == TRIALS && std::mem::replace(&mut self.state, State::Off) != State::Off
    }

    fn judge_trial(&mut self, now: Instant, is_mended: bool) {
        if is_mended {
            (self.state, self.trials) = (State::Sent(now), self.trials + 1);
        } else {
            (self.state, self.trials) = (State::Sent(now + ACQUITTED), 0);
        }
    }
}

fn period(rtt: Duration) -> Duration {
    WINDOW.max(rtt * ROUND_TRIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(600);

    /// Ten datagrams each 100 ms for `seconds`, of which those in batches, and those alone, are lost in these shares by the second,
    /// half a second later. The gateway knows of an outage after a second if `is_noticed`. Returns when batches were given up.
    fn given_up_over(
        seconds: u64,
        loss: impl Fn(u64) -> [f64; 2],
        is_noticed: impl Fn(u64) -> bool,
    ) -> (Option<u64>, Batches) {
        let mut batches = Batches::new(Instant::ZERO);
        let (mut sent, mut lost, mut when) = (0, 0.0, None);
        let mut late = std::collections::VecDeque::from([0.0; 5]);
        for step in 0..seconds * 10 {
            sent += 10;
            let [batched, single] = loss(step / 10);
            late.push_back(10.0 * if batches.are_sent() { batched } else { single });
            lost += late.pop_front().unwrap();
            let now = Instant::ZERO + Duration::from_millis(100 * step);
            if is_noticed(step / 10) {
                batches.on_outage(now, RTT);
            } else if batches.update(now, RTT, sent, lost as u64) {
                assert_eq!(when, None, "said once");
                when = Some(step / 10);
            }
        }
        (when, batches)
    }

    fn given_up(seconds: u64, batched: f64, single: f64) -> (Option<u64>, Batches) {
        given_up_over(seconds, |_| [batched, single], |_| false)
    }

    #[test]
    fn batches_that_all_get_lost_are_given_up_within_seconds_for_good() {
        let (when, batches) = given_up(3600, 1.0, 0.001);
        assert!(when.is_some_and(|second| second < 30), "{when:?}");
        assert!(batches.are_off());
    }

    #[test]
    fn a_path_that_loses_everything_or_little_keeps_them() {
        for loss in [0.0, 0.01, 0.3, 0.9] {
            let (when, batches) = given_up(3600, loss, loss);
            assert_eq!(when, None, "{loss}");
            assert!(!batches.are_off());
        }
    }

    #[test]
    fn outages_that_come_again_and_again_are_not_blamed_on_them() {
        for every in 6..60 {
            for lasts in 1..5 {
                let is_out = |second: u64| second % every < lasts;
                let loss = |second| if is_out(second) { [1.0; 2] } else { [0.001; 2] };
                let is_noticed = |second: u64| is_out(second) && !second.is_multiple_of(every);
                let (when, _) = given_up_over(600, loss, is_noticed);
                assert_eq!(when, None, "every {every} s for {lasts} s");
            }
        }
    }
}
