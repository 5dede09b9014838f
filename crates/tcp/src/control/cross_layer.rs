//! The cross-layer window: what the link's capacity, as the layer below tells it, holds in a round trip, shared among
//! the connections (Kim et al., with a PEP that asks the terminal's DAMA agent).

use super::{Ack, Control, ControlKind, Loss, Start, Window};
use crate::config::{Capacity, Config};
use model::cross_layer::LEAST;
use units::{Bytes, Duration, Instant, Rate};

/// A window computed from the capacity.
pub(crate) const KIND: ControlKind = ControlKind {
    name: "cross-layer",
    about: "the share of the link's capacity in a round trip, as the layer below tells it (Kim et al.)",
    new: |config| Box::new(CrossLayer::new(config)),
};

/// The window of [`model::cross_layer`], for the smallest round-trip time: a smoothed one would grow with the queue that the
/// window makes, without bound. A larger window fills over one round trip, because segments leave at the share's rate; a
/// smaller one holds at once for new data. A loss changes nothing.
#[derive(Debug)]
pub(crate) struct CrossLayer {
    header_share: f64,
    /// The capacity, and the smallest round-trip time so far.
    capacity: Option<Capacity>,
    mss: u32,
}

impl CrossLayer {
    pub(crate) fn new(config: &Config) -> Self {
        Self { header_share: config.tuning.header_share, capacity: config.capacity, mss: config.mss }
    }

    /// Payload bytes per second of this connection.
    fn share(&self) -> Option<f64> {
        let capacity = self.capacity?;
        Some(model::cross_layer::share(capacity.rate, self.header_share, capacity.connections))
    }

    fn segments(&self) -> f64 {
        self.capacity.map_or(LEAST, |Capacity { rate, rtt, connections }| {
            model::cross_layer::segments(rate, rtt, self.header_share, Bytes::new(self.mss.into()), connections)
        })
    }

    fn measured(&mut self, rtt: Duration) {
        if let Some(capacity) = self.capacity.as_mut().filter(|_| !rtt.is_zero()) {
            capacity.rtt = rtt;
        }
    }
}

impl Control for CrossLayer {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.measured(start.rtt.unwrap_or(Duration::ZERO));
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
        window.cwnd = LEAST;
    }

    fn on_cross_layer(&mut self, _now: Instant, capacity: Rate, connections: u32, window: &mut Window) {
        let rtt = self.capacity.map_or(Duration::ZERO, |capacity| capacity.rtt);
        self.capacity = Some(Capacity { rate: capacity, rtt, connections });
        window.cwnd = self.segments();
    }

    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        self.share().filter(|share| *share > 0.0).map(|share| Rate::from_bps((share * 8.0) as u64))
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
    use crate::config::Profile;
    use crate::control::testing::ack;

    fn control(connections: u32) -> CrossLayer {
        let capacity = Capacity { rate: Rate::from_bps(8_000_000), rtt: Duration::from_millis(500), connections };
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
    fn half_the_capacity_halves_the_window_at_once_and_none_leaves_two_segments() {
        let mut control = control(1);
        let mut window = Window { cwnd: 326.0, ssthresh: f64::INFINITY };
        control.on_cross_layer(Instant::ZERO, Rate::from_bps(4_000_000), 1, &mut window);
        assert_eq!((window.cwnd, window_of(&mut control)), (163.0, 163.0));
        control.on_cross_layer(Instant::ZERO, Rate::ZERO, 1, &mut window);
        assert_eq!((window.cwnd, window_of(&mut control)), (2.0, 2.0));
        control.on_cross_layer(Instant::ZERO, Rate::from_bps(8_000_000), 0, &mut window);
        assert_eq!(window_of(&mut control), 326.0);
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
