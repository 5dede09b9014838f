//! Path-MTU discovery by probing (DPLPMTUD, RFC 8899): packets are never fragmented.
//!
//! The first handshake of a session is padded to the largest packet, so its success proves that the path carries it, and
//! costs no time. Where it does not, an attempt without padding succeeds, and a search begins with two probes at once: of
//! the largest size, and of the least that counts. What arrives of them is the first size in use, one round trip later. From
//! there on the search goes up. On a thin link nothing is padded, and the least size is proven alone, and first: the two
//! together would take it seconds.

use crate::packet_number::PacketNumber;
use smallvec::SmallVec;
use units::{Duration, Instant};

/// The size of IP packet that almost every path carries: IPv6's minimum (RFC 8200, section 5), and RFC 8899's BASE_PLPMTU
/// with room for tunnels.
pub(crate) const BASE: u16 = 1280;
/// The least size of IP packet that sessions work with: what every host takes in over IPv4 (RFC 1122, section 3.3.3).
pub(crate) const MIN: u16 = 576;

/// The least size of IP packet to or from an address that sessions work with.
pub(crate) fn least(to: &std::net::SocketAddr) -> u16 {
    if to.ip().to_canonical().is_ipv4() { MIN } else { BASE }
}

/// Searches for the largest packet that the path carries, from a least size to the configured maximum.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    least: u16,
    max: u16,
    /// The maximum that is configured, which may be below what the path has to carry.
    configured: u16,
    /// Whether a packet of the largest size takes the link long.
    thin: bool,
    /// The largest size known to arrive; the least while none is.
    current: u16,
    /// Whether a packet of that size has arrived.
    proven: bool,
    /// Sizes from here on are taken not to arrive.
    too_big: u16,
    /// The probes that a search begins with, still to be sent: the smaller last.
    first: SmallVec<[u16; 2]>,
    /// Probes of the least size that were lost, none having arrived.
    least_lost: u8,
    probe: Probe,
    losses: LossesInARow,
}

/// Packets that may have been lost because the path has shrunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspicion {
    /// The first that was lost.
    pub(crate) first: PacketNumber,
    /// The size of the smallest of them.
    pub(crate) smallest: u16,
}

/// Packets lost since the newest that was acknowledged was sent.
#[derive(Debug, Default)]
struct LossesInARow {
    count: u32,
    /// The first of them.
    first: PacketNumber,
    /// The size of the smallest of them: what is smaller yet may pass where they did not.
    smallest: u16,
    newest_acknowledged: PacketNumber,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// One may be sent from this time on.
    At(Instant),
    InFlight {
        size: u16,
        failures: u8,
    },
    Retry {
        size: u16,
        failures: u8,
    },
}

impl MtuSearch {
    /// Lost probes after which a size is taken not to arrive (RFC 8899's MAX_PROBES).
    pub(crate) const MAX_PROBES: u8 = 3;
    /// Time after which a finished search starts again (RFC 8899's PMTU_RAISE_TIMER).
    pub(crate) const RAISE_AFTER: Duration = Duration::from_secs(600);
    /// Between attempts on a path that carries not even the least size.
    pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(5);
    /// The search ends within this many bytes.
    pub(crate) const PRECISION: u16 = 8;
    /// So many losses in a row are taken for a black hole: at 10 % random loss one in 10^10.
    pub(crate) const BLACK_HOLE: u32 = 10;

    /// A search from packets of `least` to packets of `max` bytes, to begin at once, on a link that is `thin` or not.
    pub(crate) fn new(least: u16, max: u16, thin: bool, now: Instant) -> Self {
        let configured = max;
        let max = max.clamp(least, u16::MAX - 1);
        let mut search = Self {
            least,
            max,
            configured,
            thin,
            current: least,
            proven: false,
            too_big: max + 1,
            first: SmallVec::new(),
            least_lost: 0,
            probe: Probe::At(now),
            losses: LossesInARow::default(),
        };
        search.begin();
        search
    }

    /// Has the first probes sent, but for those known to be too big.
    fn begin(&mut self) {
        let sizes = if self.thin { &[self.least][..] } else { &[self.max, self.least] };
        self.first = sizes.iter().copied().filter(|size| *size < self.too_big).collect();
        self.first.dedup();
    }

    /// A new search on another path, from packets of `least` bytes on.
    pub(crate) fn restart(&mut self, least: u16, now: Instant) {
        *self = Self::new(least, self.configured, self.thin, now);
    }

