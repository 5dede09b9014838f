//! The receive buffer: the window that follows from it, and its growth with what the application reads (dynamic
//! right-sizing: Fisk and Feng, 2001, as Linux does it).

use crate::config::ReceiveBuffer;
use crate::segment::{Flags, Segment};
use units::{Duration, Instant};

/// The size of a receive buffer over time.
#[derive(Debug)]
pub(crate) struct Autotune {
    size: u64,
    most: u64,
    share: f64,
    /// The receiver's own estimate of the round-trip time.
    rtt: Option<Duration>,
    /// The round trip being measured by arrivals: when it began and the byte count that ends it.
    window_round: Option<(Instant, u64)>,
    arrived: u64,
    round_start: Instant,
    read_in_round: u64,
    best_round: u64,
}

impl Autotune {
    pub(crate) fn new(buffer: &ReceiveBuffer) -> Self {
        Self {
            size: buffer.size.as_u64(),
            most: buffer.most.as_u64().max(buffer.size.as_u64()),
            share: buffer.share,
            rtt: None,
            window_round: None,
            arrived: 0,
            round_start: Instant::ZERO,
            read_in_round: 0,
            best_round: 0,
        }
    }

    /// The window while `unread` bytes wait for the application.
    pub(crate) fn window(&self, unread: u64) -> u64 {
        if self.share == 1.0 {
            return self.size.saturating_sub(unread);
        }
        (self.size.saturating_sub(unread) as f64 * self.share) as u64
    }

    fn is_fixed(&self) -> bool {
        self.size >= self.most
    }

    /// Data came in order: measures the round trip by the echoed timestamp, or by the time that a whole window takes.
    pub(crate) fn on_data(&mut self, now: Instant, bytes: u64, segment: &Segment, window: u64) {
        if self.is_fixed() {
            return;
        }
        self.arrived += bytes;
        let echo = u64::from(segment.timestamps.echo);
        if segment.has(Flags::TIMESTAMPS) && echo > 0 {
            let rtt = Duration::from_millis((now.as_nanos() / 1_000_000).saturating_sub(echo).max(1));
            self.rtt = Some(self.rtt.map_or(rtt, |known| known.min(rtt)));
            return;
        }
        match self.window_round {
            Some((began, end)) if self.arrived >= end => {
                self.rtt = Some(now.since(began));
                self.window_round = Some((now, self.arrived + window));
            }
            Some(_) => {}
            None => self.window_round = Some((now, self.arrived + window)),
        }
    }

    /// The application has read: once a round trip the buffer grows to twice what was read in it, and what slow start may
    /// add meanwhile.
    pub(crate) fn on_read(&mut self, now: Instant, bytes: u64) {
        if self.is_fixed() {
            return;
        }
        self.read_in_round += bytes;
        let Some(rtt) = self.rtt else { return };
        if now.since(self.round_start) < rtt {
            return;
        }
        let read = std::mem::take(&mut self.read_in_round);
        self.round_start = now;
        if read <= self.best_round {
            return;
        }
        let growth = read.saturating_sub(self.best_round);
        let slow_start = (2 * read * growth).checked_div(self.best_round).unwrap_or(0);
        let wanted = 2 * read + 16 * 1460 + slow_start;
        self.best_round = read;
        self.size = self.size.max(((wanted as f64 / self.share) as u64).min(self.most));
    }
}
