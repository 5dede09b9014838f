//! What both axes act on: the scoreboard, the window, the timers' arithmetic and the congestion control.

use crate::config::Config;
use crate::control::{self, Ack, Control, Loss, Window};
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use std::sync::Arc;
use units::Instant;

/// The sending side of a connection without its loss recovery.
#[derive(Debug)]
pub struct Outstanding {
    /// How this end behaves.
    pub config: Arc<Config>,
    /// The segments in flight.
    pub board: Scoreboard,
    /// The congestion window.
    pub window: Window,
    /// Round-trip times and the retransmission timeout.
    pub rtt: RttEstimator,
    /// The congestion control.
    pub control: Box<dyn Control>,
    /// Duplicates since the last acknowledgement of new data.
    pub duplicates: u32,
    /// New data is waiting to be sent, and the receiver's window allows some of it.
    pub has_new_data: bool,
}

impl Outstanding {
    pub(crate) fn new(config: Arc<Config>, first: u64) -> Self {
        Self {
            board: Scoreboard::new(first, config.recovery.by_time),
            window: Window { cwnd: config.initial_window, ssthresh: config.start_ssthresh() },
            rtt: RttEstimator::new(config.rtt),
            control: control::start(&config),
            duplicates: 0,
            has_new_data: false,
            config,
        }
    }

    /// The congestion window in bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        self.segments(self.window.cwnd)
    }

    /// So many segments in bytes.
    pub fn segments(&self, segments: f64) -> u64 {
        (segments * f64::from(self.config.mss)) as u64
    }

    /// The payload of a full segment in bytes.
    pub fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    /// The facts of a loss found now, of which `flight` bytes were outstanding.
    pub fn loss(&self, now: Instant, flight: u64) -> Loss {
        Loss {
            now,
            mss: self.config.mss,
            flight,
            nxt: self.board.nxt(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            expiries: self.rtt.backoff(),
        }
    }

    /// FlightSize for a loss found by duplicates: without the segments that limited transmit added (RFC 5681, 3.2).
    pub fn flight_without_limited_transmit(&self) -> u64 {
        let limited = if self.config.limited_transmit { u64::from(self.duplicates.min(2)) } else { 0 };
        self.board.flight().saturating_sub(limited * self.mss()).max(self.mss())
    }

    /// Tells the congestion control of a loss. Unless it governs the window, `cwnd` is left for the recovery to move.
    pub fn reduce(&mut self, now: Instant, flight: u64) {
        let loss = self.loss(now, flight);
        self.control.on_loss(&loss, &mut self.window);
    }

    /// Sets `cwnd` unless the congestion control governs it.
    pub fn set_cwnd(&mut self, segments: f64) {
        if !self.control.governs_window() {
            self.window.cwnd = segments;
        }
    }

    /// Lets the window grow for an acknowledgement outside of fast recovery, by the profile's rule on unused windows.
    pub fn grow(&mut self, ack: &Ack) {
        let is_limited = ack.is_window_limited || self.config.grow_when_not_limited;
        if ack.acked > 0 && is_limited && !self.control.governs_window() {
            self.control.grow(ack, &mut self.window);
        }
    }

    /// The retransmission timer expired: everything outstanding counts as lost.
    pub fn collapse(&mut self, now: Instant) {
        let flight = self.board.flight();
        self.rtt.back_off();
        let loss = self.loss(now, flight);
        self.control.on_timeout(&loss, &mut self.window);
        self.board.mark_all_lost();
        self.duplicates = 0;
    }
}
