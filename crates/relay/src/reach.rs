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
use std::sync::{Arc, OnceLock};
use units::{Duration, Instant};

/// First byte of a stream that carries an announcement, and no connection.
pub const ANNOUNCEMENT: u8 = 2;
/// The most entries of an announcement.
pub const MAX_ENTRIES: usize = 1024;
/// Length of the longest announcement's entries.
pub const LONGEST: usize = MAX_ENTRIES * 18;

/// The most disjoint prefixes that its sources, or its destinations, may come to: each is an entry of a packet filter. A hole of one IPv6
/// address makes up to 128 of one prefix.
pub const MAX_PREFIXES: usize = 32_768;
/// How long an announcement counts at least: what follows from it is worked out for all peers, and put into the packet filter.
const CHANGE_PERIOD: Duration = Duration::from_secs(1);
/// The same for a peer whose announcements follow one another.
const LONGEST_CHANGE_PERIOD: Duration = Duration::from_secs(60);
/// After so long without a change the next ones no longer follow it.
const QUIET: Duration = Duration::from_secs(120);

const IS_ALLOWED: u8 = 1;
const IS_DESTINATION: u8 = 2;
const IS_IPV6: u8 = 4;

/// Prefixes of which each is allowed or denied; the longest that contains an address decides.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// Longest first, each once.
    entries: Vec<(IpNet, bool)>,
    /// What follows from them, once it was asked for.
    prefixes: OnceLock<Arc<[IpNet]>>,
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Ranges {}

