//! Recorded TCP tunnels, in both modes.

use super::tls::Secrets;
use super::{Packet, Scratch, has_tshark, pcap, tshark};
use peering::{PrivateKey, ResetReason};
use relay::connect::{CONNECTED, ConnectRequest};
use relay::reach::{Ranges, Reach};
use std::net::SocketAddr;
use tcp_tunnel::control::{Ended, Message};
use tcp_tunnel::{Hello, Offer, SessionKey};
use units::{Duration, Instant};

/// What one side of a TCP connection sent at once.
#[derive(Clone)]
pub struct Sent {
    pub is_initiator: bool,
    pub bytes: Vec<u8>,
}

fn from_initiator(bytes: impl AsRef<[u8]>) -> Sent {
    Sent { is_initiator: true, bytes: bytes.as_ref().to_vec() }
}

fn from_responder(bytes: impl AsRef<[u8]>) -> Sent {
    Sent { is_initiator: false, bytes: bytes.as_ref().to_vec() }
}

/// The segments of a connection from `port`, each of at most `segment_size` bytes; SYN, SYN-ACK and ACK come first.
fn segments(port: u16, segment_size: usize, sent: &[Sent]) -> Vec<Packet> {
    const SYN: u8 = 0x02;
    const PSH: u8 = 0x08;
    const ACK: u8 = 0x10;
    let ends: [SocketAddr; 2] = [([198, 18, 0, 2], port).into(), ([198, 18, 0, 1], 4500).into()];
    let mut next = [1000_u32, 5000];
    let mut out = Vec::new();
    let mut add = |is_initiator: bool, flags: u8, data: &[u8]| {
        let [from, to] = if is_initiator { [0, 1] } else { [1, 0] };
        let mut payload = [ends[from].port(), ends[to].port()].map(u16::to_be_bytes).concat();
        payload.extend(next[from].to_be_bytes());
        payload.extend(if flags == SYN { 0 } else { next[to] }.to_be_bytes());
        payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        payload.extend(data);
        next[from] += data.len() as u32 + u32::from(flags & SYN != 0);
        let at = Instant::from_nanos(1_000_000_000) + Duration::from_millis(out.len() as u64);
        out.push(Packet { at, ends: [ends[from], ends[to]], protocol: 6, payload });
    };
    add(true, SYN, &[]);
    add(false, SYN | ACK, &[]);
    add(true, ACK, &[]);
    for Sent { is_initiator, bytes } in sent {
        bytes.chunks(segment_size).for_each(|data| add(*is_initiator, PSH | ACK, data));
    }
    out
}

/// What is sent on a control connection with a message of each kind, on a tunnel over IPv4, on one over IPv6 and on a trial.
fn connections() -> [Vec<Sent>; 4] {
    let [near, far] = [1, 2].map(|byte| PrivateKey::from_random([byte; 32]));
    let hello = Hello::new(near.public_key(), [3; 32]);
    let challenge = SessionKey::challenge(&far, &hello, Offer::SPOKEN, [4; 32], 77, 5);
    let (_, challenge) = challenge.expect("a key that is none of small order");
    let (key, proof) = SessionKey::prove(&near, &far.public_key(), &hello, &challenge).expect("one version");
    let net = |text: &str| text.parse().expect("a prefix");
    let reach = Reach {
        sources: Ranges::new([(net("10.1.0.0/16"), true)]),
        destinations: Ranges::new([(net("2001:db8::/32"), false)]),
    };
    let ended = Ended { session: 77, number: 9, reason: ResetReason::Aborted };
    let says = |messages: &[Message]| {
        let mut out = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut out));
        out
    };
    let request = |number, client: &str, server: &str| {
        let [client, server] = [client, server].map(|address| address.parse().expect("an address"));
        key.open(number, &ConnectRequest::new(client, server)).expect("addresses of one family")
    };
    let control = vec![
        from_initiator(hello.encode()),
        from_responder(challenge.encode()),
        from_initiator(proof),
        from_initiator(says(&[Message::Probe(1), Message::Idle, Message::Ended(ended)])),
        from_responder(says(&[Message::Answer(1), Message::Room(false), Message::Reach(reach.encode())])),
        from_responder([0xfe, 0, 3, 1, 2, 3]),
        from_initiator(says(&[Message::Leaving { has_successor: true }])),
        from_responder(says(&[Message::Stalled])),
    ];
    let tunnel = vec![
        from_initiator(request(9, "10.0.0.1:256", "192.0.2.9:80")),
        from_initiator(b"GET / HTTP/1.1\r\n"),
        from_responder([CONNECTED]),
        from_responder(b"HTTP/1.1 200 OK\r\n"),
    ];
    let warm = request(10, "[2001:db8::1]:257", "[2001:db8::2]:443");
    let warm = vec![from_initiator(&warm[..2]), from_initiator(&warm[2..]), from_responder([CONNECTED])];
    let trial = vec![from_initiator(key.trial(11, 40)), from_initiator([0x5a; 40]), from_responder([0x5a; 40])];
    [control, tunnel, warm, trial]
}

