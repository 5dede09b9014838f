//! Frames that arrived.

use super::{News, Path, Session};
use crate::capacity::Report;
use crate::event::{Event, Violation};
use crate::payload::Payload;
use crate::repair::{RepairSymbol, SourceBlock};
use crate::sent_packets::{Outcome, PacketOutcome, SentFrame, StreamKey};
use crate::stream::{Sent, Stream};
use crate::wire::frame::{AckFrame, Frame, PathFrame, Reader, RecoveredFrame};
use units::{Duration, Instant};

impl<P: Payload> Session<P> {
    /// Takes in the frames of an authentic packet that was not seen before and that `elided` bytes were left out of.
    pub(crate) fn on_frames(
        &mut self,
        now: Instant,
        number: u64,
        frames: &[u8],
        elided: usize,
    ) -> Result<(), Violation> {
        let mut reader = Reader::<P>::with_elided(frames, elided);
        let (mut ack_eliciting, mut acks, mut recovered) = (false, 0, 0);
        let credit_before = self.credit.available();
        while let Some(frame) = reader.next()? {
            acks += u32::from(matches!(frame, Frame::Ack(_)));
            recovered += u32::from(matches!(frame, Frame::Recovered(_)));
            // What one costs to look at is bounded; so must be their number.
            if acks > 1 || recovered > 1 {
                return Err(Violation::RepeatedAck);
            }
            ack_eliciting |= frame.is_ack_eliciting();
            self.on_frame(now, number, frame)?;
        }
        self.stats.skipped_frames += reader.skipped();
        self.use_session_credit(credit_before);
        if self.does_repair() {
            self.decoder.remember(number, frames, elided);
        }
        self.received.record(now, number, ack_eliciting, self.ack_delay());
        if self.round_ends <= now {
            self.round_ends = now + self.rtt.smoothed();
            self.credit.next_round();
        }
        Ok(())
    }

    fn on_frame(&mut self, now: Instant, number: u64, frame: Frame<'_>) -> Result<(), Violation> {
        match frame {
            Frame::Ping => {}
            Frame::ArrivalRequest => self.arrival_requests.on_request(now, number),
            Frame::CeCount(count) => self.congestion.on_report(count, self.sent_packets.next_number()),
            Frame::ArrivalTime { number, micros } => self.on_arrived(now, number, micros),
            Frame::Ack(ack) => self.on_ack(now, &ack)?,
            Frame::Recovered(recovered) => self.on_recovered(now, &recovered)?,
            Frame::StopWaiting(number) => self.received.raise_floor(number),
            Frame::MaxData(limit) => self.credit.on_peer_limit(limit),
            Frame::MaxStreamData { stream, limit } => self.on_stream_credit(stream, limit),
            Frame::Reset { stream, reason, final_size } => {
                if let Some(key) = self.find_or_accept(stream, false)? {
                    self.on_reset(key, reason, final_size)?;
                }
            }
            Frame::Close => self.closed = true,
            Frame::Drain => self.on_drain(),
            Frame::Opened(count) => self.on_opened(count),
            Frame::Path(frame) => {
                if let PathFrame::Challenge(_) = frame {
                    self.keepalive.on_challenged();
                }
                self.path_news = Some(frame);
            }
            Frame::Repair { back, shape, index, symbol, elided } => {
                let first = number.checked_sub(back).ok_or(Violation::Malformed)?;
                self.on_repair(now, first, shape, index, (symbol.to_vec(), elided))?;
            }
            Frame::Stream { stream, offset, data, elided, fin } => {
                self.last_traffic = now;
                if let Some(key) = self.find_or_accept(stream, true)? {
                    self.on_data(key, offset, data, elided, fin)?;
                }
            }
        }
        Ok(())
    }

    /// The peer told when a packet arrived, just before it acknowledges it.
    fn on_arrived(&mut self, now: Instant, number: u64, micros: u32) {
        // Beyond what the peer may tell beside one acknowledgement nothing is kept.
        if number >= self.sent_packets.next_number() || self.news.len() >= 16 {
            return;
        }
        let Some((sent, after)) = self.sent_packets.departure(number) else {
            let arrived = self.arrivals.unwrap(micros);
            if let Some(survey) = &mut self.survey {
                survey.on_arrival(number, arrived);
            }
            return self.news.push_back(News::Arrival(number, arrived));
        };
        let [outcomes, acknowledged] = std::mem::take(&mut self.outcomes_since);
        let report = Report { sent, after, arrived_us: micros, outcomes, acknowledged };
        let patience = (self.rtt.smoothed() * 3).max(Duration::from_secs(1));
        let feedback = self.arrivals.take(now, &report, patience);
        if let Some(survey) = &mut self.survey {
            survey.on_arrival(number, feedback.arrived);
        }
        self.news.extend([News::Arrival(number, feedback.arrived), News::Feedback(feedback)]);
    }

