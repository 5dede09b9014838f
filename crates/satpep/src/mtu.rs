//! Path-MTU discovery by probing (DPLPMTUD, RFC 8899): packets are never fragmented.

use units::{Duration, Instant};

/// The size of IP packet that every path carries: IPv6's minimum (RFC 8200, section 5).
pub(crate) const BASE: u16 = 1280;

/// Searches for the largest packet that the path carries, from [`BASE`] to the configured maximum.
#[derive(Debug)]
pub(crate) struct MtuSearch {
    max: u16,
    /// The largest size known to arrive.
    current: u16,
    /// Sizes from here on are taken not to arrive.
    too_big: u16,
    probe: Probe,
    /// Datagrams larger than [`BASE`] lost since the newest that was delivered was sent, and the number of that one.
    lost_in_a_row: u32,
    newest_delivered: u64,
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
    const MAX_PROBES: u8 = 3;
    /// Time after which a finished search begins anew (RFC 8899's PMTU_RAISE_TIMER).
    const RAISE_AFTER: Duration = Duration::from_secs(600);
    /// The search ends within this many bytes.
    const PRECISION: u16 = 8;
    /// So many losses in a row are taken for a black hole: at 10 % random loss one in 10^10.
    const BLACK_HOLE: u32 = 10;

    /// A search up to packets of `max` bytes, to begin at once.
    pub(crate) fn new(max: u16, now: Instant) -> Self {
        let max = max.clamp(BASE, u16::MAX - 1);
        Self { max, current: BASE, too_big: max + 1, probe: Probe::At(now), lost_in_a_row: 0, newest_delivered: 0 }
    }

    /// The largest size that is searched for.
    pub(crate) fn max(&self) -> u16 {
        self.max
    }

    /// The largest IP packet to send.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// When the next probe may be sent, if one may.
    pub(crate) fn next_probe_at(&self) -> Option<Instant> {
        match self.probe {
            Probe::At(at) if self.current < self.max => Some(at),
            Probe::Retry { .. } => Some(Instant::ZERO),
            _ => None,
        }
    }

    /// The size of a probe to send now.
    pub(crate) fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        let (size, failures) = match self.probe {
            Probe::At(at) if at <= now && self.current < self.max => (self.candidate(), 0),
            Probe::Retry { size, failures } => (size, failures),
            _ => return None,
        };
        self.probe = Probe::InFlight { size, failures };
        Some(size)
    }

    /// The maximum first, since most paths carry it; then halving what is left.
    fn candidate(&mut self) -> u16 {
        if self.too_big > self.max { self.max } else { self.current + (self.too_big - self.current) / 2 }
    }

    pub(crate) fn on_probe_acked(&mut self, now: Instant, size: u16) {
        self.lost_in_a_row = 0;
        self.current = self.current.max(size.min(self.max));
        self.search_on(now);
    }

    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        let Probe::InFlight { size: probed, failures } = self.probe else { return };
        if probed != size {
            return;
        }
        if failures + 1 < Self::MAX_PROBES {
            self.probe = Probe::Retry { size, failures: failures + 1 };
        } else {
            self.too_big = size;
            self.search_on(now);
        }
    }

    fn search_on(&mut self, now: Instant) {
        let finished = self.current == self.max || self.too_big - self.current <= Self::PRECISION;
        if finished {
            self.too_big = self.max + 1;
        }
        self.probe = Probe::At(if finished { now + Self::RAISE_AFTER } else { now });
    }

    /// The datagram of data with this number was delivered or lost. Large ones lost in a row, and none delivered after
    /// them, mean that the path shrank; a burst of losses is over when its end is known.
    pub(crate) fn on_data(&mut self, now: Instant, number: u64, size: u16, delivered: bool) {
        if size <= BASE {
            return;
        }
        if delivered {
            self.lost_in_a_row = 0;
            self.newest_delivered = self.newest_delivered.max(number);
            return;
        }
        self.lost_in_a_row += u32::from(number > self.newest_delivered);
        if self.lost_in_a_row >= Self::BLACK_HOLE && self.current > BASE {
            *self = Self::new(self.max, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search over a path that carries `path` bytes; returns the result and the probes it took.
    fn search(max: u16, path: u16) -> (u16, u32) {
        let now = Instant::from_nanos(1);
        let mut search = MtuSearch::new(max, now);
        let mut probes = 0;
        while let Some(size) = search.poll_probe(now) {
            probes += 1;
            if size <= path { search.on_probe_acked(now, size) } else { search.on_probe_lost(now, size) }
        }
        (search.current(), probes)
    }

    #[test]
    fn one_probe_suffices_where_the_path_carries_the_maximum() {
        assert_eq!(search(1500, 1500), (1500, 1));
        assert_eq!(search(1280, 1280), (1280, 0));
    }

    #[test]
    fn finds_every_smaller_path_closely_and_never_exceeds_it() {
        for path in 1280..1500 {
            let (found, probes) = search(1500, path);
            assert!(found <= path && found + MtuSearch::PRECISION >= path, "{found} for {path}");
            assert!(probes < 40);
        }
    }

    #[test]
    fn a_black_hole_falls_back_and_searches_again_but_random_loss_does_not() {
        let now = Instant::from_nanos(1);
        let mut search = MtuSearch::new(1500, now);
        let size = search.poll_probe(now).expect("probe");
        search.on_probe_acked(now, size);
        for k in 0..200 {
            search.on_data(now, k, 1500, k % 4 == 0);
        }
        // A burst, of which one hears with the first datagram after it.
        search.on_data(now, 300, 1500, true);
        (200..300).for_each(|k| search.on_data(now, k, 1500, false));
        assert_eq!(search.current(), 1500);
        for k in 301..311 {
            search.on_data(now, k, 1500, false);
        }
        assert_eq!(search.current(), BASE);
        assert!(search.poll_probe(now).is_some());
    }
}
