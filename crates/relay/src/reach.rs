//! What a gateway lets a peer reach, in the form in which it tells the peer: who is asked for what is denied anyway need not be
//! asked.
//!
//! | bytes | of an announcement on a stream of its own |
//! | --- | --- |
//! | 1 | [`ANNOUNCEMENT`], where other streams have the version of their connect request |
//! | 2 | length of what follows, big-endian |
//! | length | entries |
//!
//! | bytes | of an entry |
//! | --- | --- |
//! | 1 | [`IS_ALLOWED`] + [`IS_DESTINATION`] + [`IS_IPV6`], each if it is so; other bits are 0 |
//! | 1 | length of the prefix in bits |
//! | 4 or 16 | its address |
//!
//! An address may be used if the longest prefix of its kind (source or destination) that contains it is an allowed one.

use crate::routes::most_specific;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// First byte of a stream that carries an announcement, and no connection.
pub const ANNOUNCEMENT: u8 = 2;
/// The most entries of an announcement.
pub const MAX_ENTRIES: usize = 1024;
/// Length of the longest announcement's entries.
pub const LONGEST: usize = MAX_ENTRIES * 18;

const IS_ALLOWED: u8 = 1;
const IS_DESTINATION: u8 = 2;
const IS_IPV6: u8 = 4;

/// Prefixes of which each is allowed or denied; the longest that contains an address decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges {
    /// Longest first, each once.
    entries: Vec<(IpNet, bool)>,
}

impl Ranges {
    /// Those of `entries`, whose host bits are ignored: of equal prefixes, one that is allowed counts.
    pub fn new(entries: impl IntoIterator<Item = (IpNet, bool)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(prefix, allowed)| (prefix.trunc(), allowed)).collect();
        entries.sort_unstable_by_key(|(prefix, allowed)| (std::cmp::Reverse(prefix.prefix_len()), *prefix, !allowed));
        entries.dedup_by_key(|(prefix, _)| *prefix);
        Self { entries }
    }

    /// Whether `address` may be used.
    pub fn permit(&self, address: IpAddr) -> bool {
        self.entries.iter().find(|(prefix, _)| prefix.contains(&address)).is_some_and(|(_, allowed)| *allowed)
    }

    /// Disjoint prefixes, in order, that hold exactly the addresses that may be used.
    pub fn prefixes(&self) -> Vec<IpNet> {
        most_specific(&self.entries, |allowed| *allowed)
    }
}

/// What one peer may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Where its clients may be.
    pub sources: Ranges,
    /// Where servers may be.
    pub destinations: Ranges,
}

/// Why bytes are not an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReachError {
    /// It is longer than any announcement.
    #[error("an announcement of {0} bytes is too long")]
    Length(usize),
    /// An entry is cut off, or no prefix.
    #[error("an entry of the announcement is malformed")]
    Entry,
    /// Something follows it.
    #[error("bytes follow the announcement")]
    Trailing,
}

impl Reach {
    /// The entries, as they are announced. Beyond [`MAX_ENTRIES`] the longest prefixes are left out: what is asked for although
    /// it is denied is denied then.
    pub fn encode(&self) -> Vec<u8> {
        let of = |ranges: &Ranges, kind: u8| -> Vec<_> {
            ranges
                .entries
                .iter()
                .map(|(prefix, allowed)| (*prefix, kind + if *allowed { IS_ALLOWED } else { 0 }))
                .collect()
        };
        let mut entries = of(&self.sources, 0);
        entries.extend(of(&self.destinations, IS_DESTINATION));
        entries.sort_by_key(|(prefix, _)| prefix.prefix_len());
        let mut bytes = Vec::new();
        for (prefix, flags) in entries.into_iter().take(MAX_ENTRIES) {
            match prefix {
                IpNet::V4(net) => {
                    bytes.extend([flags, net.prefix_len()]);
                    bytes.extend(net.addr().octets());
                }
                IpNet::V6(net) => {
                    bytes.extend([flags + IS_IPV6, net.prefix_len()]);
                    bytes.extend(net.addr().octets());
                }
            }
        }
        bytes
    }

