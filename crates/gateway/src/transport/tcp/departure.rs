//! A process that takes no more connections waits for those that its peers open before they know: a TCP connection that is under way leaves no
//! trace here until it arrives.

use super::{TcpPeer, TcpTransport};
use tcp_tunnel::control::Message;
use units::{Duration, Instant};

/// How long a peer is waited for whose host does not acknowledge the notification.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// What a peer has sent before it was notified may arrive so long after, if it was lost: the initial RTO (RFC 6298), and
/// [round trips](ROUND_TRIPS).
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// A retransmission, and a handshake before what it asks for.
const ROUND_TRIPS: u64 = 4;

/// That this process opens and takes no more connections.
#[derive(Debug)]
pub(super) struct Departure {
    since: Instant,
    /// What is announced to peers.
    pub(super) message: Message,
}

impl Departure {
    pub(super) fn new(now: Instant, has_successor: bool) -> Self {
        Self { since: now, message: Message::Leaving { has_successor } }
    }
}

impl TcpTransport {
    /// Notes which peers have acknowledged that this process takes no more connections.
    pub(super) fn note_acknowledged_departure(&mut self, now: Instant) {
        for peer in self.peers.iter_mut().filter(|peer| peer.notified.leaving) {
            let control = peer.responder.and_then(|at| self.tunnels.get(at));
            if control.is_some_and(|tunnel| tunnel.is_acknowledged()) {
                peer.notified.leaving_acknowledged_at.get_or_insert(now);
            }
        }
    }

    /// How many peers may have opened connections that have not arrived, now that this process takes no more.
    pub(super) fn peers_with_connections_under_way(&self, now: Instant) -> usize {
        let grace = INITIAL_RTO + self.rtt * ROUND_TRIPS;
        let is_heard = |peer: &&TcpPeer| {
            peer.notified.leaving_acknowledged_at.is_some_and(|acknowledged_at| acknowledged_at + grace <= now)
        };
        match &self.departure {
            Some(departure) if now.since(departure.since) < LONGEST_WAIT => {
                self.peers.iter().filter(|peer| peer.responder.is_some() && !is_heard(peer)).count()
            }
            _ => 0,
        }
    }
}