    /// The largest IP packet to send.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Whether a packet of the size in use has arrived.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven
    }

    /// Whether the path does not carry even the least size, as far as one can tell.
    pub(crate) fn is_below_least(&self) -> bool {
        !self.proven && self.least_lost >= Self::MAX_PROBES
    }

    /// When the next probe may be sent, if one may.
    #[inline]
    pub(crate) fn next_probe_at(&self) -> Option<Instant> {
        match self.probe {
            Probe::At(at) if !self.first.is_empty() => Some(at),
            Probe::At(at) if self.proven && self.current < self.max => Some(at),
            Probe::Retry { .. } => Some(Instant::ZERO),
            _ => None,
        }
    }

    /// The size of a probe to send now.
    pub(crate) fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        let (size, failures) = match self.probe {
            Probe::At(at) if at <= now && !self.first.is_empty() => return Some(self.first.remove(0)),
            Probe::At(at) if at <= now && self.proven && self.current < self.max => (self.candidate(), 0),
            Probe::Retry { size, failures } => (size, failures),
            _ => return None,
        };
        self.probe = Probe::InFlight { size, failures };
        Some(size)
    }

    /// What almost every path carries, and then the maximum, which most do; then halving what is left.
    fn candidate(&mut self) -> u16 {
        if (self.current + 1..self.max.min(self.too_big)).contains(&BASE) && self.current == self.least {
            BASE
        } else if self.too_big > self.max {
            self.max
        } else {
            self.current + (self.too_big - self.current) / 2
        }
    }

    pub(crate) fn on_probe_acked(&mut self, now: Instant, size: u16) {
        self.losses.count = 0;
        self.least_lost = 0;
        if size > self.max || (self.proven && size <= self.current) {
            return;
        }
        self.current = size;
        self.proven = true;
        self.too_big = self.too_big.max(size + 1);
        self.first.clear();
        self.search_on(now);
    }

    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        match self.probe {
            Probe::InFlight { size: probed, failures } if probed == size => {
                if failures + 1 < Self::MAX_PROBES {
                    self.probe = Probe::Retry { size, failures: failures + 1 };
                } else {
                    self.too_big = size;
                    self.search_on(now);
                }
            }
            // It was the last of the first probes: those before it were lost, too.
            _ if !self.proven && size == self.least => {
                self.least_lost = self.least_lost.saturating_add(1);
                let wait = if self.is_below_least() { Self::TRY_AGAIN } else { Duration::ZERO };
                self.probe = Probe::At(now + wait);
                self.begin();
            }
            _ => {}
        }
    }

    fn search_on(&mut self, now: Instant) {
        let finished = self.current == self.max || self.too_big - self.current <= Self::PRECISION;
        if finished {
            self.too_big = self.max + 1;
        }
        self.probe = Probe::At(if finished { now + Self::RAISE_AFTER } else { now });
    }

    /// Whether there is a lesser size to try than `size`.
    pub(crate) fn is_beyond_least(&self, size: u16) -> bool {
        size > self.least
    }

    /// The host itself does not take packets of `size` bytes for the path: nothing of the kind needs to be tried again.
    pub(crate) fn on_refused(&mut self, now: Instant, size: u16) {
        if !self.is_beyond_least(size) {
            return;
        }
        self.first.retain(|other| *other < size);
        if size <= self.current {
            self.restart(self.least, now);
            self.too_big = size;
            self.begin();
        } else if size < self.too_big {
            self.too_big = size;
            if self.proven {
                self.search_on(now);
            }
        }
    }

    /// The packet of data with this number was acknowledged or lost. Large ones lost in a row, and none as large acknowledged
    /// after them, mean that the path shrank; a burst of losses is over when its end is known. Returns what is suspected then.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        number: PacketNumber,
        size: u16,
        acknowledged: bool,
    ) -> Option<Suspicion> {
        if size <= self.least {
            return None;
        }
        let losses = &mut self.losses;
        if acknowledged {
            if losses.count == 0 || size >= losses.smallest {
                losses.count = 0;
                losses.newest_acknowledged = losses.newest_acknowledged.max(number);
            }
        } else if number > losses.newest_acknowledged {
            if losses.count == 0 {
                (losses.first, losses.smallest) = (number, size);
            }
            losses.smallest = losses.smallest.min(size);
            losses.count += 1;
            if losses.count >= Self::BLACK_HOLE && self.current > self.least {
                let suspicion = Suspicion { first: losses.first, smallest: losses.smallest };
                self.restart(self.least, now);
                return Some(suspicion);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    /// Runs the search over a path that carries `path` bytes; returns the result and the probes it took.
    fn search(max: u16, path: u16) -> (u16, u32) {
        let mut search = MtuSearch::new(MIN, max, false, NOW);
        let mut probes = 0;
        while let Some(size) = search.poll_probe(NOW) {
            probes += 1;
            if size <= path { search.on_probe_acked(NOW, size) } else { search.on_probe_lost(NOW, size) }
        }
        assert!(search.is_proven());
        (search.current(), probes)
    }

    /// A search that has found `size`.
    fn found(size: u16) -> MtuSearch {
        let mut search = MtuSearch::new(MIN, size, false, NOW);
        while let Some(size) = search.poll_probe(NOW) {
            search.on_probe_acked(NOW, size);
        }
        assert_eq!(search.current(), size);
        search
    }

    #[test]
    fn one_probe_suffices_where_the_path_carries_the_maximum() {
        assert_eq!(search(1500, 1500), (1500, 1));
        assert_eq!(search(1280, 1280), (1280, 1));
        assert_eq!(search(576, 576), (576, 1));
    }

    #[test]
    fn a_maximum_below_what_ipv6_needs_holds_again_over_ipv4() {
        let mut search = MtuSearch::new(MIN, 1200, false, NOW);
        search.restart(BASE, NOW);
        assert_eq!(search.poll_probe(NOW), Some(BASE));
        search.restart(MIN, NOW);
        let sizes: Vec<u16> = std::iter::from_fn(|| search.poll_probe(NOW)).collect();
        assert_eq!(sizes, [1200, MIN]);
    }

    #[test]
    fn finds_every_smaller_path_closely_and_never_exceeds_it() {
        for path in 576..1500 {
            let (found, probes) = search(1500, path);
            assert!(found <= path && found + MtuSearch::PRECISION >= path, "{found} for {path}");
            assert!(probes < 40);
        }
    }

    #[test]
    fn a_path_below_the_least_size_is_known_as_such_and_tried_again() {
        let mut search = MtuSearch::new(MIN, 1500, false, NOW);
        let mut probes = 0;
        while let Some(size) = search.poll_probe(NOW) {
            probes += 1;
            search.on_probe_lost(NOW, size);
        }
        assert!(search.is_below_least() && !search.is_proven() && probes < 12, "{probes} probes");
        let again = search.next_probe_at().expect("it is tried again");
        assert!(again > NOW);
        let size = search.poll_probe(again).expect("a probe");
        search.on_probe_acked(again, size);
        assert!(search.is_proven() && !search.is_below_least());
    }

    #[test]
    fn what_the_host_refuses_is_not_sent_again() {
        let mut search = found(1500);
        let mut sizes = Vec::new();
        search.on_refused(NOW, 1500);
        assert_eq!(search.current(), MIN);
        while let Some(size) = search.poll_probe(NOW) {
            sizes.push(size);
            if size <= 1200 { search.on_probe_acked(NOW, size) } else { search.on_refused(NOW, size) }
        }
        assert!((1192..=1200).contains(&search.current()), "{}", search.current());
        assert!(sizes.len() < 12 && sizes.iter().all(|size| *size < 1500), "{sizes:?}");
    }

    #[test]
    fn a_black_hole_falls_back_and_searches_again_but_random_loss_does_not() {
        let mut search = found(1500);
        for k in 0..200 {
            search.on_data(NOW, PacketNumber::new(k), 1500, k % 4 == 0);
        }
        // A burst, of which one hears with the first packet after it.
        search.on_data(NOW, PacketNumber::new(300), 1500, true);
        assert!((200..300).all(|k| search.on_data(NOW, PacketNumber::new(k), 1500, false).is_none()));
        assert_eq!(search.current(), 1500);
        let suspicions = (301..311).filter_map(|k| {
            let suspicion = search.on_data(NOW, PacketNumber::new(2 * k), 1500, false);
            // Small packets pass, and prove nothing.
            suspicion.or(search.on_data(NOW, PacketNumber::new(2 * k + 1), 700, true))
        });
        let expected = Suspicion { first: PacketNumber::new(602), smallest: 1500 };
        assert_eq!(suspicions.collect::<Vec<_>>(), [expected]);
        assert_eq!(search.current(), MIN);
        assert!(search.poll_probe(NOW).is_some());
    }
}
