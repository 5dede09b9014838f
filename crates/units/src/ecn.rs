//! The field of the IP header by which a network tells of congestion without dropping.

/// Explicit congestion notification: the two bits beside the DSCP (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The transport does not read marks: congested queues drop its packets.
    #[default]
    NotCapable,
    /// ECT(0): the transport answers a mark as it would answer a loss (RFC 3168).
    Ect0,
    /// ECT(1): the transport answers to the share of packets that are marked, so that queues may mark early (RFC 9331).
    Ect1,
    /// CE: a queue on the way was congested.
    CongestionExperienced,
}

impl Ecn {
    /// The codepoint with these two bits; others are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotCapable,
            0b10 => Self::Ect0,
            0b01 => Self::Ect1,
            _ => Self::CongestionExperienced,
        }
    }

    /// Its two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Ect0 => 0b10,
            Self::Ect1 => 0b01,
            Self::CongestionExperienced => 0b11,
        }
    }

    /// Whether a queue may mark the packet instead of dropping it.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotCapable)
    }

    /// Whether the packet was marked.
    #[inline]
    pub const fn is_marked(self) -> bool {
        matches!(self, Self::CongestionExperienced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_those_of_rfc_3168() {
        let all = [Ecn::NotCapable, Ecn::Ect1, Ecn::Ect0, Ecn::CongestionExperienced];
        assert_eq!(all.map(Ecn::bits), [0, 1, 2, 3]);
        for ecn in all {
            assert_eq!(Ecn::from_bits(ecn.bits() | 0b1111_1100), ecn);
        }
        assert_eq!(all.map(Ecn::is_capable), [false, true, true, true]);
        assert_eq!(all.map(Ecn::is_marked), [false, false, false, true]);
    }
}
