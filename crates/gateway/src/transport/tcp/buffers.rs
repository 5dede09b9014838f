//! Memory that all protected connections use in their turns.

/// Bytes of a turn: seven of TLS's records. Every turn costs system calls, acknowledgements and wakeups of the other end
/// once, however much it moves; but what is on its way is to stay in the processor's own cache, and the records' memory
/// below the 128 KiB that an allocator likes to give back to the kernel as soon as they are free.
pub(super) const TURN: usize = 7 << 14;

/// What all connections' turns use.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes as they are read from a socket.
    pub(super) arrived: Vec<u8>,
    /// Bytes that have been decrypted.
    pub(super) decrypted: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { arrived: vec![0; TURN], decrypted: Vec::with_capacity(TURN) }
    }
}
