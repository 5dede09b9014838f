//! One peer's stamps: for how long packets queued, by that peer's clock alone.
//!
//! The difference of a stamp and the time of sending holds the clocks' offset, the path and the queue. Lateness of hosts, of frames of
//! the air interface and of reordering only adds to it, so that of a few packets the least delayed counts: a point. What a point has
//! beyond the least of the last half minute is its queueing delay.

/// Of a packet: when it was sent and arrived, in seconds on two clocks, and how many bytes had entered the link with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) sent: f64,
    pub(super) arrived: f64,
    pub(super) position: f64,
    /// Of those, what was sent to this peer.
    pub(super) own: f64,
}

impl Sample {
    pub(super) fn delay(&self) -> f64 {
        self.arrived - self.sent
    }
}

/// The least delayed packet of a few, and for how long it queued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) sent: f64,
    pub(super) position: f64,
    pub(super) own: f64,
    /// Bytes of cross traffic that had entered the link by then beyond those in `position`.
    pub(super) lag: f64,
    pub(super) queue: f64,
    pub(super) counts: Counts,
}

/// What a report says beside stamps.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Counts {
    /// Bytes that the peer has received, and that were lost.
    pub(super) received: f64,
    pub(super) lost: f64,
    /// Bytes that were counted as lost and have arrived after all.
    pub(super) late: f64,
    /// When the newest packet arrived, and by which peer's clock.
    pub(super) newest: f64,
    pub(super) clock: usize,
}

impl Counts {
    /// Seconds since others, if one clock tells.
    pub(super) fn since(&self, earlier: &Self) -> Option<f64> {
        let took = self.newest - earlier.newest;
        (self.clock == earlier.clock && took > 0.0).then_some(took)
    }
}

impl Point {
    /// Bytes that had entered the link, as far as is known by now.
    pub(super) fn entered(&self) -> f64 {
        self.position + self.lag
    }

    /// Seconds from the arrival of an earlier point to this: no clock's offset is in it.
    pub(super) fn arrived_since(&self, earlier: &Self) -> f64 {
        self.sent - earlier.sent + self.queue - earlier.queue
    }

    /// Bytes per second that the link carried between the two. They are counted as sent: what was lost behind the queue was carried.
    pub(super) fn rate_since(&self, earlier: &Self) -> f64 {
        (self.entered() - earlier.entered()) / self.arrived_since(earlier).max(1e-6)
    }

    /// Bytes per second that were sent between the two.
    pub(super) fn sent_since(&self, earlier: &Self) -> f64 {
        (self.entered() - earlier.entered()) / (self.sent - earlier.sent).max(1e-6)
    }
}

/// Stamps that are not yet a point.
#[derive(Debug, Clone, Copy)]
struct Window {
    began: f64,
    ended: f64,
    count: u32,
    least: Sample,
}

/// Finds points and their queueing delays.
#[derive(Debug, Default)]
pub(super) struct Delays {
    window: Option<Window>,
    /// When each period began, by the peer's clock, and its least delay; the newest first.
    least: [Option<(f64, f64)>; 3],
    previous: Option<f64>,
    /// How far the delay wanders from point to point without a cause, in seconds.
    noise: Option<f64>,
}

impl Delays {
    /// Fewer stamps than this are all late now and then.
    const STAMPS: u32 = 4;
    /// The least delay is that of the last two to three of these. Clocks 100 ppm apart drift by 3 ms in them.
    const PERIOD: f64 = 10.0;
    /// A busy host's stalls would otherwise be taken for the usual.
    const MOST_NOISE: f64 = 0.02;
    const FIRST_NOISE: f64 = 0.0005;
    /// The mean is over some thirty points: two seconds of a slow link.
    const NOISE_WEIGHT: f64 = 0.03;

    pub(super) fn noise(&self) -> f64 {
        self.noise.unwrap_or(Self::FIRST_NOISE)
    }

    /// The least delay of late, the offset of the clocks included.
    pub(super) fn base(&self) -> Option<f64> {
        self.least.iter().flatten().map(|(_, least)| *least).reduce(f64::min)
    }

