//! The course of a transfer, flight by flight: what the closed forms average over, so that short transfers and different
//! settings can be told apart.
//!
//! A flight of `w` segments takes `w` times a segment's time on the line, or a round trip if that is longer; the rest of that
//! round trip is lost, and belongs to whatever kept the flight small. Random losses come where they are expected, one in
//! `1/p` segments, which is the process behind Mathis' formula and RFC 9438's average window.

use super::host::{Host, MSS, PACKET, UNSCALED_WINDOW};
use super::{Control, Direction, Link, Workload};
use crate::cubic;
use crate::prediction::HYBLA_RTT;
use units::Duration;

/// What keeps a transfer from being faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binding {
    /// The link's rate: nothing is left to gain but at the start.
    Line,
    /// The window is still opening.
    SlowStart,
    /// The receiver's window: its buffer.
    ReceiveWindow,
    /// The sender's buffer.
    SendBuffer,
    /// The congestion control's answer to losses.
    Loss,
}

impl Binding {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Line => "line rate",
            Binding::SlowStart => "slow start",
            Binding::ReceiveWindow => "receive window",
            Binding::SendBuffer => "send buffer",
            Binding::Loss => "loss",
        }
    }
}

/// How the time of a transfer is spent, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Course {
    /// Opening the connection, asking for the data, and the last byte's way.
    pub round_trips: f64,
    /// Bytes on the line.
    pub line: f64,
    /// The line idle while the window opens.
    pub slow_start: f64,
    /// The line idle for want of receive window.
    pub receive_window: f64,
    /// The line idle for want of send buffer.
    pub send_buffer: f64,
    /// The line idle after losses, and repairs.
    pub loss: f64,
    /// Segments that found a queue full.
    pub overflowed: f64,
}

impl Course {
    /// From the client's connect to the receiver's last byte.
    pub fn time(&self) -> Duration {
        Duration::from_secs_f64(
            self.round_trips + self.line + self.slow_start + self.receive_window + self.send_buffer + self.loss,
        )
    }

    /// With `share` of what has been spent since `before` once more.
    fn and_again(self, before: Self, share: f64) -> Self {
        let later = |now: f64, before: f64| now + share * (now - before);
        Self {
            round_trips: self.round_trips,
            line: later(self.line, before.line),
            slow_start: later(self.slow_start, before.slow_start),
            receive_window: later(self.receive_window, before.receive_window),
            send_buffer: later(self.send_buffer, before.send_buffer),
            loss: later(self.loss, before.loss),
            overflowed: later(self.overflowed, before.overflowed),
        }
    }

    /// What costs most beyond the line itself, if it costs a twentieth of the whole; else the line.
    pub fn binding(&self) -> Binding {
        let causes = [
            (self.slow_start, Binding::SlowStart),
            (self.receive_window, Binding::ReceiveWindow),
            (self.send_buffer, Binding::SendBuffer),
            (self.loss, Binding::Loss),
        ];
        let (most, binding) = causes.into_iter().fold((0.0, Binding::Line), |a, b| if b.0 > a.0 { b } else { a });
        if most > self.time().as_secs_f64() / 20.0 { binding } else { Binding::Line }
    }
}

/// The course of each of the transfers of `workload`, all alike, over `link` between hosts that are set up as `host`.
pub fn of(link: &Link, workload: &Workload, host: &Host) -> Course {
    let mut walk = Walk::new(link, workload, host);
    let mut half = (walk.course, walk.left);
    for number in 0..MAX_FLIGHTS {
        if number == MAX_FLIGHTS / 2 {
            half = (walk.course, walk.left);
        }
        if walk.flight() {
            return walk.course;
        }
    }
    // Below this, rounding hides what a flight moves.
    let moved = (half.1 - walk.left).max(1e-9);
    walk.course.and_again(half.0, walk.left / moved)
}

/// After so many flights the rest goes as the later half of them went.
const MAX_FLIGHTS: u32 = 50_000;
/// Flights from which Linux's HyStart looks for the end of slow start, in segments.
const HYSTART_MIN: f64 = 16.0;
/// Longest gap between two acknowledgements that HyStart takes for a train, in seconds.
const HYSTART_GAP: f64 = 2e-3;
/// Segments in a round trip up to which Linux's receive buffer stays as it is.
const DRS_START: f64 = 10.0;
/// BBR's gain at the start: 2/ln 2.
const BBR_STARTUP: f64 = 2.885;
/// How often BBR empties the path, and for how long beside a round trip, in seconds.
const BBR_PROBE_RTT: (f64, f64) = (10.0, 0.2);

