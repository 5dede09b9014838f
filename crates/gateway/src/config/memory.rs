//! `[gateway] memory`: for the data of all sessions.

use super::document::{Document, Section};
use super::hop;
use satpep::EndpointConfig;
use units::Bytes;

/// What is set, or else a quarter of what the machine has; and the line of it. `is_tcp` says which leg it is.
pub(super) fn read(section: &mut Section<'_>, is_tcp: bool) -> (Bytes, usize) {
    let memory = section.checked("memory", "a size from 1MiB to 16TiB, such as \"2GiB\"", |size: &Bytes| {
        (1 << 20..=1 << 44).contains(&size.as_u64())
    });
    if is_tcp {
        hop::refuse_others(section, &["memory"]);
    }
    (memory.unwrap_or_else(of_machine), section.line_of_key("memory"))
}

/// So many peers need more than that.
pub(super) fn refuse_too_little(document: &mut Document<'_>, line: usize, memory: Bytes, peers: usize) {
    let least = EndpointConfig::least_memory(peers);
    if memory < least {
        document.fault(
            line,
            format!("[gateway] memory: {memory} are too little for {peers} peers, which need {least} (256 KiB each)"),
        );
    }
}

fn of_machine() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kib: u64 = total.unwrap_or(4 << 20);
    Bytes::new((kib * 1024 / 4).max(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use satpep::PrivateKey;

    #[test]
    fn memory_that_the_peers_cannot_share_is_refused() {
        let peer = |n: u8| {
            let key = PrivateKey::from_random([n; 32]).public_key();
            format!("[[peer]]\nname = \"p{n}\"\npublic_key = \"{key}\"\nroutes = [\"10.{n}.0.0/16\"]\noverlap = true\n")
        };
        let text = |peers: u8| {
            minimal().replace("[gateway]", "[gateway]\nmemory = \"1MiB\"")
                + &(100..100 + peers).map(peer).collect::<String>()
        };
        assert!(super::super::parse(&text(3), "gateway.toml").is_ok());
        let faults = faults(&text(4));
        let expected = "gateway.toml:2: [gateway] memory: 1.049MB are too little for 5 peers, which need 1.311MB";
        assert!(faults[0].starts_with(expected), "{faults:?}");
    }
}
