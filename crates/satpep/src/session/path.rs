//! The path that the session's packets take: the largest packet that it carries, and whether it carries enough.
//!
//! Contract: a session carries data once a packet of the size in use has arrived ([`PathState::Proven`]). A path that carries not even
//! the least size, there or back, is [`PathState::TooSmall`] until a packet arrives. Of the way back one knows by the peer, which says so
//! with each of its acknowledgements. Each change is reported once, and of the way back no more often than it can be found.

use crate::mtu::{self, MtuSearch};
use crate::packet_number::PacketNumber;
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
    /// Of the way there.
    own: PathState,
    way_back: WayBack,
    state: PathState,
    /// The latest PATH_CHALLENGE or PATH_RESPONSE, for the endpoint.
    news: Option<PathFrame>,
}

/// What the peer says of the way back.
#[derive(Debug, Default)]
struct WayBack {
    /// The packet that said last that it is too small.
    said_in: Option<PacketNumber>,
    /// The newest packet with an acknowledgement.
    newest: PacketNumber,
    /// Whether that one said so.
    is_too_small: bool,
    /// When it may be said again, after it was not: the peer tries no sooner, unless it only says so.
    believed_from: Option<Instant>,
}

impl Path {
    /// A path on which nothing has been sent, for packets of at most `max` bytes, over a link that is `thin` or not.
    pub(super) fn new(max: u16, thin: bool, now: Instant) -> Self {
        let mtu = MtuSearch::new(mtu::MIN, max, thin, now);
        let (own, way_back, state) = (PathState::Unknown, WayBack::default(), PathState::Unknown);
        Self { mtu, own, way_back, state, news: None }
    }

    /// Packets go to another host from now on: the path to it may carry less.
    pub(super) fn restart(&mut self, to: &SocketAddr, now: Instant) {
        self.mtu.restart(mtu::least(to), now);
    }

    /// The state that the path has come to, if that has changed.
    pub(super) fn judge(&mut self) -> Option<PathState> {
        self.own = match (self.mtu.is_proven(), self.mtu.is_below_least()) {
            (true, _) => PathState::Proven,
            (_, true) => PathState::TooSmall,
            _ => self.own,
        };
        let state = if self.way_back.is_too_small { PathState::TooSmall } else { self.own };
        (std::mem::replace(&mut self.state, state) != state).then_some(state)
    }

    pub(super) fn state(&self) -> PathState {
        self.state
    }

    /// The peer says in packet `number` that its packets of the least size do not arrive.
    pub(super) fn on_too_small(&mut self, number: PacketNumber) {
        self.way_back.said_in = Some(number);
    }

    /// Packet `number` has an acknowledgement, which says what it has to say of the way back. Returns whether that has changed.
    #[inline]
    pub(super) fn on_report(&mut self, now: Instant, number: PacketNumber) -> bool {
        let way_back = &mut self.way_back;
        if number < way_back.newest {
            return false;
        }
        way_back.newest = number;
        let is_believed = way_back.is_too_small || way_back.believed_from.is_none_or(|from| from <= now);
        let is_too_small = way_back.said_in == Some(number) && is_believed;
        let has_changed = std::mem::replace(&mut way_back.is_too_small, is_too_small) != is_too_small;
        if has_changed && is_too_small {
            way_back.believed_from = Some(now + MtuSearch::TRY_AGAIN);
        }
        has_changed
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
    use units::Duration;

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
    fn the_newest_acknowledgement_says_whether_the_way_back_is_too_small() {
        let mut path = Path::new(1500, false, NOW);
        path.mtu.on_probe_acked(NOW, 1500);
        assert_eq!(path.judge(), Some(PathState::Proven));
        let [first, second, third] = [5, 6, 7].map(PacketNumber::new);
        assert!(!path.on_report(NOW, first));
        path.on_too_small(third);
        assert!(path.on_report(NOW, third));
        assert_eq!(path.judge(), Some(PathState::TooSmall));
        assert!(!path.on_report(NOW, second), "it is older");
        assert_eq!(path.judge(), None);
        assert!(path.on_report(NOW, PacketNumber::new(8)));
        assert_eq!(path.judge(), Some(PathState::Proven));
    }

    #[test]
    fn a_peer_that_says_so_and_takes_it_back_in_turns_is_believed_now_and_then() {
        let mut path = Path::new(1500, false, NOW);
        path.mtu.on_probe_acked(NOW, 1500);
        path.judge();
        let mut changes = 0;
        for number in 0..1000 {
            if number % 2 == 0 {
                path.on_too_small(PacketNumber::new(number));
            }
            path.on_report(NOW + Duration::from_millis(10 * number), PacketNumber::new(number));
            changes += usize::from(path.judge().is_some());
        }
        assert_eq!(changes, 4, "in ten seconds");
        path.on_too_small(PacketNumber::new(1000));
        assert!(path.on_report(NOW + MtuSearch::TRY_AGAIN * 3, PacketNumber::new(1000)));
    }

    #[test]
    fn the_latest_path_frame_is_handed_over_once() {
        let mut path = Path::new(1500, false, NOW);
        path.on_frame(PathFrame::Challenge(1));
        path.on_frame(PathFrame::Response(2));
        assert_eq!((path.take_news(), path.take_news()), (Some(PathFrame::Response(2)), None));
    }
}
