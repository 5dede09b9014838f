//! Test vectors of the wire format, for other implementations (`tests/data/vectors.json`): what the code writes is what they
//! say, and what they say is read as they describe it.
//!
//! `BENTPIPE_WRITE_VECTORS=1 cargo test -p bentpipe-satpep vectors` rewrites them.

use super::arrivals::Counters;
use super::frame::{Frame, Malformed, PathFrame, Reader, RepairFrame, Writer};
use super::packet::{DATA_HEADER, DataHeader, TAG, noise_message};
use super::varint;
use crate::credit::Credit;
use crate::event::Violation;
use crate::handshake::{
    Acquaintance, Agreement, CookieJar, Identity, Notice, TransportParameters, seal_cookie, unproven_versions,
};
use crate::packet_number::PacketNumber;
use crate::random::SecureRandom;
use crate::seal::{Cipher, DataKey, Mode, Sealing as _, Suite};
use crate::stream::{StreamNumber, StreamOffset};
use crate::{Capabilities, PrivateKey, PublicKey, ResetReason, Stored, Versions};
use serde_json::{Value, json};
use testkit::{Vectors, bytes, hex};

const VECTORS: Vectors = Vectors::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors.json"));

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut space = [0; 200];
    let mut writer = Writer::new(&mut space);
    write(&mut writer);
    let length = writer.len();
    space[..length].to_vec()
}

/// A frame by the names of docs/protocol.md.
fn describe(frame: &Frame<'_>) -> Value {
    let ranges = |ranges: &mut dyn Iterator<Item = std::ops::Range<PacketNumber>>| -> Vec<[u64; 2]> {
        ranges.map(|range| [range.start.get(), range.end.get() - 1]).collect()
    };
    match frame {
        Frame::Ping => json!({"frame": "PING"}),
        Frame::Ack(ack) => json!({
            "frame": "ACK", "delay_us": ack.delay_us, "covered_from": ack.covered_from.get(), "ranges": ranges(&mut ack.ranges()),
        }),
        Frame::StopWaiting { lowest } => json!({"frame": "STOP_WAITING", "number": lowest.get()}),
        Frame::MaxData { limit } => json!({"frame": "MAX_DATA", "limit": limit.bytes()}),
        Frame::MaxStreamData { stream, limit } => {
            json!({"frame": "MAX_STREAM_DATA", "stream": stream.get(), "limit": limit.get()})
        }
        Frame::MaxNewStreamData { limit } => json!({"frame": "MAX_NEW_STREAM_DATA", "limit": limit.bytes()}),
        Frame::WatchStream { stream, to } => json!({"frame": "WATCH_STREAM", "stream": stream.get(), "to": to.get()}),
        Frame::StreamRead { stream, to } => json!({"frame": "STREAM_READ", "stream": stream.get(), "to": to.get()}),
        Frame::PathTooSmall => json!({"frame": "PATH_TOO_SMALL"}),
        Frame::OlderRanges(older) => json!({"frame": "OLDER_RANGES", "ranges": ranges(&mut older.ranges())}),
        Frame::Reset { stream, reason, final_size } => {
            json!({"frame": "RESET", "stream": stream.get(), "reason": reason.code(), "final_size": final_size.get()})
        }
        Frame::Close => json!({"frame": "CLOSE"}),
        Frame::Drain => json!({"frame": "DRAIN"}),
        Frame::Opened { streams } => json!({"frame": "OPENED", "count": streams}),
        Frame::Train => json!({"frame": "TRAIN"}),
        Frame::Arrivals(arrivals) => {
            let stamps = arrivals.stamps().map(|(number, after)| [number.get(), after.as_nanos() / 1000]);
            json!({
                "frame": "ARRIVALS", "packets": arrivals.counters.packets, "bytes": arrivals.counters.bytes, "ce": arrivals.counters.ce,
                "first_micros": arrivals.first_micros, "stamps": stamps.collect::<Vec<_>>(),
            })
        }
        Frame::Path(PathFrame::Challenge(token)) => json!({"frame": "PATH_CHALLENGE", "token": token}),
        Frame::Path(PathFrame::Response(token)) => json!({"frame": "PATH_RESPONSE", "token": token}),
        Frame::Recovered(recovered) => json!({"frame": "RECOVERED", "ranges": ranges(&mut recovered.ranges())}),
        Frame::Repair(repair) => json!({
            "frame": "REPAIR", "back": repair.back, "count": repair.count, "stride": repair.stride,
            "repair_symbols": repair.repair_symbols, "index": repair.index, "symbol": hex(repair.symbol),
        }),
        Frame::Stream { stream, offset, data, fin, .. } => {
            json!({"frame": "STREAM", "stream": stream.get(), "offset": offset.get(), "data": hex(data), "fin": fin})
        }
    }
}

