//! A router and a modem with real sockets, in network namespaces of their own. Where the machine may not create any, the tests
//! say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real sockets, threads and waiting")]

use dlep::{Item, Mac, Message, MessageKind, Metrics, RateKind, Settings, Status};
use dlep_io::{LinkReport, Modem, ModemSettings, News, RouterSettings, route};
use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use kernel::testing::namespace;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use units::Rate;

const PATIENCE: Duration = Duration::from_secs(20);
const MAC: Mac = Mac::Eui48([2, 0, 0x5e, 0x10, 0, 1]);
const MODEM: &str = "198.18.0.1:854";
const RATES: [RateKind; 4] =
    [RateKind::MaximumReceive, RateKind::MaximumTransmit, RateKind::CurrentReceive, RateKind::CurrentTransmit];

/// A modem's host and a router's, wired together.
fn hosts() -> Option<[Namespace; 2]> {
    let (modem, router) = (namespace()?, namespace()?);
    for namespace in [&modem, &router] {
        set_sysctls(namespace, &[("ipv6/conf/all/accept_dad", "0"), ("ipv6/conf/default/accept_dad", "0")]).unwrap();
    }
    wire(&modem, &router);
    Some([modem, router])
}

fn wire(modem: &Namespace, router: &Namespace) {
    let up = |namespace, number: u8| {
        IpBatch::new(namespace)
            .add(format!("address add 198.18.0.{number}/24 dev eth0"))
            .add("link set eth0 up")
            .run()
            .unwrap();
    };
    IpBatch::new(modem).add_veth("eth0", router, "eth0").run().unwrap();
    up(modem, 1);
    up(router, 2);
}

fn metrics(bps: u64) -> Metrics {
    let rate = Some(Rate::from_bps(bps));
    let latency = Some(units::Duration::from_millis(275));
    Metrics { max_receive: rate, max_transmit: rate, receive: rate, transmit: rate, latency, ..Metrics::default() }
}

