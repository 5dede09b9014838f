//! The ends of connections, of whatever protocol: what the agent that runs a pair of them asks of each.

use super::place::Place;
use crate::packet::Body;
use crate::wire::Wire;
use tcp::Window;
use units::{Bytes, Ecn, Instant};

/// One end of a connection.
pub(crate) trait Endpoint {
    /// What it receives.
    type Packet;

    /// A packet has come.
    fn handle_packet(&mut self, now: Instant, packet: &Self::Packet);
    /// Time has come to [`Endpoint::next_at`].
    fn handle_timeout(&mut self, now: Instant);
    /// When it is to be run next though nothing comes.
    fn next_at(&self) -> Instant;
    /// Sends its next packet from the end `port` of `place`, if there is one; counts those with data on the wire.
    fn transmit(&mut self, wire: &mut Wire, place: &Place, port: u32) -> bool;
    /// What its application should know next.
    fn poll_event(&mut self) -> Option<Event>;
    /// The application writes `bytes`; returns how many were taken.
    fn write(&mut self, bytes: u64) -> u64;
    /// The application reads all that has come; returns how much that is.
    fn read(&mut self, now: Instant) -> u64;
    /// The application has written its last byte.
    fn finish(&mut self);
    /// The connection is given up.
    fn abort(&mut self);
    /// The congestion window and slow-start threshold, in full segments.
    fn window(&self) -> Window;
    /// Payload of a full segment.
    fn mss(&self) -> u32;
    /// Whether the connection is over.
    fn is_closed(&self) -> bool;
    /// Where it stands.
    fn standing(&self) -> Standing;
    /// Starts to load what it keeps outside this value, which is loaded itself.
    fn prefetch(&self) {}
}

/// What an end tells its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Connected,
    Readable,
    Writable,
    PeerFinished,
    Closed,
    /// With the reason.
    Failed(String),
}

/// What samples and results say of an end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) window: Window,
    pub(crate) srtt: units::Duration,
    pub(crate) in_flight: u64,
    pub(crate) data_packets: u64,
    pub(crate) retransmissions: u64,
    /// Expiries of the timer of retransmissions or probes.
    pub(crate) timeouts: u64,
}

impl Endpoint for tcp::Connection {
    type Packet = tcp::Segment;

    #[inline]
    fn handle_packet(&mut self, now: Instant, segment: &tcp::Segment) {
        self.handle_segment(now, segment);
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        tcp::Connection::handle_timeout(self, now);
    }

    #[inline]
    fn next_at(&self) -> Instant {
        tcp::Connection::next_at(self)
    }

    #[inline]
    fn transmit(&mut self, wire: &mut Wire, place: &Place, port: u32) -> bool {
        let Some(segment) = self.poll_transmit(wire.now) else { return false };
        wire.data_packets += u64::from(segment.len > 0);
        place.send(wire, port, segment.len + u32::from(segment.header), Body::Tcp(segment));
        true
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let event = tcp::Connection::poll_event(self)?;
        Some(match event {
            tcp::Event::Connected => Event::Connected,
            tcp::Event::Readable => Event::Readable,
            tcp::Event::Writable => Event::Writable,
            tcp::Event::PeerFinished => Event::PeerFinished,
            tcp::Event::Closed => Event::Closed,
            tcp::Event::Failed(failure) => Event::Failed(failure.to_string()),
        })
    }

    #[inline]
    fn write(&mut self, bytes: u64) -> u64 {
        tcp::Connection::write(self, bytes)
    }

    #[inline]
    fn read(&mut self, now: Instant) -> u64 {
        tcp::Connection::read(self, now, u64::MAX)
    }

    fn finish(&mut self) {
        tcp::Connection::finish(self);
    }

    fn abort(&mut self) {
        tcp::Connection::abort(self);
    }

    #[inline]
    fn window(&self) -> Window {
        tcp::Connection::window(self)
    }

    fn mss(&self) -> u32 {
        tcp::Connection::mss(self)
    }

    fn is_closed(&self) -> bool {
        tcp::Connection::is_closed(self)
    }

    fn standing(&self) -> Standing {
        let metrics = self.metrics();
        Standing {
            window: metrics.window,
            srtt: metrics.srtt,
            in_flight: metrics.in_flight,
            data_packets: metrics.counters.data_segments,
            retransmissions: metrics.counters.retransmissions,
            timeouts: metrics.counters.timeouts,
        }
    }

    #[inline]
    fn prefetch(&self) {
        tcp::Connection::prefetch(self);
    }
}

impl Endpoint for quic::Connection {
    type Packet = (quic::Packet, Ecn);

    fn handle_packet(&mut self, now: Instant, (packet, ecn): &(quic::Packet, Ecn)) {
        quic::Connection::handle_packet(self, now, packet, *ecn);
    }

    fn handle_timeout(&mut self, now: Instant) {
        quic::Connection::handle_timeout(self, now);
    }

    fn next_at(&self) -> Instant {
        quic::Connection::next_at(self)
    }

    fn transmit(&mut self, wire: &mut Wire, place: &Place, port: u32) -> bool {
        let Some(packet) = self.poll_transmit(wire.now) else { return false };
        wire.data_packets += u64::from(packet.stream.is_some_and(|stream| stream.len > 0));
        let (size, ecn) = (u32::from(packet.size), self.ecn());
        let id = wire.quic_packets.put(packet);
        place.send(wire, port, size, Body::Quic { id, ecn });
        true
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = quic::Connection::poll_event(self)?;
        Some(match event {
            quic::Event::Connected => Event::Connected,
            quic::Event::Readable => Event::Readable,
            quic::Event::Writable => Event::Writable,
            quic::Event::PeerFinished => Event::PeerFinished,
            quic::Event::Closed => Event::Closed,
            quic::Event::Failed(failure) => Event::Failed(failure.to_string()),
        })
    }

    fn write(&mut self, bytes: u64) -> u64 {
        quic::Connection::write(self, bytes)
    }

    fn read(&mut self, _: Instant) -> u64 {
        quic::Connection::read(self, u64::MAX)
    }

    fn finish(&mut self) {
        quic::Connection::finish(self);
    }

    fn abort(&mut self) {
        quic::Connection::abort(self);
    }

    fn window(&self) -> Window {
        quic::Connection::window(self)
    }

    fn mss(&self) -> u32 {
        self.max_datagram_size()
    }

    fn is_closed(&self) -> bool {
        quic::Connection::is_closed(self)
    }

    fn standing(&self) -> Standing {
        let metrics = self.metrics();
        Standing {
            window: metrics.window,
            srtt: metrics.srtt,
            in_flight: metrics.in_flight,
            data_packets: metrics.counters.data_packets,
            retransmissions: metrics.counters.retransmissions,
            timeouts: metrics.counters.ptos,
        }
    }
}

/// So many full segments of `mss` bytes.
pub(crate) fn bytes(segments: f64, mss: u32) -> Bytes {
    Bytes::new((segments * f64::from(mss)) as u64)
}
