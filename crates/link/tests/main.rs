//! The integration tests of the crate, as one program.

mod acks;
mod dama;
mod edges;
mod link;
mod marks;
mod packets;
mod queues;
mod reference;
mod time;
