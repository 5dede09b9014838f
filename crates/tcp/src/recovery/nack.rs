//! SaTPEP's recovery by negative acknowledgements (Velenis et al. 2003, section 2.2 and figure 1).
//!
//! The hop is one link that keeps the order, and no congestion is possible on it: the first duplicate means a loss, and the
//! window does not fall. Each segment that arrives is acknowledged, so that counting acknowledgements shows what has left
//! the network. An acknowledgement sent while the receiver misses data names one hole, the holes in turn; the sender
//! answers a hole that it has not seen before at once, and otherwise only when the answer cannot be under way any more.
//!
//! The figure as printed is ambiguous or wrong in places. [`NackRule::Fig1`] resolves it so:
//! - A pass that repeats retransmissions ends when the cycle of NACKs has come round, and every NACK of it is answered. As
//!   printed, the NACK that ends a pass goes unanswered: with one hole that is every NACK of the pass.
//! - `hinack` only grows: the printed comparison would lower it.
//! - The count is of what is outstanding where that is less than the window, or it would never run out; a count below zero
//!   has run out too.
//! - A new acknowledgement resets everything.
//! - The timer restarts also when the first outstanding segment is sent again, so that it does not expire while a lost retransmission
//!   is being repeated.
//! - The first new acknowledgement after a timeout, if it names no hole, says that all that was sent before the timeout is lost.

use super::Recovery;
use crate::config::{Config, NackRule};
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use std::collections::BTreeMap;
use units::Instant;

/// Retransmission of what NACKs name.
#[derive(Debug)]
pub(super) struct Nack {
    rule: NackRule,
    recovery: Option<Episode>,
    /// The end of the highest hole seen: NACKs above it are news.
    hinack: u64,
    /// Duplicates still to come before retransmissions may be repeated; not counted before the first.
    rtx_count: Option<i64>,
    pass: Pass,
    answered: Answered,
    /// After a timeout: the end of what had been sent.
    timeout_point: Option<u64>,
    /// The acknowledgement of now had the first outstanding segment sent again.
    resent_first: bool,
}

/// A recovery: from the first duplicate until all that was outstanding then is acknowledged.
#[derive(Debug)]
struct Episode {
    /// The end of what was sent when it began.
    recover: u64,
    /// Bytes by which the window is larger: arrivals that duplicates reported, less what was sent again and what partial
    /// acknowledgements took out. Negative where the first NACK names much.
    dupwnd: i64,
    /// Bytes above the acknowledgement that are known to have arrived.
    arrived: i64,
}

/// Whether holes seen before are answered again.
#[derive(Debug, PartialEq)]
enum Pass {
    /// No: the answers may still be under way.
    Closed,
    /// Yes, until the NACKs have come round.
    Open(Option<Cycle>),
    /// As printed: until a NACK holds this sequence number.
    UntilStop(u64),
}

/// How far the receiver's cycle of NACKs has come in a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cycle {
    first: u64,
    previous: u64,
    wraps: u32,
}

impl Cycle {
    /// The next NACK begins at `lo`: whether the cycle is complete.
    fn advance(&mut self, lo: u64) -> bool {
        self.wraps += u32::from(lo <= self.previous);
        self.previous = lo;
        self.wraps >= 2 || (self.wraps == 1 && lo >= self.first)
    }
}

/// For each range sent again, how many acknowledgements must have come before one can still miss it.
#[derive(Debug, Default)]
struct Answered {
    /// From the first byte to the end and that count.
    ranges: BTreeMap<u64, (u64, u64)>,
    acks_seen: u64,
}

impl Answered {
    /// The first part of `lo..hi` that an answer may be on its way for: where it begins and ends.
    fn pending(&self, lo: u64, hi: u64) -> Option<(u64, u64)> {
        let before = self.ranges.range(..=lo).next_back();
        let within = self.ranges.range(lo + 1..hi.max(lo + 1));
        let mut overlapping = before.into_iter().chain(within).filter(|&(_, &(end, _))| end > lo);
        let (&start, &(end, _)) = overlapping.find(|&(_, &(_, due))| due > self.acks_seen)?;
        Some((start.max(lo), end.min(hi)))
    }

    /// `lo..hi` is sent again; its own acknowledgement is the `ahead`th to come.
    fn insert(&mut self, lo: u64, hi: u64, ahead: u64) {
        let due = self.acks_seen + ahead + 1;
        if let Some((_, (end, old))) = self.ranges.range_mut(..lo).next_back().filter(|(_, (end, _))| *end > lo) {
            let rest = (*end, *old);
            *end = lo;
            if rest.0 > hi {
                self.ranges.insert(hi, rest);
            }
        }
        while let Some((&start, &(end, old))) = self.ranges.range(lo..hi).next() {
            self.ranges.remove(&start);
            if end > hi {
                self.ranges.insert(hi, (end, old));
            }
        }
        self.ranges.insert(lo, (hi, due));
    }