    /// Takes in a packet's stamp.
    pub(super) fn add(&mut self, sample: Sample) {
        if self.window.is_some_and(|window| sample.arrived < window.began - Self::PERIOD) {
            // The clock was set back.
            self.window = None;
        }
        let window =
            self.window.get_or_insert(Window { began: sample.arrived, ended: sample.arrived, count: 0, least: sample });
        window.count += 1;
        window.ended = sample.arrived;
        if sample.delay() < window.least.delay() {
            window.least = sample;
        }
    }

    /// A point, if stamps of `length` seconds and enough of them have come in. `is_steady` says that the queue is not known to change, so that what wanders is noise.
    pub(super) fn take(&mut self, length: f64, counts: Counts, is_steady: bool) -> Option<Point> {
        let window = *self
            .window
            .as_ref()
            .filter(|window| window.count >= Self::STAMPS && window.ended - window.began >= length)?;
        self.window = None;
        let Sample { sent, arrived, position, own } = window.least;
        let delay = window.least.delay();
        if self.least[0].is_none_or(|(began, _)| (arrived - began).abs() > Self::PERIOD) {
            self.least = [Some((arrived, delay)), self.least[0], self.least[1]];
        }
        if let Some((_, least)) = &mut self.least[0] {
            *least = least.min(delay);
        }
        let queue = delay - self.base().unwrap_or(delay);
        if let Some(previous) = self.previous.replace(queue).filter(|_| is_steady) {
            let noise = self.noise();
            let wander = (queue - previous).abs().min(Self::MOST_NOISE);
            self.noise = Some(noise + Self::NOISE_WEIGHT * (wander - noise));
        }
        Some(Point { sent, position, own, lag: 0.0, queue, counts })
    }

    /// What seemed to be a queue of `seconds` is the path, or a clock that was set.
    pub(super) fn shift(&mut self, seconds: f64) {
        self.least.iter_mut().flatten().for_each(|(_, least)| *least += seconds);
        self.previous = Some(0.0);
    }

    /// What comes next does not follow from what was before.
    pub(super) fn interrupt(&mut self) {
        (self.window, self.previous) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: f64 = -99_731.25;

    /// Points of a packet each 5 ms that queue as `queue` says of their number.
    fn points(delays: &mut Delays, numbers: std::ops::Range<u32>, queue: impl Fn(u32) -> f64) -> Vec<Point> {
        let mut points = Vec::new();
        for number in numbers {
            let sent = f64::from(number) * 0.005;
            let (arrived, position) = (sent + 0.27 + queue(number) + OFFSET, f64::from(number) * 1500.0);
            delays.add(Sample { sent, arrived, position, own: position });
            points.extend(delays.take(0.02, Counts::default(), true));
        }
        points
    }

    #[test]
    fn the_least_delayed_of_a_few_counts_whatever_the_clocks() {
        let mut delays = Delays::default();
        let late = |number: u32| if number.is_multiple_of(3) { 0.0 } else { 0.004 * f64::from(number % 5) };
        let points = points(&mut delays, 0..4000, late);
        assert!(points.len() > 700 && points.iter().all(|point| point.queue.abs() < 1e-6));
        assert!(delays.noise() < 1e-4);
    }

    #[test]
    fn rates_between_points_are_those_of_the_link() {
        let mut delays = Delays::default();
        // 1500 bytes each 5 ms, of which the link carries 1500 each 6 ms.
        let points = points(&mut delays, 0..400, |number| 0.001 * f64::from(number));
        let (first, last) = (points.first().unwrap(), points.last().unwrap());
        assert!((last.rate_since(first) - 250_000.0).abs() < 500.0, "{}", last.rate_since(first));
        assert!((last.sent_since(first) - 300_000.0).abs() < 500.0);
    }

    #[test]
    fn a_longer_way_is_no_queue_once_that_is_known_and_drift_is_followed() {
        let mut delays = Delays::default();
        points(&mut delays, 0..400, |_| 0.0);
        let queued = points(&mut delays, 400..800, |_| 0.06);
        assert!(queued.iter().skip(2).all(|point| (point.queue - 0.06).abs() < 1e-6));
        delays.shift(0.06);
        assert!(points(&mut delays, 800..900, |_| 0.06).iter().all(|point| point.queue.abs() < 1e-6));
        let mut delays = Delays::default();
        let drifting = points(&mut delays, 0..40_000, |number| 1e-4 * 0.005 * f64::from(number));
        assert!(drifting.iter().all(|point| point.queue < 0.0031));
    }
}
