//! Frames that arrived.

use super::Session;
use super::path::PathState;
use super::table::Accepted;
use crate::capacity::{AcceptedPacket, Detail};
use crate::credit::SessionCredit;
use crate::event::{Event, Violation};
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::{RepairSymbol, SourceBlock};
use crate::sent_packets::{Outcome, PacketOutcome, SentFrame, StreamKey};
use crate::stream::{Sent, Stream, StreamNumber, StreamOffset};
use crate::wire::frame::{AckFrame, Frame, OlderRangesFrame, PathFrame, Reader, RecoveredFrame, RepairFrame};
use peering::ResetReason;
use units::Instant;

impl<P: Payload> Session<P> {
    /// Takes in the frames of an authentic packet that was not seen before and that `elided` bytes were left out of.
    pub(crate) fn on_frames(
        &mut self,
        now: Instant,
        packet: &AcceptedPacket,
        frames: &[u8],
        elided: usize,
    ) -> Result<(), Violation> {
        let number = packet.number;
        let mut reader = Reader::<P>::with_elided(frames, elided);
        let (mut ack_eliciting, mut is_train, mut has_data) = (false, false, false);
        let [mut acks, mut older, mut recovered, mut arrivals] = [0; 4];
        let credit_before = self.credit.available();
        if let Some(trace) = &mut self.trace {
            trace.on_received(now, number, frames.len() + elided);
        }
        while let Some(frame) = reader.next()? {
            acks += u32::from(matches!(frame, Frame::Ack(_)));
            older += u32::from(matches!(frame, Frame::OlderRanges(_)));
            recovered += u32::from(matches!(frame, Frame::Recovered(_)));
            arrivals += u32::from(matches!(frame, Frame::Arrivals(_)));
            // What one costs to look at is bounded; so must be their number.
            if acks.max(older).max(recovered).max(arrivals) > 1 {
                return Err(Violation::RepeatedAck);
            }
            ack_eliciting |= frame.is_ack_eliciting();
            is_train |= matches!(frame, Frame::Train);
            has_data |= matches!(frame, Frame::Stream { .. });
            self.on_frame(now, packet, frame)?;
        }
        self.stats.skipped_frames += reader.skipped();
        self.use_session_credit(now, credit_before);
        if self.does_repair() {
            self.decoder.remember(number, frames, elided, has_data);
        }
        self.received.record(packet.arrived.min(now), number, ack_eliciting, self.ack_delay());
        self.arrivals.on_packet(packet, ack_eliciting, is_train);
        if self.arrivals.is_full() && self.detail >= Detail::Trains {
            self.received.acknowledge_by(now);
        }
        self.feedback.on_packet_end(&self.recovery.sent_packets);
        if self.credit.on_packet(now, self.recovery.rtt.smoothed()) {
            self.decoder.grow(Self::remembered(self.credit.most_in_round()));
            self.decoder.on_round(now);
        }
        Ok(())
    }

    fn on_frame(&mut self, now: Instant, packet: &AcceptedPacket, frame: Frame<'_>) -> Result<(), Violation> {
        let number = packet.number;
        match frame {
            Frame::Ping | Frame::Train => {}
            Frame::Arrivals(arrivals) => {
                let marked = self.feedback.on_arrivals(now, number, &arrivals, &mut self.recovery.sent_packets);
                self.congestion.on_report(marked.unwrap_or(0));
            }
            Frame::Ack(ack) => {
                self.on_ack(now, packet.arrived.min(now), &ack)?;
                if self.path.on_report(now, number) {
                    self.judge_path();
                }
            }
            Frame::OlderRanges(older) => self.on_older_ranges(now, packet.arrived.min(now), &older)?,
            Frame::PathTooSmall => self.path.on_too_small(number),
            Frame::Recovered(recovered) => self.on_recovered(now, &recovered)?,
            Frame::StopWaiting { lowest } => self.received.stop_waiting(number, lowest),
            Frame::MaxData { limit } => self.credit.on_peer_limit(limit),
            Frame::MaxStreamData { stream, limit } => self.on_stream_credit(stream, limit),
            Frame::MaxNewStreamData { limit } => self.credit.on_new_stream_credit(limit),
            Frame::WatchStream { stream, to } => {
                // What it goes with may have been lost, or come later.
                if let Some(key) = self.find_or_accept(stream, true)? {
                    self.on_watch_stream(now, key, to);
                }
            }
            Frame::StreamRead { stream, to } => self.on_stream_read(stream, to),
            Frame::Reset { stream, reason, final_size } => {
                if let Some(key) = self.find_or_accept(stream, false)? {
                    self.on_reset(key, reason, final_size)?;
                }
            }
            Frame::Close => self.farewell.on_peer(),
            Frame::Drain => self.on_drain(),
            Frame::Opened { streams } => self.on_opened(streams),
            Frame::Path(frame) => {
                if let PathFrame::Challenge(_) = frame {
                    self.liveness.on_challenged();
                }
                self.path.on_frame(frame);
            }
            Frame::Repair(repair) => self.on_repair(now, number, &repair)?,
            Frame::Stream { stream, offset, data, elided, fin } => {
                self.liveness.on_traffic(now);
                if let Some(trace) = &mut self.trace {
                    trace.on_piece(stream, offset, data.len() + elided, fin);
                }
                if let Some(key) = self.find_or_accept(stream, true)? {
                    self.on_data(key, offset, data, elided, fin)?;
                }
            }
        }
        Ok(())
    }

