//! The memory for what a peer sends. When readers that stall hold nearly all of it, the peer may send hardly anything to the others:
//! new connections go end to end then, from both sides.

use super::Relays;
use crate::leg::Leg;
use units::{Duration, Instant};

/// A peer is out of memory once less than one part in so many is left for a while, and no longer with twice that.
const KEPT_BACK: u64 = 16;
/// For how long: what is held while a loss is repaired is soon taken.
const LASTS: Duration = Duration::from_secs(1);

impl<L: Leg> Relays<L> {
    /// Looks whether what peer `at` sends finds memory here.
    pub(super) fn look_at_memory(&mut self, now: Instant, at: usize) {
        let Some((left, all)) = self.leg.memory_left(at) else { return };
        let peer = &mut self.peers[at];
        let is_little = left < all / if peer.is_out_of_memory { KEPT_BACK / 2 } else { KEPT_BACK };
        if !is_little {
            peer.memory_is_little_since = None;
        }
        let is_out = is_little && now.since(*peer.memory_is_little_since.get_or_insert(now)) >= LASTS;
        if is_out == peer.is_out_of_memory || (is_little && !is_out) {
            return;
        }
        peer.is_out_of_memory = is_out;
        let name = &peer.settings.name;
        if is_out {
            tracing::warn!(
                peer = name,
                left,
                "readers that stall hold the memory for what the peer sends: new connections go end to end until they read"
            );
        } else {
            tracing::info!(peer = name, "there is memory again for what the peer sends");
        }
        self.must_steer = true;
        self.tell_reach_to(now, at);
    }
}
