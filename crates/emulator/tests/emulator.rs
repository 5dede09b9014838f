//! Real traffic through an emulated link between private namespaces:
//! `left` (198.18.0.1, 2001:db8::1) - emulator - `right` (198.18.0.2, 2001:db8::2).
//! Where the machine does not allow namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "starts threads and waits on the real clock")]

use emulator::{Config, Emulator, Error, Report};
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use link::{Link, LinkConfig, LossModel, Outcome, QueueLimit, Reorder};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration as StdDuration, Instant as StdInstant};
use units::{Bytes, CounterRandom, Duration, Instant, Probability, Rate};

const RIGHT_IPV4: &str = "198.18.0.2";
const RIGHT_IPV6: &str = "2001:db8::2";

/// Two hosts with an emulated link between them.
struct Bench {
    left: Namespace,
    right: Namespace,
    middle: Namespace,
    stop: Arc<AtomicBool>,
    emulator: JoinHandle<Option<Result<Report, Error>>>,
}

impl Bench {
    /// Starts the emulator, or says why this machine cannot. Without IPv6 the hosts send nothing on their own.
    fn start(config: Config, has_ipv6: bool) -> Option<Self> {
        let spaces: Result<Vec<_>, _> = (0..3).map(|_| Namespace::new()).collect();
        let spaces = match spaces {
            Ok(spaces) => spaces,
            Err(error) if error.is_missing() => {
                eprintln!("SKIPPED: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let [left, middle, right] = spaces.try_into().expect("three namespaces");
        set_sysctls(&middle, &[("ipv6/conf/default/disable_ipv6", "1")]).expect("sysctl");
        for (host, port, number) in [(&left, "port1", 1), (&right, "port2", 2)] {
            if !has_ipv6 {
                set_sysctls(host, &[("ipv6/conf/default/disable_ipv6", "1")]).expect("sysctl");
            }
            IpBatch::new(&middle).add_veth(port, host, "eth0").add(format!("link set {port} up")).run().expect("veth");
            let mut batch = IpBatch::new(host);
            batch.add(format!("addr add 198.18.0.{number}/24 dev eth0"));
            if has_ipv6 {
                batch.add(format!("addr add 2001:db8::{number}/64 dev eth0 nodad"));
            }
            batch.add("link set eth0 up").run().expect("address");
        }
        let open = |port| middle.run(|| emulator::open(port)).expect("a namespace").expect("a packet socket");
        let emulator = Emulator::new(config, open("port1"), open("port2")).expect("valid links");
        let stop = Arc::new(AtomicBool::new(false));
        let stop_inside = Arc::clone(&stop);
        let emulator = middle.spawn("emulator", move || emulator.run(&stop_inside)).expect("a thread");
        Some(Self { left, right, middle, stop, emulator })
    }

    /// Stops the emulator and returns its report.
    fn finish(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.emulator.join().expect("no panic").expect("entered").expect("a report")
    }
}

/// No rate limit, and this delay.
fn delay(millis: u64) -> LinkConfig {
    let delay = Duration::from_millis(millis);
    LinkConfig { rate: None, queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1_000), delay) }
}

fn probability(p: f64) -> Probability {
    Probability::new(p).expect("from 0 to 1")
}

/// Bytes that look random and are the same each time.
fn payload(length: usize) -> Vec<u8> {
    let mut random = CounterRandom::new(1, 0);
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(length).collect()
}

/// Sends `data` over TCP from left to right and checks that it arrives; returns what of it came after the first fifth,
/// and in what time.
fn transfer(bench: &Bench, address: &str, data: &[u8]) -> (usize, StdDuration) {
    let listener = bench.right.run(|| TcpListener::bind((address, 7))).expect("a namespace").expect("bind");
    let expected = data.to_vec();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let (mut received, mut buffer, mut mark) = (Vec::new(), vec![0; 1 << 16], None);
        loop {
            let count = stream.read(&mut buffer).expect("read");
            if count == 0 {
                break;
            }
            received.extend_from_slice(&buffer[..count]);
            if mark.is_none() && received.len() > expected.len() / 5 {
                mark = Some((received.len(), StdInstant::now()));
            }
        }
        let (length, start) = mark.expect("some data");
        let time = start.elapsed();
        assert!(received == expected, "the data was changed on the way");
        (received.len() - length, time)
    });
    let send = || TcpStream::connect((address, 7)).and_then(|mut stream| stream.write_all(data));
    bench.left.run(send).expect("a namespace").expect("send");
    receiver.join().expect("no panic")
}