/// A transfer under way. Windows are in segments, times in seconds.
struct Walk<'a> {
    host: &'a Host,
    rtt: f64,
    /// Time that the link has for each of this transfer's segments, those lost included.
    segment: f64,
    /// Segments of this transfer that fill the path, and its queue.
    path: f64,
    queue: f64,
    loss: f64,
    left: f64,
    cwnd: f64,
    rwnd: f64,
    largest_rwnd: f64,
    /// The flight before, and the largest before it: what the receive buffer grows by.
    read: f64,
    best_read: f64,
    send_buffer: f64,
    is_slow_start: bool,
    is_first: bool,
    /// Losses that are due.
    due: f64,
    /// Since the last decrease, and the window before it (CUBIC's).
    since_loss: f64,
    cubic_max: f64,
    course: Course,
}

impl<'a> Walk<'a> {
    fn new(link: &Link, workload: &Workload, host: &'a Host) -> Self {
        let rtt = link.rtt.as_secs_f64();
        let flows = f64::from(workload.flows);
        let on_line = PACKET * 8.0 * flows / link.rate.as_bps() as f64;
        let loss = link.loss.as_f64();
        let mut first_window = host.first_window();
        // The first flight of the end that connects knows only the window of the SYN of the other.
        if workload.direction == Direction::Up {
            first_window = first_window.min(UNSCALED_WINDOW);
        }
        let segments = |bytes: units::Bytes| (bytes.as_u64() as f64 / MSS).max(1.0);
        let rho = (rtt / HYBLA_RTT.as_secs_f64()).max(1.0);
        let round_trips = match workload.direction {
            Direction::Up => 1.5,
            Direction::Down => 2.0,
        };
        Self {
            host,
            rtt,
            segment: on_line / (1.0 - loss),
            path: rtt / on_line,
            queue: link.queue.as_u64() as f64 / PACKET / flows,
            loss,
            left: workload.size.as_u64() as f64 / MSS,
            cwnd: if host.control == Control::Hybla { rho.floor() } else { f64::from(host.initial_window) },
            rwnd: segments(first_window),
            largest_rwnd: segments(host.largest_window()),
            read: 0.0,
            best_read: DRS_START,
            send_buffer: segments(host.send.most),
            is_slow_start: true,
            is_first: true,
            due: 0.0,
            since_loss: 0.0,
            cubic_max: 0.0,
            course: Course { round_trips: round_trips * rtt, ..Course::default() },
        }
    }

    /// One flight; says whether it was the last.
    fn flight(&mut self) -> bool {
        let window = self.cwnd.min(self.rwnd).min(self.send_buffer).max(1.0);
        if window >= self.left {
            self.last_flight(window);
            return true;
        }
        let line = window * self.segment;
        let idle = (self.rtt + self.segment - line).max(0.0);
        self.course.line += line;
        *self.cause(window) += idle;
        self.left -= window;
        self.due += window * self.loss;
        let overflow = self.overflow(window);
        self.course.overflowed += overflow;
        self.open_receive_window(window);
        let time = line + idle;
        if overflow > 0.0 {
            // What was dropped is sent again.
            self.left += overflow;
            self.decrease(window - overflow);
        } else if self.due >= 1.0 {
            self.due -= self.due.floor();
            self.decrease(window);
        } else {
            self.grow(window, time);
        }
        self.is_first = false;
        false
    }

    /// The end of it: BBR paces it; and where one of its segments is lost, a round trip repairs it, and another if the repair is lost.
    fn last_flight(&mut self, window: f64) {
        let line = self.left * self.segment;
        self.course.line += line;
        let overflow = self.last_overflow(window).min(self.left);
        if overflow > 0.0 {
            self.course.overflowed += overflow;
            // What is dropped is noticed a round trip later, through a full queue. If drops go on for as long, the line is not idle until then.
            let drops = if self.is_first { 0.0 } else { overflow * self.segment };
            self.course.loss += (self.rtt + self.queue * self.segment) * (1.0 - drops / self.rtt).max(0.0);
        }
        if self.host.control == Control::Bbr && self.is_slow_start {
            // At the rate of the flight before, which was half as large.
            let before = if self.is_first { window } else { window / 2.0 };
            let paced = self.left * self.rtt / (BBR_STARTUP * before);
            self.course.slow_start += (paced - line).max(0.0);
        }
        let tail = self.left.min(self.path).max(1.0);
        self.course.loss += self.rtt * repair_rounds(tail, self.loss);
    }

    /// Where the idle time of a flight belongs.
    fn cause(&mut self, window: f64) -> &mut f64 {
        if window >= self.cwnd {
            if self.is_slow_start { &mut self.course.slow_start } else { &mut self.course.loss }
        } else if window >= self.send_buffer {
            &mut self.course.send_buffer
        } else {
            &mut self.course.receive_window
        }
    }

    /// Segments of a flight that find the queue full. The first flight comes at once; later ones as the acknowledgements of
    /// those before them do, so that the path holds its share.
    fn overflow(&self, window: f64) -> f64 {
        let is_paced = self.host.control == Control::Bbr;
        let room = if self.is_first && !is_paced { self.queue + 1.0 } else { self.path + self.queue };
        (window - room).max(0.0)
    }