/// All values of each field of a session, in the order of the capture; in mode encrypted with `secrets`.
fn values<const N: usize>(segment_size: usize, secrets: Option<&Secrets>, names: [&str; N]) -> [Vec<String>; N] {
    let scratch = Scratch::new(&format!("tunnels-{segment_size}-{}", secrets.is_some()));
    let sent = connections().map(|sent| secrets.map_or_else(|| sent.clone(), |secrets| secrets.encrypt(&sent)));
    let segments = |(at, sent): (usize, &Vec<Sent>)| segments(40_000 + at as u16, segment_size, sent);
    let capture = scratch.write("session.pcap", pcap(sent.iter().enumerate().flat_map(segments)));
    let key_log = scratch.write("keys", secrets.map(Secrets::text).unwrap_or_default());
    let key_log = format!("tls.keylog_file:{}", key_log.display());
    let mut arguments = vec!["-r", capture.to_str().expect("text"), "-T", "fields", "-o", &key_log];
    names.iter().for_each(|name| arguments.extend(["-e", name]));
    let text = tshark(&scratch, &arguments);
    let mut values = names.map(|_| Vec::new());
    for line in text.lines() {
        for (values, field) in values.iter_mut().zip(line.split('\t')) {
            values.extend(field.split(',').filter(|value| !value.is_empty()).map(str::to_owned));
        }
    }
    values
}

#[test]
fn tunnels_are_read_however_they_are_segmented() {
    if !has_tshark() {
        return;
    }
    let secrets = Secrets::default();
    // Whole messages; cuts in the middle of most; single bytes.
    for (segment_size, secrets) in [(1400, None), (33, None), (1, None), (1400, Some(&secrets)), (33, Some(&secrets))] {
        let names = [
            "bentpipe.kind",
            "bentpipe.session",
            "bentpipe.message",
            "bentpipe.client",
            "bentpipe.server_port",
            "bentpipe.client_ipv6",
            "bentpipe.reply",
            "bentpipe.reach",
            "bentpipe.trial_length",
            "bentpipe.tunnel",
            "_ws.malformed",
        ];
        let [kinds, sessions, messages, clients, ports, clients_ipv6, replies, reach, trials, tunnels, malformed] =
            values(segment_size, secrets, names);
        assert_eq!(kinds, ["1", "2", "2", "3"], "segments of {segment_size}, {secrets:?}");
        assert_eq!(sessions.len(), 5, "{sessions:?}");
        assert_eq!(messages, ["0", "2", "3", "1", "4", "5", "254", "6", "7"]);
        assert_eq!((clients, ports), (vec!["10.0.0.1".to_owned()], vec!["80".to_owned(), "443".to_owned()]));
        assert_eq!((clients_ipv6, replies), (vec!["2001:db8::1".to_owned()], vec!["0".to_owned(); 2]));
        assert_eq!(reach, ["allowed from 10.1.0.0/16", "not allowed to 2001:db8::/32"]);
        assert_eq!((trials, tunnels), (vec!["40".to_owned()], ["9", "9", "10", "11"].map(str::to_owned).to_vec()));
        assert!(malformed.is_empty());
    }
}

#[test]
fn a_capture_that_begins_in_the_middle_of_a_tunnel_is_left_alone() {
    if !has_tshark() {
        return;
    }
    let scratch = Scratch::new("middle");
    let middle = [from_responder(b"HTTP/1.1 200 OK\r\n"), from_initiator([7; 60])];
    let capture = scratch.write("middle.pcap", pcap(segments(40_000, 1400, &middle).into_iter()));
    let text = tshark(&scratch, &["-r", capture.to_str().expect("text"), "-T", "fields", "-e", "bentpipe.kind"]);
    assert!(text.lines().count() == 5 && text.trim().is_empty(), "{text:?}");
}
