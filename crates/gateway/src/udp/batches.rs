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

/// What is known of batches to one peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    state: State,
    window: Window,
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
        Self { state: State::Sent(now), window: Window { began: now, sent: 0, lost: 0 } }
    }

    /// Whether to send batches.
    pub(crate) fn are_sent(&self) -> bool {
        matches!(self.state, State::Sent(_))
    }

    /// Whether they have been found to get lost.
    pub(crate) fn are_off(&self) -> bool {
        self.state == State::Off
    }

    /// Takes in how many datagrams were `sent` to the peer and `lost` so far. Returns whether batches have just been found to
    /// get lost where single datagrams do not.
    pub(crate) fn update(&mut self, now: Instant, rtt: Duration, sent: u64, lost: u64) -> bool {
        let period = WINDOW.max(rtt * ROUND_TRIPS);
        let passed = now.since(self.window.began);
        let (new_sent, new_lost) = (sent.saturating_sub(self.window.sent), lost.saturating_sub(self.window.lost));
        if passed < period || (new_sent < ENOUGH && self.state != State::Off) {
            return false;
        }
        self.window = Window { began: now, sent, lost };
        let share = new_lost as f64 / new_sent.max(1) as f64;
        match self.state {
            State::Sent(from) if now >= from && new_lost >= ENOUGH && share >= 0.5 => {
                // What is under way now is still reported as lost: the window after the next is judged.
                self.state = State::Tried(share, now + period * 2);
            }
            State::Tried(before, from) if now >= from => {
                let is_mended = share < MENDED * before;
                self.state = if is_mended { State::Off } else { State::Sent(now + ACQUITTED) };
                return is_mended;
            }
            State::Sent(_) | State::Tried(..) | State::Off => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten datagrams each 100 ms for `seconds`, of which those in batches, and those alone, are lost in these shares, half
    /// a second later. Returns when batches were given up.
    fn given_up(seconds: u64, batched: f64, single: f64) -> (Option<u64>, Batches) {
        let mut batches = Batches::new(Instant::ZERO);
        let (mut sent, mut lost, mut when) = (0, 0.0, None);
        let mut late = std::collections::VecDeque::from([0.0; 5]);
        for step in 0..seconds * 10 {
            sent += 10;
            late.push_back(10.0 * if batches.are_sent() { batched } else { single });
            lost += late.pop_front().unwrap();
            let now = Instant::ZERO + Duration::from_millis(100 * step);
            if batches.update(now, Duration::from_millis(600), sent, lost as u64) {
                assert_eq!(when, None, "said once");
                when = Some(step / 10);
            }
        }
        (when, batches)
    }

    #[test]
    fn batches_that_all_get_lost_are_given_up_within_seconds_for_good() {
        let (when, batches) = given_up(3600, 1.0, 0.001);
        assert!(when.is_some_and(|second| second < 15), "{when:?}");
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
}
