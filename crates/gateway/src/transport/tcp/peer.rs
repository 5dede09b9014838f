//! What there is with one peer.

use super::Name;
use super::initiator::FastOpen;
use super::notices::SessionLines;
use super::session::Initiator;
use super::succession::{Former, FormerInitiator, Opener};
use super::talk::Notified;
use super::tunnel::Tunnel;
use crate::config::Peer;
use crate::relays::log_limit::{LogLimit, ShortageLimit};
use ::satpep::ResetReason;
use relay::reach::Announced;
use status::Trouble;
use std::collections::VecDeque;
use std::net::IpAddr;
use tcp_tunnel::control::Ended;
use tcp_tunnel::notices::Notices;
use tcp_tunnel::search::Search;
use units::{Duration, Instant};

/// What there is with one peer.
#[derive(Debug)]
pub(super) struct TcpPeer {
    pub(super) settings: Peer,
    pub(super) initiator: Option<Initiator>,
    /// Sessions that it has begun, the newest last.
    pub(super) sessions: VecDeque<u64>,
    /// The connection of the newest.
    pub(super) responder: Option<usize>,
    pub(super) has_been_up: bool,
    /// Why it is not up, as far as was seen.
    pub(super) trouble: Option<Trouble>,
    /// When it last answered or sent a probe, or its host acknowledged one while all was quiet.
    pub(super) heard_at: Instant,
    /// When the session that this gateway had begun with it was lost, or the peer was added.
    pub(super) lost_at: Instant,
    /// Since when it has done so again and again.
    heard_since: Instant,
    /// When the last bytes of a relayed connection came from its gateway.
    pub(super) received_at: Instant,
    /// Whether any have come since that was last looked at.
    pub(super) has_received: bool,
    /// Whether one that has ended since then had sent something.
    pub(super) has_sent: bool,
    /// Bytes that its connections had carried when it was last seen that it had not answered.
    pub(super) carried_before: Option<u64>,
    /// Whether it is to be asked at once whether it is still the one that responded.
    pub(super) must_ask: bool,
    /// Ends that it has to learn of: of the streams that were opened here, and of those that it has opened.
    pub(super) own_ends: Notices,
    pub(super) its_ends: Notices,
    /// Addresses from which it has begun sessions or, as TLS has proved, opened connections, the latest last.
    pub(super) known_addresses: VecDeque<IpAddr>,
    /// Announcements of what it allows that were not understood.
    pub(super) bad_announcements: LogLimit,
    /// Connections of sessions with processes that are being replaced, the newest last: those made here, and those that it
    /// has made.
    pub(super) former_initiators: VecDeque<FormerInitiator>,
    pub(super) former_responders: VecDeque<Former>,
    pub(super) rivals: Rivals,
    /// Whether the lack of room was announced to it.
    pub(super) is_notified_full: bool,
    /// Other announcements to it.
    pub(super) notified: Notified,
    /// How often the log says that it has no room.
    pub(super) shortage: ShortageLimit<()>,
    /// How often the log has its sessions.
    pub(super) session_lines: SessionLines,
    /// The run of the peer's process that the last session was with.
    pub(super) epoch: Option<u64>,
    /// When that run was last heard in a session that this gateway had begun.
    pub(super) epoch_heard_at: Instant,
    pub(super) warm: VecDeque<usize>,
    pub(super) next_warm: Instant,
    /// Until when no connections are made to its gateway, for all ports for them were used up.
    pub(super) out_of_ports_until: Option<Instant>,
    /// What packets the path carries.
    pub(super) search: Search,
    /// When the gateway that has begun its session may hear next that connections stall.
    pub(super) next_stall_message: Instant,
    pub(super) fast_open: FastOpen,
    /// The addresses that it may use here, as announced.
    pub(super) reach: Vec<u8>,
    /// The addresses that it lets this gateway use, if it has announced them.
    pub(super) allows: Announced,
    pub(super) streams: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Connections that it has opened, which have ended in order and wait for the acknowledgement of their last bytes.
    pub(super) lingering: u64,
    pub(super) retransmitted_segments: u64,
    /// Whether the place is free.
    is_none: bool,
}

