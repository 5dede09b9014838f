//! Where the prediction does not hold, and why.

use super::{Control, Direction, Link, Transfer};
use crate::mathis;
use units::{Duration, Probability};

/// Packets of link and queue below which single packets decide: an initial window of ten is as large.
const FEW_PACKETS: f64 = 100.0;

/// What slow start comes to in a smaller share of transfers changes their mean little.
const RARELY: f64 = 0.05;

/// Segments of a window below which those that it has no room for, or that wait for their acknowledgement, count.
const SMALL_WINDOW: u64 = 20;

/// Acknowledgements of later segments from which a segment counts as lost.
const DUPLICATES: u64 = 3;

/// How long a receiver may wait for a second segment before it acknowledges one, as Linux and most others do; RFC 9293, 3.8.6.3 allows 0.5 s.
const DELAYED_ACK: Duration = Duration::from_millis(200);

/// Why the prediction of `time` may be wrong.
pub(super) fn of(link: &Link, transfer: &Transfer, data: f64, time: Duration) -> Option<String> {
    let mut doubts = Vec::new();
    if transfer.control != Control::Bbr && link.loss.as_f64() > mathis::MAX_LOSS {
        doubts.push(format!(
            "loss {} is above {}: timeouts, which the windows from loss to loss leave out, take over",
            link.loss,
            mathis::MAX_LOSS
        ));
    }
    if transfer.control == Control::Hybla && link.loss > Probability::ZERO {
        doubts.push(
            "Hybla's large windows lose many segments at once, and what repairing them costs is not modelled"
                .to_owned(),
        );
    }
    doubts.extend(overflow(link, transfer, data).map(str::to_owned));
    doubts.extend(small_window(transfer, data, time));
    doubts.extend(losses_without_duplicates(link, transfer));
    if transfer.control == Control::Bbr {
        doubts.push("BBR has no closed form: it is taken to fill window and line, whatever is lost".to_owned());
    }
    (!doubts.is_empty()).then(|| doubts.join("; "))
}

/// What windows of few segments leave unsaid: a sender waits for room for a whole segment (RFC 9293, 3.8.6.2.1), and a receiver for a second one.
fn small_window(transfer: &Transfer, data: f64, time: Duration) -> Option<String> {
    let acknowledged = transfer.mss.as_u64().saturating_mul(u64::from(transfer.ack_every));
    let is_limited = |window: u64| window < transfer.size.as_u64() && window / transfer.mss.as_u64() < SMALL_WINDOW;
    let window = transfer.window.map(units::Bytes::as_u64);
    if window.is_some_and(|window| window < transfer.size.as_u64() && window < acknowledged) {
        return Some(
            "the window has less than one acknowledgement covers: each window is acknowledged late, and that delay is not modelled"
                .to_owned(),
        );
    }
    if window.is_some_and(|window| is_limited(window) && window % acknowledged != 0) {
        return Some(format!(
            "a window of fewer than {SMALL_WINDOW} segments that is no multiple of {}, what one acknowledgement covers, carries less: segments are \
             whole, and a single one is acknowledged late",
            units::Bytes::new(acknowledged)
        ));
    }
    let first = transfer.initial_window;
    // In simulated uploads, one segment less does not wait.
    let before = if transfer.direction == Direction::Up { 1.0 } else { 0.0 };
    let waits = first + before < f64::from(transfer.ack_every) && data > first;
    (waits && time < DELAYED_ACK * 20).then(|| {
        "an initial window of fewer segments than one acknowledgement covers is acknowledged late, and that delay is not modelled".to_owned()
    })
}

/// A loss is repaired fast after three acknowledgements of what was sent behind it (RFC 5681, section 3.2): a window of three segments has two at most.
fn losses_without_duplicates(link: &Link, transfer: &Transfer) -> Option<String> {
    let window = transfer.window.filter(|window| *window < transfer.size)?;
    let segments = window.as_u64() / transfer.mss.as_u64();
    let is_lossy = transfer.control != Control::Bbr && link.loss > Probability::ZERO;
    (is_lossy && segments < DUPLICATES + 1).then(|| {
        format!(
            "a window of fewer than {} segments has too few behind a lost one for duplicates: each loss waits for a timer, which is not modelled",
            DUPLICATES + 1
        )
    })
}

/// What an overflow of the queue leaves unsaid, where there may be one.
fn overflow(link: &Link, transfer: &Transfer, data: f64) -> Option<&'static str> {
    let start = SlowStart::new(link, transfer, data)?;
    match transfer.control {
        Control::Bbr => None,
        Control::Hybla if data > start.queue => {
            Some("Hybla's slow start may overflow the queue, and what that costs is not modelled")
        }
        _ if !start.first_fits() => Some("the initial window overflows the queue, and what that costs is not modelled"),
        _ if start.fits() && start.bursts_fit() => None,
        _ if start.is_short() && (!start.bursts_fit() || start.may_fill()) => {
            Some("slow start overflows a short queue, and what that costs is not modelled")
        }
        _ if start.product + start.queue < FEW_PACKETS => {
            Some("slow start overflows link and queue of so few packets, and what that costs is not modelled")
        }
        _ => None,
    }
}

/// Whether windows that double outgrow link and queue, or their bursts the queue, before the data end.
pub(super) fn overflows(link: &Link, transfer: &Transfer, data: f64) -> bool {
    SlowStart::new(link, transfer, data)
        .is_some_and(|start| !start.first_fits() || !start.bursts_fit() || start.may_fill())
}

/// Windows that double before a queue, in segments.
struct SlowStart {
    initial: f64,
    window: f64,
    data: f64,
    loss: f64,
    queue: f64,
    product: f64,
}

impl SlowStart {
    /// None where the queue has no end.
    fn new(link: &Link, transfer: &Transfer, data: f64) -> Option<Self> {
        let packet = (transfer.mss + transfer.header).as_u64() as f64;
        let mss = transfer.mss.as_u64() as f64;
        Some(Self {
            initial: transfer.initial_window,
            window: transfer.window.map_or(f64::INFINITY, |window| window.as_u64() as f64 / mss),
            data,
            loss: link.loss.as_f64(),
            queue: link.queue?.as_u64() as f64 / packet,
            product: link.rate.bytes_in(link.rtt).as_u64() as f64 / packet,
        })
    }

    /// A window that doubles each round trip has sent twice as much as it is. Often enough all of that arrives, whatever is lost on average.
    fn may_reach(&self, most: f64) -> bool {
        let sent = 2.0 * most;
        self.window > most && self.data > sent && (1.0 - self.loss).powf(sent) > RARELY
    }

    /// Whether it may outgrow link and queue.
    fn may_fill(&self) -> bool {
        self.may_reach(self.product + self.queue)
    }

    /// A round of slow start leaves at twice the line's rate: half of its window waits.
    fn bursts_fit(&self) -> bool {
        !self.may_reach(2.0 * self.queue)
    }

    fn fits(&self) -> bool {
        self.window.min(self.data) <= 0.9 * (self.product + self.queue)
    }

    /// The first window leaves at once: a packet of it is sent while the others wait.
    fn first_fits(&self) -> bool {
        self.initial.min(self.data).min(self.window) <= self.queue.floor() + 1.0
    }

    /// Less than a packet does not make it short.
    fn is_short(&self) -> bool {
        self.queue + 1.0 <= self.product
    }
}
