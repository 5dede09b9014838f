//! The assigned window: the receiver's side of the link says how much may be in flight (SaTPEP).

use super::{Ack, Control, Loss, Start, Window};

/// A window equal to the receiver's, which divides the link's capacity among its connections.
#[derive(Debug)]
pub(crate) struct Assigned;

impl Assigned {
    fn follow(receive_window: u64, mss: u32, window: &mut Window) {
        window.cwnd = (receive_window as f64 / f64::from(mss)).max(1.0);
    }
}

impl Control for Assigned {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        Self::follow(start.receive_window, start.mss, window);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        Self::follow(ack.receive_window, ack.mss, window);
    }

    fn grow(&mut self, _ack: &Ack, _window: &mut Window) {}

    fn on_loss(&mut self, _loss: &Loss, _window: &mut Window) {}

    /// One segment, until the next acknowledgement sets the window again.
    fn on_timeout(&mut self, _timeout: &Loss, window: &mut Window) {
        window.cwnd = 1.0;
    }

    fn governs_window(&self) -> bool {
        true
    }

    fn phase(&self, _window: &Window) -> &'static str {
        "assigned"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;

    #[test]
    fn the_window_is_the_advertised_one_but_for_the_time_after_a_timeout() {
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let assigned = Ack { receive_window: 275_000, ..ack(1) };
        Assigned.on_ack(&assigned, &mut window);
        assert_eq!(window.cwnd, 275.0);
        Assigned.on_loss(&assigned.loss(275), &mut window);
        assert_eq!(window.cwnd, 275.0);
        Assigned.on_timeout(&assigned.loss(275), &mut window);
        assert_eq!(window.cwnd, 1.0);
        Assigned.on_ack(&Ack { receive_window: 100_000, ..assigned }, &mut window);
        assert_eq!(window.cwnd, 100.0);
    }
}
