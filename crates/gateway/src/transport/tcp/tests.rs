//! What a gateway takes from those who connect to it: peers, strangers and attackers, over loopback and in virtual time. The
//! messages are those of docs/protocol.md.

mod encrypted;
mod responder;

use super::tunnel::Admission;
use super::*;
use mio::{Events, Poll, Token, Waker};
use relay::dscp::Dscp;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tcp_tunnel::control::{Ended, Message, Reader};
use tcp_tunnel::{CHALLENGE, Challenge, Hello, SessionKey};
use tracing::span;

const FIRST_TOKEN: usize = 1;
/// Turns of the loop, a millisecond each at most: far more than anything here takes.
const MAX_TURNS: usize = 10_000;
const HUB: u8 = 1;
const TERMINAL: u8 = 2;
const STRANGER: u8 = 3;

pub(super) fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_random([byte; 32])
}

/// The settings of the holder of `own`, whose one peer is the holder of `peer`; `gateway` and `terminal` are more keys of these sections.
pub(super) fn settings(own: u8, peer: u8, gateway: &str, terminal: &str) -> Settings {
    let text = format!(
        "[gateway]\nprivate_key = \"{}\"\nlisten = \"127.0.0.1:4500\"\ntransport = \"tcp\"\n{gateway}\n\
         [link]\ninterface = \"sat\"\nrate = \"10Mbit/s\"\nrtt = \"500ms\"\nmax_streams = 64\n\
         [tcp]\nfast_open = false\n\
         [intercept]\ninterfaces = [\"lan\"]\n\
         [[peer]]\nname = \"terminal\"\npublic_key = \"{}\"\n{terminal}\n",
        key(own).to_base64(),
        key(peer).public_key(),
    );
    let mut settings = crate::config::parse(&text, "gateway.toml").unwrap_or_else(|faults| panic!("{faults}"));
    settings.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    settings
}

/// The gateway of a hub, which one terminal may call, in clear: what is said is seen.
pub(super) struct Hub {
    pub(super) transport: TcpTransport,
    poll: Poll,
    now: Instant,
    /// Where those who connect are.
    from: IpAddr,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self::accepting_from("127.0.0.1/32")
    }

    fn accepting_from(prefix: &str) -> Self {
        Self::with("mode = \"clear\"\nsecured_externally = true", &format!("accept_from = [\"{prefix}\"]"))
    }

    fn with(gateway: &str, terminal: &str) -> Self {
        let settings = settings(HUB, TERMINAL, gateway, terminal);
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let watch = Watch::new(poll.registry(), FIRST_TOKEN, waker).unwrap();
        let now = Instant::ZERO + Duration::from_secs(1000);
        let transport = TcpTransport::start(&settings, settings.tcp.as_ref().unwrap(), now, &watch, None).unwrap();
        Self { transport, poll, now, from: [127, 0, 0, 1].into() }
    }

    fn address(&self) -> SocketAddr {
        self.transport.listener.as_ref().unwrap().local_addr().unwrap().as_socket().unwrap()
    }

    /// One turn of the gateway's loop.
    fn turn(&mut self) {
        let mut events = Events::with_capacity(256);
        self.poll.poll(&mut events, Some(std::time::Duration::from_millis(1))).unwrap();
        for event in &events {
            let Owner::Transport(at) = Watch::owner(event.token(), FIRST_TOKEN) else { panic!("another's event") };
            self.transport.on_descriptor(self.now, at, event);
        }
        self.transport.take_in(self.now, 1000);
        self.transport.send_out(self.now);
    }

    /// Turns until `found` is something.
    fn until<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..MAX_TURNS {
            self.turn();
            if let Some(found) = found(self) {
                return found;
            }
        }
        panic!("nothing comes; rejected: {:?}", self.transport.counters.rejected);
    }

    /// Turns until as many connections were rejected for the reason `why`.
    fn until_rejected(&mut self, why: &str, count: u64) {
        self.until(|hub| (hub.rejected(why) >= count).then_some(()));
        assert_eq!(self.rejected(why), count, "{why}");
    }

    fn rejected(&self, why: &str) -> u64 {
        self.transport.counters.rejected.get(why).copied().unwrap_or_default()
    }

    fn connect(&self) -> TcpStream {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(self.from, 0).into()).unwrap();
        socket.connect(&self.address().into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.into()
    }

    /// A connection that has said `bytes`.
    fn say(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// The next `count` bytes that come.
    fn read(&mut self, stream: &mut TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.until(|_| {
            let mut buffer = vec![0; count - bytes.len()];
            match stream.read(&mut buffer) {
                Ok(0) => panic!("an end after {} bytes", bytes.len()),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            (bytes.len() == count).then_some(())
        });
        bytes
    }

    /// Turns until the gateway has hung up; returns what came before.
    fn last_words(&mut self, stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.until(|_| {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Ok(_) | Err(_) => return Some(()),
            }
            None
        });
        bytes
    }

    /// The holder of `key` says hello and is challenged.
    fn challenged(&mut self, hello: &Hello) -> (TcpStream, Challenge) {
        let mut stream = self.say(&hello.encode());
        let challenge = self.read(&mut stream, CHALLENGE);
        (stream, Challenge::decode(challenge.first_chunk().unwrap()).unwrap())
    }

    /// The terminal begins a session.
    pub(super) fn session(&mut self, nonce: u8) -> (TcpStream, SessionKey) {
        let hello = hello(TERMINAL, nonce);
        let (mut stream, challenge) = self.challenged(&hello);
        let (key, proof) = SessionKey::prove(&key(TERMINAL), &key(HUB).public_key(), &hello, &challenge).unwrap();
        let before = self.transport.counters.sessions;
        stream.write_all(&proof).unwrap();
        self.until(|hub| (hub.transport.counters.sessions > before).then_some(()));
        (stream, key)
    }

    /// The next message on a control connection that `is_meant`.
    fn hear(&mut self, stream: &mut TcpStream, reader: &mut Reader, is_meant: impl Fn(&Message) -> bool) -> Message {
        self.until(|_| {
            while let Some(message) = reader.poll() {
                if is_meant(&message) {
                    return Some(message);
                }
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => panic!("hung up"),
                Ok(count) => reader.push(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            None
        })
    }

    /// The next connection that has been opened for the relays, and the server it is for.
    fn opened(&mut self) -> (TunnelId, SocketAddr) {
        let id = self.until(|hub| match hub.transport.poll_event(hub.now) {
            Some(StreamEvent::Opened(id, peer)) => {
                assert_eq!(peer, 0);
                Some(id)
            }
            _ => None,
        });
        match self.transport.read_request(self.now, id) {
            ReceivedRequest::Complete(request) => (id, request.destination),
            _ => panic!("opened without a request"),
        }
    }
}

/// The lines of the log at its default level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// The text of each line, and its fields.
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            line += &format!("{field}={value:?} ");
        });
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn hello(who: u8, nonce: u8) -> Hello {
    Hello::new(key(who).public_key(), [nonce; 32])
}

