//! Memory: what the peer may send us, what we may send it, and what the driver may write.
//!
//! The receiver grants memory only, never a rate: the session's pool bounds all streams together, and a limit for each
//! stream keeps one stalled reader from taking the pool. Credit is never retracted, and data sent again uses none. The pool grows with
//! what arrives in a round trip, so that a link which is faster or longer than it was configured is not held back.
//!
//! A sender at its limit stands still, so a larger one waits for no timer to be repeated: until it is known to
//! have arrived it rides on every acknowledgement, of which there are 32 in a round trip. What a stream may be sent at first,
//! two BDP, covers what is in flight until an ACK of its first data can have come, and as much again for the repeats.
//!
//! The limits of streams add up to more than the session's, so readers that stall could stop all others. A sender therefore keeps a
//! part of the session's credit back for streams that are read. Of that a stream has a ration: bytes that it may have sent and that its
//! receiver has not reported as read. Only a stream that goes on by its ration asks for reports, and they travel with
//! acknowledgements.
//!
//! The pool shrinks when other peers take their share of the endpoint's memory. Until no more than the pool is granted, a receiver grants again
//! of what is read only what the sender lacks of the part that it keeps back: without that, readers that stall would stop all others.

use super::Session;
use crate::config::EndpointConfig;
use crate::credit::{Credit, SessionCredit};
use crate::handshake::TransportParameters;
use crate::memory::{Holding, Memory};
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::sent_packets::{SentFrame, SentFrames, StreamKey};
use crate::stream::{Advertised, StreamNumber, StreamOffset};
use crate::wire::frame::Writer;
use peering::Capabilities;
use std::collections::VecDeque;
use units::{Duration, Instant, Rate};

/// The credits that handshakes with a peer have advertised since a session with it began: the next session begins by one of them, and the
/// peer may go by another, as handshakes cross and answers are lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HandshakeCredits {
    /// The largest credit of a session.
    session: Credit,
    /// The least and the largest credit of a new stream.
    least_stream: Credit,
    stream: Credit,
    /// Whether handshakes advertised different ones.
    differ: bool,
}

impl HandshakeCredits {
    /// A handshake advertises these.
    pub(crate) fn add(&mut self, session: Credit, stream: Credit) {
        if self.session == Credit::default() {
            *self = Self { session, least_stream: stream, stream, differ: false };
            return;
        }
        self.differ |= (self.session, self.least_stream, self.stream) != (session, stream, stream);
        self.session = self.session.max(session);
        (self.least_stream, self.stream) = (self.least_stream.min(stream), self.stream.max(stream));
    }
}

pub(crate) struct FlowControl {
    /// Receive memory of the session: what it may hold beside others now.
    pool: u64,
    /// What it holds of the endpoint's memory for each direction.
    pub(crate) receive_holding: Holding,
    pub(crate) send_holding: Holding,
    /// Stream bytes that arrived (furthest points of all streams, added up), and of those what readers consumed.
    received: u64,
    consumed: u64,
    /// Of what arrived in order, the bytes that readers have not taken.
    unread: u64,
    /// MAX_DATA as advertised: the bytes in all that the peer may send.
    limit: Credit,
    pub(crate) limit_due: bool,
    /// What the peer keeps back of that for streams that are read.
    peer_keeps_back: u64,
    advertised: Advertised<Credit>,
    /// Streams whose advertised limits may not have arrived.
    repeats: VecDeque<StreamKey>,
    /// Streams of which the peer is to know how far they have been read.
    reads: VecDeque<StreamKey>,
    /// What each side may send on a new stream.
    pub(crate) own_stream_credit: Credit,
    pub(crate) peer_stream_credit: Credit,
    /// What the peer was told that it may send on a new stream.
    new_stream_credit: Credit,

