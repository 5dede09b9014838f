//! The receive buffer: the window that follows from it, and its growth with what the application reads (dynamic
//! right-sizing: Fisk and Feng, 2001, as Linux does it).

use crate::config::ReceiveBuffer;
use crate::segment::{Flags, Segment};
use units::{Duration, Instant};

/// The size of a receive buffer over time.
#[derive(Debug)]
pub(crate) struct Autotune {
    size: u64,
    share: f64,
    /// What is known of the path while the buffer may grow.
    growth: Option<Box<Growth>>,
}

/// How a buffer grows.
#[derive(Debug, Default)]
struct Growth {
    most: u64,
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
        let (size, most) = (buffer.size.as_u64(), buffer.most.as_u64());
        let growth = (size < most).then(|| Box::new(Growth { most, ..Growth::default() }));
        Self { size, share: buffer.share, growth }
    }

    /// The window while `unread` bytes wait for the application.
    pub(crate) fn window(&self, unread: u64) -> u64 {
        if self.share == 1.0 {
            return self.size.saturating_sub(unread);
        }
        (self.size.saturating_sub(unread) as f64 * self.share) as u64
    }

    /// Data came in order: measures the round trip by the echoed timestamp, or by the time that a whole window takes.
    #[inline]
    pub(crate) fn on_data(&mut self, now: Instant, bytes: u64, segment: &Segment, window: u64) {
        if let Some(growth) = &mut self.growth {
            growth.on_data(now, bytes, segment, window);
        }
    }

    /// The application has read: once a round trip the buffer grows to twice what was read in it, and what slow start may
    /// add meanwhile.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, bytes: u64) {
        let Some(growth) = &mut self.growth else { return };
        if let Some(wanted) = growth.on_read(now, bytes) {
            self.size = self.size.max(((wanted as f64 / self.share) as u64).min(growth.most));
            if self.size >= growth.most {
                self.growth = None;
            }
        }
    }
}

impl Growth {
    fn on_data(&mut self, now: Instant, bytes: u64, segment: &Segment, window: u64) {
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

    /// Bytes that the window should have, where a round trip has shown that it should have more.
    fn on_read(&mut self, now: Instant, bytes: u64) -> Option<u64> {
        self.read_in_round += bytes;
        if now.since(self.round_start) < self.rtt? {
            return None;
        }
        let read = std::mem::take(&mut self.read_in_round);
        self.round_start = now;
        if read <= self.best_round {
            return None;
        }
        let growth = read.saturating_sub(self.best_round);
        let slow_start = (2 * read * growth).checked_div(self.best_round).unwrap_or(0);
        self.best_round = read;
        Some(2 * read + 16 * 1460 + slow_start)
    }
}
