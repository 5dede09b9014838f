//! The UDP socket of the satellite link: batches in and out, don't-fragment set, never blocking.

mod arrival_clock;
pub(crate) mod batches;
pub(crate) mod knock;
pub(crate) mod steps;
pub(crate) mod workers;

use crate::takeover::selector;
use arrival_clock::ArrivalClock;
use kernel::datagram::{self, Way};
use kernel::{clock, reuseport};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use relay::dscp::Dscp;
use satpep::{Arrival, Mark};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may wait for us: 40 ms at 3 Gbit/s, longer than a busy host keeps us from the processor.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Bytes that may wait to be sent: 10 ms at 3 Gbit/s. The transport paces; no queue should form here.
const SEND_BUFFER: usize = 4 << 20;
/// No datagram, nor what the system joins from several, is longer.
const LONGEST_DATAGRAM: usize = 65_535;
/// The longest batch of datagrams that one system call carries.
const LONGEST_BATCH: usize = 65_000;
/// Bytes of IPv4 and UDP headers.
const SMALLEST_HEADERS: usize = 28;

/// Congestion control answers marks (RFC 3168: ECT(0)).
const ECT0: u8 = 0b10;

/// Where datagrams go, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) to: SocketAddr,
    /// The address of this host that they leave from; `None` if the host chooses.
    pub(crate) from: Option<IpAddr>,
    /// Bytes of each; the last may be shorter.
    pub(crate) segment_size: usize,
    pub(crate) dscp: Dscp,
}

/// What one system call receives into: several buffers, each for a datagram or for those that the system has joined.
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    pub(crate) fn new() -> Self {
        Self((0..BATCH_SIZE).map(|_| vec![0; LONGEST_DATAGRAM]).collect())
    }
}

/// Where a datagram is that was received: in which buffer, and there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    buffer: usize,
    range: Range<usize>,
}

impl Buffers {
    /// The datagram at `place`.
    pub(crate) fn at(&mut self, place: &Place) -> &mut [u8] {
        &mut self.0[place.buffer][place.range.clone()]
    }
}

/// The socket and its receive buffers.
pub(crate) struct Udp {
    socket: Socket,
    state: UdpSocketState,
    /// Datagrams that the system takes in one call at most: one if it has been seen not to cut batches.
    longest_batch: Arc<AtomicUsize>,
    is_v6: bool,
    /// Whether it takes what is sent to any address of the host.
    has_any_address: bool,
    buffers: Buffers,
    metas: Vec<RecvMeta>,
    arrivals: ArrivalClock,
}

