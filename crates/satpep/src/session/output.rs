//! Filling a packet: what goes first, and what waits for the link's pace.

use super::Session;
use crate::capacity::Detail;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::HEADROOM;
use crate::sent_packets::{SentFrame, SentFrames, StreamKey};
use crate::stream::Sent;
use crate::wire::frame::{PathFrame, Writer};
use peering::dscp::Dscp;
use units::Instant;

/// What a packet is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Acknowledgements, credits, resets, probes: small, and sent whatever the pace.
    Now,
    /// Stream data, at the link's pace.
    Paced,
    /// FEC repair symbols, where the link would idle.
    Idle,
}

/// A packet's frames, written and recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) number: PacketNumber,
    pub(crate) length: usize,
    /// How much of the length was left out.
    pub(crate) elided: usize,
    /// How to mark it.
    pub(crate) dscp: Dscp,
}

impl<P: Payload> Session<P> {
    /// Less room than this is not worth another stream frame.
    const MIN_FRAME: usize = 32;

    /// Whether something must leave now.
    pub(crate) fn has_urgent(&self) -> bool {
        self.streams.next_control().is_some()
            || self.credit.limit_due
            || self.liveness.is_ping_due()
            || self.farewell.is_due()
            || self.drain.has_something_to_say()
    }

    /// Whether an acknowledgement is due.
    pub(crate) fn owes_ack(&self, now: Instant) -> bool {
        self.ack_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When an acknowledgement is due. It waits a little for what is being recovered, so that it is not sent again.
    pub(super) fn ack_deadline(&self) -> Option<Instant> {
        let recovered = self.decoder.working_since().map_or(Instant::ZERO, |since| since + self.ack_delay());
        self.received.ack_deadline().map(|deadline| deadline.max(recovered))
    }

    /// Whether something waits for the link's pace.
    pub(crate) fn has_paced(&self, now: Instant) -> bool {
        !self.is_stalled() && (!self.classes.is_empty() || self.has_probe(now) || self.start_probe.is_due())
    }

    /// Whether a stream waits that may pass others.
    pub(crate) fn has_sparse(&self) -> bool {
        self.classes.has_sparse()
    }

    /// Whether it is time to probe the path's MTU.
    pub(crate) fn has_probe(&self, now: Instant) -> bool {
        self.path.mtu.next_probe_at().is_some_and(|at| at <= now)
    }

    /// Takes the size of an IP packet to probe the path with, if it is time to.
    pub(crate) fn poll_mtu_probe(&mut self, now: Instant) -> Option<u16> {
        self.path.mtu.poll_probe(now)
    }

    /// Writes a probe of the path's MTU that fills `space`.
    pub(crate) fn fill_probe(&mut self, now: Instant, position: u64, space: &mut [u8], ip_size: u16) -> Filled {
        let mut writer = Writer::new(space);
        writer.ping();
        writer.pad::<P>();
        let frames = SentFrames::from_slice(&[SentFrame::MtuProbe(ip_size)]);
        self.record((now, position), &writer, usize::from(ip_size) - writer.len(), Dscp::default(), frames)
    }

    /// Writes a packet of a survey that fills `space`.
    pub(crate) fn fill_sample(&mut self, now: Instant, position: u64, space: &mut [u8], ip_size: u16) -> Filled {
        let number = self.recovery.sent_packets.next_number();
        let mut writer = Writer::new(space);
        if let Some(survey) = &mut self.feedback.survey {
            self.feedback.is_train_due |= survey.asks(ip_size.into());
            survey.on_sent(now, number, ip_size.into());
        }
        let is_train = self.put_train_mark(&mut writer);
        writer.ping();
        writer.pad::<P>();
        let overhead = usize::from(ip_size) - writer.len();
        let frames = SentFrames::from_slice(&[SentFrame::Sample]);
        let filled = self.record((now, position), &writer, overhead, Dscp::default(), frames);
        self.note_train(is_train);
        filled
    }

    /// Writes what is due into `space`; `None` if nothing is. `overhead` is what sealing and headers add to make an IP
    /// packet of it; `position` is how many bytes have entered the link so far.
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        position: u64,
        space: &mut [u8],
        overhead: usize,
        urgency: Urgency,
    ) -> Option<Filled> {
        let missing = usize::from(self.mtu()).saturating_sub(space.len() + overhead);
        let mut writer = Writer::new(space);
        let mut frames = SentFrames::new();
        let mut dscp = self.put_ack(now, &mut writer, &mut frames);
        self.put_control(now, &mut writer, &mut frames);
        let is_train = self.put_train_mark(&mut writer);
        match urgency {
            _ if self.is_stalled() => {}
            Urgency::Now => {}
            Urgency::Paced => {
                let of_data = if self.put_busy_repair(now, &mut writer, &mut frames, missing == 0) {
                    Some(self.dscps.sent())
                } else {
                    self.put_stream_data(now, &mut writer, &mut frames, missing)
                };
                if of_data.is_none() && is_train {
                    self.put_start_probe(&mut writer, &mut frames);
                }
                dscp = of_data.or(dscp);
            }
            Urgency::Idle => {
                if self.put_repair(now, &mut writer, &mut frames, missing == 0) {
                    dscp = Some(self.dscps.sent());
                }
            }
        }
        if writer.is_empty() {
            return None;
        }
        if is_train && frames.is_empty() {
            frames.push(SentFrame::Ping);
        }
        let filled = self.record((now, position), &writer, overhead, dscp.unwrap_or_default(), frames);
        self.note_train(is_train);
        Some(filled)
    }

