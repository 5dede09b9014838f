//! A stream: one TCP connection's bytes, each direction with an end of its own.

mod number;
pub(crate) mod pages;
mod receive;
mod send;

use crate::payload::Payload;
pub(crate) use number::StreamNumber;
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
    /// It stands in the session's queue of streams with control frames to send.
    pub(crate) control_queued: bool,
    /// A larger MAX_STREAM_DATA is to be sent.
    pub(crate) credit_due: bool,
    /// What has been advertised of the limit.
    pub(crate) advertised: Advertised,
    /// The round trip (by count) in which it last received data.
    pub(crate) active_round: u64,
    /// The first packet with data of it since it last had none to send.
    pub(crate) run_from: Option<u64>,
    pub(crate) place: crate::scheduler::Place,
    /// Its class, by place among those of the session.
    pub(crate) class: u8,
    /// How packets with data of it, or with news that its data have arrived, are marked.
    pub(crate) dscp: Dscp,
}

/// An advertised limit, which is repeated until it is known to have arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Advertised {
    /// The largest advertised limit, and the first packet with it.
    limit: u64,
    first_in: u64,
    /// Whether that has not been confirmed.
    pub(crate) is_unconfirmed: bool,
    /// It stands in the session's queue of limits to repeat.
    pub(crate) repeats: bool,
}

impl Advertised {
    /// `limit` goes into packet `number`.
    pub(crate) fn on_advertised(&mut self, limit: u64, number: u64) {
        if limit > self.limit {
            (self.limit, self.first_in, self.is_unconfirmed) = (limit, number, true);
        }
    }

    /// Packet `number`, which carried a limit, has arrived.
    pub(crate) fn on_arrived(&mut self, number: u64) {
        self.is_unconfirmed &= number < self.first_in;
    }
}

/// Giving up both directions at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abort {
    /// Our RESET, and how far it got.
    pub(crate) ours: Option<(ResetReason, Sent)>,
    /// The peer's RESET has come.
    pub(crate) theirs: bool,
}

/// How far something that must arrive has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Queued,
    InFlight,
    Acked,
}

impl<P: Payload> Stream<P> {
    pub(crate) fn new(number: StreamNumber, send_credit: u64, receive_limit: u64) -> Self {
        Self {
            number,
            send: SendHalf::new(send_credit),
            receive: ReceiveHalf::new(receive_limit),
            abort: Abort::default(),
            control_queued: false,
            credit_due: false,
            advertised: Advertised::default(),
            active_round: 0,
            run_from: None,
            place: crate::scheduler::Place::default(),
            class: 0,
            dscp: Dscp::default(),
        }
    }

    /// Whether either side gave the stream up.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.ours.is_some()
    }

    /// Whether all of it has arrived, at both ends.
    pub(crate) fn has_arrived(&self) -> bool {
        self.abort == Abort::default() && self.send.is_finished() && self.receive.at_end()
    }

    /// Whether nothing more will be sent or received on it.
    pub(crate) fn is_closed(&self) -> bool {
        match self.abort.ours {
            Some((_, sent)) => sent == Sent::Acked && (self.abort.theirs || self.receive.is_sized()),
            None => self.send.is_finished() && self.receive.is_finished(),
        }
    }

    /// Whether it has bytes or an end to send.
    pub(crate) fn has_data(&self, session_credit: u64) -> bool {
        self.abort.ours.is_none() && self.send.has_data(session_credit)
    }
}
