//! Test vectors of the control connection and of TCP tunnels, for other implementations (`data/vectors.json`), and what
//! docs/protocol.md says of their limits.
//!
//! `BENTPIPE_WRITE_VECTORS=1 cargo test -p bentpipe-tcp-tunnel --test it vectors::` rewrites them.

use peering::{Capabilities, PrivateKey, ResetReason, Versions};
use relay::connect::ConnectRequest;
use relay::reach::{Ranges, Reach};
use serde_json::{Value, json};
use tcp_tunnel::control::{Ended, Message, Reader};
use tcp_tunnel::replay::REACH;
use tcp_tunnel::{CHALLENGE, Challenge, Greeting, HELLO, Hello, LONGEST, Offer, Parser, SPOKEN, SessionKey, TAG};
use testkit::{Vectors, bytes, hex};

const VECTORS: Vectors = Vectors::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors.json"));
const PAGE: &str = include_str!("../../../docs/protocol.md");

fn keys() -> [PrivateKey; 2] {
    [1, 2].map(|byte| PrivateKey::from_random([byte; 32]))
}

/// The connection of the tunnel requests.
fn connection() -> ConnectRequest {
    let [client, server] = ["10.0.0.1:256", "192.0.2.9:80"].map(|address| address.parse().expect("an address"));
    ConnectRequest { dscp: "ef".parse().expect("a code point"), ..ConnectRequest::new(client, server) }
}

fn announcement() -> Reach {
    let net = |text: &str| text.parse().expect("a prefix");
    Reach {
        sources: Ranges::new([(net("10.1.0.0/16"), true)]),
        destinations: Ranges::new([(net("0.0.0.0/0"), true), (net("10.0.0.0/8"), false), (net("2000::/3"), true)]),
    }
}

/// The authentication of a session of the given versions, and what follows from its key.
fn session(name: &str, versions: [Versions; 2]) -> Value {
    let [near, far] = keys();
    let [offer, theirs] = versions.map(|versions| Offer { versions, capabilities: Capabilities::NONE });
    let hello = Hello { offer, ..Hello::new(near.public_key(), [3; 32]) };
    let (at_far, challenge) =
        SessionKey::challenge(&far, &hello, theirs, [4; 32], 77, 5).expect("a key that is none of small order");
    let mut vector = json!({
        "name": name,
        "initiator_private_key": hex(near.as_bytes()),
        "responder_private_key": hex(far.as_bytes()),
        "responder_public_key": hex(far.public_key().as_bytes()),
        "hello": hex(&hello.encode()),
        "challenge": hex(&challenge.encode()),
        "version": at_far.version(),
    });
    if let Ok((key, proof)) = SessionKey::prove(&near, &far.public_key(), &hello, &challenge) {
        assert!(at_far.is_proof(&proof));
        let request = connection();
        vector["proof"] = json!(hex(&proof));
        vector["tunnel_request"] = json!(hex(&key.open(9, &request).expect("addresses of one family")));
        vector["trial"] = json!(hex(&key.trial(10, 1400)));
    }
    vector
}

fn messages() -> [Message; 8] {
    let ended = Ended { session: 77, number: 9, reason: ResetReason::Aborted };
    [
        Message::Probe(1),
        Message::Answer(1),
        Message::Idle,
        Message::Ended(ended),
        Message::Room(false),
        Message::Reach(announcement().encode()),
        Message::Leaving { has_successor: true },
        Message::Stalled,
    ]
}

fn made() -> Value {
    let range = |oldest, newest| Versions::new(oldest, newest).expect("a range");
    let messages = messages().map(|message| {
        let mut out = Vec::new();
        message.encode(&mut out);
        hex(&out)
    });
    json!({
        "sessions": [
            session("of one version", [range(3, 3); 2]),
            session("of two versions", [range(3, 5), range(2, 4)]),
            session("without a common version", [range(3, 3), range(4, 5)]),
        ],
        "control_messages": messages,
        "unknown_control_message_and_probe": "fe000301020300000101",
    })
}

#[test]
fn vectors_are_what_the_code_writes() {
    VECTORS.check(&made());
}

#[test]
fn vectors_are_read_as_they_say() {
    let known = VECTORS.read();
    let mut reader = Reader::new();
    for (vector, message) in known["control_messages"].as_array().expect("a list").iter().zip(messages()) {
        reader.push(&bytes(vector));
        assert_eq!(reader.poll(), Some(message));
    }
    reader.push(&bytes(&known["unknown_control_message_and_probe"]));
    assert_eq!((reader.poll(), reader.poll()), (Some(Message::Probe(1)), None));
}

#[test]
fn vectors_of_sessions_authenticate() {
    let [near, far] = keys();
    for vector in VECTORS.read()["sessions"].as_array().expect("a list") {
        let greeting = |name: &str| Parser::new().push(&bytes(&vector[name]));
        let Ok(Some(Greeting::Session(hello))) = greeting("hello") else { panic!("{vector}") };
        let challenge = Challenge::decode(bytes(&vector["challenge"]).first_chunk().expect("long enough"));
        let challenge = challenge.expect("a challenge");
        let at_far = SessionKey::resume(&far, &hello, &challenge).expect("the responder's own");
        assert_eq!(at_far.version().map(u64::from), vector["version"].as_u64());
        let answer = SessionKey::prove(&near, &far.public_key(), &hello, &challenge);
        let Some(proof) = vector.get("proof") else {
            assert!(answer.is_err(), "{vector}");
            continue;
        };
        assert_eq!(answer.expect("a session").1[..], bytes(proof)[..]);
        let Ok(Some(Greeting::Tunnel(tunnel_request))) = greeting("tunnel_request") else { panic!("{vector}") };
        assert!(at_far.is_made_by_peer(&tunnel_request) && tunnel_request.connect == connection());
        let Ok(Some(Greeting::Trial(trial))) = greeting("trial") else { panic!("{vector}") };
        assert!(at_far.is_tried_by_peer(&trial));
    }
}

#[test]
fn the_page_has_the_limits_of_the_code() {
    let rows = [
        ("versions of tunnels", SPOKEN.to_string()),
        ("bytes of a hello", HELLO.to_string()),
        ("bytes of a challenge", CHALLENGE.to_string()),
        ("bytes of a tag or a proof", TAG.to_string()),
        ("bytes of a tunnel request", LONGEST.to_string()),
        ("numbers of tunnel requests below the highest that are accepted", REACH.to_string()),
    ];
    testkit::made::table(PAGE, &rows);
}
