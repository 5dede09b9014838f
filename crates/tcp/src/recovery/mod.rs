//! Loss recovery: when a segment counts as lost, what is sent again, and how the window moves meanwhile. One file for
//! each algorithm.
//!
//! To add one: write its file with a type that implements [`Recovery`], name it in
//! `kinds.rs` and build it in `registry.rs`.

mod fast;
mod frto;
mod nack;
mod newreno;
mod prr;
mod rack;
mod registry;
mod reno;
mod sack;
mod tahoe;
mod undo;

pub use crate::kinds::{RECOVERIES, RecoveryKind};

use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use std::fmt::Debug;
use units::Instant;

/// A loss recovery algorithm, driven by the sender of one connection.
///
/// It finds losses, marks them in [`Outstanding::board`], and decides what may leave. The sender sends, in this order:
/// what [`Recovery::retransmission`] names, new data while [`Recovery::may_send_new`] says so, and what
/// [`Recovery::last_resort`] names where there is no new data to send.
pub trait Recovery: Debug + Send {
    /// An acknowledgement came, and the scoreboard knows. Returns whether the retransmission timer restarts, as it
    /// does by RFC 6298 (5.3) for one that acknowledges new data.
    fn on_ack(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool;

    /// An acknowledgement without data, window or SACK repeats `una`, and nothing is outstanding: something has arrived twice.
    fn on_ack_of_nothing(&mut self, una: u64) {
        let _ = una;
    }

    /// The retransmission timer expired.
    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        out.collapse(now, self.state());
    }

    /// What is to be sent again now: its first byte and span.
    fn retransmission(&mut self, now: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        let _ = now;
        let (seq, span) = out.board.first_lost()?;
        out.may_send_again(span).then_some((seq, span))
    }

    /// Whether `bytes` of new data may leave, the receiver's window apart.
    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        out.board.pipe() + bytes <= out.cwnd_bytes()
    }

    /// Bytes of new data that may leave beyond the receiver's window.
    fn beyond_window(&self) -> u64 {
        0
    }

    /// What may be sent again where there is no new data to send.
    fn last_resort(&mut self, out: &Outstanding) -> Option<(u64, u32)> {
        let _ = out;
        None
    }

    /// A segment leaves.
    fn on_sent(&mut self, now: Instant, bytes: u64, is_retransmission: bool, out: &Outstanding) {
        let _ = (now, bytes, is_retransmission, out);
    }

    /// Bytes in flight as this recovery counts them.
    fn in_flight(&self, out: &Outstanding) -> u64 {
        out.board.pipe()
    }

    /// When [`Recovery::on_timer`] wants to be called, before the retransmission timer.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Recovery::next_timeout`] has come. Returns whether that stands in for the retransmission timer, which
    /// then restarts (the probe of RFC 8985).
    fn on_timer(&mut self, now: Instant, out: &mut Outstanding) -> bool {
        let _ = (now, out);
        false
    }

    /// The retransmission timer is about to expire: whether a probe that was to come later leaves instead (RFC 8985,
    /// section 7.2).
    fn probes_instead(&mut self) -> bool {
        false
    }

    /// What it is doing.
    fn state(&self) -> LossState;
}
