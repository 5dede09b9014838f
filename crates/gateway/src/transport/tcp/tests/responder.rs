//! Sessions that the hub begins, with a terminal's gateway that says what a test has it say.

use super::super::session::Initiator;
use super::*;
use tcp_tunnel::{Greeting, Offer, Parser, TAG};

/// The terminal's gateway, which the hub connects to.
struct Responder {
    listener: TcpListener,
    /// Who has connected and has not said hello.
    callers: Vec<(TcpStream, Parser)>,
    sessions: u8,
}

impl Responder {
    /// A hub that begins sessions with it, beside.
    fn with_hub() -> (Hub, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let terminal = format!("accept_from = [\"127.0.0.1/32\"]\naddress = \"{address}\"");
        let hub = Hub::with("mode = \"clear\"\nsecured_externally = true", &terminal);
        (hub, Self { listener, callers: Vec::new(), sessions: 0 })
    }

    /// The next caller that says hello.
    fn poll_hello(&mut self) -> Option<(TcpStream, Hello)> {
        while let Ok((caller, _)) = self.listener.accept() {
            caller.set_nonblocking(true).unwrap();
            self.callers.push((caller, Parser::new()));
        }
        for (at, (caller, parser)) in self.callers.iter_mut().enumerate() {
            let mut buffer = vec![0; parser.missing()];
            let Ok(count) = caller.read(&mut buffer) else { continue };
            if let Ok(Some(Greeting::Session(hello))) = parser.push(&buffer[..count]) {
                return Some((self.callers.swap_remove(at).0, hello));
            }
        }
        None
    }

    /// Answers the hub's next hello, as run `epoch` of its process. Returns the control connection, behind the proof.
    fn respond(&mut self, hub: &mut Hub, epoch: u64) -> TcpStream {
        let (mut control, hello) = hub.until(|_| self.poll_hello());
        self.sessions += 1;
        let (nonce, session) = ([self.sessions; 32], self.sessions.into());
        let (_, challenge) =
            SessionKey::challenge(&key(TERMINAL), &hello, Offer::SPOKEN, nonce, session, epoch).unwrap();
        control.write_all(&challenge.encode()).unwrap();
        hub.read(&mut control, TAG);
        assert!(is_up(hub));
        control
    }
}

fn is_up(hub: &Hub) -> bool {
    hub.transport.peers[0].initiator.as_ref().is_some_and(Initiator::is_up)
}

/// Whether the responder's host has acknowledged what the hub has said. It may take some milliseconds by its clock.
fn is_acknowledged(hub: &Hub) -> bool {
    let control = hub.transport.peers[0].initiator.as_ref().and_then(Initiator::tunnel);
    control.is_none_or(|at| hub.transport.tunnels[at].is_acknowledged())
}

const TAKES_OVER: Message = Message::Leaving { has_successor: true };

fn is_probe(message: &Message) -> bool {
    matches!(message, Message::Probe(_))
}

/// A relayed connection through the terminal's gateway that the hub has opened, and its other end.
fn own_stream(hub: &mut Hub) -> (TunnelId, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    hub.transport.peers[0].streams += 1;
    let at = hub.transport.insert(Role::Stream(0), stream.into(), hub.from).unwrap();
    (TunnelId { at, number: hub.transport.tunnels[at].number }, listener.accept().unwrap().0)
}

#[test]
fn a_peer_that_has_restarted_keeps_what_its_new_process_has_opened() {
    let (mut hub, mut responder) = Responder::with_hub();
    let mut control = responder.respond(&mut hub, 1);
    let (_old_control, old_key) = hub.session(1);
    let _old = hub.say(&old_key.open(0, &to_port(80)).unwrap());
    let old = hub.opened().0;
    let (own, _other_end) = own_stream(&mut hub);
    // A session that the peer begins has the hub ask whether it is still the same.
    hub.hear(&mut control, &mut Reader::new(), is_probe);
    hub.now += Duration::from_millis(600);
    control.write_all(&encoded(&Message::Answer(0))).unwrap();
    hub.until(|hub| (hub.transport.peers[0].heard_at == hub.now).then_some(()));

    drop(control);
    hub.until(|hub| (!is_up(hub)).then_some(()));
    // The new process may begin more sessions than one, as its path changes, before the hub has one with it.
    let opened = [2, 3].map(|nonce| {
        let (control, key) = hub.session(nonce);
        let stream = hub.say(&key.open(0, &to_port(443)).unwrap());
        (hub.opened().0, control, stream)
    });
    hub.now += Duration::from_secs(1);
    let _control = responder.respond(&mut hub, 2);
    let failed = |id: TunnelId| hub.transport.tunnels[id.at].failed;
    assert_eq!([old, own].map(failed), [Some(ResetReason::PeerRestarted); 2]);
    assert_eq!(opened.each_ref().map(|(id, ..)| failed(*id)), [None; 2]);
}

