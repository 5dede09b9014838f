//! What travels between gateways: datagrams and the frames inside them.
//!
//! | file | idea |
//! | --- | --- |
//! | `packet.rs` | datagrams: of the handshake, and packets |
//! | `frame/mod.rs` | what a packet says |
//! | `arrivals.rs` | the frame that says what has arrived, and when |
//! | `varint.rs` | variable-length integers |
//! | `vectors.rs` | tests: vectors for other implementations |

pub(crate) mod arrivals;
pub(crate) mod frame;
pub(crate) mod packet;
pub(crate) mod varint;
#[cfg(test)]
pub(crate) mod vectors;
