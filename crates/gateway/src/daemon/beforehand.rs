//! What a new process finds out before it sets anything up: whether another one runs; and before that one lets go to it, whether this host has
//! what its file asks for. Afterwards it could only do without.

use crate::config::Settings;
use crate::connection_log::ConnectionLog;
use crate::control;
use crate::error::{StartError, while_doing};
use crate::privileges::Plan;
use crate::rules::Installed;
use caps::{CapSet, Capability};
use kernel::privileges::Account;
use kernel::process;
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Checks that no gateway has the control socket of `settings`. One that does not answer is found by what it holds.
pub(super) fn check_alone(settings: &Settings) -> Result<(), StartError> {
    let Ok(running) = control::status(&settings.control) else { return Ok(()) };
    let drain = match running["draining"]["connections"].as_u64() {
        None => String::new(),
        Some(1) => ", drains: 1 connection left".to_owned(),
        Some(connections) => format!(", drains: {connections} connections left"),
    };
    let name = running["name"].as_str().unwrap_or(&settings.name).to_owned();
    Err(StartError::Runs { name, pid: running["pid"].as_u64().unwrap_or_default(), drain })
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