    /// Takes in the repair symbol of packet `number`.
    fn on_repair(&mut self, now: Instant, number: PacketNumber, repair: &RepairFrame<'_>) -> Result<(), Violation> {
        let size = |field: u64| usize::try_from(field).unwrap_or(usize::MAX);
        let block = SourceBlock {
            first: number.checked_before(repair.back).ok_or(Violation::Malformed)?,
            count: size(repair.count),
            stride: size(repair.stride),
            repair_symbols: size(repair.repair_symbols),
        };
        let (index, bytes, elided) = (size(repair.index), repair.symbol.to_vec(), repair.elided);
        let symbol = RepairSymbol { block, index, bytes, elided };
        if !symbol.is_sound() {
            return Err(Violation::BadRepair);
        }
        self.decoder.on_repair(now, symbol);
        Ok(())
    }

    /// The stream with this number, opened now if the peer opens it with this frame; `None` if it is closed already.
    pub(super) fn find_or_accept(
        &mut self,
        number: StreamNumber,
        announce: bool,
    ) -> Result<Option<StreamKey>, Violation> {
        let (send, receive) = (self.credit.peer_stream_credit, self.credit.own_stream_credit);
        match self.streams.accept(number, |number| Stream::new(number, send, receive))? {
            Accepted::Open(key) => Ok(Some(key)),
            Accepted::Closed => Ok(None),
            Accepted::Opened(key) => {
                self.end_wait();
                if announce {
                    self.events.push_back(Event::Opened(self.id(key)));
                }
                Ok(Some(key))
            }
            Accepted::Refused(key) => {
                self.end_wait();
                self.queue_reset(key, ResetReason::StreamLimit);
                Ok(Some(key))
            }
        }
    }

    pub(super) fn on_data(
        &mut self,
        key: StreamKey,
        offset: StreamOffset,
        data: &[u8],
        elided: usize,
        fin: bool,
    ) -> Result<(), Violation> {
        let stream = self.streams.get_mut(key).ok_or(Violation::Malformed)?;
        stream.receive.allow(offset + (data.len() + elided) as u64, self.credit.new_stream_limit());
        let pieces = stream.receive.pieces();
        let moved = stream.receive.receive(&mut self.pool, offset, data, elided, fin);
        self.streams.recount_pieces(key, pieces);
        if self.streams.is_scattered() {
            return Err(Violation::Scattered);
        }
        let (moved, stream) = (moved?, self.streams.get_mut(key).ok_or(Violation::Malformed)?);
        if !self.credit.on_received(moved) {
            return Err(Violation::BeyondCredit);
        }
        self.credit.on_data(data.len() + elided);
        let marking = stream.dscp;
        self.dscps.on_received(marking);
        self.stats.received_bytes += moved;
        self.credit.note_active(&mut stream.active_round);
        if stream.discards() {
            self.discard_received(key);
            self.close_if_done(key);
            return Ok(());
        }
        self.credit.on_unread(&mut stream.unread, stream.receive.readable());
        // A reader whose next byte is still missing is not to blame for what is held.
        let (waits, has_news) = (stream.receive.readable() == 0 && moved > 0, stream.receive.take_news());
        let at_end = stream.receive.at_end();
        if waits {
            self.extend_stream(key);
        }
        if has_news {
            let id = self.id(key);
            self.events.push_back(Event::Readable(id));
        }
        if at_end {
            self.close_if_done(key);
        }
        Ok(())
    }

