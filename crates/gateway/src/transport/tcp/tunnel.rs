//! One TCP connection across the satellite.

mod protected;

use super::splice::{Moved, Pipes, Splice};
use super::stalls::Stall;
use super::tls::{Tls, is_later};
use super::trials::PathTrial;
use crate::tcp_socket::Tcp;
use crate::transport::Progress;
use ::satpep::{PublicKey, ResetReason};
use kernel::transparent;
use relay::connect::ConnectRequest;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use tcp_tunnel::{LONGEST, Parser, TunnelRequest};
use units::{Duration, Instant};

/// As much of a client's first bytes as is read to go with the SYN: a little less than a packet holds beside the tunnel request.
const FIRST_BYTES: usize = 1_300;

/// What a connection is for.
#[derive(Debug)]
pub(super) enum Role {
    /// A peer has made it and has not said what for.
    Unknown(Parser),
    /// This gateway has made it for the session with a peer.
    Initiator(usize),
    /// A peer has made it for the session.
    Responder(Box<super::session::Responder>),
    /// A warm connection, made by this gateway.
    Warm(usize),
    /// It carries a relayed connection, through a peer.
    Stream(usize),
    /// This gateway has made it to see whether packets of a size pass; so many bytes have not come back.
    Trying { peer: usize, trial: PathTrial, missing: usize },
    /// A peer has made it for that: so many bytes go back once those that are missing have come.
    Echoing { length: usize, missing: usize },
    /// It has carried a relayed connection, and is closed when all is sent.
    Lingering(Lingering),
}

/// What is known of a connection that has ended in order and is kept until the other end has acknowledged everything.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    /// The peer as whose stream it still counts: without a far gateway, nothing else limits how many there are.
    pub(super) counts_for: Option<usize>,
    /// The peer that has opened it, through this gateway.
    pub(super) opened_by: Option<usize>,
    /// Bytes that it had carried when it last made progress, and when that was seen.
    progress: Option<(u64, Instant)>,
}

impl Lingering {
    /// That of `tunnel`, a stream.
    pub(super) fn of(tunnel: &Tunnel) -> Self {
        match tunnel.role {
            Role::Stream(peer) if tunnel.is_direct => Self { counts_for: Some(peer), ..Self::default() },
            Role::Stream(peer) if tunnel.request.is_some() => Self { opened_by: Some(peer), ..Self::default() },
            _ => Self::default(),
        }
    }

    /// Whether it has not made progress for more than `limit`, now that it has carried `carried` bytes.
    fn is_stuck(&mut self, now: Instant, carried: u64, limit: Duration) -> bool {
        match self.progress {
            Some((before, since)) if before == carried => now.since(since) > limit,
            _ => {
                self.progress = Some((carried, now));
                false
            }
        }
    }
}

