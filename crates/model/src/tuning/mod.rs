//! The tuning advisor: for a link and a workload the initial window, the buffers and the congestion control that make it fast,
//! with the gain to expect and the Linux settings that do it.
//!
//! The rules follow from Marchese's study ("TCP tuning over GEO satellite links": the window decides the plateau of long
//! transfers, the initial window the start of all) and from the [course] that each choice would take:
//!
//! - **Window**: rate times round-trip time, which fills the path. With less the line idles in every round trip.
//! - **Buffers**: what the receiver must have to advertise that window, and twice that where packets are lost, since while one
//!   is repaired a further path's worth arrives behind it.
//! - **Initial window**: the smallest whose course is within 2 % of the fastest, at most what the queue takes at once and
//!   what a new connection's buffer should hold.
//! - **Congestion control**: CUBIC, unless another that may be recommended is faster by more than a twentieth.

mod costs;
pub mod course;
pub mod host;
pub mod settings;
mod warnings;

pub use crate::prediction::{Control, Direction};
pub use costs::{Cost, Knob, costs};
pub use course::{Binding, Course};
pub use host::{Buffer, Host};
pub use settings::{Place, Purpose, Setting, settings};

use crate::Invalid;
use host::{MSS, PACKET};
use units::{Bytes, Duration, Probability, Rate};

/// A link to tune for, the same each way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bits of IP packets each second.
    pub rate: Rate,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Probability that a packet is lost, each way.
    pub loss: Probability,
    /// What waits before the link at most.
    pub queue: Bytes,
    /// Whether others' traffic uses it, or a network beyond it.
    pub shared: bool,
}

/// What is transferred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// The size of each transfer.
    pub size: Bytes,
    /// How many go on at once, each over a connection of its own.
    pub flows: u32,
    /// Which way.
    pub direction: Direction,
}

/// Which rules size the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Linux today: buffers grow as they are used, so that one that is too large costs little.
    Linux,
    /// Linux 2.2, as in Marchese's study: a buffer is what it is, and half of it is advertised.
    Linux22,
}

/// What may be recommended.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Congestion controls; `None` for CUBIC and, on a link of one's own, BBR.
    pub controls: Option<Vec<Control>>,
    /// This initial window, whatever the rules say.
    pub initial_window: Option<u32>,
    /// Which rules size the buffers.
    pub profile: Profile,
}

/// What to set, and what it brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The window that fills the path.
    pub window: Bytes,
    /// The receive buffer that it takes.
    pub buffer: Bytes,
    /// Both ends as they should be.
    pub host: Host,
    /// The course of a transfer between hosts as they are.
    pub before: Course,
    /// The course between hosts as they should be.
    pub after: Course,
    /// What is unsafe about it, a sentence each.
    pub warnings: Vec<String>,
}

impl Recommendation {
    /// The gain to expect, by [`gain_percent`].
    pub fn gain_percent(&self) -> f64 {
        gain_percent(self.before.time(), self.after.time())
    }
}

/// Marchese's gain: by how many per cent of `reference` the time fell; 0 if it did not.
pub fn gain_percent(reference: Duration, time: Duration) -> f64 {
    let (reference, time) = (reference.as_secs_f64(), time.as_secs_f64());
    if time < reference { 100.0 * (reference - time) / reference } else { 0.0 }
}

/// What a host as it is should be for `workload` over `link`.
///
/// # Errors
/// Names the parameter that no link or transfer can have.
pub fn recommend(link: &Link, workload: &Workload, now: &Host, choices: &Choices) -> Result<Recommendation, Invalid> {
    check(link, workload, choices)?;
    let window = link.rate.bytes_in(link.rtt).max(Bytes::new(PACKET as u64));
    let room = if link.loss > Probability::ZERO && choices.profile == Profile::Linux { window * 2 } else { window };
    let buffer = in_pages(room.as_u64() as f64 / now.share);
    let controls = match &choices.controls {
        Some(controls) => controls.clone(),
        None if choices.profile == Profile::Linux22 => vec![now.control],
        None if link.shared => vec![Control::Cubic],
        None => vec![Control::Cubic, Control::Bbr],
    };
    let candidates = controls.into_iter().map(|control| {
        let host = sized(&Host { control, ..*now }, buffer, window, link, choices.profile);
        let host = with_initial_window(&host, link, workload, choices);
        let course = course::of(link, workload, &host);
        (host, course)
    });
    let before = course::of(link, workload, now);
    let best = candidates.reduce(|best, other| if is_clearly_faster(&other.1, &best.1) { other } else { best });
    // There is one: a list of none is refused above.
    let (host, after) = best.unwrap_or((*now, before));
    let longest = before.time().max(after.time());
    Invalid::unless(longest < Duration::MAX, "size", workload.size, "what the link delivers within 584 years")?;
    let warnings = warnings::of(link, workload, now, &host, choices);
    Ok(Recommendation { window, buffer, host, before, after, warnings })
}

/// A control that is less fair, or less known, must be worth it.
fn is_clearly_faster(course: &Course, than: &Course) -> bool {
    course.time().as_secs_f64() < 0.95 * than.time().as_secs_f64()
}

