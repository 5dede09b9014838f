//! A recorded session of `satpep`, read with the key log of one of its gateways.

use super::{Packet, Scratch, has_tshark, pcap, tshark};
use satpep::{Cipher, Endpoint, EndpointConfig, Event, Mode, PeerConfig, PrivateKey, ResetReason, Versions};
use std::net::SocketAddr;
use std::path::Path;
use units::{Duration, Instant, Rate};

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// What two gateways sent each other, and the keys that the first of them logged.
#[derive(Default)]
struct Recording {
    /// When, from which of them, and what.
    datagrams: Vec<(Instant, usize, Vec<u8>)>,
    keys: Vec<String>,
}

/// Half a second in which gateway 1 calls gateway 0, opens two streams, ends one and resets the other.
fn record(mode: Mode, cipher: Cipher, versions: [Versions; 2]) -> Recording {
    let rate = Rate::from_bps(10_000_000);
    let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
    let mut peer = None;
    let mut ends = [0, 1].map(|index| {
        let mut config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(50));
        (config.mode, config.cipher, config.versions) = (mode, cipher, versions[index]);
        config.export_keys = index == 0;
        let mut endpoint = Endpoint::new(config, start(), 1 << 60, [index as u8; 32]);
        let call = (index == 1).then(|| address(0));
        peer = Some(endpoint.add_peer(start(), PeerConfig::new(key(1 - index).public_key(), call)).expect("one peer"));
        endpoint
    });
    let peer = peer.expect("both have one");
    let mut recording = Recording::default();
    let (mut buffer, mut streams) = (vec![0; 65_536], Vec::new());
    for millisecond in 0..500 {
        let now = start() + Duration::from_millis(millisecond);
        match millisecond {
            100 => {
                streams = (0..2).filter_map(|_| ends[1].open(now, peer).ok()).collect();
                streams.iter().for_each(|id| assert_eq!(ends[1].write(now, *id, b"GET / HTTP/1.1\r\n"), 16));
            }
            150 if !streams.is_empty() => ends[1].finish(now, streams[0]),
            300 if !streams.is_empty() => ends[1].reset(now, streams[1], ResetReason::Aborted),
            _ => {}
        }
        for from in 0..2 {
            ends[from].handle_timeout(now);
            while let Some(event) = ends[from].poll_event() {
                if let Event::Readable(id) = event {
                    ends[from].consume(now, id, 16);
                }
            }
            while let Some(transmit) = ends[from].poll_transmit(now, &mut buffer) {
                for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
                    recording.datagrams.push((now, from, datagram.to_vec()));
                    ends[1 - from].handle_datagram(now, address(from), datagram);
                }
            }
        }
        recording.keys.extend(std::iter::from_fn(|| ends[0].poll_key()).map(|key| key.to_string()));
    }
    recording
}

impl Recording {
    fn pcap(&self) -> Vec<u8> {
        let packet = |(at, from, datagram): &(Instant, usize, Vec<u8>)| {
            let mut udp = [4500, 4500, 8 + datagram.len() as u16, 0].map(u16::to_be_bytes).concat();
            udp.extend(datagram);
            Packet { at: *at, ends: [address(*from), address(1 - *from)], protocol: 17, payload: udp }
        };
        pcap(self.datagrams.iter().map(packet))
    }
}

