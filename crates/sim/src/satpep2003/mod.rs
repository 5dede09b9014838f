//! SaTPEP as its paper describes it (Velenis, Kalogeras, Maglaris 2003), errors resolved: a pair of gateways splits each TCP
//! connection in three, and the middle one, over the satellite, has windows that the receiving gateway assigns and
//! recovery by NACKs.
//!
//! The middle connection is [`tcp`]'s endpoint with [`tcp::Config::satpep`]. What divides the link belongs here rather than
//! there: it is of a gateway, not of a connection, and measures all that arrives over the link. The deployed transport has
//! an allocation of its own.

mod allocator;
mod meter;

pub use allocator::{Allocator, ConnectionId, Division};
pub use meter::Measurement;

pub use scenario::{Accept, Profile, Satpep2003};
use units::{Duration, Rate};

/// The division of a link of this capacity and round trip of propagation.
pub(crate) fn division(config: &Satpep2003, capacity: Rate, rtt: Duration) -> Division {
    let division = match config.profile {
        Profile::Paper => Division::paper(capacity, rtt),
        Profile::Deploy => Division::deploy(capacity, rtt),
    };
    let pair = Measurement::PacketPair { idle: division.epoch.mul_f64(0.25) };
    Division {
        measurement: if config.packet_pair { pair } else { division.measurement },
        headroom: config.headroom.unwrap_or(division.headroom),
        ..division
    }
}
