//! The losses of packets of the last five minutes, those of outages left out.
//!
//! The packets in flight when a link is cut are all lost. A connection end to end would lose them too, but once: they say nothing of how
//! often the link loses a packet while it is up.

use status::{Peer, PeerState, Snapshot};
use std::collections::{HashMap, VecDeque};
use units::Probability;

/// Seconds over which losses are counted.
const PERIOD: usize = 300;
/// So many round trips before and after an outage are left out, at least [`MIN_MARGIN`]: a peer is unresponsive after so many without an
/// answer, and what was in flight is found to be lost up to about a round trip after the peer is heard again.
const MARGIN_ROUNDS: f64 = 3.0;
/// In seconds: the shortest time without an answer after which a peer is unresponsive.
const MIN_MARGIN: f64 = 1.0;

/// Packets sent and lost.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    sent: u64,
    lost: u64,
}

/// Packets sent and lost, once a second, without those of outages.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Of all peers, the latest second last.
    seconds: VecDeque<Count>,
    peers: HashMap<String, Recent>,
}

/// What [`Losses::seconds`] holds of one peer.
#[derive(Debug, Default)]
struct Recent {
    /// Of the latest seconds, as many as an outage would leave out, the latest second first.
    counts: VecDeque<Count>,
    /// So many seconds more are left out, because of an outage that has ended.
    after_outage: usize,
}

impl Losses {
    /// Takes what was counted from `before` to `now`, a second later.
    pub(crate) fn take(&mut self, before: &Snapshot, now: &Snapshot) {
        if now.uptime_s < before.uptime_s {
            // Another process has begun.
            return *self = Self::default();
        }
        if self.seconds.len() == PERIOD {
            self.seconds.pop_front();
        }
        self.seconds.push_back(Count::default());
        let known: HashMap<&str, &Peer> = before.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
        let is_link_cut = lacks_reports(before) || lacks_reports(now);
        let mut peers = std::mem::take(&mut self.peers);
        for peer in &now.peers {
            let Some(earlier) = known.get(peer.name.as_str()) else { continue };
            let (name, mut recent) =
                peers.remove_entry(&peer.name).unwrap_or_else(|| (peer.name.clone(), Recent::default()));
            let margin = margin(peer.rtt_s.unwrap_or(now.link.rtt_s));
            if is_link_cut || is_cut_off(earlier) || is_cut_off(peer) {
                self.leave_out(&mut recent, margin);
            } else {
                self.count(&mut recent, margin, grown(earlier, peer));
            }
            self.peers.insert(name, recent);
        }
    }

    /// The peer of `recent` is in an outage: what was counted of it shortly before is part of that.
    fn leave_out(&mut self, recent: &mut Recent, margin: usize) {
        for (all, count) in self.seconds.iter_mut().rev().skip(1).zip(recent.counts.drain(..)) {
            all.sent -= count.sent;
            all.lost -= count.lost;
        }
        recent.after_outage = margin;
    }

    /// Adds `count` of the peer of `recent` to the latest second, unless an outage has ended shortly before.
    fn count(&mut self, recent: &mut Recent, margin: usize, count: Count) {
        let is_left_out = recent.after_outage > 0;
        recent.after_outage = recent.after_outage.saturating_sub(1);
        let count = if is_left_out { Count::default() } else { count };
        if let Some(all) = self.seconds.back_mut() {
            all.sent += count.sent;
            all.lost += count.lost;
        }
        recent.counts.push_front(count);
        recent.counts.truncate(margin);
    }

    /// Of the packets of the last five minutes, so many were lost; `None` if too few were sent to tell.
    pub(crate) fn share(&self) -> Option<Probability> {
        const FEWEST: u64 = 1000;
        let (sent, lost) = self.seconds.iter().fold((0, 0), |sum, one| (sum.0 + one.sent, sum.1 + one.lost));
        if sent < FEWEST { None } else { Probability::new((lost as f64 / sent as f64).min(1.0)).ok() }
    }
}

/// Whether reports of the peers are overdue.
fn lacks_reports(state: &Snapshot) -> bool {
    matches!(&*state.capacity.state, "quiet" | "silent")
}

/// Whether full packets do not reach `peer`, or nothing does.
fn is_cut_off(peer: &Peer) -> bool {
    !matches!(peer.state, PeerState::Up | PeerState::Draining)
}

/// How many seconds before and after an outage are left out where a round trip takes `rtt_s`.
fn margin(rtt_s: f64) -> usize {
    ((MARGIN_ROUNDS * rtt_s).max(MIN_MARGIN).ceil() as usize).min(PERIOD)
}

