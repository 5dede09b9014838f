//! Real traffic through an emulated link between private namespaces.
//! Where the machine does not allow namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, reason = "starts threads and waits on the real clock")]

mod hosts;

use emulator::{
    ArrivalLog, Config, LoggedOutcome, Monitor, PathModel, Record, Report, SharedCarrier, Terminal, TerminalReport,
};
use hosts::{Hosts, RIGHT_IPV4, RIGHT_IPV6, payload, transfer, transfer_back};
use kernel::Namespace;
use kernel::network::IpBatch;
use kernel::packet::{OffloadHeader, ReceiveBatch};
use kernel::poll::{self, Interest};
use kernel::testing::{best_of_three, send_in_batches};
use kernel::transparent::set_buffers;
use link::dama::{CarrierConfig, TerminalConfig};
use link::{Discipline, DualPi2, FqCodel, Link, LinkConfig, LossModel, Outcome, QueueLimit, Reorder, Steps};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration as StdDuration, Instant as StdInstant};
use units::{Bytes, Duration, Ecn, Instant, Probability, Rate};

/// No rate limit, and this delay.
fn delay(millis: u64) -> LinkConfig {
    let delay = Duration::from_millis(millis);
    LinkConfig { rate: None, queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1_000), delay) }
}

fn probability(p: f64) -> Probability {
    Probability::new(p).expect("from 0 to 1")
}

#[test]
fn a_round_trip_takes_both_delays_in_both_families() {
    let Some(hosts) = Hosts::start(Config::new(delay(30), delay(20)), true) else { return };
    for (here, there) in [("198.18.0.1", RIGHT_IPV4), ("2001:db8::1", RIGHT_IPV6)] {
        let server = hosts.right.run(|| UdpSocket::bind((there, 7))).expect("a namespace").expect("bind");
        let echo = std::thread::spawn(move || {
            for _ in 0..5 {
                let (_, from) = server.recv_from(&mut [0; 8]).expect("receive");
                server.send_to(b"pong", from).expect("send");
            }
        });
        let client = hosts.left.run(|| UdpSocket::bind((here, 0))).expect("a namespace").expect("bind");
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
    let report = hosts.finish();
    // Ten pings, and what IPv6 hosts say on their own: multicast listener reports, which are not exempt.
    assert!(report.up.delivered.packets >= 10 && report.down.delivered.packets >= 10, "{report:?}");
    assert!(report.up.exempt_frames > 0, "address resolution was exempt: {report:?}");
    assert_eq!(report.up.offered.packets, report.up.delivered.packets + report.up.in_transit_packets);
}

#[test]
fn datagrams_that_leave_in_one_batch_arrive_each_for_itself() {
    const SIZE: usize = 1000;
    let Some(hosts) = Hosts::start(Config::new(delay(5), delay(5)), false) else { return };
    let server = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    server.set_read_timeout(Some(StdDuration::from_secs(20))).expect("timeout");
    let client = hosts.left.run(|| UdpSocket::bind(("198.18.0.1", 0))).expect("a namespace").expect("bind");
    let client = socket2::Socket::from(client);
    let to = socket2::SockAddr::from(std::net::SocketAddr::from(([198, 18, 0, 2], 7)));
    if !send_in_batches(&client, SIZE as u16) {
        eprintln!("skipped: this kernel does not send UDP in batches");
        return;
    }
    let data = payload(30 * SIZE);
    assert_eq!(client.send_to(&data, &to).expect("send"), data.len());
    for expected in data.chunks(SIZE) {
        let mut buffer = [0; 2 * SIZE];
        let length = server.recv(&mut buffer).expect("it arrives");
        assert_eq!(&buffer[..length], expected);
    }
    let report = hosts.finish();
    assert_eq!((report.up.delivered.packets, report.up.dropped.unsupported), (30, 0), "{report:?}");
}

#[test]
fn tcp_gets_the_rate_of_the_link_and_its_own_bytes() {
    best_of_three(tcp_over_50_megabits);
}

fn tcp_over_50_megabits() -> Result<(), String> {
    let rate = Rate::from_bps(50_000_000);
    let up = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate, Duration::from_millis(2)) };
    let Some(hosts) = Hosts::start(Config::new(up, delay(2)), true) else { return Ok(()) };
    let data = payload(5_000_000);
    let mut ratios = Vec::new();
    for (address, headers) in [(RIGHT_IPV4, 52.0), (RIGHT_IPV6, 72.0)] {
        let (bytes, time) = transfer(&hosts, address, &data);
        let measured = bytes as f64 * 8.0 / time.as_secs_f64() / ((1500.0 - headers) / 1500.0);
        ratios.push(measured / rate.as_bps() as f64);
    }
    let report = hosts.finish();
    assert!(report.up.delivered.packets > 2 * 5_000_000 / 1500, "super-packets were cut: {report:?}");
    assert!(report.up.delivered.bytes <= 1500 * report.up.delivered.packets);
    assert_eq!((report.up.dropped.unsupported, report.down.dropped.unsupported), (0, 0));
    assert_eq!(report.up.dropped.send_failed.packets, 0);
    assert!(ratios.iter().all(|ratio| *ratio < 1.02), "{ratios:.4?} of the link's rate");
    if ratios.iter().all(|ratio| *ratio > 0.9) { Ok(()) } else { Err(format!("{ratios:.4?} of the link's rate")) }
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
    let Some(hosts) = Hosts::start(Config::new(config.clone(), delay(0)), false) else { return };
    let receiver = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    // All of them fit, should the collector be held up.
    let receiver = socket2::Socket::from(receiver);
    set_buffers(&receiver, 4 << 20, 1 << 16).expect("buffers");
    let receiver = UdpSocket::from(receiver);
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
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
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
    let report = hosts.finish();

    assert!(received.windows(2).any(|pair| pair[0] > pair[1]), "some packet was overtaken");
    let mut expected = outcomes(config, COUNT);
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