fn session(name: &str) -> Settings {
    Settings { heartbeat: units::Duration::from_millis(500), name: name.into() }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn report(link: Option<Metrics>) -> LinkReport {
    LinkReport { session: metrics(6_000_000), link }
}

/// A modem whose link is what the sender says.
fn modem(host: &Namespace) -> (watch::Sender<LinkReport>, JoinHandle<Option<()>>) {
    modem_in(host, session("test modem"))
}

/// The same with these settings of its sessions.
fn modem_in(host: &Namespace, session: Settings) -> (watch::Sender<LinkReport>, JoinHandle<Option<()>>) {
    let settings = ModemSettings { interface: "eth0".into(), port: 854, destination: MAC, session };
    let (link, reports) = watch::channel(report(Some(metrics(6_000_000))));
    let modem = host.run(|| Modem::open(settings)).unwrap().unwrap();
    let thread = host.spawn("modem", move || block_on(modem.run(reports)).unwrap());
    (link, thread.unwrap())
}

/// A router, what happens to it, and what stops it.
fn router(
    host: &Namespace,
    modem: Option<SocketAddr>,
) -> (mpsc::Receiver<News>, watch::Sender<()>, JoinHandle<Option<()>>) {
    let (sender, news) = mpsc::channel();
    let (stop, stopped) = watch::channel(());
    let settings = RouterSettings {
        interface: "eth0".into(),
        modem,
        port: 854,
        destination: None,
        session: session("test router"),
    };
    let run = move || block_on(route(&settings, stopped, |one| sender.send(one).unwrap_or_default()));
    (news, stop, host.spawn("router", run).unwrap())
}

fn next(news: &mpsc::Receiver<News>) -> News {
    news.recv_timeout(PATIENCE).unwrap()
}

/// The modem's address in the news that the session is up.
fn up(news: &mpsc::Receiver<News>) -> SocketAddr {
    match next(news) {
        News::Up { modem, name } => {
            assert_eq!(name, "test modem");
            modem
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_router_finds_its_modem_follows_its_link_and_both_end_in_order() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (link, modem_thread) = modem(&modem_host);
    let (news, stop, router_thread) = router(&router_host, None);
    assert_eq!(up(&news).port(), 854);
    assert_eq!(next(&news), News::Link(Some(metrics(6_000_000))));
    link.send_replace(report(Some(metrics(3_000_000))));
    assert_eq!(next(&news), News::Link(Some(metrics(3_000_000))));
    link.send_replace(report(None));
    assert_eq!(next(&news), News::Link(None));
    link.send_replace(report(Some(metrics(5_000_000))));
    assert_eq!(next(&news), News::Link(Some(metrics(5_000_000))));
    // The way has become longer, for the session and so for the destination; then the link is down, and the session's is short.
    let way = |of: Metrics, ms| Metrics { latency: Some(units::Duration::from_millis(ms)), ..of };
    let far = way(metrics(5_000_000), 300);
    link.send_replace(LinkReport { session: way(metrics(6_000_000), 300), link: Some(far) });
    assert_eq!(next(&news), News::Link(Some(far)));
    link.send_replace(LinkReport { session: way(metrics(6_000_000), 20), link: None });
    // They may come at once.
    while next(&news) != News::Link(None) {}
    link.send_replace(LinkReport { session: way(metrics(6_000_000), 20), link: Some(far) });
    assert_eq!(next(&news), News::Link(Some(far)));
    // Heartbeats keep the session: nothing happens within three of their intervals.
    assert!(news.recv_timeout(Duration::from_millis(1_600)).is_err());
    drop(link);
    let why = "ended by the peer: shutting down".into();
    assert_eq!(next(&news), News::Down { why, failures: 1 });
    modem_thread.join().unwrap();
    let (_link, _modem) = modem(&modem_host);
    while !matches!(next(&news), News::Up { .. }) {}
    drop(stop);
    while let Ok(one) = news.recv_timeout(PATIENCE) {
        let is_end = |why: &str| why == "ended from here: shutting down: stopping";
        assert!(matches!(&one, News::Link(_)) || matches!(&one, News::Down { why, .. } if is_end(why)), "{one:?}");
    }
    router_thread.join().unwrap();
}

/// Another program that has the port over one family would serve the routers of that family, or keep them waiting.
#[test]
fn a_modem_does_not_open_beside_a_program_that_has_its_port() {
    let Some([modem_host, _router_host]) = hosts() else { return };
    let settings =
        || ModemSettings { interface: "eth0".into(), port: 854, destination: MAC, session: session("test modem") };
    for (is_ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
        let other = modem_host.run(|| kernel::gtsm::listen(is_ipv6, 854, "eth0")).unwrap().unwrap();
        let error = modem_host.run(|| Modem::open(settings())).unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("TCP port 854 over {family}: ")), "{error}");
        drop(other);
    }
    modem_host.run(|| Modem::open(settings())).unwrap().unwrap();
}

/// As a modem on USB that is plugged in again.
#[test]
fn a_router_looks_for_its_modem_at_an_interface_that_was_made_again() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (news, _stop, _router) = router(&router_host, None);
    assert!(news.recv_timeout(Duration::from_millis(500)).is_err(), "it asks");
    IpBatch::new(&modem_host).add("link delete eth0").run().unwrap();
    wire(&modem_host, &router_host);
    let (_link, _modem) = modem(&modem_host);
    assert!(matches!(next(&news), News::Down { why, .. } if why.contains("the interface was removed")));
    assert_eq!(up(&news).port(), 854);
}

#[test]
fn a_modem_waits_at_an_interface_that_was_replaced() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (_link, _modem) = modem(&modem_host);
    IpBatch::new(&modem_host).add("link delete eth0").run().unwrap();
    wire(&modem_host, &router_host);
    let (news, _stop, _router) = router(&router_host, None);
    assert_eq!(up(&news).port(), 854);
}

