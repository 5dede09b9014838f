//! Acknowledgements for the tests of single controls: by hand, or from a loss-free path with one bottleneck.

use super::{Ack, Control, Loss, LossState, RateSample, Sent, Start, Window};
use std::collections::VecDeque;
use units::{Duration, Instant};

pub(crate) const MSS: u32 = 1000;

/// One acknowledgement of `segments` segments at the origin of time, nothing lost.
pub(crate) fn ack(segments: u64) -> Ack {
    let acked = segments * u64::from(MSS);
    Ack {
        now: Instant::ZERO,
        mss: MSS,
        acked,
        delivered: acked,
        is_duplicate: false,
        opens_window: false,
        marked: 0,
        rtt: None,
        srtt: Duration::ZERO,
        min_rtt: Duration::ZERO,
        rate: None,
        prior_in_flight: acked,
        in_flight: 0,
        lost: 0,
        una: acked,
        nxt: acked,
        receive_window: u64::MAX / 2,
        is_window_limited: true,
        state: LossState::Open,
    }
}

/// A duplicate.
pub(crate) fn duplicate() -> Ack {
    Ack { acked: 0, delivered: u64::from(MSS), is_duplicate: true, ..ack(1) }
}

impl Ack {
    pub(crate) fn at_millis(self, millis: f64) -> Self {
        Self { now: Instant::from_nanos((millis * 1e6) as u64), ..self }
    }

    /// The loss that it shows, with `flight` segments outstanding.
    pub(crate) fn loss(&self, flight: u64) -> Loss {
        Loss {
            now: self.now,
            mss: self.mss,
            flight: flight * u64::from(self.mss),
            nxt: self.nxt,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            expiries: 0,
            state: LossState::Open,
        }
    }
}

/// A greedy sender with the control under test, a bottleneck with an endless queue, and a receiver that acknowledges
/// each segment.
pub(crate) struct Path {
    pub(crate) control: Box<dyn Control>,
    pub(crate) window: Window,
    pub(crate) now: Instant,
    pub(crate) propagation: Duration,
    /// Segments per second.
    pub(crate) capacity: f64,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) smoothed: f64,
    /// Sent and not acknowledged.
    in_flight: VecDeque<Segment>,
    link_free: Instant,
    may_send: Instant,
    min_rtt: Duration,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    sent: Instant,
    arrives: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    in_flight: u64,
}

impl Path {
    pub(crate) fn new(control: Box<dyn Control>, initial_window: f64, propagation: Duration, capacity: f64) -> Self {
        let mut path = Self {
            control,
            window: Window { cwnd: initial_window, ssthresh: f64::INFINITY },
            now: Instant::ZERO + propagation,
            propagation,
            capacity,
            una: 0,
            nxt: 0,
            smoothed: propagation.as_secs_f64(),
            in_flight: VecDeque::new(),
            link_free: Instant::ZERO,
            may_send: Instant::ZERO,
            min_rtt: propagation,
            delivered: 0,
            delivered_at: Instant::ZERO + propagation,
            first_sent: Instant::ZERO + propagation,
        };
        let start =
            Start { now: path.now, mss: MSS, rtt: Some(propagation), receive_window: u64::MAX / 2, has_sack: true };
        path.control.on_connected(&start, &mut path.window);
        path
    }

    /// Until all that is outstanding now is acknowledged.
    pub(crate) fn round(&mut self) -> Window {
        self.send();
        let end = self.nxt;
        while self.una < end {
            self.step();
        }
        self.window
    }

    /// Until `duration` has passed; gives the segments that were acknowledged in it.
    pub(crate) fn run(&mut self, duration: Duration) -> f64 {
        let (end, una) = (self.now + duration, self.una);
        while self.now < end {
            self.step();
        }
        (self.una - una) as f64 / f64::from(MSS)
    }

    pub(crate) fn flight(&self) -> u64 {
        self.nxt - self.una
    }

    /// The next acknowledgement, or the next time at which the pacer lets a segment go.
    pub(crate) fn step(&mut self) {
        self.send();
        let arrival = self.in_flight.front().map_or(Instant::FAR_FUTURE, |segment| segment.arrives);
        let window_open = self.flight() + u64::from(MSS) <= (self.window.cwnd * f64::from(MSS)) as u64;
        if window_open && self.may_send < arrival {
            self.now = self.may_send;
            return;
        }
        let segment = self.in_flight.pop_front().expect("a window is never zero");
        self.now = arrival;
        self.receive(segment);
    }

    fn receive(&mut self, segment: Segment) {
        let rtt = self.now.since(segment.sent);
        self.min_rtt = self.min_rtt.min(rtt);
        self.smoothed += (rtt.as_secs_f64() - self.smoothed) / 8.0;
        let prior_in_flight = self.flight();
        self.una += u64::from(MSS);
        self.delivered += u64::from(MSS);
        self.delivered_at = self.now;
        self.first_sent = segment.sent;
        let rate = RateSample {
            delivered: self.delivered - segment.delivered,
            interval: segment.sent.since(segment.first_sent).max(self.now.since(segment.delivered_at)),
            prior_delivered: segment.delivered,
            total_delivered: self.delivered,
            total_lost: 0,
            lost: 0,
            in_flight_at_send: segment.in_flight,
            is_app_limited: false,
            is_reliable: true,
        };
        let ack = Ack {
            now: self.now,
            rtt: Some(rtt),
            srtt: Duration::from_secs_f64(self.smoothed),
            min_rtt: self.min_rtt,
            rate: Some(rate),
            prior_in_flight,
            in_flight: self.flight(),
            una: self.una,
            nxt: self.nxt,
            ..ack(1)
        };
        self.control.on_ack(&ack, &mut self.window);
        if !self.control.governs_window() {
            self.control.grow(&ack, &mut self.window);
        }
    }

    fn send(&mut self) {
        while self.flight() + u64::from(MSS) <= (self.window.cwnd * f64::from(MSS)) as u64 && self.may_send <= self.now
        {
            if self.in_flight.is_empty() {
                self.first_sent = self.now;
                self.delivered_at = self.now;
            }
            let departs = self.link_free.max(self.now) + Duration::from_secs_f64(1.0 / self.capacity);
            self.link_free = departs;
            self.nxt += u64::from(MSS);
            self.in_flight.push_back(Segment {
                sent: self.now,
                arrives: departs + self.propagation,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent: self.first_sent,
                in_flight: self.flight(),
            });
            self.control.on_sent(&Sent {
                now: self.now,
                bytes: u64::from(MSS),
                size: u64::from(MSS) + 52,
                in_flight: self.flight(),
                is_retransmission: false,
                nxt: self.nxt,
            });
            if let Some(rate) = self.control.pacing_rate(&self.window) {
                let gap = f64::from(MSS) * 8.0 / rate.as_bps().max(1) as f64;
                self.may_send = self.may_send.max(self.now) + Duration::from_secs_f64(gap);
            }
        }
    }
}