#[test]
fn a_rate_that_changes_all_the_time_leaves_the_processor_to_others() {
    let rate_steps =
        Some(Steps { repeat: Some(Duration::from_micros(2)), ..Steps::parse("1us 3Mbit/s").expect("valid") });
    let config = LinkConfig { rate_steps, ..LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(1)) };
    let Some(hosts) = Hosts::start(Config::new(config, delay(0)), false) else { return };
    std::thread::sleep(StdDuration::from_secs(1));
    let report = hosts.finish();
    assert!(report.cpu_s < report.wall_s / 4.0, "{} s of {} s", report.cpu_s, report.wall_s);
}

#[test]
fn a_link_that_is_restarted_begins_with_its_first_packet_and_rate() {
    let fast = Rate::from_bps(6_000_000);
    let config = LinkConfig {
        loss: LossModel::DropList(vec![0]),
        // Long enough for a machine that is held up to see the rate before.
        rate_steps: Some(Steps::parse("5s 3Mbit/s").expect("valid")),
        ..LinkConfig::new(fast, Duration::from_millis(400))
    };
    let Some(hosts) = Hosts::start(Config::new(config, delay(0)), false) else { return };
    let receiver = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    receiver.set_read_timeout(Some(StdDuration::from_secs(20))).expect("timeout");
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    let send = |number: u8| {
        sender.send_to(&[number], (RIGHT_IPV4, 7)).expect("send");
    };
    let receive = || {
        let mut number = [0];
        receiver.recv_from(&mut number).expect("it arrives");
        number[0]
    };
    let until_rate = |wanted| {
        let deadline = StdInstant::now() + StdDuration::from_secs(20);
        while hosts.monitor.rates()[0] != Some(wanted) {
            assert!(StdInstant::now() < deadline, "{:?} instead of {wanted}", hosts.monitor.rates());
            std::thread::sleep(StdDuration::from_millis(10));
        }
    };
    until_rate(Rate::from_bps(3_000_000));
    (1..=2).for_each(send);
    hosts.monitor.restart(kernel::clock::now() + Monitor::RESTART_NOTICE);
    until_rate(fast);
    assert_eq!(receive(), 2, "it was on its way");
    (3..=5).for_each(send);
    assert_eq!([receive(), receive()], [4, 5]);
    let up = hosts.finish().up;
    assert_eq!((up.offered.packets, up.dropped.loss.packets, up.delivered.packets), (3, 1, 2), "{up:?}");
}

