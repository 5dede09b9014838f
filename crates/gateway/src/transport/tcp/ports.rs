//! Which of this host's ports connections across the satellite come from.
//!
//! A port stays taken for a minute after its connection has ended (TIME-WAIT, RFC 9293). The kernel looks for a free one from
//! a place at random on, and where most are taken, that takes longer than all else that a connection costs: a gateway that
//! makes hundreds of connections a second stands still then. Here they go in turn: the next one has been left alone for
//! longest.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// One part in so many of the range is left to other programs of this host, for which the kernel chooses.
const LEFT_TO_OTHERS: usize = 8;

/// The ports of this host that go in turn.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    ports: Vec<u16>,
    next: usize,
    /// Those that connections of this process have, and where these lead to: thousands that were made in a row may last.
    live: HashSet<(SocketAddr, u16)>,
}

impl Ports {
    /// Those of `range`, the value of `net.ipv4.ip_local_port_range`, that are not in `reserved`, the value of
    /// `net.ipv4.ip_local_reserved_ports`, beginning at a place that `random` chooses.
    pub(super) fn new(range: &str, reserved: &str, random: u64) -> Self {
        const USUAL: (u16, u16) = (32_768, 60_999);
        let mut words = range.split_whitespace().map(|word| word.parse::<u16>().ok());
        let (first, last) = match (words.next().flatten(), words.next().flatten()) {
            (Some(first), Some(last)) if 0 < first && first < last => (first, last),
            _ => USUAL,
        };
        let reserved: Vec<_> = reserved.split(',').filter_map(parse_reserved).collect();
        let is_reserved = |port: &u16| reserved.iter().any(|ports| ports.contains(port));
        let mut ports: Vec<u16> = (first..=last).filter(|port| !is_reserved(port)).collect();
        ports.truncate(ports.len() - ports.len() / LEFT_TO_OTHERS);
        let next = (random % (ports.len() as u64).max(1)) as usize;
        Self { ports, next, live: HashSet::new() }
    }

    /// The next one from which this process has no connection to `address`.
    pub(super) fn take(&mut self, address: SocketAddr) -> Option<u16> {
        (0..self.ports.len()).find_map(|_| {
            self.next = (self.next + 1) % self.ports.len();
            let port = self.ports[self.next];
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

/// One port, or several: `8080` or `9000-9009`.
fn parse_reserved(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn gateway(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 4500))
    }

    #[test]
    fn ports_of_the_range_go_in_turn_but_for_an_eighth() {
        for (range, least, most) in [("32768\t60999", 32_768, 60_999), ("1 65535", 1, 65_535), ("9", 32_768, 60_999)] {
            let mut ports = Ports::new(range, "", 1 << 40 | 77);
            let count = usize::from(most - least) + 1;
            let used = count - count / 8;
            let all: BTreeSet<_> = (0..used).filter_map(|_| ports.take(gateway(1))).collect();
            assert_eq!(all.len(), used, "none twice before all were taken");
            assert!(all.iter().all(|port| (least..=most).contains(port)));
            assert!(all.contains(&ports.take(gateway(1)).unwrap()));
        }
    }

    #[test]
    fn reserved_ports_are_left_alone() {
        let mut ports = Ports::new("1000 1019", "80,1001,1003-1009\n", 0);
        let all: BTreeSet<_> = (0..100).filter_map(|_| ports.take(gateway(1))).collect();
        assert_eq!(all, BTreeSet::from([1000, 1002, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017, 1018]));
        assert_eq!(Ports::new("1000 1001", "1000-1001", 7).take(gateway(1)), None);
    }

    #[test]
    fn ports_of_live_connections_to_the_same_gateway_are_passed_over() {
        let mut ports = Ports::new("1000 1100", "", 0);
        for _ in 0..89 {
            let port = ports.take(gateway(1)).unwrap();
            ports.keep(gateway(1), port);
        }
        assert_eq!(ports.take(gateway(1)), None, "all are used up");
        assert!(ports.take(gateway(2)).is_some());
        ports.give_back(gateway(1), 1077);
        assert_eq!(ports.take(gateway(1)), Some(1077));
    }
}
