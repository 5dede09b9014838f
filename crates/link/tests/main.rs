//! The integration tests of the crate, as one program.

mod dama;
mod edges;
mod link;
mod marks;
mod packets;
mod queues;
mod reference;
mod time;