    /// Takes in a repair symbol.
    fn on_repair(
        &mut self,
        now: Instant,
        first: u64,
        shape: [u64; 3],
        index: u64,
        (bytes, elided): (Vec<u8>, usize),
    ) -> Result<(), Violation> {
        let [count, stride, repair_symbols] = shape.map(|field| usize::try_from(field).unwrap_or(usize::MAX));
        let block = SourceBlock { first, count, stride, repair_symbols };
        let symbol = RepairSymbol { block, index: usize::try_from(index).unwrap_or(usize::MAX), bytes, elided };
        if !symbol.is_sound() {
            return Err(Violation::BadRepair);
        }
        self.decoder.on_repair(symbol);
        if self.decoder.is_working() {
            self.decoding_since.get_or_insert(now);
        }
        Ok(())
    }

    /// The stream with this number, made now if the peer opens it with this frame; `None` if it is closed already.
    pub(super) fn find_or_accept(&mut self, number: u64, announce: bool) -> Result<Option<StreamKey>, Violation> {
        if let Some(&slot) = self.slots.get(&number) {
            return Ok(Some(StreamKey { slot, number }));
        }
        if number % 2 == self.own_parity {
            return if number < self.next_own { Ok(None) } else { Err(Violation::UnopenedStream) };
        }
        if self.seen.contains(number / 2) {
            return Ok(None);
        }
        // The peer counts a stream as closed a little before we do, so it may seem to exceed the limit for a while.
        // Numbers come in order but for losses, so the record of those seen stays short unless someone wants it long.
        let scattered = self.seen.len() > 1024 + 4 * self.max_streams as usize;
        if scattered {
            return Err(Violation::Scattered);
        }
        if self.peer_open >= self.max_streams.saturating_mul(2) {
            return Err(Violation::TooManyStreams);
        }
        self.seen.insert(number / 2..number / 2 + 1);
        self.end_wait();
        self.peer_open += 1;
        let key = self.insert(number);
        if announce {
            let id = self.id(key);
            self.events.push_back(Event::Opened(id));
        }
        Ok(Some(key))
    }

    pub(super) fn insert(&mut self, number: u64) -> StreamKey {
        let stream = Stream::new(number, self.credit.peer_stream_credit, self.credit.own_stream_credit);
        let slot = self.streams.insert(stream) as u32;
        self.slots.insert(number, slot);
        StreamKey { slot, number }
    }

    pub(super) fn on_data(
        &mut self,
        key: StreamKey,
        offset: u64,
        data: &[u8],
        elided: usize,
        fin: bool,
    ) -> Result<(), Violation> {
        let stream = self.streams.get_mut(key.slot as usize).ok_or(Violation::Malformed)?;
        let moved = stream.receive.receive(&mut self.pool, offset, data, elided, fin)?;
        if !self.credit.on_received(moved) {
            return Err(Violation::BeyondCredit);
        }
        let marking = stream.dscp;
        self.marking_received = Some(self.marking_received.map_or(marking, |before| before.more_urgent(marking)));
        self.stats.received_bytes += moved;
        self.credit.note_active(&mut stream.active_round);
        if stream.is_aborted() {
            let dropped = stream.receive.discard(&mut self.pool);
            self.credit.on_consumed(dropped);
            self.close_if_done(key);
            return Ok(());
        }
        // A reader whose next byte is still missing is not to blame for what is held.
        let (waits, has_news) = (stream.receive.readable() == 0 && moved > 0, stream.receive.take_news());
        if waits {
            self.extend_stream(key);
        }
        if has_news {
            let id = self.id(key);
            self.events.push_back(Event::Readable(id));
            self.close_if_done(key);
        }
        Ok(())
    }

    fn on_reset(&mut self, key: StreamKey, reason: crate::ResetReason, final_size: u64) -> Result<(), Violation> {
        let stream = self.streams.get_mut(key.slot as usize).ok_or(Violation::Malformed)?;
        let moved = stream.receive.on_reset(final_size)?;
        stream.abort.theirs = true;
        let was_aborted = stream.is_aborted();
        if !self.credit.on_received(moved) {
            return Err(Violation::BeyondCredit);
        }
        self.discard(key);
        if !was_aborted {
            self.queue_reset(key, reason);
            let id = self.id(key);
            self.events.push_back(Event::Reset(id, reason));
        }
        self.close_if_done(key);
        Ok(())
    }

    /// The session's credit was `before`; streams that waited for more go on.
    fn use_session_credit(&mut self, before: u64) {
        if before < 2 * self.credit.peer_stream_credit && self.credit.available() > before {
            // Streams that had only new data may have left the schedule for want of credit.
            let keys: Vec<_> = self.slots.iter().map(|(&number, &slot)| StreamKey { slot, number }).collect();
            keys.into_iter().for_each(|key| self.activate(key));
        }
    }

    fn on_stream_credit(&mut self, number: u64, limit: u64) {
        let Some(&slot) = self.slots.get(&number) else { return };
        let key = StreamKey { slot, number };
        if let Some(stream) = self.stream_mut(key) {
            stream.send.raise_credit(limit);
        }
        self.activate(key);
    }

