//! `[gateway] memory`: for the data of all sessions.

use super::{Choice, format};
use document::Document;
use satpep::EndpointConfig;
use std::path::{Path, PathBuf};
use units::Bytes;

/// What a machine has whose kernel does not say.
const UNKNOWN: u64 = 4 << 30;

/// What is set, or else a quarter of what the process may use: so many `peers` need more than too little.
pub(super) fn read(
    document: &mut Document<'_>,
    gateway: Option<&format::Gateway>,
    choice: Choice,
    peers: usize,
) -> Bytes {
    let memory = gateway.and_then(|gateway| gateway.memory).map_or_else(usual, |memory| memory.0);
    let least = EndpointConfig::least_memory(peers);
    if memory < least && !choice.is_tcp {
        let problem = format!(": {memory} are too little for {peers} peers, which need {least} (256 KiB each)");
        document.fault(&["gateway", "memory"], &problem);
    }
    memory
}

fn usual() -> Bytes {
    Bytes::new((usable(Path::new("/proc"), Path::new("/sys/fs/cgroup")) / 4).max(1 << 20))
}

/// What the machine has, or the least that a control group of the process may use, as in a container or under systemd's `MemoryMax=`.
fn usable(proc: &Path, groups: &Path) -> u64 {
    let text = std::fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let machine = kib.map_or(UNKNOWN, |kib: u64| kib * 1024);
    limits(proc, groups).into_iter().fold(machine, u64::min)
}

/// The limits of the process's control groups (cgroups(7), both versions).
fn limits(proc: &Path, groups: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let files = text.lines().flat_map(|line| limit_files(line, groups));
    files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok()).collect()
}

/// The files with the limits of the group that a line of `/proc/self/cgroup` names, and of the groups above it. In a container, the group
/// may have the host's name for it, while the root of the hierarchy is the container's.
fn limit_files(line: &str, groups: &Path) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, names): (PathBuf, &[&str]) = if controllers.is_empty() {
        (groups.to_owned(), &["memory.max", "memory.high"])
    } else if controllers.split(',').any(|controller| controller == "memory") {
        (groups.join("memory"), &["memory.limit_in_bytes"])
    } else {
        return Vec::new();
    };
    let group = root.join(group.trim_start_matches('/'));
    let with_those_above = group.ancestors().take_while(|group| group.starts_with(&root));
    with_those_above.flat_map(|group| names.iter().map(|name| group.join(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, minimal};
    use super::*;
    use satpep::PrivateKey;

    /// What may be used of 64 GiB by a process whose control groups are these, with these files that limit them.
    fn usable_of_64_gib(own: &str, limits: &[(&str, &str)]) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let limits = limits.iter().map(|(file, limit)| (format!("cgroup/{file}"), *limit));
        let of_proc = [("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n"), ("proc/self/cgroup", own)];
        for (file, text) in of_proc.map(|(file, text)| (file.to_owned(), text)).into_iter().chain(limits) {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        usable(&folder.path().join("proc"), &folder.path().join("cgroup"))
    }

    #[test]
    fn a_process_may_use_what_its_control_groups_and_those_above_them_leave_it() {
        let (machine, limit) = (64 << 30, 512 << 20);
        let unit = "system.slice/bentpipe-gateway@hub.service";
        let own = format!("0::/{unit}\n");
        assert_eq!(usable_of_64_gib(&own, &[]), machine, "without limits, as in the first group");
        let [max, high] = ["max", "high"].map(|name| format!("{unit}/memory.{name}"));
        assert_eq!(usable_of_64_gib(&own, &[(&max, "max\n"), (&high, "max\n")]), machine);
        assert_eq!(usable_of_64_gib(&own, &[(&max, "536870912\n"), (&high, "max\n")]), limit);
        assert_eq!(usable_of_64_gib(&own, &[(&max, "max\n"), (&high, "536870912\n")]), limit);
        assert_eq!(usable_of_64_gib(&own, &[("system.slice/memory.max", "536870912\n")]), limit, "of a slice");
        // Containers have a root of their own, and perhaps the host's names.
        assert_eq!(usable_of_64_gib("0::/\n", &[("memory.max", "536870912\n")]), limit);
        let first = "12:cpuset:/docker/7f\n9:rw,memory:/docker/7f\n0::/docker/7f\n";
        assert_eq!(usable_of_64_gib(first, &[("memory/memory.limit_in_bytes", "536870912\n")]), limit);
        assert_eq!(usable_of_64_gib(first, &[("memory/docker/7f/memory.limit_in_bytes", "536870912\n")]), limit);
        assert_eq!(usable_of_64_gib(first, &[("memory.limit_in_bytes", "1\n"), ("cpuset/memory.max", "1\n")]), machine);
    }

    #[test]
    fn a_machine_that_does_not_say_what_it_has_counts_as_small() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(usable(nowhere, nowhere), UNKNOWN);
    }

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
