//! A TCP socket that is watched edge-triggered: towards a host, or across the satellite.

use kernel::tcp::TcpInfo;
use kernel::transparent;
use relay::engine::Progress;
use socket2::Socket;
use std::io;
use units::{Duration, Instant};

/// A TCP socket, watched edge-triggered: readiness is remembered until the kernel says
/// `WouldBlock`.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) socket: Option<Socket>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other end has sent urgent data: a read may end before what waits does.
    pub(crate) urgent: bool,
    /// The kernel has announced the end of what TCP will offer.
    pub(crate) read_closed: bool,
    /// The other end's FIN has come, and no reset before it.
    has_fin: bool,
    /// A write has met a failure of the connection. The kernel has forgotten it by that: a read then finds no more, as behind a FIN.
    has_write_failed: bool,
    /// Since when it has been found again and again that something waits for an acknowledgement and none comes.
    unacknowledged_since: Option<Instant>,
    /// Whether data were among what waited then.
    data_waits: bool,
    /// Whether the kernel waits for as long as that lasts.
    outlasts_kernel: bool,
}

/// As good as without end for the kernel.
const ENDLESS: std::time::Duration = std::time::Duration::from_secs(24 * 24 * 3600);

impl Tcp {
    /// A client's connection, which may have brought data with it.
    pub(crate) fn accepted(socket: Socket) -> Self {
        Self { socket: Some(socket), readable: true, ..Self::new() }
    }

    /// A connection to a server that is being made.
    pub(crate) fn connecting(socket: Socket) -> Self {
        Self { socket: Some(socket), ..Self::new() }
    }

    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            readable: false,
            writable: true,
            urgent: false,
            read_closed: false,
            has_fin: false,
            has_write_failed: false,
            unacknowledged_since: None,
            data_waits: false,
            outlasts_kernel: false,
        }
    }

    /// Remembers what `event` says.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
        self.urgent |= event.is_priority();
        self.read_closed |= event.is_read_closed();
        self.has_fin |= event.is_read_closed() && !event.is_error() && !self.has_write_failed;
    }

    /// Whether a write has met a failure of the connection.
    pub(crate) fn has_write_failed(&self) -> bool {
        self.has_write_failed
    }

    /// Whether a read that finds no more has met the end of a connection that has failed, and no FIN.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.has_write_failed && !self.has_fin
    }

    /// What an error of reading from the socket means.
    pub(crate) fn read_failed(&mut self, error: &io::Error) -> Progress {
        let (readable, progress) = failed(error);
        self.readable &= readable;
        self.urgent &= readable;
        progress
    }

    /// What an error of writing to the socket means.
    pub(crate) fn write_failed(&mut self, error: &io::Error) -> Progress {
        let (writable, progress) = failed(error);
        self.writable &= writable;
        if progress == Progress::TcpFailed {
            self.note_failed_write();
        }
        progress
    }

    /// A write has met a failure of the connection: what came before it may still be read.
    pub(crate) fn note_failed_write(&mut self) {
        (self.has_write_failed, self.readable) = (true, true);
    }

    /// Whether the other end has acknowledged nothing for more than `limit`, neither data nor probes. To be asked each `period`.
    /// An end that keeps its window closed acknowledges probes.
    pub(crate) fn is_gone(&mut self, now: Instant, period: Duration, limit: Duration) -> bool {
        let info = self.socket.as_ref().and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        let waiting = info.filter(|info| info.unacknowledged_segments > 0 || info.unanswered_probes > 0);
        let unacknowledged_for = waiting.map_or(Duration::ZERO, |info| info.since_last_ack.into());
        let has_data = |info: TcpInfo| info.unacknowledged_segments > 0 || info.unsent_bytes > 0;
        self.data_waits = unacknowledged_for >= period && waiting.is_some_and(has_data);
        if unacknowledged_for < period {
            self.unacknowledged_since = None;
            return false;
        }
        now.since(*self.unacknowledged_since.get_or_insert(now)) > limit
    }

    /// Has [`Tcp::is_gone`] alone decide for how long data may wait: the kernel gives up after `net.ipv4.tcp_retries2` retransmissions, a quarter of an
    /// hour by default. The option for it (TCP_USER_TIMEOUT) replaces the number of keepalive probes, too, so that an idle connection goes without.
    /// It does not replace the number of unanswered probes of a closed window, which is that sysctl, too: no option of a socket does.
    pub(crate) fn outlast_kernel(&mut self) {
        let Some(socket) = self.socket.as_ref().filter(|_| self.outlasts_kernel != self.data_waits) else { return };
        // Of a socket that has failed, the next event says so.
        let _ = socket.set_tcp_user_timeout(self.data_waits.then_some(ENDLESS));
        self.outlasts_kernel = self.data_waits;
    }

    /// Clears the user timeout, so that the kernel gives up the closed connection as soon as that of any host (`net.ipv4.tcp_orphan_retries`). With one
    /// it would go on for as long as that says.
    pub(crate) fn end_user_timeout(&self) {
        if let Some(socket) = &self.socket {
            // A socket that has failed is not kept.
            let _ = socket.set_tcp_user_timeout(None);
        }
    }

    /// Closes the connection in order, and leaves to the kernel what the other end has not acknowledged.
    pub(crate) fn close_in_order(self) {
        if self.outlasts_kernel {
            self.end_user_timeout();
        }
        if let Some(socket) = &self.socket {
            let _ = transparent::allow_orderly_close(socket);
        }
    }

    /// Whether the socket has failed; a failure is reported once.
    pub(crate) fn has_failed(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| matches!(socket.take_error(), Ok(Some(_)) | Err(_)))
    }
}

/// Whether the socket is still ready after `error`, and how far the direction has come.
fn failed(error: &io::Error) -> (bool, Progress) {
    match error.kind() {
        io::ErrorKind::WouldBlock => (false, Progress::Blocked),
        io::ErrorKind::Interrupted => (true, Progress::More),
        _ => (true, Progress::TcpFailed),
    }
}
