//! The path that the session's packets take: the largest packet that it carries, and whether it carries enough.
//!
//! Contract: a session carries data once a packet of the size in use has arrived ([`PathState::Proven`]). A path that carries not even
//! the least size is [`PathState::TooSmall`] until a packet arrives. Each change is reported once.

use crate::mtu::{self, MtuSearch};
use crate::wire::frame::PathFrame;
use std::net::SocketAddr;
use units::Instant;

/// Whether the path carries what is sent through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathState {
    Unknown,
    Proven,
    /// Not even packets of the least size pass.
    TooSmall,
}

pub(super) struct Path {
    pub(super) mtu: MtuSearch,
    state: PathState,
    /// The latest PATH_CHALLENGE or PATH_RESPONSE, for the endpoint.
    news: Option<PathFrame>,
}

impl Path {
    /// A path on which nothing has been sent, for packets of at most `max` bytes, over a link that is `thin` or not.
    pub(super) fn new(max: u16, thin: bool, now: Instant) -> Self {
        Self { mtu: MtuSearch::new(mtu::MIN, max, thin, now), state: PathState::Unknown, news: None }
    }

    /// Packets go to another host from now on: the path to it may carry less.
    pub(super) fn restart(&mut self, to: &SocketAddr, now: Instant) {
        self.mtu.restart(mtu::least(to), now);
    }

    /// The state that the path has come to, if that has changed.
    pub(super) fn judge(&mut self) -> Option<PathState> {
        let state = match (self.mtu.is_proven(), self.mtu.is_below_least()) {
            (true, _) => PathState::Proven,
            (_, true) => PathState::TooSmall,
            _ => self.state,
        };
        (std::mem::replace(&mut self.state, state) != state).then_some(state)
    }

    pub(super) fn state(&self) -> PathState {
        self.state
    }

    pub(super) fn on_frame(&mut self, frame: PathFrame) {
        self.news = Some(frame);
    }

    pub(super) fn take_news(&mut self) -> Option<PathFrame> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    #[test]
    fn each_change_of_the_path_is_reported_once() {
        let mut path = Path::new(1500, false, NOW);
        assert_eq!((path.judge(), path.state()), (None, PathState::Unknown));
        for _ in 0..MtuSearch::MAX_PROBES {
            while path.mtu.poll_probe(NOW).is_some() {}
            path.mtu.on_probe_lost(NOW, mtu::MIN);
        }
        assert_eq!(path.judge(), Some(PathState::TooSmall));
        assert_eq!(path.judge(), None);
        path.mtu.on_probe_acked(NOW, 1500);
        assert_eq!((path.judge(), path.judge(), path.state()), (Some(PathState::Proven), None, PathState::Proven));
    }

    #[test]
    fn a_path_that_was_proven_stays_so_while_another_size_is_searched() {
        let mut path = Path::new(1500, false, NOW);
        path.mtu.on_probe_acked(NOW, 1500);
        path.judge();
        path.restart(&SocketAddr::from(([198, 18, 0, 1], 4500)), NOW);
        assert_eq!((path.judge(), path.state()), (None, PathState::Proven));
    }

    #[test]
    fn the_latest_path_frame_is_handed_over_once() {
        let mut path = Path::new(1500, false, NOW);
        path.on_frame(PathFrame::Challenge(1));
        path.on_frame(PathFrame::Response(2));
        assert_eq!((path.take_news(), path.take_news()), (Some(PathFrame::Response(2)), None));
    }
}
