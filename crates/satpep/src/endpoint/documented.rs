//! What docs/protocol.md says of handshakes and paths, by the code.

use super::Endpoint;
use super::admission::{BUSY, BY_PREFIX, STRANGERS};
use super::cookies::COOKIE_LIFE;
use super::handshakes::GUESSES;
use super::path::Candidates;
use super::peer::{KeyLimits, KeyPair, Peer};
use crate::capacity::Capacity;
use crate::documented::limit::{Limit, limit};
use crate::payload::Stored;
use crate::seal::DataKey;

pub(crate) fn limits() -> Vec<Limit> {
    vec![
        limit("first retry of an init, or two round trips if that is longer", Peer::<Stored>::RETRY),
        limit("inits of anyone that are worth a Diffie-Hellman operation, per second", BUSY),
        limit("inits with a cookie, and answers to inits without, per second", STRANGERS),
        limit("of the second half of them, for one source prefix", BY_PREFIX),
        limit("inits of one peer with a proof by `mac2`, per second", Peer::<Stored>::MAX_ANSWERED),
        limit("peers whose secret is tried on an init", GUESSES),
        limit("life of a cookie secret", COOKIE_LIFE),
        limit("keys are renewed after", KeyPair::<DataKey>::REKEY_AFTER),
        limit("unused keys are renewed after", KeyPair::<DataKey>::REKEY_UNUSED_AFTER),
        limit("packets of a key after which it is renewed", KeyLimits::DEFAULT.renew),
        limit("packets of a key", KeyLimits::DEFAULT.most),
        limit("unproven addresses of a peer at once", Candidates::MAX),
        limit("challenges to an address", Candidates::CHALLENGES),
        limit("bytes to an unproven address for each received", Candidates::AMPLIFICATION),
        limit("packets of a start probe", Capacity::START_PROBE),
        limit("packets of a longer start probe", Capacity::LONGER_START_PROBE),
        limit("least time between start probes to a peer", Endpoint::<Stored>::START_PROBE_INTERVAL),
    ]
}
