//! A connection: handshake, transfer both ways, close.

use crate::config::{Allocation, Config};
use crate::control::{Control, Window};
use crate::handshake::{First, Handshake, Opening};
use crate::marks::{ASKS_FOR_COUNT, Agreement, Count, agreement, feedback_flags, handshake_code};
use crate::metrics::Metrics;
use crate::receiver::Receiver;
use crate::segment::{
    ACCURATE_ECN_OPTION, BARE_HEADER, Flags, SackBlocks, Segment, TIMESTAMPS_OPTION, Timestamps, sack_option,
};
use crate::sender::{DataKind, Outgoing};
use crate::sending::Sending;
use crate::timestamp::ms;
use crate::validate::ControlError;
use std::sync::Arc;
use units::{Ecn, Instant};

/// One end of a TCP connection, sans-IO.
///
/// A driver hands segments to [`Connection::handle_segment`], calls [`Connection::handle_timeout`] at
/// [`Connection::next_timeout`], and after each of these, and after each command of the application, sends what
/// [`Connection::poll_transmit`] gives until it gives nothing, and looks at [`Connection::poll_event`]. Payloads are
/// lengths. Time must not run backwards.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    state: State,
    handshake: Handshake,
    sender: Sending,
    receiver: Receiver,
    /// Options that both ends agreed on.
    agreed: Agreed,
    events: Events,
}

/// States of RFC 9293, those of closing folded into what each direction has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// Both directions have ended, or the connection has failed. Late segments are still answered.
    Closed,
    Failed,
}

#[derive(Debug, Clone, Copy, Default)]
struct Agreed {
    timestamps: bool,
    sack: bool,
    window_scaling: bool,
    /// The codepoint of data segments.
    ecn: Ecn,
    /// The bits AE, CWR and ECE of the answer to the peer's SYN.
    answer: u8,
    /// Shift of the windows that this end advertises; zero without window scaling.
    shift: u8,
}

/// Something that the application should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// There is data to read.
    Readable,
    /// The send buffer has room again.
    Writable,
    /// The peer has sent its last byte, and it has arrived.
    PeerFinished,
    /// Both directions have ended and are acknowledged.
    Closed,
    /// The connection is over before its time.
    Failed(Failure),
}

/// Why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer to the SYN.
    #[error("connection timed out: no answer to the SYN")]
    ConnectTimedOut,
    /// No acknowledgement for too many retransmissions.
    #[error("connection timed out: no acknowledgement of data")]
    RetransmissionTimedOut,
    /// The peer reset the connection.
    #[error("reset by the peer")]
    Reset,
    /// This end gave it up.
    #[error("aborted")]
    Aborted,
}

/// Events that the application has not polled yet.
#[derive(Debug, Default)]
struct Events {
    /// The places in [`Events::IN_ORDER`] of those that have happened, as bits.
    pending: u8,
    failed: Option<Failure>,
    /// The end of the peer's data was reported to the application.
    reported_finished: bool,
    /// A write found the buffer full.
    writer_waits: bool,
}

impl Events {
    /// Events that can be pending at one time, in the order in which they are reported; a failure comes last.
    const IN_ORDER: [Event; 5] =
        [Event::Connected, Event::Readable, Event::PeerFinished, Event::Writable, Event::Closed];
    const CONNECTED: u8 = 1 << 0;
    const READABLE: u8 = 1 << 1;
    const PEER_FINISHED: u8 = 1 << 2;
    const WRITABLE: u8 = 1 << 3;
    const CLOSED: u8 = 1 << 4;

    /// Takes the first of those pending.
    #[inline]
    fn take(&mut self) -> Option<Event> {
        if self.pending == 0 {
            return self.failed.take().map(Event::Failed);
        }
        let first = self.pending.trailing_zeros() as usize;
        self.pending &= self.pending - 1;
        Some(Self::IN_ORDER[first])
    }
}

impl Connection {
    /// Opens a connection: the SYN is the first segment to leave.
    pub fn connect(config: Arc<Config>, now: Instant) -> Self {
        let mut connection = Self::new(config, State::SynSent);
        if !connection.sender.open() {
            connection.handshake.begin(now);
        }
        connection
    }