/// The numbers of the packets that a link delivers, copies included.
fn outcomes(config: LinkConfig, count: u32) -> Vec<u32> {
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

/// What an emulation reports, and its log of arrivals, whose replay is the same.
fn logged(name: &str, config: Config, traffic: impl FnOnce(&Hosts)) -> Option<(Report, ArrivalLog)> {
    let path = std::env::temp_dir().join(format!("bentpipe-arrivals-{}-{name}", std::process::id()));
    let hosts = Hosts::start_with_log(config, std::fs::File::create(&path).expect("a file"));
    let report = hosts.map(|hosts| {
        traffic(&hosts);
        hosts.finish()
    });
    let text = std::fs::read_to_string(&path).expect("the log");
    std::fs::remove_file(&path).expect("removed");
    let report = report?;
    let log = ArrivalLog::parse(&text).expect("a log");
    assert_eq!(log.replay().expect("links"), []);
    Some((report, log))
}

#[test]
fn a_log_of_arrivals_replayed_gives_every_packet_the_same_fate() {
    let faulty = LinkConfig {
        queue: QueueLimit::Packets(40),
        loss: LossModel::Bernoulli(probability(0.02)),
        reorder: Some(Reorder { probability: probability(0.02), extra_delay: Duration::from_millis(2) }),
        duplicate: probability(0.02),
        ..LinkConfig::new(Rate::from_bps(40_000_000), Duration::from_millis(3))
    };
    let fading = LinkConfig {
        discipline: Discipline::FqCodel(FqCodel { interval: Duration::from_millis(20), ..FqCodel::default() }),
        rate_steps: Some(Steps {
            repeat: Some(Duration::from_millis(100)),
            ..Steps::parse("50ms 7.777777Mbit/s").expect("valid")
        }),
        ..LinkConfig::new(Rate::from_bps(30_000_000), Duration::from_millis(3))
    };
    let traffic = |hosts: &Hosts| {
        transfer(hosts, RIGHT_IPV4, &payload(1_000_000));
        transfer_back(hosts, &payload(1_000_000));
    };
    let Some((report, log)) = logged("links", Config::new(faulty, fading), traffic) else { return };
    let outcomes = |direction: usize, outcome| {
        log.packets[direction].iter().filter(|packet| packet.outcome == outcome).count() as u64
    };
    for (direction, report) in [&report.up, &report.down].into_iter().enumerate() {
        assert_eq!(outcomes(direction, LoggedOutcome::Delivered), report.delivered.packets);
        assert_eq!(outcomes(direction, LoggedOutcome::Loss), report.dropped.loss.packets);
        assert_eq!(outcomes(direction, LoggedOutcome::QueueFull), report.dropped.queue_full.packets);
        assert_eq!(outcomes(direction, LoggedOutcome::QueueDelay), report.dropped.queue_delay.packets);
    }
    assert!(report.up.dropped.loss.packets > 5 && report.up.duplicated.packets > 5, "{report:?}");
    assert!(report.down.dropped.queue_delay.packets > 0, "{report:?}");
}

#[test]
fn marks_are_reported_and_logged_and_replayed() {
    let marking = LinkConfig {
        discipline: Discipline::DualPi2(DualPi2::default()),
        queue: QueueLimit::Packets(200),
        ..LinkConfig::new(Rate::from_bps(2_000_000), Duration::from_millis(3))
    };
    let span = StdDuration::from_millis(700);
    let traffic = |hosts: &Hosts| {
        let _server = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 9))).expect("a namespace").expect("bind");
        std::thread::scope(|scope| {
            scope.spawn(|| offer_marked(&hosts.left, "198.18.0.1", 3_000_000, span, Ecn::Ect1));
            offer(&hosts.left, "198.18.0.1", 500_000, span);
        });
    };
    let Some((report, log)) = logged("marks", Config::new(marking, delay(0)), traffic) else { return };
    let [up, down] = &log.packets;
    let count = |ecn: Ecn, outcome| up.iter().filter(|packet| (packet.ecn, packet.outcome) == (ecn, outcome)).count();
    let marked = count(Ecn::Ect1, LoggedOutcome::Marked);
    assert!(marked > 20, "{report:?}");
    assert_eq!(count(Ecn::NotCapable, LoggedOutcome::Marked), 0);
    assert!(count(Ecn::NotCapable, LoggedOutcome::Delivered) > 0, "{report:?}");
    // What was marked may still be on its way.
    let reported = report.up.marked.packets;
    assert!((marked as u64..=marked as u64 + report.up.in_transit_packets).contains(&reported), "{marked}: {report:?}");
    assert_eq!(
        (report.down.marked.packets, down.iter().filter(|p| p.outcome == LoggedOutcome::Marked).count()),
        (0, 0)
    );
}

