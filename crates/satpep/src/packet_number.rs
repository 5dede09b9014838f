//! The numbers of packets.

crate::sequence::position!(
    /// A packet's number in its session: each is used once and never again (as in RFC 9000, section 12.3).
    PacketNumber
);

impl PacketNumber {
    /// What a packet carries of its number: the receiver knows about where in the session it is.
    pub(crate) const fn low_half(self) -> u32 {
        self.get() as u32
    }
}
