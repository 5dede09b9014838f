//! What the log says of sessions. A peer can begin and end them as often as it likes: of what it causes, each kind of line is written once a
//! minute, and of its silence some.

use super::Satpep;
use satpep::{Event, ResetReason};
use units::Instant;

/// Lines in a minute about a peer that does not answer.
pub(super) const OUTAGES: u32 = 8;

impl Satpep {
    /// Logs what has happened to a session by `now`.
    pub(super) fn log(&mut self, now: Instant, event: &Event) {
        let Some(at) = peer_of(event).and_then(|peer| self.streams.place(peer)) else { return };
        let peer = &mut self.peers[at];
        match event {
            Event::PeerUnresponsive(_) | Event::PathTooSmall(_) => {
                if let Some((event, not_logged)) = peer.outages.admit(now, *event, false) {
                    peer.sessions.note(event, false);
                    say(&peer.name, &event, not_logged);
                }
            }
            _ => {
                if let Some((event, not_logged)) = peer.sessions.admit(now, *event, matches!(event, Event::PeerUp(_))) {
                    say(&peer.name, &event, not_logged);
                }
            }
        }
    }

    /// Logs what was left out and holds still, once it is time.
    pub(super) fn log_overdue(&mut self, now: Instant) {
        for (at, peer) in self.peers.iter_mut().enumerate() {
            if self.streams.place(self.streams.id(at)) == Some(at)
                && let Some((event, not_logged)) = peer.sessions.overdue(now)
            {
                say(&peer.name, &event, not_logged);
            }
        }
    }
}

/// The peer whose session `event` is about; `None` if it is about a stream, which is the engine's.
fn peer_of(event: &Event) -> Option<satpep::PeerId> {
    match *event {
        Event::PeerUp(peer)
        | Event::PeerUnresponsive(peer)
        | Event::PeerGivenUp(peer)
        | Event::PeerLeft(peer)
        | Event::PathTooSmall(peer)
        | Event::PeerRestarted(peer)
        | Event::PeerDrains(peer)
        | Event::PeerBroke(peer, _)
        | Event::PeerClockSetBack(peer, ..)
        | Event::OwnClockSetBack(peer, _)
        | Event::PeerKeyShared(peer)
        | Event::OwnKeyShared(peer) => Some(peer),
        Event::Opened(_)
        | Event::Readable(_)
        | Event::Writable(_)
        | Event::EndedBeforeReset(_)
        | Event::Reset(..)
        | Event::Closed(_) => None,
    }
}

/// Writes the line about `event`, which has happened to a session with `peer`. Before it, `not_logged` lines were left out.
fn say(peer: &str, event: &Event, not_logged: Option<u64>) {
    match *event {
        Event::PeerUp(_) => tracing::info!(peer, not_logged, "peer is up"),
        Event::PeerUnresponsive(_) => tracing::warn!(peer, not_logged, "peer does not answer"),
        Event::PeerGivenUp(_) => {
            tracing::warn!(peer, reason = %ResetReason::Outage, not_logged, "the peer's connections are reset");
        }
        Event::PeerLeft(_) => tracing::info!(
            peer,
            not_logged,
            "peer has ended the session: its gateway stops, or no longer has this one in its settings"
        ),
        Event::PathTooSmall(_) => tracing::warn!(
            peer,
            not_logged,
            "peer answers, but the path does not carry IP packets of 576 bytes (IPv6: 1280), there or back: connections \
             go end to end; look for a tunnel or an interface with a smaller MTU"
        ),
        Event::PeerRestarted(_) => {
            tracing::warn!(
                peer,
                not_logged,
                "peer has restarted, or an outage exceeded its limit: its connections are reset"
            );
        }
        Event::PeerDrains(_) => tracing::info!(peer, not_logged, "peer drains: it takes no more connections"),
        Event::PeerBroke(_, violation) => {
            tracing::warn!(peer, not_logged, "peer broke the protocol with {violation}: its connections are reset");
        }
        Event::PeerClockSetBack(_, skew, behind) => tracing::warn!(
            peer,
            not_logged,
            "peer's clock was {} s later in an earlier handshake; it is {skew} now: check its clock (NTP)",
            behind.as_secs_f64().round()
        ),
        Event::OwnClockSetBack(_, skew) => tracing::warn!(
            peer,
            not_logged,
            "peer knows this gateway by a later clock; its clock is {skew}: check the clocks (NTP)"
        ),
        Event::PeerKeyShared(_) => tracing::warn!(
            peer,
            not_logged,
            "two gateways use the peer's private key: each ends the other's session; make another key for one of them \
             (`bentpipe keygen`)"
        ),
        Event::OwnKeyShared(_) => tracing::warn!(
            peer,
            not_logged,
            "another gateway uses this one's private key: each ends the other's session; make another key for one of \
             them (`bentpipe keygen`)"
        ),
        Event::Opened(_)
        | Event::Readable(_)
        | Event::Writable(_)
        | Event::EndedBeforeReset(_)
        | Event::Reset(..)
        | Event::Closed(_) => {}
    }
}
