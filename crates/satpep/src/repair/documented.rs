//! What docs/protocol.md says of repair, by the code.

use super::code::encode;
use super::symbol::CHECKSUM;
use super::{Decoder, MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_STRIDE, SourceBlock};
use crate::documented::limit::{Limit, limit};
use crate::packet_number::PacketNumber;
use crate::payload::Stored;
use testkit::hex;

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("packets of a source block", MAX_SOURCE_SYMBOLS),
        limit("stride of a source block", MAX_STRIDE),
        limit("repair symbols of a block", MAX_REPAIR_SYMBOLS),
        limit("bytes of a symbol's checksum", CHECKSUM),
        limit("blocks that a receiver remembers", Decoder::<Stored>::MAX_BLOCKS),
        limit("packets that a receiver remembers for repair", Decoder::<Stored>::MAX_SYMBOLS),
    ]
}

/// A block of three symbols of different lengths, one of them empty, and its two repair symbols.
pub(crate) fn vector() -> serde_json::Value {
    let symbols = [&b"\x0a\x00\x00\x05hello"[..], b"", b"\x0b\x02\x03\x07goodbye"];
    let block = SourceBlock { first: PacketNumber::new(100), count: 3, stride: 1, repair_symbols: 2 };
    let repair: Vec<_> = encode(block, &symbols.map(<[u8]>::to_vec)).iter().map(|repair| hex(&repair.bytes)).collect();
    serde_json::json!({"source_symbols": symbols.map(hex), "repair_symbols": repair})
}