impl Ranges {
    /// Those of `entries`, whose host bits are ignored: of equal prefixes, one that is allowed counts.
    pub fn new(entries: impl IntoIterator<Item = (IpNet, bool)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(prefix, allowed)| (prefix.trunc(), allowed)).collect();
        entries.sort_unstable_by_key(|(prefix, allowed)| (std::cmp::Reverse(prefix.prefix_len()), *prefix, !allowed));
        entries.dedup_by_key(|(prefix, _)| *prefix);
        Self { entries, prefixes: OnceLock::new() }
    }

    /// The same without the denied prefixes that say nothing: nothing that is allowed surrounds them.
    pub fn concise(entries: impl IntoIterator<Item = (IpNet, bool)>) -> Self {
        let Self { entries, prefixes } = Self::new(entries);
        let says_something = |at: usize, (prefix, allowed): (IpNet, bool)| {
            let around = || entries[at + 1..].iter().find(|(around, _)| around.contains(&prefix));
            allowed || around().is_some_and(|(_, is_allowed)| *is_allowed)
        };
        let kept = entries.iter().enumerate().filter(|(at, entry)| says_something(*at, **entry));
        Self { entries: kept.map(|(_, entry)| *entry).collect(), prefixes }
    }

    /// Whether `address` may be used.
    pub fn permit(&self, address: IpAddr) -> bool {
        self.entries.iter().find(|(prefix, _)| prefix.contains(&address)).is_some_and(|(_, allowed)| *allowed)
    }

    /// The prefixes that are allowed, the longest first.
    pub fn allowed(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.entries.iter().filter(|(_, allowed)| *allowed).map(|(prefix, _)| *prefix)
    }

    /// Disjoint prefixes, in order, that hold exactly the addresses that may be used.
    pub fn prefixes(&self) -> &[IpNet] {
        self.prefixes.get_or_init(|| most_specific(&self.entries, |allowed| *allowed).into())
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
    /// It comes to more prefixes than a packet filter is to have.
    #[error("the announcement comes to {0} prefixes, more than {MAX_PREFIXES}")]
    Prefixes(usize),
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

/// What a peer has announced. Of announcements that follow one another within a second, the last counts when that is over; while changes go
/// on, the time doubles with each that counts, up to a minute. After two quiet minutes it is a second again.
#[derive(Debug, Clone, Default)]
pub struct Announced {
    reach: Option<Reach>,
    /// The one that is to count.
    waiting: Option<Reach>,
    /// When the latest change counted, and how long it counts at least.
    latest: Option<(Instant, Duration)>,
    /// What counted of the process before.
    former: Option<Reach>,
}

impl Announced {
    /// What counts, if the peer has announced anything.
    pub fn reach(&self) -> Option<&Reach> {
        self.reach.as_ref()
    }

    /// The peer announces `reach`. Returns whether something else counts now than before.
    ///
    /// # Errors
    /// If it comes to more than [`MAX_PREFIXES`]: what counted before goes on to count.
    pub fn hear(&mut self, now: Instant, reach: Reach) -> Result<bool, ReachError> {
        self.waiting = Some(reach);
        self.apply(now)
    }

    /// Whether an announcement is to count later.
    pub fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Has an announcement count that has waited long enough. Returns whether something else counts now than before.
    ///
    /// # Errors
    /// As for [`Announced::hear`].
    pub fn apply(&mut self, now: Instant) -> Result<bool, ReachError> {
        // That it takes nothing now costs nothing to work out, and must not wait.
        let is_nothing = self.waiting.as_ref().is_some_and(|reach| *reach == Reach::default());
        // A peer that has restarted and announces what it did before changes nothing.
        let is_former = self.waiting.is_some() && self.waiting == self.former;
        let least = |period| if is_former { CHANGE_PERIOD } else { period };
        if !is_nothing && self.latest.is_some_and(|(at, period)| now < at + least(period)) {
            return Ok(false);
        }
        let Some(reach) = self.waiting.take().filter(|reach| self.reach.as_ref() != Some(reach)) else {
            return Ok(false);
        };
        if !is_nothing {
            self.latest = Some((now, self.next_period(now, is_former)));
        }
        let most = reach.sources.prefixes().len().max(reach.destinations.prefixes().len());
        if most > MAX_PREFIXES {
            return Err(ReachError::Prefixes(most));
        }
        self.reach = Some(reach);
        Ok(true)
    }

    /// How long a change at `now` counts at least. One back to what the process before announced is no further step.
    fn next_period(&self, now: Instant, is_former: bool) -> Duration {
        match self.latest {
            Some((at, period)) if now < at + QUIET => {
                if is_former {
                    period
                } else {
                    (period * 2).min(LONGEST_CHANGE_PERIOD)
                }
            }
            _ => CHANGE_PERIOD,
        }
    }

    /// The peer is another process, which has announced nothing. What that announces counts no sooner: a peer can begin sessions often.
    pub fn forget(&mut self) {
        self.waiting = None;
        if let Some(reach) = self.reach.take() {
            self.former = Some(reach);
        }
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

    #[test]
    fn an_announcement_of_too_many_prefixes_is_refused() {
        let holes = |count: u16| {
            let hole = |n: u16| (net(&format!("{:x}:{n:x}::1/128", 0x2000 + (n >> 4))), false);
            let destinations = Ranges::new((0..count).map(hole).chain([(net("2000::/3"), true)]));
            Announced::default().hear(Instant::ZERO, Reach { sources: Ranges::default(), destinations })
        };
        assert_eq!(holes(200), Ok(true));
        assert!(matches!(holes(600), Err(ReachError::Prefixes(MAX_PREFIXES..))));
    }

    #[test]
    fn of_announcements_within_a_second_the_last_counts() {
        let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
        let one = example();
        let other = Reach { sources: one.destinations.clone(), destinations: one.sources.clone() };
        let mut announced = Announced::default();
        assert_eq!(announced.hear(at(0), one.clone()), Ok(true), "the first one counts at once");
        for milliseconds in 1..500 {
            let next = if milliseconds % 2 == 0 { &one } else { &other };
            assert_eq!(announced.hear(at(milliseconds), next.clone()), Ok(false));
        }
        assert!(announced.waits());
        assert_eq!((announced.apply(at(999)), announced.apply(at(1000))), (Ok(false), Ok(true)));
        assert_eq!(announced.reach(), Some(&other));
        assert_eq!((announced.waits(), announced.apply(at(5000))), (false, Ok(false)));
        announced.forget();
        assert_eq!(announced.reach(), None);
    }

    #[test]
    fn that_a_peer_takes_nothing_now_counts_at_once() {
        let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
        let (one, none) = (example(), Reach::default());
        let mut announced = Announced::default();
        assert_eq!(announced.hear(at(0), one.clone()), Ok(true));
        assert_eq!(announced.hear(at(1), none.clone()), Ok(true));
        assert_eq!(announced.hear(at(2), one.clone()), Ok(false), "there is time to take connections again");
        assert_eq!(announced.hear(at(3), none.clone()), Ok(false), "it is what counts");
        assert_eq!((announced.waits(), announced.reach()), (false, Some(&none)));
        // Another process of the peer's has no more announcements count.
        announced.forget();
        assert_eq!((announced.hear(at(4), one), announced.reach()), (Ok(false), None));
        assert_eq!((announced.apply(at(1003)), announced.apply(at(1004))), (Ok(true), Ok(false)));
    }

    /// Each of `changes` announces something else than the one before it. When those count that do, in seconds; what waits is applied each
    /// second until `end`.
    fn counted(announced: &mut Announced, changes: impl Fn(u64) -> bool, end: u64) -> Vec<u64> {
        let another = |second: u64| {
            let host = IpNet::from(IpAddr::from(Ipv4Addr::from_bits(second as u32)));
            Reach { sources: Ranges::default(), destinations: Ranges::new([(host, true)]) }
        };
        let count = |second: &u64| {
            let now = Instant::ZERO + Duration::from_secs(*second);
            if changes(*second) { announced.hear(now, another(*second)) } else { announced.apply(now) }.unwrap()
        };
        (0..end).filter(count).collect()
    }

    #[test]
    fn changes_that_follow_one_another_count_less_and_less_often() {
        let mut announced = Announced::default();
        assert_eq!(counted(&mut announced, |_| true, 250), [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        // Nor does another session, in which it announces once in a while.
        let mut announced = Announced::default();
        assert_eq!(counted(&mut announced, |_| true, 100).len(), 7);
        announced.forget();
        let of_session = |second| second >= 100 && second % 30 == 0;
        assert_eq!(counted(&mut announced, of_session, 400), [123, 183, 243, 303, 363]);
    }

    #[test]
    fn a_change_after_a_quiet_time_counts_at_once_and_so_does_one_after_a_second() {
        let mut announced = Announced::default();
        assert_eq!(counted(&mut announced, |second| second < 100, 130), [0, 1, 3, 7, 15, 31, 63, 123]);
        assert_eq!(counted(&mut announced, |second| matches!(second, 243 | 244), 250), [243, 244]);
        let seldom = |second: u64| second.is_multiple_of(200);
        assert_eq!(counted(&mut Announced::default(), seldom, 1000), [0, 200, 400, 600, 800]);
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
