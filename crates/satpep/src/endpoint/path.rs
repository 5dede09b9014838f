//! Path validation (RFC 9000, section 8.2) and migration (section 9). A datagram from a new address proves that someone sent it from there, not that the peer is there:
//! a challenge goes to the new address, and data goes on to the old one until the peer has answered. An address that has not answered is never sent more than three times what came from it.

use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};
use units::{Duration, Instant};

/// Where a datagram goes, and the address of this host that it leaves from, if the host does not choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
}

/// Addresses from which a peer's newest datagrams came, and which it has not answered from.
#[derive(Default)]
pub(super) struct Candidates {
    all: SmallVec<[Candidate; 1]>,
    /// Where the peer was before it seemed to move to where it is known to be now: an observer who is faster than the path can have
    /// brought that about, and packets from both come then.
    left: Option<SocketAddr>,
}

struct Candidate {
    way: Way,
    /// What the challenge says and the answer repeats.
    token: u64,
    /// UDP payload from there and to there.
    received: u64,
    sent: u64,
    challenges: u32,
    is_challenged: bool,
    /// When the next challenge is due.
    due: Instant,
}

impl Candidate {
    /// Whether `size` bytes more may be sent there, in which case they count.
    fn may_be_sent(&mut self, size: usize) -> bool {
        let sent = self.sent + size as u64;
        let may = sent <= Candidates::AMPLIFICATION * self.received;
        self.sent = if may { sent } else { self.sent };
        may
    }
}

impl Candidates {
    /// Addresses that are challenged at once; a newer one makes the oldest way.
    pub(super) const MAX: usize = 4;
    /// Challenges to one address, each after twice the time of the one before.
    pub(super) const CHALLENGES: u32 = 5;
    /// How often as much may be sent as was received (RFC 9000, section 8.1).
    pub(super) const AMPLIFICATION: u64 = 3;

    /// The peer's newest datagram, of `size` bytes, came from where `way` leads, which is not where it is known to be.
    pub(super) fn on_newest(&mut self, now: Instant, way: Way, size: usize, token: impl FnOnce() -> u64) {
        match self.all.iter_mut().find(|candidate| candidate.way.to == way.to) {
            Some(candidate) => {
                candidate.way = way;
                candidate.received += size as u64;
            }
            None => {
                if self.all.len() == Self::MAX {
                    let oldest = self.all.iter().position(|candidate| Some(candidate.way.to) != self.left);
                    self.all.remove(oldest.unwrap_or(0));
                }
                let token = token();
                self.all.push(Candidate {
                    way,
                    token,
                    received: size as u64,
                    sent: 0,
                    challenges: 0,
                    is_challenged: false,
                    due: now,
                });
            }
        }
    }

    /// The peer's newest datagram came from where it is known to be. The address that it left may still answer.
    pub(super) fn on_known(&mut self) {
        let left = self.left;
        self.all.retain(|candidate| Some(candidate.way.to) == left);
    }

    /// The session ended.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A challenge of `size` bytes that is due: where to, and its token. `timeout` is how long an answer may take.
    pub(super) fn poll(&mut self, now: Instant, size: usize, timeout: Duration) -> Option<(Way, u64)> {
        self.all.retain(|candidate| candidate.challenges < Self::CHALLENGES || candidate.due > now);
        self.all.iter_mut().filter(|candidate| candidate.due <= now).find_map(|candidate| {
            candidate.due = now + timeout * (1 << candidate.challenges);
            candidate.challenges += 1;
            let tells = candidate.may_be_sent(size);
            candidate.is_challenged |= tells;
            tells.then_some((candidate.way, candidate.token))
        })
    }

    /// Whether a datagram of `size` bytes from `address` may be answered with one of that size; the answer counts.
    pub(super) fn may_answer(&mut self, address: SocketAddr, size: usize) -> bool {
        self.all.iter_mut().find(|candidate| candidate.way.to == address).is_none_or(|it| it.may_be_sent(size))
    }

