//! What docs/protocol.md says of arrivals, by the code.

use super::marks::Marks;
use crate::documented::{Limit, limit};

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("ARRIVAL_REQUESTs that wait for the next ACK", Marks::MOST),
        limit("time after an ARRIVAL_REQUEST in which ACKs come with ARRIVAL_TIME", Marks::INTEREST),
    ]
}