#[test]
fn a_modem_that_falls_silent_is_given_up_after_two_heartbeats() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (_link, _modem) = modem(&modem_host);
    let (news, _stop, _router) = router(&router_host, Some(MODEM.parse().unwrap()));
    up(&news);
    assert!(matches!(next(&news), News::Link(Some(_))));
    IpBatch::new(&modem_host).add("link set eth0 down").run().unwrap();
    let start = std::time::Instant::now();
    let News::Down { why, .. } = next(&news) else { panic!("still up") };
    assert!(why.contains("timed out"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Whatever connects without a word takes no router's place.
#[test]
fn silent_connections_do_not_keep_a_router_out() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (_link, _modem) = modem(&modem_host);
    let connect = || TcpStream::connect_timeout(&MODEM.parse().unwrap(), Duration::from_secs(5)).unwrap();
    for number in [4, 20] {
        let silent: Vec<_> = router_host.run(|| (0..number).map(|_| connect()).collect()).unwrap();
        let (news, _stop, _router) = router(&router_host, Some(MODEM.parse().unwrap()));
        assert!(matches!(news.recv_timeout(Duration::from_secs(5)), Ok(News::Up { .. })), "{number}");
        for mut stream in silent {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(stream.read(&mut [0; 400]).unwrap(), 0, "closed without a message");
        }
        assert!(matches!(next(&news), News::Link(Some(_))));
        assert!(news.try_recv().is_err(), "the router stays");
    }
}

#[test]
fn a_router_beyond_those_that_may_have_sessions_hears_why() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (_link, _modem) = modem(&modem_host);
    let routers: Vec<_> = (0..4).map(|_| router(&router_host, Some(MODEM.parse().unwrap()))).collect();
    routers.iter().for_each(|(news, ..)| assert_eq!(up(news), MODEM.parse().unwrap()));
    let (news, _stop, _router) = router(&router_host, Some(MODEM.parse().unwrap()));
    let first = next(&news);
    let why = "request denied: 4 routers have sessions, as many as may";
    assert!(matches!(&first, News::Down { why: said, .. } if said.contains(why)), "{first:?}");
}