    /// Fills the packet with padding if it is one of a start probe.
    fn put_start_probe(&mut self, writer: &mut Writer<'_>, frames: &mut SentFrames) {
        if self.start_probe.is_due() && writer.ping() {
            writer.pad::<P>();
            self.start_probe.on_sent();
            frames.push(SentFrame::Sample);
        }
    }

    /// Writes that the packet belongs to a train, if it does.
    fn put_train_mark(&mut self, writer: &mut Writer<'_>) -> bool {
        std::mem::take(&mut self.feedback.is_train_due) && writer.train()
    }

    /// The packet that was recorded just now belongs to a train, or not.
    fn note_train(&mut self, is_train: bool) {
        if is_train {
            self.recovery.sent_packets.mark_train();
        }
    }

    /// How a packet that is filled now, with data if the link's pace allows them, would be marked for these.
    pub(crate) fn next_marking(&mut self, now: Instant) -> Dscp {
        if !self.dscps.in_use() {
            return Dscp::default();
        }
        let next = self.classes.next(now, &mut self.streams, self.credit.available());
        next.map_or(self.dscps.sent(), |key| self.streams[key].dscp)
    }

    /// Writes a frame about a path.
    pub(crate) fn fill_path(&mut self, now: Instant, space: &mut [u8], overhead: usize, frame: PathFrame) -> Filled {
        let mut writer = Writer::new(space);
        writer.path(frame);
        self.record((now, 0), &writer, overhead, Dscp::default(), SentFrames::new())
    }

    pub(super) fn record(
        &mut self,
        (now, position): (Instant, u64),
        writer: &Writer<'_>,
        overhead: usize,
        dscp: Dscp,
        frames: SentFrames,
    ) -> Filled {
        let (length, elided) = (writer.len(), writer.elided());
        let number = self.recovery.sent_packets.next_number();
        let ack_eliciting = !frames.is_empty();
        if let Some(trace) = &mut self.trace {
            trace.on_sent(now, number, (length, length + overhead), &frames);
        }
        self.recovery.sent_packets.record(now, position, length + overhead, dscp, frames);
        self.stats.sent_packets += 1;
        if ack_eliciting {
            self.liveness.on_sent(now, length + overhead, &self.recovery.rtt);
        }
        Filled { number, length, elided, dscp }
    }

    /// An acknowledgement that is due, or nearly so that it need not travel alone a little later. Returns how the most urgent data
    /// that it is about are marked.
    fn put_ack(&mut self, now: Instant, writer: &mut Writer<'_>, frames: &mut SentFrames) -> Option<Dscp> {
        let mut dscp = None;
        let soon = now + self.ack_delay() / 2;
        let due = self.ack_deadline().is_some_and(|deadline| deadline <= soon);
        // A probe in an outage says what has not arrived: if it is the first to pass, that is sent again at once. With CLOSE goes what
        // the peer would otherwise never learn to have arrived.
        if due || self.farewell.is_due() || (self.liveness.is_ping_due() && self.is_stalled()) {
            writer.recovered(self.received.recovered());
            self.put_arrivals(writer);
            if let Some(named) = self.received.older().and_then(|ranges| writer.older_ranges(ranges)) {
                self.received.named_older(named);
            }
            let (ranges, delay_us) = self.received.report(now);
            if self.path.mtu.is_below_least() {
                writer.path_too_small();
            }
            if writer.ack(ranges, delay_us, self.received.floor()) {
                self.received.acknowledged();
                if self.arrivals.has_trains() && self.detail >= Detail::Trains {
                    self.received.acknowledge_by(now);
                }
                dscp = self.dscps.take_for_ack();
            }
            self.repeat_credits(writer, frames);
            self.put_reports(now, writer, frames);
        }
        if let Some(lowest) = self.recovery.stop_waiting_due()
            && writer.stop_waiting(lowest)
        {
            self.recovery.on_stop_waiting_sent(lowest);
        }
        dscp
    }

    /// What has arrived, before an acknowledgement. Where there is no space for all stamps, the newest packet's will do.
    fn put_arrivals(&mut self, writer: &mut Writer<'_>) {
        let counters = self.arrivals.counters();
        let mut put = |detail| writer.arrivals(&counters, &self.arrivals.stamps(detail));
        if put(self.detail) || put(Detail::Newest) {
            self.arrivals.on_stamped();
        }
    }

