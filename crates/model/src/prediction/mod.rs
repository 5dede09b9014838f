//! One transfer over one link: how long it takes, and what limits it.
//!
//! The time is put together from parts, each of which one limit answers for: round trips, slow start (Kruse's cycles) until
//! the first loss, that loss, and the rest at what line, window, losses and queue allow, on the way to the mean window of a
//! long transfer. Where the first loss falls decides where the window begins, so the time is a mean over the places it may
//! have. The limit with the longest part binds.
//!
//! Windows are taken to grow by bytes acknowledged, not by acknowledgements (RFC 3465, as Linux does), so that delayed
//! acknowledgements do not slow them down.

mod after_loss;
mod course;
mod doubt;
mod table;

pub use table::{Row, table};

use course::{Course, first_losses};

use crate::cubic;
use crate::estimate::{Estimate, Invalid, rate_of, require_rate};
use crate::kruse::{Channel, Counting};
use crate::lossy_path::LossyPath;
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
    /// Reno with SACK.
    Reno,
    /// CUBIC: RFC 9438.
    Cubic,
    /// Hybla: grows as Reno over the reference round-trip time of 25 ms (Caini and Firrincieli 2004).
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
    /// Data over that time; 0 if it is below 1 bit/s.
    pub throughput: Rate,
    /// What answers for most of the time.
    pub binding: Limit,
    /// The time by what answers for it, in seconds; zero parts are left out.
    pub parts: Vec<(Limit, f64)>,
}

/// Of Hybla: the connection that it imitates.
pub(crate) const HYBLA_RTT: Duration = Duration::from_millis(25);

/// A lower probability of loss is none.
const LEAST_LOSS: f64 = 1e-15;

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
            Self::Reno => "Reno's window from loss to loss",
            Self::Cubic => "CUBIC's window from loss to loss",
            Self::Hybla => "Hybla's window from loss to loss",
            Self::Bbr => "none: BBR does not slow down for losses",
        }
    }
}

