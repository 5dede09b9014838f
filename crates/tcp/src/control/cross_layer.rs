//! The cross-layer window: what the link's capacity, as the layer below reports it, holds in a round trip, shared among
//! the connections (Kim et al., with a PEP that asks the terminal's DAMA agent).

use super::{Ack, Control, Loss, Start, Window};
use crate::config::{Allocation, Capacity, Config};
use model::cross_layer::MIN;
use units::{Bytes, Duration, Instant, Rate};

/// The window of [`model::cross_layer`], for the smallest round-trip time that was measured and what may wait at the link. A window
/// leaves in a round trip, so that a larger one fills over one; a smaller one holds at once for new data. A loss changes nothing.
#[derive(Debug)]
pub(crate) struct CrossLayer {
    header_share: f64,
    /// The capacity, and the round-trip time without what waits at the link.
    capacity: Option<Capacity>,
    mss: u32,
}

impl CrossLayer {
    /// A path that is longer by less is the same one: what waits beside the queue in host and link.
    const ROUNDING: Duration = Duration::from_millis(5);

    pub(crate) fn new(config: &Config) -> Self {
        Self { header_share: config.tuning.header_share, capacity: config.capacity, mss: config.mss }
    }

    fn segments(&self) -> f64 {
        self.capacity.map_or(MIN, |Capacity { allocation: Allocation { rate, connections, .. }, rtt, target_queue }| {
            let payload = Bytes::new(self.mss.into());
            model::cross_layer::segments(rate, rtt + target_queue, self.header_share, payload, connections)
        })
    }

    /// The smallest round-trip time of late is `rtt`. On a link that this control has kept full for so long, the queue is in it: to take
    /// that for the path would add another one.
    fn measured(&mut self, rtt: Duration) {
        let Some(Capacity { rtt: path, target_queue, .. }) = self.capacity.as_mut().filter(|_| !rtt.is_zero()) else {
            return;
        };
        let queue = *target_queue;
        if rtt < *path || queue.is_zero() || path.is_zero() {
            *path = rtt;
        } else if rtt > *path + queue + Self::ROUNDING {
            *path = rtt.saturating_sub(queue);
        }
    }
}

impl Control for CrossLayer {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        if let (Some(rtt), Some(capacity)) = (start.rtt.filter(|rtt| !rtt.is_zero()), &mut self.capacity) {
            capacity.rtt = rtt;
        }
        window.cwnd = self.segments();
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.measured(ack.min_rtt);
        window.cwnd = self.segments();
    }

    fn grow(&mut self, _ack: &Ack, _window: &mut Window) {}

    fn on_loss(&mut self, _loss: &Loss, _window: &mut Window) {}

    /// Two segments, until the next acknowledgement.
    fn on_timeout(&mut self, _timeout: &Loss, window: &mut Window) {
        window.cwnd = MIN;
    }

    fn on_cross_layer(&mut self, _now: Instant, allocation: Allocation, window: &mut Window) {
        let before = self.capacity.unwrap_or(Capacity::new(allocation, Duration::ZERO));
        self.capacity = Some(Capacity { allocation, ..before });
        window.cwnd = self.segments();
    }

    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        let Capacity { allocation, rtt, .. } = self.capacity?;
        let window = self.segments() * f64::from(self.mss) * 8.0;
        (!rtt.is_zero()).then(|| Rate::from_bps((window / rtt.as_secs_f64()) as u64).max(allocation.pace))
    }

    fn governs_window(&self) -> bool {
        true
    }

    fn phase(&self, _window: &Window) -> &'static str {
        "cross-layer"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;
    use crate::profile::Profile;

    fn allocation(bps: u64, connections: u32) -> Allocation {
        Allocation::new(Rate::from_bps(bps), connections)
    }

    fn control(connections: u32) -> CrossLayer {
        let capacity = Capacity::new(allocation(8_000_000, connections), Duration::from_millis(500));
        CrossLayer::new(&Config { mss: 1460, capacity: Some(capacity), ..Config::new(Profile::Rfc) })
    }

    fn window_of(control: &mut CrossLayer) -> f64 {
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let ack = Ack { mss: 1460, min_rtt: Duration::from_millis(500), ..ack(1) };
        control.on_ack(&ack, &mut window);
        window.cwnd
    }

    #[test]
    fn the_window_is_that_of_the_paper_and_is_shared() {
        for (connections, expected) in [(1, 326.0), (2, 163.0), (10, 32.0)] {
            assert_eq!(window_of(&mut control(connections)), expected);
        }
    }

    #[test]
    fn what_may_wait_is_part_of_the_round_trip_of_the_window_and_not_of_the_pacing() {
        let allocation = allocation(8_000_000, 1);
        let rtt = Duration::from_millis(500);
        let capacity = Capacity { target_queue: Duration::from_millis(20), ..Capacity::new(allocation, rtt) };
        let mut control = CrossLayer::new(&Config { mss: 1460, capacity: Some(capacity), ..Config::new(Profile::Rfc) });
        assert_eq!(window_of(&mut control), 339.0);
        let rate = control.pacing_rate(&Window { cwnd: 339.0, ssthresh: f64::INFINITY }).expect("a rate");
        assert_eq!(rate.as_bps(), 339 * 1460 * 8 * 2);
    }

    #[test]
    fn half_the_capacity_halves_the_window_at_once_and_none_leaves_two_segments() {
        let mut control = control(1);
        let mut window = Window { cwnd: 326.0, ssthresh: f64::INFINITY };
        control.on_cross_layer(Instant::ZERO, allocation(4_000_000, 1), &mut window);
        assert_eq!((window.cwnd, window_of(&mut control)), (163.0, 163.0));
        control.on_cross_layer(Instant::ZERO, allocation(0, 1), &mut window);
        assert_eq!((window.cwnd, window_of(&mut control)), (2.0, 2.0));
        control.on_cross_layer(Instant::ZERO, allocation(8_000_000, 0), &mut window);
        assert_eq!(window_of(&mut control), 326.0);
    }

    #[test]
    fn a_window_leaves_in_a_round_trip() {
        let control = control(1);
        let rate = control.pacing_rate(&Window { cwnd: 326.0, ssthresh: f64::INFINITY }).expect("a rate");
        let needed = 326.0 * 1460.0 * 8.0 / 0.5;
        assert!((0.99..=1.0).contains(&(rate.as_bps() as f64 / needed)), "{rate}");
    }

    #[test]
    fn a_loss_changes_nothing_and_a_timeout_only_until_the_next_acknowledgement() {
        let mut control = control(1);
        let mut window = Window { cwnd: 326.0, ssthresh: f64::INFINITY };
        control.on_loss(&ack(1).loss(300), &mut window);
        assert_eq!(window.cwnd, 326.0);
        control.on_timeout(&ack(1).loss(300), &mut window);
        assert_eq!(window.cwnd, 2.0);
        assert_eq!(window_of(&mut control), 326.0);
    }
}
