//! The receive buffer: the window that follows from it, and its growth with what the application reads (dynamic
//! right-sizing: Fisk and Feng, 2001, as Linux 6.18 does it).

use crate::config::ReceiveBuffer;
use crate::segment::{Flags, Segment};
use units::{Duration, Instant};

/// The size of a receive buffer over time.
#[derive(Debug)]
pub(crate) struct Autotune {
    size: u64,
    share: f64,
    /// What is known of the path where the buffer may grow.
    growth: Option<Box<Growth>>,
}

/// How a buffer and the window made of it grow.
#[derive(Debug)]
struct Growth {
    most: u64,
    mss: u64,
    /// The window is not larger, whatever the buffer holds (`rcv_ssthresh`).
    allowed: u64,
    /// The receiver's own estimate of the round-trip time.
    rtt: Option<Duration>,
    /// The latest echo that was taken for it.
    echo: u32,
    /// The round trip being measured by arrivals: when it began and the byte count that ends it.
    window_round: Option<(Instant, u64)>,
    arrived: u64,
    round_start: Option<Instant>,
    read_in_round: u64,
    best_round: u64,
}

/// Segments with less payload do not open the window (`tcp_event_data_recv`).
const LEAST_SEGMENT: u32 = 128;
/// Segments that the first round is compared with (`TCP_INIT_CWND`).
const FIRST_ROUND: u64 = 10;

impl Autotune {
    pub(crate) fn new(buffer: &ReceiveBuffer, mss: u32) -> Self {
        let (size, most, mss) = (buffer.size.as_u64(), buffer.most.as_u64(), u64::from(mss));
        let growth = (size < most).then(|| Box::new(Growth::new(size, most, mss)));
        Self { size, share: buffer.share, growth }
    }

    /// The window while `unread` bytes wait for the application.
    pub(crate) fn window(&self, unread: u64) -> u64 {
        let room = self.size.saturating_sub(unread);
        let room = if self.share == 1.0 { room } else { (room as f64 * self.share) as u64 };
        self.growth.as_ref().map_or(room, |growth| room.min(growth.allowed))
    }

    /// The round-trip time, as far as it is measured: 0 before the first sample (`rcv_rtt_est`).
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.growth.as_ref().map(|growth| growth.rtt.unwrap_or(Duration::ZERO))
    }

    /// A segment with `len` new bytes of payload has come, in order or not: the window opens by twice as much, so that it
    /// keeps ahead of slow start (`tcp_grow_window`). Returns whether it has opened.
    #[inline]
    pub(crate) fn on_arrival(&mut self, len: u32) -> bool {
        let Some(growth) = self.growth.as_mut().filter(|_| len >= LEAST_SEGMENT) else { return false };
        let most = (self.size as f64 * self.share) as u64;
        let before = growth.allowed;
        growth.allowed = before.max((before + 2 * growth.mss.max(len.into())).min(most));
        growth.allowed > before
    }

    /// Data came in order: measures the round trip by the echoed timestamp, or by the time that a whole window takes.
    #[inline]
    pub(crate) fn on_data(&mut self, now: Instant, bytes: u64, segment: &Segment, window: u64) {
        if let Some(growth) = &mut self.growth {
            growth.on_data(now, bytes, segment, window);
        }
    }

    /// The application has read: once a round trip the buffer grows to twice what was read in it, what slow start may add
    /// meanwhile, and `beyond`, what has come out of order.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, bytes: u64, beyond: u64) {
        let Some(growth) = &mut self.growth else { return };
        if let Some(wanted) = growth.on_read(now, bytes) {
            self.size = self.size.max((((wanted + beyond) as f64 / self.share) as u64).min(growth.most));
        }
    }
}

