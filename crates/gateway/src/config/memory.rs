//! `[gateway] memory`: for the data of all sessions.

use super::{Choice, format};
use document::Document;
use satpep::EndpointConfig;
use units::Bytes;

/// What is set, or else a quarter of what the machine has: so many `peers` need more than too little.
pub(super) fn read(
    document: &mut Document<'_>,
    gateway: Option<&format::Gateway>,
    choice: Choice,
    peers: usize,
) -> Bytes {
    let memory = gateway.and_then(|gateway| gateway.memory).map_or_else(of_machine, |memory| memory.0);
    let least = EndpointConfig::least_memory(peers);
    if memory < least && !choice.is_tcp {
        let problem = format!(": {memory} are too little for {peers} peers, which need {least} (256 KiB each)");
        document.fault(&["gateway", "memory"], &problem);
    }
    memory
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
        let expected = "gateway.toml:2:10: gateway.memory: 1.049MB are too little for 5 peers, which need 1.311MB";
        assert!(faults[0].starts_with(expected), "{faults:?}");
    }
}