fn to_port(port: u16) -> ConnectRequest {
    let [source, destination] = [([10, 0, 0, 1], 40_000), ([192, 0, 2, 9], port)].map(SocketAddr::from);
    ConnectRequest { source, destination, dscp: Dscp::default() }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn a_stranger_is_told_nothing_not_even_that_a_gateway_answers() {
    let mut hub = Hub::new();
    let mut stream = hub.say(&hello(STRANGER, 1).encode());
    assert_eq!(hub.last_words(&mut stream), b"");
    assert_eq!((hub.rejected("stranger"), hub.transport.counters.violations), (1, 0));
    assert_eq!(hub.transport.tunnels.len(), 0);
}

#[test]
fn what_is_no_greeting_is_hung_up_on_at_its_first_wrong_byte() {
    let mut hub = Hub::new();
    let no_range = [&hello(TERMINAL, 1).encode()[..2], &[5, 4]].concat();
    let greetings: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[22, 3, 1, 2, 0, 1],
        b"SSH-2.0-x\r\n",
        &[1, 0],
        &[tcp_tunnel::FORMAT, 9],
        &no_range,
    ];
    for (count, greeting) in (1..).zip(greetings) {
        let mut stream = hub.say(greeting);
        assert_eq!(hub.last_words(&mut stream), b"", "{greeting:?}");
        assert_eq!((hub.rejected("malformed"), hub.transport.counters.violations), (count, 0), "{greeting:?}");
    }
    assert_eq!((hub.transport.tunnels.len(), hub.transport.strangers.len()), (0, 0));
    hub.session(1);
}

#[test]
fn a_greeting_that_comes_byte_by_byte_is_taken_as_well() {
    let mut hub = Hub::new();
    let (_control, key) = hub.session(1);
    let mut stream = hub.connect();
    for byte in key.open(0, &to_port(443)).unwrap() {
        assert!(hub.transport.events.iter().all(|event| !matches!(event, StreamEvent::Opened(..))));
        stream.write_all(&[byte]).unwrap();
        hub.turn();
    }
    assert_eq!(hub.opened().1.port(), 443);
}

/// Makes what is said instead of a proof.
type Forge<'a> = &'a dyn Fn(&Challenge) -> [u8; 16];