    /// Waits for a SYN.
    pub fn listen(config: Arc<Config>) -> Self {
        Self::new(config, State::Listen)
    }

    fn new(config: Arc<Config>, state: State) -> Self {
        Self {
            sender: Sending::new(&config),
            receiver: Receiver::new(&config),
            state,
            handshake: Handshake::default(),
            agreed: Agreed::default(),
            events: Events::default(),
            config,
        }
    }

    /// Puts `control`, which the caller has made, in the place of the configured one. The connection must not have begun: no
    /// answer of the peer has come.
    ///
    /// # Errors
    /// If it has, if ns-2's agents send, or if the control governs the window and something else of the configuration does,
    /// too.
    pub fn set_control(&mut self, control: Box<dyn Control>) -> Result<(), ControlError> {
        if matches!(self.state, State::Listen | State::SynSent) {
            self.sender.set_control(control)
        } else {
            Err(ControlError::HasBegun)
        }
    }

    /// A segment of the peer has arrived.
    #[inline]
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        if segment.has(Flags::RST) {
            return self.on_reset(segment);
        }
        if self.receiver.is_overdue(now) || self.receiver.is_overdue_before(segment) {
            let acknowledgement = self.segment(now, self.sender.nxt(), 0, Flags::ACK);
            self.handshake.first = Some(First::Overdue(Box::new(acknowledgement)));
        }
        let has_ack = segment.has(Flags::ACK);
        match self.state {
            State::Listen if segment.has(Flags::SYN) && !has_ack => self.on_syn(now, segment),
            State::SynSent if segment.has(Flags::SYN) && self.acknowledges_syn(segment) => self.on_syn(now, segment),
            // An answer to another SYN: its sender is half-open (RFC 9293, section 3.5.2).
            State::SynSent if has_ack && !self.acknowledges_syn(segment) && !self.config.bare => {
                self.handshake.first = Some(First::Reset(segment.ack));
            }
            State::Listen | State::SynSent => {}
            State::Failed if has_ack && !self.config.bare => self.handshake.first = Some(First::Reset(segment.ack)),
            State::Failed => {}
            State::SynReceived if segment.has(Flags::SYN) => self.handshake.is_due = true,
            State::SynReceived if has_ack && !self.acknowledges_syn(segment) && !self.config.bare => {
                self.handshake.first = Some(First::Reset(segment.ack));
            }
            State::SynReceived | State::Established | State::Closed => self.on_data_or_ack(now, segment),
        }
    }

    /// Whether a segment acknowledges the SYN of this end, and nothing that was not sent.
    fn acknowledges_syn(&self, segment: &Segment) -> bool {
        segment.has(Flags::ACK) && (1..=self.sender.nxt().max(1)).contains(&segment.ack)
    }

    /// A reset counts where it answers the SYN, or where the next byte is expected; elsewhere in the window the peer is
    /// asked to confirm it (RFC 9293, section 3.5.3; RFC 5961, section 3).
    fn on_reset(&mut self, segment: &Segment) {
        match self.state {
            State::SynSent if self.acknowledges_syn(segment) => self.fail(Failure::Reset),
            State::SynReceived | State::Established if segment.seq == self.receiver.rcv_nxt() => {
                self.fail(Failure::Reset);
            }
            State::Established if self.receiver.is_in_window(segment.seq) => self.receiver.acknowledge_now(),
            _ => {}
        }
    }

    /// How both ends use ECN, if they do: the SYN asks for echoes by ECE and CWR, and the answer agrees by ECE alone (RFC 3168, section
    /// 6.1.1); for counters by AE as well, and the answer says what the IP header of the SYN did (RFC 9768, section 3.1.1).
    fn agree_on_ecn(&mut self, syn: &Segment) {
        if !self.config.ecn.is_capable() {
            return;
        }
        let Some(agreement) = agreement(syn, self.config.accurate_ecn) else { return };
        self.agreed.ecn = self.config.ecn;
        match agreement {
            Agreement::Echo => {
                if self.config.accurate_ecn && self.config.ecn == Ecn::Ect1 {
                    // Queues that mark early are for those who are told of each mark (RFC 9331, section 4.2).
                    self.agreed.ecn = Ecn::Ect0;
                    self.sender.give_up_counts();
                }
                self.agreed.answer = 0b001;
                self.receiver.use_ecn(self.config.echoes_each_mark());
                self.sender.use_echoes();
            }
            Agreement::Count => {
                self.agreed.answer = handshake_code(syn.ecn);
                let count = Count::new(syn.has(Flags::ACK).then_some(syn.ecn));
                let count = if self.config.accurate_ecn_option { count.with_bytes(self.config.ecn) } else { count };
                self.receiver.use_counts(count, self.agreed.timestamps);
                self.sender.use_counts();
            }
        }
    }

    fn on_syn(&mut self, now: Instant, segment: &Segment) {
        let window_scaling = self.config.options.window_scaling && segment.has(Flags::WINDOW_SCALE);
        self.agreed = Agreed {
            timestamps: self.config.options.timestamps && segment.has(Flags::TIMESTAMPS),
            sack: self.config.offers_sack() && segment.has(Flags::SACK_PERMITTED),
            window_scaling,
            ecn: Ecn::NotCapable,
            answer: 0,
            shift: if window_scaling { self.config.window_shift() } else { 0 },
        };
        self.receiver.on_syn(segment, self.agreed.sack, self.agreed.timestamps);
        if let Some(mss) = segment.mss() {
            self.sender.limit_mss(mss);
        }
        self.agree_on_ecn(segment);
        self.sender.agree(self.agreed.sack);
        if segment.len > 0 {
            self.on_data(now, &Segment { seq: 1, ..*segment });
        }
        if self.state == State::Listen {
            self.state = State::SynReceived;
            self.handshake.begin(now);
            self.sender.start(now, segment.window, Opening::UNKNOWN);
            if self.config.bare {
                self.establish();
            }
        } else {
            self.start(now, segment);
            self.sender.on_ack(now, segment);
            if !self.config.bare {
                self.receiver.acknowledge_now();
                self.handshake.answers_alone = self.config.rules().handshake.answers_alone;
            }
        }
        // ns-2's Vegas has the first segment in the SYN, which may be all.
        self.close_if_done();
    }

    /// The SYN of this end is acknowledged.
    fn start(&mut self, now: Instant, segment: &Segment) {
        self.sender.start(now, segment.window, self.handshake.opening(now, segment, &self.config));
        self.receiver.start(now);
        self.establish();
    }

    fn establish(&mut self) {
        self.state = State::Established;
        self.handshake.timeout = None;
        self.events.pending |= Events::CONNECTED | Events::WRITABLE;
    }

    fn on_data_or_ack(&mut self, now: Instant, segment: &Segment) {
        if self.state == State::SynReceived && segment.has(Flags::ACK) && segment.ack >= 1 {
            self.start(now, segment);
        }
        if segment.has(Flags::SYN) {
            // The peer did not see the handshake's last segment, or it has restarted: the answer tells (RFC 5961, section 4.2).
            self.handshake.is_due = self.config.bare && !segment.has(Flags::ACK);
            if segment.has(Flags::ACK) || !self.config.bare {
                self.receiver.acknowledge_now();
            }
            return;
        }
        if segment.has(Flags::ACK) && segment.ack > self.sender.nxt() && !self.config.bare {
            // RFC 9293, section 3.10.7.4: what acknowledges data that were never sent is answered and dropped.
            return self.receiver.acknowledge_now();
        }
        if segment.has(Flags::ACK) {
            self.sender.on_ack(now, segment);
            if self.events.writer_waits && self.sender.write_space() > 0 {
                self.events.pending |= Events::WRITABLE;
            }
        }
        self.on_data(now, segment);
        self.close_if_done();
    }

    #[inline]
    fn on_data(&mut self, now: Instant, segment: &Segment) {
        if segment.span() == 0 {
            return self.receiver.on_nothing(segment);
        }
        let received = self.receiver.received();
        self.receiver.on_segment(now, segment, &self.config);
        if self.receiver.received() > received {
            self.events.pending |= Events::READABLE;
        }
        if self.receiver.is_finished() && !self.events.reported_finished {
            self.events.reported_finished = true;
            self.events.pending |= Events::PEER_FINISHED;
        }
    }

    fn close_if_done(&mut self) {
        let peer_is_done = self.receiver.is_finished() || self.config.bare;
        if self.state == State::Established && self.sender.is_done() && peer_is_done {
            self.state = State::Closed;
            self.events.pending |= Events::CLOSED;
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Failed;
        self.handshake.is_due = false;
        self.events.failed = Some(failure);
    }

    /// Time has come to [`Connection::next_timeout`]. Harmless at any other time.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::SynSent if self.sender.sends_syn() && !self.sender.on_timers(now) => {
                self.fail(Failure::ConnectTimedOut);
            }
            State::SynSent | State::SynReceived => self.on_handshake_timeout(now),
            State::Established if !self.sender.on_timers(now) => self.fail(Failure::RetransmissionTimedOut),
            _ => {}
        }
    }

    fn on_handshake_timeout(&mut self, now: Instant) {
        let has_expired = self.handshake.timeout.is_some_and(|at| at <= now);
        if !self.handshake.on_timer(now, self.state == State::SynReceived, &self.config) {
            self.fail(Failure::ConnectTimedOut);
        } else if has_expired {
            self.sender.count_timeout();
        }
    }

    /// When [`Connection::handle_timeout`] and then [`Connection::poll_transmit`] are to be called; `None` while only a
    /// segment or the application can change anything.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::SynSent if self.sender.sends_syn() => self.sender.next_timeout(),
            State::SynSent | State::SynReceived => self.handshake.timeout,
            State::Established => Some(self.next_at()).filter(|at| *at < Instant::FAR_FUTURE),
            State::Closed => Some(self.receiver.ack_at()).filter(|at| *at < Instant::FAR_FUTURE),
            State::Listen | State::Failed => None,
        }
    }

    /// Starts to load into the processor's cache what the connection keeps outside this value, which is loaded itself: for a caller
    /// that has so many connections that each is out of the cache when its time comes.
    #[inline]
    pub fn prefetch(&self) {
        self.sender.prefetch();
    }

    /// [`Connection::next_timeout`], with [`Instant::FAR_FUTURE`] for `None`.
    #[inline]
    pub fn next_at(&self) -> Instant {
        if self.state != State::Established {
            return self.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        }
        self.sender.next_at().min(self.receiver.ack_at())
    }

    /// The next segment to send at `now`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.handshake.has_segment() || self.receiver.is_satpep() {
            let first = self.poll_first(now);
            if first.is_some() {
                return first;
            }
        }
        let is_established = self.state == State::Established;
        let may_send = is_established || self.state == State::SynSent && self.sender.sends_syn();
        let outgoing = if may_send { self.sender.poll(now) } else { None };
        let may_acknowledge = is_established || self.state == State::Closed;
        let is_data = matches!(outgoing, Some(Outgoing::Data { .. }));
        let mut ecn = Ecn::NotCapable;
        let (seq, len, flags) = match outgoing {
            Some(Outgoing::Syn { len }) => return Some(self.syn(now, len)),
            Some(Outgoing::Data { seq, len, fin, kind }) => {
                if kind != DataKind::Again && len > 0 {
                    ecn = self.agreed.ecn;
                }
                let flags = self.data_flags(seq, len, fin);
                (seq, len, flags.with_if(kind == DataKind::NewAfterReduction, Flags::CWR))
            }
            Some(Outgoing::WindowProbe { seq }) => (seq, 0, Flags::ACK),
            None if may_acknowledge && self.receiver.is_ack_due(now) => (self.sender.nxt(), 0, Flags::ACK),
            None => return None,
        };
        let data_header = if is_data { self.sender.data_header() } else { None };
        Some(self.build(now, seq, len, flags, ecn, data_header))
    }

    /// The control bits of data.
    #[inline]
    fn data_flags(&self, seq: u64, len: u32, fin: bool) -> Flags {
        let flags = if fin { Flags::ACK.with(Flags::FIN) } else { Flags::ACK };
        let is_pushed = len > 0 && self.sender.pushes(seq + u64::from(len));
        if is_pushed { flags.with(Flags::PSH) } else { flags }
    }

    /// What leaves before anything else: a reset, a SYN, and acknowledgements that go alone.
    #[inline(never)]
    fn poll_first(&mut self, now: Instant) -> Option<Segment> {
        match self.handshake.first.take() {
            Some(First::Reset(seq)) => return Some(self.segment(now, seq, 0, Flags::RST.with(Flags::ACK))),
            Some(First::Overdue(acknowledgement)) => return Some(*acknowledgement),
            None => {}
        }
        if std::mem::take(&mut self.handshake.is_due) {
            return Some(self.syn(now, 0));
        }
        // Where arrivals are counted, each has an acknowledgement of its own.
        let is_alone = std::mem::take(&mut self.handshake.answers_alone) || self.receiver.is_satpep();
        (is_alone && self.state == State::Established && self.receiver.is_ack_due(now)).then(|| {
            let seq = self.sender.nxt();
            self.segment(now, seq, 0, Flags::ACK)
        })
    }

    fn syn(&mut self, now: Instant, len: u32) -> Segment {
        let is_answer = self.state != State::SynSent;
        if self.state != State::Established && !self.sender.sends_syn() {
            self.handshake.on_sent(now, is_answer, &self.config);
        }
        let options = self.config.options;
        let (timestamps, sack, scale) = if is_answer {
            (self.agreed.timestamps, self.agreed.sack, self.agreed.window_scaling)
        } else {
            (options.timestamps, self.config.offers_sack(), options.window_scaling)
        };
        let mut flags = if is_answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        for (has, flag) in
            [(timestamps, Flags::TIMESTAMPS), (sack, Flags::SACK_PERMITTED), (scale, Flags::WINDOW_SCALE)]
        {
            flags = if has { flags.with(flag) } else { flags };
        }
        flags = if is_answer {
            flags.with(feedback_flags(self.agreed.answer))
        } else {
            let asks = if self.config.accurate_ecn { ASKS_FOR_COUNT } else { Flags::ECE.with(Flags::CWR) };
            flags.with_if(self.config.ecn.is_capable(), asks)
        };
        let counters = if is_answer { self.receiver.accurate_ecn() } else { None };
        let (ecn_bytes, order) = counters.unwrap_or_default();
        let ack = self.receiver.rcv_nxt();
        self.receiver.on_acknowledged();
        Segment {
            seq: 0,
            ack,
            len,
            window: self.receiver.window(0),
            timestamps: self.timestamps(now),
            sack: if self.config.bare { SackBlocks::default() } else { SackBlocks::of_syn(self.config.mss) },
            flags: flags.with(order),
            header: match self.sender.data_header() {
                Some(header) if len > 0 => header,
                _ if self.config.bare => BARE_HEADER,
                _ => BARE_HEADER + syn_options(timestamps, sack, scale, counters.is_some()),
            },
            ecn: Ecn::NotCapable,
            ecn_bytes,
        }
    }

    fn timestamps(&self, now: Instant) -> Timestamps {
        Timestamps { value: ms(now), echo: self.receiver.echo() }
    }

    /// A segment with the current acknowledgement.
    fn segment(&mut self, now: Instant, seq: u64, len: u32, flags: Flags) -> Segment {
        self.build(now, seq, len, flags, Ecn::NotCapable, None)
    }

    /// A segment with the current acknowledgement, and with these headers if they are not the usual ones.
    #[inline]
    fn build(&mut self, now: Instant, seq: u64, len: u32, flags: Flags, ecn: Ecn, headers: Option<u8>) -> Segment {
        let (sack, reported) = self.receiver.blocks(&self.config);
        let mut flags = flags.with(reported);
        let mut header = BARE_HEADER;
        if self.agreed.timestamps {
            flags = flags.with(Flags::TIMESTAMPS);
            header += TIMESTAMPS_OPTION;
        }
        header += if self.config.bare { 8 * sack.len() as u8 } else { sack_option(sack.len()) };
        // Full segments have no room for it.
        let is_full = len + u32::from(ACCURATE_ECN_OPTION) > self.sender.mss();
        let (ecn_bytes, order) = self.receiver.accurate_ecn().filter(|_| !is_full).unwrap_or_default();
        header += if order == Flags::default() { 0 } else { ACCURATE_ECN_OPTION };
        self.receiver.on_acknowledged();
        Segment {
            seq,
            ack: self.receiver.rcv_nxt(),
            len,
            window: self.receiver.window(self.agreed.shift),
            timestamps: if self.agreed.timestamps { self.timestamps(now) } else { Timestamps::default() },
            sack,
            flags: flags.with(order).with(self.receiver.report_marks(len > 0)),
            header: headers.unwrap_or(header),
            ecn,
            ecn_bytes,
        }
    }

    /// The next thing that the application should know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// The application writes `bytes`; returns how many the send buffer took. Where it took fewer, [`Event::Writable`]
    /// follows.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if matches!(self.state, State::Closed | State::Failed) {
            return 0;
        }
        let taken = self.sender.write(bytes);
        self.events.writer_waits = taken < bytes;
        taken
    }

    /// Bytes that [`Connection::write`] would take.
    pub fn write_space(&self) -> u64 {
        self.sender.write_space()
    }

    /// Bytes that were written and have never been sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Bytes in order that wait to be read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// The application reads up to `most` bytes; returns how many there were. May make a window update due.
    #[inline]
    pub fn read(&mut self, now: Instant, most: u64) -> u64 {
        let bytes = self.receiver.read(now, most);
        if self.state == State::Established && !self.config.bare && self.receiver.has_window_update() {
            self.receiver.acknowledge_now();
        }
        bytes
    }

    /// The application has written its last byte: a FIN follows it.
    pub fn finish(&mut self) {
        self.sender.finish();
        self.close_if_done();
    }

    /// Gives the connection up at once, with a reset.
    pub fn abort(&mut self) {
        if matches!(self.state, State::SynReceived | State::Established) {
            self.handshake.first = Some(First::Reset(self.sender.nxt()));
        }
        if !matches!(self.state, State::Closed | State::Failed) {
            self.fail(Failure::Aborted);
        }
    }

    /// What the network layer says of the link's capacity, for controls that follow it.
    pub fn set_capacity(&mut self, now: Instant, allocation: Allocation) {
        self.sender.set_capacity(now, allocation);
    }

    /// Payload of the full segments that this end sends, in which windows count: what is configured, or what the peer takes at most.
    pub fn mss(&self) -> u32 {
        self.sender.mss()
    }

    /// The congestion window and slow-start threshold: what changes most often of [`Connection::metrics`].
    #[inline]
    pub fn window(&self) -> Window {
        self.sender.window()
    }

    /// How many bytes of the peer's may be outstanding from now on, on a hop of SaTPEP ([`Config::satpep`]): the next
    /// acknowledgement tells, and may take back what an earlier one gave. Whole segments count, at least one.
    pub fn set_granted_window(&mut self, bytes: u64) {
        self.receiver.grant(bytes);
    }

    /// Where the connection stands.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            received: self.receiver.received(),
            duplicate_bytes: self.receiver.duplicate_bytes(),
            ..self.sender.metrics()
        }
    }

    /// Bytes in order that have arrived.
    pub fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Whether the connection is over, one way or the other.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Failed)
    }
}

/// Bytes of a SYN's options: MSS, and those that are there, padded as a whole.
fn syn_options(timestamps: bool, sack: bool, scale: bool, counters: bool) -> u8 {
    let there = [(timestamps, 10), (sack, 2), (scale, 3), (counters, ACCURATE_ECN_OPTION)];
    let bytes = 4 + there.iter().filter(|(is_there, _)| *is_there).map(|(_, bytes)| bytes).sum::<u8>();
    bytes.div_ceil(4) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What thousands of connections remember is to stay near the processor.
    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 1000, "{}", size_of::<Connection>());
    }
}
