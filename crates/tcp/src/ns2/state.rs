//! What all agents share: the numbers of packets, the window, and what may leave.

use super::clock::{Bounds, Clock};
use units::Instant;

/// Duplicates that trigger a fast retransmission (`numdupacks_`).
pub(super) const DUPLICATES: u64 = 3;

/// The last reason to close the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Duplicates,
    Timeout,
    Recovered,
}

/// The parameters of an agent that are not always ns-2's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// The receiver's window in packets (`window_`).
    pub(super) window: u64,
    /// The slow-start threshold at the start, in packets; ns-2 takes the window.
    pub(super) ssthresh: u64,
    /// The congestion window after the first acknowledgement, in packets (`windowInit_`).
    pub(super) initial_window: f64,
    /// Vegas' alpha, beta and gamma in packets.
    pub(super) vegas: [f64; 3],
    /// Of the retransmission timer.
    pub(super) timeout: Bounds,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack<'a> {
    pub(super) now: Instant,
    /// So many packets have arrived in order.
    pub(super) una: u64,
    /// Packets beyond: the first of each run, and the one after its last.
    pub(super) sacked: &'a [(u64, u64)],
}

/// State common to the agents; numbers count packets from 0.
#[derive(Debug)]
pub(super) struct State {
    /// Packets before it have arrived.
    pub(super) una: u64,
    /// The next to send in order; behind `high` after a timeout.
    pub(super) nxt: u64,
    /// All before it were sent.
    pub(super) high: u64,
    /// All before it may be sent.
    pub(super) available: u64,
    pub(super) cwnd: f64,
    pub(super) ssthresh: u64,
    /// The receiver's window.
    pub(super) window: u64,
    pub(super) initial_window: f64,
    /// By how much duplicates have inflated the window.
    pub(super) inflation: u64,
    pub(super) duplicates: u64,
    /// `high` when the window was last closed: no fast retransmission until something beyond has arrived.
    pub(super) recover: u64,
    pub(super) action: Action,
    pub(super) clock: Clock,
    /// Expiries of the timer with packets outstanding, and fast retransmissions that closed the window.
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    /// Leaves next whatever the window.
    forced: Option<u64>,
    /// So many packets may yet leave in order in this event.
    burst: u64,
}

