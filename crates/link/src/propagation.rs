//! When a packet that was sent arrives at the far end.

use crate::steps::Timeline;
use crate::{Handover, LinkConfig};
use units::{CounterRandom, Duration, Instant};

/// The delay of the way, and the outages at handovers.
#[derive(Debug)]
pub(crate) struct Propagation {
    delay: Delay,
    keep_order: bool,
    /// The latest arrival of those that arrive in order.
    latest: Instant,
    outages: Option<Outages>,
}

#[derive(Debug)]
enum Delay {
    Constant(Duration),
    Varying { nanos: Timeline, start: Instant },
}

/// An outage at the beginning of each period: draw n gives the length of the n-th.
#[derive(Debug)]
struct Outages {
    period: u64,
    longest: u64,
    draws: CounterRandom,
}

impl Propagation {
    pub(crate) fn new(config: &LinkConfig, start: Instant, draws: CounterRandom, outages: CounterRandom) -> Self {
        let varying = |nanos| Delay::Varying { nanos, start };
        let delay = match (&config.handover, &config.delay_steps) {
            (Some(Handover { period, delay: [low, high], .. }), _) => {
                let [period, low, high] = [period, low, high].map(|duration| duration.as_nanos());
                varying(Timeline::Drawn { period, low, high, draws })
            }
            (None, Some(steps)) => varying(steps.timeline(config.delay, Duration::as_nanos)),
            (None, None) => Delay::Constant(config.delay),
        };
        let outages = config.handover.filter(|handover| !handover.outage.is_zero()).map(|handover| Outages {
            period: handover.period.as_nanos(),
            longest: handover.outage.as_nanos(),
            draws: outages,
        });
        Self { delay, keep_order: config.keep_order, latest: Instant::ZERO, outages }
    }

    /// Whether all packets take the same time.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.delay, Delay::Constant(_))
    }

    /// How long the way is for what is sent `elapsed` after the start.
    pub(crate) fn delay(&self, elapsed: Duration) -> Duration {
        match &self.delay {
            Delay::Constant(delay) => *delay,
            Delay::Varying { nanos, .. } => Duration::from_nanos(nanos.at(elapsed.as_nanos()).value),
        }
    }

    /// When a packet arrives whose last bit is sent at `sent_at`, and whether it overtakes those that were sent before.
    #[inline]
    pub(crate) fn arrival(&mut self, sent_at: Instant) -> (Instant, bool) {
        match &self.delay {
            Delay::Constant(delay) => (sent_at + *delay, false),
            Delay::Varying { nanos, start } => {
                let delay = nanos.at(sent_at.since(*start).as_nanos()).value;
                let arrival = sent_at + Duration::from_nanos(delay);
                if arrival < self.latest && !self.keep_order {
                    return (arrival, true);
                }
                self.latest = self.latest.max(arrival);
                (self.latest, false)
            }
        }
    }

    /// What is on the way is lost: nothing waits for it to arrive.
    pub(crate) fn forget(&mut self) {
        self.latest = Instant::ZERO;
    }

    /// Whether a packet is lost whose last bit is sent `elapsed` after the start.
    #[inline]
    pub(crate) fn is_out(&self, elapsed: Duration) -> bool {
        let Some(Outages { period, longest, draws }) = &self.outages else { return false };
        let (n, since) = (elapsed.as_nanos() / period, elapsed.as_nanos() % period);
        // The first satellite is in sight from the start.
        n > 0 && (since as f64) < draws.unit_at(n) * *longest as f64
    }
}
