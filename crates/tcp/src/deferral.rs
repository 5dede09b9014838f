//! Linux hands data down in pieces of several segments, and waits a moment for the window to hold such a piece
//! (`tcp_tso_should_defer`, `tcp_tso_autosize` of Linux 6.18): not for longer than a millisecond, so that it is the segments of
//! links faster than that which leave in pieces. What is paced leaves in pieces, too.

use crate::outstanding::Outstanding;
use units::{Duration, Instant};

/// Whether data that the window allows waits for more room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deferral {
    /// Bytes of a piece that has been let go and not yet left.
    left: u32,
    /// Some of it has.
    has_begun: bool,
}

/// What there is to send, and how much of it the windows hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes not yet sent that are there to send.
    pub(crate) waiting: u64,
    /// Bytes that the peer's window still allows.
    pub(crate) receive_window: u64,
    /// The peer's whole window.
    pub(crate) advertised_window: u64,
    /// When the latest segment left, or the next may, where they are paced.
    pub(crate) last_sent_at: Instant,
    /// Nothing is being repaired.
    pub(crate) is_open: bool,
}

/// Only what follows another write so soon waits.
const RECENT: Duration = Duration::from_millis(1);
/// This share of the window is large enough to go at once (`tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;
/// The largest piece, and the smallest that is waited for, in segments.
const LARGEST: u64 = 65_536;
const MIN: u64 = 2;
/// Below this many bytes a second BBR sends segments singly.
const SLOW: u64 = 150_000;

impl Deferral {
    /// Whether the next `bytes` wait; they do at most until the next acknowledgement.
    pub(crate) fn holds(&mut self, now: Instant, bytes: u64, room: Room, out: &Outstanding) -> bool {
        if u64::from(self.left) >= bytes {
            self.left -= bytes as u32;
            self.has_begun = true;
            return false;
        }
        self.has_begun = false;
        let cwnd = out.cwnd_bytes();
        let available = cwnd.saturating_sub(out.pipe()).min(room.receive_window);
        let piece = piece(out);
        let may_wait =
            room.is_open && room.waiting > out.mss() && available >= out.mss() && now <= room.last_sent_at + RECENT;
        let is_short = available < piece && available < cwnd.min(room.advertised_window) / WINDOW_DIVISOR;
        let soon = (out.rtt.srtt() / 2).min(RECENT);
        let answer_is_near = || out.board.first_sent_at().is_some_and(|first| first + out.rtt.srtt() <= now + soon);
        let waits = may_wait && is_short && answer_is_near();
        let whole = available.min(piece) / out.mss() * out.mss();
        let is_cut = available == room.receive_window && available < piece;
        let let_go = if is_cut && available >= out.mss() { available } else { whole };
        self.left = if waits { 0 } else { let_go.saturating_sub(bytes) as u32 };
        waits
    }

    /// Whether a piece has begun to leave: its segments leave together, whatever the pacer says.
    pub(crate) fn is_within_piece(&self) -> bool {
        self.left > 0
    }

    /// No more of the piece leaves.
    pub(crate) fn end_piece(&mut self) {
        *self = Self::default();
    }

    /// Whether the segment that left last was the end of a piece of several.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_begun && self.left == 0
    }

    /// Whether part of a segment, which the peer's window cuts off, is the end of the piece that is leaving
    /// (`tcp_mss_split_point`, with `TCP_NODELAY`).
    pub(crate) fn ends_with(&self, bytes: u64) -> bool {
        u64::from(self.left) == bytes
    }
}

/// The size of a piece: what leaves in about a millisecond at the rate of the window, more on the shortest paths.
fn piece(out: &Outstanding) -> u64 {
    let in_a_millisecond = pacing_rate(out) / 1024;
    let halvings = out.rtt.min_rtt().as_nanos() / 1000 / 512;
    let near = if halvings < 32 { LARGEST >> halvings } else { 0 };
    // BBR: `bbr_min_tso_segs`.
    let least = if out.control.governs_window() && in_a_millisecond < SLOW / 1024 { 1 } else { MIN };
    ((in_a_millisecond + near).min(LARGEST) / out.mss()).max(least) * out.mss()
}