/// Where data are that are to go to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// All are acknowledged.
    None,
    /// They wait for the other end's window, which answers when it is probed.
    Unsent,
    /// Some are on their way, or have waited for longer than the other end takes to answer a probe.
    UnderWay,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// Unlike its place in the table, never used again.
    pub(super) number: u64,
    pub(super) role: Role,
    pub(super) tcp: Tcp,
    /// The other end.
    pub(super) from: IpAddr,
    /// The far gateway's address and the port of this host's that it has been made from, if this gateway has made it.
    pub(super) port: Option<(SocketAddr, u16)>,
    /// Whether the server itself is at the other end.
    pub(super) is_direct: bool,
    /// Whether the far gateway has yet to answer.
    pub(super) awaits_reply: bool,
    /// Whether this gateway has reported to the near gateway that the server has accepted.
    pub(super) has_replied: bool,
    /// Whether this gateway has reported to the near gateway why there will be no connection.
    pub(super) has_said_why: bool,
    /// What a peer has opened it for, until the relays have asked.
    pub(super) request: Option<ConnectRequest>,
    /// Bytes that go before all others: the tunnel request, and what of the client's is to go with it.
    pending: Vec<u8>,
    /// Until when the tunnel request waits for the client's first bytes.
    pub(super) held_until: Option<Instant>,
    /// Whether it was opened with TCP Fast Open, and nobody has looked yet how that went.
    pub(super) is_fast_open: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) failed: Option<ResetReason>,
    /// Why the peer has reset it, behind what waits to be read.
    pub(super) reset_by_peer: Option<ResetReason>,
    /// Since when it waits to be reset, until everything sent has arrived.
    pub(super) resets_since: Option<Instant>,
    /// What both gateways call it, if it carries a relayed connection.
    pub(super) name: Option<super::Name>,
    /// When the session began in which the peer has opened it; `None` if this gateway has opened it.
    pub(super) session_begun_at: Option<Instant>,
    /// Its place among those that have not said what they are for.
    pub(super) place: Option<super::place::Place>,
    /// Whether there may be a key agreement with who makes it.
    pub(super) admission: Admission,
    /// What it has said it is for, if that came before the proof of its session.
    pub(super) early: Option<tcp_tunnel::Greeting>,
    /// Whether something has been sent since it was last found that all had been acknowledged.
    pub(super) has_sent: bool,
    pub(super) stall: Stall,
    /// Unless the bytes go in clear.
    pub(super) tls: Option<Box<Tls>>,
    /// What has been decrypted and the client has not taken yet.
    decrypted: Vec<u8>,
    pub(super) to_tunnel: Splice,
    to_tcp: Splice,
    /// Whether probes of its closed window are far apart.
    probes_seldom: bool,
    is_finished: bool,
    /// Whether the end of the sent data was passed to TCP.
    is_shut_down: bool,
    /// Whether the end of the sent data was reported to the peer in TLS (close_notify).
    has_told_end: bool,
    pub(super) has_ended: bool,
}

/// Whether there may be a key agreement with who makes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Nothing has come that would lead to one.
    NotAsked,
    /// What has come waits unread.
    Awaited,
    /// It may begin.
    Granted,
}

/// Firewalls on the path, and this host's, forget half-closed connections that are quiet: Linux after 60 s.
const HALF_CLOSED_KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(45);

impl Tunnel {
    pub(super) fn new(number: u64, role: Role, tcp: Tcp, from: IpAddr) -> Self {
        Self {
            number,
            role,
            tcp,
            from,
            port: None,
            is_direct: false,
            awaits_reply: false,
            has_replied: false,
            has_said_why: false,
            request: None,
            pending: Vec::new(),
            held_until: None,
            is_fast_open: false,
            deadline: None,
            failed: None,
            reset_by_peer: None,
            resets_since: None,
            name: None,
            session_begun_at: None,
            place: None,
            admission: Admission::NotAsked,
            early: None,
            has_sent: false,
            stall: Stall::default(),
            tls: None,
            decrypted: Vec::new(),
            to_tunnel: Splice::default(),
            to_tcp: Splice::default(),
            probes_seldom: false,
            is_finished: false,
            is_shut_down: false,
            has_told_end: false,
            has_ended: false,
        }
    }

