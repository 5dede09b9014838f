//! Packets that wait in line.

use crate::Packet;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant};

/// A packet that waits, and since when.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) arrived: Instant,
    pub(super) size: Bytes,
    pub(super) packet: P,
    /// It is an acknowledgement whose place a newer one may take.
    pub(super) is_replaceable: bool,
}

impl<P: Packet> Waiting<P> {
    /// Marks the packet where its transport reads marks; returns whether it does.
    pub(super) fn mark(&mut self) -> bool {
        let is_capable = self.packet.ecn().is_capable();
        if is_capable {
            self.packet.mark();
        }
        is_capable
    }
}

/// First in, first out.
#[derive(Debug)]
pub(super) struct Fifo<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: Bytes,
    /// The largest packet that ever waited.
    largest: Bytes,
}

impl<P> Fifo<P> {
    pub(super) fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO, largest: Bytes::ZERO }
    }

    pub(super) fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += waiting.size;
        self.largest = self.largest.max(waiting.size);
        self.packets.push_back(waiting);
    }

    /// Puts an acknowledgement in the place of the latest packet of its flow, if that is one whose place it may take: so it leaves
    /// when that would have. Returns what was there, or else the acknowledgement.
    pub(super) fn replace(&mut self, newer: Waiting<P>) -> Result<P, Waiting<P>>
    where
        P: Packet,
    {
        let hash = newer.packet.flow_hash();
        let latest = self.packets.iter_mut().rev().find(|waiting| waiting.packet.flow_hash() == hash);
        let marks = newer.packet.acknowledged_marks();
        let says_the_same = |older: &P| older.acknowledged_marks() == marks;
        let Some(older) = latest.filter(|latest| latest.is_replaceable && says_the_same(&latest.packet)) else {
            return Err(newer);
        };
        self.bytes = self.bytes + newer.size - older.size;
        self.largest = self.largest.max(newer.size);
        let arrived = older.arrived;
        Ok(std::mem::replace(older, Waiting { arrived, ..newer }).packet)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_front()?;
        self.bytes = self.bytes - waiting.size;
        Some(waiting)
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Whether no more than one full packet waits: a queue that cannot be shorter while its link works.
    pub(super) fn is_short(&self) -> bool {
        self.bytes <= self.largest
    }

    /// How long the first has waited at `now`; zero for an empty line.
    pub(super) fn delay(&self, now: Instant) -> Duration {
        self.packets.front().map_or(Duration::ZERO, |first| now.since(first.arrived))
    }
}