    /// Everything before `una` has arrived.
    fn forget_before(&mut self, una: u64) {
        while self.ranges.first_key_value().is_some_and(|(_, &(end, _))| end <= una) {
            self.ranges.pop_first();
        }
    }
}

impl Nack {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            rule: config.tuning.nack,
            recovery: None,
            hinack: 0,
            rtx_count: None,
            pass: Pass::Closed,
            answered: Answered::default(),
            timeout_point: None,
            resent_first: false,
        }
    }

    /// Sends `lo..hi` again; returns how many bytes that is.
    fn resend(lo: u64, hi: u64, out: &mut Outstanding) -> u64 {
        let (mut at, mut bytes) = (lo, 0);
        while let Some((seq, span, _)) = out.board.segment_at(at).filter(|_| at < hi) {
            bytes += out.board.mark_lost_at(seq);
            at = seq + u64::from(span);
        }
        bytes
    }

    /// How many duplicates come before the retransmission of now can have arrived.
    fn round(&self, out: &Outstanding) -> i64 {
        let rwnd = out.window.cwnd as i64;
        if self.rule == NackRule::Fig1Literal {
            return rwnd - 1;
        }
        let outstanding = out.board.flight().div_ceil(out.mss()) as i64;
        (rwnd.min(outstanding) - 1).max(1)
    }

    fn on_first_duplicate(&mut self, nack: Option<(u64, u64)>, out: &mut Outstanding) {
        let arrived = out.mss() as i64;
        self.recovery = Some(Episode { recover: out.board.nxt(), dupwnd: arrived, arrived });
        if self.rtx_count.is_none_or(|count| count == 0) {
            self.rtx_count = Some(self.round(out));
        }
        if let Some((lo, hi)) = nack {
            self.answer(lo, hi, out);
        }
    }

    fn on_later_duplicate(&mut self, nack: Option<(u64, u64)>, out: &mut Outstanding) {
        if let Some(recovery) = &mut self.recovery {
            recovery.dupwnd += out.mss() as i64;
            recovery.arrived += out.mss() as i64;
        }
        self.rtx_count = self.rtx_count.map(|count| count - 1);
        let Some((lo, hi)) = nack else { return };
        match self.rule {
            NackRule::PerSegment => self.answer(lo, hi, out),
            NackRule::Fig1 => self.follow_figure(lo, hi, out),
            NackRule::Fig1Literal => self.follow_figure_literally(lo, hi, out),
        }
    }

    /// Sends again what a NACK names, as far as it cannot be under way.
    fn answer(&mut self, lo: u64, hi: u64, out: &mut Outstanding) {
        let mut bytes = 0;
        if self.rule == NackRule::PerSegment {
            let mut at = lo;
            while at < hi {
                let (pending, next) = self.answered.pending(at, hi).unwrap_or((hi, hi));
                if at < pending {
                    bytes += Self::resend(at, pending, out);
                    self.answered.insert(at, pending, self.acknowledgements_ahead(out));
                }
                at = next;
            }
        } else {
            bytes = Self::resend(lo, hi, out);
        }
        self.hinack = self.hinack.max(hi);
        self.resent_first |= lo == out.board.una() && bytes > 0;
        if let Some(recovery) = &mut self.recovery {
            recovery.dupwnd -= bytes as i64;
        }
    }

    /// Segments in the network, each of which is acknowledged before what is sent now.
    fn acknowledgements_ahead(&self, out: &Outstanding) -> u64 {
        let arrived = self.recovery.as_ref().map_or(0, |recovery| recovery.arrived);
        (out.board.flight() as i64 - arrived).max(0) as u64 / out.mss()
    }

    fn follow_figure(&mut self, lo: u64, hi: u64, out: &mut Outstanding) {
        if hi > self.hinack {
            self.answer(lo, hi, out);
        } else if let Pass::Open(cycle) = &mut self.pass {
            let is_complete = match cycle {
                Some(cycle) => cycle.advance(lo),
                None => {
                    *cycle = Some(Cycle { first: lo, previous: lo, wraps: 0 });
                    false
                }
            };
            if is_complete {
                self.pass = Pass::Closed;
                self.rtx_count = Some(self.round(out));
            } else {
                self.answer(lo, hi, out);
            }
        }
        if self.rtx_count.is_some_and(|count| count <= 0) && self.pass == Pass::Closed {
            self.pass = Pass::Open(None);
        }
    }

    fn follow_figure_literally(&mut self, lo: u64, hi: u64, out: &mut Outstanding) {
        match self.pass {
            Pass::UntilStop(stop) if (lo..hi).contains(&stop) => {
                self.pass = Pass::Closed;
                self.rtx_count = Some(self.round(out));
            }
            Pass::UntilStop(_) => {
                let hinack = self.hinack.min(hi);
                self.answer(lo, hi, out);
                self.hinack = hinack;
            }
            _ if hi > self.hinack => self.answer(lo, hi, out),
            _ => {}
        }
        if self.rtx_count == Some(0) {
            self.pass = Pass::UntilStop(hi - 1);
        }
    }

    fn on_new_data(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) {
        self.answered.forget_before(ack.una);
        if let Some(recovery) = self.recovery.as_mut().filter(|recovery| ack.una < recovery.recover) {
            recovery.dupwnd -= ack.acked as i64;
            recovery.arrived -= ack.acked as i64;
            return self.on_later_duplicate(change.nack, out);
        }
        self.end();
        let timeout_point = self.timeout_point.take();
        if change.nack.is_some() {
            self.on_first_duplicate(change.nack, out);
        } else if let Some(point) = timeout_point.filter(|_| self.rule != NackRule::Fig1Literal) {
            Self::resend(ack.una, point, out);
        }
    }

    fn end(&mut self) {
        self.recovery = None;
        self.rtx_count = None;
        self.pass = Pass::Closed;
        if self.rule != NackRule::Fig1Literal {
            self.hinack = 0;
        }
    }
}