impl std::fmt::Debug for Udp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Udp").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Udp {
    /// Whether another socket has the port of `address`, shared or not.
    pub(crate) fn is_taken(address: SocketAddr) -> io::Result<bool> {
        Ok(Self::occupy(address)?.is_none())
    }

    /// A socket that has had the port of `address` to itself, and shares it now; `None` if another socket has the port.
    fn occupy(address: SocketAddr) -> io::Result<Option<Socket>> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        match socket.bind(&address.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            // What else is wrong, `bind` says.
            _ => {}
        }
        // A program that another thread starts at this moment holds the socket a little longer.
        reuseport::set_shared(&socket, true)?;
        Ok(Some(socket))
    }

    /// A socket bound to `address`; an unspecified IPv6 address serves IPv4, too.
    /// It shares its port with the socket of another process that agrees if it is to be `beside` that.
    pub(crate) fn bind(address: SocketAddr, beside: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.set_nonblocking(true)?;
        // A port can be shared later only if it was bound so.
        reuseport::set_shared(&socket, true)?;
        socket.bind(&address.into())?;
        if !beside {
            reuseport::set_shared(&socket, false)?;
        }
        kernel::transparent::set_buffers(&socket, RECEIVE_BUFFER, SEND_BUFFER)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self {
            longest_batch: Arc::new(AtomicUsize::new(state.max_gso_segments())),
            state,
            is_v6: address.is_ipv6(),
            has_any_address: address.ip().is_unspecified(),
            buffers: Buffers::new(),
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            arrivals: ArrivalClock::default(),
            socket,
        })
    }

    /// Another hold of the socket, for another thread. It has no receive buffers of its own.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let socket = self.socket.try_clone()?;
        Ok(Self {
            state: UdpSocketState::new(UdpSockRef::from(&socket))?,
            longest_batch: Arc::clone(&self.longest_batch),
            is_v6: self.is_v6,
            has_any_address: self.has_any_address,
            buffers: Buffers(Vec::new()),
            metas: vec![RecvMeta::default(); BATCH_SIZE],
            arrivals: ArrivalClock::default(),
            socket,
        })
    }

    /// Lets another process bind the port, which gets nothing yet.
    pub(crate) fn share(&self) -> io::Result<()> {
        reuseport::set_shared(&self.socket, true)?;
        reuseport::attach_selector(&self.socket, &selector::first())
    }

    /// Keeps other processes away again.
    pub(crate) fn unshare(&self) -> io::Result<()> {
        reuseport::set_shared(&self.socket, false)
    }

    /// Takes what is for this process's generation, and inits of peers, from the socket that was bound before.
    pub(crate) fn take_share(&self, generation: u32) -> io::Result<()> {
        reuseport::attach_selector(&self.socket, &selector::by_generation(generation))
    }

    /// How many bytes to offer the transport for one system call, when IP packets hold at most `mtu` bytes.
    pub(crate) fn batch_size(&self, mtu: u16) -> usize {
        let segment = usize::from(mtu) - SMALLEST_HEADERS;
        (segment * self.longest_batch.load(Ordering::Relaxed)).min(LONGEST_BATCH).max(segment)
    }

    /// Sends `contents` as the datagrams that `head` says, in one system call if the system takes batches.
    pub(crate) fn send(&self, head: Head, contents: &[u8]) -> io::Result<()> {
        let is_batch = contents.len() > head.segment_size;
        if is_batch && !self.takes_batches() {
            return self.send_singly(head, contents, &mut 0);
        }
        match self.send_at_once(head, contents) {
            // The interface's driver, or what transforms its packets, cannot take a batch apart (udp(7)).
            Err(error) if is_batch && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                self.send_singly(head, contents, &mut 0)?;
                // It takes them one by one: they were not refused for anything else.
                self.longest_batch.store(1, Ordering::Relaxed);
                tracing::warn!(
                    "the system does not take batches of datagrams (GSO): they are sent one by one from now on, at a cost of \
                     processor time"
                );
                Ok(())
            }
            result => result,
        }
    }

    /// Whether the system takes batches, as far as has been seen.
    pub(crate) fn takes_batches(&self) -> bool {
        self.longest_batch.load(Ordering::Relaxed) > 1
    }

    /// As [`Self::send`], a system call for each datagram, from byte `sent` of `contents` on, which tells then how far it has
    /// come: not to the end if the socket takes no more. One that fails otherwise does not keep the next from being sent.
    pub(crate) fn send_singly(&self, head: Head, contents: &[u8], sent: &mut usize) -> io::Result<()> {
        let mut failed = Ok(());
        while *sent < contents.len() {
            let end = contents.len().min(*sent + head.segment_size.max(1));
            match self.send_at_once(head, &contents[*sent..end]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) => failed = Err(error),
                Ok(()) => {}
            }
            *sent = end;
        }
        failed
    }

    fn send_at_once(&self, head: Head, contents: &[u8]) -> io::Result<()> {
        let to = match head.to {
            SocketAddr::V4(v4) if self.is_v6 => SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port()),
            other => other,
        };
        let traffic_class = head.dscp.value() << 2 | ECT0;
        let send = |from| datagram::send(&self.socket, Way { to, from }, contents, head.segment_size, traffic_class);
        match send(head.from) {
            // The host may have lost the address, or the way from there: any other is better than none.
            Err(error) if head.from.is_some() && is_about_source(&error) => send(None),
            result => result,
        }
    }

    /// Receives one batch and hands each datagram with its sender to `handle`, and how it arrived: those that the system has joined
    /// (GRO) have the same congestion mark, and the time of the first. Returns how many system buffers were filled; an error of kind
    /// `WouldBlock` says that nothing waits.
    pub(crate) fn receive(&mut self, mut handle: impl FnMut(SocketAddr, &mut [u8], &Arrival)) -> io::Result<usize> {
        let mut buffers = std::mem::replace(&mut self.buffers, Buffers(Vec::new()));
        let filled = self.receive_into(&mut buffers, |_, from, datagram, arrival| handle(from, datagram, arrival));
        self.buffers = buffers;
        filled
    }

    /// The same into `buffers`; `handle` hears where in them each datagram is.
    pub(crate) fn receive_into(
        &mut self,
        buffers: &mut Buffers,
        mut handle: impl FnMut(Place, SocketAddr, &mut [u8], &Arrival),
    ) -> io::Result<usize> {
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = {
            let mut buffers = buffers.0.iter_mut();
            std::array::from_fn(|_| IoSliceMut::new(buffers.next().expect("there are BATCH_SIZE buffers")))
        };
        let filled = self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut self.metas)?;
        let (now, unix_time) = clock::now_by_both();
        self.arrivals.read(now, unix_time);
        for (at, (buffer, meta)) in buffers.0.iter_mut().zip(&self.metas).enumerate().take(filled) {
            let from = sender(meta.addr);
            let mark = match meta.ecn {
                // Senders mark every datagram ECT(0): somebody has cleared that.
                None => Mark::Unreadable,
                Some(EcnCodepoint::Ce) => Mark::Ce,
                Some(_) => Mark::NotCe,
            };
            let to = meta.dst_ip.map(|to| to.to_canonical()).filter(|to| self.has_any_address && !is_link_local(to));
            let arrival = Arrival { at: self.arrivals.arrival(meta.timestamp), mark, to };
            let stride = meta.stride.max(1);
            for (number, datagram) in buffer[..meta.len].chunks_mut(stride).enumerate() {
                let from_byte = number * stride;
                let place = Place { buffer: at, range: from_byte..from_byte + datagram.len() };
                handle(place, from, datagram, &arrival);
            }
        }
        Ok(filled)
    }
}