/// `host` with buffers for a window.
fn sized(host: &Host, buffer: Bytes, window: Bytes, link: &Link, profile: Profile) -> Host {
    if profile == Profile::Linux22 {
        let whole = Buffer { least: host.receive.least, start: buffer, most: buffer };
        return Host { receive: whole, send: Buffer { least: host.send.least, ..whole }, ..*host };
    }
    // What is sent stays until it is acknowledged: a path's worth, as much again in the queue, and once more during repairs.
    let paths = if link.loss > Probability::ZERO { 3 } else { 2 };
    let send = Buffer { most: host.send.most.max(in_pages((window * paths).as_u64() as f64)), ..host.send };
    let receive = Buffer { most: host.receive.most.max(buffer), ..host.receive };
    Host { receive, send, grows: true, scales_windows: true, ..*host }
}

/// `host` with the smallest initial window that is as good as any, and a first receive window that takes it.
fn with_initial_window(host: &Host, link: &Link, workload: &Workload, choices: &Choices) -> Host {
    let with = |initial_window| for_first_flights(&Host { initial_window, ..*host }, choices.profile);
    if let Some(given) = choices.initial_window {
        return with(given);
    }
    let least = match choices.profile {
        Profile::Linux => Host::LINUX.initial_window,
        Profile::Linux22 => Host::LINUX_2_2.initial_window,
    };
    let most = largest_initial_window(link, workload).max(least);
    // By steps of about a tenth.
    let sizes =
        std::iter::successors(Some(least), |&size| Some((size + (size / 10).max(1)).min(most)).filter(|&s| s > size));
    let timed: Vec<_> =
        sizes.map(with).map(|host| (course::of(link, workload, &host).time().as_secs_f64(), host)).collect();
    let best = timed.iter().map(|(time, _)| *time).fold(f64::INFINITY, f64::min);
    timed.into_iter().find(|(time, _)| *time <= best * 1.02).map_or(with(least), |(_, host)| host)
}

/// Segments that may leave at once: a transfer has no more, a path needs no more, a queue takes no more, and two such flights
/// fit the buffer to which Linux lets any connection grow. On a shared path RFC 6928's.
fn largest_initial_window(link: &Link, workload: &Workload) -> u32 {
    if link.shared {
        return Host::LINUX.initial_window;
    }
    // A tenth of the queue is left to others' packets.
    let queue = 0.9 * link.queue.as_u64() as f64 / PACKET;
    let path = link.rate.bytes_in(link.rtt).as_u64() as f64 / PACKET;
    let transfer = (workload.size.as_u64() as f64 / MSS).ceil();
    let held = Host::LINUX.largest_window().as_u64() as f64 / MSS / 2.0;
    (queue.min(path) / f64::from(workload.flows)).min(transfer).min(held).max(1.0) as u32
}

/// The receive buffer of a new connection must hold the first flight, and the second, which comes before it has grown.
fn for_first_flights(host: &Host, profile: Profile) -> Host {
    if profile == Profile::Linux22 {
        return *host;
    }
    let flights = 2.0 * f64::from(host.initial_window) * MSS;
    let start = in_pages(flights / host.share).max(host.receive.start).min(host.receive.most);
    let receive = Buffer { start, ..host.receive };
    let segments = (start.as_u64() as f64 * host.share / MSS).ceil() as u32;
    let initial_receive_window = host.initial_receive_window.map(|limit| limit.max(segments));
    Host { receive, initial_receive_window, ..*host }
}

/// Whole pages of 4 KiB, as many as the kernel's settings take: numbers of 31 bits.
fn in_pages(bytes: f64) -> Bytes {
    const MOST: u64 = (i32::MAX as u64) >> 12;
    Bytes::new(((bytes / 4096.0).ceil() as u64).min(MOST) << 12)
}

fn check(link: &Link, workload: &Workload, choices: &Choices) -> Result<(), Invalid> {
    let Link { rate, rtt, loss, queue, .. } = *link;
    let possible_rate = (Rate::from_bps(1_000)..=Rate::from_bps(1_000_000_000_000)).contains(&rate);
    Invalid::unless(possible_rate, "rate", rate, "from 1kbit/s to 1Tbit/s")?;
    let possible_rtt = rtt > Duration::ZERO && rtt <= Duration::from_secs(60);
    Invalid::unless(possible_rtt, "rtt", rtt, "above 0s and at most 60s")?;
    Invalid::unless(loss.as_f64() <= 0.5, "loss", loss, "from 0 to 0.5")?;
    Invalid::unless(queue >= Bytes::new(PACKET as u64), "queue", queue, "at least a packet of 1500B")?;
    Invalid::unless(workload.size > Bytes::ZERO, "size", workload.size, "above 0B")?;
    Invalid::unless((1..=10_000).contains(&workload.flows), "flows", workload.flows, "from 1 to 10000")?;
    if let Some(window) = choices.initial_window {
        Invalid::unless((1..=65_535).contains(&window), "initial window", window, "from 1 to 65535 segments")?;
    }
    let none = choices.controls.as_ref().is_some_and(Vec::is_empty);
    Invalid::unless(!none, "controls", "none", "at least one")
}

#[cfg(test)]
mod tests;
