//! How a transfer goes whose first loss is at a given place.

use super::after_loss::{Cause, Growth, Lossy, Spent};
use super::{Bounds, Control, HYBLA_RTT, Limit, Link, Transfer, channel, room};
use crate::estimate::Invalid;
use crate::kruse::{End, Reading, Start};
use units::{Bytes, Probability};

/// Places of the first loss over which a mean is taken.
pub(super) const PLACES: u32 = 48;

/// The first timeout of a SYN (RFC 6298, section 2).
const FIRST_TIMEOUT_S: f64 = 1.0;

/// The segment that is the first lost: one place for each equal share of the probability, `None` where all arrive. Segments
/// are lost independently, so the place is distributed geometrically (Cardwell, Savage and Anderson 2000, equation 4, is its
/// mean).
pub(super) fn first_losses(link: &Link, transfer: &Transfer, data: f64) -> Vec<Option<f64>> {
    let p = link.loss.as_f64();
    if p == 0.0 || transfer.control.beta().is_none() {
        return vec![None];
    }
    let place = |number: u32| {
        let below = (f64::from(number) + 0.5) / f64::from(PLACES);
        1.0 + ((-below).ln_1p() / (-p).ln_1p()).floor()
    };
    (0..PLACES).map(|number| Some(place(number)).filter(|place| *place <= data)).collect()
}

/// Segments per second that losses leave of a transfer without end on a link that carries everything; `None` where they do not
/// matter.
pub(super) fn losses_alone(link: &Link, transfer: &Transfer) -> Option<f64> {
    endless(link, transfer).filter(|_| link.loss > Probability::ZERO).map(|lossy| lossy.rate())
}

/// Losses alone, on a link that carries everything; `None` where they do not change the window.
fn endless(link: &Link, transfer: &Transfer) -> Option<Lossy> {
    let growth = match transfer.control {
        Control::Reno => Growth::Linear(1.0),
        Control::Cubic => Growth::Cubic,
        Control::Hybla => Growth::Linear(rho(link).powi(2)),
        Control::Bbr => return None,
    };
    Some(Lossy {
        growth,
        loss: link.loss.as_f64(),
        full: f64::INFINITY,
        most: f64::INFINITY,
        room: f64::INFINITY,
        rtt_s: channel(link, transfer).cycle_s(),
        timeout_s: match growth {
            Growth::Linear(_) => transfer.rto.as_secs_f64(),
            // Losses are found by time, those of retransmissions too.
            Growth::Cubic => 0.0,
        },
    })
}

/// Of Hybla: by how much the round-trip time exceeds that of its reference.
fn rho(link: &Link) -> f64 {
    (link.rtt.as_secs_f64() / HYBLA_RTT.as_secs_f64()).max(1.0)
}

/// A transfer, and what limits it.
pub(super) struct Course<'a> {
    pub(super) link: &'a Link,
    pub(super) transfer: &'a Transfer,
    pub(super) bounds: &'a Bounds,
    /// Segments.
    pub(super) data: f64,
}

/// From the first segment until a loss has been seen, in the sender's time.
struct BeforeLoss {
    segments: f64,
    time_s: f64,
    /// What that loss costs.
    loss_s: f64,
    /// Where the window has come to, in segments, and what reduces it there.
    window: f64,
    cause: Cause,
}

