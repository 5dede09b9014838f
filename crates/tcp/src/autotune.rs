//! The receive buffer: the window that follows from it, and its growth with what the application reads (dynamic
//! right-sizing: Fisk and Feng, 2001, as Linux 6.18 does it).

use crate::config::ReceiveBuffer;
use crate::segment::{Flags, Segment};
use crate::timestamp;
use units::{Duration, Instant};

/// The size of a receive buffer over time.
#[derive(Debug)]
pub(crate) struct Autotune {
    size: u64,
    /// The part of it that the window is; `None` for all.
    share: Option<f64>,
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
    /// Bytes in the buffer that came out of order.
    beyond: u64,
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
const MIN_SEGMENT: u32 = 128;
/// Segments that the first round is compared with (`TCP_INIT_CWND`).
const FIRST_ROUND: u64 = 10;

impl Autotune {
    pub(crate) fn new(buffer: &ReceiveBuffer, mss: u32) -> Self {
        let (size, most, mss) = (buffer.size.as_u64(), buffer.most.as_u64(), u64::from(mss));
        let growth = (size < most).then(|| Box::new(Growth::new(size, most, mss)));
        Self { size, share: Some(buffer.share).filter(|share| *share != 1.0), growth }
    }

    /// The connection is established: what is read is counted from now on (`tcp_init_buffer_space`).
    pub(crate) fn start(&mut self, now: Instant) {
        if let Some(growth) = &mut self.growth {
            growth.round_start = Some(now);
        }
    }

    /// The window while `unread` bytes wait for the application. What came out of order takes room, too, in a buffer that
    /// grows (`tcp_space`).
    pub(crate) fn window(&self, unread: u64) -> u64 {
        match &self.growth {
            Some(growth) => growth.allowed.min(self.whole().saturating_sub(unread + growth.beyond)),
            None => self.part(self.size.saturating_sub(unread)),
        }
    }

    /// Whether what arrives leaves the right edge of the window where it is, so that it moves only as the application reads: each
    /// byte that waits takes a byte of the window.
    #[inline]
    pub(crate) fn opens_by_reading_alone(&self) -> bool {
        self.growth.is_none() && self.share.is_none()
    }

    /// Whether it may grow.
    #[inline]
    pub(crate) fn grows(&self) -> bool {
        self.growth.is_some()
    }

    /// The window of the empty buffer.
    fn whole(&self) -> u64 {
        self.part(self.size)
    }

    fn part(&self, room: u64) -> u64 {
        self.share.map_or(room, |share| part(room, share))
    }

    /// The round-trip time, as far as it is measured: 0 before the first sample (`rcv_rtt_est`).
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.growth.as_ref().map(|growth| growth.rtt.unwrap_or(Duration::ZERO))
    }

    /// A segment with `len` new bytes of payload has come, in order or not, and `unread` bytes wait for the application: the
    /// window opens by twice as much, so that it keeps ahead of slow start, as far as the buffer has room (`tcp_grow_window`).
    /// Returns whether it has opened.
    #[inline]
    pub(crate) fn on_arrival(&mut self, len: u32, unread: u64) -> bool {
        let whole = self.whole();
        let Some(growth) = self.growth.as_mut().filter(|_| len >= MIN_SEGMENT) else { return false };
        let before = growth.allowed;
        let most = whole.saturating_sub(unread + growth.beyond);
        growth.allowed = before.max((before + 2 * growth.mss.max(len.into())).min(most));
        growth.allowed > before
    }

    /// `bytes` have come out of order, and what has lies within `span` beyond the hole: the buffer grows by that
    /// (`tcp_data_queue_ofo`).
    pub(crate) fn on_gap(&mut self, bytes: u64, span: u64) {
        let Some(growth) = &mut self.growth else { return };
        growth.beyond += bytes;
        let wanted = size_for(2 * growth.best_round + span, self.share);
        self.size = self.size.max(wanted.min(growth.most));
    }

    /// `bytes` of what came out of order are in order now.
    #[inline]
    pub(crate) fn on_filled(&mut self, bytes: u64) {
        if let Some(growth) = &mut self.growth {
            growth.beyond -= bytes;
        }
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
            self.size = self.size.max(size_for(wanted + beyond, self.share).min(growth.most));
        }
    }
}

/// The part `share` of `room`. Most buffers do without its conversions, which are slow.
#[inline(never)]
fn part(room: u64, share: f64) -> u64 {
    (room as f64 * share) as u64
}

/// The buffer whose part `share` is `window`.
fn size_for(window: u64, share: Option<f64>) -> u64 {
    (window as f64 / share.unwrap_or(1.0)) as u64
}