    /// The bytes in all that the peer lets us send, and what we sent of them.
    peer_limit: Credit,
    sent: u64,
    /// Of what is left, so much is for streams that the peer reports as read.
    kept_back: u64,
    /// The most that was sent on a stream without credit of its own, streams that may have left the schedule for want of the session's,
    /// and what the peer let us send when they were last looked at.
    most_ungranted: u64,
    are_short: bool,
    looked_at: Credit,
    next_look: Instant,
    /// Memory for written data, how much of it is in use, and the most unsent data of one stream.
    send_pool: u64,
    send_buffered: u64,
    unsent_cap: u64,

    /// Streams that received data in this round trip and in the one before.
    round: u64,
    active: u64,
    active_before: u64,
    round_ends: Instant,
    /// Stream bytes that came in this round trip, and the most that came in one: bytes, and not offsets, of which a peer may leave out
    /// what it likes.
    in_round: u64,
    most_in_round: u64,
}

impl FlowControl {
    /// A stream that has nothing waiting may always write this much, however full the pool is.
    const MIN_WRITE: u64 = 4096;
    /// Between looks at all streams, for each of them: several times what a look takes.
    const LOOK: Duration = Duration::from_nanos(200);
    /// Least window of a stream.
    const MIN_WINDOW: u64 = 64 * 1024;
    /// The part of the session's first credit that is kept back for streams that are read. A transfer alone leaves three of them.
    const KEPT_BACK: u64 = 16;

    pub(crate) fn new(config: &EndpointConfig, parameters: &TransportParameters, now: Instant) -> Self {
        Self {
            pool: config.receive_pool(),
            receive_holding: Holding::default(),
            send_holding: Holding::default(),
            received: 0,
            consumed: 0,
            unread: 0,
            limit: Credit::new(config.receive_pool()),
            limit_due: false,
            peer_keeps_back: config.receive_pool() / Self::KEPT_BACK,
            advertised: Advertised::default(),
            repeats: VecDeque::new(),
            reads: VecDeque::new(),
            own_stream_credit: Credit::new(config.stream_credit()),
            peer_stream_credit: parameters.stream_credit,
            new_stream_credit: Credit::default(),
            peer_limit: parameters.session_credit,
            sent: 0,
            kept_back: Self::kept_back(config, parameters),
            most_ungranted: 0,
            are_short: false,
            looked_at: Credit::default(),
            next_look: now,
            send_pool: config.send_pool(),
            send_buffered: 0,
            unsent_cap: Self::unsent_cap(config.capacity),
            round: 1,
            active: 0,
            active_before: 0,
            round_ends: now,
            in_round: 0,
            most_in_round: 0,
        }
    }

    /// What is kept back of the peer's credit. A peer that does not report what it reads has all of it used, whether it reads or not.
    fn kept_back(config: &EndpointConfig, parameters: &TransportParameters) -> u64 {
        let common = config.capabilities.common(parameters.capabilities);
        let does_report = common.common(Capabilities::READ_REPORTS) != Capabilities::NONE;
        if does_report { parameters.session_credit.bytes() / Self::KEPT_BACK } else { 0 }
    }

    /// These were advertised in handshakes. A peer may go by any of them: where they differ, the largest are advertised again, and a stream
    /// begins with the least, which more is granted beyond.
    pub(crate) fn begin_at(&mut self, advertised: HandshakeCredits) {
        self.limit = advertised.session;
        self.peer_keeps_back = advertised.session.bytes() / Self::KEPT_BACK;
        self.own_stream_credit = advertised.least_stream;
        if advertised.differ {
            self.limit_due = true;
            self.new_stream_credit = advertised.stream;
        }
    }

    /// Sets what the session may hold now: of what it receives, and of what it sends. What was granted stays so.
    pub(crate) fn set_pools(&mut self, receive: u64, send: u64) {
        let is_more = receive > self.pool;
        (self.pool, self.send_pool) = (receive, send);
        if is_more {
            self.raise_limit();
        }
    }

    /// The most unsent data of one stream: a tenth of a second of a link of `capacity`, so that it never waits for the driver to read
    /// more.
    fn unsent_cap(capacity: Rate) -> u64 {
        capacity.bytes_in(Duration::from_millis(100)).as_u64().clamp(128 * 1024, 2 << 20)
    }

