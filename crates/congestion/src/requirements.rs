//! What a kernel and a process need before a control can be loaded.

use kernel::Error;
use std::io;

/// What the kernel tells of its own types, which the programs are fitted to.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The kernel's own type behind links of struct_ops, which controls are attached with: since Linux 6.4 (commit 68b04864ca42,
/// "bpf: Create links for BPF struct_ops maps"), earlier where a distribution has taken it back.
const STRUCT_OPS_LINK: &[u8] = b"\0bpf_struct_ops_link\0";
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
    crate::ebpf::check()?;
    let types = std::fs::read(BTF).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing(format!(
            "this kernel does not describe its types ({BTF}; CONFIG_DEBUG_INFO_BTF): no congestion control can be loaded \
             into it"
        )),
        _ => Error::Failed { doing: format!("reading {BTF}"), source: error },
    })?;
    check_links(&types, read("/proc/sys/kernel/osrelease")?.trim())?;
    let lacking = lacking(&read("/proc/self/uid_map")?, &read("/proc/self/status")?);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::Missing(format!("loading a congestion control needs root of this machine: this process {lacking}")))
}

/// Whether a kernel of `release` whose types are `btf` has links of struct_ops. The types are asked rather than the release,
/// since distributions take features back.
fn check_links(btf: &[u8], release: &str) -> Result<(), Error> {
    if btf.windows(STRUCT_OPS_LINK.len()).any(|name| name == STRUCT_OPS_LINK) {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "this kernel ({release}) has no links of struct_ops (Linux 6.4 or later): no congestion control can be loaded into it"
    )))
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
    fn a_kernel_without_links_of_struct_ops_is_named_with_what_it_takes() {
        // The names of 5.15 and of 6.4, as their BTF has them.
        let older = b"\0bpf_struct_ops_map\0bpf_struct_ops_linkage\0tcp_congestion_ops\0";
        let said = check_links(older, "5.15.0-91-generic").expect_err("it lacks them").to_string();
        assert!(said.contains("5.15.0-91-generic") && said.contains("Linux 6.4 or later"), "{said}");
        assert!(check_links(b"\0bpf_struct_ops_map\0bpf_struct_ops_link\0", "5.14.0-427.el9").is_ok());
    }

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
