//! A stream: one TCP connection's bytes, each direction with an end of its own.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | both halves |
//! | `send.rs` | what was written, sent, acknowledged and lost |
//! | `receive.rs` | reassembly, and what the reader has taken |
//! | `pages.rs` | the bytes, in pages of memory |
//! | `number.rs`, `offset.rs` | numbers of streams, and positions in them |

pub(crate) mod number;
pub(crate) mod offset;
pub(crate) mod pages;
mod receive;
mod send;

use crate::credit::{Credit, SessionCredit};
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
pub(crate) use number::StreamNumber;
pub use offset::StreamOffset;
use peering::ResetReason;
use peering::dscp::Dscp;
pub(crate) use receive::ReceiveHalf;
pub(crate) use send::SendHalf;

/// One stream of a session.
pub(crate) struct Stream<P> {
    /// Its number on the wire.
    pub(crate) number: StreamNumber,
    pub(crate) send: SendHalf<P>,
    pub(crate) receive: ReceiveHalf<P>,
    pub(crate) abort: Abort,
    /// It was kept for its reader alone, and counts as closed.
    pub(crate) was_held: bool,
    /// It stands in the session's queue of streams with control frames to send.
    pub(crate) control_queued: bool,
    /// A larger MAX_STREAM_DATA is to be sent.
    pub(crate) credit_due: bool,
    /// It stands in the session's queue of streams to report as read.
    pub(crate) read_due: bool,
    /// What has been advertised of the limit.
    pub(crate) advertised: Advertised<StreamOffset>,
    /// The round trip (by count) in which it last received data.
    pub(crate) active_round: u64,
    /// Bytes that wait for the reader, as counted for the session.
    pub(crate) unread: u64,
    /// The first packet with data of it since it last had none to send.
    pub(crate) run_from: Option<PacketNumber>,
    pub(crate) place: crate::scheduler::Place,
    /// Its class, by place among those of the session.
    pub(crate) class: u8,
    /// How packets with data of it, or with news that its data have arrived, are marked.
    pub(crate) dscp: Dscp,
}

/// An advertised limit, which is repeated until it is known to have arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Advertised<Limit> {
    /// The largest advertised limit, and the first packet with it.
    limit: Limit,
    first_in: PacketNumber,
    /// Whether that has not been confirmed.
    pub(crate) is_unconfirmed: bool,
    /// It stands in the session's queue of limits to repeat.
    pub(crate) repeats: bool,
}

impl<Limit: PartialOrd> Advertised<Limit> {
    /// `limit` goes into packet `number`.
    pub(crate) fn on_advertised(&mut self, limit: Limit, number: PacketNumber) {
        if limit > self.limit {
            (self.limit, self.first_in, self.is_unconfirmed) = (limit, number, true);
        }
    }

    /// Packet `number`, which carried a limit, has arrived.
    pub(crate) fn on_arrived(&mut self, number: PacketNumber) {
        self.is_unconfirmed &= number < self.first_in;
    }
}

/// Giving up both directions at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abort {
    /// Our RESET, which may be the answer to the peer's, and how far it got.
    pub(crate) ours: Option<(ResetReason, Sent)>,
    /// The peer's RESET has come.
    pub(crate) theirs: bool,
    /// Why our RESET is to go as soon as everything written is acknowledged.
    pub(crate) behind_data: Option<ResetReason>,
    /// The peer's RESET has come behind bytes that the reader has not taken; when it has, it is to know why.
    pub(crate) held: Option<ResetReason>,
}

/// How far something that must arrive has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Queued,
    InFlight,
    Acked,
}

impl<P: Payload> Stream<P> {
    /// A stream on which each side may send so much before any grant.
    pub(crate) fn new(number: StreamNumber, send_credit: Credit, receive_credit: Credit) -> Self {
        Self {
            number,
            send: SendHalf::new(StreamOffset::ZERO + send_credit.bytes()),
            receive: ReceiveHalf::new(StreamOffset::ZERO + receive_credit.bytes()),
            abort: Abort::default(),
            was_held: false,
            control_queued: false,
            credit_due: false,
            read_due: false,
            advertised: Advertised::default(),
            active_round: 0,
            unread: 0,
            run_from: None,
            place: crate::scheduler::Place::default(),
            class: 0,
            dscp: Dscp::default(),
        }
    }

    /// Whether either side gave the stream up: nothing more is sent.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.ours.is_some()
    }

    /// Whether more can be written: not while a reset waits for what was written, nor once either side has reset the stream.
    pub(crate) fn is_writable(&self) -> bool {
        self.send.is_open() && !self.is_aborted() && self.abort.behind_data.is_none()
    }

    /// Whether nobody reads what arrives.
    pub(crate) fn discards(&self) -> bool {
        (self.is_aborted() && self.abort.held.is_none()) || self.abort.behind_data.is_some()
    }

    /// Whether the peer reset it behind bytes that have arrived, and that the reader has not taken.
    pub(crate) fn is_held(&self) -> bool {
        self.abort.held.is_some()
    }

    /// Whether everything that the peer sent has arrived, and the reader, who has answered the peer by now, has not taken all.
    pub(crate) fn is_to_be_read(&self) -> bool {
        !self.discards() && self.send.has_begun() && self.receive.at_end() && !self.receive.is_finished()
    }

    /// Whether all of it has arrived, at both ends, or all that will.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_ended() || self.is_held()
    }

    /// Whether both directions have ended in order, and all of them has arrived.
    pub(crate) fn has_ended(&self) -> bool {
        self.abort == Abort::default() && self.send.is_finished() && self.receive.at_end()
    }

    /// Whether nothing more will be sent or received on it.
    pub(crate) fn is_closed(&self) -> bool {
        match self.abort.ours {
            Some(_) if self.is_held() => false,
            Some((_, sent)) => sent == Sent::Acked && (self.abort.theirs || self.receive.is_sized()),
            None => self.send.is_finished() && self.receive.is_finished(),
        }
    }

    /// Whether it has bytes or an end to send.
    pub(crate) fn has_data(&self, session_credit: SessionCredit) -> bool {
        self.abort.ours.is_none() && self.send.has_data(session_credit)
    }
}