    /// The link is thought to carry `capacity` now.
    pub(crate) fn set_unsent_cap(&mut self, capacity: Rate) {
        self.unsent_cap = Self::unsent_cap(capacity);
    }

    /// Bytes that the peer may have us hold.
    pub(crate) fn granted(&self) -> u64 {
        self.limit.beyond(self.consumed)
    }

    // Sending.

    /// New stream bytes that the peer's session credit still allows.
    pub(crate) fn available(&self) -> SessionCredit {
        SessionCredit { left: self.peer_limit.after(self.sent), kept_back: self.kept_back }
    }

    /// New bytes of a stream leave, which has sent `ungranted` bytes if it has no credit of its own.
    pub(crate) fn on_sent(&mut self, fresh: u64, ungranted: Option<u64>) {
        self.sent += fresh;
        self.most_ungranted = self.most_ungranted.max(ungranted.unwrap_or(0));
    }

    /// Whether each of `streams` is to be looked at, after a packet before which `before` could be sent: some that have only new data may
    /// have left the schedule for want of credit. A peer that raises the limit in small steps does not make that frequent: a
    /// look takes a byte for each stream, or some time since the one before.
    pub(crate) fn frees_streams(&mut self, now: Instant, before: SessionCredit, streams: usize) -> bool {
        let available = self.available();
        // Half of what is left beyond what it has sent is a stream's that has no credit of its own.
        let stopped = before.left.beyond(self.most_ungranted.max(self.kept_back)) < 2;
        // What is kept back goes to streams as they are read, unless so little of it was left that there were no rations.
        let go_on = available.free() > 0 || before.ration() == 0;
        self.are_short |= available.left > before.left && stopped && go_on;
        let is_paid = self.peer_limit.beyond(self.looked_at.bytes()) >= streams as u64 || now >= self.next_look;
        let is_due = self.are_short && is_paid;
        if is_due {
            (self.are_short, self.looked_at) = (false, self.peer_limit);
            self.next_look = now + Self::LOOK * streams as u64;
        }
        is_due
    }

    pub(crate) fn on_peer_limit(&mut self, limit: Credit) {
        self.peer_limit = self.peer_limit.max(limit);
    }

    /// Bytes that a stream may write now, with `unsent` of it waiting. A stream takes at most half of what is free, so
    /// that many writers share the pool.
    pub(crate) fn write_space(&self, unsent: u64) -> usize {
        let space = self.most_unsent().saturating_sub(unsent);
        let least = if unsent == 0 { Self::MIN_WRITE } else { 0 };
        space.max(least) as usize
    }

    /// How much of a stream may wait to be sent, now that others take part of the pool.
    fn most_unsent(&self) -> u64 {
        let free = self.send_pool.saturating_sub(self.send_buffered);
        (free / 2).min(self.unsent_cap)
    }

    /// A stream of which no more than this waits to be sent has space worth telling its writer of: a quarter of what may wait, so that
    /// the rest keeps the link busy until it writes. One of which nothing waits always has.
    pub(crate) fn most_unsent_worth_a_read(&self) -> u64 {
        const LEAST: u64 = 16 * 1024;
        let worth = (self.unsent_cap / 4).min(self.send_pool / 16).max(LEAST);
        self.most_unsent().saturating_sub(worth)
    }

    pub(crate) fn on_written(&mut self, bytes: u64) {
        self.send_buffered += bytes;
    }

    pub(crate) fn on_send_freed(&mut self, bytes: u64) {
        self.send_buffered -= bytes;
    }

    pub(crate) fn send_buffered(&self) -> u64 {
        self.send_buffered
    }

    pub(crate) fn on_new_stream_credit(&mut self, credit: Credit) {
        self.peer_stream_credit = self.peer_stream_credit.max(credit);
    }

    // Receiving.

    /// Bytes held for readers.
    pub(crate) fn held(&self) -> u64 {
        self.received - self.consumed
    }

    /// Receive memory that is left, and how much there is.
    pub(crate) fn left(&self) -> (u64, u64) {
        (self.pool.saturating_sub(self.held()), self.pool)
    }

