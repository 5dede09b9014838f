//! Connections to peers: the control connection as initiator, warm connections, and tunnels.

use super::notices::OwnSessionLine;
use super::rejection::Rejection;
use super::session::Initiator;
use super::sockets::{is_unavailable, is_without_source};
use super::talk::READS;
use super::trials::segment;
use super::tunnel::{Role, Tunnel};
use super::{HOLD, Name, TcpTransport, TunnelId};
use crate::config::Class;
use crate::entropy::seed;
use crate::transport::StreamEvent;
use ::satpep::{Priority, ResetReason};
use relay::connect::ConnectRequest;
use std::io;
use tcp_tunnel::control::Reader;
use tcp_tunnel::search::Size;
use tcp_tunnel::{ChallengeError, Hello, SessionKey};
use units::{Duration, Instant};

/// How many connections in a row may come to nothing with TCP Fast Open before it counts as failing on the path. The
/// first of all only fetches the cookie.
const MISSES: u32 = 4;
/// How long it is left alone then.
const RESPITE: Duration = Duration::from_secs(600);
/// How long to wait after a warm connection has failed.
const WARM_RETRY: Duration = Duration::from_secs(5);
/// How long a warm connection is kept: less than the far gateway keeps it, or a NAT on the path that goes by RFC 5382.
const WARM_LIFE: Duration = Duration::from_secs(3600);
/// How long connections go past the far gateway once this host's ports are used up: about a sixth of those come back by then.
const RECOVERY: Duration = Duration::from_secs(10);
/// How often it is said that the host is short of something.
const SHORTAGE_PERIOD: Duration = Duration::from_secs(60);
/// Socket priorities (tc-prio(8)), by which the host's own queues go.
const INTERACTIVE: u32 = 6;
const BULK: u32 = 2;

/// Whether TCP Fast Open works on the path to a peer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FastOpen {
    misses: u32,
    not_before: Instant,
}

impl FastOpen {
    fn is_tried(&self, now: Instant) -> bool {
        now >= self.not_before
    }

    /// Takes in how an attempt went. Returns whether it counts as failing from now on.
    fn note(&mut self, now: Instant, has_worked: bool) -> bool {
        if !self.is_tried(now) {
            // It was under way when the others failed.
            return false;
        }
        self.misses = if has_worked { 0 } else { self.misses + 1 };
        let fails = self.misses == MISSES;
        if fails {
            *self = Self { misses: 0, not_before: now + RESPITE };
        }
        fails
    }
}

impl TcpTransport {
    /// Does what is due for the session with `peer`.
    pub(super) fn serve_initiator(&mut self, now: Instant, peer: usize) {
        match &self.peers[peer].initiator {
            Some(Initiator::Up { unresponsive_at: Some(unresponsive_at), .. }) if *unresponsive_at <= now => {
                self.lose_session(now, peer, "it does not answer");
            }
            Some(Initiator::Up { .. }) => self.look_at_session(now, peer),
            Some(Initiator::HelloSent { .. }) => {
                self.note_unresponsive(peer);
                self.lose_session(now, peer, "it has not answered");
            }
            Some(Initiator::Waits(_)) => self.send_hello(now, peer),
            None => {}
        }
    }

    fn send_hello(&mut self, now: Instant, peer: usize) {
        let settings = &self.peers[peer].settings;
        let (Some(address), Ok(nonce)) = (settings.address, seed()) else { return };
        let hello = Hello::new(self.private_key.public_key(), nonce);
        // The hello may be repeated by anybody: it may ride in the SYN, and fetches the cookie for those that follow.
        let sent = self
            .connect(now, peer, Role::Initiator(peer))
            .and_then(|at| self.tunnels[at].say(&hello.encode()).map(|()| at).inspect_err(|_| drop(self.remove(at))));
        self.peers[peer].initiator = Some(match sent {
            Ok(tunnel) => Initiator::HelloSent {
                tunnel,
                hello,
                challenge: Vec::new(),
                until: now + self.probe_timers.unresponsive_after,
            },
            Err(error) => {
                tracing::debug!(%address, %error, "cannot connect to the peer");
                self.note_failure(peer, &error);
                Initiator::Waits(now + self.probe_timers.retry)
            }
        });
    }

