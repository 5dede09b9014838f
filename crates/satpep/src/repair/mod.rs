//! FEC (RFC 8406): repair symbols in capacity that would idle, so that a loss at the end of a transfer costs a few packet times
//! and not a round trip.
//!
//! When a sender runs out of data, it makes blocks of the packets that are in flight and not yet protected. Each
//! packet's stream frames, in one canonical form, are one symbol; the block's repair symbols (Reed-Solomon over
//! GF(2^16)) travel in packets of their own. A receiver that misses no more packets of a block than it has repair
//! symbols for recovers their stream frames at once. ACKs still report what was lost, and the receiver says in
//! RECOVERED what of it was recovered: repair replaces the retransmission, not the record of losses, which sizes the
//! next block ([`crate::loss`]).
//!
//! Where several blocks are needed, their packets take turns, so that a burst of losses takes a few from each.
//!
//! To code a flight of a fast link takes tens of milliseconds. It is done in steps of a fraction of a millisecond
//! ([`WORK_STEP`]), between which the driver's loop serves everything else.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | how much is coded in one step |
//! | `code.rs` | the repair symbols of a block, at the sender |
//! | `decoder.rs` | the receiver: what is missing, and when it can be recovered |
//! | `decode.rs` | from symbols to those that are missing |
//! | `symbol.rs` | symbols, and the blocks that they make |
//! | `lanes.rs` | a symbol's bytes in the order of the code's engine |
//! | `documented.rs` | tests: limits of repair in docs/protocol.md |

mod code;
mod decode;
mod decoder;
#[cfg(test)]
pub(crate) mod documented;
mod lanes;
mod symbol;

pub(crate) use code::Encoding;
pub(crate) use decode::prepare;
pub(crate) use decoder::Decoder;
pub(crate) use symbol::{
    HEADROOM, MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_STRIDE, RepairSymbol, SourceBlock, SymbolLength,
};

/// Bytes that are coded in one go, and then it is the rest of the loop's turn.
pub(crate) const WORK_STEP: usize = 256 << 10;
/// What a symbol takes to handle, in bytes that are coded, however short it is.
pub(crate) const PER_SYMBOL: usize = 256;
