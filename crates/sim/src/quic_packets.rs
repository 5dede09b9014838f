//! What the QUIC packets in flight say.

use quic::Packet;

/// Keeps packets of QUIC while those of the simulator, which are small and plain, carry their places. A place is used again once its
/// packet has arrived or is lost; a second copy of a packet finds it gone, as its receiver would refuse it.
#[derive(Debug, Default)]
pub(crate) struct QuicPackets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// Which of the packets that had this place has it now.
    use_number: u32,
    packet: Option<Packet>,
}

/// Tells QUIC packets apart that are in flight at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicPacketId {
    slot: u32,
    use_number: u32,
}

impl QuicPackets {
    /// Keeps a packet.
    pub(crate) fn put(&mut self, packet: Packet) -> QuicPacketId {
        if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            place.packet = Some(packet);
            return QuicPacketId { slot, use_number: place.use_number };
        }
        self.slots.push(Slot { use_number: 0, packet: Some(packet) });
        QuicPacketId { slot: self.slots.len() as u32 - 1, use_number: 0 }
    }

    /// Takes a packet out; `None` if another copy of it was here before.
    pub(crate) fn take(&mut self, id: QuicPacketId) -> Option<Packet> {
        let place = &mut self.slots[id.slot as usize];
        if place.use_number != id.use_number {
            return None;
        }
        let packet = place.packet.take()?;
        place.use_number = place.use_number.wrapping_add(1);
        self.free.push(id.slot);
        Some(packet)
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Slot>() * self.slots.capacity() + size_of::<u32>() * self.free.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64) -> Packet {
        let (message, stream, ack, limits) = (None, None, None, None);
        Packet { number, size: 1500, is_early: false, message, stream, ack, limits, has_ping: true, closes: false }
    }

    #[test]
    fn a_packet_is_taken_once_and_places_are_used_again() {
        let mut packets = QuicPackets::default();
        let [a, b] = [1, 2].map(|number| packets.put(packet(number)));
        assert_eq!(packets.take(a).map(|packet| packet.number), Some(1));
        assert_eq!(packets.take(a), None);
        let c = packets.put(packet(3));
        assert_eq!(c.slot, a.slot);
        assert_eq!(packets.take(a), None);
        assert_eq!([c, b].map(|id| packets.take(id).map(|packet| packet.number)), [Some(3), Some(2)]);
    }
}
