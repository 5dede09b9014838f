//! What the commands share that run the lab in private namespaces: `demo`, `bench`, `chaos` and `lab --compare`.

use crate::output::Failure;
use kernel::namespace::{PRIVATE_DIRECTORY, enter_private};
use lab::{CapacityMode, Family, GatewayOptions, Transport};
use std::path::PathBuf;

/// The Internet Protocol for `--ipv6` or its absence.
pub fn family(ipv6: bool) -> Family {
    if ipv6 { Family::V6 } else { Family::V4 }
}

/// Gateways whose files live in the private file system of this process.
pub fn gateway_options(ipv6: bool, show_logs: bool) -> GatewayOptions {
    let directory = PathBuf::from(PRIVATE_DIRECTORY).join("bentpipe-lab");
    GatewayOptions {
        directory,
        family: family(ipv6),
        clear: false,
        show_logs,
        capacity: CapacityMode::default(),
        configured_rates: None,
        link_updates: false,
        transport: Transport::Satpep,
        congestion_control: None,
        target_queue: None,
        max_streams: None,
        repair: true,
        workers: None,
    }
}

/// Moves the process into private namespaces, and before the other load of the machine where that is allowed: packets
/// that leave late because another process has the processor would be measured as the link's fault.
///
/// # Errors
/// If the machine allows no private namespaces.
pub fn start_in_private() -> Result<(), Failure> {
    let before_others = kernel::process::run_before_others();
    tracing::debug!(before_others, "priority");
    Ok(enter_private()?)
}

/// The program that is running, to start it again as a gateway.
///
/// # Errors
/// If the system does not report it.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::missing(format!("cannot tell where this program is: {error}")))
}