#[test]
fn a_round_trip_takes_both_delays_in_both_families() {
    let Some(bench) = Bench::start(Config::new(delay(30), delay(20)), true) else { return };
    for (here, there) in [("198.18.0.1", RIGHT_IPV4), ("2001:db8::1", RIGHT_IPV6)] {
        let server = bench.right.run(|| UdpSocket::bind((there, 7))).expect("a namespace").expect("bind");
        let echo = std::thread::spawn(move || {
            for _ in 0..5 {
                let (_, from) = server.recv_from(&mut [0; 8]).expect("receive");
                server.send_to(b"pong", from).expect("send");
            }
        });
        let client = bench.left.run(|| UdpSocket::bind((here, 0))).expect("a namespace").expect("bind");
        client.set_read_timeout(Some(StdDuration::from_secs(20))).expect("timeout");
        for _ in 0..5 {
            let start = StdInstant::now();
            client.send_to(b"ping", (there, 7)).expect("send");
            client.recv_from(&mut [0; 8]).expect("an answer");
            let round_trip = start.elapsed();
            assert!(round_trip >= StdDuration::from_millis(50), "{there}: {round_trip:?}");
        }
        echo.join().expect("no panic");
    }
    let report = bench.finish();
    // Ten pings, and what IPv6 hosts say on their own: multicast listener reports, which are not exempt.
    assert!(report.up.delivered.packets >= 10 && report.down.delivered.packets >= 10, "{report:?}");
    assert!(report.up.exempt_frames > 0, "address resolution was exempt: {report:?}");
    assert_eq!(report.up.offered.packets, report.up.delivered.packets + report.up.in_transit_packets);
}

#[test]
fn tcp_gets_the_rate_of_the_link_and_its_own_bytes() {
    let rate = Rate::from_bps(50_000_000);
    let up = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate, Duration::from_millis(2)) };
    let Some(bench) = Bench::start(Config::new(up, delay(2)), true) else { return };
    let data = payload(5_000_000);
    for (address, headers) in [(RIGHT_IPV4, 52.0), (RIGHT_IPV6, 72.0)] {
        let (bytes, time) = transfer(&bench, address, &data);
        let measured = bytes as f64 * 8.0 / time.as_secs_f64() / ((1500.0 - headers) / 1500.0);
        let ratio = measured / rate.as_bps() as f64;
        assert!((0.9..1.02).contains(&ratio), "{address}: {ratio:.4} of the link's rate");
    }
    let report = bench.finish();
    assert!(report.up.delivered.packets > 2 * 5_000_000 / 1500, "super-packets were cut: {report:?}");
    assert!(report.up.delivered.bytes <= 1500 * report.up.delivered.packets);
    assert_eq!((report.up.dropped.unsupported, report.down.dropped.unsupported), (0, 0));
    assert_eq!(report.up.dropped.send_failed.packets, 0);
}

