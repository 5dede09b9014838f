//! TCP towards clients and servers by the kernel's sockets, watched edge-triggered, and the descriptors that the process may have.

use crate::config::Settings;
use crate::hold::HeldSyns;
use crate::tcp_socket::Tcp;
use crate::watch::{Owner, Watch};
use kernel::nfqueue::Held;
use kernel::transparent;
use relay::connect::ConnectRequest;
use relay::engine::{ConnectError, Hosts, Progress};
use satpep::ResetReason;
use socket2::Socket;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use units::{Duration, Instant};

/// Of all descriptors, one part in so many is kept back for connections that are on their way when interception ends.
const KEPT_BACK: u64 = 16;
/// No more than that are: clients beyond wait in the listener's queue.
const MAX_KEPT_BACK: u64 = 512;
/// No fewer than that, half of which is for the process itself: to start `nft` takes three pipes and two descriptors beside.
const MIN_KEPT_BACK: u64 = 24;

/// How often a SYN to a server is sent again: `connect_timeout` ends the attempt.
const SYN_RETRIES: u8 = 127;

/// How many of `limit` descriptors a gateway uses before new connections go end to end.
pub fn usable_descriptors(limit: u64) -> u64 {
    limit - kept_back(limit)
}

fn kept_back(limit: u64) -> u64 {
    (limit / KEPT_BACK).clamp(MIN_KEPT_BACK, MAX_KEPT_BACK).min(limit / 2)
}

/// How many of `limit` descriptors connections may take at all: pipes need some, and the program that ends interception.
fn most_for_connections(limit: u64) -> u64 {
    limit - kept_back(limit) / 2
}

/// Of `limit` descriptors, so many or fewer in use leave plenty.
fn ample_descriptors(limit: u64) -> u64 {
    usable_descriptors(limit) / 8 * 7
}

/// How many descriptors the process has in use; `None` before Linux 6.2, which does not say so at once.
fn descriptors_in_use() -> Option<u64> {
    std::fs::metadata("/proc/self/fd").ok().map(|directory| directory.len()).filter(|count| *count > 0)
}

/// Whether the process, or the host, has no descriptors or no memory for another socket.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// The reason reported to the near gateway for a failed connection to a server.
pub(crate) fn why_not_connected(error: &io::Error) -> ResetReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ResetReason::Refused,
        io::ErrorKind::TimedOut => ResetReason::TimedOut,
        _ => ResetReason::Unreachable,
    }
}

pub(crate) fn log_not_connected(request: &ConnectRequest, error: &io::Error) {
    tracing::debug!(client = %request.source, destination = %request.destination, %error, "no connection to the server");
}

/// When it was last logged that ports are used up. Each connection from this host's own address to one server takes one.
#[derive(Debug, Default)]
struct PortShortage(Option<Instant>);

impl PortShortage {
    const AGAIN: Duration = Duration::from_secs(60);

    /// Whether `error` says that there is no port, and it is to be logged.
    fn is_news(&mut self, now: Instant, error: &io::Error) -> bool {
        let is_due = self.0.is_none_or(|logged| logged + Self::AGAIN <= now);
        let is_news = error.raw_os_error() == Some(libc::EADDRNOTAVAIL) && is_due;
        if is_news {
            self.0 = Some(now);
        }
        is_news
    }
}

/// The sockets towards clients and servers.
#[derive(Debug)]
pub(crate) struct HostSockets {
    watch: Watch,
    /// The fwmark of connections that the gateway makes.
    mark: u32,
    backlog: u32,
    keepalive: std::time::Duration,
    most_descriptors: u64,
    ports: PortShortage,
    pub(crate) held_syns: Option<HeldSyns>,
}

impl HostSockets {
    pub(crate) fn new(settings: &Settings, watch: Watch, most_descriptors: u64) -> Self {
        Self {
            watch,
            mark: settings.rules.made(),
            backlog: settings.host_backlog(),
            keepalive: settings.host_keepalive.into(),
            most_descriptors,
            ports: PortShortage::default(),
            held_syns: None,
        }
    }

    pub(crate) fn most_descriptors(&self) -> u64 {
        self.most_descriptors
    }

    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        self.backlog = settings.host_backlog();
        self.keepalive = settings.host_keepalive.into();
    }
}

impl Hosts for HostSockets {
    type Connection = Tcp;
    type Syn = Held;

    fn connect(
        &mut self,
        now: Instant,
        key: usize,
        request: &ConnectRequest,
        as_client: bool,
    ) -> Result<Tcp, ConnectError> {
        let prepare = |socket: &Socket| {
            transparent::set_dscp(socket, request.dscp.value());
            kernel::tcp::set_syn_retries(socket, SYN_RETRIES)?;
            transparent::bound_backlog(socket, self.backlog)
        };
        let source = as_client.then_some(request.source);
        match transparent::connect(source, request.destination, self.mark, self.keepalive, prepare) {
            Ok(socket) => {
                let tcp = Tcp::connecting(socket);
                self.adopt(key, &tcp).map(|()| tcp)
            }
            Err(error) if is_out_of_descriptors(&error) => Err(ConnectError::NoRoom),
            Err(error) => {
                log_not_connected(request, &error);
                if self.ports.is_news(now, &error) {
                    tracing::warn!(
                        destination = %request.destination,
                        %error,
                        "no port is free for connections to a server: widen net.ipv4.ip_local_port_range, or connect from clients' \
                         addresses (connect_from = \"client\")"
                    );
                }
                Err(ConnectError::Failed(why_not_connected(&error)))
            }
        }
    }

