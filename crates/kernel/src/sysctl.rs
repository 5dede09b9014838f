//! Kernel settings by their names (`net.ipv4.tcp_rmem`), through /proc/sys.

use crate::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The value of `key` in the network namespace of the calling thread, numbers apart by single spaces.
///
/// # Errors
/// [`Error::Missing`] if this kernel has no such setting.
pub fn read(key: &str) -> Result<String, Error> {
    let text = fs::read_to_string(path(key)).map_err(|error| refused("reading", key, error))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Sets `key` in the network namespace of the calling thread.
///
/// # Errors
/// [`Error::Missing`] if this kernel has no such setting or the process may not change it, [`Error::Failed`] if the kernel
/// does not take the value.
pub fn write(key: &str, value: &str) -> Result<(), Error> {
    fs::write(path(key), value).map_err(|error| refused(&format!("writing {value} to"), key, error))
}

/// Opens `key` of the network namespace of the calling thread, to write it when files can no longer be opened.
///
/// # Errors
/// [`Error::Missing`] if this kernel has no such setting or the process may not change it.
pub fn open(key: &str) -> Result<File, Error> {
    File::options().write(true).open(path(key)).map_err(|error| refused("writing", key, error))
}

/// Whether [`write`] could change `key`, without changing it.
///
/// # Errors
/// [`Error::Missing`] that says what is missing.
pub fn check_writable(key: &str) -> Result<(), Error> {
    open(key).map(drop)
}

/// Whether each network namespace has a `key` of its own. Of the settings for sockets in general (`net.core`), Linux shares
/// all but a few between the namespaces of a host, where only the first namespace may write them.
pub fn is_per_namespace(key: &str) -> bool {
    !key.starts_with("net.core.") || matches!(key, "net.core.somaxconn" | "net.core.optmem_max" | "net.core.txrehash")
}

/// Congestion controls that are loaded in this kernel.
///
/// # Errors
/// If the kernel does not report it.
pub fn congestion_controls() -> Result<Vec<String>, Error> {
    Ok(read("net.ipv4.tcp_available_congestion_control")?.split(' ').map(str::to_owned).collect())
}

/// As sysctl(8) reads keys: what comes first, a dot or a slash, separates, and the other one is the part of a name (`net/ipv4/conf/eth0.10`,
/// `net.ipv4.conf.eth0/10`).
fn path(key: &str) -> PathBuf {
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let is_path = key.find(['.', '/']).is_some_and(|at| key[at..].starts_with('/'));
    PathBuf::from("/proc/sys").join(if is_path { key.to_owned() } else { key.chars().map(swap).collect() })
}

fn refused(doing: &str, key: &str, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::Missing(format!("this kernel has no setting {key}")),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            let host =
                if is_per_namespace(key) { "" } else { ", and it belongs to the whole host, not to one namespace" };
            Error::Missing(format!("{doing} {key}: {error} (it needs CAP_NET_ADMIN and a writable /proc/sys{host})"))
        }
        _ => Error::Failed { doing: format!("{doing} {key}"), source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_may_have_dots() {
        for key in ["net/ipv4/conf/eth0.10/rp_filter", "net.ipv4.conf.eth0/10.rp_filter"] {
            assert_eq!(path(key).to_str(), Some("/proc/sys/net/ipv4/conf/eth0.10/rp_filter"), "{key}");
        }
        assert_eq!(path("net.ipv4.tcp_rmem").to_str(), Some("/proc/sys/net/ipv4/tcp_rmem"));
    }
}
