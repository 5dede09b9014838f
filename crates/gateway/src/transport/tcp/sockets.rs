//! The sockets of the satellite link.

use super::cross::CrossLayer;
use super::ports::Ports;
use crate::config::{DscpPolicy, Settings};
use crate::error::{StartError, while_doing};
use kernel::{sysctl, tcp, transparent};
use relay::dscp::Dscp;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use units::{Bytes, Duration};

/// Connections that may wait for the end of their handshake with data in their SYN.
const FAST_OPEN_PENDING: u16 = 1024;
const BACKLOG: i32 = 65_535;
/// Values that `net.ipv4.tcp_fastopen` is the sum of (net/tcp.h: `TFO_CLIENT_ENABLE`, `TFO_SERVER_ENABLE`): this host's connections
/// may send data in a SYN, its listeners may take them.
const FAST_OPEN_CLIENT: u32 = 1;
const FAST_OPEN_SERVER: u32 = 2;

/// After what time the kernel gives a connection up: not before the transport does, which knows an outage from a reader that stalls, and
/// the kernel does not. Without, it would after a number of retransmissions.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often a SYN is sent again: who opens a connection knows for how long.
const SYN_RETRIES: u8 = 127;

/// The least that the kernel takes for the longest time between two retransmissions.
const SHORTEST_RTO_LIMIT: Duration = Duration::from_secs(1);

/// How many ports are tried for a connection, beside those of this process's own, in some milliseconds. A process before this one, or
/// another one, may have hundreds in a row; if so many that have been left alone for longest are taken, so are the others.
const ATTEMPTS: usize = 512;

/// How long a connection that the peer has made may be quiet before the kernel asks whether the other end is there. The peer's own
/// probes keep the mappings of NATs and the states of firewalls on the path.
const ACCEPTED_KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(600);

/// So many retransmissions in a row do not get through where others do only if the path takes the packets of a connection for
/// somebody else's: a NAT or a firewall has forgotten it.
const LOST_RETRANSMISSIONS: u64 = 20;

/// How every socket of the satellite link is set up.
#[derive(Debug, Clone)]
pub(super) struct Sockets {
    congestion_control: Option<String>,
    send_buffer: Bytes,
    receive_buffer: Bytes,
    /// The fwmark by which the cross-layer control knows the sockets, where that is used.
    mark: Option<u32>,
    /// DSCP of packets.
    pub(super) dscp: DscpPolicy,
    /// The longest wait between two retransmissions, which is about how soon they go on after an outage.
    pub(super) longest_rto: Duration,
    /// How long nothing of a connection is acknowledged until it is lost to a path that carries others. None where the kernel waits
    /// longer between retransmissions than `longest_rto`.
    pub(super) lost_after: Option<Duration>,
    /// How long a connection made here may be quiet before the kernel probes it.
    keepalive: Duration,
    ports: Ports,
    /// Whether connections may be opened with data in the SYN.
    pub(super) fast_open: bool,
    /// Whether those of peers may.
    takes_fast_open: bool,
}

impl Sockets {
    /// Checks that the kernel has what the settings ask for. With `cross` that is the congestion control.
    pub(super) fn new(
        settings: &Settings,
        tcp: &crate::config::TcpSettings,
        cross: Option<&CrossLayer>,
    ) -> Result<Self, StartError> {
        let congestion_control = cross.map(|cross| cross.name().to_owned()).or_else(|| tcp.congestion_control.clone());
        if let Some(name) = &congestion_control {
            check_congestion_control(name)?;
        }
        let host = sysctl::read("net.ipv4.tcp_fastopen").ok().and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
        if tcp.fast_open
            && let Some(who) = without_fast_open(host)
        {
            tracing::warn!(
                "net.ipv4.tcp_fastopen is {host}: connections {who} wait a round trip for their handshake, or use those kept \
                 warm; 3 lets this host send and take data with a SYN"
            );
        }
        let longest_rto = (settings.link.rtt * 4).max(SHORTEST_RTO_LIMIT);
        let scratch =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(while_doing("a socket".to_owned()))?;
        let is_rto_limited = tcp::set_longest_rto(&scratch, longest_rto.into()).is_ok();
        Ok(Self {
            congestion_control,
            mark: cross.map(|_| settings.rules.crossing()),
            dscp: settings.link.dscp,
            send_buffer: tcp.send_buffer,
            receive_buffer: tcp.receive_buffer,
            longest_rto,
            lost_after: is_rto_limited.then_some(longest_rto * LOST_RETRANSMISSIONS),
            keepalive: settings.link.keepalive,
            ports: Ports::new(
                &sysctl::read("net.ipv4.ip_local_port_range").unwrap_or_default(),
                &sysctl::read("net.ipv4.ip_local_reserved_ports").unwrap_or_default(),
                super::random_number()?,
            ),
            fast_open: tcp.fast_open && host & FAST_OPEN_CLIENT != 0,
            takes_fast_open: tcp.fast_open,
        })
    }