impl Growth {
    fn new(size: u64, most: u64, mss: u64) -> Self {
        // What segments take of the buffer is not known yet (`TCP_DEFAULT_SCALING_RATIO`; 64 KiB at most in 4.20 to 6.9).
        let first = size / 2;
        Self {
            most,
            mss,
            allowed: (first / mss * mss).max(first.min(mss)),
            beyond: 0,
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
        let echo = segment.timestamps.echo;
        if segment.has(Flags::TIMESTAMPS) && echo > 0 {
            if std::mem::replace(&mut self.echo, echo) != echo && u64::from(segment.len) >= self.mss {
                let rtt = timestamp::since(now, echo).as_nanos() / 1_000_000;
                self.sample(Duration::from_millis(rtt.max(1)));
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
    ///
    /// Linux looks when the first segment has been read, and takes off what has come and waits still: bytes that one
    /// retransmission has put in order are no measure of the rate (`tcp_rcv_space_adjust`). They count in the next round.
    fn on_read(&mut self, now: Instant, bytes: u64) -> Option<u64> {
        if now.since(self.round_start?) < self.rtt? {
            self.read_in_round += bytes;
            return None;
        }
        let first = bytes.min(self.mss);
        let waiting = bytes - first;
        let read = (std::mem::replace(&mut self.read_in_round, waiting) + first).saturating_sub(waiting);
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

    /// Windows in bytes as Linux 6.18 had them with Hybla over `bentpipe lab` (550 ms, the trace point `tcp_rcvbuf_grow`): 65,160
    /// at first; 80,480, what is left of the buffer beside the segment that has just come, when 22 had; and two segments more
    /// for each after the application had read these and a round trip was over.
    #[test]
    fn the_window_opens_by_two_segments_for_each_that_comes_as_far_as_the_buffer_goes() {
        let mut buffer = linux();
        assert_eq!(buffer.window(0), 65_160);
        for _ in 0..22 {
            buffer.on_arrival(MSS, MSS.into());
        }
        assert_eq!(buffer.window(0), 131_072 * 5 / 8 - 1_448, "the kernel counts 1,440: 2,304 of memory");
        read_after_a_round_trip(&mut buffer, 22);
        let before = buffer.window(0);
        for _ in 0..51 {
            buffer.on_arrival(MSS, MSS.into());
        }
        let (slow_start, read) = (2 * 22 * (22 - 10) / 10, 22);
        let most = 2 * (read + slow_start) * u64::from(MSS);
        assert!(
            buffer.window(0) > before && buffer.window(0).abs_diff(most) < 2 * u64::from(MSS),
            "{}",
            buffer.window(0)
        );
        let before = buffer.window(0);
        for _ in 0..51 {
            buffer.on_arrival(20, 20);
        }
        assert_eq!(buffer.window(0), before, "small segments");
    }

    /// The application has read so many segments, one by one, in the first round trip of 550 ms.
    fn read_after_a_round_trip(buffer: &mut Autotune, segments: u64) {
        buffer.start(Instant::ZERO);
        buffer.growth.as_mut().expect("autotuned").rtt = Some(Duration::from_millis(550));
        for number in 1..=segments {
            let at = if number == segments { 550 } else { 300 };
            buffer.on_read(Instant::ZERO + Duration::from_millis(at), MSS.into(), 0);
        }
    }

    /// Linux 6.18 over `bentpipe lab`, 12.43 Mbit/s and 392 ms (`tcp_rcvbuf_grow`): 46,336 bytes a round trip and 102,400 beyond
    /// a hole gave a buffer whose window is 148,735; what came out of order left 48 kB of that.
    #[test]
    fn data_out_of_order_take_room_and_make_more() {
        let mut buffer = linux();
        read_after_a_round_trip(&mut buffer, 16);
        assert_eq!(buffer.growth.as_ref().map(|growth| growth.best_round), Some(16 * u64::from(MSS)));
        let beyond = 70 * u64::from(MSS);
        for number in 1..=70 {
            buffer.on_arrival(MSS, 0);
            buffer.on_gap(MSS.into(), (number + 1) * u64::from(MSS));
        }
        assert!(buffer.whole().abs_diff(33 * u64::from(MSS) + beyond) <= 1);
        assert_eq!(buffer.window(0), buffer.whole() - beyond, "the rest of the buffer");
        buffer.on_filled(beyond);
        let open = buffer.window(0);
        assert!((65_160..buffer.whole()).contains(&open), "it did not open for want of room: {open}");
    }

    /// One retransmission puts 250 kB in order: when the first segment of it is read, the rest waits, and the round trip counts
    /// for nothing (`copied -= inq` in `tcp_rcv_space_adjust`, since 6.16). The rest counts in the next.
    #[test]
    fn what_waits_behind_the_first_segment_read_counts_in_the_next_round_trip() {
        let mut buffer = linux();
        read_after_a_round_trip(&mut buffer, 22);
        let size = buffer.size;
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        buffer.on_read(at(600), 55 * u64::from(MSS), 0);
        buffer.on_read(at(1_150), 175 * u64::from(MSS), 0);
        assert_eq!(buffer.size, size, "56 have been read, 174 wait");
        buffer.on_read(at(1_700), MSS.into(), 0);
        assert_eq!(buffer.growth.as_ref().map(|growth| growth.best_round), Some(175 * u64::from(MSS)));
        assert!(buffer.size > 4 * size, "{}", buffer.size);
    }

    #[test]
    fn a_plain_buffer_is_told_whole() {
        let mut buffer = Autotune::new(&ReceiveBuffer::plain(Bytes::new(1 << 20)), MSS);
        buffer.on_arrival(MSS, MSS.into());
        buffer.on_gap(MSS.into(), 5_000);
        assert_eq!(buffer.window(1000), (1 << 20) - 1000);
    }
}