/// Each frame as it is written.
fn frames() -> Vec<Vec<u8>> {
    let stream = |writer: &mut Writer<'_>, fin: bool| {
        writer.stream::<Stored>(StreamNumber::new(6), StreamOffset::new(70_000), 5, fin).copy_from_slice(b"hello")
    };
    let symbol = &[1, 2, 3, 4, 5, 6];
    let repair = RepairFrame { back: 40, count: 20, stride: 2, repair_symbols: 3, index: 1, symbol, elided: 0 };
    let counters = Counters { packets: (1 << 30) + 64_000, bytes: 90_000_000, ce: Some(9) };
    // Of reordered packets, across a turn of the counter of times.
    let stamps = [
        (70_000, (1 << 30) - 400),
        (70_012, (1 << 30) + 23_600),
        (70_004, (1 << 30) + 23_606),
        (70_020, (1 << 30) + 40_000),
    ]
    .map(|(number, micros)| (PacketNumber::new(number), micros));
    let mut filling = [0; 11];
    stream(&mut Writer::new(&mut filling), false);
    vec![
        written(|writer| assert!(writer.ping())),
        written(|writer| {
            assert!(writer.ack([90..100, 50..80, 5..6].into_iter().map(PacketNumber::range), 250, PacketNumber::new(3)))
        }),
        written(|writer| assert!(writer.ack(std::iter::once(PacketNumber::range(0..1)), 0, PacketNumber::new(0)))),
        written(|writer| assert!(writer.stop_waiting(PacketNumber::new(77)))),
        written(|writer| assert!(writer.max_data(Credit::new(1 << 40)))),
        written(|writer| assert!(writer.max_stream_data(StreamNumber::new(6), StreamOffset::new(300_000)))),
        written(|writer| assert!(writer.max_new_stream_data(Credit::new(30_000_000)))),
        written(|writer| assert!(writer.watch_stream(StreamNumber::new(6), StreamOffset::new(300_000)))),
        written(|writer| assert!(writer.stream_read(StreamNumber::new(6), StreamOffset::new(20_000)))),
        written(|writer| assert!(writer.reset(StreamNumber::new(6), ResetReason::Refused, StreamOffset::new(100)))),
        written(|writer| assert!(writer.close())),
        written(|writer| assert!(writer.drain())),
        written(|writer| assert!(writer.opened(12))),
        written(|writer| assert!(writer.train())),
        written(|writer| assert!(writer.arrivals(&counters, &stamps))),
        written(|writer| assert!(writer.arrivals(&Counters { ce: None, ..counters }, &stamps[3..]))),
        written(|writer| assert!(writer.arrivals(&Counters { ce: None, ..counters }, &[]))),
        written(|writer| assert!(writer.path(PathFrame::Challenge(0x0123_4567_89ab_cdef)))),
        written(|writer| assert!(writer.path(PathFrame::Response(0x0123_4567_89ab_cdef)))),
        written(|writer| assert!(writer.path_too_small())),
        written(|writer| {
            assert!(writer.older_ranges([20..30, 2..4].into_iter().map(PacketNumber::range)).is_some());
        }),
        written(|writer| assert!(writer.recovered([60..62, 7..8].into_iter().map(PacketNumber::range)))),
        written(|writer| assert!(writer.repair(&repair))),
        written(|writer| stream(writer, false)),
        written(|writer| stream(writer, true)),
        filling.to_vec(),
    ]
}