    /// From now on, connections made here are probed when they were quiet for so long.
    pub(super) fn keep_alive(&mut self, keepalive: Duration) {
        self.keepalive = keepalive;
    }

    /// The listener for the peers' connections.
    pub(super) fn listen(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = self.socket(address, ACCEPTED_KEEPALIVE)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        if self.takes_fast_open && tcp::set_fast_open_listen(&socket, FAST_OPEN_PENDING).is_err() {
            tracing::warn!("this kernel has no TCP Fast Open");
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }

    /// Sets up as this process's settings say the listener of another one, which may have had others.
    pub(super) fn adopt(&self, listener: &Socket) -> io::Result<()> {
        let mark = self.mark.unwrap_or_default();
        if listener.mark()? != mark {
            listener.set_mark(mark)?;
        }
        self.prepare(listener)?;
        if self.congestion_control.is_none() {
            use_default_congestion_control(listener)?;
        }
        transparent::change_dscp(listener, self.own_dscp());
        tcp::set_keepalive(listener, ACCEPTED_KEEPALIVE)?;
        // A kernel without it has said so to the process before.
        let _ = tcp::set_fast_open_listen(listener, if self.takes_fast_open { FAST_OPEN_PENDING } else { 0 });
        listener.listen(BACKLOG)?;
        listener.set_nonblocking(true)
    }

    /// The code point of packets that belong to no client's connection.
    fn own_dscp(&self) -> u8 {
        self.dscp.of(Dscp::default()).value()
    }

    /// A peer's connection that waits at `listener`, and where it comes from.
    pub(super) fn accept(&self, listener: &Socket) -> io::Result<Option<(Socket, IpAddr)>> {
        let Some((socket, from)) = transparent::accept_nonblocking(listener)? else { return Ok(None) };
        let from = from.as_socket().map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip().to_canonical());
        Ok(Some((socket, from)))
    }

