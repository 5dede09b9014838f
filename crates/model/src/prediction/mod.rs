//! One transfer over one link: how long it takes, and what limits it.
//!
//! The time is put together from parts, each of which one limit answers for: round trips, slow start until the first loss
//! (Kruse's cycles over Cardwell's number of segments), that loss, and the rest at what line, window, losses and queue
//! allow, on the way to the mean window of a long transfer. The limit with the longest part binds.
//!
//! Windows are taken to grow by bytes acknowledged, not by acknowledgements (RFC 3465, as Linux does), so that delayed
//! acknowledgements do not slow them down.

mod after_loss;
mod table;

pub use table::{Row, table};

use after_loss::Relaxing;

use crate::cardwell;
use crate::cubic;
use crate::estimate::{Estimate, Invalid, require_rate};
use crate::kruse::{Channel, Counting, End, Reading, Start};
use crate::lossy_path::LossyPath;
use crate::pftk::{self, Counted};
use crate::queue;
use std::fmt::{self, Display};
use units::{Bytes, Duration, Probability, Rate};

/// A link, each way alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Rate, in bits of IP packets.
    pub rate: Rate,
    /// Round-trip time of propagation.
    pub rtt: Duration,
    /// Probability that a packet is lost.
    pub loss: Probability,
    /// What may wait for it, in bytes of IP packets; none if that never overflows.
    pub queue: Option<Bytes>,
}

/// A transfer from connect to the receiver's last byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Data.
    pub size: Bytes,
    /// Payload of a segment.
    pub mss: Bytes,
    /// Headers of a segment's packet, which an acknowledgement has too.
    pub header: Bytes,
    /// What may be in flight at most: the advertised window; none if it never limits.
    pub window: Option<Bytes>,
    /// The first window, in segments.
    pub initial_window: f64,
    /// Segments that one acknowledgement covers.
    pub ack_every: u32,
    /// The first retransmission timeout.
    pub rto: Duration,
    /// What sizes the window.
    pub control: Control,
    /// Who sends.
    pub direction: Direction,
}

/// Congestion controls that have a closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Reno, NewReno, SACK: PFTK.
    Reno,
    /// CUBIC: the mean window of RFC 9438.
    Cubic,
    /// Hybla: PFTK at the reference round-trip time of 25 ms, slow start as much faster (Caini and Firrincieli 2004).
    Hybla,
    /// BBR: losses change nothing but what arrives.
    Bbr,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client, which opens the connection.
    Up,
    /// The server, when the client has asked.
    Down,
}

/// What limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The link's rate.
    LineRate,
    /// The advertised window.
    Window,
    /// Slow start.
    SlowStart,
    /// Losses.
    Loss,
    /// The overflow of a queue shorter than the bandwidth-delay product.
    Queue,
    /// The round trips of the handshake, the request and the last byte's way.
    RoundTrips,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// From connect to the receiver's last byte.
    pub time: Estimate<Duration>,
    /// Data over that time.
    pub throughput: Rate,
    /// What answers for most of the time.
    pub binding: Limit,
    /// The time by what answers for it, in seconds; zero parts are left out.
    pub parts: Vec<(Limit, f64)>,
    /// What a transfer without end comes to, and what limits that.
    pub steady: (Rate, Limit),
}

/// Of Hybla: the connection that it imitates.
pub(crate) const HYBLA_RTT: Duration = Duration::from_millis(25);

impl Control {
    /// What a loss leaves of the window; none where it changes nothing.
    fn beta(self) -> Option<f64> {
        match self {
            Self::Reno | Self::Hybla => Some(0.5),
            Self::Cubic => Some(cubic::BETA),
            Self::Bbr => None,
        }
    }

    /// What its loss bound is called.
    pub fn loss_model(self) -> &'static str {
        match self {
            Self::Reno => "PFTK, full, received",
            Self::Cubic => "CUBIC's mean window",
            Self::Hybla => "PFTK at Hybla's reference round trip",
            Self::Bbr => "none: BBR does not slow down for losses",
        }
    }
}

impl Limit {
    /// The model whose figure binds with it.
    pub fn model(self, control: Control) -> &'static str {
        match self {
            Self::LineRate => "the line's rate",
            Self::Window => "one window in a round trip",
            Self::SlowStart => "Kruse, slow start",
            Self::Loss => control.loss_model(),
            Self::Queue => "utilisation of a short queue",
            Self::RoundTrips => "round trips",
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::LineRate => "line rate",
            Self::Window => "window",
            Self::SlowStart => "slow start",
            Self::Loss => "loss",
            Self::Queue => "queue",
            Self::RoundTrips => "round trips",
        })
    }
}

impl Direction {
    /// Round trips before the first byte of data leaves: the handshake, and the request's half with the handshake's.
    fn rounds_before_data(self) -> f64 {
        match self {
            Self::Up => 1.0,
            Self::Down => 1.5,
        }
    }

    /// Round trips that no protocol saves ([`crate::limit`]).
    pub fn rounds(self) -> f64 {
        match self {
            Self::Up => 0.5,
            Self::Down => 1.0,
        }
    }
}

