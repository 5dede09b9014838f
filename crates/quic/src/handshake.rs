//! The round trips of the handshake (RFC 9001, section 4), without what is in them.

use crate::packet::{Message, Packet};

/// How far an end has come.
#[derive(Debug)]
pub(crate) struct Handshake {
    is_client: bool,
    stage: Stage,
    /// What leaves next.
    due: Option<Message>,
    /// The client sends data before the server has answered.
    is_early: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing has come from the peer.
    Begun,
    /// Server: it has answered, and does not know whether the client is there.
    Answered,
    /// Both ends have their keys; the client does not know that the server knows.
    Complete,
    Confirmed,
}

/// What a packet changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// This end may send data from now on.
    MaySend,
    /// The handshake is complete.
    Complete,
    /// It is confirmed.
    Confirmed,
}

impl Handshake {
    pub(crate) fn client(is_early: bool) -> Self {
        Self { is_client: true, stage: Stage::Begun, due: Some(Message::Hello), is_early }
    }

    pub(crate) fn server() -> Self {
        Self { is_client: false, stage: Stage::Begun, due: None, is_early: false }
    }

    /// Whether this end may send data. A server that has answered does not wait for the client (0.5-RTT data).
    pub(crate) fn may_send(&self) -> bool {
        self.stage > Stage::Begun || self.is_early && self.due != Some(Message::Hello)
    }

    /// Whether what leaves now is early data.
    pub(crate) fn sends_early(&self) -> bool {
        self.is_client && self.stage == Stage::Begun
    }

    /// Whether this end has the keys of a packet.
    pub(crate) fn can_read(&self, packet: &Packet) -> bool {
        match (self.stage, packet.message) {
            (_, Some(Message::Hello)) => !self.is_client,
            (_, Some(Message::Answer)) => self.is_client,
            (stage, Some(Message::Finished)) => !self.is_client && stage > Stage::Begun,
            (Stage::Begun, _) => false,
            (Stage::Answered, _) => packet.is_early,
            (Stage::Complete | Stage::Confirmed, _) => true,
        }
    }

    /// A part of the handshake has arrived.
    pub(crate) fn on_message(&mut self, message: Message) -> Step {
        let (stage, due, step) = match (message, self.stage) {
            (Message::Hello, Stage::Begun) => (Stage::Answered, Some(Message::Answer), Step::MaySend),
            (Message::Answer, Stage::Begun) => (Stage::Complete, Some(Message::Finished), Step::Complete),
            (Message::Finished, Stage::Answered) => (Stage::Confirmed, Some(Message::Done), Step::Complete),
            (Message::Done, Stage::Complete) => (Stage::Confirmed, None, Step::Confirmed),
            _ => return Step::Nothing,
        };
        (self.stage, self.due) = (stage, due);
        step
    }

    /// A message was lost, or a probe is to carry it once more: it leaves again, unless it is out of date.
    pub(crate) fn send_again(&mut self, message: Message) {
        let is_current = match message {
            Message::Hello => self.stage == Stage::Begun,
            Message::Answer => self.stage == Stage::Answered,
            Message::Finished => self.stage == Stage::Complete,
            Message::Done => true,
        };
        if is_current && self.due.is_none() {
            self.due = Some(message);
        }
    }

    /// A probe carries what the peer needs most, whatever else is in flight: without it, it can read nothing.
    pub(crate) fn probe(&mut self) {
        match self.stage {
            Stage::Begun if self.is_client => self.due = Some(Message::Hello),
            Stage::Answered => self.due = Some(Message::Answer),
            Stage::Complete => self.due = Some(Message::Finished),
            Stage::Begun | Stage::Confirmed => {}
        }
    }

    /// Takes the message that is to leave.
    pub(crate) fn take_due(&mut self) -> Option<Message> {
        self.due.take()
    }

    /// Whether this is the end that was called.
    pub(crate) fn is_server(&self) -> bool {
        !self.is_client
    }

    /// Whether the peer has answered.
    pub(crate) fn has_answer(&self) -> bool {
        self.stage >= Stage::Complete
    }
}
