//! How large the packets may be on the path to a peer: connections that are made to find out.

use super::TcpTransport;
use super::rejection::Rejection;
use super::session::Initiator;
use super::tunnel::Role;
use kernel::tcp::TcpInfo;
use std::io;
use std::net::SocketAddr;
use tcp_tunnel::Trial;
use tcp_tunnel::search::Size;
use units::{Duration, Instant};

/// Whether the kernel sends smaller packets on connections that are stuck (RFC 4821); it serves IPv6, too.
pub(crate) const PROBING: &str = "net.ipv4.tcp_mtu_probing";
/// The least segment that it tries then. The kernel takes an outage for a path that carries less, and halves the segment with each
/// timeout: its own least is 48 bytes, with which connections stand nearly still after the outage.
pub(crate) const PROBE_FLOOR: &str = "net.ipv4.tcp_mtu_probe_floor";
/// What passes in packets of 576 bytes, the least that a path has to carry (RFC 791), with timestamps, rounded down.
pub(crate) const MIN_SEGMENT: u32 = 512;
/// Bytes read of a trial at once.
const READ: usize = 4096;

/// Headers of IP and TCP.
const IPV4_HEADERS: u16 = 40;
const IPV6_HEADERS: u16 = 60;

/// The largest segment in an IP packet of `size` bytes to `address`.
pub(super) fn segment(size: u16, address: SocketAddr) -> u16 {
    size - if address.is_ipv6() { IPV6_HEADERS } else { IPV4_HEADERS }
}

/// A trial of packets of one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathTrial {
    size: Size,
    /// Payload of a full segment, options included.
    segment: u32,
    began: Instant,
}

impl PathTrial {
    /// Options of segments, and what rounding takes.
    const MARGIN: u32 = 40;
    /// A trial that takes no longer has waited for no second time-out, after which the kernel sends smaller segments: round trips of its
    /// handshakes, of the trial, and of routers' reports that a packet was too large; and two of the shortest time-outs.
    const ROUND_TRIPS: u64 = 6;
    const TIME_OUTS: Duration = Duration::from_millis(400);

    /// Whether it came back in segments of its size. Where full ones are lost, the kernel at either end cuts smaller ones in time
    /// ([`PROBING`]), and those say nothing of the size.
    fn has_passed(&self, now: Instant, info: &TcpInfo, headers: u32) -> bool {
        let allowed = self.segment.min(info.path_mtu.saturating_sub(headers));
        let is_whole = |segment: u32, full: u32| segment + Self::MARGIN >= full;
        let prompt = Duration::from(info.srtt) * Self::ROUND_TRIPS + Self::TIME_OUTS;
        is_whole(info.segment, allowed)
            && (is_whole(info.received_segment, self.segment) || now.since(self.began) <= prompt)
    }
}

impl TcpTransport {
    /// Makes the trials of the path to `peer` that are due.
    pub(super) fn try_path(&mut self, now: Instant, peer: usize) {
        let known = &mut self.peers[peer];
        if known.search.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        if !known.initiator.as_ref().is_some_and(Initiator::is_up) {
            return known.search.stop();
        }
        let before = known.search.found();
        for size in known.search.poll_trials(now) {
            if let Err(error) = self.make_trial(now, peer, *size) {
                tracing::debug!(%error, "no trial of the path");
            }
        }
        self.use_found(now, peer, before);
    }

    fn make_trial(&mut self, now: Instant, peer: usize, size: Size) -> io::Result<()> {
        let known = &mut self.peers[peer];
        let address = known.settings.address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let Some(Initiator::Up { key, next, tunnel, .. }) = known.initiator.as_mut() else { return Ok(()) };
        let session = self.tunnels[*tunnel].tcp.socket.as_ref();
        // Two segments, so that one is full in TLS, too.
        let full = match size {
            Some(size) => u32::from(segment(size, address)),
            None => session.map_or(Ok(1_460), socket2::Socket::tcp_mss)?,
        };
        let length = u16::try_from(full * 2).unwrap_or(u16::MAX);
        let mut bytes = key.trial(*next, length);
        *next += 1;
        bytes.resize(bytes.len() + usize::from(length), 0);
        let trial = PathTrial { size, segment: full, began: now };
        let at = self.connect_with(now, peer, Role::Trying { peer, trial, missing: length.into() }, size)?;
        self.set_deadline(at, Some(now + self.probe_timers.authentication));
        self.tunnels[at].say(&bytes).inspect_err(|_| drop(self.remove(at)))
    }

