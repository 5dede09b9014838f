//! Which of this host's ports connections across the satellite come from.
//!
//! A port stays taken for a minute after its connection has ended (TIME-WAIT, RFC 9293). The kernel looks for a free one from
//! a place at random on, and where most are taken, that takes longer than all else that a connection costs: a gateway that
//! makes hundreds of connections a second stands still then. Here they go in turn: the next one has been left alone for
//! longest.

use std::collections::HashSet;
use std::net::SocketAddr;

/// The ports of this host that go in turn.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    first: u16,
    count: u16,
    next: u16,
    /// Those that connections of this process have, and where these lead to: thousands that were made in a row may last.
    live: HashSet<(SocketAddr, u16)>,
}

impl Ports {
    /// Those of `range`, the value of `net.ipv4.ip_local_port_range`, beginning at a place that `random` chooses.
    pub(super) fn new(range: &str, random: u64) -> Self {
        const USUAL: (u16, u16) = (32_768, 60_999);
        let mut words = range.split_whitespace().map(|word| word.parse::<u16>().ok());
        let (first, last) = match (words.next().flatten(), words.next().flatten()) {
            (Some(first), Some(last)) if 0 < first && first < last => (first, last),
            _ => USUAL,
        };
        let count = last - first;
        Self { first, count, next: (random % u64::from(count)) as u16, live: HashSet::new() }
    }

    /// The next one from which this process has no connection to `address`.
    pub(super) fn take(&mut self, address: SocketAddr) -> Option<u16> {
        (0..self.count).find_map(|_| {
            self.next = (self.next + 1) % self.count;
            let port = self.first + self.next;
            (!self.live.contains(&(address, port))).then_some(port)
        })
    }

    /// This process has a connection to `address` from `port`.
    pub(super) fn keep(&mut self, address: SocketAddr, port: u16) {
        self.live.insert((address, port));
    }

    /// It has that no longer.
    pub(super) fn give_back(&mut self, address: SocketAddr, port: u16) {
        self.live.remove(&(address, port));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn gateway(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 4500))
    }

    #[test]
    fn ports_of_the_range_go_in_turn() {
        for (range, least, most) in [("32768\t60999", 32_768, 60_999), ("1 65535", 1, 65_535), ("9", 32_768, 60_999)] {
            let mut ports = Ports::new(range, 1 << 40 | 77);
            let all: BTreeSet<_> = (least..most).filter_map(|_| ports.take(gateway(1))).collect();
            assert_eq!(all.len(), usize::from(most - least), "none twice before all were taken");
            assert!(all.iter().all(|port| (least..=most).contains(port)));
        }
    }

    #[test]
    fn ports_of_live_connections_to_the_same_gateway_are_passed_over() {
        let mut ports = Ports::new("1000 1100", 0);
        for _ in 0..100 {
            let port = ports.take(gateway(1)).unwrap();
            ports.keep(gateway(1), port);
        }
        assert_eq!(ports.take(gateway(1)), None, "all are used up");
        assert!(ports.take(gateway(2)).is_some());
        ports.give_back(gateway(1), 1077);
        assert_eq!(ports.take(gateway(1)), Some(1077));
    }
}
