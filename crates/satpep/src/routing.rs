//! What of a datagram tells which of two processes of a gateway it is for, while both serve one port: one of each
//! generation ([`crate::Run`]). A program outside looks at these bytes.

pub use crate::wire::packet::{COOKIE, DATA, INIT, NOTICE, RESPONSE};

/// Where an init says which generation it is meant for; 0 for whichever is the newest.
pub const WANTED_AT: usize = 3;

/// What an init says there that is meant for `generation`.
pub const fn wanted(generation: u32) -> u8 {
    (generation & 1) as u8 + 1
}

/// Where a datagram of this kind, which is none of an init, has the generation of its receiver: the lowest bit of the byte.
pub const fn generation_at(kind: u8) -> usize {
    // The second byte of the receiver's index, which holds bits 16 to 23.
    1 + match kind {
        DATA => 1,
        RESPONSE => 8,
        _ => 4,
    }
}

/// The bit of a receiver's index that is the generation.
pub(crate) const GENERATION_BIT: u32 = 1 << 16;