    fn put_control(&mut self, now: Instant, writer: &mut Writer<'_>, frames: &mut SentFrames) {
        if self.farewell.is_due() && writer.close() {
            self.farewell.on_said(now, self.recovery.rtt.smoothed());
        }
        if self.drain.is_due && writer.drain() {
            self.drain.is_due = false;
            frames.push(SentFrame::Drain);
        }
        if self.drain.answer_due && writer.opened(self.streams.opened()) {
            self.drain.answer_due = false;
            frames.push(SentFrame::Opened);
        }
        if self.credit.limit_due && writer.max_data(self.credit.limit()) {
            self.on_max_data_sent();
            frames.push(SentFrame::MaxData);
            self.put_new_stream_credit(writer);
        }
        while let Some(key) = self.streams.next_control() {
            if !self.put_stream_control(key, writer, frames) {
                break;
            }
            self.streams.on_control_sent();
        }
        if self.liveness.is_ping_due() && (!frames.is_empty() || writer.ping()) {
            self.liveness.on_ping_sent();
            frames.push(SentFrame::Ping);
        }
    }

    /// Writes a stream's reset or credit; `false` if it did not fit.
    fn put_stream_control(&mut self, key: StreamKey, writer: &mut Writer<'_>, frames: &mut SentFrames) -> bool {
        let Some(stream) = self.stream_mut(key) else { return true };
        if let Some((reason, sent)) = &mut stream.abort.ours {
            if *sent == Sent::Queued {
                if !writer.reset(key.number, *reason, stream.send.final_size()) {
                    return false;
                }
                *sent = Sent::InFlight;
                frames.push(SentFrame::Reset(key));
            }
        } else if stream.credit_due {
            if !writer.max_stream_data(key.number, stream.receive.limit) {
                return false;
            }
            frames.push(SentFrame::MaxStreamData(key));
            self.on_max_stream_data_sent(key);
        }
        if let Some(stream) = self.stream_mut(key) {
            stream.credit_due = false;
            stream.control_queued = false;
        }
        true
    }

    /// Stream data in the scheduler's order, until the packet is full, nothing is left, or the next data are marked otherwise: a
    /// marking may be policed, and is not spent on others. The packet is `missing` bytes smaller than the largest. Returns the marking
    /// if there is any data.
    fn put_stream_data(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        frames: &mut SentFrames,
        missing: usize,
    ) -> Option<Dscp> {
        let mut dscp = None;
        let (mut any, mut fresh, mut ended, mut paused) = (false, false, false, None::<PacketNumber>);
        let number = self.recovery.sent_packets.next_number();
        // Several frames spell their lengths out anyway; the symbol of a single one would be longer than its packet.
        writer.reserve(if self.does_repair() { HEADROOM.saturating_sub(missing) } else { 0 });
        while writer.is_empty() || writer.room() >= Self::MIN_FRAME {
            let session_credit = self.credit.available();
            let Some(key) = self.classes.next(now, &mut self.streams, session_credit) else { break };
            let stream = &mut self.streams[key];
            if dscp.is_some_and(|dscp| dscp != stream.dscp) {
                break;
            }
            if !self.put_watch(key, writer, frames) {
                break;
            }
            let stream = &mut self.streams[key];
            if !stream.has_data(session_credit) {
                // Whether it may send more, the peer has been asked just now.
                paused = paused.max(stream.run_from.take());
                self.classes.charge(now, stream, session_credit, Self::MIN_FRAME);
                continue;
            }
            let Some(room) = writer.stream_room(key.number, stream.send.next_offset()) else { break };
            let Some(piece) = stream.send.next_piece(room, session_credit) else { break };
            stream.send.copy(piece.offset, writer.stream::<P>(key.number, piece.offset, piece.length, piece.fin));
            self.credit.on_sent(piece.fresh as u64, stream.send.ungranted());
            self.classes.charge(now, stream, self.credit.available(), piece.length + Self::MIN_FRAME);
            self.stats.sent_bytes += piece.fresh as u64;
            self.stats.retransmitted_bytes += (piece.length - piece.fresh) as u64;
            let length = piece.length as u16;
            let repeat = piece.fresh < piece.length;
            frames.push(SentFrame::Stream { key, offset: piece.offset, length, fin: piece.fin, repeat });
            (any, fresh, ended) = (true, fresh || piece.fresh > 0, piece.fin);
            dscp = Some(stream.dscp);
            let stream = &mut self.streams[key];
            stream.run_from.get_or_insert(number);
            if !stream.has_data(self.credit.available()) {
                paused = paused.max(stream.run_from.take());
            }
            self.wake_writer_of_sent(key);
        }
        if any {
            self.liveness.on_traffic(now);
            self.wake_waiting_writers();
            self.plan_repair(now, fresh, ended);
        }
        if let Some(from) = paused {
            self.plan_repair_of_pause(now, from);
        }
        if let Some(dscp) = dscp {
            self.dscps.on_sent(dscp);
        }
        dscp
    }
}
