//! What docs/protocol.md says of sessions, by the code.

use super::Session;
use super::congestion::Congestion;
use super::drain::Drain;
use super::farewell::Farewell;
use super::liveness::Keepalive;
use crate::documented::{Limit, limit};
use crate::payload::Stored;

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("STOP_WAITING is sent when it rose by", Session::<Stored>::STOP_WAITING_STEP),
        limit("ACKs that repeat a CE_COUNT", Congestion::REPORTS),
        limit("first interval of the keep-alive", Keepalive::FIRST),
        limit("least interval of the keep-alive", Keepalive::LEAST),
        limit("first PING while streams are open", Session::<Stored>::FIRST_ASKED),
        limit("least time after which an answer is overdue", Session::<Stored>::LEAST_STALL),
        limit("shortest interval of PINGs to an unresponsive peer", Session::<Stored>::OFTENEST_PROBE),
        limit("longest interval of PINGs to an unresponsive peer", Session::<Stored>::SELDOMEST_PROBE),
        limit("CLOSE frames", Farewell::TIMES),
        limit("least interval of CLOSE frames", Farewell::LEAST_INTERVAL),
        limit("wait for OPENED", Drain::PATIENCE),
    ]
}