impl Limit {
    /// The model whose figure binds with it.
    pub fn model(self, control: Control) -> &'static str {
        match self {
            Self::LineRate => "the line's rate",
            Self::Window => "Kruse, steady state",
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

impl Prediction {
    /// The prediction where so many connections share the link: of each alone, and doubted where there is more than one.
    pub fn shared_by(mut self, flows: u32) -> Self {
        if flows > 1 {
            let shared =
                format!("{flows} connections share the link, and what they take and lose together is not modelled");
            self.time.doubt = Some(self.time.doubt.map_or(shared.clone(), |doubt| format!("{doubt}; {shared}")));
        }
        self
    }
}

/// Predicts `transfer` over `link`.
///
/// # Errors
/// If a parameter means nothing; the error names the allowed range.
pub fn predict(link: &Link, transfer: &Transfer) -> Result<Prediction, Invalid> {
    let link = &checked(link, transfer)?;
    let bounds = Bounds::new(link, transfer)?;
    let mss = transfer.mss.as_u64() as f64;
    let data = transfer.size.as_u64() as f64 / mss;
    let course = Course { link, transfer, bounds: &bounds, data };
    let firsts = first_losses(link, transfer, data);
    let share = 1.0 / firsts.len() as f64;
    let mut parts: Vec<(Limit, f64)> = vec![(Limit::Loss, course.ends_s())];
    for (run, first) in firsts.into_iter().enumerate() {
        for (limit, time_s) in course.parts(first, run as u64)? {
            add(&mut parts, limit, share * time_s);
        }
    }
    // Slow start sends nothing twice, though losses leave a part of what it sends to be sent again.
    let least_s = table::physical_limit(link, transfer).as_secs_f64();
    let missing_s = least_s - parts.iter().map(|part| part.1).sum::<f64>();
    add(&mut parts, Limit::LineRate, missing_s.max(0.0));
    parts.retain(|part| part.1 > 0.0);
    let time_s: f64 = parts.iter().map(|part| part.1).sum();
    let longest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let time = Duration::from_secs_f64(time_s);
    Invalid::unless(time < Duration::MAX, "size", transfer.size, "what the link delivers within 584 years")?;
    Ok(Prediction {
        throughput: Rate::from_transfer(transfer.size, time),
        time: Estimate { value: time, doubt: doubt::of(link, transfer, data, time) },
        binding: longest.map_or(Limit::RoundTrips, |part| part.0),
        parts,
    })
}

/// The rate of a transfer such as `transfer` without end (0 if it is below 1 bit/s), and what answers for most of its time: what
/// [`predict`] comes to as the size grows.
///
/// # Errors
/// As [`predict`].
pub fn without_end(link: &Link, transfer: &Transfer) -> Result<(Rate, Limit), Invalid> {
    let link = &checked(link, transfer)?;
    let bounds = Bounds::new(link, transfer)?;
    let (rate, limit) = Course { link, transfer, bounds: &bounds, data: f64::INFINITY }.without_end();
    Ok((rate_of(rate * 8.0), limit))
}

/// Has `limit` answer for `time_s` more.
fn add(parts: &mut Vec<(Limit, f64)>, limit: Limit, time_s: f64) {
    match parts.iter_mut().find(|part| part.0 == limit) {
        Some(part) => part.1 += time_s,
        None => parts.push((limit, time_s)),
    }
}

/// `link` without losses so rare that a transfer has none: one of 2^50 bytes has fewer than 10^13 segments.
fn checked(link: &Link, transfer: &Transfer) -> Result<Link, Invalid> {
    check(link, transfer)?;
    let is_seen = link.loss.as_f64() >= LEAST_LOSS;
    Ok(Link { loss: if is_seen { link.loss } else { Probability::ZERO }, ..*link })
}

fn check(link: &Link, transfer: &Transfer) -> Result<(), Invalid> {
    require_rate(link.rate)?;
    lossy_path(link, transfer).check_all_but_loss()?;
    Invalid::unless(
        link.rtt / 2 > Duration::ZERO,
        "rtt",
        link.rtt,
        "2ns or more: half of it is the way to the receiver",
    )?;
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

/// The least of the rates that line, window, losses and a short queue allow, each taken alone: 0 if it is below 1 bit/s. Where
/// several of them bind, a transfer is slower ([`without_end`]).
///
/// # Errors
/// As [`predict`].
pub fn least_bound(link: &Link, transfer: &Transfer) -> Result<Rate, Invalid> {
    let link = &checked(link, transfer)?;
    let bounds = Bounds::new(link, transfer)?;
    let loss = course::losses_alone(link, transfer).map_or(f64::INFINITY, |rate| rate * transfer.mss.as_u64() as f64);
    Ok(rate_of(bounds.line_or_window().0.min(bounds.queue).min(loss) * 8.0))
}

/// Payload bytes per second that limits allow without losses.
struct Bounds {
    line: f64,
    window: f64,
    queue: f64,
}

impl Bounds {
    fn new(link: &Link, transfer: &Transfer) -> Result<Self, Invalid> {
        let kept = 1.0 - link.loss.as_f64();
        let share = transfer.mss.as_u64() as f64 / (transfer.mss + transfer.header).as_u64() as f64;
        let line = link.rate.as_bps() as f64 / 8.0 * share * kept;
        // Kruse's steady state: of a window of few segments, their own times on the line count beside the round trip's.
        let cycle_s = channel(link, transfer).cycle_s();
        let window = transfer.window.map_or(f64::INFINITY, |window| window.as_u64() as f64 / cycle_s);
        // In whole bytes as the queue: one product of queue is not short.
        let product = link.rate.bytes_in(link.rtt).as_u64() as f64;
        let queue = match (link.queue, transfer.control.beta()) {
            (Some(queue), Some(beta)) if room(link, transfer).is_some() => {
                line * queue::utilisation(queue.as_u64() as f64 / product, beta)?
            }
            _ => f64::INFINITY,
        };
        Ok(Self { line, window, queue })
    }

    fn line_or_window(&self) -> (f64, Limit) {
        if self.window < self.line { (self.window, Limit::Window) } else { (self.line, Limit::LineRate) }
    }

    /// Whether the queue is too short for what line and window allow.
    fn is_queue_short(&self) -> bool {
        self.queue < self.line_or_window().0
    }
}

/// What link and queue hold, in segments, if the window may outgrow that.
fn room(link: &Link, transfer: &Transfer) -> Option<f64> {
    let packet = (transfer.mss + transfer.header).as_u64() as f64;
    let room = (link.rate.bytes_in(link.rtt) + link.queue?).as_u64() as f64 / packet;
    let window = transfer.window.map_or(f64::INFINITY, |window| window.as_u64() as f64 / transfer.mss.as_u64() as f64);
    (window > room).then_some(room)
}

#[cfg(test)]
mod tests;
