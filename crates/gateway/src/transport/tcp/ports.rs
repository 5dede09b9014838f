//! Which of this host's ports connections across the satellite come from.
//!
//! A port stays taken for a minute after its connection has ended (TIME-WAIT, RFC 9293). The kernel looks for a free one from
//! a place at random on, and where most are taken, that takes longer than all else that a connection costs: a gateway that
//! makes hundreds of connections a second stands still then. Here they go in turn: the next one has been left alone for
//! longest.

/// The ports of this host that go in turn.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    first: u16,
    count: u16,
    next: u16,
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
        Self { first, count, next: (random % u64::from(count)) as u16 }
    }

    /// The next one.
    pub(super) fn take(&mut self) -> u16 {
        self.next = (self.next + 1) % self.count;
        self.first + self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_of_the_range_go_in_turn() {
        for (range, least, most) in [("32768\t60999", 32_768, 60_999), ("1 65535", 1, 65_535), ("9", 32_768, 60_999)] {
            let mut ports = Ports::new(range, 1 << 40 | 77);
            let all: BTreeSet<_> = (least..most).map(|_| ports.take()).collect();
            assert_eq!(all.len(), usize::from(most - least), "none twice before all were taken");
            assert!(all.iter().all(|port| (least..=most).contains(port)));
        }
    }
}
