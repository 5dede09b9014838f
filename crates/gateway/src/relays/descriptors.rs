//! The descriptors that the process may have, and what happens when they run short: new connections go end to end past both
//! gateways, and what is on its way waits for others to end. None is reset.

use super::Relays;
use crate::leg::Leg;
use socket2::Socket;
use std::os::fd::{AsFd, AsRawFd};
use units::Instant;

/// Of all descriptors, one part in so many is kept back for connections that are on their way when interception ends.
const KEPT_BACK: u64 = 16;
/// No more than that are: clients beyond wait in the listener's queue.
const MOST_KEPT_BACK: u64 = 512;

/// How many of `limit` descriptors a gateway uses before new connections go end to end.
pub fn usable_descriptors(limit: u64) -> u64 {
    limit - kept_back(limit)
}

fn kept_back(limit: u64) -> u64 {
    (limit / KEPT_BACK).min(MOST_KEPT_BACK)
}

/// How many of `limit` descriptors connections may take at all: pipes need some, and the program that ends interception.
fn most_for_connections(limit: u64) -> u64 {
    limit - kept_back(limit) / 2
}

impl<L: Leg> Relays<L> {
    /// Whether the process is short of descriptors, which every connection needs.
    pub(super) fn is_short(&self) -> bool {
        self.descriptors_ran_short_at.is_some()
    }

    /// Whether there is a descriptor for a connection.
    pub(super) fn has_descriptor(&self) -> bool {
        // The kernel gives out the lowest that is free. Where there are plenty, nobody need look.
        !self.is_short()
            || std::io::stderr().as_fd().try_clone_to_owned().is_ok_and(|lowest| {
                u64::try_from(lowest.as_raw_fd()).unwrap_or(0) < most_for_connections(self.most_descriptors)
            })
    }

    /// `socket` is new, and has the lowest number that was free: a high one says that few are left.
    pub(super) fn look_at_descriptors(&mut self, socket: &Socket) {
        if u64::try_from(socket.as_raw_fd()).unwrap_or(0) >= usable_descriptors(self.most_descriptors) {
            self.out_of_descriptors();
        }
    }

    /// No descriptors are left, or few: new connections go end to end until an eighth of those that are relayed have ended.
    pub(crate) fn out_of_descriptors(&mut self) {
        if self.descriptors_ran_short_at.is_none() {
            tracing::warn!(
                most = self.most_descriptors,
                "nearly all descriptors are in use: new connections go end to end; LimitNOFILE (ulimit -n) says how many there are"
            );
            self.descriptors_ran_short_at = Some(self.connections.len());
            self.must_steer = true;
        }
    }

    /// A connection has ended.
    pub(super) fn look_at_descriptors_again(&mut self) {
        if self.descriptors_ran_short_at.is_some_and(|then| self.connections.len() <= then - then.div_ceil(8)) {
            tracing::info!("there are descriptors again");
            self.descriptors_ran_short_at = None;
            self.must_steer = true;
        }
    }

    /// Tells the peers that the process is short of descriptors, or is not any more, if it has become so.
    pub(crate) fn tell_shortage(&mut self, now: Instant) {
        if self.is_told_short != self.is_short() {
            self.tell_reach(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_back_for_what_is_on_its_way_and_fewer_for_the_process_itself() {
        for (limit, usable, for_connections) in
            [(640, 600, 620), (20_000, 19_488, 19_744), (1 << 20, (1 << 20) - 512, (1 << 20) - 256)]
        {
            assert_eq!((usable_descriptors(limit), most_for_connections(limit)), (usable, for_connections));
        }
    }
}
