//! What follows the first loss: the window from one loss or overflow to the next, until all is sent.
//!
//! A model of long transfers speaks of a mean window. A transfer of some `1 / p` segments sees a few losses, each at a place of its
//! own, and never that mean; so the window is followed here, by the equations of its control, over losses at random places.

use super::course::PLACES;
use crate::cubic;
use units::CounterRandom;

/// After so many losses the rest goes as the later half of them went.
const LOSSES: u64 = 64;
/// A window that grows for long is followed in so many steps.
const STEPS: f64 = 24.0;
/// An overflow is at least so many steps away, until a step is a round trip.
const AHEAD: f64 = 16.0;
/// Of the places of losses.
const SEED: u64 = 0x105e5;
/// Segments of a transfer without end: many more than there are from a reduction of the window to the next.
const LONG: f64 = 1e15;
/// Transfers over which the mean of one without end is taken where losses alone count.
const RUNS: u64 = 16;

/// How the window grows, and what a loss leaves of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Growth {
    /// By so many segments in a round trip; half is left.
    Linear(f64),
    /// RFC 9438.
    Cubic,
}

/// A transfer that loses segments. Windows are in segments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lossy {
    pub(super) growth: Growth,
    /// The probability that a segment is lost.
    pub(super) loss: f64,
    /// The window that fills the line or the receiver's buffer: more is of no use.
    pub(super) full: f64,
    /// The receiver's window.
    pub(super) most: f64,
    /// What link and queue hold: a window of that size loses a segment.
    pub(super) room: f64,
    /// A round, with the times of the segments that are acknowledged together.
    pub(super) rtt_s: f64,
    /// What a retransmission that is lost again costs.
    pub(super) timeout_s: f64,
}

/// Time while the window is full, and while it is not because of a loss or of an overflow of link and queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) full_s: f64,
    pub(super) after_loss_s: f64,
    pub(super) after_overflow_s: f64,
}

impl Spent {
    pub(super) fn total_s(&self) -> f64 {
        self.full_s + self.after_loss_s + self.after_overflow_s
    }

    /// What goes by below a full window, after what reduced it.
    fn below(&mut self, cause: Cause, time_s: f64) {
        match cause {
            Cause::Loss => self.after_loss_s += time_s,
            Cause::Overflow => self.after_overflow_s += time_s,
        }
    }

    /// With `share` of `other`.
    fn with(self, other: Self, share: f64) -> Self {
        Self {
            full_s: self.full_s + share * other.full_s,
            after_loss_s: self.after_loss_s + share * other.after_loss_s,
            after_overflow_s: self.after_overflow_s + share * other.after_overflow_s,
        }
    }

    /// With `share` of what has been spent since `before` once more.
    fn and_again(self, before: Self, share: f64) -> Self {
        let later = |now: f64, before: f64| now + share * (now - before);
        Self {
            full_s: later(self.full_s, before.full_s),
            after_loss_s: later(self.after_loss_s, before.after_loss_s),
            after_overflow_s: later(self.after_overflow_s, before.after_overflow_s),
        }
    }
}

/// What reduces a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A segment that the link lost.
    Loss,
    /// A window above what link and queue hold.
    Overflow,
}

impl Lossy {
    /// Segments per second of a transfer without end that has nothing but losses.
    pub(super) fn rate(&self) -> f64 {
        let segments = 2.0 * LOSSES as f64 / self.loss;
        let at_loss = 1.3 / self.loss.sqrt();
        let time_s = |run| self.time_s(at_loss, Cause::Loss, segments, run).total_s();
        segments / (0..RUNS).map(time_s).sum::<f64>() * RUNS as f64
    }

    /// The mean time of a segment of a transfer without end. It is over the runs that transfers with an end have, so that long ones
    /// come to the same.
    pub(super) fn segment_without_end(&self) -> Spent {
        let segments = if self.loss > 0.0 { LONG.max(2.0 * LOSSES as f64 / self.loss) } else { LONG };
        let at_loss = self.room.min(1.3 / self.loss.sqrt());
        let share = 1.0 / (segments * f64::from(PLACES));
        let run = |number: u32| self.time_s(at_loss, Cause::Loss, segments, u64::from(number));
        (0..PLACES).map(run).fold(Spent::default(), |mean, spent| mean.with(spent, share))
    }