/// The address of a sender, to be answered: an IPv4 address as such, and a link-local one with its interface.
fn sender(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if is_link_local(&address.ip()) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into()
        }
        _ => SocketAddr::new(address.ip().to_canonical(), address.port()),
    }
}

/// Whether an address says nothing without its interface, and is chosen by that.
fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether an error of sendmsg(2) may be due to the source that was asked for.
fn is_about_source(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENETUNREACH | libc::EADDRNOTAVAIL))
}

/// Whether more may wait in the socket after a look that has `filled` so many buffers.
pub(crate) fn may_have_more(filled: io::Result<usize>) -> bool {
    match filled {
        // A batch that is not full has emptied the socket; what comes later raises a new event.
        Ok(filled) => filled == BATCH_SIZE,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        // An ICMP message about an earlier datagram: the transport notices by itself what does not arrive.
        Err(error) => {
            tracing::trace!(%error, "receive");
            true
        }
    }
}

impl AsRawFd for Udp {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::interfaces::Interfaces;

    fn received(udp: &mut Udp, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut datagrams = Vec::new();
        for _ in 0..1_000_000 {
            match udp.receive(|from, datagram, _| datagrams.push((from, datagram.to_vec()))) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
                _ if datagrams.len() >= count => break,
                _ => std::thread::yield_now(),
            }
        }
        datagrams
    }

    #[test]
    fn a_port_that_was_found_free_can_be_bound_while_a_child_still_holds_the_socket_that_found_out() {
        let free =
            Udp::bind("[::1]:0".parse().unwrap(), false).unwrap().socket.local_addr().unwrap().as_socket().unwrap();
        let held = Udp::occupy(free).unwrap().unwrap();
        let bound = Udp::bind(free, false).unwrap();
        drop(held);
        assert!(Udp::is_taken(free).unwrap());
        drop(bound);
        assert!(!Udp::is_taken(free).unwrap());
    }

    #[test]
    fn a_datagram_has_arrived_when_the_kernel_received_it_not_when_it_is_read() {
        let mut receiver = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let sender = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let to = receiver.socket.local_addr().unwrap().as_socket().unwrap();
        // The kernel begins to stamp what arrives a little after the first socket of the machine has asked for it.
        let is_seen = (0..20).any(|_| {
            sender.send(head(to, 100), b"early").unwrap();
            let sent = clock::now();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let read = clock::now();
            let mut arrivals = Vec::new();
            receiver.receive(|_, _, arrival| arrivals.push(*arrival)).unwrap();
            assert_eq!(arrivals[0].mark, Mark::NotCe);
            read.since(arrivals[0].at) > read.since(sent) / 2
        });
        assert!(is_seen, "every datagram seems to have arrived when it was read");
    }

    fn head(to: SocketAddr, segment_size: usize) -> Head {
        Head { to, from: None, segment_size, dscp: Dscp::default() }
    }

    #[test]
    fn where_the_system_takes_no_batches_every_datagram_arrives_alone() {
        let mut receiver = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let sender = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        // Without checksums the system cannot take a batch apart.
        kernel::testing::send_without_checksums(&sender.socket);
        assert!(sender.takes_batches());
        let to = receiver.socket.local_addr().unwrap().as_socket().unwrap();
        let contents: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        for _ in 0..2 {
            sender.send(head(to, 1000), &contents).unwrap();
            assert!(!sender.takes_batches());
            sender.send_singly(head(to, 1000), &contents, &mut 0).unwrap();
            let datagrams = received(&mut receiver, 6);
            assert_eq!(datagrams.iter().map(|(_, d)| d.len()).collect::<Vec<_>>(), [1000, 1000, 500, 1000, 1000, 500]);
            assert_eq!(datagrams.iter().take(3).flat_map(|(_, d)| d.clone()).collect::<Vec<_>>(), contents);
        }
    }

    #[test]
    fn a_link_local_sender_is_answered_by_the_interface_that_it_came_by() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        kernel::network::IpBatch::new(&namespace)
            .add("link add sat type veth peer name far")
            .add("link set sat up")
            .add("link set far up")
            .add("address add fe80::1/64 dev sat nodad")
            .add("address add fe80::2/64 dev far nodad")
            .run()
            .unwrap();
        let index = |name: &str| Interfaces::new().unwrap().get(name).unwrap().unwrap().index;
        let exchange = || {
            let [sat, far] = ["sat", "far"].map(index);
            let mut hub = Udp::bind("[::]:0".parse().unwrap(), false).unwrap();
            let mut terminal = Udp::bind("[::]:0".parse().unwrap(), false).unwrap();
            let port = hub.socket.local_addr().unwrap().as_socket().unwrap().port();
            terminal.send(head(format!("[fe80::1%{far}]:{port}").parse().unwrap(), 100), b"init").unwrap();
            let from = received(&mut hub, 1)[0].0;
            let SocketAddr::V6(v6) = from else { panic!("{from}") };
            assert!(v6.ip().is_unicast_link_local() && v6.scope_id() == sat, "{from}");
            hub.send(head(from, 100), b"response").unwrap();
            assert_eq!(received(&mut terminal, 1)[0].0, format!("[fe80::1%{far}]:{port}").parse().unwrap());
        };
        namespace.run(exchange).unwrap();
    }

    #[test]
    fn an_answer_leaves_from_the_address_that_was_called() {
        for (called, listen) in [("127.0.0.7", "0.0.0.0:0"), ("127.0.0.7", "[::]:0"), ("127.0.0.7", "127.0.0.7:0")] {
            let mut hub = Udp::bind(listen.parse().unwrap(), false).unwrap();
            let mut terminal = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
            let port = hub.socket.local_addr().unwrap().as_socket().unwrap().port();
            let called: SocketAddr = SocketAddr::new(called.parse().unwrap(), port);
            terminal.send(head(called, 100), b"call").unwrap();
            let mut calls = Vec::new();
            while calls.is_empty() {
                let _ = hub.receive(|from, _, arrival| calls.push((from, arrival.to)));
            }
            let (to, from) = calls[0];
            assert_eq!(from, (!listen.starts_with("127")).then_some(called.ip()), "{listen}");
            let gone = Some([203, 0, 113, 1].into());
            for (from, expected) in [(from, Some(called)), (gone, None)] {
                hub.send(Head { from, ..head(to, 100) }, &[7; 250]).unwrap();
                let answers = received(&mut terminal, 3);
                assert_eq!(answers.len(), 3, "{listen}");
                assert!(
                    expected.is_none_or(|expected| answers.iter().all(|(from, _)| *from == expected)),
                    "{answers:?}"
                );
            }
        }
    }

    #[test]
    fn a_batch_arrives_as_the_datagrams_it_was_made_of() {
        let mut receiver = Udp::bind("[::]:0".parse().unwrap(), false).unwrap();
        let sender = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let port = receiver.socket.local_addr().unwrap().as_socket().unwrap().port();
        let contents: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        sender.send(head(([127, 0, 0, 1], port).into(), 1000), &contents).unwrap();
        let datagrams = received(&mut receiver, 3);
        assert_eq!(datagrams.iter().map(|(_, d)| d.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(datagrams.iter().flat_map(|(_, d)| d.clone()).collect::<Vec<_>>(), contents);
        assert!(datagrams[0].0.is_ipv4(), "an IPv4 sender is seen as one: {}", datagrams[0].0);

        let back = datagrams[0].0;
        receiver.send(head(back, 6), b"answer").unwrap();
        let mut sender = sender;
        assert_eq!(received(&mut sender, 1)[0].1, b"answer");
    }
}