    /// Reads up to `buffer.len()` bytes; an error of kind `WouldBlock` says that none wait.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.advance()?;
        let Some(mut socket) = self.tcp.socket.as_ref().filter(|_| self.tcp.readable) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let result = match &mut self.tls {
            None => socket.read(buffer),
            Some(tls) => tls.read(socket, buffer),
        };
        if let Err(error) = &result {
            let _ = self.tcp.read_failed(error);
        }
        result
    }

    /// How many bytes wait to be read, 0 or 1: 0 is an end. An error of kind `WouldBlock` says that none do.
    pub(super) fn peek(&self) -> io::Result<usize> {
        self.tcp.socket.as_ref().map_or(Ok(0), |socket| socket.peek(&mut [std::mem::MaybeUninit::uninit()]))
    }

    /// Goes on with the handshake of TLS, if that has not ended; an error of kind `WouldBlock` says that it is the other
    /// side's turn.
    fn advance(&mut self) -> io::Result<()> {
        let (Some(tls), Some(socket)) = (&mut self.tls, &self.tcp.socket) else { return Ok(()) };
        if !tls.is_handshaking() {
            return Ok(());
        }
        let result = tls.advance(socket);
        match &result {
            // It may have read more than the handshake, of which the socket says no more.
            Ok(()) => self.tcp.readable = true,
            Err(error) => {
                let _ = self.tcp.read_failed(error);
            }
        }
        result
    }

    /// Reads on in what the peer has made the connection for.
    pub(super) fn read_greeting(
        &mut self,
    ) -> io::Result<Option<Result<tcp_tunnel::Greeting, tcp_tunnel::GreetingError>>> {
        let mut buffer = [0; LONGEST];
        loop {
            let Role::Unknown(parser) = &self.role else { return Ok(None) };
            let missing = parser.missing();
            match self.read(&mut buffer[..missing]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let Role::Unknown(parser) = &mut self.role else { return Ok(None) };
                    match parser.push(&buffer[..count]) {
                        Ok(None) => {}
                        Ok(Some(greeting)) => return Ok(Some(Ok(greeting))),
                        Err(error) => return Ok(Some(Err(error))),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends `bytes` behind what is pending, now or as soon as the socket takes them.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.queue(bytes);
        self.flush().map(drop)
    }

    /// Queues `bytes` behind what is pending, until the next [`Tunnel::flush`].
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Says what every tunnel request begins with: where it rides in a SYN, it tells whether that works.
    pub(super) fn say_prefix(&mut self) -> io::Result<()> {
        // Of TLS it is the ClientHello that rides there.
        if self.tls.is_some() { self.flush().map(drop) } else { self.say(&TunnelRequest::PREFIX) }
    }

    /// Has `request` go first; with `until`, together with the client's first bytes if they come before.
    pub(super) fn open_with(&mut self, tunnel_request: &[u8], until: Option<Instant>) -> io::Result<()> {
        // Of a warm connection in clear, the far gateway has the first bytes.
        let is_begun = matches!(self.role, Role::Warm(_)) && self.tls.is_none();
        self.pending.extend_from_slice(if is_begun {
            &tunnel_request[TunnelRequest::PREFIX.len()..]
        } else {
            tunnel_request
        });
        self.held_until = until;
        if until.is_some() { Ok(()) } else { self.flush().map(drop) }
    }

    /// Sends what is pending; returns whether nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        self.held_until = None;
        match self.advance() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            other => other?,
        }
        if !self.flush_tls()? {
            return Ok(false);
        }
        let Some(mut socket) = self.tcp.socket.as_ref() else { return Ok(self.pending.is_empty()) };
        while !self.pending.is_empty() {
            if !self.tcp.writable {
                return Ok(false);
            }
            match socket.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if is_later(&error) => self.tcp.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.shut_down_if_finished();
        Ok(true)
    }

    /// Sends what is pending through TLS, if the bytes do not go in clear; returns whether nothing is left in it.
    fn flush_tls(&mut self) -> io::Result<bool> {
        let (Some(tls), Some(socket)) = (&mut self.tls, &self.tcp.socket) else { return Ok(true) };
        let mut sent = tls.flush(socket);
        // While the socket takes no more, bytes wait here, where they share records and are counted.
        if sent.is_ok() {
            tls.write(&std::mem::take(&mut self.pending))?;
            if self.is_finished && !std::mem::replace(&mut self.has_told_end, true) {
                tls.finish();
            }
            sent = tls.flush(socket);
        }
        match sent {
            Ok(()) => Ok(true),
            Err(error) if is_later(&error) => {
                self.tcp.writable = false;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads what the client sends at once, to go with the tunnel request. Returns how many bytes that were.
    fn gather(&mut self, client: &mut Tcp) -> (u64, Option<Progress>) {
        let Some(mut socket) = client.socket.as_ref().filter(|_| client.readable) else { return (0, None) };
        let before = self.pending.len();
        self.pending.resize(before + FIRST_BYTES, 0);
        let result = socket.read(&mut self.pending[before..]);
        self.pending.truncate(before + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => (0, Some(Progress::Ended)),
            Ok(count) => (count as u64, Some(Progress::More)),
            Err(error) => (0, Some(client.read_failed(&error)).filter(|progress| *progress == Progress::TcpFailed)),
        }
    }

    /// Moves bytes from `client` to the peer.
    pub(super) fn send(&mut self, pipes: &mut Pipes, client: &mut Tcp) -> (u64, Progress) {
        if let Some(reason) = self.failed {
            return (0, Progress::StreamFailed(reason));
        }
        let mut gathered = 0;
        if self.held_until.is_some() {
            let (count, progress) = self.gather(client);
            gathered = count;
            match progress {
                None => return (0, Progress::Blocked),
                Some(Progress::TcpFailed) => return (0, Progress::TcpFailed),
                Some(_) => {}
            }
        }
        match self.flush() {
            Ok(true) => {}
            Ok(false) => return (gathered, Progress::Blocked),
            Err(error) => return (gathered, self.write_failed(&error)),
        }
        if self.tls.is_some() {
            let (count, progress) = self.encrypt(&mut pipes.buffers, client);
            return (gathered + count, progress);
        }
        let (count, moved) = self.to_tunnel.relay(pipes, client, &mut self.tcp);
        let progress = match moved {
            Moved::More => Progress::More,
            Moved::Blocked => Progress::Blocked,
            Moved::Ended => Progress::Ended,
            Moved::SourceFailed(_) => Progress::TcpFailed,
            Moved::DestinationFailed(error) => self.write_failed(&error),
        };
        (gathered + count, progress)
    }

    /// Moves bytes from the peer to `client`.
    pub(super) fn receive(&mut self, pipes: &mut Pipes, client: &mut Tcp) -> (u64, Progress) {
        if let Some(reason) = self.failed {
            return (0, Progress::StreamFailed(reason));
        }
        let (count, progress) =
            if self.tls.is_some() { self.decrypt(&mut pipes.buffers, client) } else { self.splice_to(pipes, client) };
        let has_read_all = progress == Progress::Blocked && !self.tcp.readable && client.writable;
        match self.reset_by_peer.filter(|_| has_read_all && self.to_tcp.filled() == 0 && self.decrypted.is_empty()) {
            Some(reason) => (count, Progress::StreamFailed(*self.failed.get_or_insert(reason))),
            None => (count, progress),
        }
    }

    /// Moves bytes from the peer to `client`, in clear.
    fn splice_to(&mut self, pipes: &mut Pipes, client: &mut Tcp) -> (u64, Progress) {
        let (count, moved) = self.to_tcp.relay(pipes, &mut self.tcp, client);
        let progress = match moved {
            Moved::More => Progress::More,
            Moved::Blocked => Progress::Blocked,
            Moved::Ended if self.tcp.is_cut_off() => self.fail(&io::ErrorKind::ConnectionReset.into()),
            Moved::Ended => {
                self.has_ended = true;
                Progress::Ended
            }
            Moved::SourceFailed(error) => self.fail(&error),
            Moved::DestinationFailed(_) => {
                client.note_failed_write();
                Progress::TcpFailed
            }
        };
        (count, progress)
    }

    /// Ends the direction away from here, behind what is pending.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
        if self.flush().is_err() {
            self.failed.get_or_insert(ResetReason::Aborted);
        }
    }

    /// Once only: each call wakes the watcher of the socket, who would call this again. Not before the handshake has ended, which a SYN
    /// that carries all the data does not wait for: Linux gives up a connection that is shut down before.
    fn shut_down_if_finished(&mut self) {
        if !self.is_finished || !self.is_connected() || std::mem::replace(&mut self.is_shut_down, true) {
            return;
        }
        if let Some(socket) = &self.tcp.socket {
            // If TCP has failed meanwhile, its next event says so.
            let _ = socket.shutdown(std::net::Shutdown::Write);
            if socket.tcp_keepalive_time().is_ok_and(|keepalive| keepalive > HALF_CLOSED_KEEPALIVE) {
                let _ = kernel::tcp::set_keepalive(socket, HALF_CLOSED_KEEPALIVE);
            }
        }
    }

    /// Whether a tunnel request that is said now goes at once.
    pub(super) fn is_ready(&self) -> bool {
        self.is_connected() && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Whether the holder of `key` is at the other end, as far as TLS knows.
    pub(super) fn may_be(&self, key: &PublicKey) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_with(key))
    }

    /// How many bytes wait to be sent before all others, about: those that TLS has taken count without what it adds.
    pub(super) fn pending(&self) -> usize {
        self.pending.len() + self.tls.as_ref().map_or(0, |tls| tls.waiting())
    }

    /// Whether it carries a relayed connection through the gateway of `peer`: not one that runs to the server itself.
    pub(super) fn is_through(&self, peer: usize) -> bool {
        matches!(self.role, Role::Stream(of) if of == peer) && !self.is_direct
    }

    /// Where the data are that a relayed connection sends to the peer.
    pub(super) fn data(&self, longest_rto: Duration) -> Data {
        let Some(socket) = self.tcp.socket.as_ref().filter(|_| matches!(self.role, Role::Stream(_))) else {
            return Data::None;
        };
        let held_up = std::time::Duration::from(longest_rto) * 2;
        match kernel::tcp::tcp_info(socket) {
            Ok(info) if info.unacknowledged_segments > 0 => Data::UnderWay,
            // Where there is no route, none leave.
            Ok(info) if info.unsent_bytes > 0 && info.since_last_ack > held_up => Data::UnderWay,
            Ok(info) if info.unsent_bytes > 0 => Data::Unsent,
            _ => Data::None,
        }
    }

    /// Whether the other end's host has acknowledged everything that was said.
    pub(super) fn is_acknowledged(&self) -> bool {
        let info = self.tcp.socket.as_ref().and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        self.pending() == 0 && info.is_some_and(|info| info.unacknowledged_segments == 0 && info.unsent_bytes == 0)
    }

    /// Bytes that it has carried both ways, as far as this end knows.
    pub(super) fn carried_bytes(&self) -> u64 {
        let info = self.tcp.socket.as_ref().and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        info.map_or(0, |info| info.carried_bytes)
    }

    /// Whether TCP's handshake has ended.
    pub(super) fn is_connected(&self) -> bool {
        self.tcp.socket.as_ref().is_some_and(|socket| socket.peer_addr().is_ok())
    }

    /// Whether both directions have ended in order.
    pub(super) fn is_over(&self) -> bool {
        self.is_finished && self.has_ended
    }

    /// Whether the other end has acknowledged all that was to be sent, and its end.
    pub(super) fn has_said_all(&self) -> bool {
        self.is_shut_down && (self.tcp.socket.is_none() || self.is_acknowledged())
    }

    /// Whether the other end has acknowledged all, or has reset the connection: what it has not taken then never will be.
    pub(super) fn has_nothing_to_wait_for(&self) -> bool {
        self.has_said_all() || !self.is_connected()
    }

    /// Whether it is kept only until the other end has acknowledged everything.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.role, Role::Lingering(_)) || self.is_resetting()
    }

    /// Whether it is lingering and the other end has acknowledged no more bytes for `limit`, though it may answer probes of its closed window.
    pub(super) fn is_stuck(&mut self, now: Instant, limit: Duration) -> bool {
        let carried = self.carried_bytes();
        match &mut self.role {
            Role::Lingering(lingering) => lingering.is_stuck(now, carried, limit),
            _ => false,
        }
    }

    /// Has BBR start again if it paces what waits at less than a segment a second. Linux's BBR may come out of an outage so, and stays
    /// so: its pacer lets nothing leave, and what the kernel's window probes carry meanwhile tells it nothing of the bandwidth.
    pub(super) fn free_from_slow_pacing(&self) {
        let may_wait = !self.tcp.writable || self.is_ending();
        let Some(socket) = self.tcp.socket.as_ref().filter(|_| may_wait) else { return };
        let is_slow = kernel::tcp::tcp_info(socket)
            .is_ok_and(|info| info.unsent_bytes > 0 && info.pacing_rate < u64::from(info.segment));
        if is_slow && kernel::tcp::congestion_control(socket).is_ok_and(|name| name.starts_with("bbr")) {
            let outcome = kernel::tcp::restart_congestion_control(socket);
            tracing::debug!(?outcome, "BBR paced a connection at less than a segment a second: it starts again");
        }
    }

    /// Where the other end keeps its window closed, the kernel gives a connection up after 15 probes without an answer, which are
    /// `longest_rto` apart: less time than an outage may take. So they leave seldom while none is answered, and to be asked of each few
    /// seconds is what makes such a connection go on soon after the outage.
    pub(super) fn outlast_outage(&mut self, longest_rto: Duration) {
        const UNANSWERED: u8 = 3;
        const SELDOM: std::time::Duration = std::time::Duration::from_secs(120);
        let may_be_closed = self.probes_seldom || !self.tcp.writable || self.is_ending();
        let Some(socket) = self.tcp.socket.as_ref().filter(|_| may_be_closed) else { return };
        let Ok(info) = kernel::tcp::tcp_info(socket) else { return };
        // Kernels before 6.15 have neither the limit nor the trouble.
        if info.unanswered_probes >= UNANSWERED && !self.probes_seldom {
            self.probes_seldom = kernel::tcp::set_longest_rto(socket, SELDOM).is_ok();
        } else if self.probes_seldom && info.unanswered_probes == 0 {
            self.probes_seldom = kernel::tcp::set_longest_rto(socket, longest_rto.into()).is_err();
        } else if self.probes_seldom {
            let outcome = kernel::tcp::probe_window(socket);
            tracing::trace!(?outcome, "a closed window is probed");
        }
    }

    /// Nothing more will be moved.
    pub(super) fn close_splices(&mut self, pipes: &mut Pipes) {
        self.to_tunnel.close(pipes);
        self.to_tcp.close(pipes);
    }

    /// Closes the connection, which has nothing to say, in order.
    pub(super) fn close(self) {
        self.tcp.end_user_timeout();
        self.tcp.close_in_order();
    }

    /// Has the connection closed in order, from either side. While this process holds it, the process decides how long it may last; see
    /// [`Self::leave_to_kernel`].
    pub(super) fn allow_orderly_close(&self) {
        if let Some(socket) = &self.tcp.socket {
            // A socket that has failed is not kept.
            let _ = transparent::allow_orderly_close(socket);
        }
    }

    /// Closes the connection in order though not all of what it has to say is acknowledged: the kernel tries for as long as for any host
    /// (`net.ipv4.tcp_orphan_retries`).
    pub(super) fn leave_to_kernel(&self) {
        self.tcp.end_user_timeout();
    }

    /// What a failed write means: where the peer has reset the connection, what it sent before is still read, and then the reset is met
    /// again.
    pub(super) fn write_failed(&mut self, error: &io::Error) -> Progress {
        let is_reset = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        if !is_reset || !self.is_read_on() {
            return self.fail(error);
        }
        self.tcp.note_failed_write();
        Progress::Blocked
    }

    /// Remembers that the connection has failed.
    pub(super) fn fail(&mut self, error: &io::Error) -> Progress {
        let reason = *self.failed.get_or_insert(reason_of(error));
        Progress::StreamFailed(reason)
    }

    /// Whether data that went with the SYN were taken; `None` if that was not tried or has been looked at.
    pub(super) fn has_opened_fast(&mut self) -> Option<bool> {
        let socket = self.tcp.socket.as_ref().filter(|_| std::mem::take(&mut self.is_fast_open))?;
        kernel::tcp::tcp_info(socket).ok().map(|info| info.is_syn_data_acked)
    }
}

/// What the end of a connection to a peer says.
pub(super) fn reason_of(error: &io::Error) -> ResetReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ResetReason::PeerRestarted,
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ResetReason::Outage
        }
        _ => ResetReason::Aborted,
    }
}