    /// The time that `segments` segments take after a `cause` reduced a window of `at_loss`. Each `run` has losses at other places,
    /// which an overflow between them leaves where they are.
    pub(super) fn time_s(&self, at_loss: f64, cause: Cause, segments: f64, run: u64) -> Spent {
        if segments <= 0.0 {
            return Spent::default();
        }
        let places = CounterRandom::new(SEED, run);
        let mut window = Window::new(self.growth, at_loss.min(self.most), cause);
        let (mut spent, mut sent) = (Spent::default(), 0.0);
        let mut half = (spent, sent);
        let (mut losses, mut next_loss) = (0, 0.0);
        for number in 0..LOSSES {
            if number == LOSSES / 2 {
                half = (spent, sent);
            }
            if next_loss <= sent {
                next_loss = sent + self.until_loss(places.unit_at(losses));
                losses += 1;
            }
            sent += self.until(&mut window, next_loss - sent, segments - sent, &mut spent);
            if sent >= segments {
                return spent;
            }
        }
        spent.and_again(half.0, (segments - sent) / (sent - half.1))
    }

    /// Segments up to the next loss, for a `share` of the probability.
    fn until_loss(&self, share: f64) -> f64 {
        if self.loss == 0.0 { f64::INFINITY } else { (-share).ln_1p() / (-self.loss).ln_1p() }
    }

    /// From a reduction of the window to the next, a round trip after which its cause is found. Returns the segments sent, at most `left`.
    fn until(&self, window: &mut Window, until_loss: f64, left: f64, spent: &mut Spent) -> f64 {
        let cause = window.cause;
        spent.below(cause, self.loss * self.timeout_s);
        // The round of the recovery goes with the reduced window, as far as the receiver has room behind the segment that is missing.
        let allowed = window.start.min(self.most - window.at_loss);
        spent.below(cause, (1.0 - allowed / window.start) * self.rtt_s);
        let mut sent = self.send(window.start, allowed.min(until_loss).min(left), cause, spent);
        let (mut rounds, mut time_s) = (0.0, 0.0);
        let mut now = window.start;
        while sent < until_loss.min(left) && now < self.room {
            let unsent = until_loss.min(left) - sent;
            // The segments of a step are not lost in rounding.
            let least = (until_loss.min(left) * 4.0 * f64::EPSILON / now).max(1.0);
            let mut step = (unsent / now / STEPS).max(least);
            // No step goes more than a part of the way to the overflow.
            let is_far =
                |step: f64| window.after(rounds + AHEAD * step, time_s + AHEAD * step * self.rtt_s) > self.room;
            while step > least && is_far(step) {
                step = (step / 2.0).max(least);
            }
            let middle = window.after(rounds + step / 2.0, time_s + step / 2.0 * self.rtt_s).min(self.most);
            let segments = (middle * step).min(unsent);
            let before_s = spent.total_s();
            sent += self.send(middle, segments, cause, spent);
            rounds += segments / middle;
            time_s += spent.total_s() - before_s;
            now = window.after(rounds, time_s).min(self.most);
        }
        let next = if sent < until_loss { Cause::Overflow } else { Cause::Loss };
        let after_loss = now.min(left - sent);
        sent += self.send(now, after_loss, cause, spent);
        if until_loss < left {
            // Even where nothing more is to be sent.
            spent.below(cause, (1.0 - after_loss / now) * self.rtt_s);
        }
        window.reduce(now, next);
        sent
    }

    /// A window that grows carries whole segments only: half a segment less in the mean.
    fn send(&self, window: f64, segments: f64, cause: Cause, spent: &mut Spent) -> f64 {
        let whole = (window - 0.5).max(1.0);
        if window < self.full {
            spent.below(cause, segments / whole * self.rtt_s);
        } else {
            spent.full_s += segments / self.full * self.rtt_s;
        }
        segments
    }
}

/// The window since it was last reduced.
struct Window {
    growth: Growth,
    cause: Cause,
    at_loss: f64,
    start: f64,
    cubic: cubic::Epoch,
}

