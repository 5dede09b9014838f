//! Ends of relayed connections that the other gateway has to learn of, however the path behaves.
//!
//! The reset of a connection reaches the other end in one packet, which may be lost: in an outage it is. So each such end is
//! also said on the control connection, and on the next one if that goes, until the other end has answered a probe that
//! was said behind it.

use super::control::{Ended, Message};
use std::collections::VecDeque;

/// Ends that are kept for a peer. Those beyond are left to TCP, the oldest first.
const MAX: usize = 65_536;

/// Ends that one peer has to learn of.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    /// Those that it has not confirmed, the oldest first.
    unconfirmed: VecDeque<Ended>,
    /// How many of them, from the first, have been said on the connection that there is.
    said: usize,
    /// The probe that is under way, and how many its answer confirms.
    probe: Option<(u8, usize)>,
    /// The number of the last probe. 0 is for those who ask for other reasons.
    last_probe: u8,
}

impl Notices {
    /// Nothing to say.
    pub fn new() -> Self {
        Self::default()
    }

    /// A relayed connection has ended with a reset that the peer may miss.
    pub fn push(&mut self, ended: Ended) {
        if self.unconfirmed.len() >= MAX {
            self.unconfirmed.pop_front();
            self.said = self.said.saturating_sub(1);
            self.probe = self.probe.map(|(number, count)| (number, count.saturating_sub(1)));
        }
        self.unconfirmed.push_back(ended);
    }

    /// There is another connection to say it on; what is not confirmed is said again.
    pub fn restart(&mut self) {
        (self.said, self.probe) = (0, None);
    }

    /// The peer has lost its connections itself.
    pub fn clear(&mut self) {
        *self = Self { last_probe: self.last_probe, ..Self::default() };
    }

    /// Whether [`Notices::poll_transmit`] has something to say.
    pub fn has_something_to_say(&self) -> bool {
        self.said < self.unconfirmed.len()
    }

    /// Appends what is to be said now to `out`: at most about `room` bytes.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>, room: usize) {
        let end = out.len() + room;
        while let Some(ended) = self.unconfirmed.get(self.said).filter(|_| out.len() < end) {
            Message::Ended(*ended).encode(out);
            self.said += 1;
        }
        self.ask(out);
    }

    /// Takes in the answer to a probe; what follows from it goes to `out`.
    pub fn on_answer(&mut self, number: u8, out: &mut Vec<u8>) {
        if let Some((_, count)) = self.probe.take_if(|(asked, _)| *asked == number) {
            self.unconfirmed.drain(..count);
            self.said -= count;
            self.ask(out);
        }
    }

    /// Asks whether what has been said has arrived, unless it is asked already.
    fn ask(&mut self, out: &mut Vec<u8>) {
        if self.said > 0 && self.probe.is_none() {
            self.last_probe = self.last_probe.wrapping_add(1).max(1);
            self.probe = Some((self.last_probe, self.said));
            Message::Probe(self.last_probe).encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::Reader;
    use super::*;
    use peering::ResetReason;

    fn ended(number: u64) -> Ended {
        Ended { session: 5, number, reason: ResetReason::Aborted }
    }

    /// What a peer reads: the ends, and the numbers of the probes that it is to answer.
    fn heard(bytes: &[u8]) -> (Vec<u64>, Vec<u8>) {
        let (mut reader, mut ends, mut probes) = (Reader::new(), Vec::new(), Vec::new());
        reader.push(bytes);
        while let Some(message) = reader.poll() {
            match message {
                Message::Ended(ended) => ends.push(ended.number),
                Message::Probe(number) => probes.push(number),
                other => panic!("{other:?}"),
            }
        }
        (ends, probes)
    }

    fn said(notices: &mut Notices) -> (Vec<u64>, Vec<u8>) {
        let mut out = Vec::new();
        notices.poll_transmit(&mut out, 100_000);
        heard(&out)
    }

    #[test]
    fn what_a_connection_took_with_it_is_said_again_on_the_next() {
        let mut notices = Notices::new();
        (0..3).for_each(|number| notices.push(ended(number)));
        let (ends, probes) = said(&mut notices);
        assert_eq!((ends, probes.len(), notices.has_something_to_say()), (vec![0, 1, 2], 1, false));
        notices.push(ended(3));
        assert_eq!(said(&mut notices), (vec![3], vec![]), "the first probe is not answered");
        notices.restart();
        let mut out = Vec::new();
        notices.on_answer(probes[0], &mut out);
        assert!(out.is_empty() && notices.has_something_to_say(), "an answer from another connection confirms nothing");
        let (ends, probes) = said(&mut notices);
        assert_eq!(ends, [0, 1, 2, 3]);
        notices.push(ended(4));
        assert_eq!(said(&mut notices).0, [4]);
        notices.on_answer(probes[0], &mut out);
        let (ends, last) = heard(&out);
        assert_eq!((ends.len(), last.len()), (0, 1), "what was said behind the probe asks again");
        notices.on_answer(last[0], &mut Vec::new());
        notices.restart();
        assert!(!notices.has_something_to_say(), "all is confirmed");
    }

    #[test]
    fn a_peer_that_confirms_nothing_takes_bounded_memory_and_the_newest_are_kept() {
        let mut notices = Notices::new();
        let all = MAX as u64 + 1000;
        for number in 0..all {
            notices.push(ended(number));
            if number % 1000 == 0 {
                said(&mut notices);
            }
        }
        assert_eq!(notices.unconfirmed.len(), MAX);
        notices.restart();
        let mut out = Vec::new();
        while notices.has_something_to_say() {
            notices.poll_transmit(&mut out, 1000);
        }
        let (ends, probes) = heard(&out);
        assert_eq!((ends.first(), ends.last(), ends.len()), (Some(&1000), Some(&(all - 1)), MAX));
        let mut out = Vec::new();
        notices.on_answer(probes[0], &mut out);
        notices.on_answer(heard(&out).1[0], &mut Vec::new());
        assert!(notices.unconfirmed.is_empty());
    }
}
