//! What the link carried when peers left addresses: a peer that returns to one is again on the path that it had there.

use crate::event::PeerId;
use std::collections::VecDeque;
use std::net::IpAddr;

/// A peer's address, and the estimate when the peer left it, in bytes per second.
#[derive(Debug)]
struct Left {
    peer: PeerId,
    address: IpAddr,
    rate: f64,
    /// When that was, in seconds.
    at: f64,
}

/// The addresses that peers have left of late.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    left: VecDeque<Left>,
}

impl Addresses {
    /// How many are remembered.
    const MOST: usize = 64;

    /// For how many seconds a rate is remembered.
    const FRESH: f64 = 3600.0;

    /// `peer` has left `address`, when the link was believed to carry `rate`.
    pub(super) fn on_left(&mut self, now: f64, peer: PeerId, address: IpAddr, rate: f64) {
        self.take(now, peer, address);
        if self.left.len() == Self::MOST {
            self.left.pop_front();
        }
        self.left.push_back(Left { peer, address, rate, at: now });
    }

    /// The estimate when `peer` left `address`, if that was within the last hour. It is forgotten now.
    pub(super) fn take(&mut self, now: f64, peer: PeerId, address: IpAddr) -> Option<f64> {
        let at = self.left.iter().position(|left| left.peer == peer && left.address == address)?;
        self.left.remove(at).filter(|left| now - left.at < Self::FRESH).map(|left| left.rate)
    }
}