/// Bytes a second at which Linux paces or would: twice the window's while it doubles, and a fifth above it later.
fn pacing_rate(out: &Outstanding) -> u64 {
    if let Some(rate) = out.control.pacing_rate(&out.window) {
        return rate.as_bps() / 8;
    }
    let (srtt, cwnd) = (out.rtt.srtt().as_nanos() / 1000, out.cwnd_bytes());
    let percent = if out.window.cwnd < out.window.ssthresh / 2.0 { 200 } else { 120 };
    cwnd.saturating_mul(percent * 10_000) / srtt.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::profile::Profile;
    use crate::rtt::RttRules;
    use std::sync::Arc;

    const MSS: u64 = 1448;

    /// Twelve segments of window over 10 ms, `in_flight` of them used 8 ms ago.
    fn outstanding(in_flight: u64) -> Outstanding {
        let config = Config { mss: MSS as u32, initial_ssthresh: 6.0, ..Config::new(Profile::Linux) };
        let mut out = Outstanding::new(Arc::new(config), 0);
        out.set_cwnd(12.0);
        out.rtt.sample(&RttRules::linux(), Duration::from_millis(10), 0, 0);
        out.rtt.sample_min(&RttRules::linux(), Instant::ZERO, Duration::from_millis(10));
        (0..in_flight).for_each(|_| out.board.on_sent(at(2000), MSS as u32));
        out
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn room(last_sent_at: Instant) -> Room {
        Room {
            waiting: 1_000_000,
            receive_window: 1_000_000,
            advertised_window: 1_000_000,
            last_sent_at,
            is_open: true,
        }
    }

    #[test]
    fn one_segment_waits_for_a_second_while_answers_are_near() {
        let mut deferral = Deferral::default();
        let now = at(11_100);
        assert!(deferral.holds(now, MSS, room(at(10_900)), &outstanding(11)));
        let two = outstanding(10);
        assert!(!deferral.holds(now, MSS, room(at(10_900)), &two), "a piece is there");
        assert!(!deferral.holds(now, MSS, room(now), &outstanding(11)), "its second half");
        assert!(deferral.holds(now, MSS, room(now), &outstanding(11)), "the piece has left");
    }

    #[test]
    fn nothing_waits_that_no_answer_would_release_soon() {
        let holds = |now, room, out: &Outstanding| Deferral::default().holds(now, MSS, room, out);
        let one = outstanding(11);
        let now = at(11_100);
        assert!(!holds(now, room(at(10_000)), &one), "the latest write was a while ago");
        assert!(!holds(at(10_900), room(at(10_800)), &one), "the first segment's answer is more than 1 ms away");
        assert!(!holds(now, Room { waiting: MSS, ..room(at(10_900)) }, &one), "the last segment");
        assert!(!holds(now, room(at(10_900)), &outstanding(0)), "nothing is in flight");
        assert!(!holds(now, Room { is_open: false, ..room(at(10_900)) }, &one), "a repair");
        assert!(!holds(now, room(at(10_900)), &outstanding(12)), "what the window does not allow is not ours to hold");
    }

    /// A control that is given may set any window.
    #[test]
    fn a_piece_of_a_huge_window_is_the_largest() {
        for cwnd in [1e10, 1e30] {
            let mut out = outstanding(1);
            out.set_cwnd(cwnd);
            assert_eq!(piece(&out), LARGEST / MSS * MSS, "{cwnd}");
        }
    }

    /// Linux 6.18 over `bentpipe lab`, a window of 81,920 bytes: segments of 1,448 and one of 1,200 in turns.
    #[test]
    fn the_peers_window_cuts_a_segment_off_at_the_end_of_a_piece() {
        let advertised_window = 12 * MSS;
        let within = |receive_window| Room { receive_window, advertised_window, ..room(at(10_000)) };
        let mut deferral = Deferral::default();
        assert!(!deferral.holds(at(12_000), MSS, within(MSS + 1_200), &outstanding(2)));
        assert!(deferral.ends_with(1_200), "what is left of the window");
        assert!(!deferral.holds(at(12_000), MSS, within(4 * MSS), &outstanding(9)));
        assert!(!deferral.ends_with(1_200), "the congestion window holds whole segments");
    }

    /// A third of the whole window goes at once (`tcp_tso_win_divisor`), not of what is left of it.
    #[test]
    fn what_is_left_of_the_peers_window_waits_like_that_of_the_congestion_window() {
        let left = Room { receive_window: MSS + 500, advertised_window: 12 * MSS, ..room(at(10_900)) };
        assert!(Deferral::default().holds(at(11_100), MSS, left, &outstanding(2)));
    }
}