    fn on_ack(&mut self, now: Instant, ack: &AckFrame<'_>) -> Result<(), Violation> {
        let horizon = self.rtt.smoothed() * 3 / 2 + self.ack_delay() * 2;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let (sample, delay) =
            (self.sent_packets.on_ack(now, ack, horizon, &mut outcomes)?, Duration::from_micros(ack.delay_us));
        // Longer delays than the peer should add are those of an outage.
        if let Some(rtt) = sample.filter(|_| delay <= self.ack_delay() * 2) {
            self.rtt.sample(rtt.saturating_sub(delay));
        }
        if self.is_returning {
            self.sent_packets.on_quiet(ack.largest, delay.saturating_sub(self.rtt.smoothed() / 2), &mut outcomes);
        }
        self.on_outcomes(now, &mut outcomes);
        self.outcomes = outcomes;
        self.probes = 0;
        // A ping that is still in flight has been answered by this: to ask again would begin anew, where answers are spaced, for ever.
        self.probe_at = self.sent_packets.awaits_more_than_pings().then(|| self.probe_deadline(now));
        Ok(())
    }

    /// The peer recovered packets that were lost.
    fn on_recovered(&mut self, now: Instant, recovered: &RecoveredFrame<'_>) -> Result<(), Violation> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for numbers in recovered.ranges() {
            self.sent_packets.on_recovered(numbers, &mut outcomes)?;
        }
        self.on_outcomes(now, &mut outcomes);
        self.outcomes = outcomes;
        Ok(())
    }

    /// Releases acknowledged data, requeues what was lost, and updates the PMTU search and the survey.
    pub(super) fn on_outcomes(&mut self, now: Instant, outcomes: &mut Vec<PacketOutcome>) {
        for packet in outcomes.drain(..) {
            self.stats.lost_packets += u64::from(!packet.is_acknowledged());
            let [outcomes, acknowledged] = self.outcomes_since;
            self.outcomes_since =
                [outcomes.saturating_add(1), acknowledged.saturating_add(u32::from(packet.is_acknowledged()))];
            let mut probe = false;
            for frame in &packet.frames {
                match *frame {
                    SentFrame::MtuProbe(size) => {
                        probe = true;
                        if packet.is_acknowledged() {
                            self.mtu.on_probe_acked(now, size)
                        } else {
                            self.mtu.on_probe_lost(now, size)
                        }
                        self.judge_path();
                    }
                    SentFrame::Sample => {
                        // What a survey loses says nothing of the size.
                        probe = true;
                        if let Some(survey) = self.survey.as_mut().filter(|_| packet.is_acknowledged()) {
                            survey.on_acknowledged(packet.number);
                        }
                    }
                    SentFrame::Stream { .. } if packet.outcome == Outcome::Recovered => {
                        self.on_frame_acknowledged(frame, packet.number)
                    }
                    _ if packet.is_acknowledged() => self.on_frame_acknowledged(frame, packet.number),
                    _ => self.on_frame_lost(frame),
                }
            }
            if !probe {
                self.mtu.on_data(now, packet.number, packet.ip_size, packet.is_acknowledged());
            }
        }
        self.wake_waiting_writers();
    }

    /// Says whether the path carries what is sent through it, when that has changed.
    pub(super) fn judge_path(&mut self) {
        let before = self.path;
        self.path = match (self.mtu.is_proven(), self.mtu.is_below_least()) {
            (true, _) => Path::Proven,
            (_, true) => Path::TooSmall,
            _ => before,
        };
        match self.path {
            path if path == before => {}
            Path::Proven if !self.is_unresponsive() => self.events.push_back(Event::PeerUp(self.peer)),
            Path::TooSmall => self.events.push_back(Event::PathTooSmall(self.peer)),
            _ => {}
        }
    }

    fn on_frame_acknowledged(&mut self, frame: &SentFrame, number: u64) {
        match *frame {
            SentFrame::Stream { key, offset, length, fin, .. } => {
                let Some(stream) = self.streams.get_mut(key.slot as usize).filter(|stream| stream.number == key.number)
                else {
                    return;
                };
                if !stream.is_aborted() {
                    let freed = stream.send.on_acked(&mut self.pool, offset..offset + u64::from(length), fin);
                    self.credit.on_send_freed(freed);
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
            SentFrame::Drain | SentFrame::Opened | SentFrame::MtuProbe(_) | SentFrame::Sample | SentFrame::Ping => {}
        }
    }

    fn on_frame_lost(&mut self, frame: &SentFrame) {
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
                self.queue_control(key);
            }
            SentFrame::MaxStreamData(_) | SentFrame::MaxData => self.on_credit_lost(frame),
            SentFrame::Drain => self.drain.is_due = true,
            SentFrame::Opened => self.drain.answer_due = true,
            SentFrame::MtuProbe(_) | SentFrame::Sample | SentFrame::Ping => {}
        }
    }
}
