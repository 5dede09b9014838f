//! A way in for the fuzzer, past the kernel.

/// Reads a held SYN: addresses of one family, or nothing.
pub fn syn(packet: &[u8]) {
    if let Some(open) = crate::hold::parse(packet) {
        assert_eq!(open.source.is_ipv4(), open.destination.is_ipv4());
    }
}

/// Parses a link update: an update, its withdrawal, or an error.
pub fn link_update(line: &[u8]) {
    if let Err(fault) = crate::link_state::api::parse(line, units::Duration::from_secs(60)) {
        assert!(!fault.is_empty());
    }
}
