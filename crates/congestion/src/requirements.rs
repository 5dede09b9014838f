//! What a kernel and a process need before a control can be loaded.

use kernel::Error;
use std::path::Path;

/// What the kernel tells of its own types, which the programs are fitted to.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The identifiers of users, as the machine's own user namespace maps them.
const EVERYBODY: [&str; 3] = ["0", "0", "4294967295"];
/// What a process needs, by the numbers of the kernel's interface (capability.h), and what else would do.
const CAPABILITIES: [(u32, &str, u32); 3] = [
    (39, "CAP_BPF", CAP_SYS_ADMIN),
    (38, "CAP_PERFMON", CAP_SYS_ADMIN),
    (CAP_NET_ADMIN, "CAP_NET_ADMIN", CAP_NET_ADMIN),
];
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Whether controls can be loaded here.
///
/// # Errors
/// [`Error::Missing`] names what is missing.
pub fn check() -> Result<(), Error> {
    if !Path::new(BTF).exists() {
        return Err(Error::Missing(format!(
            "this kernel does not describe its types ({BTF}; CONFIG_DEBUG_INFO_BTF): no congestion control can be loaded \
             into it"
        )));
    }
    let lacking = lacking(&read("/proc/self/uid_map")?, &read("/proc/self/status")?);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::Missing(format!("loading a congestion control needs root of this machine: this process {lacking}")))
}

/// What is wrong with a process by the texts of the two files; empty if nothing is.
fn lacking(uid_map: &str, status: &str) -> String {
    if !uid_map.split_whitespace().eq(EVERYBODY) {
        return "is in a user namespace".to_owned();
    }
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |number: u32| held >> number & 1 == 1;
    let lacking = CAPABILITIES.iter().filter(|(number, _, other)| !has(*number) && !has(*other));
    let names: Vec<_> = lacking.map(|(_, name, _)| *name).collect();
    if names.is_empty() { String::new() } else { format!("lacks {}", names.join(", ")) }
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Failed { doing: format!("reading {path}"), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "         0          0 4294967295\n";

    #[test]
    fn what_is_missing_is_named() {
        let status = |mask: u64| format!("Name:\tx\nCapEff:\t{mask:016x}\nCapBnd:\t000001ffffffffff\n");
        assert_eq!(lacking(HOST, &status(0x1ff_ffff_ffff)), "");
        assert_eq!(lacking(HOST, &status(0)), "lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN");
        assert_eq!(lacking(HOST, &status(1 << 21)), "lacks CAP_NET_ADMIN");
        assert_eq!(lacking(HOST, &status(1 << 39 | 1 << 38 | 1 << 12)), "");
        assert!(lacking("0 1000 1\n", &status(0x1ff_ffff_ffff)).contains("user namespace"));
    }
}