/// What the code makes of what no frame is.
fn refused() -> Value {
    let cases: [&[u8]; 10] = [
        &[0x1f],
        &[0x20],
        &[0x30, 1, 2],
        &[0x80, 0, 0x40, 0, 0],
        &[0x40, 1],
        &[0x40, 0x40, 2, 9],
        &[0x08, 0],
        // ARRIVALS with 41 stamps, with a number below 0, and with a CE count of version 3.
        &[0x0e, 1, 1, 1, 41, 1, 1],
        &[0x0e, 1, 1, 1, 2, 0, 1, 1, 1],
        &[0x0f, 9],
    ];
    let refused = cases.map(|frames| {
        let error: Malformed = Reader::new(frames).next().expect_err("refused");
        json!({"frames": hex(frames), "violation": Violation::from(error).to_string()})
    });
    json!(refused)
}

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_random([byte; 32])
}

fn mode_name(mode: Mode) -> &'static str {
    if mode == Mode::Encrypted { "encrypted" } else { "clear" }
}

fn cipher_name(cipher: Cipher) -> &'static str {
    if cipher == Cipher::Aes128Gcm { "aes-128-gcm" } else { "chacha20-poly1305" }
}

/// The ephemeral key that a handshake makes of a generator with this seed.
fn ephemeral(seed: u8) -> [u8; 32] {
    SecureRandom::new([seed; 32]).fork().fork().block()
}

/// One handshake, whose sides speak these versions; with all that someone needs to make the same.
fn handshake(name: &str, (mode, cipher): (Mode, Cipher), versions: [Versions; 2], padded: Option<usize>) -> Value {
    let ends = [1, 2].map(|byte| Identity::new(key(byte), mode, cipher, versions[usize::from(byte) - 1]));
    let [near, far] = &ends;
    let parameters = |epoch: u64, capabilities| TransportParameters {
        epoch,
        timestamp: 1_700_000_000_000_000_000 + epoch,
        session_credit: Credit::new(32 << 20),
        stream_credit: Credit::new(1 << 20),
        max_streams: 16_384,
        capabilities,
        session: None,
    };
    let (first, second) = (parameters(1 << 62 | 10, Capabilities::NONE), parameters(1 << 62 | 20, Capabilities::NONE));
    let acquaintance = near.acquaintance(&far.public).expect("a secret");
    let echo = if padded.is_some() { [9; 16] } else { [0; 16] };
    let initiated = near.initiate(
        (&far.public, &acquaintance),
        &first,
        (0x1111_0003, padded, 0),
        (None, echo),
        &mut SecureRandom::new([3; 32]),
    );
    let (init, mut pending) = initiated.expect("an init");
    let received = far.receive(&init, &mut SecureRandom::new([4; 32])).expect("authentic");
    let (response, at_far): (_, Agreement<DataKey>) =
        far.respond(received, &second, (0x2222_0005, padded)).expect("a response");
    let at_near: Agreement<DataKey> = near.complete(&mut pending, &response).expect("authentic");
    assert_eq!((at_near.secrets.send, at_near.secrets.receive), (at_far.secrets.receive, at_far.secrets.send));
    for (datagram, seed) in [(&init, 3), (&response, 4)] {
        let public = PrivateKey::from_random(ephemeral(seed)).public_key();
        assert_eq!(noise_message(datagram).expect("a message")[..32], public.as_bytes()[..]);
    }
    let limits = |parameters: &TransportParameters| {
        json!({
            "epoch": format!("{:016x}", parameters.epoch), "time": parameters.timestamp, "session_credit": parameters.session_credit.bytes(),
            "stream_credit": parameters.stream_credit.bytes(), "max_streams": parameters.max_streams,
        })
    };
    json!({
        "name": name,
        "mode": mode_name(mode),
        "cipher": cipher_name(cipher),
        "initiator": {
            "private_key": hex(key(1).as_bytes()), "public_key": hex(near.public.as_bytes()), "ephemeral": hex(&ephemeral(3)),
            "versions": versions[0].encode(), "index": 0x1111_0003, "limits": limits(&first), "echo": hex(&echo),
        },
        "responder": {
            "private_key": hex(key(2).as_bytes()), "public_key": hex(far.public.as_bytes()), "ephemeral": hex(&ephemeral(4)),
            "versions": versions[1].encode(), "index": 0x2222_0005, "limits": limits(&second),
        },
        "static_secret": hex(&key(1).shared_secret(&far.public).expect("a secret")),
        "init": hex(&init),
        "response": hex(&response),
        "version": at_near.version,
        "initiator_secret": hex(&at_near.secrets.send),
        "responder_secret": hex(&at_near.secrets.receive),
        "initiator_key": hex(&at_near.secrets.suite.key(&at_near.secrets.send)),
        "responder_key": hex(&at_near.secrets.suite.key(&at_near.secrets.receive)),
    })
}