/// Whether sessions of a peer end one another, as they do where two gateways use one private key. One gateway that restarts or
/// changes its address leaves a connection, too, but does not come back where that one was.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// When connections were last ended for later sessions, and from where they had come: as many gateways may take turns.
    ended: VecDeque<(Instant, IpAddr)>,
    /// When sessions began from where a connection had just been ended.
    returns: VecDeque<Instant>,
}

impl Rivals {
    /// As soon a gateway begins another session if its connection is ended.
    const SOON: Duration = Duration::from_secs(60);
    /// So many returns in so long a time are no accident.
    const RETURNS: usize = 3;
    const WITHIN: Duration = Duration::from_secs(600);
    /// Of more gateways the first ones are forgotten; those that follow one another soon are noticed.
    const MOST: usize = 32;

    /// The connection of a session, made from `from`, was ended because of a later session.
    pub(super) fn on_ended(&mut self, now: Instant, from: IpAddr) {
        self.ended.retain(|(_, of)| *of != from);
        if self.ended.len() == Self::MOST {
            self.ended.pop_front();
        }
        self.ended.push_back((now, from));
    }

    /// A session has begun from `from`; returns whether two gateways seem to begin sessions in turn, and starts over if so.
    pub(super) fn on_begun(&mut self, now: Instant, from: IpAddr) -> bool {
        self.ended.retain(|(ended, _)| now.since(*ended) < Self::SOON);
        let returns = self.ended.iter().position(|(_, of)| *of == from);
        if returns.and_then(|at| self.ended.remove(at)).is_some() {
            self.returns.push_back(now);
        }
        self.returns.retain(|at| now.since(*at) < Self::WITHIN);
        let are_two = self.returns.len() >= Self::RETURNS;
        if are_two {
            self.returns.clear();
        }
        are_two
    }
}

impl TcpPeer {
    pub(super) fn new(settings: &Peer, now: Instant, rtt: Duration) -> Self {
        let is_initiator = settings.public_key.is_some() && settings.address.is_some();
        Self {
            settings: settings.clone(),
            initiator: is_initiator.then_some(Initiator::Waits(now)),
            sessions: VecDeque::new(),
            responder: None,
            has_been_up: false,
            trouble: None,
            heard_at: now,
            lost_at: now,
            heard_since: now,
            received_at: now,
            has_received: false,
            has_sent: false,
            carried_before: None,
            must_ask: false,
            own_ends: Notices::new(),
            its_ends: Notices::new(),
            known_addresses: VecDeque::new(),
            bad_announcements: LogLimit::default(),
            former_initiators: VecDeque::new(),
            former_responders: VecDeque::new(),
            rivals: Rivals::default(),
            is_notified_full: false,
            notified: Notified::default(),
            shortage: ShortageLimit::default(),
            session_lines: SessionLines::default(),
            epoch: None,
            epoch_heard_at: now,
            warm: VecDeque::new(),
            next_warm: now,
            out_of_ports_until: None,
            search: Search::new(rtt),
            next_stall_message: now,
            fast_open: FastOpen::default(),
            reach: Vec::new(),
            allows: Announced::default(),
            streams: 0,
            sent: 0,
            received: 0,
            lingering: 0,
            retransmitted_segments: 0,
            is_none: false,
        }
    }

    /// The place of a peer that is none any more.
    pub(super) fn none(settings: &Peer, now: Instant, rtt: Duration) -> Self {
        let settings = Peer { public_key: None, address: None, ..settings.clone() };
        Self { is_none: true, ..Self::new(&settings, now, rtt) }
    }

    /// The ends of what was opened in the session whose control connection is at `at`: one that this gateway has begun, or the peer.
    pub(super) fn ends_at(&mut self, at: usize, is_own: bool) -> &mut Notices {
        if is_own {
            let former = self.former_initiators.iter_mut().find(|former| former.line.tunnel == at);
            former.map_or(&mut self.own_ends, |former| &mut former.line.ends)
        } else {
            let former = self.former_responders.iter_mut().find(|former| former.tunnel == at);
            former.map_or(&mut self.its_ends, |former| &mut former.ends)
        }
    }

    /// The session whose control connection is at `at`, if another one is taking its place.
    pub(super) fn former_initiator(&mut self, at: usize) -> Option<&mut FormerInitiator> {
        self.former_initiators.iter_mut().find(|former| former.line.tunnel == at)
    }