#[test]
fn without_the_right_proof_there_is_no_session() {
    let mut hub = Hub::new();
    let hello = hello(TERMINAL, 1);
    let proof =
        |challenge: &Challenge| SessionKey::prove(&key(TERMINAL), &key(HUB).public_key(), &hello, challenge).unwrap().1;
    let (mut earlier, old) = hub.challenged(&hello);
    let old_proof = proof(&old);
    let forgeries: [(&str, Forge<'_>); 4] = [
        ("nothing", &|_| [0; 16]),
        ("the hub's own tag, reflected", &|challenge| challenge.tag),
        ("the proof of another session with the same hello", &|_| old_proof),
        ("a proof with one bit changed", &|challenge| {
            let mut bytes = proof(challenge);
            bytes[15] ^= 1;
            bytes
        }),
    ];
    for (count, (what, forge)) in (1..).zip(forgeries) {
        let (mut stream, challenge) = hub.challenged(&hello);
        stream.write_all(&forge(&challenge)).unwrap();
        assert_eq!(hub.last_words(&mut stream), b"", "{what}");
        assert_eq!((hub.rejected("not_authentic"), hub.transport.counters.sessions), (count, 0), "{what}");
    }
    assert_eq!(hub.transport.trouble_of(hub.now, 0).unwrap().reason, "not_initiated");
    // Others' attempts cost the one in between nothing.
    earlier.write_all(&old_proof).unwrap();
    hub.until(|hub| (hub.transport.counters.sessions == 1).then_some(()));
    assert_eq!(hub.transport.trouble_of(hub.now, 0), None);
}

#[test]
fn a_tunnel_request_opens_one_connection_and_only_as_the_peer_wrote_it() {
    let mut hub = Hub::new();
    let (_control, key) = hub.session(1);
    let written = key.open(7, &to_port(443)).unwrap();
    let _stream = hub.say(&written);
    assert_eq!(hub.opened().1, to_port(443).destination);
    let mut again = hub.say(&written);
    assert_eq!(hub.last_words(&mut again), b"");
    assert_eq!(hub.rejected("replayed"), 1);
    let fresh = key.open(8, &to_port(443)).unwrap();
    // Its session, its number, its tag and the server's port: none can be altered.
    for (place, why) in
        [(2, "no_session"), (17, "not_authentic"), (18, "not_authentic"), (fresh.len() - 1, "not_authentic")]
    {
        let before = hub.rejected(why);
        let mut altered = fresh.clone();
        altered[place] ^= 1;
        let mut stream = hub.say(&altered);
        hub.until_rejected(why, before + 1);
        assert_eq!(hub.last_words(&mut stream), b"", "byte {place}");
    }
    // What others have made of it has not used it up.
    let _stream = hub.say(&fresh);
    hub.opened();
    assert_eq!(hub.transport.peers[0].streams, 2);
}

#[test]
fn a_tunnel_request_that_overtakes_the_proof_waits_for_it() {
    for is_right in [true, false] {
        let mut hub = Hub::new();
        let hello = hello(TERMINAL, 1);
        let (mut control, challenge) = hub.challenged(&hello);
        let (key, mut proof) = SessionKey::prove(&key(TERMINAL), &key(HUB).public_key(), &hello, &challenge).unwrap();
        let mut early = hub.say(&key.open(0, &to_port(443)).unwrap());
        hub.until(|hub| hub.transport.tunnels.iter().any(|(_, tunnel)| tunnel.early.is_some()).then_some(()));
        assert_eq!(hub.transport.peers[0].streams, 0, "nothing is opened for who has proved nothing");
        if !is_right {
            proof[0] ^= 1;
        }
        control.write_all(&proof).unwrap();
        if is_right {
            assert_eq!(hub.opened().1.port(), 443);
        } else {
            assert_eq!(hub.last_words(&mut early), b"");
            assert_eq!((hub.rejected("no_session"), hub.transport.peers[0].streams), (1, 0));
        }
    }
}

#[test]
fn who_has_no_version_in_common_learns_which_there_are_and_begins_no_session() {
    let mut hub = Hub::new();
    let mut hello = hello(TERMINAL, 1);
    hello.offer.versions = ::satpep::Versions::new(200, 201).unwrap();
    let (mut stream, challenge) = hub.challenged(&hello);
    assert_eq!(challenge.offer.versions, tcp_tunnel::SPOKEN);
    let outcome = SessionKey::prove(&key(TERMINAL), &key(HUB).public_key(), &hello, &challenge);
    assert!(matches!(outcome, Err(tcp_tunnel::ChallengeError::Versions(_))), "the hub has proved that it is so");
    let trouble = hub.transport.trouble_of(hub.now, 0).unwrap();
    assert_eq!(trouble.reason, "other_version");
    assert!(trouble.says.contains("200 to 201") && trouble.says.contains("not authenticated"), "{}", trouble.says);
    stream.write_all(&[0; 16]).unwrap();
    hub.last_words(&mut stream);
    assert_eq!((hub.rejected("version"), hub.rejected("not_authentic"), hub.transport.counters.sessions), (1, 1, 0));
}

#[test]
fn what_a_stranger_says_of_a_peers_version_does_not_outlive_a_session() {
    let mut hub = Hub::new();
    let reason = |hub: &Hub| hub.transport.trouble_of(hub.now, 0).map(|trouble| trouble.reason);
    let claim = |hub: &mut Hub, nonce| {
        let mut hello = hello(TERMINAL, nonce);
        hello.offer.versions = ::satpep::Versions::new(200, 201).unwrap();
        drop(hub.challenged(&hello));
    };
    claim(&mut hub, 1);
    assert_eq!(reason(&hub).unwrap(), "other_version");
    let (control, _) = hub.session(2);
    assert_eq!(reason(&hub), None);
    drop(control);
    hub.until(|hub| hub.transport.peers[0].responder.is_none().then_some(()));
    assert_eq!(reason(&hub).unwrap(), "not_initiated", "an outage is none of versions");
    claim(&mut hub, 3);
    assert_eq!(reason(&hub).unwrap(), "not_initiated", "the peer has proved that there is a version in common");
}

#[test]
fn an_address_that_is_no_peers_is_refused_before_a_byte_is_read() {
    let mut hub = Hub::accepting_from("127.0.0.2/32");
    let mut stream = hub.say(&hello(TERMINAL, 1).encode());
    assert_eq!(hub.last_words(&mut stream), b"");
    assert_eq!((hub.rejected("address"), hub.transport.next_number), (1, 0), "it was never in the table");
}

#[test]
fn strangers_in_clear_are_challenged_at_a_rate_and_peers_at_any() {
    let mut hub = Hub::new();
    for nonce in 0..128 {
        hub.challenged(&hello(TERMINAL, nonce));
    }
    let mut beyond = hub.say(&hello(TERMINAL, 128).encode());
    assert_eq!(hub.last_words(&mut beyond), b"");
    assert_eq!(hub.rejected("too_fast"), 1);
    hub.now += Duration::from_millis(50);
    let _control = hub.session(129);
    for nonce in 130..=255 {
        hub.challenged(&hello(TERMINAL, nonce));
    }
    assert_eq!(hub.rejected("too_fast"), 1, "a peer has begun a session from there");
}

#[test]
fn what_strangers_say_beyond_their_rate_waits_unread_for_tls() {
    let mut hub = Hub::with("", "");
    let count =
        |hub: &Hub, admission| hub.transport.tunnels.iter().filter(|(_, tunnel)| tunnel.admission == admission).count();
    let _silent: Vec<_> = (0..100).map(|_| hub.connect()).collect();
    // The first byte of a handshake.
    let _strangers: Vec<_> = (0..134).map(|_| hub.say(&[22])).collect();
    hub.until(|hub| (count(hub, Admission::Granted) + count(hub, Admission::Awaited) == 134).then_some(()));
    assert_eq!(
        (count(&hub, Admission::Granted), count(&hub, Admission::NotAsked)),
        (128, 100),
        "who is silent costs nothing"
    );
    hub.now += Duration::from_millis(100);
    hub.transport.tick(hub.now);
    assert_eq!(count(&hub, Admission::Awaited), 1);
    hub.now += Duration::from_secs(1);
    hub.transport.tick(hub.now);
    assert_eq!((count(&hub, Admission::Awaited), hub.transport.awaiting_admission.len()), (0, 0));
}

#[test]
fn who_stays_silent_halfway_through_has_to_go_after_ten_seconds() {
    let mut hub = Hub::new();
    let said = hello(TERMINAL, 1).encode();
    let mut streams = [&said[..0], &said[..1], &said[..said.len() - 1]].map(|bytes| hub.say(bytes));
    let (mut unproved, _) = hub.challenged(&hello(TERMINAL, 2));
    hub.until(|hub| (hub.transport.strangers.len() == 4).then_some(()));
    hub.now += Duration::from_millis(9_999);
    hub.turn();
    assert_eq!(hub.transport.tunnels.len(), 4);
    hub.now += Duration::from_millis(1);
    streams.iter_mut().chain([&mut unproved]).for_each(|stream| assert_eq!(hub.last_words(stream), b""));
    assert_eq!((hub.rejected("late"), hub.transport.strangers.len(), hub.transport.challenged.len()), (3, 0, 0));
}

#[test]
fn a_peer_hears_that_room_runs_out_before_it_has_and_that_there_is_room_again() {
    let mut hub = Hub::new();
    let (mut control, key) = hub.session(1);
    let (mut reader, is_room) = (Reader::new(), |message: &Message| matches!(message, Message::Room(_)));
    let mut streams = Vec::new();
    let mut open = |hub: &mut Hub, number: u64| {
        streams.push(hub.say(&key.open(number, &to_port(80)).unwrap()));
        hub.opened().0
    };
    let mut ids: Vec<_> = (0..60).map(|number| open(&mut hub, number)).collect();
    hub.transport.tick(hub.now);
    assert_eq!(hub.hear(&mut control, &mut reader, is_room), Message::Room(false), "60 of 64");
    ids.extend((60..64).map(|number| open(&mut hub, number)));
    let mut beyond = hub.say(&key.open(64, &to_port(80)).unwrap());
    assert_eq!(hub.last_words(&mut beyond), b"");
    assert_eq!((hub.rejected("too_many"), hub.transport.room(0)), (1, (0, 64)));
    // As many as are left when it counts as room again, and one fewer: it is not to change with each connection.
    ids.drain(..8).for_each(|id| hub.transport.reset(hub.now, id, ResetReason::Aborted));
    hub.transport.tick(hub.now);
    assert!(hub.transport.peers[0].is_notified_full);
    ids.drain(..1).for_each(|id| hub.transport.reset(hub.now, id, ResetReason::Aborted));
    hub.transport.tick(hub.now);
    assert_eq!(hub.hear(&mut control, &mut reader, is_room), Message::Room(true), "55 of 64");
}

/// A reset may come from a host between the gateways: then the peer has an open connection, and knows of nothing.
#[test]
fn a_peer_learns_of_a_reset_that_it_may_not_have_sent_and_hears_nothing_of_its_own() {
    let mut hub = Hub::new();
    let (mut control, key) = hub.session(1);
    let (mut reader, session) = (Reader::new(), *hub.transport.peers[0].sessions.back().unwrap());
    let is_end = |message: &Message| matches!(message, Message::Ended(_) | Message::Answer(_));
    for (number, says_so) in [(1, true), (2, false)] {
        let stream = hub.say(&key.open(number, &to_port(80)).unwrap());
        let (id, _) = hub.opened();
        let ended = Ended { session, number, reason: ResetReason::Aborted };
        if says_so {
            control.write_all(&encoded(&Message::Ended(ended))).unwrap();
        } else {
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(stream);
        }
        hub.until(|hub| match hub.transport.poll_event(hub.now) {
            Some(StreamEvent::Reset(of, ResetReason::Aborted)) if of == id => Some(()),
            _ => None,
        });
        hub.transport.forget(id);
        hub.transport.tick(hub.now);
        control.write_all(&encoded(&Message::Probe(99))).unwrap();
        let heard = hub.hear(&mut control, &mut reader, is_end);
        let expected = if says_so { Message::Answer(99) } else { Message::Ended(ended) };
        assert_eq!(heard, expected, "{number}");
    }
}

#[test]
fn a_peer_that_asks_without_end_and_reads_nothing_is_hung_up_on() {
    let mut hub = Hub::new();
    let (mut control, _) = hub.session(1);
    let probes = encoded(&Message::Probe(9)).repeat(16_384);
    let mut at = 0;
    // What the sockets of both ends hold, and what the gateway does.
    for _ in 0..2_000 {
        match control.write(&probes[at..]) {
            // The next byte is the next of a probe, of four.
            Ok(count) => at = (at + count) % 4,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        hub.turn();
        let pending = hub.transport.tunnels.iter().map(|(_, tunnel)| tunnel.pending()).sum::<usize>();
        assert!(pending <= talk::MAX_PENDING + probes.len(), "{pending} bytes of answers wait");
    }
    hub.until(|hub| hub.transport.tunnels.is_empty().then_some(()));
    assert_eq!(hub.transport.peers[0].responder, None);
    hub.session(2);
}

#[test]
fn a_peer_that_says_much_keeps_no_one_waiting_and_all_of_it_is_heard() {
    let mut hub = Hub::new();
    let (mut control, _) = hub.session(1);
    let (reads, mut said) = (talk::READS as u64 * 1024, encoded(&Message::Idle).repeat(100_000));
    said.extend(encoded(&Message::Probe(9)));
    let sent = control.write(&said).unwrap() as u64;
    assert!(sent > 2 * reads, "{sent} bytes");
    hub.until(|hub| hub.transport.has_more().then_some(()));
    // The loop comes back by itself: no more news of the socket is needed.
    while hub.transport.has_more() {
        hub.transport.take_in(hub.now, 0);
    }
    let mut rest = &said[sent as usize..];
    hub.until(|_| {
        rest = &rest[control.write(rest).unwrap_or(0)..];
        rest.is_empty().then_some(())
    });
    let is_answer = |message: &Message| matches!(message, Message::Answer(_));
    assert_eq!(hub.hear(&mut control, &mut Reader::new(), is_answer), Message::Answer(9));
}

#[test]
fn messages_of_kinds_to_come_are_passed_over() {
    let mut hub = Hub::new();
    let (mut control, _) = hub.session(1);
    // Kind, length, body; then one that is too short for what it is, and at last a probe.
    let unknown = [&[200, 0, 3, 1, 2, 3][..], &[0, 0, 0], &encoded(&Message::Probe(77))].concat();
    control.write_all(&unknown).unwrap();
    let is_answer = |message: &Message| matches!(message, Message::Answer(_));
    assert_eq!(hub.hear(&mut control, &mut Reader::new(), is_answer), Message::Answer(77));
}

#[test]
fn a_trial_of_the_path_comes_back_whole_and_once() {
    let mut hub = Hub::new();
    let (_control, key) = hub.session(1);
    let trial = key.trial(3, 2_896);
    let mut stream = hub.say(&trial);
    stream.write_all(&[7; 2_895]).unwrap();
    hub.until(|hub| {
        let missing = |tunnel: &Tunnel| matches!(tunnel.role, Role::Echoing { missing: 1, .. });
        hub.transport.tunnels.iter().any(|(_, tunnel)| missing(tunnel)).then_some(())
    });
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "no echo of what has not come");
    stream.write_all(&[7]).unwrap();
    assert_eq!(hub.read(&mut stream, 2_896).len(), 2_896);
    let mut again = hub.say(&trial);
    assert_eq!(hub.last_words(&mut again), b"");
    let mut longer = key.trial(4, 100);
    longer[35] = 200;
    let mut longer = hub.say(&longer);
    assert_eq!(hub.last_words(&mut longer), b"");
    assert_eq!((hub.rejected("replayed"), hub.rejected("not_authentic")), (1, 1));
}

#[test]
fn the_process_that_takes_over_knows_the_sessions_and_what_was_used_in_them() {
    let mut old = Hub::new();
    let (mut control, key) = old.session(1);
    let _streams = [0, 2].map(|number| old.say(&key.open(number, &to_port(80)).unwrap()));
    for _ in 0..2 {
        old.opened();
    }
    let address = old.address();
    let _listener = old.transport.listener.as_ref().unwrap().try_clone().unwrap();
    let estate = old.transport.hand_over(old.now);
    let is_leaving = |message: &Message| matches!(message, Message::Leaving { .. });
    let said = old.hear(&mut control, &mut Reader::new(), is_leaving);
    assert_eq!(said, Message::Leaving { has_successor: true });

    let mut new = Hub::new();
    let own_epoch = new.transport.epoch;
    for end in [0, 1, estate.len() / 2, estate.len() - 1] {
        assert!(new.transport.inherit(&estate[..end]).is_err(), "{end} of {} bytes", estate.len());
    }
    assert_eq!((new.transport.epoch, new.transport.sessions.len()), (own_epoch, 0), "a part changes nothing");
    new.transport.inherit(&estate).unwrap();
    assert_eq!(new.transport.epoch, old.transport.epoch, "to peers it is the same run");
    assert!(TcpStream::connect(address).is_ok(), "the listener that both have is not shut down");
    for (number, is_used) in [(0, true), (1, false), (2, true), (3, false)] {
        let mut stream = new.say(&key.open(number, &to_port(443)).unwrap());
        if is_used {
            assert_eq!(new.last_words(&mut stream), b"", "{number}");
        } else {
            assert_eq!(new.opened().1.port(), 443, "{number}");
        }
    }
    assert_eq!(new.rejected("replayed"), 2);
}

#[test]
fn sessions_that_are_not_this_gateways_are_not_inherited() {
    let mut old = Hub::new();
    old.session(1);
    let estate: serde_json::Value = serde_json::from_slice(&old.transport.hand_over(old.now)).unwrap();
    for (field, place) in [("hello", 0), ("hello", 10), ("hello", 60), ("challenge", 20), ("challenge", CHALLENGE - 1)]
    {
        let mut other = estate.clone();
        let byte = &mut other["sessions"][0][field][place];
        *byte = (byte.as_u64().unwrap() ^ 1).into();
        let mut new = Hub::new();
        new.transport.inherit(other.to_string().as_bytes()).unwrap();
        assert_eq!(new.transport.sessions.len(), 0, "byte {place} of {field}");
    }
}

/// Images of one terminal's disk: each session takes the place of the one before the last, too soon for anything to be asked of it.
#[test]
fn sessions_that_are_begun_in_turn_from_three_addresses_are_those_of_rivals() {
    let mut hub = Hub::accepting_from("127.0.0.0/8");
    let mut controls = Vec::new();
    for nonce in 0..5 {
        hub.from = [127, 0, 0, 1 + nonce % 3].into();
        controls.push(hub.session(nonce));
        hub.now += Duration::from_secs(1);
    }
    // Two have returned.
    let (now, known) = (hub.now, &mut hub.transport.peers[0]);
    assert!(known.rivals.on_begun(now, [127, 0, 0, 3].into()), "and now the third, which is enough");
}

#[test]
fn nothing_of_a_peer_that_is_removed_works_any_more() {
    let mut hub = Hub::new();
    let (mut control, key) = hub.session(1);
    let mut stream = hub.say(&key.open(0, &to_port(80)).unwrap());
    let id = hub.opened().0;
    hub.transport.remove_peer(hub.now, 0);
    for stream in [&mut control, &mut stream] {
        hub.last_words(stream);
    }
    assert!(matches!(hub.transport.read_request(hub.now, id), ReceivedRequest::Ended));
    assert_eq!((hub.transport.sessions.len(), hub.transport.tunnels.len(), hub.transport.addresses.len()), (0, 0, 0));
    let mut back = hub.say(&hello(TERMINAL, 2).encode());
    assert_eq!(hub.last_words(&mut back), b"");
    assert_eq!(hub.rejected("address"), 1);
}

/// An outage between two messages that are a keepalive apart is none of a peer that answers beside.
#[test]
fn a_peer_answers_beside_a_stuck_connection_only_if_it_is_heard_all_the_time() {
    let mut hub = Hub::new();
    let (begun, pause) = (hub.now, Duration::from_secs(3));
    let lost_after = hub.transport.sockets.lost_after;
    let outage_limit = hub.transport.outage_limit;
    let Some(lost_after) = lost_after else { return };
    let limit_at = |hub: &Hub, now| hub.transport.outage_limit_beside(now, &hub.transport.peers[0]);
    let mut now = begun;
    while now.since(begun) <= lost_after + Duration::from_secs(2) {
        hub.transport.peers[0].hear(now, pause);
        now += Duration::from_secs(1);
    }
    assert_eq!(limit_at(&hub, now), lost_after.min(outage_limit));
    let long_after = now + Duration::from_secs(100);
    assert_eq!(limit_at(&hub, long_after), outage_limit, "nothing was heard since");
    hub.transport.peers[0].hear(long_after, pause);
    assert_eq!(limit_at(&hub, long_after), outage_limit, "it was not heard meanwhile");
}

/// Where ports are used up, connections run past the far gateway.
#[test]
fn connections_to_servers_themselves_outlive_the_far_gateway_and_do_not_speak_for_it() {
    let mut hub = Hub::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = |hub: &mut Hub| {
        let stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        hub.transport.peers[0].streams += 1;
        hub.transport.insert(Role::Stream(0), stream.into(), hub.from).unwrap()
    };
    let [through, past] = std::array::from_fn(|_| connect(&mut hub));
    hub.transport.tunnels[past].is_direct = true;
    let mut others = [server.accept().unwrap().0, server.accept().unwrap().0];
    others[1].write_all(b"of the server").unwrap();
    let (client, _other) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    client.set_nonblocking(true).unwrap();
    let watch = hub.transport.watch.try_clone().unwrap();
    let mut hosts = HostSockets::new(&settings(HUB, TERMINAL, "", ""), watch, 1000);
    let (before, mut client) = (hub.transport.carried_bytes(0), Tcp::accepted(client));
    let id = TunnelId { at: past, number: hub.transport.tunnels[past].number };
    hub.until(|hub| (hub.transport.receive(hub.now, id, &mut hosts, &mut client).0 > 0).then_some(()));
    assert_eq!((hub.transport.carried_bytes(0), hub.transport.is_busy(0)), (before, false));
    hub.transport.tunnels[past].awaits_reply = true;
    assert!(!hub.transport.is_busy(0), "nobody asks the far gateway about another's answer");
    hub.transport.reset_streams(hub.now, 0, ResetReason::PeerRestarted, |_| true);
    let failed = [through, past].map(|at| hub.transport.tunnels[at].failed);
    assert_eq!(failed, [Some(ResetReason::PeerRestarted), None]);
}

/// The peer is heard beside it, as others' answers arrive.
#[test]
fn who_waits_for_an_answer_on_a_connection_that_is_lost_learns_of_the_outage() {
    let listener = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let connect = || {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&listener.local_addr().unwrap());
        socket
    };
    // Where the queue of those to be accepted is full, SYNs get no answer.
    let _waiting: Vec<Socket> = (0..3).map(|_| connect()).collect();
    let mut hub = Hub::new();
    hub.transport.outage_limit = Duration::from_millis(40);
    let at = hub.transport.insert(Role::Stream(0), connect(), hub.from).unwrap();
    hub.transport.peers[0].streams += 1;
    hub.transport.tunnels[at].awaits_reply = true;
    let id = TunnelId { at, number: hub.transport.tunnels[at].number };
    hub.until(|hub| {
        hub.now += Duration::from_millis(20);
        hub.transport.sweep(hub.now);
        let is_told = matches!(hub.transport.poll_event(hub.now), Some(StreamEvent::Ready(told)) if told == id);
        let answer = hub.transport.read_reply(hub.now, id);
        (is_told && answer == ConnectReply::Failed(ResetReason::Outage)).then_some(())
    });
}