    fn adopt(&mut self, key: usize, tcp: &Tcp) -> Result<(), ConnectError> {
        let Some(socket) = &tcp.socket else { return Ok(()) };
        self.watch.add(socket, Owner::Relays(key)).map_err(|error| {
            tracing::error!(%error, "a socket could not be watched");
            ConnectError::Failed(ResetReason::Unreachable)
        })
    }

    fn finish(&mut self, _: Instant, tcp: &mut Tcp) {
        if let Some(socket) = &tcp.socket {
            // If TCP has failed meanwhile, its next event says so.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
    }

    fn close(&mut self, _: Instant, tcp: Tcp) {
        tcp.close_in_order();
    }

    fn abort(&mut self, _: Instant, tcp: Tcp) {
        // The socket was made so that closing it sends a reset; closing takes it out of the poll set, too.
        drop(tcp);
    }

    fn is_gone(&mut self, now: Instant, tcp: &mut Tcp, period: Duration, limit: Duration) -> bool {
        let is_gone = tcp.is_gone(now, period, limit);
        tcp.outlast_kernel();
        is_gone
    }

    fn has_room(&self) -> bool {
        // The kernel gives out the lowest that is free.
        std::io::stderr().as_fd().try_clone_to_owned().is_ok_and(|lowest| {
            u64::try_from(lowest.as_raw_fd()).unwrap_or(0) < most_for_connections(self.most_descriptors)
        })
    }

    /// A new socket has the lowest number that was free: a high one says that few are left.
    fn is_scarce(&self, tcp: &Tcp) -> bool {
        let number = tcp.socket.as_ref().map_or(0, AsRawFd::as_raw_fd);
        u64::try_from(number).unwrap_or(0) >= usable_descriptors(self.most_descriptors)
    }

    /// One low number that is free says nothing of the others.
    fn has_plenty(&self) -> bool {
        descriptors_in_use().is_some_and(|count| count <= ample_descriptors(self.most_descriptors))
    }

    fn has_data(&self, tcp: &Tcp) -> bool {
        tcp.readable
    }

    fn is_full(&self, tcp: &Tcp) -> bool {
        !tcp.writable
    }

    fn is_cut_off(&self, tcp: &Tcp) -> bool {
        tcp.is_cut_off()
    }

    fn has_failed(&self, tcp: &Tcp) -> bool {
        tcp.has_failed()
    }

    fn unacknowledged(&self, tcp: &Tcp) -> u64 {
        // Of a socket that has failed, the figures are those of the past.
        let open = tcp.socket.as_ref().filter(|socket| socket.peer_addr().is_ok());
        let info = open.and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        info.map_or(0, |info| {
            u64::from(info.unacknowledged_segments) * u64::from(info.segment.max(1)) + u64::from(info.unsent_bytes)
        })
    }

    fn discard_received(&mut self, tcp: &mut Tcp) -> Progress {
        let (true, Some(mut socket)) = (tcp.readable, tcp.socket.as_ref()) else { return Progress::Blocked };
        match socket.read(&mut [0; 16 << 10]) {
            Ok(0) => Progress::Ended,
            Ok(_) => Progress::More,
            Err(error) => tcp.read_failed(&error),
        }
    }

    fn release_syn(&mut self, syn: Held) {
        if let Some(syns) = &mut self.held_syns {
            syns.release(&syn);
        }
    }

    fn refuse_syn(&mut self, syn: Held) {
        if let Some(syns) = &mut self.held_syns {
            syns.refuse(&syn);
        }
    }

    fn forget_syn(&mut self, syn: Held) {
        if let Some(syns) = &mut self.held_syns {
            syns.forget(&syn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_back_for_what_is_on_its_way_and_fewer_for_the_process_itself() {
        for (limit, usable, for_connections) in
            [(640, 600, 620), (20_000, 19_488, 19_744), (1 << 20, (1 << 20) - 512, (1 << 20) - 256)]
        {
            assert_eq!((usable_descriptors(limit), most_for_connections(limit)), (usable, for_connections));
        }
    }

    /// Three pipes for `nft`, /dev/null, and a socket to ask the kernel.
    #[test]
    fn a_small_limit_leaves_enough_to_start_the_program_that_ends_interception() {
        for limit in [64, 128, 256, 384] {
            assert!(limit - most_for_connections(limit) >= 8, "{limit}");
            assert!(usable_descriptors(limit) < most_for_connections(limit), "{limit}");
        }
        assert_eq!(usable_descriptors(20), 10, "most of the lowest limits is not kept back");
    }

    #[test]
    fn plenty_is_left_when_an_eighth_of_what_may_be_used_is_free() {
        assert_eq!(ample_descriptors(640), 525);
        // At least the three that every process begins with, where the kernel says it.
        assert!(descriptors_in_use().is_none_or(|count| (3..100_000).contains(&count)));
    }

    #[test]
    fn ports_that_are_used_up_are_logged_once_a_minute() {
        let mut ports = PortShortage::default();
        let [refused, no_port] = [libc::ECONNREFUSED, libc::EADDRNOTAVAIL].map(io::Error::from_raw_os_error);
        let news = [0, 1, 59, 60, 61].map(|seconds| {
            let now = Instant::ZERO + Duration::from_secs(seconds);
            (ports.is_news(now, &refused), ports.is_news(now, &no_port))
        });
        assert_eq!(news, [(false, true), (false, false), (false, false), (false, true), (false, false)]);
    }
}
