//! Congestion control: how large the window is. One file for each algorithm.
//!
//! A control decides three things: what it learns from each acknowledgement ([`Control::on_ack`]), how the window grows
//! while nothing is lost ([`Control::grow`]), and to what it falls when something is ([`Control::on_loss`],
//! [`Control::on_timeout`]). When a loss is a loss, what is sent again and how the window moves during the recovery is
//! the business of [`crate::recovery`].
//!
//! To add one: write its file with a type that implements [`Control`], name it in
//! `kinds.rs` and build it in `registry.rs`.

mod assigned;
mod bbr1;
mod bbr3;
mod careful_resume;
mod cross_layer;
mod cubic;
mod dctcp;
mod hybla;
mod ledbat;
mod pacing;
mod prague;
mod registry;
mod reno;
mod slow_start;
#[cfg(test)]
pub(crate) mod testing;
mod tibet;
mod vegas;
mod westwood;
mod westwood_plus;

pub use crate::kinds::{CONTROLS, ControlKind};
pub(crate) use registry::{slow_start_limit, start, under_resume};

use crate::config::Allocation;
use std::fmt::Debug;
use units::{Duration, Instant, Rate};

/// A congestion control algorithm, driven by the sender of one connection.
///
/// Windows are in segments of the connection's MSS and keep their fraction; everything else is in bytes.
pub trait Control: Debug + Send {
    /// The connection is established and the window at its initial value; nothing has been sent. For a passive open it
    /// comes twice: at the SYN, without a round-trip time, and at the end of the handshake.
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        let _ = (start, window);
    }

    /// Every acknowledgement that arrives in sequence, duplicates included, after the scoreboard has been brought up to
    /// date and before the recovery acts on it: to measure. A control that governs the window
    /// ([`Control::governs_window`]) sets it here, after the recovery has found what is lost.
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        let _ = (ack, window);
    }

    /// New data was acknowledged outside recovery, and the window was in use ([`Ack::is_window_limited`], or the profile
    /// grows regardless): the window may grow. Not called for a control that governs the window.
    fn grow(&mut self, ack: &Ack, window: &mut Window);

    /// The recovery found a loss, once for each window of data: sets `ssthresh` (at least two segments) to what the
    /// window is to be after the recovery. The recovery then moves `cwnd`. A control that governs the window may set
    /// both.
    fn on_loss(&mut self, loss: &Loss, window: &mut Window);

    /// The network marked packets of a window that had not been answered: sets `ssthresh` and `cwnd`, once for each window of data.
    /// As a loss, without a recovery, unless the algorithm says otherwise (RFC 3168, section 6.1.2). A control that governs the
    /// window is not lowered by marks.
    fn on_marks(&mut self, loss: &Loss, window: &mut Window) {
        if !self.governs_window() {
            self.on_loss(loss, window);
            window.cwnd = window.cwnd.min(window.ssthresh);
        }
    }

    /// Whether marks that are reported now are answered. If not, [`Control::on_marks`] is not called, and marks of the same window of data
    /// may be answered later.
    fn answers_marks(&self, now: Instant) -> bool {
        let _ = now;
        true
    }

    /// Whether what arrived unmarked lets the window grow though other data of the same acknowledgement arrived marked (Prague): else such an
    /// acknowledgement lets nothing grow (RFC 3168, section 6.1.2).
    fn grows_beside_marks(&self) -> bool {
        false
    }

    /// The retransmission timer expired: sets `ssthresh` and `cwnd`. Everything in flight counts as lost.
    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window);

    /// The path may be another one: forgets the smallest round-trip time, if the control keeps one of its own (RFC 9002, section 5.2).
    fn forget_min_rtt(&mut self) {}

    /// Whether the control wants to know of each lost segment ([`Control::on_segment_lost`]).
    fn follows_losses(&self) -> bool {
        false
    }

    /// A segment was found lost, in the order of finding, after [`Control::on_loss`] or [`Control::on_timeout`] and before
    /// [`Control::on_ack`] of a control that governs the window. Only for a control that follows losses.
    fn on_segment_lost(&mut self, now: Instant, lost: &LostSegment, window: &mut Window) {
        let _ = (now, lost, window);
    }

    /// All that was outstanding when the recovery began is acknowledged; the recovery has set `cwnd`.
    fn on_recovered(&mut self, ack: &Ack, window: &mut Window) {
        let _ = (ack, window);
    }

    /// The loss response turned out to be needless (DSACK, Eifel); the window is as it was before it.
    fn on_spurious(&mut self, now: Instant, window: &mut Window) {
        let _ = (now, window);
    }

    /// A data segment leaves, retransmissions included.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// Data leave, retransmissions included, with nothing in flight (`CA_EVENT_TX_START` of Linux). `is_app_limited` if the application
    /// had nothing to send before, for however short a time.
    fn on_restart(&mut self, now: Instant, is_app_limited: bool, window: &mut Window) {
        let _ = (now, is_app_limited, window);
    }

    /// The connection sends again after `idle` without anything in flight, longer than the retransmission timeout.
    fn on_idle(&mut self, now: Instant, idle: Duration) {
        let _ = (now, idle);
    }

    /// What the network layer says: what of the bottleneck this connection shares with others.
    fn on_cross_layer(&mut self, now: Instant, allocation: Allocation, window: &mut Window) {
        let _ = (now, allocation, window);
    }

    /// The rate at which payload may leave; `None`: as fast as the window opens.
    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        let _ = window;
        None
    }

    /// Whether the control sets `cwnd` itself at all times (BBR, assigned and cross-layer windows): then neither the
    /// recovery nor [`Control::grow`] moves it.
    fn governs_window(&self) -> bool {
        false
    }

    /// What it is doing, for traces: "slow-start", "probe-bw"….
    fn phase(&self, window: &Window) -> &'static str {
        if window.in_slow_start() { "slow-start" } else { "congestion-avoidance" }
    }
}