    /// Streams' furthest points moved by `bytes`. `false` if the peer exceeds its credit.
    #[must_use]
    pub(crate) fn on_received(&mut self, bytes: u64) -> bool {
        self.received += bytes;
        let within = self.received <= self.limit.bytes();
        self.raise_limit();
        within
    }

    /// Readers consumed bytes, or they were dropped with their stream.
    pub(crate) fn on_consumed(&mut self, bytes: u64) {
        self.consumed += bytes;
        self.grant_again(bytes);
        self.raise_limit();
    }

    /// Of a stream, `now` bytes wait for the reader, where `before` did.
    pub(crate) fn on_unread(&mut self, before: &mut u64, now: u64) {
        self.unread = self.unread - *before + now;
        *before = now;
    }

    /// Bytes that wait for readers: those of readers that stall must not take the memory of those that read.
    pub(crate) fn unread(&self) -> u64 {
        self.unread
    }

    /// Of `consumed` bytes, grants again what the peer lacks of what it keeps back, although more is granted than the pool. At no time is
    /// more granted by it than before.
    fn grant_again(&mut self, consumed: u64) {
        let lacks = (self.received + self.peer_keeps_back).saturating_sub(self.limit.bytes());
        let again = lacks.min(consumed);
        if again > 0 && self.granted() > self.pool {
            self.limit = Credit::new(self.limit.bytes() + again);
            self.limit_due = true;
        }
    }

    fn raise_limit(&mut self) {
        // Seldom where there is plenty; soon where little is free, since the peer then lives on what each update brings.
        let free = self.pool.saturating_sub(self.held());
        let step = (self.pool / 16).min(free / 8).max(1);
        if self.consumed + self.pool >= self.limit.bytes() + step {
            self.limit = Credit::new(self.consumed + self.pool);
            self.limit_due = true;
        }
    }

    /// The session's limit to advertise.
    pub(crate) fn limit(&self) -> Credit {
        self.limit
    }

    /// How far the peer may send on a stream without further credit.
    pub(crate) fn new_stream_limit(&self) -> StreamOffset {
        StreamOffset::new(self.new_stream_credit.bytes())
    }

    /// What the peer may send on a new stream, if that is more than it was in the handshake: two BDP of what the link turned out to carry.
    fn raise_new_stream_credit(&mut self) -> Option<Credit> {
        let credit = Credit::new((2 * self.most_in_round).min(self.pool / 2));
        self.new_stream_credit = self.new_stream_credit.max(credit);
        Some(self.new_stream_credit).filter(|credit| *credit >= self.own_stream_credit)
    }

    /// Counts a stream that received data once in each round trip.
    pub(crate) fn note_active(&mut self, active_round: &mut u64) {
        if *active_round != self.round {
            *active_round = self.round;
            self.active += 1;
        }
    }

    /// A packet arrived; a round trip takes `rtt`. Whether a round trip has ended.
    pub(crate) fn on_packet(&mut self, now: Instant, rtt: Duration) -> bool {
        let has_ended = self.round_ends <= now;
        if has_ended {
            self.round_ends = now + rtt;
            self.next_round();
        }
        has_ended
    }

    fn next_round(&mut self) {
        self.round += 1;
        self.active_before = self.active;
        self.active = 0;
        self.most_in_round = self.most_in_round.max(std::mem::take(&mut self.in_round));
    }

    /// So many bytes of a stream came, whether they had come before or not.
    pub(crate) fn on_data(&mut self, bytes: usize) {
        self.in_round += bytes as u64;
    }

    /// The most stream bytes that came in a round trip: a BDP where the link was full.
    pub(crate) fn most_in_round(&self) -> u64 {
        self.most_in_round
    }

    /// How far ahead of its reader a stream of which `own` bytes are held may be sent: three quarters of what others leave
    /// for a stream alone, a fair part of it, twice over, beside others. What is held of its own lies within the window:
    /// a window that shrank with it would close while a loss is repaired.
    pub(crate) fn stream_window(&self, own: u64) -> u64 {
        let free = self.pool.saturating_sub(self.held() - own.min(self.held()));
        let sharers = self.active.max(self.active_before).max(1);
        let window = (free / 4 * 3).min(free / (1 + sharers) * 3 / 2);
        window.max(Self::MIN_WINDOW)
    }
}