fn handshakes() -> Value {
    let range = |oldest, newest| Versions::new(oldest, newest).expect("a range");
    let (encrypted, clear) = ((Mode::Encrypted, Cipher::Aes128Gcm), (Mode::Clear, Cipher::ChaCha20Poly1305));
    json!([
        handshake("plain", encrypted, [range(4, 4); 2], None),
        handshake("in clear", clear, [range(4, 4); 2], None),
        handshake("padded, after a clock challenge", encrypted, [range(4, 4); 2], Some(300)),
        handshake("of two versions", encrypted, [range(4, 5), range(4, 4)], None),
        handshake("of version 5, in clear", (Mode::Clear, Cipher::Aes128Gcm), [range(4, 5); 2], None),
    ])
}

/// A cookie reply and notices, which answer the first handshake's init.
fn replies() -> Value {
    let init = bytes(&handshakes()[0]["init"]);
    let [near, far] = [1, 2].map(key);
    let versions = Versions::new(5, 6).expect("a range");
    let random = || SecureRandom::new([7; 32]);
    let acquaintance = Acquaintance::new(&far, &near.public_key()).expect("a secret");
    let challenge = Notice::Challenge { echo: [9; 16], unix_time: 1_700_000_000_000_000_000 };
    let notice = |name: &str, notice: &Notice| json!({"name": name, "notice": hex(&acquaintance.notice(notice, &init, &mut random()))});
    let unproven = unproven_versions(&init, &far.public_key(), versions, &mut random());
    json!({
        "nonce": hex(&random().bytes::<12>()),
        "cookie": hex(&[6; 16]),
        "cookie_reply": hex(&seal_cookie(&[6; 16], &init, &far.public_key(), &mut random())),
        "notices": [
            notice("clock challenge", &challenge),
            notice("other mode", &Notice::OtherMode),
            notice("versions 5 to 6", &Notice::OtherVersions(versions)),
            {"name": "versions 5 to 6, unproven", "notice": hex(&unproven)},
        ],
    })
}

/// Packets of each version, mode and cipher.
fn packets() -> Value {
    let both = |mode| [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305].map(|cipher| (mode, cipher));
    let suites = [both(Mode::Encrypted), both(Mode::Clear)].concat();
    let versions = Versions::SPOKEN.oldest()..=Versions::SPOKEN.newest();
    let of_version = |version| suites.iter().map(move |&(mode, cipher)| packet(Suite { version, mode, cipher }));
    versions.flat_map(of_version).collect()
}

fn packet(suite: Suite) -> Value {
    let (secret, number) = ([5; 32], (7u64 << 32) + 258);
    let frames = written(|writer| {
        assert!(writer.ping());
        writer.stream::<Stored>(StreamNumber::new(6), StreamOffset::new(0), 5, true).copy_from_slice(b"hello");
    });
    let mut packet = vec![0; DATA_HEADER + frames.len() + TAG];
    DataHeader { receiver: 0x2222_0005, number_low: number as u32 }.write(&mut packet);
    packet[DATA_HEADER..DATA_HEADER + frames.len()].copy_from_slice(&frames);
    DataKey::derive(&secret, suite).seal(PacketNumber::new(number), &mut packet, 0);
    json!({
        "mode": mode_name(suite.mode), "cipher": cipher_name(suite.cipher), "version": suite.version, "secret": hex(&secret),
        "key": hex(&suite.key(&secret)), "receiver": 0x2222_0005, "number": number, "frames": hex(&frames),
        "packet": hex(&packet),
    })
}

/// All that the code says.
fn made() -> Value {
    let frames: Vec<Value> = frames()
        .iter()
        .map(|bytes| {
            let frame = Reader::new(bytes).next().expect("well formed").expect("a frame");
            json!({"bytes": hex(bytes), "means": describe(&frame)})
        })
        .collect();
    let varints = [0, 37, 63, 64, 15_293, 16_383, 16_384, 494_878_333, 1 << 30, varint::MAX].map(|value| {
        let mut out = [0; 8];
        let length = varint::write(value, &mut out);
        json!({"value": value, "bytes": hex(&out[..length])})
    });
    json!({
        "varints": varints,
        "frames": frames,
        "skipped": [{"frames": "017ffe0309090901", "skipped": 1, "means": [{"frame": "PING"}, {"frame": "PING"}]}],
        "refused": refused(),
        "handshakes": handshakes(),
        "replies": replies(),
        "packets": packets(),
        "repair": crate::repair::documented::vector(),
    })
}