    fn on_reset(&mut self, key: StreamKey, reason: ResetReason, final_size: StreamOffset) -> Result<(), Violation> {
        let stream = self.streams.get_mut(key).ok_or(Violation::Malformed)?;
        stream.receive.allow(final_size, self.credit.new_stream_limit());
        let moved = stream.receive.on_reset(final_size)?;
        stream.abort.theirs = true;
        let was_aborted = stream.is_aborted();
        if !self.credit.on_received(moved) {
            return Err(Violation::BeyondCredit);
        }
        if self.streams[key].is_held() {
            // A copy of a RESET that was taken for lost.
            return Ok(());
        }
        if was_aborted {
            self.discard(key);
        } else if self.streams[key].is_to_be_read() && self.streams.hold(key) {
            self.streams[key].abort.held = Some(reason);
            self.queue_reset(key, reason);
            self.discard_written(key);
            // The reader is to know that nothing can be written any more.
            let id = self.id(key);
            self.events.push_back(Event::Readable(id));
        } else {
            // Who was about to reset it needs no news of it.
            if self.streams[key].abort.behind_data.is_none() {
                self.report_reset(key, reason);
            }
            self.queue_reset(key, reason);
            self.discard(key);
        }
        self.close_if_done(key);
        Ok(())
    }

    /// The session's credit was `before`; streams that waited for more go on.
    fn use_session_credit(&mut self, now: Instant, before: SessionCredit) {
        if self.credit.frees_streams(now, before, self.streams.len()) {
            self.streams.keys().into_iter().for_each(|key| self.activate(key));
        }
    }

    fn on_stream_credit(&mut self, number: StreamNumber, limit: StreamOffset) {
        let Some(key) = self.streams.find(number) else { return };
        if let Some(stream) = self.stream_mut(key) {
            stream.send.raise_limit(limit);
        }
        self.activate(key);
    }

    /// Takes in an ACK that `arrived` before it is read: how late that is belongs to no round trip.
    fn on_ack(&mut self, now: Instant, arrived: Instant, ack: &AckFrame<'_>) -> Result<(), Violation> {
        if self.recovery.sent_packets.largest_acked() < Some(ack.largest) {
            if self.liveness.on_reached() {
                self.on_heard(now);
            }
        } else if self.liveness.on_not_reached(now, &self.recovery.rtt) {
            self.events.push_back(Event::PeerUnresponsive(self.peer));
        }
        let outcomes = self.recovery.on_ack(arrived, ack, self.liveness.is_returning())?;
        self.on_outcomes(now, outcomes);
        let awaits = self.recovery.sent_packets.awaits_more_than_pings();
        self.liveness.on_ack(now, awaits, &self.recovery.rtt);
        Ok(())
    }

    /// Packets have arrived that the next ACK does not reach; the frame `arrived` before it is read.
    fn on_older_ranges(
        &mut self,
        now: Instant,
        arrived: Instant,
        older: &OlderRangesFrame<'_>,
    ) -> Result<(), Violation> {
        let outcomes = self.recovery.on_older_ranges(arrived, older)?;
        self.on_outcomes(now, outcomes);
        Ok(())
    }

    /// The peer recovered packets that were lost.
    fn on_recovered(&mut self, now: Instant, recovered: &RecoveredFrame<'_>) -> Result<(), Violation> {
        let outcomes = self.recovery.on_recovered(now, recovered)?;
        self.on_outcomes(now, outcomes);
        Ok(())
    }

