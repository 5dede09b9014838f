//! The receiving half of the stream: order, and how far the peer may send.

use crate::config::{Config, FlowWindow};
use crate::packet::{Limits, StreamFrame};
use units::{Duration, Instant, RangeSet};

/// Bytes on their way in.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    received: RangeSet,
    /// Where the stream ends, once that is known.
    end: Option<u64>,
    read: u64,
    stream: Credit,
    connection: Credit,
    /// New limits are to be sent.
    is_due: bool,
}

/// One of the limits of flow control (RFC 9000, section 4).
#[derive(Debug)]
struct Credit {
    size: u64,
    most: u64,
    /// The limit last sent.
    limit: u64,
    /// When it was last sent.
    limit_sent_at: Option<Instant>,
}

impl Credit {
    fn new(window: FlowWindow) -> Self {
        let size = window.size.as_u64();
        Self { size, most: window.most.as_u64(), limit: size, limit_sent_at: None }
    }

    /// Whether half of the window is read when `read` bytes are, so that a new limit is to be sent.
    fn is_due(&self, read: u64) -> bool {
        self.limit.saturating_sub(read) <= self.size / 2
    }

    /// Raises the limit, which is sent now. If the peer used up half of the window within two round trips of the limit before, the window
    /// is what limits it, and doubles.
    fn renew(&mut self, now: Instant, read: u64, srtt: Duration) {
        let is_fast = self.limit_sent_at.is_some_and(|at| now.since(at) < srtt * 2);
        if is_fast && self.is_due(read) {
            self.size = (self.size * 2).min(self.most);
        }
        self.limit_sent_at = Some(now);
        self.limit = self.limit.max(read + self.size);
    }
}

impl ReceiveStream {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            received: RangeSet::new(),
            end: None,
            read: 0,
            stream: Credit::new(config.stream_window),
            connection: Credit::new(config.connection_window),
            is_due: false,
        }
    }

    /// A part of the stream. What lies beyond the limits, or beyond the stream's end, is ignored: an honest peer sends none.
    pub(crate) fn on_frame(&mut self, frame: StreamFrame) {
        let end = frame.offset + u64::from(frame.len);
        if end > self.stream.limit.min(self.connection.limit) || self.end.is_some_and(|last| end > last) {
            return;
        }
        self.received.insert(frame.offset..end);
        if frame.fin {
            self.end = Some(end);
        }
    }

    /// Bytes that arrived in order.
    pub(crate) fn in_order(&self) -> u64 {
        self.received.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// Bytes in order that wait to be read.
    pub(crate) fn readable(&self) -> u64 {
        self.in_order() - self.read
    }

    /// Whether the stream has arrived as a whole.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.in_order())
    }

    /// Takes up to `most` bytes.
    pub(crate) fn read(&mut self, most: u64) -> u64 {
        let bytes = self.readable().min(most);
        self.read += bytes;
        // Who has sent the last byte needs no room.
        let is_due = self.stream.is_due(self.read) || self.connection.is_due(self.read);
        self.is_due |= self.end.is_none() && bytes > 0 && is_due;
        bytes
    }

    /// Whether new limits are to be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The packet with the limits was lost.
    pub(crate) fn send_limits_again(&mut self) {
        self.is_due = self.end.is_none();
    }

    /// The limits, which leave now.
    pub(crate) fn limits(&mut self, now: Instant, srtt: Duration) -> Limits {
        self.is_due = false;
        self.stream.renew(now, self.read, srtt);
        self.connection.renew(now, self.read, srtt);
        self.first_limits()
    }

    /// The limits as they are.
    pub(crate) fn first_limits(&self) -> Limits {
        Limits { stream: self.stream.limit, connection: self.connection.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    const RTT: Duration = Duration::from_millis(100);

    fn stream(size: u64, most: u64) -> ReceiveStream {
        let window = FlowWindow { size: Bytes::new(size), most: Bytes::new(most) };
        ReceiveStream::new(&Config { stream_window: window, ..Config::default() })
    }

    fn frame(offset: u64, len: u32, fin: bool) -> StreamFrame {
        StreamFrame { offset, len, fin }
    }

    #[test]
    fn bytes_are_read_in_order_and_once() {
        let mut stream = stream(10_000, 10_000);
        stream.on_frame(frame(1000, 500, true));
        assert_eq!((stream.readable(), stream.is_finished()), (0, false));
        stream.on_frame(frame(0, 1200, false));
        stream.on_frame(frame(0, 1200, false));
        assert_eq!((stream.read(700), stream.read(u64::MAX), stream.read(u64::MAX)), (700, 800, 0));
        assert!(stream.is_finished());
    }

    #[test]
    fn what_a_peer_may_not_send_is_ignored() {
        let mut stream = stream(2_000, 2_000);
        stream.on_frame(frame(1_500, 501, false));
        stream.on_frame(frame(0, 100, true));
        stream.on_frame(frame(100, 100, false));
        assert_eq!(stream.readable(), 100);
    }

    #[test]
    fn half_a_window_read_is_told_and_a_window_that_limits_doubles_up_to_its_most() {
        let mut stream = stream(2_000, 5_000);
        let mut now = Instant::ZERO;
        stream.on_frame(frame(0, 999, false));
        stream.read(u64::MAX);
        assert!(!stream.is_due());
        stream.on_frame(frame(999, 1, false));
        stream.read(u64::MAX);
        assert!(stream.is_due());
        // No grant came before the first one: how fast the peer uses them is not known yet.
        assert_eq!(stream.limits(now, RTT).stream, 1_000 + 2_000);
        now += RTT;
        stream.on_frame(frame(1_000, 1_000, false));
        stream.read(u64::MAX);
        assert_eq!(stream.limits(now, RTT).stream, 2_000 + 4_000);
        // It takes its time: the window is not what limits it.
        now += RTT * 3;
        stream.on_frame(frame(2_000, 2_000, false));
        stream.read(u64::MAX);
        assert_eq!(stream.limits(now, RTT).stream, 4_000 + 4_000);
        now += RTT;
        stream.on_frame(frame(4_000, 2_000, false));
        stream.read(u64::MAX);
        assert_eq!(stream.limits(now, RTT).stream, 6_000 + 5_000);
    }
}