#[test]
fn vectors_are_what_the_code_writes() {
    VECTORS.check(&made());
}

#[test]
fn vectors_of_frames_are_read_as_they_say() {
    let known = VECTORS.read();
    for vector in known["varints"].as_array().expect("a list") {
        assert_eq!(varint::read(&mut &bytes(&vector["bytes"])[..]), vector["value"].as_u64(), "{vector}");
    }
    for vector in known["frames"].as_array().expect("a list") {
        let bytes = bytes(&vector["bytes"]);
        let mut reader = Reader::new(&bytes);
        let frame = reader.next().expect("well formed").expect("a frame");
        assert_eq!((describe(&frame), reader.next()), (vector["means"].clone(), Ok(None)));
    }
    for vector in known["skipped"].as_array().expect("a list") {
        let bytes = bytes(&vector["frames"]);
        let mut reader = Reader::new(&bytes);
        let frames: Vec<Value> = std::iter::from_fn(|| Some(describe(&reader.next().expect("well formed")?))).collect();
        assert_eq!((json!(frames), Some(reader.skipped())), (vector["means"].clone(), vector["skipped"].as_u64()));
    }
}

#[test]
fn vectors_of_packets_open_and_name_their_frames() {
    for vector in VECTORS.read()["packets"].as_array().expect("a list") {
        let mode = if vector["mode"] == "clear" { Mode::Clear } else { Mode::Encrypted };
        let cipher = if vector["cipher"] == "aes-128-gcm" { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 };
        let secret: [u8; 32] = bytes(&vector["secret"]).try_into().expect("32 bytes");
        let version = vector["version"].as_u64().expect("a version") as u8;
        let key = DataKey::derive(&secret, Suite { version, mode, cipher });
        let (mut packet, number) = (bytes(&vector["packet"]), vector["number"].as_u64().expect("a number"));
        let header = DataHeader::read(&packet, packet.len()).expect("a header");
        assert_eq!(
            (u64::from(header.receiver), header.number_low),
            (vector["receiver"].as_u64().expect("an index"), number as u32)
        );
        assert_eq!(key.open(PacketNumber::new(number), &mut packet), Ok(&bytes(&vector["frames"])[..]));
    }
}

#[test]
fn vectors_of_handshakes_and_replies_are_read() {
    let known = VECTORS.read();
    for vector in known["handshakes"].as_array().expect("a list") {
        let mode = if vector["mode"] == "clear" { Mode::Clear } else { Mode::Encrypted };
        let cipher = if vector["cipher"] == "aes-128-gcm" { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 };
        let versions = |side: &Value| {
            let [oldest, newest] = [0, 1].map(|at| side["versions"][at].as_u64().expect("a version") as u8);
            Versions::new(oldest, newest).expect("a range")
        };
        let far = Identity::new(key(2), mode, cipher, versions(&vector["responder"]));
        let init = bytes(&vector["init"]);
        let received = far.receive(&init, &mut SecureRandom::new([8; 32])).expect("authentic");
        let public = PublicKey::from_bytes(bytes(&vector["initiator"]["public_key"]).try_into().expect("32 bytes"));
        assert_eq!((received.initiator, received.versions), (public, versions(&vector["initiator"])));
        assert_eq!(hex(&received.echo), vector["initiator"]["echo"]);
        let limits = &vector["initiator"]["limits"];
        assert_eq!(Some(received.parameters.timestamp), limits["time"].as_u64());
        assert_eq!(Some(received.parameters.session_credit.bytes()), limits["session_credit"].as_u64());
        // A masked time and a MAC that vouch for the initiator.
        let acquaintance = far.acquaintance(&public).expect("a secret");
        assert_eq!(acquaintance.vouches(&init), limits["time"].as_u64());
        let jar = CookieJar::new(&mut SecureRandom::new([8; 32]));
        assert!(!jar.has_valid_mac2(&init, &"198.51.100.1:4500".parse().expect("an address")));
    }
}