impl Window {
    /// After the first reduction, of a window of `at_loss`.
    fn new(growth: Growth, at_loss: f64, cause: Cause) -> Self {
        let mut window = Self { growth, cause, at_loss, start: 1.0, cubic: cubic::Epoch::default() };
        window.reduce(at_loss, cause);
        window
    }

    fn reduce(&mut self, at_loss: f64, cause: Cause) {
        self.at_loss = at_loss;
        self.cause = cause;
        match self.growth {
            Growth::Linear(_) => self.start = (at_loss / 2.0).max(1.0),
            Growth::Cubic => {
                self.cubic.reduce(at_loss);
                self.start = self.cubic.start();
            }
        }
    }

    fn after(&self, rounds: f64, time_s: f64) -> f64 {
        match self.growth {
            Growth::Linear(segments) => self.start + segments * rounds,
            Growth::Cubic => self.cubic.window(rounds, time_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENO: Lossy = Lossy {
        growth: Growth::Linear(1.0),
        loss: 1e-3,
        full: 1e9,
        most: f64::INFINITY,
        room: f64::INFINITY,
        rtt_s: 0.5,
        timeout_s: 0.0,
    };

    fn mean_s(lossy: &Lossy, at_loss: f64, segments: f64) -> f64 {
        let time = |run| lossy.time_s(at_loss, Cause::Loss, segments, run).total_s();
        (0..200).map(time).sum::<f64>() / 200.0
    }

    /// However long the transfer, and however short the queue.
    #[test]
    fn windows_that_overflow_a_queue_have_the_same_rate_in_transfers_of_any_length() {
        for growth in [Growth::Linear(1.0), Growth::Cubic] {
            for room in [30.0, 110.0, 300.0] {
                let lossy = Lossy { growth, loss: 0.0, full: 100.0, most: 1e6, room, rtt_s: 0.1, timeout_s: 0.0 };
                let time = |segments: f64| lossy.time_s(room, Cause::Overflow, segments, 0).total_s() / segments;
                let short = time(100_000.0);
                for segments in [1e6, 1e7, 1e8, 1e9] {
                    let ratio = time(segments) / short;
                    assert!((0.98..1.02).contains(&ratio), "{growth:?}, room for {room}, {segments}: {ratio}");
                }
            }
        }
    }

    /// Ott, Kemperman and Mathis 1996: where losses come at random, 1.3098 / sqrt(p) segments in a round trip. What the law leaves
    /// out counts the more the smaller the window: recoveries, and that a window carries whole segments.
    #[test]
    fn in_the_long_run_the_window_is_that_of_random_losses() {
        for (loss, tolerance) in [(1e-6, 0.02), (1e-5, 0.03), (1e-4, 0.05), (1e-3, 0.08)] {
            let window = Lossy { loss, ..RENO }.rate() * RENO.rtt_s;
            let law = 1.3098 / f64::sqrt(loss);
            assert!((window / law - 1.0).abs() < tolerance, "{loss}: {window}, not {law}");
        }
    }

    /// Behind a segment that is missing, a full receiver has no room: the round of the recovery is lost.
    #[test]
    fn a_recovery_with_a_full_receive_buffer_sends_nothing_new() {
        let lossy = Lossy { loss: 1e-9, most: 100.0, full: 100.0, ..RENO };
        let wide = Lossy { most: 1e9, ..lossy };
        let more = mean_s(&lossy, 100.0, 1000.0) - mean_s(&wide, 100.0, 1000.0);
        assert!((0.3..0.5).contains(&more), "{more}");
    }

    #[test]
    fn a_transfer_shorter_than_the_way_to_a_loss_keeps_its_window() {
        let time_s = mean_s(&Lossy { loss: 1e-9, ..RENO }, 200.0, 1000.0);
        // A round of 100, then from 100 on by one in a round trip: 900 segments in 8.6 of them.
        assert!((time_s - 0.5 * 9.62).abs() < 0.05, "{time_s}");
    }

    #[test]
    fn more_never_takes_less() {
        for growth in [Growth::Linear(1.0), Growth::Cubic] {
            let lossy = Lossy { growth, full: 60.0, most: 200.0, room: 90.0, ..RENO };
            let times: Vec<f64> = (0..200).map(|n| mean_s(&lossy, 50.0, 100.0 * f64::from(n))).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    }
}
