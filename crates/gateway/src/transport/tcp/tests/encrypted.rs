//! What a terminal's gateway may do inside TLS, which is the default.

use super::super::tls::Tls;
use super::*;

/// A terminal's gateway with a session.
struct Terminal {
    tls: Tls,
    socket: Socket,
}

impl Terminal {
    /// Begins a session with `hub`. The terminal's host takes little that is not read.
    fn begin(hub: &mut Hub) -> Self {
        let configs = Configs::new(&settings(TERMINAL, HUB, "", "")).unwrap();
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&hub.address().into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut terminal = Self { tls: configs.connect(0).unwrap(), socket };
        hub.until(|_| done(terminal.tls.advance(&terminal.socket)));
        let hello = hello(TERMINAL, 1);
        terminal.say(&hello.encode());
        let mut challenge = Vec::new();
        hub.until(|_| {
            let mut buffer = vec![0; CHALLENGE - challenge.len()];
            let count = done(terminal.tls.read(&terminal.socket, &mut buffer))?;
            challenge.extend_from_slice(&buffer[..count]);
            (challenge.len() == CHALLENGE).then_some(())
        });
        let challenge = Challenge::decode(challenge.first_chunk().unwrap()).unwrap();
        let (_, proof) = SessionKey::prove(&key(TERMINAL), &key(HUB).public_key(), &hello, &challenge).unwrap();
        terminal.say(&proof);
        hub.until(|hub| (hub.transport.counters.sessions == 1).then_some(()));
        terminal
    }

    /// Says `bytes`, for which the socket has room.
    fn say(&mut self, bytes: &[u8]) {
        self.tls.write(bytes).unwrap();
        self.tls.flush(&self.socket).unwrap();
    }
}

/// The lengths of the TLS records that `bytes` begins with, as far as they are complete.
fn records(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    // Type, version, length (RFC 8446, section 5.1).
    while let Some((&[_, _, _, high, low], rest)) = bytes.split_first_chunk()
        && let Some((record, rest)) = rest.split_at_checked(u16::from_be_bytes([high, low]).into())
    {
        lengths.push(record.len());
        bytes = rest;
    }
    lengths
}

/// What `result` brings; `None` if it is too soon.
fn done<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        other => Some(other.unwrap()),
    }
}

#[test]
fn a_peer_that_asks_without_end_and_reads_nothing_is_hung_up_on_in_tls_too() {
    let mut hub = Hub::with("", "accept_from = [\"127.0.0.1/32\"]");
    let mut terminal = Terminal::begin(&mut hub);
    let probes = encoded(&Message::Probe(9)).repeat(4_096);
    for _ in 0..300 {
        match terminal.tls.flush(&terminal.socket) {
            Ok(()) => terminal.tls.write(&probes).unwrap(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        hub.turn();
        let pending = hub.transport.tunnels.iter().map(|(_, tunnel)| tunnel.pending()).sum::<usize>();
        assert!(pending <= talk::MAX_PENDING + probes.len(), "{pending} bytes of answers wait");
    }
    hub.until(|hub| hub.transport.tunnels.is_empty().then_some(()));
    assert_eq!(hub.transport.peers[0].responder, None);
}

#[test]
fn the_probes_of_one_turn_are_answered_in_one_record() {
    const PROBES: usize = 1_000;
    let mut hub = Hub::with("", "accept_from = [\"127.0.0.1/32\"]");
    let mut terminal = Terminal::begin(&mut hub);
    while done((&terminal.socket).read(&mut [0; 4096])).is_some() {}
    let probes = encoded(&Message::Probe(9)).repeat(PROBES);
    terminal.say(&probes);
    let mut bytes = Vec::new();
    let lengths = hub.until(|_| {
        let mut buffer = [0; 4096];
        let count = done((&terminal.socket).read(&mut buffer))?;
        bytes.extend_from_slice(&buffer[..count]);
        let lengths = records(&bytes);
        // Beside its content, a record has the type of that and a tag.
        let content: usize = lengths.iter().map(|length| length - 17).sum();
        (content >= probes.len()).then_some(lengths)
    });
    assert_eq!((lengths.len(), lengths[0]), (1, probes.len() + 17), "an answer is as long as its probe");
}

#[test]
fn who_has_another_key_of_the_hub_is_named_with_what_to_correct() {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let mut hub = Hub::with("", "accept_from = [\"127.0.0.1/32\"]");
        let configs = Configs::new(&settings(TERMINAL, STRANGER, "", "")).unwrap();
        let socket = hub.connect().into();
        let mut tls = configs.connect(0).unwrap();
        hub.until(|hub| {
            let _ = tls.advance(&socket);
            (hub.rejected("stranger") == 1).then_some(())
        });
    });
    let said = lines.taken().concat();
    assert!(said.contains("TLS refused") && said.contains("public_key") && said.contains("127.0.0.1"), "{said}");
    assert!(!said.contains("malformed"), "{said}");
}
