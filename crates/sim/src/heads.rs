//! The heads of the satellite transport's datagrams in flight.

/// Keeps heads while packets, which are plain data, carry their places. A place is used again once its datagram has arrived
/// or all its copies are lost; a copy that comes second finds it gone, as the transport would refuse it.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// Which of the datagrams that had this place has it now.
    use_number: u32,
    /// How many copies of the datagram are on the way; none if the place is free.
    copies: u32,
    head: Vec<u8>,
    size: usize,
}

/// Tells datagrams of the satellite transport apart that are in flight at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramId {
    slot: u32,
    use_number: u32,
}

impl Heads {
    /// Keeps the head of a datagram of `size` bytes.
    pub(crate) fn put(&mut self, head: &[u8], size: usize) -> DatagramId {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[number as usize];
        let before = slot.head.capacity();
        slot.head.clear();
        slot.head.extend_from_slice(head);
        (slot.copies, slot.size) = (1, size);
        self.bytes += slot.head.capacity() - before;
        DatagramId { slot: number, use_number: slot.use_number }
    }

    /// Gives the head and the size back and the place free; `None` if another copy of the datagram was here before.
    pub(crate) fn take(&mut self, id: DatagramId) -> Option<(&mut [u8], usize)> {
        self.find(id)?.copies = 0;
        self.free.push(id.slot);
        let slot = &mut self.slots[id.slot as usize];
        slot.use_number = slot.use_number.wrapping_add(1);
        Some((&mut slot.head, slot.size))
    }

    /// A link made a copy of the datagram.
    pub(crate) fn copy(&mut self, id: DatagramId) {
        if let Some(slot) = self.find(id) {
            slot.copies += 1;
        }
    }

    /// A copy of the datagram goes no further. Gives the place free if it was the last one.
    pub(crate) fn lose(&mut self, id: DatagramId) {
        let Some(slot) = self.find(id) else { return };
        slot.copies -= 1;
        if slot.copies == 0 {
            slot.use_number = slot.use_number.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// The datagram's place, if no copy of it has arrived.
    fn find(&mut self, id: DatagramId) -> Option<&mut Slot> {
        Some(&mut self.slots[id.slot as usize]).filter(|slot| slot.copies > 0 && slot.use_number == id.use_number)
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.slots.len() * (size_of::<Slot>() + size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(heads: &mut Heads, id: DatagramId) -> Option<(Vec<u8>, usize)> {
        heads.take(id).map(|(head, size)| (head.to_vec(), size))
    }

    #[test]
    fn a_head_is_taken_once_and_places_are_used_again() {
        let mut heads = Heads::default();
        let [a, b] = [heads.put(b"a", 5), heads.put(b"bb", 6)];
        assert_eq!(taken(&mut heads, a), Some((b"a".to_vec(), 5)));
        assert_eq!(taken(&mut heads, a), None);
        let c = heads.put(b"c", 7);
        assert_eq!(c.slot, a.slot);
        assert_eq!(taken(&mut heads, a), None);
        assert_eq!(taken(&mut heads, b), Some((b"bb".to_vec(), 6)));
        assert_eq!(taken(&mut heads, c), Some((b"c".to_vec(), 7)));
        assert_eq!(heads.slots.len(), 2);
    }

    #[test]
    fn a_head_stays_until_the_last_copy_is_lost() {
        let mut heads = Heads::default();
        let [a, b] = [heads.put(b"a", 5), heads.put(b"b", 5)];
        heads.copy(a);
        heads.copy(b);
        heads.lose(a);
        assert_eq!(taken(&mut heads, a), Some((b"a".to_vec(), 5)));
        heads.lose(b);
        heads.lose(b);
        assert_eq!(taken(&mut heads, b), None);
        let [c, d] = [heads.put(b"c", 5), heads.put(b"d", 5)];
        // What comes late of one datagram does not touch the next in its place.
        heads.lose(a);
        heads.lose(b);
        heads.copy(a);
        assert_eq!(heads.slots.len(), 2);
        assert_eq!([c, d].map(|id| taken(&mut heads, id).is_some()), [true, true]);
    }
}
