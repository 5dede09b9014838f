//! Test vectors of connect requests and announcements, for other implementations (`data/vectors.json`), and what
//! docs/protocol.md says of their limits.
//!
//! `BENTPIPE_WRITE_VECTORS=1 cargo test -p bentpipe-relay --test it vectors::` rewrites them.

use relay::connect::{self, CONNECTED, ConnectRequest, MAX_FIELDS, MAX_LENGTH};
use relay::reach::{self, MAX_ENTRIES, Ranges, Reach};
use serde_json::{Value, json};
use testkit::{Vectors, bytes, hex};

const VECTORS: Vectors = Vectors::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors.json"));
const PAGE: &str = include_str!("../../../docs/protocol.md");

/// Connections, and fields that a later version may send with them.
fn connections() -> [(ConnectRequest, &'static [u8]); 3] {
    let open = |client: &str, server: &str, dscp: &str| ConnectRequest {
        dscp: dscp.parse().expect("a code point"),
        ..ConnectRequest::new(client.parse().expect("an address"), server.parse().expect("an address"))
    };
    [
        (open("10.0.0.1:256", "192.0.2.9:80", "ef"), &[]),
        (open("[2001:db8::1]:50000", "[2001:db8::2]:443", "0"), &[]),
        (open("10.0.0.1:256", "192.0.2.9:80", "ef"), &[0x80, 3, 1, 2, 3]),
    ]
}

fn encoded(request: &ConnectRequest, fields: &[u8]) -> Vec<u8> {
    let mut buffer = [0; MAX_LENGTH];
    let length = request.encode(&mut buffer).expect("addresses of one family");
    let mut bytes = buffer[..length].to_vec();
    if !fields.is_empty() {
        bytes[1] |= connect::HAS_FIELDS;
        bytes.push(fields.len() as u8);
        bytes.extend(fields);
    }
    bytes
}

fn requests() -> Value {
    let vectors = connections().map(|(request, fields)| {
        json!({
            "bytes": hex(&encoded(&request, fields)), "client": request.source.to_string(), "server": request.destination.to_string(),
            "dscp": request.dscp.value(), "skipped_fields": hex(fields),
        })
    });
    json!(vectors)
}

fn announcement() -> Reach {
    let net = |text: &str| text.parse().expect("a prefix");
    Reach {
        sources: Ranges::new([(net("10.1.0.0/16"), true)]),
        destinations: Ranges::new([(net("0.0.0.0/0"), true), (net("10.0.0.0/8"), false), (net("2000::/3"), true)]),
    }
}

fn made() -> Value {
    json!({
        "connect_requests": requests(),
        "connect_reply": hex(&[CONNECTED]),
        "announcement": hex(&announcement().announcement()),
    })
}

#[test]
fn vectors_are_what_the_code_writes() {
    VECTORS.check(&made());
}

#[test]
fn vectors_are_read_as_they_say() {
    let known = VECTORS.read();
    for (vector, (request, _)) in known["connect_requests"].as_array().expect("a list").iter().zip(connections()) {
        let bytes = bytes(&vector["bytes"]);
        assert_eq!(connect::Parser::new().push(&bytes), Ok((bytes.len(), Some(request))));
    }
    assert_eq!(reach::Reader::new().push(&bytes(&known["announcement"])), Ok(Some(announcement())));
}

#[test]
fn the_page_has_the_limits_of_the_code() {
    let rows = [
        ("bytes of the fields of a connect request", MAX_FIELDS.to_string()),
        ("bytes of a connect request", MAX_LENGTH.to_string()),
        ("entries of an announcement", MAX_ENTRIES.to_string()),
    ];
    testkit::made::table(PAGE, &rows);
}