/// The fields of each datagram, by name, as tshark reads them; values of one field are separated by commas.
fn fields(scratch: &Scratch, recording: &Recording, key_log: Option<&Path>, names: &[&str]) -> Vec<Vec<String>> {
    let pcap = scratch.write("session.pcap", recording.pcap());
    let preference = format!("bentpipe.key_log:{}", key_log.map(|path| path.display().to_string()).unwrap_or_default());
    let mut arguments = vec!["-r", pcap.to_str().expect("text"), "-o", &preference, "-T", "fields"];
    names.iter().for_each(|name| arguments.extend(["-e", name]));
    let text = tshark(scratch, &arguments);
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn range(oldest: u8, newest: u8) -> Versions {
    Versions::new(oldest, newest).expect("a range")
}

const SUITES: [(Mode, Cipher); 4] = [
    (Mode::Encrypted, Cipher::Aes128Gcm),
    (Mode::Encrypted, Cipher::ChaCha20Poly1305),
    (Mode::Clear, Cipher::Aes128Gcm),
    (Mode::Clear, Cipher::ChaCha20Poly1305),
];

#[test]
fn every_mode_and_cipher_is_read_with_a_key_log() {
    if !has_tshark() {
        return;
    }
    for (mode, cipher) in SUITES {
        let scratch = Scratch::new(&format!("{mode:?}-{cipher:?}"));
        let recording = record(mode, cipher, [range(3, 4), range(3, 3)]);
        let keys = scratch.write("keys", recording.keys.join("\n") + "\n");
        let names = [
            "bentpipe.type",
            "bentpipe.oldest",
            "bentpipe.version",
            "bentpipe.number",
            "bentpipe.decrypted",
            "bentpipe.frame",
            "bentpipe.stream",
            "bentpipe.data",
            "bentpipe.reason",
            "_ws.malformed",
            "bentpipe.stamp",
        ];
        let read = fields(&scratch, &recording, Some(&keys), &names);
        assert_eq!(read.len(), recording.datagrams.len());
        assert_eq!(read[0][..3], ["1", "3", ""], "an init");
        assert_eq!(read[1][..3], ["2", "", "3"], "a response in the highest common version");
        let packets: Vec<_> = read.iter().filter(|datagram| datagram[0] == "4").collect();
        assert!(packets.len() > 5, "{packets:?}");
        assert!(packets.iter().all(|packet| packet[4] == "1" && !packet[5].is_empty()), "{packets:?}");
        assert!(read.iter().all(|datagram| datagram[9].is_empty()), "{read:?}");
        let all = |at: usize| packets.iter().flat_map(move |packet| packet[at].split(','));
        let hello: String = b"GET / HTTP/1.1\r\n".iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(all(7).filter(|data| data.replace(':', "") == hello).count() >= 2);
        assert!(all(8).any(|reason| reason == "5"), "a reset");
        assert!(all(10).any(|stamp| stamp.ends_with(" us")), "an arrival: {packets:?}");
        for frame in ["0x00000001", "0x00000002", "0x00000006", "0x0000000e"] {
            assert!(all(5).any(|seen| seen == frame), "{frame}: {:?}", all(5).collect::<Vec<_>>());
        }
        let first = packets.iter().map(|packet| packet[3].clone()).next();
        assert_eq!(first.as_deref(), Some("0"), "numbers begin at 0");
    }
}

#[test]
fn frames_of_the_newest_version_are_read_and_tags_of_aegis_are_not_checked() {
    if !has_tshark() {
        return;
    }
    for (mode, cipher) in SUITES {
        let scratch = Scratch::new(&format!("newest-{mode:?}-{cipher:?}"));
        let mut recording = record(mode, cipher, [Versions::SPOKEN; 2]);
        let keys = scratch.write("keys", recording.keys.join("\n") + "\n");
        // Of a recording that began after the handshake, the key log alone says the mode.
        recording.datagrams.retain(|(_, _, datagram)| datagram[0] == 4);
        let names = ["bentpipe.decrypted", "bentpipe.frame"];
        let read = fields(&scratch, &recording, Some(&keys), &names);
        let is_checked = (mode, cipher) != (Mode::Clear, Cipher::Aes128Gcm);
        let checked = if is_checked { "1" } else { "0" };
        assert!(read.len() > 5 && read.iter().all(|packet| packet[0] == checked && !packet[1].is_empty()), "{read:?}");
    }
}

#[test]
fn without_keys_headers_are_read_and_of_mode_clear_the_frames() {
    if !has_tshark() {
        return;
    }
    for (mode, are_read) in [(Mode::Encrypted, false), (Mode::Clear, true)] {
        let scratch = Scratch::new(&format!("keyless-{mode:?}"));
        let recording = record(mode, Cipher::Aes128Gcm, [range(3, 3); 2]);
        let names =
            ["bentpipe.type", "bentpipe.receiver", "bentpipe.decrypted", "bentpipe.frame", "bentpipe.number_low"];
        let read = fields(&scratch, &recording, None, &names);
        let mut packets = read.iter().filter(|datagram| datagram[0] == "4");
        assert!(packets.all(|packet| {
            let has_header = !packet[1].is_empty() && !packet[4].is_empty();
            has_header && packet[2] == "0" && packet[3].is_empty() != are_read
        }));
    }
}

#[test]
fn a_key_log_is_empty_unless_it_is_asked_for() {
    let recording = record(Mode::Encrypted, Cipher::Aes128Gcm, [range(3, 3); 2]);
    assert_eq!(recording.keys.len(), 2, "one handshake, two directions");
    assert!(recording.keys.iter().all(|line| line.starts_with("SATPEP_KEY ")));
    let rate = Rate::from_bps(1_000_000);
    let config = EndpointConfig::new(PrivateKey::from_random([1; 32]), rate, rate, Duration::from_millis(50));
    assert!(!config.export_keys);
}

#[test]
fn the_ciphers_of_the_dissector_are_those_of_their_standards() {
    if !has_tshark() {
        return;
    }
    // NIST's GCM test case 4 (McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B), and RFC 8439, section 2.8.2.
    let script = r#"
local function unhex(text) return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)) end
local function hex(text) return text and (text:gsub(".", function(c) return string.format("%02x", c:byte()) end)) or "refused" end
local function open(cipher, key, nonce, aad, sealed) print(hex(bentpipe_aead[cipher](unhex(key), unhex(nonce), unhex(aad), unhex(sealed)))) end
local gcm = { "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091" }
open("aes-128-gcm", gcm[1], gcm[2], gcm[3], gcm[4] .. "5bc94fbc3221a5db94fae95ae7121a47")
open("aes-128-gcm", gcm[1], gcm[2], gcm[3], gcm[4] .. "5bc94fbc3221a5db94fae95ae7121a46")
local chacha = { "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647",
    "50515253c0c1c2c3c4c5c6c7", "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92" ..
    "728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d2" ..
    "6586cec64b6116" }
open("chacha20-poly1305", chacha[1], chacha[2], chacha[3], chacha[4] .. "1ae10b594f09e26a7e902ecbd0600691")
open("chacha20-poly1305", chacha[1], chacha[2], chacha[3], chacha[4] .. "1ae10b594f09e26a7e902ecbd0600690")
"#;
    let scratch = Scratch::new("ciphers");
    let (script, pcap) = (scratch.write("test.lua", script), scratch.write("empty.pcap", Recording::default().pcap()));
    let second = format!("lua_script:{}", script.display());
    let text = tshark(&scratch, &["-X", &second, "-r", pcap.to_str().expect("text")]);
    let sunscreen = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    let sunscreen: String = sunscreen.iter().map(|byte| format!("{byte:02x}")).collect();
    let gcm = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    assert_eq!(text.lines().collect::<Vec<_>>(), [gcm, "refused", &sunscreen, "refused"]);
}
