//! Uploads by the kernel's TCP under a control that was loaded for them.

use congestion::{Control, Held, requirements};
use lab::transfer::Checksum;
use lab::{Direction, Family, Satellite, Topology, Workload};
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Bytes, Duration};

/// A receive buffer that never limits the sender.
const RECEIVE_BUFFER: (&str, &str) = ("ipv4/tcp_rmem", "4096 67108864 134217728");

/// One terminal and the hub across `satellite`.
pub fn network(satellite: Satellite) -> Topology {
    let topology = Topology::without_ipv6(1, Some(satellite)).expect("a network");
    topology.set_host_sysctls(&[RECEIVE_BUFFER]).expect("a buffer");
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
pub fn load(control: &'static Control) -> Option<Held> {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    if let Err(error) = requirements::check() {
        eprintln!("SKIPPED: {error}");
        return None;
    }
    let name = format!("bt{}_{}", std::process::id(), LOADED.fetch_add(1, Ordering::Relaxed));
    Some(Held::load_as(control, &name).expect("the kernel takes it"))
}