#[test]
fn while_all_is_quiet_a_peer_whose_host_acknowledges_is_neither_lost_nor_silent() {
    for (keepalive, seconds) in [(40, 300), (1, 30)] {
        let keepalive = Duration::from_secs(keepalive);
        let (mut hub, mut responder) = Responder::with_hub();
        hub.transport.probe_timers = session::ProbeTimers::new(Duration::from_millis(500), keepalive);
        // Short of the hour and ten minutes that they are.
        hub.transport.probe_timers.longest_keepalive = Duration::from_secs(50);
        hub.transport.longest_silence = Duration::from_secs(10);
        let _control = responder.respond(&mut hub, 1);
        let (stream, _other_end) = own_stream(&mut hub);
        for second in 1..=seconds {
            hub.now += Duration::from_secs(1);
            hub.turn();
            hub.transport.tick(hub.now);
            hub.until(|hub| is_acknowledged(hub).then_some(()));
            let failed = hub.transport.tunnels[stream.at].failed;
            assert_eq!((is_up(&hub), failed), (true, None), "after {second} s, keepalive {keepalive}");
        }
    }
}

#[test]
fn bytes_that_are_acknowledged_before_the_hub_looks_are_followed_by_one_probe() {
    [false, true].into_iter().for_each(bytes_are_followed_by_one_probe);
}

/// The connection goes on, or has ended before the hub looks.
fn bytes_are_followed_by_one_probe(ends: bool) {
    let (mut hub, mut responder) = Responder::with_hub();
    let mut control = responder.respond(&mut hub, 1);
    let (stream, _other_end) = own_stream(&mut hub);
    let (client, mut other) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    client.set_nonblocking(true).unwrap();
    other.write_all(b"one line of a log").unwrap();
    let watch = hub.transport.watch.try_clone().unwrap();
    let mut hosts = HostSockets::new(&settings(HUB, TERMINAL, "", ""), watch, 1000);
    let mut client = Tcp::accepted(client);
    hub.until(|hub| (hub.transport.send(hub.now, stream, &mut hosts, &mut client).0 > 0).then_some(()));
    hub.until(|hub| hub.transport.tunnels[stream.at].is_acknowledged().then_some(()));
    if ends {
        hub.transport.forget(stream);
        assert_eq!(hub.transport.peers[0].streams, 0);
    }
    let mut reader = Reader::new();
    hub.now += Duration::from_secs(1);
    hub.hear(&mut control, &mut reader, is_probe);
    control.write_all(&encoded(&Message::Answer(0))).unwrap();
    // Nothing more is sent: what follows is the keepalive.
    hub.now += Duration::from_secs(1);
    hub.turn();
    hub.now += Duration::from_secs(100);
    assert_eq!(hub.hear(&mut control, &mut reader, |_| true), Message::Idle);
}

#[test]
fn a_peer_that_ends_one_session_after_the_other_does_not_fill_the_log() {
    for says in [None, Some(TAKES_OVER), Some(Message::Leaving { has_successor: false })] {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            let (mut hub, mut responder) = Responder::with_hub();
            for _ in 0..60 {
                let mut control = responder.respond(&mut hub, 1);
                control.write_all(&says.iter().flat_map(encoded).collect::<Vec<u8>>()).unwrap();
                drop(control);
                hub.until(|hub| (!is_up(hub)).then_some(()));
                hub.now += Duration::from_secs(1);
                hub.transport.tick(hub.now);
            }
        });
        let count = lines.taken().len();
        assert!((2..=32).contains(&count), "{says:?}: {count} lines in a minute");
    }
}

#[test]
fn probes_are_answered_in_a_session_of_the_hubs_and_where_another_has_taken_its_place() {
    let (mut hub, mut responder) = Responder::with_hub();
    let mut control = responder.respond(&mut hub, 1);
    let (mut reader, probes) = (Reader::new(), encoded(&Message::Probe(7)).repeat(1_000));
    let mut answered = |hub: &mut Hub, control: &mut TcpStream| {
        control.write_all(&probes).unwrap();
        for _ in 0..1_000 {
            hub.hear(control, &mut reader, |message| *message == Message::Answer(7));
        }
    };
    answered(&mut hub, &mut control);
    hub.now += Duration::from_secs(1);
    control.write_all(&encoded(&TAKES_OVER)).unwrap();
    hub.until(|hub| (!is_up(hub)).then_some(()));
    let _newer = responder.respond(&mut hub, 1);
    assert_eq!(hub.transport.peers[0].former_initiators.len(), 1);
    answered(&mut hub, &mut control);
}

#[test]
fn a_round_trip_is_known_only_once_the_peer_has_answered() {
    // Its host takes one connection, and drops the SYNs of others.
    let listener = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _first = TcpStream::connect(address).unwrap();
    let mut hub = Hub::with("mode = \"clear\"\nsecured_externally = true", &format!("address = \"{address}\""));
    hub.turn();
    hub.transport.tick(hub.now);
    let settings = hub.transport.peers[0].settings.clone();
    assert!(hub.transport.control_socket(0).is_some(), "it connects");
    assert_eq!(hub.transport.peer(hub.now, 0, &settings).rtt_s, None);

    let (mut hub, mut responder) = Responder::with_hub();
    let _control = responder.respond(&mut hub, 1);
    assert!(hub.transport.peer(hub.now, 0, &settings).rtt_s > Some(0.0));
}
