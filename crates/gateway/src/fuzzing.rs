//! A way in for the fuzzer, past the kernel.

/// Reads a held SYN: addresses of one family, or nothing.
pub fn syn(packet: &[u8]) {
    if let Some(open) = crate::hold::parse(packet) {
        assert_eq!(open.source.is_ipv4(), open.destination.is_ipv4());
    }
}