impl Course<'_> {
    /// The time by what answers for it, in seconds, if the first loss is that of the segment `first`.
    pub(super) fn parts(&self, first: Option<f64>, run: u64) -> Result<Vec<(Limit, f64)>, Invalid> {
        let slow = self.slow_start(first)?;
        let rtt = self.link.rtt.as_secs_f64();
        let mss = self.transfer.mss.as_u64() as f64;
        let rest = (self.data - slow.segments).max(0.0);
        let (bound, base) = self.bounds.line_or_window();
        let at_base = slow.segments * mss / bound;
        let (sent, sending) = (rest / self.kept(), self.sending());
        let spent = match self.lossy(sending) {
            Some(lossy) => lossy.time_s(slow.window, slow.cause, sent, run),
            None => Spent { full_s: sent * mss / sending, ..Spent::default() },
        };
        Ok(vec![
            (Limit::RoundTrips, (self.transfer.direction.rounds_before_data() + 0.5) * rtt),
            (Limit::SlowStart, (slow.time_s - at_base).max(0.0)),
            (base, at_base.min(slow.time_s)),
            (self.of_full_window(), spent.full_s),
            (Limit::Loss, slow.loss_s + spent.after_loss_s),
            (Limit::Queue, spent.after_overflow_s),
        ])
    }

    /// Payload bytes per second of a transfer without end, and what answers for most of its time.
    pub(super) fn without_end(&self) -> (f64, Limit) {
        let (sending, kept) = (self.sending(), self.kept());
        let changes = self.link.loss > Probability::ZERO || room(self.link, self.transfer).is_some();
        let Some(lossy) = self.lossy(sending).filter(|_| changes) else {
            return (kept * sending, self.bounds.line_or_window().1);
        };
        let spent = lossy.segment_without_end();
        let full = self.of_full_window();
        let after_overflow_s = spent.after_overflow_s + if full == Limit::Queue { spent.full_s } else { 0.0 };
        let parts = [(full, spent.full_s), (Limit::Loss, spent.after_loss_s), (Limit::Queue, after_overflow_s)];
        let longest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(full, |part| part.0);
        (kept * self.transfer.mss.as_u64() as f64 / spent.total_s(), longest)
    }

    /// What is lost is sent again. The bound of the line is what is left of its rate for that reason; a window bounds all that is sent.
    fn kept(&self) -> f64 {
        1.0 - self.link.loss.as_f64()
    }

    /// Payload bytes per second that fill line or window, retransmissions included.
    fn sending(&self) -> f64 {
        let (bound, base) = self.bounds.line_or_window();
        if base == Limit::LineRate { bound / self.kept() } else { bound }
    }

    /// What answers for the time of a full window: without losses, all of it goes at what the overflows leave of the line.
    fn of_full_window(&self) -> Limit {
        let is_short = self.link.loss == Probability::ZERO && self.bounds.is_queue_short();
        if is_short { Limit::Queue } else { self.bounds.line_or_window().1 }
    }

    /// What losses cost at the ends: a SYN or its answer that is lost waits for its timer (Cardwell, Savage and Anderson 2000,
    /// section 2.1), and one of the last three segments, with too few behind it for duplicates, for the retransmission timer or a
    /// probe (RFC 8985, section 7).
    pub(super) fn ends_s(&self) -> f64 {
        let p = self.link.loss.as_f64();
        let rtt_s = self.link.rtt.as_secs_f64();
        let handshake_s = 2.0 * p / (1.0 - p) * FIRST_TIMEOUT_S;
        let wait_s = match self.transfer.control {
            Control::Reno | Control::Hybla => self.transfer.rto.as_secs_f64(),
            Control::Cubic | Control::Bbr => 2.0 * rtt_s,
        };
        handshake_s + (1.0 - (1.0 - p).powi(3)) * wait_s
    }

    /// What follows the first loss, where `sending` bytes a second, retransmissions included, fill line or window.
    fn lossy(&self, sending: f64) -> Option<Lossy> {
        let endless = endless(self.link, self.transfer)?;
        // However it is rounded, the receiver's window is full where it binds.
        let full = (sending * endless.rtt_s / self.transfer.mss.as_u64() as f64).min(self.window());
        let room = room(self.link, self.transfer).unwrap_or(f64::INFINITY);
        Some(Lossy { full, most: self.window(), room, ..endless })
    }

    /// The receiver's window in segments.
    fn window(&self) -> f64 {
        let segments = |window: Bytes| window.as_u64() as f64 / self.transfer.mss.as_u64() as f64;
        self.transfer.window.map_or(f64::INFINITY, segments)
    }

    /// A loss is seen a round trip after its segment was sent. Until then slow start goes on, so that by then as much again has
    /// been sent, and the window is what has arrived with the initial one.
    fn slow_start(&self, first: Option<f64>) -> Result<BeforeLoss, Invalid> {
        let room = room(self.link, self.transfer).unwrap_or(f64::INFINITY);
        let initial = self.transfer.initial_window;
        let most = self.window().min(room);
        // A window that has grown to what link and queue hold has sent twice as much, and overflows them.
        let overflow = if self.transfer.control == Control::Bbr { f64::INFINITY } else { 2.0 * room };
        let seen = first.map_or(f64::INFINITY, |first| 2.0 * first + initial);
        let segments = seen.min(overflow).min(self.data);
        let time_s = self.slow_start_s(segments)?;
        let loss_s = match first {
            Some(first) if seen <= overflow => {
                (self.slow_start_s(first.min(self.data))? + self.link.rtt.as_secs_f64() - time_s).max(0.0)
            }
            _ => 0.0,
        };
        let (reached, cause) = match first {
            Some(first) if seen < overflow => (first + initial, Cause::Loss),
            _ => (room, Cause::Overflow),
        };
        Ok(BeforeLoss { segments, time_s, loss_s, window: reached.min(most), cause })
    }

    /// How long slow start takes for so many segments.
    fn slow_start_s(&self, segments: f64) -> Result<f64, Invalid> {
        let p = self.link.loss.as_f64();
        let sent = if self.transfer.control == Control::Bbr { segments / (1.0 - p) } else { segments };
        let size = Bytes::new((sent * self.transfer.mss.as_u64() as f64).round().max(1.0) as u64);
        let is_hybla = self.transfer.control == Control::Hybla;
        let growth = if is_hybla { 2f64.powf(rho(self.link).min(500.0)) } else { 2.0 };
        // More than any link holds, so that it never limits.
        let window = self.transfer.window.unwrap_or(Bytes::new(1 << 50));
        let start = Start { initial: self.transfer.initial_window, growth, handshake: false };
        let run =
            channel(self.link, self.transfer).slow_start(window, size, start, Reading::Cycles(End::SenderDone))?;
        Ok(run.time.as_secs_f64())
    }
}