    /// Begins a connection to the gateway at `address`; with `fast_open` it may begin with the first write. With `segment`,
    /// neither end sends larger ones. Returns its port, too, which goes to others unless it is [kept](Self::keep).
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` if no port is free, and those of `connect(2)`.
    pub(super) fn connect(
        &mut self,
        address: SocketAddr,
        fast_open: bool,
        segment: Option<u16>,
    ) -> io::Result<(Socket, u16)> {
        for attempt in 0..ATTEMPTS {
            let Some(port) = self.ports.take(address) else { break };
            match self.connect_from(port, address, fast_open, segment) {
                // The kernel says the same where it has no address to connect from.
                Err(error) if attempt == 0 && is_unavailable(&error) && self.lacks_source(address) => {
                    return Err(io::Error::other(NoSource(address.ip())));
                }
                Err(error) if is_unavailable(&error) || error.kind() == io::ErrorKind::AddrInUse => {}
                outcome => return outcome.map(|socket| (socket, port)),
            }
        }
        Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
    }

    /// A connection to `address` has `port`, until that is given back.
    pub(super) fn keep(&mut self, address: SocketAddr, port: u16) {
        self.ports.keep(address, port);
    }

    /// The connection to `address` that had `port` has ended.
    pub(super) fn give_back(&mut self, address: SocketAddr, port: u16) {
        self.ports.give_back(address, port);
    }

    /// Whether this host has no address from which to connect to `address`, as after an interface has lost its global address of IPv6.
    /// UDP shows it, which needs no port of TCP's.
    fn lacks_source(&self, address: SocketAddr) -> bool {
        let outcome = Socket::new(Domain::for_address(address), Type::DGRAM, None).and_then(|socket| {
            self.mark.map_or(Ok(()), |mark| socket.set_mark(mark))?;
            socket.connect(&address.into())
        });
        outcome.is_err_and(|error| is_unavailable(&error))
    }

    fn connect_from(
        &self,
        port: u16,
        address: SocketAddr,
        fast_open: bool,
        segment: Option<u16>,
    ) -> io::Result<Socket> {
        let socket = self.socket(address, self.keepalive.into())?;
        socket.set_reuse_address(true)?;
        let own: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => {
                socket.set_only_v6(true)?;
                Ipv6Addr::UNSPECIFIED.into()
            }
        };
        socket.bind(&SocketAddr::new(own, port).into())?;
        if let Some(segment) = segment {
            socket.set_tcp_mss(segment.into())?;
        }
        if fast_open {
            tcp::set_fast_open_connect(&socket)?;
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    fn socket(&self, address: SocketAddr, keepalive: std::time::Duration) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        if let Some(mark) = self.mark {
            socket.set_mark(mark)?;
        }
        self.prepare(&socket)?;
        tcp::set_keepalive(&socket, keepalive)?;
        Ok(socket)
    }

    /// Sets a socket up that crosses the satellite, before it is connected: the SYN carries its window scale.
    pub(super) fn prepare(&self, socket: &Socket) -> io::Result<()> {
        transparent::prepare(socket)?;
        let bytes = |size: Bytes| usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
        transparent::set_buffers(socket, bytes(self.receive_buffer), bytes(self.send_buffer))?;
        if let Some(name) = &self.congestion_control {
            socket.set_tcp_congestion(name.as_bytes())?;
        }
        transparent::set_dscp(socket, self.own_dscp());
        socket.set_tcp_user_timeout(Some(PATIENCE.into()))?;
        tcp::set_syn_retries(socket, SYN_RETRIES)?;
        // A kernel that is too old for it waits two minutes at most.
        let _ = tcp::set_longest_rto(socket, self.longest_rto.into());
        Ok(())
    }
}

/// No connection to this address can be made.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("this host has no address from which to connect to {0}")]
struct NoSource(IpAddr);

/// Whether no port is free, or the host lacks an address.
pub(super) fn is_unavailable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EADDRNOTAVAIL)
}

/// Whether the host lacks an address to connect from.
pub(super) fn is_without_source(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NoSource>())
}

/// Gives `socket` the congestion control that new sockets of the host have.
fn use_default_congestion_control(socket: &Socket) -> io::Result<()> {
    let Ok(name) = sysctl::read("net.ipv4.tcp_congestion_control") else { return Ok(()) };
    if tcp::congestion_control(socket)? == name { Ok(()) } else { socket.set_tcp_congestion(name.as_bytes()) }
}

/// Whose connections cannot be opened with data in the SYN, where `net.ipv4.tcp_fastopen` is `host`.
fn without_fast_open(host: u32) -> Option<&'static str> {
    match (host & FAST_OPEN_CLIENT != 0, host & FAST_OPEN_SERVER != 0) {
        (true, true) => None,
        (true, false) => Some("of the peers"),
        (false, true) => Some("to the peers"),
        (false, false) => Some("to and of the peers"),
    }
}

/// Whether sockets can be given congestion control `name`.
fn check_congestion_control(name: &str) -> Result<(), StartError> {
    let doing = || format!("[tcp] congestion_control \"{name}\"");
    let scratch = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(while_doing(doing()))?;
    scratch.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let has = sysctl::congestion_controls().unwrap_or_default().join(", ");
        let said = match error.kind() {
            io::ErrorKind::NotFound => "this kernel does not have it".to_owned(),
            io::ErrorKind::PermissionDenied => "it needs CAP_NET_ADMIN on the host".to_owned(),
            _ => error.to_string(),
        };
        let text = format!("{said}; it has {has}; `bentpipe cc load` adds others");
        StartError::Kernel(kernel::Error::Missing(format!("{}: {text}", doing())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ports_in_a_row_that_others_have_are_no_shortage() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = crate::transport::tcp::tests::settings(1, 2, "", "");
        let mut sockets = Sockets::new(&settings, settings.tcp.as_ref().unwrap(), None).unwrap();
        sockets.ports = Ports::new("20000 20119", "", 0);
        let of_another = |port| sockets.connect_from(port, address, false, None);
        let _others: Vec<_> = (20_000..20_080).filter_map(|port| of_another(port).ok()).collect();
        let (_socket, port) = sockets.connect(address, false, None).expect("some are free");
        assert!((20_080..20_120).contains(&port), "{port}");
    }

    #[test]
    fn each_value_of_tcp_fastopen_serves_one_side() {
        // Documentation/networking/ip-sysctl.rst: 1 enables what a client sends, 2 what a server takes; Linux's default is 1.
        assert_eq!(
            [0, 1, 2, 3].map(without_fast_open),
            [Some("to and of the peers"), Some("of the peers"), Some("to the peers"), None]
        );
        assert_eq!(without_fast_open(0x203), None, "further values say how, not whether");
    }
}