    /// The announcement as it goes over a stream.
    pub fn announcement(&self) -> Vec<u8> {
        let entries = self.encode();
        let length = u16::try_from(entries.len()).expect("the longest has fewer bytes");
        let mut bytes = vec![ANNOUNCEMENT];
        bytes.extend(length.to_be_bytes());
        bytes.extend(entries);
        bytes
    }

    /// What the entries `bytes` say.
    ///
    /// # Errors
    /// If they are too many, or one of them is none.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, ReachError> {
        if bytes.len() > LONGEST {
            return Err(ReachError::Length(bytes.len()));
        }
        let (mut sources, mut destinations) = (Vec::new(), Vec::new());
        while let [flags, length, rest @ ..] = bytes {
            if *flags > IS_ALLOWED + IS_DESTINATION + IS_IPV6 {
                return Err(ReachError::Entry);
            }
            let (address, rest) = if flags & IS_IPV6 == 0 {
                let (octets, rest) = rest.split_first_chunk::<4>().ok_or(ReachError::Entry)?;
                (IpAddr::from(Ipv4Addr::from(*octets)), rest)
            } else {
                let (octets, rest) = rest.split_first_chunk::<16>().ok_or(ReachError::Entry)?;
                (IpAddr::from(Ipv6Addr::from(*octets)), rest)
            };
            let prefix = IpNet::new(address, *length).map_err(|_| ReachError::Entry)?;
            let kind = if flags & IS_DESTINATION == 0 { &mut sources } else { &mut destinations };
            kind.push((prefix, flags & IS_ALLOWED != 0));
            bytes = rest;
        }
        if !bytes.is_empty() || sources.len() + destinations.len() > MAX_ENTRIES {
            return Err(ReachError::Entry);
        }
        Ok(Self { sources: Ranges::new(sources), destinations: Ranges::new(destinations) })
    }
}

/// Collects an announcement that arrives in pieces. Holds at most [`LONGEST`] bytes and three more, whatever comes.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on in `input`. Returns what is announced once that is complete.
    ///
    /// # Errors
    /// If it is no announcement.
    pub fn push(&mut self, input: &[u8]) -> Result<Option<Reach>, ReachError> {
        const HEAD: usize = 3;
        for byte in input {
            let length = self.length();
            if length.is_some_and(|length| self.bytes.len() == HEAD + length) {
                return Err(ReachError::Trailing);
            }
            self.bytes.push(*byte);
            match self.length() {
                Some(length) if length > LONGEST => return Err(ReachError::Length(length)),
                _ => {}
            }
        }
        match self.length() {
            Some(length) if self.bytes.len() == HEAD + length => Reach::decode(&self.bytes[HEAD..]).map(Some),
            _ => Ok(None),
        }
    }

    /// The length that it says, once that has arrived.
    fn length(&self) -> Option<usize> {
        match *self.bytes {
            [_, high, low, ..] => Some(usize::from(u16::from_be_bytes([high, low]))),
            _ => None,
        }
    }
}