/// The window of a connection, in segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The congestion window.
    pub cwnd: f64,
    /// Below it the window grows by slow start, from it on by congestion avoidance.
    pub ssthresh: f64,
}

impl Window {
    /// Whether the next growth is that of slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// What is known when a connection is established.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// When that was.
    pub now: Instant,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// The round-trip time of the handshake, if its segment was sent once.
    pub rtt: Option<Duration>,
    /// Bytes that the receiver has room for.
    pub receive_window: u64,
    /// Whether both ends use SACK.
    pub has_sack: bool,
}

/// An acknowledgement, as the sender understood it.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Bytes that it newly acknowledges cumulatively; zero for a duplicate.
    pub acked: u64,
    /// Bytes that it shows to have arrived and that were not known to: cumulatively or selectively.
    pub delivered: u64,
    /// Whether it acknowledges nothing new cumulatively though something is outstanding, and carries no data or window
    /// update (RFC 5681, section 2).
    pub is_duplicate: bool,
    /// Whether it opens the peer's window: then it also reports the window, and Linux takes it for no duplicate
    /// (`FLAG_WIN_UPDATE`).
    pub opens_window: bool,
    /// Of [`Ack::acked`], the bytes that arrived marked by the network, as far as the peer's feedback can tell.
    pub marked: u64,
    /// The round-trip time of the newest segment that it acknowledges, if that was sent once.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time (RFC 6298); zero before the first sample.
    pub srtt: Duration,
    /// The smallest round-trip time, over TCP of [`crate::RttRules::min_window`]; zero before the first sample.
    pub min_rtt: Duration,
    /// Delivery rate since the newest acknowledged segment was sent (draft-cheng-iccrg-delivery-rate-estimation).
    pub rate: Option<RateSample>,
    /// Bytes outstanding before this acknowledgement.
    pub prior_in_flight: u64,
    /// Bytes outstanding after it, by the recovery's own account.
    pub in_flight: u64,
    /// Bytes that the recovery marked lost upon it; only for a control that governs the window.
    pub lost: u64,
    /// Everything before this offset is acknowledged.
    pub una: u64,
    /// The end of what was ever sent.
    pub nxt: u64,
    /// Bytes that the receiver has room for.
    pub receive_window: u64,
    /// The sender had more to send than the window let it, when it last sent.
    pub is_window_limited: bool,
    /// A loss is being recovered from: by retransmission, or after a timeout (slow start, growth allowed).
    pub state: LossState,
}

