//! Whether the window is in use: one that is not need not grow (`tcp_cwnd_validate` and `tcp_is_cwnd_limited` of Linux 6.x).
//!
//! Linux also lowers a window that is not used for a timeout (`tcp_cwnd_application_limited`), but counts it from the latest
//! acknowledgement of new data (`tcp_cong_avoid` sets `snd_cwnd_stamp`): what still applies then is the restart after an idle time.

use crate::control::Window;

/// How much of the window was used in the current round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// The window held something back.
    is_limited: bool,
    /// The most that was outstanding, in segments, where it did not.
    most: u32,
    /// Both hold until this is acknowledged.
    until: u64,
}

/// What is outstanding after all has left that may.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Everything before this is acknowledged.
    pub(crate) una: u64,
    /// The end of what was ever sent.
    pub(crate) nxt: u64,
    /// What lies between, in segments.
    pub(crate) flight: u32,
}

impl Usage {
    /// Something has left, or the window has held it back.
    pub(crate) fn update(&mut self, is_limited: bool, sent: Sent) {
        if sent.una >= self.until || is_limited || !self.is_limited && sent.flight > self.most {
            *self = Self { is_limited, most: sent.flight, until: sent.nxt };
        }
    }

    /// Whether the window held something back. Slow start, where it says how far `window` opens, goes on up to twice what was
    /// outstanding: a window that falls to one segment when everything is lost comes back though nothing new is to be sent.
    pub(crate) fn is_window_limited(&self, window: Option<&Window>) -> bool {
        let opens = |window: &Window| window.in_slow_start() && window.cwnd < 2.0 * f64::from(self.most);
        self.is_limited || window.is_some_and(opens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(una: u64, nxt: u64) -> Sent {
        Sent { una, nxt, flight: (nxt - una) as u32 }
    }

    fn window(cwnd: f64, ssthresh: f64) -> Window {
        Window { cwnd, ssthresh }
    }

    #[test]
    fn a_window_that_held_something_back_counts_as_used_for_a_round_trip() {
        let mut usage = Usage::default();
        usage.update(true, sent(0, 10));
        usage.update(false, sent(5, 12));
        assert!(usage.is_window_limited(Some(&window(10.0, 5.0))));
        usage.update(false, sent(10, 12));
        assert!(!usage.is_window_limited(Some(&window(10.0, 5.0))));
    }

    #[test]
    fn slow_start_goes_on_to_twice_what_was_outstanding() {
        let mut usage = Usage::default();
        usage.update(false, sent(0, 30));
        assert!(usage.is_window_limited(Some(&window(1.0, 50.0))), "after a timeout");
        assert!(!usage.is_window_limited(Some(&window(60.0, 100.0))));
        assert!(!usage.is_window_limited(Some(&window(50.0, 50.0))), "congestion avoidance");
    }
}