    /// What connections are opened with while the process that takes over has not answered.
    pub(super) fn opener(&self) -> Option<&Opener> {
        self.former_initiators.back().and_then(|former| former.opener.as_ref())
    }

    /// It has answered or sent a probe, as it does within `pause` while something is under way.
    pub(super) fn hear(&mut self, now: Instant, pause: Duration) {
        if now.since(self.heard_at) > pause {
            self.heard_since = now;
        }
        self.heard_at = now;
    }

    /// For how long it has been heard without a longer `pause`.
    pub(super) fn heard_for(&self, now: Instant, pause: Duration) -> Duration {
        if now.since(self.heard_at) > pause { Duration::ZERO } else { now.since(self.heard_since) }
    }

    /// Since when something should have been heard of it. While nothing is under way, it speaks each `keepalive` only; bytes that came
    /// after its last word announce the next one.
    pub(super) fn silent_since(&self, keepalive: Duration) -> Instant {
        if self.received_at > self.heard_at { self.received_at } else { self.heard_at + keepalive }
    }

    /// The stream that both call `name` has ended as `tunnel` says. If that was not in order and the peer may not know, it is
    /// notified: a TCP reset may have come from a host between the gateways, such as a NAT that has forgotten the connection. Where the
    /// peer has said so itself, the stream has no name any more.
    pub(super) fn note_end(&mut self, name: Name, tunnel: &Tunnel) {
        let reason = tunnel.failed.unwrap_or(ResetReason::Aborted);
        // The peer has nothing left of it.
        let is_known = tunnel.failed == Some(ResetReason::PeerRestarted);
        if !tunnel.is_over() && !is_known && !tunnel.has_said_why {
            let Name { is_own, session, number, .. } = name;
            let ended = Ended { session, number, reason };
            let ends = if is_own { &mut self.own_ends } else { &mut self.its_ends };
            ends.push(ended);
            // It may be with a process that is being replaced.
            let initiators = self.former_initiators.iter_mut().map(|former| &mut former.line);
            let responders = self.former_responders.iter_mut();
            let of_session = |former: &&mut Former| former.session == session;
            match is_own {
                true => initiators.filter(of_session).for_each(|former| former.ends.push(ended)),
                false => responders.filter(of_session).for_each(|former| former.ends.push(ended)),
            }
        }
    }

    /// Whether there is no far gateway.
    pub(super) fn is_direct(&self) -> bool {
        self.settings.public_key.is_none() && !self.is_none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_that_begin_sessions_in_turn_are_two() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let [first, second] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());

        let mut rivals = Rivals::default();
        let turns: Vec<bool> = (1..=8)
            .map(|turn| {
                let [begins, ended] = if turn % 2 == 0 { [second, first] } else { [first, second] };
                let are_two = rivals.on_begun(at(10 * turn), begins);
                rivals.on_ended(at(10 * turn + 5), ended);
                are_two
            })
            .collect();
        assert_eq!(turns, [false, false, false, true, false, false, true, false], "the first one did not return");

        for gateways in [3, 5, 20] {
            let mut rivals = Rivals::default();
            let address = |turn: u64| IpAddr::from([192, 0, 2, (turn % gateways) as u8]);
            let noticed = (0..1000).position(|turn| {
                let are_many = rivals.on_begun(at(2 * turn), address(turn));
                rivals.on_ended(at(2 * turn + 1), address(turn));
                are_many
            });
            assert_eq!(noticed, Some(gateways as usize + 2), "after as many returns as two make");
        }

        let mut one = Rivals::default();
        for turn in 1..20 {
            assert!(!one.on_begun(at(120 * turn), first), "it restarts each two minutes");
            one.on_ended(at(120 * turn + 5), first);
        }
        let mut mobile = Rivals::default();
        for turn in 0..20 {
            assert!(!mobile.on_begun(at(10 * turn), IpAddr::from([192, 0, 2, turn as u8])), "its address changes");
            mobile.on_ended(at(10 * turn + 1), IpAddr::from([192, 0, 2, turn as u8 - u8::from(turn > 0)]));
        }
    }
}