#[test]
fn a_peer_whose_key_is_of_no_use_to_tls_costs_no_socket() {
    let mut hub = Hub::with("", "address = \"127.0.0.1:9\"");
    hub.transport.tls.as_mut().unwrap().set_peer(0, None);
    hub.transport.serve_initiator(hub.now, 0);
    assert!(matches!(hub.transport.peers[0].initiator, Some(Initiator::Waits(_))));
    assert_eq!(hub.transport.tunnels.len(), 0);
}

#[test]
fn a_caller_that_cannot_be_accepted_does_not_keep_those_behind_it_waiting_and_a_broken_listener_keeps_no_processor_busy()
 {
    // Linux gives ECONNABORTED for a caller whose port is 0.
    let [of_caller, of_listener] = [libc::ECONNABORTED, libc::EMFILE]
        .map(|code| arrivals::concerns_caller_alone(&io::Error::from_raw_os_error(code)));
    assert!(of_caller && !of_listener);
    let mut hub = Hub::new();
    hub.transport.listener = Some(Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap());
    hub.transport.accepting = true;
    hub.transport.take_in(hub.now, 3);
    assert!(!hub.transport.has_more() && hub.transport.callers_wait);
}

/// The kernel of a server whose program hangs acknowledges the probes of its closed window for ever.
#[test]
fn a_connection_that_has_ended_at_a_server_which_reads_no_more_counts_as_a_stream_and_is_not_kept_for_ever() {
    let mut hub = Hub::new();
    let server = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    server.set_recv_buffer_size(4096).unwrap();
    server.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    server.listen(1).unwrap();
    let (id, mut held) = past_stream(&mut hub, &server);
    let _accepted = server.accept().unwrap();
    while held.write(&[7; 65_536]).is_ok() {}
    drop(held);
    let tunnel = &mut hub.transport.tunnels[id.at];
    tunnel.has_ended = true;
    tunnel.finish();
    hub.transport.forget(id);
    let left = |hub: &Hub| (hub.transport.tunnels.len(), hub.transport.peers[0].streams);
    for seconds in [0, 10, 900] {
        hub.transport.sweep(hub.now + Duration::from_secs(seconds));
        assert_eq!(left(&hub), (1, 1), "{seconds} s");
    }
    assert_eq!(hub.transport.unfinished(hub.now), 1);
    hub.transport.sweep(hub.now + Duration::from_secs(911));
    assert_eq!(left(&hub), (0, 0));
}

