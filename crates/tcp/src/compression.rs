//! Linux's compression of selective acknowledgements: while data come out of order, all but the first few acknowledgements
//! wait a millisecond for one another (`__tcp_ack_snd_check` of Linux 6.18).

use units::{Duration, Instant};

/// Acknowledgements of data out of order that wait.
#[derive(Debug, Default)]
pub(crate) struct SackCompression {
    /// Whether any do.
    pub(crate) is_on: bool,
    /// The next byte expected when the last of them came.
    rcv_nxt: u64,
    /// How many have left at once since then: the sender needs some to find the loss.
    sent: u8,
    /// How many wait.
    waiting: u8,
}

/// So many leave at once (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u8 = 3;
/// So many wait at most (`tcp_comp_sack_nr`).
const MAX: u8 = 44;
/// For so long at most (`tcp_comp_sack_delay_ns`), and this part of the round-trip time.
const DELAY: Duration = Duration::from_millis(1);
const SHARE_OF_RTT: u64 = 20;

/// When an acknowledgement leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(Instant),
    /// With the one that waits already.
    WithAnother,
}

impl SackCompression {
    /// None waits yet.
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Data have come out of order, behind the hole at `rcv_nxt`, over a path of this round-trip time if it is known.
    pub(crate) fn hold(&mut self, now: Instant, rcv_nxt: u64, rtt: Option<Duration>) -> Due {
        if self.rcv_nxt != rcv_nxt {
            *self = Self { is_on: self.is_on, rcv_nxt, sent: 0, waiting: 0 };
        }
        if !self.is_on {
            return Due::Now;
        }
        if self.sent < AT_ONCE {
            self.sent += 1;
            return Due::Now;
        }
        if self.waiting >= MAX {
            return Due::Now;
        }
        self.waiting += 1;
        if self.waiting > 1 {
            return Due::WithAnother;
        }
        Due::At(now + rtt.map_or(DELAY, |rtt| DELAY.min(rtt / SHARE_OF_RTT)))
    }

    /// An acknowledgement leaves, for all that wait.
    pub(crate) fn on_acknowledged(&mut self) {
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(100));

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn three_leave_at_once_and_what_comes_within_a_millisecond_leaves_together() {
        let mut held = SackCompression { is_on: true, ..SackCompression::default() };
        assert_eq!([100, 200, 300].map(|now| held.hold(at(now), 5000, RTT)), [Due::Now; 3]);
        assert_eq!(held.hold(at(400), 5000, RTT), Due::At(at(1400)));
        assert_eq!(held.hold(at(500), 5000, RTT), Due::WithAnother);
        held.on_acknowledged();
        assert_eq!(held.hold(at(1500), 5000, RTT), Due::At(at(2500)));
    }

    #[test]
    fn another_hole_and_forty_four_of_them_do_not_wait() {
        let mut held = SackCompression { is_on: true, ..SackCompression::default() };
        let due: Vec<_> = (0..48).map(|_| held.hold(at(0), 5000, RTT)).collect();
        assert_eq!((due[3], due[46], due[47]), (Due::At(at(1000)), Due::WithAnother, Due::Now));
        assert_eq!(held.hold(at(0), 6448, RTT), Due::Now);
    }

    #[test]
    fn a_short_path_waits_for_a_twentieth_of_its_round_trip_time() {
        let mut held = SackCompression { is_on: true, ..SackCompression::default() };
        let rtt = Some(Duration::from_millis(10));
        let due: Vec<_> = (0..4).map(|_| held.hold(at(0), 5000, rtt)).collect();
        assert_eq!(due[3], Due::At(at(500)));
    }
}