    /// Segments of what is left, which is less than a window, that find the queue full. In slow start it joins half of the flight before:
    /// two leave for each that arrives.
    fn last_overflow(&self, window: f64) -> f64 {
        if self.is_first || !self.is_slow_start || self.host.control == Control::Bbr {
            return self.overflow(self.left);
        }
        (window.min(self.read + self.left / 2.0) - self.path - self.queue).max(0.0)
    }

    /// Linux's receive buffer grows to twice what was read in a round trip, and what slow start may add meanwhile. A flight
    /// has been counted when the next one comes, so that its acknowledgements are the first to tell.
    fn open_receive_window(&mut self, flight: f64) {
        let read = std::mem::replace(&mut self.read, flight);
        if self.host.grows && read > self.best_read {
            let twice = 2.0 * read + 16.0;
            self.rwnd = self.rwnd.max(twice + 2.0 * twice * (read - self.best_read) / self.best_read);
            self.best_read = read;
        }
        // From here on windows are scaled.
        let first = self.host.first_window().as_u64() as f64 / MSS;
        self.rwnd = self.rwnd.max(first).min(self.largest_rwnd.max(1.0));
    }

    /// The control's answer to a loss when `window` was under way.
    fn decrease(&mut self, window: f64) {
        self.is_slow_start = match self.host.control {
            Control::Bbr => self.is_slow_start,
            Control::Cubic | Control::Reno | Control::Hybla => false,
        };
        self.since_loss = 0.0;
        match self.host.control {
            Control::Bbr => self.grow(window, 0.0),
            Control::Cubic => {
                self.cubic_max = window;
                self.cwnd = (window * cubic::BETA).max(2.0);
            }
            Control::Reno | Control::Hybla => self.cwnd = (window / 2.0).max(2.0),
        }
    }

    /// A round trip of `time` without a loss.
    fn grow(&mut self, window: f64, time: f64) {
        // A window that is not used up does not grow.
        let is_used = window >= self.cwnd;
        match self.host.control {
            Control::Bbr => self.grow_bbr(window),
            _ if !is_used => {}
            Control::Cubic if self.is_slow_start => self.slow_start_cubic(),
            Control::Hybla if self.is_slow_start => self.cwnd = f64::from(u16::MAX),
            Control::Reno if self.is_slow_start => self.cwnd *= 2.0,
            Control::Cubic => {
                self.since_loss += time;
                let k = ((self.cubic_max - self.cubic_max * cubic::BETA).max(0.0) / cubic::C).cbrt();
                let cubic = cubic::C * (self.since_loss - k).powi(3) + self.cubic_max;
                // Linux has the estimate grow on at this pace (`bictcp_update`), where RFC 9438 (section 4.3) makes it faster.
                let reno = self.cubic_max * cubic::BETA + cubic::FRIENDLY_GAIN * self.since_loss / self.rtt;
                self.cwnd = self.cwnd.max(cubic.min(1.5 * self.cwnd)).max(reno);
            }
            Control::Reno => self.cwnd += 1.0,
            Control::Hybla => self.cwnd += (self.rtt / HYBLA_RTT.as_secs_f64()).max(1.0).powi(2),
        }
    }

    /// Doubling, until acknowledgements that come as a train for half a round trip, or a flight that meets the queue of the one
    /// before it, show that the path is full.
    fn slow_start_cubic(&mut self) {
        let train = self.segment <= HYSTART_GAP && self.cwnd * self.segment >= self.rtt / 2.0;
        let is_late = self.cwnd / 2.0 > self.path + (self.rtt / 8.0).clamp(4e-3, 16e-3) / self.segment;
        let grown = 2.0 * self.cwnd;
        if self.cwnd >= HYSTART_MIN && (train || is_late) {
            self.is_slow_start = false;
            self.cwnd = if is_late { self.cwnd } else { grown.min(self.cwnd + self.path / 2.0) };
            self.cubic_max = self.cwnd;
            self.since_loss = (self.cwnd * (1.0 - cubic::BETA) / cubic::C).cbrt();
        } else {
            self.cwnd = grown;
        }
    }

    /// Doubling up to the path, and then the path less what probing for the round-trip time costs.
    fn grow_bbr(&mut self, window: f64) {
        if window < self.path && self.is_slow_start {
            self.cwnd *= 2.0;
        } else if self.is_slow_start {
            self.is_slow_start = false;
            self.cwnd = self.path + self.queue.min(self.path);
            let (every, length) = BBR_PROBE_RTT;
            let probing = ((length + self.rtt) / every).min(0.5);
            self.segment /= 1.0 - probing;
        }
    }
}

/// How many round trips it takes in the mean until each of `segments` that left together has arrived, the first apart: in each, what
/// was still missing is lost again with probability `loss`.
fn repair_rounds(segments: f64, loss: f64) -> f64 {
    let is_unfinished = |round| 1.0 - (1.0 - loss.powi(round)).powf(segments);
    (1..).map(is_unfinished).take_while(|share| *share > 1e-9).sum()
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
