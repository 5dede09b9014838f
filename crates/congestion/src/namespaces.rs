//! Network namespaces whose default congestion control is one of ours.

use kernel::{Namespace, sysctl};
use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The sysctl of each network namespace.
const DEFAULT_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// The network namespaces, as far as this process may enter them, in which new connections use the control `name` unless a program or
/// a route says otherwise: by the name that `ip netns` gives them, or by a process in them.
pub fn namespaces_that_use(name: &str) -> Vec<String> {
    // By inode: a namespace has many processes, and may have a name.
    let mut found = BTreeMap::new();
    let files = named().chain(of_processes());
    for (label, path) in files {
        let Ok(inode) = std::fs::metadata(&path).map(|file| file.st_ino()) else { continue };
        found.entry(inode).or_insert((label, path));
    }
    let uses = |path: &Path| Namespace::at(path).ok()?.run(|| sysctl::read(DEFAULT_CONTROL).ok()).ok()?;
    found
        .into_values()
        .filter(|(_, path)| uses(path).is_some_and(|control| control == name))
        .map(|(label, _)| label)
        .collect()
}

fn named() -> impl Iterator<Item = (String, PathBuf)> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
}

fn of_processes() -> impl Iterator<Item = (String, PathBuf)> {
    let mut processes: Vec<u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    processes.sort_unstable();
    processes.into_iter().map(|process| {
        let folder = Path::new("/proc").join(process.to_string());
        let program = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        (format!("that of process {process} ({})", program.trim_end()), folder.join("ns/net"))
    })
}
