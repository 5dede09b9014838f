//! Connections whose full packets may vanish on the path, while small ones pass.

use super::TcpTransport;
use super::session::Initiator;
use super::tunnel::{Role, Tunnel};
use kernel::tcp::TcpInfo;
use tcp_tunnel::control::Message;
use units::{Duration, Instant};

/// How often connections with data under way are looked at. The kernel sends smaller segments on a stalled one some 4 s after the
/// first time-out, and nothing is to be seen from then on.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// The least time between two messages to an initiator.
const MESSAGE_PERIOD: Duration = Duration::from_secs(5);

/// What was seen of a connection that may stall.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stall {
    /// Whether something has been sent since all was found acknowledged.
    may_begin: bool,
    /// When a time-out was first seen, and nothing has been acknowledged since.
    seen_at: Option<Instant>,
}

impl Stall {
    /// Something has been sent.
    pub(super) fn on_sent(&mut self) {
        self.may_begin = true;
    }

    /// Since when the connection was seen to stall, if it does: what it sends again times out more than once, and nothing is acknowledged for longer
    /// than the kernel waits between two retransmissions, `longest_rto`. A time-out or two are plain loss; a reader's closed window is acknowledged.
    fn look(&mut self, now: Instant, info: &TcpInfo, longest_rto: Duration) -> Option<Instant> {
        self.may_begin = info.unacknowledged_segments > 0 || info.unsent_bytes > 0;
        let since_last_ack = Duration::from(info.since_last_ack);
        self.seen_at.take_if(|seen_at| info.timeouts == 0 || since_last_ack < now.since(*seen_at));
        if info.timeouts > 0 {
            self.seen_at.get_or_insert(now);
        }
        // The last acknowledgement of a connection that was idle is old before anything is sent.
        self.seen_at.filter(|_| info.timeouts > 1 && since_last_ack >= longest_rto * 3 / 2)
    }
}

impl Tunnel {
    fn stalls_since(&mut self, now: Instant, longest_rto: Duration) -> Option<Instant> {
        let socket = self.tcp.socket.as_ref().filter(|_| self.stall.may_begin)?;
        self.stall.look(now, &kernel::tcp::tcp_info(socket).ok()?, longest_rto)
    }
}

impl TcpTransport {
    /// Has the path to a peer searched with which connections stall: the gateway does that has begun the session.
    pub(super) fn look_for_stalls(&mut self, now: Instant) {
        if now < self.next_stall_look {
            return;
        }
        self.next_stall_look = now + LOOK_PERIOD;
        let longest_rto = self.sockets.longest_rto;
        let mut stalls: Vec<Option<Instant>> = vec![None; self.peers.len()];
        for (_, tunnel) in self.tunnels.iter_mut().filter(|(_, tunnel)| !tunnel.is_direct) {
            let Role::Stream(peer) = tunnel.role else { continue };
            let since = tunnel.stalls_since(now, longest_rto);
            stalls[peer] = stalls[peer].into_iter().chain(since).min();
        }
        for (peer, since) in stalls.into_iter().enumerate() {
            if let Some(since) = since {
                self.on_stall(now, peer, since);
            }
        }
    }

    /// Connections with `peer` stall: the first was seen at `since` to have timed out.
    fn on_stall(&mut self, now: Instant, peer: usize, since: Instant) {
        let known = &mut self.peers[peer];
        // Where the peer's answers are lost, too, it is an outage.
        if known.initiator.as_ref().is_some_and(Initiator::is_up) && known.heard_at > since {
            known.search.doubt(now);
        }
        let Some(at) = known.responder.filter(|_| known.next_stall_message <= now) else { return };
        let tunnel = &mut self.tunnels[at];
        // In an outage one message waits, and no more.
        if tunnel.is_acknowledged() {
            known.next_stall_message = now + MESSAGE_PERIOD;
            let mut bytes = Vec::new();
            Message::Stalled.encode(&mut bytes);
            // A session that has failed says so by its next event.
            let _ = tunnel.say(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST_RTO: Duration = Duration::from_secs(1);

    /// What the kernel says of a connection, half a second apart: time-outs in a row and milliseconds since the last acknowledgement.
    /// Returns at which of the looks the connection counts as stalled.
    fn stalled(looks: &[(u8, u64)]) -> Vec<usize> {
        let mut stall = Stall::default();
        let stalls = |(at, &(timeouts, since_last_ack)): (usize, &(u8, u64))| {
            let info = TcpInfo {
                timeouts,
                unacknowledged_segments: 10,
                since_last_ack: std::time::Duration::from_millis(since_last_ack),
                ..idle()
            };
            let now = Instant::ZERO + LOOK_PERIOD * (at as u64 + 1);
            stall.look(now, &info, LONGEST_RTO).map(|_| at)
        };
        looks.iter().enumerate().filter_map(stalls).collect()
    }

    fn idle() -> TcpInfo {
        TcpInfo {
            srtt: std::time::Duration::from_millis(20),
            min_rtt: std::time::Duration::from_millis(20),
            cwnd: 10,
            ssthresh: 10,
            retransmitted_segments: 0,
            timeouts: 0,
            unacknowledged_segments: 0,
            unsent_bytes: 0,
            segment: 1448,
            received_segment: 1448,
            path_mtu: 1500,
            pacing_rate: 0,
            unanswered_probes: 0,
            is_syn_data_acked: false,
            since_last_ack: std::time::Duration::ZERO,
            carried_bytes: 0,
        }
    }

    #[test]
    fn a_connection_stalls_whose_retransmissions_are_never_acknowledged() {
        assert_eq!(stalled(&[(0, 100), (1, 600), (2, 1100), (3, 1600), (3, 2100)]), [3, 4]);
    }

    #[test]
    fn plain_loss_is_no_stall() {
        assert_eq!(stalled(&[(1, 600), (2, 1100), (0, 100), (1, 600), (2, 1100), (0, 50)]), [0; 0]);
    }

    #[test]
    fn a_reader_that_keeps_its_window_closed_does_not_stall_the_connection() {
        assert_eq!(stalled(&[(3, 300), (4, 800), (5, 300), (6, 800), (7, 1100), (7, 100)]), [0; 0]);
    }

    #[test]
    fn a_connection_that_was_idle_does_not_stall_by_its_first_time_out() {
        assert_eq!(stalled(&[(0, 3_600_000), (1, 3_600_500), (0, 100)]), [0; 0]);
    }

    #[test]
    fn an_acknowledgement_between_two_looks_makes_the_stall_begin_later() {
        let mut stall = Stall::default();
        let mut look = |at: u64, timeouts, since_last_ack| {
            let since_last_ack = std::time::Duration::from_millis(since_last_ack);
            let info = TcpInfo { timeouts, unacknowledged_segments: 1, since_last_ack, ..idle() };
            stall.look(Instant::ZERO + Duration::from_millis(at), &info, LONGEST_RTO)
        };
        assert_eq!(look(1_000, 2, 1_000), None);
        assert_eq!(look(1_500, 1, 300), None);
        assert_eq!(look(3_000, 3, 1_800), Some(Instant::ZERO + Duration::from_millis(1_500)));
    }

    #[test]
    fn a_connection_is_not_looked_at_once_all_is_acknowledged() {
        let mut stall = Stall::default();
        stall.on_sent();
        assert!(stall.may_begin);
        stall.look(Instant::ZERO, &idle(), LONGEST_RTO);
        assert!(!stall.may_begin);
    }
}