#[test]
fn memory_is_bounded_when_the_queue_is_not() {
    let slow = LinkConfig { rate: Some(Rate::from_bps(8_000)), ..delay(0) };
    let config = Config { memory: Bytes::new(10_000), ..Config::new(slow, delay(0)) };
    let Some(hosts) = Hosts::start(config, false) else { return };
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    for _ in 0..50 {
        sender.send_to(&[0; 972], (RIGHT_IPV4, 7)).expect("send");
        std::thread::sleep(StdDuration::from_millis(1));
    }
    let deadline = StdInstant::now() + StdDuration::from_secs(20);
    while hosts.monitor.report().up.offered.packets < 50 {
        assert!(StdInstant::now() < deadline, "{:?}", hosts.monitor.report());
        std::thread::sleep(StdDuration::from_millis(5));
    }
    // Each takes a second to send: ten fit, and perhaps one more for what has left meanwhile.
    let report = hosts.finish();
    assert!((9..=11).contains(&report.up.in_transit_packets), "{report:?}");
    assert!(report.up.dropped.memory_limit.packets >= 30, "{report:?}");
}

#[test]
fn a_packet_longer_than_the_far_interface_takes_is_counted() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    IpBatch::new(&hosts.middle).add("link set port2 mtu 1000").run().expect("ip");
    transfer(&hosts, RIGHT_IPV4, b"the connection works");
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    sender.send_to(&[0; 1400], (RIGHT_IPV4, 7)).expect("send");
    transfer(&hosts, RIGHT_IPV4, b"and the rest goes on");
    let report = hosts.finish();
    assert_eq!((report.up.dropped.oversize.packets, report.up.dropped.send_failed.packets), (1, 0), "{report:?}");
    assert_eq!(report.up.offered.packets, report.up.delivered.packets + 1);
}