impl Growth {
    fn new(size: u64, most: u64, mss: u64) -> Self {
        // What segments take of the buffer is not known yet (`TCP_DEFAULT_SCALING_RATIO`; 64 KiB at most in 4.20 to 6.9).
        let first = size / 2;
        Self {
            most,
            mss,
            allowed: (first / mss * mss).max(first.min(mss)),
            rtt: None,
            echo: 0,
            window_round: None,
            arrived: 0,
            round_start: None,
            read_in_round: 0,
            best_round: (FIRST_ROUND * mss).min(first),
        }
    }

    fn on_data(&mut self, now: Instant, bytes: u64, segment: &Segment, window: u64) {
        self.arrived += bytes;
        self.round_start.get_or_insert(now);
        let echo = segment.timestamps.echo;
        if segment.has(Flags::TIMESTAMPS) && echo > 0 {
            if std::mem::replace(&mut self.echo, echo) != echo && u64::from(segment.len) >= self.mss {
                let rtt = (now.as_nanos() / 1_000_000).saturating_sub(echo.into()).max(1);
                self.sample(Duration::from_millis(rtt));
            }
            return;
        }
        match self.window_round {
            Some((began, end)) if self.arrived >= end => {
                self.rtt = Some(self.rtt.map_or(now.since(began), |known| known.min(now.since(began))));
                self.window_round = Some((now, self.arrived + window));
            }
            Some(_) => {}
            None => self.window_round = Some((now, self.arrived + window)),
        }
    }

    /// A shorter round trip is believed at once, a longer one by an eighth (`tcp_rcv_rtt_update`).
    fn sample(&mut self, rtt: Duration) {
        self.rtt = Some(match self.rtt {
            Some(known) if known < rtt => known - known / 8 + rtt / 8,
            _ => rtt,
        });
    }

    /// Bytes that the window should have, where a round trip has shown that it should have more (`tcp_rcvbuf_grow`).
    fn on_read(&mut self, now: Instant, bytes: u64) -> Option<u64> {
        self.read_in_round += bytes;
        if now.since(self.round_start?) < self.rtt? {
            return None;
        }
        let read = std::mem::take(&mut self.read_in_round);
        self.round_start = Some(now);
        if read <= self.best_round {
            return None;
        }
        let slow_start = u128::from(2 * read) * u128::from(read - self.best_round) / u128::from(self.best_round.max(1));
        self.best_round = read;
        Some(2 * read + 2 * slow_start as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    const MSS: u32 = 1448;

    fn linux() -> Autotune {
        Autotune::new(&ReceiveBuffer::linux(), MSS)
    }

    /// Windows in segments as Linux 6.18 told them to Hybla over `bentpipe lab` (550 ms): 45 at first, 56.6 when 22 segments
    /// had come, and two more for each after the application had read these and a round trip was over.
    #[test]
    fn the_window_opens_by_two_segments_for_each_that_comes_as_far_as_the_buffer_goes() {
        let mut buffer = linux();
        let segments = |buffer: &Autotune| (buffer.window(0) as f64 / f64::from(MSS) * 10.0).round() / 10.0;
        assert_eq!(segments(&buffer), 45.0);
        for _ in 0..22 {
            buffer.on_arrival(MSS);
        }
        assert_eq!(segments(&buffer), 56.6);
        let growth = buffer.growth.as_mut().expect("autotuned");
        (growth.rtt, growth.round_start) = (Some(Duration::from_millis(550)), Some(Instant::ZERO));
        buffer.on_read(Instant::ZERO + Duration::from_millis(550), 22 * u64::from(MSS), 0);
        for _ in 0..51 {
            buffer.on_arrival(MSS);
        }
        assert_eq!(segments(&buffer), 149.6, "what 22 segments a round trip may become");
        for _ in 0..51 {
            buffer.on_arrival(20);
        }
        assert_eq!(segments(&buffer), 149.6, "small segments");
    }

    #[test]
    fn a_plain_buffer_is_told_whole() {
        let mut buffer = Autotune::new(&ReceiveBuffer::plain(Bytes::new(1 << 20)), MSS);
        buffer.on_arrival(MSS);
        assert_eq!(buffer.window(1000), (1 << 20) - 1000);
    }
}