    /// Something of a trial has come back.
    pub(super) fn on_trying(&mut self, now: Instant, at: usize) {
        self.look_at_fast_open(now, at);
        let mut buffer = [0; READ];
        loop {
            let tunnel = &mut self.tunnels[at];
            let outcome = tunnel.flush().and_then(|_| tunnel.read(&mut buffer));
            let Role::Trying { peer, trial, missing } = &mut tunnel.role else { return };
            match outcome {
                Ok(count @ 1..) if count < *missing => *missing -= count,
                Ok(1..) => {
                    let (peer, trial) = (*peer, *trial);
                    return self.on_returned(now, at, peer, &trial);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    let (peer, size) = (*peer, trial.size);
                    self.peers[peer].search.on_refused(now, size);
                    return drop(self.remove(at));
                }
            }
        }
    }

    /// All of a trial has come back.
    fn on_returned(&mut self, now: Instant, at: usize, peer: usize, trial: &PathTrial) {
        let socket = self.tunnels[at].tcp.socket.as_ref();
        let is_ipv6 = self.peers[peer].settings.address.is_some_and(|address| address.is_ipv6());
        let headers = if is_ipv6 { IPV6_HEADERS } else { IPV4_HEADERS };
        let info = socket.and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        let has_passed = info.is_none_or(|info| trial.has_passed(now, &info, headers.into()));
        drop(self.remove(at));
        let search = &mut self.peers[peer].search;
        let before = search.found();
        if has_passed {
            search.on_passed(trial.size);
        } else {
            search.on_lost(now, trial.size);
        }
        self.use_found(now, peer, before);
    }

    /// Goes by what has been found, if it is not what was found before.
    fn use_found(&mut self, now: Instant, peer: usize, before: Option<Size>) {
        let known = &self.peers[peer];
        let (name, found) = (&known.settings.name, known.search.found());
        let Some(size) = found.filter(|_| found != before) else { return };
        match size {
            Some(size) => {
                tracing::warn!(
                    peer = name,
                    size,
                    "the path carries no packets as large as its route allows, and does not say so: smaller ones are sent"
                );
                if before.is_some() && kernel::sysctl::read(PROBING).is_ok_and(|value| value.trim() == "0") {
                    tracing::warn!(
                        peer = name,
                        "connections that were open before the path shrank stay stuck: {PROBING} = 1 on both gateways lets the kernel \
                         send smaller packets on them"
                    );
                }
            }
            None if before.is_some() => {
                tracing::info!(peer = name, "the path carries packets as large as its route allows");
                // Warm ones have the size that they were made with, and the session needs no larger one.
                return self.drop_warm(peer);
            }
            None => return,
        }
        self.lose_session(now, peer, "its path carries smaller packets than was thought");
    }

    /// Sends back what a peer sends to try the path.
    pub(super) fn begin_echo(&mut self, at: usize, trial: &Trial) -> Result<(), Rejection> {
        self.session_of(at, trial.session)?.take_trial(trial)?;
        let length = usize::from(trial.length);
        self.tunnels[at].role = Role::Echoing { length, missing: length };
        self.on_echoing(at);
        Ok(())
    }

    /// More of a trial has arrived, or its maker has seen it come back.
    pub(super) fn on_echoing(&mut self, at: usize) {
        let mut buffer = [0; READ];
        loop {
            let tunnel = &mut self.tunnels[at];
            let outcome = tunnel.flush().and_then(|_| tunnel.read(&mut buffer));
            let Role::Echoing { length, missing } = &mut tunnel.role else { return };
            match outcome {
                Ok(count @ 1..) if *missing > 0 => {
                    *missing = missing.saturating_sub(count);
                    let length = *length;
                    if *missing == 0 && tunnel.say(&vec![0; length]).is_err() {
                        return drop(self.remove(at));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => return drop(self.remove(at)),
            }
        }
    }
}
