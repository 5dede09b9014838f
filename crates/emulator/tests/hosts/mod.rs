//! Two hosts in private namespaces with an emulated link between them:
//! `left` (198.18.0.1, 2001:db8::1) - emulator - `right` (198.18.0.2, 2001:db8::2).

use emulator::{Config, Emulator, Error, Monitor, Report};
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use kernel::testing::namespace;
use kernel::transparent::set_buffers;
use socket2::{SockAddr, Socket};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::CounterRandom;

pub const RIGHT_IPV4: &str = "198.18.0.2";
pub const RIGHT_IPV6: &str = "2001:db8::2";

/// Two hosts with an emulated link between them.
pub struct Hosts {
    pub left: Namespace,
    pub right: Namespace,
    pub middle: Namespace,
    pub monitor: Monitor,
    stop: Arc<AtomicBool>,
    pub emulator: JoinHandle<Option<Result<Report, Error>>>,
}

impl Hosts {
    /// Starts the emulator, or says why this machine cannot. Without IPv6 the hosts send nothing on their own.
    pub fn start(config: Config, has_ipv6: bool) -> Option<Self> {
        Self::start_and(config, has_ipv6, |_| {})
    }

    /// Starts an emulator that logs arrivals. The hosts have no IPv6.
    pub fn start_with_log(config: Config, log: std::fs::File) -> Option<Self> {
        Self::start_and(config, false, |emulator| emulator.log_arrivals(log).expect("a log"))
    }

    /// Starts an emulator that keeps what terminals of a carrier are given. The hosts have no IPv6.
    pub fn start_recording(config: Config) -> Option<Self> {
        Self::start_and(config, false, Emulator::record_capacity)
    }

    fn start_and(config: Config, has_ipv6: bool, prepare: impl FnOnce(&mut Emulator)) -> Option<Self> {
        let [left, middle, right] = [namespace()?, namespace()?, namespace()?];
        set_sysctls(&middle, &[("ipv6/conf/default/disable_ipv6", "1")]).expect("sysctl");
        for (host, port, number) in [(&left, "port1", 1), (&right, "port2", 2)] {
            let is_disabled = if has_ipv6 { "0" } else { "1" };
            set_sysctls(host, &[("ipv6/conf/default/disable_ipv6", is_disabled)]).expect("sysctl");
            IpBatch::new(&middle).add_veth(port, host, "eth0").add(format!("link set {port} up")).run().expect("veth");
            let mut batch = IpBatch::new(host);
            batch.add(format!("addr add 198.18.0.{number}/24 dev eth0"));
            if has_ipv6 {
                batch.add(format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
            }
            batch.add("link set eth0 up").run().expect("address");
        }
        let open = |port| middle.run(|| emulator::open(port)).expect("a namespace").expect("a packet socket");
        let mut emulator = Emulator::new(config, open("port1"), open("port2")).expect("valid links");
        prepare(&mut emulator);
        let monitor = emulator.monitor();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_inside = Arc::clone(&stop);
        let emulator = middle.spawn("emulator", move || emulator.run(&stop_inside)).expect("a thread");
        Some(Self { left, right, middle, monitor, stop, emulator })
    }

    /// Stops the emulator and returns its report.
    pub fn finish(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.emulator.join().expect("no panic").expect("entered").expect("a report")
    }
}

/// Bytes that look random and are the same each time.
pub fn payload(length: usize) -> Vec<u8> {
    let mut random = CounterRandom::new(1, 0);
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(length).collect()
}

/// Sends `data` over TCP from right to left, and checks that it arrives.
pub fn transfer_back(hosts: &Hosts, data: &[u8]) {
    let listener = hosts.right.run(|| TcpListener::bind((RIGHT_IPV4, 8))).expect("a namespace").expect("bind");
    let sent = data.to_vec();
    let sender = std::thread::spawn(move || listener.accept().and_then(|(mut stream, _)| stream.write_all(&sent)));
    let mut received = Vec::new();
    let receive = || TcpStream::connect((RIGHT_IPV4, 8)).and_then(|mut stream| stream.read_to_end(&mut received));
    hosts.left.run(receive).expect("a namespace").expect("receive");
    sender.join().expect("no panic").expect("send");
    assert!(received == data, "the data was changed on the way");
}

/// Sends `data` over TCP from left to right and checks that it arrives; returns what of it came after the first fifth,
/// and in what time. Neither end limits the flow: all of `data` fits into the buffers, and NewReno's slow start has no
/// HyStart to end early on a host whose threads wake up late.
pub fn transfer(hosts: &Hosts, address: &str, data: &[u8]) -> (usize, Duration) {
    let address = SocketAddr::new(address.parse().expect("an address"), 7);
    let socket = |host: &Namespace| host.run(|| socket_for(address.ip(), data.len())).expect("a namespace");
    let (listener, sender) = (socket(&hosts.right).expect("a socket"), socket(&hosts.left).expect("a socket"));
    listener.bind(&SockAddr::from(address)).and_then(|()| listener.listen(1)).expect("listen");
    let expected = data.to_vec();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = TcpListener::from(listener).accept().expect("accept");
        let (mut received, mut buffer, mut mark) = (Vec::new(), vec![0; 1 << 16], None);
        loop {
            let count = stream.read(&mut buffer).expect("read");
            if count == 0 {
                break;
            }
            received.extend_from_slice(&buffer[..count]);
            if mark.is_none() && received.len() > expected.len() / 5 {
                mark = Some((received.len(), Instant::now()));
            }
        }
        let (length, start) = mark.expect("some data");
        let time = start.elapsed();
        assert!(received == expected, "the data was changed on the way");
        (received.len() - length, time)
    });
    sender.connect(&SockAddr::from(address)).expect("connect");
    TcpStream::from(sender).write_all(data).expect("send");
    receiver.join().expect("no panic")
}

/// A TCP socket of `address`'s family whose buffers hold `length` bytes of data, with NewReno.
fn socket_for(address: IpAddr, length: usize) -> io::Result<Socket> {
    let domain = if address.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
    let socket = Socket::new(domain, socket2::Type::STREAM, None)?;
    set_buffers(&socket, 2 * length, 2 * length)?;
    socket.set_tcp_congestion(b"reno")?;
    Ok(socket)
}