/// Sends `data` over TCP to a port of the right host, where nobody need read it.
fn send_unread(hosts: &Hosts, data: &[u8]) {
    let _listener = hosts.right.run(|| TcpListener::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    let connect = || TcpStream::connect((RIGHT_IPV4, 7));
    let mut stream = hosts.left.run(connect).expect("a namespace").expect("connect");
    stream.write_all(data).expect("send");
    std::thread::sleep(StdDuration::from_millis(200));
}

#[test]
fn segments_that_leave_together_are_delivered_as_the_super_packet_of_a_network_card() {
    let Some(hosts) = Hosts::start(Config::new(delay(5), delay(5)), false) else { return };
    let receiver = hosts.right.run(|| emulator::open("eth0")).expect("a namespace").expect("a socket");
    // Until the emulator has seen which packets the interface takes.
    std::thread::sleep(StdDuration::from_millis(100));
    transfer(&hosts, RIGHT_IPV4, &payload(200_000));
    let (mut batch, mut super_packets, mut longest) = (ReceiveBatch::new(), 0, 0);
    while receiver.receive(&mut batch).expect("receive") > 0 {
        for received in batch.iter().flatten().filter(|received| received.offload.gso_size > 0) {
            super_packets += 1;
            longest = received.frame.len().max(longest);
        }
    }
    let report = hosts.finish();
    assert!(super_packets > 0 && longest > 2 * 1448, "{super_packets}, of {longest} bytes at most");
    assert!(report.up.delivered.packets > 200_000 / 1448, "each packet counts: {report:?}");
    // What closes the connection may still be on its way.
    assert_eq!(report.up.delivered.packets + report.up.in_transit_packets, report.up.offered.packets);
}

#[test]
fn no_super_packet_takes_segments_past_the_mtu() {
    let Some(hosts) = Hosts::start(Config::new(delay(5), delay(5)), false) else { return };
    IpBatch::new(&hosts.middle).add("link set port2 mtu 1000").run().expect("ip");
    std::thread::sleep(StdDuration::from_millis(100));
    send_unread(&hosts, &payload(10_000));
    let report = hosts.finish();
    assert!(report.up.dropped.oversize.packets >= 6, "{report:?}");
    assert!(report.up.delivered.bytes < 1000 * report.up.delivered.packets, "{report:?}");
}

#[test]
fn an_interface_that_cuts_no_super_packets_gets_packets() {
    let Some(hosts) = Hosts::start(Config::new(delay(5), delay(5)), false) else { return };
    IpBatch::new(&hosts.middle).add("link set port2 gso_max_segs 1").run().expect("ip");
    std::thread::sleep(StdDuration::from_millis(100));
    transfer(&hosts, RIGHT_IPV4, &payload(2_000_000));
    let report = hosts.finish();
    assert_eq!(report.up.dropped.send_failed.packets, 0, "{report:?}");
    // What closes the connection may still be on its way.
    assert_eq!(report.up.delivered.packets + report.up.in_transit_packets, report.up.offered.packets);
}

#[test]
fn a_frame_that_was_received_late_came_when_it_came() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    let receiver = hosts.right.run(|| emulator::open("eth0")).expect("a namespace").expect("a socket");
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    // The kernel begins to note when frames come soon after somebody has asked it to.
    std::thread::sleep(StdDuration::from_millis(100));
    // Addresses are resolved before.
    let first = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    first.set_read_timeout(Some(StdDuration::from_secs(20))).expect("timeout");
    sender.send_to(b"first", (RIGHT_IPV4, 7)).expect("send");
    first.recv_from(&mut [0; 8]).expect("it crosses");
    let mut batch = ReceiveBatch::new();
    while receiver.receive(&mut batch).expect("receive") > 0 {}
    sender.send_to(b"late", (RIGHT_IPV4, 7)).expect("send");
    let patience = Some(Duration::from_secs(20));
    assert_eq!(poll::wait(&mut [Interest::readable(receiver.as_fd())], patience).expect("poll"), 1, "it crosses");
    std::thread::sleep(StdDuration::from_millis(300));
    receiver.receive(&mut batch).expect("receive");
    let mut frames = batch.iter().flatten().filter(|received| received.frame.ends_with(b"late"));
    let waited = frames.next().expect("it came").waited;
    assert!(waited >= Duration::from_millis(250), "{waited}");
}

