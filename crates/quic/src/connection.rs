//! A connection: handshake, one stream each way, close.

use crate::acks::Received;
use crate::config::Config;
use crate::handshake::{Handshake, Step};
use crate::metrics::Metrics;
use crate::packet::{HEADERS, LIMITS, PROTECTION, Packet, STREAM_HEADER};
use crate::receive_stream::ReceiveStream;
use crate::send_stream::SendStream;
use crate::sender::Sender;
use crate::sent_packets::{Content, Outcome};
use std::sync::Arc;
use tcp::Window;
use tcp::control::Control;
use units::{Ecn, Instant};

/// One end of a QUIC connection, sans-IO.
///
/// A driver hands packets to [`Connection::handle_packet`], calls [`Connection::handle_timeout`] at [`Connection::next_at`], and after
/// each of these, and after each command of the application, sends what [`Connection::poll_transmit`] gives until it gives nothing, and
/// looks at [`Connection::poll_event`]. Payloads are lengths. Time must not run backwards.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    state: State,
    handshake: Handshake,
    sender: Sender,
    received: Received,
    outgoing: SendStream,
    incoming: ReceiveStream,
    /// A packet that asks for an acknowledgement is to leave, though there are no data for it.
    is_ping_due: bool,
    is_close_due: bool,
    /// Data wait for the pacer.
    waits_for_pacer: bool,
    /// Nothing has changed since there was nothing to send.
    is_settled: bool,
    /// When the peer was last heard of, or an answer of it was first awaited.
    heard_at: Instant,
    events: Events,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A server that nobody has called.
    Listening,
    Open,
    /// Both streams have ended. What comes late is still acknowledged.
    Closed,
    Failed,
}

/// Something that the application should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Event {
    /// Data may be written: the handshake is complete, or the client sends early data.
    Connected,
    /// There is data to read.
    Readable,
    /// The peer has sent its last byte, and it has arrived.
    PeerFinished,
    /// The send buffer has room again.
    Writable,
    /// Both streams have ended and are acknowledged.
    Closed,
    /// The connection is over before its time.
    Failed(Failure),
}

/// Why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer came to the handshake.
    #[error("connection timed out: no answer to the handshake")]
    HandshakeTimedOut,
    /// Nothing came for too long.
    #[error("connection timed out: no answer from the peer")]
    IdleTimedOut,
    /// The peer gave it up.
    #[error("closed by the peer")]
    ClosedByPeer,
    /// This end gave it up.
    #[error("aborted")]
    Aborted,
}

/// Events that the application has not polled yet.
#[derive(Debug, Default)]
struct Events {
    is_connected: bool,
    is_readable: bool,
    has_finished: bool,
    is_writable: bool,
    is_closed: bool,
    failed: Option<Failure>,
    /// The end of the peer's stream was reported.
    reported_finished: bool,
    /// A write found the buffer full.
    writer_waits: bool,
}

impl Events {
    fn take(&mut self) -> Option<Event> {
        let in_order = [
            (&mut self.is_connected, Event::Connected),
            (&mut self.is_readable, Event::Readable),
            (&mut self.has_finished, Event::PeerFinished),
            (&mut self.is_writable, Event::Writable),
            (&mut self.is_closed, Event::Closed),
        ];
        let first = in_order.into_iter().find(|(is_pending, _)| **is_pending);
        match first {
            Some((is_pending, event)) => {
                *is_pending = false;
                Some(event)
            }
            None => self.failed.take().map(Event::Failed),
        }
    }
}

impl Connection {
    /// Opens a connection: the handshake begins with the first packet to leave.
    pub fn connect(config: Arc<Config>, now: Instant) -> Self {
        let handshake = Handshake::client(config.zero_rtt);
        let mut connection = Self::new(config, State::Open, handshake);
        connection.heard_at = now;
        if connection.config.zero_rtt {
            // The limits of the connection before count, which are those of an end like this one (RFC 9000, section 7.4.1).
            let limits = connection.incoming.first_limits();
            connection.outgoing.take_limits(limits);
            connection.events.is_connected = true;
        }
        connection
    }

    /// Waits for a client.
    pub fn listen(config: Arc<Config>) -> Self {
        Self::new(config, State::Listening, Handshake::server())
    }

    fn new(config: Arc<Config>, state: State, handshake: Handshake) -> Self {
        Self {
            sender: Sender::new(&config),
            received: Received::new(),
            outgoing: SendStream::new(),
            incoming: ReceiveStream::new(&config),
            state,
            handshake,
            is_ping_due: false,
            is_close_due: false,
            waits_for_pacer: false,
            is_settled: false,
            heard_at: Instant::ZERO,
            events: Events::default(),
            config,
        }
    }

