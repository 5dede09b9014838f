//! What docs/protocol.md says of arrivals, by the code.

use super::arrival_log::ArrivalLog;
use crate::documented::limit::{Limit, limit};
use crate::wire::arrivals::MAX_STAMPS;

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("stamps of an ARRIVALS", MAX_STAMPS),
        limit("of them for packets of trains", ArrivalLog::TRAINS),
        limit("packets of trains that wait for the next ones", ArrivalLog::LATER),
        limit("of them for other packets than the newest", ArrivalLog::OTHERS),
    ]
}