/// Predicts `transfer` over `link`.
///
/// # Errors
/// If a parameter means nothing; the error names the allowed range.
pub fn predict(link: &Link, transfer: &Transfer) -> Result<Prediction, Invalid> {
    check(link, transfer)?;
    let bounds = Bounds::new(link, transfer)?;
    let mss = transfer.mss.as_u64() as f64;
    let data = transfer.size.as_u64() as f64 / mss;
    let slow = slow_start(link, transfer, data)?;
    let rest = (data - slow.segments).max(0.0);
    let (steady, limit) = bounds.least();
    let (before_losses, base) = bounds.line_or_window();
    let at_base = slow.segments * mss / before_losses;
    let rtt = link.rtt.as_secs_f64();
    let mut parts = vec![
        (Limit::RoundTrips, (transfer.direction.rounds_before_data() + 0.5) * rtt),
        (Limit::SlowStart, (slow.time_s - at_base).max(0.0)),
        (base, at_base.min(slow.time_s)),
        (Limit::Loss, slow.first_loss_s),
        (Limit::Queue, 0.0),
    ];
    let (limit_s, base_s) = match transfer.control.beta() {
        Some(beta) if bounds.loss.is_finite() && limit != Limit::Queue => {
            let segments = |bytes_per_second: f64| bytes_per_second * rtt / mss;
            let relaxing = Relaxing {
                from: (beta * slow.window).max(1.0),
                to: segments(bounds.loss),
                full: segments(before_losses),
                rate: link.loss.as_f64() * (1.0 - beta * beta),
                rtt_s: rtt,
            };
            let (full_s, below_s) = relaxing.time_s(rest);
            parts[3].1 += below_s;
            (0.0, full_s)
        }
        _ if limit == Limit::Queue => (rest * mss / steady, 0.0),
        _ => (0.0, rest * mss / before_losses),
    };
    parts[2].1 += base_s;
    parts[4].1 += limit_s;
    parts.retain(|part| part.1 > 0.0);
    let time_s: f64 = parts.iter().map(|part| part.1).sum();
    let longest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let time = Duration::from_secs_f64(time_s);
    Ok(Prediction {
        throughput: Rate::from_transfer(transfer.size, time),
        time: Estimate { value: time, doubt: doubt(link, transfer, &bounds, data) },
        binding: longest.map_or(Limit::RoundTrips, |part| part.0),
        parts,
        steady: (crate::estimate::rate_of(steady * 8.0), limit),
    })
}

fn check(link: &Link, transfer: &Transfer) -> Result<(), Invalid> {
    require_rate(link.rate)?;
    lossy_path(link, transfer).check_all_but_loss()?;
    Invalid::unless(transfer.size > Bytes::ZERO, "size", transfer.size, "above 0B")?;
    let initial = transfer.initial_window;
    Invalid::unless(initial >= 1.0, "initial window", format!("{initial} segments"), "1 segment or more")?;
    let queue = link.queue.unwrap_or(Bytes::new(u64::MAX));
    Invalid::unless(queue >= transfer.mss + transfer.header, "queue", queue, "one packet or more")
}

/// What the models of losses see.
fn lossy_path(link: &Link, transfer: &Transfer) -> LossyPath {
    LossyPath {
        mss: transfer.mss,
        rtt: link.rtt,
        loss: link.loss,
        ack_every: transfer.ack_every,
        rto: transfer.rto,
        window: transfer.window.map(|window| window.as_u64() as f64 / transfer.mss.as_u64().max(1) as f64),
    }
}

/// What Kruse's model sees.
fn channel(link: &Link, transfer: &Transfer) -> Channel {
    Channel {
        rate: link.rate,
        one_way: link.rtt / 2,
        payload: transfer.mss,
        frame: transfer.mss + transfer.header,
        ack: transfer.header,
        skipped: f64::from(transfer.ack_every) - 1.0,
        counting: Counting::Fractional,
    }
}

/// Payload bytes per second that each limit allows.
struct Bounds {
    line: f64,
    window: f64,
    loss: f64,
    queue: f64,
    loss_doubt: Option<String>,
}

impl Bounds {
    fn new(link: &Link, transfer: &Transfer) -> Result<Self, Invalid> {
        let kept = 1.0 - link.loss.as_f64();
        let share = transfer.mss.as_u64() as f64 / (transfer.mss + transfer.header).as_u64() as f64;
        let line = link.rate.as_bps() as f64 / 8.0 * share * kept;
        let round_trip = link.rtt.as_secs_f64();
        let window = transfer.window.map_or(f64::INFINITY, |window| window.as_u64() as f64 / round_trip);
        let loss = loss_bound(link, transfer)?;
        let product = link.rate.as_bps() as f64 / 8.0 * round_trip;
        let queue = match (link.queue, transfer.control.beta()) {
            (Some(queue), Some(beta)) if room(link, transfer).is_some() => {
                line * queue::utilisation(queue.as_u64() as f64 / product, beta)?
            }
            _ => f64::INFINITY,
        };
        let loss_doubt = loss.as_ref().and_then(|loss| loss.doubt.clone());
        let loss = loss.map_or(f64::INFINITY, |loss| loss.value.as_bps() as f64 / 8.0);
        Ok(Self { line, window, loss, queue, loss_doubt })
    }