    /// Makes a connection to `peer`'s gateway.
    fn connect(&mut self, now: Instant, peer: usize, role: Role) -> io::Result<usize> {
        let size = self.peers[peer].search.found().flatten();
        self.connect_with(now, peer, role, size)
    }

    /// The same, with IP packets of at most `size` in both directions.
    pub(super) fn connect_with(&mut self, now: Instant, peer: usize, role: Role, size: Size) -> io::Result<usize> {
        let known = &self.peers[peer];
        let address = known.settings.address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let is_fast_open = self.sockets.fast_open && known.fast_open.is_tried(now);
        // A key with which there is no TLS has to cost no socket: it is tried again and again.
        let tls = self.tls.as_ref().map(|tls| tls.connect(peer)).transpose()?;
        let (socket, port) = self.sockets.connect(address, is_fast_open, size.map(|size| segment(size, address)))?;
        let at = self.insert(role, socket, address.ip())?;
        self.sockets.keep(address, port);
        let tunnel = &mut self.tunnels[at];
        tunnel.port = Some((address, port));
        tunnel.is_fast_open = is_fast_open;
        tunnel.tls = tls.map(Box::new);
        Ok(at)
    }

    /// The control connection is ready for something.
    pub(super) fn on_initiator(&mut self, now: Instant, peer: usize, at: usize) {
        if self.peers[peer].former_initiator(at).is_some() {
            return self.on_former_initiator(now, peer, at);
        }
        if let Err(error) = self.tunnels[at].flush() {
            self.note_failure(peer, &error);
            return self.lose_session(now, peer, "its session has failed");
        }
        self.look_at_fast_open(now, at);
        for _ in 0..READS {
            let Some(initiator) = &self.peers[peer].initiator else { return };
            let mut buffer = [0; 1024];
            let room = if initiator.is_up() { buffer.len() } else { initiator.missing().min(buffer.len()) };
            match self.tunnels[at].read(&mut buffer[..room]) {
                Ok(count @ 1..) => {
                    if let Err(error) = self.on_said(now, peer, at, &buffer[..count]) {
                        self.note_answer(peer, error);
                        return self.lose_session(
                            now,
                            peer,
                            match error {
                                ChallengeError::Versions(_) => "the two have no version of the protocol in common",
                                ChallengeError::NotAuthentic => "it is not who it should be",
                            },
                        );
                    }
                    if self.peers[peer].former_initiator(at).is_some() {
                        // Another process of the peer is called in its place.
                        return self.on_former_initiator(now, peer, at);
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.send_answers(at),
                Ok(_) => self.note_end(peer),
                Err(error) => self.note_failure(peer, &error),
            }
            return self.lose_session(now, peer, "its session has ended");
        }
        self.read_later(at);
        self.send_answers(at);
    }

    /// The peer has said something on the control connection.
    ///
    /// # Errors
    /// If it may not have, or there can be no session with it.
    fn on_said(&mut self, now: Instant, peer: usize, at: usize, said: &[u8]) -> Result<(), ChallengeError> {
        let known = &mut self.peers[peer];
        known.hear(now, self.probe_timers.unresponsive_after);
        match &mut known.initiator {
            Some(Initiator::Up { reader, is_confirmed, .. }) => {
                reader.push(said);
                known.epoch_heard_at = now;
                if !std::mem::replace(is_confirmed, true) {
                    self.events.push_back(StreamEvent::PeersChanged);
                }
                return self.hear_responder(now, peer, at).then_some(()).ok_or(ChallengeError::NotAuthentic);
            }
            Some(Initiator::HelloSent { challenge, .. }) => challenge.extend_from_slice(said),
            _ => return Err(ChallengeError::NotAuthentic),
        }
        let Some((hello, challenge)) = known.initiator.as_ref().and_then(Initiator::challenge) else { return Ok(()) };
        let answer = challenge.zip(known.settings.public_key).ok_or(ChallengeError::NotAuthentic);
        let answer = answer.and_then(|(challenge, public_key)| {
            let (key, proof) = SessionKey::prove(&self.private_key, &public_key, &hello, &challenge)?;
            Ok((challenge, key, proof))
        });
        let (challenge, key, proof) = answer.inspect_err(|error| {
            self.count_rejected(match error {
                ChallengeError::Versions(_) => Rejection::Version,
                ChallengeError::NotAuthentic => Rejection::NotAuthentic,
            });
        })?;
        self.tunnels[at].say(&proof).map_err(|_| ChallengeError::NotAuthentic)?;
        let known = &mut self.peers[peer];
        let epoch = challenge.epoch;
        let has_restarted = known.epoch.replace(epoch).is_some_and(|before| before != epoch);
        let heard_before = std::mem::replace(&mut known.epoch_heard_at, now);
        known.has_been_up = true;
        known.trouble = None;
        if has_restarted {
            known.own_ends.clear();
        }
        known.own_ends.restart();
        let was_invited = self.end_request_in_former(peer);
        let known = &mut self.peers[peer];
        if !was_invited {
            known.search.begin();
        }
        known.initiator = Some(Initiator::Up {
            tunnel: at,
            key,
            is_confirmed: false,
            next: 0,
            reader: Reader::new(),
            next_look: now + self.probe_timers.probe,
            said_at: now,
            unresponsive_at: None,
            settles_at: (!was_invited).then(|| now + self.probe_timers.settling),
            has_room: true,
            is_draining: false,
            is_told_leaving: false,
        });
        known.log_own_session(now, OwnSessionLine::Up);
        self.counters.sessions += 1;
        self.events.push_back(StreamEvent::PeersChanged);
        if has_restarted {
            // It knows nothing of the connections that were relayed, but for those that it has opened in sessions of its new run.
            self.reset_streams(now, peer, ResetReason::PeerRestarted, |tunnel| {
                tunnel.session_begun_at.is_none_or(|begun_at| begun_at < heard_before)
            });
        }
        if self.departure.is_some() {
            // Where another process has begun a session, the peer is to go by that.
            self.talk(now);
        }
        Ok(())
    }

    /// Nothing will come of those connections relayed through the peer that `are_lost`.
    pub(super) fn reset_streams(
        &mut self,
        now: Instant,
        peer: usize,
        reason: ResetReason,
        are_lost: impl Fn(&Tunnel) -> bool,
    ) {
        let is_lost = |tunnel: &Tunnel| tunnel.is_through(peer) && are_lost(tunnel);
        let lost: Vec<usize> = self.tunnels.iter().filter(|(_, tunnel)| is_lost(tunnel)).map(|(at, _)| at).collect();
        if !lost.is_empty() {
            self.peers[peer].log_own_session(now, OwnSessionLine::Reset(reason));
        }
        for at in lost {
            let tunnel = &mut self.tunnels[at];
            tunnel.failed = Some(reason);
            self.events.push_back(StreamEvent::Reset(TunnelId { at, number: tunnel.number }, reason));
            if tunnel.is_resetting() {
                drop(self.remove(at));
            }
        }
    }

    /// The session with `peer` is over; another begins soon.
    pub(super) fn lose_session(&mut self, now: Instant, peer: usize, why: &'static str) {
        let Some(initiator) = self.peers[peer].initiator.replace(Initiator::Waits(now + self.probe_timers.retry))
        else {
            return;
        };
        initiator.tunnel().into_iter().for_each(|at| drop(self.remove(at)));
        // Nobody takes the place of the process that has left.
        let was_requesting = self.peers[peer].opener().is_some();
        self.end_request_in_former(peer);
        if initiator.is_up() || was_requesting {
            self.peers[peer].lost_at = now;
            self.peers[peer].log_own_session(now, OwnSessionLine::Down(why));
            self.events.push_back(StreamEvent::PeersChanged);
        } else {
            tracing::debug!(peer = self.peers[peer].settings.name, "peer is not up: {why}");
        }
        self.drop_warm(peer);
    }

    /// Closes the warm connections to `peer`.
    pub(super) fn drop_warm(&mut self, peer: usize) {
        while let Some(&warm) = self.peers[peer].warm.front() {
            drop(self.remove(warm));
        }
    }

    /// Opens warm connections to `peer`.
    pub(super) fn keep_warm(&mut self, now: Instant, peer: usize) {
        let known = &self.peers[peer];
        let is_wanted = known.initiator.as_ref().is_some_and(|initiator| initiator.is_up() && !initiator.is_draining());
        if known.warm.len() >= self.warm_connections || now < known.next_warm || !is_wanted || self.departure.is_some()
        {
            return;
        }
        for _ in self.peers[peer].warm.len()..self.warm_connections {
            let opened = self.connect(now, peer, Role::Warm(peer)).and_then(|at| {
                self.peers[peer].warm.push_back(at);
                self.set_deadline(at, Some(now + WARM_LIFE));
                self.tunnels[at].say_prefix().inspect_err(|_| drop(self.remove(at)))
            });
            if let Err(error) = opened {
                tracing::debug!(%error, "no warm connection");
                self.peers[peer].next_warm = now + WARM_RETRY;
                return;
            }
        }
    }

    /// A warm connection is ready for something. The peer has nothing to say on it: if it does, or
    /// ends it, the connection is of no use.
    pub(super) fn on_warm(&mut self, now: Instant, at: usize) {
        self.look_at_fast_open(now, at);
        let tunnel = &mut self.tunnels[at];
        let is_sound = tunnel.flush().is_ok()
            && matches!(tunnel.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if !is_sound {
            let tunnel = self.remove(at);
            if let Role::Warm(peer) = tunnel.role {
                self.peers[peer].next_warm = now + WARM_RETRY;
            }
        }
    }

    /// A connection to `peer`'s gateway that says what it carries.
    pub(super) fn open_tunnel(&mut self, now: Instant, peer: usize, request: &ConnectRequest) -> Option<usize> {
        let (key, next) = match self.peers[peer].initiator.as_mut() {
            Some(Initiator::Up { tunnel, key, is_confirmed, next, next_look, said_at, .. }) => {
                *is_confirmed |= self.tunnels[*tunnel].is_acknowledged();
                if !*is_confirmed {
                    return None;
                }
                if now.since(*said_at) > self.probe_timers.probe {
                    // The session was left alone, and there may be nobody any more.
                    *next_look = now;
                }
                (&*key, next)
            }
            _ => {
                let opener = self.peers[peer].former_initiators.back_mut()?.opener.as_mut()?;
                (&opener.key, &mut opener.next)
            }
        };
        let tunnel_request = key.open(*next, request).ok()?;
        let name = Name { peer, is_own: true, session: key.session(), number: *next };
        *next += 1;
        if let Some(at) = self.take_warm(peer) {
            self.set_deadline(at, None);
            self.names.insert(name, at);
            self.tunnels[at].name = Some(name);
            let tunnel = &mut self.tunnels[at];
            if let Err(error) = tunnel.open_with(&tunnel_request, None) {
                tunnel.fail(&error);
            }
            tunnel.role = Role::Stream(peer);
            self.count_opened("warm");
            return Some(at);
        }
        if self.peers[peer].out_of_ports_until.is_some() {
            return None;
        }
        let outcome = self.connect(now, peer, Role::Stream(peer));
        let at = outcome.inspect_err(|error| self.note_shortage(now, peer, error)).ok()?;
        self.names.insert(name, at);
        self.tunnels[at].name = Some(name);
        let is_fast_open = self.tunnels[at].is_fast_open;
        self.count_opened(if is_fast_open { "fast_open" } else { "handshake" });
        // With TLS nothing of the client's goes with the SYN.
        let until = (is_fast_open && self.tls.is_none()).then(|| now + HOLD);
        let tunnel = &mut self.tunnels[at];
        if let Err(error) = tunnel.open_with(&tunnel_request, until) {
            tunnel.fail(&error);
        }
        self.set_deadline(at, until);
        Some(at)
    }

    /// The host does not let a connection to `peer` be made that the path has not seen yet.
    fn note_shortage(&mut self, now: Instant, peer: usize, error: &io::Error) {
        if is_unavailable(error) || is_without_source(error) {
            self.peers[peer].out_of_ports_until = Some(now + RECOVERY);
            self.events.push_back(StreamEvent::PeersChanged);
        }
        if now < self.next_shortage {
            return;
        }
        self.next_shortage = now + SHORTAGE_PERIOD;
        let remedy = match error.raw_os_error() {
            Some(libc::EPERM) => {
                "the firewall drops them: its table of connections may be full (raise net.netfilter.nf_conntrack_max)"
            }
            Some(libc::EADDRNOTAVAIL) => {
                "its ports are used up (net.ipv4.ip_local_port_range): new ones go end to end for ten seconds"
            }
            _ if is_without_source(error) => "new ones go end to end for ten seconds",
            Some(libc::EMFILE | libc::ENFILE) => "descriptors are used up (raise LimitNOFILE)",
            _ => "see the error",
        };
        tracing::warn!(%error, "this host makes no connections across the satellite: {remedy}");
    }

    /// A warm connection that is ready.
    fn take_warm(&mut self, peer: usize) -> Option<usize> {
        let is_ready = |at: &usize| self.tunnels[*at].is_ready();
        let place = self.peers[peer].warm.iter().position(is_ready)?;
        self.peers[peer].warm.remove(place)
    }

    /// Looks how TCP Fast Open has gone for connection `at`, once that is known.
    pub(super) fn look_at_fast_open(&mut self, now: Instant, at: usize) {
        let tunnel = &mut self.tunnels[at];
        let (Role::Initiator(peer) | Role::Warm(peer) | Role::Stream(peer) | Role::Trying { peer, .. }) = tunnel.role
        else {
            return;
        };
        if !tunnel.is_fast_open || !tunnel.is_connected() {
            return;
        }
        if let Some(has_worked) = tunnel.has_opened_fast() {
            let known = &mut self.peers[peer];
            if known.fast_open.note(now, has_worked) {
                tracing::warn!(
                    peer = known.settings.name,
                    "TCP Fast Open fails on the path: connections beyond those kept warm wait for their handshake"
                );
            }
            self.count_opened(if has_worked { "syn_data_taken" } else { "syn_data_refused" });
        }
    }

    /// Puts the client's DSCP and the class's priority on a stream's packets.
    pub(super) fn mark_packets(&mut self, stream: TunnelId, request: &ConnectRequest, class: Option<&Class>) {
        let policy = self.sockets.dscp;
        let Some(socket) = self.tunnel(stream).and_then(|tunnel| tunnel.tcp.socket.as_ref()) else { return };
        kernel::transparent::set_dscp(socket, policy.of(request.dscp).value());
        let priority = match class.map(|class| class.settings.priority) {
            Some(Priority::Interactive) => INTERACTIVE,
            Some(Priority::Bulk) => BULK,
            _ => return,
        };
        let _ = socket.set_priority(priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_open_is_left_alone_after_misses_in_a_row_and_tried_again() {
        let (mut fast_open, now) = (FastOpen::default(), Instant::ZERO + Duration::from_secs(1));
        for has_worked in [false, false, false, true, false, false, false] {
            assert!(!fast_open.note(now, has_worked) && fast_open.is_tried(now));
        }
        assert!(fast_open.note(now, false) && !fast_open.is_tried(now));
        assert!((0..8).all(|_| !fast_open.note(now, false)), "what was under way says nothing more");
        assert!(fast_open.is_tried(now + RESPITE));
    }
}