impl Ack {
    /// [`Ack::acked`] in segments.
    pub fn acked_segments(&self) -> f64 {
        self.acked as f64 / f64::from(self.mss)
    }
}

/// What the recovery is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossState {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery.
    Recovery,
    /// After a timeout, until what was outstanding then is acknowledged.
    Timeout,
}

/// How fast data were delivered over one round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSample {
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// The longer of the time over which they were sent and that over which they were acknowledged.
    pub interval: Duration,
    /// Total bytes delivered on the connection when the sampled segment was sent: for counting rounds.
    pub prior_delivered: u64,
    /// Total bytes delivered now.
    pub total_delivered: u64,
    /// Total bytes marked lost now.
    pub total_lost: u64,
    /// Bytes lost since the sampled segment was sent.
    pub lost: u64,
    /// Bytes in flight right after the sampled segment was sent.
    pub in_flight_at_send: u64,
    /// The sender had nothing to send at some time of the sample: it may underestimate.
    pub is_app_limited: bool,
    /// Whether `interval` is as long as the smallest round-trip time: a shorter one says nothing of the rate.
    pub is_reliable: bool,
}

impl RateSample {
    /// Bytes a second; none if the interval is too short to tell.
    pub(crate) fn reliable_rate(&self) -> Option<f64> {
        self.is_reliable.then(|| self.delivered as f64 / self.interval.as_secs_f64())
    }

    /// The sample when `lost` more bytes were found lost.
    pub(crate) fn after_losses(self, lost: u64) -> Self {
        Self { total_lost: self.total_lost + lost, lost: self.lost + lost, ..self }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        let seconds = self.interval.as_secs_f64().max(1e-9);
        Rate::from_bps((self.delivered as f64 * 8.0 / seconds) as u64)
    }
}

/// A segment that was found lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LostSegment {
    /// Its first byte.
    pub seq: u64,
    /// Its end.
    pub end: u64,
    /// Bytes in flight right after it was sent.
    pub in_flight_at_send: u64,
    /// Bytes lost since it was sent, its own included.
    pub lost: u64,
    /// The sender had nothing to send at some time of the round before it.
    pub is_app_limited: bool,
    /// Total bytes delivered on the connection when it was found lost.
    pub total_delivered: u64,
}

/// A loss that the window must answer.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// When it was found.
    pub now: Instant,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Bytes outstanding (FlightSize of RFC 5681: sent and not cumulatively acknowledged, without what limited transmit
    /// added).
    pub flight: u64,
    /// The end of what was ever sent.
    pub nxt: u64,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// The smallest round-trip time, over TCP of [`crate::RttRules::min_window`]; zero before the first sample.
    pub min_rtt: Duration,
    /// For a timeout: how often the timer has expired in a row, from 1. RFC 5681 keeps `ssthresh` from the second on.
    pub expiries: u32,
    /// What the recovery was doing when the loss was found.
    pub state: LossState,
}

impl Loss {
    /// [`Loss::flight`] in segments.
    pub fn flight_segments(&self) -> f64 {
        self.flight as f64 / f64::from(self.mss)
    }
}

/// A data segment that leaves.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// When.
    pub now: Instant,
    /// Payload bytes.
    pub bytes: u64,
    /// Size of the IP packet in bytes.
    pub size: u64,
    /// Bytes in flight, this segment included.
    pub in_flight: u64,
    /// It was sent before.
    pub is_retransmission: bool,
    /// The end of what was ever sent.
    pub nxt: u64,
}
