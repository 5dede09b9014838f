//! The receiver's side of capacity estimation: ARRIVAL_REQUESTs that arrived, and the ARRIVAL_TIMEs that answer them.

use crate::packet_number::PacketNumber;
use smallvec::SmallVec;
use units::{Duration, Instant};

/// The arrival times that the next acknowledgement reports.
#[derive(Debug, Default)]
pub(crate) struct ArrivalRequests {
    /// Packets with an ARRIVAL_REQUEST, and when they arrived.
    pending: SmallVec<[(PacketNumber, Instant); Self::MAX]>,
    /// Until when each acknowledgement reports the arrival of the largest packet, too.
    until: Instant,
}

impl ArrivalRequests {
    /// Requests that wait for the next acknowledgement at most; a peer that sends more wants to fill the return path.
    pub(super) const MAX: usize = 4;
    /// How long a request keeps arrivals being reported.
    pub(super) const INTEREST: Duration = Duration::from_secs(10);

    /// A packet with an ARRIVAL_REQUEST arrived.
    pub(crate) fn on_request(&mut self, now: Instant, number: PacketNumber) {
        if self.pending.len() == Self::MAX {
            self.pending.remove(0);
        }
        self.pending.push((number, now));
        self.until = now + Self::INTEREST;
    }

    /// Takes what is reported beside an acknowledgement whose largest packet arrived as given: packet numbers, and the lowest 30 bits
    /// of the microseconds.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        largest: (PacketNumber, Instant),
    ) -> SmallVec<[(PacketNumber, u32); Self::MAX + 1]> {
        if self.until <= now {
            return SmallVec::new();
        }
        let micros = |at: Instant| ((at.as_nanos() / 1000) & ((1 << 30) - 1)) as u32;
        let others: SmallVec<[_; Self::MAX]> =
            self.pending.drain(..).filter(|(number, _)| *number != largest.0).collect();
        others.into_iter().chain([largest]).map(|(number, at)| (number, micros(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_reported_for_a_while_after_a_request_and_never_many() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut requests = ArrivalRequests::default();
        assert!(requests.take(at(1), (PacketNumber::new(3), at(1))).is_empty());
        (0..9).for_each(|number| requests.on_request(at(number), PacketNumber::new(number)));
        let reported: Vec<_> = requests.take(at(10), (PacketNumber::new(8), at(8))).into_iter().collect();
        assert_eq!(
            reported,
            [(5, 5000), (6, 6000), (7, 7000), (8, 8000)].map(|(number, micros)| (PacketNumber::new(number), micros))
        );
        assert_eq!(requests.take(at(20), (PacketNumber::new(12), at(19))).to_vec(), [(PacketNumber::new(12), 19_000)]);
        assert!(requests.take(at(10_008), (PacketNumber::new(900), at(10_000))).is_empty());
    }
}
