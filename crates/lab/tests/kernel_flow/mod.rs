//! Uploads by the kernel's TCP under a control that was loaded for them.

use congestion::{Control, LoadedControl, requirements};
use lab::transfer::Checksum;
use lab::{Direction, Family, Satellite, Topology, Workload};
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Bytes, Duration};

/// A receive buffer that never limits the sender.
pub const RECEIVE_BUFFER: Bytes = Bytes::new(64 << 20);

/// One terminal and the hub across `satellite`.
pub fn network(satellite: Satellite) -> Topology {
    let topology = Topology::without_ipv6(1, Some(satellite)).expect("a network");
    let sizes = format!("4096 {} {}", RECEIVE_BUFFER.as_u64(), 2 * RECEIVE_BUFFER.as_u64());
    topology.set_host_sysctls(&[("ipv4/tcp_rmem", &sizes)]).expect("a buffer");
    topology
}

/// An upload of `size` under `control`.
pub fn upload(control: &str, size: Bytes) -> Workload {
    Workload {
        direction: Direction::Up,
        size,
        checksum: Checksum::LengthOnly,
        family: Family::V4,
        congestion_control: Some(control.to_owned()),
        send_buffer: None,
        receive_buffer: None,
        timeout: Duration::from_secs(60),
        seed: 1,
    }
}

/// Loads a control under a name of its own; `None` where none can be loaded.
pub fn load(control: &'static Control) -> Option<LoadedControl> {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    if let Err(error) = requirements::check() {
        eprintln!("SKIPPED: {error}");
        return None;
    }
    let name = format!("bt{}_{}", std::process::id(), LOADED.fetch_add(1, Ordering::Relaxed));
    Some(LoadedControl::load_as(control, &name).expect("the kernel takes it"))
}
