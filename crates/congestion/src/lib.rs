//! Congestion controls for the kernel's own TCP: eBPF programs (`struct_ops`), compiled beforehand and embedded, that any
//! program then chooses by name (`TCP_CONGESTION`).
//!
//! A control is there as long as it is held: a process ([`LoadedControl`]), however that ends, or a pin in the BPF file
//! system ([`LoadedControl::load_pinned`]), until it is taken away ([`unpin`]). Connections that run under it keep it to their end.
//!
//! The programs are in `bpf/`, with the rule how their objects are made of them (`make bpf`). They are licensed as the rest or
//! by the GPL, version 2: the kernel lends its own functions only to programs that say so.
//!
//! Without the feature `ebpf` (on by default; it needs the headers of libelf and zlib) everything compiles, and loading a control
//! is an error that says so.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it asks the kernel and reads its clock")]

mod control;
#[cfg(feature = "ebpf")]
mod ebpf;
#[cfg(not(feature = "ebpf"))]
#[path = "absent.rs"]
mod ebpf;
mod filesystem;
mod link_table;
mod loaded;
mod namespaces;
pub mod requirements;

pub use control::{CONTROLS, Control};
pub use link_table::{LinkEntry, LinkInForce, LinkTable};
pub use loaded::{LoadedControl, Unpinned, is_pinned, unpin};
pub use namespaces::namespaces_that_use;
