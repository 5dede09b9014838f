//! Real experiments: the kernel's TCP across an emulated satellite, in private namespaces.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks, starts threads and waits")]

pub mod transfer;
