//! Versions of the protocol, and what beyond a version a gateway offers.

/// A range of protocol versions: those that a gateway speaks. Two gateways use the highest version that both speak.
///
/// The range travels in clear at the same place of every handshake message that begins a session, so that gateways without
/// a common version can say which of them is older (the invariants of `docs/protocol.md`, after RFC 8999), and under
/// authentication, so that nobody between them can make them use a lower version than they would (after RFC 9368).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Versions {
    oldest: u8,
    newest: u8,
}

impl Versions {
    /// The versions of `satpep` that this build speaks.
    pub const SPOKEN: Self = Self { oldest: 4, newest: 5 };

    /// From `oldest` to `newest`; `None` if `newest` is the older, or a version is 0, which is none.
    pub const fn new(oldest: u8, newest: u8) -> Option<Self> {
        if oldest == 0 || oldest > newest { None } else { Some(Self { oldest, newest }) }
    }

    /// The lowest version.
    pub const fn oldest(self) -> u8 {
        self.oldest
    }

    /// The highest version.
    pub const fn newest(self) -> u8 {
        self.newest
    }

    /// The highest version of both ranges.
    pub fn common(self, other: Self) -> Option<u8> {
        let version = self.newest.min(other.newest);
        (version >= self.oldest.max(other.oldest)).then_some(version)
    }

    /// Whether every version is lower than every one of `other`.
    pub const fn are_older_than(self, other: Self) -> bool {
        self.newest < other.oldest
    }

    /// As they travel.
    pub const fn encode(self) -> [u8; 2] {
        [self.oldest, self.newest]
    }

    /// What two bytes say.
    pub const fn decode([oldest, newest]: [u8; 2]) -> Option<Self> {
        Self::new(oldest, newest)
    }
}

/// `3`, or `3 to 5`.
impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.oldest == self.newest {
            write!(f, "{}", self.oldest)
        } else {
            write!(f, "{} to {}", self.oldest, self.newest)
        }
    }
}

/// Services beyond those of a version that a gateway offers in its handshake. A session has those that both sides offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// No service.
    pub const NONE: Self = Self(0);
    /// Unreliable datagrams (as RFC 9221). Reserved: no version has them yet.
    pub const DATAGRAMS: Self = Self(1);
    /// Several paths in one session. Reserved: no version has them yet.
    pub const PATHS: Self = Self(1 << 1);
    /// Reports of how far streams have been read, by which a sender keeps credit back for those that are read.
    pub const READ_REPORTS: Self = Self(1 << 2);

    /// What both offer.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The bits as they travel.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// What `bits` say; those that are not known stay.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(oldest: u8, newest: u8) -> Versions {
        Versions::new(oldest, newest).expect("a range")
    }

    #[test]
    fn the_highest_common_version_is_used() {
        for (one, other, common) in [
            (range(3, 3), range(3, 4), Some(3)),
            (range(2, 5), range(4, 9), Some(5)),
            (range(1, 9), range(4, 4), Some(4)),
            (range(1, 3), range(4, 5), None),
        ] {
            assert_eq!((one.common(other), other.common(one)), (common, common), "{one} and {other}");
            assert_eq!(one.are_older_than(other), common.is_none());
            assert!(!other.are_older_than(one));
        }
    }

    #[test]
    fn two_bytes_are_a_range_or_none() {
        assert_eq!(Versions::decode(range(3, 5).encode()), Some(range(3, 5)));
        assert_eq!((Versions::decode([0, 4]), Versions::decode([4, 3])), (None, None));
        assert_eq!((range(3, 3).to_string(), range(3, 5).to_string()), ("3".into(), "3 to 5".into()));
    }

    #[test]
    fn a_range_is_within_the_versions_that_exist() {
        assert_eq!((Versions::new(0, 3), Versions::new(4, 3)), (None, None));
        let range = range(3, 5);
        assert_eq!((range.oldest(), range.newest()), (3, 5));
        assert_eq!(Versions::SPOKEN.common(Versions::SPOKEN), Some(Versions::SPOKEN.newest()));
    }

    /// RFC 9221 and its like are negotiated: what one side does not know, or does not offer, is not used.
    #[test]
    fn a_session_has_the_services_that_both_offer() {
        let both = Capabilities::from_bits(Capabilities::DATAGRAMS.bits() | Capabilities::PATHS.bits());
        let later = Capabilities::from_bits(Capabilities::PATHS.bits() | 1 << 63);
        assert_eq!((both.common(later), later.common(both)), (Capabilities::PATHS, Capabilities::PATHS));
        assert_eq!(later.common(later).bits(), 1 << 63 | 2, "a bit of a later version travels as it came");
        assert_eq!(both.common(Capabilities::NONE), Capabilities::default());
    }
}