/// A connection whose session was declined and that stays nevertheless is one of those that wait.
#[test]
fn declined_connections_that_stay_open_are_closed_for_newer_ones() {
    let Some([modem_host, router_host]) = hosts() else { return };
    // A declined session would time out after two minutes.
    let heartbeat = units::Duration::from_secs(60);
    let (_link, _modem) = modem_in(&modem_host, Settings { heartbeat, ..session("test modem") });
    let routers: Vec<_> = (0..4).map(|_| router(&router_host, Some(MODEM.parse().unwrap()))).collect();
    routers.iter().for_each(|(news, ..)| assert_eq!(up(news), MODEM.parse().unwrap()));
    let introduction = vec![Item::HeartbeatInterval(60_000), Item::PeerType(false, "stays".into())];
    let introduction = Message::new(MessageKind::SessionInitialization, introduction).encode();
    let declined = || {
        let mut stream = TcpStream::connect_timeout(&MODEM.parse().unwrap(), Duration::from_secs(5)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_ttl(255).unwrap();
        stream.write_all(&introduction).unwrap();
        assert!(stream.read(&mut [0; 400]).unwrap() > 0, "it hears why");
        stream
    };
    let mut streams: Vec<_> = router_host.run(|| (0..20).map(|_| declined()).collect()).unwrap();
    for oldest in &mut streams[..4] {
        assert!(matches!(oldest.read(&mut [0; 400]), Ok(0)), "closed, as sixteen newer ones wait");
    }
    for newer in &mut streams[4..] {
        newer.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        assert_eq!(newer.read(&mut [0; 400]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn whatever_no_neighbour_has_sent_is_refused() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let (_link, _modem) = modem(&modem_host);
    // Hosts behind routers: their TTL is what the system gives, and not 255. The handshake is not looked at, all data is.
    let introduction = vec![Item::HeartbeatInterval(500), Item::PeerType(false, "far".into())];
    let introduction = Message::new(MessageKind::SessionInitialization, introduction).encode();
    let speak = |ttl: u32| {
        let mut stream = TcpStream::connect_timeout(&MODEM.parse().unwrap(), Duration::from_secs(5)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.set_ttl(ttl).unwrap();
        stream.write_all(&introduction).unwrap();
        stream.read(&mut [0; 400])
    };
    assert!(router_host.run(|| speak(255)).unwrap().unwrap() > 0);
    for ttl in [64, 254] {
        let answer = router_host.run(|| speak(ttl)).unwrap();
        assert_eq!(answer.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{ttl}");
    }
    let ask = |ttl: u32| {
        let socket = UdpSocket::bind("198.18.0.2:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.set_ttl(ttl).unwrap();
        socket.send_to(&dlep::discovery("test"), MODEM).unwrap();
        let mut answer = [0; 200];
        socket.recv(&mut answer).map(|length| dlep::connection_points(&answer[..length], "::1".parse().unwrap()))
    };
    let points = router_host.run(|| ask(255)).unwrap().unwrap();
    assert_eq!(points[0].address, MODEM.parse().unwrap());
    assert!(router_host.run(|| ask(254)).unwrap().is_err());
    // And so is a modem that is none: what it says never arrives.
    let far = modem_host.run(|| TcpListener::bind("198.18.0.1:900")).unwrap().unwrap();
    let (news, _stop, _router) = router(&router_host, Some(far.local_addr().unwrap()));
    let (mut stream, _) = far.accept().unwrap();
    stream.write_all(&Message::new(MessageKind::Heartbeat, vec![]).encode()).unwrap();
    assert!(matches!(next(&news), News::Down { why, .. } if why.contains("nothing was heard")));
}

/// A modem that begins each session and ends it at once is tried less and less often.
#[test]
fn sessions_that_end_at_once_count_as_failures() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let listener = modem_host.run(|| kernel::gtsm::listen(false, 854, "eth0")).unwrap().unwrap();
    listener.set_nonblocking(false).unwrap();
    let (news, _stop, _router) = router(&router_host, Some(MODEM.parse().unwrap()));
    for number in 1..=3 {
        let mut stream = TcpStream::from(listener.accept().unwrap().0);
        stream.set_nonblocking(false).unwrap();
        let mut bytes = [0; 400];
        assert!(stream.read(&mut bytes).unwrap() > 0, "its Session Initialization");
        let mut items = vec![
            Item::Status(Status::SUCCESS, String::new()),
            Item::HeartbeatInterval(500),
            Item::PeerType(false, "test modem".into()),
            Item::Latency(275_000),
        ];
        items.extend(RATES.map(|kind| Item::DataRate(kind, 6_000_000)));
        stream.write_all(&Message::new(MessageKind::SessionInitializationResponse, items).encode()).unwrap();
        up(&news);
        drop(stream);
        assert!(matches!(next(&news), News::Down { failures, .. } if failures == number), "{number}");
    }
}

#[test]
fn a_modem_that_speaks_nonsense_is_told_so_and_tried_again() {
    let Some([modem_host, router_host]) = hosts() else { return };
    let listener = modem_host.run(|| kernel::gtsm::listen(false, 854, "eth0")).unwrap().unwrap();
    listener.set_nonblocking(false).unwrap();
    let (news, _stop, _router) = router(&router_host, Some(MODEM.parse().unwrap()));
    for _ in 0..2 {
        let mut stream = TcpStream::from(listener.accept().unwrap().0);
        stream.set_nonblocking(false).unwrap();
        stream.write_all(&[0, 2, 0, 4, 0xff, 0xff, 0xff, 0xff]).unwrap();
        assert!(matches!(next(&news), News::Down { why, .. } if why.contains("invalid data")));
        let mut said = dlep::Framer::default();
        let mut farewell = None;
        while farewell.is_none() {
            let mut bytes = [0; 400];
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "no farewell");
            said.push(&bytes[..length]);
            let messages = std::iter::from_fn(|| said.next_message().map(Result::unwrap));
            farewell = messages.filter(|message| message.kind == MessageKind::SessionTermination).last();
        }
        assert_eq!(farewell.unwrap().status(), Some(Status::INVALID_DATA));
    }
}