#[test]
fn who_spins_sends_nothing_early() {
    let config = Config { spin: Duration::from_micros(500), ..Config::new(delay(20), delay(20)) };
    let Some(hosts) = Hosts::start(config, false) else { return };
    for _ in 0..3 {
        let start = StdInstant::now();
        hosts.right.run(|| TcpListener::bind((RIGHT_IPV4, 9))).expect("a namespace").expect("bind");
        // Refused or not: an answer comes from the other end.
        let _ = hosts.left.run(|| TcpStream::connect((RIGHT_IPV4, 9))).expect("a namespace");
        assert!(start.elapsed() >= StdDuration::from_millis(40), "{:?}", start.elapsed());
    }
    transfer(&hosts, RIGHT_IPV4, &payload(500_000));
    let report = hosts.finish();
    assert!(report.cpu_s < report.wall_s, "{report:?}");
}

/// A frame as a host's VLAN interface sends it.
struct Tagged(OffloadHeader, Vec<u8>);

impl Tagged {
    /// A broadcast behind `tags`, with the fields of an IPv4 packet that are read on the way.
    fn new(tags: &[[u8; 4]], payload: usize) -> Self {
        let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
        frame.extend(tags.concat());
        let length = (20 + payload) as u16;
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 253, 0, 0, 198, 18, 5, 1, 198, 18, 5, 255]);
        frame.extend(vec![7; payload]);
        Self(OffloadHeader::default(), frame)
    }
}

#[test]
fn vlan_tags_cross_with_what_they_mark() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    let open = |host: &Namespace| host.run(|| emulator::open("eth0")).expect("a namespace").expect("a socket");
    let (sender, receiver) = (open(&hosts.left), open(&hosts.right));
    // One tag (IEEE 802.1Q) with all that an MTU of 1500 allows, and one behind a service tag (802.1ad).
    let frames = [Tagged::new(&[[0x81, 0, 0x60, 5]], 1480), Tagged::new(&[[0x88, 0xa8, 0, 6], [0x81, 0, 0, 5]], 100)];
    for sent in &frames {
        sender.send([(&sent.0, [&sent.1[..]])]).expect("send");
        let (mut batch, deadline) = (ReceiveBatch::new(), StdInstant::now() + StdDuration::from_secs(20));
        let mut crossed = false;
        while !crossed {
            assert!(StdInstant::now() < deadline, "nothing crossed");
            receiver.receive(&mut batch).expect("receive");
            crossed = batch.iter().flatten().any(|received| received.frame == sent.1);
            std::thread::sleep(StdDuration::from_millis(1));
        }
    }
    let report = hosts.finish();
    assert_eq!(
        (report.up.delivered.packets, report.up.delivered.bytes),
        (2, 1500 + 120),
        "sizes are those of IP packets"
    );
}

#[test]
fn multicast_and_broadcast_cross() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    let group = std::net::Ipv4Addr::new(239, 1, 2, 3);
    let receiver = hosts
        .right
        .run(|| {
            let socket = UdpSocket::bind("0.0.0.0:7")?;
            socket.join_multicast_v4(&group, &RIGHT_IPV4.parse().expect("an address"))?;
            socket.set_read_timeout(Some(StdDuration::from_secs(20)))?;
            Ok::<_, std::io::Error>(socket)
        })
        .expect("a namespace")
        .expect("a member");
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    sender.set_broadcast(true).expect("broadcast");
    for (to, text) in [("239.1.2.3:7", b"group"), ("198.18.0.255:7", b"every")] {
        sender.send_to(text, to).expect("send");
        let mut received = [0; 5];
        receiver.recv_from(&mut received).expect("receive");
        assert_eq!(&received, text);
    }
}

#[test]
fn an_interface_that_is_removed_ends_the_run_with_its_name() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    IpBatch::new(&hosts.middle).add("link del port2").run().expect("ip");
    let error = hosts.emulator.join().expect("no panic").expect("entered").expect_err("no interface, no emulation");
    assert!(error.to_string().contains("interface port2"), "{error}");
}