    /// When [`Candidates::poll`] has something to do.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.all.iter().map(|candidate| candidate.due).min()
    }

    /// PATH_RESPONSE brought `token`: the address that was challenged with it, which is the peer's from now on, and not `known`. Who
    /// returns to where it was is not spared where it comes from: an observer would have the session every other time.
    pub(super) fn on_response(&mut self, token: u64, known: Option<SocketAddr>) -> Option<Way> {
        let way = self.all.iter().find(|candidate| candidate.token == token && candidate.is_challenged)?.way;
        self.all.clear();
        self.left = if self.left == Some(way.to) { None } else { known };
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 34;
    const TIMEOUT: Duration = Duration::from_millis(600);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([203, 0, 113, 1], port))
    }

    fn way(port: u16) -> Way {
        Way { to: address(port), from: Some([198, 51, 100, 1].into()) }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn an_address_is_validated_by_its_own_token() {
        let mut candidates = Candidates::default();
        candidates.on_newest(at(0), way(1), 100, || 7);
        assert_eq!(candidates.on_response(7, None), None, "it has not been challenged yet");
        assert_eq!(candidates.poll(at(0), SIZE, TIMEOUT), Some((way(1), 7)));
        assert_eq!(candidates.on_response(8, None), None);
        assert_eq!(candidates.on_response(7, None), Some(way(1)));
        assert_eq!(candidates.on_response(7, None), None, "once");
        assert_eq!(candidates.next_timeout(), None);
    }

    #[test]
    fn the_address_that_the_peer_left_may_answer_until_it_has_returned() {
        let mut candidates = Candidates::default();
        let answer = |candidates: &mut Candidates, port: u16, known: u16| {
            candidates.on_newest(at(0), way(port), 100, || port.into());
            let _ = candidates.poll(at(0), SIZE, TIMEOUT);
            candidates.on_known();
            candidates.on_response(port.into(), Some(address(known)))
        };
        assert_eq!(answer(&mut candidates, 2, 1), None, "it has not been there");
        candidates.on_newest(at(0), way(2), 100, || 2);
        assert!(candidates.poll(at(0), SIZE, TIMEOUT).is_some());
        assert_eq!(candidates.on_response(2, Some(address(1))), Some(way(2)));
        assert_eq!(answer(&mut candidates, 1, 2), Some(way(1)));
        assert_eq!(answer(&mut candidates, 2, 1), None, "it has returned");
    }

    #[test]
    fn challenges_are_few_spaced_and_never_amplify() {
        let mut candidates = Candidates::default();
        candidates.on_newest(at(0), way(1), 26, || 7);
        let mut sent = 0;
        for millis in 0..100_000 {
            sent += candidates.poll(at(millis), SIZE, TIMEOUT).map_or(0, |_| SIZE);
        }
        assert_eq!(sent, 2 * SIZE, "two fit into three times what came");
        assert_eq!(candidates.next_timeout(), None);
        candidates.on_newest(at(200_000), way(1), 1400, || 8);
        let times: Vec<u64> =
            (200_000..300_000).filter(|millis| candidates.poll(at(*millis), SIZE, TIMEOUT).is_some()).collect();
        assert_eq!(times, [0, 600, 1800, 4200, 9000].map(|after| 200_000 + after));
    }

    #[test]
    fn answers_count_with_the_challenges() {
        let mut candidates = Candidates::default();
        candidates.on_newest(at(0), way(1), SIZE, || 7);
        assert!(candidates.may_answer(address(1), SIZE));
        let challenges = (0..100_000).filter(|millis| candidates.poll(at(*millis), SIZE, TIMEOUT).is_some()).count();
        assert_eq!(challenges, 2);
        candidates.on_newest(at(200_000), way(2), SIZE - 1, || 7);
        assert!((0..4).map(|_| candidates.may_answer(address(2), SIZE)).eq([true, true, false, false]));
        assert!(candidates.may_answer(address(3), SIZE), "nothing else goes there");
    }

    #[test]
    fn many_addresses_cost_no_more_than_a_few() {
        let mut candidates = Candidates::default();
        (0..1000).for_each(|port| candidates.on_newest(at(0), way(port), 100, || u64::from(port)));
        let challenged: Vec<_> = std::iter::from_fn(|| candidates.poll(at(0), SIZE, TIMEOUT)).collect();
        assert_eq!(challenged.len(), Candidates::MAX);
        assert_eq!(candidates.on_response(999, None), Some(way(999)));
    }
}
