//! Distinguishable packets, and their outcomes.

use link::{DropReason, Link, Outcome, Packet};
use units::{Bytes, Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    pub number: u64,
    pub flow: u64,
    pub size: u64,
}

impl Numbered {
    /// A packet of 1500 bytes.
    pub fn full(number: u64) -> Self {
        Self { number, flow: 0, size: 1500 }
    }
}

impl Packet for Numbered {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }

    fn flow_hash(&self) -> u64 {
        self.flow
    }
}

pub fn at_ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Runs the link until it is empty, waking only at its own timeouts.
pub fn drain<P: Packet>(link: &mut Link<P>) -> Vec<Outcome<P>> {
    let mut outcomes = Vec::new();
    while let Some(now) = link.next_timeout() {
        outcomes.extend(std::iter::from_fn(|| link.poll(now)));
    }
    outcomes
}

/// Numbers and times of the packets that arrived.
pub fn delivered(outcomes: &[Outcome<Numbered>]) -> Vec<(u64, Instant)> {
    outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Departure { packet, at } => Some((packet.number, *at)),
            Outcome::Drop { .. } => None,
        })
        .collect()
}

/// Numbers of the packets dropped for a reason.
pub fn dropped(outcomes: &[Outcome<Numbered>], of_reason: DropReason) -> Vec<u64> {
    outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Drop { packet, reason, .. } if *reason == of_reason => Some(packet.number),
            _ => None,
        })
        .collect()
}