#[test]
fn each_packet_meets_the_fate_that_the_link_has_for_it() {
    const COUNT: u32 = 2_000;
    let config = LinkConfig {
        loss: LossModel::Bernoulli(probability(0.1)),
        reorder: Some(Reorder { probability: probability(0.05), extra_delay: Duration::from_millis(3) }),
        duplicate: probability(0.05),
        seed: 42,
        ..delay(5)
    };
    let Some(bench) = Bench::start(Config::new(config.clone(), delay(0)), false) else { return };
    let receiver = bench.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    let collector = std::thread::spawn(move || {
        let (mut numbers, mut number) = (Vec::new(), [0; 4]);
        loop {
            receiver.recv_from(&mut number).expect("receive");
            match u32::from_be_bytes(number) {
                u32::MAX => return numbers,
                number => numbers.push(number),
            }
        }
    });
    let sender = bench.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    let send = |number: u32| sender.send_to(&number.to_be_bytes(), (RIGHT_IPV4, 7)).expect("send");
    for number in 0..COUNT {
        send(number);
        if number % 20 == 0 {
            std::thread::sleep(StdDuration::from_millis(1));
        }
    }
    // Let the stragglers arrive, then say the end until one saying of it survives the link.
    std::thread::sleep(StdDuration::from_millis(50));
    let mut offered = u64::from(COUNT);
    while !collector.is_finished() {
        send(u32::MAX);
        offered += 1;
        std::thread::sleep(StdDuration::from_millis(20));
    }
    let mut received = collector.join().expect("no panic");
    let report = bench.finish();

    assert!(received.windows(2).any(|pair| pair[0] > pair[1]), "some packet was overtaken");
    let mut expected = fates(config, COUNT);
    received.sort_unstable();
    expected.sort_unstable();
    assert_eq!(received, expected);
    let up = report.up;
    assert_eq!(up.offered.packets, offered);
    assert_eq!(
        up.offered.packets + up.duplicated.packets,
        up.delivered.packets + up.dropped.loss.packets + up.in_transit_packets
    );
}

/// The numbers of the packets that a link delivers, copies included.
fn fates(config: LinkConfig, count: u32) -> Vec<u32> {
    #[derive(Clone)]
    struct Datagram(u32);
    impl link::Packet for Datagram {
        fn size(&self) -> Bytes {
            Bytes::new(32)
        }
    }
    let mut link = Link::new(config).expect("valid");
    (0..count).for_each(|number| link.enqueue(Instant::ZERO, Datagram(number)));
    let later = Instant::ZERO + Duration::from_secs(1);
    let outcomes = std::iter::from_fn(|| link.poll(later));
    let departures = outcomes.filter_map(|outcome| match outcome {
        Outcome::Departure { packet, .. } => Some(packet.0),
        Outcome::Drop { .. } => None,
    });
    departures.collect()
}

#[test]
fn memory_is_bounded_when_the_queue_is_not() {
    let slow = LinkConfig { rate: Some(Rate::from_bps(8_000)), ..delay(0) };
    let config = Config { memory: Bytes::new(10_000), ..Config::new(slow, delay(0)) };
    let Some(bench) = Bench::start(config, false) else { return };
    let sender = bench.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    for _ in 0..50 {
        sender.send_to(&[0; 972], (RIGHT_IPV4, 7)).expect("send");
        std::thread::sleep(StdDuration::from_millis(1));
    }
    // Each takes a second to send: ten fit, and perhaps one more for what has left meanwhile.
    let report = bench.finish();
    assert!((9..=11).contains(&report.up.in_transit_packets), "{report:?}");
    assert!(report.up.dropped.memory_limit.packets >= 30, "{report:?}");
}

#[test]
fn a_packet_that_the_far_interface_cannot_take_is_counted() {
    let Some(bench) = Bench::start(Config::new(delay(0), delay(0)), false) else { return };
    IpBatch::new(&bench.middle).add("link set port2 mtu 1000").run().expect("ip");
    transfer(&bench, RIGHT_IPV4, b"the connection works");
    let sender = bench.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    sender.send_to(&[0; 1400], (RIGHT_IPV4, 7)).expect("send");
    transfer(&bench, RIGHT_IPV4, b"and the rest goes on");
    assert_eq!(bench.finish().up.dropped.send_failed.packets, 1);
}

#[test]
fn an_interface_that_is_removed_ends_the_run_with_its_name() {
    let Some(bench) = Bench::start(Config::new(delay(0), delay(0)), false) else { return };
    IpBatch::new(&bench.middle).add("link del port2").run().expect("ip");
    let error = bench.emulator.join().expect("no panic").expect("entered").expect_err("no interface, no emulation");
    assert!(error.to_string().contains("interface port2"), "{error}");
}

#[test]
fn an_interface_that_goes_down_carries_packets_again_once_it_is_up() {
    let Some(bench) = Bench::start(Config::new(delay(0), delay(0)), false) else { return };
    transfer(&bench, RIGHT_IPV4, b"before");
    IpBatch::new(&bench.middle).add("link set port1 down").add("link set port1 up").run().expect("ip");
    transfer(&bench, RIGHT_IPV4, b"after it");
    bench.finish();
}