    fn line_or_window(&self) -> (f64, Limit) {
        if self.window < self.line { (self.window, Limit::Window) } else { (self.line, Limit::LineRate) }
    }

    fn least(&self) -> (f64, Limit) {
        let all = [(self.loss, Limit::Loss), (self.queue, Limit::Queue)];
        all.into_iter().fold(self.line_or_window(), |least, bound| if bound.0 < least.0 { bound } else { least })
    }
}

/// What losses leave of a long transfer; nothing where there are none or they do not matter.
fn loss_bound(link: &Link, transfer: &Transfer) -> Result<Option<Estimate<Rate>>, Invalid> {
    let path = LossyPath { ack_every: 1, window: None, ..lossy_path(link, transfer) };
    if link.loss == Probability::ZERO {
        return Ok(None);
    }
    match transfer.control {
        Control::Reno => pftk::full(&path, Counted::Received).map(Some),
        Control::Cubic => cubic::throughput(&path).map(Some),
        Control::Hybla => {
            let reference = LossyPath { rtt: path.rtt.min(HYBLA_RTT), ..path };
            pftk::full(&reference, Counted::Received).map(Some)
        }
        Control::Bbr => Ok(None),
    }
}

/// From the first segment to the end of slow start, in the sender's time.
struct BeforeLoss {
    segments: f64,
    time_s: f64,
    first_loss_s: f64,
    /// Where the window has come to, in segments.
    window: f64,
}

fn slow_start(link: &Link, transfer: &Transfer, data: f64) -> Result<BeforeLoss, Invalid> {
    let path = LossyPath { ack_every: 1, ..lossy_path(link, transfer) };
    let rho = (link.rtt.as_secs_f64() / HYBLA_RTT.as_secs_f64()).max(1.0);
    let initial = transfer.initial_window;
    let growth = if transfer.control == Control::Hybla { 2f64.powf(rho.min(500.0)) } else { 2.0 };
    let from = cardwell::Transfer { segments: data, initial, delayed_ack: Duration::ZERO, handshake: None };
    let latency = cardwell::latency(&path, &from)?.value;
    // A window that has grown to what link and queue hold has sent twice as much, and overflows them.
    let overflow = room(link, transfer).map_or(f64::INFINITY, |room| 2.0 * room);
    let (segments, first_loss_s, sent) = match transfer.control {
        Control::Bbr => (data, 0.0, data / (1.0 - path.p())),
        _ if overflow < latency.slow_start_segments => (overflow, 0.0, overflow),
        _ => (latency.slow_start_segments, latency.loss_s, latency.slow_start_segments),
    };
    let size = Bytes::new((sent * transfer.mss.as_u64() as f64).round().max(1.0) as u64);
    // More than any link holds, so that it never limits.
    let window = transfer.window.unwrap_or(Bytes::new(1 << 50));
    let start = Start { initial, growth, handshake: false };
    let run = channel(link, transfer).slow_start(window, size, start, Reading::Cycles(End::SenderDone))?;
    let most = path.window.unwrap_or(f64::INFINITY).min(room(link, transfer).unwrap_or(f64::INFINITY));
    let window = cardwell::reached_window(&path, initial, segments).min(most);
    Ok(BeforeLoss { segments, time_s: run.time.as_secs_f64(), first_loss_s, window })
}

/// What link and queue hold, in segments, if the window may outgrow that.
fn room(link: &Link, transfer: &Transfer) -> Option<f64> {
    let packet = (transfer.mss + transfer.header).as_u64() as f64;
    let room = (link.rate.bytes_in(link.rtt) + link.queue?).as_u64() as f64 / packet;
    let window = transfer.window.map_or(f64::INFINITY, |window| window.as_u64() as f64 / transfer.mss.as_u64() as f64);
    (window > room).then_some(room)
}

/// Why the prediction may be wrong.
fn doubt(link: &Link, transfer: &Transfer, bounds: &Bounds, data: f64) -> Option<String> {
    let mut doubts: Vec<_> = bounds.loss_doubt.iter().cloned().collect();
    if transfer.control == Control::Hybla && link.loss > Probability::ZERO {
        doubts.push(
            "each recovery of Hybla lasts a real round trip, which the model of its reference leaves out".to_owned(),
        );
    }
    let reached = cardwell::slow_start_segments(link.loss.as_f64(), data) / 2.0;
    let overflows = bounds.queue < bounds.line && room(link, transfer).is_some_and(|room| reached > room);
    if overflows {
        doubts.push("slow start overflows a short queue, and what that costs is not modelled".to_owned());
    }
    if transfer.control == Control::Bbr {
        doubts.push("BBR has no closed form: it is taken to fill window and line, whatever is lost".to_owned());
    }
    (!doubts.is_empty()).then(|| doubts.join("; "))
}

#[cfg(test)]
mod tests;