impl State {
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            una: 0,
            nxt: 0,
            high: 0,
            available: 0,
            cwnd: 1.0,
            ssthresh: parameters.ssthresh,
            window: parameters.window,
            initial_window: parameters.initial_window,
            inflation: 0,
            duplicates: 0,
            recover: 1,
            action: Action::None,
            clock: Clock::new(&parameters.timeout),
            timeouts: 0,
            recoveries: 0,
            forced: None,
            burst: 0,
        }
    }

    /// The first packet stands for the handshake of a peer that opened the connection: it has arrived already.
    pub(super) fn skip_first(&mut self) {
        (self.una, self.nxt, self.high, self.available) = (1, 1, 1, 1);
        self.cwnd = self.initial_window;
    }

    /// Something is sent and not acknowledged in order.
    pub(super) fn has_outstanding(&self) -> bool {
        self.una < self.high
    }

    /// The window with its fraction.
    fn exact_window(&self) -> f64 {
        (self.cwnd + self.inflation as f64).min(self.window as f64)
    }

    /// The window in whole packets.
    #[inline]
    pub(super) fn whole_window(&self) -> u64 {
        (u64::from(self.cwnd as u32) + self.inflation).min(self.window)
    }

    /// Whether the window could reach beyond what is known to be available, now that packets before `una` have arrived.
    #[inline]
    pub(super) fn may_run_out(&self, una: u64) -> bool {
        self.available <= una + self.window
    }

    /// Nothing leaves any more in this event.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.burst == 0 && self.forced.is_none()
    }

    /// The window opens by one acknowledgement, whether it was in use or not.
    pub(super) fn open(&mut self) {
        self.cwnd += if self.cwnd < self.ssthresh as f64 { 1.0 } else { 1.0 / self.cwnd };
    }

    /// Half of the window becomes the threshold, in whole packets. Returns it with its fraction.
    pub(super) fn halve_threshold(&mut self) -> f64 {
        let half = self.exact_window() / 2.0;
        self.ssthresh = (half as u64).max(2);
        half
    }

    /// New packets have arrived: outside fast recovery the window opens too.
    pub(super) fn on_new_ack(&mut self, ack: &Ack) {
        self.on_new_ack_without_growth(ack);
        self.open();
        if self.una == 1 {
            self.cwnd = self.initial_window;
        }
    }

    pub(super) fn on_new_ack_without_growth(&mut self, ack: &Ack) {
        self.duplicates = 0;
        self.una = ack.una;
        self.nxt = self.nxt.max(ack.una);
        self.clock.on_new_ack(ack.una, ack.now);
        self.clock.restart(ack.now);
    }

    /// Whether a fast retransmission is not one too many for the same window of data.
    pub(super) fn may_retransmit_fast(&self) -> bool {
        self.una > self.recover || self.una == 1
    }

    /// A fast retransmission closes the window to half, and the timer restarts.
    pub(super) fn halve_and_retransmit(&mut self, now: Instant) {
        self.on_fast_retransmission();
        self.cwnd = self.halve_threshold();
        self.clock.restart(now);
        self.clock.forget_timing();
        self.force(self.una);
    }

    /// Duplicates close the window, once for what is outstanding.
    pub(super) fn on_fast_retransmission(&mut self) {
        self.recover = self.high;
        self.action = Action::Duplicates;
        self.recoveries += 1;
    }

    /// Limited transmit (RFC 3042): a new packet on the first and second duplicate.
    pub(super) fn send_one(&mut self) {
        let within_cwnd = (self.nxt + 1) as f64 <= self.una as f64 + self.cwnd + self.duplicates as f64;
        if self.nxt < self.una + self.window && self.nxt < self.available && within_cwnd {
            self.force(self.nxt);
            self.nxt += 1;
        }
    }

    /// The timer expired: back to the first outstanding packet, with a window of one.
    pub(super) fn time_out(&mut self, now: Instant) {
        let outstanding = self.has_outstanding();
        self.recover = self.high;
        if self.una == 0 {
            self.initial_window = 1.0;
        }
        if outstanding {
            self.timeouts += 1;
            self.halve_threshold();
            self.clock.back_off();
        }
        self.cwnd = 1.0;
        self.go_back(now);
        if !outstanding {
            self.clock.stop();
        }
        self.action = Action::Timeout;
        self.may_send(u64::MAX);
    }

    /// Everything from the first outstanding packet on is to be sent again.
    pub(super) fn go_back(&mut self, now: Instant) {
        self.clock.restart(now);
        self.clock.forget_timing();
        self.nxt = self.una;
    }

    /// A packet to send now whatever the window.
    pub(super) fn force(&mut self, packet: u64) {
        self.forced = Some(packet);
    }

    /// In this event so many packets may leave in order.
    pub(super) fn may_send(&mut self, burst: u64) {
        self.burst = burst;
    }

    pub(super) fn take_forced(&mut self) -> Option<u64> {
        self.forced.take()
    }

    /// Whether the event may send yet another packet in order; `next` then says which.
    pub(super) fn take_burst(&mut self) -> bool {
        let may = self.burst > 0;
        self.burst = self.burst.saturating_sub(1);
        may
    }

    /// No more in this event.
    pub(super) fn end_burst(&mut self) {
        self.burst = 0;
    }

    pub(super) fn next(&mut self) -> Option<u64> {
        if let Some(forced) = self.take_forced() {
            return Some(forced);
        }
        if self.nxt < self.una + self.whole_window() && self.nxt < self.available && self.take_burst() {
            self.nxt += 1;
            return Some(self.nxt - 1);
        }
        self.end_burst();
        None
    }

    pub(super) fn on_sent(&mut self, packet: u64, now: Instant) {
        let nothing_outstanding = self.una == self.high;
        self.time_packet(packet, now);
        if nothing_outstanding {
            self.clock.restart(now);
        } else {
            self.clock.restart_if_idle(now);
        }
    }

    pub(super) fn time_packet(&mut self, packet: u64, now: Instant) {
        if packet >= self.high {
            self.high = packet + 1;
            self.clock.on_new_packet(packet, now);
        }
    }
}