/// What the end of a connection to a server says.
pub(super) fn server_reason_of(error: &io::Error) -> ResetReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ResetReason::Refused,
        io::ErrorKind::TimedOut => ResetReason::TimedOut,
        io::ErrorKind::ConnectionReset => ResetReason::Aborted,
        _ => ResetReason::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::time::{Duration, Instant};

    #[test]
    fn the_end_waits_for_the_handshake() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(0).expect("listen");
        let address = listener.local_addr().expect("address");
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
            socket.set_nonblocking(true).expect("nonblocking");
            let _ = socket.connect(&address);
            socket
        };
        // Where the queue of those to be accepted is full, SYNs get no answer.
        let waiting: Vec<Socket> = (0..3).map(|_| connect()).collect();
        let mut tunnel = Tunnel::new(1, Role::Stream(0), Tcp::connecting(connect()), [127, 0, 0, 1].into());
        assert!(!tunnel.is_connected());
        tunnel.finish();
        assert!(!tunnel.is_shut_down && tunnel.failed.is_none());
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut accepted = Vec::new();
        listener.set_nonblocking(true).expect("nonblocking");
        while !tunnel.is_connected() {
            assert!(Instant::now() < deadline, "no handshake");
            accepted.extend(listener.accept());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(tunnel.flush().expect("nothing is left") && tunnel.is_shut_down);
        drop((waiting, accepted));
    }

    /// A connection of which the kernel would keep what is not acknowledged for a week, and another hold of its socket.
    fn patient_tunnel() -> (Tunnel, Socket) {
        let own = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        own.set_tcp_user_timeout(Some(Duration::from_secs(7 * 24 * 3600))).expect("user timeout");
        own.set_linger(Some(Duration::ZERO)).expect("linger");
        let held = own.try_clone().expect("clone");
        (Tunnel::new(1, Role::Stream(0), Tcp::connecting(own), [127, 0, 0, 1].into()), held)
    }

    #[test]
    fn the_kernel_gives_up_a_connection_that_is_closed_in_order() {
        let (tunnel, held) = patient_tunnel();
        tunnel.allow_orderly_close();
        let kept = held.tcp_user_timeout().expect("user timeout");
        assert_eq!(kept, Some(Duration::from_secs(7 * 24 * 3600)), "a closed window may last");
        tunnel.leave_to_kernel();
        assert_eq!(held.tcp_user_timeout().expect("user timeout"), None);
        let (tunnel, held) = patient_tunnel();
        tunnel.close();
        assert_eq!(held.tcp_user_timeout().expect("user timeout"), None);
        assert_eq!(held.linger().expect("linger"), None);
    }

    #[test]
    fn a_reset_ends_the_wait_for_what_the_other_end_has_not_taken() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        listener.set_recv_buffer_size(4096).expect("a small window");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(1).expect("listen");
        let own = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        own.connect(&listener.local_addr().expect("address")).expect("connect");
        own.set_nonblocking(true).expect("nonblocking");
        let (other, _) = listener.accept().expect("accept");
        while (&own).write(&[7; 65_536]).is_ok() {}
        let mut tunnel =
            Tunnel::new(1, Role::Lingering(Lingering::default()), Tcp::connecting(own), [127, 0, 0, 1].into());
        tunnel.is_finished = true;
        tunnel.flush().expect("its end goes behind the bytes");
        assert!(!tunnel.has_nothing_to_wait_for(), "the other end has not read");
        other.set_linger(Some(Duration::ZERO)).expect("linger");
        drop(other);
        let deadline = Instant::now() + Duration::from_secs(10);
        while tunnel.is_connected() {
            assert!(Instant::now() < deadline, "the reset does not arrive");
            std::thread::yield_now();
        }
        assert!(tunnel.has_nothing_to_wait_for());
    }
}
