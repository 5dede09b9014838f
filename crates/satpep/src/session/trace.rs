//! What a session records of its packets, if it is traced.

use crate::packet_number::PacketNumber;
use crate::rtt::RttEstimator;
use crate::sent_packets::{PacketOutcome, SentFrame};
use crate::stream::{StreamNumber, StreamOffset};
use crate::trace::{TraceKind, TracedMetrics, TracedPacket, TracedPiece};
use crate::wire::packet::DATA_OVERHEAD;
use std::collections::VecDeque;
use units::{Instant, Rate};

/// The record of a session, until the endpoint takes it.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    events: VecDeque<(Instant, TraceKind)>,
    /// IP bytes of packets whose outcome is not known.
    in_flight: u64,
    /// Whether the path was measured since it was last recorded, and what was recorded then.
    has_measured: bool,
    pace: Option<Rate>,
    capacity: Option<Rate>,
}

impl Trace {
    /// A packet with `length` bytes of frames left, in an IP packet of `ip_size` bytes.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        number: PacketNumber,
        (length, ip_size): (usize, usize),
        frames: &[SentFrame],
    ) {
        if !frames.is_empty() {
            self.in_flight += u64::from(u16::try_from(ip_size).unwrap_or(u16::MAX));
        }
        let piece = |frame: &SentFrame| match *frame {
            SentFrame::Stream { key, offset, length, fin, .. } => Some(TracedPiece {
                stream: key.number.get(),
                offset: offset.get(),
                length: length.into(),
                is_last: fin,
            }),
            _ => None,
        };
        let pieces = frames.iter().filter_map(piece).collect();
        let packet = TracedPacket { number: number.get(), size: length + DATA_OVERHEAD, pieces };
        self.events.push_back((now, TraceKind::PacketSent(packet)));
    }

    /// A packet with `length` bytes of frames arrived.
    pub(super) fn on_received(&mut self, now: Instant, number: PacketNumber, length: usize) {
        let packet = TracedPacket { number: number.get(), size: length + DATA_OVERHEAD, pieces: Vec::new() };
        self.events.push_back((now, TraceKind::PacketReceived(packet)));
    }

    /// The packet that has just arrived has these data.
    pub(super) fn on_piece(&mut self, stream: StreamNumber, offset: StreamOffset, length: usize, is_last: bool) {
        if let Some((_, TraceKind::PacketReceived(packet))) = self.events.back_mut() {
            packet.pieces.push(TracedPiece { stream: stream.get(), offset: offset.get(), length, is_last });
        }
    }

    /// The outcome of a packet is known.
    pub(super) fn on_outcome(&mut self, now: Instant, packet: &PacketOutcome) {
        self.in_flight = self.in_flight.saturating_sub(packet.ip_size.into());
        self.has_measured = true;
        if !packet.is_acknowledged() {
            self.events.push_back((now, TraceKind::PacketLost(packet.number.get())));
        }
    }

    /// Records what is known of the path and the link, where that has changed.
    pub(super) fn measure(&mut self, now: Instant, rtt: &RttEstimator, pacing_rate: Rate, capacity: Rate) {
        if self.capacity.replace(capacity) != Some(capacity) {
            self.events.push_back((now, TraceKind::Capacity(capacity)));
        }
        let is_other_pace = self.pace.replace(pacing_rate) != Some(pacing_rate);
        if std::mem::take(&mut self.has_measured) || is_other_pace {
            let metrics = TracedMetrics {
                latest_and_min_rtt: rtt.latest().zip(rtt.min()),
                smoothed_rtt: rtt.smoothed(),
                rtt_variation: rtt.variation(),
                in_flight: self.in_flight,
                pacing_rate,
            };
            self.events.push_back((now, TraceKind::Metrics(metrics)));
        }
    }

    pub(super) fn poll(&mut self) -> Option<(Instant, TraceKind)> {
        self.events.pop_front()
    }
}
