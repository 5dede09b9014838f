//! Routes and routing rules, through the program `ip`.

use crate::Error;
use crate::program;

/// Runs `ip ARGUMENTS` (written as on a command line, without quotes) in the network namespace of the calling thread.
///
/// # Errors
/// If `ip` is not installed, the process may not change routes, or `ip` refuses (with what it says).
pub fn ip(arguments: &str) -> Result<(), Error> {
    run("ip", arguments)
}

/// As [`ip`], for another program that changes the network.
///
/// # Errors
/// If the program is not installed, the process may not change the network, or the program refuses (with what it says).
pub fn run(name: &str, arguments: &str) -> Result<(), Error> {
    let package = if name == "ip" { "iproute2" } else { "iptables" };
    program::run(name, package, arguments.split_whitespace()).map(drop)
}

/// The IPv6 addresses in the network namespace of the calling thread, as a kernel without IPv6 does not list them.
const IPV6_ADDRESSES: &str = "/proc/thread-self/net/if_inet6";

/// Whether the kernel speaks IPv6 at all.
pub fn has_ipv6() -> bool {
    std::path::Path::new(IPV6_ADDRESSES).exists()
}

/// Whether some interface has the address `::1`: not where IPv6 has been disabled.
pub fn has_ipv6_loopback() -> bool {
    let loopback = format!("{:032x} ", 1);
    std::fs::read_to_string(IPV6_ADDRESSES).is_ok_and(|text| text.lines().any(|line| line.starts_with(&loopback)))
}

/// What the host itself is reached by in the network namespace of the calling thread, sorted
/// ([`crate::interfaces::Interfaces::local_prefixes`]).
///
/// # Errors
/// If the kernel does not answer.
pub fn own_addresses() -> Result<Vec<ipnet::IpNet>, Error> {
    let addresses = crate::interfaces::Interfaces::new()?.local_prefixes();
    addresses.map_err(Error::while_doing("reading this host's addresses"))
}