/// A connection past the far gateway to `server` that the hub has opened, and another hold of its socket.
fn past_stream(hub: &mut Hub, server: &Socket) -> (TunnelId, TcpStream) {
    let stream = TcpStream::connect(server.local_addr().unwrap().as_socket().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let held = stream.try_clone().unwrap();
    let at = hub.transport.insert(Role::Stream(0), stream.into(), hub.from).unwrap();
    hub.transport.peers[0].streams += 1;
    hub.transport.tunnels[at].is_direct = true;
    (TunnelId { at, number: hub.transport.tunnels[at].number }, held)
}

/// Else the kernel keeps it for days after the gateway has gone.
#[test]
fn the_kernel_keeps_what_lingers_no_longer_than_of_any_host_once_the_gateway_stops_or_the_peer_is_removed() {
    for stops in [true, false] {
        let mut hub = Hub::new();
        let server = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        server.set_recv_buffer_size(4096).unwrap();
        server.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        server.listen(1).unwrap();
        let (id, mut held) = past_stream(&mut hub, &server);
        while held.write(&[7; 65_536]).is_ok() {}
        let socket = Socket::from(held);
        socket.set_tcp_user_timeout(Some(std::time::Duration::from_secs(7 * 24 * 3600))).unwrap();
        let tunnel = &mut hub.transport.tunnels[id.at];
        tunnel.has_ended = true;
        tunnel.finish();
        hub.transport.forget(id);
        assert!(matches!(hub.transport.tunnels[id.at].role, Role::Lingering(_)));
        if stops {
            hub.transport.leave(hub.now);
        } else {
            hub.transport.remove_peer(hub.now, 0);
        }
        assert_eq!(hub.transport.tunnels.len(), 0);
        assert_eq!(socket.tcp_user_timeout().unwrap(), None, "stops: {stops}");
    }
}

/// It may have each end in order at once, and acknowledge nothing.
#[test]
fn connections_whose_last_bytes_a_peer_does_not_take_are_bounded() {
    let mut hub = Hub::new();
    hub.transport.max_streams = 2;
    let (_control, key) = hub.session(1);
    let mut streams = Vec::new();
    for number in 0..4 {
        streams.push(hub.say(&key.open(number, &to_port(80)).unwrap()));
        let id = hub.opened().0;
        // More than the sockets of both ends hold.
        hub.transport.tunnels[id.at].say(&vec![0; 16 << 20]).unwrap();
        hub.transport.reset(hub.now, id, ResetReason::Denied);
        assert_eq!(hub.transport.peers[0].streams, 0);
    }
    let mut beyond = hub.say(&key.open(4, &to_port(80)).unwrap());
    assert_eq!(hub.last_words(&mut beyond), b"");
    assert_eq!(hub.rejected("too_many"), 1, "twice as many as it may have streams");
    drop(streams.pop());
    hub.until(|hub| (hub.transport.tunnels.len() == 4).then_some(()));
    streams.push(hub.say(&key.open(5, &to_port(80)).unwrap()));
    hub.opened();
    hub.transport.remove_peer(hub.now, 0);
    drop(streams);
    hub.until(|hub| hub.transport.tunnels.is_empty().then_some(()));
}

#[test]
fn what_waits_for_room_in_a_responders_socket_goes_as_soon_as_there_is_some() {
    let mut hub = Hub::new();
    let (mut control, _) = hub.session(1);
    let at = hub.transport.peers[0].responder.unwrap();
    // More than the sockets of both ends hold.
    hub.transport.tunnels[at].say(&encoded(&Message::Idle).repeat(8 << 20)).unwrap();
    assert!(hub.transport.tunnels[at].pending() > 0);
    let mut buffer = vec![0; 1 << 20];
    hub.until(|hub| {
        let _ = control.read(&mut buffer);
        (hub.transport.tunnels[at].pending() == 0).then_some(())
    });
}

/// A peer opens connections until it has heard that the gateway drains, and what it has sent by then may have been lost.
#[test]
fn a_drain_waits_for_what_peers_may_have_opened_before_they_have_heard_of_it() {
    let grace = Duration::from_secs(3);
    for hears in [true, false] {
        let mut hub = Hub::new();
        let (mut control, _) = hub.session(1);
        let (at, begun) = (hub.transport.peers[0].responder.unwrap(), hub.now);
        assert_eq!(hub.transport.unfinished(begun), 0);
        if !hears {
            // More than the sockets of both ends hold.
            hub.transport.tunnels[at].say(&vec![0; 64 << 20]).unwrap();
        }
        hub.transport.drain(begun);
        let unfinished = |hub: &mut Hub, after| {
            hub.transport.tick(begun + after);
            hub.transport.unfinished(begun + after)
        };
        if hears {
            hub.hear(&mut control, &mut Reader::new(), |message| matches!(message, Message::Leaving { .. }));
            hub.until(|hub| hub.transport.tunnels[at].is_acknowledged().then_some(()));
            assert_eq!(unfinished(&mut hub, Duration::ZERO), 1);
            assert_eq!(hub.transport.unfinished(begun + (grace - Duration::from_millis(1))), 1);
            assert_eq!(hub.transport.unfinished(begun + grace), 0);
        } else {
            assert_eq!(unfinished(&mut hub, Duration::from_secs(29)), 1);
            assert_eq!(
                unfinished(&mut hub, Duration::from_secs(30)),
                0,
                "a peer that does not answer is not waited for longer"
            );
        }
    }
}

#[test]
fn connections_to_servers_are_probed_as_a_reload_says() {
    let mut hub = Hub::new();
    hub.transport.reconfigure(hub.now, &settings(HUB, TERMINAL, "host_keepalive = \"1min\"", ""));
    assert_eq!(hub.transport.host_keepalive, std::time::Duration::from_secs(60));
}