impl Recovery for Nack {
    fn on_ack(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool {
        self.answered.acks_seen += u64::from(ack.acked > 0 || ack.is_duplicate);
        self.resent_first = false;
        if ack.acked > 0 {
            self.on_new_data(ack, change, out);
        } else if ack.is_duplicate && self.recovery.is_none() {
            self.on_first_duplicate(change.nack, out);
        } else if ack.is_duplicate {
            self.on_later_duplicate(change.nack, out);
        }
        ack.acked > 0 || (self.resent_first && self.rule != NackRule::Fig1Literal)
    }

    /// Only the segment that the peer waits for leaves again: `cwnd` is 1 until an acknowledgement assigns the window.
    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        let flight = out.board.flight();
        out.rtt.back_off();
        let loss = out.loss(now, flight);
        out.control.on_timeout(&loss, &mut out.window);
        out.duplicates = 0;
        self.end();
        self.answered.ranges.clear();
        self.timeout_point = Some(out.board.nxt());
        out.board.mark_first_lost();
    }

    /// The window never holds a retransmission back.
    fn retransmission(&mut self, _: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        out.board.first_lost()
    }

    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        let dupwnd = self.recovery.as_ref().map_or(0, |recovery| recovery.dupwnd);
        (out.board.flight() + bytes) as i64 <= out.cwnd_bytes() as i64 + dupwnd
    }

    fn beyond_window(&self) -> u64 {
        self.recovery.as_ref().map_or(0, |recovery| recovery.dupwnd.max(0) as u64)
    }

    fn state(&self) -> LossState {
        match (&self.recovery, self.timeout_point) {
            (Some(_), _) => LossState::Recovery,
            (None, Some(_)) => LossState::Timeout,
            (None, None) => LossState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_covers_its_range_until_its_own_acknowledgement_is_due() {
        let mut answered = Answered::default();
        answered.insert(100, 200, 4);
        answered.insert(300, 400, 9);
        assert_eq!(answered.pending(0, 1000), Some((100, 200)));
        assert_eq!(answered.pending(150, 180), Some((150, 180)));
        assert_eq!(answered.pending(200, 1000), Some((300, 400)));
        answered.acks_seen = 5;
        assert_eq!(answered.pending(0, 1000), Some((300, 400)), "the first answer would have arrived by now");
        answered.insert(120, 140, 10);
        assert_eq!(answered.pending(100, 160), Some((120, 140)), "what surrounds it keeps its own count");
        answered.insert(50, 350, 20);
        assert_eq!((answered.pending(0, 400), answered.pending(350, 400)), (Some((50, 350)), Some((350, 400))));
        answered.forget_before(350);
        assert_eq!(answered.ranges.len(), 1);
    }

    #[test]
    fn a_cycle_is_complete_when_it_comes_back_to_its_first_hole_or_passes_it() {
        let complete_at = |holes: &[u64]| {
            let mut cycle = Cycle { first: holes[0], previous: holes[0], wraps: 0 };
            holes[1..].iter().position(|&lo| cycle.advance(lo))
        };
        assert_eq!(complete_at(&[5, 5]), Some(0));
        assert_eq!(complete_at(&[5, 9, 2, 5]), Some(2));
        assert_eq!(complete_at(&[5, 9, 2, 9]), Some(2), "the first hole was filled");
        assert_eq!(complete_at(&[9, 2, 4, 2]), Some(2), "all above were filled");
        assert_eq!(complete_at(&[2, 4, 9]), None);
    }
}