    /// Releases acknowledged data, requeues what was lost, and updates the PMTU search and the survey.
    pub(super) fn on_outcomes(&mut self, now: Instant, mut outcomes: Vec<PacketOutcome>) {
        for packet in outcomes.drain(..) {
            self.stats.lost_packets += u64::from(!packet.is_acknowledged());
            // What is lost of a search for the largest size says nothing of the rate.
            if !packet.frames.iter().any(|frame| matches!(frame, SentFrame::MtuProbe(_))) {
                self.feedback.on_outcome(&packet);
            }
            if let Some(trace) = &mut self.trace {
                trace.on_outcome(now, &packet);
            }
            let mut probe = false;
            for frame in &packet.frames {
                match *frame {
                    SentFrame::MtuProbe(size) => {
                        probe = true;
                        self.on_probe_outcome(now, size, packet.is_acknowledged());
                    }
                    SentFrame::Sample => {
                        // What a survey loses says nothing of the size.
                        probe = true;
                        if let Some(survey) = self.feedback.survey.as_mut().filter(|_| packet.is_acknowledged()) {
                            survey.on_acknowledged(packet.number);
                        }
                    }
                    SentFrame::Stream { .. } if packet.outcome == Outcome::Recovered => {
                        self.on_frame_acknowledged(frame, packet.number)
                    }
                    _ if packet.is_acknowledged() => self.on_frame_acknowledged(frame, packet.number),
                    _ => self.on_frame_lost(now, frame),
                }
            }
            if !probe
                && let Some(suspicion) =
                    self.path.mtu.on_data(now, packet.number, packet.ip_size, packet.is_acknowledged())
            {
                self.feedback.on_path_suspected(suspicion, self.recovery.sent_packets.next_number());
            }
        }
        self.recovery.recycle(outcomes);
        self.wake_waiting_writers();
    }

    /// A probe of `size` bytes has arrived, or was lost.
    fn on_probe_outcome(&mut self, now: Instant, size: u16, has_arrived: bool) {
        let was_too_small = self.path.mtu.is_below_least();
        if has_arrived {
            self.path.mtu.on_probe_acked(now, size)
        } else {
            self.path.mtu.on_probe_lost(now, size)
        }
        // An acknowledgement tells the peer.
        if was_too_small || self.path.mtu.is_below_least() {
            self.received.acknowledge_by(now);
        }
        self.judge_path();
    }

    /// Says whether the path carries what is sent through it, when that has changed.
    pub(super) fn judge_path(&mut self) {
        match self.path.judge() {
            Some(PathState::Proven) if !self.is_unresponsive() => self.events.push_back(Event::PeerUp(self.peer)),
            Some(PathState::TooSmall) => self.events.push_back(Event::PathTooSmall(self.peer)),
            _ => {}
        }
    }

    fn on_frame_acknowledged(&mut self, frame: &SentFrame, number: PacketNumber) {
        match *frame {
            SentFrame::Stream { key, offset, length, fin, .. } => {
                let Some(stream) = self.streams.get_mut(key) else { return };
                if !stream.is_aborted() {
                    let freed = stream.send.on_acked(&mut self.pool, offset..offset + u64::from(length), fin);
                    self.credit.on_send_freed(freed);
                    self.reset_if_settled(key);
                    self.close_if_done(key);
                }
            }
            SentFrame::Reset(key) => {
                if let Some((_, sent)) = self.stream_mut(key).and_then(|stream| stream.abort.ours.as_mut()) {
                    *sent = Sent::Acked;
                }
                self.close_if_done(key);
            }
            SentFrame::MaxStreamData(_) | SentFrame::MaxData => self.on_credit_arrived(frame, number),
            SentFrame::WatchStream(_)
            | SentFrame::StreamRead(_)
            | SentFrame::Drain
            | SentFrame::Opened
            | SentFrame::MtuProbe(_)
            | SentFrame::Sample
            | SentFrame::Ping => {}
        }
    }

    fn on_frame_lost(&mut self, now: Instant, frame: &SentFrame) {
        match *frame {
            SentFrame::Stream { key, offset, length, fin, repeat } => {
                let Some(stream) = self.stream_mut(key).filter(|stream| !stream.is_aborted()) else { return };
                stream.send.on_lost(offset..offset + u64::from(length), fin, repeat);
                self.activate(key);
            }
            SentFrame::Reset(key) => {
                if let Some((_, sent)) = self.stream_mut(key).and_then(|stream| stream.abort.ours.as_mut())
                    && *sent == Sent::InFlight
                {
                    *sent = Sent::Queued;
                }
                self.streams.queue_control(key);
            }
            SentFrame::MaxStreamData(_) | SentFrame::MaxData => self.on_credit_lost(frame),
            SentFrame::WatchStream(_) | SentFrame::StreamRead(_) => self.on_report_lost(now, frame),
            SentFrame::Drain => self.drain.is_due = true,
            SentFrame::Opened => self.drain.answer_due = true,
            SentFrame::MtuProbe(_) | SentFrame::Sample | SentFrame::Ping => {}
        }
    }
}
