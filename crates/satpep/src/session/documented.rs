//! What docs/protocol.md says of sessions, by the code.

use super::drain::Drain;
use super::farewell::Farewell;
use super::keepalive::Keepalive;
use super::liveness::Liveness;
use super::recovery::LossRecovery;
use super::table::StreamTable;
use crate::documented::limit::{Limit, limit};
use crate::payload::Stored;
use crate::stream::ReceiveHalf;

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("pieces of a stream that wait for what precedes them", ReceiveHalf::<Stored>::MANY_PIECES),
        limit("one more of them for so many bytes of its window", ReceiveHalf::<Stored>::BYTES_PER_PIECE),
        limit("pieces of all streams of a session that wait", StreamTable::<Stored>::MOST_PIECES),
        limit("STOP_WAITING is sent when it rose by", LossRecovery::STOP_WAITING_STEP),
        limit("first interval of the keep-alive", Keepalive::FIRST),
        limit("least interval of the keep-alive", Keepalive::MIN),
        limit("first PING while streams are open", Liveness::FIRST_ASKED),
        limit("least time after which an answer is overdue", Liveness::MIN_STALL),
        limit("shortest interval of PINGs to an unresponsive peer", Liveness::MIN_PROBE_INTERVAL),
        limit("longest interval of PINGs to an unresponsive peer", Liveness::MAX_PROBE_INTERVAL),
        limit("CLOSE frames", Farewell::TIMES),
        limit("least interval of CLOSE frames", Farewell::MIN_INTERVAL),
        limit("wait for OPENED", Drain::PATIENCE),
    ]
}
