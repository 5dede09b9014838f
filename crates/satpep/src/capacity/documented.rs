//! What docs/protocol.md says of arrivals, by the code.

use super::arrival_requests::ArrivalRequests;
use crate::documented::limit::{Limit, limit};

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("ARRIVAL_REQUESTs that wait for the next ACK", ArrivalRequests::MAX),
        limit("time after an ARRIVAL_REQUEST in which ACKs come with ARRIVAL_TIME", ArrivalRequests::INTEREST),
    ]
}
