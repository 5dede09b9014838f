//! A frame on its way, and the memory of frames that have left.

use crate::headers;
use kernel::packet::OffloadHeader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Bytes, Ecn, Instant};

/// A frame of wire size.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) offload: OffloadHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) packet_size: Bytes,
    pub(crate) arrival: Arrival,
    /// The memory that it takes up on its way.
    pub(crate) held: Option<Held>,
}

/// How many bytes of memory the frames of a direction take up, copies included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<AtomicU64>);

impl Memory {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts `frame` from now on. Its headers may state any size, so what counts is its buffer.
    pub(crate) fn hold(&self, frame: &mut Frame) {
        let bytes = (frame.bytes.capacity() + size_of::<Frame>()) as u64;
        frame.held = Some(Held::new(self.clone(), bytes));
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Memory,
    bytes: u64,
}

impl Held {
    fn new(memory: Memory, bytes: u64) -> Self {
        memory.0.fetch_add(bytes, Ordering::Relaxed);
        Self { memory, bytes }
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::new(self.memory.clone(), self.bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a packet came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrival {
    /// Its number among the packets that came from its direction.
    pub(crate) number: u64,
    /// When it came.
    pub(crate) at: Instant,
    /// The packet's terminal, if terminals are distinguished.
    pub(crate) terminal: Option<usize>,
    /// The codepoint that it came with, if the log wants to know.
    pub(crate) ecn: Ecn,
}

impl Frame {
    /// A frame whose network-layer packet has the size that its headers state.
    pub(crate) fn new(offload: OffloadHeader, bytes: Vec<u8>, layer: headers::NetworkLayer) -> Self {
        let packet_size = headers::packet_size(&bytes, layer);
        Self { offload, bytes, packet_size, arrival: Arrival::default(), held: None }
    }
}

impl link::Packet for Frame {
    fn size(&self) -> Bytes {
        self.packet_size
    }

    fn flow_hash(&self) -> u64 {
        headers::flow_hash(&self.bytes)
    }

    fn ecn(&self) -> Ecn {
        headers::ecn(&self.bytes)
    }

    fn mark(&mut self) {
        headers::mark(&mut self.bytes);
    }
}

/// Buffers of frames that have left, for those that come: in the steady state no frame is allocated.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// By size, so that a small frame does not hold on to a large buffer.
    free: [Vec<Vec<u8>>; Self::SIZES.len()],
}

impl Pool {
    /// How many buffers of each size are kept, and how large those of one size are at most.
    const KEPT: usize = 16_384;
    const SIZES: [usize; 5] = [256, 512, 1024, 2048, 16_384];

    /// An empty buffer with room for `capacity` bytes.
    pub(crate) fn take(&mut self, capacity: usize) -> Vec<u8> {
        let mut buffer = self.free_of(capacity).and_then(Vec::pop).unwrap_or_default();
        buffer.reserve_exact(capacity);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if let Some(free) = self.free_of(buffer.capacity()).filter(|free| free.len() < Self::KEPT) {
            buffer.clear();
            free.push(buffer);
        }
    }

    /// The free buffers of the size that `capacity` belongs to; none of giants.
    fn free_of(&mut self, capacity: usize) -> Option<&mut Vec<Vec<u8>>> {
        let size = Self::SIZES.iter().position(|size| capacity <= *size)?;
        Some(&mut self.free[size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_empty_and_giants_are_not_kept() {
        let mut pool = Pool::default();
        let mut buffer = pool.take(1514);
        buffer.extend([1; 1514]);
        let address = buffer.as_ptr();
        pool.give(buffer);
        pool.give(Vec::with_capacity(16_385));
        assert!(pool.take(60).capacity() < 1514, "a small frame has a small buffer");
        let buffer = pool.take(1514);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, 0));
        assert!(pool.free.iter().all(Vec::is_empty));
    }
}
