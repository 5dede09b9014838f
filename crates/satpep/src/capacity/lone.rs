//! One peer that is sent to alone: what it shows of the link may be its own path.
//!
//! A slow terminal that is alone on a fast carrier makes the carrier look as slow as its path. Once another peer has data, the carrier
//! is as open again as it was before.

use crate::event::PeerId;

/// The peer that alone is sent to, and the most that has been believed of the link since others were, or since the prior.
#[derive(Debug)]
pub(super) struct Lone {
    peer: Option<PeerId>,
    most: f64,
}

impl Lone {
    /// An estimate below this share of what was believed may be that of a path.
    const FALLEN: f64 = 0.5;

    /// Nobody has been sent to since the link was believed to carry `rate`.
    pub(super) fn new(rate: f64) -> Self {
        Self { peer: None, most: rate }
    }

    /// `peer` has reported, when the link was believed to carry `rate`; `has_others` if others are sent to as well.
    pub(super) fn on_report(&mut self, peer: PeerId, has_others: bool, rate: f64) {
        if has_others || self.peer.is_some_and(|lone| lone != peer) {
            self.most = rate;
        }
        self.most = self.most.max(rate);
        self.peer = (!has_others).then_some(peer);
    }

    /// The link is believed to carry `rate` from now on, whatever was believed before.
    pub(super) fn begin_at(&mut self, rate: f64) {
        self.most = rate;
    }

    /// Whether `peer` alone is sent to.
    pub(super) fn is(&self, peer: PeerId) -> bool {
        self.peer == Some(peer)
    }

    /// If the estimate of `rate` is what another than `newcomer` has shown alone, and has fallen: that peer, and what was believed before.
    pub(super) fn others_fall(&self, newcomer: PeerId, rate: f64) -> Option<(PeerId, f64)> {
        let lone = self.peer.filter(|lone| *lone != newcomer && rate < Self::FALLEN * self.most)?;
        Some((lone, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: PeerId = PeerId(0);
    const FAST: PeerId = PeerId(1);

    #[test]
    fn only_what_fell_while_one_was_alone_may_be_its_path() {
        let mut lone = Lone::new(750e3);
        assert_eq!(lone.others_fall(FAST, 15e3), None, "nobody has shown anything");
        lone.on_report(SLOW, false, 750e3);
        lone.on_report(SLOW, false, 15e3);
        assert_eq!(lone.others_fall(FAST, 15e3), Some((SLOW, 750e3)));
        assert_eq!(lone.others_fall(SLOW, 15e3), None, "no other comes");
        assert_eq!(lone.others_fall(FAST, 600e3), None, "the estimate has hardly fallen");
        lone.on_report(FAST, true, 15e3);
        lone.on_report(SLOW, false, 15e3);
        assert_eq!(lone.others_fall(FAST, 15e3), None, "both have seen it");
    }

    #[test]
    fn what_was_found_while_one_was_alone_is_what_the_link_carries_at_least() {
        let mut lone = Lone::new(250e3);
        [250e3, 6e6, 1e6].into_iter().for_each(|rate| lone.on_report(SLOW, false, rate));
        assert_eq!(lone.others_fall(FAST, 1e6), Some((SLOW, 6e6)));
        lone.on_report(FAST, false, 1e6);
        assert_eq!(lone.others_fall(SLOW, 1e6), None, "another has seen it since");
    }
}