impl<P: Payload> Session<P> {
    /// Limits that one acknowledgement repeats.
    const REPEATS: usize = 2;
    /// Streams that one acknowledgement reports as read.
    const REPORTS: usize = 4;

    /// Raises what the peer may send on a stream, if that is worth a frame.
    pub(super) fn extend_stream(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        let window = self.credit.stream_window(stream.receive.held());
        let limit = stream.receive.read() + window;
        let step = limit.saturating_since(stream.receive.limit);
        if !stream.receive.is_sized() && step >= window / 8 {
            stream.receive.limit = limit;
            stream.credit_due = true;
            self.streams.queue_control(key);
        }
    }

    /// Counts what waits for the reader of a stream.
    pub(super) fn count_unread(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            let unread = stream.receive.readable();
            self.credit.on_unread(&mut stream.unread, unread);
        }
    }

    /// Counts what the session holds against the endpoint's memory, and with it `kept` bytes of the same peer's.
    pub(crate) fn charge(&mut self, kept: u64, receive: &mut Memory, send: &mut Memory) {
        let (granted, buffered) = (self.credit.granted() + kept, self.credit.send_buffered());
        receive.update(&mut self.credit.receive_holding, granted);
        send.update(&mut self.credit.send_holding, buffered);
    }

    /// The session holds nothing any more of the endpoint's memory, as far as that counts.
    pub(crate) fn uncharge(&mut self, receive: &mut Memory, send: &mut Memory) {
        receive.update(&mut self.credit.receive_holding, 0);
        send.update(&mut self.credit.send_holding, 0);
    }

    /// The session's limit goes into the next packet.
    pub(super) fn on_max_data_sent(&mut self) {
        self.credit.limit_due = false;
        self.credit.advertised.on_advertised(self.credit.limit, self.recovery.sent_packets.next_number());
    }

    /// Says, together with the session's limit, what may be sent on a new stream. Whether it arrives shows in what the peer sends.
    pub(super) fn put_new_stream_credit(&mut self, writer: &mut Writer<'_>) {
        if let Some(credit) = self.credit.raise_new_stream_credit() {
            writer.max_new_stream_data(credit);
        }
    }

    /// A stream's limit goes into the next packet.
    pub(super) fn on_max_stream_data_sent(&mut self, key: StreamKey) {
        let number = self.recovery.sent_packets.next_number();
        let Some(stream) = self.stream_mut(key) else { return };
        stream.advertised.on_advertised(stream.receive.limit, number);
        if stream.advertised.is_unconfirmed && !std::mem::replace(&mut stream.advertised.repeats, true) {
            self.credit.repeats.push_back(key);
        }
    }

    /// Repeats limits that may not have arrived.
    pub(super) fn repeat_credits(&mut self, writer: &mut Writer<'_>, frames: &mut SentFrames) {
        if self.credit.advertised.is_unconfirmed && writer.max_data(self.credit.limit) {
            self.on_max_data_sent();
            frames.push(SentFrame::MaxData);
            self.put_new_stream_credit(writer);
        }
        // Those that are done leave the queue when they come up.
        for _ in 0..self.credit.repeats.len().min(4 * Self::REPEATS) {
            if frames.len() >= Self::REPEATS {
                return;
            }
            let Some(key) = self.credit.repeats.pop_front() else { return };
            let Some(stream) = self.stream_mut(key) else { continue };
            let wanted = stream.advertised.is_unconfirmed && !stream.receive.is_sized() && !stream.is_aborted();
            let limit = stream.receive.limit;
            stream.advertised.repeats = wanted;
            if wanted {
                self.credit.repeats.push_back(key);
                if !writer.max_stream_data(key.number, limit) {
                    return;
                }
                self.on_max_stream_data_sent(key);
                frames.push(SentFrame::MaxStreamData(key));
            }
        }
    }

    /// The peer wants to know when bytes of a stream below `to` have been read. If the reader has taken all that has arrived, that is
    /// reported at once, and otherwise as it reads: of a reader that stalls there is nothing to report.
    pub(super) fn on_watch_stream(&mut self, now: Instant, key: StreamKey, to: StreamOffset) {
        if self.stream_mut(key).is_some_and(|stream| stream.receive.watch(to)) {
            self.report_read(now, key);
        }
    }

    /// A stream was read from `before` on: the peer is to know if it wants to.
    pub(super) fn on_stream_consumed(&mut self, now: Instant, key: StreamKey, before: StreamOffset) {
        if self.stream(key).is_some_and(|stream| stream.receive.is_watched(before)) {
            self.report_read(now, key);
        }
    }

    /// Has the peer know how far a stream has been read, with the next acknowledgement. If none is due for a while, one is sent.
    pub(super) fn report_read(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.stream_mut(key) else { return };
        if !std::mem::replace(&mut stream.read_due, true) {
            self.credit.reads.push_back(key);
            self.received.acknowledge_by(now + self.report_delay());
        }
    }

    /// How long a report waits for an acknowledgement.
    fn report_delay(&self) -> Duration {
        self.ack_delay().max(self.recovery.rtt.smoothed() / 8)
    }

    /// Reports with an acknowledgement how far streams have been read: a few, in turn.
    pub(super) fn put_reports(&mut self, now: Instant, writer: &mut Writer<'_>, frames: &mut SentFrames) {
        let mut put = 0;
        while put < Self::REPORTS
            && let Some(&key) = self.credit.reads.front()
        {
            if let Some(stream) = self.stream_mut(key) {
                if !stream.receive.is_sized() {
                    if !writer.stream_read(key.number, stream.receive.read()) {
                        break;
                    }
                    frames.push(SentFrame::StreamRead(key));
                    put += 1;
                }
                stream.read_due = false;
            }
            self.credit.reads.pop_front();
        }
        if !self.credit.reads.is_empty() {
            self.received.acknowledge_by(now + self.report_delay());
        }
    }

    /// A stream has been read up to `to`: it may send on what is kept back for such streams.
    pub(super) fn on_stream_read(&mut self, number: StreamNumber, to: StreamOffset) {
        let Some(key) = self.streams.find(number) else { return };
        if let Some(stream) = self.stream_mut(key) {
            stream.send.on_read(to);
        }
        self.activate(key);
    }

    /// Asks for reports of how far a stream has been read, if it goes on only by them. `false` if there is no space for that.
    pub(super) fn put_watch(&mut self, key: StreamKey, writer: &mut Writer<'_>, frames: &mut SentFrames) -> bool {
        let session_credit = self.credit.available();
        let Some(stream) = self.stream_mut(key) else { return true };
        let Some(to) = stream.send.to_watch(session_credit) else { return true };
        if !writer.watch_stream(key.number, to) {
            return false;
        }
        stream.send.set_watched(to);
        frames.push(SentFrame::WatchStream(key));
        true
    }

    /// A question or a report of how far a stream has been read was lost.
    pub(super) fn on_report_lost(&mut self, now: Instant, frame: &SentFrame) {
        match *frame {
            SentFrame::StreamRead(key) => self.report_read(now, key),
            SentFrame::WatchStream(key) => {
                if let Some(stream) = self.stream_mut(key) {
                    stream.send.set_watched(StreamOffset::ZERO);
                }
                self.activate(key);
            }
            _ => {}
        }
    }

    /// Packet `number`, which carried a limit, has arrived.
    pub(super) fn on_credit_arrived(&mut self, frame: &SentFrame, number: PacketNumber) {
        match *frame {
            SentFrame::MaxData => self.credit.advertised.on_arrived(number),
            SentFrame::MaxStreamData(key) => {
                if let Some(stream) = self.stream_mut(key) {
                    stream.advertised.on_arrived(number);
                }
            }
            _ => {}
        }
    }

    /// A packet that carried a limit was lost: it is sent again at once, if no other one has arrived.
    pub(super) fn on_credit_lost(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::MaxData => self.credit.limit_due |= self.credit.advertised.is_unconfirmed,
            SentFrame::MaxStreamData(key) => {
                if let Some(stream) = self.stream_mut(key)
                    && stream.advertised.is_unconfirmed
                    && !stream.receive.is_sized()
                {
                    stream.credit_due = true;
                    self.streams.queue_control(key);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;
    use units::{Bytes, Rate};

    fn credit() -> FlowControl {
        let rate = Rate::from_bps(6_000_000);
        let mut config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, Duration::from_millis(550));
        config.receive_memory = Some(Bytes::new(1_600_000));
        let parameters = TransportParameters {
            epoch: 1,
            timestamp: 1,
            capabilities: crate::Capabilities::NONE,
            session: None,
            session_credit: Credit::new(1000),
            stream_credit: Credit::new(500),
            max_streams: 9,
        };
        FlowControl::new(&config, &parameters, Instant::ZERO)
    }

    #[test]
    fn limits_follow_consumption_and_never_fall() {
        let mut credit = credit();
        assert!(credit.on_received(1_000_000));
        assert!(!credit.limit_due);
        credit.on_consumed(80_000);
        assert!(!credit.limit_due);
        credit.on_consumed(20_000);
        assert!(credit.limit_due);
        assert_eq!(credit.limit().bytes(), 1_700_000);
        assert!(credit.on_received(700_000));
        assert!(!credit.on_received(1));
    }

    #[test]
    fn of_handshakes_that_advertised_different_credits_the_largest_counts_and_is_said_again() {
        let mut advertised = HandshakeCredits::default();
        let of = |bytes| (Credit::new(bytes), Credit::new(bytes / 4));
        for bytes in [300_000, 300_000, 100_000] {
            let (session, stream) = of(bytes);
            advertised.add(session, stream);
            assert_eq!(advertised.differ, bytes == 100_000);
        }
        let mut credit = credit();
        credit.begin_at(advertised);
        assert!(credit.limit_due);
        assert_eq!((credit.limit(), credit.own_stream_credit), (of(300_000).0, of(100_000).1));
        assert_eq!(credit.raise_new_stream_credit(), Some(Credit::new(75_000)));
    }

    #[test]
    fn where_little_is_free_the_limit_follows_soon() {
        let mut credit = credit();
        assert!(credit.on_received(1_600_000));
        credit.on_consumed(20_000);
        assert!(credit.limit_due, "or those who read would wait for ever beside those who do not");
        assert_eq!(credit.limit().bytes(), 1_620_000);
    }

    #[test]
    fn of_a_pool_that_shrinks_the_peer_is_left_what_it_keeps_back_and_is_granted_no_more_than_before() {
        const KEPT: u64 = 100_000;
        let mut credit = credit();
        assert!(credit.on_received(1_600_000 - KEPT));
        credit.set_pools(1_000_000, 1_000_000);
        // One reader takes what comes, the others stall.
        for _ in 0..1000 {
            assert!(credit.on_received(1400));
            credit.on_consumed(1400);
            assert_eq!((credit.granted(), credit.limit().beyond(credit.received)), (1_600_000, KEPT));
        }
        assert!(std::mem::take(&mut credit.limit_due));
        // One that stalled goes on: less is granted now.
        credit.on_consumed(500_000);
        assert_eq!((credit.granted(), credit.limit_due), (1_100_000, false));
        assert!(credit.on_received(30_000));
        credit.on_consumed(20_000);
        assert_eq!((credit.granted(), credit.limit_due), (1_100_000, true));
        credit.on_consumed(200_000);
        assert_eq!(credit.granted(), 1_000_000, "the pool");
    }

    #[test]
    fn a_stream_alone_may_use_three_quarters_and_less_beside_others() {
        let mut credit = credit();
        let mut rounds = [0; 20];
        credit.note_active(&mut rounds[0]);
        assert_eq!(credit.stream_window(0), 1_200_000);
        rounds.iter_mut().for_each(|round| credit.note_active(round));
        assert!(credit.stream_window(0) < 130_000);
        credit.next_round();
        assert!(credit.stream_window(0) < 130_000);
        credit.next_round();
        assert_eq!(credit.stream_window(0), 1_200_000);
    }

    #[test]
    fn credit_in_small_steps_does_not_have_all_streams_looked_at_each_time() {
        let mut credit = credit();
        let raise = |credit: &mut FlowControl, by: u64, at: u64| {
            let before = credit.available();
            credit.on_peer_limit(Credit::new(credit.peer_limit.bytes() + by));
            credit.frees_streams(Instant::ZERO + Duration::from_micros(at), before, 300)
        };
        credit.on_sent(1000, None);
        assert!(raise(&mut credit, 1, 0), "streams wait for it");
        // Nothing is sent of it.
        let looks = (0..10_000).filter(|_| raise(&mut credit, 1, 1)).count();
        assert!(looks <= 1, "{looks}");
        credit.on_sent(credit.available().left.bytes(), None);
        assert!(raise(&mut credit, 2, 100));
        credit.on_sent(2, None);
        let looks: Vec<u32> = (1..1000).filter(|_| raise(&mut credit, 2, 101)).collect();
        assert_eq!(looks, [150]);
    }

    #[test]
    fn streams_are_looked_at_though_no_more_credit_comes() {
        let mut credit = credit();
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        credit.on_sent(1000, None);
        for (number, micros) in [0, 10].into_iter().enumerate() {
            let before = credit.available();
            credit.on_peer_limit(Credit::new(credit.peer_limit.bytes() + 5));
            assert_eq!(credit.frees_streams(at(micros), before, 300), number == 0);
            credit.on_sent(if number == 0 { 5 } else { 0 }, None);
        }
        // The next packet only acknowledges what was sent.
        let before = credit.available();
        assert!(credit.frees_streams(at(70), before, 300));
        assert!(!credit.frees_streams(at(200), before, 300), "once");
    }

    #[test]
    fn a_stream_without_credit_of_its_own_is_looked_at_though_some_is_left() {
        let mut credit = credit();
        // It may take half of what is beyond what it has sent.
        credit.on_sent(500, Some(500));
        let before = credit.available();
        credit.on_peer_limit(Credit::new(1500));
        assert!(credit.frees_streams(Instant::ZERO, before, 1));
    }

    #[test]
    fn a_stream_that_waits_for_a_repair_keeps_its_window() {
        let mut credit = credit();
        credit.note_active(&mut 0);
        assert!(credit.on_received(800_000));
        assert_eq!(credit.stream_window(800_000), 1_200_000);
        assert_eq!(credit.stream_window(0), 600_000);
    }

    #[test]
    fn new_streams_begin_with_twice_what_came_in_a_round_trip_whatever_offsets_a_peer_leaves_out() {
        let mut credit = credit();
        let mut advertised = HandshakeCredits::default();
        advertised.add(Credit::new(500_000), Credit::new(250_000));
        credit.begin_at(advertised);
        assert!(!credit.limit_due, "the handshake has said it");
        // The last byte of a stream of which nothing else comes.
        assert!(credit.on_received(400_000));
        credit.on_data(1);
        credit.next_round();
        assert_eq!(credit.raise_new_stream_credit(), None);
        credit.on_data(300_000);
        credit.next_round();
        assert_eq!(credit.raise_new_stream_credit(), Some(Credit::new(600_000)));
        credit.next_round();
        assert_eq!(credit.most_in_round(), 300_000, "what the link once carried, it may carry again");
        credit.on_data(1_000_000);
        credit.next_round();
        assert_eq!(credit.raise_new_stream_credit(), Some(Credit::new(800_000)), "half of the memory");
    }

    #[test]
    fn an_idle_stream_can_always_write_a_little() {
        let mut credit = credit();
        credit.on_written(1 << 40);
        assert_eq!(credit.write_space(0), 4096);
        assert_eq!(credit.write_space(1), 0);
    }
}