#[test]
fn an_interface_that_goes_down_carries_packets_again_once_it_is_up() {
    let Some(hosts) = Hosts::start(Config::new(delay(0), delay(0)), false) else { return };
    transfer(&hosts, RIGHT_IPV4, b"before");
    IpBatch::new(&hosts.middle).add("link set port1 down").add("link set port1 up").run().expect("ip");
    transfer(&hosts, RIGHT_IPV4, b"after it");
    hosts.finish();
}

/// A carrier of 4 Mbit/s: `constant` has a quarter of it, `asking` may ask for all.
fn shared_carrier() -> SharedCarrier {
    let terminal = |name: &str, address: &str, dama: TerminalConfig| Terminal {
        name: name.to_owned(),
        networks: vec![address.parse().expect("a network")],
        link: LinkConfig { dama: Some(dama), queue: QueueLimit::Packets(60), ..delay(40) },
    };
    let every = Duration::from_millis(50);
    let cra = Rate::from_bps(1_000_000);
    let rbdc = Rate::from_bps(4_000_000);
    let constant = TerminalConfig { cra, ..TerminalConfig::new("return") };
    let asking = TerminalConfig { rbdc, every, ..TerminalConfig::new("return") };
    SharedCarrier {
        config: CarrierConfig { superframe: every, ..CarrierConfig::new(rbdc) },
        terminals: vec![terminal("constant", "198.18.0.1/32", constant), terminal("asking", "198.18.0.3/32", asking)],
        from_ncc: Duration::from_millis(40),
    }
}

/// Sends packets of 1,000 bytes of IP at `rate` for `span`.
fn offer(host: &Namespace, from: &str, rate: u64, span: StdDuration) {
    offer_marked(host, from, rate, span, Ecn::NotCapable);
}

/// The same, in packets of this codepoint.
fn offer_marked(host: &Namespace, from: &str, rate: u64, span: StdDuration, ecn: Ecn) {
    let socket = host.run(|| UdpSocket::bind((from, 0))).expect("a namespace").expect("bind");
    socket2::SockRef::from(&socket).set_tos_v4(u32::from(ecn.bits())).expect("set");
    let start = StdInstant::now();
    let gap = StdDuration::from_nanos(8_000 * 1_000_000_000 / rate);
    for number in 0.. {
        let due = gap * number;
        if due >= span {
            return;
        }
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        socket.send_to(&[0; 972], (RIGHT_IPV4, 9)).expect("send");
    }
}

#[test]
fn terminals_share_a_carrier_by_what_they_have_and_ask_for() {
    let path = PathModel::Carrier(shared_carrier());
    let Some(hosts) = Hosts::start_recording(Config::new(path, delay(40))) else { return };
    IpBatch::new(&hosts.left)
        .add("addr add 198.18.0.3/24 dev eth0")
        .add("addr add 198.18.0.9/24 dev eth0")
        .run()
        .expect("addresses");
    let _server = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 9))).expect("a namespace").expect("bind");
    let span = StdDuration::from_secs(3);
    std::thread::scope(|scope| {
        scope.spawn(|| offer(&hosts.left, "198.18.0.1", 700_000, span));
        scope.spawn(|| offer(&hosts.left, "198.18.0.3", 6_000_000, span));
        offer(&hosts.left, "198.18.0.9", 80_000, span);
    });
    std::thread::sleep(StdDuration::from_millis(400));
    let samples = hosts.monitor.take_samples();
    let report = hosts.finish();
    let [constant, asking] = &report.up.terminals[..] else { panic!("two terminals: {report:?}") };
    // What is sent on the carrier includes the padding of slots.
    assert!(constant.totals.used_bytes as f64 >= 0.7e6 / 8.0 * 3.0, "{constant:?}");
    assert!(constant.totals.cra_bytes > 0 && constant.totals.rbdc_bytes == 0 && constant.totals.requests == 0);
    assert_eq!(asking.totals.cra_bytes, 0);
    assert!(asking.totals.requests > 10, "{asking:?}");
    let use_of =
        |terminal: &TerminalReport| terminal.totals.used_bytes as f64 / terminal.totals.allocated_bytes() as f64;
    assert!(use_of(asking) > 0.85, "it asked for what it needs: {asking:?}");
    // Twice what it was given came: the rest found its queue full, and the other's never was.
    let (queue_full, delivered) = (report.up.dropped.queue_full.packets, report.up.delivered.packets);
    assert!((700..1300).contains(&queue_full), "{report:?}");
    assert!((1100..1600).contains(&delivered), "{report:?}");
    assert!(report.up.dropped.no_terminal >= 25, "packets of no terminal are dropped: {report:?}");
    let [up, down] = &samples;
    assert!(
        down.is_empty() && up.iter().any(|sample| sample.terminal == 0) && up.iter().any(|sample| sample.terminal == 1)
    );
    assert!(up.iter().all(|sample| sample.used.as_u64() <= sample.allocated.total()), "{up:?}");
}