/// The addresses that lie in both of two lists, each of disjoint prefixes: disjoint prefixes, in order.
pub fn intersection(one: &[IpNet], other: &[IpNet]) -> Vec<IpNet> {
    let sorted = |list: &[IpNet]| {
        let mut list = list.to_vec();
        list.sort_unstable_by_key(|net| (net.network(), net.prefix_len()));
        list
    };
    let (one, other) = (sorted(one), sorted(other));
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        if a.contains(*b) {
            both.push(**b);
            other.next();
        } else if b.contains(*a) {
            both.push(**a);
            one.next();
        } else if a.network() < b.network() {
            one.next();
        } else {
            other.next();
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn example() -> Reach {
        Reach {
            sources: Ranges::new([(net("10.1.0.0/16"), true)]),
            destinations: Ranges::new([
                (net("0.0.0.0/0"), true),
                (net("10.0.0.0/8"), false),
                (net("10.92.0.0/16"), true),
                (net("2000::/3"), true),
                (net("2001:db8::5/128"), false),
            ]),
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let ranges = example().destinations;
        for (address, is_permitted) in [
            ("9.9.9.9", true),
            ("10.1.1.1", false),
            ("10.92.3.4", true),
            ("2001:db8::4", true),
            ("2001:db8::5", false),
            ("fd00::1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ranges.permit(address), is_permitted, "{address}");
            assert_eq!(ranges.prefixes().iter().any(|net| net.contains(&address)), is_permitted, "{address}");
        }
        assert!(
            Ranges::new([(net("10.0.0.1/32"), false), (net("10.0.0.1/32"), true)]).permit("10.0.0.1".parse().unwrap())
        );
    }

    #[test]
    fn an_announcement_is_read_in_any_pieces() {
        let bytes = example().announcement();
        assert_eq!(bytes[..9], [2, 0, 60, 3, 0, 0, 0, 0, 0]);
        for cut in 0..bytes.len() {
            let mut reader = Reader::new();
            assert_eq!(reader.push(&bytes[..cut]), Ok(None));
            assert_eq!(reader.push(&bytes[cut..]), Ok(Some(example())));
            assert_eq!(reader.push(&[0]), Err(ReachError::Trailing));
        }
    }

    #[test]
    fn what_is_no_announcement_is_refused_and_bounded() {
        assert_eq!(Reader::new().push(&[2, 255, 255]), Err(ReachError::Length(65_535)));
        for entry in [
            &[8, 0, 0, 0, 0, 0][..],
            &[1, 33, 0, 0, 0, 0],
            &[5, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 8, 10],
            &[1],
        ] {
            assert_eq!(Reach::decode(entry), Err(ReachError::Entry), "{entry:?}");
        }
        let many = (0..=u16::MAX).map(|n| (IpNet::from(IpAddr::from([10, 0, (n >> 8) as u8, n as u8])), true));
        let reach = Reach { sources: Ranges::new([(net("0.0.0.0/0"), true)]), destinations: Ranges::new(many) };
        let told = Reach::decode(&reach.encode()).unwrap();
        assert_eq!(told.sources, reach.sources, "short prefixes are told first");
        assert_eq!(told.destinations.entries.len(), MAX_ENTRIES - 1);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_neither_panic_nor_pile_up(input: Vec<u8>) {
            let _ = Reach::decode(&input);
            let mut reader = Reader::new();
            for piece in input.chunks(7) {
                if reader.push(piece).is_err() {
                    break;
                }
                prop_assert!(reader.bytes.len() <= LONGEST + 3);
            }
        }

        #[test]
        fn intersections_hold_what_both_hold(lists in prop::collection::vec(prop::collection::vec((any::<u32>(), 0u8..=32), 0..8), 2..=2), probes: [u32; 16]) {
            let nets = |list: &Vec<(u32, u8)>| {
                IpNet::aggregate(&list.iter().map(|(a, l)| IpNet::new((Ipv4Addr::from(*a)).into(), *l).unwrap().trunc()).collect())
            };
            let (one, other) = (nets(&lists[0]), nets(&lists[1]));
            let both = intersection(&one, &other);
            let edges = lists.iter().flatten().flat_map(|(a, _)| [*a, a.wrapping_add(1), a.wrapping_sub(1)]);
            for probe in probes.into_iter().chain(edges) {
                let ip = IpAddr::from(Ipv4Addr::from(probe));
                let holds = |list: &[IpNet]| list.iter().any(|net| net.contains(&ip));
                prop_assert_eq!(holds(&both), holds(&one) && holds(&other));
            }
        }
    }
}
