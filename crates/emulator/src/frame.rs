//! A frame on its way, and the memory of frames that have left.

use crate::headers;
use kernel::packet::OffloadHeader;
use units::{Bytes, Ecn, Instant};

/// A frame of wire size.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) offload: OffloadHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) packet_size: Bytes,
    pub(crate) arrival: Arrival,
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
        Self { offload, bytes, packet_size, arrival: Arrival::default() }
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
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// How many buffers are kept, and how large ones.
    const KEPT: usize = 16_384;
    const KEPT_CAPACITY: usize = 16_384;

    /// An empty buffer with room for `capacity` bytes.
    pub(crate) fn take(&mut self, capacity: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.reserve(capacity);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if self.free.len() < Self::KEPT && buffer.capacity() <= Self::KEPT_CAPACITY {
            buffer.clear();
            self.free.push(buffer);
        }
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
        pool.give(Vec::with_capacity(Pool::KEPT_CAPACITY + 1));
        let buffer = pool.take(1514);
        assert_eq!((buffer.as_ptr(), buffer.len()), (address, 0));
        assert_eq!(pool.free.len(), 0);
    }
}
