//! What a new process finds out before it sets anything up: whether another one runs; and before that one lets go to it, whether this host has
//! what its file asks for. Afterwards it could only do without.

use crate::config::{Settings, control_socket, table_name};
use crate::connection_log::ConnectionLog;
use crate::control;
use crate::error::{StartError, while_doing};
use crate::privileges::{Plan, directory_of};
use crate::rules::Installed;
use caps::{CapSet, Capability};
use kernel::privileges::Account;
use kernel::{nftables, process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Checks that no gateway has the control socket of `settings`, or its nftables table. One that does not answer is found by what it holds.
pub(super) fn check_alone(settings: &Settings) -> Result<(), StartError> {
    let Ok(running) = control::status(&settings.control) else { return check_table(settings) };
    let drain = match running["draining"]["connections"].as_u64() {
        None => String::new(),
        Some(1) => ", drains: 1 connection left".to_owned(),
        Some(connections) => format!(", drains: {connections} connections left"),
    };
    let name = running["name"].as_str().unwrap_or(&settings.name).to_owned();
    Err(StartError::Runs { name, pid: running["pid"].as_u64().unwrap_or_default(), drain })
}

/// Checks that no running gateway has the nftables table of `settings`: each of the two would put its own in the place of the other's.
fn check_table(settings: &Settings) -> Result<(), StartError> {
    let table = &settings.rules.table;
    // Without one in this network namespace, such a gateway is in another. What the kernel does not say is reported by the setup.
    if !matches!(nftables::table_handle(table), Ok(Some(_))) {
        return Ok(());
    }
    let owner = sockets_of(table, &settings.control).into_iter().find_map(|socket| {
        let running = control::status(&socket).ok()?;
        let name = running["name"].as_str().filter(|name| table_name(name) == *table)?.to_owned();
        Some((name, running["pid"].as_u64().unwrap_or_default()))
    });
    let Some((name, pid)) = owner else { return Ok(()) };
    Err(StartError::TableTaken { table: table.clone(), name, pid })
}

/// The control sockets, other than `own`, that gateways with the nftables table `table` have by their name: beside `own`, and in the usual directory.
fn sockets_of(table: &str, own: &Path) -> BTreeSet<PathBuf> {
    let usual = control_socket("");
    let directories = [own, &usual].into_iter().filter_map(directory_of);
    let entries = directories.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let names_table =
        |path: &PathBuf| path.file_stem().and_then(OsStr::to_str).is_some_and(|name| table_name(name) == table);
    let is_socket = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sock");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path != own && is_socket(path) && names_table(path)).collect()
}

/// Checks what can be checked while the other process goes on.
pub(super) fn check(settings: &Settings, plan: &Plan) -> Result<(), StartError> {
    if let Some(log) = &settings.connection_log {
        ConnectionLog::check(&log.file)?;
    }
    if let Some(address) = settings.updates.http {
        check_address(address).map_err(while_doing(format!("[updates] http {address}")))?;
    }
    if let Some(name) = &settings.user {
        check_user(name)?;
    }
    control::check(&settings.control, plan)?;
    Ok(Installed::check(&settings.rules, &settings.bypass)?)
}

/// Checks that a listener can be had at `address`, which may be the other process's until it lets go.
fn check_address(address: SocketAddr) -> io::Result<()> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => Err(error),
        _ => Ok(()),
    }
}

/// Checks that this process may go on as the user `name`.
fn check_user(name: &str) -> Result<(), StartError> {
    let is_already = Account::find(name)?.is_some_and(|account| account.uid == process::user());
    if is_already || caps::has_cap(None, CapSet::Effective, Capability::CAP_SETUID).unwrap_or(true) {
        return Ok(());
    }
    let error = io::Error::new(io::ErrorKind::PermissionDenied, "only root can go on as another user");
    Err(while_doing(format!("[gateway] user = {name:?}"))(error))
}
