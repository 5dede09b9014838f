//! What travels between gateways: datagrams and the frames inside them.

pub(crate) mod arrivals;
pub(crate) mod frame;
pub(crate) mod packet;
pub(crate) mod varint;
#[cfg(test)]
pub(crate) mod vectors;
