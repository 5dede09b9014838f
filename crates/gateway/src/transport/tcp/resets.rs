//! Resets behind data: what a host has sent before it resets its connection arrives first, as end to end. The kernel drops what waits in a
//! socket that is closed by a reset, so the socket is kept until the other gateway's kernel has acknowledged everything.

use super::TcpTransport;
use super::tunnel::Tunnel;
use units::{Duration, Instant};

/// How soon the socket is looked at for the first time. The kernel raises no event when all is acknowledged.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

impl TcpTransport {
    /// Resets stream `at` once everything sent has arrived.
    pub(super) fn reset_behind(&mut self, now: Instant, at: usize) {
        self.tunnels[at].resets_since = Some(now);
        self.on_resetting(now, at);
    }

    /// Sends on what stream `at` has to say before it is reset.
    pub(super) fn on_resetting(&mut self, now: Instant, at: usize) {
        let tunnel = &mut self.tunnels[at];
        let waited = tunnel.resets_since.map_or(Duration::ZERO, |since| now.since(since));
        match tunnel.drain(&mut self.pipes) {
            Ok(false) if tunnel.is_connected() => {
                self.set_deadline(at, Some(now + (waited / 4).max(FIRST_LOOK).min(LONGEST_LOOK)));
            }
            _ => drop(self.remove(at)),
        }
    }
}

impl Tunnel {
    /// Whether it is to be reset as soon as everything sent has arrived.
    pub(super) fn is_resetting(&self) -> bool {
        self.resets_since.is_some()
    }

    /// Whether what the peer has sent before its connection failed is still to be read: the relayed connection is open, and the end has
    /// not been read.
    pub(super) fn is_read_on(&self) -> bool {
        let is_open = if self.request.is_some() { self.has_replied } else { !self.awaits_reply };
        is_open && !self.has_ended && self.failed.is_none()
    }

    /// Whether what is sent to the peer can still arrive.
    pub(super) fn takes_data(&self) -> bool {
        !self.tcp.has_write_failed() && self.reset_by_peer.is_none()
    }

    /// How much the other end has not acknowledged, about, while it is to be reset.
    pub(super) fn undelivered(&self) -> Option<u64> {
        let socket = self.tcp.socket.as_ref().filter(|_| self.is_resetting())?;
        let info = kernel::tcp::tcp_info(socket).ok()?;
        let in_flight = u64::from(info.unacknowledged_segments) * u64::from(info.segment.max(1));
        Some(in_flight + u64::from(info.unsent_bytes) + self.pending() as u64 + self.to_tunnel.filled() as u64)
    }

    /// Sends what waits; returns whether the other end has acknowledged everything.
    fn drain(&mut self, pipes: &mut super::splice::Pipes) -> std::io::Result<bool> {
        Ok(self.flush()? && self.to_tunnel.drain(pipes, &mut self.tcp)? && self.is_acknowledged())
    }
}
