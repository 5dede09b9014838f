//! Random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993), gentle as in Floyd's note of 2000:
//! what arrives is dropped, or marked, with a probability that follows the average queue.

use super::fifo::Fifo;
use super::{Fate, Signal};
use units::{Bytes, Duration, Instant};

/// RED's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    /// Average queues below let everything pass.
    pub(crate) min: Bytes,
    /// The probability reaches `max_probability` here, and 1 at twice of it.
    pub(crate) max: Bytes,
    pub(crate) max_probability: f64,
    /// Of each arrival in the average.
    pub(crate) weight: f64,
    /// What the transmission of a full packet takes: an idle time counts as so many arrivals at an empty queue.
    pub(crate) transmission: Duration,
    pub(crate) ecn: bool,
}

/// Where the control of a queue stands.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The average queue in bytes.
    average: f64,
    /// Arrivals since the last drop or mark while the average was above the minimum.
    count: f64,
    /// Since when the queue is empty and not in the average, if it is.
    idle_since: Option<Instant>,
}

impl State {
    /// What becomes of a packet that arrives at `now`, by a draw from 0 to 1.
    pub(super) fn admit<P>(&mut self, now: Instant, law: &Law, fifo: &Fifo<P>, draw: f64) -> Fate {
        self.measure(now, law, fifo.bytes());
        let (min, max) = (law.min.as_u64() as f64, law.max.as_u64() as f64);
        // Who finds an empty queue passes, as in Floyd's program in ns-2: where only senders that wait for their timers are left, their few
        // packets would be dropped for the average of the past.
        if self.average < min || fifo.packets() <= 1 {
            self.count = 0.0;
            return Fate::Enters;
        }
        if self.average >= 2.0 * max {
            self.count = 0.0;
            return Fate::Signals(Signal::Drop);
        }
        self.count += 1.0;
        let base = if self.average < max {
            law.max_probability * (self.average - min) / (max - min)
        } else {
            law.max_probability + (1.0 - law.max_probability) * (self.average - max) / max
        };
        // So that distances between drops are uniform rather than geometric.
        let left = 1.0 - self.count * base;
        let probability = if left > 0.0 { (base / left).min(1.0) } else { 1.0 };
        if draw >= probability {
            return Fate::Enters;
        }
        self.count = 0.0;
        Fate::Signals(if law.ecn { Signal::MarkOrDrop } else { Signal::Drop })
    }

    /// A packet arrives at `now`: takes the `queue` that it finds into the average.
    pub(super) fn measure(&mut self, now: Instant, law: &Law, queue: Bytes) {
        // An idle time that a dropped packet interrupts goes on.
        let idle_since = if queue == Bytes::ZERO { self.idle_since.replace(now) } else { None };
        if let Some(since) = idle_since {
            let missed = now.since(since).as_secs_f64() / law.transmission.as_secs_f64().max(1e-9);
            self.average *= (1.0 - law.weight).powf(missed);
        }
        self.average += law.weight * (queue.as_u64() as f64 - self.average);
    }

    /// A packet leaves at `now`.
    pub(super) fn on_popped<P>(&mut self, now: Instant, fifo: &Fifo<P>) {
        self.idle_since = (fifo.packets() == 0).then_some(now);
    }

    /// The queue is empty at `now`, though no packet left it.
    pub(super) fn on_emptied(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }
}
