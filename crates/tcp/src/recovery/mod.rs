//! Loss recovery: when a segment counts as lost, what is sent again, and how the window moves meanwhile. One file for
//! each algorithm.
//!
//! To add one: write its file with a type that implements [`Recovery`], and add one line to [`RECOVERIES`].

mod fast;
mod frto;
pub mod nack;
pub(crate) mod newreno;
mod prr;
pub mod rack;
mod reno;
pub mod sack;
mod tahoe;
mod undo;

use crate::config::Config;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use std::fmt::Debug;
use units::Instant;

/// A loss recovery algorithm, driven by the sender of one connection.
///
/// It finds losses, marks them in [`Outstanding::board`], and tells what may leave. The sender sends, in this order:
/// what [`Recovery::retransmission`] names, new data while [`Recovery::may_send_new`] says so, and what
/// [`Recovery::last_resort`] names where there is no new data to send.
pub trait Recovery: Debug + Send {
    /// An acknowledgement came, and the scoreboard knows. Returns whether the retransmission timer restarts, as it
    /// does by RFC 6298 (5.3) for one that acknowledges new data.
    fn on_ack(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool;

    /// The retransmission timer expired.
    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        out.collapse(now, self.state());
    }

    /// What is to be sent again now: its first byte and span.
    fn retransmission(&mut self, now: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        let _ = now;
        let (seq, span) = out.board.first_lost()?;
        (out.board.pipe() + u64::from(span) <= out.cwnd_bytes()).then_some((seq, span))
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

/// A loss recovery that can be chosen by name.
#[derive(Clone, Copy)]
pub struct RecoveryKind {
    /// Its name in scenarios and results.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether it needs the SACK option.
    pub needs_sack: bool,
    /// Whether it needs transmissions in order of time.
    pub by_time: bool,
    /// Makes one for a new connection.
    pub new: fn(&Config) -> Box<dyn Recovery>,
}

/// Every loss recovery, by name.
pub const RECOVERIES: &[RecoveryKind] = &[tahoe::KIND, reno::KIND, newreno::KIND, sack::KIND, rack::KIND, nack::KIND];

impl RecoveryKind {
    /// The recovery of this name.
    pub fn by_name(name: &str) -> Option<&'static RecoveryKind> {
        RECOVERIES.iter().find(|kind| kind.name == name)
    }
}

impl std::fmt::Debug for RecoveryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for RecoveryKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
