//! The messages of the control connection, once the initiator has proved its key.
//!
//! | bytes | |
//! | --- | --- |
//! | 1 | kind |
//! | 2 | length of what follows |
//! | length | by kind |
//!
//! | kind | | what follows |
//! | --- | --- | --- |
//! | 0 | [`Message::Probe`] | 1: its number |
//! | 1 | [`Message::Answer`] | 1: the number of the probe |
//! | 2 | [`Message::Idle`] | nothing |
//! | 3 | [`Message::Ended`] | 8: the session, 8: the tunnel request's number, 1: [`ResetReason::code`] |
//! | 4 | [`Message::Room`] | 1: 1 if there is, 0 if not |
//! | 5 | [`Message::Reach`] | [`relay::reach::Reach::encode`] |
//! | 6 | [`Message::Leaving`] | 1: 1 if another process of the gateway takes connections, 0 if none does |
//! | 7 | [`Message::Stalled`] | nothing |
//!
//! Kinds that a gateway does not know are skipped; so is what follows a message beyond what it needs.

use peering::ResetReason;

/// Bytes before what follows.
const HEAD: usize = 3;

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Asks for an answer with the same number.
    Probe(u8),
    /// The other end has read the probe with this number, and all that was said before it.
    Answer(u8),
    /// Nothing: TCP's acknowledgement says that the other end's host is there, and the path is kept open.
    Idle,
    /// A relayed connection has ended with a reset.
    Ended(Ended),
    /// Whether the far gateway has room for connections that are opened from now on. It has until it says otherwise.
    Room(bool),
    /// What the initiator may reach at the responder, as [`relay::reach::Reach::decode`] reads it.
    Reach(Vec<u8>),
    /// The process that says so takes and opens no more connections, and ends with its last.
    Leaving {
        /// Whether another process of the same gateway has taken over: it answers new sessions.
        has_successor: bool,
    },
    /// Nothing is acknowledged of what the responder sends again: the path may carry smaller packets than it did.
    Stalled,
}

/// The end of a relayed connection whose reset may have been lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The session in which it was opened.
    pub session: u64,
    /// The number of its tunnel request.
    pub number: u64,
    /// Why it has ended.
    pub reason: ResetReason,
}

impl Message {
    /// Appends the bytes to send to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut say = |kind: u8, body: &[u8]| {
            let length = u16::try_from(body.len()).expect("no message is as long as that");
            out.push(kind);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(body);
        };
        match self {
            Message::Probe(number) => say(0, &[*number]),
            Message::Answer(number) => say(1, &[*number]),
            Message::Idle => say(2, &[]),
            Message::Ended(Ended { session, number, reason }) => {
                let mut body = [0; 17];
                body[..8].copy_from_slice(&session.to_be_bytes());
                body[8..16].copy_from_slice(&number.to_be_bytes());
                body[16] = u8::try_from(reason.code()).unwrap_or(u8::MAX);
                say(3, &body);
            }
            Message::Room(is_there) => say(4, &[u8::from(*is_there)]),
            // What is too long for a message is left out, so that the initiator learns nothing rather than something wrong.
            Message::Reach(reach) if reach.len() > usize::from(u16::MAX) => {}
            Message::Reach(reach) => say(5, reach),
            Message::Leaving { has_successor } => say(6, &[u8::from(*has_successor)]),
            Message::Stalled => say(7, &[]),
        }
    }

    /// What `body` behind `kind` says; `None` if the kind is not known, or too little follows it.
    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let number = |at: usize| body.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        Some(match kind {
            0 => Message::Probe(*body.first()?),
            1 => Message::Answer(*body.first()?),
            2 => Message::Idle,
            3 => {
                let reason = ResetReason::from_code(u64::from(*body.get(16)?));
                Message::Ended(Ended { session: number(0)?, number: number(8)?, reason })
            }
            4 => Message::Room(*body.first()? != 0),
            5 => Message::Reach(body.to_vec()),
            6 => Message::Leaving { has_successor: *body.first()? != 0 },
            7 => Message::Stalled,
            _ => return None,
        })
    }
}

/// Collects messages that arrive in pieces. Holds the longest message at most, 64 KiB.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// What has arrived of messages that have not been returned.
    bytes: Vec<u8>,
    /// How many of those have been.
    read: usize,
}

impl Reader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what has arrived; [`Reader::poll`] is to be called until it returns nothing before the next time.
    pub fn push(&mut self, input: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.read));
        self.bytes.extend_from_slice(input);
    }

    /// The next word that is complete and known.
    pub fn poll(&mut self) -> Option<Message> {
        loop {
            let rest = &self.bytes[self.read..];
            let [kind, high, low, behind @ ..] = rest else { return None };
            let body = behind.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
            self.read += HEAD + body.len();
            if let Some(message) = Message::decode(*kind, body) {
                return Some(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Message> {
        let ended = Ended { session: 1 << 60, number: 77, reason: ResetReason::Aborted };
        vec![
            Message::Probe(9),
            Message::Answer(255),
            Message::Idle,
            Message::Ended(ended),
            Message::Room(true),
            Message::Reach(vec![7; 300]),
            Message::Leaving { has_successor: true },
            Message::Stalled,
        ]
    }

    fn encoded(messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut bytes));
        bytes
    }

    fn read(reader: &mut Reader, bytes: &[u8]) -> Vec<Message> {
        reader.push(bytes);
        std::iter::from_fn(|| reader.poll()).collect()
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let ended = Ended { session: 1, number: 2, reason: ResetReason::Aborted };
        let leaving = Message::Leaving { has_successor: false };
        let bytes = encoded(&[Message::Probe(7), Message::Idle, Message::Ended(ended), Message::Room(true), leaving]);
        let expected = [
            &[0, 0, 1, 7, 2, 0, 0, 3, 0, 17][..],
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 2],
            &[5, 4, 0, 1, 1, 6, 0, 1, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn what_is_not_known_is_skipped() {
        let bytes = [encoded(&all()), vec![200, 1, 4], vec![3; 260], vec![0, 0, 0], encoded(&all())].concat();
        assert_eq!(read(&mut Reader::new(), &bytes), [all(), all()].concat());
    }

    proptest! {
        #[test]
        fn words_pass_in_any_pieces(pieces in prop::collection::vec(1usize..30, 1..20)) {
            let (bytes, mut reader, mut messages) = (encoded(&all()), Reader::new(), Vec::new());
            let mut rest = &bytes[..];
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at((*piece).min(rest.len()));
                messages.extend(read(&mut reader, now));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(messages, all());
        }

        #[test]
        fn arbitrary_bytes_neither_panic_nor_pile_up(input: Vec<Vec<u8>>) {
            let mut reader = Reader::new();
            for piece in input {
                read(&mut reader, &piece);
                prop_assert!(reader.bytes.len() - reader.read <= HEAD + usize::from(u16::MAX));
            }
        }
    }
}
