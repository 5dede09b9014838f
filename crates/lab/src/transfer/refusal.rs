//! Why one end does not go on with a transfer: it says so to the other, too.

use super::wire::Message;
use std::fmt;
use std::io::Write;
use std::net::{Shutdown, TcpStream};

/// Why one end does not go on with a transfer. The text is for people at either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Two senders met.
    BothSend,
    /// Two receivers met.
    BothReceive,
    /// What the receiver has already is not how the sender's data begin.
    OtherBeginning,
    /// The receiver has the beginning of the data, and the sender did not ask.
    SenderDidNotAsk,
    /// The receiver requires a stronger checksum.
    WeakChecksum,
    /// The receiver could not store what came.
    NotStored,
    /// The ends speak different versions of the protocol.
    OtherVersion,
}

impl Refusal {
    pub(super) const ALL: [Self; 7] = [
        Self::BothSend,
        Self::BothReceive,
        Self::OtherBeginning,
        Self::SenderDidNotAsk,
        Self::WeakChecksum,
        Self::NotStored,
        Self::OtherVersion,
    ];

    pub(super) fn code(self) -> u8 {
        match self {
            Self::BothSend => 1,
            Self::BothReceive => 2,
            Self::OtherBeginning => 3,
            Self::SenderDidNotAsk => 4,
            Self::WeakChecksum => 5,
            Self::NotStored => 6,
            Self::OtherVersion => 7,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// Tells the other end of `stream`, to which nothing more is sent.
    pub(super) fn tell(self, stream: &mut TcpStream) {
        // An end that has gone needs no reason.
        let _ = stream.write_all(&Message::Refusal(self).to_bytes());
        let _ = stream.shutdown(Shutdown::Write);
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BothSend => "both ends send: one of them must be `bentpipe receive`",
            Self::BothReceive => "both ends receive: one of them must be `bentpipe send`",
            Self::OtherBeginning => {
                "what the receiver has already is not how the sender's data begin: the data have changed, or were damaged on \
                 the way"
            }
            Self::SenderDidNotAsk => {
                "the receiver has the beginning of the data already, and the sender would send all: `bentpipe send` needs \
                 --resume, too"
            }
            Self::WeakChecksum => "the receiver requires a stronger checksum than the sender's",
            Self::NotStored => "the receiver could not store the data",
            Self::OtherVersion => "the ends speak different versions of the transfer protocol: both need the same release",
        })
    }
}