    /// Data may leave from now on, or this end knows more of the path than when they first might.
    fn start(&mut self, now: Instant) {
        self.sender.receive_window = self.outgoing.room();
        self.sender.start(now);
    }

    /// Puts `control`, which the caller has made, in the place of the configured one: before anything is sent.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.sender.congestion.control = control;
    }

    /// A packet of the peer has arrived, with this codepoint.
    pub fn handle_packet(&mut self, now: Instant, packet: &Packet, ecn: Ecn) {
        if self.state == State::Failed || self.received.has(packet.number) || !self.handshake.can_read(packet) {
            return;
        }
        self.is_settled = false;
        self.heard_at = now;
        if self.state == State::Listening {
            self.state = State::Open;
        }
        if packet.closes {
            return self.fail(Failure::ClosedByPeer);
        }
        self.received.on_packet(now, packet.number, packet.is_ack_eliciting(), ecn, &self.config);
        if let Some(limits) = packet.limits {
            self.outgoing.take_limits(limits);
        }
        if let Some(frame) = &packet.ack {
            self.sender.receive_window = self.outgoing.room();
            let mut handler = OutcomeHandler {
                outgoing: &mut self.outgoing,
                incoming: &mut self.incoming,
                received: &mut self.received,
                handshake: &mut self.handshake,
            };
            self.sender.on_ack(now, frame, &mut |outcome, content| handler.on_outcome(outcome, content));
        }
        if let Some(message) = packet.message {
            self.received.hurry();
            let step = self.handshake.on_message(message);
            self.take_step(now, step);
        }
        if let Some(frame) = packet.stream {
            self.take_stream(frame);
        }
        if self.events.writer_waits && self.write_space() > 0 {
            (self.events.writer_waits, self.events.is_writable) = (false, true);
        }
        self.close_if_done();
    }

    fn take_step(&mut self, now: Instant, step: Step) {
        match step {
            Step::Nothing => {}
            Step::MaySend => self.start(now),
            Step::Complete => {
                self.start(now);
                // A client with early data was connected before.
                self.events.is_connected |= !self.config.zero_rtt || self.is_server();
                self.events.is_writable = true;
                if self.is_server() {
                    self.sender.confirm();
                }
            }
            Step::Confirmed => self.sender.confirm(),
        }
    }

    fn is_server(&self) -> bool {
        self.handshake.is_server()
    }

    fn take_stream(&mut self, frame: crate::StreamFrame) {
        let had = self.incoming.readable();
        self.incoming.on_frame(frame);
        self.events.is_readable |= self.incoming.readable() > had;
        if self.incoming.is_finished() && !self.events.reported_finished {
            (self.events.reported_finished, self.events.has_finished) = (true, true);
        }
    }

    fn close_if_done(&mut self) {
        if self.state == State::Open && self.outgoing.is_done() && self.incoming.is_finished() {
            self.state = State::Closed;
            self.events.is_closed = true;
        }
    }

    /// The connection is over. That is no failure where both streams had ended before.
    fn fail(&mut self, failure: Failure) {
        if std::mem::replace(&mut self.state, State::Failed) != State::Closed {
            self.events.failed = Some(failure);
        }
    }

    /// Time has come to [`Connection::next_at`]. Harmless at any other time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !matches!(self.state, State::Open | State::Closed) {
            return;
        }
        self.is_settled = false;
        if self.idle_at() <= now {
            let has_answer = self.handshake.has_answer();
            return self.fail(if has_answer { Failure::IdleTimedOut } else { Failure::HandshakeTimedOut });
        }
        let mut handler = OutcomeHandler {
            outgoing: &mut self.outgoing,
            incoming: &mut self.incoming,
            received: &mut self.received,
            handshake: &mut self.handshake,
        };
        if let Some(oldest) = self.sender.on_timer(now, &mut |outcome, content| handler.on_outcome(outcome, content)) {
            self.probe(&oldest);
        }
    }

    /// A probe carries new data; where there are none, what was sent first of what is in flight; else nothing (section 6.2.4 of RFC
    /// 9002).
    fn probe(&mut self, oldest: &[Content]) {
        self.handshake.probe();
        oldest.iter().filter_map(|content| content.message).for_each(|message| self.handshake.send_again(message));
        if !self.outgoing.has_work() || !self.handshake.may_send() {
            oldest
                .iter()
                .filter_map(|content| content.stream.clone())
                .for_each(|range| self.outgoing.send_again(range));
        }
        self.is_ping_due = true;
    }

    /// When the peer has been silent for too long; never where no answer is awaited.
    fn idle_at(&self) -> Instant {
        match self.config.idle_timeout {
            // At least three probe timeouts (RFC 9000, section 10.1).
            Some(timeout) if self.sender.sent_packets.awaits() => {
                self.heard_at + timeout.max(self.sender.plain_pto() * 3)
            }
            _ => Instant::FAR_FUTURE,
        }
    }

    /// When [`Connection::handle_timeout`] and then [`Connection::poll_transmit`] are to be called; `None` while only a packet or the
    /// application can change anything. A round-trip time that turns out shorter may put it into the past: then at once.
    pub fn next_timeout(&self) -> Option<Instant> {
        Some(self.next_at()).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// [`Connection::next_timeout`], with [`Instant::FAR_FUTURE`] for `None`.
    pub fn next_at(&self) -> Instant {
        if !matches!(self.state, State::Open | State::Closed) {
            return Instant::FAR_FUTURE;
        }
        let paced = if self.waits_for_pacer { self.sender.paced_at() } else { Instant::FAR_FUTURE };
        self.sender.next_at().min(self.idle_at()).min(self.received.ack_at()).min(paced)
    }

    /// The next packet to send at `now`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if std::mem::take(&mut self.is_close_due) {
            let mut packet = self.empty(now);
            packet.closes = true;
            return Some(self.leave(now, packet, Content::default(), false));
        }
        if !matches!(self.state, State::Open | State::Closed) || self.is_settled {
            return None;
        }
        if let Some(message) = self.handshake.take_due() {
            return Some(self.send_message(now, message));
        }
        if self.handshake.may_send() {
            let packet = self.poll_data(now);
            if packet.is_some() {
                return packet;
            }
        }
        if self.received.is_due(now) {
            let mut packet = self.empty(now);
            packet.has_ping = self.received.takes_ping(now, self.sender.rtt.smoothed());
            return Some(self.leave(now, packet, Content::default(), false));
        }
        // Time alone makes an acknowledgement due, or lets data leave: `handle_timeout` says so.
        self.is_settled = true;
        None
    }

    /// A packet without anything but an acknowledgement.
    fn empty(&self, now: Instant) -> Packet {
        Packet {
            number: self.sender.sent_packets.next_number(),
            size: 0,
            is_early: self.handshake.sends_early(),
            message: None,
            stream: None,
            ack: self.received.frame(now),
            limits: None,
            has_ping: false,
            closes: false,
        }
    }

    fn send_message(&mut self, now: Instant, message: crate::Message) -> Packet {
        if message == crate::Message::Hello && self.config.zero_rtt {
            // Early data may follow. Time counts from here: the connection may have been made long before.
            self.start(now);
        }
        let mut packet = self.empty(now);
        packet.message = Some(message);
        // Acknowledgements may have been lost with the message before.
        packet.ack = self.received.known(now);
        let has_limits = matches!(message, crate::Message::Hello | crate::Message::Answer);
        packet.limits = has_limits.then(|| self.incoming.first_limits());
        self.leave(now, packet, Content { message: Some(message), ..Content::default() }, false)
    }

    /// A packet with data, limits or a ping, if there is one to send and it may leave.
    fn poll_data(&mut self, now: Instant) -> Option<Packet> {
        let has_stream = self.outgoing.has_work();
        let is_probe = self.sender.probes();
        self.is_ping_due &= is_probe;
        self.waits_for_pacer = false;
        if !has_stream && !self.incoming.is_due() && !self.is_ping_due {
            self.sender.on_nothing_to_send();
            return None;
        }
        let mut packet = self.empty(now);
        let frames =
            packet.ack.as_ref().map_or(0, crate::AckFrame::size) + if self.incoming.is_due() { LIMITS } else { 0 };
        let room = self.config.max_datagram_size().saturating_sub(PROTECTION + STREAM_HEADER + frames);
        if has_stream && !self.may_leave(now) {
            if !self.incoming.is_due() {
                return None;
            }
        } else if let Some(chunk) = self.outgoing.take(room) {
            packet.stream = Some(chunk.frame);
            let content = Content { stream: Some(chunk.range), ..Content::default() };
            return Some(self.finish_packet(now, packet, content, chunk.is_retransmission));
        }
        packet.has_ping = self.is_ping_due;
        if packet.limits.is_none() && !self.incoming.is_due() && !packet.has_ping {
            return None;
        }
        Some(self.finish_packet(now, packet, Content::default(), false))
    }

    /// Whether a full packet may leave, the window and the pacer say.
    fn may_leave(&mut self, now: Instant) -> bool {
        if !self.sender.has_room(self.config.max_datagram_size()) {
            return false;
        }
        self.waits_for_pacer = self.sender.paced_at() > now;
        !self.waits_for_pacer
    }

    fn finish_packet(&mut self, now: Instant, mut packet: Packet, mut content: Content, again: bool) -> Packet {
        if self.incoming.is_due() {
            packet.limits = Some(self.incoming.limits(now, self.sender.rtt.smoothed()));
            content.has_limits = true;
        }
        self.leave(now, packet, content, again)
    }

    fn leave(&mut self, now: Instant, mut packet: Packet, content: Content, is_retransmission: bool) -> Packet {
        packet.size = (packet.datagram_size() + HEADERS).min(u32::from(u16::MAX)) as u16;
        let acknowledged = packet.ack.as_ref().and_then(crate::AckFrame::largest);
        if packet.ack.is_some() {
            self.received.on_acknowledged();
        }
        if packet.is_ack_eliciting() && !self.sender.sent_packets.awaits() {
            self.heard_at = self.heard_at.max(now);
        }
        self.sender.on_sent(now, &packet, Content { acknowledged, ..content }, is_retransmission);
        packet
    }

    /// The codepoint of the packets that this end sends.
    pub fn ecn(&self) -> Ecn {
        self.config.ecn
    }

    /// The next thing that the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// The application writes `bytes`; returns how many the send buffer took. Where it took fewer, [`Event::Writable`] follows.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if matches!(self.state, State::Closed | State::Failed) {
            return 0;
        }
        self.is_settled = false;
        let taken = self.outgoing.write(bytes, self.config.send_buffer.as_u64());
        self.events.writer_waits = taken < bytes;
        taken
    }

    /// Bytes that [`Connection::write`] would take.
    pub fn write_space(&self) -> u64 {
        self.outgoing.space(self.config.send_buffer.as_u64())
    }

    /// Bytes in order that wait to be read.
    pub fn readable(&self) -> u64 {
        self.incoming.readable()
    }

    /// The application reads up to `most` bytes; returns how many there were. The peer may be told new limits.
    pub fn read(&mut self, most: u64) -> u64 {
        let bytes = self.incoming.read(most);
        self.is_settled &= !self.incoming.is_due();
        bytes
    }

    /// The application has written its last byte: the stream ends with it.
    pub fn finish(&mut self) {
        self.outgoing.finish();
        self.is_settled = false;
        self.close_if_done();
    }

    /// Gives the connection up at once, and tells the peer.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed | State::Failed) {
            self.is_close_due = self.state == State::Open;
            self.fail(Failure::Aborted);
        }
    }

    /// Payload of UDP in a full packet, in which windows count.
    pub fn max_datagram_size(&self) -> u32 {
        self.config.max_datagram_size()
    }

    /// The congestion window and slow-start threshold, in full packets.
    pub fn window(&self) -> Window {
        self.sender.congestion.window
    }

    /// Bytes in order that have arrived.
    pub fn received(&self) -> u64 {
        self.incoming.in_order()
    }

    /// Whether the connection is over, one way or the other.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Failed)
    }

    /// Where the connection stands.
    pub fn metrics(&self) -> Metrics {
        let congestion = &self.sender.congestion;
        Metrics {
            window: congestion.window,
            in_flight: self.sender.sent_packets.in_flight(),
            srtt: self.sender.rtt.measured(),
            min_rtt: self.sender.rtt.min(),
            pto: self.sender.pto(),
            phase: congestion.control.phase(&congestion.window),
            acknowledged: self.outgoing.acknowledged(),
            received: self.received(),
            counters: self.sender.counters,
        }
    }
}

/// The parts of the connection that the outcome of a packet changes.
struct OutcomeHandler<'a> {
    outgoing: &'a mut SendStream,
    incoming: &'a mut ReceiveStream,
    received: &'a mut Received,
    handshake: &'a mut Handshake,
}

impl OutcomeHandler<'_> {
    fn on_outcome(&mut self, outcome: Outcome, content: &Content) {
        match outcome {
            Outcome::Acknowledged => {
                content.stream.iter().for_each(|range| self.outgoing.on_acked(range.clone()));
                content.acknowledged.iter().for_each(|largest| self.received.forget(*largest));
            }
            Outcome::Lost => {
                content.stream.iter().for_each(|range| self.outgoing.send_again(range.clone()));
                content.message.iter().for_each(|message| self.handshake.send_again(*message));
                if content.has_limits {
                    self.incoming.send_limits_again();
                }
            }
        }
    }
}