/// What was counted of a peer from `before` to `now`. A peer that was removed and added again begins at zero.
fn grown(before: &Peer, now: &Peer) -> Count {
    Count {
        sent: now.sent_packets.saturating_sub(before.sent_packets),
        lost: now.lost_packets.saturating_sub(before.lost_packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::Capacity;

    /// A gateway that sends 500 packets a second to each of its peers.
    struct Gateway {
        losses: Losses,
        sampled: Snapshot,
        state: Snapshot,
    }

    impl Gateway {
        fn new(peers: &[&str]) -> Self {
            let peer =
                |name: &&str| Peer { name: (*name).into(), state: PeerState::Up, rtt_s: Some(0.6), ..Peer::default() };
            let state = Snapshot { peers: peers.iter().map(peer).collect(), ..Snapshot::default() };
            Self { losses: Losses::default(), sampled: state.clone(), state }
        }

        /// A second passes, in which `lost` packets to the first peer are found to be lost.
        fn second(&mut self, lost: u64) {
            self.state.peers.iter_mut().for_each(|peer| peer.sent_packets += 500);
            self.state.peers[0].lost_packets += lost;
            self.losses.take(&self.sampled, &self.state);
            self.sampled = self.state.clone();
        }

        fn seconds(&mut self, count: usize, lost: u64) {
            (0..count).for_each(|_| self.second(lost));
        }

        fn share(&self) -> f64 {
            self.losses.share().unwrap().as_f64()
        }

        fn set_state(&mut self, state: PeerState) {
            self.state.peers[0].state = state;
        }

        fn set_capacity(&mut self, state: &'static str) {
            self.state.capacity = Capacity { state: state.into(), ..Capacity::default() };
        }
    }

    #[test]
    fn packets_in_flight_at_an_outage_are_no_losses_of_the_link() {
        // In the second in which the peer is heard again, or so many later.
        for later in 0..3 {
            let mut gateway = Gateway::new(&["hub"]);
            gateway.seconds(30, 0);
            gateway.set_state(PeerState::Unresponsive);
            gateway.seconds(25, 0);
            gateway.set_state(PeerState::Up);
            gateway.seconds(later, 0);
            gateway.second(300);
            gateway.seconds(30, 0);
            assert_eq!(gateway.share(), 0.0, "{later} s later");
        }
    }

    #[test]
    fn losses_while_reports_of_the_peers_are_overdue_are_those_of_an_outage() {
        for state in ["quiet", "silent"] {
            let mut gateway = Gateway::new(&["hub"]);
            gateway.seconds(30, 0);
            gateway.set_capacity(state);
            gateway.second(100);
            gateway.set_capacity("track");
            gateway.second(200);
            gateway.seconds(30, 0);
            assert_eq!(gateway.share(), 0.0, "{state}");
        }
    }

    /// It is unresponsive only three round trips after the link was cut.
    #[test]
    fn losses_shortly_before_a_peer_is_unresponsive_are_those_of_the_outage() {
        let mut gateway = Gateway::new(&["hub"]);
        gateway.seconds(30, 0);
        gateway.seconds(2, 250);
        gateway.set_state(PeerState::Unresponsive);
        gateway.second(0);
        gateway.set_state(PeerState::Up);
        gateway.seconds(30, 0);
        assert_eq!(gateway.share(), 0.0);
    }

    #[test]
    fn losses_before_and_after_an_outage_count() {
        let mut gateway = Gateway::new(&["hub"]);
        gateway.seconds(30, 5);
        gateway.set_state(PeerState::Unresponsive);
        gateway.second(0);
        gateway.set_state(PeerState::Up);
        gateway.second(400);
        gateway.seconds(30, 5);
        assert_eq!(gateway.share(), 0.01);
    }

    #[test]
    fn losses_of_a_peer_that_drains_count() {
        let mut gateway = Gateway::new(&["hub"]);
        gateway.set_state(PeerState::Draining);
        gateway.seconds(30, 5);
        assert_eq!(gateway.share(), 0.01);
    }

    /// A hub with many terminals always has one that is not up.
    #[test]
    fn an_outage_of_one_peer_leaves_the_losses_of_others() {
        let mut gateway = Gateway::new(&["one", "two"]);
        gateway.seconds(10, 10);
        gateway.set_state(PeerState::Connecting);
        gateway.state.peers.swap(0, 1);
        gateway.seconds(90, 5);
        let (sent, lost) = (500 * 100 + 500 * 8, 5 * 90 + 10 * 8);
        assert_eq!(gateway.share(), f64::from(lost) / f64::from(sent));
    }

    #[test]
    fn losses_are_those_of_five_minutes() {
        let mut gateway = Gateway::new(&["hub"]);
        gateway.seconds(500, 50);
        assert_eq!(gateway.share(), 0.1);
        gateway.seconds(PERIOD, 0);
        assert_eq!(gateway.share(), 0.0);
        assert_eq!(gateway.losses.seconds.len(), PERIOD);
    }
}