#[test]
fn the_log_of_a_carrier_says_whose_each_packet_is_and_replayed_gives_it_the_same_fate() {
    let mut carrier = shared_carrier();
    carrier.config.request_loss = probability(0.1);
    carrier.terminals[0].link.discipline =
        Discipline::FqCodel(FqCodel { interval: Duration::from_millis(20), ..FqCodel::default() });
    carrier.terminals[1].link.loss = LossModel::Bernoulli(probability(0.02));
    let span = StdDuration::from_secs(1);
    let traffic = |hosts: &Hosts| {
        let addresses = ["198.18.0.3", "198.18.0.9"].map(|address| format!("addr add {address}/24 dev eth0"));
        IpBatch::new(&hosts.left).add_all(addresses).run().expect("addresses");
        let server = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 9))).expect("a namespace").expect("bind");
        for (port, address) in [(9, "198.18.0.1"), (10, "198.18.0.3"), (10, "198.18.0.3"), (11, "198.18.0.9")] {
            server.send_to(&[0; 100], (address, port)).expect("send");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| offer(&hosts.left, "198.18.0.1", 2_000_000, span));
            scope.spawn(|| offer(&hosts.left, "198.18.0.3", 6_000_000, span));
            offer(&hosts.left, "198.18.0.9", 80_000, span);
        });
    };
    let config = Config::new(PathModel::Carrier(carrier), delay(40));
    let Some((report, log)) = logged("carrier", config, traffic) else { return };
    let [up, down] = &log.packets;
    let count = |of: &dyn Fn(&Record) -> bool| up.iter().filter(|packet| of(packet)).count() as u64;
    assert_eq!(count(&|packet| packet.terminal.is_none()), 0, "what is nobody's is not taken");
    assert!(report.up.dropped.no_terminal >= 8, "{report:?}");
    for (outcome, reported) in [
        (LoggedOutcome::Delivered, report.up.delivered.packets),
        (LoggedOutcome::QueueFull, report.up.dropped.queue_full.packets),
        (LoggedOutcome::QueueDelay, report.up.dropped.queue_delay.packets),
        (LoggedOutcome::Loss, report.up.dropped.loss.packets),
        (LoggedOutcome::InTransit, report.up.in_transit_packets),
    ] {
        assert!(reported > 0 && count(&|packet| packet.outcome == outcome) == reported, "{outcome:?}: {report:?}");
    }
    assert!(count(&|packet| packet.terminal == Some(0) && packet.outcome == LoggedOutcome::QueueDelay) > 0);
    assert!(count(&|packet| packet.terminal == Some(1) && packet.outcome == LoggedOutcome::QueueFull) > 0);
    // One link goes down, and each packet is the terminal's to which it goes.
    let mut down: Vec<_> =
        down.iter().filter(|packet| packet.size.as_u64() == 128).map(|packet| packet.terminal).collect();
    down.sort_unstable();
    assert_eq!(down, [None, Some(0), Some(1), Some(1)]);
}
