//! What the QUIC packets in flight say.

use quic::Packet;

/// Keeps packets of QUIC while those of the simulator, which are small and plain, carry their places. A place is used again once its
/// packet has arrived or all its copies are lost; a copy that comes second finds it gone, as its receiver would refuse it.
#[derive(Debug, Default)]
pub(crate) struct QuicPackets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// Which of the packets that had this place has it now.
    use_number: u32,
    /// How many copies of it are on the way.
    copies: u32,
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
            (place.copies, place.packet) = (1, Some(packet));
            return QuicPacketId { slot, use_number: place.use_number };
        }
        self.slots.push(Slot { use_number: 0, copies: 1, packet: Some(packet) });
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

    /// A link made a copy of a packet.
    pub(crate) fn copy(&mut self, id: QuicPacketId) {
        let place = &mut self.slots[id.slot as usize];
        if place.use_number == id.use_number {
            place.copies += 1;
        }
    }

    /// A copy of a packet goes no further. Gives the place free if it was the last one.
    pub(crate) fn lose(&mut self, id: QuicPacketId) {
        let place = &mut self.slots[id.slot as usize];
        if place.use_number == id.use_number {
            place.copies -= 1;
            if place.copies == 0 {
                self.take(id);
            }
        }
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

    #[test]
    fn a_packet_stays_until_its_last_copy_is_lost() {
        let mut packets = QuicPackets::default();
        let [a, b] = [1, 2].map(|number| packets.put(packet(number)));
        packets.copy(a);
        packets.copy(b);
        packets.lose(a);
        assert_eq!(packets.take(a).map(|packet| packet.number), Some(1));
        packets.lose(b);
        packets.lose(b);
        assert_eq!(packets.take(b), None);
        let [c, d] = [3, 4].map(|number| packets.put(packet(number)));
        // What comes late of one packet does not touch the next in its place.
        packets.lose(a);
        packets.lose(b);
        packets.copy(a);
        assert_eq!(packets.slots.len(), 2);
        assert_eq!([c, d].map(|id| packets.take(id).map(|packet| packet.number)), [Some(3), Some(4)]);
    }
}
