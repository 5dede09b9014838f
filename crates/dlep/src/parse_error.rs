//! Why bytes are no message, signal or item.

use crate::item_kind::ItemKind;
use crate::status::Status;

/// Why bytes are no message or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// They end before what their lengths promise.
    #[error("it ends too early")]
    Truncated,
    /// They do not end where their length says, or do not begin as a signal does.
    #[error("it is no signal of DLEP")]
    NoSignal,
    /// A type of message or signal that is none of the RFC's.
    #[error("unknown type {0}")]
    UnknownType(u16),
    /// A type of item that is none of the RFC's.
    #[error("unknown item {0}")]
    UnknownItem(u16),
    /// An item of a length that its type cannot have.
    #[error("item {0:?} has {1} bytes")]
    ItemLength(ItemKind, usize),
    /// An item with a value that its type cannot have.
    #[error("item {0:?} has a value that it cannot have")]
    ItemValue(ItemKind),
    /// An item that does not belong there, or not so often.
    #[error("item {0:?} does not belong there")]
    Misplaced(ItemKind),
    /// An item that must be there.
    #[error("item {0:?} is missing")]
    Missing(ItemKind),
}

impl ParseError {
    /// What the session ends with, §12.1.
    pub fn status(self) -> Status {
        match self {
            Self::UnknownType(_) => Status::UNKNOWN_MESSAGE,
            _ => Status::INVALID_DATA,
        }
    }
}
